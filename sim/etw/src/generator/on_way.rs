//! Where the threads of a program are on its way, and who called what they run.

use super::Program;
use fastrand::Rng;
use shared_types::BranchKind;
use sim::load::workload::Passed;
use std::sync::Arc;

/// The most callers that a stack shows.
const DEPTH: usize = 64;

/// The way of a program with the callers at each place. A place is the index of the branch that comes
/// next.
pub(super) struct OnWay {
    way: Arc<[Passed]>,
    instructions: Arc<[u64]>,
    /// Where a call returns to, and the call around it as an index.
    calls: Vec<(u64, Option<usize>)>,
    /// The innermost call at each place.
    innermost: Vec<Option<usize>>,
}

impl OnWay {
    /// `None` if the program does not say which way its code goes.
    pub(super) fn of(program: &Program) -> Option<Self> {
        let Program { way, on_way, .. } = program;
        if way.is_empty() || on_way.is_empty() {
            return None;
        }
        let (way, instructions) = (Arc::clone(way), Arc::clone(on_way));
        let mut on_way = Self { way, instructions, calls: Vec::new(), innermost: Vec::new() };
        // The way may begin within calls, which its end says.
        let end = on_way.go_around(None);
        on_way.innermost.clear();
        on_way.go_around(end);
        Some(on_way)
    }

    /// Notes the calls from the first branch to the last; returns the innermost one at the end.
    fn go_around(&mut self, mut innermost: Option<usize>) -> Option<usize> {
        let way = Arc::clone(&self.way);
        for passed in way.iter() {
            self.innermost.push(innermost);
            innermost = match passed.kind {
                BranchKind::Conditional | BranchKind::Jump => innermost,
                BranchKind::Call | BranchKind::IndirectCall => {
                    let next = self.instructions.partition_point(|&at| at <= passed.from);
                    let back = self.instructions.get(next).copied();
                    self.calls.push((back.unwrap_or(passed.from), innermost));
                    Some(self.calls.len() - 1)
                }
                _ => self.around(self.returned(innermost, passed.to)),
            };
        }
        innermost
    }

    /// The call that returns to an address; `None` if none does.
    fn returned(&self, innermost: Option<usize>, to: u64) -> Option<usize> {
        self.callers(innermost).find(|&call| self.calls[call].0 == to)
    }

    fn around(&self, call: Option<usize>) -> Option<usize> {
        self.calls[call?].1
    }

    fn callers(&self, innermost: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(innermost, |&call| self.calls[call].1).take(DEPTH)
    }

    /// One of the places.
    pub(super) fn place(&self, rng: &mut Rng) -> usize {
        rng.usize(..self.way.len())
    }

    /// The stack at a place, innermost first: at one of the instructions up to the next branch, or at that
    /// branch, where interrupts come.
    pub(super) fn stack(&self, place: usize, is_interrupted: bool, rng: &mut Rng) -> Vec<u64> {
        let next = self.way[place].from;
        let length = self.way.len();
        let begin = self.way[(place + length - 1) % length].to;
        let index = |address: u64| self.instructions.binary_search(&address).ok();
        let straight = index(begin).zip(index(next));
        let straight = straight.and_then(|(first, last)| self.instructions.get(first..=last));
        let address = match straight {
            Some(straight) if !is_interrupted => straight[rng.usize(..straight.len())],
            _ => next,
        };
        let callers = self.callers(self.innermost[place]).map(|call| self.calls[call].0);
        std::iter::once(address).chain(callers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// `main` (from 0) calls `outer` (from 0x100) in a loop, and that calls `inner` (from 0x200). The way
    /// begins in `inner`.
    #[test]
    fn stacks_have_the_callers_on_the_way() {
        let passed = |from, to, kind| Passed { from, to, kind, taken: true };
        let way = [
            passed(0x204, 0x200, BranchKind::Conditional),
            passed(0x208, 0x104, BranchKind::Return),
            passed(0x108, 0x08, BranchKind::Return),
            passed(0x08, 0x00, BranchKind::Jump),
            passed(0x04, 0x100, BranchKind::Call),
            passed(0x100, 0x200, BranchKind::Call),
        ];
        let instructions = [0, 4, 8, 0x100, 0x104, 0x108, 0x200, 0x204, 0x208];
        let program = Program {
            way: way.into(),
            on_way: instructions.into(),
            instructions: instructions.into(),
            path: String::new(),
            pdb: None,
            start: 0,
            end: 0x1000,
        };
        let on_way = OnWay::of(&program).expect("a way");
        let mut rng = Rng::with_seed(1);
        let mut stacks = |place| -> BTreeSet<Vec<u64>> {
            (0..64).map(|_| on_way.stack(place, false, &mut rng)).collect()
        };
        let all = |stacks: &[&[u64]]| stacks.iter().map(|stack| stack.to_vec()).collect();
        let inner: BTreeSet<Vec<u64>> = all(&[&[0x200, 0x104, 8], &[0x204, 0x104, 8]]);
        assert_eq!(stacks(0), inner);
        assert!(stacks(1).contains(&vec![0x208, 0x104, 8]));
        assert_eq!(stacks(2), all(&[&[0x104, 8], &[0x108, 8]]));
        assert_eq!(stacks(3), all(&[&[8]]));
        assert_eq!(stacks(4), all(&[&[0], &[4]]));
        assert_eq!(stacks(5), all(&[&[0x100, 8]]));
        assert_eq!(on_way.stack(2, true, &mut rng), [0x108, 8]);
    }
}
