//! `halprof rdpmc`: lets user mode read the counters by RDPMC while a program runs, or until
//! Ctrl-C.

use crate::cli::args::{self, Holding};
use crate::output::Output;
use crate::output::error::Result;
use crate::run::program::{Launch, Program};
use crate::run::runner::{interrupted, watch_for_interrupt};
use crate::target::context::Context;
use halprof_measure::Session;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::rdpmc;
use std::time::Duration;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    /// Sessions that keep it enabled.
    holders: u32,
    /// Processors that were checked.
    processors: u32,
    /// Processors whose CR4.PCE is set.
    on: u32,
    /// Processors on which it was set before any session enabled it.
    found: u32,
    /// The program that ran in the meantime, as it was called; null without one.
    program: Option<String>,
    /// The program's exit status; null if it did not end by itself.
    exit_status: Option<u32>,
}

/// Who else can read the counters.
const WARNING: &str = "while this runs, every program on this machine can read the performance counters by RDPMC, and with them learn what other programs do";
/// How often Ctrl-C is checked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long a program may take to end by itself after Ctrl-C, which reaches it as well as halprof.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn run(options: &args::Rdpmc, ctx: &mut Context, output: &Output) -> Result<u32> {
    let modelled = ctx.told.modelled;
    if options.holding == Some(Holding::Status) {
        let body = body(&ctx.connection.rdpmc()?);
        output.result("rdpmc", modelled, &body, text)?;
        return Ok(0);
    }
    watch_for_interrupt();
    let mut session = Session::open(&mut ctx.connection, false, false)?;
    let mut body = body(&session.allow_rdpmc()?);
    if !modelled {
        output.warn(WARNING);
    }
    if options.program.is_empty() {
        output.result("rdpmc", modelled, &body, text)?;
        output.note("RDPMC is allowed in user mode until Ctrl-C.");
        while !interrupted() {
            std::thread::sleep(LOOK);
        }
        return Ok(0);
    }
    let status = watch(&Launch {
        command: options.program.clone(),
        output_to_error: output.is_json(),
        pin: None,
        environment: Vec::new(),
    })?;
    if output.is_json() {
        let name = options.program.first();
        body.program = name.map(|name| name.to_string_lossy().into_owned());
        body.exit_status = status;
        output.result("rdpmc", modelled, &body, text)?;
    }
    Ok(status.unwrap_or(0))
}

/// Runs a program to its end, or until Ctrl-C; returns its exit status if it ended by itself.
fn watch(launch: &Launch) -> Result<Option<u32>> {
    let mut program = Program::suspended(launch)?;
    program.resume()?;
    while !program.wait(LOOK)? {
        if interrupted() {
            program.wait(GRACE)?;
            break;
        }
    }
    if program.status().is_some() {
        program.leave_others();
    }
    Ok(program.status())
}

fn body(told: &rdpmc::Rdpmc) -> Body {
    Body {
        holders: told.holders,
        processors: told.processors,
        on: told.on,
        found: told.found,
        program: None,
        exit_status: None,
    }
}

fn text(body: &Body) -> String {
    let Body { processors, on, found, .. } = body;
    let sessions = match body.holders {
        0 => "no halprof session".to_owned(),
        1 => "1 halprof session".to_owned(),
        some => format!("{some} halprof sessions"),
    };
    format!(
        "allowed on   {on} of {processors} processors\nheld by      {sessions}\nalready allowed before halprof: {found} of {processors}\n",
    )
}
