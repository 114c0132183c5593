//! A machine with one session that a test steps by hand: time, events and interrupts come only from
//! the test.
#![expect(
    clippy::missing_panics_doc,
    reason = "a request that a test makes is answered, or the test fails"
)]

use crate::backend::{Backend, unbroken};
use crate::requests::{bytes, configuration, header};
use crate::wire::{RawClient, Refusal, Reply, leaves};
use hal_profile::run::overflow::Interrupted;
use shared_types::request::RequestCode;
use shared_types::request::counts::{Changes, Count, SNAPSHOT, Snapshot};
use shared_types::request::events::{DRAIN_EVENTS, DrainedEvents};
use shared_types::request::machine::{From, PROCESSORS, Page, Processor as Described};
use shared_types::request::samples::{DRAIN, Drained, STATISTICS, Statistics};
use shared_types::request::session::{CONFIGURE, Configure, Configured, START, STOP, Spec};
use shared_types::{Branch, ErrorCode, Mode, Sample, SystemEvent};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::cpu::event::{Counts, Event};
use sim::{Accesses, Processor};
use zerocopy::FromBytes;

/// What an overflow interrupts.
const INTERRUPTED: Interrupted =
    Interrupted { ip: 0x1_4000_1000, mode: Mode::User, process: 4, thread: 8 };
/// Room for a reply: enough for every sample of a ring.
const ROOM: usize = 1 << 20;

/// A machine with one session. When it goes, nothing may be left, and no rule broken.
pub struct Stepped<B: Backend> {
    /// The session's client.
    pub client: RawClient<B>,
    /// What the next configuration has besides flags, sources and slice.
    pub settings: Configure,
    session: u32,
}

impl<B: Backend> Drop for Stepped<B> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.client.finish();
        }
    }
}

impl<B: Backend> Stepped<B> {
    /// On this many processors of a built-in model.
    #[must_use]
    pub fn new(model: &str, processors: usize) -> Self {
        Self::of(&leaves(model, processors))
    }

    /// On processors of these leaves.
    #[must_use]
    pub fn of(leaves: &[Leaves]) -> Self {
        Self::on(B::started(leaves))
    }

    /// On this machine.
    #[must_use]
    pub fn on(machine: B) -> Self {
        let mut client = RawClient::on(machine);
        let session = client.open();
        let settings = Configure { session, ring_samples: 64, ..configuration(0) };
        Self { client, settings, session }
    }

    /// Configures the session; returns the settled configuration.
    pub fn configure(&mut self, flags: u32, specs: &[Spec], slice_100ns: u32) -> Configured {
        self.send_configuration(flags, specs, slice_100ns).done()
    }

    /// The same, but may be refused.
    pub fn try_configure(
        &mut self,
        flags: u32,
        specs: &[Spec],
        slice_100ns: u32,
    ) -> Option<Refusal> {
        self.send_configuration(flags, specs, slice_100ns).refusal()
    }

    fn send_configuration(&mut self, flags: u32, specs: &[Spec], slice_100ns: u32) -> Reply {
        let mut head = Configure { sources: specs.len() as u32, slice_100ns, ..self.settings };
        head.header.flags = flags;
        self.client.send(CONFIGURE, &bytes(&head, specs))
    }

    /// A session that samples these sources in every slice, or counts them.
    pub fn run(&mut self, flags: u32, specs: &[Spec]) {
        self.configure(flags, specs, 0);
        self.start();
    }

    /// Starts the session.
    pub fn start(&mut self) {
        assert_eq!(self.try_start(), None);
    }

    /// The same, but may be refused.
    pub fn try_start(&mut self) -> Option<Refusal> {
        self.client.about(START, self.session).refusal()
    }

    /// Stops the session.
    pub fn stop(&mut self) {
        assert_eq!(self.try_stop(), None);
    }

    /// The same, but the session may have ended before: returns why, and where.
    pub fn try_stop(&mut self) -> Option<Refusal> {
        self.client.about(STOP, self.session).refusal()
    }

    /// The same; returns only why.
    pub fn ended_by(&mut self) -> Option<ErrorCode> {
        self.try_stop().map(|(error, ..)| error)
    }

    fn read(&mut self, code: RequestCode) -> Reply {
        let about = crate::wire::about(self.session);
        self.client.send_with_room(code, &about, ROOM)
    }

    /// Every count, processor by processor.
    pub fn snapshot(&mut self) -> Vec<Count> {
        self.read(SNAPSHOT).elements::<Snapshot, _>()
    }

    /// What others have changed.
    pub fn changes(&mut self) -> Changes {
        self.read(SNAPSHOT).done::<Snapshot>().changes
    }

    /// What each source has counted on each processor.
    pub fn counted(&mut self) -> Vec<u64> {
        self.snapshot().iter().map(|count| count.counted).collect()
    }

    /// All waiting samples.
    pub fn drain(&mut self) -> Vec<Sample> {
        self.read(DRAIN).elements::<Drained, _>()
    }

    /// All waiting samples, each with its branches, newest first; the rest of each sample must be
    /// zeros.
    pub fn drain_with_branches(&mut self) -> Vec<(Sample, Vec<Branch>)> {
        let reply = self.read(DRAIN);
        let head: Drained = reply.done();
        let size = size_of::<Sample>() + head.branches as usize * size_of::<Branch>();
        let entries = reply.bytes[size_of::<Drained>()..].chunks_exact(size);
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

    /// The description of a processor.
    pub fn described(&mut self, index: u32) -> Described {
        let request = From { header: header(0), first: index, reserved: 0 };
        self.client.send(PROCESSORS, &bytes(&request, &[])).elements::<Page, _>()[0]
    }

    /// All waiting system events.
    pub fn system_events(&mut self) -> Vec<SystemEvent> {
        self.read(DRAIN_EVENTS).elements::<DrainedEvents, _>()
    }

    /// The statistics of all samples.
    pub fn statistics(&mut self) -> Statistics {
        self.read(STATISTICS).done()
    }

    /// A processor, with the accesses that silicon refused on it.
    pub fn cpu(&mut self, index: usize) -> &mut Cpu {
        &mut self.client.model.cpus()[index]
    }

    /// The processor itself.
    pub fn processor(&mut self, index: usize) -> &mut Processor {
        self.client.processor(index)
    }

    /// Time passes on every processor, in nanoseconds.
    pub fn pass(&mut self, nanoseconds: u64) {
        for cpu in self.client.model.cpus() {
            let now = cpu.processor.timestamp();
            cpu.processor.set_timestamp(now + nanoseconds);
        }
    }

    /// One processor has had this many of each of these events since power-on, in user mode.
    pub fn retire(&mut self, index: usize, totals: &[(Event, u64)]) {
        let processor = self.processor(index);
        let mut counts: Counts = *processor.counts();
        for &(event, total) in totals {
            counts.set(event, total, total);
        }
        processor.retire(counts);
    }

    /// Takes the interrupt pending on one processor; returns whether there was one.
    pub fn take_interrupt(&mut self, index: usize) -> bool {
        let taken = self.processor(index).acknowledge_interrupt().is_some();
        if taken {
            self.interrupt(index, &INTERRUPTED);
        }
        taken
    }

    /// An overflow interrupt arrives at a processor.
    pub fn interrupt(&mut self, index: usize, interrupted: &Interrupted) {
        unbroken(self.client.model.interrupt(index, interrupted));
    }

    /// An interrupt that none of our counters has requested.
    pub fn spurious_interrupt(&mut self, index: usize) {
        self.interrupt(index, &INTERRUPTED);
    }

    /// The timer is due.
    pub fn tick(&mut self) {
        unbroken(self.client.model.tick());
    }

    /// The machine goes to sleep, with its registers as they are until [`Self::lose_registers`].
    pub fn sleep(&mut self) {
        unbroken(self.client.model.sleep());
    }

    /// Every register loses its contents, and Windows sets up its own again.
    pub fn lose_registers(&mut self) {
        unbroken(self.client.model.lose_registers());
    }

    /// The machine wakes.
    pub fn wake(&mut self) {
        unbroken(self.client.model.wake());
    }

    /// The register accesses that `work` costs one processor.
    pub fn accesses(&mut self, index: usize, work: impl FnOnce(&mut Self)) -> Accesses {
        self.processor(index).reset_accesses();
        work(self);
        self.processor(index).accesses()
    }
}
