//! Recording branches on one processor.
//!
//! A session's recording begins when its counters are armed and ends when they are given back. It
//! is refused if another owner is already recording, checked against the enable bits at each
//! interrupt, and leaves the registers as they were found. With LBR_INFO, a debug exception of any
//! program ends it until the next interrupt, whose sample has no branches.
//!
//! An overflow interrupt freezes the records, so that branches on the kernel's path to the handler
//! do not push out those before the interrupt: a status bit (version 4, AMD PerfMonV2), which is
//! acknowledged together with the overflow. No silicon has these records and an earlier version.
//!
//! | records | register accesses for a sample of n branches |
//! |---|---|
//! | LBR_INFO | 3 n + 3: the enable bit, the index of the newest, the status |
//! | architectural | 3 n + 3: the enable bit, the freeze, the status |
//! | AMD's LbrExtV2 | 2 n + 3: the enable bit, the freeze, the status |

use crate::cpu::capabilities::Capabilities;
use crate::cpu::lbr::{AMD_ENABLE, Branches, INFO_DEPTH, LBR, Recording};
use crate::cpu::machine::Machine;
use crate::cpu::registers::intel::{DebugCtl, GLOBAL_STATUS_LBR_FRZ, IA32_DEBUGCTL, LbrInfo};
use crate::cpu::registers::{amd, intel};
use crate::run::host::Local;
use crate::run::pmu;
use crate::run::state::Recorded;
use crate::run::touch::Touch;
use shared_types::request::machine::Processor;
use shared_types::{Branch, BranchKind, BranchRecords};

const FREEZE: u64 = DebugCtl::new().with_freeze_lbrs_on_pmi(true).into_bits();
/// The bit that is set in a kernel address.
const KERNEL_HALF: u64 = 1 << 63;

impl<M: Machine> Local<'_, M> {
    /// What the session records on this processor, if anything.
    fn recording(&self) -> Option<Recording> {
        let program = self.program.cpu_program(self.state.cpu_type)?;
        (program.recording.depth != 0).then_some(program.recording)
    }

    /// Whether the session is to record branches and another owner already does.
    pub(crate) fn branches_taken(&mut self) -> bool {
        if self.recording().is_none() {
            return false;
        }
        let (msr, on) = self.state.capabilities.branches.switch();
        self.state.register_value = self.machine.read_msr(msr);
        self.state.register_value & on != 0
    }

    /// Starts recording, with empty records. `false`: another owner is already recording.
    pub(crate) fn begin_branches(&mut self) -> bool {
        let Some(recording) = self.recording() else {
            return true;
        };
        if self.branches_taken() {
            return false;
        }
        let state = &mut *self.state;
        let (machine, capabilities) = (&mut *self.machine, &state.capabilities);
        let recorded = &mut state.branches;
        let switch = state.register_value;
        let debugctl = machine.read_msr(IA32_DEBUGCTL);
        (recorded.on, recorded.changed, recorded.most) = (true, false, 0);
        recorded.found_freeze = debugctl & FREEZE;
        let records = capabilities.branches.records;
        // The filter is written first and the enable bit last, so that nothing is recorded through
        // another owner's filter.
        match records {
            BranchRecords::None => {}
            BranchRecords::Info | BranchRecords::AmdV2 => {
                let filter = filter_msr(records);
                recorded.found_control = machine.read_msr(filter);
                machine.write_msr(filter, recording.control);
            }
            BranchRecords::Architectural => {
                recorded.found_control = switch;
                recorded.found_depth = machine.read_msr(intel::IA32_LBR_DEPTH);
            }
        }
        // Another owner's records would pass for the first sample's, and a freeze that is left
        // would keep the enable bit from recording.
        clear(machine, records, recording.kept.into());
        thaw(machine, capabilities);
        // The freeze (SDM vol. 3, "Freezing LBR and Performance Counters on PMI") keeps the newest
        // records, which the kernel's way to the handler would push out.
        match records {
            BranchRecords::None => {}
            BranchRecords::Info => machine.write_msr(IA32_DEBUGCTL, debugctl | FREEZE | LBR),
            BranchRecords::Architectural => {
                machine.write_msr(IA32_DEBUGCTL, debugctl | FREEZE);
                machine.write_msr(intel::IA32_LBR_CTL, recording.control);
            }
            BranchRecords::AmdV2 => {
                machine.write_msr(IA32_DEBUGCTL, debugctl | FREEZE);
                machine.write_msr(amd::DBG_EXTN_CFG, switch | AMD_ENABLE);
            }
        }
        true
    }

    /// Ends recording, and leaves the registers as they were found, with no records in them. If
    /// another owner has taken over in the meantime, the registers are left alone; not if it has
    /// only cleared FREEZE_LBRS_ON_PMI.
    pub(crate) fn end_branches(&mut self) {
        let recording = self.recording();
        let state = &mut *self.state;
        let recorded = &mut state.branches;
        if !core::mem::take(&mut recorded.on) {
            return;
        }
        let (machine, capabilities) = (&mut *self.machine, &state.capabilities);
        let recording = recording.unwrap_or_default();
        let unchanged = !recorded.changed && ours(machine, capabilities, &recording).is_ok();
        if !unchanged && !ours_but_for_the_freeze(machine, capabilities, &recording) {
            // Whoever records by now owns the freeze too; if nobody does, the session ends it.
            let (msr, on) = capabilities.branches.switch();
            if machine.read_msr(msr) & on == 0 {
                thaw(machine, capabilities);
            }
            return;
        }
        let records = capabilities.branches.records;
        // The enable bit is cleared before the freeze bit, as Linux does on AMD, so that recording
        // can be frozen as long as it is on.
        if records == BranchRecords::Architectural {
            machine.write_msr(intel::IA32_LBR_CTL, recorded.found_control);
        } else if records == BranchRecords::AmdV2 {
            let switch = machine.read_msr(amd::DBG_EXTN_CFG);
            machine.write_msr(amd::DBG_EXTN_CFG, switch & !AMD_ENABLE);
        }
        let debugctl = machine.read_msr(IA32_DEBUGCTL);
        // If another owner has cleared the freeze, it stays cleared.
        let debugctl = debugctl & !FREEZE | debugctl & recorded.found_freeze;
        let off = if records == BranchRecords::Info { LBR } else { 0 };
        machine.write_msr(IA32_DEBUGCTL, debugctl & !off);
        // mistake: records-left-frozen
        thaw(machine, capabilities);
        if records == BranchRecords::Architectural {
            // Writing a depth that leaf 0x1C does not list raises #GP.
            let is_one = capabilities.branches.has(recorded.found_depth);
            let kept = recording.kept.into();
            clear(machine, records, if is_one { recorded.found_depth } else { kept });
        } else {
            machine.write_msr(filter_msr(records), recorded.found_control);
            clear(machine, records, recording.kept.into());
        }
    }

    /// The additional status bits that an interrupt acknowledges in a session with branches.
    pub(crate) fn branch_freeze(&self) -> u64 {
        if self.state.branches.on { GLOBAL_STATUS_LBR_FRZ } else { 0 }
    }

    /// Prepares for the records of a new interrupt, which have not been read yet. Returns whether
    /// there can be any.
    pub(crate) fn expect_branches(&mut self) -> bool {
        self.state.branches.read = false;
        self.state.branches.on
    }
}

/// Reads the records of an interrupt when its first sample needs them.
pub(crate) struct Reader<'a> {
    pub(crate) recorded: &'a mut Recorded,
    pub(crate) recording: &'a Recording,
    pub(crate) register_value: &'a mut u64,
    pub(crate) sees_kernel: bool,
}

impl Reader<'_> {
    /// Reads the records, once for each interrupt. Returns the most that a sample can have, and
    /// those that there are, newest first: none if another owner has changed how branches are
    /// recorded.
    pub(crate) fn read(
        &mut self,
        machine: &mut impl Machine,
        capabilities: &Capabilities,
    ) -> (u8, &[Branch]) {
        if !core::mem::replace(&mut self.recorded.read, true) {
            self.read_records(machine, capabilities);
        }
        let count = usize::from(self.recorded.count);
        let branches = self.recorded.records.get(..count).unwrap_or_default();
        (self.recording.depth, branches)
    }

    fn read_records(&mut self, machine: &mut impl Machine, capabilities: &Capabilities) {
        self.recorded.count = 0;
        // Nothing arbitrates these registers: a debugger or ETW may take them at any time, so each
        // interrupt looks again.
        match ours(machine, capabilities, self.recording) {
            Ok(Switch::On) => {}
            Ok(Switch::Off(debugctl)) => {
                // A debug exception of any program clears the LBR flag. The flag is set again here,
                // so that the next sample has branches.
                machine.write_msr(IA32_DEBUGCTL, debugctl | LBR);
                return;
            }
            Err(switch) => {
                self.recorded.changed = true;
                *self.register_value = switch;
                return;
            }
        }
        let branches = &capabilities.branches;
        let newest = match branches.records {
            BranchRecords::Info => machine.read_msr(intel::LBR_TOS) as u32,
            _ => 0,
        };
        let mut places = self.recorded.records.iter_mut();
        let mut found = 0;
        for back in 0..u32::from(self.recording.depth) {
            let record = match branches.records {
                BranchRecords::None => Record::Empty,
                BranchRecords::Info => {
                    // The processor fills the ring upwards, and TOS is the newest record.
                    let at = newest.wrapping_sub(back) % u32::from(INFO_DEPTH);
                    info_record(machine, branches, INFO_BASES, at)
                }
                BranchRecords::Architectural => {
                    info_record(machine, branches, ARCHITECTURAL_BASES, back)
                }
                BranchRecords::AmdV2 => amd_record(machine, branches, back),
            };
            match record {
                // Records were cleared at the start: an empty one is older than the session, or than
                // what has cleared them since.
                Record::Empty => break,
                Record::NotTaken => {}
                Record::Taken(branch) => {
                    if let Some(place) = places.next() {
                        *place = if self.sees_kernel { branch } else { without_kernel(branch) };
                        self.recorded.count += 1;
                    }
                }
            }
            found += 1;
        }
        // A deep C-state may clear the records (SDM vol. 3, "Last Branch Records"; leaf 0x1C EAX[30]);
        // so may another driver. The branches before that are in no sample.
        if found < self.recorded.most {
            self.recorded.cleared = self.recorded.cleared.wrapping_add(1);
        }
        self.recorded.most = self.recorded.most.max(found);
    }
}

/// What one record holds.
enum Record {
    /// Nothing, and the older ones are empty too.
    Empty,
    /// Nothing, or a branch on a wrong path.
    NotTaken,
    Taken(Branch),
}

/// The first FROM, TO and INFO registers.
const INFO_BASES: [u32; 3] = [intel::LBR_FROM0, intel::LBR_TO0, intel::LBR_INFO0];
const ARCHITECTURAL_BASES: [u32; 3] =
    [intel::IA32_LBR_FROM0, intel::IA32_LBR_TO0, intel::IA32_LBR_INFO0];

/// Reads an Intel record.
fn info_record(
    machine: &mut impl Machine,
    branches: &Branches,
    [from, to, info]: [u32; 3],
    at: u32,
) -> Record {
    let from = machine.read_msr(from + at);
    if from == 0 {
        return Record::Empty;
    }
    let to = machine.read_msr(to + at);
    let info = LbrInfo::from_bits(machine.read_msr(info + at));
    let records = |what| branches.info & what != 0;
    let architectural = branches.records == BranchRecords::Architectural;
    let timed = records(Processor::INFO_CYCLES) && (info.cycles_valid() || !architectural);
    let transactions = records(Processor::INFO_TRANSACTIONS);
    let flags = [
        (records(Processor::INFO_MISPREDICTED) && !info.mispredicted(), Branch::PREDICTED),
        (records(Processor::INFO_MISPREDICTED) && info.mispredicted(), Branch::MISPREDICTED),
        (timed, Branch::CYCLES),
        (transactions && info.in_transaction(), Branch::TRANSACTION),
        (transactions && info.abort(), Branch::ABORT),
    ];
    Record::Taken(Branch {
        from,
        to,
        cycles: if timed { info.cycles() } else { 0 },
        kind: if records(Processor::INFO_KIND) {
            branch_kind(info.branch_type()) as u8
        } else {
            BranchKind::Unknown as u8
        },
        flags: flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag),
        reserved: 0,
    })
}

/// Decodes BR_TYPE.
fn branch_kind(branch_type: u8) -> BranchKind {
    match branch_type {
        0 => BranchKind::Conditional,
        1 => BranchKind::IndirectJump,
        2 => BranchKind::Jump,
        3 => BranchKind::IndirectCall,
        4 => BranchKind::Call,
        5 => BranchKind::Return,
        8.. => BranchKind::Other,
        _ => BranchKind::Unknown,
    }
}

fn amd_record(machine: &mut impl Machine, branches: &Branches, at: u32) -> Record {
    let from = amd::LbrFrom::from_bits(machine.read_msr(amd::LBR_FROM0 + 2 * at));
    let to = amd::LbrTo::from_bits(machine.read_msr(amd::LBR_FROM0 + 2 * at + 1));
    // `valid` means a branch on the right path, speculative or not; `speculative` alone means a
    // wrong path (Linux, arch/x86/events/amd/lbr.c). The bit of erratum 1452 is tested on every
    // model, as Linux does: on the others it is reserved and 0.
    // mistake: no-branch-taken
    if !to.valid() || to.no_branch() {
        return Record::NotTaken;
    }
    // The flags above the address are not a copy of its highest bit.
    let sign = 64 - u32::from(branches.address_bits);
    let extended = |address: u64| ((address << sign).cast_signed() >> sign).cast_unsigned();
    Record::Taken(Branch {
        from: extended(from.address()),
        to: extended(to.address()),
        flags: if from.mispredicted() { Branch::MISPREDICTED } else { Branch::PREDICTED },
        ..Branch::default()
    })
}

/// A branch as shown to a client that may not see the kernel: if either address is in the kernel,
/// both are withheld.
fn without_kernel(branch: Branch) -> Branch {
    // A filter for user mode does not ensure this: it judges the target, and a return to user mode
    // has its source in the kernel.
    if (branch.from | branch.to) & KERNEL_HALF == 0 {
        return branch;
    }
    Branch { flags: Branch::HIDDEN, ..Branch::default() }
}

/// Whether branches are being recorded.
enum Switch {
    On,
    /// A debug exception, of whatever program, has cleared IA32_DEBUGCTL.LBR (SDM vol. 3,
    /// "Monitoring Branches, Exceptions, and Interrupts"); the register's value.
    Off(u64),
}

/// Checks that branches are still recorded as the session wants and are frozen by interrupts; the
/// error is the value of the register that shows otherwise.
fn ours(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    recording: &Recording,
) -> Result<Switch, u64> {
    let records = capabilities.branches.records;
    if records != BranchRecords::Info {
        let (msr, on) = capabilities.branches.switch();
        let switch = machine.read_msr(msr);
        let as_left = match records {
            BranchRecords::Architectural => switch == recording.control,
            _ => switch & on != 0,
        };
        if !as_left {
            return Err(switch);
        }
    }
    let debugctl = machine.read_msr(IA32_DEBUGCTL);
    if debugctl & FREEZE == 0 {
        Err(debugctl)
    } else if records == BranchRecords::Info && debugctl & LBR == 0 {
        Ok(Switch::Off(debugctl))
    } else {
        Ok(Switch::On)
    }
}

/// Whether recording is still on with the session's filter, whatever has happened to the freeze. A
/// recording of somebody else's with the same filter is taken for the session's: the registers do
/// not tell them apart, and one left on would refuse every later session.
fn ours_but_for_the_freeze(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    recording: &Recording,
) -> bool {
    let records = capabilities.branches.records;
    let (msr, on) = capabilities.branches.switch();
    let switch = machine.read_msr(msr);
    match records {
        BranchRecords::Architectural => switch == recording.control,
        _ => switch & on != 0 && machine.read_msr(filter_msr(records)) == recording.control,
    }
}

/// LBR_SELECT of these records.
fn filter_msr(records: BranchRecords) -> u32 {
    match records {
        BranchRecords::AmdV2 => amd::LBR_SELECT,
        _ => intel::LBR_SELECT,
    }
}

/// Calls `visit` for each register that the recording uses, until it fails: see
/// [`probe`](crate::run::probe).
pub(crate) fn each_register<E>(
    capabilities: &Capabilities,
    recording: &Recording,
    visit: &mut impl FnMut(Touch) -> Result<(), E>,
) -> Result<(), E> {
    let records = capabilities.branches.records;
    if recording.depth == 0 || records == BranchRecords::None {
        return Ok(());
    }
    let kept = u32::from(recording.kept);
    let freeze = if records == BranchRecords::Info { FREEZE | LBR } else { FREEZE };
    if records != BranchRecords::Architectural {
        let (msr, value) = (filter_msr(records), recording.control);
        visit(Touch::Borrow { msr, mask: u64::MAX, value })?;
    }
    visit(Touch::Borrow { msr: IA32_DEBUGCTL, mask: freeze, value: freeze })?;
    // The records come last: what was recorded while the switch was on is cleared with the rest.
    match records {
        BranchRecords::None => Ok(()),
        BranchRecords::Info => {
            visit(Touch::read(intel::LBR_TOS))?;
            let count = INFO_DEPTH.into();
            INFO_BASES.into_iter().try_for_each(|first| visit(Touch::Clear { first, count }))
        }
        BranchRecords::Architectural => {
            let (msr, value) = (intel::IA32_LBR_CTL, recording.control);
            visit(Touch::Borrow { msr, mask: u64::MAX, value })?;
            // Writing the depth clears the records: nothing writes a single one.
            let (msr, value) = (intel::IA32_LBR_DEPTH, kept.into());
            visit(Touch::Borrow { msr, mask: u64::MAX, value })?;
            let count = kept;
            ARCHITECTURAL_BASES
                .into_iter()
                .try_for_each(|first| visit(Touch::Read { first, count }))
        }
        BranchRecords::AmdV2 => {
            let (msr, bits) = (amd::DBG_EXTN_CFG, AMD_ENABLE);
            visit(Touch::Borrow { msr, mask: bits, value: bits })?;
            visit(Touch::Clear { first: amd::LBR_FROM0, count: 2 * kept })
        }
    }
}

/// Ends a freeze, if there is one.
fn thaw(machine: &mut impl Machine, capabilities: &Capabilities) {
    pmu::acknowledge_shown(machine, capabilities, GLOBAL_STATUS_LBR_FRZ);
}

/// Clears all records; `kept` also becomes the depth of architectural ones.
fn clear(machine: &mut impl Machine, records: BranchRecords, kept: u64) {
    let mut zero = |first: u32, count: u32| {
        (first..first + count).for_each(|msr| machine.write_msr(msr, 0));
    };
    match records {
        BranchRecords::None => {}
        BranchRecords::Info => {
            for first in INFO_BASES {
                zero(first, INFO_DEPTH.into());
            }
        }
        // Any write of the depth clears all records (SDM vol. 3, "Last Branch Records").
        BranchRecords::Architectural => machine.write_msr(intel::IA32_LBR_DEPTH, kept),
        BranchRecords::AmdV2 => zero(amd::LBR_FROM0, 2 * kept as u32),
    }
}
