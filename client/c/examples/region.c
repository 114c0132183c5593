/* Counts two regions of code, one within the other: README.md has the two lines that build and run
 * it. Without an argument it measures with the installed driver or, if there is none, by Windows' own
 * tracing; on other systems it measures on a modelled machine. With an argument it measures on the
 * model of that name.
 */
#include "halprof.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int32_t answer)
{
    if (answer != HALPROF_OK) {
        fprintf(stderr, "region: %s\n", halprof_error());
        exit(1);
    }
}

/* A model runs the workload that it is given; a real machine does what the code does. */
static void work(halprof *machine, uint32_t amount)
{
    volatile uint32_t sum = 0;
    char workload[80];

    if (halprof_modelled(machine)) {
        snprintf(workload, sizeof workload, "instructions=%" PRIu32 ",cycles=1000", amount);
        check(halprof_workload(machine, workload));
        return;
    }
    for (uint32_t step = 0; step < amount; step++)
        sum += step;
}

int main(int count, char **arguments)
{
    halprof *machine;
    halprof_thread *thread;
    uint32_t outer, inner;
    halprof_row row = {.size = sizeof row};
    char *table;

    check(halprof_open(HALPROF_ABI, count > 1 ? arguments[1] : NULL, &machine));
    /* Without the driver, user and kernel mode are counted together. */
    if (halprof_choose(machine, "TotalIssues:u,BranchInstructions:u", NULL) != HALPROF_OK)
        check(halprof_choose(machine, "TotalIssues,BranchInstructions", NULL));
    check(halprof_start(machine, HALPROF_BEST));
    check(halprof_thread_begin(machine, "main", &thread));
    for (int pass = 0; pass < 20; pass++) {
        check(halprof_enter(thread, "outer", &outer));
        work(machine, 1000);
        check(halprof_enter(thread, "inner", &inner));
        work(machine, 300);
        check(halprof_leave(thread, inner));
        check(halprof_leave(thread, outer));
    }
    check(halprof_thread_end(thread));

    check(halprof_row_of(machine, "outer", "main", halprof_source(machine, 0), &row));
    printf("outer: %" PRIu64 " passages, median %" PRIu64 " %s\n", row.n, row.median,
           halprof_source(machine, 0));
    check(halprof_report(machine, HALPROF_TABLE, &table));
    printf("%s", table);
    halprof_free(table);
    check(halprof_stop(machine, NULL, 0));
    check(halprof_close(machine));
    return 0;
}
