/* What the interface promises beyond its examples: counts, samples, threads, and each refusal. */
#include "halprof.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MUST(what)                                                            \
    do {                                                                      \
        if (!(what)) {                                                        \
            printf("line %d: %s: %s\n", __LINE__, #what, halprof_error());    \
            return 1;                                                         \
        }                                                                     \
    } while (0)
#define DONE(call) MUST((call) == HALPROF_OK)
#define REFUSED(call, name) \
    MUST((call) == HALPROF_FAILED && !strcmp(halprof_error_code(), name) && *halprof_error())

#define EVENTS "TotalIssues:u,BranchInstructions:u"

struct begun {
    halprof *machine;
    halprof_thread *foreign;
    int failed;
};

static int of_its_own(struct begun *begun)
{
    halprof_thread *thread;
    uint32_t passage;

    REFUSED(halprof_enter(begun->foreign, "theirs", &passage), "usage");
    REFUSED(halprof_leave(begun->foreign, 0), "usage");
    DONE(halprof_thread_begin(begun->machine, "second", &thread));
    DONE(halprof_enter(thread, "own", &passage));
    DONE(halprof_workload(begun->machine, "instructions=700,cycles=1"));
    DONE(halprof_leave(thread, passage));
    DONE(halprof_thread_end(thread));
    return 0;
}

static void *second(void *begun)
{
    ((struct begun *)begun)->failed = of_its_own(begun);
    return NULL;
}

static int counts_and_regions(halprof *machine)
{
    struct begun begun = {machine, NULL, 0};
    /* The structure is longer in a program of a later version, and shorter in an earlier one. */
    struct { halprof_row row; uint64_t later; } longer = {{.size = sizeof longer}, 5};
    halprof_row shorter = {.size = offsetof(halprof_row, median), .median = 99};
    uint64_t counts[2] = {0};
    pthread_t thread;
    uint32_t passage;
    char *text;

    REFUSED(halprof_start(machine, HALPROF_BEST), "usage");
    REFUSED(halprof_choose(machine, "nonsense-of-no-name", NULL), "source-unknown");
    REFUSED(halprof_choose(machine, NULL, NULL), "usage");
    REFUSED(halprof_choose(machine, "\xff", NULL), "usage");
    /* More than there are counters. The error says what C has for it, and not what Rust has. */
    DONE(halprof_choose(machine, "all", NULL));
    REFUSED(halprof_start(machine, HALPROF_BEST), "unavailable");
    MUST(strstr(halprof_error(), "halprof_choose") && !strstr(halprof_error(), "sweep"));
    DONE(halprof_choose(machine, "TotalIssues:u,BranchInstructions:u", "0"));
    MUST(!strcmp(halprof_source(machine, 1), "BranchInstructions:u") && !halprof_source(machine, 2));
    REFUSED(halprof_start(machine, 77), "usage");
    REFUSED(halprof_start(machine, HALPROF_THREAD_PROFILING), "unavailable");
    DONE(halprof_start(machine, HALPROF_BEST));
    MUST(halprof_method(machine) == HALPROF_PROCESSORS);
    REFUSED(halprof_choose(machine, "TotalIssues", NULL), "usage");
    DONE(halprof_thread_begin(machine, "first", &begun.foreign));
    REFUSED(halprof_leave(begun.foreign, 3), "usage");
    DONE(halprof_enter(begun.foreign, "around", &passage));
    MUST(!pthread_create(&thread, NULL, second, &begun) && !pthread_join(thread, NULL));
    MUST(!begun.failed);
    REFUSED(halprof_stop(machine, counts, 2), "usage");
    REFUSED(halprof_close(machine), "usage");
    DONE(halprof_leave(begun.foreign, passage));
    REFUSED(halprof_leave(begun.foreign, passage), "usage");
    DONE(halprof_thread_end(begun.foreign));
    DONE(halprof_read(machine, counts, 1));
    MUST(counts[0] == 700 && counts[1] == 0);
    DONE(halprof_stop(machine, counts, 2));
    REFUSED(halprof_read(machine, counts, 2), "usage");
    DONE(halprof_row_of(machine, "own", "second", "TotalIssues:u", &longer.row));
    MUST(longer.row.n == 1 && longer.row.median == 700 && longer.later == 5);
    MUST(!longer.row.has_mode && !longer.row.has_deviation);
    DONE(halprof_row_of(machine, "around", "first", "TotalIssues:u", &shorter));
    MUST(shorter.min == 700 && shorter.median == 99);
    REFUSED(halprof_row_of(machine, "none", "first", "TotalIssues:u", &shorter), "usage");
    DONE(halprof_report(machine, HALPROF_CSV, &text));
    MUST(!strncmp(text, "name,thread,source,", 19));
    halprof_free(text);
    REFUSED(halprof_report(machine, 9, &text), "usage");
    MUST(!text);
    return 0;
}

static int of_its_own_counts(halprof_counts *foreign)
{
    halprof_counts *counts;
    uint64_t before[3], after[3] = {0};

    REFUSED(halprof_counts_read(foreign, before, 3), "usage");
    REFUSED(halprof_counts_close(foreign), "usage");
    DONE(halprof_counts_open(HALPROF_ABI, "skylake", EVENTS, &counts));
    DONE(halprof_counts_read(counts, before, 3));
    DONE(halprof_counts_workload(counts, "instructions=50,branches=7,cycles=1"));
    DONE(halprof_counts_read(counts, after, 1));
    MUST(after[0] - before[0] == 50 && !after[1]);
    DONE(halprof_counts_close(counts));
    return 0;
}

static void *second_counts(void *foreign)
{
    return of_its_own_counts(foreign) ? foreign : NULL;
}

/* The numbers are those of the workloads. */
static int counts_of_threads(void)
{
    halprof_counts *outer = NULL, *inner;
    uint64_t outer_before[3], inner_before[3], after[3], cost[2] = {1, 1};
    pthread_t thread;
    void *failed;

    REFUSED(halprof_counts_open(HALPROF_ABI + 1, "skylake", EVENTS, &outer), "version-mismatch");
    REFUSED(halprof_counts_open(HALPROF_ABI, "skylake", "nonsense", &outer), "source-unknown");
    REFUSED(halprof_counts_open(HALPROF_ABI, "etw", EVENTS, &outer), "no-tracing");
    REFUSED(halprof_counts_open(HALPROF_ABI, "skylake", NULL, &outer), "usage");
    MUST(!outer && halprof_counts_method(outer) == HALPROF_BEST);
    DONE(halprof_counts_open(HALPROF_ABI, "skylake", EVENTS, &outer));
    MUST(halprof_counts_method(outer) == HALPROF_PROCESSORS);
    DONE(halprof_counts_cost(outer, cost, 2));
    MUST(!cost[0] && !cost[1]);
    DONE(halprof_counts_read(outer, outer_before, 3));
    DONE(halprof_counts_workload(outer, "instructions=1000,branches=100,cycles=1"));
    DONE(halprof_counts_open(HALPROF_ABI, "skylake", EVENTS, &inner));
    DONE(halprof_counts_read(inner, inner_before, 3));
    DONE(halprof_counts_workload(inner, "instructions=300,branches=30,cycles=1"));
    DONE(halprof_counts_read(inner, after, 3));
    MUST(after[0] - inner_before[0] == 300 && after[1] - inner_before[1] == 30);
    DONE(halprof_counts_close(inner));
    MUST(!pthread_create(&thread, NULL, second_counts, outer) && !pthread_join(thread, &failed));
    MUST(!failed);
    DONE(halprof_counts_read(outer, after, 3));
    MUST(after[0] - outer_before[0] == 1350 && after[1] - outer_before[1] == 137);
    MUST(after[2] == outer_before[2]);
    REFUSED(halprof_counts_workload(outer, "nonsense"), "usage");
    DONE(halprof_counts_close(outer));
    return 0;
}

static int samples(halprof *machine)
{
    halprof_sample sample = {0};
    uint64_t lost = 1;
    int32_t taken = 1, all = 0;
    uint64_t last = 0;

    DONE(halprof_choose(machine, "TotalIssues:u", "0"));
    REFUSED(halprof_sample_take(machine, &sample, sizeof sample, &taken), "usage");
    DONE(halprof_sample_start(machine, 100000));
    DONE(halprof_workload(machine, "instructions=100000000,cycles=100000000"));
    for (;;) {
        DONE(halprof_sample_take(machine, &sample, sizeof sample, &taken));
        if (!taken)
            break;
        MUST(sample.period == 100000 && sample.mode == 1 && sample.address && !sample.source);
        /* The oldest first. */
        MUST(sample.timestamp > last);
        last = sample.timestamp;
        all++;
    }
    DONE(halprof_sample_stop(machine, &lost));
    MUST(all == 1000 && !lost);
    return 0;
}

/* Without the driver: regions only, of user and kernel mode together, and each on its own thread. */
static int traced(void)
{
    struct begun begun = {NULL, NULL, 0};
    halprof_row row = {.size = sizeof row};
    uint64_t counts[2];
    pthread_t thread;
    uint32_t passage;

    DONE(halprof_open(HALPROF_ABI, "zen4,backend=etw", &begun.machine));
    MUST(halprof_modelled(begun.machine));
    REFUSED(halprof_choose(begun.machine, EVENTS, NULL), "unavailable");
    MUST(strstr(halprof_error(), "`TotalIssues:u`"));
    DONE(halprof_choose(begun.machine, "TotalIssues,BranchInstructions", NULL));
    REFUSED(halprof_start(begun.machine, HALPROF_PROCESSORS), "unavailable");
    REFUSED(halprof_sample_start(begun.machine, 0), "unavailable");
    DONE(halprof_start(begun.machine, HALPROF_BEST));
    MUST(halprof_method(begun.machine) == HALPROF_TRACING);
    REFUSED(halprof_read(begun.machine, counts, 2), "unavailable");
    DONE(halprof_thread_begin(begun.machine, "first", &begun.foreign));
    DONE(halprof_enter(begun.foreign, "around", &passage));
    DONE(halprof_workload(begun.machine, "instructions=400,cycles=1"));
    /* Another thread counts its own meanwhile, and may not end this one's region. */
    MUST(!pthread_create(&thread, NULL, second, &begun) && !pthread_join(thread, NULL));
    MUST(!begun.failed);
    DONE(halprof_leave(begun.foreign, passage));
    DONE(halprof_thread_end(begun.foreign));
    DONE(halprof_row_of(begun.machine, "around", "first", "TotalIssues", &row));
    MUST(row.n == 1 && row.min == 400 && row.overhead > 0 && row.spread > 0);
    DONE(halprof_row_of(begun.machine, "own", "second", "TotalIssues", &row));
    MUST(row.n == 1 && row.min == 700);
    DONE(halprof_stop(begun.machine, NULL, 0));
    DONE(halprof_close(begun.machine));
    return 0;
}

int main(void)
{
    halprof *machine = NULL;

    MUST(halprof_abi() == HALPROF_ABI);
    REFUSED(halprof_open(HALPROF_ABI + 1, "skylake", &machine), "version-mismatch");
    REFUSED(halprof_open(HALPROF_ABI, "no-such-machine", &machine), "no-machine");
    MUST(!machine && !halprof_modelled(machine));
    DONE(halprof_open(HALPROF_ABI, "skylake", &machine));
    MUST(halprof_modelled(machine));
    if (counts_and_regions(machine) || samples(machine) || counts_of_threads() || traced())
        return 1;
    DONE(halprof_close(machine));
    printf("done\n");
    return 0;
}
