//! Which samples count.

use crate::symbols::{Frame, FunctionNames, FunctionPattern, Meaning, Pattern, qualified};
use halprof_measure::selection::parse_hexadecimal;
use halprof_measure::{Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The conditions for a sample to count; an empty one accepts all samples.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub sources: Vec<Pattern>,
    /// Processes, by identifier or name.
    pub processes: Vec<Pattern>,
    /// Threads, by identifier or name.
    pub threads: Vec<Pattern>,
    /// Modules, by name, by path or by the end of a path.
    pub modules: Vec<Pattern>,
    /// Functions. [`settle`](Self::settle) decides what each name means.
    pub symbols: Vec<FunctionPattern>,
    pub addresses: Vec<Range<u64>>,
    /// Indexes of processors.
    pub processors: Option<BTreeSet<u32>>,
    /// Nanoseconds since the first sample: from, inclusive, and to, exclusive.
    pub time: Option<(u64, u64)>,
}

impl Filter {
    /// Whether it accepts all samples.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { sources, processes, threads, modules, symbols, addresses, processors, time } =
            self;
        let patterns = [sources, processes, threads, modules];
        patterns.iter().all(|patterns| patterns.is_empty())
            && symbols.is_empty()
            && addresses.is_empty()
            && processors.is_none()
            && time.is_none()
    }

    /// Whether it depends on the code at the address of a sample.
    pub(crate) const fn needs_code(&self) -> bool {
        !self.modules.is_empty() || !self.symbols.is_empty() || !self.addresses.is_empty()
    }

    /// Whether samples in a module, which was loaded from these paths, can count.
    pub(crate) fn passes_module(&self, module: &str, paths: &[Arc<str>]) -> bool {
        let meant = |pattern: &Pattern| pattern.matches_module(module, paths);
        self.modules.is_empty() || self.modules.iter().any(meant)
    }

    /// Whether samples at an address, whose code is in a frame, can count. `paths` is where the frame's
    /// module was loaded from.
    pub(crate) fn passes_code(&self, address: u64, frame: &Frame, paths: &[Arc<str>]) -> bool {
        let names = frame.symbol.iter().chain(&*frame.also);
        let meant = |pattern: &FunctionPattern| {
            let best = pattern.best_meaning(&frame.module, paths, names.clone());
            best.is_some_and(|meaning| meaning <= pattern.worst)
        };
        let addresses = &self.addresses;
        (addresses.is_empty() || addresses.iter().any(|range| range.contains(&address)))
            && self.passes_module(&frame.module, paths)
            && (self.symbols.is_empty() || self.symbols.iter().any(meant))
    }
}

/// What the name of a function means in some recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// The name as the user typed it.
    pub name: String,
    /// The functions, as they are shown.
    pub functions: Vec<String>,
    /// Whether there is only one function, and the user typed its whole name as it is shown.
    pub is_whole: bool,
}

impl Filter {
    /// Decides which of the functions that have samples each name means: those that it means best.
    pub fn settle(&mut self, all: &BTreeSet<FunctionNames>) -> Vec<Meant> {
        let settle = |pattern: &mut FunctionPattern| {
            let meant = pattern.settle(all, |pattern, function| function.meaning(pattern));
            let is_whole = |one: &FunctionNames| {
                pattern.meaning(&one.module, &one.paths, &one.symbol) == Some(Meaning::Whole)
            };
            // Two builds of a module can have different names for the code of one function.
            let functions: BTreeSet<String> =
                meant.iter().map(|one| qualified(&one.module, &one.symbol)).collect();
            let is_whole = functions.len() == 1 && meant.into_iter().all(is_whole);
            let functions = functions.into_iter().collect();
            Meant { name: pattern.to_string(), functions, is_whole }
        };
        self.symbols.iter_mut().map(settle).collect()
    }
}

/// Parses `FROM-TO` or `FROM+LENGTH`, hexadecimal addresses with `0x`; TO is not part of the range, and
/// LENGTH may be decimal. `None` for anything else.
pub fn addresses(text: &str) -> Option<Range<u64>> {
    if let Some((start, end)) = text.split_once('-') {
        return Some(parse_hexadecimal(start)?..parse_hexadecimal(end)?);
    }
    let (start, length) = text.split_once('+')?;
    let length = parse_hexadecimal(length).or_else(|| length.parse().ok())?;
    let start = parse_hexadecimal(start)?;
    Some(start..start.saturating_add(length))
}

/// Parses `FROM-TO`, in seconds or with a unit; either may be absent.
pub fn time(text: &str) -> Result<(u64, u64)> {
    let wrong = || {
        Error::usage(
            format!("`{text}` is not a time range"),
            "Give times since the first sample, FROM-TO with FROM before TO, in seconds or with a unit, as in `0.5-1.25`, `250ms-1s`, `2-` or `-0.1`.",
        )
    };
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let seconds = |text: &str, absent| match text.trim() {
        "" => Some(absent),
        text => nanoseconds(text),
    };
    let from = seconds(from, 0).ok_or_else(wrong)?;
    let to = seconds(to, u64::MAX).ok_or_else(wrong)?;
    (from < to).then_some((from, to)).ok_or_else(wrong)
}

/// Units of time, each with the decimal digits of its nanoseconds; `s` may be left out.
const UNITS: [(&str, usize); 5] = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];

/// Parses a decimal time exactly, without a float, so that printed times can be typed back.
fn nanoseconds(text: &str) -> Option<u64> {
    let mut units =
        UNITS.iter().filter_map(|&(unit, digits)| Some((text.strip_suffix(unit)?, digits)));
    let (text, digits_below) = units.next().unwrap_or((text, 9));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(whole)
        || !digits(fraction)
        || fraction.len() > digits_below
        || matches!(text, "" | ".")
    {
        return None;
    }
    let number = |text: &str| {
        if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() }
    };
    let fraction = number(&format!("{fraction:0<digits_below$}"))?;
    number(whole)?.checked_mul(10_u64.pow(digits_below as u32))?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of folded code competes with the names of all functions, and its code is shown as the
    /// table shows it.
    #[test]
    fn an_alias_means_as_much_as_the_name_that_is_shown() {
        let function = |module: &str, symbol: &str, also: &[&str]| FunctionNames {
            module: module.into(),
            symbol: symbol.into(),
            also: also.iter().map(|&name| name.into()).collect(),
            paths: vec![format!(r"C:\app\{module}").into()],
        };
        let all = [
            function("a.dll", "alpha(int)", &["beta(int)", "gamma"]),
            function("a.dll", "ns::beta(int)", &[]),
            function("b.dll", "gamma", &[]),
        ];
        let frame = |one: &FunctionNames| Frame {
            module: Arc::clone(&one.module),
            symbol: Some(Arc::clone(&one.symbol)),
            also: Arc::clone(&one.also),
            ..Frame::default()
        };
        for (typed, meant, is_whole) in [
            ("beta(int)", &["a.dll!alpha(int)"][..], false),
            ("beta", &["a.dll!alpha(int)"], false),
            ("ns::beta", &["a.dll!ns::beta(int)"], false),
            ("alpha(int)", &["a.dll!alpha(int)"], true),
            ("gamma", &["a.dll!alpha(int)", "b.dll!gamma"], false),
            (r"app\b.dll!gamma", &["b.dll!gamma"], true),
            ("delta", &[], false),
        ] {
            let mut filter =
                Filter { symbols: vec![FunctionPattern::new(typed)], ..Filter::default() };
            let functions: Vec<String> = meant.iter().map(|&name| name.to_owned()).collect();
            let expected = Meant { name: typed.to_owned(), functions, is_whole };
            assert_eq!(filter.settle(&all.iter().cloned().collect()), [expected], "{typed}");
            let passing = all.iter().filter(|one| filter.passes_code(0, &frame(one), &one.paths));
            let passing = passing.map(|one| qualified(&one.module, &one.symbol));
            assert_eq!(passing.collect::<Vec<_>>(), meant, "{typed}");
        }
    }

    #[test]
    fn parts_of_a_recording() {
        for (text, range) in [
            ("0.5-1.25", Some((500_000_000, 1_250_000_000))),
            ("-0.1", Some((0, 100_000_000))),
            ("2-", Some((2_000_000_000, u64::MAX))),
            ("0.000000001-1", Some((1, 1_000_000_000))),
            ("1", None),
            ("2-1", None),
            ("1-1", None),
            ("a-b", None),
            (".-1", None),
            ("1e3-2", None),
            ("+1-2", None),
            ("1.+5-2", None),
            ("1-+2", None),
            ("0-99999999999999999999", None),
        ] {
            assert_eq!(time(text).ok(), range, "{text}");
        }
    }
}
