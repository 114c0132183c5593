//! What goes to standard output and to standard error, for people and for programs.

use super::args::Arguments;
use crate::{Error, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};
use textwrap::WordSplitter;

/// How to say what is to be said.
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    /// What an error says before anybody has answered.
    modelled: bool,
}

/// What every result says of its machine.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Whether it is modelled, and no silicon.
    pub(crate) modelled: bool,
    /// What it is.
    pub(crate) machine: String,
}

/// One JSON object: the command's own fields behind those of every command.
#[derive(Serialize)]
struct Object<T> {
    schema: String,
    modelled: bool,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
struct Failure<'a> {
    error: FailureBody<'a>,
}

#[derive(Serialize)]
struct FailureBody<'a> {
    code: &'a str,
    message: String,
    hint: String,
}

impl Output {
    pub(crate) fn new(arguments: &Arguments) -> Self {
        Self {
            json: arguments.json,
            quiet: arguments.quiet,
            modelled: arguments.machine() != "driver",
        }
    }

    /// For errors before the arguments are known.
    pub(crate) const fn json(modelled: bool) -> Self {
        Self {
            json: true,
            quiet: true,
            modelled,
        }
    }

    /// Whether JSON is wanted.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// The JSON object of a result.
    pub(crate) fn object(command: &str, modelled: bool, body: impl Serialize) -> Result<String> {
        let object = Object {
            schema: format!("halprof/{command}/1"),
            modelled,
            body,
        };
        serde_json::to_string_pretty(&object)
            .map(|text| text + "\n")
            .map_err(|error| Error::Internal(error.to_string()))
    }

    /// Prints a result: as JSON, or as `text` words it.
    pub(crate) fn result<T: Serialize>(
        &self,
        command: &str,
        modelled: bool,
        body: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        if self.json {
            self.print(&Self::object(command, modelled, body)?)
        } else {
            self.print(&text(body))
        }
    }

    /// Prints to standard output. Who has stopped listening has heard enough.
    #[expect(
        clippy::unused_self,
        reason = "all that is printed is printed by an Output"
    )]
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        let mut stdout = io::stdout().lock();
        match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
            _ => Ok(()),
        }
    }

    /// Says on standard error that a machine is modelled; nothing silences this.
    #[expect(
        clippy::unused_self,
        reason = "all that is printed is printed by an Output"
    )]
    pub(crate) fn note_model(&self, told: &Told) {
        if told.modelled {
            note(&format!("modelled machine: {}; not silicon", told.machine));
        }
    }

    /// Says something beside the result, to people only.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            note(text);
        }
    }

    /// Ends with an error.
    pub(crate) fn fail(&self, error: &Error) -> ExitCode {
        if self.json {
            let body = Failure {
                error: FailureBody {
                    code: error.code(),
                    message: error.to_string(),
                    hint: error.hint(),
                },
            };
            let object = Self::object("error", self.modelled, body);
            let _ = object.and_then(|text| self.print(&text));
        } else {
            note(&format!("error: {error}\nhint: {}", error.hint()));
        }
        ExitCode::from(error.exit_status())
    }

    /// A progress line on a terminal; hidden elsewhere, with `--quiet` and with `--json`.
    pub(crate) fn progress(&self) -> ProgressBar {
        if self.quiet || self.json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }
}

fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "halprof: {text}");
}

/// A table for people: a head, rows, and which columns stand at the right.
pub(crate) fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
    right: &[usize],
) -> String {
    let mut builder = Builder::default();
    builder.push_record(head);
    aligned(builder, rows, right)
}

/// A table of as many columns as its head has.
pub(crate) fn table_of<'a>(
    head: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
    right: &[usize],
) -> String {
    let mut builder = Builder::default();
    builder.push_record(head);
    aligned(builder, rows, right)
}

/// A table without a head.
pub(crate) fn lines(
    rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
    right: &[usize],
) -> String {
    aligned(Builder::default(), rows, right)
}

fn aligned(
    mut builder: Builder,
    rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
    right: &[usize],
) -> String {
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::blank());
    for &column in right {
        table.with(Modify::new(Columns::one(column)).with(Alignment::right()));
    }
    let lines = table.to_string();
    let trimmed: Vec<&str> = lines.lines().map(str::trim_end).collect();
    trimmed.join("\n") + "\n"
}

/// Text in lines of so many columns, broken between words only.
pub(crate) fn wrapped_to(columns: usize, text: &str) -> String {
    let options = textwrap::Options::new(columns);
    textwrap::fill(text, options.word_splitter(WordSplitter::NoHyphenation))
}

/// A number with its thousands parted: `1,234,567`.
pub(crate) fn thousands(value: impl Into<u128>) -> String {
    let digits = value.into().to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

/// Nanoseconds in seconds: `1.234567 s`.
pub(crate) fn seconds(nanoseconds: impl Into<u128>) -> String {
    let nanoseconds = nanoseconds.into();
    let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    format!("{}.{:06} s", thousands(whole), rest / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_parted() {
        for (value, text) in [
            (0u128, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1 << 64, "18,446,744,073,709,551,616"),
        ] {
            assert_eq!(thousands(value), text);
        }
        assert_eq!(seconds(1_234_567_899u64), "1.234567 s");
    }
}
