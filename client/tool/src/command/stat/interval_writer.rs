//! Prints intervals as they end and the result at the end, in the requested form.

use super::result::{Interval, Jitter, Lines, StatResult};
use super::text;
use crate::cli::args;
use crate::output::error::Result;
use crate::output::table::Width;
use crate::output::{Form, Output};
use crate::select::time;

/// Whether standard output is reserved for the result, which a program's own output would spoil.
pub(super) fn owns_output(options: &args::Stat, output: &Output) -> bool {
    !output.is_text() && options.file().is_none()
}

/// Prints intervals as they end, if the form allows that, and otherwise keeps them.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent flags: what was requested, and what has come of it"
)]
pub(super) struct IntervalWriter<'a> {
    /// Output goes to standard output at once.
    live: bool,
    /// The intervals go to a file that each reading replaces.
    replaced: bool,
    /// The result goes to a file.
    file: bool,
    /// Metrics were requested.
    metrics: bool,
    output: &'a Output,
    jitter: Option<Jitter>,
    /// Something has been printed already.
    begun: bool,
    closed: bool,
}

impl<'a> IntervalWriter<'a> {
    pub(super) fn new(options: &args::Stat, output: &'a Output) -> Self {
        let interval = options.interval.and_then(|interval| time::interval(interval).ok());
        Self {
            live: options.file().is_none()
                && interval.is_some()
                && options.openmetrics.is_none()
                && output.form() != Form::Json,
            replaced: options.openmetrics.is_some(),
            file: options.file().is_some(),
            metrics: !options.metrics.is_empty(),
            output,
            jitter: interval.map(|requested_ns| Jitter { requested_ns, ..Jitter::default() }),
            begun: false,
            closed: false,
        }
    }

    /// Of intervals that are read from a file, which do not deviate.
    pub(super) fn exact(self) -> Self {
        Self { jitter: None, ..self }
    }

    /// Whether intervals are printed as they end.
    pub(super) const fn is_live(&self) -> bool {
        self.live
    }

    /// Whether the reader has gone.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Prints an interval, or keeps it for the result, unless a file already has it.
    pub(super) fn write(&mut self, interval: Interval, kept: &mut Vec<Interval>) -> Result<()> {
        if let Some(jitter) = &mut self.jitter
            && !(interval.last && interval.length_ns < jitter.requested_ns)
        {
            jitter.add(interval.length_ns);
        }
        if self.replaced {
            return Ok(());
        }
        if !self.live {
            kept.push(interval);
            return Ok(());
        }
        let text = self.interval(&interval)?;
        self.closed |= !self.output.print_stream(&text, self.output.is_csv())?;
        Ok(())
    }

    /// An interval as text; the first one comes with the header.
    fn interval(&mut self, interval: &Interval) -> Result<String> {
        let first = !std::mem::replace(&mut self.begun, true);
        match self.output.form() {
            Form::Text => Ok(text::interval(interval, first, self.metrics, self.width())),
            Form::Csv => interval.csv(self.lines(first)),
            Form::Json | Form::JsonLines => self.output.document("stat-interval", interval),
        }
    }

    /// The width available to the result.
    fn width(&self) -> Width {
        if self.file {
            return Width::UNLIMITED;
        }
        self.output.width()
    }

    fn lines(&self, head: bool) -> Lines {
        Lines { head, metrics: self.metrics, modelled: self.output.is_modelled() }
    }

    /// The result: everything that has not been printed yet.
    pub(super) fn result(mut self, result: StatResult) -> Result<String> {
        let mut result = StatResult { jitter: self.jitter, ..result };
        if self.output.form() == Form::Json {
            return self.output.document("stat", result);
        }
        let mut text = String::new();
        if self.output.is_text() && self.file && self.output.is_modelled() {
            // On a terminal, standard error says so.
            text += &format!("modelled machine, not silicon: {}\n\n", result.machine);
        }
        for interval in std::mem::take(&mut result.intervals) {
            text += &self.interval(&interval)?;
        }
        text += &match self.output.form() {
            Form::Text => text::result(&result, self.begun, self.width()),
            Form::Csv => result.csv(self.lines(!self.begun))?,
            Form::Json | Form::JsonLines => self.output.document("stat", result)?,
        };
        Ok(text)
    }
}

impl Jitter {
    fn add(&mut self, length_ns: u64) {
        let off = length_ns.abs_diff(self.requested_ns);
        self.intervals += 1;
        self.sum_ns += u128::from(off);
        self.mean_ns = (self.sum_ns / u128::from(self.intervals)) as u64;
        self.max_ns = self.max_ns.max(off);
    }
}
