//! What a command measures on: a connection, and what every result says of the machine.

use crate::cli::args::Selection;
use crate::output::MachineInfo;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::target::backend::{Backend, Model};
use crate::target::machine::Machine;
use halprof_measure::Connection;
use halprof_measure::catalog::Catalog;
use halprof_setup::doctor::no_counters;
use shared_types::ErrorCode;
use shared_types::request::machine::Processor;
use std::collections::BTreeSet;

/// What a command measures on.
pub(crate) struct Context {
    pub(crate) connection: Connection<Backend>,
    pub(crate) machine: Machine,
    /// The model, if the machine is one.
    pub(crate) model: Option<Model>,
    pub(crate) machine_info: MachineInfo,
}

impl Context {
    pub(crate) fn open(backend: Backend) -> Result<Self> {
        let description = backend.description().map(str::to_owned);
        let model = backend.model().cloned();
        let mut connection = Connection::new(backend)?;
        let machine_info = MachineInfo {
            // The shipped driver does not know when its machine is a model.
            modelled: connection.modelled() || description.is_some(),
            description: description.unwrap_or_else(|| connection.driver_name().to_owned()),
        };
        let machine = Machine::of(&mut connection)?;
        Ok(Self { connection, machine, model, machine_info })
    }

    /// Everything that the machine can count.
    pub(crate) fn catalog(&mut self, approximate: bool) -> Result<Catalog> {
        self.machine.catalog(&mut self.connection, approximate)
    }

    /// Whether threads share cores on this machine.
    pub(crate) fn shares_cores(&self) -> bool {
        let mut processors = self.machine.processors.iter();
        processors.any(|one| one.flags & Processor::SHARES_CORE != 0)
    }

    /// Why no counter can be used on this machine, and what to do.
    fn no_counters(&self) -> Option<(String, String)> {
        no_counters(&self.machine.description, self.machine.processors.first()?)
    }

    /// What is to be said where nothing was asked for and there is nothing but time.
    pub(crate) fn only_time(&self, selection: &Selection) -> Option<String> {
        if !selection.is_default() {
            return None;
        }
        let (why, hint) = self.no_counters()?;
        Some(format!("no counter can be used here, only time can be counted. {why} {hint}"))
    }

    /// What is to be said where a user's list of events is used for several types of core.
    pub(crate) fn one_list(&self, selection: &Selection) -> Option<String> {
        let file = selection.event_file.as_ref()?;
        let processors = self.machine.processors.iter();
        let types: BTreeSet<u8> = processors.map(|one| one.core_type).collect();
        (types.len() > 1).then(|| {
            format!(
                "the events of {} are used on every type of core, but Intel publishes a list for each type: `-C` chooses processors of one",
                file.display()
            )
        })
    }

    /// The same error; if a source is unavailable because there are no counters, with the reason
    /// for that.
    pub(crate) fn explained(&self, error: Error) -> Error {
        const OF_SOURCES: [ErrorCode; 3] = [
            ErrorCode::SourceUnknown,
            ErrorCode::SourceNotSupported,
            ErrorCode::SamplingUnavailable,
        ];
        if OF_SOURCES.iter().any(|code| code.code() == error.code()) {
            return self.without_counters(error);
        }
        error
    }

    /// The same error of something that needs a counter; where there is none, with the reason.
    pub(crate) fn without_counters(&self, error: Error) -> Error {
        match (error, self.no_counters()) {
            (Error::Measure(refused), Some((why, hint))) => Error::NoCounters {
                refused,
                why,
                hint: format!("{hint} `halprof doctor` has more."),
            },
            (error, _) => error,
        }
    }
}
