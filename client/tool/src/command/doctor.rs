//! `halprof doctor`: what would prevent or distort a measurement, and what to do about it.
//!
//! Exits with 0 if events can be counted, with 3 if nothing answers, and with 4 if no counters are
//! available; a warning alone does not change the status.

mod prove;

use crate::cli::args;
use crate::output::error::{Error, Result, failure_of};
use crate::output::error_codes::Code;
use crate::output::style::{ERROR, WARNING, styled};
use crate::output::table::{Column, Field, Record, Width, records};
use crate::output::{MachineInfo, Output};
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::Error as Cause;
use halprof_measure::describe::Description;
use halprof_measure::tracing::session::CounterOwners;
use halprof_setup::doctor::{self, Check, Driver, Facts, State, System};
use prove::Proof;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub(crate) struct DoctorResult {
    ready: bool,
    checks: Vec<Check>,
    /// What `--prove` counted; null without it, and where nothing can be counted.
    proof: Option<Proof>,
}

/// `here`: the machine to measure is this one, so that its Windows is examined too.
pub(crate) fn run(
    options: &args::Doctor,
    backend: Result<Backend>,
    here: bool,
    output: &Output,
) -> Result<u32> {
    let Collected { machine_info, facts, mut ctx } = collect(backend, here)?;
    output.note_model(&machine_info);
    let checks = doctor::examine(&facts);
    let ready = checks.iter().all(|check| check.state != State::Problem);
    let status = match (ready, facts.answered()) {
        (true, _) => 0,
        (false, false) => 3,
        (false, true) => 4,
    };
    let ctx = ctx.as_mut().filter(|_| ready);
    let proof = options.prove.zip(ctx).map(|(which, ctx)| Proof::new(which, ctx, output));
    let disagrees = proof.as_ref().is_some_and(Proof::disagrees);
    let result = DoctorResult { ready, checks, proof };
    let text = |result: &DoctorResult| text(result, output.width());
    match &result.proof {
        Some(proof) => output.rows("doctor", (&result, &proof.answers), text)?,
        None => output.rows("doctor", (&result, &result.checks), text)?,
    }
    Ok(if disagrees { 4 } else { status })
}

/// What was found out, and what it was found out from if that can measure.
struct Collected {
    machine_info: MachineInfo,
    facts: Facts,
    ctx: Option<Context>,
}

fn collect(backend: Result<Backend>, here: bool) -> Result<Collected> {
    let system = here.then(system).flatten();
    let mut measures = None;
    let (machine_info, facts) = match backend.and_then(Context::open) {
        Ok(mut ctx) if ctx.tracing.is_some() => {
            let (machine_info, facts) = traced(&mut ctx, here, system);
            return Ok(Collected { machine_info, facts, ctx: Some(ctx) });
        }
        Ok(mut ctx) => {
            let described = ctx.machine.describe();
            let facts = Facts::collect(&mut ctx.connection, described, system, &failure_of)?;
            (measures.insert(ctx).machine_info.clone(), facts)
        }
        Err(
            error @ Error::Measure(
                Cause::NoDriver { .. }
                | Cause::Refused(_)
                | Cause::Device(_)
                | Cause::Status(_)
                | Cause::TimedOut(_)
                | Cause::DriverGone { .. }
                | Cause::Protocol { .. },
            ),
        ) => {
            let machine_info =
                MachineInfo { modelled: false, description: String::new(), backend: None };
            let predicted = here.then(predicted).flatten();
            (machine_info, Facts::unanswered(Driver::Silent(error.failure()), predicted, system))
        }
        Err(error) => return Err(error),
    };
    let facts = facts.with_tracing(here.then(|| tracing(false)).flatten());
    Ok(Collected { machine_info, facts, ctx: measures })
}

/// The facts where Windows' own tracing measures, or a model of it: its processors are described, and
/// nothing is tried on them.
fn traced(ctx: &mut Context, here: bool, system: Option<System>) -> (MachineInfo, Facts) {
    let failure = ctx.without_driver().map(Error::failure);
    let driver = failure.map_or(Driver::NotTried, Driver::Silent);
    let tracing = if here { tracing(true) } else { None };
    let tracing = tracing.or_else(|| {
        let backend = ctx.tracing.as_deref_mut()?;
        Some(doctor::Tracing::ask(backend, CounterOwners::default(), true, &failure_of))
    });
    let facts = Facts::unanswered(driver, Some(ctx.machine.describe()), system);
    (ctx.machine_info.clone(), facts.with_tracing(tracing))
}

/// What Windows' own tracing says.
#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "None elsewhere than on Windows")]
fn tracing(measures: bool) -> Option<doctor::Tracing> {
    let mut tracer = halprof_measure::tracer();
    let counter_owners = tracer.counter_owners();
    Some(doctor::Tracing::ask(&mut tracer, counter_owners, measures, &failure_of))
}

#[cfg(not(windows))]
const fn tracing(_measures: bool) -> Option<doctor::Tracing> {
    None
}

/// What Windows reports.
#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "None elsewhere than on Windows")]
fn system() -> Option<System> {
    Some(halprof_setup::windows::system::facts())
}

/// What the driver would report of these processors: its own code evaluates their CPUID.
#[cfg(windows)]
fn predicted() -> Option<Description> {
    let processors = halprof_setup::windows::cpuid::processors();
    let mut connection =
        halprof_measure::Connection::new(halprof_measure::InProcess::new(&processors)).ok()?;
    let machine = connection.machine().ok()?;
    Some(Description::new(&machine, &connection.processors().ok()?))
}

#[cfg(not(windows))]
const fn system() -> Option<System> {
    None
}

#[cfg(not(windows))]
const fn predicted() -> Option<Description> {
    None
}

impl Record for Check {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::word("check"), |check| check.name.to_owned()),
        Field::new(Column::word("state").coloured(), |check| coloured(check.state)),
        Field::new(Column::prose("found"), |check| check.result.clone()),
    ];
}

fn text(result: &DoctorResult, width: Width) -> String {
    let mut text = records(width, &result.checks);
    for check in &result.checks {
        text += &advice(check, width);
    }
    text += if result.ready { "\nReady to measure.\n" } else { "\nNot ready to measure.\n" };
    text + &result.proof.as_ref().map_or_else(String::new, |proof| proof.text(width))
}

fn coloured(state: State) -> String {
    match state {
        State::Ok => "ok".to_owned(),
        State::Warning => styled(WARNING, "warning"),
        State::Problem => styled(ERROR, "PROBLEM"),
        State::Unknown => "unknown".to_owned(),
    }
}

/// The effect of a finding, and what to do about it.
fn advice(check: &Check, width: Width) -> String {
    let (Some(consequence), Some(hint)) = (&check.consequence, &check.hint) else {
        return String::new();
    };
    let mut lines = vec![("Effect", consequence.clone()), ("Fix", hint.clone())];
    if let Some(code) = check.code.filter(|code| Code::explained().any(|row| row.name == *code)) {
        lines.push(("See", format!("`halprof explain {code}`")));
    }
    let mut text = format!("\n{} ({})\n", check.name, coloured(check.state));
    for (label, line) in lines {
        text += &format!("  {label:<7}  {}\n", width.prose(11, &line));
    }
    text
}
