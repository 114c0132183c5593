//! Shared by stat, record and check: the choice of sources and processors.

use crate::cli::args::{Selection, Work, joined};
use crate::metrics::topdown::Part;
use crate::metrics::{Metric, Metrics, Term};
use crate::output::error::Error;
use crate::output::error::Result;
use crate::select::sampling_rate::Aim;
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::catalog::Catalog;
use halprof_measure::selection::{self, Chosen, Item, format_processors};
use halprof_measure::{Connection, Refusal, Setup, did_you_mean};
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use shared_types::request::source::Source;
use shared_types::{ErrorCode, ProfileSource};
use std::collections::BTreeSet;

/// The sources and processors of a measurement.
#[derive(Clone)]
pub(crate) struct EventSet {
    /// In the order of the counts.
    pub(crate) chosen: Vec<Chosen>,
    /// The setup to request.
    pub(crate) setup: Setup,
    /// Everything that the machine can count.
    catalog: Catalog,
    /// Every processor of the machine.
    processors: Vec<Processor>,
}

/// The period of ProfileTime is in units of 100 ns.
pub(crate) const TIME_UNITS_A_SECOND: u64 = 10_000_000;

impl EventSet {
    /// The sources that the options name; without any, those that `default_is_counting` selects.
    pub(crate) fn of(
        options: &Selection,
        ctx: &mut Context,
        default_is_counting: bool,
    ) -> Result<Self> {
        let mut event_set = Self::named(options, ctx)?;
        if event_set.chosen.is_empty() {
            let metrics = Metrics::built_in()?;
            if default_is_counting {
                event_set.count_by_default(&metrics, &mut ctx.connection)?;
            } else {
                let frequency = ctx.connection.machine()?.timestamp_frequency;
                event_set.sample_by_default(&metrics, frequency)?;
            }
        }
        event_set.settle();
        Ok(event_set)
    }

    /// The sources that the options name; without any, cycles and instructions. A source without a
    /// period gets one that gives a busy processor about [`Aim::RATE`] samples a second of
    /// its cycles.
    pub(crate) fn to_divide(options: &Selection, ctx: &mut Context) -> Result<Self> {
        let mut event_set = Self::named(options, ctx)?;
        if event_set.chosen.is_empty() {
            let metrics = Metrics::built_in()?;
            for names in metrics.default_quantities().take(2) {
                if let Some(name) = event_set.first_supported(&names, 0) {
                    event_set.chosen.extend(choose(name, &event_set.catalog)?);
                }
            }
            if event_set.chosen.is_empty() {
                event_set.chosen = choose("TotalCycles", &event_set.catalog)?;
            }
        }
        let mut chosen = event_set.chosen.iter();
        if let Some(time) = chosen.find(|one| one.spec.source == ProfileSource::TIME.0) {
            return Err(Error::usage(
                format!(
                    "{} is not counted while it is sampled, so there is nothing to divide",
                    time.label
                ),
                "Divide cycles instead: they are counted exactly.",
            ));
        }
        let period = ctx.connection.machine()?.timestamp_frequency / Aim::RATE;
        for chosen in &mut event_set.chosen {
            if chosen.spec.interval == 0 {
                chosen.spec.interval = period;
            }
        }
        event_set.settle();
        Ok(event_set)
    }

    /// The sources that the options name, or none.
    pub(crate) fn only_named(options: &Selection, ctx: &mut Context) -> Result<Self> {
        let mut event_set = Self::named(options, ctx)?;
        event_set.settle();
        Ok(event_set)
    }

    /// The sources that the options name, and those that the metrics need in addition. With
    /// `turns`, a metric's sources run as one group if there are not enough counters for all.
    pub(crate) fn with_metrics(
        options: &Selection,
        ctx: &mut Context,
        metrics: &Metrics,
        wanted: &[Wanted<'_>],
        turns: bool,
    ) -> Result<Self> {
        let mut event_set = Self::named(options, ctx)?;
        for wanted in wanted {
            for term in metrics.terms(wanted.metric) {
                event_set.add_term(metrics, wanted, &term, ctx)?;
            }
        }
        event_set.settle();
        let planned = turns.then(|| ctx.connection.plan(&event_set.setup));
        let planned = planned.transpose().map_err(|error| event_set.name_source(error))?;
        if planned.is_some_and(|fit| !fit.at_once()) {
            for wanted in wanted {
                event_set.group(metrics, wanted, &mut ctx.connection);
            }
        }
        Ok(event_set)
    }

    /// The sources that the options name.
    fn named(options: &Selection, ctx: &mut Context) -> Result<Self> {
        let mut items = Vec::new();
        if let Some(list) = joined(&options.events) {
            selection::parse_list(&list, &mut items)?;
        }
        for list in &options.groups.0 {
            selection::parse_group(list, &mut items)?;
        }
        let wanted = joined(&options.processors)
            .map(|list| selection::parse_processors(&list))
            .transpose()?;
        let processors = ctx.connection.processors()?;
        let wanted = wanted.map(|wanted| processors_of(&wanted, &processors)).transpose()?;
        let sources = ctx.connection.sources(options.approximate)?;
        let interface = ctx.connection.machine()?.interface;
        let measured = |one: &&Processor| match &wanted {
            Some(wanted) => wanted.contains(&one.index),
            None => true,
        };
        let mut catalog = Catalog::new(sources, interface, &processors)
            .measuring(processors.iter().filter(measured));
        if let Some(path) = &options.event_file {
            catalog = catalog.with_event_file(path)?;
        }
        Ok(Self {
            chosen: catalog.resolve(&items)?,
            setup: Setup {
                processors: wanted.unwrap_or_default(),
                approximate: options.approximate,
                ..Setup::default()
            },
            catalog,
            processors,
        })
    }

    /// Copies the chosen sources into the setup.
    fn settle(&mut self) {
        self.setup.specs = self.chosen.iter().map(|chosen| chosen.spec).collect();
    }

    /// Chooses as many of the usual quantities as run at once.
    fn count_by_default(
        &mut self,
        metrics: &Metrics,
        connection: &mut Connection<Backend>,
    ) -> Result<()> {
        for names in metrics.default_quantities() {
            let Some(name) = self.first_supported(&names, 0) else {
                continue;
            };
            let more = choose(name, &self.catalog)?;
            let mut setup = self.setup.clone();
            setup.specs.extend(more.iter().map(|chosen| chosen.spec));
            if connection.plan(&setup)?.fits {
                self.setup = setup;
                self.chosen.extend(more);
            }
        }
        if self.chosen.is_empty() {
            self.chosen = choose("ProfileTime", &self.catalog)?;
        }
        Ok(())
    }

    /// Samples cycles if possible, otherwise instructions, otherwise time, with a period that gives
    /// a busy processor about [`Aim::RATE`] samples a second. The time-stamp counter ticks
    /// about as fast as a busy core.
    fn sample_by_default(&mut self, metrics: &Metrics, frequency: u64) -> Result<()> {
        let mut names = metrics.default_quantities().take(2);
        let name = names.find_map(|names| self.first_supported(&names, Source::SAMPLING));
        self.chosen = choose(name.unwrap_or("ProfileTime"), &self.catalog)?;
        let a_second = name.map_or(TIME_UNITS_A_SECOND, |_| frequency);
        for chosen in &mut self.chosen {
            chosen.spec.interval = a_second / Aim::RATE;
        }
        Ok(())
    }

    fn first_supported<'a>(&self, names: &[&'a str], flags: u32) -> Option<&'a str> {
        let wanted = Source::SUPPORTED | flags;
        let supported = |name: &&&str| {
            let mut sources = self.catalog.sources.iter();
            sources.any(|source| source.name.as_str() == **name && source.flags & wanted == wanted)
        };
        names.iter().find(supported).copied()
    }

    /// Samples one source every `period` events.
    pub(crate) fn set_period(&mut self, index: usize, period: u64) {
        let chosen = self.chosen.get_mut(index).map(|chosen| &mut chosen.spec);
        let specs = chosen.into_iter().chain(self.setup.specs.get_mut(index));
        specs.for_each(|spec| spec.interval = period);
    }

    /// Adds a source that counts this part of a metric, unless there is one already: the first
    /// source that runs beside the others or, if none does, the first.
    fn add_term(
        &mut self,
        metrics: &Metrics,
        wanted: &Wanted<'_>,
        term: &Term,
        ctx: &mut Context,
    ) -> Result<()> {
        let names = metrics.names(&term.name);
        let labels: Vec<String> = names.iter().map(|name| wanted.label(name, term)).collect();
        if labels.is_empty() || labels.iter().any(|label| self.has(label)) {
            return Ok(());
        }
        let able = labels.iter().filter_map(|label| countable(label, &self.catalog));
        let on_any = |ways: &Vec<Chosen>| {
            let counts = |way| self.selected().any(|one| self.counts_on(way, one));
            ways.iter().any(counts)
        };
        let mut able = able.filter(on_any).peekable();
        let Some(first) = able.peek().cloned() else {
            let error = self.not_countable(wanted.metric, &names);
            return Err(ctx.without_counters(error));
        };
        let mut added = first;
        for chosen in able {
            let mut setup = self.setup.clone();
            let specs = self.chosen.iter().chain(&chosen);
            setup.specs = specs.map(|chosen| chosen.spec).collect();
            if ctx.connection.plan(&setup)?.at_once() {
                added = chosen;
                break;
            }
        }
        self.chosen.extend(added);
        Ok(())
    }

    fn has(&self, label: &str) -> bool {
        let mut chosen = self.chosen.iter();
        chosen.any(|chosen| chosen.label.eq_ignore_ascii_case(label))
    }

    fn not_countable(&self, metric: &Metric, names: &[&str]) -> Error {
        let why = match names {
            [name] => choose(name, &self.catalog).err(),
            _ => None,
        };
        let why = why.map_or_else(
            || "the chosen processors count no such thing".to_owned(),
            |why| why.to_string(),
        );
        let hint = if of_slots(metric) && topdown(&self.catalog) {
            "`stat --topdown` has it on this processor, by the vendor's formulas."
        } else {
            "`halprof list --metrics` shows which metrics this machine has."
        };
        Error::unavailable(
            format!("the metric `{}` needs {}: {why}", metric.id, names.join(" or ")),
            hint,
        )
    }

    /// Puts a metric's sources into one group, if all are free and fit together.
    fn group(
        &mut self,
        metrics: &Metrics,
        wanted: &Wanted<'_>,
        connection: &mut Connection<Backend>,
    ) {
        let groups = self.chosen.iter().map(|chosen| chosen.spec.group);
        let number = 1 + groups.max().unwrap_or(0);
        let before = self.chosen.clone();
        for term in metrics.terms(wanted.metric) {
            for name in metrics.names(&term.name) {
                let label = wanted.label(name, &term);
                let is = |chosen: &&mut Chosen| chosen.label.eq_ignore_ascii_case(&label);
                let mut named = self.chosen.iter_mut().filter(is).peekable();
                let counts = named.peek().is_some();
                for chosen in named {
                    match chosen.spec.group {
                        0 => chosen.spec.group = number,
                        same if same == number => {}
                        _ => return self.restore(before),
                    }
                }
                if counts {
                    break;
                }
            }
        }
        self.settle();
        if connection.plan(&self.setup).is_err() {
            self.restore(before);
        }
    }

    fn restore(&mut self, chosen: Vec<Chosen>) {
        self.chosen = chosen;
        self.settle();
    }

    /// Everything that the machine can count.
    pub(crate) const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Adds an event on these kinds of processor, a mask, unless it is already chosen; returns the label
    /// of its counts.
    pub(crate) fn add_event(&mut self, name: &str, kinds: u16) -> Result<String> {
        let mut more = choose(name, &self.catalog)?;
        if self.catalog.cpu_types().len() > 1 {
            for one in &mut more {
                let own = Some(one.spec.kinds).filter(|&own| own != 0);
                one.spec.kinds = own.map_or(kinds, |own| own & kinds);
            }
            more.retain(|one| one.spec.kinds != 0);
        }
        let label = more.first().map(|chosen| chosen.label.clone());
        let label = label.ok_or_else(|| {
            let message = format!("{name} cannot be counted on these processors");
            Error::unavailable(message, format!("`halprof explain {name}` says why."))
        })?;
        if !self.has(&label) {
            self.chosen.extend(more);
            self.settle();
        }
        Ok(label)
    }

    /// Puts the sources from index `first` on into one group, if that fits; returns whether all of
    /// them are counted at the same time.
    pub(crate) fn group_from(
        &mut self,
        first: usize,
        connection: &mut Connection<Backend>,
    ) -> bool {
        let groups = self.chosen.iter().map(|chosen| chosen.spec.group);
        let number = 1 + groups.max().unwrap_or(0);
        let before = self.chosen.clone();
        for chosen in self.chosen.iter_mut().skip(first) {
            chosen.spec.group = number;
        }
        self.settle();
        let fits = connection.plan(&self.setup).is_ok();
        if !fits {
            self.restore(before);
        }
        fits
    }

    /// The processors that are measured.
    pub(crate) fn selected(&self) -> impl Iterator<Item = &Processor> {
        let wanted = &self.setup.processors;
        self.processors
            .iter()
            .filter(move |processor| wanted.is_empty() || wanted.contains(&processor.index))
    }

    /// Whether a processor can count one of the chosen sources.
    pub(crate) fn counts_on(&self, chosen: &Chosen, processor: &Processor) -> bool {
        counts_on(&self.catalog, chosen, processor)
    }

    /// The sources that run together, by their places in the choice: all of them, which may take
    /// turns, or in passes those that need no turns.
    pub(crate) fn sets(
        &self,
        in_passes: bool,
        sampling: bool,
        connection: &mut Connection<Backend>,
    ) -> Result<Vec<Vec<usize>>> {
        if !in_passes {
            return Ok(vec![(0..self.chosen.len()).collect()]);
        }
        let sets = connection.passes(&self.setup, sampling);
        sets.map_err(|error| self.name_source(error))
    }

    /// The names of the sources, each with its filter if it has one. A source that kinds of
    /// processor count in different ways is one source.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for chosen in &self.chosen {
            if !names.contains(&chosen.label) {
                names.push(chosen.label.clone());
            }
        }
        names
    }

    /// The ways in which kinds of processor count the source of this name.
    fn ways(&self, name: &str) -> impl Iterator<Item = &Chosen> {
        let chosen = self.chosen.iter();
        chosen.filter(move |chosen| chosen.label == name)
    }

    /// Whether a processor can count the source of this name.
    pub(crate) fn counts_name_on(&self, name: &str, processor: &Processor) -> bool {
        self.ways(name).any(|way| self.counts_on(way, processor))
    }

    /// Every processor of the machine.
    pub(crate) fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// What a source counts on this machine, if its table says more than its name does.
    pub(crate) fn note(&self, chosen: &Chosen) -> Option<String> {
        if chosen.spec.source == ProfileSource::RAW.0 {
            return self.note_of_alias(chosen);
        }
        let mut sources = self.catalog.sources.iter();
        let source = sources.find(|source| source.id == chosen.spec.source)?;
        let (counts, note) = (source.counts.as_str(), source.note.as_str());
        let plain = counts.is_empty() || note.is_empty() || note.contains("same");
        // Why it cannot be sampled does not matter to a count.
        let plain = plain || note.starts_with("counting only");
        (!plain).then(|| format!("{counts}: {note}"))
    }

    /// What Linux perf's name for a select means on this processor, where it is not what the name
    /// says.
    fn note_of_alias(&self, chosen: &Chosen) -> Option<String> {
        let name = chosen.label.split(':').next()?;
        let alias = self.catalog.alias(name)?;
        let (_, what) = alias.source.split_once(": ")?;
        let is_word = |word: &str| word.starts_with(char::is_alphabetic);
        is_word(what).then(|| format!("{what} on this processor, as in Linux perf"))
    }

    /// Whether any source counts in kernel mode.
    pub(crate) fn sees_kernel(&self) -> bool {
        self.setup.specs.iter().any(|spec| spec.filter & Spec::KERNEL != 0)
    }

    /// How many processors the machine has.
    pub(crate) const fn processor_count(&self) -> u32 {
        self.processors.len() as u32
    }

    /// The sources that some of the processors cannot count, each with those processors.
    pub(crate) fn left_out(&self) -> Vec<(String, String)> {
        let of_source = |name: String| {
            let unable = |one: &&Processor| !self.counts_name_on(&name, one);
            let unable = self.selected().filter(unable).map(|one| one.index);
            let unable = format_processors(unable);
            (!unable.is_empty()).then_some((name, unable))
        };
        self.names().into_iter().filter_map(of_source).collect()
    }

    /// If a group does not fit because a processor lacks one of its sources, that source is the
    /// cause, whichever source found no counter.
    fn culprit(&self, error: Error) -> Error {
        match error {
            Error::Measure(halprof_measure::Error::Refused(refusal))
                if refusal.code == ErrorCode::DoesNotFit =>
            {
                let mut processors = self.processors.iter();
                let processor = processors.find(|one| u64::from(one.index) == refusal.detail);
                let blamed = self.chosen.iter().find(|one| one.spec.source == refusal.subject);
                let group = blamed.map(|blamed| blamed.spec.group);
                let lacks = |chosen: &&Chosen| {
                    Some(chosen.spec.group) == group
                        && processor.is_some_and(|one| !self.counts_on(chosen, one))
                };
                match self.chosen.iter().find(lacks) {
                    Some(lacking) => Error::refused(Refusal {
                        subject: lacking.spec.source,
                        source: Some(lacking.label.clone()),
                        ..refusal
                    }),
                    None => Error::refused(refusal),
                }
            }
            other => other,
        }
    }

    /// The same error, with the name of the source that it concerns; for raw selects those that may
    /// be meant, because a refusal does not distinguish them.
    pub(crate) fn name_source(&self, error: impl Into<Error>) -> Error {
        let named = self.culprit(error.into()).about(|id| {
            if id == ProfileSource::RAW.0 {
                return match self.raw_culprits().as_slice() {
                    [] => None,
                    [name] => Some((*name).to_owned()),
                    several => Some(format!("one of {}", several.join(", "))),
                };
            }
            let mut sources = self.catalog.sources.iter();
            let source = sources.find(|source| source.id == id);
            source.map(|source| source.name.as_str().to_owned())
        });
        self.where_it_counts(named)
    }

    /// The raw selects that a refusal may mean, each name once: those that no measured processor
    /// counts, if there are any.
    fn raw_culprits(&self) -> Vec<&str> {
        let raw = |chosen: &&Chosen| chosen.spec.source == ProfileSource::RAW.0;
        let names = self.chosen.iter().filter(raw);
        let names: BTreeSet<&str> = names.map(|chosen| chosen.label.as_str()).collect();
        let counted = |name: &&&str| self.selected().any(|one| self.counts_name_on(name, one));
        let elsewhere: Vec<&str> = names.iter().filter(|name| !counted(name)).copied().collect();
        if elsewhere.is_empty() {
            return names.into_iter().collect();
        }
        elsewhere
    }

    /// The same error; if other processors can count the source, it says which.
    fn where_it_counts(&self, error: Error) -> Error {
        let Error::Measure(halprof_measure::Error::Refused(refusal)) = &error else {
            return error;
        };
        let in_group = refusal.code == ErrorCode::DoesNotFit;
        let mut chosen = self.chosen.iter();
        let name = if refusal.subject == ProfileSource::RAW.0 {
            match self.raw_culprits().as_slice() {
                [name] => Some(*name),
                _ => None,
            }
        } else {
            let chosen = chosen.find(|chosen| chosen.spec.source == refusal.subject);
            chosen.map(|chosen| chosen.label.as_str())
        };
        let Some(name) = name else {
            return error;
        };
        let counts = |one: &&Processor| self.counts_name_on(name, one);
        let able = format_processors(self.processors.iter().filter(counts).map(|one| one.index));
        let unable = self.selected().filter(|one| !counts(one));
        let unable = format_processors(unable.map(|one| one.index));
        let concerned = in_group || refusal.code == ErrorCode::SourceNotSupported;
        if able.is_empty() || unable.is_empty() || !concerned {
            return error;
        }
        let hint = if in_group {
            format!("Measure where it can be counted, `-C {able}`, or take it out of the group.")
        } else {
            format!("Measure where it can be counted: `-C {able}`.")
        };
        Error::OnlyElsewhere {
            message: format!("{name}: processors {unable} cannot count it; {able} can"),
            hint,
            refused: Box::new(halprof_measure::Error::Refused(refusal.clone())),
        }
    }
}

/// A metric that was asked for, and its mode.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) metric: &'a Metric,
    /// `u`, `k`, or empty for both.
    pub(crate) filter: &'static str,
}

impl Wanted<'_> {
    /// A source, with the filter that it needs for this part.
    fn label(&self, name: &str, term: &Term) -> String {
        let filter = if term.filter.is_empty() { self.filter } else { &term.filter };
        if filter.is_empty() {
            return name.to_owned();
        }
        format!("{name}:{filter}")
    }
}

fn no_metric(metrics: &Metrics, id: &str) -> Error {
    let names = metrics.all().iter().map(|metric| metric.id.as_str());
    let meant = did_you_mean(id, names).unwrap_or_default();
    let hint =
        format!("{meant} `halprof list --metrics` shows them all; `--metric-file FILE` adds more.");
    Error::usage(format!("no metric is called `{id}`"), hint.trim_start())
}

/// Whether a metric is one of the parts that `--topdown` has too.
pub(crate) fn of_slots(metric: &Metric) -> bool {
    const PARTS: [&str; 4] = ["retiring", "bad-speculation", "frontend-bound", "backend-bound"];
    PARTS.contains(&metric.id.as_str())
}

/// Whether there are formulas for `--topdown` on this machine.
pub(crate) fn topdown(catalog: &Catalog) -> bool {
    let mut known = catalog.cpu_types().iter().filter_map(|kind| kind.microarchitecture);
    known.any(|one| !Part::of(one, 1).is_empty())
}

/// The metrics that `-M` names.
pub(crate) fn wanted<'a>(metrics: &'a Metrics, names: &[String]) -> Result<Vec<Wanted<'a>>> {
    let Some(list) = joined(names) else {
        return Ok(Vec::new());
    };
    let names = list.split(',').map(str::trim);
    let one = |name: &str| {
        let (id, filter) = name.split_once(':').unwrap_or((name, "uk"));
        let metric = metrics.named(id).ok_or_else(|| no_metric(metrics, id))?;
        let filter = match filter {
            "u" => "u",
            "k" => "k",
            "uk" => "",
            _ => {
                return Err(Error::usage(
                    format!("`{name}`: `{filter}` is not a filter"),
                    "A metric is of user mode with `:u`, of kernel mode with `:k`.",
                ));
            }
        };
        if !filter.is_empty() && names_modes(metrics, metric) {
            return Err(Error::usage(
                format!("`{name}`: this metric names its modes itself"),
                format!("Ask for `{id}`."),
            ));
        }
        Ok(Wanted { metric, filter })
    };
    names.map(one).collect()
}

/// Whether a processor can count a source.
pub(crate) fn counts_on(catalog: &Catalog, chosen: &Chosen, processor: &Processor) -> bool {
    catalog.counts_on(chosen, processor)
}

/// Whether a metric specifies the mode of its parts.
fn names_modes(metrics: &Metrics, metric: &Metric) -> bool {
    let terms = metrics.terms(metric);
    terms.iter().any(|term| !term.filter.is_empty())
}

/// The source or event with this name and filter, if it is supported: one for each way in which
/// kinds of processor count it.
pub(crate) fn countable(label: &str, catalog: &Catalog) -> Option<Vec<Chosen>> {
    let chosen = choose(label, catalog).ok()?;
    let counts = |chosen: &Chosen| {
        let mut named = catalog.sources.iter();
        let source = named.find(|source| source.id == chosen.spec.source);
        let supported = source.is_none_or(|source| source.flags & Source::SUPPORTED != 0);
        // By its own name, so that the figure can find it.
        supported && chosen.label.eq_ignore_ascii_case(label)
    };
    (!chosen.is_empty() && chosen.iter().all(counts)).then_some(chosen)
}

/// What halprof chooses itself.
pub(crate) fn choose(name: &str, catalog: &Catalog) -> Result<Vec<Chosen>> {
    let mut items: Vec<Item> = Vec::new();
    selection::parse_list(name, &mut items)?;
    let mut chosen = catalog.resolve(&items)?;
    for one in &mut chosen {
        one.requested = None;
    }
    Ok(chosen)
}

/// The named processors, if all of them exist.
pub(crate) fn processors_of(wanted: &[u32], all: &[Processor]) -> Result<Vec<u32>> {
    match wanted.iter().find(|&&index| index as usize >= all.len()) {
        Some(&index) => Err(no_processor(index, all.len() as u64)),
        None => Ok(wanted.to_vec()),
    }
}

pub(crate) const fn no_processor(index: u32, count: u64) -> Error {
    Error::refused(Refusal {
        code: ErrorCode::ProcessorUnknown,
        subject: index,
        detail: count,
        source: None,
    })
}

/// Converts ticks of a clock of `frequency` to nanoseconds.
pub(crate) fn nanoseconds(ticks: impl Into<u128>, frequency: u64) -> u128 {
    let product = ticks.into().saturating_mul(1_000_000_000);
    product.checked_div(frequency.into()).unwrap_or(0)
}

/// The shortest interval between two readings, in nanoseconds.
pub(crate) const INTERVAL_MIN_NS: u64 = 1_000_000;

/// Converts an interval in milliseconds to nanoseconds.
pub(crate) fn interval(milliseconds: f64) -> Result<u64> {
    match positive("--interval", milliseconds, 1e6, NANOSECONDS_MAX) {
        Ok(nanoseconds) if nanoseconds >= INTERVAL_MIN_NS => Ok(nanoseconds),
        _ => Err(Error::usage(
            format!("`--interval {milliseconds}` is out of range"),
            "It is a number of milliseconds from 1; fractions such as 1.5 will do.",
        )),
    }
}

/// Converts a positive number of seconds or milliseconds to units of `1 / per`, rounded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
pub(crate) fn positive(option: &str, value: f64, per: f64, most: f64) -> Result<u64> {
    // The smallest number itself, times `per`, may be a little less than 1.
    let least = 1.0 - f64::EPSILON;
    let units = value * per;
    if units >= least && units.round() <= most {
        return Ok(units.round() as u64);
    }
    Err(Error::usage(
        format!("`{option} {value}` is out of range"),
        format!("It is a number from {} to {}.", 1.0 / per, most / per),
    ))
}

/// The longest time that an option accepts, in nanoseconds: 30 years.
pub(crate) const NANOSECONDS_MAX: f64 = 1e18;

/// The requested length of each turn of a rotation, in units of 100 ns; 0 for the default.
pub(crate) fn rotation(work: &Work, in_passes: bool) -> Result<u32> {
    if in_passes && work.rotate.is_some() {
        return Err(Error::usage(
            "`--passes` and `--rotate` together",
            "In passes no source takes turns: leave one of them out.",
        ));
    }
    let units = |value| positive("--rotate", value, 1e4, f64::from(u32::MAX));
    Ok(work.rotate.map(units).transpose()?.unwrap_or(0) as u32)
}
