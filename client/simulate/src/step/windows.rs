//! Single-stepping with Windows' debugger functions.
//!
//! While a debug event waits to be continued, the whole program is stopped; [`Debuggee::run`] and
//! [`Debuggee::step`] continue it.
#![expect(unsafe_code, reason = "the debugger functions of Windows")]

use super::{BREAKPOINT, Event, Thread};
use crate::modules::Loaded;
use crate::registers::Registers;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::mem::zeroed;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::AsRawHandle;
use std::os::windows::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use windows_sys::Win32::Foundation::{
    CloseHandle, DBG_CONTINUE, DBG_EXCEPTION_NOT_HANDLED, EXCEPTION_BREAKPOINT,
    EXCEPTION_SINGLE_STEP, HANDLE, NTSTATUS, STATUS_WX86_BREAKPOINT, STATUS_WX86_SINGLE_STEP,
};
use windows_sys::Win32::Storage::FileSystem::{FILE_NAME_NORMALIZED, GetFinalPathNameByHandleW};
use windows_sys::Win32::System::Diagnostics::Debug::{
    CONTEXT, CONTEXT_CONTROL_AMD64, CONTEXT_INTEGER_AMD64, CREATE_PROCESS_DEBUG_EVENT,
    CREATE_THREAD_DEBUG_EVENT, ContinueDebugEvent, DEBUG_EVENT, EXCEPTION_DEBUG_EVENT,
    EXIT_PROCESS_DEBUG_EVENT, EXIT_THREAD_DEBUG_EVENT, FlushInstructionCache, GetThreadContext,
    LOAD_DLL_DEBUG_EVENT, ReadProcessMemory, SetThreadContext, WOW64_CONTEXT,
    WOW64_CONTEXT_CONTROL, WOW64_CONTEXT_INTEGER, WaitForDebugEvent, Wow64GetThreadContext,
    Wow64SetThreadContext, WriteProcessMemory,
};
use windows_sys::Win32::System::Threading::{
    DEBUG_ONLY_THIS_PROCESS, INFINITE, IsWow64Process, PROCESS_NAME_WIN32,
    QueryFullProcessImageNameW, ResumeThread, SuspendThread, TerminateProcess,
};

/// The trap flag in EFLAGS.
const TRAP_FLAG: u32 = 1 << 8;
/// The longest path that Windows returns.
const PATH_UNITS: u32 = 32 << 10;
/// Where a PE file's DOS header says at which offset its NT headers are (PE format, MS-DOS stub).
const E_LFANEW: u64 = 0x3C;
/// SizeOfImage in the NT headers: 24 bytes of signature and file header, 56 into the optional header, in
/// files of both sizes (PE format, optional header).
const SIZE_OF_IMAGE: u64 = 24 + 56;
/// STATUS_BREAKPOINT and similar statuses have the same number as the exception's code.
const BREAKPOINTS: [NTSTATUS; 2] = [EXCEPTION_BREAKPOINT, STATUS_WX86_BREAKPOINT];
const STEPS: [NTSTATUS; 2] = [EXCEPTION_SINGLE_STEP, STATUS_WX86_SINGLE_STEP];

#[derive(Clone, Copy, Debug)]
struct TracedThread {
    handle: HANDLE,
    /// Its environment block, which is the base of GS.
    environment: u64,
}

/// A debugged program. It ends when the tool ends, and when this is dropped.
#[derive(Debug)]
pub(crate) struct Debuggee {
    child: Child,
    first: Thread,
    base: u64,
    /// The DLLs in its memory, by their addresses.
    loaded: BTreeMap<u64, PathBuf>,
    threads: HashMap<Thread, TracedThread>,
    pub(super) breakpoints: BTreeMap<u64, u8>,
    /// The breakpoints of Windows' loader that are still to come, by code: the first one of each
    /// kind means that the program is about to start.
    loader_breakpoints: Vec<NTSTATUS>,
    is_32_bit: bool,
    /// The thread whose event has not been continued yet, and how it will be.
    pending: Option<(Thread, NTSTATUS)>,
    /// The last exception that was reported.
    last: NTSTATUS,
    ended: bool,
}

/// The registers of a thread, in one of Windows' two forms.
enum Context {
    Long(Box<Aligned>),
    Short(Box<WOW64_CONTEXT>),
}

/// CONTEXT must be aligned to 16 bytes, which windows-sys does not say.
#[repr(C, align(16))]
struct Aligned(CONTEXT);

fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Debuggee {
    /// Starts a program, which is stopped before its first instruction.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let child = command.creation_flags(DEBUG_ONLY_THIS_PROCESS).spawn()?;
        let mut is_wow64 = 0;
        // SAFETY: the process was just created and its handle is open; `is_wow64` is valid for a
        // write.
        check(unsafe { IsWow64Process(child.as_raw_handle(), &raw mut is_wow64) })?;
        let mut debuggee = Self {
            child,
            first: 0,
            base: 0,
            loaded: BTreeMap::new(),
            threads: HashMap::new(),
            breakpoints: BTreeMap::new(),
            loader_breakpoints: BREAKPOINTS.to_vec(),
            is_32_bit: is_wow64 != 0,
            pending: None,
            last: 0,
            ended: false,
        };
        while debuggee.first == 0 {
            let event = debuggee.next()?;
            debuggee.event(&event)?;
        }
        Ok(debuggee)
    }

    fn process(&self) -> HANDLE {
        self.child.as_raw_handle()
    }

    /// The program's file, and the address where its image starts.
    pub(crate) fn image(&self) -> io::Result<(PathBuf, u64)> {
        let mut path = vec![0_u16; PATH_UNITS as usize];
        let mut length = PATH_UNITS;
        // SAFETY: the process's handle is open, and `path` has room for `length` units.
        let named = unsafe {
            QueryFullProcessImageNameW(
                self.process(),
                PROCESS_NAME_WIN32,
                path.as_mut_ptr(),
                &raw mut length,
            )
        };
        check(named)?;
        path.truncate(length as usize);
        Ok((OsString::from_wide(&path).into(), self.base))
    }

    /// The files in its memory, each from its first byte to its last.
    pub(crate) fn modules(&self) -> io::Result<Vec<Loaded>> {
        let (path, base) = self.image()?;
        let own = [(base, path)].into_iter();
        let all = own.chain(self.loaded.iter().map(|(&base, path)| (base, path.clone())));
        let module = |(base, path): (u64, PathBuf)| {
            let end = base.checked_add(self.image_size(base)?)?;
            Some(Loaded { path, range: base..end })
        };
        Ok(all.filter_map(module).collect())
    }

    /// The size of the image at an address; `None` if its head cannot be read.
    fn image_size(&self, base: u64) -> Option<u64> {
        let number = |offset: u64| {
            let mut bytes = [0; 4];
            self.read(base.checked_add(offset)?, &mut bytes).ok()?;
            Some(u64::from(u32::from_le_bytes(bytes)))
        };
        number(number(E_LFANEW)? + SIZE_OF_IMAGE)
    }

    /// Runs it until the loader has loaded what it needs, and stops for a debugger.
    pub(crate) fn load(&mut self) -> io::Result<()> {
        let awaited = self.loader_breakpoints.len();
        while self.loader_breakpoints.len() == awaited {
            let event = self.next()?;
            if let Some(Event::Ended(_)) = self.event(&event)? {
                return Err(io::Error::other("it ended before its first instruction"));
            }
        }
        Ok(())
    }

    /// The thread that it starts with.
    pub(super) fn first(&self) -> Thread {
        self.first
    }

    /// What ends the program from another thread.
    pub(super) fn ender(&self) -> impl Fn() + Send + use<> {
        let process = self.child.as_raw_handle() as usize;
        move || {
            // SAFETY: takes a handle and a number, and touches no memory of ours. The handle is open
            // while the program is stepped.
            unsafe { TerminateProcess(process as HANDLE, 1) };
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "Linux knows it by the thread's registers")]
    pub(crate) fn is_32_bit(&self) -> io::Result<bool> {
        Ok(self.is_32_bit)
    }

    /// Reads its memory, completely or not at all.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (from, to) = (address as *const _, bytes.as_mut_ptr().cast());
        // SAFETY: `bytes` has room for its length, and the address is in the other process.
        check(unsafe {
            ReadProcessMemory(self.process(), from, to, bytes.len(), std::ptr::null_mut())
        })
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let (to, from) = (address as *const _, bytes.as_ptr().cast());
        // SAFETY: `bytes` is readable for its length, and the address is in the other process.
        check(unsafe {
            WriteProcessMemory(self.process(), to, from, bytes.len(), std::ptr::null_mut())
        })?;
        // SAFETY: the address is in the other process.
        check(unsafe { FlushInstructionCache(self.process(), to, bytes.len()) })
    }

    fn traced(&self, thread: Thread) -> io::Result<TracedThread> {
        let known = self.threads.get(&thread).copied();
        known.ok_or_else(|| io::Error::other("the thread is not known"))
    }

    fn context(&self, thread: Thread) -> io::Result<Context> {
        let handle = self.traced(thread)?.handle;
        if self.is_32_bit {
            // SAFETY: all zeros is a value of this structure of numbers.
            let mut context: Box<WOW64_CONTEXT> = Box::new(unsafe { zeroed() });
            context.ContextFlags = WOW64_CONTEXT_CONTROL | WOW64_CONTEXT_INTEGER;
            // SAFETY: the thread's handle is open until its end is continued, and the thread is
            // stopped.
            check(unsafe { Wow64GetThreadContext(handle, &raw mut *context) })?;
            return Ok(Context::Short(context));
        }
        // SAFETY: all zeros is a value of this structure of numbers.
        let mut context: Box<Aligned> = Box::new(Aligned(unsafe { zeroed() }));
        context.0.ContextFlags = CONTEXT_CONTROL_AMD64 | CONTEXT_INTEGER_AMD64;
        // SAFETY: as above; the structure is aligned to 16 bytes.
        check(unsafe { GetThreadContext(handle, &raw mut context.0) })?;
        Ok(Context::Long(context))
    }

    fn set_context(&self, thread: Thread, context: &Context) -> io::Result<()> {
        let handle = self.traced(thread)?.handle;
        match context {
            Context::Short(context) => {
                // SAFETY: the thread's handle is open, the thread is stopped, and the registers are
                // its own.
                check(unsafe { Wow64SetThreadContext(handle, &raw const **context) })
            }
            Context::Long(context) => {
                // SAFETY: as above; the structure is aligned to 16 bytes.
                check(unsafe { SetThreadContext(handle, &raw const context.0) })
            }
        }
    }

    /// Whether the last trap was a breakpoint, not a step.
    #[expect(clippy::unnecessary_wraps, reason = "Linux asks the thread")]
    pub(super) fn is_breakpoint(&self, _: Thread) -> io::Result<bool> {
        Ok(BREAKPOINTS.contains(&self.last))
    }

    pub(super) fn registers(&self, thread: Thread) -> io::Result<Registers> {
        let environment = self.traced(thread)?.environment;
        Ok(match self.context(thread)? {
            Context::Long(now) => {
                let now = &now.0;
                Registers {
                    general: [
                        now.Rax, now.Rcx, now.Rdx, now.Rbx, now.Rsp, now.Rbp, now.Rsi, now.Rdi,
                        now.R8, now.R9, now.R10, now.R11, now.R12, now.R13, now.R14, now.R15,
                    ],
                    ip: now.Rip,
                    fs: 0,
                    gs: environment,
                    is_32_bit: false,
                }
            }
            Context::Short(now) => {
                let mut general = [0; 16];
                let values =
                    [now.Eax, now.Ecx, now.Edx, now.Ebx, now.Esp, now.Ebp, now.Esi, now.Edi];
                for (register, value) in general.iter_mut().zip(values) {
                    *register = value.into();
                }
                Registers { general, ip: now.Eip.into(), fs: environment, gs: 0, is_32_bit: true }
            }
        })
    }

    fn change(&self, thread: Thread, ip: Option<u64>, traps: bool) -> io::Result<()> {
        let mut context = self.context(thread)?;
        match &mut context {
            Context::Long(now) => {
                now.0.Rip = ip.unwrap_or(now.0.Rip);
                now.0.EFlags = with_trap(now.0.EFlags, traps);
            }
            Context::Short(now) => {
                now.Eip = ip.map_or(now.Eip, |ip| ip as u32);
                now.EFlags = with_trap(now.EFlags, traps);
            }
        }
        self.set_context(thread, &context)
    }

    /// Clears the trap flag, which the program never set, in the flags that a system call has left in
    /// R11; returns the registers with it.
    pub(super) fn hide_trap_flag_in_r11(
        &self,
        thread: Thread,
        mut registers: Registers,
    ) -> io::Result<Registers> {
        let mut context = self.context(thread)?;
        if let Context::Long(now) = &mut context {
            now.0.R11 &= !u64::from(TRAP_FLAG);
            registers.general[11] = now.0.R11;
            self.set_context(thread, &context)?;
        }
        Ok(registers)
    }

    pub(super) fn set_ip(&self, thread: Thread, ip: u64) -> io::Result<()> {
        self.change(thread, Some(ip), false)
    }

    /// Lets a thread run at full speed.
    pub(super) fn run(&mut self, thread: Thread) -> io::Result<()> {
        if self.pending.is_some_and(|(_, status)| status == DBG_CONTINUE) {
            self.change(thread, None, false)?;
        }
        self.resume()
    }

    /// Lets a thread execute one instruction while others run.
    pub(super) fn step(&mut self, thread: Thread) -> io::Result<()> {
        self.change(thread, None, true)?;
        self.resume()
    }

    /// Passes a trap that is not ours to the program.
    pub(super) fn pass_on(&mut self, _: Thread) -> io::Result<()> {
        if let Some((_, status)) = &mut self.pending {
            *status = DBG_EXCEPTION_NOT_HANDLED;
        }
        self.resume()
    }

    fn resume(&mut self) -> io::Result<()> {
        let Some((thread, status)) = self.pending.take() else {
            return Ok(());
        };
        // SAFETY: the event of this thread is waiting to be continued.
        check(unsafe { ContinueDebugEvent(self.child.id(), thread, status) })
    }

    /// Lets a thread execute the instruction under a breakpoint while all others are stopped.
    pub(super) fn step_alone(&mut self, thread: Thread) -> io::Result<Event> {
        let ip = self.registers(thread)?.ip;
        let Some(&original) = self.breakpoints.get(&ip) else {
            self.step(thread)?;
            return self.wait();
        };
        let others = self.threads.iter().filter(|&(&other, _)| other != thread);
        let others: Vec<HANDLE> = others.map(|(_, traced)| traced.handle).collect();
        for &other in &others {
            // SAFETY: the thread's handle is open until its end is continued.
            unsafe { SuspendThread(other) };
        }
        self.write(ip, &[original])?;
        self.step(thread)?;
        let event = loop {
            match self.wait()? {
                // This event was on its way before the others were suspended: the thread will trap
                // again.
                Event::Trap(other) if other != thread => {
                    let ip = self.registers(other)?.ip.wrapping_sub(1);
                    if self.breaks_at(ip) {
                        self.set_ip(other, ip)?;
                    }
                    self.resume()?;
                }
                Event::Interrupted(other) if other != thread => self.resume()?,
                Event::ThreadEnded(other) if other != thread => {
                    self.threads.remove(&other);
                }
                event => break event,
            }
        };
        if !matches!(event, Event::Ended(_)) {
            self.write(ip, &[BREAKPOINT])?;
        }
        for &other in &others {
            // SAFETY: as above. If the thread has ended in the meantime, resuming it fails, which
            // is harmless.
            unsafe { ResumeThread(other) };
        }
        Ok(event)
    }

    pub(super) fn wait(&mut self) -> io::Result<Event> {
        loop {
            let event = self.next()?;
            if let Some(event) = self.event(&event)? {
                return Ok(event);
            }
        }
    }

    /// The next event; whatever waits to be continued is continued first.
    fn next(&mut self) -> io::Result<DEBUG_EVENT> {
        self.resume()?;
        // SAFETY: all zeros is a value of this structure of numbers and pointers.
        let mut event: DEBUG_EVENT = unsafe { zeroed() };
        // SAFETY: `event` is valid for a write.
        check(unsafe { WaitForDebugEvent(&raw mut event, INFINITE) })?;
        self.pending = Some((event.dwThreadId, DBG_CONTINUE));
        Ok(event)
    }

    /// The event that Windows' event means; `None` if only this file handles it.
    fn event(&mut self, event: &DEBUG_EVENT) -> io::Result<Option<Event>> {
        let thread = event.dwThreadId;
        match event.dwDebugEventCode {
            EXCEPTION_DEBUG_EVENT => {
                // SAFETY: the event's code says that this member was written.
                let info = unsafe { event.u.Exception };
                return Ok(self.exception(thread, info.ExceptionRecord.ExceptionCode));
            }
            CREATE_PROCESS_DEBUG_EVENT => {
                // SAFETY: as above.
                let info = unsafe { event.u.CreateProcessInfo };
                close(info.hFile);
                self.first = thread;
                self.base = info.lpBaseOfImage as u64;
                self.add(thread, info.hThread, info.lpThreadLocalBase as u64);
            }
            CREATE_THREAD_DEBUG_EVENT => {
                // SAFETY: as above.
                let info = unsafe { event.u.CreateThread };
                self.add(thread, info.hThread, info.lpThreadLocalBase as u64);
            }
            LOAD_DLL_DEBUG_EVENT => {
                // SAFETY: as above.
                let info = unsafe { event.u.LoadDll };
                if let Some(path) = path_of(info.hFile) {
                    self.loaded.insert(info.lpBaseOfDll as u64, path);
                }
                close(info.hFile);
            }
            EXIT_THREAD_DEBUG_EVENT => {
                self.threads.remove(&thread);
                return Ok(Some(Event::ThreadEnded(thread)));
            }
            EXIT_PROCESS_DEBUG_EVENT => {
                // SAFETY: as above.
                let status = unsafe { event.u.ExitProcess }.dwExitCode;
                self.ended = true;
                self.resume()?;
                return Ok(Some(Event::Ended(status)));
            }
            _ => {}
        }
        Ok(None)
    }

    fn add(&mut self, thread: Thread, handle: HANDLE, environment: u64) {
        let traced = TracedThread { handle, environment };
        self.threads.insert(thread, traced);
    }

    fn exception(&mut self, thread: Thread, code: NTSTATUS) -> Option<Event> {
        self.last = code;
        if let Some(at) = self.loader_breakpoints.iter().position(|&breakpoint| breakpoint == code)
        {
            let registers = self.registers(thread);
            let ours = registers.is_ok_and(|now| self.breaks_at(now.ip.wrapping_sub(1)));
            if !ours {
                self.loader_breakpoints.remove(at);
                return None;
            }
        }
        if BREAKPOINTS.contains(&code) || STEPS.contains(&code) {
            return Some(Event::Trap(thread));
        }
        self.pending = Some((thread, DBG_EXCEPTION_NOT_HANDLED));
        Some(Event::Interrupted(thread))
    }
}

impl Drop for Debuggee {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            // Its end is an event too.
            while !self.ended && self.wait().is_ok() {}
        }
    }
}

const fn with_trap(flags: u32, traps: bool) -> u32 {
    if traps { flags | TRAP_FLAG } else { flags & !TRAP_FLAG }
}

/// The path of a file that is open; `None` if Windows does not say it.
fn path_of(file: HANDLE) -> Option<PathBuf> {
    let mut path = vec![0_u16; PATH_UNITS as usize];
    // SAFETY: the event's handle is open, or null, which is refused; `path` has room for so many units.
    let length = unsafe {
        GetFinalPathNameByHandleW(file, path.as_mut_ptr(), PATH_UNITS, FILE_NAME_NORMALIZED)
    };
    let path = path.get(..length as usize).filter(|path| !path.is_empty())?;
    let path = OsString::from_wide(path);
    // The form without the limit of 260 units, which no user types.
    let shown = path.to_str().and_then(|path| path.strip_prefix(r"\\?\"));
    Some(shown.map_or_else(|| PathBuf::from(&path), PathBuf::from))
}

fn close(handle: HANDLE) {
    if !handle.is_null() {
        // SAFETY: this handle came with the event, and nobody else closes it.
        unsafe { CloseHandle(handle) };
    }
}
