//! Single-stepping with ptrace.
#![expect(clippy::unused_self, reason = "on Windows the same functions need it")]

use super::{BREAKPOINT, Event, TRAP_FLAG, Thread};
use crate::modules::Loaded;
use crate::registers::Registers;
use nix::errno::Errno;
use nix::sys::personality::{self, Persona};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

/// CS of 32-bit code on 64-bit Linux: `__USER32_CS` of its <asm/segment.h>.
const CODE_32: u64 = 0x23;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resume {
    Run,
    Step,
}

#[derive(Debug)]
struct TracedThread {
    /// How it is resumed after an event that only this file handles.
    resume: Resume,
    running: bool,
    /// A SIGSTOP from halprof is on its way to it.
    stopping: bool,
    /// The signal that it gets when it is resumed.
    signal: Option<Signal>,
}

/// A traced program. It ends when the tool ends, and when this is dropped.
#[derive(Debug)]
pub(crate) struct Debuggee {
    /// Kept so that nobody else waits for its end.
    _child: Child,
    process: Pid,
    memory: File,
    threads: HashMap<Pid, TracedThread>,
    /// Statuses that arrived while another one was awaited.
    waiting: VecDeque<WaitStatus>,
    /// Threads and processes that stopped before the event of their creation came, and those whose
    /// event came but that have not stopped yet.
    new: HashMap<Pid, NewThread>,
    /// The program's original bytes at the breakpoints.
    pub(super) breakpoints: BTreeMap<u64, u8>,
    ended: bool,
}

/// What is known of a new thread or process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewThread {
    Stopped,
    /// It has been created in this way, and will stop.
    Created {
        shares_memory: bool,
    },
}

impl Debuggee {
    /// Starts a program, which is stopped before its first instruction.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        // SAFETY: between fork and exec only system calls are made, by functions that neither
        // allocate nor lock.
        #[expect(unsafe_code, reason = "the hook that runs between fork and exec")]
        let command = unsafe {
            command.pre_exec(|| {
                // Addresses are then the same in every run; if this is refused, they are not.
                let fixed = personality::get().map(|now| now | Persona::ADDR_NO_RANDOMIZE);
                let _ = fixed.and_then(personality::set);
                ptrace::traceme().map_err(io::Error::from)
            })
        };
        let child = command.spawn()?;
        let process = Pid::from_raw(child.id().cast_signed());
        // A traced program stops when exec has loaded it (ptrace(2)).
        waitpid(process, Some(WaitPidFlag::__WALL))?;
        ptrace::setoptions(
            process,
            Options::PTRACE_O_EXITKILL
                | Options::PTRACE_O_TRACECLONE
                | Options::PTRACE_O_TRACEFORK
                | Options::PTRACE_O_TRACEVFORK
                | Options::PTRACE_O_TRACEVFORKDONE
                | Options::PTRACE_O_TRACEEXEC,
        )?;
        let memory = memory_of(process)?;
        let mut debuggee = Self {
            _child: child,
            process,
            memory,
            threads: HashMap::new(),
            waiting: VecDeque::new(),
            new: HashMap::new(),
            breakpoints: BTreeMap::new(),
            ended: false,
        };
        debuggee.add(process);
        Ok(debuggee)
    }

    fn add(&mut self, thread: Pid) {
        let traced =
            TracedThread { resume: Resume::Run, running: false, stopping: false, signal: None };
        self.threads.insert(thread, traced);
    }

    /// The program's file, and the address where its image starts.
    pub(crate) fn image(&self) -> io::Result<(PathBuf, u64)> {
        let folder = PathBuf::from(format!("/proc/{}", self.process));
        let path = fs::read_link(folder.join("exe"))?;
        let maps = fs::read_to_string(folder.join("maps"))?;
        let mapped = maps.lines().find(|line| {
            let file = line.splitn(6, ' ').nth(5).map(str::trim_start);
            file.is_some_and(|file| path.as_os_str() == file)
        });
        let start = mapped.and_then(|line| line.split('-').next());
        let start = start.and_then(|start| u64::from_str_radix(start, 16).ok());
        let start = start.ok_or_else(|| io::Error::other("its image is not in its memory"))?;
        Ok((path, start))
    }

    /// The files in its memory, each from its first byte to its last.
    pub(crate) fn modules(&self) -> io::Result<Vec<Loaded>> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process))?;
        let mut modules: Vec<Loaded> = Vec::new();
        for line in maps.lines() {
            let mut fields = line.splitn(6, ' ');
            let range = fields.next().and_then(|range| range.split_once('-'));
            let address = |text| u64::from_str_radix(text, 16).ok();
            let range = range.and_then(|(start, end)| Some(address(start)?..address(end)?));
            let path = fields.nth(4).map(str::trim_start).filter(|path| path.starts_with('/'));
            let Some((range, path)) = range.zip(path) else {
                continue;
            };
            let path = PathBuf::from(path);
            match modules.last_mut().filter(|last| last.path == path) {
                Some(last) => last.range.end = range.end,
                None => modules.push(Loaded { path, range }),
            }
        }
        Ok(modules)
    }

    /// Runs it to its own first instruction, before which the loader has loaded what it needs.
    pub(crate) fn load(&mut self) -> io::Result<()> {
        let auxiliary = fs::read(format!("/proc/{}/auxv", self.process))?;
        let size = if self.is_32_bit()? { 4 } else { 8 };
        let number = |bytes: &[u8]| {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(bytes);
            u64::from_le_bytes(wide)
        };
        let mut pairs = auxiliary.chunks_exact(2 * size).map(|pair| pair.split_at(size));
        let entry = pairs.find(|(key, _)| number(key) == nix::libc::AT_ENTRY);
        let entry = entry.map(|(_, value)| number(value));
        let first = self.first();
        let Some(entry) =
            entry.filter(|&entry| self.registers(first).is_ok_and(|now| now.ip != entry))
        else {
            return Ok(());
        };
        self.break_at(entry)?;
        self.run(first)?;
        loop {
            match self.wait()? {
                Event::Trap(thread) if self.registers(thread)?.ip == entry + 1 => {
                    self.set_ip(thread, entry)?;
                    return self.unbreak_at(entry);
                }
                Event::Trap(thread) => self.pass_on(thread)?,
                Event::Interrupted(thread) => self.run(thread)?,
                Event::ThreadEnded(_) => {}
                Event::Ended(_) | Event::Replaced => {
                    return Err(io::Error::other("it ended before its first instruction"));
                }
            }
        }
    }

    /// The thread that it starts with.
    pub(super) fn first(&self) -> Thread {
        self.process.as_raw().cast_unsigned()
    }

    /// What ends the program from another thread.
    pub(super) fn ender(&self) -> impl Fn() + Send + use<> {
        let process = self.process;
        move || {
            let _ = kill(process, Signal::SIGKILL);
        }
    }

    pub(crate) fn is_32_bit(&self) -> io::Result<bool> {
        Ok(self.registers(self.first())?.is_32_bit)
    }

    /// Reads its memory, completely or not at all.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(bytes, address)
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        // Unlike process_vm_writev, this writes where the program itself may only read, as in its
        // code.
        self.memory.write_all_at(bytes, address)
    }

    /// Whether the last trap of a thread was a breakpoint, not a step.
    pub(super) fn is_breakpoint(&self, thread: Thread) -> io::Result<bool> {
        Ok(ptrace::getsiginfo(pid(thread))?.si_code != nix::libc::TRAP_TRACE)
    }

    pub(super) fn registers(&self, thread: Thread) -> io::Result<Registers> {
        let now = ptrace::getregs(pid(thread))?;
        Ok(Registers {
            general: [
                now.rax, now.rcx, now.rdx, now.rbx, now.rsp, now.rbp, now.rsi, now.rdi, now.r8,
                now.r9, now.r10, now.r11, now.r12, now.r13, now.r14, now.r15,
            ],
            ip: now.rip,
            fs: now.fs_base,
            gs: now.gs_base,
            is_32_bit: now.cs == CODE_32,
        })
    }

    pub(super) fn set_ip(&self, thread: Thread, ip: u64) -> io::Result<()> {
        let mut registers = ptrace::getregs(pid(thread))?;
        registers.rip = ip;
        Ok(ptrace::setregs(pid(thread), registers)?)
    }

    /// Clears the trap flag, which the program never set, in the flags that a system call has left in
    /// R11; returns the registers with it.
    pub(super) fn hide_trap_flag_in_r11(
        &self,
        thread: Thread,
        mut registers: Registers,
    ) -> io::Result<Registers> {
        let mut now = ptrace::getregs(pid(thread))?;
        now.r11 &= !(u64::from(TRAP_FLAG) << 8);
        registers.general[11] = now.r11;
        ptrace::setregs(pid(thread), now)?;
        Ok(registers)
    }

    /// Lets a thread run at full speed.
    pub(super) fn run(&mut self, thread: Thread) -> io::Result<()> {
        self.resume(pid(thread), Resume::Run)
    }

    /// Lets a thread execute one instruction while others run.
    pub(super) fn step(&mut self, thread: Thread) -> io::Result<()> {
        self.resume(pid(thread), Resume::Step)
    }

    /// Passes a trap that is not ours to the program.
    pub(super) fn pass_on(&mut self, thread: Thread) -> io::Result<()> {
        if let Some(traced) = self.threads.get_mut(&pid(thread)) {
            traced.signal = Some(Signal::SIGTRAP);
        }
        self.run(thread)
    }

    fn resume(&mut self, thread: Pid, resume: Resume) -> io::Result<()> {
        let Some(traced) = self.threads.get_mut(&thread) else {
            return Ok(());
        };
        traced.resume = resume;
        let signal = traced.signal.take();
        let resumed = match resume {
            Resume::Run => ptrace::cont(thread, signal),
            Resume::Step => ptrace::step(thread, signal),
        };
        traced.running = true;
        match resumed {
            // It was killed in the meantime; its end is still to be reported.
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets a thread execute the instruction under a breakpoint while all others are stopped.
    pub(super) fn step_alone(&mut self, thread: Thread) -> io::Result<Event> {
        let ip = self.registers(thread)?.ip;
        let Some(&original) = self.breakpoints.get(&ip) else {
            self.step(thread)?;
            return self.wait();
        };
        // Another thread that came here meanwhile would pass without a trap.
        let held = self.hold(pid(thread))?;
        self.write(ip, &[original])?;
        self.step(thread)?;
        let event = loop {
            let status = waitpid(pid(thread), Some(WaitPidFlag::__WALL))?;
            if let Some(event) = self.event(status)? {
                break event;
            }
        };
        // After exec another program's code is there.
        if !matches!(event, Event::Ended(_) | Event::Replaced) {
            self.write(ip, &[BREAKPOINT])?;
        }
        for other in held {
            let resume = self.threads.get(&other).map_or(Resume::Run, |other| other.resume);
            self.resume(other, resume)?;
        }
        Ok(event)
    }

    /// Stops all threads but one; returns those that have no other event pending.
    fn hold(&mut self, thread: Pid) -> io::Result<Vec<Pid>> {
        let others = self.threads.iter();
        let others = others.filter(|&(&other, traced)| other != thread && traced.running);
        let others: Vec<Pid> = others.map(|(&other, _)| other).collect();
        let mut held = Vec::new();
        for other in others {
            if !stop(self.process, other) {
                continue;
            }
            let status = waitpid(other, Some(WaitPidFlag::__WALL))?;
            let Some(traced) = self.threads.get_mut(&other) else {
                continue;
            };
            traced.running = false;
            if matches!(status, WaitStatus::Stopped(_, Signal::SIGSTOP)) {
                held.push(other);
            } else {
                // It stopped for another reason first, and its SIGSTOP is still to come.
                traced.stopping = true;
                self.waiting.push_back(status);
            }
        }
        Ok(held)
    }

    pub(super) fn wait(&mut self) -> io::Result<Event> {
        loop {
            let status = match self.waiting.pop_front() {
                Some(status) => status,
                None => waitpid(None, Some(WaitPidFlag::__WALL))?,
            };
            if let Some(event) = self.event(status)? {
                return Ok(event);
            }
        }
    }

    /// The event that a status means; `None` if only this file handles it, and the thread is
    /// resumed.
    fn event(&mut self, status: WaitStatus) -> io::Result<Option<Event>> {
        let Some(thread) = status.pid() else {
            return Ok(None);
        };
        if let Some(traced) = self.threads.get_mut(&thread) {
            traced.running = false;
        }
        let main = thread == self.process;
        match status {
            WaitStatus::Exited(_, status) if main => Ok(Some(self.end(status.cast_unsigned()))),
            // As shells have it.
            WaitStatus::Signaled(_, signal, _) if main => Ok(Some(self.end(128 + signal as u32))),
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                let known = self.threads.remove(&thread);
                Ok(known.map(|_| Event::ThreadEnded(thread.as_raw().cast_unsigned())))
            }
            WaitStatus::PtraceEvent(_, _, event) => self.ptrace_event(thread, event),
            WaitStatus::Stopped(_, signal) => self.stopped(thread, signal),
            _ => Ok(None),
        }
    }

    fn end(&mut self, status: u32) -> Event {
        self.ended = true;
        Event::Ended(status)
    }

    fn ptrace_event(&mut self, thread: Pid, event: i32) -> io::Result<Option<Event>> {
        use ptrace::Event::{
            PTRACE_EVENT_CLONE, PTRACE_EVENT_EXEC, PTRACE_EVENT_FORK, PTRACE_EVENT_VFORK,
            PTRACE_EVENT_VFORK_DONE,
        };
        if event == PTRACE_EVENT_EXEC as i32 {
            // Exec ends all other threads (ptrace(2)). The breakpoints were in the old program's
            // memory, and what was opened as its memory is that one's.
            self.threads.retain(|&other, _| other == thread);
            self.breakpoints.clear();
            self.memory = memory_of(self.process)?;
            self.resume(thread, Resume::Run)?;
            return Ok(Some(Event::Replaced));
        }
        if event == PTRACE_EVENT_VFORK_DONE as i32 {
            for &address in self.breakpoints.keys() {
                self.write(address, &[BREAKPOINT])?;
            }
        }
        let creations = [PTRACE_EVENT_CLONE, PTRACE_EVENT_FORK, PTRACE_EVENT_VFORK];
        if creations.iter().any(|&creation| creation as i32 == event) {
            let new = Pid::from_raw(ptrace::getevent(thread)? as i32);
            let shares_memory = event != PTRACE_EVENT_FORK as i32;
            if event == PTRACE_EVENT_VFORK as i32 {
                // The child is not traced and runs in the program's memory, while its thread waits. Other
                // threads may meanwhile enter the range unseen.
                for (&address, &original) in &self.breakpoints {
                    self.write(address, &[original])?;
                }
            }
            if self.new.remove(&new).is_some() {
                self.begin(new, shares_memory)?;
            } else {
                self.new.insert(new, NewThread::Created { shares_memory });
            }
        }
        let resume = self.threads.get(&thread).map_or(Resume::Run, |traced| traced.resume);
        self.resume(thread, resume)?;
        Ok(None)
    }

    fn stopped(&mut self, thread: Pid, signal: Signal) -> io::Result<Option<Event>> {
        let number = thread.as_raw().cast_unsigned();
        let Some(traced) = self.threads.get_mut(&thread) else {
            match self.new.remove(&thread) {
                Some(NewThread::Created { shares_memory }) => self.begin(thread, shares_memory)?,
                _ => drop(self.new.insert(thread, NewThread::Stopped)),
            }
            return Ok(None);
        };
        match signal {
            Signal::SIGTRAP => Ok(Some(Event::Trap(number))),
            Signal::SIGSTOP if traced.stopping => {
                traced.stopping = false;
                let resume = traced.resume;
                self.resume(thread, resume)?;
                Ok(None)
            }
            other => {
                traced.signal = Some(other);
                Ok(Some(Event::Interrupted(number)))
            }
        }
    }

    /// A new thread is resumed; a new process is detached, without our breakpoints.
    fn begin(&mut self, new: Pid, shares_memory: bool) -> io::Result<()> {
        // clone(2) makes processes too; only threads are listed here.
        if fs::exists(format!("/proc/{}/task/{new}", self.process))? {
            self.add(new);
            return self.resume(new, Resume::Run);
        }
        // Memory that is still shared is the program's, which needs the breakpoints.
        if !shares_memory {
            let memory = memory_of(new)?;
            for (&address, &original) in &self.breakpoints {
                memory.write_all_at(&[original], address)?;
            }
        }
        Ok(ptrace::detach(new, None)?)
    }
}

impl Drop for Debuggee {
    fn drop(&mut self) {
        if !self.ended {
            let _ = kill(self.process, Signal::SIGKILL);
            // The program has ended only when all of its threads have been waited for.
            let ended = |status: WaitStatus| {
                status.pid() == Some(self.process)
                    && matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..))
            };
            while waitpid(None, Some(WaitPidFlag::__WALL)).is_ok_and(|status| !ended(status)) {}
        }
    }
}

fn pid(thread: Thread) -> Pid {
    Pid::from_raw(thread.cast_signed())
}

fn memory_of(process: Pid) -> io::Result<File> {
    let path = format!("/proc/{process}/mem");
    File::options().read(true).write(true).open(path)
}

/// Sends SIGSTOP to one thread; returns whether it exists.
fn stop(process: Pid, thread: Pid) -> bool {
    let (process, thread) = (process.as_raw(), thread.as_raw());
    // SAFETY: tgkill takes three numbers and touches no memory of ours.
    #[expect(unsafe_code, reason = "nix has no tgkill")]
    let sent =
        unsafe { nix::libc::syscall(nix::libc::SYS_tgkill, process, thread, nix::libc::SIGSTOP) };
    sent == 0
}
