//! Does the picture show the state, on a terminal of any size?

use super::*;
use crate::command::report::text::tests::example;
use crate::command::top::sampled;
use crate::command::top::state::tests::{picture, state, table};
use crate::screen::{WIDTHS, assert_screen};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use std::time::Duration;

/// Three sources for three seconds.
fn counted() -> State {
    let mut state = state(true);
    for second in 1..=3 {
        let rows = [
            ("TotalIssues", 1000.0 * f64::from(second as u32)),
            ("CacheMisses", 12_000.0),
            ("BranchInstructions", 30.0),
        ];
        let mut picture = picture(second, vec![table("", &rows)]);
        picture.below = vec!["4.000 last-level cache misses per 1000 instructions".to_owned()];
        state.take(picture);
    }
    state
}

/// A recording with losses and lengthened periods.
fn sampled() -> State {
    let mut report = example();
    let told = report.recording.statistics.as_mut().expect("statistics");
    (told.throttled, told.longest_period) = (3, 2_000_000);
    let mut state = state(true);
    state.take(sampled::picture(Duration::from_secs(12), &report));
    state
}

#[test]
fn screens_are_as_expected() {
    for columns in WIDTHS {
        for (name, state) in [("top", counted()), ("top-samples", sampled())] {
            let text = lines(&state, columns as u16, 16).join("\n") + "\n";
            assert_screen(&format!("{name}-{columns}"), &text, columns);
        }
    }
}

fn drawn(state: &State, look: &Look, columns: u16, rows: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
    terminal.draw(|frame| draw(frame, state, look)).expect("drawn");
    terminal.backend().buffer().clone()
}

fn lines(state: &State, columns: u16, rows: u16) -> Vec<String> {
    let buffer = drawn(state, &Look::new(true, true), columns, rows);
    let line = |row| {
        let cells = (0..columns).map(|column| buffer[(column, row)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..rows).map(line).collect()
}

fn press(state: &mut State, key: KeyCode) {
    state.key(KeyEvent::new(key, KeyModifiers::NONE));
}

#[test]
fn the_title_says_what_the_keys_have_changed() {
    let mut state = counted();
    for (key, title) in [
        (KeyCode::Char('s'), "MODELLED 3 s, every 1 s, by rate/s, a machine"),
        (KeyCode::Char('r'), "MODELLED 3 s, every 1 s, by rate/s reversed, a machine"),
        (KeyCode::Char(' '), "MODELLED PAUSED 3 s, every 1 s, by rate/s reversed, a machine"),
    ] {
        press(&mut state, key);
        assert_eq!(lines(&state, 80, 16)[0], title);
    }
}

#[test]
fn nothing_is_too_small_or_too_large() {
    let look = Look::new(false, false);
    let names: Vec<String> = (0..3000).map(|row| format!("Source{row}")).collect();
    let rows: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
    let mut largest = state(true);
    largest.machine = "m".repeat(300);
    largest.take(picture(1, vec![table("a source", &rows)]));
    for mut state in [state(false), counted(), sampled(), largest] {
        for key in [KeyCode::Home, KeyCode::End, KeyCode::Char('s'), KeyCode::Char('?')] {
            press(&mut state, key);
            for columns in [0, 1, 2, 11, 20, 80, 500] {
                for rows in [0, 1, 2, 3, 5, 16, 60] {
                    drawn(&state, &look, columns, rows);
                }
            }
        }
    }
}

#[test]
fn without_colours_there_is_none() {
    let mut warned = sampled();
    press(&mut warned, KeyCode::Char('p'));
    let colours = |look: &Look| {
        let buffer = drawn(&warned, look, 80, 24);
        let mut cells = buffer.content.iter();
        cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(colours(&Look::new(true, true)));
    assert!(!colours(&Look::new(false, true)));
}

#[test]
fn the_old_console_gets_signs_that_its_font_has() {
    let buffer = drawn(&counted(), &Look::new(true, false), 80, 24);
    let known = |symbol: &str| symbol.is_ascii() || "\u{2584}\u{2588}".contains(symbol);
    assert_eq!(buffer.content.iter().find(|cell| !known(cell.symbol())).map(Cell::symbol), None);
    assert!(buffer.content.iter().any(|cell| cell.symbol() == "\u{2588}"));
}
