/* Counts by the C library with the installed driver, for as many milliseconds as its argument says. */
#include "halprof.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

static void check(int32_t answer)
{
    if (answer != HALPROF_OK) {
        printf("%s: %s\n", halprof_error_code(), halprof_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    halprof *machine;
    uint64_t counts[2] = {0, 0};

    check(halprof_open(HALPROF_ABI, NULL, &machine));
    check(halprof_choose(machine, "TotalCycles,TotalIssues", NULL));
    check(halprof_start(machine, HALPROF_PROCESSORS));
    Sleep(argc > 1 ? strtoul(argv[1], NULL, 0) : 0);
    check(halprof_stop(machine, counts, 2));
    printf("modelled %" PRId32 "\n%" PRIu64 " %" PRIu64 "\n", halprof_modelled(machine), counts[0], counts[1]);
    check(halprof_close(machine));
    return 0;
}
