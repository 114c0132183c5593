//! `halprof info`: which interface was chosen and why, and each processor's capabilities.

use crate::output::Output;
use crate::output::error::Result;
use crate::output::escape::Shown;
use crate::output::number::seconds;
use crate::output::table::{Column, Field, Record, Width, records_by_processor};
use crate::select::time::nanoseconds;
use crate::select::trace_plan::Offer;
use crate::target::context::Context;
use halprof_measure::selection::format_processors;
use halprof_setup::describe;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::{Machine, Processor};
use shared_types::{BranchReason, BranchRecords};

/// The width of the labels above the table.
const LABEL: usize = 13;

#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct InfoResult {
    machine: String,
    hal_interface: &'static str,
    interface: &'static str,
    reason: &'static str,
    #[serde(skip)]
    hal_reason: &'static str,
    explanation: String,
    overflow: &'static str,
    overflow_explanation: &'static str,
    timestamp_frequency: u64,
    holder: Option<Holder>,
    ring_bytes: u64,
    ring_bytes_max: u64,
    interrupt_budget: f64,
    /// What Windows' own tracing offers, where that measures.
    #[serde(skip_serializing_if = "Option::is_none")]
    tracing: Option<Tracing>,
    /// Windows refused to remove the overflow handler: counters and driver stay until a restart.
    handler_stuck: bool,
    /// A session by thread has ended, and Windows has not given its counters back.
    threads_still_profiled: bool,
    processors: Vec<ProcessorRow>,
}

/// What Windows' own tracing offers.
#[derive(JsonSchema, Serialize)]
struct Tracing {
    /// The sources that it lists, the timer among them.
    sources: usize,
    /// How many of them one session counts; null where Windows does not say.
    counters: Option<u32>,
}

/// Who holds the counters; only halprof itself can be identified.
#[derive(JsonSchema, Serialize)]
struct Holder {
    process: u32,
    session: u32,
    held_ns: u128,
}

#[derive(JsonSchema, Serialize)]
struct ProcessorRow {
    index: u32,
    group: u16,
    number: u16,
    vendor: String,
    family: u16,
    model: u16,
    stepping: u8,
    core_type: Option<&'static str>,
    pmu_version: u8,
    counters: u8,
    counter_width: u8,
    fixed_counters: u8,
    fixed_width: u8,
    /// The general counters that actually exist, as a mask.
    counter_mask: u32,
    /// The fixed counters that actually exist, as a mask.
    fixed_mask: u32,
    hypervisor: Option<String>,
    /// What identifies itself behind that hypervisor's interface.
    hypervisor_behind: Option<String>,
    /// The partition in which Windows runs on Hv#1: `root` or `guest`.
    partition: Option<&'static str>,
    /// Whether Hv#1 offers performance monitors.
    monitors_offered: Option<bool>,
    /// General counters that another owner had enabled when counting last began, as a mask.
    counters_in_use: u32,
    /// Fixed counters that another owner uses, which are left alone, as a mask.
    fixed_in_use: u32,
    /// What records branches; `none` if they cannot be recorded.
    branch_records: &'static str,
    /// Why they can or cannot.
    branch_reason: &'static str,
    /// The largest number of branches in a sample.
    branch_depth: u16,
    /// Whether a storm of interrupts ended a session here: its overflow interrupt stays masked.
    storm: bool,
    interface: &'static str,
    reason: &'static str,
}

pub(crate) fn run(ctx: &mut Context, output: &Output) -> Result<u8> {
    let machine = ctx.machine.description;
    let processors = &ctx.machine.processors;
    let boot = processors.first().ok_or_else(|| halprof_measure::Error::Protocol {
        request: "processors",
        why: "it lists none".to_owned(),
    })?;
    let offer = ctx.tracing.as_mut().map(|tracing| Offer::of(tracing.as_mut())).transpose()?;
    let info = InfoResult {
        machine: ctx.machine_info.description.clone(),
        hal_interface: describe::interface_name(machine.hal_interface),
        interface: describe::interface_name(machine.interface),
        reason: describe::reason_name(machine.reason),
        hal_reason: describe::reason_name(machine.hal_reason),
        explanation: describe::interface(&machine, boot),
        overflow: describe::delivery_name(machine.delivery),
        overflow_explanation: describe::delivery(&machine),
        timestamp_frequency: machine.timestamp_frequency,
        holder: holder(&machine),
        ring_bytes: machine.ring_bytes,
        ring_bytes_max: machine.ring_bytes_max,
        interrupt_budget: f64::from(machine.interrupt_budget) / 1000.0,
        tracing: offer
            .map(|offer| Tracing { sources: offer.sources.len(), counters: offer.counters }),
        handler_stuck: machine.flags & Machine::HANDLER_STUCK != 0,
        threads_still_profiled: machine.flags & Machine::THREADS_KEPT != 0,
        processors: processors.iter().map(row).collect(),
    };
    let rows = info.processors.as_slice();
    output.rows("info", ctx.machine_info.modelled, (&info, rows), |info| {
        text(info, output.width())
    })?;
    Ok(0)
}

fn holder(machine: &Machine) -> Option<Holder> {
    (machine.active_session != 0).then(|| Holder {
        process: machine.active_process,
        session: machine.active_session,
        held_ns: nanoseconds(machine.active_ticks, machine.timestamp_frequency),
    })
}

fn row(processor: &Processor) -> ProcessorRow {
    ProcessorRow {
        index: processor.index,
        group: processor.group,
        number: processor.number,
        vendor: describe::vendor(&processor.vendor).unwrap_or_default(),
        family: processor.family,
        model: processor.model,
        stepping: processor.stepping,
        core_type: describe::core_type(processor),
        pmu_version: processor.pmu_version,
        counters: processor.counters,
        counter_width: processor.counter_width,
        fixed_counters: processor.fixed_counters,
        fixed_width: processor.fixed_width,
        counter_mask: processor.counter_mask,
        fixed_mask: processor.fixed_mask,
        hypervisor: describe::vendor(&processor.hypervisor),
        hypervisor_behind: describe::vendor(&processor.hypervisor_behind),
        partition: describe::partition(processor),
        monitors_offered: describe::partition(processor)
            .map(|_| processor.flags & Processor::HV1_COUNTERS != 0),
        counters_in_use: processor.counters_in_use,
        fixed_in_use: processor.fixed_in_use,
        branch_records: named(
            BranchRecords::from_wire(processor.branch_records.into()).map(BranchRecords::name),
        ),
        branch_reason: named(
            BranchReason::from_wire(processor.branch_reason.into()).map(BranchReason::name),
        ),
        branch_depth: processor.branch_depth,
        storm: processor.flags & Processor::STORM != 0,
        interface: describe::interface_name(processor.interface),
        reason: describe::reason_name(processor.reason),
    }
}

fn named(name: Option<&'static str>) -> &'static str {
    name.unwrap_or("unknown")
}

fn text(info: &InfoResult, width: Width) -> String {
    let holder = info.holder.as_ref().map_or_else(
        || "no halprof session (other owners are not visible)".to_owned(),
        |holder| {
            let (session, process) = (holder.session, holder.process);
            format!("session {session} of process {process}, for {}", seconds(holder.held_ns))
        },
    );
    let head = format!(
        "machine      {}\ninterface    {} ({})\n             {}\nHAL          {} ({})\noverflow     {}\n             {}\nheld by      {}\n\n",
        Shown(&info.machine),
        info.interface,
        info.reason,
        width.prose(LABEL, &info.explanation),
        info.hal_interface,
        info.hal_reason,
        info.overflow,
        width.prose(LABEL, info.overflow_explanation),
        width.prose(LABEL, &holder),
    );
    let processors =
        records_by_processor(width, (0, |row: &ProcessorRow| row.index), &info.processors);
    head + &processors + &remarks(info, width)
}

impl Record for ProcessorRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::name("processors"), |_| String::new()),
        Field::new(Column::word("vendor").extra(), |row| row.vendor.clone()),
        Field::new(Column::number("family").extra(), |row| format!("{:#x}", row.family)),
        Field::new(Column::number("model").extra(), |row| format!("{:#x}", row.model)),
        Field::new(Column::number("stepping").extra(), |row| row.stepping.to_string()),
        Field::new(Column::word("core"), |row| row.core_type.unwrap_or_default().to_owned()),
        Field::new(Column::number("PMU").extra(), |row| row.pmu_version.to_string()),
        Field::new(Column::word("counters"), |row| counters(row.counter_mask, row.counter_width)),
        Field::new(Column::word("fixed"), |row| counters(row.fixed_mask, row.fixed_width)),
        Field::new(Column::word("branches").extra(), |row| match row.branch_depth {
            0 => "-".to_owned(),
            depth => depth.to_string(),
        }),
        Field::new(Column::name("hypervisor"), |row| row.hypervisor.clone().unwrap_or_default()),
    ];
}

/// `8 x 48 bits`.
fn counters(mask: u32, width: u8) -> String {
    match mask.count_ones() {
        0 => "-".to_owned(),
        count => format!("{count} x {width} bits"),
    }
}

/// Remarks on anything unusual, each on lines of its own.
fn remarks(info: &InfoResult, width: Width) -> String {
    let processors_where = |wanted: &dyn Fn(&ProcessorRow) -> bool| {
        let rows = info.processors.iter().filter(|row| wanted(row));
        let indexes = rows.map(|row| row.index).collect::<Vec<_>>();
        (!indexes.is_empty()).then(|| format_processors(indexes))
    };
    let mut remarks = Vec::new();
    if let Some(tracing) = &info.tracing {
        let counters = match tracing.counters {
            Some(counters) => format!("counts {counters} of them at once"),
            None => "does not say how many of them it counts at once".to_owned(),
        };
        remarks.push(format!(
            "Windows' own tracing measures: it lists {} sources and {counters}. What is above is what the driver would use.",
            tracing.sources
        ));
    }
    if info.handler_stuck {
        remarks.push(
            "Windows refused to remove halprof's overflow handler: the driver keeps the counters, and nothing can be sampled, until Windows agrees or restarts."
                .to_owned(),
        );
    }
    if info.threads_still_profiled {
        remarks.push(
            "A thread still profiles itself with the counters of a session that has ended: they are stopped, and stay reserved until Windows gives them back."
                .to_owned(),
        );
    }
    if let Some(processors) = processors_where(&|row| row.storm) {
        remarks.push(format!(
            "Interrupt storm on processors {processors}: the overflow interrupt stays masked there until a start finds its cause gone."
        ));
    }
    if let Some(processors) = processors_where(&|row| row.counters_in_use != 0) {
        remarks.push(format!(
            "Another program had general counters enabled on processors {processors} when counting last began."
        ));
    }
    if let Some(processors) = processors_where(&|row| row.fixed_in_use != 0) {
        remarks.push(format!(
            "Another program uses fixed counters on processors {processors}: they are left alone, and their events take general counters."
        ));
    }
    let first = info.processors.first();
    if let Some(behind) = first.and_then(|row| row.hypervisor_behind.as_ref()) {
        remarks.push(format!("The hypervisor is {behind}, behind Hyper-V's face."));
    }
    if let Some(row) = first.filter(|row| row.partition.is_some()) {
        remarks.push(format!(
            "Windows is the {} partition of this hypervisor, which {} performance monitors.",
            row.partition.unwrap_or_default(),
            if row.monitors_offered == Some(true) { "offers" } else { "does not offer" }
        ));
    }
    remarks.iter().fold(String::new(), |text, remark| text + "\n" + &width.prose(0, remark) + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_the_ordinary_is_told() {
        let processor = Processor {
            flags: Processor::STORM | Processor::HV1 | Processor::HV1_ROOT,
            hypervisor_behind: *b"XenVMMXenVMM",
            counters_in_use: 1,
            fixed_in_use: 2,
            ..Processor::default()
        };
        let processors = vec![row(&Processor::default())];
        let plain = InfoResult { processors, ..InfoResult::default() };
        assert_eq!(remarks(&plain, Width::WHOLE), "");
        let odd = InfoResult {
            handler_stuck: true,
            threads_still_profiled: true,
            processors: vec![row(&processor)],
            ..plain
        };
        let text = remarks(&odd, Width::WHOLE).replace('\n', " ");
        for said in [
            "until Windows agrees or restarts",
            "A thread still profiles itself",
            "Interrupt storm on processors 0",
            "general counters enabled on processors 0",
            "fixed counters on processors 0",
            "XenVMMXenVMM, behind",
            "root partition",
            "does not offer performance monitors",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
}
