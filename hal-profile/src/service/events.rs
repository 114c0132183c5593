//! System events of the running session, recorded from its start to its end; answers DRAIN_EVENTS.

use super::io_buffer::{Answer, IoBuffer, refused};
use super::{Host, Service};
use crate::run::event_ring::{EventRing, WORDS, event};
use crate::run::host::Processors;
use crate::service::session::{Client, Session};
use core::mem::size_of;
use core::sync::atomic::{AtomicBool, Ordering};
use shared_types::request::events::{DrainedEvents, EVENTS_BYTES_MAX};
use shared_types::{ErrorCode, EventKind, ReplyHeader, SystemEvent};

/// Memory that the ring takes.
pub(super) const RING_BYTES: u64 = (WORDS * size_of::<u64>()) as u64;

impl<H: Host> Service<H> {
    /// Stops recording events; those in the ring can still be drained.
    pub(super) fn end_events(&mut self, slot: usize) {
        if !self.records_events(slot) {
            return;
        }
        let session = self.sessions.get(slot);
        let process = session.map_or(0, Session::process);
        let subject = session.map_or(0, |session| session.ended.error);
        let stopped =
            SystemEvent { process, subject, ..event(EventKind::SessionStopped, self.now()) };
        self.processors.put_event(&stopped);
    }

    fn records_events(&self, slot: usize) -> bool {
        let session = self.sessions.get(slot);
        session.is_some_and(|session| session.program.settings.events)
    }

    /// Writes an event of the machine, if the running session records events.
    pub(super) fn happened(&mut self, kind: EventKind, subject: usize) {
        let active_session = self.active_session.map(|active_session| active_session.slot);
        if active_session.is_some_and(|slot| self.records_events(slot)) {
            let happened = SystemEvent { subject: subject as u32, ..event(kind, self.now()) };
            self.processors.put_event(&happened);
        }
    }

    /// Writes the notes of interrupts that no tick has written yet. The session is still running,
    /// but its counters have stopped.
    pub(super) fn write_deferred(&mut self, slot: usize) {
        if !self.records_events(slot) {
            return;
        }
        let any = AtomicBool::new(false);
        self.on_running(|local| {
            any.fetch_or(!local.state.statistics.deferred.is_empty(), Ordering::Relaxed);
        });
        if !any.into_inner() {
            return;
        }
        for index in 0..self.processors.count() {
            let deferred = self
                .processors
                .run_on(index, |local| core::mem::take(&mut local.state.statistics.deferred));
            for event in deferred.iter().flat_map(|deferred| deferred.events(index)) {
                self.processors.put_event(&event);
            }
        }
    }

    pub(super) fn drain_events(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let number = io.session()?;
        let slot = self.slot_with_results(client, number)?;
        let none = refused(ErrorCode::NoEvents, number, 0);
        let head = size_of::<DrainedEvents>();
        if !self.records_events(slot) {
            return Err(none);
        }
        io.need(head + size_of::<SystemEvent>())?;
        let ring = EventRing::new(self.processors.event_ring()).ok_or(none)?;
        let room = io.output().min(EVENTS_BYTES_MAX);
        let out = io.tail(head).get_mut(..room - head);
        let drained = ring.drain(out.unwrap_or_default());
        let length = head + drained;
        let drained = DrainedEvents {
            header: ReplyHeader::done(length),
            count: (drained / size_of::<SystemEvent>()) as u32,
            reserved: 0,
            left: ring.len(),
            lost: ring.take_lost(),
        };
        io.put(0, &drained);
        Ok(length)
    }
}
