//! `halprof info`: which interface was chosen and why, and each processor's capabilities.

use crate::output::Output;
use crate::output::error::Result;
use crate::output::escape::Shown;
use crate::output::number::seconds;
use crate::output::table::{Column, Width, table};
use crate::target::context::Context;
use halprof_setup::describe;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::{Machine, Processor};
use shared_types::{BranchReason, BranchRecords};

/// The width of the labels above the table.
const LABEL: usize = 13;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
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
    /// Windows refused to remove the overflow handler: counters and driver stay until a restart.
    handler_stuck: bool,
    /// A session by thread has ended, and Windows has not given its counters back.
    threads_kept: bool,
    processors: Vec<Row>,
}

/// Who holds the counters; only halprof itself can be identified.
#[derive(JsonSchema, Serialize)]
struct Holder {
    process: u32,
    session: u32,
    held_ns: u128,
}

#[derive(JsonSchema, Serialize)]
struct Row {
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
    found_counters: u32,
    /// Fixed counters that another owner uses, which are left alone, as a mask.
    found_fixed: u32,
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
    let body = Body {
        machine: ctx.told.machine.clone(),
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
        handler_stuck: machine.flags & Machine::HANDLER_STUCK != 0,
        threads_kept: machine.flags & Machine::THREADS_KEPT != 0,
        processors: processors.iter().map(row).collect(),
    };
    let rows = body.processors.as_slice();
    output.rows("info", ctx.told.modelled, (&body, rows), |body| text(body, output.width()))?;
    Ok(0)
}

fn holder(machine: &Machine) -> Option<Holder> {
    (machine.holder_session != 0).then(|| Holder {
        process: machine.holder_process,
        session: machine.holder_session,
        held_ns: crate::select::time::nanoseconds(
            machine.holder_ticks,
            machine.timestamp_frequency,
        ),
    })
}

fn row(processor: &Processor) -> Row {
    Row {
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
        found_counters: processor.found_counters,
        found_fixed: processor.found_fixed,
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

fn text(body: &Body, width: Width) -> String {
    let holder = body.holder.as_ref().map_or_else(
        || "no halprof session (other owners are not visible)".to_owned(),
        |holder| {
            let (session, process) = (holder.session, holder.process);
            format!("session {session} of process {process}, for {}", seconds(holder.held_ns))
        },
    );
    let head = format!(
        "machine      {}\ninterface    {} ({})\n             {}\nHAL          {} ({})\noverflow     {}\n             {}\nheld by      {}\n\n",
        Shown(&body.machine),
        body.interface,
        body.reason,
        width.prose(LABEL, &body.explanation),
        body.hal_interface,
        body.hal_reason,
        body.overflow,
        width.prose(LABEL, body.overflow_explanation),
        width.prose(LABEL, &holder),
    );
    let columns = [
        Column::name("processors"),
        Column::word("vendor").extra(),
        Column::number("family").extra(),
        Column::number("model").extra(),
        Column::number("stepping").extra(),
        Column::word("core"),
        Column::number("PMU").extra(),
        Column::word("counters"),
        Column::word("fixed"),
        Column::word("branches").extra(),
        Column::name("hypervisor"),
    ];
    head + &table(width, &columns, alike(&body.processors)) + &remarks(body, width)
}

/// Remarks on anything unusual, each on lines of its own.
fn remarks(body: &Body, width: Width) -> String {
    let processors_where = |wanted: &dyn Fn(&Row) -> bool| {
        let rows = body.processors.iter().filter(|row| wanted(row));
        let indexes = rows.map(|row| row.index).collect::<Vec<_>>();
        (!indexes.is_empty()).then(|| halprof_measure::selection::format_processors(indexes))
    };
    let mut remarks = Vec::new();
    if body.handler_stuck {
        remarks.push(
            "Windows refused to remove halprof's overflow handler: the driver keeps the counters, and nothing can be sampled, until Windows agrees or restarts."
                .to_owned(),
        );
    }
    if body.threads_kept {
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
    if let Some(processors) = processors_where(&|row| row.found_counters != 0) {
        remarks.push(format!(
            "Somebody else had general counters enabled on processors {processors} when counting last began."
        ));
    }
    if let Some(processors) = processors_where(&|row| row.found_fixed != 0) {
        remarks.push(format!(
            "Somebody else uses fixed counters on processors {processors}: they are left alone, and their events take general counters."
        ));
    }
    let first = body.processors.first();
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

/// One line for all processors that are alike.
fn alike(processors: &[Row]) -> Vec<Vec<String>> {
    let mut lines: Vec<(Vec<u32>, [String; 10])> = Vec::new();
    for row in processors {
        let cells = cells(row);
        match lines.iter_mut().find(|(_, same)| *same == cells) {
            Some((indexes, _)) => indexes.push(row.index),
            None => lines.push((vec![row.index], cells)),
        }
    }
    let line = |(indexes, cells): (Vec<u32>, [String; 10])| {
        let ranges = halprof_measure::selection::format_processors(indexes);
        std::iter::once(ranges).chain(cells).collect()
    };
    lines.into_iter().map(line).collect()
}

fn cells(row: &Row) -> [String; 10] {
    let counters = |mask: u32, width: u8| match mask.count_ones() {
        0 => "-".to_owned(),
        count => format!("{count} x {width} bits"),
    };
    [
        row.vendor.clone(),
        format!("{:#x}", row.family),
        format!("{:#x}", row.model),
        row.stepping.to_string(),
        row.core_type.unwrap_or_default().to_owned(),
        row.pmu_version.to_string(),
        counters(row.counter_mask, row.counter_width),
        counters(row.fixed_mask, row.fixed_width),
        match row.branch_depth {
            0 => "-".to_owned(),
            depth => depth.to_string(),
        },
        row.hypervisor.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_the_ordinary_is_told() {
        let processor = Processor {
            flags: Processor::STORM | Processor::HV1 | Processor::HV1_ROOT,
            hypervisor_behind: *b"XenVMMXenVMM",
            found_counters: 1,
            found_fixed: 2,
            ..Processor::default()
        };
        let plain = Body {
            machine: String::new(),
            hal_interface: "Emon",
            interface: "Emon",
            reason: "",
            hal_reason: "",
            explanation: String::new(),
            overflow: "",
            overflow_explanation: "",
            timestamp_frequency: 0,
            holder: None,
            ring_bytes: 0,
            ring_bytes_max: 0,
            interrupt_budget: 0.1,
            handler_stuck: false,
            threads_kept: false,
            processors: vec![row(&Processor::default())],
        };
        assert_eq!(remarks(&plain, Width::WHOLE), "");
        let odd = Body {
            handler_stuck: true,
            threads_kept: true,
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
