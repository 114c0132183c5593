//! Tables of edges and paths: how often each was taken, and how often it was mispredicted.

pub(crate) mod code;

use crate::aggregate::branches::{
    RecordCounts, Step, mode, walk, without_branches, without_predictions,
};
use crate::aggregate::filter::Filter;
use crate::aggregate::filtered::BoundFilter;
use crate::aggregate::key::{Key, Value};
use crate::aggregate::locations::ResolvedLocations;
use crate::aggregate::share::Share;
use crate::file::combined::no_recording;
use crate::file::{Recording, open};
use crate::symbols::code_location::CodeLocation;
use crate::symbols::{Opened, SymbolPath, Symbols};
use halprof_measure::Result;
use halprof_measure::float::float;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use shared_types::{Branch, BranchKind, MAX_BRANCHES, Mode, Sample};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The largest number of different edges, and of different paths. Any new one beyond that is
/// counted, but not shown.
const EDGES_MAX: usize = 1 << 20;
const PATHS_MAX: usize = 1 << 18;
/// Shown for a side in the kernel that the recorder was not allowed to see.
const HIDDEN: &str = "hidden";
/// The default number of branches in a path.
pub const PATH_LENGTH: usize = 4;

/// What the rows of a table stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// How many branches a row stands for: 1 for single edges, up to [`MAX_BRANCHES`] for paths.
    pub length: usize,
    /// The key by which the sides of an edge are distinguished, one of [`Self::sides`].
    pub sides: Key,
}

impl Grouping {
    /// The keys of the two kinds of tables.
    pub const NAMES: [&'static str; 2] = ["edge", "path"];

    /// The keys that may follow them: those of code, the finest first.
    pub fn sides() -> impl Iterator<Item = Key> {
        Key::OF_CODE.into_iter().rev()
    }

    /// Whether a key is that of a table of branches.
    pub fn is_key(key: &str) -> bool {
        let name = key.split_once(':').map_or(key, |(name, _)| name);
        Self::NAMES.contains(&name)
    }

    /// Parses keys that begin with `edge`, `path` or `path:LENGTH`; without a second key, sides are
    /// distinguished by address.
    pub fn parse(keys: &[&str]) -> Option<Self> {
        let (name, sides) = match *keys {
            [name] => (name, Key::Address),
            [name, side] => (name, Key::of(side)?),
            _ => return None,
        };
        let length = match name.split_once(':') {
            None if name == Self::NAMES[0] => 1,
            None if name == Self::NAMES[1] => PATH_LENGTH,
            Some((path, length)) if path == Self::NAMES[1] => length.parse().ok()?,
            _ => return None,
        };
        let is_valid =
            length == 1 && name == Self::NAMES[0] || (2..=MAX_BRANCHES).contains(&length);
        (is_valid && Key::OF_CODE.contains(&sides)).then_some(Self { length, sides })
    }

    /// Whether rows are paths of several branches.
    pub const fn is_of_paths(self) -> bool {
        self.length > 1
    }

    pub fn keys(self) -> [&'static str; 2] {
        let [edge, path] = Self::NAMES;
        [if self.is_of_paths() { path } else { edge }, self.sides.name()]
    }
}

/// A query on the branch records.
#[derive(Clone, Debug)]
pub struct Query {
    pub tables: Vec<Grouping>,
    /// Which samples count; an edge is in a module or function if one of its sides is.
    pub filter: Filter,
    pub order: Order,
    /// How many rows each part of a table keeps; `None`: all.
    pub rows: Option<usize>,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Most often taken first.
    #[default]
    Taken,
    /// Most often mispredicted first.
    Mispredicted,
    /// By the names of their sides.
    Name,
}

/// Branch records, summed up.
#[derive(Clone, Debug)]
pub struct Branches {
    /// The recordings without their samples.
    pub recording: Recording,
    /// How many records were kept and dropped.
    pub records: RecordCounts,
    /// Records and paths that have no row, because there were too many different ones.
    pub omitted: u64,
    /// The tables that were asked for.
    pub tables: Vec<Table>,
    /// The modules whose symbols were needed.
    pub symbols: Vec<Opened>,
}

/// Edges or paths.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Table {
    /// What its rows stand for.
    #[serde(serialize_with = "by_keys")]
    #[schemars(with = "[String; 2]")]
    #[serde(rename = "by")]
    pub grouping: Grouping,
    /// One part for each source: records of different sources are not comparable.
    #[serde(rename = "parts")]
    pub sections: Vec<SourceSection>,
}

/// The edges or paths of the samples of one source.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SourceSection {
    /// The source.
    pub source: Arc<str>,
    /// How often the edges or paths of all rows were taken.
    pub taken: u64,
    /// One row for each.
    pub rows: Vec<PathTotals>,
    /// How many rows were omitted, and how often their edges or paths were taken.
    #[serde(skip)]
    pub more: (usize, u64),
}

/// A branch from one side to the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
pub struct Edge {
    /// Where the branch is.
    pub from: Value,
    /// Where it leads.
    pub to: Value,
}

/// One edge or path.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PathTotals {
    /// The edge, or the edges of the path in the order in which they were taken.
    pub edges: Vec<Edge>,
    /// How often it was taken.
    pub taken: u64,
    /// The share of `taken` of all rows.
    pub share: f64,
    /// Null if it is not known or not unique.
    pub kind: Option<&'static str>,
    /// How often it was mispredicted; for a path, any branch of it. Null if the processor does not
    /// report it, or Windows' own tracing recorded it.
    pub mispredicted: Option<u64>,
    /// The share that was mispredicted. The records of one sample are not independent, so the
    /// interval is that of the number of samples.
    pub mispredicted_share: Option<Share>,
    /// The mean number of cycles from the record before to the last of these; null if the processor
    /// does not report it, or Windows' own tracing recorded it.
    pub cycles: Option<f64>,
}

impl PathTotals {
    fn new(edges: Vec<Edge>, totals: BranchTotals, all: u64) -> Self {
        let reported = totals.predicted + totals.mispredicted;
        let kind = BranchKind::from_wire(totals.kind.into());
        Self {
            edges,
            taken: totals.taken,
            share: float(totals.taken) / float(all.max(1)),
            kind: kind.filter(|&kind| kind != BranchKind::Unknown).map(BranchKind::name),
            mispredicted: (reported != 0).then_some(totals.mispredicted),
            mispredicted_share: (reported != 0)
                .then(|| Share::of_groups(totals.mispredicted, reported, totals.samples)),
            cycles: (totals.timed != 0).then(|| float(totals.cycles) / float(totals.timed)),
        }
    }
}

/// How often an edge or a path was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BranchTotals {
    taken: u64,
    /// In how many samples; a lower bound where several edges are merged into one.
    samples: u64,
    /// How often the processor predicted it; for a path, every branch of it.
    predicted: u64,
    /// How often it was mispredicted; for a path, any branch of it.
    mispredicted: u64,
    /// How often its number of cycles is known.
    timed: u64,
    /// The sum of these cycles, from the record before it to its last record.
    cycles: u64,
    /// The kind of the edge, if it is known and unique: a [`BranchKind`].
    kind: u8,
}

impl BranchTotals {
    fn of(steps: &[Step]) -> Self {
        let any = |flag| steps.iter().any(|step| step.is(flag));
        let all = |flag| steps.iter().all(|step| step.is(flag));
        let timed = all(Branch::CYCLES);
        let cycles = steps.iter().map(|step| u64::from(step.branch.cycles));
        Self {
            taken: 1,
            samples: 0,
            predicted: all(Branch::PREDICTED).into(),
            mispredicted: any(Branch::MISPREDICTED).into(),
            timed: timed.into(),
            cycles: if timed { cycles.sum() } else { 0 },
            kind: steps.first().map_or(0, |step| step.branch.kind),
        }
    }

    fn add(&mut self, other: Self) {
        if self.taken != 0 && self.kind != other.kind {
            self.kind = 0;
        } else {
            self.kind = other.kind;
        }
        self.taken += other.taken;
        self.samples += other.samples;
        self.predicted += other.predicted;
        self.mispredicted += other.mispredicted;
        self.timed += other.timed;
        self.cycles = self.cycles.saturating_add(other.cycles);
    }
}

impl Branches {
    /// Reads and sums up the branch records of recordings.
    ///
    /// # Errors
    /// A recording cannot be read, has no branch records, or does not say which were mispredicted although
    /// the order needs it.
    pub fn read<P: AsRef<Path>>(
        paths: &[P],
        query: &Query,
        symbol_path: &SymbolPath,
    ) -> Result<Self> {
        let mut tables: Vec<Sections> = query.tables.iter().map(|_| Sections::new()).collect();
        let (mut recordings, mut symbols) = (Vec::new(), Vec::new());
        let (mut records, mut omitted) = (RecordCounts::default(), 0);
        for path in paths {
            let path = path.as_ref();
            let mut source = open(path)?;
            // Modules and processes may come anywhere in a file, and branches are named by all of
            // them.
            source.samples(&mut |_, _| {})?;
            let recording = source.take_recording();
            if recording.branches == 0 {
                return Err(without_branches(path));
            }
            if query.order == Order::Mispredicted && !recording.metadata.has_predictions() {
                return Err(without_predictions(path));
            }
            let mut own = Symbols::open(&recording, symbol_path);
            let mut counts = PathCounts::new(query);
            let visit = |sample: &Sample, steps: &[Step]| counts.add(sample, steps);
            records.add(walk(source.as_mut(), &query.filter, &recording, &mut own, visit)?);
            omitted += counts.omitted;
            let bound = BoundFilter::new(&query.filter, &recording)?;
            let locations = ResolvedLocations::resolve(
                &counts.locations(),
                &mut own,
                &query.filter,
                &query.tables.iter().map(|grouping| grouping.sides).collect::<Vec<_>>(),
            );
            for (sections, &grouping) in tables.iter_mut().zip(&query.tables) {
                counts.sum_up(grouping, (&bound, &locations), sections);
            }
            for opened in own.opened() {
                if !symbols.contains(&opened) {
                    symbols.push(opened);
                }
            }
            recordings.push(recording);
        }
        let tables = query.tables.iter().zip(tables);
        Ok(Self {
            recording: Recording::combined(recordings).ok_or_else(no_recording)?,
            records,
            omitted,
            tables: tables.map(|(&grouping, sections)| table(grouping, sections, query)).collect(),
            symbols,
        })
    }
}

/// The sums of one table, by source and by edges.
type Sections = BTreeMap<Arc<str>, FxHashMap<Vec<Edge>, BranchTotals>>;

/// An edge of a process, as in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct EdgeKey {
    source: u16,
    /// 0 if both sides are in the kernel.
    process: u32,
    from: u64,
    to: u64,
    hidden: bool,
}

/// The sum of a path, and the last sample that had it.
#[derive(Default)]
struct PathCount {
    totals: BranchTotals,
    last: u64,
}

/// Paths by the numbers of their edges, newest first.
type Paths = FxHashMap<Box<[u32]>, PathCount>;

/// The sums of one recording's records, before names are looked up. Memory grows with the number of
/// different edges and paths, and is bounded.
struct PathCounts {
    edges: Vec<EdgeKey>,
    numbers: FxHashMap<EdgeKey, u32>,
    /// The paths of each length.
    paths: Vec<(usize, Paths)>,
    samples: u64,
    omitted: u64,
}

impl PathCounts {
    fn new(query: &Query) -> Self {
        let mut lengths: Vec<usize> =
            query.tables.iter().map(|grouping| grouping.length.clamp(1, MAX_BRANCHES)).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let paths = lengths.into_iter().map(|length| (length, FxHashMap::default()));
        Self {
            edges: Vec::new(),
            numbers: FxHashMap::default(),
            paths: paths.collect(),
            samples: 0,
            omitted: 0,
        }
    }

    fn add(&mut self, sample: &Sample, steps: &[Step]) {
        self.samples += 1;
        let numbers: Vec<Option<u32>> =
            steps.iter().map(|step| self.number(sample, step)).collect();
        // Splits the records into runs without a gap.
        let mut first = 0;
        for end in 1..=steps.len() {
            if steps.get(end).is_some_and(|step| step.joined) {
                continue;
            }
            let run = first..end;
            first = end;
            let known: Option<Vec<u32>> =
                numbers.get(run.clone()).and_then(|run| run.iter().copied().collect());
            match (known, steps.get(run.clone())) {
                (Some(known), Some(steps)) => self.add_run(&known, steps),
                _ => self.omitted += run.len() as u64,
            }
        }
    }

    fn add_run(&mut self, numbers: &[u32], steps: &[Step]) {
        for (length, paths) in &mut self.paths {
            for (path, steps) in numbers.windows(*length).zip(steps.windows(*length)) {
                let is_full = paths.len() >= if *length == 1 { EDGES_MAX } else { PATHS_MAX };
                if is_full && !paths.contains_key(path) {
                    self.omitted += 1;
                    continue;
                }
                // Most paths are met again, and need no copy as a key.
                let met = match paths.get_mut(path) {
                    Some(met) => met,
                    None => paths.entry(path.into()).or_default(),
                };
                met.totals.add(BranchTotals {
                    samples: (met.last != self.samples).into(),
                    ..BranchTotals::of(steps)
                });
                met.last = self.samples;
            }
        }
    }

    /// The number of a record's edge; `None` if there are too many.
    fn number(&mut self, sample: &Sample, step: &Step) -> Option<u32> {
        let Branch { from, to, .. } = step.branch;
        // Only if both sides have the upper bit are both in the kernel, whose code is the same in
        // all processes.
        let kernel = mode(from & to) == Mode::Kernel;
        let raw = EdgeKey {
            source: sample.source,
            process: if kernel { 0 } else { sample.process },
            from,
            to,
            hidden: step.modules.is_none(),
        };
        if let Some(&number) = self.numbers.get(&raw) {
            return Some(number);
        }
        let number = self.edges.len();
        (number < EDGES_MAX).then(|| {
            self.edges.push(raw);
            self.numbers.insert(raw, number as u32);
            number as u32
        })
    }

    /// Where the branches of all edges are and lead, once and in order.
    fn locations(&self) -> Vec<CodeLocation> {
        let visible = self.edges.iter().filter(|edge| !edge.hidden);
        let mut locations: Vec<CodeLocation> = visible.flat_map(EdgeKey::locations).collect();
        locations.sort_unstable();
        locations.dedup();
        locations
    }

    /// Adds the counts of one table to its parts, with names.
    fn sum_up(
        &self,
        grouping: Grouping,
        (bound, locations): (&BoundFilter, &ResolvedLocations),
        sections: &mut Sections,
    ) {
        let length = grouping.length.clamp(1, MAX_BRANCHES);
        let paths = self.paths.iter().filter(|(own, _)| *own == length);
        let mut by_sides: FxHashMap<(u16, Vec<Sides>), BranchTotals> = FxHashMap::default();
        for (numbers, met) in paths.flat_map(|(_, paths)| paths) {
            // Records are newest first, and a row has branches in the order in which they were
            // taken.
            let edges = numbers.iter().rev().filter_map(|&n| self.edges.get(n as usize));
            let mut edges = edges.peekable();
            let Some(source) = edges.peek().map(|edge| edge.source) else { continue };
            let mut passes = false;
            let sides = edges.map(|edge| {
                passes |= edge.passes(bound, locations);
                edge.sides(grouping.sides, locations)
            });
            let sides = sides.collect();
            if !passes {
                continue;
            }
            let sum = by_sides.entry((source, sides)).or_default();
            // A sample may have several of the edges that are merged here.
            let samples = sum.samples.max(met.totals.samples);
            sum.add(met.totals);
            sum.samples = samples;
        }
        let side = |number| locations.value(grouping.sides, number);
        for ((source, sides), sum) in by_sides {
            let edges = sides.into_iter().map(|sides| match sides {
                Some([from, to]) => Some(Edge { from: side(from)?, to: side(to)? }),
                None => Some(Edge { from: hidden(), to: hidden() }),
            });
            let Some(edges) = edges.collect() else { continue };
            let section = sections.entry(bound.source(source)).or_default();
            section.entry(edges).or_default().add(sum);
        }
    }
}

/// The numbers of the values on both sides of an edge; `None` if it is hidden.
type Sides = Option<[u32; 2]>;

/// The side of an edge that the recorder was not allowed to see.
fn hidden() -> Value {
    Value::Module(HIDDEN.into())
}

impl EdgeKey {
    fn locations(&self) -> [CodeLocation; 2] {
        [self.from, self.to].map(|address| CodeLocation::new(self.process, address, mode(address)))
    }

    /// Whether the filter accepts one of its sides.
    fn passes(&self, bound: &BoundFilter, locations: &ResolvedLocations) -> bool {
        if self.hidden {
            return !bound.needs_code();
        }
        self.locations().iter().any(|&location| locations.get(location).passes)
    }

    /// What it is grouped by.
    fn sides(&self, key: Key, locations: &ResolvedLocations) -> Sides {
        let numbers = self.locations().map(|location| locations.get(location).code.number(key));
        (!self.hidden).then_some(numbers)
    }
}

fn by_keys<S: Serializer>(
    grouping: &Grouping,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    grouping.keys().serialize(serializer)
}

fn table(grouping: Grouping, sections: Sections, query: &Query) -> Table {
    let section = |(source, sums): (Arc<str>, FxHashMap<Vec<Edge>, BranchTotals>)| {
        let taken = sums.values().map(|totals| totals.taken).sum();
        let rows = sums.into_iter().map(|(edges, totals)| PathTotals::new(edges, totals, taken));
        let mut rows: Vec<PathTotals> = rows.collect();
        // The sorts below keep this order among rows that are equal.
        rows.sort_by(|a, b| a.edges.cmp(&b.edges));
        match query.order {
            Order::Taken => rows.sort_by_key(|row| Reverse(row.taken)),
            Order::Mispredicted => rows.sort_by_key(|row| Reverse((row.mispredicted, row.taken))),
            Order::Name => {}
        }
        let keep = query.rows.unwrap_or(usize::MAX).min(rows.len());
        let omitted = rows.split_off(keep);
        let omitted_taken = omitted.iter().map(|row| row.taken).sum();
        SourceSection { source, taken, rows, more: (omitted.len(), omitted_taken) }
    };
    Table { grouping, sections: sections.into_iter().map(section).collect() }
}

#[cfg(test)]
mod tests;
