//! Is a file read from standard input too, and known by what it has, whatever it is called?

use crate::cli::support::{Ran, command, folder, halprof, json, refused, text, valid};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;

#[test]
fn a_trace_is_one_under_any_name() {
    let (folder, _) = folder();
    let at = |name: &str| folder.path().join(name);
    let trace = at("a.etl");
    json(&format!("--machine skylake,backend=etw record -o {}", text(&trace)));
    let samples = |name: &str| json(&format!("report {}", text(&at(name))))["samples"].clone();
    fs::copy(&trace, at("noext")).expect("copied");
    fs::copy(&trace, at("a.bin")).expect("copied");
    assert!(samples("a.etl").as_u64().is_some_and(|samples| samples > 1000));
    assert_eq!(samples("noext"), samples("a.etl"));
    assert_eq!(samples("a.bin"), samples("a.etl"));
}

#[test]
fn what_is_no_recording_is_said_to_be_what_it_is() {
    let (folder, _) = folder();
    for (bytes, what) in [
        (&b"\x1F\x8B\x08\0\0\0\0\0\0\x03..."[..], "gzip"),
        (b"PERFILE2\x68\0\0\0", "Linux perf"),
        (b"MSCF\0\0\0\0\0\0\0\0", "a cabinet"),
        (b"MZ\x90\0\x03\0\0\0\x04\0\0\0", "a program"),
        (b"\x7FELF\x02\x01\x01\0\0\0\0\0", "a program"),
        (b"{\"schema\": 1}", "JSON"),
        (b"PK\x03\x04\0\0\0\0\0\0\0\0", "archive"),
        (b"time,cpu,process", "not a halprof recording"),
    ] {
        let file = folder.path().join("file");
        fs::write(&file, bytes).expect("written");
        let line = format!("report {}", text(&file));
        refused(&line, 5, "bad-file");
        let ran = halprof(&line);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
}

/// Runs the tool with a file as its standard input.
fn fed(line: &str, file: &Path) -> Ran {
    Ran::of(command(line).stdin(File::open(file).expect("a file")))
}

#[test]
fn what_reads_a_file_reads_standard_input() {
    let (folder, recording) = folder();
    let at = |name: &str| folder.path().join(name);
    let [trace, result] = ["a.etl", "a.json"].map(at);
    json(&format!("--machine skylake record -o {}", text(&recording)));
    json(&format!("--machine skylake,backend=etw record -o {}", text(&trace)));
    let stat = halprof(&format!("--json --machine skylake stat -o {}", text(&result)));
    assert_eq!(stat.status, 0, "{}", stat.stderr);
    let converted = at("b.rec");
    let convert = format!("convert FILE -o {}", text(&converted));
    for (line, file) in [
        ("report FILE --by symbol --csv", &recording),
        ("report FILE --by process", &trace),
        ("report FILE --by thread --csv", &trace),
        ("annotate FILE find --csv", &recording),
        ("script FILE --csv", &recording),
        ("script FILE --jsonl", &trace),
        ("export FILE -f folded -o -", &recording),
        ("timeline FILE", &recording),
        ("--machine skylake stat --diff FILE", &result),
        (convert.as_str(), &trace),
    ] {
        let named = halprof(&line.replace("FILE", text(file)));
        let piped = fed(&line.replace("FILE", "-"), file);
        assert_eq!((named.status, piped.status), (0, 0), "{line}: {}", piped.stderr);
        let shown = |text: &str| text.lines().filter(|line| !line.starts_with("before: ")).count();
        assert_eq!(shown(&piped.stdout), shown(&named.stdout), "{line}");
        if line.ends_with("--csv") {
            assert_eq!(piped.stdout, named.stdout, "{line}");
        }
    }
    let value: Value =
        serde_json::from_str(&fed("--json report -", &recording).stdout).expect("JSON");
    assert_eq!(valid(value)["samples"], json(&format!("report {}", text(&recording)))["samples"]);
}

#[test]
fn standard_input_is_one_file_and_beside_none() {
    let (_folder, file) = folder();
    json(&format!("--machine skylake record -o {}", text(&file)));
    for line in ["report - --diff -", "export - -f html", "report - --open", "annotate - --with -"]
    {
        let ran = fed(line, &file);
        assert_eq!(ran.status, 2, "{line}: {}", ran.stderr);
    }
    let none = fed("report -", Path::new("/dev/null"));
    assert_eq!(none.status, 5, "{}", none.stderr);
}

/// `>` of Windows PowerShell 5 writes UTF-16.
#[test]
fn files_of_text_may_be_in_utf_16() {
    let (folder, _) = folder();
    let written = |name: &str, text: &str| {
        let units = std::iter::once(0xFEFF).chain(text.encode_utf16());
        let file = folder.path().join(name);
        fs::write(&file, units.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).expect("written");
        file
    };
    let metrics = "[quantity]\nx = [\"TotalCycles\"]\n[[metric]]\nid = \"own\"\nname = \"own\"\nformula = \"x\"\n";
    let metrics = written("own.toml", metrics);
    let stat = format!("--machine skylake stat -M own --metric-file {}", text(&metrics));
    assert_eq!(json(&stat)["derived"][0]["metric"], "own");
    let arguments = written("arguments", "stat\r\n-e\r\nTotalCycles\r\n");
    assert!(json(&format!("--machine skylake @{}", text(&arguments)))["counts"].is_array());
}

#[test]
fn times_may_have_units() {
    let (_folder, file) = folder();
    let file = text(&file);
    json(&format!("--machine skylake record -o {file}"));
    let counted = |time: &str| json(&format!("report {file} --time {time}"))["counted"].clone();
    let seconds = counted("0.010-0.0205");
    assert!(seconds.as_u64().is_some_and(|samples| samples > 10));
    for time in ["10ms-20.5ms", "10000us-20500us", "0.010s-20500000ns"] {
        assert_eq!(counted(time), seconds, "{time}");
    }
    for wrong in ["10m-20m", "ms-1", "1.5ns-2", "1-1"] {
        refused(&format!("report {file} --time {wrong}"), 2, "usage");
    }
}

#[test]
fn help_is_where_windows_users_look_for_it() {
    for command in ["stat", "report"] {
        let help = halprof(&format!("{command} --help"));
        for asked in ["/?", "-?"] {
            let ran = halprof(&format!("{command} {asked}"));
            assert_eq!((ran.status, &ran.stdout), (0, &help.stdout), "{command} {asked}");
        }
        let narrow = halprof(&format!("{command} --help --width 60")).stdout;
        assert_eq!(halprof(&format!("help {command} --width 60")).stdout, narrow);
        assert_eq!(halprof(&format!("help {command} --width=60")).stdout, narrow);
    }
}
