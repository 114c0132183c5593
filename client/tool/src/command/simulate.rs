//! `halprof simulate`: executes a range of a program's code step by step and counts exactly.

mod rows;
mod target;

use crate::cli::args::{self, CodeKey};
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::number::thousands;
use crate::run::interrupt::{interrupted, watch_for_interrupt};
use halprof_profile::symbols::Executable;
use halprof_simulate::simulation::Simulation;
use halprof_simulate::simulation::cache::{Caches, Geometry};
use halprof_simulate::step::range::{Outcome, Suspended};
use rows::{Executed, Line, SourceLine};
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use target::Target;

/// What is not simulated.
const NOT_SIMULATED: &str = "what the caches held before the range, address \
    translation, the bus, other processors, and functions that the range calls";

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    program: String,
    module: String,
    symbol: Option<String>,
    /// The start of the range, as an address in the program's file.
    start: String,
    length: u64,
    /// How many instructions were executed in the range.
    instructions: u64,
    /// How often a thread entered the range at its start.
    arrivals: u64,
    /// Calls out of the range, which ran at full speed.
    calls: u64,
    steps: u64,
    /// Whether the limit of steps was reached, so that the program was ended.
    limited: bool,
    /// Whether the user asked to stop, so that the program was ended.
    interrupted: bool,
    exit_status: Option<u32>,
    rows: Vec<Executed>,
    lines: Vec<SourceLine>,
    /// The names in `modelled`, which are not exact: misses of modelled caches.
    modelled_columns: Vec<String>,
    /// The processor with these caches.
    processor: String,
    caches: Vec<Cache>,
    not_simulated: &'static str,
    warnings: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct Cache {
    name: String,
    bytes: u64,
    ways: u64,
    line: u64,
    accesses: u64,
    misses: u64,
}

/// `machine`: the processor whose caches are modelled instead of this one's.
pub(crate) fn run(options: &args::Simulate, machine: Option<&str>, output: &Output) -> Result<u32> {
    let (processor, geometries) = caches(machine)?;
    let (name, arguments) = options.program.split_first().ok_or_else(no_program)?;
    let mut command = Command::new(name);
    command.args(arguments);
    if output.is_json() || output.is_csv() {
        command.stdout(Stdio::from(io::stderr()));
    }
    let failed = |error| {
        Error::Measure(halprof_measure::Error::File { path: name.into(), doing: "started", error })
    };
    watch_for_interrupt();
    let program = Suspended::start(command).map_err(failed)?;
    let (path, base) = program.image().map_err(lost)?;
    let executable = open(&path, options)?;
    let target = Target::find(&options.range, &executable)?;
    let mut code = vec![0; target.length as usize];
    let start = base.wrapping_add(target.start);
    program.read(start, &mut code).map_err(|_| target.absent())?;
    let is_32_bit = program.is_32_bit().map_err(lost)?;
    target.whole(is_32_bit, executable.base(), |start, bytes| {
        program.read(base.wrapping_add(start), bytes)
    })?;
    let mut simulation = Simulation::new(start, code, is_32_bit, Caches::new(&geometries));
    let progress = output.progress(None);
    let mut told = |steps| progress.set_message(format!("{} steps", thousands(steps)));
    let outcome = program.run(start, &mut simulation, options.max_steps, interrupted, &mut told);
    progress.finish_and_clear();
    let outcome = outcome.map_err(lost)?;

    let lines = rows::lines(&simulation, &executable, base);
    let warnings = warnings(&outcome, &target, &executable, &lines, options.max_steps);
    for warning in &warnings {
        output.warn(warning);
    }
    let body = Body {
        program: path.display().to_string(),
        module: executable.module().name.clone(),
        start: format!("{:#x}", executable.base().wrapping_add(target.start)),
        length: target.length,
        symbol: target.symbol,
        instructions: lines.iter().map(|line| line.counts.executions).sum(),
        arrivals: outcome.arrivals,
        calls: outcome.calls,
        steps: outcome.steps,
        limited: outcome.limited,
        interrupted: outcome.interrupted,
        exit_status: outcome.status,
        rows: rows::by_instruction(&lines, &geometries),
        lines: rows::by_line(&lines, &geometries),
        modelled_columns: rows::modelled(&geometries),
        processor,
        caches: totals(&simulation),
        not_simulated: NOT_SIMULATED,
        warnings,
    };
    if output.is_csv() {
        output.print_data(&rows::csv(&body, options.by == CodeKey::Line)?)?;
    } else {
        output.result("simulate", false, &body, |body| {
            rows::text(body, &lines, &geometries, options.by == CodeKey::Line, output.width())
        })?;
    }
    if outcome.limited {
        return Ok(Error::unavailable("", "").exit_status().into());
    }
    Ok(outcome.status.unwrap_or(0))
}

fn no_program() -> Error {
    Error::usage("no program to run", "Name one behind `--`.")
}

/// The system refused a debugger's request.
#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
fn lost(error: io::Error) -> Error {
    Error::unavailable(
        format!("the program cannot be stepped: {error}"),
        "It may be protected from debuggers, or this user may not debug programs here.",
    )
}

fn open(path: &Path, options: &args::Simulate) -> Result<Executable> {
    let bad = |why| halprof_measure::Error::BadFile {
        path: path.to_owned(),
        why: format!("cannot be stepped: {why}"),
        hint: "`simulate` runs programs of x86 or x64 code in PE or ELF files; name the program \
               itself, not a script that starts it."
            .to_owned(),
    };
    Ok(Executable::open(path, &options.naming.path()?).map_err(bad)?)
}

/// The caches of the requested processor, and its name.
fn caches(machine: Option<&str>) -> Result<(String, Vec<Geometry>)> {
    let Some(machine) = machine else {
        let native = raw_cpuid::native_cpuid::cpuid_count;
        let of_this = Geometry::of(|leaf, subleaf| {
            let value = native(leaf, subleaf);
            [value.eax, value.ebx, value.ecx, value.edx]
        });
        return Ok(("this machine's".to_owned(), of_this));
    };
    let spec = halprof_measure::spec(machine)?;
    let leaves = spec.leaves.first().ok_or_else(|| {
        Error::usage("`--machine` has no processor", "Name a dump or a built-in model.")
    })?;
    let caches = Geometry::of(|leaf, subleaf| {
        let value = leaves.get(leaf, subleaf);
        [value.eax, value.ebx, value.ecx, value.edx]
    });
    Ok((format!("those of {}", spec.description), caches))
}

fn totals(simulation: &Simulation) -> Vec<Cache> {
    let caches = simulation.caches();
    let both = caches.geometries().zip(caches.totals());
    let told = both.map(|(geometry, total)| Cache {
        name: geometry.name(),
        bytes: geometry.bytes(),
        ways: geometry.ways,
        line: geometry.line,
        accesses: total.accesses,
        misses: total.misses,
    });
    told.collect()
}

fn warnings(
    outcome: &Outcome,
    target: &Target,
    executable: &Executable,
    lines: &[Line],
    max_steps: u64,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if outcome.limited {
        warnings.push(format!(
            "{} steps were not enough: the program was ended, and the counts are of the \
             part until then; `--max-steps` allows more",
            thousands(max_steps)
        ));
    }
    if outcome.interrupted {
        warnings.push(
            "interrupted: the program was ended, and the counts are of the part until then"
                .to_owned(),
        );
    }
    if outcome.replaced {
        warnings.push(
            "the program made itself another program (exec), which was not stepped".to_owned(),
        );
    }
    if outcome.arrivals == 0 && !outcome.limited && !outcome.interrupted {
        warnings.push(format!("the program ended without reaching {}", target.name()));
    }
    if outcome.lost != 0 {
        let (jumps, them) = match outcome.lost {
            1 => ("1 jump".to_owned(), "it"),
            n => (format!("{} jumps", thousands(n)), "them"),
        };
        warnings.push(format!(
            "{jumps} left the range and did not return soon: what came after {them} is not counted"
        ));
    }
    let unknown: u64 = lines.iter().map(|line| line.counts.unknown).sum();
    if unknown != 0 {
        warnings.push(format!(
            "the addresses of {} gathers and scatters are not known: caches and alignment \
             are without them",
            thousands(unknown)
        ));
    }
    if target.symbol.is_none() {
        warnings.extend(executable.notes().iter().take(1).cloned());
    }
    warnings
}
