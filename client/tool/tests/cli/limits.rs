//! Does each backend refuse what the table of limits says, with its reason, and does the page say so?

use super::support::Ran;
use std::collections::BTreeMap;
use std::path::Path;

type Row = BTreeMap<String, String>;

/// What a backend cannot do.
fn limits() -> Vec<Row> {
    let text = include_str!("../../src/target/limits/limits.csv");
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let rows = reader.deserialize().map(|row| row.expect("a row"));
    rows.filter(|row: &Row| ["driver", "tracing"].contains(&row["beside"].as_str())).collect()
}

/// The message with which a command is refused on a model; empty if it is not.
fn refused(machine: &str, command: &str, row: &Row) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("--json --machine {machine} {command} {}", row["try"]);
    let ran = Ran::of(super::support::command(&line).current_dir(folder.path()));
    if ran.status == 0 { String::new() } else { ran.stdout }
}

#[test]
fn what_a_backend_cannot_do_is_refused_with_its_reason() {
    let rows = limits();
    assert!(rows.len() > 15, "{}", rows.len());
    for row in &rows {
        for command in row["commands"].split(' ') {
            let (own, other) = match row["beside"].as_str() {
                "driver" => ("skylake", "skylake,backend=etw"),
                _ => ("skylake,backend=etw", "skylake"),
            };
            let (option, why) = (&row["option"], &row["why"]);
            let error = refused(own, command, row);
            assert!(error.contains(why.as_str()), "{own} {command} {option}: {error}");
            assert!(error.contains("\"unavailable\""), "{own} {command} {option}: {error}");
            // `top` has no end of its own.
            if command != "top" {
                let error = refused(other, command, row);
                assert!(!error.contains(why.as_str()), "{other} {command} {option}: {error}");
            }
        }
    }
}

#[test]
fn the_page_on_tracing_lists_what_it_cannot_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/etw.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let rows = limits();
    let tracing = rows.iter().filter(|row| row["beside"] == "tracing");
    let expected: Vec<String> = tracing
        .map(|row| {
            let commands = row["commands"].replace(' ', "`, `");
            format!("| `{commands}` | `{}` | {} |", row["option"], row["why"])
        })
        .collect();
    assert_eq!(listed, expected);
}
