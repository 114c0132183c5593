//! Everything that can be named on one machine: the sources of its tables, the vendor's events for
//! each kind of core, and the names that Linux perf and Windows use for them.

mod constraints;
mod encoding;
#[cfg(feature = "models")]
mod modelled;

use crate::connection::Connection;
use crate::error::{Error, Hint, Remedy, Result};
use crate::events::{self, Alias, Event, Meaning, Microarchitecture};
use crate::selection::{
    EventRef, EventSpec, Item, PROFILE, after_profile, bad_list, filter_suffix, parse_number,
    raw_select,
};
use crate::source::Source;
use crate::transport::Transport;
pub use encoding::{Encoding, NotEncoded, format_counters};
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use shared_types::{ProfileInterface, ProfileSource};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// The hint for a raw select that cannot be counted.
const RAW_AS_NAMED: &str =
    "A raw select needs what the vendor's event of the same code and unit mask needs.";

/// Bits 16 and 17 of a select: count in user mode, in kernel mode.
const SELECT_FILTER: [u64; 2] = [1 << 16, 1 << 17];
/// Bits 2 and 3 of an ESCR, which is the low half of NetBurst's raw select.
const ESCR_FILTER: [u64; 2] = [1 << 2, 1 << 3];
/// Bits of a select that halprof sets itself, and their names.
const RESERVED_BITS: [(u64, &str); 2] = [(1 << 22, "EN (bit 22)"), (1 << 20, "INT (bit 20)")];
/// The bits of a select that users may set on every processor: event, unit mask, the modes, edge,
/// invert and counter mask.
const USER_BITS: u64 = 0xFF87_FFFF;
/// Event bits 11:8 of AMD's selects.
const EVENT_HIGH: u64 = 0xF << 32;
/// halprof's number of fixed counter 0; the others follow.
const FIRST_FIXED: u32 = 0x8000_0100;
/// What a user types for every supported source.
const ALL: &str = "all";
/// Names less alike than this are not suggested.
const ALIKE: f64 = 0.8;

/// Everything that can be named on one machine.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The sources of its tables, unsupported ones included.
    pub sources: Vec<Source>,
    interface: ProfileInterface,
    /// The CPU types that have counters.
    cpu_types: Vec<CpuType>,
    /// How many CPU types the machine has.
    all_types: usize,
    /// The CPU types that are measured, as a mask.
    measured: u16,
}

/// Processors that are alike and have counters.
#[derive(Clone, Debug)]
pub struct CpuType {
    /// The first of them.
    pub processor: Processor,
    /// Their microarchitecture; `None` if it is unknown, when only a user's list names their
    /// events.
    pub microarchitecture: Option<&'static Microarchitecture>,
    /// Events of the user's list, which take precedence over those of the tables.
    listed: Arc<[Event]>,
}

/// One event, as a machine counts it.
#[derive(Clone, Debug)]
pub struct EventMatch<'a> {
    /// The event, as the first CPU type that has it defines it.
    pub event: &'a Event,
    /// For each CPU type that has it: its event there, and how it is counted, or why it cannot be.
    pub encodings: Vec<(&'a CpuType, &'a Event, std::result::Result<Encoding, NotEncoded>)>,
}

impl EventMatch<'_> {
    /// What it counts: in the vendor's words where the user's list has them, otherwise in halprof's.
    pub fn description(&self) -> Option<&str> {
        let vendors = Some(self.event.description.as_str()).filter(|text| !text.is_empty());
        vendors.or_else(|| Some(self.meanings().next()?.1.sentence))
    }

    /// What it counts in halprof's words, on each microarchitecture that has it.
    pub fn meanings(&self) -> impl Iterator<Item = (&'static Microarchitecture, Meaning)> {
        self.encodings.iter().filter_map(|(cpu_type, event, _)| {
            let microarchitecture = cpu_type.microarchitecture?;
            Some((microarchitecture, microarchitecture.meaning(&event.name)?))
        })
    }

    /// Whether a processor counts it.
    pub fn counts_on(&self, processor: &Processor) -> bool {
        let mut encodings = self.encodings.iter();
        encodings.any(|(cpu_type, _, encoding)| {
            cpu_type.processor.cpu_type == processor.cpu_type && encoding.is_ok()
        })
    }
}

impl Catalog {
    /// Asks a machine for everything that it can count.
    pub fn read<T: Transport>(connection: &mut Connection<T>, approximate: bool) -> Result<Self> {
        let interface = connection.machine()?.interface;
        let processors = connection.processors()?;
        let sources = connection.sources(approximate)?;
        Ok(Self::new(sources, interface, &processors))
    }

    /// The catalog of a machine that has already been asked.
    pub fn new(sources: Vec<Source>, interface: u32, processors: &[Processor]) -> Self {
        let mut first_of_type: Vec<Processor> = Vec::new();
        for processor in processors {
            if first_of_type.iter().all(|first| first.cpu_type != processor.cpu_type) {
                first_of_type.push(*processor);
            }
        }
        Self {
            sources,
            interface: ProfileInterface::from_wire(interface).unwrap_or(ProfileInterface::Default),
            all_types: first_of_type.len(),
            measured: u16::MAX,
            cpu_types: first_of_type
                .into_iter()
                .filter(|processor| processor.counter_mask != 0)
                .map(|processor| CpuType {
                    microarchitecture: events::microarchitecture(&processor),
                    listed: Arc::default(),
                    processor,
                })
                .collect(),
        }
    }

    /// The catalog with the events of a user's file, on every Intel CPU type: a list as Intel
    /// publishes it. Uncore events and those that need OFFCORE_RSP are left out.
    pub fn with_event_file(mut self, path: &Path) -> Result<Self> {
        let events: Arc<[Event]> = events::file::read(path)?.into();
        for cpu_type in &mut self.cpu_types {
            if cpu_type.processor.vendor == *b"GenuineIntel" {
                cpu_type.listed = Arc::clone(&events);
            }
        }
        Ok(self)
    }

    /// The CPU types that have counters.
    pub fn cpu_types(&self) -> &[CpuType] {
        &self.cpu_types
    }

    /// Whether a processor can count an event.
    pub fn counts_on(&self, event: &EventSpec, processor: &Processor) -> bool {
        self.spec_on(event, processor.cpu_type).is_some()
    }

    /// The index of the specification by which a CPU type counts an event; `None` if it cannot.
    pub fn spec_on(&self, event: &EventSpec, cpu_type: u8) -> Option<usize> {
        event.specs.iter().position(|spec| self.counts_spec(spec, cpu_type))
    }

    fn counts_spec(&self, spec: &Spec, cpu_type: u8) -> bool {
        if spec.cpu_types != 0 && !has_type(spec.cpu_types.into(), cpu_type) {
            return false;
        }
        match self.sources.iter().find(|source| source.id == spec.source) {
            Some(source) if source.flags & Source::TIMER == 0 => {
                has_type(source.cpu_types.into(), cpu_type)
            }
            _ => true,
        }
    }

    /// The catalog of these processors alone: an event is chosen only as their CPU types count it.
    pub fn measuring<'a>(mut self, processors: impl IntoIterator<Item = &'a Processor>) -> Self {
        self.measured = types_of(processors);
        self
    }

    /// Finds each item of a list. What is named for one CPU type after the other
    /// (`cpu_core/…/,cpu_atom/…/`) is one event.
    pub fn resolve(&self, items: &[Item]) -> Result<Vec<EventSpec>> {
        let mut events: Vec<EventSpec> = Vec::new();
        for item in items {
            if item.text.eq_ignore_ascii_case(ALL) {
                let counted = self.sources.iter().filter(|source| self.measures(source));
                events.extend(counted.map(|source| self.spec_of_source(item, source)));
            } else {
                let mut event = self.resolve_one(item)?;
                match events.iter_mut().find(|other| other.is_complemented_by(&event)) {
                    Some(other) => other.specs.append(&mut event.specs),
                    None => events.push(event),
                }
            }
        }
        Ok(events.into_iter().map(|event| event.on_cpu_types(self.measured)).collect())
    }

    /// Whether a CPU type that is measured counts a source.
    fn measures(&self, source: &Source) -> bool {
        source.flags & Source::TIMER != 0 || source.cpu_types & u32::from(self.measured) != 0
    }

    /// The source that has this name, if one does.
    pub fn source(&self, name: &str) -> Option<&Source> {
        find(name, &self.sources)
    }

    /// The name of a source, or its number in hexadecimal.
    pub fn name_of(&self, id: ProfileSource) -> String {
        let source = self.sources.iter().find(|source| source.id == id.0);
        source.map_or_else(|| format!("{:#x}", id.0), |source| source.name.to_owned())
    }

    /// What a source or an event counts, in a sentence or two, by its name, with its filter if it has
    /// one. Empty if that is not known.
    pub fn meaning(&self, label: &str) -> String {
        let name = label.split(':').next().unwrap_or_default();
        if let Some(source) = self.source(name) {
            return source.meaning.to_owned();
        }
        let event = self.event(name);
        event.as_ref().and_then(EventMatch::description).unwrap_or_default().to_owned()
    }

    /// The source that a fixed counter counts.
    pub fn fixed(&self, index: u8) -> Option<&Source> {
        let id = FIRST_FIXED + u32::from(index);
        self.sources.iter().find(|source| source.id == id)
    }

    /// Whether this can be counted by what an alias stands for.
    fn has(&self, target: &str) -> bool {
        target.starts_with('r') || self.source(target).is_some() || self.event(target).is_some()
    }

    /// The alias of this name, Linux perf's or Windows'.
    pub fn alias(&self, name: &str) -> Option<Alias> {
        let number = parse_number(name);
        self.aliases().find(|alias| {
            alias.name.eq_ignore_ascii_case(name)
                || number.is_some() && parse_number(alias.name) == number
        })
    }

    /// The names of Linux perf and of Windows that are valid here.
    pub fn aliases(&self) -> impl Iterator<Item = Alias> {
        let boot = self.cpu_types.first();
        boot.into_iter()
            .flat_map(|boot| events::aliases(&boot.processor))
            .filter(|alias| self.has(alias.target))
    }

    /// The vendor's event of this name, on the CPU types that have it.
    pub fn event(&self, name: &str) -> Option<EventMatch<'_>> {
        let mut encodings = Vec::new();
        for cpu_type in &self.cpu_types {
            if let Some(event) = cpu_type.event(name) {
                encodings.push((cpu_type, event, cpu_type.encode(event)));
            }
        }
        let (_, event, _) = encodings.first()?;
        Some(EventMatch { event, encodings })
    }

    /// Every event of every CPU type, each name once, in the order of names.
    pub fn events(&self) -> Vec<&str> {
        let all = self.cpu_types.iter().flat_map(CpuType::events);
        let names: BTreeSet<&str> = all.map(|event| event.name.as_str()).collect();
        names.into_iter().collect()
    }

    fn resolve_one(&self, item: &Item) -> Result<EventSpec> {
        match &item.event {
            EventRef::Named(name) => self.resolve_name(item, name),
            EventRef::Raw(select) => {
                let (select, filter) = self.raw(item, *select)?;
                self.spec_of_select(item, select, &item.text, filter)
            }
            EventRef::Changed { name, changed, select } => {
                let mut event = self.event(name).ok_or_else(|| self.unknown(name))?;
                for (cpu_type, _, encoding) in &mut event.encodings {
                    let with = encoding.clone().and_then(|one| one.with(*changed, *select));
                    *encoding = with.and_then(|one| cpu_type.constrained(one));
                }
                self.spec_of_event(item, &event, &item.text)
            }
        }
    }

    fn resolve_name(&self, item: &Item, name: &str) -> Result<EventSpec> {
        if let Some(source) = self.source(name) {
            return Ok(self.spec_of_source(item, source));
        }
        if let Some(event) = self.event(name) {
            return self.spec_of_event(item, &event, &event.event.name);
        }
        let alias = self.alias(name).ok_or_else(|| self.unknown(name))?;
        match raw_select(alias.target) {
            Some(select) => self.spec_of_select(item, select?, alias.name, item.filter),
            None => self.resolve_name(item, alias.target),
        }
    }

    fn spec_of_source(&self, item: &Item, source: &Source) -> EventSpec {
        let spec = Spec { source: source.id, ..self.spec(item, item.filter) };
        event_spec(item, vec![spec], source.name)
    }

    /// A raw select means the event with its code and unit mask: each CPU type counts it with the
    /// constraints of that event in its table.
    fn spec_of_select(
        &self,
        item: &Item,
        select: u64,
        name: &str,
        filter: Option<u16>,
    ) -> Result<EventSpec> {
        let spec = self.spec(item, filter);
        let any = Encoding::Select { select, counters: Spec::ANY_COUNTER };
        let measured = |cpu_type: &&CpuType| {
            let bit = type_bit(&cpu_type.processor);
            self.measured & bit != 0 && (spec.cpu_types == 0 || spec.cpu_types & bit != 0)
        };
        let encodings = self.cpu_types.iter().filter(measured);
        let encodings: Vec<_> = encodings.map(|one| (one, one.constrained(any))).collect();
        let counted = encodings
            .iter()
            .filter_map(|(cpu_type, encoding)| Some((*cpu_type, encoding.clone().ok()?)));
        let mut specs = self.specs_of(spec, counted);
        if specs.is_empty() {
            if let Some(why) = encodings.into_iter().find_map(|(_, encoding)| encoding.err()) {
                return Err(not_counted(name, why, RAW_AS_NAMED));
            }
            // No CPU type has counters. The driver refuses this, and knows why.
            let (source, counters) = (ProfileSource::RAW.0, Spec::ANY_COUNTER);
            specs.push(Spec { source, raw: select, counters, ..spec });
        }
        Ok(event_spec(item, specs, name))
    }

    /// The event codes that are in no table of a CPU type that counts them. Which counters can
    /// count these is unknown.
    pub fn unknown_constraints<'a>(&self, events: &'a [EventSpec]) -> Vec<&'a str> {
        let is_unknown = |event: &&EventSpec| {
            let mut raw = event.specs.iter().filter(|spec| spec.source == ProfileSource::RAW.0);
            raw.any(|spec| {
                let here = |one: &&CpuType| {
                    spec.cpu_types == 0 || spec.cpu_types & type_bit(&one.processor) != 0
                };
                let mut cpu_types = self.cpu_types.iter().filter(here);
                cpu_types.any(|one| {
                    one.limits_counters() && constraints::of_select(one, spec.raw).is_none()
                })
            })
        };
        events.iter().filter(is_unknown).map(|event| event.label.as_str()).collect()
    }

    /// The event with one specification for each encoding, because CPU types may count an event in
    /// different ways.
    fn spec_of_event(&self, item: &Item, event: &EventMatch<'_>, label: &str) -> Result<EventSpec> {
        let spec = self.spec(item, item.filter);
        let named = event.encodings.iter().filter(|(cpu_type, ..)| {
            spec.cpu_types == 0 || spec.cpu_types & type_bit(&cpu_type.processor) != 0
        });
        let counted = named
            .clone()
            .filter_map(|(cpu_type, _, encoding)| Some((*cpu_type, encoding.clone().ok()?)));
        let flags = if event.event.alone { Spec::ALONE } else { 0 };
        let specs = self.specs_of(Spec { flags, ..spec }, counted);
        if specs.is_empty() {
            let is_listed = event.encodings.iter().any(|(cpu_type, event, _)| {
                cpu_type.listed.iter().any(|listed| std::ptr::eq(listed, *event))
            });
            let why = named.rev().find_map(|(_, _, encoding)| encoding.clone().err());
            let why = why.unwrap_or(NotEncoded::Other("no such processor has it".to_owned()));
            let hint = if is_listed { Remedy::EventInOwnList } else { Remedy::EventInVendorsList };
            return Err(not_counted(&event.event.name, why, hint));
        }
        Ok(event_spec(item, specs, label))
    }

    /// One spec for each way in which CPU types count an event.
    fn specs_of<'a>(
        &self,
        spec: Spec,
        encodings: impl Iterator<Item = (&'a CpuType, Encoding)>,
    ) -> Vec<Spec> {
        let mut ways: Vec<(Encoding, u16)> = Vec::new();
        for (cpu_type, encoding) in encodings {
            let bit = type_bit(&cpu_type.processor);
            match ways.iter_mut().find(|(other, _)| *other == encoding) {
                Some((_, cpu_types)) => *cpu_types |= bit,
                None => ways.push((encoding, bit)),
            }
        }
        let specs = ways.into_iter().map(|(encoding, cpu_types)| {
            // 0 on the wire means every CPU type, those without counters included, so the mask
            // stays where there is one of these.
            let all = cpu_types.count_ones() as usize == self.all_types;
            let spec = Spec { cpu_types: if all { 0 } else { cpu_types }, ..spec };
            match encoding {
                Encoding::Select { select, counters } => {
                    Spec { source: ProfileSource::RAW.0, raw: select, counters, ..spec }
                }
                Encoding::Fixed(index) => Spec { source: FIRST_FIXED + u32::from(index), ..spec },
            }
        });
        specs.collect()
    }

    /// What an item says of any source: its group, its filter, its period and its type of core.
    fn spec(&self, item: &Item, filter: Option<u16>) -> Spec {
        let processors = self.cpu_types.iter().map(|cpu_type| &cpu_type.processor);
        let named = processors.filter(|processor| Some(processor.core_type) == item.core);
        Spec {
            group: item.group,
            filter: filter.unwrap_or(Spec::USER | Spec::KERNEL),
            interval: item.period.unwrap_or(0),
            cpu_types: types_of(named),
            ..Spec::default()
        }
    }

    /// A raw select without the bits that halprof sets itself, and the filter that its own bits
    /// give, which must agree with the filter after the colon.
    fn raw(&self, item: &Item, select: u64) -> Result<(u64, Option<u16>)> {
        let [user_bit, kernel_bit] = match self.interface {
            ProfileInterface::NetBurst => ESCR_FILTER,
            _ => SELECT_FILTER,
        };
        self.refuse_reserved_bits(item, select)?;
        let mut modes = 0;
        if select & user_bit != 0 {
            modes |= Spec::USER;
        }
        if select & kernel_bit != 0 {
            modes |= Spec::KERNEL;
        }
        match item.filter {
            filter if modes == 0 => Ok((select, filter)),
            Some(filter) if filter != modes => {
                Err(bad_list(&item.text, "its user and kernel bits contradict its filter"))
            }
            _ => Ok((select, Some(modes))),
        }
    }

    /// Users of Linux perf may paste EN and INT, which only halprof may set.
    fn refuse_reserved_bits(&self, item: &Item, select: u64) -> Result<()> {
        use ProfileInterface as I;
        let reserved = RESERVED_BITS.iter().filter(|(bit, _)| select & bit != 0);
        let names: Vec<&str> = reserved.map(|(_, name)| *name).collect();
        let without = RESERVED_BITS.iter().fold(select, |select, (bit, _)| select & !bit);
        // Only these three have EN and INT in these places: Pentium's CESR, and NetBurst's ESCR and
        // CCCR, are laid out differently.
        if names.is_empty() || !matches!(self.interface, I::Emon | I::Amd64 | I::P6) {
            return Ok(());
        }
        let mut allowed = USER_BITS;
        if self.interface == I::Amd64 {
            allowed |= EVENT_HIGH;
        }
        for cpu_type in &self.cpu_types {
            allowed |= cpu_type.select_bits();
        }
        Err(Error::usage(
            format!("`{}` has {}, which halprof sets itself", item.text, names.join(" and ")),
            if without & !allowed == 0 {
                format!("Write `r{without:X}`.")
            } else {
                "A raw select has event, unit mask, edge, invert and counter mask.".to_owned()
            },
        ))
    }

    /// The error for a name that nothing has, with the names that may have been meant.
    fn unknown(&self, name: &str) -> Error {
        if let Some(model) = self.unknown_model()
            && let Some(event) = self.of_this_vendor(name)
        {
            return Error::UnknownModel {
                what: format!("`{}` cannot be counted", event.name),
                model,
            };
        }
        Error::UnknownName {
            name: name.to_owned(),
            hint: self
                // What is certain of the name comes before names that look like it.
                .not_counted(name)
                .or_else(|| self.elsewhere(name))
                .or_else(|| self.did_you_mean(name))
                .map(Hint::Text),
        }
    }

    /// The machine's model, if the events of none of its CPU types are known and no list of the
    /// user's names any.
    pub fn unknown_model(&self) -> Option<String> {
        let mut models = self.cpu_types.iter().map(|cpu_type| {
            events::unknown_model(&cpu_type.processor).filter(|_| cpu_type.listed.is_empty())
        });
        let first = models.next()??;
        models.all(|model| model.is_some()).then_some(first)
    }

    /// The event of this name of any microarchitecture of the boot processor's vendor.
    fn of_this_vendor(&self, name: &str) -> Option<&'static Event> {
        let amd = self.interface == ProfileInterface::Amd64;
        let tables = Microarchitecture::all().iter().filter(|one| is_amd(one.table) == amd);
        tables.into_iter().find_map(|one| one.event(name))
    }

    /// Why a name of Linux perf has no event here.
    fn not_counted(&self, name: &str) -> Option<String> {
        let boot = self.cpu_types.first()?;
        let mut aliases = events::aliases(&boot.processor);
        let alias = aliases
            .find(|alias| alias.target.is_empty() && alias.name.eq_ignore_ascii_case(name))?;
        Some(format!("{}.", alias.source))
    }

    /// The hint for an event of another microarchitecture: which one, and its name on this
    /// processor. The tables of this processor's vendor come first.
    fn elsewhere(&self, name: &str) -> Option<String> {
        let here = self.cpu_types.iter().find_map(|cpu_type| cpu_type.microarchitecture);
        let same_vendor = |table: &str| here.is_none_or(|here| is_amd(here.table) == is_amd(table));
        let mut all: Vec<&Microarchitecture> = Microarchitecture::all().iter().collect();
        all.sort_by_key(|one| !same_vendor(one.table));
        let (other, event) = all.into_iter().find_map(|one| Some((one, one.event(name)?)))?;
        let mut hint = format!("{} is an event of {}.", event.name, other.title);
        let similarity = |candidate: &Event| strsim::jaro_winkler(&candidate.name, &event.name);
        let here = here.filter(|_| same_vendor(other.table)).into_iter();
        let same = here.flat_map(Microarchitecture::events).filter(|candidate| {
            candidate.select() == event.select()
                && (candidate.fixed, candidate.msr) == (event.fixed, event.msr)
                && similarity(candidate) >= ALIKE
        });
        let nearest = same.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
        if let Some(nearest) = nearest {
            let _ = write!(hint, " On this processor it is called `{}`.", nearest.name);
        }
        Some(hint)
    }

    fn did_you_mean(&self, name: &str) -> Option<String> {
        let sources = self.sources.iter().map(|source| source.name);
        let aliases = self.aliases().map(|alias| alias.name);
        crate::suggest::did_you_mean(name, sources.chain(aliases).chain(self.events()))
    }
}

/// The error for an event that no measured processor counts.
fn not_counted(name: &str, why: NotEncoded, hint: impl Into<Hint>) -> Error {
    match why {
        NotEncoded::NeedsMsr(_) => Error::NeedsMsr { name: name.to_owned(), why: why.to_string() },
        NotEncoded::Other(why) => {
            Error::unavailable(format!("{name} cannot be counted on this machine: {why}"), hint)
        }
    }
}

fn is_amd(table: &str) -> bool {
    table.starts_with("amd")
}

impl CpuType {
    /// Its events: those of the user's list, then its microarchitecture's.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        let known = self.microarchitecture.into_iter();
        self.listed.iter().chain(known.flat_map(Microarchitecture::events))
    }

    /// Its event of this name, in any case.
    fn event(&self, name: &str) -> Option<&Event> {
        self.events().find(|event| event.name.eq_ignore_ascii_case(name))
    }
}

/// Whether a mask of CPU types has this one.
fn has_type(mask: u64, cpu_type: u8) -> bool {
    mask.checked_shr(cpu_type.into()).unwrap_or(0) & 1 != 0
}

/// The bit of a processor's CPU type in a mask of CPU types.
const fn type_bit(processor: &Processor) -> u16 {
    // The number is from the wire, and a mask has 16 bits: the remainder keeps the shift from
    // overflowing.
    1 << (processor.cpu_type % 16)
}

/// The CPU types of these processors, as a mask.
pub fn types_of<'a>(processors: impl IntoIterator<Item = &'a Processor>) -> u16 {
    processors.into_iter().fold(0, |mask, processor| mask | type_bit(processor))
}

fn event_spec(item: &Item, specs: Vec<Spec>, name: &str) -> EventSpec {
    EventSpec {
        label: format!("{name}{}", item.filter.map_or("", filter_suffix)),
        requested: Some(item.requested.clone()),
        specs,
    }
}

/// Finds a source by its listed name, its enumeration symbol, that symbol without `Profile`, its
/// name after `Profile`, or its id.
fn find<'a>(text: &str, sources: &'a [Source]) -> Option<&'a Source> {
    let equals = |name: &str| name.eq_ignore_ascii_case(text);
    let prefixed = format!("{PROFILE}{text}");
    let unprefixed = after_profile(text);
    let id = parse_number(text);
    // Each spelling is tried on all sources before the next one, so that a name as it is listed
    // wins over another source's shorter one.
    let spellings: [&dyn Fn(&Source) -> bool; 5] = [
        &|source| equals(source.name),
        &|source| equals(source.symbol),
        &|source| source.symbol.eq_ignore_ascii_case(&prefixed),
        &|source| source.name.eq_ignore_ascii_case(unprefixed),
        &|source| Some(u64::from(source.id)) == id,
    ];
    spellings.iter().find_map(|matches| sources.iter().find(|source| matches(source)))
}

#[cfg(test)]
mod tests;
