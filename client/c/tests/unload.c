/* Unloads the library while it counts, without having closed anything, as a plug-in is unloaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

typedef struct halprof_counts halprof_counts;

static const char *library;

/* The thread ends after the library was unloaded, and what it has opened with it. */
static void *count(void *failed)
{
    void *handle = dlopen(library, RTLD_NOW);
    int32_t (*open)(uint32_t, const char *, const char *, halprof_counts **);
    int32_t (*read)(const halprof_counts *, uint64_t *, size_t);
    halprof_counts *counts;
    uint64_t values[2];

    *(void **)&open = handle ? dlsym(handle, "halprof_counts_open") : NULL;
    *(void **)&read = handle ? dlsym(handle, "halprof_counts_read") : NULL;
    *(int *)failed = !open || !read || open(1, "skylake,backend=etw", "instructions", &counts) ||
                     read(counts, values, 2) || dlclose(handle);
    return NULL;
}

int main(int arguments, char **argument)
{
    int failed = arguments != 2;
    pthread_t thread;

    library = argument[1];
    for (int turn = 0; turn < 2 && !failed; turn++)
        if (pthread_create(&thread, NULL, count, &failed) || pthread_join(thread, NULL))
            failed = 1;
    puts(failed ? "failed" : "done");
    return failed;
}
