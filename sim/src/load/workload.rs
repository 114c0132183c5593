//! Workloads: an exact amount of events, and the exact truth about every moment of it.
//!
//! A workload advances in positions. From one position to the next each kind of event happens once
//! or not at all, and the most frequent kind happens every time. A steady workload is one segment,
//! a workload with a seed has [`SEGMENTS`]; in a segment all rates are constant, and from segment
//! to segment each kind has up to three times its lowest rate. Totals are exact either way.
//!
//! The events of a kind come in stretches of [`STRETCH`], user events first in each, and both modes
//! are exact at the end.

mod branches;
mod parse;
mod truth;

pub use branches::Passed;
pub use parse::{Known, WorkloadError, keys, parse, parse_with};

use crate::cpu::event::{AMOUNTS, Code, Event};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The largest amount of one kind of event: 2^62.
///
/// With this limit the positions of any workload fit 64 bits: the segments of one kind differ by
/// less than a factor of three, so all segments together are no longer than 3 x 2^62 +
/// [`SEGMENTS`].
pub const MAX_AMOUNT: u64 = 1 << 62;

/// Events of one kind from one change to user mode to the next: a prime, so that no sampling period
/// meets only one mode.
pub const STRETCH: u64 = 97;

/// Stretches of constant rates in a workload that has a seed.
pub const SEGMENTS: usize = 256;

/// What a modelled machine runs by default.
pub const DEFAULT: &str = "instructions=100000000,cycles=150000000,branches=20000000,\
    branch-misses=400000,ref-cycles=120000000,llc-references=2000000,llc-misses=200000,\
    l1d-accesses=40000000,l1d-misses=1500000,l1i-fetches=25000000,l1i-misses=120000,\
    fp-operations=10000000,user=90,processors=all";

/// Positions in which each program of a workload has one turn: a prime, so that no sampling period
/// meets only one program.
pub const ROUND: u64 = 10_007;

/// The most programs in a workload.
pub const PROGRAMS_MAX: usize = 8;

/// Where kernel instructions retire from: a modelled kernel image, start inclusive, end exclusive.
pub const KERNEL_CODE: (u64, u64) = (0xFFFF_F800_0000_1000, 0xFFFF_F800_0000_2000);

/// Where user instructions retire from unless `code` says otherwise.
pub const USER_CODE: (u64, u64) = (0x1_4000_1000, 0x1_4000_2000);

/// The start or the end of a workload's short program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortChange {
    /// The time-stamp counter of the processor that it runs on.
    pub timestamp: u64,
    /// If it starts, the first address of its image, and the first after it.
    pub code: Option<(u64, u64)>,
}

/// What a workload is made of, before it is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// By [`Event::index`]; each at most [`MAX_AMOUNT`].
    pub(crate) amounts: [u64; AMOUNTS],
    /// Percent, at most 100.
    pub(crate) user: u64,
    /// `None`: all.
    pub(crate) processors: Option<BTreeSet<u32>>,
    /// Start inclusive, end exclusive, start below end.
    pub(crate) code: (u64, u64),
    /// In ascending order and within `code`; `None`: one every four bytes of `code`.
    pub(crate) instructions: Option<Arc<[u64]>>,
    /// The way through them that user branches go.
    pub(crate) way: Option<Arc<[Passed]>>,
    /// The instructions on that way, in ascending order.
    pub(crate) on_way: Arc<[u64]>,
    pub(crate) seed: Option<u64>,
    pub(crate) skid: u64,
    /// Percentages of its cycles that it has in one run after the other; none for all in each.
    pub(crate) drift: Vec<u64>,
    /// Percentage of the positions that each program has, 100 in total.
    pub(crate) programs: Vec<u64>,
    /// When a short program starts, and when it has ended, in nanoseconds.
    pub(crate) short: Option<(u64, u64)>,
    /// How counters are programmed for the events that are named.
    pub(crate) codes: Vec<Code>,
}

impl Default for Parts {
    /// What a workload has that says nothing else: no event.
    fn default() -> Self {
        Self {
            amounts: [0; AMOUNTS],
            user: 100,
            processors: Some(BTreeSet::from([0])),
            code: USER_CODE,
            instructions: None,
            way: None,
            on_way: Arc::default(),
            seed: None,
            skid: 0,
            drift: Vec::new(),
            programs: vec![100],
            short: None,
            codes: Vec::new(),
        }
    }
}

/// A workload that each of its processors runs from start to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    parts: Parts,
    /// How many events of each kind happen in user mode.
    user: [u64; AMOUNTS],
    segments: Vec<Segment>,
}

/// A stretch of constant rates.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// The position before its first step.
    start: u64,
    /// Its steps: the largest of its amounts.
    length: u64,
    /// What has happened before it.
    before: [u64; AMOUNTS],
    /// What happens in it.
    amounts: [u64; AMOUNTS],
}

impl Default for Workload {
    /// The workload described by [`DEFAULT`].
    fn default() -> Self {
        parse(DEFAULT).unwrap_or_else(|error| unreachable!("{error}"))
    }
}

impl Workload {
    pub(crate) fn new(parts: Parts) -> Self {
        let user = parts.amounts.map(|amount| scale(amount, parts.user, 100));
        let segments = segments(&parts.amounts, parts.seed);
        Self { parts, user, segments }
    }

    /// The workload as it is in the run with this number, from 0 on, where its cycles drift from run to
    /// run; the list of percentages is gone through again and again.
    #[must_use]
    pub fn in_run(&self, run: usize) -> Option<Self> {
        let place = run.checked_rem(self.parts.drift.len())?;
        let percent = *self.parts.drift.get(place)?;
        let mut parts = self.parts.clone();
        let cycles = &mut parts.amounts[Event::Cycles.index()];
        *cycles = scale(*cycles, percent, 100).min(MAX_AMOUNT);
        Some(Self::new(parts))
    }

    /// How often `event` happens in total.
    pub fn amount(&self, event: Event) -> u64 {
        self.parts.amounts[event.index()]
    }

    /// How counters are programmed for the events that it names.
    pub fn codes(&self) -> &[Code] {
        &self.parts.codes
    }

    pub fn runs_on(&self, processor: u32) -> bool {
        self.parts.processors.as_ref().is_none_or(|processors| processors.contains(&processor))
    }

    /// The highest processor index that was requested; `None` if all processors run it.
    pub fn highest_processor(&self) -> Option<u32> {
        self.parts.processors.as_ref()?.last().copied()
    }

    /// How many programs take turns in it.
    pub fn programs(&self) -> usize {
        self.parts.programs.len()
    }

    /// Which program runs between the previous position and this one.
    pub fn program_at(&self, position: u64) -> usize {
        let place = position.saturating_sub(1) % ROUND;
        let mut ends = self.parts.programs.iter().scan(0, |sum, percent| {
            *sum += percent;
            Some(ROUND * *sum / 100)
        });
        ends.position(|end| place < end).unwrap_or(0)
    }

    /// The start and the end, in nanoseconds, of a short program that runs in place of the others.
    pub const fn short(&self) -> Option<(u64, u64)> {
        self.parts.short
    }

    /// Where its user instructions retire from: start inclusive, end exclusive.
    pub fn code(&self) -> (u64, u64) {
        self.parts.code
    }

    /// Retires user instructions only from these addresses, instead of from a range; does nothing
    /// if there are none.
    pub fn run_from(&mut self, mut addresses: Vec<u64>) {
        addresses.sort_unstable();
        addresses.dedup();
        if let (Some(&first), Some(last)) = (addresses.first(), addresses.last()) {
            self.parts.code = (first, last.saturating_add(1));
            self.parts.instructions = Some(addresses.into());
        }
    }

    /// The addresses that it retires user instructions from, if they are no range.
    pub fn instructions(&self) -> Option<Arc<[u64]>> {
        self.parts.instructions.clone()
    }

    /// The way of its user branches, over and over, if they follow one.
    pub fn way(&self) -> Option<Arc<[Passed]>> {
        self.parts.way.clone()
    }

    /// The instructions through which this way leads, if samples follow it: those of a workload without
    /// branches are anywhere.
    pub fn on_way_instructions(&self) -> Option<Arc<[u64]>> {
        let follows = self.parts.way.is_some() && self.amount(Event::Branches) != 0;
        follows.then(|| Arc::clone(&self.parts.on_way))
    }

    /// How many positions after an overflow its interrupt comes.
    pub fn skid(&self) -> u64 {
        self.parts.skid
    }
}

/// `floor(value * numerator / denominator)` for a quotient of at most 1; 0 for a denominator of 0.
fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    product.checked_div(u128::from(denominator)).unwrap_or(0) as u64
}

/// Cuts all amounts at the floors of the same cumulative weights, so that their sums stay exact.
fn segments(amounts: &[u64; AMOUNTS], seed: Option<u64>) -> Vec<Segment> {
    let shares = shares(seed);
    let mut segments = Vec::with_capacity(shares.len());
    let (mut start, mut before) = (0, [0; AMOUNTS]);
    for share in &shares {
        let mut after = *amounts;
        for (index, after) in after.iter_mut().enumerate() {
            let whole = shares.last().map_or(0, |last| last[index]);
            *after = scale(*after, share[index], whole);
        }
        let mut within = after;
        for (within, before) in within.iter_mut().zip(before) {
            *within -= before;
        }
        let length = within.iter().copied().max().unwrap_or(0);
        segments.push(Segment { start, length, before, amounts: within });
        start += length;
        before = after;
    }
    segments
}

/// Cumulative weights of each kind at the end of each segment. A weight is from 128 to 383.
fn shares(seed: Option<u64>) -> Vec<[u64; AMOUNTS]> {
    let Some(mut state) = seed else {
        return vec![[1; AMOUNTS]];
    };
    let mut sums = [0; AMOUNTS];
    // Named events have a random sequence of their own, so that naming one does not change the
    // rates of the others.
    let mut of_named = !state;
    let mut next = || {
        let (kinds, named) = sums.split_at_mut(Event::ALL.len());
        for sum in kinds {
            *sum += 128 + (split_mix(&mut state) >> 56);
        }
        for sum in named {
            *sum += 128 + (split_mix(&mut of_named) >> 56);
        }
        sums
    };
    (0..SEGMENTS).map(|_| next()).collect()
}

/// SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
