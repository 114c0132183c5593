//! The configuration of counters and intervals (hooks `PMC_COUNTER_CONFIG`, `PMC_COUNTER_CORRUPTION`,
//! `SAMPLED_PROFILE_SET_INTERVAL` and its neighbours; MOF class `SampledProfileInterval`).

use crate::bytes::{Fields, Layout, Output, layout};

/// The sources whose values are attached to events, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterNames {
    pub names: Vec<String>,
}

/// Counters that somebody else changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    pub processor: u32,
    pub sources: Vec<CorruptSource>,
}

layout! {
    /// A counter that somebody else changed.
    #[derive(Copy)]
    pub struct CorruptSource {
        source: u32,
        /// Until when it counted right.
        last_good: u64,
    }
}

layout! {
    /// The interval of a source of samples: someone set it (opcode 72), the session began (73) or
    /// ended (74).
    pub struct Interval {
        source: u32,
        /// In units of 100 ns for the timer, else in events.
        interval: u32,
        old_interval: u32,
        /// Empty before version 3.
        name: utf16,
    }
}

pub(super) fn names(mut fields: Fields<'_>) -> Option<CounterNames> {
    let count = fields.u32()?;
    // The count is a stranger's: each name has two bytes at least.
    if count as usize > fields.rest.len() / 2 {
        return None;
    }
    let names = (0..count).map(|_| fields.terminated_utf16());
    Some(CounterNames { names: names.collect::<Option<_>>()? })
}

/// The bytes of one source of a corruption event, which are not aligned.
const CORRUPT_SOURCE: usize = 12;

pub(super) fn corruption(mut fields: Fields<'_>) -> Option<Corruption> {
    let (processor, count) = (fields.u32()?, fields.u32()?);
    if count as usize > fields.rest.len() / CORRUPT_SOURCE {
        return None;
    }
    let sources = (0..count).map(|_| CorruptSource::read(&mut fields));
    Some(Corruption { processor, sources: sources.collect::<Option<_>>()? })
}

pub fn write_names(names: &CounterNames, output: &mut Output) {
    output.u32(names.names.len() as u32);
    for name in &names.names {
        output.utf16(name);
    }
}
