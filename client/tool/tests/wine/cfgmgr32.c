/* Replaces cfgmgr32.dll, because Wine 8 lacks its functions that switch a device and that list
 * interfaces. Interfaces are Wine's own, listed by its SetupAPI.
 *
 * A device runs unless there is a file called `disabled`, which disabling creates and enabling
 * removes. With FAKE_ANSWER (hexadecimal) both return that and do nothing. With FAKE_UNLISTED no
 * interface is listed.
 */
#include <windows.h>
#include <setupapi.h>
#include <stdlib.h>

#define EXPORT __declspec(dllexport)

static BOOL disabled(void)
{
    return GetFileAttributesA("disabled") != INVALID_FILE_ATTRIBUTES;
}

static DWORD fake_answer(void)
{
    char text[32];
    if (!GetEnvironmentVariableA("FAKE_ANSWER", text, sizeof text))
        return 0;
    return strtoul(text, NULL, 16);
}

/* DN_HAS_PROBLEM and CM_PROB_DISABLED, or DN_STARTED. */
EXPORT DWORD WINAPI CM_Get_DevNode_Status(ULONG *status, ULONG *problem, DWORD node, ULONG flags)
{
    *status = disabled() ? 0x400 : 0x8;
    *problem = disabled() ? 22 : 0;
    return 0;
}

/* The flags are CM_DISABLE_UI_NOT_OK; others are refused with CR_INVALID_FLAG. */
EXPORT DWORD WINAPI CM_Disable_DevNode(DWORD node, ULONG flags)
{
    if (flags != 4)
        return 4;
    if (!fake_answer())
        CloseHandle(CreateFileA("disabled", GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL));
    return fake_answer();
}

EXPORT DWORD WINAPI CM_Enable_DevNode(DWORD node, ULONG flags)
{
    if (flags)
        return 4;
    if (!fake_answer())
        DeleteFileA("disabled");
    return fake_answer();
}

/* Puts the paths of the interfaces that are enabled into a list of at most so many characters; returns
 * how many it needs. Each ends with a zero, and the list with another. */
static DWORD interfaces(const GUID *class, WCHAR *list, DWORD most)
{
    HDEVINFO set = SetupDiGetClassDevsW(class, NULL, NULL, DIGCF_DEVICEINTERFACE | DIGCF_PRESENT);
    SP_DEVICE_INTERFACE_DATA one = {sizeof one};
    DWORD used = 0, unlisted = GetEnvironmentVariableA("FAKE_UNLISTED", NULL, 0);

    for (DWORD index = 0; !unlisted && SetupDiEnumDeviceInterfaces(set, NULL, class, index, &one); index++) {
        char room[1024];
        SP_DEVICE_INTERFACE_DETAIL_DATA_W *detail = (void *)room;
        DWORD length;
        detail->cbSize = sizeof *detail;
        if (!(one.Flags & SPINT_ACTIVE) ||
            !SetupDiGetDeviceInterfaceDetailW(set, &one, detail, sizeof room, NULL, NULL))
            continue;
        length = lstrlenW(detail->DevicePath) + 1;
        if (used + length < most)
            lstrcpyW(list + used, detail->DevicePath);
        used += length;
    }
    SetupDiDestroyDeviceInfoList(set);
    if (used < most)
        list[used] = 0;
    return used + 1;
}

EXPORT DWORD WINAPI CM_Get_Device_Interface_List_SizeW(ULONG *length, const GUID *class, const WCHAR *device,
                                                       ULONG flags)
{
    *length = interfaces(class, NULL, 0);
    return 0;
}

/* CR_BUFFER_SMALL if the list has become longer. */
EXPORT DWORD WINAPI CM_Get_Device_Interface_ListW(const GUID *class, const WCHAR *device, WCHAR *list,
                                                  ULONG length, ULONG flags)
{
    return interfaces(class, list, length) > length ? 0x1A : 0;
}
