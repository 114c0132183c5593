//! One logical processor: CPUID, registers, local APIC and performance-monitoring unit.

use crate::amd::Amd;
use crate::apic::Apic;
use crate::architectural::Architectural;
use crate::cpuid::Leaves;
use crate::event::Counts;
use crate::fault::Fault;
use crate::signature::Signature;
use crate::unit::{Unit, Watch};
use hal_profile::machine::CpuidResult;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const IA32_TIME_STAMP_COUNTER: u32 = 0x10;
/// Windows' performance interrupt: the vector of PROFILE_LEVEL, fixed delivery, not masked.
const WINDOWS_LVTPC: u32 = 0xFE;

/// How often software touched this processor's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// RDMSR.
    pub rdmsr: u64,
    /// WRMSR.
    pub wrmsr: u64,
    /// RDPMC.
    pub rdpmc: u64,
    /// Reads and writes of the local APIC's page.
    pub apic: u64,
}

/// A unit with the interrupts that it has asked for and a thread has not yet taken notice of.
pub(crate) struct Package {
    unit: Box<dyn Unit>,
    /// One bit for each thread.
    requests: u8,
}

impl Package {
    pub(crate) fn new(unit: Box<dyn Unit>) -> Self {
        Self { unit, requests: 0 }
    }
}

/// One logical processor, built from its CPUID leaves.
///
/// Whatever silicon refuses is a [`Fault`]; a refused access counts as an access and changes
/// nothing.
pub struct Processor {
    leaves: Leaves,
    apic: Apic,
    package: Option<Arc<Mutex<Package>>>,
    thread: usize,
    counts: Counts,
    timestamp: u64,
    accesses: Accesses,
}

impl Processor {
    /// A processor after power-on, with the unit that its leaves declare.
    #[must_use]
    pub fn new(leaves: Leaves) -> Self {
        let package = select_unit(&leaves).map(|unit| Arc::new(Mutex::new(Package::new(unit))));
        Self::with_unit(leaves, package, 0)
    }

    /// A processor after power-on that is thread `thread` of a unit which others may share.
    pub(crate) fn with_unit(
        leaves: Leaves,
        package: Option<Arc<Mutex<Package>>>,
        thread: usize,
    ) -> Self {
        Self {
            apic: Apic::new(&leaves),
            leaves,
            package,
            thread,
            counts: Counts::default(),
            timestamp: 0,
            accesses: Accesses::default(),
        }
    }

    /// CPUID. Leaf 1 shows the local APIC only while IA32_APIC_BASE enables it.
    #[must_use]
    pub fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        let mut result = self.leaves.get(leaf, subleaf);
        if leaf == 1 && !self.apic.is_enabled() {
            result.edx &= !(1 << 9);
        }
        result
    }

    /// RDMSR.
    pub fn rdmsr(&mut self, msr: u32) -> Result<u64, Fault> {
        self.accesses.rdmsr += 1;
        self.require_msrs()?;
        if msr == IA32_TIME_STAMP_COUNTER && self.has_timestamp() {
            return Ok(self.timestamp);
        }
        self.take_requests();
        let thread = self.thread;
        self.apic
            .read_msr(msr)
            .or_else(|| self.package()?.unit.read_msr(thread, msr))
            .unwrap_or(Err(Fault::ReadMsr { msr }))
    }

    /// WRMSR. What it changes holds for what is retired from now on.
    pub fn wrmsr(&mut self, msr: u32, value: u64) -> Result<(), Fault> {
        self.accesses.wrmsr += 1;
        self.require_msrs()?;
        if msr == IA32_TIME_STAMP_COUNTER && self.has_timestamp() {
            self.timestamp = value;
            return Ok(());
        }
        self.take_requests();
        let result = match self.apic.write_msr(msr, value) {
            Some(result) => result,
            None => self.write_unit(msr, value),
        };
        self.take_asserted();
        result
    }

    /// RDPMC, with the counter as ECX has it.
    pub fn rdpmc(&mut self, counter: u32) -> Result<u64, Fault> {
        self.accesses.rdpmc += 1;
        self.require_msrs()?;
        let thread = self.thread;
        match self.package() {
            Some(mut package) => package.unit.read_pmc(thread, counter),
            None => Err(Fault::ReadPmc { counter }),
        }
    }

    /// Reads a register of the local APIC's page.
    pub fn read_apic(&mut self, offset: u32) -> Result<u32, Fault> {
        self.accesses.apic += 1;
        self.take_requests();
        self.apic.read_page(offset)
    }

    /// Writes a register of the local APIC's page.
    pub fn write_apic(&mut self, offset: u32, value: u32) -> Result<(), Fault> {
        self.accesses.apic += 1;
        self.take_requests();
        let result = self.apic.write_page(offset, value);
        self.take_asserted();
        result
    }

    /// RDTSC.
    #[must_use]
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// Sets the time-stamp counter: time has passed.
    pub fn set_timestamp(&mut self, timestamp: u64) {
        self.timestamp = timestamp;
    }

    /// All that has happened here since the model was built.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Events happen: `counts` is all that has happened by then, not less than before. Counters
    /// add it up, and overflows raise their interrupts, here or on the thread that they name.
    pub fn retire(&mut self, counts: Counts) {
        self.counts = counts;
        let thread = self.thread;
        if let Some(mut package) = self.package() {
            let requests = package.unit.count(thread, &counts);
            package.requests |= requests;
        }
        self.take_requests();
    }

    /// Calls `visit` for each counter of this processor that will ask for an interrupt.
    pub fn watches(&self, mut visit: impl FnMut(Watch)) {
        if let Some(package) = self.package() {
            package.unit.watches(self.thread, &mut visit);
        }
    }

    /// The vector of the performance interrupt that waits, 2 for an NMI.
    pub fn interrupt_pending(&mut self) -> Option<u8> {
        self.take_requests();
        self.apic.pending()
    }

    /// Takes the performance interrupt that waits.
    pub fn acknowledge_interrupt(&mut self) -> Option<u8> {
        self.take_requests();
        self.apic.acknowledge()
    }

    /// The width of the general counters in bits; 0 where there are none.
    #[must_use]
    pub fn counter_width(&self) -> u32 {
        self.package()
            .map_or(0, |package| package.unit.counter_width())
    }

    /// How often software touched registers since the last [`Self::reset_accesses`].
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        self.accesses
    }

    /// Begins to count accesses anew.
    pub fn reset_accesses(&mut self) {
        self.accesses = Accesses::default();
    }

    /// Leaves the registers as Windows' start does: LVTPC sends the profile interrupt.
    pub fn boot_windows(&mut self) {
        self.apic.preset_lvtpc(WINDOWS_LVTPC);
    }

    /// Reset, warm or cold: of the registers, of the time-stamp counter, and of the whole unit,
    /// sibling's part included.
    pub fn reset(&mut self) {
        if let Some(mut package) = self.package() {
            package.unit.reset();
            package.requests = 0;
        }
        self.apic.reset();
        self.timestamp = 0;
    }

    /// Makes a bit stuck at 0 in every counter: a broken processor, to show that a test sees it.
    pub fn break_counter_bit(&mut self, bit: u32) {
        if let Some(mut package) = self.package() {
            package
                .unit
                .each_counter(&mut |counter| counter.break_bit(bit));
        }
    }

    fn package(&self) -> Option<MutexGuard<'_, Package>> {
        let package = self.package.as_ref()?;
        Some(package.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write_unit(&self, msr: u32, value: u64) -> Result<(), Fault> {
        let refused = Err(Fault::WriteMsr { msr, value });
        let Some(mut package) = self.package() else {
            return refused;
        };
        package
            .unit
            .write_msr(self.thread, msr, value, &self.counts)
            .unwrap_or(refused)
    }

    /// Sends what the unit has asked of this thread through LVTPC.
    fn take_requests(&mut self) {
        let own = 1 << self.thread;
        let Some(mut package) = self.package() else {
            return;
        };
        let requested = package.requests & own != 0;
        package.requests &= !own;
        let masks = package.unit.masks_on_delivery();
        drop(package);
        if requested {
            self.apic.deliver(masks);
        }
    }

    /// A line still held active is seen again as soon as LVTPC is not masked.
    fn take_asserted(&mut self) {
        if !self.apic.accepts() {
            return;
        }
        let own = 1 << self.thread;
        if let Some(mut package) = self.package() {
            let asserted = package.unit.asserted();
            package.requests |= asserted & own;
        }
        self.take_requests();
    }

    /// CPUID.1:EDX[5]: without it RDMSR and its kin are invalid opcodes.
    fn require_msrs(&self) -> Result<(), Fault> {
        match self.leaves.get(1, 0).edx >> 5 & 1 {
            1 => Ok(()),
            _ => Err(Fault::InvalidOpcode),
        }
    }

    fn has_timestamp(&self) -> bool {
        self.leaves.get(1, 0).edx >> 4 & 1 == 1
    }
}

/// The unit of a processor that does not share one: by vendor, then by what it declares, then by
/// family.
fn select_unit(leaves: &Leaves) -> Option<Box<dyn Unit>> {
    let Signature { vendor, family, .. } = Signature::of(leaves);
    match (&vendor, family) {
        (b"AuthenticAMD" | b"HygonGenuine", _) => Amd::new(leaves).map(boxed),
        (b"GenuineIntel", _) => match (Architectural::new(leaves), family) {
            (Some(unit), _) => Some(boxed(unit)),
            (None, _) => None,
        },
        _ => None,
    }
}

fn boxed(unit: impl Unit + 'static) -> Box<dyn Unit> {
    Box::new(unit)
}

#[cfg(test)]
mod tests;
