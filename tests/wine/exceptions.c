/* Runs the functions of a driver's file that have an exception handler, in a process: RDMSR, WRMSR
 * and RDPMC are refused there, and this system's dispatcher calls the handler.
 *
 *   program.exe FILE         prints how each call of each of these functions ends
 *   program.exe FILE alone   the same without the file's unwind information
 *
 * Exit status 9: an exception that nobody handled; 4: exceptions without end.
 */
#include <windows.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* UNW_FLAG_EHANDLER, of a function with an exception handler. */
#define HAS_HANDLER 1
/* The first register of each call. */
#define FIRST 0x186
#define CANARY 0x5EED

static volatile int exceptions;
static volatile int skipping;

/* Called for each exception before any function's handler. */
static LONG CALLBACK count(EXCEPTION_POINTERS *exception)
{
    if (++exceptions > 100)
        ExitProcess(4);
    if (!skipping)
        return EXCEPTION_CONTINUE_SEARCH;
    exception->ContextRecord->Rip += 2;
    return EXCEPTION_CONTINUE_EXECUTION;
}

static LONG CALLBACK unhandled(EXCEPTION_POINTERS *exception)
{
    ExitProcess(9);
}

static uint8_t *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(2);
    long size = ftell(file);
    uint8_t *bytes = malloc(size);
    rewind(file);
    if (!bytes || fread(bytes, 1, size, file) != (size_t)size)
        exit(2);
    fclose(file);
    return bytes;
}

static IMAGE_OPTIONAL_HEADER64 *optional_header(uint8_t *file)
{
    IMAGE_NT_HEADERS64 *headers = (void *)(file + ((IMAGE_DOS_HEADER *)file)->e_lfanew);
    return &headers->OptionalHeader;
}

/* The image as a loader maps it, but for its imports, which these functions do not use. */
static uint8_t *map(uint8_t *file)
{
    IMAGE_OPTIONAL_HEADER64 *optional = optional_header(file);
    uint8_t *image = VirtualAlloc(NULL, optional->SizeOfImage, MEM_COMMIT | MEM_RESERVE,
                                  PAGE_EXECUTE_READWRITE);
    if (!image)
        exit(2);
    memcpy(image, file, optional->SizeOfHeaders);
    IMAGE_NT_HEADERS64 *headers = (void *)(file + ((IMAGE_DOS_HEADER *)file)->e_lfanew);
    IMAGE_SECTION_HEADER *section = IMAGE_FIRST_SECTION(headers);
    for (int i = 0; i < headers->FileHeader.NumberOfSections; i++, section++) {
        DWORD size = min(section->SizeOfRawData, section->Misc.VirtualSize);
        memcpy(image + section->VirtualAddress, file + section->PointerToRawData, size);
    }
    IMAGE_DATA_DIRECTORY *moves = &optional->DataDirectory[IMAGE_DIRECTORY_ENTRY_BASERELOC];
    uint8_t *at = image + moves->VirtualAddress, *end = at + moves->Size;
    while (at < end) {
        IMAGE_BASE_RELOCATION *block = (void *)at;
        uint16_t *entry = (void *)(block + 1);
        for (at += block->SizeOfBlock; (uint8_t *)entry < at; entry++)
            if (*entry >> 12 == IMAGE_REL_BASED_DIR64) {
                uint64_t *address = (void *)(image + block->VirtualAddress + (*entry & 0xFFF));
                *address += (uint64_t)image - optional->ImageBase;
            }
    }
    return image;
}

/* The instruction of a function that a process may not execute. */
static const char *instruction(const uint8_t *at, const uint8_t *end)
{
    for (; at + 1 < end; at++)
        if (at[0] == 0x0F)
            switch (at[1]) {
            case 0x30: return "wrmsr";
            case 0x32: return "rdmsr";
            case 0x33: return "rdpmc";
            }
    exit(3);
}

/* Calls a function as the driver does: the registers that it does not name are kept. */
static void call(const char *name, void *function, uint32_t number)
{
    register uint64_t r8 asm("r8") = 7, r9 asm("r9") = number, r12 asm("r12") = CANARY;
    register uint64_t r10 asm("r10") = CANARY, r11 asm("r11") = CANARY;
    uint64_t rbx = CANARY, rsi = CANARY, rdi = CANARY, rcx = FIRST, rax = 0, rdx = 0;
    double xmm = 0.5;
    exceptions = 0;
    asm volatile("call *%[function]"
                 : "+c"(rcx), "+a"(rax), "+d"(rdx), "+r"(r8), "+r"(r9), "+r"(r10), "+r"(r11),
                   "+r"(r12), "+b"(rbx), "+S"(rsi), "+D"(rdi), "+x"(xmm)
                 : [function] "m"(function)
                 : "memory", "cc");
    int kept = r10 == CANARY && r11 == CANARY && r12 == CANARY && rbx == CANARY &&
               rsi == CANARY && rdi == CANARY && xmm == 0.5;
    printf("%s %u: %s, ecx %#x, %d exception, %s\n", name, number,
           r8 == 1 ? "refused" : "not refused", (unsigned)rcx, exceptions,
           kept ? "kept" : "changed");
}

/* Whether a process may execute RDPMC, which the system decides (CR4.PCE). */
static int may_read_counters(void)
{
    exceptions = 0;
    skipping = 1;
    asm volatile("rdpmc" : : "c"(0) : "eax", "edx");
    skipping = 0;
    return exceptions == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    uint8_t *file = read_file(argv[1]), *image = map(file);
    IMAGE_DATA_DIRECTORY *table =
        &optional_header(file)->DataDirectory[IMAGE_DIRECTORY_ENTRY_EXCEPTION];
    RUNTIME_FUNCTION *functions = (void *)(image + table->VirtualAddress);
    DWORD entries = table->Size / sizeof *functions;
    AddVectoredExceptionHandler(1, count);
    SetUnhandledExceptionFilter(unhandled);
    if (argc == 2 && !RtlAddFunctionTable(functions, entries, (DWORD64)image))
        return 2;
    for (DWORD i = 0; i < entries; i++) {
        uint8_t *begin = image + functions[i].BeginAddress, *end = image + functions[i].EndAddress;
        if (!(image[functions[i].UnwindData] >> 3 & HAS_HANDLER))
            continue;
        const char *name = instruction(begin, end);
        if (!strcmp(name, "rdpmc") && may_read_counters()) {
            printf("rdpmc is allowed\n");
            continue;
        }
        call(name, begin, 1);
        call(name, begin, 3);
    }
    return 0;
}
