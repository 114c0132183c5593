//! Answers ENUMERATE, QUERY and PLAN.

use super::describe::flags;
use super::io_buffer::{Answer, IoBuffer, must_be_zero, refused};
use super::requirements::sampled_time;
use super::session::find;
use super::{Host, Service};
use crate::cpu::capabilities::Capabilities;
use crate::plan::counter_config::{CountedBy, CounterConfig};
use crate::service::session::{Client, Rights};
use crate::source::catalog;
use crate::source::{Fit, Row, limits};
use core::mem::offset_of;
use shared_types::hal::HalProfileSourceInformation;
use shared_types::request::session::{Configure, EVENTS, SAMPLE, THREADS};
use shared_types::request::source::{
    APPROXIMATE, Information, Placement, Plan as PlanReply, Query, Source,
};
use shared_types::{Delivery, ErrorCode, ProfileInterface, ProfileSource, SourceNote};

/// The most rows in one reply, so that no request takes long; the client asks again for the rest.
const MOST_ROWS: usize = 50;

impl<H: Host> Service<H> {
    pub(super) fn enumerate(&self, io: &mut IoBuffer<'_>) -> Answer {
        let request = io.from(APPROXIMATE)?;
        let approximate = request.header.flags & APPROXIMATE != 0;
        let (boot, first) = (self.cpu_types.boot(), request.first as usize);
        let rows = catalog::rows(boot).skip(first).take(MOST_ROWS);
        let sources = rows.map(|row| self.source(boot, row, approximate));
        io.page(first, catalog::rows(boot).count(), sources)
    }

    fn source(&self, boot: &Capabilities, row: &'static Row, approximate: bool) -> Source {
        let support = self.support(boot, row, approximate);
        let select = catalog::select_word(&row.select);
        let limits = limits(row.id);
        let supporting = || {
            self.cpu_types.iter().filter_map(|(cpu_type, capabilities)| {
                let row = catalog::find(capabilities, row.id)?;
                self.support(capabilities, row, approximate).ok()?;
                Some((cpu_type, samples(capabilities, row)))
            })
        };
        Source {
            id: row.id.0,
            flags: flags([
                (support.is_ok(), Source::SUPPORTED),
                (catalog::is_hal(boot, row.id), Source::HAL),
                (supporting().any(|(_, samples)| samples), Source::SAMPLING),
                (row.fit == Fit::Timer, Source::TIMER),
                (catalog::approximates(boot, row), Source::APPROXIMATES),
                (select.is_some(), Source::HAS_SELECT),
            ]),
            select: select.unwrap_or(0),
            default_interval: limits.default,
            min_interval: limits.min,
            max_interval: limits.max,
            cpu_types: supporting().fold(0, |mask, (cpu_type, _)| mask | 1 << cpu_type),
            table: catalog::source_table(boot, row.id) as u32,
            note: match support {
                Err(refusal) => refusal.note,
                Ok(()) if !samples(boot, row) => no_sampling(boot),
                Ok(()) => catalog::note(boot, row),
            } as u32,
        }
    }

    /// As [`catalog::support`], but if no memory was provided every source is unsupported (as in the
    /// HAL's Emon interface).
    fn support(
        &self,
        capabilities: &Capabilities,
        row: &Row,
        approximate: bool,
    ) -> Result<(), catalog::Refusal> {
        if self.sessions.is_empty() {
            return Err(catalog::Refusal {
                error: ErrorCode::NoMemory,
                note: SourceNote::NoMemory,
            });
        }
        catalog::support(capabilities, row, approximate)
    }

    pub(super) fn query_information(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let request = io.request::<Query>(APPROXIMATE)?;
        let approximate = request.header.flags & APPROXIMATE != 0;
        let id = ProfileSource(request.source);
        let boot = self.cpu_types.boot();
        let row =
            catalog::find(boot, id).ok_or(refused(ErrorCode::SourceUnknown, request.source, 0))?;
        let interval = match request.session {
            0 => limits(id).default,
            number => {
                let program = &find(&mut self.sessions, client, number)?.program;
                let source = program.sources().iter().find(|source| source.id == id.0);
                source
                    .map(|source| u32::try_from(source.interval.used).unwrap_or(u32::MAX))
                    .ok_or(refused(ErrorCode::SourceNotInSession, id.0, 0))?
            }
        };
        let supported = self.support(boot, row, approximate).is_ok();
        io.reply(|header| Information {
            header,
            information: HalProfileSourceInformation {
                source: id.0.cast_signed(),
                supported: supported.into(),
                padding: [0; 3],
                // The HAL reports interval 0 for a source that it does not support.
                interval: if supported { interval } else { 0 },
            },
            reserved: 0,
        })
    }

    pub(super) fn plan(&mut self, io: &mut IoBuffer<'_>) -> Answer {
        let request = io.head::<Configure>(APPROXIMATE | SAMPLE | THREADS | EVENTS)?;
        must_be_zero(offset_of!(Configure, session) as u32, request.session)?;
        let rights = Rights {
            approximate: request.header.flags & APPROXIMATE != 0,
            // A plan counts nothing, so it needs no right to.
            kernel: true,
            kernel_addresses: true,
        };
        self.prepare(io, &request, rights)?;
        let sources = request.sources as usize;
        let cpu_types = self.cpu_types.list().len();
        let head = size_of::<PlanReply>();
        let length = head + cpu_types * sources * size_of::<Placement>();
        io.need(length)?;
        let mut fits = true;
        let program = &self.scratch.program;
        let (rows, _) = io.tail(head).as_chunks_mut::<{ size_of::<Placement>() }>();
        let mut rows = rows.iter_mut();
        for (cpu_type, made) in program.cpu_programs.iter().enumerate().take(cpu_types) {
            let used = self.cpu_types.uses(&program.settings.processors, cpu_type);
            for (slot, row) in made.configs.each.iter().take(sources).zip(&mut rows) {
                let placement = placement(slot);
                fits &= !used || (placement.error == 0 && placement.slice == 0);
                *row = zerocopy::transmute!(placement);
            }
        }
        io.finish(length, |header| PlanReply {
            header,
            fits: fits.into(),
            cpu_types: cpu_types as u32,
            sources: sources as u32,
            reserved: 0,
        })
    }
}

/// Whether a supported source can be sampled.
fn samples(capabilities: &Capabilities, row: &Row) -> bool {
    capabilities.delivery != Delivery::None
        && (row.fit != Fit::Timer || sampled_time(capabilities, 0).is_ok())
}

/// Why a supported source cannot be sampled; with interrupts, time alone cannot.
fn no_sampling(capabilities: &Capabilities) -> SourceNote {
    match capabilities.interface() {
        ProfileInterface::Default => SourceNote::TimerHasNoAddress,
        ProfileInterface::Pentium => SourceNote::NoInterrupt,
        _ if capabilities.delivery == Delivery::None => SourceNote::NoLocalApic,
        _ => SourceNote::NoCycleCounter,
    }
}

fn placement(slot: &CounterConfig) -> Placement {
    match slot.counted_by {
        CountedBy::Counter => Placement {
            slice: slot.slice,
            counter: u16::from(slot.counter.index())
                + if slot.counter.is_fixed() { Placement::FIXED } else { 0 }
                + if slot.pair { Placement::PAIR } else { 0 },
            error: 0,
        },
        CountedBy::Timer => Placement { slice: 0, counter: Placement::TIMER, error: 0 },
        CountedBy::None => Placement { slice: 0, counter: 0, error: slot.error.into() },
    }
}
