//! Prints intervals as they end and the result at the end, in the requested form.

use super::body::{Body, Interval, Jitter};
use super::form::Form;
use super::{csv, text};
use crate::cli::args;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::table::Width;
use crate::select::time;

/// Prints intervals as they end, if the form allows that, and otherwise keeps them.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was asked for, and what has come of it: each is asked alone"
)]
pub(super) struct Teller<'a> {
    form: Form,
    modelled: bool,
    /// Output goes to standard output at once.
    live: bool,
    /// The intervals go to a file that each reading replaces.
    replaced: bool,
    /// The result goes to a file.
    file: bool,
    /// Metrics were requested.
    metrics: bool,
    output: &'a Output,
    jitter: Option<Watch>,
    /// Something has been printed already.
    begun: bool,
    closed: bool,
}

/// How far intervals deviate from the requested length.
#[derive(Clone, Copy, Default)]
struct Watch {
    asked_ns: u64,
    intervals: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl<'a> Teller<'a> {
    pub(super) fn new(
        options: &args::Stat,
        form: Form,
        modelled: bool,
        output: &'a Output,
    ) -> Self {
        let interval = options.interval.map(time::interval);
        let watch = |asked_ns| Watch { asked_ns, ..Watch::default() };
        Self {
            form,
            modelled,
            live: options.file().is_none()
                && interval.is_some()
                && options.openmetrics.is_none()
                && form != Form::Json,
            replaced: options.openmetrics.is_some(),
            file: options.file().is_some(),
            metrics: !options.metrics.is_empty(),
            output,
            jitter: interval.and_then(Result::ok).map(watch),
            begun: false,
            closed: false,
        }
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
    pub(super) fn tell(&mut self, interval: Interval, kept: &mut Vec<Interval>) -> Result<()> {
        if let Some(watch) = &mut self.jitter
            && !(interval.last && interval.length_ns < watch.asked_ns)
        {
            watch.see(interval.length_ns);
        }
        if self.replaced {
            return Ok(());
        }
        if !self.live {
            kept.push(interval);
            return Ok(());
        }
        let told = self.interval(&interval)?;
        let is_data = self.form == Form::Csv;
        self.closed |= !self.output.print_stream(&told, is_data)?;
        Ok(())
    }

    /// An interval as text; the first one comes with the header.
    fn interval(&mut self, interval: &Interval) -> Result<String> {
        let first = !std::mem::replace(&mut self.begun, true);
        match self.form {
            Form::Text => Ok(text::interval(interval, first, self.metrics, self.width())),
            Form::Csv => csv::interval(interval, self.lines(first)),
            Form::Json | Form::JsonLines => {
                self.output.told("stat-interval", self.modelled, interval)
            }
        }
    }

    /// The width available to the result.
    fn width(&self) -> Width {
        if self.file {
            return Width::WHOLE;
        }
        self.output.width()
    }

    const fn lines(&self, head: bool) -> csv::Lines {
        csv::Lines { head, metrics: self.metrics, modelled: self.modelled }
    }

    /// The result: everything that has not been printed yet.
    pub(super) fn whole(mut self, body: Body) -> Result<String> {
        let body = Body { jitter: self.jitter.map(Watch::jitter), ..body };
        if self.form == Form::Json {
            return self.output.told("stat", self.modelled, body);
        }
        let mut told = String::new();
        if self.form == Form::Text && self.file && self.modelled {
            // On a terminal, standard error says so.
            told += &format!("modelled machine, not silicon: {}\n\n", body.machine);
        }
        for interval in &body.intervals {
            told += &self.interval(interval)?;
        }
        told += &match self.form {
            Form::Text => text::whole(&body, self.begun, self.width()),
            Form::Csv => csv::whole(&body, self.lines(!self.begun))?,
            Form::Json | Form::JsonLines => {
                let intervals = Vec::new();
                let body = Body { intervals, ..body };
                self.output.told("stat", self.modelled, body)?
            }
        };
        Ok(told)
    }
}

impl Watch {
    fn see(&mut self, length_ns: u64) {
        let off = length_ns.abs_diff(self.asked_ns);
        self.intervals += 1;
        self.sum_ns += u128::from(off);
        self.max_ns = self.max_ns.max(off);
    }

    fn jitter(self) -> Jitter {
        let mean = self.sum_ns.checked_div(self.intervals.into()).unwrap_or(0);
        Jitter {
            asked_ns: self.asked_ns,
            intervals: self.intervals,
            mean_ns: mean as u64,
            max_ns: self.max_ns,
        }
    }
}
