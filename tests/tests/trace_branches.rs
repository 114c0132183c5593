//! Do branches that Windows' tracing recorded become what the same branches of a recording become, and
//! are those of another thread left out?

use halprof_profile::aggregate::branches::RecordCounts;
use halprof_profile::aggregate::filter::Filter;
use halprof_profile::aggregate::key::Key;
use halprof_profile::export::profgen::{self, ProfgenFormat};
use halprof_profile::file::{
    self, Branches, Metadata, Module, Process, RecordedBranches, Source, Statistics, TraceContents,
    Writer,
};
use halprof_profile::symbols::SymbolPath;
use halprof_profile::views::branches::{self as view, Grouping, Order, Query};
use halprof_tests::branch_trace::{self, Contents, RAW};
use halprof_tests::symbol_files::pe;
use shared_types::{Branch, Mode, Sample};
use sim::load::workload::{self, KERNEL_CODE};
use std::path::Path;

const PROCESS: u32 = 1000;
const THREAD: u32 = 1004;
const CODE: (u64, u64) = (0x1_4000_1000, 0x1_4000_3000);
const IMAGE: (u64, u64) = (0x1_4000_0000, 0x1_0000);
const KERNEL: (u64, u64) = (KERNEL_CODE.0 & !0xFFFF, 0x1_0000);
const SOURCE: &str = "BranchInstructions";
const INTERVAL: u32 = 65_536;
const DEPTH: u64 = 32;

/// The samples of a model's run, in the order of time, with the branches before each, newest first.
fn samples() -> Vec<(Sample, Vec<Branch>)> {
    let work = format!(
        "instructions=4000000,cycles=4000000,branches=900000,user=80,code={:#x}-{:#x}",
        CODE.0, CODE.1
    );
    let workload = workload::parse(&work).expect("a workload");
    let sample = |number: u64| {
        let position = 10_007 * number;
        let taken = workload.branches_between(0, position, DEPTH);
        let mut branches: Vec<Branch> = taken
            .map(|taken| Branch { from: taken.from, to: taken.to, ..Branch::default() })
            .collect();
        branches.reverse();
        branches.truncate(DEPTH as usize);
        // After a switch there are fewer.
        branches.truncate(if number.is_multiple_of(7) { 5 } else { 32 });
        let ip = branches.first().map_or(CODE.0, |newest| newest.to);
        let mode = if ip >> 63 == 0 { Mode::User } else { Mode::Kernel };
        let sample = Sample {
            timestamp: 2000 + 10 * number,
            ip,
            period: INTERVAL.into(),
            process: PROCESS,
            thread: THREAD,
            mode: mode as u8,
            branches: branches.len() as u8,
            ..Sample::default()
        };
        (sample, branches)
    };
    (1..300).map(sample).collect()
}

fn write_recording(path: &Path, samples: &[(Sample, Vec<Branch>)]) {
    let source = Source { name: SOURCE.to_owned(), ..Source::default() };
    let branches = Branches { depth: 32, kinds: Vec::new(), recorder: "lbr-info".to_owned() };
    let metadata =
        Metadata { sources: vec![source], branches: Some(branches), ..Metadata::default() };
    let mut writer = Writer::create(path, &metadata).expect("created");
    let (all, records): (Vec<Sample>, Vec<Vec<Branch>>) = samples.iter().cloned().unzip();
    writer.branched(&all, &records.concat()).expect("written");
    writer.processes(&processes()).expect("written");
    writer.modules(&modules()).expect("written");
    writer.finish(&Statistics::default(), false).expect("finished");
}

fn processes() -> [Process; 1] {
    [Process { id: PROCESS, name: "app.exe".to_owned(), ..Process::default() }]
}

fn modules() -> [Module; 2] {
    let module = |process, name: &str, (start, length): (u64, u64)| Module {
        process,
        name: name.to_owned(),
        start,
        end: start + length,
        ..Module::default()
    };
    [module(Some(PROCESS), "app.exe", IMAGE), module(None, "ntoskrnl.exe", KERNEL)]
}

fn write_trace(path: &Path, samples: &[(Sample, Vec<Branch>)]) {
    let contents = Contents {
        source: SOURCE,
        interval: INTERVAL,
        processes: &processes(),
        modules: &modules(),
    };
    branch_trace::write(path, samples, &contents);
}

fn exported(path: &Path, format: ProfgenFormat) -> (String, RecordCounts) {
    let mut out = Vec::new();
    let written =
        profgen::write(path, format, &Filter::default(), &SymbolPath::default(), &mut out);
    let written = written.expect("written");
    assert!(written.error.is_none());
    (String::from_utf8(out).expect("UTF-8"), written.kept)
}

#[test]
fn a_trace_and_a_recording_of_the_same_branches_are_exported_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let samples = samples();
    let (recording, trace, converted) = (path("a.rec"), path("a.etl"), path("b.rec"));
    write_recording(&recording, &samples);
    write_trace(&trace, &samples);
    file::convert(&trace, &converted, None, |_| {}, None, None).expect("converted");
    for format in ProfgenFormat::ALL {
        let (expected, kept) = exported(&recording, format);
        assert!(expected.lines().count() > 100 && kept.records > 8000, "{kept:?}: {expected}");
        for path in [&trace, &converted] {
            let (text, of_trace) = exported(path, format);
            assert_eq!(of_trace, kept, "{path:?}");
            assert!(text == expected, "{path:?}, {}", format.name());
        }
    }
    // The undocumented value of each record is kept in the recording that was made from the trace.
    let mut raw = 0;
    let mut source = file::open(&converted).expect("a recording");
    let visit = &mut |_: &Sample, own: RecordedBranches<'_>| {
        assert!(own.raw.iter().all(|&value| value == RAW));
        raw += own.raw.len();
    };
    source.branches(visit).expect("read");
    assert_eq!(raw, samples.iter().map(|(_, own)| own.len()).sum::<usize>());
}

/// The kernel's symbols tell which samples these are.
#[test]
fn branches_of_a_switch_of_threads_are_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let code = pe::Section {
        name: ".text",
        address: 0x1000,
        size: 0,
        contents: vec![0x90; 0x200],
        is_code: true,
    };
    let functions = pe::symbols(&[(b"KiSwapContext", 0), (b"SwapContext", 0x40), (b"Other", 0x80)]);
    let kernel = pe::file(&[code], &[], Some(functions));
    std::fs::write(folder.path().join("ntoskrnl.exe"), kernel).expect("written");
    let mut symbol_path = SymbolPath::default();
    symbol_path.add_folder(folder.path());
    let code = KERNEL.0 + 0x1000;
    let own = Branch { from: IMAGE.0 + 0x20, to: IMAGE.0 + 0x10, ..Branch::default() };
    let sample = |ip: u64, mode: Mode| {
        let sample =
            Sample { ip, process: PROCESS, mode: mode as u8, branches: 1, ..Sample::default() };
        (sample, vec![own])
    };
    let samples = [
        sample(code + 0x04, Mode::Kernel),
        sample(code + 0x44, Mode::Kernel),
        sample(code + 0x84, Mode::Kernel),
        sample(IMAGE.0 + 0x10, Mode::User),
    ];
    let path = folder.path().join("a.rec");
    write_recording(&path, &samples);
    let counts = |of_trace: bool| {
        if of_trace {
            // The recording is written again, as one that was made from a trace.
            let mut metadata = Metadata::default();
            metadata.sources.push(Source { name: SOURCE.to_owned(), ..Source::default() });
            let mut writer = Writer::create(&path, &metadata).expect("created");
            for (sample, branches) in &samples {
                writer.branched(&[*sample], branches).expect("written");
            }
            let known = file::read(&path, |_| {}).expect("read");
            writer.modules(&known.modules).expect("written");
            let trace = Some(TraceContents::default());
            writer.finish(&Statistics { trace, ..Statistics::default() }, false).expect("finished");
        }
        let query = Query {
            tables: vec![Grouping { length: 1, sides: Key::Address }],
            filter: Filter::default(),
            order: Order::Taken,
            rows: None,
        };
        let read = view::Branches::read(&[&path], &query, &symbol_path).expect("read");
        (read.records, read.tables[0].sections[0].taken)
    };
    let all = RecordCounts { samples: 4, records: 4, ..RecordCounts::default() };
    // The driver's records belong to the processor, whatever thread it ran.
    assert_eq!(counts(false), (all, 4));
    assert_eq!(counts(true), (RecordCounts { switching: 1, ..all }, 3));
}
