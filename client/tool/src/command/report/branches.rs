//! `halprof report --by edge` and `--by path`: tables of branch records.

use super::head::head;
use super::row::{Keys, ShareBody, described};
use crate::cli::args;
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::escape::Shown;
use crate::output::number::thousands;
use crate::output::table::{Column, Width, cell, cell_text, table};
use crate::select::filters;
use halprof_profile::aggregate::branches::{
    Branches, Edge, Grouping, Order, PathTotals, Query, SourceSection, Table,
};
use halprof_profile::aggregate::key::Value;
use halprof_profile::views::branches::RecordCounts;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use shared_types::BranchKind;
use std::collections::BTreeMap;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    file: String,
    machine: String,
    /// Samples in the file.
    samples: u64,
    /// Null if the file is truncated or damaged: `damaged` says how.
    lost: Option<BTreeMap<String, u64>>,
    damaged: Option<String>,
    /// The same as `damaged`.
    flaw: Option<String>,
    /// What recorded the branches, as `info` names it; empty if the recording does not say.
    recorder: String,
    /// The largest number of records in a sample.
    depth: u32,
    /// The kinds of branches that were recorded; empty if all were.
    kinds: Vec<String>,
    records: Records,
    /// The number of branches in a path.
    path_length: usize,
    warnings: Vec<String>,
    tables: Vec<TableBody>,
    symbols: Vec<filters::OpenedModule>,
}

/// How many records of the accepted samples were kept and dropped.
#[derive(JsonSchema, Serialize)]
struct Records {
    /// Samples with records.
    samples: u64,
    /// All records of these samples.
    all: u64,
    /// Records with a side in the kernel that the recorder was not allowed to see.
    hidden: u64,
    /// Dropped: an address is in no module of the sampled process.
    unresolved: u64,
    /// Dropped: they may belong to another thread.
    foreign: u64,
    /// Without a row, because there were too many different ones.
    left_out: u64,
}

#[derive(JsonSchema, Serialize)]
struct TableBody {
    by: [&'static str; 2],
    parts: Vec<PartBody>,
}

#[derive(JsonSchema, Serialize)]
struct PartBody {
    source: String,
    /// How often the edges or paths of all rows were taken.
    taken: u64,
    rows: Vec<RowBody>,
}

#[derive(JsonSchema, Serialize)]
struct RowBody {
    /// The edge, or the edges of the path in the order in which they were taken.
    edges: Vec<EdgeBody>,
    taken: u64,
    /// The share of `taken` of all rows.
    share: f64,
    /// Null if it is not known or not unique.
    kind: Option<&'static str>,
    /// Null if the processor does not report it.
    mispredicted: Option<u64>,
    mispredicted_share: Option<ShareBody>,
    /// The mean number of cycles from the record before to the last of these; null if the processor
    /// does not report it.
    cycles: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct EdgeBody {
    #[schemars(with = "Keys")]
    from: Map<String, Json>,
    #[schemars(with = "Keys")]
    to: Map<String, Json>,
}

/// The requested tables of branches; `None` if the keys are for samples.
pub(crate) fn wanted(lists: &[String]) -> Result<Option<Vec<Grouping>>> {
    let keys = |list: &String| -> Vec<String> {
        list.split(',').map(|key| key.trim().to_owned()).collect()
    };
    let is_branches = |list: &&String| {
        Grouping::NAMES.iter().any(|&name| keys(list).iter().any(|key| key == name))
    };
    match lists.iter().filter(is_branches).count() {
        0 => return Ok(None),
        n if n < lists.len() => {
            return Err(Error::usage(
                "`--by` asks for branches and for samples",
                "Ask for them one after the other: `edge` and `path` are tables of branches.",
            ));
        }
        _ => {}
    }
    let parse = |list: &String| {
        let keys = keys(list);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        Grouping::parse(&keys).ok_or_else(|| {
            Error::usage(
                format!("`--by {list}` is not a table of branches"),
                "Give `edge` or `path`, alone or with how to tell places apart: `edge,address`, `edge,line`, `edge,symbol` or `edge,module`.",
            )
        })
    };
    lists.iter().map(parse).collect::<Result<_>>().map(Some)
}

pub(super) fn run(options: &args::Report, tables: Vec<Grouping>, output: &Output) -> Result<u8> {
    if options.diff.is_some() {
        return Err(Error::usage(
            "`--diff` compares samples, not branches",
            "Leave out `--diff`, or use `--by symbol`.",
        ));
    }
    if output.is_csv() && tables.len() > 1 {
        return Err(filters::one_table());
    }
    let query = Query {
        tables,
        filter: filters::filter(&options.filters, &options.files)?,
        order: match options.sort {
            args::Sorting::Samples | args::Sorting::Events => Order::Taken,
            args::Sorting::Mispredicted => Order::Mispredicted,
            args::Sorting::Name => Order::Name,
        },
        rows: (!output.is_csv() && !output.is_json()).then_some(options.most_rows()),
        length: options.path_length,
    };
    let branches = Branches::read(&options.files, &query, &options.naming.path()?)?;
    let status = filters::introduce(&branches.recording, output);
    let mut warnings = warnings(&branches);
    warnings.extend(filters::given_twice(&options.files));
    for warning in &warnings {
        output.warn(warning);
    }
    filters::note_symbols(&branches.symbols, output);
    if output.is_json() {
        let modelled = branches.recording.metadata.modelled;
        let body = body(options, &branches, warnings);
        output.print(&Output::object("branches", modelled, body)?)?;
    } else if output.is_csv() {
        output.print_data(&csv(&branches)?)?;
    } else {
        let width = if options.verbose { Width::WHOLE } else { output.width() };
        output.print(&text(&branches, width))?;
    }
    Ok(status)
}

/// The message that records were dropped.
pub(crate) fn dropped(kept: &RecordCounts) -> Option<String> {
    let dropped = kept.unresolved + kept.foreign;
    (dropped != 0).then(|| {
        format!(
            "{} of {} branch records are left out: {} are in no module of the sampled process, {} may \
             be of a thread that ran before on the processor",
            thousands(dropped),
            thousands(kept.records),
            thousands(kept.unresolved),
            thousands(kept.foreign)
        )
    })
}

/// Warnings about what is missing from the tables.
fn warnings(branches: &Branches) -> Vec<String> {
    let mut warnings: Vec<String> = dropped(&branches.records).into_iter().collect();
    if branches.omitted != 0 {
        warnings.push(format!(
            "there are too many different edges or paths: {} that came late are in no row",
            thousands(branches.omitted)
        ));
    }
    warnings
}

fn body(options: &args::Report, branches: &Branches, warnings: Vec<String>) -> Body {
    let recording = &branches.recording;
    let how = recording.metadata.branches.clone().unwrap_or_default();
    let kept = branches.records;
    Body {
        file: filters::names(&options.files),
        machine: recording.metadata.machine.clone(),
        samples: recording.samples,
        lost: recording.losses_are_known().then(|| recording.lost()),
        damaged: recording.damaged(),
        flaw: recording.damaged(),
        recorder: how.recorder,
        depth: how.depth,
        kinds: how.kinds,
        records: Records {
            samples: kept.samples,
            all: kept.records,
            hidden: kept.hidden,
            unresolved: kept.unresolved,
            foreign: kept.foreign,
            left_out: branches.omitted,
        },
        path_length: options.path_length,
        warnings,
        tables: branches.tables.iter().map(table_body).collect(),
        symbols: branches.symbols.iter().map(Into::into).collect(),
    }
}

fn table_body(table: &Table) -> TableBody {
    let parts = table.sections.iter().map(|part| PartBody {
        source: part.source.to_string(),
        taken: part.all,
        rows: part.rows.iter().map(|row| row_body(part, row)).collect(),
    });
    TableBody { by: table.grouping.keys(), parts: parts.collect() }
}

fn row_body(part: &SourceSection, row: &PathTotals) -> RowBody {
    let edge = |[from, to]: &Edge| EdgeBody {
        from: described(std::slice::from_ref(from)),
        to: described(std::slice::from_ref(to)),
    };
    let mispredicted = row.totals.share_mispredicted();
    RowBody {
        edges: row.edges.iter().map(edge).collect(),
        taken: row.totals.taken,
        share: share(part, row),
        kind: row.totals.kind().map(BranchKind::name),
        mispredicted: mispredicted.map(|_| row.totals.mispredicted),
        mispredicted_share: mispredicted.map(Into::into),
        cycles: row.totals.mean_cycles(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
fn share(part: &SourceSection, row: &PathTotals) -> f64 {
    row.totals.taken as f64 / part.all.max(1) as f64
}

fn csv(branches: &Branches) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |error: csv::Error| Error::internal(error);
    let modelled = branches.recording.metadata.modelled.to_string();
    for table in &branches.tables {
        let columns = table.grouping.sides.columns();
        let sides =
            ["from", "to"].map(|side| columns.iter().map(move |column| format!("{side}_{column}")));
        let places: Vec<String> = if table.grouping.paths {
            vec!["path".to_owned()]
        } else {
            sides.into_iter().flatten().collect()
        };
        let numbers = [
            "taken",
            "share",
            "kind",
            "mispredicted",
            "mispredicted_share",
            "mispredicted_low",
            "mispredicted_high",
            "cycles",
            "modelled",
        ];
        let heads = ["source"].into_iter().chain(places.iter().map(String::as_str));
        writer.write_record(heads.chain(numbers)).map_err(failed)?;
        for part in &table.sections {
            for row in &part.rows {
                let mut fields = fields(table.grouping, part, row);
                fields.push(modelled.clone());
                writer.write_record(fields).map_err(failed)?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(Error::internal)?;
    String::from_utf8(bytes).map_err(Error::internal)
}

fn fields(by: Grouping, part: &SourceSection, row: &PathTotals) -> Vec<String> {
    let mut fields = vec![part.source.to_string()];
    if by.paths {
        fields.push(cell_text(&path(row)).into_owned());
    } else {
        for side in row.edges.iter().flatten() {
            let described = described(std::slice::from_ref(side));
            let field = |column: &&str| described.get(*column).map_or_else(String::new, cell);
            fields.extend(by.sides.columns().iter().map(field));
        }
    }
    let mispredicted = row.totals.share_mispredicted();
    let known = mispredicted.map(|_| row.totals.mispredicted.to_string());
    let part_of = |value: f64| format!("{value:.6}");
    fields.extend([
        row.totals.taken.to_string(),
        part_of(share(part, row)),
        row.totals.kind().map_or_else(String::new, |kind| kind.name().to_owned()),
        known.unwrap_or_default(),
    ]);
    let [value, low, high] = match mispredicted {
        Some(share) => [share.value, share.low, share.high].map(part_of),
        None => [const { String::new() }; 3],
    };
    fields.extend([value, low, high]);
    fields.push(row.totals.mean_cycles().map_or_else(String::new, |mean| format!("{mean:.2}")));
    fields
}

fn text(branches: &Branches, width: Width) -> String {
    let mut text = head(&branches.recording, branches.recording.samples, width);
    text += &width.prose(0, &told(branches));
    text += "\n";
    let several = branches.tables.iter().any(|table| table.sections.len() > 1);
    for table in &branches.tables {
        for part in &table.sections {
            text += &format!("\n{}", section(table.grouping, part, several, width));
        }
    }
    text
}

/// How the branches were recorded.
fn told(branches: &Branches) -> String {
    let kept = branches.records;
    let mut text = format!(
        "{} branch records in {} samples",
        thousands(kept.records),
        thousands(kept.samples)
    );
    if let Some(how) = &branches.recording.metadata.branches {
        text += &format!(", at most {} each", how.depth);
        if !how.recorder.is_empty() {
            text += &format!(", by {}", Shown(&how.recorder));
        }
        if !how.kinds.is_empty() {
            text += &format!("; only {}", Shown(how.kinds.join(", ")));
        }
    }
    if kept.hidden != 0 {
        text += &format!(
            "; {} have a side in the kernel that the recorder had no right to see",
            thousands(kept.hidden)
        );
    }
    text
}

fn section(by: Grouping, part: &SourceSection, several: bool, width: Width) -> String {
    let mut columns = vec![
        Column::number("share"),
        Column::number("taken"),
        Column::number("mispredicted"),
        Column::number("95 %").extra(),
        Column::number("cycles").extra(),
    ];
    if by.paths {
        columns.push(Column::prose("path"));
    } else {
        columns.extend([Column::word("kind").extra(), Column::name("from"), Column::name("to")]);
    }
    let rows = part.rows.iter().map(|row| {
        let mispredicted = row.totals.share_mispredicted();
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        let mut cells = vec![
            percent(share(part, row)),
            thousands(row.totals.taken),
            mispredicted.map_or_else(String::new, |share| percent(share.value)),
            mispredicted.map_or_else(String::new, |share| format!("±{:.2}", share.bound() * 100.0)),
            row.totals.mean_cycles().map_or_else(String::new, |mean| format!("{mean:.1}")),
        ];
        if by.paths {
            cells.push(Shown(path(row)).to_string());
        } else {
            let kind = row.totals.kind().map_or("", |kind| kind.name());
            cells.push(kind.to_owned());
            let sides = row.edges.iter().flatten();
            cells.extend(sides.map(|side| Shown(place(side, true)).to_string()));
        }
        cells
    });
    let title = if several { format!("{}\n", Shown(&part.source)) } else { String::new() };
    let mut text = title + &table(width, &columns, rows);
    let (more, taken) = part.more;
    if more != 0 {
        text += &format!(
            "{} more rows, taken {} times: `--rows 0` prints all\n",
            thousands(more as u64),
            thousands(taken)
        );
    }
    text
}

/// The edges of a path on one line.
fn path(row: &PathTotals) -> String {
    let edge = |[from, to]: &Edge| format!("{} → {}", place(from, false), place(to, false));
    let edges: Vec<String> = row.edges.iter().map(edge).collect();
    edges.join(", ")
}

/// A side in short form: a symbol and the offset in it, with or without its module.
fn place(side: &Value, with_module: bool) -> String {
    match side {
        Value::Address { module, symbol: Some(symbol), offset, .. } if with_module => {
            format!("{module}!{symbol}+{offset:#x}")
        }
        Value::Address { symbol: Some(symbol), offset, .. } => format!("{symbol}+{offset:#x}"),
        Value::Address { module, offset, .. } => format!("{module}+{offset:#x}"),
        Value::Symbol { symbol: Some(symbol), .. } if !with_module => symbol.to_string(),
        other => other.to_string(),
    }
}
