//! Requests: bytes in, one match on the code, bytes out. This is all of the driver that does not
//! depend on Windows.
//!
//! A [`Service`] belongs to one device. Its host calls it for one request at a time, at
//! PASSIVE_LEVEL, and notifies it of closed handles, timers, interrupts, sleep and new processors.
//! No request is held: each is complete when the call returns.

mod branches;
mod by_thread;
mod configure;
mod cpu_types;
mod describe;
mod events;
mod interval;
mod io_buffer;
mod programs;
mod rdpmc;
mod read;
mod reading;
mod requirements;
mod run;
pub mod session;
mod sessions;
mod sources;

pub use io_buffer::Refused;

use crate::cpu::capabilities::Capabilities;
use crate::cpu::machine::Machine as _;
use crate::cpu::selection::Identity;
use crate::plan::cpu_set::ProcessorSet;
use crate::plan::program::{MAX_CPU_TYPES, Scratch};
use crate::run::host::{Local, Processors};
use crate::run::pmu;
use crate::run::state::{CountersLeft, ProcessorState};
use crate::run::throttle::BUDGET;
use crate::service::session::{Client, Ended, Session};
use core::ops::DerefMut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use cpu_types::CpuTypes;
use io_buffer::{Answer, IoBuffer};
use reading::Reading;
use shared_types::request::counts::Count;
use shared_types::request::session::MAX_PROCESSORS;
use shared_types::request::{Access, Request};
use shared_types::{ErrorCode, EventKind, NtStatus, Reason, ReplyHeader};
use zerocopy::FromZeros as _;

/// The types from which a host builds a service.
pub trait Host {
    /// The host's processors.
    type Processors: Processors;
    /// Memory for the sessions, as many as can be open at once.
    type Sessions: DerefMut<Target = [Session]>;
    /// Memory in which a configuration is made before it replaces a session's.
    type Scratch: DerefMut<Target = Scratch>;
    /// Memory for counts that need several replies.
    type Counts: DerefMut<Target = [Count]>;

    /// Zeroed memory for this many counts; `None` if there is none.
    fn counts(count: usize) -> Option<Self::Counts>;
}

/// What the service reports about itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// `halprof.sys 0.1.0`, or a description of the model.
    pub driver_name: &'static str,
    /// The machine is modelled, not silicon.
    pub modelled: bool,
    /// The most bytes that all rings together may take.
    pub ring_bytes_max: u64,
}

/// How a request completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The status; with [`NtStatus::SUCCESS`] there is a reply.
    pub status: NtStatus,
    /// Bytes of the reply.
    pub length: usize,
    /// The [`ErrorCode`] in the reply; 0 if there is none.
    pub error: u32,
}

impl Completion {
    /// A request that has no reply.
    pub const fn failed(status: NtStatus) -> Self {
        Self { status, length: 0, error: 0 }
    }
}

/// The service of one device.
pub struct Service<H: Host> {
    processors: H::Processors,
    sessions: H::Sessions,
    scratch: H::Scratch,
    about: About,
    cpu_types: CpuTypes,
    active_session: Option<ActiveSession>,
    /// The session whose last run left its totals and samples on the processors.
    results_of: Option<usize>,
    ring_bytes: u64,
    reading: Reading<H::Counts>,
    suspended: bool,
    /// The processor whose ring DRAIN empties first: the one after that at which it was last cut
    /// off.
    drains_from: usize,
    /// How many times the machine has gone to sleep.
    sleeps: u32,
    /// A processor that was added, and for which there was no memory.
    missing: Option<usize>,
}

/// The session that holds the counters.
#[derive(Clone, Copy, Debug)]
struct ActiveSession {
    slot: usize,
    since: u64,
    /// The counters were reserved from their owner; a session with only ProfileTime takes none.
    reserved: bool,
    /// Windows adds up the counters for each thread.
    by_thread: bool,
}

/// How often [`Local::tick`] is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The period, in units of 100 ns.
    pub period: u32,
    /// It ends slices and must be on time; otherwise it may be late and need not wake an idle
    /// processor.
    pub precise: bool,
}

/// While sampling, every processor is checked for missed overflows this often, in units of 100 ns:
/// 250 ms.
const POLL_PERIOD: u32 = 2_500_000;
/// Counters are read at least this often, in units of 100 ns: 5 s.
const READ_PERIOD: u64 = 50_000_000;
/// What the callback of the timer that ends slices takes for each processor, whose DPC it queues, in
/// units of 100 ns: 0.5 us, the interrupt of that processor included. An assumption: nothing documents
/// it.
const QUEUING: u32 = 5;
/// More events than any counter can count in a second: 8 per cycle at 6 GHz.
const MOST_EVENTS_A_SECOND: u64 = 48_000_000_000;

impl<H: Host> Service<H> {
    /// Discovers every processor. The memory must be zeroed. If the host has no memory for
    /// sessions, every source is unsupported, as in the HAL's Emon interface.
    pub fn new(
        processors: H::Processors,
        sessions: H::Sessions,
        scratch: H::Scratch,
        about: About,
    ) -> Self {
        let mut service = Self {
            processors,
            sessions,
            scratch,
            about,
            cpu_types: CpuTypes::new_zeroed(),
            active_session: None,
            results_of: None,
            ring_bytes: 0,
            reading: Reading::NONE,
            suspended: false,
            drains_from: 0,
            sleeps: 0,
            missing: None,
        };
        for index in 0..service.processors.count().min(MAX_PROCESSORS) {
            service.discover(index);
        }
        service
            .processors
            .run_on_each::<()>(&ProcessorSet::ALL, &mut [], |local, _| local.find_storm());
        service
    }

    fn discover(&mut self, index: usize) {
        let cpu_types = &mut self.cpu_types;
        self.processors.run_on(index, |local| {
            let all = Capabilities::discover(local.machine);
            let capabilities = if cpu_types.has_room_for(&all) {
                all
            } else {
                let identity = Identity::read(local.machine);
                Capabilities::unused(identity, Reason::TooManyCpuTypes)
            };
            local.state.cpu_type = cpu_types.enter(index, &capabilities);
            // Where no counter is used, LVTPC must not stay masked either: another owner's may
            // interrupt there.
            local.state.capabilities =
                Capabilities { apic: all.apic, masks_lvtpc: all.masks_lvtpc, ..capabilities };
            local.state.known = true;
        });
    }

    /// Finds the counters that others have, who did not ask for them or are gone, unless a session is
    /// running.
    fn survey(&mut self) {
        if self.active_session.is_some() || !self.cpu_types.any_shared() {
            return;
        }
        let in_use = [const { AtomicU32::new(0) }; MAX_CPU_TYPES];
        let left = [const { (AtomicU64::new(0), AtomicU32::new(0)) }; MAX_CPU_TYPES];
        self.processors.run_on_each::<()>(&ProcessorSet::ALL, &mut [], |local, _| {
            let capabilities = &local.state.capabilities;
            let fixed = pmu::enabled_fixed(local.machine, capabilities);
            let found = pmu::counters_left(local.machine, capabilities);
            (local.state.saved.fixed, local.state.saved.left) = (fixed, found);
            let cpu_type = usize::from(local.state.cpu_type);
            if let (Some(in_use), Some((counters, register))) =
                (in_use.get(cpu_type), left.get(cpu_type))
            {
                in_use.fetch_or(fixed, Ordering::Relaxed);
                counters.fetch_or(found.counters, Ordering::Relaxed);
                register.fetch_max(found.register, Ordering::Relaxed);
            }
        });
        for (cpu_type, (in_use, (counters, register))) in in_use.into_iter().zip(left).enumerate() {
            self.cpu_types.set_fixed_in_use(cpu_type, in_use.into_inner());
            let (counters, register) = (counters.into_inner(), register.into_inner());
            self.cpu_types.set_left(cpu_type, CountersLeft { counters, register });
        }
    }

    /// Handles one DeviceIoControl, whose code is decoded. The first `input` bytes of `buffer` are the
    /// request; the reply replaces them and may take `output` bytes. `granted` lists the rights with
    /// which the handle was opened.
    pub fn handle(
        &mut self,
        client: Client,
        granted: &[Access],
        request: Request,
        buffer: &mut [u8],
        input: usize,
        output: usize,
    ) -> Completion {
        if request.code().access().is_none_or(|needed| !granted.contains(&needed)) {
            return Completion::failed(NtStatus::ACCESS_DENIED);
        }
        let mut io = match IoBuffer::new(buffer, input, output) {
            Ok(io) => io,
            Err(status) => return Completion::failed(status),
        };
        match self.answer(client, request, &mut io) {
            Ok(length) => Completion { status: NtStatus::SUCCESS, length, error: 0 },
            Err(Refused { error, subject, detail }) => {
                io.put(0, &ReplyHeader::refused(error, subject, detail));
                let length = size_of::<ReplyHeader>();
                Completion { status: NtStatus::SUCCESS, length, error: error as u32 }
            }
        }
    }

    fn answer(&mut self, client: Client, request: Request, io: &mut IoBuffer<'_>) -> Answer {
        match request {
            Request::Hello => self.hello(io),
            Request::Describe => self.describe(io),
            Request::Processors => self.list_processors(io),
            Request::Registers => self.registers(io),
            Request::Enumerate => self.enumerate(io),
            Request::Query => self.query_information(client, io),
            Request::Plan => self.plan(io),
            Request::Open => self.open(client, io),
            Request::Configure => self.configure(client, io),
            Request::Start => self.start(client, io),
            Request::Stop => self.stop(client, io),
            Request::Close => self.close(client, io),
            Request::SetInterval => self.set_interval(client, io),
            Request::Snapshot => self.snapshot(client, io),
            Request::Drain => self.drain(client, io),
            Request::Statistics => self.statistics(client, io),
            Request::AllowRdpmc => self.allow_rdpmc(client, io),
            Request::ReleaseRdpmc => self.release_rdpmc(client, io),
            Request::RdpmcStatus => self.rdpmc_status(io),
            Request::Threads => self.thread_counters(client, io),
            Request::DrainEvents => self.drain_events(client, io),
        }
    }

    /// Called when a handle has been closed, for whatever reason: its sessions end, and what they
    /// held is released.
    pub fn handle_closed(&mut self, handle: u64) {
        for slot in 0..self.sessions.len() {
            let owner = self.sessions.get(slot).and_then(Session::owner);
            if owner.is_some_and(|owner| owner.handle == handle) {
                self.end_session(slot);
            }
        }
    }

    /// Called before sleep: reads all totals and stops all counters. CR4 stays as it is: Windows
    /// saves and restores it, and after sleep user mode runs before [`Self::resume`].
    pub fn suspend(&mut self) {
        self.suspended = true;
        self.sleeps = self.sleeps.wrapping_add(1);
        self.happened(EventKind::Asleep, 0);
        // Two rounds, as at STOP: pending interrupts come between them.
        self.on_running(|local| local.halt());
        self.on_running(|local| local.suspend());
    }

    /// Called after sleep: re-arms the running session, and sets CR4.PCE where it is clear although
    /// sessions hold RDPMC.
    pub fn resume(&mut self) {
        self.suspended = false;
        self.happened(EventKind::Awake, 0);
        if self.rdpmc_holders() > 0 {
            // The result is ignored: a processor that refuses the bit now would also have refused
            // it at ALLOW.
            let _ = self.set_rdpmc();
        }
        // This includes processors on which no session runs.
        self.processors.run_on_each::<()>(&ProcessorSet::ALL, &mut [], |local, _| local.wake());
        self.on_running(|local| local.resume());
    }

    /// Runs `work` on each processor of the running session.
    fn on_running(&mut self, work: impl Fn(&mut LocalOf<'_, H>) + Sync) {
        if let Some(session) = running(self.active_session, &self.sessions) {
            let processors = &session.program.settings.processors;
            self.processors.run_on_each::<()>(processors, &mut [], |local, _| work(local));
        }
    }

    /// Called when a processor has been added: discovers it, and has it join a running session that
    /// counts everywhere, if that was configured for its CPU type. A processor of another CPU type
    /// ends a session that counts by thread.
    pub fn processor_added(&mut self, index: usize) {
        self.discover(index);
        self.happened(EventKind::ProcessorAdded, index);
        if self.rdpmc_holders() > 0 && !self.suspended {
            self.processors.run_on(index, |local| {
                let _ = local.hold_rdpmc();
            });
        }
        let session = running(self.active_session, &self.sessions);
        let settings = session.map(|session| &session.program.settings);
        let Some(settings) = settings.filter(|one| one.processors == ProcessorSet::ALL) else {
            return;
        };
        if settings.cpu_types >> self.cpu_types.cpu_type_of(index) & 1 == 0 {
            self.end_by_thread(|source| Ended {
                error: ErrorCode::NotByThread as u32,
                subject: source,
                detail: index as u64,
            });
        } else {
            self.attach_ring(index);
            let suspended = self.suspended;
            self.processors.run_on(index, |local| {
                if suspended {
                    local.join_asleep();
                } else {
                    local.join();
                }
            });
        }
    }

    /// A processor was added, and there is no memory for it: nothing is counted there. That ends a
    /// session that counts by thread, because a thread may move there; no other begins, and RDPMC
    /// is not allowed, which would end a program there.
    pub fn processor_missing(&mut self, index: usize) {
        self.missing = Some(index);
        self.end_by_thread(|_| Ended {
            error: ErrorCode::NoMemory as u32,
            subject: index as u32,
            detail: ProcessorState::BYTES,
        });
    }

    /// Ends every session, as if every handle had been closed, because the device is being removed.
    pub fn end_all(&mut self) {
        for slot in 0..self.sessions.len() {
            self.end_session(slot);
        }
    }

    /// The processors, for their host.
    pub fn processors(&mut self) -> &mut H::Processors {
        &mut self.processors
    }

    /// When [`Local::tick`] is due on each processor; `None` while no counter runs.
    ///
    /// While sampling: often enough to find overflows for which no interrupt came; while only
    /// counting: often enough that no counter wraps twice between two reads. If sources rotate,
    /// also at the end of each slice.
    pub fn timer(&self) -> Option<Timer> {
        let program = &running(self.active_session, &self.sessions)?.program;
        match program.slices() {
            0 => None,
            1 => Some(Timer { period: self.read_period(program.settings.samples), precise: false }),
            _ => {
                let slice = program.settings.slice;
                let period = slice / program.settings.slice_polls.max(1);
                let least = self.shortest_tick().max(self.processors.timer_resolution());
                Some(Timer { period: period.max(least), precise: true })
            }
        }
    }

    /// The shortest period of the timer that ends slices, in units of 100 ns: its callback, which
    /// queues a DPC for every processor on one of them, takes no more of that one's time than
    /// interrupts may.
    pub(crate) fn shortest_tick(&self) -> u32 {
        // mistake: slices-without-a-bound
        self.processors.count() as u32 * QUEUING * 1_000 / BUDGET
    }

    /// A quarter of the time in which the narrowest counter can wrap, but at most `POLL_PERIOD`
    /// while sampling and `READ_PERIOD` otherwise, in units of 100 ns.
    pub(crate) fn read_period(&self, samples: bool) -> u32 {
        let widths = self.cpu_types.list().iter().filter_map(Capabilities::narrowest);
        let wraps = widths.map(|width| width.mask() / (MOST_EVENTS_A_SECOND / 10_000_000));
        let quarter = wraps.min().unwrap_or(u64::MAX) / 4;
        let most = if samples { POLL_PERIOD.into() } else { READ_PERIOD };
        quarter.min(most) as u32
    }

    /// Whether a session is running.
    pub fn is_running(&self) -> bool {
        self.active_session.is_some()
    }
}

type LocalOf<'a, H> = Local<'a, <<H as Host>::Processors as Processors>::Machine>;

/// The time-stamp counter of the boot processor.
fn now(processors: &mut impl Processors) -> u64 {
    processors.run_on(0, |local| local.machine.timestamp()).unwrap_or_default()
}

fn running(active_session: Option<ActiveSession>, sessions: &[Session]) -> Option<&Session> {
    sessions.get(active_session?.slot)
}

fn running_mut(
    active_session: Option<ActiveSession>,
    sessions: &mut [Session],
) -> Option<&mut Session> {
    sessions.get_mut(active_session?.slot)
}
