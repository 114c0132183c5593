/* Prints what libpfm4 encodes for each line of standard input, a `PMU::EVENT`: the event select in
 * hexadecimal, or an empty line where it has no such event. The processor need not be this one. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <perfmon/pfmlib.h>

static void print_encoding(const char *name)
{
    pfm_pmu_encode_arg_t encoded = { .size = sizeof encoded };

    if (pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_NONE, &encoded) == PFM_SUCCESS
        && encoded.count > 0)
        printf("%llx", (unsigned long long)encoded.codes[0]);
    putchar('\n');
    free(encoded.codes);
}

int main(void)
{
    char line[512];

    setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
    if (pfm_initialize() != PFM_SUCCESS)
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        print_encoding(line);
    }
    return 0;
}
