//! `halprof doctor`: what would stop a measurement, and what to do about it.
//!
//! Ends with 0 where events can be counted, with 3 where nothing answers and with 4 where there are
//! no counters to be had; a warning alone stops nothing.

use super::On;
use super::output::{Output, Told, table, wrapped_to};
use super::place::Place;
use crate::{Error, Result, explain};
use serde::Serialize;
use shared_types::request::machine::{Machine, Processor};
use shared_types::{Delivery, ProfileInterface, Reason};
use std::collections::BTreeSet;

#[derive(Serialize)]
struct Body {
    ready: bool,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    state: State,
    result: String,
    remedy: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warning,
    Problem,
}

impl Check {
    fn ok(name: &'static str, result: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            result: result.into(),
            remedy: None,
        }
    }

    fn found(name: &'static str, state: State, result: impl Into<String>, remedy: &str) -> Self {
        Self {
            name,
            state,
            result: result.into(),
            remedy: Some(remedy.to_owned()),
        }
    }
}

pub(super) fn run(place: Result<Place>, output: &Output) -> Result<u8> {
    let (told, checks) = examine(place)?;
    output.note_model(&told);
    let ready = checks.iter().all(|check| check.state != State::Problem);
    let status = match checks.as_slice() {
        _ if ready => 0,
        [_] => 3,
        _ => 4,
    };
    output.result("doctor", told.modelled, &Body { ready, checks }, text)?;
    Ok(status)
}

fn examine(place: Result<Place>) -> Result<(Told, Vec<Check>)> {
    let place = match place {
        Ok(place) => place,
        Err(error @ Error::NoDriver { .. }) => return Ok(no_driver(&error)),
        Err(error) => return Err(error),
    };
    let On {
        mut connection,
        told,
    } = match On::open(place) {
        Ok(on) => on,
        Err(error @ (Error::Refused(_) | Error::Device(_) | Error::Status(_))) => {
            return Ok(no_driver(&error));
        }
        Err(error) => return Err(error),
    };
    let machine = connection.machine()?;
    let processors = connection.processors()?;
    let boot = processors.first().copied().unwrap_or_default();
    let checks = vec![
        Check::ok("driver", format!("{} answers", connection.answerer())),
        interface(&machine, &boot),
        hypervisor(&machine, &boot),
        interrupt(&machine),
        holder(&machine),
        alike(&processors),
    ];
    Ok((told, checks))
}

fn no_driver(error: &Error) -> (Told, Vec<Check>) {
    let told = Told {
        modelled: false,
        machine: String::new(),
    };
    let check = Check::found("driver", State::Problem, error.to_string(), &error.hint());
    (told, vec![check])
}

fn interface(machine: &Machine, boot: &Processor) -> Check {
    let name = explain::interface_name(machine.interface);
    let result = format!("{name}: {}", explain::interface(machine, boot));
    if machine.interface != ProfileInterface::Default as u32 {
        return Check::ok("interface", result);
    }
    Check::found(
        "interface",
        State::Problem,
        result,
        remedy(Reason::from_wire(machine.reason)),
    )
}

/// What helps against an interface without counters.
fn remedy(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::HypervisorMasks | Reason::HypervisorUnproved) => {
            "Let the hypervisor show performance counters to this machine (Hyper-V: Set-VMProcessor -Perfmon; others: virtualise the CPU's performance counters), or turn virtualisation-based security off."
        }
        Some(Reason::MonitoringDisabled) => {
            "Enable performance monitoring in the firmware's setup."
        }
        _ => "This processor has no counters that halprof knows; ProfileTime can still be counted.",
    }
}

fn hypervisor(machine: &Machine, boot: &Processor) -> Check {
    match explain::vendor(&boot.hypervisor) {
        None => Check::ok("hypervisor", "none shows itself"),
        Some(vendor) if machine.reason == Reason::HypervisorMasks as u32 => Check {
            state: State::Problem,
            ..Check::ok("hypervisor", format!("{vendor} masks the counters"))
        },
        Some(vendor) => Check::found(
            "hypervisor",
            State::Warning,
            format!("{vendor} is between the processor and Windows"),
            "Counts are of the virtual processor and may miss events; measure on the host where exact counts matter.",
        ),
    }
}

fn interrupt(machine: &Machine) -> Check {
    let result = explain::delivery(machine);
    if machine.delivery == Delivery::None as u32 {
        let remedy = "Count with `halprof stat`; sampling needs the interrupt.";
        return Check::found("interrupt", State::Warning, result, remedy);
    }
    Check::ok("interrupt", result)
}

fn holder(machine: &Machine) -> Check {
    if machine.holder_session == 0 {
        return Check::ok("owner", "no halprof session holds the counters");
    }
    Check::found(
        "owner",
        State::Problem,
        format!(
            "session {} of process {} holds the counters",
            machine.holder_session, machine.holder_process
        ),
        "Wait until it ends, or end that process.",
    )
}

fn alike(processors: &[Processor]) -> Check {
    let kinds: BTreeSet<u8> = processors.iter().map(|processor| processor.kind).collect();
    if kinds.len() <= 1 {
        return Check::ok(
            "processors",
            format!("{}, all of one kind", processors.len()),
        );
    }
    Check::found(
        "processors",
        State::Warning,
        format!(
            "{} of {} kinds with different counters",
            processors.len(),
            kinds.len()
        ),
        "`halprof list` shows which sources only some of them count; `-C` chooses processors.",
    )
}

fn text(body: &Body) -> String {
    let state = |state| match state {
        State::Ok => "ok",
        State::Warning => "warning",
        State::Problem => "PROBLEM",
    };
    let rows = body.checks.iter().map(|check| {
        [
            check.name.to_owned(),
            state(check.state).to_owned(),
            wrapped_to(50, &check.result),
        ]
    });
    let mut text = table(["check", "", "result"], rows, &[]);
    for check in &body.checks {
        if let Some(remedy) = &check.remedy {
            let remedy = format!("{}: {remedy}", check.name);
            text += &format!("\n{}\n", wrapped_to(80, &remedy));
        }
    }
    text + if body.ready {
        "\nReady to measure.\n"
    } else {
        "\nNot ready to measure.\n"
    }
}
