//! The branches of a workload: code runs straight on from the target of each one that is taken to
//! the next.
//!
//! Branches of user mode walk through user code and those of the kernel through kernel code, and
//! lead from one mode to the other. Where user code is of a real file, [`Workload::follow`] says
//! which way they go. Elsewhere code consists of blocks of four instructions, the last of which is a
//! branch that is always taken. Blocks come in pairs, and a walk goes from pair to pair in the order
//! of their addresses and starts over at the end: three times out of four to the first block of the
//! next pair, otherwise to its second.

use super::{KERNEL_CODE, Workload, split_mix};
use crate::cpu::event::Event;
use crate::cpu::lbr::Taken;
use shared_types::BranchKind;

/// Instructions of a block.
const BLOCK: u64 = 4;
/// Bytes in an instruction unless the workload says otherwise.
const INSTRUCTION: u64 = 4;

/// A branch on the way through real code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Its address.
    pub from: u64,
    /// Where code continues.
    pub to: u64,
    pub kind: BranchKind,
    /// Whether it is taken; if not, `to` is the next instruction.
    pub taken: bool,
}

/// A branch with a number.
#[derive(Clone, Copy)]
struct Numbered {
    user: bool,
    /// Where the code begins that leads to it when the mode has just changed.
    start: u64,
    /// The branch; its target, where the code says it.
    from: u64,
    to: Option<u64>,
    kind: BranchKind,
    taken: bool,
}

impl Workload {
    /// User branches go this way again and again: code runs straight on from the target of each to
    /// the next, and from that of the last to the first. `instructions` are those of the code that
    /// they lead through, in ascending order; the way between two branches is among them.
    pub fn follow(&mut self, way: Vec<Passed>, instructions: Vec<u64>) {
        self.parts.way = Some(way.into());
        self.parts.on_way = instructions.into();
    }

    /// The instructions between the user branch with this number and the next one, which is the last
    /// of them; none where it is not known which way code goes.
    pub(super) fn straight(&self, number: u64) -> &[u64] {
        let all = &self.parts.on_way;
        let place = |address| all.binary_search(&address).ok();
        // Before the first branch is the way from the last one.
        let length = self.parts.way.as_ref().map_or(0, |way| way.len() as u64);
        let before = self.way_at(number + length);
        let range = before.zip(self.way_at(number + 1)).and_then(|(before, next)| {
            let (first, last) = place(before.to).zip(place(next.from))?;
            all.get(first..=last)
        });
        range.unwrap_or_default()
    }

    /// The branches that are taken after one position up to another, oldest first: of the last of
    /// all, at most `most`.
    pub fn branches_between(
        &self,
        after: u64,
        position: u64,
        most: u64,
    ) -> impl Iterator<Item = Taken> + '_ {
        let happened = |position| self.counts_at(position).total(Event::Branches);
        let last = happened(position);
        let first = happened(after).max(last.saturating_sub(most));
        (first..last).flat_map(|before| self.taken(before + 1).into_iter().flatten())
    }

    /// What is taken at the branch with this number, counting from 1: the branch, and an interrupt
    /// behind it that leads to the kernel.
    fn taken(&self, number: u64) -> [Option<Taken>; 2] {
        let Some((branch, next)) = self.numbered(number).zip(self.numbered(number + 1)) else {
            return [None; 2];
        };
        let amount = |event| self.amount(event);
        let cycles = amount(Event::Cycles) / amount(Event::Branches).max(1);
        let leads = |from, to, kind, mispredicted| {
            Some(Taken { from, to, kind, mispredicted, cycles: cycles.min(u16::MAX.into()) as u16 })
        };
        // Modelled code can lead to the other mode by the branch itself; a branch of real code has
        // its own target.
        if branch.user != next.user && branch.to.is_none() {
            return [leads(branch.from, next.start, BranchKind::Other, false), None];
        }
        let to = branch.to.unwrap_or(next.start);
        let own = leads(branch.from, to, branch.kind, self.mispredicted(number));
        // The interrupt comes where the next user branch would be.
        let resumed = self.way_at(self.user(Event::Branches, number) + 1);
        let interrupt = resumed
            .filter(|_| branch.user != next.user)
            .and_then(|at| leads(at.from, next.start, BranchKind::Other, false));
        [own.filter(|_| branch.taken), interrupt]
    }

    /// About as many as the workload has mispredictions, scattered.
    fn mispredicted(&self, number: u64) -> bool {
        let (branches, misses) = (self.amount(Event::Branches), self.amount(Event::BranchMisses));
        let mut random = number;
        let random = u128::from(split_mix(&mut random));
        (random * u128::from(branches)) >> u64::BITS < u128::from(misses)
    }

    /// The branch with this number, or the last one; `None` where it is not known which way code
    /// goes.
    fn numbered(&self, number: u64) -> Option<Numbered> {
        let number = number.clamp(1, self.amount(Event::Branches).max(1));
        let users = self.user(Event::Branches, number);
        let user = users > self.user(Event::Branches, number - 1);
        if user && self.parts.instructions.is_some() {
            let Passed { from, to, kind, taken } = self.way_at(users)?;
            return Some(Numbered { user, start: from, from, to: Some(to), kind, taken });
        }
        let (start, end) = if user { self.parts.code } else { KERNEL_CODE };
        let instructions = (end - start).div_ceil(INSTRUCTION);
        let blocks = (instructions / BLOCK).max(1);
        let pairs = (blocks / 2).max(1);
        let walked = if user { users } else { number - users };
        let mut random = walked;
        let second = u64::from(split_mix(&mut random).is_multiple_of(4));
        let block = (walked % pairs * 2 + second).min(blocks - 1);
        let address = |index: u64| start + INSTRUCTION * index.min(instructions - 1);
        Some(Numbered {
            user,
            start: address(block * BLOCK),
            from: address(block * BLOCK + BLOCK - 1),
            to: None,
            kind: match block % 8 {
                0..=3 => BranchKind::Conditional,
                4 => BranchKind::Jump,
                5 => BranchKind::Call,
                6 => BranchKind::Return,
                _ => BranchKind::IndirectJump,
            },
            taken: true,
        })
    }

    /// The user branch with this number on the way through real code, counting from 1.
    fn way_at(&self, number: u64) -> Option<Passed> {
        let way = self.parts.way.as_ref()?;
        let place = number.saturating_sub(1).checked_rem(way.len() as u64)?;
        way.get(place as usize).copied()
    }
}
