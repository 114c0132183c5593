//! `halprof report`: a summary of samples.

pub(crate) mod branches;
pub(crate) mod diff;
pub(crate) mod head;
pub(crate) mod row;

use crate::cli::args;
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::escape::Shown;
use crate::output::number::thousands;
use crate::output::table::{Column, Width, cell, table};
use crate::select::filters;
use halprof_profile::aggregate::key::{Key, Value};
use halprof_profile::file::Metadata;
use halprof_profile::views::report::events::EventSummary;
use halprof_profile::views::report::skid::Skid;
use halprof_profile::views::report::{
    GroupTotals, Query, Report, Sort, SourceSection, SourceTotals, Table, Totals,
};
use head::head;
use row::{Keys, ShareBody, described};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// The tables of JSON output without `--by`.
const DEFAULT: &[&[Key]] =
    &[&[Key::Module], &[Key::Symbol], &[Key::Process], &[Key::Processor], &[Key::Address]];

/// The number of lines of a report without `--by`.
const LINES: usize = 40;

/// The option that prints all rows.
const ALL: &str = "--rows 0";

/// The largest number of sources that have a line each in it.
const SOURCES: usize = 8;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    file: String,
    machine: String,
    interface: String,
    /// When it was made, in UTC.
    recorded: Option<String>,
    /// The version of halprof that made it.
    halprof: String,
    command: Vec<String>,
    processors: u32,
    elapsed_ns: u64,
    /// Samples in the file.
    samples: u64,
    /// Samples that the filters accept.
    counted: u64,
    /// Why this is not the whole recording.
    damaged: Option<String>,
    /// The same as `damaged`.
    flaw: Option<String>,
    /// Null if the file is truncated or damaged: `damaged` says how.
    lost: Option<BTreeMap<String, u64>>,
    throttled: u64,
    longest_period: u64,
    /// Sources that some of the processors cannot count.
    left_out: Vec<LeftOut>,
    /// Other events of the system and the driver.
    events: Vec<EventBody>,
    warnings: Vec<String>,
    by_source: Vec<BySource>,
    #[schemars(with = "Vec<Counted>")]
    by_processor: Vec<Json>,
    #[schemars(with = "Vec<Counted>")]
    by_process: Vec<Json>,
    #[schemars(with = "Vec<Counted>")]
    by_module: Vec<Json>,
    #[schemars(with = "Vec<Counted>")]
    by_address: Vec<Json>,
    /// The tables requested with `--by`.
    tables: Vec<TableBody>,
    symbols: Vec<filters::OpenedModule>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema is made of it")]
struct Counted {
    #[schemars(flatten)]
    keys: Keys,
    samples: u64,
    /// Null if there are several sources, whose events cannot be added up.
    events: Option<u64>,
}

/// A source, and the processors that cannot count it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) source: String,
    pub(crate) processors: String,
}

impl LeftOut {
    pub(crate) fn of((source, processors): (&str, &str)) -> Self {
        Self { source: source.to_owned(), processors: processors.to_owned() }
    }
}

/// The events of one kind.
#[derive(JsonSchema, Serialize)]
struct EventBody {
    kind: &'static str,
    times: u64,
    /// On how many processors; 0 if the kind is not tied to a processor.
    processors: usize,
    /// When it first happened, since sampling began.
    first_ns: Option<u64>,
}

impl From<EventSummary> for EventBody {
    fn from(happening: EventSummary) -> Self {
        Self {
            kind: happening.kind.name(),
            times: happening.times,
            processors: happening.processors,
            first_ns: happening.first_ns,
        }
    }
}

#[derive(JsonSchema, Serialize)]
struct TableBody {
    by: Vec<&'static str>,
    parts: Vec<PartBody>,
}

#[derive(JsonSchema, Serialize)]
struct PartBody {
    /// Null if `source` is one of the keys.
    source: Option<String>,
    samples: u64,
    /// Null if the rows are of several sources, whose events cannot be added up.
    events: Option<u64>,
    rows: Vec<RowBody>,
}

#[derive(JsonSchema, Serialize)]
struct RowBody {
    #[serde(flatten)]
    #[schemars(with = "Keys")]
    keys: Map<String, Json>,
    samples: u64,
    events: u64,
    /// Its share of the events; null if the rows are of several sources.
    share: Option<ShareBody>,
}

#[derive(JsonSchema, Serialize)]
struct BySource {
    source: String,
    period: Option<u64>,
    samples: u64,
    events: u64,
    /// Whether the source took turns on the counters, so that `events` is scaled to the whole time.
    scaled: bool,
    /// The 95 % bound of scaled events, if known.
    error: Option<u64>,
    skid: SkidTold,
}

#[derive(JsonSchema, Serialize)]
struct SkidTold {
    direction: &'static str,
    explanation: &'static str,
}

pub(crate) fn run(options: &args::Report, output: &Output) -> Result<u8> {
    if let Some(tables) = branches::wanted(&options.by)? {
        return branches::run(options, tables, output);
    }
    let mut query = query(options, output.is_csv())?;
    let mut asked = query.tables.len();
    if output.is_json() {
        if options.by.is_empty() && options.diff.is_none() {
            (query.tables, asked) = (Vec::new(), DEFAULT.len());
        }
        for keys in DEFAULT {
            if !query.tables.iter().any(|by| by == keys) {
                query.tables.push(keys.to_vec());
            }
        }
        query.rows = None;
    }
    let path = options.naming.path()?;
    let report = Report::read_all(&options.files, &query, &path)?;
    let status = filters::introduce(&report.recording, output);
    if let Some(other) = &options.diff {
        let other = Report::read(other, &query, &path)?;
        let status = status.max(filters::introduce(&other.recording, output));
        diff::run(options, (&report, &other), asked, output)?;
        return Ok(status);
    }
    let mut warnings = filters::warnings(&report);
    warnings.extend(filters::given_twice(&options.files));
    for warning in &warnings {
        output.warn(warning);
    }
    filters::note_symbols(&report.symbols, output);
    let only_marks = only_marks(options, &report);
    if let Some(told) = only_marks.as_ref().filter(|_| output.is_csv()) {
        output.note(told);
    }
    warnings.extend(only_marks.clone());
    if output.is_json() {
        let body = body(options, &report, asked, warnings);
        output.print(&Output::object("report", report.recording.metadata.modelled, body)?)?;
    } else if output.is_csv() {
        output.print_data(&csv(&report)?)?;
    } else if let Some(told) = only_marks {
        output.print(&(output.width().fitted(&told) + "\n"))?;
    } else {
        let width = if options.verbose { Width::WHOLE } else { output.width() };
        let text = match options.by.as_slice() {
            [] => overview(&report, options, width),
            _ => tables(&report, options.most_rows(), ALL, width),
        };
        output.print(&text)?;
    }
    Ok(status)
}

/// What a recording has that has marks and no samples.
fn only_marks(options: &args::Report, report: &Report) -> Option<String> {
    let [file] = options.files.as_slice() else {
        return None;
    };
    let marks = report.recording.marked.count;
    (marks != 0 && report.recording.samples == 0).then(|| {
        let (marks, file) = (thousands(marks), file.display());
        format!("no samples; {marks} marks: `halprof timeline {file}` shows them")
    })
}

fn query(options: &args::Report, csv: bool) -> Result<Query> {
    let mut tables = filters::tables(&options.by)?;
    if csv && tables.len() > 1 {
        return Err(filters::one_table());
    }
    if tables.is_empty() {
        tables = if csv || options.diff.is_some() {
            vec![vec![Key::Symbol]]
        } else {
            // Addresses are worth a table if no function is known.
            vec![vec![Key::Symbol], vec![Key::Address]]
        };
    }
    let all = csv || options.diff.is_some();
    Ok(Query {
        tables,
        filter: filters::filter(&options.filters, &options.files)?,
        sort: match options.sort {
            args::Sorting::Samples => Sort::Samples,
            args::Sorting::Events => Sort::Events,
            args::Sorting::Name => Sort::Name,
            args::Sorting::Mispredicted => {
                return Err(Error::usage(
                    "`--sort mispredicted` is an order of branches",
                    "Use it with `--by edge` or `--by path`.",
                ));
            }
        },
        rows: (!all).then_some(options.most_rows()),
    })
}

fn body(options: &args::Report, report: &Report, asked: usize, warnings: Vec<String>) -> Body {
    let recording = &report.recording;
    let statistics = recording.statistics.clone().unwrap_or_default();
    let by = |key| {
        let table = report.tables.iter().find(|table| table.by == [key]);
        table.map(merged).unwrap_or_default()
    };
    Body {
        file: filters::names(&options.files),
        machine: recording.metadata.machine.clone(),
        interface: recording.metadata.interface.clone(),
        recorded: recorded(&recording.metadata),
        halprof: recording.metadata.halprof.clone(),
        command: recording.metadata.command.clone(),
        processors: recording.metadata.processors,
        elapsed_ns: recording.elapsed_ns(),
        samples: recording.samples,
        counted: report.total.samples,
        damaged: recording.damaged(),
        flaw: recording.damaged(),
        lost: recording.losses_are_known().then(|| recording.lost()),
        throttled: statistics.throttled,
        longest_period: statistics.longest_period,
        left_out: recording.metadata.excluded_cpus().into_iter().map(LeftOut::of).collect(),
        events: recording.event_summaries().into_iter().map(Into::into).collect(),
        warnings,
        by_source: by_source(report),
        by_processor: by(Key::Processor),
        by_process: by(Key::Process),
        by_module: by(Key::Module),
        by_address: by(Key::Address),
        tables: report.tables.iter().take(asked).map(table_json).collect(),
        symbols: report.symbols.iter().map(Into::into).collect(),
    }
}

fn by_source(report: &Report) -> Vec<BySource> {
    let interface = &report.recording.metadata.interface;
    let sources = report.sources.iter().filter(|source| source.totals.samples != 0);
    let sources = sources.map(|source| {
        let (skid, explanation) = Skid::of(interface, source.totals.samples, source.addressed);
        BySource {
            source: source.name.to_string(),
            period: source.period,
            samples: source.totals.samples,
            events: source.totals.events,
            scaled: source.slices.is_some(),
            error: source.error(),
            skid: SkidTold { direction: skid.name(), explanation },
        }
    });
    sources.collect()
}

/// Rows of all sources together, those with the most events first; of several sources, whose events
/// cannot be added up, those with the most samples.
fn merged(table: &Table) -> Vec<Json> {
    let mut sums: BTreeMap<&[Value], Totals> = BTreeMap::new();
    for row in table.sections.iter().flat_map(|part| &part.rows) {
        sums.entry(&row.values).or_default().add(row.totals);
    }
    let several = table.sections.len() > 1;
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, sum)| {
        let events = (!several).then_some(sum.events);
        std::cmp::Reverse((events, sum.samples))
    });
    let rows = rows.into_iter().map(|(values, sum)| {
        let mut row = described(values);
        row.insert("samples".to_owned(), json!(sum.samples));
        row.insert("events".to_owned(), json!((!several).then_some(sum.events)));
        Json::Object(row)
    });
    rows.collect()
}

fn table_json(table: &Table) -> TableBody {
    let keys: Vec<_> = table.by.iter().map(|key| key.name()).collect();
    let row = |part: &SourceSection, row: &GroupTotals| RowBody {
        keys: described(&row.values),
        samples: row.totals.samples,
        events: row.totals.events,
        share: part.share(row.totals).map(Into::into),
    };
    let parts = table.sections.iter().map(|part| PartBody {
        source: part.source.as_deref().map(str::to_owned),
        samples: part.all.samples,
        events: part.events(),
        rows: part.rows.iter().map(|one| row(part, one)).collect(),
    });
    TableBody { by: keys, parts: parts.collect() }
}

/// The tables as comma-separated values.
pub(crate) fn csv(report: &Report) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let internal = |error: &dyn std::fmt::Display| Error::internal(error);
    let modelled = report.recording.metadata.modelled.to_string();
    for table in &report.tables {
        let mut head: Vec<&str> = Vec::new();
        for column in table.by.iter().flat_map(|key| key.columns()) {
            if !head.contains(column) {
                head.push(column);
            }
        }
        let part_source = !table.by.contains(&Key::Source);
        let first = part_source.then_some("source");
        let numbers = ["samples", "events", "share", "share_low", "share_high", "modelled"];
        let columns = first.into_iter().chain(head.iter().copied()).chain(numbers);
        writer.write_record(columns).map_err(|e| internal(&e))?;
        for part in &table.sections {
            for row in &part.rows {
                let mut fields = fields(part, row, &head, part_source);
                fields.push(modelled.clone());
                writer.write_record(fields).map_err(|e| internal(&e))?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|e| internal(&e))?;
    String::from_utf8(bytes).map_err(|e| internal(&e))
}

fn fields(
    part: &SourceSection,
    row: &GroupTotals,
    head: &[&str],
    part_source: bool,
) -> Vec<String> {
    let described = described(&row.values);
    let field = |value: Option<&Json>| value.map_or_else(String::new, cell);
    let share = part.share(row.totals);
    let share = share.map_or([None; 3], |share| [share.value, share.low, share.high].map(Some));
    let mut fields = Vec::with_capacity(head.len() + 6);
    fields.extend(part_source.then(|| part.source.as_deref().unwrap_or_default().to_owned()));
    fields.extend(head.iter().map(|&column| field(described.get(column))));
    fields.extend([row.totals.samples, row.totals.events].map(|number| number.to_string()));
    fields.extend(share.map(|part| part.map_or_else(String::new, |part| format!("{part:.6}"))));
    fields
}

/// A report that fits into [`LINES`]: how it was recorded, what was lost, the functions with the
/// most samples, and how to see the rest.
fn overview(report: &Report, options: &args::Report, width: Width) -> String {
    let named = report.symbols.iter().any(|opened| opened.kind.names());
    let key = if named { Key::Symbol } else { Key::Address };
    let rest = "More: `--by module`, `line`, `address`, `process`, `thread`, `processor`, `core` or \
                `machine`; \
                `--rows 0` for every row; `halprof annotate FILE` for the instructions of a function.";
    let rest = format!("\n{}\n", width.prose(0, rest));
    let mut text = made(report, width) + &head(&report.recording, report.total.samples, width);
    text += &format!("\n{}", sources(report, SOURCES, width));
    let parts = report.tables.iter().filter(|table| table.by == [key]);
    let parts: Vec<_> =
        parts.flat_map(|table| table.sections.iter().map(move |part| (table, part))).collect();
    let several = report.sources.len() > 1;
    // A section has a blank line before it, a title, a header, and a line on what is left out.
    let around = 3 + usize::from(several);
    let room = LINES.saturating_sub(text.lines().count() + rest.lines().count() + 1);
    let shown = parts.len().min(room / (around + 2));
    let rows = (room / shown.max(1)).saturating_sub(around).max(1);
    let rows = options.rows.map_or(rows.min(20), |_| options.most_rows());
    for (table, part) in parts.iter().take(if options.rows.is_some() { usize::MAX } else { shown })
    {
        text += &format!("\n{}", first_rows(table, part, several, rows, ALL, width));
    }
    if options.rows.is_none() && shown < parts.len() {
        text += &format!("\n{} more sources: `--source NAME` chooses\n", parts.len() - shown);
    }
    text + &rest
}

/// The tables that were requested; `all` is the option that prints all rows.
pub(crate) fn tables(report: &Report, rows: usize, all: &str, width: Width) -> String {
    let mut text = head(&report.recording, report.total.samples, width);
    text += &format!("\n{}", sources(report, usize::MAX, width));
    let several = report.sources.len() > 1;
    for table in &report.tables {
        for part in &table.sections {
            text += &format!("\n{}", first_rows(table, part, several, rows, all, width));
        }
    }
    text
}

/// When, how and with what it was recorded.
fn made(report: &Report, width: Width) -> String {
    let metadata = &report.recording.metadata;
    let by = format!("halprof {}", metadata.halprof);
    let when = recorded(metadata).map_or(by.clone(), |when| format!("{when} by {by}"));
    let machine = match metadata.processors {
        // A model's name says it.
        _ if metadata.modelled => metadata.machine.clone(),
        1 => format!("{}, 1 processor", metadata.machine),
        n => format!("{}, {} processors", metadata.machine, thousands(n)),
    };
    let command = if metadata.modelled { "workload" } else { "command" };
    let rows = [("recorded", when), (command, metadata.command.join(" ")), ("machine", machine)];
    let rows = rows.iter().filter(|(_, text)| !text.is_empty());
    let line = |(label, text): &(&str, String)| {
        let text = Shown(text).to_string();
        format!("{label:<10}  {}\n", width.left(12, &text))
    };
    rows.map(line).collect()
}

/// When a recording began, if the year has four digits.
fn recorded(metadata: &Metadata) -> Option<String> {
    const YEAR_10000: u64 = 253_402_300_800;
    let began = Some(metadata.began).filter(|began| (1..YEAR_10000).contains(began))?;
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs(began);
    Some(humantime::format_rfc3339_seconds(began).to_string())
}

fn sources(report: &Report, keep: usize, width: Width) -> String {
    let rows = report.sources.iter().take(keep).map(|source| {
        [
            Shown(&source.name).to_string(),
            source.period.map_or_else(String::new, thousands),
            thousands(source.totals.samples),
            estimated(source),
        ]
    });
    let columns = [
        Column::name("source"),
        Column::number("period"),
        Column::number("samples"),
        Column::number("events, estimated"),
    ];
    let mut text = table(width, &columns, rows);
    if keep < report.sources.len() {
        let more = report.sources.len() - keep;
        text += &format!("{more} more sources: `--by source` shows all\n");
    }
    let mut told = Vec::new();
    for source in by_source(report) {
        if !told.contains(&source.skid.explanation) {
            told.push(source.skid.explanation);
        }
    }
    for explanation in told {
        text += &format!("{}\n", width.prose(0, explanation));
    }
    text
}

/// The events of a source, with their bound if they were scaled.
fn estimated(source: &SourceTotals) -> String {
    let events = thousands(source.totals.events);
    match source.error() {
        Some(error) => format!("{events} ±{}", thousands(error)),
        None => events,
    }
}

/// The first rows of a part, and how to see the others.
fn first_rows(
    of: &Table,
    part: &SourceSection,
    several: bool,
    keep: usize,
    all: &str,
    width: Width,
) -> String {
    let more = left_out(part, &(0..keep));
    let more = more.map(|more| format!("{more}: `{all}` prints all\n"));
    section(of, part, several, 0..keep, width) + &more.unwrap_or_default()
}

/// Some rows of a part; with `several` sources, its source comes first.
fn section(
    of: &Table,
    part: &SourceSection,
    several: bool,
    rows: Range<usize>,
    width: Width,
) -> String {
    let mut columns = Vec::new();
    if !part.mixed {
        columns.extend([Column::number("share"), Column::number("95 %")]);
    }
    columns.extend([Column::number("samples"), Column::number("events").extra()]);
    columns.extend(of.by.iter().map(|key| Column::name(key.name())));
    let rows = part.rows.iter().take(rows.end).skip(rows.start).map(|row| {
        let share = part.share(row.totals).into_iter().flat_map(|share| {
            [format!("{:.2} %", share.value * 100.0), format!("±{:.2}", share.bound() * 100.0)]
        });
        let mut cells: Vec<String> = share.collect();
        cells.extend([row.totals.samples, row.totals.events].map(thousands));
        cells.extend(row.values.iter().map(|value| Shown(value).to_string()));
        cells
    });
    let source = part.source.as_deref().filter(|_| several);
    let title = source.map_or_else(String::new, |source| format!("{}\n", Shown(source)));
    title + &table(width, &columns, rows)
}

/// What else a part has, in words; `None` if these are all its rows.
fn left_out(part: &SourceSection, rows: &Range<usize>) -> Option<String> {
    let (mut more, mut sum) = part.more;
    for (_, row) in part.rows.iter().enumerate().filter(|(at, _)| !rows.contains(at)) {
        more += 1;
        sum.add(row.totals);
    }
    (more != 0).then(|| {
        format!("{} more rows with {} samples", thousands(more as u64), thousands(sum.samples))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::screen::{WIDTHS, assert_screen};
    use halprof_profile::file::{Ending, Module, Recording, Statistics};
    use halprof_profile::symbols::{Kind, Opened};

    /// A C++ program with very long names.
    pub(crate) fn example() -> Report {
        let metadata = Metadata {
            halprof: "0.1.0".to_owned(),
            machine: "halprof.sys 0.1.0".to_owned(),
            processors: 16,
            began: 1_700_000_000,
            command: vec!["game.exe".to_owned(), "--bench".to_owned()],
            interface: "Emon".to_owned(),
            timestamp_frequency: 1_000_000_000,
            ..Metadata::default()
        };
        let statistics = Statistics {
            elapsed_ns: 10_000_000_000,
            generated: 20_500,
            lost: BTreeMap::from([("ring-full".to_owned(), 500)]),
            ..Statistics::default()
        };
        let names = [
            (
                "game.exe",
                "world::physics::Solver<world::physics::Contact<double, 3>, std::allocator<world::physics::Contact<double, 3>>>::step(std::chrono::duration<float>)",
                12_000,
            ),
            ("game.exe", "world::render(world::Scene const&)", 5_000),
            ("ntdll.dll", "RtlAllocateHeap", 2_000),
            ("ntoskrnl.exe", "KeWaitForSingleObject", 1_000),
        ];
        let row = |(module, symbol, samples): (&str, &str, u64)| GroupTotals {
            values: vec![Value::Symbol { module: module.into(), symbol: Some(symbol.into()) }],
            totals: Totals::alike(samples, 1_000_000),
        };
        let all = Totals::alike(20_000, 1_000_000);
        Report {
            recording: Recording {
                metadata,
                statistics: Some(statistics),
                samples: 20_000,
                ending: Some(Ending { marks: 0, samples: 20_000, interrupted: false }),
                ..Recording::default()
            },
            sources: vec![SourceTotals {
                name: "TotalCycles".into(),
                period: Some(1_000_000),
                totals: all,
                addressed: 20_000,
                ..SourceTotals::default()
            }],
            total: all,
            tables: vec![Table {
                by: vec![Key::Symbol],
                sections: vec![SourceSection {
                    source: Some("TotalCycles".into()),
                    mixed: false,
                    all,
                    rows: names.map(row).to_vec(),
                    more: (0, Totals::default()),
                }],
            }],
            symbols: vec![Opened {
                module: Module::default(),
                kind: Kind::Pdb,
                file: None,
                image: None,
                notes: Vec::new(),
                download_might_help: false,
            }],
        }
    }

    #[test]
    fn screens_are_as_expected() {
        let arguments = args::Arguments::parse_from(["halprof", "report", "a.rec"]);
        let args::Commands::Report(options) = arguments.expect("arguments").command else {
            panic!("this is report");
        };
        for columns in WIDTHS {
            let text = crate::output::style::plain(&overview(
                &example(),
                &options,
                Width::of(Some(columns)),
            ));
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            assert_screen(&format!("report-{columns}"), &text);
        }
    }

    #[test]
    fn a_moment_that_no_calendar_has_is_left_out() {
        for (began, expected) in [
            (0, None),
            (1_700_000_000, Some("2023-11-14T22:13:20Z")),
            (253_402_300_799, Some("9999-12-31T23:59:59Z")),
            (253_402_300_800, None),
            (u64::MAX, None),
        ] {
            let metadata = Metadata { began, ..Metadata::default() };
            assert_eq!(recorded(&metadata).as_deref(), expected);
        }
    }
}
