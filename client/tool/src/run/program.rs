//! A program that runs while it is measured.
//!
//! On Windows it is started suspended, in a job object: measuring begins before its first
//! instruction and ends when its handle is signalled, and every process that it starts is tracked.
//! Elsewhere, where there is no driver to measure with, it starts when it is resumed, and the
//! processes that it starts are not tracked.

#[cfg(windows)]
mod job;

use halprof_measure::{Error, Result};
#[cfg(windows)]
use job::Job;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::Processor;
use std::ffi::OsString;
use std::fmt;
use std::io;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The exit status of a Windows program that was ended by Ctrl-C or by halprof. Unix has none like it.
pub(crate) const STATUS_CONTROL_C_EXIT: u32 = 0xC000_013A;

#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// Its standard output goes to standard error, because standard output carries another result.
    pub(crate) output_to_error: bool,
    /// The processors that it may run on; `None` for all.
    pub(crate) pin: Option<Pin>,
    /// Variables added to the environment that it inherits.
    pub(crate) environment: Vec<(&'static str, String)>,
}

/// Processors of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    group: u16,
    mask: u64,
}

impl Pin {
    /// Pins to these processors. Fails if they are in several groups, because Windows restricts a
    /// program to the processors of one group.
    pub(crate) fn to<'a>(processors: impl IntoIterator<Item = &'a Processor>) -> Result<Self> {
        let mut pin: Option<Self> = None;
        for processor in processors {
            let pin = pin.get_or_insert(Self { group: processor.group, mask: 0 });
            if pin.group != processor.group {
                return Err(Error::unavailable(
                    format!(
                        "the processors are in the groups {} and {}, and a program can be pinned to one group only",
                        pin.group, processor.group
                    ),
                    "Choose processors of one group; `halprof info` shows the groups.",
                ));
            }
            pin.mask |= 1_u64.checked_shl(processor.number.into()).unwrap_or(0);
        }
        pin.ok_or_else(|| Error::usage("no processor to pin to", "Name at least one."))
    }
}

/// A process that a program started and that outlives it.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub(crate) struct LeftRunning {
    /// Its identifier.
    pub(crate) id: u32,
    /// Its file's name, if Windows reveals it.
    pub(crate) name: Option<String>,
}

impl fmt::Display for LeftRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// A program that was started. If it is still running when this is dropped, it is ended, together
/// with all that it has started.
#[derive(Debug)]
pub(crate) struct Program {
    /// The command, until it is started.
    command: Option<Command>,
    name: OsString,
    child: Option<Child>,
    status: Option<u32>,
    #[cfg(windows)]
    job: Job,
    /// Its first thread, while it is suspended.
    #[cfg(windows)]
    thread: Option<OwnedHandle>,
    #[cfg(windows)]
    timer: OwnedHandle,
}

impl Program {
    /// Starts a program that waits for [`Program::resume`]; `None` without a command.
    pub(crate) fn suspended(launch: &Launch) -> Result<Option<Self>> {
        let Some((name, arguments)) = launch.command.split_first() else {
            return Ok(None);
        };
        let mut command = Command::new(name);
        command.args(arguments);
        command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
        if launch.output_to_error {
            command.stdout(Stdio::from(io::stderr()));
        }
        Self::started(name, command, launch).map(Some)
    }

    #[cfg(windows)]
    fn started(name: &OsString, mut command: Command, launch: &Launch) -> Result<Self> {
        use std::os::windows::process::CommandExt;
        command.creation_flags(job::CREATE_SUSPENDED);
        let failed = |error| failed(name, error);
        let mut program = Self {
            job: Job::new().map_err(failed)?,
            thread: None,
            timer: job::timer().map_err(failed)?,
            child: Some(command.spawn().map_err(failed)?),
            command: None,
            name: name.clone(),
            status: None,
        };
        if let Some(child) = &program.child {
            program.job.add(child).map_err(failed)?;
            program.thread = Some(job::thread_of(child.id()).map_err(failed)?);
            if let Some(Pin { group, mask }) = launch.pin {
                program.job.pin(child, group, mask as usize).map_err(failed)?;
            }
        }
        Ok(program)
    }

    #[cfg(not(windows))]
    fn started(name: &OsString, command: Command, launch: &Launch) -> Result<Self> {
        if launch.pin.is_some() {
            return Err(Error::unavailable(
                "programs are pinned on Windows only",
                "Let it run on all processors.",
            ));
        }
        Ok(Self { command: Some(command), name: name.clone(), child: None, status: None })
    }

    /// Its process identifier, once the process exists.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The file that it runs, once the process exists; `None` if the system does not say it.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        #[cfg(windows)]
        return self.child.as_ref().and_then(job::file);
        #[cfg(not(windows))]
        std::fs::read_link(format!("/proc/{}/exe", self.id()?)).ok()
    }

    /// Lets it run.
    pub(crate) fn resume(&mut self) -> Result<()> {
        if let Some(mut command) = self.command.take() {
            let child = command.spawn();
            self.child = Some(child.map_err(|error| failed(&self.name, error))?);
        }
        #[cfg(windows)]
        if let Some(thread) = self.thread.take() {
            job::resume(&thread).map_err(|error| failed(&self.name, error))?;
        }
        Ok(())
    }

    /// Waits until it ends, for at most `longest`; returns whether it has ended.
    pub(crate) fn wait(&mut self, longest: Duration) -> Result<bool> {
        if let (Some(child), None) = (&mut self.child, self.status) {
            #[cfg(windows)]
            let status = job::wait(child, &self.timer, longest).and_then(|()| child.try_wait());
            #[cfg(not(windows))]
            let status = wait_timeout::ChildExt::wait_timeout(child, longest);
            let status = status.map_err(Error::Device)?;
            self.status = status.map(status_of);
        }
        Ok(self.status.is_some())
    }

    /// Its exit status, if it has ended by itself.
    pub(crate) const fn status(&self) -> Option<u32> {
        self.status
    }

    /// The processes that it started and that still run, without the program itself.
    #[cfg_attr(
        not(windows),
        expect(clippy::unused_self, reason = "only Windows knows what a program started")
    )]
    pub(crate) fn left_running(&self) -> Vec<LeftRunning> {
        #[cfg(windows)]
        {
            let processes = self.job.processes().into_iter();
            processes
                .filter(|(id, _)| Some(*id) != self.id())
                .map(|(id, name)| LeftRunning { id, name })
                .collect()
        }
        #[cfg(not(windows))]
        Vec::new()
    }

    /// Lets the processes that it started go on after it.
    #[cfg_attr(
        not(windows),
        expect(clippy::unused_self, reason = "only Windows knows what a program started")
    )]
    pub(crate) fn leave_others(&self) {
        #[cfg(windows)]
        if self.status.is_some() {
            // If this fails they are ended with the job: Windows is out of memory then.
            let _ = self.job.leave_alone();
        }
    }

    /// Ends it, and everything that it has started.
    pub(crate) fn end(&mut self) {
        #[cfg(windows)]
        self.job.end();
        if let (Some(child), None) = (&mut self.child, self.status) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.end();
        }
    }
}

/// A process that somebody else started. Windows gives its identifier to no other while this is held.
#[derive(Debug)]
pub(crate) struct Followed {
    #[cfg(windows)]
    process: OwnedHandle,
    #[cfg(not(windows))]
    process: u32,
}

impl Followed {
    /// Fails if there is no such process.
    pub(crate) fn open(process: u32) -> Result<Self> {
        #[cfg(windows)]
        let opened = job::open(process);
        #[cfg(not(windows))]
        let opened = runs(process).then_some(process);
        let process = opened.ok_or_else(|| {
            Error::usage(
                format!("there is no process {process}, or it may not be opened"),
                "Task Manager shows the identifiers of processes, on its page Details.",
            )
        })?;
        Ok(Self { process })
    }

    /// Waits until it ends, for at most `longest`; returns whether it has ended.
    #[cfg_attr(
        not(windows),
        expect(clippy::unnecessary_wraps, reason = "only Windows can fail to wait")
    )]
    pub(crate) fn wait(&self, longest: Duration) -> Result<bool> {
        #[cfg(windows)]
        return job::wait_for(&self.process, longest).map_err(Error::Device);
        #[cfg(not(windows))]
        {
            std::thread::sleep(longest);
            Ok(!runs(self.process))
        }
    }
}

/// Whether a process of Linux is there; other systems do not say it in this way.
#[cfg(not(windows))]
fn runs(process: u32) -> bool {
    std::path::Path::new("/proc").join(process.to_string()).exists()
}

fn failed(name: &OsString, error: io::Error) -> Error {
    Error::File { path: name.into(), doing: "started", error }
}

/// The exit status of the program: on Windows 32 bits, for instance an exception's code.
#[cfg(windows)]
fn status_of(status: ExitStatus) -> u32 {
    status.code().map_or(1, i32::cast_unsigned)
}

/// The exit status of the program; if a signal ended it, 128 plus the signal's number, as in
/// shells.
#[cfg(unix)]
fn status_of(status: ExitStatus) -> u32 {
    use std::os::unix::process::ExitStatusExt;
    let signalled = status.signal().map(|signal| signal + 128);
    let code = status.code().or(signalled).unwrap_or(1);
    code.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor(group: u16, number: u16) -> Processor {
        Processor { group, number, ..Processor::default() }
    }

    #[test]
    fn a_pin_is_of_one_group() {
        let two = [processor(1, 0), processor(1, 63)];
        let pin = Pin::to(&two).expect("one group");
        assert_eq!((pin.group, pin.mask), (1, 1 | 1 << 63));
        let error = Pin::to(&[processor(0, 1), processor(1, 1)]).expect_err("two groups");
        assert_eq!(error.code(), "unavailable");
        assert!(Pin::to(&[]).is_err());
    }
}
