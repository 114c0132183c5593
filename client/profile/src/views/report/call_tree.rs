//! The call tree of a source: who called whom, from each process's outermost functions down.

use super::ReportBuilder;
use crate::aggregate::aggregator::{GroupBy, GroupKey};
use crate::aggregate::key::{Fields, INLINED, Key, Value};
use crate::aggregate::processor_time::ProcessorTime;
use crate::aggregate::share::Share;
use crate::aggregate::totals::Totals;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Calls with a smaller part of the source's events, as one of so many, are left out.
const CUT: u64 = 100;

/// The call tree of the samples of one source.
#[derive(Clone, Debug)]
pub struct CallTree {
    pub source: Arc<str>,
    /// How much processor time its events are, if it samples that.
    pub time: Option<ProcessorTime>,
    root: Node,
}

/// A function as it was called, with what it called; a process, or the root of all.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Events in its own code.
    own: u64,
    total: Totals,
    /// The callees, by the process or the function and whether that was inlined.
    callees: BTreeMap<(Value, bool), Node>,
}

impl Node {
    fn merge(&mut self, other: Self) {
        self.own = self.own.saturating_add(other.own);
        self.total.add(other.total);
        for (value, callee) in other.callees {
            self.callees.entry(value).or_default().merge(callee);
        }
    }
}

/// A process, or a function as it was called.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Call {
    /// 0 for a process; a function is one deeper than what called it.
    pub depth: u32,
    /// The process or the function.
    #[serde(flatten)]
    #[schemars(with = "Fields")]
    pub value: Value,
    /// Whether the function was inlined into what is above it.
    pub inlined: bool,
    /// Events in its own code.
    #[serde(rename = "self")]
    pub own: u64,
    /// The same with all that it called.
    pub total: u64,
    /// The processor time of `total`; absent if the source does not sample time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The share of `total` in the events of the source.
    pub share: Share,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.value, if self.inlined { INLINED } else { "" })
    }
}

impl CallTree {
    /// What a tree is grouped by.
    pub const KEYS: [Key; 2] = [Key::Process, Key::Symbol];

    /// The keys for which code is resolved. Inlined calls are in the tree, so it needs [`Key::Inline`].
    pub(super) const RESOLVED: [Key; 2] = [Key::Process, Key::Inline];

    /// The calls with at least 1 % of the events, each before what it called, those with the most
    /// events first; and how many others there are.
    pub fn calls(&self) -> (Vec<Call>, usize) {
        let mut calls = Vec::new();
        let omitted = self.visit(&self.root, 0, &mut calls);
        (calls, omitted)
    }

    /// The first of [`calls`](Self::calls), at most so many; how many others with at least 1 % there
    /// are; and how many more.
    pub fn first_calls(&self, rows: usize) -> (Vec<Call>, usize, usize) {
        let (mut calls, omitted) = self.calls();
        let more = calls.len().saturating_sub(rows);
        calls.truncate(rows);
        (calls, more, omitted)
    }

    fn visit(&self, node: &Node, depth: u32, calls: &mut Vec<Call>) -> usize {
        let all = self.root.total;
        let mut callees: Vec<_> = node.callees.iter().collect();
        // The map has them by name, and the sort keeps that order among those that are equal.
        callees.sort_by_key(|(_, callee)| Reverse(callee.total.events));
        let mut omitted = 0;
        for ((value, inlined), callee) in callees {
            if callee.total.events < all.events / CUT {
                omitted += 1;
                continue;
            }
            calls.push(Call {
                depth,
                value: value.clone(),
                inlined: *inlined,
                own: callee.own,
                total: callee.total.events,
                seconds: self.time.map(|time| time.seconds(callee.total.events)),
                share: Share::weighted(callee.total, all),
            });
            omitted += self.visit(callee, depth + 1, calls);
        }
        omitted
    }

    /// Adds the trees of another recording, by source.
    pub(super) fn merge(all: &mut Vec<Self>, others: Vec<Self>) {
        let mut by_name: FxHashMap<Arc<str>, usize> = FxHashMap::default();
        for (index, known) in all.iter().enumerate() {
            by_name.entry(Arc::clone(&known.source)).or_insert(index);
        }
        for other in others {
            let index = *by_name.entry(Arc::clone(&other.source)).or_insert(all.len());
            match all.get_mut(index) {
                Some(known) => known.root.merge(other.root),
                None => all.push(other),
            }
        }
    }
}

impl ReportBuilder<'_> {
    /// The call tree of each source with samples.
    pub(super) fn call_trees(&self, group_by: GroupBy) -> Vec<CallTree> {
        let mut roots: BTreeMap<u16, Node> = BTreeMap::new();
        self.aggregate.each(group_by, None, |entry, totals| {
            let mut node = roots.entry(entry.source).or_default();
            node.total.add(totals);
            for callee in self.path(entry) {
                node = node.callees.entry(callee).or_default();
                node.total.add(totals);
            }
            node.own = node.own.saturating_add(totals.events);
        });
        let trees = roots.into_iter().map(|(source, root)| {
            let source = self.aggregate.filter.source(source);
            CallTree { source, time: None, root }
        });
        trees.collect()
    }

    /// The process of a sample, then its functions, the outermost first, each with whether it was
    /// inlined. Functions of one module that call one another are one where none of them has a name.
    fn path(&self, entry: GroupKey) -> impl Iterator<Item = (Value, bool)> {
        let locations = &self.aggregate.locations;
        let callers = entry.callers(&self.aggregate.recording.stacks);
        let mut stack: Vec<_> = std::iter::once(entry.location()).chain(callers).collect();
        stack.reverse();
        let functions = stack
            .into_iter()
            .flat_map(|location| locations.functions(locations.get(location), true).rev());
        let functions = functions.filter_map(|function| {
            match locations.value(Key::Inline, function.code.number(Key::Inline))? {
                Value::Inline { module, function: symbol } => {
                    Some((Value::Symbol { module, symbol }, function.is_inlined))
                }
                _ => None,
            }
        });
        let mut functions: Vec<(Value, bool)> = functions.collect();
        let is_unnamed = |value: &Value| matches!(value, Value::Symbol { symbol: None, .. });
        functions.dedup_by(|next, callee| is_unnamed(&callee.0) && next == callee);
        let process = self.value_of_group(Key::Process, entry);
        process.map(|process| (process, false)).into_iter().chain(functions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::stacks::tests::{EVENTS, SAMPLES, recorded};
    use crate::file::test_recording::TestRecording;
    use crate::symbols::SymbolPath;
    use crate::views::report::{Query, Report, Sort};
    use std::path::Path;

    type Rows<'a> = &'a [(&'a str, u64, u64)];

    /// In tens of events: in the code itself, and with what it called, each sample once.
    #[test]
    fn rows_have_the_events_of_what_they_called() {
        let (_folder, path) = recorded(&SAMPLES);
        let by = |keys: &[Key], files: &[&Path]| -> Vec<(String, u64, u64)> {
            let query = Query { tables: vec![keys.to_vec()], ..Query::default() };
            let report = Report::read_all(files, &query, &SymbolPath::default()).expect("read");
            let rows = report.tables[0].sections[0].rows.iter().map(|row| {
                let values: Vec<String> = row.values.iter().map(ToString::to_string).collect();
                let events = row.with_callees.expect("stacks");
                (values.join(" < "), events.own / EVENTS, events.total / EVENTS)
            });
            let mut rows: Vec<_> = rows.collect();
            rows.sort();
            rows
        };
        let expected: [(&[Key], Rows<'_>); 3] = [
            (&[Key::Symbol], &[("f", 2, 4), ("g", 2, 3), ("kernel", 1, 1), ("main", 0, 4)]),
            (
                &[Key::Caller],
                &[("(no caller known)", 1, 1), ("f", 2, 3), ("g", 1, 1), ("main", 1, 4)],
            ),
            (
                &[Key::Module, Key::Caller],
                &[
                    ("f < f", 1, 1),
                    ("f < main", 1, 4),
                    ("g < (no caller known)", 1, 1),
                    ("g < f", 1, 2),
                    ("kernel < g", 1, 1),
                ],
            ),
        ];
        for (keys, rows) in expected {
            let rows = rows.iter().map(|&(name, own, total)| (name.to_owned(), own, total));
            let rows: Vec<_> = rows.collect();
            assert_eq!(by(keys, &[&path]), rows, "{keys:?}");
            let twice = rows.into_iter().map(|(name, own, total)| (name, 2 * own, 2 * total));
            assert_eq!(by(keys, &[&path, &path]), twice.collect::<Vec<_>>(), "{keys:?} of two");
        }
    }

    #[test]
    fn the_tree_has_each_call_where_it_was_called() {
        // Less than 1 %: the call of the kernel, and the lone sample.
        let many = SAMPLES.iter().copied().chain((0..300).map(|_| SAMPLES[2]));
        let (_folder, path) = recorded(&many.collect::<Vec<_>>());
        let query = Query { call_tree: true, ..Query::default() };
        let text = |files: &[&Path]| {
            let report = Report::read_all(files, &query, &SymbolPath::default()).expect("read");
            let [tree] = report.call_trees.as_slice() else { panic!("{:?}", report.call_trees) };
            let (calls, omitted) = tree.calls();
            let lines = calls.iter().map(|call| {
                let indent = " ".repeat(call.depth as usize);
                format!("{indent}{} {} {}", call.value, call.own / EVENTS, call.total / EVENTS)
            });
            (lines.collect::<Vec<_>>(), omitted)
        };
        // The module `f` calls itself: no function of it has a name.
        let expected = ["4 0 305", " main 0 304", "  f 302 304"].map(str::to_owned).to_vec();
        assert_eq!(text(&[&path]), (expected, 2));
        let twice = ["4 0 610", " main 0 608", "  f 604 608"].map(str::to_owned).to_vec();
        assert_eq!(text(&[&path, &path]), (twice, 2));
    }

    #[test]
    fn callers_of_samples_without_stacks_are_refused() {
        let (_folder, path) = TestRecording::default().write();
        for query in [
            Query { call_tree: true, ..Query::default() },
            Query { tables: vec![vec![Key::Caller]], ..Query::default() },
            Query { sort: Sort::Total, ..Query::default() },
        ] {
            let error = Report::read_all(&[&path], &query, &SymbolPath::default());
            let error = error.expect_err("refused").to_string();
            assert_eq!(error, "the recording has no call stacks");
        }
    }
}
