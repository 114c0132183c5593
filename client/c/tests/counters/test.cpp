// The backend for lemire's `counters`, used as that library's users use it. What is to be counted is
// what the workloads say, of which a modelled machine does nothing but them. The argument is how
// many of the five events this model counts at once, or 0 where the library is not to be found.
#include "event_counter.h"
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <type_traits>

using counters::HalprofEvents;
static_assert(!std::is_copy_constructible_v<HalprofEvents>, "it would close twice");
static_assert(std::is_nothrow_default_constructible_v<HalprofEvents>);
static_assert(noexcept(std::declval<HalprofEvents &>().start()));

#define MUST(what)                                             \
  do {                                                         \
    if (!(what)) {                                             \
      std::printf("line %d: %s\n", __LINE__, #what);           \
      std::exit(1);                                            \
    }                                                          \
  } while (0)

// As simdjson has one; with events before main(), and destroyed after it.
static counters::event_collector collector;
static const bool before_main = collector.has_events();

static size_t events;

// A share of the machine that the backend measures on, to make it work.
class machine {
public:
  machine() {
    static const char *names[] = {"cycles:u", "instructions:u", "branches:u", "branch-misses:u",
                                  "cache-misses:u"};
    std::string list = names[0];
    for (size_t event = 1; event < events; event++) {
      list += std::string(",") + names[event];
    }
    void *library = dlopen("libhalprof_c.so", RTLD_NOW);
    if (library) {
      workload = reinterpret_cast<decltype(workload)>(dlsym(library, "halprof_counts_workload"));
      const auto &functions = counters::halprof_library::get();
      MUST(functions.open(1, COUNTERS_HALPROF_MACHINE, list.c_str(), &handle) == 0);
    }
  }
  ~machine() {
    if (handle) {
      counters::halprof_library::get().close(handle);
    }
  }
  void work(const char *what) const {
    if (handle) {
      MUST(workload(handle, what) == 0);
    }
  }

private:
  counters::halprof_library::handle *handle = nullptr;
  int32_t (*workload)(const counters::halprof_library::handle *, const char *) = nullptr;
};

static void must_be(const counters::event_count &count, std::array<double, 5> expected) {
  for (size_t slot = events; slot < 5; slot++) {
    expected[slot] = 0;
  }
  const std::array<double, 5> counted = {count.cycles(), count.instructions(), count.branches(),
                                         count.branch_misses(), count.cache_misses()};
  MUST(counted == expected && count.event_counts.size() == 5);
}

static const char *SMALL = "cycles=300,instructions=500,branches=70,branch-misses=20,llc-misses=10";
static const char *LARGE = "cycles=4000,instructions=6000,branches=900,branch-misses=80,"
                           "llc-misses=50";

// Two collectors on one thread do not disturb each other.
static void nested() {
  static thread_local counters::event_collector outer, inner;
  const machine machine;
  outer.start();
  machine.work(LARGE);
  inner.start();
  machine.work(SMALL);
  must_be(inner.end(), {300, 500, 70, 20, 10});
  machine.work(SMALL);
  must_be(outer.end(), {4600, 7000, 1040, 120, 70});
}

int main(int, char **arguments) {
  events = std::strtoul(arguments[1], nullptr, 10);
  MUST(before_main == (events != 0));
  MUST(counters::has_performance_counters() == before_main);
  nested();
  std::thread(nested).join();

  const machine machine;
  counters::event_aggregate aggregate;
  for (const char *workload : {SMALL, LARGE, SMALL}) {
    collector.start();
    MUST(counters::has_performance_counters() == before_main);
    machine.work(workload);
    aggregate << collector.end();
  }
  must_be(aggregate.total, {4600, 7000, 1040, 120, 70});
  MUST(aggregate.iterations == 3 && aggregate.best.elapsed <= aggregate.total.elapsed / 3);

  // Another thread's collector gives nothing rather than what this thread did.
  std::thread([&] { collector.start(); }).join();
  machine.work(SMALL);
  must_be(collector.end(), {0, 0, 0, 0, 0});
  std::puts("done");
}
