//! What a refusal says of the events: their names in place of numbers, and what helps.

use crate::metrics::{Metric, Metrics};
use crate::output::error::Error;
use crate::select::event_set::{EventSet, choose};
use halprof_measure::Refusal;
use halprof_measure::catalog::Catalog;
use halprof_measure::selection::{EventSpec, format_processors};
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
        let raw =
            if refusal.subject == ProfileSource::RAW.0 { self.raw_culprits() } else { vec![] };
        let event = match raw.as_slice() {
            [] => self.events.iter().find(|one| one.common().source == refusal.subject),
            [name] => self.events.iter().find(|one| one.label == *name),
            _ => None,
        };
        if let Some(error) = event.and_then(|event| self.counted_elsewhere(event, refusal.code)) {
            return error;
        }
        let name_of = |id| {
            let source = self.catalog().sources.iter().find(|source| source.id == id);
            match raw.as_slice() {
                [] => source.map(|source| source.name.to_owned()),
                [name] => Some((*name).to_owned()),
                several => Some(format!("one of {}", several.join(", "))),
            }
        };
        halprof_measure::Error::Refused(refusal).about(name_of).into()
    }

    /// The error for an event that does not fit or is not supported, if some of the measured
    /// processors cannot count it and others of the machine can.
    fn counted_elsewhere(&self, event: &EventSpec, code: ErrorCode) -> Option<Error> {
        let able = self.processors().iter().filter(|one| self.counts_on(event, one));
        let unable = self.selected().filter(|one| !self.counts_on(event, one));
        let able = format_processors(able.map(|one| one.index));
        let unable = format_processors(unable.map(|one| one.index));
        let hint = match code {
            _ if able.is_empty() || unable.is_empty() => return None,
            ErrorCode::DoesNotFit => {
                format!(
                    "Measure where it can be counted, `-C {able}`, or take it out of the group."
                )
            }
            ErrorCode::SourceNotSupported => {
                format!("Measure where it can be counted: `-C {able}`.")
            }
            _ => return None,
        };
        Some(Error::Explained {
            code: code.code(),
            message: format!("{}: processors {unable} cannot count it; {able} can", event.label),
            hint,
        })
    }

    /// The raw selects that a refusal may mean, each name once: those that no measured processor
    /// counts, if there are any.
    fn raw_culprits(&self) -> Vec<&str> {
        let is_counted = |event: &EventSpec| self.selected().any(|one| self.counts_on(event, one));
        let raw = self.events.iter().filter(|one| one.common().source == ProfileSource::RAW.0);
        let (counted, uncounted): (Vec<&EventSpec>, Vec<&EventSpec>) =
            raw.partition(|event| is_counted(event));
        let culprits = if uncounted.is_empty() { counted } else { uncounted };
        let labels: BTreeSet<&str> = culprits.iter().map(|event| event.label.as_str()).collect();
        labels.into_iter().collect()
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
    let why = why
        .map_or_else(|| "the chosen processors do not count it".to_owned(), |why| why.to_string());
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
