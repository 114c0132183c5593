//! Hardware quirks that a model can reproduce: each is an option of a modelled machine, `--machine
//! NAME,quirks=late+frozen`.
//!
//! A quirk is a property of a logical processor and is stored with its CPUID leaves, so that whatever
//! is built from them has it: the service in process, and the shipped driver on a modelled kernel.

use std::fmt;
use thiserror::Error;

/// One option, as shown to people.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub quirk: Quirk,
    /// What `quirks=` takes.
    pub name: &'static str,
    /// What the processor then does.
    pub description: &'static str,
    /// Where it was seen or is documented: the manual's title and the section's title, or the
    /// software that mentions it.
    pub source: &'static str,
}

const INTEL_SDM: &str = "Intel SDM volume 3 (325384), \"Architectural Performance Monitoring\"";
const INTEL_APIC: &str = "Intel SDM volume 3 (325384), \"Local Vector Table\"";

/// Nothing arbitrates between their users: ETW (TraceConfigureLastBranchRecord), debuggers,
/// profilers.
const INTEL_LBR: &str = "Intel SDM volume 3 (325384), \"Last Branch Records\"";

macro_rules! quirks {
    ($($variant:ident $name:literal $description:literal $source:expr;)*) => {
        /// One quirk; its discriminant is the index of its row in [`QUIRKS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Quirk {
            $(#[doc = $description] $variant,)*
        }

        /// Every option, in the order of [`Quirk`].
        pub const QUIRKS: &[Row] = &[$(Row {
            quirk: Quirk::$variant,
            name: $name,
            description: $description,
            source: $source,
        },)*];
    };
}

quirks! {
    ClearedGlobal "cleared-global"
        "the global control register was cleared by somebody: no counter is on in it, where \
         reset leaves a 1 for every general counter"
        "Intel SDM volume 3 (325384), \"Processor State After Reset\"; AMD APM volume 2 (24593), \
         \"PerfMonV2\": what reset leaves, and so what is missing here";
    Frozen "frozen"
        "somebody has set FREEZE_PERFMON_ON_PMI: an overflow interrupt clears the global control \
         register (versions 2 and 3), or sets CTR_FRZ and stops the counters until it is \
         acknowledged (from version 4 on; AMD with LbrAndPmcFreeze)"
        "Intel SDM volume 3 (325384), \"Freezing LBR and Performance Counters on PMI\"; AMD APM \
         volume 3 (24594), CPUID 8000_0022h";
    StaleStatus "stale-status"
        "the overflow bits of all counters are set before anything has counted"
        INTEL_SDM;
    ForeignStatus "foreign-status"
        "the global status register shows bits that belong to no counter (48, 55, 58, 62) and \
         one that nothing declares, again after each overflow"
        INTEL_SDM;
    CountersOn "counters-on"
        "firmware has left general counter 0 counting instructions, without interrupts"
        "Linux reports such firmware (arch/x86/events/core.c, check_hw_exists)";
    FixedTaken "fixed-taken"
        "somebody counts with fixed counters 0 and 1, without interrupts"
        "perfview issue 1647: Windows' own sampling may use the unit";
    Late "late"
        "each overflow interrupt comes late, by 0 to 3 times what the counter was preset for"
        "interrupts masked, SMI, VM exits: no manual bounds them";
    Lost "lost"
        "each seventh overflow interrupt never comes"
        INTEL_APIC;
    DeadInterrupts "dead-interrupts"
        "counters count, and no overflow interrupt ever comes"
        "issues of profilers on Windows and in virtual machines";
    Masked "masked"
        "LVTPC is found masked at start and after sleep"
        INTEL_APIC;
    HypervisorMasks "hypervisor-masks"
        "a hypervisor (KVM) masks LVTPC when it delivers the interrupt, on AMD too"
        "KVM v6.6 to April 2024: Linux commits a16eb25b09c0 and 49ff3b4aec51";
    Storm "storm"
        "from the first overflow interrupt on, the request line stays up for a status bit that \
         belongs to no counter, and the interrupt comes again each time LVTPC lets it through"
        "Linux, arch/x86/events/intel/core.c: it gives up after 100 rounds";
    DeadCounters "dead-counters"
        "registers take every value and no counter counts"
        "Broadcom KB 344161; rr issues 2327, 3682: virtual counters that stay 0";
    LateStop "late-stop"
        "a counter that is stopped still counts the next 4 events"
        "Linux stops counters before it trusts their values";
    SmallestReload "smallest-reload"
        "a counter preset for fewer than 128 events does not interrupt"
        "Linux, arch/x86/events/intel/core.c: nhm_limit_period";
    NoGeneral "no-general"
        "CPUID declares no general counter (Intel's leaves 0x0A and 0x23, AMD's 0x80000022; \
         others cannot say so)"
        INTEL_SDM;
    NoFixed "no-fixed"
        "CPUID declares no fixed counter (Intel's leaves 0x0A and 0x23)"
        INTEL_SDM;
    NarrowCounters "narrow-counters"
        "CPUID declares counters of 32 bits (Intel's leaf 0x0A)"
        INTEL_SDM;
    BranchesOn "branches-on"
        "somebody records branches (IA32_DEBUGCTL.LBR, IA32_LBR_CTL.LBREn or \
         DBG_EXTN_CFG.LBRV2EN)"
        INTEL_LBR;
    BranchesChanged "branches-changed"
        "with each fourth overflow interrupt somebody begins to record all branches, without the \
         freeze"
        INTEL_LBR;
    FixedInterrupts "fixed-interrupts"
        "somebody samples with fixed counter 1: it interrupts once, after 10,000 core cycles, \
         and its status bit stays for its owner"
        "perfview issue 1647: Windows' own sampling may use the unit";
    RaisedAgain "raised-again"
        "an interrupting counter's status bit that is still set when LVTPC is unmasked raises \
         the interrupt again"
        "Linux, arch/x86/events/intel/core.c: late_ack, from Haswell on";
    FreezeCleared "freeze-cleared"
        "with each fourth overflow interrupt somebody clears FREEZE_LBRS_ON_PMI and nothing else"
        INTEL_LBR;
    TsxForceAbort "tsx-force-abort"
        "the microcode has taken general counter 3 for transactions: whatever its select says, it \
         counts core cycles"
        "Linux, arch/x86/events/intel/core.c, intel_tfa_*: CPUID.7 EDX[13], MSR TSX_FORCE_ABORT";
    NehalemReset "nehalem-reset"
        "general counters 0 to 3 count only every second event after their select was changed, \
         unless they have been reset since they last ran: all at 0, selects 4300B5h, 4300D2h, \
         4300B1h and 4300B1h, switched on together and off again"
        "errata AAK100, AAP53 and BD53; Linux, arch/x86/events/intel/core.c, \
         intel_pmu_nhm_workaround";
    BroadwellPeriod "broadwell-period"
        "general counters of INST_RETIRED.ALL lose the six low bits of what is written to them if it \
         is less than 4,096 events before the overflow"
        "errata BDM11 and BDM55; Linux, arch/x86/events/intel/core.c, bdw_limit_period";
    ThreadLeak "thread-leak"
        "what a general counter counts of memory events (D0h to D3h) is added also to the counter of \
         the same number of the core's other thread, if that counts anything"
        "errata BJ122, BV98 and HSD29; Linux, arch/x86/events/intel/core.c, \
         intel_start_scheduling";
    Zen3Overcount "zen3-overcount"
        "events of retirement count one more every 128"
        "AMD revision guide for family 19h models 00h to 0Fh, erratum 1292: by how many it does not \
         say";
    NmiLvtpc "nmi-lvtpc"
        "somebody has set LVTPC's delivery mode to NMI, so that an overflow would be a non-maskable \
         interrupt that nobody claims"
        INTEL_APIC;
    SilentFixed "silent-fixed"
        "general counters interrupt, and fixed counters count and overflow without an interrupt"
        "hypervisors that emulate fixed counters without their interrupt; no manual ties one kind \
         to the other";
    FalseBranches "false-branches"
        "each fifth branch that is recorded leaves a second record that belongs to no branch: valid and \
         speculative, with bit 61 of its target set (AMD's LbrExtV2)"
        "AMD revision guide for family 19h models 10h to 1Fh, erratum 1452; Linux 29297ffffb0b";
    RefusedPmc "refused-pmc"
        "RDPMC raises #GP whatever counter it names, and RDMSR of the counters works"
        "KVM, arch/x86/kvm/pmu.c, kvm_pmu_rdpmc: RDPMC is intercepted apart from RDMSR; xhyve answers it \
         with #GP";
    RefusedUserDisable "refused-user-disable"
        "RDPMC user disable is refused although leaf 0x23 promises it: bit 37 of selects and bits 33 + 4n \
         of IA32_FIXED_CTR_CTRL raise #GP"
        "KVM, arch/x86/kvm/vmx/pmu_intel.c: before bit 37 was known, the mask of reserved select bits was \
         0xFFFFFFFF00200000";
    PebsLeft "pebs-left"
        "somebody has left PEBS on for general counter 0: its overflow writes a record and interrupts \
         nobody"
        "Intel SDM volume 3 (325384), \"Processor Event Based Sampling (PEBS)\"";
    AdaptiveLeft "adaptive-left"
        "somebody has left PEBS on for fixed counter 0, with its adaptive bit in IA32_FIXED_CTR_CTRL, on \
         processors with adaptive PEBS (version 5 and later)"
        "Intel SDM volume 3 (325384), \"PEBS Extensions\"; Linux 2676dbf9f4fb";
    ReloadLeft "reload-left"
        "somebody has left auto counter reload on: general counter 3 starts again at 0 when counter 2 \
         overflows, and fixed counter 1 when fixed counter 0 does (leaf 0x23, sub-leaf 2)"
        "Intel SDM volume 3 (325384), \"Auto Counter Reload\"; Linux 43796f305078";
    BranchesLeft "branches-left"
        "firmware has left branch recording on, without a filter and without the freeze"
        "Linux c631a2de7ae4";
    ClearedRecords "cleared-records"
        "with each fourth overflow interrupt all but the three newest branch records are gone, as after a \
         deep C-state that cleared them (architectural records)"
        "Intel SDM volume 3 (325384), \"Last Branch Records\": CPUID leaf 0x1C EAX[30]";
}

/// A preset closer to overflow than this misbehaves with [`Quirk::SmallestReload`].
pub const SMALLEST_RELOAD: u64 = 128;
/// With [`Quirk::Lost`] every interrupt whose number is a multiple of this is lost.
pub const LOST_EACH: u64 = 7;
/// With [`Quirk::BranchesChanged`] and [`Quirk::FreezeCleared`] every interrupt whose number
/// is a multiple of this brings the change; with [`Quirk::ClearedRecords`] it finds records gone.
pub const BRANCHES_CHANGED_EACH: u64 = 4;
/// With [`Quirk::FalseBranches`] every recorded branch whose number is a multiple of this has a second
/// record, of no branch.
pub const FALSE_BRANCH_EACH: u64 = 5;
/// The records that [`Quirk::ClearedRecords`] leaves.
pub const RECORDS_LEFT: usize = 3;
/// Events that a stopped counter still counts with [`Quirk::LateStop`].
pub const LATE_STOP: u64 = 4;
/// With [`Quirk::Zen3Overcount`] so many events of retirement are counted as one more.
pub const OVERCOUNT_EACH: u64 = 128;
/// The bits of [`Quirk::ForeignStatus`]: metrics overflow, ToPA, frozen LBR, the debug store's
/// buffer, and one that is reserved everywhere.
pub(crate) const FOREIGN_STATUS: u64 = 1 << 48 | 1 << 55 | 1 << 58 | 1 << 62 | 1 << 30;
/// The bit that holds the line active with [`Quirk::Storm`].
pub(crate) const STORM_STATUS: u64 = 1 << 62;

/// How a register that CPUID promises is absent, as shown to people.
#[derive(Clone, Copy, Debug)]
pub struct AbsentRow {
    /// What `quirks=` takes before the register's number.
    pub prefix: &'static str,
    /// See [`Row::description`].
    pub description: &'static str,
    /// See [`Row::source`].
    pub source: &'static str,
}

/// By read and by write; both together are a register that is not there at all.
pub const ABSENT: [AbsentRow; 2] = [
    AbsentRow {
        prefix: "unreadable-",
        description: "RDMSR of the register with this number raises #GP, whatever CPUID promises",
        source: HIDDEN,
    },
    AbsentRow {
        prefix: "unwritable-",
        description: "WRMSR of the register with this number raises #GP, whatever CPUID promises",
        source: HIDDEN,
    },
];
const HIDDEN: &str = "hypervisors that emulate a part: QEMU's series \"disable PERFCORE when -pmu is \
    configured\"; KVM, arch/x86/kvm/pmu.c: what is_valid_msr does not know raises #GP";

/// The quirks that a processor has; none by default.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Quirks {
    bits: u64,
    unreadable: Option<u32>,
    unwritable: Option<u32>,
}

/// A name that is not in [`QUIRKS`], or one that is given twice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuirksError {
    /// No such quirk.
    #[error("`{0}` is not a hardware fault that a model can have")]
    Unknown(String),
    /// Named before.
    #[error("`{0}` is given twice")]
    Duplicate(String),
}

impl Quirks {
    /// Only this one.
    pub const fn of(quirk: Quirk) -> Self {
        Self { bits: 1 << quirk as u32, unreadable: None, unwritable: None }
    }

    /// These and `quirk`.
    pub const fn with(self, quirk: Quirk) -> Self {
        self.and(Self::of(quirk))
    }

    pub const fn and(self, others: Self) -> Self {
        Self {
            bits: self.bits | others.bits,
            unreadable: either(self.unreadable, others.unreadable),
            unwritable: either(self.unwritable, others.unwritable),
        }
    }

    pub const fn has(self, quirk: Quirk) -> bool {
        self.bits & Self::of(quirk).bits != 0
    }

    pub const fn is_empty(self) -> bool {
        self.bits == 0 && self.unreadable.is_none() && self.unwritable.is_none()
    }

    /// A register that is absent by read, and one that is by write.
    pub const fn absent(unreadable: Option<u32>, unwritable: Option<u32>) -> Self {
        Self { bits: 0, unreadable, unwritable }
    }

    /// Whether RDMSR of this register raises #GP.
    pub fn hides_from_read(self, msr: u32) -> bool {
        self.unreadable == Some(msr)
    }

    /// Whether WRMSR of this register raises #GP.
    pub fn hides_from_write(self, msr: u32) -> bool {
        self.unwritable == Some(msr)
    }

    /// Reads names joined by `+`, in either case.
    pub fn parse(names: &str) -> Result<Self, QuirksError> {
        names.split('+').try_fold(Self::default(), |set, name| {
            if let Some(absent) = absent(name) {
                let twice = absent.unreadable.is_some() && set.unreadable.is_some()
                    || absent.unwritable.is_some() && set.unwritable.is_some();
                let again = || Err(QuirksError::Duplicate(name.to_lowercase()));
                return if twice { again() } else { Ok(set.and(absent)) };
            }
            let row = QUIRKS.iter().find(|row| row.name.eq_ignore_ascii_case(name));
            let row = row.ok_or_else(|| QuirksError::Unknown(name.to_owned()))?;
            if set.has(row.quirk) {
                return Err(QuirksError::Duplicate(row.name.to_owned()));
            }
            Ok(set.with(row.quirk))
        })
    }

    pub fn rows(self) -> impl Iterator<Item = &'static Row> {
        QUIRKS.iter().filter(move |row| self.has(row.quirk))
    }
}

const fn either(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    if one.is_some() { one } else { other }
}

/// Reads one of [`ABSENT`] with its register, `unreadable-0x186`.
fn absent(name: &str) -> Option<Quirks> {
    let name = name.to_lowercase();
    let register = |row: &AbsentRow| {
        u32::from_str_radix(name.strip_prefix(row.prefix)?.strip_prefix("0x")?, 16).ok()
    };
    let [unreadable, unwritable] = ABSENT.each_ref().map(register);
    let is_one = unreadable.is_some() || unwritable.is_some();
    is_one.then_some(Quirks::absent(unreadable, unwritable))
}

/// The names joined by `+`, as [`Quirks::parse`] takes them.
impl fmt::Display for Quirks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<String> = self.rows().map(|row| row.name.to_owned()).collect();
        let registers = [self.unreadable, self.unwritable];
        for (row, register) in ABSENT.iter().zip(registers) {
            names.extend(register.map(|msr| format!("{}{msr:#x}", row.prefix)));
        }
        f.write_str(&names.join("+"))
    }
}

impl fmt::Debug for Quirks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quirks({self})")
    }
}

#[cfg(test)]
mod tests;
