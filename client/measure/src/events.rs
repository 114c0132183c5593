//! The vendors' events on a machine's processors, their other names, and events of a user's list.

pub(crate) mod file;

pub use halprof_events::{Event, Microarchitecture};

use halprof_events::Cpu;
use shared_types::request::machine::Processor;

/// MSR_OFFCORE_RSP_0 says what events B7h and BBh with unit mask 01h count, which Intel's lists do
/// not mark (SDM vol. 3, "Off-core Response Performance Monitoring").
pub(crate) const OFFCORE_RSP_0: u32 = 0x1A6;

/// That of a processor; `None` where its events are not known.
pub fn microarchitecture(processor: &Processor) -> Option<&'static Microarchitecture> {
    let Processor { vendor, family, model, stepping, core_type, native_model, .. } = *processor;
    Microarchitecture::of(&Cpu { vendor, family, model, stepping, core_type, native_model })
}

/// Another name, from Linux perf or from Windows, for something that a machine counts.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The name, in the spelling of its origin.
    pub name: &'static str,
    /// A source's or an event's name, or `rHEX`; empty if nothing here counts it.
    pub target: &'static str,
    /// The origin of the name, or why nothing counts it.
    pub source: &'static str,
}

/// The other names that are valid on a processor.
pub(crate) fn aliases(processor: &Processor) -> impl Iterator<Item = Alias> + use<> {
    let table = microarchitecture(processor).map(|one| one.table);
    let vendor = processor.vendor;
    let rows = include_str!("../data/aliases.csv").lines().skip(1);
    rows.filter_map(move |row| {
        let mut cells = row.splitn(5, ',');
        let mut next = || cells.next();
        let (names, row_vendor, tables, target, source) =
            (next()?, next()?, next()?, next()?, next()?);
        let fits = row_vendor.as_bytes() == vendor
            && (tables.is_empty() || tables.split(' ').any(|one| Some(one) == table));
        let source = source.trim_matches('"');
        fits.then(|| {
            let names = names.split(' ');
            names.map(move |name| Alias { name, target, source })
        })
    })
    .flatten()
}
