//! What a thread has counted so far, for programs that read and subtract.

use crate::errors::answer;
use crate::failure::{Failure, usage};
use crate::owner::Owner;
use crate::text::{borrowed, lent, lent_mut, optional, slice};
use crate::{HALPROF_BEST, check_version, copy, number_of};
use halprof_measure::regions::ThreadCounts;
use std::ffi::c_char;
use std::ptr;

/// What one thread counts, for that thread to read.
pub struct HalprofCounts {
    counts: ThreadCounts,
    owner: Owner,
}

impl HalprofCounts {
    /// Refuses every thread but its own, whose counters it reads.
    fn own(&self) -> Result<&ThreadCounts, Failure> {
        if self.owner == Owner::here() {
            return Ok(&self.counts);
        }
        let hint = "Each thread calls halprof_counts_open for itself.";
        Err(usage("these are the counts of another thread", hint))
    }
}

/// Opens a list of events such as "TotalCycles:u,TotalIssues:u" for the calling thread; `machine` is
/// as for `halprof_open`. It fails if the counts of a thread alone cannot be read. To open a list
/// that the process counts already costs little, and disturbs nothing.
///
/// # Safety
/// `machine` is NULL or ends with a 0, as `events` does; `*opened` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_counts_open(
    abi: u32,
    machine: *const c_char,
    events: *const c_char,
    opened: *mut *mut HalprofCounts,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let opened = unsafe { lent_mut(opened) }?;
        *opened = ptr::null_mut();
        check_version(abi)?;
        // SAFETY: the caller promises it.
        let machine = unsafe { optional(machine) }?;
        // SAFETY: the caller promises it.
        let counts = ThreadCounts::open(machine, unsafe { borrowed(events) }?)?;
        *opened = Box::into_raw(Box::new(HalprofCounts { counts, owner: Owner::here() }));
        Ok(())
    })
}

/// What the thread has counted so far, from an arbitrary start: subtract two readings. There is one
/// number for each event and, if there is room, one that is how often counts were missed, because
/// the thread was switched under RDPMC or the machine slept. Do not subtract readings in which that
/// one differs.
///
/// # Safety
/// `counts` is from `halprof_counts_open`; `values` is valid for writes of `length` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_counts_read(
    counts: *const HalprofCounts,
    values: *mut u64,
    length: usize,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let counted = unsafe { lent(counts) }?.own()?.read()?;
        // SAFETY: the caller promises it.
        let values = unsafe { slice(values, length) }?;
        copy(values, counted.values());
        if let Some(gaps) = values.get_mut(counted.values().len()) {
            *gaps = counted.gaps();
        }
        Ok(())
    })
}

/// What a reading itself adds to each count: the least by which two differ, one right after the
/// other.
///
/// # Safety
/// As for `halprof_counts_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_counts_cost(
    counts: *const HalprofCounts,
    values: *mut u64,
    length: usize,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let cost = unsafe { lent(counts) }?.own()?.cost();
        // SAFETY: the caller promises it.
        copy(unsafe { slice(values, length) }?, cost.values());
        Ok(())
    })
}

/// The spread of empty regions, for each count. Under `HALPROF_TRACING` a count below 20 spreads says
/// little. The median of those regions is subtracted from each reading already, so that
/// `halprof_counts_cost` is 0.
///
/// # Safety
/// As for `halprof_counts_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_counts_spread(
    counts: *const HalprofCounts,
    values: *mut u64,
    length: usize,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let spread = unsafe { lent(counts) }?.own()?.spread();
        // SAFETY: the caller promises it.
        copy(unsafe { slice(values, length) }?, spread.values());
        Ok(())
    })
}

/// 1 if the machine is a model, otherwise 0.
///
/// # Safety
/// `counts` is NULL or from `halprof_counts_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_counts_modelled(counts: *const HalprofCounts) -> i32 {
    // SAFETY: the caller promises it.
    let lent = unsafe { lent(counts) };
    lent.map_or(0, |counts| i32::from(counts.counts.modelled()))
}

/// The method in use, as for `halprof_start`; `HALPROF_PROCESSORS` only on a modelled machine, which
/// runs no threads. Under `HALPROF_TRACING` each reading makes two waits of at least a millisecond, so
/// read before and after a batch, not around each call. 0 if `counts` is NULL.
///
/// # Safety
/// `counts` is NULL or from `halprof_counts_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_counts_method(counts: *const HalprofCounts) -> u32 {
    // SAFETY: the caller promises it.
    let lent = unsafe { lent(counts) };
    lent.map_or(HALPROF_BEST, |counts| number_of(counts.counts.method()))
}

/// Runs a workload to its end on a modelled machine, as `halprof_workload` does.
///
/// # Safety
/// `counts` is from `halprof_counts_open`; `workload` ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_counts_workload(
    counts: *const HalprofCounts,
    workload: *const c_char,
) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        let workload = unsafe { borrowed(workload) }?;
        // SAFETY: the caller promises it.
        let counts = unsafe { lent(counts) }?.own()?;
        Ok(counts.with_machine(|machine| machine.run(workload))?)
    })
}

/// Closes it. The process stops counting the events when all that opened them are closed.
///
/// # Safety
/// `counts` is from `halprof_counts_open`, and if this succeeds is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn halprof_counts_close(counts: *mut HalprofCounts) -> i32 {
    answer(|| {
        // SAFETY: the caller promises it.
        unsafe { lent(counts) }?.own()?;
        // SAFETY: it came from a `Box`, and the caller gives it back.
        drop(unsafe { Box::from_raw(counts) });
        Ok(())
    })
}
