//! Counts by the names of their sources, where kinds of processor count one source in different ways.

use crate::select::event_set::EventSet;
use shared_types::request::counts::Count;

/// Which of the chosen sources is the one of a name, on each processor.
#[derive(Clone, Debug)]
pub(crate) struct ByName {
    names: Vec<String>,
    /// For each processor, the place of each name among the chosen sources; `None` where the
    /// processor cannot count it.
    places: Vec<Vec<Option<usize>>>,
}

impl ByName {
    pub(crate) fn of(event_set: &EventSet) -> Self {
        let names = event_set.names();
        let place_on = |name: &String, processor| {
            let chosen = event_set.chosen.iter().enumerate();
            let mut ways = chosen.filter(|(_, one)| one.label == *name);
            let able = ways.find(|(_, one)| event_set.counts_on(one, processor));
            able.map(|(place, _)| place)
        };
        let places = event_set.processors().iter().map(|processor| {
            let place = |name| place_on(name, processor);
            names.iter().map(place).collect()
        });
        Self { places: places.collect(), names }
    }

    /// Each name once, in the order of the choice.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether a processor can count the source of this place among the names.
    pub(crate) fn counts_on(&self, processor: usize, name: usize) -> bool {
        let places = self.places.get(processor);
        places.is_some_and(|places| places.get(name).is_some_and(Option::is_some))
    }

    /// For each processor of the choice, one count for each name: 0 if the snapshot has none.
    pub(crate) fn counts(&self, snapshot: &[Vec<Count>]) -> Vec<Vec<Count>> {
        let of_names = |(processor, places): (usize, &Vec<Option<usize>>)| {
            let count = |&place: &Option<usize>| Some(*snapshot.get(processor)?.get(place?)?);
            let counts = places.iter().map(count);
            counts.map(Option::unwrap_or_default).collect()
        };
        self.places.iter().enumerate().map(of_names).collect()
    }
}
