//! Are the counts right: does every source count exactly what its select means, whatever it runs
//! on?

use halprof_measure::Source;
use halprof_measure::events::microarchitecture;
use halprof_measure::{Connection, InProcess};
use halprof_tests::facts::{Record, meaning, number, without_profile};
use halprof_tests::machines::{count, count_in_steps, machine, spec, specs, workload};
use proptest::prelude::*;
use shared_types::ProfileSource;
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use sim::cpu::event::Event;
use sim::units::intel::events::reference_ratio;
use std::collections::BTreeMap;
use std::fmt::Write;
use zerocopy::FromZeros;

/// OS and USR of a PerfEvtSel.
const FILTER: u64 = 0x3_0000;
const BOTH: u16 = Spec::USER | Spec::KERNEL;

/// The file with the facts about a machine's selects.
#[derive(Clone, Copy, Debug)]
enum Facts {
    /// events-modern.csv: the rows of leaf 0Ah.
    Architectural,
    /// events-modern.csv: the rows of a family and its core.
    Amd(&'static str, &'static str),
    /// mapping.csv: the rows of a family, found by the select in `select_with_usr_os`.
    P6,
    /// mapping.csv: by ESCR and CCCR in `encoding`.
    NetBurst,
    /// mapping.csv: by the manual's name in `event`.
    Pentium(&'static str),
}

const MACHINES: [(&str, Facts); 18] = [
    ("pentium", Facts::Pentium("P5")),
    ("pentium-mmx", Facts::Pentium("P5MMX")),
    ("pentium3", Facts::P6),
    ("pentium-m", Facts::P6),
    ("pentium4", Facts::NetBurst),
    ("pentium4-ht", Facts::NetBurst),
    ("core2", Facts::Architectural),
    ("yonah", Facts::Architectural),
    ("skylake", Facts::Architectural),
    ("sapphire-rapids", Facts::Architectural),
    ("hybrid", Facts::Architectural),
    ("k8", Facts::Amd("0Fh", "K8")),
    ("fam10h", Facts::Amd("10h", "Barcelona..")),
    ("bulldozer", Facts::Amd("15h", "Bulldozer..")),
    ("zen2", Facts::Amd("17h", "Zen 2")),
    ("zen4", Facts::Amd("19h", "Zen 4")),
    ("zen5", Facts::Amd("1Ah", "Zen 5")),
    ("zen6", Facts::Amd("1Ah", "Zen 6")),
];

/// What identifies a select apart from its mode bits: a number, or the manual's name.
type Key = String;

fn key(select: u64) -> Key {
    format!("{select:#x}")
}

/// ESCR, with CCCR above it, without mode, thread and enable bits.
fn netburst_select(encoding: &str) -> u64 {
    let field = |name: &str| {
        let (_, rest) = encoding.split_once(name).expect("the register");
        let (value, _) = rest.split_once('+').expect("a value and a symbol");
        number(value)
    };
    (field("CCCR=") & !0x3_0000) << 32 | field("ESCR=")
}

/// What the selects of the fact tables count.
fn facts(of: Facts) -> BTreeMap<Key, Event> {
    let modern = halprof_tests::source_data!("events-modern");
    let mapping = halprof_tests::source_data!("mapping");
    let family = |name: &'static str| {
        let rows = mapping.iter().filter(move |row| row["family"] == name);
        rows.filter(|row| ["yes", "optional"].contains(&row["offer"].as_str()))
    };
    let profile = |row: &Record| meaning(without_profile(&row["name"]));
    let plain = |select: &str| key(number(select) & !FILTER);
    match of {
        Facts::Architectural => modern
            .iter()
            .filter(|row| row["family"] == "architectural")
            .filter_map(|row| {
                let (name, _) = row["source"].split_once(" -> ").expect("a name");
                Some((plain(&row["select_with_os_usr"]), meaning(name)?))
            })
            .collect(),
        Facts::Amd(family, core) => modern
            .iter()
            .filter(|row| row["family"] == family && row["core"] == core && row["fit"] != "note")
            .filter_map(|row| {
                let event = meaning(without_profile(&row["source"]))?;
                Some((plain(&row["select_with_os_usr"]), event))
            })
            .collect(),
        Facts::P6 => family("P6")
            .filter_map(|row| Some((plain(&row["select_with_usr_os"]), profile(row)?)))
            .chain([(key(0x0F2E), Event::LlcReferences)])
            .collect(),
        Facts::NetBurst => family("P4")
            .filter_map(|row| Some((key(netburst_select(&row["encoding"])), profile(row)?)))
            .collect(),
        Facts::Pentium(name) => family(name)
            .filter_map(|row| Some((row["event"].clone(), profile(row)?)))
            .chain([("PIPELINE_FLUSHES".into(), Event::BranchMisses)])
            .collect(),
    }
}

/// What identifies a source's select on the wire.
fn key_of(of: Facts, source: &Source) -> Key {
    match of {
        Facts::Pentium(_) => source.counts.into(),
        Facts::NetBurst => key(source.select),
        _ => key(source.select & !FILTER),
    }
}

/// The event that a source counts; fixed counters have no select.
fn expected(of: Facts, facts: &BTreeMap<Key, Event>, source: &Source) -> Option<Event> {
    if source.flags & Source::HAS_SELECT == 0 {
        return meaning(source.counts);
    }
    facts.get(&key_of(of, source)).copied()
}

/// A different amount of each event, 37 % in user mode.
fn distinct() -> String {
    let mut text = String::from("user=37");
    for (event, n) in Event::ALL.into_iter().zip(1u64..) {
        write!(text, ",{}={}", event.name(), amount(event)).expect("memory");
        assert_eq!(amount(event), 1_000_003 * n + 7 * n * n);
    }
    text
}

fn amount(event: Event) -> u64 {
    let place = Event::ALL.iter().position(|one| *one == event);
    let n = place.map_or(0, |place| place as u64 + 1);
    1_000_003 * n + 7 * n * n
}

/// The sources that the boot processor can count, including approximate ones but not the timer.
fn countable(connection: &mut Connection<InProcess>) -> Vec<Source> {
    let sources = connection.sources(true).expect("the sources");
    let counts =
        |source: &Source| source.flags & (Source::SUPPORTED | Source::TIMER) == Source::SUPPORTED;
    sources.into_iter().filter(counts).collect()
}

/// Reference cycles per UnhaltedReferenceCycles event (3C/01): up to Rocket Lake that event has its
/// own clock, and only the fixed counter runs with the time stamps.
fn ratio(model: &str, source: &str) -> u64 {
    let slow = matches!(source, "UnhaltedReferenceCycles" | "r13c");
    match model {
        "core2" | "yonah" | "haswell" | "skylake" if slow => 10,
        _ => 1,
    }
}

/// Intel's event lists call the event `REF_TSC_P` where it ticks with the time stamps.
#[test]
fn reference_cycles_tick_at_the_rate_of_their_name_in_intels_lists() {
    let mut rates = [0; 2];
    for (family, model, core_type) in (0..=0xFF)
        .flat_map(|model| [0, 0x20, 0x40].map(|core_type| (6, model, core_type)))
        .chain([(18, 1, 0x40), (18, 3, 0x20)])
    {
        let processor = Processor {
            vendor: *b"GenuineIntel",
            family,
            model,
            core_type,
            ..Processor::new_zeroed()
        };
        let Some(table) = microarchitecture(&processor) else {
            continue;
        };
        let mut events = table.events().iter();
        let tsc = events
            .any(|event| event.select() == 0x013C && event.name == "CPU_CLK_UNHALTED.REF_TSC_P");
        let ratio = reference_ratio(family.into(), model.into());
        assert_eq!(ratio, if tsc { 1 } else { 10 }, "{model:#x} {}", table.table);
        rates[usize::from(tsc)] += 1;
    }
    assert!(rates.iter().all(|&models| models > 20), "{rates:?}");
}

#[test]
fn every_source_counts_exactly_what_its_select_means() {
    let workload = workload(&distinct());
    for (model, of) in MACHINES {
        // The last processor is idle. Processor 1 may share the first one's counters, and with them
        // the events that belong to no thread (p4-events.csv: TI).
        let mut connection = machine(model, 3);
        let facts = facts(of);
        let mut counting = 0;
        for source in countable(&mut connection) {
            let event = expected(of, &facts, &source);
            counting += usize::from(event.is_some());
            let all = event.map_or(0, amount);
            let user = all * 37 / 100;
            let ratio = ratio(model, source.name);
            for (filter, happened) in [(BOTH, all), (Spec::USER, user), (Spec::KERNEL, all - user)]
            {
                let happened = happened / ratio;
                let counts = count(&mut connection, vec![spec(&source, filter)], &workload);
                let counted = (counts[0][0].counted, counts[2][0].counted);
                let name = source.name;
                assert_eq!(counted, (happened, 0), "{model} {name} filter {filter}");
            }
        }
        assert!(counting >= 4, "{model}: only {counting} sources count anything");
    }
}

#[test]
fn every_select_of_the_facts_counts_as_a_raw_one() {
    let workload = workload(&distinct());
    for (model, of) in MACHINES {
        if matches!(of, Facts::Pentium(_) | Facts::NetBurst) {
            continue;
        }
        let mut connection = machine(model, 1);
        for (key, event) in facts(of) {
            let list = format!("r{}", key.trim_start_matches("0x"));
            let specs = specs(&mut connection, &list);
            assert_eq!(specs[0].source, ProfileSource::RAW.0);
            let counts = count(&mut connection, specs, &workload);
            let expected = amount(event) / ratio(model, &list);
            assert_eq!(counts[0][0].counted, expected, "{model} {list}");
        }
    }
}

#[test]
fn raw_selects_of_the_first_families() {
    let workload = workload(&distinct());
    // ES of CESR, with CC's bit 2 in bit 8; ESCR below CCCR, with the counter group in bits 33:32.
    for (model, list, event) in [
        ("pentium", "r16", Event::Instructions),
        ("pentium-mmx", "r12", Event::Branches),
        ("pentium-mmx", "r130", Event::Cycles),
        ("pentium4", "rC00026000200", Event::Cycles),
        ("pentium4-ht", "r800306000200", Event::BranchMisses),
    ] {
        let mut connection = machine(model, 1);
        let specs = specs(&mut connection, list);
        let counts = count(&mut connection, specs, &workload);
        assert_eq!(counts[0][0].counted, amount(event), "{model} {list}");
    }
}

#[test]
fn each_processor_counts_its_own_whole_amount() {
    let workload = workload(&format!("{},processors=2-5", distinct()));
    for (model, _) in MACHINES {
        // The hybrid's processors 4 and 5 are efficiency cores.
        let mut connection = machine(model, 6);
        let specs = specs(&mut connection, "TotalIssues,BranchInstructions");
        let counts = count(&mut connection, specs, &workload);
        for (index, counts) in counts.iter().enumerate() {
            let works = u64::from(index >= 2);
            assert_eq!(counts[0].counted, works * amount(Event::Instructions), "{model} {index}");
            assert_eq!(counts[1].counted, works * amount(Event::Branches), "{model} {index}");
        }
    }
}

/// One machine for each way to count, with sources that run at once and what they count.
const WAYS: [(&str, &str, &[Event]); 9] = [
    ("pentium-mmx", "TotalIssues,BranchInstructions:u", &[Event::Instructions, Event::Branches]),
    ("pentium3", "FpInstructions,TotalIssues:k", &[Event::FpOperations, Event::Instructions]),
    (
        "pentium4",
        "TotalIssues,TotalCycles:u,BranchInstructions:k",
        &[Event::Instructions, Event::Cycles, Event::Branches],
    ),
    ("yonah", "TotalIssues:k,CacheMisses", &[Event::Instructions, Event::LlcMisses]),
    ("core2", "TotalIssues:u,BranchMispredictions", &[Event::Instructions, Event::BranchMisses]),
    (
        "skylake",
        "LLCMisses,FixedInstructions:u,TotalCycles:k,FixedReferenceCycles",
        &[Event::LlcMisses, Event::Instructions, Event::Cycles, Event::RefCycles],
    ),
    (
        "k8",
        "TotalIssues,DcacheMisses:k,IcacheMisses:u",
        &[Event::Instructions, Event::L1dMisses, Event::L1iMisses],
    ),
    (
        "bulldozer",
        "TotalIssues:u,IcacheMisses,BranchInstructions",
        &[Event::Instructions, Event::L1iMisses, Event::Branches],
    ),
    (
        "zen4",
        "TotalIssues,BranchMispredictions:u,FpOperations:k,L1dMisses",
        &[Event::Instructions, Event::BranchMisses, Event::FpOperations, Event::L1dMisses],
    ),
];

/// The part of an amount that a filter lets through.
fn through(filter: u16, amount: u64, user: u64) -> u64 {
    let in_user = (u128::from(amount) * u128::from(user) / 100) as u64;
    match filter {
        Spec::USER => in_user,
        Spec::KERNEL => amount - in_user,
        _ => amount,
    }
}

/// An instruction takes a nanosecond, and no processor counts more than 48 other events per
/// nanosecond, so there are as many instructions as the largest amount needs.
fn counts_exactly(way: usize, amounts: &[u64], user: u64, steps: &[u64]) {
    let (model, list, events) = WAYS[way];
    let instructions = events.iter().position(|&event| event == Event::Instructions);
    let instructions = instructions.expect("each way counts instructions");
    let mut amounts = amounts[..events.len()].to_vec();
    let most = (0..amounts.len()).max_by_key(|&index| amounts[index]);
    amounts.swap(instructions, most.expect("an amount"));
    let mut connection = machine(model, 1);
    let specs = specs(&mut connection, list);
    let mut text = format!("user={user}");
    for (event, amount) in events.iter().zip(&amounts) {
        write!(text, ",{}={amount}", event.name()).expect("memory");
    }
    let longest = amounts.iter().copied().max().unwrap_or(0);
    let steps = steps.iter().map(|part| longest / part + 1).chain([u64::MAX]);
    let counts = count_in_steps(&mut connection, specs.clone(), &workload(&text), steps);
    for ((spec, amount), count) in specs.iter().zip(&amounts).zip(&counts[0]) {
        let happened = through(spec.filter, *amount, user);
        assert_eq!(count.counted, happened, "{model} {list} {text}");
        assert_eq!(count.running, count.enabled);
    }
}

/// Amounts of every size up to what takes two years, one in three close to where a 40-bit or a
/// 48-bit counter wraps.
fn any_amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u32..=56, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1)),
        (1u64..200, 0u64..=4).prop_map(|(wraps, beside)| (wraps << 40) - 2 + beside),
        (1u64..200, 0u64..=4).prop_map(|(wraps, beside)| (wraps << 48) - 2 + beside),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_amount_in_any_steps_is_counted_exactly(
        way in 0..WAYS.len(),
        amounts in prop::collection::vec(any_amount(), 4),
        user in 0u64..=100,
        steps in prop::collection::vec(2u64..1000, 0..20),
    ) {
        counts_exactly(way, &amounts, user, &steps);
    }
}

/// P6 has only one enable bit, counter 0's (SDM vol. 3B, "PerfEvtSel0 and PerfEvtSel1 MSRs").
#[test]
fn p6_counter_1_counts_while_counter_0_is_free() {
    const PERF_EVT_SEL0: u32 = 0x186;
    const EN: u64 = 1 << 22;
    let mut connection = machine("pentium3", 1);
    let specs = specs(&mut connection, "DIV");
    let mut session = halprof_tests::machines::counting(&mut connection, specs);
    session.start().expect("a start");
    let processor = session.transport().model().processor(0).expect("it is there");
    assert_eq!(processor.rdmsr(PERF_EVT_SEL0), Ok(EN));
    let select = processor.rdmsr(PERF_EVT_SEL0 + 1).expect("the select");
    assert_eq!(select & 0xFFFF, 0x13, "p6-events.csv: DIV, counter 1 only");
}
