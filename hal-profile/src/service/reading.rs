//! Counts and samples, read.

use super::Service;
use super::exchange::{Answer, Exchange, Refused, refused};
use crate::machine::Processors;
use crate::ring::Ring;
use crate::session::{Client, Session};
use crate::statistics::SampleStatistics;
use core::mem::size_of;
use core::ops::DerefMut;
use shared_types::request::counts::{Count, Snapshot};
use shared_types::request::samples::{DRAIN_BYTES_MAX, Drained, Statistics};
use shared_types::{ErrorCode, ReplyHeader, Sample};

impl<P: Processors, S: DerefMut<Target = [Session]>> Service<P, S> {
    pub(super) fn snapshot(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let number = exchange.session()?;
        let place = self.place_with_results(client, number)?;
        self.counts(place, exchange)
    }

    /// The place of a session whose last run's results are still there.
    fn place_with_results(&self, client: Client, number: u32) -> Result<usize, Refused> {
        let place = self.place(client, number)?;
        if self.results_of == Some(place) {
            Ok(place)
        } else {
            Err(refused(ErrorCode::NotRunning, number, 0))
        }
    }

    /// One pass over all processors; each writes its own part of the reply.
    pub(super) fn counts(&mut self, place: usize, exchange: &mut Exchange<'_>) -> Answer {
        let Some(session) = self.sessions.get(place) else {
            return Err(refused(ErrorCode::UnknownSession, 0, 0));
        };
        let configuration = &session.program.configuration;
        let (processors, sources) = (self.processors.count(), configuration.count());
        let rows = processors * sources * size_of::<Count>();
        let head = size_of::<Snapshot>();
        let length = head + rows;
        exchange.need(length)?;
        let part = exchange.tail(head).get_mut(..rows).unwrap_or_default();
        part.fill(0);
        self.processors
            .run_on_each(&configuration.processors, part, |local, out| {
                local.snapshot(out);
            });
        exchange.put(
            0,
            &Snapshot {
                header: ReplyHeader::done(length),
                processors: processors as u32,
                sources: sources as u32,
            },
        );
        Ok(length)
    }

    pub(super) fn drain(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let number = exchange.session()?;
        let place = self.place_with_results(client, number)?;
        self.must_sample(place, number)?;
        let head = size_of::<Drained>();
        exchange.need(head + size_of::<Sample>())?;
        let room = exchange.output().min(DRAIN_BYTES_MAX) - head;
        let (mut taken, mut left) = (0, 0);
        for index in 0..self.processors.count() {
            let Some(ring) = Ring::new(self.processors.ring(index)) else {
                continue;
            };
            let place = exchange.tail(head).get_mut(taken..room).unwrap_or_default();
            taken += ring.drain(place);
            left += ring.len();
        }
        let length = head + taken;
        exchange.put(
            0,
            &Drained {
                header: ReplyHeader::done(length),
                count: (taken / size_of::<Sample>()) as u32,
                ended: 0,
                left,
            },
        );
        Ok(length)
    }

    fn must_sample(&self, place: usize, number: u32) -> Result<(), Refused> {
        let samples = self
            .sessions
            .get(place)
            .is_some_and(|session| session.program.configuration.samples);
        if samples {
            Ok(())
        } else {
            Err(refused(ErrorCode::NotSampling, number, 0))
        }
    }

    pub(super) fn statistics(&mut self, client: Client, exchange: &mut Exchange<'_>) -> Answer {
        let number = exchange.session()?;
        let place = self.place_with_results(client, number)?;
        self.must_sample(place, number)?;
        let mut all = Statistics {
            header: ReplyHeader::done(size_of::<Statistics>()),
            ..Statistics::default()
        };
        let Some(session) = self.sessions.get(place) else {
            return Err(refused(ErrorCode::UnknownSession, number, 0));
        };
        let configuration = &session.program.configuration;
        for index in 0..self.processors.count() {
            if configuration.processors.contains(index) {
                let count = configuration.count();
                let one = self.processors.run_on(index, |local| {
                    (*local.state.statistics(), local.state.longest_period(count))
                });
                if let Some((statistics, period)) = one {
                    add(&mut all, &statistics);
                    all.longest_period = all.longest_period.max(period);
                }
            }
        }
        exchange.reply(&all)
    }
}

fn add(all: &mut Statistics, one: &SampleStatistics) {
    all.generated += one.generated;
    all.stored += one.stored;
    for (sum, lost) in all.lost.iter_mut().zip(one.lost) {
        *sum += lost;
    }
    all.spurious += one.spurious;
    all.throttled += one.throttled;
    all.handler_ticks += one.handler_ticks;
}
