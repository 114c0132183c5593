//! A timeline: the rate of one source over time, summed and track by track.

use super::units::{amount, fitting, fraction, si, step};
use super::{Drawing, RIGHT, WIDTH, escaped, room_for};
use crate::aggregate::samples::{Bins, Samples, TrackBy};
use crate::aggregate::source_totals::SourceTotals;
use crate::aggregate::totals::Totals;
use crate::export::selection::Export;
use crate::number::duration;
use shared_types::Mode;
use std::fmt::Write;

/// The width of the scale, to the right of the tracks' names.
const SCALE: f64 = 44.0;
/// The height of the track with the sum of all tracks.
const SUM: f64 = 130.0;
/// The height of each track.
const TRACK: f64 = 38.0;
/// The gap between two tracks.
const GAP: f64 = 12.0;
/// The largest number of tracks in one picture: those with the most events are drawn.
const TRACKS_MAX: usize = 32;
/// How many samples the busiest track has in a bin: with fewer, a rate is mostly chance.
const SAMPLES_IN_BIN: f64 = 10.0;
/// The largest number of bins: more could not be seen.
const BINS_MAX: f64 = 128.0;

/// The layers of a track, from the bottom: mode, CSS class and label.
const STACKED: [(Mode, &str, &str); 3] = [
    (Mode::User, "user", "user"),
    (Mode::Kernel, "kernel", "kernel"),
    (Mode::Unknown, "unknown", "mode not known"),
];

/// Describes the picture in words.
pub(super) fn about(export: &Export<'_>, source: &SourceTotals) -> String {
    let tracks = Tracks::new(export, source);
    let rate = if source.time.is_some() { "processors in use" } else { "events a second" };
    let mut about = format!(
        "{rate}, estimated from samples, in bins of {}, by {}",
        duration(tracks.bin_ns),
        export.samples.tracks.name()
    );
    for caveat in caveats(export) {
        about += "; ";
        about += caveat;
    }
    about
}

/// What rates over time do not show, as the ends of a sentence.
pub(super) fn caveats(export: &Export<'_>) -> impl Iterator<Item = &'static str> {
    let recording = &export.samples.recording;
    let is_throttled = recording.statistics.as_ref().is_some_and(|one| one.throttled != 0);
    let lost = "when samples were lost is not recorded";
    let lengthened = "periods were lengthened to keep to the interrupt budget";
    [(recording.all_lost() != Some(0), lost), (is_throttled, lengthened)]
        .into_iter()
        .filter_map(|(is_so, caveat)| is_so.then_some(caveat))
}

/// The rate in each bin, by [`Mode`] as a number.
type Rates = Vec<[f64; 3]>;

/// The rates of one processor or process.
struct Track {
    number: u32,
    name: String,
    events: u64,
    rates: Rates,
}

/// All tracks, in bins as wide as they are drawn.
struct Tracks {
    each: Vec<Track>,
    sum: Rates,
    bin_ns: f64,
    /// The time from the first to the last sample.
    range_ns: f64,
    /// The margin at the left.
    left: f64,
    /// How many letters of a track's name fit into it.
    letters: usize,
}

impl Tracks {
    #[expect(clippy::cast_sign_loss, reason = "there is a bin at least")]
    fn new(export: &Export<'_>, source: &SourceTotals) -> Self {
        let samples = export.samples;
        let (first, last) = samples.times.unwrap_or((0, 0));
        let range_ns = samples.ticks_to_ns(last - first).max(1) as f64;
        let all: Vec<(u32, &Bins)> = samples.tracks_of(source).collect();
        let events = |bins: &Bins| -> u64 {
            bins.values().map(|bin| bin.events()).fold(0, u64::saturating_add)
        };
        let busiest = all.iter().map(|&(_, bins)| events(bins)).max().unwrap_or(0);
        let Totals { samples: count, events: whole, .. } = source.totals;
        let in_busiest = fraction(busiest, whole) * count as f64;
        let period_ns = source.time.map_or(0, |time| time.nanoseconds(source.period_events));
        let bins = (in_busiest / SAMPLES_IN_BIN)
            .min(range_ns / (SAMPLES_IN_BIN * period_ns as f64))
            .clamp(1.0, BINS_MAX)
            .floor();
        let bin_ns = range_ns / bins;
        // Seconds of processor time in a second are processors.
        let unit = source.time.map_or(1.0, |time| time.seconds(whole) / whole as f64);
        let track = |(number, fine): (u32, &Bins)| {
            let mut rates = rebinned(samples, fine, bins as usize);
            rates.iter_mut().flatten().for_each(|rate| *rate *= unit * 1e9 / bin_ns);
            let name = match samples.tracks {
                TrackBy::Processor => format!("processor {number}"),
                TrackBy::Process => samples.process_name(number).to_string(),
            };
            Track { number, name, events: events(fine), rates }
        };
        let each: Vec<Track> = all.into_iter().map(track).collect();
        let sum = sum(each.iter());
        let (names, letters) = room_for(each.iter().map(|track| &*track.name));
        Self { each, sum, bin_ns, range_ns, left: names + SCALE, letters }
    }

    fn x(&self, ns: f64) -> f64 {
        self.left + (ns / self.range_ns).clamp(0.0, 1.0) * (WIDTH - self.left - RIGHT)
    }
}
/// The events from the first to the last sample, in so many bins. Within a bin of the timeline they
/// came about evenly.
#[expect(clippy::cast_sign_loss, reason = "no place is left of the first bin")]
fn rebinned(samples: &Samples, fine: &Bins, bins: usize) -> Rates {
    let mut rates = vec![[0.0; 3]; bins];
    let Some((first, last)) = samples.times else {
        return rates;
    };
    let width = (last - first) as f64 / bins as f64;
    // What happened before the first sample is left of the first bin.
    let place = |time: u64| (time as f64 - first as f64) / width.max(f64::MIN_POSITIVE);
    for (&bin, &events) in fine {
        let (from, to) = (samples.timeline.begin(bin), samples.timeline.end(bin));
        let (from, to) = (place(from), place(to).min(bins as f64));
        let begin = (from.max(0.0) as usize).min(bins - 1);
        for (at, rate) in rates.iter_mut().enumerate().skip(begin) {
            let at = at as f64;
            let part = match to - from {
                0.0 => 1.0,
                length => ((at + 1.0).min(to) - at.max(from)) / length,
            };
            if part <= 0.0 {
                break;
            }
            for (sum, events) in rate.iter_mut().zip(events.0) {
                *sum += events as f64 * part;
            }
            if to <= at + 1.0 {
                break;
            }
        }
    }
    rates
}

/// Several tracks as one.
fn sum<'a>(tracks: impl Iterator<Item = &'a Track>) -> Rates {
    let mut sum = Rates::new();
    for track in tracks {
        sum.resize(track.rates.len(), [0.0; 3]);
        for (sum, rate) in sum.iter_mut().flatten().zip(track.rates.iter().flatten()) {
            *sum += rate;
        }
    }
    sum
}

fn highest<'a>(rates: impl IntoIterator<Item = &'a Rates>) -> f64 {
    let bins = rates.into_iter().flatten().map(|rate| rate.iter().sum());
    bins.fold(0.0, f64::max)
}

pub(super) fn drawing(export: &Export<'_>, source: &SourceTotals) -> Drawing {
    let tracks = Tracks::new(export, source);
    if tracks.sum.is_empty() {
        let mut drawing = Drawing { height: 24.0, ..Drawing::default() };
        drawing.text("about", 16.0, 16.0, "no samples");
        return drawing;
    }
    let (drawn, others) = chosen(&tracks.each);
    let mut drawer = Drawer { tracks: &tracks, source, drawing: Drawing::default(), y: 18.0 };
    drawer.legend();
    let all = match export.samples.tracks {
        TrackBy::Processor => "all processors",
        TrackBy::Process => "all processes",
    };
    drawer.track(all, source.totals.events, &tracks.sum, SUM, highest([&tracks.sum]), 4.0);
    let rest = (!others.is_empty()).then(|| {
        let mut mean = sum(others.iter().copied());
        mean.iter_mut().flatten().for_each(|rate| *rate /= others.len() as f64);
        mean
    });
    let most = highest(drawn.iter().map(|track| &track.rates).chain(&rest));
    for track in drawn {
        drawer.track(&track.name, track.events, &track.rates, TRACK, most, 1.0);
    }
    if let Some(rest) = &rest {
        let name = format!("{} others (mean)", others.len());
        let events = others.iter().map(|track| track.events).sum::<u64>() / others.len() as u64;
        drawer.track(&name, events, rest, TRACK, most, 1.0);
    }
    let Drawer { mut drawing, y, .. } = drawer;
    drawing.time_axis(y - GAP, tracks.range_ns, "sample", |ns| tracks.x(ns));
    drawing
}

/// The tracks that are drawn, those with the most events first, and the others.
fn chosen(each: &[Track]) -> (Vec<&Track>, Vec<&Track>) {
    let mut all: Vec<&Track> = each.iter().collect();
    all.sort_by_key(|track| (std::cmp::Reverse(track.events), track.number));
    let drawn = if all.len() <= TRACKS_MAX { all.len() } else { TRACKS_MAX - 1 };
    let others = all.split_off(drawn);
    (all, others)
}

struct Drawer<'a> {
    tracks: &'a Tracks,
    source: &'a SourceTotals,
    drawing: Drawing,
    y: f64,
}

impl Drawer<'_> {
    fn legend(&mut self) {
        let mut x = self.tracks.left;
        for (mode, class, label) in STACKED {
            if self.tracks.sum.iter().all(|&rate| of_mode(rate, mode) == 0.0) {
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
    fn track(
        &mut self,
        name: &str,
        events: u64,
        rates: &Rates,
        height: f64,
        highest: f64,
        steps: f64,
    ) {
        let tick = step(highest, steps);
        let top = (highest / tick).ceil().max(1.0) * tick;
        let (first, base) = (self.y, self.y + height);
        let (left, right) = (self.tracks.left, WIDTH - RIGHT);
        let mut value = 0.0;
        while value <= top * 1.000_001 {
            let y = base - value / top * height;
            let _ =
                writeln!(self.drawing.svg, "<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/>");
            self.drawing.text("tick end", left - 8.0, y + 4.0, &si(value));
            value += tick;
        }
        let _ = writeln!(
            self.drawing.svg,
            "<g><title>{}: {}</title>",
            escaped(name),
            amount(self.source, events)
        );
        let mut below = vec![0.0; rates.len()];
        for (mode, class, _) in STACKED {
            let path = self.area(rates, mode, &mut below, (base, height / top));
            if !path.is_empty() {
                let _ = writeln!(self.drawing.svg, "<path class=\"{class}\" d=\"{path}\"/>");
            }
        }
        self.drawing.svg += "</g>\n";
        self.drawing.track(left, first + 14.0, base, &fitting(name, self.tracks.letters));
        self.y = base + GAP;
    }

    /// The outline of one mode's layer on top of those below it, to which it adds itself.
    fn area(
        &self,
        rates: &Rates,
        mode: Mode,
        below: &mut [f64],
        (base, scale): (f64, f64),
    ) -> String {
        let mut path = String::new();
        // For each run of adjacent bins: the upper edge to the right, then the lower one back.
        let (mut upper, mut lower) = (String::new(), String::new());
        for (bin, (&rate, under)) in rates.iter().zip(below).enumerate() {
            let rate = of_mode(rate, mode);
            if rate != 0.0 {
                let [from, to] =
                    [bin, bin + 1].map(|n| self.tracks.x(n as f64 * self.tracks.bin_ns));
                let over = *under + rate;
                let (low, high) = (base - *under * scale, base - over * scale);
                *under = over;
                let command = if upper.is_empty() { 'M' } else { 'L' };
                let _ = write!(upper, "{command}{from:.1} {high:.1}H{to:.1}");
                lower.insert_str(0, &format!("L{to:.1} {low:.1}H{from:.1}"));
            }
            if (rate == 0.0 || bin + 1 == rates.len()) && !upper.is_empty() {
                let _ = write!(path, "{upper}{lower}Z");
                upper.clear();
                lower.clear();
            }
        }
        path
    }
}

fn of_mode(rate: [f64; 3], mode: Mode) -> f64 {
    rate.get(mode as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Format, SamplesBuilder};
    use crate::file::{Metadata, Period, Recording, Source};
    use crate::symbols::Frame;
    use shared_types::Sample;

    const MILLISECOND: u64 = 1_000_000;

    /// The rates of a source that is sampled at these times, in ms, on each of two processors, with a
    /// tick a nanosecond. An event of `TotalCycles` is a nanosecond, too.
    #[expect(clippy::cast_sign_loss, reason = "time does not go back")]
    fn tracks(name: &str, times: &[f64]) -> Tracks {
        let units = if name == "Timer" { 100 } else { 1 };
        let period = Period { used: MILLISECOND / units, ..Period::default() };
        let metadata = Metadata {
            timestamp_frequency: 1_000_000_000,
            sources: vec![Source { name: name.to_owned(), period, ..Source::default() }],
            ..Metadata::default()
        };
        let mut builder = SamplesBuilder::new(TrackBy::Processor, false, &metadata);
        let mut last = 0.0;
        for &time in times {
            let passed = if name == "Timer" { 1.0 } else { time - last };
            last = time;
            for processor in 0..2 {
                builder.add(&Sample {
                    timestamp: (time * MILLISECOND as f64) as u64,
                    period: (passed * MILLISECOND as f64) as u64 / units,
                    processor,
                    ..Sample::default()
                });
            }
        }
        let recording = Recording { metadata, ..Recording::default() };
        let samples = builder.finish(recording, |_, _, _| (Frame::default(), None));
        let export = Export::new(&samples, "a", Format::Html);
        Tracks::new(&export, &export.source())
    }

    /// Times with distances that are drawn from a band of an eighth around 1 ms.
    fn drawn(count: usize) -> Vec<f64> {
        let mut time = 0.0;
        let distance = |n: usize| 1.0 + ((n * 7919 % 1000) as f64 / 1000.0 - 0.5) / 8.0;
        let times = (0..count).map(|n| {
            time += distance(n);
            time
        });
        times.collect()
    }

    /// Each processor counts an event a nanosecond, or is in use all the time: so is every bin, to 1 %.
    #[test]
    fn a_constant_rate_is_drawn_constant() {
        let regular = |count: usize| (1..=count).map(|n| n as f64).collect::<Vec<_>>();
        for (name, times, rate) in [
            ("TotalCycles", regular(150), 1e9),
            ("TotalCycles", drawn(150), 1e9),
            ("TotalCycles", drawn(12_345), 1e9),
            ("Timer", regular(150), 1.0),
            ("Timer", regular(12_345), 1.0),
        ] {
            let tracks = tracks(name, &times);
            let (bins, bin_ms) = (tracks.sum.len(), tracks.bin_ns / MILLISECOND as f64);
            assert!(bins > 10 && bin_ms > 9.9, "{name}: {bins} bins of {bin_ms} ms");
            for rates in tracks.each.iter().map(|track| &track.rates) {
                for bin in rates {
                    let part = bin.iter().sum::<f64>() / rate;
                    assert!((0.99..1.01).contains(&part), "{name}: {part} in bins of {bin_ms} ms");
                }
            }
        }
    }

    /// An idle processor has no samples of the timer: half the time it is in use, and never more.
    #[test]
    fn no_processor_is_in_use_more_than_all_the_time() {
        let times: Vec<f64> = (1..=1000).filter(|n| n % 400 < 200).map(f64::from).collect();
        let tracks = tracks("Timer", &times);
        let mut bins = tracks.sum.iter().map(|bin| bin.iter().sum::<f64>() / 2.0);
        assert!(bins.clone().all(|part| part <= 1.01), "{:?}", tracks.sum);
        assert!(bins.clone().any(|part| part > 0.99) && bins.any(|part| part < 0.01));
        let events = tracks.each.iter().map(|track| track.events * 100).sum::<u64>();
        assert_eq!(events, 2 * times.len() as u64 * MILLISECOND);
    }
}
