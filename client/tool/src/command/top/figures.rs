//! Numbers for narrow columns.

use crate::metrics::{Counted, Metrics};
use crate::output::number::thousands;
use halprof_measure::estimate::Estimate;
use halprof_measure::rates::{Interval, Rate};
use halprof_measure::selection::EventSpec;

const PREFIXES: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];

/// A short form of a number.
pub(super) trait Format {
    /// Four digits and a decimal prefix: `666.7 M`.
    fn short(self) -> String;
}

impl Format for f64 {
    fn short(self) -> String {
        let mut value = self;
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
}

/// A rate, with `~` before an estimate, or `-` if nothing is known.
pub(super) fn rate(rate: Option<Rate>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate.scaled => format!("~{}", rate.per_second.short()),
        Some(rate) => rate.per_second.short(),
    }
}

/// The bound of an estimated rate, or `?` if it is not known.
pub(super) fn bound(rate: Option<Rate>) -> String {
    match rate {
        Some(Rate { scaled: true, error, .. }) => {
            error.map_or("?".to_owned(), |error| format!("±{}", error.short()))
        }
        _ => String::new(),
    }
}

/// All events since the beginning.
pub(super) fn total(total: &Estimate) -> String {
    let sign = if total.scaled { "~" } else { "" };
    total.value.map_or_else(|| "-".to_owned(), |value| format!("{sign}{}", thousands(value)))
}

/// The metrics of an interval, each with its value, for each type of core.
pub(super) fn metrics(
    events: &[EventSpec],
    interval: &Interval,
    processors: &[(usize, &'static str)],
) -> Vec<(String, String)> {
    let of_core = |core: &str| {
        let alike = processors.iter().filter(|one| one.1 == core);
        let alike: Vec<usize> = alike.map(|one| one.0).collect();
        of_party(events, interval, &alike)
    };
    let mut cores: Vec<&str> = processors.iter().map(|one| one.1).collect();
    cores.sort_unstable();
    cores.dedup();
    match cores.as_slice() {
        [] => Vec::new(),
        [core] => of_core(core),
        // A mean over two kinds of core says little.
        several => {
            let named = several.iter().flat_map(|core| {
                let figures = of_core(core).into_iter();
                figures.map(move |(name, value)| (format!("{name}, {core} cores"), value))
            });
            named.collect()
        }
    }
}

/// The metrics of several processors together.
fn of_party(
    events: &[EventSpec],
    interval: &Interval,
    processors: &[usize],
) -> Vec<(String, String)> {
    let estimate = |source: usize| {
        let counts = processors
            .iter()
            .filter_map(|&processor| interval.counts().get(processor)?.get(source));
        Estimate::sum(counts.map(Estimate::new))
    };
    let counted = |(source, label)| {
        let estimate = estimate(source);
        // A ratio of what some processors did and what others did would mean nothing.
        let value = estimate.value.filter(|_| estimate.never_scheduled_cpus == 0)?;
        Some(Counted {
            label,
            value,
            scaled: estimate.scaled,
            error: estimate.error,
            ..Counted::default()
        })
    };
    let named = events.iter().map(|event| event.label.as_str()).enumerate();
    let counts: Vec<Counted<'_>> = named.filter_map(counted).collect();
    let Ok(known) = Metrics::built_in() else {
        return Vec::new();
    };
    let metrics = known.derive(&counts).into_iter().map(|figure| {
        let metric = figure.metric;
        let unit = if metric.unit.is_empty() { String::new() } else { format!(" {}", metric.unit) };
        let filter = match figure.filter {
            "u" => ", user mode",
            "k" => ", kernel mode",
            _ => "",
        };
        (format!("{}{filter}", metric.name), format!("{:.3}{unit}", figure.value))
    });
    metrics.collect()
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
            assert_eq!(value.short(), text, "{value}");
        }
    }
}
