//! `halprof report --by edge` and `--by path`: tables of branch records.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::escape::Escaped;
use crate::output::number::{optional, percent, thousands};
use crate::output::table::{Column, Field, Section, Width};
use crate::results::head::{Header, head};
use crate::results::recording_warnings;
use crate::results::sample_rows::absent_fields;
use crate::select::branches::left_out;
use crate::select::filters;
use crate::select::sample_size::Advice;
use halprof_profile::aggregate::branches::RecordCounts;
use halprof_profile::aggregate::key::Value;
use halprof_profile::file::DroppedBranches;
use halprof_profile::symbols::qualified;
use halprof_profile::views::branches::{
    Branches, Edge, Grouping, Order, PATH_LENGTH, PathTotals, Query, SourceSection, Table,
};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub(crate) struct BranchesResult {
    #[serde(flatten)]
    header: Header,
    /// What recorded the branches, as `info` names it; empty if the recording does not say.
    recorder: String,
    /// The largest number of records in a sample.
    depth: u32,
    /// The kinds of branches that were recorded; empty if all were.
    kinds: Vec<String>,
    records: Records,
    /// The number of branches in a path of the first table of paths.
    path_length: usize,
    warnings: Vec<String>,
    tables: Vec<Table>,
    symbols: Vec<recording_warnings::OpenedModule>,
}

/// How many records of the accepted samples were kept and dropped.
#[derive(JsonSchema, Serialize)]
struct Records {
    #[serde(flatten)]
    kept: RecordCounts,
    /// Without a row, because there were too many different ones.
    omitted: u64,
    /// What a trace has besides: null if the driver recorded the branches.
    dropped: Option<DroppedBranches>,
}

/// An edge or a path, as comma-separated values have it.
#[derive(JsonSchema, Serialize)]
struct BranchLine<'a> {
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(flatten)]
    row: &'a PathTotals,
}

pub(super) fn run(options: &args::Report, tables: Vec<Grouping>, output: &Output) -> Result<u32> {
    if !options.diff.is_empty() {
        return Err(Error::usage(
            "`--diff` compares samples, not branches",
            "Leave out `--diff`, or use `--by symbol`.",
        ));
    }
    if output.is_csv() && tables.len() > 1 {
        return Err(filters::one_table());
    }
    let paths = tables.iter().find(|grouping| grouping.is_of_paths());
    let path_length = paths.map_or(PATH_LENGTH, |grouping| grouping.length);
    let path = options.naming.path(output)?;
    let query = Query {
        tables,
        filter: filters::settled(&options.filters, &options.files, &path, output)?,
        order: match options.sort {
            args::Sorting::Samples | args::Sorting::Events => Order::Taken,
            args::Sorting::Total => {
                return Err(Error::usage(
                    "`--sort total` is an order of code with call stacks",
                    "Use it with other keys than `edge` and `path`.",
                ));
            }
            args::Sorting::Mispredicted => Order::Mispredicted,
            args::Sorting::Name => Order::Name,
        },
        rows: if output.is_text() { Some(options.most_rows()) } else { options.rows_requested() },
    };
    let branches = Branches::read(&options.files, &query, &path)?;
    let mut warnings = warnings(&branches);
    warnings.extend(filters::given_twice(&options.files));
    let recording = &branches.recording;
    let status =
        recording_warnings::print_warnings(recording, &warnings, &branches.symbols, output);
    let how = recording.metadata.branches.clone().unwrap_or_default();
    let result = BranchesResult {
        header: Header::new(&options.files, recording),
        recorder: how.recorder,
        depth: how.depth,
        kinds: how.kinds,
        records: Records {
            kept: branches.records,
            omitted: branches.omitted,
            dropped: recording.statistics.as_ref().and_then(|known| known.dropped_branches),
        },
        path_length,
        warnings,
        symbols: branches.symbols.iter().map(Into::into).collect(),
        tables: branches.tables,
    };
    let lines = lines(&result.tables);
    let grouping = result.tables.first().map(|table| table.grouping);
    let absent = grouping.map_or_else(Vec::new, absent_columns);
    let width = if options.verbose { Width::UNLIMITED } else { output.width() };
    let rows = (&result, &*lines);
    output.rows_without(&absent, "branches", rows, |result| {
        head(recording, recording.samples, width)
            + &width.prose(0, &summary(result))
            + "\n"
            + &sections(&result.tables, width)
    })?;
    Ok(status)
}

/// The columns that a table does not have: those of other sides, and the path of an edge.
fn absent_columns(by: Grouping) -> Vec<&'static str> {
    let mut absent = absent_fields(&[by.sides]);
    if !by.is_of_paths() {
        absent.push("path");
    }
    absent
}

fn lines(tables: &[Table]) -> Vec<BranchLine<'_>> {
    let mut lines = Vec::new();
    for table in tables {
        for part in &table.sections {
            lines.extend(part.rows.iter().map(|row| BranchLine {
                source: &part.source,
                path: table.grouping.is_of_paths().then(|| path(row)),
                row,
            }));
        }
    }
    lines
}

/// Warnings about what is missing from the tables.
fn warnings(branches: &Branches) -> Vec<String> {
    let mut warnings: Vec<String> = left_out(&branches.records, &branches.recording).collect();
    if branches.omitted != 0 {
        warnings.push(format!(
            "there are too many different edges or paths: {} that came late are in no row",
            thousands(branches.omitted)
        ));
    }
    let statistics = branches.recording.statistics.as_ref();
    let cleared = statistics.map_or(0, |statistics| statistics.branches_cleared);
    warnings.extend(Advice::branches_cleared(cleared).map(|advice| advice.warning()));
    warnings
}

/// How the branches were recorded.
fn summary(result: &BranchesResult) -> String {
    let kept = result.records.kept;
    let (records, samples) = (thousands(kept.records), thousands(kept.samples));
    let mut text = format!("{records} branch records in {samples} samples");
    if result.depth != 0 {
        text += &format!(", at most {} each", result.depth);
    }
    if !result.recorder.is_empty() {
        text += &format!(", by {}", Escaped(&result.recorder));
    }
    if !result.kinds.is_empty() {
        text += &format!("; only {}", Escaped(result.kinds.join(", ")));
    }
    if kept.hidden != 0 {
        text += &format!(
            "; {} have a side in the kernel that the recorder had no right to see",
            thousands(kept.hidden)
        );
    }
    text
}

fn sections(tables: &[Table], width: Width) -> String {
    let several = tables.iter().any(|table| table.sections.len() > 1);
    let mut text = String::new();
    for table in tables {
        for part in &table.sections {
            text += "\n";
            text += &section(table.grouping, part, several).text(width);
        }
    }
    text
}

fn section(by: Grouping, part: &SourceSection, several: bool) -> Section<'static> {
    let of_kind: &[Field<PathTotals>] = if by.is_of_paths() { &PATH } else { &EDGE };
    let fields = || TOTALS.iter().chain(of_kind);
    let more = match part.more {
        (0, _) => String::new(),
        (more, taken) => format!(
            "{} more rows, taken {} times: `--rows 0` prints all",
            thousands(more as u64),
            thousands(taken)
        ),
    };
    Section {
        title: if several { part.source.to_string() } else { String::new() },
        columns: fields().map(|field| field.column).collect(),
        rows: part
            .rows
            .iter()
            .map(|row| fields().map(|field| (field.cell)(row)).collect())
            .collect(),
        more,
    }
}

const TOTALS: [Field<PathTotals>; 5] = [
    Field::new(Column::number("share"), |row| percent(row.share)),
    Field::new(Column::number("taken"), |row| thousands(row.taken)),
    Field::new(Column::number("mispredicted"), |row| {
        optional(row.mispredicted_share.map(|share| percent(share.value)))
    }),
    Field::new(Column::number("95 %").extra(), |row| {
        optional(row.mispredicted_share.map(|share| format!("±{:.2}", share.bound() * 100.0)))
    }),
    Field::new(Column::number("cycles").extra(), |row| {
        optional(row.cycles.map(|mean| format!("{mean:.1}")))
    }),
];
const PATH: [Field<PathTotals>; 1] = [Field::new(Column::prose("path"), path)];
/// The columns of a row that is a single edge.
const EDGE: [Field<PathTotals>; 3] = [
    Field::new(Column::word("kind").extra(), |row| optional(row.kind)),
    Field::new(Column::name("from"), |row| {
        optional(row.edges.first().map(|edge| location(&edge.from, true)))
    }),
    Field::new(Column::name("to"), |row| {
        optional(row.edges.first().map(|edge| location(&edge.to, true)))
    }),
];

/// The edges of a path on one line.
fn path(row: &PathTotals) -> String {
    let edges = row.edges.iter();
    let edges = edges
        .map(|Edge { from, to }| format!("{} → {}", location(from, false), location(to, false)));
    edges.collect::<Vec<_>>().join(", ")
}

/// A side in short form: a symbol and the offset in it, with or without its module.
fn location(side: &Value, with_module: bool) -> String {
    match side {
        Value::Address { module, symbol: Some(symbol), offset: Some(offset), .. }
            if with_module =>
        {
            format!("{}+{offset:#x}", qualified(module, symbol))
        }
        Value::Address { symbol: Some(symbol), offset: Some(offset), .. } => {
            format!("{symbol}+{offset:#x}")
        }
        Value::Address { module, offset: Some(offset), .. } => format!("{module}+{offset:#x}"),
        Value::Symbol { symbol: Some(symbol), .. } if !with_module => symbol.to_string(),
        other => other.to_string(),
    }
}
