//! Do the keys do what the help says?

use super::*;
use crate::output::table::Column;

/// A table of numbers and names.
pub(in crate::command::top) fn table(title: &str, rows: &[(&str, f64)]) -> Table {
    let row = |&(name, value): &(&str, f64)| PictureRow {
        key: format!("{title}\n{name}"),
        value: value as f32,
        cells: vec![Cell::Number(format!("{value}"), value), Cell::Name(name.to_owned())],
        trace: Vec::new(),
    };
    Table {
        title: title.to_owned(),
        columns: vec![Column::number("rate/s"), Column::name("source")],
        trace_at: 1,
        rows: rows.iter().map(row).collect(),
    }
}

pub(in crate::command::top) fn picture(seconds: u64, tables: Vec<Table>) -> Picture {
    Picture { elapsed: Duration::from_secs(seconds), tables, ..Picture::default() }
}

pub(in crate::command::top) fn state(modelled: bool) -> State {
    let machine_info = MachineInfo { modelled, description: "a machine".to_owned(), backend: None };
    State::new(&machine_info, Duration::from_secs(1))
}

const ROWS: [(&str, f64); 4] = [
    ("TotalIssues", 3000.0),
    ("CacheMisses", 12_000.0),
    ("Unknown", UNKNOWN),
    ("BranchInstructions", 30.0),
];

fn press(state: &mut State, keys: &str) -> bool {
    let press = |key| state.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    keys.chars().map(press).last().unwrap_or(false)
}

fn names(state: &State) -> Vec<String> {
    state.sorted().into_iter().map(|row| row.cells[1].text().to_owned()).collect()
}

#[test]
fn s_sorts_by_the_next_column_and_r_reverses() {
    let mut state = state(false);
    state.take(picture(1, vec![table("", &ROWS)]));
    let [given, rate, name] = ["TCUB", "CTBU", "BCTU"];
    let reversed = |order: &str| order.chars().rev().collect::<String>();
    for (key, order, sorting) in [
        ("", given.to_owned(), None),
        ("s", rate.to_owned(), Some(("rate/s", false))),
        ("r", reversed(rate), Some(("rate/s", true))),
        ("s", name.to_owned(), Some(("source", false))),
        ("s", given.to_owned(), None),
        ("r", reversed(given), None),
    ] {
        press(&mut state, key);
        let firsts = names(&state).iter().map(|name| &name[..1]).collect::<String>();
        assert_eq!((firsts, state.sorting()), (order, sorting), "{key}");
    }
}

#[test]
fn a_trace_has_the_last_intervals_of_its_row() {
    let mut state = state(false);
    let trace = |state: &State, name: &str| {
        state.sorted().iter().find(|row| row.cells[1].text() == name).expect(name).trace.clone()
    };
    state.take(picture(1, vec![table("", &[("a", 1.0), ("b", 2.0)])]));
    state.take(picture(2, vec![table("", &[("b", 4.0)])]));
    state.take(picture(3, vec![table("", &[("b", 8.0), ("a", 3.0)])]));
    assert_eq!(trace(&state, "a"), [1.0, 0.0, 3.0]);
    assert_eq!(trace(&state, "b"), [2.0, 4.0, 8.0]);
    for second in 4..40 {
        state.take(picture(second, vec![table("", &[("b", 1.0)])]));
    }
    assert_eq!(trace(&state, "b"), [1.0; INTERVALS]);
    assert_eq!(state.traces.0.len(), 1, "a row that is gone is forgotten");
}

#[test]
fn what_is_remembered_of_rows_has_a_bound() {
    let mut state = state(false);
    for second in 0..4 {
        let names: Vec<String> = (0..REMEMBERED / 2).map(|row| format!("{second} {row}")).collect();
        let rows: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
        state.take(picture(second, vec![table("", &rows)]));
        assert!(state.traces.0.len() <= REMEMBERED);
    }
}

#[test]
fn bars_are_as_high_as_their_values() {
    let bars = [' ', '1', '2', '3', '4'];
    for (trace, shown) in [
        (&[][..], ""),
        (&[0.0, 0.1, 25.0, 26.0, 100.0], " 1124"),
        (&[f32::NEG_INFINITY, 5.0], " 4"),
        (&[0.0, 0.0], "  "),
    ] {
        assert_eq!(spark(trace, &bars), format!("{shown:>INTERVALS$}"));
    }
}

#[test]
fn a_pause_keeps_the_picture_and_what_comes_is_kept() {
    let mut state = state(false);
    state.take(picture(1, vec![table("", &[("a", 1.0)])]));
    assert!(!press(&mut state, "p"));
    state.take(picture(2, vec![table("", &[("b", 1.0)])]));
    assert!(state.is_paused());
    assert_eq!(names(&state), ["a"]);
    press(&mut state, " ");
    assert_eq!(names(&state), ["b"]);
    assert!(press(&mut state, "q"));
}

#[test]
fn keys_choose_rows_and_sources() {
    let name = |n: usize| format!("function{n}");
    let functions = |count: usize| -> Vec<String> { (0..count).map(name).collect() };
    let of = |count: usize| {
        let functions = functions(count);
        let rows: Vec<(&str, f64)> = functions.iter().map(|name| (name.as_str(), 1.0)).collect();
        ["Cycles, period 7", "Misses, period 9"].map(|title| table(title, &rows)).to_vec()
    };
    let mut state = state(false);
    state.take(picture(1, of(100)));
    let look = Look::new(true, true);
    let shown = |state: &State| {
        let text = crate::output::style::plain(&state.rows(12, Width::of(Some(80)), &look));
        let mut lines = text.lines().map(str::to_owned);
        let title = lines.next().expect("a title");
        let first = lines.nth(1).expect("a row");
        let first = first.rsplit("function").next().expect("a number").to_owned();
        (title, first)
    };
    for (key, row) in [
        (KeyCode::Home, "0"),
        (KeyCode::Down, "1"),
        (KeyCode::PageDown, "11"),
        (KeyCode::Up, "10"),
        (KeyCode::End, "90"),
        (KeyCode::Down, "90"),
        (KeyCode::Up, "89"),
        (KeyCode::Home, "0"),
        (KeyCode::Up, "0"),
    ] {
        state.key(KeyEvent::new(key, KeyModifiers::NONE));
        assert_eq!(shown(&state), ("Cycles, period 7".to_owned(), row.to_owned()));
    }
    for (key, title) in [
        (KeyCode::Right, "Misses, period 9"),
        (KeyCode::Right, "Misses, period 9"),
        (KeyCode::Left, "Cycles, period 7"),
        (KeyCode::Left, "Cycles, period 7"),
        (KeyCode::Right, "Misses, period 9"),
        (KeyCode::End, "Misses, period 9"),
    ] {
        state.key(KeyEvent::new(key, KeyModifiers::NONE));
        assert_eq!(shown(&state).0, title);
    }
    // An interval with fewer rows and sources does not change what is looked at, but keys go on from
    // what it shows.
    state.take(picture(2, of(15)));
    assert_eq!(shown(&state).1, "5");
    state.take(picture(3, of(100)[..1].to_vec()));
    assert_eq!(shown(&state), ("Cycles, period 7".to_owned(), "90".to_owned()));
    state.take(picture(4, of(100)));
    assert_eq!(shown(&state), ("Misses, period 9".to_owned(), "90".to_owned()));
    state.take(picture(5, of(15)));
    state.key(KeyEvent::new(KeyCode::Up, KeyModifiers::NONE));
    assert_eq!(shown(&state).1, "4");
}
