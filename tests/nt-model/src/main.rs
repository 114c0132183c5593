//! The tool on the shipped driver: `nt-model --sys target/driver/halprof.sys stat`.
//!
//! All arguments but `--sys` and `--seed`, which stand first, are those of `halprof`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::Parser;
use halprof::Error;
use halprof::cli::{self, Place};
use nt_model::door::{Broken, Door};
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
    /// What halprof is given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    halprof: Vec<OsString>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let sys = &arguments.sys;
    let file = std::fs::read(sys).with_context(|| {
        format!(
            "no driver in {}: build it, `cargo xtask sys`",
            sys.display()
        )
    })?;
    let broken = Broken::default();
    let open = |machine: &str| open(machine, sys, &file, arguments.seed, &broken);
    let program = std::iter::once(OsString::from("halprof"));
    let ended = cli::run_with(program.chain(arguments.halprof.clone()), &open);
    let Some(violation) = broken.take() else {
        return Ok(ended);
    };
    eprintln!("nt-model: seed {}: {violation}", arguments.seed);
    Ok(ExitCode::FAILURE)
}

/// Opens what `--machine` names, with the driver on it.
fn open(
    machine: &str,
    sys: &Path,
    file: &[u8],
    seed: u64,
    broken: &Broken,
) -> halprof::Result<Place> {
    if machine == cli::DRIVER {
        return Err(Error::Unavailable {
            message: "the driver that Windows has loaded is not this one".to_owned(),
            hint: "Name a model with `--machine`; `halprof --machine driver` measures on Windows."
                .to_owned(),
        });
    }
    let spec = cli::spec(machine)?;
    let door = Door::open(file, &spec.leaves, seed, broken)
        .map_err(|error| Error::Internal(format!("{error:#}")))?;
    let name = sys.file_name().unwrap_or(sys.as_os_str());
    let description = format!(
        "{} on a modelled kernel and processor, {}",
        name.to_string_lossy(),
        spec.description
    );
    Ok(Place::modelled(Box::new(door), description))
}
