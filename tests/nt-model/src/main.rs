//! The tool on the shipped driver: `nt-model --sys target/driver/halprof.sys stat`.
//!
//! All arguments except `--sys`, `--seed`, `--guest` and `--skid`, which come first, are those of
//! `halprof`.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::Parser;
use halprof::target::backend::Backend;
use halprof::target::backend::DRIVER;
use halprof_measure::Error;
use nt_model::programs::{PROGRAMS, Program, ROUNDS};
use nt_model::registers;
use nt_model::transport::{Broken, DriverTransport, Guest};
use sim::cpu::cpuid::Leaves;
use sim::machines::MachineSpec;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The driver, and the one with the interfaces for processors that Windows 10 x64 does not boot on.
const SHIPPED: &str = "target/driver/halprof.sys";
const HISTORIC: &str = "target/driver/halprof-historic.sys";

/// Runs halprof on the shipped driver, on a modelled kernel and processor
#[derive(Parser)]
struct Arguments {
    /// The driver; by default target/driver/halprof.sys, and halprof-historic.sys beside it on
    /// machines with Pentium, P6 or NetBurst counters
    #[arg(long, value_name = "FILE")]
    sys: Option<PathBuf>,
    /// What decides everything that Windows does not document
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A program that really runs, in ring 3 on every processor, in place of a workload: `loop`,
    /// `branches`, `loads`, `copy`, or a PE or ELF file of code at 0x140001000 that needs nothing else
    #[arg(long, value_name = "PROGRAM|FILE", value_parser = program)]
    guest: Option<&'static Program>,
    /// How many instructions late its interrupts come
    #[arg(long, value_name = "N", default_value_t = 0, requires = "guest")]
    skid: u64,
    /// What halprof is given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    halprof: Vec<OsString>,
}

/// A built-in program by its name, otherwise one from a file.
fn program(text: &str) -> Result<&'static Program, String> {
    if let Some(program) = Program::find(text) {
        return Ok(program);
    }
    let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    let other = |error| format!("{error:#}; the programs are {}", names.join(", "));
    Program::read(Path::new(text)).map_err(other)
}

impl Arguments {
    fn guest(&self) -> Option<Guest> {
        Some(Guest { program: self.guest?, rounds: ROUNDS, skid: self.skid })
    }

    /// The file that runs: the one that is named; otherwise the shipped driver, or if that does not
    /// serve these processors, the one that does.
    fn driver_for(&self, leaves: &[Leaves]) -> PathBuf {
        if let Some(named) = &self.sys {
            return named.clone();
        }
        let shipped = PathBuf::from(SHIPPED);
        if !registers::is_historic(leaves) {
            return shipped;
        }
        let historic = PathBuf::from(HISTORIC);
        if historic.is_file() {
            return historic;
        }
        eprintln!(
            "nt-model: this machine has Pentium, P6 or NetBurst counters, and there is no {HISTORIC}: {SHIPPED} runs"
        );
        shipped
    }

    fn names_a_workload(&self) -> bool {
        let named = |argument: &OsString| argument.to_string_lossy().starts_with("--workload");
        self.halprof.iter().any(named)
    }
}

/// The tool's status of a bug in halprof.
const BUG: u8 = 101;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let guest = arguments.guest();
    anyhow::ensure!(
        guest.is_none() || !arguments.names_a_workload(),
        "`--guest` and `--workload` are two things to run: name one of them"
    );
    let broken = Broken::default();
    let open = |machine: &str| {
        let spec = spec(machine)?;
        let sys = arguments.driver_for(&spec.leaves);
        let file = read(&sys)?;
        let transport = DriverTransport::open(&file, &spec.leaves, arguments.seed, guest, &broken)
            .map_err(|error| Error::Internal(format!("{error:#}")))?;
        Ok(Backend::modelled(Box::new(transport), described(&spec, &sys)))
    };
    let program = std::iter::once(OsString::from("halprof"));
    let ended = halprof::run_with(program.chain(arguments.halprof.clone()), &open);
    let Some(violation) = broken.take() else {
        return Ok(ended);
    };
    eprintln!("nt-model: seed {}: {violation}", arguments.seed);
    Ok(ExitCode::from(BUG))
}

/// The machine that `--machine` names; there is no installed driver.
fn spec(machine: &str) -> halprof_measure::Result<MachineSpec> {
    if machine == DRIVER {
        return Err(Error::unavailable(
            "the driver that Windows has loaded is not this one",
            "Name a model with `--machine`; `halprof --machine driver` measures on Windows.",
        ));
    }
    halprof_measure::spec(machine)
}

fn read(sys: &Path) -> halprof_measure::Result<Vec<u8>> {
    std::fs::read(sys).map_err(|error| {
        Error::unavailable(
            format!("no driver in {}: {error}", sys.display()),
            "Build it: `cargo xtask sys`.",
        )
    })
}

/// The machine with the driver on it, in words.
fn described(spec: &MachineSpec, sys: &Path) -> String {
    let name = sys.file_name().unwrap_or(sys.as_os_str());
    format!("{} on a modelled kernel and processor, {}", name.to_string_lossy(), spec.description)
}
