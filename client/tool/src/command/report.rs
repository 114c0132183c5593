//! `halprof report`: what was sampled.

use crate::output::{Output, seconds, table_of, thousands};
use crate::shown::Shown;
use crate::{Error, Result};
use crate::{args, diff, filters};
use halprof_profile::recording::Recording;
use halprof_profile::report::key::{Key, Value};
use halprof_profile::report::share::Share;
use halprof_profile::report::skid::Skid;
use halprof_profile::report::{OfSource, Part, Query, Report, Row, Sort, Sum, Table};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The tables of one who does not say which.
const DEFAULT: &[&[Key]] = &[
    &[Key::Module],
    &[Key::Symbol],
    &[Key::Process],
    &[Key::Processor],
    &[Key::Address],
];

#[derive(Serialize)]
struct Body {
    file: String,
    machine: String,
    interface: String,
    elapsed_ns: u64,
    /// Samples in the file.
    samples: u64,
    /// Those that the filters let through.
    counted: u64,
    /// Why this is not the whole recording.
    flaw: Option<String>,
    /// Null where the file is cut or damaged: `flaw` says how.
    lost: Option<BTreeMap<String, u64>>,
    throttled: u64,
    longest_period: u64,
    warnings: Vec<String>,
    by_source: Vec<BySource>,
    by_processor: Vec<Json>,
    by_process: Vec<Json>,
    by_module: Vec<Json>,
    by_address: Vec<Json>,
    tables: Vec<Json>,
    symbols: Vec<filters::OpenedModule>,
}

#[derive(Serialize)]
struct BySource {
    source: String,
    period: Option<u64>,
    samples: u64,
    events: u64,
    /// Whether the source took turns on the counters, so that `events` is scaled to the whole time.
    scaled: bool,
    /// The 95 % bound of scaled events, where it is known.
    error: Option<u64>,
    skid: SkidTold,
}

#[derive(Serialize)]
struct SkidTold {
    direction: &'static str,
    explanation: &'static str,
}

pub(crate) fn run(options: &args::Report, output: &Output) -> Result<u8> {
    let mut query = query(options)?;
    let asked = query.tables.len();
    if output.is_json() {
        for keys in DEFAULT {
            if !query.tables.iter().any(|by| by == keys) {
                query.tables.push(keys.to_vec());
            }
        }
        query.rows = None;
    }
    let path = options.naming.path();
    let report = Report::read(&options.file, &query, &path)?;
    let status = filters::introduce(&report.recording, output);
    if let Some(other) = &options.diff {
        let other = Report::read(other, &query, &path)?;
        let status = status.max(filters::introduce(&other.recording, output));
        diff::run(options, (&report, &other), asked, output)?;
        return Ok(status);
    }
    let warnings = filters::warnings(&report);
    for warning in &warnings {
        output.warn(warning);
    }
    filters::note_symbols(&report.symbols, output);
    if output.is_json() {
        let body = body(options, &report, asked, warnings);
        output.print(&Output::object(
            "report",
            report.recording.metadata.modelled,
            body,
        )?)?;
    } else if options.csv {
        output.print_data(&csv(&report)?)?;
    } else {
        output.print(&text(&report, options.by.0.is_empty()))?;
    }
    Ok(status)
}

fn query(options: &args::Report) -> Result<Query> {
    let mut tables = filters::tables(&options.by.0)?;
    if options.csv && tables.len() > 1 {
        return Err(Error::usage(
            "`--csv` prints one table",
            "Give `--by` once; several keys part its rows further.",
        ));
    }
    if tables.is_empty() {
        tables = if options.csv || options.diff.is_some() {
            vec![vec![Key::Symbol]]
        } else {
            DEFAULT.iter().map(|keys| keys.to_vec()).collect()
        };
    }
    let all = options.csv || options.diff.is_some() || options.top == 0;
    Ok(Query {
        tables,
        filter: filters::filter(&options.filters)?,
        sort: match options.sort {
            args::Sorting::Samples => Sort::Samples,
            args::Sorting::Events => Sort::Events,
            args::Sorting::Name => Sort::Name,
        },
        rows: (!all).then_some(options.top),
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
        file: options.file.display().to_string(),
        machine: recording.metadata.machine.clone(),
        interface: recording.metadata.interface.clone(),
        elapsed_ns: recording.elapsed_ns(),
        samples: recording.samples,
        counted: report.total.samples,
        flaw: recording.flaw(),
        lost: recording.losses_are_known().then(|| recording.lost()),
        throttled: statistics.throttled,
        longest_period: statistics.longest_period,
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
    let sources = report
        .sources
        .iter()
        .filter(|source| source.sum.samples != 0);
    let sources = sources.map(|source| {
        let (skid, explanation) = Skid::of(interface, source.sum.samples, source.addressed);
        BySource {
            source: source.name.to_string(),
            period: source.period,
            samples: source.sum.samples,
            events: source.sum.events,
            scaled: source.turns.is_some(),
            error: source
                .turns
                .as_ref()
                .and_then(|turns| turns.error(source.sum.events)),
            skid: SkidTold {
                direction: skid.name(),
                explanation,
            },
        }
    });
    sources.collect()
}

/// Rows of all sources together, the most samples first.
fn merged(table: &Table) -> Vec<Json> {
    let mut sums: BTreeMap<&[Value], u64> = BTreeMap::new();
    for row in table.parts.iter().flat_map(|part| &part.rows) {
        *sums.entry(&row.values).or_default() += row.sum.samples;
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|&(_, samples)| std::cmp::Reverse(samples));
    let rows = rows.into_iter().map(|(values, samples)| {
        let mut row = described(values);
        row.insert("samples".to_owned(), json!(samples));
        Json::Object(row)
    });
    rows.collect()
}

fn described(values: &[Value]) -> Map<String, Json> {
    let mut row = Map::new();
    for value in values {
        value.describe(&mut row);
    }
    row
}

fn table_json(table: &Table) -> Json {
    let keys: Vec<_> = table.by.iter().map(|key| key.name()).collect();
    let row = |part: &Part, row: &Row| {
        let mut object = described(&row.values);
        let share = Share::of(row.sum.samples, part.all.samples);
        object.insert("samples".to_owned(), json!(row.sum.samples));
        object.insert("events".to_owned(), json!(row.sum.events));
        let share = json!({"value": share.value, "low": share.low, "high": share.high});
        object.insert("share".to_owned(), share);
        Json::Object(object)
    };
    let parts = table.parts.iter().map(|part| {
        let rows: Vec<_> = part.rows.iter().map(|r| row(part, r)).collect();
        json!({
            "source": part.source.as_deref(),
            "samples": part.all.samples,
            "events": part.all.events,
            "rows": rows,
        })
    });
    json!({"by": keys, "parts": parts.collect::<Vec<_>>()})
}

fn csv(report: &Report) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let internal = |error: &dyn std::fmt::Display| Error::internal(error);
    for table in &report.tables {
        let mut head: Vec<&str> = Vec::new();
        for column in table.by.iter().flat_map(|key| key.columns()) {
            if !head.contains(column) {
                head.push(column);
            }
        }
        let part_source = !table.by.contains(&Key::Source);
        let first = part_source.then_some("source");
        let numbers = ["samples", "events", "share", "share_low", "share_high"];
        let columns = first.into_iter().chain(head.iter().copied()).chain(numbers);
        writer.write_record(columns).map_err(|e| internal(&e))?;
        for part in &table.parts {
            for row in &part.rows {
                let fields = fields(part, row, &head, part_source);
                writer.write_record(fields).map_err(|e| internal(&e))?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|e| internal(&e))?;
    String::from_utf8(bytes).map_err(|e| internal(&e))
}

fn fields(part: &Part, row: &Row, head: &[&str], part_source: bool) -> Vec<String> {
    let described = described(&row.values);
    let field = |value: Option<&Json>| match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let share = Share::of(row.sum.samples, part.all.samples);
    let mut fields = Vec::with_capacity(head.len() + 6);
    fields.extend(part_source.then(|| part.source.as_deref().unwrap_or_default().to_owned()));
    fields.extend(head.iter().map(|&column| field(described.get(column))));
    fields.extend([row.sum.samples, row.sum.events].map(|number| number.to_string()));
    fields.extend([share.value, share.low, share.high].map(|part| format!("{part:.6}")));
    fields
}

fn text(report: &Report, is_default: bool) -> String {
    let mut text = head(&report.recording, report.total);
    text += &format!("\n{}", sources(report));
    let named = report.symbols.iter().any(|opened| opened.kind.names());
    for table in &report.tables {
        // Addresses are worth a table where nothing better is known of them.
        if is_default && table.by == [if named { Key::Address } else { Key::Symbol }] {
            continue;
        }
        for part in &table.parts {
            text += &format!("\n{}", section(table, part, report.sources.len() > 1));
        }
    }
    text
}

fn head(recording: &Recording, counted: Sum) -> String {
    let lost = recording.lost();
    let mut text = format!(
        "{} samples in {}, {}",
        thousands(recording.samples),
        seconds(recording.elapsed_ns()),
        if recording.losses_are_known() {
            format!("{} lost", thousands(lost.values().sum::<u64>()))
        } else {
            "losses unknown".to_owned()
        }
    );
    for (cause, n) in lost.iter().filter(|&(_, &n)| n != 0) {
        text += &format!(", {} {}", Shown(cause), thousands(*n));
    }
    if counted.samples != recording.samples {
        text += &format!("; {} pass the filters", thousands(counted.samples));
    }
    text + "\n"
}

fn sources(report: &Report) -> String {
    let rows = report.sources.iter().map(|source| {
        vec![
            Shown(&source.name).to_string(),
            source.period.map_or_else(String::new, thousands),
            thousands(source.sum.samples),
            estimated(source),
        ]
    });
    let head = ["source", "period", "samples", "events, estimated"];
    let mut text = table_of(head, rows, &[1, 2, 3]);
    let mut told = Vec::new();
    for source in by_source(report) {
        if !told.contains(&source.skid.explanation) {
            told.push(source.skid.explanation);
        }
    }
    for explanation in told {
        text += &format!("{explanation}\n");
    }
    text
}

/// The events of a source, with the bound of those that were scaled.
fn estimated(source: &OfSource) -> String {
    let events = thousands(source.sum.events);
    let error = source.turns.as_ref();
    match error.and_then(|turns| turns.error(source.sum.events)) {
        Some(error) => format!("{events} ±{}", thousands(error)),
        None => events,
    }
}

fn section(table: &Table, part: &Part, several: bool) -> String {
    let mut head = vec!["share", "95 %", "samples", "events"];
    head.extend(table.by.iter().map(|key| key.name()));
    let rows = part.rows.iter().map(|row| {
        let share = Share::of(row.sum.samples, part.all.samples);
        let mut cells = vec![
            format!("{:.2} %", share.value * 100.0),
            format!("±{:.2}", share.bound() * 100.0),
            thousands(row.sum.samples),
            thousands(row.sum.events),
        ];
        cells.extend(row.values.iter().map(|value| Shown(value).to_string()));
        cells
    });
    let source = part.source.as_deref().filter(|_| several);
    let title = source.map_or_else(String::new, |source| format!("{}\n", Shown(source)));
    let mut text = title + &table_of(head, rows, &[0, 1, 2, 3]);
    let (rows, sum) = part.more;
    if rows != 0 {
        text += &format!(
            "{rows} more rows with {} samples: `--top 0` prints all\n",
            thousands(sum.samples)
        );
    }
    text
}
