//! Sessions: opened, configured, started, stopped, closed.

use super::exchange::{Answer, Exchange, Refused, must_be_zero, refused};
use super::preparation::{rotation, turns};
use super::{Holder, Service, running};
use crate::machine::{Overflows, ProcessorSet, Processors, Unreserved};
use crate::ring::words_for;
use crate::session::{Client, Session};
use core::mem::{offset_of, size_of, swap};
use core::ops::DerefMut;
use core::sync::atomic::{AtomicU32, Ordering};
use shared_types::hal::HalProfileSourceInterval64;
use shared_types::request::Plain;
use shared_types::request::session::{
    Configure, Configured, IntervalSet, KERNEL, NO_ADDRESS, Opened, SAMPLE, SetInterval,
    UsedInterval,
};
use shared_types::request::source::APPROXIMATE;
use shared_types::{ErrorCode, ReplyHeader};

/// Where the padding of a SET_INTERVAL request is.
const PADDING: usize =
    offset_of!(SetInterval, interval) + offset_of!(HalProfileSourceInterval64, padding);
/// A session's number: its place in the low bits, how often the place was used above.
const PLACE_BITS: u32 = 8;

impl<P: Processors, S: DerefMut<Target = [Session]>> Service<P, S> {
    pub(super) fn open(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let flags = exchange
            .request::<Plain>(KERNEL | APPROXIMATE)?
            .header
            .flags;
        exchange.need(size_of::<Opened>())?;
        let places = self.sessions.len().min(1 << PLACE_BITS);
        let free = (1..places).find(|&place| {
            self.sessions
                .get(place)
                .is_some_and(|session| session.owner.is_none())
        });
        let Some((place, session)) =
            free.and_then(|place| Some((place, self.sessions.get_mut(place)?)))
        else {
            let most = places.saturating_sub(1) as u64;
            return Err(refused(ErrorCode::TooManySessions, 0, most));
        };
        session.owner = Some(client);
        session.uses = session.uses.wrapping_add(1);
        session.kernel = flags & KERNEL != 0;
        session.approximate = flags & APPROXIMATE != 0;
        session.program.configuration.count = 0;
        exchange.reply(&Opened {
            header: ReplyHeader::done(size_of::<Opened>()),
            session: self.number(place),
            reserved: 0,
        })
    }

    pub(super) fn number(&self, place: usize) -> u32 {
        let uses = self.sessions.get(place).map_or(0, |session| session.uses);
        uses << PLACE_BITS | place as u32
    }

    /// The place of a session that belongs to this handle.
    pub(super) fn place(&self, client: Client, number: u32) -> Result<usize, Refused> {
        let place = (number & ((1 << PLACE_BITS) - 1)) as usize;
        let session = self.sessions.get(place).filter(|_| place != 0);
        let is_its = session
            .and_then(|session| session.owner)
            .is_some_and(|owner| owner.handle == client.handle);
        if is_its && self.number(place) == number {
            Ok(place)
        } else {
            Err(refused(ErrorCode::UnknownSession, number, 0))
        }
    }

    pub(super) fn runs(&self, place: usize) -> bool {
        self.holder.is_some_and(|holder| holder.place == place)
    }

    pub(super) fn configure(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let request = exchange.head::<Configure>(SAMPLE | NO_ADDRESS)?;
        let place = self.place(client, request.session)?;
        if self.runs(place) {
            return Err(refused(ErrorCode::Running, request.session, 0));
        }
        let sources = request.sources as usize;
        let length = size_of::<Configured>() + sources * size_of::<UsedInterval>();
        let session = self.sessions.get(place);
        let (approximate, kernel) = session.map_or((false, false), |session| {
            (session.approximate, session.kernel)
        });
        self.prepare(exchange, &request, approximate, kernel)?;
        exchange.need(length)?;
        self.forget_results(place);
        let Some((scratch, sessions)) = self.sessions.split_first_mut() else {
            return Err(refused(ErrorCode::NoMemory, 0, 0));
        };
        let Some(session) = sessions.get_mut(place - 1) else {
            return Err(refused(ErrorCode::UnknownSession, request.session, 0));
        };
        scratch.program.configuration.no_address = request.header.flags & NO_ADDRESS != 0;
        swap(&mut scratch.program, &mut session.program);
        exchange.put(
            0,
            &Configured {
                header: ReplyHeader::done(length),
                turns: turns(&session.program.plans).into(),
                sources: request.sources,
                rotation: rotation(request.rotation),
                ring_samples: session.program.configuration.ring_samples,
            },
        );
        for (index, source) in session.program.configuration.sources().iter().enumerate() {
            let at = size_of::<Configured>() + index * size_of::<UsedInterval>();
            exchange.put(at, &source.interval);
        }
        Ok(length)
    }

    pub(super) fn set_interval(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let request = exchange.request::<SetInterval>(0)?;
        must_be_zero(offset_of!(SetInterval, reserved) as u32, request.reserved)?;
        must_be_zero(PADDING as u32, request.interval.padding)?;
        let place = self.place(client, request.session)?;
        if self.runs(place) {
            return Err(refused(ErrorCode::Running, request.session, 0));
        }
        exchange.need(size_of::<IntervalSet>())?;
        let id = request.interval.source.cast_unsigned();
        let resolution = self.processors.timer_resolution();
        let interval = self
            .sessions
            .get_mut(place)
            .and_then(|session| {
                session.program.configuration.set_interval(
                    id,
                    request.interval.interval,
                    resolution,
                )
            })
            .ok_or(refused(ErrorCode::SourceNotInSession, id, 0))?;
        let header = ReplyHeader::done(size_of::<IntervalSet>());
        exchange.reply(&IntervalSet { header, interval })
    }

    pub(super) fn start(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let number = exchange.session()?;
        let place = self.place(client, number)?;
        self.may_start(place, number)?;
        let reserved = self.reserve(place)?;
        self.forget_results(place);
        if let Err(refused) = self.make_ready(place, reserved) {
            self.return_rings();
            if reserved {
                self.processors.release_counters();
            }
            return Err(refused);
        }
        let since = self.now();
        self.holder = Some(Holder {
            place,
            since,
            reserved,
        });
        self.results_of = Some(place);
        if let Some(session) = running(self.holder, &self.sessions) {
            let wanted = &session.program.configuration.processors;
            self.processors.load(&session.program);
            self.processors
                .run_on_each::<()>(wanted, &mut [], |local, _| local.start());
        }
        exchange.reply(&ReplyHeader::done(size_of::<ReplyHeader>()))
    }

    /// Reserves the counters if the session takes any; answers whether it does.
    fn reserve(&mut self, place: usize) -> Result<bool, Refused> {
        let Some(session) = self.sessions.get(place) else {
            return Ok(false);
        };
        if turns(&session.program.plans) == 0 {
            return Ok(false);
        }
        let configuration = &session.program.configuration;
        let overflows = match (configuration.samples, configuration.no_address) {
            (false, _) => Overflows::Ignored,
            (true, false) => Overflows::Interrupt,
            (true, true) => Overflows::Callback {
                general: self.kinds.general(),
            },
        };
        self.processors
            .reserve_counters(overflows)
            .map_err(|unreserved| match unreserved {
                Unreserved::Counters(status) => {
                    refused(ErrorCode::CountersReserved, 0, status.into())
                }
                Unreserved::Interrupt(status) => {
                    refused(ErrorCode::InterruptTaken, 0, status.into())
                }
            })?;
        Ok(true)
    }

    fn make_ready(&mut self, place: usize, reserved: bool) -> Result<(), Refused> {
        self.lend_rings(place)?;
        let dead = reserved.then(|| self.dead_processor(place)).flatten();
        dead.map_or(Ok(()), |index| {
            Err(refused(ErrorCode::CountersDead, index, 0))
        })
    }

    /// The first of a session's processors whose counters do not count though they were given:
    /// that is what a guest without a PMU sees.
    fn dead_processor(&mut self, place: usize) -> Option<u32> {
        let session = self.sessions.get(place)?;
        let dead = AtomicU32::new(u32::MAX);
        let wanted = &session.program.configuration.processors;
        self.processors
            .run_on_each::<()>(wanted, &mut [], |local, _| {
                if !local.counts() {
                    dead.fetch_min(local.index as u32, Ordering::Relaxed);
                }
            });
        Some(dead.into_inner()).filter(|&index| index != u32::MAX)
    }

    fn may_start(&mut self, place: usize, number: u32) -> Result<(), Refused> {
        if self.suspended {
            return Err(refused(ErrorCode::Suspended, number, 0));
        }
        if self.runs(place) {
            return Err(refused(ErrorCode::Running, number, 0));
        }
        let configured = self
            .sessions
            .get(place)
            .is_some_and(|session| session.program.configuration.count > 0);
        if !configured {
            return Err(refused(ErrorCode::NotConfigured, number, 0));
        }
        let undrained = self
            .results_of
            .filter(|&other| other != place && self.ring_bytes != 0);
        let Some(holder) = self.holder.map(|holder| holder.place).or(undrained) else {
            return Ok(());
        };
        let owner = self.sessions.get(holder).and_then(|session| session.owner);
        let since = self.holder.map(|holder| holder.since);
        let held = since.map_or(0, |since| self.now().wrapping_sub(since));
        Err(refused(
            ErrorCode::Busy,
            owner.map_or(0, |owner| owner.process),
            held,
        ))
    }

    fn lend_rings(&mut self, place: usize) -> Result<(), Refused> {
        let Some(session) = self.sessions.get(place) else {
            return Ok(());
        };
        let configuration = &session.program.configuration;
        if !configuration.samples {
            return Ok(());
        }
        let words = words_for(configuration.ring_samples);
        let rings = (0..self.kinds.processors)
            .filter(|&index| configuration.processors.contains(index))
            .count();
        let bytes = (words * size_of::<u64>() * rings) as u64;
        // Processors may have been added since the rings' length was chosen.
        let within = bytes <= self.about.ring_bytes_max;
        if !within || !self.processors.lend_rings(&configuration.processors, words) {
            return Err(refused(ErrorCode::NoMemory, 0, bytes));
        }
        self.ring_bytes = bytes;
        Ok(())
    }

    /// A ring for a processor that joins a session which samples; without one its samples are told
    /// as lost.
    pub(super) fn lend_ring_to_added(&mut self, index: usize) {
        let Some(session) = running(self.holder, &self.sessions) else {
            return;
        };
        let words = words_for(session.program.configuration.ring_samples);
        let bytes = (words * size_of::<u64>()) as u64;
        let room = self.ring_bytes + bytes <= self.about.ring_bytes_max;
        if session.program.configuration.samples
            && room
            && self.processors.lend_rings(&ProcessorSet::one(index), words)
        {
            self.ring_bytes += bytes;
        }
    }

    pub(super) fn stop(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let number = exchange.session()?;
        let place = self.place(client, number)?;
        if !self.runs(place) {
            return Err(refused(ErrorCode::NotRunning, number, 0));
        }
        self.stop_counters();
        match self.counts(place, exchange) {
            Err(Refused {
                error: ErrorCode::ReplyTooSmall,
                ..
            }) => exchange.reply(&ReplyHeader::done(size_of::<ReplyHeader>())),
            answer => answer,
        }
    }

    fn stop_counters(&mut self) {
        if let Some(session) = running(self.holder, &self.sessions) {
            let wanted = &session.program.configuration.processors;
            self.processors
                .run_on_each::<()>(wanted, &mut [], |local, _| local.stop());
        }
        if self.holder.take().is_some_and(|holder| holder.reserved) {
            self.processors.release_counters();
        }
    }

    pub(super) fn close(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let number = exchange.session()?;
        let place = self.place(client, number)?;
        self.end_session(place);
        exchange.reply(&ReplyHeader::done(size_of::<ReplyHeader>()))
    }

    pub(super) fn end_session(&mut self, place: usize) {
        if self.runs(place) {
            self.stop_counters();
        }
        self.forget_results(place);
        if let Some(session) = self.sessions.get_mut(place) {
            session.owner = None;
            session.program.configuration.count = 0;
        }
    }

    /// What the session's last run left on the processors is not wanted any more.
    fn forget_results(&mut self, place: usize) {
        if self.results_of == Some(place) {
            self.results_of = None;
            self.return_rings();
        }
    }

    fn return_rings(&mut self) {
        self.processors.return_rings();
        self.ring_bytes = 0;
    }
}
