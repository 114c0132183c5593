//! Turns counts into rows, and rows into figures.

use super::body::{Figure, Row, Run, SlotsPart};
use super::form::Form;
use super::measured::{Measured, OnePass};
use super::topdown::{PassCounts, TopDown};
use crate::cli::args;
use crate::metrics::Requested;
use crate::metrics::{self, Counted, Metrics};
use crate::select::event_set::EventSet;
use crate::select::time::nanoseconds;
use halprof_measure::estimate::Estimate;
use halprof_measure::selection::{EventSpec, format_processors};
use halprof_setup::describe;
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use std::collections::BTreeMap;

/// How counts become rows.
pub(super) struct View<'a> {
    pub(super) event_set: &'a EventSet,
    pub(super) metrics: &'a Metrics,
    /// The metrics that were requested; if none was, all that can be computed.
    pub(super) wanted: Vec<Requested<'a>>,
    pub(super) frequency: u64,
    pub(super) by: By,
    /// Where the slots went, if requested.
    pub(super) topdown: Option<TopDown>,
}

/// What has a row of its own for each source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Machine,
    CoreType,
    Processor,
}

impl By {
    /// The view that the options request. In text, core types are separate by default, because a
    /// sum over two kinds of core means little; programs get what they request.
    pub(super) fn of(options: &args::Stat, event_set: &EventSet, form: Form) -> Self {
        if options.per_cpu {
            Self::Processor
        } else if types_differ(event_set) && (options.per_core_type || form == Form::Text) {
            Self::CoreType
        } else {
            Self::Machine
        }
    }
}

/// Whether the chosen processors are of different core types.
fn types_differ(event_set: &EventSet) -> bool {
    let mut types = event_set.selected().map(|processor| processor.core_type);
    let first = types.next();
    types.any(|other| Some(other) != first)
}

/// The count of an event on each processor.
pub(super) type Parts = BTreeMap<u32, Estimate>;

/// What a figure is of: one processor, one core type, or all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Backend {
    processor: Option<u32>,
    core_type: Option<&'static str>,
}

/// Processors whose counts are added up.
struct Party<'a> {
    processor: Option<u32>,
    core_type: Option<&'static str>,
    members: Vec<&'a Processor>,
}

impl View<'_> {
    /// The names of these of the chosen sources.
    pub(super) fn labels(&self, sources: &[usize]) -> Vec<String> {
        let events = sources.iter().filter_map(|&at| self.event_set.events.get(at));
        events.map(|event| event.label.clone()).collect()
    }

    /// Where the slots went, by the counts of these passes.
    pub(super) fn slots(&self, passes: &[PassCounts<'_>]) -> Vec<SlotsPart> {
        let topdown = self.topdown.as_ref();
        topdown.map_or_else(Vec::new, |topdown| topdown.rows(self.event_set, passes))
    }

    /// The rows of all passes of one measurement, in the requested order.
    pub(super) fn run(&self, measured: &Measured) -> Run {
        let several = measured.passes.len() > 1;
        let of = |(pass, one): (u32, &OnePass)| -> Vec<(usize, Vec<Row>)> {
            let rows = |(place, &source): (usize, &usize)| {
                let pass = several.then_some(pass);
                (source, self.source(&one.sources, place, &one.counts, pass))
            };
            one.sources.iter().enumerate().map(rows).collect()
        };
        let mut rows: Vec<(usize, Vec<Row>)> = (1..).zip(&measured.passes).flat_map(of).collect();
        rows.sort_by_key(|(source, _)| *source);
        let elapsed = measured.passes.iter().map(|pass| pass.elapsed_ns);
        let passes = measured.passes.len().max(1) as u64;
        Run {
            elapsed_ns: elapsed.fold(0, u64::saturating_add) / passes,
            counts: rows.into_iter().flat_map(|(_, rows)| rows).collect(),
            interrupted: measured.cut,
        }
    }

    /// The rows of one pass: `counts` has for each processor one count for each of `sources`.
    pub(super) fn rows(
        &self,
        sources: &[usize],
        counts: &[Vec<Count>],
        pass: Option<u32>,
    ) -> Vec<Row> {
        (0..sources.len()).flat_map(|place| self.source(sources, place, counts, pass)).collect()
    }

    /// The rows of one of `sources`.
    fn source(
        &self,
        sources: &[usize],
        place: usize,
        counts: &[Vec<Count>],
        pass: Option<u32>,
    ) -> Vec<Row> {
        let Some((event, parts)) = self.parts(sources, place, counts) else {
            return Vec::new();
        };
        let counting = |processor: &&Processor| parts.contains_key(&processor.index);
        let (able, unable): (Vec<&Processor>, Vec<&Processor>) =
            self.event_set.selected().partition(counting);
        let estimate =
            |processor: &&Processor| parts.get(&processor.index).copied().unwrap_or_default();
        let row = |party: Party<'_>| {
            let lacks = |member: &&&Processor| estimate(member).never_scheduled_cpus != 0;
            let without = party.members.iter().filter(lacks);
            let without = format_processors(without.map(|member| member.index));
            Row {
                processor: party.processor,
                core_type: party.core_type,
                pass,
                without_turn: Some(without).filter(|processors| !processors.is_empty()),
                members: party.members.iter().map(|member| member.index).collect(),
                ..self.row(event, &Estimate::sum(party.members.iter().map(estimate)))
            }
        };
        let mut rows: Vec<Row> = self.parties(able).into_iter().map(row).collect();
        let unable = format_processors(unable.into_iter().map(|processor| processor.index));
        if let Some(first) = rows.first_mut().filter(|_| self.by != By::Processor) {
            first.left_out = Some(unable).filter(|processors| !processors.is_empty());
        }
        rows
    }

    /// The event at this place among `sources`, and its count on each processor that can count it.
    pub(super) fn parts(
        &self,
        sources: &[usize],
        place: usize,
        counts: &[Vec<Count>],
    ) -> Option<(&EventSpec, Parts)> {
        let event = self.event_set.events.get(*sources.get(place)?)?;
        let part = |processor: &Processor| {
            let counts = counts.get(processor.index as usize);
            let count = counts.and_then(|counts| counts.get(place)).copied();
            (processor.index, Estimate::new(&count.unwrap_or_default()))
        };
        let able = self.event_set.selected().filter(|one| self.event_set.counts_on(event, one));
        Some((event, able.map(part).collect()))
    }

    fn parties<'b>(&self, able: Vec<&'b Processor>) -> Vec<Party<'b>> {
        let core_type = |processor: &Processor| describe::core_type(processor);
        let mut parties: Vec<Party<'b>> = Vec::new();
        match self.by {
            By::Machine => parties.push(Party { processor: None, core_type: None, members: able }),
            By::Processor => parties.extend(able.into_iter().map(|processor| Party {
                processor: Some(processor.index),
                core_type: core_type(processor),
                members: vec![processor],
            })),
            By::CoreType => {
                for processor in able {
                    let same = |party: &&mut Party<'_>| party.core_type == core_type(processor);
                    match parties.iter_mut().find(same) {
                        Some(party) => party.members.push(processor),
                        None => parties.push(Party {
                            processor: None,
                            core_type: core_type(processor),
                            members: vec![processor],
                        }),
                    }
                }
            }
        }
        parties
    }

    fn row(&self, event: &EventSpec, estimate: &Estimate) -> Row {
        Row {
            source: event.label.clone(),
            requested: event.requested.clone(),
            processor: None,
            core_type: None,
            group: Some(event.common().group).filter(|&group| group != 0),
            pass: None,
            value: estimate.value,
            counted: estimate.counted,
            enabled_ns: nanoseconds(estimate.enabled, self.frequency),
            running_ns: nanoseconds(estimate.running, self.frequency),
            scaled: estimate.scaled,
            error: estimate.error.map(f64::ceil),
            deviation: None,
            repeats: None,
            left_out: None,
            without_turn: None,
            note: self.event_set.note(event),
            members: Vec::new(),
        }
    }

    /// Figures from the sums over processors, or over those of each core type; metrics that were
    /// requested, of each processor if each has rows of its own.
    pub(super) fn figures(&self, rows: &[Row]) -> Vec<Figure> {
        let apart = self.by == By::Processor && !self.wanted.is_empty();
        let place = |row: &Row| Backend {
            processor: row.processor.filter(|_| apart),
            core_type: row.core_type,
        };
        let mut places: Vec<Backend> = Vec::new();
        for row in rows {
            if !places.contains(&place(row)) {
                places.push(place(row));
            }
        }
        let of_place = |there: Backend| {
            let rows = rows.iter().filter(|row| place(row) == there);
            let rows: Vec<&Row> = rows.collect();
            // A figure of counts from different processors would mean nothing.
            let groups = by_processors(&rows);
            if self.wanted.is_empty() {
                let mut figures: Vec<Figure> = Vec::new();
                for figure in groups.iter().flat_map(|counts| self.metrics.derive(counts)) {
                    let figure = shown(&figure, there);
                    let same = |earlier: &Figure| {
                        earlier.metric == figure.metric && earlier.filter == figure.filter
                    };
                    if !figures.iter().any(same) {
                        figures.push(figure);
                    }
                }
                return figures;
            }
            let partly = rows.iter().filter(|row| row.without_turn.is_some());
            let partly: Vec<&str> = partly.map(|row| row.source.as_str()).collect();
            let figure = |one: &Requested<'_>| {
                let of = |counts: &Vec<Counted<'_>>| {
                    let figure = self.metrics.figure(one.metric, counts, one.filter);
                    figure.map(|figure| shown(&figure, there))
                };
                if let Some(figure) = groups.iter().find_map(of) {
                    return figure;
                }
                let all = groups.concat();
                let why = if of(&all).is_some() {
                    self.on_different_processors()
                } else {
                    let (metric, filter) = (one.metric, one.filter);
                    self.metrics.why_not(metric, &all, &partly, filter)
                };
                not_shown(one, there, why)
            };
            self.wanted.iter().map(figure).collect::<Vec<_>>()
        };
        places.into_iter().flat_map(of_place).collect()
    }

    /// Why a metric has no value whose sources were all counted.
    fn on_different_processors(&self) -> String {
        let remedy = if self.by == By::CoreType || !types_differ(self.event_set) {
            "choose processors of one kind with -C"
        } else {
            "--per-core-type computes it for each type of core"
        };
        format!("its sources are not counted on the same processors: {remedy}")
    }
}

/// The counts of these rows, one for each source, in groups that were counted on the same
/// processors. A row that had no turn on a counter on some of them has no count that another can be
/// divided by, but tells where the source is counted.
fn by_processors<'a>(rows: &[&'a Row]) -> Vec<Vec<Counted<'a>>> {
    let processors = |source: &str| {
        let rows = rows.iter().filter(|row| row.source == source);
        let mut members: Vec<u32> = rows.flat_map(|row| row.members.iter().copied()).collect();
        members.sort_unstable();
        members.dedup();
        members
    };
    let mut groups: Vec<(Vec<u32>, Vec<Counted<'a>>)> = Vec::new();
    for counted in sums(rows.iter().copied().filter(|row| row.without_turn.is_none())) {
        let counted_on = processors(counted.label);
        match groups.iter_mut().find(|(those, _)| *those == counted_on) {
            Some((_, group)) => group.push(counted),
            None => groups.push((counted_on, vec![counted])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// One count for each source.
fn sums<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Counted<'a>> {
    let mut sums: Vec<Counted<'a>> = Vec::new();
    for row in rows {
        let one = Counted {
            label: &row.source,
            value: row.value.unwrap_or(0),
            scaled: row.scaled,
            error: row.error,
            enabled_ns: row.enabled_ns,
            group: row.group.unwrap_or(0),
        };
        match sums.iter_mut().find(|sum| sum.label == row.source) {
            Some(sum) => *sum = both(sum, &one),
            None => sums.push(one),
        }
    }
    sums
}

fn both<'a>(one: &Counted<'a>, other: &Counted<'a>) -> Counted<'a> {
    let known = |counted: &Counted<'_>| {
        let exact = Some(0.0).filter(|_| !counted.scaled);
        counted.error.or(exact)
    };
    let scaled = one.scaled || other.scaled;
    let error = known(one).zip(known(other)).map(|(one, other)| one + other);
    Counted {
        label: one.label,
        value: one.value.saturating_add(other.value),
        scaled,
        error: error.filter(|_| scaled),
        enabled_ns: one.enabled_ns.saturating_add(other.enabled_ns),
        group: one.group,
    }
}

fn shown(figure: &metrics::Figure<'_>, place: Backend) -> Figure {
    Figure {
        metric: figure.metric.id.clone(),
        name: figure.metric.name.clone(),
        value: Some(figure.value),
        unit: figure.metric.unit.clone(),
        filter: figure.filter,
        processor: place.processor,
        core_type: place.core_type,
        scaled: figure.scaled,
        error: figure.error,
        reason: None,
    }
}

fn not_shown(wanted: &Requested<'_>, place: Backend, why: String) -> Figure {
    Figure {
        metric: wanted.metric.id.clone(),
        name: wanted.metric.name.clone(),
        value: None,
        unit: wanted.metric.unit.clone(),
        filter: wanted.filter,
        processor: place.processor,
        core_type: place.core_type,
        scaled: false,
        error: None,
        reason: Some(why),
    }
}
