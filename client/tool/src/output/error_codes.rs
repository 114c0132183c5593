//! Every error code, once: the exit status, what it means, what causes it and what to do.

use serde::{Deserialize, Deserializer};
use std::sync::LazyLock;

/// The exit status of a command whose recording is incomplete: what is in it was used.
pub(crate) const INCOMPLETE: u32 = 5;

/// The exit status of a command that finds a figure worse than `--fail-above` allows.
pub(crate) const WORSE: u32 = 1;

/// What each exit status means. 101 is that of a panic too.
pub(crate) const STATUSES: [(u8, &str); 8] = [
    (0, "done; with `-- PROGRAM`, the program's own status"),
    (1, "`--fail-above`: something got worse than that"),
    (2, "bad usage"),
    (3, "no driver or machine to measure on"),
    (4, "refused: not supported, does not fit, busy"),
    (5, "a file could not be read or written, or is not what it should be"),
    (6, "the driver has a different version"),
    (101, "a bug in halprof, please report it"),
];

/// What an error code means: a row of `facts/errors.csv`, of which the wire and the library use the
/// other columns.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Code {
    /// `error.code`.
    pub(crate) name: String,
    pub(crate) status: u8,
    /// What to do, as shown with the error; empty if the errors say it themselves.
    #[serde(deserialize_with = "hint")]
    pub(crate) hint: String,
    /// What it means; empty if no command of the tool ends with it, unless the two sides do not match.
    pub(crate) meaning: String,
    /// What can cause it, with `|` between the causes.
    causes: String,
    /// What else can be done.
    more: String,
}

/// What several of them advise, by the word that stands for it in the table.
const HINTS: [(&str, &str); 2] = [
    ("REPORT", "This is a defect in the client program. Please report it with the command line."),
    ("SAME_RELEASE", "Install halprof.exe and halprof.sys of the same release."),
];

fn hint<'de, D: Deserializer<'de>>(text: D) -> Result<String, D::Error> {
    let text = String::deserialize(text)?;
    let shared = HINTS.iter().find(|(word, _)| *word == text);
    Ok(shared.map_or(text, |(_, hint)| (*hint).to_owned()))
}

/// Sorted by exit status.
pub(crate) static CODES: LazyLock<Vec<Code>> = LazyLock::new(|| {
    let text = include_str!("../../../../facts/errors.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten().collect()
});

impl Code {
    /// Whether it concerns only authors of other clients.
    pub(crate) const fn is_for_clients(&self) -> bool {
        self.meaning.is_empty()
    }

    pub(crate) fn causes(&self) -> impl Iterator<Item = &str> {
        self.causes.split('|').map(str::trim)
    }

    /// The codes that a user of the tool can meet.
    pub(crate) fn explained() -> impl Iterator<Item = &'static Self> {
        CODES.iter().filter(|code| !code.is_for_clients())
    }

    /// The row of a code that the tool itself uses. A test holds that each has one; without it, it
    /// would be a defect of halprof, which is what the last row is for.
    pub(crate) fn of(code: &str) -> &'static Self {
        Self::find(code).unwrap_or(&CODES[CODES.len() - 1])
    }

    pub(crate) fn find(code: &str) -> Option<&'static Self> {
        CODES.iter().find(|row| row.name == code)
    }

    /// What to do: the hint shown with the error, and more.
    pub(crate) fn what_to_do(&self) -> String {
        format!("{} {}", self.hint, self.more).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::error::Error;
    use halprof_measure::{Error as Measure, Refusal};
    use shared_types::ErrorCode;
    use std::collections::BTreeSet;

    /// The texts in quotation marks in a function of a source file.
    fn quoted(source: &'static str, function: &str) -> BTreeSet<&'static str> {
        let (_, body) = source.split_once(function).expect("the function");
        let (body, _) = body.split_once("\n    }\n").expect("its end");
        let arms = body.lines().filter_map(|line| line.split_once("=> "));
        arms.filter_map(|(_, value)| value.trim().strip_prefix('"')?.split('"').next()).collect()
    }

    #[test]
    fn every_code_of_the_driver_the_tool_and_the_installation_is_explained() {
        let mut own = quoted(include_str!("../../../measure/src/error.rs"), "pub fn code(&self)");
        own.extend(quoted(include_str!("error.rs"), "pub fn code(&self)"));
        assert!(own.len() >= 10, "{own:?}");
        let wire = ErrorCode::ALL.iter().map(|code| code.code());
        let wanted: BTreeSet<&str> =
            own.into_iter().chain(wire).chain(halprof_setup::installation::codes()).collect();
        let explained: BTreeSet<&str> = CODES.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(explained, wanted);
        assert_eq!(explained.len(), CODES.len(), "a code stands twice");
    }

    #[test]
    fn statuses_are_those_that_the_tool_ends_with() {
        for code in ErrorCode::ALL {
            let refusal = Refusal { code: *code, subject: 0, detail: 0, source: None };
            let row = Code::find(code.code()).expect("it");
            assert_eq!(u32::from(row.status), Error::from(refusal).exit_status(), "{}", row.name);
        }
        let statuses: Vec<u8> = CODES.iter().map(|row| row.status).collect();
        assert!(statuses.is_sorted() && statuses.last() == Some(&101));
        for (error, code) in [
            (Measure::NoMachine(String::new()), "no-machine"),
            (Measure::NoModels, "no-models"),
            (Measure::Internal(String::new()), "internal"),
            (Measure::usage("", ""), "usage"),
            (Measure::Status(shared_types::NtStatus::ACCESS_DENIED), "access-denied"),
            (Measure::Status(shared_types::NtStatus(1)), "request-failed"),
        ] {
            let error = Error::from(error);
            let row = Code::find(code).expect("it");
            assert_eq!((&*row.name, u32::from(row.status)), (error.code(), error.exit_status()));
        }
    }

    #[test]
    fn each_has_causes_and_something_to_do() {
        for row in Code::explained() {
            assert!(row.meaning.ends_with('.') && row.meaning.len() > 20, "{}", row.name);
            assert!(row.causes().all(|cause| cause.len() > 4), "{}", row.name);
            let what = row.what_to_do();
            assert!(what.ends_with('.') || what.ends_with(")."), "{}: {what}", row.name);
        }
    }

    #[test]
    fn the_document_of_exit_statuses_has_them_where_they_are() {
        let text = include_str!("../../../../docs/cli.md");
        for row in text.lines().filter(|line| line.starts_with("| ")) {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let Some(status) = cells.next().and_then(|cell| cell.parse::<u8>().ok()) else {
                continue;
            };
            assert!(STATUSES.contains(&(status, cells.next().unwrap_or_default())), "{row}");
            let examples = cells.next().unwrap_or_default();
            for code in examples.split('`').skip(1).step_by(2).filter(|text| text.contains('-')) {
                assert_eq!(Code::find(code).map(|row| row.status), Some(status), "{code}");
            }
        }
    }
}
