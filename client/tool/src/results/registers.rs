//! Decodes performance-monitoring registers, field by field.
//!
//! The facts are in `registers.csv` and `fields.csv`. Their sources: Intel SDM vol. 3, "Performance
//! Monitoring" and "Advanced Programmable Interrupt Controller (APIC)", and vol. 4; AMD APM vol. 2,
//! "Performance Monitoring Counters", and the PPRs.

use crate::output::table::Width;
use schemars::JsonSchema;
use serde::Serialize;

/// A register with its fields.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    /// The manual's name, or `unknown`.
    pub(crate) name: String,
    pub(crate) fields: Vec<FieldRow>,
}

/// A field of a register, and its value.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct FieldRow {
    /// The manual's name.
    pub(crate) name: &'static str,
    /// In the manuals' notation, e.g. `15:8` or `22`.
    pub(crate) bits: String,
    pub(crate) value: u64,
    pub(crate) meaning: &'static str,
}

impl FieldRow {
    /// A line below its register's, or several if its meaning is long.
    pub(crate) fn text(&self, width: Width) -> String {
        let bits = format!("[{}]", self.bits);
        let value = format!("    {bits:<8} {:<20} {:<#8x} ", self.name, self.value);
        format!("{value}{}\n", width.prose(value.len(), self.meaning))
    }
}

/// A field: its name, its highest and lowest bit, and what it means.
struct Field {
    name: &'static str,
    high: u32,
    low: u32,
    meaning: &'static str,
}

/// Registers with the same fields, at regularly spaced numbers.
struct Registers {
    /// The names of the interfaces that have them; all if there are none.
    interfaces: &'static str,
    first: u32,
    count: u32,
    stride: u32,
    /// `#` stands for the index.
    name: &'static str,
    layout: &'static str,
}

/// Decodes a register of a processor that is used through the `interface` of this name.
///
/// `number` is as in `shared_types::request::machine::Register`. Some numbers mean different
/// registers in different interfaces, e.g. IA32_FIXED_CTR0 and MSR_FLAME_COUNTER1, so the interface
/// is needed.
pub(crate) fn decode(interface: &str, number: u32, value: u64) -> Decoded {
    let row = registers().find_map(|row| Some((row.index(interface, number)?, row)));
    let Some((index, row)) = row else {
        return Decoded { name: "unknown".to_owned(), fields: Vec::new() };
    };
    Decoded {
        name: row.name.replace('#', &index.to_string()),
        fields: fields_of(row.layout).map(|field| field.row(value)).collect(),
    }
}

fn registers() -> impl Iterator<Item = Registers> {
    rows(include_str!("registers/registers.csv")).filter_map(|row| {
        let [interfaces, first, count, stride, name, layout] = cells(row)?;
        Some(Registers {
            interfaces,
            first: u32::from_str_radix(first.strip_prefix("0x")?, 16).ok()?,
            count: count.parse().ok()?,
            stride: stride.parse().ok()?,
            name,
            layout,
        })
    })
}

/// The fields of a layout, from bit 0 up.
fn fields_of(layout: &str) -> impl Iterator<Item = Field> {
    rows(include_str!("registers/fields.csv")).filter_map(move |row| {
        let [of, name, high, low, meaning] = cells(row)?;
        let (high, low) = (high.parse().ok()?, low.parse().ok()?);
        (of == layout).then_some(Field { name, high, low, meaning })
    })
}

/// The rows of a table below its header; its remarks begin with `#`.
fn rows(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.starts_with('#')).skip(1)
}

/// The cells of a row; the last may contain commas.
fn cells<const N: usize>(row: &'static str) -> Option<[&'static str; N]> {
    row.splitn(N, ',').collect::<Vec<_>>().try_into().ok()
}

impl Registers {
    fn index(&self, interface: &str, number: u32) -> Option<u32> {
        let offset = number.checked_sub(self.first)?;
        let index = offset / self.stride;
        let mut interfaces = self.interfaces.split_whitespace();
        let is_used = self.interfaces.is_empty() || interfaces.any(|name| name == interface);
        (is_used && offset % self.stride == 0 && index < self.count).then_some(index)
    }
}

impl Field {
    const fn value(&self, register: u64) -> u64 {
        (register >> self.low) & (u64::MAX >> (63 - (self.high - self.low)))
    }

    fn row(&self, register: u64) -> FieldRow {
        let bits = match (self.high, self.low) {
            (high, low) if high == low => low.to_string(),
            (high, low) => format!("{high}:{low}"),
        };
        FieldRow { name: self.name, bits, value: self.value(register), meaning: self.meaning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared_types::ProfileInterface;

    #[test]
    fn one_number_is_read_by_the_interface() {
        for (interface, number, name) in [
            (ProfileInterface::Emon, 0x309, "IA32_FIXED_CTR0"),
            (ProfileInterface::NetBurst, 0x309, "MSR_FLAME_COUNTER1"),
            (ProfileInterface::Emon, 0xC2, "IA32_PMC1"),
            (ProfileInterface::P6, 0xC2, "PerfCtr1"),
            (ProfileInterface::P6, 0xC3, "unknown"),
            (ProfileInterface::Amd64, 0xC001_0003, "PERF_LEGACY_CTL3"),
            (ProfileInterface::Amd64, 0xC001_020B, "PERF_CTR5"),
            (ProfileInterface::Amd64, 0xC000_0301, "PerfCntrGlobalCtl"),
            (ProfileInterface::Emon, 0xFFFF_0340, "LVTPC"),
            (ProfileInterface::Amd64, 0x834, "IA32_X2APIC_LVT_PMI"),
            (ProfileInterface::Emon, 0x4C1, "IA32_A_PMC0"),
        ] {
            assert_eq!(decode(interface.name(), number, 0).name, name, "{number:#x}");
        }
    }

    #[test]
    fn fields_come_in_order_and_never_overlap() {
        for row in registers() {
            assert!(!row.layout.is_empty() && row.count > 0 && row.stride > 0, "{}", row.name);
            let mut free = 0;
            for field in fields_of(row.layout) {
                let (name, low, high) = (field.name, field.low, field.high);
                assert!(low >= free && high >= low, "{} {name}", row.name);
                free = high + 1;
            }
            assert!((1..=64).contains(&free), "{}", row.name);
        }
        assert_eq!(registers().count(), 120);
        let all = Field { name: "", high: 63, low: 0, meaning: "" };
        let row = all.row(u64::MAX);
        assert_eq!((row.value, row.bits.as_str()), (u64::MAX, "63:0"));
    }
}
