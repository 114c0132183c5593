//! `halprof stat`: count.

use super::On;
use super::args;
use super::measure::{Choice, NANOSECONDS_MAX, nanoseconds, positive, rotation};
use super::output::{Output, seconds};
use super::periods::{self, Period};
use super::runner::{Runner, interrupted};
use super::stat_text;
use crate::estimate::{Estimate, mean_and_deviation, since};
use crate::metrics::{self, Derived};
use crate::recording::write_whole;
use crate::selection::{Chosen, format_processors};
use crate::{Error, Result, Session};
use serde::Serialize;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;

/// Steps of modelled time double from here, so that Ctrl-C is soon heard and long workloads end.
const FIRST_STEP_NS: u64 = 1_000_000_000;
/// How often a real machine is looked at.
const REAL_STEP_NS: u64 = 50_000_000;

#[derive(Serialize)]
pub(super) struct Body {
    pub(super) machine: String,
    /// Of one measurement; the mean of repeated ones.
    pub(super) elapsed_ns: u128,
    pub(super) interrupted: bool,
    /// Turns of the rotation that the busiest processor needs.
    pub(super) turns: u32,
    pub(super) counts: Vec<Row>,
    pub(super) derived: Vec<Figure>,
    /// Of time, and of sources that were given one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) periods: Vec<Period>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) intervals: Vec<Interval>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) runs: Vec<Run>,
}

#[derive(Clone, Serialize)]
pub(super) struct Row {
    pub(super) source: String,
    pub(super) processor: Option<u32>,
    pub(super) value: u128,
    pub(super) counted: u128,
    pub(super) enabled_ns: u128,
    pub(super) running_ns: u128,
    pub(super) scaled: bool,
    pub(super) error: Option<f64>,
    /// Standard deviation over repeated measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deviation: Option<f64>,
    /// Processors that cannot count it and are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) filter: &'static str,
}

#[derive(Serialize)]
pub(super) struct Interval {
    pub(super) time_ns: u64,
    pub(super) counts: Vec<Row>,
}

#[derive(Serialize)]
pub(super) struct Run {
    pub(super) elapsed_ns: u64,
    pub(super) counts: Vec<Row>,
}

/// One measurement: for each processor, one count for each source.
struct Measured {
    elapsed_ns: u64,
    turns: u32,
    periods: Vec<Period>,
    counts: Vec<Vec<Count>>,
    intervals: Vec<Interval>,
}

/// How counts become rows.
struct View<'a> {
    choice: &'a Choice,
    frequency: u64,
    per_cpu: bool,
    /// Intervals are printed as they come.
    live: bool,
}

pub(super) fn run(options: &args::Stat, on: &mut On, output: &Output) -> Result<u8> {
    if options.csv && output.is_json() {
        let message = "`--csv` and `--json` together";
        return Err(Error::usage(message, "Ask for one of them."));
    }
    let interval = |value| positive("--interval", value, 1e6, NANOSECONDS_MAX);
    let interval = options.interval.map(interval).transpose()?;
    let rotation = rotation(&options.work)?;
    let mut choice = Choice::of(&options.selection, on, true)?;
    choice.setup.rotation = rotation;
    let mut runner = Runner::new(&options.work, on, choice.processor_count())?;
    let view = View {
        choice: &choice,
        frequency: on.connection.machine()?.timestamp_frequency,
        per_cpu: options.per_cpu,
        live: !output.is_json() && !options.csv && options.output.is_none(),
    };
    let mut measured = Vec::new();
    for _ in 0..options.repeat {
        let one = measure(&view, on, &mut runner, interval, output);
        measured.push(one.map_err(|error| choice.name_source(error))?);
        if interrupted() {
            break;
        }
    }
    let body = view.body(on.told.machine.clone(), measured);
    for note in periods::notes(&body.periods) {
        output.note(&note);
    }
    let mut text = shown(options, on.told.modelled, &body, output)?;
    if view.live && interval.is_some() {
        text.insert_str(0, "in all\n");
    }
    match &options.output {
        Some(path) => write_whole(path, text.as_bytes())?,
        None => output.print(&text)?,
    }
    Ok(runner.program_status())
}

fn shown(options: &args::Stat, modelled: bool, body: &Body, output: &Output) -> Result<String> {
    if output.is_json() {
        Output::object("stat", modelled, body)
    } else if options.csv {
        stat_text::csv(body)
    } else {
        Ok(stat_text::text(body))
    }
}

fn measure(
    view: &View,
    on: &mut On,
    runner: &mut Runner,
    interval: Option<u64>,
    output: &Output,
) -> Result<Measured> {
    let choice = view.choice;
    let mut session = Session::open(
        &mut on.connection,
        choice.sees_kernel(),
        choice.setup.approximate,
    )?;
    let settled = session.configure(&choice.setup, false)?;
    let progress = output.progress();
    session.start()?;
    runner.begin(session.transport())?;
    let (mut intervals, mut before) = (Vec::new(), Vec::new());
    let mut step = first_step(runner, interval);
    let mut more = true;
    while more {
        more = runner.step(session.transport(), step)?;
        let time_ns = runner.elapsed_ns(session.transport());
        progress.set_message(format!("counting, {}", seconds(time_ns)));
        if interval.is_none() {
            step = next_step(runner, step);
        } else if more {
            let now = session.snapshot()?;
            let counts = view.rows(&differences(&now, &before));
            view.tell(Interval { time_ns, counts }, &mut intervals, output)?;
            before = now;
        }
    }
    let elapsed_ns = runner.elapsed_ns(session.transport());
    let counts = session.stop_and_read()?;
    if interval.is_some() {
        let last = view.rows(&differences(&counts, &before));
        let last = Interval {
            time_ns: elapsed_ns,
            counts: last,
        };
        view.tell(last, &mut intervals, output)?;
    }
    progress.finish_and_clear();
    Ok(Measured {
        elapsed_ns,
        turns: settled.head.turns,
        periods: periods::of_counting(choice, &settled),
        counts,
        intervals,
    })
}

fn first_step(runner: &Runner, interval: Option<u64>) -> u64 {
    interval.unwrap_or(if runner.is_modelled() {
        FIRST_STEP_NS
    } else {
        REAL_STEP_NS
    })
}

const fn next_step(runner: &Runner, step: u64) -> u64 {
    if runner.is_modelled() {
        step.saturating_mul(2)
    } else {
        step
    }
}

fn differences(now: &[Vec<Count>], before: &[Vec<Count>]) -> Vec<Vec<Count>> {
    let zero = Count::default();
    let before = |processor: usize, source: usize| {
        before
            .get(processor)
            .and_then(|counts| counts.get(source))
            .unwrap_or(&zero)
    };
    let row = |(processor, counts): (usize, &Vec<Count>)| {
        let one = |(source, count)| since(count, before(processor, source));
        counts.iter().enumerate().map(one).collect()
    };
    now.iter().enumerate().map(row).collect()
}

impl View<'_> {
    /// Prints an interval, or keeps it for the result.
    fn tell(&self, interval: Interval, kept: &mut Vec<Interval>, output: &Output) -> Result<()> {
        if self.live {
            return output.print(&stat_text::interval(&interval));
        }
        kept.push(interval);
        Ok(())
    }

    fn body(&self, machine: String, measured: Vec<Measured>) -> Body {
        let runs: Vec<Run> = measured.iter().map(|one| self.run(one)).collect();
        let turns = measured.iter().map(|one| one.turns).max().unwrap_or(1);
        let periods = measured.first().map(|one| one.periods.clone());
        let intervals = measured.into_iter().flat_map(|one| one.intervals).collect();
        let elapsed: Vec<u128> = runs.iter().map(|run| run.elapsed_ns.into()).collect();
        let counts = combined(&runs);
        Body {
            machine,
            elapsed_ns: mean_and_deviation(&elapsed).0,
            interrupted: interrupted(),
            turns,
            derived: derived(&counts),
            counts,
            periods: periods.unwrap_or_default(),
            intervals,
            runs: if runs.len() > 1 { runs } else { Vec::new() },
        }
    }

    fn run(&self, measured: &Measured) -> Run {
        Run {
            elapsed_ns: measured.elapsed_ns,
            counts: self.rows(&measured.counts),
        }
    }

    /// One row for each source, and with `--per-cpu` for each processor.
    fn rows(&self, counts: &[Vec<Count>]) -> Vec<Row> {
        let sources = self.choice.chosen.iter().enumerate();
        sources
            .flat_map(|(index, chosen)| self.source(index, chosen, counts))
            .collect()
    }

    fn source(&self, index: usize, chosen: &Chosen, counts: &[Vec<Count>]) -> Vec<Row> {
        let (able, unable): (Vec<&Processor>, Vec<&Processor>) = self
            .choice
            .selected()
            .partition(|processor| self.choice.counts_on(chosen, processor));
        let estimate = |processor: u32| {
            let count = counts
                .get(processor as usize)
                .and_then(|counts| counts.get(index));
            Estimate::new(&count.copied().unwrap_or_default())
        };
        if self.per_cpu {
            let one = |processor: u32| self.row(chosen, Some(processor), &estimate(processor));
            return able
                .into_iter()
                .map(|processor| one(processor.index))
                .collect();
        }
        let sum = Estimate::sum(able.into_iter().map(|processor| estimate(processor.index)));
        let unable = format_processors(unable.into_iter().map(|processor| processor.index));
        let left_out = Some(unable).filter(|processors| !processors.is_empty());
        vec![Row {
            left_out,
            ..self.row(chosen, None, &sum)
        }]
    }

    fn row(&self, chosen: &Chosen, processor: Option<u32>, estimate: &Estimate) -> Row {
        Row {
            source: chosen.label.clone(),
            processor,
            value: estimate.value,
            counted: estimate.counted,
            enabled_ns: nanoseconds(estimate.enabled, self.frequency),
            running_ns: nanoseconds(estimate.running, self.frequency),
            scaled: estimate.scaled,
            error: estimate.error.map(f64::ceil),
            deviation: None,
            left_out: None,
        }
    }
}

/// The rows of one run as they are; of several, their means, each with its deviation.
fn combined(runs: &[Run]) -> Vec<Row> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    if others.is_empty() {
        return first.counts.clone();
    }
    let mean = |index: usize, row: &Row| {
        let over = |of: fn(&Row) -> u128| -> Vec<u128> {
            runs.iter()
                .filter_map(|run| run.counts.get(index))
                .map(of)
                .collect()
        };
        let (value, deviation) = mean_and_deviation(&over(|row| row.value));
        let mean_of = |of| mean_and_deviation(&over(of)).0;
        let errors = || {
            runs.iter()
                .filter_map(|run| run.counts.get(index))
                .map(|row| row.error)
        };
        Row {
            value,
            counted: mean_of(|row| row.counted),
            enabled_ns: mean_of(|row| row.enabled_ns),
            running_ns: mean_of(|row| row.running_ns),
            scaled: runs
                .iter()
                .filter_map(|run| run.counts.get(index))
                .any(|row| row.scaled),
            error: errors().flatten().reduce(f64::max),
            deviation,
            ..row.clone()
        }
    };
    first
        .counts
        .iter()
        .enumerate()
        .map(|(index, row)| mean(index, row))
        .collect()
}

/// Figures of the sums over processors.
fn derived(counts: &[Row]) -> Vec<Figure> {
    let mut sums: Vec<(&str, u128)> = Vec::new();
    for row in counts {
        match sums.iter_mut().find(|(source, _)| *source == row.source) {
            Some((_, sum)) => *sum = sum.saturating_add(row.value),
            None => sums.push((&row.source, row.value)),
        }
    }
    let figure = |derived: Derived| Figure {
        name: derived.name,
        value: derived.value,
        unit: derived.unit,
        filter: derived.filter,
    };
    metrics::derive(&sums).into_iter().map(figure).collect()
}
