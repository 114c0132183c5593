//! What `stat --from` says of a trace whose context switches carry counts, against what an
//! independent reader finds in it.

use crate::cli::screens::screen::{WIDTHS, assert_screen};
use crate::cli::support::{folder, foreign_python, halprof, json, text};
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
    let usual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/vectors.json");
    std::env::var_os("HALPROF_ETW_VECTORS").map_or_else(|| usual.into(), PathBuf::from)
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
fn threads_have_the_counts_of_an_independent_reader() {
    let Some((file, expected)) = trace() else { return };
    let stat = json(&["stat", "--from", &file, "--by", "thread", "-M", "mips"]);
    assert_eq!(stat["modelled"], false);
    let rows = list(&stat["by_thread"]);
    let sources = list(&expected["counters"]);
    for thread in list(&expected["threads"]) {
        let same = |row: &&Value| row["thread"] == thread["tid"] && row["source"] == sources[0];
        let mut instances: Vec<&Value> = rows.iter().filter(same).collect();
        instances.sort_by_key(|row| row["started_ns"].as_u64());
        let first = instances[thread["instance"].as_u64().expect("a number") as usize];
        for (index, source) in sources.iter().enumerate() {
            let row = rows.iter().find(|row| {
                let same = |field: &str| row[field] == first[field];
                same("thread") && same("started_ns") && row["source"] == *source
            });
            let row = row.expect("a row for each source");
            assert_eq!(row["value"], thread["counts"][index], "{row}");
            assert_eq!(row["switches"], thread["switches"], "{row}");
            let ticks = thread["ticks"].as_u64().expect("a number");
            assert_eq!(row["time_ns"], 100 * ticks, "{row}");
            assert_eq!(row["complete"], thread["unknown"] == 0, "{row}");
            assert_eq!(row["metrics"][0]["metric"], "mips");
        }
    }
    // The sums are those of all complete slices, and all time is somebody's or nobody's.
    for (index, source) in sources.iter().enumerate() {
        let count = &list(&stat["counts"])[index];
        let threads = list(&expected["threads"]).iter();
        assert_eq!(count["source"], *source);
        assert_eq!(count["value"], sum(threads.map(|thread| &thread["counts"][index])));
    }
    let firsts = rows.iter().filter(|row| row["source"] == sources[0]);
    let time = sum(firsts.map(|row| &row["time_ns"]));
    let unknown = stat["unknown_ns"].as_u64().expect("a number");
    assert_eq!(time + unknown, 2 * stat["elapsed_ns"].as_u64().expect("a number"));
}

#[test]
fn processes_intervals_and_processors_are_parts_of_the_whole() {
    let Some((file, expected)) = trace() else { return };
    let whole = json(&["stat", "--from", &file]);
    let total = |stat: &Value| sum(list(&stat["counts"]).iter().map(|row| &row["value"]));
    let by_process = json(&["stat", "--from", &file, "--by", "process"]);
    let rows = list(&by_process["by_process"]);
    assert_eq!(sum(rows.iter().map(|row| &row["value"])), total(&whole));
    assert!(rows.iter().all(|row| row["error"].is_null()));
    let mut of_processes = 0;
    for id in rows.iter().filter(|row| row["source"] == "CacheMisses").map(|row| &row["id"]) {
        let one = json(&["stat", "--from", &file, "-p", &id.to_string()]);
        of_processes += total(&one);
    }
    assert_eq!(of_processes, total(&whole));
    let processors = ["0", "1"].map(|one| total(&json(&["stat", "--from", &file, "-C", one])));
    assert_eq!(processors.iter().sum::<u64>(), total(&whole));
    let intervals = json(&["stat", "--from", &file, "-I", "2", "--by", "thread"]);
    assert!(list(&intervals["intervals"]).len() > 5);
    assert_eq!(list(&intervals["intervals"]).iter().map(total).sum::<u64>(), total(&whole));
    let csv = halprof(&["stat", "--from", &file, "--by", "thread", "--csv"]).stdout;
    let mut csv = csv::Reader::from_reader(csv.as_bytes());
    let heads = csv.headers().expect("heads").clone();
    let column = |name: &str| heads.iter().position(|head| head == name).expect("a column");
    let rows: Vec<_> = csv.records().map(|row| row.expect("a row")).collect();
    let threads = list(&expected["threads"]).len();
    let of_threads = rows.iter().filter(|row| !row[column("thread")].is_empty());
    assert_eq!(of_threads.count(), 2 * threads);
}

#[test]
fn screens_of_a_trace_keep_to_their_width() {
    let Some((file, _)) = trace() else { return };
    for (name, options) in [
        ("stat-from", &[][..]),
        ("stat-from-threads", &["--by", "thread"]),
        ("stat-from-processes", &["--by", "process", "-M", "mips"]),
        ("stat-from-intervals", &["-I", "5", "--by", "process", "-C", "0", "-p", "1000"]),
    ] {
        for columns in WIDTHS {
            let width = columns.to_string();
            let command = [&["stat", "--from", &file, "--width", &width], options].concat();
            let ran = halprof(&command);
            assert_eq!(ran.stderr, "", "{name}");
            assert_screen(&format!("{name}-{columns}"), &ran.stdout, columns);
        }
    }
}

#[test]
fn a_trace_without_counts_is_refused_with_what_it_lacks() {
    let Some((file, _)) = trace() else { return };
    let file = file.replace("artificial_pmc", "net.4.5.2.x64");
    let ran = halprof(&["stat", "--from", &file]);
    assert_eq!((ran.status, ran.stdout.as_str()), (5, ""));
    assert!(ran.stderr.contains("has no context switches"), "{}", ran.stderr);
    assert!(ran.stderr.contains("xperf -on PROC_THREAD+LOADER+CSWITCH"), "{}", ran.stderr);
}

/// Every switch-out of a thread is the begin of a wait, and every wait that ended is between two
/// switches.
#[test]
fn waits_are_between_the_switches_of_the_trace() {
    let Some((file, expected)) = trace() else { return };
    let waits = json(&["report", "--off-cpu", &file]);
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
    let by_process = json(&["report", "--off-cpu", "--by", "process", "-p", "one.exe", &file]);
    assert!(
        list(&by_process["rows"]).iter().all(|row| row["id"] == 1000 && row["thread"].is_null())
    );
    for columns in WIDTHS {
        let width = columns.to_string();
        let ran = halprof(&["report", "--off-cpu", &file, "--width", &width]);
        assert_screen(&format!("off-cpu-{columns}"), &ran.stdout, columns);
    }
}

#[test]
fn a_recording_keeps_the_sums_of_its_trace() {
    let Some((file, _)) = trace() else { return };
    let (_folder, path) = folder();
    let path = text(&path);
    json(&["convert", &file, "-o", path]);
    for more in [
        &[][..],
        &["--by", "thread", "-M", "mips"],
        &["--by", "process"],
        &["-p", "1000", "--by", "thread"],
    ] {
        let [mut of_trace, mut of_recording] =
            [&file, path].map(|from| json(&[&["stat", "--from", from], more].concat()));
        assert_eq!(of_recording["trace"]["file"], path);
        for stat in [&mut of_trace, &mut of_recording] {
            stat["trace"]["file"].take();
        }
        assert_eq!(of_recording, of_trace, "{more:?}");
    }
    for parts in [&["-I", "1"][..], &["-C", "0"], &["--per-cpu"]] {
        let ran = halprof(&[&["stat", "--from", path], parts].concat());
        assert_eq!(ran.status, 2, "{parts:?}");
        assert!(ran.stderr.contains("keeps the sums of the whole trace"), "{}", ran.stderr);
    }
}

/// Each sample's callers are those of its line in folded stacks, in text as in JSON.
#[test]
fn a_script_has_the_stack_of_each_sample() {
    let Some((file, _)) = trace() else { return };
    let file = PathBuf::from(file).with_file_name("net.4.5.2.x64.etl");
    let file = text(&file);
    let lines = halprof(&["script", file, "--jsonl"]).stdout;
    let samples: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    let mut callers = 0;
    for sample in &samples {
        let name = |frame: &Value| frame["module"].as_str().expect("a name").to_owned();
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
    let export = halprof(&["export", file, "-f", "folded", "-o", "-"]).stdout;
    assert_eq!(export.lines().collect::<Vec<_>>(), expected);
    let shown = halprof(&["script", file, "--width", "0"]).stdout;
    let (of_callers, of_samples): (Vec<&str>, Vec<&str>) =
        shown.lines().skip(1).partition(|line| line.trim_start().starts_with("0x"));
    assert_eq!((of_samples.len(), of_callers.len()), (samples.len(), callers));
    let first = samples.iter().find_map(|sample| sample["callers"].get(0)).expect("a caller");
    let [address, module] = ["address", "module"].map(|field| first[field].as_str().expect("text"));
    assert_eq!(of_callers[0].trim_start(), format!("{address}  {module}"));
}

#[test]
fn a_recording_of_samples_has_neither_waits_nor_counts() {
    let (_folder, path) = folder();
    let path = text(&path);
    json(&["record", "-e", "TotalCycles", "-o", path]);
    let ran = halprof(&["report", "--off-cpu", path]);
    assert_eq!(ran.status, 5);
    assert!(ran.stderr.contains("is a recording, which has no context switches"), "{}", ran.stderr);
    let ran = halprof(&["stat", "--from", path]);
    assert_eq!(ran.status, 5);
    assert!(ran.stderr.contains("is a recording without counts of threads"), "{}", ran.stderr);
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
    let output = command.arg(script).args(READ_BY_ETL_PARSER).current_dir(&files).output();
    let output = output.expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: BTreeMap<String, Events> = serde_json::from_slice(&output.stdout).expect("JSON");
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
