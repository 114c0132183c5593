//! What `stat --from` says of a trace whose context switches carry counts, against what an
//! independent reader finds in it.

use crate::cli::binaries;
use crate::cli::foreign::printed;
use crate::cli::screens::screen::{WIDTHS, assert_screen};
use crate::cli::support::{folder, foreign_python, halprof, json, shared_path, text};
use halprof_etw::Trace;
use halprof_etw::id::EventId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the vectors are, with the traces in a folder beside them.
fn vectors_path() -> PathBuf {
    let usual = || shared_path("etw/vectors.json");
    std::env::var_os("HALPROF_ETW_VECTORS").map_or_else(usual, PathBuf::from)
}

/// The trace, made for the purpose, and what is in it.
fn trace() -> Option<(String, Value)> {
    let path = vectors_path();
    let Ok(vectors) = std::fs::read(&path) else {
        eprintln!("skipped: no {}", path.display());
        return None;
    };
    let vectors: Value = serde_json::from_slice(&vectors).expect("JSON");
    let file = path.with_file_name("files").join("artificial_pmc.etl");
    Some((file.display().to_string(), vectors["artificial_file"].clone()))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn sum<'a>(rows: impl Iterator<Item = &'a Value>) -> u64 {
    rows.map(|value| value.as_u64().expect("a number")).sum()
}

#[test]
fn screens_of_a_trace_keep_to_their_width() {
    let Some((file, _)) = trace() else { return };
    for (name, options) in [
        ("stat-from", ""),
        ("stat-from-threads", "--by thread"),
        ("stat-from-processes", "--by process -M mips"),
        ("stat-from-intervals", "-I 5 --by process -C 0 -p 1000"),
    ] {
        for columns in WIDTHS {
            let ran = halprof(&format!("stat --from {file} --width {columns} {options}"));
            assert_eq!(ran.stderr, "", "{name}");
            assert_screen(&format!("{name}-{columns}"), &ran.stdout, columns);
        }
    }
}

/// Every switch-out of a thread is the begin of a wait, and every wait that ended is between two
/// switches.
#[test]
fn waits_are_between_the_switches_of_the_trace() {
    let Some((file, expected)) = trace() else { return };
    let waits = json(&format!("report --off-cpu {file}"));
    assert_eq!(waits["switches"], expected["switches"]);
    let elapsed = waits["elapsed_ns"].as_u64().expect("a number");
    for thread in list(&expected["threads"]).iter().filter(|thread| thread["tid"] != 0) {
        let rows = list(&waits["rows"]).iter().filter(|row| row["thread"] == thread["tid"]);
        let own: Vec<&Value> = rows.collect();
        let instances = list(&expected["threads"]).iter().filter(|one| one["tid"] == thread["tid"]);
        let switches = sum(instances.clone().map(|one| &one["switches"]));
        let ended = sum(own.iter().map(|row| &row["waits"]));
        let instances = instances.count() as u64;
        assert!((switches - 2 * instances..=switches).contains(&ended), "{thread} {ended}");
        let time =
            ["waited_ns", "unfinished_ns"].map(|field| sum(own.iter().map(|row| &row[field])));
        let ran = 100 * thread["ticks"].as_u64().expect("a number");
        assert!(time.iter().sum::<u64>() + ran <= instances * elapsed, "{thread}");
    }
    let by_process = json(&format!("report --off-cpu --by process -p one.exe {file}"));
    assert!(
        list(&by_process["rows"]).iter().all(|row| row["id"] == 1000 && row["thread"].is_null())
    );
    for (short, long) in [("process", "process,reason"), ("thread", "thread,reason")] {
        let [short, long] =
            [short, long].map(|keys| json(&format!("report --off-cpu --by {keys} {file}")));
        assert_eq!(short["rows"], long["rows"]);
    }
    for columns in WIDTHS {
        let ran = halprof(&format!("report --off-cpu {file} --width {columns}"));
        assert_screen(&format!("off-cpu-{columns}"), &ran.stdout, columns);
    }
}

#[test]
fn a_recording_keeps_the_sums_of_its_trace() {
    let Some((file, _)) = trace() else { return };
    let (_folder, path) = folder();
    let path = text(&path);
    json(&format!("convert {file} -o {path}"));
    for more in ["", "--by thread -M mips", "--by process", "-p 1000 --by thread"] {
        let [mut of_trace, mut of_recording] =
            [&file, path].map(|from| json(&format!("stat --from {from} {more}")));
        assert_eq!(of_recording["trace"]["file"], path);
        for stat in [&mut of_trace, &mut of_recording] {
            stat["trace"]["file"].take();
        }
        assert_eq!(of_recording, of_trace, "{more}");
    }
    for parts in ["-I 1", "-C 0", "--per-cpu"] {
        let ran = halprof(&format!("stat --from {path} {parts}"));
        assert_eq!(ran.status, 2, "{parts}");
        assert!(ran.stderr.contains("keeps the sums of the whole trace"), "{}", ran.stderr);
    }
}

/// Each sample's callers are those of its line in folded stacks, in text as in JSON.
#[test]
fn a_script_has_the_stack_of_each_sample() {
    let Some((file, _)) = trace() else { return };
    let file = PathBuf::from(file).with_file_name("net.4.5.2.x64.etl");
    let file = text(&file);
    let lines = halprof(&format!("script {file} --jsonl")).stdout;
    let samples: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    let mut callers = 0;
    for sample in &samples {
        let name = |frame: &Value| {
            let module = frame["module"].as_str().expect("a name");
            frame["symbol"]
                .as_str()
                .map_or(module.to_owned(), |symbol| format!("{module}!{symbol}"))
        };
        let inner = sample["callers"].as_array().map_or(&[][..], Vec::as_slice);
        callers += inner.len();
        let process = match sample["process_name"].as_str() {
            Some(name) => format!("{name} ({})", sample["process"]),
            None => sample["process"].to_string(),
        };
        let thread = format!("thread {}", sample["thread"]);
        let outer = [process, thread].into_iter().chain(inner.iter().rev().map(name));
        let levels: Vec<String> = outer.chain([name(sample)]).collect();
        *folded.entry(levels.join(";")).or_default() += sample["events"].as_u64().expect("events");
    }
    assert!(callers > samples.len(), "it has stacks");
    let expected: Vec<String> = folded.iter().map(|(levels, n)| format!("{levels} {n}")).collect();
    let export = halprof(&format!("export {file} -f folded -o -")).stdout;
    assert_eq!(export.lines().collect::<Vec<_>>(), expected);
    let shown = halprof(&format!("script {file} --width 0")).stdout;
    let (of_callers, of_samples): (Vec<&str>, Vec<&str>) =
        shown.lines().skip(1).partition(|line| line.trim_start().starts_with("0x"));
    assert_eq!((of_samples.len(), of_callers.len()), (samples.len(), callers));
    let first = samples.iter().find_map(|sample| sample["callers"].get(0)).expect("a caller");
    let [address, module] = ["address", "module"].map(|field| first[field].as_str().expect("text"));
    assert_eq!(of_callers[0].trim_start(), format!("{address}  {module}"));
}

/// The real traces that etl-parser reads. Of the others it says nothing, or too little: it knows no
/// compression and no 32-bit headers, and of classic events (diaghub.etl) no time stamp.
const READ_BY_ETL_PARSER: [&str; 10] = [
    "AMSITrace.etl",
    "ShutdownPerfDiagLogger.etl",
    "artificial_pmc.etl",
    "diaghub.kernel.1.etl",
    "diaghub.user_injected.1.etl",
    "gcevents.etl",
    "gcrundown.etl",
    "lxcore_kernel.etl",
    "powershell.etl",
    "primitive-types.etl",
];

/// How often an event is in a trace, and the sum of its time stamps.
type Events = BTreeMap<String, (u64, i64)>;

fn events_of(path: &Path) -> Events {
    let file = BufReader::new(File::open(path).expect("a trace"));
    let mut trace = Trace::open(file).expect("a trace");
    let mut events = Events::new();
    while let Some(event) = trace.next_event().expect("bytes") {
        let name = match event.id {
            EventId::Kernel { group, opcode, .. } => format!("{group}/{opcode}"),
            EventId::Manifest { guid, id, .. } => format!("{guid} {id}"),
            EventId::Classic { .. } | EventId::Other { .. } => continue,
        };
        let (count, times) = events.entry(name).or_default();
        *count += 1;
        *times += event.time;
    }
    events
}

#[test]
fn etl_parser_reads_the_same_events() {
    let files = vectors_path().with_file_name("files");
    let Some(python) = foreign_python("etl") else { return };
    if !files.exists() {
        eprintln!("skipped: no {}", files.display());
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/etl_events.py");
    let mut command = Command::new(python);
    let read = printed(command.arg(script).args(READ_BY_ETL_PARSER).current_dir(&files));
    let read: BTreeMap<String, Events> = serde_json::from_value(read).expect("counts");
    assert_eq!(read.len(), READ_BY_ETL_PARSER.len());
    for (file, mut theirs) in read {
        let mut ours = events_of(&files.join(&file));
        // Events about the trace itself: etl-parser leaves out those of the first buffer.
        for events in [&mut ours, &mut theirs] {
            events.retain(|name, _| !name.starts_with("0/"));
        }
        assert!(!theirs.is_empty(), "{file}");
        assert_eq!(ours, theirs, "{file}");
    }
}

/// A recording by tracing has the functions and instructions of the files that ran, which the trace
/// names as the kernel does.
#[test]
fn a_recording_by_tracing_has_the_functions_of_a_file() {
    let Some(built) = binaries::elf() else { return };
    let (_folder, path) = folder();
    let path = text(&path);
    let work = format!("instructions=20000000,cycles=20000000,image={}", built.path());
    let record = |path: &str| {
        json(&format!(
            "--machine skylake,backend=etw record -e cycles:100000 -o {path} --workload {work}"
        ));
    };
    record(path);
    let report = json(&format!("report {path} --by module,symbol"));
    let rows = list(&report["tables"][0]["parts"][0]["rows"]);
    let named = rows.iter().find(|row| !row["symbol"].is_null());
    let named = named.unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(
        named["module"],
        Path::new(&built.path()).file_name().expect("a name").to_str().expect("text")
    );
    let symbol = named["symbol"].as_str().expect("a name");
    let annotated = json(&format!("annotate {path} {symbol}"));
    assert!(list(&annotated["instructions"]).len() > 1, "{annotated}");
    // The trace itself has the kernel's names, and is of no machine's files.
    let trace = path.replace("a.rec", "a.etl");
    record(&trace);
    let report = json(&format!("report {trace} --by module"));
    let notes = report["symbols"].to_string();
    assert!(notes.contains(r"\\Device\\HarddiskVolume3\\"), "{notes}");
}
