//! One page in which a reader chooses what is shown: a range of time, a process, a source, a search. It
//! has the samples, from which its script draws; without scripts it shows pictures of the whole
//! recording and a table. It needs no network and no other file.

mod columns;
mod data;
mod stacks;

use super::units::{amount, fraction, share};
use super::{STYLE, escaped, flamegraph, inline, marks, timeline};
use crate::aggregate::samples::ThreadLocation;
use crate::aggregate::source_totals::SourceTotals;
use crate::aggregate::totals::Totals;
use crate::export::selection::{Export, MetricRow, MetricTable, stacks};
use crate::number::{duration, seconds, thousands};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use data::Data;

const LOOKS: &str = include_str!("page.css");

/// What the script fills.
const APP: &str = include_str!("page/app.html");

/// What is around the parts of the script, and its parts in their order.
const FRAME: &str = include_str!("page/frame.js");
const PARTS: [&str; 9] = [
    include_str!("page/format.js"),
    include_str!("page/data.js"),
    include_str!("page/state.js"),
    include_str!("page/sums.js"),
    include_str!("page/tree.js"),
    include_str!("page/timeline.js"),
    include_str!("page/flame.js"),
    include_str!("page/table.js"),
    include_str!("page/main.js"),
];

/// The largest number of sources with pictures; the table has all.
const PICTURED_MAX: usize = 16;
/// The largest number of rows; those with the most events are kept.
const ROWS_MAX: usize = 5000;

const MODELLED: &str = "Modelled machine, not silicon";

/// The key of a row of the table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    source: u16,
    process: u32,
    module: String,
    symbol: String,
    line: String,
}

/// The page.
pub fn page(export: &Export<'_>) -> String {
    let style = format!("{STYLE}{LOOKS}");
    let script = FRAME.replace("    /* PARTS */\n", &PARTS.concat());
    let title = escaped(&format!("{} - halprof", export.title));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n",
        policy(&style, &script)
    );
    page += &header(export);
    page += "<main>\n";
    if pictured(export).next().is_none() {
        page += "<p>no samples</p>\n";
    } else {
        page += APP;
        let _ = write!(page, "<noscript id=\"plain\">\n{}</noscript>\n", plain(export));
    }
    page += &marks::section(export);
    let _ = write!(
        page,
        "</main>\n<footer>halprof {}</footer>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>{script}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        Data::new(export).in_page()
    );
    page
}

/// What is shown where scripts do not run.
fn plain(export: &Export<'_>) -> String {
    let mut plain: String = pictured(export).map(|&source| section(export, source)).collect();
    plain += &export.metrics.as_ref().map_or_else(String::new, metrics);
    plain + &table(export)
}

/// The content security policy: nothing is loaded, and only the code built into this file runs.
fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(style),
        hash(script)
    )
}

fn pictured<'a, 'b>(export: &'b Export<'a>) -> impl Iterator<Item = &'b &'a SourceTotals> {
    let sampled = export.sources.iter();
    sampled.filter(|source| source.totals.samples != 0).take(PICTURED_MAX)
}

/// What the reader must know of all figures, whatever is chosen.
fn flaws(export: &Export<'_>) -> Vec<String> {
    let recording = &export.samples.recording;
    let modelled = recording.metadata.modelled.then(|| MODELLED.to_owned());
    let losses = (recording.all_lost() != Some(0)).then(|| recording.losses());
    modelled.into_iter().chain(losses).chain(export.warnings()).chain(recording.damaged()).collect()
}

fn header(export: &Export<'_>) -> String {
    let recording = &export.samples.recording;
    let metadata = &recording.metadata;
    let samples: u64 = export.sources.iter().map(|source| source.totals.samples).sum();
    let mut header = format!("<header>\n<h1>{}</h1>\n", escaped(&export.title));
    if metadata.modelled {
        let _ = writeln!(header, "<p class=\"modelled\">{MODELLED}</p>");
    }
    if let Some(damaged) = recording.damaged() {
        let _ = writeln!(header, "<p class=\"flaw\">{}</p>", escaped(&damaged));
    }
    let lost = recording.all_lost();
    let lost = lost.map_or_else(|| "unknown".to_owned(), thousands);
    let causes = recording.lost().into_iter().filter(|&(_, n)| n != 0);
    let causes: Vec<String> =
        causes.map(|(cause, n)| format!("{cause} {}", thousands(n))).collect();
    let lost = match causes.as_slice() {
        [] => lost,
        causes => format!("{lost} ({})", causes.join(", ")),
    };
    for warning in export.warnings() {
        let _ = writeln!(header, "<p class=\"flaw\">{}</p>", escaped(&warning));
    }
    header += "<dl>\n";
    let until = recording_end(export);
    for (name, value) in [
        ("Machine", metadata.machine.clone()),
        ("Interface", metadata.interface.clone()),
        ("Ran", metadata.command.join(" ")),
        ("Time", until),
        ("Samples", thousands(samples)),
        ("Lost", lost),
        ("Call stacks", stacks(export)),
    ] {
        if !value.is_empty() {
            let _ = writeln!(header, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
        }
    }
    header + "</dl>\n</header>\n"
}

/// How long the recording is, and when the last sample was if that is not about the same.
fn recording_end(export: &Export<'_>) -> String {
    let elapsed = export.samples.recording.elapsed_ns();
    let last = export.samples.times.map_or(elapsed, |(_, last)| export.samples.since_start(last));
    let [elapsed, last] = [elapsed, last].map(|time| duration(time as f64));
    if elapsed == last { elapsed } else { format!("{elapsed}, samples until {last}") }
}

/// The period of a source, in events or in time.
fn period(source: &SourceTotals) -> String {
    let period = source.period_events;
    source.time.map_or_else(|| thousands(period), |time| duration(time.nanoseconds(period) as f64))
}

fn section(export: &Export<'_>, source: &SourceTotals) -> String {
    let name = escaped(&source.name);
    let meaning = escaped(meaning(export, source));
    let meaning = if meaning.is_empty() { meaning } else { format!("<p>{meaning}</p>\n") };
    let mut section = format!(
        "<section>\n<h2>{name}</h2>\n{meaning}<p>{}, estimated from {} samples",
        match source.time {
            Some(_) => format!("{} of processor time", amount(source, source.totals.events)),
            None => amount(source, source.totals.events),
        },
        thousands(source.totals.samples)
    );
    if source.period_events != 0 {
        let _ = write!(section, " of period {}", period(source));
    }
    let _ = write!(section, ".</p>\n<h3>Flame graph</h3>\n<p>{}</p>\n", flamegraph::COLOURS);
    section += &inline(
        &format!("{}: flame graph; the table below has the numbers", source.name),
        &flamegraph::drawing(export, source).0,
    );
    let about = timeline::about(export, source);
    let _ = write!(section, "<h3>Timeline</h3>\n<p>{}</p>\n", escaped(&about));
    section += &inline(&format!("{}: {about}", source.name), &timeline::drawing(export, source));
    section + "</section>\n"
}

/// What a source counts; empty if the recording does not say.
fn meaning<'a>(export: &Export<'a>, source: &SourceTotals) -> &'a str {
    let sources = &export.samples.recording.metadata.sources;
    sources.get(usize::from(source.index)).map_or("", |source| &source.meaning)
}

fn tooltip(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" title=\"{}\"", escaped(text)) }
}

/// The metrics of functions.
fn metrics(table: &MetricTable) -> String {
    let row = |cells: &[String], tag: &str| {
        let last = cells.len().saturating_sub(1);
        let cells = cells.iter().enumerate().map(|(index, cell)| {
            let class = if index == last { "symbol" } else { "number" };
            format!("<{tag} class=\"{class}\">{}</{}>", escaped(cell), &tag[..2])
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let with_function =
        |one: &MetricRow| [&one.cells[..], std::slice::from_ref(&one.function)].concat();
    let rows: String = table.rows.iter().map(|one| row(&with_function(one), "td")).collect();
    let heads = [&table.heads[..], &["function".to_owned()]].concat();
    format!(
        "<section>\n<h2>Metrics</h2>\n<p>{}</p>\n<div class=\"scroll\"><table id=\"metrics\">\n\
         <thead>{}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n</section>\n",
        escaped(&table.about),
        row(&heads, "th scope=\"col\"").trim_end()
    )
}

fn table(export: &Export<'_>) -> String {
    let rows = rows(export);
    let has = |text: fn(&RowKey) -> &str| rows.iter().any(|(row, _)| !text(row).is_empty());
    let (symbol, line_known) = (has(|row| &row.symbol), has(|row| &row.line));
    let is_shown = [true, true, true, true, true, true, symbol, line_known];
    let are_times = export.sources.iter().filter(|source| source.time.is_some()).count();
    let amounts = match are_times {
        0 => "Events",
        n if n == export.sources.len() => "Time",
        _ => "Events or time",
    };
    let mut table = "<section>\n<h2>Where</h2>\n\
         <div class=\"scroll\"><table id=\"places\">\n<thead><tr>"
        .to_owned();
    for ((name, class), _) in COLUMNS.iter().zip(is_shown).filter(|&(_, is_shown)| is_shown) {
        let (name, sort) = match *name {
            "Events" => (amounts, " aria-sort=\"descending\""),
            name => (name, ""),
        };
        let _ = write!(table, "<th scope=\"col\" class=\"{class}\"{sort}>{name}</th>");
    }
    table += "</tr></thead>\n<tbody>\n";
    for (row, totals) in rows.iter().take(ROWS_MAX) {
        table += &line(export, row, *totals, is_shown);
    }
    table += "</tbody>\n</table></div>\n";
    if let Some(hidden) = rows.len().checked_sub(ROWS_MAX).filter(|&n| n != 0) {
        let _ = writeln!(
            table,
            "<p>{} more rows, each with fewer events than these, are left out.</p>",
            thousands(hidden as u64)
        );
    }
    table + "</section>\n"
}

/// The columns of the table, and whether they hold numbers.
const COLUMNS: &[(&str, &str)] = &[
    ("Source", "text"),
    ("Share", "number"),
    ("Events", "number"),
    ("Samples", "number"),
    ("Process", "text"),
    ("Module", "text"),
    ("Symbol", "text"),
    ("Line", "text"),
];

/// The rows, those with the most events first, and equal ones in order of their names.
fn rows(export: &Export<'_>) -> Vec<(RowKey, Totals)> {
    let samples = export.samples;
    let mut rows: BTreeMap<RowKey, Totals> = BTreeMap::new();
    for &source in &export.sources {
        let mut code: FxHashMap<_, (&ThreadLocation, Totals)> = FxHashMap::default();
        for (location, totals) in samples.location_totals_of(source) {
            let place = (location.process, Arc::as_ptr(&location.frame));
            code.entry(place).or_insert((location, Totals::default())).1.add(totals);
        }
        for (location, totals) in code.into_values() {
            let row = RowKey {
                source: source.index,
                process: location.process,
                module: location.frame.module.to_string(),
                symbol: location.frame.symbol.as_deref().unwrap_or_default().to_owned(),
                line: location.file_and_line().unwrap_or_default(),
            };
            rows.entry(row).or_default().add(totals);
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.events));
    rows
}

fn line(export: &Export<'_>, row: &RowKey, totals: Totals, is_shown: [bool; 8]) -> String {
    let source = export.sources.iter().find(|one| one.index == row.source);
    let (name, whole) = source.map_or(("", 0), |one| (&*one.name, one.totals.events));
    let meaning = source.map_or("", |one| meaning(export, one));
    let time = source.and_then(|one| one.time);
    let events = time
        .map_or_else(|| thousands(totals.events), |time| seconds(time.nanoseconds(totals.events)));
    let part = fraction(totals.events, whole);
    let text = |text: &str| format!("<td>{}</td>", escaped(text));
    let number = |key: String, displayed: String, more: &str| {
        format!("<td class=\"number\" data-key=\"{key}\">{more}{displayed}</td>")
    };
    let bar = format!(
        "<svg class=\"bar\" aria-hidden=\"true\"><rect width=\"{:.1}%\" height=\"100%\"/></svg>",
        part * 100.0
    );
    let cells = [
        format!("<td{}>{}</td>", tooltip(meaning), escaped(name)),
        number(format!("{part:.9}"), share(totals.events, whole), &bar),
        number(totals.events.to_string(), events, ""),
        number(totals.samples.to_string(), thousands(totals.samples), ""),
        text(&export.samples.process_name(row.process)),
        text(&row.module),
        format!("<td class=\"symbol\">{}</td>", escaped(&row.symbol)),
        text(&row.line),
    ];
    let shown = cells.iter().zip(is_shown).filter(|&(_, is_shown)| is_shown);
    format!("<tr>{}</tr>\n", shown.map(|(cell, _)| cell.as_str()).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::samples::{Samples, SamplesBuilder, TrackBy};
    use crate::export::Format;
    use crate::file::stacks::StackTableBuilder;
    use crate::file::{Metadata, Period, Process, Recording, Source};
    use crate::symbols::Frame;
    use shared_types::{Mode, Sample};

    /// Samples of four threads. The outer functions come from one of 2,000 stacks; each of the four inner
    /// ones is any of `inner` functions.
    fn many(count: u64, inner: u64) -> Samples {
        let period = Period { used: 10_000, ..Period::default() };
        let source = Source { name: "Timer".to_owned(), period, ..Source::default() };
        let metadata = Metadata {
            timestamp_frequency: 10_000_000,
            sources: vec![source],
            ..Metadata::default()
        };
        let mut rng = fastrand::Rng::with_seed(1);
        let outer: Vec<Vec<u64>> = (0..2000)
            .map(|_| (0..rng.usize(4..16)).map(|_| 0x1000 + 16 * rng.u64(..400)).collect())
            .collect();
        let mut stacks = StackTableBuilder::default();
        let mut builder = SamplesBuilder::new(TrackBy::Process, true, &metadata);
        for n in 0..count {
            let inner = [(); 4].map(|()| 0x10_0000 + 16 * rng.u64(..inner));
            let [calls @ .., ip] = &inner;
            let own = &outer[rng.usize(..outer.len())];
            let callers = own.iter().chain(calls).map(|&address| (address, Mode::User));
            let stack = stacks.stack(callers);
            let thread = rng.u32(1..5);
            let sample = Sample {
                timestamp: n * 1000 + rng.u64(..1000),
                ip: *ip,
                period: 10_000,
                process: 8 + thread % 2,
                thread,
                processor: rng.u32(..8),
                mode: Mode::User as u8,
                ..Sample::default()
            };
            builder.add_stacked(&sample, stack);
        }
        let process = |id| Process { id, name: format!("p{id}.exe"), ..Process::default() };
        let recording = Recording {
            metadata,
            samples: count,
            stacks: stacks.finish(),
            processes: vec![process(8), process(9)],
            ..Recording::default()
        };
        builder.finish(recording, |_, address, _| {
            let symbol = format!("space::Class{}::method(int, char const*)", address >> 4);
            let module = format!("module{}.dll", address % 37);
            let symbol: Option<Arc<str>> = Some(symbol.into());
            (Frame { module: module.into(), symbol, ..Frame::default() }, None)
        })
    }

    /// For inspection: HALPROF_PICTURES=FOLDER keeps the pages there.
    #[test]
    fn a_page_of_many_stacks_can_be_opened() {
        const COUNT: u64 = 1_200_000;
        for (inner, is_binned) in [(1, true), (2, false)] {
            let samples = many(COUNT, inner);
            let page = page(&Export::new(&samples, "many", Format::Html));
            if let Some(folder) = std::env::var_os("HALPROF_PICTURES") {
                let path = std::path::Path::new(&folder).join(format!("many-{inner}.html"));
                std::fs::write(path, &page).expect("written");
            }
            let length = page.len();
            assert!(length < 20_000_000, "{inner}: {length} bytes");
            let (_, data) = page.split_once("id=\"data\">").expect("data");
            let data = data.split_once("</script>").expect("an end").0;
            let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
            // Few places have many samples each, which are added up in bins; of many places each has few.
            assert_eq!(data["bin_ns"].is_u64(), is_binned, "{inner}: {}", data["bin_ns"]);
        }
    }
}
