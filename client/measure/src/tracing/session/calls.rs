//! The functions of Windows that a session needs, as Windows has them: Windows implements this, and
//! so do test doubles. Each error is a Win32 error.

use super::layout::Properties;
use super::providers::Provider;
use crate::live_tracing::Consumer;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// TRACE_INFO_CLASS (evntrace.h): what is set or queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names of evntrace.h")]
pub enum Class {
    TraceStackTracingInfo = 3,
    TraceSystemTraceEnableFlagsInfo = 4,
    TraceSampledProfileIntervalInfo = 5,
    TraceProfileSourceConfigInfo = 6,
    TraceProfileSourceListInfo = 7,
    TracePmcEventListInfo = 8,
    TracePmcCounterListInfo = 9,
    TraceLbrConfigurationInfo = 20,
    TraceLbrEventListInfo = 21,
    TraceMaxPmcCounterQuery = 22,
    TracePmcCounterOwners = 25,
    TracePmcSessionInformation = 27,
}

/// EVENT_TRACE_CONTROL (evntrace.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Control {
    /// Returns the session's state in the properties.
    Query = 0,
    /// Returns the session's state, and ends it.
    Stop = 1,
    /// Writes out, or delivers, the buffers that are being filled, and returns the session's state.
    Flush = 3,
}

/// Whether this process may have a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It may, until it unlocks or ends.
    Ours,
    /// Another process has one.
    Held,
}

/// Where the files of sessions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Below the folder of Windows; only administrators can open it.
    Administrators,
    /// In the user's own profile.
    User,
}

/// What a session needs of Windows.
pub trait Calls: Debug + Send {
    /// Locks a file in a folder of sessions, which says that a session there has an owner; the lock of
    /// an owner that has died is gone. Also this process is refused a second one. Who cannot open the
    /// folder cannot hold its lock: of a name for all of Windows anybody could be the first owner.
    fn lock(&mut self, folder: &Path) -> Result<Lock, u32>;
    /// Gives it back.
    fn unlock(&mut self);
    /// Whether a process with this identifier runs.
    fn is_running(&mut self, process: u32) -> bool;
    /// Enables SeSystemProfilePrivilege in this process, or disables it again.
    fn set_privilege(&mut self, enabled: bool) -> Result<(), u32>;
    /// StartTraceW; returns the session's handle.
    fn start_trace(&mut self, properties: &mut Properties) -> Result<u64, u32>;
    /// ControlTraceW, for the session of the properties' name.
    fn control_trace(&mut self, control: Control, properties: &mut Properties) -> Result<(), u32>;
    /// TraceSetInformation; handle 0 where the setting is the machine's.
    fn set(&mut self, handle: u64, class: Class, data: &[u8]) -> Result<(), u32>;
    /// EnableTraceEx2: makes programs write a provider's events into a session, and waits until
    /// they know.
    fn enable(&mut self, handle: u64, provider: &Provider) -> Result<(), u32>;
    /// TraceQueryInformation with handle 0; returns the length of the reply. The buffer begins at an
    /// address that any type may have.
    fn query(&mut self, class: Class, buffer: &mut [u8]) -> Result<usize, u32>;
    /// The folder for the session's files; made at first use, with the folders above it.
    fn folder(&mut self, folder: Folder) -> io::Result<PathBuf>;
    /// The bytes that are free on the disk of a folder.
    fn free_bytes(&mut self, folder: &Path) -> io::Result<u64>;
    /// The active processors of the machine.
    fn processors(&mut self) -> u32;
    /// Whether this process has an administrator's rights in force (TokenElevation); `None` if Windows
    /// does not say.
    fn elevated(&mut self) -> Option<bool>;
    /// Delivers the events of the session of halprof's name to a consumer (OpenTraceW, ProcessTrace),
    /// from a thread of its own. The library stays loaded from then on, because that thread runs its
    /// code whatever the program unloads.
    fn consume(&mut self, consumer: Arc<dyn Consumer>) -> Result<(), u32>;
    /// The performance counter, and its ticks in a second: the clock of a session whose events are
    /// delivered.
    fn performance_counter(&mut self) -> (i64, u64);
    /// When Windows started, in seconds since 1601. The clock may have been set since it was last
    /// asked.
    fn boot_time(&mut self) -> u64;
}
