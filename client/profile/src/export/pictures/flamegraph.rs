//! A flame graph: how the events of one source are divided among processes, threads and functions as
//! they were called; without call stacks among modules, symbols, what was inlined into them, and lines.
//! The outermost level is at the top.

use super::units::{amount, fraction, share};
use super::{Drawing, RIGHT, WIDTH, escaped, standalone};
use crate::aggregate::key::INLINED;
use crate::aggregate::source_totals::SourceTotals;
use crate::aggregate::totals::Totals;
use crate::export::selection::Export;
use crate::number::thousands;
use crate::symbols::shortened;
use rustc_hash::FxHashMap;
use shared_types::Mode;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The levels, one for each row.
const LEVELS: [&str; 5] = ["process", "thread", "module", "symbol", "line"];
/// The levels where functions were inlined. Each inlined function has a row below `inlined`, and the
/// lines come last.
const INLINED_LEVELS: [&str; 5] = ["process", "thread", "module", "symbol", "inlined"];
/// The levels with call stacks: from the outermost function down.
const STACK_LEVELS: [&str; 3] = ["process", "thread", "functions"];
/// The margin at the left for their names.
const LEFT: f64 = 76.0;
const ROW: f64 = 24.0;
/// Frames narrower than this fraction of the width, about half a pixel, are not drawn.
const NARROWEST: f64 = 0.0005;
/// A frame shows its name where all of it or so many letters fit.
const USEFUL: usize = 8;
/// The width of a letter.
const LETTER: f64 = 6.5;
/// Rows without a frame as wide as this fraction, about two pixels, are seen when zoomed in.
const VISIBLE: f64 = 0.002;
/// The colours, and what the script does.
const LEGEND: &str = "Grey: processes and threads. Orange: the kernel. Other colours: modules. \
                      A click or Enter zooms, Escape shows all.";
/// What the colours mean.
pub(super) const COLOURS: &str =
    "Grey: processes and threads. Orange: the kernel. Other colours: modules.";
/// The number of colours that distinguish modules. The page's script has the same.
const HUES: usize = 16;

/// One frame, with everything inside it.
#[derive(Default)]
struct Node {
    totals: Totals,
    class: String,
    /// The function's name without its module, which the colour shows, and whether it was inlined;
    /// `None` if the level is no function.
    function: Option<(Arc<str>, bool)>,
    within: BTreeMap<String, Node>,
}

/// The flame graph of the view's source, as an SVG file.
pub fn flamegraph(export: &Export<'_>) -> String {
    let source = export.source();
    let mut lines = export.captions();
    lines.push(format!(
        "width: {}, estimated; rows are {}",
        amount(&source, source.totals.events),
        levels(export).join(", ")
    ));
    lines.push(LEGEND.to_owned());
    let title = format!("{}: flame graph of {}", source.name, export.title);
    let (drawing, rows) = drawing(export, &source);
    lines.extend(drawing.note.clone());
    standalone(&title, &lines, &Drawing { height: rows, ..drawing })
}

fn levels(export: &Export<'_>) -> &'static [&'static str] {
    match (export.samples.has_stacks(), export.samples.has_inlined()) {
        (true, _) => &STACK_LEVELS,
        (false, true) => &INLINED_LEVELS,
        (false, false) => &LEVELS,
    }
}

/// The drawing as high as its rows that can be seen, and how high all rows are.
pub(super) fn drawing(export: &Export<'_>, source: &SourceTotals) -> (Drawing, f64) {
    let root = tree(export, source);
    let mut drawer =
        Drawer { source, all: root.totals.events, svg: String::new(), deepest: [0; 2], hidden: 0 };
    drawer.row(&root, 0.0, 0);
    let Drawer { svg, deepest: [deepest, visible], hidden, .. } = drawer;
    let note = match hidden {
        _ if root.totals.samples == 0 => Some("no samples".to_owned()),
        0 => None,
        hidden => Some(format!("{} frames are too narrow to be drawn", thousands(hidden))),
    };
    let mut drawing = Drawing { height: ROW * visible as f64, has_parts: true, note, svg };
    for (level, name) in levels(export).iter().enumerate().take(deepest) {
        drawing.text("level", 16.0, ROW * level as f64 + 16.0, name);
    }
    (drawing, ROW * deepest as f64)
}

/// The colours of modules: those with the most events have one of their own.
fn hues(export: &Export<'_>, source: &SourceTotals) -> FxHashMap<Arc<str>, usize> {
    let mut events: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
    let samples = export.samples;
    let calling = samples.callers.iter().map(|caller| (caller, Totals::default()));
    for (location, totals) in samples.location_totals_of(source).chain(calling) {
        if location.mode == Mode::User {
            let sum = events.entry(&location.frame.module).or_default();
            *sum = sum.saturating_add(totals.events);
        }
    }
    let mut modules: Vec<_> = events.into_iter().collect();
    modules.sort_by_key(|&(_, events)| Reverse(events));
    let ranked = modules.into_iter().enumerate();
    ranked.map(|(rank, (module, _))| (Arc::clone(module), rank % HUES)).collect()
}

fn tree(export: &Export<'_>, source: &SourceTotals) -> Node {
    let samples = export.samples;
    let hues = hues(export, source);
    let mut root = Node::default();
    for (location, totals) in samples.level_totals_of(source) {
        root.totals.add(totals);
        let mut node = &mut root;
        for (depth, level) in samples.levels(location).into_iter().enumerate() {
            let mark = if level.is_inlined { INLINED } else { "" };
            node = node.within.entry(format!("{}{mark}", level.name)).or_default();
            node.totals.add(totals);
            if node.class.is_empty() {
                let named = level.location;
                node.class = class(depth, named.mode, hues.get(&named.frame.module));
                node.function = level.function.map(|name| (name, level.is_inlined));
            }
        }
    }
    root
}

/// The CSS class for the colour of a frame: processes and threads are grey, modules and what is in
/// them have a colour of their own, and that of the kernel is always the same.
fn class(level: usize, mode: Mode, hue: Option<&usize>) -> String {
    match (level, mode) {
        (0, _) => "p".to_owned(),
        (1, _) => "t".to_owned(),
        (_, Mode::Kernel) => "k".to_owned(),
        (_, Mode::Unknown) => "x".to_owned(),
        (_, Mode::User) => format!("m{}", hue.unwrap_or(&0)),
    }
}

struct Drawer<'a> {
    source: &'a SourceTotals,
    all: u64,
    svg: String,
    /// The number of rows, and of those that can be seen.
    deepest: [usize; 2],
    hidden: u64,
}

impl Drawer<'_> {
    /// Draws the children of a node, largest first, from `x` on: 0 is the left end, 1 the right.
    fn row(&mut self, node: &Node, mut x: f64, level: usize) {
        let mut within: Vec<_> = node.within.iter().collect();
        within.sort_by_key(|(_, inner)| Reverse(inner.totals.events));
        for (name, inner) in within {
            let width = fraction(inner.totals.events, self.all);
            if width < NARROWEST {
                self.hidden += 1;
                continue;
            }
            let [deepest, visible] = &mut self.deepest;
            *deepest = (level + 1).max(*deepest);
            if width >= VISIBLE {
                *visible = (level + 1).max(*visible);
            }
            self.frame(name, inner, x, width, level);
            self.row(inner, x, level + 1);
            x += width;
        }
    }

    fn frame(&mut self, name: &str, node: &Node, x: f64, width: f64, level: usize) {
        let room = WIDTH - LEFT - RIGHT;
        let fitting = (width * room - 8.0) / LETTER;
        let fits = |form: &str| form.chars().count() as f64 <= fitting;
        let label = node.function.as_ref().map(|(symbol, is_inlined)| {
            let mut label = shortened(None, symbol, fits).to_string();
            if *is_inlined && fits(&format!("{label}{INLINED}")) {
                label.push_str(INLINED);
            }
            label
        });
        let label = label.as_deref().unwrap_or(name);
        let letters = label.chars().take(USEFUL).count() as f64;
        let (name, label) = (escaped(name), escaped(label));
        let narrow = if width * room < 8.0 + LETTER * letters { " n" } else { "" };
        let _ = writeln!(
            self.svg,
            "<svg class=\"f{narrow}\" x=\"{:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\" data-x=\"{x:.6}\" data-w=\"{width:.6}\">\
             <title>{name}: {}, {}, {} samples</title>\
             <rect class=\"{}\" width=\"100%\" height=\"100%\"/><text x=\"5\" y=\"16\">{label}</text></svg>",
            LEFT + x * room,
            ROW * level as f64,
            width * room,
            ROW - 1.0,
            amount(self.source, node.totals.events),
            share(node.totals.events, self.all),
            thousands(node.totals.samples),
            node.class
        );
    }
}
