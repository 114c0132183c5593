//! `halprof doctor`: what would stop a measurement or falsify it, and what to do about it.
//!
//! Ends with 0 where events can be counted, with 3 where nothing answers and with 4 where there are
//! no counters to be had; a warning alone stops nothing.

use crate::On;
use crate::error::hint_of;
use crate::output::{Output, Told, table, wrapped_to};
use crate::place::Place;
use crate::{Error, Result};
use halprof_measure::Error as Cause;
use halprof_setup::doctor::{self, Check, Described, Facts, Failure, State, System};
use serde::Serialize;

#[derive(Serialize)]
struct Body {
    ready: bool,
    checks: Vec<Check>,
}

/// `here`: the machine to measure is this one, so that its Windows is looked at too.
pub(crate) fn run(place: Result<Place>, here: bool, output: &Output) -> Result<u8> {
    let (told, facts) = collect(place, here)?;
    output.note_model(&told);
    let checks = doctor::examine(&facts);
    let ready = checks.iter().all(|check| check.state != State::Problem);
    let status = match (ready, facts.answered()) {
        (true, _) => 0,
        (false, false) => 3,
        (false, true) => 4,
    };
    output.result("doctor", told.modelled, &Body { ready, checks }, text)?;
    Ok(status)
}

fn collect(place: Result<Place>, here: bool) -> Result<(Told, Facts)> {
    let system = here.then(system).flatten();
    let On {
        mut connection,
        told,
    } = match place.and_then(On::open) {
        Ok(on) => on,
        Err(
            error @ Error::Measure(
                Cause::NoDriver { .. }
                | Cause::Refused(_)
                | Cause::Device(_)
                | Cause::Status(_)
                | Cause::Protocol { .. },
            ),
        ) => {
            let told = Told {
                modelled: false,
                machine: String::new(),
            };
            let foreseen = here.then(foreseen).flatten();
            return Ok((told, Facts::unanswered(failure(&error), foreseen, system)));
        }
        Err(error) => return Err(error),
    };
    Ok((told, Facts::collect(&mut connection, system, &told_of)?))
}

fn told_of(error: &Cause) -> Failure {
    Failure {
        code: error.code(),
        message: error.to_string(),
        hint: hint_of(error),
    }
}

fn failure(error: &Error) -> Failure {
    Failure {
        code: error.code(),
        message: error.to_string(),
        hint: error.hint(),
    }
}

/// What Windows says.
#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "None elsewhere than on Windows")]
fn system() -> Option<System> {
    Some(halprof_setup::windows::system::facts())
}

/// What the driver would say of these processors: its own code looks at their CPUID.
#[cfg(windows)]
fn foreseen() -> Option<Described> {
    let processors = halprof_setup::windows::cpuid::processors();
    let mut connection =
        halprof_measure::Connection::new(halprof_measure::Modelled::new(&processors)).ok()?;
    Described::ask(&mut connection).ok()
}

#[cfg(not(windows))]
const fn system() -> Option<System> {
    None
}

#[cfg(not(windows))]
const fn foreseen() -> Option<Described> {
    None
}

fn text(body: &Body) -> String {
    let rows = body.checks.iter().map(|check| {
        [
            check.name.to_owned(),
            state(check.state).to_owned(),
            wrapped_to(52, &check.result),
        ]
    });
    let mut text = table(["check", "", "found"], rows, &[]);
    for check in &body.checks {
        text += &advice(check);
    }
    text + if body.ready {
        "\nReady to measure.\n"
    } else {
        "\nNot ready to measure.\n"
    }
}

const fn state(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Warning => "warning",
        State::Problem => "PROBLEM",
        State::Unknown => "unknown",
    }
}

/// What a finding does, what to do about it and how it was found.
fn advice(check: &Check) -> String {
    let (Some(consequence), Some(remedy)) = (&check.consequence, &check.remedy) else {
        return String::new();
    };
    let more = check.code.map(|code| format!("`halprof explain {code}`"));
    let rows = [
        ("So", Some(consequence.as_str())),
        ("Do", Some(remedy.as_str())),
        ("Seen in", Some(check.looked_at)),
        ("More", more.as_deref()),
    ];
    let lines = rows.into_iter().filter_map(|(label, text)| {
        let text = wrapped_to(68, text?).replace('\n', "\n            ");
        Some(format!("  {label:<8}  {text}\n"))
    });
    let lines: String = lines.collect();
    format!("\n{} ({})\n{lines}", check.name, state(check.state))
}
