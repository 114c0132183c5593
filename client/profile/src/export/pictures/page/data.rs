//! The samples of a page, from which its script sums up what it shows.
//!
//! Names are written once and referred to by their index. Each sample has its time, thread,
//! processor and place; a place is a node in the tree of call stacks, with the line of the sample.

use super::super::timeline;
use super::columns::Column;
use super::stacks::Tree;
use crate::aggregate::samples::timed::Timed;
use crate::aggregate::samples::{Samples, TimedSample};
use crate::aggregate::source_totals::SourceTotals;
use crate::aggregate::totals::Totals;
use crate::export::selection::Export;
use crate::symbols::FunctionName;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::cmp::Reverse;
use std::sync::Arc;

/// The largest number of samples with exact times, or two for each place, thread and processor if that
/// is more. More are added up where these are the same, in bins of time that are as narrow as this
/// allows.
const SAMPLES_MAX: usize = 1 << 19;

/// Everything that the page's script reads.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    title: &'a str,
    /// What stays in sight whatever is chosen: that the machine is modelled, losses, estimates.
    flaws: Vec<String>,
    /// What the rates over time do not show.
    caveats: Vec<&'static str>,
    /// The lanes that are open at first.
    open_lanes: &'static str,
    /// The time of the last sample.
    end_ns: u64,
    /// How wide the bins are in which samples were added up; null if times are exact.
    bin_ns: Option<u64>,
    has_stacks: bool,
    has_inlined: bool,
    /// How many samples of all have stacks that were cut.
    cut: u64,
    sources: Vec<Source<'a>>,
    processes: Vec<Arc<str>>,
    threads: Threads,
    /// Those with the most samples first.
    modules: Vec<Arc<str>>,
    functions: Functions,
    nodes: Nodes,
    lines: Vec<String>,
    places: Places,
    metrics: Option<Metrics<'a>>,
}

#[derive(Serialize)]
struct Source<'a> {
    name: &'a str,
    /// What it counts; empty if the recording does not say.
    meaning: &'a str,
    /// Nanoseconds of processor time in 10^9 events; null if events are not time.
    time: Option<u64>,
    /// The mean period in words.
    period: Option<String>,
    /// Why its events are estimates.
    estimated: Option<String>,
    /// The number of rows.
    count: usize,
    /// Nanoseconds since the row before.
    times: Column,
    threads: Column,
    processors: Column,
    places: Column,
    /// How many samples a row is.
    samples: Column,
    events: Column,
}

#[derive(Serialize)]
struct Threads {
    processes: Column,
    names: Vec<String>,
}

#[derive(Serialize)]
struct Functions {
    modules: Column,
    modes: Column,
    /// Null where the module's functions have no names.
    names: Vec<Option<Arc<str>>>,
    /// Ever shorter forms of the names, where there are any.
    shorter: Vec<Vec<String>>,
}

/// The functions as they were called, each directly before what it calls.
#[derive(Serialize)]
struct Nodes {
    count: usize,
    /// The number of levels between it and the one before: 0 if that is its caller.
    up: Column,
    functions: Column,
    inlined: Column,
}

#[derive(Serialize)]
struct Places {
    count: usize,
    /// One more than the index of the node.
    nodes: Column,
    /// The function, which is not the node's if its stack was cut.
    functions: Column,
    /// One more than the index of the line; 0 if it is not known.
    lines: Column,
    modes: Column,
}

/// The metrics of functions, of the whole recording.
#[derive(Serialize)]
struct Metrics<'a> {
    about: &'a str,
    heads: &'a [String],
    rows: Vec<MetricCells<'a>>,
}

/// A function's name, what is shown, and by what rows are sorted.
type MetricCells<'a> = (&'a str, &'a [String], &'a [Option<f64>]);

/// A place with its line and mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LinePlace {
    node: u32,
    function: u32,
    line: u32,
    mode: u8,
}

/// What samples are added up by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    source: u16,
    thread: u32,
    processor: u32,
    place: u32,
}

/// What places and threads the locations of samples have.
struct Interned {
    tree: Tree,
    /// The number of each node in order.
    numbers: Vec<u32>,
    nodes: Nodes,
    processes: IndexSet<Arc<str>, FxBuildHasher>,
    threads: IndexSet<(u32, String), FxBuildHasher>,
    lines: IndexSet<String, FxBuildHasher>,
    places: IndexSet<LinePlace, FxBuildHasher>,
    /// The thread and the place of each location.
    by_location: Vec<(u32, u32)>,
    cut: u64,
}

impl Interned {
    fn new(samples: &Samples) -> Self {
        let (mut tree, mut at) = Tree::new(samples);
        let mut weights = vec![0; samples.locations.len()];
        for own in &samples.location_totals {
            if let Some(weight) = weights.get_mut(own.location) {
                *weight += own.totals.samples;
            }
        }
        let cut = tree.cut(&mut at, &weights);
        let (ordered, numbers) = tree.in_order();
        let nodes = Nodes {
            count: ordered.len(),
            up: ordered.iter().map(|&(up, _)| up).collect(),
            functions: ordered.iter().map(|(_, node)| u64::from(node.function)).collect(),
            inlined: ordered.iter().map(|(_, node)| u64::from(node.is_inlined)).collect(),
        };
        let mut interned = Self {
            tree,
            numbers,
            nodes,
            processes: IndexSet::default(),
            threads: IndexSet::default(),
            lines: IndexSet::default(),
            places: IndexSet::default(),
            by_location: vec![(0, 0); samples.locations.len()],
            cut,
        };
        // The places with the most samples get the smallest numbers, which have the fewest bytes.
        let mut by_use: Vec<usize> = (0..samples.locations.len()).collect();
        by_use.sort_by_key(|&index| Reverse(weights[index]));
        for index in by_use {
            let (location, place) = (&samples.locations[index], at[index]);
            let process = Arc::clone(&location.process_name);
            let process = interned.processes.insert_full(process).0 as u32;
            let thread = interned.threads.insert_full((process, location.thread())).0 as u32;
            let line = location.file_and_line();
            let line = line.map_or(0, |line| interned.lines.insert_full(line).0 as u32 + 1);
            let place = interned.places.insert_full(LinePlace {
                node: interned.numbers[place.node as usize],
                function: place.function,
                line,
                mode: location.mode as u8,
            });
            interned.by_location[index] = (thread, place.0 as u32);
        }
        interned
    }

    /// The modules, those with the most samples first, and the index of each function's module.
    fn modules(&self, samples: &Samples) -> (Vec<Arc<str>>, Column) {
        let functions = self.tree.functions.keys();
        let mut modules: IndexSet<&Arc<str>, FxBuildHasher> = IndexSet::default();
        let of_functions: Vec<usize> =
            functions.map(|function| modules.insert_full(&function.module).0).collect();
        let mut weights = vec![0u64; modules.len()];
        for own in &samples.location_totals {
            let place = self.by_location.get(own.location).map(|&(_, place)| place as usize);
            let place = place.and_then(|place| self.places.get_index(place));
            let module = place.and_then(|place| of_functions.get(place.function as usize));
            if let Some(weight) = module.and_then(|&module| weights.get_mut(module)) {
                *weight += own.totals.samples;
            }
        }
        let mut ranked: Vec<usize> = (0..modules.len()).collect();
        ranked.sort_by_key(|&module| Reverse(weights[module]));
        let mut ranks = vec![0u64; modules.len()];
        for (rank, &module) in (0..).zip(&ranked) {
            ranks[module] = rank;
        }
        let sorted = ranked.iter().map(|&module| Arc::clone(modules[module])).collect();
        (sorted, of_functions.iter().map(|&module| ranks[module]).collect())
    }

    /// The timed samples, few enough for a page, with their keys, in order of time; and how wide the
    /// bins are in which they were added up.
    fn timed(&self, samples: &Samples) -> (u64, Vec<(u64, Key, Totals)>) {
        let key = |sample: &TimedSample| {
            let &(thread, place) = self.by_location.get(sample.location)?;
            Some(Key { source: sample.source, thread, processor: sample.processor, place })
        };
        let keyed = samples.timed_samples.iter();
        let keyed = keyed.filter_map(|sample| Some((sample.time, key(sample)?, sample.totals)));
        let mut timed = Timed::new(SAMPLES_MAX);
        for (time, key, totals) in keyed {
            timed.add(time, key, totals);
        }
        let (ticks, sums) = timed.finish();
        let mut all: Vec<_> = sums
            .flat_map(|(key, sums)| sums.into_iter().map(move |(time, totals)| (time, key, totals)))
            .collect();
        all.sort_unstable_by_key(|&(time, key, _)| (time, key.thread, key.processor, key.place));
        (ticks.max(samples.timed_sample_ticks), all)
    }
}

impl<'a> Data<'a> {
    pub(super) fn new(export: &'a Export<'_>) -> Self {
        let samples = export.samples;
        let interned = Interned::new(samples);
        let (ticks, timed) = interned.timed(samples);
        let (modules, of_functions) = interned.modules(samples);
        let nonempty = export.sources.iter().filter(|source| source.totals.samples != 0);
        let sources = nonempty.map(|&source| source_data(export, source, &timed)).collect();
        let Interned { tree, nodes, processes, threads, lines, places, cut, .. } = interned;
        let of_place = |of: fn(&LinePlace) -> u64| places.iter().map(of).collect();
        Self {
            title: &export.title,
            flaws: super::flaws(export),
            caveats: timeline::caveats(export).collect(),
            open_lanes: samples.tracks.name(),
            end_ns: samples.times.map_or(0, |(_, last)| samples.since_start(last)),
            bin_ns: (ticks > 1).then(|| samples.ticks_to_ns(ticks)),
            has_stacks: samples.has_stacks(),
            has_inlined: samples.has_inlined(),
            cut,
            sources,
            processes: processes.into_iter().collect(),
            threads: Threads {
                processes: threads.iter().map(|&(process, _)| u64::from(process)).collect(),
                names: threads.into_iter().map(|(_, name)| name).collect(),
            },
            modules,
            functions: Functions {
                modules: of_functions,
                modes: tree.functions.values().map(|&mode| mode as u64).collect(),
                names: tree.functions.keys().map(|function| function.symbol.clone()).collect(),
                shorter: tree.functions.keys().map(|one| shorter(one.symbol.as_deref())).collect(),
            },
            nodes,
            places: Places {
                count: places.len(),
                nodes: of_place(|place| place.node.into()),
                functions: of_place(|place| place.function.into()),
                lines: of_place(|place| place.line.into()),
                modes: of_place(|place| place.mode.into()),
            },
            lines: lines.into_iter().collect(),
            metrics: export.metrics.as_ref().map(|table| Metrics {
                about: &table.about,
                heads: &table.heads,
                rows: table
                    .rows
                    .iter()
                    .map(|row| (&*row.function, &*row.cells, &*row.values))
                    .collect(),
            }),
        }
    }

    /// As the content of a `script` element, which nothing in it can end.
    pub(super) fn in_page(&self) -> String {
        let json = serde_json::to_string(self);
        // A map that has no keys and numbers that are integers or finite cannot fail.
        json.unwrap_or_default().replace('<', "\\u003c")
    }
}

fn source_data<'a>(
    export: &'a Export<'_>,
    source: &'a SourceTotals,
    timed: &[(u64, Key, Totals)],
) -> Source<'a> {
    let samples = export.samples;
    let own: Vec<_> = timed.iter().filter(|(_, key, _)| key.source == source.index).collect();
    let mut last = 0;
    let times = own.iter().map(|&&(time, ..)| {
        let time = samples.since_start(time);
        time - std::mem::replace(&mut last, time)
    });
    let times = times.collect();
    let of_key = |of: fn(&Key) -> u32| own.iter().map(|(_, key, _)| u64::from(of(key))).collect();
    Source {
        name: &source.name,
        meaning: super::meaning(export, source),
        time: source.time.map(|time| time.nanoseconds(1_000_000_000)),
        period: (source.period_events != 0).then(|| super::period(source)),
        estimated: source.estimated(),
        count: own.len(),
        times,
        threads: of_key(|key| key.thread),
        processors: of_key(|key| key.processor),
        places: of_key(|key| key.place),
        samples: own.iter().map(|(_, _, totals)| totals.samples).collect(),
        events: own.iter().map(|(_, _, totals)| totals.events).collect(),
    }
}

/// The forms of a name without its arguments, without those of templates, and of the function alone,
/// as far as they differ.
fn shorter(symbol: Option<&str>) -> Vec<String> {
    let Some(symbol) = symbol else { return Vec::new() };
    let name = FunctionName::of(symbol);
    let mut forms: Vec<String> = Vec::new();
    let all: Vec<String> = name.shorter().map(Into::into).collect();
    let few = all.iter().take(2).chain(all.last());
    for form in few {
        if form != symbol && forms.last() != Some(form) {
            forms.push(form.clone());
        }
    }
    forms
}
