//! The register values that make a counter count: pure functions, so they can be tested without a
//! machine.

use crate::cpu::capabilities::Capabilities;
use crate::cpu::registers::intel::{FixedControl, PerfEvtSel};
use crate::historic::encode as historic;
use crate::source::Select;
use crate::source::filter::Filter;
use zerocopy::FromZeros;

/// The values written for one source, without the bit that starts its counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub struct Encoding {
    /// PERFEVTSEL or PERF_CTL without EN, or a nibble of IA32_FIXED_CTR_CTRL.
    pub select: u64,
    /// What is written besides on historic processors.
    pub upstream: historic::Upstream,
}

impl Encoding {
    /// An encoding that writes nothing but a select.
    fn plain(select: u64) -> Self {
        Self { select, ..Self::default() }
    }
}

/// The encoding of `select` in the modes of `filter`, with or without an interrupt on overflow.
pub fn encode(
    capabilities: &Capabilities,
    select: &Select,
    filter: Filter,
    interrupt: bool,
) -> Encoding {
    match *select {
        Select::None => Encoding::default(),
        Select::EventSelect(bits) => Encoding::plain(event_select(bits, filter, interrupt)),
        Select::Fixed(_) => fixed(filter, interrupt),
        Select::Historic(select) => {
            let (select, upstream) =
                historic::encode(capabilities.netburst, select, filter, interrupt);
            Encoding { select, upstream }
        }
    }
}

/// An event select in the modes of `filter`, with or without an interrupt on overflow.
fn event_select(bits: u64, filter: Filter, interrupt: bool) -> u64 {
    PerfEvtSel::from_bits(bits)
        .with_usr(filter.user)
        .with_os(filter.kernel)
        .with_int(interrupt)
        .into_bits()
}

/// A fixed counter's nibble of IA32_FIXED_CTR_CTRL.
pub fn fixed(filter: Filter, interrupt: bool) -> Encoding {
    let nibble =
        FixedControl::new().with_usr(filter.user).with_os(filter.kernel).with_pmi(interrupt);
    Encoding::plain(nibble.into_bits().into())
}
