//! A flame graph: how the events of one source are divided among processes, threads and functions as
//! they were called; without call stacks among modules, symbols and lines. The outermost level is at
//! the top.

use super::units::{fraction, share};
use super::{Drawing, RIGHT, WIDTH, escaped, standalone};
use crate::aggregate::source_totals::SourceTotals;
use crate::aggregate::totals::Totals;
use crate::export::selection::Export;
use crate::number::thousands;
use shared_types::Mode;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The levels, one for each row.
const LEVELS: [&str; 5] = ["process", "thread", "module", "symbol", "line"];
/// The levels with call stacks: from the outermost function down.
const STACK_LEVELS: [&str; 3] = ["process", "thread", "functions"];
/// The margin at the left for their names.
const LEFT: f64 = 76.0;
const ROW: f64 = 24.0;
/// Frames narrower than this fraction of the width, about half a pixel, are not drawn.
const NARROWEST: f64 = 0.0005;
/// Frames narrower than this fraction show no name until they are zoomed in.
const NARROW: f64 = 0.015;
/// The number of colours that distinguish modules.
const HUES: u32 = 6;

/// One frame, with everything inside it.
#[derive(Default)]
struct Node {
    totals: Totals,
    class: String,
    within: BTreeMap<String, Node>,
}

/// The flame graph of the view's source, as an SVG file.
pub fn flamegraph(export: &Export<'_>) -> String {
    let source = export.source();
    let mut lines = export.captions();
    lines.push(format!(
        "width: estimated events, {} total; rows are {}",
        thousands(source.totals.events),
        levels(export).join(", ")
    ));
    let title = format!("{}: flame graph of {}", source.name, export.title);
    standalone(&title, &lines, &drawing(export, &source))
}

fn levels(export: &Export<'_>) -> &'static [&'static str] {
    if export.samples.has_stacks() { &STACK_LEVELS } else { &LEVELS }
}

pub(super) fn drawing(export: &Export<'_>, source: &SourceTotals) -> Drawing {
    let root = tree(export, source);
    let mut drawer = Drawer { all: root.totals.events, svg: String::new(), deepest: 0, hidden: 0 };
    drawer.row(&root, 0.0, 0);
    let Drawer { svg, deepest, hidden, .. } = drawer;
    let mut drawing = Drawing { height: ROW * deepest as f64, svg };
    for (level, name) in levels(export).iter().enumerate().take(deepest) {
        drawing.text("level", 16.0, ROW * level as f64 + 16.0, name);
    }
    let mut note = |text: &str| {
        drawing.height += ROW;
        drawing.text("about", LEFT, drawing.height - 6.0, text);
    };
    if root.totals.samples == 0 {
        note("no samples");
    }
    if hidden != 0 {
        note(&format!("{hidden} frames are too narrow to be drawn"));
    }
    drawing
}

fn tree(export: &Export<'_>, source: &SourceTotals) -> Node {
    let samples = export.samples;
    let mut root = Node::default();
    for (location, totals) in samples.location_totals_of(source) {
        root.totals.add(totals);
        let mut node = &mut root;
        for (level, (name, named)) in samples.levels(location).into_iter().enumerate() {
            node = node.within.entry(name).or_default();
            node.totals.add(totals);
            if node.class.is_empty() {
                node.class = class(level, named.mode, &named.frame.module);
            }
        }
    }
    root
}

/// The CSS class for the colour of a frame: processes and threads are grey, modules and what is in
/// them have a colour of their own, and that of the kernel is always the same.
fn class(level: usize, mode: Mode, module: &str) -> String {
    match (level, mode) {
        (0, _) => "p".to_owned(),
        (1, _) => "t".to_owned(),
        (_, Mode::Kernel) => "k".to_owned(),
        (_, Mode::Unknown) => "x".to_owned(),
        (_, Mode::User) => {
            let hash = crc32fast::hash(module.as_bytes());
            format!("m{}", hash % HUES)
        }
    }
}

struct Drawer {
    all: u64,
    svg: String,
    deepest: usize,
    hidden: u64,
}

impl Drawer {
    /// Draws the children of a node, largest first, from `x` on: 0 is the left end, 1 the right.
    fn row(&mut self, node: &Node, mut x: f64, level: usize) {
        let mut within: Vec<_> = node.within.iter().collect();
        within.sort_by_key(|(_, inner)| std::cmp::Reverse(inner.totals.events));
        for (name, inner) in within {
            let width = fraction(inner.totals.events, self.all);
            if width < NARROWEST {
                self.hidden += 1;
                continue;
            }
            self.deepest = self.deepest.max(level + 1);
            self.frame(name, inner, x, width, level);
            self.row(inner, x, level + 1);
            x += width;
        }
    }

    fn frame(&mut self, name: &str, node: &Node, x: f64, width: f64, level: usize) {
        let room = WIDTH - LEFT - RIGHT;
        let name = escaped(name);
        let narrow = if width < NARROW { " n" } else { "" };
        let _ = writeln!(
            self.svg,
            "<svg class=\"f{narrow}\" x=\"{:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\" data-x=\"{x:.6}\" data-w=\"{width:.6}\">\
             <title>{name}: {} events, {}, {} samples</title>\
             <rect class=\"{}\" width=\"100%\" height=\"100%\"/><text x=\"5\" y=\"16\">{name}</text></svg>",
            LEFT + x * room,
            ROW * level as f64,
            width * room,
            ROW - 1.0,
            thousands(node.totals.events),
            share(node.totals.events, self.all),
            thousands(node.totals.samples),
            node.class
        );
    }
}
