//! Does each byte of the driver on the path of `stat` matter to what comes of it?
//!
//! One byte of an instruction that `stat` executes is changed, at positions from a seed; then the
//! same is asked of the changed driver. Replies, a rule that is broken, or a machine that cannot go
//! on must tell. A change that none of them tells must be one that cannot: [`Neutral`].

use halprof_tests::requests::{self, ALL_RIGHTS};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use nt_model::memory::IMAGE;
use nt_model::rules::Violation;
use nt_model::sequence::{Action, Replies};
use nt_model::{Device, Machine};
use object::{Object, ObjectSection};
use shared_types::request::session::{self, Session};
use shared_types::request::{Plain, RequestCode, counts};
use sim::models::{find, repeat};
use sim::workload;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

const POSITIONS: usize = 200;
const SEED: u64 = 7;
const WORK: &str = "instructions=300000,cycles=500000,branches=7000,processors=all";
/// Of the changes that are not proved neutral, so many in a hundred must be told.
const TOLD: usize = 100;

/// What `halprof stat` asks, start to end.
fn actions() -> Vec<Action> {
    const NUMBER: u32 = 1 << 8 | 1;
    let header = requests::header(session::KERNEL);
    let open = requests::bytes(&Plain { header }, &[]);
    let specs = [2, 6].map(requests::spec);
    let about = Session {
        header: requests::header(0),
        session: NUMBER,
        reserved: 0,
    };
    let about = requests::bytes(&about, &[]);
    let ask = |code: RequestCode, input: &[u8]| Action::Request(1, code, input.to_vec(), 4096);
    vec![
        Action::Open(1, 1001, ALL_RIGHTS.to_vec()),
        ask(session::OPEN, &open),
        ask(
            session::CONFIGURE,
            &requests::configure(NUMBER, 0, &specs),
        ),
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

/// Runs it, from loading the driver to unloading it.
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

/// What came of it: [`None`] where the machine could not go on.
fn outcome(file: &[u8]) -> Option<Result<(u32, Replies), String>> {
    let run = catch_unwind(AssertUnwindSafe(|| stat(file, |_| {})));
    Some(run.ok()?.map_err(|violation| violation.what))
}

/// The code of the file, and where it is.
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

/// Why a change cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Neutral {
    /// The bytes are another encoding of the same instruction.
    Encoding,
}

fn neutral(text: &Text, address: u64, changed: &[u8]) -> Option<Neutral> {
    let before = text.instruction(&text.bytes, address);
    let after = text.instruction(changed, address);
    (before == after && before.len() == after.len()).then_some(Neutral::Encoding)
}

/// One change.
struct Change {
    /// The instruction's address.
    address: u64,
    /// The byte's place in the code.
    at: usize,
    /// What is flipped in it.
    bits: u8,
}

fn changes(text: &Text, executed: &HashSet<u64>) -> Vec<Change> {
    let mut addresses: Vec<u64> = executed
        .iter()
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
        .map(|(address, at)| Change {
            address,
            at,
            bits: rng.u8(1..),
        })
        .collect()
}

#[test]
fn a_changed_byte_changes_what_comes_of_it() {
    let file = std::fs::read("../../target/driver/halprof.sys").expect("cargo xtask sys");
    let text = Text::of(&file);
    let mut executed = HashSet::new();
    let right = stat(&file, |machine| {
        let bus = machine.engine.bus();
        executed = bus.trace.replace(HashSet::new()).unwrap_or_default();
    });
    let right = Some(right.map_err(|violation| violation.what));
    assert!(matches!(right, Some(Ok((0, _)))), "{right:?}");
    let changes = changes(&text, &executed);
    assert_eq!(changes.len(), POSITIONS);
    std::panic::set_hook(Box::new(|_| {}));
    let silent = silent(&file, &text, &changes, &right);
    let _ = std::panic::take_hook();
    let untold: Vec<_> = silent.iter().filter(|(_, why)| why.is_none()).collect();
    let proved = silent.len() - untold.len();
    let told = changes.len() - silent.len();
    println!("{told} of {} changed bytes are told, {proved} are proved neutral", changes.len());
    let lines: Vec<String> = untold
        .iter()
        .map(|(change, _)| {
            let mut bytes = text.bytes.clone();
            bytes[change.at] ^= change.bits;
            let before = text.instruction(&text.bytes, change.address);
            let after = text.instruction(&bytes, change.address);
            format!("{:#x}: {before} -> {after}", change.address - IMAGE)
        })
        .collect();
    let must = (changes.len() - proved) * TOLD / 100;
    assert!(told >= must, "not told:\n{}", lines.join("\n"));
}

/// The changes that nothing tells, each with why it cannot be told, where that is known.
fn silent<'a>(
    file: &[u8],
    text: &Text,
    changes: &'a [Change],
    right: &Option<Result<(u32, Replies), String>>,
) -> Vec<(&'a Change, Option<Neutral>)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut silent = Vec::new();
        while let Some(change) = changes.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut changed = file.to_vec();
            changed[text.offset + change.at] ^= change.bits;
            if outcome(&changed) == *right {
                let code = &changed[text.offset..text.offset + text.bytes.len()];
                silent.push((change, neutral(text, change.address, code)));
            }
        }
        silent
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        let found = threads.into_iter();
        found
            .flat_map(|thread| thread.join().expect("a thread"))
            .collect()
    })
}
