/* What a modelled machine runs unless `--workload` says otherwise: it counts primes, sorts numbers
   and looks some of them up. The model does not execute it; it takes ways that this code allows. */

enum { COUNT = 4096, LOOKUPS = 512 };

static unsigned char composite[COUNT];
static unsigned values[COUNT];

/* Marks what is no prime, and counts what is. */
static __attribute__((noinline)) unsigned sieve(void)
{
    unsigned primes = 0;
    for (unsigned number = 2; number < COUNT; number++) {
        if (composite[number])
            continue;
        primes++;
        for (unsigned multiple = 2 * number; multiple < COUNT; multiple += number)
            composite[multiple] = 1;
    }
    return primes;
}

/* Fills the table with numbers in no order (George Marsaglia's xorshift). */
static __attribute__((noinline)) void shuffle(unsigned state)
{
    for (unsigned index = 0; index < COUNT; index++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        values[index] = state;
    }
}

/* Moves each number down to its place among those before it. */
static __attribute__((noinline)) void sort(void)
{
    for (unsigned index = 1; index < COUNT; index++) {
        unsigned value = values[index], place = index;
        while (place > 0 && values[place - 1] > value) {
            values[place] = values[place - 1];
            place--;
        }
        values[place] = value;
    }
}

/* Halves the range in which the number can be until nothing is left. */
static __attribute__((noinline)) unsigned find(unsigned value)
{
    unsigned first = 0, end = COUNT;
    while (first < end) {
        unsigned middle = first + (end - first) / 2;
        if (values[middle] < value)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

int run(void)
{
    unsigned sum = sieve();
    shuffle(sum);
    sort();
    for (unsigned lookup = 0; lookup < LOOKUPS; lookup++)
        sum += find(lookup << 23);
    return (int)sum;
}
