//! What clients and the system do, from a seed: the one generator of load. Its actions are played one
//! after the other on any backend ([`Action::perform`]), or concurrently on the shipped driver
//! ([`crate::traffic`]).

use fastrand::Rng;
use halprof_tests::backend::Backend;
use halprof_tests::requests::{self, ALL_RIGHTS};
use halprof_tests::wire::{about, plain};
use shared_types::NtStatus;
use shared_types::request::session::{self, Configure, Opened, Spec};
use shared_types::request::{RequestCode, counts, events, rdpmc, samples, threads};
use sim::load::workload::Workload;
use std::collections::BTreeMap;
use zerocopy::FromBytes;

/// The most handles that are open at once.
const CLIENTS: usize = 4;

/// One thing that happens, or begins. Clients are named by numbers that each gets as it opens its
/// handle.
#[derive(Clone, Debug)]
pub enum Action {
    /// A client opens the device.
    Open(u32),
    /// A client's request: code, bytes, room for the reply.
    Request(u32, RequestCode, Vec<u8>, usize),
    /// A client closes its handle, whatever it has under way.
    Close(u32),
    /// A client's process ends: its waiting requests are cancelled, then its handle is closed.
    Kill(u32),
    /// The machine sleeps and wakes.
    Sleep,
    /// The device is stopped and started again, to rebalance resources.
    Restart,
    Add,
    /// The device disappears without warning.
    Surprise,
    Begin,
    /// It goes on for this many nanoseconds.
    Advance(u64),
    /// A call that the driver makes fails, after this many others.
    Fault(u64),
    /// A thread begins to profile itself, or no thread does any more.
    Profile(bool),
}

pub(crate) const fn process(client: u32) -> u32 {
    // Ids are multiples of 4; the client's thread has the one between.
    1000 + 8 * client
}

impl Action {
    /// Performs it to its end, with the open handles; returns the reply of a request. What happens
    /// to the driver and not to the service in process is left out.
    pub fn perform<B: Backend>(
        &self,
        machine: &mut B,
        workload: &Workload,
        open: &mut BTreeMap<u32, B::Handle>,
    ) -> Result<Option<(NtStatus, Vec<u8>)>, B::Violation> {
        match self {
            Self::Open(client) => {
                open.insert(*client, machine.open(process(*client), ALL_RIGHTS)?);
            }
            Self::Close(client) | Self::Kill(client) => {
                if let Some(handle) = open.remove(client) {
                    machine.close(handle)?;
                }
            }
            Self::Request(client, code, input, room) => {
                let Some(handle) = open.get(client) else {
                    return Ok(None);
                };
                let mut output = vec![0; *room];
                let (status, length) = machine.request(handle, *code, input, &mut output)?;
                output.truncate(length);
                return Ok(Some((status, output)));
            }
            Self::Begin => machine.begin(workload),
            Self::Advance(nanoseconds) => {
                machine.advance(*nanoseconds)?;
            }
            Self::Sleep => {
                machine.sleep()?;
                machine.lose_registers()?;
                machine.wake()?;
            }
            // These happen to a driver; the service in the process knows none of them.
            Self::Restart | Self::Add | Self::Surprise | Self::Fault(_) | Self::Profile(_) => {}
        }
        Ok(None)
    }
}

/// What a client requests of a session, in this order and then over again.
const LIFE: &[RequestCode] = &[
    session::CONFIGURE,
    session::START,
    counts::SNAPSHOT,
    samples::DRAIN,
    counts::SNAPSHOT,
    samples::DRAIN,
    events::DRAIN_EVENTS,
    session::STOP,
    samples::STATISTICS,
    events::DRAIN_EVENTS,
];

/// What its session may also do at any time.
const BESIDES: [RequestCode; 4] =
    [rdpmc::ALLOW, rdpmc::RELEASE, threads::THREADS, threads::THREADS];

/// The generator: a client's next request depends on the replies to those before.
pub struct Load {
    pub(crate) rng: Rng,
    features: bool,
    /// Clients that have a handle.
    clients: Vec<Client>,
    opened: u32,
}

struct Client {
    number: u32,
    sessions: Vec<u32>,
    /// Its position in [`LIFE`].
    next: usize,
}

impl Load {
    /// The load of a seed. `features`: every other session samples with branches or counts by
    /// thread, and sessions hold RDPMC.
    pub fn new(seed: u64, features: bool) -> Self {
        Self { rng: Rng::with_seed(seed), features, clients: Vec::new(), opened: 0 }
    }

    pub fn clients(&self) -> Vec<u32> {
        self.clients.iter().map(|client| client.number).collect()
    }

    /// A client could not open the device.
    pub fn not_opened(&mut self, number: u32) {
        self.clients.retain(|client| client.number != number);
    }

    /// A client's request has this reply.
    pub fn learn(&mut self, number: u32, code: RequestCode, reply: &[u8]) {
        if code == session::OPEN
            && let Ok((opened, _)) = Opened::read_from_prefix(reply)
            && opened.header.error == 0
            && let Some(client) = self.clients.iter_mut().find(|client| client.number == number)
        {
            client.sessions.push(opened.session);
        }
    }

    /// The next action; it adds a processor only if it `may_add` one.
    pub fn next_action(&mut self, may_add: bool) -> Action {
        if self.clients.is_empty() {
            return self.open();
        }
        let (open, rng) = (self.clients.len(), &mut self.rng);
        let client = rng.usize(..open);
        match rng.u8(..40) {
            0..=1 if open < CLIENTS => self.open(),
            2 => Action::Close(self.clients.remove(client).number),
            3 => Action::Kill(self.clients.remove(client).number),
            4 => Action::Sleep,
            5 if may_add => Action::Add,
            38 if rng.u8(..4) == 0 => Action::Restart,
            6 if rng.u8(..4) == 0 => Action::Surprise,
            7 => Action::Fault(rng.u64(..4)),
            8 => Action::Begin,
            9..=17 => Action::Advance(rng.u64(..1_000_000)),
            18..=36 if self.features && rng.u8(..5) == 0 => self.clients[client].besides(rng),
            18..=36 => self.clients[client].sensible(rng, self.features),
            _ => self.clients[client].any(rng),
        }
    }

    fn open(&mut self) -> Action {
        let number = self.opened;
        self.opened += 1;
        self.clients.push(Client { number, sessions: Vec::new(), next: LIFE.len() - 1 });
        Action::Open(number)
    }
}

impl Client {
    /// What it does if it wants to count in its latest session.
    fn sensible(&mut self, rng: &mut Rng, features: bool) -> Action {
        let Some(&session) = self.sessions.last() else {
            return Action::Request(self.number, session::OPEN, plain(session::KERNEL), 4096);
        };
        self.next = match rng.u8(..8) {
            0 => rng.usize(..LIFE.len()),
            _ => (self.next + 1) % LIFE.len(),
        };
        let code = LIFE[self.next];
        let input = match code {
            session::CONFIGURE => configuration(rng, session, features),
            _ => about(session),
        };
        Action::Request(self.number, code, input, 1 << 14)
    }

    /// RDPMC, the counters of its threads, and the threads themselves.
    fn besides(&self, rng: &mut Rng) -> Action {
        match self.sessions.last() {
            Some(&session) if rng.bool() => {
                let code = BESIDES[rng.usize(..BESIDES.len())];
                Action::Request(self.number, code, about(session), 4096)
            }
            _ => Action::Profile(rng.bool()),
        }
    }

    /// Any request, mostly of the right shape.
    fn any(&self, rng: &mut Rng) -> Action {
        let (code, input) = if rng.u8(..4) == 0 {
            let (code, _) = RequestCode::ALL[rng.usize(..RequestCode::ALL.len())];
            (code, (0..rng.usize(..400)).map(|_| rng.u8(..)).collect())
        } else {
            requests::random_well_formed(rng, &self.sessions)
        };
        let room = [0, 23, 24, 100, 4096, 1 << 14][rng.usize(..6)];
        Action::Request(self.number, code, input, room)
    }
}

/// A session that counts or samples.
fn configuration(rng: &mut Rng, session: u32, features: bool) -> Vec<u8> {
    let all = [0, 2, 6, 0x0B, 0x13];
    let many = [1, 1, 2, 2, all.len()][rng.usize(..5)];
    let mut specs: Vec<_> = (0..many).map(|_| spec(rng, &all)).collect();
    let sample = session::SAMPLE * u32::from(rng.u8(..3) != 0);
    let events = session::EVENTS * u32::from(rng.bool());
    let mut head = Configure { session, ..requests::configuration(sample | events) };
    if features && rng.bool() {
        if sample == 0 {
            head.header.flags |= session::THREADS;
            let sources = &[2, 6][..rng.usize(1..=2)];
            specs = sources.iter().map(|&source| requests::spec(source)).collect();
        } else {
            head.branches = [8, 16, 32][rng.usize(..3)];
        }
    }
    head.sources = specs.len() as u32;
    requests::bytes(&head, &specs)
}

fn spec(rng: &mut Rng, all: &[u32]) -> Spec {
    let source = all[rng.usize(..all.len())];
    let interval = 1 << rng.u32(10..20);
    Spec { interval, ..requests::spec(source) }
}
