//! The guest feed: instructions that the engine executes drive the PMUs as they retire.
//!
//! An instruction retires at the boundary after it, in the ring of its address, and counts under
//! the register values that it leaves: the WRMSR that starts a counter is counted by it, the one
//! that stops it is not. The programs' instructions in ring 3 and the driver's own in ring 0
//! retire; the functions of the kernel and the framework are not code here, and add nothing.
//!
//! | event | what is counted |
//! |---|---|
//! | instructions | each once; one with a REP prefix when it is complete |
//! | branches | calls, returns, and jumps taken or not |
//! | L1 data-cache accesses | loads and stores; an instruction that does both counts as two |
//! | branch records | taken branches; mispredicted if they last went elsewhere; one cycle each |
//! | cycles, reference cycles | not real: one per instruction, which takes one nanosecond |
//! | all others | nothing: they stay 0 |
//!
//! An overflow requests its interrupt at the boundary after the instruction that overflowed, where
//! an interrupt without skid arrives: interrupts are taken at instruction boundaries, and the saved
//! pointer is that of the next instruction (SDM, "Program or Task Restart"). With a skid of N it
//! arrives N instructions later. Silicon also takes it between two iterations of a repeated
//! instruction; here it waits for the last.

use crate::memory::{STUBS, STUBS_SIZE, is_user};
use iced_x86::{Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, OpAccess};
use rustc_hash::FxHashMap;
use shared_types::BranchKind;
use sim::Taken;
use sim::cpu::Cpu;
use sim::cpu::event::{Counts, Event};

/// No instruction makes more data accesses than this at once (gathers make 16).
const MOST_ACCESSES: u64 = 16;

/// The most branches that are kept for each processor.
const TAKEN_MOST: usize = 1 << 20;

/// What an instruction adds when it retires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    branch: Option<BranchKind>,
    /// Its length in bytes.
    length: u64,
    /// Data accesses, for each iteration if it repeats.
    accesses: u64,
    /// Whether it has a REP prefix that makes it repeat.
    pub repeats: bool,
}

impl Facts {
    /// The facts about the instruction with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let branch = match instruction.flow_control() {
            FlowControl::UnconditionalBranch => Some(BranchKind::Jump),
            FlowControl::IndirectBranch => Some(BranchKind::IndirectJump),
            FlowControl::ConditionalBranch => Some(BranchKind::Conditional),
            FlowControl::Return => Some(BranchKind::Return),
            FlowControl::Call => Some(BranchKind::Call),
            FlowControl::IndirectCall => Some(BranchKind::IndirectCall),
            _ => None,
        };
        let accesses = |access| match access {
            OpAccess::Read | OpAccess::CondRead | OpAccess::Write | OpAccess::CondWrite => 1,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => 2,
            OpAccess::None | OpAccess::NoMemAccess => 0,
        };
        let mut factory = InstructionInfoFactory::new();
        let memory = factory.info(&instruction).used_memory();
        Self {
            branch,
            length: bytes.len() as u64,
            accesses: memory.iter().map(|used| accesses(used.access())).sum(),
            repeats: instruction.is_string_instruction()
                && (instruction.has_rep_prefix() || instruction.has_repne_prefix()),
        }
    }
}

/// What has retired in one ring.
#[derive(Clone, Copy, Default)]
struct Retired {
    instructions: u64,
    branches: u64,
    accesses: u64,
}

/// The state of one processor.
#[derive(Default)]
struct Tally {
    /// The instruction that is being executed and has not retired.
    current: Option<(u64, Facts)>,
    user: Retired,
    kernel: Retired,
    /// Instructions that have been reported to the processor.
    told: u64,
    /// No counter overflows before this many more instructions have retired.
    quiet: u64,
    /// A requested interrupt arrives when this many more instructions have retired.
    late: Option<u64>,
    arrived: bool,
    /// Instructions that had retired at the last taken branch.
    taken_at: u64,
    /// Where each branch last went, which is what the processor predicts.
    went: FxHashMap<u64, u64>,
    /// Every taken branch, in order.
    taken: Vec<Taken>,
}

impl Tally {
    fn instructions(&self) -> u64 {
        self.user.instructions + self.kernel.instructions
    }

    fn add(&mut self, address: u64, facts: Facts) {
        let ring = if is_user(address) { &mut self.user } else { &mut self.kernel };
        ring.instructions += 1;
        ring.branches += u64::from(facts.branch.is_some());
        if !facts.repeats {
            ring.accesses += facts.accesses;
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let (user, kernel) = (self.user, self.kernel);
        let rows = [
            (Event::Instructions, user.instructions, kernel.instructions),
            (Event::Cycles, user.instructions, kernel.instructions),
            (Event::RefCycles, user.instructions, kernel.instructions),
            (Event::Branches, user.branches, kernel.branches),
            (Event::L1dAccesses, user.accesses, kernel.accesses),
        ];
        for (event, user, kernel) in rows {
            counts.set(event, user + kernel, user);
        }
        counts
    }

    /// Reports to the processor what has retired, and lets that much time pass.
    fn tell(&mut self, cpu: &mut Cpu) {
        let instructions = self.instructions();
        let since = instructions - self.told;
        let now = cpu.processor.timestamp();
        cpu.processor.set_timestamp(now.wrapping_add(since));
        cpu.processor.retire(self.counts());
        self.told = instructions;
    }

    /// Computes how many instructions it takes at least until a counter overflows.
    fn look_ahead(&mut self, cpu: &Cpu) {
        let counts = self.counts();
        let mut fewest = u64::MAX;
        cpu.processor.watches(|watch| {
            let left = watch.at.saturating_sub(watch.feed.amount(&counts));
            let most = match watch.feed.event {
                Event::L1dAccesses => MOST_ACCESSES,
                _ => 1,
            };
            fewest = fewest.min(left.div_ceil(most));
        });
        self.quiet = fewest.max(1);
    }

    /// A branch has gone to `to`: the processor records it if it was taken. A conditional jump was
    /// taken unless it went to `behind`, the next instruction.
    fn branch(&mut self, cpu: &mut Cpu, kind: BranchKind, from: u64, to: u64, behind: u64) {
        // A branch that is taken for the first time counts as predicted.
        let predicted = self.went.insert(from, to).is_none_or(|before| before == to);
        if kind == BranchKind::Conditional && to == behind {
            return;
        }
        let now = self.instructions();
        let since = now - core::mem::replace(&mut self.taken_at, now);
        let taken = Taken {
            from,
            to,
            kind,
            mispredicted: !predicted,
            cycles: since.min(u16::MAX.into()) as u16,
        };
        cpu.processor.branch(&taken);
        if self.taken.len() < TAKEN_MOST {
            self.taken.push(taken);
        }
    }

    /// The instruction retires, and goes to `next`; returns whether an interrupt arrives after it.
    fn retire(&mut self, cpu: &mut Cpu, skid: u64, next: u64) -> bool {
        let Some((address, facts)) = self.current.take() else {
            return false;
        };
        self.add(address, facts);
        // The branch comes before its instruction's events: their overflow may freeze the records.
        if let Some(kind) = facts.branch {
            self.branch(cpu, kind, address, next, address + facts.length);
        }
        self.quiet = self.quiet.saturating_sub(1);
        let mut arrives = false;
        if let Some(late) = &mut self.late {
            *late -= 1;
            arrives = *late == 0;
        }
        // Until then no counter can overflow, and to ask the processor after each instruction would
        // be slow. An instruction that repeats has made more accesses than `look_ahead` allows for.
        if self.quiet == 0 || facts.repeats {
            self.tell(cpu);
            self.look_ahead(cpu);
            if self.late.is_none() && cpu.processor.interrupt_pending().is_some() {
                self.late = Some(skid);
                arrives = skid == 0;
            }
        }
        if arrives {
            self.late = None;
            self.arrived = true;
        }
        arrives
    }
}

pub struct Guest {
    skid: u64,
    facts: FxHashMap<u64, Facts>,
    tallies: Vec<Tally>,
}

impl Guest {
    /// A feed whose interrupts come this many instructions late.
    pub fn new(skid: u64) -> Self {
        Self { skid, facts: FxHashMap::default(), tallies: Vec::new() }
    }

    /// From now on interrupts come this many instructions late.
    pub fn set_skid(&mut self, skid: u64) {
        self.skid = skid;
    }

    fn tally(&mut self, index: usize) -> &mut Tally {
        if self.tallies.len() <= index {
            self.tallies.resize_with(index + 1, Tally::default);
        }
        &mut self.tallies[index]
    }

    /// The facts about the instruction at an address.
    pub fn facts(&self, address: u64) -> Option<Facts> {
        self.facts.get(&address).copied()
    }

    /// Adds an instruction that was not seen before.
    pub fn learn(&mut self, address: u64, facts: Facts) {
        self.facts.insert(address, facts);
    }

    /// New code has been loaded: forgets all facts.
    pub fn forget(&mut self) {
        self.facts.clear();
    }

    /// A slice begins: anything may have been done to the processor's registers since the last one.
    pub fn begin_slice(&mut self, index: usize) {
        let tally = self.tally(index);
        tally.quiet = 0;
        tally.arrived = false;
    }

    /// The instruction at `next` would come; returns whether an interrupt arrives before it.
    pub fn boundary(&mut self, cpu: &mut Cpu, index: usize, next: u64) -> bool {
        let skid = self.skid;
        let tally = self.tally(index);
        let repeats = |&(address, facts): &(u64, Facts)| facts.repeats && address == next;
        if tally.current.as_ref().is_some_and(repeats) {
            // Between two iterations the instruction has not retired.
            return false;
        }
        tally.retire(cpu, skid, next)
    }

    /// An instruction is executed, or repeated; one that repeats 0 times accesses nothing.
    pub fn execute(&mut self, index: usize, address: u64, facts: Facts, repeats_left: u64) {
        if (STUBS..STUBS + STUBS_SIZE).contains(&address) {
            return;
        }
        let tally = self.tally(index);
        tally.current = Some((address, facts));
        if facts.repeats && repeats_left > 0 {
            let ring = if is_user(address) { &mut tally.user } else { &mut tally.kernel };
            ring.accesses += facts.accesses;
        }
    }

    /// Software accesses a register: everything that has retired is reported to the processor, and
    /// the instruction being executed may change what overflows next.
    pub fn touch(&mut self, cpu: &mut Cpu, index: usize) {
        let tally = self.tally(index);
        tally.tell(cpu);
        tally.quiet = 0;
    }

    /// A slice ends before the instruction at `next`. An instruction that would go on repeating has
    /// not retired. Returns whether an interrupt arrives here.
    pub fn end_slice(&mut self, cpu: &mut Cpu, index: usize, next: u64) -> bool {
        let skid = self.skid;
        let tally = self.tally(index);
        let executed = tally.current.is_some_and(|(address, _)| address != next);
        if executed {
            tally.retire(cpu, skid, next);
        }
        tally.current = None;
        tally.tell(cpu);
        tally.arrived
    }

    /// Every branch that a processor has taken, in order.
    pub fn taken(&self, index: usize) -> &[Taken] {
        let tally = self.tallies.get(index);
        tally.map_or(&[], |tally| &tally.taken)
    }

    /// Whether an interrupt that a processor's unit has requested may have arrived there: on the
    /// processor that ran, when its instructions say so; on others at once, unless it is under way.
    pub fn arrived(&self, index: usize, ran: bool) -> bool {
        let tally = self.tallies.get(index);
        tally.is_some_and(|tally| tally.arrived || !ran && tally.late.is_none())
    }
}
