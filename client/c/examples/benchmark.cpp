// Cycles and instructions of each iteration as user counters of google/benchmark: README.md has the
// command. It counts with the installed driver, or on a modelled machine if this is not Windows.
#include "halprof.h"
#include <array>
#include <benchmark/benchmark.h>
#include <cstdio>

// What the thread that makes this counts, until report().
class Counts {
public:
  explicit Counts(benchmark::State &state) : state(state) {
    if (halprof_counts_open(HALPROF_ABI, nullptr, "cycles:u,instructions:u", &counts) ||
        halprof_counts_read(counts, before.data(), before.size())) {
      state.SkipWithError(halprof_error());
    }
  }
  Counts(const Counts &) = delete;
  Counts &operator=(const Counts &) = delete;
  ~Counts() {
    if (counts) {
      halprof_counts_close(counts);
    }
  }

  // A model runs no threads, but the workload that it is given.
  bool modelled() const { return halprof_counts_method(counts) == HALPROF_PROCESSORS; }
  void work(const char *workload) const { halprof_counts_workload(counts, workload); }

  void report() {
    std::array<uint64_t, 3> after{};
    if (!counts || halprof_counts_read(counts, after.data(), after.size())) {
      return;
    }
    if (after[2] != before[2]) {
      state.SetLabel("counts were missed: the thread was switched, or the machine slept");
      return;
    }
    const double cycles = static_cast<double>(after[0] - before[0]);
    const double instructions = static_cast<double>(after[1] - before[1]);
    using benchmark::Counter;
    state.counters["cycles"] = Counter(cycles, Counter::kAvgIterations);
    state.counters["instructions"] = Counter(instructions, Counter::kAvgIterations);
    // The other counters are summed over threads; a ratio is not.
    state.counters["ipc"] = Counter(cycles ? instructions / cycles : 0, Counter::kAvgThreads);
    if (modelled()) {
      state.SetLabel("modelled machine, not silicon");
    }
  }

private:
  benchmark::State &state;
  halprof_counts *counts = nullptr;
  std::array<uint64_t, 3> before{}; // The last is how often counts were missed.
};

static void sum(benchmark::State &state) {
  Counts counts(state);
  for (auto _ : state) {
    if (counts.modelled()) {
      counts.work("instructions=5000,cycles=2000");
      continue;
    }
    uint64_t sum = 0;
    for (uint64_t term = 0; term < 1000; term++) {
      benchmark::DoNotOptimize(sum += term);
    }
  }
  counts.report();
}
BENCHMARK(sum);
BENCHMARK_MAIN();
