//! `halprof registers`: the PMU's registers, decoded field by field, read only.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::table::Width;
use crate::results::registers::{FieldRow, decode};
use crate::select::event_set::processors_of;
use crate::target::context::Context;
use crate::target::limits;
use halprof_measure::describe::ProcessorDescription;
use halprof_measure::selection;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::Register;

#[derive(JsonSchema, Serialize)]
pub(crate) struct RegistersResult {
    processors: Vec<ProcessorRegisters>,
}

#[derive(JsonSchema, Serialize)]
struct ProcessorRegisters {
    processor: u32,
    #[serde(skip)]
    described: ProcessorDescription,
    registers: Vec<RegisterRow>,
    /// OVERFLOW_STATUS: the sources whose counters have overflowed and not been handled yet.
    overflowed: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct RegisterRow {
    /// The MSR's number; 0xFFFF0000 plus the offset for the local APIC's page; 0xFFFE0004 for CR4.
    number: u32,
    name: String,
    value: String,
    fields: Vec<FieldRow>,
}

pub(crate) fn run(options: &args::Registers, ctx: &mut Context, output: &Output) -> Result<u32> {
    limits::refuse(ctx.method, "registers", &[("registers", true)])?;
    let indexes = match args::joined(&options.processors) {
        Some(list) => processors_of(&selection::parse_processors(&list)?, &ctx.machine.processors)?,
        None => vec![0],
    };
    let (machine, catalog) = (ctx.machine.describe(), ctx.catalog(true)?);
    let mut processors = Vec::new();
    for described in machine.processors.into_iter().filter(|one| indexes.contains(&one.index)) {
        let (registers, overflowed) = ctx.connection.registers(described.index)?;
        let registers = registers.iter().map(|register| decoded(described.interface, register));
        processors.push(ProcessorRegisters {
            processor: described.index,
            registers: registers.collect(),
            described,
            overflowed: overflowed.into_iter().map(|source| catalog.name_of(source)).collect(),
        });
    }
    let result = RegistersResult { processors };
    output.rows("registers", (&result, &lines(&result)), |result| text(result, output.width()))?;
    Ok(0)
}

/// A field of a register of a processor.
#[derive(JsonSchema, Serialize)]
struct FieldLine<'a> {
    processor: u32,
    /// The MSR's number; empty for what is no MSR.
    number: Option<u32>,
    register: &'a str,
    register_value: &'a str,
    #[serde(flatten)]
    field: &'a FieldRow,
}

fn lines(result: &RegistersResult) -> Vec<FieldLine<'_>> {
    let mut lines = Vec::new();
    for one in &result.processors {
        for row in &one.registers {
            lines.extend(row.fields.iter().map(|field| FieldLine {
                processor: one.processor,
                number: row.msr(),
                register: &row.name,
                register_value: &row.value,
                field,
            }));
        }
    }
    lines
}

impl RegisterRow {
    /// The MSR's number; `None` for CR4 and the local APIC's page.
    fn msr(&self) -> Option<u32> {
        (self.number < Register::CR4 & !0xFFFF).then_some(self.number)
    }
}

fn decoded(interface: &str, register: &Register) -> RegisterRow {
    let decoded = decode(interface, register.number, register.value);
    RegisterRow {
        number: register.number,
        name: decoded.name,
        value: format!("{:#018x}", register.value),
        fields: decoded.fields,
    }
}

fn text(result: &RegistersResult, width: Width) -> String {
    let mut text = String::new();
    for one in &result.processors {
        let core_type = one.described.core_type.map(|core_type| format!(", {core_type} core"));
        let (interface, core_type) = (one.described.interface, core_type.unwrap_or_default());
        text += &format!("processor {}: {interface}{core_type}\n", one.processor);
        if one.registers.is_empty() {
            text += "  no registers: its interface uses none\n";
        }
        for row in &one.registers {
            let number = row.msr().map(|number| format!("{number:#010x}"));
            let number = number.unwrap_or_default();
            text += &format!("  {number:<10} {:<28} {}\n", row.name, row.value);
            let fields = row.fields.iter().filter(|field| field.value != 0);
            text.extend(fields.map(|field| field.text(width)));
        }
        let overflowed = match one.overflowed.as_slice() {
            [] => "none".to_owned(),
            sources => sources.join(", "),
        };
        text += &format!("  overflowed: {overflowed}\n");
    }
    text
}
