//! What leaf 0x0A, leaf 0x23 and the feature bits say about an architectural unit.

use crate::cpu::cpuid::Leaves;
use crate::cpu::signature::Signature;
use crate::quirks::Quirk;

/// The newest known version; later ones are treated as this one.
const NEWEST: u32 = 6;
/// The room for IA32_PERFEVTSELx below IA32_PERF_STATUS (0x198).
const GENERAL_ROOM: u32 = (1 << 18) - 1;
/// The number of nibbles in IA32_FIXED_CTR_CTRL.
const FIXED_ROOM: u32 = (1 << 16) - 1;

/// IA32_PERF_CAPABILITIES bit 13: the full-width alias of the counters.
const FW_WRITE: u64 = 1 << 13;
/// Bit 14: PEBS is adaptive, and fixed counters take part.
const PEBS_BASELINE: u64 = 1 << 14;
/// Family 6 models of version 3 without it: Nehalem, Westmere, Bonnell, Saltwell (SDM vol. 4,
/// "Model-Specific Registers (MSRs)": IA32_A_PMCx first appear in the tables of Silvermont and
/// Sandy Bridge).
const NO_FW_WRITE: [u32; 12] =
    [0x1A, 0x1C, 0x1E, 0x1F, 0x25, 0x26, 0x27, 0x2C, 0x2E, 0x2F, 0x35, 0x36];

/// The properties of an architectural unit.
#[derive(Clone, Debug)]
pub(super) struct Capabilities {
    /// 1 to 6.
    pub(super) version: u32,
    /// General counters that exist, one bit each.
    pub(super) general: u32,
    pub(super) general_width: u32,
    /// Fixed counters that exist, one bit each.
    pub(super) fixed: u32,
    pub(super) fixed_width: u32,
    /// Architectural events that the processor lacks, by their bit in leaf 0x0A EBX.
    pub(super) absent_events: u32,
    /// IA32_PERF_CAPABILITIES; `None` without CPUID.1:ECX[15].
    pub(super) perf_caps: Option<u64>,
    /// Bits of IA32_PERFEVTSELx that may be 1.
    pub(super) select_bits: u64,
    /// Bits of one nibble of IA32_FIXED_CTR_CTRL that may be 1.
    pub(super) fixed_control: u64,
    /// A counter can be hidden from RDPMC at CPL 3 (leaf 0x23 EBX\[2\]).
    user_disable: bool,
    /// Bits of IA32_PEBS_ENABLE that may be 1, in the layout of the global registers; 0 without the
    /// register.
    pub(super) pebs: u64,
    /// Adaptive PEBS: IA32_FIXED_CTR_CTRL has a bit for it.
    adaptive: bool,
    /// Counters that another's overflow can reload, in the layout of the global registers.
    pub(super) reloads: u64,
    /// The status bits that belong to no counter and may be acknowledged at any time.
    conditions: u64,
}

impl Capabilities {
    /// The unit of these leaves; `None` if leaf 0x0A does not declare one.
    pub(super) fn of(leaves: &Leaves) -> Option<Self> {
        if leaves.get(0, 0).eax < 0xA {
            return None;
        }
        let leaf = leaves.get(0xA, 0);
        let version = (leaf.eax & 0xFF).min(NEWEST);
        if version == 0 {
            return None;
        }
        let (general, fixed) = counters(leaves, version);
        // EDX[15] says that AnyThread is deprecated (SDM vol. 2A, "CPUID", leaf 0AH).
        let any_thread = version >= 3 && leaf.edx >> 15 & 1 == 0;
        Some(Self {
            version,
            general,
            general_width: width(leaf.eax >> 16),
            fixed,
            fixed_width: width(leaf.edx >> 5),
            absent_events: absent_events(leaves),
            perf_caps: perf_caps(leaves, version),
            select_bits: select_bits(leaves, any_thread),
            // Bit 2 of a nibble is AnyThread.
            fixed_control: if any_thread { 0xF } else { 0xB },
            user_disable: has_user_disable(leaves),
            pebs: pebs(leaves, version, general, fixed),
            adaptive: has_adaptive_pebs(leaves, version),
            reloads: reloads(leaves) & (u64::from(general) | u64::from(fixed) << 32),
            conditions: condition_bits(leaves, version),
        })
    }

    /// Bits of IA32_PERF_GLOBAL_CTRL that may be 1, and of the status that counters set.
    pub(super) fn global_bits(&self) -> u64 {
        u64::from(self.general) | u64::from(self.fixed) << 32
    }

    /// Bits of IA32_PERF_GLOBAL_STATUS_SET that may be 1.
    pub(super) fn status_set_bits(&self) -> u64 {
        self.global_bits() | self.conditions
    }

    /// Bits of IA32_PERF_GLOBAL_OVF_CTRL or _STATUS_RESET that may be 1 while the status register
    /// is `status`: a condition that it shows may be acknowledged.
    pub(super) fn status_reset_bits(&self, status: u64) -> u64 {
        self.global_bits() | self.conditions | status & CONDITIONS
    }

    /// Bits of IA32_FIXED_CTR_CTRL that may be 1.
    pub(super) fn fixed_control_bits(&self) -> u64 {
        let disable = |i: u32| if self.user_disable { fixed_user_disable(i) } else { 0 };
        let adaptive = |i: u32| if self.adaptive { fixed_adaptive(i) } else { 0 };
        (0..16)
            .filter(|i| self.fixed >> i & 1 == 1)
            .fold(0, |bits, i| bits | self.fixed_control << (4 * i) | disable(i) | adaptive(i))
    }

    /// Whether version 2's global registers exist.
    pub(super) fn has_global(&self) -> bool {
        self.version >= 2
    }

    /// Whether IA32_DEBUGCTL can freeze the counters (SDM vol. 4, "IA-32 Architectural MSRs":
    /// CPUID.1:ECX\[15\] and version 2).
    pub(super) fn freezes(&self) -> bool {
        self.version >= 2 && self.perf_caps.is_some()
    }

    /// Whether IA32_A_PMCx exist.
    pub(super) fn has_full_width(&self) -> bool {
        self.perf_caps.is_some_and(|bits| bits & FW_WRITE != 0)
    }
}

/// General and fixed counters as masks: leaf 0x23 sub-leaf 1 if it exists, otherwise leaf 0x0A.
///
/// A counter with a width of 0 does not exist, whatever else the leaf says.
fn counters(leaves: &Leaves, version: u32) -> (u32, u32) {
    let leaf = leaves.get(0xA, 0);
    let (general, fixed) = match extended_counters(leaves) {
        Some(masks) => masks,
        None => (low_bits(leaf.eax >> 8 & 0xFF), fixed_counters(leaves, version)),
    };
    (
        if width(leaf.eax >> 16) == 0 { 0 } else { general & GENERAL_ROOM },
        if version < 2 || width(leaf.edx >> 5) == 0 { 0 } else { fixed & FIXED_ROOM },
    )
}

fn fixed_counters(leaves: &Leaves, version: u32) -> u32 {
    let leaf = leaves.get(0xA, 0);
    let contiguous = low_bits(leaf.edx & 0x1F);
    // From version 5 on ECX names counters too, above those that EDX counts (SDM vol. 2A, "CPUID").
    match version {
        ..5 => contiguous,
        _ => contiguous | leaf.ecx,
    }
}

fn extended_counters(leaves: &Leaves) -> Option<(u32, u32)> {
    let counters = has_leaf_0x23(leaves) && leaves.get(0x23, 0).eax >> 1 & 1 == 1;
    counters.then(|| {
        let leaf = leaves.get(0x23, 1);
        (leaf.eax, leaf.ebx)
    })
}

/// Where leaf 0x23 has sub-leaf 3, its EAX alone says which events there are, on this core; else a bit
/// of leaf 0x0A EBX within the length in EAX 31:24 says that one is missing (SDM vol. 2A, "CPUID",
/// leaves 0AH and 23H). Events that came after the first seven are missing beyond the length too.
fn absent_events(leaves: &Leaves) -> u32 {
    let leaf = leaves.get(0xA, 0);
    if has_leaf_0x23(leaves) && leaves.get(0x23, 0).eax >> 3 & 1 == 1 {
        return !leaves.get(0x23, 3).eax;
    }
    let length = low_bits(leaf.eax >> 24);
    leaf.ebx & length | !length & !FIRST_SEVEN
}

/// The architectural events of version 1.
const FIRST_SEVEN: u32 = 0x7F;

/// CPUID.7.1:EAX[8], ArchPerfmonExt.
fn has_leaf_0x23(leaves: &Leaves) -> bool {
    leaves.get(0, 0).eax >= 0x23 && leaves.get(7, 1).eax >> 8 & 1 == 1
}

/// IA32_PERFEVTSELx: RDPMC user disable (leaf 0x23 EBX\[2\]; Linux 59af95e0).
pub(super) const USER_DISABLE: u64 = 1 << 37;

/// Whether a counter can be hidden, and a write of the bit is not refused.
fn has_user_disable(leaves: &Leaves) -> bool {
    has_leaf_0x23(leaves)
        && leaves.get(0x23, 0).ebx >> 2 & 1 == 1
        && !leaves.quirks().has(Quirk::RefusedUserDisable)
}

/// IA32_PEBS_ENABLE: a bit for each general counter and, with the adaptive form, for each fixed one
/// (SDM vol. 3, "PEBS Extensions"). CPUID.1:EDX[21] says that there is a debug store; a hypervisor may
/// pass it on without the register, which is not modelled. Only somebody's PEBS is: without a quirk the
/// model has none, and IA32_MISC_ENABLE\[12\] says so.
fn pebs(leaves: &Leaves, version: u32, general: u32, fixed: u32) -> u64 {
    let left = [Quirk::PebsLeft, Quirk::AdaptiveLeft].iter().any(|&one| leaves.quirks().has(one));
    let there = leaves.get(1, 0).edx >> 21 & 1 == 1 && !leaves.has_hypervisor() && left;
    let fixed = if has_adaptive_pebs(leaves, version) { u64::from(fixed) << 32 } else { 0 };
    if there { u64::from(general) | fixed } else { 0 }
}

/// IA32_PERF_CAPABILITIES\[14\], PEBS_BASELINE, from Ice Lake on (SDM vol. 3, "PEBS Extensions").
fn has_adaptive_pebs(leaves: &Leaves, version: u32) -> bool {
    version >= 5 && leaves.quirks().has(Quirk::AdaptiveLeft)
}

/// Auto counter reload (leaf 0x23 EAX\[2\]): sub-leaf 2 has the counters that can be reloaded, general
/// in EAX and fixed in EBX.
fn reloads(leaves: &Leaves) -> u64 {
    if !has_leaf_0x23(leaves) || leaves.get(0x23, 0).eax >> 2 & 1 == 0 {
        return 0;
    }
    let leaf = leaves.get(0x23, 2);
    u64::from(leaf.eax) | u64::from(leaf.ebx) << 32
}

/// The adaptive bit of a fixed counter, in IA32_FIXED_CTR_CTRL (SDM vol. 3, "PEBS Extensions").
fn fixed_adaptive(counter: u32) -> u64 {
    1_u64.checked_shl(32 + 4 * counter).unwrap_or(0)
}

/// RDPMC user disable of a fixed counter, in IA32_FIXED_CTR_CTRL (Linux 59af95e0).
pub(super) fn fixed_user_disable(counter: u32) -> u64 {
    1_u64.checked_shl(33 + 4 * counter).unwrap_or(0)
}

/// Reserved are bit 21 without AnyThread, and those of bits 63:32 that no feature grants: TSX (leaf
/// 7, EBX[11] RTM) grants bits 32 and 33, leaf 0x23 the EQ bit 36, RDPMC user disable 37 and UMASK2
/// bits 47:40.
fn select_bits(leaves: &Leaves, any_thread: bool) -> u64 {
    let granted = |has: bool, bits: u64| if has { bits } else { 0 };
    let extended = if has_leaf_0x23(leaves) { leaves.get(0x23, 0).ebx } else { 0 };
    0xFFDF_FFFF
        | granted(any_thread, 1 << 21)
        | granted(leaves.get(7, 0).ebx >> 11 & 1 == 1, 0b11 << 32)
        | granted(extended >> 1 & 1 == 1, 1 << 36)
        | granted(has_user_disable(leaves), USER_DISABLE)
        | granted(extended & 1 == 1, 0xFF << 40)
}

/// Every status bit that may belong to no counter: metrics overflow (48), Trace_ToPA_PMI (55), and
/// those above (SDM vol. 4, IA32_PERF_GLOBAL_STATUS).
const CONDITIONS: u64 = 1 << 48 | 1 << 55 | 0x3F << 58;

/// The status bits that belong to no counter: OvfBuf (62) and CondChgd (63), OvfUncore (61) from
/// version 3, LBR_Frz, CTR_Frz and ASCI (60:58) from version 4, Trace_ToPA_PMI (55) with PT.
///
/// A hypervisor emulates the register and need not accept any of them: KVM refuses all but 62 and 63
/// (`global_status_rsvd` in arch/x86/kvm/vmx/pmu_intel.c), and no document says what others do.
fn condition_bits(leaves: &Leaves, version: u32) -> u64 {
    if leaves.has_hypervisor() {
        return 0;
    }
    let by_version = match version {
        ..3 => 0xC000_0000_0000_0000,
        3 => 0xE000_0000_0000_0000,
        _ => 0xFC00_0000_0000_0000,
    };
    by_version | u64::from(leaves.get(7, 0).ebx >> 25 & 1) << 55
}

/// CPUID does not report FW_WRITE: it was introduced with Sandy Bridge and Silvermont.
fn perf_caps(leaves: &Leaves, version: u32) -> Option<u64> {
    let pdcm = leaves.get(1, 0).ecx >> 15 & 1 == 1;
    let full_width = version >= 3 && !NO_FW_WRITE.contains(&Signature::of(leaves).model);
    let baseline = if has_adaptive_pebs(leaves, version) { PEBS_BASELINE } else { 0 };
    pdcm.then_some(baseline | if full_width { FW_WRITE } else { 0 })
}

/// The 8 bits of a width field, limited to the 64 bits of a register.
fn width(field: u32) -> u32 {
    (field & 0xFF).min(64)
}

fn low_bits(n: u32) -> u32 {
    1_u32.checked_shl(n).map_or(u32::MAX, |bit| bit - 1)
}
