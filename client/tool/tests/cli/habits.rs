//! Is what users of other profilers type answered with halprof's way, and does the page say the same?

use super::support::halprof;
use std::collections::BTreeMap;
use std::path::Path;

type Row = BTreeMap<String, String>;

fn habits() -> Vec<Row> {
    let text = include_str!("../../src/cli/habits.csv");
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

/// The lines that are typed by a habit: with each command, or in place of one.
fn lines(row: &Row) -> Vec<String> {
    let typed = if row["example"].is_empty() {
        row["typed"].split(' ').next().unwrap_or_default()
    } else {
        &row["example"]
    };
    let line = |command| format!("{command} {typed}").trim_start().to_owned();
    row["commands"].split(' ').map(line).collect()
}

#[test]
fn each_is_answered_with_its_advice() {
    let rows = habits();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in &rows {
        for line in lines(row) {
            let ran = halprof(&line);
            assert_eq!(ran.status, 2, "{line}: {}", ran.stderr);
            let tip = format!("tip: {}", row["advice"]);
            assert!(ran.stderr.contains(&tip), "{line}: {}", ran.stderr);
            assert!(!ran.stderr.contains("similar"), "{line}: {}", ran.stderr);
        }
    }
}

#[test]
fn every_word_of_a_row_is_answered() {
    for row in &habits() {
        for typed in row["typed"].split(' ') {
            let command = row["commands"].split(' ').next().unwrap_or_default();
            let line = format!("{command} {typed}");
            let ran = halprof(line.trim_start());
            assert!(ran.stderr.contains(row["advice"].as_str()), "{line}: {}", ran.stderr);
        }
    }
}

#[test]
fn an_option_of_halprof_is_not_taken_for_a_habit() {
    for line in ["record -d x -g {a,b}", "record --nonsense -g {a,b}"] {
        let ran = halprof(line);
        assert!(!ran.stderr.contains("tip: "), "{line}: {}", ran.stderr);
    }
}

#[test]
fn the_page_has_every_row() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let tools = |row: &Row| {
        row["tools"]
            .replace("wperf", "WindowsPerf")
            .replace("wpr", "WPR")
            .replace("vtune", "VTune")
            .split(' ')
            .map(|tool| if tool == "perf" { "Linux perf" } else { tool }.to_owned())
            .collect::<Vec<String>>()
            .join(", ")
    };
    let expected: Vec<String> = habits()
        .iter()
        .map(|row| {
            let lines: Vec<String> = lines(row).iter().map(|line| format!("`{line}`")).collect();
            format!("| {} | {} | {} |", lines.join(", "), tools(row), row["advice"])
        })
        .collect();
    assert_eq!(listed, expected);
}
