//! The block of branch records.
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

use rustc_hash::FxHashMap;
use shared_types::{Branch, MAX_BRANCHES, Sample};
use std::mem::size_of;

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
        put(number, &mut records);
        records.push(branch.flags);
        if branch.flags & Branch::CYCLES != 0 {
            put(branch.cycles.into(), &mut records);
        }
    }
    block.extend((numbers.len() as u32).to_le_bytes());
    block.append(&mut edges);
    block.append(&mut records);
}

/// Appends a number as LEB128.
fn put(mut number: u32, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A block being read. Nothing in it is trusted: `None` means that the block is invalid.
pub(super) struct Records<'a> {
    edges: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Option<Self> {
        let (count, rest) = payload.split_first_chunk()?;
        let bytes = (u32::from_le_bytes(*count) as usize).checked_mul(EDGE_BYTES)?;
        let (edges, rest) = rest.split_at_checked(bytes)?;
        Some(Self { edges, rest })
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
        self.rest.is_empty()
    }

    fn record(&mut self) -> Option<Branch> {
        let at = (self.number()? as usize).checked_mul(EDGE_BYTES)?;
        let (from, rest) = self.edges.get(at..)?.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        let mut branch = Branch {
            from: u64::from_le_bytes(*from),
            to: u64::from_le_bytes(*to),
            kind: *rest.first()?,
            flags: self.byte()?,
            ..Branch::default()
        };
        if branch.flags & Branch::CYCLES != 0 {
            branch.cycles = self.number()?.try_into().ok()?;
        }
        Some(branch)
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0u32;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.byte()?;
            let part = u32::from(byte & 0x7F);
            let placed = part << shift;
            // A fifth byte may hold only four more bits of the number.
            if placed >> shift != part {
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
