//! One logical processor: CPUID, registers, local APIC and performance-monitoring unit.

use crate::cpu::apic::Apic;
use crate::cpu::cpuid::Leaves;
use crate::cpu::delivery::Delivery;
use crate::cpu::event::{Code, Counts};
use crate::cpu::fault::Fault;
use crate::cpu::lbr::{FREEZE_LBRS_ON_PMI, Taken};
use crate::cpu::signature::Signature;
use crate::cpu::unit::{Unit, Watch};
use crate::historic::netburst::NetBurst;
use crate::historic::p6::P6;
use crate::historic::pentium::Pentium;
use crate::quirks::{FOREIGN_STATUS, Quirk, Quirks, STORM_STATUS};
use crate::units::amd::Amd;
use crate::units::intel::Architectural;
use hal_profile::cpu::machine::CpuidResult;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const IA32_TIME_STAMP_COUNTER: u32 = 0x10;
/// CR4 while Windows runs: SMAP, SMEP, OSXSAVE, FSGSBASE, OSXMMEXCPT, OSFXSR, PGE, MCE, PAE, PSE
/// and DE. PCE is clear.
const WINDOWS_CR4: u64 = 0x0035_06F8;
const CR4_PCE: u64 = 1 << 8;
/// Windows' performance interrupt: the vector of PROFILE_LEVEL, fixed delivery, not masked.
const WINDOWS_LVTPC: u32 = 0xFE;

/// LVTPC's mask bit.
const LVTPC_MASK: u32 = 1 << 16;
/// LVTPC: delivery mode NMI.
const LVTPC_NMI: u32 = 0b100 << 8;
const NMI: u8 = 2;

/// What a quirk leaves in a register before a session: these bits cleared, then those set.
struct InitialValue {
    quirk: Quirk,
    msr: u32,
    cleared: u64,
    set: u64,
}

const fn initial(quirk: Quirk, msr: u32, cleared: u64, set: u64) -> InitialValue {
    InitialValue { quirk, msr, cleared, set }
}

/// A select that counts instructions retired in all modes without interrupts: EN, OS, USR, 0xC0.
const INSTRUCTIONS: u64 = 0x43_00C0;

/// A counter of 48 bits that overflows after 10,000 events.
const NEAR_OVERFLOW: u64 = (1 << 48) - 10_000;

/// IA32_PERF_GLOBAL_CTRL and PerfCntrGlobalCtl, IA32_DEBUGCTL's FREEZE_PERFMON_ON_PMI (AMD's has
/// the same number), PERFEVTSEL0 of Intel and of AMD, IA32_FIXED_CTR_CTRL, IA32_FIXED_CTR1; the
/// enable bits of branch recording in IA32_DEBUGCTL, IA32_LBR_CTL and DBG_EXTN_CFG; IA32_PEBS_ENABLE;
/// the reload masks IA32_PMC_GP3_CFG_B and IA32_PMC_FX1_CFG_B.
const INITIAL_VALUES: [InitialValue; 21] = [
    initial(Quirk::ClearedGlobal, 0x38F, u64::MAX, 0),
    initial(Quirk::ClearedGlobal, 0xC000_0301, u64::MAX, 0),
    initial(Quirk::Frozen, 0x1D9, 0, 1 << 12),
    initial(Quirk::CountersOn, 0x186, u64::MAX, INSTRUCTIONS),
    initial(Quirk::CountersOn, 0xC001_0000, u64::MAX, INSTRUCTIONS),
    initial(Quirk::FixedTaken, 0x38D, 0xFF, 0x33),
    initial(Quirk::FixedTaken, 0x38F, 0, 0b11 << 32),
    initial(Quirk::FixedInterrupts, 0x30A, u64::MAX, NEAR_OVERFLOW),
    initial(Quirk::FixedInterrupts, 0x38D, 0xF0, 0xB0),
    initial(Quirk::FixedInterrupts, 0x38F, 0, 1 << 33),
    initial(Quirk::BranchesOn, 0x1D9, 0, 1),
    initial(Quirk::BranchesOn, 0x14CE, 0, 0x007F_0007),
    initial(Quirk::BranchesOn, 0xC000_010F, 0, 1 << 6),
    initial(Quirk::BranchesLeft, 0x1D9, 1 << 11, 1),
    initial(Quirk::BranchesLeft, 0x14CE, 0, 0x007F_0007),
    initial(Quirk::BranchesLeft, 0xC000_010F, 0, 1 << 6),
    initial(Quirk::PebsLeft, 0x3F1, 0, 1),
    initial(Quirk::AdaptiveLeft, 0x3F1, 0, 1 << 32),
    initial(Quirk::AdaptiveLeft, 0x38D, 0, 1 << 32),
    initial(Quirk::ReloadLeft, 0x1902 + 4 * 3, 0, 1 << 2),
    initial(Quirk::ReloadLeft, 0x1982 + 4, 0, 1 << 32),
];

/// How often software accessed this processor's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    pub rdmsr: u64,
    pub wrmsr: u64,
    pub rdpmc: u64,
    /// Reads and writes of the local APIC's page.
    pub apic: u64,
}

/// A unit, with the interrupts that it has requested and that a thread has not yet noticed.
///
/// Each of its threads counts up to the present whenever anything happens on it, so that a register
/// write by one takes nothing away from the other.
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
    cr4: u64,
    guards_pce: bool,
    accesses: Accesses,
    delivery: Delivery,
    /// NMIs that the unit has sent.
    nmis: u64,
}

impl Processor {
    /// A processor after power-on, with the unit that its leaves declare. It shares the unit with
    /// no other: see [`processors`](crate::cpu::topology::processors).
    pub fn new(leaves: Leaves) -> Self {
        let mut unit = select_unit(&leaves);
        if leaves.quirks().has(Quirk::LateStop)
            && let Some(unit) = &mut unit
        {
            unit.stop_late();
        }
        Self::with_unit(leaves, unit)
    }

    fn with_unit(leaves: Leaves, unit: Option<Box<dyn Unit>>) -> Self {
        let delivery = Delivery::new(leaves.quirks(), leaves.apic_id());
        let threads = unit.as_ref().map_or(1, |unit| unit.threads() as u32);
        Self {
            apic: Apic::new(&leaves),
            // The lowest bit of the APIC id says which of a package's two threads it is.
            thread: (leaves.apic_id() % threads) as usize,
            leaves,
            package: unit.map(|unit| Arc::new(Mutex::new(Package::new(unit)))),
            counts: Counts::default(),
            timestamp: 0,
            cr4: WINDOWS_CR4,
            guards_pce: false,
            accesses: Accesses::default(),
            delivery,
            nmis: 0,
        }
    }

    /// The same processor on its sibling's unit.
    pub(crate) fn on(self, package: Arc<Mutex<Package>>) -> Self {
        Self { package: Some(package), ..self }
    }

    /// The unit, if several threads share it.
    pub(crate) fn shared_package(&self) -> Option<Arc<Mutex<Package>>> {
        let shared = self.package()?.unit.threads() > 1;
        self.package.clone().filter(|_| shared)
    }

    /// CPUID. Leaf 1 shows the local APIC only while IA32_APIC_BASE enables it.
    pub fn cpuid(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        let mut result = self.leaves.get(leaf, subleaf);
        if leaf == 1 && !self.apic.is_enabled() {
            result.edx &= !(1 << 9);
        }
        result
    }

    pub const fn cr4(&self) -> u64 {
        self.cr4
    }

    /// MOV to CR4.
    pub fn set_cr4(&mut self, value: u64) {
        self.cr4 = if self.guards_pce { value & !CR4_PCE } else { value };
    }

    /// Someone keeps CR4.PCE clear from now on, whatever is written.
    pub fn guard_pce(&mut self) {
        self.guards_pce = true;
    }

    pub fn rdmsr(&mut self, msr: u32) -> Result<u64, Fault> {
        self.accesses.rdmsr += 1;
        self.require_msrs()?;
        // The quirk comes first: a hypervisor refuses the access, whatever the processor has.
        if self.quirks().hides_from_read(msr) {
            return Err(Fault::ReadMsr { msr });
        }
        if msr == IA32_TIME_STAMP_COUNTER && self.has_timestamp() {
            return Ok(self.timestamp);
        }
        // The other thread's events may have interrupted this one, and LVTPC must then read as
        // masked.
        self.take_requests();
        self.apic
            .read_msr(msr)
            .or_else(|| self.on_unit(|unit| self.read_unit(unit, msr))?)
            .ok_or(Fault::ReadMsr { msr })
    }

    /// WRMSR. The change applies to what retires from now on.
    pub fn wrmsr(&mut self, msr: u32, value: u64) -> Result<(), Fault> {
        self.accesses.wrmsr += 1;
        self.require_msrs()?;
        if self.quirks().hides_from_write(msr) {
            return Err(Fault::WriteMsr { msr, value });
        }
        if msr == IA32_TIME_STAMP_COUNTER && self.has_timestamp() {
            self.timestamp = value;
            return Ok(());
        }
        self.take_requests();
        // The state before the write counts: only a write that unmasks LVTPC raises an interrupt
        // again.
        let accepted = self.apic.accepts();
        let written = self.apic.write_msr(msr, value) || self.write_unit(msr, value);
        self.take_asserted();
        self.raise_again(accepted);
        written.then_some(()).ok_or(Fault::WriteMsr { msr, value })
    }

    /// RDPMC, with the counter as in ECX.
    pub fn rdpmc(&mut self, counter: u32) -> Result<u64, Fault> {
        self.accesses.rdpmc += 1;
        self.require_msrs()?;
        if self.quirks().has(Quirk::RefusedPmc) {
            return Err(Fault::ReadPmc { counter });
        }
        let read = self.on_unit(|unit| unit.read_pmc(self.thread, counter));
        read.unwrap_or(Err(Fault::ReadPmc { counter }))
    }

    /// RDPMC at CPL 3: refused unless CR4.PCE is set, and 0 from a counter that is hidden (RDPMC user
    /// disable).
    pub fn rdpmc_in_user_mode(&mut self, counter: u32) -> Result<u64, Fault> {
        if self.cr4 & CR4_PCE == 0 {
            return Err(Fault::ReadPmc { counter });
        }
        // A counter that does not exist faults, hidden or not.
        let value = self.rdpmc(counter)?;
        let hides = self.on_unit(|unit| unit.hides(counter)).unwrap_or(false);
        Ok(if hides { 0 } else { value })
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
        let accepted = self.apic.accepts();
        let result = self.apic.write_page(offset, value);
        self.take_asserted();
        self.raise_again(accepted);
        result
    }

    /// RDTSC.
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// Sets the time-stamp counter: time has passed.
    pub fn set_timestamp(&mut self, timestamp: u64) {
        self.timestamp = timestamp;
    }

    /// All that has happened here since the model was built, or since [`Self::begin_anew`].
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Events happen: `counts` is all that has happened so far, never less than before. Counters
    /// add it up, and overflows raise their interrupts, on this thread or on the one that they
    /// name.
    pub fn retire(&mut self, counts: Counts) {
        self.counts = counts;
        let thread = self.thread;
        let counted = self.counted();
        // The overflow is looked for before the unit counts: afterwards the counter is past the
        // wrap and counts towards the next.
        let overflow = self.overflow(&counted);
        if let Some(mut package) = self.package() {
            let requests = package.unit.count(thread, &counted);
            package.requests |= requests;
        }
        self.take_requests_of(overflow);
        if self.delivery.arrives(|watch| watch.feed.amount(&counts)) {
            self.deliver();
        }
    }

    /// What its counters have counted leaks into those of the core's other thread, if it has
    /// [`Quirk::ThreadLeak`].
    pub fn leak_into(&mut self, other: &mut Self) {
        let leaked = self.on_unit(|unit| unit.take_leaked()).unwrap_or_default();
        let (thread, counted) = (other.thread, other.counted());
        if let Some(mut package) = other.package().filter(|_| !leaked.is_empty()) {
            let requests = package.unit.leak(thread, &leaked, &counted);
            package.requests |= requests;
        }
        other.take_requests_of(None);
    }

    /// Whether taken branches are being recorded.
    pub fn records_branches(&self) -> bool {
        self.on_unit(|unit| unit.recording().is_some_and(|one| one.is_on())).unwrap_or(false)
    }

    /// A branch is taken. It is recorded before its events are counted, so that the overflow that
    /// it causes finds it among the records.
    pub fn branch(&mut self, taken: &Taken) {
        self.on_unit(|unit| unit.recording().into_iter().for_each(|mut one| one.branch(taken)));
    }

    /// The counts that its counters see of all that has happened.
    fn counted(&self) -> Counts {
        if self.quirks().has(Quirk::DeadCounters) { Counts::default() } else { self.counts }
    }

    /// In which ways it misbehaves.
    pub fn quirks(&self) -> Quirks {
        self.leaves.quirks()
    }

    /// The overflow that has happened by then; if several, the one whose counter was preset
    /// furthest from it. Looked for only on processors with quirks, because only their interrupts
    /// depend on it and the search costs time in every step.
    fn overflow(&self, counted: &Counts) -> Option<Watch> {
        let mut found: Option<Watch> = None;
        if !self.quirks().is_empty() {
            self.watches_of_unit(&mut |watch| {
                let overflows = watch.feed.amount(counted) >= watch.at;
                if overflows && found.is_none_or(|other| other.span < watch.span) {
                    found = Some(watch);
                }
            });
        }
        found
    }

    /// Starts all counts from 0 again. Counters keep their values.
    pub fn begin_anew(&mut self) {
        self.count_from(&Counts::default());
    }

    /// From now on, these selects and fixed counters count what a workload names.
    pub fn name_events(&mut self, codes: &[Code]) {
        let counted = self.counted();
        self.on_unit(|unit| unit.name_events(codes, &counted));
    }

    /// These events happen in addition to all that is counted with [`Self::retire`].
    pub fn exercise(&mut self, events: Counts) {
        // Counters add differences: the workload's counts are set aside and put back.
        let before = self.counts;
        self.begin_anew();
        self.retire(events);
        self.count_from(&before);
    }

    fn count_from(&mut self, now: &Counts) {
        let before = self.counts;
        self.delivery
            .count_from(|watch| watch.feed.amount(&before), |watch| watch.feed.amount(now));
        self.counts = *now;
        let thread = self.thread;
        let counted = self.counted();
        self.on_unit(|unit| unit.count_from(thread, &counted));
    }

    /// The core that it is a thread of; `None` without leaf 0x0B (SDM vol. 2A, "CPUID", leaf 0BH: EAX
    /// says how many bits of the APIC id in EDX are the thread's).
    pub fn core(&self) -> Option<u32> {
        let leaf = self.cpuid(0xB, 0);
        (self.cpuid(0, 0).eax >= 0xB && leaf.ebx > 1).then(|| leaf.edx >> (leaf.eax & 0x1F))
    }

    /// Whether both are threads of one package that share a unit, so that an event on one can
    /// interrupt the other.
    pub fn shares_unit_with(&self, other: &Self) -> bool {
        match (&self.package, &other.package) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            _ => false,
        }
    }

    /// Calls `visit` for each counter of this processor that will request an interrupt, and for an
    /// interrupt that is under way.
    pub fn watches(&self, mut visit: impl FnMut(Watch)) {
        if !self.quirks().has(Quirk::DeadCounters) {
            self.watches_of_unit(&mut visit);
        }
        self.delivery.under_way().into_iter().for_each(visit);
    }

    fn watches_of_unit(&self, visit: &mut dyn FnMut(Watch)) {
        self.on_unit(|unit| unit.watches(self.thread, visit));
    }

    /// The vector of the pending performance interrupt; 2 for an NMI.
    pub fn interrupt_pending(&mut self) -> Option<u8> {
        self.take_requests();
        self.apic.pending()
    }

    /// Takes the pending performance interrupt.
    pub fn acknowledge_interrupt(&mut self) -> Option<u8> {
        self.take_requests();
        let vector = self.apic.acknowledge();
        self.nmis += u64::from(vector == Some(NMI));
        vector
    }

    /// How many interrupts were NMIs that nobody claims, each of which would have ended Windows (bug
    /// check 0x80). Somebody who samples and has asked for NMIs claims them.
    pub fn unclaimed_nmis(&self) -> u64 {
        if self.quirks().has(Quirk::FixedInterrupts) { 0 } else { self.nmis }
    }

    /// The width of the general counters in bits; 0 if there are none.
    pub fn counter_width(&self) -> u32 {
        self.on_unit(|unit| unit.counter_width()).unwrap_or(0)
    }

    /// How often software touched registers since the last [`Self::reset_accesses`].
    pub fn accesses(&self) -> Accesses {
        self.accesses
    }

    /// Looks at registers without being noticed: accesses by `look` are not counted.
    pub fn unobserved<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let accesses = self.accesses;
        let seen = look(self);
        self.accesses = accesses;
        seen
    }

    /// Windows has handled an interrupt of its own sampling: it has unmasked LVTPC and ended the freeze
    /// that came with it, where overflows freeze.
    pub fn handled_by_windows(&mut self) {
        const GLOBAL_STATUS_RESET: u32 = 0x390;
        const CTR_FRZ: u64 = 1 << 59;
        self.apic.preset_lvtpc(self.windows_lvtpc());
        // Processors before version 4 refuse the write: they have no such bit.
        let _ = self.unobserved(|processor| processor.wrmsr(GLOBAL_STATUS_RESET, CTR_FRZ));
    }

    pub fn reset_accesses(&mut self) {
        self.accesses = Accesses::default();
    }

    /// Leaves the registers as Windows does after booting: LVTPC sends the profile interrupt. The
    /// local APIC stays in xAPIC mode unless an id of the machine needs more than 8 bits.
    pub fn boot_windows(&mut self) {
        if self.apic.needs_x2apic() {
            self.apic.enter_x2apic();
        }
        self.apic.preset_lvtpc(self.windows_lvtpc());
        self.leave_as_found();
    }

    /// LVTPC while Windows runs, not masked.
    fn windows_lvtpc(&self) -> u32 {
        let nmi = self.quirks().has(Quirk::NmiLvtpc);
        if nmi { WINDOWS_LVTPC | LVTPC_NMI } else { WINDOWS_LVTPC }
    }

    /// Whether its id, or another of its machine, does not fit xAPIC mode.
    pub(crate) fn needs_x2apic(&self) -> bool {
        self.apic.needs_x2apic()
    }

    /// It is in a machine with such an id.
    pub(crate) fn require_x2apic(&mut self) {
        self.apic.require_x2apic();
    }

    /// Leaves registers in the state that a processor's quirks describe, as firmware or
    /// an earlier user would have. Registers that the processor lacks are skipped.
    fn leave_as_found(&mut self) {
        let quirks = self.quirks();
        for row in INITIAL_VALUES.iter().filter(|row| quirks.has(row.quirk)) {
            self.unobserved(|processor| {
                if let Ok(value) = processor.rdmsr(row.msr) {
                    let value = value & !row.cleared | row.set;
                    // A bit that this processor lacks stays clear.
                    let _ = processor.wrmsr(row.msr, value);
                }
            });
        }
        if quirks.has(Quirk::Masked) {
            self.apic.preset_lvtpc(self.windows_lvtpc() | LVTPC_MASK);
        }
        if quirks.has(Quirk::StaleStatus) {
            self.on_unit(|unit| unit.set_status(unit.counter_status()));
        }
        if quirks.has(Quirk::ForeignStatus) {
            self.show_status(FOREIGN_STATUS);
        }
    }

    /// As [`Self::boot_windows`], with the local APIC in x2APIC mode whatever its id; returns
    /// whether that mode exists (CPUID.1:ECX\[21\]).
    pub fn boot_x2apic(&mut self) -> bool {
        self.boot_windows();
        self.apic.enter_x2apic()
    }

    /// Resets the registers, the time-stamp counter and the whole unit, the sibling's part
    /// included. Warm and cold reset are the same here.
    pub fn reset(&mut self) {
        if let Some(mut package) = self.package() {
            package.unit.reset();
            package.requests = 0;
        }
        self.apic.reset();
        self.delivery.reset();
        self.timestamp = 0;
        // Windows has set CR4 before any driver runs.
        self.cr4 = WINDOWS_CR4;
    }

    /// Its global status register shows these bits too; without the register nothing happens.
    pub fn show_status(&mut self, bits: u64) {
        self.on_unit(|unit| unit.set_status(bits));
    }

    /// Makes a bit stuck at 0 in every counter: a broken processor, to show that a test notices it.
    pub fn break_counter_bit(&mut self, bit: u32) {
        self.on_unit(|unit| unit.break_counter_bit(bit));
    }

    /// Gives NetBurst an erratum: overflows interrupt but do not set OVF. Other processors do not
    /// change.
    pub fn unflag_overflows(&mut self) {
        self.on_unit(|unit| unit.unflag_overflows());
    }

    fn package(&self) -> Option<MutexGuard<'_, Package>> {
        let package = self.package.as_ref()?;
        Some(package.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn on_unit<T>(&self, work: impl FnOnce(&mut dyn Unit) -> T) -> Option<T> {
        Some(work(&mut *self.package()?.unit))
    }

    /// A register of the records of branches, or another of the unit's.
    fn read_unit(&self, unit: &mut dyn Unit, msr: u32) -> Option<u64> {
        let recorded = unit.recording().and_then(|recording| recording.records.read(msr));
        recorded.or_else(|| unit.read_msr(self.thread, msr))
    }

    /// Whether the unit has the register and accepts the value.
    fn write_unit(&self, msr: u32, value: u64) -> bool {
        let written = |unit: &mut dyn Unit| {
            let recorded = unit.recording().and_then(|one| one.records.write(msr, value));
            recorded.or_else(|| unit.write_msr(self.thread, msr, value, &self.counted()))
        };
        self.on_unit(written).flatten().unwrap_or(false)
    }

    /// Sends what the unit has requested for this thread through LVTPC.
    fn take_requests(&mut self) {
        self.take_requests_of(None);
    }

    /// The same, for this overflow if it is known.
    fn take_requests_of(&mut self, overflow: Option<Watch>) {
        let own = 1 << self.thread;
        let foreign = self.quirks().has(Quirk::ForeignStatus);
        let Some(mut package) = self.package() else {
            return;
        };
        let requested = package.requests & own != 0;
        package.requests &= !own;
        if requested && foreign {
            package.unit.set_status(FOREIGN_STATUS);
        }
        // `deliver` takes the lock again.
        drop(package);
        if requested && self.delivery.ask(overflow) {
            self.deliver();
        }
    }

    /// Delivers the interrupt to LVTPC.
    fn deliver(&mut self) {
        let hypervisor = self.quirks().has(Quirk::HypervisorMasks);
        let storming = self.delivery.is_storming();
        let Some(mut package) = self.package() else {
            return;
        };
        let masks = hypervisor || package.unit.masks_on_delivery();
        // The records change before the handler can run: it finds what was changed while the
        // interrupt was on its way.
        if let Some(mut recording) = package.unit.recording() {
            if self.delivery.brings(Quirk::BranchesChanged) {
                recording.take();
            }
            if self.delivery.brings(Quirk::ClearedRecords) {
                recording.lose_old();
            }
            if self.delivery.brings(Quirk::FreezeCleared) {
                *recording.debugctl &= !FREEZE_LBRS_ON_PMI;
            }
        }
        if storming {
            package.unit.set_status(STORM_STATUS);
        }
        drop(package);
        self.apic.deliver(masks);
    }

    /// A line that is still held active is seen again as soon as LVTPC is unmasked.
    fn take_asserted(&mut self) {
        if !self.apic.accepts() {
            return;
        }
        if self.delivery.is_storming() {
            self.deliver();
            return;
        }
        let own = 1 << self.thread;
        if let Some(mut package) = self.package() {
            let asserted = package.unit.asserted();
            package.requests |= asserted & own;
        }
        self.take_requests();
    }

    /// LVTPC has just been unmasked, if it did not accept interrupts before: with
    /// [`Quirk::RaisedAgain`] what is not acknowledged interrupts again.
    fn raise_again(&mut self, accepted: bool) {
        let raises = self.quirks().has(Quirk::RaisedAgain);
        if raises && !accepted && self.apic.accepts() {
            let holds = self.on_unit(|unit| unit.holds_interrupt());
            if holds == Some(true) {
                self.deliver();
            }
        }
    }

    /// CPUID.1:EDX[5]: without it RDMSR and the like are invalid opcodes.
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

/// The unit of a processor: by vendor, then by what the leaves declare, then by family and model.
fn select_unit(leaves: &Leaves) -> Option<Box<dyn Unit>> {
    match &Signature::of(leaves).vendor {
        b"AuthenticAMD" | b"HygonGenuine" => Amd::new(leaves).map(boxed),
        b"GenuineIntel" => {
            Architectural::new(leaves).map(boxed).or_else(|| before_architectural(leaves))
        }
        // Zhaoxin's processors count too, but Windows' HAL gives them the Default interface.
        _ => None,
    }
}

/// Intel's units that no leaf declares (the models are in SDM vol. 4, "Model-Specific Registers
/// (MSRs)").
fn before_architectural(leaves: &Leaves) -> Option<Box<dyn Unit>> {
    let Signature { family, model, .. } = Signature::of(leaves);
    match (family, model) {
        (5, _) => Some(boxed(Pentium::new(leaves))),
        (6, 1 | 3 | 5..=9 | 0xA | 0xB | 0xD | 0x15) => Some(boxed(P6::new(leaves))),
        (15, 0..=4 | 6) => Some(boxed(NetBurst::new(leaves))),
        _ => None,
    }
}

fn boxed(unit: impl Unit + 'static) -> Box<dyn Unit> {
    Box::new(unit)
}
