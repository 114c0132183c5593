//! Decodes performance-monitoring registers, field by field.

mod netburst;
mod rows;

pub(crate) use rows::Field;

use rows::{ROWS, Row};
use shared_types::ProfileInterface;

/// A register with its fields.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    /// The manual's name, or `unknown`.
    pub(crate) name: String,
    /// Each field with its value.
    pub(crate) fields: Vec<(Field, u64)>,
}

/// Decodes a register of a processor that is used through `interface`.
///
/// `number` is as in `shared_types::request::machine::Register`. Some numbers mean different
/// registers in different interfaces, e.g. IA32_FIXED_CTR0 and MSR_FLAME_COUNTER1, so the interface
/// is needed.
#[must_use]
pub(crate) fn decode(interface: ProfileInterface, number: u32, value: u64) -> Decoded {
    let (name, fields) = find(interface, number).unwrap_or(("unknown".to_owned(), &[]));
    Decoded { name, fields: fields.iter().map(|&field| (field, field.of(value))).collect() }
}

fn find(interface: ProfileInterface, number: u32) -> Option<(String, &'static [Field])> {
    if interface == ProfileInterface::NetBurst
        && let Some(found) = rows::netburst(number)
    {
        return Some(found);
    }
    ROWS.iter().find_map(|row| {
        let index = row.index(interface, number)?;
        Some((row.name.replace('#', &index.to_string()), row.fields))
    })
}

impl Row {
    /// The index of the register with this number.
    fn index(&self, interface: ProfileInterface, number: u32) -> Option<u32> {
        let offset = number.checked_sub(self.first)?;
        let index = offset / self.stride;
        (self.interfaces.contains(&interface) && offset % self.stride == 0 && index < self.count)
            .then_some(index)
    }
}

impl Field {
    /// The field's value in a register's value.
    #[must_use]
    pub(crate) const fn of(&self, value: u64) -> u64 {
        (value >> self.low) & (u64::MAX >> (63 - (self.high - self.low)))
    }

    /// Its bits in the manuals' notation, e.g. `15:8` or `22`.
    #[must_use]
    pub(crate) fn bits(&self) -> String {
        if self.high == self.low {
            self.low.to_string()
        } else {
            format!("{}:{}", self.high, self.low)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(decoded: &Decoded, name: &str) -> u64 {
        let found = decoded.fields.iter().find(|(field, _)| field.name == name);
        found.expect(name).1
    }

    #[test]
    fn a_hal_select_is_taken_apart() {
        // The select of ProfileCacheMisses while monitoring is on: 0x3412E with INT and EN.
        let decoded = decode(ProfileInterface::Emon, 0x187, 0x0053_412E);
        assert_eq!(decoded.name, "IA32_PERFEVTSEL1");
        for (name, value) in [
            ("EVENT_SELECT", 0x2E),
            ("UMASK", 0x41),
            ("USR", 1),
            ("OS", 1),
            ("INT", 1),
            ("EN", 1),
            ("CMASK", 0),
        ] {
            assert_eq!(field(&decoded, name), value, "{name}");
        }
    }

    #[test]
    fn the_pentium_example_of_seed_002_is_taken_apart() {
        let decoded = decode(ProfileInterface::Pentium, 0x11, 0x83);
        assert_eq!(
            (field(&decoded, "ES0"), field(&decoded, "CC0[1]"), field(&decoded, "CC0[0]")),
            (3, 1, 0)
        );
    }

    #[test]
    fn the_sdms_netburst_example_is_taken_apart() {
        let escr = decode(ProfileInterface::NetBurst, 0x3B8, 0x0400_060C);
        assert_eq!(escr.name, "MSR_CRU_ESCR0");
        assert_eq!(
            (field(&escr, "EVENT_SELECT"), field(&escr, "EVENT_MASK"), field(&escr, "T0_OS")),
            (2, 3, 1)
        );
        let cccr = decode(ProfileInterface::NetBurst, 0x370, 0x0003_9000);
        assert_eq!(cccr.name, "MSR_IQ_CCCR4");
        assert_eq!(
            (field(&cccr, "ENABLE"), field(&cccr, "ESCR_SELECT"), field(&cccr, "ACTIVE_THREAD")),
            (1, 4, 3)
        );
    }

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
            assert_eq!(decode(interface, number, 0).name, name, "{number:#x}");
        }
    }

    #[test]
    fn fields_come_in_order_and_never_overlap() {
        for row in ROWS {
            let mut free = 0;
            for field in row.fields {
                assert!(
                    field.low >= free && field.high >= field.low,
                    "{} {}",
                    row.name,
                    field.name
                );
                free = field.high + 1;
            }
            assert!(free <= 64, "{}", row.name);
        }
        let all = Field { name: "", high: 63, low: 0, meaning: "" };
        assert_eq!((all.of(u64::MAX), all.bits()), (u64::MAX, "63:0".to_owned()));
    }
}
