//! What a program did in a range of its code, instruction by instruction.
//!
//! Executions, branches and memory accesses are exact: the stepper reports each instruction of the
//! program. What modelled caches make of them is counted separately. The state before the range,
//! address translation, the bus and other processors are not simulated.

use crate::cache::{Caches, Kind, Misses};
use crate::registers::Registers;
use halprof_profile::views::annotate::intel;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, InstructionInfoFactory,
    InstructionInfoOptions, MemorySize, Mnemonic, OpAccess, OpKind, Register,
};
use rustc_hash::FxHashMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::Range;

/// The counts of an instruction or a source line.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
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
    #[schemars(schema_with = "by_cache")]
    pub misses: Misses,
}

/// The caches that a processor may have.
fn by_cache(generator: &mut SchemaGenerator) -> Schema {
    let count = generator.subschema_for::<u64>();
    json_schema!({
        "type": "object",
        "properties": {"L1D": count, "L1I": count, "L2": count, "L3": count, "L4": count},
    })
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
        for (cache, misses) in &other.misses {
            *self.misses.entry(cache.clone()).or_default() += misses;
        }
    }
}

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next instruction, or by a jump.
    Local,
    /// Into a function that returns to the next instruction.
    Call,
    /// Back to the caller.
    Return,
}

/// One instruction of the range.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct InstructionRow {
    /// The address in the program's file.
    #[serde(serialize_with = "as_address")]
    #[schemars(with = "String")]
    pub address: u64,
    /// Its disassembly in Intel's syntax.
    pub instruction: String,
    /// Its bytes.
    #[serde(serialize_with = "as_hex")]
    #[schemars(with = "String")]
    pub code: Vec<u8>,
    /// The source file that it was compiled from.
    pub file: Option<String>,
    /// The line in this file.
    pub line: Option<u32>,
    /// What it called, most often first; absent if it called nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallTarget>,
    /// Its counts.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A function that an instruction called.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CallTarget {
    /// Its module and name, or the module and an address in it.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn as_address<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#x}"))
}

fn as_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let digits = bytes.iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
    serializer.serialize_str(&digits)
}

/// A range of code and its counts.
pub struct Simulation {
    start: u64,
    code: Vec<u8>,
    is_32_bit: bool,
    decoded: FxHashMap<u64, Instruction>,
    executed: BTreeMap<u64, Counts>,
    caches: Caches,
    information: InstructionInfoFactory,
}

impl Simulation {
    /// A simulation of this code at this address, with caches that start empty.
    pub fn new(start: u64, code: Vec<u8>, is_32_bit: bool, caches: Caches) -> Self {
        Self {
            start,
            code,
            is_32_bit,
            decoded: FxHashMap::default(),
            executed: BTreeMap::new(),
            caches,
            information: InstructionInfoFactory::new(),
        }
    }

    /// Whether an address is in the range.
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.code.len() as u64
    }

    /// Whether the code has 32 bits.
    pub const fn is_32_bit(&self) -> bool {
        self.is_32_bit
    }

    /// Whether the instruction at an address is known.
    pub fn knows(&self, address: u64) -> bool {
        self.contains(address) || self.decoded.contains_key(&address)
    }

    /// Takes the bytes of an instruction outside of the range.
    pub fn learn(&mut self, address: u64, bytes: &[u8]) {
        let instruction = decoder(bytes, address, self.is_32_bit).decode();
        self.decoded.insert(address, instruction);
    }

    /// The instruction at an address of the range, or one that was learnt.
    pub fn instruction(&mut self, address: u64) -> Instruction {
        if let Some(&instruction) = self.decoded.get(&address) {
            return instruction;
        }
        let instruction = self.decoder(address).decode();
        self.decoded.insert(address, instruction);
        instruction
    }

    fn decoder(&self, address: u64) -> Decoder<'_> {
        decoder(self.bytes_from(address), address, self.is_32_bit)
    }

    fn bytes_from(&self, address: u64) -> &[u8] {
        let offset = address.wrapping_sub(self.start) as usize;
        self.code.get(offset..).unwrap_or_default()
    }

    /// Counts the instruction that a thread with these registers has executed, after which it was
    /// at `after`. `again` marks a further iteration of a REP that was already counted.
    pub fn executed(&mut self, before: &Registers, after: u64, again: bool) {
        let instruction = self.instruction(before.ip);
        let counts = self.executed.entry(before.ip).or_insert_with(|| no_counts(&self.caches));
        if !again {
            counts.executions += 1;
            let length = instruction.len() as u64;
            self.caches.access(Kind::Instruction, before.ip, length, &mut counts.misses);
        }
        if repeats(&instruction) {
            // A REP that has nothing left to do touches no memory.
            if repetitions_left(&instruction, before) == 0 {
                return;
            }
            counts.iterations += 1;
        } else {
            let taken = after != instruction.next_ip();
            counts.taken += u64::from(taken && instruction.flow_control() != FlowControl::Next);
        }
        let information =
            self.information.info_options(&instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
        for operand in information.used_memory() {
            let (read, written) = reads_and_writes(operand.access());
            if !read && !written {
                continue;
            }
            counts.reads += u64::from(read);
            counts.writes += u64::from(written);
            // iced-x86 does not give the size of a REP's operand, as it takes all iterations
            // together.
            let size = match operand.memory_size() {
                MemorySize::Unknown => instruction.memory_size(),
                size => size,
            };
            let bytes = size.size() as u64;
            counts.bytes += bytes * (u64::from(read) + u64::from(written));
            match operand.virtual_address(0, |register, _, _| before.value(register)) {
                Some(address) => {
                    // A long double has ten bytes, and compilers align it to 16.
                    let aligned = bytes == 0 || address % bytes.next_power_of_two() == 0;
                    counts.misaligned += u64::from(!aligned);
                    self.caches.access(Kind::Data, address, bytes, &mut counts.misses);
                }
                None => counts.unknown += 1,
            }
        }
    }

    /// What was executed outside of the range, by address.
    pub fn outside(&self) -> impl Iterator<Item = (u64, &Counts)> {
        let all = self.executed.iter().map(|(&address, counts)| (address, counts));
        all.filter(|&(address, _)| !self.contains(address))
    }

    /// The instructions of the range in order, by their addresses in memory: those that were executed,
    /// and between them what the bytes decode to.
    pub fn rows(&self) -> Vec<InstructionRow> {
        let mut formatter = intel();
        let mut rows = Vec::new();
        let mut next = self.start;
        let mut executed = self.executed.range(self.start..).peekable();
        while self.contains(next) {
            let known = executed.next_if(|&(&address, _)| address <= next);
            let address = known.map_or(next, |(&address, _)| address);
            let Some(instruction) = self.decoder(address).into_iter().next() else {
                break;
            };
            let length = instruction.len().max(1);
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            let counts = known.map(|(_, counts)| counts.clone());
            rows.push(InstructionRow {
                address,
                instruction: text,
                code: self.bytes_from(address).iter().copied().take(length).collect(),
                file: None,
                line: None,
                calls: Vec::new(),
                counts: counts.unwrap_or_else(|| no_counts(&self.caches)),
            });
            next = address.wrapping_add(length as u64);
            // Where the decoder disagrees with an instruction that ran, the latter is right.
            if let Some(&(&run, _)) = executed.peek() {
                next = next.min(run.max(address + 1));
            }
        }
        rows
    }

    /// The caches, with their counts.
    pub const fn caches(&self) -> &Caches {
        &self.caches
    }
}

fn no_counts(caches: &Caches) -> Counts {
    Counts { misses: caches.no_misses(), ..Counts::default() }
}

fn decoder(code: &[u8], address: u64, is_32_bit: bool) -> Decoder<'_> {
    let bitness = if is_32_bit { 32 } else { 64 };
    Decoder::with_ip(bitness, code, address, DecoderOptions::NONE)
}

/// The instruction that an address cuts in two, where code that begins at `start` is decoded.
pub fn cut(code: &[u8], start: u64, address: u64, is_32_bit: bool) -> Option<Range<u64>> {
    let instructions = decoder(code, start, is_32_bit).into_iter();
    let mut spans = instructions.map(|instruction| instruction.ip()..instruction.next_ip());
    spans.find(|span| span.end > address).filter(|span| span.start < address)
}

/// Where control goes after an instruction.
pub fn flow(instruction: &Instruction) -> Flow {
    match instruction.flow_control() {
        // The kernel's code is not stepped, and returns to the next instruction by itself.
        _ if [Mnemonic::Syscall, Mnemonic::Sysenter].contains(&instruction.mnemonic()) => {
            Flow::Local
        }
        FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
        FlowControl::Return => Flow::Return,
        _ => Flow::Local,
    }
}

/// Whether an instruction is a trap of the program's own: INT3, INT1 or INT 3.
pub fn traps(instruction: &Instruction) -> bool {
    [Mnemonic::Int3, Mnemonic::Int1].contains(&instruction.mnemonic())
        || (instruction.mnemonic() == Mnemonic::Int && instruction.immediate8() == 3)
}

/// Whether an instruction lets no trap come before the end of the next one: it loads SS.
pub fn delays_traps(instruction: &Instruction) -> bool {
    [Mnemonic::Mov, Mnemonic::Pop].contains(&instruction.mnemonic())
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == Register::SS
}

/// Whether the kernel returns with the flags in R11, the trap flag included.
pub fn keeps_flags(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Syscall
}

/// The address of the pointer through which code jumps that does nothing else: the stub of a function in
/// another module.
pub fn stub_pointer(code: &[u8], address: u64, is_32_bit: bool) -> Option<u64> {
    let mut instructions = decoder(code, address, is_32_bit).into_iter();
    let marks = [Mnemonic::Endbr64, Mnemonic::Endbr32];
    let jump = instructions.find(|instruction| !marks.contains(&instruction.mnemonic()))?;
    let is_jump = jump.flow_control() == FlowControl::IndirectBranch
        && jump.op0_kind() == OpKind::Memory
        && jump.memory_index() == Register::None;
    if !is_jump {
        return None;
    }
    match jump.memory_base() {
        Register::RIP | Register::EIP => Some(jump.ip_rel_memory_address()),
        Register::None if is_32_bit => Some(jump.memory_displacement64()),
        _ => None,
    }
}

/// Whether an instruction pushes the flags, including the trap flag that the debugger set.
pub fn pushes_flags(instruction: &Instruction) -> bool {
    [Mnemonic::Pushf, Mnemonic::Pushfd, Mnemonic::Pushfq].contains(&instruction.mnemonic())
}

/// Whether each iteration of an instruction is one step, so that it may end at its own address.
pub fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// The remaining count of a REP: from ECX if addresses have 32 bits.
fn repetitions_left(instruction: &Instruction, registers: &Registers) -> u64 {
    use OpKind::{MemoryESEDI, MemorySegEDI, MemorySegESI};
    let mut operands = instruction.op_kinds();
    let wide = !operands.any(|kind| matches!(kind, MemoryESEDI | MemorySegEDI | MemorySegESI));
    if wide && !registers.is_32_bit { registers.count() } else { registers.count() & 0xFFFF_FFFF }
}

/// Whether an operand is read, and whether it is written.
const fn reads_and_writes(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

#[cfg(test)]
mod tests;
