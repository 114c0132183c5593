//! What goes to standard output and standard error, for people and for programs.

pub(crate) mod changes;
pub(crate) mod csv;
pub(crate) mod download;
pub mod error;
pub(crate) mod error_codes;
pub(crate) mod escape;
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod schema;
pub(crate) mod style;
pub(crate) mod table;

use crate::output::csv::Csv;
use crate::output::error::{Error, Result};
use crate::output::error_codes::WORSE;
use crate::output::escape::{Escaped, is_plain, visible, visible_data, visible_json};
use crate::output::style::{ERROR, HINT, WARNING, plain, styled};
use crate::output::table::Width;
use halprof_measure::Failure;
use halprof_profile::file::{Metadata, write_whole};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    /// Tables as comma-separated values.
    Csv,
    /// One JSON object.
    Json,
    /// One JSON object on each line.
    JsonLines,
}

/// What measures, as results name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BackendKind {
    /// The installed driver.
    Driver,
    /// Windows' own tracing.
    Etw,
    /// A modelled machine.
    Model,
}

/// How to print results and messages.
pub(crate) struct Output {
    form: Form,
    quiet: bool,
    width: Width,
    /// Whether a machine is modelled; `None` before one is known.
    modelled: Cell<Option<bool>>,
    /// What measures; `None` before it is known, and where nothing is measured.
    backend: Cell<Option<BackendKind>>,
    /// The modelled machine that was named last.
    model: RefCell<String>,
}

/// What every result says of its machine.
#[derive(Clone, Debug)]
pub(crate) struct MachineInfo {
    pub(crate) modelled: bool,
    pub(crate) description: String,
    /// What measures; `None` of a recording.
    pub(crate) backend: Option<BackendKind>,
}

impl MachineInfo {
    pub(crate) fn of_recording(metadata: &Metadata) -> Self {
        let Metadata { modelled, machine, .. } = metadata;
        Self::of_trace(*modelled, machine)
    }

    /// Whether a model wrote a trace, and the system that the trace names.
    pub(crate) fn of_trace(modelled: bool, system: &str) -> Self {
        Self { modelled, description: system.to_owned(), backend: None }
    }
}

/// One JSON object: the command's own fields after those of every command.
#[derive(Serialize)]
struct Object<'a, T> {
    schema: Schema<'a>,
    modelled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<BackendKind>,
    #[serde(flatten)]
    result: T,
}

/// The name of a command's schema.
struct Schema<'a>(&'a str);

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&schema::name(self.0))
    }
}

/// JSON objects that have their first fields in common, one on each line.
pub(crate) struct JsonLines {
    /// An object that does not end.
    head: Vec<u8>,
}

impl JsonLines {
    /// Appends a line with the fields of a result, of which there is at least one.
    pub(crate) fn add(&self, result: &impl Serialize, lines: &mut Vec<u8>) -> Result<()> {
        lines.extend(&self.head);
        let begin = lines.len();
        serde_json::to_writer(&mut *lines, result).map_err(Error::internal)?;
        // Its fields follow those of the head.
        if let Some(brace) = lines.get_mut(begin) {
            *brace = b',';
        }
        lines.push(b'\n');
        Ok(())
    }
}

/// An error, in place of a result.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ErrorResult {
    error: Failure,
}

impl Output {
    pub(crate) const fn new(form: Form, quiet: bool, width: Width) -> Self {
        let (modelled, backend) = (Cell::new(None), Cell::new(None));
        Self { form, quiet, width, modelled, backend, model: RefCell::new(String::new()) }
    }

    /// Text output, for errors before the arguments are parsed.
    pub(crate) const fn text() -> Self {
        Self::new(Form::Text, false, Width::UNLIMITED)
    }

    /// JSON output, for errors before the arguments are parsed.
    pub(crate) const fn json(lines: bool) -> Self {
        Self::new(if lines { Form::JsonLines } else { Form::Json }, true, Width::UNLIMITED)
    }

    /// The width of standard output in columns.
    pub(crate) const fn width(&self) -> Width {
        self.width
    }

    pub(crate) const fn form(&self) -> Form {
        self.form
    }

    /// Whether the result is for people.
    pub(crate) fn is_text(&self) -> bool {
        self.form == Form::Text
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self.form, Form::Json | Form::JsonLines)
    }

    pub(crate) fn is_csv(&self) -> bool {
        self.form == Form::Csv
    }

    /// Whether the result is of a modelled machine.
    pub(crate) fn is_modelled(&self) -> bool {
        self.modelled.get().unwrap_or(false)
    }

    /// Records a machine that the result is of: one modelled machine makes all of it modelled.
    pub(crate) fn set_modelled(&self, modelled: bool) {
        self.modelled.set(Some(modelled || self.is_modelled()));
    }

    /// The JSON object of a result, on one line if JSON lines are requested.
    pub(crate) fn document(&self, command: &str, result: impl Serialize) -> Result<String> {
        self.object(command, Some(self.is_modelled()), result)
    }

    /// The beginning of a command's JSON lines, which is the same in each.
    pub(crate) fn json_lines(&self, command: &str) -> Result<JsonLines> {
        #[derive(Serialize)]
        struct Nothing {}

        let (modelled, backend) = (Some(self.is_modelled()), self.backend.get());
        let object = Object { schema: Schema(command), modelled, backend, result: Nothing {} };
        let mut head = serde_json::to_vec(&object).map_err(Error::internal)?;
        head.pop();
        Ok(JsonLines { head })
    }

    fn object(
        &self,
        command: &str,
        modelled: Option<bool>,
        result: impl Serialize,
    ) -> Result<String> {
        let (schema, backend) = (Schema(command), self.backend.get());
        let object = Object { schema, modelled, backend, result };
        let text = match self.form {
            Form::JsonLines => serde_json::to_string(&object),
            _ => serde_json::to_string_pretty(&object),
        };
        Ok(text.map_err(Error::internal)? + "\n")
    }

    /// Prints a result: as JSON, or as `text` formats it.
    pub(crate) fn result<T: Serialize>(
        &self,
        command: &str,
        result: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        if self.is_json() {
            self.print(&self.document(command, result)?)
        } else {
            self.print(&text(result))
        }
    }

    /// Prints a result that is a table: as comma-separated values if they are requested.
    pub(crate) fn rows<T: Serialize, R: Serialize + JsonSchema>(
        &self,
        command: &str,
        (result, rows): (&T, &[R]),
        text: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        self.rows_without(&[], command, (result, rows), text)
    }

    /// Prints a table without the columns of the fields that are `absent`: they were not
    /// requested.
    pub(crate) fn rows_without<T: Serialize, R: Serialize + JsonSchema>(
        &self,
        absent: &[&str],
        command: &str,
        (result, rows): (&T, &[R]),
        text: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        self.rows_in(&Csv::new::<R>(absent), command, (result, rows), text)
    }

    /// Prints a table that has these columns as comma-separated values.
    pub(crate) fn rows_in<T: Serialize, R: Serialize>(
        &self,
        csv: &Csv,
        command: &str,
        (result, rows): (&T, &[R]),
        text: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        if self.is_csv() {
            return self.print_data(&csv.table(rows, self.is_modelled())?);
        }
        self.result(command, result, text)
    }

    /// Writes a result that is a table to a file, without escapes for terminals; prints it if there is
    /// none.
    pub(crate) fn rows_to<T: Serialize, R: Serialize + JsonSchema>(
        &self,
        file: Option<&Path>,
        command: &str,
        (result, rows): (&T, &[R]),
        text: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        let Some(file) = file else {
            return self.rows(command, (result, rows), text);
        };
        let content = match self.form {
            Form::Text => plain(&text(result)),
            Form::Csv => Csv::new::<R>(&[]).table(rows, self.is_modelled())?,
            Form::Json | Form::JsonLines => self.document(command, result)?,
        };
        Ok(write_whole(file, content.as_bytes())?)
    }

    /// Prints to standard output. If the reader has closed the pipe, that is no error.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        self.print_stream(text, false).map(drop)
    }

    /// Prints data for programs that is not JSON. Unless it goes to a terminal, it is not escaped.
    pub(crate) fn print_data(&self, text: &str) -> Result<()> {
        self.print_stream(text, true).map(drop)
    }

    /// Prints one of many parts; returns whether the reader is still there. Unless it goes to a
    /// terminal, data is not escaped.
    pub(crate) fn print_stream(&self, text: &str, is_data: bool) -> Result<bool> {
        // Only text has colours, which are for anstream to keep or to take out.
        let written = match (is_data, io::stdout().is_terminal()) {
            (true, true) => put(io::stdout().lock(), &visible_data(text)),
            (true, false) => put(io::stdout().lock(), text),
            (false, _) if self.is_json() => put(io::stdout().lock(), &visible_json(text)),
            (false, _) if is_plain(text) => put(io::stdout().lock(), text),
            (false, _) => put(anstream::stdout().lock(), &visible(text)),
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Error::Output(error)),
        }
    }

    /// Refuses to send a file to standard output where it would mix with the result, or reach a
    /// terminal.
    pub(crate) fn check_takes_file(&self) -> Result<()> {
        let why = if !self.is_text() {
            "`-o -` would mix the file with the result on standard output"
        } else if io::stdout().is_terminal() {
            "`-o -` would write the file to the terminal"
        } else {
            return Ok(());
        };
        Err(Error::usage(why, "Name a file with `-o`, or send it on: `-o - > FILE`."))
    }

    /// Says on standard error that the machine is modelled, once of several recordings of it; no option
    /// silences this.
    pub(crate) fn note_model(&self, info: &MachineInfo) {
        self.set_modelled(info.modelled);
        self.backend.set(info.backend);
        if info.modelled && self.model.replace(info.description.clone()) != info.description {
            let model = styled(WARNING, "modelled machine, not silicon:");
            self.say(&format!("{model} {}", Escaped(&info.description)));
        }
    }

    /// Prints a remark beside the result, only in text output.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.is_json() {
            self.say(&Escaped(text).to_string());
        }
    }

    /// Prints a warning about a result, even with `--quiet`: without its warning a figure would be
    /// misleading.
    pub(crate) fn warn(&self, text: &str) {
        if !self.is_json() {
            self.say(&format!("{} {}", styled(WARNING, "warning:"), Escaped(text)));
        }
    }

    pub(crate) fn warn_all<'a>(&self, warnings: impl IntoIterator<Item = &'a String>) {
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    /// Prints what has got worse than `--fail-above` allows; returns the exit status.
    pub(crate) fn judged(&self, failures: &[String]) -> u32 {
        for failure in failures.iter().filter(|_| !self.is_json()) {
            self.say(&format!("{} {}", styled(ERROR, "error:"), Escaped(failure)));
        }
        if failures.is_empty() { 0 } else { WORSE }
    }

    /// Prints an error in the command line, in the parser's words.
    #[expect(clippy::unused_self, reason = "all that is printed is printed by an Output")]
    pub(crate) fn misused(&self, error: &clap::Error) {
        let text = error.render().ansi().to_string();
        if plain(&text).starts_with("error:") {
            put_error(&format!("halprof: {}", text.trim_end()));
        } else {
            let _ = error.print();
        }
    }

    /// Prints an error; returns the exit status.
    pub(crate) fn fail(&self, error: &Error) -> u32 {
        if self.is_json() {
            let result = ErrorResult { error: error.failure() };
            let object = self.object("error", self.modelled.get(), result);
            // Standard output does not take the object, so the error goes to standard error.
            if object.and_then(|text| self.print(&text)).is_err() {
                put_error(&format!("halprof: {}", Escaped(error)));
            }
        } else {
            let (wrong, hint) = (styled(ERROR, "error:"), styled(HINT, "hint:"));
            let (what, advice) = (Escaped(error), Escaped(error.hint()));
            self.say(&format!("{wrong} {what}\n{hint} {advice}"));
        }
        error.exit_status()
    }

    /// Prints to standard error, no wider than the result.
    fn say(&self, text: &str) {
        put_error(&self.width.fitted(&format!("halprof: {text}")));
    }

    /// Progress on a terminal; hidden elsewhere, with `--quiet` and with `--json`. For work with a
    /// known end, in any unit: a bar and the remaining time.
    pub(crate) fn progress(&self, end: Option<u64>) -> ProgressBar {
        let template = match end {
            Some(_) => "{percent:>3} %, {eta} left {wide_bar:.green}",
            None => "{spinner} {wide_msg}",
        };
        if self.quiet || self.is_json() || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(end, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }
}

/// Writes a text at once, so that parts of two do not mix.
fn put(mut stream: impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

fn put_error(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", visible(text));
}
