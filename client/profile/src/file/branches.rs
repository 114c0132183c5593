//! The blocks of branch records.
//!
//! A program takes a few different branches many times. So a block has a table of distinct edges,
//! and a record has the number of its edge, its flags and its cycles. That takes three to five
//! bytes; on the wire a record takes 24.
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | the number of edges in the table |
//! | 17 each | an edge: from, to, kind |
//! | the rest | the records of each sample of the preceding block, in its order, newest first |
//!
//! A record is the number of its edge as LEB128, a byte of flags and, with [`Branch::CYCLES`], the
//! cycles as LEB128.
//!
//! Windows' own tracing has another value in each record, whose meaning nobody documents. A separate
//! block before the samples has these values, one LEB128 for each record. It is left out if all values
//! are 0.

use halprof_etw::payload::branches::filter;
use rustc_hash::FxHashMap;
use shared_types::request::session::Configure;
use shared_types::{Branch, MAX_BRANCHES, Sample};
use std::mem::size_of;

/// A kind of branch that can be recorded alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name on the command line and in recordings.
    pub name: &'static str,
    /// The bit of [`Configure::branch_filter`] that records it.
    pub driver: u16,
    /// The bit of Windows' own tracing that leaves it out: see [`filter`].
    pub windows: u32,
}

/// The kinds that both the driver's processors and Windows know. Every branch is of exactly one.
pub const KINDS: [Kind; 7] = [
    Kind { name: "cond", driver: Configure::CONDITIONAL, windows: filter::CONDITIONAL },
    Kind { name: "call", driver: Configure::CALLS, windows: filter::NEAR_RELATIVE_CALLS },
    Kind {
        name: "ind-call",
        driver: Configure::INDIRECT_CALLS,
        windows: filter::NEAR_INDIRECT_CALLS,
    },
    Kind { name: "return", driver: Configure::RETURNS, windows: filter::NEAR_RETURNS },
    Kind { name: "jump", driver: Configure::JUMPS, windows: filter::NEAR_RELATIVE_JUMPS },
    Kind {
        name: "ind-jump",
        driver: Configure::INDIRECT_JUMPS,
        windows: filter::NEAR_INDIRECT_JUMPS,
    },
    Kind { name: "far", driver: Configure::FAR, windows: filter::FAR },
];

/// The modes to which branches lead. To record one mode, Windows' bit leaves out the other.
pub const MODES: [Kind; 2] = [
    Kind { name: "user", driver: Configure::TO_USER, windows: filter::KERNEL },
    Kind { name: "kernel", driver: Configure::TO_KERNEL, windows: filter::USER },
];

/// The branch records of samples, newest first for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordedBranches<'a> {
    pub branches: &'a [Branch],
    /// The undocumented value of each record, if Windows' own tracing recorded it; empty otherwise.
    pub raw: &'a [u64],
}

impl RecordedBranches<'_> {
    /// Splits off the first `count` records; `None` if there are fewer.
    pub(super) fn split_off(&mut self, count: usize) -> Option<Self> {
        let (branches, rest) = self.branches.split_at_checked(count)?;
        let (raw, raw_rest) = match self.raw {
            [] => (&[][..], &[][..]),
            raw => raw.split_at_checked(count)?,
        };
        *self = RecordedBranches { branches: rest, raw: raw_rest };
        Some(RecordedBranches { branches, raw })
    }
}

impl<'a> From<&'a [Branch]> for RecordedBranches<'a> {
    /// The driver's records have no undocumented values.
    fn from(branches: &'a [Branch]) -> Self {
        Self { branches, raw: &[] }
    }
}

impl<'a> From<&'a Vec<Branch>> for RecordedBranches<'a> {
    fn from(branches: &'a Vec<Branch>) -> Self {
        branches.as_slice().into()
    }
}

/// The size of an edge in the table: two addresses and a kind.
const EDGE_BYTES: usize = 2 * size_of::<u64>() + size_of::<u8>();

pub(super) fn encode(branches: &[Branch], block: &mut Vec<u8>) {
    let mut numbers = FxHashMap::default();
    let mut edges = Vec::new();
    let mut records = Vec::new();
    for branch in branches {
        let next = numbers.len() as u32;
        let edge = (branch.from, branch.to, branch.kind);
        let number = *numbers.entry(edge).or_insert_with(|| {
            edges.extend(branch.from.to_le_bytes());
            edges.extend(branch.to.to_le_bytes());
            edges.push(branch.kind);
            next
        });
        put(number.into(), &mut records);
        records.push(branch.flags);
        if branch.flags & Branch::CYCLES != 0 {
            put(branch.cycles.into(), &mut records);
        }
    }
    block.extend((numbers.len() as u32).to_le_bytes());
    block.append(&mut edges);
    block.append(&mut records);
}

/// Appends the undocumented values of records.
pub(super) fn encode_raw(raw: &[u64], block: &mut Vec<u8>) {
    for &value in raw {
        put(value, block);
    }
}

/// The undocumented values of a block; `None` if it is invalid.
pub(super) fn decode_raw(payload: &[u8]) -> Option<Vec<u64>> {
    let mut rest = Rest(payload);
    let mut raw = Vec::new();
    while !rest.0.is_empty() {
        raw.push(rest.number(u64::BITS)?);
    }
    Some(raw)
}

/// Appends a number as LEB128.
fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A block being read. Nothing in it is trusted: `None` means that the block is invalid.
pub(super) struct Records<'a> {
    edges: &'a [u8],
    rest: Rest<'a>,
}

impl<'a> Records<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Option<Self> {
        let (count, rest) = payload.split_first_chunk()?;
        let bytes = (u32::from_le_bytes(*count) as usize).checked_mul(EDGE_BYTES)?;
        let (edges, rest) = rest.split_at_checked(bytes)?;
        Some(Self { edges, rest: Rest(rest) })
    }

    /// Reads the records of the next sample into `branches`; `None` if they are invalid.
    pub(super) fn of_sample(&mut self, sample: &Sample, branches: &mut Vec<Branch>) -> Option<()> {
        branches.clear();
        if usize::from(sample.branches) > MAX_BRANCHES {
            return None;
        }
        for _ in 0..sample.branches {
            branches.push(self.record()?);
        }
        Some(())
    }

    /// Whether everything has been read.
    pub(super) const fn is_empty(&self) -> bool {
        self.rest.0.is_empty()
    }

    fn record(&mut self) -> Option<Branch> {
        let at = usize::try_from(self.rest.number(u32::BITS)?).ok()?.checked_mul(EDGE_BYTES)?;
        let (from, rest) = self.edges.get(at..)?.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        let mut branch = Branch {
            from: u64::from_le_bytes(*from),
            to: u64::from_le_bytes(*to),
            kind: *rest.first()?,
            flags: self.rest.byte()?,
            ..Branch::default()
        };
        if branch.flags & Branch::CYCLES != 0 {
            branch.cycles = self.rest.number(u32::BITS)?.try_into().ok()?;
        }
        Some(branch)
    }
}

/// Bytes that have not been read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// A number of at most so many bits.
    fn number(&mut self, bits: u32) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..bits).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7F);
            let placed = part << shift;
            // The last byte may hold only the bits that are left of the number.
            if placed >> shift != part || placed.checked_shr(bits).unwrap_or(0) != 0 {
                return None;
            }
            number |= placed;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}
