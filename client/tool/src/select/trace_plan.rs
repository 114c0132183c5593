//! What the options name, as a backend that measures by a trace has it.

use crate::cli::args::Selection;
use crate::metrics::{Metrics, Requested};
use crate::output::error::{Error, Result};
use crate::select::event_set::items;
use crate::select::typical_rates::events_in;
use halprof_measure::tracing::session::plan::{
    INTERVAL_OF_CYCLES, TraceEvent, counted_by_default, find, is_paced_by_clock, resolve,
};
use halprof_measure::tracing::session::{ProfileSource, TIMER, Tracing};

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

    /// Refuses more events than can be sampled at once: Windows would leave out some of them without a
    /// word.
    pub(crate) fn check_sampled(&self, events: &[TraceEvent]) -> Result<()> {
        let counted = events.iter().filter(|event| event.source != TIMER).count();
        match self.counters {
            Some(most) if counted > most as usize => Err(Error::unavailable(
                format!("Windows samples at most {most} sources at once; {counted} were given"),
                "Name fewer, or record them one after the other.",
            )),
            _ => Ok(()),
        }
    }

    /// Adds what a metric needs and is not there yet: the first source of each quantity that is listed,
    /// with an interval by how often its events usually come.
    pub(crate) fn add_metric(
        &self,
        metrics: &Metrics,
        requested: &Requested<'_>,
        events: &mut Vec<TraceEvent>,
    ) -> Result<()> {
        for term in metrics.terms(requested.metric) {
            let names = metrics.names(&term.name);
            let mut listed = names.iter().filter_map(|name| find(name, &self.sources));
            let Some(source) = listed.next().filter(|_| requested.is_of_both_modes(&term)) else {
                return Err(Error::unavailable(
                    format!(
                        "`{}` needs {}, which Windows' own tracing does not measure here",
                        requested.name(),
                        requested.label(&term.name, &term)
                    ),
                    "`halprof list` shows what Windows lists; the driver can tell user from kernel mode.",
                ));
            };
            if events.iter().all(|event| event.source != source.id) {
                let usual = events_in(&term.name, INTERVAL_OF_CYCLES.into());
                let usual = usual.filter(|_| !is_paced_by_clock(&source.name));
                events.push(TraceEvent::chosen(source, usual));
            }
        }
        Ok(())
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
