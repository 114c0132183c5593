//! Resolves each code location once. Tables get the module, function and line as numbers that
//! compare fast; pictures and exports get everything that is known of the code. Where samples are read
//! one by one, their locations are not known before, and each is resolved when it first comes.

use crate::aggregate::filter::Filter;
use crate::aggregate::key::{Key, Value};
use crate::symbols::code_location::CodeLocation;
use crate::symbols::{Frame, Symbols};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::num::NonZero;
use std::sync::Arc;

/// The numbers of a function's values, in the order of [`Key::OF_CODE`]; 0 for a key that is not needed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct CodeNumbers([u32; Key::OF_CODE.len()]);

#[derive(Clone, Copy, Default)]
pub(crate) struct Resolved {
    /// The numbers of the innermost function's values.
    pub(crate) code: CodeNumbers,
    /// What the innermost function was inlined into: an index in [`ResolvedLocations::outer`].
    outer: Option<NonZero<u32>>,
    /// Whether the filter accepts it.
    pub(crate) passes: bool,
}

/// A function in a stack.
#[derive(Clone, Copy)]
pub(crate) struct StackFunction {
    pub(crate) code: CodeNumbers,
    pub(crate) is_inlined: bool,
}

/// The code at a location, and the index of its module in the recording.
pub(crate) type Code = (Arc<Frame>, Option<usize>);

impl CodeNumbers {
    /// The number of a key's value.
    pub(crate) fn number(self, key: Key) -> u32 {
        let mut values = Key::OF_CODE.into_iter().zip(self.0);
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
    /// The functions around inlined ones, innermost first, each chain once; the first is empty.
    outer: IndexSet<Vec<CodeNumbers>, FxBuildHasher>,
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
        let needs_inlined = keys.contains(&Key::Inline) || keys.contains(&Key::Caller);
        let needs = |key| keys.contains(&key) || key == Key::Inline && needs_inlined;
        let mut values: IndexSet<Value, FxBuildHasher> = IndexSet::default();
        let mut outer: IndexSet<Vec<CodeNumbers>, FxBuildHasher> = IndexSet::default();
        outer.insert(Vec::new());
        // All addresses of an inlined call share these texts, so their pointers identify the chain.
        let mut chains: FxHashMap<[usize; 3], u32> = FxHashMap::default();
        let resolve = |&location: &CodeLocation| {
            let (process, ip, mode) = (location.process, location.ip, location.mode());
            let frame = if needs_symbols {
                symbols.resolve(process, ip, mode)
            } else {
                symbols.module_alone(process, ip, mode)
            };
            let mut numbers = |function| {
                CodeNumbers(Key::OF_CODE.map(|key| match key.of_code(ip, &frame, function) {
                    Some(value) if needs(key) => values.insert_full(value).0 as u32,
                    _ => 0,
                }))
            };
            let code = numbers(frame.innermost());
            let chain = if needs_inlined && !frame.inlined.is_empty() {
                let chain = chains.entry(chain_key(&frame));
                // Functions of a shared chain get the address of its first location. That is harmless:
                // rows by address have no callers.
                let mut all = || frame.functions().skip(1).map(&mut numbers).collect();
                *chain.or_insert_with(|| outer.insert_full(all()).0 as u32)
            } else {
                0
            };
            let passes = filter.passes_code(ip, &frame, symbols.paths(&frame.module));
            (location, Resolved { code, outer: NonZero::new(chain), passes })
        };
        Self { resolved: locations.iter().map(resolve).collect(), values, outer }
    }

    /// Whether any function was inlined. Always false if no key needed inlined functions.
    pub(crate) fn has_inlined(&self) -> bool {
        self.outer.len() > 1
    }

    /// The functions at a location, the innermost first; without `with_inlined` the innermost alone.
    pub(crate) fn functions(
        &self,
        resolved: Resolved,
        with_inlined: bool,
    ) -> impl DoubleEndedIterator<Item = StackFunction> {
        let outer = resolved.outer.and_then(|outer| self.outer.get_index(outer.get() as usize));
        let first = StackFunction { code: resolved.code, is_inlined: outer.is_some() };
        let outer = outer.filter(|_| with_inlined).map_or(&[][..], Vec::as_slice);
        let last = outer.len().wrapping_sub(1);
        let outer = outer.iter().enumerate();
        let outer = outer.map(move |(at, &code)| StackFunction { code, is_inlined: at != last });
        std::iter::once(first).chain(outer)
    }

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

    /// The number of a function that called; 0 if none is known.
    pub(crate) fn caller_number(caller: Option<StackFunction>) -> u32 {
        caller.map_or(0, |StackFunction { code, is_inlined }| {
            2 * (code.number(Key::Inline) + 1) + u32::from(is_inlined)
        })
    }

    /// The value of a key with this number.
    pub(crate) fn value(&self, key: Key, number: u32) -> Option<Value> {
        if key != Key::Caller {
            return self.values.get_index(number as usize).cloned();
        }
        let caller = (number / 2).checked_sub(1);
        let caller = caller.and_then(|number| self.values.get_index(number as usize));
        Some(match caller.cloned() {
            Some(Value::Inline { module, function }) => Value::Caller {
                module: Some(module),
                symbol: function,
                is_inlined: !number.is_multiple_of(2),
            },
            _ => Value::Caller { module: None, symbol: None, is_inlined: false },
        })
    }
}

/// The key by which chains of functions around inlined ones are told apart.
fn chain_key(frame: &Frame) -> [usize; 3] {
    let place = |text: &Arc<str>| Arc::as_ptr(text).cast::<u8>().addr();
    let symbol = frame.symbol.as_ref().map_or(0, place);
    [Arc::as_ptr(&frame.inlined).cast::<u8>().addr(), place(&frame.module), symbol]
}
