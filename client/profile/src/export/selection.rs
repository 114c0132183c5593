//! What of a recording is shown, and what is said about it.

use crate::aggregate::samples::Samples;
use crate::aggregate::source_totals::SourceTotals;
use crate::export::Format;
use crate::file::cannot_count;
use crate::number::thousands;

/// The part of what was gathered that is shown.
#[derive(Debug)]
pub struct Export<'a> {
    /// Everything that was gathered.
    pub samples: &'a Samples,
    /// The sources to show, in their order; at least one unless the recording has none.
    pub sources: Vec<&'a SourceTotals>,
    /// The recording's title.
    pub title: String,
    /// The metrics of functions, for a page.
    pub metrics: Option<MetricTable>,
}

/// A table of functions with their metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricTable {
    /// A sentence that says what its rows are.
    pub about: String,
    /// The head of each column of [`MetricRow::cells`].
    pub heads: Vec<String>,
    pub rows: Vec<MetricRow>,
}

/// The metrics of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricRow {
    /// The function with its module.
    pub function: String,
    /// The cells, as text.
    pub cells: Vec<String>,
    /// What the cells are sorted by, if they have a value.
    pub values: Vec<Option<f64>>,
}

impl<'a> Export<'a> {
    /// A format of one source shows the first that has samples, and any other format all that have
    /// some; if none has samples, the first is shown.
    pub fn new(samples: &'a Samples, title: impl Into<String>, format: Format) -> Self {
        let all = &samples.sources;
        let most = if format.is_of_one_source() { 1 } else { all.len() };
        let nonempty = all.iter().filter(|source| source.totals.samples != 0);
        let mut sources: Vec<_> = nonempty.take(most).collect();
        if sources.is_empty() {
            sources.extend(all.first());
        }
        Self { samples, sources, title: title.into(), metrics: None }
    }

    /// The sources that have samples but are not shown.
    pub fn omitted_sources(&self) -> Vec<&'a SourceTotals> {
        let all = self.samples.sources.iter();
        all.filter(|source| source.totals.samples != 0)
            .filter(|source| !self.sources.iter().any(|exported| exported.index == source.index))
            .collect()
    }

    /// What makes the figures of its sources worth less than they look.
    pub fn warnings(&self) -> Vec<String> {
        let metadata = &self.samples.recording.metadata;
        let excluded = metadata.excluded_cpus().into_iter();
        let is_exported = |name: &str| self.sources.iter().any(|source| *source.name == *name);
        let partly = excluded
            .filter(|&(source, _)| is_exported(source))
            .map(|(source, processors)| cannot_count(source, processors));
        let estimated = self.sources.iter().filter_map(|source| source.estimated());
        partly.chain(estimated).collect()
    }

    /// The captions of every picture and export: the origin of the samples, how many there are and
    /// how many are missing, and what they lack.
    pub fn captions(&self) -> Vec<String> {
        let samples = self.samples;
        let metadata = &samples.recording.metadata;
        let machine = if metadata.modelled {
            format!("modelled machine, not silicon: {}", metadata.machine)
        } else {
            metadata.machine.clone()
        };
        let exported: u64 = self.sources.iter().map(|source| source.totals.samples).sum();
        let of_all = match samples.recording.samples {
            all if all == exported => String::new(),
            all => format!(" of {}", thousands(all)),
        };
        let counts = format!(
            "{}{of_all} samples shown, {}; {}",
            thousands(exported),
            samples.recording.losses(),
            stacks(self)
        );
        let mut captions = vec![machine, counts];
        captions.extend(self.warnings());
        captions.extend(samples.recording.damaged());
        captions
    }

    /// The source of a format with a single one; a nameless one without samples if there is none.
    pub(crate) fn source(&self) -> SourceTotals {
        let first = self.sources.first();
        first.map_or_else(SourceTotals::default, |&source| source.clone())
    }
}

/// How many of the samples shown have call stacks, as the end of a sentence.
pub(crate) fn stacks(export: &Export<'_>) -> String {
    let samples = export.samples;
    if !samples.has_stacks() {
        return "samples have no call stacks".to_owned();
    }
    let shown = export.sources.iter().flat_map(|source| samples.location_totals_of(source));
    let (mut all, mut stacked) = (0, 0);
    for (location, totals) in shown {
        all += totals.samples;
        if location.caller.is_some() {
            stacked += totals.samples;
        }
    }
    format!("{} of {} samples have call stacks", thousands(stacked), thousands(all))
}

/// The names of sources, or their number if the list would be too long.
pub fn listed<'a>(sources: impl IntoIterator<Item = &'a SourceTotals>) -> String {
    const MOST: usize = 12;
    let names: Vec<&str> = sources.into_iter().map(|source| &*source.name).collect();
    match names.len() {
        0 => "no sources".to_owned(),
        many if many > MOST => format!("{many} sources"),
        _ => names.join(", "),
    }
}
