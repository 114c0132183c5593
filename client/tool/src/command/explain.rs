//! `halprof explain`: an error code, or a source on this machine.

mod other;
mod source;

use self::source::{CpuType, RegisterValue, cpu_types, evidence, registers, windows};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::error_codes::Code;
use crate::output::table::{Column, Field, Record, Width, records};
use crate::results::errata;
use crate::select::source::can_count;
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::Source;
use halprof_measure::catalog::{Catalog, Encoding, EventMatch, format_counters};
use halprof_measure::errata::Erratum;
use halprof_measure::events::{Alias, Basis, Meaning, Microarchitecture};
use halprof_measure::selection::{self, EventRef};
use halprof_measure::{Error as Cause, did_you_mean};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::ProfileInterface;
use shared_types::request::machine::{Machine, Processor};
use shared_types::request::session::Spec;

/// What is explained; which lists have rows depends on what it is.
#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct ExplainResult {
    topic: String,
    kind: &'static str,
    summary: String,
    sections: Vec<Section>,
    registers: Vec<RegisterValue>,
    cpu_types: Vec<CpuType>,
    /// The vendor's errata that concern it, where it is counted by itself.
    errata: Vec<Erratum>,
    topics: Vec<Topic>,
}

#[derive(JsonSchema, Serialize)]
struct Section {
    title: &'static str,
    text: String,
}

/// Another topic that can be explained.
#[expect(clippy::struct_field_names, reason = "the name in the JSON")]
#[derive(JsonSchema, Serialize)]
struct Topic {
    topic: String,
    kind: &'static str,
    summary: String,
}

impl Record for Topic {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::word("topic"), |row| row.topic.clone()),
        Field::new(Column::word("kind"), |row| row.kind.to_owned()),
        Field::new(Column::prose("what it is"), |row| row.summary.clone()),
    ];
}

const TOPICS: &str = "topics";
const CODE: &str = "code";
const SOURCE: &str = "source";
const EVENT: &str = "event";

pub(crate) fn run(
    topic: Option<&str>,
    open: impl FnOnce() -> Result<Backend>,
    output: &Output,
) -> Result<u32> {
    let result = match (topic, topic.and_then(Code::find)) {
        (None, _) => contents(),
        (Some(_), Some(code)) => of_code(code)?,
        (Some(topic), None) => match other::of_large_number(topic) {
            Some(result) => result,
            None => on_machine(topic, &mut Context::open(open()?)?, output)?,
        },
    };
    let print_text = |result: &ExplainResult| text(result, output.width());
    if result.kind == TOPICS {
        output.rows("explain", (&result, &result.topics), print_text)?;
    } else if output.is_csv() && !matches!(result.kind, SOURCE | EVENT) {
        return Err(Error::usage(
            format!("`--csv` is for tables, and `{}` is explained in words", result.topic),
            "`halprof explain --csv` lists the topics; a source has a line for each type of processor.",
        ));
    } else {
        output.rows("explain", (&result, &result.cpu_types), print_text)?;
    }
    Ok(0)
}

/// A source or an event of this machine; what has another meaning comes after them.
fn on_machine(topic: &str, ctx: &mut Context, output: &Output) -> Result<ExplainResult> {
    output.note_model(&ctx.machine_info);
    let result = of_name(topic, ctx).and_then(|result| with_errata(topic, result, ctx));
    match result {
        Err(error @ Error::Measure(Cause::UnknownName { .. })) => {
            let catalog = ctx.catalog(false)?;
            let other = other::find(topic, ctx.shares_cores(), &catalog)?;
            other.ok_or_else(|| suggested(topic, error, ctx))
        }
        result => result.map_err(|error| suggested(topic, error, ctx)),
    }
}

/// The same error; for an unknown name, with topics that may have been meant or the reason.
fn suggested(topic: &str, error: Error, ctx: &Context) -> Error {
    let codes = Code::explained().map(|code| code.name.as_str());
    match (error, did_you_mean(topic, codes)) {
        (Error::Measure(Cause::UnknownName { name, hint }), Some(meant)) => {
            let hint = hint.map_or_else(String::new, |hint| format!(" {hint}"));
            let hint = Some((meant + &hint).into());
            Error::Measure(Cause::UnknownName { name, hint })
        }
        (error, _) => ctx.explained(error),
    }
}

fn contents() -> ExplainResult {
    let codes = Code::explained().map(|code| Topic {
        topic: code.name.clone(),
        kind: CODE,
        summary: code.meaning.clone(),
    });
    ExplainResult {
        summary: "`halprof explain TOPIC` explains one of these error codes; any source or event of `halprof list --all --events` by its name, number or `rHEX`; a metric of `halprof list --metrics`; an erratum by its number; and the errors of Windows that halprof can show, such as 577 or 0x800705AA.".to_owned(),
        topics: codes.collect(),
        kind: TOPICS,
        ..ExplainResult::default()
    }
}

fn of_code(code: &Code) -> Result<ExplainResult> {
    if code.is_for_clients() {
        return Err(Error::usage(
            format!("`{}` is between a program and the driver", code.name),
            "docs/requests.md says which requests it answers.",
        ));
    }
    let causes: Vec<String> = code.causes().map(|cause| format!("- {cause}")).collect();
    Ok(ExplainResult {
        summary: code.meaning.clone(),
        sections: vec![
            section("Causes", causes.join("\n")),
            section("What to do", code.what_to_do()),
            section("Exit status", code.status.to_string()),
        ],
        topic: code.name.clone(),
        kind: CODE,
        ..ExplainResult::default()
    })
}

fn section(title: &'static str, text: impl Into<String>) -> Section {
    Section { title, text: text.into() }
}

fn of_name(topic: &str, ctx: &mut Context) -> Result<ExplainResult> {
    let machine = ctx.machine.description;
    let interface =
        ProfileInterface::from_wire(machine.interface).unwrap_or(ProfileInterface::Default);
    let mut items = Vec::new();
    selection::parse_list(topic, &mut items)?;
    let [item] = items.as_slice() else {
        return Err(Error::usage(
            format!("explain takes one name, not a list: `{topic}`"),
            "`halprof explain` lists what there is.",
        ));
    };
    let catalog = ctx.catalog(false)?;
    let processors = &ctx.machine.processors;
    let filter = item.filter.unwrap_or(Spec::USER | Spec::KERNEL);
    let selects = |select| registers(interface, select, filter);
    let mut alias = None;
    if let EventRef::Named(name) = &item.event {
        alias = catalog.alias(name);
        let meant = alias.map_or(name.as_str(), |alias| alias.target);
        if let Some(source) = catalog.source(name).or_else(|| catalog.source(meant)) {
            let mut sections = sections(&machine, &catalog, source);
            if ctx.tracing.is_none() {
                let information = ctx.connection.source_information(source.id, false)?;
                sections.push(section(
                    "HAL_PROFILE_SOURCE_INFORMATION",
                    format!(
                        "ProfileSource {:#x}, Supported {}, Interval {}",
                        information.source, information.supported, information.interval
                    ),
                ));
            }
            let result = ExplainResult {
                summary: counts(source),
                sections,
                registers: match source.flags & (Source::HAS_SELECT | Source::TIMER) {
                    Source::HAS_SELECT => selects(source.select),
                    _ => Vec::new(),
                },
                cpu_types: cpu_types(processors, |processor| can_count(source, processor)),
                topics: same_select(source, &catalog.sources),
                topic: source.name.to_owned(),
                kind: SOURCE,
                errata: Vec::new(),
            };
            return Ok(with_alias(result, alias));
        }
        if let Some(event_match) = catalog.event(name).or_else(|| catalog.event(meant)) {
            return Ok(with_alias(of_event(&event_match, selects, processors), alias));
        }
    }
    let events = catalog.resolve(&items)?;
    let registers = events.first().map_or_else(Vec::new, |event| {
        registers(interface, event.common().raw, event.common().filter)
    });
    Ok(with_alias(of_raw(topic, registers), alias))
}

/// Adds the errata of what is counted.
fn with_errata(topic: &str, mut result: ExplainResult, ctx: &mut Context) -> Result<ExplainResult> {
    if ctx.tracing.is_none() {
        let mut items = Vec::new();
        selection::parse_list(topic, &mut items)?;
        let catalog = ctx.catalog(false)?;
        // What cannot be counted has none.
        let events = catalog.resolve(&items).unwrap_or_default();
        let errata =
            events.iter().flat_map(|event| errata::alone(&catalog, event, &mut ctx.connection));
        result.errata = errata.collect();
    }
    Ok(result)
}

/// Adds what the name that was asked for stands for, if it is an alias.
fn with_alias(mut result: ExplainResult, alias: Option<Alias>) -> ExplainResult {
    if let Some(alias) = alias {
        let text = format!("`{}` stands for `{}`: {}.", alias.name, alias.target, alias.source);
        result.sections.insert(0, section("Alias", text));
    }
    result
}

/// An event of the vendor's list, on each CPU type that has it.
fn of_event(
    event_match: &EventMatch<'_>,
    registers: impl Fn(u64) -> Vec<RegisterValue>,
    processors: &[Processor],
) -> ExplainResult {
    let event = event_match.event;
    let mut sections = Vec::new();
    sections.extend(meaning_of_event(event_match));
    let titles =
        event_match.encodings.iter().filter_map(|(cpu_type, ..)| cpu_type.microarchitecture);
    let titles: Vec<&str> = titles.map(|one| one.title).collect();
    for (cpu_type, event, counted) in &event_match.encodings {
        let Some(one) = cpu_type.microarchitecture else {
            continue;
        };
        let how = match counted {
            Ok(Encoding::Fixed(index)) => format!("fixed counter {index}"),
            Ok(Encoding::Select { select, .. }) if cpu_type.takes_pair(*select) => {
                "a general counter with an even number, and the one after it".to_owned()
            }
            Ok(Encoding::Select { counters, .. }) if *counters == Spec::ANY_COUNTER => {
                "any general counter".to_owned()
            }
            Ok(Encoding::Select { counters, .. }) => {
                format!("general counters {}", format_counters(*counters))
            }
            Err(why) => format!("not counted: {why}"),
        };
        sections
            .push(section("Event", format!("{event} on {}\n{how}\n{}", one.title, one.document())));
    }
    let notes = [
        (event.alone, "Nothing else can be counted at the same time."),
        (event.deprecated, "The vendor has a newer name for it."),
    ];
    let notes = notes.into_iter().filter(|(holds, _)| *holds);
    sections.extend(notes.map(|(_, text)| section("Note", text)));
    if event.period != 0 {
        let text = format!("The vendor samples it every {} events.", event.period);
        sections.push(section("Sampling", text));
    }
    let selects = event_match.encodings.iter().find_map(|(_, _, counted)| match counted {
        Ok(Encoding::Select { select, .. }) => Some(*select),
        _ => None,
    });
    ExplainResult {
        summary: format!("{} is an event of {}.", event.name, titles.join(" and ")),
        sections,
        registers: selects.map_or_else(Vec::new, registers),
        cpu_types: cpu_types(processors, |processor| event_match.counts_on(processor)),
        topic: event.name.clone(),
        kind: EVENT,
        ..ExplainResult::default()
    }
}

/// What an event counts, and from where that is known; on each microarchitecture, if they differ.
fn meaning_of_event(event_match: &EventMatch<'_>) -> Option<Section> {
    let mut meanings: Vec<_> = event_match.meanings().collect();
    meanings.dedup_by_key(|(_, meaning)| *meaning);
    let lines = match meanings.as_slice() {
        [] => return None,
        [(_, meaning)] => vec![format!("{}\n{}", meaning.sentence, basis(meaning.basis))],
        several => {
            let line = |(one, meaning): &(&Microarchitecture, Meaning)| {
                format!("{}: {}\n{}", one.title, meaning.sentence, basis(meaning.basis))
            };
            several.iter().map(line).collect()
        }
    };
    Some(section("Meaning", lines.join("\n")))
}

fn basis(basis: Basis) -> String {
    match basis {
        Basis::Text(document) => format!("Basis: {document}."),
        Basis::Name => {
            "Basis: its name and common knowledge of the field; the vendor's document decides."
                .to_owned()
        }
    }
}

fn of_raw(topic: &str, registers: Vec<RegisterValue>) -> ExplainResult {
    ExplainResult {
        summary: "A raw select: the processor's manual says what it counts. Its user and kernel bits are taken as the filter.".to_owned(),
        registers,
        topic: topic.to_owned(),
        kind: SOURCE,
        ..ExplainResult::default()
    }
}

fn counts(source: &Source) -> String {
    let (name, counts) = (source.name, source.counts);
    if source.flags & Source::TIMER != 0 {
        return format!("{name} counts time, in units of 100 ns.");
    }
    match (source.flags & Source::SUPPORTED != 0, counts) {
        (_, "") => format!("{name} counts nothing that is documented on this processor."),
        (true, counts) => format!("{name} counts {counts} on this processor."),
        (false, counts) if source.flags & Source::APPROXIMATES != 0 => {
            format!("{name} would count {counts} on this processor.")
        }
        (false, counts) => {
            format!("{name} is an alias of {counts}, which this processor cannot count.")
        }
    }
}

fn sections(machine: &Machine, catalog: &Catalog, source: &Source) -> Vec<Section> {
    let has = |flag| source.flags & flag != 0;
    let unit = if has(Source::TIMER) { "units of 100 ns" } else { "events" };
    let note = source.note;
    let mut names = vec![source.name, source.symbol];
    names.dedup();
    let names = format!("{}, {:#x}", names.join(", "), source.id);
    let mut sections = Vec::new();
    if !source.meaning.is_empty() {
        sections.push(section("Meaning", source.meaning));
    }
    sections.push(section("Names", names));
    if !note.is_empty() {
        sections.push(section("Note", note));
    }
    if has(Source::APPROXIMATES) {
        sections.push(section(
            "Approximates",
            "The event is not what the name says; `--approximate` accepts it.",
        ));
    }
    sections.extend([
        section(
            "Sampling",
            if has(Source::SAMPLING) { "It can be sampled." } else { "It cannot be sampled here." },
        ),
        section(
            "Intervals",
            format!(
                "{} to {} {unit}; {} where none is given",
                source.min_interval, source.max_interval, source.default_interval
            ),
        ),
        section("Windows", windows(machine, catalog, source)),
        section("Evidence", evidence(machine, source)),
    ]);
    sections
}

/// Sources that count the same under other names.
fn same_select(source: &Source, all: &[Source]) -> Vec<Topic> {
    let counted = |flags: u32| flags & (Source::HAS_SELECT | Source::TIMER) == Source::HAS_SELECT;
    let same = |other: &&Source| {
        counted(source.flags)
            && counted(other.flags)
            && other.select == source.select
            && other.id != source.id
    };
    let topic = |other: &Source| Topic {
        topic: other.name.to_owned(),
        kind: SOURCE,
        summary: "the same event under another name".to_owned(),
    };
    all.iter().filter(same).map(topic).collect()
}

fn text(result: &ExplainResult, width: Width) -> String {
    let mut text = match result.topic.as_str() {
        "" => width.prose(0, &result.summary) + "\n",
        topic => format!("{topic}\n\n{}\n", width.prose(0, &result.summary)),
    };
    for register in &result.registers {
        text += &format!("\n{}  {}\n", register.name, register.value);
        // The event's number says something even if it is 0.
        let fields = register.fields.iter();
        let fields = fields.filter(|one| one.value != 0 || one.meaning.starts_with("event"));
        text.extend(fields.map(|field| field.text(width)));
    }
    // A single type adds nothing to the summary.
    if result.cpu_types.len() > 1 {
        text += &format!("\n{}", records(width, &result.cpu_types));
    }
    for section in &result.sections {
        text += &format!("\n{}\n", section.title);
        for line in section.text.lines() {
            // The second line of a list item is indented to its text.
            let label = if line.starts_with("- ") { 6 } else { 4 };
            text += &format!("    {}\n", width.prose(label, line));
        }
    }
    text += &width.fitted(&errata::all([(result.topic.as_str(), result.errata.as_slice())]));
    if !result.topics.is_empty() {
        text += &format!("\n{}", records(width, &result.topics));
    }
    text
}
