//! The functions of Windows' own tracing (evntrace.h), and what else a session needs of Windows.
//!
//! Nothing is decided here: [`Tracer`] does that.

use super::consumer::{consume, keep_loaded};
use super::performance_counter::{frequency, now};
use super::privilege::{self, last_error};
use crate::live_tracing::Consumer;
use crate::tracing::session::{
    Calls, Class, Control, Folder, HEADER_BYTES, Lock, NAME_UNITS, Properties, Provider, Tracer,
    end_running,
};
use std::env;
use std::ffi::{OsStr, OsString, c_void};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::mem::{self, offset_of, size_of};
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Once};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_ALREADY_EXISTS, ERROR_BAD_LENGTH, ERROR_GEN_FAILURE,
    ERROR_NOT_SUPPORTED, ERROR_SHARING_VIOLATION, ERROR_SUCCESS, FALSE, FILETIME, LocalFree, TRUE,
    WAIT_TIMEOUT, WIN32_ERROR,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{
    SECURITY_ATTRIBUTES, TOKEN_ADJUST_PRIVILEGES, TOKEN_PRIVILEGES, TOKEN_QUERY,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateDirectoryW, FILE_SHARE_READ, GetDiskFreeSpaceExW,
};
use windows_sys::Win32::System::Console::{
    CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT, SetConsoleCtrlHandler,
};
use windows_sys::Win32::System::Diagnostics::Etw::{
    CLASSIC_EVENT_ID, CONTROLTRACE_HANDLE, ControlTraceW, ETW_PMC_COUNTER_OWNER,
    ETW_PMC_COUNTER_OWNERSHIP_STATUS, ETW_PMC_SESSION_INFO, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
    EVENT_TRACE_CONTROL_FLUSH, EVENT_TRACE_CONTROL_QUERY, EVENT_TRACE_CONTROL_STOP,
    EVENT_TRACE_PROPERTIES, EnableTraceEx2, PROFILE_SOURCE_INFO, StartTraceW,
    TRACE_PROFILE_INTERVAL, TRACE_QUERY_INFO_CLASS, TraceLbrConfigurationInfo,
    TraceLbrEventListInfo, TraceMaxPmcCounterQuery, TracePmcCounterListInfo, TracePmcCounterOwners,
    TracePmcEventListInfo, TracePmcSessionInformation, TraceProfileSourceConfigInfo,
    TraceProfileSourceListInfo, TraceSampledProfileIntervalInfo, TraceSetInformation,
    TraceStackTracingInfo, TraceSystemTraceEnableFlagsInfo,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::SystemInformation::{
    GetSystemTimeAsFileTime, GetSystemWindowsDirectoryW, GetTickCount64,
};
use windows_sys::Win32::System::Threading::{
    ALL_PROCESSOR_GROUPS, GetActiveProcessorCount, GetCurrentProcess, OpenProcess,
    OpenProcessToken, PROCESS_SYNCHRONIZE, WaitForSingleObject,
};
use windows_sys::core::{BOOL, GUID, s, w};

/// The file in the folder of sessions that their owner has open.
const LOCK: &str = "owner";

/// The folder of the session's files, below the folder of Windows. Only administrators can create
/// anything there, so nobody else can have prepared it.
const FOLDER: &str = r"System32\LogFiles\halprof";
/// The folder of an account that has been given the right to trace, below its local application data.
const FOLDER_OF_USER: &str = r"halprof\traces";
/// Full access for SYSTEM and administrators, to the folder and everything in it; nothing is
/// inherited.
const ADMINISTRATORS: &str = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";

// The structures that `tracing` lays out itself agree with evntrace.h, as windows-sys has it.
const _: () = {
    assert!(size_of::<EVENT_TRACE_PROPERTIES>() == HEADER_BYTES);
    assert!(align_of::<EVENT_TRACE_PROPERTIES>() == align_of::<Properties>());
    assert!(size_of::<Properties>() == HEADER_BYTES + 4 * NAME_UNITS);
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, BufferSize) == offset_of!(Properties, buffer_kb));
    assert!(
        offset_of!(EVENT_TRACE_PROPERTIES, LogFileMode) == offset_of!(Properties, log_file_mode)
    );
    assert!(offset_of!(EVENT_TRACE_PROPERTIES, EventsLost) == offset_of!(Properties, events_lost));
    assert!(
        offset_of!(EVENT_TRACE_PROPERTIES, BuffersWritten)
            == offset_of!(Properties, buffers_written)
    );
    assert!(
        offset_of!(EVENT_TRACE_PROPERTIES, LogBuffersLost)
            == offset_of!(Properties, log_buffers_lost)
    );
    assert!(
        offset_of!(EVENT_TRACE_PROPERTIES, LoggerNameOffset)
            == offset_of!(Properties, logger_name_offset)
    );
    assert!(size_of::<CLASSIC_EVENT_ID>() == 24 && offset_of!(CLASSIC_EVENT_ID, Type) == 16);
    assert!(size_of::<TRACE_PROFILE_INTERVAL>() == 8);
    assert!(offset_of!(PROFILE_SOURCE_INFO, Description) == 24);
    assert!(size_of::<ETW_PMC_COUNTER_OWNER>() == 12);
    assert!(offset_of!(ETW_PMC_COUNTER_OWNERSHIP_STATUS, CounterOwners) == 8);
    assert!(size_of::<ETW_PMC_SESSION_INFO>() == 16);
    assert!(Control::Query as u32 == EVENT_TRACE_CONTROL_QUERY);
    assert!(Control::Stop as u32 == EVENT_TRACE_CONTROL_STOP);
    assert!(Control::Flush as u32 == EVENT_TRACE_CONTROL_FLUSH);
    assert_class(Class::TraceStackTracingInfo, TraceStackTracingInfo);
    assert_class(Class::TraceSystemTraceEnableFlagsInfo, TraceSystemTraceEnableFlagsInfo);
    assert_class(Class::TraceSampledProfileIntervalInfo, TraceSampledProfileIntervalInfo);
    assert_class(Class::TraceProfileSourceConfigInfo, TraceProfileSourceConfigInfo);
    assert_class(Class::TraceProfileSourceListInfo, TraceProfileSourceListInfo);
    assert_class(Class::TracePmcEventListInfo, TracePmcEventListInfo);
    assert_class(Class::TracePmcCounterListInfo, TracePmcCounterListInfo);
    assert_class(Class::TraceLbrConfigurationInfo, TraceLbrConfigurationInfo);
    assert_class(Class::TraceLbrEventListInfo, TraceLbrEventListInfo);
    assert_class(Class::TraceMaxPmcCounterQuery, TraceMaxPmcCounterQuery);
    assert_class(Class::TracePmcCounterOwners, TracePmcCounterOwners);
    assert_class(Class::TracePmcSessionInformation, TracePmcSessionInformation);
};

const fn assert_class(class: Class, number: TRACE_QUERY_INFO_CLASS) {
    assert!(class as i32 == number);
}

/// Windows, for a tracer.
pub struct EtwCalls {
    /// The open file, while there is a session.
    lock: Option<File>,
    /// The state of the privilege before it was enabled, in the token of this process.
    privilege: Option<(OwnedHandle, TOKEN_PRIVILEGES)>,
}

/// Windows' own tracing.
pub fn tracer() -> Tracer<EtwCalls> {
    static ONCE: Once = Once::new();
    ONCE.call_once(end_with_console);
    Tracer::new(EtwCalls { lock: None, privilege: None })
}

impl fmt::Debug for EtwCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtwCalls").field("lock", &self.lock).finish_non_exhaustive()
    }
}

impl Calls for EtwCalls {
    /// A file that is open for writing, which others may only read: a scanner of viruses may. Windows
    /// closes it when the process ends, however it does.
    fn lock(&mut self, folder: &Path) -> Result<Lock, u32> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false).share_mode(FILE_SHARE_READ);
        match options.open(folder.join(LOCK)) {
            Ok(file) => {
                self.lock = Some(file);
                Ok(Lock::Ours)
            }
            Err(error) => match error.raw_os_error().map(i32::cast_unsigned) {
                Some(ERROR_SHARING_VIOLATION) => Ok(Lock::Held),
                error => Err(error.unwrap_or(ERROR_GEN_FAILURE)),
            },
        }
    }

    fn unlock(&mut self) {
        self.lock = None;
    }

    /// A process that this one may not open is there all the same.
    fn is_running(&mut self, process: u32) -> bool {
        // SAFETY: takes numbers.
        let handle = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, FALSE, process) };
        if handle.is_null() {
            return last_error() == ERROR_ACCESS_DENIED;
        }
        // SAFETY: OpenProcess succeeded, so the handle is open and owned by nobody else.
        let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
        // SAFETY: the handle is open, and with a time of 0 nothing is waited for.
        unsafe { WaitForSingleObject(handle.as_raw_handle(), 0) == WAIT_TIMEOUT }
    }

    /// Enables it in the token of the process, as other tools do: no document says that Windows
    /// looks at the thread's token. It is disabled soon, because a program that is started
    /// meanwhile would inherit it.
    fn set_privilege(&mut self, enabled: bool) -> Result<(), u32> {
        if !enabled {
            let Some((token, before)) = self.privilege.take() else { return Ok(()) };
            return privilege::adjust(&token, &before).map(drop);
        }
        let token = token()?;
        let before = privilege::enable(&token, "SeSystemProfilePrivilege")?;
        self.privilege = Some((token, before));
        Ok(())
    }

    fn start_trace(&mut self, properties: &mut Properties) -> Result<u64, u32> {
        let name = properties.logger_name;
        let mut handle = CONTROLTRACE_HANDLE::default();
        // SAFETY: `handle` is valid for a write; the name, a copy, ends with a zero, for names are
        // shorter than their fields; `properties` begins with EVENT_TRACE_PROPERTIES (see above), says
        // its own size, and has both names inside it.
        let error =
            unsafe { StartTraceW(&raw mut handle, name.as_ptr(), (&raw mut *properties).cast()) };
        status(error).map(|()| handle.Value)
    }

    fn control_trace(&mut self, control: Control, properties: &mut Properties) -> Result<(), u32> {
        let name = properties.logger_name;
        // SAFETY: as for StartTraceW; handle 0 means the session of that name.
        let error = unsafe {
            ControlTraceW(
                CONTROLTRACE_HANDLE::default(),
                name.as_ptr(),
                (&raw mut *properties).cast(),
                control as u32,
            )
        };
        status(error)
    }

    fn set(&mut self, handle: u64, class: Class, data: &[u8]) -> Result<(), u32> {
        let length = length(data)?;
        // SAFETY: `data` is valid for reads of `length` bytes, and Windows copies it.
        let error = unsafe {
            TraceSetInformation(
                CONTROLTRACE_HANDLE { Value: handle },
                class as i32,
                data.as_ptr().cast(),
                length,
            )
        };
        status(error)
    }

    fn enable(&mut self, handle: u64, provider: &Provider) -> Result<(), u32> {
        let guid = GUID::from_u128(provider.guid.0);
        // SAFETY: `guid` is valid for a read; without parameters nothing else is read.
        let error = unsafe {
            EnableTraceEx2(
                CONTROLTRACE_HANDLE { Value: handle },
                &raw const guid,
                EVENT_CONTROL_CODE_ENABLE_PROVIDER,
                provider.level,
                provider.keywords,
                0,
                provider.patience_ms,
                ptr::null(),
            )
        };
        status(error)
    }

    fn query(&mut self, class: Class, buffer: &mut [u8]) -> Result<usize, u32> {
        let length = length(buffer)?;
        let mut returned = 0;
        let query = query_function()?;
        // SAFETY: `buffer` is valid for reads and writes of `length` bytes, `returned` for a write.
        let error = unsafe {
            query(
                CONTROLTRACE_HANDLE::default(),
                class as i32,
                buffer.as_mut_ptr().cast(),
                length,
                &raw mut returned,
            )
        };
        status(error).map(|()| returned as usize)
    }

    fn folder(&mut self, folder: Folder) -> io::Result<PathBuf> {
        match folder {
            Folder::Administrators => folder_of_administrators(),
            Folder::User => folder_of_user(),
        }
    }

    fn consume(&mut self, consumer: Arc<dyn Consumer>) -> Result<(), u32> {
        keep_loaded()?;
        consume(Properties::named().logger_name.to_vec(), consumer)
    }

    fn free_bytes(&mut self, folder: &Path) -> io::Result<u64> {
        let path = terminated(folder);
        let mut free = 0;
        // SAFETY: the path ends with a zero, `free` is valid for a write, and the others are not
        // requested.
        let done = unsafe {
            GetDiskFreeSpaceExW(path.as_ptr(), &raw mut free, ptr::null_mut(), ptr::null_mut())
        };
        if done == FALSE { Err(io::Error::last_os_error()) } else { Ok(free) }
    }

    fn processors(&mut self) -> u32 {
        // SAFETY: takes a number.
        unsafe { GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) }
    }

    fn elevated(&mut self) -> Option<bool> {
        privilege::elevated()
    }

    fn performance_counter(&mut self) -> (i64, u64) {
        (now(), frequency())
    }

    fn boot_time(&mut self) -> u64 {
        const UNITS_PER_SECOND: u64 = 10_000_000;
        let mut now = FILETIME::default();
        // SAFETY: `now` is valid for a write.
        unsafe { GetSystemTimeAsFileTime(&raw mut now) };
        // SAFETY: takes no argument.
        let uptime_ms = unsafe { GetTickCount64() };
        let now = u64::from(now.dwHighDateTime) << 32 | u64::from(now.dwLowDateTime);
        (now / UNITS_PER_SECOND).saturating_sub(uptime_ms / 1000)
    }
}

/// The folder below the folder of Windows. It creates the folder above too, which Wine lacks.
fn folder_of_administrators() -> io::Result<PathBuf> {
    let folder = windows_folder()?.join(FOLDER);
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    let access = terminated(ADMINISTRATORS);
    let mut descriptor = ptr::null_mut();
    // SAFETY: the text ends with a zero, `descriptor` is valid for a write, and the length is not
    // requested.
    let parsed = unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            access.as_ptr(),
            SDDL_REVISION_1,
            &raw mut descriptor,
            ptr::null_mut(),
        )
    };
    if parsed == FALSE {
        return Err(io::Error::last_os_error());
    }
    // The folder is created with its access: if that were set afterwards, others could open the
    // folder in between.
    let attributes = SECURITY_ATTRIBUTES {
        nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
        lpSecurityDescriptor: descriptor,
        bInheritHandle: FALSE,
    };
    let path = terminated(&folder);
    // SAFETY: the path ends with a zero; `attributes` and the descriptor in it are valid.
    let created = unsafe { CreateDirectoryW(path.as_ptr(), &raw const attributes) };
    let error = io::Error::last_os_error();
    // SAFETY: the conversion has allocated it, for LocalFree.
    unsafe { LocalFree(descriptor) };
    let exists = error.raw_os_error() == Some(ERROR_ALREADY_EXISTS.cast_signed());
    if created == FALSE && !exists {
        return Err(error);
    }
    Ok(folder)
}

/// The folder in the profile of the user, which only the user, SYSTEM and administrators can open.
fn folder_of_user() -> io::Result<PathBuf> {
    let profile = env::var_os("LOCALAPPDATA").ok_or(io::ErrorKind::NotFound)?;
    let folder = Path::new(&profile).join(FOLDER_OF_USER);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// TraceQueryInformation.
type Query = unsafe extern "system" fn(
    CONTROLTRACE_HANDLE,
    TRACE_QUERY_INFO_CLASS,
    *mut c_void,
    u32,
    *mut u32,
) -> WIN32_ERROR;

/// The function, looked up when it is needed: Wine lacks it, so a program that imports it would not
/// start there.
fn query_function() -> Result<Query, u32> {
    // SAFETY: the name ends with a zero. This program imports the module, so it stays loaded.
    let module = unsafe { GetModuleHandleW(w!("advapi32.dll")) };
    if module.is_null() {
        return Err(last_error());
    }
    // SAFETY: the module is loaded, and the name ends with a zero.
    let function = unsafe { GetProcAddress(module, s!("TraceQueryInformation")) };
    let function = function.ok_or(ERROR_NOT_SUPPORTED)?;
    // SAFETY: the function of this name has this type (evntrace.h).
    Ok(unsafe { mem::transmute::<unsafe extern "system" fn() -> isize, Query>(function) })
}

/// The token of this process.
fn token() -> Result<OwnedHandle, u32> {
    // SAFETY: takes no argument and cannot fail; the pseudo handle needs no closing.
    let process = unsafe { GetCurrentProcess() };
    let mut token = ptr::null_mut();
    let access = TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY;
    // SAFETY: `process` is valid, and `token` is valid for a write.
    if unsafe { OpenProcessToken(process, access, &raw mut token) } == FALSE {
        return Err(last_error());
    }
    // SAFETY: OpenProcessToken succeeded, so the handle is open and owned by nobody else.
    Ok(unsafe { OwnedHandle::from_raw_handle(token) })
}

/// Ends the session before Windows ends the process. Windows waits for console handlers, but for no
/// other thread, and it calls the handler that was added last first, which is this one.
fn end_with_console() {
    unsafe extern "system" fn handler(event: u32) -> BOOL {
        if matches!(event, CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT) {
            end_running();
        }
        FALSE
    }
    // Fails without a console, and then there is none to close. SAFETY: the handler is a function,
    // which is never freed.
    unsafe { SetConsoleCtrlHandler(Some(handler), TRUE) };
}

/// The folder of Windows.
pub fn windows_folder() -> io::Result<PathBuf> {
    let mut path = [0_u16; 260];
    // SAFETY: `path` is valid for writes of the characters given.
    let length = unsafe { GetSystemWindowsDirectoryW(path.as_mut_ptr(), path.len() as u32) };
    match path.get(..length as usize) {
        Some(path) if !path.is_empty() => Ok(OsString::from_wide(path).into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The text with its terminating zero.
fn terminated(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain([0]).collect()
}

fn length(bytes: &[u8]) -> Result<u32, u32> {
    u32::try_from(bytes.len()).map_err(|_| ERROR_BAD_LENGTH)
}

const fn status(error: WIN32_ERROR) -> Result<(), u32> {
    match error {
        ERROR_SUCCESS => Ok(()),
        error => Err(error),
    }
}
