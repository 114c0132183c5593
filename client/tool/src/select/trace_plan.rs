//! What the options name, as a backend that measures by a trace has it.

use crate::cli::args::Selection;
use crate::output::error::Result;
use crate::select::event_set::items;
use halprof_measure::tracing::session::plan::{TraceEvent, counted_by_default, resolve};
use halprof_measure::tracing::session::{ProfileSource, Tracing};

pub(crate) struct TraceSources {
    pub(crate) sources: Vec<ProfileSource>,
    /// How many sources one session can count; `None` if the backend does not say.
    pub(crate) counters: Option<u32>,
}

impl TraceSources {
    pub(crate) fn of(tracing: &mut dyn Tracing) -> Result<Self> {
        Ok(Self { sources: tracing.sources()?, counters: tracing.counters()? })
    }

    /// The events that are named; `None` if none is.
    pub(crate) fn named(&self, selection: &Selection) -> Result<Option<Vec<TraceEvent>>> {
        if selection.is_default() {
            return Ok(None);
        }
        Ok(Some(resolve(&items(selection)?, &self.sources)?))
    }

    /// The events that are named to be counted, or the usual ones: `all` leaves out time, which is not
    /// counted.
    pub(crate) fn counted(&self, selection: &Selection) -> Result<Vec<TraceEvent>> {
        let Some(mut events) = self.named(selection)? else {
            return Ok(counted_by_default(&self.sources, self.counters));
        };
        events.retain(|event| !event.is_time_by_chance());
        Ok(events)
    }
}
