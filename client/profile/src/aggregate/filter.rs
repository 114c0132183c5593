//! Which samples count.

use crate::symbols::Frame;
use halprof_measure::selection::parse_hexadecimal;
use halprof_measure::{Error, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// The conditions for a sample to count; an empty one accepts all samples.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub sources: Vec<Pattern>,
    /// Processes, by identifier or name.
    pub processes: Vec<Pattern>,
    pub modules: Vec<Pattern>,
    pub symbols: Vec<Pattern>,
    pub addresses: Vec<Range<u64>>,
    /// Indexes of processors.
    pub processors: Option<BTreeSet<u32>>,
    /// Nanoseconds since the first sample: from, inclusive, and to, exclusive.
    pub time: Option<(u64, u64)>,
}

impl Filter {
    /// Whether it accepts all samples.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { sources, processes, modules, symbols, addresses, processors, time } = self;
        let patterns = [sources, processes, modules, symbols];
        patterns.iter().all(|patterns| patterns.is_empty())
            && addresses.is_empty()
            && processors.is_none()
            && time.is_none()
    }

    /// Whether it depends on the code at the address of a sample.
    pub(crate) const fn needs_code(&self) -> bool {
        !self.modules.is_empty() || !self.symbols.is_empty() || !self.addresses.is_empty()
    }

    /// Whether samples in a module can count.
    pub(crate) fn passes_module(&self, module: &str) -> bool {
        let modules = &self.modules;
        modules.is_empty() || modules.iter().any(|pattern| pattern.matches(module))
    }

    /// Whether samples at an address, whose code is in a frame, can count.
    pub(crate) fn passes_code(&self, address: u64, frame: &Frame) -> bool {
        let name = frame.symbol.as_deref();
        let meant = |pattern: &Pattern| name.is_some_and(|name| pattern.matches_symbol(name));
        let addresses = &self.addresses;
        (addresses.is_empty() || addresses.iter().any(|range| range.contains(&address)))
            && self.passes_module(&frame.module)
            && (self.symbols.is_empty() || self.symbols.iter().any(meant))
    }
}

/// A name to look for, in which `*` stands for any text. Case is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// A pattern as the user typed it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_lowercase())
    }

    /// Whether it matches a name.
    pub fn matches(&self, name: &str) -> bool {
        glob(&self.0, &name.to_lowercase())
    }

    /// Whether it matches a function: by its whole name, without its parameters, or without the
    /// namespaces and types that it is in.
    pub fn matches_symbol(&self, name: &str) -> bool {
        let bare = without_parameters(name);
        let last = bare.rsplit("::").next().unwrap_or(bare);
        [name, bare, last].iter().any(|name| self.matches(name))
    }
}

/// `Machine::work(int)` becomes `Machine::work`; `operator()` is unchanged.
fn without_parameters(name: &str) -> &str {
    match name.find('(') {
        Some(at) if at > 0 && !name[..at].ends_with("operator") => &name[..at],
        _ => name,
    }
}

/// Greedy matching from star to star, which looks at each byte of the name a bounded number of
/// times.
fn glob(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
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

/// Parses `FROM-TO` in seconds; either may be absent.
pub fn time(text: &str) -> Result<(u64, u64)> {
    let wrong = || {
        Error::usage(
            format!("`{text}` is not a time range"),
            "Give seconds since the first sample, FROM-TO with FROM before TO, as in `0.5-1.25`, `2-` or `-0.1`.",
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

/// Parses decimal seconds exactly, without a float, so that printed times can be typed back.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 || text == "." {
        return None;
    }
    let number = |text: &str| {
        if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() }
    };
    let fraction = number(&format!("{fraction:0<9}"))?;
    number(whole)?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_stars() {
        for (pattern, name, matches) in [
            ("main", "main", true),
            ("MAIN", "main", true),
            ("main", "mainly", false),
            ("nt*", "ntoskrnl.exe", true),
            ("*.exe", "ntoskrnl.exe", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            // Each part is looked for behind the one before.
            ("*ab*ab*", "ab", false),
            ("*ab*ab*", "xabxab", true),
            ("*a", "a", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("", "", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn a_function_by_its_name_alone() {
        let work = Pattern::new("work");
        assert!(work.matches_symbol("work"));
        assert!(work.matches_symbol("Machine::work(int)"));
        assert!(!work.matches_symbol("Machine::worker(int)"));
        assert!(Pattern::new("Machine::*").matches_symbol("Machine::work(int)"));
        assert!(Pattern::new("A::operator()").matches_symbol("A::operator()"));
        assert!(!Pattern::new("").matches_symbol("(x)"));
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
