//! `stat --by process`: the counts of each processor, divided among processes by the samples taken
//! on it in the meantime.
//!
//! A process's share of a processor's samples is an estimate, and so is the processor's count where
//! sources took turns. So their product is an estimate, and so is the sum over processors. Its bound
//! is the square root of the sum of the squared bounds: those of the shares ([`super::process_shares`]), and
//! those of the counts.

use super::process_shares::{ProcessKey, SourceSamples};
use super::result::{PartRow, ShareOfCount};
use crate::output::error::{Error, Result};
use crate::output::number::{bound, optional, rounded, thousands};
use crate::output::table::{Column, Field, Record, Width, records};
use crate::results::count_row::UNKNOWN;
use crate::results::counts::Counts;
use crate::results::view::RowBuilder;
use crate::select::filters::Names;
use halprof_measure::estimate::Estimate;
use halprof_measure::event_counts::EventCounts;
use halprof_measure::float::float;
use halprof_measure::{Session, Transport};
use halprof_profile::file::Process;
use halprof_profile::file::inventory::{Changes, Inventory};
use shared_types::{ErrorCode, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// With fewer samples, the shares of a source mean little.
const FEW: u64 = 100;
/// The number of rows for each source in text output.
pub(super) const ROWS: usize = 20;

/// Which processes were sampled, and where.
pub(super) struct Samples {
    inventory: Inventory,
    processes: BTreeMap<u32, Vec<Process>>,
    /// By the index of the event, and by processor.
    sampled: BTreeMap<(usize, u32), SourceSamples>,
    /// The event of each specification of the session.
    owners: Vec<usize>,
    /// How long a source is on a counter at a time, in ticks.
    slice_ticks: u64,
    lost: u64,
}

impl Samples {
    pub(super) fn new(mut inventory: Inventory) -> Self {
        let there = inventory.scan(0);
        let mut samples = Self {
            inventory,
            processes: BTreeMap::new(),
            sampled: BTreeMap::new(),
            owners: Vec::new(),
            slice_ticks: 0,
            lost: 0,
        };
        samples.know(there);
        samples
    }

    /// Begins a session: the event of each of its specifications, and how long an event is on a
    /// counter at a time, in ticks.
    pub(super) fn begin(&mut self, owners: Vec<usize>, ticks: u64) {
        self.owners = owners;
        self.slice_ticks = ticks;
    }

    fn know(&mut self, changes: Changes) {
        for process in changes.processes {
            let same_id = self.processes.entry(process.id).or_default();
            match same_id.last_mut().filter(|last| last.ended.is_none()) {
                Some(last) => *last = process,
                None => same_id.push(process),
            }
        }
    }

    /// Takes the samples that are in the rings, and scans the running processes if that is due.
    pub(super) fn drain<T: Transport>(
        &mut self,
        session: &mut Session<'_, T>,
        elapsed_ns: u64,
    ) -> Result<()> {
        self.take(session, |inventory| inventory.scan_if_due(elapsed_ns))
    }

    /// Samples are attributed after a scan, which may see that an identifier has become another
    /// process's.
    fn take<T: Transport>(
        &mut self,
        session: &mut Session<'_, T>,
        scan: impl FnOnce(&mut Inventory) -> Changes,
    ) -> Result<()> {
        let mut all = Vec::new();
        loop {
            let (samples, left) = session.drain()?;
            if let Some(code) = session.ended() {
                return Err(ended(code));
            }
            self.inventory.note_samples(&samples);
            let done = samples.is_empty() || left == 0;
            all.extend(samples);
            if done {
                break;
            }
        }
        let changes = scan(&mut self.inventory);
        self.know(changes);
        for sample in &all {
            self.add(sample);
        }
        Ok(())
    }

    fn add(&mut self, sample: &Sample) {
        let Some(&event) = self.owners.get(usize::from(sample.source)) else {
            return;
        };
        let same_id = self.processes.get(&sample.process);
        let ended = |process: &Process| process.ended.is_some_and(|end| end <= sample.timestamp);
        let before = same_id.map_or(0, |all| all.iter().take_while(|one| ended(one)).count());
        let sampled = self.sampled.entry((event, sample.processor));
        let process = (sample.process, before);
        sampled.or_default().add(process, sample, self.slice_ticks);
    }

    /// Takes the last samples, and scans the running processes a last time.
    pub(super) fn finish<T: Transport>(
        &mut self,
        session: &mut Session<'_, T>,
        elapsed_ns: u64,
    ) -> Result<()> {
        self.take(session, |inventory| inventory.scan(elapsed_ns))?;
        self.sampled.values_mut().for_each(SourceSamples::end_slice);
        let lost = session.statistics()?.lost;
        self.lost = lost.iter().copied().fold(0, u64::saturating_add);
        Ok(())
    }

    fn name(&self, (id, index): ProcessKey) -> Option<String> {
        let process = self.processes.get(&id)?.get(index)?;
        Some(process.name.clone())
    }

    /// The counts of a run, divided; largest first within each event.
    pub(super) fn rows(&self, view: &RowBuilder<'_>, counts: &Counts) -> Vec<PartRow> {
        counts.events.iter().flat_map(|counts| self.divide(view, counts)).collect()
    }

    /// Keeps only the rows of the processes that the options name, if they name any, and adds those of
    /// named ones without samples; warns of them.
    pub(super) fn keep_only(
        &self,
        processes: &[String],
        rows: &mut Vec<PartRow>,
        view: &RowBuilder<'_>,
        counts: &Counts,
    ) -> Option<String> {
        let names = Names::new(processes);
        rows.retain(|row| names.pass_process(row.process.as_deref(), row.id));
        let has_row = |named: &&String| {
            let name = Names::new(std::slice::from_ref(*named));
            rows.iter().any(|row| name.pass_process(row.process.as_deref(), row.id))
        };
        let absent: Vec<&String> = processes.iter().filter(|named| !has_row(named)).collect();
        for named in &absent {
            rows.extend(
                counts.events.iter().map(|counts| self.without_samples(named, view, counts)),
            );
        }
        let absent: Vec<&str> = absent.iter().map(|named| named.as_str()).collect();
        (!absent.is_empty())
            .then(|| format!("no sample was taken in process {}", absent.join(", ")))
    }

    /// The row of a process in which no sample was taken: it has no more than the bound, in which are
    /// all events of processors without a sample.
    fn without_samples(&self, named: &str, view: &RowBuilder<'_>, counts: &EventCounts) -> PartRow {
        let id = named.parse().ok();
        let running = id.and_then(|id| self.processes.get(&id)?.last());
        let by_cpu = self.by_cpu(counts);
        let (_, error, _) = part_of((id.unwrap_or_default(), usize::MAX), &by_cpu);
        let total = Estimate::sum(counts.by_processor.values().copied()).value;
        let sampled: u128 = by_cpu.iter().map(|&(.., count)| count).sum();
        let unsampled = total.map(|total| float(total.saturating_sub(sampled)));
        let unnamed = || id.is_none().then(|| named.to_owned());
        PartRow {
            process: running.map(|process| process.name.clone()).or_else(unnamed),
            id,
            thread: None,
            source: view
                .events
                .get(counts.event)
                .map_or_else(String::new, |event| event.label.clone()),
            value: 0,
            of_count: Some(ShareOfCount {
                error: error.zip(unsampled).map(|(error, unsampled)| error + unsampled),
                share: 0.0,
                samples: Some(0),
            }),
            switched: None,
        }
    }

    /// The samples of an event on each processor that has some, with what it counted there.
    fn by_cpu(&self, counts: &EventCounts) -> Vec<(&SourceSamples, Estimate, u128)> {
        let by_cpu = counts.by_processor.iter().filter_map(|(&processor, &estimate)| {
            let sampled = self.sampled.get(&(counts.event, processor))?;
            Some((sampled, estimate, estimate.value?))
        });
        by_cpu.collect()
    }

    fn divide(&self, view: &RowBuilder<'_>, counts: &EventCounts) -> Vec<PartRow> {
        let event = view.events.get(counts.event);
        let source = event.map_or("", |event| event.label.as_str());
        let total = Estimate::sum(counts.by_processor.values().copied()).value;
        let Some(total) = total else {
            return Vec::new();
        };
        let row = |process: Option<ProcessKey>, value, error, samples| PartRow {
            process: process.and_then(|process| self.name(process)),
            id: process.map(|(id, _)| id),
            thread: None,
            source: source.to_owned(),
            value,
            of_count: Some(ShareOfCount {
                error,
                share: if total == 0 { 0.0 } else { float(value) / float(total) },
                samples: Some(samples),
            }),
            switched: None,
        };
        let by_cpu = self.by_cpu(counts);
        let processes: BTreeSet<ProcessKey> =
            by_cpu.iter().flat_map(|(sampled, ..)| sampled.processes()).collect();
        let part = |process: ProcessKey| {
            let (value, error, samples) = part_of(process, &by_cpu);
            row(Some(process), rounded(value), error, samples)
        };
        let mut rows: Vec<PartRow> = processes.into_iter().map(part).collect();
        rows.sort_by(|one, other| other.value.cmp(&one.value).then(one.id.cmp(&other.id)));
        let counted: u128 = by_cpu.iter().map(|&(.., count)| count).sum();
        let unsampled = total.saturating_sub(counted);
        // Rounding loses nothing: the largest part gets the remainder.
        let divided: u128 = rows.iter().map(|row| row.value).sum();
        if let Some(first) = rows.first_mut() {
            first.value = (first.value + total).saturating_sub(divided + unsampled);
        }
        if unsampled != 0 {
            rows.push(row(None, unsampled, None, 0));
        }
        rows
    }

    /// Warns about what makes the parts less reliable than they look.
    pub(super) fn warnings(&self, rows: &[PartRow]) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.lost != 0 {
            warnings.push(format!(
                "{} samples were lost: the parts come from the samples that were kept",
                thousands(self.lost)
            ));
        }
        for (source, own) in by_source(rows) {
            let samples: u64 = own.iter().filter_map(PartRow::samples).sum();
            if samples < FEW {
                warnings.push(format!(
                    "{source}: too few samples to divide it well ({samples}); give a shorter period, \
                     `SOURCE:PERIOD`, or measure for longer"
                ));
            }
        }
        warnings
    }
}

/// The events of a process, their bound if it is known, and its samples: by its shares of the samples
/// on each processor, and what those counted.
fn part_of(
    process: ProcessKey,
    by_cpu: &[(&SourceSamples, Estimate, u128)],
) -> (f64, Option<f64>, u64) {
    let (mut value, mut variance, mut samples) = (0.0, Some(0.0), 0);
    for &(sampled, estimate, count) in by_cpu {
        let count = float(count);
        let (share, bound) = sampled.share(process, estimate.scaled);
        value += count * share;
        let error = estimate.error.or((!estimate.scaled).then_some(0.0));
        variance = variance.zip(error).map(|(sum, error): (f64, f64)| {
            sum + (count * bound).powi(2) + (share * error).powi(2)
        });
        samples += sampled.samples(process);
    }
    (value, variance.map(|variance| variance.sqrt().ceil()), samples)
}

fn ended(code: ErrorCode) -> Error {
    halprof_measure::Refusal { code, subject: 0, detail: 0, source: None }.into()
}

/// The rows of each source.
fn by_source(rows: &[PartRow]) -> impl Iterator<Item = (&str, &[PartRow])> {
    let of_sources = rows.chunk_by(|one, next| one.source == next.source);
    of_sources.map(|own| (own[0].source.as_str(), own))
}

impl Record for PartRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("count"), |row| thousands(row.value)),
        Field::new(Column::number("95 %"), |row| {
            match row.of_count.as_ref().and_then(|of| of.error) {
                Some(error) => bound(row.value, error),
                None => UNKNOWN.to_owned(),
            }
        }),
        Field::new(Column::number("share"), |row| format!("{:.1} %", row.share() * 100.0)),
        Field::new(Column::number("samples").extra(), |row| optional(row.samples().map(thousands))),
        Field::new(Column::number("id").extra(), |row| optional(row.id)),
        Field::new(Column::name("process"), name),
    ];
}

/// As text: the largest parts of each source.
pub(super) fn text(rows: &[PartRow], width: Width) -> String {
    let mut text = String::new();
    for (source, own) in by_source(rows) {
        text += &format!("\n{source} by process:\n");
        text += &records(width, own.iter().take(ROWS));
        if own.len() > ROWS {
            let rest: f64 = own.iter().skip(ROWS).map(PartRow::share).sum();
            text += &format!(
                "{} other processes: {:.1} %; `--json` and `--csv` have all\n",
                own.len() - ROWS,
                rest * 100.0
            );
        }
    }
    text
}

pub(super) fn name(row: &PartRow) -> String {
    match (&row.process, row.id) {
        (Some(name), _) => name.clone(),
        (None, id) if row.thread.is_some() => optional(id),
        (None, Some(id)) if row.samples() == Some(0) => id.to_string(),
        (None, Some(_)) => "ended before its name was read".to_owned(),
        (None, None) => "on processors without a sample".to_owned(),
    }
}
