//! The engine: x86-64 instructions, and the privileged ones served by a modelled processor.

use crate::exception::{self, HANDLED, Handler};
use crate::guest::{Facts, Guest};
use crate::image::{Image, Privileged};
use crate::memory::{
    APIC, ARENA, ARENA_SIZE, Arena, EXPORTS, EXPORTS_SIZE, IMAGE, PAGE, STUB, STUBS, STUBS_SIZE,
    USER_STACKS, USER_STACKS_SIZE, is_user, physical,
};
use crate::programs;
use crate::registers::Registers as Watched;
use crate::rules::{Rule, Violation};
use anyhow::{Result, anyhow};
use hal_profile::cpu::machine::Machine as _;
use rustc_hash::{FxHashMap, FxHashSet};
use sim::cpu::Cpu;
use sim::cpu::event::{Counts, Event};
use sim::cpu::fault::Fault;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use unicorn_engine::{
    Arch, Context, HookType, MemType, Mode, Prot, RegisterX86 as Register, TlbEntry, TlbType,
    Unicorn,
};

/// RFLAGS.IF, and the bit that is always set.
const INTERRUPT_FLAG: u64 = 1 << 9;
const FLAGS: u64 = INTERRUPT_FLAG | 2;
/// Instructions in a loop of at most four that then count as events: see [`Bus::follow`].
const SPIN: u64 = 200;
/// The number of events that they count as, of instructions and of cycles.
const EXERCISE: u64 = 1000;
/// The number of instructions with interrupts masked, or of a handler, that breaks
/// [`Rule::Masked`]: 10 microseconds at 2 instructions a nanosecond. The driver's longest stretch
/// has 2524, of which 2000 are its self-test's exercise; its longest handler has 998.
pub const MASKED_LIMIT: u64 = 20_000;
const DIRECTION_FLAG: u64 = 1 << 10;
/// The registers that a function must preserve ("x64 calling convention"), besides XMM6 to XMM15.
const KEPT: [Register; 8] = [
    Register::RBX,
    Register::RBP,
    Register::RDI,
    Register::RSI,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const KEPT_LONG: [Register; 10] = [
    Register::XMM6,
    Register::XMM7,
    Register::XMM8,
    Register::XMM9,
    Register::XMM10,
    Register::XMM11,
    Register::XMM12,
    Register::XMM13,
    Register::XMM14,
    Register::XMM15,
];
/// What they hold when a function is called: not an address, and a different value in each.
const CALLER: u64 = 0x5EED_0000_0000_0000;
const HLT: u8 = 0xF4;
/// The stub through which the kernel enters ring 3.
const TO_RING_3: u64 = STUBS + STUBS_SIZE - STUB;
const IRETQ: [u8; 2] = [0x48, 0xCF];
/// The global descriptor table: its address, and the descriptors that Windows has there (ntddk.h,
/// KGDT64_R0_CODE to KGDT64_R3_CODE; SDM, "Segment Descriptors"): each present, 64-bit code or flat
/// data.
const GDT: u64 = EXPORTS + EXPORTS_SIZE / 2;
const DESCRIPTORS: [u64; 7] = [
    0,
    0,
    0x00AF_9B00_0000_FFFF,
    0x00CF_9300_0000_FFFF,
    0,
    0x00CF_F300_0000_FFFF,
    0x00AF_FB00_0000_FFFF,
];
/// KGDT64_R3_DATA and KGDT64_R3_CODE with RPL 3.
const RING_3_DATA: u64 = 0x2B;
const RING_3_CODE: u64 = 0x33;

/// Why the engine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The stub with this number was called.
    Stub(usize),
    /// The slice is over.
    Slice,
    /// A program has returned.
    Exit,
}

/// One instruction, as seen from outside before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub processor: usize,
    /// Its address.
    pub address: u64,
    /// Its first bytes.
    pub bytes: [u8; 8],
    /// The ring that it ran in.
    pub ring: u8,
    /// RCX, and EDX:EAX, before.
    pub rcx: u64,
    /// See [`Self::rcx`].
    pub edx_eax: u64,
    /// The address of the next instruction.
    pub next: u64,
}

impl Step {
    /// Whether it is WRMSR, in ring 0.
    pub fn is_wrmsr(&self) -> bool {
        self.ring == 0 && self.bytes[..2] == [0x0F, 0x30]
    }
}

/// What the instructions see.
#[derive(Default)]
pub struct Bus {
    pub cpus: Vec<Cpu>,
    /// The processor that runs.
    pub current: usize,
    /// The memory available to the driver.
    pub arena: Arena,
    /// Which registers belong to the driver.
    pub registers: Watched,
    /// The stack of the running activity: its start, its end, and the lowest address touched.
    pub stack: Stack,
    /// The addresses of executed instructions, if someone wants them.
    pub trace: Option<FxHashSet<u64>>,
    /// A hash of all of them in order: two runs with the same hash took the same path.
    pub path: u64,
    /// The previous instruction in this slice.
    previous: u64,
    /// Instructions executed in total.
    pub executed: u64,
    /// How many of them were stubs.
    pub calls: u64,
    /// A slice ends when interrupts are unmasked, so that a pending one comes at once.
    pub stops_at_unmask: bool,
    /// Whether what runs is above PASSIVE_LEVEL: a loop there waits for events, one of a thread goes
    /// through a list.
    pub raised: bool,
    /// Accesses to the driver's memory, if someone wants them.
    pub accesses: Option<Accesses>,
    /// What drives the PMUs, if the instructions themselves do.
    pub guest: Option<Guest>,
    /// The instructions one by one, if someone wants them: the engine then stops after each.
    pub steps: Option<Vec<Step>>,
    /// The most instructions in one stretch with interrupts masked. (`sim` counts register accesses
    /// itself.)
    pub masked_most: u64,
    /// The functions that have an exception handler.
    pub(crate) handlers: Vec<Handler>,
    /// Where an exception's handler has just resumed.
    pub(crate) resumed: Option<u64>,
    /// The stacks on which an exception's handler runs, by their ends, and how far they were used
    /// before.
    pub(crate) in_handler: BTreeMap<u64, u64>,
    privileged: FxHashMap<u64, Privileged>,
    budget: u64,
    stretches: Vec<Stretch>,
    violation: Option<Violation>,
}

/// Which words of 8 bytes of the driver's memory were accessed, apart from stacks.
#[derive(Default)]
pub struct Accesses {
    /// Written by threads at PASSIVE_LEVEL.
    pub written: FxHashSet<u64>,
    /// Read above PASSIVE_LEVEL.
    pub read: FxHashSet<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Stack {
    /// Its first byte.
    pub start: u64,
    /// Its end, which is the stack pointer when it is empty.
    pub end: u64,
    /// The lowest byte that was touched.
    pub lowest: u64,
}

impl Stack {
    /// How much of it was used.
    pub fn used(&self) -> u64 {
        self.end.saturating_sub(self.lowest)
    }

    pub(crate) fn touch(&mut self, at: u64) {
        if (self.start..self.lowest).contains(&at) {
            self.lowest = at;
        }
    }
}

/// What a processor is executing.
#[derive(Clone, Copy, Default)]
struct Stretch {
    /// Interrupts are masked.
    masked: bool,
    /// Instructions since they were masked.
    length: u64,
    /// The last few instructions.
    last: [u64; 4],
    /// For how many instructions a loop of these has been running.
    turns: u64,
}

impl Bus {
    fn stretch(&mut self) -> &mut Stretch {
        if self.stretches.len() <= self.current {
            self.stretches.resize(self.current + 1, Stretch::default());
        }
        &mut self.stretches[self.current]
    }

    /// Notes an access to the arena.
    pub(crate) fn access(&mut self, writes: bool, at: u64, size: u64) {
        let Some(accesses) = &mut self.accesses else { return };
        let words = match (writes, self.raised) {
            (true, false) => &mut accesses.written,
            (false, true) => &mut accesses.read,
            _ => return,
        };
        if size > 0 && !(self.stack.start..self.stack.end).contains(&at) {
            words.extend((at / 8..=(at + size - 1) / 8).map(|word| word * 8));
        }
    }

    /// The running processor's registers are about to be read or written.
    fn touch_registers(&mut self) {
        if let Some(guest) = &mut self.guest
            && let Some(cpu) = self.cpus.get_mut(self.current)
        {
            guest.touch(cpu, self.current);
        }
    }

    /// Interrupts are masked from here on, or no longer.
    fn mask(&mut self, masked: bool) {
        let stretch = self.stretch();
        (stretch.masked, stretch.length) = (masked, 0);
    }

    /// Notes that this instruction comes next.
    ///
    /// Without the guest feed all events come from the workload, so the driver's own instructions
    /// count as none. But a loop of a few instructions that has been running for [`SPIN`] of them
    /// above PASSIVE_LEVEL waits for events to happen: then they do, in addition to the workload,
    /// and the slice ends, so that their interrupt comes at once. The driver's exercise at START is
    /// such a loop.
    fn follow(&mut self, address: u64) {
        // FNV-1a's prime.
        const PRIME: u64 = 0x0000_0100_0000_01B3;
        self.path = (self.path ^ address).wrapping_mul(PRIME);
        if let Some(trace) = &mut self.trace {
            trace.insert(address);
        }
        self.previous = address;
        let stretch = self.stretch();
        stretch.turns = if stretch.last.contains(&address) { stretch.turns + 1 } else { 0 };
        let [first, second, third, _] = stretch.last;
        stretch.last = [address, first, second, third];
        let spins = stretch.turns == SPIN;
        if spins && self.raised && self.guest.is_none() {
            self.exercise();
            self.budget = 0;
        }
    }

    fn exercise(&mut self) {
        let mut events = Counts::default();
        events.set(Event::Instructions, EXERCISE, 0);
        events.set(Event::Cycles, EXERCISE, 0);
        events.set(Event::RefCycles, EXERCISE, 0);
        if let Some(cpu) = self.cpus.get_mut(self.current) {
            cpu.processor.exercise(events);
        }
    }

    /// Counts one more instruction; one with a REP prefix counts once, as on silicon.
    fn count(&mut self, address: u64) {
        self.budget -= 1;
        if address == self.previous {
            return;
        }
        self.executed += 1;
        let stretch = self.stretch();
        if stretch.masked {
            stretch.length += 1;
            let length = stretch.length;
            self.masked_most = self.masked_most.max(length);
        }
    }
}

pub struct Engine {
    unicorn: Unicorn<'static, Bus>,
    /// The registers in ring 0 before anything has run.
    kernel: Rc<Context>,
    /// The image as it was mapped.
    image: Rc<[u8]>,
}

/// The parts of an engine, in the order of its fields.
type Parts = (Unicorn<'static, Bus>, Rc<Context>, Rc<[u8]>);

thread_local! {
    /// The engine that this thread dropped last. It has translated the driver's code, which is most
    /// of the work of a machine that does little.
    static DROPPED: RefCell<Option<Parts>> = const { RefCell::new(None) };
}

/// The registers of one activity.
pub struct Registers(Context);

fn broken(error: unicorn_engine::uc_error) -> anyhow::Error {
    anyhow!("the engine: {error:?}")
}

impl Engine {
    /// An engine with the image mapped, and nothing running. What an earlier machine left makes no
    /// difference: the kernel zeroes what it allocates, and each of [`programs::PROGRAMS`] retires
    /// the same whatever is on its stack.
    pub fn new(image: &Image, cpus: Vec<Cpu>) -> Result<Self> {
        let bus = Bus {
            cpus,
            privileged: image.privileged.clone(),
            handlers: image.handlers.clone(),
            ..Bus::default()
        };
        let same = |(_, _, mapped): &Parts| **mapped == *image.bytes;
        let Some((unicorn, kernel, mapped)) = DROPPED.take().filter(same) else {
            return Self::map(image, bus).map_err(broken);
        };
        let mut engine = Self { unicorn, kernel, image: mapped };
        *engine.bus() = bus;
        engine.unicorn.context_restore(&engine.kernel).map_err(broken)?;
        for (at, bytes) in image.writable() {
            engine.write(at, &bytes);
        }
        Ok(engine)
    }

    fn map(image: &Image, bus: Bus) -> Result<Self, unicorn_engine::uc_error> {
        let mut unicorn = Unicorn::new_with_data(Arch::X86, Mode::MODE_64, bus)?;
        let u = &mut unicorn;
        u.ctl_set_tlb_type(TlbType::VIRTUAL)?;
        // There are no page tables: `physical` translates.
        u.add_tlb_hook(1, 0, |_, address, _| {
            Some(TlbEntry { paddr: physical(address), perms: Prot::ALL })
        })?;
        map_memory(u, image)?;
        u.mem_write(physical(IMAGE), &image.bytes)?;
        // A stub is one HLT: the engine stops there, and the model of the kernel does the
        // function's work.
        let stubs = vec![HLT; STUBS_SIZE as usize];
        u.mem_write(physical(STUBS), &stubs)?;
        u.mem_write(physical(TO_RING_3), &IRETQ)?;
        u.mem_write(physical(GDT), &DESCRIPTORS.map(u64::to_le_bytes).concat())?;
        u.reg_write_long(Register::GDTR, &descriptor_table())?;
        u.add_code_hook(1, 0, execute)?;
        let (begin, end) = (physical(ARENA), physical(ARENA) + ARENA_SIZE - 1);
        let kinds = HookType::MEM_READ | HookType::MEM_WRITE;
        u.add_mem_hook(kinds, begin, end, touch)?;
        let mut kernel = unicorn.context_alloc()?;
        unicorn.context_save(&mut kernel)?;
        Ok(Self { unicorn, kernel: Rc::new(kernel), image: image.bytes.as_slice().into() })
    }

    /// What the instructions see.
    pub fn bus(&mut self) -> &mut Bus {
        self.unicorn.get_data_mut()
    }

    pub fn bus_ref(&self) -> &Bus {
        self.unicorn.get_data()
    }

    /// Runs at most this many instructions with the loaded registers, on a processor.
    pub fn run(&mut self, processor: usize, instructions: u64) -> Result<Stop, Violation> {
        let bus = self.bus();
        bus.current = processor;
        bus.budget = instructions;
        bus.previous = 0;
        let start = self.register(Register::RIP);
        if let Some(guest) = &mut self.bus().guest {
            guest.begin_slice(processor);
        }
        let result = if self.bus().steps.is_some() {
            self.step_through(processor)
        } else {
            let result = self.unicorn.emu_start(start, 0, 0, 0);
            self.undo_halt();
            self.end_slice(processor);
            result
        };
        // The broken rule comes first: it explains whatever the engine complains of.
        if let Some(violation) = self.bus().violation.take() {
            return Err(self.with_stack(violation));
        }
        let at = self.register(Register::RIP);
        if let Err(error) = result {
            let what = format!("{error:?} at {}", place(at));
            return Err(self.with_stack(Violation::new(Rule::Memory, what)));
        }
        let bus = self.bus();
        let fault = bus.cpus[processor].faults.first().copied();
        if let Some(fault) = fault {
            let what = format!("silicon refuses: {fault:?}");
            return Err(self.with_stack(Violation::new(Rule::Register, what)));
        }
        let length = bus.stretch().length;
        if length > MASKED_LIMIT {
            let what = format!("interrupts masked for {length} instructions");
            return Err(self.with_stack(Violation::new(Rule::Masked, what)));
        }
        // The engine stops behind the stub's HLT.
        match at.checked_sub(STUBS + 1) {
            Some(offset) if offset < STUBS_SIZE && offset % STUB == 0 => {
                Ok(Stop::Stub((offset / STUB) as usize))
            }
            _ if bus.budget == 0 => Ok(Stop::Slice),
            _ if at == programs::EXIT => Ok(Stop::Exit),
            _ => {
                let what = format!("the processor halts before {}", place(at));
                Err(self.with_stack(Violation::new(Rule::Unmodelled, what)))
            }
        }
    }

    /// Executes one instruction after the other, each observed from outside, until the slice ends.
    fn step_through(&mut self, processor: usize) -> Result<(), unicorn_engine::uc_error> {
        let mut left = self.bus().budget;
        loop {
            let before = self.seen(processor);
            let address = before.address;
            self.bus().budget = 1;
            let result = self.unicorn.emu_start(address, 0, 0, 0);
            self.undo_halt();
            let next = self.register(Register::RIP);
            let arrives = self.end_slice(processor);
            let bus = self.bus();
            let executed = 1 - bus.budget;
            left -= executed;
            if executed == 1
                && let Some(steps) = &mut bus.steps
            {
                steps.push(Step { next, ..before });
            }
            let unmasked =
                bus.stops_at_unmask && bus.privileged.get(&address) == Some(&Privileged::Unmask);
            let over = arrives || unmasked || left == 0;
            let in_stub = (STUBS..HANDLED).contains(&address);
            let broken = bus.violation.is_some() || result.is_err();
            if over || in_stub || executed == 0 || broken {
                bus.budget = if over { 0 } else { left };
                return result;
            }
        }
    }

    /// The next instruction, as seen before it runs.
    fn seen(&self, processor: usize) -> Step {
        let address = self.register(Register::RIP);
        let mut bytes = [0; 8];
        self.read(address, &mut bytes);
        let [eax, edx] = [Register::RAX, Register::RDX].map(|one| self.register(one) as u32);
        Step {
            processor,
            address,
            bytes,
            ring: self.ring(),
            rcx: self.register(Register::RCX),
            edx_eax: u64::from(edx) << 32 | u64::from(eax),
            next: address,
        }
    }

    /// The engine executes a stub's HLT although it was told to stop before it: the guest feed
    /// needs that boundary.
    fn undo_halt(&mut self) {
        let at = self.register(Register::RIP).wrapping_sub(1);
        let bus = self.bus();
        let halted = (STUBS..HANDLED).contains(&at) && (at - STUBS).is_multiple_of(STUB);
        if halted && bus.previous != at && bus.guest.is_some() {
            self.set_register(Register::RIP, at);
        }
    }

    /// Retires what has been executed; returns whether an interrupt arrives here.
    fn end_slice(&mut self, processor: usize) -> bool {
        let next = self.register(Register::RIP);
        let bus = self.bus();
        // Without the guest feed, events come from the workload alone.
        bus.guest
            .as_mut()
            .zip(bus.cpus.get_mut(processor))
            .is_some_and(|(guest, cpu)| guest.end_slice(cpu, processor, next))
    }

    /// The ring of the loaded registers.
    pub fn ring(&self) -> u8 {
        (self.register(Register::CS) & 3) as u8
    }

    /// Puts a program's code in its place.
    pub fn load_program(&mut self, code: &[u8]) {
        let (start, end) = programs::CODE;
        let mut page = vec![HLT; (end - start) as usize];
        page[..code.len()].copy_from_slice(code);
        self.write(start, &page);
        // The engine keeps translated code, and the bytes below it have changed.
        let _ = self.unicorn.ctl_remove_cache(physical(start), physical(end));
        if let Some(guest) = &mut self.bus().guest {
            guest.forget();
        }
    }

    /// Begins a program on a processor's stack: the kernel, whose stack ends at `top`, returns to
    /// its first instruction in ring 3.
    pub fn begin_program(&mut self, stack: u64, top: u64) {
        let (code, _) = programs::CODE;
        let stack = stack - 8;
        self.write_u64(stack, programs::EXIT);
        let frame = [code, RING_3_CODE, FLAGS, stack, RING_3_DATA];
        let at = top - 0x30;
        self.write(at, &frame.map(u64::to_le_bytes).concat());
        self.set_register(Register::RSP, at);
        self.set_register(Register::RIP, TO_RING_3);
    }

    /// Whether the loaded registers have interrupts masked.
    pub fn masked(&self) -> bool {
        self.register(Register::RFLAGS) & INTERRUPT_FLAG == 0
    }

    /// The instruction pointer of the loaded registers.
    pub fn instruction_pointer(&self) -> u64 {
        self.register(Register::RIP)
    }

    fn register(&self, register: Register) -> u64 {
        self.unicorn.reg_read(register).unwrap_or_default()
    }

    fn set_register(&mut self, register: Register, value: u64) {
        // A general register of the engine's own mode always exists.
        let _ = self.unicorn.reg_write(register, value);
    }

    /// Begins a call of `function` with these arguments, on the stack whose end is `top`; when it
    /// returns, stub 0 is called.
    pub fn begin_call(&mut self, function: u64, arguments: &[u64], top: u64) {
        const IN_REGISTERS: [Register; 4] =
            [Register::RCX, Register::RDX, Register::R8, Register::R9];
        // What ran last was a program: its segments and its stack are those of ring 3.
        if self.ring() != 0 {
            let _ = self.unicorn.context_restore(&self.kernel);
        }
        let more = arguments.len().saturating_sub(4) as u64;
        // Home space for four arguments; on entry RSP is 8 off a multiple of 16 ("x64 calling
        // convention").
        let frame = (0x20 + 8 * more).next_multiple_of(16) + 8;
        let stack = top - top % 16 - frame;
        self.write_u64(stack, STUBS);
        for (index, &argument) in arguments.iter().enumerate() {
            match IN_REGISTERS.get(index) {
                Some(&register) => self.set_register(register, argument),
                None => self.write_u64(stack + 8 + 8 * index as u64, argument),
            }
        }
        for (number, register) in (0..).zip(KEPT) {
            self.set_register(register, CALLER + number);
        }
        for (number, register) in (0..).zip(KEPT_LONG) {
            let _ = self.unicorn.reg_write_long(register, &long(number));
        }
        self.set_register(Register::RSP, stack);
        self.set_register(Register::RIP, function);
        self.set_register(Register::RFLAGS, FLAGS);
    }

    /// What a function that has returned to stub 0 has failed to preserve for its caller.
    pub fn not_kept(&self) -> Option<String> {
        let kept =
            |(number, register): &(u64, Register)| self.register(*register) == CALLER + number;
        let kept_long = |(number, register): &(u64, Register)| {
            let value = self.unicorn.reg_read_long(*register);
            value.is_ok_and(|value| value.get(..16) == Some(&long(*number)[..]))
        };
        if self.register(Register::RFLAGS) & DIRECTION_FLAG != 0 {
            return Some("the direction flag".to_owned());
        }
        let other = (0..).zip(KEPT).find(|one| !kept(one));
        let other = other.or_else(|| (0..).zip(KEPT_LONG).find(|one| !kept_long(one)));
        other.map(|(_, register)| format!("{register:?}"))
    }

    /// The stack pointer of the loaded registers.
    pub fn stack_pointer(&self) -> u64 {
        self.register(Register::RSP)
    }

    /// Argument number `index` of the stub that was called.
    pub fn argument(&self, index: usize) -> u64 {
        match index {
            0 => self.register(Register::RCX),
            1 => self.register(Register::RDX),
            2 => self.register(Register::R8),
            3 => self.register(Register::R9),
            _ => self.read_u64(self.register(Register::RSP) + 8 + 8 * index as u64),
        }
    }

    /// Returns from the stub that was called.
    pub fn return_from_stub(&mut self, value: u64) {
        let stack = self.register(Register::RSP);
        let back = self.read_u64(stack);
        self.set_register(Register::RAX, value);
        self.set_register(Register::RSP, stack + 8);
        self.set_register(Register::RIP, back);
    }

    /// The stub that was called will be called again when its caller resumes.
    pub fn repeat_stub(&mut self) {
        // RIP goes back onto the HLT.
        let after = self.register(Register::RIP);
        self.set_register(Register::RIP, after - 1);
    }

    /// A function's return value.
    pub fn returned(&self) -> u64 {
        self.register(Register::RAX)
    }

    /// Space for a set of registers.
    pub fn registers(&self) -> Result<Registers, Violation> {
        let none = |error| Violation::new(Rule::Unmodelled, broken(error).to_string());
        Ok(Registers(self.unicorn.context_alloc().map_err(none)?))
    }

    pub fn save(&self, registers: &mut Registers) {
        let _ = self.unicorn.context_save(&mut registers.0);
    }

    pub fn load(&mut self, registers: &Registers) {
        let _ = self.unicorn.context_restore(&registers.0);
    }

    /// Reads memory; zeros where there is none.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        if self.unicorn.mem_read(physical(at), out).is_err() {
            out.fill(0);
        }
    }

    /// This many bytes of memory.
    pub fn bytes(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.read(at, &mut bytes);
        bytes
    }

    pub fn read_u64(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    pub fn read_u32(&self, at: u64) -> u32 {
        self.read_u64(at) as u32
    }

    /// Writes memory, whether or not the driver may write there.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let _ = self.unicorn.mem_write(physical(at), bytes);
    }

    pub fn write_u64(&mut self, at: u64, value: u64) {
        self.write(at, &value.to_le_bytes());
    }

    pub fn write_u32(&mut self, at: u64, value: u32) {
        self.write(at, &value.to_le_bytes());
    }

    /// Allocates memory in the arena, zeroed.
    pub fn allocate(&mut self, size: u64, tag: u32) -> Result<u64, Violation> {
        let full = || Violation::new(Rule::Unmodelled, "the arena is full");
        let at = self.bus().arena.allocate(size, tag).ok_or_else(full)?;
        self.write(at, &vec![0; size as usize]);
        Ok(at)
    }

    /// Adds a backtrace to a violation: whatever looks like a return address, innermost first.
    pub fn with_stack(&self, mut violation: Violation) -> Violation {
        const WORDS: u64 = 512;
        const SHOWN: usize = 12;
        let end = IMAGE + 0x100_0000;
        let mut addresses = vec![self.register(Register::RIP)];
        let stack = self.register(Register::RSP);
        addresses.extend((0..WORDS).map(|word| self.read_u64(stack + word * 8)));
        addresses.retain(|address| (IMAGE..end).contains(address));
        addresses.truncate(SHOWN);
        violation.stack = addresses.iter().map(|address| address - IMAGE).collect();
        violation
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let parts = (self.unicorn.clone(), Rc::clone(&self.kernel), Rc::clone(&self.image));
        // A thread that ends keeps nothing.
        let _ = DROPPED.try_with(|dropped| dropped.replace(Some(parts)));
    }
}

/// Maps the image, the stubs, the arena, programs, and the local APIC's page.
fn map_memory(u: &mut Unicorn<'_, Bus>, image: &Image) -> Result<(), unicorn_engine::uc_error> {
    let mut map = |at: u64, size: u64, perms| u.mem_map(physical(at), size, perms);
    map(IMAGE, PAGE, Prot::READ)?;
    for section in &image.sections {
        let mut perms = Prot::READ;
        if section.writable {
            perms |= Prot::WRITE;
        }
        if section.executable {
            perms |= Prot::EXEC;
        }
        map(IMAGE + section.offset, section.size, perms)?;
    }
    map(STUBS, STUBS_SIZE, Prot::READ | Prot::EXEC)?;
    map(EXPORTS, EXPORTS_SIZE, Prot::READ)?;
    map(ARENA, ARENA_SIZE, Prot::READ | Prot::WRITE)?;
    let (code, code_end) = programs::CODE;
    map(code, code_end - code, Prot::READ | Prot::EXEC)?;
    map(USER_STACKS, USER_STACKS_SIZE, Prot::READ | Prot::WRITE)?;
    u.mmio_map(
        physical(APIC),
        PAGE,
        Some(|u: &mut Unicorn<'_, Bus>, offset, _size| {
            let bus = u.get_data_mut();
            bus.touch_registers();
            let cpu = &mut bus.cpus[bus.current];
            cpu.read_apic(offset as u32).into()
        }),
        Some(|u: &mut Unicorn<'_, Bus>, offset, _size, value| {
            let bus = u.get_data_mut();
            bus.touch_registers();
            let cpu = &mut bus.cpus[bus.current];
            let index = bus.current;
            let allowed = bus.registers.write_apic(cpu, index, offset as u32, value as u32);
            cpu.write_apic(offset as u32, value as u32);
            must(u, allowed);
        }),
    )
}

/// What a 128-bit register holds when a function is called.
fn long(number: u64) -> [u8; 16] {
    (u128::from(CALLER) << 64 | u128::from(number)).to_le_bytes()
}

/// The engine's format of GDTR: selector, base, limit, flags (unicorn's uc_x86_mmr).
fn descriptor_table() -> Vec<u8> {
    let limit = size_of_val(&DESCRIPTORS) as u64 - 1;
    [0, GDT, limit].map(u64::to_le_bytes).concat()
}

fn place(address: u64) -> String {
    if is_user(address) {
        return format!("{address:#x} of the program");
    }
    format!("halprof.sys+{:#x}", address.wrapping_sub(IMAGE))
}

/// Called before each instruction.
fn execute(unicorn: &mut Unicorn<'_, Bus>, address: u64, size: u32) {
    // The instruction before this one retires first: its interrupt may end the slice here.
    if unicorn.get_data().guest.is_some() {
        retire(unicorn, address);
    }
    let bus = unicorn.get_data_mut();
    if bus.budget == 0 || address == programs::EXIT {
        let _ = unicorn.emu_stop();
        return;
    }
    if bus.guest.is_some() {
        feed(unicorn, address, size);
    }
    let bus = unicorn.get_data_mut();
    bus.count(address);
    bus.calls += u64::from((STUBS..STUBS + STUBS_SIZE).contains(&address));
    bus.follow(address);
    let again = bus.resumed.take() == Some(address);
    match bus.privileged.get(&address).copied() {
        None if address == HANDLED => {
            let allowed = exception::resume(unicorn);
            must(unicorn, allowed);
        }
        None => {}
        Some(Privileged::Mask) => bus.mask(true),
        Some(Privileged::Unmask) => {
            bus.mask(false);
            if bus.stops_at_unmask {
                bus.budget = 0;
            }
        }
        Some(kind) => {
            let next = address + u64::from(size);
            match serve(unicorn, kind) {
                Ok(()) => {
                    let _ = unicorn.reg_write(Register::RIP, next);
                }
                Err(_) if again => must(unicorn, Err(exception::again(address))),
                Err(fault) => {
                    if !exception::raise(unicorn, address) {
                        let what = format!("silicon refuses: {fault:?}");
                        must(unicorn, Err(Violation::new(Rule::Register, what)));
                    }
                }
            }
        }
    }
}

/// Retires what was executed before, and ends the slice if an interrupt arrives after it.
fn retire(unicorn: &mut Unicorn<'_, Bus>, next: u64) {
    let bus = unicorn.get_data_mut();
    if let Some(guest) = &mut bus.guest
        && guest.boundary(&mut bus.cpus[bus.current], bus.current, next)
    {
        bus.budget = 0;
    }
}

/// Gives the guest feed the instruction that is now executed.
fn feed(unicorn: &mut Unicorn<'_, Bus>, address: u64, size: u32) {
    let known = unicorn.get_data().guest.as_ref();
    let facts = known.and_then(|guest| guest.facts(address)).unwrap_or_else(|| {
        let bytes = unicorn.mem_read_as_vec(physical(address), size as usize);
        let facts = Facts::of(&bytes.unwrap_or_default());
        if let Some(guest) = &mut unicorn.get_data_mut().guest {
            guest.learn(address, facts);
        }
        facts
    });
    let left = if facts.repeats { unicorn.reg_read(Register::RCX).unwrap_or_default() } else { 0 };
    let bus = unicorn.get_data_mut();
    if let Some(guest) = &mut bus.guest {
        guest.execute(bus.current, address, facts, left);
    }
}

/// Handles an access to the arena.
fn touch(unicorn: &mut Unicorn<'_, Bus>, kind: MemType, at: u64, size: usize, _: i64) -> bool {
    let at = ARENA + (at - physical(ARENA));
    let bus = unicorn.get_data_mut();
    bus.stack.touch(at);
    bus.access(kind == MemType::WRITE, at, size as u64);
    if !bus.arena.allows(at, size as u64) {
        let what = format!("{kind:?} of {size} bytes at {at:#x}, which is not the driver's");
        // The access goes on: the run stops after this instruction.
        must(unicorn, Err(Violation::new(Rule::Memory, what)));
    }
    true
}

/// The run stops after this instruction if it has broken a rule.
fn must(unicorn: &mut Unicorn<'_, Bus>, allowed: Result<(), Violation>) {
    if let Err(violation) = allowed {
        unicorn.get_data_mut().violation.get_or_insert(violation);
        let _ = unicorn.emu_stop();
    }
}

/// Carries out a privileged instruction, unless silicon refuses it.
fn serve(unicorn: &mut Unicorn<'_, Bus>, kind: Privileged) -> Result<(), Fault> {
    let read = |unicorn: &Unicorn<'_, Bus>, register| {
        unicorn.reg_read(register).unwrap_or_default() & 0xFFFF_FFFF
    };
    let (eax, ecx, edx) =
        (read(unicorn, Register::RAX), read(unicorn, Register::RCX), read(unicorn, Register::RDX));
    let bus = unicorn.get_data_mut();
    bus.touch_registers();
    let cpu = &mut bus.cpus[bus.current];
    let answer = match kind {
        Privileged::Cpuid => {
            let result = cpu.cpuid(eax as u32, ecx as u32);
            let _ = unicorn.reg_write(Register::RAX, result.eax.into());
            let _ = unicorn.reg_write(Register::RBX, result.ebx.into());
            let _ = unicorn.reg_write(Register::RCX, result.ecx.into());
            let _ = unicorn.reg_write(Register::RDX, result.edx.into());
            return Ok(());
        }
        Privileged::WriteMsr => {
            let (msr, value) = (ecx as u32, edx << 32 | eax);
            // The rules judge the write by the values before it, and note it only if silicon takes
            // it.
            let allowed = bus.registers.write(cpu, bus.current, msr, value);
            let written = cpu.try_write_msr(msr, value);
            if written.is_ok() {
                bus.registers.wrote(cpu, bus.current, msr);
            }
            must(unicorn, allowed);
            return written.map_err(|_| Fault::WriteMsr { msr, value });
        }
        Privileged::WriteCr4 => {
            // MOV to CR4 takes all 64 bits; the other instructions take EAX and EDX.
            let value = unicorn.reg_read(Register::RAX).unwrap_or_default();
            let bus = unicorn.get_data_mut();
            let cpu = &mut bus.cpus[bus.current];
            let allowed = bus.registers.write_cr4(cpu, bus.current, value);
            cpu.processor.set_cr4(value);
            must(unicorn, allowed);
            return Ok(());
        }
        Privileged::ReadCr4 => {
            let value = cpu.read_cr4();
            let _ = unicorn.reg_write(Register::RAX, value);
            return Ok(());
        }
        Privileged::ReadMsr => {
            let msr = ecx as u32;
            cpu.try_read_msr(msr).map_err(|_| Fault::ReadMsr { msr })?
        }
        Privileged::ReadPmc => {
            let counter = ecx as u32;
            cpu.try_read_pmc(counter).map_err(|_| Fault::ReadPmc { counter })?
        }
        Privileged::ReadTimestamp => cpu.timestamp(),
        Privileged::Mask | Privileged::Unmask => return Ok(()),
    };
    // The upper halves of RAX and RDX are cleared.
    let _ = unicorn.reg_write(Register::RAX, answer & 0xFFFF_FFFF);
    let _ = unicorn.reg_write(Register::RDX, answer >> 32);
    Ok(())
}
