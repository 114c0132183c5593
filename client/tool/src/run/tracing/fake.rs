//! The tool on a backend that measures by a trace and runs anywhere.

use crate::cli::args::{Arguments, Commands};
use crate::output::table::Width;
use crate::output::{Form, Output};
use crate::target::backend::Backend;
use crate::target::context::Context;
use sim_etw::scripted::{Log, ScriptedTracing};
use std::cell::RefCell;
use std::rc::Rc;

/// A context whose backend measures by a trace, on a Skylake.
pub(crate) fn context() -> (Context, Rc<RefCell<Log>>) {
    let (scripted, log) = ScriptedTracing::new().expect("a folder");
    let spec = halprof_measure::spec("skylake,processors=2").expect("a model");
    let backend = Backend::tracing(Box::new(scripted), &spec.leaves);
    (Context::open(backend).expect("a machine"), log)
}

/// The command of a command line, and an output in JSON.
pub(crate) fn command(arguments: &[&str]) -> (Commands, Output) {
    let arguments = [&["halprof"], arguments].concat();
    let parsed = Arguments::parse_from(arguments).expect("arguments");
    (parsed.command, Output::new(Form::Json, true, Width::UNLIMITED))
}
