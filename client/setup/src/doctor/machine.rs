//! What the processors and the driver say.

use super::tools::candidates;
use super::{Check, Described, Facts};
use halprof_measure::describe;
use shared_types::request::machine::{Machine, Processor};
use shared_types::{Delivery, ErrorCode, ProfileInterface, Reason};
use std::collections::BTreeSet;

pub(super) fn checks(facts: &Facts, described: &Described) -> Vec<Check> {
    let Described {
        machine,
        processors,
    } = described;
    let boot = processors.first().copied().unwrap_or_default();
    let mut checks = vec![
        interface(machine, &boot),
        hypervisor(machine, &boot),
        interrupt(machine),
    ];
    // Without a driver nobody has looked beyond CPUID.
    if facts.answered() {
        if machine.interface != ProfileInterface::Default as u32 {
            checks.extend([
                owner(facts, machine),
                counting(facts),
                sampling(facts, machine),
            ]);
        }
        checks.push(clock(facts, machine));
    }
    checks.push(alike(processors));
    checks
}

fn interface(machine: &Machine, boot: &Processor) -> Check {
    let name = describe::interface_name(machine.interface);
    let result = format!("{name}: {}", describe::interface(machine, boot));
    let check = Check::new(
        "interface",
        "CPUID of the boot processor, by the HAL's rules and halprof's",
        result,
    );
    match ProfileInterface::from_wire(machine.interface) {
        Some(ProfileInterface::Emon | ProfileInterface::Amd64) => check,
        Some(ProfileInterface::Pentium | ProfileInterface::P6 | ProfileInterface::NetBurst) => check
            .warning(
                "No current Windows boots on this processor: results hold for the model alone.",
                "Measure a processor that Windows runs on; `halprof machines` lists models of such.",
            ),
        Some(ProfileInterface::Default) | None => check
            .problem(
                "Only time can be counted, and nothing can be sampled.",
                what_helps(Reason::from_wire(machine.reason), boot),
            )
            .code(ErrorCode::SourceNotSupported.code()),
    }
}

/// Why no counter can be used on this machine, and what helps; `None` where counters can be used.
#[must_use]
pub fn no_counters(machine: &Machine, boot: &Processor) -> Option<(String, String)> {
    let interface = ProfileInterface::from_wire(machine.interface);
    if interface.is_some_and(|interface| interface != ProfileInterface::Default) {
        return None;
    }
    let helps = what_helps(Reason::from_wire(machine.reason), boot);
    Some((describe::interface(machine, boot), helps))
}

/// What helps against an interface without counters.
fn what_helps(reason: Option<Reason>, boot: &Processor) -> String {
    use Reason as R;
    match (reason, describe::vendor(&boot.hypervisor)) {
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
        ) => how_to_show(&hypervisor, boot),
        (Some(R::MonitoringDisabled), _) => {
            "Enable performance monitoring in the firmware's setup.".to_owned()
        }
        _ => "This processor has no counters that halprof knows; ProfileTime can still be counted."
            .to_owned(),
    }
}

/// How each hypervisor is told to show the counters, by its name in CPUID leaf 0x40000000.
const HYPERVISORS: &[(&str, &str)] = &[
    (
        "VMwareVMware",
        "VMware: in the machine's settings, Processors, Virtualize CPU performance counters (`vpmc.enable = \"TRUE\"` in the .vmx file), with Hyper-V and virtualization-based security off on the host; then run `halprof doctor` again, which tests the counters.",
    ),
    ("KVMKVMKVM", "KVM: `-cpu host,pmu=on`."),
    (
        "XenVMMXenVMM",
        "Xen: `vpmu=1` on the hypervisor's command line.",
    ),
    (
        "VBoxVBoxVBox",
        "VirtualBox gives its guests no counters: use another hypervisor, or measure on the host.",
    ),
    (
        "TCGTCGTCGTCG",
        "QEMU without KVM has no counters: use KVM, with `-cpu host,pmu=on`.",
    ),
];

/// Hyper-V's root partition on Intel: old builds mask the counters, later ones offer them.
const ROOT_INTEL: &str = "Windows runs on its own hypervisor here. Windows 10 version 1809 and later give the counters to Windows itself: update Windows, or turn Memory integrity and virtualization-based security off, and Hyper-V with `bcdedit /set hypervisorlaunchtype off`; then restart.";
/// Hyper-V's root partition on AMD.
const ROOT_AMD: &str = "Windows masks AMD's counters while its hypervisor runs. Only turning the hypervisor off helps: Memory integrity and virtualization-based security off, `bcdedit /set hypervisorlaunchtype off`, then restart.";
/// A guest of Hyper-V.
const GUEST: &str = "Hyper-V guest: on the host, which must have an Intel processor, with the machine off, `Set-VMProcessor -VMName NAME -Perfmon @(\"pmu\")`. Azure does not offer this.";
/// KVM or Xen with Hyper-V's enlightenments.
const BEHIND: &str = "It shows Hyper-V's face, whose enlightenments can hide the counters (CPUID 0x40000003 EDX bit 2): leave them out for this guest, or let them offer performance monitors.";

fn how_to_show(hypervisor: &str, boot: &Processor) -> String {
    if let Some(behind) = describe::vendor(&boot.hypervisor_behind) {
        return format!("{} {BEHIND}", by_name(&behind));
    }
    match describe::partition(boot) {
        Some("root") if describe::vendor(&boot.vendor).as_deref() == Some("GenuineIntel") => {
            ROOT_INTEL.to_owned()
        }
        Some("root") => ROOT_AMD.to_owned(),
        Some(_) => GUEST.to_owned(),
        None if hypervisor == "Microsoft Hv" => GUEST.to_owned(),
        None => by_name(hypervisor),
    }
}

fn by_name(hypervisor: &str) -> String {
    let mut rows = HYPERVISORS.iter();
    let row = rows.find(|(name, _)| *name == hypervisor);
    row.map_or_else(
        || {
            format!("Let the hypervisor ({hypervisor}) virtualise the CPU's performance counters, or measure on the host.")
        },
        |(_, how)| (*how).to_owned(),
    )
}

fn hypervisor(machine: &Machine, boot: &Processor) -> Check {
    let looked_at =
        "CPUID leaf 1 ECX bit 31, leaf 0x40000000, and for Hv#1 leaf 0x40000003 EDX bit 2";
    let check = |result: String| Check::new("hypervisor", looked_at, result);
    let Some(vendor) = describe::vendor(&boot.hypervisor) else {
        return check("none shows itself".to_owned());
    };
    if machine.reason == Reason::HypervisorMasks as u32 {
        return check(format!(
            "{vendor} (Hv#1) masks the counters: leaf 0x40000003 EDX bit 2 is clear"
        ))
        .problem("No event can be counted.", "See `interface` above.")
        .code(ErrorCode::SourceNotSupported.code());
    }
    check(format!(
        "{vendor} is between the processor and Windows: leaf 1 ECX bit 31 is set"
    ))
    .warning(
        "Counts are of the virtual processor and may miss events.",
        "Measure on the host where exact counts matter.",
    )
}

fn interrupt(machine: &Machine) -> Check {
    let check = Check::new(
        "interrupt",
        "how an overflow becomes known: the interface, and CPUID leaf 1 EDX bit 9 (local APIC)",
        describe::delivery(machine),
    );
    if machine.delivery == Delivery::None as u32 {
        return check
            .warning(
                "Nothing can be sampled.",
                "Count with `halprof stat`; sampling needs the interrupt.",
            )
            .code(ErrorCode::SamplingUnavailable.code());
    }
    check
}

/// Who has the counters. Only a halprof session can be named; Windows names no other owner.
fn owner(facts: &Facts, machine: &Machine) -> Check {
    let check = |result: String| {
        Check::new(
            "owner",
            "the driver's own sessions, and whether Windows gives the counters",
            result,
        )
    };
    if machine.holder_session != 0 {
        return check(format!(
            "session {} of process {} holds the counters",
            machine.holder_session, machine.holder_process
        ))
        .problem(
            "Another measurement is refused.",
            "Wait until it ends, or end that process.",
        )
        .code(ErrorCode::Busy.code());
    }
    match &facts.trials.counting {
        Some(Err(failure)) if failure.code == ErrorCode::CountersReserved.code() => {
            let candidates = candidates(facts.system.as_ref().and_then(|system| {
                Some((system.services.as_deref()?, system.processes.as_deref()?))
            }));
            check(failure.message.clone())
                .problem(
                    "Every measurement of events is refused.",
                    format!("Windows does not say who it is. {candidates}"),
                )
                .code(failure.code)
        }
        Some(Ok(())) => check("nobody: they were had and given back".to_owned()),
        Some(Err(_)) | None => check("no halprof session holds them".to_owned()).unknown(
            "Whether another program owns the counters was not found out.",
            "`halprof stat -d 1` tries it.",
        ),
    }
}

fn counting(facts: &Facts) -> Check {
    let looked_at = "one source, counted for a moment on every processor";
    match &facts.trials.counting {
        Some(Ok(())) => Check::new("counting", looked_at, "works"),
        Some(Err(failure)) => Check::new("counting", looked_at, &failure.message)
            .problem("Events cannot be counted.", &failure.hint)
            .code(failure.code),
        None => Check::new(
            "counting",
            looked_at,
            "not tried: nothing can be counted, or not now",
        )
        .unknown(
            "Whether the counters count was not found out.",
            "See the checks above.",
        ),
    }
}

fn sampling(facts: &Facts, machine: &Machine) -> Check {
    let looked_at = "one source, sampled for a moment on the boot processor";
    match &facts.trials.sampling {
        Some(Ok(())) => Check::new(
            "sampling",
            looked_at,
            "the overflow interrupt was had and given back",
        ),
        Some(Err(failure)) if failure.code == ErrorCode::InterruptTaken.code() => {
            Check::new("sampling", looked_at, &failure.message)
                .warning(
                    "`halprof record` is refused as it is; counting works.",
                    "`halprof record --no-address` samples through the HAL's callback, which gives processes and processors but no addresses. To have addresses, end the profiler that holds the overflow handler.",
                )
                .code(failure.code)
        }
        Some(Err(failure)) => Check::new("sampling", looked_at, &failure.message)
            .warning(
                "`halprof record` is refused; counting works.",
                &failure.hint,
            )
            .code(failure.code),
        None if machine.delivery == Delivery::None as u32 => {
            Check::new("sampling", looked_at, "not tried: there is no interrupt").warning(
                "`halprof record` is refused; counting may work.",
                "Count with `halprof stat`.",
            )
        }
        None => Check::new(
            "sampling",
            looked_at,
            "not tried: nothing can be counted, or not now",
        )
        .unknown(
            "Whether the overflow interrupt can be had was not found out.",
            "See the checks above.",
        ),
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
fn clock(facts: &Facts, machine: &Machine) -> Check {
    let invariant = facts
        .system
        .as_ref()
        .and_then(|system| system.invariant_tsc);
    let check = |result: String| {
        Check::new(
            "clock",
            "the time-stamp counter's rate, and CPUID 0x80000007 EDX bit 8 (the same in every state)",
            result,
        )
    };
    let times = "Times and rates are wrong; counts are not.";
    let rate = machine.timestamp_frequency as f64 / 1e9;
    match (machine.timestamp_frequency, invariant) {
        (0, _) => check("its rate is not known".to_owned()).warning(
            times,
            "Compare counts with counts, e.g. instructions with cycles.",
        ),
        (_, Some(false)) => check(format!("{rate:.3} GHz, and it follows the processor's speed"))
            .warning(
                times,
                "Let the processor run at one speed (power plan High performance), or compare counts with counts.",
            ),
        (_, Some(true)) => check(format!("{rate:.3} GHz, whatever speed the processor has")),
        (_, None) => check(format!("{rate:.3} GHz")),
    }
}

fn alike(processors: &[Processor]) -> Check {
    let kinds: BTreeSet<u8> = processors.iter().map(|processor| processor.kind).collect();
    let check = |result: String| {
        Check::new(
            "processors",
            "CPUID of every processor: counters, widths, events",
            result,
        )
    };
    if kinds.len() <= 1 {
        return check(format!("{}, all of one kind", processors.len()));
    }
    check(format!(
        "{} of {} kinds with different counters",
        processors.len(),
        kinds.len()
    ))
    .warning(
        "A source may be counted on some processors only, and an event may cost differently on each kind.",
        "`halprof list` shows which sources only some of them count; `-C` chooses processors.",
    )
}
