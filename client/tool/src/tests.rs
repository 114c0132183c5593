//! How many requests does a measurement take, does the largest one fit, and do registers show it?

use super::*;
use crate::cli::args::Arguments;
use crate::results::registers::decode;
use halprof_measure::processes::ProcessEvent;
use halprof_measure::{Connection, InProcess, Machine, ModelledMachine, Session, Setup, Transport};
use shared_types::request::counts::Count;
use shared_types::request::machine::Register;
use shared_types::request::session::Spec;
use shared_types::request::{RequestCode, samples, session};
use shared_types::{ErrorCode, ProfileInterface, ProfileSource};
use sim::load::workload::{self, Workload};
use std::cell::RefCell;
use std::rc::Rc;

/// Runs a command on a machine that is there afterwards; its exit status.
fn ran(arguments: &[&str], ctx: &mut Context) -> Result<u32> {
    let all = ["halprof", "--quiet"].iter().chain(arguments);
    let parsed = Arguments::parse_from(all).expect("arguments");
    let output = output(&parsed);
    match &parsed.command {
        Commands::Stat(options) => stat::run(options, ctx, &output),
        Commands::Record(options) => record::run(options, ctx, &output),
        Commands::Top(options) => top::run(options, ctx, &output),
        _ => panic!("{arguments:?}"),
    }
}

/// A new folder, and the path of a file in it.
fn scratch() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.rec").to_str().expect("UTF-8").to_owned();
    (folder, file)
}

fn context(machine: &str) -> Context {
    Context::open(Backend::open(machine).expect("a backend")).expect("a machine")
}

/// The requests of one `stat` on a machine with this many processors.
fn requests_of_stat(processors: u32) -> u64 {
    let (_folder, file) = scratch();
    let mut ctx = context(&format!("skylake,processors={processors}"));
    assert_eq!(ran(&["stat", "-o", &file], &mut ctx).expect("counts"), 0);
    ctx.connection.requests()
}

#[cfg(not(windows))]
#[test]
fn the_library_measures_the_model_that_the_tool_does() {
    let arguments = Arguments::parse_from(["halprof", "info"]).expect("arguments");
    let tool = Backend::open(arguments.machine()).expect("a model");
    let library = Machine::open(None).expect("a model");
    let tool = Connection::new(tool).expect("it answers").processors().expect("processors");
    let library = Connection::new(library).expect("it answers").processors().expect("processors");
    assert_eq!(tool, library);
}

#[test]
fn a_stat_takes_as_many_requests_on_any_number_of_processors() {
    let one = requests_of_stat(1);
    // Counts that are too long for the reply to STOP take a request of their own.
    for (processors, more) in [(16, 0), (256, 1), (2048, 1)] {
        assert_eq!(requests_of_stat(processors), one + more, "{processors} processors");
    }
}

/// What learns the periods also samples: a second session could settle on others.
#[test]
fn a_recording_configures_each_pass_once_and_what_it_only_learns_beside_it() {
    let six = "r01C4,r02C4,r04C4,r08C4,r10C4,r20C4";
    for (more, expected) in [
        (&["-e", "TotalIssues"][..], 1),
        (&["-e", "TotalIssues,TotalCycles"], 1),
        (&["--rate", "1000", "-e", "TotalIssues"], 4),
        (&["--passes", "-e", six], 3),
    ] {
        let (_folder, file) = scratch();
        let record = ["record", "-o", &file, "--workload", "instructions=100000,cycles=100000"];
        let (mut ctx, requests) = changed(|_, _, _| {}, |_, _, _| {});
        assert_eq!(ran(&[&record, more].concat(), &mut ctx).expect("samples"), 0);
        assert_eq!(requests.borrow()[&session::CONFIGURE.0], expected, "{more:?}");
    }
}

fn counting(sources: u64) -> Setup {
    // Of one event: with a counter mask each, then with another unit mask.
    let select = |number: u64| 0xC4 | (number >> 8) << 8 | (number & 0xFF) << 24;
    let raw = |number| Spec { filter: Spec::USER, ..Spec::of_raw(select(number)) };
    Setup { specs: (1..=sources).map(raw).collect(), ..Setup::default() }
}

/// Runs 1000 instructions on all processors; returns the final counts, and how many requests the
/// session took.
fn measured(processors: u32, setup: &Setup) -> (Vec<Vec<Count>>, u64) {
    let mut ctx = context(&format!("skylake,processors={processors}"));
    let before = ctx.connection.requests();
    let model = ctx.model.clone().expect("a model");
    let mut session = Session::open(&mut ctx.connection, false, false).expect("a session");
    session.configure(setup, false).expect("configured");
    session.start().expect("started");
    model.begin(&workload::parse("instructions=1000,processors=all").expect("a workload"));
    while model.advance(1 << 40).expect("no fault") {}
    let snapshot = session.snapshot().expect("a snapshot");
    let last = session.stop_and_read().expect("stopped");
    drop(session);
    let all = processors as usize;
    assert_eq!((snapshot.len(), last.len()), (all, all));
    (last, ctx.connection.requests() - before)
}

#[test]
fn a_snapshot_is_one_request_and_a_stop_one_more_where_the_counts_are_long() {
    // Open, configure, start, snapshot, stop, close.
    for (processors, more) in [(1, 0), (16, 0), (2048, 1)] {
        let mut setup = counting(1);
        setup.specs[0].raw = 0xC0;
        let (counts, requests) = measured(processors, &setup);
        assert_eq!(requests, 6 + more, "{processors} processors");
        assert!(counts.iter().all(|counts| counts[0].counted == 1000));
    }
    // The largest comes back whole, twice 41 pages of 1 MiB.
    let (counts, requests) = measured(2048, &counting(256));
    assert_eq!(requests, 5 + 2 * 41);
    assert!(counts.iter().all(|counts| counts.len() == 256));
}

/// The registers of processor 0 while a source is counted there, by name and field.
fn registers_while_counting(machine: &str, source: u32) -> Vec<(String, &'static str, u64)> {
    let mut ctx = context(machine);
    let interface = ctx.connection.machine().expect("described").interface;
    let interface = ProfileInterface::from_wire(interface).expect("an interface");
    let spec = Spec { source, filter: Spec::USER | Spec::KERNEL, ..Spec::default() };
    let setup = Setup { specs: vec![spec], ..Setup::default() };
    let mut session = Session::open(&mut ctx.connection, true, false).expect("a session");
    session.configure(&setup, false).expect("configured");
    session.start().expect("started");
    // The session stays open until the machine's handle is closed.
    std::mem::forget(session);
    let (registers, _) = ctx.connection.registers(0).expect("registers");
    let fields = |register: &Register| {
        let decoded = decode(interface.name(), register.number, register.value);
        let name = decoded.name;
        let fields = decoded.fields.into_iter();
        fields.map(|field| (name.clone(), field.name, field.value)).collect::<Vec<_>>()
    };
    registers.iter().flat_map(fields).collect()
}

/// Instructions retired, from the manuals: SDM volume 3, tables of architectural, P6, Pentium and
/// Pentium 4 events; AMD's PMCx0C0.
#[test]
fn registers_show_what_is_counted() {
    type Rows = &'static [(&'static str, &'static str, u64)];
    let instructions = ProfileSource::TOTAL_ISSUES.0;
    let table: [(&str, Rows); 5] = [
        ("skylake", &[("IA32_FIXED_CTR_CTRL", "EN0", 3)]),
        ("zen4", &[("PERF_CTL0", "EventSelect[7:0]", 0xC0), ("PERF_CTL0", "En", 1)]),
        ("pentium3", &[("PerfEvtSel0", "EVENT_SELECT", 0xC0), ("PerfEvtSel0", "EN", 1)]),
        ("pentium", &[("CESR", "ES0", 0x16), ("CESR", "CC0[1]", 1)]),
        (
            "pentium4",
            &[
                ("MSR_CRU_ESCR0", "EVENT_SELECT", 2),
                ("MSR_CRU_ESCR0", "T0_USR", 1),
                ("MSR_CRU_ESCR0", "T0_OS", 1),
                ("MSR_IQ_CCCR0", "ENABLE", 1),
                ("MSR_IQ_CCCR0", "ESCR_SELECT", 4),
            ],
        ),
    ];
    for (machine, rows) in table {
        let found = registers_while_counting(machine, instructions);
        for &(register, field, value) in rows {
            let row = (register.to_owned(), field, value);
            let same: Vec<_> = found.iter().filter(|row| row.0 == register).collect();
            assert!(found.contains(&row), "{machine}: {row:?} of {same:?}");
        }
    }
}

#[test]
fn top_leaves_no_session_behind() {
    let mut ctx = context("skylake");
    assert_eq!(ran(&["top", "--once", "-I", "10"], &mut ctx).expect("rates"), 0);
    let machine = ctx.connection.machine().expect("described");
    assert_eq!((machine.active_process, machine.active_session), (0, 0));
}

type Requests = std::collections::HashMap<u32, usize>;

/// A modelled machine to which something happens before some request, or to the reply.
struct Changed {
    model: InProcess,
    requests: Rc<RefCell<Requests>>,
    before: fn(&mut InProcess, RequestCode, usize),
    change: fn(RequestCode, usize, &mut [u8]),
}

impl Transport for Changed {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> halprof_measure::Result<usize> {
        let asked = {
            let mut requests = self.requests.borrow_mut();
            let asked = requests.entry(code.0).or_default();
            *asked += 1;
            *asked
        };
        (self.before)(&mut self.model, code, asked);
        let length = self.model.request(code, input, output)?;
        (self.change)(code, asked, &mut output[..length]);
        Ok(length)
    }
}

impl ModelledMachine for Changed {
    fn begin(&mut self, workload: &Workload) {
        self.model.begin(workload);
    }

    fn advance(&mut self, nanoseconds: u64) -> halprof_measure::Result<bool> {
        self.model.advance(nanoseconds)
    }

    fn elapsed_ns(&mut self) -> u64 {
        self.model.elapsed_ns()
    }

    fn take_process_events(&mut self) -> Vec<ProcessEvent> {
        self.model.take_process_events()
    }
}

fn changed(
    before: fn(&mut InProcess, RequestCode, usize),
    change: fn(RequestCode, usize, &mut [u8]),
) -> (Context, Rc<RefCell<Requests>>) {
    let spec = halprof_measure::spec("skylake").expect("a model");
    let requests = Rc::new(RefCell::new(Requests::new()));
    let model = InProcess::new(&spec.leaves);
    let machine = Changed { model, requests: Rc::clone(&requests), before, change };
    let backend = Backend::modelled(Box::new(machine), "skylake".to_owned());
    (Context::open(backend).expect("a machine"), requests)
}

/// Enough interrupts without an overflow for the driver to end sampling.
fn storm(model: &mut InProcess) {
    (0..200).for_each(|_| model.model().spurious_interrupt(3));
}

/// Records the default workload while something happens to the machine; returns how many samples
/// are in the file.
fn recorded_until(before: fn(&mut InProcess, RequestCode, usize)) -> usize {
    let (_folder, file) = scratch();
    let mut ctx = changed(before, |_, _, _| {}).0;
    let status = ran(&["record", "-e", "TotalIssues:10000", "-o", &file], &mut ctx);
    assert_eq!(status.expect("a result"), 4);
    let reader = halprof_profile::file::Reader::open(file.as_ref()).expect("a recording");
    let mut count = 0;
    let recording = reader.samples(|part| count += part.len()).expect("whole");
    assert!(recording.damaged().is_none(), "{recording:?}");
    assert_eq!(recording.statistics.expect("statistics").ended.as_deref(), Some("interrupt-storm"));
    count
}

#[test]
fn a_storm_ends_a_recording_with_4_and_the_file_is_kept() {
    let count = recorded_until(|model, code, asked| {
        if code == samples::DRAIN && asked == 3 {
            storm(model);
        }
    });
    // The whole default workload would give 80,000.
    assert!((1..60_000).contains(&count), "{count} samples: it went on");
}

/// No drain sees this storm: the driver answers the stop with it.
#[test]
fn a_storm_before_the_stop_keeps_the_file() {
    let count = recorded_until(|model, code, _| {
        if code == session::STOP {
            storm(model);
        }
    });
    assert_eq!(count, 80_000);
}

/// The first two starts find a machine that is waking up.
fn waking(code: RequestCode, asked: usize, reply: &mut [u8]) {
    if code == session::START && asked <= 2 {
        let at = std::mem::offset_of!(shared_types::ReplyHeader, error);
        let suspended = (ErrorCode::Suspended as u32).to_le_bytes();
        reply[at..at + 4].copy_from_slice(&suspended);
    }
}

#[test]
fn a_start_is_tried_again_while_the_machine_wakes_up() {
    let (mut ctx, _) = changed(|_, _, _| {}, waking);
    let mut session = Session::open(&mut ctx.connection, false, false).expect("a session");
    session.configure(&counting(1), false).expect("configured");
    let outcome = session.start();
    // The model did start at the first request; what matters is that the request was repeated.
    assert_eq!(outcome.expect_err("it runs already").code(), "running");
}

/// By the architectural events where the vendor has formulas too: on the performance cores bad
/// speculation is what is left of the slots, on the efficiency cores slots are the sum.
#[test]
fn the_architectural_events_say_what_the_workload_does() {
    let dump = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/cpuid/GenuineIntel00C0652_ArrowLakeH_04_CPUID.txt"
    );
    if !std::path::Path::new(dump).exists() {
        eprintln!("skipped: no {dump}");
        return;
    }
    let (_folder, file) = scratch();
    let parsed =
        Arguments::parse_from(["halprof", "--quiet", "--json", "stat", "--topdown", "-o", &file]);
    let parsed = parsed.expect("arguments");
    let Commands::Stat(options) = &parsed.command else { panic!("not stat") };
    let output = output(&parsed);
    let status = stat::run_by(options, stat::Method::Architectural, &mut context(dump), &output);
    assert_eq!(status.expect("counts"), 0);
    let written = std::fs::read(&file).expect("a result");
    let stat: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
    let rows = stat["topdown"].as_array().expect("rows");
    let (low_power, others): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row["cpu_type"] == "arrowlake_crestmont");
    assert_eq!(others.len(), 8);
    for (row, expected) in others.iter().zip([25.0, 5.0, 60.0, 10.0].iter().cycle()) {
        let value = row["value"].as_f64().unwrap_or_else(|| panic!("{row}"));
        assert!((value - expected).abs() < 0.1, "{row}");
        assert_eq!(row["method"], "architectural");
    }
    let [none] = low_power[..] else { panic!("{low_power:?}") };
    assert!(none["reason"].as_str().expect("a reason").contains("TopdownSlots"), "{none}");
}
