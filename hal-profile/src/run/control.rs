//! A running session on one processor: its slices and its totals.
//!
//! Totals come only from register reads: each read adds the events counted since the last one, so
//! no wrap is lost as long as the counter is read before it wraps twice.
//!
//! The final read of a sampling counter comes only after pending interrupts have been let in:
//! [`Local::halt`] and [`Local::tick`] stop the counters, the host enables interrupts, and
//! [`Local::finish`] and [`Local::settle`] do the rest. Every function runs on its own processor
//! with interrupts masked.

use crate::cpu::machine::Machine;
use crate::plan::assign::EVERY_SLICE;
use crate::plan::counter_config::{Active, CountedBy, CounterConfig};
use crate::plan::index::SourceIndex;
use crate::plan::program::{CpuProgram, ticks};
use crate::run::host::Local;
use crate::run::overflow::reload_events;
use crate::run::pmu;
use crate::run::state::{Looked, Phase, Refusals, Select};
use crate::run::throttle::Throttle;
use crate::source::MAX_SOURCES;
use shared_types::ErrorCode;
use shared_types::request::counts::{Changes, Count};
use zerocopy::{FromZeros as _, IntoBytes};

impl<M: Machine> Local<'_, M> {
    /// Clears an earlier program's totals, and starts the first slice.
    pub(crate) fn start(&mut self) {
        self.forget();
        self.arm();
    }

    /// Joins the running session on a processor that was added.
    pub(crate) fn join(&mut self) {
        let allowed = self.allow_interrupts();
        self.forget();
        self.arm_if(allowed);
    }

    /// Clears LVTPC's mask bit if the session samples and no storm has left it set. `false`: it sends
    /// something else than an interrupt.
    fn allow_interrupts(&mut self) -> bool {
        let state = &mut *self.state;
        if !self.program.settings.samples || state.storm {
            return true;
        }
        let unmasked = pmu::unmask_lvtpc(self.machine, &state.capabilities);
        unmasked.map_err(|entry| state.register_value = entry.into_bits().into()).is_ok()
    }

    /// [`Self::arm`], or the session's end here if its overflows could not interrupt.
    fn arm_if(&mut self, interrupts: bool) {
        if interrupts {
            self.arm();
        } else {
            self.end_unarmed(ErrorCode::InterruptsDead);
        }
    }

    /// Ends the session on this processor before its counters are taken over.
    fn end_unarmed(&mut self, cause: ErrorCode) {
        self.state.phase = Phase::Ended;
        self.end(cause);
    }

    /// Joins the session while the machine is suspended; [`Self::resume`] then starts it here too.
    pub(crate) fn join_asleep(&mut self) {
        self.forget();
        self.state.phase = Phase::Suspended;
    }

    /// STOP's first round: stops the counters.
    pub(crate) fn halt(&mut self) {
        // The counters are not read yet: an overflow may be pending behind the mask, and its
        // interrupt comes between the rounds.
        if self.state.phase == Phase::Running {
            let changed = self.look();
            self.stop_counters();
            // mistake: lost-tail
            self.read_all(changed, self.state.clock.halted);
        }
    }

    /// STOP's second round: an exact final read. The totals are kept for snapshots.
    pub(crate) fn finish(&mut self) {
        if self.state.phase == Phase::Halted {
            self.disarm();
            self.finish_periods();
        }
        self.state.phase = Phase::Stopped;
    }

    /// Called before sleep, in which all registers are lost, and after [`Self::halt`]: ends the
    /// slice. A session that has been ended on this processor does not continue after sleep.
    pub(crate) fn suspend(&mut self) {
        if self.state.phase != Phase::Halted {
            return;
        }
        self.disarm();
        self.state.phase = if self.state.ended == 0 {
            Phase::Suspended
        } else {
            self.finish_periods();
            Phase::Ended
        };
    }

    /// Called after sleep, before [`Self::resume`]: sleep has cleared what masked LVTPC after a
    /// storm and what kept its line asserted. If it was called off, both may still be there.
    pub(crate) fn wake(&mut self) {
        self.state.storm &= self.may_storm();
    }

    /// Called when the device starts: what masked LVTPC and is still asserted may be a storm of a
    /// session before the device was disabled.
    pub(crate) fn find_storm(&mut self) {
        let status = self.state.capabilities.global.status;
        let there = status != 0 && self.machine.try_read_msr(status).is_ok();
        self.state.storm |= there && self.may_storm();
    }

    /// Whether LVTPC is masked, and a status bit is set where there are any.
    fn may_storm(&mut self) -> bool {
        let capabilities = &self.state.capabilities;
        pmu::is_masked(self.machine, capabilities)
            && (capabilities.global.status == 0 || pmu::status(self.machine, capabilities) != 0)
    }

    /// Called after sleep: continues with the slice that was interrupted.
    pub(crate) fn resume(&mut self) {
        let allowed = self.allow_interrupts();
        if self.state.phase == Phase::Suspended {
            // Sleep has reset everybody's registers; if it was called off, `initialize` notes them.
            self.state.saved.counters = 0;
            self.arm_if(allowed);
        }
    }

    /// The work of the timer, due as [`Service::timer`](crate::service::Service::timer) says: looks
    /// at the registers, reads every counter, so that none wraps unseen, and ends a slice whose time
    /// is up. Does nothing if nothing is running.
    ///
    /// `true`: the host must let interrupts in and then call [`Self::settle`].
    #[must_use]
    pub fn tick(&mut self) -> bool {
        if self.state.phase != Phase::Running {
            return false;
        }
        let over = self.slice_is_over();
        let changed = self.look();
        // The counters stop before they are read: events between the two would be in no slice.
        let until = if over {
            self.stop_counters();
            self.state.clock.halted
        } else {
            self.now()
        };
        self.read_all(changed, until);
        let mut active = self.state.active.get().iter();
        // The interrupt of an overflow may be pending behind the mask. If it comes once interrupts
        // are enabled, it is a sample; otherwise it is counted as missed.
        if active.any(|counter| counter.overflowed(counter.last)) {
            return true;
        }
        if self.program.settings.samples {
            // The conditions include a freeze that a lost interrupt has left, in which nothing
            // would count.
            let conditions = self.state.capabilities.global.conditions;
            self.acknowledge_shown(conditions);
        }
        if over {
            self.next_slice();
        }
        false
    }

    /// Acknowledges those of the status bits `ours` that are set; from then on, the handler ends a
    /// freeze that was among them after every overflow.
    #[cold]
    pub(crate) fn acknowledge_shown(&mut self, ours: u64) {
        let state = &mut *self.state;
        let shown = pmu::acknowledge_shown(self.machine, &state.capabilities, ours);
        state.saved.freeze |= shown & state.capabilities.global.freeze;
    }

    /// Called after a tick that returned `true`: overflows for which no interrupt came are counted
    /// as missed.
    pub fn settle(&mut self) {
        match self.state.phase {
            Phase::Running => self.poll(),
            Phase::Halted if self.state.ended == 0 => {
                self.poll();
                self.next_slice();
            }
            _ => {}
        }
    }

    /// Writes a [`Count`] for each source into `out`, after reading the counters if they run.
    /// Returns when that was, by the time-stamp counter.
    pub(crate) fn snapshot(&mut self, out: &mut [u8]) -> u64 {
        let runs = self.state.phase == Phase::Running;
        let (now, enabled) = if runs { self.read_running() } else { self.read_stopped() };
        let Some(cpu_program) = self.cpu_program() else {
            return now;
        };
        let state = &mut *self.state;
        let counts = state.counts.each.get_mut(..self.program.settings.count);
        let counts = counts.unwrap_or_default();
        for count in &mut *counts {
            count.enabled = enabled;
        }
        if out.len() != size_of_val(counts) {
            return now;
        }
        // Most sources are on no counter now and as at the end of their last slice. All are copied, and
        // the few others written over: 256 sources one by one would take more than the 3,000
        // instructions for which interrupts may be masked.
        out.copy_from_slice(counts.as_bytes());
        let slice = if runs { self.state.order.now() } else { EVERY_SLICE };
        for config in cpu_program.slice(slice) {
            if self.state.selects[config.source] != Select::Lost {
                put(out, config.source, self.count_now(config, enabled, now));
            }
        }
        now
    }

    /// Looks at the registers, reads every counter and counts the timers. Returns when that was, and for
    /// how long sources have been enabled.
    fn read_running(&mut self) -> (u64, u64) {
        let changed = self.look();
        let now = self.now();
        self.read_all(changed, now);
        self.count_timers(now);
        (now, self.counting(now))
    }

    /// The same once the counters have stopped: their last read was the end of the last slice.
    fn read_stopped(&mut self) -> (u64, u64) {
        let clock = &self.state.clock;
        let enabled = clock.before.saturating_sub(clock.handled);
        (self.machine.timestamp(), enabled)
    }

    /// The count of a source that is on a counter, or was in every slice of a run that is over, with what
    /// the present slice adds.
    fn count_now(&self, config: &CounterConfig, enabled: u64, now: u64) -> Count {
        let state = &*self.state;
        let (count, counted) = (state.counts[config.source], state.totals[config.source].counted);
        let looked = &state.looked[config.counter];
        let unknown = if state.phase == Phase::Running { looked.unknown } else { 0 };
        let running = if config.slice == EVERY_SLICE {
            // Between two slices only this driver runs, so that nothing is missing there.
            enabled.saturating_sub(looked.unknown_before.wrapping_add(unknown))
        } else {
            let in_slice = state.clock.in_slice(now).saturating_sub(unknown);
            count.running.wrapping_add(in_slice)
        };
        Count { counted, running, ..count }
    }

    fn forget(&mut self) {
        let slices = self.cpu_program().map_or(0, |cpu_program| cpu_program.schedule.slices);
        let accesses = self.cpu_program().map_or(0, |cpu_program| cpu_program.recording.accesses());
        // The index goes into both halves, because the first draws use the lower one.
        let index = (self.index as u64).wrapping_mul(1 << 32 | 1);
        let seed = u64::from(self.program.settings.seed) ^ index;
        let state = &mut *self.state;
        let count = self.program.settings.count;
        state.totals.each.get_mut(..count).unwrap_or_default().zero();
        state.counts.each.get_mut(..count).unwrap_or_default().zero();
        state.looked.zero();
        state.selects.each = [Select::Ours; MAX_SOURCES];
        state.periods.begin(seed as u32);
        let frequency = self.program.settings.frequency;
        state.throttle = Throttle::new(frequency, state.capabilities.virtualized, accesses);
        state.statistics.zero();
        state.branches.cleared = 0;
        state.order.begin(slices, seed);
        state.clock.before = 0;
        state.clock.handled = 0;
        state.changes = Changes::default();
        state.ended = 0;
    }

    /// Takes over the counters, unless START's self-test already has, and starts the slice that is
    /// due.
    fn arm(&mut self) {
        let initialized =
            if self.state.phase == Phase::Tested { Ok(()) } else { self.initialize() };
        if let Err(error) = initialized {
            if error == ErrorCode::FixedCounterTaken {
                self.state.register_value = self.source_in_use().into();
            }
            self.end_unarmed(error);
            return;
        }
        if !self.begin_branches() {
            self.release();
            self.end_unarmed(ErrorCode::BranchesTaken);
            return;
        }
        // The branch records run before the counters, whose first interrupt reads them.
        self.begin_slice();
        self.state.clock.started = self.state.clock.slice_began;
        self.state.phase = Phase::Running;
    }

    /// Takes over the counters, and notes what is found in shared registers, once every register of
    /// the program has been seen to be there. Nothing is left changed if that is refused:
    /// `FixedCounterTaken`, `CountersLeft`, `BranchesTaken`, `RdpmcUnavailable`, or `CountersDead` with
    /// the register's number in `register_value`.
    pub(crate) fn initialize(&mut self) -> Result<(), ErrorCode> {
        let uses = |one: &&CpuProgram| one.counters != 0 || one.recording.depth != 0;
        let Some(cpu_program) = self.cpu_program().filter(uses) else {
            return Ok(());
        };
        self.state.refusals = Refusals::new_zeroed();
        self.read_each()?;
        // Windows' own RDPMC, at each context switch, would end in a bug check.
        if self.program.settings.by_thread && self.state.refusals.rdpmc {
            return Err(ErrorCode::RdpmcUnavailable);
        }
        let state = &mut *self.state;
        // Although the whole PMU is reserved, a fixed counter may be on: firmware has left it so
        // (Linux reports such firmware), or its owner did not ask. It is left alone.
        let fixed = pmu::enabled_fixed(self.machine, &state.capabilities);
        state.saved.fixed = fixed;
        if u64::from(fixed) << 32 & cpu_program.counters != 0 {
            return Err(ErrorCode::FixedCounterTaken);
        }
        state.saved.left = pmu::counters_left(self.machine, &state.capabilities);
        if state.saved.left.counters & cpu_program.counters != 0 {
            return Err(ErrorCode::CountersLeft);
        }
        if self.branches_taken() {
            return Err(ErrorCode::BranchesTaken);
        }
        let samples = self.program.settings.samples;
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        let saved = &mut state.saved;
        saved.resets =
            capabilities.errata.reset_at_start && pmu::is_unused(self.machine, capabilities);
        pmu::note_found(self.machine, capabilities, cpu_program, saved);
        self.write_each()?;
        self.state.active.shown = self.shows_counters();
        if cpu_program.counters == 0 {
            return Ok(());
        }
        let state = &mut *self.state;
        let capabilities = &state.capabilities;
        // While only counting, all other status bits belong to whoever has the handler.
        let ours = if samples {
            state.own_status()
        } else {
            cpu_program.counters | capabilities.global.freeze
        };
        let status = pmu::initialize(self.machine, capabilities, cpu_program, ours);
        state.saved.freeze =
            if samples { pmu::freeze_seen(self.machine, capabilities, status) } else { 0 };
        Ok(())
    }

    /// Ends branch recording and gives the counters back. They must be stopped.
    pub(crate) fn release(&mut self) {
        self.end_branches();
        if let Some(cpu_program) = self.cpu_program() {
            let saved = self.state.saved.control;
            let counters = self.own_counters(cpu_program);
            let capabilities = &self.state.capabilities;
            pmu::release(self.machine, capabilities, counters, saved);
        }
    }

    /// The program's counters but for those that are left to somebody else, in the layout of the
    /// global registers.
    fn own_counters(&self, cpu_program: &CpuProgram) -> u64 {
        if self.state.changes.number == 0 {
            return cpu_program.counters;
        }
        let configs = cpu_program.configs.each.iter().take(self.program.settings.count);
        let own = configs.filter(|one| {
            one.counted_by == CountedBy::Counter && self.state.selects[one.source] != Select::Lost
        });
        own.fold(0, |bits, config| bits | config.bits())
    }

    /// Ends the slice and gives the counters back. They must be halted.
    fn disarm(&mut self) {
        // The poll comes first, while the presets still stand: by the counters' values it finds the
        // overflows that no interrupt came for.
        self.poll();
        self.end_slice();
        let halted = self.state.clock.halted;
        self.count_timers(halted);
        self.state.clock.before = self.enabled(halted);
        self.release();
    }

    fn slice_is_over(&mut self) -> bool {
        let several = self.cpu_program().is_some_and(|cpu_program| cpu_program.schedule.slices > 1);
        // The time-stamp counter decides, not the number of ticks: Windows may deliver one tick
        // late and the next early.
        let now = self.now();
        let began = self.state.clock.slice_began;
        several && now.wrapping_sub(began) >= self.program.settings.slice_ticks
    }

    /// The time-stamp counter, for the session's times.
    fn now(&mut self) -> u64 {
        let now = self.machine.timestamp();
        self.state.clock.observe(now);
        now
    }

    pub(crate) fn stop_counters(&mut self) {
        // The time is read before the stop: see `begin_slice`.
        let now = self.now();
        let state = &mut *self.state;
        state.clock.halted = now;
        if !state.active.get().is_empty() {
            pmu::disable_monitoring(self.machine, &state.capabilities, &state.active);
        }
        state.phase = Phase::Halted;
    }

    fn next_slice(&mut self) {
        self.end_slice();
        self.state.order.advance();
        self.begin_slice();
        self.state.phase = Phase::Running;
    }

    /// Sets up the configurations of the slice that is due, and starts their counters.
    fn begin_slice(&mut self) {
        let Some(cpu_program) = self.program.cpu_program(self.state.cpu_type) else {
            return;
        };
        let state = &mut *self.state;
        let one_late = state.capabilities.errata.interrupts_one_late;
        let configs = cpu_program.slice(state.order.now()).filter_map(|config| {
            if state.selects[config.source] == Select::Lost {
                return None;
            }
            let mut events = 0;
            if config.interrupts {
                let total = &mut state.totals[config.source];
                // The slice goes on with the period in which an earlier one ended, so that
                // multiplexed sources are sampled at their period too. Drawn anew, it might already
                // be over, and samples would come where slices begin.
                if total.current_period == 0 {
                    total.current_period = state.periods.next(config);
                }
                events = reload_events(total.remaining(), one_late, config.rounds);
            }
            Some((config, events))
        });
        state.active.set(configs);
        // Up to version 3 a freeze clears all bits; otherwise somebody else has cleared the missing
        // bit, and the next look reports it.
        let clears = state.capabilities.freeze_clears_control();
        state.cleared_by_freeze = if clears { state.active.bits() } else { 0 };
        for Active { config, .. } in state.active.get() {
            let total = state.totals[config.source].counted;
            let looked = &mut state.looked[config.counter];
            *looked = Looked { total, unknown: 0, ..*looked };
        }
        let active = &state.active;
        if !active.get().is_empty() {
            if state.saved.resets {
                pmu::reset(self.machine, &state.capabilities);
            }
            pmu::enable_monitoring(self.machine, &state.capabilities, active);
        }
        // The time is read after the start and before the stop, so that the counters ran at least
        // as long as is claimed.
        let now = self.machine.timestamp();
        state.clock.observe(now);
        state.clock.slice_began = now;
        state.clock.handled_before = state.clock.handled;
        state.clock.looked = 0;
    }

    /// Ends the slice. Its counters must be halted, read and added up.
    fn end_slice(&mut self) {
        let state = &mut *self.state;
        let ticks = state.clock.in_slice(state.clock.halted);
        if state.active.get().is_empty() {
            return;
        }
        for counter in state.active.get() {
            let source = counter.config.source;
            let unknown = state.looked[counter.config.counter].unknown;
            let known = ticks.saturating_sub(unknown);
            let (total, count) = (&mut state.totals[source], &mut state.counts[source]);
            total.end_slice(count, known);
            if counter.config.slice == EVERY_SLICE {
                let looked = &mut state.looked[counter.config.counter];
                looked.unknown_before = looked.unknown_before.wrapping_add(unknown);
            } else {
                count.running = count.running.wrapping_add(known);
            }
        }
        // This leaves no select on and no overflow set, for the next slice or another owner.
        pmu::clear(self.machine, &state.capabilities, &state.active);
        state.active.clear();
    }

    /// ProfileTime: counts how often its timer has ticked while the session was running.
    fn count_timers(&mut self, now: u64) {
        if !self.program.settings.timers {
            return;
        }
        let (enabled, counting) = (self.enabled(now), self.counting(now));
        let sources = self.program.sources().iter();
        for (source, count) in sources.zip(&mut self.state.counts.each) {
            if source.timer {
                let interval = ticks(source.interval.used, self.program.settings.frequency);
                count.counted = enabled / interval.max(1);
                count.running = counting;
            }
        }
    }

    fn enabled(&self, now: u64) -> u64 {
        let clock = &self.state.clock;
        clock.before.wrapping_add(now.wrapping_sub(clock.started))
    }

    /// The same without the interrupt handler's time.
    fn counting(&self, now: u64) -> u64 {
        self.enabled(now).saturating_sub(self.state.clock.handled)
    }
}

impl<'a, M> Local<'a, M> {
    /// The longest period with which a source is now sampled, in events; of drawn ones the mean.
    pub(crate) fn longest_period(&self) -> u64 {
        let configs = self.cpu_program().map(|cpu_program| &cpu_program.configs.each);
        let configs = configs.into_iter().flatten().take(self.program.settings.count);
        let longest = configs.map(|config| config.period).max();
        self.state.periods.lengthened(longest.unwrap_or(0))
    }

    /// What this CPU type runs.
    fn cpu_program(&self) -> Option<&'a CpuProgram> {
        self.program.cpu_program(self.state.cpu_type)
    }
}

/// Writes the count of one source into a reply of all.
fn put(out: &mut [u8], source: SourceIndex, count: Count) {
    let (rows, _) = out.as_chunks_mut::<{ size_of::<Count>() }>();
    if let Some(row) = rows.get_mut(source.get()) {
        row.copy_from_slice(count.as_bytes());
    }
}
