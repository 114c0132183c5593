//! One unit: its functions, and what was inlined into them.

use super::Slice;
use super::entries::{Addresses, Root, taken};
use super::limits::Limits;
use super::lines::Lines;
use crate::budget::DEPTH;
use gimli::{DebugLineOffset, UnitOffset, UnitRef};
use std::cell::OnceCell;
use std::ops::Range;

/// Code of a function.
pub(super) struct FunctionRange {
    pub(super) range: Range<u64>,
    /// The function's index in its unit.
    pub(super) index: usize,
}

/// The functions of a unit, and where their code is.
#[derive(Default)]
struct Functions {
    all: Vec<Function>,
    /// In order of their starts.
    ranges: Vec<FunctionRange>,
}

struct Function {
    entry: UnitOffset,
    /// By depth, then by start.
    inlined: OnceCell<Vec<InlinedRange>>,
}

/// A function that was inlined at an address.
#[derive(Clone, Copy)]
pub(super) struct InlinedCall {
    pub(super) entry: UnitOffset,
    /// The index of the file of the call.
    pub(super) file: Option<u64>,
    /// The line of the call; 0 if it has none.
    pub(super) line: u32,
}

/// Code of an inlined call.
struct InlinedRange {
    range: Range<u64>,
    depth: usize,
    call: InlinedCall,
}

pub(super) struct Unit<'a> {
    unit: gimli::Unit<Slice<'a>>,
    program: Option<DebugLineOffset>,
    functions: OnceCell<Functions>,
    lines: OnceCell<Option<Lines<'a>>>,
}

impl<'a> Unit<'a> {
    pub(super) fn new(root: Root<'a>) -> Self {
        let Root { unit, lines, .. } = root;
        Self { unit, program: lines, functions: OnceCell::new(), lines: OnceCell::new() }
    }

    pub(super) fn reference<'u>(
        &'u self,
        dwarf: &'u gimli::Dwarf<Slice<'a>>,
    ) -> UnitRef<'u, Slice<'a>> {
        UnitRef::new(dwarf, &self.unit)
    }

    pub(super) fn lines(
        &self,
        dwarf: &gimli::Dwarf<Slice<'a>>,
        limits: &Limits,
    ) -> Option<&Lines<'a>> {
        let read = || Lines::read(self.reference(dwarf), self.program?, limits);
        self.lines.get_or_init(read).as_ref()
    }

    /// The function that has an address; of several, one that begins nearest before it.
    pub(super) fn function(
        &self,
        dwarf: &gimli::Dwarf<Slice<'a>>,
        limits: &Limits,
        address: u64,
    ) -> Option<&FunctionRange> {
        // A stranger's file may have any number of functions that overlap; the search ends at this
        // many.
        const OVERLAPPING: usize = 16;
        let read = || {
            let mut functions = Functions::default();
            // What is damaged ends the list.
            functions.read(self.reference(dwarf), limits).ok();
            functions.ranges.sort_unstable_by_key(|one| (one.range.start, one.index));
            functions
        };
        let functions = self.functions.get_or_init(read);
        let next = functions.ranges.partition_point(|one| one.range.start <= address);
        let mut before = functions.ranges.get(..next)?.iter().rev().take(OVERLAPPING);
        before.find(|one| one.range.contains(&address))
    }

    pub(super) fn entry(&self, function: usize) -> UnitOffset {
        let functions = self.functions.get();
        let function = functions.and_then(|functions| functions.all.get(function));
        function.map_or(UnitOffset(0), |function| function.entry)
    }

    /// What was inlined into a function at an address, outermost first.
    pub(super) fn inlined(
        &self,
        function: usize,
        dwarf: &gimli::Dwarf<Slice<'a>>,
        limits: &Limits,
        address: u64,
    ) -> Vec<InlinedCall> {
        let functions = self.functions.get();
        let Some(function) = functions.and_then(|functions| functions.all.get(function)) else {
            return Vec::new();
        };
        let all = function.inlined.get_or_init(|| {
            let mut all = Vec::new();
            inlined(self.reference(dwarf), function.entry, limits, &mut all).ok();
            all.sort_unstable_by_key(|one| (one.depth, one.range.start));
            all
        });
        let at = |depth: usize| {
            let next = all.partition_point(|one| (one.depth, one.range.start) <= (depth, address));
            let one = all.get(next.checked_sub(1)?)?;
            (one.depth == depth && one.range.contains(&address)).then_some(one.call)
        };
        (0..).map_while(at).collect()
    }
}

impl Functions {
    fn read(&mut self, unit: UnitRef<'_, Slice<'_>>, limits: &Limits) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let entry = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            let attributes = taken(abbreviation, limits)?;
            if abbreviation.tag() != gimli::DW_TAG_subprogram {
                entries.skip_attributes(attributes)?;
                continue;
            }
            let mut addresses = Addresses::default();
            for &specification in attributes {
                addresses.take(&entries.read_attribute(specification)?);
            }
            let (index, before) = (self.all.len(), self.ranges.len());
            addresses.each(unit, |range| {
                let is_left = limits.entries(1);
                if is_left {
                    self.ranges.push(FunctionRange { range, index });
                }
                is_left
            })?;
            // A declaration has no code, and neither has what is inlined wherever it is called.
            if self.ranges.len() > before {
                self.all.push(Function { entry, inlined: OnceCell::new() });
            }
        }
        Ok(())
    }
}

/// Finds the calls that were inlined into a function. Their nesting is counted, not followed by calls
/// of this function: each level of it takes 18 bytes of a file.
fn inlined(
    unit: UnitRef<'_, Slice<'_>>,
    function: UnitOffset,
    limits: &Limits,
    all: &mut Vec<InlinedRange>,
) -> gimli::Result<()> {
    let mut entries = unit.entries_raw(Some(function))?;
    let outside = entries.next_depth();
    let Some(own) = entries.read_abbreviation()? else {
        return Ok(());
    };
    entries.skip_attributes(taken(own, limits)?)?;
    // The levels of the calls that enclose the entry, and of a function within this one.
    let (mut calls, mut other): (Vec<isize>, Option<isize>) = (Vec::new(), None);
    while !entries.is_empty() && entries.next_depth() > outside {
        let (entry, level) = (entries.next_offset(), entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        while calls.pop_if(|call| *call >= level).is_some() {}
        other.take_if(|other| *other >= level);
        let attributes = taken(abbreviation, limits)?;
        if other.is_some() || abbreviation.tag() != gimli::DW_TAG_inlined_subroutine {
            if abbreviation.tag() == gimli::DW_TAG_subprogram {
                other.get_or_insert(level);
            }
            entries.skip_attributes(attributes)?;
            continue;
        }
        let (mut addresses, mut file, mut line) = (Addresses::default(), None, 0);
        for &specification in attributes {
            let attribute = entries.read_attribute(specification)?;
            let number = || attribute.udata_value();
            match attribute.name() {
                gimli::DW_AT_call_file => file = number(),
                gimli::DW_AT_call_line => {
                    line = number().and_then(|line| line.try_into().ok()).unwrap_or(0);
                }
                _ => addresses.take(&attribute),
            }
        }
        let depth = calls.len();
        calls.push(level);
        if depth >= DEPTH {
            limits.too_deep();
            continue;
        }
        let call = InlinedCall { entry, file, line };
        addresses.each(unit, |range| {
            let is_left = limits.entries(1);
            if is_left {
                all.push(InlinedRange { range, depth, call });
            }
            is_left
        })?;
    }
    Ok(())
}
