//! Everything that can be named on one machine: the sources of its tables, the vendor's events for
//! each kind of core, and the names that Linux perf and Windows use for them.

use crate::events::{self, Alias, Event, Microarchitecture, OFFCORE_RSP_0};
use crate::selection::{Chosen, Item, What, bad_list, filter_suffix, parse_number, raw_select};
use crate::{Connection, Error, Result, Transport};
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use shared_types::request::source::Source;
use shared_types::{ProfileInterface, ProfileSource};
use sim::event::{Code, Event as Kinds};
use sim::workload::Known;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Advice for an event of the user's list that cannot be counted.
pub const OF_YOUR_LIST: &str = "Your list of events says what it needs.";

/// Bits 16 and 17 of a select: count in user mode, in kernel mode.
const SELECT_FILTER: [u64; 2] = [1 << 16, 1 << 17];
/// Bits 2 and 3 of an ESCR, which is the low half of NetBurst's raw select.
const ESCR_FILTER: [u64; 2] = [1 << 2, 1 << 3];
/// Bits of a select that halprof sets itself, and their names.
const OWN_BITS: [(u64, &str); 2] = [(1 << 22, "EN (bit 22)"), (1 << 20, "INT (bit 20)")];
/// The bits of a select that users may set on every processor: event, unit mask, the modes, edge,
/// invert and counter mask.
const USERS_BITS: u64 = 0xFF87_FFFF;
/// Event bits 11:8 of AMD's selects.
const EVENT_HIGH: u64 = 0xF << 32;
/// halprof's number of fixed counter 0; the others follow.
const FIRST_FIXED: u32 = 0x8000_0100;
/// The select that counts for both threads what fixed counter 1 counts for one thread.
const CYCLES_OF_BOTH_THREADS: u64 = 0x3C | 1 << 21;
/// Bits of Intel's selects that not every processor has, and what to say where they are missing.
const GATES: [(u64, &str); 2] = [
    (
        1 << 21,
        "it needs the any-thread bit of the select, which this processor does not have (CPUID leaf 0x0A: version 3, EDX bit 15)",
    ),
    (
        0xFF << 40,
        "it needs the second unit mask, which this processor does not have (CPUID leaf 0x23, EBX bit 0)",
    ),
];
/// Event A4h, unit mask 01h: slots, which fixed counter 3 counts too.
const SLOTS: u64 = 0x01A4;
/// The name that selects every supported source.
const ALL: &str = "all";
/// Extra MSRs that events take a value from, and what they hold.
const MSRS: [(u32, &str); 3] =
    [(OFFCORE_RSP_0, "off-core response"), (0x3F6, "load latency"), (0x3F7, "front-end retired")];
/// Names less alike than this are not suggested.
const ALIKE: f64 = 0.8;

/// Everything that can be named on one machine.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The sources of its tables, unsupported ones included.
    pub sources: Vec<Source>,
    interface: ProfileInterface,
    kinds: Vec<Kind>,
    /// How many kinds of processor the machine has.
    all_kinds: usize,
    /// The kinds that are measured, as a mask.
    measured: u16,
}

/// Processors that are alike and have counters.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The first of them.
    pub processor: Processor,
    /// Their microarchitecture; `None` if it is unknown, when only a user's list names their
    /// events.
    pub microarchitecture: Option<&'static Microarchitecture>,
    /// Events of the user's list, which take precedence over those of the tables.
    own: Arc<[Event]>,
}

/// One event, as a machine counts it.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// The event, as the first kind of processor that has it defines it.
    pub event: &'a Event,
    /// For each kind of processor that has it: the kind, its event there, and how it is counted, or
    /// why it cannot be.
    pub kinds: Vec<(&'a Kind, &'a Event, std::result::Result<Counted, String>)>,
}

/// How a kind of processor counts an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// With a select, on any of the general counters of a mask.
    Select {
        /// The select, as [`Event::select`] gives it.
        select: u64,
        /// The counters, or [`Spec::ANY_COUNTER`].
        counters: u32,
    },
    /// The fixed counter of this index.
    Fixed(u8),
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
    #[must_use]
    pub fn new(sources: Vec<Source>, interface: u32, processors: &[Processor]) -> Self {
        let mut kinds: Vec<Processor> = Vec::new();
        for processor in processors {
            if kinds.iter().all(|kind| kind.kind != processor.kind) {
                kinds.push(*processor);
            }
        }
        let counts = |kind: &Processor| kind.counter_mask != 0;
        Self {
            sources,
            interface: ProfileInterface::from_wire(interface).unwrap_or(ProfileInterface::Default),
            all_kinds: kinds.len(),
            measured: u16::MAX,
            kinds: kinds
                .into_iter()
                .filter(counts)
                .map(|processor| Kind {
                    microarchitecture: Microarchitecture::of_processor(&processor),
                    own: Arc::default(),
                    processor,
                })
                .collect(),
        }
    }

    /// The same with the events of a user's file, on every kind of Intel processor: a list as Intel
    /// publishes it. Uncore events and those that need OFFCORE_RSP are left out.
    pub fn with_event_file(mut self, path: &Path) -> Result<Self> {
        let events: Arc<[Event]> = events::file::read(path)?.into();
        let intel = |kind: &&mut Kind| kind.processor.vendor == *b"GenuineIntel";
        for kind in self.kinds.iter_mut().filter(intel) {
            kind.own = Arc::clone(&events);
        }
        Ok(self)
    }

    /// The kinds of processor that have counters.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Whether a processor can count a source.
    #[must_use]
    pub fn counts_on(&self, chosen: &Chosen, processor: &Processor) -> bool {
        let among = |kinds: u64| kinds.checked_shr(processor.kind.into()).unwrap_or(0) & 1 != 0;
        let spec = &chosen.spec;
        let mut sources = self.sources.iter();
        let source = sources.find(|source| source.id == spec.source);
        let timer = |source: &Source| source.flags & Source::TIMER != 0;
        (spec.kinds == 0 || among(spec.kinds.into()))
            && source.is_none_or(|source| timer(source) || among(source.kinds.into()))
    }

    /// The same for these processors alone: an event is chosen only as their kinds count it.
    #[must_use]
    pub fn measuring<'a>(mut self, processors: impl IntoIterator<Item = &'a Processor>) -> Self {
        self.measured = kinds_of(processors);
        self
    }

    /// Finds each item of a list.
    pub fn resolve(&self, items: &[Item]) -> Result<Vec<Chosen>> {
        let mut chosen = Vec::new();
        for item in items {
            if item.text.eq_ignore_ascii_case(ALL) {
                let supported = |source: &&Source| source.flags & Source::SUPPORTED != 0;
                let supported = self.sources.iter().filter(supported);
                chosen.extend(supported.map(|source| self.of_source(item, source)));
            } else {
                self.resolve_one(item, &mut chosen)?;
            }
        }
        let places = counted_on(&chosen, self.measured).into_iter();
        Ok(places.filter_map(|place| chosen.get(place).cloned()).collect())
    }

    /// The source that has this name, if one does.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&Source> {
        find(name, &self.sources)
    }

    /// The source that a fixed counter counts.
    #[must_use]
    pub fn fixed(&self, index: u8) -> Option<&Source> {
        let id = FIRST_FIXED + u32::from(index);
        self.sources.iter().find(|source| source.id == id)
    }

    /// The alias of this name, Linux perf's or Windows'.
    #[must_use]
    pub fn alias(&self, name: &str) -> Option<Alias> {
        let number = parse_number(name);
        let mut aliases = self.aliases();
        aliases.find(|alias| {
            alias.name.eq_ignore_ascii_case(name)
                || number.is_some() && parse_number(alias.name) == number
        })
    }

    /// The names of Linux perf and of Windows that are valid here.
    pub fn aliases(&self) -> impl Iterator<Item = Alias> {
        let boot = self.kinds.first();
        let all = boot.into_iter().flat_map(|kind| events::aliases(&kind.processor));
        all.filter(|alias| alias.target.starts_with('r') || self.source(alias.target).is_some())
    }

    /// The vendor's event of this name, on the kinds of processor that have it.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<Found<'_>> {
        let of_kind = |kind| {
            let event = Kind::event(kind, name)?;
            Some((kind, event, kind.counted(event)))
        };
        let kinds: Vec<_> = self.kinds.iter().filter_map(of_kind).collect();
        let event = kinds.first()?.1;
        Some(Found { event, kinds })
    }

    /// What a workload of a modelled machine means by a name.
    #[must_use]
    pub fn modelled(&self, name: &str) -> Option<Known> {
        self.modelled_where(name, |_| true)
    }

    /// The same on the processors of one microarchitecture only, by the name of its table.
    #[must_use]
    pub fn modelled_on(&self, table: &str, name: &str) -> Option<Known> {
        self.modelled_where(name, |kind| {
            kind.microarchitecture.is_some_and(|one| one.table == table)
        })
    }

    fn modelled_where(&self, name: &str, is: impl Fn(&Kind) -> bool) -> Option<Known> {
        let kinds = [Kinds::Instructions, Kinds::Cycles, Kinds::RefCycles];
        let code = |select, fixed, core| Code { event: Kinds::Named(0), select, fixed, core };
        if name.eq_ignore_ascii_case("slots") {
            let slots = [code(None, Some(3), None), code(Some(SLOTS), None, None)];
            return Some(Known::Codes(slots.to_vec()));
        }
        let found = self.event(name)?;
        let mut codes = Vec::new();
        for (kind, _, counted) in found.kinds.iter().filter(|(kind, ..)| is(kind)) {
            match counted {
                Ok(Counted::Fixed(index)) => match kinds.get(usize::from(*index)) {
                    Some(event) => return Some(Known::Kind(*event)),
                    None => codes.push(code(None, Some(*index), kind.core())),
                },
                Ok(Counted::Select { select, .. }) => {
                    codes.push(code(Some(*select), None, kind.core()));
                }
                Err(_) => {}
            }
        }
        (!codes.is_empty()).then_some(Known::Codes(codes))
    }

    /// Every event of every kind of processor, each name once, in the order of names.
    #[must_use]
    pub fn events(&self) -> Vec<&str> {
        let all = self.kinds.iter().flat_map(Kind::events);
        let mut names: Vec<&str> = all.map(|event| event.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn resolve_one(&self, item: &Item, chosen: &mut Vec<Chosen>) -> Result<()> {
        match &item.what {
            What::Named(name) => self.resolve_name(item, name, chosen),
            What::Raw(select) => {
                let (select, filter) = self.raw(item, *select)?;
                chosen.push(self.of_raw(item, select, &item.text, filter));
                Ok(())
            }
            What::Changed { name, changed, select } => {
                let mut found = self.event(name).ok_or_else(|| self.unknown(name))?;
                for (_, _, counted) in &mut found.kinds {
                    *counted = counted.clone().and_then(|counted| counted.with(*changed, *select));
                }
                chosen.extend(self.of_event(item, &found, &item.text)?);
                Ok(())
            }
        }
    }

    fn resolve_name(&self, item: &Item, name: &str, chosen: &mut Vec<Chosen>) -> Result<()> {
        if let Some(source) = self.source(name) {
            chosen.push(self.of_source(item, source));
            return Ok(());
        }
        if let Some(found) = self.event(name) {
            chosen.extend(self.of_event(item, &found, &found.event.name)?);
            return Ok(());
        }
        if let Some(alias) = self.alias(name) {
            if let Some(source) = self.source(alias.target) {
                chosen.push(self.of_source(item, source));
                return Ok(());
            }
            if let Some(Ok(select)) = raw_select(alias.target) {
                chosen.push(self.of_raw(item, select, alias.name, item.filter));
                return Ok(());
            }
        }
        Err(self.unknown(name))
    }

    fn of_source(&self, item: &Item, source: &Source) -> Chosen {
        let spec = Spec {
            source: source.id,
            kinds: self.kinds_of_core(item.core),
            ..spec_of(item, item.filter)
        };
        chosen(item, spec, source.name.as_str())
    }

    fn of_raw(&self, item: &Item, select: u64, name: &str, filter: Option<u16>) -> Chosen {
        let spec = Spec { kinds: self.kinds_of_core(item.core), ..spec_of(item, filter) };
        let spec =
            Spec { source: ProfileSource::RAW.0, raw: select, counters: Spec::ANY_COUNTER, ..spec };
        chosen(item, spec, name)
    }

    /// One choice for each way in which kinds of processor count it.
    fn of_event(&self, item: &Item, found: &Found<'_>, label: &str) -> Result<Vec<Chosen>> {
        let wanted = self.kinds_of_core(item.core);
        let mut ways: Vec<(Counted, u16)> = Vec::new();
        let mut why = None;
        for (kind, _, counted) in &found.kinds {
            let bit = 1u16 << (kind.processor.kind % 16);
            if wanted != 0 && wanted & bit == 0 {
                continue;
            }
            match counted {
                Err(reason) => why = Some(reason),
                Ok(counted) => match ways.iter_mut().find(|(same, _)| same == counted) {
                    Some((_, kinds)) => *kinds |= bit,
                    None => ways.push((*counted, bit)),
                },
            }
        }
        let name = &found.event.name;
        if ways.is_empty() {
            let why = why.map_or("no such processor has it", String::as_str);
            let is_own = |(kind, event, _): &(&Kind, &Event, _)| {
                kind.own.iter().any(|own| std::ptr::eq(own, *event))
            };
            let hint = if found.kinds.iter().any(is_own) {
                OF_YOUR_LIST.to_owned()
            } else {
                format!("`halprof explain {name}` has all that is known of it.")
            };
            return Err(Error::unavailable(
                format!("{name} cannot be counted on this machine: {why}"),
                hint,
            ));
        }
        let flags = if found.event.alone { Spec::ALONE } else { 0 };
        let of_way = |(counted, kinds): (Counted, u16)| {
            let all = kinds.count_ones() as usize == self.all_kinds;
            let spec =
                Spec { flags, kinds: if all { 0 } else { kinds }, ..spec_of(item, item.filter) };
            let spec = match counted {
                Counted::Select { select, counters } => {
                    Spec { source: ProfileSource::RAW.0, raw: select, counters, ..spec }
                }
                Counted::Fixed(index) => Spec { source: FIRST_FIXED + u32::from(index), ..spec },
            };
            chosen(item, spec, label)
        };
        Ok(ways.into_iter().map(of_way).collect())
    }

    /// The kinds of processor of a type of core, as a mask; 0 for all.
    fn kinds_of_core(&self, core: Option<u8>) -> u16 {
        let Some(core) = core else {
            return 0;
        };
        let of_core = self.kinds.iter().filter(|kind| kind.processor.core_type == core);
        of_core.fold(0, |mask, kind| mask | 1 << (kind.processor.kind % 16))
    }

    /// A raw select without the bits that halprof sets itself, and the filter that its own bits
    /// give, which must agree with the filter after the colon.
    fn raw(&self, item: &Item, select: u64) -> Result<(u64, Option<u16>)> {
        let [user_bit, kernel_bit] = match self.interface {
            ProfileInterface::NetBurst => ESCR_FILTER,
            _ => SELECT_FILTER,
        };
        self.refuse_own_bits(item, select)?;
        let mode = |bit, mode| if select & bit == 0 { 0 } else { mode };
        let own = mode(user_bit, Spec::USER) | mode(kernel_bit, Spec::KERNEL);
        match (own, item.filter) {
            (0, filter) => Ok((select, filter)),
            (bits, filter) if filter.is_none_or(|filter| filter == bits) => {
                Ok((select, Some(bits)))
            }
            _ => Err(bad_list(&item.text, "its user and kernel bits contradict its filter")),
        }
    }

    /// Users of Linux perf may paste EN and INT, which only halprof may set.
    fn refuse_own_bits(&self, item: &Item, select: u64) -> Result<()> {
        use ProfileInterface as I;
        if !matches!(self.interface, I::Emon | I::Amd64 | I::P6) {
            return Ok(());
        }
        let set = OWN_BITS.iter().filter(|(bit, _)| select & bit != 0);
        let names: Vec<&str> = set.clone().map(|(_, name)| *name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let right = set.fold(select, |select, (bit, _)| select & !bit);
        let of_kind = |kind: &Kind| u64::from(kind.processor.select_bits) << 16;
        let allowed = self.kinds.iter().map(of_kind).fold(
            match self.interface {
                I::Amd64 => USERS_BITS | EVENT_HIGH,
                _ => USERS_BITS,
            },
            |all, more| all | more,
        );
        Err(Error::usage(
            format!("`{}` has {}, which halprof sets itself", item.text, names.join(" and ")),
            if right & !allowed == 0 {
                format!("Write `r{right:X}`.")
            } else {
                "A raw select has event, unit mask, edge, invert and counter mask.".to_owned()
            },
        ))
    }

    /// The error for a name that nothing has, with the names that may have been meant.
    fn unknown(&self, name: &str) -> Error {
        Error::UnknownName {
            name: name.to_owned(),
            hint: self.elsewhere(name).or_else(|| self.did_you_mean(name)),
        }
    }

    /// The hint for an event of another microarchitecture: which one, and its name on this
    /// processor.
    fn elsewhere(&self, name: &str) -> Option<String> {
        let own = self.kinds.iter().find_map(|kind| kind.microarchitecture);
        let intel = |table: &str| !table.starts_with("amd");
        let of_vendor =
            |one: &&Microarchitecture| own.is_none_or(|own| intel(own.table) == intel(one.table));
        let all = Microarchitecture::all().iter();
        let (near, far): (Vec<_>, Vec<_>) = all.partition(of_vendor);
        let mut having = near.into_iter().chain(far);
        let (other, event) = having.find_map(|one| Some((one, one.event(name)?)))?;
        let mut hint = format!("{} is an event of {}.", event.name, other.title);
        let alike = |candidate: &&Event| {
            let same = candidate.select() == event.select() && candidate.fixed == event.fixed;
            same && candidate.msr == event.msr
        };
        let same_vendor = own.filter(|own| intel(own.table) == intel(other.table));
        let here = same_vendor.into_iter().flat_map(Microarchitecture::events);
        let likeness = |candidate: &&Event| strsim::jaro_winkler(&candidate.name, &event.name);
        let by_likeness = |one: &&Event, other: &&Event| likeness(one).total_cmp(&likeness(other));
        if let Some(same) = here.filter(alike).max_by(by_likeness)
            && strsim::jaro_winkler(&same.name, &event.name) >= ALIKE
        {
            let _ = write!(hint, " On this processor it is called `{}`.", same.name);
        }
        Some(hint)
    }

    fn did_you_mean(&self, name: &str) -> Option<String> {
        let sources = self.sources.iter().map(|source| source.name.as_str().to_owned());
        let events = self.events().into_iter().map(str::to_owned);
        let aliases = self.aliases().map(|alias| alias.name.to_owned());
        crate::did_you_mean(name, sources.chain(aliases).chain(events))
    }
}

impl Counted {
    /// The same with the bits `changed` of the select replaced by `fields`.
    fn with(self, changed: u64, fields: u64) -> std::result::Result<Self, String> {
        match self {
            Self::Select { select, counters } => {
                Ok(Self::Select { select: select & !changed | fields, counters })
            }
            Self::Fixed(index) => {
                Err(format!("fixed counter {index} counts it, which has no fields"))
            }
        }
    }
}

impl Kind {
    /// EAX of leaf 0x1A; `None` where a machine has one type of core.
    fn core(&self) -> Option<u32> {
        let Processor { core_type, native_model, .. } = self.processor;
        (core_type != 0).then(|| u32::from(core_type) << 24 | native_model & 0xFF_FFFF)
    }

    /// Its events: those of the user's list, then its microarchitecture's.
    fn events(&self) -> impl Iterator<Item = &Event> {
        let known = self.microarchitecture.into_iter();
        self.own.iter().chain(known.flat_map(Microarchitecture::events))
    }

    /// Its event of this name, in any case.
    fn event(&self, name: &str) -> Option<&Event> {
        self.events().find(|event| event.name.eq_ignore_ascii_case(name))
    }

    /// How it counts an event, or why it does not.
    pub fn counted(&self, event: &Event) -> std::result::Result<Counted, String> {
        if let Some(msr) = event.msr {
            let what = MSRS.iter().find(|(number, _)| *number == msr);
            let what = what.map_or_else(String::new, |(_, what)| format!(" ({what})"));
            return Err(format!("it needs MSR {msr:#X}{what}, which halprof does not program"));
        }
        if let Some(index) = event.fixed {
            return match (event.any_thread, index) {
                (false, _) if self.processor.fixed_mask >> index & 1 == 0 => Err(format!(
                    "only fixed counter {index} counts it, which this processor does not have"
                )),
                (false, _) => Ok(Counted::Fixed(index)),
                (true, 1) => self.has_bits(CYCLES_OF_BOTH_THREADS).map(|()| Counted::Select {
                    select: CYCLES_OF_BOTH_THREADS,
                    counters: Spec::ANY_COUNTER,
                }),
                (true, _) => Err("it counts for both threads on a fixed counter".to_owned()),
            };
        }
        let select = event.select();
        self.has_bits(select)?;
        let there = self.processor.counter_mask;
        let counters = match event.counters {
            None => Spec::ANY_COUNTER,
            Some(mask) if mask & there == there => Spec::ANY_COUNTER,
            Some(mask) if mask & there == 0 => {
                return Err(format!(
                    "only the general counters {} count it, which this processor does not have",
                    list_of(mask)
                ));
            }
            Some(mask) => mask & there,
        };
        Ok(Counted::Select { select, counters })
    }

    /// Whether its selects have all the bits of this one; the driver judges in the same way.
    fn has_bits(&self, select: u64) -> std::result::Result<(), String> {
        let lacks = |bits: u64| select & bits & !(u64::from(self.processor.select_bits) << 16) != 0;
        let intel = self.processor.vendor == *b"GenuineIntel";
        if intel && let Some((_, why)) = GATES.iter().find(|(bits, _)| lacks(*bits)) {
            return Err((*why).to_owned());
        }
        Ok(())
    }
}

/// The counters of a mask, e.g. `0-3`.
#[must_use]
pub fn list_of(mask: u32) -> String {
    crate::selection::format_processors((0..32).filter(|bit| mask >> bit & 1 == 1))
}

fn spec_of(item: &Item, filter: Option<u16>) -> Spec {
    Spec {
        group: item.group,
        filter: filter.unwrap_or(Spec::USER | Spec::KERNEL),
        interval: item.period.unwrap_or(0),
        ..Spec::default()
    }
}

/// The kinds of these processors, as a mask.
pub(crate) fn kinds_of<'a>(processors: impl IntoIterator<Item = &'a Processor>) -> u16 {
    let bit = |processor: &Processor| 1u16 << (processor.kind % 16);
    let processors = processors.into_iter();
    processors.fold(0, |mask, processor| mask | bit(processor))
}

/// The indexes of those that these kinds of processor count: where an event has several ways, the
/// others are left out. An event that these kinds cannot count keeps all, and the refusal says where
/// it can be counted.
pub(crate) fn counted_on(chosen: &[Chosen], kinds: u16) -> Vec<usize> {
    let here = |one: &Chosen| one.spec.kinds == 0 || one.spec.kinds & kinds != 0;
    let counted: BTreeSet<&str> =
        chosen.iter().filter(|one| here(one)).map(|one| one.label.as_str()).collect();
    let kept = |one: &Chosen| here(one) || !counted.contains(one.label.as_str());
    chosen.iter().enumerate().filter(|(_, one)| kept(one)).map(|(place, _)| place).collect()
}

fn chosen(item: &Item, spec: Spec, name: &str) -> Chosen {
    Chosen {
        spec,
        label: format!("{name}{}", item.filter.map_or("", filter_suffix)),
        requested: Some(item.requested.clone()),
    }
}

/// Finds a source by its listed name, its enumeration symbol, that symbol without `Profile`, or its
/// id.
fn find<'a>(text: &str, sources: &'a [Source]) -> Option<&'a Source> {
    let named = |name: &str| name.eq_ignore_ascii_case(text);
    let by_name = sources.iter().find(|source| named(source.name.as_str()));
    let by_symbol = || sources.iter().find(|source| named(source.symbol.as_str()));
    let prefixed = || {
        let symbol = format!("Profile{text}");
        sources.iter().find(|source| source.symbol.as_str().eq_ignore_ascii_case(&symbol))
    };
    let unprefixed = || {
        let (prefix, name) = text.split_at_checked("Profile".len())?;
        let is_prefix = prefix.eq_ignore_ascii_case("Profile");
        let same = |source: &&Source| source.name.as_str().eq_ignore_ascii_case(name);
        sources.iter().find(same).filter(|_| is_prefix)
    };
    let by_id = || {
        let id = parse_number(text)?;
        sources.iter().find(|source| u64::from(source.id) == id)
    };
    by_name.or_else(by_symbol).or_else(prefixed).or_else(unprefixed).or_else(by_id)
}

#[cfg(test)]
mod tests;
