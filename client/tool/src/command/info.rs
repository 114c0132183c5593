//! `halprof info`: which interface was chosen and why, and each processor's capabilities.

use crate::output::Output;
use crate::output::error::Result;
use crate::output::escape::Escaped;
use crate::output::number::seconds;
use crate::output::table::{Column, Field, Record, Width, records_by_processor};
use crate::select::trace_plan::TraceSources;
use crate::target::context::Context;
use halprof_measure::describe::{Description, Holder, ProcessorDescription};
use halprof_measure::selection::format_processors;
use schemars::JsonSchema;
use serde::Serialize;

/// The width of the labels above the table.
const LABEL: usize = 13;

#[derive(JsonSchema, Serialize)]
pub(crate) struct InfoResult {
    machine: String,
    #[serde(flatten)]
    described: Description,
    /// What Windows' own tracing offers, where that measures.
    #[serde(skip_serializing_if = "Option::is_none")]
    tracing: Option<Tracing>,
}

/// What Windows' own tracing offers.
#[derive(JsonSchema, Serialize)]
struct Tracing {
    /// The sources that it lists, the timer among them.
    sources: usize,
    /// How many of them one session counts; null where Windows does not say.
    counters: Option<u32>,
}

pub(crate) fn run(ctx: &mut Context, output: &Output) -> Result<u32> {
    let offer =
        ctx.tracing.as_mut().map(|tracing| TraceSources::of(tracing.as_mut())).transpose()?;
    let info = InfoResult {
        machine: ctx.machine_info.description.clone(),
        described: ctx.machine.describe(),
        tracing: offer
            .map(|offer| Tracing { sources: offer.sources.len(), counters: offer.counters }),
    };
    let rows = info.described.processors.as_slice();
    output.rows("info", (&info, rows), |info| text(info, output.width()))?;
    Ok(0)
}

fn text(info: &InfoResult, width: Width) -> String {
    let described = &info.described;
    let holder = described.holder.as_ref().map_or_else(
        || "no halprof session (other owners are not visible)".to_owned(),
        |Holder { process, session, held_ns }| {
            format!("session {session} of process {process}, for {}", seconds(*held_ns))
        },
    );
    let head = format!(
        "machine      {}\ninterface    {} ({})\n             {}\nHAL          {} ({})\noverflow     {}\n             {}\nheld by      {}\n\n",
        Escaped(&info.machine),
        described.interface,
        described.reason,
        width.prose(LABEL, &described.explanation),
        described.hal_interface,
        described.hal_reason,
        described.overflow,
        width.prose(LABEL, described.overflow_explanation),
        width.prose(LABEL, &holder),
    );
    let processors = records_by_processor(
        width,
        (0, |row: &ProcessorDescription| row.index),
        &described.processors,
    );
    let remarks = remarks(described, info.tracing.as_ref());
    let remarks = remarks.iter().map(|remark| format!("\n{}\n", width.prose(0, remark)));
    head + &processors + &remarks.collect::<String>()
}

impl Record for ProcessorDescription {
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

/// Remarks on anything unusual.
fn remarks(described: &Description, tracing: Option<&Tracing>) -> Vec<String> {
    let processors_where = |unusual: fn(&ProcessorDescription) -> bool| {
        let rows = described.processors.iter().filter(|row| unusual(row));
        let processors = format_processors(rows.map(|row| row.index));
        (!processors.is_empty()).then_some(processors)
    };
    let mut remarks = Vec::new();
    if let Some(tracing) = tracing {
        let counters = match tracing.counters {
            Some(counters) => format!("counts {counters} of them at once"),
            None => "does not say how many of them it counts at once".to_owned(),
        };
        remarks.push(format!(
            "Windows' own tracing measures: it lists {} sources and {counters}. The lines above \
             say what the driver would use.",
            tracing.sources
        ));
    }
    if described.handler_stuck {
        remarks.push(
            "Windows refused to remove halprof's overflow handler: the driver keeps the counters, and nothing can be sampled, until Windows agrees or restarts."
                .to_owned(),
        );
    }
    if described.threads_still_profiled {
        remarks.push(
            "A thread still profiles itself with the counters of a session that has ended: they are stopped, and stay reserved until Windows gives them back."
                .to_owned(),
        );
    }
    if let Some(processors) = processors_where(|row| row.storm) {
        remarks.push(format!(
            "Interrupt storm on processors {processors}: the overflow interrupt stays masked there until a start finds its cause gone."
        ));
    }
    if let Some(processors) = processors_where(|row| row.counters_in_use != 0) {
        remarks.push(format!(
            "Another program had general counters enabled on processors {processors} when counting last began."
        ));
    }
    if let Some(processors) = processors_where(|row| row.fixed_in_use != 0) {
        remarks.push(format!(
            "Another program uses fixed counters on processors {processors}: they are left alone, and their events take general counters."
        ));
    }
    let first = described.processors.first();
    if let Some(behind) = first.and_then(|row| row.hypervisor_behind.as_ref()) {
        remarks.push(format!("The hypervisor is {behind}, which presents itself as Hyper-V."));
    }
    if let Some(row) = first.filter(|row| row.partition.is_some()) {
        remarks.push(format!(
            "Windows is the {} partition of this hypervisor, which {} performance monitors.",
            row.partition.unwrap_or_default(),
            if row.monitors_offered == Some(true) { "offers" } else { "does not offer" }
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::backend::Backend;

    #[test]
    fn what_is_unusual_is_remarked_on() {
        let model = Backend::open("sapphire-rapids,processors=1").expect("a model");
        let mut described = Context::open(model).expect("a machine").machine.describe();
        assert_eq!(remarks(&described, None), Vec::<String>::new());
        (described.handler_stuck, described.threads_still_profiled) = (true, true);
        let processor = &mut described.processors[0];
        (processor.storm, processor.counters_in_use, processor.fixed_in_use) = (true, 1, 2);
        processor.hypervisor_behind = Some("XenVMMXenVMM".to_owned());
        (processor.partition, processor.monitors_offered) = (Some("root"), Some(false));
        let text = remarks(&described, None).join(" ");
        for words in [
            "until Windows agrees or restarts",
            "A thread still profiles itself",
            "Interrupt storm on processors 0",
            "general counters enabled on processors 0",
            "fixed counters on processors 0",
            "XenVMMXenVMM, which presents",
            "root partition",
            "does not offer performance monitors",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
