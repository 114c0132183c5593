//! `halprof doctor --prove`: does a counter count what happens? Runs of a loop whose instructions are
//! known are counted, on one processor after the other, and what was counted is compared.

mod by_tracing;

use crate::cli::args::{Proved, Selection};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use crate::output::table::{Column, Field, Record, Width, records};
use crate::run::interrupt::{interrupted, watch_for_interrupt};
use crate::select::event_set::{EventSet, Purpose};
use crate::target::backend::Model;
use crate::target::context::Context;
use crate::target::limits::MeasuredBy;
use halprof_measure::Session;
use halprof_measure::float::float;
use halprof_measure::tracing::session::Tracing;
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

/// How far a count may be from the loop's instructions, as fractions of these.
#[derive(Clone, Copy)]
struct Tolerance {
    below: f64,
    above: f64,
}

/// What the thread executes in user mode to start and stop counting is less than that.
const BY_DRIVER: Tolerance = Tolerance { below: 1e-4, above: 1e-4 };
/// The slices of the thread have all of the loop, and what interrupts it.
const BY_TRACING: Tolerance = Tolerance { below: 0.0, above: 0.02 };
/// How far equal runs may be apart.
const REPEAT_TOLERANCE: f64 = 0.01;
/// Cycles a second, as parts of the time-stamp counter's rate: idle and turbo frequencies are within.
const CLOCK: std::ops::RangeInclusive<f64> = 0.25..=1.5;

/// What the counters counted of a known loop.
#[derive(JsonSchema, Serialize)]
pub(super) struct Proof {
    /// Whether Ctrl-C ended it before all was counted.
    interrupted: bool,
    method: Method,
    /// The processors on which the loop ran.
    processors: Vec<Proven>,
    pub(super) answers: Vec<Answer>,
    #[serde(skip)]
    modelled: bool,
}

/// What counted.
#[derive(Clone, Copy, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Method {
    Driver,
    Tracing,
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
    /// In user mode; by tracing in both modes.
    instructions: u64,
    /// `None` where Windows lists no source of cycles.
    cycles: Option<u64>,
    elapsed_ns: u64,
    /// The ticks of the time-stamp counter in this time, on a real processor.
    ticks: Option<u64>,
}

impl Proof {
    /// Counts on the processors that are meant.
    pub(super) fn new(which: Proved, ctx: &mut Context, output: &Output) -> Self {
        watch_for_interrupt();
        let method = match ctx.method {
            MeasuredBy::Tracing => Method::Tracing,
            MeasuredBy::Driver | MeasuredBy::Recording => Method::Driver,
        };
        let mut tracing = ctx.tracing.take();
        let chosen = chosen(which, &ctx.machine.processors);
        let progress = output.progress(Some((chosen.len() * RUNS) as u64));
        let (mut processors, mut answers) = (Vec::new(), Vec::new());
        for processor in &chosen {
            if interrupted() {
                break;
            }
            let runs = runs(processor, ctx, tracing.as_deref_mut(), &progress);
            processors.push(Proven::of(processor));
            // Of a real processor only the driver says the time-stamp counter's rate.
            let is_told = ctx.model.is_some() || matches!(method, Method::Driver);
            let frequency = is_told.then(|| ctx.machine.frequency());
            answers.extend(all_answers(processor.index, &runs, frequency, method.tolerance()));
        }
        progress.finish_and_clear();
        let (interrupted, modelled) = (interrupted(), output.is_modelled());
        Self { interrupted, method, processors, answers, modelled }
    }

    pub(super) fn disagrees(&self) -> bool {
        self.answers.iter().any(|answer| answer.verdict == Verdict::Disagrees)
    }

    pub(super) fn text(&self, width: Width) -> String {
        let of = if self.modelled { " This is a modelled machine, not silicon." } else { "" };
        let by = match self.method {
            Method::Driver => "the driver",
            Method::Tracing => "Windows' own tracing",
        };
        let mut text =
            width.fitted(&format!("\nDo the counters count what happens? Counted by {by}.{of}\n"));
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

impl Method {
    const fn tolerance(self) -> Tolerance {
        match self {
            Self::Driver => BY_DRIVER,
            Self::Tracing => BY_TRACING,
        }
    }
}

/// The runs on a processor until Ctrl-C, or why the loop cannot be counted there.
fn runs(
    processor: &Processor,
    ctx: &mut Context,
    tracing: Option<&mut (dyn Tracing + 'static)>,
    progress: &ProgressBar,
) -> Result<Vec<Counted>> {
    let mut count: Box<dyn FnMut() -> Result<Counted> + '_> = if let Some(tracing) = tracing {
        let sources = by_tracing::Sources::of(tracing)?;
        let model = ctx.model.clone();
        Box::new(move || by_tracing::run(processor, &sources, tracing, model.as_ref()))
    } else {
        let selection = Selection {
            events: vec!["instructions:u,cycles".to_owned()],
            processors: vec![processor.index.to_string()],
            ..Selection::default()
        };
        let event_set = EventSet::new(&selection, ctx, Purpose::CountBeside)?;
        Box::new(move || run(processor, &event_set, ctx).map_err(|error| event_set.explain(error)))
    };
    let mut all = Vec::new();
    while all.len() < RUNS && !interrupted() {
        all.push(count()?);
        progress.inc(1);
    }
    Ok(all)
}

/// The loop's instructions, and how long it took.
struct Looped {
    known: u64,
    elapsed_ns: u64,
    ticks: Option<u64>,
}

/// Counts one run by the driver.
fn run(processor: &Processor, event_set: &EventSet, ctx: &mut Context) -> Result<Counted> {
    let (indexes, model) = (event_set.indexes(), ctx.model.clone());
    let mut session = Session::open(&mut ctx.connection, true, false)?;
    session.configure(&event_set.setup_of(&indexes), false)?;
    let Looped { known, elapsed_ns, ticks } =
        looped(processor, model.as_ref(), &mut || Ok(session.start()?))?;
    let counts = event_set.counts(&indexes, &session.stop_and_read()?);
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
    let (instructions, cycles) = (instructions.counted, Some(cycles.counted));
    Ok(Counted { known, instructions, cycles, elapsed_ns, ticks })
}

/// Runs the loop on a processor after `start`.
fn looped(
    processor: &Processor,
    model: Option<&Model>,
    start: &mut dyn FnMut() -> Result<()>,
) -> Result<Looped> {
    let Some(model) = model else { return really_looped(processor, start) };
    start()?;
    let workload = format!(
        "instructions={MODELLED_INSTRUCTIONS},cycles={MODELLED_CYCLES},processors={}",
        processor.index
    );
    model.begin(&sim::load::workload::parse(&workload).map_err(Error::internal)?);
    while model.advance(MODELLED_CYCLES)? {}
    Ok(Looped { known: MODELLED_INSTRUCTIONS, elapsed_ns: model.elapsed_ns(), ticks: None })
}

/// Runs the loop on this thread, which stays on the processor.
#[cfg(windows)]
fn really_looped(processor: &Processor, start: &mut dyn FnMut() -> Result<()>) -> Result<Looped> {
    use halprof_setup::windows::affinity::Pinned;
    let _pinned = Pinned::to(processor.group, processor.number).ok_or_else(cannot_stay)?;
    start()?;
    let clock = halprof_measure::Clock::here();
    let (began, first) = (std::time::Instant::now(), clock.before());
    let known = halprof_measure::known_loop(INSTRUCTIONS).ok_or_else(cannot_stay)?;
    let ticks = clock.after().checked_sub(first);
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(Looped { known, elapsed_ns, ticks })
}

#[cfg(not(windows))]
fn really_looped(_processor: &Processor, _start: &mut dyn FnMut() -> Result<()>) -> Result<Looped> {
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
    frequency: Option<u64>,
    tolerance: Tolerance,
) -> impl Iterator<Item = Answer> {
    let answers = match runs {
        Ok(runs) if !runs.is_empty() => {
            [instructions(runs, tolerance), clock(runs, frequency), repeats(runs)]
        }
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
fn instructions(runs: &[Counted], tolerance: Tolerance) -> (Verdict, String) {
    let off = |run: &Counted| float(run.instructions) / float(run.known) - 1.0;
    let all = sorted(runs.iter().map(off));
    let (Some(&least), Some(&most)) = (all.first(), all.last()) else {
        return (Verdict::CannotTell, String::new());
    };
    let nearest = runs.iter().map(|run| (run.instructions, run.known)).min();
    let (counted, known) = nearest.unwrap_or_default();
    let found = format!("{} of {} ({:+.4} %)", thousands(counted), thousands(known), least * 100.0);
    // Nobody else adds the same each time.
    let is_steady = most - least <= tolerance.above;
    if (-tolerance.below..=tolerance.above).contains(&least) {
        (Verdict::Agrees, found)
    } else if least < 0.0 || is_steady {
        (Verdict::Disagrees, found)
    } else {
        (Verdict::CannotTell, format!("{found}: other code ran there in each run"))
    }
}

/// `frequency`: the time-stamp counter's; if it is not told, that of the runs.
fn clock(runs: &[Counted], frequency: Option<u64>) -> (Verdict, String) {
    if cycles(runs).is_none() {
        return no_cycles();
    }
    let timed = || runs.iter().filter(|run| run.elapsed_ns != 0);
    let rate = |of: &dyn Fn(&Counted) -> Option<u64>| {
        let rates = timed().filter_map(|run| Some(float(of(run)?) / float(run.elapsed_ns)));
        median(&sorted(rates))
    };
    let told = frequency.filter(|&frequency| frequency != 0).map(|hertz| float(hertz) / 1e9);
    let rates = rate(&|run| run.cycles).zip(told.or_else(|| rate(&|run| run.ticks)));
    let Some((rate, timestamp)) = rates else {
        return (Verdict::CannotTell, "the time-stamp counter's rate is not known".to_owned());
    };
    let found = format!("{rate:.3} GHz by cycles, time-stamp counter {timestamp:.3} GHz");
    let is_within = CLOCK.contains(&(rate / timestamp));
    (if is_within { Verdict::Agrees } else { Verdict::Disagrees }, found)
}

/// The cycles of all runs; `None` where they are not counted.
fn cycles(runs: &[Counted]) -> Option<impl Iterator<Item = u64> + '_> {
    let cycles = || runs.iter().filter_map(|run| run.cycles);
    (cycles().count() == runs.len()).then(cycles)
}

fn no_cycles() -> (Verdict, String) {
    (Verdict::CannotTell, "Windows lists no source of cycles here".to_owned())
}

fn repeats(runs: &[Counted]) -> (Verdict, String) {
    let Some(cycles) = cycles(runs) else { return no_cycles() };
    let cycles = sorted(cycles.map(float));
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
        let (known, elapsed_ns) = (1_000_000, 1_000_000);
        Counted { known, instructions, cycles: Some(cycles), elapsed_ns, ticks: None }
    }

    #[test]
    fn each_question_has_three_answers() {
        use Verdict::{Agrees, CannotTell, Disagrees};
        let by = |tolerance| {
            move |all: [u64; RUNS]| instructions(&all.map(|count| counted(count, 1)), tolerance).0
        };
        let of = by(BY_DRIVER);
        assert_eq!(of([1_000_050, 1_300_000, 1_000_090, 1_000_060, 1_010_000]), Agrees);
        assert_eq!(of([999_800, 1_000_000, 1_000_000, 1_000_000, 1_000_000]), Disagrees);
        // A second count of some, every time; and others that ran, which differ.
        assert_eq!(of([1_001_000; RUNS]), Disagrees);
        assert_eq!(of([1_001_000, 1_002_000, 1_003_000, 1_004_000, 1_005_000]), CannotTell);
        assert_eq!(of([0; RUNS]), Disagrees);
        // The slices of a thread have the loop and some more.
        let of = by(BY_TRACING);
        assert_eq!(of([1_000_000, 1_100_000, 1_000_000, 1_003_000, 1_090_000]), Agrees);
        assert_eq!(of([1_019_000, 1_100_000, 1_030_000, 1_050_000, 1_090_000]), Agrees);
        assert_eq!(of([999_999, 1_000_000, 1_000_000, 1_000_000, 1_000_000]), Disagrees);
        assert_eq!(of([1_050_000, 1_051_000, 1_052_000, 1_051_000, 1_050_000]), Disagrees);
        assert_eq!(of([1_050_000, 1_200_000, 1_100_000, 1_090_000, 1_050_000]), CannotTell);

        let of = |cycles, frequency| clock(&[counted(1, cycles); RUNS], Some(frequency)).0;
        for (cycles, frequency, right) in [
            (1_000_000, 1_000_000_000, Agrees),
            (250_000, 1_000_000_000, Agrees),
            (1_500_000, 1_000_000_000, Agrees),
            (240_000, 1_000_000_000, Disagrees),
            (1_510_000, 1_000_000_000, Disagrees),
            (1_000_000, 0, CannotTell),
        ] {
            assert_eq!(of(cycles, frequency), right, "{cycles} {frequency}");
            let ticks = (frequency != 0).then_some(frequency / 1000);
            let timed = Counted { ticks, ..counted(1, cycles) };
            assert_eq!(clock(&[timed; RUNS], None).0, right, "{cycles} {frequency}");
        }

        let of = |all: &[u64]| {
            let runs: Vec<Counted> = all.iter().map(|&cycles| counted(1, cycles)).collect();
            repeats(&runs).0
        };
        assert_eq!(of(&[1000, 1009, 991, 1000, 5000]), Agrees);
        assert_eq!(of(&[1000, 1020, 980, 1500, 500]), Disagrees);
        assert_eq!(of(&[0; RUNS]), Disagrees);
        assert_eq!(of(&[1000; 4]), CannotTell);
        let without = [Counted { cycles: None, ..counted(1_000_000, 0) }; RUNS];
        assert_eq!([clock(&without, Some(1)).0, repeats(&without).0], [CannotTell; 2]);
        let refused: Vec<Answer> =
            all_answers(3, &Err(cannot_stay()), Some(1), BY_DRIVER).collect();
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
