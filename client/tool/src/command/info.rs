//! `halprof info`: the interface chosen and why, and each processor's capabilities.

use crate::On;
use crate::Result;
use crate::output::{Output, seconds, table, wrapped_to};
use halprof_measure::describe;
use serde::Serialize;
use shared_types::request::machine::{Machine, Processor};

#[derive(Serialize)]
struct Body {
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
    processors: Vec<Row>,
}

/// Who holds the counters; another owner than halprof cannot be told.
#[derive(Serialize)]
struct Holder {
    process: u32,
    session: u32,
    held_ns: u128,
}

#[derive(Serialize)]
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
    hypervisor: Option<String>,
    interface: &'static str,
    reason: &'static str,
}

pub(crate) fn run(on: &mut On, output: &Output) -> Result<u8> {
    let machine = on.connection.machine()?;
    let processors = on.connection.processors()?;
    let boot = processors
        .first()
        .ok_or_else(|| halprof_measure::Error::Protocol {
            request: "processors",
            why: "it lists none".to_owned(),
        })?;
    let body = Body {
        machine: on.told.machine.clone(),
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
        processors: processors.iter().map(row).collect(),
    };
    output.result("info", on.told.modelled, &body, text)?;
    Ok(0)
}

fn holder(machine: &Machine) -> Option<Holder> {
    (machine.holder_session != 0).then(|| Holder {
        process: machine.holder_process,
        session: machine.holder_session,
        held_ns: crate::choice::nanoseconds(machine.holder_ticks, machine.timestamp_frequency),
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
        hypervisor: describe::vendor(&processor.hypervisor),
        interface: describe::interface_name(processor.interface),
        reason: describe::reason_name(processor.reason),
    }
}

fn text(body: &Body) -> String {
    let holder = body.holder.as_ref().map_or_else(
        || "no halprof session; owners other than halprof cannot be told".to_owned(),
        |holder| {
            let (session, process) = (holder.session, holder.process);
            format!(
                "session {session} of process {process}, for {}",
                seconds(holder.held_ns)
            )
        },
    );
    let head = format!(
        "machine      {}\ninterface    {} ({})\n             {}\nHAL          {} ({})\noverflow     {}\n             {}\nheld by      {holder}\n\n",
        body.machine,
        body.interface,
        body.reason,
        wrapped(&body.explanation),
        body.hal_interface,
        body.hal_reason,
        body.overflow,
        wrapped(body.overflow_explanation),
    );
    let columns = [
        "processors",
        "vendor",
        "family",
        "model",
        "stepping",
        "core",
        "PMU",
        "counters",
        "fixed",
        "hypervisor",
    ];
    head + &table(columns, alike(&body.processors), &[2, 3, 4])
}

/// Lines of 80 columns, the second and later ones below what the labels leave free.
fn wrapped(text: &str) -> String {
    wrapped_to(67, text).replace('\n', "\n             ")
}

/// One line for each run of processors that are alike.
fn alike(processors: &[Row]) -> Vec<Vec<String>> {
    let mut lines: Vec<(u32, u32, [String; 9])> = Vec::new();
    for row in processors {
        let cells = cells(row);
        match lines.last_mut() {
            Some((_, last, same)) if *same == cells => *last = row.index,
            _ => lines.push((row.index, row.index, cells)),
        }
    }
    let line = |(first, last, cells): (u32, u32, [String; 9])| {
        let range = halprof_measure::selection::format_processors(first..=last);
        std::iter::once(range).chain(cells).collect()
    };
    lines.into_iter().map(line).collect()
}

fn cells(row: &Row) -> [String; 9] {
    let counters = |count: u8, width: u8| match count {
        0 => "-".to_owned(),
        _ => format!("{count} x {width} bits"),
    };
    [
        row.vendor.clone(),
        format!("{:#x}", row.family),
        format!("{:#x}", row.model),
        row.stepping.to_string(),
        row.core_type.unwrap_or("-").to_owned(),
        row.pmu_version.to_string(),
        counters(row.counters, row.counter_width),
        counters(row.fixed_counters, row.fixed_width),
        row.hypervisor.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}
