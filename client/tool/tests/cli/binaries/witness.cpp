// Code whose names and bounds are compared with those of LLVM's tools: overloads, templates,
// functions of one file, variable arguments, functions in parts, tail calls, exports.
extern "C" int _fltused = 0;
static volatile int sink;

namespace shapes {
template <typename T> struct Box {
    T width, height;
    __attribute__((noinline)) T area(T scale) const { sink = 1; return width * height * scale; }
    virtual ~Box() { sink = 2; }
    void operator delete(void *) {}
};

__attribute__((noinline)) static int hidden(int turns) {
    int sum = 0;
    for (int i = 0; i < turns; i++) { sum += sink * i; sum ^= i << 3; }
    return sum;
}

__attribute__((noinline)) int overloaded(int a) { sink = a; return hidden(a) + 1; }
__attribute__((noinline)) int overloaded(double a) { sink = 3; return hidden((int)a) + 2; }
} // namespace shapes

namespace {
__attribute__((noinline)) int anonymous(int a) { sink = a; return a * 3; }
} // namespace

extern "C" __attribute__((noinline)) int variadic(int count, ...) {
    __builtin_va_list list;
    __builtin_va_start(list, count);
    int sum = 0;
    while (count-- > 0) sum += __builtin_va_arg(list, int);
    __builtin_va_end(list);
    return sum;
}

// The cold path lies apart from the rest where the compiler splits functions.
extern "C" __attribute__((noinline)) int split(int a) {
    if (__builtin_expect(a > 100, 0)) {
        for (int i = 0; i < a; i++) sink = i * a;
        shapes::overloaded(a);
        return variadic(3, a, a, a);
    }
    return a;
}

extern "C" __attribute__((visibility("default")))
#ifdef _WIN32
__declspec(dllexport)
#endif
int exported(int a) { return split(a); }

extern "C" int start() {
    shapes::Box<int> ints;
    ints.width = 3;
    ints.height = sink;
    shapes::Box<double> doubles;
    doubles.width = 3.0;
    doubles.height = sink;
    return ints.area(2) + (int)doubles.area(2.0) + shapes::overloaded(7) + shapes::overloaded(7.0) +
           anonymous(sink) + variadic(2, sink, 1) + exported(sink);
}
