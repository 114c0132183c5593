//! Level 1 of the top-down method by the architectural events, where the vendor has no formula.
//!
//! Slots are the sum of the four parts, so that any four of the five events give all of them (Intel
//! SDM vol. 3, "Pre-defined Architectural Performance Events").

use super::{Metric, Metrics, TopDownMetric};
use crate::metrics::formula::Formula;

/// The quantity of all slots.
const SLOTS: &str = "slots";
/// The parts, by the names that Intel's formulas have for them, and the source that counts each.
const PARTS: [(&str, &str); 4] = [
    ("Frontend_Bound", "TopdownFrontendBound"),
    ("Bad_Speculation", "TopdownBadSpeculation"),
    ("Backend_Bound", "TopdownBackendBound"),
    ("Retiring", "TopdownRetiring"),
];

impl Metrics {
    /// The four parts on a CPU type that counts what `is_counted` says, or why there are none.
    pub(crate) fn architectural(
        &self,
        is_counted: impl Fn(&str) -> bool,
    ) -> Result<Vec<TopDownMetric>, String> {
        let has_slots = self.names(SLOTS).into_iter().any(&is_counted);
        let missing: Vec<&str> =
            PARTS.iter().map(|(_, source)| *source).filter(|one| !is_counted(one)).collect();
        let sum = |except: &str, sign: &str| {
            let sources = PARTS.iter().map(|(_, source)| *source).filter(|one| *one != except);
            sources.collect::<Vec<_>>().join(sign)
        };
        let part = |source: &str| match missing.as_slice() {
            [] => Ok(format!("100 * {source} / ({})", sum("", " + "))),
            [only] if has_slots && *only == source => {
                Ok(format!("100 * ({SLOTS} - {}) / {SLOTS}", sum(source, " - ")))
            }
            [_] if has_slots => Ok(format!("100 * {source} / {SLOTS}")),
            _ => Err(too_few(has_slots, &missing)),
        };
        PARTS.iter().map(|(name, source)| row(name, &part(source)?)).collect()
    }
}

fn too_few(has_slots: bool, missing: &[&str]) -> String {
    let slots = (!has_slots).then_some("TopdownSlots");
    let missing: Vec<&str> = slots.into_iter().chain(missing.iter().copied()).collect();
    format!(
        "it lacks the architectural events {} (CPUID leaf 0x23, else 0x0A), and level 1 needs four of the five",
        missing.join(", ")
    )
}

fn row(name: &str, text: &str) -> Result<TopDownMetric, String> {
    Ok(TopDownMetric {
        tables: String::new(),
        level: 1,
        parent: None,
        metric: Metric {
            id: name.to_owned(),
            name: name.to_owned(),
            unit: "%".to_owned(),
            note: String::new(),
            text: text.to_owned(),
            formula: Formula::parse(text)?,
            on_request: true,
            worse: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::formula::Value;

    /// Of the five events, all; each four; three.
    #[test]
    fn four_of_five_events_give_all_parts() {
        let metrics = Metrics::built_in().expect("metrics.toml is right");
        let amounts = [
            ("TopdownSlots", 1000),
            ("TopdownFrontendBound", 100),
            ("TopdownBadSpeculation", 200),
            ("TopdownBackendBound", 300),
            ("TopdownRetiring", 400),
        ];
        for without in 0..1 << amounts.len() {
            let mut has = (0..).zip(amounts).filter(|(index, _)| without >> index & 1 == 0);
            let has: Vec<(&str, u64)> = has.by_ref().map(|(_, amount)| amount).collect();
            let find = |name: &str| has.iter().find(|(other, _)| *other == name);
            let parts = metrics.architectural(|name| find(name).is_some());
            let Ok(parts) = parts else {
                assert!(has.len() < 4, "{has:?}");
                continue;
            };
            assert!(has.len() >= 4, "{has:?}");
            let count = |name: &str| {
                let (_, amount) = find(if name == SLOTS { "TopdownSlots" } else { name })?;
                Some(Value::of_count(u128::from(*amount), false, None))
            };
            let value = |part: &TopDownMetric| {
                let value = part.metric.formula.value(false, &count).expect("a value");
                (part.metric.id.clone(), value.value)
            };
            let values: Vec<(String, f64)> = parts.iter().map(value).collect();
            let expected = PARTS.iter().zip([10.0, 20.0, 30.0, 40.0]);
            let expected = expected.map(|((name, _), value)| ((*name).to_owned(), value));
            assert_eq!(values, expected.collect::<Vec<_>>(), "{has:?}");
        }
    }
}
