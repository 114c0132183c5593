//! A program's run, and what the requested range of its code executed.

use crate::cache::{CacheTotal, Caches, Geometry};
use crate::modules::{NamedModules, Place};
use crate::simulation::{CallTarget, Counts, InstructionRow, Simulation};
use crate::step::Debuggee;
use crate::step::range;
pub use crate::step::range::Outcome;
use crate::step::range::Trail;
use crate::target::Target;
use halprof_measure::{Error, Result};
use halprof_profile::number::thousands;
use halprof_profile::symbols::{Executable, SymbolPath, qualified};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

const NOT_SIMULATED: &str = "what the caches held before the range, address \
    translation, the bus, other processors, and functions that the range calls";
const NOT_SIMULATED_WITH_CALLS: &str = "what the caches held before the range, address \
    translation, the bus, other processors, and the kernel";

/// What is added to the number of the signal that ended a program.
const SIGNAL: u32 = 128;

/// What to run, and which of its code to step.
pub struct Request<'a> {
    pub command: Command,
    /// `SYMBOL[+LENGTH]`, or an address of the program's file.
    pub range: &'a str,
    /// Whether to step what the range calls too.
    pub calls: bool,
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
    /// The name of the file that has the range: the program, or a shared object or DLL.
    pub module: String,
    /// The function in which the range starts.
    pub symbol: Option<String>,
    /// The start of the range, as an address in the program's file.
    pub start: String,
    /// The bytes of the range.
    pub length: u64,
    /// How many instructions were executed in the range, and with `--calls` in what it called.
    pub instructions: u64,
    /// Whether what the range called was counted too.
    pub with_calls: bool,
    /// How the run went.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its instructions.
    pub rows: Vec<InstructionRow>,
    /// Its source lines, in the order of the code.
    pub lines: Vec<LineRow>,
    /// The range and with `--calls` the functions that it called, each without what it called itself,
    /// most instructions first.
    pub functions: Vec<FunctionRow>,
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

/// The counts of a function, without what it called.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FunctionRow {
    /// The module; null for code of no file.
    pub module: Option<String>,
    /// The function; null for code of the module that has no name.
    pub symbol: Option<String>,
    /// How often it was called; jumps to it are not counted.
    pub calls: u64,
    /// The sum over its instructions.
    #[serde(flatten)]
    pub counts: Counts,
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
    let mut program = start(request.command)?;
    // Where its image is, and what relocation made of its code, is known only once it is loaded.
    let (path, _) = program.image().map_err(not_stepped)?;
    let (base, executable, target) = find(request.range, &request.symbol_path, &mut program)?;
    if request.calls && !target.is_function() {
        return Err(Error::usage(
            format!("`--calls` with `{}`: the range is not a whole function", request.range),
            "Name a function without a length: what it calls ends when it returns.",
        ));
    }
    let read = |start: u64, bytes: &mut [u8]| program.read(base.wrapping_add(start), bytes);
    let mut code = vec![0; target.length as usize];
    read(target.start, &mut code).map_err(|_| target.not_in_memory())?;
    let is_32_bit = program.is_32_bit().map_err(not_stepped)?;
    target.check_ends(is_32_bit, executable.base(), read)?;

    let start = base.wrapping_add(target.start);
    let caches = Caches::new(&request.caches);
    let mut simulation = Simulation::new(start, code, is_32_bit, caches);
    let code = (start, request.calls);
    let (outcome, mut trail) =
        range::run(program, code, &mut simulation, request.max_steps, interrupted, progress)
            .map_err(not_stepped)?;

    let modules = std::mem::take(&mut trail.modules);
    let modules = NamedModules::new(modules, &request.symbol_path);
    let mut rows = simulation.rows();
    add_calls(&mut rows, &trail, &modules);
    let functions = functions((&simulation, &rows), &trail, &modules, start);
    let rows = located(rows, &executable, base);
    let misses = simulation.caches().no_misses().into_keys();
    Ok(SimulateResult {
        program: path.display().to_string(),
        module: executable.module().name.clone(),
        start: format!("{:#x}", executable.base().wrapping_add(target.start)),
        length: target.length,
        instructions: functions.iter().map(|row| row.counts.executions).sum(),
        with_calls: request.calls,
        outcome,
        warnings: warnings(&outcome, (&target, base), &executable, &functions),
        lines: by_line(&rows),
        rows,
        functions,
        symbol: target.symbol,
        modelled_columns: misses.map(|cache| format!("misses.{cache}")).collect(),
        processor: request.processor,
        caches: simulation.caches().totals(),
        not_simulated: if request.calls { NOT_SIMULATED_WITH_CALLS } else { NOT_SIMULATED },
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

/// Where the range is: the address of the module that has it, the module and the range. What the program
/// does not have is looked for in what the loader has loaded for it.
fn find(
    range: &str,
    symbols: &SymbolPath,
    program: &mut Debuggee,
) -> Result<(u64, Executable, Target)> {
    let (path, base) = program.image().map_err(not_stepped)?;
    let executable = open(&path, symbols)?;
    if let Some(target) = Target::find(range, &executable)? {
        return Ok((base, executable, target));
    }
    let refused = Target::not_found(range, &executable);
    program.load().map_err(not_stepped)?;
    let mut found = Vec::new();
    for loaded in program.modules().map_err(not_stepped)? {
        if loaded.path == path {
            continue;
        }
        let Ok(executable) = Executable::open(&loaded.path, symbols) else {
            continue;
        };
        if let Some(target) = Target::find(range, &executable)? {
            found.push((loaded.range.start, executable, target));
        }
    }
    if found.len() > 1 {
        let names = found.iter().map(|(_, executable, target)| {
            format!("`{}`", qualified(&executable.module().name, &target.name()))
        });
        return Err(Error::usage(
            format!("`{range}` is the name of {} functions", found.len()),
            format!("Choose one: {}.", names.collect::<Vec<_>>().join(", ")),
        ));
    }
    found.pop().ok_or(refused)
}

/// Adds what each instruction called.
fn add_calls(rows: &mut [InstructionRow], trail: &Trail, modules: &NamedModules) {
    let mut called: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    for (&(from, to), calls) in &trail.called {
        *called.entry(from).or_default().entry(trail.function(to)).or_default() += calls;
    }
    for row in rows {
        let targets = called.remove(&row.address).unwrap_or_default().into_iter();
        row.calls =
            targets.map(|(to, calls)| CallTarget { name: modules.name(to), calls }).collect();
        row.calls.sort_by_key(|target| Reverse(target.calls));
    }
}

/// Sums up by function; the range, which starts here, is one.
fn functions(
    (simulation, rows): (&Simulation, &[InstructionRow]),
    trail: &Trail,
    modules: &NamedModules,
    start: u64,
) -> Vec<FunctionRow> {
    let mut all: BTreeMap<Place, (u64, Counts)> = BTreeMap::new();
    let own = modules.place(start);
    for row in rows {
        all.entry(own.clone()).or_default().1.add(&row.counts);
    }
    for (address, counts) in simulation.outside() {
        all.entry(modules.place(address)).or_default().1.add(counts);
    }
    for (&(_, to), calls) in &trail.called {
        // A function that was not stepped has no row.
        if let Some((sum, _)) = all.get_mut(&modules.place(trail.function(to))) {
            *sum += calls;
        }
    }
    let row = |(place, (calls, counts)): (Place, (u64, Counts))| {
        let Place { module, symbol } = place;
        FunctionRow { module, symbol, calls, counts }
    };
    let mut functions: Vec<FunctionRow> = all.into_iter().map(row).collect();
    functions.sort_by_key(|row| Reverse(row.counts.executions));
    functions
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
    (target, base): (&Target, u64),
    executable: &Executable,
    functions: &[FunctionRow],
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
    if outcome.entries == 0 && outcome.unfinished == 0 && !outcome.limited && !outcome.interrupted {
        warnings.push(format!("the program ended without reaching {}", target.name()));
    }
    if let Some(address) = outcome.ended_at.filter(|_| outcome.complete) {
        let status = outcome.exit_status.map_or_else(String::new, |status| {
            let signal = status.checked_sub(SIGNAL).filter(|_| cfg!(unix));
            let signal = signal.map(|signal| format!(", which is signal {signal}"));
            format!(" with status {status}{}", signal.unwrap_or_default())
        });
        let relative = address.wrapping_sub(base);
        let place = match relative.checked_sub(target.start) {
            Some(offset) if offset < target.length => format!("{}+{offset:#x}", target.name()),
            _ => format!("{:#x}", executable.base().wrapping_add(relative)),
        };
        warnings.push(format!(
            "the program ended{status}, at {place}: a signal or an exception came, and this \
             instruction was not executed"
        ));
    }
    if outcome.lost != 0 {
        let plural = if outcome.lost == 1 { "" } else { "s" };
        warnings.push(format!(
            "{} jump{plural} left the range without returning soon: what followed is not counted",
            thousands(outcome.lost)
        ));
    }
    let unknown: u64 = functions.iter().map(|row| row.counts.unknown).sum();
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
