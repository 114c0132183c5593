//! Splits sources that do not fit together into sets that do. Each set gets a pass, instead of
//! turns on the counters: the workload is run again for each pass, and every count is exact.

use crate::error::Refusal;
use crate::{Connection, Error, Fit, Result, Setup, Transport};
use shared_types::ErrorCode;
use shared_types::request::session::Spec;
use shared_types::request::source::Placement;
use std::collections::BTreeSet;

impl<T: Transport> Connection<T> {
    /// Splits sources that do not fit together into sets that do, each as indexes into the specs of
    /// `setup`, in the order of its first source.
    ///
    /// Every source is in exactly one set, and a group stays together. `sampling` says what the
    /// passes are for: time that is sampled takes a counter. Sources that a processor cannot count
    /// need none.
    pub fn passes(&mut self, setup: &Setup, sampling: bool) -> Result<Vec<Vec<usize>>> {
        sets(self, setup, sampling, None)
    }
}

/// The same for sources that are counted, with a common source added to every set in which it fits.
pub(crate) fn passes_beside<T: Transport>(
    connection: &mut Connection<T>,
    setup: &Setup,
    anchor: Option<usize>,
) -> Result<Vec<Vec<usize>>> {
    sets(connection, setup, false, anchor)
}

fn sets<T: Transport>(
    connection: &mut Connection<T>,
    setup: &Setup,
    sampling: bool,
    anchor: Option<usize>,
) -> Result<Vec<Vec<usize>>> {
    let kinds = kinds_of(connection, setup)?;
    let is_anchor = |index: &usize| Some(*index) == anchor;
    let mut left: Vec<usize> = (0..setup.specs.len()).collect();
    left.retain(|index| !is_anchor(index));
    let mut room = left.len();
    let mut sets = Vec::new();
    while !left.is_empty() {
        let mut asked = whole_units(&left, &setup.specs, room);
        asked.splice(0..0, anchor);
        let fit = match connection.plan_for(&setup.only(&asked), sampling) {
            Err(Error::Refused(refusal)) if too_many(&refusal, asked.len()) => {
                room = (refusal.detail as usize).saturating_sub(anchor.iter().len());
                continue;
            }
            planned => planned?,
        };
        let mut set = first_turn(&asked, &fit, &kinds);
        set.retain(|index| !is_anchor(index));
        if set.is_empty() {
            // Two kinds of processor put different sources into their first turns.
            set = whole_units(&left, &setup.specs, 1);
        }
        left.retain(|index| !set.contains(index));
        let beside: Vec<usize> = anchor.into_iter().chain(set.iter().copied()).collect();
        let fits = connection.plan_for(&setup.only(&beside), sampling);
        let fits = anchor.is_some() && fits.is_ok_and(|fit| fit.at_once());
        sets.push(if fits { beside } else { set });
    }
    if sets.is_empty() {
        sets.extend(anchor.map(|anchor| vec![anchor]));
    }
    Ok(sets)
}

impl Setup {
    /// The same setup for these of its specs only.
    #[must_use]
    pub fn only(&self, indexes: &[usize]) -> Self {
        let specs = indexes.iter().filter_map(|&index| self.specs.get(index));
        Self { specs: specs.copied().collect(), ..self.clone() }
    }
}

/// The kinds of processor that are counted on.
fn kinds_of<T: Transport>(
    connection: &mut Connection<T>,
    setup: &Setup,
) -> Result<BTreeSet<usize>> {
    let wanted = &setup.processors;
    let processors = connection.processors()?;
    Ok(processors
        .iter()
        .filter(|processor| wanted.is_empty() || wanted.contains(&processor.index))
        .map(|processor| processor.kind.into())
        .collect())
}

fn too_many(refusal: &Refusal, asked: usize) -> bool {
    refusal.code == ErrorCode::TooManySources && (1..asked as u64).contains(&refusal.detail)
}

/// The first sources of `left` with the rest of their groups: at most `room`, but at least one
/// unit.
fn whole_units(left: &[usize], specs: &[Spec], room: usize) -> Vec<usize> {
    let group_of = |index: usize| specs.get(index).map_or(0, |spec| spec.group);
    let mut units: Vec<usize> = Vec::new();
    for &index in left {
        if units.contains(&index) {
            continue;
        }
        let group = group_of(index);
        let unit = left.iter().copied().filter(|&other| {
            other == index || (group != 0 && group_of(other) == group && other > index)
        });
        let unit: Vec<usize> = unit.collect();
        if !units.is_empty() && units.len() + unit.len() > room {
            break;
        }
        units.extend(unit);
    }
    units
}

/// The sources that run in the first turn on every kind of processor that is counted on.
fn first_turn(asked: &[usize], fit: &Fit, kinds: &BTreeSet<usize>) -> Vec<usize> {
    let first_on = |kind: &usize, place: usize| {
        let placement = fit.kinds.get(*kind).and_then(|kind| kind.get(place));
        placement.is_none_or(|placement| {
            placement.error != 0 || matches!(placement.turn, 0 | Placement::EVERY_TURN)
        })
    };
    let first = |place: usize| kinds.iter().all(|kind| first_on(kind, place));
    let places = asked.iter().enumerate();
    places.filter(|&(place, _)| first(place)).map(|(_, &index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InProcess;
    use shared_types::request::source::Source;

    fn on(machine: &str) -> Connection<InProcess> {
        let spec = sim::spec::machine(machine, |path| std::fs::read(path)).expect("a machine");
        Connection::new(InProcess::new(&spec.leaves)).expect("it answers")
    }

    fn every_source(connection: &mut Connection<InProcess>) -> Setup {
        let sources = connection.sources(false).expect("sources");
        let supported = |source: &&Source| source.flags & Source::SUPPORTED != 0;
        let spec =
            |source: &Source| Spec { source: source.id, filter: Spec::USER, ..Spec::default() };
        Setup { specs: sources.iter().filter(supported).map(spec).collect(), ..Setup::default() }
    }

    fn raw(count: u64, group_of: impl Fn(u64) -> u16) -> Setup {
        let spec =
            |select| Spec { filter: Spec::USER, group: group_of(select), ..Spec::of_raw(select) };
        Setup { specs: (1..=count).map(spec).collect(), ..Setup::default() }
    }

    fn sorted(sets: &[Vec<usize>]) -> Vec<usize> {
        let mut all: Vec<usize> = sets.concat();
        all.sort_unstable();
        all
    }

    #[test]
    fn every_source_of_every_model_has_its_pass_and_no_pass_has_turns() {
        for model in sim::models::MODELS {
            let mut connection = on(model.name);
            let setup = every_source(&mut connection);
            let sets = connection.passes(&setup, false).expect("passes");
            assert_eq!(sorted(&sets), (0..setup.specs.len()).collect::<Vec<_>>(), "{}", model.name);
            for set in &sets {
                let fit = connection.plan_for(&setup.only(set), false).expect("a plan");
                let mut placements = fit.kinds.iter().flatten();
                let at_once = placements.all(|placement| placement.turn == 0);
                assert!(at_once, "{}: {set:?}", model.name);
            }
        }
    }

    #[test]
    fn there_are_as_few_passes_as_counters_allow() {
        let mut connection = on("skylake");
        // Four general counters.
        for (sources, expected) in [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (1000, 250)] {
            let sets = connection.passes(&raw(sources, |_| 0), false).expect("passes");
            assert_eq!(sets.len(), expected, "{sources} sources");
            assert_eq!(sorted(&sets).len(), sources as usize);
        }
    }

    #[test]
    fn a_group_stays_together() {
        let mut connection = on("skylake");
        let setup = raw(300, |select| (select % 100) as u16 + 1);
        let sets = connection.passes(&setup, false).expect("passes");
        assert_eq!(sorted(&sets).len(), 300);
        for set in sets {
            for index in &set {
                let group = setup.specs[*index].group;
                let same = |&&other: &&usize| setup.specs[other].group == group;
                assert_eq!(set.iter().filter(same).count(), 3, "{set:?}");
            }
        }
        let five = raw(5, |_| 1);
        let refused = connection.passes(&five, false).expect_err("four counters");
        assert_eq!(refused.code(), "does-not-fit");
    }

    #[test]
    fn only_the_processors_that_take_part_matter() {
        let mut connection = on("hybrid");
        let mut setup = raw(10, |_| 0);
        let everywhere = connection.passes(&setup, false).expect("passes");
        setup.processors = vec![0];
        let one_kind = connection.passes(&setup, false).expect("passes");
        assert!(one_kind.len() < everywhere.len(), "{one_kind:?}");
    }
}
