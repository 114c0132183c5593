//! Has every processor its vendor's events, and does each reach the registers as its row says?

use fastrand::Rng;
use halprof_measure::catalog::{Catalog, Counted};
use halprof_measure::selection::parse_list;
use halprof_measure::{Connection, Error, Modelled, Session, Setup};
use halprof_tests::dumps::machines_from_table;
use halprof_tests::machines::{machine, specs};
use shared_types::request::session::Spec;
use shared_types::{ErrorCode, ProfileSource};
use std::collections::{BTreeMap, BTreeSet};

/// Made by hand, of the processors' names: the tables of each dump's kinds of core; none where a
/// hypervisor masks the counters.
const TABLES: &str = include_str!("../data/dump-microarchitectures.csv");
/// Names that are tried on each dump.
const NAMES: usize = 20;
const FIXED_CTR_CTRL: u32 = 0x38D;
const MODES_AND_ENABLE: u64 = 0b11 << 16 | 1 << 20 | 1 << 22;

fn of_dump(leaves: &[sim::cpuid::Leaves]) -> Connection<Modelled> {
    Connection::new(Modelled::new(leaves)).expect("a greeting")
}

/// The rows of a table as they stand in its file, by name.
fn rows_of(table: &str) -> BTreeMap<String, Vec<String>> {
    let file = format!(
        "{}/../client/measure/data/events/{table}.csv",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&file).expect(&file);
    let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let rows = text.lines().skip(1).map(cells);
    rows.map(|row| (row[0].clone(), row)).collect()
}

fn number(cell: &str) -> u64 {
    match cell.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).expect(cell),
        None => cell.parse().expect(cell),
    }
}

/// The select's fields as the manuals place them, from a row's cells.
fn select_of(row: &[String]) -> u64 {
    let [code, mask, cmask, inv, edge, any] = [1, 2, 5, 6, 7, 8].map(|cell| number(&row[cell]));
    code % 256
        + ((mask % 256) << 8)
        + (edge << 18)
        + (any << 21)
        + (inv << 23)
        + (cmask << 24)
        + ((code / 256) << 32)
        + ((mask / 256) << 40)
}

#[test]
fn every_dump_has_the_events_of_its_microarchitecture() {
    let mut wanted = TABLES.lines().skip(1).map(|line| {
        let (file, tables) = line.split_once(',').expect("two cells");
        let tables = tables.split('+').filter(|table| !table.is_empty());
        (file, tables.collect::<BTreeSet<&str>>())
    });
    for (file, leaves) in machines_from_table() {
        let catalog = Catalog::of(&mut of_dump(&leaves), false).expect("what it counts");
        let kinds = catalog.kinds().iter();
        let found: BTreeSet<&str> = kinds
            .filter_map(|kind| Some(kind.microarchitecture?.table))
            .collect();
        assert_eq!(wanted.next(), Some((file.as_str(), found.clone())));
        let names: BTreeSet<String> = found
            .iter()
            .flat_map(|table| rows_of(table).into_keys())
            .collect();
        assert_eq!(catalog.events().len(), names.len(), "{file}");
    }
    assert_eq!(wanted.next(), None);
}

/// What the registers of a processor hold while one event is counted: the selects that are on with
/// their counter's index, and the fixed counters that are on.
fn registers(
    connection: &mut Connection<Modelled>,
    spec: Spec,
    processor: u32,
) -> (Vec<(u32, u64)>, Vec<u32>) {
    let setup = Setup {
        specs: vec![spec],
        ..Setup::default()
    };
    let mut session = Session::open(connection, true, false).expect("a session");
    session.configure(&setup, false).expect("configured");
    session.start().expect("started");
    let model = session.transport().model();
    let processor = model.processor(processor as usize).expect("a processor");
    let mut read = |msr: u32| processor.rdmsr(msr).ok();
    let general = (0..16).flat_map(|index| {
        [
            (index, 0x186 + index),
            (index, 0xC001_0200 + 2 * index),
            (index, 0xC001_0000 + index),
        ]
    });
    let mut on: Vec<(u32, u64)> = Vec::new();
    for (index, msr) in general {
        if let Some(value) = read(msr)
            && value & 1 << 22 != 0
            && !on.contains(&(index, value))
        {
            on.push((index, value));
        }
    }
    let control = read(FIXED_CTR_CTRL).unwrap_or(0);
    let fixed = (0..16)
        .filter(|index| control >> (4 * index) & 0b11 != 0)
        .collect();
    session.stop().expect("stopped");
    (on, fixed)
}

#[test]
fn names_drawn_at_random_reach_the_registers_as_their_rows_say() {
    let mut rng = Rng::with_seed(12);
    let mut counted = 0;
    for (file, leaves) in machines_from_table() {
        let mut connection = of_dump(&leaves);
        let catalog = Catalog::of(&mut connection, false).expect("what it counts");
        let names: Vec<String> = catalog.events().into_iter().map(str::to_owned).collect();
        if names.is_empty() {
            continue;
        }
        for _ in 0..NAMES {
            let name = &names[rng.usize(..names.len())];
            let found = catalog.event(name).expect("it has it");
            let mut items = Vec::new();
            parse_list(&name.to_ascii_lowercase(), &mut items).expect("a name");
            if found.kinds.iter().all(|(_, _, counted)| counted.is_err()) {
                let error = catalog.resolve(&items).expect_err(name);
                assert_eq!(error.code(), "unavailable", "{file} {name}");
                continue;
            }
            let chosen = catalog.resolve(&items).expect(name);
            for (kind, _, how) in &found.kinds {
                let Ok(how) = how else { continue };
                let bit = 1 << kind.processor.kind;
                let of_kind = |one: &&halprof_measure::selection::Chosen| {
                    one.spec.kinds == 0 || one.spec.kinds & bit != 0
                };
                let spec = chosen.iter().find(of_kind).expect("of this kind").spec;
                let row = &rows_of(kind.microarchitecture.expect("known").table)[&found.event.name];
                let (general, fixed) = registers(&mut connection, spec, kind.processor.index);
                let told = format!("{file} {name}");
                if let Counted::Fixed(index) = how {
                    assert_eq!(row[4], index.to_string(), "{told}");
                    assert_eq!(
                        (general.len(), fixed),
                        (0, vec![u32::from(*index)]),
                        "{told}"
                    );
                } else if row[4].is_empty() {
                    let [(index, select)] = general[..] else {
                        panic!("{told}: {general:x?}");
                    };
                    assert_eq!(select & !MODES_AND_ENABLE, select_of(row), "{told}");
                    let counters = if row[3].is_empty() {
                        u64::MAX
                    } else {
                        number(&row[3])
                    };
                    assert_ne!(counters >> index & 1, 0, "{told}: counter {index}");
                }
                counted += 1;
            }
        }
    }
    assert!(counted > 300, "{counted}");
}

/// Linux arch/x86/events/intel/core.c and amd/core.c, the maps of PERF_COUNT_HW_*, as a row for each
/// processor; a fixed counter's stands as `fN`.
#[test]
fn the_names_of_linux_perf_are_the_selects_of_linux() {
    const INTEL: [(&str, &str); 8] = [
        ("cycles", "f1 3c"),
        ("instructions", "f0 c0"),
        ("cache-references", "4f2e"),
        ("cache-misses", "412e"),
        ("branches", "c4"),
        ("branch-instructions", "c4"),
        ("branch-misses", "c5"),
        ("ref-cycles", "f2"),
    ];
    const AMD: [(&str, &str); 6] = [
        ("cycles", "76"),
        ("instructions", "c0"),
        ("branches", "c2"),
        ("branch-misses", "c3"),
        ("cache-references", "ff60"),
        ("cache-misses", "964"),
    ];
    for (model, names) in [
        ("skylake", &INTEL[..]),
        ("sapphire-rapids", &INTEL[..]),
        ("hybrid", &INTEL[..]),
        ("zen2", &AMD[..]),
        ("zen4", &AMD[..]),
        ("zen5", &AMD[..]),
    ] {
        let mut connection = machine(model, 0);
        let last = connection.processors().expect("processors").len() as u32 - 1;
        for (name, wanted) in names {
            let spec = specs(&mut connection, name)[0];
            for processor in [0, last] {
                let (general, fixed) = registers(&mut connection, spec, processor);
                let general = general
                    .iter()
                    .map(|(_, value)| format!("{:x}", value & !MODES_AND_ENABLE));
                let fixed = fixed.iter().map(|index| format!("f{index}"));
                let found: Vec<String> = general.chain(fixed).collect();
                let right = found.len() == 1 && wanted.split(' ').any(|one| one == found[0]);
                assert!(right, "{model} {name} {processor}: {found:?}");
            }
        }
    }
    for (model, name, select) in [
        ("zen2", "stalled-cycles-frontend", 0xA9),
        ("zen4", "stalled-cycles-frontend", 0xA9),
        ("zen4", "ref-cycles", 0x1_0000_0120),
        ("zen5", "ref-cycles", 0x1_0000_0120),
    ] {
        let spec = specs(&mut machine(model, 1), name)[0];
        assert_eq!(
            (spec.source, spec.raw),
            (ProfileSource::RAW.0, select),
            "{model} {name}"
        );
    }
}

fn refusal(
    connection: &mut Connection<Modelled>,
    specs: Vec<Spec>,
) -> Option<(ErrorCode, u32, u64)> {
    let setup = Setup {
        specs,
        ..Setup::default()
    };
    match connection.plan(&setup) {
        Ok(_) => None,
        Err(Error::Refused(refusal)) => Some((refusal.code, refusal.subject, refusal.detail)),
        Err(error) => panic!("{error}"),
    }
}

/// What a client may ask of counters, kinds and flags, on a machine with 8 general counters.
#[test]
fn masks_of_counters_are_judged() {
    let mut connection = machine("sapphire-rapids", 1);
    let raw = ProfileSource::RAW.0;
    let with = |counters: u32| Spec {
        counters,
        ..Spec::of_raw(0xD1)
    };
    for (spec, refused) in [
        (with(u32::MAX), None),
        (with(0xFF), None),
        (with(0x80), None),
        (with(0), Some((ErrorCode::BadValue, 24, 0))),
        (with(0x100), Some((ErrorCode::SourceNotSupported, raw, 0))),
        (with(0x1FF), Some((ErrorCode::SourceNotSupported, raw, 0))),
        (
            Spec {
                flags: 2,
                ..with(1)
            },
            Some((ErrorCode::BadValue, 30, 2)),
        ),
        (
            Spec {
                counters: 1,
                ..halprof_tests::requests::spec(2)
            },
            Some((ErrorCode::BadValue, 24, 1)),
        ),
        // The machine has one kind of processor, number 0.
        (
            Spec {
                kinds: 1,
                ..with(1)
            },
            None,
        ),
        (
            Spec {
                kinds: 2,
                ..with(1)
            },
            Some((ErrorCode::SourceNotSupported, raw, 0)),
        ),
    ] {
        assert_eq!(refusal(&mut connection, vec![spec]), refused, "{spec:?}");
    }
}

#[test]
fn an_event_stays_on_its_counters() {
    let mut connection = machine("sapphire-rapids", 1);
    let low = |mask: u64| Spec {
        counters: 0xF,
        group: 1,
        ..Spec::of_raw(0xD1 | mask << 8)
    };
    let any = |mask: u64| Spec {
        group: 1,
        ..Spec::of_raw(0xC6 | mask << 8)
    };
    // Those that can go anywhere come first and make room.
    let mut eight: Vec<Spec> = (1..=4).map(any).collect();
    eight.extend((1..=4).map(low));
    let setup = Setup {
        specs: eight.clone(),
        ..Setup::default()
    };
    let fit = connection.plan(&setup).expect("it fits");
    assert!(fit.fits);
    let counters: Vec<u16> = fit.kinds[0]
        .iter()
        .map(|placement| placement.counter)
        .collect();
    assert!(
        counters[4..].iter().all(|&counter| counter < 4),
        "{counters:?}"
    );
    let five: Vec<Spec> = (1..=5).map(low).collect();
    let raw = ProfileSource::RAW.0;
    assert_eq!(
        refusal(&mut connection, five.clone()),
        Some((ErrorCode::DoesNotFit, raw, 0))
    );
    let apart = five.into_iter().map(|spec| Spec { group: 0, ..spec });
    let setup = Setup {
        specs: apart.collect(),
        ..Setup::default()
    };
    let turns: Vec<u16> = connection.plan(&setup).expect("turns").kinds[0]
        .iter()
        .map(|placement| placement.turn)
        .collect();
    assert_eq!(turns, [0, 0, 0, 0, 1]);
}

#[test]
fn what_runs_alone_has_a_turn_of_its_own() {
    let mut connection = machine("sapphire-rapids", 1);
    let alone = Spec {
        flags: Spec::ALONE,
        ..Spec::of_raw(0x2CD)
    };
    let other = |mask: u64| Spec::of_raw(0xC6 | mask << 8);
    let turns = |connection: &mut Connection<Modelled>, specs: Vec<Spec>| -> Vec<u16> {
        let setup = Setup {
            specs,
            ..Setup::default()
        };
        let fit = connection.plan(&setup).expect("turns");
        fit.kinds[0]
            .iter()
            .map(|placement| placement.turn)
            .collect()
    };
    assert_eq!(turns(&mut connection, vec![alone]), [0]);
    assert_eq!(
        turns(&mut connection, vec![alone, other(1), other(2)]),
        [0, 1, 1]
    );
    assert_eq!(
        turns(&mut connection, vec![other(1), alone, other(2)]),
        [0, 1, 0]
    );
    for group in [[alone, other(1)], [other(1), alone]] {
        let group = group.map(|spec| Spec { group: 1, ..spec });
        let raw = ProfileSource::RAW.0;
        assert_eq!(
            refusal(&mut connection, group.to_vec()),
            Some((ErrorCode::DoesNotFit, raw, 0))
        );
    }
}

/// Any-thread is there from version 3 on until CPUID deprecates it, the second unit mask with leaf
/// 0x23; the model faults where a reserved bit is written.
#[test]
fn bits_beyond_version_1_need_their_feature() {
    const ANY_THREAD: u64 = 1 << 21;
    const UNIT_MASK_2: u64 = 1 << 40;
    let raw = ProfileSource::RAW.0;
    for (model, bits, refused) in [
        ("skylake", ANY_THREAD, 0),
        ("skylake", UNIT_MASK_2, UNIT_MASK_2),
        ("core2", ANY_THREAD, ANY_THREAD),
        ("sapphire-rapids", ANY_THREAD, ANY_THREAD),
        ("sapphire-rapids", UNIT_MASK_2, UNIT_MASK_2),
        ("hybrid", UNIT_MASK_2, 0),
        ("zen4", ANY_THREAD, ANY_THREAD),
        ("zen4", UNIT_MASK_2, UNIT_MASK_2),
    ] {
        let mut connection = machine(model, 1);
        let spec = Spec::of_raw(0xC0 | bits);
        let wanted = (refused != 0).then_some((ErrorCode::RawRefused, raw, refused));
        assert_eq!(
            refusal(&mut connection, vec![spec]),
            wanted,
            "{model} {bits:#x}"
        );
        if refused == 0 {
            let (general, _) = registers(&mut connection, spec, 0);
            assert_eq!(general[0].1 & bits, bits, "{model}");
        }
    }
}

/// On a hybrid machine each kind of core counts its own event of the name.
#[test]
fn a_name_is_counted_by_the_kinds_that_have_it() {
    let mut connection = machine("hybrid", 0);
    let processors = connection.processors().expect("processors");
    let kind_of = |core: u8| {
        let mut of_core = processors
            .iter()
            .filter(|processor| processor.core_type == core);
        1 << of_core.next().expect("a core").kind
    };
    let (performance, efficiency) = (kind_of(0x40), kind_of(0x20));
    for (name, kinds) in [
        ("MEM_LOAD_RETIRED.L3_MISS", vec![performance]),
        ("MEM_LOAD_UOPS_RETIRED.L3_HIT", vec![efficiency]),
        ("cpu_core/event=0xd1,umask=0x20/", vec![performance]),
        ("cpu_atom/event=0xd1,umask=0x20/", vec![efficiency]),
        ("cpu/event=0xd1,umask=0x20/", vec![0]),
    ] {
        let found: Vec<u16> = specs(&mut connection, name)
            .iter()
            .map(|spec| spec.kinds)
            .collect();
        assert_eq!(found, kinds, "{name}");
    }
}
