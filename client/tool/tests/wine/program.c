/* A program to measure: its first argument says what it does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* Starts this program again; returns its process identifier. */
static DWORD start(const char *what)
{
    char line[MAX_PATH + 32];
    STARTUPINFOA startup = {.cb = sizeof startup};
    PROCESS_INFORMATION started;
    snprintf(line, sizeof line, "program.exe %s", what);
    if (!CreateProcessA(NULL, line, NULL, NULL, FALSE, 0, NULL, NULL, &startup, &started))
        exit(99);
    return started.dwProcessId;
}

static void tell(const char *file, DWORD child)
{
    FILE *out = fopen(file, "w");
    if (out == NULL)
        exit(98);
    fprintf(out, "%lu %lu\n", GetCurrentProcessId(), child);
    fclose(out);
}

/* The attributes of SeDebugPrivilege in the token that this process was started with. */
static int privilege(void)
{
    static char room[4096];
    TOKEN_PRIVILEGES *all = (TOKEN_PRIVILEGES *)room;
    HANDLE token;
    LUID debug;
    DWORD length, i;

    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token) ||
        !GetTokenInformation(token, TokenPrivileges, all, sizeof room, &length) ||
        !LookupPrivilegeValueA(NULL, "SeDebugPrivilege", &debug))
        return 97;
    for (i = 0; i < all->PrivilegeCount; i++)
        if (all->Privileges[i].Luid.LowPart == debug.LowPart)
            return (int)all->Privileges[i].Attributes;
    return 96;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *with = argc > 2 ? argv[2] : "";
    if (strcmp(what, "exit") == 0)
        return (int)strtoul(with, NULL, 0);
    if (strcmp(what, "print") == 0)
        puts("printed by the program");
    if (strcmp(what, "sleep") == 0)
        Sleep(600000);
    if (strcmp(what, "start") == 0)
        tell(with, start("sleep"));
    if (strcmp(what, "start-and-sleep") == 0) {
        tell(with, start("sleep"));
        Sleep(600000);
    }
    if (strcmp(what, "privilege") == 0)
        return privilege();
    if (strcmp(what, "mask") == 0) {
        DWORD_PTR own, all;
        GetProcessAffinityMask(GetCurrentProcess(), &own, &all);
        return (int)own;
    }
    if (strcmp(what, "lives") == 0) {
        HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, strtoul(with, NULL, 0));
        return process != NULL && WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
    }
    return 0;
}
