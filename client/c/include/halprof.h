/* Made from client/c/src/lib.rs, which says what holds for all of it. */

#ifndef HALPROF_H
#define HALPROF_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface: `halprof_open` takes it.
#define HALPROF_ABI 1

// What was asked for is done.
#define HALPROF_OK 0

// It is not: see `halprof_error`.
#define HALPROF_FAILED -1

// Counts come from the best way that works.
#define HALPROF_BEST 0

// Of the thread alone, by Windows' thread profiling.
#define HALPROF_THREAD_PROFILING 1

// Of the thread alone, by RDPMC between two context switches.
#define HALPROF_RDPMC 2

// Of whole processors.
#define HALPROF_PROCESSORS 3

// A report as a table for people.
#define HALPROF_TABLE 0

// A report as CSV, with a head.
#define HALPROF_CSV 1

// A report as one JSON object.
#define HALPROF_JSON 2

// Marks on it are none.
#define HALPROF_NO_CHANNEL UINT32_MAX

// A machine, and what is counted on it. Any thread may use it.
typedef struct halprof halprof;

// The regions of one thread, which alone may use it.
typedef struct halprof_thread halprof_thread;

// What an overflow recorded.
typedef struct halprof_sample {
  // The time-stamp counter.
  uint64_t timestamp;
  // The address of the instruction, or 0.
  uint64_t address;
  // Events that it stands for.
  uint64_t period;
  // The process.
  uint32_t process;
  // The thread.
  uint32_t thread;
  // The processor.
  uint32_t processor;
  // The source: its place in the list that was chosen.
  uint32_t source;
  // 1 for user mode, 2 for kernel mode, 0 where that is not known.
  uint32_t mode;
  // 0.
  uint32_t reserved;
} halprof_sample;

// What the passages through one region counted of one source. `mode` and `deviation` are
// meaningless where their flags are 0.
typedef struct halprof_row {
  // Set by the caller: how long its structure is, `sizeof(halprof_row)`.
  uint32_t size;
  // Whether some value came twice.
  uint8_t has_mode;
  // Whether there was more than one passage.
  uint8_t has_deviation;
  // 0.
  uint8_t reserved[2];
  // Passages, the culled ones included.
  uint64_t n;
  // How many were left out as anomalous; all that follows is of the others.
  uint64_t culled;
  // The least.
  uint64_t min;
  // The middle one.
  uint64_t median;
  // The most frequent.
  uint64_t mode;
  // What was taken away from each for measuring it.
  uint64_t overhead;
  // The mean.
  double mean;
  // The standard deviation.
  double deviation;
  // The mean without the lowest and the highest fifth.
  double trimmed_mean;
} halprof_row;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, `HALPROF_ABI` of its header.
uint32_t halprof_abi(void);

// Why the last function that failed on this thread did so, with what to do. Never NULL; valid
// until the next function fails.
const char *halprof_error(void);

// The same as a name that programs may compare, such as "does-not-fit".
const char *halprof_error_code(void);

// Opens a machine: the name of a model, the path of a CPUID dump, or NULL for the installed driver
// (elsewhere than on Windows: for the model `skylake`). `abi` is `HALPROF_ABI`.
//
// # Safety
// `machine` is NULL or ends with a 0; `*opened` is valid for a write.
int32_t halprof_open(uint32_t abi, const char *machine, struct halprof **opened);

// Stops what is counted, and closes the machine. Fails while threads have regions.
//
// # Safety
// `halprof` is from `halprof_open`, is used by nobody else, and if this succeeds by nobody again.
int32_t halprof_close(struct halprof *halprof);

// 1 where the machine is a model, and no silicon; else 0.
//
// # Safety
// `halprof` is NULL or from `halprof_open`.
int32_t halprof_modelled(const struct halprof *halprof);

// Chooses what to count: a list such as "TotalIssues:u,BranchInstructions:u". `processors` is a
// list such as "0-3", or NULL for all.
//
// # Safety
// `halprof` is from `halprof_open`; the texts end with a 0.
int32_t halprof_choose(struct halprof *halprof, const char *list, const char *processors);

// The name of a chosen source, counted from 0; NULL behind the last. Valid until the next choice.
//
// # Safety
// `halprof` is NULL or from `halprof_open`.
const char *halprof_source(const struct halprof *halprof, size_t index);

// Starts to count what was chosen, for `halprof_read` and for regions: `HALPROF_BEST` or a way.
//
// # Safety
// `halprof` is from `halprof_open`.
int32_t halprof_start(struct halprof *halprof, uint32_t method);

// How it counts: a way of `halprof_start`, or 0 where nothing is counted.
//
// # Safety
// `halprof` is NULL or from `halprof_open`.
uint32_t halprof_method(const struct halprof *halprof);

// What the chosen processors have counted since the start: one number for each source.
//
// # Safety
// `halprof` is from `halprof_open`; `counts` is valid for writes of `length` numbers.
int32_t halprof_read(struct halprof *halprof, uint64_t *counts, size_t length);

// Reads a last time, and stops. Fails while threads have regions; their report stays.
//
// # Safety
// As `halprof_read`; `counts` may be NULL where `length` is 0.
int32_t halprof_stop(struct halprof *halprof, uint64_t *counts, size_t length);

// Gives a modelled machine an amount of work, and lets it do it: "instructions=1000000,cycles=2000000".
// A real machine has work of its own, and refuses this.
//
// # Safety
// `halprof` is from `halprof_open`; `workload` ends with a 0.
int32_t halprof_workload(struct halprof *halprof,
                         const char *workload);

// Starts to sample what was chosen, every `period` events of each; 0 for their defaults.
//
// # Safety
// `halprof` is from `halprof_open`.
int32_t halprof_sample_start(struct halprof *halprof, uint64_t period);

// Takes one sample, the oldest that is known: `*taken` is 1, or 0 where there is none now. `size`
// is `sizeof(halprof_sample)`. What is not taken within two seconds may be lost.
//
// # Safety
// `halprof` is from `halprof_open`; `sample` is valid for writes of `size` bytes, `taken` of one
// number.
int32_t halprof_sample_take(struct halprof *halprof,
                            struct halprof_sample *sample,
                            size_t size,
                            int32_t *taken);

// Stops to sample. `*lost` is how many samples were lost; `lost` may be NULL. Samples that were not
// taken are gone.
//
// # Safety
// `halprof` is from `halprof_open`; `lost` is NULL or valid for a write.
int32_t halprof_sample_stop(struct halprof *halprof, uint64_t *lost);

// Begins the regions of the calling thread, under a name for the report, and measures what
// measuring costs.
//
// # Safety
// `halprof` is from `halprof_open`; `name` ends with a 0; `*begun` is valid for a write.
int32_t halprof_thread_begin(struct halprof *halprof,
                             const char *name,
                             struct halprof_thread **begun);

// Ends the regions of the thread; what they counted is in the report then.
//
// # Safety
// `thread` is from `halprof_thread_begin`, and if this succeeds is not used again.
int32_t halprof_thread_end(struct halprof_thread *thread);

// Enters a region. Regions may nest, and overlap: `*passage` says which one is left.
//
// # Safety
// `thread` is from `halprof_thread_begin`; `region` ends with a 0; `passage` is valid for a write.
int32_t halprof_enter(struct halprof_thread *thread, const char *region, uint32_t *passage);

// Leaves it.
//
// # Safety
// `thread` is from `halprof_thread_begin`.
int32_t halprof_leave(struct halprof_thread *thread, uint32_t passage);

// What one region of one thread that has ended counted of one source, which may be
// "time-stamp ticks". `row->size` is `sizeof(halprof_row)`.
//
// # Safety
// `halprof` is from `halprof_open`; the texts end with a 0; `row` is as long as it says.
int32_t halprof_row_of(struct halprof *halprof,
                       const char *region,
                       const char *thread,
                       const char *source,
                       struct halprof_row *row);

// The report of all threads that have ended: `HALPROF_TABLE`, `HALPROF_CSV` or `HALPROF_JSON`.
// The text is the caller's: `halprof_free`.
//
// # Safety
// `halprof` is from `halprof_open`; `*text` is valid for a write.
int32_t halprof_report(struct halprof *halprof, uint32_t format, char **text);

// The channel of this name, for `halprof_mark`: ask once, and keep it. It needs no machine.
// `HALPROF_NO_CHANNEL` where no recorder listens, such as `halprof timeline -- PROGRAM`, and where
// the name is refused: see `halprof_error`.
//
// # Safety
// `name` is NULL or ends with a 0.
uint32_t halprof_channel(const char *name);

// Marks that something happens now, with a value that says what: the time-stamp counter and a few
// stores, and no system call. Any thread may call it; a handler of a signal may not.
void halprof_mark(uint32_t channel, uint64_t value);

// Frees a text that a function has given away; NULL is nothing.
//
// # Safety
// `text` is NULL or from `halprof_report`, and is not used again.
void halprof_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HALPROF_H */
