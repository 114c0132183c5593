//! Is a trace of Windows' own tracing read as the recording that it is?

use crate::aggregate::filter::Filter;
use crate::aggregate::key::{self, Key, Value};
use crate::file::{
    self, Branches, DroppedBranches, Identity, RecordedBranches, Recording, Sample, StackCounts,
    StackId, Stamp, mode_of,
};
use crate::symbols::{Pattern, SymbolPath};
use crate::views::report::{Query, Report};
use halprof_etw::bytes::{Layout, Output};
use halprof_etw::clock::ClockType;
use halprof_etw::payload::branches::{Entries, Entry, LastBranches, filter};
use halprof_etw::payload::process::Process;
use halprof_etw::payload::stack::{Frames, Stack};
use halprof_etw::payload::thread::{Thread, ThreadName};
use halprof_etw::payload::volume::Volume;
use halprof_etw::payload::{Change, EventKind, counters, image, processor};
use halprof_etw::{Guid, PointerSize};
use halprof_measure::tracing::session::{SampledSource, TIMER};
use serde_json::Value as Json;
use shared_types::{Branch, Mode};
use sim_etw::generator::{BranchRecording, LeftOut, Run, TracedSource};
use sim_etw::write::{self, Origin, Session};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Real traces, with what an independent reader found in them.
fn traces() -> Option<(PathBuf, Json)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/etw/files");
    let folder = PathBuf::from(folder);
    let Ok(manifest) = fs::read(folder.join("manifest.json")) else {
        eprintln!("skipped: no traces in {}", folder.display());
        return None;
    };
    Some((folder, serde_json::from_slice(&manifest).expect("JSON")))
}

fn read(path: &Path) -> (Recording, Vec<Sample>) {
    let (recording, samples, _) = read_stacked(path);
    (recording, samples)
}

fn read_stacked(path: &Path) -> (Recording, Vec<Sample>, Vec<StackId>) {
    let (mut samples, mut stacks) = (Vec::new(), Vec::new());
    let mut source = file::open(path).expect("a trace");
    let mut extend = |some: &[Sample], of_some: &[StackId]| {
        samples.extend_from_slice(some);
        stacks.extend_from_slice(of_some);
    };
    source.samples(&mut extend).expect("read");
    let recording = source.take_recording();
    (recording, samples, stacks)
}

#[test]
fn real_traces_have_the_samples_that_independent_readers_find() {
    let Some((folder, manifest)) = traces() else { return };
    for name in ["net.4.5.2.x64.etl", "net.4.5.x86.etl", "artificial_pmc.etl"] {
        let (recording, samples) = read(&folder.join(name));
        let expected = &manifest[name];
        let idle = recording.statistics.as_ref().expect("statistics").idle_samples;
        assert_eq!(idle, expected["samples"]["of_thread_0"], "{name}");
        assert_eq!(samples.len() as u64 + idle, expected["samples"]["total"], "{name}");
        assert_eq!(recording.damaged(), None, "{name}");
        for process in &recording.processes {
            let id = process.id.to_string();
            assert_eq!(process.name, expected["processes"][&id], "{name} {id}");
        }
        for sample in &samples {
            let id = recording.process_ids.id(sample.process);
            let mut processes = recording.processes.iter();
            assert!(processes.any(|process| process.id == id), "{name} {sample:?}");
        }
    }
}

#[test]
fn counters_have_their_names_and_intervals() {
    let Some((folder, _)) = traces() else { return };
    let (recording, samples) = read(&folder.join("artificial_pmc.etl"));
    let sources = &recording.metadata.sources;
    let of_sample = |sample: &Sample| {
        let source = &sources[usize::from(sample.source)];
        format!("{} of {}", source.name, sample.period)
    };
    let found: BTreeSet<String> = samples.iter().map(of_sample).collect();
    let expected = ["BranchMispredictions of 65536", "CacheMisses of 65536", "Timer of 10000"];
    assert_eq!(found, BTreeSet::from(expected.map(str::to_owned)));
}

const PROCESS: u32 = 1000;
const THREAD: u32 = 1004;
const KERNEL: u64 = 0xFFFF_F800_0000_0000;
const IMAGE: u64 = 0x40_0000;

/// A trace whose clock shows 1000 when it begins.
fn written(events: &[(i64, EventKind<'_>)]) -> (TempDir, PathBuf) {
    let session = Session { buffer_size: 1024, origin: 1000, ..Session::default() };
    write_trace(session, events.iter().map(|(time, kind)| (*time, 0, kind)))
}

/// A trace with these events, each with its time and processor.
pub(crate) fn write_trace<'a>(
    session: Session,
    events: impl IntoIterator<Item = (i64, u16, &'a EventKind<'a>)>,
) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ETL");
    let events = events.into_iter().map(|(time, processor, kind)| {
        let origin = Origin { time, processor, ..Origin::default() };
        (origin, kind, &[][..])
    });
    write::trace(File::create(&path).expect("a file"), session, events).expect("written");
    (folder, path)
}

fn a_process(change: Change, image: &str) -> EventKind<'static> {
    EventKind::Process(Box::new(Process::new(change, PROCESS, image)))
}

pub(crate) fn a_thread(change: Change, process: u32, thread: u32) -> EventKind<'static> {
    EventKind::Thread(Box::new(Thread::new(change, process, thread)))
}

pub(crate) fn an_image(change: Change, base: u64, process: u32, name: &str) -> EventKind<'static> {
    EventKind::Image(Box::new(image::Image {
        change,
        base,
        size: 0x1000,
        process: Some(process),
        name: name.to_owned(),
        file: Some(image::File { time_date_stamp: 7, ..image::File::default() }),
    }))
}

/// Frames as a stack has them, innermost first.
pub(crate) fn frames(addresses: &[u64]) -> Vec<u8> {
    addresses.iter().flat_map(|address| address.to_le_bytes()).collect()
}

pub(crate) fn a_stack(event_time: u64, process: u32, thread: u32, frames: &[u8]) -> EventKind<'_> {
    let frames = Frames::from_bytes(frames, PointerSize::Eight);
    EventKind::Stack(Stack { event_time, process, thread, frames })
}

const fn a_sample(ip: u64, thread: u32) -> EventKind<'static> {
    EventKind::Sample(processor::Sample { ip, thread, count: 1, reserved: 0 })
}

fn an_interval(source: u32, interval: u32, name: &str) -> EventKind<'static> {
    let name = name.to_owned();
    EventKind::Interval(Box::new(counters::Interval { source, interval, old_interval: 0, name }))
}

/// A program gives its threads names, or they have them before the session begins.
#[test]
fn threads_have_the_names_that_their_program_gave_them() {
    let named = |thread, name: &str| {
        let name = ThreadName { process: PROCESS, thread, name: name.to_owned() };
        EventKind::ThreadName(Box::new(name))
    };
    let running = |thread, name: Option<&str>| {
        let own = Thread::new(Change::RundownStart, PROCESS, thread);
        EventKind::Thread(Box::new(Thread { name: name.map(str::to_owned), ..own }))
    };
    let (_folder, path) = written(&[
        (1000, a_process(Change::RundownStart, "a.exe")),
        (1001, running(THREAD, Some("before"))),
        (1002, running(THREAD + 4, None)),
        (1003, running(THREAD + 8, Some("größer"))),
        (1010, named(THREAD, "worker")),
        (1020, a_sample(IMAGE, THREAD)),
        (1030, a_sample(IMAGE, THREAD + 4)),
        (1040, a_sample(IMAGE, THREAD + 8)),
        (1050, a_sample(IMAGE, THREAD)),
    ]);
    let converted = path.with_extension("rec");
    file::convert(&path, &converted, None, |_| {}, None, None).expect("converted");
    let by_thread = |path: &Path, threads: &[&str]| {
        let threads = threads.iter().map(|name| Pattern::new(name)).collect();
        let filter = Filter { threads, ..Filter::default() };
        let query = Query { tables: vec![vec![Key::Thread]], filter, ..Query::default() };
        let report = Report::read(path, &query, &SymbolPath::default()).expect("a report");
        let sections = report.tables[0].sections.iter().flat_map(|section| &section.rows);
        let rows = sections.map(|row| format!("{} {}", row.values[0], row.totals.samples));
        rows.collect::<Vec<_>>()
    };
    let rows = [
        format!("worker ({THREAD}) of a.exe ({PROCESS}) 2"),
        format!("{} of a.exe ({PROCESS}) 1", THREAD + 4),
        format!("größer ({}) of a.exe ({PROCESS}) 1", THREAD + 8),
    ];
    for path in [&path, &converted] {
        assert_eq!(by_thread(path, &[]), rows);
        assert_eq!(by_thread(path, &["WORKER"]), rows[..1]);
        assert_eq!(by_thread(path, &["größer", &(THREAD + 4).to_string()]), rows[1..]);
        assert!(by_thread(path, &["before"]).is_empty(), "it has another name now");
    }
}

#[test]
fn a_written_trace_becomes_the_recording_that_it_describes() {
    let guid = Guid(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);
    let pdb = image::Pdb { base: IMAGE, process: PROCESS, guid, age: 3, name: "a.pdb".to_owned() };
    let own_thread = |change| a_thread(change, PROCESS, THREAD);
    let (_folder, path) = written(&[
        (1000, an_image(Change::RundownStart, KERNEL, 0, r"\SystemRoot\system32\ntoskrnl.exe")),
        (1010, an_interval(0, 10_000, "Timer")),
        (1020, a_process(Change::Start, "a.exe")),
        // The thread's start is in the trace after its first sample.
        (1030, a_sample(IMAGE + 1, THREAD)),
        (1040, own_thread(Change::Start)),
        (1050, an_image(Change::Start, IMAGE, PROCESS, r"\Device\HarddiskVolume3\a.exe")),
        (1060, an_interval(0, 1221, "Timer")),
        (1070, a_sample(KERNEL + 1, THREAD)),
        (1080, a_sample(KERNEL + 2, 0)),
        (1100, an_image(Change::End, IMAGE, PROCESS, r"\Device\HarddiskVolume3\a.exe")),
        (1110, own_thread(Change::End)),
        (1120, a_process(Change::End, "a.exe")),
        // The same identifiers again, in another program.
        (1130, a_process(Change::Start, "b.exe")),
        (1140, own_thread(Change::Start)),
        (1150, a_sample(IMAGE + 2, THREAD)),
        (1160, EventKind::Pdb(Box::new(pdb))),
    ]);
    let (recording, samples) = read(&path);

    let processes: Vec<_> = recording
        .processes
        .iter()
        .map(|process| (process.id, process.name.as_str(), process.started, process.ended))
        .collect();
    let expected =
        [(PROCESS, "a.exe", Some(1020), Some(1120)), (PROCESS, "b.exe", Some(1130), None)];
    assert_eq!(processes, expected);

    let [kernel, module] = recording.modules.as_slice() else { panic!("{:?}", recording.modules) };
    assert_eq!((kernel.process, kernel.name.as_str(), kernel.loaded), (None, "ntoskrnl.exe", None));
    assert_eq!((module.process, module.name.as_str()), (Some(PROCESS), "a.exe"));
    assert_eq!((module.start, module.end), (IMAGE, IMAGE + 0x1000));
    assert_eq!((module.loaded, module.unloaded), (Some(1050), Some(1100)));
    assert_eq!(module.stamp, Some(Stamp { time: 7, size: 0x1000 }));
    let guid = "00112233445566778899AABBCCDDEEFF".to_owned();
    assert_eq!(module.identity, Some(Identity::Pdb { file: "a.pdb".to_owned(), guid, age: 3 }));

    let ids = &recording.process_ids;
    let found: Vec<_> = samples
        .iter()
        .map(|sample| {
            let process = ids.id(sample.process);
            let mode = mode_of(sample.mode) as u8;
            (sample.timestamp, process, sample.thread, sample.ip, sample.period, mode)
        })
        .collect();
    let (user, kernel) = (Mode::User as u8, Mode::Kernel as u8);
    let expected = [
        (1030, PROCESS, THREAD, IMAGE + 1, 10_000, user),
        (1070, PROCESS, THREAD, KERNEL + 1, 1221, kernel),
        (1150, PROCESS, THREAD, IMAGE + 2, 1221, user),
    ];
    assert_eq!(found, expected);
    assert_ne!(samples[0].process, samples[2].process, "two programs had one identifier");
    assert_eq!(recording.statistics.expect("statistics").idle_samples, 1);
    assert_eq!(recording.metadata.timestamp_frequency, 10_000_000);
}

/// The callers of each sample, innermost first: a walk's first frame is the sampled code itself.
#[test]
fn a_sample_has_the_callers_that_both_halves_name() {
    let (kernel, user) =
        (frames(&[KERNEL + 1, KERNEL + 2]), frames(&[IMAGE + 1, IMAGE + 2, IMAGE + 3]));
    let stack = |event_time, frames| a_stack(event_time, PROCESS, THREAD, frames);
    let (_folder, path) = written(&[
        (1000, a_thread(Change::Start, PROCESS, THREAD)),
        (1010, a_sample(IMAGE + 1, THREAD)),
        (1011, stack(1010, &user)),
        // Two samples of one stay in the kernel: the user half names the second.
        (1020, a_sample(KERNEL + 1, THREAD)),
        (1021, stack(1020, &kernel)),
        (1030, a_sample(KERNEL + 1, THREAD)),
        (1031, stack(1030, &kernel)),
        (1040, stack(1030, &user)),
        (1050, a_sample(KERNEL + 5, THREAD)),
        (1051, stack(1050, &user)),
        // Its user half is lost: the next one is of a later stay.
        (1054, a_sample(KERNEL + 1, THREAD)),
        (1055, stack(1054, &kernel)),
        (1060, a_sample(IMAGE + 7, THREAD)),
        (1070, stack(1065, &user)),
    ]);
    let (recording, _, stacks) = read_stacked(&path);
    let callers: Vec<Vec<u64>> = stacks
        .iter()
        .map(|&stack| recording.stacks.callers(stack).map(|(_, frame)| frame.address).collect())
        .collect();
    let in_kernel = [KERNEL + 2, IMAGE + 1, IMAGE + 2, IMAGE + 3];
    let expected: [&[u64]; 6] = [
        &[IMAGE + 2, IMAGE + 3],
        &in_kernel,
        &in_kernel,
        &[IMAGE + 1, IMAGE + 2, IMAGE + 3],
        &[KERNEL + 2],
        &[],
    ];
    assert_eq!(callers, expected);
    let counts = StackCounts { samples: 6, kernel: 1, user: 2, both: 2, none: 1, shared: 1 };
    assert_eq!(recording.stack_counts(), Some(counts));
}

#[test]
fn what_is_missing_in_a_trace_is_stated() {
    let samples: Vec<_> = (0..200).map(|n| (1000 + n, a_sample(IMAGE, THREAD))).collect();
    let (_folder, path) = written(&samples);
    let bytes = fs::read(&path).expect("bytes");
    fs::write(&path, &bytes[..bytes.len() - 1500]).expect("cut");
    let (recording, read) = read(&path);
    assert!(read.len() > 100 && read.len() < 200, "{}", read.len());
    let damaged = recording.damaged().expect("damage");
    assert!(damaged.contains("the file ends inside a buffer"), "{damaged}");
    assert_eq!(recording.all_lost(), None);
}

/// Its session lost three events, as its header says: the trace is whole.
#[test]
fn events_that_a_session_lost_are_losses_and_no_damage() {
    let Some((folder, _)) = traces() else { return };
    let (recording, _) = read(&folder.join("AMSITrace.etl"));
    assert_eq!(recording.all_lost(), Some(3));
    assert_eq!(recording.damaged(), None);
}

#[test]
fn what_is_no_trace_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (bytes, why) in [(&b""[..], "too short"), (&[0; 2000][..], "buffer's header")] {
        let path = folder.path().join("a.etl");
        fs::write(&path, bytes).expect("written");
        let error = file::read(&path, |_| {}).expect_err("no trace").to_string();
        assert!(error.contains("is not a trace: ") && error.contains(why), "{error}");
    }
}

/// Its events are read when it is opened, and never again: a second pass has the same samples.
#[test]
fn a_trace_is_read_once() {
    let (folder, path) = written(&[
        (1010, an_interval(0, 10_000, "Timer")),
        (1020, a_process(Change::Start, "a.exe")),
        (1030, a_thread(Change::Start, PROCESS, THREAD)),
        (1040, a_sample(IMAGE + 1, THREAD)),
        (1050, a_sample(KERNEL + 1, THREAD)),
    ]);
    let mut source = file::open(&path).expect("a trace");
    fs::remove_dir_all(folder.path()).expect("removed");
    let mut passes = [Vec::new(), Vec::new()];
    for pass in &mut passes {
        source.samples(&mut |samples, _| pass.extend_from_slice(samples)).expect("samples");
    }
    let [first, second] = passes;
    assert_eq!(first.len() as u64, source.take_recording().samples);
    assert_eq!(first, second);
    assert_eq!(first.len(), 2);
}

/// The file that an identity names.
fn pdb_name(identity: &Identity) -> Option<&str> {
    match identity {
        Identity::Pdb { file, .. } => Some(file),
        Identity::BuildId(_) => None,
    }
}

/// What merging adds has the time of an event of its image, and another image may have the address
/// before or after, in a process of the same identifier too.
#[test]
fn a_base_that_is_used_again_has_the_build_of_each_image() {
    let loaded = |time, change, name| (time, an_image(change, IMAGE, PROCESS, name));
    let build = |time, number: u32| {
        let guid = Guid(number.into());
        let pdb = format!("{number}.pdb");
        let pdb = image::Pdb { base: IMAGE, process: PROCESS, guid, age: 1, name: pdb };
        let id = image::ImageId {
            base: IMAGE,
            size: 0x1000,
            process: PROCESS,
            time_date_stamp: number,
            ..image::ImageId::default()
        };
        [(time, EventKind::ImageId(Box::new(id))), (time, EventKind::Pdb(Box::new(pdb)))]
    };
    let mut events = Vec::from(build(1001, 1));
    events.push(loaded(1001, Change::RundownStart, r"\a.dll"));
    events.push(loaded(1010, Change::End, r"\a.dll"));
    events.extend(build(1020, 2));
    events.push(loaded(1020, Change::Start, r"\b.dll"));
    events.push((1030, a_process(Change::End, "a.exe")));
    events.extend(build(1040, 3));
    events.push(loaded(1040, Change::Start, r"\c.dll"));
    let (_folder, path) = written(&events);
    let (recording, _) = read(&path);
    let builds = recording.modules.iter().map(|module| {
        let pdb = module.identity.as_ref().and_then(pdb_name).unwrap_or("none");
        (module.name.as_str(), pdb.to_owned(), module.stamp.map_or(0, |stamp| stamp.time))
    });
    let expected = [("a.dll", 1), ("b.dll", 2), ("c.dll", 3)];
    let expected = expected.map(|(name, number)| (name, format!("{number}.pdb"), number));
    assert_eq!(builds.collect::<Vec<_>>(), expected);
}

/// A file made by hand, of two images at one address.
#[test]
fn the_case_of_a_reused_base_has_the_build_of_each_image() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/etw/image-base-reuse.etl");
    if !Path::new(path).exists() {
        eprintln!("skipped: {path} is absent");
        return;
    }
    let (recording, _) = read(Path::new(path));
    let pdb = |name: &str| {
        let module = recording.modules.iter().find(|module| module.name == name).expect(name);
        module.identity.as_ref().and_then(pdb_name)
    };
    assert_eq!((pdb("a.dll"), pdb("b.dll")), (Some("a.pdb"), Some("b.pdb")));
}

#[test]
fn a_merged_trace_has_the_drives_of_its_machine() {
    let volume = |nt: &str, dos: &str| {
        let (nt_path, dos_path) = (nt.to_owned(), dos.to_owned());
        (1000, EventKind::Volume(Box::new(Volume { nt_path, dos_path })))
    };
    let names =
        [r"\Device\HarddiskVolume2\a\b.exe", r"\SystemRoot\system32\c.sys", r"\Device\Mup\h\s\d"];
    let image = |(at, name): (u64, &str)| {
        (1010, an_image(Change::RundownStart, IMAGE + 0x10_000 * at, PROCESS, name))
    };
    let images: Vec<_> = (0..).zip(names).map(image).collect();
    let volumes = [
        volume(r"\??\", ""),
        volume(r"\SystemRoot\", r"C:\Windows\"),
        volume(r"\Device\HarddiskVolume2\", r"C:\"),
        volume(r"\Device\Mup\", r"\\"),
    ];
    for (volumes, expected) in [
        (&volumes[..], [r"C:\a\b.exe", r"C:\Windows\system32\c.sys", r"\Device\Mup\h\s\d"]),
        (&[], names),
    ] {
        // The merge writes them anywhere.
        let mut events = [images.clone(), volumes.to_vec()].concat();
        events.sort_by_key(|&(time, _)| time);
        let (_folder, path) = written(&events);
        let (recording, _) = read(&path);
        let paths = recording.modules.iter().map(|module| module.path.as_deref());
        assert_eq!(paths.collect::<Vec<_>>(), expected.map(Some));
    }
}

/// Without events of threads nothing says that an identifier went to a thread of another process, but
/// the stacks do.
#[test]
fn a_sample_is_of_the_process_that_its_stack_names() {
    let user = frames(&[IMAGE + 1, IMAGE + 2]);
    let (_folder, path) = written(&[
        (1020, a_sample(IMAGE + 1, THREAD)),
        (1021, a_stack(1020, PROCESS, THREAD, &user)),
        (1030, a_sample(IMAGE + 1, THREAD)),
        (1031, a_stack(1030, PROCESS + 8, THREAD, &user)),
    ]);
    let (recording, samples) = read(&path);
    let found = samples.iter().map(|one| recording.process_ids.known_id(one.process));
    assert_eq!(found.collect::<Vec<_>>(), [Some(PROCESS), Some(PROCESS + 8)]);
}

/// Nothing says whose thread it was: no identifier is made up.
#[test]
fn a_process_that_nothing_names_is_unknown() {
    let user = frames(&[IMAGE + 1, IMAGE + 2]);
    let (_folder, path) = written(&[
        (1010, an_interval(0, 10_000, "Timer")),
        (1020, a_sample(IMAGE + 1, THREAD)),
        (1021, a_stack(1020, PROCESS, THREAD, &user)),
        // Of the same thread, without a stack of its own.
        (1030, a_sample(IMAGE + 1, THREAD)),
        (1040, a_sample(IMAGE + 1, THREAD + 4)),
    ]);
    let (recording, samples) = read(&path);
    let found: Vec<_> =
        samples.iter().map(|one| recording.process_ids.known_id(one.process)).collect();
    assert_eq!(found, [Some(PROCESS), Some(PROCESS), None]);
    let query = Query { tables: vec![vec![Key::Process]], ..Query::default() };
    let report = Report::read(&path, &query, &SymbolPath::default()).expect("read");
    let rows = report.tables[0].sections[0].rows.iter().map(|row| row.values[0].clone());
    let unknown = Value::Process(key::Process::default());
    assert!(rows.into_iter().any(|row| row == unknown), "{report:?}");
    assert_eq!(unknown.to_string(), "unknown process");
}

/// Entries as an event has them, newest first: a branch, its target and the undocumented field.
fn entries(all: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut output = Output { bytes: Vec::new(), pointer_size: PointerSize::Eight };
    for &(from, to, reserved) in all {
        Entry { from, to, reserved }.write(&mut output);
    }
    output.bytes
}

fn branches(event_time: u64, thread: u32, filter: u32, entries: &[u8]) -> EventKind<'_> {
    let entries = Entries::from_bytes(entries, PointerSize::Eight);
    EventKind::LastBranches(LastBranches { event_time, process: PROCESS, thread, filter, entries })
}

/// A sample's time, its branches and the undocumented value of each.
type Branched = (u64, Vec<(u64, u64)>, Vec<u64>);

fn read_branches(path: &Path) -> (Recording, Vec<Branched>) {
    let mut source = file::open(path).expect("a trace or a recording");
    let mut all = Vec::new();
    let visit = &mut |sample: &Sample, RecordedBranches { branches, raw }: RecordedBranches<'_>| {
        let edge = |&Branch { from, to, cycles, kind, flags, .. }: &Branch| {
            assert_eq!((cycles, kind, flags), (0, 0, 0), "nobody documents them");
            (from, to)
        };
        all.push((sample.timestamp, branches.iter().map(edge).collect(), raw.to_vec()));
    };
    source.branches(visit).expect("read");
    (source.take_recording(), all)
}

#[test]
fn a_sample_has_the_branches_that_name_it() {
    const ZEN4: u64 = 1 << 61;
    let edge = |n: u64| (IMAGE + n, IMAGE + 0x100 + n);
    let entry = |n: u64, reserved: u64| (IMAGE + n, IMAGE + 0x100 + n, reserved);
    let full: Vec<_> = (0..32).map(|n| entry(n, 1 << 63 | n)).collect();
    let too_many: Vec<_> = (0..40).map(|n| entry(n, 0)).collect();
    let false_target = (IMAGE, (IMAGE + 0x100) | ZEN4, 0);
    let (full, too_many, few, one) = (
        entries(&full),
        entries(&too_many),
        entries(&[entry(1, 7), false_target, entry(2, 0), (0, 0, 5), (0, 0, 0)]),
        entries(&[entry(3, 0)]),
    );
    let events = [
        (1010, an_interval(0, 10_000, "Timer")),
        (1020, a_process(Change::Start, "a.exe")),
        (1020, a_thread(Change::Start, PROCESS, THREAD)),
        // Its branches are logged before it.
        (1030, branches(1030, THREAD, filter::KERNEL, &full)),
        (1030, a_sample(IMAGE + 1, THREAD)),
        // Its own are lost.
        (1040, a_sample(IMAGE + 1, THREAD)),
        (1050, a_sample(IMAGE + 1, THREAD)),
        (1060, a_sample(IMAGE + 1, THREAD)),
        (1061, branches(1050, THREAD, filter::KERNEL, &few)),
        (1062, branches(1060, THREAD, filter::KERNEL, &too_many)),
        // A switch, and a sample that is lost.
        (1063, branches(1041, THREAD, filter::KERNEL, &one)),
        (1064, branches(1050, THREAD + 4, filter::KERNEL, &one)),
        // An idle processor, whose samples are counted only.
        (1070, a_sample(KERNEL + 1, 0)),
        (1071, branches(1070, 0, filter::KERNEL, &one)),
    ];
    // Forty entries need more than a kilobyte.
    let session = Session { buffer_size: 2048, origin: 1000, ..Session::default() };
    let events = events.iter().map(|(time, kind)| (*time, 0, kind));
    let (_folder, path) = write_trace(session, events);
    let (recording, found) = read_branches(&path);
    let edges = |range: std::ops::Range<u64>| range.map(edge).collect::<Vec<_>>();
    let expected = vec![
        (1030, edges(0..32), (0..32).map(|n| 1 << 63 | n).collect()),
        (1050, vec![edge(1), edge(2)], vec![7, 0]),
        (1060, edges(0..32), vec![0; 32]),
    ];
    assert_eq!(found, expected);
    assert_eq!((recording.samples, recording.branches), (4, 66));
    let how = recording.metadata.branches.clone();
    let recorder = Branches::OF_TRACE.to_owned();
    assert_eq!(how, Some(Branches { depth: 32, kinds: Vec::new(), recorder }));
    assert!(recording.metadata.has_straight_code() && !recording.metadata.has_predictions());
    let dropped = DroppedBranches { without_sample: 2, empty: 2, no_branches: 9 };
    let statistics = recording.statistics.clone().expect("statistics");
    assert_eq!(statistics.dropped_branches, Some(dropped));

    // A recording that is made of it has the same, undocumented values too.
    let target = path.with_extension("rec");
    file::convert(&path, &target, None, |_| {}, None, None).expect("converted");
    let (converted, again) = read_branches(&target);
    assert_eq!((again, converted.damaged()), (found, None));
    assert_eq!(converted.metadata.branches, recording.metadata.branches);
    assert_eq!(converted.statistics, recording.statistics);
    assert!(converted.skipped.is_empty(), "{:?}", converted.skipped);

    // Of another process alone: none, and none are missing.
    let process = Some(PROCESS + 100);
    file::convert(&path, &target, process, |_| {}, None, None).expect("converted");
    let (other, none) = read_branches(&target);
    let dropped = other.statistics.and_then(|statistics| statistics.dropped_branches);
    assert_eq!((none, dropped), (Vec::new(), Some(DroppedBranches::default())));
}

/// What else a trace can have: a filter of kinds, and none of the events.
#[test]
fn a_trace_says_which_kinds_of_branches_it_has() {
    let one = entries(&[(IMAGE, IMAGE + 8, 0)]);
    let with = |filter| {
        let (_folder, path) = written(&[
            (1030, a_sample(IMAGE + 1, THREAD)),
            (1031, branches(1030, THREAD, filter, &one)),
        ]);
        let (recording, samples) = read(&path);
        let process = recording.process_ids.known_id(samples[0].process);
        assert_eq!(process, Some(PROCESS), "only the records say whose thread it is");
        recording.metadata
    };
    let returns = with(0x1DD);
    assert_eq!(returns.branches.clone().expect("branches").kinds, ["return"]);
    assert!(!returns.has_straight_code());
    assert!(!with(filter::CALL_STACK | filter::KERNEL).has_straight_code());
    let (_folder, path) = written(&[(1030, a_sample(IMAGE + 1, THREAD))]);
    let (recording, found) = read_branches(&path);
    assert_eq!((recording.metadata.branches, found), (None, Vec::new()));
}

/// Runs in which Windows' records have all that they are known or suspected to have.
#[test]
fn branches_of_generated_runs_are_the_true_ones() {
    let mut all = LeftOut::default();
    for seed in 0..40 {
        let timer = TracedSource {
            name: "Timer".to_owned(),
            source: SampledSource { id: TIMER, interval: 1221 },
            events: Vec::new(),
        };
        let pointer_size = if seed % 5 == 0 { PointerSize::Four } else { PointerSize::Eight };
        let run = Run {
            seed,
            processors: 1 + (seed % 3) as u16,
            clock: ClockType::PerformanceCounter,
            pointer_size,
            length_us: 20_000,
            counted: Vec::new(),
            sampled: vec![timer],
            stacks: seed % 3 != 0,
            branches: Some(BranchRecording { depth: 16, filter: (seed % 2) as u32 }),
            wakings: false,
            lost_buffers_one_in: 0,
            program: None,
        };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.etl");
        let (_, truth) = run.write(File::create(&path).expect("a file")).expect("written");
        let (recording, found) = read_branches(&path);
        let expected = truth.samples.iter().filter(|sample| !sample.branches.is_empty());
        let expected: Vec<_> =
            expected.map(|one| (one.time.cast_unsigned(), one.branches.clone())).collect();
        let found: Vec<_> = found.into_iter().map(|(time, own, _)| (time, own)).collect();
        let by_time = |all: &[(u64, Vec<(u64, u64)>)]| {
            let mut all = all.to_vec();
            all.sort();
            all
        };
        assert!(found.len() > 20, "{seed}: {}", found.len());
        assert_eq!(by_time(&found), by_time(&expected), "{seed}");
        let dropped = recording.statistics.and_then(|one| one.dropped_branches).expect("branches");
        let LeftOut { without_sample, empty, no_branches } = truth.left_out;
        assert_eq!(dropped, DroppedBranches { without_sample, empty, no_branches }, "{seed}");
        all.without_sample += without_sample;
        all.empty += empty;
        all.no_branches += no_branches;
    }
    assert!(all.without_sample > 20 && all.empty > 100 && all.no_branches > 20, "{all:?}");
}
