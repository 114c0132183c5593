//! Resolves places: the module, function and line of each address, as numbers that compare fast.

use crate::aggregate::aggregator::CodeLocation;
use crate::aggregate::filter::Filter;
use crate::aggregate::key::{Key, Value};
use crate::symbols::Symbols;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// A mapping between values and numbers.
struct Interner<T> {
    all: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
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
struct Resolved {
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
pub(crate) struct ResolvedLocations {
    resolved_at: FxHashMap<CodeLocation, Resolved>,
    modules: Interner<Arc<str>>,
    symbols: Interner<(u32, Option<Arc<str>>)>,
    lines: Interner<(u32, Option<Line>)>,
    addresses: Interner<(u64, u32)>,
    /// The function of each of `addresses`, and the offset from its start.
    within: Vec<(u32, u64)>,
}

impl ResolvedLocations {
    /// Looks up what `keys` and the filter need.
    pub(crate) fn resolve(
        locations: &[CodeLocation],
        symbols: &mut Symbols,
        filter: &Filter,
        keys: &[Key],
    ) -> Self {
        let needs_symbols =
            !filter.symbols.is_empty() || keys.iter().any(|key| key.needs_symbols());
        let mut resolved = Self::default();
        for &location in locations {
            let resolved_at = if needs_symbols {
                resolved.in_full(location, symbols, filter, keys)
            } else {
                resolved.module_alone(location, symbols, filter)
            };
            resolved.resolved_at.insert(location, resolved_at);
        }
        resolved
    }

    fn module_alone(
        &mut self,
        location: CodeLocation,
        symbols: &mut Symbols,
        filter: &Filter,
    ) -> Resolved {
        let module = symbols.module_name(location.process, location.ip, location.mode());
        Resolved {
            passes: filter.passes_module(&module),
            module: self.modules.number(module),
            ..Resolved::default()
        }
    }

    fn in_full(
        &mut self,
        location: CodeLocation,
        symbols: &mut Symbols,
        filter: &Filter,
        keys: &[Key],
    ) -> Resolved {
        let frame = symbols.resolve(location.process, location.ip, location.mode());
        let passes = filter.passes_frame(&frame);
        let module = self.modules.number(frame.module);
        let symbol = self.symbols.number((module, frame.symbol));
        let mut resolved_at = Resolved { module, symbol, passes, ..Resolved::default() };
        if keys.contains(&Key::Line) {
            resolved_at.line = self.lines.number((module, frame.file.zip(frame.line)));
        }
        if keys.contains(&Key::Address) {
            resolved_at.address = self.addresses.number((location.ip, module));
            if resolved_at.address as usize == self.within.len() {
                self.within.push((symbol, frame.offset));
            }
        }
        resolved_at
    }

    /// Whether the filter accepts a place.
    pub(crate) fn passes(&self, location: CodeLocation) -> bool {
        self.resolved_at.get(&location).is_some_and(|resolved_at| resolved_at.passes)
    }

    /// The number of the function that called at this place; 0 if none is known.
    pub(crate) fn caller_number(&self, location: Option<CodeLocation>) -> u32 {
        location.map_or(0, |location| self.number(location, Key::Symbol) + 1)
    }

    /// The number of a key's value at a place.
    pub(crate) fn number(&self, location: CodeLocation, key: Key) -> u32 {
        let resolved_at = self.resolved_at.get(&location).copied().unwrap_or_default();
        match key {
            Key::Module => resolved_at.module,
            Key::Symbol => resolved_at.symbol,
            Key::Line => resolved_at.line,
            _ => resolved_at.address,
        }
    }

    /// The value of a key with this number.
    pub(crate) fn value(&self, key: Key, number: u32) -> Option<Value> {
        let index = number as usize;
        match key {
            Key::Module => Some(Value::Module(self.module(number)?)),
            Key::Symbol => {
                let (module, symbol) = self.function(number)?;
                Some(Value::Symbol { module, symbol })
            }
            Key::Caller => {
                let caller = number.checked_sub(1).and_then(|number| self.function(number));
                let (module, symbol) =
                    caller.map_or((None, None), |(module, symbol)| (Some(module), symbol));
                Some(Value::Caller { module, symbol })
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

    /// The module and the name of the function with this number.
    fn function(&self, number: u32) -> Option<(Arc<str>, Option<Arc<str>>)> {
        let (module, symbol) = self.symbols.all.get(number as usize)?.clone();
        Some((self.module(module)?, symbol))
    }

    fn module(&self, number: u32) -> Option<Arc<str>> {
        self.modules.all.get(number as usize).cloned()
    }
}
