//! The one boundary of the core: a processor, and all of them.

use crate::processor::ProcessorState;
use crate::ring::Word;
use crate::session::Program;

/// What CPUID answers: EAX, EBX, ECX, EDX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuidResult {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// One processor, as seen from ring 0 on that processor with interrupts masked.
///
/// There is no error to answer: an MSR that is not there is a #GP, which is a bug check on Windows
/// and a recorded fault on a modelled machine. The core touches only registers that CPUID proves.
pub trait Machine {
    /// CPUID with EAX = `leaf` and ECX = `subleaf`.
    fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidResult;
    /// RDMSR.
    fn read_msr(&mut self, msr: u32) -> u64;
    /// WRMSR.
    fn write_msr(&mut self, msr: u32, value: u64);
    /// RDPMC with ECX = `counter`, in the encoding of the processor's manual.
    fn read_pmc(&mut self, counter: u32) -> u64;
    /// Reads a register of the local APIC's page, in xAPIC mode only.
    fn read_apic(&mut self, offset: u32) -> u32;
    /// Writes a register of the local APIC's page, in xAPIC mode only.
    fn write_apic(&mut self, offset: u32, value: u32);
    /// RDTSC.
    fn timestamp(&mut self) -> u64;
    /// Executes a thousand instructions or more, for a counter to count.
    fn exercise(&mut self);
}

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
    /// Each interrupts, and the host calls [`overflow::interrupt`](crate::overflow::interrupt)
    /// with what was interrupted.
    Interrupt,
    /// Each interrupts, and the host calls [`overflow::callback`](crate::overflow::callback) with
    /// what the HAL found; so many general counters are wanted, from 0 on.
    Callback {
        /// How many.
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

    /// Runs `work` on one processor, there, with interrupts masked (PROFILE_LEVEL on x64), and
    /// waits for it. `None` where there is no such processor.
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

    /// A processor's ring, for its reader; empty where none is lent.
    fn ring(&self, index: usize) -> &[Word];

    /// Lends a zeroed ring of so many words to each processor of `wanted`, all or none; the other
    /// processors keep what they have.
    fn lend_rings(&mut self, wanted: &ProcessorSet, words: usize) -> bool;

    /// Takes the rings back.
    fn return_rings(&mut self);

    /// Hands every processor what it is to run: a copy, which code that runs on a processor reads
    /// as [`Local::program`]. Called only while no processor runs anything.
    fn load(&mut self, program: &Program);

    /// Asks the owner of the counters for them (HalAllocateHardwareCounters), and sees to it that
    /// overflows come through; both or neither.
    fn reserve_counters(&mut self, overflows: Overflows) -> Result<(), Unreserved>;

    /// Ends what [`Self::reserve_counters`] began (HalFreeHardwareCounters).
    fn release_counters(&mut self);

    /// Ticks of the time-stamp counter in a second.
    fn timestamp_frequency(&self) -> u64;

    /// The finest step of the timer that serves ProfileTime, in units of 100 ns; at least 1.
    fn timer_resolution(&self) -> u32;
}

/// A set of processors by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorSet(shared_types::request::session::ProcessorBits);

impl ProcessorSet {
    /// No processor.
    pub const EMPTY: Self = Self([0; 32]);
    /// Every processor there can be.
    pub const ALL: Self = Self([u64::MAX; 32]);

    /// The set that a request names: no bit at all means every processor.
    #[must_use]
    pub fn from_bits(bits: shared_types::request::session::ProcessorBits) -> Self {
        if bits.iter().all(|&word| word == 0) {
            Self::ALL
        } else {
            Self(bits)
        }
    }

    /// One processor.
    #[must_use]
    pub fn one(index: usize) -> Self {
        let mut set = Self::EMPTY;
        if let Some(word) = set.0.get_mut(index / 64) {
            *word = 1 << (index % 64);
        }
        set
    }

    /// Whether `index` is in it.
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        self.0
            .get(index / 64)
            .is_some_and(|word| word >> (index % 64) & 1 != 0)
    }

    /// The first processor of the set that is not below `count`, unless the set is everything.
    #[must_use]
    pub fn first_beyond(&self, count: usize) -> Option<usize> {
        (*self != Self::ALL)
            .then(|| (count..self.0.len() * 64).find(|&index| self.contains(index)))?
    }
}
