//! Traces of Windows' own tracing with samples and branch records that something else recorded.

use halprof_etw::PointerSize;
use halprof_etw::bytes::{Layout, Output};
use halprof_etw::payload::branches::{Entries, Entry, LastBranches, filter};
use halprof_etw::payload::image::{File, Image};
use halprof_etw::payload::process::Process as ProcessEvent;
use halprof_etw::payload::processor::CounterSample;
use halprof_etw::payload::thread::Thread;
use halprof_etw::payload::{Change, EventKind, counters};
use halprof_profile::file::{self, Module, Process, RecordedBranches};
use shared_types::{Branch, Sample};
use sim_etw::write::{self, Origin, Session};
use std::collections::BTreeSet;
use std::path::Path;

/// The number of the sampled source in Windows' list.
const SOURCE: u16 = 6;
/// The value of every record that nobody documents.
pub const RAW: u64 = 1 << 63;
/// Ticks of the clock from sample to sample.
const APART: i64 = 10;

/// What a trace tells besides samples.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The sampled source.
    pub source: &'a str,
    /// Its interval.
    pub interval: u32,
    /// The processes, all of which ran before.
    pub processes: &'a [Process],
    /// Their modules and the kernel's.
    pub modules: &'a [Module],
}

/// Writes a trace of samples, each with the branches before it, newest first.
///
/// # Panics
/// If it cannot be written.
pub fn write(path: &Path, samples: &[(Sample, Vec<Branch>)], contents: &Contents<'_>) {
    let records: Vec<Vec<u8>> = samples.iter().map(|(_, branches)| entries(branches)).collect();
    let mut events: Vec<(i64, EventKind<'_>)> =
        before(samples, contents).into_iter().map(|event| (1001, event)).collect();
    let mut time = 2000;
    for ((sample, _), records) in samples.iter().zip(&records) {
        let counted =
            CounterSample { ip: sample.ip, thread: sample.thread, source: SOURCE, reserved: 0 };
        events.push((time, EventKind::CounterSample(counted)));
        let branches = EventKind::LastBranches(LastBranches {
            event_time: time.cast_unsigned(),
            process: sample.process,
            thread: sample.thread,
            filter: filter::KERNEL,
            entries: Entries::from_bytes(records, PointerSize::Eight),
        });
        events.push((time + 3, branches));
        time += APART;
    }
    let session = Session { origin: 1000, ..Session::default() };
    let events = events.iter().map(|(time, kind)| {
        let origin = Origin { time: *time, processor: 0, thread: u32::MAX, process: u32::MAX };
        (origin, kind, &[][..])
    });
    write::trace(std::fs::File::create(path).expect("a file"), session, events).expect("written");
}

/// Writes a trace of the samples of a recording that have branch records.
///
/// # Panics
/// If the recording cannot be read, or the trace cannot be written.
pub fn of_recording(recording: &Path, trace: &Path, interval: u32) {
    let mut source = file::open(recording).expect("a recording");
    let mut samples = Vec::new();
    let visit = &mut |sample: &Sample, own: RecordedBranches<'_>| {
        samples.push((*sample, own.branches.to_vec()));
    };
    source.branches(visit).expect("read");
    let known = source.take_recording();
    let contents = Contents {
        source: &known.metadata.sources[0].name,
        interval,
        processes: &known.processes,
        modules: &known.modules,
    };
    write(trace, &samples, &contents);
}

/// What was there before the first sample.
fn before<'a>(samples: &[(Sample, Vec<Branch>)], contents: &Contents<'_>) -> Vec<EventKind<'a>> {
    let running = Change::RundownStart;
    let interval = EventKind::Interval(Box::new(counters::Interval {
        source: SOURCE.into(),
        interval: contents.interval,
        old_interval: contents.interval,
        name: contents.source.to_owned(),
    }));
    let processes = contents.processes.iter().map(|process| {
        EventKind::Process(Box::new(ProcessEvent::new(running, process.id, &process.name)))
    });
    let threads: BTreeSet<(u32, u32)> =
        samples.iter().map(|(sample, _)| (sample.process, sample.thread)).collect();
    let threads = threads.into_iter().map(|(process, thread)| {
        EventKind::Thread(Box::new(Thread::new(running, process, thread)))
    });
    let images = contents.modules.iter().map(image);
    std::iter::once(interval).chain(processes).chain(threads).chain(images).collect()
}

fn image<'a>(module: &Module) -> EventKind<'a> {
    let file = module.stamp.map(|stamp| File {
        checksum: 0,
        time_date_stamp: stamp.time,
        signature_level: 0,
        signature_type: 0,
        default_base: module.start,
    });
    EventKind::Image(Box::new(Image {
        change: Change::RundownStart,
        base: module.start,
        size: module.end - module.start,
        process: Some(module.process.unwrap_or(0)),
        name: format!(r"\Device\HarddiskVolume3\{}", module.name),
        file,
    }))
}

fn entries(branches: &[Branch]) -> Vec<u8> {
    let mut output = Output { bytes: Vec::new(), pointer_size: PointerSize::Eight };
    for &Branch { from, to, .. } in branches {
        Entry { from, to, reserved: RAW }.write(&mut output);
    }
    output.bytes
}
