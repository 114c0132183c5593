//! What a program did in a range of its code, instruction by instruction.
//!
//! Executions, branches and memory accesses are exact: the stepper reports each instruction of the
//! program. What modelled caches make of them is counted separately. The state before the range, address translation, the bus and other processors are not simulated.

pub mod cache;
mod registers;

use cache::{Caches, Kind};
use halprof_profile::views::annotate::intel;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, InstructionInfoFactory,
    InstructionInfoOptions, MemorySize, OpAccess, OpKind,
};
pub use registers::Registers;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// The counts of one instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// How often it was executed; a REP counts once, however often it repeats.
    pub executions: u64,
    /// Iterations of a REP.
    pub iterations: u64,
    /// How often it branched elsewhere than to the next instruction.
    pub taken: u64,
    /// Memory operands that it read.
    pub reads: u64,
    /// Memory operands that it wrote.
    pub writes: u64,
    /// Bytes of these operands.
    pub bytes: u64,
    /// Accesses whose address is not a multiple of their size.
    pub misaligned: u64,
    /// Accesses whose address is not known: gathers and scatters.
    pub unknown: u64,
    /// Modelled: misses in each cache.
    pub misses: Vec<u64>,
}

impl Counts {
    /// Adds another instruction's counts.
    pub fn add(&mut self, other: &Self) {
        self.executions += other.executions;
        self.iterations += other.iterations;
        self.taken += other.taken;
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.misaligned += other.misaligned;
        self.unknown += other.unknown;
        self.misses.resize(self.misses.len().max(other.misses.len()), 0);
        for (sum, misses) in self.misses.iter_mut().zip(&other.misses) {
            *sum += misses;
        }
    }
}

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next instruction, or by a jump.
    On,
    /// Into a function that returns to the next instruction.
    Call,
    /// Back to the caller.
    Return,
}

/// What is known about an instruction before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Where control goes after it.
    pub flow: Flow,
    /// The address of the instruction after it.
    pub behind: u64,
    /// Whether it repeats, and so may end at its own address.
    pub repeats: bool,
    /// Whether it pushes the flags, including the trap flag that the debugger set.
    pub pushes_flags: bool,
}

/// One instruction of the range.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its disassembly in Intel's syntax.
    pub text: String,
    /// Its counts.
    pub counts: Counts,
}

/// A range of code and its counts.
pub struct Simulation {
    start: u64,
    code: Vec<u8>,
    bitness: u32,
    decoded: FxHashMap<u64, Instruction>,
    rows: BTreeMap<u64, Counts>,
    caches: Caches,
    information: InstructionInfoFactory,
}

impl Simulation {
    /// A simulation of this code at this address, with caches that start empty.
    #[must_use]
    pub fn new(start: u64, code: Vec<u8>, is_32_bit: bool, caches: Caches) -> Self {
        Self {
            start,
            code,
            bitness: if is_32_bit { 32 } else { 64 },
            decoded: FxHashMap::default(),
            rows: BTreeMap::new(),
            caches,
            information: InstructionInfoFactory::new(),
        }
    }

    /// Whether it is 32-bit code.
    #[must_use]
    pub const fn is_32_bit(&self) -> bool {
        self.bitness == 32
    }

    /// Whether an address is in the range.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.code.len() as u64
    }

    /// What is known about the instruction at an address of the range.
    pub fn next(&mut self, address: u64) -> Next {
        use iced_x86::Mnemonic::{Pushf, Pushfd, Pushfq, Syscall, Sysenter};
        let instruction = self.instruction(address);
        let flow = match instruction.flow_control() {
            // The kernel's code is not stepped, and returns to the next instruction by itself.
            _ if [Syscall, Sysenter].contains(&instruction.mnemonic()) => Flow::On,
            FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
            FlowControl::Return => Flow::Return,
            _ => Flow::On,
        };
        Next {
            flow,
            behind: instruction.next_ip(),
            repeats: repeats(&instruction),
            pushes_flags: [Pushf, Pushfd, Pushfq].contains(&instruction.mnemonic()),
        }
    }

    fn instruction(&mut self, address: u64) -> Instruction {
        let (start, code, bitness) = (self.start, &self.code, self.bitness);
        let decode = || {
            let offset = address.wrapping_sub(start) as usize;
            let bytes = code.get(offset..).unwrap_or_default();
            Decoder::with_ip(bitness, bytes, address, DecoderOptions::NONE).decode()
        };
        *self.decoded.entry(address).or_insert_with(decode)
    }

    /// Counts the instruction that a thread with these registers has executed, after which it was
    /// at `after`. `again` marks a further iteration of a REP that was already counted.
    pub fn executed(&mut self, before: &Registers, after: u64, again: bool) {
        let instruction = self.instruction(before.ip);
        let caches = self.caches.geometries().count();
        let row = self
            .rows
            .entry(before.ip)
            .or_insert_with(|| Counts { misses: vec![0; caches], ..Counts::default() });
        if !again {
            row.executions += 1;
            let length = instruction.len() as u64;
            self.caches.access(Kind::Instruction, before.ip, length, &mut row.misses);
        }
        if repeats(&instruction) {
            if counter(&instruction, before) == 0 {
                return;
            }
            row.iterations += 1;
        } else {
            let taken = after != instruction.next_ip();
            row.taken += u64::from(taken && instruction.flow_control() != FlowControl::Next);
        }
        let information =
            self.information.info_options(&instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
        for operand in information.used_memory() {
            let (read, written) = kinds(operand.access());
            if !read && !written {
                continue;
            }
            row.reads += u64::from(read);
            row.writes += u64::from(written);
            // iced-x86 does not give the size of a REP's operand, as it takes all iterations
            // together.
            let size = match operand.memory_size() {
                MemorySize::Unknown => instruction.memory_size(),
                size => size,
            };
            let bytes = size.size() as u64;
            row.bytes += bytes * (u64::from(read) + u64::from(written));
            let address = operand.virtual_address(0, |register, _, _| before.value(register));
            match address {
                Some(address) => {
                    let aligned = bytes == 0 || address % bytes.next_power_of_two() == 0;
                    row.misaligned += u64::from(!aligned);
                    self.caches.access(Kind::Data, address, bytes, &mut row.misses);
                }
                None => row.unknown += 1,
            }
        }
    }

    /// The instructions of the range in order: those that were executed, and between them what the
    /// bytes decode to.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let offset = |address: u64| address.wrapping_sub(self.start) as usize;
        let mut formatter = intel();
        let mut rows = Vec::new();
        let mut address = self.start;
        let mut executed = self.rows.iter().peekable();
        while self.contains(address) {
            let counted = executed.next_if(|&(&at, _)| at <= address);
            let at = counted.map_or(address, |(&at, _)| at);
            let bytes = self.code.get(offset(at)..).unwrap_or_default();
            let decoder = Decoder::with_ip(self.bitness, bytes, at, DecoderOptions::NONE);
            let Some(instruction) = decoder.into_iter().next() else {
                break;
            };
            let length = instruction.len().max(1);
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            rows.push(Row {
                address: at,
                bytes: bytes.get(..length).unwrap_or(bytes).to_vec(),
                text,
                counts: counted.map_or_else(Counts::default, |(_, counts)| counts.clone()),
            });
            let behind = at.wrapping_add(length as u64);
            // Where the decoder disagrees with an instruction that ran, the latter is right.
            address = match executed.peek() {
                Some(&(&next, _)) => behind.min(next.max(at + 1)),
                None => behind,
            };
        }
        rows
    }

    /// The caches, with their counts.
    #[must_use]
    pub const fn caches(&self) -> &Caches {
        &self.caches
    }
}

/// The instruction that an address cuts in two, where code that begins at `start` is decoded.
#[must_use]
pub fn cut(code: &[u8], start: u64, address: u64, is_32_bit: bool) -> Option<Range<u64>> {
    let bitness = if is_32_bit { 32 } else { 64 };
    let decoder = Decoder::with_ip(bitness, code, start, DecoderOptions::NONE);
    let mut spans = decoder.into_iter().map(|one| one.ip()..one.next_ip());
    let reaches = |one: &Range<u64>| one.end > address;
    spans.find(reaches).filter(|one| one.start < address)
}

/// Whether each iteration of an instruction is one step.
fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// The remaining count of a REP: from ECX if addresses have 32 bits.
fn counter(instruction: &Instruction, registers: &Registers) -> u64 {
    use OpKind::{MemoryESEDI, MemorySegEDI, MemorySegESI};
    let short = |kind| matches!(kind, MemoryESEDI | MemorySegEDI | MemorySegESI);
    let wide = !instruction.op_kinds().any(short);
    if wide && !registers.is_32_bit { registers.count() } else { registers.count() & 0xFFFF_FFFF }
}

/// Whether an operand is read, and whether it is written.
const fn kinds(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

#[cfg(test)]
mod tests;
