//! Does the picture show the state, on a terminal of any size?

use super::*;
use crate::command::top::state::tests::{alike, example, hybrid};
use crate::screen::{WIDTHS, assert_screen};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

#[test]
fn screens_are_as_expected() {
    for columns in WIDTHS {
        let text = lines(&example(true), columns as u16, 24).join("\n") + "\n";
        assert_screen(&format!("top-{columns}"), &text);
    }
}

fn drawn(state: &State, look: &Look, columns: u16, rows: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
    terminal
        .draw(|frame| draw(frame, state, look))
        .expect("drawn");
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

fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        state.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    }
}

fn line<'a>(lines: &'a [String], begins: &str) -> &'a str {
    let mut found = lines.iter().map(String::as_str);
    let found = found.find(|line| line.trim_start().starts_with(begins));
    found.unwrap_or_else(|| panic!("no {begins}: {lines:#?}"))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn a_usual_terminal_has_everything() {
    for (columns, rows) in [(80, 24), (200, 50)] {
        let lines = lines(&example(true), columns, rows);
        assert!(
            lines[0].starts_with("MODELLED 1 s, every 1 s, a machine"),
            "{lines:#?}"
        );
        let issues = words(line(&lines, "TotalIssues"));
        assert_eq!(issues[..4], ["TotalIssues", "3.000", "k", "3,000"]);
        // One reading gives one bar.
        assert_eq!(issues.get(4).map(|bar| bar.chars().count()), Some(1));
        assert_eq!(words(line(&lines, "CacheMisses"))[1..3], ["12.00", "k"]);
        line(&lines, "TotalIssues, all processors, events a second");
        line(&lines, "3.300 k");
        assert!(lines.iter().any(|line| line.trim_end().ends_with("now")));
        assert!(lines[usize::from(rows) - 1].starts_with("q quit  space pause"));
    }
}

#[test]
fn processors_have_a_row_each_below_all_of_them() {
    let mut state = example(false);
    press(&mut state, "v");
    let lines = lines(&state, 80, 24);
    assert!(lines[0].starts_with("1 s, every 1 s, a machine"));
    assert!(lines[1].contains("TotalIssues") && lines[1].contains("BranchInstructions"));
    for (row, numbers) in [
        (2, ["all", "3.000", "k", "12.00", "k", "30.00"]),
        (3, ["0", "1.000", "k", "5.000", "k", "10.00"]),
        (4, ["1", "2.000", "k", "7.000", "k", "20.00"]),
    ] {
        assert_eq!(words(&lines[row]), numbers);
    }
}

#[test]
fn types_of_core_have_rows_of_their_own() {
    let lines = lines(&hybrid(), 80, 24);
    for (row, cells) in [
        (2, ["TotalIssues", "performance", "1.000", "k", "1,000"]),
        (3, ["TotalIssues", "efficiency", "2.000", "k", "2,000"]),
        (4, ["CacheMisses", "performance", "5.000", "k", "5,000"]),
        (5, ["CacheMisses", "efficiency", "7.000", "k", "7,000"]),
    ] {
        assert_eq!(words(&lines[row])[..5], cells, "{lines:#?}");
    }
    line(&lines, "TotalIssues, performance cores, events a second");
}

#[test]
fn a_small_terminal_has_what_matters_most() {
    let mut state = example(true);
    press(&mut state, " ");
    let small = lines(&state, 20, 5);
    assert_eq!(small[0], "MODELLED PAUSED 1 s,");
    assert_eq!(words(&small[2]), ["TotalIssue", "3.000", "k"]);
    assert_eq!(words(&small[3]), ["CacheMisse", "12.00", "k"]);
    press(&mut state, "v");
    let small = lines(&state, 20, 5);
    assert_eq!(words(&small[1]), ["cpu▲", "TotalIssues"]);
    assert_eq!(words(&small[2]), ["all", "3.000", "k"]);
    assert_eq!(lines(&state, 1, 1), ["M"]);
}

/// A tall table and a long list, with the mark at the end of each.
fn largest() -> State {
    let told = crate::output::Told {
        modelled: true,
        machine: "m".repeat(300),
    };
    let labels: Vec<String> = (0..1000).map(|index| format!("Source{index}")).collect();
    let row = |index| super::super::state::Row {
        index,
        core: "performance",
    };
    let rows = (0..2048).map(row).collect();
    let mut state = State::new(&told, Duration::from_secs(1), labels.clone(), rows);
    state.count(labels, alike(1000));
    state
}

#[test]
fn nothing_is_too_small_or_too_large() {
    let look = Look::new(false, false);
    for mut state in [example(true), largest()] {
        for keys in ["", "v", "s", "?", "?c"] {
            press(&mut state, keys);
            state.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
            for columns in [0, 1, 2, 11, 20, 80, 500] {
                for rows in [0, 1, 2, 3, 5, 16, 60] {
                    drawn(&state, &look, columns, rows);
                }
            }
        }
    }
}

#[test]
fn the_marked_row_is_always_shown() {
    let mut state = largest();
    state.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
    line(&lines(&state, 80, 24), "Source999");
    press(&mut state, "v");
    state.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
    let shown = lines(&state, 80, 24);
    assert_eq!(words(line(&shown, "2047"))[1], "performance");
    assert!(shown[1].contains("Source999") && shown[2].trim_start().starts_with("all"));
    press(&mut state, "c");
    let list = lines(&state, 80, 24);
    assert!(list.iter().any(|line| line.contains("[x] Source0")));
}

#[test]
fn without_colours_there_is_none() {
    let colours = |look: &Look| {
        let buffer = drawn(&example(true), look, 80, 24);
        let mut cells = buffer.content.iter();
        cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(colours(&Look::new(true, true)));
    assert!(!colours(&Look::new(false, true)));
}

#[test]
fn the_old_console_gets_signs_that_its_font_has() {
    let mut state = example(true);
    press(&mut state, "v");
    let buffer = drawn(&state, &Look::new(true, false), 80, 24);
    let known = |symbol: &str| {
        symbol.is_ascii()
            || "\u{2500}\u{2502}\u{2514}\u{2580}\u{2584}\u{2588}\u{25B2}\u{25BC}".contains(symbol)
    };
    let strange = buffer.content.iter().find(|cell| !known(cell.symbol()));
    assert_eq!(strange.map(Cell::symbol), None);
}
