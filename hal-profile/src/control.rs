//! The values that make a counter count: pure, so that they can be tested without a machine.

use crate::capabilities::Capabilities;
use crate::registers::intel::{FixedControl, PerfEvtSel};
use crate::registers::netburst::{Cccr, Escr, RAT_ESCR0};
use crate::registers::pentium::CesrHalf;
use crate::source::{NetBurstSelect, Select, Upstream};
use shared_types::request::session::Spec;

/// In which modes a source counts; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// CPL 3.
    pub user: bool,
    /// CPL 0.
    pub kernel: bool,
}

impl Filter {
    /// The filter of a request's bits; `None` for no mode at all or unknown bits.
    #[must_use]
    pub const fn from_wire(bits: u16) -> Option<Self> {
        match bits {
            Spec::USER => Some(Self {
                user: true,
                kernel: false,
            }),
            Spec::KERNEL => Some(Self {
                user: false,
                kernel: true,
            }),
            3 => Some(Self {
                user: true,
                kernel: true,
            }),
            _ => None,
        }
    }
}

/// What is written for one counter, without the bit that starts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// PERFEVTSEL or PERF_CTL without EN, CCCR without ENABLE, a half of CESR, or a nibble of
    /// IA32_FIXED_CTR_CTRL.
    pub select: u64,
    /// NetBurst's registers before the CCCR, in the order of writing; MSR 0 is none.
    pub before: [(u32, u64); 3],
}

/// The control value for `select` on `side` (NetBurst: 0 even, 1 odd ESCRs), in the modes of
/// `filter`, with or without an interrupt on overflow.
#[must_use]
pub fn control(
    capabilities: &Capabilities,
    select: &Select,
    side: u8,
    filter: Filter,
    interrupt: bool,
) -> Control {
    match *select {
        Select::None => Control::default(),
        Select::EventSelect(bits) => plain(
            PerfEvtSel::from_bits(bits)
                .with_usr(filter.user)
                .with_os(filter.kernel)
                .with_int(interrupt)
                .into_bits(),
        ),
        Select::Fixed(_) => plain(
            FixedControl::new()
                .with_usr(filter.user)
                .with_os(filter.kernel)
                .with_pmi(interrupt)
                .into_bits()
                .into(),
        ),
        Select::Cesr { event, clocks } => plain(
            // An event of a row has six bits; `with_event` would panic on others.
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

fn plain(select: u64) -> Control {
    Control {
        select,
        before: [(0, 0); 3],
    }
}

fn netburst(
    capabilities: &Capabilities,
    event: &NetBurstSelect,
    side: u8,
    filter: Filter,
    interrupt: bool,
) -> Control {
    let second = capabilities.netburst.thread == 1;
    let modes = |escr: u32| {
        let escr = Escr::from_bits(escr);
        let escr = if second {
            escr.with_t1_usr(filter.user).with_t1_os(filter.kernel)
        } else {
            escr.with_t0_usr(filter.user).with_t0_os(filter.kernel)
        };
        u64::from(escr.into_bits())
    };
    let [even, odd] = event.escr_msr;
    let escr_msr = u32::from(if side == 0 { even } else { odd });
    let [first, then] = match event.upstream {
        Upstream::None => [(0, 0); 2],
        Upstream::UopType { escr } => [(RAT_ESCR0 + u32::from(side), modes(escr)), (0, 0)],
        Upstream::Replay {
            pebs_enable,
            matrix_vert,
        } => [
            (crate::registers::netburst::PEBS_ENABLE, pebs_enable.into()),
            (
                crate::registers::netburst::PEBS_MATRIX_VERT,
                matrix_vert.into(),
            ),
        ],
    };
    let cccr = Cccr::from_bits(event.cccr)
        .with_active_thread(3)
        .with_ovf_pmi_t0(interrupt && !second)
        .with_ovf_pmi_t1(interrupt && second);
    Control {
        select: cccr.into_bits().into(),
        before: [first, then, (escr_msr, modes(event.escr))],
    }
}
