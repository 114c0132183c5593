//! `halprof doctor --prove`: does a counter count what happens? Runs of a loop whose instructions are
//! known are counted, on one processor after the other, and what was counted is compared.

use crate::cli::args::{Proved, Selection};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use crate::output::table::{Column, Field, Record, Width, records};
use crate::run::interrupt::{interrupted, watch_for_interrupt};
use crate::select::event_set::{EventSet, Purpose};
use crate::target::context::Context;
use halprof_measure::Session;
use halprof_measure::float::float;
use indicatif::ProgressBar;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::collections::BTreeSet;

/// Equal runs on each processor.
const RUNS: usize = 5;
/// The loop of a real processor: about a quarter of a second.
#[cfg(windows)]
const INSTRUCTIONS: u64 = 1_000_000_000;
/// The loop of a model, which takes as long to compute.
const MODELLED_INSTRUCTIONS: u64 = 10_000_000;
const MODELLED_CYCLES: u64 = 15_000_000;

/// How far a count may be from the loop's instructions: what the thread executes to start and stop
/// counting is less than that.
const COUNT_TOLERANCE: f64 = 1e-4;
/// How far equal runs may be apart.
const REPEAT_TOLERANCE: f64 = 0.01;
/// Cycles a second, as parts of the time-stamp counter's rate: idle and turbo frequencies are within.
const CLOCK: std::ops::RangeInclusive<f64> = 0.25..=1.5;

/// What the counters counted of a known loop.
#[derive(JsonSchema, Serialize)]
pub(super) struct Proof {
    /// Whether Ctrl-C ended it before all was counted.
    interrupted: bool,
    /// The processors on which the loop ran.
    processors: Vec<Proven>,
    pub(super) answers: Vec<Answer>,
    #[serde(skip)]
    modelled: bool,
}

/// A processor, as its CPUID describes it.
#[derive(JsonSchema, Serialize)]
struct Proven {
    processor: u32,
    group: u16,
    vendor: String,
    family: u16,
    model: u16,
    stepping: u8,
    core_type: u8,
    pmu_version: u8,
    counters: u8,
    counter_width: u8,
    fixed_counters: u8,
    fixed_width: u8,
    hypervisor: String,
}

/// The answer to a question about the counters of a processor.
#[derive(JsonSchema, Serialize)]
pub(super) struct Answer {
    processor: u32,
    question: Question,
    verdict: Verdict,
    /// What was compared, or why nothing could be.
    found: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Question {
    Instructions,
    Clock,
    Repeats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    Agrees,
    Disagrees,
    CannotTell,
}

/// One run of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    /// What the loop has.
    known: u64,
    /// In user mode.
    instructions: u64,
    cycles: u64,
    elapsed_ns: u64,
}

impl Proof {
    /// Counts on the processors that are meant.
    pub(super) fn new(which: Proved, ctx: &mut Context, output: &Output) -> Self {
        watch_for_interrupt();
        let chosen = chosen(which, &ctx.machine.processors);
        let progress = output.progress(Some((chosen.len() * RUNS) as u64));
        let (mut processors, mut answers) = (Vec::new(), Vec::new());
        for processor in &chosen {
            if interrupted() {
                break;
            }
            let runs = runs(processor, ctx, &progress);
            processors.push(Proven::of(processor));
            answers.extend(all_answers(processor.index, &runs, ctx.machine.frequency()));
        }
        progress.finish_and_clear();
        Self { interrupted: interrupted(), processors, answers, modelled: output.is_modelled() }
    }

    pub(super) fn disagrees(&self) -> bool {
        self.answers.iter().any(|answer| answer.verdict == Verdict::Disagrees)
    }

    pub(super) fn text(&self, width: Width) -> String {
        let of = if self.modelled { " This is a modelled machine, not silicon." } else { "" };
        let mut text = width.fitted(&format!("\nDo the counters count what happens?{of}\n"));
        text += &records(width, &self.answers);
        for one in &self.processors {
            text += &width.fitted(&format!("{one}\n"));
        }
        if self.interrupted {
            text += "Ended by Ctrl-C: the other processors were not tried.\n";
        }
        text
    }
}

/// One of each type and the first and the last of each group, or all, in their order.
fn chosen(which: Proved, all: &[Processor]) -> Vec<Processor> {
    let mut indexes = BTreeSet::new();
    let mut first_of = |key: &dyn Fn(&Processor) -> u32,
                        all: &mut dyn Iterator<Item = &Processor>| {
        let mut known = BTreeSet::new();
        indexes.extend(all.filter(|one| known.insert(key(one))).map(|one| one.index));
    };
    first_of(&|one| one.cpu_type.into(), &mut all.iter());
    first_of(&|one| one.group.into(), &mut all.iter());
    first_of(&|one| one.group.into(), &mut all.iter().rev());
    let is_chosen = |one: &&Processor| which == Proved::All || indexes.contains(&one.index);
    all.iter().filter(is_chosen).copied().collect()
}

/// The runs on a processor until Ctrl-C, or why the loop cannot be counted there.
fn runs(processor: &Processor, ctx: &mut Context, progress: &ProgressBar) -> Result<Vec<Counted>> {
    let selection = Selection {
        events: vec!["instructions:u,cycles".to_owned()],
        processors: vec![processor.index.to_string()],
        ..Selection::default()
    };
    let event_set = EventSet::new(&selection, ctx, Purpose::CountBeside)?;
    let mut all = Vec::new();
    while all.len() < RUNS && !interrupted() {
        let run = run(processor, &event_set, ctx).map_err(|error| event_set.explain(error))?;
        all.push(run);
        progress.inc(1);
    }
    Ok(all)
}

/// Counts one run.
fn run(processor: &Processor, event_set: &EventSet, ctx: &mut Context) -> Result<Counted> {
    let (indexes, model) = (event_set.indexes(), ctx.model.clone());
    let mut session = Session::open(&mut ctx.connection, true, false)?;
    session.configure(&event_set.setup_of(&indexes), false)?;
    let (known, elapsed_ns, counts) = match model {
        Some(model) => {
            session.start()?;
            let workload = format!(
                "instructions={MODELLED_INSTRUCTIONS},cycles={MODELLED_CYCLES},processors={}",
                processor.index
            );
            let workload = sim::load::workload::parse(&workload);
            model.begin(&workload.map_err(Error::internal)?);
            while model.advance(MODELLED_CYCLES)? {}
            (MODELLED_INSTRUCTIONS, model.elapsed_ns(), session.stop_and_read()?)
        }
        None => real_run(processor, &mut session)?,
    };
    let counts = event_set.counts(&indexes, &counts);
    let own = counts.get(processor.index as usize).map(Vec::as_slice);
    let Some([instructions, cycles]) = own else {
        return Err(Error::internal("two sources have two counts"));
    };
    let whole = |count: &Count| count.enabled != 0 && count.running == count.enabled;
    if !whole(instructions) || !whole(cycles) {
        return Err(Error::unavailable(
            "a counter was not there all the time, so the counts are estimates",
            "Try again when nothing else uses the counters.",
        ));
    }
    let (instructions, cycles) = (instructions.counted, cycles.counted);
    Ok(Counted { known, instructions, cycles, elapsed_ns })
}

/// The loop's instructions, how long it took, and all counts.
type RealRun = (u64, u64, Vec<Vec<Count>>);

/// Runs the loop on this thread, which stays on the processor.
#[cfg(windows)]
fn real_run(
    processor: &Processor,
    session: &mut Session<'_, crate::target::backend::Backend>,
) -> Result<RealRun> {
    use halprof_setup::windows::affinity::Pinned;
    let _pinned = Pinned::to(processor.group, processor.number).ok_or_else(cannot_stay)?;
    session.start()?;
    let began = std::time::Instant::now();
    let known = halprof_measure::known_loop(INSTRUCTIONS).ok_or_else(cannot_stay)?;
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok((known, elapsed_ns, session.stop_and_read()?))
}

#[cfg(not(windows))]
fn real_run(
    _processor: &Processor,
    _session: &mut Session<'_, crate::target::backend::Backend>,
) -> Result<RealRun> {
    Err(cannot_stay())
}

fn cannot_stay() -> Error {
    Error::unavailable(
        "a thread cannot be kept on this processor",
        "`--prove` needs Windows on x64, and a processor on which this account may run.",
    )
}

/// The answers to all questions about a processor.
fn all_answers(
    processor: u32,
    runs: &Result<Vec<Counted>>,
    frequency: u64,
) -> impl Iterator<Item = Answer> {
    let answers = match runs {
        Ok(runs) if !runs.is_empty() => [instructions(runs), clock(runs, frequency), repeats(runs)],
        Ok(_) => [(); 3].map(|()| (Verdict::CannotTell, "it did not run".to_owned())),
        Err(error) => [(); 3].map(|()| (Verdict::CannotTell, error.to_string())),
    };
    let questions = [Question::Instructions, Question::Clock, Question::Repeats];
    questions.into_iter().zip(answers).map(move |(question, (verdict, found))| Answer {
        processor,
        question,
        verdict,
        found,
    })
}

/// Others that run on the processor meanwhile can only add to a count, so the smallest is nearest.
fn instructions(runs: &[Counted]) -> (Verdict, String) {
    let off = |run: &Counted| float(run.instructions) / float(run.known) - 1.0;
    let all = sorted(runs.iter().map(off));
    let (Some(&least), Some(&most)) = (all.first(), all.last()) else {
        return (Verdict::CannotTell, String::new());
    };
    let nearest = runs.iter().map(|run| (run.instructions, run.known)).min();
    let (counted, known) = nearest.unwrap_or_default();
    let found = format!("{} of {} ({:+.4} %)", thousands(counted), thousands(known), least * 100.0);
    // Nobody else adds the same each time.
    let is_steady = most - least <= COUNT_TOLERANCE;
    if least.abs() <= COUNT_TOLERANCE {
        (Verdict::Agrees, found)
    } else if least < 0.0 || is_steady {
        (Verdict::Disagrees, found)
    } else {
        (Verdict::CannotTell, format!("{found}: other programs ran there in each run"))
    }
}

fn clock(runs: &[Counted], frequency: u64) -> (Verdict, String) {
    let rates = runs.iter().filter(|run| run.elapsed_ns != 0);
    let rates = sorted(rates.map(|run| float(run.cycles) / float(run.elapsed_ns)));
    let Some(rate) = median(&rates).filter(|_| frequency != 0) else {
        return (Verdict::CannotTell, "the time-stamp counter's rate is not known".to_owned());
    };
    let timestamp = float(frequency) / 1e9;
    let found = format!("{rate:.3} GHz by cycles, time-stamp counter {timestamp:.3} GHz");
    let is_within = CLOCK.contains(&(rate / timestamp));
    (if is_within { Verdict::Agrees } else { Verdict::Disagrees }, found)
}

fn repeats(runs: &[Counted]) -> (Verdict, String) {
    let cycles = sorted(runs.iter().map(|run| float(run.cycles)));
    let Some(middle) = median(&cycles).filter(|_| runs.len() == RUNS) else {
        return (Verdict::CannotTell, format!("{} of {RUNS} runs were counted", runs.len()));
    };
    if middle == 0.0 {
        return (Verdict::Disagrees, "no cycles in most of the runs".to_owned());
    }
    let apart = sorted(cycles.iter().map(|cycles| (cycles / middle - 1.0).abs()));
    let apart = median(&apart).unwrap_or(0.0);
    let verdict = if apart <= REPEAT_TOLERANCE { Verdict::Agrees } else { Verdict::Disagrees };
    (verdict, format!("cycles of {RUNS} equal runs are {:.2} % apart (median)", apart * 100.0))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

impl Proven {
    fn of(processor: &Processor) -> Self {
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
        Self {
            processor: processor.index,
            group: processor.group,
            vendor: name(&processor.vendor),
            family: processor.family,
            model: processor.model,
            stepping: processor.stepping,
            core_type: processor.core_type,
            pmu_version: processor.pmu_version,
            counters: processor.counters,
            counter_width: processor.counter_width,
            fixed_counters: processor.fixed_counters,
            fixed_width: processor.fixed_width,
            hypervisor: name(&processor.hypervisor),
        }
    }
}

impl std::fmt::Display for Proven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "CPUID of processor {}, group {}: {} family {:#x} model {:#x} stepping {}, core type {:#x}, \
             PMU version {}, {} counters of {} bits, {} fixed of {}",
            self.processor,
            self.group,
            self.vendor,
            self.family,
            self.model,
            self.stepping,
            self.core_type,
            self.pmu_version,
            self.counters,
            self.counter_width,
            self.fixed_counters,
            self.fixed_width
        )?;
        match self.hypervisor.as_str() {
            "" => Ok(()),
            hypervisor => write!(f, ", hypervisor {hypervisor}"),
        }
    }
}

impl Record for Answer {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("processor"), |answer| answer.processor.to_string()),
        Field::new(Column::word("question"), |answer| {
            let name = match answer.question {
                Question::Instructions => "instructions",
                Question::Clock => "clock",
                Question::Repeats => "repeats",
            };
            name.to_owned()
        }),
        Field::new(Column::word("verdict"), |answer| {
            let verdict = match answer.verdict {
                Verdict::Agrees => "agrees",
                Verdict::Disagrees => "DISAGREES",
                Verdict::CannotTell => "cannot tell",
            };
            verdict.to_owned()
        }),
        Field::new(Column::prose("found"), |answer| answer.found.clone()),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(instructions: u64, cycles: u64) -> Counted {
        Counted { known: 1_000_000, instructions, cycles, elapsed_ns: 1_000_000 }
    }

    #[test]
    fn each_question_has_three_answers() {
        use Verdict::{Agrees, CannotTell, Disagrees};
        let of = |all: [u64; RUNS]| instructions(&all.map(|count| counted(count, 1))).0;
        assert_eq!(of([1_000_050, 1_300_000, 1_000_090, 1_000_060, 1_010_000]), Agrees);
        assert_eq!(of([999_800, 1_000_000, 1_000_000, 1_000_000, 1_000_000]), Disagrees);
        // A second count of some, every time; and others that ran, which differ.
        assert_eq!(of([1_001_000; RUNS]), Disagrees);
        assert_eq!(of([1_001_000, 1_002_000, 1_003_000, 1_004_000, 1_005_000]), CannotTell);
        assert_eq!(of([0; RUNS]), Disagrees);

        let of = |cycles, frequency| clock(&[counted(1, cycles); RUNS], frequency).0;
        for (cycles, frequency, right) in [
            (1_000_000, 1_000_000_000, Agrees),
            (250_000, 1_000_000_000, Agrees),
            (1_500_000, 1_000_000_000, Agrees),
            (240_000, 1_000_000_000, Disagrees),
            (1_510_000, 1_000_000_000, Disagrees),
            (1_000_000, 0, CannotTell),
        ] {
            assert_eq!(of(cycles, frequency), right, "{cycles} {frequency}");
        }

        let of = |all: &[u64]| {
            let runs: Vec<Counted> = all.iter().map(|&cycles| counted(1, cycles)).collect();
            repeats(&runs).0
        };
        assert_eq!(of(&[1000, 1009, 991, 1000, 5000]), Agrees);
        assert_eq!(of(&[1000, 1020, 980, 1500, 500]), Disagrees);
        assert_eq!(of(&[0; RUNS]), Disagrees);
        assert_eq!(of(&[1000; 4]), CannotTell);
        let refused: Vec<Answer> = all_answers(3, &Err(cannot_stay()), 1).collect();
        assert!(refused.len() == 3 && refused.iter().all(|one| one.verdict == CannotTell));
    }

    #[test]
    fn types_and_the_ends_of_groups_are_chosen() {
        let processor = |index: u32, group, cpu_type| Processor {
            index,
            group,
            cpu_type,
            ..Processor::default()
        };
        let all: Vec<Processor> =
            (0..12).map(|n| processor(n, (n / 6) as u16, u8::from(n % 6 >= 3))).collect();
        let indexes =
            |which| -> Vec<u32> { chosen(which, &all).into_iter().map(|one| one.index).collect() };
        assert_eq!(indexes(Proved::Some), [0, 3, 5, 6, 11]);
        assert_eq!(indexes(Proved::All).len(), 12);
    }
}
