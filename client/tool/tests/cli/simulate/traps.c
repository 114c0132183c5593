/* What traps do to a range that is stepped: each function by its name. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAKED __attribute__((noinline, naked))

static volatile int traps;
static void on(int number)
{
    (void)number;
    traps++;
}

/* MOV to SS delays the trap behind it by one instruction. */
NAKED void move_ss(void)
{
    __asm__("mov %ss,%ax\n mov %ax,%ss\n nop\n nop\n nop\n ret");
}

NAKED long loop_ss(void)
{
    __asm__("mov $100,%ecx\n mov %ss,%edx\n1: mov %edx,%ss\n add $1,%rax\n dec %ecx\n jne 1b\n ret");
}

NAKED void own_int3(void)
{
    __asm__("nop\n int3\n nop\n ret");
}

NAKED void int3_first(void)
{
    __asm__("int3\n nop\n ret");
}

NAKED void own_int1(void)
{
    __asm__("nop\n .byte 0xf1\n nop\n ret");
}

NAKED void fault_first(void)
{
    __asm__("mov 0,%eax\n nop\n ret");
}

/* getppid; R11 has the flags. */
NAKED unsigned long flags(void)
{
    __asm__("mov $110,%eax\n syscall\n mov %r11,%rax\n ret");
}

__attribute__((noinline)) int spawn(void)
{
    int child = vfork();
    if (!child)
        _exit(7);
    int status;
    waitpid(child, &status, 0);
    return status;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (count > 2)
        signal(SIGTRAP, on);
    if (!strcmp(what, "move_ss"))
        move_ss();
    if (!strcmp(what, "loop_ss"))
        loop_ss();
    if (!strcmp(what, "own_int3"))
        own_int3();
    if (!strcmp(what, "int3_first"))
        int3_first();
    if (!strcmp(what, "own_int1"))
        own_int1();
    if (!strcmp(what, "fault_first"))
        fault_first();
    if (!strcmp(what, "flags"))
        return (flags() & 0x100) != 0;
    if (!strcmp(what, "spawn"))
        return WEXITSTATUS(spawn());
    return traps;
}
