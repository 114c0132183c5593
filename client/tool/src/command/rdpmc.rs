//! `halprof rdpmc`: lets user mode read the counters by RDPMC while a program runs, or until
//! Ctrl-C.

use crate::cli::args::{self, Holding};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::run::runner::{Every, Runner};
use crate::target::context::Context;
use crate::target::limits;
use halprof_measure::Session;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::Processor;
use shared_types::request::rdpmc::Rdpmc;
use std::ops::ControlFlow;

/// Who may read the counters in user mode.
#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct RdpmcResult {
    /// Sessions that keep it enabled.
    holders: u32,
    /// Processors that were checked.
    processors: u32,
    /// Processors whose CR4.PCE is set.
    enabled: u32,
    /// Processors on which it was set before any session enabled it.
    enabled_before: u32,
    /// The program that ran in the meantime, as it was called; null without one.
    program: Option<String>,
    /// The program's exit status; null if it did not end by itself.
    exit_status: Option<u32>,
}

/// Who else can read the counters.
const WARNING: &str = "while this runs, every program on this machine can read the performance counters by RDPMC, and with them learn what other programs do";

pub(crate) fn run(options: &args::Rdpmc, ctx: &mut Context, output: &Output) -> Result<u32> {
    limits::refuse(ctx.method, "rdpmc", &[("rdpmc", true)])?;
    refuse_without_instruction(ctx)?;
    if options.holding == Some(Holding::Status) {
        let state = RdpmcResult::new(&ctx.connection.rdpmc()?);
        output.result("rdpmc", &state, RdpmcResult::text)?;
        return Ok(0);
    }
    let mut runner = Runner::of_program(&options.program, output.is_json());
    let mut session = Session::open(&mut ctx.connection, false, false)?;
    let mut state = RdpmcResult::new(&session.allow_rdpmc()?);
    if !ctx.machine_info.modelled {
        output.warn(WARNING);
    }
    if !runner.runs_program() {
        output.result("rdpmc", &state, RdpmcResult::text)?;
        output.note("RDPMC is allowed in user mode until Ctrl-C.");
    }
    runner.prepare()?;
    runner.begin()?;
    runner.run(Every::LOOK, |_| Ok(ControlFlow::Continue(())))?;
    runner.end()?;
    if runner.runs_program() && output.is_json() {
        state.program = runner.program_name();
        state.exit_status = runner.exit_status();
        output.result("rdpmc", &state, RdpmcResult::text)?;
    }
    Ok(runner.program_status())
}

/// The Pentium has the instruction from its MMX models on (family 5, model 4: Intel's SDM, RDPMC). Only a
/// model can be one of the others, so the driver does not ask.
fn refuse_without_instruction(ctx: &Context) -> Result<()> {
    let mut processors = ctx.machine.processors.iter();
    let lacks =
        |one: &Processor| (one.family, one.vendor) == (5, *b"GenuineIntel") && one.model < 4;
    if !processors.any(lacks) {
        return Ok(());
    }
    Err(Error::unavailable(
        "this Pentium has no RDPMC: the instruction came with MMX",
        "Take `pentium-mmx`, or count with `halprof stat`, which reads the counters by RDMSR there.",
    ))
}

impl RdpmcResult {
    fn new(rdpmc: &Rdpmc) -> Self {
        Self {
            holders: rdpmc.holders,
            processors: rdpmc.processors,
            enabled: rdpmc.enabled,
            enabled_before: rdpmc.enabled_before,
            ..Self::default()
        }
    }

    fn text(&self) -> String {
        let Self { processors, enabled, enabled_before, .. } = self;
        let sessions = match self.holders {
            0 => "no halprof session".to_owned(),
            1 => "1 halprof session".to_owned(),
            some => format!("{some} halprof sessions"),
        };
        format!(
            "allowed on   {enabled} of {processors} processors\nheld by      {sessions}\nalready allowed before halprof: {enabled_before} of {processors}\n",
        )
    }
}
