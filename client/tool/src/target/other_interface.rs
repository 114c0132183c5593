//! Sources that Windows' HAL has on processors of another vendor.

use halprof_measure::selection::parse_number;
use serde::Deserialize;
use shared_types::ProfileInterface;

/// The interfaces of 64-bit Windows, the processors that have them, and their sources.
const TABLES: [(ProfileInterface, &str, &str); 2] = [
    (
        ProfileInterface::Emon,
        "Intel's processors",
        include_str!("../../../../facts/emon-sources.csv"),
    ),
    (
        ProfileInterface::Amd64,
        "AMD's processors",
        include_str!("../../../../facts/amd64-sources.csv"),
    ),
];

/// A row of the HAL's table.
#[derive(Deserialize)]
struct Row {
    value: String,
    symbol: String,
}

/// Whose source a name or number is, if it is one of an interface that this machine does not have.
pub(crate) fn whose(name: &str, own: u32) -> Option<String> {
    let number = parse_number(name);
    TABLES.iter().filter(|(interface, ..)| *interface as u32 != own).find_map(
        |(interface, of, table)| {
            let rows = csv::Reader::from_reader(table.as_bytes()).into_deserialize::<Row>();
            rows.flatten().find_map(|Row { value, symbol }| {
                let short = symbol.strip_prefix("Profile").unwrap_or(&symbol);
                let is_name =
                    [symbol.as_str(), short].iter().any(|one| one.eq_ignore_ascii_case(name));
                let is_meant = is_name || number.is_some() && parse_number(&value) == number;
                let title = interface.name();
                is_meant.then(|| {
                    format!("{short} ({value}) is a source of the {title} interface, of {of}")
                })
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_of_another_vendor_is_known_by_name_and_number() {
        use ProfileInterface::{Amd64, Emon};
        for (name, own, is_whose) in [
            (
                "IcacheIssues",
                Emon,
                Some("IcacheIssues (0x14) is a source of the Amd64 interface, of AMD's processors"),
            ),
            (
                "profileicacheissues",
                Emon,
                Some("IcacheIssues (0x14) is a source of the Amd64 interface, of AMD's processors"),
            ),
            (
                "0x08",
                Emon,
                Some("DcacheMisses (0x08) is a source of the Amd64 interface, of AMD's processors"),
            ),
            ("UnhaltedCoreCycles", Amd64, Some("UnhaltedCoreCycles")),
            ("IcacheIssues", Amd64, None),
            ("nothing", Emon, None),
        ] {
            let said = whose(name, own as u32);
            match is_whose {
                None => assert_eq!(said, None, "{name}"),
                Some(text) => assert!(
                    said.as_deref().is_some_and(|said| said.contains(text)),
                    "{name}: {said:?}"
                ),
            }
        }
    }
}
