//! What a host gives the core: its processors, memory, and ways to run code on each of them.

use crate::machine::Machine;
use crate::processor_set::ProcessorSet;
use crate::program::Program;
use crate::ring::Word;
use crate::state::ProcessorState;
use shared_types::SystemEvent;

/// What code that runs on one processor gets: that processor, what belongs to it alone, and what it
/// is to run.
pub struct Local<'a, M> {
    /// Index over all groups.
    pub index: usize,
    /// The processor.
    pub machine: &'a mut M,
    /// Its state, which nobody else touches.
    pub state: &'a mut ProcessorState,
    /// Its ring's memory, empty where none is lent.
    pub ring: &'a [Word],
    /// What [`Processors::load`] was given last.
    pub program: &'a Program,
}

/// What becomes of overflows while the counters are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflows {
    /// They are not asked for: counters are read before they wrap twice.
    Ignored,
    /// Each interrupts, and the host calls [`Local::interrupt`] with what was interrupted. The whole
    /// PMU is reserved.
    Interrupt,
    /// Each interrupts, and the host calls [`Local::callback`] with what the HAL found.
    Callback {
        /// So many general counters are reserved, from 0 on, and nothing else.
        general: u32,
    },
}

/// Why the counters cannot be had, with the NTSTATUS that said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreserved {
    /// Their owner does not give them.
    Counters(u32),
    /// The interrupt on overflow cannot be handled.
    Interrupt(u32),
}

/// All processors of a machine, and what their host lends the core.
///
/// The host decides how code gets onto another processor: the driver by targeted DPCs, a modelled
/// machine by a call.
pub trait Processors {
    /// One of them.
    type Machine: Machine;

    /// How many there are. Grows when processors are added.
    fn count(&self) -> usize;

    /// Processor group, and number in the group, of a processor.
    fn number(&self, index: usize) -> (u16, u16);

    /// Runs `work` on one processor, there, with interrupts masked (equivalent to PROFILE_LEVEL on
    /// x64), and waits for it. `None` where there is no such processor.
    fn run_on<T: Send>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut Local<'_, Self::Machine>) -> T + Send,
    ) -> Option<T>;

    /// Runs `work` once on each processor of `wanted`, there, with interrupts masked, and waits
    /// for all of them. `slots` is parted evenly among all processors of the machine, in order,
    /// and each gets its own part.
    fn run_on_each<T: Send>(
        &mut self,
        wanted: &ProcessorSet,
        slots: &mut [T],
        work: impl Fn(&mut Local<'_, Self::Machine>, &mut [T]) + Sync,
    );

    /// Runs `before` on each processor of `wanted`, executes `instructions` of them or a few more
    /// there with interrupts let in (DISPATCH_LEVEL), runs `after`, and waits for all of them.
    /// `before` and `after` run with interrupts masked.
    fn exercise(
        &mut self,
        wanted: &ProcessorSet,
        instructions: u32,
        before: impl Fn(&mut Local<'_, Self::Machine>) + Sync,
        after: impl Fn(&mut Local<'_, Self::Machine>) + Sync,
    );

    /// A processor's ring, for its reader; empty where none is lent.
    fn ring(&self, index: usize) -> &[Word];

    /// Lends a zeroed ring of so many words to each processor of `wanted`, all or none; the other
    /// processors keep what they have.
    fn lend_rings(&mut self, wanted: &ProcessorSet, words: usize) -> bool;

    /// Takes the rings back, that of events too.
    fn return_rings(&mut self);

    /// The machine's ring of events, for its reader; empty where none is lent.
    fn event_ring(&self) -> &[Word];

    /// Lends a zeroed ring of events of so many words, in place of one that was lent before.
    fn lend_event_ring(&mut self, words: usize) -> bool;

    /// Puts an event into that ring, where one is lent, under the lock that all producers take.
    fn put_event(&mut self, event: &SystemEvent);

    /// Has Windows tell of every process and image, whose events go into that ring
    /// (PsSetCreateProcessNotifyRoutine, PsSetLoadImageNotifyRoutine). The NTSTATUS where it does
    /// not.
    fn watch(&mut self) -> Result<(), u32>;

    /// Ends what [`Self::watch`] began, and waits until nothing is told any more.
    fn unwatch(&mut self);

    /// Gives every processor its program: a copy, which code that runs on a processor reads as
    /// [`Local::program`]. Called only while no processor runs anything.
    fn load(&mut self, program: &Program);

    /// Asks the owner of the counters for them (HalAllocateHardwareCounters), and sees to it that
    /// overflows come through; both or neither.
    fn reserve_counters(&mut self, overflows: Overflows) -> Result<(), Unreserved>;

    /// Ends what [`Self::reserve_counters`] began (HalFreeHardwareCounters). Once no handler can be
    /// called any more it runs [`Local::unmask`] on every processor, if overflows came to a handler
    /// of ours.
    fn release_counters(&mut self);

    /// Has Windows read these general counters at each context switch and add them up for the
    /// threads that want it (KeSetHardwareCounterConfiguration); they are reserved. The NTSTATUS
    /// where it does not.
    fn register_threads(&mut self, counters: &[u32]) -> Result<(), u32>;

    /// Ends what [`Self::register_threads`] began; refused, with the NTSTATUS, while a thread
    /// profiles itself.
    fn unregister_threads(&mut self) -> Result<(), u32>;

    /// The overflow handler could not be removed: it stays, and the counters with it.
    fn handler_stuck(&self) -> bool;

    /// Ticks of the time-stamp counter in a second.
    fn timestamp_frequency(&self) -> u64;

    /// The finest step of the timer that serves ProfileTime, in units of 100 ns; at least 1.
    fn timer_resolution(&self) -> u32;
}
