/* A loop with branches of known odds. All of it is code: no data, nothing from outside. */
typedef unsigned int u32;

static u32 rare(u32 x);
static u32 common(u32 x);

int start(void)
{
    u32 seed = 1, sum = 0;
    for (u32 i = 0; i < 100000; i++) {
        seed = seed * 1664525u + 1013904223u;
        u32 draw = seed >> 16;
        if (draw < 0x1000) {
            sum = (sum << 3) - rare(sum + seed);
            sum += rare(draw) * 7;
        } else {
            sum = common(sum ^ seed);
        }
        if ((draw & 0x1800) == 0)
            sum = (sum << 3) - draw * 7 + (sum >> 5);
        else
            sum += draw;
    }
    return (int)sum;
}

__attribute__((noinline)) static u32 rare(u32 x)
{
    u32 sum = 0;
    for (u32 i = 0; i < 4; i++)
        sum += (x >> i) * 31;
    return sum;
}

__attribute__((noinline)) static u32 common(u32 x)
{
    return x * 3 + (x >> 7);
}
