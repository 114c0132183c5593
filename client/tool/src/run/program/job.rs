//! A process that is started suspended, and the job object for it and everything it starts.
#![expect(unsafe_code, reason = "the functions of Windows are foreign")]

use super::STATUS_CONTROL_C_EXIT;
use std::ffi::OsString;
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::ptr;
use std::time::Duration;
use windows_sys::Win32::Foundation::{FALSE, HANDLE, WAIT_FAILED, WAIT_TIMEOUT};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT, JOB_OBJECT_LIMIT_BREAKAWAY_OK,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS,
    JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation, JobObjectGroupInformationEx,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::SystemInformation::GROUP_AFFINITY;
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CreateWaitableTimerExW, GetActiveProcessorGroupCount,
    INFINITE, OpenProcess, OpenThread, PROCESS_NAME_WIN32, PROCESS_QUERY_LIMITED_INFORMATION,
    PROCESS_SYNCHRONIZE, QueryFullProcessImageNameW, ResumeThread, SetProcessAffinityMask,
    SetWaitableTimer, THREAD_SUSPEND_RESUME, TIMER_ALL_ACCESS, WaitForMultipleObjects,
    WaitForSingleObject,
};

/// The CreateProcessW flag with which a program waits to be resumed.
pub(super) use windows_sys::Win32::System::Threading::CREATE_SUSPENDED;

/// At most this many processes of a job are examined.
const PROCESSES_MAX: usize = 4096;
/// The longest path that Windows returns.
const PATH_UNITS: usize = 32 << 10;

/// A job object. Its processes end when it is dropped, unless [`Job::leave_alone`] was called.
#[derive(Debug)]
pub(super) struct Job(OwnedHandle);

/// The head of JOBOBJECT_BASIC_PROCESS_ID_LIST, with room for more processes than its one.
#[repr(C)]
struct Members {
    assigned: u32,
    listed: u32,
    processes: [usize; PROCESSES_MAX],
}

impl Job {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: neither security attributes nor a name are given.
        let job = owned(unsafe { CreateJobObjectW(ptr::null(), ptr::null()) });
        let job = Self(job.ok_or_else(io::Error::last_os_error)?);
        job.limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)?;
        Ok(job)
    }

    /// Lets the job's processes outlive it.
    pub(super) fn leave_alone(&self) -> io::Result<()> {
        self.limit(0)
    }

    /// A program may start children outside the job if it wants to, as it may without a job.
    fn limit(&self, more: JOB_OBJECT_LIMIT) -> io::Result<()> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_BREAKAWAY_OK | more;
        self.set(JobObjectExtendedLimitInformation, &limits)
    }

    fn set<T>(&self, class: JOBOBJECTINFOCLASS, information: &T) -> io::Result<()> {
        // SAFETY: the handle is open, and `information` is valid for reads of its length.
        let set = unsafe {
            SetInformationJobObject(
                self.0.as_raw_handle(),
                class,
                ptr::from_ref(information).cast(),
                size_of::<T>() as u32,
            )
        };
        done(set)
    }

    /// Puts a process into the job, together with everything that it starts from now on.
    pub(super) fn add(&self, child: &Child) -> io::Result<()> {
        // SAFETY: both handles are open.
        let added =
            unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), child.as_raw_handle()) };
        done(added)
    }

    /// Restricts a process in the job, and everything it starts, to processors of one group.
    pub(super) fn pin(&self, child: &Child, group: u16, mask: usize) -> io::Result<()> {
        // SAFETY: takes no argument and cannot fail.
        let groups = unsafe { GetActiveProcessorGroupCount() };
        if groups > 1 {
            let affinity = GROUP_AFFINITY { Mask: mask, Group: group, Reserved: [0; 3] };
            return self.set(JobObjectGroupInformationEx, &affinity);
        }
        // SAFETY: the handle is open.
        done(unsafe { SetProcessAffinityMask(child.as_raw_handle(), mask) })
    }

    /// The running processes of the job: identifiers, and names if Windows reveals them.
    #[expect(clippy::large_stack_arrays, reason = "32 KiB, of a megabyte")]
    pub(super) fn processes(&self) -> Vec<(u32, Option<String>)> {
        let mut members =
            Box::new(Members { assigned: 0, listed: 0, processes: [0; PROCESSES_MAX] });
        // If there are more than fit, the call fails but fills the buffer.
        // SAFETY: the handle is open, `members` is valid for writes of the length given, and the
        // length written is not requested.
        unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicProcessIdList,
                ptr::from_mut(members.as_mut()).cast(),
                size_of::<Members>() as u32,
                ptr::null_mut(),
            )
        };
        let listed = members.processes.iter().take(members.listed as usize);
        let running = |&process: &usize| {
            let process = u32::try_from(process).ok()?;
            let handle = open(process)?;
            // SAFETY: the handle is open.
            let waited = unsafe { WaitForSingleObject(handle.as_raw_handle(), 0) };
            (waited == WAIT_TIMEOUT).then(|| (process, name(&handle)))
        };
        listed.filter_map(running).collect()
    }

    /// Ends every process in the job.
    pub(super) fn end(&self) {
        // SAFETY: the handle is open.
        unsafe { TerminateJobObject(self.0.as_raw_handle(), STATUS_CONTROL_C_EXIT) };
    }
}

/// The thread of a process that was started suspended; it has only one.
pub(super) fn thread_of(process: u32) -> io::Result<OwnedHandle> {
    let thread = halprof_setup::windows::thread_of(process);
    let thread = thread.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: no pointer is passed.
    let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, FALSE, thread) };
    owned(thread).ok_or_else(io::Error::last_os_error)
}

/// A timer that is exact to a fraction of a millisecond, if Windows has one.
pub(super) fn timer() -> io::Result<OwnedHandle> {
    let timer = |flags| {
        // SAFETY: neither security attributes nor a name are given.
        owned(unsafe { CreateWaitableTimerExW(ptr::null(), ptr::null(), flags, TIMER_ALL_ACCESS) })
    };
    let exact = timer(CREATE_WAITABLE_TIMER_HIGH_RESOLUTION);
    exact.or_else(|| timer(0)).ok_or_else(io::Error::last_os_error)
}

/// Waits until a process ends, for at most `longest`.
pub(super) fn wait(child: &Child, timer: &OwnedHandle, longest: Duration) -> io::Result<()> {
    // In units of 100 ns; negative values are relative to now.
    let due = i64::try_from(longest.as_nanos() / 100).unwrap_or(i64::MAX);
    let due = due.saturating_neg();
    // SAFETY: the handle is open, `due` is valid for reads, and no routine is given.
    let set = unsafe {
        SetWaitableTimer(timer.as_raw_handle(), &raw const due, 0, None, ptr::null(), FALSE)
    };
    done(set)?;
    let handles = [child.as_raw_handle(), timer.as_raw_handle()];
    // SAFETY: both handles are open, and `handles` is valid for reads of two.
    let waited = unsafe { WaitForMultipleObjects(2, handles.as_ptr(), FALSE, INFINITE) };
    done((waited != WAIT_FAILED).into())
}

/// Waits until a process ends, for at most `longest`; returns whether it has ended.
pub(super) fn wait_for(process: &OwnedHandle, longest: Duration) -> io::Result<bool> {
    let longest_ms = u32::try_from(longest.as_millis()).unwrap_or(INFINITE - 1);
    // SAFETY: the handle is open.
    match unsafe { WaitForSingleObject(process.as_raw_handle(), longest_ms) } {
        WAIT_TIMEOUT => Ok(false),
        WAIT_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(true),
    }
}

/// Lets a suspended thread run.
pub(super) fn resume(thread: &OwnedHandle) -> io::Result<()> {
    // SAFETY: the handle is open.
    let before = unsafe { ResumeThread(thread.as_raw_handle()) };
    done((before != u32::MAX).into())
}

pub(super) fn open(process: u32) -> Option<OwnedHandle> {
    let access = PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE;
    // SAFETY: no pointer is passed.
    owned(unsafe { OpenProcess(access, FALSE, process) })
}

fn owned(handle: HANDLE) -> Option<OwnedHandle> {
    // SAFETY: a handle that is not null was just opened, and is owned by nobody else.
    (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// The file that a process runs.
pub(super) fn file(child: &Child) -> Option<PathBuf> {
    path(child).map(PathBuf::from)
}

fn name(process: &OwnedHandle) -> Option<String> {
    let path = path(process)?;
    let name = Path::new(&path).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

fn path(process: &impl AsRawHandle) -> Option<OsString> {
    let mut path = vec![0; PATH_UNITS];
    let mut length = PATH_UNITS as u32;
    // SAFETY: the handle is open, and `path` is valid for writes of the length given.
    let named = unsafe {
        QueryFullProcessImageNameW(
            process.as_raw_handle(),
            PROCESS_NAME_WIN32,
            path.as_mut_ptr(),
            &raw mut length,
        )
    };
    path.get(..length as usize).filter(|_| named != FALSE).map(OsString::from_wide)
}

fn done(done: i32) -> io::Result<()> {
    if done == FALSE {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
