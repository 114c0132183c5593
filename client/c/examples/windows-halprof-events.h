// Hardware counters on Windows for lemire's `counters`: what the calling thread counts in user mode,
// read at the start and at the end, and subtracted. README.md shows where event_counter.h uses it.
// Without halprof's library or driver there are no events.
#ifndef COUNTERS_WINDOWS_HALPROF_EVENTS_H
#define COUNTERS_WINDOWS_HALPROF_EVENTS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(_WIN32)
// As windows.h declares them, which would define macros such as `min`.
struct HINSTANCE__;
extern "C" __declspec(dllimport) HINSTANCE__ *__stdcall LoadLibraryExA(const char *, void *,
                                                                       unsigned long);
extern "C" __declspec(dllimport) long long(__stdcall *__stdcall GetProcAddress(HINSTANCE__ *,
                                                                               const char *))();
#else
#include <dlfcn.h>
#endif

// Where to measure: the installed driver. Tests name a model of halprof instead.
#if !defined(COUNTERS_HALPROF_MACHINE)
#define COUNTERS_HALPROF_MACHINE nullptr
#endif

namespace counters {

// The functions of halprof's library that are used here, as halprof.h declares them.
struct halprof_library {
  struct handle;
  static constexpr uint32_t abi = 1;

  int32_t (*open)(uint32_t, const char *, const char *, handle **) = nullptr;
  int32_t (*read)(const handle *, uint64_t *, size_t) = nullptr;
  int32_t (*close)(handle *) = nullptr;

  // Loaded when it is first asked for, and never unloaded: collectors are made before main() and
  // destroyed after it.
  static const halprof_library &get() noexcept {
    static const halprof_library library;
    return library;
  }

  bool is_there() const noexcept { return open && read && close; }

private:
  halprof_library() noexcept {
#if defined(_WIN32)
    // LOAD_LIBRARY_SEARCH_DEFAULT_DIRS: never from the current directory.
    HINSTANCE__ *library = LoadLibraryExA("halprof_c.dll", nullptr, 0x1000);
#else
    void *library = dlopen("libhalprof_c.so", RTLD_NOW);
#endif
    if (library) {
      find(library, "halprof_counts_open", open);
      find(library, "halprof_counts_read", read);
      find(library, "halprof_counts_close", close);
    }
  }

  template <typename Library, typename Function>
  static void find(Library library, const char *name, Function &function) noexcept {
#if defined(_WIN32)
    function = reinterpret_cast<Function>(reinterpret_cast<void *>(GetProcAddress(library, name)));
#else
    function = reinterpret_cast<Function>(dlsym(library, name));
#endif
  }
};

// The counters of the thread that asks first.
class HalprofEvents {
public:
  HalprofEvents() noexcept = default;
  HalprofEvents(const HalprofEvents &) = delete;
  HalprofEvents &operator=(const HalprofEvents &) = delete;

  ~HalprofEvents() {
    if (handle) {
      halprof_library::get().close(handle);
    }
  }

  // Whether there are cycles and instructions, and perhaps more.
  bool has_events() noexcept {
    if (!tried) {
      tried = true;
      open();
    }
    return handle != nullptr;
  }

  void start() noexcept {
    if (has_events()) {
      before = read();
    }
  }

  // Fills all slots: an event that is not counted is 0, and all are if any count was missed because
  // the thread was switched where that cannot be made good, or the machine slept.
  void end(std::vector<unsigned long long> &results) noexcept {
    const reading after = handle ? read() : reading{};
    const bool whole = before.valid && after.valid && before.gaps(events) == after.gaps(events);
    for (size_t slot = 0; slot < results.size(); slot++) {
      const bool counted = whole && slot < events;
      results[slot] = counted ? after.values[slot] - before.values[slot] : 0;
    }
  }

private:
  static constexpr size_t slots = 5;

  struct reading {
    // One for each event, and then how often counts were missed.
    std::array<uint64_t, slots + 1> values{};
    bool valid = false;

    uint64_t gaps(size_t events) const noexcept { return values[events]; }
  };

  // The more events, the fewer processors count them at once: the last are left out first.
  void open() noexcept {
    // The order is that of `event_counter_types`.
    static constexpr const char *lists[] = {
        "cycles:u,instructions:u,branches:u,branch-misses:u,cache-misses:u",
        "cycles:u,instructions:u,branches:u,branch-misses:u",
        "cycles:u,instructions:u,branches:u",
        "cycles:u,instructions:u",
    };
    const halprof_library &library = halprof_library::get();
    if (!library.is_there()) {
      return;
    }
    events = slots;
    for (const char *list : lists) {
      if (library.open(library.abi, COUNTERS_HALPROF_MACHINE, list, &handle) == 0) {
        return;
      }
      events--;
    }
  }

  reading read() const noexcept {
    reading now;
    now.valid = halprof_library::get().read(handle, now.values.data(), events + 1) == 0;
    return now;
  }

  halprof_library::handle *handle = nullptr;
  size_t events = 0;
  bool tried = false;
  reading before;
};

} // namespace counters

#endif
