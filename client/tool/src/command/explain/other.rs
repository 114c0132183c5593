//! Explains what is neither an error code nor a source of the machine: a metric, an erratum, or an error of
//! Windows.

use super::{ExplainResult, section};
use crate::metrics::{Metrics, WorseWhen};
use crate::output::error::Result;
use crate::select::event_set::countable;
use halprof_measure::catalog::{Catalog, CpuType};
use halprof_measure::errata;
use halprof_measure::selection::parse_number;
use halprof_setup::installation::meanings;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Every source has a number below this.
const SOURCES: u64 = 0x100;

/// HRESULT_FROM_WIN32: the upper half of an HRESULT that has a Win32 error in its lower one.
const OF_WIN32: u32 = 0x8007;

/// What an error means where tracing shows it.
#[derive(Deserialize)]
struct TracingError {
    number: u32,
    name: String,
    means: String,
    hint: String,
}

/// A number that can only be Windows'.
pub(super) fn of_large_number(topic: &str) -> Option<ExplainResult> {
    parse_number(topic).filter(|number| *number >= SOURCES).and_then(|_| of_windows(topic))
}

/// A metric, an erratum, or a number of Windows; `None` if it is none of them.
pub(super) fn find(topic: &str, smt: bool, catalog: &Catalog) -> Result<Option<ExplainResult>> {
    if let Some(metric) = of_metric(topic, smt, catalog)? {
        return Ok(Some(metric));
    }
    Ok(of_erratum(topic, catalog).or_else(|| of_windows(topic)))
}

fn of_metric(topic: &str, smt: bool, catalog: &Catalog) -> Result<Option<ExplainResult>> {
    let metrics = Metrics::with_file(None, smt)?;
    let Some(metric) = metrics.named(topic) else {
        return Ok(None);
    };
    let here = metrics.spelled(metric, |name| {
        let mut names = metrics.names(name).into_iter();
        names.find(|name| countable(name, catalog).is_some()).map(str::to_owned)
    });
    let unit = if metric.unit.is_empty() { String::new() } else { format!(", in {}", metric.unit) };
    let mut sections = vec![section("Formula", &metric.text)];
    if here != metric.text {
        sections.push(section("Here", here));
    }
    if !metric.note.is_empty() {
        sections.push(section("How to read it", &metric.note));
    }
    let worse = match metric.worse {
        Some(WorseWhen::More) => Some("A higher value is worse."),
        Some(WorseWhen::Fewer) => Some("A lower value is worse."),
        None => None,
    };
    sections.extend(worse.map(|text| section("Compared", text)));
    Ok(Some(ExplainResult {
        topic: metric.id.clone(),
        kind: "metric",
        summary: format!(
            "{} is a metric: {}{unit}. `halprof stat -M {}` shows it.",
            metric.id, metric.name, metric.id
        ),
        sections,
        ..ExplainResult::default()
    }))
}

/// What the table says of it, and the events for which the vendor's list of this machine names it.
fn of_erratum(topic: &str, catalog: &Catalog) -> Option<ExplainResult> {
    let known: Vec<String> = errata::of_number(topic).collect();
    let events = catalog.cpu_types().iter().flat_map(CpuType::events);
    let named = events.filter(|event| errata::is_listed(event, topic));
    let named: BTreeSet<&str> = named.map(|event| event.name.as_str()).collect();
    if known.is_empty() && named.is_empty() {
        return None;
    }
    let mut sections = Vec::new();
    if !known.is_empty() {
        sections.push(section("What it does", known.join("\n")));
    }
    if !named.is_empty() {
        let list = named.into_iter().collect::<Vec<_>>().join(", ");
        sections.push(section("Named for", format!("{list} (Intel's list of events)")));
    }
    let summary = if known.is_empty() {
        "An erratum of this processor. Intel's specification update says what it does to a count; halprof knows only the events for which Intel's list names it."
    } else {
        "An erratum that concerns counts or samples."
    };
    Some(ExplainResult {
        topic: topic.to_ascii_uppercase(),
        kind: "erratum",
        summary: summary.to_owned(),
        sections,
        ..ExplainResult::default()
    })
}

/// An error of Windows that halprof can show: as a decimal or hexadecimal number, or as an HRESULT.
fn of_windows(topic: &str) -> Option<ExplainResult> {
    let number = u32::try_from(parse_number(topic)?).ok()?;
    let own = if number >> 16 == OF_WIN32 { number & 0xFFFF } else { number };
    let mut sections = Vec::new();
    let mut names = BTreeSet::new();
    for error in tracing_errors().filter(|error| error.number == own) {
        names.insert(error.name);
        sections.push(section("From tracing", format!("{} {}", error.means, error.hint)));
    }
    // A number may be known as itself, too: NTSTATUS values and errors of SetupAPI have 32 bits.
    let all = meanings(own).chain(meanings(number).filter(|_| own != number));
    for meaning in all {
        names.extend((!meaning.name.is_empty()).then(|| meaning.name.to_owned()));
        let text = format!("{}: {}. {}", meaning.of, meaning.why, meaning.hint);
        sections.push(section("From the driver", text));
    }
    if sections.is_empty() {
        return None;
    }
    let names: Vec<String> = names.into_iter().collect();
    let name = if names.is_empty() { String::new() } else { format!(", {}", names.join(", ")) };
    Some(ExplainResult {
        topic: topic.to_owned(),
        kind: "windows",
        summary: format!("{own} ({own:#x}){name}: an error of Windows that halprof can show."),
        sections,
        ..ExplainResult::default()
    })
}

fn tracing_errors() -> impl Iterator<Item = TracingError> {
    let text = include_str!("tracing_errors.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_windows_is_known_in_each_of_its_forms() {
        for (forms, name) in [
            (["1450", "0x5AA", "0x800705AA"], "ERROR_NO_SYSTEM_RESOURCES"),
            (["4201", "0x1069", "0x80071069"], "ERROR_WMI_INSTANCE_NOT_FOUND"),
            (["577", "0x241", "0x80070241"], "ERROR_INVALID_IMAGE_HASH"),
        ] {
            for form in forms {
                let result = of_windows(form).expect(form);
                assert!(result.summary.contains(name), "{form}: {}", result.summary);
                assert!(of_large_number(form).is_some(), "{form}");
            }
        }
        let status = of_windows("0xC0000428").expect("a status");
        assert!(status.summary.contains("STATUS_INVALID_IMAGE_HASH"), "{}", status.summary);
        assert!(of_windows("0xC5585011").is_none() && of_large_number("0x08").is_none());
    }

    #[test]
    fn every_row_says_what_it_means_and_what_to_do() {
        assert!(tracing_errors().count() >= 12);
        for row in tracing_errors() {
            assert!(row.means.ends_with('.') && row.hint.ends_with('.'), "{}", row.name);
            assert!(row.name.starts_with("ERROR_"), "{}", row.name);
        }
    }
}
