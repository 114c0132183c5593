//! What clients and the system do concurrently, in an order and at moments that a seed decides.
//!
//! Requests, handle closes, sleep, added processors and removal are under way together, each in a
//! thread of the machine. After a sequence everything is as it was before: see [`Traffic::play`].

use crate::device::pnp::{D3, D3_FINAL, failed};
use crate::device::{Device, File, Submitted};
use crate::kernel::PROCESSOR_CALLBACK;
use crate::kmdf::{self, power};
use crate::load::{self, Action, Load};
use crate::machine::{Fingerprint, ThreadId};
use crate::rules::{Rule, Violation};
use halprof_tests::requests::{self, ALL_RIGHTS};
use halprof_tests::wire::{about, plain};
use shared_types::request::samples::Drained;
use shared_types::request::session::{self, Opened};
use shared_types::request::{RequestCode, rdpmc, samples, threads};
use shared_types::{NtStatus, ReplyHeader};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::load::workload::Workload;
use std::collections::{BTreeMap, VecDeque};
use zerocopy::FromBytes;

/// The most requests of one client that are under way at once: its threads.
const THREADS: usize = 3;
/// The most processors that are added to one machine.
const ADDED: usize = 2;
/// The number of slices without coming to rest that breaks [`Rule::Endless`].
const SLICES: u64 = 5_000_000;

/// A client's handle, with its requests that are under way.
struct Handle {
    file: File,
    pending: Vec<(u64, RequestCode)>,
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

/// What has happened in sequences, on one machine or on several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub sequences: u64,
    /// Requests that were completed.
    pub requests: u64,
    /// How many of these succeeded, with no error in the reply.
    pub granted: u64,
    /// How many of these were cancelled.
    pub cancelled: u64,
    pub samples: u64,
    /// The branches that they came with, empty ones included.
    pub branches: u64,
    /// How often sessions that count by thread were asked for their counters, and had them.
    pub by_thread: u64,
    /// How often sessions came to hold RDPMC.
    pub allowed: u64,
    /// Instructions of the driver that were executed.
    pub instructions: u64,
    /// Overflow interrupts that were delivered to it.
    pub interrupts: u64,
    /// Threads that had to wait for another's lock.
    pub contended: u64,
    /// Calls that were made to fail.
    pub faults: u64,
    /// Hashes of the order of all its calls and of all replies; of one machine only.
    pub history: [Fingerprint; 2],
}

impl Totals {
    /// Adds those of another machine.
    pub fn add(&mut self, other: &Self) {
        self.sequences += other.sequences;
        self.requests += other.requests;
        self.granted += other.granted;
        self.cancelled += other.cancelled;
        self.samples += other.samples;
        self.branches += other.branches;
        self.by_thread += other.by_thread;
        self.allowed += other.allowed;
        self.instructions += other.instructions;
        self.interrupts += other.interrupts;
        self.contended += other.contended;
        self.faults += other.faults;
    }

    fn note(&mut self, status: NtStatus, reply: &[u8]) {
        const CANCELLED: u32 = 0xC000_0120;
        self.requests += 1;
        self.cancelled += u64::from(status.0 == CANCELLED);
        self.granted += u64::from(granted(status, reply));
        self.history[1].add(&status.0.to_le_bytes());
        self.history[1].add(reply);
    }
}

/// A sequence being played.
pub struct Traffic<'a> {
    device: &'a mut Device,
    load: Load,
    workload: &'a Workload,
    spare: &'a Leaves,
    /// By the numbers of their clients, closed ones included.
    handles: BTreeMap<u32, Handle>,
    lanes: Vec<Lane>,
    totals: &'a mut Totals,
    gone: bool,
    /// Whether a processor was added, or the device was stopped and started again: pool may differ.
    pool_differs: bool,
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
        totals: &'a mut Totals,
    ) -> Self {
        device.machine.disturbed = true;
        device.machine.rng.seed(seed ^ 0x5EED);
        Self {
            device,
            load: Load::new(seed, features),
            workload,
            spare,
            handles: BTreeMap::new(),
            lanes: vec![Lane::default(), Lane::default()],
            totals,
            gone: false,
            pool_differs: false,
        }
    }

    /// Plays this many actions, lets everything end, closes every handle, and compares: pool is
    /// back at its level, no one holds the counters. A device that was removed is started again.
    pub fn play(mut self, actions: usize, mut tell: impl FnMut(&Action)) -> Result<(), Violation> {
        let pool = self.device.machine.engine.bus().arena.pool.0;
        self.device.begin(self.workload);
        for _ in 0..actions {
            let may_add = self.device.machine.kernel.added < ADDED;
            let action = self.load.next_action(may_add);
            tell(&action);
            self.begin(action)?;
            let slices = [0, 4, 40, 400][self.load.rng.usize(..4)];
            self.go_on(slices)?;
        }
        // The rest of this sequence must succeed: the checks below are about a driver at rest.
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
        let bus = self.device.machine.engine.bus();
        bus.registers.check_cr4(&bus.cpus)?;
        let after = bus.arena.pool.0;
        if after != pool && !self.pool_differs && !self.gone {
            let what = format!("{pool} bytes before a sequence, {after} after");
            return Err(Violation::new(Rule::PoolLeak, what));
        }
        nothing_is_held(self.device)?;
        self.totals.sequences += 1;
        every_session_is_free(self.device)
    }

    fn begin(&mut self, action: Action) -> Result<(), Violation> {
        match action {
            Action::Open(client) if !self.device.machine.framework.linked => {
                self.load.not_opened(client);
            }
            Action::Open(client) => {
                let file = self.device.open(load::process(client), ALL_RIGHTS)?;
                self.handles.insert(client, Handle { file, pending: Vec::new() });
            }
            Action::Request(client, code, input, room) => {
                let Some(handle) = self.handles.get_mut(&client) else {
                    return Ok(());
                };
                if handle.pending.len() < THREADS {
                    match self.device.submit(&handle.file, code, &input, room)? {
                        Submitted::Queued(request) => handle.pending.push((request, code)),
                        Submitted::Refused(status) => self.totals.note(status, &[]),
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
    fn close(&mut self, client: u32, killed: bool) {
        let Some(file) = self.handles.get(&client).map(|handle| handle.file.object) else {
            return;
        };
        let framework = &self.device.machine.framework.callbacks;
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
        self.lanes[POWER].steps.extend([
            Step::Power(power::D0_EXIT, vec![D3]),
            Step::Lose,
            Step::Power(power::D0_ENTRY, vec![D3]),
        ]);
    }

    /// PnP's query-stop is refused while a thread keeps the counters of a session that has ended; a
    /// start of a device that works stops it first without a query.
    fn restart(&mut self) {
        if self.gone || self.load.rng.bool() && !self.device.agrees_to_stop() {
            return;
        }
        self.pool_differs = true;
        self.lanes[POWER].steps.extend([
            Step::Power(power::D0_EXIT, vec![D3_FINAL]),
            Step::Power(power::RELEASE, vec![0]),
            Step::Power(power::PREPARE, vec![0, 0]),
            Step::Power(power::D0_ENTRY, vec![D3_FINAL]),
        ]);
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
        if self.load.rng.bool() {
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
        let release = Step::Power(power::RELEASE, vec![0]);
        self.lanes[POWER].steps = VecDeque::from([release]);
        self.gone = true;
        self.device.machine.kernel.profiling = 0;
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
        for cpu in self.device.machine.new_processors(std::slice::from_ref(self.spare)) {
            self.lanes[PROCESSORS].steps.extend([
                Step::Tell(callback, context, true),
                Step::Join(Box::new(cpu)),
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
        for client in self.load.clients() {
            let killed = self.load.rng.bool();
            self.close(client, killed);
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
                self.lanes[lane].thread = Some(machine.spawn(name, function, &arguments)?);
                self.lanes[lane].callback = 0;
            }
            Step::Power(callback, more) => {
                self.lanes[lane].thread = self.device.begin_power(callback, &more)?;
                self.lanes[lane].callback = callback;
            }
            Step::Tell(callback, context, starting) => {
                if machine.kernel.processor_change.is_none() {
                    return Ok(());
                }
                let index = machine.processors() - usize::from(!starting);
                let (change, arguments) = self.device.processor_change(context, index, starting)?;
                let call = Step::Call(PROCESSOR_CALLBACK, callback, arguments);
                let steps = &mut self.lanes[lane].steps;
                // The steps go to the front in reverse: the call comes first, and what it was given
                // is freed when it has returned.
                steps.push_front(Step::Free(change));
                steps.push_front(call);
            }
            Step::Lose => self.device.lose_registers()?,
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
        for (&client, handle) in &mut self.handles {
            let framework = &self.device.machine.framework;
            let completed =
                |(request, _): &mut (u64, RequestCode)| framework.is_completed(*request);
            let done: Vec<(u64, RequestCode)> = handle.pending.extract_if(.., completed).collect();
            for (request, code) in done {
                let (status, reply) = self.device.finish_request(request)?;
                self.totals.note(status, &reply);
                self.load.learn(client, code, &reply);
                if code == samples::DRAIN
                    && let Ok((drained, _)) = Drained::read_from_prefix(&reply)
                    && drained.header.error == 0
                {
                    self.totals.samples += u64::from(drained.count);
                    self.totals.branches += u64::from(drained.count * drained.branches);
                }
                let granted = u64::from(granted(status, &reply));
                match code {
                    threads::THREADS => self.totals.by_thread += granted,
                    rdpmc::ALLOW => self.totals.allowed += granted,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn granted(status: NtStatus, reply: &[u8]) -> bool {
    let error = ReplyHeader::read_from_prefix(reply).map_or(1, |(header, _)| header.error);
    status == NtStatus::SUCCESS && error == 0
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

/// START, of whatever session and refused or not, asks Windows again for what it had not let go of.
fn ask_what_is_left(device: &mut Device) -> Result<(), Violation> {
    const TOTAL_ISSUES: u32 = 2;
    let file = device.open(4, ALL_RIGHTS)?;
    let mut opened = [0; size_of::<Opened>()];
    device.device_control(&file, session::OPEN, &plain(session::KERNEL), &mut opened)?;
    let number = Opened::read_from_bytes(&opened).map_or(0, |opened| opened.session);
    let configure = requests::configure(number, 0, &[requests::spec(TOTAL_ISSUES)]);
    for (code, input) in [(session::CONFIGURE, configure), (session::START, about(number))] {
        device.device_control(&file, code, &input, &mut [0; 4096])?;
    }
    device.close(&file)
}

/// With every handle closed, as many sessions as the limit allows can be opened.
pub fn every_session_is_free(device: &mut Device) -> Result<(), Violation> {
    const SESSIONS: usize = 7;
    let file = device.open(4, ALL_RIGHTS)?;
    let input = plain(session::KERNEL);
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
