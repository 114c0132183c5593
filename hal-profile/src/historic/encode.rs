//! The register values of Pentium and NetBurst.

use crate::cpu::counter::Counter;
use crate::historic::registers::netburst::{
    Cccr, Escr, ODD_SIDE, PEBS_ENABLE, PEBS_MATRIX_VERT, RAT_ESCR0,
};
use crate::historic::registers::pentium::CesrHalf;
use crate::historic::select::Upstream as Tag;
use crate::historic::select::{NetBurst, NetBurstSelect, Select};
use crate::source::filter::Filter;
use zerocopy::FromZeros;

/// One register and the value written to it; MSR 0 means no register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Register {
    /// MSR number.
    pub msr: u32,
    /// The value; the high half is 0.
    pub value: u32,
}

/// The registers written before a CCCR, in this order; if there are fewer than three, they are the
/// last. Two sources that write the same register must write the same value.
pub type Registers = [Register; 3];

/// The registers that a source writes before its CCCR, on a counter that an even ESCR feeds and on
/// one that an odd ESCR does. All zeros: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Upstream {
    /// With the even ESCR.
    pub even: Registers,
    /// With the odd one.
    pub odd: Registers,
}

impl Upstream {
    /// The registers to write for a counter.
    pub fn registers(&self, counter: Counter) -> &Registers {
        if u64::from(ODD_SIDE) & counter.global_bit() == 0 { &self.even } else { &self.odd }
    }

    /// Whether there are any, which other sources may write too.
    pub fn shares(&self) -> bool {
        *self != Self::default()
    }

    /// Whether two sources can run at once on these counters: they do not want different values in
    /// the same register.
    pub fn agrees(&self, counter: Counter, other: &Self, theirs: Counter) -> bool {
        let others = other.registers(theirs);
        self.registers(counter).iter().all(|ours| {
            let same = |other: &&Register| ours.msr != 0 && other.msr == ours.msr;
            others.iter().filter(same).all(|other| other.value == ours.value)
        })
    }
}

/// The value of a half of CESR or of a CCCR without ENABLE, and what is written before it.
pub fn encode(
    processor: NetBurst,
    select: Select,
    filter: Filter,
    interrupt: bool,
) -> (u64, Upstream) {
    match select {
        // A row's event has six bits; `with_event` would panic on a larger one.
        Select::Cesr { event, clocks } => {
            let half = CesrHalf::new().with_event_checked(event).unwrap_or_default();
            let half = half.with_clocks(clocks).with_usr(filter.user).with_os(filter.kernel);
            (half.into_bits().into(), Upstream::default())
        }
        Select::NetBurst(event) => {
            let second = processor.thread == 1;
            let cccr = Cccr::from_bits(event.cccr)
                .with_active_thread(3)
                // Each thread has its own bit, so that the interrupt goes to the thread that
                // samples.
                .with_ovf_pmi_t0(interrupt && !second)
                .with_ovf_pmi_t1(interrupt && second);
            let [even, odd] = [0, 1].map(|side| registers(second, &event, side, filter));
            (cccr.into_bits().into(), Upstream { even, odd })
        }
    }
}

/// The registers on one side: 0 for even ESCRs, 1 for odd; none if that side cannot count the event.
fn registers(second: bool, event: &NetBurstSelect, side: u32, filter: Filter) -> Registers {
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
    if escr_msr == 0 {
        return Registers::default();
    }
    let [first, then] = match event.upstream {
        Tag::None => [Register::default(); 2],
        Tag::UopType { escr } => [Register::default(), register(RAT_ESCR0 + side, modes(escr))],
        Tag::Replay { pebs_enable, matrix_vert } => {
            [register(PEBS_ENABLE, pebs_enable), register(PEBS_MATRIX_VERT, matrix_vert)]
        }
    };
    [first, then, register(escr_msr, modes(event.escr))]
}
