//! Do branch records become counts that match the exact execution, and a profile that a compiler
//! uses for its layout?
//!
//! The program is a file built with clang and lld, of Windows' format or Linux'; the engine executes
//! it, and every instruction is known. Other tools read the records, with the commands of docs/pgo.md.
//! The driver records the branches; a trace of Windows' own tracing then has the same branches, and must
//! lead to the same counts.
#![expect(clippy::cast_precision_loss, reason = "shares need few digits")]

use halprof_measure::ModelledMachine;
use halprof_tests::branch_trace;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use nt_model::programs::{CODE, Program};
use nt_model::transport::{Broken, DriverTransport, Guest};
use serde_json::Value;
use sim::load::workload::Workload;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const SYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/driver/halprof-historic.sys");
const SOURCE: &str = include_str!("pgo/paths.c");
const DOCUMENT: &str = include_str!("../../../docs/pgo.md");
/// The newest LLVM that Debian 12 has.
const LLVM: &str = "22";
/// The ways from records to a profile: the document's headings.
const WAYS: [&str; 2] = ["clang, by probes", "clang, by lines"];
/// The probabilities of the source's random decisions: 15 of 16, and 3 of 4.
const COMMON: f64 = 15.0 / 16.0;
const PLAIN: f64 = 3.0 / 4.0;
/// The recording of the document's commands, and a trace of the same branches.
const RECORDING: &str = "app.rec";
const TRACE: &str = "app.etl";
/// One machine for each kind of branch records.
const MACHINES: [&str; 3] =
    ["skylake,processors=1", "sapphire-rapids,processors=1", "zen4,processors=1"];

/// A folder in which the document's commands run, with the program's source.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("app.c"), SOURCE).expect("written");
    folder
}

/// The document's commands below a heading that begin with `start`.
fn commands(heading: &str, start: &str) -> Vec<&'static str> {
    let sections = DOCUMENT.split("\n## ");
    let mut section = sections.filter(|section| section.lines().next() == Some(heading));
    let section = section.next().unwrap_or_else(|| panic!("no heading {heading}"));
    let lines = section.lines().filter_map(|line| line.strip_prefix("    "));
    let found: Vec<&str> = lines.filter(|line| line.starts_with(start)).collect();
    assert!(!found.is_empty(), "no command of {heading} begins with {start}");
    found
}

/// For which system the program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pe,
    Elf,
}

impl Format {
    /// What the engine's program needs: no library, its code where the engine runs it, and its loop
    /// as it is written.
    fn options(self) -> &'static str {
        match self {
            Self::Pe => {
                "--target=x86_64-pc-windows-msvc -nostdlib -fno-unroll-loops -Wl,/entry:start \
                 -Wl,/subsystem:console -Wl,/fixed"
            }
            // One segment of headers and code: llvm-profgen's offsets are from the code's segment.
            Self::Elf => {
                "--target=x86_64-linux-gnu -nostdlib -fno-unroll-loops -static -Wl,-e,start \
                 -Wl,--image-base=0x140000000 -Wl,-Ttext=0x140001000 -Wl,--no-rosegment"
            }
        }
    }
}

/// Runs one of the document's commands with Debian's names, for a program without a system.
fn run(command: &str, format: Format, folder: &Path) -> Output {
    let mut words = command.split(' ');
    let mut ran = match words.next().expect("a program") {
        "clang" => {
            let mut clang = Command::new(format!("clang-{LLVM}"));
            clang.args(format.options().split_whitespace());
            clang
        }
        "llvm-profgen" => Command::new(format!("llvm-profgen-{LLVM}")),
        "nt-model" | "halprof" => Command::new(env!("CARGO_BIN_EXE_nt-model")),
        other => panic!("{other} does not run here"),
    };
    // The linker of Linux writes DWARF anyway.
    let words = words.filter(|word| format == Format::Pe || *word != "-Wl,/debug:dwarf");
    let output = ran.args(words).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{command}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {told}");
    output
}

/// What a program really did.
struct Exact {
    code: BTreeMap<u64, Instruction>,
    /// The addresses of its instructions in the order of execution.
    executed: Vec<u64>,
}

impl Exact {
    /// Executes a program.
    fn of(file: &Path) -> Self {
        let program = Program::read(file).expect("a program");
        let guest = Guest { program, rounds: 1, skid: 0 };
        let sys = std::fs::read(SYS).expect("cargo xtask sys");
        let leaves = halprof_measure::spec("skylake,processors=1").expect("a machine").leaves;
        let transport = DriverTransport::open(&sys, &leaves, 1, Some(guest), &Broken::default());
        let mut transport = transport.expect("a device");
        transport.device.machine.engine.bus().steps = Some(Vec::new());
        transport.begin(&Workload::default());
        while transport.advance(1 << 40).expect("no rule is broken") {}
        let steps = transport.device.machine.engine.bus().steps.take().expect("steps");
        let executed = steps.iter().filter(|step| step.ring == 3).map(|step| step.address);
        let code = program.code(1);
        let decoder = Decoder::with_ip(64, &code, CODE.0, DecoderOptions::NONE);
        Self {
            code: decoder.into_iter().map(|one| (one.ip(), one)).collect(),
            executed: executed.collect(),
        }
    }

    /// How often each instruction was executed.
    fn counts(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for &address in &self.executed {
            *counts.entry(address).or_default() += 1;
        }
        counts
    }

    /// The taken branches, in order.
    fn taken(&self) -> Vec<(u64, u64)> {
        let pairs = self.executed.windows(2);
        let taken = pairs.filter(|pair| self.code[&pair[0]].next_ip() != pair[1]);
        taken.map(|pair| (pair[0], pair[1])).collect()
    }
}

/// The document's program, built in a folder, and what it did.
fn built(way: &str, format: Format) -> (TempDir, Exact) {
    let folder = folder();
    run(commands(way, "clang")[0], format, folder.path());
    let exact = Exact::of(&folder.path().join("app.exe"));
    (folder, exact)
}

/// Records it with the document's command, on a machine that runs the driver, and writes a trace of the
/// same branches; the program is short, and so it gets a period that is short too.
fn record(machine: &str, folder: &Path) {
    const PERIOD: u32 = 1009;
    let period = format!(":{PERIOD}:u");
    let command = commands("Record", "halprof record")[0].replace(":u", &period);
    let own = command.strip_prefix("halprof ").and_then(|rest| rest.strip_suffix(" -- app.exe"));
    let own = own.expect("a command");
    let command = format!("nt-model --sys {SYS} --guest app.exe --machine {machine} {own}");
    run(&command, Format::Pe, folder);
    branch_trace::of_recording(&folder.join(RECORDING), &folder.join(TRACE), PERIOD);
}

/// Five standard deviations of a share that was estimated from this many draws.
fn error(part: f64, draws: u64) -> f64 {
    5.0 * (part * (1.0 - part) / draws as f64).sqrt()
}

#[test]
fn executions_of_each_instruction_are_the_exact_ones() {
    let (folder, exact) = built(WAYS[1], Format::Pe);
    for machine in MACHINES {
        record(machine, folder.path());
        for file in [RECORDING, TRACE] {
            assert_executions(machine, &exact, folder.path(), file);
        }
    }
}

fn assert_executions(machine: &str, exact: &Exact, folder: &Path, file: &str) {
    let counts = exact.counts();
    let command = format!("halprof --quiet --json annotate {file} start --symbol-path .");
    let shown = run(&command, Format::Pe, folder);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let rows = shown["instructions"].as_array().expect("instructions");
    let number = |row: &Value, field: &str| row[field][0].as_u64().expect("a number");
    let address = |row: &Value| {
        let text = row["address"].as_str().expect("an address");
        u64::from_str_radix(&text[2..], 16).expect("hexadecimal")
    };
    // The loop's head: all counts are relative to it.
    let head = |row: &&Value| row["text"].as_str().is_some_and(|text| text.starts_with("imul"));
    let head = rows.iter().find(head).expect("the draw");
    let (rounds, seen) = (counts[&address(head)], number(head, "executed"));
    assert!(seen > 300, "{machine}: {seen} rounds were seen");
    let samples = shown["sources"][0]["branched_samples"].as_u64();
    let samples = samples.expect("a number");
    let mut conditional = 0;
    for row in rows {
        let once = counts.get(&address(row)).copied().unwrap_or(0);
        let part = once as f64 / rounds as f64;
        let executed = number(row, "executed") as f64 / seen as f64;
        // Samples come after branches, taken or not, so windows end more often after some of them.
        let ends = samples as f64 / seen as f64 / 4.0;
        let bound = error(part, seen) + ends;
        assert!((executed - part).abs() <= bound, "{row}: {executed}, exactly {part}");
        let share = &row["taken_share"][0];
        if !share.is_null() && once > 1000 {
            conditional += 1;
            let taken = exact.taken();
            let taken = taken.iter().filter(|(from, _)| *from == address(row)).count();
            let exactly = taken as f64 / once as f64;
            let [value, low, high] =
                ["value", "low", "high"].map(|name| share[name].as_f64().expect("a number"));
            let bound = 2.0 * (high - value).max(value - low);
            assert!((value - exactly).abs() <= bound, "{row}: exactly {exactly}");
        }
    }
    assert!(conditional >= 4, "{machine}: {shown}");
    assert_eq!(shown["warnings"], serde_json::json!([]));
}

/// The own counts of `start` from a profile in text form, by the name of each place: a line and a
/// discriminator, or a probe.
fn counts_of(profile: &str) -> BTreeMap<String, u64> {
    let mut lines = profile.lines().skip_while(|line| !line.starts_with("start:"));
    lines.next().expect("the function is in the profile");
    let own = lines.take_while(|line| line.starts_with(' '));
    let own =
        own.filter(|line| !line.starts_with("  ")).filter_map(|line| line.trim().split_once(": "));
    own.filter_map(|(place, count)| {
        Some((place.to_owned(), count.split(' ').next()?.parse().ok()?))
    })
    .collect()
}

/// The line of the source that contains this, relative to the first of `start`.
fn line(part: &str) -> u64 {
    let at = |part: &str| SOURCE.lines().position(|line| line.contains(part)).expect("a line");
    (at(part) - at("int start(void)")) as u64
}

/// A profile by lines has the source's probabilities.
fn assert_lines(profile: &str) {
    let mut counts = BTreeMap::new();
    for (place, count) in counts_of(profile) {
        let line: u64 = place.split('.').next().and_then(|line| line.parse().ok()).expect("a line");
        *counts.entry(line).or_insert(0) += count;
    }
    let of = |part: &str| counts.get(&line(part)).copied().unwrap_or(0);
    for (likely, other, exactly) in
        [("sum = common(", "sum += rare(draw)", COMMON), ("sum += draw;", "(sum >> 5);", PLAIN)]
    {
        let (likely, other) = (of(likely), of(other));
        let share = likely as f64 / (likely + other) as f64;
        let bound = error(exactly, likely + other);
        assert!((share - exactly).abs() <= bound, "{share}, exactly {exactly}: {profile}");
    }
    let hottest = counts.values().copied().max();
    assert!(of("sum = common(") * 10 > hottest.expect("lines") * 9, "{profile}");
}

/// A profile by probes has them in the functions' entries, and the checksum by which the compiler
/// knows a function again. The rare function is called twice in a round.
fn assert_probes(profile: &str) {
    let entries = |function: &str| -> u64 {
        let mut heads = profile.lines().filter(|line| !line.starts_with(' '));
        let head = heads.find(|line| line.contains(function)).expect("a function");
        head.rsplit(':').next().and_then(|count| count.parse().ok()).expect("a count")
    };
    let (common, rare) = (entries("common"), entries("rare") / 2);
    let share = common as f64 / (common + rare) as f64;
    assert!((share - COMMON).abs() <= error(COMMON, common + rare), "{share}: {profile}");
    assert!(profile.contains("!CFGChecksum:"), "{profile}");
}

#[test]
fn a_profile_is_that_of_the_execution_and_lays_the_hot_path_out_first() {
    let version = Command::new(format!("clang-{LLVM}")).arg("--version").output().expect("clang");
    println!("{}", String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default());
    for (way, format) in [
        (WAYS[0], Format::Pe),
        (WAYS[0], Format::Elf),
        (WAYS[1], Format::Pe),
        (WAYS[1], Format::Elf),
    ] {
        println!("{way}, {format:?}");
        assert_way(way, format);
    }
}

fn assert_way(way: &str, format: Format) {
    let (folder, before) = built(way, format);
    let path = folder.path();
    record(MACHINES[0], path);
    let export = commands("Record", "halprof export")[0];
    let exported = [RECORDING, TRACE].map(|file| {
        run(&export.replace(RECORDING, file), format, path);
        std::fs::read_to_string(path.join("app.counts.txt")).expect("counts")
    });
    assert!(exported[0].lines().count() > 10, "{}", exported[0]);
    assert_eq!(exported[0], exported[1]);
    // The profile is made of the trace's counts.
    run(commands(way, "llvm-profgen")[0], format, path);
    let profile = std::fs::read_to_string(path.join("app.prof")).expect("a profile");
    assert!(profile.contains("common") && profile.contains("rare"), "{profile}");
    if way == WAYS[0] {
        assert_probes(&profile);
    } else {
        assert_lines(&profile);
    }

    run(commands(way, "clang")[1], format, path);
    let after = Exact::of(&path.join("app.exe"));
    let calls = |exact: &Exact| -> Vec<u64> {
        let calls = exact.code.values().filter(|one| one.flow_control() == FlowControl::Call);
        calls.map(Instruction::near_branch_target).collect()
    };
    let rounds = |exact: &Exact, function: u64| exact.counts().get(&function).copied().unwrap_or(0);
    // The first call goes to the rare function before, and to the common one after.
    let [was, is] = [&before, &after].map(|exact| rounds(exact, calls(exact)[0]));
    assert!(was * 4 < is, "{was} before, {is} after");
    let [was, is] = [&before, &after].map(|exact| exact.taken().len());
    println!("{was} branches were taken before, {is} after");
    assert!(is * 10 < was * 9, "{was} branches were taken before, {is} after");
}

/// Our counts equal those that llvm-profgen makes of our records of the same file.
#[test]
fn unsymbolized_counts_are_those_of_llvm_profgen() {
    let (folder, _) = built(WAYS[0], Format::Pe);
    let path = folder.path();
    record(MACHINES[0], path);
    for file in [RECORDING, TRACE] {
        for command in [
            &format!("halprof export {file} --format unsymbolized -o own.txt"),
            &format!("halprof export {file} --format perf-script --symbol-path . -o app.perf.txt"),
            "llvm-profgen --skip-symbolization --use-offset --perfscript=app.perf.txt --binary=app.exe --output=theirs.txt",
        ] {
            run(command, Format::Pe, path);
        }
        let [own, theirs] = ["own.txt", "theirs.txt"]
            .map(|name| std::fs::read_to_string(path.join(name)).expect("a file"));
        assert!(own.lines().count() > 10, "{file}: {own}");
        assert_eq!(own, theirs, "{file}");
    }
}

#[test]
fn rustc_takes_a_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("app.rs"), "pub fn twice(x: u32) -> u32 { x * 2 }")
        .expect("written");
    std::fs::write(folder.path().join("app.prof"), "twice:100:10\n 0: 100\n").expect("written");
    for command in commands("rustc, by lines", "rustc +nightly") {
        let words = command.strip_prefix("rustc +nightly ").expect("a command").split(' ');
        let output = Command::new("rustc")
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["--crate-type=lib", "--emit=obj"])
            .args(words)
            .current_dir(folder.path())
            .output()
            .expect("rustc");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
