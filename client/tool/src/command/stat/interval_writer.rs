//! Prints intervals as they end and the result at the end, in the requested form.

use super::diff::{ComparedStat, ELAPSED};
use super::result::{Interval, Jitter, StatResult};
use super::{csv, text};
use crate::cli::args;
use crate::metrics::Metrics;
use crate::output::error::Result;
use crate::output::style::plain;
use crate::output::table::Width;
use crate::output::{Form, Output};
use crate::results::diff::{Diff, EVENTS, Earlier, Figure};
use halprof_profile::file::write_whole;

/// Whether standard output is reserved for the result, which a program's own output would spoil.
pub(super) fn owns_output(options: &args::Stat, output: &Output) -> bool {
    !output.is_text() && options.output.file().is_none()
}

/// Prints intervals as they end, if the form allows that, and otherwise with the result.
pub(super) struct IntervalWriter<'a> {
    options: &'a args::Stat,
    output: &'a Output,
    jitter: Option<Jitter>,
    /// Intervals that were not printed as they ended.
    kept: Vec<Interval>,
    /// Something has been printed already.
    begun: bool,
    /// The reader has gone.
    closed: bool,
    /// The result of `--diff`.
    earlier: Option<Earlier<ComparedStat>>,
    /// The results of `--against`, of each run alone as JSON.
    pub(super) pairs: Vec<[String; 2]>,
}

impl<'a> IntervalWriter<'a> {
    /// `interval_ns`: the length from which intervals may deviate; those of a trace are exact.
    pub(super) fn new(
        options: &'a args::Stat,
        output: &'a Output,
        interval_ns: Option<u64>,
    ) -> Result<Self> {
        let jitter = interval_ns.map(|requested_ns| Jitter { requested_ns, ..Jitter::default() });
        let earlier = Earlier::named(&options.diff, output.is_modelled())?;
        let (kept, pairs) = (Vec::new(), Vec::new());
        Ok(Self { options, output, jitter, kept, begun: false, closed: false, earlier, pairs })
    }

    /// Whether intervals are printed as they end.
    pub(super) fn is_live(&self) -> bool {
        self.options.interval.is_some()
            && self.options.output.file().is_none()
            && self.options.openmetrics.is_none()
            && self.output.form() != Form::Json
    }

    /// Whether the reader has gone.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Prints an interval, or keeps it for the result, unless a file that each reading replaces has
    /// it.
    pub(super) fn write(&mut self, interval: Interval) -> Result<()> {
        if let Some(jitter) = &mut self.jitter {
            jitter.add(interval.length_ns, interval.last);
        }
        if self.is_live() {
            let text = self.interval(&interval)?;
            self.closed |= !self.output.print_stream(&text, self.output.is_csv())?;
        } else if self.options.openmetrics.is_none() {
            self.kept.push(interval);
        }
        Ok(())
    }

    /// An interval as text; the first one comes with the header.
    fn interval(&mut self, interval: &Interval) -> Result<String> {
        let first = !std::mem::replace(&mut self.begun, true);
        match self.output.form() {
            Form::Text => Ok(text::interval(interval, first, self.metrics(), self.width())),
            Form::Csv => {
                let modelled = self.output.is_modelled();
                Self::csv(first, csv::interval(interval, self.metrics(), modelled))
            }
            Form::Json | Form::JsonLines => self.output.document("stat-interval", interval),
        }
    }

    /// Whether metrics were requested: intervals and CSV have them only then.
    const fn metrics(&self) -> bool {
        !self.options.metrics.is_empty()
    }

    /// The width available to the result.
    fn width(&self) -> Width {
        self.options.output.file().map_or(self.output.width(), |_| Width::UNLIMITED)
    }

    /// Comma-separated values, after the names of the columns if they are the first.
    fn csv(first: bool, lines: Result<String>) -> Result<String> {
        let head = if first { csv::head()? } else { String::new() };
        Ok(head + &lines?)
    }

    /// The result beside an earlier one.
    fn diff(&self, result: &StatResult) -> Result<Diff> {
        let asked = |figure: Figure| match figure.name.as_str() {
            // How long to measure was chosen.
            ELAPSED if self.options.work.duration.is_some() => {
                Some(Figure { worse: None, ..figure })
            }
            ELAPSED => Some(figure),
            _ => Some(figure).filter(|figure| figure.unit == EVENTS || self.metrics()),
        };
        let limit = self.options.diff.fail_above;
        if let Some(against) = &result.against {
            return Diff::of_pairs::<ComparedStat>(against.heading(), &self.pairs, limit, asked);
        }
        let Some(earlier) = &self.earlier else {
            return Ok(Diff::default());
        };
        let now = self.output.document("stat", result)?;
        let metrics = Metrics::built_in()?;
        earlier.compare(&now, limit, asked, |one, other| metrics.count_the_same(one, other))
    }

    /// Prints the result: everything that has not been printed yet. Returns the exit status.
    pub(super) fn finish(mut self, result: StatResult) -> Result<u32> {
        let kept = std::mem::take(&mut self.kept);
        let mut result = StatResult { jitter: self.jitter, ..result };
        let diff = self.diff(&result)?;
        self.output.warn_all(&diff.warnings);
        result.warnings.extend(diff.warnings.iter().chain(&diff.failures).cloned());
        (result.diff, result.earlier) = (diff.rows, diff.file);
        let mut text = String::new();
        if self.output.is_text()
            && self.options.output.file().is_some()
            && self.output.is_modelled()
        {
            // On a terminal, standard error says so.
            text += &format!("modelled machine, not silicon: {}\n\n", result.machine);
        }
        if self.output.form() == Form::Json {
            result.intervals = kept;
        } else {
            for interval in &kept {
                text += &self.interval(interval)?;
            }
        }
        text += &match self.output.form() {
            Form::Text => text::result(&result, self.begun, self.width()),
            Form::Csv => {
                let modelled = self.output.is_modelled();
                Self::csv(
                    !self.begun,
                    csv::rows(&result.rows, &result.diff, self.metrics(), modelled),
                )?
            }
            Form::Json | Form::JsonLines => self.output.document("stat", result)?,
        };
        match self.options.output.file() {
            Some(path) => write_whole(path, plain(&text).as_bytes())?,
            None => drop(self.output.print_stream(&text, self.output.is_csv())?),
        }
        Ok(self.output.judged(&diff.failures))
    }
}

impl Jitter {
    /// Adds an interval, unless it is the last and was cut short by the end of the measurement.
    fn add(&mut self, length_ns: u64, last: bool) {
        if last && length_ns < self.requested_ns {
            return;
        }
        let off = length_ns.abs_diff(self.requested_ns);
        self.intervals += 1;
        self.sum_ns += u128::from(off);
        self.mean_ns = (self.sum_ns / u128::from(self.intervals)) as u64;
        self.max_ns = self.max_ns.max(off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The measurement ends in the midst of an interval, or at an end that comes late like others.
    #[test]
    fn jitter_is_of_the_intervals_that_were_not_cut_short() {
        for (last, intervals, mean_ns, max_ns) in
            [(400, 3, 40, 70), (999, 3, 40, 70), (1000, 4, 30, 70), (1080, 4, 50, 80)]
        {
            let mut jitter = Jitter { requested_ns: 1000, ..Jitter::default() };
            for length_ns in [1020, 970, 1070] {
                jitter.add(length_ns, false);
            }
            jitter.add(last, true);
            let found = (jitter.intervals, jitter.mean_ns, jitter.max_ns);
            assert_eq!(found, (intervals, mean_ns, max_ns), "{last}");
        }
    }
}
