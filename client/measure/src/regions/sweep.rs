//! Counts more sources in a repeatable region than fit on the counters.

use super::counters::EVENTS_MAX;
use super::method;
use super::{Method, RegionRow, Regions, Report};
use crate::connection::{Connection, Setup};
use crate::count::{Sources, TracedSet};
use crate::error::{Error, Result};
use crate::float::float;
use crate::live_tracing::Live;
use crate::passes::passes_beside;
use crate::platform::Platform;
use crate::transport::Transport;
use serde::{Deserialize, Serialize};
use shared_types::request::source::Placement;
use std::fmt::{Display, Formatter, Result as Formatted};

/// Sources that count instructions. The fixed counter competes with no other source, but a thread
/// cannot read it.
const ANCHORS: [&str; 2] = ["FixedInstructions", "TotalIssues"];
/// Passes whose instruction counts differ by more than this fraction did not do the same work.
const SAME: f64 = 0.01;
/// The name of the region in the report.
const REGION: &str = "sweep";

/// All sources of a region, counted pass by pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The source that counts instructions in every pass; `None` if there is none.
    pub anchor: Option<String>,
    /// The passes, in order.
    pub passes: Vec<Pass>,
    /// All sources in one table; time and the anchor as the first pass counted them.
    pub report: Report,
}

/// Sources that were counted together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// The sources, without the anchor.
    pub sources: Vec<String>,
    /// Where their counts come from: not every source can be counted by thread.
    pub method: Method,
    /// Instructions of one run: the median. `None` if the anchor does not fit beside the sources.
    pub instructions: Option<u64>,
    /// By how many percent the instructions differ from those of the first pass with the same
    /// method, if that is more than 1.
    pub differs: Option<f64>,
}

/// Runs `code` the given number of times in each pass, with as few passes as it takes to count the
/// sources of `list` (`all` for every source of the machine), and with instructions counted in
/// every pass.
///
/// `code` must do the same each time, or the sources do not belong together: a pass whose
/// instructions differ by more than 1 % says so. It is given the transport, for a modelled machine.
pub fn sweep<T: Transport + Send>(
    connection: &mut Connection<T>,
    list: &str,
    runs: u32,
    mut code: impl FnMut(&mut T),
) -> Result<Sweep> {
    let platform = method::platform(connection.modelled());
    sweep_on(connection, list, runs, platform, &mut code)
}

pub(super) fn sweep_on<T: Transport + Send>(
    connection: &mut Connection<T>,
    list: &str,
    runs: u32,
    platform: Option<&dyn Platform>,
    code: &mut impl FnMut(&mut T),
) -> Result<Sweep> {
    let sets = match connection.live() {
        Some(live) => sets_of_tracing(list, &live)?,
        None => sets(connection, list, platform)?,
    };
    let mut swept: Option<Sweep> = None;
    for SameMethod { sources, anchor, method } in sets {
        let anchor = anchor.and_then(|index| sources.names().nth(index));
        let regions = Regions::open_on(connection, &sources, Some(method), platform)?;
        let report = run(&regions, runs, code)?;
        let sweep = swept.get_or_insert_with(|| Sweep::empty(&report));
        sweep.add(&sources, anchor, report);
    }
    swept.ok_or_else(|| Error::usage("no source was named", "`all` is every source."))
}

/// What each pass counts by the driver.
fn sets<T: Transport>(
    connection: &mut Connection<T>,
    list: &str,
    platform: Option<&dyn Platform>,
) -> Result<Vec<SameMethod>> {
    let mut sets = Vec::new();
    for SameMethod { sources, anchor, method } in split_by_method(connection, list, platform)? {
        let setup = match method {
            Method::Processors => sources.setup(),
            _ => sources.by_thread(),
        };
        let (events, cpu_types) = (sources.events(), sources.cpu_types());
        for set in passes_beside(connection, &events, &setup, cpu_types, anchor)? {
            let anchor = set.iter().position(|&index| Some(index) == anchor);
            sets.push(SameMethod { sources: sources.only(&set), anchor, method });
        }
    }
    Ok(sets)
}

/// What each pass counts by Windows' own tracing.
fn sets_of_tracing(list: &str, live: &Live) -> Result<Vec<SameMethod>> {
    let sets = Sources::traced_sets(list, live, EVENTS_MAX as u32)?.into_iter();
    let sets = sets.map(|TracedSet { sources, has_anchor }| SameMethod {
        sources,
        anchor: has_anchor.then_some(0),
        method: Method::Tracing,
    });
    Ok(sets.collect())
}

/// Sources that are counted by the same method.
struct SameMethod {
    sources: Sources,
    anchor: Option<usize>,
    method: Method,
}

/// The sources that can be counted by thread, if that works, and the others.
fn split_by_method<T: Transport>(
    connection: &mut Connection<T>,
    list: &str,
    platform: Option<&dyn Platform>,
) -> Result<Vec<SameMethod>> {
    let named = Sources::named(connection, list)?;
    let method = best_method(connection, platform);
    let (by_thread, others): (Vec<usize>, _) = (0..named.names().count()).partition(|&index| {
        let alone = named.only(&[index]).by_thread();
        method != Method::Processors && is_counted(connection, &alone)
    });
    let mut parts = Vec::new();
    for (indexes, method, anchors) in
        [(by_thread, method, &ANCHORS[1..]), (others, Method::Processors, &ANCHORS[..])]
    {
        if !indexes.is_empty() {
            let (sources, anchor) = anchored(connection, named.only(&indexes), anchors);
            parts.push(SameMethod { sources, anchor, method });
        }
    }
    Ok(parts)
}

/// The best method by which instructions can be counted.
fn best_method<T: Transport>(
    connection: &mut Connection<T>,
    platform: Option<&dyn Platform>,
) -> Method {
    let [_, anchor] = ANCHORS;
    let Ok(sources) = Sources::named(connection, anchor) else {
        return Method::Processors;
    };
    let regions = Regions::open_on(connection, &sources, None, platform);
    regions.map_or(Method::Processors, |regions| regions.method())
}

/// Whether every CPU type can count it, by thread if asked, which takes a general counter.
fn is_counted<T: Transport>(connection: &mut Connection<T>, setup: &Setup) -> bool {
    let counted = |placement: &Placement| {
        placement.error == 0 && (!setup.threads || placement.counter < Placement::FIXED)
    };
    let fit = connection.plan(setup);
    fit.is_ok_and(|fit| fit.placements.iter().flatten().all(counted))
}

/// The sources with an anchor among them, and the anchor.
fn anchored<T: Transport>(
    connection: &mut Connection<T>,
    named: Sources,
    anchors: &[&str],
) -> (Sources, Option<usize>) {
    for anchor in anchors {
        // An anchor that is already in the list is used, so that no source is there twice.
        let index = named.names().position(|name| {
            name.split(':').next().is_some_and(|source| source.eq_ignore_ascii_case(anchor))
        });
        if index.is_some() {
            return (named, index);
        }
        let Ok(first) = Sources::named(connection, &format!("{anchor}:u")) else {
            continue;
        };
        if is_counted(connection, &first.setup()) {
            return (named.prepend(&first), Some(0));
        }
    }
    (named, None)
}

fn run<T: Transport + Send>(
    regions: &Regions<'_, T>,
    runs: u32,
    code: &mut impl FnMut(&mut T),
) -> Result<Report> {
    let thread = regions.thread("sweep")?;
    for _ in 0..runs {
        let passage = thread.begin(REGION)?;
        regions.with_transport(&mut *code);
        thread.end(passage);
    }
    drop(thread);
    Ok(regions.report())
}

impl Sweep {
    fn empty(report: &Report) -> Self {
        Self {
            anchor: None,
            passes: Vec::new(),
            report: Report { regions: Vec::new(), discarded: Vec::new(), ..report.clone() },
        }
    }

    fn add(&mut self, sources: &Sources, anchor: Option<&str>, report: Report) {
        let instructions = anchor.and_then(|anchor| {
            let mut rows = report.regions.iter();
            let row = rows.find(|row| row.name == REGION && row.source == anchor);
            row.map(|row| row.median)
        });
        let method = report.method;
        let mut same_method = self.passes.iter().filter(|pass| pass.method == method);
        let before = same_method.find_map(|pass| pass.instructions);
        let differs = instructions.zip(before).and_then(|(now, before)| difference(now, before));
        // What every pass counts is reported once.
        let reported: Vec<&str> = [Some(RegionRow::TICKS), anchor]
            .into_iter()
            .flatten()
            .filter(|source| self.report.regions.iter().any(|row| row.source == *source))
            .collect();
        let mut rows = report.regions;
        rows.retain(|row| !reported.contains(&row.source.as_str()));
        self.report.regions.extend(rows);
        self.report.discarded.extend(report.discarded);
        for why in report.rejected {
            if !self.report.rejected.contains(&why) {
                self.report.rejected.push(why);
            }
        }
        if self.anchor.is_none() {
            self.anchor = anchor.map(str::to_owned);
        }
        let others = sources.names().filter(|&name| Some(name) != anchor);
        self.passes.push(Pass {
            sources: others.map(str::to_owned).collect(),
            method,
            instructions,
            differs,
        });
    }

    /// The rows of the region alone, without those that show the cost of measuring.
    pub fn rows(&self) -> impl Iterator<Item = &RegionRow> {
        let rows = self.report.regions.iter();
        rows.filter(|row| ![RegionRow::EMPTY, RegionRow::EMPTY_NESTED].contains(&row.name.as_str()))
    }
}

fn difference(now: u64, before: u64) -> Option<f64> {
    let part = float(now.abs_diff(before)) / float(before.max(1));
    (part > SAME).then_some(part * 100.0)
}

impl Display for Sweep {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        write!(f, "{}", self.report)?;
        let passes = self.passes.len();
        let anchored = self.passes.iter().filter(|pass| pass.instructions.is_some());
        let beside = match (&self.anchor, anchored.count()) {
            (Some(anchor), all) if all == passes => format!(", each with {anchor}"),
            (Some(anchor), some) => format!(", {some} of them with {anchor}"),
            (None, _) => "; nothing counts instructions beside them".to_owned(),
        };
        writeln!(f, "{passes} passes{beside}")?;
        for (number, pass) in (1..).zip(&self.passes) {
            if pass.method != self.report.method {
                writeln!(f, "pass {number}: counts {}", pass.method.in_words())?;
            }
            if let Some(percent) = pass.differs {
                let sources = pass.sources.join(", ");
                writeln!(
                    f,
                    "warning: pass {number} ({sources}) did not do the same: its instructions differ by {percent:.1} %"
                )?;
            }
        }
        Ok(())
    }
}
