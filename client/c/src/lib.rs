//! halprof for C, and for every language that can call C: counts, samples and regions of code.
//!
//! `include/halprof.h` is generated from this file. Every function that can fail returns
//! `HALPROF_OK` or `HALPROF_FAILED`; after a failure `halprof_error` tells the calling thread why.
//! Structures only grow at the end, and callers pass the length of theirs; `halprof_open` takes the
//! version of the header.
#![expect(unsafe_code, reason = "C lends pointers and has no lifetimes")]
// People outside this project read the crate and its halprof.h, so each public item is documented.
#![warn(missing_docs)]

pub mod counts;
mod errors;
mod failure;
mod owner;
mod text;

use errors::answer;
use failure::{Failure, fail, usage};
use halprof_measure::marks::Channel;
use halprof_measure::regions::{
    CALIBRATION_TRIES, Method, Passage, RegionRow, Regions, Report, Thread,
};
use halprof_measure::{Connection, Error, Machine, Refusal, Session, Sources};
use owner::Owner;
use shared_types::Sample;
use shared_types::request::samples::Statistics;
use shared_types::request::session::Spec;
use std::borrow::Cow;
use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use text::{borrowed, lent, lent_mut, optional};

/// The version of this interface, for `halprof_open`.
pub const HALPROF_ABI: u32 = 1;
/// The function succeeded.
pub const HALPROF_OK: i32 = 0;
/// The function failed: see `halprof_error`.
pub const HALPROF_FAILED: i32 = -1;

/// Use the best method that works.
pub const HALPROF_BEST: u32 = 0;
/// Counts of the thread alone, from Windows' thread profiling.
pub const HALPROF_THREAD_PROFILING: u32 = 1;
/// Counts of the thread alone, from RDPMC between two context switches.
pub const HALPROF_RDPMC: u32 = 2;
/// Counts of whole processors.
pub const HALPROF_PROCESSORS: u32 = 3;
/// Counts of the thread alone, from the context switches of Windows' own tracing, without the driver.
/// They include the kernel's work and the interrupts on the thread's time.
pub const HALPROF_TRACING: u32 = 4;

/// A report as a text table.
pub const HALPROF_TABLE: u32 = 0;
/// A report as CSV, with a header line.
pub const HALPROF_CSV: u32 = 1;
/// A report as one JSON object.
pub const HALPROF_JSON: u32 = 2;

/// Not a channel: marks on it are ignored.
pub const HALPROF_NO_CHANNEL: u32 = u32::MAX;

/// A machine, and what is counted on it. Any thread may use it.
pub struct Halprof(Mutex<Inner>);

/// The regions of one thread, which only that thread may use.
pub struct HalprofThread {
    // Dropped first: it borrows from what is declared after it.
    thread: Thread<'static>,
    _regions: Arc<Regions<'static, Machine>>,
    passages: Vec<Option<Passage>>,
    owner: Owner,
}

/// The counts of one source over the passages through one region. `mode` and `deviation` are
/// meaningless if their flags are 0.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct HalprofRow {
    /// Set by the caller to the length of its structure, `sizeof(halprof_row)`.
    pub size: u32,
    /// Whether any value occurs twice.
    pub has_mode: u8,
    /// Whether there was more than one passage.
    pub has_deviation: u8,
    /// 0.
    pub reserved: [u8; 2],
    /// The number of passages, including the culled ones.
    pub n: u64,
    /// How many were left out as anomalous; all following fields describe the others.
    pub culled: u64,
    /// The smallest value.
    pub min: u64,
    /// The median.
    pub median: u64,
    /// The most frequent value.
    pub mode: u64,
    /// What was subtracted from each passage as the cost of measuring.
    pub overhead: u64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The mean without the lowest and the highest fifth.
    pub trimmed_mean: f64,
    /// The spread of empty regions. Under `HALPROF_TRACING` a count below 20 spreads says little.
    pub spread: u64,
}

/// One sample, recorded at an overflow.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct HalprofSample {
    /// The time-stamp counter.
    pub timestamp: u64,
    /// The address of the instruction, or 0.
    pub address: u64,
    /// The number of events that it stands for.
    pub period: u64,
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The processor.
    pub processor: u32,
    /// The source: its index in the list that was chosen.
    pub source: u32,
    /// 1 for user mode, 2 for kernel mode, 0 if it is not known.
    pub mode: u32,
    /// 0.
    pub reserved: u32,
}

struct Inner {
    /// From a `Box`, lent to `state`, and freed by `Drop` after it.
    connection: *mut Connection<Machine>,
    sources: Option<(Sources, Vec<CString>)>,
    state: State,
    /// The report of the previous regions.
    report: Option<Report>,
}

// SAFETY: the connection behind the pointer belongs to this structure alone, and both it and
// everything else in the structure may move between threads.
unsafe impl Send for Inner {}

enum State {
    Idle,
    Counting(Arc<Regions<'static, Machine>>),
    /// With samples that were fetched but not yet taken, the oldest last.
    Sampling(Session<'static, Machine>, Vec<Sample>),
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.state = State::Idle;
        // SAFETY: it came from a `Box`, and the state that borrowed it is gone.
        drop(unsafe { Box::from_raw(self.connection) });
    }
}

impl Inner {
    /// The connection, for as long as the state that takes it exists.
    fn connection(&mut self) -> Result<&'static mut Connection<Machine>, Failure> {
        match self.state {
            // SAFETY: the pointer is valid until `Drop`, which ends the state before freeing it;
            // and as nothing is counted, nobody else uses it.
            State::Idle => Ok(unsafe { &mut *self.connection }),
            _ => Err(usage("it is counting already", "Stop it first.")),
        }
    }

    fn chosen(&self) -> Result<&Sources, Failure> {
        let chosen = self.sources.as_ref().map(|(sources, _)| sources);
        chosen.ok_or_else(|| usage("no source was chosen", "Call halprof_choose first."))
    }

    fn regions(&self) -> Result<&Arc<Regions<'static, Machine>>, Failure> {
        match &self.state {
            State::Counting(regions) => Ok(regions),
            _ => Err(usage("it is not counting", "Call halprof_start first.")),
        }
    }

    /// After counting it is made once: a program may ask for many rows of it.
    fn report(&self) -> Result<Cow<'_, Report>, Failure> {
        match (&self.state, &self.report) {
            (State::Counting(regions), _) => Ok(Cow::Owned(regions.report())),
            (_, Some(report)) => Ok(Cow::Borrowed(report)),
            (_, None) => Err(usage("nothing was counted", "Call halprof_start first.")),
        }
    }

    fn sampling(&mut self) -> Result<(&mut Session<'static, Machine>, &mut Vec<Sample>), Failure> {
        match &mut self.state {
            State::Sampling(session, waiting) => Ok((session, waiting)),
            _ => Err(usage("it is not sampling", "Call halprof_sample_start first.")),
        }
    }
}

impl Halprof {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version of the library, `HALPROF_ABI` of its header.
#[unsafe(no_mangle)]
pub extern "C" fn halprof_abi() -> u32 {
    HALPROF_ABI
}

/// Why the last function that failed on this thread failed, and what to do about it. Never NULL;
/// valid until the next failure on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn halprof_error() -> *const c_char {
    errors::text()
}

/// The same as a stable name that programs may compare, such as "does-not-fit".
#[unsafe(no_mangle)]
pub extern "C" fn halprof_error_code() -> *const c_char {
    errors::code()
}

/// Opens a machine: the name of a model, the path of a CPUID dump, "etw" for Windows' own tracing, or
/// NULL for the installed driver and, without one, that tracing (on systems other than Windows, NULL
/// stands for the model `sapphire-rapids`, if the library has models). Tracing counts only regions; a
/// model is traced if ",backend=etw" follows its name. `abi` is `HALPROF_ABI`.
///
/// # Safety
/// `machine` is NULL or ends with a 0; `*opened` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_open(
    abi: u32,
    machine: *const c_char,
    opened: *mut *mut Halprof,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let opened = unsafe { lent_mut(opened) }?;
        *opened = ptr::null_mut();
        check_version(abi)?;
        // SAFETY: the caller promises it.
        let machine = unsafe { optional(machine) }?;
        let connection = Connection::new(Machine::open(machine)?)?;
        let inner = Inner {
            connection: Box::into_raw(Box::new(connection)),
            sources: None,
            state: State::Idle,
            report: None,
        };
        *opened = Box::into_raw(Box::new(Halprof(Mutex::new(inner))));
        Ok(())
    })
}

/// Stops counting and closes the machine. Fails while any thread has regions.
///
/// # Safety
/// `halprof` is from `halprof_open`, is used by nobody else, and if this succeeds by nobody again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_close(halprof: *mut Halprof) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let lent = unsafe { lent(halprof) }?;
        if let State::Counting(regions) = &lent.lock().state {
            alone(regions)?;
        }
        // SAFETY: it came from a `Box`, and the caller gives it back.
        drop(unsafe { Box::from_raw(halprof) });
        Ok(())
    })
}

/// 1 if the machine is a model, otherwise 0.
///
/// # Safety
/// `halprof` is NULL or from `halprof_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_modelled(halprof: *const Halprof) -> i32 {
    // SAFETY: the caller promises it.
    let lent = unsafe { lent(halprof) };
    lent.map_or(0, |halprof| {
        let inner = halprof.lock();
        // SAFETY: the pointer is valid until `Drop`; whether it is a model never changes.
        i32::from(unsafe { &*inner.connection }.modelled())
    })
}

/// Chooses what to count: a list such as "TotalIssues:u,BranchInstructions:u". `processors` is a
/// list such as "0-3", or NULL for all.
///
/// # Safety
/// `halprof` is from `halprof_open`; the texts end with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_choose(
    halprof: *mut Halprof,
    list: *const c_char,
    processors: *const c_char,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let mut inner = unsafe { lent(halprof) }?.lock();
        // SAFETY: the caller promises it.
        let list = unsafe { borrowed(list) }?;
        let mut sources = Sources::named(inner.connection()?, list)?;
        if !processors.is_null() {
            // SAFETY: the caller promises it.
            let list = unsafe { borrowed(processors) }?;
            sources = sources.on(&halprof_measure::selection::parse_processors(list)?);
        }
        let names = sources.names().map(text::owned).collect();
        inner.sources = Some((sources, names));
        Ok(())
    })
}

/// The name of a chosen source, by its index from 0; NULL after the last. Valid until the next
/// `halprof_choose`.
///
/// # Safety
/// `halprof` is NULL or from `halprof_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_source(halprof: *const Halprof, index: usize) -> *const c_char {
    // SAFETY: the caller promises it.
    let Ok(lent) = (unsafe { lent(halprof) }) else {
        return ptr::null();
    };
    let inner = lent.lock();
    let names = inner.sources.as_ref().map(|(_, names)| names);
    let name = names.and_then(|names| names.get(index));
    name.map_or(ptr::null(), |name| name.as_ptr())
}

/// Starts counting the chosen sources, for `halprof_read` and for regions; `method` is
/// `HALPROF_BEST` or one of the methods after it.
///
/// # Safety
/// `halprof` is from `halprof_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_start(halprof: *mut Halprof, method: u32) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let mut inner = unsafe { lent(halprof) }?.lock();
        let method = match method {
            HALPROF_BEST => None,
            HALPROF_THREAD_PROFILING => Some(Method::ThreadProfiling),
            HALPROF_RDPMC => Some(Method::Rdpmc),
            HALPROF_PROCESSORS => Some(Method::Processors),
            HALPROF_TRACING => Some(Method::Tracing),
            other => {
                return Err(usage(format!("{other} is no way to count"), "See halprof.h."));
            }
        };
        let connection = inner.connection()?;
        let regions = Regions::open_by(connection, inner.chosen()?, method)?;
        inner.report = None;
        inner.state = State::Counting(Arc::new(regions));
        Ok(())
    })
}

/// The method in use, as for `halprof_start`; 0 if nothing is counted.
///
/// # Safety
/// `halprof` is NULL or from `halprof_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_method(halprof: *const Halprof) -> u32 {
    // SAFETY: the caller promises it.
    let Ok(lent) = (unsafe { lent(halprof) }) else {
        return HALPROF_BEST;
    };
    let inner = lent.lock();
    inner.regions().map_or(HALPROF_BEST, |regions| number_of(regions.method()))
}

/// What the chosen processors have counted since the start: one number for each source.
///
/// # Safety
/// `halprof` is from `halprof_open`; `counts` is valid for writes of `length` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_read(
    halprof: *mut Halprof,
    counts: *mut u64,
    length: usize,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let inner = unsafe { lent(halprof) }?.lock();
        // SAFETY: the caller promises it.
        let counts = unsafe { text::slice(counts, length) }?;
        copy(counts, &inner.regions()?.totals()?);
        Ok(())
    })
}

/// Reads a last time and stops counting. Fails while any thread has regions; their report stays.
///
/// # Safety
/// As for `halprof_read`; `counts` may be NULL if `length` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_stop(
    halprof: *mut Halprof,
    counts: *mut u64,
    length: usize,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let mut inner = unsafe { lent(halprof) }?.lock();
        // SAFETY: the caller promises it.
        let counts = unsafe { text::slice(counts, length) }?;
        let regions = inner.regions()?;
        alone(regions)?;
        // Tracing has no totals.
        if !counts.is_empty() {
            copy(counts, &regions.totals()?);
        }
        inner.report = Some(regions.report());
        inner.state = State::Idle;
        Ok(())
    })
}

/// Runs a workload to its end on a modelled machine: "instructions=1000000,cycles=2000000". A real
/// machine refuses this.
///
/// # Safety
/// `halprof` is from `halprof_open`; `workload` ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_workload(halprof: *mut Halprof, workload: *const c_char) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let mut inner = unsafe { lent(halprof) }?.lock();
        // SAFETY: the caller promises it.
        let workload = unsafe { borrowed(workload) }?;
        match &mut inner.state {
            State::Idle => inner.connection()?.transport().run(workload),
            State::Counting(regions) => regions.with_transport(|machine| machine.run(workload)),
            State::Sampling(session, _) => session.transport().run(workload),
        }?;
        Ok(())
    })
}

/// Starts sampling the chosen sources, each every `period` events; 0 for their default periods.
///
/// # Safety
/// `halprof` is from `halprof_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_sample_start(halprof: *mut Halprof, period: u64) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let mut inner = unsafe { lent(halprof) }?.lock();
        let connection = inner.connection()?;
        let mut setup = inner.chosen()?.setup();
        for spec in &mut setup.specs {
            spec.interval = period;
        }
        let kernel = |spec: &Spec| spec.filter & Spec::KERNEL != 0;
        let mut session = Session::open(connection, setup.specs.iter().any(kernel), false)?;
        session.configure(&setup, true)?;
        session.start()?;
        inner.state = State::Sampling(session, Vec::new());
        Ok(())
    })
}

/// Takes the oldest available sample: `*taken` is 1, or 0 if there is none now. `size` is
/// `sizeof(halprof_sample)`. Samples that are not taken within two seconds may be lost. If the
/// driver has ended sampling by itself, this fails after the last sample, and says why.
///
/// # Safety
/// `halprof` is from `halprof_open`; `sample` is valid for writes of `size` bytes, `taken` of one
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_sample_take(
    halprof: *mut Halprof,
    sample: *mut HalprofSample,
    size: usize,
    taken: *mut i32,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let mut inner = unsafe { lent(halprof) }?.lock();
        // SAFETY: the caller promises it.
        let taken = unsafe { lent_mut(taken) }?;
        *taken = 0;
        let (session, waiting) = inner.sampling()?;
        if waiting.is_empty() {
            *waiting = session.drain()?.0;
            waiting.reverse();
        }
        if let Some(next) = waiting.pop() {
            // SAFETY: the caller promises it.
            unsafe { text::put(&HalprofSample::of(&next), sample, size) }?;
            *taken = 1;
            return Ok(());
        }
        match session.ended() {
            Some(_) => not_ended(&session.statistics()?),
            None => Ok(()),
        }
    })
}

/// Stops sampling. `*lost` is the number of lost samples; `lost` may be NULL. Samples that were not
/// taken are discarded. If the driver had ended sampling by itself, this fails and says why, but it
/// is stopped.
///
/// # Safety
/// `halprof` is from `halprof_open`; `lost` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_sample_stop(halprof: *mut Halprof, lost: *mut u64) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let mut inner = unsafe { lent(halprof) }?.lock();
        let (session, _) = inner.sampling()?;
        session.stop_sampling()?;
        let statistics = session.statistics()?;
        // SAFETY: the caller promises it.
        if let Ok(lost) = unsafe { lent_mut(lost) } {
            *lost = statistics.lost.iter().copied().fold(0, u64::saturating_add);
        }
        inner.state = State::Idle;
        not_ended(&statistics)
    })
}

/// Begins the regions of the calling thread, under a name for the report, and measures the cost of
/// measuring.
///
/// # Safety
/// `halprof` is from `halprof_open`; `name` ends with a 0; `*begun` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_thread_begin(
    halprof: *mut Halprof,
    name: *const c_char,
    begun: *mut *mut HalprofThread,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let begun = unsafe { lent_mut(begun) }?;
        *begun = ptr::null_mut();
        // SAFETY: the caller promises it.
        let name = unsafe { borrowed(name) }?;
        // SAFETY: the caller promises it.
        let regions = Arc::clone(unsafe { lent(halprof) }?.lock().regions()?);
        // SAFETY: the `Arc` stored with the thread keeps them at this address for as long as the
        // thread exists.
        let kept: &'static Regions<'static, Machine> = unsafe { &*Arc::as_ptr(&regions) };
        let thread = Box::new(HalprofThread {
            thread: kept.uncalibrated_thread(name, &[])?,
            _regions: regions,
            passages: Vec::new(),
            owner: Owner::here(),
        });
        *begun = Box::into_raw(calibrated(thread)?);
        Ok(())
    })
}

/// Measures empty regions by the path through the C functions, which is a little longer than Rust's
/// own.
fn calibrated(thread: Box<HalprofThread>) -> Result<Box<HalprofThread>, Failure> {
    let calibrations = thread.thread.calibrations();
    let lent = Box::into_raw(thread);
    let [outer, inner] = [RegionRow::EMPTY_NESTED, RegionRow::EMPTY].map(text::owned);
    for _ in 0..CALIBRATION_TRIES {
        for _ in 0..calibrations {
            let mut passages = [0; 2];
            let [first, second] = &mut passages;
            // SAFETY: the thread is this function's, as are the names and the numbers.
            unsafe { halprof_enter(lent, outer.as_ptr(), first) };
            // SAFETY: as above.
            unsafe { halprof_enter(lent, inner.as_ptr(), second) };
            // SAFETY: as above.
            unsafe { halprof_leave(lent, *second) };
            // SAFETY: as above.
            unsafe { halprof_leave(lent, *first) };
        }
        // SAFETY: as above; nobody else has it now.
        if unsafe { &*lent }.thread.is_calibrated() {
            break;
        }
    }
    // SAFETY: it came from the box above.
    let thread = unsafe { Box::from_raw(lent) };
    thread.thread.calibrated()?;
    Ok(thread)
}

/// Ends the regions of the thread; their counts are then in the report.
///
/// # Safety
/// `thread` is from `halprof_thread_begin`, and if this succeeds is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_thread_end(thread: *mut HalprofThread) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        unsafe { lent_mut(thread) }?.own()?;
        // SAFETY: it came from a `Box`, and the caller gives it back.
        drop(unsafe { Box::from_raw(thread) });
        Ok(())
    })
}

/// Enters a region. Regions may nest and overlap: `*passage` identifies the one to leave.
///
/// # Safety
/// `thread` is from `halprof_thread_begin`; `region` ends with a 0; `passage` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_enter(
    thread: *mut HalprofThread,
    region: *const c_char,
    passage: *mut u32,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let thread = unsafe { lent_mut(thread) }?.own()?;
        // SAFETY: the caller promises it.
        let region = unsafe { borrowed(region) }?;
        // SAFETY: the caller promises it.
        let passage = unsafe { lent_mut(passage) }?;
        let free = thread.passages.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            thread.passages.push(None);
            thread.passages.len() - 1
        });
        *passage = index as u32;
        if let Some(slot) = thread.passages.get_mut(index) {
            *slot = Some(thread.thread.begin(region)?);
        }
        Ok(())
    })
}

/// Leaves the region of a passage.
///
/// # Safety
/// `thread` is from `halprof_thread_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_leave(thread: *mut HalprofThread, passage: u32) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let thread = unsafe { lent_mut(thread) }?.own()?;
        let slot = thread.passages.get_mut(passage as usize);
        match slot.and_then(Option::take) {
            Some(passage) => thread.thread.end(passage),
            None => return Err(usage("no such region is entered", "Leave each once.")),
        }
        Ok(())
    })
}

/// The counts of one source in one region of one thread that has ended; the source may be
/// "time-stamp ticks". `row->size` is `sizeof(halprof_row)`.
///
/// # Safety
/// `halprof` is from `halprof_open`; the texts end with a 0; `row` is as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_row_of(
    halprof: *mut Halprof,
    region: *const c_char,
    thread: *const c_char,
    source: *const c_char,
    row: *mut HalprofRow,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let inner = unsafe { lent(halprof) }?.lock();
        let mut names = [""; 3];
        for (name, text) in names.iter_mut().zip([region, thread, source]) {
            // SAFETY: the caller promises it.
            *name = unsafe { borrowed(text) }?;
        }
        // SAFETY: the caller promises it, and the size comes first in every version.
        let size = *unsafe { lent(row.cast::<u32>()) }?;
        let report = inner.report()?;
        let is_requested = |row: &&RegionRow| [&row.name, &row.thread, &row.source] == names;
        let Some(counted) = report.regions.iter().find(is_requested) else {
            let [region, thread, source] = names;
            let message = format!("{source} was not counted in {region} of {thread}");
            return Err(usage(message, "A thread is in the report when it has ended."));
        };
        // SAFETY: the caller promises it.
        unsafe { text::put(&HalprofRow::of(counted, size), row, size as usize) }
    })
}

/// The report on all threads that have ended, as `HALPROF_TABLE`, `HALPROF_CSV` or `HALPROF_JSON`.
/// The caller owns the text and frees it with `halprof_free`.
///
/// # Safety
/// `halprof` is from `halprof_open`; `*text` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_report(
    halprof: *mut Halprof,
    format: u32,
    text: *mut *mut c_char,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let text = unsafe { lent_mut(text) }?;
        *text = ptr::null_mut();
        // SAFETY: the caller promises it.
        let inner = unsafe { lent(halprof) }?.lock();
        let report = inner.report()?;
        let words = match format {
            HALPROF_TABLE => report.to_string(),
            HALPROF_CSV => report.csv()?,
            HALPROF_JSON => serde_json::to_string_pretty(&report).unwrap_or_default(),
            other => return Err(usage(format!("{other} is no format"), "See halprof.h.")),
        };
        *text = text::owned(&words).into_raw();
        Ok(())
    })
}

/// The channel of this name, for `halprof_mark`: ask once and keep it. No machine is needed.
/// `HALPROF_NO_CHANNEL` if no recorder such as `halprof timeline -- PROGRAM` is attached, or if the
/// name is refused: see `halprof_error`.
///
/// # Safety
/// `name` is NULL or ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_channel(name: *const c_char) -> u32 {
    let mut number = HALPROF_NO_CHANNEL;
    answer(|| {
        // SAFETY: the caller promises it.
        number = Channel::named(unsafe { borrowed(name) }?).number();
        Ok(())
    });
    number
}

/// Marks that something happens now, with a value that identifies it. It takes RDTSC and a few
/// stores, and no system call. Any thread may call it, but not a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn halprof_mark(channel: u32, value: u64) {
    Channel::from_number(channel).mark(value);
}

/// Frees a text that a function returned; NULL is ignored.
///
/// # Safety
/// `text` is NULL or from `halprof_report`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it came from `CString::into_raw`, and the caller gives it back.
        drop(unsafe { CString::from_raw(text) });
    }
}

impl HalprofThread {
    /// Refuses every thread but its own, whose counters it reads.
    fn own(&mut self) -> Result<&mut Self, Failure> {
        if self.owner == Owner::here() {
            return Ok(self);
        }
        let hint = "Each thread calls halprof_thread_begin for itself.";
        Err(usage("these are the regions of another thread", hint))
    }
}

impl HalprofSample {
    fn of(sample: &Sample) -> Self {
        Self {
            timestamp: sample.timestamp,
            address: sample.ip,
            period: sample.period,
            process: sample.process,
            thread: sample.thread,
            processor: sample.processor,
            source: sample.source.into(),
            mode: sample.mode.into(),
            reserved: 0,
        }
    }
}

impl HalprofRow {
    fn of(row: &RegionRow, size: u32) -> Self {
        Self {
            size,
            has_mode: row.mode.is_some().into(),
            has_deviation: row.deviation.is_some().into(),
            reserved: [0; 2],
            n: row.n,
            culled: row.culled,
            min: row.min,
            median: row.median,
            mode: row.mode.unwrap_or(0),
            overhead: row.overhead,
            mean: row.mean,
            deviation: row.deviation.unwrap_or(0.0),
            trimmed_mean: row.trimmed_mean,
            spread: row.spread,
        }
    }
}

/// Fails if the driver has ended sampling by itself.
fn not_ended(statistics: &Statistics) -> Result<(), Failure> {
    match Refusal::from_statistics(statistics) {
        Some(refusal) => Err(Error::Refused(refusal).into()),
        None => Ok(()),
    }
}

/// Fails if a thread still has any of these regions.
fn alone(regions: &Arc<Regions<'static, Machine>>) -> Result<(), Failure> {
    match Arc::strong_count(regions) {
        1 => Ok(()),
        threads => Err(usage(
            format!("{} threads still have regions", threads - 1),
            "Call halprof_thread_end in each.",
        )),
    }
}

fn check_version(abi: u32) -> Result<(), Failure> {
    if abi == HALPROF_ABI {
        return Ok(());
    }
    let message = format!(
        "the program was made for version {abi} of halprof.h; the library has {HALPROF_ABI}"
    );
    fail("version-mismatch", &message, "Compile the program again.")
}

const fn number_of(method: Method) -> u32 {
    match method {
        Method::ThreadProfiling => HALPROF_THREAD_PROFILING,
        Method::Rdpmc => HALPROF_RDPMC,
        Method::Processors => HALPROF_PROCESSORS,
        Method::Tracing => HALPROF_TRACING,
    }
}

fn copy(to: &mut [u64], from: &[u64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    impl Halprof {
        /// The model takes interrupts without an overflow until the driver ends sampling.
        fn storm(&self) {
            let mut inner = self.lock();
            let (session, _) = inner.sampling().unwrap_or_else(|_| panic!("it samples"));
            match session.transport() {
                Machine::InProcess(model) => {
                    (0..200).for_each(|_| model.model().spurious_interrupt(0));
                }
                Machine::Traced(_) => panic!("it is modelled, and not traced"),
            }
        }
    }

    /// What a function returned and, if it failed, the name of why.
    fn outcome(result: i32) -> (i32, String) {
        let code = (result != HALPROF_OK).then(|| halprof_error_code());
        // SAFETY: the text ends with a 0, and nothing fails on this thread in the meantime.
        let code = code.map(|code| unsafe { CStr::from_ptr(code) });
        let code = code.map(|code| code.to_string_lossy().into_owned());
        (result, code.unwrap_or_default())
    }

    fn taken(halprof: *mut Halprof) -> ((i32, String), i32) {
        let (mut sample, mut taken) = (HalprofSample::default(), 5);
        let size = size_of::<HalprofSample>();
        // SAFETY: it is open; both may be written.
        let result = unsafe { halprof_sample_take(halprof, &raw mut sample, size, &raw mut taken) };
        (outcome(result), taken)
    }

    fn stopped(halprof: *mut Halprof) -> (i32, String) {
        let mut lost = 1;
        // SAFETY: it is open; `lost` may be written.
        let result = unsafe { halprof_sample_stop(halprof, &raw mut lost) };
        assert_eq!(lost, 0);
        outcome(result)
    }

    #[test]
    fn sampling_that_the_driver_has_ended_says_why_and_is_stopped() {
        let done = (HALPROF_OK, String::new());
        let storm = (HALPROF_FAILED, "interrupt-storm".to_owned());
        let mut halprof = ptr::null_mut();
        let machine = c"skylake".as_ptr();
        // SAFETY: the name ends with a 0, and the pointer may be written.
        let opened = unsafe { halprof_open(HALPROF_ABI, machine, &raw mut halprof) };
        assert_eq!(outcome(opened), done);
        let list = c"TotalIssues:u".as_ptr();
        // SAFETY: it is open, and the list ends with a 0.
        let chosen = unsafe { halprof_choose(halprof, list, c"0".as_ptr()) };
        assert_eq!(outcome(chosen), done);
        let begin = || {
            // SAFETY: it is open.
            let started = unsafe { halprof_sample_start(halprof, 100_000) };
            assert_eq!(outcome(started), done);
            let work = c"instructions=200000,cycles=200000".as_ptr();
            // SAFETY: it is open, and the workload ends with a 0.
            let worked = unsafe { halprof_workload(halprof, work) };
            assert_eq!(outcome(worked), done);
            // SAFETY: it is open.
            unsafe { &*halprof }.storm();
        };
        // What was sampled before is still there.
        begin();
        assert_eq!(taken(halprof), (done.clone(), 1));
        assert_eq!(taken(halprof), (done.clone(), 1));
        assert_eq!(taken(halprof), (storm.clone(), 0));
        assert_eq!(taken(halprof), (storm.clone(), 0));
        assert_eq!(stopped(halprof), storm);
        // It is stopped: it can start again, and a caller that never takes is told by the stop.
        begin();
        assert_eq!(stopped(halprof), storm);
        begin();
        // SAFETY: it is open, and not used again.
        let closed = unsafe { halprof_close(halprof) };
        assert_eq!(outcome(closed), done);
    }
}
