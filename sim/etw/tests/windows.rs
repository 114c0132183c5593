//! A test double of Windows: what it lists, and the state of its one session.
//!
//! Its rules are those of Microsoft's pages of evntrace.h, not those of the tracer that is tested:
//! `EVENT_TRACE_PROPERTIES` for files and buffers, `StartTraceW` for rights and errors.

#[path = "windows/threads.rs"]
pub(crate) mod threads;

use halprof_measure::tracing::live::Consumer;
use halprof_measure::tracing::session::{
    Calls, Class, Control, Folder, Lock, ProfileSource, Properties, Provider,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use threads::Threads;

type Listed = (u32, &'static str);

/// What Windows lists on an Intel processor (intel-C of reference/windows-ids.csv, in part).
pub(crate) const INTEL: &[Listed] = &[
    (0, "Timer"),
    (2, "TotalIssues"),
    (6, "BranchInstructions"),
    (10, "CacheMisses"),
    (11, "BranchMispredictions"),
    (19, "TotalCycles"),
    (25, "UnhaltedCoreCycles"),
    (26, "InstructionRetired"),
    (27, "UnhaltedReferenceCycles"),
    (28, "LLCReference"),
    (29, "LLCMisses"),
    (34, "UnhaltedCoreCyclesFixed"),
];
/// What Windows lists on AMD's Zen 2 (amd-zen2-B, in part).
pub(crate) const AMD: &[Listed] = &[
    (0, "Timer"),
    (2, "TotalIssues"),
    (6, "BranchInstructions"),
    (8, "DcacheMisses"),
    (9, "IcacheMisses"),
    (11, "BranchMispredictions"),
];
/// What Windows lists where a hypervisor hides the counters.
pub(crate) const VIRTUALISED: &[Listed] = &[(0, "Timer")];

/// A list as a backend returns it.
pub(crate) fn list(listed: &[Listed]) -> Vec<ProfileSource> {
    let source = |&(id, name): &Listed| {
        let (min_interval, max_interval, interval) =
            if id == 0 { (1221, 1_000_000, 10_000) } else { (4096, 2_147_483_647, 65_536) };
        ProfileSource { id, name: name.to_owned(), min_interval, max_interval, interval }
    };
    listed.iter().map(source).collect()
}

/// A list as Windows writes it.
pub(crate) fn source_list(sources: &[ProfileSource]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let mut name: Vec<u8> = source.name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        name.resize((name.len() + 2).next_multiple_of(8), 0);
        let next = if index + 1 == sources.len() { 0 } else { 24 + name.len() as u32 };
        for word in [next, source.id, source.min_interval, source.max_interval, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(name);
    }
    bytes
}

/// The machine on which halprof's processes run.
#[derive(Debug)]
pub(crate) struct Machine {
    /// What Windows lists, with the intervals in force.
    pub(crate) sources: Vec<ProfileSource>,
    /// The sources that one session can count.
    pub(crate) counters: u32,
    /// The folder below which the files of sessions are: of administrators, and of the user.
    pub(crate) folder: PathBuf,
    /// The free bytes of its disk, which is the system drive.
    pub(crate) free_bytes: u64,
    /// When it started, in seconds.
    pub(crate) boot_time: u64,
    /// Whether the process is elevated; `None` if Windows does not say.
    pub(crate) elevated: Option<bool>,
    /// Whether the account has SeSystemProfilePrivilege and the sessions' rights without elevation.
    pub(crate) granted: bool,
    /// The folders whose lock somebody holds.
    pub(crate) locked: BTreeSet<PathBuf>,
    /// The other processes that run.
    pub(crate) running: BTreeSet<u32>,
    /// Whether the process has SeSystemProfilePrivilege.
    pub(crate) privileged: bool,
    /// The properties of the session, if one runs.
    pub(crate) session: Option<Properties>,
    /// The sources that its context switches carry, and whether they do.
    pub(crate) counted: Vec<u32>,
    /// The threads that a real-time session sees.
    pub(crate) threads: Option<Threads>,
    /// The errors that calls return, by their names.
    pub(crate) refused: BTreeMap<&'static str, u32>,
    /// The calls that change something, in order.
    pub(crate) calls: Vec<String>,
    /// How often a session was flushed.
    pub(crate) flushes: usize,
}

/// Windows, as one process sees it.
#[derive(Clone, Debug)]
pub(crate) struct FakeWindows(pub(crate) Arc<Mutex<Machine>>);

const HANDLE: u64 = 0x21;
const PROCESSORS: u32 = 8;

/// What must be free on the system drive beyond the largest size of a session's file
/// (`EVENT_TRACE_PROPERTIES`, `MaximumFileSize`).
const RESERVED_BYTES: u64 = 200 << 20;
/// `ERROR_DISK_FULL`.
const DISK_FULL: u32 = 112;
/// `ERROR_NOT_ALL_ASSIGNED`: the token has no such privilege.
const NOT_ALL_ASSIGNED: u32 = 1300;

impl FakeWindows {
    /// A machine that lists these sources, with this folder and without a session.
    pub(crate) fn new(listed: &[Listed], folder: &Path) -> Self {
        Self(Arc::new(Mutex::new(Machine {
            sources: list(listed),
            counters: 4,
            folder: folder.to_owned(),
            free_bytes: 1 << 40,
            boot_time: 13_300_000_000,
            elevated: Some(true),
            granted: false,
            locked: BTreeSet::new(),
            running: BTreeSet::new(),
            privileged: false,
            session: None,
            counted: Vec::new(),
            threads: None,
            refused: BTreeMap::new(),
            calls: Vec::new(),
            flushes: 0,
        })))
    }

    /// The machine, to look at and to change.
    ///
    /// # Panics
    /// If a thread has panicked while it had the machine.
    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().expect("no panic")
    }
}

impl Machine {
    /// The interval in force of a source; 0 for one that is not listed.
    pub(crate) fn interval(&self, id: u32) -> u32 {
        let mut sources = self.sources.iter();
        sources.find(|source| source.id == id).map_or(0, |source| source.interval)
    }

    /// Time passes, in which each processor has an event in each second: by the flush timer "all
    /// buffers that contain events" are written, and without it a buffer is when it is full.
    pub(crate) fn pass(&mut self, seconds: u32) {
        const EVENT_BYTES: u64 = 64;
        let Some(session) = &mut self.session else { return };
        let by_bytes = u64::from(seconds) * EVENT_BYTES / (u64::from(session.buffer_kb) << 10);
        let written = match session.flush_timer {
            0 => u32::try_from(by_bytes).unwrap_or(u32::MAX),
            timer => seconds / timer,
        };
        session.buffers_written += written * PROCESSORS;
    }

    /// Where the files of this process's sessions are.
    fn own_folder(&self) -> PathBuf {
        match self.elevated {
            Some(false) => self.folder.join("user"),
            Some(true) | None => self.folder.clone(),
        }
    }

    /// Whether the process may control sessions of the kernel's events.
    fn has_right(&self) -> bool {
        self.granted || self.elevated != Some(false)
    }

    fn call(&mut self, name: &'static str, what: String) -> Result<(), u32> {
        self.calls.push(what);
        self.refused.get(name).map_or(Ok(()), |&error| Err(error))
    }
}

fn words(data: &[u8]) -> Vec<u32> {
    data.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

impl Calls for FakeWindows {
    fn lock(&mut self, folder: &Path) -> Result<Lock, u32> {
        let is_new = self.machine().locked.insert(folder.to_owned());
        Ok(if is_new { Lock::Ours } else { Lock::Held })
    }

    fn unlock(&mut self) {
        let mut machine = self.machine();
        let own = machine.own_folder();
        machine.locked.remove(&own);
    }

    fn is_running(&mut self, process: u32) -> bool {
        self.machine().running.contains(&process)
    }

    fn set_privilege(&mut self, enabled: bool) -> Result<(), u32> {
        let mut machine = self.machine();
        if enabled && !machine.has_right() {
            return Err(NOT_ALL_ASSIGNED);
        }
        machine.privileged = enabled;
        machine.refused.get("privilege").map_or(Ok(()), |&error| Err(error))
    }

    fn start_trace(&mut self, properties: &mut Properties) -> Result<u64, u32> {
        let mut machine = self.machine();
        machine.call("start", "start".to_owned())?;
        if !machine.has_right() {
            return Err(5);
        }
        if machine.session.is_some() {
            return Err(183);
        }
        let largest = u64::from(properties.maximum_file_mb) << 20;
        if machine.free_bytes < largest + RESERVED_BYTES {
            return Err(DISK_FULL);
        }
        if !properties.is_real_time() {
            std::fs::write(properties.file(), b"a trace").expect("written");
        }
        machine.session = Some(properties.clone());
        Ok(HANDLE)
    }

    fn control_trace(&mut self, control: Control, properties: &mut Properties) -> Result<(), u32> {
        let mut machine = self.machine();
        match control {
            Control::Stop => machine.call("stop", "stop".to_owned())?,
            Control::Flush => {
                machine.flushes += 1;
                machine.refused.get("flush").map_or(Ok(()), |&error| Err(error))?;
            }
            Control::Query => {}
        }
        let mut session = machine.session.take().ok_or(4201_u32)?;
        match (&machine.threads, control) {
            (Some(threads), Control::Flush) => session.events_lost = threads.flush(),
            (Some(threads), Control::Stop) => threads.end_session(),
            _ => {}
        }
        *properties = session.clone();
        if control != Control::Stop {
            machine.session = Some(session);
        }
        Ok(())
    }

    fn set(&mut self, handle: u64, class: Class, data: &[u8]) -> Result<(), u32> {
        let mut machine = self.machine();
        let (name, needs_session, what) = match class {
            Class::TraceStackTracingInfo => ("stacks", true, format!("stacks {}", data.len() / 24)),
            Class::TracePmcEventListInfo => ("hooks", true, format!("hooks {}", data.len() / 24)),
            Class::TracePmcCounterListInfo => ("count", true, format!("count {:?}", words(data))),
            Class::TraceSampledProfileIntervalInfo => {
                ("interval", false, format!("interval {:?}", words(data)))
            }
            Class::TraceProfileSourceConfigInfo => {
                ("sample", false, format!("sample {:?}", words(data)))
            }
            Class::TraceSystemTraceEnableFlagsInfo => {
                ("mask", true, format!("mask {:X?}", &words(data)[..2]))
            }
            Class::TraceLbrConfigurationInfo => {
                ("branches", true, format!("branches {:X?}", words(data)))
            }
            // Windows takes at most four.
            Class::TraceLbrEventListInfo if data.len() <= 16 => {
                ("branch hooks", true, format!("branch hooks {:X?}", words(data)))
            }
            _ => return Err(87),
        };
        machine.call(name, what)?;
        if needs_session != (handle == HANDLE && machine.session.is_some()) {
            return Err(87);
        }
        if !needs_session && !machine.privileged {
            return Err(1314);
        }
        if class == Class::TracePmcCounterListInfo {
            machine.counted = words(data);
        }
        if let (Class::TraceSampledProfileIntervalInfo, [id, interval]) = (class, &words(data)[..])
        {
            let source =
                machine.sources.iter_mut().find(|source| source.id == *id).ok_or(87_u32)?;
            source.interval = (*interval).clamp(source.min_interval, source.max_interval);
        }
        Ok(())
    }

    fn enable(&mut self, handle: u64, provider: &Provider) -> Result<(), u32> {
        let mut machine = self.machine();
        let Provider { guid, level, keywords, patience_ms } = provider;
        let start = guid.to_string();
        let start = start.split('-').next().unwrap_or_default();
        let what = format!("enable {start} {level} {keywords:#x} {patience_ms}");
        machine.call("enable", what)?;
        if handle != HANDLE || machine.session.is_none() {
            return Err(87);
        }
        Ok(())
    }

    fn query(&mut self, class: Class, buffer: &mut [u8]) -> Result<usize, u32> {
        let machine = self.machine();
        let reply = match class {
            Class::TraceProfileSourceListInfo => source_list(&machine.sources),
            Class::TraceMaxPmcCounterQuery => machine.counters.to_le_bytes().to_vec(),
            Class::TraceSampledProfileIntervalInfo => {
                let id = words(buffer)[0];
                [id, machine.interval(id)].map(u32::to_le_bytes).concat()
            }
            _ => return Err(87),
        };
        let room = buffer.get_mut(..reply.len()).ok_or(24_u32)?;
        room.copy_from_slice(&reply);
        Ok(reply.len())
    }

    fn folder(&mut self, folder: Folder) -> io::Result<PathBuf> {
        let machine = self.machine();
        let path = match folder {
            Folder::Administrators if machine.elevated == Some(false) => None,
            Folder::Administrators => Some(machine.folder.clone()),
            Folder::User => Some(machine.folder.join("user")),
        };
        let path = path.filter(|_| !machine.refused.contains_key("folder"));
        let path = path.ok_or(io::ErrorKind::PermissionDenied)?;
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    fn consume(&mut self, consumer: Arc<dyn Consumer>) -> Result<(), u32> {
        let mut machine = self.machine();
        machine.call("consume", "consume".to_owned())?;
        if machine.session.is_none() {
            return Err(4201);
        }
        if let Some(threads) = &machine.threads {
            threads.begin_session(machine.counted.len(), consumer);
        }
        Ok(())
    }

    fn free_bytes(&mut self, _folder: &Path) -> io::Result<u64> {
        Ok(self.machine().free_bytes)
    }

    fn processors(&mut self) -> u32 {
        PROCESSORS
    }

    fn elevated(&mut self) -> Option<bool> {
        self.machine().elevated
    }

    fn performance_counter(&mut self) -> (i64, u64) {
        (1_000_000, 10_000_000)
    }

    fn boot_time(&mut self) -> u64 {
        self.machine().boot_time
    }
}
