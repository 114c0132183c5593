//! `halprof record`: sample to a file.

use super::On;
use super::args;
use super::measure::{Choice, rotation};
use super::output::{Output, seconds, table, thousands};
use super::periods::{self, Period};
use super::runner::{Runner, interrupted};
use crate::recording::{self, Metadata, Module, Process, Source, Writer};
use crate::{Result, Session, explain};
use serde::Serialize;
use shared_types::LossCause;
use shared_types::request::machine::Machine;
use shared_types::request::samples::Statistics;
use sim::run::PROCESS;
use sim::workload::KERNEL_CODE;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Rings hold two seconds of samples; they are drained far more often.
const STEP_NS: u64 = 20_000_000;

#[derive(Serialize)]
struct Body {
    machine: String,
    file: String,
    elapsed_ns: u64,
    periods: Vec<Period>,
    samples: u64,
    lost: BTreeMap<String, u64>,
    generated: u64,
    spurious: u64,
    throttled: u64,
    longest_period: u64,
}

pub(super) fn run(options: &args::Record, on: &mut On, output: &Output) -> Result<u32> {
    let rotation = rotation(&options.work)?;
    let mut choice = Choice::of(&options.selection, on, false)?;
    choice.setup.rotation = rotation;
    let mut runner = Runner::new(&options.work, on, choice.processor_count())?;
    let machine = on.connection.machine()?;
    let metadata = metadata(&machine, on, options);
    let body = record(options, on, &choice, &mut runner, metadata, output);
    let body = body.map_err(|error| choice.name_source(error))?;
    for note in notes(&body) {
        output.note(&note);
    }
    output.result("record", on.told.modelled, &body, text)?;
    Ok(runner.program_status())
}

fn metadata(machine: &Machine, on: &On, options: &args::Record) -> Metadata {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let program = options.work.program.iter();
    let program = program.map(|part| part.to_string_lossy().into_owned());
    Metadata {
        halprof: env!("CARGO_PKG_VERSION").to_owned(),
        machine: on.told.machine.clone(),
        modelled: on.told.modelled,
        interface: explain::interface_name(machine.interface).to_owned(),
        timestamp_frequency: machine.timestamp_frequency,
        processors: machine.processors,
        began: now.map_or(0, |since| since.as_secs()),
        command: options
            .work
            .workload
            .iter()
            .cloned()
            .chain(program)
            .collect(),
        sources: Vec::new(),
        passes: 1,
    }
}

fn source(period: &Period) -> Source {
    Source {
        name: period.source.clone(),
        period: recording::Period {
            requested: period.requested,
            used: period.used,
            events: period.events,
            by_reference_cycles: period.by_reference_cycles,
        },
        pass: 0,
    }
}

/// What a model runs: one process with one module, and a kernel.
fn modelled(code: (u64, u64), image: Option<&Module>) -> (Process, [Module; 2]) {
    let process = Process {
        id: PROCESS,
        name: image.map_or("modelled.exe", |image| &image.name).to_owned(),
        ..Process::default()
    };
    let module = |process, name: &str, (start, end): (u64, u64)| Module {
        process,
        name: name.to_owned(),
        start,
        end,
        ..Module::default()
    };
    let made_up = || module(Some(PROCESS), "modelled.exe", code);
    let of_image = |image: &Module| Module {
        process: Some(PROCESS),
        ..image.clone()
    };
    let modules = [
        image.map_or_else(made_up, of_image),
        module(None, "modelled kernel", KERNEL_CODE),
    ];
    (process, modules)
}

fn record(
    options: &args::Record,
    on: &mut On,
    choice: &Choice,
    runner: &mut Runner,
    mut metadata: Metadata,
    output: &Output,
) -> Result<Body> {
    let mut session = Session::open(
        &mut on.connection,
        choice.sees_kernel(),
        choice.setup.approximate,
    )?;
    let settled = session.configure(&choice.setup, true)?;
    let periods = periods::of(choice, &settled);
    metadata.sources = periods.iter().map(source).collect();
    let mut writer = Writer::create(&options.output, &metadata)?;
    if let Some(code) = runner.user_code() {
        let (process, modules) = modelled(code, runner.image());
        writer.processes(&[process])?;
        writer.modules(&modules)?;
    }
    let progress = output.progress();
    session.start()?;
    runner.begin(session.transport())?;
    while runner.step(session.transport(), STEP_NS)? {
        drain(&mut session, &mut writer)?;
        let elapsed = seconds(runner.elapsed_ns(session.transport()));
        progress.set_message(format!(
            "sampling, {elapsed}, {} samples",
            thousands(writer.len())
        ));
    }
    let elapsed_ns = runner.elapsed_ns(session.transport());
    session.stop()?;
    drain(&mut session, &mut writer)?;
    let statistics = session.statistics()?;
    progress.finish_and_clear();
    let body = Body {
        machine: metadata.machine.clone(),
        file: options.output.display().to_string(),
        elapsed_ns,
        periods,
        samples: writer.len(),
        lost: lost(&statistics),
        generated: statistics.generated,
        spurious: statistics.spurious,
        throttled: statistics.throttled,
        longest_period: statistics.longest_period,
    };
    writer.finish(&told(&statistics, elapsed_ns), interrupted())?;
    Ok(body)
}

/// Moves what is in the rings to the file.
fn drain<T: crate::Transport>(session: &mut Session<T>, writer: &mut Writer) -> Result<()> {
    loop {
        let (samples, left) = session.drain()?;
        writer.samples(&samples)?;
        if left == 0 || samples.is_empty() {
            return Ok(());
        }
    }
}

fn lost(statistics: &Statistics) -> BTreeMap<String, u64> {
    let causes = LossCause::ALL.iter().map(|cause| cause.name().to_owned());
    causes.zip(statistics.lost).collect()
}

/// What the file says of the samples.
fn told(statistics: &Statistics, elapsed_ns: u64) -> recording::Statistics {
    recording::Statistics {
        elapsed_ns,
        generated: statistics.generated,
        lost: lost(statistics),
        spurious: statistics.spurious,
        throttled: statistics.throttled,
        longest_period: statistics.longest_period,
        handler_ticks: statistics.handler_ticks,
    }
}

/// What was done otherwise than asked for.
fn notes(body: &Body) -> Vec<String> {
    let mut notes = periods::notes(&body.periods);
    if body.throttled != 0 {
        notes.push(format!(
            "interrupts took too much time: periods were lengthened {} times, up to {}",
            body.throttled, body.longest_period
        ));
    }
    notes
}

fn text(body: &Body) -> String {
    let lost: u64 = body.lost.values().sum();
    let head = format!(
        "{} samples in {}, {} lost, written to {}\n\n",
        thousands(body.samples),
        seconds(body.elapsed_ns),
        thousands(lost),
        body.file
    );
    let row = |row: &Period| {
        [
            row.source.clone(),
            thousands(row.requested),
            thousands(row.used),
        ]
    };
    let mut text = head
        + &table(
            ["source", "period asked for", "used"],
            body.periods.iter().map(row),
            &[1, 2],
        );
    for (cause, n) in body.lost.iter().filter(|&(_, &n)| n != 0) {
        text += &format!("lost, {cause}: {}\n", thousands(*n));
    }
    text
}
