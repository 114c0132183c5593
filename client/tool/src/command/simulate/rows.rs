//! The counts of each instruction, as a table, CSV and JSON.

use super::mca::Model;
use super::{Body, MISPREDICTED, NOT_SIMULATED};
use crate::number::thousands;
use crate::shown::Shown;
use crate::table::{Column, Width, table};
use crate::{Error, Result};
use halprof_profile::simulation::cache::Geometry;
use halprof_profile::simulation::{Counts, Row, Simulation};
use halprof_profile::symbols::Executable;
use serde_json::{Map, Value, json};

/// One instruction, as it is shown.
pub(super) struct Line {
    /// The address in the program's file.
    address: u64,
    row: Row,
    source: Option<(String, u32)>,
    pub(super) counts: Counts,
    /// The scheduling model's figures: micro-operations, latency, reciprocal throughput.
    scheduled: Option<[f64; 3]>,
}

/// The names of llvm-mca's figures.
const SCHEDULED: [&str; 3] = ["mca_uops", "mca_latency", "mca_throughput"];

pub(super) fn lines(
    simulation: &Simulation,
    executable: &Executable,
    base: u64,
    model: Option<&Model>,
) -> Vec<Line> {
    let rows = simulation.rows().into_iter();
    let lines = rows.map(|row| {
        let relative = row.address.wrapping_sub(base);
        Line {
            address: executable.module().start.wrapping_add(relative),
            source: executable.line(relative),
            counts: row.counts.clone(),
            scheduled: model.and_then(|model| model.of(row.address)),
            row,
        }
    });
    lines.collect()
}

/// The columns that are modelled, not exact.
pub(super) fn modelled(caches: &[Geometry], model: Option<&Model>) -> Vec<String> {
    let misses = caches.iter().map(misses_of);
    let scheduled = model.iter().flat_map(|_| SCHEDULED);
    let others = [MISPREDICTED].into_iter().chain(scheduled);
    misses.chain(others.map(str::to_owned)).collect()
}

fn misses_of(cache: &Geometry) -> String {
    format!("{}_misses", cache.name().to_lowercase())
}

/// Counts as fields of an object; modelled ones are in an object of their own.
fn fields(counts: &Counts, caches: &[Geometry], scheduled: Option<[f64; 3]>) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in [
        ("executions", counts.executions),
        ("iterations", counts.iterations),
        ("taken", counts.taken),
        ("reads", counts.reads),
        ("writes", counts.writes),
        ("bytes", counts.bytes),
        ("misaligned", counts.misaligned),
        ("unknown", counts.unknown),
    ] {
        fields.insert(name.to_owned(), value.into());
    }
    let misses = caches.iter().zip(&counts.misses);
    let misses = misses.map(|(cache, &misses)| (misses_of(cache), misses.into()));
    let mut modelled: Map<String, Value> = misses.collect();
    modelled.insert(MISPREDICTED.to_owned(), counts.mispredicted.into());
    let scheduled = SCHEDULED.into_iter().zip(scheduled.into_iter().flatten());
    modelled.extend(scheduled.map(|(name, value)| (name.to_owned(), json!(value))));
    fields.insert("modelled".to_owned(), modelled.into());
    fields
}

pub(super) fn by_instruction(lines: &[Line], caches: &[Geometry]) -> Vec<Map<String, Value>> {
    let rows = lines.iter().map(|line| {
        let mut row = Map::new();
        row.insert("address".to_owned(), json!(format!("{:#x}", line.address)));
        row.insert("instruction".to_owned(), json!(line.row.text));
        let code = line.row.bytes.iter();
        let code = code.fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        row.insert("code".to_owned(), json!(code));
        let (file, number) = line.source.clone().unzip();
        row.insert("file".to_owned(), json!(file));
        row.insert("line".to_owned(), json!(number));
        row.extend(fields(&line.counts, caches, line.scheduled));
        row
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

pub(super) fn by_line(lines: &[Line], caches: &[Geometry]) -> Vec<Map<String, Value>> {
    let rows = sums(lines).into_iter().map(|((file, line), counts)| {
        let mut row = Map::new();
        row.insert("file".to_owned(), json!(file));
        row.insert("line".to_owned(), json!(line));
        row.extend(fields(&counts, caches, None));
        row
    });
    rows.collect()
}

pub(super) fn csv(body: &Body, by_line: bool) -> Result<String> {
    let rows = if by_line { &body.lines } else { &body.rows };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let modelled = body.modelled_columns.iter().map(String::as_str);
    let exact = rows.first().into_iter().flat_map(Map::keys);
    let exact = exact.map(String::as_str).filter(|&name| name != "modelled");
    let heads: Vec<&str> = exact.chain(modelled).collect();
    let all = heads.iter().copied().chain(["modelled"]);
    writer.write_record(all).map_err(Error::internal)?;
    for row in rows {
        let cell = |name: &&str| match row.get(*name).unwrap_or(&row["modelled"][*name]) {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
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
    if count == 0 {
        String::new()
    } else {
        thousands(count)
    }
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
    cells.push(cell(counts.mispredicted));
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
    columns.push(Column::number("mispredicted*").extra());
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
            Column::number("uops*").extra(),
            Column::number("latency*").extra(),
            Column::number("throughput*").extra(),
            Column::word("address"),
            Column::name("instruction"),
            Column::name("line").extra(),
        ]);
        let mut last = None;
        let rows = lines.iter().map(|line| {
            let mut row = cells(&line.counts, caches);
            let scheduled = line
                .scheduled
                .map(|all| all.map(|value| format!("{value:.2}")));
            row.extend(scheduled.unwrap_or_default());
            row.extend([
                format!("{:x}", line.address),
                Shown(&line.row.text).to_string(),
            ]);
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
    format!(
        "{} {range}\n{}\n",
        width.left(range.len() + 1, &name),
        width.prose(0, &told)
    )
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
        "no caches, as CPUID tells of none".to_owned()
    } else {
        format!(
            "caches like {}, empty at the start ({caches})",
            Shown(&body.processor)
        )
    };
    let mut told = vec![format!(
        "* modelled: {caches}; branches {}.",
        body.predictor
    )];
    if let Some(model) = &body.model {
        told.push(model.to_string());
    }
    told.push(format!("Not simulated: {NOT_SIMULATED}."));
    told.iter().fold("\n".to_owned(), |text, told| {
        text + &width.prose(0, told) + "\n"
    })
}
