//! What a machine reports of itself, in words.

use shared_types::request::machine::{Machine, Processor};
use shared_types::{Delivery, ProfileInterface, Reason};

/// Why the interface in use was chosen.
#[must_use]
pub fn interface(machine: &Machine, boot: &Processor) -> String {
    let reason = Reason::from_wire(machine.reason);
    let why = reason.map_or_else(|| unknown(machine.reason), |reason| why(reason, boot));
    if machine.hal_interface == machine.interface {
        return why;
    }
    let hal = interface_name(machine.hal_interface);
    let hal_why = Reason::from_wire(machine.hal_reason)
        .map_or_else(|| unknown(machine.hal_reason), |reason| self::why(reason, boot));
    format!("{why} Windows' HAL would choose {hal}: {hal_why}")
}

/// The partition in which Windows runs on a hypervisor with the interface Hv#1: `root` or `guest`;
/// `None` if there is no such hypervisor.
#[must_use]
pub const fn partition(processor: &Processor) -> Option<&'static str> {
    if processor.flags & Processor::HV1 == 0 {
        return None;
    }
    Some(if processor.flags & Processor::HV1_ROOT == 0 { "guest" } else { "root" })
}

/// The name of an interface's number.
#[must_use]
pub fn interface_name(number: u32) -> &'static str {
    ProfileInterface::from_wire(number).map_or("unknown", ProfileInterface::name)
}

/// The stable name of a reason's number.
#[must_use]
pub fn reason_name(number: u32) -> &'static str {
    Reason::from_wire(number).map_or("unknown", Reason::name)
}

/// The stable name of a delivery method's number.
#[must_use]
pub fn delivery_name(number: u32) -> &'static str {
    Delivery::from_wire(number).map_or("unknown", Delivery::name)
}

/// How overflows are noticed.
#[must_use]
pub fn delivery(machine: &Machine) -> &'static str {
    match Delivery::from_wire(machine.delivery) {
        Some(Delivery::None) => no_delivery(machine),
        Some(Delivery::ByValue) => {
            "By an interrupt through LVTPC; the counter whose value is below its preset has overflowed."
        }
        Some(Delivery::Acknowledged) => {
            "By an interrupt through LVTPC; a status register says which counter overflowed."
        }
        Some(Delivery::CccrFlag) => {
            "By an interrupt through LVTPC; the OVF bit of its CCCR says which counter overflowed."
        }
        None => "In a way that this version does not know.",
    }
}

fn no_delivery(machine: &Machine) -> &'static str {
    match ProfileInterface::from_wire(machine.interface) {
        Some(ProfileInterface::Default) => {
            "Not at all: no counters are in use. Time can be counted; nothing can be sampled."
        }
        Some(ProfileInterface::Pentium) => {
            "Not at all: a Pentium's counters raise no interrupt. Counting works, sampling does not."
        }
        _ => {
            "Not at all: there is no local APIC to deliver the interrupt (CPUID leaf 1 EDX bit 9 is clear). Counting works, sampling does not."
        }
    }
}

/// Whether a processor is a performance or an efficiency core, if it reports that.
#[must_use]
pub const fn core_type(processor: &Processor) -> Option<&'static str> {
    match processor.core_type {
        0x40 => Some("performance"),
        0x20 => Some("efficiency"),
        _ => None,
    }
}

/// A text of fixed length without its padding of zeros; `None` if it is all zeros.
#[must_use]
pub fn vendor(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\0');
    (!text.is_empty()).then(|| text.to_owned())
}

fn unknown(reason: u32) -> String {
    format!("The driver gives reason {reason}, which this version does not know.")
}

fn why(reason: Reason, boot: &Processor) -> String {
    let vendor = vendor(&boot.vendor).unwrap_or_else(|| "no vendor".to_owned());
    let hypervisor = self::vendor(&boot.hypervisor).unwrap_or_else(|| "unnamed".to_owned());
    let (family, model) = (boot.family, boot.model);
    match reason {
        Reason::Architectural => format!(
            "{vendor}, and CPUID leaf 0x0A declares architectural performance monitoring version {} with {} general counters (EAX bits 7:0 and 15:8), which can count core cycles (EBX bit 0 is clear).",
            boot.pmu_version, boot.counters
        ),
        Reason::AmdVendor if boot.counters == 0 => {
            format!(
                "CPUID leaf 0's vendor is {vendor}, which is all that is required of a 64-bit processor."
            )
        }
        Reason::AmdVendor => format!(
            "CPUID leaf 0's vendor is {vendor}, and family {family:#x} has {} counters with AMD's own registers.",
            boot.counters
        ),
        Reason::PentiumModel => format!(
            "{vendor} family {family} model {model} is a Pentium with model-specific registers (CPUID leaf 1 EDX bit 5). No current Windows boots on it: this interface runs in the model only."
        ),
        Reason::P6Model => format!(
            "{vendor} family {family} model {model:#x} is of the P6 family and has no usable CPUID leaf 0x0A. No current Windows boots on it: this interface runs in the model only."
        ),
        Reason::NetBurstModel => format!(
            "{vendor} family {family} model {model} is a NetBurst processor and has no usable CPUID leaf 0x0A. No current Windows supports it: this interface runs in the model only."
        ),
        Reason::OtherVendor => {
            format!("CPUID leaf 0's vendor is `{vendor}`, neither GenuineIntel nor AuthenticAMD.")
        }
        Reason::Gate32 => format!(
            "`{vendor}` family {family} has no long mode (CPUID 0x80000001 EDX bit 29 is clear), and the 32-bit HAL lets only Intel families 6 and 15 through."
        ),
        Reason::NoLeaf0A => {
            format!("{vendor}, but CPUID's highest basic leaf (leaf 0 EAX) is below 0x0A.")
        }
        Reason::VersionZero => format!(
            "{vendor}, but CPUID leaf 0x0A EAX bits 7:0 give version 0: there are no architectural counters."
        ),
        Reason::NoEventBits => format!(
            "{vendor}, but CPUID leaf 0x0A EAX bits 31:24 say that no bit of EBX is valid."
        ),
        Reason::NoCoreCycles => format!(
            "{vendor}, but CPUID leaf 0x0A EBX bit 0 says that the core-cycle event is not available."
        ),
        Reason::HypervisorMasks => format!(
            "The hypervisor ({hypervisor}) has the Hv#1 interface and does not offer performance monitors (CPUID 0x40000003 EDX bit 2 is clear)."
        ),
        Reason::HypervisorUnproved => format!(
            "The hypervisor ({hypervisor}) is not Hv#1, and neither CPUID 0x80000001 ECX bit 23 nor leaf 0x80000022 proves that AMD's counters are there."
        ),
        Reason::TooManyCpuTypes => {
            "There are more CPU types than halprof can tell apart.".to_owned()
        }
        Reason::HistoricNotBuilt => format!(
            "{vendor} family {family} model {model:#x} is a Pentium, P6 or NetBurst processor. No current Windows boots on one, so halprof.sys is built without their interfaces."
        ),
        Reason::MonitoringDisabled => {
            "Performance monitoring is not available: IA32_MISC_ENABLE bit 7 is clear, or CPUID leaf 1 EDX bit 5 (MSR) is.".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn every_reason_names_what_decided() {
        let boot = Processor {
            vendor: *b"GenuineIntel",
            hypervisor: *b"KVMKVMKVM\0\0\0",
            ..Processor::default()
        };
        for &reason in Reason::ALL {
            let mut machine = Machine::new_zeroed();
            machine.reason = reason as u32;
            let text = interface(&machine, &boot);
            assert!(text.ends_with('.') && text.len() > 30, "{reason:?}: {text}");
        }
    }

    #[test]
    fn a_choice_that_differs_from_the_hals_gives_both_reasons() {
        let mut machine = Machine::new_zeroed();
        machine.interface = ProfileInterface::P6 as u32;
        machine.reason = Reason::P6Model as u32;
        machine.hal_reason = Reason::NoLeaf0A as u32;
        let text = interface(&machine, &Processor::default());
        assert!(text.contains("P6 family") && text.contains("would choose Default"), "{text}");
    }

    #[test]
    fn vendors_end_at_their_zeros() {
        assert_eq!(vendor(b"KVMKVMKVM\0\0\0").as_deref(), Some("KVMKVMKVM"));
        assert_eq!(vendor(&[0; 12]), None);
    }
}
