//! Resolves each code location once. Tables get the module, function and line as numbers that
//! compare fast; pictures and exports get everything that is known of the code. Where samples are read
//! one by one, their locations are not known before, and each is resolved when it first comes.

use crate::aggregate::filter::Filter;
use crate::aggregate::key::{Key, Value};
use crate::symbols::code_location::CodeLocation;
use crate::symbols::{Frame, Symbols};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use std::sync::Arc;

/// One location, resolved.
#[derive(Clone, Copy, Default)]
pub(crate) struct Resolved {
    /// The numbers of its values, in the order of [`Key::OF_CODE`]; 0 for a key that is not needed.
    numbers: [u32; Key::OF_CODE.len()],
    /// Whether the filter accepts it.
    pub(crate) passes: bool,
}

/// The code at a location, and the index of its module in the recording.
pub(crate) type Code = (Arc<Frame>, Option<usize>);

impl Resolved {
    /// The number of a key's value.
    pub(crate) fn number(self, key: Key) -> u32 {
        let mut values = Key::OF_CODE.into_iter().zip(self.numbers);
        values.find(|&(known, _)| known == key).map_or(0, |(_, number)| number)
    }
}

/// The code at each location so far, and whether the filter accepts it.
pub(crate) struct LocatedCode<'a> {
    filter: &'a Filter,
    pub(crate) symbols: Symbols,
    known: IndexMap<CodeLocation, (Frame, bool), FxBuildHasher>,
}

impl<'a> LocatedCode<'a> {
    pub(crate) fn new(filter: &'a Filter, symbols: Symbols) -> Self {
        Self { filter, symbols, known: IndexMap::default() }
    }

    /// The index of the code at a location, and whether the filter accepts it.
    pub(crate) fn at(&mut self, location: CodeLocation) -> (usize, bool) {
        if let Some((index, _, &(_, passes))) = self.known.get_full(&location) {
            return (index, passes);
        }
        let CodeLocation { process, ip, .. } = location;
        let frame = self.symbols.frame(process, ip, location.mode());
        let passes = self.filter.passes_code(ip, &frame, self.symbols.paths(&frame.module));
        (self.known.insert_full(location, (frame, passes)).0, passes)
    }

    pub(crate) fn frame(&self, index: usize) -> &Frame {
        &self.known[index].0
    }
}

/// The module, function and line of each location of a recording.
#[derive(Default)]
pub(crate) struct ResolvedLocations {
    /// Sorted by location.
    resolved: IndexMap<CodeLocation, Resolved, FxBuildHasher>,
    /// Each value once, by its number.
    values: IndexSet<Value, FxBuildHasher>,
}

impl ResolvedLocations {
    /// Looks up what `keys` and the filter need. The locations must be in order: see
    /// [`Self::get_near`].
    pub(crate) fn resolve(
        locations: &[CodeLocation],
        symbols: &mut Symbols,
        filter: &Filter,
        keys: &[Key],
    ) -> Self {
        let needs_symbols =
            !filter.symbols.is_empty() || keys.iter().any(|key| key.needs_symbols());
        let needs = |key| keys.contains(&key) || key == Key::Symbol && keys.contains(&Key::Caller);
        let mut values: IndexSet<Value, FxBuildHasher> = IndexSet::default();
        let mut number = |value| values.insert_full(value).0 as u32;
        let resolve = |&location: &CodeLocation| {
            let (process, ip, mode) = (location.process, location.ip, location.mode());
            let frame = if needs_symbols {
                symbols.resolve(process, ip, mode)
            } else {
                symbols.module_alone(process, ip, mode)
            };
            let numbers = Key::OF_CODE.map(|key| match key.of_code(ip, &frame) {
                Some(value) if needs(key) => number(value),
                _ => 0,
            });
            (
                location,
                Resolved {
                    numbers,
                    passes: filter.passes_code(ip, &frame, symbols.paths(&frame.module)),
                },
            )
        };
        Self { resolved: locations.iter().map(resolve).collect(), values }
    }

    /// One of the locations.
    pub(crate) fn get(&self, location: CodeLocation) -> Resolved {
        self.resolved.get(&location).copied().unwrap_or_default()
    }

    /// One of the locations; `near` is the index of the last one that was found. Groups come in the
    /// order of locations, so the next location is mostly the same or the one after it, and no hash
    /// is needed.
    pub(crate) fn get_near(&self, location: CodeLocation, near: &mut usize) -> Resolved {
        for index in [*near, *near + 1] {
            if let Some((&known, &resolved)) = self.resolved.get_index(index)
                && known == location
            {
                *near = index;
                return resolved;
            }
        }
        let Some((index, _, &resolved)) = self.resolved.get_full(&location) else {
            return Resolved::default();
        };
        *near = index;
        resolved
    }

    /// The number of the function that called at this location; 0 if none is known.
    pub(crate) fn caller_number(&self, location: Option<CodeLocation>) -> u32 {
        location.map_or(0, |location| self.get(location).number(Key::Symbol) + 1)
    }

    /// The value of a key with this number.
    pub(crate) fn value(&self, key: Key, number: u32) -> Option<Value> {
        if key != Key::Caller {
            return self.values.get_index(number as usize).cloned();
        }
        let caller =
            number.checked_sub(1).and_then(|number| self.values.get_index(number as usize));
        Some(match caller.cloned() {
            Some(Value::Symbol { module, symbol }) => {
                Value::Caller { module: Some(module), symbol }
            }
            _ => Value::Caller { module: None, symbol: None },
        })
    }
}
