//! A region that can be repeated, through more sources than fit on the counters.

use super::report::TICKS;
use super::{Cull, EMPTY, EMPTY_NESTED, Method, Regions, Report};
use crate::passes::passes_beside;
use crate::{Connection, Error, Result, Sources, Transport};
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result as Formatted};

/// What counts instructions. A fixed counter takes none of the others, but no thread reads it.
const ANCHORS: [&str; 2] = ["FixedInstructions", "TotalIssues"];
/// Passes whose instructions differ by more than this part did not do the same.
const SAME: f64 = 0.01;
/// The name of the region in the report.
const REGION: &str = "sweep";

/// All sources of a region, pass by pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// The source that counts instructions in every pass; `None` where there is none.
    pub anchor: Option<String>,
    /// The passes, in order.
    pub passes: Vec<Pass>,
    /// All sources in one table; time and the anchor as the first pass has counted them.
    pub report: Report,
}

/// Sources that were counted together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// The sources, without the anchor.
    pub sources: Vec<String>,
    /// Where their counts come from: not every source can be counted by thread.
    pub method: Method,
    /// Instructions of one run: the median. `None` where the anchor does not fit beside them.
    pub instructions: Option<u64>,
    /// By how many percent of the first pass that has them by the same method they differ, where
    /// that is more than 1.
    pub differs: Option<f64>,
}

/// Runs `code` so often in each of as few passes as there must be to count the sources of `list`
/// (`all` for every source of the machine), with instructions beside them in every pass.
///
/// `code` does the same each time, or the sources do not belong together: a pass whose instructions
/// differ by more than 1 % says so. It gets what carries the requests, for a modelled machine.
pub fn sweep<T: Transport + Send>(
    connection: &mut Connection<T>,
    list: &str,
    runs: u32,
    mut code: impl FnMut(&mut T),
) -> Result<Sweep> {
    let (sources, anchor) = anchored(connection, list)?;
    let mut swept: Option<Sweep> = None;
    for set in passes_beside(connection, sources.setup(), anchor)? {
        let sources = sources.only(&set);
        let anchor = anchor.and_then(|anchor| set.iter().position(|&index| index == anchor));
        let anchor = anchor.and_then(|place| sources.names().nth(place));
        let report = run(connection, &sources, runs, &mut code)?;
        let sweep = swept.get_or_insert_with(|| Sweep::empty(&report));
        sweep.add(&sources, anchor, report);
    }
    swept.ok_or_else(|| Error::usage("no source was named", "`all` is every source."))
}

/// The sources of a list, and which of them is the anchor.
fn anchored<T: Transport>(
    connection: &mut Connection<T>,
    list: &str,
) -> Result<(Sources, Option<usize>)> {
    let named = Sources::named(connection, list)?;
    let mut anchors = ANCHORS;
    if !connection.modelled() {
        anchors.reverse();
    }
    for anchor in anchors {
        // One that is in the list is taken, so that no source is there twice.
        let is_anchor = |name: &str| {
            let source = name.split(':').next().unwrap_or(name);
            source.eq_ignore_ascii_case(anchor)
        };
        let place = named.names().position(is_anchor);
        if place.is_some() {
            return Ok((named, place));
        }
        let Ok(sources) = Sources::named(connection, &format!("{anchor}:u,{list}")) else {
            continue;
        };
        if connection.plan(sources.only(&[0]).setup()).is_ok() {
            return Ok((sources, Some(0)));
        }
    }
    Ok((named, None))
}

fn run<T: Transport + Send>(
    connection: &mut Connection<T>,
    sources: &Sources,
    runs: u32,
    code: &mut impl FnMut(&mut T),
) -> Result<Report> {
    let regions = Regions::open(connection, sources)?;
    let thread = regions.thread("sweep")?;
    for _ in 0..runs {
        let passage = thread.begin(REGION)?;
        regions.with_transport(&mut *code);
        thread.end(passage);
    }
    drop(thread);
    Ok(regions.report_culled(Cull::default()))
}

impl Sweep {
    fn empty(report: &Report) -> Self {
        Self {
            anchor: None,
            passes: Vec::new(),
            report: Report {
                regions: Vec::new(),
                discarded: Vec::new(),
                ..report.clone()
            },
        }
    }

    fn add(&mut self, sources: &Sources, anchor: Option<&str>, report: Report) {
        let instructions = anchor.and_then(|anchor| {
            let mut rows = report.regions.iter();
            let row = rows.find(|row| row.name == REGION && row.source == anchor);
            row.map(|row| row.median)
        });
        let method = report.method;
        let mut alike = self.passes.iter().filter(|pass| pass.method == method);
        let before = alike.find_map(|pass| pass.instructions);
        let differs = instructions
            .zip(before)
            .and_then(|(now, before)| differs(now, before));
        let told = |source: &str| {
            let known = source == TICKS || Some(source) == self.anchor.as_deref();
            known && !self.passes.is_empty()
        };
        let rows = report.regions.into_iter().filter(|row| !told(&row.source));
        let rows: Vec<_> = rows.collect();
        self.report.regions.extend(rows);
        self.report.discarded.extend(report.discarded);
        let new = |why: &String| !self.report.rejected.contains(why);
        let rejected: Vec<_> = report.rejected.into_iter().filter(new).collect();
        self.report.rejected.extend(rejected);
        self.anchor = self.anchor.take().or_else(|| anchor.map(str::to_owned));
        let beside = |name: &&str| Some(*name) != anchor;
        self.passes.push(Pass {
            sources: sources.names().filter(beside).map(str::to_owned).collect(),
            method,
            instructions,
            differs,
        });
    }

    /// The rows of the region alone, without those that show what measuring costs.
    pub fn rows(&self) -> impl Iterator<Item = &super::Row> {
        let rows = self.report.regions.iter();
        rows.filter(|row| ![EMPTY, EMPTY_NESTED].contains(&row.name.as_str()))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a difference of percents needs few digits"
)]
fn differs(now: u64, before: u64) -> Option<f64> {
    let part = now.abs_diff(before) as f64 / before.max(1) as f64;
    (part > SAME).then_some(part * 100.0)
}

impl Display for Sweep {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        write!(f, "{}", self.report)?;
        let passes = self.passes.len();
        let anchored = self
            .passes
            .iter()
            .filter(|pass| pass.instructions.is_some());
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
