//! What a command measures on: a connection, and what every result says of the machine.

use crate::output::error::{Error, Result, in_words};
use crate::output::{BackendKind, MachineInfo};
use crate::target::backend::{Backend, Model};
use crate::target::limits::MeasuredBy;
use crate::target::machine::{Machine, sibling};
use crate::target::other_interface;
use halprof_measure::Connection;
use halprof_measure::catalog::Catalog;
use halprof_measure::describe;
use halprof_measure::tracing::session::Tracing;
use halprof_setup::doctor::no_counters;
use shared_types::ErrorCode;

/// Prefix of the no-counters warning.
pub(crate) const ONLY_TIME: &str = "no counter can be used here, only time can be counted";

/// What a command measures on.
pub(crate) struct Context {
    pub(crate) connection: Connection<Backend>,
    pub(crate) machine: Machine,
    pub(crate) model: Option<Model>,
    pub(crate) machine_info: MachineInfo,
    /// What measures by a trace, if that is how this backend measures: then the connection says what
    /// the processors are, and measures nothing.
    pub(crate) tracing: Option<Box<dyn Tracing>>,
    /// How it measures.
    pub(crate) method: MeasuredBy,
    /// Why the driver was not used.
    without_driver: Option<Box<Error>>,
}

impl Context {
    pub(crate) fn open(mut backend: Backend) -> Result<Self> {
        let (tracing, without_driver) = (backend.tracing.take(), backend.without_driver.take());
        let (model, description) = backend.model.clone().unzip();
        let mut connection = Connection::new(backend)?;
        // The shipped driver does not know that its machine is a model. Beside a trace the connection
        // is always to a model, which only describes the processors.
        let modelled = description.is_some() || tracing.is_none() && connection.modelled();
        let (backend, name) = match (modelled, &tracing) {
            (true, _) => (BackendKind::Model, connection.driver_name()),
            (false, None) => (BackendKind::Driver, connection.driver_name()),
            (false, Some(_)) => (BackendKind::Etw, "Windows' own tracing"),
        };
        let machine_info = MachineInfo {
            modelled,
            description: description.unwrap_or_else(|| name.to_owned()),
            backend: Some(backend),
        };
        let machine = Machine::of(&mut connection)?;
        let method = if tracing.is_some() { MeasuredBy::Tracing } else { MeasuredBy::Driver };
        Ok(Self { connection, machine, model, machine_info, tracing, method, without_driver })
    }

    /// Why the driver was not used.
    pub(crate) fn without_driver(&self) -> Option<&Error> {
        self.without_driver.as_deref()
    }

    /// Everything that the machine can count.
    pub(crate) fn catalog(&mut self, approximate: bool) -> Result<Catalog> {
        let sources = self.connection.sources(approximate)?;
        Ok(Catalog::new(sources, self.machine.interface(), &self.machine.processors))
    }

    /// Whether threads share cores on this machine.
    pub(crate) fn shares_cores(&self) -> bool {
        let processors = &self.machine.processors;
        processors.iter().any(|one| sibling(one, processors).is_some())
    }

    /// The same error of Windows' own tracing, with the reason why the driver does not measure.
    fn not_driver(&self, error: Error) -> Error {
        match (&self.without_driver, error) {
            (Some(driver), Error::Measure(halprof_measure::Error::NoTracing { message, hint })) => {
                Error::no_driver(
                    format!("{driver}, and {message}"),
                    format!("{} Or: {}", in_words(&hint), driver.hint()),
                )
            }
            (_, error) => error,
        }
    }

    /// The same error; if a source is unavailable because there are no counters, with the reason
    /// for that; of tracing with the reason why it is not the driver.
    pub(crate) fn explained(&self, error: Error) -> Error {
        const OF_SOURCES: [ErrorCode; 3] = [
            ErrorCode::SourceUnknown,
            ErrorCode::SourceNotSupported,
            ErrorCode::SamplingUnavailable,
        ];
        let error = self.of_other_interface(self.not_driver(error));
        if OF_SOURCES.iter().any(|code| code.code() == error.code()) {
            return self.without_counters(error);
        }
        error
    }

    /// The same error; where a source of another interface was named, whose it is.
    fn of_other_interface(&self, error: Error) -> Error {
        let Error::Measure(halprof_measure::Error::UnknownName { name, hint }) = error else {
            return error;
        };
        let whose = other_interface::whose(&name, self.machine.interface());
        let own = describe::interface_name(self.machine.interface());
        let whose = whose.map(|whose| format!("{whose}; this machine has {own}.").into());
        halprof_measure::Error::UnknownName { name, hint: whose.or(hint) }.into()
    }

    /// The same error of something that needs a counter; where there is none, with the reason.
    pub(crate) fn without_counters(&self, error: Error) -> Error {
        match (error, no_counters(&self.machine.describe(), None)) {
            (Error::Measure(refused), Some((why, hint))) => Error::Explained {
                code: refused.code(),
                message: format!("{ONLY_TIME}. {why}"),
                hint: format!("{hint} `halprof doctor` has more."),
            },
            (error, _) => error,
        }
    }
}
