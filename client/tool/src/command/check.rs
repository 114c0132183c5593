//! `halprof check`: whether sources can run together, on which counters, or why not.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::table::{Column, Width, table};
use crate::select::event_set::{EventSet, Purpose};
use crate::target::context::Context;
use halprof_measure::Fit;
use halprof_measure::catalog::format_counters;
use halprof_measure::selection::{EventSpec, format_processors};
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::session::Spec;
use shared_types::request::source::Placement;
use shared_types::{ErrorCode, ProfileSource};

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    fits: bool,
    /// A stable code if they do not fit.
    reason: Option<&'static str>,
    explanation: String,
    assignment: Vec<Row>,
    notes: Vec<Note>,
    /// Why the answer is worth less than it looks.
    warnings: Vec<String>,
}

/// A constraint on a source, or an erratum.
#[derive(Clone, PartialEq, Eq, JsonSchema, Serialize)]
struct Note {
    source: String,
    text: String,
}

#[derive(Clone, JsonSchema, Serialize)]
struct Row {
    source: String,
    processor: u32,
    /// The index among counters of its kind; null for the timer, and if there is none.
    counter: Option<u16>,
    kind: &'static str,
    /// The turn of the rotation; null if it runs in every turn.
    turn: Option<u16>,
    /// Why this processor cannot count it.
    error: Option<&'static str>,
}

pub(crate) fn run(options: &args::Check, ctx: &mut Context, output: &Output) -> Result<u8> {
    let event_set = EventSet::new(&options.selection, ctx, Purpose::Count)?;
    let planned = ctx.connection.plan(&event_set.setup());
    let (mut body, status) = match planned.map_err(|error| event_set.explain(error)) {
        Ok(fit) => (answer(&event_set, &fit), 0),
        Err(error) if error.code() == ErrorCode::DoesNotFit.code() => {
            let reason = error.code();
            let body = Body {
                fits: false,
                reason: Some(reason),
                explanation: format!("{error}. {}", error.hint()),
                assignment: Vec::new(),
                notes: notes(&event_set),
                warnings: Vec::new(),
            };
            (body, error.exit_status())
        }
        Err(error) => return Err(error),
    };
    body.warnings.extend(ctx.only_time(&options.selection));
    body.warnings.extend(ctx.one_list(&options.selection));
    for warning in &body.warnings {
        output.warn(warning);
    }
    let rows = body.assignment.as_slice();
    output.rows("check", ctx.told.modelled, (&body, rows), |body| text(body, output.width()))?;
    Ok(status)
}

fn answer(event_set: &EventSet, fit: &Fit) -> Body {
    let turns = fit
        .kinds
        .iter()
        .flatten()
        .filter(|placement| placement.turn != Placement::EVERY_TURN)
        .map(|placement| placement.turn + 1)
        .max()
        .unwrap_or(1);
    let mut assignment = Vec::new();
    for processor in event_set.selected() {
        let placements = fit.kinds.get(usize::from(processor.kind));
        let mut first = 0;
        for event in &event_set.events {
            let spec = event_set.catalog().spec_on(event, processor.kind).unwrap_or(0);
            let placement = placements.and_then(|placements| placements.get(first + spec));
            assignment.extend(placement.map(|one| row(&event.label, processor.index, *one)));
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
            "{} is counted alone: they would take turns, {turns} of them, and counts would be estimates.",
            alone.label
        ),
        (false, false, None) => format!(
            "There are not enough counters for all at once: they would take turns, {turns} of them, and counts would be estimates."
        ),
    };
    Body {
        fits: fit.fits,
        reason: (!fit.fits).then(|| ErrorCode::DoesNotFit.code()),
        explanation,
        assignment,
        notes: notes(event_set),
        warnings: Vec::new(),
    }
}

/// Remarks on each event besides its counter: its constraints, and the vendor's errata.
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
                let counters = format_counters(spec.counters);
                note(match spec.counters.count_ones() {
                    1 => format!("only general counter {counters} counts it"),
                    _ => format!("only general counters {counters} count it"),
                });
            }
        }
        if event.common().flags & Spec::ALONE != 0 {
            note("nothing else can be counted at the same time".to_owned());
        }
        let name = label.split(':').next().unwrap_or_default();
        let found = event_set.catalog().event(name);
        for (_, event, _) in found.iter().flat_map(|found| &found.encodings) {
            if !event.errata.is_empty() {
                note(format!("the vendor names errata: {}", event.errata));
            }
        }
    }
    notes
}

fn row(source: &str, processor: u32, placement: Placement) -> Row {
    let error = ErrorCode::from_wire(placement.error).map(ErrorCode::code);
    let (kind, counter) = match placement.counter {
        _ if error.is_some() => ("none", None),
        Placement::TIMER => ("timer", None),
        fixed if fixed >= Placement::FIXED => ("fixed", Some(fixed - Placement::FIXED)),
        general => ("general", Some(general)),
    };
    Row {
        source: source.to_owned(),
        processor,
        counter,
        kind,
        turn: (placement.turn != Placement::EVERY_TURN).then_some(placement.turn),
        error,
    }
}

fn text(body: &Body, width: Width) -> String {
    let answer = if body.fits { "fits" } else { "does not fit" };
    let head = width.prose(0, &format!("{answer}: {}", body.explanation)) + "\n";
    let note = |note: &Note| {
        let text = format!("{}: {}.", note.source, note.text);
        width.prose(0, &text) + "\n"
    };
    let notes: String = body.notes.iter().map(note).collect();
    let notes = if notes.is_empty() { notes } else { format!("\n{notes}") };
    if body.assignment.is_empty() {
        return head + &notes;
    }
    // Processors with the same counters share a line.
    let mut lines: Vec<([String; 3], Vec<u32>)> = Vec::new();
    for row in &body.assignment {
        let counter = match (row.error, row.counter) {
            (Some(error), _) => error.to_owned(),
            (None, Some(counter)) => format!("{} {counter}", row.kind),
            (None, None) => row.kind.to_owned(),
        };
        let turn = row.turn.map(|turn| (turn + 1).to_string());
        let turn = turn.unwrap_or_else(|| "every".to_owned());
        let cells = [row.source.clone(), counter, turn];
        match lines.iter_mut().find(|(same, _)| *same == cells) {
            Some((_, processors)) => processors.push(row.processor),
            None => lines.push((cells, vec![row.processor])),
        }
    }
    let rows = lines.into_iter().map(|([source, counter, turn], processors)| {
        [source, counter, turn, format_processors(processors)]
    });
    let columns = [
        Column::name("source"),
        Column::word("counter"),
        Column::number("turn"),
        Column::name("processors"),
    ];
    head + "\n" + &table(width, &columns, rows) + &notes
}
