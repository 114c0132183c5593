//! A client that uses the wire format directly, on a modelled machine.
//!
//! Anything unexpected is a panic: a client is part of a test.
#![expect(clippy::missing_panics_doc, reason = "said once, above")]

use crate::requests::{self, ALL_RIGHTS, header};
use shared_types::request::counts::{self, Count, Snapshot};
use shared_types::request::machine::{self, Machine};
use shared_types::request::session::{self, Configured, Opened, Spec, UsedInterval};
use shared_types::request::{Access, Plain, RequestCode};
use shared_types::{ErrorCode, NtStatus, ReplyHeader};
use sim::cpu::cpuid::Leaves;
use sim::machine::{Handle, Model};
use sim::{load::workload, machines::models};
use std::mem::size_of;
use zerocopy::FromBytes;

/// The process that [`Wire::new`] opens the device for.
pub const PROCESS: u32 = 77;
/// Longer than any reply that a test requests.
pub const AMPLE: usize = 1 << 17;

/// A modelled machine, and a handle to it with all rights.
#[derive(Debug)]
pub struct Wire {
    /// The machine.
    pub model: Model,
    /// The handle.
    pub handle: Handle,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: NtStatus,
    /// The bytes of the reply.
    pub bytes: Vec<u8>,
}

/// A refusal: the error, its subject and its detail.
pub type Refusal = (ErrorCode, u32, u64);

impl Reply {
    /// The head of a reply that must not be a refusal.
    #[must_use]
    pub fn done<T: FromBytes>(&self) -> T {
        assert_eq!(self.refusal(), None);
        let (value, _) = T::read_from_prefix(&self.bytes).unwrap_or_else(|_| panic!("too short"));
        value
    }

    /// The elements after the head of a reply that must not be a refusal.
    #[must_use]
    pub fn elements<H: FromBytes, T: FromBytes>(&self) -> Vec<T> {
        let _ = self.done::<H>();
        let elements = self.bytes[size_of::<H>()..].chunks_exact(size_of::<T>());
        assert!(elements.remainder().is_empty(), "half an element");
        elements.map(|bytes| T::read_from_bytes(bytes).unwrap_or_else(|_| panic!())).collect()
    }

    /// The refusal; `None` if the request was not refused.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        assert_eq!(self.status, NtStatus::SUCCESS);
        let (header, _) = ReplyHeader::read_from_prefix(&self.bytes).expect("a header");
        assert_eq!(header.size as usize, self.bytes.len(), "it tells its length");
        (header.error != 0).then(|| {
            let error = ErrorCode::from_wire(header.error).expect("a known error");
            assert_eq!(self.bytes.len(), size_of::<ReplyHeader>(), "{error:?} has a bare header");
            (error, header.subject, header.detail)
        })
    }

    /// The error of the refusal; `None` if the request was not refused.
    #[must_use]
    pub fn error(&self) -> Option<ErrorCode> {
        self.refusal().map(|(error, _, _)| error)
    }
}

impl Wire {
    /// This many processors of a built-in model.
    #[must_use]
    pub fn new(model: &str, processors: usize) -> Self {
        Self::on(Model::new(&leaves(model, processors)))
    }

    /// A client on this machine.
    #[must_use]
    pub fn on(mut model: Model) -> Self {
        let handle = model.open(PROCESS, ALL_RIGHTS);
        Self { model, handle }
    }

    /// Sends a request of this client.
    pub fn send(&mut self, code: RequestCode, input: &[u8]) -> Reply {
        self.send_by(self.handle, code, input, AMPLE)
    }

    /// Sends a request of any client, with room for a reply of this many bytes; checks that no byte
    /// beyond the reply is written.
    pub fn send_by(
        &mut self,
        handle: Handle,
        code: RequestCode,
        input: &[u8],
        room: usize,
    ) -> Reply {
        const CANARY: u8 = 0xA5;
        let mut output = vec![CANARY; room];
        let (status, length) = self.model.device_control(handle, code, input, &mut output);
        assert!(length <= room, "a reply longer than its room");
        assert!(output[length..].iter().all(|&byte| byte == CANARY), "written beyond the reply");
        output.truncate(length);
        Reply { status, bytes: output }
    }

    /// Another client with all rights.
    pub fn other(&mut self, process: u32) -> Handle {
        self.model.open(process, ALL_RIGHTS)
    }

    /// Opens a session that may see kernel mode and approximate sources.
    pub fn open(&mut self) -> u32 {
        self.open_by(self.handle)
    }

    /// The same for any client.
    pub fn open_by(&mut self, handle: Handle) -> u32 {
        let flags = session::KERNEL | shared_types::request::source::APPROXIMATE;
        let request = requests::bytes(&Plain { header: header(flags) }, &[]);
        let reply = self.send_by(handle, session::OPEN, &request, AMPLE);
        reply.done::<Opened>().session
    }

    /// A request whose only argument is a session.
    pub fn about(&mut self, code: RequestCode, session: u32) -> Reply {
        self.about_by(self.handle, code, session)
    }

    /// The same for any client.
    pub fn about_by(&mut self, handle: Handle, code: RequestCode, session: u32) -> Reply {
        self.send_by(handle, code, &about(session), AMPLE)
    }

    /// Configures for all processors, with intervals in events.
    pub fn configure(&mut self, session: u32, specs: &[Spec]) -> Vec<UsedInterval> {
        let request = requests::configure(session, 0, specs);
        self.send(session::CONFIGURE, &request).elements::<Configured, _>()
    }

    /// A running session that counts this source, or samples it.
    pub fn run(&mut self, spec: Spec, flags: u32) -> u32 {
        let number = self.open();
        let request = requests::configure(number, flags, &[spec]);
        let reply = self.send(session::CONFIGURE, &request);
        assert_eq!(reply.refusal(), None);
        assert_eq!(self.about(session::START, number).refusal(), None);
        number
    }

    /// Every processor's counts.
    pub fn snapshot(&mut self, session: u32) -> Vec<Vec<Count>> {
        let reply = self.about(counts::SNAPSHOT, session);
        rows(&reply)
    }

    /// Runs a workload from beginning to end.
    pub fn work(&mut self, text: &str) {
        self.model.begin(&workload::parse(text).expect("a workload"));
        while self.model.advance(u64::MAX / 4) {}
    }

    /// The machine's description of itself.
    pub fn machine(&mut self) -> Machine {
        let request = requests::bytes(&Plain { header: header(0) }, &[]);
        self.send(machine::DESCRIBE, &request).done()
    }

    /// A handle with only one right.
    pub fn with_right(&mut self, right: Access) -> Handle {
        self.model.open(PROCESS + 1, &[right])
    }
}

/// The counts of a reply, by processor.
#[must_use]
pub fn rows(reply: &Reply) -> Vec<Vec<Count>> {
    let sources = reply.done::<Snapshot>().sources as usize;
    let counts = reply.elements::<Snapshot, Count>();
    counts.chunks(sources).map(<[Count]>::to_vec).collect()
}

/// A request whose only argument is a session.
#[must_use]
pub fn about(session: u32) -> Vec<u8> {
    let request = session::Session { header: header(0), session, reserved: 0 };
    requests::bytes(&request, &[])
}

/// The leaves of this many processors of a built-in model.
#[must_use]
pub fn leaves(model: &str, processors: usize) -> Vec<Leaves> {
    let model = models::find(model).expect("a built-in model");
    models::repeat(&model.processors(), processors)
}
