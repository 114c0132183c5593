//! Do tables and walks contain what the records say, and nothing from another thread?

use super::code::CodeRuns;
use super::*;
use crate::aggregate::key::{Key, Value};
use crate::file::test_recording::TestRecording;
use crate::file::{Branches as How, Module};
use crate::symbols::{Pattern, SymbolPath};
use crate::views::instruction::{Flow, Instruction, Jump};
use halprof_measure::{Error, Remedy};
use shared_types::BranchKind;
use std::collections::BTreeSet;
use std::ops::Range;
use tempfile::TempDir;

const CODE: u64 = 0x1_4000_0000;
const OTHER: u64 = 0x1_8000_0000;
const KERNEL: u64 = 0xFFFF_F800_0000_0000;

fn branch(from: u64, to: u64) -> Branch {
    Branch { from, to, flags: Branch::PREDICTED, ..Branch::default() }
}

/// A sample of a source, with its records in the order in which they were taken.
type Taken<'a> = (u16, u32, &'a [Branch]);

/// A recording of processes 7 and 8, which have `own.exe` and `other.exe` at the same address and a
/// library each; and of the kernel.
fn recorded(kinds: &[&str], all: &[Taken<'_>]) -> (TempDir, std::path::PathBuf) {
    let samples: Vec<Sample> = all
        .iter()
        .map(|&(source, process, branches)| Sample {
            source,
            process,
            ip: CODE,
            mode: Mode::User as u8,
            branches: branches.len() as u8,
            ..Sample::default()
        })
        .collect();
    let newest_first = all.iter().flat_map(|(_, _, own)| own.iter().rev().copied());
    let branches: Vec<Branch> = newest_first.collect();
    let mut recording = TestRecording {
        modules: vec![
            Module::named(Some(7), "own.exe", CODE, 0x1_0000),
            Module::named(Some(7), "library.dll", OTHER, 0x1_0000),
            Module::named(Some(8), "other.exe", CODE, 0x1_0000),
            Module::named(None, "nt", KERNEL, 0x1_0000),
        ],
        samples,
        branches,
        ..TestRecording::of_sources(&["Branches", "Cycles"])
    };
    recording.metadata.branches = Some(How {
        depth: 32,
        kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        recorder: "lbr".to_owned(),
    });
    recording.write()
}

fn query(by: Grouping) -> Query {
    Query { tables: vec![by], filter: Filter::default(), order: Order::Taken, rows: None }
}

fn read(path: &Path, query: &Query) -> Branches {
    Branches::read(&[path], query, &SymbolPath::default()).expect("read")
}

const EDGES: Grouping = Grouping { length: 1, sides: Key::Address };

/// The rows of the only table: source, sides, and how often taken.
fn rows(branches: &Branches) -> Vec<(String, u64)> {
    let parts = branches.tables[0].sections.iter();
    let rows = parts.flat_map(|part| {
        part.rows.iter().map(|row| {
            let edges = row.edges.iter().map(|Edge { from, to }| format!("{from} > {to}"));
            let edges: Vec<String> = edges.collect();
            (format!("{}: {}", part.source, edges.join(", ")), row.taken)
        })
    });
    rows.collect()
}

fn named(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
    rows.iter().map(|&(text, n)| (text.to_owned(), n)).collect()
}

/// A loop of two blocks: 0x10..0x20 branches to 0x40..0x50, which branches back.
const ROUND: [Branch; 2] = [
    looping(CODE + 0x20, CODE + 0x40, 3, 2, Branch::PREDICTED),
    looping(CODE + 0x50, CODE + 0x10, 5, 1, Branch::MISPREDICTED),
];

const fn looping(from: u64, to: u64, cycles: u16, kind: u8, flags: u8) -> Branch {
    Branch { from, to, cycles, kind, flags: flags | Branch::CYCLES, reserved: 0 }
}

#[test]
fn edges_are_summed_up_by_their_sides() {
    let rounds = ROUND.repeat(3);
    let (_folder, path) = recorded(&[], &[(0, 7, &rounds), (0, 7, &rounds[..3]), (1, 7, &ROUND)]);
    let branches = read(&path, &query(EDGES));
    let there = "0x140000020 own.exe > 0x140000040 own.exe";
    let back = "0x140000050 own.exe > 0x140000010 own.exe";
    let expected = [
        (format!("Branches: {there}"), 5),
        (format!("Branches: {back}"), 4),
        (format!("Cycles: {there}"), 1),
        (format!("Cycles: {back}"), 1),
    ];
    assert_eq!(rows(&branches), expected);
    let part = &branches.tables[0].sections[0];
    let [there, back] = [0, 1].map(|at: usize| part.rows[at].clone());
    let share = there.mispredicted_share.expect("reported");
    let kind = BranchKind::from_wire(2).map(BranchKind::name);
    assert_eq!((there.kind, there.cycles, share.effective), (kind, Some(3.0), 2.0));
    assert!(share.value == 0.0 && share.high > 0.5, "two samples tell little: {share:?}");
    assert!(back.mispredicted_share.expect("reported").value > 0.99);
    assert_eq!(
        branches.records,
        RecordCounts { samples: 3, records: 11, ..RecordCounts::default() }
    );
    // By module there is a single row.
    let modules = read(&path, &query(Grouping { sides: Key::Module, ..EDGES }));
    let expected = [("Branches: own.exe > own.exe", 9), ("Cycles: own.exe > own.exe", 2)];
    assert_eq!(rows(&modules), named(&expected));
    let row = &modules.tables[0].sections[0].rows[0];
    let share = row.mispredicted_share.expect("reported");
    assert_eq!((share.effective, row.kind), (2.0, None), "of two kinds, in two samples");
    // Most often mispredicted first.
    let query = Query { order: Order::Mispredicted, rows: Some(1), ..query(EDGES) };
    let part = &read(&path, &query).tables[0].sections[0];
    assert_eq!((&part.rows[0], part.more, part.taken), (&back, (1, 5), 9));
}

#[test]
fn paths_are_runs_of_records() {
    let rounds = ROUND.repeat(2);
    let (_folder, path) = recorded(&[], &[(0, 7, &rounds), (0, 7, &rounds)]);
    let paths = |length| query(Grouping { length, ..EDGES });
    let branches = read(&path, &paths(3));
    let [there, back] =
        ["0x140000020 own.exe > 0x140000040 own.exe", "0x140000050 own.exe > 0x140000010 own.exe"];
    let expected = [
        (format!("Branches: {there}, {back}, {there}"), 2),
        (format!("Branches: {back}, {there}, {back}"), 2),
    ];
    assert_eq!(rows(&branches), expected);
    let row = &branches.tables[0].sections[0].rows[0];
    let share = row.mispredicted_share.map(|share| share.value);
    assert_eq!((row.mispredicted, share, row.cycles), (Some(2), Some(1.0), Some(11.0)));
    assert_eq!(rows(&read(&path, &paths(5))), []);
}

#[test]
fn what_may_be_anothers_is_left_out_and_counted() {
    let own = branch(CODE + 0x20, CODE + 0x40);
    let newest = branch(CODE + 0x50, CODE + 0x10);
    // No straight code leads from its target to the next branch: it is another thread's, as are all
    // older records.
    let foreign = branch(CODE + 0x100, CODE + 0x60);
    let library = branch(OTHER, OTHER + 8);
    let nowhere = branch(0x6666_0000, CODE + 8);
    let cases: [(&[Branch], [u64; 2], u64); 5] = [
        (&[own, own, foreign, own, newest], [3, 0], 2),
        (&[library, own, newest], [1, 0], 2),
        (&[own, nowhere, own, newest], [0, 1], 3),
        (&[branch(CODE, OTHER), library], [0, 0], 2),
        (&[foreign], [0, 0], 1),
    ];
    for (taken, [foreign, unresolved], left) in cases {
        let (_folder, path) = recorded(&[], &[(0, 7, taken)]);
        let branches = read(&path, &query(EDGES));
        let records = taken.len() as u64;
        let expected =
            RecordCounts { samples: 1, records, foreign, unresolved, ..RecordCounts::default() };
        assert_eq!(branches.records, expected, "{taken:x?}");
        assert_eq!(branches.tables[0].sections[0].taken, left, "{taken:x?}");
        // A record that is left out splits a path.
        let paths = query(Grouping { length: 2, ..EDGES });
        let runs: u64 = read(&path, &paths).tables[0].sections.iter().map(|part| part.taken).sum();
        assert_eq!(runs, left - 1 - unresolved, "{taken:x?}");
    }
    // The library is not loaded in process 8.
    let (_folder, path) = recorded(&[], &[(0, 8, &[library])]);
    assert_eq!(read(&path, &query(EDGES)).records.unresolved, 1);
}

/// With calls alone, nothing is known about the code between records.
#[test]
fn kinds_that_were_left_out_make_gaps() {
    let backwards = [branch(CODE + 0x20, CODE + 0x100), branch(CODE + 0x50, CODE + 0x10)];
    let (_folder, path) = recorded(&["call"], &[(0, 7, &backwards)]);
    let branches = read(&path, &query(EDGES));
    assert_eq!((branches.records.foreign, branches.tables[0].sections[0].taken), (0, 2));
    let mut out = Vec::new();
    let error = crate::export::profgen::write(
        &path,
        crate::export::profgen::ProfgenFormat::PerfScript,
        &Filter::default(),
        &SymbolPath::default(),
        &mut out,
    );
    let error = error.expect_err("no code between");
    assert_eq!(error.code(), "unavailable");
    assert!(error.to_string().contains("call"), "{error}");
}

#[test]
fn a_hidden_side_is_shown_as_such() {
    let hidden = Branch { flags: Branch::HIDDEN, ..Branch::default() };
    let taken = [branch(CODE + 0x20, CODE + 0x40), hidden, branch(CODE + 0x10, CODE + 0x30)];
    let (_folder, path) = recorded(&[], &[(0, 7, &taken)]);
    let branches = read(&path, &query(EDGES));
    assert_eq!(
        branches.records,
        RecordCounts { samples: 1, records: 3, hidden: 1, ..RecordCounts::default() }
    );
    let rows = rows(&branches);
    assert!(rows.contains(&("Branches: hidden > hidden".to_owned(), 1)), "{rows:?}");
    let paths = query(Grouping { length: 2, ..EDGES });
    assert!(read(&path, &paths).tables[0].sections.is_empty(), "there is a gap");
    // It is in no module that a filter can name.
    let filter = Filter { modules: vec![Pattern::new("*")], ..Filter::default() };
    let named = Query { filter, ..query(EDGES) };
    assert_eq!(read(&path, &named).tables[0].sections[0].taken, 2);
}

#[test]
fn the_kernel_is_everybodys() {
    let kernel = branch(KERNEL, KERNEL + 8);
    let (_folder, path) = recorded(&[], &[(0, 7, &[kernel]), (0, 8, &[kernel])]);
    let branches = read(&path, &query(EDGES));
    let [row] = &branches.tables[0].sections[0].rows[..] else { panic!("{branches:?}") };
    assert_eq!(row.taken, 2);
    // It returns to the process that called it.
    let back = [branch(KERNEL + 8, CODE)];
    let (_folder, path) = recorded(&[], &[(0, 7, &back), (0, 8, &back)]);
    let expected = [
        ("Branches: 0xfffff80000000008 nt > 0x140000000 other.exe", 1),
        ("Branches: 0xfffff80000000008 nt > 0x140000000 own.exe", 1),
    ];
    assert_eq!(rows(&read(&path, &query(EDGES))), named(&expected));
}

#[test]
fn an_edge_is_in_a_module_if_one_side_is() {
    let taken = [branch(CODE + 0x10, OTHER), branch(OTHER + 8, CODE + 0x18)];
    let all = [(0, 7, &taken[..]), (0, 7, &ROUND[..])];
    let (_folder, path) = recorded(&[], &all);
    let only = |module: &str| {
        let modules = vec![Pattern::new(module)];
        let filter = Filter { modules, ..Filter::default() };
        read(&path, &Query { filter, ..query(EDGES) }).tables[0].sections[0].taken
    };
    assert_eq!((only("library.dll"), only("own.exe"), only("*")), (2, 4, 4));
}

#[test]
fn a_recording_without_branches_says_how_to_record_them() {
    let (_folder, path) = recorded(&[], &[(0, 7, &[])]);
    let error = Branches::read(&[&path], &query(EDGES), &SymbolPath::default());
    let error = error.expect_err("no branches");
    assert_eq!(error.code(), "unavailable");
    let Error::Unavailable { hint, .. } = error else { panic!("{error}") };
    assert_eq!(hint, Remedy::RecordBranches.into());
}

#[test]
fn keys_of_tables() {
    for (keys, expected) in [
        (&["edge"][..], Some(("edge", "address"))),
        (&["path", "line"], Some(("path", "line"))),
        (&["edge", "process"], None),
        (&["edge", "line", "symbol"], None),
        (&["line"], None),
        (&["line", "edge"], None),
    ] {
        assert_eq!(Grouping::parse(keys).map(|by| by.keys().into()), expected, "{keys:?}");
    }
}

#[test]
fn records_of_samples_that_a_filter_refuses_do_not_count() {
    let one = &ROUND[..1];
    let (_folder, path) = recorded(&[], &[(0, 7, &ROUND), (0, 8, one), (1, 7, one)]);
    let pattern = |text| vec![Pattern::new(text)];
    let none = Filter::default;
    let by_process = Filter { processes: pattern("8"), ..none() };
    let by_source = Filter { sources: pattern("branches"), ..none() };
    let on = |processor| Filter { processors: Some(BTreeSet::from([processor])), ..none() };
    for (filter, records) in [(none(), 4), (by_process, 1), (by_source, 3), (on(0), 4), (on(1), 0)]
    {
        let filtered = Query { filter, ..query(EDGES) };
        assert_eq!(read(&path, &filtered).records.records, records, "{filtered:?}");
    }
}

#[test]
fn branch_sides_are_grouped_by_the_requested_keys() {
    let (_folder, path) = recorded(&[], &[(0, 7, &ROUND)]);
    let symbol = Value::Symbol { module: "own.exe".into(), symbol: None };
    let line = Value::Line { module: "own.exe".into(), line: None };
    for (sides, value) in [(Key::Symbol, symbol), (Key::Line, line)] {
        let by = query(Grouping { sides, ..EDGES });
        let branches = Branches::read(&[&path, &path], &by, &SymbolPath::default()).expect("read");
        let row = &branches.tables[0].sections[0].rows[0];
        assert_eq!(row.edges, [Edge { from: value.clone(), to: value }]);
        assert_eq!(row.taken, 4);
        let symbols = branches.symbols.iter();
        let symbols: Vec<&str> = symbols.map(|opened| &*opened.module.name).collect();
        assert_eq!(symbols, ["own.exe"], "of both recordings, once");
    }
}

/// Memory is bounded: a path that is one too many is counted, and not shown.
#[test]
fn paths_beyond_the_limit_are_left_out() {
    const SAMPLES: u64 = 8457;
    // No two edges are alike.
    let edge = |n: u64| branch(CODE + 0x8000 + n % 0x8000, CODE + n / 0x8000);
    let of_sample = |n: u64| -> Vec<Branch> { (32 * n..32 * (n + 1)).map(edge).collect() };
    let all: Vec<Vec<Branch>> = (0..SAMPLES).map(of_sample).collect();
    let taken: Vec<Taken<'_>> = all.iter().map(|own| (0, 7, &own[..])).collect();
    let (_folder, path) = recorded(&[], &taken);
    let pairs = query(Grouping { length: 2, sides: Key::Module });
    let branches = read(&path, &pairs);
    let most = 1 << 18;
    let expected = ("Branches: own.exe > own.exe, own.exe > own.exe", most);
    assert_eq!(rows(&branches), named(&[expected]));
    assert_eq!(branches.omitted, 31 * SAMPLES - most);
}

/// A function in `own.exe`, relative to its start.
const FUNCTION: Range<u64> = 0x10..0x2C;

/// Its instructions of four bytes: the third jumps if its condition holds, the fifth always.
fn instructions() -> Vec<Instruction> {
    use Jump::{Always, Never, Sometimes};
    let jumps = [Never, Never, Sometimes, Never, Always, Never, Never];
    let instruction = |(at, jump)| Instruction {
        address: CODE + at,
        bytes: Vec::new(),
        text: String::new(),
        line: None,
        inlined: Vec::new(),
        sums: Vec::new(),
        jump,
        flows: vec![Flow::default(); 2],
    };
    FUNCTION.step_by(4).zip(jumps).map(instruction).collect()
}

/// What samples say about the function: how many stretches of each source and samples with them,
/// how many stretches are impossible, and the flows of its instructions.
fn code_runs(all: &[Taken<'_>]) -> ([(u64, u64); 2], u64, Vec<Vec<Flow>>) {
    let (_folder, path) = recorded(&[], all);
    let recording = crate::file::read(&path, |_| {}).expect("read");
    let mut symbols = Symbols::open(&recording, &SymbolPath::default());
    let mut code_runs = CodeRuns::new(FUNCTION, 2);
    let of = (&recording, &mut symbols);
    let source = |index| Some(usize::from(index));
    let is_own = |module: &Module| module.name == "own.exe";
    code_runs.add(&path, &Filter::default(), of, source, is_own).expect("read");
    let mut instructions = instructions();
    let summary = code_runs.apply_to(CODE + FUNCTION.start, &mut instructions);
    assert_eq!(summary.records.samples, all.len() as u64);
    let of_sources = summary.per_source.try_into().expect("two sources");
    let flows = instructions.into_iter().map(|one| one.flows);
    (of_sources, summary.impossible, flows.collect())
}

/// A branch to the start of a stretch, and the one at its end.
fn stretch(start: u64, end: u64, flags: u8) -> [Branch; 2] {
    let last = Branch { flags, ..branch(CODE + end, CODE + 0x200) };
    [branch(CODE + 0x100, CODE + start), last]
}

#[test]
fn between_two_records_each_instruction_was_executed_once() {
    for (start, end, expected) in [
        (0x10, 0x18, Some((0..3, Some(2)))),
        (0x14, 0x18, Some((1..3, Some(2)))),
        (0x1C, 0x20, Some((3..5, Some(4)))),
        // AMD reports the comparison that is fused with the jump.
        (0x10, 0x14, Some((0..3, Some(2)))),
        // What does not branch was interrupted, before it was executed.
        (0x10, 0x1C, Some((0..3, None))),
        // From before the function, and to behind it.
        (0, 0x18, Some((0..3, Some(2)))),
        (0, 0x10, Some((0..0, None))),
        (0x24, 0x2C, Some((5..7, None))),
        (0x24, 0x40, Some((5..7, None))),
        // They begin or end inside an instruction, or run across the jump.
        (0x12, 0x18, None),
        (0x10, 0x1A, None),
        (0x1C, 0x24, None),
        (0x10, 0x40, None),
    ] {
        let mispredicted = stretch(start, end, Branch::MISPREDICTED);
        let predicted = stretch(start, end, Branch::PREDICTED);
        let samples = [&predicted, &mispredicted, &mispredicted].map(|own| (0, 7, &own[..]));
        let (of_sources, impossible, flows) = code_runs(&samples);
        assert_eq!(of_sources, [(3, 3), (0, 0)], "{start:#x}");
        assert_eq!(impossible, if expected.is_some() { 0 } else { 3 });
        let (range, branch) = expected.unwrap_or((0..0, None));
        for (at, flows) in flows.iter().enumerate() {
            let mut flow = Flow::default();
            if range.contains(&at) {
                flow.executed = 3;
            }
            if branch == Some(at) {
                (flow.taken, flow.predicted, flow.mispredicted) = (3, 1, 2);
            }
            assert_eq!(&flows[..], [flow, Flow::default()], "{start:#x}..{end:#x}: {at}");
        }
    }
}

#[test]
fn stretches_elsewhere_do_not_count() {
    let hidden = Branch { flags: Branch::HIDDEN, ..Branch::default() };
    let [first, last] = stretch(0x10, 0x18, 0);
    let cases: [&[Branch]; 6] = [
        &stretch(0, 8, 0),
        &stretch(0x2C, 0x40, 0),
        &stretch(0x40, 0x50, 0),
        // In another module at the same offsets.
        &[branch(OTHER, OTHER + 0x10), branch(OTHER + 0x18, OTHER)],
        // What lies between is not known.
        &[first, hidden, last],
        &[last],
    ];
    for taken in cases {
        let (of_sources, impossible, flows) = code_runs(&[(0, 7, taken)]);
        assert_eq!((of_sources, impossible), ([(0, 0); 2], 0), "{taken:x?}");
        assert_eq!(flows, [[Flow::default(); 2]; 7], "{taken:x?}");
    }
}

#[test]
fn stretches_are_added_up_by_source() {
    // Two stretches, one after the other.
    let both = [
        branch(CODE + 0x100, CODE + 0x10),
        branch(CODE + 0x18, CODE + 0x1C),
        branch(CODE + 0x20, CODE + 0x24),
    ];
    let one = stretch(0x10, 0x18, 0);
    let (of_sources, impossible, flows) = code_runs(&[(1, 7, &both), (0, 7, &one), (0, 7, &one)]);
    assert_eq!((of_sources, impossible), ([(2, 2), (2, 1)], 0));
    let executed = flows.iter().map(|own| (own[0].executed, own[1].executed));
    let expected = [(2, 1), (2, 1), (2, 1), (0, 1), (0, 1), (0, 0), (0, 0)];
    assert_eq!(executed.collect::<Vec<_>>(), expected);
    let taken = flows.iter().map(|own| (own[0].taken, own[1].taken));
    assert_eq!(taken.collect::<Vec<_>>(), [(0, 0), (0, 0), (2, 1), (0, 0), (0, 1), (0, 0), (0, 0)]);
}
