//! The tool on the shipped driver: `nt-model --sys target/driver/halprof.sys stat`.
//!
//! All arguments but `--sys`, `--seed`, `--guest` and `--skid`, which stand first, are those of
//! `halprof`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser};
use halprof::{DRIVER, Place};
use halprof_measure::Error;
use nt_model::door::{Broken, Door, Guest};
use nt_model::programs::{PROGRAMS, Program, ROUNDS};
use sim::cpuid::Leaves;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs halprof on the shipped driver, on a modelled kernel and processor
#[derive(Parser)]
struct Arguments {
    /// The driver
    #[arg(long, value_name = "FILE", default_value = "target/driver/halprof.sys")]
    sys: PathBuf,
    /// What decides everything that Windows does not document
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A program that really runs, in ring 3 on every processor, in place of a workload
    #[arg(long, value_name = "PROGRAM", value_parser = names())]
    guest: Option<String>,
    /// How many instructions late its interrupts come
    #[arg(long, value_name = "N", default_value_t = 0, requires = "guest")]
    skid: u64,
    /// What halprof is given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    halprof: Vec<OsString>,
}

fn names() -> PossibleValuesParser {
    let name = |program: &Program| PossibleValue::new(program.name).help(program.what);
    PossibleValuesParser::new(PROGRAMS.iter().map(name))
}

impl Arguments {
    fn guest(&self) -> Option<Guest> {
        let program = Program::find(self.guest.as_deref()?)?;
        Some(Guest {
            program,
            rounds: ROUNDS,
            skid: self.skid,
        })
    }

    fn names_a_workload(&self) -> bool {
        let named = |argument: &OsString| argument.to_string_lossy().starts_with("--workload");
        self.halprof.iter().any(named)
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let guest = arguments.guest();
    anyhow::ensure!(
        guest.is_none() || !arguments.names_a_workload(),
        "`--guest` and `--workload` are two things to run: name one of them"
    );
    let sys = &arguments.sys;
    let file = std::fs::read(sys).with_context(|| {
        format!(
            "no driver in {}: build it, `cargo xtask sys`",
            sys.display()
        )
    })?;
    let broken = Broken::default();
    let open = |machine: &str| {
        let (description, leaves) = described(machine, sys)?;
        let door = Door::open(&file, &leaves, arguments.seed, guest, &broken)
            .map_err(|error| Error::Internal(format!("{error:#}")))?;
        Ok(Place::modelled(Box::new(door), description))
    };
    let program = std::iter::once(OsString::from("halprof"));
    let ended = halprof::run_with(program.chain(arguments.halprof.clone()), &open);
    let Some(violation) = broken.take() else {
        return Ok(ended);
    };
    eprintln!("nt-model: seed {}: {violation}", arguments.seed);
    Ok(ExitCode::FAILURE)
}

/// What `--machine` names, with the driver on it, in words, and its processors.
fn described(machine: &str, sys: &Path) -> halprof_measure::Result<(String, Vec<Leaves>)> {
    if machine == DRIVER {
        return Err(Error::unavailable(
            "the driver that Windows has loaded is not this one",
            "Name a model with `--machine`; `halprof --machine driver` measures on Windows.",
        ));
    }
    let spec = halprof_measure::spec(machine)?;
    let name = sys.file_name().unwrap_or(sys.as_os_str());
    let description = format!(
        "{} on a modelled kernel and processor, {}",
        name.to_string_lossy(),
        spec.description
    );
    Ok((description, spec.leaves))
}
