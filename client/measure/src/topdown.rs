//! Where the issue slots of a processor went: the top-down method (Yasin 2014), by the formulas of
//! `data/topdown.csv`, over events that general counters can count.

use crate::events::{Microarchitecture, unpacked};
use crate::formula::Formula;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The levels for which there are formulas.
pub const LEVELS: u8 = 2;
/// The suffix of a part that was counted rather than derived as a remainder: the check of a sum
/// uses it.
const COUNTED: &str = "_Counted";

static ROWS: LazyLock<String> =
    LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/topdown"))));

/// One part of the slots.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name, as the vendor spells it.
    pub metric: &'static str,
    /// 1 for parts of the whole, 2 for parts of those parts.
    pub level: u8,
    /// In percent, over events of the processor.
    pub formula: Formula,
}

/// The parts down to a level, in the order of their levels; none if the vendor has no formulas for
/// the microarchitecture.
#[must_use]
pub fn parts(of: &Microarchitecture, level: u8) -> Vec<Part> {
    let rows = ROWS.lines().skip(1).filter_map(|line| {
        let mut cells = line.splitn(4, ',');
        let mut next = || cells.next();
        let (tables, metric, level, formula) = (next()?, next()?, next()?, next()?);
        let own = tables.split(' ').any(|table| table == of.table);
        let formula = Formula::parse(formula.trim_matches('"')).ok()?;
        own.then(|| Some((metric, level.parse::<u8>().ok()?, formula)))?
    });
    let rows: Vec<(&'static str, u8, Formula)> = rows.collect();
    let by_name: BTreeMap<&str, &Formula> = rows
        .iter()
        .map(|(metric, _, formula)| (*metric, formula))
        .collect();
    let named = |name: &str| by_name.get(name).map(|formula| (*formula).clone());
    let mut parts: Vec<Part> = rows
        .iter()
        // Level 0 is the whole that the others are parts of.
        .filter(|(_, of, _)| (1..=level).contains(of))
        .map(|(metric, level, formula)| Part {
            metric,
            level: *level,
            formula: formula.replaced(&named),
        })
        .collect();
    parts.sort_by_key(|part| part.level);
    parts
}

/// The sum of the parts of level 1, in percent, if all have a value. A part that was counted
/// replaces the one that is derived as the remainder.
#[must_use]
pub fn sum(level_1: &[(&str, Option<f64>)]) -> Option<f64> {
    let counted = |metric: &str| {
        let name = format!("{metric}{COUNTED}");
        level_1.iter().any(|(other, _)| *other == name)
    };
    let kept = level_1.iter().filter(|(metric, _)| !counted(metric));
    let sum: Option<f64> = kept.map(|(_, value)| *value).sum();
    sum.filter(|_| !level_1.is_empty())
}

/// An event of a formula, as a list of sources spells it: `NAME.c1` and perf's `cpu@NAME,cmask=1@`
/// are events with another counter mask.
#[must_use]
pub fn listed(name: &str) -> String {
    if let Some(inside) = name.strip_prefix("cpu@") {
        return format!("cpu/{}/", inside.trim_end_matches('@'));
    }
    match name.rsplit_once(".c") {
        Some((event, mask)) if mask.parse::<u8>().is_ok() => format!("cpu/{event},cmask={mask}/"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::microarchitectures;

    /// Every formula parses, and names events of its own microarchitecture only.
    #[test]
    fn every_formula_is_over_events_of_its_own_table() {
        let mut tables = 0;
        for one in microarchitectures() {
            let parts = parts(one, LEVELS);
            tables += usize::from(!parts.is_empty());
            for part in &parts {
                for smt in [false, true] {
                    for name in part.formula.names(smt) {
                        let listed = listed(name);
                        let inside = listed.strip_prefix("cpu/").unwrap_or(&listed);
                        let event = inside.split(',').next().unwrap_or_default();
                        assert!(
                            one.event(event).is_some(),
                            "{} {}: {name}",
                            one.table,
                            part.metric
                        );
                    }
                }
            }
        }
        let rows = ROWS.lines().skip(1);
        let named: std::collections::BTreeSet<&str> = rows
            .flat_map(|row| row.split(',').next().unwrap_or_default().split(' '))
            .collect();
        assert_eq!((tables, named.len()), (28, 28));
    }

    #[test]
    fn a_sum_takes_what_was_counted() {
        assert_eq!(sum(&[("A", Some(40.0)), ("B", Some(60.0))]), Some(100.0));
        assert_eq!(
            sum(&[
                ("A", Some(40.0)),
                ("A_Counted", Some(39.0)),
                ("B", Some(60.0))
            ]),
            Some(99.0)
        );
        assert_eq!(sum(&[("A", Some(40.0)), ("B", None)]), None);
        assert_eq!(sum(&[]), None);
    }

    #[test]
    fn names_of_formulas_become_names_of_lists() {
        for (name, wanted) in [
            ("UOPS_ISSUED.ANY", "UOPS_ISSUED.ANY"),
            ("UOPS_EXECUTED.CORE.c1", "cpu/UOPS_EXECUTED.CORE,cmask=1/"),
            ("A.core", "A.core"),
            ("cpu@x.y,cmask=0x6@", "cpu/x.y,cmask=0x6/"),
        ] {
            assert_eq!(listed(name), wanted);
        }
    }
}
