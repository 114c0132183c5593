//! Prints the sources of Windows' HAL as comma-separated values, one row for each source of each
//! interface, with what its select counts on each family. `cargo xtask package` runs it.
//!
//! The first six columns are what a benchmark library needs to offer a source: the interface, Windows'
//! portable counter that has the same select, the source's name in Windows' list, its interval, a name
//! for a report, and whether a higher count is better, which is true of none.

use hal_profile::cpu::generation::AmdGeneration as Amd;
use hal_profile::source::{Row, Select, amd64, amd64_events, default, emon, limits};
use serde::Serialize;
use std::error::Error;

/// The numbers of KPROFILE_SOURCE below this are the same on every processor (wdm.h).
const FIRST_OF_AN_INTERFACE: u32 = 0x19;

const FAMILIES: [Amd; 8] = [
    Amd::K8,
    Amd::Family10h,
    Amd::Family15h,
    Amd::Zen1,
    Amd::Zen2,
    Amd::Zen3,
    Amd::Zen4,
    Amd::Zen5,
];

/// An interface of the HAL.
struct Interface {
    name: &'static str,
    rows: &'static [Row],
    /// Whose names of Linux perf name its sources in a report.
    vendor: &'static str,
}

const INTERFACES: [Interface; 3] = [
    Interface { name: "Default", rows: default::ROWS, vendor: "" },
    Interface { name: "Emon", rows: emon::ROWS, vendor: "GenuineIntel" },
    Interface { name: "Amd64", rows: amd64::ROWS, vendor: "AuthenticAMD" },
];

#[derive(Serialize)]
struct Line {
    interface: &'static str,
    generic_counter: &'static str,
    profile_source: &'static str,
    default_interval: u32,
    short_name: String,
    higher_is_better: &'static str,
    id: String,
    select: String,
    /// On Intel, where the architecture defines the events.
    intel: &'static str,
    k8: &'static str,
    family_10h: &'static str,
    family_15h: &'static str,
    zen1: &'static str,
    zen2: &'static str,
    zen3: &'static str,
    zen4: &'static str,
    zen5: &'static str,
    /// Where it counts nothing, or something else than its name says.
    misleading_on: String,
    note: &'static str,
}

impl Interface {
    /// The portable counter with the select of a row, if there is one.
    fn generic_counter(&self, row: &Row) -> &'static str {
        let portable = self.rows.iter().filter(|one| one.id.0 < FIRST_OF_AN_INTERFACE);
        let mut same = portable.filter(|one| one.id == row.id || one.select() == row.select());
        // ProfileTime's select is never programmed.
        same.find(|one| (one.id.0 == 0) == (row.id.0 == 0)).map_or("", Row::name)
    }

    /// Linux perf's name of what a source counts, or else the source's own.
    fn short_name(&self, row: &Row) -> Result<String, Box<dyn Error>> {
        let aliases = include_str!("../../measure/data/aliases.csv");
        for alias in csv::Reader::from_reader(aliases.as_bytes()).deserialize() {
            let [names, vendor, tables, target, _source]: [String; 5] = alias?;
            let same = target == row.name() || target == self.generic_counter(row);
            let name = names.split(' ').next().filter(|name| name.starts_with(char::is_lowercase));
            if let Some(name) = name.filter(|_| same && vendor == self.vendor && tables.is_empty())
            {
                return Ok(name.to_owned());
            }
        }
        Ok(row.name().to_owned())
    }

    fn line(&self, row: &'static Row) -> Result<Line, Box<dyn Error>> {
        let select = match row.select() {
            Select::EventSelect(bits) => Some(bits),
            _ => None,
        };
        let amd = select.filter(|_| self.name == "Amd64");
        let (event, unit_mask) =
            amd.map_or((0, 0), |bits| ((bits & 0xFF) as u16, (bits >> 8) as u8));
        let meaning = |family| amd.and_then(|_| amd64_events::meaning(family, event)).unwrap_or("");
        let misleading = FAMILIES.into_iter().filter(|&family| {
            amd.is_some()
                && row.id.0 != 0
                && (amd64_events::counts_something_else(family, event)
                    || amd64_events::mask_selects_nothing(family, event, unit_mask))
        });
        let misleading: Vec<String> = misleading.map(|family| format!("{family:?}")).collect();
        let [k8, family_10h, family_15h, zen1, zen2, zen3, zen4, zen5] = FAMILIES.map(meaning);
        Ok(Line {
            interface: self.name,
            generic_counter: self.generic_counter(row),
            profile_source: row.name(),
            default_interval: limits(row.id).default,
            short_name: self.short_name(row)?,
            higher_is_better: "no",
            id: format!("{:#04x}", row.id.0),
            select: select.map_or_else(String::new, |bits| format!("{bits:#010x}")),
            intel: if self.name == "Emon" { row.counts() } else { "" },
            k8,
            family_10h,
            family_15h,
            zen1,
            zen2,
            zen3,
            zen4,
            zen5,
            misleading_on: misleading.join(" "),
            note: amd.and_then(|_| amd64_events::verdict(event)).unwrap_or_else(|| row.note()),
        })
    }
}

/// The whole table.
pub(crate) fn table() -> Result<String, Box<dyn Error>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for interface in &INTERFACES {
        for row in interface.rows {
            writer.serialize(interface.line(row)?)?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", table()?);
    Ok(())
}
