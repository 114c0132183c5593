//! Counts by the names of their sources, where kinds of processor count one source in different ways.

use crate::choice::Choice;
use halprof_measure::rates::Snapshot;

/// Which of the chosen sources is the one of a name, on each processor.
#[derive(Clone, Debug)]
pub(crate) struct ByName {
    names: Vec<String>,
    /// For each processor, the place of each name among the chosen sources.
    places: Vec<Vec<usize>>,
}

impl ByName {
    pub(crate) fn of(choice: &Choice) -> Self {
        let names = choice.names();
        let place_on = |name: &String, processor| {
            let mut first = None;
            let chosen = choice.chosen.iter().enumerate();
            for (place, one) in chosen.filter(|(_, one)| one.label == *name) {
                if choice.counts_on(one, processor) {
                    return place;
                }
                first = first.or(Some(place));
            }
            first.unwrap_or(0)
        };
        let places = choice.processors().iter().map(|processor| {
            let place = |name| place_on(name, processor);
            names.iter().map(place).collect()
        });
        Self {
            places: places.collect(),
            names,
        }
    }

    /// Each name once, in the order of the choice.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// For each processor, one count for each name.
    pub(crate) fn counts(&self, snapshot: &Snapshot) -> Snapshot {
        let processors = snapshot.iter().zip(&self.places);
        let of_names = processors.map(|(counts, places)| {
            let count = |&place: &usize| counts.get(place).copied().unwrap_or_default();
            places.iter().map(count).collect()
        });
        of_names.collect()
    }
}
