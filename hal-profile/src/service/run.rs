//! A session's run: reserves and proves the counters, and starts and stops them.

use super::exchange::{Answer, Exchange, Refused, refused};
use super::{Holder, Host, Service};
use crate::plan::cpu_set::ProcessorSet;
use crate::run::host::{Overflows, Processors, Unreserved};
use crate::run::ring::{Ring, words_for};
use crate::run::self_test;
use crate::run::state::Proof;
use crate::service::session::{Client, Ended, Session};
use core::mem::size_of;
use core::sync::atomic::{AtomicU32, Ordering};
use shared_types::{ErrorCode, ReplyHeader};

/// The index that means no processor.
const NONE: u32 = u32::MAX;

impl<H: Host> Service<H> {
    pub(super) fn start(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let number = exchange.session()?;
        let slot = self.slot(client, number)?;
        self.may_start(slot, number)?;
        self.may_count_by_thread(slot)?;
        let reserved = self.reserve(slot)?;
        self.forget_results(slot);
        let ready = self
            .begin_events(slot)
            .and_then(|()| self.make_ready(slot, reserved))
            .and_then(|()| self.register_threads(slot));
        if let Err(refused) = ready {
            self.return_rings();
            if reserved {
                self.processors.release_counters();
            }
            return Err(refused);
        }
        let since = self.now();
        self.holder =
            Some(Holder { slot, since, reserved, by_thread: self.counts_by_thread(slot) });
        self.results_of = Some(slot);
        self.on_running(|local| {
            local.start();
        });
        exchange.reply(&ReplyHeader::done(size_of::<ReplyHeader>()))
    }

    fn counts_by_thread(&self, slot: usize) -> bool {
        let session = self.sessions.get(slot);
        session.is_some_and(|session| session.program.settings.by_thread)
    }

    /// Reserves the counters if the session takes any; returns whether it does.
    fn reserve(&mut self, slot: usize) -> Result<bool, Refused> {
        let Some(session) = self.sessions.get(slot) else {
            return Ok(false);
        };
        if session.program.rotations() == 0 {
            return Ok(false);
        }
        let overflows = if session.program.settings.samples {
            Overflows::Interrupt
        } else {
            Overflows::Ignored
        };
        self.processors.reserve_counters(overflows).map_err(|unreserved| match unreserved {
            Unreserved::Counters(status) => refused(ErrorCode::CountersReserved, 0, status.into()),
            Unreserved::Interrupt(status) => refused(ErrorCode::InterruptTaken, 0, status.into()),
            Unreserved::Handler(status) => refused(ErrorCode::HandlerStuck, 0, status.into()),
            Unreserved::Threads(status) => refused(ErrorCode::ThreadsKept, 0, status.into()),
        })?;
        Ok(true)
    }

    /// Lends the rings, loads the program onto every processor, and proves that its counters count.
    fn make_ready(&mut self, slot: usize, reserved: bool) -> Result<(), Refused> {
        self.lend_rings(slot)?;
        let Some(session) = self.sessions.get_mut(slot) else {
            return Ok(());
        };
        session.ended = Ended::default();
        self.results_of = None;
        self.processors.load(&session.program);
        let wanted = session.program.settings.processors;
        if reserved { self.prove(&wanted) } else { Ok(()) }
    }

    fn prove(&mut self, wanted: &ProcessorSet) -> Result<(), Refused> {
        let failed = AtomicU32::new(NONE);
        for (attempt, instructions) in self_test::TRIES.into_iter().enumerate() {
            failed.store(NONE, Ordering::Relaxed);
            self.processors.exercise(
                wanted,
                instructions,
                |local| local.begin_proof(attempt == 0),
                |local| {
                    if !local.end_proof() {
                        failed.fetch_min(local.index as u32, Ordering::Relaxed);
                    }
                },
            );
            if failed.load(Ordering::Relaxed) == NONE {
                return Ok(());
            }
        }
        self.processors.run_on_each::<()>(wanted, &mut [], |local, _| local.abandon_proof());
        let index = failed.into_inner();
        let found = self.processors.run_on(index as usize, |local| {
            (local.state.proof, local.state.evidence, local.taken_source())
        });
        let (proof, evidence, source) = found.unwrap_or((Proof::CountersDead, 0, 0));
        Err(match proof {
            Proof::InterruptsDead => refused(ErrorCode::InterruptsDead, index, evidence),
            Proof::Storm => refused(ErrorCode::InterruptStorm, index, evidence),
            Proof::BranchesTaken => refused(ErrorCode::BranchesTaken, index, evidence),
            Proof::FixedTaken => refused(ErrorCode::FixedCounterTaken, source, index.into()),
            _ => refused(ErrorCode::CountersDead, index, 0),
        })
    }

    fn may_start(&mut self, slot: usize, number: u32) -> Result<(), Refused> {
        if self.suspended {
            return Err(refused(ErrorCode::Suspended, number, 0));
        }
        if self.runs(slot) {
            return Err(refused(ErrorCode::Running, number, 0));
        }
        let session = self.sessions.get(slot);
        if session.is_none_or(|session| session.program.settings.count == 0) {
            return Err(refused(ErrorCode::NotConfigured, number, 0));
        }
        let undrained = self.results_of.filter(|&other| other != slot && self.ring_bytes != 0);
        let Some(holder) = self.holder.map(|holder| holder.slot).or(undrained) else {
            return Ok(());
        };
        let owner = self.sessions.get(holder).and_then(Session::owner);
        let since = self.holder.map(|holder| holder.since);
        let held = since.map_or(0, |since| self.now().wrapping_sub(since));
        Err(refused(ErrorCode::Busy, owner.map_or(0, |owner| owner.process), held))
    }

    fn lend_rings(&mut self, slot: usize) -> Result<(), Refused> {
        let Some(session) = self.sessions.get(slot) else {
            return Ok(());
        };
        let settings = &session.program.settings;
        if !settings.samples {
            return Ok(());
        }
        let words = words_for(settings.ring_samples, settings.branches);
        let rings = (0..self.kinds.processors())
            .filter(|&index| settings.processors.contains(index))
            .count();
        let bytes = (words * size_of::<u64>() * rings) as u64;
        // Processors may have been added since the size of the rings was chosen.
        let within = self.ring_bytes + bytes <= self.about.ring_bytes_max;
        if !within || !self.processors.lend_rings(&settings.processors, words) {
            return Err(refused(ErrorCode::NoMemory, 0, bytes));
        }
        self.ring_bytes += bytes;
        Ok(())
    }

    /// Lends a ring to a processor that joins a sampling session; without one, its samples are
    /// counted as lost.
    pub(super) fn lend_ring_to_added(&mut self, index: usize) {
        let Some(session) = super::running(self.holder, &self.sessions) else {
            return;
        };
        let settings = &session.program.settings;
        let words = words_for(settings.ring_samples, settings.branches);
        let bytes = (words * size_of::<u64>()) as u64;
        let room = self.ring_bytes + bytes <= self.about.ring_bytes_max;
        if settings.samples && room && self.processors.lend_rings(&ProcessorSet::one(index), words)
        {
            self.ring_bytes += bytes;
        }
    }

    pub(super) fn stop(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let number = exchange.session()?;
        let slot = self.slot(client, number)?;
        let ran = self.runs(slot);
        if ran {
            self.stop_counters();
        }
        self.refuse_ended(slot)?;
        if !ran {
            return Err(refused(ErrorCode::NotRunning, number, 0));
        }
        match self.counts(slot, exchange) {
            Err(Refused { error: ErrorCode::ReplyTooSmall, .. }) => {
                exchange.reply(&ReplyHeader::done(size_of::<ReplyHeader>()))
            }
            answer => answer,
        }
    }

    /// Refuses the request if the driver ended the session's last run, and says why it did.
    pub(super) fn refuse_ended(&self, slot: usize) -> Result<(), Refused> {
        let ended = self.sessions.get(slot).map(|session| session.ended);
        match ended.and_then(|ended| Some((ErrorCode::from_wire(ended.error)?, ended))) {
            Some((error, ended)) => Err(refused(error, ended.subject, ended.detail)),
            None => Ok(()),
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
        let Some(holder) = self.holder else {
            return;
        };
        // Done before any counter stops, so that no thread sees one jump.
        if holder.by_thread {
            self.processors.unregister_threads();
        }
        let ended = AtomicU32::new(NONE);
        self.on_running(|local| {
            local.halt();
        });
        self.on_running(|local| {
            local.finish();
            if local.state.ended != 0 {
                ended.fetch_min(local.index as u32, Ordering::Relaxed);
            }
        });
        self.write_notes(holder.slot);
        self.holder = None;
        let index = ended.into_inner();
        let found = self
            .processors
            .run_on(index as usize, |local| (local.state.ended, local.state.evidence));
        if let (Some((error, evidence)), Some(session)) =
            (found, self.sessions.get_mut(holder.slot))
        {
            let taken = error == ErrorCode::FixedCounterTaken as u32;
            let (subject, detail) =
                if taken { (evidence as u32, index.into()) } else { (index, evidence) };
            session.ended = Ended { error, subject, detail };
        }
        self.end_events(holder.slot);
        if holder.reserved {
            self.processors.release_counters();
        }
    }

    /// Discards what the session's last run left on the processors.
    pub(super) fn forget_results(&mut self, slot: usize) {
        if self.results_of == Some(slot) {
            self.results_of = None;
            self.return_rings();
        }
    }

    fn return_rings(&mut self) {
        self.processors.return_rings();
        self.ring_bytes = 0;
    }
}
