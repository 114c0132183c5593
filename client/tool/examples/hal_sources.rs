//! Prints the sources of Windows' HAL as comma-separated values, one row for each source of each
//! interface, with what its select counts on each family. `cargo xtask package` runs it.
//!
//! The first six columns are what a benchmark library needs to offer a source: the interface, Windows'
//! portable counter that has the same select, the source's name in Windows' list, its interval, a name
//! for a report, and whether a higher count is better, which is true of none.

use hal_profile::cpu::generation::AmdGeneration as Amd;
use hal_profile::source::{Row, Select, amd64, amd64_events, default, emon, limits};
use halprof_facts as facts;
use halprof_measure::source::texts::{self, SourceTexts};
use serde::Serialize;
use shared_types::SourceTable;
use std::error::Error;

/// The numbers of KPROFILE_SOURCE below this are the same on every processor (wdm.h).
const FIRST_OF_AN_INTERFACE: u32 = 0x19;

/// The families that amd64-hal-on-zen.csv has columns of, by their names there.
const FAMILIES: [(&str, Amd); 9] = [
    ("K8", Amd::K8),
    ("10h", Amd::Family10h),
    ("15h", Amd::Family15h),
    ("Zen1", Amd::Zen1),
    ("Zen2", Amd::Zen2),
    ("Zen3", Amd::Zen3),
    ("Zen4", Amd::Zen4),
    ("Zen5", Amd::Zen5),
    ("Zen6", Amd::Zen6),
];

/// An interface of the HAL.
struct Interface {
    name: &'static str,
    table: SourceTable,
    rows: &'static [Row],
    /// Whose names of Linux perf name its sources in a report.
    vendor: &'static str,
}

const INTERFACES: [Interface; 3] = [
    Interface { name: "Default", table: SourceTable::Default, rows: default::ROWS, vendor: "" },
    Interface { name: "Emon", table: SourceTable::Emon, rows: emon::ROWS, vendor: "GenuineIntel" },
    Interface {
        name: "Amd64",
        table: SourceTable::Amd64,
        rows: amd64::ROWS,
        vendor: "AuthenticAMD",
    },
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
    k8: String,
    family_10h: String,
    family_15h: String,
    zen1: String,
    zen2: String,
    zen3: String,
    zen4: String,
    zen5: String,
    zen6: String,
    /// Where it counts nothing, or something else than its name says.
    misleading_on: String,
    note: String,
}

impl Interface {
    fn texts(&self, row: &Row) -> Result<&'static SourceTexts, Box<dyn Error>> {
        let found = texts::find(self.table, row.id);
        found.ok_or_else(|| format!("{} does not name {:#x}", self.name, row.id.0).into())
    }

    /// The portable counter with the select of a row, if there is one.
    fn generic_counter(&self, row: &Row) -> Result<&'static str, Box<dyn Error>> {
        let portable = self.rows.iter().filter(|one| one.id.0 < FIRST_OF_AN_INTERFACE);
        let mut same = portable.filter(|one| one.id == row.id || one.select == row.select);
        // ProfileTime's select is never programmed.
        let same = same.find(|one| (one.id.0 == 0) == (row.id.0 == 0));
        same.map_or(Ok(""), |one| Ok(self.texts(one)?.name))
    }

    /// Linux perf's name of what a source counts, or else the source's own.
    fn short_name(&self, row: &Row) -> Result<String, Box<dyn Error>> {
        let (own, generic) = (self.texts(row)?.name, self.generic_counter(row)?);
        let aliases = include_str!("../../measure/data/aliases.csv");
        for alias in csv::Reader::from_reader(aliases.as_bytes()).deserialize() {
            let [names, vendor, tables, target, _source]: [String; 5] = alias?;
            let same = target == own || target == generic;
            let name = names.split(' ').next().filter(|name| name.starts_with(char::is_lowercase));
            if let Some(name) = name.filter(|_| same && vendor == self.vendor && tables.is_empty())
            {
                return Ok(name.to_owned());
            }
        }
        Ok(own.to_owned())
    }

    fn line(&self, row: &Row, meanings: &[facts::Row]) -> Result<Line, Box<dyn Error>> {
        let texts = self.texts(row)?;
        let select = match row.select {
            Select::EventSelect(bits) => Some(bits),
            _ => None,
        };
        let amd = select.filter(|_| self.name == "Amd64");
        let (event, unit_mask) =
            amd.map_or((0, 0), |bits| ((bits & 0xFF) as u16, (bits >> 8) as u8));
        let is_of_row = |meaning: &&facts::Row| meaning["symbol"] == texts.symbol;
        let meaning = amd.and_then(|_| meanings.iter().find(is_of_row));
        let column = |name: &str| match meaning.map_or("", |meaning| &meaning[name]) {
            "-" => String::new(),
            text => text.to_owned(),
        };
        let misleading = FAMILIES.into_iter().filter(|&(_, family)| {
            amd.is_some()
                && row.id.0 != 0
                && (amd64_events::counts_something_else(family, event)
                    || amd64_events::mask_selects_nothing(family, event, unit_mask))
        });
        let misleading: Vec<String> = misleading.map(|(_, family)| format!("{family:?}")).collect();
        let [k8, family_10h, family_15h, zen1, zen2, zen3, zen4, zen5, zen6] =
            FAMILIES.map(|(name, _)| column(name));
        Ok(Line {
            interface: self.name,
            generic_counter: self.generic_counter(row)?,
            profile_source: texts.name,
            default_interval: limits(row.id).default,
            short_name: self.short_name(row)?,
            higher_is_better: "no",
            id: format!("{:#04x}", row.id.0),
            select: select.map_or_else(String::new, |bits| format!("{bits:#010x}")),
            intel: if self.name == "Emon" { texts.counts } else { "" },
            k8,
            family_10h,
            family_15h,
            zen1,
            zen2,
            zen3,
            zen4,
            zen5,
            zen6,
            misleading_on: misleading.join(" "),
            note: meaning.map_or_else(|| texts.note.to_owned(), |_| column("verdict_on_zen")),
        })
    }
}

/// The whole table.
pub(crate) fn table() -> Result<String, Box<dyn Error>> {
    // What the select of a source of Amd64 counts.
    let meanings = facts::table("amd64-hal-on-zen");
    let mut writer = csv::Writer::from_writer(Vec::new());
    for interface in &INTERFACES {
        for row in interface.rows {
            writer.serialize(interface.line(row, &meanings)?)?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", table()?);
    Ok(())
}
