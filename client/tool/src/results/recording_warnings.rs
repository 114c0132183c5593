//! What is said of a recording before its samples: what was lost, what disturbed it, and which symbols
//! are missing.

use crate::output::error_codes::INCOMPLETE;
use crate::output::names::abbreviated;
use crate::output::number::{rounded, thousands, times};
use crate::output::{MachineInfo, Output};
use crate::select::filters::names;
use crate::select::sample_size::Advice;
use halprof_profile::aggregate::share::Share;
use halprof_profile::file::{
    LOST_BUFFERS, LOST_EVENTS, Module, Recording, TraceContents, cannot_count,
};
use halprof_profile::symbols::Opened;
use halprof_profile::views::report::Report;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// How many modules without symbols are named.
const LISTED_MODULES: usize = 3;

/// Enough samples, by VTune's advice.
const ENOUGH: u64 = 10_000;

/// The share of samples, in percent, above which losses are worth a warning.
const LOST_PERCENT: u128 = 1;

/// Prints what stands before any result of recordings: the machine, what is missing, warnings, and
/// which modules have no symbols. Returns the exit status.
pub(crate) fn print_warnings(
    recording: &Recording,
    warnings: &[String],
    symbols: &[Opened],
    output: &Output,
) -> u32 {
    output.note_model(&MachineInfo::of_recording(&recording.metadata));
    let damaged = recording.damaged();
    if let Some(damaged) = &damaged {
        output.warn(damaged);
    }
    if !recording.skipped.is_empty() {
        let skipped = recording.skipped.iter();
        let skipped: Vec<String> = skipped.map(|(tag, n)| format!("{n} of `{tag}`")).collect();
        output.warn(&format!(
            "the recording has parts that this halprof does not know and has skipped: {}",
            skipped.join(", ")
        ));
    }
    let of_trace = lost_by_session(recording);
    output.warn_all(&of_trace);
    let others = warnings.iter().filter(|warning| !of_trace.contains(warning));
    others.for_each(|warning| output.warn(warning));
    recording.remarks.iter().for_each(|remark| output.note(remark));
    note_symbols(symbols, output);
    if damaged.is_some() { INCOMPLETE } else { 0 }
}

/// Reasons why numbers are less reliable than they look.
pub(crate) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = too_few(report);
    warnings.extend(Advice::in_step(&report.recording.in_step).map(|advice| advice.warning()));
    warnings.extend(multiplexed(report));
    let metadata = &report.recording.metadata;
    for (source, processors) in metadata.excluded_cpus() {
        warnings.push(cannot_count(source, processors));
    }
    for source in &metadata.sources {
        let cycles = match &source.period {
            period if period.by_reference_cycles => "reference cycles",
            period if period.by_core_cycles => "core cycles",
            _ => continue,
        };
        let warning = format!(
            "{} was sampled by {cycles}: its period is in units of 100 ns, its events are {cycles}",
            source.name
        );
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings.extend(disturbances(report));
    warnings
}

/// The sources with too few samples.
fn too_few(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let explain_empty_result = report.total.samples == 0 && report.recording.samples != 0;
    if explain_empty_result || report.recording.samples == 0 && report.recording.is_of_trace() {
        // There is one sentence for that, of all sources.
        return warnings;
    }
    let silent = report.sources.iter().filter(|one| one.totals.samples == 0);
    let silent: Vec<&str> = silent.map(|source| &*source.name).collect();
    if !silent.is_empty() {
        warnings.push(format!("no samples of {}", abbreviated(&silent)));
    }
    for source in &report.sources {
        let n = source.totals.samples;
        let tenth = Share::of_a_tenth(source.totals);
        // As many samples of one period would be as accurate.
        let worth = rounded(tenth.effective).min(n.into());
        if n != 0 && worth < ENOUGH.into() {
            // Drawn periods differ so little that a percent of the samples is not worth a word.
            let samples = if worth * 100 >= u128::from(n) * 99 {
                format!("only {} samples", thousands(n))
            } else {
                let (n, worth) = (thousands(n), thousands(worth));
                format!("{n} samples of unequal periods, worth {worth} equal ones")
            };
            warnings.push(format!(
                "{}: {samples}, so a share of 10 % is accurate to ±{:.1} points; aim for {} with a \
                 shorter period or a longer recording",
                source.name,
                tenth.bound() * 100.0,
                thousands(ENOUGH)
            ));
        }
    }
    warnings
}

/// Which sources were multiplexed.
fn multiplexed(report: &Report) -> Option<String> {
    let shares: Vec<(String, f64)> = report
        .sources
        .iter()
        .filter_map(|source| {
            let slices = source.slices.as_ref()?;
            Some((source.name.to_string(), slices.running_share()))
        })
        .collect();
    multiplexing_warning(&shares, "their events are scaled up")
}

/// What went wrong while it was recorded.
pub(crate) fn disturbances(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let statistics = report.recording.statistics.as_ref();
    if let Some(code) = statistics.and_then(|statistics| statistics.ended.as_ref()) {
        warnings.push(format!("sampling ended early ({code}): nothing after that was recorded"));
    }
    if let Some(statistics) = statistics.filter(|statistics| statistics.events_lost != 0) {
        warnings.push(events_lost(statistics.events_lost));
    }
    warnings.extend(lost_by_session(&report.recording));
    warnings.extend(samples_lost(&report.recording));
    if let Some(statistics) = statistics.filter(|statistics| statistics.throttled != 0) {
        warnings.push(format!(
            "interrupts took too much time: periods were lengthened {}, up to {}; each sample counts \
             with its own period",
            times(statistics.throttled),
            thousands(statistics.longest_period)
        ));
    }
    let cleared = statistics.map_or(0, |statistics| statistics.branches_cleared);
    warnings.extend(Advice::branches_cleared(cleared).map(|advice| advice.warning()));
    warnings
}

/// What the session of a trace lost.
fn lost_by_session(recording: &Recording) -> Vec<String> {
    let lost = recording.lost();
    let meaning = [
        (
            LOST_EVENTS,
            "events of unknown kinds: as many samples may be missing, and event counts may be low",
        ),
        (
            LOST_BUFFERS,
            "buffers with all their events: samples may be missing, and event counts may be low",
        ),
    ];
    let lost = meaning.iter().filter_map(|&(cause, meaning)| {
        let number = lost.get(cause).copied().filter(|&number| number != 0)?;
        Some(format!("the trace lost {} {meaning}", thousands(number)))
    });
    lost.collect()
}

/// What a trace without any sample has, and how to record some.
pub(crate) fn without_samples(recording: &Recording, files: &[PathBuf]) -> Option<String> {
    let TraceContents { events, processes, switches } = recording.statistics.as_ref()?.trace?;
    if recording.samples.saturating_add(recording.idle_samples()) != 0 {
        return None;
    }
    let waits = match switches {
        0 => String::new(),
        _ => format!("; `halprof report --off-cpu {}` shows how long threads waited", names(files)),
    };
    Some(format!(
        "the trace has no samples of the timer or of counters. It has {} events, which name {} \
         processes, and {} context switches. `wpr -start CPU` or `xperf -on \
         PROC_THREAD+LOADER+PROFILE -stackwalk Profile` records samples{waits}.",
        thousands(events),
        thousands(processes),
        thousands(switches)
    ))
}

/// What losses mean, if there are many.
fn samples_lost(recording: &Recording) -> Option<String> {
    let mut causes = recording.lost();
    causes.retain(|cause, _| ![LOST_EVENTS, LOST_BUFFERS].contains(&cause.as_str()));
    let lost = causes.values().copied().fold(0, u64::saturating_add);
    let all = recording.samples.saturating_add(lost);
    if u128::from(lost) * 100 <= u128::from(all) * LOST_PERCENT {
        return None;
    }
    let (lost, all) = (thousands(lost), thousands(all));
    Some(format!(
        "{lost} of {all} samples were lost: shares are of the samples that were kept, and event counts \
         are low by the same proportion"
    ))
}

/// The message that sources were sampled for only part of the time.
pub(crate) fn multiplexing_warning(sources: &[(String, f64)], what_then: &str) -> Option<String> {
    let parts = sources.iter().map(|(name, part)| format!("{name} {:.1} %", part * 100.0));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| {
        format!(
            "sources shared the counters, {what_then}; each was sampled for part of the time: {}",
            abbreviated(&parts)
        )
    })
}

/// The message that system events were lost.
pub(crate) fn events_lost(n: u64) -> String {
    format!(
        "{} system events were lost: short-lived processes and their modules may have no name",
        thousands(n)
    )
}

/// Where the symbols of a module came from.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct OpenedModule {
    module: String,
    kind: &'static str,
    file: Option<String>,
    image: Option<String>,
    notes: Vec<String>,
}

impl From<&Opened> for OpenedModule {
    fn from(opened: &Opened) -> Self {
        Self {
            module: opened.name.to_string(),
            kind: opened.kind.name(),
            file: opened.file.as_ref().map(|path| path.display().to_string()),
            image: opened.image.as_ref().map(|path| path.display().to_string()),
            notes: [notes(opened), opened.limits.clone()].concat(),
        }
    }
}

/// Where a module's symbols came from or why there are none, with the option that may find them.
fn notes(opened: &Opened) -> Vec<String> {
    let mut notes = opened.notes.clone();
    if opened.download_might_help {
        notes.push("`--download` asks the symbol servers".to_owned());
    }
    notes
}

/// Notes which modules have no good symbols, in one line. Modules invented by a model have none to be
/// found.
pub(crate) fn note_symbols(opened: &[Opened], output: &Output) {
    output.warn_all(&limited(opened));
    if let Some(note) = lacking(opened, output.is_modelled()) {
        output.note(&note);
    }
}

/// Whose symbols were cut or left out: a name or a line that is missing would mislead.
fn limited(opened: &[Opened]) -> Vec<String> {
    let limited = opened.iter().filter(|opened| !opened.limits.is_empty());
    let sentence =
        |opened: &Opened| format!("symbols of {}: {}", opened.name, opened.limits.join("; "));
    let mut all: Vec<String> = limited.map(sentence).collect();
    if all.len() > LISTED_MODULES {
        let more = all.len() - LISTED_MODULES;
        all.truncate(LISTED_MODULES);
        all.push(format!(
            "symbols of {} more modules are cut or left out; `--json` has the reasons",
            thousands(more as u64)
        ));
    }
    all
}

/// The kernel of a modelled trace, which has a name and no file.
fn is_modelled_kernel(module: &Module) -> bool {
    module.path.as_deref().is_some_and(|path| path.starts_with(r"\SystemRoot\"))
}

fn lacking(opened: &[Opened], is_modelled: bool) -> Option<String> {
    let lacking: Vec<&Opened> = opened
        .iter()
        .filter(|opened| !opened.has_symbols())
        .filter(|opened| opened.module.path.is_some() || opened.module.identity.is_some())
        .filter(|opened| !is_modelled || !is_modelled_kernel(&opened.module))
        .collect();
    if let [opened] = lacking.as_slice() {
        let notes = notes(opened);
        let notes: Vec<&str> =
            notes.iter().map(|note| note.trim()).filter(|note| !note.is_empty()).collect();
        let why = if notes.is_empty() { "none found".to_owned() } else { notes.join("; ") };
        return Some(format!("symbols of {}: {why}", opened.name));
    }
    let (first, _) = lacking.split_at_checked(LISTED_MODULES).unwrap_or((&lacking, &[]));
    let mut names: Vec<&str> = first.iter().map(|opened| &*opened.name).collect();
    // A file that was loaded from two folders is looked for twice.
    names.dedup();
    let download = lacking.iter().any(|opened| opened.download_might_help);
    let add = if download { "`--symbol-path` or `--download`" } else { "`--symbol-path`" };
    (!lacking.is_empty()).then(|| {
        format!(
            "{} modules without symbols, with the most samples {}; add {add}; `--json` has the reasons",
            thousands(lacking.len() as u64),
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use halprof_profile::symbols::Kind;

    fn module(name: &str, kind: Kind, samples: u64) -> Opened {
        let path = Some(format!("/{name}"));
        Opened {
            name: name.into(),
            module: Module { name: name.to_owned(), path, ..Module::default() },
            kind,
            file: None,
            image: None,
            notes: vec!["it was not found".to_owned()],
            limits: Vec::new(),
            download_might_help: samples == 1,
            samples,
        }
    }

    #[test]
    fn missing_symbols_are_one_line() {
        assert_eq!(lacking(&[], false), None);
        let mut kernel = module("ntoskrnl.exe", Kind::None, 9);
        kernel.module.path = Some(r"\SystemRoot\system32\ntoskrnl.exe".to_owned());
        let kernel = [kernel];
        assert_eq!(lacking(&kernel, true), None);
        assert!(lacking(&kernel, false).is_some());
        let mut all = vec![module("a.dll", Kind::Pdb, 9)];
        assert_eq!(lacking(&all, false), None);
        all.insert(0, module("b.dll", Kind::Exports, 8));
        assert_eq!(lacking(&all, false).as_deref(), Some("symbols of b.dll: it was not found"));
        all.extend(["c.dll", "d.dll"].map(|name| module(name, Kind::None, 7)));
        let line = "3 modules without symbols, with the most samples b.dll, c.dll, d.dll; add \
                    `--symbol-path`; `--json` has the reasons";
        assert_eq!(lacking(&all, false).as_deref(), Some(line));
        all.extend((0..1500).map(|_| module("e.dll", Kind::None, 1)));
        let line = "1,503 modules without symbols, with the most samples b.dll, c.dll, d.dll; add \
                    `--symbol-path` or `--download`; `--json` has the reasons";
        assert_eq!(lacking(&all, false).as_deref(), Some(line));
    }
}
