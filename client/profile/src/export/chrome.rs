//! Trace events: the JSON that Perfetto and chrome://tracing open.
//!
//! A sample has no duration, so each is an instant event of its thread, with its source as
//! category. Each mark is an instant event too, named after its channel. Rates are counters for
//! each processor or process, in a process of their own.

use super::{Lanes, MARKS_MAX, Moment, Source, View};
use crate::recording::Mark;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// The process that holds the counters: the identifiers of Windows' processes are multiples of 4.
const COUNTERS: u32 = u32::MAX;

#[derive(Serialize)]
struct Event<'a, A> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'a str>,
    ph: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    ts: f64,
    pid: u32,
    tid: u32,
    args: A,
}

#[derive(Serialize)]
struct SampleArguments<'a> {
    module: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    address: String,
    mode: &'static str,
    processor: u32,
    samples: u64,
    events: u64,
}

/// Writes the events of every source shown.
pub(super) fn write(view: &View<'_>, out: &mut impl Write) -> io::Result<()> {
    let about = json!({
        "title": view.title,
        "halprof": env!("CARGO_PKG_VERSION"),
        "modelled": view.gathered.recording.metadata.modelled,
        "about": view.captions().join("; "),
    });
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},")?;
    write!(out, "\"traceEvents\":[")?;
    let mut events = Events { out, any: false };
    names(view, &mut events)?;
    for &source in &view.sources {
        rates(view, source, &mut events)?;
    }
    for moment in &view.gathered.moments {
        // Sources are sorted by index.
        let source = view
            .sources
            .binary_search_by_key(&moment.source, |source| source.index);
        if let Some(source) = source.ok().and_then(|at| view.sources.get(at)) {
            sample(view, source, moment, &mut events)?;
        }
    }
    for (channel, made) in view.gathered.marks.named().take(MARKS_MAX) {
        mark(view, channel, made, &mut events)?;
    }
    writeln!(out, "]}}")
}

/// A list of events, written one at a time.
struct Events<'a, W> {
    out: &'a mut W,
    any: bool,
}

impl<W: Write> Events<'_, W> {
    fn put(&mut self, event: &impl Serialize) -> io::Result<()> {
        self.out.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        Ok(serde_json::to_writer(&mut *self.out, event)?)
    }

    fn name(&mut self, what: &'static str, pid: u32, tid: u32, name: &str) -> io::Result<()> {
        self.put(&Event {
            name: what,
            cat: None,
            ph: "M",
            s: None,
            ts: 0.0,
            pid,
            tid,
            args: json!({ "name": name }),
        })
    }
}

fn names(view: &View<'_>, events: &mut Events<'_, impl Write>) -> io::Result<()> {
    let places = view.gathered.places.iter();
    let marks = view.gathered.marks.named().take(MARKS_MAX);
    let sampled = places.map(|place| (place.process, place.thread));
    let marked = marks.map(|(_, mark)| (mark.process, mark.thread));
    let threads: BTreeSet<(u32, u32)> = sampled.chain(marked).collect();
    let processes: BTreeSet<u32> = threads.iter().map(|&(process, _)| process).collect();
    for process in processes {
        let name = view.gathered.process_name(process);
        events.name("process_name", process, 0, &name)?;
    }
    for (process, thread) in threads {
        let name = format!("thread {thread}");
        events.name("thread_name", process, thread, &name)?;
    }
    let name = match view.gathered.lanes {
        Lanes::Processor => "halprof: rates by processor",
        Lanes::Process => "halprof: rates by process",
    };
    events.name("process_name", COUNTERS, 0, name)
}

/// Events per second, bin by bin; 0 after the last bin of a stretch.
fn rates(view: &View<'_>, source: &Source, events: &mut Events<'_, impl Write>) -> io::Result<()> {
    let gathered = view.gathered;
    let seconds = gathered.ticks_to_ns(gathered.timeline.width()).max(1) as f64 / 1e9;
    for (number, bins) in gathered.lanes_of(source) {
        let name = format!("{} on {} {number}", source.name, gathered.lanes.name());
        let mut put = |bin: u64, rate: f64| {
            events.put(&Event {
                name: &name,
                cat: Some(&source.name),
                ph: "C",
                s: None,
                ts: microseconds(gathered.since_first(gathered.timeline.begin(bin))),
                pid: COUNTERS,
                tid: 0,
                args: json!({ "events/s": rate }),
            })
        };
        let mut behind = None;
        for (&bin, by_mode) in bins {
            if let Some(gap) = behind.filter(|&gap| gap != bin) {
                put(gap, 0.0)?;
            }
            put(bin, by_mode.events() as f64 / seconds)?;
            behind = Some(bin.saturating_add(1));
        }
        if let Some(end) = behind {
            put(end, 0.0)?;
        }
    }
    Ok(())
}

fn sample(
    view: &View<'_>,
    source: &Source,
    moment: &Moment,
    events: &mut Events<'_, impl Write>,
) -> io::Result<()> {
    let Some(place) = view.gathered.places.get(moment.place) else {
        return Ok(());
    };
    events.put(&Event {
        name: place.frame.symbol.as_ref().unwrap_or(&place.frame.module),
        cat: Some(&source.name),
        ph: "i",
        s: Some("t"),
        ts: microseconds(view.gathered.since_first(moment.time)),
        pid: place.process,
        tid: place.thread,
        args: SampleArguments {
            module: &place.frame.module,
            line: place.file_and_line(),
            address: format!("{:#x}", place.address),
            mode: place.mode.name(),
            processor: moment.processor,
            samples: moment.weight.samples,
            events: moment.weight.events,
        },
    })
}

fn mark(
    view: &View<'_>,
    channel: &str,
    mark: &Mark,
    events: &mut Events<'_, impl Write>,
) -> io::Result<()> {
    events.put(&Event {
        name: channel,
        cat: Some("mark"),
        ph: "i",
        s: Some("t"),
        ts: microseconds(view.gathered.since_first(mark.time)),
        pid: mark.process,
        tid: mark.thread,
        args: json!({ "value": mark.value }),
    })
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
