//! Does each byte of the driver on the path of `stat` matter for the result?
//!
//! One byte of an instruction that `stat` executes is changed, at positions from a seed; then the
//! changed driver gets the same requests. Replies, a broken rule, or a machine that cannot go on
//! must reveal the change. A change that none of them reveals must be one that cannot matter here:
//! [`Neutral`].

use halprof_tests::requests::{self, ALL_RIGHTS};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use nt_model::engine::Trace;
use nt_model::memory::IMAGE;
use nt_model::rules::Violation;
use nt_model::sequence::{Action, Replies, Sequence};
use nt_model::{Device, Machine};
use object::{Object, ObjectSection};
use shared_types::request::session::{self, Session};
use shared_types::request::{Plain, RequestCode, counts, machine, source};
use sim::load::workload;
use sim::machines::models::{MODELS, find, repeat};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

const POSITIONS: usize = 200;
const SEED: u64 = 7;
const WORK: &str = "instructions=300000,cycles=500000,branches=7000,processors=all";
/// At most this many changes may take another path to the same result: a longer way round, a
/// refusal that no one waits for.
const UNTOLD: usize = 12;
/// Seeds of the longer runs, each on a different model.
const LONGER: std::ops::Range<u64> = 0..8;
/// This percentage of all changes must be detected.
const TOLD: usize = 70;

/// The requests of `halprof info` and `halprof stat`, from start to end.
fn actions() -> Vec<Action> {
    const NUMBER: u32 = 1 << 8 | 1;
    let header = requests::header(session::KERNEL);
    let open = requests::bytes(&Plain { header }, &[]);
    let header = requests::header(0);
    let plain = requests::bytes(&Plain { header }, &[]);
    let from = machine::From { header, first: 0, reserved: 0 };
    let from = requests::bytes(&from, &[]);
    let specs = [2, 6].map(requests::spec);
    let about = Session { header: requests::header(0), session: NUMBER, reserved: 0 };
    let about = requests::bytes(&about, &[]);
    let ask = |code: RequestCode, input: &[u8]| Action::Request(1, code, input.to_vec(), 1 << 16);
    vec![
        Action::Open(1, 1001, ALL_RIGHTS.to_vec()),
        ask(machine::HELLO, &plain),
        ask(machine::DESCRIBE, &plain),
        ask(machine::PROCESSORS, &from),
        ask(source::ENUMERATE, &from),
        ask(session::OPEN, &open),
        ask(session::CONFIGURE, &requests::configure(NUMBER, 0, &specs)),
        ask(session::START, &about),
        Action::Begin,
        Action::Advance(200_000),
        ask(counts::SNAPSHOT, &about),
        Action::Advance(200_000),
        ask(session::STOP, &about),
        ask(session::CLOSE, &about),
        Action::Close(1),
    ]
}

/// Runs the scenario, from loading the driver to unloading it.
fn stat(file: &[u8], mut watch: impl FnMut(&mut Machine)) -> Result<(u32, Replies), Violation> {
    let leaves = repeat(&find("skylake").expect("a model").processors(), 2);
    let work = workload::parse(WORK).expect("a workload");
    let mut device = Device::new(file, &leaves, SEED).expect("a machine");
    watch(&mut device.machine);
    let status = device.start()?;
    let (mut open, mut replies) = (BTreeMap::new(), Vec::new());
    for action in actions() {
        replies.extend(action.perform(&mut device, &work, &mut open)?);
    }
    device.remove()?;
    watch(&mut device.machine);
    Ok((status, replies))
}

/// The result, and the path that led to it.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Status and replies, and what the driver told the framework; or the rule that was broken.
    result: Result<(u32, Replies, Vec<Vec<u8>>), String>,
    path: u64,
}

/// [`None`] if the machine could not go on.
fn outcome(file: &[u8]) -> Option<Outcome> {
    let run = || {
        let (mut told, mut path) = (Vec::new(), 0);
        let result = stat(file, |machine| {
            told.clone_from(&machine.framework.told);
            path = machine.engine.bus_ref().path;
        });
        let result = result.map(|(status, replies)| (status, replies, told));
        Outcome { result: result.map_err(|violation| violation.what), path }
    };
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// The code of the file, and its location.
struct Text {
    address: u64,
    offset: usize,
    bytes: Vec<u8>,
}

impl Text {
    fn of(file: &[u8]) -> Self {
        let pe = object::read::pe::PeFile64::parse(file).expect("a PE file");
        let text = pe.section_by_name(".text").expect("code");
        let (offset, _) = text.file_range().expect("in the file");
        Self {
            address: IMAGE + (text.address() - pe.relative_address_base()),
            offset: offset as usize,
            bytes: text.data().expect("bytes").to_vec(),
        }
    }

    fn instruction(&self, bytes: &[u8], address: u64) -> Instruction {
        let at = (address - self.address) as usize;
        let rest = &bytes[at..(at + 15).min(bytes.len())];
        Decoder::with_ip(64, rest, address, DecoderOptions::NONE).decode()
    }
}

/// What clients and the system do from a seed, on one of the models: the sequences of
/// differential.rs.
fn sequence(file: &[u8], seed: u64) -> Result<Replies, Violation> {
    const ACTIONS: usize = 60;
    let work = workload::parse(WORK).expect("a workload");
    let model = &MODELS[seed as usize % MODELS.len()];
    let mut device = Device::new(file, &repeat(&model.processors(), 2), seed).expect("a machine");
    device.start()?;
    let replies = Sequence::new(seed, &work).play(&mut device, ACTIONS, |_| {})?;
    device.remove()?;
    Ok(replies)
}

/// Whether a longer run detects a change that the short one does not.
fn longer_run_tells(file: &[u8], right: &[Replies]) -> bool {
    right.iter().zip(LONGER).any(|(right, seed)| {
        let run = catch_unwind(AssertUnwindSafe(|| sequence(file, seed)));
        !matches!(run, Ok(Ok(replies)) if replies == *right)
    })
}

/// Why a change is not detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Neutral {
    /// The bytes are another encoding of the same instruction.
    Encoding,
    /// A jump that is never taken here goes elsewhere: to an error's text, for example.
    NotTaken,
    /// The same instructions ran in the same order with the same results: the value decides nothing
    /// here, as in a comparison with a limit that is far away.
    SamePath,
    /// A longer run detects it.
    Longer,
    /// Other instructions ran, without a visible effect.
    OtherPath,
}

fn neutral(text: &Text, change: &Change, changed: &[u8], trace: &Trace, same: bool) -> Neutral {
    let before = text.instruction(&text.bytes, change.address);
    let after = text.instruction(changed, change.address);
    let target = before.near_branch_target();
    let taken = trace.get(&change.address).is_some_and(|next| next.contains(&target));
    if before == after && before.len() == after.len() {
        Neutral::Encoding
    } else if target != 0 && before.code() == after.code() && !taken {
        Neutral::NotTaken
    } else if same {
        Neutral::SamePath
    } else {
        Neutral::OtherPath
    }
}

/// One change.
struct Change {
    /// The instruction's address.
    address: u64,
    /// The byte's offset in the code.
    at: usize,
    /// The bits that are flipped in it.
    bits: u8,
}

fn changes(text: &Text, executed: &Trace) -> Vec<Change> {
    let mut addresses: Vec<u64> = executed
        .keys()
        .copied()
        .filter(|address| (text.address..text.address + text.bytes.len() as u64).contains(address))
        .collect();
    addresses.sort_unstable();
    let all: Vec<(u64, usize)> = addresses
        .iter()
        .flat_map(|&address| {
            let at = (address - text.address) as usize;
            let length = text.instruction(&text.bytes, address).len();
            (at..at + length).map(move |at| (address, at))
        })
        .collect();
    let mut rng = fastrand::Rng::with_seed(SEED);
    rng.choose_multiple(all, POSITIONS)
        .into_iter()
        .map(|(address, at)| Change { address, at, bits: rng.u8(1..) })
        .collect()
}

#[test]
fn a_changed_byte_changes_what_comes_of_it() {
    let file = std::fs::read("../../target/driver/halprof.sys").expect("cargo xtask sys");
    let text = Text::of(&file);
    let mut trace = Trace::new();
    let right = stat(&file, |machine| {
        let bus = machine.engine.bus();
        trace = bus.trace.replace(Trace::new()).unwrap_or_default();
    });
    assert!(matches!(right, Ok((0, _))), "{right:?}");
    let right = outcome(&file).expect("it runs");
    assert_eq!(right.result.as_ref().map(|result| result.2.len()), Ok(4));
    let longer: Vec<Replies> = LONGER.map(|seed| sequence(&file, seed).expect("it runs")).collect();
    let changes = changes(&text, &trace);
    assert_eq!(changes.len(), POSITIONS);
    std::panic::set_hook(Box::new(|_| {}));
    let silent = silent(&file, &text, &trace, &changes, (&right, &longer));
    let _ = std::panic::take_hook();
    let told = changes.len() - silent.len();
    let mut lines = vec![format!("{told} of {POSITIONS} changed bytes are told")];
    for (change, why) in &silent {
        let mut bytes = text.bytes.clone();
        bytes[change.at] ^= change.bits;
        let before = text.instruction(&text.bytes, change.address);
        let after = text.instruction(&bytes, change.address);
        let at = change.address - IMAGE;
        lines.push(format!("{why:?} at {at:#x}: {before} -> {after}"));
    }
    let lines = lines.join("\n");
    println!("{lines}");
    let other = silent.iter().filter(|(_, why)| *why == Neutral::OtherPath);
    assert!(other.count() <= UNTOLD, "{lines}");
    assert!(told >= POSITIONS * TOLD / 100, "{lines}");
}

/// The undetected changes, each with its reason, ordered by reason.
fn silent<'a>(
    file: &[u8],
    text: &Text,
    trace: &Trace,
    changes: &'a [Change],
    (right, longer): (&Outcome, &[Replies]),
) -> Vec<(&'a Change, Neutral)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut silent = Vec::new();
        while let Some(change) = changes.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut wrong = file.to_vec();
            wrong[text.offset + change.at] ^= change.bits;
            let Some(came) = outcome(&wrong).filter(|came| came.result == right.result) else {
                continue;
            };
            let code = &wrong[text.offset..text.offset + text.bytes.len()];
            let same = came.path == right.path;
            let why = if longer_run_tells(&wrong, longer) {
                Neutral::Longer
            } else {
                neutral(text, change, code, trace, same)
            };
            silent.push((change, why));
        }
        silent
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        let found = threads.into_iter();
        found.flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    all.sort_by_key(|(change, why)| (*why, change.at));
    all
}
