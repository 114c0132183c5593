//! Sources that Windows' HAL has on processors of another vendor.

use halprof_measure::selection::parse_number;
use serde::Deserialize;
use shared_types::ProfileInterface;

/// The interfaces of 64-bit Windows, whose processors they are of, and their sources.
const TABLES: [(ProfileInterface, &str, &str, &str); 2] = [
    (
        ProfileInterface::Emon,
        "Emon",
        "Intel's processors",
        include_str!("../../../../facts/emon-sources.csv"),
    ),
    (
        ProfileInterface::Amd64,
        "Amd64",
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
        |(_, title, of, table)| {
            let mut rows =
                csv::Reader::from_reader(table.as_bytes()).into_deserialize::<Row>().flatten();
            let row = rows.find(|row| {
                let short = row.symbol.trim_start_matches("Profile");
                let is_name =
                    [row.symbol.as_str(), short].iter().any(|one| one.eq_ignore_ascii_case(name));
                is_name || number.is_some() && parse_number(&row.value) == number
            })?;
            let short = row.symbol.trim_start_matches("Profile");
            Some(format!("{short} ({}) is a source of the {title} interface, of {of}", row.value))
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
