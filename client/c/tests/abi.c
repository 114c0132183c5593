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

static int samples(halprof *machine)
{
    halprof_sample sample = {0};
    uint64_t lost = 1;
    int32_t taken = 1, all = 0;

    DONE(halprof_choose(machine, "TotalIssues:u", "0"));
    REFUSED(halprof_sample_take(machine, &sample, sizeof sample, &taken), "usage");
    DONE(halprof_sample_start(machine, 100000));
    DONE(halprof_workload(machine, "instructions=100000000,cycles=100000000"));
    for (;;) {
        DONE(halprof_sample_take(machine, &sample, sizeof sample, &taken));
        if (!taken)
            break;
        MUST(sample.period == 100000 && sample.mode == 1 && sample.address && !sample.source);
        all++;
    }
    DONE(halprof_sample_stop(machine, &lost));
    MUST(all == 1000 && !lost);
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
    if (counts_and_regions(machine) || samples(machine))
        return 1;
    DONE(halprof_close(machine));
    printf("done\n");
    return 0;
}
