//! Functions from the symbols of a file, and where each of them ends.

use super::bytes::Bytes;
use super::demangle::Demangler;
use super::name::NameWriter;
use super::sections::Sections;
use super::unwind::Unwinding;
use crate::budget::NAME;
use self_cell::self_cell;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

/// The most other names of a function that are known: linkers fold thousands of trivial functions, and a
/// file may give as many names as it likes, each as long as one may be, to one address.
pub(super) const ALSO_MAX: usize = 64;

/// A function by its addresses relative to the start of its module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, demangled. Where no symbol names its code, the module's name and the offset of its
    /// start: `a.dll+0x1030`.
    pub name: String,
    /// Other names of the same code: aliases, and functions that the linker folded into it.
    pub also: Arc<[Arc<str>]>,
    /// Its first address.
    pub start: u64,
    /// The first address after it: by its symbol's size, else by the unwinding information, else
    /// where the next symbol or its section lets it end.
    pub end: u64,
}

impl Function {
    /// Shows the function under `name`, if that is one of its other names.
    pub(super) fn called(mut self, name: &str) -> Self {
        if let Some(at) = self.also.iter().position(|also| **also == *name) {
            let mut also = self.also.to_vec();
            also[at] = std::mem::replace(&mut self.name, name.to_owned()).into();
            self.also = also.into();
        }
        self
    }

    /// All its names, the one that is shown first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.also.iter().map(AsRef::as_ref))
    }
}

/// What a symbol's table says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SymbolKind {
    Function,
    /// Other files know it, and it is in code.
    Global,
    /// It is in code.
    Local,
    /// It is a label, unless unwinding information begins there.
    Label,
}

/// A symbol of code.
#[derive(Debug)]
pub(super) struct Symbol<'a> {
    /// As its table has it. Of a name that is longer than any, its start.
    pub(super) name: &'a [u8],
    pub(super) start: u64,
    /// The first address after it, if the symbol has a size.
    pub(super) end: Option<u64>,
    pub(super) kind: SymbolKind,
}

/// The symbols that a file lists.
#[derive(Debug, Default)]
pub(super) struct SymbolTable<'a> {
    pub(super) all: Vec<Symbol<'a>>,
    /// Once each of `all` has a start of its own: the others at these starts, in their order.
    pub(super) others: Vec<Symbol<'a>>,
    /// Whether they are only those that it exports.
    pub(super) only_exports: bool,
}

self_cell!(
    /// The symbols of a file, with the bytes that have their names.
    pub(super) struct Symbols {
        owner: Bytes,
        #[covariant]
        dependent: SymbolTable,
    }
    impl { Debug }
);

/// Functions in order of their starts, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Functions {
    symbols: Option<Symbols>,
    /// Where each address's function is: a symbol may lie within another.
    segments: Vec<Segment>,
    demangler: Demangler,
    /// The names of those that were looked up, one for each symbol of the table: a report looks a function
    /// up for each of its addresses.
    names: Box<[OnceCell<Names>]>,
}

/// The name of a function, and the others at its address.
type Names = (Arc<str>, Arc<[Arc<str>]>);

/// A stretch of code of one function.
#[derive(Debug)]
struct Segment {
    range: Range<u64>,
    /// Its index in the functions.
    function: usize,
}

impl Functions {
    /// Sorts symbols, keeps one for each start, and decides where each ends. The order of evidence is
    /// the symbol's size, the unwinding information, the next symbol; none reaches beyond its section
    /// in `code`. A symbol without a size within one that has a size is a label, no function.
    pub(super) fn new(mut symbols: Symbols, code: &Sections, unwinding: &Unwinding) -> Self {
        let segments = symbols.with_dependent_mut(|_, table| {
            table.others = one_for_each_start(&mut table.all, unwinding);
            find_ends(&mut table.all, code, unwinding);
            segments(&table.all)
        });
        let demangler = Demangler::of(symbols.borrow_owner().length());
        let names = symbols.borrow_dependent().all.iter().map(|_| OnceCell::new()).collect();
        Self { symbols: Some(symbols), segments, demangler, names }
    }

    fn table(&self) -> Option<&SymbolTable<'_>> {
        self.symbols.as_ref().map(Symbols::borrow_dependent)
    }

    /// Whether it holds only exported functions.
    pub(super) fn only_exports(&self) -> bool {
        self.table().is_some_and(|table| table.only_exports)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table().is_none_or(|table| table.all.is_empty())
    }

    /// The function that has an address in its own bounds.
    pub(super) fn containing(&self, address: u64) -> Option<Function> {
        let next = self.segments.partition_point(|segment| segment.range.start <= address);
        let segment = self.segments.get(next.checked_sub(1)?)?;
        segment.range.contains(&address).then(|| self.function(segment.function))?
    }

    pub(super) fn all(&self) -> Vec<Function> {
        let count = self.table().map_or(0, |table| table.all.len());
        (0..count).filter_map(|index| self.function(index)).collect()
    }

    fn function(&self, index: usize) -> Option<Function> {
        let table = self.table()?;
        let &Symbol { name, start, end, .. } = table.all.get(index)?;
        let shown = |name: &[u8]| {
            if name.len() < NAME {
                self.demangler.shown(&String::from_utf8_lossy(name))
            } else {
                // What it goes on with is not known, so it is told apart by where it is.
                let mut writer = NameWriter::new();
                let cut = writer.write_str(&String::from_utf8_lossy(name));
                cut.err().unwrap_or_else(|| writer.cut());
                writer.shown(&start.to_le_bytes())
            }
        };
        let all = || {
            let first = table.others.partition_point(|other| other.start < start);
            let others = table.others.get(first..).unwrap_or_default();
            let others = others.iter().take_while(|other| other.start == start).take(ALSO_MAX);
            let own = shown(name);
            let mut also: Vec<Arc<str>> = others.map(|other| shown(other.name)).collect();
            also.sort_unstable();
            also.dedup();
            also.retain(|other| *other != own);
            (own, also.into())
        };
        let (name, also) = self.names.get(index)?.get_or_init(all).clone();
        Some(Function { name: name.to_string(), also, start, end: end.unwrap_or(start) })
    }

    /// What was left out of the names, if anything was.
    pub(super) fn note(&self) -> Option<String> {
        self.demangler.note()
    }
}

/// What of a name is compared: a table may give the same long name to each of its symbols.
fn compared(name: &[u8]) -> &[u8] {
    name.get(..256).unwrap_or(name)
}

/// Keeps one symbol for each start, and returns the others. Of several names for one address, the order
/// is: a function's, with a size, shortest, alphabetical, all as the table has them. Others of a lesser
/// kind are marks of the linker, no names of the function.
fn one_for_each_start<'a>(symbols: &mut Vec<Symbol<'a>>, unwinding: &Unwinding) -> Vec<Symbol<'a>> {
    symbols.retain(|s| s.kind != SymbolKind::Label || unwinding.begins_at(s.start));
    symbols.sort_by(|a, b| {
        let key = |s: &Symbol<'_>| (s.start, s.kind, s.end.is_none(), s.name.len());
        key(a).cmp(&key(b)).then_with(|| {
            if std::ptr::eq(a.name, b.name) {
                Ordering::Equal
            } else {
                compared(a.name).cmp(compared(b.name))
            }
        })
    });
    let (mut kept, mut others): (Vec<Symbol<'a>>, Vec<Symbol<'a>>) = (Vec::new(), Vec::new());
    for symbol in symbols.drain(..) {
        match kept.last().filter(|last| last.start == symbol.start) {
            Some(last) if last.kind == symbol.kind => others.push(symbol),
            Some(_) => {}
            None => kept.push(symbol),
        }
    }
    *symbols = kept;
    let mut reach = 0;
    symbols.retain(|symbol| {
        let is_label = symbol.end.is_none() && symbol.start < reach;
        reach = reach.max(symbol.end.unwrap_or_default());
        !is_label
    });
    others
}

/// Gives each symbol an end.
fn find_ends(symbols: &mut [Symbol<'_>], code: &Sections, unwinding: &Unwinding) {
    let mut next = None;
    for symbol in symbols.iter_mut().rev() {
        let start = symbol.start;
        let last = code.at(start).map_or(start, |section| section.range.end);
        let end = symbol.end.unwrap_or_else(|| {
            let entry = match unwinding.part(start) {
                Some(part) => Some(part.range.end),
                None => unwinding.next_start(start),
            };
            let ends = [entry, next];
            ends.into_iter().flatten().min().unwrap_or(last)
        });
        symbol.end = Some(end.min(last));
        next = Some(start);
    }
}

/// Which function each stretch of code is of: of functions that overlap, the last that began.
fn segments(all: &[Symbol<'_>]) -> Vec<Segment> {
    let mut segments = Vec::with_capacity(all.len());
    let mut open: Vec<usize> = Vec::new();
    let mut from = 0;
    // Code up to `to` is of the functions that are open.
    let mut close = |open: &mut Vec<usize>, to: u64| {
        while let Some(&function) = open.last() {
            let end = all.get(function).and_then(|function| function.end).unwrap_or(from);
            let range = from..end.min(to);
            from = from.max(range.end);
            if !range.is_empty() {
                segments.push(Segment { range, function });
            }
            if end > to {
                break;
            }
            open.pop();
        }
        from = from.max(to);
    };
    for (index, function) in all.iter().enumerate() {
        close(&mut open, function.start);
        open.push(index);
    }
    close(&mut open, u64::MAX);
    segments
}

#[cfg(test)]
mod tests {
    use super::super::sections::Section;
    use super::super::unwind::Part;
    use super::*;

    fn symbol(name: &'static str, start: u64, end: u64) -> Symbol<'static> {
        let end = (end > start).then_some(end);
        Symbol { name: name.as_bytes(), start, end, kind: SymbolKind::Function }
    }

    fn function(name: &str, start: u64, end: u64) -> Function {
        Function { name: name.to_owned(), also: Arc::default(), start, end }
    }

    fn functions(all: Vec<Symbol<'static>>, code: Range<u64>, unwinding: &Unwinding) -> Functions {
        let this = std::env::current_exe().expect("this test");
        let bytes = Bytes::open(&this).expect("a file");
        let symbols = Symbols::new(bytes, |_| SymbolTable { all, ..SymbolTable::default() });
        let bytes = (0, code.end - code.start);
        let code = Sections::new([Section { range: code, bytes }], 0);
        Functions::new(symbols, &code, unwinding)
    }

    fn without_unwinding(all: Vec<Symbol<'static>>, code: Range<u64>) -> Functions {
        functions(all, code, &Unwinding::default())
    }

    fn name(functions: &Functions, address: u64) -> Option<String> {
        functions.containing(address).map(|f| f.name)
    }

    #[test]
    fn an_unknown_end_is_the_next_start_or_that_of_the_section() {
        let all = vec![
            symbol("c", 0x30, 0x30),
            symbol("alias", 0x10, 0x10),
            symbol("a", 0x10, 0x18),
            symbol("b", 0x20, 0x20),
            Symbol { kind: SymbolKind::Global, ..symbol("0", 0x20, 0x28) },
            Symbol { kind: SymbolKind::Label, ..symbol("label", 0x28, 0x28) },
        ];
        let functions = without_unwinding(all, 0x10..0x40);
        let a = Function { also: [Arc::from("alias")].into(), ..function("a", 0x10, 0x18) };
        let expected = [a.clone(), function("b", 0x20, 0x30), function("c", 0x30, 0x40)];
        let alias = a.clone().called("alias");
        assert_eq!((alias.name.as_str(), &*alias.also), ("alias", &[Arc::from("a")][..]));
        assert_eq!(a.clone().called("b"), a);
        assert_eq!(functions.all(), expected);
        for (address, expected) in
            [(0x0F, None), (0x17, Some("a")), (0x18, None), (0x3F, Some("c")), (0x40, None)]
        {
            assert_eq!(name(&functions, address).as_deref(), expected, "{address:x}");
        }
    }

    #[test]
    fn a_label_does_not_cut_a_function_and_an_inner_function_does() {
        let all = vec![
            symbol("outer", 0x10, 0x40),
            symbol("outer.again", 0x18, 0x18),
            symbol("inner", 0x20, 0x28),
            symbol("innermost", 0x22, 0x24),
            symbol("across", 0x3C, 0x44),
            symbol("long", 0x50, 0x1000),
        ];
        let functions = without_unwinding(all, 0x10..0x60);
        for (address, expected) in [
            (0x10, Some("outer")),
            (0x18, Some("outer")),
            (0x21, Some("inner")),
            (0x22, Some("innermost")),
            (0x24, Some("inner")),
            (0x28, Some("outer")),
            (0x3C, Some("across")),
            (0x43, Some("across")),
            (0x44, None),
            (0x5F, Some("long")),
            (0x60, None),
        ] {
            assert_eq!(name(&functions, address).as_deref(), expected, "{address:x}");
        }
    }

    #[test]
    fn a_name_ends_where_its_unwinding_entry_does() {
        let parts = [(0x10, 0x18), (0x20, 0x30), (0x38, 0x40)];
        let parts = parts.map(|(start, end)| Part { range: start..end, function: start }).to_vec();
        let unwinding = Unwinding::new(parts);
        let label = |name, start| Symbol { kind: SymbolKind::Label, ..symbol(name, start, 0) };
        let all = vec![
            symbol("a", 0x10, 0),
            symbol("leaf", 0x18, 0),
            label("again", 0x22),
            label("static", 0x38),
            symbol("c", 0x3C, 0),
        ];
        let functions = functions(all, 0x10..0x50, &unwinding);
        for (address, expected) in [
            (0x17, Some("a")),
            (0x1F, Some("leaf")),
            (0x20, None),
            (0x30, None),
            (0x38, Some("static")),
            (0x3F, Some("c")),
            (0x40, None),
        ] {
            assert_eq!(name(&functions, address).as_deref(), expected, "{address:x}");
        }
    }
}
