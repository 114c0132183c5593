//! `halprof doctor`: what would prevent or distort a measurement, and what to do about it.
//!
//! Exits with 0 if events can be counted, with 3 if nothing answers, and with 4 if no counters are
//! available; a warning alone does not change the status.

use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::error::hint_of;
use crate::output::error_codes::Code;
use crate::output::style::{ERROR, WARNING, styled};
use crate::output::table::{Column, Field, Record, Width, records};
use crate::output::{MachineInfo, Output};
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::Error as Cause;
use halprof_setup::doctor::{self, Check, Described, Facts, Failure, State, System};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub(crate) struct DoctorResult {
    ready: bool,
    checks: Vec<Check>,
}

/// `here`: the machine to measure is this one, so that its Windows is examined too.
pub(crate) fn run(place: Result<Backend>, here: bool, output: &Output) -> Result<u8> {
    let (machine_info, facts) = collect(place, here)?;
    output.note_model(&machine_info);
    let checks = doctor::examine(&facts);
    let ready = checks.iter().all(|check| check.state != State::Problem);
    let status = match (ready, facts.answered()) {
        (true, _) => 0,
        (false, false) => 3,
        (false, true) => 4,
    };
    let result = DoctorResult { ready, checks };
    output.rows("doctor", machine_info.modelled, (&result, &result.checks), |result| {
        text(result, output.width())
    })?;
    Ok(status)
}

fn collect(place: Result<Backend>, here: bool) -> Result<(MachineInfo, Facts)> {
    let system = here.then(system).flatten();
    let Context { mut connection, machine_info, .. } = match place.and_then(Context::open) {
        Ok(ctx) => ctx,
        Err(
            error @ Error::Measure(
                Cause::NoDriver { .. }
                | Cause::Refused(_)
                | Cause::Device(_)
                | Cause::Status(_)
                | Cause::Protocol { .. },
            ),
        ) => {
            let machine_info = MachineInfo { modelled: false, description: String::new() };
            let predicted = here.then(predicted).flatten();
            return Ok((machine_info, Facts::unanswered(failure(&error), predicted, system)));
        }
        Err(error) => return Err(error),
    };
    Ok((machine_info, Facts::collect(&mut connection, system, &describe)?))
}

fn describe(error: &Cause) -> Failure {
    Failure { code: error.code(), message: error.to_string(), hint: hint_of(error) }
}

fn failure(error: &Error) -> Failure {
    Failure { code: error.code(), message: error.to_string(), hint: error.hint() }
}

/// What Windows reports.
#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "None elsewhere than on Windows")]
fn system() -> Option<System> {
    Some(halprof_setup::windows::system::facts())
}

/// What the driver would report of these processors: its own code evaluates their CPUID.
#[cfg(windows)]
fn predicted() -> Option<Described> {
    let processors = halprof_setup::windows::cpuid::processors();
    let mut connection =
        halprof_measure::Connection::new(halprof_measure::InProcess::new(&processors)).ok()?;
    Described::ask(&mut connection).ok()
}

#[cfg(not(windows))]
const fn system() -> Option<System> {
    None
}

#[cfg(not(windows))]
const fn predicted() -> Option<Described> {
    None
}

impl Record for Check {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::word("check"), |check| check.name.to_owned()),
        Field::new(Column::word("state"), |check| coloured(check.state)),
        Field::new(Column::prose("found"), |check| check.result.clone()),
    ];
}

fn text(result: &DoctorResult, width: Width) -> String {
    let mut text = records(width, &result.checks);
    for check in &result.checks {
        text += &advice(check, width);
    }
    text + if result.ready { "\nReady to measure.\n" } else { "\nNot ready to measure.\n" }
}

/// A state in its colour.
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
