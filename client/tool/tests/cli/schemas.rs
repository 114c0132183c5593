//! Does every schema catch missing and extra fields, wherever an object occurs?

use crate::cli::reports::Recorded;
use crate::cli::support::{
    committed, folder, halprof, halprof_json, json, schema, text, valid, violations,
};
use halprof_etw::PointerSize;
use halprof_etw::payload::EventKind;
use halprof_etw::payload::processor::{Sample, Switch};
use halprof_etw::payload::stack::{Frames, Stack};
use halprof_etw::payload::thread::Ready;
use halprof_setup::installation::{Installed, Removed, Switched};
use halprof_setup::tracing_rights::{Changed, ChangedRight, Grant};
use serde_json::Value;
use sim_etw::write::{self, Origin, Session};
use std::fs::File;
use std::path::Path;

/// One real output for each schema, with an element in every list.
fn outputs() -> Vec<(&'static str, Value)> {
    let (_folder, path) = folder();
    let file = text(&path);
    let stat = "--machine hybrid stat -e TotalIssues TotalCycles ProfileTime {LLCMisses,LLCReference} -M ipc --topdown -I 1 -r 2 --passes --per-core-type --workload cycles=3000000,instructions=3000000";
    let record = format!(
        "--machine hybrid record -e TotalIssues:100000:u -o {file} --workload cycles=3000000,instructions=3000000"
    );
    let mut outputs: Vec<(&str, Value)> = [
        ("machines", "machines"),
        ("info", "--machine hybrid info"),
        ("list", "--machine hybrid list --all"),
        ("metrics", "--machine hybrid list --metrics"),
        ("check", "--machine hybrid check"),
        ("registers", "--machine hybrid registers"),
        ("rdpmc", "--machine hybrid rdpmc -- true"),
        ("doctor", "--machine hybrid doctor"),
        ("explain", "--machine hybrid explain TotalIssues"),
        ("completions", "completions bash"),
        ("stat", stat),
        ("record", &record),
        ("report", "report FILE"),
        ("diff", "report FILE --diff FILE"),
        ("top", "--machine hybrid top --once -I 1 -e TotalIssues,TotalCycles"),
        ("export", "export FILE --format firefox -o FILE.json"),
    ]
    .map(|(name, line)| (name, json(&line.replace("FILE", file))))
    .to_vec();
    outputs.extend([
        ("stat-interval", line("stat-interval", &format!("{stat} --jsonl"))),
        ("branches", branches()),
        ("error", halprof_json("stat -e Nonsense").json()),
        ("regions", regions()),
    ]);
    outputs.extend(of_windows());
    outputs.extend(of_a_trace(&path));
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    outputs.push(("simulate", crate::cli::simulate::Stepped::new().json("turns", "turns")));
    if let Some(built) = crate::cli::binaries::elf() {
        let recorded = Recorded::of_function(&built, "spin", 3_000_000);
        outputs.push(("annotate", json(&format!("annotate {}", recorded.file()))));
    }
    crate::cli::timeline::recording(&path);
    outputs.push(("timeline", json(&format!("timeline {file} --ticks 1us --between begin,end"))));
    outputs
}

/// The library's report on regions.
fn regions() -> Value {
    use halprof_measure::regions::Regions;
    use halprof_measure::{Connection, InProcess, Sources, spec};
    let leaves = spec("skylake").expect("a model").leaves;
    let mut connection = Connection::new(InProcess::new(&leaves)).expect("it answers");
    let sources = Sources::named(&mut connection, "TotalIssues:u").expect("a source");
    let regions = Regions::open(&mut connection, &sources).expect("regions");
    let thread = regions.thread("main").expect("a thread");
    (0..5).for_each(|_| drop(thread.enter("parse").expect("entered")));
    drop(thread);
    named("regions", serde_json::to_value(regions.report()).expect("JSON"))
}

/// The first line of a stream.
fn line(name: &str, line: &str) -> Value {
    let shown = halprof(line).stdout;
    named(name, serde_json::from_str(shown.lines().next().expect("a line")).expect("JSON"))
}

fn named(name: &str, value: Value) -> Value {
    let own = value["schema"].as_str().and_then(|schema| schema.strip_prefix("halprof/"));
    assert_eq!(own.and_then(|own| own.split('/').next()), Some(name));
    valid(value)
}

/// The results of commands that only Windows supports, as the tool prints them.
fn of_windows() -> [(&'static str, Value); 5] {
    let devices = vec![r"ROOT\HALPROF\0000".to_owned()];
    let packages = vec!["oem12.inf".to_owned()];
    let installed = Installed {
        device: devices[0].clone(),
        package: Some(packages[0].clone()),
        created: true,
        restart: false,
    };
    let switched = Switched { devices: devices.clone(), changed: true, restart: false };
    let removed = Removed { devices, packages, service: true, restart: false };
    let right = Grant::Privilege.name().to_owned();
    let given = Changed {
        account: r"PC\Ann".to_owned(),
        sid: "S-1-5-21-1-2-3-1001".to_owned(),
        rights: vec![ChangedRight { right, changed: true }],
    };
    [
        ("install", serde_json::to_value(installed)),
        ("start", serde_json::to_value(&switched)),
        ("stop", serde_json::to_value(&switched)),
        ("tracing", serde_json::to_value(given)),
        ("uninstall", serde_json::to_value(removed)),
    ]
    .map(|(command, body)| {
        let mut value = body.expect("JSON");
        value["schema"] = format!("halprof/{command}/2").into();
        value["modelled"] = false.into();
        (command, named(command, value))
    })
}

/// A trace with the stacks of a sample and of a switch, and with a thread that waits and runs again.
fn of_a_trace(recording: &Path) -> [(&'static str, Value); 4] {
    const THREAD: u32 = 8;
    let path = recording.with_extension("etl");
    let frames = [0x7000u64, 0x8000].map(u64::to_le_bytes).concat();
    let frames = Frames::from_bytes(&frames, PointerSize::Eight);
    let stack_of =
        |event_time| EventKind::Stack(Stack { event_time, process: 4, thread: THREAD, frames });
    let switch = |old_thread, new_thread| {
        EventKind::Switch(Switch { new_thread, old_thread, old_state: 5, ..Switch::default() })
    };
    let events = [
        EventKind::Sample(Sample { ip: 0x7000, thread: THREAD, count: 1, reserved: 0 }),
        stack_of(1001),
        switch(0, THREAD),
        switch(THREAD, 0),
        EventKind::Ready(Ready { thread: THREAD, flags: 1, ..Ready::default() }),
        switch(0, THREAD),
        stack_of(1006),
        switch(THREAD, 0),
    ];
    let events = (1001..).zip(&events).map(|(time, event)| {
        (Origin { time, processor: 0, thread: THREAD, process: 4 }, event, &[][..])
    });
    let session = Session { origin: 1000, ..Session::default() };
    write::trace(File::create(&path).expect("a file"), session, events).expect("written");
    let (trace, target) = (text(&path), recording.with_extension("converted"));
    [
        ("convert", json(&format!("convert {trace} -o {}", text(&target)))),
        ("off-cpu", json(&format!("report --off-cpu --stack {trace}"))),
        ("script", line("script", &format!("script {trace} --jsonl"))),
        ("trace-events", json(&format!("report --events {trace}"))),
    ]
}

/// The path of every object in a value; the first element of a list stands for all.
fn objects(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(path.to_owned());
            for (name, field) in fields {
                objects(field, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(all) => {
            if let Some(first) = all.first() {
                objects(first, &format!("{path}/0"), found);
            }
        }
        _ => {}
    }
}

/// Fields that are present only if they have content, by schema.
const OPTIONAL: [(&str, &str); 4] = [
    (
        "stat",
        "periods passes topdown jitter intervals runs elapsed_repeats repeats deviation excluded_cpus core_type group pass run",
    ),
    ("stat-interval", "core_type group excluded_cpus run pass topdown"),
    ("script", "callers"),
    ("top", "core_type group run pass repeats deviation"),
];

/// The rows of tables have the fields of the keys that were requested.
const KEYS: &str = "machine source process process_name thread processor core module symbol inline caller_module caller caller_inlined file line address offset";

fn is_required(schema: &str, path: &str, field: &str) -> bool {
    let has = |list: &str| list.split(' ').any(|word| word == field);
    let is_row = ["/rows/", "/by_", "/stack/"].iter().any(|rows| path.contains(rows));
    let is_key = is_row && has(KEYS);
    // What is read from a file has no backend.
    field != "backend"
        && !is_key
        && !OPTIONAL.iter().any(|(name, fields)| *name == schema && has(fields))
}

/// A schema is closed here, so that no field goes undocumented. The committed one is open: validating
/// objects against it must not fail on a field that a later release adds.
#[test]
fn each_schema_catches_what_is_missing_and_what_is_too_much() {
    let mut tried = Vec::new();
    for (name, output) in outputs() {
        let schema = schema(name);
        let mut later = output.clone();
        later["later"] = "x".into();
        assert_eq!(violations(&committed(name), &later), [""; 0], "{name}");
        let mut all = Vec::new();
        objects(&output, "", &mut all);
        for path in all {
            let object = output.pointer(&path).and_then(Value::as_object).expect("an object");
            // `lost` is keyed by cause, and causes may be added; `misses` by cache.
            let by_cause =
                ["/lost", "/lost_events"].contains(&path.as_str()) || path.ends_with("/misses");
            let mut more = output.clone();
            more.pointer_mut(&path).expect("it")["surplus"] = "x".into();
            assert!(!violations(&schema, &more).is_empty(), "{name}{path}: surplus");
            for field in object.keys().filter(|field| !by_cause && is_required(name, &path, field))
            {
                let mut less = output.clone();
                let place = less.pointer_mut(&path).and_then(Value::as_object_mut);
                place.expect("an object").remove(field);
                assert!(!violations(&schema, &less).is_empty(), "{name}{path}: no {field}");
            }
        }
        tried.push(name);
    }
    let made = halprof::documents::schemas();
    let mut made: Vec<&str> = made.iter().map(|(name, _)| *name).collect();
    made.sort_unstable();
    tried.sort_unstable();
    assert_eq!(made, tried);
}

/// `cargo xtask documents` writes them.
#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let made = halprof::documents::schemas();
    for (name, schema) in &made {
        assert!(committed(name) == *schema, "{name}: `cargo xtask documents`");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    assert_eq!(folder.read_dir().expect("schemas").count(), made.len());
}

fn branches() -> Value {
    let (_folder, file) = super::branches::recorded(&super::branches::app(), &[]);
    json(&format!("report {file} --by edge"))
}
