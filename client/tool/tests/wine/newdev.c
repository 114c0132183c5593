/* Replaces newdev.dll, which Wine 8 implements only in part.
 *
 * If Wine's own is there under another name, that installs. Otherwise, of an installation it does what the tool can see: it copies the INF file to Windows' own, under
 * the name that the driver store would give it, and creates the service. With FAKE_ERROR
 * (hexadecimal) it fails, with FAKE_RESTART it asks for a restart.
 */
#include <windows.h>
#include <setupapi.h>
#include <stdlib.h>

static DWORD number(const char *name)
{
    char text[32];
    if (!GetEnvironmentVariableA(name, text, sizeof text))
        return 0;
    return strtoul(text, NULL, 16);
}

__declspec(dllexport) BOOL WINAPI UpdateDriverForPlugAndPlayDevicesW(HWND window, LPCWSTR id, LPCWSTR inf,
                                                                     DWORD flags, PBOOL restart)
{
    HMODULE own = LoadLibraryA("winenewdev.dll");
    SC_HANDLE manager, service;

    if (own) {
        BOOL(WINAPI *update)(HWND, LPCWSTR, LPCWSTR, DWORD, PBOOL) =
            (void *)GetProcAddress(own, "UpdateDriverForPlugAndPlayDevicesW");
        return update(window, id, inf, flags, restart);
    }
    if (window || lstrcmpiW(id, L"Root\\halprof") || flags != 5 || number("FAKE_ERROR")) {
        SetLastError(number("FAKE_ERROR"));
        return FALSE;
    }
    if (!CopyFileW(inf, L"C:\\windows\\inf\\oem7.inf", FALSE))
        return FALSE;
    manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_ALL_ACCESS);
    service = CreateServiceW(manager, L"halprof", L"halprof", SERVICE_ALL_ACCESS, SERVICE_KERNEL_DRIVER,
                             SERVICE_DEMAND_START, SERVICE_ERROR_NORMAL, L"halprof.sys", NULL, NULL, NULL, NULL, NULL);
    CloseServiceHandle(service);
    CloseServiceHandle(manager);
    *restart = number("FAKE_RESTART") != 0;
    return TRUE;
}

__declspec(dllexport) BOOL WINAPI DiUninstallDevice(HWND window, HDEVINFO set, PSP_DEVINFO_DATA device,
                                                    DWORD flags, PBOOL restart)
{
    if (window || flags)
        return FALSE;
    *restart = number("FAKE_RESTART") != 0;
    return SetupDiCallClassInstaller(DIF_REMOVE, set, device);
}
