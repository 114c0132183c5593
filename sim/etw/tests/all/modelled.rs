//! Are the counts of a modelled trace those of the machine?

use halprof_measure::tracing::analysis::counts::{Query, Sums, TraceCounts};
use halprof_measure::tracing::session::{TraceRequest, Tracing};
use halprof_measure::{InProcess, ModelledMachine, spec};
use sim::load::workload;
use sim::machines::models::MODELS;
use sim_etw::ModelledTracing;
use std::fs;

/// Programs with exact amounts of each event that the HALs of Windows 10 count by these names.
const WORKLOAD: &str = "instructions=7000003,cycles=9000001,branches=1000033,\
    branch-misses=20011,llc-misses=3001,processors=all";
const COUNTED: [(&str, u128); 5] = [
    ("TotalIssues", 7_000_003),
    ("TotalCycles", 9_000_001),
    ("BranchInstructions", 1_000_033),
    ("BranchMispredictions", 20_011),
    ("CacheMisses", 3001),
];

/// The built-in models and, where they are, dumps of real processors.
fn machines() -> impl Iterator<Item = String> {
    let dumps = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cpuid");
    let dumps = fs::read_dir(dumps).into_iter().flatten().flatten();
    let paths = dumps.map(|file| file.path().display().to_string());
    MODELS.iter().map(|model| model.name.to_owned()).chain(paths)
}

#[test]
fn counts_of_a_trace_are_those_of_the_machine() {
    let workload = workload::parse(WORKLOAD).expect("a workload");
    let mut checked = 0;
    for name in machines() {
        let Ok(spec) = spec(&name) else { continue };
        let machine = InProcess::new(&spec.leaves);
        let mut backend = ModelledTracing::new(machine).expect("a machine");
        let sources = backend.sources().expect("its sources");
        let most = backend.counters().expect("counters").expect("a number") as usize;
        let counted = COUNTED.iter().filter_map(|&(name, amount)| {
            let source = sources.iter().find(|source| source.name == name)?;
            Some((source.id, amount))
        });
        let (counted, amounts): (Vec<u32>, Vec<u128>) = counted.take(most).unzip();
        if counted.is_empty() {
            continue;
        }
        let request = TraceRequest { counted, ..TraceRequest::default() };
        backend.start(&request).expect("started");
        backend.machine().begin(&workload);
        while backend.machine().advance(u64::MAX).expect("no faults") {}
        let (file, _) = backend.stop().expect("a trace");
        let counts = TraceCounts::read(file.path(), &Query::default()).expect("counts");
        let mut sums = Sums::default();
        counts.cells.iter().for_each(|cell| sums.add(&cell.sums));
        let processors = spec.leaves.len() as u128;
        let amounts: Vec<u128> = amounts.iter().map(|amount| amount * processors).collect();
        assert_eq!(sums.counts, amounts, "{name}");
        checked += 1;
    }
    assert!(checked >= 10, "{checked}");
}
