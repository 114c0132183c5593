//! `halprof simulate`: executes a range of a program's code step by step and counts exactly.

use crate::cli::args::{self, CodeKey};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::escape::Escaped;
use crate::output::number::{counted, thousands};
use crate::output::table::{Column, Field, Record, Width, table};
use crate::results;
use crate::results::diff::{Compared, Diff, DiffRow, Earlier, Figure};
use crate::run::interrupt::{interrupted, watch_for_interrupt};
use halprof_profile::aggregate::key::short_path;
use halprof_profile::symbols::qualified;
use halprof_simulate::cache::Geometry;
use halprof_simulate::run::{self, FunctionRow, LineRow, Outcome, Request, SimulateResult};
use halprof_simulate::simulation::{Counts, InstructionRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::process::{Command, Stdio};

/// `machine`: the processor whose caches are modelled instead of this one's.
pub(crate) fn run(options: &args::Simulate, machine: Option<&str>, output: &Output) -> Result<u32> {
    let earlier = Earlier::<ComparedRun>::named(&options.diff, false)?;
    let (processor, caches) = caches(machine)?;
    let request = Request {
        command: command(options, output)?,
        range: &options.range,
        calls: options.calls,
        max_steps: options.max_steps,
        caches,
        processor,
        symbol_path: options.naming.path(output)?,
    };
    watch_for_interrupt();
    let progress = output.progress(None);
    let result = run::run(request, interrupted, &mut |steps| {
        progress.set_message(format!("{} steps", thousands(steps)));
    });
    progress.finish_and_clear();
    let mut result = result?;
    if result.outcome.limited {
        let warning = format!(
            "{} steps were not enough: the program was ended, and the counts cover the part \
             until then; `--max-steps` allows more",
            thousands(options.max_steps)
        );
        result.warnings.insert(0, warning);
    }
    let diff = match &earlier {
        Some(earlier) => {
            let now = output.document("simulate", &result)?;
            earlier.compare(&now, options.diff.fail_above, Some, |_, _| false)?
        }
        None => Diff::default(),
    };
    result.warnings.extend(diff.warnings);
    output.warn_all(&result.warnings);
    result.warnings.extend(diff.failures.iter().cloned());
    let (rows, lines, functions) =
        (result.rows.clone(), result.lines.clone(), result.functions.clone());
    let result = SimulateDiff { result, diff: diff.rows };
    // The program ran here, whatever the modelled columns say: the output is of no model.
    let file = options.output.file();
    let width = file.map_or(output.width(), |_| Width::UNLIMITED);
    let below = results::diff::text(&diff.file, &result.diff, width);
    match options.by {
        CodeKey::Address => {
            output.rows_to(file, "simulate", (&result, &rows), |SimulateDiff { result, .. }| {
                let called = match result.functions.as_slice() {
                    [_, _, ..] if result.with_calls => {
                        format!("\n{}", by_function(&result.functions, FUNCTIONS, width))
                    }
                    _ => String::new(),
                };
                text(result, &(by_instruction(&result.rows, width) + &called), width) + &below
            })
        }
        CodeKey::Line => output.rows_to(
            file,
            "simulate",
            (&result, &lines),
            |SimulateDiff { result, .. }| {
                text(result, &by_line(&result.lines, width), width) + &below
            },
        ),
        CodeKey::Function => output.rows_to(
            file,
            "simulate",
            (&result, &functions),
            |SimulateDiff { result, .. }| {
                text(result, &by_function(&result.functions, usize::MAX, width), width) + &below
            },
        ),
    }?;
    let outcome = &result.result.outcome;
    let status = output.judged(&diff.failures);
    Ok(match outcome.exit_status {
        _ if !outcome.complete => Error::unavailable("", "").exit_status(),
        Some(own) if own != 0 => own,
        _ => status,
    })
}

/// What a run executed, beside an earlier one.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SimulateDiff {
    #[serde(flatten)]
    result: SimulateResult,
    /// The counts beside those of `--diff`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diff: Vec<DiffRow>,
}

/// The part of a result that is compared.
#[derive(Deserialize)]
struct ComparedRun {
    module: String,
    symbol: Option<String>,
    start: String,
    length: u64,
    instructions: f64,
    entries: f64,
    #[serde(default = "yes")]
    complete: bool,
    #[serde(default)]
    with_calls: bool,
    rows: Vec<Executed>,
    #[serde(default)]
    functions: Vec<Executed>,
    caches: Vec<Cache>,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Executed {
    taken: f64,
    reads: f64,
    writes: f64,
    bytes: f64,
}

#[derive(Deserialize)]
struct Cache {
    name: String,
    bytes: u64,
    misses: f64,
}

impl Compared for ComparedRun {
    const COMMAND: &'static str = "simulate";

    fn figures(&self) -> Vec<Figure> {
        let exact = |name: &str, value: f64| Figure::of_events(name, Some(value), Some(0.0));
        let executed = if self.with_calls { &self.functions } else { &self.rows };
        let sum = |of: fn(&Executed) -> f64| executed.iter().map(of).sum();
        let mut figures = vec![
            exact("instructions", self.instructions),
            // How often the range was entered is the program's choice.
            Figure { worse: None, ..exact("entries", self.entries) },
            exact("taken", sum(|row| row.taken)),
            exact("reads", sum(|row| row.reads)),
            exact("writes", sum(|row| row.writes)),
            exact("bytes", sum(|row| row.bytes)),
        ];
        let caches = self.caches.iter();
        figures.extend(caches.map(|cache| exact(&format!("misses.{}", cache.name), cache.misses)));
        figures
    }

    fn conditions(&self) -> Vec<(&'static str, String)> {
        let whole = || format!("{}, {} bytes", self.start, self.length);
        let scope = if self.with_calls { "with what it calls" } else { "the range alone" };
        let caches = self.caches.iter();
        let caches = caches.map(|one| format!("{} {}", one.name, thousands(one.bytes)));
        let caches: Vec<String> = caches.collect();
        vec![
            ("program", self.module.clone()),
            ("range", self.symbol.clone().unwrap_or_else(whole)),
            ("scope", scope.to_owned()),
            ("caches", caches.join(", ")),
        ]
    }

    fn is_cut(&self) -> bool {
        !self.complete
    }

    fn is_repeated(&self) -> bool {
        true
    }
}

fn command(options: &args::Simulate, output: &Output) -> Result<Command> {
    let (name, arguments) = options
        .program
        .split_first()
        .ok_or_else(|| Error::usage("no program to run", "Name one after `--`."))?;
    let mut command = Command::new(name);
    command.args(arguments);
    if !output.is_text() && options.output.file().is_none() {
        command.stdout(Stdio::from(io::stderr()));
    }
    Ok(command)
}

/// The requested processor in words, and its caches.
fn caches(machine: Option<&str>) -> Result<(String, Vec<Geometry>)> {
    let Some(machine) = machine else {
        let caches = Geometry::from_cpuid(|leaf, subleaf| {
            let value = raw_cpuid::native_cpuid::cpuid_count(leaf, subleaf);
            [value.eax, value.ebx, value.ecx, value.edx]
        });
        return Ok(("this machine's".to_owned(), caches));
    };
    let spec = halprof_measure::spec(machine)?;
    let leaves = spec.leaves.first().ok_or_else(|| {
        Error::usage("`--machine` has no processor", "Name a dump or a built-in model.")
    })?;
    let caches = Geometry::from_cpuid(|leaf, subleaf| {
        let value = leaves.get(leaf, subleaf);
        [value.eax, value.ebx, value.ecx, value.edx]
    });
    Ok((format!("those of {}", spec.description), caches))
}

/// A count; empty for 0, so that the others stand out.
fn count(count: u64) -> String {
    if count == 0 { String::new() } else { thousands(count) }
}

fn misses(counts: &Counts, cache: &str) -> String {
    count(counts.misses.get(cache).copied().unwrap_or(0))
}

impl Record for Counts {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("executed"), |counts| thousands(counts.executions)),
        Field::new(Column::number("iterations").extra(), |counts| count(counts.iterations)),
        Field::new(Column::number("taken"), |counts| count(counts.taken)),
        Field::new(Column::number("reads"), |counts| count(counts.reads)),
        Field::new(Column::number("writes"), |counts| count(counts.writes)),
        Field::new(Column::number("bytes"), |counts| count(counts.bytes)),
        Field::new(Column::number("misaligned").extra(), |counts| count(counts.misaligned)),
        Field::new(Column::number("L1D*").extra(), |counts| misses(counts, "L1D")),
        Field::new(Column::number("L1I*").extra(), |counts| misses(counts, "L1I")),
        Field::new(Column::number("L2*").extra(), |counts| misses(counts, "L2")),
        Field::new(Column::number("L3*").extra(), |counts| misses(counts, "L3")),
        Field::new(Column::number("L4*").extra(), |counts| misses(counts, "L4")),
    ];
}

const INSTRUCTION: [Column<'static>; 3] =
    [Column::word("address"), Column::name("instruction"), Column::name("line").extra()];

/// The cells of counts, and others after them.
fn cells<const N: usize>(counts: &Counts, more: [String; N]) -> Vec<String> {
    Counts::COLUMNS.iter().map(|field| (field.cell)(counts)).chain(more).collect()
}

fn columns(more: &[Column<'static>]) -> Vec<Column<'static>> {
    Counts::COLUMNS.iter().map(|field| field.column).chain(more.iter().copied()).collect()
}

/// Each source line stands beside the first of its instructions.
fn by_instruction(rows: &[InstructionRow], width: Width) -> String {
    let mut last = None;
    let rows = rows.iter().map(|row| {
        let source = row.file.as_deref().zip(row.line);
        let line = match source {
            Some((file, line)) if source != last => format!("{}:{line}", short_path(file)),
            _ => String::new(),
        };
        last = source;
        cells(&row.counts, [format!("{:x}", row.address), instruction(row), line])
    });
    table(width, &columns(&INSTRUCTION), rows)
}

/// The most functions that an instruction is shown to have called.
const TARGETS: usize = 2;

/// An instruction, and what it called.
fn instruction(row: &InstructionRow) -> String {
    let mut names: Vec<&str> = row.calls.iter().map(|target| target.name.as_str()).collect();
    let more = names.len().saturating_sub(TARGETS);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    names.truncate(TARGETS);
    match names.as_slice() {
        [] => row.instruction.clone(),
        names => format!("{} ; {}{more}", row.instruction, Escaped(names.join(", "))),
    }
}

/// The most functions below the instructions.
const FUNCTIONS: usize = 20;

fn by_function(functions: &[FunctionRow], keep: usize, width: Width) -> String {
    const MORE: [Column<'static>; 2] = [Column::number("calls"), Column::name("function")];
    let rows = functions.iter().take(keep).map(|row| {
        let symbol = row.symbol.as_deref().unwrap_or("(no name)");
        let module = row.module.as_deref().unwrap_or("(no file)");
        cells(&row.counts, [count(row.calls), qualified(module, symbol)])
    });
    let more = functions.len().saturating_sub(keep);
    let table = table(width, &columns(&MORE), rows);
    if more == 0 {
        return table;
    }
    format!("{table}{} more functions: `--by function` prints all\n", thousands(more as u64))
}

fn by_line(rows: &[LineRow], width: Width) -> String {
    let rows = rows
        .iter()
        .map(|row| cells(&row.counts, [format!("{}:{}", short_path(&row.file), row.line)]));
    table(width, &columns(&[Column::name("line")]), rows)
}

fn text(result: &SimulateResult, table: &str, width: Width) -> String {
    format!("{}\n{table}\n{}", header(result, width), footer(result, width))
}

fn header(result: &SimulateResult, width: Width) -> String {
    let name = result.symbol.as_ref().unwrap_or(&result.start);
    let name = Escaped(qualified(&result.module, name)).to_string();
    let calls = match result.outcome.calls {
        _ if result.with_calls => {
            let own: u64 = result.rows.iter().map(|row| row.counts.executions).sum();
            format!(", {} of them its own", thousands(own))
        }
        0 => String::new(),
        calls => format!("; {} out of it ran at full speed", counted(calls, "call", "calls")),
    };
    let counts = format!(
        "{} in {}{calls}. The counts are exact.",
        counted(result.instructions, "instruction", "instructions"),
        passes(&result.outcome),
    );
    let range = format!("at {}, {} bytes", result.start, thousands(result.length));
    format!("{} {range}\n{}\n", width.left(range.len() + 1, &name), width.prose(0, &counts))
}

/// How often the range was entered; the program may have been ended in it.
fn passes(outcome: &Outcome) -> String {
    match (outcome.entries, outcome.unfinished) {
        (0, 1..) => "an unfinished pass".to_owned(),
        (entries, unfinished) if outcome.complete || unfinished == 0 => {
            counted(entries, "pass", "passes")
        }
        (0 | 1, _) => "an unfinished pass".to_owned(),
        (entries, unfinished) => {
            format!("{} passes, {} unfinished", thousands(entries), thousands(unfinished))
        }
    }
}

fn footer(result: &SimulateResult, width: Width) -> String {
    let caches: Vec<String> = result
        .caches
        .iter()
        .map(|cache| {
            format!(
                "{} {} KiB {}-way: misses {} of {}",
                cache.name,
                cache.bytes >> 10,
                cache.associativity,
                thousands(cache.misses),
                thousands(cache.accesses)
            )
        })
        .collect();
    let modelled = if caches.is_empty() {
        "* modelled: no caches: CPUID reports none.".to_owned()
    } else {
        format!(
            "* modelled: caches like {}, empty at the start ({}).",
            Escaped(&result.processor),
            caches.join("; ")
        )
    };
    let not_simulated = format!("Not simulated: {}.", result.not_simulated);
    format!("{}\n{}\n", width.prose(0, &modelled), width.prose(0, &not_simulated))
}
