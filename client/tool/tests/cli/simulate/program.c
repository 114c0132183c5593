/* Functions whose instructions are counted by hand. The assembly is the same for ELF and PE: a label
   and its code, the first two arguments in the registers of the platform. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
#define FIRST "rcx"
#define FIRST_32 "ecx"
#define TYPE(name)
#else
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#define FIRST "rdi"
#define FIRST_32 "edi"
#define TYPE(name) ".type " name ", @function\n.size " name ", . - " name "\n"
#endif

#define FUNCTION(name, code) \
    __asm__(".intel_syntax noprefix\n.text\n.globl " name "\n.balign 64\n" name ":\n" code \
            TYPE(name) ".balign 64\n.att_syntax\n")

/* A loop of n turns: 2 instructions, and 2 for each turn. */
void turns(long n);
FUNCTION("turns", "mov eax, " FIRST_32 "\n1: dec eax\njnz 1b\nret\n");

/* Reads n words, each in a cache line of its own. */
static char lines[1 << 16] __attribute__((aligned(4096)));
void touch(const void *p, long n);
FUNCTION("touch",
#ifdef _WIN32
         "mov eax, edx\n"
#else
         "mov eax, esi\n"
#endif
         "1: mov r8, [" FIRST "]\nadd " FIRST ", 64\ndec eax\njnz 1b\nret\n");

/* Writes 100 bytes with one instruction, and pushes the flags. */
void fill(void *p);
FUNCTION("fill",
         "mov r8, rdi\nmov rdi, " FIRST "\nmov ecx, 100\nmov al, 7\nrep stosb\nmov rdi, r8\npushfq\npop "
         "rax\nret\n");

/* A call out of the range in each turn. */
void outside(void);
FUNCTION("outside", "nop\nret\n");
void calls(long n);
FUNCTION("calls", "push rbx\nmov ebx, " FIRST_32
                  "\n1: call outside\ndec ebx\njnz 1b\npop rbx\nret\n");

/* Leaves its first 4 bytes by a jump and returns by another. */
void strays(void);
FUNCTION("strays", "jmp 2f\n1: nop\nret\n2: nop\nnop\njmp 1b\n");

/* A loop of n turns, back to its first instruction. */
void spins(long n);
FUNCTION("spins", "dec " FIRST_32 "\njnz spins\nret\n");

#ifndef _WIN32
/* A trap, which is reported behind its instruction: vector 4, which INTO uses too. */
void overflows(void);
FUNCTION("overflows", "nop\nint 4\nnop\nret\n");

static volatile int ticks;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void *run(void *unused)
{
    for (int i = 0; i < 10; i++)
        turns(100);
    return unused;
}

/* Four threads in the range at once, signals, and a forked process. */
static int threads(void)
{
    struct itimerval every = {{0, 1000}, {0, 1000}};
    pthread_t all[4];
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, run, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_REAL, &every, NULL);
    pid_t child = fork();
    if (child == 0) {
        turns(1000);
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
#endif

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "turns") == 0) {
        puts("printed by the program");
        turns(10);
        turns(20);
        return 7;
    }
    if (strcmp(what, "touch") == 0)
        touch(lines, 1000);
    if (strcmp(what, "fill") == 0) {
        fill(lines + 32);
        return lines[131] == 7 && lines[132] == 0 ? 0 : 1;
    }
    if (strcmp(what, "calls") == 0)
        calls(5);
    if (strcmp(what, "strays") == 0)
        strays();
    if (strcmp(what, "spins") == 0)
        spins(5);
    if (strcmp(what, "forever") == 0) {
        puts("it runs");
        fflush(stdout);
        for (;;)
            turns(100);
    }
#ifndef _WIN32
    if (strcmp(what, "waits") == 0) {
        puts("it waits");
        fflush(stdout);
        for (;;)
            pause();
    }
    if (strcmp(what, "threads") == 0)
        return threads();
    if (strcmp(what, "overflows") == 0) {
        signal(SIGSEGV, tick);
        overflows();
        return ticks;
    }
    if (strcmp(what, "exec") == 0)
        execl("/proc/self/exe", "program", "turns", (char *)NULL);
#endif
    return 0;
}
