//! Parses what a user names: lists of sources, and lists of processors.
//!
//! A list of sources is comma-separated. Each item is a name, `Profile` and a name, an id, `rHEX`,
//! or Linux perf's `cpu/…/`, with an optional filter after a colon. `{A,B}` runs together or not at
//! all, and `{A,B}:u` is `{A:u,B:u}`. `all` is every source that the machine supports.

mod perf;

use crate::error::{Error, Remedy, Result};
use shared_types::ProfileSource;
use shared_types::request::session::{MAX_PROCESSORS, Spec};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// How the symbols of KPROFILE_SOURCE begin.
pub(crate) const PROFILE: &str = "Profile";

const LIST_HINT: &str =
    "A list is like `TotalIssues,0x1B:u,{cycles,cache-misses:k},r01C2,cpu/event=0xc2,umask=1/`.";

/// How an item refers to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRef {
    /// By name or number, as the user wrote it.
    Named(String),
    /// A raw select, in the layout of the family's register.
    Raw(u64),
    /// A vendor's event with some fields replaced.
    Changed {
        /// Its name.
        name: String,
        /// The bits of the select that the fields cover.
        changed: u64,
        /// The values of the fields, in place.
        select: u64,
    },
}

/// One source as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which source.
    pub event: EventRef,
    /// The text that names it, without filter and period.
    pub text: String,
    /// The whole text.
    pub requested: String,
    /// The filter, as [`Spec::USER`] and [`Spec::KERNEL`], if one was given.
    pub filter: Option<u16>,
    /// Events between samples, if given.
    pub period: Option<u64>,
    /// 0, or the number of the group it runs in.
    pub group: u16,
    /// The type of core that counts it, as in leaf 0x1A; `None` for all.
    pub core: Option<u8>,
}

/// An event to count or to sample, as this machine does it.
#[derive(Clone, Debug)]
pub struct EventSpec {
    /// Its name, with its filter if one was given.
    pub label: String,
    /// As the user named it, with filter and period; `None` where no user did.
    pub requested: Option<String>,
    /// Its specifications on the wire, at least one. CPU types that count it in different ways have
    /// one each, which differ in nothing else.
    pub specs: Vec<Spec>,
}

impl EventSpec {
    /// What all its specifications have in common: filter, group, interval and flags.
    pub fn common(&self) -> Spec {
        self.specs.first().copied().unwrap_or_default()
    }

    /// Whether it is time, which takes no counter where it is counted.
    pub fn is_time(&self) -> bool {
        self.common().source == ProfileSource::TIME.0
    }

    /// Whether the other is the same event for other CPU types.
    pub(crate) fn is_complemented_by(&self, other: &Self) -> bool {
        let (spec, other_spec) = (self.common(), other.common());
        self.label == other.label
            && spec.group == other_spec.group
            && spec.filter == other_spec.filter
            && spec.interval == other_spec.interval
            && spec.flags == other_spec.flags
            && self.cpu_types() & other.cpu_types() == 0
    }

    /// The CPU types that its specifications are for, as a mask.
    fn cpu_types(&self) -> u16 {
        let masks = self
            .specs
            .iter()
            .map(|spec| if spec.cpu_types == 0 { u16::MAX } else { spec.cpu_types });
        masks.fold(0, |all, mask| all | mask)
    }

    /// The same for these CPU types, a mask, where any of them counts it. An event that none of
    /// them counts keeps all, and the refusal says where it can be counted.
    pub fn on_cpu_types(mut self, cpu_types: u16) -> Self {
        let counts = |spec: &Spec| spec.cpu_types == 0 || spec.cpu_types & cpu_types != 0;
        if self.specs.iter().any(counts) {
            self.specs.retain(counts);
        }
        self
    }
}

/// Parses a list of sources; groups are numbered after the highest in `items`.
pub fn parse_list(list: &str, items: &mut Vec<Item>) -> Result<()> {
    let mut group = None;
    let mut last_group = items.iter().map(|item| item.group).max().unwrap_or(0);
    for part in parts(list) {
        let mut part = part.trim();
        if let Some(rest) = part.strip_prefix('{') {
            last_group = last_group
                .checked_add(1)
                .ok_or_else(|| bad_list(list, "more than 65535 groups"))?;
            if group.replace(last_group).is_some() {
                return Err(bad_list(list, "a group inside a group"));
            }
            part = rest.trim_start();
        }
        let (text, suffix) = match part.split_once('}') {
            Some((text, suffix)) => (text.trim_end(), Some(suffix.trim())),
            None => (part, None),
        };
        items.push(parse_item(list, text, group.unwrap_or(0))?);
        if let Some(suffix) = suffix {
            let closed = group.take().ok_or_else(|| bad_list(list, "a `}` without its `{`"))?;
            parse_suffix(list, suffix, items.iter_mut().filter(|item| item.group == closed))?;
        }
    }
    match group {
        Some(_) => Err(bad_list(list, "a `{` without its `}`")),
        None => Ok(()),
    }
}

/// A filter or a period after a group applies to each of its sources.
fn parse_suffix<'a>(
    list: &str,
    suffix: &str,
    group: impl Iterator<Item = &'a mut Item>,
) -> Result<()> {
    if suffix.is_empty() {
        return Ok(());
    }
    let modifiers = suffix.strip_prefix(':').ok_or_else(|| {
        let why = format!("`{suffix}` follows a group, where only a filter or a period may be");
        bad_list(list, &why)
    })?;
    for item in group {
        for part in modifiers.split(':') {
            parse_modifier(list, part.trim(), item)?;
        }
        item.requested += suffix;
    }
    Ok(())
}

/// The parts between commas, ignoring commas inside `cpu/…/`.
fn parts(list: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    list.split(move |character| {
        inside ^= character == '/';
        character == ',' && !inside
    })
}

/// Parses a list whose sources all run together (`-g A,B`).
pub fn parse_group(list: &str, items: &mut Vec<Item>) -> Result<()> {
    if list.contains(['{', '}']) {
        return Err(bad_list(list, "a group inside a group"));
    }
    parse_list(&format!("{{{list}}}"), items)
}

fn parse_item(list: &str, text: &str, group: u16) -> Result<Item> {
    let (event, name, core, period, modifiers) = if let Some(parsed) = perf::parse(text) {
        let (perf, rest) = parsed?;
        let name = text.strip_suffix(rest).unwrap_or(text);
        let modifiers = rest.strip_prefix(':').unwrap_or(rest);
        let modifiers = Some(modifiers).filter(|rest| !rest.is_empty());
        (perf.event, name, perf.core, perf.period, modifiers)
    } else {
        let (name, modifiers) = match text.split_once(':') {
            Some((name, modifiers)) => (name.trim(), Some(modifiers)),
            None => (text, None),
        };
        let event = match raw_select(name) {
            Some(select) => EventRef::Raw(select?),
            None => EventRef::Named(name.to_owned()),
        };
        (event, name, None, None, modifiers)
    };
    if name.is_empty() {
        return Err(bad_list(list, "an empty name"));
    }
    let mut item = Item {
        event,
        text: name.to_owned(),
        requested: text.to_owned(),
        filter: None,
        period,
        group,
        core,
    };
    for part in modifiers.into_iter().flat_map(|all| all.split(':')) {
        parse_modifier(list, part.trim(), &mut item)?;
    }
    Ok(item)
}

/// A whole number such as `1e6`.
fn scientific(text: &str) -> Option<u64> {
    let (digits, zeros) = text.split_once(['e', 'E'])?;
    let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_decimal(digits) || !is_decimal(zeros) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(10_u64.checked_pow(zeros.parse().ok()?)?)
}

fn parse_modifier(list: &str, part: &str, item: &mut Item) -> Result<()> {
    let filter = match part.to_ascii_lowercase().as_str() {
        "u" => Some(Spec::USER),
        "k" => Some(Spec::KERNEL),
        "uk" | "ku" => Some(Spec::USER | Spec::KERNEL),
        _ => None,
    };
    let twice = || bad_list(list, &format!("`{}` has two filters or two periods", item.text));
    if let Some(filter) = filter {
        return match item.filter.replace(filter) {
            Some(_) => Err(twice()),
            None => Ok(()),
        };
    }
    let period = parse_number(part).or_else(|| scientific(part)).ok_or_else(|| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let why = if is_number {
            format!("the period `{part}` is not below 2^64")
        } else {
            format!("`:{part}` is neither a filter (u, k, uk) nor a period")
        };
        bad_list(list, &why)
    })?;
    match item.period.replace(period) {
        Some(_) => Err(twice()),
        None if period == 0 => Err(bad_list(list, "a period of 0")),
        None => Ok(()),
    }
}

/// The select after `r`; `None` if this is no raw select, an error if it is too long.
pub(crate) fn raw_select(name: &str) -> Option<Result<u64>> {
    let digits = name.strip_prefix(['r', 'R'])?;
    let all_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex.then(|| {
        u64::from_str_radix(digits, 16)
            .map_err(|_| bad_list(name, "a raw select of more than 64 bits"))
    })
}

/// The name after `Profile`; empty if the text does not begin so.
pub(crate) fn after_profile(text: &str) -> &str {
    let parts = text.split_at_checked(PROFILE.len());
    let parts = parts.filter(|(prefix, _)| prefix.eq_ignore_ascii_case(PROFILE));
    parts.map_or("", |(_, name)| name)
}

/// A number in decimal or, after `0x`, in hexadecimal.
pub fn parse_number(text: &str) -> Option<u64> {
    // `parse` and `from_str_radix` also take a sign, so the digits are checked first, here and
    // below.
    let decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    parse_hexadecimal(text).or_else(|| decimal.then(|| text.parse().ok())?)
}

/// A number in hexadecimal after `0x`; nothing else is one.
pub fn parse_hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    are_digits.then(|| u64::from_str_radix(digits, 16).ok())?
}

pub(crate) fn bad_list(list: &str, why: &str) -> Error {
    Error::usage(format!("`{list}` is not a valid list of sources: {why}"), LIST_HINT)
}

pub(crate) const fn filter_suffix(filter: u16) -> &'static str {
    match filter {
        Spec::USER => ":u",
        Spec::KERNEL => ":k",
        _ => ":uk",
    }
}

/// Parses a list of processors such as `0-3,8`; the result is sorted, without duplicates.
pub fn parse_processors(list: &str) -> Result<Vec<u32>> {
    let mut all = BTreeSet::new();
    for part in list.split(',') {
        let range = parse_range(part.trim());
        all.extend(range.map_err(|why| bad_processors(list, &why))?);
    }
    Ok(all.into_iter().collect())
}

fn parse_range(part: &str) -> std::result::Result<RangeInclusive<u32>, String> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (Some(first), Some(last)) = (parse_index(first), parse_index(last)) else {
        return Err(format!("`{part}` is neither an index nor a range of them"));
    };
    if first > last {
        return Err(format!("{first} is above {last}"));
    }
    // A machine has fewer processors; one index more still shows which processor does not exist.
    Ok(first..=last.min(first.saturating_add(MAX_PROCESSORS as u32)))
}

fn parse_index(text: &str) -> Option<u32> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn bad_processors(list: &str, why: &str) -> Error {
    Error::usage(
        format!("`{list}` is not a valid list of processors: {why}"),
        Remedy::ProcessorList,
    )
}

/// Indexes as a list: `0-3,8`.
pub fn format_processors(indexes: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let text = |(first, last)| {
        if first == last { format!("{first}") } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
