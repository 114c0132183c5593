//! A session's run: reserves and proves the counters, and starts and stops them.

use super::by_thread::{may_count_by_thread, slots, threads_refused};
use super::cpu_types::CpuTypes;
use super::events::RING_BYTES;
use super::io_buffer::{Answer, IoBuffer, Refused, refused};
use super::reading::{Pages, Reading};
use super::session::find;
use super::{ActiveSession, Host, Service, now, running_mut};
use crate::plan::cpu_set::ProcessorSet;
use crate::plan::program::Program;
use crate::run::event_ring::{WORDS, event};
use crate::run::host::{Local, Overflows, Processors, Unreserved};
use crate::run::ring::{Ring, words_for};
use crate::run::self_test;
use crate::run::state::SelfTest;
use crate::service::session::{Client, Ended, Session};
use core::sync::atomic::{AtomicU32, Ordering};
use shared_types::request::threads::MAX_SOURCES;
use shared_types::{ErrorCode, EventKind, SystemEvent};

/// The index that means no processor.
const NONE: u32 = u32::MAX;

/// What START has reserved so far. When it is dropped, because a later step was refused, all of it
/// is given back, in reverse order.
struct Reserved<'a, P: Processors> {
    processors: &'a mut P,
    /// The counters, and the overflow interrupt if the session samples. A session with only
    /// ProfileTime takes none.
    counters: bool,
    rings: bool,
    /// The processors whose counters the self-test has taken over.
    taken_over: Option<ProcessorSet>,
}

impl<P: Processors> Drop for Reserved<'_, P> {
    fn drop(&mut self) {
        if let Some(processors) = self.taken_over {
            let abandon =
                |local: &mut Local<'_, P::Machine>, _: &mut [()]| local.abandon_self_test();
            self.processors.run_on_each(&processors, &mut [], abandon);
        }
        if self.rings {
            self.processors.detach_rings();
        }
        // The reservation is given back last: registers are written only while they are reserved.
        if self.counters {
            self.processors.release_counters();
        }
    }
}

impl<'a, P: Processors> Reserved<'a, P> {
    /// Reserves the counters if the program takes any.
    fn new(processors: &'a mut P, program: &Program) -> Result<Self, Refused> {
        let counters = program.slices() != 0;
        if counters {
            let overflows =
                if program.settings.samples { Overflows::Interrupt } else { Overflows::Ignored };
            processors
                .reserve_counters(overflows)
                .map_err(|Unreserved { error, status }| refused(error, 0, status.into()))?;
        }
        Ok(Self { processors, counters, rings: false, taken_over: None })
    }

    /// Leaves everything reserved, for the run that begins. Returns whether counters are.
    fn keep(mut self) -> bool {
        (self.rings, self.taken_over) = (false, None);
        core::mem::take(&mut self.counters)
    }

    /// Attaches the rings of events and of samples; returns their bytes.
    fn attach_rings(
        &mut self,
        program: &Program,
        process: u32,
        cpu_types: &CpuTypes,
        most: u64,
    ) -> Result<u64, Refused> {
        let settings = &program.settings;
        let mut bytes = 0;
        if settings.events {
            if !self.processors.attach_event_ring(WORDS) {
                return Err(refused(ErrorCode::NoMemory, 0, RING_BYTES));
            }
            (self.rings, bytes) = (true, RING_BYTES);
            let now = now(self.processors);
            let started = SystemEvent { process, ..event(EventKind::SessionStarted, now) };
            self.processors.put_event(&started);
        }
        if settings.samples {
            let words = words_for(settings.ring_samples, settings.branches);
            let processors = &settings.processors;
            let rings =
                (0..cpu_types.processors()).filter(|&index| processors.contains(index)).count();
            let samples = (words * size_of::<u64>() * rings) as u64;
            bytes += samples;
            // Processors may have been added since the size of the rings was chosen.
            if bytes > most || !self.processors.attach_rings(processors, words) {
                return Err(refused(ErrorCode::NoMemory, 0, samples));
            }
            self.rings = true;
        }
        Ok(bytes)
    }

    /// Takes over the counters on every processor, and proves that they count and interrupt. A
    /// later try waits longer for an interrupt.
    fn self_test(&mut self, program: &Program) -> Result<(), Refused> {
        if !self.counters {
            return Ok(());
        }
        let processors = program.settings.processors;
        self.taken_over = Some(processors);
        self.processors.run_on_each(&processors, &mut [], |local, _: &mut [()]| local.take_over());
        let mut failed = NONE;
        for instructions in self_test::TRIES {
            let first_failed = AtomicU32::new(NONE);
            self.processors.exercise(
                &processors,
                instructions,
                |local| local.begin_self_test(),
                |local| {
                    if !local.end_self_test() {
                        first_failed.fetch_min(local.index as u32, Ordering::Relaxed);
                    }
                },
            );
            failed = first_failed.into_inner();
            if failed == NONE {
                return Ok(());
            }
        }
        let failure = self.processors.run_on(failed as usize, |local| {
            let state = &*local.state;
            let left = state.saved.left;
            (state.self_test, state.register_value, local.source_in_use(), left)
        });
        let Some((self_test, register_value, source, left)) = failure else {
            return Err(refused(ErrorCode::CountersDead, failed, 0));
        };
        Err(match self_test {
            SelfTest::InterruptsDead => refused(ErrorCode::InterruptsDead, failed, register_value),
            SelfTest::Storm => refused(ErrorCode::InterruptStorm, failed, register_value),
            SelfTest::BranchesTaken => refused(ErrorCode::BranchesTaken, failed, register_value),
            SelfTest::FixedTaken => refused(ErrorCode::FixedCounterTaken, source, failed.into()),
            SelfTest::CountersLeft => {
                refused(ErrorCode::CountersLeft, left.register, left.counters)
            }
            SelfTest::RdpmcRefused => refused(ErrorCode::RdpmcUnavailable, failed, 0),
            SelfTest::RegisterAbsent => refused(ErrorCode::CountersDead, failed, register_value),
            _ => refused(ErrorCode::CountersDead, failed, 0),
        })
    }

    /// Has Windows add up the counters of a session that counts by thread. They are proved and
    /// stopped.
    fn register_threads(&mut self, program: &Program, cpu_types: &CpuTypes) -> Result<(), Refused> {
        if !program.settings.by_thread {
            return Ok(());
        }
        let mut list = [0; MAX_SOURCES];
        let mut count = 0;
        for (entry, (_, slot)) in list.iter_mut().zip(slots(program, cpu_types.cpu_type_of(0))) {
            *entry = slot.counter.index().into();
            count += 1;
        }
        let counters = list.get(..count).unwrap_or_default();
        self.processors.register_threads(counters).map_err(threads_refused)
    }
}

impl<H: Host> Service<H> {
    pub(super) fn start(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let (number, slot) = self.named(client, io)?;
        self.may_start(client, number, slot)?;
        let session = find(&mut self.sessions, client, number)?;
        let (process, program) = (session.process(), &session.program);
        may_count_by_thread(&self.cpu_types, self.missing, program)?;
        let mut reserved = Reserved::new(&mut self.processors, program)?;
        // The old rings go first, so that the rings of two runs are never allocated at once.
        if self.results_of == Some(slot) {
            reserved.processors.detach_rings();
            (self.results_of, self.ring_bytes, self.reading) = (None, 0, Reading::NONE);
        }
        let pages =
            Pages { processors: reserved.processors.count(), sources: program.settings.count };
        let reading = Reading::room(pages, H::counts)?;
        let bytes =
            reserved.attach_rings(program, process, &self.cpu_types, self.about.ring_bytes_max)?;
        // From here on the processors' totals are the new run's.
        (self.results_of, self.reading) = (None, Reading::NONE);
        session.ended = Ended::default();
        reserved.processors.load(program);
        reserved.self_test(program)?;
        reserved.register_threads(program, &self.cpu_types)?;
        let (by_thread, reserved) = (program.settings.by_thread, reserved.keep());
        (self.ring_bytes, self.reading) = (bytes, reading);
        let since = now(&mut self.processors);
        self.active_session = Some(ActiveSession { slot, since, reserved, by_thread });
        self.results_of = Some(slot);
        self.on_running(|local| local.start());
        io.reply(|header| header)
    }

    /// Refuses a session that may not start now.
    fn may_start(&mut self, client: Client, number: u32, slot: usize) -> Result<(), Refused> {
        if self.suspended {
            return Err(refused(ErrorCode::Suspended, number, 0));
        }
        if self.runs(slot) {
            return Err(refused(ErrorCode::Running, number, 0));
        }
        if find(&mut self.sessions, client, number)?.program.settings.count == 0 {
            return Err(refused(ErrorCode::NotConfigured, number, 0));
        }
        // Another session's samples are still in the rings, and would be lost.
        let undrained = self.results_of.filter(|&other| other != slot && self.ring_bytes != 0);
        let Some(active_session) =
            self.active_session.map(|active_session| active_session.slot).or(undrained)
        else {
            return Ok(());
        };
        let owner = self.sessions.get(active_session).and_then(Session::owner);
        let since = self.active_session.map(|active_session| active_session.since);
        let held = since.map_or(0, |since| now(&mut self.processors).saturating_sub(since));
        Err(refused(ErrorCode::Busy, owner.map_or(0, |owner| owner.process), held))
    }

    /// Attaches a ring to a processor that joins a sampling session; without one, its samples are
    /// counted as lost.
    pub(super) fn attach_ring(&mut self, index: usize) {
        let Some(session) = super::running(self.active_session, &self.sessions) else {
            return;
        };
        let settings = &session.program.settings;
        let words = words_for(settings.ring_samples, settings.branches);
        let bytes = (words * size_of::<u64>()) as u64;
        let room = self.ring_bytes + bytes <= self.about.ring_bytes_max;
        if settings.samples
            && room
            && self.processors.attach_rings(&ProcessorSet::one(index), words)
        {
            self.ring_bytes += bytes;
        }
    }

    pub(super) fn stop(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let (number, slot) = self.named(client, io)?;
        let ran = self.runs(slot);
        if ran {
            self.stop_counters();
        }
        find(&mut self.sessions, client, number)?.refuse_ended()?;
        if !ran {
            return Err(refused(ErrorCode::NotRunning, number, 0));
        }
        match self.counts(client, number, slot, 0, io) {
            // The session has stopped, whatever becomes of its counts.
            Err(Refused { error: ErrorCode::ReplyTooSmall | ErrorCode::NoMemory, .. }) => {
                io.reply(|header| header)
            }
            answer => answer,
        }
    }

    /// Ends the session's run if any processor has ended its part of it.
    pub(super) fn end_if_a_ring_has(&mut self, slot: usize) {
        let ended = (0..self.processors.count()).any(|index| {
            Ring::new(self.processors.ring(index)).is_some_and(|ring| ring.has_ended())
        });
        if ended && self.runs(slot) {
            self.stop_counters();
        }
    }

    /// Stops the counters on all processors in two rounds, so that pending interrupts arrive in
    /// between, and gives them back.
    pub(super) fn stop_counters(&mut self) {
        let Some(active_session) = self.active_session else {
            return;
        };
        // Windows stops adding up before any counter stops, so that no thread sees one jump.
        if active_session.by_thread {
            self.processors.unregister_threads();
        }
        let ended = AtomicU32::new(NONE);
        self.on_running(|local| local.halt());
        self.on_running(|local| {
            local.finish();
            if local.state.ended != 0 {
                ended.fetch_min(local.index as u32, Ordering::Relaxed);
            }
        });
        self.write_deferred();
        let index = ended.into_inner();
        let end = self.processors.run_on(index as usize, |local| {
            let state = &*local.state;
            (state.ended, state.register_value, state.saved.left)
        });
        if let (Some((error, register_value, left)), Some(session)) =
            (end, running_mut(self.active_session, &mut self.sessions))
        {
            let (subject, detail) = match ErrorCode::from_wire(error) {
                Some(ErrorCode::FixedCounterTaken) => (register_value as u32, index.into()),
                Some(ErrorCode::CountersLeft) => (left.register, left.counters),
                _ => (index, register_value),
            };
            session.ended = Ended { error, subject, detail };
        }
        self.end_events();
        self.active_session = None;
        if active_session.reserved {
            self.processors.release_counters();
        }
    }

    /// Discards what the session's last run left on the processors.
    pub(super) fn forget_results(&mut self, slot: usize) {
        if self.results_of == Some(slot) {
            self.results_of = None;
            self.detach_rings();
        }
    }

    fn detach_rings(&mut self) {
        self.processors.detach_rings();
        (self.ring_bytes, self.reading) = (0, Reading::NONE);
    }
}
