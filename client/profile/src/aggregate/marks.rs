//! Evaluates a recording's marks: when they were made, how far apart, and from one mark to another.
//! The driver's own events are marks, too, each kind on a channel.

use crate::file::{Channels, Mark, RecordedEvent, Recording};
use crate::number::nanoseconds;
use crate::symbols::Pattern;
use halprof_measure::regions::Distribution;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Shown for an unnamed channel.
const NAMELESS: &str = "(channel without a name)";

/// Which marks are used.
#[derive(Clone, Debug, Default)]
pub struct MarkFilter {
    /// The channels; all if empty.
    pub channels: Vec<Pattern>,
    /// The span of time, in nanoseconds since the first mark.
    pub time: Option<(u64, u64)>,
}

/// Marks in order of time.
#[derive(Debug)]
pub struct Marks {
    /// The channels' data from the recording.
    pub channels: Channels,
    all: Vec<PlacedMark>,
    /// The names of the channels: those of programs, that of those without a name, the driver's.
    names: Vec<String>,
    /// The time of the recording's first mark.
    origin: u64,
}

/// A mark of a program or an event of the driver.
#[derive(Clone, Copy, Debug)]
pub struct PlacedMark {
    /// Its time, as a sample's timestamp.
    pub time: u64,
    /// The value that the program gave; for an event of the driver, its amount.
    pub value: u64,
    /// The process; `None` for an event of the driver.
    pub process: Option<u32>,
    /// Its thread.
    pub thread: Option<u32>,
    /// The processor on which an event of the driver happened.
    pub processor: Option<u32>,
    channel: usize,
}

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct MarkRow {
    /// Its number, from 1, in order of time.
    pub number: u64,
    /// Its time, in nanoseconds since the recording's first mark.
    pub time_ns: u64,
    /// The channel.
    pub channel: String,
    /// The value that the program gave; for an event of the driver, its amount.
    pub value: u64,
    /// The process; `None` for an event of the driver.
    pub process: Option<u32>,
    /// Its thread.
    pub thread: Option<u32>,
    /// The processor on which an event of the driver happened.
    pub processor: Option<u32>,
    /// Time since the previous mark on the same channel.
    pub on_channel_ns: Option<u64>,
    /// Time since the previous mark on any channel.
    pub on_any_ns: Option<u64>,
}

/// Statistics over many spans of time.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SpanStats {
    /// How many there are.
    pub n: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub median_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The most frequent length; `None` if none occurs twice.
    pub mode_ns: Option<u64>,
    /// The standard deviation; `None` for a single one.
    pub deviation_ns: Option<f64>,
    /// The longest.
    pub max_ns: u64,
}

/// The marks of one channel.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Summary {
    /// Its name.
    pub channel: String,
    /// The number of marks.
    pub marks: u64,
    /// The time from each mark to the next; `None` for fewer than two marks.
    pub gaps: Option<SpanStats>,
}

/// Marks counted in columns of equal width.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Strip {
    /// The width of a column.
    pub tick_ns: u64,
    /// Where the first column begins.
    pub from_ns: u64,
    /// The channels that have marks, in the order of their first mark.
    pub tracks: Vec<Track>,
    /// Further columns that are not shown, up to the one with the last mark.
    pub omitted_columns: u64,
}

/// The marks of one channel in columns.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Track {
    /// The channel.
    pub channel: String,
    /// The number of marks in each column.
    pub marks: Vec<u64>,
}

/// The span of time from one mark to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Interval {
    /// Its start, in nanoseconds since the recording's first mark.
    pub begin_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// The value of its first mark.
    pub value: u64,
    /// The process of its first mark; `None` for an event of the driver.
    pub process: Option<u32>,
    /// The thread of its first mark.
    pub thread: Option<u32>,
}

/// All intervals from one channel to another.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    /// The intervals, in the order in which they end.
    pub intervals: Vec<Interval>,
    /// Marks on the first channel that no mark on the second followed.
    pub without_end: u64,
    /// Marks on the second channel that no mark on the first preceded.
    pub without_begin: u64,
}

impl Marks {
    /// The chosen marks of a recording that was read with its marks, and the driver's events.
    pub fn of(recording: &mut Recording, choice: &MarkFilter) -> Self {
        let mut channels = recording.marked.channels.clone().unwrap_or_default();
        if channels.ticks_a_second == 0 {
            channels.ticks_a_second = recording.metadata.timestamp_frequency;
        }
        let mut names = channels.names.clone();
        let nameless = names.len();
        names.push(NAMELESS.to_owned());
        let marks = std::mem::take(&mut recording.marked.marks);
        let mut all: Vec<_> =
            marks.iter().map(|mark| PlacedMark::of_program(mark, nameless)).collect();
        all.extend(recording.events.iter().map(|event| PlacedMark::of_driver(event, &mut names)));
        // A stable sort: equal times keep the order of the file, which has each thread's marks in
        // order.
        all.sort_by_key(|mark| mark.time);
        let origin = all.first().map_or(0, |mark| mark.time);
        let mut chosen = Self { channels, all: Vec::new(), names, origin };
        let is_chosen: Vec<bool> = chosen.names.iter().map(|name| choice.has(name)).collect();
        all.retain(|mark| {
            let ns = chosen.nanoseconds(mark.time);
            is_chosen.get(mark.channel) == Some(&true)
                && choice.time.is_none_or(|(from, to)| (from..to).contains(&ns))
        });
        chosen.all = all;
        chosen
    }

    pub const fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether any was made by a program rather than by the driver.
    pub fn has_programs(&self) -> bool {
        self.all.iter().any(|mark| mark.process.is_some())
    }

    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The time from the first mark to the last, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        let ends = self.all.first().zip(self.all.last());
        ends.map_or(0, |(first, last)| self.nanoseconds(last.time) - self.nanoseconds(first.time))
    }

    /// A time stamp, in nanoseconds since the recording's first mark.
    fn nanoseconds(&self, time: u64) -> u64 {
        let ticks = time.saturating_sub(self.origin);
        nanoseconds(ticks, self.channels.ticks_a_second).unwrap_or(ticks)
    }

    fn name(&self, channel: usize) -> &str {
        self.names.get(channel).map_or("", String::as_str)
    }

    /// Every mark as it was made, with its channel's name, in order of time.
    pub fn named(&self) -> impl Iterator<Item = (&str, &PlacedMark)> {
        let all = self.all.iter();
        all.map(|mark| (self.name(mark.channel), mark))
    }

    /// The time of the recording's first mark; `None` if there is none.
    pub fn first(&self) -> Option<u64> {
        self.all.first().map(|_| self.origin)
    }

    /// Every mark, in order of time.
    pub fn rows(&self) -> impl Iterator<Item = MarkRow> {
        let mut on_channel: HashMap<usize, u64> = HashMap::new();
        let mut on_any = None;
        (1..).zip(&self.all).map(move |(number, mark)| {
            let time_ns = self.nanoseconds(mark.time);
            let before = on_channel.insert(mark.channel, time_ns);
            let any = on_any.replace(time_ns);
            MarkRow {
                number,
                time_ns,
                channel: self.name(mark.channel).to_owned(),
                value: mark.value,
                process: mark.process,
                thread: mark.thread,
                processor: mark.processor,
                on_channel_ns: before.map(|before| time_ns - before),
                on_any_ns: any.map(|before| time_ns - before),
            }
        })
    }

    /// The channels that have marks, in the order of their first mark.
    pub fn summaries(&self) -> Vec<Summary> {
        let mut order: Vec<usize> = Vec::new();
        let mut times: HashMap<usize, Vec<u64>> = HashMap::new();
        for mark in &self.all {
            let of_channel = times.entry(mark.channel).or_insert_with(|| {
                order.push(mark.channel);
                Vec::new()
            });
            of_channel.push(self.nanoseconds(mark.time));
        }
        let summary = |channel: &usize| {
            let times = times.get(channel)?;
            let pairs = times.iter().zip(times.iter().skip(1));
            let gaps: Vec<u64> = pairs.map(|(one, next)| next - one).collect();
            Some(Summary {
                channel: self.name(*channel).to_owned(),
                marks: times.len() as u64,
                gaps: SpanStats::from_lengths(&gaps),
            })
        };
        order.iter().filter_map(summary).collect()
    }

    /// Columns of `tick_ns` nanoseconds, at most `columns_max` of them, starting at the first mark.
    pub fn strip(&self, tick_ns: u64, columns_max: usize) -> Strip {
        let tick_ns = tick_ns.max(1);
        let column = |mark: &PlacedMark| self.nanoseconds(mark.time) / tick_ns;
        let first = self.all.first().map_or(0, column);
        let last = self.all.last().map_or(0, column);
        let columns = (last - first).saturating_add(u64::from(!self.is_empty()));
        let kept = columns.min(columns_max as u64);
        let mut tracks: Vec<Track> = Vec::new();
        let mut locations: HashMap<usize, usize> = HashMap::new();
        for mark in &self.all {
            let index = *locations.entry(mark.channel).or_insert_with(|| {
                let channel = self.name(mark.channel).to_owned();
                tracks.push(Track { channel, marks: vec![0; kept as usize] });
                tracks.len() - 1
            });
            let column = usize::try_from(column(mark) - first).unwrap_or(usize::MAX);
            let cells = tracks.get_mut(index).map(|track| &mut track.marks);
            if let Some(cell) = cells.and_then(|cells| cells.get_mut(column)) {
                *cell += 1;
            }
        }
        Strip { tick_ns, from_ns: first * tick_ns, tracks, omitted_columns: columns - kept }
    }

    /// The intervals from each mark on one channel to the next on another by the same thread. If
    /// several marks on the first precede one on the other, the interval starts at the last of them.
    pub fn between(&self, from: &str, to: &str) -> Intervals {
        let mut open = HashMap::new();
        let mut between = Intervals::default();
        for mark in &self.all {
            let name = self.name(mark.channel);
            let maker = (mark.process, mark.thread, mark.processor);
            // The end comes first: if both channels are the same, each mark ends one interval and
            // starts the next.
            if name == to {
                match open.remove(&maker) {
                    Some(begin) => between.intervals.push(self.interval(begin, mark)),
                    None => between.without_begin += 1,
                }
            }
            if name == from && open.insert(maker, mark).is_some() {
                between.without_end += 1;
            }
        }
        between.without_end += open.len() as u64;
        between
    }

    fn interval(&self, begin: &PlacedMark, end: &PlacedMark) -> Interval {
        let begin_ns = self.nanoseconds(begin.time);
        Interval {
            begin_ns,
            length_ns: self.nanoseconds(end.time) - begin_ns,
            value: begin.value,
            process: begin.process,
            thread: begin.thread,
        }
    }

    /// Whether a channel of this name has marks.
    pub fn has(&self, name: &str) -> bool {
        let mut marks = self.all.iter();
        marks.any(|mark| self.name(mark.channel) == name)
    }
}

impl PlacedMark {
    /// A program's mark; `nameless` is the channel of those that the recording does not name.
    fn of_program(mark: &Mark, nameless: usize) -> Self {
        Self {
            time: mark.time,
            value: mark.value,
            process: Some(mark.process),
            thread: Some(mark.thread),
            processor: None,
            channel: (mark.channel as usize).min(nameless),
        }
    }

    /// An event of the driver; its channel is added to `names` if it is not there.
    fn of_driver(event: &RecordedEvent, names: &mut Vec<String>) -> Self {
        let name = format!("driver:{}", event.kind);
        let known = names.iter().position(|one| *one == name);
        let channel = known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        Self {
            time: event.timestamp,
            value: event.amount,
            process: None,
            thread: None,
            processor: event.processor,
            channel,
        }
    }
}

impl MarkFilter {
    fn has(&self, name: &str) -> bool {
        self.channels.is_empty() || self.channels.iter().any(|one| one.matches(name))
    }
}

impl SpanStats {
    /// Statistics of these lengths in nanoseconds; `None` if there are none. No length is discarded
    /// as an outlier: a rare one may be the one that is wanted.
    pub fn from_lengths(lengths: &[u64]) -> Option<Self> {
        let summary = Distribution::from_values(lengths)?;
        Some(Self {
            n: summary.n,
            min_ns: summary.min,
            median_ns: summary.median,
            mean_ns: summary.mean,
            mode_ns: summary.mode,
            deviation_ns: summary.deviation,
            max_ns: lengths.iter().copied().max()?,
        })
    }
}

#[cfg(test)]
mod tests;
