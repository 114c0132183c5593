//! Does the picture show the report, and do the keys change it?

use super::*;
use crate::command::report::tests::example;
use crate::screen::{WIDTHS, assert_screen};
use halprof_profile::report::key::Value;
use halprof_profile::report::{Row, Sum};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn state(report: Report) -> State {
    let told = Told {
        modelled: true,
        machine: "a machine".to_owned(),
    };
    let mut state = State::new(&told, Duration::from_secs(1));
    state.take(Duration::from_secs(12), report);
    state
}

fn drawn(state: &State, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
    let look = Look::new(true, true);
    let frame = terminal.draw(|frame| draw(frame, state, &look));
    frame.expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |row| {
        let cells = (0..columns).map(|column| buffer[(column, row)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..rows).map(line).collect()
}

fn press(state: &mut State, key: KeyCode) -> bool {
    state.key(KeyEvent::new(key, KeyModifiers::NONE))
}

/// The same functions for two sources, `count` of them, and an event.
fn large(count: u64) -> Report {
    let mut report = example();
    let part = &mut report.tables[0].parts[0];
    let row = |number: u64| Row {
        values: vec![Value::Symbol {
            module: "a.exe".into(),
            symbol: Some(format!("function{number}\u{1b}[2J").into()),
        }],
        sum: Sum {
            samples: count - number,
            events: 0,
        },
    };
    part.rows = (0..count).map(row).collect();
    let mut other = part.clone();
    other.source = Some("CacheMisses".into());
    report.tables[0].parts.push(other);
    report.sources.push(report.sources[0].clone());
    report
}

#[test]
fn screens_are_as_expected() {
    for columns in WIDTHS {
        let mut report = example();
        let told = report.recording.statistics.as_mut().expect("statistics");
        (told.throttled, told.longest_period) = (3, 2_000_000);
        let text = drawn(&state(report), columns as u16, 16).join("\n") + "\n";
        assert_screen(&format!("top-samples-{columns}"), &text);
    }
}

#[test]
fn keys_choose_rows_and_sources() {
    let mut state = state(large(100));
    let first = |state: &State| {
        let lines = drawn(state, 100, 20);
        let rows = lines.iter().find(|line| line.contains("function"));
        let row = rows.expect("a row").rsplit("function").next();
        row.map(|name| name.split('\\').next().unwrap_or_default().to_owned())
            .expect("a number")
    };
    assert_eq!(first(&state), "0");
    for (key, row) in [
        (KeyCode::Down, "1"),
        (KeyCode::PageDown, "11"),
        (KeyCode::Up, "10"),
        (KeyCode::End, "90"),
        (KeyCode::Down, "90"),
        (KeyCode::Up, "89"),
        (KeyCode::Home, "0"),
        (KeyCode::Up, "0"),
    ] {
        assert!(!press(&mut state, key));
        assert_eq!(first(&state), row, "{key:?}");
    }
    assert!(drawn(&state, 100, 20).contains(&"TotalCycles".to_owned()));
    press(&mut state, KeyCode::Right);
    press(&mut state, KeyCode::Right);
    assert!(drawn(&state, 100, 20).contains(&"CacheMisses".to_owned()));
    press(&mut state, KeyCode::Left);
    assert!(drawn(&state, 100, 20).contains(&"TotalCycles".to_owned()));
    // An interval with fewer rows and sources does not change what is looked at, but keys go on
    // from what it shows.
    press(&mut state, KeyCode::Right);
    press(&mut state, KeyCode::End);
    state.take(Duration::from_secs(13), large(15));
    assert_eq!(first(&state), "5");
    state.take(Duration::from_secs(13), example());
    assert!(!drawn(&state, 100, 20).contains(&"CacheMisses".to_owned()));
    state.take(Duration::from_secs(13), large(100));
    assert_eq!(first(&state), "90");
    assert!(drawn(&state, 100, 20).contains(&"CacheMisses".to_owned()));
    state.take(Duration::from_secs(13), large(15));
    press(&mut state, KeyCode::Up);
    assert_eq!(first(&state), "4");
    press(&mut state, KeyCode::End);
    state.take(Duration::from_secs(13), example());
    press(&mut state, KeyCode::Left);
    state.take(Duration::from_secs(13), large(15));
    assert!(drawn(&state, 100, 20).contains(&"TotalCycles".to_owned()));
    press(&mut state, KeyCode::Right);
    press(&mut state, KeyCode::End);
    state.take(Duration::from_secs(13), example());
    let lines = drawn(&state, 100, 20);
    let mut rows = lines.iter().filter(|line| line.contains(" %  "));
    assert!(
        rows.nth(1)
            .is_some_and(|row| row.contains("game.exe!world")),
        "{lines:#?}"
    );
}

#[test]
fn a_pause_keeps_the_picture() {
    let mut state = state(example());
    assert!(!press(&mut state, KeyCode::Char(' ')));
    state.take(Duration::from_secs(13), large(3));
    let lines = drawn(&state, 100, 20);
    assert!(lines[0].starts_with("MODELLED PAUSED 12 s"), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("function0")));
    press(&mut state, KeyCode::Char('p'));
    state.take(Duration::from_secs(14), large(3));
    let lines = drawn(&state, 100, 20);
    assert!(lines[0].starts_with("MODELLED 14 s"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("function0")));
    assert!(press(&mut state, KeyCode::Char('q')));
}

#[test]
fn nothing_is_too_small_or_too_large() {
    let mut state = state(large(3000));
    for key in [KeyCode::Home, KeyCode::End, KeyCode::Char('?')] {
        press(&mut state, key);
        for columns in [0, 1, 2, 11, 20, 80, 500] {
            for rows in [0, 1, 2, 3, 5, 16, 60] {
                drawn(&state, columns, rows);
            }
        }
    }
}
