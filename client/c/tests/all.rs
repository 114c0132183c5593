//! The header, and the programs of the README, built and run as the README says.

use criterion::Throughput;
use criterion::measurement::ValueFormatter;
use halprof_measure::marks::{Buffer, Cause, Mark};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

#[expect(dead_code, reason = "the test calls what the example's main calls")]
#[path = "../examples/criterion.rs"]
mod criterion_example;

#[expect(dead_code, reason = "the test calls what the example's main calls")]
#[path = "../../measure/examples/regions.rs"]
mod regions_example;

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// The header as cbindgen generates it; `HALPROF_HEADER=write` writes it.
#[test]
fn the_header_is_current() {
    let config = cbindgen::Config::from_file(format!("{PACKAGE}/cbindgen.toml"));
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_config(config.expect("cbindgen.toml"))
        .with_src(Path::new(PACKAGE).join("src/lib.rs"))
        .generate()
        .expect("a header")
        .write(&mut made);
    let path = Path::new(PACKAGE).join("include/halprof.h");
    if std::env::var_os("HALPROF_HEADER").is_some_and(|value| value == "write") {
        std::fs::write(&path, &made).expect("written");
    }
    let kept = std::fs::read(&path).expect("the header");
    assert!(kept == made, "halprof.h is old: HALPROF_HEADER=write writes it");
}

#[test]
fn the_c_program_counts_regions_as_the_readme_says() {
    let Some(output) = as_the_readme_says("gcc", "") else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with(
            "outer: 20 passages, median 1300 TotalIssues:u\nmodelled machine, not silicon\n"
        ),
        "{text}"
    );
    assert!(text.contains("\nrule: ") && text.contains("\ninner "), "{text}");
}

#[test]
fn the_python_script_counts_a_region_as_the_readme_says() {
    let Some(output) = as_the_readme_says("python3", "") else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("modelled machine, not silicon, counts: processors\n"), "{text}");
    assert!(text.contains("\nsum: 20 passages, median 5000 TotalIssues:u\n"), "{text}");
}

/// The same counts, by the context switches that Windows' tracing would deliver.
#[test]
fn both_programs_count_regions_without_the_driver() {
    if let Some(output) = as_the_readme_says("gcc", TRACED) {
        let text = String::from_utf8_lossy(&output.stdout);
        let first = "outer: 20 passages, median 1300 TotalIssues\nmodelled machine, not silicon\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("context switches of Windows' own tracing"), "{text}");
        assert!(text.contains("\nnote: the counts include the kernel's work"), "{text}");
        assert!(text.contains("\n(empty region) "), "{text}");
    }
    if let Some(output) = as_the_readme_says("python3", TRACED) {
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("modelled machine, not silicon, counts: tracing\n"), "{text}");
        assert!(text.contains("\nsum: 20 passages, median 5000 TotalIssues\n"), "{text}");
    }
}

/// The Rust example has two threads, whose regions are counted apart.
#[test]
fn the_rust_example_counts_regions_without_the_driver() {
    let text = regions_example::count(Some(TRACED)).expect("counted");
    for (region, source, median) in
        [("outer", "TotalIssues", "12000"), ("inner", "BranchInstructions", "500")]
    {
        let of = |line: &&str| line.starts_with(region) && line.contains(source);
        let rows: Vec<&str> = text.lines().filter(of).collect();
        assert_eq!(rows.len(), 2, "one for each thread: {text}");
        for row in rows {
            assert!(row.split_whitespace().any(|word| word == median), "{row}");
        }
    }
    assert!(text.contains("context switches of Windows' own tracing"), "{text}");
    assert!(!text.contains("warning") && !text.contains("not counted"), "{text}");
}

/// A program may unload the library while the library still counts.
#[test]
fn a_library_that_is_unloaded_while_it_counts_leaves_the_program_alone() {
    let Some((_scratch, program)) = built("tests/unload.c") else { return };
    let library = libraries().join("libhalprof_c.so");
    let output = Command::new(&program).arg(library).output().expect("it runs");
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(text, ["done\n", ""]);
    assert!(output.status.success());
}

/// A program, linked with the library.
fn built(source: &str) -> Option<(TempDir, PathBuf)> {
    if !present("gcc") {
        return None;
    }
    let folder = libraries().display().to_string();
    let scratch = tempfile::tempdir().expect("a folder");
    let program = scratch.path().join("program");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(format!("-I{PACKAGE}/include"))
        .arg(format!("{PACKAGE}/{source}"))
        .args([
            &format!("-L{folder}"),
            "-lhalprof_c",
            &format!("-Wl,-rpath,{folder}"),
            "-ldl",
            "-o",
        ])
        .arg(&program);
    assert!(gcc.status().expect("gcc").success());
    Some((scratch, program))
}

#[test]
fn the_interface_keeps_its_promises() {
    let Some((_scratch, program)) = built("tests/abi.c") else { return };
    let output = Command::new(&program).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}

/// A C++ program that opens the library when it runs, as users of lemire's `counters` do.
#[test]
fn the_backend_for_counters_fills_its_five_slots() {
    if !present("g++") {
        return;
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let program = scratch.path().join("program");
    let built = Command::new("g++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(["-include", "cstdlib", "-DCOUNTERS_HALPROF_MACHINE=std::getenv(\"MACHINE\")"])
        .args([format!("-I{PACKAGE}/examples"), format!("{PACKAGE}/tests/counters/test.cpp")])
        .args(["-ldl", "-o"])
        .arg(&program)
        .status();
    assert!(built.expect("g++").success());
    let nowhere = scratch.path().to_owned();
    // A Core 2 has two counters for these, and a K8 four and no last-level cache.
    for (machine, events, folder) in [
        ("skylake", 5, libraries()),
        ("k8", 4, libraries()),
        ("core2", 2, libraries()),
        ("skylake", 0, nowhere),
    ] {
        let output = Command::new(&program)
            .arg(events.to_string())
            .envs([("MACHINE", machine.as_ref()), ("LD_LIBRARY_PATH", folder.as_os_str())])
            .output();
        let output = output.expect("it runs");
        let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert_eq!(text, ["done\n", ""], "{machine} {events}");
    }
}

#[test]
fn google_benchmark_shows_what_each_iteration_counts() {
    if !Path::new("/usr/include/benchmark/benchmark.h").is_file() {
        let required = std::env::var_os("HALPROF_REQUIRE_TOOLS").is_some_and(|one| one == "1");
        assert!(!required, "libbenchmark-dev is absent: `cargo xtask setup` installs it");
        println!("skipped: libbenchmark-dev is absent");
        return;
    }
    let Some(output) = as_the_readme_says("g++", "--benchmark_format=json") else { return };
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = &shown["benchmarks"][0];
    // Each iteration runs a workload of 2000 cycles and 5000 instructions.
    assert_eq!(
        (&row["name"], &row["label"]),
        (&"sum".into(), &"modelled machine, not silicon".into())
    );
    assert_eq!(["cycles", "instructions", "ipc"].map(|one| &row[one]), [2000.0, 5000.0, 2.5]);
    // A batch is one region, and the cost of its two ends is subtracted.
    let traced = [("HALPROF_MACHINE", TRACED)];
    let Some(output) = ran("g++", "--benchmark_format=json", &traced) else { return };
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = &shown["benchmarks"][0];
    assert_eq!(row["label"], "modelled machine, not silicon; by context switches");
    assert_eq!(["cycles", "instructions", "ipc"].map(|one| &row[one]), [2000.0, 5000.0, 2.5]);
}

#[test]
fn criterion_measures_instructions_beside_time() {
    let folder = tempfile::tempdir().expect("a folder");
    for machine in [None, Some(TRACED)] {
        let folder = folder.path().join(machine.unwrap_or("driver"));
        let quick = || {
            let short = Duration::from_millis(20);
            let criterion = criterion::Criterion::default().output_directory(&folder);
            criterion.without_plots().sample_size(10).warm_up_time(short).measurement_time(short)
        };
        criterion_example::bench(machine, &quick).expect("it counts");
        let estimate = |group: &str| {
            let path = folder.join(group).join("sum/new/estimates.json");
            let text = std::fs::read_to_string(path).expect("estimates");
            let estimates: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            estimates["mean"]["point_estimate"].as_f64()
        };
        // The workload of each iteration has 5000 instructions.
        assert_eq!(estimate("instructions"), Some(5000.0), "{machine:?}");
        assert!(estimate("time").is_some_and(|nanoseconds| nanoseconds > 0.0));
    }
    let event = criterion_example::Event::open(None, "instructions:u").expect("it counts");
    let mut values = [5000.0];
    let unit = event.scale_throughputs(5000.0, &Throughput::Bytes(4), &mut values);
    assert_eq!(
        (unit, values, event.format_value(5.0).trim()),
        ("instructions:u/byte", [1250.0], "5.0000 instructions:u")
    );
}

/// Runs a program with a recorder, which drains in the meantime.
fn marked(program: &mut Command) -> (Vec<Mark>, Buffer, i32) {
    let mut buffer = Buffer::create().expect("a buffer");
    let (name, value) = buffer.environment();
    let mut child = program.env(name, value).spawn().expect("it starts");
    let mut marks = Vec::new();
    let status = loop {
        let ended = child.try_wait().expect("a status");
        buffer.drain(&mut marks);
        if let Some(status) = ended {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    marks.sort_by_key(|mark| mark.time);
    assert_eq!((buffer.damaged(), buffer.dropped(Cause::Full)), (0, 0));
    (marks, buffer, status.code().unwrap_or(-1))
}

/// The values of each thread on a channel, in order of time.
fn values(marks: &[Mark], buffer: &Buffer, name: &str) -> Vec<Vec<u64>> {
    let mut values: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    let on = |mark: &&Mark| buffer.names()[mark.channel as usize] == name;
    for mark in marks.iter().filter(on) {
        values.entry((mark.process, mark.thread)).or_default().push(mark.value);
    }
    values.into_values().collect()
}

#[test]
fn threads_forks_and_programs_that_are_started_lose_no_mark() {
    let Some((_scratch, program)) = built("tests/marks.c") else { return };
    let (marks, buffer, status) = marked(&mut Command::new(&program));
    assert_eq!(status, 0);
    let upto = |count: u64| (0..count).collect::<Vec<u64>>();
    assert_eq!(values(&marks, &buffer, "thread"), vec![upto(250_000); 4]);
    assert_eq!(values(&marks, &buffer, "forked"), vec![upto(1000); 2]);
    assert_eq!(values(&marks, &buffer, "started"), vec![upto(1000)]);
    assert_eq!(marks.len(), 1_003_000);
    // The program that was started attached for itself; a fork uses its parent's attachment.
    assert_eq!(buffer.attached(), 2);
    let cost = buffer.cost().expect("a cost");
    assert!(cost.min_ticks > 0 && cost.median_ticks < 1_000_000, "{cost:?}");
}

#[test]
fn what_a_killed_program_marked_is_there() {
    let Some((_scratch, program)) = built("tests/marks.c") else { return };
    let (marks, buffer, status) = marked(Command::new(&program).arg("killed"));
    assert_eq!(status, -1);
    assert_eq!(values(&marks, &buffer, "killed"), [(0..1000).collect::<Vec<u64>>()]);
}

#[test]
fn without_a_recorder_a_program_marks_nothing_and_works() {
    let Some((_scratch, program)) = built("tests/marks.c") else { return };
    for buffer in [None, Some("3:0"), Some("no:buffer"), Some("0:1")] {
        let mut command = Command::new(&program);
        let command = buffer
            .into_iter()
            .fold(&mut command, |command, value| command.env("HALPROF_MARKS", value));
        assert!(command.arg("alone").status().expect("it runs").success(), "{buffer:?}");
    }
}

#[test]
fn the_examples_mark() {
    let Some((_scratch, program)) = built("examples/marks.c") else { return };
    let mut python = Command::new("python3");
    python.arg(format!("{PACKAGE}/examples/marks.py")).arg(libraries());
    let mut programs = vec![Command::new(&program)];
    programs.extend(present("python3").then_some(python));
    for program in &mut programs {
        let (marks, buffer, status) = marked(program);
        assert_eq!((marks.len(), status), (2000, 0), "{program:?}");
        assert_eq!(buffer.names(), ["begin", "end"]);
        let turns = marks.chunks(2).map(|pair| (pair[0].channel, pair[1].channel));
        assert!(turns.into_iter().all(|turn| turn == (0, 1)));
    }
}

fn present(program: &str) -> bool {
    let present = Command::new(program).arg("--version").output().is_ok();
    if !present {
        println!("skipped: {program} is absent");
    }
    present
}

/// A model that is measured as if there were no driver.
const TRACED: &str = "skylake,backend=etw";

/// Runs the second of the README's two lines for this program, with the library that this test was
/// compiled with; the first line builds the program.
fn as_the_readme_says(program: &str, arguments: &str) -> Option<Output> {
    ran(program, arguments, &[])
}

/// Does the same with these environment variables.
fn ran(program: &str, arguments: &str, variables: &[(&str, &str)]) -> Option<Output> {
    if !present(program) {
        return None;
    }
    let readme = std::fs::read_to_string(Path::new(PACKAGE).join("README.md")).expect("README");
    let lines: Vec<&str> = readme.lines().map(str::trim).collect();
    let place = lines.iter().position(|line| line.starts_with(program)).expect("its line");
    assert_eq!(lines[place - 1], "cargo build --release -p halprof-c --features models");
    let folder = libraries();
    let scratch = tempfile::tempdir().expect("a folder");
    let made = scratch.path().join("made").display().to_string();
    let line = lines[place]
        .replace("$PWD/target/release", &folder.display().to_string())
        .replace("target/release", &folder.display().to_string())
        .replace("target/region", &made)
        .replace("target/benchmark", &made);
    let line = format!("{line} {arguments}");
    let output = Command::new("sh")
        .args(["-c", &line])
        .envs(variables.iter().copied())
        .current_dir(Path::new(PACKAGE).join("../.."))
        .output()
        .expect("a shell");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    Some(output)
}

/// Where cargo has put the library: beside this test, or in the folder above.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let places = test.ancestors().skip(1).take(2);
    let mut places = places.filter(|place| place.join("libhalprof_c.so").is_file());
    places.next().expect("libhalprof_c.so").to_owned()
}

/// The same program for Windows, with the DLLs of `cargo xtask exe`.
#[cfg(unix)]
mod wine {
    use super::{PACKAGE, present};
    use std::path::{Path, PathBuf};
    use std::process::Command;

    const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/exe/halprof_c.dll");
    const WITH_MODELS: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/exe/models/halprof_c.dll");

    #[test]
    fn the_c_program_counts_regions_under_wine() {
        let gcc = "x86_64-w64-mingw32-gcc";
        let places = ["/usr/lib/wine", "/usr/bin"].map(|place| Path::new(place).join("wine64"));
        let wine: Option<PathBuf> = places.into_iter().find(|place| place.is_file());
        let (Some(wine), true, true) = (wine, Path::new(WITH_MODELS).is_file(), present(gcc))
        else {
            let required = std::env::var_os("HALPROF_REQUIRE_DRIVER").is_some_and(|one| one == "1");
            assert!(!required, "wine64, {gcc} or {WITH_MODELS} is absent");
            println!("skipped: wine64, {gcc} or {WITH_MODELS} is absent");
            return;
        };
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(WITH_MODELS, folder.path().join("halprof_c.dll")).expect("the library");
        let built = Command::new(gcc)
            .args(["-Wall", "-Werror", "-D__USE_MINGW_ANSI_STDIO=1", "-o"])
            .arg(folder.path().join("region.exe"))
            .arg(format!("-I{PACKAGE}/include"))
            .args([format!("{PACKAGE}/examples/region.c"), WITH_MODELS.to_owned()])
            .status();
        assert!(built.expect("gcc").success());
        // Wine 8 lacks it, but Rust's standard library imports it.
        let stand_in = Command::new(gcc)
            .args(["-Wall", "-Werror", "-shared", "-o"])
            .arg(folder.path().join("bcryptprimitives.dll"))
            .arg(format!("{PACKAGE}/../tool/tests/wine/bcryptprimitives.c"))
            .status();
        assert!(stand_in.expect("gcc").success());
        let run = || {
            let mut region = Command::new(&wine);
            region.args(["region.exe", "skylake"]).current_dir(folder.path());
            region.env("WINEPREFIX", folder.path().join("wine"));
            region.env("WINEDLLOVERRIDES", "mscoree=;mshtml=").output().expect("Wine runs")
        };
        let output = run();
        let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        let first = "outer: 20 passages, median 1300 TotalIssues:u\n";
        assert!(
            text.starts_with(first) && text.contains("\nmodelled machine"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        std::fs::copy(SHIPPED, folder.path().join("halprof_c.dll")).expect("the library");
        let refusal = String::from_utf8_lossy(&run().stderr).into_owned();
        assert!(refusal.contains("built without modelled ones"), "{refusal}");
    }
}
