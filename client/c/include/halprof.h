/* Made from client/c/src/lib.rs, which says what holds for all of it. */

#ifndef HALPROF_H
#define HALPROF_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface, for `halprof_open`.
#define HALPROF_ABI 1

// The function succeeded.
#define HALPROF_OK 0

// The function failed: see `halprof_error`.
#define HALPROF_FAILED -1

// Use the best method that works.
#define HALPROF_BEST 0

// Counts of the thread alone, from Windows' thread profiling.
#define HALPROF_THREAD_PROFILING 1

// Counts of the thread alone, from RDPMC between two context switches.
#define HALPROF_RDPMC 2

// Counts of whole processors.
#define HALPROF_PROCESSORS 3

// Counts of the thread alone, from the context switches of Windows' own tracing, without the driver.
// They include the kernel's work and the interrupts on the thread's time.
#define HALPROF_TRACING 4

// A report as a text table.
#define HALPROF_TABLE 0

// A report as CSV, with a header line.
#define HALPROF_CSV 1

// A report as one JSON object.
#define HALPROF_JSON 2

// Not a channel: marks on it are ignored.
#define HALPROF_NO_CHANNEL UINT32_MAX

// A machine, and what is counted on it. Any thread may use it.
typedef struct halprof halprof;

// What one thread counts, for that thread to read.
typedef struct halprof_counts halprof_counts;

// The regions of one thread, which only that thread may use.
typedef struct halprof_thread halprof_thread;

// One sample, recorded at an overflow.
typedef struct halprof_sample {
  // The time-stamp counter.
  uint64_t timestamp;
  // The address of the instruction, or 0.
  uint64_t address;
  // The number of events that it stands for.
  uint64_t period;
  // The process.
  uint32_t process;
  // The thread.
  uint32_t thread;
  // The processor.
  uint32_t processor;
  // The source: its index in the list that was chosen.
  uint32_t source;
  // 1 for user mode, 2 for kernel mode, 0 if it is not known.
  uint32_t mode;
  // 0.
  uint32_t reserved;
} halprof_sample;

// The counts of one source over the passages through one region. `mode` and `deviation` are
// meaningless if their flags are 0.
typedef struct halprof_row {
  // Set by the caller to the length of its structure, `sizeof(halprof_row)`.
  uint32_t size;
  // Whether any value occurs twice.
  uint8_t has_mode;
  // Whether there was more than one passage.
  uint8_t has_deviation;
  // 0.
  uint8_t reserved[2];
  // The number of passages, including the culled ones.
  uint64_t n;
  // How many were left out as anomalous; all following fields describe the others.
  uint64_t culled;
  // The smallest value.
  uint64_t min;
  // The median.
  uint64_t median;
  // The most frequent value.
  uint64_t mode;
  // What was subtracted from each passage as the cost of measuring.
  uint64_t overhead;
  // The mean.
  double mean;
  // The standard deviation.
  double deviation;
  // The mean without the lowest and the highest fifth.
  double trimmed_mean;
  // The spread of empty regions. Under `HALPROF_TRACING` a count below 20 spreads says little.
  uint64_t spread;
} halprof_row;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, `HALPROF_ABI` of its header.
uint32_t halprof_abi(void);

// Why the last function that failed on this thread failed, and what to do about it. Never NULL;
// valid until the next failure on this thread.
const char *halprof_error(void);

// The same as a stable name that programs may compare, such as "does-not-fit".
const char *halprof_error_code(void);

// Opens a machine: the name of a model, the path of a CPUID dump, "etw" for Windows' own tracing, or
// NULL for the installed driver and, without one, that tracing (on systems other than Windows, NULL
// stands for the model `sapphire-rapids`, if the library has models). Tracing counts only regions; a
// model is traced if ",backend=etw" follows its name. `abi` is `HALPROF_ABI`.
//
// # Safety
// `machine` is NULL or ends with a 0; `*opened` is valid for a write.
int32_t halprof_open(uint32_t abi,
                     const char *machine,
                     struct halprof **opened);

// Stops counting and closes the machine. Fails while any thread has regions.
//
// # Safety
// `halprof` is from `halprof_open`, is used by nobody else, and if this succeeds by nobody again.
int32_t halprof_close(struct halprof *halprof);

// 1 if the machine is a model, otherwise 0.
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

// The name of a chosen source, by its index from 0; NULL after the last. Valid until the next
// `halprof_choose`.
//
// # Safety
// `halprof` is NULL or from `halprof_open`.
const char *halprof_source(const struct halprof *halprof, size_t index);

// Starts counting the chosen sources, for `halprof_read` and for regions; `method` is
// `HALPROF_BEST` or one of the methods after it.
//
// # Safety
// `halprof` is from `halprof_open`.
int32_t halprof_start(struct halprof *halprof, uint32_t method);

// The method in use, as for `halprof_start`; 0 if nothing is counted.
//
// # Safety
// `halprof` is NULL or from `halprof_open`.
uint32_t halprof_method(const struct halprof *halprof);

// What the chosen processors have counted since the start: one number for each source.
//
// # Safety
// `halprof` is from `halprof_open`; `counts` is valid for writes of `length` numbers.
int32_t halprof_read(struct halprof *halprof, uint64_t *counts, size_t length);

// Reads a last time and stops counting. Fails while any thread has regions; their report stays.
//
// # Safety
// As for `halprof_read`; `counts` may be NULL if `length` is 0.
int32_t halprof_stop(struct halprof *halprof, uint64_t *counts, size_t length);

// Runs a workload to its end on a modelled machine: "instructions=1000000,cycles=2000000". A real
// machine refuses this.
//
// # Safety
// `halprof` is from `halprof_open`; `workload` ends with a 0.
int32_t halprof_workload(struct halprof *halprof, const char *workload);

// Starts sampling the chosen sources, each every `period` events; 0 for their default periods.
//
// # Safety
// `halprof` is from `halprof_open`.
int32_t halprof_sample_start(struct halprof *halprof, uint64_t period);

// Takes the oldest available sample: `*taken` is 1, or 0 if there is none now. `size` is
// `sizeof(halprof_sample)`. Samples that are not taken within two seconds may be lost. If the
// driver has ended sampling by itself, this fails after the last sample, and says why.
//
// # Safety
// `halprof` is from `halprof_open`; `sample` is valid for writes of `size` bytes, `taken` of one
// number.
int32_t halprof_sample_take(struct halprof *halprof,
                            struct halprof_sample *sample,
                            size_t size,
                            int32_t *taken);

// Stops sampling. `*lost` is the number of lost samples; `lost` may be NULL. Samples that were not
// taken are discarded. If the driver had ended sampling by itself, this fails and says why, but it
// is stopped.
//
// # Safety
// `halprof` is from `halprof_open`; `lost` is NULL or valid for a write.
int32_t halprof_sample_stop(struct halprof *halprof, uint64_t *lost);

// Begins the regions of the calling thread, under a name for the report, and measures the cost of
// measuring.
//
// # Safety
// `halprof` is from `halprof_open`; `name` ends with a 0; `*begun` is valid for a write.
int32_t halprof_thread_begin(struct halprof *halprof,
                             const char *name,
                             struct halprof_thread **begun);

// Ends the regions of the thread; their counts are then in the report.
//
// # Safety
// `thread` is from `halprof_thread_begin`, and if this succeeds is not used again.
int32_t halprof_thread_end(struct halprof_thread *thread);

// Enters a region. Regions may nest and overlap: `*passage` identifies the one to leave.
//
// # Safety
// `thread` is from `halprof_thread_begin`; `region` ends with a 0; `passage` is valid for a write.
int32_t halprof_enter(struct halprof_thread *thread, const char *region, uint32_t *passage);

// Leaves the region of a passage.
//
// # Safety
// `thread` is from `halprof_thread_begin`.
int32_t halprof_leave(struct halprof_thread *thread, uint32_t passage);

// The counts of one source in one region of one thread that has ended; the source may be
// "time-stamp ticks". `row->size` is `sizeof(halprof_row)`.
//
// # Safety
// `halprof` is from `halprof_open`; the texts end with a 0; `row` is as long as it says.
int32_t halprof_row_of(struct halprof *halprof,
                       const char *region,
                       const char *thread,
                       const char *source,
                       struct halprof_row *row);

// The report on all threads that have ended, as `HALPROF_TABLE`, `HALPROF_CSV` or `HALPROF_JSON`.
// The caller owns the text and frees it with `halprof_free`.
//
// # Safety
// `halprof` is from `halprof_open`; `*text` is valid for a write.
int32_t halprof_report(struct halprof *halprof, uint32_t format, char **text);

// The channel of this name, for `halprof_mark`: ask once and keep it. No machine is needed.
// `HALPROF_NO_CHANNEL` if no recorder such as `halprof timeline -- PROGRAM` is attached, or if the
// name is refused: see `halprof_error`.
//
// # Safety
// `name` is NULL or ends with a 0.
uint32_t halprof_channel(const char *name);

// Marks that something happens now, with a value that identifies it. It takes RDTSC and a few
// stores, and no system call. Any thread may call it, but not a signal handler.
void halprof_mark(uint32_t channel, uint64_t value);

// Frees a text that a function returned; NULL is ignored.
//
// # Safety
// `text` is NULL or from `halprof_report`, and is not used again.
void halprof_free(char *text);

// Opens a list of events such as "TotalCycles:u,TotalIssues:u" for the calling thread; `machine` is
// as for `halprof_open`. It fails if the counts of a thread alone cannot be read. To open a list
// that the process counts already costs little, and disturbs nothing.
//
// # Safety
// `machine` is NULL or ends with a 0, as `events` does; `*opened` is valid for a write.
int32_t halprof_counts_open(uint32_t abi,
                            const char *machine,
                            const char *events,
                            struct halprof_counts **opened);

// What the thread has counted so far, from an arbitrary start: subtract two readings. There is one
// number for each event and, if there is room, one that is how often counts were missed, because
// the thread was switched under RDPMC or the machine slept. Do not subtract readings in which that
// one differs.
//
// # Safety
// `counts` is from `halprof_counts_open`; `values` is valid for writes of `length` numbers.
int32_t halprof_counts_read(const struct halprof_counts *counts, uint64_t *values, size_t length);

// What a reading itself adds to each count: the least by which two differ, one right after the
// other.
//
// # Safety
// As for `halprof_counts_read`.
int32_t halprof_counts_cost(const struct halprof_counts *counts, uint64_t *values, size_t length);

// The spread of empty regions, for each count. Under `HALPROF_TRACING` a count below 20 spreads says
// little. The median of those regions is subtracted from each reading already, so that
// `halprof_counts_cost` is 0.
//
// # Safety
// As for `halprof_counts_read`.
int32_t halprof_counts_spread(const struct halprof_counts *counts,
                              uint64_t *values,
                              size_t length);

// 1 if the machine is a model, otherwise 0.
//
// # Safety
// `counts` is NULL or from `halprof_counts_open`.
int32_t halprof_counts_modelled(const struct halprof_counts *counts);

// The method in use, as for `halprof_start`; `HALPROF_PROCESSORS` only on a modelled machine, which
// runs no threads. Under `HALPROF_TRACING` each reading makes two waits of at least a millisecond, so
// read before and after a batch, not around each call. 0 if `counts` is NULL.
//
// # Safety
// `counts` is NULL or from `halprof_counts_open`.
uint32_t halprof_counts_method(const struct halprof_counts *counts);

// Runs a workload to its end on a modelled machine, as `halprof_workload` does.
//
// # Safety
// `counts` is from `halprof_counts_open`; `workload` ends with a 0.
int32_t halprof_counts_workload(const struct halprof_counts *counts, const char *workload);

// Closes it. The process stops counting the events when all that opened them are closed.
//
// # Safety
// `counts` is from `halprof_counts_open`, and if this succeeds is not used again.
int32_t halprof_counts_close(struct halprof_counts *counts);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HALPROF_H */
