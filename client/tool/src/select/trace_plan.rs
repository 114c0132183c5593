//! What the options name, as a backend that measures by a trace has it.

use crate::cli::args::{Selection, refuse};
use crate::output::error::{Error, Result};
use crate::select::event_set::items;
use halprof_measure::tracing::session::plan::{TraceEvent, resolve};
use halprof_measure::tracing::session::{ProfileSource, Tracing};

pub(crate) struct Offer {
    pub(crate) sources: Vec<ProfileSource>,
    /// How many sources one session can count; `None` if the backend does not say.
    pub(crate) counters: Option<u32>,
}

impl Offer {
    pub(crate) fn of(tracing: &mut dyn Tracing) -> Result<Self> {
        Ok(Self { sources: tracing.sources()?, counters: tracing.counters()? })
    }

    /// The events that are named; `None` if none is.
    pub(crate) fn named(&self, selection: &Selection) -> Result<Option<Vec<TraceEvent>>> {
        refuse_options(&[
            ("--approximate", selection.approximate),
            ("--event-file", selection.event_file.is_some()),
        ])?;
        if selection.is_default() {
            return Ok(None);
        }
        Ok(Some(resolve(&items(selection)?, &self.sources)?))
    }
}

/// Refuses options that Windows' own tracing has nothing for.
pub(crate) fn refuse_options(given: &[(&str, bool)]) -> Result<()> {
    refuse(given, |option| {
        Error::unavailable(
            format!("`{option}`: Windows' own tracing cannot do this"),
            "Leave it out, or measure by the driver: `halprof install`, then `--machine driver`.",
        )
    })
}
