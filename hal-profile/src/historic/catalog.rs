//! Which sources Pentium, P6 and NetBurst have.

use crate::cpu::capabilities::Capabilities;
use crate::cpu::registers::cpuid::leaf1_edx;
use crate::historic::raw::Family;
use crate::historic::select::{Select, Upstream};
use crate::historic::{netburst, p6, pentium};
use crate::source::{self, Row};
use shared_types::{ProfileInterface, SourceNote, SourceTable};

/// The rows of wdm.h's sources.
pub(crate) fn table(capabilities: &Capabilities, interface: ProfileInterface) -> &'static [Row] {
    match interface {
        ProfileInterface::Pentium => pentium::rows(has_mmx(capabilities)),
        ProfileInterface::P6 => p6::ROWS,
        ProfileInterface::NetBurst => netburst::ROWS,
        ProfileInterface::Default | ProfileInterface::Emon | ProfileInterface::Amd64 => {
            source::default::ROWS
        }
    }
}

/// The table that names a processor's sources.
pub(crate) fn source_table(capabilities: &Capabilities) -> SourceTable {
    match capabilities.interface() {
        ProfileInterface::Pentium if has_mmx(capabilities) => SourceTable::PentiumMmx,
        ProfileInterface::Pentium => SourceTable::Pentium,
        ProfileInterface::P6 if p6::processors(capabilities.identity.model.into()) == p6::PM => {
            SourceTable::PentiumM
        }
        ProfileInterface::P6 => SourceTable::P6,
        ProfileInterface::NetBurst => SourceTable::NetBurst,
        ProfileInterface::Default | ProfileInterface::Emon | ProfileInterface::Amd64 => {
            SourceTable::Default
        }
    }
}

/// halprof's own rows.
pub(crate) fn own_rows(capabilities: &Capabilities) -> impl Iterator<Item = &'static Row> + use<> {
    let used = capabilities.interface();
    let model = capabilities.identity.model.into();
    let netburst = (used == ProfileInterface::NetBurst).then(|| netburst::own_rows(model));
    let mmx = has_mmx(capabilities);
    let pentium = (used == ProfileInterface::Pentium).then(|| pentium::own_rows(mmx));
    let p6 = (used == ProfileInterface::P6).then(|| p6::own_rows(p6::processors(model)));
    let pentium = pentium.into_iter().flatten();
    netburst.into_iter().flatten().chain(pentium).chain(p6.into_iter().flatten())
}

fn has_mmx(capabilities: &Capabilities) -> bool {
    capabilities.identity.leaf1_edx & leaf1_edx::MMX != 0
}

/// The layout of raw selects.
pub(crate) fn raw_family(capabilities: &Capabilities) -> Option<Family> {
    match capabilities.interface() {
        ProfileInterface::Pentium => Some(Family::Pentium),
        ProfileInterface::P6 => Some(Family::P6),
        ProfileInterface::NetBurst => {
            Some(Family::NetBurst { model: capabilities.identity.model.into() })
        }
        ProfileInterface::Default | ProfileInterface::Emon | ProfileInterface::Amd64 => None,
    }
}

/// The counters that can count a select, of `counters`.
pub(crate) fn candidates(select: &Select, counters: u32) -> u32 {
    let Select::NetBurst(event) = select else {
        return counters;
    };
    let sides = event.escr_msr.into_iter().zip(event.counters);
    let there = sides.filter(|(escr_msr, _)| *escr_msr != 0);
    there.fold(0, |all, (_, side)| all | side) & counters
}

/// Why a processor cannot count a select. If two threads share NetBurst's counters, each has one
/// side of them.
pub(crate) fn unavailable(capabilities: &Capabilities, select: &Select) -> Option<SourceNote> {
    if let Select::NetBurst(event) = select
        && capabilities.netburst.thread == 1
        && matches!(event.upstream, Upstream::Replay { .. })
    {
        return Some(SourceNote::NoReplayMetric);
    }
    if candidates(select, capabilities.counters) != 0 {
        return None;
    }
    Some(match select {
        Select::Cesr { .. } => SourceNote::NoCounter,
        Select::NetBurst(_) => SourceNote::OtherThreadsCounters,
    })
}

/// The select as one number, in the family's layout (see [`Family`]).
pub(crate) fn select_word(select: &Select) -> u64 {
    match *select {
        Select::Cesr { event, clocks } => u64::from(event) | u64::from(clocks) << 8,
        Select::NetBurst(event) => u64::from(event.cccr) << 32 | u64::from(event.escr),
    }
}
