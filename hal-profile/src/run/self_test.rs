//! START's self-test that the counters a session will use do count on every processor and, if it
//! samples, that their interrupt arrives. A PMU that CPUID reports may still be missing (in
//! guests), and nothing documents that every version of Windows leaves LVTPC as sampling needs it.
//!
//! Each try has three steps: [`Local::begin_self_test`] starts the counters on an instruction
//! event, the host executes some instructions with interrupts enabled, and [`Local::end_self_test`]
//! checks the result.
//!
//! General counters may interrupt where fixed ones do not, and the reverse. Of those that the session
//! uses, one kind after the other is near its overflow, and an interrupt proves the kind of which a
//! counter has overflowed.

use crate::cpu::machine::Machine;
use crate::plan::counter_config::{ActiveCounters, CountedBy};
use crate::plan::program::CpuProgram;
use crate::run::host::Local;
use crate::run::pmu;
use crate::run::state::{Phase, SelfTest};
use crate::run::throttle::STORM;
use shared_types::ErrorCode;

/// Instructions that each try executes. An interrupt may be late, or lost once, so later tries wait
/// longer for it; together they stay below the 20,000 that a START may take on each processor.
pub(crate) const TRIES: [u32; 3] = [400, 3_000, 12_900];
/// Events until the interrupt: less than half of what a try executes, for two kinds of counters; more
/// than the shortest reload.
pub(crate) const PERIOD: u64 = 160;
/// General and fixed counters, in the layout of the global registers.
const KINDS: [u64; 2] = [0xFFFF_FFFF, 0xFFFF_FFFF << 32];

/// The self-test's counters of the next kind whose interrupt has not come; 0 if there is none.
fn unproved(self_test: &ActiveCounters, proved: u64) -> u64 {
    let counters = self_test.get().iter().filter(|counter| counter.config.interrupts);
    let all = counters.fold(0, |bits, counter| bits | counter.config.bit());
    // mistake: one-interrupt-for-all
    let kinds = KINDS.map(|kind| if proved & kind == 0 { all & kind } else { 0 });
    kinds.into_iter().find(|&kind| kind != 0).unwrap_or(0)
}

impl<M: Machine> Local<'_, M> {
    /// Takes over the counters, before the first try.
    pub(crate) fn take_over(&mut self) {
        // This does not come with each try: a later one would note what an earlier one wrote as
        // what others had left. Nor in one visit with the first: with branch records, interrupts
        // would be masked for more than 3,000 instructions.
        self.state.self_test = SelfTest::Open;
        self.state.test_interrupts = 0;
        self.state.proved = 0;
        if self.program.cpu_program(self.state.cpu_type).is_none() {
            return;
        }
        if let Err(error) = self.initialize() {
            self.state.self_test = match error {
                ErrorCode::FixedCounterTaken => SelfTest::FixedTaken,
                ErrorCode::BranchesTaken => SelfTest::BranchesTaken,
                ErrorCode::CountersLeft => SelfTest::CountersLeft,
                ErrorCode::RdpmcUnavailable => SelfTest::RdpmcRefused,
                _ => SelfTest::RegisterAbsent,
            };
            return;
        }
        self.state.phase = Phase::Tested;
    }

    /// Starts the counters, unless an earlier try passed or the self-test cannot be made.
    pub(crate) fn begin_self_test(&mut self) {
        if matches!(
            self.state.self_test,
            SelfTest::Passed
                | SelfTest::FixedTaken
                | SelfTest::BranchesTaken
                | SelfTest::RegisterAbsent
                | SelfTest::RdpmcRefused
                | SelfTest::CountersLeft
                | SelfTest::Storm
        ) {
            return;
        }
        let Some(cpu_program) = self.program.cpu_program(self.state.cpu_type) else {
            return;
        };
        if cpu_program.counters == 0 {
            return;
        }
        let self_test = &cpu_program.self_test;
        if self.program.settings.samples && !self.interrupt_is_clear() {
            // On P6 only the set-up stops a counter that somebody has left on. It is not reached
            // here, and `release` would set the counter to 0 while it counts.
            let capabilities = &self.state.capabilities;
            pmu::disable_monitoring(self.machine, capabilities, self_test);
            pmu::clear(self.machine, capabilities, self_test);
            return;
        }
        let state = &mut *self.state;
        state.tested = unproved(self_test, state.proved);
        // Interrupts are masked here, so none comes before the phase says whose it is.
        pmu::begin_test(self.machine, &state.capabilities, self_test, state.tested);
        state.phase = Phase::Testing;
    }

    /// Unmasks the overflow interrupt; `false` if a storm masked it and is not over, or if LVTPC
    /// sends something else.
    fn interrupt_is_clear(&mut self) -> bool {
        let state = &mut *self.state;
        // `initialize` has acknowledged what there was: what is still there holds the line active.
        let left = state.own_status();
        if state.storm && pmu::status(self.machine, &state.capabilities) & left != 0 {
            state.register_value = pmu::lvtpc(self.machine, &state.capabilities).into();
            state.self_test = SelfTest::Storm;
            return false;
        }
        // LVTPC is unmasked before the counters start: an overflow while it is masked is lost.
        if let Err(entry) = pmu::unmask_lvtpc(self.machine, &state.capabilities) {
            state.register_value = entry.into_bits().into();
            state.self_test = SelfTest::InterruptsDead;
            return false;
        }
        state.storm = false;
        true
    }

    /// Handles an interrupt that comes during the self-test, or just after a try that did not see
    /// it. Too many of them are a storm.
    #[cold]
    pub(crate) fn self_test_interrupt(&mut self) {
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        let Some(CpuProgram { self_test, .. }) = self.program.cpu_program(state.cpu_type) else {
            return;
        };
        state.test_interrupts = state.test_interrupts.saturating_add(1);
        let running = state.phase == Phase::Testing;
        // At this period the next would come within the handler.
        if running {
            pmu::disable_monitoring(self.machine, capabilities, self_test);
        }
        // The counters' values decide: another owner's interrupt proves nothing.
        let mut tested = self_test.get().iter().filter(|one| one.config.bit() & state.tested != 0);
        let came = tested
            .any(|counter| counter.overflowed(pmu::read(self.machine, state.refusals, counter)));
        if came {
            state.proved |= state.tested;
        }
        // The status is acknowledged before LVTPC is unmasked: on Haswell and later a bit that is
        // left interrupts at once (Linux).
        let ours = self_test.bits() | capabilities.global.conditions;
        pmu::acknowledge_shown(self.machine, capabilities, ours);
        if state.test_interrupts >= STORM {
            pmu::set_lvtpc_mask(self.machine, capabilities, true);
            state.storm = true;
        } else if capabilities.masks_lvtpc {
            pmu::set_lvtpc_mask(self.machine, capabilities, false);
        }
        let next = unproved(self_test, state.proved);
        if !running || state.storm || next == 0 {
            return;
        }
        // The counters start last: an overflow while LVTPC is masked is lost.
        if came {
            state.tested = next;
            pmu::begin_test(self.machine, capabilities, self_test, next);
        } else {
            pmu::start(self.machine, capabilities, self_test);
        }
    }

    /// Stops the counters and checks them. Returns whether the self-test has passed; if so, the
    /// counters stay taken over for [`Self::start`].
    pub(crate) fn end_self_test(&mut self) -> bool {
        let state = &mut *self.state;
        if state.phase == Phase::Tested && state.self_test == SelfTest::Open {
            state.self_test = SelfTest::Passed;
        }
        let cpu_program = self.program.cpu_program(state.cpu_type);
        let Some(CpuProgram { self_test, .. }) =
            cpu_program.filter(|_| state.phase == Phase::Testing)
        else {
            return state.self_test == SelfTest::Passed;
        };
        let capabilities = &state.capabilities;
        pmu::disable_monitoring(self.machine, capabilities, self_test);
        let mut alive = true;
        for counter in self_test.get() {
            let value = pmu::read(self.machine, state.refusals, counter);
            // A missing counter reads as 0, but a working one may also have been stopped at 0: by
            // its interrupt, or by the freeze that came with an interrupt still to come.
            let absent = value == 0
                && state.test_interrupts == 0
                && pmu::status(self.machine, capabilities) & counter.config.bit() == 0;
            let began = if counter.config.bit() & state.tested != 0 { counter.preset } else { 0 };
            alive &= value != began && !absent;
        }
        // The counters are cleared after a failure too: the next try, or whoever owns them then,
        // begins at 0.
        pmu::clear(self.machine, capabilities, self_test);
        let interrupts = self_test.get().iter().any(|counter| counter.config.interrupts);
        state.self_test = if interrupts && state.storm {
            state.register_value = pmu::lvtpc(self.machine, capabilities).into();
            SelfTest::Storm
        } else if !alive {
            SelfTest::CountersDead
        } else if unproved(self_test, state.proved) != 0 {
            state.register_value = pmu::lvtpc(self.machine, capabilities).into();
            SelfTest::InterruptsDead
        } else {
            SelfTest::Passed
        };
        let passed = state.self_test == SelfTest::Passed;
        // A refused START leaves no freeze to other owners. A try that has passed leaves none: the
        // handler has ended it, and what has been proved interrupts no more.
        if interrupts && !passed {
            pmu::acknowledge_shown(self.machine, capabilities, capabilities.global.freeze);
        }
        state.phase = Phase::Tested;
        passed
    }

    /// Gives the counters back when START is refused.
    pub(crate) fn abandon_self_test(&mut self) {
        if self.state.phase == Phase::Tested {
            self.release();
            self.state.phase = Phase::Stopped;
        }
    }

    /// The program's first source on a fixed counter that another owner has enabled.
    pub(crate) fn source_in_use(&self) -> u32 {
        let in_use = u64::from(self.state.saved.fixed) << 32;
        let configs = self
            .program
            .cpu_program(self.state.cpu_type)
            .map(|cpu_program| &cpu_program.configs.each);
        let count = self.program.settings.count;
        let config =
            configs.into_iter().flatten().take(count).find(|config| {
                config.counted_by == CountedBy::Counter && config.bit() & in_use != 0
            });
        let source = config.map(|config| &self.program.sources[config.source]);
        source.map_or(0, |source| source.id)
    }
}
