//! The vendors' events: a processor's microarchitecture, and its events by name.
//!
//! The tables are facts, one row for each event; the README names their sources. They are packed when
//! the crate is built and unpacked at first use.
//!
//! ```
//! use halprof_events::{Cpu, Microarchitecture};
//!
//! let cpu = Cpu { vendor: *b"GenuineIntel", family: 6, model: 0x5E, ..Cpu::default() };
//! let skylake = Microarchitecture::of(&cpu).expect("it has a table");
//! let event = skylake.event("LONGEST_LAT_CACHE.MISS").expect("it is in the table");
//! assert_eq!(event.select(), 0x412E);
//! ```
#![forbid(unsafe_code)]
// People outside this project read the crate, so each public item is documented.
#![warn(missing_docs)]

mod map;

use miniz_oxide::inflate::decompress_to_vec_zlib;
use std::fmt::{self, Display, Formatter};
use std::sync::{LazyLock, OnceLock};

/// The low byte of a unit mask; the two bytes are separate fields of a select.
const BYTE: u64 = 0xFF;
/// Where the bits of a code or a mask above its low eight are placed: AMD's event, Intel's unit
/// mask.
const AMD_EVENT_HIGH: u32 = 32;
const INTEL_UNIT_MASK_HIGH: u32 = 40;

/// What CPUID says of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The vendor string of leaf 0.
    pub vendor: [u8; 12],
    /// The full family: with the extended family added where it counts.
    pub family: u16,
    /// The full model.
    pub model: u16,
    /// The stepping.
    pub stepping: u8,
    /// The core type, leaf 0x1A EAX bits 31:24: 0x20 efficiency, 0x40 performance, 0 not reported.
    pub core_type: u8,
    /// The native model, leaf 0x1A EAX bits 23:0; 0 not reported.
    pub native_model: u32,
}

impl Cpu {
    /// Whether it is one of AMD's models whose generation is known. Before Zen those have no table
    /// of events here.
    #[must_use]
    pub fn is_known_amd(&self) -> bool {
        map::is_amd_model(self)
    }
}

/// Processors with the same events.
#[derive(Debug)]
pub struct Microarchitecture {
    /// The name of its table, e.g. `skylake`.
    pub table: &'static str,
    /// Its name, and those of its successors with the same events, for display.
    pub title: &'static str,
    /// The version of the vendor's list from which the table was made.
    pub version: &'static str,
    /// Its bit in the masks of the packed rows.
    bit: usize,
    events: OnceLock<Vec<Event>>,
}

/// One event of a vendor's list.
#[expect(clippy::struct_excessive_bools, reason = "as many flags as the lists have")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The vendor's name for it.
    pub name: String,
    /// Event select: 8 bits, AMD's 12.
    pub code: u16,
    /// Unit mask; bits 15:8 are Intel's second unit mask.
    pub unit_mask: u16,
    /// The general counters that can count it, as a mask; `None` if any can, or if only `fixed`
    /// can.
    pub counters: Option<u32>,
    /// The fixed counter that alone counts it.
    pub fixed: Option<u8>,
    /// The counter mask: counts the cycles with at least this many events.
    pub counter_mask: u8,
    /// Inverts the comparison with the counter mask.
    pub invert: bool,
    /// Counts how often the condition becomes true.
    pub edge: bool,
    /// Counts for both threads of the core.
    pub any_thread: bool,
    /// The vendor's own sampling period; 0 if it names none.
    pub period: u64,
    /// An extra MSR that the event takes a value from.
    pub msr: Option<u32>,
    /// Nothing else may be counted at the same time.
    pub alone: bool,
    /// A newer name exists.
    pub deprecated: bool,
    /// The vendor's numbers of the errata that concern it.
    pub errata: String,
    /// What it counts in the vendor's words, if the user gave a list with descriptions; otherwise
    /// empty, and [`Microarchitecture::meaning`] says it.
    pub description: String,
}

/// What an event counts, in halprof's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// One sentence.
    pub sentence: &'static str,
    /// From where it is known.
    pub basis: Basis,
}

/// From where it is known what an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The published document of this title says so.
    Text(&'static str),
    /// It follows from the event's name and the common knowledge of the field.
    Name,
}

static ALL: LazyLock<Vec<Microarchitecture>> = LazyLock::new(|| {
    let table = |(bit, line): (usize, &'static str)| {
        let (table, rest) = line.split_once(',')?;
        let (title, version) = rest.rsplit_once(',')?;
        Some(Microarchitecture {
            table,
            title: title.trim_matches('"'),
            version,
            bit,
            events: OnceLock::new(),
        })
    };
    let lines = include_str!("../data/microarchitectures.csv").lines();
    lines.skip(1).enumerate().filter_map(table).collect()
});

static ROWS: LazyLock<String> =
    LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/events"))));

/// In the order of names.
static MEANINGS: LazyLock<Vec<PackedMeaning>> = LazyLock::new(|| {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/meanings"))));
    TEXT.lines().filter_map(PackedMeaning::parse).collect()
});

struct PackedMeaning {
    /// A bit for each table that it is for.
    tables: u128,
    name: &'static str,
    meaning: Meaning,
}

impl PackedMeaning {
    fn parse(line: &'static str) -> Option<Self> {
        // Only the last field may contain commas.
        let mut cells = line.splitn(4, ',');
        let tables = u128::from_str_radix(cells.next()?, 16).ok()?;
        let (name, document, sentence) = (cells.next()?, cells.next()?, cells.next()?);
        let basis = if document.is_empty() { Basis::Name } else { Basis::Text(document) };
        Some(Self { tables, name, meaning: Meaning { sentence, basis } })
    }
}

/// The data that the build packed.
fn unpacked(packed: &[u8]) -> String {
    let bytes = decompress_to_vec_zlib(packed).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

impl Microarchitecture {
    /// Every one whose events are known.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &ALL
    }

    /// That of a processor; `None` where its events are not known.
    #[must_use]
    pub fn of(cpu: &Cpu) -> Option<&'static Self> {
        let table = map::table_of(cpu)?;
        ALL.iter().find(|one| one.table == table)
    }

    /// Its events, in the order of their names.
    pub fn events(&self) -> &[Event] {
        self.events.get_or_init(|| {
            let rows = ROWS.lines().filter_map(|line| {
                let (tables, row) = line.split_once(',')?;
                let tables = u128::from_str_radix(tables, 16).ok()?;
                (tables >> self.bit & 1 == 1).then(|| Event::parse(row))?
            });
            rows.collect()
        })
    }

    /// The event of this name, in any case.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<&Event> {
        let mut events = self.events().iter();
        events.find(|event| event.name.eq_ignore_ascii_case(name))
    }

    /// What one of its events counts, by the name as its table has it.
    #[must_use]
    pub fn meaning(&self, name: &str) -> Option<Meaning> {
        let first = MEANINGS.partition_point(|one| one.name < name);
        let mut same_name = MEANINGS.iter().skip(first).take_while(|one| one.name == name);
        same_name.find(|one| one.tables >> self.bit & 1 == 1).map(|one| one.meaning)
    }

    /// The vendor's document from which the table was made.
    #[must_use]
    pub fn document(&self) -> String {
        let Self { table, version, .. } = self;
        if table.starts_with("amd") {
            return format!(
                "AMD's Processor Programming Reference, as the list `{table}`, {version}, has it"
            );
        }
        format!("Intel's perfmon event list `{table}`, {version}")
    }
}

impl Event {
    /// Parses a row: name, code, unit mask, counters, fixed, counter mask, invert, edge,
    /// any-thread, period, MSR and its value, precise, alone, deprecated, errata.
    fn parse(row: &str) -> Option<Self> {
        // Only the last field may contain commas.
        let mut cells = row.splitn(16, ',');
        let mut next = || cells.next();
        let name = next()?.to_owned();
        let (code, unit_mask) = (hex(next()?)? as u16, hex(next()?)? as u16);
        let (counters, fixed) = (hex(next()?), next()?.parse().ok());
        let counter_mask = next()?.parse().ok()?;
        let (invert, edge, any_thread) = (next()? == "1", next()? == "1", next()? == "1");
        let period = next()?.parse().ok()?;
        let (msr, _value, _precise) = (hex(next()?), next()?, next()?);
        Some(Self {
            name,
            code,
            unit_mask,
            counters,
            fixed,
            counter_mask,
            invert,
            edge,
            any_thread,
            period,
            msr,
            alone: next()? == "1",
            deprecated: next()? == "1",
            errata: next()?.trim_matches('"').to_owned(),
            description: String::new(),
        })
    }

    /// The value for IA32_PERFEVTSELx or PERF_CTLx, without the mode, interrupt and enable bits.
    #[must_use]
    pub const fn select(&self) -> u64 {
        let (code, mask) = (self.code as u64, self.unit_mask as u64);
        code & BYTE
            | (code >> 8) << AMD_EVENT_HIGH
            | (mask & BYTE) << 8
            | (mask >> 8) << INTEL_UNIT_MASK_HIGH
            | (self.edge as u64) << 18
            | (self.any_thread as u64) << 21
            | (self.invert as u64) << 23
            | (self.counter_mask as u64) << 24
    }
}

/// In the syntax of `cpu/…/`: `event=0xd1,umask=0x20`.
impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "event={:#x},umask={:#x}", self.code, self.unit_mask)?;
        if self.counter_mask != 0 {
            write!(f, ",cmask={}", self.counter_mask)?;
        }
        let flags = [(self.invert, ",inv"), (self.edge, ",edge"), (self.any_thread, ",any")];
        let mut set = flags.into_iter().filter(|(set, _)| *set);
        set.try_for_each(|(_, name)| f.write_str(name))
    }
}

fn hex(cell: &str) -> Option<u32> {
    u32::from_str_radix(cell.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests;
