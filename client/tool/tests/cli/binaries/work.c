/* Built as PE with a PDB and as ELF with DWARF; tests know its lines by number. */
static volatile int sink;

static inline __attribute__((always_inline)) int twice(int value) {
    sink = value; /* line 5 */
    return value * 2;
}

__attribute__((noinline)) int spin(int turns) {
    int sum = 0;
    for (int i = 0; i < turns; i++) {
        sum += twice(i); /* line 12 */
        sum ^= i << 3;   /* line 13 */
    }
    return sum;
}

#ifdef _WIN32
__declspec(dllexport)
#endif
__attribute__((noinline)) int wait(int turns) {
    sink = turns; /* line 22 */
#ifdef OTHER
    spin(1);
#endif
    return spin(turns) + 1;
}

#ifdef _WIN32
int start(void) { return wait(100); }
#else
int main(void) { return wait(100); }
#endif
