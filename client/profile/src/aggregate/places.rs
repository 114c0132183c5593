//! Resolves places: the module, function and line of each address, as numbers that compare fast.

use crate::aggregate::filter::Filter;
use crate::aggregate::key::{Key, Value};
use crate::aggregate::tally::Place;
use crate::symbols::Symbols;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// A mapping between values and numbers.
struct Known<T> {
    all: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Known<T> {
    fn number(&mut self, value: T) -> u32 {
        let (all, next) = (&mut self.all, self.numbers.len() as u32);
        *self.numbers.entry(value).or_insert_with_key(|value| {
            all.push(value.clone());
            next
        })
    }
}

/// The module, function and line of one place, as numbers.
#[derive(Clone, Copy, Default)]
struct Here {
    module: u32,
    symbol: u32,
    line: u32,
    address: u32,
    passes: bool,
}

/// A source file and a line number in it.
type Line = (Arc<str>, u32);

/// The module, function and line of each place of a recording.
#[derive(Default)]
pub(crate) struct Places {
    here: FxHashMap<Place, Here>,
    modules: Known<Arc<str>>,
    symbols: Known<(u32, Option<Arc<str>>)>,
    lines: Known<(u32, Option<Line>)>,
    addresses: Known<(u64, u32)>,
    /// The function of each of `addresses`, and the offset from its start.
    within: Vec<(u32, u64)>,
}

impl Places {
    /// Looks up what `keys` and the filter need.
    pub(crate) fn resolve(
        places: &[Place],
        symbols: &mut Symbols,
        filter: &Filter,
        keys: &[Key],
    ) -> Self {
        let needs_symbols =
            !filter.symbols.is_empty() || keys.iter().any(|key| key.needs_symbols());
        let mut resolved = Self::default();
        for &place in places {
            let here = if needs_symbols {
                resolved.in_full(place, symbols, filter, keys)
            } else {
                resolved.module_alone(place, symbols, filter)
            };
            resolved.here.insert(place, here);
        }
        resolved
    }

    fn module_alone(&mut self, place: Place, symbols: &mut Symbols, filter: &Filter) -> Here {
        let module = symbols.module_name(place.process, place.ip, place.mode());
        Here {
            passes: filter.passes_module(&module),
            module: self.modules.number(module),
            ..Here::default()
        }
    }

    fn in_full(
        &mut self,
        place: Place,
        symbols: &mut Symbols,
        filter: &Filter,
        keys: &[Key],
    ) -> Here {
        let frame = symbols.resolve(place.process, place.ip, place.mode());
        let passes = filter.passes_frame(&frame);
        let module = self.modules.number(frame.module);
        let symbol = self.symbols.number((module, frame.symbol));
        let mut here = Here { module, symbol, passes, ..Here::default() };
        if keys.contains(&Key::Line) {
            here.line = self.lines.number((module, frame.file.zip(frame.line)));
        }
        if keys.contains(&Key::Address) {
            here.address = self.addresses.number((place.ip, module));
            if here.address as usize == self.within.len() {
                self.within.push((symbol, frame.offset));
            }
        }
        here
    }

    /// Whether the filter accepts a place.
    pub(crate) fn passes(&self, place: Place) -> bool {
        self.here.get(&place).is_some_and(|here| here.passes)
    }

    /// The number of a key's value at a place.
    pub(crate) fn number(&self, place: Place, key: Key) -> u32 {
        let here = self.here.get(&place).copied().unwrap_or_default();
        match key {
            Key::Module => here.module,
            Key::Symbol => here.symbol,
            Key::Line => here.line,
            _ => here.address,
        }
    }

    /// The value of a key with this number.
    pub(crate) fn value(&self, key: Key, number: u32) -> Option<Value> {
        let index = number as usize;
        match key {
            Key::Module => Some(Value::Module(self.module(number)?)),
            Key::Symbol => {
                let (module, symbol) = self.symbols.all.get(index)?.clone();
                Some(Value::Symbol { module: self.module(module)?, symbol })
            }
            Key::Line => {
                let (module, line) = self.lines.all.get(index)?.clone();
                Some(Value::Line { module: self.module(module)?, line })
            }
            _ => {
                let &(address, module) = self.addresses.all.get(index)?;
                let &(symbol, offset) = self.within.get(index)?;
                Some(Value::Address {
                    address,
                    module: self.module(module)?,
                    symbol: self.symbols.all.get(symbol as usize)?.1.clone(),
                    offset,
                })
            }
        }
    }

    fn module(&self, number: u32) -> Option<Arc<str>> {
        self.modules.all.get(number as usize).cloned()
    }
}
