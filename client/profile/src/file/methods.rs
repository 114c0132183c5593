//! Code that runtimes make while a program runs, which is in no image.

use super::{Sample, StackId, StackTable, mode_of};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use shared_types::Mode;
use std::ops::Range;

pub(super) const METHODS: [u8; 4] = *b"METH";

/// A piece of code that a runtime made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Method {
    /// The process that has it.
    pub process: u32,
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The method's or function's name with its parameters.
    pub name: String,
    /// The file that it was compiled from; the runtime's name if there is none.
    pub module: String,
    /// When it was put there, as a sample's timestamp; `None` if no sample at its addresses is
    /// older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded: Option<u64>,
    /// When it was gone; `None` if no sample at its addresses is younger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unloaded: Option<u64>,
}

impl Method {
    /// Whether an address is within it.
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// Whether it was there at a time.
    pub(crate) fn lives(&self, time: u64) -> bool {
        self.loaded.is_none_or(|loaded| loaded <= time)
            && self.unloaded.is_none_or(|unloaded| time < unloaded)
    }
}

/// The addresses that samples and their callers have, of all processes, each with the times of the first
/// and the last sample.
pub(super) struct SampledAddresses(Vec<(u64, (u64, u64))>);

impl SampledAddresses {
    pub(super) fn new(samples: &[Sample], sample_stacks: &[StackId], stacks: &StackTable) -> Self {
        let mut times: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
        let mut note = |address, span| widen(times.entry(address).or_insert(span), span);
        let mut stack_times: Vec<Option<(u64, u64)>> = vec![None; stacks.frames().len()];
        for sample in samples.iter().filter(|sample| mode_of(sample.mode) != Mode::Unknown) {
            note(sample.ip, (sample.timestamp, sample.timestamp));
        }
        for (sample, stack) in samples.iter().zip(sample_stacks) {
            widen_stack(&mut stack_times, *stack, (sample.timestamp, sample.timestamp));
        }
        // A caller is before its callees.
        for (index, frame) in stacks.frames().iter().enumerate().rev() {
            let Some(span) = stack_times.get(index).copied().flatten() else { continue };
            widen_stack(&mut stack_times, frame.caller, span);
            note(frame.call_site(), span);
        }
        let mut all: Vec<_> = times.into_iter().collect();
        all.sort_unstable_by_key(|&(address, _)| address);
        Self(all)
    }

    /// Whether any is in a range.
    pub(super) fn any(&self, range: Range<u64>) -> bool {
        !self.within(range).is_empty()
    }

    fn within(&self, range: Range<u64>) -> &[(u64, (u64, u64))] {
        let Self(all) = self;
        let index = |address| all.partition_point(|&(known, _)| known < address);
        all.get(index(range.start)..index(range.end)).unwrap_or_default()
    }

    /// A method with the times that samples need; `None` if no sample needs it. A runtime compiles
    /// thousands of methods, and samples are in few of them.
    pub(super) fn needed(&self, method: Method) -> Option<Method> {
        let own = self.within(method.start..method.end);
        let (first, last) = own.iter().map(|&(_, span)| span).reduce(|mut all, span| {
            widen(&mut all, span);
            all
        })?;
        Some(Method {
            loaded: method.loaded.filter(|&loaded| first < loaded),
            unloaded: method.unloaded.filter(|&unloaded| unloaded <= last),
            ..method
        })
    }
}

fn widen(all: &mut (u64, u64), span: (u64, u64)) {
    *all = (all.0.min(span.0), all.1.max(span.1));
}

fn widen_stack(times: &mut [Option<(u64, u64)>], stack: StackId, span: (u64, u64)) {
    if let Some(all) = stack.index().and_then(|index| times.get_mut(index)) {
        widen(all.get_or_insert(span), span);
    }
}
