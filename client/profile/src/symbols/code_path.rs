//! A path through code that is not executed: branches that follow one another as the code allows.
//!
//! Where code does not say which way a branch goes, chance does, the same each time: loops are
//! rather repeated, other conditions rather not met. A call through a pointer goes to one of the
//! functions, and a jump through a pointer returns to the caller, like a call of another module.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use shared_types::BranchKind;

/// Branches before the way begins, so that it begins where code keeps coming.
const BEFORE: u64 = 256;
/// The fewest branches of a way, and the most.
const LENGTH: std::ops::Range<usize> = 16_384..262_144;
/// The most calls that are remembered.
const DEPTH: usize = 64;
/// How often the search for branches that lead nowhere goes through the code: of a chain of such
/// branches, each search finds one.
const SEARCHES: usize = 64;

/// A way through code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodePath {
    /// Its branches, each of which is the next one behind the target of the one before. The first
    /// one is the next behind the last.
    pub branches: Vec<PathBranch>,
    /// The addresses of all instructions that lead to a branch, in ascending order; the way between
    /// two branches is among them.
    pub instructions: Vec<u64>,
}

/// A branch on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathBranch {
    /// Its address.
    pub from: u64,
    /// Where code continues.
    pub to: u64,
    pub kind: BranchKind,
    /// Whether it is taken; if not, `to` is the next instruction.
    pub taken: bool,
}

struct Branch {
    at: u64,
    next: u64,
    /// The target that the instruction names.
    target: u64,
    kind: BranchKind,
    /// It leads somewhere.
    leads: bool,
}

/// The branches of code, and which of them every instruction leads to.
#[derive(Default)]
pub(super) struct Code {
    branches: Vec<Branch>,
    /// Addresses in ascending order, each with the index of the branch to which code runs straight on.
    instructions: Vec<(u64, Option<usize>)>,
}

impl Code {
    /// Adds code at an address; what is added later lies behind it.
    pub(super) fn add(&mut self, bitness: u32, bytes: &[u8], start: u64) {
        let first = self.instructions.len();
        let decoder = Decoder::with_ip(bitness, bytes, start, DecoderOptions::NONE);
        let instructions: Vec<Instruction> = decoder.into_iter().collect();
        // From the last one back, so that each knows the branch that it reaches.
        let mut reached = None;
        for instruction in instructions.iter().rev() {
            if let Some(kind) = kind(instruction) {
                reached = Some(self.branches.len());
                self.branches.push(Branch {
                    at: instruction.ip(),
                    next: instruction.next_ip(),
                    target: instruction.near_branch_target(),
                    kind,
                    leads: true,
                });
            } else if instruction.is_invalid() || ends(instruction) {
                reached = None;
            }
            self.instructions.push((instruction.ip(), reached));
        }
        self.instructions[first..].reverse();
    }

    /// A way that begins at one of these addresses, and leads back to its own beginning; empty if
    /// there is none.
    pub(super) fn code_path(mut self, entries: &[u64]) -> CodePath {
        let branches = self.branches_from(entries);
        if branches.is_empty() {
            return CodePath::default();
        }
        let leads = self.instructions.iter().filter(|(_, branch)| branch.is_some());
        CodePath { instructions: leads.map(|(address, _)| *address).collect(), branches }
    }

    fn branches_from(&mut self, entries: &[u64]) -> Vec<PathBranch> {
        self.find_dead_ends();
        let entries: Vec<u64> =
            entries.iter().copied().filter(|&entry| self.branch_from(entry).is_some()).collect();
        let Some(&first) = entries.first() else {
            return Vec::new();
        };
        let mut walk = Walk { code: self, entries, at: first, callers: Vec::new(), passed: 0 };
        for _ in 0..BEFORE {
            if walk.next(None).is_none() {
                return Vec::new();
            }
        }
        let start = walk.at;
        let mut code_path = Vec::new();
        while code_path.len() < LENGTH.end {
            // If code does not come back by itself, a branch that can go anywhere does.
            let target = (code_path.len() >= LENGTH.end / 2).then_some(start);
            let Some(passed) = walk.next(target) else {
                break;
            };
            code_path.push(passed);
            if code_path.len() >= LENGTH.start && passed.to == start {
                return code_path;
            }
        }
        Vec::new()
    }

    /// The branch that code at an address leads to, if that leads somewhere.
    fn branch_from(&self, address: u64) -> Option<&Branch> {
        let index = self.instructions.binary_search_by_key(&address, |(address, _)| *address);
        let branch = self.branches.get(self.instructions[index.ok()?].1?)?;
        branch.leads.then_some(branch)
    }

    fn find_dead_ends(&mut self) {
        for _ in 0..SEARCHES {
            let there = |address| self.branch_from(address).is_some();
            let leads = |branch: &Branch| match branch.kind {
                BranchKind::Conditional => there(branch.target) || there(branch.next),
                BranchKind::Jump | BranchKind::Call => there(branch.target),
                _ => true,
            };
            let dead: Vec<usize> = (0..self.branches.len())
                .filter(|&index| self.branches[index].leads && !leads(&self.branches[index]))
                .collect();
            if dead.is_empty() {
                return;
            }
            for index in dead {
                self.branches[index].leads = false;
            }
        }
    }
}

struct Walk<'a> {
    code: &'a Code,
    entries: Vec<u64>,
    at: u64,
    /// Where calls return to.
    callers: Vec<u64>,
    passed: u64,
}

impl Walk<'_> {
    /// Runs on to the next branch and past it, to `target` if that branch can go anywhere.
    fn next(&mut self, target: Option<u64>) -> Option<PathBranch> {
        let branch = self.code.branch_from(self.at)?;
        let there = |address: &u64| self.code.branch_from(*address).is_some();
        self.passed += 1;
        let chance = mixed(self.passed) >> 61;
        let mut taken = true;
        let to = match branch.kind {
            BranchKind::Conditional => {
                let backward = branch.target <= branch.at;
                let likely = if backward { chance != 0 } else { chance < 2 };
                taken = there(&branch.target) && (likely || !there(&branch.next));
                if taken { branch.target } else { branch.next }
            }
            BranchKind::Jump => branch.target,
            BranchKind::Call => {
                self.call(branch.next);
                branch.target
            }
            BranchKind::IndirectCall => {
                self.call(branch.next);
                target.unwrap_or_else(|| self.entry())
            }
            _ => {
                let mut caller = self.callers.pop();
                while caller.is_some_and(|caller| !there(&caller)) {
                    caller = self.callers.pop();
                }
                target.or(caller).unwrap_or_else(|| self.entry())
            }
        };
        self.at = to;
        Some(PathBranch { from: branch.at, to, kind: branch.kind, taken })
    }

    fn call(&mut self, back: u64) {
        if self.callers.len() == DEPTH {
            self.callers.remove(0);
        }
        self.callers.push(back);
    }

    /// One function after the other.
    fn entry(&self) -> u64 {
        let index = self.passed % self.entries.len().max(1) as u64;
        self.entries.get(index as usize).copied().unwrap_or(self.at)
    }
}

/// The number with this index of SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom
/// number generators). With a weaker hash, loops would end in step with their number.
const fn mixed(index: u64) -> u64 {
    let state = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

/// The kind of a branch of user code; `None` for other instructions, system calls included.
fn kind(instruction: &Instruction) -> Option<BranchKind> {
    Some(match instruction.flow_control() {
        FlowControl::ConditionalBranch => BranchKind::Conditional,
        FlowControl::UnconditionalBranch => BranchKind::Jump,
        FlowControl::IndirectBranch => BranchKind::IndirectJump,
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Call => BranchKind::Call,
        FlowControl::IndirectCall => BranchKind::IndirectCall,
        FlowControl::Return => BranchKind::Return,
        _ => return None,
    })
}

/// Whether code does not continue behind an instruction that is no branch.
fn ends(instruction: &Instruction) -> bool {
    let flow = instruction.flow_control();
    matches!(flow, FlowControl::Exception | FlowControl::Interrupt)
        || instruction.mnemonic() == Mnemonic::Hlt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> Code {
        let mut code = Code::default();
        code.add(64, bytes, 0x1000);
        code
    }

    /// Code runs straight on from the target of each branch to the next, around the end.
    #[test]
    fn a_way_goes_where_the_code_goes_and_is_closed() {
        let bytes = [
            0x31, 0xC0, // 1000 xor eax, eax
            0xFF, 0xC0, // 1002 inc eax
            0x83, 0xF8, 0x0A, // 1004 cmp eax, 10
            0x75, 0xF9, // 1007 jne 1002
            0xE8, 0x02, 0x00, 0x00, 0x00, // 1009 call 1010
            0xC3, // 100E ret
            0xCC, // 100F int3
            0x90, // 1010 nop
            0xC3, // 1011 ret
        ];
        let CodePath { branches: code_path, instructions } = code(&bytes).code_path(&[0x1000]);
        let next = code_path.iter().cycle().skip(1);
        let mut seen = std::collections::BTreeSet::new();
        for (one, next) in code_path.iter().zip(next) {
            let reached = match one.to {
                0x1000 | 0x1002 => 0x1007,
                0x1009 => 0x1009,
                0x100E => 0x100E,
                0x1010 => 0x1011,
                other => panic!("{other:#x}"),
            };
            assert_eq!(next.from, reached);
            seen.insert((one.from, one.to, one.taken));
        }
        let edges = [
            (0x1007, 0x1002, true),
            (0x1007, 0x1009, false),
            (0x1009, 0x1010, true),
            (0x100E, 0x1000, true),
            (0x1011, 0x100E, true),
        ];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), edges);
        assert_eq!(code_path, code(&bytes).code_path(&[0x1000]).branches);
        let own = [0x1000, 0x1002, 0x1004, 0x1007, 0x1009, 0x100E, 0x1010, 0x1011];
        assert_eq!(instructions, own);
    }

    #[test]
    fn a_way_avoids_what_leads_nowhere() {
        // 1000 je 1007; 1002 call out of the code; 1007 jmp 1000.
        let bytes = [0x74, 0x05, 0xE8, 0, 0x10, 0, 0, 0xEB, 0xF7];
        let code_path = code(&bytes).code_path(&[0x1000]).branches;
        let edges: std::collections::BTreeSet<_> =
            code_path.iter().map(|one| (one.from, one.to)).collect();
        assert_eq!(edges.into_iter().collect::<Vec<_>>(), [(0x1000, 0x1007), (0x1007, 0x1000)]);
        // Nothing but a jump out of the code, or no branch at all.
        for bytes in [&[0xE9, 0, 0x10, 0, 0][..], &[0x90, 0x90], &[]] {
            assert!(code(bytes).code_path(&[0x1000]).branches.is_empty());
        }
    }
}
