//! The counts of each instruction, as a table, CSV and JSON.

use super::{Body, NOT_SIMULATED};
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::escape::Shown;
use crate::output::number::thousands;
use crate::output::table::{Column, Width, cell as csv_cell, table};
use halprof_profile::symbols::Executable;
use halprof_simulate::simulation::cache::Geometry;
use halprof_simulate::simulation::{Counts, Row, Simulation};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One instruction, as it is shown.
pub(super) struct Line {
    /// The address in the program's file.
    address: u64,
    row: Row,
    source: Option<(String, u32)>,
    pub(super) counts: Counts,
}

/// The counts of an instruction or a source line.
#[derive(JsonSchema, Serialize)]
struct Counted {
    executions: u64,
    /// Iterations of a REP, which is one execution.
    iterations: u64,
    /// How often it branched elsewhere than to the next instruction.
    taken: u64,
    reads: u64,
    writes: u64,
    bytes: u64,
    misaligned: u64,
    /// Accesses whose address is not known: gathers and scatters.
    unknown: u64,
    /// What is modelled, by the names in `modelled_columns`.
    modelled: BTreeMap<String, u64>,
}

#[derive(JsonSchema, Serialize)]
pub(super) struct Executed {
    /// The address in the program's file.
    address: String,
    instruction: String,
    code: String,
    file: Option<String>,
    line: Option<u32>,
    #[serde(flatten)]
    counted: Counted,
}

#[derive(JsonSchema, Serialize)]
pub(super) struct SourceLine {
    file: String,
    line: u32,
    #[serde(flatten)]
    counted: Counted,
}

pub(super) fn lines(simulation: &Simulation, executable: &Executable, base: u64) -> Vec<Line> {
    let rows = simulation.rows().into_iter();
    let lines = rows.map(|row| {
        let relative = row.address.wrapping_sub(base);
        Line {
            address: executable.base().wrapping_add(relative),
            source: executable.line(relative),
            counts: row.counts.clone(),
            row,
        }
    });
    lines.collect()
}

/// The columns that are modelled, not exact.
pub(super) fn modelled(caches: &[Geometry]) -> Vec<String> {
    caches.iter().map(misses_of).collect()
}

fn misses_of(cache: &Geometry) -> String {
    format!("{}_misses", cache.name().to_lowercase())
}

impl Counted {
    fn of(counts: &Counts, caches: &[Geometry]) -> Self {
        let misses = caches.iter().map(misses_of).zip(counts.misses.clone());
        Self {
            executions: counts.executions,
            iterations: counts.iterations,
            taken: counts.taken,
            reads: counts.reads,
            writes: counts.writes,
            bytes: counts.bytes,
            misaligned: counts.misaligned,
            unknown: counts.unknown,
            modelled: misses.collect(),
        }
    }
}

pub(super) fn by_instruction(lines: &[Line], caches: &[Geometry]) -> Vec<Executed> {
    let rows = lines.iter().map(|line| {
        let code = line.row.bytes.iter();
        let (file, number) = line.source.clone().unzip();
        Executed {
            address: format!("{:#x}", line.address),
            instruction: line.row.text.clone(),
            code: code.fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
            file,
            line: number,
            counted: Counted::of(&line.counts, caches),
        }
    });
    rows.collect()
}

/// The sums of source lines, in the order of the code.
fn sums(lines: &[Line]) -> Vec<(&(String, u32), Counts)> {
    let mut sums: Vec<(&(String, u32), Counts)> = Vec::new();
    for line in lines {
        let Some(source) = &line.source else {
            continue;
        };
        match sums.iter_mut().find(|(known, _)| *known == source) {
            Some((_, sum)) => sum.add(&line.counts),
            None => sums.push((source, line.counts.clone())),
        }
    }
    sums
}

pub(super) fn by_line(lines: &[Line], caches: &[Geometry]) -> Vec<SourceLine> {
    let rows = sums(lines).into_iter();
    let rows = rows.map(|((file, line), counts)| SourceLine {
        file: file.clone(),
        line: *line,
        counted: Counted::of(&counts, caches),
    });
    rows.collect()
}

pub(super) fn csv(body: &Body, by_line: bool) -> Result<String> {
    let rows =
        if by_line { serde_json::to_value(&body.lines) } else { serde_json::to_value(&body.rows) };
    let rows: Vec<Map<String, Value>> =
        rows.and_then(serde_json::from_value).map_err(Error::internal)?;
    let mut writer = csv::Writer::from_writer(Vec::new());
    let modelled = body.modelled_columns.iter().map(String::as_str);
    let exact = rows.first().into_iter().flat_map(Map::keys);
    let exact = exact.map(String::as_str).filter(|&name| name != "modelled");
    let heads: Vec<&str> = exact.chain(modelled).collect();
    let all = heads.iter().copied().chain(["modelled"]);
    writer.write_record(all).map_err(Error::internal)?;
    for row in &rows {
        let cell = |name: &&str| csv_cell(row.get(*name).unwrap_or(&row["modelled"][*name]));
        // The program ran here, whatever the columns of `modelled_columns` say.
        let cells = heads.iter().map(cell).chain(["false".to_owned()]);
        writer.write_record(cells).map_err(Error::internal)?;
    }
    let bytes = writer.into_inner().map_err(Error::internal)?;
    String::from_utf8(bytes).map_err(Error::internal)
}

const COUNTED: [Column; 7] = [
    Column::number("executed"),
    Column::number("iterations").extra(),
    Column::number("taken"),
    Column::number("reads"),
    Column::number("writes"),
    Column::number("bytes"),
    Column::number("misaligned").extra(),
];

/// The headers of the caches' columns, as many as any processor has caches.
const CACHES: [(&str, Column); 5] = [
    ("L1D", Column::number("L1D*")),
    ("L1I", Column::number("L1I*")),
    ("L2", Column::number("L2*")),
    ("L3", Column::number("L3*")),
    ("L4", Column::number("L4*")),
];

/// A count; empty for 0, so that the others stand out.
fn cell(count: u64) -> String {
    if count == 0 { String::new() } else { thousands(count) }
}

fn cells(counts: &Counts, caches: &[Geometry]) -> Vec<String> {
    let mut cells = vec![
        thousands(counts.executions),
        cell(counts.iterations),
        cell(counts.taken),
        cell(counts.reads),
        cell(counts.writes),
        cell(counts.bytes),
        cell(counts.misaligned),
    ];
    cells.extend(CACHES.iter().map(|(name, _)| {
        let index = caches.iter().position(|cache| cache.name() == *name);
        let misses = index.and_then(|index| counts.misses.get(index).copied());
        cell(misses.unwrap_or(0))
    }));
    cells
}

pub(super) fn text(
    body: &Body,
    lines: &[Line],
    caches: &[Geometry],
    by_line: bool,
    width: Width,
) -> String {
    let mut columns = COUNTED.to_vec();
    columns.extend(CACHES.map(|(_, column)| column.extra()));
    let mut text = head(body, width);
    text += "\n";
    if by_line {
        columns.push(Column::name("line"));
        let rows = sums(lines).into_iter().map(|((file, line), counts)| {
            let mut row = cells(&counts, caches);
            row.push(Shown(format!("{file}:{line}")).to_string());
            row
        });
        text += &table(width, &columns, rows);
    } else {
        columns.extend([
            Column::word("address"),
            Column::name("instruction"),
            Column::name("line").extra(),
        ]);
        let mut last = None;
        let rows = lines.iter().map(|line| {
            let mut row = cells(&line.counts, caches);
            row.extend([format!("{:x}", line.address), Shown(&line.row.text).to_string()]);
            let source = line.source.as_ref().filter(|&source| last != Some(source));
            last = line.source.as_ref();
            row.push(source.map_or_else(String::new, |(file, line)| {
                Shown(format!("{file}:{line}")).to_string()
            }));
            row
        });
        text += &table(width, &columns, rows);
    }
    text + &footer(body, width)
}

fn head(body: &Body, width: Width) -> String {
    let name = body.symbol.as_ref().unwrap_or(&body.start);
    let name = Shown(format!("{}!{name}", body.module)).to_string();
    let times = |count: u64, one: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{} {one}{plural}", thousands(count))
    };
    let calls = match body.calls {
        0 => String::new(),
        n => format!("; {} out of it ran at full speed", times(n, "call")),
    };
    let told = format!(
        "{} in {}{calls}. The counts are exact.",
        times(body.instructions, "instruction"),
        times(body.arrivals, "pass").replace("passs", "passes"),
    );
    let range = format!("at {}, {} bytes", body.start, thousands(body.length));
    format!("{} {range}\n{}\n", width.left(range.len() + 1, &name), width.prose(0, &told))
}

fn footer(body: &Body, width: Width) -> String {
    let caches = body.caches.iter().map(|cache| {
        format!(
            "{} {} KiB {}-way: misses {} of {}",
            cache.name,
            cache.bytes >> 10,
            cache.ways,
            thousands(cache.misses),
            thousands(cache.accesses)
        )
    });
    let caches = caches.collect::<Vec<_>>().join("; ");
    let caches = if caches.is_empty() {
        "no caches: CPUID reports none".to_owned()
    } else {
        format!("caches like {}, empty at the start ({caches})", Shown(&body.processor))
    };
    let told = [format!("* modelled: {caches}."), format!("Not simulated: {NOT_SIMULATED}.")];
    told.iter().fold("\n".to_owned(), |text, told| text + &width.prose(0, told) + "\n")
}
