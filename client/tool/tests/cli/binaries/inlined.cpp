// Functions inlined into others, several levels deep, for many types: their frames are compared with
// those of LLVM's tools. Needs no library, so that every compiler and target takes it.
#ifdef _WIN32
extern "C" { int _fltused = 0; }
#endif
static volatile int sink;

#define NOINLINE __attribute__((noinline))

namespace small {
template <typename T> struct Less {
    bool operator()(T a, T b) const { return a < b; }
};

template <typename T> inline void exchange(T &a, T &b) {
    T kept = a;
    a = b;
    b = kept;
}

template <typename T, typename Order> struct Sorter {
    Order order;

    void settle(T *all, int at) const {
        while (at > 0 && order(all[at], all[at - 1])) {
            exchange(all[at], all[at - 1]);
            at--;
        }
    }

    void sort(T *all, int count) const {
        for (int at = 1; at < count; at++) settle(all, at);
    }
};

template <typename T> struct Vector {
    T x, y, z;
    T dot(const Vector &o) const { return x * o.x + y * o.y + z * o.z; }
    Vector cross(const Vector &o) const {
        return {T(y * o.z - z * o.y), T(z * o.x - x * o.z), T(x * o.y - y * o.x)};
    }
    Vector plus(const Vector &o) const { return {T(x + o.x), T(y + o.y), T(z + o.z)}; }
    Vector times(T by) const { return {T(x * by), T(y * by), T(z * by)}; }
    T length2() const { return dot(*this); }
};

template <typename T> inline T clamped(T value, T low, T high) {
    Less<T> less;
    if (less(value, low)) return low;
    return less(high, value) ? high : value;
}

template <typename T> inline T mixed(T a, T b) { return clamped<T>(T(a + b), T(1), T(100)); }

inline unsigned turned(unsigned a, int by) { return (a << by) | (a >> (32 - by)); }
inline unsigned round_of(unsigned a, unsigned b) { return turned(a ^ b, 7) + turned(a + b, 13); }
inline unsigned hashed(const unsigned char *all, int count) {
    unsigned state = 2166136261u;
    for (int i = 0; i < count; i++) {
        state = round_of(state, all[i]);
        if (all[i] > 127) {
            state = round_of(state, turned(state, 3));
        }
    }
    return state;
}
} // namespace small

// A lambda, a function of this file, and one that is inlined twice into one caller.
static inline int step_of(int value) { return value * 3 + sink; }
static inline int steps(int value) {
    auto twice = [&](int by) { return step_of(value + by) - step_of(value - by); };
    return twice(1) + twice(2);
}

template <typename T> NOINLINE T physics(T seed) {
    using small::Vector;
    Vector<T> place{seed, T(2), T(3)}, speed{T(4), seed, T(6)};
    T sum = T(0);
    for (int i = 0; i < sink; i++) {
        Vector<T> axis = place.cross(speed);
        place = place.plus(axis.times(small::mixed(axis.dot(speed), seed)));
        sum = T(sum + place.length2());
        speed = speed.plus(place.times(T(i)));
    }
    return small::clamped(sum, T(0), T(90));
}

template <typename T> NOINLINE T ordered(T seed) {
    T all[24];
    for (int i = 0; i < 24; i++) all[i] = T(small::mixed(T(seed * T(i)), T(sink)));
    small::Sorter<T, small::Less<T>> sorter;
    sorter.sort(all, 24);
    return T(all[3] + all[20]);
}

template <typename T> NOINLINE int both(T seed) {
    int early = steps(int(seed));
    T a = physics<T>(seed), b = ordered<T>(seed);
    small::exchange(a, b);
    return early + int(small::mixed(a, b)) + steps(int(a));
}

extern "C" NOINLINE int bytes(int count) {
    unsigned char all[64];
    for (int i = 0; i < 64; i++) all[i] = (unsigned char)(steps(i) + count);
    return (int)small::hashed(all, count & 63);
}

#ifdef _WIN32
extern "C" int start() {
#else
int main() {
#endif
    return both<int>(sink) + both<unsigned>(sink) + both<short>((short)sink) +
           both<signed char>((signed char)sink) + both<float>((float)sink) +
           both<double>((double)sink) + both<unsigned short>((unsigned short)sink) +
           both<unsigned char>((unsigned char)sink) + bytes(sink);
}
