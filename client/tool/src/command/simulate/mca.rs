//! `--model mca:CPU`: what an installed llvm-mca reports on the instructions.

use crate::{Error, Result};
use halprof_profile::simulation::Simulation;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The program's names: its own, and those of Debian's newer packages.
const PROGRAMS: [&str; 4] = ["llvm-mca", "llvm-mca-20", "llvm-mca-19", "llvm-mca-18"];

/// The reply, and the processor that it is for.
#[derive(Debug, Serialize)]
pub(super) struct Model {
    cpu: String,
    /// The version that the program reports.
    version: String,
    /// By the address of the executed instruction.
    #[serde(skip)]
    told: HashMap<u64, [f64; 3]>,
}

impl Model {
    /// Micro-operations, latency and reciprocal throughput of an instruction.
    pub(super) fn of(&self, address: u64) -> Option<[f64; 3]> {
        self.told.get(&address).copied()
    }
}

impl Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "uops, latency and throughput: {}, {}; it takes loads for hits and predicts all branches.",
            self.version, self.cpu
        )
    }
}

/// The processor named in `mca:CPU`.
pub(super) fn asked(model: &str) -> Result<String> {
    let cpu = model.strip_prefix("mca:");
    let plain = |text: &&str| {
        let mut letters = text.chars();
        !text.is_empty() && letters.all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    cpu.filter(plain).map(str::to_owned).ok_or_else(|| {
        Error::usage(
            format!("`--model {model}` is not a model"),
            "`--model mca:CPU`, with a processor that llvm-mca knows, for example `mca:skylake`.",
        )
    })
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "CodeRegions")]
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    #[serde(rename = "InstructionInfoView")]
    information: Option<Information>,
}

#[derive(Deserialize)]
struct Information {
    #[serde(rename = "InstructionList")]
    instructions: Vec<Scheduled>,
}

#[derive(Deserialize)]
struct Scheduled {
    #[serde(rename = "Instruction")]
    index: usize,
    #[serde(rename = "NumMicroOpcodes")]
    uops: f64,
    #[serde(rename = "Latency")]
    latency: f64,
    #[serde(rename = "RThroughput")]
    throughput: f64,
}

/// Asks llvm-mca about all executed instructions of the range.
pub(super) fn ask(cpu: &str, simulation: &Simulation) -> Result<Model> {
    let (program, version) = installed()?;
    let rows = simulation.rows();
    let executed: Vec<_> = rows
        .iter()
        .filter(|row| row.counts.executions != 0)
        .collect();
    let mut code = ".intel_syntax noprefix\n".to_owned();
    for row in &executed {
        code += &assembled(&row.text);
        code += "\n";
    }
    let mut command = Command::new(program);
    let triple = if simulation.is_32_bit() {
        "-mtriple=i686"
    } else {
        "-mtriple=x86_64"
    };
    command
        .args([triple, "--json", "--iterations=1"])
        .arg(format!("-mcpu={cpu}"));
    let output = answered(command, &code).map_err(|error| failed(program, &error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(failed(
            program,
            text.lines().next().unwrap_or("no reason given"),
        ));
    }
    let answer: Answer = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(program, &error.to_string()))?;
    let all = answer
        .regions
        .into_iter()
        .filter_map(|region| region.information);
    let told: Vec<Scheduled> = all
        .flat_map(|information| information.instructions)
        .collect();
    // Some versions silently leave out what they cannot read.
    if told.len() != executed.len() {
        let why = format!("it knows {} of {} instructions", told.len(), executed.len());
        return Err(failed(program, &why));
    }
    let told = told.iter().filter_map(|told| {
        let row = executed.get(told.index)?;
        Some((row.address, [told.uops, told.latency, told.throughput]))
    });
    Ok(Model {
        cpu: cpu.to_owned(),
        version,
        told: told.collect(),
    })
}

/// The syntax that llvm-mca reads: a branch goes to a label instead of an address, because its
/// distance does not matter.
fn assembled(text: &str) -> String {
    match text.split_once(' ') {
        Some((branch, to))
            if to.trim_start_matches("short ").starts_with("0x")
                && (branch.starts_with('j') || branch.starts_with("loop") || branch == "call") =>
        {
            format!("{branch} .Lelsewhere")
        }
        _ => text.to_owned(),
    }
}

fn installed() -> Result<(&'static str, String)> {
    for program in PROGRAMS {
        let Ok(output) = Command::new(program).arg("--version").output() else {
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text
            .lines()
            .map(str::trim)
            .find(|line| line.contains("version"));
        return Ok((program, version.unwrap_or(program).to_owned()));
    }
    Err(Error::unavailable(
        "`--model mca:...` needs llvm-mca, which is not installed",
        "Install LLVM, or leave out `--model`.",
    ))
}

fn answered(mut command: Command, code: &str) -> std::io::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        let code = code.to_owned();
        // llvm-mca may start to answer before it has read everything.
        std::thread::spawn(move || input.write_all(code.as_bytes()));
    }
    child.wait_with_output()
}

fn failed(program: &str, why: &str) -> Error {
    Error::unavailable(
        format!("{program} did not answer: {why}"),
        "`llvm-mca -mcpu=help` lists the processors that it knows.",
    )
}
