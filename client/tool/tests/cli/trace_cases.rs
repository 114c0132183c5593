//! Traces that others made or found, each with what is true of it.

use crate::cli::screens::screen::{WIDTHS, assert_screen};
use crate::cli::support::{folder, halprof, json, shared_text, text};
use halprof_etw::payload::EventKind;
use halprof_etw::payload::processor::{CounterSample, Sample};
use serde_json::{Value, json};
use sim_etw::write::{self, Origin, Session};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// The samples of each row of a report, under the row's fields.
fn samples_by(report: &Value, fields: &[&str]) -> BTreeMap<String, u64> {
    let mut samples = BTreeMap::new();
    for row in list(&report["tables"][0]["parts"][0]["rows"]) {
        let name: Vec<String> = fields.iter().map(|field| row[field].to_string()).collect();
        *samples.entry(name.join(" ")).or_default() += row["samples"].as_u64().expect("samples");
    }
    samples
}

/// What Windows writes at a thread's end comes before its last samples, and stacks name a process
/// where no event of a thread does.
#[test]
fn samples_have_the_process_that_ran() {
    let cases: [(&str, &[(&str, u64)]); 5] = [
        ("cases/etw/thread-runs-after-its-end.etl", &[("\"one.exe\"", 3)]),
        ("cases/reports/etl/a_no_thread_events.etl", &[("\"one.exe\"", 30), ("\"two.exe\"", 10)]),
        ("cases/reports/etl/i_after_end.etl", &[("\"one.exe\"", 23)]),
        // An own reader finds each sample's thread started in the trace.
        ("etw/files/net.4.5.2.x64.etl", &[("null", 0)]),
        ("etw/files/net.4.5.x86.etl", &[("null", 0)]),
    ];
    for (name, expected) in cases {
        let Some(file) = shared_text(name) else { return };
        let report = json(&format!("report {file} --by process --source Timer"));
        let found = samples_by(&report, &["process_name"]);
        for (process, samples) in expected {
            assert_eq!(found.get(*process).copied().unwrap_or(0), *samples, "{name} {found:?}");
        }
    }
}

/// A session of a driver's software tracing (WPP) and the samples are in one file.
#[test]
fn messages_between_samples_are_skipped() {
    let Some(file) = shared_text("cases/strangers/etl-wpp-message/wpp.etl") else { return };
    let ran = halprof(&format!("report {file} --by process"));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let report = json(&format!("report {file} --by process"));
    let found = samples_by(&report, &["process_name"]);
    assert_eq!(found, BTreeMap::from([("\"one.exe\"".to_owned(), 40)]));
}

/// Windows writes the name of a process in a code page: three processes, each in another.
#[test]
fn processes_have_the_names_that_their_images_have() {
    let Some(file) = shared_text("cases/strangers/process-name-not-ascii/names.etl") else {
        return;
    };
    let report = json(&format!("report {file} --by process"));
    let found = samples_by(&report, &["process_name"]);
    let expected = [("größe.exe", 20), ("温度スイッチ.exe", 10), ("привет.exe", 30)];
    let expected = expected.map(|(name, samples)| (format!("\"{name}\""), samples));
    assert_eq!(found, BTreeMap::from(expected));
    let one = json(&format!("report {file} -p größe.exe --by process"));
    assert_eq!(samples_by(&one, &["process"]).into_values().collect::<Vec<_>>(), [20]);
}

/// All kinds of a trace, with what independent readers count of each.
#[test]
fn each_kind_of_event_is_listed_with_its_number() {
    let Some(manifest) = shared_text("etw/files/manifest.json") else { return };
    let manifest: Value = serde_json::from_slice(&fs::read(manifest).expect("read")).expect("JSON");
    for (name, expected) in manifest.as_object().expect("files") {
        let Some(file) = shared_text(&format!("etw/files/{name}")) else { continue };
        let found = json(&format!("report --events {file}"));
        assert_eq!(found["events"], expected["events"], "{name}");
        let kinds = expected["kinds"].as_object().expect("kinds");
        let total: u64 = list(&found["rows"]).iter().filter_map(|row| row["events"].as_u64()).sum();
        assert_eq!(json!(total), expected["events"], "{name}");
        // The names of TraceLogging events tell apart what has one number.
        assert!(list(&found["rows"]).len() >= kinds.len(), "{name}");
        for row in list(&found["rows"]).iter().filter(|row| !row["group"].is_null()) {
            let of_kind = |name: &&String| {
                let opcode = format!(" op {} v{}", row["type"], row["version"]);
                name.ends_with(&opcode) && !name.contains('-')
            };
            let numbers = kinds.keys().filter(of_kind).map(|kind| &kinds[kind]);
            assert!(numbers.into_iter().any(|number| *number == row["events"]), "{name}: {row}");
        }
    }
    let net = shared_text("etw/files/net.4.5.2.x64.etl").expect("beside it");
    let found = json(&format!("report --events {net}"));
    let sample = list(&found["rows"]).iter().find(|row| row["name"] == "SampleProf").expect("one");
    assert_eq!((&sample["provider_name"], &sample["read"]), (&json!("PerfInfo"), &json!(true)));
    let refused = halprof("report --events --off-cpu a.etl");
    assert_eq!(refused.status, 2, "{}", refused.stderr);
}

/// Windows says of the timer's samples, and of no others, whether an interrupt or a DPC took the thread's
/// time. A recording keeps it.
#[test]
fn samples_are_of_threads_interrupts_and_deferred_calls() {
    const THREAD: u32 = 8;
    let (_folder, path) = folder();
    let trace = path.with_extension("etl");
    let ip = 0xFFFF_F800_0000_1000;
    let timer = |reserved| EventKind::Sample(Sample { ip, thread: THREAD, count: 1, reserved });
    let counter = CounterSample { ip, thread: THREAD, source: 19, reserved: 1 };
    let events = [0, 0xF8, 1, 1, 2, 3].map(timer);
    let events = events.into_iter().chain([EventKind::CounterSample(counter)]);
    let events: Vec<EventKind<'_>> = events.collect();
    let events = (1001..).step_by(100).zip(&events).map(|(time, event)| {
        (Origin { time, processor: 0, thread: THREAD, process: 4 }, event, &[][..])
    });
    let session = Session { origin: 1000, ..Session::default() };
    write::trace(fs::File::create(&trace).expect("a file"), session, events).expect("written");
    json(&format!("convert {} -o {}", text(&trace), text(&path)));
    for file in [text(&trace), text(&path)] {
        let report = json(&format!("report {file} --by context"));
        assert_eq!(report["contexts"], json!({"thread": 2, "dpc": 2, "interrupt": 2}));
        let mut found = BTreeMap::new();
        for part in list(&report["tables"][0]["parts"]) {
            for row in list(&part["rows"]) {
                found.insert(row["context"].to_string(), row["samples"].as_u64());
            }
        }
        let expected = [("\"DPC\"", 2), ("\"interrupt\"", 2), ("\"thread\"", 2), ("null", 1)];
        let expected = expected.map(|(name, samples)| (name.to_owned(), Some(samples)));
        assert_eq!(found, BTreeMap::from(expected), "{file}");
        // The mode is what it was.
        let lines = halprof(&format!("script {file} --jsonl")).stdout;
        let first: Value =
            serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
        assert_eq!(first["mode"], "kernel");
        let shown = halprof(&format!("report {file}")).stdout;
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("2 of 6 samples of the timer ran in interrupts"), "{shown}");
    }
}

/// A session that preallocates its file has not closed it when somebody copies it.
#[test]
fn a_copy_of_an_open_file_has_its_empty_end_named() {
    let Some(trace) = shared_text("etw/files/artificial_pmc.etl") else { return };
    let (_folder, path) = folder();
    let copy = path.with_extension("etl");
    let mut bytes = fs::read(trace).expect("a trace");
    bytes.resize(bytes.len() + 5 * 4096, 0);
    fs::write(&copy, bytes).expect("written");
    let ran = halprof(&format!("report --events {}", text(&copy)));
    assert_eq!(ran.status, 5, "{}", ran.stderr);
    assert!(ran.stderr.contains("before its session had closed it: 1"), "{}", ran.stderr);
}

/// Threads without any event: the stacks of nearly all name one of their processes.
#[test]
fn stacks_name_processes_where_no_event_of_a_thread_does() {
    let Some(file) = shared_text("cases/etw/no-thread-events.etl") else { return };
    let report = json(&format!("report {file} --by process"));
    let found = samples_by(&report, &["process", "process_name"]);
    let names = ["1000 \"one.exe\"", "2000 \"two.exe\"", "3000 \"three.exe\"", "4 \"System\""];
    assert!(names.iter().all(|name| found.contains_key(*name)), "{found:?}");
    assert_eq!(found.len(), names.len(), "{found:?}");
}

/// A thread with the id of one that ended: each has its own counts and switches.
#[test]
fn a_thread_that_runs_after_its_end_keeps_its_counts() {
    let Some(file) = shared_text("cases/etw/thread-runs-after-its-end.etl") else { return };
    let stat = json(&format!("stat --from {file} --by thread"));
    let threads = list(&stat["by_thread"]).iter().filter(|row| row["thread"] == 12);
    let found: Vec<Value> = threads
        .filter(|row| row["source"] == "InstructionRetired")
        .map(|row| json!([row["process"], row["value"], row["switches"], row["complete"]]))
        .collect();
    let expected = [json!(["one.exe", 3_000, 2, true]), json!(["two.exe", 30_000, 1, true])];
    assert_eq!(found, expected);
}

#[test]
fn waits_have_the_process_that_stacks_name() {
    let Some(file) = shared_text("cases/reports/etl/h_offcpu_nothreads.etl") else { return };
    let waits = json(&format!("report --off-cpu {file}"));
    let found: Vec<Value> = list(&waits["rows"]).iter().map(|row| row["process"].clone()).collect();
    assert_eq!(found, ["one.exe"]);
}

/// `record --off-cpu` keeps what says who ended waits, and in which function; without it a trace says
/// that it has none of it.
#[test]
fn a_trace_of_waits_has_who_ended_them() {
    const RECORD: &str = "--machine skylake,backend=etw record -q -e cycles:100000";
    const WORKLOAD: &str = "--workload cycles=30000000";
    let (_folder, path) = folder();
    let trace = path.with_extension("etl");
    let trace = text(&trace);
    let refused = halprof(&format!("{RECORD} --off-cpu {WORKLOAD} -o {}", text(&path)));
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    let recorded = json(&format!("{RECORD} --off-cpu {WORKLOAD} -o {trace}"));
    assert_ne!(recorded["samples"], 0);
    for what in ["--by module", "--off-cpu", "--off-cpu --by waker", "--events"] {
        let report = json(&format!("report {what} {trace}"));
        assert_eq!(report["modelled"], true, "{what}: a model recorded it");
    }
    let waits = json(&format!("report --off-cpu {trace}"));
    let ended: u64 = list(&waits["rows"])
        .iter()
        .flat_map(|row| list(&row["wakers"]))
        .filter_map(|waker| waker["waits"].as_u64())
        .sum();
    assert!(ended > 20, "{waits}");
    let sum = |by: &str| {
        let found = json(&format!("report --off-cpu --by {by} {trace}"));
        let rows = list(&found["ended_by"]).to_vec();
        assert!(
            rows.iter().any(|row| row["dpc"] == true) && rows.iter().any(|row| row["dpc"] == false)
        );
        assert!(rows.iter().all(|row| row["module"].is_string()), "{found}");
        let waited = |row: &Value| row["waited_ns"].as_u64().expect("a number");
        (rows.iter().map(waited).sum::<u64>(), rows)
    };
    let (total, _) = sum("waker");
    for by in ["thread,waker", "process,waker"] {
        let (same, rows) = sum(by);
        assert_eq!(same, total, "{by}");
        assert!(rows.iter().all(|row| row["id"].is_u64()), "{by}");
    }
    for columns in WIDTHS {
        let ran = halprof(&format!("report --off-cpu --by waker {trace} --width {columns}"));
        assert_screen(&format!("off-cpu-waker-{columns}"), &ran.stdout, columns);
    }
    let csv = halprof(&format!("report --off-cpu --by waker --csv {trace}")).stdout;
    assert!(csv.starts_with("waker_process,"), "{csv}");
    json(&format!("{RECORD} {WORKLOAD} -o {trace}"));
    let none = halprof(&format!("report --off-cpu --by waker {trace}"));
    assert_eq!(none.status, 5, "{}", none.stderr);
}

/// Losses that Windows reports are warnings, damage ends with 5, in all commands; and a number that no
/// buffer has is neither.
#[test]
fn losses_and_damage_have_one_status_in_all_commands() {
    let Some(pmc) = shared_text("etw/files/artificial_pmc.etl") else { return };
    let bytes = fs::read(&pmc).expect("a trace");
    let (_folder, path) = folder();
    let target = text(&path);
    let made = |name: &str, bytes: &[u8]| {
        let path = path.with_file_name(name);
        fs::write(&path, bytes).expect("written");
        path.display().to_string()
    };
    let without_one = [&bytes[..4096 * 3], &bytes[4096 * 4..]].concat();
    // The flags of a buffer's header: a buffer before it was lost.
    let mut flagged = bytes.clone();
    flagged[4096 * 3 + 52] |= 4;
    let cases = [
        ("whole", pmc.clone(), 0, false),
        ("unused number", shared_text("cases/etw/sequence-gap.etl").expect("beside it"), 0, false),
        ("lost by the session", made("flagged.etl", &flagged), 0, true),
        ("missing in the file", made("without.etl", &without_one), 5, true),
        ("cut", made("cut.etl", &bytes[..bytes.len() - 1000]), 5, true),
    ];
    for (name, file, status, is_warned) in cases {
        for command in [
            format!("report {file} -q"),
            format!("script {file} -q"),
            format!("export {file} -q -f folded -o -"),
            format!("convert {file} -q -o {target}"),
            format!("report {target} -q"),
            format!("stat -q --from {file}"),
            format!("stat -q --from {target}"),
            format!("report -q --off-cpu {file}"),
        ] {
            let ran = halprof(&command);
            assert_eq!(ran.status, status, "{name}: {command}: {}", ran.stderr);
            let words = ["lost", "missing", "buffers than", "ends inside"];
            let has_warning = words.iter().any(|word| ran.stderr.contains(word));
            assert_eq!(has_warning, is_warned, "{name}: {command}: {}", ran.stderr);
        }
    }
}

/// An interrupt of the timer has two events where the timer is among the sampled counters too.
#[test]
fn an_interrupt_of_the_timer_is_one_sample() {
    let Some(file) = shared_text("cases/etw/timer-twice.etl") else { return };
    let report = json(&format!("report {file}"));
    let timer = &report["by_source"][0];
    let fields = ["source", "samples", "events", "seconds"].map(|field| &timer[field]);
    // Each is of 10,000 units of 100 ns.
    assert_eq!(json!(fields), json!(["Timer", 286, 2_860_000, 0.286]));
}

/// 286 samples of 1 ms are 0.286 s, in every format that has a unit.
#[test]
fn exports_show_the_timer_as_time() {
    let Some(file) = shared_text("cases/etw/timer-twice.etl") else { return };
    for (format, parts) in [
        ("html", &["0.286000 s of processor time, estimated from 286 samples of period 1 ms."][..]),
        ("flamegraph", &["width: 0.286000 s, estimated"]),
        (
            "firefox",
            &["weights are milliseconds of processor time", "\"weightType\":\"tracing-ms\""],
        ),
    ] {
        let written = halprof(&format!("export {file} --source Timer -f {format} -o -")).stdout;
        for part in parts {
            assert!(written.contains(part), "{format}: {part}");
        }
        assert!(!written.contains("2,860,000"), "{format}");
    }
}

/// Of the samples shown, as many have stacks as `script` says.
#[test]
fn a_picture_says_how_many_of_its_samples_have_stacks() {
    let Some(file) = shared_text("etw/files/net.4.5.2.x64.etl") else { return };
    let lines = halprof(&format!("script {file} --jsonl")).stdout;
    let samples = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let depths = samples.map(|sample| sample["callers"].as_array().map_or(0, Vec::len));
    let (all, stacked) =
        depths.fold((0, 0), |(all, stacked), depth| (all + 1, stacked + usize::from(depth > 0)));
    let picture = halprof(&format!("export {file} -f flamegraph -o -")).stdout;
    let picture = picture.replace(',', "");
    let said = format!("{all} samples shown 0 lost; {stacked} of {all} samples have call stacks");
    assert!(picture.contains(&said), "{said}");
}

#[test]
fn a_trace_without_samples_is_described() {
    let files = ["ShutdownPerfDiagLogger", "diaghub.kernel.1", "powershell", "smallEtlFile"];
    for name in files {
        let Some(file) = shared_text(&format!("etw/files/{name}.etl")) else { return };
        let ran = halprof(&format!("report {file}"));
        assert_eq!(ran.status, 0, "{name}: {}", ran.stderr);
        for part in ["no samples of the timer", "context switches", "wpr -start CPU"] {
            let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(part), "{name}: {}", ran.stdout);
        }
        assert!(!ran.stdout.contains("More:") && !ran.stdout.contains("share"), "{}", ran.stdout);
        let report = json(&format!("report {file}"));
        assert!(report["warnings"][0].as_str().expect("one").contains("no samples"), "{name}");
    }
}

/// `convert` says what the recording lacks.
#[test]
fn what_a_recording_of_a_trace_lacks_is_stated() {
    let Some(file) = shared_text("cases/etw/timer-twice.etl") else { return };
    let (_folder, path) = folder();
    let ran = halprof(&format!("convert {file} -o {}", text(&path)));
    let shown = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let stat = json(&format!("report --off-cpu {file}"));
    assert!(shown.contains("Left out: 115 samples of idle threads"), "{shown}");
    let switches = stat["switches"].as_u64().expect("a number").to_string();
    assert!(shown.replace(',', "").contains(&format!("{switches} context switches")), "{shown}");
    assert!(shown.contains("`report --off-cpu`"), "{shown}");
    let help = halprof("help convert").stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("context switches") && help.contains("`report --off-cpu`"), "{help}");
}

/// PerfView writes traces into archives.
#[test]
fn a_trace_in_an_archive_is_read_as_it_is() {
    let Some(file) = shared_text("etw/files/artificial_pmc.etl") else { return };
    let (_folder, path) = folder();
    let archived = path.with_file_name("A.ETL.zip");
    let mut archive = zip::ZipWriter::new(fs::File::create(&archived).expect("a file"));
    let options = zip::write::SimpleFileOptions::default();
    let readme = ("LogFile.txt", b"log".to_vec());
    for (name, bytes) in [readme, ("a.etl", fs::read(&file).expect("a trace"))] {
        archive.start_file(name, options).expect("begun");
        archive.write_all(&bytes).expect("written");
    }
    archive.finish().expect("finished");
    for command in ["report FILE", "report --off-cpu FILE", "stat --by thread --from FILE"] {
        let [mut plain, mut archived] = [&file, &archived.display().to_string()]
            .map(|file| json(&command.replace("FILE", file)));
        for result in [&mut plain, &mut archived] {
            result["file"].take();
            result["trace"]["file"].take();
        }
        assert_eq!(plain, archived, "{command}");
    }
}

/// A sum of counts that are not all is not all either.
#[test]
fn the_total_of_incomplete_threads_is_marked() {
    let Some(file) = shared_text("etw/files/artificial_pmc.etl") else { return };
    for (options, complete) in [("-p 1000", false), ("-p 1000 --by thread", false), ("", true)] {
        let shown = halprof(&format!("stat --from {file} {options}")).stdout;
        let total = shown.lines().find(|line| line.ends_with("InstructionRetired")).expect("it");
        assert_eq!(total.contains('≥'), !complete, "{options}: {total}");
    }
    let stat = json(&format!("stat --from {file} --by thread -p 1000"));
    let all = list(&stat["by_thread"]).iter().all(|row| row["complete"] == true);
    assert_eq!(stat["trace"]["complete"], all);
    let Some(file) = shared_text("cases/etw/thread-runs-after-its-end.etl") else { return };
    let stat = json(&format!("stat --from {file} --by thread -p 1000"));
    assert_eq!(stat["trace"]["complete"], true);
}

/// The rows of a trace of strangers by symbol and line, with symbols from its own folder.
#[expect(clippy::type_complexity, reason = "a row is read in one place")]
fn rows_of(name: &str) -> Option<(String, Vec<(Value, Value, u64)>)> {
    let file = shared_text(&format!("cases/strangers/{name}/t.etl"))?;
    let folder = Path::new(&file).parent().expect("a folder").display().to_string();
    let report = json(&format!("report {file} --by symbol,line --symbol-path {folder}"));
    let rows = list(&report["tables"][0]["parts"][0]["rows"]).iter().map(|row| {
        (row["symbol"].clone(), row["line"].clone(), row["samples"].as_u64().expect("samples"))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| format!("{row:?}"));
    Some((format!("{file} --symbol-path {folder}"), rows))
}

/// What the tools of LLVM say of the programs of these traces.
#[test]
fn functions_have_their_own_names_and_lines() {
    let cases: [(&str, Value); 5] = [
        // A block of lines ends with its code: the functions behind it have none.
        (
            "pdb-line-of-the-function-before",
            json!([
                ["first(int)", 2, 7],
                ["first(int)", 3, 4],
                ["fourth(int)", 6, 7],
                ["fourth(int)", 7, 4],
                ["mainCRTStartup()", 8, 22],
                ["second", null, 11],
                ["third", null, 10],
            ]),
        ),
        // Overloads differ in their parameters alone, and this PDB has public symbols alone.
        (
            "overloads-public-pdb",
            json!([
                ["Conv::put(char const*) const", null, 15],
                ["Conv::put(double)", null, 11],
                ["Conv::put(int)", null, 11],
                ["mainCRTStartup", null, 25],
            ]),
        ),
        (
            "cxx20-co-await",
            json!([["mainCRTStartup", null, 5], ["operator co_await(Task)", null, 3]]),
        ),
        // The linker folded `beta` into `alpha`, whose line this is.
        (
            "folded-same-object",
            json!([["alpha(int)", 1, 5], ["gamma_(int)", 3, 4], ["mainCRTStartup()", 5, 25]]),
        ),
        ("long-name-coff", Value::Null),
    ];
    for (name, expected) in cases {
        let Some((_, rows)) = rows_of(name) else { return };
        if expected.is_null() {
            let names = rows.iter().map(|(symbol, ..)| symbol.as_str().expect("a name").len());
            assert_eq!(names.max(), Some(4096), "{name}");
            let samples: Vec<u64> = rows.iter().map(|&(.., samples)| samples).collect();
            assert_eq!(samples, [9, 1, 1], "{name} {rows:?}");
            continue;
        }
        assert_eq!(serde_json::to_value(&rows).expect("JSON"), expected, "{name}");
    }
}

/// Both names of folded code lead to it, and each names the other.
#[test]
fn folded_functions_are_found_by_each_of_their_names() {
    let Some((file, _)) = rows_of("folded-same-object") else { return };
    for name in ["alpha", "beta"] {
        let annotated = json(&format!("annotate {} {name} {}", split(&file).0, split(&file).1));
        assert_eq!(
            (&annotated["symbol"], &annotated["also"]),
            (&json!("alpha(int)"), &json!(["beta(int)"]))
        );
        let report = json(&format!("report {file} --by symbol --symbol {name}"));
        assert_eq!(
            samples_by(&report, &["symbol"]),
            BTreeMap::from([("\"alpha(int)\"".to_owned(), 5)])
        );
        let told = halprof(&format!("report {file} --symbol {name}")).stderr;
        assert!(told.contains(&format!("`--symbol {name}` is ")), "{told}");
        assert!(told.contains("!alpha(int)"), "{told}");
        // Where another filter leaves nothing, the name is still known.
        let none = halprof(&format!("report {file} --symbol {name} --time 900-"));
        assert!(!none.stderr.contains("no sample has the symbol"), "{}", none.stderr);
    }
}

/// A file, and the options behind it.
fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').expect("options")
}

/// The file says x64, and its code map that this function is of Arm64.
#[test]
fn code_of_arm64_in_a_file_of_x64_is_refused() {
    let Some((file, rows)) = rows_of("arm64ec") else { return };
    assert_eq!(rows, [(json!("ecwork(int)"), json!(1), 9)]);
    let (file, options) = split(&file);
    let ran = halprof(&format!("annotate {file} ecwork {options}"));
    assert_eq!((ran.status, ran.stdout.as_str()), (5, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("Arm64"), "{}", ran.stderr);
}
