/* Replaces cfgmgr32.dll, because Wine 8 lacks its functions that switch a device.
 *
 * A device runs unless there is a file called `disabled`, which disabling creates and enabling
 * removes. With FAKE_ANSWER (hexadecimal) both return that and do nothing. No device has an
 * interface.
 */
#include <windows.h>
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

EXPORT DWORD WINAPI CM_Get_Device_Interface_List_SizeW(ULONG *length, const GUID *class, const WCHAR *device,
                                                       ULONG flags)
{
    *length = 1;
    return 0;
}

EXPORT DWORD WINAPI CM_Get_Device_Interface_ListW(const GUID *class, const WCHAR *device, WCHAR *list,
                                                  ULONG length, ULONG flags)
{
    *list = 0;
    return 0;
}
