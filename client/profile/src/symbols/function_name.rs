//! Takes the name of a function apart, as the demanglers of C++ and Rust and the runtimes of .NET and
//! JavaScript print it: a return type, the namespaces and types that it is in, its own name, template
//! arguments, and arguments.
//!
//! A user who types a name leaves some of these parts out, and so does a table that has no room for
//! them. Both use this module, so that a name can be typed as a table shows it.

use std::borrow::Cow;
use std::ops::Range;

/// Compilers append these words to a function's name after a `.`. They name a part or a copy of that
/// function, not a member of a class.
const PARTS_OF_FUNCTIONS: [&str; 22] = [
    // GCC: gcc/cgraphclones.cc, ipa-*.cc, omp-*.cc, coroutines.cc and multiple_target.cc.
    "cold",
    "part",
    "constprop",
    "isra",
    "lto_priv",
    "localalias",
    "clone",
    "simdclone",
    "_omp_fn",
    "actor",
    "destroy",
    "default",
    "resolver",
    "ifunc",
    // LLVM: HotColdSplitting, ThinLTO's promotion, CoroSplit, Attributor, CFI and unique names.
    "llvm",
    "resume",
    "cleanup",
    "internalized",
    "specialized",
    "cfi",
    "cfi_jt",
    "__uniq",
];

/// A group in `<>` after `::` that begins with one of these is a name. Any other such group has the
/// arguments of a template, as Rust writes them.
const NAMES_IN_ANGLES: [&str; 3] = ["impl ", "lambda", "unnamed"];

/// Text that ends with one of these before a name is not its return type.
const WORDS_BEFORE: [&str; 2] = [" to", " for"];

/// The parts of a function's name.
#[derive(Debug, Default)]
pub(crate) struct FunctionName<'a> {
    whole: &'a str,
    /// The name with the namespaces and types that it is in, without return type and arguments.
    qualified: Range<usize>,
    /// The starts of the parts of `qualified`, without the first one.
    inner: Vec<usize>,
    /// Template arguments in `qualified`.
    templates: Vec<Range<usize>>,
}

impl<'a> FunctionName<'a> {
    /// Takes a name apart. A name of an unknown form has no parts.
    pub(crate) fn of(whole: &'a str) -> Self {
        let mut scan = Scan { whole, ..Scan::default() };
        scan.run();
        scan.finish()
    }

    /// The name without its arguments and its return type.
    pub(crate) fn without_arguments(&self) -> &'a str {
        &self.whole[self.qualified.clone()]
    }

    /// The name without its arguments, its return type and the arguments of templates.
    pub(crate) fn without_templates(&self) -> Cow<'a, str> {
        self.plain_from(self.qualified.start)
    }

    /// The ends of the name after each `::` and each `.` of a class: whole, without arguments, and also
    /// without the arguments of templates.
    pub(crate) fn suffixes(&self) -> impl Iterator<Item = Cow<'a, str>> + '_ {
        self.inner.iter().flat_map(|&start| {
            [
                Cow::Borrowed(&self.whole[start..]),
                Cow::Borrowed(&self.whole[start..self.qualified.end]),
                self.plain_from(start),
            ]
        })
    }

    fn plain_from(&self, start: usize) -> Cow<'a, str> {
        let Range { end, .. } = self.qualified;
        if !self.templates.iter().any(|template| template.start > start) {
            return self.whole[start..end].into();
        }
        let (mut plain, mut from) = (String::new(), start);
        for template in self.templates.iter().filter(|template| template.start > start) {
            plain += &self.whole[from..template.start];
            from = template.end;
        }
        plain += &self.whole[from..end];
        plain.trim_end().to_owned().into()
    }

    /// Ever shorter forms of the name. First the arguments go, then those of templates, then the
    /// namespaces and types that it is in, the outermost first. Each form has the function's own name.
    pub(crate) fn shorter(&self) -> impl Iterator<Item = Cow<'a, str>> + '_ {
        let plain = std::iter::once(self.qualified.start).chain(self.inner.iter().copied());
        std::iter::once(self.without_arguments().into())
            .chain(plain.map(|start| self.plain_from(start)))
    }
}

/// The longest form of a function's name that `fits`: `FunctionName::shorter` says what goes first. If
/// no form fits together with the module, `a.dll!step`, the module goes and the namespaces return as far
/// as they fit. If even the function's own name does not fit, that is returned.
pub fn shortened<'a>(
    module: Option<&str>,
    symbol: &'a str,
    fits: impl Fn(&str) -> bool,
) -> Cow<'a, str> {
    let name = FunctionName::of(symbol);
    let own = || name.shorter();
    if let Some(module) = module {
        let all = std::iter::once(symbol.into()).chain(own());
        let mut with_module = all.map(|form: Cow<'_, str>| format!("{module}!{form}"));
        if let Some(form) = with_module.find(|form| fits(form)) {
            return form.into();
        }
    } else if fits(symbol) {
        return symbol.into();
    }
    let mut last = Cow::Borrowed(symbol);
    for form in own() {
        if fits(&form) {
            return form;
        }
        last = form;
    }
    last
}

/// A name while it is read.
#[derive(Default)]
struct Scan<'a> {
    whole: &'a str,
    /// Brackets that are open.
    open: Vec<u8>,
    /// Where the outermost of them opened.
    opened: usize,
    /// Where the part of the name begins that is read.
    part: usize,
    parts: Vec<usize>,
    dots: Vec<usize>,
    templates: Vec<Range<usize>>,
    /// The last blank outside of brackets.
    blank: Option<usize>,
    /// Where the arguments begin.
    arguments: Option<usize>,
    /// Whether the rest is the type to which an operator converts.
    converts: bool,
}

impl<'a> Scan<'a> {
    fn run(&mut self) {
        let bytes = self.whole.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let before = at.checked_sub(1).map(|before| bytes[before]);
            if byte == b'o' && !before.is_some_and(is_of_word) {
                let length = self.operator(at);
                if length != 0 {
                    at += length;
                    continue;
                }
            }
            match byte {
                b'<' | b'(' | b'[' | b'{' => self.open(byte, at),
                // .NET writes this mark before the number of type arguments; it is no quote there.
                b'`' if !before.is_some_and(is_of_word) => self.open(byte, at),
                // `->` and `=>` close nothing.
                b'>' if matches!(before, Some(b'-' | b'=')) => {}
                b'>' | b')' | b']' | b'}' | b'\'' if self.close(byte, at) => return,
                b':' if bytes.get(at + 1) == Some(&b':') && self.is_outside() => {
                    at += 1;
                    self.part = at + 1;
                    self.parts.push(at + 1);
                }
                b'.' if self.is_outside() => {
                    self.part = at + 1;
                    self.dots.push(at + 1);
                }
                b' ' if self.is_outside() => {
                    self.part = at + 1;
                    self.blank = Some(at);
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn is_outside(&self) -> bool {
        self.open.is_empty() && !self.converts
    }

    /// The length of the word `operator` with the operator that follows; 0 if that is not there.
    fn operator(&mut self, at: usize) -> usize {
        const WORD: &str = "operator";
        let Some(rest) = self.whole[at..].strip_prefix(WORD) else { return 0 };
        let bytes = rest.as_bytes();
        match bytes.first() {
            Some(b'(') if bytes.starts_with(b"()") => WORD.len() + 2,
            Some(b'[') if bytes.starts_with(b"[]") => WORD.len() + 2,
            Some(b' ') => {
                // `operator new[]`, `operator co_await`, and types.
                self.converts |= self.open.is_empty();
                WORD.len() + 1
            }
            Some(b'<' | b'>' | b'-' | b'=') => {
                let sign = |byte: &&u8| b"<>=-*".contains(byte);
                let signs = bytes.iter().take_while(sign).count();
                let next = bytes.get(signs..).unwrap_or_default();
                // The last bracket of `operator<<int>` begins the arguments of the template. A blank may
                // be before them.
                let is_template = signs > 1 && bytes[..signs].ends_with(b"<");
                let is_template = is_template && !matches!(next, [] | [b'(' | b' ', ..]);
                let blank = next.starts_with(b" <");
                WORD.len() + signs - usize::from(is_template) + usize::from(blank)
            }
            _ => 0,
        }
    }

    fn open(&mut self, byte: u8, at: usize) {
        if self.open.is_empty() {
            self.opened = at;
        }
        self.open.push(byte);
    }

    /// Closes a bracket; whether the rest of the name is arguments.
    fn close(&mut self, byte: u8, at: usize) -> bool {
        let opening = match byte {
            b'>' => b'<',
            b')' => b'(',
            b']' => b'[',
            b'}' => b'{',
            _ => b'`',
        };
        // A `<` that nothing closes was an operator.
        while byte != b'>' && byte != b'\'' && self.open.last() == Some(&b'<') {
            self.open.pop();
        }
        if self.open.last() != Some(&opening) {
            return false;
        }
        self.open.pop();
        if !self.open.is_empty() {
            return false;
        }
        let (from, next) = (self.opened, &self.whole[at + 1..]);
        let begins_part = from == self.part;
        match opening {
            b'(' if !begins_part && !next.starts_with("::") => {
                self.arguments = Some(from);
                return true;
            }
            b'<' if !begins_part => self.templates.push(from..at + 1),
            b'<' => {
                let inside = &self.whole[from + 1..at];
                let is_name = NAMES_IN_ANGLES.iter().any(|name| inside.starts_with(name));
                if !is_name && self.parts.last() == Some(&from) {
                    self.parts.pop();
                    self.templates.push(from - 2..at + 1);
                }
            }
            _ => {}
        }
        false
    }

    fn finish(self) -> FunctionName<'a> {
        let Self { whole, parts, dots, templates, blank, arguments, .. } = self;
        let end = arguments.unwrap_or(whole.len());
        let is_type = |at: &usize| !WORDS_BEFORE.iter().any(|word| whole[..*at].ends_with(word));
        let blank = blank.filter(|at| arguments.is_some() && is_type(at));
        let start = blank.map_or(0, |at| at + 1);
        // Managed code has arguments and no `::`.
        let is_managed = arguments.is_some() && parts.is_empty();
        let mut inner = parts;
        inner.extend(dots.into_iter().filter(|&dot| is_managed || is_member(&whole[dot..end])));
        inner.retain(|part| (start + 1..end).contains(part));
        inner.sort_unstable();
        let templates = templates.into_iter().filter(|range| range.start > start);
        FunctionName { whole, qualified: start..end, inner, templates: templates.collect() }
    }
}

const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Whether what follows a `.` is a member of a class: not what a compiler has put there.
fn is_member(rest: &str) -> bool {
    let part = rest.split(['.', ':', '<']).next().unwrap_or_default();
    let begins_with_digit = part.bytes().next().is_some_and(|first| first.is_ascii_digit());
    !begins_with_digit && !part.is_empty() && !PARTS_OF_FUNCTIONS.contains(&part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_names_of_several_languages() {
        for (whole, without_arguments, plain, own) in [
            ("main", "main", "main", "main"),
            ("ns::Solver::step(int)", "ns::Solver::step", "ns::Solver::step", "step"),
            ("void std::sort<int*>(int*, int*)", "std::sort<int*>", "std::sort", "sort"),
            ("unsigned long f<int>()", "f<int>", "f", "f"),
            ("A::operator()(int) const", "A::operator()", "A::operator()", "operator()"),
            ("operator<(A, B)", "operator<", "operator<", "operator<"),
            ("void A::operator<< <int>(int)", "A::operator<< <int>", "A::operator<<", "operator<<"),
            ("bool operator<<int>(int)", "operator<<int>", "operator<", "operator<"),
            ("A::operator->()", "A::operator->", "A::operator->", "operator->"),
            (
                "A::operator unsigned int()",
                "A::operator unsigned int",
                "A::operator unsigned int",
                "operator unsigned int",
            ),
            ("operator new[](unsigned long)", "operator new[]", "operator new[]", "operator new[]"),
            (
                "(anonymous namespace)::f(int)",
                "(anonymous namespace)::f",
                "(anonymous namespace)::f",
                "f",
            ),
            (
                "`anonymous namespace'::f",
                "`anonymous namespace'::f",
                "`anonymous namespace'::f",
                "f",
            ),
            (
                "f(int)::{lambda(int)#1}::operator()(int) const",
                "f(int)::{lambda(int)#1}::operator()",
                "f(int)::{lambda(int)#1}::operator()",
                "operator()",
            ),
            (
                "A::<lambda_1>::operator()",
                "A::<lambda_1>::operator()",
                "A::<lambda_1>::operator()",
                "operator()",
            ),
            (
                "non-virtual thunk to A::f()",
                "non-virtual thunk to A::f",
                "non-virtual thunk to A::f",
                "f",
            ),
            ("V<A<int>, 3>::at<B>(int)", "V<A<int>, 3>::at<B>", "V::at", "at"),
            (
                "core::ptr::drop_in_place::<alloc::vec::Vec<u8>>",
                "core::ptr::drop_in_place::<alloc::vec::Vec<u8>>",
                "core::ptr::drop_in_place",
                "drop_in_place",
            ),
            (
                "<alloc::string::String as core::fmt::Write>::write_str",
                "<alloc::string::String as core::fmt::Write>::write_str",
                "<alloc::string::String as core::fmt::Write>::write_str",
                "write_str",
            ),
            (
                "a::<impl b::C for d::E>::f",
                "a::<impl b::C for d::E>::f",
                "a::<impl b::C for d::E>::f",
                "f",
            ),
            (
                "a::f::<fn(u8) -> u8>::{closure#0}",
                "a::f::<fn(u8) -> u8>::{closure#0}",
                "a::f::{closure#0}",
                "{closure#0}",
            ),
            (
                "System.DateTime.GetDatePart(int32)",
                "System.DateTime.GetDatePart",
                "System.DateTime.GetDatePart",
                "GetDatePart",
            ),
            ("A.List`1.Add(!0)", "A.List`1.Add", "A.List`1.Add", "Add"),
            ("A.B..ctor(int32)", "A.B..ctor", "A.B..ctor", "ctor"),
            ("A.B.<F>d__1.MoveNext()", "A.B.<F>d__1.MoveNext", "A.B.<F>d__1.MoveNext", "MoveNext"),
            ("main.(*T).Method", "main.(*T).Method", "main.(*T).Method", "Method"),
            ("f.cold", "f.cold", "f.cold", "f.cold"),
            ("ns::f.llvm.123", "ns::f.llvm.123", "ns::f.llvm.123", "f.llvm.123"),
            ("A.cold(int32)", "A.cold", "A.cold", "cold"),
            ("", "", "", ""),
        ] {
            let name = FunctionName::of(whole);
            assert_eq!(name.without_arguments(), without_arguments, "{whole}");
            assert_eq!(name.without_templates(), plain, "{whole}");
            let last = name.shorter().last().expect("a form");
            assert_eq!(last, own, "{whole}");
        }
    }

    #[test]
    fn what_is_no_name_has_no_parts_and_costs_little() {
        for whole in ["<", ")", "a<b", "operator", "operator ", "::", ".", "`", "'", "(((", "a::"] {
            let name = FunctionName::of(whole);
            name.suffixes().chain(name.shorter()).for_each(drop);
        }
        let deep = "<".repeat(4096);
        assert_eq!(FunctionName::of(&deep).without_arguments(), deep);
    }

    #[test]
    fn arguments_go_first_and_the_function_stays() {
        let symbol = "world::Solver<double, 3>::step(std::chrono::duration<float>)";
        for (room, shown) in [
            (200, "game.exe!world::Solver<double, 3>::step(std::chrono::duration<float>)"),
            (60, "game.exe!world::Solver<double, 3>::step"),
            (35, "game.exe!world::Solver::step"),
            (27, "game.exe!Solver::step"),
            (20, "game.exe!step"),
            (12, "Solver::step"),
            (11, "step"),
            (2, "step"),
        ] {
            assert_eq!(shortened(Some("game.exe"), symbol, |form| form.len() <= room), shown);
        }
        assert_eq!(shortened(None, symbol, |form| form.len() <= 25), "world::Solver::step");
    }
}
