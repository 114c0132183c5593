//! System events of the running session, recorded from its start to its end; answers DRAIN_EVENTS.

use super::io_buffer::{Answer, IoBuffer, refused};
use super::session::find;
use super::{Host, Service, now, running};
use crate::run::event_ring::{EventRing, WORDS, event};
use crate::run::host::Processors;
use crate::service::session::{Client, Session};
use core::sync::atomic::{AtomicBool, Ordering};
use shared_types::request::events::{DrainedEvents, EVENTS_BYTES_MAX};
use shared_types::{ErrorCode, EventKind, SystemEvent};

/// Memory that the ring takes.
pub(super) const RING_BYTES: u64 = (WORDS * size_of::<u64>()) as u64;

impl<H: Host> Service<H> {
    /// Stops recording events; those in the ring can still be drained.
    pub(super) fn end_events(&mut self) {
        let Some(session) = self.records_events() else {
            return;
        };
        let (process, subject) = (session.process(), session.ended.error);
        let now = now(&mut self.processors);
        let stopped = SystemEvent { process, subject, ..event(EventKind::SessionStopped, now) };
        self.processors.put_event(&stopped);
    }

    /// The running session, if it records events.
    fn records_events(&self) -> Option<&Session> {
        let session = running(self.active_session, &self.sessions)?;
        session.program.settings.events.then_some(session)
    }

    /// Writes an event of the machine, if the running session records events.
    pub(super) fn happened(&mut self, kind: EventKind, subject: usize) {
        if self.records_events().is_some() {
            let now = now(&mut self.processors);
            let happened = SystemEvent { subject: subject as u32, ..event(kind, now) };
            self.processors.put_event(&happened);
        }
    }

    /// Writes the notes of interrupts that no tick has written yet. The session is still running,
    /// but its counters have stopped.
    pub(super) fn write_deferred(&mut self) {
        if self.records_events().is_none() {
            return;
        }
        // One round asks all processors; each is visited in turn only if one of them has notes.
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
        let (number, _) = self.named_with_results(client, io)?;
        let none = refused(ErrorCode::NoEvents, number, 0);
        let head = size_of::<DrainedEvents>();
        if !find(&mut self.sessions, client, number)?.program.settings.events {
            return Err(none);
        }
        io.need(head + size_of::<SystemEvent>())?;
        let ring = EventRing::new(self.processors.event_ring()).ok_or(none)?;
        let room = io.output().min(EVENTS_BYTES_MAX);
        let out = io.tail(head).get_mut(..room - head);
        let drained = ring.drain(out.unwrap_or_default());
        let (left, lost) = (ring.len(), ring.take_lost());
        io.finish(head + drained, |header| DrainedEvents {
            header,
            count: (drained / size_of::<SystemEvent>()) as u32,
            reserved: 0,
            left,
            lost,
        })
    }
}
