//! Sequences of what clients and the system do, generated from a seed and played on a machine.

use crate::load::{self, Request};
use fastrand::Rng;
use halprof_tests::backend::Backend;
use halprof_tests::requests::ALL_RIGHTS;
use shared_types::NtStatus;
use shared_types::request::session::{self, Opened};
use shared_types::request::{Access, RequestCode};
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
                machine.lose_registers()?;
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
    /// The position in [`load::LIFE`].
    next: usize,
}

impl<'a> Sequence<'a> {
    /// The sequence for a seed.
    pub fn new(seed: u64, workload: &'a Workload) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            workload,
            next_handle: 0,
            handles: Vec::new(),
            sessions: Vec::new(),
            next: load::LIFE.len() - 1,
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
            let action = self.next_action();
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

    fn next_action(&mut self) -> Action {
        match self.rng.u8(..20) {
            _ if self.handles.is_empty() => self.open(ALL_RIGHTS.to_vec()),
            0 => {
                let rights = ALL_RIGHTS.iter().copied();
                let rights = rights.filter(|_| self.rng.u8(..8) != 0).collect();
                self.open(rights)
            }
            1 => {
                let which = self.rng.usize(..self.handles.len());
                let number = self.handles.swap_remove(which);
                self.sessions.retain(|(handle, _)| *handle != number);
                Action::Close(number)
            }
            2 => Action::Begin,
            3 => Action::Sleep,
            4..=7 => Action::Advance(self.rng.u64(..2_000_000)),
            _ => self.request(),
        }
    }

    fn open(&mut self, rights: Vec<Access>) -> Action {
        let number = self.next_handle;
        self.next_handle += 1;
        self.handles.push(number);
        Action::Open(number, 1000 + number, rights)
    }

    /// A request of any handle, mostly of the latest one with a session: what a client that counts
    /// does next, any request, or one of an unknown code.
    fn request(&mut self) -> Action {
        let rng = &mut self.rng;
        let latest = self.sessions.last().filter(|_| rng.u8(..4) != 0).copied();
        let any = self.handles[rng.usize(..self.handles.len())];
        let handle = latest.map_or(any, |(handle, _)| handle);
        let own = self.sessions.iter().filter(|(owner, _)| *owner == handle);
        let numbers: Vec<u32> = own.map(|(_, number)| *number).collect();
        let Request { mut code, input, room } = match rng.u8(..3) {
            0 => load::any(rng, &numbers),
            _ => load::sensible(rng, &mut self.next, &numbers, false),
        };
        if rng.u8(..50) == 0 {
            code = RequestCode(rng.u32(..));
        }
        Action::Request(handle, code, input, room)
    }
}
