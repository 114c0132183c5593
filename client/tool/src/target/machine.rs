//! The machine that is measured: what it says of itself, asked once.

use crate::output::error::Result;
use crate::target::backend::Backend;
use halprof_measure::Connection;
use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_setup::describe::Description;
use shared_types::request::machine::{self, Processor};
use std::sync::Arc;

pub(crate) struct Machine {
    /// The interface, the clock, and the state when the command began.
    pub(crate) description: machine::Machine,
    pub(crate) processors: Arc<[Processor]>,
    /// The sources, exact ones and those that approximate their names, once they are needed.
    sources: [Option<Vec<Source>>; 2],
}

impl Machine {
    pub(crate) fn of(connection: &mut Connection<Backend>) -> Result<Self> {
        Ok(Self {
            description: connection.machine()?,
            processors: connection.processors()?.into(),
            sources: [None, None],
        })
    }

    pub(crate) fn describe(&self) -> Description {
        Description::new(&self.description, &self.processors)
    }

    pub(crate) const fn interface(&self) -> u32 {
        self.description.interface
    }

    /// Ticks of the time-stamp counter a second.
    pub(crate) const fn frequency(&self) -> u64 {
        self.description.timestamp_frequency
    }

    /// Everything that it can count.
    pub(crate) fn catalog(
        &mut self,
        connection: &mut Connection<Backend>,
        approximate: bool,
    ) -> Result<Catalog> {
        let [exact, approximating] = &mut self.sources;
        let known = if approximate { approximating } else { exact };
        let sources = match known {
            Some(sources) => sources.clone(),
            None => known.insert(connection.sources(approximate)?).clone(),
        };
        Ok(Catalog::new(sources, self.interface(), &self.processors))
    }
}
