//! Does the core work on processors that behave as badly as real silicon can? Every event is
//! accounted for, by a sample or by a loss with a cause; nothing fails silently; and registers are
//! left as they were found.

use crate::backend::Backend;
use crate::branches::with;
use crate::machines::{Client, Sampled, count, on, sample, sample_in, specs, workload};
use crate::requests::spec;
use crate::stepped::Stepped;
use crate::wire::{first, with_quirks};
use halprof_measure::{Error, Session, Setup, Source};
use shared_types::ErrorCode;
use shared_types::request::session::{SAMPLE, Spec};
use sim::cpu::event::Event;

scenarios![
    machines_with_quirks_account_for_every_event,
    sampling_does_not_die,
    somebody_elses_fixed_counters_go_on,
    somebody_elses_overflow_is_left_for_its_owner,
    anothers_status_bits_stay,
    nothing_is_acknowledged_that_a_hypervisor_does_not_show,
    a_general_counter_found_on_is_told_and_taken,
    frozen_counters_are_not_dead,
    a_freeze_that_was_left_ends_with_start,
    a_storm_is_met_by_the_proof,
    an_entry_that_would_send_an_nmi_stays_as_it_is,
    an_nmi_after_sleep_ends_the_session,
    each_kind_of_counter_proves_its_interrupt,
    a_freeze_takes_nothing_from_unused_counters,
    fixed_counters_are_enough,
    without_any_counter_no_source_is_supported,
    narrow_counters_lose_no_wrap,
    the_service_runs_on_processors_with_quirks,
];

const GLOBAL_CTRL: u32 = 0x38F;
const GLOBAL_STATUS: u32 = 0x38E;
const PERF_CNTR_GLOBAL_STATUS: u32 = 0xC000_0300;
const FIXED_CONTROL: u32 = 0x38D;
const DEBUGCTL: u32 = 0x1D9;
const LVTPC: u32 = 0x340;
const LVTPC_MASK: u32 = 1 << 16;
const TOTAL_ISSUES: u32 = 2;

/// The amount that is sampled: 199 periods.
const PERIOD: u64 = 50_021;
const EVENTS: u64 = 10_000_019;
const SAMPLED: &str = "TotalIssues:50021";
const SHORT: &str = "instructions=10000019,cycles=30000001,ref-cycles=24000001";
/// Six seconds, in which overflows are looked for 24 times, drained four times.
const LONG: &str = "instructions=6000000000,cycles=6000000000";
const LONG_EVENTS: u64 = 6_000_000_000;
const LONG_SAMPLED: &str = "TotalIssues:12000017";
const LONG_PERIOD: u64 = 12_000_017;

const MACHINES: [&str; 7] =
    ["skylake", "haswell", "sapphire-rapids", "core2", "pentium-m", "zen2", "zen4"];
/// With none and with these the processor counts and interrupts, however badly.
const SAMPLING: [&str; 29] = [
    "",
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
/// Those of which a long run sees no more than a short one.
const SEEN_AT_ONCE: [&str; 9] = [
    "cleared-global",
    "stale-status",
    "counters-on",
    "fixed-taken",
    "masked",
    "smallest-reload",
    "no-fixed",
    "narrow-counters",
    "branches-on",
];

type Connection<B> = halprof_measure::Connection<Client<B>>;

/// A model with one processor and these quirks.
fn open<B: Backend>(model: &str, quirks: &str) -> Connection<B> {
    match quirks {
        "" => on(&format!("{model},processors=1")),
        quirks => on(&format!("{model},quirks={quirks},processors=1")),
    }
}

fn read<B: Backend>(connection: &mut Connection<B>, msr: u32) -> Option<u64> {
    let processor = connection.transport().0.processor(0);
    processor.unobserved(|processor| processor.rdmsr(msr).ok())
}

fn is_masked<B: Backend>(connection: &mut Connection<B>) -> bool {
    let processor = connection.transport().0.processor(0);
    let entry = processor.unobserved(|processor| processor.read_apic(LVTPC));
    entry.expect("LVTPC") & LVTPC_MASK != 0
}

fn sampled<B: Backend>(connection: &mut Connection<B>, list: &str, runs: &str) -> Sampled {
    let specs = specs(connection, list);
    sample(connection, specs, &workload(runs))
}

/// What is wrong with a run of `events` events, sampled every `period`, on a machine with these
/// quirks; none for one without. Interrupts are lost only by a processor that loses them, never by
/// the driver.
fn unaccounted(sampled: &Sampled, quirks: &str, events: u64, period: u64) -> Option<String> {
    let counted = sampled.counts[0][0].counted;
    if counted.abs_diff(events) > 4 && !stands_still(quirks) {
        return Some(format!("{counted} of {events} counted"));
    }
    sampled.unaccounted(period, missed(sampled, quirks))
}

/// If counters freeze at an overflow whose interrupt is late or lost, nothing is counted in
/// between.
fn stands_still(quirks: &str) -> bool {
    let has = |name| quirks.split('+').any(|quirk| quirk == name);
    has("frozen") && (has("late") || has("lost"))
}

/// How many periods may have no interrupt: late ones may come after the timer has found their
/// overflow, one at each of its polls, every 250 ms. Others are there at once.
fn missed(sampled: &Sampled, quirks: &str) -> u64 {
    match quirks {
        quirks if quirks.contains("lost") => u64::MAX,
        quirks if quirks.split('+').any(|quirk| quirk == "late") => sampled.elapsed / 250_000_000,
        _ => 0,
    }
}

/// Tries each of these machines with each of these quirks, and reports all that fail.
fn none_fails(machines: &[&str], quirks: &[&str], fails: impl Fn(&str, &str) -> Option<String>) {
    let tried = machines.iter().flat_map(|&model| quirks.iter().map(move |&one| (model, one)));
    let tell = |(model, quirks)| Some(format!("{model}, {quirks}: {}", fails(model, quirks)?));
    let failures: Vec<String> = tried.filter_map(tell).collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

/// Every event is accounted for, and what a session may not change is as it was: the global control
/// register, the freeze setting, and fixed counters that were on. Our selects end at 0, others are as
/// they were, and LVTPC is unmasked.
fn machines_with_quirks_account_for_every_event<B: Backend>() {
    const SHARED: [u32; 4] = [GLOBAL_CTRL, FIXED_CONTROL, DEBUGCTL, 0xC000_0301];
    const SELECTS: [u32; 4] = [0x186, 0x187, 0xC001_0200, 0xC001_0202];
    none_fails(&MACHINES, &SAMPLING, |model, quirks| {
        let mut connection = open::<B>(model, quirks);
        let found = SHARED.map(|msr| read(&mut connection, msr));
        let on = SELECTS.map(|msr| read(&mut connection, msr));
        let sampled = sampled(&mut connection, SAMPLED, SHORT);
        let left = SHARED.map(|msr| read(&mut connection, msr));
        let selects = SELECTS.map(|msr| read(&mut connection, msr));
        // With `branches-changed` someone else writes them meanwhile.
        if found != left && quirks != "branches-changed" {
            return Some(format!("{found:x?} before, {left:x?} after"));
        }
        if on.iter().zip(&selects).any(|(on, left)| left != on && *left != Some(0)) {
            return Some(format!("selects are left on: {selects:x?}"));
        }
        if is_masked(&mut connection) {
            return Some("LVTPC is left masked".to_owned());
        }
        unaccounted(&sampled, quirks, EVENTS, PERIOD)
    });
}

/// The last eighth of six seconds has samples. One machine of each way to stop counters and to end
/// a freeze: version 2 does it as version 3 does, version 5 as version 4.
fn sampling_does_not_die<B: Backend>() {
    let machines = ["skylake", "haswell", "pentium-m", "zen2", "zen4"];
    let goes_on = |quirks: &&str| !SEEN_AT_ONCE.contains(quirks);
    let quirks: Vec<&str> = SAMPLING.into_iter().filter(goes_on).collect();
    none_fails(&machines, &quirks, |model, quirks| {
        let mut connection = open::<B>(model, quirks);
        let specs = specs(&mut connection, LONG_SAMPLED);
        let session = Session::open(&mut connection, true, true).expect("a session");
        let sampled = sample_in(session, specs, &workload(LONG), LONG_EVENTS / 4);
        let late = sampled.elapsed / 8 * 7;
        let first = sampled.samples.first().map_or(0, |sample| sample.timestamp);
        if !sampled.samples.iter().any(|one| one.timestamp - first > late) {
            return Some(format!("{} samples in all", sampled.samples.len()));
        }
        unaccounted(&sampled, quirks, LONG_EVENTS, LONG_PERIOD)
    });
}

fn somebody_elses_fixed_counters_go_on<B: Backend>() {
    for model in ["skylake", "haswell", "sapphire-rapids"] {
        let mut connection = open::<B>(model, "fixed-taken");
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
fn somebody_elses_overflow_is_left_for_its_owner<B: Backend>() {
    const THEIRS: u64 = 1 << 33;
    for model in ["skylake", "haswell", "sapphire-rapids"] {
        for sources in ["TotalIssues", SAMPLED] {
            for before in [false, true] {
                let mut connection = open::<B>(model, "fixed-interrupts+raised-again");
                let what = format!("{model}, {sources}, {before}");
                if before {
                    connection.transport().0.processor(0).show_status(THEIRS);
                }
                let counted = if sources == SAMPLED {
                    start(&mut connection, true)
                } else {
                    let specs = specs(&mut connection, sources);
                    let counts = count(&mut connection, specs, &workload(SHORT));
                    assert_eq!(counts[0][0].counted, EVENTS, "{what}");
                    None
                };
                let status = read(&mut connection, GLOBAL_STATUS).expect("the register");
                // Not acknowledged, it comes again as long as there is a handler: a storm.
                let storm = (sources == SAMPLED && before).then_some(ErrorCode::InterruptStorm);
                assert_eq!(counted, storm, "{what}");
                assert_eq!(status & THEIRS == 0, !before && sources == SAMPLED, "{what}");
            }
        }
        let mut connection = open::<B>(model, "fixed-interrupts");
        let sampled = sampled(&mut connection, SAMPLED, SHORT);
        assert_eq!(unaccounted(&sampled, "", EVENTS, PERIOD), None, "{model}");
        assert_eq!(sampled.statistics.spurious, 1, "{model}");
        let status = read(&mut connection, GLOBAL_STATUS);
        assert_eq!(status, Some(THEIRS), "{model}");
    }
}

/// The overflow of metrics (48) and Trace_ToPA_PMI (55) have owners who look for them, on the same
/// interrupt: neither START, an interrupt, a tick nor STOP acknowledges them (SDM vol. 4,
/// IA32_PERF_GLOBAL_STATUS).
fn anothers_status_bits_stay<B: Backend>() {
    const THEIRS: u64 = 1 << 48 | 1 << 55;
    for model in ["skylake", "haswell", "sapphire-rapids"] {
        for quirks in ["", "lost", "frozen", "stale-status"] {
            let mut connection = open::<B>(model, quirks);
            connection.transport().0.processor(0).show_status(THEIRS);
            let counted = specs(&mut connection, "TotalIssues");
            drop(count(&mut connection, counted, &workload(SHORT)));
            let after_counting = read(&mut connection, GLOBAL_STATUS).map(|all| all & THEIRS);
            drop(sampled(&mut connection, SAMPLED, SHORT));
            let status = read(&mut connection, GLOBAL_STATUS).map(|all| all & THEIRS);
            let what = format!("{model}, {quirks}");
            assert_eq!((after_counting, status), (Some(THEIRS), Some(THEIRS)), "{what}");
        }
    }
}

/// A hypervisor emulates the status register and may refuse what silicon takes, which breaks a rule:
/// only what was seen there, or what a freeze that was seen brings, is acknowledged.
fn nothing_is_acknowledged_that_a_hypervisor_does_not_show<B: Backend>() {
    for model in
        ["hyperv-root-intel", "hyperv-guest-intel", "sapphire-rapids", "skylake", "haswell", "zen4"]
    {
        for quirks in ["", "+frozen", "+frozen+lost", "+late", "+foreign-status", "+stale-status"] {
            let mut connection = open::<B>(model, &format!("hypervisor-masks{quirks}"));
            let counted = specs(&mut open::<B>(model, ""), "TotalIssues");
            drop(count(&mut connection, counted, &workload(SHORT)));
            drop(sampled(&mut connection, SAMPLED, SHORT));
        }
    }
}

fn a_general_counter_found_on_is_told_and_taken<B: Backend>() {
    for model in ["skylake", "core2", "zen2", "zen4"] {
        let mut connection = open::<B>(model, "counters-on");
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

/// The error that refuses to sample these sources, and its detail.
fn refused<B: Backend>(connection: &mut Connection<B>, list: &str) -> Option<(ErrorCode, u64)> {
    let specs = specs(connection, list);
    let mut session = Session::open(connection, true, true).expect("a session");
    session.configure(&Setup { specs, ..Setup::default() }, true).expect("a configuration");
    session.start().err().map(|error| match error {
        Error::Refused(refusal) => (refusal.code, refusal.detail),
        error => panic!("{error}"),
    })
}

fn every(interval: u64, source: u32) -> Spec {
    Spec { interval, ..spec(source) }
}

/// The error that refuses a START.
fn start<B: Backend>(connection: &mut Connection<B>, sample: bool) -> Option<ErrorCode> {
    let specs = specs(connection, SAMPLED);
    let mut session = Session::open(connection, true, true).expect("a session");
    let setup = Setup { specs, ..Setup::default() };
    session.configure(&setup, sample).expect("a configuration");
    session.start().err().and_then(|error| code(&error))
}

/// A freeze stops counters at their overflow even if its interrupt never comes. A refused START
/// ends the freeze: it would stop other owners' counters too.
fn frozen_counters_are_not_dead<B: Backend>() {
    for (model, status) in [
        ("skylake", GLOBAL_STATUS),
        ("haswell", GLOBAL_STATUS),
        ("sapphire-rapids", GLOBAL_STATUS),
        ("zen4", PERF_CNTR_GLOBAL_STATUS),
    ] {
        let mut connection = open::<B>(model, "frozen+dead-interrupts");
        let refused = start(&mut connection, true);
        assert_eq!(refused, Some(ErrorCode::InterruptsDead), "{model}");
        assert_eq!(read(&mut connection, status), Some(0), "{model}");
    }
}

/// Nothing would count before: also a session that only counts ends it.
fn a_freeze_that_was_left_ends_with_start<B: Backend>() {
    const CTR_FRZ: u64 = 1 << 59;
    for (model, status) in [("skylake", GLOBAL_STATUS), ("zen4", PERF_CNTR_GLOBAL_STATUS)] {
        for sample in [false, true] {
            let mut connection = open::<B>(model, "");
            connection.transport().0.processor(0).show_status(CTR_FRZ);
            assert_eq!(start(&mut connection, sample), None, "{model}, {sample}");
            assert_eq!(read(&mut connection, status), Some(0), "{model}, {sample}");
        }
    }
}

/// The first interrupt is that of START's self-test: START does not start what it could not stop,
/// and leaves LVTPC masked, because there is no longer a handler. Counting still works.
fn a_storm_is_met_by_the_proof<B: Backend>() {
    for model in MACHINES {
        let mut connection = open::<B>(model, "storm");
        for _ in 0..2 {
            let refused = start(&mut connection, true);
            assert_eq!(refused, Some(ErrorCode::InterruptStorm), "{model}");
            assert!(is_masked(&mut connection), "{model}");
        }
        assert_eq!(start(&mut connection, false), None, "{model}");
    }
}

/// Sampling is refused with the entry's value, and LVTPC stays as it was found; counting needs no
/// interrupt. Selects are left off, also where somebody had left one on and nothing was set up.
fn an_entry_that_would_send_an_nmi_stays_as_it_is<B: Backend>() {
    for model in MACHINES {
        for quirks in ["nmi-lvtpc", "nmi-lvtpc+masked", "nmi-lvtpc+counters-on"] {
            let mut connection = open::<B>(model, quirks);
            let lvtpc = |connection: &mut Connection<B>| {
                let processor = connection.transport().0.processor(0);
                processor.unobserved(|processor| processor.read_apic(LVTPC)).expect("LVTPC")
            };
            let found = lvtpc(&mut connection);
            for _ in 0..2 {
                let refused = refused(&mut connection, SAMPLED);
                let told = Some((ErrorCode::InterruptsDead, u64::from(found)));
                assert_eq!(refused, told, "{model}, {quirks}");
            }
            let counted = specs(&mut connection, "TotalIssues");
            let counts = count(&mut connection, counted, &workload(SHORT));
            assert_eq!(counts[0][0].counted, EVENTS, "{model}, {quirks}");
            assert_eq!(lvtpc(&mut connection), found, "{model}, {quirks}");
        }
    }
}

/// Somebody sets the mode while the machine sleeps.
fn an_nmi_after_sleep_ends_the_session<B: Backend>() {
    const NMI: u32 = 0b100 << 8;
    for model in ["skylake", "haswell", "zen2", "zen4"] {
        for masked in [0, LVTPC_MASK] {
            let mut machine = Stepped::<B>::new(model, 2);
            machine.run(SAMPLE, &[spec(TOTAL_ISSUES)]);
            machine.sleep();
            let processor = machine.processor(1);
            processor.write_apic(LVTPC, NMI | masked).expect("LVTPC");
            machine.client.model.others_wrote_registers();
            machine.wake();
            let told = (ErrorCode::InterruptsDead, 1, u64::from(NMI | masked));
            assert_eq!(machine.try_stop(), Some(told), "{model}");
            let entry = machine.processor(1).read_apic(LVTPC);
            assert_eq!(entry, Ok(NMI | masked), "{model}");
        }
    }
}

/// An interrupt of a general counter says nothing about fixed ones.
fn each_kind_of_counter_proves_its_interrupt<B: Backend>() {
    let general = "BranchInstructions:50021";
    let fixed = "FixedInstructions:50021";
    let dead = Some(ErrorCode::InterruptsDead);
    for model in ["skylake", "haswell", "sapphire-rapids"] {
        for (quirks, sources, refused_by) in [
            ("silent-fixed", general.to_owned(), None),
            ("silent-fixed", fixed.to_owned(), dead),
            ("silent-fixed", format!("{general},{fixed}"), dead),
            ("", format!("{general},{fixed}"), None),
            ("late", format!("{general},{fixed}"), None),
            ("lost+stale-status", format!("{general},{fixed}"), None),
            ("frozen", format!("{general},{fixed}"), None),
        ] {
            let mut connection = open::<B>(model, quirks);
            let refused = refused(&mut connection, &sources);
            let told = refused.map(|(error, _)| error);
            assert_eq!(told, refused_by, "{model}, {quirks}: {sources}");
        }
    }
}

/// Up to version 3, a freeze clears the bits of every counter, also of those that are declared and
/// not used: 12 general counters, of which ten have registers.
fn a_freeze_takes_nothing_from_unused_counters<B: Backend>() {
    let twelve = with(&first("skylake"), 0xA, |leaf| leaf.eax = 0x0730_0C02);
    for flags in [0, SAMPLE] {
        let mut machine = Stepped::<B>::of(&[with_quirks(&twelve, "frozen")]);
        let control = |machine: &mut Stepped<B>| machine.processor(0).rdmsr(GLOBAL_CTRL);
        let found = control(&mut machine);
        assert_eq!(found, Ok(0xFFF));
        machine.run(flags, &[every(PERIOD, TOTAL_ISSUES)]);
        machine.retire(0, &[(Event::Instructions, 2 * PERIOD)]);
        assert_eq!(machine.take_interrupt(0), flags == SAMPLE);
        machine.stop();
        assert_eq!(control(&mut machine), found, "{flags}");
    }
}

/// The sources that a machine says it can count, without the timer.
fn supported<B: Backend>(connection: &mut Connection<B>) -> Vec<String> {
    let counts =
        |source: &&Source| source.flags & (Source::SUPPORTED | Source::TIMER) == Source::SUPPORTED;
    let sources = connection.sources(true).expect("the sources");
    let names = sources.iter().filter(counts);
    names.map(|source| source.name.to_owned()).collect()
}

fn fixed_counters_are_enough<B: Backend>() {
    for model in ["skylake", "haswell", "sapphire-rapids"] {
        let mut connection = open::<B>(model, "no-general");
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

fn without_any_counter_no_source_is_supported<B: Backend>() {
    for model in ["skylake", "sapphire-rapids", "zen4"] {
        let mut connection = open::<B>(model, "no-general+no-fixed");
        assert_eq!(supported(&mut connection), Vec::<String>::new(), "{model}");
    }
}

/// Counters are read as often as the narrowest one needs: 2^34 events on 32-bit counters.
fn narrow_counters_lose_no_wrap<B: Backend>() {
    let runs = "instructions=17179869184,cycles=17179869184,branches=17179869184";
    for model in ["skylake", "core2"] {
        let mut connection = open::<B>(model, "narrow-counters");
        let specs = specs(&mut connection, "TotalIssues,TotalCycles,BranchInstructions");
        let specs = specs.into_iter().take(2).collect();
        let counts = count(&mut connection, specs, &workload(runs));
        for count in &counts[0] {
            assert_eq!(count.counted, 1 << 34, "{model}");
        }
    }
}

/// What the rows say remains true of the processors that the service runs on.
fn the_service_runs_on_processors_with_quirks<B: Backend>() {
    let mut connection = open::<B>("skylake", "masked+frozen");
    assert!(is_masked(&mut connection));
    assert_eq!(read(&mut connection, DEBUGCTL), Some(1 << 12));
}

#[cfg(test)]
mod tests {
    use super::SAMPLING;
    use sim::quirks::{QUIRKS, Quirks};

    #[test]
    fn every_quirk_is_tried_here() {
        let mut tried = SAMPLING.iter().flat_map(|quirks| quirks.split('+'));
        let elsewhere = [
            "dead-interrupts",
            "dead-counters",
            "storm",
            "no-general",
            "nmi-lvtpc",
            "silent-fixed",
            // scenarios/errata.rs
            "tsx-force-abort",
            "nehalem-reset",
            "broadwell-period",
            "thread-leak",
            "zen3-overcount",
            // scenarios/refused.rs
            "refused-pmc",
            "refused-user-disable",
            "pebs-left",
            "adaptive-left",
            "reload-left",
            // scenarios/branches.rs
            "false-branches",
            "branches-left",
            "cleared-records",
        ];
        for row in QUIRKS {
            let here = tried.clone().any(|name| name == row.name);
            assert!(here || elsewhere.contains(&row.name), "{}", row.name);
        }
        assert!(tried.all(|name| name.is_empty() || Quirks::parse(name).is_ok()));
    }
}
