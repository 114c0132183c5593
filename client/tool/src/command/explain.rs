//! `halprof explain`: an error code, or a source on this machine.

mod source;

use self::source::{evidence, kinds, programmed, windows};
use crate::command::registers::Field;
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::error_codes::Code;
use crate::output::table::{Column, Width, table};
use crate::select::source::can_count;
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::catalog::{Catalog, Encoding, EventMatch, format_counters};
use halprof_measure::events::Alias;
use halprof_measure::selection::{self, What};
use halprof_measure::{Error as Cause, did_you_mean};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::ProfileInterface;
use shared_types::request::machine::{Machine, Processor};
use shared_types::request::session::Spec;
use shared_types::request::source::Source;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    topic: String,
    kind: &'static str,
    summary: String,
    sections: Vec<Section>,
    registers: Vec<Register>,
    kinds: Vec<Kind>,
    topics: Vec<Other>,
}

#[derive(JsonSchema, Serialize)]
struct Section {
    title: &'static str,
    text: String,
}

/// The value of a register for a source.
#[derive(JsonSchema, Serialize)]
struct Register {
    name: &'static str,
    value: String,
    fields: Vec<Field>,
}

/// Processors that are alike.
#[derive(JsonSchema, Serialize)]
struct Kind {
    processors: String,
    core_type: Option<&'static str>,
    counted: bool,
    counters: u32,
    fixed_counters: u32,
}

/// Another topic that can be explained.
#[derive(JsonSchema, Serialize)]
struct Other {
    topic: String,
    kind: &'static str,
    summary: String,
}

const CODE: &str = "code";
const SOURCE: &str = "source";
const EVENT: &str = "event";

pub(crate) fn run(
    topic: Option<&str>,
    open: impl FnOnce() -> Result<Backend>,
    output: &Output,
) -> Result<u8> {
    let (modelled, body) = match topic {
        None => (false, contents()),
        Some(topic) => {
            if let Some(code) = Code::find(topic) {
                (false, of_code(code)?)
            } else {
                let mut ctx = Context::open(open()?)?;
                output.note_model(&ctx.told);
                let body = of_source(topic, &mut ctx);
                let body = body.map_err(|error| guessed(topic, error, &mut ctx))?;
                (ctx.told.modelled, body)
            }
        }
    };
    if output.is_csv() && topic.is_none() {
        return print(output, modelled, &body, &body.topics);
    }
    if output.is_csv() && body.kind != SOURCE && body.kind != EVENT {
        return Err(Error::usage(
            format!("`--csv` is for tables, and `{}` is explained in words", body.topic),
            "`halprof explain --csv` lists the topics; a source has a line for each kind of processor.",
        ));
    }
    print(output, modelled, &body, &body.kinds)
}

/// Prints the body, or with `--csv` these rows of it.
fn print<R: Serialize + JsonSchema>(
    output: &Output,
    modelled: bool,
    body: &Body,
    rows: &[R],
) -> Result<u8> {
    output.rows("explain", modelled, (body, rows), |body| text(body, output.width()))?;
    Ok(0)
}

/// The same error; for an unknown name, with topics that may have been meant or the reason.
fn guessed(topic: &str, error: Error, ctx: &mut Context) -> Error {
    let codes = Code::explained().map(|code| code.name);
    match (error, did_you_mean(topic, codes)) {
        (Error::Measure(Cause::UnknownName { name, hint }), Some(meant)) => {
            let hint = hint.map_or_else(String::new, |hint| format!(" {hint}"));
            let hint = Some(meant + &hint);
            Error::Measure(Cause::UnknownName { name, hint })
        }
        (error, _) => ctx.explained(error),
    }
}

fn contents() -> Body {
    let codes = Code::explained().map(|code| Other {
        topic: code.name.to_owned(),
        kind: CODE,
        summary: code.meaning.to_owned(),
    });
    Body {
        summary: "`halprof explain TOPIC` explains one of these error codes, or any source or event of `halprof list --all --events` by its name, number or `rHEX`.".to_owned(),
        topics: codes.collect(),
        ..empty(String::new(), "topics")
    }
}

const fn empty(topic: String, kind: &'static str) -> Body {
    Body {
        topic,
        kind,
        summary: String::new(),
        sections: Vec::new(),
        registers: Vec::new(),
        kinds: Vec::new(),
        topics: Vec::new(),
    }
}

fn of_code(code: &Code) -> Result<Body> {
    if code.is_for_clients() {
        return Err(Error::usage(
            format!("`{}` is between a program and the driver", code.name),
            "docs/requests.md says which requests it answers.",
        ));
    }
    let causes: Vec<String> = code.causes.iter().map(|cause| format!("- {cause}")).collect();
    Ok(Body {
        summary: code.meaning.to_owned(),
        sections: vec![
            section("Causes", causes.join("\n")),
            section("What to do", code.what_to_do()),
            section("Exit status", code.status.to_string()),
        ],
        ..empty(code.name.to_owned(), CODE)
    })
}

fn section(title: &'static str, text: impl Into<String>) -> Section {
    Section { title, text: text.into() }
}

fn of_source(topic: &str, ctx: &mut Context) -> Result<Body> {
    let machine = ctx.machine.description;
    let interface =
        ProfileInterface::from_wire(machine.interface).unwrap_or(ProfileInterface::Default);
    let mut items = Vec::new();
    selection::parse_list(topic, &mut items)?;
    let [item] = items.as_slice() else {
        return Err(Error::usage(
            format!("`{topic}` is a list, and one thing is explained at a time"),
            "`halprof explain` lists what there is.",
        ));
    };
    let catalog = ctx.catalog(false)?;
    let raw = || -> Result<Body> {
        let events = catalog.resolve(&items)?;
        let registers = events.first().map_or_else(Vec::new, |event| {
            registers(interface, event.common().raw, event.common().filter)
        });
        Ok(of_raw(topic, registers))
    };
    let What::Named(name) = &item.what else {
        return raw();
    };
    let filter = item.filter.unwrap_or(Spec::USER | Spec::KERNEL);
    let alias = catalog.alias(name);
    let meant = alias.map_or(name.as_str(), |alias| alias.target);
    let exact = &catalog.sources;
    let Some(source) = catalog.source(name).or_else(|| catalog.source(meant)) else {
        if let Some(found) = catalog.event(name) {
            let selects = |select| registers(interface, select, filter);
            return Ok(of_event(&found, selects, &ctx.machine.processors));
        }
        return Ok(with_alias(raw()?, alias));
    };
    let processors = &ctx.machine.processors;
    let kinds = kinds(processors, |processor| can_count(source, processor));
    let body = Body {
        summary: counts(source),
        sections: sections(&machine, &catalog, source),
        registers: match source.flags & (Source::HAS_SELECT | Source::TIMER) {
            Source::HAS_SELECT => registers(interface, source.select, filter),
            _ => Vec::new(),
        },
        kinds: kinds.into_iter().map(Kind::from).collect(),
        topics: same_select(source, exact),
        ..empty(source.name.as_str().to_owned(), SOURCE)
    };
    Ok(with_alias(body, alias))
}

impl From<source::Kind> for Kind {
    fn from(kind: source::Kind) -> Self {
        Self {
            processors: kind.processors,
            core_type: kind.core_type,
            counted: kind.counted,
            counters: kind.counters,
            fixed_counters: kind.fixed_counters,
        }
    }
}

/// Adds whose name was asked for, if it is an alias.
fn with_alias(mut body: Body, alias: Option<Alias>) -> Body {
    if let Some(alias) = alias {
        let text = format!("`{}` stands for `{}`: {}.", alias.name, alias.target, alias.source);
        body.sections.insert(0, section("Alias", text));
    }
    body
}

/// An event of the vendor's list, on each kind of processor that has it.
fn of_event(
    found: &EventMatch<'_>,
    registers: impl Fn(u64) -> Vec<Register>,
    processors: &[Processor],
) -> Body {
    let event = found.event;
    let mut sections = Vec::new();
    if !event.description.is_empty() {
        sections.push(section("Counts", event.description.clone()));
    }
    let titles = found.encodings.iter().filter_map(|(kind, _, _)| kind.microarchitecture);
    let titles: Vec<&str> = titles.map(|one| one.title).collect();
    for (kind, event, counted) in &found.encodings {
        let Some(one) = kind.microarchitecture else {
            continue;
        };
        let how = match counted {
            Ok(Encoding::Fixed(index)) => format!("fixed counter {index}"),
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
    if !event.errata.is_empty() {
        sections.push(section("Errata", event.errata.clone()));
    }
    if event.period != 0 {
        let text = format!("The vendor samples it every {} events.", event.period);
        sections.push(section("Sampling", text));
    }
    let selects = found.encodings.iter().find_map(|(_, _, counted)| match counted {
        Ok(Encoding::Select { select, .. }) => Some(*select),
        _ => None,
    });
    let counted = |processor: &Processor| {
        let mut kinds = found.encodings.iter();
        kinds.any(|(kind, _, counted)| kind.processor.kind == processor.kind && counted.is_ok())
    };
    Body {
        summary: format!("{} is an event of {}.", event.name, titles.join(" and ")),
        sections,
        registers: selects.map_or_else(Vec::new, registers),
        kinds: kinds(processors, counted).into_iter().map(Kind::from).collect(),
        ..empty(event.name.clone(), EVENT)
    }
}

fn of_raw(topic: &str, registers: Vec<Register>) -> Body {
    Body {
        summary: "A raw select: the processor's manual says what it counts. Its user and kernel bits are taken as the filter.".to_owned(),
        registers,
        ..empty(topic.to_owned(), SOURCE)
    }
}

fn counts(source: &Source) -> String {
    let (name, counts) = (source.name.as_str(), source.counts.as_str());
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
            format!("{name} stands for {counts}; it is not counted on this processor.")
        }
    }
}

fn sections(machine: &Machine, catalog: &Catalog, source: &Source) -> Vec<Section> {
    let has = |flag| source.flags & flag != 0;
    let unit = if has(Source::TIMER) { "units of 100 ns" } else { "events" };
    let note = source.note.as_str();
    let mut names = vec![source.name.as_str(), source.symbol.as_str()];
    names.dedup();
    let names = format!("{}, {:#x}", names.join(", "), source.id);
    let mut sections = Vec::new();
    sections.extend(meaning(source.name.as_str()).map(|text| section("Meaning", text)));
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

/// What the count of a source says about the microarchitecture.
fn meaning(source: &str) -> Option<String> {
    let rows = include_str!("explain/meanings.csv");
    let mut rows = csv::Reader::from_reader(rows.as_bytes());
    let mut rows = rows.records().flatten();
    let row = rows.find(|row| row.get(0) == Some(source))?;
    row.get(1).map(str::to_owned)
}

fn registers(interface: ProfileInterface, select: u64, filter: u16) -> Vec<Register> {
    programmed(interface, select, filter)
        .into_iter()
        .map(|register| Register {
            name: register.name,
            value: format!("{:#x}", register.value),
            fields: register.fields.into_iter().map(Field::from).collect(),
        })
        .collect()
}

/// Sources that count the same under other names.
fn same_select(source: &Source, all: &[Source]) -> Vec<Other> {
    let counted = |flags: u32| flags & (Source::HAS_SELECT | Source::TIMER) == Source::HAS_SELECT;
    let same = |other: &&Source| {
        counted(source.flags)
            && counted(other.flags)
            && other.select == source.select
            && other.id != source.id
    };
    let topic = |other: &Source| Other {
        topic: other.name.as_str().to_owned(),
        kind: SOURCE,
        summary: "the same event under another name".to_owned(),
    };
    all.iter().filter(same).map(topic).collect()
}

fn text(body: &Body, width: Width) -> String {
    let mut text = match body.topic.as_str() {
        "" => width.prose(0, &body.summary) + "\n",
        topic => format!("{topic}\n\n{}\n", width.prose(0, &body.summary)),
    };
    for register in &body.registers {
        text += &format!("\n{}  {}\n", register.name, register.value);
        let told = |field: &&Field| field.value != 0 || field.meaning.starts_with("event");
        for field in register.fields.iter().filter(told) {
            let bits = format!("[{}]", field.bits);
            text +=
                &format!("  {bits:<8} {:<18} {:<#6x} {}\n", field.name, field.value, field.meaning);
        }
    }
    // A single kind adds nothing to the summary.
    if body.kinds.len() > 1 {
        text += "\n";
        text += &kinds_text(&body.kinds, width);
    }
    for section in &body.sections {
        text += &format!("\n{}\n", section.title);
        for line in section.text.lines() {
            // The second line of a list item is indented to its text.
            let label = if line.starts_with("- ") { 6 } else { 4 };
            text += &format!("    {}\n", width.prose(label, line));
        }
    }
    if !body.topics.is_empty() {
        let rows = body.topics.iter();
        let rows = rows.map(|one| [one.topic.clone(), one.kind.to_owned(), one.summary.clone()]);
        text += "\n";
        let columns = [Column::word("topic"), Column::word("kind"), Column::prose("what it is")];
        text += &table(width, &columns, rows);
    }
    text
}

fn kinds_text(kinds: &[Kind], width: Width) -> String {
    let rows = kinds.iter().map(|kind| {
        [
            kind.processors.clone(),
            kind.core_type.unwrap_or("-").to_owned(),
            if kind.counted { "yes" } else { "no" }.to_owned(),
            kind.counters.to_string(),
            kind.fixed_counters.to_string(),
        ]
    });
    let columns = [
        Column::name("processors"),
        Column::word("core"),
        Column::word("counted"),
        Column::number("counters"),
        Column::number("fixed"),
    ];
    table(width, &columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_of_current_processors_has_a_meaning() {
        let models = "yonah core2 haswell skylake sapphire-rapids hybrid zen2 zen4 zen5";
        for model in models.split(' ') {
            let place = Backend::open(model).expect("a model");
            let mut ctx = Context::open(place).expect("a machine");
            let catalog = Catalog::read(&mut ctx.connection, false).expect("a catalog");
            let supported = |source: &&Source| source.flags & Source::SUPPORTED != 0;
            for source in catalog.sources.iter().filter(supported) {
                let name = source.name.as_str();
                assert!(meaning(name).is_some(), "{model}: {name}");
            }
        }
    }
}
