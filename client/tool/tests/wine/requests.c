/* What the I/O manager does with handles and lengths before a driver sees a request.
 *
 * Arguments: the code of HELLO, which reads; that of CLOSE, which writes; HELLO's input in hexadecimal.
 * Each line has a name, the Win32 error and the bytes that were returned.
 */
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

#define ROOM (1 << 20)

static unsigned char input[64], *output;
static DWORD length;

static void say(const char *what, BOOL ok, DWORD returned)
{
    printf("%s: %lu, %lu\n", what, ok ? 0 : GetLastError(), ok ? returned : 0);
}

static HANDLE opened(const char *path, DWORD access)
{
    return CreateFileA(path, access, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
}

static void request(const char *what, HANDLE device, DWORD code, void *in, DWORD in_length, void *out,
                    DWORD out_length)
{
    DWORD returned = 0;
    BOOL ok = DeviceIoControl(device, code, in, in_length, out, out_length, &returned, NULL);
    say(what, ok, returned);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; DWORD access; } rights[] = {
        {"none", 0}, {"read", GENERIC_READ}, {"write", GENERIC_WRITE}, {"both", GENERIC_READ | GENERIC_WRITE}};
    static const DWORD lengths[] = {0, 1, 15, 16, 31, 100, 4096, ROOM};
    DWORD hello, close;
    HANDLE device, other;
    char what[64];

    if (argc != 4)
        return 2;
    hello = strtoul(argv[1], NULL, 0);
    close = strtoul(argv[2], NULL, 0);
    for (const char *hex = argv[3]; hex[0] && hex[1] && length < sizeof input; hex += 2) {
        char byte[3] = {hex[0], hex[1], 0};
        input[length++] = (unsigned char)strtoul(byte, NULL, 16);
    }
    output = malloc(ROOM);
    for (int i = 0; i < 4; i++) {
        device = opened("\\\\.\\halprof", rights[i].access);
        sprintf(what, "%s reads", rights[i].name);
        request(what, device, hello, input, length, output, 4096);
        sprintf(what, "%s writes", rights[i].name);
        request(what, device, close, input, length, output, 4096);
        CloseHandle(device);
    }
    device = opened("\\\\.\\halprof", GENERIC_READ | GENERIC_WRITE);
    DuplicateHandle(GetCurrentProcess(), device, GetCurrentProcess(), &other, GENERIC_READ, FALSE, 0);
    request("a duplicate for reading writes", other, close, input, length, output, 4096);
    CloseHandle(other);
    for (int i = 0; i < 8; i++) {
        memset(output, 0xEE, ROOM);
        sprintf(what, "output of %lu", lengths[i]);
        request(what, device, hello, input, length, output, lengths[i]);
        if (lengths[i] < ROOM && output[lengths[i]] != 0xEE)
            printf("written beyond %lu\n", lengths[i]);
    }
    for (DWORD i = 0; i < 16; i += 4) {
        sprintf(what, "input of %lu", i);
        request(what, device, hello, input, i, output, 4096);
    }
    request("input of nowhere", device, hello, NULL, length, output, 4096);
    request("output to nowhere", device, hello, input, length, NULL, 4096);
    for (DWORD method = 1; method < 4; method++) {
        sprintf(what, "method %lu", method);
        request(what, device, hello | method, input, length, output, 4096);
    }
    request("any access", device, hello & ~0xC000u, input, length, output, 4096);
    DuplicateHandle(GetCurrentProcess(), device, GetCurrentProcess(), &other, 0, FALSE, DUPLICATE_SAME_ACCESS);
    CloseHandle(device);
    request("a duplicate", other, hello, input, length, output, 4096);
    CloseHandle(other);
    other = opened("\\\\.\\halprof\\below", GENERIC_READ);
    say("below the device", other != INVALID_HANDLE_VALUE, 0);
    return 0;
}
