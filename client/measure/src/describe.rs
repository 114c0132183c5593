//! What a machine reports of itself, in words.

use crate::events::unknown_model;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::{Machine, Processor};
use shared_types::{BranchReason, BranchRecords, Delivery, ProfileInterface, Reason};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A machine, as the driver or a model reports it, or as CPUID predicts it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Description {
    /// What the driver or the model reported.
    #[serde(skip)]
    pub machine: Machine,
    /// The interface that Windows' HAL would choose.
    pub hal_interface: &'static str,
    /// The rule that would choose it.
    #[serde(skip)]
    pub hal_reason: &'static str,
    /// The interface in use.
    pub interface: &'static str,
    /// The rule that chose it.
    pub reason: &'static str,
    /// That rule and its facts, as a sentence.
    pub explanation: String,
    /// How overflows are noticed.
    pub overflow: &'static str,
    /// The same as a sentence.
    pub overflow_explanation: &'static str,
    /// Ticks of the time-stamp counter a second.
    pub timestamp_frequency: u64,
    /// Null if no halprof session has the counters.
    pub holder: Option<Holder>,
    /// The memory that all rings take.
    pub ring_bytes: u64,
    /// The most that they may take.
    pub ring_bytes_max: u64,
    /// The largest share of a processor's time that interrupts may take, from 0 to 1.
    pub interrupt_budget: f64,
    /// Windows refused to remove the overflow handler: counters and driver stay until a restart.
    pub handler_stuck: bool,
    /// A session by thread has ended, and Windows has not given its counters back.
    pub threads_still_profiled: bool,
    /// The boot processor first.
    pub processors: Vec<ProcessorDescription>,
}

/// Who holds the counters; only halprof itself can be identified.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Holder {
    /// The identifier of its process.
    pub process: u32,
    /// The number of its session.
    pub session: u32,
    /// How long it has had them.
    pub held_ns: u128,
}

/// One processor of a machine.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct ProcessorDescription {
    /// The index over all groups.
    pub index: u32,
    /// The processor group.
    pub group: u16,
    /// The number in the group.
    pub number: u16,
    /// CPUID leaf 0's vendor.
    pub vendor: String,
    /// The full family.
    pub family: u16,
    /// The full model.
    pub model: u16,
    /// The stepping.
    pub stepping: u8,
    /// Its vendor, family and model where halprof does not know the events of this model; otherwise
    /// null.
    pub unknown_model: Option<String>,
    /// `performance` or `efficiency`, if it reports that.
    pub core_type: Option<&'static str>,
    /// The version of its performance-monitoring unit.
    pub pmu_version: u8,
    /// The general counters that leaf 0x0A or the family declares.
    pub counters: u8,
    /// Their width in bits.
    pub counter_width: u8,
    /// The fixed counters that leaf 0x0A declares.
    pub fixed_counters: u8,
    /// Their width in bits.
    pub fixed_width: u8,
    /// The general counters that actually exist, as a mask.
    pub counter_mask: u32,
    /// The fixed counters that actually exist, as a mask.
    pub fixed_mask: u32,
    /// The vendor of the hypervisor, if one is visible.
    pub hypervisor: Option<String>,
    /// What identifies itself behind that hypervisor's interface.
    pub hypervisor_behind: Option<String>,
    /// The partition in which Windows runs on Hv#1: `root` or `guest`.
    pub partition: Option<&'static str>,
    /// Whether Hv#1 offers performance monitors.
    pub monitors_offered: Option<bool>,
    /// General counters that another owner had enabled when counting last began, as a mask.
    pub counters_in_use: u32,
    /// Fixed counters that another owner uses, which are left alone, as a mask.
    pub fixed_in_use: u32,
    /// What records branches; `none` if they cannot be recorded.
    pub branch_records: &'static str,
    /// Why they can or cannot.
    pub branch_reason: &'static str,
    /// The largest number of branches in a sample.
    pub branch_depth: u16,
    /// Whether a storm of interrupts ended a session here: its overflow interrupt stays masked.
    pub storm: bool,
    /// The interface that it would get on its own.
    pub interface: &'static str,
    /// The rule that would choose it.
    pub reason: &'static str,
}

impl Description {
    /// What a machine and its processors report.
    pub fn new(machine: &Machine, processors: &[Processor]) -> Self {
        let processors: Vec<_> = processors.iter().map(ProcessorDescription::new).collect();
        let boot = processors.first().cloned().unwrap_or_default();
        let held_ns = u128::from(machine.active_ticks) * 1_000_000_000;
        Self {
            machine: *machine,
            hal_interface: interface_name(machine.hal_interface),
            hal_reason: reason_name(machine.hal_reason),
            interface: interface_name(machine.interface),
            reason: reason_name(machine.reason),
            explanation: explanation(machine, &boot),
            overflow: named(Delivery::from_wire(machine.delivery).map(Delivery::name)),
            overflow_explanation: delivery(machine),
            timestamp_frequency: machine.timestamp_frequency,
            holder: (machine.active_session != 0).then(|| Holder {
                process: machine.active_process,
                session: machine.active_session,
                held_ns: held_ns.checked_div(machine.timestamp_frequency.into()).unwrap_or(0),
            }),
            ring_bytes: machine.ring_bytes,
            ring_bytes_max: machine.ring_bytes_max,
            interrupt_budget: f64::from(machine.interrupt_budget) / 1000.0,
            handler_stuck: machine.flags & Machine::HANDLER_STUCK != 0,
            threads_still_profiled: machine.flags & Machine::THREADS_KEPT != 0,
            processors,
        }
    }

    /// The boot processor.
    pub fn boot(&self) -> ProcessorDescription {
        self.processors.first().cloned().unwrap_or_default()
    }
}

impl ProcessorDescription {
    fn new(processor: &Processor) -> Self {
        let has = |flag| processor.flags & flag != 0;
        let is_hv1 = has(Processor::HV1);
        let root = if has(Processor::HV1_ROOT) { "root" } else { "guest" };
        let records = BranchRecords::from_wire(processor.branch_records.into());
        let branch_reason = BranchReason::from_wire(processor.branch_reason.into());
        Self {
            index: processor.index,
            group: processor.group,
            number: processor.number,
            vendor: text(&processor.vendor).unwrap_or_default(),
            family: processor.family,
            model: processor.model,
            stepping: processor.stepping,
            unknown_model: unknown_model(processor),
            core_type: core_type(processor),
            pmu_version: processor.pmu_version,
            counters: processor.counters,
            counter_width: processor.counter_width,
            fixed_counters: processor.fixed_counters,
            fixed_width: processor.fixed_width,
            counter_mask: processor.counter_mask,
            fixed_mask: processor.fixed_mask,
            hypervisor: text(&processor.hypervisor),
            hypervisor_behind: text(&processor.underlying_hypervisor),
            partition: is_hv1.then_some(root),
            monitors_offered: is_hv1.then(|| has(Processor::HV1_COUNTERS)),
            counters_in_use: processor.counters_in_use,
            fixed_in_use: processor.fixed_in_use,
            branch_records: named(records.map(BranchRecords::name)),
            branch_reason: named(branch_reason.map(BranchReason::name)),
            branch_depth: processor.branch_depth,
            storm: has(Processor::STORM),
            interface: interface_name(processor.interface),
            reason: reason_name(processor.reason),
        }
    }
}

fn named(name: Option<&'static str>) -> &'static str {
    name.unwrap_or("unknown")
}

/// The name of an interface's number.
pub fn interface_name(number: u32) -> &'static str {
    named(ProfileInterface::from_wire(number).map(ProfileInterface::name))
}

fn reason_name(number: u32) -> &'static str {
    named(Reason::from_wire(number).map(Reason::name))
}

/// Why the interface in use was chosen.
fn explanation(machine: &Machine, boot: &ProcessorDescription) -> String {
    let chosen = why(machine.reason, boot);
    if machine.hal_interface == machine.interface {
        return chosen;
    }
    let hal = interface_name(machine.hal_interface);
    format!("{chosen} Windows' HAL would choose {hal}: {}", why(machine.hal_reason, boot))
}

/// How overflows are noticed.
fn delivery(machine: &Machine) -> &'static str {
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
pub const fn core_type(processor: &Processor) -> Option<&'static str> {
    match processor.core_type {
        0x40 => Some("performance"),
        0x20 => Some("efficiency"),
        _ => None,
    }
}

/// A text of fixed length without its padding of zeros; `None` if it is all zeros.
fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Why each rule applies, by its name: with `{vendor}` and others for the boot processor's.
static REASONS: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let text = include_str!("describe/reasons.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten().collect()
});

/// Why a rule applies to a machine with this boot processor.
fn why(reason: u32, boot: &ProcessorDescription) -> String {
    let Some(reason) = Reason::from_wire(reason) else {
        return format!("The driver gives reason {reason}, which this version does not know.");
    };
    let ProcessorDescription { family, model, counters, .. } = boot;
    let vendor = if boot.vendor.is_empty() { "no vendor" } else { &boot.vendor };
    if reason == Reason::AmdVendor && *counters == 0 {
        return format!(
            "CPUID leaf 0's vendor is {vendor}, which is all that is required of a 64-bit processor."
        );
    }
    let values = [
        ("{family}", family.to_string()),
        ("{family:#x}", format!("{family:#x}")),
        ("{model}", model.to_string()),
        ("{model:#x}", format!("{model:#x}")),
        ("{version}", boot.pmu_version.to_string()),
        ("{counters}", counters.to_string()),
        ("{vendor}", vendor.to_owned()),
        ("{hypervisor}", boot.hypervisor.clone().unwrap_or_else(|| "unnamed".to_owned())),
    ];
    let explanation = REASONS.get(reason.name()).map_or("", String::as_str);
    values.iter().fold(explanation.to_owned(), |text, (name, value)| text.replace(name, value))
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
            let machine = Machine { reason: reason as u32, ..Machine::new_zeroed() };
            let text = Description::new(&machine, &[boot]).explanation;
            let is_sentence = text.ends_with('.') && text.len() > 30 && !text.contains('{');
            assert!(is_sentence, "{reason:?}: {text}");
        }
    }

    #[test]
    fn an_interface_that_is_not_the_hals_has_both_reasons() {
        let machine = Machine {
            interface: ProfileInterface::P6 as u32,
            reason: Reason::P6Model as u32,
            hal_reason: Reason::NoLeaf0A as u32,
            ..Machine::new_zeroed()
        };
        let text = Description::new(&machine, &[]).explanation;
        assert!(text.contains("P6 family") && text.contains("would choose Default"), "{text}");
    }

    #[test]
    fn texts_end_at_their_zeros() {
        assert_eq!(text(b"KVMKVMKVM\0\0\0").as_deref(), Some("KVMKVMKVM"));
        assert_eq!(text(&[0; 12]), None);
    }
}
