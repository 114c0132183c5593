// A stand-in for event_counter.h of lemire's `counters`, version 4.1.0, for the test of the example
// windows-halprof-events.h: what that header's users see, written from a description of its
// interface. It is not that project's code, and it uses the backend on every system.
#pragma once

#include "windows-halprof-events.h"
#include <chrono>
#include <vector>

namespace counters {

struct event_count {
  enum event_counter_types { CPU_CYCLES, INSTRUCTIONS, BRANCH, BRANCH_MISSES, CACHE_MISSES };

  std::chrono::duration<double> elapsed{};
  std::vector<unsigned long long> event_counts = {0, 0, 0, 0, 0};

  double elapsed_ns() const { return elapsed.count() * 1e9; }
  double cycles() const { return double(event_counts[CPU_CYCLES]); }
  double instructions() const { return double(event_counts[INSTRUCTIONS]); }
  double branches() const { return double(event_counts[BRANCH]); }
  double branch_misses() const { return double(event_counts[BRANCH_MISSES]); }
  double cache_misses() const { return double(event_counts[CACHE_MISSES]); }

  // All five slots, without a check.
  event_count operator+(const event_count &other) const {
    event_count sum = *this;
    sum.elapsed += other.elapsed;
    for (size_t slot = 0; slot < 5; slot++) {
      sum.event_counts[slot] += other.event_counts[slot];
    }
    return sum;
  }
};

struct event_aggregate {
  int iterations = 0;
  event_count total, best;

  void operator<<(const event_count &one) {
    if (iterations == 0 || one.elapsed < best.elapsed) {
      best = one;
    }
    iterations++;
    total = total + one;
  }

  double instructions() const { return total.instructions() / iterations; }
};

struct event_collector {
  event_count count{};
  std::chrono::time_point<std::chrono::steady_clock> start_clock{};
  HalprofEvents events;

  bool has_events() { return events.has_events(); }

  void start() {
    events.start();
    start_clock = std::chrono::steady_clock::now();
  }

  event_count &end() {
    const auto end_clock = std::chrono::steady_clock::now();
    count.elapsed = end_clock - start_clock;
    events.end(count.event_counts);
    return count;
  }
};

inline bool has_performance_counters() { return event_collector().has_events(); }

} // namespace counters
