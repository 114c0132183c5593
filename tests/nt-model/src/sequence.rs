//! Sequences of what clients and the system do, generated from a seed and played on a machine.

use fastrand::Rng;
use halprof_tests::backend::Backend;
use halprof_tests::requests::{self, ALL_RIGHTS};
use shared_types::NtStatus;
use shared_types::request::session::{self, Opened};
use shared_types::request::{Access, Plain, RequestCode};
use sim::load::workload::Workload;
use std::collections::BTreeMap;
use zerocopy::FromBytes;

/// One thing that happens. Handles are named by numbers that a sequence gives them.
#[derive(Clone, Debug)]
pub enum Action {
    /// A client opens the device.
    Open(u32, u32, Vec<Access>),
    /// A handle is closed, or its process ends.
    Close(u32),
    /// A request, with room for this many bytes of reply.
    Request(u32, RequestCode, Vec<u8>, usize),
    /// A workload begins.
    Begin,
    /// It goes on for this many nanoseconds.
    Advance(u64),
    /// The machine sleeps and wakes.
    Sleep,
}

impl Action {
    /// Performs it, with the open handles; returns the reply of a request.
    pub fn perform<B: Backend>(
        self,
        machine: &mut B,
        workload: &Workload,
        open: &mut BTreeMap<u32, B::Handle>,
    ) -> Result<Option<(NtStatus, Vec<u8>)>, B::Violation> {
        match self {
            Self::Open(number, process, rights) => {
                open.insert(number, machine.open(process, &rights)?);
            }
            Self::Close(number) => {
                if let Some(handle) = open.remove(&number) {
                    machine.close(handle)?;
                }
            }
            Self::Request(number, code, input, room) => {
                let Some(handle) = open.get(&number) else {
                    return Ok(None);
                };
                let mut output = vec![0; room];
                let (status, length) = machine.request(handle, code, &input, &mut output)?;
                output.truncate(length);
                return Ok(Some((status, output)));
            }
            Self::Begin => machine.begin(workload),
            Self::Advance(nanoseconds) => {
                machine.advance(nanoseconds)?;
            }
            Self::Sleep => {
                machine.sleep()?;
                machine.wake()?;
            }
        }
        Ok(None)
    }
}

/// The results of a sequence's requests: status and reply of each, in order.
pub type Replies = Vec<(NtStatus, Vec<u8>)>;

/// Generates and plays a sequence at the same time, because a correct client's next request depends
/// on the replies.
pub struct Sequence<'a> {
    rng: Rng,
    workload: &'a Workload,
    next_handle: u32,
    handles: Vec<u32>,
    sessions: Vec<(u32, u32)>,
}

impl<'a> Sequence<'a> {
    /// The sequence for a seed.
    #[must_use]
    pub fn new(seed: u64, workload: &'a Workload) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            workload,
            next_handle: 0,
            handles: Vec::new(),
            sessions: Vec::new(),
        }
    }

    /// Plays this many actions, then closes every handle; returns every reply.
    pub fn play<B: Backend>(
        mut self,
        machine: &mut B,
        actions: usize,
        mut told: impl FnMut(&Action),
    ) -> Result<Replies, B::Violation> {
        let mut open = BTreeMap::new();
        let mut replies = Vec::new();
        for _ in 0..actions {
            for action in self.next_actions() {
                told(&action);
                let asked = match &action {
                    Action::Request(number, code, ..) => Some((*number, *code)),
                    _ => None,
                };
                let reply = action.perform(machine, self.workload, &mut open)?;
                if let (Some((number, code)), Some((_, output))) = (asked, &reply) {
                    self.learn(number, code, output);
                }
                replies.extend(reply);
            }
        }
        for (_, handle) in open {
            machine.close(handle)?;
        }
        Ok(replies)
    }

    fn learn(&mut self, handle: u32, code: RequestCode, reply: &[u8]) {
        if code == session::OPEN
            && let Ok((opened, _)) = Opened::read_from_prefix(reply)
            && opened.header.error == 0
        {
            self.sessions.push((handle, opened.session));
        }
    }

    fn next_actions(&mut self) -> Vec<Action> {
        match self.rng.u8(..20) {
            _ if self.handles.is_empty() => vec![self.open(ALL_RIGHTS.to_vec())],
            0 => {
                let rights = ALL_RIGHTS.iter().copied();
                let rights = rights.filter(|_| self.rng.u8(..8) != 0).collect();
                vec![self.open(rights)]
            }
            1 => {
                let which = self.rng.usize(..self.handles.len());
                let number = self.handles.swap_remove(which);
                self.sessions.retain(|(handle, _)| *handle != number);
                vec![Action::Close(number)]
            }
            2 => vec![Action::Begin],
            3 => vec![Action::Sleep],
            4..=7 => vec![Action::Advance(self.rng.u64(..2_000_000))],
            8..=11 => self.as_a_good_client(),
            _ => vec![self.request()],
        }
    }

    fn open(&mut self, rights: Vec<Access>) -> Action {
        let number = self.next_handle;
        self.next_handle += 1;
        self.handles.push(number);
        Action::Open(number, 1000 + number, rights)
    }

    /// The next step of opening, configuring, starting, reading, draining, stopping.
    fn as_a_good_client(&mut self) -> Vec<Action> {
        let any = self.handles[self.rng.usize(..self.handles.len())];
        let Some(&(handle, number)) = self.sessions.last() else {
            let head = Plain { header: requests::header(session::KERNEL) };
            let bytes = requests::bytes(&head, &[]);
            return vec![Action::Request(any, session::OPEN, bytes, 4096)];
        };
        let sources: Vec<_> =
            [2, 6, 0x0B].into_iter().filter(|_| self.rng.bool()).map(requests::spec).collect();
        let flags = [0, session::SAMPLE][self.rng.usize(..2)];
        let flags = flags | (session::EVENTS * self.rng.u32(..2));
        let configure = requests::configure(number, flags, &sources);
        let about = requests::bytes(
            &session::Session { header: requests::header(0), session: number, reserved: 0 },
            &[],
        );
        vec![
            Action::Request(handle, session::CONFIGURE, configure, 4096),
            Action::Request(handle, session::START, about, 4096),
        ]
    }

    fn request(&mut self) -> Action {
        let rng = &mut self.rng;
        let latest = self.sessions.last().filter(|_| rng.u8(..4) != 0).copied();
        let any = self.handles[rng.usize(..self.handles.len())];
        let handle = latest.map_or(any, |(handle, _)| handle);
        let own = |(owner, _): &&(u32, u32)| *owner == handle;
        let numbers = self.sessions.iter().rev().filter(own);
        let numbers: Vec<u32> = numbers.map(|(_, number)| *number).take(2).collect();
        let (code, input) = if rng.u8(..5) == 0 {
            let (code, _) = RequestCode::ALL[rng.usize(..RequestCode::ALL.len())];
            let code = if rng.u8(..10) == 0 { RequestCode(rng.u32(..)) } else { code };
            (code, (0..rng.usize(..400)).map(|_| rng.u8(..)).collect())
        } else {
            requests::random_well_formed(rng, &numbers)
        };
        let room = [0, 23, 24, 100, 4096, 1 << 16, 1 << 16, 1 << 16][rng.usize(..8)];
        Action::Request(handle, code, input, room)
    }
}
