//! A client that uses the wire format directly, on either backend.
//!
//! Anything unexpected is a panic: a client is part of a test.
#![expect(clippy::missing_panics_doc, reason = "said once, above")]

use crate::backend::{Backend, unbroken};
use crate::requests::{self, ALL_RIGHTS, header};
use hal_profile::run::overflow::Interrupted;
use shared_types::request::counts::{self, Count, Snapshot};
use shared_types::request::machine::{self, Machine};
use shared_types::request::samples::{self, Statistics};
use shared_types::request::session::{self, Configured, Opened, Spec, UsedInterval};
use shared_types::request::{Plain, RequestCode};
use shared_types::{ErrorCode, Mode, NtStatus, ReplyHeader};
use sim::Processor;
use sim::cpu::cpuid::Leaves;
use sim::machine::Model;
use sim::quirks::Quirks;
use sim::{load::workload, machines::models};
use std::mem::size_of;
use zerocopy::FromBytes;

/// The process that [`Wire::new`] opens the device for.
pub const PROCESS: u32 = 77;
/// Longer than any reply that a test requests.
pub const AMPLE: usize = 1 << 17;

/// A client with all rights, and the machine that it is a client of.
#[derive(Debug)]
pub struct RawClient<B: Backend> {
    /// The machine.
    pub model: B,
    /// The handle.
    pub handle: B::Handle,
}

/// A client of the service in process.
pub type Wire = RawClient<Model>;

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

impl<B: Backend> RawClient<B> {
    /// This many processors of a built-in model.
    #[must_use]
    pub fn new(model: &str, processors: usize) -> Self {
        Self::of(&leaves(model, processors))
    }

    /// These processors.
    #[must_use]
    pub fn of(leaves: &[Leaves]) -> Self {
        Self::on(B::started(leaves))
    }

    /// A client on this machine.
    #[must_use]
    pub fn on(mut model: B) -> Self {
        let handle = unbroken(model.open(PROCESS, ALL_RIGHTS));
        Self { model, handle }
    }

    /// Sends a request of this client.
    pub fn send(&mut self, code: RequestCode, input: &[u8]) -> Reply {
        self.send_by(&self.handle.clone(), code, input, AMPLE)
    }

    /// Sends a request of any client, with room for a reply of this many bytes; checks that no byte
    /// beyond the reply is written.
    pub fn send_by(
        &mut self,
        handle: &B::Handle,
        code: RequestCode,
        input: &[u8],
        room: usize,
    ) -> Reply {
        unbroken(self.try_send(handle, code, input, room))
    }

    /// The same; a rule that is broken meanwhile is returned.
    pub fn try_send(
        &mut self,
        handle: &B::Handle,
        code: RequestCode,
        input: &[u8],
        room: usize,
    ) -> Result<Reply, B::Violation> {
        const CANARY: u8 = 0xA5;
        let mut output = vec![CANARY; room];
        let (status, length) = self.model.request(handle, code, input, &mut output)?;
        assert!(length <= room, "a reply longer than its room");
        assert!(output[length..].iter().all(|&byte| byte == CANARY), "written beyond the reply");
        output.truncate(length);
        Ok(Reply { status, bytes: output })
    }

    /// Sends a request of this client, with room for a reply of this many bytes.
    pub fn send_with_room(&mut self, code: RequestCode, input: &[u8], room: usize) -> Reply {
        self.send_by(&self.handle.clone(), code, input, room)
    }

    /// Another client with all rights.
    pub fn other(&mut self, process: u32) -> B::Handle {
        unbroken(self.model.open(process, ALL_RIGHTS))
    }

    /// This client's process ends; from now on it is another one.
    pub fn replace_client(&mut self, process: u32) {
        let next = self.other(process);
        let ended = std::mem::replace(&mut self.handle, next);
        unbroken(self.model.close(ended));
    }

    /// Closes the handle and removes the device; nothing may be left, and no rule broken.
    pub fn end(mut self) {
        self.finish();
    }

    pub(crate) fn finish(&mut self) {
        unbroken(self.model.close(self.handle.clone()));
        unbroken(self.model.remove());
    }

    /// Opens a session that may see kernel mode and approximate sources.
    pub fn open(&mut self) -> u32 {
        self.open_by(&self.handle.clone())
    }

    /// The same for any client.
    pub fn open_by(&mut self, handle: &B::Handle) -> u32 {
        let flags = session::KERNEL | shared_types::request::source::APPROXIMATE;
        let reply = self.send_by(handle, session::OPEN, &plain(flags), AMPLE);
        reply.done::<Opened>().session
    }

    /// A request whose only argument is a session.
    pub fn about(&mut self, code: RequestCode, session: u32) -> Reply {
        self.about_by(&self.handle.clone(), code, session)
    }

    /// The same for any client.
    pub fn about_by(&mut self, handle: &B::Handle, code: RequestCode, session: u32) -> Reply {
        self.send_by(handle, code, &about(session), AMPLE)
    }

    /// A request about a session that must not be refused.
    pub fn granted(&mut self, code: RequestCode, session: u32) {
        assert_eq!(self.about(code, session).refusal(), None, "{code:?}");
    }

    /// Configures for all processors, with intervals in events.
    pub fn configure(&mut self, session: u32, specs: &[Spec]) -> Vec<UsedInterval> {
        let request = requests::configure(session, 0, specs);
        self.send(session::CONFIGURE, &request).elements::<Configured, _>()
    }

    /// A session that counts these sources, or samples them, not started.
    pub fn configured(&mut self, flags: u32, specs: &[Spec]) -> u32 {
        let number = self.open();
        let request = requests::configure(number, flags, specs);
        assert_eq!(self.send(session::CONFIGURE, &request).refusal(), None);
        number
    }

    /// A running session that counts this source, or samples it.
    pub fn run(&mut self, spec: Spec, flags: u32) -> u32 {
        let number = self.configured(flags, &[spec]);
        self.granted(session::START, number);
        number
    }

    /// Every processor's counts.
    pub fn snapshot(&mut self, session: u32) -> Vec<Vec<Count>> {
        rows(&self.about(counts::SNAPSHOT, session))
    }

    /// How many events a session of one source has counted on each processor.
    pub fn counted(&mut self, session: u32) -> Vec<u64> {
        self.snapshot(session).iter().map(|row| row[0].counted).collect()
    }

    /// The statistics of a session's samples.
    pub fn statistics(&mut self, session: u32) -> Statistics {
        self.about(samples::STATISTICS, session).done()
    }

    /// Begins a workload.
    pub fn begin(&mut self, text: &str) {
        self.model.begin(&workload::parse(text).expect("a workload"));
    }

    /// Runs it for this many nanoseconds; returns whether any of it is left.
    pub fn advance(&mut self, nanoseconds: u64) -> bool {
        unbroken(self.model.advance(nanoseconds))
    }

    /// Runs a workload from beginning to end.
    pub fn work(&mut self, text: &str) {
        self.begin(text);
        while self.advance(u64::MAX / 4) {}
    }

    /// The machine goes to sleep.
    pub fn sleep(&mut self) {
        unbroken(self.model.sleep());
    }

    /// It wakes.
    pub fn wake(&mut self) {
        unbroken(self.model.lose_registers());
        unbroken(self.model.wake());
    }

    /// An interrupt that no overflow has raised arrives at a processor in kernel mode.
    pub fn spurious_interrupt(&mut self, index: usize) {
        let idle = Interrupted { ip: 0, mode: Mode::Kernel, process: 0, thread: 0 };
        unbroken(self.model.interrupt(index, &idle));
    }

    /// A processor is added.
    pub fn add_processor(&mut self, leaves: &Leaves) {
        unbroken(self.model.add_processor(leaves));
    }

    /// A processor, to look at its registers or to disturb them.
    pub fn processor(&mut self, index: usize) -> &mut Processor {
        &mut self.model.cpus()[index].processor
    }

    /// A register of a processor, which must have it.
    pub fn read(&mut self, index: usize, msr: u32) -> u64 {
        let read = self.processor(index).rdmsr(msr);
        read.unwrap_or_else(|fault| panic!("{msr:#x}: {fault:?}"))
    }

    /// Writes a register, which must take the value.
    pub fn write(&mut self, index: usize, msr: u32, value: u64) {
        let written = self.processor(index).wrmsr(msr, value);
        written.unwrap_or_else(|fault| panic!("{msr:#x}: {fault:?}"));
    }

    /// The machine's description of itself.
    pub fn machine(&mut self) -> Machine {
        self.send(machine::DESCRIBE, &plain(0)).done()
    }
}

/// A request without arguments.
#[must_use]
pub fn plain(flags: u32) -> Vec<u8> {
    requests::bytes(&Plain { header: header(flags) }, &[])
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

/// The leaves of a built-in model's first processor.
#[must_use]
pub fn first(model: &str) -> Leaves {
    leaves(model, 1).remove(0)
}

/// The same processor with these quirks, as `quirks=` takes them.
#[must_use]
pub fn with_quirks(leaves: &Leaves, quirks: &str) -> Leaves {
    leaves.with_quirks(Quirks::parse(quirks).expect("quirks"))
}

/// The leaves of this many processors of a built-in model.
#[must_use]
pub fn leaves(model: &str, processors: usize) -> Vec<Leaves> {
    let model = models::find(model).expect("a built-in model");
    models::repeat(&model.processors(), processors)
}
