//! Splits sources that do not fit together into sets that do. Instead of taking turns on the
//! counters, each set gets a pass: the workload is run again for it, so every count is exact.

use crate::connection::{Connection, Fit, Setup};
use crate::error::Refusal;
use crate::error::{Error, Result};
use crate::selection::EventSpec;
use crate::transport::Transport;
use shared_types::ErrorCode;
use shared_types::request::source::Placement;

impl<T: Transport> Connection<T> {
    /// Splits events that do not fit together on these CPU types, a mask, into sets that do, each
    /// as indexes into `events`, in the order of its first event. `setup` has the rest of the
    /// request; its specs are ignored.
    ///
    /// Every event is in exactly one set, and a group stays together. `sampling` says whether the
    /// passes sample: time takes a counter only where it is sampled. Events that a processor cannot
    /// count take no counter there.
    pub fn passes(
        &mut self,
        events: &[EventSpec],
        setup: &Setup,
        cpu_types: u16,
        sampling: bool,
    ) -> Result<Vec<Vec<usize>>> {
        Splitter { connection: self, events, setup, cpu_types, sampling, anchor: None }.sets()
    }
}

/// The same for events that are counted, with a common event added to every set in which it fits.
pub(crate) fn passes_beside<T: Transport>(
    connection: &mut Connection<T>,
    events: &[EventSpec],
    setup: &Setup,
    cpu_types: u16,
    anchor: Option<usize>,
) -> Result<Vec<Vec<usize>>> {
    Splitter { connection, events, setup, cpu_types, sampling: false, anchor }.sets()
}

struct Splitter<'a, T> {
    connection: &'a mut Connection<T>,
    events: &'a [EventSpec],
    setup: &'a Setup,
    cpu_types: u16,
    sampling: bool,
    /// The event that is in every set in which it fits.
    anchor: Option<usize>,
}

impl<T: Transport> Splitter<'_, T> {
    fn sets(&mut self) -> Result<Vec<Vec<usize>>> {
        let anchor = self.anchor;
        let is_anchor = |index: &usize| Some(*index) == anchor;
        let mut left: Vec<usize> = (0..self.events.len()).collect();
        left.retain(|index| !is_anchor(index));
        let mut room = left.len();
        let mut sets = Vec::new();
        while !left.is_empty() {
            let mut requested = whole_units(&left, self.events, room);
            requested.splice(0..0, anchor);
            let fit = match self.plan(&requested) {
                Err(Error::Refused(refusal)) if too_many(&refusal, requested.len()) => {
                    room = (refusal.detail as usize).saturating_sub(anchor.iter().len());
                    continue;
                }
                planned => planned?,
            };
            let mut set = self.first_slice(&requested, &fit);
            set.retain(|index| !is_anchor(index));
            if set.is_empty() {
                // CPU types put different events into their first slices, so no event is in all of
                // them. One unit alone always makes progress.
                set = whole_units(&left, self.events, 1);
            }
            left.retain(|index| !set.contains(index));
            let beside: Vec<usize> = anchor.into_iter().chain(set.iter().copied()).collect();
            let fits = anchor.is_some() && self.plan(&beside).is_ok_and(|fit| fit.at_once());
            sets.push(if fits { beside } else { set });
        }
        if sets.is_empty() {
            sets.extend(anchor.map(|anchor| vec![anchor]));
        }
        Ok(sets)
    }

    fn plan(&mut self, indexes: &[usize]) -> Result<Fit> {
        let events = indexes.iter().filter_map(|&index| self.events.get(index));
        let specs = events.flat_map(|event| event.specs.iter().copied()).collect();
        self.connection.plan_for(&Setup { specs, ..self.setup.clone() }, self.sampling)
    }

    /// The events that run in the first slice on every CPU type that is counted on.
    fn first_slice(&self, requested: &[usize], fit: &Fit) -> Vec<usize> {
        let mut first = Vec::new();
        let mut spec = 0;
        for &index in requested {
            let specs = self.events.get(index).map_or(0, |event| event.specs.len());
            if (spec..spec + specs).all(|spec| self.is_in_first_slice(fit, spec)) {
                first.push(index);
            }
            spec += specs;
        }
        first
    }

    fn is_in_first_slice(&self, fit: &Fit, spec: usize) -> bool {
        let counted_on =
            (0..).zip(&fit.placements).filter(|(cpu_type, _)| self.cpu_types >> cpu_type & 1 != 0);
        counted_on.filter_map(|(_, placements)| placements.get(spec)).all(|placement| {
            placement.error != 0 || matches!(placement.slice, 0 | Placement::EVERY_SLICE)
        })
    }
}

fn too_many(refusal: &Refusal, requested: usize) -> bool {
    // A limit that is not below what was asked for would have the same sources asked for again,
    // without end.
    refusal.code == ErrorCode::TooManySources && (1..requested as u64).contains(&refusal.detail)
}

/// The first events of `left` with the rest of their groups: at most `room`, but at least one
/// unit.
fn whole_units(left: &[usize], events: &[EventSpec], room: usize) -> Vec<usize> {
    let group_of = |index: usize| events.get(index).map_or(0, |event| event.common().group);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::types_of;
    use crate::in_process::InProcess;
    use crate::in_process::modelled;
    use crate::source::Source;
    use shared_types::request::session::Spec;

    fn events(specs: impl Iterator<Item = Spec>) -> Vec<EventSpec> {
        let event = |spec| EventSpec { label: String::new(), requested: None, specs: vec![spec] };
        specs.map(event).collect()
    }

    fn passes(
        connection: &mut Connection<InProcess>,
        events: &[EventSpec],
        processors: &[u32],
    ) -> Result<Vec<Vec<usize>>> {
        let mut measured = connection.processors()?;
        measured.retain(|one| processors.is_empty() || processors.contains(&one.index));
        let setup = Setup { processors: processors.to_vec(), ..Setup::default() };
        connection.passes(events, &setup, types_of(&measured), false)
    }

    fn every_source(connection: &mut Connection<InProcess>) -> Vec<EventSpec> {
        let sources = connection.sources(false).expect("sources");
        let supported = |source: &&Source| source.flags & Source::SUPPORTED != 0;
        let spec =
            |source: &Source| Spec { source: source.id, filter: Spec::USER, ..Spec::default() };
        events(sources.iter().filter(supported).map(spec))
    }

    fn raw(count: u64, group_of: impl Fn(u64) -> u16) -> Vec<EventSpec> {
        // No event has the code 0.
        let select = |number| (number / 255) << 8 | (number % 255 + 1);
        let spec = |number| Spec {
            filter: Spec::USER,
            group: group_of(number),
            ..Spec::of_raw(select(number))
        };
        events((1..=count).map(spec))
    }

    fn sorted(sets: &[Vec<usize>]) -> Vec<usize> {
        let mut all: Vec<usize> = sets.concat();
        all.sort_unstable();
        all
    }

    #[test]
    fn every_source_of_every_model_has_its_pass_and_no_pass_has_turns() {
        for model in sim::machines::models::MODELS {
            let mut connection = modelled(model.name);
            let events = every_source(&mut connection);
            let sets = passes(&mut connection, &events, &[]).expect("passes");
            assert_eq!(sorted(&sets), (0..events.len()).collect::<Vec<_>>(), "{}", model.name);
            for set in &sets {
                let specs = set.iter().map(|&index| events[index].common()).collect();
                let setup = Setup { specs, ..Setup::default() };
                let fit = connection.plan(&setup).expect("a plan");
                let mut placements = fit.placements.iter().flatten();
                let at_once = placements.all(|placement| placement.slice == 0);
                assert!(at_once, "{}: {set:?}", model.name);
            }
        }
    }

    #[test]
    fn there_are_as_few_passes_as_counters_allow() {
        let mut connection = modelled("skylake");
        // Four general counters.
        for (sources, expected) in [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (1000, 250)] {
            let sets = passes(&mut connection, &raw(sources, |_| 0), &[]).expect("passes");
            assert_eq!(sets.len(), expected, "{sources} sources");
            assert_eq!(sorted(&sets).len(), sources as usize);
        }
    }

    #[test]
    fn a_group_stays_together() {
        let mut connection = modelled("skylake");
        let events = raw(300, |select| (select % 100) as u16 + 1);
        let sets = passes(&mut connection, &events, &[]).expect("passes");
        assert_eq!(sorted(&sets).len(), 300);
        for set in sets {
            for index in &set {
                let group = events[*index].common().group;
                let same = |&&other: &&usize| events[other].common().group == group;
                assert_eq!(set.iter().filter(same).count(), 3, "{set:?}");
            }
        }
        let five = raw(5, |_| 1);
        let refused = passes(&mut connection, &five, &[]).expect_err("four counters");
        assert_eq!(refused.code(), "does-not-fit");
    }

    #[test]
    fn only_the_processors_that_take_part_matter() {
        let mut connection = modelled("hybrid");
        let events = raw(10, |_| 0);
        let everywhere = passes(&mut connection, &events, &[]).expect("passes");
        let one_type = passes(&mut connection, &events, &[0]).expect("passes");
        assert!(one_type.len() < everywhere.len(), "{one_type:?}");
    }
}
