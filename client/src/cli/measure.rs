//! What stat, record and check share: which sources and processors are chosen.

use super::On;
use super::args::{Selection, Work, joined};
use super::list::can_count;
use super::place::Place;
use crate::selection::{self, Chosen, Item};
use crate::{Connection, Error, Refusal, Result, Setup, metrics};
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use shared_types::request::source::Source;
use shared_types::{ErrorCode, ProfileInterface, ProfileSource};

/// The sources and processors of a measurement.
pub(crate) struct Choice {
    /// In the order of the counts.
    pub(crate) chosen: Vec<Chosen>,
    /// What the other side is asked for.
    pub(crate) setup: Setup,
    /// Every source of the machine.
    sources: Vec<Source>,
    /// Every processor of the machine.
    processors: Vec<Processor>,
}

impl Choice {
    /// What the options name; without any, what `default_is_counting` asks for.
    pub(crate) fn of(options: &Selection, on: &mut On, default_is_counting: bool) -> Result<Self> {
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
        let processors = on.connection.processors()?;
        let wanted = wanted
            .map(|wanted| processors_of(&wanted, &processors))
            .transpose()?;
        let sources = on.connection.sources(options.approximate)?;
        let interface = on.connection.machine()?.interface;
        let interface = ProfileInterface::from_wire(interface).unwrap_or(ProfileInterface::Default);
        let mut choice = Self {
            chosen: selection::resolve(&items, &sources, interface)?,
            setup: Setup {
                processors: wanted.unwrap_or_default(),
                approximate: options.approximate,
                ..Setup::default()
            },
            sources,
            processors,
        };
        if items.is_empty() && default_is_counting {
            choice.count_by_default(&mut on.connection)?;
        } else if items.is_empty() {
            choice.sample_by_default()?;
        }
        choice.setup.specs = choice.chosen.iter().map(|chosen| chosen.spec).collect();
        Ok(choice)
    }

    /// As many of the usual quantities as run at once.
    fn count_by_default(&mut self, connection: &mut Connection<Place>) -> Result<()> {
        for names in metrics::DEFAULT_QUANTITIES {
            let Some(name) = self.first_supported(names, 0) else {
                continue;
            };
            let more = choose(name, &self.sources)?;
            let mut setup = self.setup.clone();
            setup.specs.extend(more.iter().map(|chosen| chosen.spec));
            if connection.plan(&setup)?.fits {
                self.setup = setup;
                self.chosen.extend(more);
            }
        }
        if self.chosen.is_empty() {
            self.chosen = choose("ProfileTime", &self.sources)?;
        }
        Ok(())
    }

    /// Cycles where they can be sampled, else instructions, else time.
    fn sample_by_default(&mut self) -> Result<()> {
        let mut names = metrics::DEFAULT_QUANTITIES.iter().take(2);
        let name = names.find_map(|names| self.first_supported(names, Source::SAMPLING));
        self.chosen = choose(name.unwrap_or("ProfileTime"), &self.sources)?;
        Ok(())
    }

    fn first_supported(&self, names: &[&'static str], flags: u32) -> Option<&'static str> {
        let wanted = Source::SUPPORTED | flags;
        let supported = |name: &&&str| {
            let mut sources = self.sources.iter();
            sources.any(|source| source.name.as_str() == **name && source.flags & wanted == wanted)
        };
        names.iter().find(supported).copied()
    }

    /// Samples one source every so many events.
    pub(crate) fn set_period(&mut self, index: usize, period: u64) {
        let chosen = self.chosen.get_mut(index).map(|chosen| &mut chosen.spec);
        let specs = chosen.into_iter().chain(self.setup.specs.get_mut(index));
        specs.for_each(|spec| spec.interval = period);
    }

    /// The processors that take part.
    pub(crate) fn selected(&self) -> impl Iterator<Item = &Processor> {
        let wanted = &self.setup.processors;
        self.processors
            .iter()
            .filter(move |processor| wanted.is_empty() || wanted.contains(&processor.index))
    }

    /// Whether a processor can count one of the chosen sources.
    pub(crate) fn counts_on(&self, chosen: &Chosen, processor: &Processor) -> bool {
        let source = self
            .sources
            .iter()
            .find(|source| source.id == chosen.spec.source);
        source.is_none_or(|source| can_count(source, processor))
    }

    /// What could be counted, by label: what is chosen, then every other supported source.
    pub(crate) fn choosable(&self) -> Vec<String> {
        let supported = |source: &&Source| source.flags & Source::SUPPORTED != 0;
        let others = self.sources.iter().filter(supported);
        let mut labels = self.labels();
        for source in others {
            let name = source.name.as_str();
            if !labels.iter().any(|label| label == name) {
                labels.push(name.to_owned());
            }
        }
        labels
    }

    /// The same with other sources, by their labels.
    pub(crate) fn with_sources(&self, labels: &[String]) -> Result<Self> {
        let mut chosen = Vec::new();
        for label in labels {
            match self.chosen.iter().find(|chosen| chosen.label == *label) {
                Some(kept) => chosen.push(kept.clone()),
                None => chosen.extend(choose(label, &self.sources)?),
            }
        }
        let mut setup = self.setup.clone();
        setup.specs = chosen.iter().map(|chosen| chosen.spec).collect();
        Ok(Self {
            chosen,
            setup,
            sources: self.sources.clone(),
            processors: self.processors.clone(),
        })
    }

    /// The names of the sources, each with its filter if one was given.
    pub(crate) fn labels(&self) -> Vec<String> {
        let chosen = self.chosen.iter();
        chosen.map(|chosen| chosen.label.clone()).collect()
    }

    /// Whether any source counts in kernel mode.
    pub(crate) fn sees_kernel(&self) -> bool {
        self.setup
            .specs
            .iter()
            .any(|spec| spec.filter & Spec::KERNEL != 0)
    }

    /// How many processors the machine has.
    pub(crate) const fn processor_count(&self) -> u32 {
        self.processors.len() as u32
    }

    /// The same error, with the name of the source it concerns.
    pub(crate) fn name_source(&self, error: Error) -> Error {
        error.about(|id| {
            let raw = id == ProfileSource::RAW.0;
            let chosen = self
                .chosen
                .iter()
                .find(|chosen| raw && chosen.spec.source == id);
            let source = self.sources.iter().find(|source| source.id == id);
            chosen
                .map(|chosen| chosen.label.clone())
                .or_else(|| source.map(|source| source.name.as_str().to_owned()))
        })
    }
}

fn choose(name: &str, sources: &[Source]) -> Result<Vec<Chosen>> {
    let mut items: Vec<Item> = Vec::new();
    selection::parse_list(name, &mut items)?;
    selection::resolve(&items, sources, ProfileInterface::Default)
}

/// The processors named, if all of them are there.
pub(crate) fn processors_of(wanted: &[u32], all: &[Processor]) -> Result<Vec<u32>> {
    match wanted.iter().find(|&&index| index as usize >= all.len()) {
        Some(&index) => Err(no_processor(index, all.len() as u64)),
        None => Ok(wanted.to_vec()),
    }
}

pub(crate) const fn no_processor(index: u32, count: u64) -> Error {
    Error::Refused(Refusal {
        code: ErrorCode::ProcessorUnknown,
        subject: index,
        detail: count,
        source: None,
    })
}

/// Ticks of a clock of `frequency` in nanoseconds.
pub(crate) fn nanoseconds(ticks: impl Into<u128>, frequency: u64) -> u128 {
    let product = ticks.into().saturating_mul(1_000_000_000);
    product.checked_div(frequency.into()).unwrap_or(0)
}

/// A positive amount of milliseconds or seconds in units of `1 / per` of it, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
pub(crate) fn positive(option: &str, value: f64, per: f64, most: f64) -> Result<u64> {
    let units = (value * per).round();
    if units >= 1.0 && units <= most {
        return Ok(units as u64);
    }
    Err(Error::usage(
        format!("`{option} {value}` is out of range"),
        format!("It is a number from {} to {}.", 1.0 / per, most / per),
    ))
}

/// The longest time in nanoseconds that an option may name: 30 years.
pub(crate) const NANOSECONDS_MAX: f64 = 1e18;

/// How long each turn of a rotation shall be, in units of 100 ns; 0 for the default.
pub(crate) fn rotation(work: &Work) -> Result<u32> {
    let units = |value| positive("--rotate", value, 1e4, f64::from(u32::MAX));
    Ok(work.rotate.map(units).transpose()?.unwrap_or(0) as u32)
}
