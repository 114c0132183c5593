//! Does every processor have its vendor's events, and does each reach the registers as its row
//! says?

use fastrand::Rng;
use hal_profile::cpu::machine::CpuidResult;
use halprof_measure::catalog::{Catalog, Encoding};
use halprof_measure::selection::parse_list;
use halprof_measure::{Connection, InProcess, Session, Setup};
use halprof_profile::number::thousands;
use halprof_tests::dumps::machines_from_table;
use halprof_tests::facts::{number, records};
use halprof_tests::machines::{machine, specs};
use halprof_tests::silicon::signature;
use shared_types::request::session::Spec;
use sim::cpu::cpuid::Leaves;
use std::collections::{BTreeMap, BTreeSet};

/// Written by hand from the processors' names: the tables of each dump's core types; none if a
/// hypervisor masks the counters.
const TABLES: &str = include_str!("../data/dump-microarchitectures.csv");
/// The number of names that are tried on each dump.
const NAMES: usize = 20;
const FIXED_CTR_CTRL: u32 = 0x38D;
/// Event FFFh with its enable bit: the counter extends the one before it.
const MERGE: u64 = 0xF_0040_00FF;
const MODES_AND_ENABLE: u64 = 0b11 << 16 | 1 << 20 | 1 << 22;

fn of_dump(leaves: &[Leaves]) -> Connection<InProcess> {
    Connection::new(InProcess::new(leaves)).expect("a greeting")
}

/// The rows of a table as they are in its file, by name.
fn rows_of(table: &str) -> BTreeMap<String, Vec<String>> {
    let file = format!("{}/../client/events/data/events/{table}.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).expect(&file);
    let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let rows = text.lines().skip(1).map(cells);
    rows.map(|row| (row[0].clone(), row)).collect()
}

/// The select, with a row's fields in the bits that the manuals give them.
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

/// What the documents say of the tables' size, in the words of each.
#[test]
fn the_documents_count_the_events_as_the_tables_do() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let folder = format!("{root}/client/events/data/events");
    // Tables and events, of Intel and of AMD.
    let mut counted = [[0_u64; 2]; 2];
    for file in std::fs::read_dir(folder).expect("the tables") {
        let file = file.expect("a table");
        let is_amd = file.file_name().to_string_lossy().starts_with("amd");
        let text = std::fs::read_to_string(file.path()).expect("text");
        let [tables, events] = &mut counted[usize::from(is_amd)];
        *tables += 1;
        *events += text.lines().skip(1).count() as u64;
    }
    let [[intel_tables, intel], [amd_tables, amd]] = counted;
    let all = thousands(intel + amd);
    let (tables, intel, amd) = (intel_tables + amd_tables, thousands(intel), thousands(amd));
    for (file, says) in [
        ("README.md", format!("{all} events of Intel and AMD by name")),
        ("client/events/README.md", format!("{all} events of {tables} microarchitectures")),
        ("docs/compare.md", format!("{intel} of Intel, {amd} of Zen")),
        ("docs/events.md", format!("Intel: {intel} events of {intel_tables} microarchitectures")),
        ("docs/events.md", format!("{amd} events of Zen 1 to Zen {amd_tables}")),
    ] {
        let text = std::fs::read_to_string(format!("{root}/{file}")).expect(file);
        assert!(text.contains(&says), "{file}: {says}");
    }
}

#[test]
fn every_dump_has_the_events_of_its_microarchitecture() {
    let mut wanted = TABLES.lines().skip(1).map(|line| {
        let (file, tables) = line.split_once(',').expect("two cells");
        let tables = tables.split('+').filter(|table| !table.is_empty());
        (file, tables.collect::<BTreeSet<&str>>())
    });
    for (file, leaves) in machines_from_table() {
        let catalog = Catalog::read(&mut of_dump(&leaves), false).expect("what it counts");
        let kinds = catalog.cpu_types().iter();
        let found: BTreeSet<&str> =
            kinds.filter_map(|kind| Some(kind.microarchitecture?.table)).collect();
        assert_eq!(wanted.next(), Some((file.as_str(), found.clone())));
        let names: BTreeSet<String> =
            found.iter().flat_map(|table| rows_of(table).into_keys()).collect();
        assert_eq!(catalog.events().len(), names.len(), "{file}");
    }
    assert_eq!(wanted.next(), None);
}

/// The leaves of the Krackan Point dump with the signature of another family and model in leaf 1.
fn krackan_point_as(family: u32, model: u32) -> Vec<Leaves> {
    let mut machines = machines_from_table().into_iter();
    let (_, mut leaves) =
        machines.find(|(file, _)| file.contains("KrackanPoint")).expect("its leaves");
    for leaves in &mut leaves {
        let leaf1 = CpuidResult { eax: signature(family, model), ..leaves.get(1, 0) };
        leaves.insert(1, leaf1);
    }
    leaves
}

/// AMD gives a family's free ranges of models to later cores with other events (Zen 6
/// shares family 1Ah with Zen 5: Linux, arch/x86/kernel/cpu/amd.c).
#[test]
fn a_model_that_no_table_names_has_no_vendor_event() {
    for (family, model, table) in [
        (0x1A, 0x60, Some("amdzen5")),
        (0x1A, 0x30, None),
        (0x1A, 0x50, Some("amdzen6")),
        (0x1A, 0xB0, None),
        (0x1A, 0xD0, None),
        (0x1A, 0xF0, None),
        (0x19, 0x61, Some("amdzen4")),
        (0x19, 0xB0, None),
        (0x17, 0x80, None),
        (0x17, 0x92, None),
        (0x17, 0xB0, None),
    ] {
        let mut connection = of_dump(&krackan_point_as(family, model));
        let catalog = Catalog::read(&mut connection, false).expect("what it counts");
        let microarchitecture = catalog.cpu_types()[0].microarchitecture;
        let told = format!("{family:#x} {model:#x}");
        assert_eq!(microarchitecture.map(|one| one.table), table, "{told}");
        assert_eq!(catalog.events().is_empty(), table.is_none(), "{told}");
    }
}

/// What the registers of a processor hold while one event is counted: the enabled selects with
/// their counter's index, and the enabled fixed counters.
fn registers(
    connection: &mut Connection<InProcess>,
    spec: Spec,
    processor: u32,
) -> (Vec<(u32, u64)>, Vec<u32>) {
    let setup = Setup { specs: vec![spec], ..Setup::default() };
    let mut session = Session::open(connection, true, false).expect("a session");
    session.configure(&setup, false).expect("configured");
    session.start().expect("started");
    let model = session.transport().model();
    let processor = model.processor(processor as usize).expect("a processor");
    let mut read = |msr: u32| processor.rdmsr(msr).ok();
    let general = (0..16).flat_map(|index| {
        [(index, 0x186 + index), (index, 0xC001_0200 + 2 * index), (index, 0xC001_0000 + index)]
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
    let fixed = (0..16).filter(|index| control >> (4 * index) & 0b11 != 0).collect();
    session.stop().expect("stopped");
    (on, fixed)
}

#[test]
fn names_drawn_at_random_reach_the_registers_as_their_rows_say() {
    let mut rng = Rng::with_seed(12);
    let mut counted = 0;
    for (file, leaves) in machines_from_table() {
        let mut connection = of_dump(&leaves);
        let catalog = Catalog::read(&mut connection, false).expect("what it counts");
        let names: Vec<String> = catalog.events().into_iter().map(str::to_owned).collect();
        if names.is_empty() {
            continue;
        }
        for _ in 0..NAMES {
            let name = &names[rng.usize(..names.len())];
            let found = catalog.event(name).expect("it has it");
            let mut items = Vec::new();
            parse_list(&name.to_ascii_lowercase(), &mut items).expect("a name");
            if found.encodings.iter().all(|(_, _, counted)| counted.is_err()) {
                let error = catalog.resolve(&items).expect_err(name);
                let code = if found.event.msr.is_some() { "needs-msr" } else { "unavailable" };
                assert_eq!(error.code(), code, "{file} {name}");
                continue;
            }
            let events = catalog.resolve(&items).expect(name);
            for (kind, _, how) in &found.encodings {
                let Ok(how) = how else { continue };
                let bit = 1 << kind.processor.cpu_type;
                let mut specs = events[0].specs.iter();
                let spec = specs.find(|spec| spec.cpu_types == 0 || spec.cpu_types & bit != 0);
                let spec = *spec.expect("of this kind");
                let row = &rows_of(kind.microarchitecture.expect("known").table)[&found.event.name];
                let (general, fixed) = registers(&mut connection, spec, kind.processor.index);
                let told = format!("{file} {name}");
                if let Encoding::Fixed(index) = how {
                    assert_eq!(row[4], index.to_string(), "{told}");
                    assert_eq!((general.len(), fixed), (0, vec![u32::from(*index)]), "{told}");
                } else if row[4].is_empty() {
                    let (index, select) = match general[..] {
                        [one] => one,
                        [even, (next, MERGE)] if even.0 % 2 == 0 && next == even.0 + 1 => even,
                        _ => panic!("{told}: {general:x?}"),
                    };
                    assert_eq!(select & !MODES_AND_ENABLE, select_of(row), "{told}");
                    let counters = if row[3].is_empty() { u64::MAX } else { number(&row[3]) };
                    assert_ne!(counters >> index & 1, 0, "{told}: counter {index}");
                }
                counted += 1;
            }
        }
    }
    assert!(counted > 300, "{counted}");
}

/// Each name means the select, or the fixed counter, that Linux uses for it on the same processor;
/// a name that Linux does not support, halprof does not support either.
#[test]
fn the_names_of_linux_perf_are_the_selects_of_linux() {
    for row in records(include_str!("../data/perf-names.csv")) {
        let [file, name, counts] = ["machine", "name", "counts"].map(|cell| row[cell].as_str());
        let processor = number(&row["processor"]) as u32;
        let mut machines = machines_from_table().into_iter();
        let from_table = machines.find(|(dump, _)| dump == file);
        let mut connection = match &from_table {
            Some((_, leaves)) => of_dump(leaves),
            None => machine(file, 0),
        };
        let mut items = Vec::new();
        parse_list(name, &mut items).expect("a name");
        let catalog = Catalog::read(&mut connection, true).expect("what it counts");
        let told = format!("{row:?}");
        let events = match catalog.resolve(&items) {
            Ok(events) => events,
            Err(error) => {
                assert_eq!((error.code(), counts), ("source-unknown", ""), "{told}");
                continue;
            }
        };
        let (general, fixed) = registers(&mut connection, events[0].common(), processor);
        let general = general.iter().map(|(_, value)| format!("{:X}", value & !MODES_AND_ENABLE));
        let fixed = fixed.iter().map(|index| format!("fixed {index}"));
        let found: Vec<String> = general.chain(fixed).collect();
        // A select that a fixed counter also counts may be on either.
        let right = found.len() == 1 && counts.split('|').any(|one| one == found[0]);
        assert!(right, "{told}: {found:?}");
    }
}

/// A bit that a feature allows is written.
#[test]
fn select_bits_with_their_feature_reach_the_registers() {
    for (model, bit) in [("skylake", 1 << 21), ("hybrid", 1 << 40)] {
        let spec = Spec::of_raw(0xC0 | bit);
        let (general, _) = registers(&mut machine(model, 1), spec, 0);
        assert_eq!(general[0].1 & bit, bit, "{model}");
    }
}

/// On a hybrid machine each core type counts its own event of that name.
#[test]
fn a_name_is_counted_by_the_kinds_that_have_it() {
    let mut connection = machine("hybrid", 0);
    let processors = connection.processors().expect("processors");
    let kind_of = |core: u8| {
        let mut of_core = processors.iter().filter(|processor| processor.core_type == core);
        1 << of_core.next().expect("a core").cpu_type
    };
    let (performance, efficiency) = (kind_of(0x40), kind_of(0x20));
    for (name, kinds) in [
        ("MEM_LOAD_RETIRED.L3_MISS", vec![performance]),
        ("MEM_LOAD_UOPS_RETIRED.L3_HIT", vec![efficiency]),
        ("cpu_core/event=0xd1,umask=0x20/", vec![performance]),
        ("cpu_atom/event=0xd1,umask=0x20/", vec![efficiency]),
        ("cpu/event=0xc0/", vec![0]),
        // Four counters count it there, all here.
        ("cpu/event=0xd1,umask=0x20/", vec![performance, efficiency]),
    ] {
        let found: Vec<u16> =
            specs(&mut connection, name).iter().map(|spec| spec.cpu_types).collect();
        assert_eq!(found, kinds, "{name}");
    }
}

/// A Raptor Lake whose efficiency cores are disabled: CPUID tells of no hybrid (leaf 7, EDX bit
/// 15), and leaf 0x1A is 0.
#[test]
fn a_processor_without_its_efficiency_cores_has_the_events_of_the_others() {
    let mut machines = machines_from_table().into_iter();
    let hybrid = machines.find(|(file, _)| file.contains("RaptorLake_12"));
    let (_, leaves) = hybrid.expect("a dump");
    let mut performance: Vec<_> =
        leaves.into_iter().filter(|leaves| leaves.get(0x1A, 0).eax >> 24 == 0x40).collect();
    for leaves in &mut performance {
        let mut features = leaves.get(7, 0);
        features.edx &= !(1 << 15);
        leaves.insert_subleaf(7, 0, features);
        leaves.insert(0x1A, CpuidResult::default());
    }
    let mut connection = of_dump(&performance);
    let catalog = Catalog::read(&mut connection, false).expect("what it counts");
    let [kind] = catalog.cpu_types() else {
        panic!("{:?}", catalog.cpu_types());
    };
    let table = kind.microarchitecture.map(|one| one.table);
    assert_eq!(table, Some("alderlake_goldencove"));
    let spec = specs(&mut connection, "MEM_LOAD_RETIRED.L3_MISS")[0];
    let (general, _) = registers(&mut connection, spec, 0);
    assert_eq!(general[0].1 & !MODES_AND_ENABLE, 0x20D1);
}

/// What such an event counts is in a register that halprof does not program.
#[test]
fn the_off_core_response_is_counted_on_no_dump() {
    let mut refused = 0;
    for (file, leaves) in machines_from_table() {
        let catalog = Catalog::read(&mut of_dump(&leaves), false).expect("what it counts");
        let Some(found) = catalog.event("OFFCORE_RESPONSE") else {
            continue;
        };
        for (_, _, counted) in &found.encodings {
            let why = counted.as_ref().expect_err(&file);
            assert!(why.to_string().contains("MSR 0x1A6"), "{file}: {why}");
            refused += 1;
        }
    }
    assert!(refused > 5, "{refused}");
}
