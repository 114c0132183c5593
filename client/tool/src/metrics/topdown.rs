//! Where the issue slots of a processor went: the top-down method (Yasin 2014), by the formulas of
//! `topdown.csv`, over events that general counters can count.

use crate::metrics::formula::{Formula, Value};
use halprof_measure::catalog::Catalog;
use halprof_measure::events::Microarchitecture;

const ROWS: &str = include_str!("topdown.csv");

/// One part of the slots.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Its name, as the vendor spells it.
    pub(crate) metric: &'static str,
    /// 1 for parts of the whole, 2 for parts of those parts.
    pub(crate) level: u8,
    /// The part that it is a part of.
    pub(crate) parent: Option<&'static str>,
    /// In percent, over events of the processor.
    formula: Formula,
}

/// Whether there are formulas for `--topdown` on this machine.
pub(crate) fn is_available(catalog: &Catalog) -> bool {
    let mut known = catalog.cpu_types().iter().filter_map(|kind| kind.microarchitecture);
    known.any(|one| !Part::of(one, 1).is_empty())
}

impl Part {
    /// The parts down to a level, each before its own parts, on every processor in the same order;
    /// none if the vendor has no formulas for the microarchitecture.
    pub(crate) fn of(of: &Microarchitecture, level: u8) -> Vec<Self> {
        let row = |line: &'static str| {
            let mut cells = line.splitn(5, ',');
            let mut next = || cells.next();
            let (tables, metric, level) = (next()?, next()?, next()?);
            let own = tables.split(' ').any(|table| table == of.table);
            let parent = Some(next()?).filter(|parent| !parent.is_empty());
            let formula = Formula::parse(next()?.trim_matches('"')).ok()?;
            own.then(|| Some(Self { metric, level: level.parse().ok()?, parent, formula }))?
        };
        let rows: Vec<Self> = ROWS.lines().skip(1).filter_map(row).collect();
        let named = |name: &str| {
            let row = rows.iter().find(|row| row.metric == name);
            row.map(|row| row.formula.clone())
        };
        // Level 0 is the whole that the others are parts of.
        let wanted = rows.iter().filter(|row| (1..=level).contains(&row.level));
        let part = |row: &Self| Self { formula: row.formula.replaced(&named), ..row.clone() };
        wanted.map(part).collect()
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
        let named: std::collections::BTreeSet<&str> =
            rows.flat_map(|row| row.split(',').next().unwrap_or_default().split(' ')).collect();
        assert_eq!((tables, named.len()), (33, 33));
    }

    /// Yasin's tree, in the order of the pipeline.
    #[test]
    fn the_order_is_the_same_on_every_processor() {
        const ORDER: [&str; 5] =
            ["frontend_bound", "bad_speculation", "backend_bound", "smt_contention", "retiring"];
        for one in Microarchitecture::all() {
            let parts = Part::of(one, 2);
            let place = |name: &str| {
                let mut order = ORDER.iter();
                order.position(|known| name.eq_ignore_ascii_case(known))
            };
            let mut above = "";
            for part in &parts {
                match part.parent {
                    None => above = part.metric,
                    Some(parent) => assert_eq!((parent, part.level), (above, 2), "{part:?}"),
                }
            }
            let level_1 = parts.iter().filter(|part| part.level == 1);
            let places: Vec<_> = level_1.map(|part| place(part.metric)).collect();
            assert!(places.is_sorted(), "{} {places:?}", one.table);
            assert!(places.iter().all(Option::is_some), "{}", one.table);
            assert!([0, 4, 5].contains(&places.len()), "{}", one.table);
        }
    }

    /// What the vendor's formulas promise: whatever the counts, level 1 adds up to the whole where one
    /// part is the remainder, and level 2 to its parent.
    #[test]
    fn parts_add_up() {
        let of = |name: &str| match name {
            "TOPDOWN.SLOTS_P" => Some(Value::exact(6e6)),
            name if name.starts_with("CPU_CLK_UNHALTED.THREAD") => Some(Value::exact(1.5e6)),
            "UOPS_ISSUED.ANY" => Some(Value::exact(3e5)),
            // A part of a part is smaller.
            "INT_MISC.UOP_DROPPING" => Some(Value::exact(1e3)),
            name if name.contains("CYCLES_0") || name.contains("FETCH_LATENCY") => {
                Some(Value::exact(1e4))
            }
            name => Some(Value::exact(1e5 + 1e3 * f64::from(name.len() as u32))),
        };
        let mut checked = 0;
        for one in Microarchitecture::all() {
            let remainder = ["IDQ_BUBBLES.CORE", "IDQ_UOPS_NOT_DELIVERED.CORE"];
            let parts = Part::of(one, 2);
            for smt in [false, true] {
                let value = |part: &Part| part.value(smt, &of).expect("a value").value;
                let level_1 = || parts.iter().filter(|part| part.level == 1);
                let mut counted = level_1().flat_map(|part| part.formula.names(smt));
                if counted.any(|name| remainder.contains(&name)) {
                    let sum: f64 = level_1().map(value).sum();
                    assert!((sum - 100.0).abs() < 1e-9, "{} {sum}", one.table);
                    checked += 1;
                }
                for parent in level_1() {
                    let own = parts.iter().filter(|part| part.parent == Some(parent.metric));
                    let own: Vec<f64> = own.map(value).collect();
                    let sum: f64 = own.iter().sum();
                    let whole =
                        own.len() < 2 || one.table.ends_with("forest") || one.table == "grandridge";
                    assert!(
                        whole || (sum - value(parent)).abs() < 1e-9,
                        "{} {parent:?} {sum}",
                        one.table
                    );
                }
            }
        }
        assert_eq!(checked, 48);
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
