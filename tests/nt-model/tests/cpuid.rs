//! Does the shipped driver keep the rules when a hypervisor changes what CPUID says?
//!
//! Random bits of the leaves that decide which registers there are, flipped in dumps of real
//! processors; the modelled silicon is what the changed leaves declare. The driver counts, samples
//! and records branches on it. No rule may be broken, and no register be missed at START: what
//! CPUID does not promise is not asked for.

use crate::client::Client;
use fastrand::Rng;
use halprof_tests::requests::{bytes, configuration, header, spec};
use halprof_tests::wire::{about, plain};
use halprof_tests::{driver, dumps};
use nt_model::soak::sweep;
use nt_model::{Device, Violation};
use shared_types::ErrorCode;
use shared_types::request::session::{self, Configure, SAMPLE};
use shared_types::request::{RequestCode, counts, machine, samples};
use sim::cpu::cpuid::{CpuidResult, Leaves};
use sim::machines::dump;
use std::fmt::Write;
use std::path::PathBuf;

const SOURCES: [u32; 2] = [2, 6];
const WORK: &str = "instructions=300000,cycles=400000,branches=30000,user=70,processors=all";
const ROOM: usize = 1 << 16;

/// A leaf, its sub-leaf if it has any, and which of EAX to EDX change.
const FLIPPED: [(u32, Option<u32>, [bool; 4]); 9] = [
    // Not the signature: another model is another dump.
    (1, None, [false, true, true, true]),
    (7, Some(0), [true; 4]),
    (7, Some(1), [true; 4]),
    (0xA, None, [true; 4]),
    (0x23, Some(0), [true; 4]),
    (0x23, Some(1), [true; 4]),
    (0x23, Some(3), [true; 4]),
    (0x8000_0001, None, [false, true, true, true]),
    (0x8000_0022, None, [true; 4]),
];
/// The bits on which it depends which registers there are: leaf, sub-leaf, register, bit.
const PROMISES: [(u32, Option<u32>, usize, u32); 15] = [
    // PDCM, x2APIC; MSR, APIC, debug store.
    (1, None, ECX, 15),
    (1, None, ECX, 21),
    (1, None, EDX, 5),
    (1, None, EDX, 9),
    (1, None, EDX, 21),
    // Hybrid, architectural LBR.
    (7, Some(0), EDX, 15),
    (7, Some(0), EDX, 19),
    // Four bits that each version from 1 to 6, and each number of general counters, has one of.
    (0xA, None, EAX, 0),
    (0xA, None, EAX, 1),
    (0xA, None, EAX, 2),
    (0xA, None, EAX, 10),
    // PerfCtrExtCore; PerfMonV2, LbrStack, LbrAndPmcFreeze.
    (0x8000_0001, None, ECX, 23),
    (0x8000_0022, None, EAX, 0),
    (0x8000_0022, None, EAX, 1),
    (0x8000_0022, None, EAX, 2),
];
const EAX: usize = 0;
const ECX: usize = 2;
const EDX: usize = 3;
/// The hypervisor's: its interface, its features, its hints, what of the hardware it uses.
const HYPERVISOR: [u32; 4] = [0x4000_0001, 0x4000_0003, 0x4000_0004, 0x4000_0006];
/// Hv#1, from Microsoft.
const HV1: [(u32, [u32; 4]); 4] = [
    (0x4000_0000, [0x4000_0006, 0x7263_694D, 0x666F_736F, 0x7648_2074]),
    (0x4000_0001, [0x3123_7648, 0, 0, 0]),
    // CreatePartitions is clear: a guest.
    (0x4000_0003, [0, 0, 0, 0]),
    (0x4000_0006, [0, 0, 0, 0]),
];

/// The dumps of processors that the shipped driver may use: their names and leaves.
fn all_dumps() -> Vec<(String, Vec<Leaves>)> {
    let Some(folder) = dumps::folder() else { return Vec::new() };
    let entries = std::fs::read_dir(folder).expect("the dumps");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a dump").path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let leaves = dump::parse(&std::fs::read(&path).expect("a dump")).ok()?;
        let first = leaves.first()?;
        let amd = matches!(&first.get(0, 0).ebx.to_le_bytes(), b"Auth" | b"Hygo");
        let served = first.get(0xA, 0).eax & 0xFF != 0 || amd;
        let both = [first.clone(), leaves.last()?.clone()];
        let name = path.file_name()?.to_string_lossy().into_owned();
        served.then(|| (name, both.to_vec()))
    };
    files.into_iter().filter_map(read).collect()
}

fn change(leaves: &mut Leaves, leaf: u32, subleaf: Option<u32>, value: CpuidResult) {
    match subleaf {
        Some(subleaf) => leaves.insert_subleaf(leaf, subleaf, value),
        None => leaves.insert(leaf, value),
    }
}

fn register(leaves: &Leaves, leaf: u32, subleaf: Option<u32>, register: usize) -> u32 {
    let CpuidResult { eax, ebx, ecx, edx } = leaves.get(leaf, subleaf.unwrap_or(0));
    [eax, ebx, ecx, edx][register]
}

/// Flips one bit, the same on every processor.
fn flip_one(
    processors: &mut [Leaves],
    (leaf, subleaf, register, bit): (u32, Option<u32>, usize, u32),
) {
    for leaves in processors {
        let CpuidResult { eax, ebx, ecx, edx } = leaves.get(leaf, subleaf.unwrap_or(0));
        let mut all = [eax, ebx, ecx, edx];
        all[register] ^= 1 << bit;
        let [eax, ebx, ecx, edx] = all;
        change(leaves, leaf, subleaf, CpuidResult { eax, ebx, ecx, edx });
    }
}

/// Which of [`PROMISES`] a processor makes.
fn promises(leaves: &Leaves) -> [bool; PROMISES.len()] {
    PROMISES.map(|(leaf, subleaf, number, bit)| {
        leaves.contains(leaf) && register(leaves, leaf, subleaf, number) >> bit & 1 == 1
    })
}

/// Flips a few bits, the same on every processor; returns what was changed, in words.
fn flip(processors: &mut [Leaves], rng: &mut Rng) -> String {
    let mut words = String::new();
    if rng.u8(..3) == 0 {
        for leaves in &mut *processors {
            let ecx = leaves.get(1, 0).ecx | 1 << 31;
            leaves.insert(1, CpuidResult { ecx, ..leaves.get(1, 0) });
            for (leaf, [eax, ebx, ecx, edx]) in HV1 {
                leaves.insert(leaf, CpuidResult { eax, ebx, ecx, edx });
            }
        }
        words.push_str(" under Hv#1");
    }
    let there: Vec<(u32, Option<u32>, [bool; 4])> = FLIPPED
        .into_iter()
        .chain(HYPERVISOR.map(|leaf| (leaf, None, [true; 4])))
        .filter(|&(leaf, ..)| processors[0].contains(leaf))
        .collect();
    for _ in 0..rng.u8(1..=4) {
        let (leaf, subleaf, which) = there[rng.usize(..there.len())];
        let registers: Vec<usize> = (0..4).filter(|&register| which[register]).collect();
        let (register, bit) = (registers[rng.usize(..registers.len())], rng.u32(..32));
        flip_one(processors, (leaf, subleaf, register, bit));
        let name = ["EAX", "EBX", "ECX", "EDX"][register];
        write!(words, " {leaf:#x}.{subleaf:?} {name}[{bit}]").expect("a string");
    }
    words
}

/// A session that counts, samples, or records as many branches; returns the register that START has
/// missed, and whether it started.
fn live(client: &mut Client, flags: u32, branches: u16) -> Result<(Option<u64>, bool), Violation> {
    let handle = client.handle.clone();
    let mut ask = |code: RequestCode, input: &[u8]| client.try_send(&handle, code, input, ROOM);
    let opened = ask(session::OPEN, &plain(session::KERNEL))?;
    if opened.refusal().is_some() {
        return Ok((None, false));
    }
    let number = opened.done::<session::Opened>().session;
    let specs = SOURCES.map(spec);
    let head = Configure {
        session: number,
        sources: specs.len() as u32,
        branches,
        ..configuration(flags)
    };
    let configured = ask(session::CONFIGURE, &bytes(&head, &specs))?.refusal();
    let started = ask(session::START, &about(number))?.refusal();
    let runs = configured.is_none() && started.is_none();
    if runs {
        client.begin(WORK);
        while client.model.advance(u64::MAX / 4)? {}
    }
    for code in [counts::SNAPSHOT, samples::DRAIN, session::STOP, session::CLOSE] {
        client.try_send(&handle, code, &about(number), ROOM)?;
    }
    let missed = started.filter(|refusal| refusal.0 == ErrorCode::CountersDead);
    Ok((missed.map(|refusal| refusal.2).filter(|&register| register != 0), runs))
}

/// Everything that one machine is asked; returns how many sessions ran.
fn ask_all(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<u32, String> {
    let broken = |violation: Violation| violation.to_string();
    let mut device = Device::new(file, leaves, seed).map_err(|error| error.to_string())?;
    let status = device.start().map_err(broken)?;
    if status != 0 {
        return Err(format!("the driver does not start: {status:#x}"));
    }
    let mut client = Client::on(device);
    let handle = client.handle.clone();
    let from = bytes(&machine::From { header: header(0), first: 0, reserved: 0 }, &[]);
    for code in [machine::PROCESSORS, machine::REGISTERS] {
        client.try_send(&handle, code, &from, ROOM).map_err(broken)?;
    }
    let mut ran = 0;
    for (flags, branches) in [(0, 0), (SAMPLE, 0), (SAMPLE, 8)] {
        let (missed, runs) = live(&mut client, flags, branches).map_err(broken)?;
        if let Some(register) = missed {
            return Err(format!("START misses {register:#x}, which CPUID does not promise"));
        }
        ran += u32::from(runs);
    }
    client.model.close(&handle).map_err(broken)?;
    client.model.remove().map_err(broken)?;
    Ok(ran)
}

fn no_rule_is_broken(seeds: std::ops::Range<u64>) {
    let dumps = all_dumps();
    let Some(file) = driver::file().filter(|_| !dumps.is_empty()) else { return };
    let runs = seeds.end - seeds.start;
    let results = sweep(seeds, |seed| {
        let mut rng = Rng::with_seed(seed);
        let (name, leaves) = &dumps[rng.usize(..dumps.len())];
        let mut leaves = leaves.clone();
        let words = flip(&mut leaves, &mut rng);
        ask_all(&file, &leaves, seed).map_err(|error| format!("{seed}, {name}{words}: {error}"))
    });
    let failures: Vec<String> = results.iter().filter_map(|one| one.clone().err()).collect();
    assert!(failures.is_empty(), "{} of {runs}:\n{}", failures.len(), failures.join("\n"));
    let ran: u32 = results.into_iter().flatten().sum();
    println!("{ran} sessions ran in {runs} machines");
    assert!(u64::from(ran) > runs / 2, "{ran} sessions ran in {runs} machines");
}

/// Each promise that a processor makes is taken back, alone, on one dump of each kind.
#[test]
fn a_promise_that_is_not_made_breaks_no_rule() {
    let Some(file) = driver::file() else { return };
    let mut kinds = Vec::new();
    for (name, leaves) in all_dumps() {
        let made = promises(&leaves[0]);
        if !kinds.iter().any(|(_, _, others)| *others == made) {
            kinds.push((name, leaves, made));
        }
    }
    let cases: Vec<_> = kinds
        .iter()
        .flat_map(|kind| PROMISES.into_iter().zip(kind.2).map(move |(bit, made)| (kind, bit, made)))
        .filter(|&(.., made)| made)
        .collect();
    let results = sweep(0..cases.len() as u64, |case| {
        let ((name, leaves, _), bit, _) = &cases[case as usize];
        let mut leaves = leaves.clone();
        flip_one(&mut leaves, *bit);
        let (leaf, _, register, number) = *bit;
        ask_all(&file, &leaves, case)
            .map_err(|error| format!("{name} {leaf:#x} {register} [{number}]: {error}"))
    });
    println!("{} dumps, {} cases", kinds.len(), cases.len());
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn flipped_bits_break_no_rule() {
    no_rule_is_broken(0..40);
}

#[test]
fn many_flipped_bits_break_no_rule() {
    no_rule_is_broken(1_000..1_500);
}
