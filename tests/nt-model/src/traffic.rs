//! What clients and the system do concurrently, in an order and at moments that a seed decides.
//!
//! Requests, handle closes, sleep, added processors and removal are under way together, each in a
//! thread of the machine. After a sequence everything is as it was before: see [`Traffic::play`].

use crate::device::pnp::{D3, D3_FINAL, failed};
use crate::device::{Device, File, Submitted};
use crate::kernel::PROCESSOR_CALLBACK;
use crate::kmdf::{self, power};
use crate::load::{self, Request};
use crate::machine::{Fingerprint, SYSTEM, ThreadId};
use crate::rules::{Rule, Violation};
use fastrand::Rng;
use hal_profile::cpu::machine::CR4_PCE;
use halprof_tests::requests::{self, ALL_RIGHTS};
use shared_types::request::machine::{self, Register};
use shared_types::request::samples::Drained;
use shared_types::request::session::{self, Opened};
use shared_types::request::{Plain, RequestCode, rdpmc, samples, threads};
use shared_types::{NtStatus, ReplyHeader};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::load::workload::Workload;
use sim::quirks::{Behaviour, Quirks};
use std::collections::VecDeque;
use zerocopy::FromBytes;

/// The most handles that are open at once.
const CLIENTS: usize = 4;
/// The most requests of one client that are under way at once: its threads.
const THREADS: usize = 3;
/// The most processors that are added to one machine.
const ADDED: usize = 2;
/// The number of slices without coming to rest that breaks [`Rule::Endless`].
const SLICES: u64 = 5_000_000;

/// Something that begins.
#[derive(Clone, Debug)]
pub enum Action {
    /// A client opens the device.
    Open,
    /// A client's request begins: code, bytes, room for the reply.
    Request(usize, RequestCode, Vec<u8>, usize),
    /// A client closes its handle, whatever it has under way.
    Close(usize),
    /// A client's process ends: its waiting requests are cancelled, then its handle is closed.
    Kill(usize),
    /// The machine sleeps and wakes.
    Sleep,
    /// The device is stopped and started again, to rebalance resources.
    Restart,
    /// A processor is added.
    Add,
    /// The device disappears without warning.
    Surprise,
    /// A workload begins.
    Begin,
    /// It goes on for this many nanoseconds.
    Advance(u64),
    /// A call that the driver makes fails, after this many others.
    Fault(u64),
    /// A thread begins to profile itself, or no thread does any more.
    Profile(bool),
}

/// A client with a handle.
struct Client {
    file: File,
    sessions: Vec<u32>,
    pending: Vec<(u64, RequestCode)>,
    /// Its position in [`load::LIFE`].
    next: usize,
    /// Its handle is being closed.
    closing: bool,
}

/// A step of something that takes several.
enum Step {
    /// A function of the driver is called with these arguments.
    Call(&'static str, u64, Vec<u64>),
    /// One of the device's PnP or power callbacks is called, with its arguments after the device.
    Power(u64, Vec<u64>),
    /// All registers are lost, as soon as every processor can halt.
    Lose,
    /// The callback for added processors is called with this context, before the processor exists
    /// or after.
    Tell(u64, u64, bool),
    /// The processor now exists.
    Join(Box<Cpu>),
    /// The waiting requests of a file are cancelled.
    Cancel(u64),
    /// Waits until every request of a file is completed.
    Completed(u64),
    /// A file object is deleted.
    Delete(u64),
    /// Memory of the kernel is freed.
    Free(u64),
}

/// Steps that happen one after the other.
#[derive(Default)]
struct Lane {
    steps: VecDeque<Step>,
    thread: Option<ThreadId>,
    /// The power callback that the thread runs; 0 for none.
    callback: u64,
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.thread.is_none()
    }
}

/// The totals of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Requests that were completed.
    pub requests: u64,
    /// How many of these succeeded, with no error in the reply.
    pub granted: u64,
    /// How many of these were cancelled.
    pub cancelled: u64,
    /// Samples that were read.
    pub samples: u64,
    /// The branches that they came with, empty ones included.
    pub branches: u64,
    /// How often sessions that count by thread were asked for their counters, and had them.
    pub by_thread: u64,
    /// How often sessions came to hold RDPMC.
    pub allowed: u64,
    /// A hash of all replies, in order.
    pub replies: Fingerprint,
}

/// What must be the same before and after a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    pool: u64,
    processors: Vec<Controls>,
}

/// That of one processor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Controls {
    registers: Vec<(u32, u64)>,
    quirks: Quirks,
}

/// A sequence being played.
pub struct Traffic<'a> {
    device: &'a mut Device,
    rng: Rng,
    workload: &'a Workload,
    spare: &'a Leaves,
    /// Sessions also record branches, count by thread and hold RDPMC.
    features: bool,
    clients: Vec<Client>,
    lanes: Vec<Lane>,
    told: Told,
    gone: bool,
    /// Whether a processor was added, or the device was stopped and started again: pool may differ.
    pool_differs: bool,
    /// What the registers were when the machine last woke.
    woken: Option<Level>,
    process: u32,
}

/// The lane of sleep, wake and removal, which the PnP manager performs one after the other.
const POWER: usize = 0;
/// The lane of added processors.
const PROCESSORS: usize = 1;

impl<'a> Traffic<'a> {
    /// The sequence for a seed, on a device that is started and has nothing under way. Processors
    /// like `spare` may be added. `features`: sessions also record branches, count by thread and
    /// hold RDPMC.
    pub fn new(
        device: &'a mut Device,
        seed: u64,
        workload: &'a Workload,
        spare: &'a Leaves,
        features: bool,
    ) -> Self {
        device.machine.disturbed = true;
        device.machine.rng.seed(seed ^ 0x5EED);
        Self {
            device,
            rng: Rng::with_seed(seed),
            workload,
            spare,
            features,
            clients: Vec::new(),
            lanes: vec![Lane::default(), Lane::default()],
            told: Told::default(),
            gone: false,
            pool_differs: false,
            woken: None,
            process: 1000,
        }
    }

    /// Plays this many actions, lets everything end, closes every handle, and compares: pool is
    /// back at its level, no register has a bit of ours, no one holds the counters. A device that
    /// was removed is started again.
    pub fn play(
        mut self,
        actions: usize,
        mut tell: impl FnMut(&Action),
    ) -> Result<Told, Violation> {
        let before = level(self.device);
        self.device.begin(self.workload);
        for _ in 0..actions {
            let action = self.next_action();
            tell(&action);
            self.begin(action)?;
            let slices = [0, 4, 40, 400][self.rng.usize(..4)];
            self.go_on(slices)?;
        }
        self.device.machine.kernel.fail_after = None;
        self.device.machine.kernel.profiling = 0;
        self.finish()?;
        self.device.machine.disturbed = false;
        self.device.machine.settle()?;
        if !self.device.machine.kernel.by_thread.is_empty() {
            ask_what_is_left(self.device)?;
        }
        self.device.machine.check_nobody_waits()?;
        if self.gone {
            self.device.remove()?;
            let status = self.device.start()?;
            if status != 0 {
                let what = format!("the driver does not start again: {status:#x}");
                return Err(Violation::new(Rule::Alive, what));
            }
        }
        let mut before = before;
        if let Some(woken) = self.woken.take() {
            before.processors = woken.processors;
        }
        before.compare(
            &level(self.device),
            self.pool_differs || self.gone,
            &self.device.machine.may_be_masked(),
        )?;
        nothing_is_held(self.device)?;
        every_session_is_free(self.device)?;
        Ok(self.told)
    }

    fn next_action(&mut self) -> Action {
        let open: Vec<usize> =
            (0..self.clients.len()).filter(|&client| !self.clients[client].closing).collect();
        if open.is_empty() {
            return Action::Open;
        }
        let client = open[self.rng.usize(..open.len())];
        match self.rng.u8(..40) {
            0..=1 if open.len() < CLIENTS => Action::Open,
            2 => Action::Close(client),
            3 => Action::Kill(client),
            4 => Action::Sleep,
            5 if self.device.machine.kernel.added < ADDED => Action::Add,
            38 if self.rng.u8(..4) == 0 => Action::Restart,
            6 if self.rng.u8(..4) == 0 => Action::Surprise,
            7 => Action::Fault(self.rng.u64(..4)),
            8 => Action::Begin,
            9..=17 => Action::Advance(self.rng.u64(..1_000_000)),
            18..=36 if self.features && self.rng.u8(..5) == 0 => self.besides(client),
            request => {
                let of = &mut self.clients[client];
                let Request { code, input, room } = if (18..=36).contains(&request) {
                    load::sensible(&mut self.rng, &mut of.next, &of.sessions, self.features)
                } else {
                    load::any(&mut self.rng, &of.sessions)
                };
                Action::Request(client, code, input, room)
            }
        }
    }

    /// What a client does beside the requests of [`load::LIFE`]: RDPMC, the counters of its threads,
    /// and the threads themselves.
    fn besides(&mut self, client: usize) -> Action {
        match self.clients[client].sessions.last() {
            Some(&number) if self.rng.bool() => {
                let Request { code, input, room } = load::besides(&mut self.rng, number);
                Action::Request(client, code, input, room)
            }
            _ => Action::Profile(self.rng.bool()),
        }
    }

    fn begin(&mut self, action: Action) -> Result<(), Violation> {
        match action {
            Action::Open => {
                if !self.device.machine.framework.linked {
                    return Ok(());
                }
                self.process += 8;
                let file = self.device.open(self.process, ALL_RIGHTS)?;
                self.clients.push(Client {
                    file,
                    sessions: Vec::new(),
                    pending: Vec::new(),
                    next: load::LIFE.len() - 1,
                    closing: false,
                });
            }
            Action::Request(client, code, input, room) => {
                let client = &mut self.clients[client];
                if client.pending.len() < THREADS {
                    match self.device.submit(&client.file, code, &input, room)? {
                        Submitted::Queued(request) => client.pending.push((request, code)),
                        Submitted::Refused(status) => self.told.note(status, &[]),
                    }
                }
            }
            Action::Close(client) => self.close(client, false),
            Action::Kill(client) => self.close(client, true),
            Action::Sleep => self.sleep(),
            Action::Restart => self.restart(),
            Action::Add => self.add(),
            Action::Surprise => self.surprise(),
            Action::Begin => self.device.begin(self.workload),
            Action::Advance(nanoseconds) => {
                self.device.advance(nanoseconds)?;
            }
            Action::Fault(after) => self.device.machine.kernel.fail_after = Some(after),
            Action::Profile(on) => {
                let goes_on = !self.gone && self.lanes[POWER].is_idle();
                let kernel = &mut self.device.machine.kernel;
                kernel.profiling = usize::from(on && goes_on && !kernel.by_thread.is_empty());
            }
        }
        Ok(())
    }

    /// The handle is closed while requests may be under way. For a process that ends, its waiting
    /// requests are cancelled first, and it waits for the one that the driver has; a thread that
    /// closes a handle does not wait for the others (IRP_MJ_CLEANUP's page), and the framework
    /// cancels its file object's requests when EvtFileCleanup has returned. The file object is
    /// deleted when its last request is completed (IRP_MJ_CLOSE's page).
    fn close(&mut self, client: usize, killed: bool) {
        let client = &mut self.clients[client];
        client.closing = true;
        let file = client.file.object;
        let framework = &self.device.machine.framework;
        let cleanup = Step::Call("EvtFileCleanup", framework.file_cleanup, vec![file]);
        let close = Step::Call("EvtFileClose", framework.file_close, vec![file]);
        let cancel = Step::Cancel(file);
        let mut steps = VecDeque::new();
        if killed {
            steps.extend([cancel, Step::Completed(file), cleanup]);
        } else {
            steps.extend([cleanup, cancel]);
        }
        steps.extend([Step::Completed(file), close, Step::Delete(file)]);
        self.lanes.push(Lane { steps, ..Lane::default() });
    }

    fn sleep(&mut self) {
        if self.gone {
            return;
        }
        let steps = [
            Step::Power(power::D0_EXIT, vec![D3]),
            Step::Lose,
            Step::Power(power::D0_ENTRY, vec![D3]),
        ];
        self.lanes[POWER].steps.extend(steps);
    }

    /// PnP's query-stop is refused while a thread keeps the counters of a session that has ended; a
    /// start of a device that works stops it first without a query.
    fn restart(&mut self) {
        if self.gone || self.rng.bool() && !self.device.agrees_to_stop() {
            return;
        }
        self.pool_differs = true;
        let steps = [
            Step::Power(power::D0_EXIT, vec![D3_FINAL]),
            Step::Power(power::RELEASE, vec![0]),
            Step::Power(power::PREPARE, vec![0, 0]),
            Step::Power(power::D0_ENTRY, vec![D3_FINAL]),
        ];
        self.lanes[POWER].steps.extend(steps);
    }

    /// The device disappears: the driver is notified, the device leaves D0 and its hardware is
    /// released, while handles are open. It is removed when all are closed. The notification is not
    /// synchronized with the power callbacks (EvtDeviceSurpriseRemoval's page), so the seed
    /// chooses: at once, or in the power manager's order, where a sleeping device's driver is
    /// notified when the system is awake and before D0Entry.
    fn surprise(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        // What a thread keeps then stays reserved: `a_device_that_goes_by_surprise` in
        // tests/threads.rs.
        self.device.machine.kernel.profiling = 0;
        let told = Step::Power(power::SURPRISE, Vec::new());
        if self.rng.bool() {
            self.lanes.push(Lane { steps: VecDeque::from([told]), ..Lane::default() });
        } else {
            let steps = &mut self.lanes[POWER].steps;
            let wakes = |step: &Step| matches!(step, Step::Power(power::D0_ENTRY, _));
            let at = steps.iter().rposition(wakes).unwrap_or(steps.len());
            steps.insert(at, told);
        }
        let exit = Step::Power(power::D0_EXIT, vec![D3_FINAL]);
        let release = Step::Power(power::RELEASE, vec![0]);
        self.lanes[POWER].steps.extend([exit, release]);
        self.device.hardware_released();
    }

    /// A start or a wake-up has failed: the hardware is released at once, D0Exit is not called, and
    /// the device is removed.
    fn not_started(&mut self) {
        self.gone = true;
        self.device.machine.kernel.profiling = 0;
        let release = Step::Power(power::RELEASE, vec![0]);
        self.lanes[POWER].steps = VecDeque::from([release]);
        self.device.hardware_released();
    }

    fn add(&mut self) {
        let Some((callback, context)) = self.device.machine.kernel.processor_change else {
            return;
        };
        if !self.lanes[PROCESSORS].is_idle() {
            return;
        }
        self.device.machine.kernel.added += 1;
        self.pool_differs = true;
        for mut processor in sim::cpu::topology::processors(std::slice::from_ref(self.spare)) {
            processor.boot_windows();
            processor.set_timestamp(self.device.machine.now());
            self.lanes[PROCESSORS].steps.extend([
                Step::Tell(callback, context, true),
                Step::Join(Box::new(Cpu::new(processor))),
                Step::Tell(callback, context, false),
            ]);
        }
    }

    /// Runs at most this many slices.
    fn go_on(&mut self, slices: u64) -> Result<(), Violation> {
        for _ in 0..slices {
            let moved = self.go_on_in_lanes()?;
            if !self.device.machine.go_on()? && !moved {
                break;
            }
        }
        self.collect()
    }

    fn finish(&mut self) -> Result<(), Violation> {
        for client in 0..self.clients.len() {
            if !self.clients[client].closing {
                let killed = self.rng.bool();
                self.close(client, killed);
            }
        }
        for _ in 0..SLICES {
            let moved = self.go_on_in_lanes()?;
            if self.lanes.iter().all(Lane::is_idle) {
                return self.collect();
            }
            if !self.device.machine.go_on()? && !moved {
                self.device.machine.check_nobody_waits()?;
                let what = "something waits for a request that is not completed";
                return Err(Violation::new(Rule::Request, what));
            }
        }
        Err(Violation::new(Rule::Endless, "a sequence does not end"))
    }

    /// Performs the next step of each lane that can go on; returns whether any could.
    fn go_on_in_lanes(&mut self) -> Result<bool, Violation> {
        let mut moved = false;
        for index in 0..self.lanes.len() {
            let machine = &mut self.device.machine;
            let lane = &mut self.lanes[index];
            if let Some(thread) = lane.thread {
                let Some(status) = machine.result_of(thread) else {
                    continue;
                };
                lane.thread = None;
                let starts = [power::PREPARE, power::D0_ENTRY].contains(&lane.callback);
                if starts && failed(status) {
                    self.not_started();
                }
                moved = true;
                continue;
            }
            let can = match lane.steps.front() {
                None => false,
                Some(Step::Lose) => machine.can_halt(),
                Some(Step::Completed(file)) => !machine.framework.has_requests(*file),
                Some(_) => true,
            };
            if can && let Some(step) = lane.steps.pop_front() {
                moved = true;
                self.step(index, step)?;
            }
        }
        Ok(moved)
    }

    fn step(&mut self, lane: usize, step: Step) -> Result<(), Violation> {
        let machine = &mut self.device.machine;
        match step {
            Step::Call(_, 0, _) | Step::Completed(_) => {}
            Step::Call(name, function, arguments) => {
                let thread = machine
                    .spawn(name, function, &arguments, SYSTEM)
                    .map_err(|error| Violation::new(Rule::Unmodelled, error.to_string()))?;
                self.lanes[lane].thread = Some(thread);
                self.lanes[lane].callback = 0;
            }
            Step::Power(callback, more) => {
                let framework = &machine.framework;
                let Some(&function) = framework.power.get(&callback) else {
                    return Ok(());
                };
                let device = framework.device.unwrap_or(0);
                machine.framework.called.push((callback, more.clone()));
                let arguments = [&[device], &more[..]].concat();
                let name = "a PnP or power callback";
                let thread = machine.spawn_in_critical_region(name, function, &arguments)?;
                self.lanes[lane].thread = Some(thread);
                self.lanes[lane].callback = callback;
            }
            Step::Tell(callback, context, starting) => {
                if machine.kernel.processor_change.is_none() {
                    return Ok(());
                }
                let (change, arguments) = self.device.processor_change(context, starting)?;
                let call = Step::Call(PROCESSOR_CALLBACK, callback, arguments);
                let steps = &mut self.lanes[lane].steps;
                steps.push_front(Step::Free(change));
                steps.push_front(call);
            }
            Step::Lose => {
                self.device.lose_registers()?;
                let mut woken = level(self.device);
                woken.release_rdpmc();
                self.woken = Some(woken);
            }
            Step::Join(cpu) => machine.add_processor(*cpu),
            Step::Cancel(file) => machine.framework.cancel(file),
            Step::Delete(object) => {
                self.collect()?;
                kmdf::delete(&mut self.device.machine, object)?;
            }
            Step::Free(at) => machine.engine.bus().arena.free(at, 0)?,
        }
        Ok(())
    }

    /// Collects the replies of completed requests.
    fn collect(&mut self) -> Result<(), Violation> {
        for client in &mut self.clients {
            let framework = &self.device.machine.framework;
            let pending = std::mem::take(&mut client.pending);
            let (done, left) =
                pending.into_iter().partition(|(request, _)| framework.is_completed(*request));
            client.pending = left;
            let done: Vec<(u64, RequestCode)> = done;
            for (request, code) in done {
                let (status, reply) = self.device.finish_request(request)?;
                self.told.note(status, &reply);
                if code == session::OPEN
                    && let Ok((opened, _)) = Opened::read_from_prefix(&reply)
                    && opened.header.error == 0
                {
                    client.sessions.push(opened.session);
                }
                if code == samples::DRAIN
                    && let Ok((drained, _)) = Drained::read_from_prefix(&reply)
                    && drained.header.error == 0
                {
                    self.told.samples += u64::from(drained.count);
                    self.told.branches += u64::from(drained.count * drained.branches);
                }
                let granted = u64::from(granted(status, &reply));
                match code {
                    threads::THREADS => self.told.by_thread += granted,
                    rdpmc::ALLOW => self.told.allowed += granted,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl Told {
    /// Adds the totals of a later sequence.
    pub fn add(&mut self, later: &Self) {
        self.requests += later.requests;
        self.granted += later.granted;
        self.cancelled += later.cancelled;
        self.samples += later.samples;
        self.branches += later.branches;
        self.by_thread += later.by_thread;
        self.allowed += later.allowed;
        self.replies.add(&later.replies.0.to_le_bytes());
    }

    fn note(&mut self, status: NtStatus, reply: &[u8]) {
        const CANCELLED: u32 = 0xC000_0120;
        self.requests += 1;
        self.cancelled += u64::from(status.0 == CANCELLED);
        self.granted += u64::from(granted(status, reply));
        self.replies.add(&status.0.to_le_bytes());
        self.replies.add(reply);
    }
}

fn granted(status: NtStatus, reply: &[u8]) -> bool {
    let error = ReplyHeader::read_from_prefix(reply).map_or(1, |(header, _)| header.error);
    status == NtStatus::SUCCESS && error == 0
}

/// MSRs that select what is counted, start it, control the records of branches, or are the local
/// APIC's for overflows: all those that any modelled processor has (SDM, "Model-Specific Registers
/// (MSRs)"; APM, "MSR Cross-Reference").
const CONTROLS: &[(u32, u32, usize)] = &[
    (0x11, 1, 1),
    (0x186, 1, 8),
    (0x1C8, 1, 1),
    (DEBUGCTL, 1, 1),
    (0x360, 1, 18),
    (0x38D, 1, 1),
    (GLOBAL_CTRL, 1, 1),
    (0x3A0, 1, 0x42),
    (0x3F1, 1, 2),
    (0x14CE, 1, 2),
    (0xC000_010E, 1, 2),
    (0xC001_0000, 1, 4),
    (0xC001_0200, 2, 6),
    (AMD_GLOBAL_CTRL, 1, 1),
];
const DEBUGCTL: u32 = 0x1D9;
const GLOBAL_STATUS: u32 = 0x38E;
const AMD_GLOBAL_STATUS: u32 = 0xC000_0300;
/// CTR_FRZ, PMCFreeze.
const FROZEN: u64 = 1 << 59;
const GLOBAL_CTRL: u32 = 0x38F;
const AMD_GLOBAL_CTRL: u32 = 0xC000_0301;
/// CCCR.ACTIVE_THREAD, which is written as 11B (SDM, "CCCR MSRs").
const CCCR_THREAD: u64 = 3 << 16;
/// The local APIC's LVTPC: its offset in the page, and its MSR in x2APIC mode.
const LVTPC: u32 = 0x340;
const X2APIC_LVTPC: u32 = 0x834;
const LVTPC_MASK: u64 = 1 << 16;

/// The state that [`Level`] compares.
pub fn level(device: &mut Device) -> Level {
    let bus = device.machine.engine.bus();
    Level { pool: bus.arena.pool.0, processors: bus.cpus.iter_mut().map(controls).collect() }
}

fn controls(cpu: &mut Cpu) -> Controls {
    let quirks = cpu.processor.quirks();
    let processor = &mut cpu.processor;
    let mut found = Vec::new();
    for &(first, stride, count) in CONTROLS {
        for msr in (first..).step_by(stride as usize).take(count) {
            if let Ok(value) = processor.rdmsr(msr) {
                found.push((msr, value));
            }
        }
    }
    for msr in [GLOBAL_STATUS, AMD_GLOBAL_STATUS] {
        found.extend(processor.rdmsr(msr).map(|status| (msr, status & FROZEN)));
    }
    found.push((Register::CR4, processor.cr4()));
    let lvtpc = processor.rdmsr(X2APIC_LVTPC);
    let lvtpc = lvtpc.or_else(|_| processor.read_apic(LVTPC).map(u64::from));
    found.extend(lvtpc.map(|value| (LVTPC, value)));
    Controls { registers: found, quirks }
}

impl Level {
    /// CR4 survives sleep, with the PCE of a session that holds RDPMC: without one it is clear, as
    /// it was before the sequence.
    fn release_rdpmc(&mut self) {
        let registers = self.processors.iter_mut().flat_map(|one| &mut one.registers);
        for (_, value) in registers.filter(|(register, _)| *register == Register::CR4) {
            *value &= !CR4_PCE;
        }
    }

    /// Pool may have grown by what belongs to an added processor. The bits of a CCCR that must be
    /// written as ones may differ; everything else must be as it was.
    pub fn compare(
        &self,
        after: &Self,
        pool_differs: bool,
        storms: &[usize],
    ) -> Result<(), Violation> {
        if self.pool != after.pool && !pool_differs {
            let what = format!("{} bytes before a sequence, {} after", self.pool, after.pool);
            return Err(Violation::new(Rule::PoolLeak, what));
        }
        for (index, (before, after)) in self.processors.iter().zip(&after.processors).enumerate() {
            let quirks = after.quirks;
            for (&(msr, was), &(_, is)) in before.registers.iter().zip(&after.registers) {
                let may_differ = match msr {
                    0x360..0x372 => CCCR_THREAD,
                    LVTPC if storms.contains(&index) => LVTPC_MASK,
                    // A session that samples unmasks it, whoever has masked it before.
                    LVTPC => was & !is & LVTPC_MASK,
                    // Somebody else's overflow freezes at any time; up to version 3 it clears all bits.
                    GLOBAL_CTRL if quirks.has(Behaviour::FixedInterrupts) => was & !is,
                    // The counter was reserved, and so taken over.
                    0x186 | 0xC001_0000 | 0xC001_0200 if quirks.has(Behaviour::CountersOn) => {
                        was & !is
                    }
                    // Somebody else's freeze, on an added processor for which there was no memory.
                    GLOBAL_STATUS
                        if quirks.has(Behaviour::FixedInterrupts) && storms.contains(&index) =>
                    {
                        FROZEN
                    }
                    GLOBAL_STATUS | AMD_GLOBAL_STATUS => was & !is,
                    // Somebody has taken the records over.
                    DEBUGCTL | 0x1C8 | 0x14CE..=0x14CF | 0xC000_010E..=0xC000_010F
                        if quirks.has(Behaviour::BranchesChanged) =>
                    {
                        u64::MAX
                    }
                    _ => 0,
                };
                if (is ^ was) & !may_differ != 0 {
                    let what = format!("processor {index}: {msr:#x} was {was:#x} and is {is:#x}");
                    return Err(Violation::new(Rule::Left, what));
                }
            }
        }
        Ok(())
    }
}

/// Without a session, the driver holds no counters.
pub fn nothing_is_held(device: &Device) -> Result<(), Violation> {
    let kernel = &device.machine.kernel;
    let held = kernel.counters.is_some() || !kernel.by_thread.is_empty();
    if !held && kernel.interrupt_handler.is_none() {
        return Ok(());
    }
    Err(Violation::new(Rule::Left, "counters or handler are held though every handle is closed"))
}

/// DESCRIBE asks Windows again for what it had not let go of.
fn ask_what_is_left(device: &mut Device) -> Result<(), Violation> {
    let file = device.open(4, ALL_RIGHTS)?;
    let head = Plain { header: requests::header(0) };
    let input = requests::bytes(&head, &[]);
    let mut output = [0; size_of::<machine::Machine>()];
    device.device_control(&file, machine::DESCRIBE, &input, &mut output)?;
    device.close(&file)
}

/// With every handle closed, as many sessions as the limit allows can be opened.
pub fn every_session_is_free(device: &mut Device) -> Result<(), Violation> {
    const SESSIONS: usize = 7;
    let file = device.open(4, ALL_RIGHTS)?;
    let head = Plain { header: requests::header(session::KERNEL) };
    let input = requests::bytes(&head, &[]);
    for number in 0..SESSIONS {
        let mut output = [0; size_of::<Opened>()];
        let (status, _) = device.device_control(&file, session::OPEN, &input, &mut output)?;
        let error = Opened::read_from_bytes(&output).map_or(1, |opened| opened.header.error);
        if status != NtStatus::SUCCESS || error != 0 {
            let what = format!("{number} sessions can be opened though none is: {error}");
            return Err(Violation::new(Rule::Left, what));
        }
    }
    device.close(&file)
}
