//! The branches of a workload: each one is taken, and the next one is in the block that it goes to.
//!
//! Code consists of blocks of four instructions, the last of which is the branch. Blocks come in
//! pairs, and a walk goes from pair to pair in the order of their addresses and starts over at the
//! end: three times out of four to the first block of the next pair, otherwise to its second.
//! Branches of user mode walk through user code and those of the kernel through kernel code; a far
//! branch leads from one mode to the other.

use super::{KERNEL_CODE, Workload, split_mix};
use crate::branches::Taken;
use crate::event::Event;
use shared_types::BranchKind;

/// Instructions of a block.
const BLOCK: u64 = 4;
/// Bytes in an instruction unless the workload says otherwise.
const INSTRUCTION: u64 = 4;
/// One in this many branches is mispredicted.
const MISPREDICTED_EACH: u64 = 16;

impl Workload {
    /// The branches after one position up to another, oldest first: the last of them, at most
    /// `most`.
    pub fn branches_between(
        &self,
        after: u64,
        position: u64,
        most: u64,
    ) -> impl Iterator<Item = Taken> + '_ {
        let taken = |position| self.counts_at(position).total(Event::Branches);
        let last = taken(position);
        let first = taken(after).max(last.saturating_sub(most));
        (first..last).map(|before| self.branch(before + 1))
    }

    /// The branch with this number, counting from 1.
    #[must_use]
    pub fn branch(&self, number: u64) -> Taken {
        let (block, user) = self.block(number);
        let (next, next_user) = self.block(number + 1);
        let mut random = number;
        let amount = |event| self.amount(event);
        let cycles = amount(Event::Cycles) / amount(Event::Branches).max(1);
        Taken {
            from: self.instruction(block * BLOCK + BLOCK - 1, user),
            to: self.instruction(next * BLOCK, next_user),
            kind: match block % 8 {
                _ if user != next_user => BranchKind::Other,
                0..=3 => BranchKind::Conditional,
                4 => BranchKind::Jump,
                5 => BranchKind::Call,
                6 => BranchKind::Return,
                _ => BranchKind::IndirectJump,
            },
            mispredicted: split_mix(&mut random).is_multiple_of(MISPREDICTED_EACH),
            cycles: cycles.min(u16::MAX.into()) as u16,
        }
    }

    /// The block that the branch with this number ends, and whether it is in user mode.
    fn block(&self, number: u64) -> (u64, bool) {
        let number = number.clamp(1, self.amount(Event::Branches).max(1));
        let users = self.user(Event::Branches, number);
        let user = users > self.user(Event::Branches, number - 1);
        let walked = if user { users } else { number - users };
        let blocks = (self.instructions(user) / BLOCK).max(1);
        let pairs = (blocks / 2).max(1);
        let mut random = walked;
        let second = u64::from(split_mix(&mut random).is_multiple_of(4));
        ((walked % pairs * 2 + second).min(blocks - 1), user)
    }

    /// The number of instructions in the code of a mode.
    fn instructions(&self, user: bool) -> u64 {
        let length = |(start, end): (u64, u64)| (end - start).div_ceil(INSTRUCTION);
        match &self.parts.instructions {
            _ if !user => length(KERNEL_CODE),
            None => length(self.parts.code),
            Some(addresses) => addresses.len() as u64,
        }
    }

    fn instruction(&self, index: u64, user: bool) -> u64 {
        let index = index.min(self.instructions(user) - 1);
        match &self.parts.instructions {
            _ if !user => KERNEL_CODE.0 + INSTRUCTION * index,
            None => self.parts.code.0 + INSTRUCTION * index,
            Some(addresses) => addresses[index as usize],
        }
    }
}
