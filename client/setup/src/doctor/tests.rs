//! Does each fact lead to its finding, and is an unknown one never taken for good?

use super::*;
use halprof_measure::tracing::session::{
    CounterOwner, CounterOwners, CounterSession, OwnerKind, ProfileSource,
};
use halprof_measure::{Error, InProcess, Refusal};
use shared_types::ErrorCode;
use std::collections::BTreeMap;

fn modelled(machine: &str, system: Option<System>) -> Facts {
    collected(&mut on(machine), system)
}

fn collected(connection: &mut Connection<impl Transport>, system: Option<System>) -> Facts {
    let described = described(connection);
    Facts::collect(connection, described, system, &words).expect("facts")
}

fn described(connection: &mut Connection<impl Transport>) -> Description {
    let machine = connection.machine().expect("a description");
    Description::new(&machine, &connection.processors().expect("processors"))
}

fn on(machine: &str) -> Connection<InProcess> {
    let spec = halprof_measure::spec(machine).expect("a model");
    Connection::new(InProcess::new(&spec.leaves)).expect("an answer")
}

fn words(error: &Error) -> Failure {
    Failure {
        code: error.code(),
        message: error.to_string(),
        hint: "This is what to do.".to_owned(),
    }
}

fn check(facts: &Facts, name: &str) -> Check {
    examine(facts).into_iter().find(|check| check.name == name).expect("this check")
}

fn hint(facts: &Facts, name: &str) -> String {
    check(facts, name).hint.expect("a hint")
}

fn states(facts: &Facts) -> BTreeMap<&'static str, State> {
    let checks = examine(facts);
    let states: BTreeMap<_, _> = checks.iter().map(|check| (check.name, check.state)).collect();
    assert_eq!(states.len(), checks.len(), "a name stands twice");
    for check in checks {
        assert!(!check.result.is_empty(), "{check:?}");
        let explained = check.consequence.is_some() && check.hint.is_some();
        assert_eq!(explained, check.state != State::Ok, "{check:?}");
        for text in [check.consequence, check.hint].into_iter().flatten() {
            assert!(text.ends_with(['.', ')', '>']) && text.len() > 10, "{text}");
        }
    }
    states
}

/// A Windows system without any problem.
fn good() -> System {
    System {
        build: Some((19045, 4291)),
        arm: Some(false),
        elevated: Some(true),
        tracing_rights: None,
        code_integrity: Some(0x01 | 0x02),
        secure_boot: Some(false),
        services: Some(vec!["Tcpip".to_owned()]),
        processes: Some(vec!["explorer.exe".to_owned()]),
        modules: Some((30, 180)),
    }
}

fn absent() -> Driver {
    Driver::Silent(no_driver())
}

fn no_driver() -> Failure {
    words(&Error::NoDriver {
        message: "the driver is not installed".to_owned(),
        hint: "Run `halprof install`.".into(),
    })
}

#[test]
fn models_are_found_to_be_what_they_are() {
    use State::{Ok, Problem, Warning};
    for (machine, name, state) in [
        ("skylake", "interface", Ok),
        ("skylake", "counting", Ok),
        ("skylake", "sampling", Ok),
        ("skylake", "owner", Ok),
        ("zen4", "hypervisor", Ok),
        ("pentium", "interface", Warning),
        ("pentium", "sampling", Warning),
        ("pentium", "counting", Ok),
        ("pentium4", "sampling", Ok),
        ("hyperv-masked", "interface", Problem),
        ("hyperv-masked", "hypervisor", Warning),
        ("hyperv-root-amd", "interface", Problem),
        ("hyperv-root-amd", "hypervisor", Problem),
    ] {
        assert_eq!(states(&modelled(machine, None))[name], state, "{machine} {name}");
    }
}

#[test]
fn a_good_windows_has_nothing_to_tell() {
    let states = states(&modelled("skylake", Some(good())));
    assert!(states.values().all(|&state| state == State::Ok), "{states:?}");
    assert_eq!(states.len(), 11);
}

/// What differs from the good system, the check that reports it, and its state.
type Case = (fn(&mut System), &'static str, State);

#[test]
fn each_fact_of_windows_has_its_finding_before_the_driver_runs() {
    use State::{Ok, Problem, Unknown, Warning};
    let change = |change: fn(&mut System)| {
        let mut system = good();
        change(&mut system);
        Facts::unanswered(absent(), None, Some(system))
    };
    let cases: &[Case] = &[
        (|_| {}, "signing", Ok),
        (|system| system.build = Some((18363, 1)), "windows", Problem),
        (|system| system.build = None, "windows", Unknown),
        (|system| system.arm = Some(true), "windows", Problem),
        (|system| system.arm = None, "windows", Unknown),
        (|system| (system.build, system.arm) = (None, Some(true)), "windows", Problem),
        (|system| system.elevated = Some(false), "permission", Problem),
        (|system| system.code_integrity = Some(0x01), "signing", Warning),
        (|system| system.code_integrity = None, "signing", Unknown),
        (|system| system.secure_boot = Some(true), "signing", Ok),
        (|system| system.services = Some(vec!["sepdrv5".to_owned()]), "other-tools", Warning),
        (|system| system.processes = None, "other-tools", Unknown),
        (|system| system.modules = Some((30, 0)), "modules", Warning),
        (|system| system.modules = Some((0, 180)), "modules", Warning),
        (|system| system.modules = None, "modules", Unknown),
    ];
    for (number, (make, name, state)) in cases.iter().enumerate() {
        let facts = change(*make);
        assert_eq!(states(&facts)[name], *state, "case {number}: {name}");
        assert_eq!(states(&facts)["driver"], Problem);
    }
}

#[test]
fn a_driver_that_runs_is_the_proof_that_windows_lets_it() {
    let system = System {
        elevated: Some(false),
        code_integrity: Some(0x401),
        secure_boot: Some(true),
        ..good()
    };
    let states = states(&modelled("skylake", Some(system)));
    for name in ["permission", "signing"] {
        assert_eq!(states[name], State::Ok, "{name}");
    }
}

#[test]
fn what_is_not_told_is_unknown() {
    let facts = Facts::unanswered(absent(), None, Some(System::default()));
    let states = states(&facts);
    for (name, state) in states.iter().filter(|(name, _)| **name != "driver") {
        assert_eq!(*state, State::Unknown, "{name}");
    }
    assert_eq!(states.len(), 6);
}

#[test]
fn a_driver_of_another_version_is_reported_with_both_versions() {
    let checks = examine(&Facts::unanswered(
        Driver::Silent(refusal(ErrorCode::VersionMismatch, 7, 9)),
        None,
        None,
    ));
    let [driver] = checks.as_slice() else { panic!("{checks:?}") };
    assert_eq!((driver.state, driver.code), (State::Problem, Some("version-mismatch")));
    assert!(driver.result.contains('7') && driver.result.contains('9'), "{driver:?}");
}

#[test]
fn without_a_driver_cpuid_tells_what_to_expect() {
    let described = modelled("hyperv-root-amd", None).described;
    let states = states(&Facts::unanswered(absent(), described, None));
    assert_eq!(states["interface"], State::Problem);
    assert_eq!(states["hypervisor"], State::Problem);
    assert!(!states.contains_key("counting"), "nobody has tried");
}

fn refusal(code: ErrorCode, subject: u32, detail: u64) -> Failure {
    words(&Error::Refused(Refusal { code, subject, detail, source: None }))
}

#[test]
fn what_the_machine_refuses_is_found_by_trying() {
    let spec = halprof_measure::spec("skylake").expect("a model");
    for (name, code) in [("owner", "counters-reserved"), ("sampling", "interrupt-taken")] {
        let mut machine = InProcess::new(&spec.leaves);
        let host = machine.model().host();
        (host.counters_taken, host.interrupt_taken) = (name == "owner", name == "sampling");
        let mut connection = Connection::new(machine).expect("an answer");
        let facts = collected(&mut connection, None);
        let check = check(&facts, name);
        assert_eq!(check.code, Some(code), "{check:?}");
        assert_ne!(check.state, State::Ok);
    }
}

#[test]
fn the_trial_leaves_nothing_behind() {
    let mut connection = on("skylake");
    let (before, _) = connection.registers(0).expect("registers");
    assert_eq!(collected(&mut connection, None).trials.sampling, Some(Ok(())));
    let machine = connection.machine().expect("the machine");
    assert_eq!((machine.active_session, machine.ring_bytes), (0, 0));
    let selects = |registers: &[shared_types::request::machine::Register]| {
        let enabled = registers.iter().filter(|one| (0x186..0x196).contains(&one.number));
        enabled.map(|one| one.value & 1 << 22).collect::<Vec<_>>()
    };
    let (after, _) = connection.registers(0).expect("registers");
    assert_eq!(selects(&after), selects(&before));
}

#[test]
fn hints_fit_the_windows_that_they_are_for() {
    let hint = |system, name| hint(&Facts::unanswered(absent(), None, Some(system)), name);
    for (secure_boot, starts) in [
        (Some(true), "Turn off Secure Boot"),
        (None, "Turn off Secure Boot"),
        (Some(false), "Run `bcdedit"),
    ] {
        let unsigned = System { secure_boot, code_integrity: Some(0x01), ..good() };
        let hint = hint(unsigned, "signing");
        assert!(hint.starts_with(starts) && hint.contains("testsigning on"), "{hint}");
    }
    let arm = hint(System { arm: Some(true), ..good() }, "windows");
    assert!(arm.contains("WindowsPerf"), "{arm}");
    // An elevated user is not sent to an elevated prompt.
    for elevated in [true, false] {
        for modules in [Some((30, 0)), Some((0, 180)), None] {
            let system = System { elevated: Some(elevated), modules, ..good() };
            let hint = hint(system, "modules");
            assert_eq!(hint.contains("elevated"), !elevated, "{hint}");
        }
    }
}

#[test]
fn failed_trials_are_problems_with_candidates() {
    let mut facts = modelled("skylake", Some(good()));
    facts.trials.sampling = Some(Err(refusal(ErrorCode::InterruptTaken, 0, 0xC000_009A)));
    assert_eq!(check(&facts, "sampling").state, State::Warning);
    assert!(hint(&facts, "sampling").contains("VTune"));
    facts.trials.counting = Some(Err(refusal(ErrorCode::CountersDead, 0, 0xC000_009A)));
    assert_eq!(check(&facts, "counting").state, State::Problem);
    assert_eq!(check(&facts, "owner").state, State::Unknown);
    facts.trials.counting = Some(Err(refusal(ErrorCode::CountersReserved, 0, 0xC000_009A)));
    let owner = check(&facts, "owner");
    assert_eq!((owner.state, owner.code), (State::Problem, Some("counters-reserved")));
    assert!(hint(&facts, "owner").contains("VTune"));
    facts.system.as_mut().expect("a Windows").processes = Some(vec!["pcm.exe".to_owned()]);
    assert!(hint(&facts, "owner").contains("running here: Intel PCM (pcm.exe)"));
    let described = facts.described.as_mut().expect("a machine");
    (described.machine.active_session, described.machine.active_process) = (7, 4711);
    let owner = check(&facts, "owner");
    assert!(owner.state == State::Problem && owner.result.contains("process 4711"), "{owner:?}");
}

#[test]
fn each_hypervisor_has_its_own_hint() {
    for (vendor, hypervisor, partition, outer, contains) in [
        ("GenuineIntel", "Microsoft Hv", Some("root"), None, "Ask Windows first"),
        ("AuthenticAMD", "Microsoft Hv", Some("root"), None, "Ask Windows first"),
        ("GenuineIntel", "Microsoft Hv", Some("guest"), None, "Set-VMProcessor"),
        ("GenuineIntel", "Microsoft Hv", Some("guest"), Some("KVMKVMKVM"), "enlightenments"),
        ("GenuineIntel", "VMwareVMware", None, None, "vpmc.enable"),
    ] {
        let mut facts = modelled("hyperv-masked", None);
        let described = facts.described.as_mut().expect("a machine");
        for processor in &mut described.processors {
            vendor.clone_into(&mut processor.vendor);
            processor.hypervisor = Some(hypervisor.to_owned());
            processor.hypervisor_behind = outer.map(str::to_owned);
            processor.partition = partition;
        }
        let hint = hint(&facts, "interface");
        assert!(hint.contains(contains), "{contains}: {hint}");
    }
}

fn source(id: u32, name: &str) -> ProfileSource {
    ProfileSource { id, name: name.to_owned(), min_interval: 1, max_interval: 9, interval: 5 }
}

/// Windows' own tracing on a machine with counters.
fn traces() -> Tracing {
    Tracing {
        measures: true,
        sources: Ok(vec![source(0, "Timer"), source(19, "TotalCycles")]),
        counters: Some(4),
        counter_owners: CounterOwners::default(),
    }
}

fn traced(machine: &str, tracing: Tracing) -> Facts {
    let described = described(&mut on(machine));
    Facts::unanswered(absent(), Some(described), Some(good())).with_tracing(Some(tracing))
}

#[test]
fn windows_own_tracing_stands_in_for_a_driver_that_is_not_there() {
    let facts = traced("skylake", traces());
    let states = states(&facts);
    assert_eq!((states["driver"], states["tracing"]), (State::Warning, State::Ok));
    assert!(!states.contains_key("owner"), "this Windows does not say");
    assert!(check(&facts, "tracing").result.contains("not yet run on a real Windows"));
    // Without the right, and where the driver was asked for, it stands in for nobody.
    let plain = System { elevated: Some(false), ..good() };
    let unelevated = Facts { system: Some(plain), ..facts.clone() };
    let driver_only = traced("skylake", Tracing { measures: false, ..traces() });
    let refused = traced("skylake", Tracing { sources: Err(no_driver()), ..traces() });
    for facts in [unelevated, driver_only, refused] {
        assert_eq!(check(&facts, "driver").state, State::Problem);
    }
}

/// Who names tracing does without the driver.
#[test]
fn a_driver_that_nobody_asked_for_is_no_problem() {
    let facts = Facts { driver: Driver::NotTried, ..traced("skylake", traces()) };
    let states_of = states(&facts);
    assert!(states_of.values().all(|&state| state == State::Ok), "{states_of:?}");
    let refused = Tracing { sources: Err(no_driver()), ..traces() };
    let facts = facts.with_tracing(Some(refused));
    assert_eq!(states(&facts)["tracing"], State::Problem);
}

#[test]
fn what_an_account_was_given_is_shown_and_whether_it_is_in_force() {
    use State::{Ok, Problem, Warning};
    let (yes, no) = (Some(true), Some(false));
    for (elevated, given, in_force, state, permission) in [
        (false, [no; 4], false, Ok, Problem),
        (false, [yes; 4], false, Warning, Problem),
        (false, [yes; 4], true, Ok, Ok),
        (false, [yes, yes, None, None], true, Ok, Ok),
        (false, [yes, no, no, no], false, Warning, Problem),
        (true, [yes; 4], false, Ok, Ok),
        (true, [None; 4], false, Ok, Ok),
    ] {
        let rights = crate::tracing_rights::TracingRights { given, in_force };
        let system = System { elevated: Some(elevated), tracing_rights: Some(rights), ..good() };
        let facts = Facts { system: Some(system), ..traced("skylake", traces()) };
        let states = states(&facts);
        assert_eq!(states["tracing-rights"], state, "{elevated} {given:?} {in_force}");
        assert_eq!(states["permission"], permission, "{elevated} {given:?} {in_force}");
        let result = check(&facts, "tracing-rights").result;
        assert_eq!(result.contains("in force"), given.contains(&yes), "{result}");
    }
}

#[test]
fn why_windows_lists_no_counter_is_told() {
    for (machine, why) in [
        ("hyperv-root-amd", "update windows: builds of 2016 to 2019 hide amd"),
        ("hyperv-guest-masked", "Set-VMProcessor"),
        ("skylake", "does not know the processor"),
    ] {
        let facts = traced(machine, Tracing { sources: Ok(vec![source(0, "Timer")]), ..traces() });
        assert_eq!(check(&facts, "tracing").state, State::Warning, "{machine}");
        let hint = hint(&facts, "tracing").to_lowercase();
        assert!(hint.contains(&why.to_lowercase()), "{machine}: {hint}");
    }
}

/// A machine with Windows' own hypervisor is told to turn something off only after Windows was asked,
/// and has listed no counter.
#[test]
fn no_protection_is_given_up_before_windows_was_asked() {
    const OFF: &str = "hypervisorlaunchtype off";
    let lists = |sources| Tracing { sources: Ok(sources), ..traces() };
    let timer = || source(0, "Timer");
    for machine in ["hyperv-root-amd", "hyperv-root-2012"] {
        let facts = |tracing| Facts { tracing, ..traced(machine, traces()) };
        let refused = Tracing { sources: Err(no_driver()), ..traces() };
        for (tracing, may_say, state) in [
            (None, false, State::Problem),
            (Some(refused), false, State::Problem),
            (Some(lists(vec![timer(), source(19, "TotalCycles")])), false, State::Warning),
            (Some(lists(vec![timer()])), true, State::Problem),
        ] {
            let facts = facts(tracing);
            let interface = check(&facts, "interface");
            assert_eq!(interface.state, state, "{machine}");
            let advice = examine(&facts).into_iter().filter_map(|check| check.hint);
            let advice = advice.collect::<String>();
            assert_eq!(advice.contains(OFF), may_say, "{machine}: {advice}");
        }
    }
}

#[test]
fn who_holds_counters_is_told_as_windows_knows_them() {
    let owner = |counter, kind, source, tag| CounterOwner {
        processor: 0,
        counter,
        kind: Some(kind),
        source,
        tag,
    };
    let counter_owners = |counters| CounterOwners {
        counters: Some(counters),
        sessions: Some(vec![CounterSession { logger: 3, sources: 2, events: 1 }]),
    };
    let free = owner(0, OwnerKind::Free, 0, 0);
    let nobody = CounterOwners { counters: Some(vec![free]), sessions: Some(Vec::new()) };
    let facts = traced("skylake", Tracing { counter_owners: nobody, ..traces() });
    assert_eq!(check(&facts, "owner").state, State::Ok);
    let taken = vec![
        free,
        owner(1, OwnerKind::Tagged, 0, 0x7E),
        owner(2, OwnerKind::TaggedWithSource, 19, 5),
    ];
    let held = Tracing { counter_owners: counter_owners(taken), ..traces() };
    let facts = traced("skylake", held.clone());
    let owner = check(&facts, "owner");
    assert_eq!(
        owner.result,
        "counter 1 of processor 0: tag 0x7e; counter 2 of processor 0: tag 0x5 for TotalCycles; \
         tracing session 3 with 2 sources"
    );
    assert!(hint(&facts, "owner").contains("Intel Threat Detection"));
    // The driver is refused: the same names who may have refused it.
    let mut facts = modelled("skylake", Some(good())).with_tracing(Some(held));
    facts.trials.counting = Some(Err(refusal(ErrorCode::CountersReserved, 0, 1)));
    assert!(hint(&facts, "owner").starts_with("counter 1 of processor 0: tag 0x7e;"));
}
