//! Checks of what the processors and the driver report.

use super::counter_owners::{self, WHO};
use super::tools::candidates;
use super::{Check, Facts, System};
use halprof_measure::describe::{Description, ProcessorDescription};
use shared_types::request::machine::Machine;
use shared_types::{Delivery, ErrorCode, ProfileInterface, Reason};
use std::collections::BTreeSet;

pub(super) fn checks(facts: &Facts, described: &Description) -> Vec<Check> {
    let machine = &described.machine;
    let lists_counters = facts.lists_counters();
    let mut checks =
        vec![interface(described, lists_counters), hypervisor(described, lists_counters)];
    checks.extend(unknown_models(described));
    // Without a driver nothing beyond CPUID is known.
    if facts.answered() && machine.interface != ProfileInterface::Default as u32 {
        checks.extend([owner(facts, machine), counting(facts), sampling(facts, described)]);
    } else if held(facts).is_some() {
        checks.push(owner(facts, machine));
    }
    checks
}

/// What to tell where CPUID hides the counters from the driver, and Windows lists some all the same.
const LISTED: &str = "Measure by Windows' own tracing (`--machine etw`): Windows lists counters here, whatever its hypervisor shows in CPUID. Nothing has to be turned off.";

/// `lists_counters`: whether Windows' own tracing lists any.
fn interface(described: &Description, lists_counters: Option<bool>) -> Check {
    let Description { machine, interface, explanation, .. } = described;
    let result = format!("{interface}: {explanation}");
    let check = Check::new("interface", result);
    match ProfileInterface::from_wire(machine.interface) {
        Some(ProfileInterface::Emon | ProfileInterface::Amd64) => check,
        Some(ProfileInterface::Pentium | ProfileInterface::P6 | ProfileInterface::NetBurst) => check
            .warning(
                "No current Windows boots on this processor: results hold for the model alone.",
                "Measure a processor that Windows runs on; `halprof machines` lists models of such.",
            ),
        Some(ProfileInterface::Default) | None if lists_counters == Some(true) => check
            .warning("The driver would count only time, and sample nothing.", LISTED)
            .code(ErrorCode::SourceNotSupported.code()),
        Some(ProfileInterface::Default) | None => check
            .problem(
                "Only time can be counted, and nothing can be sampled.",
                hint_without_counters(described, lists_counters),
            )
            .code(ErrorCode::SourceNotSupported.code()),
    }
}

/// Models whose events nobody here knows, if there are any.
fn unknown_models(described: &Description) -> Option<Check> {
    let models: BTreeSet<&str> =
        described.processors.iter().filter_map(|one| one.unknown_model.as_deref()).collect();
    let models: Vec<&str> = models.into_iter().collect();
    (!models.is_empty()).then(|| {
        Check::new("events", format!("the events of {} are not known", models.join(", ")))
            .warning(
                "Vendors' events are refused there. Time, the architectural sources that CPUID \
                 enumerates, and raw selects can be counted.",
                "Take a halprof that is newer than the processor, or raw selects (`rHEX`) from the manual of this very model.",
            )
            .code("unknown-model")
    })
}

/// Why no counter can be used on this machine, and what to do; `None` if counters can be used.
/// `lists_counters`: whether Windows' own tracing lists any, if Windows was asked.
pub fn no_counters(
    described: &Description,
    lists_counters: Option<bool>,
) -> Option<(String, String)> {
    let interface = ProfileInterface::from_wire(described.machine.interface);
    if interface.is_some_and(|interface| interface != ProfileInterface::Default) {
        return None;
    }
    Some((described.explanation.clone(), hint_without_counters(described, lists_counters)))
}

/// What to do if the interface in use has no counters.
fn hint_without_counters(described: &Description, lists_counters: Option<bool>) -> String {
    use Reason as R;
    let boot = described.boot();
    match (Reason::from_wire(described.machine.reason), &boot.hypervisor) {
        (
            Some(
                R::HypervisorMasks
                | R::HypervisorUnproved
                | R::NoLeaf0A
                | R::VersionZero
                | R::NoEventBits
                | R::NoCoreCycles,
            ),
            Some(hypervisor),
        ) => how_to_show(hypervisor, &boot, lists_counters),
        (Some(R::MonitoringDisabled), _) => {
            "Enable performance monitoring in the firmware setup.".to_owned()
        }
        _ => "halprof knows no counters on this processor; ProfileTime can still be counted."
            .to_owned(),
    }
}

/// How to make each hypervisor expose the counters, by its name in CPUID leaf 0x40000000.
const HYPERVISORS: &[(&str, &str)] = &[
    (
        "VMwareVMware",
        "VMware: in the machine's settings, Processors, Virtualize CPU performance counters (`vpmc.enable = \"TRUE\"` in the .vmx file). Workstation refuses it where Hyper-V runs on the host: then measure on the host itself, or in a guest of Hyper-V. Then run `halprof doctor` again, which tests the counters.",
    ),
    ("KVMKVMKVM", "KVM: `-cpu host,pmu=on`."),
    ("XenVMMXenVMM", "Xen: `vpmu=1` on the hypervisor's command line."),
    (
        "VBoxVBoxVBox",
        "VirtualBox gives guests no counters: use another hypervisor, or measure on the host.",
    ),
    ("TCGTCGTCGTCG", "QEMU without KVM has no counters: use KVM, with `-cpu host,pmu=on`."),
];

/// What comes first under Windows' own hypervisor. Whether it hides counters depends on the build and
/// the processor (a Ryzen 9 9950X3D2 with Windows 11 counted by tracing under it in August 2026), so
/// nobody is told to turn off a protection before Windows was asked.
const LOOK_FIRST: &str = "Windows is running on its own hypervisor, and CPUID does not show what Windows itself may count. Ask Windows first: `halprof --machine etw list`. Where it lists counters, measure by tracing, and leave the hypervisor and Memory integrity as they are. Where it lists its timer alone, something else is needed.";
/// Windows was asked, and lists no counter: Hyper-V's root partition on Intel.
const ROOT_INTEL: &str = "Windows is running on its own hypervisor and lists no counter. Update Windows: from Windows 10 version 1809 on, it can use Intel's counters there. If a later version hides them, look for `hypervisorperfmon` (custom:2500011c) in `bcdedit /enum all`: Microsoft does not document this option, which seems to give the counters to the hypervisor (1) in place of Windows (0).";
/// The same on AMD.
const ROOT_AMD: &str = "Windows is running on its own hypervisor and lists no counter. Update Windows: builds of 2016 to 2019 hide AMD's counters there, and Windows 11 has been seen to list them on a Zen 5.";
/// What is left if updating Windows does not help.
const LAST_RESORT: &str = "If it still lists none, measure on another machine. Without the hypervisor the counters are there too, but then Memory integrity, Credential Guard and virtual machines are off: turn it off (`bcdedit /set hypervisorlaunchtype off`) only on a machine that has nothing to protect, and turn it on again afterwards.";
/// A guest of Hyper-V.
const GUEST: &str = "Hyper-V guest: turn the machine off and run `Set-VMProcessor -VMName NAME -Perfmon @(\"pmu\")` on the host, which must have an Intel processor. Azure does not offer this.";
/// KVM or Xen with Hyper-V's enlightenments.
const UNDER_ANOTHER: &str = "It presents itself as Hyper-V, whose enlightenments can hide the counters (CPUID 0x40000003 EDX bit 2): turn them off for this guest, or let them offer performance monitors.";

fn how_to_show(
    hypervisor: &str,
    boot: &ProcessorDescription,
    lists_counters: Option<bool>,
) -> String {
    if let Some(outer) = &boot.hypervisor_behind {
        return format!("{} {UNDER_ANOTHER}", by_name(outer));
    }
    match (boot.partition, lists_counters) {
        (Some("root"), Some(true)) => LISTED.to_owned(),
        (Some("root"), None) => LOOK_FIRST.to_owned(),
        (Some("root"), Some(false)) => {
            let update = if boot.vendor == "GenuineIntel" { ROOT_INTEL } else { ROOT_AMD };
            format!("{update} {LAST_RESORT}")
        }
        (Some(_), _) => GUEST.to_owned(),
        (None, _) if hypervisor == "Microsoft Hv" => GUEST.to_owned(),
        (None, _) => by_name(hypervisor),
    }
}

fn by_name(hypervisor: &str) -> String {
    match HYPERVISORS.iter().find(|(name, _)| *name == hypervisor) {
        Some((_, hint)) => (*hint).to_owned(),
        None => format!(
            "Let the hypervisor ({hypervisor}) virtualize the CPU's performance counters, or measure on the host."
        ),
    }
}

fn hypervisor(described: &Description, lists_counters: Option<bool>) -> Check {
    let check = |result: String| Check::new("hypervisor", result);
    let Some(vendor) = described.boot().hypervisor else {
        return check("none detected".to_owned());
    };
    if described.machine.reason == Reason::HypervisorMasks as u32 {
        let check = check(format!(
            "{vendor} (Hv#1) masks the counters: leaf 0x40000003 EDX bit 2 is clear"
        ));
        let check = match lists_counters {
            Some(true) => check.warning("The driver can count no event.", LISTED),
            _ => check.problem("No event can be counted.", "See `interface` above."),
        };
        return check.code(ErrorCode::SourceNotSupported.code());
    }
    check(format!("{vendor} runs between the processor and Windows: leaf 1 ECX bit 31 is set"))
        .warning(
            "Counts are those of the virtual processor and may miss events.",
            "Measure on the host if exact counts matter.",
        )
}

/// Who owns the counters: a halprof session by its process, anybody else as Windows knows them, by
/// tags without names.
fn owner(facts: &Facts, machine: &Machine) -> Check {
    let check = |result: String| Check::new("owner", result);
    if machine.active_session != 0 {
        return check(format!(
            "session {} of process {} holds the counters",
            machine.active_session, machine.active_process
        ))
        .problem("Another measurement is refused.", "Wait until it ends, or end that process.")
        .code(ErrorCode::Busy.code());
    }
    match &facts.trials.counting {
        Some(Err(failure)) if failure.code == ErrorCode::CountersReserved.code() => {
            check(failure.message.clone())
                .problem("Every measurement of events is refused.", possible_owners(facts))
                .code(failure.code)
        }
        Some(Ok(())) => check("free (reserved and released as a test)".to_owned()),
        Some(Err(_)) | None => match held(facts) {
            Some(held) if held.is_empty() => check("free, as Windows says".to_owned()),
            Some(held) => check(held.join("; ")).warning("Fewer counters are left, or none.", WHO),
            None => check("no halprof session holds them".to_owned()).unknown(
                "Another program may own the counters.",
                "Run `halprof stat -d 1` to find out.",
            ),
        },
    }
}

/// What holds counters, as Windows says; `None` if it does not say.
fn held(facts: &Facts) -> Option<Vec<String>> {
    let tracing = facts.tracing.as_ref()?;
    counter_owners::describe(
        &tracing.counter_owners,
        tracing.sources.as_deref().unwrap_or_default(),
    )
}

/// Which drivers may own what Windows refuses.
fn possible_owners(facts: &Facts) -> String {
    let running = facts.system.as_ref().and_then(System::tools).unwrap_or_default();
    let candidates = candidates(&running);
    match held(facts).filter(|held| !held.is_empty()) {
        Some(held) => format!("{}. {WHO} {candidates}", held.join("; ")),
        None => format!("Windows does not say which. {candidates}"),
    }
}

fn counting(facts: &Facts) -> Check {
    match &facts.trials.counting {
        Some(Ok(())) => Check::new("counting", "works"),
        Some(Err(failure)) => Check::new("counting", &failure.message)
            .problem("Events cannot be counted.", &failure.hint)
            .code(failure.code),
        None => Check::new("counting", "not tested: nothing can be counted at present")
            .unknown("The counters may not count.", "See the checks above."),
    }
}

fn sampling(facts: &Facts, described: &Description) -> Check {
    match &facts.trials.sampling {
        Some(Ok(())) => Check::new("sampling", "works (tested)"),
        Some(Err(failure)) if failure.code == ErrorCode::InterruptTaken.code() => {
            Check::new("sampling", &failure.message)
                .warning("`halprof record` is refused; counting works.", possible_owners(facts))
                .code(failure.code)
        }
        Some(Err(failure)) => Check::new("sampling", &failure.message)
            .warning("`halprof record` is refused; counting works.", &failure.hint)
            .code(failure.code),
        None if described.machine.delivery == Delivery::None as u32 => {
            Check::new("sampling", described.overflow_explanation)
                .warning(
                    "`halprof record` is refused; counting may work.",
                    "Count with `halprof stat`: sampling needs the interrupt.",
                )
                .code(ErrorCode::SamplingUnavailable.code())
        }
        None => Check::new("sampling", "not tested: nothing can be counted at present")
            .unknown("Sampling may not work.", "See the checks above."),
    }
}
