//! Answers OPEN, CONFIGURE, SET_INTERVAL and CLOSE.

use super::by_thread;
use super::io_buffer::{Answer, IoBuffer, Refused, must_be_zero, refused};
use super::{Host, Service, session};
use crate::run::host::Processors;
use crate::service::session::{Client, Ended, Rights, SLOT_BITS, find, number};
use core::mem::offset_of;
use shared_types::ErrorCode;
use shared_types::hal::HalProfileSourceInterval;
use shared_types::request::Plain;
use shared_types::request::session::{
    Configure, Configured, EVENTS, IntervalSet, KERNEL, Opened, SAMPLE, SetInterval, THREADS,
    UsedInterval,
};
use shared_types::request::source::APPROXIMATE;
use zerocopy::IntoBytes;

/// Offset of the padding in a SET_INTERVAL request.
const PADDING: usize =
    offset_of!(SetInterval, interval) + offset_of!(HalProfileSourceInterval, padding);

impl<H: Host> Service<H> {
    pub(super) fn open(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let flags = io.request::<Plain>(KERNEL | APPROXIMATE)?.header.flags;
        io.need(size_of::<Opened>())?;
        let most = self.sessions.len().min((1 << SLOT_BITS) - 1);
        let sessions = self.sessions.iter_mut().take(most);
        let free = sessions.enumerate().find(|(_, session)| !session.owned);
        let full = refused(ErrorCode::TooManySessions, 0, most as u64);
        let (slot, session) = free.ok_or(full)?;
        session.open(client, flags & KERNEL != 0, flags & APPROXIMATE != 0);
        let session = number(session, slot);
        io.reply(|header| Opened { header, session, reserved: 0 })
    }

    /// A session's number; 0 if there is none.
    pub(super) fn number(&self, slot: usize) -> u32 {
        self.sessions.get(slot).map_or(0, |session| number(session, slot))
    }

    /// The number and the slot of the session of a request that has no other fields.
    pub(super) fn named(&self, client: Client, io: &IoBuffer<'_>) -> Result<(u32, usize), Refused> {
        let number = io.session()?;
        Ok((number, self.slot(client, number)?))
    }

    /// The slot of a session that belongs to this handle.
    pub(super) fn slot(&self, client: Client, number: u32) -> Result<usize, Refused> {
        session::slot(&self.sessions, client, number)
    }

    pub(super) fn runs(&self, slot: usize) -> bool {
        self.active_session.is_some_and(|active_session| active_session.slot == slot)
    }

    pub(super) fn configure(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let request = io.head::<Configure>(SAMPLE | THREADS | EVENTS)?;
        let slot = self.slot(client, request.session)?;
        if self.runs(slot) {
            return Err(refused(ErrorCode::Running, request.session, 0));
        }
        let sources = request.sources as usize;
        let length = size_of::<Configured>() + sources * size_of::<UsedInterval>();
        let session = find(&mut self.sessions, client, request.session)?;
        let rights = Rights {
            approximate: session.approximate,
            kernel: session.kernel,
            kernel_addresses: client.kernel_addresses,
        };
        self.prepare(io, &request, rights)?;
        if self.scratch.program.settings.by_thread {
            by_thread::check_program(&self.cpu_types, &self.scratch.program)?;
        }
        // The room is checked before anything changes: a request that is refused leaves the session
        // as it was.
        io.need(length)?;
        self.forget_results(slot);
        let session = find(&mut self.sessions, client, request.session)?;
        session.ended = Ended::default();
        session.program.copy_from(&self.scratch.program);
        let program = &session.program;
        let (intervals, _) =
            io.tail(size_of::<Configured>()).as_chunks_mut::<{ size_of::<UsedInterval>() }>();
        for (interval, source) in intervals.iter_mut().zip(program.sources()) {
            interval.copy_from_slice(source.interval.as_bytes());
        }
        io.finish(length, |header| Configured {
            header,
            slices: program.slices().into(),
            sources: request.sources,
            slice_100ns: program.settings.slice,
            ring_samples: program.settings.ring_samples,
        })
    }

    pub(super) fn set_interval(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let request = io.request::<SetInterval>(0)?;
        must_be_zero(offset_of!(SetInterval, reserved) as u32, request.reserved)?;
        must_be_zero(PADDING as u32, request.interval.padding)?;
        let slot = self.slot(client, request.session)?;
        if self.runs(slot) {
            return Err(refused(ErrorCode::Running, request.session, 0));
        }
        io.need(size_of::<IntervalSet>())?;
        let id = request.interval.source.cast_unsigned();
        let requested = request.interval.interval;
        let resolution = self.processors.timer_resolution();
        let session = find(&mut self.sessions, client, request.session)?;
        let interval = session.program.set_interval(id, requested, resolution).ok_or(refused(
            ErrorCode::SourceNotInSession,
            id,
            0,
        ))?;
        io.reply(|header| IntervalSet { header, interval })
    }

    pub(super) fn close(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let (_, slot) = self.named(client, io)?;
        self.end_session(slot);
        io.reply(|header| header)
    }

    pub(super) fn end_session(&mut self, slot: usize) {
        if self.runs(slot) {
            self.stop_counters();
        }
        self.forget_results(slot);
        self.let_go_of_rdpmc(slot);
        if let Some(session) = self.sessions.get_mut(slot) {
            session.close();
        }
    }
}
