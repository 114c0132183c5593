//! A vendor's events as sources of Windows' own tracing: its custom profile sources.
//!
//! Windows learns them from a registry file, permanently and for every tool, or from a recording
//! profile, for WPR alone. Either form has an event code, a unit mask, a counter mask and three
//! flags, and nothing else that an event may need: each event that it cannot express is excluded,
//! with the reason.
//!
//! Sources of the forms: Microsoft's "Recording Hardware Performance (PMU) Events",
//! WPRControlProfiles.xsd, and the scripts that write such registry files: Microsoft's MSO-Scripts
//! (`src/BETA`) and Arm's Tool-Solutions (`windows-pmu-to-reg`).

mod recording_profile;
mod registry;

use crate::catalog::{Catalog, CpuType};
use crate::error::{Error, Result};
use crate::events::Event;
use shared_types::request::machine::Processor;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};

/// The limits of an interval, as Windows lists them for custom sources (Arm's documentation).
const INTERVALS: (u64, u64) = (4096, 2_147_483_647);
/// Windows counts at most four sources at once, and chooses their counters.
const FIRST_COUNTERS: u32 = 0xF;

/// How Windows is given custom sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A registry file: the sources last, and every tool lists them after a restart.
    Registry,
    /// A profile of Windows Performance Recorder, which declares and counts them.
    RecordingProfile,
}

/// Custom sources of one machine. Displayed, they are the file in their form.
#[derive(Debug)]
pub struct CustomSources<'a> {
    form: Form,
    groups: Vec<Group<'a>>,
}

/// The sources of one CPU type.
#[derive(Debug)]
struct Group<'a> {
    cpu_type: &'a CpuType,
    events: Vec<&'a Event>,
    /// The events that the form cannot express, by what they are left out for.
    excluded: BTreeMap<&'static str, Vec<&'a str>>,
}

impl<'a> CustomSources<'a> {
    /// The events that have a `matching` name. An event that several CPU types have belongs to the
    /// first of them, because Windows knows a source by its name alone.
    pub fn new(catalog: &'a Catalog, form: Form, matching: impl Fn(&str) -> bool) -> Result<Self> {
        let mut declared: BTreeMap<String, u64> = BTreeMap::new();
        let mut groups = Vec::new();
        for cpu_type in catalog.cpu_types() {
            if form == Form::Registry && is_amd(cpu_type) {
                return Err(Error::unavailable(
                    "no document states how the registry names AMD's architecture",
                    "A recording profile can be written for AMD.",
                ));
            }
            let mut group = Group { cpu_type, events: Vec::new(), excluded: BTreeMap::new() };
            for event in cpu_type.events().filter(|event| matching(&event.name)) {
                let name = event.name.to_ascii_lowercase();
                let reason = match declared.get(&name) {
                    Some(select) => Some(duplicate(*select == event.select())),
                    None => exclusion(form, cpu_type, event),
                };
                if let Some(reason) = reason {
                    group.excluded.entry(reason).or_default().push(&event.name);
                } else {
                    declared.insert(name, event.select());
                    group.events.push(event);
                }
            }
            groups.push(group);
        }
        if let Some(model) = catalog.unknown_model() {
            return Err(Error::UnknownModel { what: "no event can be written".to_owned(), model });
        }
        let sources = Self { form, groups };
        if sources.groups().next().is_none() {
            return Err(Error::unavailable(
                format!("no event of these processors can be written: {}", sources.summary()),
                "Select other names; where a hypervisor hides the counters, take a model or a CPUID dump of the processor.",
            ));
        }
        Ok(sources)
    }

    /// How many events are written, and how many are left out for what.
    pub fn summary(&self) -> String {
        let written: usize = self.groups.iter().map(|group| group.events.len()).sum();
        let mut excluded: BTreeMap<&str, usize> = BTreeMap::new();
        for (reason, names) in self.groups.iter().flat_map(|group| &group.excluded) {
            *excluded.entry(reason).or_default() += names.len();
        }
        let total: usize = excluded.values().sum();
        let mut text = format!("{written} events written, {total} left out");
        for (index, (reason, count)) in excluded.iter().enumerate() {
            let _ = write!(text, "{} {count} for {reason}", if index == 0 { ":" } else { ";" });
        }
        text
    }

    /// The names of the sources that a recording profile counts.
    pub fn counted(&self) -> impl Iterator<Item = &'a str> {
        let events = self.groups.iter().flat_map(|group| &group.events);
        events.take(FIRST_COUNTERS.count_ones() as usize).map(|event| event.name.as_str())
    }

    /// The groups with a source.
    fn groups(&self) -> impl Iterator<Item = &Group<'a>> {
        self.groups.iter().filter(|group| !group.events.is_empty())
    }

    /// What no document says about these sources.
    fn unknowns(&self) -> Vec<&'static str> {
        let some = |is_so: fn(&Group<'_>) -> bool| self.groups().any(is_so);
        let unknowns = [
            (
                self.groups().count() > 1,
                "what Windows does with two groups of one family and model: neither form knows core types, so a source counts what its name says only on the cores of its group",
            ),
            (
                some(|group| group.events.iter().any(|event| group.is_limited(event))),
                "which counters Windows takes: of these events, some are counted only by the first four",
            ),
            (
                some(|group| is_amd(group.cpu_type)),
                "for AMD: the registry's value of Architecture, the extended bits, and event codes above 0xFF",
            ),
        ];
        unknowns.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text).collect()
    }

    /// The remarks at the head of the file, without the marks of a comment.
    fn remarks(&self, use_of_file: &[&str]) -> Vec<String> {
        let mut remarks: Vec<String> = use_of_file.iter().map(|&line| line.to_owned()).collect();
        for unknown in self.unknowns() {
            remarks.push(format!("Not documented, please report what you see: {unknown}."));
        }
        remarks
    }
}

impl Display for CustomSources<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.form {
            Form::Registry => registry::write(self, f),
            Form::RecordingProfile => recording_profile::write(self, f),
        }
    }
}

impl Group<'_> {
    /// The name of its CPU type's table, or its family and model where only a user's list has events.
    fn name(&self) -> String {
        let Processor { family, model, .. } = self.cpu_type.processor;
        let table = self.cpu_type.microarchitecture.map(|one| one.table.to_owned());
        table.unwrap_or_else(|| format!("family{family}_model{model}"))
    }

    /// Whose events they are.
    fn title(&self) -> &'static str {
        self.cpu_type.microarchitecture.map_or("the list of a file", |one| one.title)
    }

    /// Whether only some of its processors' counters count an event.
    fn is_limited(&self, event: &Event) -> bool {
        let present = self.cpu_type.processor.counter_mask;
        event.counters.is_some_and(|mask| mask & present != present)
    }

    /// Its exclusions as lines: a reason, then the names.
    fn exclusions(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (reason, names) in &self.excluded {
            lines.push(format!("Left out for {reason}:"));
            // A user's list may have any text for a name.
            let names = names.iter().map(|name| name.replace(|one| !is_plain(one), "?"));
            lines.extend(names.map(|name| format!("  {name}")));
        }
        lines
    }
}

/// Why an event is left out that an earlier CPU type has too.
const fn duplicate(same_select: bool) -> &'static str {
    if same_select {
        "an equal event of the same name above"
    } else {
        "another core type's event of the same name above"
    }
}

/// What a form cannot express of an event.
fn exclusion(form: Form, cpu_type: &CpuType, event: &Event) -> Option<&'static str> {
    let first = FIRST_COUNTERS & cpu_type.processor.counter_mask;
    let profile = form == Form::RecordingProfile;
    let reasons = [
        (event.msr.is_some(), "an extra MSR"),
        (event.fixed.is_some(), "a fixed counter, which takes no custom source"),
        (event.alone, "the need to be counted alone"),
        (cpu_type.takes_pair(event.select()), "the need for two counters"),
        (event.unit_mask > 0xFF, "a second unit mask"),
        (event.code > 0xFF, "an event code above 0xFF"),
        (
            event.counters.is_some_and(|mask| mask & first != first),
            "a limit to certain counters, for which there is no field",
        ),
        (
            profile && is_amd(cpu_type) && extended_bits(event) != [0; 4],
            "extended bits, which no document describes for AMD",
        ),
        (
            profile && event.counter_mask >= 10,
            "a counter mask of 10 or more, whose radix no document states",
        ),
        (cpu_type.encode(event).is_err(), "bits of a select that this processor lacks"),
        (!event.name.chars().all(is_plain), "unusual characters in the name"),
    ];
    reasons.into_iter().find(|(applies, _)| *applies).map(|(_, reason)| reason)
}

/// Whether a letter may be in a name: those of the vendors' lists, none of which is syntax of
/// either form.
const fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.')
}

/// The fields of an event beyond its code and its unit mask, in the order of both forms.
const fn extended_bits(event: &Event) -> [u8; 4] {
    [event.counter_mask, event.invert as u8, event.any_thread as u8, event.edge as u8]
}

/// The vendor's own period, within Windows' limits; `None` where the vendor names none.
fn interval(event: &Event) -> Option<u64> {
    let (min, max) = INTERVALS;
    (event.period != 0).then(|| event.period.clamp(min, max))
}

fn is_amd(cpu_type: &CpuType) -> bool {
    cpu_type.processor.vendor == *b"AuthenticAMD"
}

#[cfg(test)]
mod tests;
