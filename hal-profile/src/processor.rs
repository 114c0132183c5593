//! One processor's share of a running session: its counters, its totals, its turns.
//!
//! Every function here runs on its processor with interrupts masked. Totals come from register
//! reads only: each read adds how far the counter has come since the last, so a counter never
//! loses a wrap as long as it is read before it wraps twice.

use crate::capabilities::Capabilities;
use crate::catalog;
use crate::control::{Filter, control};
use crate::counter::{Counter, CounterWidth};
use crate::guard::Guard;
use crate::interface::{self, Seated};
use crate::machine::{Local, Machine};
use crate::plan::{MAX_COUNTERS, MAX_SOURCES, Plan, Seat};
use crate::session::Configuration;
use crate::source::Select;
use crate::statistics::SampleStatistics;
use shared_types::ProfileInterface;
use shared_types::ProfileSource;
use shared_types::request::counts::Count;
use zerocopy::IntoBytes;

/// A processor's state; its host keeps one for each.
#[derive(Debug)]
pub struct ProcessorState {
    /// What the processor can do; `None` until it has been looked at.
    pub(crate) capabilities: Option<Capabilities>,
    /// Its kind, among those of this machine.
    pub(crate) kind: u8,
    pub(crate) active: Active,
    pub(crate) totals: [Total; MAX_SOURCES],
    pub(crate) guard: Guard,
    pub(crate) statistics: SampleStatistics,
    clock: Clock,
    phase: Phase,
}

/// The counters of the turn that runs now.
#[derive(Debug)]
pub(crate) struct Active {
    seated: [Seated; MAX_COUNTERS],
    count: usize,
    turn: u16,
}

/// What one source has come to on this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    counted: u64,
    running: u64,
    turns: u64,
    at_turn_start: u64,
    count_squared: u128,
    count_by_time: u128,
    time_squared: u128,
    /// Sampling: events between two samples now, which the guard may have lengthened.
    pub(crate) period: u64,
    /// Sampling: events since the last sample when the counter was last preset.
    pub(crate) carried: u64,
}

/// Times, in ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// When the session started or was resumed.
    started: u64,
    /// When the turn began.
    turn_began: u64,
    /// For how long the session had been running before `started`.
    before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Stopped,
    Running,
    /// Asleep: to be armed again.
    Suspended,
}

impl Total {
    const ZERO: Self = Self {
        counted: 0,
        running: 0,
        turns: 0,
        at_turn_start: 0,
        count_squared: 0,
        count_by_time: 0,
        time_squared: 0,
        period: 0,
        carried: 0,
    };

    /// Adds how far a counter has come since this was last done.
    pub(crate) fn add_up(&mut self, one: &mut Seated) {
        let came = one.width.distance(one.last, one.value);
        self.counted = self.counted.wrapping_add(came);
        one.last = one.value;
    }

    /// Keeps what a sampled counter has come to since its last sample for its next turn.
    fn carry(&mut self, one: &Seated) {
        if one.interrupts {
            let came = one.width.distance(one.preset, one.last);
            self.carried = self.carried.wrapping_add(came);
        }
    }

    fn end_turn(&mut self, ticks: u64) {
        let count = self.counted.wrapping_sub(self.at_turn_start);
        let (count, ticks) = (u128::from(count), u128::from(ticks));
        self.running = self.running.wrapping_add(ticks as u64);
        self.turns = self.turns.wrapping_add(1);
        self.count_squared = self.count_squared.saturating_add(count * count);
        self.count_by_time = self.count_by_time.saturating_add(count * ticks);
        self.time_squared = self.time_squared.saturating_add(ticks * ticks);
        self.at_turn_start = self.counted;
    }
}

impl Active {
    const NONE: Self = Self {
        seated: [Seated::NONE; MAX_COUNTERS],
        count: 0,
        turn: 0,
    };

    /// The counters in use.
    pub(crate) fn seated(&self) -> &[Seated] {
        self.seated.get(..self.count).unwrap_or_default()
    }

    /// The counters in use.
    pub(crate) fn seated_mut(&mut self) -> &mut [Seated] {
        self.seated.get_mut(..self.count).unwrap_or_default()
    }

    fn add(&mut self, seated: Seated) {
        if let Some(seat) = self.seated.get_mut(self.count) {
            *seat = seated;
            self.count += 1;
        }
    }
}

/// What this processor does of its program.
impl<M: Machine> Local<'_, M> {
    /// Whether its counters count: the first is set to instructions, and some must be counted.
    pub(crate) fn counts(&mut self) -> bool {
        let Some(capabilities) = self.state.capabilities else {
            return true;
        };
        let Some(one) = self_test(&capabilities) else {
            return true;
        };
        let mut seated = [one];
        interface::initialize(self.machine, &capabilities);
        interface::enable_monitoring(self.machine, &capabilities, &seated);
        self.machine.exercise();
        interface::disable_monitoring(self.machine, &capabilities, &mut seated);
        seated.iter().all(|one| one.value != 0)
    }

    /// Forgets an earlier program's totals, and starts the first turn.
    pub(crate) fn start(&mut self) {
        let session = &self.program.configuration;
        if let Some(plan) = self.program.plan(self.state.kind) {
            self.state.start(self.machine, session, plan);
        }
    }

    /// Stops, with an exact final read; totals stay for snapshots.
    pub(crate) fn stop(&mut self) {
        let session = &self.program.configuration;
        self.state.stop(self.machine, session);
    }

    /// Before sleep, when all registers will be lost: stops, to be armed again.
    pub(crate) fn suspend(&mut self) {
        let session = &self.program.configuration;
        self.state.suspend(self.machine, session);
    }

    /// After sleep: goes on with the turn that was interrupted.
    pub(crate) fn resume(&mut self) {
        let session = &self.program.configuration;
        if let Some(plan) = self.program.plan(self.state.kind) {
            self.state.resume(self.machine, session, plan);
        }
    }

    /// Joins while the machine sleeps: [`Self::resume`] starts it here too.
    pub(crate) fn join_asleep(&mut self) {
        self.state.join_asleep(&self.program.configuration);
    }

    /// The timer's work, due every [`Service::timer_period`](crate::service::Service::timer_period):
    /// reads every counter, so that none wraps unseen, and begins the next turn when this one has
    /// had its time. Does nothing where nothing runs.
    pub fn tick(&mut self) {
        let session = &self.program.configuration;
        if let Some(plan) = self.program.plan(self.state.kind) {
            self.state.tick(self.machine, session, plan);
        }
    }

    /// Writes a [`Count`] for each source into `out`, after reading the counters if they run.
    pub(crate) fn snapshot(&mut self, out: &mut [u8]) {
        let session = &self.program.configuration;
        if let Some(plan) = self.program.plan(self.state.kind) {
            self.state.snapshot(self.machine, session, plan, out);
        }
    }
}

/// The first general counter on instructions; `None` where that takes more than an event select,
/// as on two of the interfaces that no x64 Windows uses.
fn self_test(capabilities: &Capabilities) -> Option<Seated> {
    let row = catalog::find(capabilities, ProfileSource::TOTAL_ISSUES)?;
    catalog::support(capabilities, row, false).ok()?;
    let select = row.select;
    let counter = Counter::general(capabilities.counters.trailing_zeros().try_into().ok()?);
    let both = Filter {
        user: true,
        kernel: true,
    };
    let control = control(capabilities, &select, 0, both, false);
    let seated = Seated::new(capabilities, counter, control);
    matches!(select, Select::EventSelect(_)).then_some(seated)
}

impl ProcessorState {
    /// The state of a processor that nobody has looked at.
    #[expect(
        clippy::large_stack_arrays,
        reason = "a constant that hosts copy into memory they lend"
    )]
    pub const EMPTY: Self = Self {
        capabilities: None,
        kind: 0,
        active: Active::NONE,
        totals: [Total::ZERO; MAX_SOURCES],
        guard: Guard::NEW,
        statistics: SampleStatistics::ZERO,
        clock: Clock {
            started: 0,
            turn_began: 0,
            before: 0,
        },
        phase: Phase::Stopped,
    };

    /// Whether counters of a program run here now; not while the machine sleeps.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// What became of this processor's samples.
    #[must_use]
    pub fn statistics(&self) -> &SampleStatistics {
        &self.statistics
    }

    /// The longest period that one of the first `count` sources is sampled with now, in events.
    pub(crate) fn longest_period(&self, count: usize) -> u64 {
        self.totals
            .iter()
            .take(count)
            .map(|total| total.period)
            .max()
            .unwrap_or(0)
    }

    fn start(&mut self, machine: &mut impl Machine, session: &Configuration, plan: &Plan) {
        self.forget(session);
        if let (Some(capabilities), 1..) = (&self.capabilities, plan.turns()) {
            interface::initialize(machine, capabilities);
        }
        self.arm(machine, session, plan);
    }

    fn join_asleep(&mut self, session: &Configuration) {
        self.forget(session);
        self.phase = Phase::Suspended;
    }

    fn forget(&mut self, session: &Configuration) {
        for (index, total) in self.totals.iter_mut().enumerate().take(session.count()) {
            *total = Total {
                period: session.events(index),
                ..Total::ZERO
            };
        }
        self.guard = Guard::NEW;
        self.statistics = SampleStatistics::ZERO;
        self.clock.before = 0;
        self.active.turn = 0;
    }

    fn arm(&mut self, machine: &mut impl Machine, session: &Configuration, plan: &Plan) {
        self.begin_turn(machine, session, plan);
        self.clock.started = self.clock.turn_began;
        self.phase = Phase::Running;
    }

    fn stop(&mut self, machine: &mut impl Machine, session: &Configuration) {
        if self.phase == Phase::Running {
            self.disarm(machine, session);
        }
        self.phase = Phase::Stopped;
    }

    fn suspend(&mut self, machine: &mut impl Machine, session: &Configuration) {
        if self.phase == Phase::Running {
            self.disarm(machine, session);
            self.phase = Phase::Suspended;
        }
    }

    fn resume(&mut self, machine: &mut impl Machine, session: &Configuration, plan: &Plan) {
        if self.phase == Phase::Suspended {
            self.arm(machine, session, plan);
        }
    }

    fn disarm(&mut self, machine: &mut impl Machine, session: &Configuration) {
        let now = self.end_turn(machine);
        self.count_timers(session, now);
        self.clock.before = self.enabled(now);
    }

    fn tick(&mut self, machine: &mut impl Machine, session: &Configuration, plan: &Plan) {
        if self.phase != Phase::Running {
            return;
        }
        let turn_over = plan.turns() > 1
            && machine.timestamp().wrapping_sub(self.clock.turn_began) >= session.rotation_ticks();
        if turn_over {
            self.end_turn(machine);
            self.active.turn = (self.active.turn + 1) % plan.turns();
            self.begin_turn(machine, session, plan);
        } else {
            self.read_all(machine);
        }
    }

    fn snapshot(
        &mut self,
        machine: &mut impl Machine,
        session: &Configuration,
        plan: &Plan,
        out: &mut [u8],
    ) {
        let now = machine.timestamp();
        let running = self.phase == Phase::Running;
        if running {
            self.read_all(machine);
            self.count_timers(session, now);
        }
        let places = out.chunks_exact_mut(size_of::<Count>());
        for (index, place) in places.enumerate().take(session.count()) {
            let on_counter = running
                && matches!(plan.seat(index), Seat::Counter { turn, .. } if turn == self.active.turn);
            place.copy_from_slice(self.count(index, plan, on_counter, now).as_bytes());
        }
    }

    fn count(&self, index: usize, plan: &Plan, on_counter: bool, now: u64) -> Count {
        let total = self.totals.get(index).copied().unwrap_or(Total::ZERO);
        let enabled = if self.phase == Phase::Running {
            self.enabled(now)
        } else {
            self.clock.before
        };
        let this_turn = if on_counter {
            now.wrapping_sub(self.clock.turn_began)
        } else {
            0
        };
        let halves = |sum: u128| [sum as u64, (sum >> 64) as u64];
        Count {
            counted: total.counted,
            enabled,
            running: match plan.seat(index) {
                Seat::Timer => enabled,
                _ => total.running.wrapping_add(this_turn),
            },
            turns: total.turns,
            count_squared: halves(total.count_squared),
            count_by_time: halves(total.count_by_time),
            time_squared: halves(total.time_squared),
        }
    }

    fn enabled(&self, now: u64) -> u64 {
        self.clock
            .before
            .wrapping_add(now.wrapping_sub(self.clock.started))
    }

    /// Seats the sources of the turn that is due, and starts their counters.
    fn begin_turn(&mut self, machine: &mut impl Machine, session: &Configuration, plan: &Plan) {
        self.active.count = 0;
        let Some(capabilities) = &self.capabilities else {
            return;
        };
        for index in 0..session.count() {
            if let Seat::Counter {
                counter,
                side,
                turn,
            } = plan.seat(index)
                && turn == self.active.turn
            {
                let total = self.totals.get(index).copied().unwrap_or(Total::ZERO);
                let interrupts = total.period != 0;
                let control = session.control(capabilities, index, side, interrupts);
                let mut one = Seated {
                    interrupts,
                    source: index as u16,
                    ..Seated::new(capabilities, counter, control)
                };
                if interrupts {
                    let remaining = total.period.saturating_sub(total.carried);
                    one.start_from(preset(capabilities, one.width, remaining));
                }
                self.active.add(one);
            }
        }
        if self.active.count > 0 {
            interface::enable_monitoring(machine, capabilities, self.active.seated());
        }
        self.clock.turn_began = machine.timestamp();
    }

    /// Stops the counters of the turn and adds up what they have come to; answers when it ended.
    fn end_turn(&mut self, machine: &mut impl Machine) -> u64 {
        let now = machine.timestamp();
        let (Some(capabilities), 1..) = (self.capabilities, self.active.count) else {
            return now;
        };
        let ticks = now.wrapping_sub(self.clock.turn_began);
        interface::disable_monitoring(machine, &capabilities, self.active.seated_mut());
        for one in self.active.seated_mut() {
            if let Some(total) = self.totals.get_mut(usize::from(one.source)) {
                total.add_up(one);
                total.carry(one);
                total.end_turn(ticks);
            }
        }
        self.active.count = 0;
        now
    }

    fn read_all(&mut self, machine: &mut impl Machine) {
        let Some(capabilities) = &self.capabilities else {
            return;
        };
        for one in self.active.seated_mut() {
            interface::read(machine, capabilities, one);
            if let Some(total) = self.totals.get_mut(usize::from(one.source)) {
                total.add_up(one);
            }
        }
    }

    /// ProfileTime: how often its timer has ticked while the session was running.
    fn count_timers(&mut self, session: &Configuration, now: u64) {
        let enabled = self.enabled(now);
        for (index, total) in self.totals.iter_mut().enumerate().take(session.count()) {
            if let Some(ticks) = session.timer_ticks(index) {
                total.counted = enabled / ticks.max(1);
            }
        }
    }
}

/// The value from which a counter of this width interrupts at the `remaining`-th event.
///
/// NetBurst raises its interrupt on the count after the overflow, so it is preset for one event
/// less (SDM vol. 3B, "Generating an Interrupt on Overflow"), and cannot be for a single one: that
/// comes one event late and is carried.
pub(crate) fn preset(capabilities: &Capabilities, width: CounterWidth, remaining: u64) -> u64 {
    let events = match capabilities.interface() {
        ProfileInterface::NetBurst => remaining.max(2) - 1,
        _ => remaining.max(1),
    };
    width.preset(events)
}
