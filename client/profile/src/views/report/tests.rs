use super::*;
use crate::aggregate::by_address::ByAddress;
use crate::export::{self, Format, TrackBy};
use crate::file::test_recording::TestRecording;
use crate::file::{Block, Cores, Ending, Live, Metadata, Module, Process, Sink};
use crate::symbols::{FunctionPattern, Pattern};
use crate::views::script;
use shared_types::{Mode, Sample};
use std::collections::{BTreeMap, BTreeSet};
use tempfile::TempDir;

const PERIOD: u64 = 1000;

fn sample(source: u16, process: u32, ip: u64, mode: Mode) -> Sample {
    Sample {
        source,
        process,
        thread: process + 1,
        ip,
        mode: mode as u8,
        period: PERIOD,
        ..Sample::default()
    }
}

/// Two sources, two processes that each have a module at the same addresses, and a kernel.
fn recorded(samples: &[Sample]) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    record(&path, "", samples);
    (folder, path)
}

/// Writes such a recording of a machine with this name.
fn record(path: &Path, host: &str, samples: &[Sample]) {
    let cores = |name: &str, first, last| Cores { name: name.to_owned(), first, last };
    let mut recording = TestRecording {
        processes: vec![Process::named(7, "a.exe"), Process::named(8, "b.exe")],
        modules: vec![
            Module::named(Some(7), "a.exe", 0x1000, 0x1000),
            Module::named(Some(8), "b.exe", 0x1000, 0x1000),
            Module::named(None, "nt", 0xFFFF_0000, 0x1000),
        ],
        samples: samples.to_vec(),
        ..TestRecording::of_sources(&["TotalCycles", "CacheMisses:u"])
    };
    recording.metadata = Metadata {
        cores: vec![
            cores("performance", 0, 3),
            cores("efficiency", 4, 7),
            cores("performance", 8, 9),
        ],
        interface: "Emon".to_owned(),
        host: host.to_owned(),
        timestamp_frequency: 1000,
        ..recording.metadata
    };
    if !host.is_empty() {
        recording.statistics.lost.insert("ring-full".to_owned(), 2);
    }
    recording.write_to(path);
}

/// What is asked by these keys, of everything.
fn by(keys: &[Key]) -> Query {
    Query { tables: vec![keys.to_vec()], ..Query::default() }
}

fn report(path: &Path, query: &Query) -> Report {
    Report::read(path, query, &SymbolPath::default()).expect("read")
}

fn report_all(paths: &[std::path::PathBuf], query: &Query) -> Report {
    Report::read_all(paths, query, &SymbolPath::default()).expect("read")
}

fn read(samples: &[Sample], keys: &[Key], filter: Filter) -> Report {
    let (_folder, path) = recorded(samples);
    report(&path, &Query { filter, ..by(keys) })
}

fn pattern(text: &str) -> Vec<Pattern> {
    vec![Pattern::new(text)]
}

/// The rows of the only table, as text.
fn rows(report: &Report) -> Vec<(String, u64, u64)> {
    let sections = report.tables[0].sections.iter();
    let rows = sections.flat_map(|section| {
        section.rows.iter().map(|row| {
            let values: Vec<_> = row.values.iter().map(ToString::to_string).collect();
            let source = section.source.as_deref().unwrap_or("all");
            let text = format!("{source}: {}", values.join(", "));
            (text, row.totals.samples, row.totals.events)
        })
    });
    rows.collect()
}

fn named(expected: &[(&str, u64)]) -> Vec<(String, u64, u64)> {
    let row = |&(text, n): &(&str, u64)| (text.to_owned(), n, n * PERIOD);
    expected.iter().map(row).collect()
}

fn some() -> Vec<Sample> {
    vec![
        sample(0, 7, 0x1000, Mode::User),
        sample(0, 7, 0x1FFF, Mode::User),
        sample(0, 8, 0x1000, Mode::User),
        sample(0, 8, 0xFFFF_0010, Mode::Kernel),
        sample(0, 7, 0xFFFF_0010, Mode::Kernel),
        sample(0, 7, 0x2000, Mode::User),
        sample(0, 7, 0, Mode::Unknown),
        sample(1, 7, 0x1000, Mode::User),
    ]
}

#[test]
fn a_live_report_is_that_on_the_file() {
    let (_folder, path) = recorded(&some());
    let tables = vec![vec![Key::Process, Key::Module], vec![Key::Source]];
    let query = Query { tables, ..Query::default() };
    let of_file = report(&path, &query);
    let recording = of_file.recording.clone();
    let mut live = Live::new(recording.metadata);
    for section in [
        Block::Processes(recording.processes),
        Block::Modules(recording.modules),
        Block::Samples(some()),
    ] {
        live.put(section).expect("kept");
    }
    let mut symbols = Symbols::open(&Recording::default(), &SymbolPath::default());
    let of_memory = Report::live(live.take(), &query, &mut symbols).expect("summed up");
    assert_eq!(of_memory.tables, of_file.tables);
    assert_eq!(of_memory.sources, of_file.sources);
    // What is taken is not counted again.
    let empty = Report::live(live.take(), &query, &mut symbols).expect("summed up");
    assert_eq!(empty.total, Totals::default());
}

#[test]
fn sources_are_not_added_up() {
    let expected = [
        ("TotalCycles: a.exe", 2),
        ("TotalCycles: nt", 2),
        ("TotalCycles: b.exe", 1),
        ("TotalCycles: no address", 1),
        ("TotalCycles: unknown", 1),
        ("CacheMisses:u: a.exe", 1),
    ];
    // Functions have no names here, so that modules are all that tells them apart.
    for (key, opened) in [(Key::Module, 0), (Key::Symbol, 3)] {
        let report = read(&some(), &[key], Filter::default());
        assert_eq!(rows(&report), named(&expected));
        assert_eq!(report.total.samples, 8);
        assert_eq!(report.sources[0].addressed, 6);
        assert_eq!(report.symbols.len(), opened, "{key:?}");
    }
    let mixed = read(&some(), &[Key::Source, Key::Processor], Filter::default());
    let expected = [("all: TotalCycles, 0", 7), ("all: CacheMisses:u, 0", 1)];
    assert_eq!(rows(&mixed), named(&expected));
}

#[test]
fn keys_part_rows_in_their_order() {
    let report = read(&some(), &[Key::Process, Key::Module], Filter::default());
    let expected = [
        ("TotalCycles: a.exe (7), a.exe", 2),
        ("TotalCycles: a.exe (7), no address", 1),
        ("TotalCycles: a.exe (7), nt", 1),
        ("TotalCycles: a.exe (7), unknown", 1),
        ("TotalCycles: b.exe (8), b.exe", 1),
        ("TotalCycles: b.exe (8), nt", 1),
        ("CacheMisses:u: a.exe (7), a.exe", 1),
    ];
    assert_eq!(rows(&report), named(&expected));
    let report = read(&some(), &[Key::Address], Filter::default());
    // The kernel is one row, whatever process it works for.
    assert_eq!(rows(&report)[0], named(&[("TotalCycles: 0xffff0010 nt", 2)])[0]);
    assert_eq!(rows(&report).len(), 7);
    let report = read(&some(), &[Key::Thread], Filter::default());
    assert_eq!(rows(&report)[0], named(&[("TotalCycles: 8 of a.exe (7)", 5)])[0]);
    // Two processes had a thread of one identifier, one after the other.
    let of = |process| Sample { thread: 5, ..sample(0, process, 0x1000, Mode::User) };
    let report = read(&[of(7), of(7), of(8)], &[Key::Thread], Filter::default());
    let expected = [("TotalCycles: 5 of a.exe (7)", 2), ("TotalCycles: 5 of b.exe (8)", 1)];
    assert_eq!(rows(&report), named(&expected));
}

#[test]
fn an_address_is_relative_to_the_start_of_its_module() {
    let report = read(&some(), &[Key::Address], Filter::default());
    let rows = report.tables[0].sections[0].rows.iter();
    let locations = rows.map(|row| match &row.values[..] {
        [Value::Address { address, module, symbol: None, offset }] => {
            (&**module, *address, *offset)
        }
        other => panic!("{other:?}"),
    });
    let locations: BTreeSet<(&str, u64, Option<u64>)> = locations.collect();
    let expected = [
        ("a.exe", 0x1000, Some(0)),
        ("a.exe", 0x1FFF, Some(0xFFF)),
        ("b.exe", 0x1000, Some(0)),
        ("nt", 0xFFFF_0010, Some(0x10)),
        // What is in no module is relative to nothing.
        ("no address", 0, None),
        ("unknown", 0x2000, None),
    ];
    assert_eq!(locations, BTreeSet::from(expected));
}

#[test]
fn a_table_does_not_part_the_rows_of_another() {
    let (_folder, path) = recorded(&some()[..2]);
    let tables = vec![vec![Key::Machine, Key::Module], vec![Key::Address]];
    let report = report(&path, &Query { tables, ..Query::default() });
    // Both addresses are in one module.
    assert_eq!(rows(&report), named(&[("TotalCycles: a, a.exe", 2)]));
}

#[test]
fn rows_of_processors_and_core_types_are_separate() {
    let on = |processor| Sample { processor, ..sample(0, 7, 0x1000, Mode::User) };
    let samples = [0, 9, 4, 9, 12].map(on);
    let by_processor = [("9", 2), ("0", 1), ("4", 1), ("12", 1)];
    // The recording gives no type for the last one.
    let by_core = [("performance", 3), ("one type", 1), ("efficiency", 1)];
    for (key, expected) in [(Key::Processor, &by_processor[..]), (Key::Core, &by_core)] {
        let report = read(&samples, &[key], Filter::default());
        let expected = expected.iter().map(|&(name, samples)| {
            let events = samples * PERIOD;
            (format!("TotalCycles: {name}"), samples, events)
        });
        assert_eq!(rows(&report), expected.collect::<Vec<_>>());
    }
}

#[test]
fn rows_come_in_the_order_that_is_asked_for() {
    let rare = Sample { period: 5 * PERIOD, ..sample(0, 8, 0x1000, Mode::User) };
    let (_folder, path) = recorded(&[rare, some()[0], some()[1], some()[5]]);
    for (sort, expected) in [
        (Sort::Samples, ["a.exe", "b.exe", "unknown"]),
        (Sort::Events, ["b.exe", "a.exe", "unknown"]),
        (Sort::Name, ["a.exe", "b.exe", "unknown"]),
    ] {
        let report = report(&path, &Query { sort, ..by(&[Key::Module]) });
        let rows = report.tables[0].sections[0].rows.iter();
        let names = rows.map(|row| row.values[0].to_string());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{sort:?}");
    }
}

#[test]
fn samples_by_address_are_those_that_a_filter_lets_through() {
    let (_folder, path) = recorded(&some());
    let filter = Filter { processes: pattern("8"), ..Filter::default() };
    let hits = ByAddress::read(&path, &filter, &SymbolPath::default()).expect("read");
    let locations = hits.all.iter().map(|(location, _, totals)| (location.ip, totals.samples));
    let locations: BTreeSet<(u64, u64)> = locations.collect();
    assert_eq!(locations, BTreeSet::from([(0x1000, 1), (0xFFFF_0010, 1)]));
    assert_eq!(hits.sources[0].totals.samples, 2);
}

#[test]
fn without_statistics_a_recording_is_as_long_as_its_samples_show() {
    let at = |timestamp| Sample { timestamp, ..Sample::default() };
    let seen = |times: &[u64], frequency| {
        let mut aggregator = Aggregator::new(&[]);
        // In several blocks, and not in order.
        for &time in times {
            aggregator.add(without_stacks(&[at(time)]));
        }
        aggregator.finish().seen_ns(frequency)
    };
    assert_eq!(seen(&[2000, 500, 2500], 1000), 2_000_000_000);
    assert_eq!(seen(&[7], 1000), 0);
    assert_eq!(seen(&[], 1000), 0);
    assert_eq!(seen(&[1, 2], 0), 0, "the rate of the clock is not known");
}

#[test]
fn filters_let_through_what_they_name() {
    let none = Filter::default;
    for (filter, samples) in [
        (Filter { sources: pattern("cachemisses"), ..none() }, 1),
        (Filter { processes: pattern("8"), ..none() }, 2),
        (Filter { processes: pattern("B.*"), ..none() }, 2),
        (Filter { modules: pattern("*.exe"), ..none() }, 4),
        (Filter { symbols: vec![FunctionPattern::new("*")], ..none() }, 0),
        (Filter { threads: pattern("8"), ..none() }, 6),
        (Filter { threads: pattern("9"), ..none() }, 2),
        (Filter { threads: pattern("10"), ..none() }, 0),
        (Filter { sources: pattern("cycles"), ..none() }, 7),
        (Filter { processors: Some(BTreeSet::from([1])), ..none() }, 0),
        (Filter { processes: pattern("7"), modules: pattern("nt"), ..none() }, 1),
    ] {
        let found = read(&some(), &[Key::Module], filter.clone()).total.samples;
        assert_eq!(found, samples, "{filter:?}");
    }
    let (_folder, path) = recorded(&some());
    let filter = Filter { sources: pattern("Other"), ..none() };
    let refused = Report::read(&path, &Query { filter, ..by(&[]) }, &SymbolPath::default());
    assert_eq!(refused.expect_err("no such source").code(), "usage");
}

#[test]
fn time_begins_with_the_first_sample_whichever_stands_first() {
    let at = |timestamp| Sample { timestamp, ..sample(0, 7, 0x1000, Mode::User) };
    // One second is a thousand ticks.
    let samples = [at(12_000), at(10_000), at(10_999), at(11_000), at(11_500)];
    for (from, to, expected) in
        [(0, 1_000_000_000, 2), (1_000_000_000, 1_500_000_000, 1), (1_000_000_000, u64::MAX, 3)]
    {
        let filter = Filter { time: Some((from, to)), ..Filter::default() };
        let total = read(&samples, &[Key::Module], filter).total;
        assert_eq!(total.samples, expected, "{from} to {to}");
    }
}

/// Rows of equal totals are cut by name, as if all had been sorted.
#[test]
fn the_number_of_omitted_rows_is_shown() {
    let (_folder, path) = recorded(&some());
    let section = |rows| {
        let report = report(&path, &Query { rows, ..by(&[Key::Module]) });
        report.tables[0].sections[0].clone()
    };
    let whole = section(None);
    assert_eq!((whole.rows.len(), whole.all.samples), (5, 7));
    for limit in 0..=6 {
        let section = section(Some(limit));
        let (kept, omitted) = whole.rows.split_at(limit.min(5));
        assert_eq!(section.rows, kept, "{limit}");
        let samples = omitted.iter().map(|row| row.totals.samples).sum();
        assert_eq!((section.more.0, section.more.1.samples), (omitted.len(), samples), "{limit}");
        assert_eq!(section.all, whole.all, "{limit}");
    }
}

#[test]
fn several_recordings_are_one_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let paths = [at("one.rec"), at("two.rec"), at("three.rec")];
    let (a, b) = (sample(0, 7, 0x1000, Mode::User), sample(0, 8, 0x1000, Mode::User));
    let other = sample(1, 8, 0x1000, Mode::User);
    record(&paths[0], "alpha", &[a, a, b]);
    record(&paths[1], "beta", &[b, other]);
    record(&paths[2], "", &[a]);
    let summed = |keys: &[Key], rows| report_all(&paths, &Query { rows, ..by(keys) });
    let report = summed(&[Key::Machine], None);
    // A recording that does not name its machine gets its file's name.
    let machines = [
        ("TotalCycles: alpha", 3),
        ("TotalCycles: beta", 1),
        ("TotalCycles: three", 1),
        ("CacheMisses:u: beta", 1),
    ];
    assert_eq!(rows(&report), named(&machines));
    assert_eq!((report.total.samples, report.recording.samples), (6, 6));
    assert_eq!(report.recording.lost()["ring-full"], 4);
    assert_eq!(report.recording.damaged(), None);
    let sums: Vec<u64> = report.sources.iter().map(|one| one.totals.samples).collect();
    assert_eq!(sums, [5, 1]);
    assert_eq!(report.sources[0].addressed, 5);
    let report = summed(&[Key::Symbol], None);
    let symbols = report.symbols.iter();
    let mut symbols: Vec<&str> = symbols.map(|opened| &*opened.module.name).collect();
    symbols.sort_unstable();
    assert_eq!(symbols, ["a.exe", "b.exe"], "each once");

    let report = summed(&[Key::Module], Some(1));
    assert_eq!(rows(&report), named(&[("TotalCycles: a.exe", 3), ("CacheMisses:u: b.exe", 1)]));
    let (left_out, rest) = report.tables[0].sections[0].more;
    assert_eq!((left_out, rest.samples), (1, 2));

    // One truncated recording makes the whole truncated.
    let bytes = std::fs::read(&paths[1]).expect("a file");
    std::fs::write(&paths[1], &bytes[..bytes.len() - 4]).expect("written");
    let report = summed(&[Key::Machine], None);
    assert!(report.recording.damaged().is_some());
    assert!(!report.recording.losses_are_known());
    let none: [&Path; 0] = [];
    let nothing = Report::read_all(&none, &Query::default(), &SymbolPath::default());
    assert!(nothing.is_err());
}

/// The same number of events, ten times as many samples: a.exe on one machine, b.exe on the other.
#[test]
fn shares_are_of_events_whatever_the_periods() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let paths = [at("one.rec"), at("two.rec")];
    let long = |process| Sample { period: 10 * PERIOD, ..sample(0, process, 0x1000, Mode::User) };
    record(&paths[0], "alpha", &[sample(0, 7, 0x1000, Mode::User); 100]);
    record(&paths[1], "beta", &[&[long(8); 10][..], &[long(7); 1]].concat());
    let read = |sort| {
        let mut report = report_all(&paths, &Query { sort, ..by(&[Key::Machine]) });
        report.tables.remove(0).sections.remove(0)
    };
    let section = read(Sort::default());
    let shares = section.rows.iter().map(|row| {
        let share = row.share.expect("one source");
        (row.values[0].to_string(), share.value * 210.0)
    });
    let shares: Vec<(String, f64)> = shares.collect();
    assert_eq!(shares[0].0, "beta", "the most events first: {shares:?}");
    assert!((shares[0].1 - 110.0).abs() < 1e-9, "{shares:?}");
    assert!((shares[1].1 - 100.0).abs() < 1e-9, "{shares:?}");
    let machine = read(Sort::Samples).rows.remove(0).values.remove(0);
    assert_eq!(machine.to_string(), "alpha");
}

#[test]
fn different_events_are_not_parts_of_one_whole() {
    let whole = |keys: &[Key], samples: &[Sample]| {
        let mut tables = read(samples, keys, Filter::default()).tables;
        let section = tables.remove(0).sections.remove(0);
        (section.rows[0].share, section.events)
    };
    let keys = [Key::Source, Key::Process];
    assert_eq!(whole(&keys, &some()), (None, None));
    let (share, events) = whole(&keys, &some()[..3]);
    assert_eq!(events, Some(3 * PERIOD));
    assert!(share.is_some_and(|share| (share.value - 2.0 / 3.0).abs() < 1e-9));
    let (share, events) = whole(&[Key::Process], &some());
    assert_eq!((share.is_some(), events), (true, Some(7 * PERIOD)));
    // Of several recordings the same, whose tables are merged.
    let folder = tempfile::tempdir().expect("a folder");
    let paths = [folder.path().join("a.rec"), folder.path().join("b.rec")];
    record(&paths[0], "alpha", &some()[..3]);
    record(&paths[1], "beta", &some()[7..]);
    let tables = vec![vec![Key::Machine, Key::Source], vec![Key::Machine]];
    let report = report_all(&paths, &Query { tables, ..Query::default() });
    let mixed = report.tables.iter().map(|table| table.sections[0].is_mixed());
    assert_eq!(mixed.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn several_recordings_show_only_what_they_have_in_common() {
    let text = str::to_owned;
    let recording = |name: &str, modelled, interrupted, unknown| Recording {
        metadata: Metadata {
            interface: text(name),
            command: vec![text(name)],
            halprof: text(name),
            machine: text(name),
            modelled,
            ..Metadata::default()
        },
        ending: Some(Ending { interrupted, ..Ending::default() }),
        skipped: BTreeMap::from([(text("NEXT"), unknown)]),
        ..Recording::default()
    };
    let one = || recording("one", false, false, 2);
    let totals = |other| Recording::combined(vec![one(), other]).expect("a sum");
    let alike = totals(one());
    let expected = Metadata { machine: text("2 recordings: one"), ..one().metadata };
    assert_eq!(alike.metadata, expected);
    assert!(alike.ending.is_some_and(|ending| !ending.interrupted));
    assert_eq!(alike.skipped["NEXT"], 4);
    let different = totals(recording("other", true, true, 3));
    let expected = Metadata {
        machine: text("2 recordings of different machines"),
        halprof: text("of several versions"),
        modelled: true,
        ..Metadata::default()
    };
    assert_eq!(different.metadata, expected);
    assert!(different.ending.is_some_and(|ending| ending.interrupted));
    assert_eq!(different.skipped["NEXT"], 5);
}

/// Two programs with one identifier, one after the other, and one with two modules at one address:
/// both change at 100.
fn changing() -> (TempDir, std::path::PathBuf) {
    let at = |time, process| Sample { timestamp: time, ..sample(0, process, 0x1000, Mode::User) };
    let times = [10, 99, 100, 150, 151];
    let mut samples: Vec<Sample> =
        times.iter().flat_map(|&time| [at(time, 8), at(time, 12)]).collect();
    samples.push(Sample { ip: 0x5000, ..at(200, 8) });
    let process =
        |id, name: &str, started, ended| Process { started, ended, ..Process::named(id, name) };
    let processes = vec![
        process(8, "first.exe", None, Some(90)),
        process(8, "second.exe", Some(100), None),
        process(12, "both.exe", Some(5), None),
    ];
    let module = |process, name: &str, start, loaded, unloaded| Module {
        loaded,
        unloaded,
        ..Module::named(Some(process), name, start, 0x1000)
    };
    let modules = vec![
        module(8, "new.dll", 0x1000, Some(100), None),
        module(8, "old.dll", 0x1000, None, Some(90)),
        // The second has nothing there.
        module(8, "gone.dll", 0x5000, None, Some(90)),
        module(12, "one.dll", 0x1000, Some(5), Some(100)),
        module(12, "two.dll", 0x800, Some(100), None),
    ];
    let mut recording = TestRecording {
        processes,
        modules,
        samples,
        ..TestRecording::of_sources(&["TotalCycles"])
    };
    recording.metadata.timestamp_frequency = 1000;
    recording.write()
}

#[test]
fn a_reused_identifier_or_address_is_resolved_by_time() {
    let (_folder, path) = changing();
    let read = |keys: &[Key], processes: Vec<Pattern>| {
        let filter = Filter { processes, ..Filter::default() };
        rows(&report(&path, &Query { filter, sort: Sort::Name, ..by(keys) }))
    };
    let expected = [
        ("TotalCycles: first.exe (8), old.dll", 2),
        ("TotalCycles: second.exe (8), new.dll", 3),
        ("TotalCycles: second.exe (8), unknown", 1),
        ("TotalCycles: both.exe (12), one.dll", 2),
        ("TotalCycles: both.exe (12), two.dll", 3),
    ];
    let keys = [Key::Process, Key::Module];
    assert_eq!(read(&keys, Vec::new()), named(&expected));
    assert_eq!(read(&keys, pattern("both.exe")), named(&expected[3..]));
    assert_eq!(read(&keys, pattern("second.exe")), named(&expected[1..3]));
    assert_eq!(read(&keys, pattern("8")), named(&expected[..3]));
    let mut lines = Vec::new();
    let query = script::Query::default();
    script::each_sample(&path, &query, &SymbolPath::default(), |_, line| {
        let name = line.process.expect("a name");
        lines.push((line.sample.process, name.to_string(), line.frame.module.to_string()));
        true
    })
    .expect("read");
    let line = |id, name: &str, module: &str| (id, name.to_owned(), module.to_owned());
    assert_eq!(lines[0], line(8, "first.exe", "old.dll"));
    assert_eq!(lines[4], line(8, "second.exe", "new.dll"));
    assert_eq!(lines[5], line(12, "both.exe", "two.dll"));
}

#[test]
fn exports_tell_processes_of_one_identifier_apart() {
    let (_folder, path) = changing();
    let filter = Filter::default();
    let (format, tracks) = (Format::Html, TrackBy::Process);
    let exported = export::read(&[path], format, tracks, &filter, &SymbolPath::default());
    let aggregate = exported.expect("read");
    let locations = aggregate.locations.iter();
    let locations: BTreeSet<(&str, &str)> =
        locations.map(|location| (&*location.process_name, &*location.frame.module)).collect();
    let expected = [
        ("both.exe (12)", "one.dll"),
        ("both.exe (12)", "two.dll"),
        ("first.exe (8)", "old.dll"),
        ("second.exe (8)", "unknown"),
        ("second.exe (8)", "new.dll"),
    ];
    assert_eq!(locations, BTreeSet::from(expected));
    let tracks = aggregate.tracks_of(&aggregate.sources[0]);
    let tracks: BTreeSet<String> =
        tracks.map(|(track, _)| aggregate.process_name(track).to_string()).collect();
    let names = ["both.exe (12)", "first.exe (8)", "second.exe (8)"];
    assert_eq!(tracks, BTreeSet::from(names.map(str::to_owned)));
}

/// A report and an export count the same samples, whatever the filter.
#[test]
fn exports_have_the_filters_of_reports() {
    let (_folder, path) = recorded(&some());
    let all = Filter::default();
    let filters = [
        Filter { sources: pattern("CacheMisses"), ..all.clone() },
        Filter { processes: pattern("b.exe"), ..all.clone() },
        Filter { modules: pattern("kernel*"), ..all.clone() },
        Filter { processors: Some(BTreeSet::from([0])), ..all.clone() },
        Filter { time: Some((1, 1_000_000_000)), ..all.clone() },
        all,
    ];
    for filter in filters {
        let report = report(&path, &Query { filter: filter.clone(), ..Query::default() });
        let symbols = SymbolPath::default();
        let (format, tracks) = (Format::Firefox, TrackBy::Processor);
        let exported = export::read(&[&path], format, tracks, &filter, &symbols).expect("read");
        let mut by_location = Totals::default();
        exported.location_totals.iter().for_each(|location| by_location.add(location.totals));
        let timed: u64 = exported.timed_samples.iter().map(|sample| sample.totals.samples).sum();
        assert_eq!(by_location, report.total, "{filter:?}");
        assert_eq!(timed, report.total.samples, "{filter:?}");
    }
    let unknown = Filter { sources: pattern("Nothing"), ..Filter::default() };
    let (format, tracks) = (Format::Folded, TrackBy::Processor);
    assert!(export::read(&[&path], format, tracks, &unknown, &SymbolPath::default()).is_err());
}
