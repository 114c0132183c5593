//! `halprof check`: can these run together, on which counters, or why not.

use crate::On;
use crate::args;
use crate::choice::Choice;
use crate::output::Output;
use crate::table::{Column, Width, table};
use crate::{Error, Result};
use halprof_measure::Error as Cause;
use halprof_measure::Fit;
use halprof_measure::selection::format_processors;
use serde::Serialize;
use shared_types::ErrorCode;
use shared_types::request::source::Placement;

#[derive(Serialize)]
struct Body {
    fits: bool,
    /// A stable code where they do not fit.
    reason: Option<&'static str>,
    explanation: String,
    assignment: Vec<Row>,
}

#[derive(Clone, Serialize)]
struct Row {
    source: String,
    processor: u32,
    /// The index among counters of its kind; null for the timer and where there is none.
    counter: Option<u16>,
    kind: &'static str,
    /// Which turn of the rotation.
    turn: u16,
    /// Why this processor cannot count it.
    error: Option<&'static str>,
}

pub(crate) fn run(options: &args::Check, on: &mut On, output: &Output) -> Result<u8> {
    let choice = Choice::of(&options.selection, on, true)?;
    let planned = on.connection.plan(&choice.setup);
    let (body, status) = match planned.map_err(|error| choice.name_source(error)) {
        Ok(fit) => (answer(&choice, &fit), 0),
        Err(Error::Measure(Cause::Refused(refusal))) if refusal.code == ErrorCode::DoesNotFit => {
            let reason = refusal.code.code();
            let error = Error::refused(refusal);
            let body = Body {
                fits: false,
                reason: Some(reason),
                explanation: format!("{error}. {}", error.hint()),
                assignment: Vec::new(),
            };
            (body, error.exit_status())
        }
        Err(error) => return Err(error),
    };
    output.result("check", on.told.modelled, &body, |body| {
        text(body, output.width())
    })?;
    Ok(status)
}

fn answer(choice: &Choice, fit: &Fit) -> Body {
    let turns = fit
        .kinds
        .iter()
        .flatten()
        .map(|placement| placement.turn + 1)
        .max()
        .unwrap_or(1);
    let mut assignment = Vec::new();
    for processor in choice.selected() {
        let placements = fit.kinds.get(usize::from(processor.kind));
        for (chosen, placement) in choice.chosen.iter().zip(placements.into_iter().flatten()) {
            assignment.push(row(&chosen.label, processor.index, *placement));
        }
    }
    let partly = assignment.iter().any(|row| row.error.is_some());
    let explanation = match (fit.fits, partly) {
        (true, _) => "All run at once on every processor.".to_owned(),
        (false, true) => "Not every processor can count every source.".to_owned(),
        (false, false) => format!(
            "There are not enough counters for all at once: they would take turns, {turns} of them, and counts would be estimates."
        ),
    };
    Body {
        fits: fit.fits,
        reason: (!fit.fits).then(|| ErrorCode::DoesNotFit.code()),
        explanation,
        assignment,
    }
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
        turn: placement.turn,
        error,
    }
}

fn text(body: &Body, width: Width) -> String {
    let answer = if body.fits { "fits" } else { "does not fit" };
    let head = width.prose(0, &format!("{answer}: {}", body.explanation)) + "\n";
    if body.assignment.is_empty() {
        return head;
    }
    // Processors with the same counter share a line.
    let mut lines: Vec<([String; 3], Vec<u32>)> = Vec::new();
    for row in &body.assignment {
        let counter = match (row.error, row.counter) {
            (Some(error), _) => error.to_owned(),
            (None, Some(counter)) => format!("{} {counter}", row.kind),
            (None, None) => row.kind.to_owned(),
        };
        let cells = [row.source.clone(), counter, (row.turn + 1).to_string()];
        match lines.iter_mut().find(|(same, _)| *same == cells) {
            Some((_, processors)) => processors.push(row.processor),
            None => lines.push((cells, vec![row.processor])),
        }
    }
    let rows = lines
        .into_iter()
        .map(|([source, counter, turn], processors)| {
            [source, counter, turn, format_processors(processors)]
        });
    let columns = [
        Column::name("source"),
        Column::word("counter"),
        Column::number("turn"),
        Column::name("processors"),
    ];
    head + "\n" + &table(width, &columns, rows)
}
