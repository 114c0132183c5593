//! Counter configurations: one counter's work, encoded once, and the counters that run together.

use crate::cpu::capabilities::Capabilities;
use crate::cpu::counter::{Counter, CounterWidth, MAX_COUNTERS};
use crate::cpu::registers::{amd, intel};
use crate::historic::encode::Registers;
use crate::plan::index::SourceIndex;
use crate::source::encode::Encoding;
use core::borrow::Borrow;
use shared_types::ErrorCode;
use zerocopy::FromZeros;

/// Where a source is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub(crate) enum CountedBy {
    /// By nothing: the session has no such source, or this CPU type does not count it.
    #[default]
    None = 0,
    /// On a counter.
    Counter = 1,
    /// By a timer, on no counter.
    Timer = 2,
}

/// One counter's work in one slice.
#[derive(Clone, Copy, Debug, FromZeros)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all are false in zeroed memory"
)]
pub struct CounterConfig {
    /// The value of its select without the bit that starts it; for a fixed counter, its nibble in
    /// its position in IA32_FIXED_CTR_CTRL.
    pub select: u64,
    /// On historic processors: the registers written before the select.
    pub(crate) upstream: Registers,
    /// The select's MSR; 0 for a fixed counter.
    pub select_msr: u32,
    /// The MSR through which the counter's value is written, and by RDMSR read.
    pub write_msr: u32,
    /// ECX for RDPMC.
    pub pmc: u32,
    /// Events between two samples, before any doubling by the throttle; 0 if the source is not
    /// sampled.
    pub period: u32,
    /// `period` is a mean: each period is drawn from a band around it.
    pub(crate) drawn: bool,
    pub counter: Counter,
    pub width: CounterWidth,
    /// It interrupts when it overflows.
    pub interrupts: bool,
    /// It takes the next counter too, as its upper bits.
    pub pair: bool,
    /// It is read by RDMSR: RDPMC does not reach it, or has errata.
    pub(crate) by_msr: bool,
    /// Its reloads are rounded: see [`Errata`](crate::cpu::capabilities::Errata).
    pub(crate) rounds: bool,
    pub(crate) counted_by: CountedBy,
    /// The source: its index in the session.
    pub source: SourceIndex,
    /// The slice, or [`EVERY_SLICE`](shared_types::request::source::Placement::EVERY_SLICE).
    pub slice: u16,
    /// The [`ErrorCode`] if this CPU type does not count the source.
    pub(crate) error: u16,
}

/// A counter in use: its configuration, the value from which it was started, and the last value
/// read. Values have the counter's own width.
#[derive(Clone, Copy, Debug, FromZeros)]
pub struct Active {
    /// The work that it does.
    pub config: CounterConfig,
    /// The value from which it was started.
    pub preset: u64,
    /// The last value that was read, up to which the source's total includes it.
    pub last: u64,
}

/// Counters that run together: those of the slice now running, or of START's self-test.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct ActiveCounters {
    counters: [Active; MAX_COUNTERS],
    count: usize,
    /// Their bits in the layout of the global registers.
    bits: u64,
    /// User mode may read them by RDPMC, if the processor lets it.
    pub(crate) shown: bool,
}

impl CounterConfig {
    /// The configuration of a counter of this processor.
    #[inline]
    pub fn new(capabilities: &Capabilities, counter: Counter, encoding: &Encoding) -> Self {
        let index = u32::from(counter.index());
        let blank = Self {
            upstream: *encoding.upstream.registers(counter),
            write_msr: capabilities.write_msr(counter),
            counter,
            width: capabilities.width_of(counter),
            counted_by: CountedBy::Counter,
            ..Self::new_zeroed()
        };
        if counter.is_fixed() {
            return Self {
                select: encoding.select << fixed_shift(counter),
                pmc: intel::RDPMC_FIXED | index,
                ..blank
            };
        }
        Self {
            select: encoding.select,
            select_msr: capabilities.select_msr(counter),
            by_msr: reads_by_msr(capabilities, counter),
            pmc: index,
            ..blank
        }
    }

    /// The configuration of a source that this CPU type does not count, and why.
    pub(crate) fn refused(error: ErrorCode) -> Self {
        Self { error: error as u16, ..Self::new_zeroed() }
    }

    /// The configuration of a source that a timer counts.
    pub(crate) fn timer() -> Self {
        Self { counted_by: CountedBy::Timer, ..Self::new_zeroed() }
    }

    /// The counter's bit in the global registers.
    pub fn bit(&self) -> u64 {
        self.counter.global_bit()
    }

    /// The bits of all counters that it takes.
    pub(crate) fn bits(&self) -> u64 {
        if self.pair { self.bit() * 0b11 } else { self.bit() }
    }

    /// The mask of its nibble in IA32_FIXED_CTR_CTRL; 0 for a general counter.
    pub fn fixed_control(&self) -> u64 {
        if self.counter.is_fixed() { 0xF << fixed_shift(self.counter) } else { 0 }
    }
}

impl CounterConfig {
    /// The bit that hides the counter from RDPMC in user mode, in its control register; 0 if the
    /// processor has none.
    pub(crate) fn user_disable(&self, capabilities: &Capabilities) -> u64 {
        match (capabilities.user_disable, self.counter.is_fixed()) {
            (false, _) => 0,
            (true, false) => intel::USER_DISABLE,
            (true, true) => intel::FIXED_USER_DISABLE << fixed_shift(self.counter),
        }
    }
}

/// The position of a fixed counter's nibble in IA32_FIXED_CTR_CTRL, which has room for 16.
fn fixed_shift(counter: Counter) -> u32 {
    4 * u32::from(counter.index() % 16)
}

/// Whether the counter is read by RDMSR, because RDPMC does not reach it or has errata.
pub(crate) fn reads_by_msr(capabilities: &Capabilities, counter: Counter) -> bool {
    let amd = capabilities.interface() == shared_types::ProfileInterface::Amd64;
    // RDPMC does not exist before the Pentium MMX, and has errata there.
    let pentium = capabilities.interface() == shared_types::ProfileInterface::Pentium;
    pentium || amd && counter.index() >= amd::RDPMC_CORE_COUNTERS
}

impl Active {
    /// A counter that starts from `preset`.
    pub fn new(config: &CounterConfig, preset: u64) -> Self {
        Self { config: *config, preset, last: preset }
    }

    /// Makes `preset` the value from which it starts.
    #[inline]
    pub fn start_from(&mut self, preset: u64) {
        self.preset = preset;
        self.last = preset;
    }

    /// Returns how many events it has counted since the last value read, and makes `value` the last
    /// value read.
    #[inline]
    pub fn advance(&mut self, value: u64) -> u64 {
        let came = self.config.width.distance(self.last, value);
        self.last = value;
        came
    }

    /// Whether the counter has overflowed: `value` is below its preset (HAL design note,
    /// "CheckOverflowStatus"). P6 and AMD's processors before PerfMonV2 have no other sign. The preset
    /// of a counter that does not interrupt is 0.
    #[inline]
    pub fn overflowed(&self, value: u64) -> bool {
        value < self.preset
    }
}

impl ActiveCounters {
    #[inline]
    pub(crate) fn get(&self) -> &[Active] {
        self.counters.get(..self.count).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut [Active] {
        self.counters.get_mut(..self.count).unwrap_or_default()
    }

    /// Their bits in the layout of the global registers.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    /// Takes out those whose bits are in `bits`; they keep running.
    pub(crate) fn remove(&mut self, bits: u64) {
        let mut kept = 0;
        for index in 0..self.count {
            let Some(&counter) = self.counters.get(index) else { break };
            if counter.config.bit() & bits == 0
                && let Some(place) = self.counters.get_mut(kept)
            {
                *place = counter;
                kept += 1;
            } else {
                self.bits &= !counter.config.bits();
            }
        }
        self.count = kept;
    }

    pub(crate) fn clear(&mut self) {
        (self.count, self.bits) = (0, 0);
    }

    /// Replaces them. Each has its work and the events after which it overflows; if these are 0, it
    /// starts from 0.
    #[inline]
    pub(crate) fn set<S: Borrow<CounterConfig>>(
        &mut self,
        counters: impl Iterator<Item = (S, u64)>,
    ) {
        let (mut count, mut bits) = (0, 0);
        for (counter, (config, events)) in self.counters.iter_mut().zip(counters) {
            let config = config.borrow();
            bits |= config.bits();
            count += 1;
            *counter = Active::new(config, config.width.preset(events));
        }
        (self.count, self.bits) = (count, bits);
    }
}
