//! The events and processors of a measurement: the one list from the command line to the wire.

pub(crate) mod refusal;

use crate::cli::args::{Selection, joined};
use crate::metrics::{Metrics, Requested, Term};
use crate::output::error::{Error, Result};
use crate::select::sampling_rate::RATE;
use crate::select::time::TIME_UNITS_A_SECOND;
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::Source;
use halprof_measure::catalog::{Catalog, types_of};
use halprof_measure::event_counts::EventCounts;
use halprof_measure::selection::{self, EventSpec, Item, format_processors};
use halprof_measure::tracing::session::plan::is_paced_by_clock;
use halprof_measure::{Connection, Setup};
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use shared_types::{ProfileSource, SourceNote};
use std::sync::Arc;

/// The shortest interval of Windows' own sources.
const LEAST_INTERVAL: u64 = 4096;

/// The events and processors of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct EventSet {
    /// In the order of the counts.
    pub(crate) events: Vec<EventSpec>,
    /// How they are measured, and where. Its specs are empty: [`EventSet::setup_of`] fills them in
    /// when the request is made.
    setup: Setup,
    catalog: Catalog,
    /// Every processor of the machine.
    processors: Arc<[Processor]>,
}

/// What events are for, which decides what is measured where none is named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be counted: by default as many of the usual quantities as run at once.
    Count,
    /// To be sampled: by default cycles, with a period.
    Sample,
    /// To be sampled beside the events of metrics: none by default.
    SampleBeside,
    /// To be counted, and divided by samples: cycles and instructions, each with a period.
    Divide,
    /// To be counted beside the events of metrics, or of the top-down: none by default.
    CountBeside,
}

/// The items of the lists that the options have.
pub(crate) fn items(options: &Selection) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    if let Some(list) = joined(&options.events) {
        selection::parse_list(&list, &mut items)?;
    }
    for list in &options.groups.0 {
        selection::parse_group(list, &mut items)?;
    }
    Ok(items)
}

impl EventSet {
    /// The events that the options name; without any, the usual ones for this purpose.
    pub(crate) fn new(options: &Selection, ctx: &mut Context, purpose: Purpose) -> Result<Self> {
        let mut event_set = Self::named(options, ctx)?;
        let is_default = event_set.events.is_empty();
        match purpose {
            Purpose::Count if is_default => event_set.count_by_default(&mut ctx.connection)?,
            Purpose::Sample if is_default => event_set.sample_by_default(ctx)?,
            Purpose::Sample | Purpose::SampleBeside => event_set.pace_by_clock(ctx),
            Purpose::Divide => {
                if is_default {
                    event_set.divide_by_default()?;
                }
                event_set.divide(ctx.machine.frequency())?;
            }
            Purpose::Count | Purpose::CountBeside => {}
        }
        Ok(event_set)
    }

    /// Measures in slices of this length, in units of 100 ns, where events take turns; 0 for the default.
    pub(crate) fn in_slices(mut self, slice_100ns: u32) -> Self {
        self.setup.slice_100ns = slice_100ns;
        self
    }

    /// Records this many branches with each sample, of the kinds and modes of `filter`.
    pub(crate) fn with_branches(mut self, depth: u16, filter: u16) -> Self {
        (self.setup.branches, self.setup.branch_filter) = (depth, filter);
        self
    }

    /// The warning where no table says which counters count an event.
    pub(crate) fn unknown_constraints(&self) -> Option<String> {
        let names = self.catalog.unknown_constraints(&self.events);
        (!names.is_empty()).then(|| {
            format!(
                "which counters can count {} is not known, because no table of this processor has \
                 the event code: on the wrong one it counts something else, or nothing",
                names.join(", ")
            )
        })
    }

    fn named(options: &Selection, ctx: &mut Context) -> Result<Self> {
        let items = items(options)?;
        let processors = Arc::clone(&ctx.machine.processors);
        let requested = match joined(&options.processors) {
            Some(list) => processors_of(&selection::parse_processors(&list)?, &processors)?,
            None => Vec::new(),
        };
        let catalog = ctx.catalog(options.approximate)?;
        let mut catalog = catalog.measuring(selected(&requested, &processors));
        if let Some(path) = &options.event_file {
            catalog = catalog.with_event_file(path)?;
        }
        let events = catalog.resolve(&items)?;
        let approximate = options.approximate;
        let setup = Setup { processors: requested, approximate, ..Setup::default() };
        Ok(Self { events, setup, catalog, processors })
    }

    fn count_by_default(&mut self, connection: &mut Connection<Backend>) -> Result<()> {
        for names in Metrics::built_in()?.default_quantities() {
            let Some(name) = self.first_supported(&names, 0) else {
                continue;
            };
            let before = self.events.len();
            self.events.extend(choose(name, &self.catalog)?);
            if !connection.plan(&self.setup())?.fits {
                self.events.truncate(before);
            }
        }
        if self.events.is_empty() {
            self.events = choose("ProfileTime", &self.catalog)?;
        }
        Ok(())
    }

    /// Cycles if possible, otherwise instructions, otherwise time, with a period that gives a busy
    /// processor about [`RATE`] samples a second.
    fn sample_by_default(&mut self, ctx: &Context) -> Result<()> {
        let metrics = Metrics::built_in()?;
        let mut names = metrics.default_quantities().take(2);
        let name = names.find_map(|names| self.first_supported(&names, Source::SAMPLING));
        self.events = choose(name.unwrap_or("ProfileTime"), &self.catalog)?;
        let period = match name {
            Some(_) => Self::cycles_of_a_period(ctx),
            None => TIME_UNITS_A_SECOND / RATE,
        };
        for index in 0..self.events.len() {
            self.set_mean_period(index, period);
        }
        Ok(())
    }

    /// The cycles from sample to sample that give a busy processor about [`RATE`] samples a second. The
    /// time-stamp counter ticks about as fast as a busy core.
    pub(crate) fn cycles_of_a_period(ctx: &Context) -> u64 {
        ctx.machine.frequency() / RATE
    }

    /// Gives cycles and instructions without a period one by the clock. The default interval of the HAL
    /// would interrupt a busy processor more than ten thousand times a second.
    pub(crate) fn pace_by_clock(&mut self, ctx: &Context) {
        for index in self.indexes() {
            let name = self.events.get(index).and_then(|event| event.label.split(':').next());
            if self.period(index) == 0 && name.is_some_and(is_paced_by_clock) {
                self.set_mean_period(index, Self::cycles_of_a_period(ctx));
            }
        }
    }

    fn divide_by_default(&mut self) -> Result<()> {
        let metrics = Metrics::built_in()?;
        for names in metrics.default_quantities().take(2) {
            if let Some(name) = self.first_supported(&names, 0) {
                self.events.extend(choose(name, &self.catalog)?);
            }
        }
        if self.events.is_empty() {
            self.events = choose("TotalCycles", &self.catalog)?;
        }
        Ok(())
    }

    /// Gives events without a period one that gives a busy processor about [`RATE`] samples a
    /// second of its cycles.
    fn divide(&mut self, frequency: u64) -> Result<()> {
        if let Some(time) = self.events.iter().find(|event| event.is_time()) {
            return Err(Error::usage(
                format!(
                    "{} is not counted while it is sampled, so there is nothing to divide",
                    time.label
                ),
                "Divide cycles instead: they are counted exactly.",
            ));
        }
        for index in 0..self.events.len() {
            if self.period(index) == 0 {
                self.set_mean_period(index, frequency / RATE);
            }
        }
        Ok(())
    }

    fn first_supported<'a>(&self, names: &[&'a str], flags: u32) -> Option<&'a str> {
        let flags = Source::SUPPORTED | flags;
        let supported = |name: &&&str| {
            let mut sources = self.catalog.sources.iter();
            sources.any(|source| source.name == **name && source.flags & flags == flags)
        };
        names.iter().find(supported).copied()
    }

    /// Adds what these metrics need and is not there yet. With `multiplex`, a metric's events run
    /// as one group if there are not enough counters for all. `flags`: what a source must be able to do,
    /// besides being counted.
    pub(crate) fn add_metrics(
        &mut self,
        metrics: &Metrics,
        requested: &[Requested<'_>],
        (multiplex, flags): (bool, u32),
        ctx: &mut Context,
    ) -> Result<()> {
        for requested in requested {
            for term in metrics.terms(requested.metric) {
                self.add_term(metrics, requested, (&term, flags), ctx)?;
            }
        }
        if !multiplex || self.events.is_empty() {
            return Ok(());
        }
        let fit = ctx.connection.plan(&self.setup()).map_err(|error| self.explain(error))?;
        if !fit.at_once() {
            for requested in requested {
                self.group_metric(metrics, requested, &mut ctx.connection);
            }
        }
        Ok(())
    }

    /// Adds an event that counts this part of a metric, unless there is one already: the first that
    /// runs beside the others or, if none does, the first.
    fn add_term(
        &mut self,
        metrics: &Metrics,
        requested: &Requested<'_>,
        (term, flags): (&Term, u32),
        ctx: &mut Context,
    ) -> Result<()> {
        let names = metrics.names(&term.name);
        let labels: Vec<String> = names.iter().map(|name| requested.label(name, term)).collect();
        if labels.is_empty() || labels.iter().any(|label| self.find(label).is_some()) {
            return Ok(());
        }
        let able = labels.iter().filter_map(|label| able(label, flags, &self.catalog));
        let able = able.filter(|event| self.selected().any(|one| self.counts_on(event, one)));
        let able: Vec<EventSpec> = able.collect();
        let Some(mut added) = able.first().cloned() else {
            let error = refusal::not_countable(requested.metric, &names, metrics, &self.catalog);
            return Err(ctx.without_counters(error));
        };
        for event in able {
            self.events.push(event);
            let fits = ctx.connection.plan(&self.setup())?.at_once();
            let event = self.events.pop();
            if fits {
                added = event.unwrap_or(added);
                break;
            }
        }
        self.events.push(added);
        Ok(())
    }

    fn find(&self, label: &str) -> Option<usize> {
        self.events.iter().position(|event| event.label.eq_ignore_ascii_case(label))
    }

    /// Puts a metric's events into one group, if all are free and fit together.
    fn group_metric(
        &mut self,
        metrics: &Metrics,
        requested: &Requested<'_>,
        connection: &mut Connection<Backend>,
    ) {
        let terms = metrics.terms(requested.metric).into_iter();
        let of_term = |term: &Term| {
            let mut names = metrics.names(&term.name).into_iter();
            names.find_map(|name| self.find(&requested.label(name, term)))
        };
        let mut members: Vec<usize> = terms.filter_map(|term| of_term(&term)).collect();
        members.sort_unstable();
        members.dedup();
        self.group(&members, connection);
    }

    /// Puts these events into one group, if none is in another and they fit together; returns
    /// whether it did.
    pub(crate) fn group(
        &mut self,
        members: &[usize],
        connection: &mut Connection<Backend>,
    ) -> bool {
        let groups = self.events.iter().map(|event| event.common().group);
        let number = 1 + groups.max().unwrap_or(0);
        let before = self.events.clone();
        for &member in members {
            let Some(event) = self.events.get_mut(member) else {
                continue;
            };
            if event.common().group != 0 {
                self.events = before;
                return false;
            }
            event.specs.iter_mut().for_each(|spec| spec.group = number);
        }
        let fits = connection.plan(&self.setup()).is_ok();
        if !fits {
            self.events = before;
        }
        fits
    }

    /// Adds an event on these CPU types, a mask, unless it is there already; returns the label of
    /// its counts.
    pub(crate) fn add_event(&mut self, name: &str, cpu_types: u16) -> Result<String> {
        let cannot = || {
            let message = format!("{name} cannot be counted on these processors");
            Error::unavailable(message, format!("`halprof explain {name}` says why."))
        };
        let mut event = choose(name, &self.catalog)?.into_iter().next().ok_or_else(cannot)?;
        if self.catalog.cpu_types().len() > 1 {
            for spec in &mut event.specs {
                spec.cpu_types =
                    if spec.cpu_types == 0 { cpu_types } else { spec.cpu_types & cpu_types };
            }
            event.specs.retain(|spec| spec.cpu_types != 0);
        }
        if event.specs.is_empty() {
            return Err(cannot());
        }
        let label = event.label.clone();
        if self.find(&label).is_none() {
            self.events.push(event);
        }
        Ok(label)
    }

    /// Events between the samples of one event; 0 for its default.
    pub(crate) fn period(&self, index: usize) -> u64 {
        self.events.get(index).map_or(0, |event| event.common().interval)
    }

    /// Whether an event has a period that is drawn around a mean: one that nobody gave.
    pub(crate) fn is_drawn(&self, index: usize) -> bool {
        self.events.get(index).is_some_and(|event| event.common().flags & Spec::MEAN != 0)
    }

    /// The nearest period that an event's source has.
    pub(crate) fn within_limits(&self, index: usize, period: u64) -> u64 {
        let event = self.events.get(index);
        let id = event.map(|event| event.common().source);
        match self.catalog.sources.iter().find(|source| Some(source.id) == id) {
            Some(source) => {
                let least = u64::from(source.min_interval);
                period.clamp(least, u64::from(source.max_interval).max(least))
            }
            // A select has no limits of its own: these are those of the HAL.
            None => period.max(LEAST_INTERVAL),
        }
    }

    /// Sets the mean of an event's periods.
    pub(crate) fn set_mean_period(&mut self, index: usize, period: u64) {
        let event = self.events.get_mut(index);
        for spec in event.into_iter().flat_map(|event| &mut event.specs) {
            spec.interval = period;
            spec.flags |= Spec::MEAN;
        }
    }

    /// The request for all events.
    pub(crate) fn setup(&self) -> Setup {
        self.setup_of(&self.indexes())
    }

    /// The request for the events at these indexes.
    pub(crate) fn setup_of(&self, indexes: &[usize]) -> Setup {
        let events = indexes.iter().filter_map(|&index| self.events.get(index));
        let specs = events.flat_map(|event| event.specs.iter().copied());
        Setup { specs: specs.collect(), ..self.setup.clone() }
    }

    /// The event of each specification in [`EventSet::setup_of`], by its index.
    pub(crate) fn owners(&self, indexes: &[usize]) -> Vec<usize> {
        let specs = |index: usize| self.events.get(index).map_or(0, |event| event.specs.len());
        indexes.iter().flat_map(|&index| std::iter::repeat_n(index, specs(index))).collect()
    }

    /// The counts of a session that measures the events at these indexes: on each processor one for
    /// each event, 0 where it cannot be counted.
    pub(crate) fn counts(&self, indexes: &[usize], snapshot: &[Vec<Count>]) -> Vec<Vec<Count>> {
        let counts = self.processors.iter().zip(snapshot).map(|(processor, counts)| {
            let columns = self.columns(indexes, processor.cpu_type).into_iter();
            let count = |column: Option<usize>| counts.get(column?).copied();
            columns.map(|column| count(column).unwrap_or_default()).collect()
        });
        counts.collect()
    }

    /// What the events at these indexes have counted, by [`Self::counts`].
    pub(crate) fn event_counts(
        &self,
        indexes: &[usize],
        pass: Option<u32>,
        counts: &[Vec<Count>],
    ) -> Vec<EventCounts> {
        let events = indexes.iter().enumerate();
        let events = events.filter_map(|(column, &index)| {
            let event = self.events.get(index)?;
            Some(EventCounts::new(index, pass, self.selected(), |processor| {
                let count = counts.get(processor.index as usize)?.get(column).copied();
                count.filter(|_| self.counts_on(event, processor))
            }))
        });
        events.collect()
    }

    /// For each event at these indexes, the index of the specification that this CPU type counts.
    fn columns(&self, indexes: &[usize], cpu_type: u8) -> Vec<Option<usize>> {
        let mut first = 0;
        let events = indexes.iter().filter_map(|&index| self.events.get(index)).map(|event| {
            let column = self.catalog.spec_on(event, cpu_type).map(|spec| first + spec);
            first += event.specs.len();
            column
        });
        events.collect()
    }

    /// The events that run together, by their indexes: all of them, which may be multiplexed, or in
    /// passes those that need not be.
    pub(crate) fn sets(
        &self,
        in_passes: bool,
        sampling: bool,
        connection: &mut Connection<Backend>,
    ) -> Result<Vec<Vec<usize>>> {
        if !in_passes {
            return Ok(vec![self.indexes()]);
        }
        let cpu_types = types_of(self.selected());
        let sets = connection.passes(&self.events, &self.setup, cpu_types, sampling);
        sets.map_err(|error| self.explain(error))
    }

    pub(crate) fn indexes(&self) -> Vec<usize> {
        (0..self.events.len()).collect()
    }

    /// Everything that the machine can count.
    pub(crate) const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The processors that are measured.
    pub(crate) fn selected(&self) -> impl Iterator<Item = &Processor> {
        selected(&self.setup.processors, &self.processors)
    }

    /// Every processor of the machine.
    pub(crate) fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// How many processors the machine has.
    pub(crate) fn processor_count(&self) -> u32 {
        self.processors.len() as u32
    }

    pub(crate) fn counts_on(&self, event: &EventSpec, processor: &Processor) -> bool {
        self.catalog.counts_on(event, processor)
    }

    /// The events that some of the processors cannot count, each with those processors.
    pub(crate) fn excluded_cpus(&self) -> Vec<(String, String)> {
        let of_event = |event: &EventSpec| {
            let unable = self.selected().filter(|one| !self.counts_on(event, one));
            let unable = format_processors(unable.map(|one| one.index));
            (!unable.is_empty()).then(|| (event.label.clone(), unable))
        };
        self.events.iter().filter_map(of_event).collect()
    }

    /// Whether any event counts in kernel mode.
    pub(crate) fn sees_kernel(&self) -> bool {
        self.events.iter().any(|event| event.common().filter & Spec::KERNEL != 0)
    }

    /// What an event counts on this machine, if its table says more than its name does.
    pub(crate) fn note(&self, event: &EventSpec) -> Option<String> {
        if event.common().source == ProfileSource::RAW.0 {
            return self.note_of_alias(event);
        }
        let source = self.catalog.sources.iter().find(|one| one.id == event.common().source)?;
        let (counts, note) = (source.counts, source.note);
        let is_plain = counts.is_empty() || note.is_empty() || note.contains("same");
        // Why it cannot be sampled does not matter to a count.
        let is_plain = is_plain || source.reason.is_some_and(concerns_sampling_alone);
        // What the boot processor lacks does not matter where others count it.
        let is_plain = is_plain || source.flags & Source::SUPPORTED == 0;
        (!is_plain).then(|| format!("{counts}: {note}"))
    }

    /// What Linux perf's name for a select means on this processor, where it is not what the name
    /// says.
    fn note_of_alias(&self, event: &EventSpec) -> Option<String> {
        let name = event.label.split(':').next()?;
        let alias = self.catalog.alias(name)?;
        let (_, meaning) = alias.source.split_once(": ")?;
        let is_word = meaning.starts_with(char::is_alphabetic);
        is_word.then(|| format!("{meaning} on this processor, as in Linux perf"))
    }
}

const fn concerns_sampling_alone(note: SourceNote) -> bool {
    use SourceNote as N;
    matches!(note, N::TimerHasNoAddress | N::NoInterrupt | N::NoLocalApic | N::NoCycleCounter)
}

/// The event with this name and filter, if it is supported.
pub(crate) fn countable(label: &str, catalog: &Catalog) -> Option<EventSpec> {
    able(label, 0, catalog)
}

/// The event with this name and filter, if it is supported and can do what these flags of a source say.
fn able(label: &str, flags: u32, catalog: &Catalog) -> Option<EventSpec> {
    let flags = Source::SUPPORTED | flags;
    let event = choose(label, catalog).ok()?.into_iter().next()?;
    let is_supported = |spec: &Spec| {
        let source = catalog.sources.iter().find(|source| source.id == spec.source);
        source.is_none_or(|source| source.flags & flags == flags)
    };
    // The event must have this very name, so that the metric can find it.
    let is_named = event.label.eq_ignore_ascii_case(label);
    (is_named && event.specs.iter().all(is_supported)).then_some(event)
}

/// What halprof chooses itself.
pub(crate) fn choose(name: &str, catalog: &Catalog) -> Result<Vec<EventSpec>> {
    let mut items = Vec::new();
    selection::parse_list(name, &mut items)?;
    let mut events = catalog.resolve(&items)?;
    for event in &mut events {
        event.requested = None;
    }
    Ok(events)
}

/// The requested processors of all; without a request, all.
fn selected<'a>(requested: &'a [u32], all: &'a [Processor]) -> impl Iterator<Item = &'a Processor> {
    all.iter().filter(move |one| requested.is_empty() || requested.contains(&one.index))
}

/// The named processors, if all of them exist.
pub(crate) fn processors_of(requested: &[u32], all: &[Processor]) -> Result<Vec<u32>> {
    match requested.iter().find(|&&index| index as usize >= all.len()) {
        Some(&index) => Err(refusal::no_processor(index, all.len() as u64)),
        None => Ok(requested.to_vec()),
    }
}
