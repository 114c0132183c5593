//! The vendors' events on a machine's processors, their other names, and events of a user's list.

pub(crate) mod file;

pub use halprof_events::{Basis, Event, Meaning, Microarchitecture};

use halprof_events::Cpu;
use serde::Deserialize;
use shared_types::ProfileInterface;
use shared_types::request::machine::Processor;
use std::sync::LazyLock;

/// MSR_OFFCORE_RSP_0 says what events B7h and BBh with unit mask 01h count, which Intel's lists do
/// not mark (SDM vol. 3, "Off-core Response Performance Monitoring").
pub(crate) const OFFCORE_RSP_0: u32 = 0x1A6;

/// The microarchitecture of a processor; `None` if its events are not known.
pub fn microarchitecture(processor: &Processor) -> Option<&'static Microarchitecture> {
    Microarchitecture::of(&cpu(processor))
}

const fn cpu(processor: &Processor) -> Cpu {
    let Processor { vendor, family, model, stepping, core_type, native_model, .. } = *processor;
    Cpu { vendor, family, model, stepping, core_type, native_model }
}

/// Whether this is a model whose events nobody here knows: one of AMD's outside the known ranges, or
/// one of Intel's with architectural monitoring and without a list of events. `None` where it is not;
/// otherwise its name by vendor, family and model.
pub fn unknown_model(processor: &Processor) -> Option<String> {
    let Processor { family, model, .. } = *processor;
    let vendor = match ProfileInterface::from_wire(processor.interface)? {
        ProfileInterface::Amd64 if !cpu(processor).is_known_amd() => "AMD",
        ProfileInterface::Emon if microarchitecture(processor).is_none() => "Intel",
        _ => return None,
    };
    Some(format!("{vendor} family {family:02X}h model {model:02X}h"))
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

/// A row of the table of other names; names and tables are separated by spaces.
#[derive(Deserialize)]
struct AliasRow {
    names: String,
    vendor: String,
    /// The microarchitectures that it is for; empty for all of the vendor's.
    tables: String,
    target: String,
    source: String,
}

static ALIASES: LazyLock<Vec<AliasRow>> = LazyLock::new(|| {
    let text = include_str!("../data/aliases.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten().collect()
});

/// The other names that are valid on any processor.
pub(crate) fn all_aliases() -> impl Iterator<Item = Alias> {
    ALIASES.iter().flat_map(|AliasRow { names, target, source, .. }| {
        names.split(' ').map(move |name| Alias { name, target, source })
    })
}

/// The other names that are valid on a processor.
pub(crate) fn aliases(processor: &Processor) -> impl Iterator<Item = Alias> + use<> {
    let table = microarchitecture(processor).map(|one| one.table);
    let vendor = processor.vendor;
    let fits = move |row: &&AliasRow| {
        (row.vendor.is_empty() || row.vendor.as_bytes() == vendor)
            && (row.tables.is_empty() || row.tables.split(' ').any(|one| Some(one) == table))
    };
    ALIASES.iter().filter(fits).flat_map(|AliasRow { names, target, source, .. }| {
        names.split(' ').map(move |name| Alias { name, target, source })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The select that an origin ends with, if it is one.
    fn cited(source: &str) -> Option<u64> {
        let (_, code) = source.rsplit_once(": ")?;
        u64::from_str_radix(code, 16).ok().filter(|_| code.len() == 4)
    }

    #[test]
    fn a_name_of_linux_perf_stands_for_the_select_that_it_cites() {
        let mut compared = 0;
        for row in &*ALIASES {
            let Some(cited) = cited(&row.source) else { continue };
            for table in row.tables.split(' ').filter(|table| !table.is_empty()) {
                let mut all = Microarchitecture::all().iter();
                let own = all.find(|one| one.table == table).expect("a table");
                let raw =
                    row.target.strip_prefix('r').and_then(|hex| u64::from_str_radix(hex, 16).ok());
                let select = raw.or_else(|| Some(own.event(&row.target)?.select()));
                // The HAL's own sources are compared with Linux elsewhere.
                let Some(select) = select else { continue };
                assert_eq!(select & 0xFFFF, cited, "{} on {table}", row.names);
                compared += 1;
            }
        }
        assert!(compared > 100, "{compared}");
    }
}
