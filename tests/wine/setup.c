/* What an implementation of SetupAPI that is not ours makes of halprof.inf. Runs under Wine.
 *
 *   setup.exe lines FILE.INF      every section with its lines: key|field|field
 *   setup.exe install FILE.INF    installs it for a root-enumerated device, prints what is registered
 */
#include <windows.h>
#include <setupapi.h>
#include <newdev.h>
#include <stdio.h>
#include <string.h>

static const GUID system_class = {
    0x4d36e97d, 0xe325, 0x11ce, {0xbf, 0xc1, 0x08, 0x00, 0x2b, 0xe1, 0x03, 0x18}};

static int refused(const char *what)
{
    printf("%s: error %#lx\n", what, GetLastError());
    return 1;
}

static void print_line(INFCONTEXT *line)
{
    for (DWORD index = 0; index <= SetupGetFieldCount(line); index++) {
        char field[1024] = "";
        SetupGetStringFieldA(line, index, field, sizeof field, NULL);
        printf("%s%s", index ? "|" : "", field);
    }
    printf("\n");
}

static int lines(const char *path)
{
    UINT error_line = 0, needed;
    char section[256];
    HINF inf = SetupOpenInfFileA(path, NULL, INF_STYLE_WIN4, &error_line);
    if (inf == INVALID_HANDLE_VALUE) {
        printf("line %u\n", error_line);
        return refused("SetupOpenInfFile");
    }
    for (UINT index = 0; SetupEnumInfSectionsA(inf, index, section, sizeof section, &needed); index++) {
        INFCONTEXT line;
        printf("[%s]\n", section);
        for (BOOL more = SetupFindFirstLineA(inf, section, NULL, &line); more;
             more = SetupFindNextLine(&line, &line))
            print_line(&line);
    }
    SetupCloseInfFile(inf);
    return 0;
}

static void print_value(const char *key, const char *name)
{
    char path[256], text[512];
    DWORD type, size = sizeof text;
    snprintf(path, sizeof path, "System\\CurrentControlSet\\%s", key);
    if (RegGetValueA(HKEY_LOCAL_MACHINE, path, name, RRF_RT_ANY, &type, text, &size))
        printf("%s|%s|absent\n", key, name);
    else if (type == REG_DWORD)
        printf("%s|%s|%lu\n", key, name, *(DWORD *)text);
    else
        printf("%s|%s|%s\n", key, name, text);
}

/* The device node, made on the first call. */
static int device_node(void)
{
    static const char hardware_id[] = "Root\\halprof\0";
    SP_DEVINFO_DATA device = {sizeof device};
    HDEVINFO set = SetupDiCreateDeviceInfoList(NULL, NULL);
    if (!SetupDiCreateDeviceInfoA(set, "ROOT\\HALPROF\\0000", &system_class, NULL, NULL, 0, &device))
        return GetLastError() == ERROR_DEVINST_ALREADY_EXISTS ? 0 : refused("SetupDiCreateDeviceInfo");
    if (!SetupDiSetDeviceRegistryPropertyA(set, &device, SPDRP_HARDWAREID, (const BYTE *)hardware_id,
                                           sizeof hardware_id))
        return refused("SetupDiSetDeviceRegistryProperty");
    if (!SetupDiCallClassInstaller(DIF_REGISTERDEVICE, set, &device))
        return refused("DIF_REGISTERDEVICE");
    return 0;
}

static int install(const char *path)
{
    static const char *const values[][2] = {
        {"Enum\\ROOT\\HALPROF\\0000", "Class"},
        {"Enum\\ROOT\\HALPROF\\0000", "DeviceDesc"},
        {"Enum\\ROOT\\HALPROF\\0000", "Service"},
        {"Enum\\ROOT\\HALPROF\\0000\\Device Parameters", "Security"},
        {"Services\\halprof", "DisplayName"},
        {"Services\\halprof", "Type"},
        {"Services\\halprof", "Start"},
        {"Services\\halprof", "ErrorControl"},
        {"Services\\halprof", "ImagePath"},
    };
    BOOL reboot;
    if (device_node())
        return 1;
    if (!UpdateDriverForPlugAndPlayDevicesA(NULL, "Root\\halprof", path, INSTALLFLAG_FORCE, &reboot))
        return refused("UpdateDriverForPlugAndPlayDevices");
    for (unsigned index = 0; index < sizeof values / sizeof *values; index++)
        print_value(values[index][0], values[index][1]);
    return 0;
}

int main(int count, char **arguments)
{
    char path[MAX_PATH];
    if (count != 3 || !GetFullPathNameA(arguments[2], sizeof path, path, NULL))
        return 2;
    if (!strcmp(arguments[1], "lines"))
        return lines(path);
    if (!strcmp(arguments[1], "install"))
        return install(path);
    return 2;
}
