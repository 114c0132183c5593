//! Runs a program at full speed up to a range of its code, and single-steps it inside.

use super::{Debuggee, Event, TRAP_FLAG, Thread};
use crate::modules::Modules;
use crate::registers::Registers;
use crate::simulation::{
    Flow, Simulation, delays_traps, flow, keeps_flags, pushes_flags, repeats, stub_pointer, traps,
};
use iced_x86::Instruction;
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// For how many steps a thread is followed that has left the range by a jump, because a function's
/// cold part jumps back.
const STRAYED_MAX: u64 = 10_000;

/// How long the program may take to end by itself after Ctrl-C, which may reach it as well as halprof.
const GRACE: Duration = Duration::from_secs(1);
/// How often to check whether the user has asked to stop.
const POLL: Duration = Duration::from_millis(50);
/// How many steps there are from one report of progress to the next.
const REPORT: u64 = 1 << 12;

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Outside, at full speed. A handler of a signal or an exception will return to the instruction
    /// that was interrupted, if any.
    Away(Option<Pending>),
    /// In a function that the range has called, at full speed.
    Called,
    /// In the range, or with `calls` in what it has called, about to complete this instruction.
    Inside(Pending),
    /// At a breakpoint that another thread needs, outside of the range: it steps over it.
    Passing,
    /// Outside after a jump, single-stepped. Once its stack frame is gone it has left for good.
    Strayed { stack: u64, steps: u64 },
}

impl State {
    /// Whether its thread has entered the range and not returned from it.
    const fn is_in_pass(self) -> bool {
        !matches!(self, Self::Away(None) | Self::Passing)
    }
}

/// An instruction being executed.
#[derive(Clone, Copy, Debug)]
struct Pending {
    registers: Registers,
    instruction: Instruction,
    /// One more iteration of a REP.
    again: bool,
    /// The first instruction of the range, entered from outside or by a call.
    enters: bool,
    /// The stack pointer when the range was entered from outside: with `calls`, everything counts until
    /// this frame is gone.
    frame: u64,
}

/// What a run called, by address.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// How often an instruction called a function; each of the range's, with `calls` all.
    pub(crate) called: FxHashMap<(u64, u64), u64>,
    /// Where stubs lead that only jump to a function of another module.
    pub(crate) stubs: FxHashMap<u64, u64>,
    pub(crate) modules: Modules,
    /// Stubs whose function the loader has not found yet, with the address of the pointer to it.
    unresolved: Vec<(u64, u64)>,
    /// Functions that are no stubs.
    functions: FxHashSet<u64>,
    /// Pages of no file.
    nameless: FxHashSet<u64>,
}

impl Trail {
    /// The function that a call leads to.
    pub(crate) fn function(&self, to: u64) -> u64 {
        self.stubs.get(&to).copied().unwrap_or(to)
    }
}

/// The most pairs of instruction and function that are kept.
const CALLED_MAX: usize = 1 << 20;

/// The result of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, Default, JsonSchema, Serialize)]
pub struct Outcome {
    /// How often a thread entered the range at its start.
    pub entries: u64,
    /// Calls out of the range, which ran at full speed.
    pub calls: u64,
    /// The number of steps, in the range and beside it.
    pub steps: u64,
    /// Whether the limit of steps was reached, so that the program was ended.
    pub limited: bool,
    /// Whether the user asked to stop, which ended the program.
    pub interrupted: bool,
    /// Whether the program ran to its own end: it was neither limited nor interrupted.
    pub complete: bool,
    /// The program's exit status, if it ended by itself.
    pub exit_status: Option<u32>,
    /// Passes that did not end before their thread, or the program.
    #[serde(skip)]
    pub unfinished: u64,
    /// How often a thread jumped out of the range and was then not followed any further.
    #[serde(skip)]
    pub(crate) lost: u64,
    /// Whether the program replaced itself by another, which was not stepped.
    #[serde(skip)]
    pub(crate) replaced: bool,
    /// The instruction before which a signal or an exception ended the program.
    #[serde(skip)]
    pub(crate) ended_at: Option<u64>,
}

/// Runs a program to its end, until it has made `max_steps` steps in the range that starts here, or
/// until the user has `interrupted` it; `progress` takes the number of steps from time to time. With
/// `calls`, what the range calls is stepped too.
pub(crate) fn run(
    debuggee: Debuggee,
    (start, calls): (u64, bool),
    simulation: &mut Simulation,
    max_steps: u64,
    interrupted: fn() -> bool,
    progress: &mut dyn FnMut(u64),
) -> io::Result<(Outcome, Trail)> {
    let mut run = Run {
        debuggee,
        simulation,
        start,
        calls,
        max_steps,
        interrupted,
        progress,
        threads: HashMap::new(),
        outcome: Outcome::default(),
        trail: Trail::default(),
        returns: FxHashSet::default(),
    };
    run.until_it_ends()?;
    Ok((run.outcome, run.trail))
}

struct Run<'a> {
    debuggee: Debuggee,
    simulation: &'a mut Simulation,
    start: u64,
    calls: bool,
    max_steps: u64,
    interrupted: fn() -> bool,
    progress: &'a mut dyn FnMut(u64),
    threads: HashMap<Thread, State>,
    outcome: Outcome,
    trail: Trail,
    /// Breakpoints outside of the range, where handlers of signals return to.
    returns: FxHashSet<u64>,
}

/// Whether to go on, and the event that came while a thread was resumed, if it had to step alone.
type Progress = ControlFlow<(), Option<Event>>;

impl Run<'_> {
    fn until_it_ends(&mut self) -> io::Result<()> {
        self.debuggee.break_at(self.start)?;
        let (over, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let end = self.debuggee.ender();
        let interrupted = self.interrupted;
        let done = thread::scope(|scope| {
            let watching = scope.spawn(|| end_when_interrupted(interrupted, &over, &ended, end));
            let done = self.handle_events();
            over.store(true, Ordering::Relaxed);
            // Or the end would wait for the next look.
            watching.thread().unpark();
            done
        });
        for state in self.threads.values() {
            self.outcome.unfinished += u64::from(state.is_in_pass());
            if let State::Away(Some(pending)) = state {
                self.outcome.ended_at = Some(pending.registers.ip);
            }
        }
        // The signal may have reached the program too, and ended it.
        self.outcome.interrupted = interrupted();
        self.outcome.complete = !self.outcome.limited && !self.outcome.interrupted;
        if !ended.load(Ordering::Relaxed) {
            return done;
        }
        // Whatever failed did so because the program had been ended.
        self.outcome.exit_status = None;
        Ok(())
    }

    fn handle_events(&mut self) -> io::Result<()> {
        self.note_module(self.start)?;
        self.debuggee.run(self.debuggee.first())?;
        let mut next = None;
        loop {
            let event = match next {
                Some(event) => event,
                None => self.debuggee.wait()?,
            };
            match self.handle(event)? {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(event) => next = event,
            }
        }
    }

    fn handle(&mut self, event: Event) -> io::Result<Progress> {
        match event {
            Event::Trap(thread) => return self.trapped(thread),
            Event::Interrupted(thread) => self.interrupted(thread)?,
            Event::ThreadEnded(thread) => {
                let last = self.threads.remove(&thread);
                self.outcome.unfinished += u64::from(last.is_some_and(State::is_in_pass));
            }
            Event::Replaced => {
                self.outcome.replaced = true;
                self.threads.clear();
            }
            Event::Ended(status) => {
                self.outcome.exit_status = Some(status);
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(None))
    }

    fn trapped(&mut self, thread: Thread) -> io::Result<Progress> {
        let mut registers = self.debuggee.registers(thread)?;
        let state = self.threads.get(&thread).copied().unwrap_or(State::Away(None));
        if let State::Inside(pending) = state
            && traps(&pending.instruction)
            && registers.ip == pending.instruction.next_ip()
            && self.debuggee.is_breakpoint(thread)?
        {
            return self.own_trap(thread, &pending, registers);
        }
        // The thread is behind INT3, which has one byte.
        let breakpoint = registers.ip.wrapping_sub(1);
        let ours = self.debuggee.breaks_at(breakpoint);
        if ours && self.debuggee.is_breakpoint(thread)? {
            self.debuggee.set_ip(thread, breakpoint)?;
            registers.ip = breakpoint;
            // Another thread's breakpoint may come while this one is about to step.
            let before = match state {
                State::Inside(pending) | State::Away(Some(pending)) => Some(pending),
                State::Away(None) | State::Called | State::Passing | State::Strayed { .. } => None,
            };
            let before = before.filter(|pending| pending.registers.ip == breakpoint);
            if before.is_none() && !self.simulation.contains(breakpoint) {
                self.threads.insert(thread, State::Passing);
                let event = self.debuggee.step_alone(thread)?;
                return Ok(ControlFlow::Continue(Some(event)));
            }
            if self.returns.remove(&breakpoint) {
                self.debuggee.unbreak_at(breakpoint)?;
            }
            self.find_functions()?;
            let enters = breakpoint == self.start;
            let pending = match before {
                Some(pending) => Pending { registers, ..pending },
                None => self.pending(registers, false, enters, registers.stack())?,
            };
            return self.advance(thread, pending);
        }
        match state {
            State::Passing => self.leave(thread, State::Away(None)),
            State::Away(_) | State::Called if self.simulation.contains(registers.ip) => {
                let pending = self.pending(registers, false, false, registers.stack())?;
                self.advance(thread, pending)
            }
            State::Away(_) | State::Called => {
                self.debuggee.pass_on(thread)?;
                Ok(ControlFlow::Continue(None))
            }
            State::Inside(pending) => self.stepped(thread, pending, registers),
            State::Strayed { stack, steps } => {
                if self.simulation.contains(registers.ip) {
                    let pending = self.pending(registers, false, false, registers.stack())?;
                    return self.advance(thread, pending);
                }
                let returned = registers.stack() > stack;
                self.outcome.lost += u64::from(!returned && steps >= STRAYED_MAX);
                if returned || steps >= STRAYED_MAX {
                    return self.leave(thread, State::Away(None));
                }
                self.stray(thread, stack, steps + 1)
            }
        }
    }

    /// Handles an instruction of the range that a thread has executed.
    fn stepped(
        &mut self,
        thread: Thread,
        mut pending: Pending,
        mut registers: Registers,
    ) -> io::Result<Progress> {
        let next_ip = pending.instruction.next_ip();
        if delays_traps(&pending.instruction) && registers.ip != next_ip {
            // Two instructions were executed, and the first one changed no register but SS and,
            // if it was a POP, the stack pointer.
            let between = Registers { ip: next_ip, ..pending.registers };
            self.count(&pending, next_ip);
            pending = self.pending(between, false, false, pending.frame)?;
        }
        let Pending { instruction, frame, .. } = pending;
        self.count(&pending, registers.ip);
        if pushes_flags(&instruction) {
            self.hide_trap_flag(registers.stack())?;
        }
        if keeps_flags(&instruction) {
            registers = self.debuggee.hide_trap_flag_in_r11(thread, registers)?;
        }
        match flow(&instruction) {
            Flow::Call => self.called(instruction.ip(), registers.ip)?,
            Flow::Return => self.find_functions()?,
            Flow::Local => {}
        }
        if self.is_stepped(&registers, frame) {
            let next = self.next(&pending, registers)?;
            return self.advance(thread, next);
        }
        match flow(&instruction) {
            _ if self.calls => self.leave(thread, State::Away(None)),
            Flow::Call => {
                self.outcome.calls += 1;
                if self.simulation.contains(instruction.next_ip()) {
                    self.debuggee.break_at(instruction.next_ip())?;
                }
                self.leave(thread, State::Called)
            }
            Flow::Return => self.leave(thread, State::Away(None)),
            Flow::Local => self.stray(thread, registers.stack(), 0),
        }
    }

    fn count(&mut self, pending: &Pending, after: u64) {
        self.simulation.executed(&pending.registers, after, pending.again);
        self.outcome.entries += u64::from(pending.enters && !pending.again);
    }

    /// Whether a thread is in the range, or with `calls` in what it has called.
    fn is_stepped(&self, registers: &Registers, frame: u64) -> bool {
        self.simulation.contains(registers.ip) || (self.calls && registers.stack() <= frame)
    }

    /// The instruction at which a thread is after another one.
    fn next(&mut self, before: &Pending, registers: Registers) -> io::Result<Pending> {
        let again = repeats(&before.instruction) && registers.ip == before.registers.ip;
        // A recursive call enters the range without reaching a breakpoint.
        let enters = flow(&before.instruction) == Flow::Call && registers.ip == self.start;
        self.pending(registers, again, enters, before.frame)
    }

    fn pending(
        &mut self,
        registers: Registers,
        again: bool,
        enters: bool,
        frame: u64,
    ) -> io::Result<Pending> {
        let address = registers.ip;
        if !self.simulation.knows(address) {
            let code = self.debuggee.read_code(address)?;
            self.simulation.learn(address, &code);
            self.note_module(address)?;
        }
        let instruction = self.simulation.instruction(address);
        Ok(Pending { registers, instruction, again, enters, frame })
    }

    /// The program's own INT3 or INT1, which is a matter of its handler.
    fn own_trap(
        &mut self,
        thread: Thread,
        pending: &Pending,
        registers: Registers,
    ) -> io::Result<Progress> {
        self.count(pending, registers.ip);
        self.await_return(thread, pending, registers)?;
        self.debuggee.pass_on(thread)?;
        Ok(ControlFlow::Continue(None))
    }

    /// A handler runs, and returns to where the thread is now, after this instruction.
    fn await_return(
        &mut self,
        thread: Thread,
        before: &Pending,
        registers: Registers,
    ) -> io::Result<()> {
        let returns_to = if self.is_stepped(&registers, before.frame) {
            self.break_on_return(registers.ip)?;
            Some(self.next(before, registers)?)
        } else {
            None
        };
        self.threads.insert(thread, State::Away(returns_to));
        Ok(())
    }

    fn break_on_return(&mut self, address: u64) -> io::Result<()> {
        if !self.simulation.contains(address) && !self.debuggee.breaks_at(address) {
            self.returns.insert(address);
        }
        self.debuggee.break_at(address)
    }

    /// Notes a call to a function, or to a stub of one.
    fn called(&mut self, from: u64, to: u64) -> io::Result<()> {
        if self.trail.called.len() < CALLED_MAX || self.trail.called.contains_key(&(from, to)) {
            *self.trail.called.entry((from, to)).or_default() += 1;
        }
        let is_known = self.trail.functions.contains(&to) || self.trail.stubs.contains_key(&to);
        if is_known || self.simulation.contains(to) {
            return Ok(());
        }
        self.note_module(to)?;
        let code = self.debuggee.read_code(to).unwrap_or_default();
        let Some(pointer) = stub_pointer(&code, to, self.simulation.is_32_bit()) else {
            self.trail.functions.insert(to);
            return Ok(());
        };
        self.trail.stubs.insert(to, to);
        self.trail.unresolved.push((to, pointer));
        self.find_functions()
    }

    /// Looks where stubs lead. Until the loader has found the function, a stub leads to the loader.
    fn find_functions(&mut self) -> io::Result<()> {
        let size = if self.simulation.is_32_bit() { 4 } else { 8 };
        for (stub, pointer) in std::mem::take(&mut self.trail.unresolved) {
            let mut bytes = [0; 8];
            if self.debuggee.read(pointer, &mut bytes[..size]).is_err() {
                continue;
            }
            let function = u64::from_le_bytes(bytes);
            self.note_module(function)?;
            let module = |address| self.trail.modules.at(address);
            if module(function).is_none() || module(function) == module(stub) {
                self.trail.unresolved.push((stub, pointer));
            } else {
                self.trail.stubs.insert(stub, function);
            }
        }
        Ok(())
    }

    /// Remembers which file the code at an address is of: it may be gone at the end.
    fn note_module(&mut self, address: u64) -> io::Result<()> {
        if self.trail.modules.at(address).is_none()
            && self.trail.nameless.insert(address / super::PAGE)
        {
            self.trail.modules.add(self.debuggee.modules()?);
        }
        Ok(())
    }

    /// Lets a thread execute its next instruction.
    fn advance(&mut self, thread: Thread, pending: Pending) -> io::Result<Progress> {
        if self.step_exceeds_limit() {
            return Ok(ControlFlow::Break(()));
        }
        let registers = pending.registers;
        self.threads.insert(thread, State::Inside(pending));
        if self.debuggee.breaks_at(registers.ip) {
            let event = self.debuggee.step_alone(thread)?;
            return Ok(ControlFlow::Continue(Some(event)));
        }
        self.debuggee.step(thread)?;
        Ok(ControlFlow::Continue(None))
    }

    fn stray(&mut self, thread: Thread, stack: u64, steps: u64) -> io::Result<Progress> {
        if self.step_exceeds_limit() {
            return Ok(ControlFlow::Break(()));
        }
        self.threads.insert(thread, State::Strayed { stack, steps });
        self.debuggee.step(thread)?;
        Ok(ControlFlow::Continue(None))
    }

    fn leave(&mut self, thread: Thread, state: State) -> io::Result<Progress> {
        self.threads.insert(thread, state);
        self.debuggee.run(thread)?;
        Ok(ControlFlow::Continue(None))
    }

    /// Counts a step; returns whether there may be no more.
    fn step_exceeds_limit(&mut self) -> bool {
        self.outcome.limited = self.outcome.steps >= self.max_steps;
        self.outcome.steps += u64::from(!self.outcome.limited);
        if self.outcome.steps.is_multiple_of(REPORT) {
            (self.progress)(self.outcome.steps);
        }
        self.outcome.limited
    }

    /// A handler of a signal or an exception runs at full speed, and returns to where the thread is
    /// now.
    fn interrupted(&mut self, thread: Thread) -> io::Result<()> {
        match self.threads.get(&thread).copied() {
            Some(State::Inside(pending)) => {
                let registers = self.debuggee.registers(thread)?;
                if registers.ip == pending.registers.ip {
                    // The instruction has not been executed: the handler returns to it.
                    self.break_on_return(registers.ip)?;
                    self.threads.insert(thread, State::Away(Some(pending)));
                } else {
                    self.count(&pending, registers.ip);
                    self.await_return(thread, &pending, registers)?;
                }
            }
            Some(State::Away(_) | State::Called) => {}
            Some(State::Passing | State::Strayed { .. }) | None => {
                self.threads.insert(thread, State::Away(None));
            }
        }
        self.debuggee.run(thread)
    }

    /// Clears the trap flag, which the program never set, in the flags that it has pushed.
    fn hide_trap_flag(&self, stack: u64) -> io::Result<()> {
        let mut high = [0];
        self.debuggee.read(stack.wrapping_add(1), &mut high)?;
        self.debuggee.write(stack.wrapping_add(1), &[high[0] & !TRAP_FLAG])
    }
}

/// Ends the program by `end`, unless it ends by itself soon after the user has asked to stop. The
/// thread that steps may wait in the system for an event that never comes.
fn end_when_interrupted(
    interrupted: fn() -> bool,
    over: &AtomicBool,
    ended: &AtomicBool,
    end: impl Fn(),
) {
    let mut since = None;
    while !over.load(Ordering::Relaxed) {
        if interrupted() && since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            ended.store(true, Ordering::Relaxed);
            return end();
        }
        thread::park_timeout(POLL);
    }
}
