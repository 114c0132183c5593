//! CPUID promises a register, and the access raises #GP. Is START refused for every register of its
//! program, with the register's number, and does nothing else happen?
//!
//! Which registers a program needs is written here from the manuals, not taken from the core.

use crate::backend::Backend;
use crate::requests::{bytes, configuration, header, spec};
use crate::wire::{RawClient, Reply, first, leaves};
use shared_types::request::machine::{From, REGISTERS, Register, Registers};
use shared_types::request::session::{self, Configure, SAMPLE, Spec};
use shared_types::{ErrorCode, ProfileSource};
use sim::cpu::cpuid::Leaves;
use sim::machines::dump;
use sim::quirks::Quirks;
use std::collections::BTreeSet;

scenarios![
    each_register_of_a_program_is_missed_at_start,
    discovery_goes_on_without_a_register,
    registers_that_are_absent_are_not_listed,
    an_added_processor_ends_the_session,
];

const TOTAL_ISSUES: u32 = 2;
const WORK: &str = "instructions=300000,cycles=400000,branches=3000,user=50,processors=all";
/// AMD's retired FLOPs, which take two counters.
const FLOPS: u64 = 0xFF03;

/// Registers of Intel's units, whether a program uses them or not (SDM vol. 4): the local APIC's
/// base, selects, counters and their aliases, fixed counters, capabilities, controls; branch
/// records, the first and the last; LVTPC.
const INTEL: &[(u32, u32)] = &[
    (0x1B, 1),
    (0x186, 8),
    (0xC1, 8),
    (0x4C1, 8),
    (0x309, 4),
    (0x345, 1),
    (0x38D, 4),
    (0x1C8, 2),
    (0x1D9, 1),
    (0x14CE, 2),
    (0x680, 1),
    (0x69F, 1),
    (0x6DF, 1),
    (0xDDF, 1),
    (0x1500, 1),
    (0x151F, 1),
    (0x161F, 1),
    (0x121F, 1),
    (0x834, 1),
];
/// The same of AMD's (APM vol. 2).
const AMD: &[(u32, u32)] = &[
    (0x1B, 1),
    (0xC001_0000, 8),
    (0xC001_0200, 12),
    (0xC000_0300, 3),
    (0x1D9, 1),
    (0xC000_010E, 2),
    (0xC001_0300, 1),
    (0xC001_031F, 1),
];
/// Some of the Pentium 4's.
const NETBURST: &[(u32, u32)] =
    &[(0x1A0, 1), (0x30C, 6), (0x36C, 6), (0x3B8, 2), (0x3CA, 2), (0x3F1, 2)];

/// A program, and the registers that it needs.
struct Case {
    name: &'static str,
    leaves: Leaves,
    flags: u32,
    specs: Vec<Spec>,
    branches: u16,
    candidates: &'static [(u32, u32)],
    /// What START reads and writes, or only one of them.
    both: &'static [u32],
    read: &'static [u32],
    written: &'static [u32],
}

fn case(name: &'static str, model: &str, flags: u32, specs: &[Spec]) -> Case {
    Case {
        name,
        leaves: first(model),
        flags,
        specs: specs.to_vec(),
        branches: 0,
        candidates: INTEL,
        both: &[],
        read: &[],
        written: &[],
    }
}

/// A raw event on one general counter.
fn raw(event: u64, counter: u32, group: u16) -> Spec {
    Spec { raw: event, counters: 1 << counter, group, ..spec(ProfileSource::RAW.0) }
}

fn nehalem() -> Leaves {
    dump::parse(include_bytes!("../../data/cpuid/nehalem.txt")).expect("a dump").remove(0)
}

fn cases() -> Vec<Case> {
    let instructions = [spec(TOTAL_ISSUES)];
    let in_user_mode = [Spec { filter: Spec::USER, ..spec(TOTAL_ISSUES) }];
    let flops = [Spec { raw: FLOPS, ..spec(ProfileSource::RAW.0) }];
    // Counter 1 is used in the second slice only.
    let slices = [raw(0xC0, 0, 0), raw(0x3C, 0, 1), raw(0xC4, 1, 1)];
    vec![
        Case {
            both: &[0x186, 0xC1, 0x38F],
            read: &[0x38E],
            written: &[0x390],
            ..case("Core 2 counts", "core2", 0, &instructions)
        },
        Case {
            both: &[0x309, 0x38D, 0x38F],
            // IA32_DEBUGCTL: whether overflows freeze.
            read: &[0x38E, 0x1D9],
            written: &[0x390],
            ..case("Skylake samples", "skylake", SAMPLE, &instructions)
        },
        Case {
            both: &[0x186, 0x4C1, 0x187, 0x4C2, 0x38F],
            read: &[0x38E],
            written: &[0x390],
            ..case("Skylake takes turns", "skylake", 0, &slices)
        },
        Case {
            leaves: leaves("skylake", 300).remove(299),
            both: &[0x309, 0x38D, 0x38F],
            read: &[0x38E, 0x1D9],
            written: &[0x390, 0x834],
            ..case("Skylake in x2APIC mode", "skylake", SAMPLE, &instructions)
        },
        Case {
            branches: 32,
            both: &[0x309, 0x38D, 0x38F, 0x1C8, 0x1D9, 0x680, 0x69F, 0x6DF, 0xDDF],
            read: &[0x38E, 0x1C9],
            written: &[0x390],
            ..case("Skylake records branches", "skylake", SAMPLE, &in_user_mode)
        },
        Case {
            branches: 32,
            both: &[0x309, 0x38D, 0x38F, 0x1D9, 0x14CE, 0x14CF],
            // A write of the depth clears the records.
            read: &[0x38E, 0x1500, 0x151F, 0x161F, 0x121F],
            written: &[0x390],
            ..case("Sapphire Rapids records branches", "sapphire-rapids", SAMPLE, &in_user_mode)
        },
        Case {
            leaves: nehalem(),
            // The reset runs all four general counters.
            both: &[0x309, 0x38D, 0x38F, 0x186, 0x187, 0x188, 0x189, 0xC1, 0xC2, 0xC3, 0xC4],
            read: &[0x38E],
            written: &[0x390],
            ..case("Nehalem is reset", "skylake", SAMPLE, &instructions)
        },
        Case {
            candidates: AMD,
            both: &[0xC001_0000, 0xC001_0004],
            ..case("K10 samples", "fam10h", SAMPLE, &instructions)
        },
        Case {
            candidates: AMD,
            both: &[0xC001_0200, 0xC001_0201],
            ..case("Zen 2 counts", "zen2", 0, &instructions)
        },
        Case {
            candidates: AMD,
            both: &[0xC001_0200, 0xC001_0201, 0xC001_0202, 0xC001_0203, 0xC000_0301],
            read: &[0xC000_0300],
            written: &[0xC000_0302],
            ..case("Zen 4 counts FLOPs", "zen4", 0, &flops)
        },
        Case {
            branches: 16,
            candidates: AMD,
            both: &[
                0xC001_0200,
                0xC001_0201,
                0xC000_0301,
                0x1D9,
                0xC000_010E,
                0xC000_010F,
                0xC001_0300,
                0xC001_031F,
            ],
            read: &[0xC000_0300],
            written: &[0xC000_0302],
            ..case("Zen 4 records branches", "zen4", SAMPLE, &in_user_mode)
        },
        Case {
            candidates: NETBURST,
            // MSR_IQ_COUNTER0 and CRU_ESCR0; every CCCR is turned off.
            both: &[0x30C, 0x36C, 0x36D, 0x36E, 0x36F, 0x370, 0x371, 0x3B8],
            ..case("Pentium 4 counts", "pentium4", 0, &instructions)
        },
    ]
}

/// Runs the program; if START is refused, with which error, and about which register.
fn run<B: Backend>(case: &Case, quirks: Quirks) -> Option<(ErrorCode, u64)> {
    let mut client = RawClient::<B>::of(&[case.leaves.with_quirks(quirks)]);
    let number = client.open();
    let head = Configure {
        session: number,
        sources: case.specs.len() as u32,
        branches: case.branches,
        ..configuration(case.flags)
    };
    let configured = client.send(session::CONFIGURE, &bytes(&head, &case.specs));
    let mut outcome = configured.refusal().map(|(error, _, _)| (error, 0));
    if outcome.is_none() {
        // The second time finds what the first has left.
        let mut start = || client.about(session::START, number).refusal();
        let refusal = start();
        if refusal.is_none() {
            client.work(WORK);
            client.granted(session::STOP, number);
        } else {
            let again = start();
            assert_eq!(again, refusal, "{}: {quirks}", case.name);
        }
        outcome = refusal.map(|(error, processor, register)| {
            assert_eq!(processor, 0, "{}: {quirks}", case.name);
            (error, register)
        });
    }
    // No rule was broken, and nothing was left.
    client.end();
    outcome
}

fn each_register_of_a_program_is_missed_at_start<B: Backend>() {
    for case in cases() {
        assert_eq!(run::<B>(&case, Quirks::default()), None, "{}", case.name);
        let candidates = case.candidates.iter().flat_map(|&(first, count)| first..first + count);
        let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
        for msr in candidates {
            for (quirks, missed) in [
                (Quirks::absent(Some(msr), None), &mut read),
                (Quirks::absent(None, Some(msr)), &mut written),
            ] {
                match run::<B>(&case, quirks) {
                    Some((ErrorCode::CountersDead, register)) => {
                        assert_eq!(register, u64::from(msr), "{}: {quirks}", case.name);
                        missed.insert(msr);
                    }
                    // What is discovered without it offers less.
                    Some(_) => {
                        assert!(matches!(msr, 0x1B | 0x345 | 0x834), "{}: {quirks}", case.name);
                    }
                    None => {}
                }
            }
        }
        let expected =
            |alone: &[u32]| -> BTreeSet<u32> { case.both.iter().chain(alone).copied().collect() };
        assert_eq!(read, expected(case.read), "{}: by read", case.name);
        assert_eq!(written, expected(case.written), "{}: by write", case.name);
    }
}

/// The registers that discovery reads, and those that nothing but a session touches.
fn discovery_goes_on_without_a_register<B: Backend>() {
    for (model, msr) in [
        ("skylake", 0x1B),
        ("skylake", 0x345),
        ("skylake", 0x38D),
        ("skylake", 0x38E),
        ("zen4", 0xC000_0300),
        ("pentium4", 0x1A0),
    ] {
        let leaves = first(model).with_quirks(Quirks::absent(Some(msr), None));
        let mut client = RawClient::<B>::of(&[leaves]);
        let interface = client.machine().interface;
        let mut whole = RawClient::<B>::of(&[first(model)]);
        assert_eq!(interface, whole.machine().interface, "{model}: what CPUID says");
        whole.end();
        client.end();
    }
}

fn listed(reply: &Reply) -> Vec<u32> {
    reply.elements::<Registers, Register>().iter().map(|register| register.number).collect()
}

fn registers_that_are_absent_are_not_listed<B: Backend>() {
    let ask = bytes(&From { header: header(0), first: 0, reserved: 0 }, &[]);
    let mut whole = RawClient::<B>::new("skylake", 1);
    let mut expected = listed(&whole.send(REGISTERS, &ask));
    whole.end();
    let leaves = first("skylake").with_quirks(Quirks::absent(Some(0x186), None));
    let mut client = RawClient::<B>::of(&[leaves]);
    expected.retain(|&number| number != 0x186);
    assert_eq!(listed(&client.send(REGISTERS, &ask)), expected);
    client.end();
}

/// It was not there at START.
fn an_added_processor_ends_the_session<B: Backend>() {
    let all = leaves("skylake", 2);
    let mut client = RawClient::<B>::of(&all[..1]);
    let number = client.run(spec(TOTAL_ISSUES), 0);
    client.add_processor(&all[1].with_quirks(Quirks::absent(None, Some(0x309))));
    let stopped = client.about(session::STOP, number).refusal();
    assert_eq!(stopped, Some((ErrorCode::CountersDead, 1, 0x309)));
    client.end();
}
