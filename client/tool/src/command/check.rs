//! `halprof check`: whether sources can run together, on which counters, or why not.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::table::{Column, Field, Record, Width, records_by_processor};
use crate::results::errata::{self, EventErrata};
use crate::select::event_set::{EventSet, Purpose};
use crate::select::trace_plan::TraceSources;
use crate::select::warnings::warnings;
use crate::target::context::Context;
use crate::target::limits;
use halprof_measure::Fit;
use halprof_measure::catalog::format_counters;
use halprof_measure::errata::Erratum;
use halprof_measure::selection::EventSpec;
use halprof_measure::tracing::session::plan;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use shared_types::request::source::Placement;
use shared_types::{Concern, ErrorCode, ProfileSource};

#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct CheckResult {
    fits: bool,
    /// A stable code if they do not fit.
    reason: Option<&'static str>,
    explanation: String,
    assignment: Vec<Assignment>,
    notes: Vec<Note>,
    /// Why the answer is worth less than it looks.
    warnings: Vec<String>,
}

/// A constraint on a source.
#[derive(Clone, PartialEq, Eq, JsonSchema, Serialize)]
struct Note {
    source: String,
    text: String,
}

#[derive(Clone, JsonSchema, Serialize)]
struct Assignment {
    source: String,
    processor: u32,
    /// The index among counters of its kind; null for the timer, and if there is none.
    counter: Option<u16>,
    /// It takes the next counter too.
    pair: bool,
    kind: &'static str,
    /// The slice of time in which it runs; null if it runs in every slice.
    slice: Option<u16>,
    /// Why this processor cannot count it.
    error: Option<&'static str>,
    /// The vendor's errata that concern it there.
    errata: Vec<Erratum>,
}

pub(crate) fn run(options: &args::Check, ctx: &mut Context, output: &Output) -> Result<u32> {
    limits::refuse(ctx.method, "check", &options.selection.limited())?;
    let (result, status) = match &mut ctx.tracing {
        Some(tracing) => {
            let offer = TraceSources::of(tracing.as_mut())?;
            traced(options, &offer).map_err(|error| ctx.without_counters(error))?
        }
        None => planned(options, ctx)?,
    };
    output.warn_all(&result.warnings);
    let rows = result.assignment.as_slice();
    output.rows("check", (&result, rows), |result| text(result, output.width()))?;
    Ok(status)
}

/// Whether one session of Windows' own tracing counts them all; on which counters it does not say.
fn traced(options: &args::Check, offer: &TraceSources) -> Result<(CheckResult, u32)> {
    let events = offer.counted(&options.selection)?;
    let sessions = plan::sessions(&events, offer.counters, true)?.len();
    let fits = sessions <= 1;
    let explanation = match sessions {
        0 | 1 => "Windows counts all at once, if no other program holds counters.".to_owned(),
        _ => format!(
            "Windows counts at most {} at once: they need {sessions} runs, one after the other.",
            offer.counters.unwrap_or(plan::COUNTERS)
        ),
    };
    let result = CheckResult {
        fits,
        reason: (!fits).then(|| ErrorCode::DoesNotFit.code()),
        explanation,
        ..CheckResult::default()
    };
    Ok((result, 0))
}

fn planned(options: &args::Check, ctx: &mut Context) -> Result<(CheckResult, u32)> {
    let event_set = EventSet::new(&options.selection, ctx, Purpose::Count)?;
    let planned = ctx.connection.plan(&event_set.setup());
    let (mut result, status) = match planned.map_err(|error| event_set.explain(error)) {
        Ok(fit) => {
            let sets = [event_set.indexes()];
            let errata = EventErrata::new(&event_set, &sets, false, &mut ctx.connection)?;
            (of_fit(&event_set, &fit, &errata), 0)
        }
        Err(error) if is_misfit(error.code()) => {
            let result = CheckResult {
                reason: Some(error.code()),
                explanation: format!("{error}. {}", error.hint()),
                ..CheckResult::default()
            };
            (result, error.exit_status())
        }
        Err(error) => return Err(error),
    };
    result.notes = notes(&event_set);
    let processors = ctx.machine.processors.iter();
    if processors.clone().any(|one| one.flags & Processor::HV1_USES_COUNTERS != 0) {
        result.notes.push(Note {
            source: "Hyper-V".to_owned(),
            text:
                "the hypervisor itself uses performance counters (CPUID 40000006h EAX[2]): counts \
                   here can be low"
                    .to_owned(),
        });
    }
    result.warnings = warnings(&options.selection, ctx);
    result.warnings.extend(event_set.unknown_constraints());
    Ok((result, status))
}

/// Whether an error says that the sources do not fit beside each other, which is an answer here.
fn is_misfit(code: &str) -> bool {
    let is_one =
        |one: &&ErrorCode| matches!(one.concerns(), Concern::Placement | Concern::Counters);
    ErrorCode::ALL.iter().filter(is_one).any(|one| one.code() == code)
}

fn of_fit(event_set: &EventSet, fit: &Fit, errata: &EventErrata) -> CheckResult {
    let slices = fit
        .placements
        .iter()
        .flatten()
        .filter(|placement| placement.slice != Placement::EVERY_SLICE)
        .map(|placement| placement.slice + 1)
        .max()
        .unwrap_or(1);
    let mut assignment = Vec::new();
    for processor in event_set.selected() {
        let placements = fit.placements.get(usize::from(processor.cpu_type));
        let mut first = 0;
        for (index, event) in event_set.events.iter().enumerate() {
            let spec = event_set.catalog().spec_on(event, processor.cpu_type).unwrap_or(0);
            let placement = placements.and_then(|placements| placements.get(first + spec));
            assignment.extend(placement.map(|one| Assignment {
                errata: errata.of(index, [processor]),
                ..row(&event.label, processor.index, *one)
            }));
            first += event.specs.len();
        }
    }
    let partly = assignment.iter().any(|row| row.error.is_some());
    let is_alone = |event: &&EventSpec| event.common().flags & Spec::ALONE != 0;
    let alone = event_set.events.iter().find(is_alone);
    let explanation = match (fit.fits, partly, alone) {
        (true, ..) => "All run at once on every processor.".to_owned(),
        (false, true, _) => "Not every processor can count every source.".to_owned(),
        (false, false, Some(alone)) => format!(
            "{} is counted alone: the sources would take turns in {slices} slices, and counts \
             would be estimates.",
            alone.label
        ),
        (false, false, None) => format!(
            "There are not enough counters for all at once: the sources would take turns in \
             {slices} slices, and counts would be estimates."
        ),
    };
    CheckResult {
        fits: fit.fits,
        reason: (!fit.fits).then(|| ErrorCode::DoesNotFit.code()),
        explanation,
        assignment,
        ..CheckResult::default()
    }
}

/// Remarks on each event besides its counter: its constraints.
fn notes(event_set: &EventSet) -> Vec<Note> {
    let mut notes = Vec::new();
    for event @ EventSpec { label, specs, .. } in &event_set.events {
        let mut note = |text: String| {
            let note = Note { source: label.clone(), text };
            if !notes.contains(&note) {
                notes.push(note);
            }
        };
        for spec in specs {
            if spec.source == ProfileSource::RAW.0 && spec.counters != Spec::ANY_COUNTER {
                note(format!(
                    "counted only by general counters: {}",
                    format_counters(spec.counters)
                ));
            }
        }
        if event.common().flags & Spec::ALONE != 0 {
            note("nothing else can be counted at the same time".to_owned());
        }
    }
    notes
}

fn row(source: &str, processor: u32, placement: Placement) -> Assignment {
    let error = ErrorCode::from_wire(placement.error).map(ErrorCode::code);
    let (kind, counter) = match placement.counter {
        _ if error.is_some() => ("none", None),
        Placement::TIMER => ("timer", None),
        general if placement.is_pair() => ("general", Some(general - Placement::PAIR)),
        fixed if fixed >= Placement::FIXED => ("fixed", Some(fixed - Placement::FIXED)),
        general => ("general", Some(general)),
    };
    Assignment {
        source: source.to_owned(),
        processor,
        counter,
        pair: placement.is_pair(),
        kind,
        slice: (placement.slice != Placement::EVERY_SLICE).then_some(placement.slice),
        error,
        errata: Vec::new(),
    }
}

impl Record for Assignment {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::name("source"), |row| row.source.clone()),
        Field::new(Column::word("counter"), |row| match (row.error, row.counter) {
            (Some(error), _) => error.to_owned(),
            (None, Some(counter)) if row.pair => {
                format!("{} {counter} and {}", row.kind, counter + 1)
            }
            (None, Some(counter)) => format!("{} {counter}", row.kind),
            (None, None) => row.kind.to_owned(),
        }),
        Field::new(Column::number("slice"), |row| match row.slice {
            Some(slice) => (slice + 1).to_string(),
            None => "every".to_owned(),
        }),
        Field::new(Column::name("processors"), |_| String::new()),
    ];
}

fn text(result: &CheckResult, width: Width) -> String {
    let verdict = if result.fits { "fits" } else { "does not fit" };
    let mut text = width.prose(0, &format!("{verdict}: {}", result.explanation)) + "\n";
    if !result.assignment.is_empty() {
        text += "\n";
        text +=
            &records_by_processor(width, (3, |row: &Assignment| row.processor), &result.assignment);
    }
    for (index, note) in result.notes.iter().enumerate() {
        let before = if index == 0 { "\n" } else { "" };
        let note = format!("{}: {}.", note.source, note.text);
        text += &format!("{before}{}\n", width.prose(0, &note));
    }
    let rows = result.assignment.iter();
    text + &width
        .fitted(&errata::text(rows.map(|row| (row.source.as_str(), row.errata.as_slice()))))
}
