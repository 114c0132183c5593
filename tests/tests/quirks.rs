//! Does the core work on processors that behave as badly as real silicon can? Every event is
//! accounted for, by a sample or by a loss with a cause; nothing fails silently; and registers are
//! left as they were found.

use halprof_measure::Source;
use halprof_measure::{Connection, Error, InProcess, Session, Setup};
use halprof_tests::machines::{Sampled, count, sample_in, specs, workload};
use shared_types::{ErrorCode, LossCause};
use sim::quirks::{Behaviour, Quirks, ROWS};
use std::io;

const GLOBAL_CTRL: u32 = 0x38F;
const GLOBAL_STATUS: u32 = 0x38E;
const PERF_CNTR_GLOBAL_STATUS: u32 = 0xC000_0300;
const FIXED_CONTROL: u32 = 0x38D;
const DEBUGCTL: u32 = 0x1D9;
const LVTPC: u32 = 0x340;
const LVTPC_MASK: u32 = 1 << 16;

/// The amount that is sampled: 199 periods.
const PERIOD: u64 = 50_021;
const EVENTS: u64 = 10_000_019;
const SAMPLED: &str = "TotalIssues:50021";
const SHORT: &str = "instructions=10000019,cycles=30000001,ref-cycles=24000001";
/// Twelve seconds, enough for every periodic check to have run.
const LONG: &str = "instructions=12000000000,cycles=12000000000";
const LONG_SAMPLED: &str = "TotalIssues:12000017";
const LONG_PERIOD: u64 = 12_000_017;

const MACHINES: [&str; 7] =
    ["skylake", "haswell", "sapphire-rapids", "core2", "pentium-m", "zen2", "zen4"];
/// With these options the processor counts and interrupts, however badly.
const SAMPLING: [&str; 28] = [
    "cleared-global",
    "frozen",
    "stale-status",
    "foreign-status",
    "counters-on",
    "fixed-taken",
    "late",
    "lost",
    "masked",
    "hypervisor-masks",
    "late-stop",
    "smallest-reload",
    "no-fixed",
    "narrow-counters",
    "branches-on",
    "branches-changed",
    "fixed-interrupts",
    "raised-again",
    "freeze-cleared",
    "hypervisor-masks+frozen",
    "raised-again+stale-status+lost",
    "frozen+fixed-interrupts",
    "late+frozen",
    "late+smallest-reload",
    "late+lost+foreign-status",
    "frozen+late+lost",
    "frozen+late-stop+lost",
    "frozen+masked+stale-status+fixed-taken",
];

/// A machine with one processor, as `--machine` names it.
fn open(spec: &str) -> Connection<InProcess> {
    let spec = format!("{spec},processors=1");
    let none = |_: &std::path::Path| Err(io::ErrorKind::NotFound.into());
    let machine = sim::machines::machine(&spec, none).expect("a machine");
    Connection::new(InProcess::new(&machine.leaves)).expect("a greeting")
}

fn quirks(model: &str, options: &str) -> String {
    format!("{model},quirks={options}")
}

fn read(connection: &mut Connection<InProcess>, msr: u32) -> Option<u64> {
    let processor = connection.transport().model().processor(0);
    let processor = processor.expect("the first processor");
    processor.unobserved(|processor| processor.rdmsr(msr).ok())
}

fn is_masked(connection: &mut Connection<InProcess>) -> bool {
    let processor = connection.transport().model().processor(0);
    let processor = processor.expect("the first processor");
    let entry = processor.unobserved(|processor| processor.read_apic(LVTPC));
    entry.expect("LVTPC") & LVTPC_MASK != 0
}

fn sampled(connection: &mut Connection<InProcess>, list: &str, runs: &str) -> Sampled {
    let specs = specs(connection, list);
    let session = Session::open(connection, true, true).expect("a session");
    sample_in(session, specs, &workload(runs), 20_000_000)
}

/// What is wrong with a run of `events` events, sampled every `period`, on a machine with these
/// options; none for a kind one.
fn unaccounted(sampled: &Sampled, options: &str, events: u64, period: u64) -> Option<String> {
    let counted = sampled.counts[0][0].counted;
    if counted.abs_diff(events) > 4 {
        return Some(format!("{counted} of {events} counted"));
    }
    untold(sampled, options, period)
}

/// If counters freeze at an overflow whose interrupt is late or lost, nothing is counted in
/// between.
fn stands_still(options: &str) -> bool {
    let has = |name| options.split('+').any(|option| option == name);
    has("frozen") && (has("late") || has("lost"))
}

/// How many interrupts may come after the timer has found their overflow, which counts as a loss:
/// one at each of its looks, every 250 ms, if interrupts are late. Others are there at once.
fn overtaken(sampled: &Sampled, options: &str) -> u64 {
    let late = options.split('+').any(|option| option == "late");
    if late { sampled.elapsed / 250_000_000 } else { 0 }
}

/// What is wrong with the report of the events that were counted. Interrupts are lost only by a
/// processor that loses them, never by the driver.
fn untold(sampled: &Sampled, options: &str, period: u64) -> Option<String> {
    let statistics = &sampled.statistics;
    let counted = sampled.counts[0][0].counted;
    let told: u64 = sampled.samples.iter().map(|sample| sample.period).sum();
    let lost: u64 = statistics.lost_events.iter().sum();
    let generated = statistics.stored + statistics.lost.iter().sum::<u64>();
    let wrong = [
        (
            (told + lost).abs_diff(counted) > statistics.longest_period.max(period),
            "events are in no sample and no loss",
        ),
        (generated != statistics.generated, "generated is not stored and lost"),
        (
            statistics.throttled == 0 && generated.abs_diff(counted / period) > 1,
            "periods are missing",
        ),
        (
            !options.contains("lost")
                && statistics.lost[LossCause::Missed as usize] > overtaken(sampled, options),
            "interrupts were lost",
        ),
        (statistics.ended != 0, "the session was ended"),
    ];
    let wrong: Vec<&str> = wrong.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
    let what = wrong.join(", ");
    (!wrong.is_empty()).then(|| {
        format!(
            "{what}: {counted} counted, {told} in {} samples, {lost} in losses {:?}, \
             {} periods generated of {}",
            sampled.samples.len(),
            statistics.lost,
            statistics.generated,
            counted / period
        )
    })
}

/// Checks all, and reports all that fail.
fn none_fails(failures: &[String]) {
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_behaviour_is_tried_here() {
    let mut tried = SAMPLING.iter().flat_map(|options| options.split('+'));
    let elsewhere = ["dead-interrupts", "dead-counters", "storm", "no-general"];
    for row in ROWS {
        let here = tried.clone().any(|name| name == row.name);
        assert!(here || elsewhere.contains(&row.name), "{}", row.name);
    }
    assert!(tried.all(|name| Quirks::parse(name).is_ok()));
}

#[test]
fn kind_machines_account_for_every_event() {
    for model in MACHINES {
        let sampled = sampled(&mut open(model), SAMPLED, SHORT);
        assert_eq!(unaccounted(&sampled, "", EVENTS, PERIOD), None, "{model}");
    }
}

#[test]
fn machines_with_quirks_account_for_every_event() {
    let mut failures = Vec::new();
    for model in MACHINES {
        for options in SAMPLING {
            let machine = quirks(model, options);
            let sampled = sampled(&mut open(&machine), SAMPLED, SHORT);
            let wrong = if stands_still(options) {
                untold(&sampled, options, PERIOD)
            } else {
                unaccounted(&sampled, options, EVENTS, PERIOD)
            };
            failures.extend(wrong.map(|wrong| format!("{machine}: {wrong}")));
        }
    }
    none_fails(&failures);
}

/// Sampling goes on: the last eighth of twelve seconds has samples.
#[test]
fn sampling_does_not_die() {
    let mut failures = Vec::new();
    for model in MACHINES {
        for options in SAMPLING {
            let machine = quirks(model, options);
            let sampled = sampled(&mut open(&machine), LONG_SAMPLED, LONG);
            let late = sampled.elapsed / 8 * 7;
            let first = sampled.samples.first().map_or(0, |sample| sample.timestamp);
            let alive = sampled.samples.iter().any(|one| one.timestamp - first > late);
            if !alive {
                failures.push(format!("{machine}: {} samples in all", sampled.samples.len()));
            }
            let wrong = if stands_still(options) {
                untold(&sampled, options, LONG_PERIOD)
            } else {
                unaccounted(&sampled, options, 12_000_000_000, LONG_PERIOD)
            };
            failures.extend(wrong.map(|wrong| format!("{machine}: {wrong}")));
        }
    }
    none_fails(&failures);
}

/// What a session may not change: the global control register, the freeze setting, and fixed
/// counters that were on. Our selects end at 0, others are as they were, and LVTPC is unmasked.
#[test]
fn registers_are_left_as_they_were_found() {
    let mut failures = Vec::new();
    for model in MACHINES {
        // With `branches-changed` someone else writes them meanwhile.
        let others = SAMPLING.into_iter().filter(|&options| options != "branches-changed");
        for options in ["cleared-global"].into_iter().chain(others) {
            let machine = quirks(model, options);
            let mut connection = open(&machine);
            let shared = [GLOBAL_CTRL, FIXED_CONTROL, DEBUGCTL, 0xC000_0301];
            let look = |connection: &mut Connection<InProcess>, msr| read(connection, msr);
            let selects = [0x186, 0x187, 0xC001_0200, 0xC001_0202];
            let on = selects.map(|msr| read(&mut connection, msr));
            let before = shared.map(|msr| look(&mut connection, msr));
            drop(sampled(&mut connection, SAMPLED, SHORT));
            let after = shared.map(|msr| look(&mut connection, msr));
            if before != after {
                failures.push(format!("{machine}: {before:x?} before, {after:x?} after"));
            }
            if is_masked(&mut connection) {
                failures.push(format!("{machine}: LVTPC is left masked"));
            }
            for (select, on) in selects.into_iter().zip(on) {
                let left = read(&mut connection, select);
                if left != on && left != Some(0) {
                    failures.push(format!("{machine}: select {select:#x} is left on"));
                }
            }
        }
    }
    none_fails(&failures);
}

#[test]
fn somebody_elses_fixed_counters_go_on() {
    for model in ["skylake", "haswell", "sapphire-rapids"] {
        let mut connection = open(&quirks(model, "fixed-taken"));
        let sampled = sampled(&mut connection, "TotalIssues:50021,TotalCycles:150011", SHORT);
        assert_eq!(sampled.counts[0][0].counted, EVENTS, "{model}");
        let values = [0x309, 0x30A].map(|msr| read(&mut connection, msr));
        assert!(
            values[0] >= Some(EVENTS) && values[1] >= Some(30_000_001),
            "{model}: the fixed counters were written: {values:?}"
        );
        assert_eq!(read(&mut connection, FIXED_CONTROL), Some(0x33), "{model}");
        let processors = connection.processors().expect("the processors");
        assert_eq!(processors[0].fixed_in_use, 0b11, "{model}");
    }
}

/// Somebody samples with fixed counter 1, and what its overflow has set is acknowledged by nobody
/// else: not by START, an interrupt, a timer's tick or STOP, whether halprof counts or samples.
#[test]
fn somebody_elses_overflow_is_left_for_its_owner() {
    const THEIRS: u64 = 1 << 33;
    for model in ["skylake", "haswell", "sapphire-rapids"] {
        for sources in ["TotalIssues", SAMPLED] {
            for before in [false, true] {
                let mut connection = open(&quirks(model, "fixed-interrupts+raised-again"));
                let what = format!("{model}, {sources}, {before}");
                if before {
                    let processor = connection.transport().model().processor(0);
                    let processor = processor.expect("the first processor");
                    processor.show_status(THEIRS);
                }
                let counted = if sources == SAMPLED {
                    start_on(&mut connection, true).err()
                } else {
                    let specs = specs(&mut connection, sources);
                    let counts = count(&mut connection, specs, &workload(SHORT));
                    assert_eq!(counts[0][0].counted, EVENTS, "{what}");
                    None
                };
                let status = read(&mut connection, GLOBAL_STATUS).expect("the register");
                // Not acknowledged, it comes again as long as there is a handler: a storm.
                let storm =
                    (sources == SAMPLED && before).then_some(Some(ErrorCode::InterruptStorm));
                assert_eq!(counted, storm, "{what}");
                assert_eq!(status & THEIRS == 0, !before && sources == SAMPLED, "{what}");
            }
        }
        let mut connection = open(&quirks(model, "fixed-interrupts"));
        let sampled = sampled(&mut connection, SAMPLED, SHORT);
        assert_eq!(unaccounted(&sampled, "", EVENTS, PERIOD), None, "{model}");
        assert_eq!(sampled.statistics.spurious, 1, "{model}");
        let status = read(&mut connection, GLOBAL_STATUS);
        assert_eq!(status, Some(THEIRS), "{model}");
    }
}

/// A hypervisor emulates the status register and may refuse what silicon takes: only what was seen
/// there, or what a freeze that was seen brings, is acknowledged.
#[test]
fn nothing_is_acknowledged_that_a_hypervisor_does_not_show() {
    for model in
        ["hyperv-root-intel", "hyperv-guest-intel", "sapphire-rapids", "skylake", "haswell", "zen4"]
    {
        for options in ["", "+frozen", "+frozen+lost", "+late", "+foreign-status", "+stale-status"]
        {
            let mut connection = open(&quirks(model, &format!("hypervisor-masks{options}")));
            let runs = |list| specs(&mut open(model), list);
            drop(count(&mut connection, runs("TotalIssues"), &workload(SHORT)));
            drop(sampled(&mut connection, SAMPLED, SHORT));
            let faults = connection.transport().model().faults();
            assert_eq!(faults, [], "{model}{options}");
        }
    }
}

#[test]
fn a_general_counter_found_on_is_told_and_taken() {
    for model in ["skylake", "core2", "zen2", "zen4"] {
        let mut connection = open(&quirks(model, "counters-on"));
        // Not on a fixed counter.
        drop(sampled(&mut connection, "BranchInstructions:50021", SHORT));
        let processors = connection.processors().expect("the processors");
        assert_eq!(processors[0].counters_in_use, 1, "{model}");
    }
}

fn code(error: &Error) -> Option<ErrorCode> {
    match error {
        Error::Refused(refusal) => Some(refusal.code),
        _ => None,
    }
}

/// The reply to START.
fn start(machine: &str, sample: bool) -> Result<(), Option<ErrorCode>> {
    start_on(&mut open(machine), sample)
}

fn start_on(connection: &mut Connection<InProcess>, sample: bool) -> Result<(), Option<ErrorCode>> {
    let specs = specs(connection, SAMPLED);
    let mut session = Session::open(connection, true, true).expect("a session");
    let setup = Setup { specs, ..Setup::default() };
    session.configure(&setup, sample).expect("a configuration");
    session.start().map_err(|error| code(&error))
}

#[test]
fn start_proves_that_counters_count_and_interrupts_come() {
    for model in MACHINES {
        let counters = quirks(model, "dead-counters");
        for sample in [false, true] {
            let answer = start(&counters, sample);
            assert_eq!(answer, Err(Some(ErrorCode::CountersDead)), "{counters}");
        }
        let interrupts = quirks(model, "dead-interrupts");
        assert_eq!(start(&interrupts, false), Ok(()), "{interrupts}");
        let answer = start(&interrupts, true);
        assert_eq!(answer, Err(Some(ErrorCode::InterruptsDead)), "{interrupts}");
    }
}

/// A freeze stops counters at their overflow even if its interrupt never comes. A refused START
/// ends the freeze: it would stop other owners' counters too.
#[test]
fn frozen_counters_are_not_dead() {
    for (model, status) in [
        ("skylake", GLOBAL_STATUS),
        ("haswell", GLOBAL_STATUS),
        ("sapphire-rapids", GLOBAL_STATUS),
        ("zen4", PERF_CNTR_GLOBAL_STATUS),
    ] {
        let machine = quirks(model, "frozen+dead-interrupts");
        let mut connection = open(&machine);
        let answer = start_on(&mut connection, true);
        assert_eq!(answer, Err(Some(ErrorCode::InterruptsDead)), "{machine}");
        assert_eq!(read(&mut connection, status), Some(0), "{machine}");
    }
}

/// The first interrupt is that of START's self-test: START does not start what it could not stop,
/// and leaves LVTPC masked, because there is no longer a handler. Counting still works.
#[test]
fn a_storm_is_met_by_the_proof() {
    for model in MACHINES {
        let machine = quirks(model, "storm");
        let mut connection = open(&machine);
        for _ in 0..2 {
            let answer = start_on(&mut connection, true);
            assert_eq!(answer, Err(Some(ErrorCode::InterruptStorm)), "{machine}");
            assert!(is_masked(&mut connection), "{machine}");
        }
        assert_eq!(start_on(&mut connection, false), Ok(()), "{machine}");
    }
}

/// The sources that a machine says it can count, without the timer.
fn supported(connection: &mut Connection<InProcess>) -> Vec<String> {
    let counts =
        |source: &&Source| source.flags & (Source::SUPPORTED | Source::TIMER) == Source::SUPPORTED;
    let sources = connection.sources(true).expect("the sources");
    let names = sources.iter().filter(counts);
    names.map(|source| source.name.to_owned()).collect()
}

#[test]
fn fixed_counters_are_enough() {
    for model in ["skylake", "haswell", "sapphire-rapids"] {
        let mut connection = open(&quirks(model, "no-general"));
        let names = supported(&mut connection);
        assert!(names.iter().any(|name| name == "FixedInstructions"), "{model}: {names:?}");
        assert!(!names.iter().any(|name| name == "BranchInstructions"), "{model}: {names:?}");
        let specs = specs(&mut connection, "FixedInstructions");
        let counts = count(&mut connection, specs, &workload(SHORT));
        assert_eq!(counts[0][0].counted, EVENTS, "{model}");
        let sampled = sampled(&mut connection, "FixedInstructions:50021", SHORT);
        assert_eq!(unaccounted(&sampled, "", EVENTS, PERIOD), None, "{model}");
    }
}

#[test]
fn without_any_counter_no_source_is_supported() {
    for model in ["skylake", "sapphire-rapids", "zen4"] {
        let mut connection = open(&quirks(model, "no-general+no-fixed"));
        assert_eq!(supported(&mut connection), Vec::<String>::new(), "{model}");
    }
}

/// Counters are read as often as the narrowest one needs: 2^34 events on 32-bit counters.
#[test]
fn narrow_counters_lose_no_wrap() {
    let runs = "instructions=17179869184,cycles=17179869184,branches=17179869184";
    for model in ["skylake", "core2"] {
        let mut connection = open(&quirks(model, "narrow-counters"));
        let specs = specs(&mut connection, "TotalIssues,TotalCycles,BranchInstructions");
        let specs = specs.into_iter().take(2).collect();
        let counts = count(&mut connection, specs, &workload(runs));
        for count in &counts[0] {
            assert_eq!(count.counted, 1 << 34, "{model}");
        }
    }
}

/// What the rows say remains true of the processors that the service runs on.
#[test]
fn the_service_runs_on_processors_with_quirks() {
    let mut connection = open("skylake,quirks=masked+frozen");
    assert!(is_masked(&mut connection));
    assert_eq!(read(&mut connection, DEBUGCTL), Some(1 << 12));
    let both = Quirks::of(Behaviour::Masked).with(Behaviour::Frozen);
    assert_eq!(both.to_string(), "frozen+masked");
}
