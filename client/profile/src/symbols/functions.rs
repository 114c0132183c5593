//! Functions from a symbol table.

use std::ops::{Deref, Range};

/// A function by its addresses relative to the start of its module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, demangled.
    pub name: String,
    /// Its first address.
    pub start: u64,
    /// The first address after it; if no table gives it, the start of the next function or the end
    /// of its section.
    pub end: u64,
}

/// Functions in order of their starts, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Functions {
    all: Vec<Function>,
    /// Whether it holds only exported functions.
    pub(super) only_exports: bool,
}

impl Functions {
    /// Sorts functions and keeps one for each start. An end that is not above the start is unknown,
    /// and becomes the next start or the end of the section in `code`, whichever comes first.
    pub(super) fn new(mut all: Vec<Function>, code: &[Range<u64>], only_exports: bool) -> Self {
        // Of several names for one address, the order is: with a known end, shortest, alphabetical.
        all.sort_by(|a, b| {
            let key = |f: &Function| (f.start, f.end <= f.start, f.name.len());
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        all.dedup_by_key(|function| function.start);
        let mut next = None;
        for function in all.iter_mut().rev() {
            if function.end <= function.start {
                let section = code.iter().find(|range| range.contains(&function.start));
                let end = section.map_or(function.start, |range| range.end);
                function.end = next.map_or(end, |next: u64| next.min(end));
            }
            next = Some(function.start);
        }
        Self { all, only_exports }
    }

    pub(super) fn containing(&self, address: u64) -> Option<&Function> {
        let next = self.all.partition_point(|f| f.start <= address);
        let function = self.all.get(next.checked_sub(1)?)?;
        (address < function.end).then_some(function)
    }
}

impl Deref for Functions {
    type Target = [Function];

    fn deref(&self) -> &[Function] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, start: u64, end: u64) -> Function {
        Function { name: name.to_owned(), start, end }
    }

    #[test]
    fn an_unknown_end_is_the_next_start_or_that_of_the_section() {
        let all = vec![
            function("c", 0x30, 0x30),
            function("alias", 0x10, 0x10),
            function("a", 0x10, 0x18),
            function("b", 0x20, 0x20),
        ];
        let functions = Functions::new(all, std::slice::from_ref(&(0x10..0x40)), false);
        let expected =
            [function("a", 0x10, 0x18), function("b", 0x20, 0x30), function("c", 0x30, 0x40)];
        assert_eq!(*functions, expected);
        let name = |address| functions.containing(address).map(|f| f.name.as_str());
        assert_eq!(name(0x0F), None);
        assert_eq!(name(0x17), Some("a"));
        assert_eq!(name(0x18), None, "behind its end is another's code");
        assert_eq!(name(0x3F), Some("c"));
        assert_eq!(name(0x40), None);
    }
}
