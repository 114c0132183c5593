//! What a user names: lists of sources, and lists of processors.
//!
//! A list of sources is comma-separated; each is a name, `Profile` and a name, an id, or `rHEX`,
//! with an optional filter behind a colon. `{A,B}` runs together or not at all. `all` is every
//! source that the machine supports.

use crate::{Error, Result};
use shared_types::request::session::{MAX_PROCESSORS, Spec};
use shared_types::request::source::Source;
use shared_types::{ProfileInterface, ProfileSource};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Bits 16 and 17 of a select: count in user mode, in kernel mode.
const SELECT_FILTER: [u64; 2] = [1 << 16, 1 << 17];
/// Bits 2 and 3 of an ESCR, which is the low half of NetBurst's raw select.
const ESCR_FILTER: [u64; 2] = [1 << 2, 1 << 3];

const LIST_HINT: &str = "A list is like `TotalIssues,0x1B:u,{CacheMisses,LLCReference:k},r01C2`.";

/// Which source is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// By name or number, as the user wrote it.
    Named(String),
    /// A raw select, in the layout of the family's register.
    Raw(u64),
}

/// One source as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which source.
    pub what: What,
    /// The text that names it, without filter and period.
    pub text: String,
    /// The filter, as [`Spec::USER`] and [`Spec::KERNEL`], where one was given.
    pub filter: Option<u16>,
    /// Events between samples, where that was given.
    pub period: Option<u64>,
    /// 0, or the number of the group it runs in.
    pub group: u16,
}

/// A source of a machine, chosen to be counted or sampled.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// What the wire says of it.
    pub spec: Spec,
    /// Its name, with its filter if one was given.
    pub label: String,
}

/// Parses a list of sources; groups are numbered after the highest in `items`.
pub fn parse_list(list: &str, items: &mut Vec<Item>) -> Result<()> {
    let mut group = None;
    let mut next = 1 + items.iter().map(|item| item.group).max().unwrap_or(0);
    for part in list.split(',') {
        let mut part = part.trim();
        if let Some(rest) = part.strip_prefix('{') {
            if group.replace(next).is_some() {
                return Err(bad_list(list, "a group inside a group"));
            }
            next += 1;
            part = rest.trim_start();
        }
        let (text, closes) = match part.strip_suffix('}') {
            Some(rest) => (rest.trim_end(), true),
            None => (part, false),
        };
        items.push(parse_item(list, text, group.unwrap_or(0))?);
        if closes && group.take().is_none() {
            return Err(bad_list(list, "a `}` without its `{`"));
        }
    }
    match group {
        Some(_) => Err(bad_list(list, "a `{` without its `}`")),
        None => Ok(()),
    }
}

/// Parses a list whose sources all run together (`-g A,B`).
pub fn parse_group(list: &str, items: &mut Vec<Item>) -> Result<()> {
    if list.contains(['{', '}']) {
        return Err(bad_list(list, "a group inside a group"));
    }
    parse_list(&format!("{{{list}}}"), items)
}

fn parse_item(list: &str, text: &str, group: u16) -> Result<Item> {
    let mut parts = text.split(':').map(str::trim);
    let name = parts.next().unwrap_or_default();
    if name.is_empty() {
        return Err(bad_list(list, "an empty name"));
    }
    let mut item = Item {
        what: What::Named(name.to_owned()),
        text: name.to_owned(),
        filter: None,
        period: None,
        group,
    };
    for part in parts {
        parse_modifier(list, part, &mut item)?;
    }
    if let Some(select) = raw_select(name) {
        item.what = What::Raw(select?);
    }
    Ok(item)
}

fn parse_modifier(list: &str, part: &str, item: &mut Item) -> Result<()> {
    let filter = match part.to_ascii_lowercase().as_str() {
        "u" => Some(Spec::USER),
        "k" => Some(Spec::KERNEL),
        "uk" | "ku" => Some(Spec::USER | Spec::KERNEL),
        _ => None,
    };
    let twice = || {
        bad_list(
            list,
            &format!("`{}` has two filters or two periods", item.text),
        )
    };
    if let Some(filter) = filter {
        return match item.filter.replace(filter) {
            Some(_) => Err(twice()),
            None => Ok(()),
        };
    }
    let period = parse_number(part).ok_or_else(|| {
        bad_list(
            list,
            &format!("`:{part}` is no filter (u, k, uk) and no period"),
        )
    })?;
    match item.period.replace(period) {
        Some(_) => Err(twice()),
        None if period == 0 => Err(bad_list(list, "a period of 0")),
        None => Ok(()),
    }
}

/// The select behind `r`; `None` where this is no raw select, an error where it is too long.
fn raw_select(name: &str) -> Option<Result<u64>> {
    let digits = name.strip_prefix(['r', 'R'])?;
    let all_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex.then(|| {
        u64::from_str_radix(digits, 16)
            .map_err(|_| bad_list(name, "a raw select of more than 64 bits"))
    })
}

/// The filter of a raw select: what its own bits say, which must be what stands behind a colon.
fn raw_filter(item: &Item, select: u64, interface: ProfileInterface) -> Result<Option<u16>> {
    let [user_bit, kernel_bit] = match interface {
        ProfileInterface::NetBurst => ESCR_FILTER,
        _ => SELECT_FILTER,
    };
    let user = if select & user_bit == 0 {
        0
    } else {
        Spec::USER
    };
    let kernel = if select & kernel_bit == 0 {
        0
    } else {
        Spec::KERNEL
    };
    match (user | kernel, item.filter) {
        (0, filter) => Ok(filter),
        (bits, filter) if filter.is_none_or(|filter| filter == bits) => Ok(Some(bits)),
        _ => Err(bad_list(
            &item.text,
            "its user and kernel bits contradict its filter",
        )),
    }
}

/// A number in decimal or, behind `0x`, in hexadecimal.
fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

fn bad_list(list: &str, why: &str) -> Error {
    Error::usage(format!("`{list}` is no list of sources: {why}"), LIST_HINT)
}

/// What stands for every supported source.
const ALL: &str = "all";

/// Finds each item among the sources of a machine that is used through `interface`.
pub fn resolve(
    items: &[Item],
    sources: &[Source],
    interface: ProfileInterface,
) -> Result<Vec<Chosen>> {
    let mut chosen = Vec::new();
    for item in items {
        if item.text.eq_ignore_ascii_case(ALL) {
            let supported = |source: &&Source| source.flags & Source::SUPPORTED != 0;
            let supported = sources.iter().filter(supported);
            chosen.extend(supported.map(|source| of_source(item, source)));
        } else {
            chosen.push(resolve_one(item, sources, interface)?);
        }
    }
    Ok(chosen)
}

fn of_source(item: &Item, source: &Source) -> Chosen {
    chosen(item, source.id, 0, source.name.as_str(), item.filter)
}

fn resolve_one(item: &Item, sources: &[Source], interface: ProfileInterface) -> Result<Chosen> {
    match &item.what {
        What::Named(text) => match find(text, sources) {
            Some(source) => Ok(of_source(item, source)),
            None => Err(Error::UnknownName(text.clone())),
        },
        What::Raw(select) => {
            let filter = raw_filter(item, *select, interface)?;
            let id = ProfileSource::RAW.0;
            Ok(chosen(item, id, *select, &item.text, filter))
        }
    }
}

fn chosen(item: &Item, source: u32, raw: u64, name: &str, filter: Option<u16>) -> Chosen {
    Chosen {
        spec: Spec {
            source,
            group: item.group,
            filter: filter.unwrap_or(Spec::USER | Spec::KERNEL),
            interval: item.period.unwrap_or(0),
            raw,
        },
        label: format!("{name}{}", item.filter.map_or("", filter_suffix)),
    }
}

const fn filter_suffix(filter: u16) -> &'static str {
    match filter {
        Spec::USER => ":u",
        Spec::KERNEL => ":k",
        _ => ":uk",
    }
}

/// By the name in the list, by the enumeration's symbol, by the symbol without `Profile`, by id.
fn find<'a>(text: &str, sources: &'a [Source]) -> Option<&'a Source> {
    let named = |name: &str| name.eq_ignore_ascii_case(text);
    let by_name = sources.iter().find(|source| named(source.name.as_str()));
    let by_symbol = || sources.iter().find(|source| named(source.symbol.as_str()));
    let prefixed = || {
        let symbol = format!("Profile{text}");
        sources
            .iter()
            .find(|source| source.symbol.as_str().eq_ignore_ascii_case(&symbol))
    };
    let unprefixed = || {
        let (prefix, name) = text.split_at_checked("Profile".len())?;
        let is_prefix = prefix.eq_ignore_ascii_case("Profile");
        let same = |source: &&Source| source.name.as_str().eq_ignore_ascii_case(name);
        sources.iter().find(same).filter(|_| is_prefix)
    };
    let by_id = || {
        let id = parse_number(text)?;
        sources.iter().find(|source| u64::from(source.id) == id)
    };
    by_name
        .or_else(by_symbol)
        .or_else(prefixed)
        .or_else(unprefixed)
        .or_else(by_id)
}

/// Parses a list of processors such as `0-3,8`; they come in order and once each.
pub fn parse_processors(list: &str) -> Result<Vec<u32>> {
    let mut all = BTreeSet::new();
    for part in list.split(',') {
        all.extend(parse_range(part.trim()).ok_or_else(|| bad_processors(list))?);
    }
    Ok(all.into_iter().collect())
}

fn parse_range(part: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (parse_index(first)?, parse_index(last)?);
    // A machine has fewer; one index more still shows which processor is not there.
    (first <= last).then(|| first..=last.min(first.saturating_add(MAX_PROCESSORS as u32)))
}

fn parse_index(text: &str) -> Option<u32> {
    let text = text.trim();
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

fn bad_processors(list: &str) -> Error {
    Error::usage(
        format!("`{list}` is no list of processors"),
        "A list is like `0-3,8`; `halprof info` shows the processors.",
    )
}

/// Indexes as a list: `0-3,8`.
#[must_use]
pub fn format_processors(indexes: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let text = |(first, last)| {
        if first == last {
            format!("{first}")
        } else {
            format!("{first}-{last}")
        }
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
