// Cycles and instructions of each iteration as user counters of google/benchmark: README.md has the
// command. It counts with the installed driver or, without one, by Windows' own tracing; on other systems
// it counts on a modelled machine. HALPROF_MACHINE names another machine.
#include "halprof.h"
#include <array>
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <string>

// What the thread that makes this counts, until report(): a batch of iterations.
class Counts {
public:
  explicit Counts(benchmark::State &state) : state(state) {
    // Without the driver, user and kernel mode are counted together.
    const char *machine = std::getenv("HALPROF_MACHINE");
    if ((halprof_counts_open(HALPROF_ABI, machine, "cycles:u,instructions:u", &counts) &&
         halprof_counts_open(HALPROF_ABI, machine, "cycles,instructions", &counts)) ||
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

  // A model runs no code, but the workload that it is given.
  bool modelled() const { return halprof_counts_modelled(counts); }
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
    state.SetLabel(label(instructions));
  }

private:
  // What there is to know about the counts of a batch with so many instructions.
  std::string label(double instructions) const {
    std::array<uint64_t, 2> spread{};
    std::string label = modelled() ? "modelled machine, not silicon" : "";
    if (halprof_counts_method(counts) == HALPROF_TRACING) {
      label += label.empty() ? "by context switches, with the kernel" : "; by context switches";
      if (halprof_counts_spread(counts, spread.data(), spread.size()) == HALPROF_OK &&
          instructions < 20.0 * static_cast<double>(spread[1])) {
        label += "; too short a batch";
      }
    }
    return label;
  }

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
