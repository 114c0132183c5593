/* Marks the beginning and the end of a thousand turns: README.md has the two lines that build it
 * and show its timeline. */
#include "halprof.h"

int main(void)
{
    uint32_t begin = halprof_channel("begin"), end = halprof_channel("end");
    volatile uint64_t sum = 0;

    for (uint64_t turn = 0; turn < 1000; turn++) {
        halprof_mark(begin, turn);
        for (uint64_t step = 0; step < 100 * (turn % 10 + 1); step++)
            sum += step;
        halprof_mark(end, turn);
    }
    return 0;
}
