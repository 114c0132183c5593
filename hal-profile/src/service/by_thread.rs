//! Sessions whose counters Windows adds up for each thread: one list of counters for all
//! processors, registered while the session runs.

use super::cpu_types::CpuTypes;
use super::io_buffer::{Answer, IoBuffer, Refused, refused};
use super::session::find;
use super::{Host, Service, running_mut};
use crate::plan::counter_config::{CountedBy, CounterConfig};
use crate::plan::program::Program;
use crate::run::state::ProcessorState;
use crate::service::session::{Client, Ended};
use core::mem::offset_of;
use shared_types::ErrorCode;
use shared_types::request::session::{Configure, SAMPLE, THREADS};
use shared_types::request::threads::{MAX_SOURCES, ThreadCounter, Threads};

/// The code of STATUS_WMI_ALREADY_ENABLED (ntstatus.h), without its severity: a counter is already
/// in another configuration, or a thread is profiling itself (KeSetHardwareCounterConfiguration's
/// page). Only the code is used here because the whole status equals an MSR number, and MSR numbers
/// appear in the driver only where the MSR is meant.
const IN_USE: u16 = 0x0303;

/// Refuses what a request that counts by thread may not ask for.
pub(super) fn check_request(request: &Configure) -> Result<(), Refused> {
    let flags = request.header.flags;
    if flags & THREADS == 0 {
        return Ok(());
    }
    if flags & SAMPLE != 0 {
        return Err(refused(ErrorCode::UnknownFlags, SAMPLE, THREADS.into()));
    }
    if request.sources as usize > MAX_SOURCES {
        let most = MAX_SOURCES as u64;
        return Err(refused(ErrorCode::TooManySources, request.sources, most));
    }
    // A thread may run on any processor.
    match request.processors.iter().find(|&&bits| bits != 0) {
        Some(&bits) => {
            Err(refused(ErrorCode::BadValue, offset_of!(Configure, processors) as u32, bits))
        }
        None => Ok(()),
    }
}

/// Checks that each source has one counter all the time, and the same one on every processor.
pub(super) fn check_program(cpu_types: &CpuTypes, program: &Program) -> Result<(), Refused> {
    let boot = CpuTypes::BOOT as u8;
    for (index, source) in program.sources().iter().enumerate() {
        let slot = |cpu_type: u8| program.cpu_program(cpu_type)?.config(index);
        let on_counter = |slot: &&CounterConfig| slot.counted_by == CountedBy::Counter;
        let first = slot(boot).filter(on_counter).map(|slot| slot.counter);
        for (cpu_type, _) in cpu_types.iter() {
            let slot = slot(cpu_type as u8).filter(on_counter);
            let processor = cpu_types.first_of(cpu_type) as u64;
            if first.is_none() || slot.map(|slot| slot.counter) != first {
                return Err(refused(ErrorCode::NotByThread, source.id, processor));
            }
            if slot.is_some_and(|slot| slot.slice != 0) {
                return Err(refused(ErrorCode::DoesNotFit, source.id, processor));
            }
        }
    }
    Ok(())
}

impl<H: Host> Service<H> {
    pub(super) fn thread_counters(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let number = io.session()?;
        let program = &find(&mut self.sessions, client, number)?.program;
        if !program.settings.by_thread || program.settings.count == 0 {
            return Err(refused(ErrorCode::NotConfigured, number, 0));
        }
        let slots = slots(program, CpuTypes::BOOT);
        let count = slots.clone().count();
        let length = size_of::<Threads>() + count * size_of::<ThreadCounter>();
        io.need(length)?;
        for (index, (source, slot)) in slots.enumerate() {
            let at = size_of::<Threads>() + index * size_of::<ThreadCounter>();
            let counter = ThreadCounter {
                source,
                counter: slot.counter.index().into(),
                rdpmc: slot.pmc,
                width: slot.width.bits().into(),
            };
            io.put(at, &counter);
        }
        io.finish(length, |header| Threads {
            header,
            count: count as u32,
            sleeps: self.sleeps,
            mask: (1 << count) - 1,
        })
    }

    /// Ends a session that counts by thread, because a thread may move to a processor that does not
    /// count the session's sources. `why` is given the first of them.
    pub(super) fn end_by_thread(&mut self, why: impl FnOnce(u32) -> Ended) {
        if let Some(session) = running_mut(self.active_session, &mut self.sessions)
            && session.program.settings.by_thread
            && let Some(first) = session.program.sources().first()
        {
            session.ended = why(first.id);
            self.stop_counters();
        }
    }
}

/// Refuses a session that counts by thread if a processor was added of a CPU type for which it was
/// not configured, or for which there was no memory: a thread may move there.
pub(super) fn may_count_by_thread(
    cpu_types: &CpuTypes,
    missing: Option<usize>,
    program: &Program,
) -> Result<(), Refused> {
    if !program.settings.by_thread {
        return Ok(());
    }
    none_missing(missing)?;
    let added = cpu_types.known() & !program.settings.cpu_types;
    if added == 0 {
        return Ok(());
    }
    let first = program.sources().first().map_or(0, |source| source.id);
    let processor = cpu_types.first_of(added.trailing_zeros() as usize);
    Err(refused(ErrorCode::NotByThread, first, processor as u64))
}

/// Refuses what needs every processor if one was added for which there was no memory.
pub(super) fn none_missing(missing: Option<usize>) -> Result<(), Refused> {
    match missing {
        Some(index) => Err(refused(ErrorCode::NoMemory, index as u32, ProcessorState::BYTES)),
        None => Ok(()),
    }
}

/// Why Windows does not add up counters for threads.
pub(super) fn threads_refused(status: u32) -> Refused {
    let error = match status as u16 {
        IN_USE => ErrorCode::ThreadsOwned,
        _ => ErrorCode::ThreadsUnavailable,
    };
    refused(error, 0, status.into())
}

/// The sources of a program, each with its slot on one CPU type.
pub(super) fn slots(
    program: &Program,
    cpu_type: usize,
) -> impl Iterator<Item = (u32, &CounterConfig)> + Clone {
    let slots = program.cpu_program(cpu_type as u8).map(|cpu_type| &cpu_type.configs.each);
    let sources = program.sources().iter().map(|source| source.id);
    sources.zip(slots.into_iter().flatten()).take(MAX_SOURCES)
}
