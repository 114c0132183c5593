//! The register values that make a counter count: pure functions, so they can be tested without a
//! machine.

use crate::cpu::capabilities::Capabilities;
use crate::cpu::registers::intel::{FixedControl, PerfEvtSel};
use crate::cpu::registers::netburst::{Cccr, Escr, PEBS_ENABLE, PEBS_MATRIX_VERT, RAT_ESCR0};
use crate::cpu::registers::pentium::CesrHalf;
use crate::source::{NetBurstSelect, Select, Upstream};
use shared_types::request::session::Spec;
use zerocopy::FromZeros;

/// The modes in which a source counts: at least one. All zeros: no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Filter {
    /// CPL 3.
    pub user: bool,
    /// CPL 0.
    pub kernel: bool,
}

impl Filter {
    /// Every mode.
    pub const BOTH: Self = Self { user: true, kernel: true };

    /// The filter for the bits of a request; `None` if no mode is set or an unknown bit is.
    #[must_use]
    pub const fn from_wire(bits: u16) -> Option<Self> {
        if bits == 0 || bits & !(Spec::USER | Spec::KERNEL) != 0 {
            return None;
        }
        Some(Self { user: bits & Spec::USER != 0, kernel: bits & Spec::KERNEL != 0 })
    }
}

/// One register and the value written to it; MSR 0 means no register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Register {
    /// MSR number.
    pub msr: u32,
    /// The value; the high half is 0.
    pub value: u32,
}

/// The values written for one counter, without the bit that starts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Encoding {
    /// PERFEVTSEL or PERF_CTL without EN, CCCR without ENABLE, a half of CESR, or a nibble of
    /// IA32_FIXED_CTR_CTRL.
    pub select: u64,
    /// NetBurst: the registers written before the CCCR, in this order; if there are fewer than
    /// three, they are the last. Two sources that write the same register must write the same value.
    pub upstream: [Register; 3],
}

impl Encoding {
    /// An encoding that writes nothing but a select.
    pub(crate) const fn plain(select: u64) -> Self {
        Self { select, upstream: [Register { msr: 0, value: 0 }; 3] }
    }

    /// Whether it writes registers that other sources may write too.
    #[inline]
    pub(crate) fn shares(&self) -> bool {
        let [_, _, escr] = &self.upstream;
        escr.msr != 0
    }

    /// Whether both can be in force at once: they do not want different values in the same
    /// register.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        let ([_, then, escr], [_, other_then, other_escr]) = (&self.upstream, &other.upstream);
        if then.msr | other_then.msr == 0 {
            // The common case: an ESCR and nothing else.
            return escr.msr != other_escr.msr || escr.value == other_escr.value;
        }
        let wanted = self.upstream.iter().filter(|register| register.msr != 0);
        wanted.into_iter().all(|register| {
            other
                .upstream
                .iter()
                .all(|theirs| theirs.msr != register.msr || theirs.value == register.value)
        })
    }
}

/// The encoding of `select` on `side` (NetBurst: 0 even, 1 odd ESCRs), in the modes of `filter`,
/// with or without an interrupt on overflow.
#[must_use]
pub fn encode(
    capabilities: &Capabilities,
    select: &Select,
    side: u8,
    filter: Filter,
    interrupt: bool,
) -> Encoding {
    match *select {
        Select::None => Encoding::default(),
        Select::EventSelect(bits) => Encoding::plain(event_select(bits, filter, interrupt)),
        Select::Fixed(_) => fixed(filter, interrupt),
        Select::Cesr { event, clocks } => Encoding::plain(
            // A row's event has six bits; `with_event` would panic on a larger one.
            CesrHalf::new()
                .with_event_checked(event)
                .unwrap_or_default()
                .with_clocks(clocks)
                .with_usr(filter.user)
                .with_os(filter.kernel)
                .into_bits()
                .into(),
        ),
        Select::NetBurst(event) => netburst(capabilities, &event, side, filter, interrupt),
    }
}

/// An event select in the modes of `filter`, with or without an interrupt on overflow.
#[inline]
#[must_use]
pub fn event_select(bits: u64, filter: Filter, interrupt: bool) -> u64 {
    PerfEvtSel::from_bits(bits)
        .with_usr(filter.user)
        .with_os(filter.kernel)
        .with_int(interrupt)
        .into_bits()
}

/// A fixed counter's nibble of IA32_FIXED_CTR_CTRL.
#[must_use]
pub fn fixed(filter: Filter, interrupt: bool) -> Encoding {
    Encoding::plain(
        FixedControl::new()
            .with_usr(filter.user)
            .with_os(filter.kernel)
            .with_pmi(interrupt)
            .into_bits()
            .into(),
    )
}

fn netburst(
    capabilities: &Capabilities,
    event: &NetBurstSelect,
    side: u8,
    filter: Filter,
    interrupt: bool,
) -> Encoding {
    let second = capabilities.netburst.thread == 1;
    let register = |msr, value| Register { msr, value };
    let modes = |escr: u32| {
        let escr = Escr::from_bits(escr);
        let escr = if second {
            escr.with_t1_usr(filter.user).with_t1_os(filter.kernel)
        } else {
            escr.with_t0_usr(filter.user).with_t0_os(filter.kernel)
        };
        escr.into_bits()
    };
    let [even, odd] = event.escr_msr;
    let escr_msr = u32::from(if side == 0 { even } else { odd });
    let [first, then] = match event.upstream {
        Upstream::None => [Register::default(); 2],
        Upstream::UopType { escr } => {
            [Register::default(), register(RAT_ESCR0 + u32::from(side), modes(escr))]
        }
        Upstream::Replay { pebs_enable, matrix_vert } => {
            [register(PEBS_ENABLE, pebs_enable), register(PEBS_MATRIX_VERT, matrix_vert)]
        }
    };
    let cccr = Cccr::from_bits(event.cccr)
        .with_active_thread(3)
        .with_ovf_pmi_t0(interrupt && !second)
        .with_ovf_pmi_t1(interrupt && second);
    Encoding {
        select: cccr.into_bits().into(),
        upstream: [first, then, register(escr_msr, modes(event.escr))],
    }
}
