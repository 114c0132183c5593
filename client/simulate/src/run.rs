//! A program's run, and what the requested range of its code executed.

use crate::cache::{CacheTotal, Caches, Geometry};
use crate::simulation::{Counts, InstructionRow, Simulation};
use crate::step::Debuggee;
use crate::step::range;
pub use crate::step::range::Outcome;
use crate::target::Target;
use halprof_measure::{Error, Result};
use halprof_profile::number::thousands;
use halprof_profile::symbols::{Executable, SymbolPath};
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::path::Path;
use std::process::Command;

const NOT_SIMULATED: &str = "what the caches held before the range, address \
    translation, the bus, other processors, and functions that the range calls";

/// What to run, and which of its code to step.
pub struct Request<'a> {
    pub command: Command,
    /// `SYMBOL[+LENGTH]`, or an address of the program's file.
    pub range: &'a str,
    /// The number of steps after which the program is ended.
    pub max_steps: u64,
    pub caches: Vec<Geometry>,
    /// The processor that has them, in words.
    pub processor: String,
    /// Where symbols are searched.
    pub symbol_path: SymbolPath,
}

/// What the range executed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SimulateResult {
    /// The program's file.
    pub program: String,
    /// Its name.
    pub module: String,
    /// The function in which the range starts.
    pub symbol: Option<String>,
    /// The start of the range, as an address in the program's file.
    pub start: String,
    /// The bytes of the range.
    pub length: u64,
    /// How many instructions were executed in the range.
    pub instructions: u64,
    /// How the run went.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its instructions.
    pub rows: Vec<InstructionRow>,
    /// Its source lines, in the order of the code.
    pub lines: Vec<LineRow>,
    /// The columns that are not exact: misses of modelled caches.
    pub modelled_columns: Vec<String>,
    /// The processor with these caches.
    pub processor: String,
    /// The modelled caches.
    pub caches: Vec<CacheTotal>,
    /// What the counts do not include.
    pub not_simulated: &'static str,
    /// What a reader must know.
    pub warnings: Vec<String>,
}

/// The counts of a source line.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LineRow {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The sum over its instructions.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Runs a program to its end, its limit of steps, or until the user has `interrupted` it; `progress`
/// takes the number of steps from time to time.
pub fn run(
    request: Request<'_>,
    interrupted: fn() -> bool,
    progress: &mut dyn FnMut(u64),
) -> Result<SimulateResult> {
    let program = start(request.command)?;
    // Where its image is, and what relocation made of its code, is known only once it is loaded.
    let (path, base) = program.image().map_err(not_stepped)?;
    let executable = open(&path, &request.symbol_path)?;
    let target = Target::find(request.range, &executable)?;
    let read = |start: u64, bytes: &mut [u8]| program.read(base.wrapping_add(start), bytes);
    let mut code = vec![0; target.length as usize];
    read(target.start, &mut code).map_err(|_| target.not_in_memory())?;
    let is_32_bit = program.is_32_bit().map_err(not_stepped)?;
    target.check_ends(is_32_bit, executable.base(), read)?;

    let start = base.wrapping_add(target.start);
    let caches = Caches::new(&request.caches);
    let mut simulation = Simulation::new(start, code, is_32_bit, caches);
    let outcome =
        range::run(program, start, &mut simulation, request.max_steps, interrupted, progress)
            .map_err(not_stepped)?;

    let rows = located(simulation.rows(), &executable, base);
    let misses = simulation.caches().no_misses().into_keys();
    Ok(SimulateResult {
        program: path.display().to_string(),
        module: executable.module().name.clone(),
        start: format!("{:#x}", executable.base().wrapping_add(target.start)),
        length: target.length,
        instructions: rows.iter().map(|row| row.counts.executions).sum(),
        outcome,
        warnings: warnings(&outcome, &target, &executable, &rows),
        lines: by_line(&rows),
        rows,
        symbol: target.symbol,
        modelled_columns: misses.map(|cache| format!("misses.{cache}")).collect(),
        processor: request.processor,
        caches: simulation.caches().totals(),
        not_simulated: NOT_SIMULATED,
    })
}

fn start(command: Command) -> Result<Debuggee> {
    let path = command.get_program().into();
    Debuggee::start(command).map_err(|error| Error::File { path, doing: "started", error })
}

/// The system refused a debugger's request.
#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
fn not_stepped(error: io::Error) -> Error {
    Error::unavailable(
        format!("the program cannot be stepped: {error}"),
        "It may be protected from debuggers, or this user may not debug programs here.",
    )
}

fn open(path: &Path, symbol_path: &SymbolPath) -> Result<Executable> {
    Executable::open(path, symbol_path).map_err(|why| {
        Error::bad_file(
            path,
            format!("cannot be stepped: {why}"),
            "Only programs of x86 or x64 code in PE or ELF files can be stepped; name the program \
             itself, not a script that starts it.",
        )
    })
}

/// The rows with the addresses and source lines of the program's file, which is loaded at `base`.
fn located(
    mut rows: Vec<InstructionRow>,
    executable: &Executable,
    base: u64,
) -> Vec<InstructionRow> {
    for row in &mut rows {
        let relative = row.address.wrapping_sub(base);
        row.address = executable.base().wrapping_add(relative);
        (row.file, row.line) = executable.line(relative).unzip();
    }
    rows
}

fn by_line(rows: &[InstructionRow]) -> Vec<LineRow> {
    let mut lines: Vec<LineRow> = Vec::new();
    for row in rows {
        let (Some(file), Some(line)) = (&row.file, row.line) else {
            continue;
        };
        match lines.iter_mut().find(|sum| sum.line == line && sum.file == *file) {
            Some(sum) => sum.counts.add(&row.counts),
            None => lines.push(LineRow { file: file.clone(), line, counts: row.counts.clone() }),
        }
    }
    lines
}

fn warnings(
    outcome: &Outcome,
    target: &Target,
    executable: &Executable,
    rows: &[InstructionRow],
) -> Vec<String> {
    let mut warnings = Vec::new();
    if outcome.interrupted {
        warnings.push(
            "interrupted: the program was ended, and the counts cover the part until then"
                .to_owned(),
        );
    }
    if outcome.replaced {
        warnings.push(
            "the program replaced itself by another (exec), which was not stepped".to_owned(),
        );
    }
    if outcome.entries == 0 && !outcome.limited && !outcome.interrupted {
        warnings.push(format!("the program ended without reaching {}", target.name()));
    }
    if outcome.lost != 0 {
        let plural = if outcome.lost == 1 { "" } else { "s" };
        warnings.push(format!(
            "{} jump{plural} left the range without returning soon: what followed is not counted",
            thousands(outcome.lost)
        ));
    }
    let unknown: u64 = rows.iter().map(|row| row.counts.unknown).sum();
    if unknown != 0 {
        warnings.push(format!(
            "the addresses of {} gathers and scatters are not known: cache and alignment counts \
             exclude them",
            thousands(unknown)
        ));
    }
    if target.symbol.is_none() {
        warnings.extend(executable.notes().iter().take(1).cloned());
    }
    warnings
}
