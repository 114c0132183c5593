//! Do the keys do what the help says?

use super::*;
use shared_types::request::counts::Count;

const FREQUENCY: u64 = 1_000_000_000;

fn told(modelled: bool) -> Told {
    Told {
        modelled,
        machine: "a machine".to_owned(),
    }
}

/// A line for each source, on two processors that are alike.
pub(in crate::command::top) fn alike(sources: usize) -> Vec<Line> {
    let line = |source| Line {
        source,
        core: "",
        processors: vec![0, 1],
    };
    (0..sources).map(line).collect()
}

/// Three sources on two processors, after one reading of a second: processor 1 is busier, and
/// source 1 has the highest rate of all.
pub(in crate::command::top) fn example(modelled: bool) -> State {
    let labels = ["TotalIssues", "CacheMisses", "BranchInstructions", "Other"];
    let labels = labels.map(str::to_owned).to_vec();
    let row = |index| Row { index, core: "" };
    let rows = vec![row(0), row(1)];
    let mut state = State::new(
        &told(modelled),
        Duration::from_secs(1),
        labels.clone(),
        rows,
    );
    state.count(labels[..3].to_vec(), alike(3));
    read(&mut state, &mut Rates::new(FREQUENCY), 1);
    state
}

/// One more second, in which the first processor has `thousands` thousand events of the first
/// source.
fn read(state: &mut State, rates: &mut Rates, thousands: u64) {
    let seconds = state.latest.elapsed.as_secs() + 1;
    let count = |counted| Count {
        counted,
        enabled: seconds * FREQUENCY,
        running: seconds * FREQUENCY,
        ..Count::default()
    };
    let snapshot = vec![
        vec![count(thousands * 1000), count(5000), count(10)],
        vec![count(2000), count(7000), count(20)],
    ];
    let interval = rates.take(snapshot);
    state.take(Duration::from_secs(seconds), interval, rates);
}

fn press(state: &mut State, keys: &[KeyCode]) -> Option<Asked> {
    let press = |&key| state.key(KeyEvent::new(key, KeyModifiers::NONE));
    keys.iter().map(press).last().flatten()
}

const fn key(letter: char) -> KeyCode {
    KeyCode::Char(letter)
}

#[test]
fn s_sorts_by_the_next_column_and_r_turns_it_round() {
    let mut state = example(false);
    assert_eq!(state.sorted_lines(), [0, 1, 2]);
    // Rates: 3000, 12000, 30; names: B, C, T.
    for (letter, order) in [
        ('s', [1, 0, 2]),
        ('r', [2, 0, 1]),
        ('s', [1, 0, 2]),
        ('s', [2, 1, 0]),
        ('s', [0, 1, 2]),
        ('r', [2, 1, 0]),
    ] {
        press(&mut state, &[key(letter)]);
        assert_eq!(
            state.sorted_lines(),
            order,
            "{letter}: {:?}",
            state.sorting()
        );
    }
}

/// The first two of those, where processor 1 is an efficiency core.
pub(in crate::command::top) fn hybrid() -> State {
    let mut state = example(true);
    let both = |source| {
        ["performance", "efficiency"].map(|core| Line {
            source,
            core,
            processors: vec![usize::from(core == "efficiency")],
        })
    };
    let lines = (0..2).flat_map(both).collect();
    state.processors = ["performance", "efficiency"]
        .into_iter()
        .enumerate()
        .map(|(index, core)| Row { index, core })
        .collect();
    state.count(state.sources.clone(), lines);
    read(&mut state, &mut Rates::new(FREQUENCY), 1);
    state
}

/// What a performance core does says little of what an efficiency core does.
#[test]
fn each_type_of_core_has_lines_of_its_own() {
    let mut state = hybrid();
    let rates: Vec<f64> = (0..4)
        .filter_map(|line| Some(state.rate(line)?.per_second))
        .collect();
    assert_eq!(rates, [1000.0, 2000.0, 5000.0, 7000.0]);
    press(&mut state, &[KeyCode::Down]);
    assert_eq!((state.line, state.source()), (1, 0));
    press(&mut state, &[KeyCode::Right, KeyCode::Right]);
    assert_eq!((state.line, state.source()), (2, 1));
    press(&mut state, &[KeyCode::Left, KeyCode::Left]);
    assert_eq!((state.line, state.source()), (1, 0));
}

/// A sum over both would be the rate of no core there is, and of two kinds of event where each type
/// has its own.
#[test]
fn each_type_of_core_has_a_row_of_its_own_among_the_processors() {
    let mut state = hybrid();
    press(&mut state, &[key('v')]);
    let (fast, slow) = (Party::Core("performance"), Party::Core("efficiency"));
    let order = [fast, slow, Party::One(0), Party::One(1)];
    assert_eq!(state.sorted_processors(), order);
    assert_eq!(state.party, fast);
    assert_eq!(
        (state.members(fast), state.members(slow)),
        (vec![0], vec![1])
    );
    press(&mut state, &[KeyCode::Down]);
    assert_eq!(state.party, slow);
    press(&mut state, &[key('v')]);
    assert_eq!(state.party, Party::All);
}

#[test]
fn processors_are_sorted_by_the_marked_source_and_all_stay_first() {
    let mut state = example(false);
    press(&mut state, &[key('v')]);
    assert_eq!(
        state.sorted_processors(),
        [Party::All, Party::One(0), Party::One(1)]
    );
    press(&mut state, &[key('s')]);
    assert_eq!(
        state.sorted_processors(),
        [Party::All, Party::One(1), Party::One(0)]
    );
    press(&mut state, &[key('r')]);
    assert_eq!(
        state.sorted_processors(),
        [Party::All, Party::One(0), Party::One(1)]
    );
    // Each view has its own sort order.
    press(&mut state, &[KeyCode::Tab]);
    assert_eq!((state.view, state.sorting().by), (View::Sources, By::Given));
}

#[test]
fn the_mark_moves_with_the_rows_and_stays_on_its_own() {
    let mut state = example(false);
    press(&mut state, &[KeyCode::Down]);
    assert_eq!(state.line, 1);
    // Source 1 comes first by its rate, and stays marked.
    press(&mut state, &[key('s')]);
    assert_eq!(state.line, 1);
    press(&mut state, &[KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    assert_eq!(state.line, 2);
    press(&mut state, &[KeyCode::Home]);
    assert_eq!(state.line, 1);
    press(&mut state, &[key('v'), KeyCode::End]);
    assert_eq!(state.party, Party::One(1));
    press(&mut state, &[KeyCode::PageUp, KeyCode::Up]);
    assert_eq!(state.party, Party::All);
    press(&mut state, &[KeyCode::Left, KeyCode::Left]);
    assert_eq!(state.line, 0);
    press(
        &mut state,
        &[KeyCode::Right, KeyCode::Right, KeyCode::Right],
    );
    assert_eq!(state.line, 2);
}

#[test]
fn a_pause_stops_the_picture_and_nothing_else() {
    let mut state = example(false);
    let mut rates = Rates::new(FREQUENCY);
    press(&mut state, &[key(' ')]);
    assert!(state.is_paused());
    for thousands in 2..5 {
        read(&mut state, &mut rates, thousands);
    }
    let before = state.shown();
    assert_eq!((before.elapsed.as_secs(), before.history.len()), (1, 1));
    assert_eq!(before.totals[0].value, 3000);
    press(&mut state, &[key('p')]);
    let after = state.shown();
    assert_eq!((after.elapsed.as_secs(), after.history.len()), (4, 4));
    assert_eq!(after.totals[0].value, 6000);
}

#[test]
fn what_is_counted_is_chosen_from_a_list() {
    let mut state = example(false);
    let enter = KeyCode::Enter;
    // Nothing was changed: the same sources again.
    press(&mut state, &[key('c')]);
    let labels = state.sources.clone();
    assert_eq!(press(&mut state, &[enter]), Some(Asked::Count(labels)));
    assert!(state.choosing.is_none());
    // Without the first, with the last; `q` and Esc only close the list.
    press(&mut state, &[key('c'), key(' '), KeyCode::End, key(' ')]);
    let asked = press(&mut state, &[enter]);
    let chosen = ["CacheMisses", "BranchInstructions", "Other"].map(str::to_owned);
    assert_eq!(asked, Some(Asked::Count(chosen.to_vec())));
    for close in [key('q'), KeyCode::Esc, key('c')] {
        assert_eq!(press(&mut state, &[key('c'), key(' '), close]), None);
        assert!(state.choosing.is_none());
    }
    // An empty selection is not accepted.
    let none = [
        key('c'),
        key(' '),
        KeyCode::Down,
        key(' '),
        key('j'),
        key(' '),
        enter,
    ];
    assert_eq!(press(&mut state, &none), None);
    // Earlier readings are discarded, and the mark is on an existing row.
    press(&mut state, &[KeyCode::End]);
    state.count(vec!["Other".to_owned()], alike(1));
    assert_eq!((state.line, state.shown().history.len()), (0, 0));
    assert_eq!(state.sorted_lines(), [0]);
}

#[test]
fn q_and_ctrl_c_end_it_and_help_is_closed_by_any_key() {
    let mut state = example(false);
    assert_eq!(press(&mut state, &[key('q')]), Some(Asked::Quit));
    assert_eq!(press(&mut state, &[KeyCode::Esc]), Some(Asked::Quit));
    let control = |letter| KeyEvent::new(key(letter), KeyModifiers::CONTROL);
    assert_eq!(state.key(control('c')), Some(Asked::Quit));
    assert_eq!(state.key(control('q')), None);
    press(&mut state, &[key('?')]);
    assert!(state.help);
    assert_eq!(press(&mut state, &[key('q')]), None);
    assert!(!state.help);
    // Ctrl-C also works while the list is open.
    press(&mut state, &[key('c')]);
    assert_eq!(state.key(control('c')), Some(Asked::Quit));
}

#[test]
fn keys_do_no_harm_where_nothing_is_counted() {
    let told = told(false);
    let mut state = State::new(&told, Duration::from_secs(1), Vec::new(), Vec::new());
    let mut keys: Vec<KeyCode> = "vsrpc  jkh?cjk".chars().map(key).collect();
    keys.extend([KeyCode::Enter, KeyCode::Up, KeyCode::Down, KeyCode::End]);
    keys.extend([
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::PageDown,
        KeyCode::Tab,
    ]);
    press(&mut state, &keys);
    press(&mut state, &keys);
    assert!(state.sorted_lines().is_empty());
}
