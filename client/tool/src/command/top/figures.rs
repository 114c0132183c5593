//! Numbers for narrow columns.

use crate::output::number::thousands;
use crate::results::count_row::CountRow;
use halprof_measure::rates::Rate;

const PREFIXES: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];

/// Four digits and a decimal prefix: `666.7 M`.
fn short(mut value: f64) -> String {
    let mut prefixes = PREFIXES.iter();
    let mut prefix = prefixes.next();
    // 999.95 would be printed as 1000.0.
    while value >= 999.95
        && let Some(next) = prefixes.next()
    {
        value /= 1000.0;
        prefix = Some(next);
    }
    let decimals = match value {
        value if value >= 99.995 => 1,
        value if value >= 9.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}{}", prefix.copied().unwrap_or_default())
}

/// A rate, with `~` before an estimate, or `-` if nothing is known.
pub(super) fn rate(rate: Option<Rate>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate.scaled => format!("~{}", short(rate.per_second)),
        Some(rate) => short(rate.per_second),
    }
}

/// The bound of an estimated rate, or `?` if it is not known.
pub(super) fn bound(rate: Option<Rate>) -> String {
    match rate {
        Some(Rate { scaled: true, per_second, error }) => match error {
            Some(error) if error > per_second => format!("≤{}", short(per_second + error)),
            Some(error) => format!("±{}", short(error)),
            None => "?".to_owned(),
        },
        _ => String::new(),
    }
}

/// All events since the beginning.
pub(super) fn total(row: &CountRow) -> String {
    let sign = if row.scaled { "~" } else { "" };
    row.value.map_or_else(|| "-".to_owned(), |value| format!("{sign}{}", thousands(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits() {
        for (value, text) in [
            (0.0, "0.000"),
            (1.5, "1.500"),
            (12.345, "12.35"),
            (99.994, "99.99"),
            (99.996, "100.0"),
            (999.94, "999.9"),
            (999.96, "1.000 k"),
            (666_666_666.7, "666.7 M"),
            (1e9, "1.000 G"),
            (9.2e18, "9.200 E"),
            (1e25, "10000000.0 E"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
    }
}
