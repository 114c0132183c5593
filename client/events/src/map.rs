//! Which table of events a processor has: the first row of `data/map.csv` that matches on Intel's,
//! the row of `data/amd-generations.csv` on AMD's.

use super::Cpu;
use super::hex;

/// The models of a family and, on hybrid machines, the core type and its native model.
struct TableRule {
    vendor: &'static str,
    family: u32,
    models: (u32, u32),
    steppings: (u32, u32),
    table: &'static str,
    core_type: Option<u32>,
    native_model: Option<u32>,
}

/// The table's name; `None` if no row matches.
pub(super) fn table_of(cpu: &Cpu) -> Option<&'static str> {
    let rows = || {
        let intel = include_str!("../data/map.csv").lines().skip(1).filter_map(TableRule::of);
        let amd = include_str!("../data/amd-generations.csv").lines().skip(1);
        intel.chain(amd.filter_map(TableRule::of_amd)).filter(|row| row.fits(cpu))
    };
    let native = |row: &TableRule| row.native_model == Some(cpu.native_model);
    // If no row has this native model, the core type decides, as it does in Linux perf.
    let exact = rows().find(|row| row.core_type.is_none() || native(row));
    let row = exact.or_else(|| rows().next())?;
    Some(row.table).filter(|table| !table.is_empty())
}

/// Whether it is one of AMD's models whose generation is known, with a table of events or without.
pub(super) fn is_amd_model(cpu: &Cpu) -> bool {
    let lines = include_str!("../data/amd-generations.csv").lines().skip(1);
    lines.filter_map(TableRule::of_amd).any(|row| row.fits(cpu))
}

impl TableRule {
    fn of(line: &'static str) -> Option<Self> {
        let mut cells = line.split(',');
        let mut next = || cells.next();
        Some(Self {
            vendor: next()?,
            family: hex(next()?)?,
            models: range(next()?)?,
            steppings: range(next()?).unwrap_or((0, u32::MAX)),
            table: next()?,
            core_type: hex(next()?),
            native_model: hex(next()?),
        })
    }

    /// Family, first and last model, generation, core, table, which may be empty.
    fn of_amd(line: &'static str) -> Option<Self> {
        let mut cells = line.split(',');
        let mut number = || hex(cells.next()?);
        let (family, models) = (number()?, (number()?, number()?));
        Some(Self {
            vendor: "AuthenticAMD",
            family,
            models,
            steppings: (0, u32::MAX),
            table: cells.nth(2)?,
            core_type: None,
            native_model: None,
        })
    }

    fn fits(&self, cpu: &Cpu) -> bool {
        let within = |(low, high): (u32, u32), value: u32| (low..=high).contains(&value);
        self.vendor.as_bytes() == cpu.vendor
            && self.family == u32::from(cpu.family)
            && within(self.models, cpu.model.into())
            && within(self.steppings, cpu.stepping.into())
            && self.core_type.is_none_or(|core_type| core_type == u32::from(cpu.core_type))
    }
}

/// `0x10-0x1F`, or one number.
fn range(cell: &str) -> Option<(u32, u32)> {
    match cell.split_once('-') {
        Some((low, high)) => Some((hex(low)?, hex(high)?)),
        None => hex(cell).map(|one| (one, one)),
    }
}
