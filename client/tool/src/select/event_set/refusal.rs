//! What a refusal says of the events: their names in place of numbers, and what helps.

use crate::metrics::{Metric, Metrics};
use crate::output::error::Error;
use crate::select::event_set::{EventSet, choose};
use halprof_measure::Refusal;
use halprof_measure::catalog::Catalog;
use halprof_measure::selection::{EventSpec, format_processors};
use shared_types::request::machine::Processor;
use shared_types::{ErrorCode, ProfileSource};
use std::collections::BTreeSet;

impl EventSet {
    /// The same error with the name of the event that it concerns and, if other processors can count
    /// that, with those. A refusal does not distinguish raw selects: it names those that it may
    /// mean.
    pub(crate) fn explain(&self, error: impl Into<Error>) -> Error {
        match error.into() {
            Error::Measure(halprof_measure::Error::Refused(refusal)) => {
                self.explain_refusal(self.with_cause(refusal))
            }
            other => other,
        }
    }

    /// If a group does not fit because a processor lacks one of its events, that event is the cause,
    /// whichever event found no counter.
    fn with_cause(&self, refusal: Refusal) -> Refusal {
        if refusal.code != ErrorCode::DoesNotFit {
            return refusal;
        }
        let mut processors = self.processors().iter();
        let Some(processor) = processors.find(|one| u64::from(one.index) == refusal.detail) else {
            return refusal;
        };
        let has_source =
            |event: &EventSpec, source| event.specs.iter().any(|spec| spec.source == source);
        let refused = self.events.iter().find(|event| has_source(event, refusal.subject));
        let Some(group) = refused.map(|event| event.common().group) else {
            return refusal;
        };
        let mut members = self.events.iter().filter(|event| event.common().group == group);
        match members.find(|event| !self.counts_on(event, processor)) {
            Some(lacking) => Refusal {
                subject: lacking.common().source,
                source: Some(lacking.label.clone()),
                ..refusal
            },
            None => refusal,
        }
    }

    fn explain_refusal(&self, refusal: Refusal) -> Error {
        let code = refusal.code;
        let raw =
            if refusal.subject == ProfileSource::RAW.0 { self.raw_culprits() } else { vec![] };
        let named = halprof_measure::Error::Refused(refusal).about(|id| {
            let source = self.catalog().sources.iter().find(|source| source.id == id);
            match raw.as_slice() {
                [] => source.map(|source| source.name.to_owned()),
                [name] => Some((*name).to_owned()),
                several => Some(format!("one of {}", several.join(", "))),
            }
        });
        let halprof_measure::Error::Refused(refusal) = named else {
            return named.into();
        };
        let event = match raw.as_slice() {
            [] => self.events.iter().find(|one| one.common().source == refusal.subject),
            [name] => self.events.iter().find(|one| one.label == *name),
            _ => None,
        };
        let processors = event.map(|event| (event, self.countable_where(event)));
        let is_of_source = matches!(code, ErrorCode::DoesNotFit | ErrorCode::SourceNotSupported);
        let Some((event, (able, unable))) = processors
            .filter(|(_, (able, unable))| is_of_source && !able.is_empty() && !unable.is_empty())
        else {
            return refusal.into();
        };
        let hint = if code == ErrorCode::DoesNotFit {
            format!("Measure where it can be counted, `-C {able}`, or take it out of the group.")
        } else {
            format!("Measure where it can be counted: `-C {able}`.")
        };
        Error::Explained {
            code: code.code(),
            message: format!("{}: processors {unable} cannot count it; {able} can", event.label),
            hint,
        }
    }

    /// Which processors can count an event, and which of the measured ones cannot.
    fn countable_where(&self, event: &EventSpec) -> (String, String) {
        let index = |one: &Processor| one.index;
        let able = self.processors().iter().filter(|one| self.counts_on(event, one));
        let unable = self.selected().filter(|one| !self.counts_on(event, one));
        (format_processors(able.map(index)), format_processors(unable.map(index)))
    }

    /// The raw selects that a refusal may mean, each name once: those that no measured processor
    /// counts, if there are any.
    fn raw_culprits(&self) -> Vec<&str> {
        let is_raw = |event: &&EventSpec| event.common().source == ProfileSource::RAW.0;
        let is_counted = |event: &EventSpec| self.selected().any(|one| self.counts_on(event, one));
        let raw: Vec<&EventSpec> = self.events.iter().filter(is_raw).collect();
        let uncounted = raw.iter().filter(|event| !is_counted(event));
        let uncounted: BTreeSet<&str> = uncounted.map(|event| event.label.as_str()).collect();
        if uncounted.is_empty() {
            let all: BTreeSet<&str> = raw.iter().map(|event| event.label.as_str()).collect();
            return all.into_iter().collect();
        }
        uncounted.into_iter().collect()
    }
}

/// The error for a metric whose part, counted by any of these names, cannot be counted.
pub(super) fn not_countable(
    metric: &Metric,
    names: &[&str],
    metrics: &Metrics,
    catalog: &Catalog,
) -> Error {
    let why = match names {
        [name] => choose(name, catalog).err(),
        _ => None,
    };
    let why = why.map_or_else(
        || "the chosen processors count no such thing".to_owned(),
        |why| why.to_string(),
    );
    let hint = if metric.is_of_slots() && metrics.has_topdown(catalog) {
        "`stat --topdown` has it on this processor, by the vendor's formulas."
    } else {
        "`halprof list --metrics` shows which metrics this machine has."
    };
    Error::unavailable(
        format!("the metric `{}` needs {}: {why}", metric.id, names.join(" or ")),
        hint,
    )
}

pub(crate) fn no_processor(index: u32, count: u64) -> Error {
    let code = ErrorCode::ProcessorUnknown;
    Refusal { code, subject: index, detail: count, source: None }.into()
}
