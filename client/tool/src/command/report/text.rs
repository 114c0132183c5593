//! The text of `halprof report`.

use super::recorded;
use crate::cli::args;
use crate::metrics::Metrics;
use crate::output::escape::Escaped;
use crate::output::number::thousands;
use crate::output::table::Width;
use crate::results::head::head;
use crate::results::report_text::{ALL, sources};
use crate::results::sample_rows::section;
use halprof_profile::aggregate::key::{Key, Value};
use halprof_profile::symbols::{NO_ADDRESS, UNKNOWN};
use halprof_profile::views::report::Report;

/// The number of lines of a report without `--by`.
const LINES: usize = 40;

/// Where the samples are, if no function is known.
pub(super) const MODULES: [Key; 2] = [Key::Process, Key::Module];

/// The largest number of sources that have a line each in it.
const SOURCES: usize = 8;

/// A report that fits into [`LINES`]: how it was recorded, what was lost, the functions with the
/// most samples, and how to see the rest.
pub(super) fn overview(
    report: &Report,
    options: &args::Report,
    metrics: &Metrics,
    width: Width,
) -> String {
    let keys = keys(report);
    let rest = "More: `--by module`, `line`, `address`, `process`, `thread`, `processor`, `core` or \
                `machine`; \
                `--rows 0` for every row; `halprof annotate FILE` for the instructions of a function.";
    let rest = format!("\n{}\n", width.prose(0, rest));
    let rest = rest
        + &ipc(report, options, metrics)
            .map_or_else(String::new, |line| width.prose(0, &line) + "\n");
    let mut text = made(report, width) + &head(&report.recording, report.total.samples, width);
    text += &format!("\n{}", sources(report, SOURCES, width));
    let parts = report.tables.iter().filter(|table| table.by == keys);
    let parts: Vec<_> =
        parts.flat_map(|table| table.sections.iter().map(move |part| (table, part))).collect();
    let several = report.sources.len() > 1;
    // A section has a blank line before it, a title, a header, and a line on what is left out.
    let around = 3 + usize::from(several);
    // What says how many sources are left out has one before it too.
    let more = 2;
    let room = LINES.saturating_sub(text.lines().count() + rest.lines().count() + more);
    let shown = parts.len().min(room / (around + 2));
    let rows = (room / shown.max(1)).saturating_sub(around).max(1);
    let rows = options.rows.map_or(rows.min(20), |_| options.most_rows());
    for (table, part) in parts.iter().take(if options.rows.is_some() { usize::MAX } else { shown })
    {
        text += "\n";
        text += &section(&table.by, part, several, rows, ALL).text(width);
    }
    if options.rows.is_none() && shown < parts.len() {
        text += &format!("\n{} more sources: `--source NAME` chooses\n", parts.len() - shown);
    }
    text + &rest
}

/// How to see the instructions per cycle of functions; nothing where metrics are shown.
fn ipc(report: &Report, options: &args::Report, metrics: &Metrics) -> Option<String> {
    if !options.metrics.is_empty() {
        return None;
    }
    let sampled = |quantity: &str| {
        let mut names = report.sources.iter().map(|source| source.name.split(':').next());
        names.any(|name| name.and_then(|name| metrics.quantity(name)) == Some(quantity))
    };
    let first = if sampled("cycles") && sampled("instructions") {
        ""
    } else {
        "`halprof record -M ipc`, then "
    };
    Some(format!("IPC by function: {first}`halprof report -M ipc`."))
}

/// What tells most of where samples are: functions; where none is known, processes with their modules;
/// where none of these is known, addresses.
fn keys(report: &Report) -> &'static [Key] {
    let has = |keys: &[Key], known: fn(&Value) -> bool| {
        let mut tables = report.tables.iter().filter(|table| table.by == keys);
        let mut rows =
            tables.by_ref().flat_map(|table| &table.sections).flat_map(|part| &part.rows);
        rows.any(|row| row.values.iter().any(known))
    };
    let is_function = |value: &Value| matches!(value, Value::Symbol { symbol: Some(_), .. });
    let is_module = |value: &Value| matches!(value, Value::Module(module) if ![UNKNOWN, NO_ADDRESS].contains(&&**module));
    if has(&[Key::Symbol], is_function) {
        &[Key::Symbol]
    } else if has(&MODULES, is_module) {
        &MODULES
    } else {
        &[Key::Address]
    }
}

/// What is known of a trace without samples.
pub(super) fn without_samples(report: &Report, why: &str, width: Width) -> String {
    let head = made(report, width) + &head(&report.recording, report.total.samples, width);
    format!("{head}\n{}\n", width.prose(0, why))
}

/// When, how and with what it was recorded.
fn made(report: &Report, width: Width) -> String {
    let metadata = &report.recording.metadata;
    let by = match metadata.halprof.as_str() {
        "" => "Windows' own tracing".to_owned(),
        version => format!("halprof {version}"),
    };
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
        let text = Escaped(text).to_string();
        format!("{label:<10}  {}\n", width.left(12, &text))
    };
    rows.map(line).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::screen::{WIDTHS, assert_screen};
    use halprof_profile::aggregate::key::Process;
    use halprof_profile::aggregate::source_totals::SourceTotals;
    use halprof_profile::aggregate::totals::Totals;
    use halprof_profile::file::{Ending, Metadata, Module, Recording, Statistics};
    use halprof_profile::symbols::{Kind, Opened};
    use halprof_profile::views::report::{GroupTotals, SourceSection, Table};
    use std::collections::BTreeMap;

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
        let rows = names.map(|(module, symbol, samples)| {
            let symbol = Value::Symbol { module: module.into(), symbol: Some(symbol.into()) };
            GroupTotals::new(vec![symbol], Totals::alike(samples, 1_000_000), None)
        });
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
                sections: vec![SourceSection::new(
                    Some("TotalCycles".into()),
                    false,
                    (all, rows.to_vec(), (0, Totals::default())),
                )],
            }],
            call_trees: Vec::new(),
            has_inlined: false,
            symbols: vec![Opened {
                module: Module::default(),
                name: "".into(),
                kind: Kind::Pdb,
                file: None,
                image: None,
                notes: Vec::new(),
                limits: Vec::new(),
                download_might_help: false,
                samples: 0,
            }],
        }
    }

    #[test]
    fn screens_are_as_expected() {
        let arguments = args::Arguments::parse_from(["halprof", "report", "a.rec"]);
        let args::Commands::Report(options) = arguments.expect("arguments").command else {
            panic!("this is report");
        };
        let metrics = Metrics::built_in().expect("metrics");
        for columns in WIDTHS {
            let text = crate::output::style::plain(&overview(
                &example(),
                &options,
                &metrics,
                Width::of(Some(columns)),
            ));
            assert_screen(&format!("report-{columns}"), &text, columns);
        }
    }

    /// Functions, else processes with their modules, else addresses.
    #[test]
    fn the_first_page_is_of_what_is_known() {
        let module = |name: &str| Value::Module(name.into());
        let process = Value::Process(Process { id: Some(4), name: None });
        let table = |by: &[Key], values: Vec<Value>| {
            let row = GroupTotals::new(values, Totals::alike(1, 1), None);
            let section = (Totals::alike(1, 1), vec![row], (0, Totals::default()));
            Table { by: by.to_vec(), sections: vec![SourceSection::new(None, false, section)] }
        };
        for (symbol, name, expected) in [
            (Some("f"), "a.exe", &[Key::Symbol][..]),
            (None, "a.exe", &MODULES),
            (None, UNKNOWN, &[Key::Address]),
            (None, NO_ADDRESS, &[Key::Address]),
        ] {
            let symbol = Value::Symbol { module: name.into(), symbol: symbol.map(Into::into) };
            let tables = vec![
                table(&[Key::Symbol], vec![symbol]),
                table(&MODULES, vec![process.clone(), module(name)]),
                table(&[Key::Address], vec![Value::Source("row".into())]),
            ];
            assert_eq!(keys(&Report { tables, ..example() }), expected, "{name}");
        }
    }
}
