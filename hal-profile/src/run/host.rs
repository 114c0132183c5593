//! What a host gives the core: processors, memory, and ways to run code on each processor.

use crate::cpu::machine::Machine;
use crate::plan::cpu_set::ProcessorSet;
use crate::plan::program::Program;
use crate::run::ring::Word;
use crate::run::state::ProcessorState;
use shared_types::{ErrorCode, SystemEvent};

/// What code running on one processor gets: that processor, the data that belongs to it alone, and
/// the program it is to run.
pub struct Local<'a, M> {
    /// Index over all groups.
    pub index: usize,
    pub machine: &'a mut M,
    /// Its state, touched only on this processor.
    pub state: &'a mut ProcessorState,
    /// The memory of its ring; empty if none is attached.
    pub ring: &'a [Word],
    /// The program most recently given to [`Processors::load`].
    pub program: &'a Program,
}

/// How overflows are handled while the counters are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflows {
    /// No interrupts are requested: counters are read before they wrap twice.
    Ignored,
    /// Each overflow interrupts, and the host calls [`Local::interrupt`] with what was interrupted.
    Interrupt,
}

/// Why the counters could not be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreserved {
    /// `CountersReserved`, `InterruptTaken`, `HandlerStuck` or `ThreadsKept`.
    pub error: ErrorCode,
    /// The NTSTATUS that says so.
    pub status: u32,
}

/// All processors of a machine, and the memory that their host provides.
///
/// The host decides how code gets onto another processor: the driver by targeted DPCs, a modelled
/// machine by a call.
pub trait Processors {
    /// One of the processors.
    type Machine: Machine;

    /// The number of processors. It grows when processors are added.
    fn count(&self) -> usize;

    /// The group of a processor and its number within the group.
    fn number(&self, index: usize) -> (u16, u16);

    /// Runs `work` on the given processor with interrupts masked (equivalent to PROFILE_LEVEL on
    /// x64), and waits for it. `None` if there is no such processor.
    fn run_on<T: Send>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Local<'_, Self::Machine>) -> T + Send,
    ) -> Option<T>;

    /// Runs `work` once on each processor of `processors`, with interrupts masked, and waits for
    /// all of them. `slots` is divided evenly among all processors of the machine, in order, and
    /// each gets its own part.
    fn run_on_each<T: Send>(
        &mut self,
        processors: &ProcessorSet,
        slots: &mut [T],
        work: impl Fn(&mut Local<'_, Self::Machine>, &mut [T]) + Sync,
    );

    /// On each processor of `processors`: runs `before`, executes at least `instructions`
    /// instructions (a few more at most) with interrupts enabled (DISPATCH_LEVEL), and runs
    /// `after`. Waits for all of them. `before` and `after` run with interrupts masked.
    fn exercise(
        &mut self,
        processors: &ProcessorSet,
        instructions: u32,
        before: impl Fn(&mut Local<'_, Self::Machine>) + Sync,
        after: impl Fn(&mut Local<'_, Self::Machine>) + Sync,
    );

    /// A processor's ring, for its reader; empty if none is attached.
    fn ring(&self, index: usize) -> &[Word];

    /// Attaches a zeroed ring of `words` words to each processor of `processors`, all or none; the
    /// other processors keep what they have.
    fn attach_rings(&mut self, processors: &ProcessorSet, words: usize) -> bool;

    /// Detaches the rings, including the ring of events. Called only while no processor is running
    /// anything.
    fn detach_rings(&mut self);

    /// The machine's ring of events, for its reader; empty if none is attached.
    fn event_ring(&self) -> &[Word];

    /// Attaches a zeroed ring of events of `words` words, replacing an earlier one. Called only while
    /// no processor is running anything.
    fn attach_event_ring(&mut self, words: usize) -> bool;

    /// Puts an event into that ring, if one is attached, under the lock that all producers take.
    fn put_event(&mut self, event: &SystemEvent);

    /// Gives every processor a copy of `program`, which code on that processor reads as
    /// [`Local::program`]. Called only while no processor is running anything.
    fn load(&mut self, program: &Program);

    /// Reserves all counters (HalAllocateHardwareCounters) and arranges for overflows to be
    /// delivered; both or neither. What Windows did not release before is asked for again.
    fn reserve_counters(&mut self, overflows: Overflows) -> Result<(), Unreserved>;

    /// Undoes [`Self::reserve_counters`] (HalFreeHardwareCounters). If overflows came to halprof's
    /// own handler, runs [`Local::unmask`] on every processor once that handler can no longer be
    /// called.
    ///
    /// What Windows does not let go of, the handler or the counters of threads, stays as it is, and
    /// the counters stay reserved; each further call asks again.
    fn release_counters(&mut self);

    /// Has Windows read these general counters, which are reserved, at each context switch and add
    /// them up for the threads that ask for it (KeSetHardwareCounterConfiguration). On failure, the
    /// NTSTATUS.
    fn register_threads(&mut self, counters: &[u32]) -> Result<(), u32>;

    /// Undoes [`Self::register_threads`], unless a thread is profiling itself.
    fn unregister_threads(&mut self);

    /// Whether the overflow handler could not be removed: it stays installed, and the counters stay
    /// reserved.
    fn handler_stuck(&self) -> bool;

    /// Whether the counters of threads could not be unregistered: Windows still reads them, and
    /// they stay reserved.
    fn threads_kept(&self) -> bool;

    /// Frequency of the time-stamp counter, in ticks per second.
    fn timestamp_frequency(&self) -> u64;

    /// The finest step of the timer that serves ProfileTime, in units of 100 ns; at least 1.
    fn timer_resolution(&self) -> u32;
}
