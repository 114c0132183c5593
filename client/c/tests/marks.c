/* Marks from threads, from forks and from a program that it starts; or alone, or until killed. */
#include "halprof.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t thread_channel;

static void mark(uint32_t channel, uint64_t count)
{
    for (uint64_t value = 0; value < count; value++)
        halprof_mark(channel, value);
}

static void *of_a_thread(void *unused)
{
    mark(thread_channel, 250000);
    return unused;
}

static int ended(pid_t child)
{
    int status;

    return waitpid(child, &status, 0) == child && status == 0;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    pthread_t threads[4];
    uint32_t forked;
    pid_t child;

    if (!strcmp(what, "alone")) {
        uint32_t none = halprof_channel("nobody listens");
        mark(none, 1000);
        return none != HALPROF_NO_CHANNEL || halprof_channel(NULL) != HALPROF_NO_CHANNEL;
    }
    if (!strcmp(what, "killed")) {
        mark(halprof_channel("killed"), 1000);
        raise(SIGKILL);
    }
    if (!strcmp(what, "started")) {
        mark(halprof_channel("started"), 1000);
        return 0;
    }
    thread_channel = halprof_channel("thread");
    forked = halprof_channel("forked");
    for (int thread = 0; thread < 4; thread++)
        if (pthread_create(&threads[thread], NULL, of_a_thread, NULL))
            return 1;
    for (int thread = 0; thread < 4; thread++)
        pthread_join(threads[thread], NULL);
    /* The thread that forks has a chunk of its own, which its child must leave alone. */
    halprof_mark(HALPROF_NO_CHANNEL, 0);
    for (int fork_ = 0; fork_ < 2; fork_++) {
        child = fork();
        if (child == 0) {
            mark(forked, 1000);
            _exit(0);
        }
        if (!ended(child))
            return 2;
    }
    child = fork();
    if (child == 0) {
        execl(arguments[0], arguments[0], "started", (char *)NULL);
        _exit(1);
    }
    return !ended(child);
}
