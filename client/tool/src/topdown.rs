//! Where the issue slots of a processor went: the top-down method (Yasin 2014), by the formulas of
//! `topdown.csv`, over events that general counters can count.

use crate::formula::{Formula, Value};
use halprof_measure::events::Microarchitecture;
use std::collections::BTreeMap;

const ROWS: &str = include_str!("topdown.csv");

/// One part of the slots.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Its name, as the vendor spells it.
    pub(crate) metric: &'static str,
    /// 1 for parts of the whole, 2 for parts of those parts.
    pub(crate) level: u8,
    /// In percent, over events of the processor.
    formula: Formula,
}

impl Part {
    /// The parts down to a level, in the order of their levels; none if the vendor has no formulas for
    /// the microarchitecture.
    pub(crate) fn of(of: &Microarchitecture, level: u8) -> Vec<Self> {
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
        let mut parts: Vec<Self> = rows
            .iter()
            // Level 0 is the whole that the others are parts of.
            .filter(|(_, of, _)| (1..=level).contains(of))
            .map(|(metric, level, formula)| Self {
                metric,
                level: *level,
                formula: formula.replaced(&named),
            })
            .collect();
        parts.sort_by_key(|part| part.level);
        parts
    }

    /// The events of its formula, each with its spelling in a list of sources. `smt`: whether threads
    /// share cores.
    pub(crate) fn events(&self, smt: bool) -> impl Iterator<Item = (&str, String)> {
        let names = self.formula.names(smt).into_iter();
        names.map(|name| (name, listed(name)))
    }

    /// Its value, from the counts of the events; `None` if one is missing, or there were no slots.
    pub(crate) fn value(&self, smt: bool, of: &impl Fn(&str) -> Option<Value>) -> Option<Value> {
        self.formula.value(smt, of)
    }
}

/// An event of a formula, as a list of sources spells it: `NAME.c1` and perf's `cpu@NAME,cmask=1@`
/// are events with another counter mask.
pub(crate) fn listed(name: &str) -> String {
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

    /// Every formula parses, and names events of its own microarchitecture only.
    #[test]
    fn every_formula_is_over_events_of_its_own_table() {
        let mut tables = 0;
        for one in Microarchitecture::all() {
            let parts = Part::of(one, 2);
            tables += usize::from(!parts.is_empty());
            for part in &parts {
                for smt in [false, true] {
                    for (name, listed) in part.events(smt) {
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
