//! Does every schema catch missing and extra fields, wherever an object occurs?

use crate::cli::support::{committed, halprof, json, schema, violations};
use halprof_setup::installation::{Installed, Removed, Switched};
use serde_json::Value;
use std::path::Path;

/// One real output for each schema, with an element in every list.
fn outputs() -> Vec<(&'static str, Value)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    let file = path.to_str().expect("UTF-8");
    let hybrid = ["--machine", "hybrid"];
    let on_hybrid = |arguments: &[&str]| json(&[&hybrid, arguments].concat());
    let stat = [
        "stat",
        "-e",
        "TotalIssues",
        "TotalCycles",
        "ProfileTime",
        "{LLCMisses,LLCReference}",
        "-M",
        "ipc",
        "--topdown",
        "-I",
        "1",
        "-r",
        "2",
        "--passes",
        "--per-core-type",
        "--workload",
        "cycles=3000000,instructions=3000000",
    ];
    let record = [
        "record",
        "-e",
        "TotalIssues:100000:u",
        "-o",
        file,
        "--workload",
        "cycles=3000000,instructions=3000000",
    ];
    let mut outputs = vec![
        ("machines", json(&["machines"])),
        ("info", on_hybrid(&["info"])),
        ("list", on_hybrid(&["list", "--all"])),
        ("check", on_hybrid(&["check"])),
        ("registers", on_hybrid(&["registers"])),
        ("rdpmc", on_hybrid(&["rdpmc", "--", "true"])),
        ("doctor", on_hybrid(&["doctor"])),
        ("explain", on_hybrid(&["explain", "TotalIssues"])),
        ("completions", json(&["completions", "bash"])),
        ("stat", on_hybrid(&stat)),
        ("stat-interval", line("stat-interval", &[&hybrid[..], &stat, &["--jsonl"]].concat())),
        ("metrics", on_hybrid(&["list", "--metrics"])),
        ("record", on_hybrid(&record)),
        ("report", json(&["report", file])),
        ("script", line("script", &["script", file, "--jsonl"])),
        ("diff", json(&["report", file, "--diff", file])),
        ("branches", branches()),
        ("export", json(&["export", file, "--format", "firefox", "-o", &format!("{file}.json")])),
        ("error", halprof(&["--json", "stat", "-e", "Nonsense"]).json()),
        ("timeline", timeline(&path)),
        ("regions", regions()),
        ("install", installed()),
        ("start", switched("start")),
        ("stop", switched("stop")),
        ("uninstall", removed()),
    ];
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    outputs.push(("simulate", crate::cli::simulate::Stepped::new().json("turns", "turns")));
    if let Some(annotated) = annotated(file) {
        outputs.push(("annotate", annotated));
    }
    outputs
}

/// Everything that can be asked about marks.
fn timeline(path: &Path) -> Value {
    crate::cli::timeline::recording(path);
    let file = path.to_str().expect("UTF-8");
    let asked = ["--ticks", "1us", "--between", "begin,end"];
    json(&[&["timeline", file], &asked[..]].concat())
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
    let value = serde_json::to_value(regions.report()).expect("JSON");
    assert_eq!(value["schema"], "halprof/regions/2");
    let errors = violations(&schema("regions"), &value);
    assert!(errors.is_empty(), "{errors:?}");
    value
}

/// The annotated code of a real program; `None` if there is no compiler.
fn annotated(file: &str) -> Option<Value> {
    let built = crate::cli::binaries::elf()?;
    let workload = format!("instructions=3000000,image={}", built.path());
    json(&["record", "-e", "TotalIssues:100000", "-o", file, "--workload", &workload]);
    Some(json(&["annotate", file]))
}

/// The first line of a stream.
fn line(name: &str, arguments: &[&str]) -> Value {
    let ran = halprof(arguments);
    let line = ran.stdout.lines().next().expect("a line");
    let value = serde_json::from_str(line).expect("JSON");
    let errors = violations(&schema(name), &value);
    assert!(errors.is_empty(), "{errors:?}");
    value
}

/// The results of commands that only Windows supports, as the tool prints them.
fn installed() -> Value {
    let installed = Installed {
        device: r"ROOT\HALPROF\0000".to_owned(),
        package: Some("oem12.inf".to_owned()),
        created: true,
        restart: false,
    };
    printed("install", serde_json::to_value(installed))
}

fn switched(command: &str) -> Value {
    let switched =
        Switched { devices: vec![r"ROOT\HALPROF\0000".to_owned()], changed: true, restart: false };
    printed(command, serde_json::to_value(switched))
}

fn removed() -> Value {
    let removed = Removed {
        devices: vec![r"ROOT\HALPROF\0000".to_owned()],
        packages: vec!["oem12.inf".to_owned()],
        service: true,
        restart: false,
    };
    printed("uninstall", serde_json::to_value(removed))
}

fn printed(command: &str, body: serde_json::Result<Value>) -> Value {
    let mut value = body.expect("JSON");
    value["schema"] = format!("halprof/{command}/2").into();
    value["modelled"] = false.into();
    let errors = violations(&schema(command), &value);
    assert!(errors.is_empty(), "{command}: {errors:?}");
    value
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
const OPTIONAL: &[(&str, &[&str])] = &[
    (
        "stat",
        &[
            "periods",
            "passes",
            "topdown",
            "jitter",
            "intervals",
            "runs",
            "elapsed_repeats",
            "repeats",
            "deviation",
            "excluded_cpus",
            "core_type",
            "group",
            "pass",
            "run",
        ],
    ),
    ("stat-interval", &["core_type", "group", "excluded_cpus", "run", "pass", "topdown"]),
];

fn is_optional(schema: &str, field: &str) -> bool {
    let mut rows = OPTIONAL.iter();
    rows.any(|(name, fields)| *name == schema && fields.contains(&field))
}

/// The rows of tables have the fields of the keys that were requested.
fn is_key(path: &str, field: &str) -> bool {
    const FIELDS: [&str; 13] = [
        "machine",
        "source",
        "process",
        "process_name",
        "thread",
        "processor",
        "core",
        "module",
        "symbol",
        "file",
        "line",
        "address",
        "offset",
    ];
    (path.contains("/rows/") || path.starts_with("/by_")) && FIELDS.contains(&field)
}

#[test]
fn what_is_missing_and_what_is_too_much_is_caught() {
    for (name, output) in outputs() {
        let schema = schema(name);
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
            for field in object
                .keys()
                .filter(|field| !by_cause && !is_optional(name, field) && !is_key(&path, field))
            {
                let mut less = output.clone();
                let place = less.pointer_mut(&path).and_then(Value::as_object_mut);
                place.expect("an object").remove(field);
                assert!(!violations(&schema, &less).is_empty(), "{name}{path}: no {field}");
            }
        }
    }
}

#[test]
fn what_is_of_another_type_is_caught() {
    for (name, output) in outputs() {
        let schema = schema(name);
        for field in output.as_object().expect("an object").keys() {
            let mut other = output.clone();
            other[field] = Value::Array(vec![Value::Null]);
            assert!(!violations(&schema, &other).is_empty(), "{name}: {field}");
        }
    }
}

/// `cargo xtask documents` writes them.
#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let made = halprof::output::documents::schemas();
    for (name, schema) in &made {
        assert!(committed(name) == *schema, "{name}: `cargo xtask documents`");
    }
}

/// Validating objects against a schema must not fail on a field that a later release adds.
#[test]
fn schemas_are_open() {
    for (name, output) in outputs() {
        let mut more = output;
        more["later"] = "x".into();
        assert_eq!(violations(&committed(name), &more), [""; 0], "{name}");
    }
}

fn branches() -> Value {
    let (_folder, file) = super::branches::recorded(&super::branches::app(), &[]);
    json(&["report", &file, "--by", "edge"])
}

#[test]
fn every_schema_is_tried() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let files = std::fs::read_dir(folder).expect("schemas");
    let mut files: Vec<String> = files
        .map(|file| file.expect("a file").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    let mut tried: Vec<&str> = outputs().into_iter().map(|(name, _)| name).collect();
    files.sort_unstable();
    tried.sort_unstable();
    assert_eq!(files, tried);
}
