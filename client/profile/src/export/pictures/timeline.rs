//! A timeline: the rate of one source over time, summed and track by track.

use super::units::{fitting, si, step};
use super::{Drawing, RIGHT, WIDTH, escaped};
use crate::aggregate::samples::{Bin, Bins, TrackBy};
use crate::aggregate::source_totals::SourceTotals;
use crate::export::selection::Export;
use crate::number::{duration, thousands};
use shared_types::Mode;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The margin at the left for the tracks' names and the scale.
const LEFT: f64 = 164.0;
/// The height of the track with the sum of all tracks.
const SUM: f64 = 130.0;
/// The height of each track.
const TRACK: f64 = 38.0;
/// The gap between two tracks.
const GAP: f64 = 12.0;
/// The largest number of tracks in one picture: those with the most events are drawn.
const TRACKS_MAX: usize = 32;
/// With fewer samples than this in a bin of a track, a rate is mostly chance.
const SAMPLES_IN_BIN: u64 = 4;
/// Bins are not merged below this number.
const BINS_MIN: u64 = 32;

/// The layers of a track, from the bottom: mode, CSS class and label.
const STACKED: [(Mode, &str, &str); 3] = [
    (Mode::User, "user", "user"),
    (Mode::Kernel, "kernel", "kernel"),
    (Mode::Unknown, "unknown", "mode not known"),
];

/// Describes the picture in words.
pub(super) fn about(export: &Export<'_>, source: &SourceTotals) -> String {
    let tracks = Tracks::new(export, source);
    let mut about = format!(
        "events a second, estimated from samples, in bins of {}, by {}",
        duration(tracks.bin_ns),
        export.samples.tracks.name()
    );
    if export.samples.recording.all_lost() != Some(0) {
        about += "; when samples were lost is not recorded";
    }
    let statistics = export.samples.recording.statistics.as_ref();
    if statistics.is_some_and(|statistics| statistics.throttled != 0) {
        about += "; periods were lengthened to keep to the interrupt budget";
    }
    about
}

/// The bins of all tracks, as wide as they are drawn.
struct Tracks {
    sum: Bins,
    each: BTreeMap<u32, Bins>,
    bin_ns: f64,
    /// How long before the first sample the first bin begins.
    lead_ns: f64,
    /// The time from the first to the last sample.
    range_ns: f64,
}

impl Tracks {
    fn new(export: &Export<'_>, source: &SourceTotals) -> Self {
        let samples = export.samples;
        let each = samples.tracks_of(source);
        let mut each: BTreeMap<u32, Bins> = each.map(|(n, bins)| (n, bins.clone())).collect();
        let mut sum = sum(each.values());
        let mut width = samples.timeline.width();
        let last = sum.last_key_value().map_or(0, |(&bin, _)| bin);
        let in_each = source.totals.samples / (each.len() as u64).max(1);
        let mut count = last + 1;
        while count / 2 >= BINS_MIN && in_each / count < SAMPLES_IN_BIN {
            sum = merged(&sum);
            each = each.into_iter().map(|(n, bins)| (n, merged(&bins))).collect();
            count = count.div_ceil(2);
            width = width.saturating_mul(2);
        }
        let (first, last) = samples.timeline.range().unwrap_or((0, 0));
        let lead = first % samples.timeline.width();
        Self {
            sum,
            each,
            lead_ns: samples.ticks_to_ns(lead) as f64,
            bin_ns: samples.ticks_to_ns(width).max(1) as f64,
            range_ns: samples.ticks_to_ns(last - first).max(1) as f64,
        }
    }

    /// Events per second.
    fn rate(&self, events: u64) -> f64 {
        events as f64 / self.bin_ns * 1e9
    }

    fn x(&self, ns: f64) -> f64 {
        LEFT + (ns / self.range_ns).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn highest<'a>(&self, tracks: impl IntoIterator<Item = &'a Bins>) -> f64 {
        let bins = tracks.into_iter().flat_map(BTreeMap::values);
        self.rate(bins.map(|bin| bin.events()).max().unwrap_or(0))
    }
}

/// Bins of twice the width.
fn merged(bins: &Bins) -> Bins {
    let mut merged = Bins::new();
    for (&bin, &events) in bins {
        merged.entry(bin / 2).or_default().add(events);
    }
    merged
}

/// Several tracks as one.
fn sum<'a>(tracks: impl Iterator<Item = &'a Bins>) -> Bins {
    let mut sum = Bins::new();
    for (&bin, &events) in tracks.flatten() {
        sum.entry(bin).or_default().add(events);
    }
    sum
}

/// The mean of several tracks; empty if there are none.
fn mean(tracks: &[&Bins]) -> Bins {
    let mut mean = sum(tracks.iter().copied());
    for bin in mean.values_mut() {
        bin.0 = bin.0.map(|events| events / tracks.len() as u64);
    }
    mean
}

pub(super) fn drawing(export: &Export<'_>, source: &SourceTotals) -> Drawing {
    let tracks = Tracks::new(export, source);
    if tracks.sum.is_empty() {
        let mut drawing = Drawing { height: 24.0, ..Drawing::default() };
        drawing.text("about", 16.0, 16.0, "no samples");
        return drawing;
    }
    let (drawn, others) = chosen(&tracks.each);
    let mut drawer = Drawer { tracks: &tracks, drawing: Drawing::default(), y: 18.0 };
    drawer.legend();
    let all = match export.samples.tracks {
        TrackBy::Processor => "all processors",
        TrackBy::Process => "all processes",
    };
    drawer.track(all, &tracks.sum, SUM, tracks.highest([&tracks.sum]), 4.0);
    let rest = (!others.is_empty()).then(|| mean(&others));
    let highest = tracks.highest(drawn.iter().map(|&(_, bins)| bins).chain(&rest));
    for (number, bins) in drawn {
        let name = match export.samples.tracks {
            TrackBy::Processor => format!("processor {number}"),
            TrackBy::Process => export.samples.process_name(number),
        };
        drawer.track(&name, bins, TRACK, highest, 1.0);
    }
    if let Some(rest) = &rest {
        let name = format!("{} others (mean)", others.len());
        drawer.track(&name, rest, TRACK, highest, 1.0);
    }
    let Drawer { mut drawing, y, .. } = drawer;
    drawing.time_axis(y - GAP, tracks.range_ns, "sample", |ns| tracks.x(ns));
    drawing
}

/// The tracks that are drawn, in order of their numbers, and the others.
fn chosen(each: &BTreeMap<u32, Bins>) -> (Vec<(u32, &Bins)>, Vec<&Bins>) {
    let mut all: Vec<(u32, &Bins)> = each.iter().map(|(&n, bins)| (n, bins)).collect();
    if all.len() <= TRACKS_MAX {
        return (all, Vec::new());
    }
    let events = |bins: &Bins| -> u128 { bins.values().map(|bin| u128::from(bin.events())).sum() };
    all.sort_by_cached_key(|&(_, bins)| std::cmp::Reverse(events(bins)));
    let others = all.split_off(TRACKS_MAX - 1);
    all.sort_unstable_by_key(|&(number, _)| number);
    (all, others.into_iter().map(|(_, bins)| bins).collect())
}

struct Drawer<'a> {
    tracks: &'a Tracks,
    drawing: Drawing,
    y: f64,
}

impl Drawer<'_> {
    fn legend(&mut self) {
        let mut x = LEFT;
        for (mode, class, label) in STACKED {
            let mut bins = self.tracks.sum.values();
            if bins.all(|bin| events_of(*bin, mode) == 0) {
                continue;
            }
            let _ = writeln!(
                self.drawing.svg,
                "<rect class=\"{class}\" x=\"{x}\" y=\"0\" width=\"11\" height=\"11\"/>"
            );
            self.drawing.text("tick", x + 16.0, 10.0, label);
            x += 36.0 + 6.5 * label.len() as f64;
        }
        self.y += 10.0;
    }

    /// Draws one track, with a scale up to at least `highest` in about `steps` steps.
    fn track(&mut self, name: &str, bins: &Bins, height: f64, highest: f64, steps: f64) {
        let tick = step(highest, steps);
        let top = (highest / tick).ceil().max(1.0) * tick;
        let (first, base) = (self.y, self.y + height);
        let right = WIDTH - RIGHT;
        let mut value = 0.0;
        while value <= top * 1.000_001 {
            let y = base - value / top * height;
            let _ =
                writeln!(self.drawing.svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>");
            self.drawing.text("tick end", LEFT - 8.0, y + 4.0, &si(value));
            value += tick;
        }
        let total: u128 = bins.values().map(|bin| u128::from(bin.events())).sum();
        let _ = writeln!(
            self.drawing.svg,
            "<g><title>{}: {} events</title>",
            escaped(name),
            thousands(total)
        );
        let mut below: BTreeMap<u64, f64> = BTreeMap::new();
        for (mode, class, _) in STACKED {
            let path = self.area(bins, mode, &mut below, (base, height / top));
            if !path.is_empty() {
                let _ = writeln!(self.drawing.svg, "<path class=\"{class}\" d=\"{path}\"/>");
            }
        }
        self.drawing.svg += "</g>\n";
        self.drawing.track(LEFT, first + 14.0, base, &fitting(name, 16));
        self.y = base + GAP;
    }

    /// The outline of one mode's layer on top of those below it, to which it adds itself.
    fn area(
        &self,
        bins: &Bins,
        mode: Mode,
        below: &mut BTreeMap<u64, f64>,
        (base, scale): (f64, f64),
    ) -> String {
        let mut path = String::new();
        // For each run of adjacent bins: the upper edge to the right, then the lower one back.
        let (mut upper, mut lower) = (String::new(), String::new());
        let mut behind = None;
        let mut close = |upper: &mut String, lower: &mut String| {
            if !upper.is_empty() {
                let _ = write!(path, "{upper}{lower}Z");
                upper.clear();
                lower.clear();
            }
        };
        for (&bin, &events) in bins {
            let events = events_of(events, mode);
            if events == 0 {
                continue;
            }
            let edge =
                |bin: u64| self.tracks.x(bin as f64 * self.tracks.bin_ns - self.tracks.lead_ns);
            let (from, to) = (edge(bin), edge(bin + 1));
            let under = below.entry(bin).or_default();
            let over = *under + self.tracks.rate(events);
            let (low, high) = (base - *under * scale, base - over * scale);
            *under = over;
            if behind != Some(bin) {
                close(&mut upper, &mut lower);
            }
            let command = if upper.is_empty() { 'M' } else { 'L' };
            let _ = write!(upper, "{command}{from:.1} {high:.1}H{to:.1}");
            lower.insert_str(0, &format!("L{to:.1} {low:.1}H{from:.1}"));
            behind = Some(bin + 1);
        }
        close(&mut upper, &mut lower);
        path
    }
}

fn events_of(bin: Bin, mode: Mode) -> u64 {
    bin.0.get(mode as usize).copied().unwrap_or(0)
}
