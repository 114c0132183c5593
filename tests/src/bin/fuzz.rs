//! Arbitrary bytes for the places where untrusted bytes are read.
//!
//! `fuzz service --seconds 60` sends requests to the service of modelled machines: half random
//! bytes, half well-formed requests with random fields, from several clients that come and go.
//! `fuzz dump --seconds 60` feeds the dump parser random bytes and damaged dumps; `fuzz recording`
//! does the same to the reader of recordings, `fuzz etw` to that of Windows' own traces. `fuzz live`
//! delivers the events of a session as Windows should not. `fuzz symbols`
//! gives the readers of symbols files that are well formed and have hostile amounts of everything. A
//! seed is printed; `--seed` replays it.

use allocation_counter::measure;
use clap::{Parser, ValueEnum};
use fastrand::Rng;
use halprof_etw::clock::ClockType;
use halprof_etw::join::branches::BranchRecords;
use halprof_etw::join::{slices::Slices, stacks::Joiner, threads::Threads};
use halprof_etw::payload::branches::{Entries, LastBranches};
use halprof_etw::payload::processor::{Sample, Switch};
use halprof_etw::payload::stack::{Frames, Half, Stack, StackKey};
use halprof_etw::payload::thread::Thread;
use halprof_etw::payload::{Change, counters::CounterNames};
use halprof_etw::{EventKind, PointerSize, Trace};
use halprof_profile::{budget, file};
use halprof_tests::requests::{self, ALL_RIGHTS};
use halprof_tests::{live_delivery, symbol_files};
use shared_types::request::session::{self, Opened, Spec};
use shared_types::request::{Access, Plain, RequestCode};
use shared_types::{ErrorCode, NtStatus, ReplyHeader};
use sim::load::workload::{self, Workload};
use sim::machine::{Handle, Model};
use sim::machines::models::{self, MODELS};
use sim_etw::write::{Origin, Session, Writer};
use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

#[derive(Parser)]
struct Arguments {
    target: Target,
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Replays one case.
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Target {
    Service,
    Dump,
    Recording,
    Etw,
    Live,
    Symbols,
}

fn main() {
    let arguments = Arguments::parse();
    let case = match arguments.target {
        Target::Service => service_case,
        Target::Dump => dump_case,
        Target::Recording => recording_case,
        Target::Etw => etw_case,
        Target::Live => live_case,
        Target::Symbols => symbols_case,
    };
    if let Some(seed) = arguments.seed {
        case(&mut Rng::with_seed(seed));
        return;
    }
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let first = fastrand::u64(..);
    let mut cases = 0;
    while Instant::now() < end {
        let seed = first.wrapping_add(cases);
        let result = std::panic::catch_unwind(|| case(&mut Rng::with_seed(seed)));
        if result.is_err() {
            eprintln!("failed: replay with --seed {seed}");
            std::process::exit(1);
        }
        cases += 1;
    }
    println!("{cases} cases, the first of seed {first}: nothing failed");
}

/// A machine, a few clients, a hundred requests, then all clients close.
fn service_case(rng: &mut Rng) {
    let model = &MODELS[rng.usize(..MODELS.len())];
    let leaves = models::repeat(&model.processors(), rng.usize(1..=5));
    let mut machine = Model::new(&leaves);
    let mut handles = vec![machine.open(1, ALL_RIGHTS)];
    let mut sessions = Vec::new();
    let workload =
        workload::parse("instructions=3000000,cycles=5000000,branches=70000,processors=all");
    let workload = workload.expect("a well-formed workload");
    for _ in 0..100 {
        match rng.u8(..20) {
            0 => handles.push(machine.open(rng.u32(..), &rights(rng))),
            1 if !handles.is_empty() => {
                machine.close(handles.swap_remove(rng.usize(..handles.len())));
            }
            2 => machine.begin(&workload),
            3 => {
                machine.sleep();
                machine.lose_registers();
                machine.wake();
            }
            6 | 7 if !handles.is_empty() => {
                let handle = handles[rng.usize(..handles.len())];
                sessions.extend(start(rng, &mut machine, handle).map(|number| (handle, number)));
            }
            4 | 5 => {
                machine.advance(rng.u64(..2_000_000));
            }
            _ => request(rng, &mut machine, &handles, &mut sessions),
        }
    }
    for handle in handles {
        machine.close(handle);
    }
    assert!(!machine.is_counting(), "counters were left on");
    assert_eq!(machine.faults(), [], "silicon refused");
}

fn rights(rng: &mut Rng) -> Vec<Access> {
    ALL_RIGHTS.iter().copied().filter(|_| rng.u8(..8) != 0).collect()
}

/// Opens, configures and starts a session as a correct client would, unless the machine refuses.
fn start(rng: &mut Rng, machine: &mut Model, handle: Handle) -> Option<u32> {
    let mut output = [0; 4096];
    let open = requests::bytes(&Plain { header: requests::header(session::KERNEL) }, &[]);
    machine.device_control(handle, session::OPEN, &open, &mut output);
    let (opened, _) = Opened::read_from_prefix(&output).ok()?;
    let sources: Vec<Spec> =
        [2, 6, 0x0B].into_iter().filter(|_| rng.bool()).map(requests::spec).collect();
    let configure = requests::configure(opened.session, session::SAMPLE * rng.u32(..2), &sources);
    machine.device_control(handle, session::CONFIGURE, &configure, &mut output);
    let start =
        session::Session { header: requests::header(0), session: opened.session, reserved: 0 };
    machine.device_control(handle, session::START, &requests::bytes(&start, &[]), &mut output);
    (opened.header.error == 0).then_some(opened.session)
}

/// One request from one of the clients, usually about one of its own sessions.
fn request(
    rng: &mut Rng,
    machine: &mut Model,
    handles: &[Handle],
    sessions: &mut Vec<(Handle, u32)>,
) {
    let latest = sessions.last().filter(|_| rng.u8(..4) != 0);
    let any = handles.get(rng.usize(..=handles.len()));
    let Some(&handle) = latest.map(|(handle, _)| handle).or(any) else {
        return;
    };
    let numbers = sessions.iter().rev().filter(|(owner, _)| *owner == handle || rng.u8(..8) == 0);
    let numbers: Vec<u32> = numbers.map(|(_, number)| *number).take(2).collect();
    let (code, input) = if rng.u8(..5) != 0 {
        requests::random_well_formed(rng, &numbers)
    } else {
        let (code, _) = RequestCode::ALL[rng.usize(..RequestCode::ALL.len())];
        let code = if rng.u8(..10) == 0 { RequestCode(rng.u32(..)) } else { code };
        (code, (0..rng.usize(..400)).map(|_| rng.u8(..)).collect())
    };
    let canary = 0xA5;
    let length = [0, 23, 24, 100, 4096, 1 << 16, 1 << 16, 1 << 16][rng.usize(..8)];
    let mut output = vec![canary; length];
    let (status, written) = machine.device_control(handle, code, &input, &mut output);
    assert!(written <= length);
    assert!(output[written..].iter().all(|&byte| byte == canary), "written beyond the reply");
    if status == NtStatus::SUCCESS {
        let (header, _) = ReplyHeader::read_from_prefix(&output).expect("a reply has a header");
        assert_eq!(header.size as usize, written, "the reply does not tell its own length");
        if let (session::OPEN, Ok((opened, _))) = (code, Opened::read_from_prefix(&output))
            && header.error == 0
        {
            sessions.push((handle, opened.session));
        }
        assert!(header.error == 0 || ErrorCode::from_wire(header.error).is_some());
    } else {
        assert_eq!(written, 0, "a failed request has no reply");
    }
}

/// Bytes that have a meaning for a reader of dumps.
const DAMAGE: &[u8] = b"\r\n:-[] \0\xFFCPUID09";

/// Random bytes, or a dump with random damage.
fn dump_case(rng: &mut Rng) {
    let mut text: Vec<u8> = if rng.u8(..4) == 0 {
        (0..rng.usize(..2000)).map(|_| rng.u8(..)).collect()
    } else {
        requests::dump_text(rng)
    };
    for _ in 0..rng.usize(..6) {
        if !text.is_empty() {
            let at = rng.usize(..text.len());
            match rng.u8(..4) {
                0 => text.truncate(at),
                1 => text[at] = rng.u8(..),
                2 => {
                    text.remove(at);
                }
                _ => text.insert(at, DAMAGE[rng.usize(..DAMAGE.len())]),
            }
        }
    }
    match sim::machines::dump::parse(&text) {
        Ok(leaves) => {
            assert!((1..=2048).contains(&leaves.len()));
            let mut machine = Model::new(&leaves[..leaves.len().min(4)]);
            let handle = machine.open(1, ALL_RIGHTS);
            start(rng, &mut machine, handle);
            machine.begin(&Workload::default());
            machine.advance(1_000_000);
            machine.close(handle);
            let text = String::from_utf8_lossy(&text);
            assert_eq!(machine.faults(), [], "silicon refused\n{text}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A recording of random blocks, whose checksums are right or wrong, with random damage: the reader
/// must return, with no more samples than there are bytes for.
fn recording_case(rng: &mut Rng) {
    let mut bytes = [&file::MAGIC[..], &file::VERSION.to_le_bytes()].concat();
    bytes.extend(block(rng, *b"META", b"{}"));
    for _ in 0..rng.usize(..8) {
        let payload = payload(rng);
        let tag = [*b"SAMP", *b"PROC", *b"MODU", *b"STAT", *b"END ", *b"META", *b"NEW "];
        let tag = tag[rng.usize(..tag.len())];
        bytes.extend(block(rng, tag, &payload));
    }
    for _ in 0..rng.usize(..3) {
        let at = rng.usize(..bytes.len());
        match rng.u8(..3) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = rng.u8(..),
            _ => bytes.insert(at, rng.u8(..)),
        }
    }
    let mut samples = 0;
    let reader = file::Reader::new(Path::new("a.rec"), &bytes[..]);
    match reader.and_then(|reader| reader.samples(|part| samples += part.len() as u64)) {
        Ok(recording) => {
            assert_eq!(recording.samples, samples);
            assert!(samples * 40 <= bytes.len() as u64, "samples from nowhere");
            let whole = recording.ending.is_some() && recording.damage.is_none();
            assert_eq!(recording.damaged().is_none(), whole);
        }
        Err(error) => assert_eq!(error.code(), "bad-file"),
    }
}

fn block(rng: &mut Rng, tag: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = match rng.u8(..20) {
        0 => rng.u32(..),
        _ => payload.len() as u32,
    };
    let sum = match rng.u8(..20) {
        0 => rng.u32(..),
        _ => crc32fast::hash(payload),
    };
    let mut block = [tag, length.to_le_bytes(), sum.to_le_bytes()].concat();
    block.extend(crc32fast::hash(&block).to_le_bytes());
    block.extend(payload);
    block
}

/// Samples, a description, or something else.
fn payload(rng: &mut Rng) -> Vec<u8> {
    let descriptions: [&[u8]; 9] = [
        b"[]",
        b"{}",
        br#"[{"id": 4, "name": "System"}]"#,
        br#"[{"process": 4, "name": "a", "start": 18446744073709551615, "end": 0}]"#,
        br#"[{"name": "a", "start": 1, "end": 2, "identity": {"build-id": "00"}}]"#,
        br#"{"generated": 18446744073709551615, "lost": {"ring-full": 18446744073709551615, "x": 1}}"#,
        br#"{"samples": 18446744073709551615}"#,
        br#"{"samples": 3, "interrupted": true}"#,
        b"[[[[[[[[[[[[[[[[[[[[",
    ];
    match rng.u8(..3) {
        0 => descriptions[rng.usize(..descriptions.len())].to_vec(),
        1 => vec![rng.u8(..); 40 * rng.usize(..5)],
        _ => (0..rng.usize(..100)).map(|_| rng.u8(..)).collect(),
    }
}

/// A trace of random events, with random damage and its compression on or off: the reader must return,
/// with no more events than there are bytes for.
fn etw_case(rng: &mut Rng) {
    let mut bytes = written_trace(rng);
    for _ in 0..rng.usize(..6) {
        // Mostly where structure is: the header of a buffer, or of its first events.
        let anywhere = rng.usize(..bytes.len());
        let near = anywhere / 1024 * 1024 + rng.usize(..160);
        let at = if rng.bool() { anywhere } else { near.min(bytes.len() - 1) };
        match rng.u8(..6) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.insert(at, rng.u8(..)),
            2 => bytes[at] ^= 1 << rng.u8(..8),
            _ => bytes[at] = rng.u8(..),
        }
    }
    let length = bytes.len() as u64;
    let Ok(mut trace) = Trace::open(Cursor::new(bytes)) else {
        return;
    };
    let pointer = trace.pointer_size();
    let is_compressed = trace.header().is_compressed();
    let (mut threads, mut slices) = (Threads::default(), Slices::new(trace.clock()));
    let (mut joiner, mut returned, mut samples) = (Joiner::new(rng.u64(..1000)), 0, 0);
    let (mut branches, mut sampled) = (BranchRecords::default(), Vec::new());
    let (mut added, mut entries) = (0, 0);
    while let Some(event) = trace.next_event().expect("bytes in memory") {
        let (time, processor) = (event.time, event.processor);
        joiner.stacks_of(&event);
        match event.kind {
            EventKind::Sample(sample) => {
                samples += 1;
                sampled.push((time, sample.thread, processor));
                let mode = Half::of(sample.ip, pointer);
                joiner.event(time, sample.thread, processor, mode, ());
            }
            EventKind::LastBranches(ref records) => {
                added += 1;
                branches.add(processor, records);
            }
            EventKind::Switch(ref switch) => {
                let pair = (switch.old_thread, switch.new_thread);
                slices.switch(&mut threads, processor, time, pair, event.counters.iter());
                while slices.next_slice().is_some() {}
            }
            _ => {}
        }
        threads.event(&event);
        returned += std::iter::from_fn(|| joiner.next_joined()).count();
    }
    returned += std::iter::from_fn(|| joiner.pop()).count();
    assert_eq!(returned, samples, "each sample comes out once");
    let mut taken = 0;
    for (time, thread, processor) in sampled {
        if let Some(records) = branches.take(time, thread, processor) {
            taken += 1;
            entries += records.entries.len() as u64;
        }
    }
    assert_eq!(
        taken + branches.left().count(),
        added,
        "each of the branch records is of one event"
    );
    assert!(is_compressed || entries * 12 <= length, "branches from nowhere");
    assert!(is_compressed || trace.events() * 8 <= length, "events from nowhere");
}

/// A trace of two processors.
fn written_trace(rng: &mut Rng) -> Vec<u8> {
    let pointer_size = [PointerSize::Four, PointerSize::Eight][rng.usize(..2)];
    let clocks = [ClockType::PerformanceCounter, ClockType::SystemTime, ClockType::ProcessorCycles];
    let session = Session {
        pointer_size,
        buffer_size: 1024,
        processors: 2,
        clock_type: clocks[rng.usize(..3)],
        perf_freq: rng.u64(1..1 << 32),
        cpu_mhz: 3000,
        origin: 0,
        start_time: rng.u64(..),
        name: "fuzz".into(),
        file_name: "fuzz.etl".into(),
    };
    let mut writer = Writer::new(Cursor::new(Vec::new()), session).expect("a session");
    let frames: Vec<u8> = (0..rng.usize(..100)).map(|_| rng.u8(..)).collect();
    for time in 0..rng.i64(1..200) {
        let (thread, process) = (4 * rng.u32(..3), 4);
        let origin = Origin { time, processor: rng.u16(..2), thread, process };
        let event_time = u64::from(rng.u8(..)).min(time.cast_unsigned());
        let kind = match rng.u8(..8) {
            0 | 1 => EventKind::Sample(Sample { thread, ip: rng.u64(..), ..Sample::default() }),
            2 => {
                let frames = Frames::from_bytes(&frames, pointer_size);
                EventKind::Stack(Stack { event_time, process, thread, frames })
            }
            3 => {
                let key = rng.u64(..4);
                let half = if rng.bool() { Half::User } else { Half::Kernel };
                EventKind::StackKey(StackKey { event_time, process, thread, half, key })
            }
            4 => {
                let whole = frames.len() - frames.len() % (3 * pointer_size.bytes());
                let entries = Entries::from_bytes(&frames[..whole], pointer_size);
                let filter = rng.u32(..);
                EventKind::LastBranches(LastBranches {
                    event_time,
                    process,
                    thread,
                    filter,
                    entries,
                })
            }
            5 => EventKind::Switch(Switch { new_thread: thread, ..Switch::default() }),
            6 => EventKind::Thread(Box::new(Thread {
                name: rng.bool().then(|| "name".to_owned()),
                ..Thread::new(Change::End, process, thread)
            })),
            _ => EventKind::CounterNames(CounterNames { names: vec!["A".into(); rng.usize(..9)] }),
        };
        let counters: Vec<u64> = (0..rng.usize(..8)).map(|_| rng.u64(..)).collect();
        writer.event(origin, &kind, &counters).expect("it fits");
    }
    let mut bytes = writer.finish(0).expect("a file").into_inner();
    if rng.u8(..4) == 0 {
        // The mode and the state that say so: buffers whose flag is set are read as compressed.
        bytes[72 + 32 + 32 + 3] |= 4;
        bytes[44] = 3;
        let buffer = rng.usize(..bytes.len() / 1024) * 1024;
        bytes[buffer + 52] |= 0x40;
    }
    bytes
}

/// A session that is delivered while it runs, or now and then more than anybody reads.
fn live_case(rng: &mut Rng) {
    if rng.u8(..) != 0 {
        live_delivery::case(rng);
        return;
    }
    let allocated = measure(|| live_delivery::flood(rng));
    assert!(allocated.bytes_max <= live_delivery::MEMORY, "{} bytes", allocated.bytes_max);
}

/// A symbol file of random amounts: its readers must take no more memory, stack and allocations than
/// its length is worth, and show no name and no depth beyond their limits.
fn symbols_case(rng: &mut Rng) {
    /// As programs have it on Windows.
    const STACK: usize = 2 << 20;
    /// Bytes of memory for each byte that a file may become.
    const MEMORY: u64 = 8;
    const ALLOCATIONS: u64 = 8 << 20;
    let file = symbol_files::random::file(rng);
    let length = file.contents.len() as u64;
    let look_up = move || {
        let folder = tempfile::tempdir().expect("a folder");
        let mut found = None;
        let allocated = measure(|| found = Some(file.look_up(folder.path())));
        (found.expect("looked up"), allocated)
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(look_up).expect("a thread");
    let ((frames, opened), allocated) = match thread.join() {
        Ok(found) => found,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let most = MEMORY * budget::expanded(length);
    assert!(allocated.bytes_max <= most, "{} bytes for {length}", allocated.bytes_max);
    let count = allocated.count_total;
    assert!(count <= ALLOCATIONS, "{count} allocations for {length} bytes");
    for frame in &frames {
        assert!(frame.inlined.len() <= budget::DEPTH, "{} inlined", frame.inlined.len());
        let names = frame.inlined.iter().map(|inlined| &inlined.function);
        for name in names.chain(&frame.symbol).chain(&frame.file) {
            assert!(name.len() <= budget::NAME_SHOWN, "a name of {} bytes", name.len());
        }
    }
    // Whatever else it has, what it has first is found or said to be left out.
    let has_first = frames.first().is_some_and(|frame| frame.symbol.is_some());
    let is_silent = opened.limits.is_empty() && opened.notes.is_empty();
    let is_found = has_first || !opened.kind.names();
    assert!(is_found || !is_silent, "nothing was found or said: {opened:?}");
}
