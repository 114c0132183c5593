//! One session of Windows' own tracing: what is called, in which order, and what is undone.
//!
//! A session and the intervals of its sources outlive the process that made them. The owner locks the
//! folder of its files and leaves a note there of what is to be undone; whoever locks it next and finds
//! a note undoes it first. Administrators have one folder, and each other account one of its own; a
//! session of another folder says by the name of its file which process owns it. The session ends with [`Tracer::stop`], when the tracer is dropped, or by [`end_running`].
//!
//! The order of the calls is undocumented; this one is known to work in other tools, for counts and
//! for samples: start the session, stacks (class 3), counted sources (9), the events that carry counts
//! (8), intervals (5), sampled sources (6), and the mask (4), with which everything begins; then, as
//! all who use them do, the filter of branch records (20) and the events that have some (21).

use super::calls::{Calls, Class, Control, Folder, Lock};
use super::counter_owners::{self, CounterOwners};
use super::layout::{
    COUNTED, ProfileInterval, Properties, STACKS, STACKS_OF_WAITS, branched, mask, mask_of_switches,
};
use super::note::Note;
use super::providers::{METHODS, Provider, RUNDOWN};
use super::sources;
use super::{
    DeliverEvents, Flushed, SampledSource, Started, TIMER, TraceEnd, TraceFile, TraceRequest,
    TraceState, Tracing, no_branch_records,
};
use crate::error::{Error, Hint, Refusal, Remedy, Result};
use crate::live_tracing::{Consumer, Countable, LiveTracing, locked};
use crate::profile_source::ProfileSource;
use halprof_etw::Clock;
use halprof_etw::clock::ClockType;
use shared_types::ErrorCode;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use zerocopy::IntoBytes;

/// The errors of Windows that are distinguished.
const ACCESS_DENIED: u32 = 5;
const BAD_LENGTH: u32 = 24;
const NOT_SUPPORTED: u32 = 50;
const INVALID_PARAMETER: u32 = 87;
const DISK_FULL: u32 = 112;
const INSUFFICIENT_BUFFER: u32 = 122;
const BUSY: u32 = 170;
const ALREADY_EXISTS: u32 = 183;
const MORE_DATA: u32 = 234;
const NOT_ALL_ASSIGNED: u32 = 1300;
const PRIVILEGE_NOT_HELD: u32 = 1314;
const NO_SYSTEM_RESOURCES: u32 = 1450;
const INSTANCE_NOT_FOUND: u32 = 4201;

/// The largest file, in megabytes, and the part of the free disk that it may take. Windows starts no
/// session unless 200 MB more than its largest file are free on the system drive
/// (`EVENT_TRACE_PROPERTIES`, `MaximumFileSize`).
const FILE_MB_MAX: u64 = 4096;
const PART_OF_DISK: u64 = 2;
const RESERVED_MB: u64 = 200;
const MEGABYTE: u64 = 1 << 20;

/// How far the time at which Windows started may seem to move when its clock is set. Two starts are
/// further apart: one that traced in between has taken longer.
const CLOCK_SET_SECONDS: u64 = 60;

/// The lengths of buffers for replies whose length is not known: the first, and the last that is
/// tried.
const REPLY_BYTES: usize = 64 << 10;
const REPLY_BYTES_MAX: usize = 4 << 20;

/// Windows' own tracing, or a test double of it.
#[derive(Debug)]
pub struct Tracer<C: Calls + 'static>(Arc<Mutex<Sessions<C>>>);

/// The session of this process, if it has one.
#[derive(Debug)]
struct Sessions<C: Calls> {
    calls: C,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    handle: u64,
    folder: PathBuf,
    note: Note,
    /// `None` where its events are delivered.
    file: Option<TraceFile>,
    /// Whether runtimes report what they compile.
    methods: bool,
    limit_bytes: u64,
    /// Its last known status.
    state: TraceState,
}

/// Ends the session of this process, if it has one.
type End = Box<dyn FnOnce() + Send>;

static RUNNING: Mutex<Option<End>> = Mutex::new(None);

/// Ends the session of this process, if it has one, and puts back what it changed: for a thread that
/// is about to end the process.
pub fn end_running() {
    let end = locked(&RUNNING).take();
    if let Some(end) = end {
        end();
    }
}

impl<C: Calls> Tracer<C> {
    /// A tracer that makes these calls.
    pub fn new(calls: C) -> Self {
        Self(Arc::new(Mutex::new(Sessions { calls, running: None })))
    }

    /// The owners of counters, as far as this version of Windows reports them.
    pub fn counter_owners(&self) -> CounterOwners {
        self.sessions().counter_owners()
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions<C>> {
        locked(&self.0)
    }

    /// Has a session that has started ended with its process.
    fn end_with_process(&self) {
        let sessions = Arc::clone(&self.0);
        *locked(&RUNNING) = Some(Box::new(move || locked(&sessions).abandon()));
    }
}

impl<C: Calls> Drop for Tracer<C> {
    fn drop(&mut self) {
        self.sessions().abandon();
    }
}

impl<C: Calls> Tracing for Tracer<C> {
    fn sources(&mut self) -> Result<Vec<ProfileSource>> {
        self.sessions().sources()
    }

    fn counters(&mut self) -> Result<Option<u32>> {
        Ok(self.sessions().counters())
    }

    fn start(&mut self, request: &TraceRequest) -> Result<Vec<SampledSource>> {
        let sampled = self.sessions().start(request, &Destination::File)?;
        self.end_with_process();
        Ok(sampled)
    }

    fn state(&mut self) -> Result<TraceState> {
        self.sessions().state()
    }

    fn stop(&mut self) -> Result<(TraceFile, TraceState)> {
        *locked(&RUNNING) = None;
        self.sessions().stop()
    }
}

impl<C: Calls> DeliverEvents for Tracer<C> {
    fn start_delivery(
        &mut self,
        request: &TraceRequest,
        consumer: Arc<dyn Consumer>,
    ) -> Result<Started> {
        let mut sessions = self.sessions();
        let (now, frequency) = sessions.calls.performance_counter();
        let clock = Clock::new(ClockType::PerformanceCounter, frequency, now);
        let clock = clock.ok_or_else(|| Error::Internal("a clock without frequency".to_owned()))?;
        let sampled = sessions.start(request, &Destination::Consumer(consumer))?;
        drop(sessions);
        self.end_with_process();
        Ok(Started { sampled, clock })
    }

    fn flush_delivery(&mut self) -> Result<Flushed> {
        let mut sessions = self.sessions();
        let lost = sessions.flush()?;
        let (time, _) = sessions.calls.performance_counter();
        Ok(Flushed { time, is_delivered: false, lost })
    }

    fn stop_delivery(&mut self) -> Result<TraceState> {
        *locked(&RUNNING) = None;
        self.sessions().stop_live()
    }
}

impl<C: Calls> LiveTracing for Tracer<C> {
    fn is_modelled(&self) -> bool {
        false
    }

    fn countable(&mut self) -> Result<Countable> {
        let mut sessions = self.sessions();
        Ok(Countable { sources: sessions.sources()?, counters: sessions.counters() })
    }

    fn start_live(&mut self, counted: &[u32], consumer: Arc<dyn Consumer>) -> Result<()> {
        let request = TraceRequest { counted: counted.to_vec(), ..TraceRequest::default() };
        self.sessions().start(&request, &Destination::ConsumerOfSwitches(consumer))?;
        self.end_with_process();
        Ok(())
    }

    fn flush(&mut self) -> Result<u64> {
        self.sessions().flush()
    }

    fn stop_live(&mut self) -> Result<()> {
        *locked(&RUNNING) = None;
        self.sessions().stop_live().map(drop)
    }

    fn run(&mut self, workload: &str) -> Result<()> {
        Err(Error::no_workload(workload))
    }
}

/// Where the events of a session go.
enum Destination {
    File,
    Consumer(Arc<dyn Consumer>),
    /// A consumer of context switches alone.
    ConsumerOfSwitches(Arc<dyn Consumer>),
}

impl<C: Calls> Sessions<C> {
    fn sources(&mut self) -> Result<Vec<ProfileSource>> {
        let list = self.query(Class::TraceProfileSourceListInfo);
        let list = list.map_err(|error| match error {
            NOT_SUPPORTED | INVALID_PARAMETER => no_list(error),
            error => self.refused("list its sources", error),
        })?;
        let mut sources = sources::parse(&list);
        for source in &mut sources {
            source.interval = self.interval(source.id).unwrap_or(0);
        }
        Ok(sources)
    }

    /// Windows before 10 version 1903 does not say.
    fn counters(&mut self) -> Option<u32> {
        let reply = self.query(Class::TraceMaxPmcCounterQuery).ok()?;
        Some(u32::from_le_bytes(*reply.first_chunk()?))
    }

    fn counter_owners(&mut self) -> CounterOwners {
        let owners = self.query(Class::TracePmcCounterOwners).ok();
        let sessions = self.query(Class::TracePmcSessionInformation).ok();
        CounterOwners {
            counters: owners.map(|reply| counter_owners::owners(&reply)),
            sessions: sessions.map(|reply| counter_owners::sessions(&reply)),
        }
    }

    /// A reply of any length.
    fn query(&mut self, class: Class) -> std::result::Result<Vec<u8>, u32> {
        // The number of counters is refused unless the length is exactly its own.
        let mut bytes = match class {
            Class::TraceMaxPmcCounterQuery => size_of::<u32>(),
            _ => REPLY_BYTES,
        };
        loop {
            let mut buffer = vec![0_u64; bytes.div_ceil(8)];
            match self.calls.query(class, &mut buffer.as_mut_bytes()[..bytes]) {
                Ok(length) => {
                    let mut reply = buffer.as_bytes().to_vec();
                    reply.truncate(length);
                    return Ok(reply);
                }
                Err(BAD_LENGTH | INSUFFICIENT_BUFFER | MORE_DATA)
                    if (REPLY_BYTES..REPLY_BYTES_MAX).contains(&bytes) =>
                {
                    bytes *= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn interval(&mut self, source: u32) -> Option<u32> {
        let mut buffer = [u64::from(source)];
        let class = Class::TraceSampledProfileIntervalInfo;
        self.calls.query(class, buffer.as_mut_bytes()).ok()?;
        Some((buffer[0] >> 32) as u32)
    }

    fn set_interval(&mut self, interval: ProfileInterval) -> std::result::Result<(), u32> {
        self.calls.set(0, Class::TraceSampledProfileIntervalInfo, interval.as_bytes())
    }

    fn start(
        &mut self,
        request: &TraceRequest,
        destination: &Destination,
    ) -> Result<Vec<SampledSource>> {
        if self.running.is_some() {
            return Err(Error::unavailable("a session runs already", "End it first."));
        }
        // Who has been given the right to trace may not open what belongs to administrators.
        let folder = match self.calls.elevated() {
            Some(false) => Folder::User,
            Some(true) | None => Folder::Administrators,
        };
        let folder = self.calls.folder(folder).map_err(|error| self.no_folder(&error))?;
        match self.calls.lock(&folder) {
            Ok(Lock::Ours) => {}
            Ok(Lock::Held) => return Err(busy(Note::read(&folder).map(|note| note.process))),
            Err(error) => return Err(self.refused("lock the folder for its files", error)),
        }
        let started = match self.calls.set_privilege(true) {
            Ok(()) => self.begin(folder, request, destination),
            Err(error) => Err(self.refused("enable a privilege", error)),
        };
        // Whether it could be disabled changes nothing for a session that runs.
        let _ = self.calls.set_privilege(false);
        if started.is_err() {
            self.calls.unlock();
        }
        started
    }

    /// Starts a session while this process holds the folder's lock.
    fn begin(
        &mut self,
        folder: PathBuf,
        request: &TraceRequest,
        destination: &Destination,
    ) -> Result<Vec<SampledSource>> {
        self.end_left(&folder)?;
        if let Some(note) = Note::read(&folder) {
            self.undo(&note);
            Note::remove(&folder);
        }
        let mut running = match destination {
            Destination::File => self.prepare(folder, request)?,
            Destination::Consumer(_) | Destination::ConsumerOfSwitches(_) => {
                self.prepare_live(folder, request)?
            }
        };
        if request.methods {
            // The session is of use without them.
            running.state.methods_missing = self.enable(running.handle, &METHODS).err();
        }
        let configured = match destination {
            Destination::File => self.configure(running.handle, request, None),
            Destination::Consumer(consumer) => {
                self.configure(running.handle, request, Some(consumer))
            }
            Destination::ConsumerOfSwitches(consumer) => {
                self.configure_live(running.handle, request, consumer)
            }
        };
        match configured {
            Ok(sampled) => {
                self.running = Some(running);
                Ok(sampled)
            }
            Err(error) => {
                // A session that Windows does not end has its note, by which the next one ends it.
                let _ = self.end(running);
                Err(error)
            }
        }
    }

    /// Ends a session of halprof's whose owner has died, while this process holds the folder's lock.
    ///
    /// # Errors
    /// The session's files are in another folder, and its owner runs.
    fn end_left(&mut self, folder: &Path) -> Result<()> {
        let mut left = Properties::named();
        let known = self.calls.control_trace(Control::Query, &mut left);
        if !matches!(known, Ok(()) | Err(MORE_DATA)) || !left.is_ours() {
            return Ok(());
        }
        if left.is_real_time() {
            // It has no file that shows its owner. It belongs to this folder if the folder has its note.
            let is_noted = Note::read(folder).is_some_and(|note| note.file.as_os_str().is_empty());
            if !is_noted {
                return Err(busy_elsewhere());
            }
        }
        let file = left.file();
        // Its owner would hold the lock that this process has.
        let is_dead = file.parent() == Some(folder);
        let owner = file.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        let owner = owner.filter(|&owner| !is_dead && owner != std::process::id());
        if let Some(owner) = owner.filter(|&owner| self.calls.is_running(owner)) {
            return Err(busy(Some(owner)));
        }
        // If it cannot be ended, neither can another be started, and that has its reason.
        let _ = self.calls.control_trace(Control::Stop, &mut Properties::named());
        Ok(())
    }

    /// Undoes what a session changed that has ended, and whose owner has died.
    fn undo(&mut self, note: &Note) {
        self.restore(note);
        // Its file may never have been written.
        drop(TraceFile::new(note.file.clone()));
    }

    /// Puts back the intervals. Numbers of sources belong to one start of Windows, and so do intervals.
    fn restore(&mut self, note: &Note) {
        if self.calls.boot_time().abs_diff(note.boot_time) > CLOCK_SET_SECONDS {
            return;
        }
        for &saved in note.intervals.iter().filter(|saved| saved.interval != 0) {
            // A source that is no longer there has no interval either.
            let _ = self.set_interval(saved);
        }
    }

    /// Notes what is to be undone, and starts a session that traces nothing yet.
    fn prepare(&mut self, folder: PathBuf, request: &TraceRequest) -> Result<Running> {
        let megabytes = self.file_megabytes(&folder)?;
        let process = std::process::id();
        let file = folder.join(format!("{process}.etl"));
        let intervals = self.intervals(request);
        let boot_time = self.calls.boot_time();
        let note = Note { process, boot_time, file: file.clone(), intervals };
        note.write(&folder).map_err(|error| Error::writing(&folder, error))?;
        let processors = self.calls.processors().max(1);
        let properties = Properties::into_file(&file, megabytes, processors, request)
            .ok_or_else(|| Error::writing(&file, io::ErrorKind::InvalidFilename.into()))?;
        let handle = self.start_trace(&folder, &properties, &file);
        let handle = handle.inspect_err(|_| Note::remove(&folder))?;
        Ok(Running {
            handle,
            folder,
            note,
            file: Some(TraceFile::new(file)),
            methods: request.methods,
            limit_bytes: u64::from(megabytes) * MEGABYTE,
            state: TraceState::default(),
        })
    }

    /// The intervals of what is to be sampled, before a session sets its own.
    fn intervals(&mut self, request: &TraceRequest) -> Vec<ProfileInterval> {
        let saved = |&SampledSource { id, .. }: &SampledSource| ProfileInterval {
            source: id,
            interval: self.interval(id).unwrap_or(0),
        };
        request.sampled.iter().map(saved).collect()
    }

    /// Notes what is to be undone, and starts a session whose events are delivered.
    fn prepare_live(&mut self, folder: PathBuf, request: &TraceRequest) -> Result<Running> {
        let intervals = self.intervals(request);
        let boot_time = self.calls.boot_time();
        let note = Note { process: std::process::id(), boot_time, intervals, ..Note::default() };
        note.write(&folder).map_err(|error| Error::writing(&folder, error))?;
        let properties = Properties::real_time(self.calls.processors().max(1));
        let handle = self.start_trace(&folder, &properties, &folder);
        let handle = handle.inspect_err(|_| Note::remove(&folder))?;
        Ok(Running {
            handle,
            folder,
            note,
            file: None,
            methods: false,
            limit_bytes: u64::MAX,
            state: TraceState::default(),
        })
    }

    /// Has programs write the events of providers.
    fn enable(&mut self, handle: u64, providers: &[Provider]) -> std::result::Result<(), u32> {
        providers.iter().try_for_each(|provider| self.calls.enable(handle, provider))
    }

    /// The largest size of a file in this folder.
    fn file_megabytes(&mut self, folder: &Path) -> Result<u32> {
        let free = self.calls.free_bytes(folder).map_err(|error| Error::reading(folder, error))?;
        let free_mb = (free / MEGABYTE).saturating_sub(RESERVED_MB);
        match (free_mb / PART_OF_DISK).min(FILE_MB_MAX) {
            0 => Err(disk_full(folder)),
            megabytes => Ok(megabytes as u32),
        }
    }

    fn start_trace(&mut self, folder: &Path, properties: &Properties, file: &Path) -> Result<u64> {
        let mut started = self.calls.start_trace(&mut properties.clone());
        if started == Err(ALREADY_EXISTS) {
            // Another account has started one since this process looked.
            self.end_left(folder)?;
            started = self.calls.start_trace(&mut properties.clone());
        }
        started.map_err(|error| match error {
            DISK_FULL => disk_full(file),
            error => self.refused("start a session", error),
        })
    }

    /// Sets what a session traces; returns the intervals in force. A consumer is there before the
    /// first event, because Windows keeps in a file what has no consumer yet.
    fn configure(
        &mut self,
        handle: u64,
        request: &TraceRequest,
        consumer: Option<&Arc<dyn Consumer>>,
    ) -> Result<Vec<SampledSource>> {
        if request.stacks {
            let stacks = if request.waits { STACKS_OF_WAITS.as_bytes() } else { STACKS.as_bytes() };
            self.set(handle, Class::TraceStackTracingInfo, stacks)?;
        }
        if !request.counted.is_empty() {
            self.count(handle, &request.counted)?;
        }
        let mut sampled = Vec::new();
        for &SampledSource { id, interval } in &request.sampled {
            let set = self.set_interval(ProfileInterval { source: id, interval });
            set.map_err(|error| self.refused("set the interval of a source", error))?;
            // Windows may have put it into the source's limits.
            let interval = self.interval(id).unwrap_or(interval);
            sampled.push(SampledSource { id, interval });
        }
        let counters: Vec<u32> =
            sampled.iter().map(|source| source.id).filter(|&id| id != TIMER).collect();
        if !counters.is_empty() {
            // The list is the machine's: with a session's handle it is refused or ignored.
            self.set(0, Class::TraceProfileSourceConfigInfo, counters.as_bytes())?;
        }
        if let Some(consumer) = consumer {
            self.consume(consumer)?;
        }
        let timer = counters.len() < sampled.len();
        // With the mask Windows begins to sample, and lists what runs already.
        let mask = mask(timer, !counters.is_empty(), request);
        self.set(handle, Class::TraceSystemTraceEnableFlagsInfo, mask.as_bytes())?;
        if let Some(filter) = request.branches {
            // Set after the mask, as by all programs that are known to record branches: the first
            // samples come before this, and have none.
            let hooks = branched(timer, !counters.is_empty());
            self.record_branches(handle, filter, &hooks)?;
        }
        Ok(sampled)
    }

    /// Sets what a session delivers, and has it delivered.
    fn configure_live(
        &mut self,
        handle: u64,
        request: &TraceRequest,
        consumer: &Arc<dyn Consumer>,
    ) -> Result<Vec<SampledSource>> {
        self.count(handle, &request.counted)?;
        let mask = mask_of_switches();
        self.set(handle, Class::TraceSystemTraceEnableFlagsInfo, mask.as_bytes())?;
        self.consume(consumer)?;
        Ok(Vec::new())
    }

    fn consume(&mut self, consumer: &Arc<dyn Consumer>) -> Result<()> {
        let consumed = self.calls.consume(Arc::clone(consumer));
        consumed.map_err(|error| self.refused("deliver its events", error))
    }

    fn flush(&mut self) -> Result<u64> {
        if self.running.is_none() {
            return Err(no_session());
        }
        let mut properties = Properties::named();
        match self.calls.control_trace(Control::Flush, &mut properties) {
            Ok(()) | Err(MORE_DATA) => Ok(properties.lost()),
            Err(INSTANCE_NOT_FOUND) => Err(Error::unavailable(
                "another program stopped the session",
                "Measure again; `logman query -ets` shows who traces.",
            )),
            Err(error) => Err(self.refused("deliver its events", error)),
        }
    }

    /// Has samples carry the branches before them.
    fn record_branches(&mut self, handle: u64, filter: u32, hooks: &[u32]) -> Result<()> {
        let set = self.calls.set(handle, Class::TraceLbrConfigurationInfo, filter.as_bytes());
        let set = set
            .and_then(|()| self.calls.set(handle, Class::TraceLbrEventListInfo, hooks.as_bytes()));
        set.map_err(|error| match error {
            ACCESS_DENIED | PRIVILEGE_NOT_HELD => self.refused("record branches", error),
            _ => no_branch_records(error),
        })
    }

    /// Has context switches carry counts. A refused list leaves the session unusable.
    fn count(&mut self, handle: u64, counted: &[u32]) -> Result<()> {
        // All programs that are known to count set the list of sources before that of events.
        match self.calls.set(handle, Class::TracePmcCounterListInfo, counted.as_bytes()) {
            Ok(()) => self.set(handle, Class::TracePmcEventListInfo, COUNTED.as_bytes()),
            Err(BUSY) => Err(Error::NoFreeCounters { sources: counted.len() }),
            Err(error) => Err(self.refused("count its sources", error)),
        }
    }

    fn set(&mut self, handle: u64, class: Class, data: &[u8]) -> Result<()> {
        let step = match class {
            Class::TraceStackTracingInfo => "trace call stacks",
            Class::TracePmcEventListInfo => "count at context switches",
            Class::TraceProfileSourceConfigInfo => "sample its sources",
            _ => "trace samples and context switches",
        };
        self.calls.set(handle, class, data).map_err(|error| self.refused(step, error))
    }

    fn state(&mut self) -> Result<TraceState> {
        let running = self.running.as_mut().ok_or_else(no_session)?;
        let mut properties = Properties::named();
        match self.calls.control_trace(Control::Query, &mut properties) {
            Ok(()) | Err(MORE_DATA) => running.know(&properties),
            Err(INSTANCE_NOT_FOUND) => running.state.ended = Some(running.end_by_itself()),
            Err(error) => {
                let elevated = self.calls.elevated();
                return Err(refused("report on its session", error, elevated));
            }
        }
        Ok(running.state)
    }

    fn stop(&mut self) -> Result<(TraceFile, TraceState)> {
        let mut running = self.running.take().ok_or_else(no_session)?;
        if running.methods {
            let listed = self.enable(running.handle, &RUNDOWN);
            running.state.methods_missing = running.state.methods_missing.or(listed.err());
        }
        let (file, state) = self.stop_at_once(running)?;
        Ok((file.ok_or_else(no_session)?, state))
    }

    fn stop_live(&mut self) -> Result<TraceState> {
        let running = self.running.take().ok_or_else(no_session)?;
        let (_, state) = self.stop_at_once(running)?;
        Ok(state)
    }

    fn stop_at_once(&mut self, running: Running) -> Result<(Option<TraceFile>, TraceState)> {
        // The session ends without it; intervals that cannot be put back have their note.
        let privileged = self.calls.set_privilege(true);
        let ended = self.end(running);
        if privileged.is_ok() {
            let _ = self.calls.set_privilege(false);
        }
        self.calls.unlock();
        ended
    }

    fn end(&mut self, mut running: Running) -> Result<(Option<TraceFile>, TraceState)> {
        let mut properties = Properties::named();
        match self.calls.control_trace(Control::Stop, &mut properties) {
            Ok(()) => running.know(&properties),
            // It has ended already: before, or just now.
            Err(MORE_DATA) => {}
            Err(INSTANCE_NOT_FOUND) => running.state.ended = Some(running.end_by_itself()),
            Err(error) => return Err(self.refused("end its session", error)),
        }
        // The session ends before its intervals do: what it still samples would get the earlier
        // ones.
        self.restore(&running.note);
        Note::remove(&running.folder);
        Ok((running.file, running.state))
    }

    fn abandon(&mut self) {
        if let Some(running) = self.running.take() {
            // Nobody is left to report to; what could not be undone has its note. Windows ends the
            // process soon: nothing is waited for.
            let _ = self.stop_at_once(running);
        }
    }

    /// What Windows did not do, and why.
    fn refused(&mut self, step: &'static str, error: u32) -> Error {
        refused(step, error, self.calls.elevated())
    }

    fn no_folder(&mut self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                self.refused("open the folder for its files", ACCESS_DENIED)
            }
            _ => Error::unavailable(
                format!("the folder for the files of traces could not be made: {error}"),
                Remedy::TracingRights,
            ),
        }
    }
}

impl Running {
    /// Takes over what Windows says of the session.
    fn know(&mut self, properties: &Properties) {
        self.state.bytes = properties.bytes();
        self.state.events_lost = properties.events_lost.into();
        self.state.buffers_lost =
            u64::from(properties.log_buffers_lost) + u64::from(properties.real_time_buffers_lost);
        if self.state.bytes >= self.limit_bytes {
            self.state.ended = Some(TraceEnd::Full(self.limit_bytes));
        }
    }

    /// Why it is no longer there: the last megabytes may have come after it was last asked.
    fn end_by_itself(&self) -> TraceEnd {
        match self.state.ended {
            Some(end) => end,
            None if self.state.bytes >= self.limit_bytes / 8 * 7 => {
                TraceEnd::Full(self.limit_bytes)
            }
            None => TraceEnd::Stopped,
        }
    }
}

fn disk_full(path: &Path) -> Error {
    Error::writing(path, io::ErrorKind::StorageFull.into())
}

fn no_session() -> Error {
    Error::unavailable("no session runs", "Start one first.")
}

/// Who counts regions by the session is not known: another account's note cannot be read.
fn busy_elsewhere() -> Error {
    Error::unavailable(
        "a program of another account already counts its regions by Windows' own tracing",
        "Wait until it ends. If it was killed, an elevated `logman stop halprof-etw -ets` ends what it left.",
    )
}

fn busy(owner: Option<u32>) -> Error {
    match owner {
        Some(process) => Error::Refused(Refusal {
            code: ErrorCode::Busy,
            subject: process,
            detail: 0,
            source: None,
        }),
        None => Error::unavailable(
            "another halprof is about to start a session of Windows' own tracing",
            "Wait until it ends.",
        ),
    }
}

/// Wine has no such function, and Windows before 8 no such list.
fn no_list(error: u32) -> Error {
    Error::NoTracing {
        message: format!("this Windows traces no hardware events (Win32 error {error})"),
        hint: "Tracing needs Windows 8 or later.".into(),
    }
}

/// What Windows did not do, and why. A process that is not elevated lacks the rights that its account
/// has, so that this is the reason before any other.
fn refused(step: &'static str, error: u32, elevated: Option<bool>) -> Error {
    let no_right = |message: String, hint: Hint| Error::NoTracing { message, hint };
    match error {
        ACCESS_DENIED | PRIVILEGE_NOT_HELD | NOT_ALL_ASSIGNED if elevated == Some(false) => {
            no_right(
                format!(
                    "Windows' own tracing was refused the right to {step}: this prompt is not elevated"
                ),
                Remedy::TracingRights.into(),
            )
        }
        ACCESS_DENIED | PRIVILEGE_NOT_HELD => {
            no_right(format!("Windows' own tracing was refused the right to {step}"), Remedy::TracingRights.into())
        }
        NOT_ALL_ASSIGNED => no_right(
            "this account lacks the right to profile the system (SeSystemProfilePrivilege)"
                .to_owned(),
            "A policy has taken \"Profile system performance\" from it: have it given back, and sign in again.".into(),
        ),
        NO_SYSTEM_RESOURCES => Error::unavailable(
            "all eight sessions of the kernel's events are in use (Win32 error 1450)",
            "End one: an elevated `logman query -ets` lists them.",
        ),
        NOT_SUPPORTED | INVALID_PARAMETER => Error::unavailable(
            format!("this Windows does not {step} (Win32 error {error})"),
            "Tracing needs Windows 8 or later, and not a container.",
        ),
        _ => Error::unavailable(
            format!("Windows' own tracing failed to {step} (Win32 error {error})"),
            "End other tools that trace, and try again.",
        ),
    }
}
