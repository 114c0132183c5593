//! Only the service, on modelled processors: no client, and no time passes except what a test lets
//! pass.
//!
//! For tests that count register accesses and allocations, and for tests that play the HAL
//! themselves.
#![expect(
    clippy::missing_panics_doc,
    reason = "a request that a test makes is answered, or the test fails"
)]

use crate::requests::{ALL_RIGHTS, bytes, header};
use hal_profile::plan::program::Scratch;
use hal_profile::run::host::Processors as _;
use hal_profile::run::overflow::Interrupted;
use hal_profile::service::session::{Client, Session};
use hal_profile::service::{About, Service};
use shared_types::request::counts::{Count, SNAPSHOT, Snapshot};
use shared_types::request::events::{DRAIN_EVENTS, DrainedEvents};
use shared_types::request::machine::{From, PROCESSORS, Page, Processor as Described};
use shared_types::request::samples::{DRAIN, Drained, STATISTICS, Statistics};
use shared_types::request::session::{
    CONFIGURE, Configure, Configured, KERNEL, OPEN, Opened, START, STOP, Session as OfSession, Spec,
};
use shared_types::request::{Plain, RequestCode};
use shared_types::{Branch, Mode, NtStatus, ReplyHeader, RequestHeader, Sample, SystemEvent};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::cpu::event::{Counts, Event};
use sim::service_host::{Modelled, ServiceHost};
use sim::{Accesses, Processor};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The size of the reply buffer: enough for any reply of these tests.
const BUFFER: usize = 1 << 20;
const CLIENT: Client = Client { handle: 1, process: 1, kernel_addresses: true };
/// What an interrupt interrupts.
const INTERRUPTED: Interrupted =
    Interrupted { ip: 0x1_4000_1000, mode: Mode::User, process: 4, thread: 8 };

/// A service with one session.
pub struct Bare {
    /// The service; its host has the processors.
    pub service: Service<Modelled>,
    /// The client that makes the requests.
    pub client: Client,
    /// The seed of the order of rotations, for the next configuration.
    pub slice_seed: u32,
    /// Branches recorded for each sample; 0 for none.
    pub branches: u16,
    /// Which branches are recorded: bits of `branch_filter`.
    pub branch_filter: u16,
    /// Samples that each ring holds; 0 for the default.
    pub ring_samples: u32,
    /// The processors, as the request has them: none stands for all.
    pub processors: [u64; 32],
    session: u32,
    buffer: Vec<u8>,
}

impl Bare {
    /// On this many processors of a built-in model, as Windows leaves them.
    #[must_use]
    pub fn new(model: &str, count: usize) -> Self {
        Self::booted(model, count, Processor::boot_windows)
    }

    /// The same, each processor left as `boot` does.
    #[must_use]
    pub fn booted(model: &str, count: usize, boot: impl Fn(&mut Processor)) -> Self {
        Self::made(model, count, 1 << 30, boot)
    }

    /// As Windows leaves it, with this much memory for all rings together.
    #[must_use]
    pub fn with_ring_bytes(model: &str, count: usize, ring_bytes_max: u64) -> Self {
        Self::made(model, count, ring_bytes_max, Processor::boot_windows)
    }

    /// On processors of these leaves, as Windows leaves them.
    #[must_use]
    pub fn of(leaves: &[Leaves]) -> Self {
        Self::on(leaves, 1 << 30, Processor::boot_windows)
    }

    fn made(model: &str, count: usize, ring_bytes_max: u64, boot: impl Fn(&mut Processor)) -> Self {
        let model = sim::machines::models::find(model).expect("a built-in model");
        let leaves = sim::machines::models::repeat(&model.processors(), count);
        Self::on(&leaves, ring_bytes_max, boot)
    }

    fn on(leaves: &[Leaves], ring_bytes_max: u64, boot: impl Fn(&mut Processor)) -> Self {
        let mut processors = sim::cpu::topology::processors(leaves);
        processors.iter_mut().for_each(boot);
        let about = About { driver_name: "test", modelled: true, ring_bytes_max };
        let sessions = Session::new_vec_zeroed(1).expect("memory");
        let scratch = Scratch::new_box_zeroed().expect("memory");
        let mut bare = Self {
            service: Service::new(ServiceHost::new(processors), sessions, scratch, about),
            client: CLIENT,
            slice_seed: 0,
            branches: 0,
            branch_filter: 0,
            ring_samples: 64,
            processors: [0; 32],
            session: 0,
            buffer: vec![0; BUFFER],
        };
        bare.session = bare.open();
        bare
    }

    fn open(&mut self) -> u32 {
        let request = Plain { header: header(KERNEL) };
        self.request(OPEN, &bytes(&request, &[]));
        let (opened, _) = Opened::read_from_prefix(&self.buffer).expect("a reply");
        opened.session
    }

    /// One request, which must be refused neither by its status nor in its reply; returns the
    /// reply's length.
    pub fn request(&mut self, code: RequestCode, input: &[u8]) -> usize {
        let reply = self.send(code, input);
        assert_eq!(reply.error, 0, "{code:?} is refused");
        reply.size as usize
    }

    /// The same; returns the whole reply.
    pub fn reply(&mut self, code: RequestCode, input: &[u8]) -> Vec<u8> {
        let length = self.request(code, input);
        self.buffer[..length].to_vec()
    }

    /// One request; returns its reply's header, which may refuse it.
    pub fn send(&mut self, code: RequestCode, input: &[u8]) -> ReplyHeader {
        self.buffer[..input.len()].copy_from_slice(input);
        let buffer = &mut self.buffer;
        let completion =
            self.service.handle(self.client, ALL_RIGHTS, code, buffer, input.len(), BUFFER);
        assert_eq!(completion.status, NtStatus::SUCCESS);
        let (reply, _) = ReplyHeader::read_from_prefix(&self.buffer).expect("a reply");
        assert_eq!(reply.size as usize, completion.length);
        reply
    }

    /// Configures the session on all processors; returns the settled configuration.
    pub fn configure(&mut self, flags: u32, specs: &[Spec], rotation: u32) -> Configured {
        let reply = self.try_configure(flags, specs, rotation);
        assert_eq!(reply.error, 0, "the configuration is refused");
        let (configured, _) = Configured::read_from_prefix(&self.buffer).expect("a reply");
        configured
    }

    /// The same, but may be refused; returns the reply's header.
    pub fn try_configure(&mut self, flags: u32, specs: &[Spec], rotation: u32) -> ReplyHeader {
        let head = Configure {
            header: header(flags),
            session: self.session,
            sources: specs.len() as u32,
            slice_100ns: rotation,
            ring_samples: self.ring_samples,
            slice_seed: self.slice_seed,
            branches: self.branches,
            branch_filter: self.branch_filter,
            processors: self.processors,
        };
        self.send(CONFIGURE, &bytes(&head, specs))
    }

    /// A request about the session; returns the reply's length.
    pub fn about_session(&mut self, code: RequestCode) -> usize {
        self.request(code, self.session_request().as_bytes())
    }

    /// The same, but may be refused; returns the reply's header.
    pub fn try_about_session(&mut self, code: RequestCode) -> ReplyHeader {
        self.send(code, self.session_request().as_bytes())
    }

    /// Starts the session, or is refused; returns the reply.
    pub fn try_start(&mut self) -> ReplyHeader {
        self.try_about_session(START)
    }

    fn session_request(&self) -> OfSession {
        OfSession {
            header: RequestHeader::new(size_of::<OfSession>(), 0),
            session: self.session,
            reserved: 0,
        }
    }

    /// Starts the session.
    pub fn start(&mut self) {
        self.about_session(START);
    }

    /// Stops the session.
    pub fn stop(&mut self) {
        self.about_session(STOP);
    }

    /// Every count, processor by processor.
    pub fn snapshot(&mut self) -> Vec<Count> {
        let length = self.about_session(SNAPSHOT);
        self.elements(size_of::<Snapshot>(), length)
    }

    /// All waiting samples.
    pub fn drain(&mut self) -> Vec<Sample> {
        let length = self.about_session(DRAIN);
        self.elements(size_of::<Drained>(), length)
    }

    /// All waiting samples, each with its branches, newest first; the rest of each sample must be
    /// zeros.
    pub fn drain_with_branches(&mut self) -> Vec<(Sample, Vec<Branch>)> {
        let length = self.about_session(DRAIN);
        let (head, entries) = Drained::read_from_prefix(&self.buffer[..length]).expect("a reply");
        let size = size_of::<Sample>() + head.branches as usize * size_of::<Branch>();
        let entries = entries.chunks_exact(size);
        assert_eq!(entries.len(), head.count as usize);
        let parts = entries.map(|entry| {
            let (sample, rest) = Sample::read_from_prefix(entry).expect("a sample");
            let (valid, others) = rest.split_at(size_of::<Branch>() * usize::from(sample.branches));
            assert!(others.iter().all(|&byte| byte == 0));
            let branches = valid.chunks_exact(size_of::<Branch>());
            let read = |bytes| Branch::read_from_bytes(bytes).expect("a branch");
            (sample, branches.map(read).collect())
        });
        parts.collect()
    }

    /// The descriptions of all processors.
    pub fn described(&mut self) -> Vec<Described> {
        let request = From { header: header(0), first: 0, reserved: 0 };
        let length = self.request(PROCESSORS, &bytes(&request, &[]));
        self.elements(size_of::<Page>(), length)
    }

    /// All waiting system events.
    pub fn system_events(&mut self) -> Vec<SystemEvent> {
        let length = self.about_session(DRAIN_EVENTS);
        self.elements(size_of::<DrainedEvents>(), length)
    }

    /// The statistics of all samples.
    pub fn statistics(&mut self) -> Statistics {
        self.about_session(STATISTICS);
        let (statistics, _) = Statistics::read_from_prefix(&self.buffer).expect("a reply");
        statistics
    }

    fn elements<E: FromBytes>(&self, from: usize, to: usize) -> Vec<E> {
        let bytes = self.buffer[from..to].chunks_exact(size_of::<E>());
        bytes.map(|bytes| E::read_from_bytes(bytes).expect("an element")).collect()
    }

    /// A processor, with the accesses that silicon refused on it.
    pub fn cpu(&mut self, index: usize) -> &mut Cpu {
        &mut self.service.processors().cpus[index]
    }

    /// One processor has had this many of each of these events since power-on, in user mode.
    pub fn retire(&mut self, index: usize, totals: &[(Event, u64)]) {
        let processor = &mut self.cpu(index).processor;
        let mut counts: Counts = *processor.counts();
        for &(event, total) in totals {
            counts.set(event, total, total);
        }
        processor.retire(counts);
    }

    /// Takes the interrupt pending on one processor; returns whether there was one.
    pub fn take_interrupt(&mut self, index: usize) -> bool {
        let taken = self.cpu(index).processor.acknowledge_interrupt().is_some();
        if taken {
            self.service.processors().interrupt(index, &INTERRUPTED);
        }
        taken
    }

    /// An interrupt that none of our counters has requested.
    pub fn spurious_interrupt(&mut self, index: usize) {
        self.service.processors().interrupt(index, &INTERRUPTED);
    }

    /// The register accesses that `work` costs one processor.
    pub fn accesses(&mut self, index: usize, work: impl FnOnce(&mut Self)) -> Accesses {
        self.cpu(index).processor.reset_accesses();
        work(self);
        assert_eq!(self.cpu(index).faults, []);
        self.cpu(index).processor.accesses()
    }

    /// The number of processors.
    #[must_use]
    pub fn processors(&mut self) -> usize {
        self.service.processors().count()
    }
}
