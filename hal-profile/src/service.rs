//! Requests: bytes in, one match on the code, bytes out. The driver but for Windows.
//!
//! A [`Service`] belongs to one device. Its host calls it for one request at a time, at
//! PASSIVE_LEVEL, and tells it of handles closed, timers, interrupts, sleep and new processors.
//! Nothing is held: every request is answered when the call returns.

mod describe;
mod exchange;
mod preparation;
mod reading;
mod sessions;
mod sources;

pub use exchange::Refused;

use crate::capabilities::Capabilities;
use crate::machine::{Local, ProcessorSet, Processors};
use crate::selection::Identity;
use crate::session::{Client, MAX_KINDS, Session};
use core::ops::DerefMut;
use exchange::{Answer, Exchange};
use shared_types::request::session::MAX_PROCESSORS;
use shared_types::request::{Access, RequestCode, counts, machine, samples, session, source};
use shared_types::{NtStatus, Reason, ReplyHeader};

/// What the service says of itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// `halprof.sys 0.1.0`, or what it is a model of.
    pub answerer: &'static str,
    /// The machine is modelled and no silicon.
    pub modelled: bool,
    /// Most bytes that all sample rings together may take.
    pub ring_bytes_max: u64,
}

/// How a request completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The status; with [`NtStatus::SUCCESS`] there is a reply.
    pub status: NtStatus,
    /// Bytes of the reply.
    pub length: usize,
}

/// The service of one device.
pub struct Service<P, S> {
    processors: P,
    /// The first place is for making a configuration before it replaces another.
    sessions: S,
    about: About,
    kinds: Kinds,
    holder: Option<Holder>,
    /// The session whose last run's totals and samples are on the processors.
    results_of: Option<usize>,
    ring_bytes: u64,
    suspended: bool,
}

/// The session that holds the counters.
#[derive(Clone, Copy, Debug)]
struct Holder {
    place: usize,
    since: u64,
    /// The counters were asked of their owner; a session of ProfileTime alone takes none.
    reserved: bool,
}

/// Processors with the same capabilities are of one kind.
struct Kinds {
    list: [Option<Capabilities>; MAX_KINDS],
    of: [u8; MAX_PROCESSORS],
    processors: usize,
}

impl Kinds {
    fn kind_of(&self, processor: usize) -> usize {
        self.of.get(processor).copied().unwrap_or_default().into()
    }

    fn get(&self, kind: usize) -> Option<&Capabilities> {
        self.list.get(kind)?.as_ref()
    }

    fn boot(&self) -> Option<&Capabilities> {
        self.get(self.kind_of(0))
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &Capabilities)> {
        self.list
            .iter()
            .enumerate()
            .filter_map(|(kind, found)| Some((kind, found.as_ref()?)))
    }

    /// The kind of a processor with these capabilities, a new one if need be. The last kind is
    /// kept for processors that are not used because there are too many kinds.
    fn enter(&mut self, processor: usize, found: &Capabilities) -> u8 {
        let known = self
            .list
            .iter()
            .position(|kind| kind.as_ref() == Some(found));
        let free = self
            .list
            .iter()
            .take(MAX_KINDS - 1)
            .position(Option::is_none);
        let kind = known.or(free).unwrap_or(MAX_KINDS - 1);
        if let Some(place) = self.list.get_mut(kind) {
            place.get_or_insert(*found);
        }
        if let Some(of) = self.of.get_mut(processor) {
            *of = kind as u8;
        }
        self.processors = self.processors.max(processor + 1);
        kind as u8
    }

    fn has_room_for(&self, found: &Capabilities) -> bool {
        let mut kinds = self.list.iter().take(MAX_KINDS - 1);
        kinds.any(Option::is_none) || self.list.contains(&Some(*found))
    }

    /// How many general counters every kind has that has any.
    fn general(&self) -> u32 {
        let counters = self.iter().map(|(_, kind)| kind.counters.trailing_ones());
        counters.filter(|&count| count > 0).min().unwrap_or(0)
    }
}

/// How often counters are read only so that none wraps unseen, in units of 100 ns: 5 s. The
/// narrowest have 40 bits, and 8 events in each cycle of 6 GHz take 22 s to wrap them.
pub const READ_PERIOD: u32 = 50_000_000;

impl<P: Processors, S: DerefMut<Target = [Session]>> Service<P, S> {
    /// Looks at every processor. `sessions` is the memory for sessions: one place more than can
    /// be open at once. Where the host has none to lend, every source is unsupported, as in the
    /// HAL's Emon interface.
    pub fn new(processors: P, sessions: S, about: About) -> Self {
        let mut service = Self {
            processors,
            sessions,
            about,
            kinds: Kinds {
                list: [None; MAX_KINDS],
                of: [0; MAX_PROCESSORS],
                processors: 0,
            },
            holder: None,
            results_of: None,
            ring_bytes: 0,
            suspended: false,
        };
        for index in 0..service.processors.count().min(MAX_PROCESSORS) {
            service.discover(index);
        }
        service
    }

    fn discover(&mut self, index: usize) {
        let kinds = &mut self.kinds;
        self.processors.run_on(index, |local| {
            let mut found = Capabilities::discover(local.machine);
            if !kinds.has_room_for(&found) {
                let identity = Identity::read(local.machine);
                found = Capabilities::unused(identity, Reason::TooManyKinds);
            }
            local.state.kind = kinds.enter(index, &found);
            local.state.capabilities = Some(found);
        });
    }

    /// Answers one DeviceIoControl. The first `input` bytes of `buffer` are the request; the reply
    /// replaces them and may take `output` bytes. `granted` are the rights that the handle was
    /// opened with.
    pub fn handle(
        &mut self,
        client: Client,
        granted: &[Access],
        code: RequestCode,
        buffer: &mut [u8],
        input: usize,
        output: usize,
    ) -> Completion {
        let failed = |status| Completion { status, length: 0 };
        if !RequestCode::ALL.iter().any(|(known, _)| *known == code) {
            return failed(NtStatus::INVALID_DEVICE_REQUEST);
        }
        if code
            .access()
            .is_none_or(|needed| !granted.contains(&needed))
        {
            return failed(NtStatus::ACCESS_DENIED);
        }
        let mut exchange = match Exchange::new(buffer, input, output) {
            Ok(exchange) => exchange,
            Err(status) => return failed(status),
        };
        let length = self
            .answer(client, code, &mut exchange)
            .unwrap_or_else(|refused| {
                exchange.put(
                    0,
                    &ReplyHeader::refused(refused.error, refused.subject, refused.detail),
                );
                size_of::<ReplyHeader>()
            });
        Completion {
            status: NtStatus::SUCCESS,
            length,
        }
    }

    fn answer(&mut self, client: Client, code: RequestCode, exchange: &mut Exchange<'_>) -> Answer {
        match code {
            machine::HELLO => self.hello(exchange),
            machine::DESCRIBE => self.describe(exchange),
            machine::PROCESSORS => self.list_processors(exchange),
            machine::REGISTERS => self.registers(exchange),
            source::ENUMERATE => self.enumerate(exchange),
            source::QUERY => self.query(client, exchange),
            source::PLAN => self.plan(exchange),
            session::OPEN => self.open(client, exchange),
            session::CONFIGURE => self.configure(client, exchange),
            session::START => self.start(client, exchange),
            session::STOP => self.stop(client, exchange),
            session::CLOSE => self.close(client, exchange),
            session::SET_INTERVAL => self.set_interval(client, exchange),
            counts::SNAPSHOT => self.snapshot(client, exchange),
            samples::DRAIN => self.drain(client, exchange),
            _ => self.statistics(client, exchange),
        }
    }

    /// A handle was closed, for whatever cause: its sessions end, and what they held is free.
    pub fn handle_closed(&mut self, handle: u64) {
        for place in 1..self.sessions.len() {
            let owner = self.sessions.get(place).and_then(|session| session.owner);
            if owner.is_some_and(|owner| owner.handle == handle) {
                self.end_session(place);
            }
        }
    }

    /// Before sleep: reads all totals, stops all counters.
    pub fn suspend(&mut self) {
        self.suspended = true;
        self.on_running(|local| {
            local.suspend();
        });
    }

    /// After sleep: arms the running session again from its plan.
    pub fn resume(&mut self) {
        self.suspended = false;
        self.on_running(|local| {
            local.resume();
        });
    }

    /// Does `work` on each processor of the running session.
    fn on_running(&mut self, work: fn(&mut Local<'_, P::Machine>)) {
        if let Some(session) = running(self.holder, &self.sessions) {
            let wanted = &session.program.configuration.processors;
            self.processors
                .run_on_each::<()>(wanted, &mut [], |local, _| work(local));
        }
    }

    /// A processor was added: it is looked at, and joins a running session that counts everywhere,
    /// where its kind is one that the session was planned for.
    pub fn processor_added(&mut self, index: usize) {
        let kinds_before = self.kinds.iter().count();
        self.discover(index);
        let planned = self.kinds.kind_of(index) < kinds_before;
        let everywhere = running(self.holder, &self.sessions)
            .is_some_and(|session| session.program.configuration.processors == ProcessorSet::ALL);
        if planned && everywhere {
            self.lend_ring_to_added(index);
            let suspended = self.suspended;
            self.processors.run_on(index, |local| {
                if suspended {
                    local.join_asleep();
                } else {
                    local.start();
                }
            });
        }
    }

    /// Ends every session, as when every handle is closed: the device is being removed.
    pub fn end_all(&mut self) {
        for place in 1..self.sessions.len() {
            self.end_session(place);
        }
    }

    /// The processors, for their host.
    pub fn processors(&mut self) -> &mut P {
        &mut self.processors
    }

    /// How often [`Local::tick`] is due on each processor, in units of 100 ns; `None` while no
    /// counter runs.
    ///
    /// A quarter of a turn where sources take turns, so that a turn is over by at most that; else
    /// often enough that no counter wraps twice between two reads.
    #[must_use]
    pub fn timer_period(&self) -> Option<u32> {
        let session = running(self.holder, &self.sessions)?;
        match preparation::turns(&session.program.plans) {
            0 => None,
            1 => Some(READ_PERIOD),
            _ => {
                let resolution = self.processors.timer_resolution();
                Some((session.program.configuration.rotation / 4).max(resolution))
            }
        }
    }

    /// Whether a session is running whose sources take turns, so that its timer must tick.
    #[must_use]
    pub fn rotates(&self) -> bool {
        running(self.holder, &self.sessions)
            .is_some_and(|session| preparation::turns(&session.program.plans) > 1)
    }

    /// Whether a session is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.holder.is_some()
    }
}

fn running(holder: Option<Holder>, sessions: &[Session]) -> Option<&Session> {
    sessions.get(holder?.place)
}
