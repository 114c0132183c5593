//! The machine that is measured: what it says of itself, asked once.

use crate::output::error::Result;
use crate::target::backend::Backend;
use halprof_measure::Connection;
use halprof_measure::describe::Description;
use shared_types::request::machine::{self, Processor};
use std::sync::Arc;

pub(crate) struct Machine {
    /// The interface, the clock, and the state when the command began.
    pub(crate) description: machine::Machine,
    pub(crate) processors: Arc<[Processor]>,
}

impl Machine {
    pub(crate) fn of(connection: &mut Connection<Backend>) -> Result<Self> {
        Ok(Self { description: connection.machine()?, processors: connection.processors()?.into() })
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
}

/// The other hardware thread of a processor's core, if Windows runs it. Windows numbers the threads of
/// a core one after the other; the cores whose counters can count any thread have two.
pub(crate) fn sibling<'a>(of: &Processor, all: &'a [Processor]) -> Option<&'a Processor> {
    let place = (of.group, of.number ^ 1);
    let shares = of.flags & Processor::SHARES_CORE != 0;
    all.iter().find(|one| shares && (one.group, one.number) == place)
}
