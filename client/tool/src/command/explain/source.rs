//! One source on one machine: what it counts, on what evidence, and what Windows' HAL would count.

use crate::output::table::{Column, Field, Record};
use crate::results::registers::{FieldRow, decode};
use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_measure::describe;
use halprof_measure::selection::format_processors;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::{Machine, Processor};
use shared_types::request::session::Spec;
use shared_types::{ProfileInterface, SourceNote};
use std::collections::BTreeSet;

/// The value of a register for a source, without the enable and interrupt bits that are set while
/// measuring.
#[derive(JsonSchema, Serialize)]
pub(super) struct RegisterValue {
    /// `x` stands for the counter's index.
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) fields: Vec<FieldRow>,
}

/// Processors that are alike.
#[derive(JsonSchema, Serialize)]
pub(super) struct CpuType {
    processors: String,
    core_type: Option<&'static str>,
    counted: bool,
    counters: u32,
    fixed_counters: u32,
}

impl Record for CpuType {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::name("processors"), |row| row.processors.clone()),
        Field::new(Column::word("core"), |row| row.core_type.unwrap_or("-").to_owned()),
        Field::new(Column::word("counted"), |row| {
            if row.counted { "yes" } else { "no" }.to_owned()
        }),
        Field::new(Column::number("counters"), |row| row.counters.to_string()),
        Field::new(Column::number("fixed"), |row| row.fixed_counters.to_string()),
    ];
}

/// The bits of a select that count in user mode and in kernel mode.
const fn modes(interface: ProfileInterface) -> [u64; 2] {
    match interface {
        // T0_USR and T0_OS of the ESCR.
        ProfileInterface::NetBurst => [1 << 2, 1 << 3],
        // CC0 of CESR.
        ProfileInterface::Pentium => [1 << 7, 1 << 6],
        _ => [1 << 16, 1 << 17],
    }
}

/// The registers for a select in the interface's format, with a filter of [`Spec::USER`] and
/// [`Spec::KERNEL`].
pub(super) fn registers(
    interface: ProfileInterface,
    select: u64,
    filter: u16,
) -> Vec<RegisterValue> {
    use ProfileInterface as I;
    let [user, kernel] = modes(interface);
    let set = |bit, mode| if filter & mode == 0 { 0 } else { bit };
    let modes = set(user, Spec::USER) | set(kernel, Spec::KERNEL);
    let select = select & !(user | kernel) | modes;
    let low = select & 0xFFFF_FFFF;
    let registers: &[(&'static str, u32, u64)] = match interface {
        I::Default => &[],
        I::Emon => &[("IA32_PERFEVTSELx", 0x186, select)],
        I::P6 => &[("PerfEvtSelx", 0x186, select)],
        I::Amd64 => &[("PERF_CTLx", 0xC001_0200, select)],
        I::Pentium => &[("CESR", 0x11, select)],
        I::NetBurst => &[
            ("ESCR", 0x3B8, low),
            // Bits 1:0 of the high half select the group of counters, and are reserved in a CCCR.
            ("CCCR", 0x360, select >> 32 & !3),
        ],
    };
    let value = |&(name, number, value): &(&'static str, u32, u64)| RegisterValue {
        name,
        value: format!("{value:#x}"),
        fields: decode(interface.name(), number, value).fields,
    };
    registers.iter().map(value).collect()
}

/// The origin of names and numbers from recent versions of Windows.
const WINDOWS: &str = "Windows' own list";

/// halprof's own numbers: fixed-function counters and architectural events.
const FIXED: std::ops::Range<u32> = 0x8000_0100..0x8000_0200;

/// The evidence for what the source counts, in published documents: the first row of the table that
/// is for its interface and such sources, or for all.
pub(super) fn evidence(machine: &Machine, source: &Source) -> String {
    let interface = describe::interface_name(machine.interface);
    let which = match source.flags {
        flags if flags & Source::TIMER != 0 => "timer",
        _ if FIXED.contains(&source.id) => "fixed",
        flags if flags & Source::HAL != 0 => "hal",
        _ => "own",
    };
    let is_for = |cell: &str, value: &str| cell.is_empty() || cell == value;
    let mut rows = csv::Reader::from_reader(include_bytes!("evidence.csv").as_slice());
    let mut rows = rows.records().flatten();
    let row = rows.find(|row| is_for(&row[0], interface) && is_for(&row[1], which));
    row.map_or_else(String::new, |row| row[2].to_owned())
}

/// What Windows' own HAL would count for it on this machine.
pub(super) fn windows(machine: &Machine, catalog: &Catalog, source: &Source) -> String {
    let hal = describe::interface_name(machine.hal_interface);
    let has = |flag| source.flags & flag != 0;
    if has(Source::TIMER) {
        return "Windows' HAL has it too: a timer, with the same limits.".to_owned();
    }
    if !has(Source::HAL) {
        let listed = catalog.aliases().filter(|alias| {
            alias.source == WINDOWS
                && catalog.source(alias.target).is_some_and(|one| one.id == source.id)
        });
        let names: Vec<&str> = listed.map(|alias| alias.name).collect();
        if !names.is_empty() {
            return format!(
                "Recent Windows lists it too, as {}; the HAL of the first Windows 10 does not.",
                names.join(", ")
            );
        }
        let why = if machine.hal_interface == machine.interface {
            "its number is halprof's own".to_owned()
        } else {
            format!("it chooses the interface {hal} here")
        };
        return format!("Windows' HAL counts nothing for it: {why}.");
    }
    if machine.interface != machine.hal_interface {
        return format!(
            "Windows' HAL has it in the table of its interface {hal}, which halprof does not use here."
        );
    }
    if has(Source::SUPPORTED) {
        if source.counts.is_empty() {
            return "Windows' HAL offers it and programs the same select: on this family that is not documented to count anything.".to_owned();
        }
        return "Windows' HAL programs the same select, and so counts the same.".to_owned();
    }
    if source.reason == Some(SourceNote::Northbridge) {
        return "Windows' HAL offers it and programs it on every core, where each core overwrites \
        the one before: the counts are the node's, as the last core programmed them."
            .to_owned();
    }
    if machine.interface == ProfileInterface::Amd64 as u32 {
        return "Windows' HAL offers it on every AMD processor, and programs the same select."
            .to_owned();
    }
    "Windows' HAL does not support it here either.".to_owned()
}

/// The types of processor of a machine, and whether they count a source.
pub(super) fn cpu_types(
    processors: &[Processor],
    counted: impl Fn(&Processor) -> bool,
) -> Vec<CpuType> {
    let types: BTreeSet<u8> = processors.iter().map(|processor| processor.cpu_type).collect();
    let one_type = |cpu_type: u8| {
        let alike = || processors.iter().filter(move |one| one.cpu_type == cpu_type);
        let first = alike().next()?;
        Some(CpuType {
            processors: format_processors(alike().map(|one| one.index)),
            core_type: describe::core_type(first),
            counted: counted(first),
            counters: first.counter_mask.count_ones(),
            fixed_counters: first.fixed_mask.count_ones(),
        })
    };
    types.into_iter().filter_map(one_type).collect()
}
