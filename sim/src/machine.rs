//! A whole modelled machine: processors, the service that the driver would run, and modelled time.

use crate::cpu::Cpu;
use crate::cpu::cpuid::Leaves;
use crate::cpu::fault::Fault;
use crate::cpu::processor::Processor;
use crate::cpu::topology::processors;
use crate::load::run::{Answering, Run};
use crate::load::workload::{ShortChange, Workload};
use crate::service_host::{Modelled, ServiceHost, zeroed};
use hal_profile::run::overflow::Interrupted;
use hal_profile::service::session::{Client, Session};
use hal_profile::service::{About, Service, Timer};
use shared_types::request::{Access, Request, RequestCode};
use shared_types::{Mode, NtStatus};
use std::collections::BTreeMap;
use std::fmt;
use zerocopy::FromZeros;

/// The number of sessions that can be open at once; the driver's number.
const SESSIONS: usize = 7;
/// Memory that all sample rings together may take, in bytes; as much as the driver's.
const RING_BYTES_MAX: u64 = 256 << 20;
/// How a modelled machine describes itself.
const MODELLED: About = About {
    driver_name: concat!("modelled machine (halprof ", env!("CARGO_PKG_VERSION"), ")"),
    modelled: true,
    ring_bytes_max: RING_BYTES_MAX,
};

/// A handle to the modelled device: what a file object is to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u64);

/// A modelled machine with the service on it.
pub struct Model {
    service: Service<Modelled>,
    handles: BTreeMap<Handle, Opened>,
    next_handle: u64,
    buffer: Vec<u8>,
    run: Option<Run>,
}

#[derive(Clone, Debug)]
struct Opened {
    process: u32,
    granted: Vec<Access>,
    kernel_addresses: bool,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("handles", &self.handles).finish_non_exhaustive()
    }
}

impl Model {
    /// A machine of these processors, as Windows leaves it after booting.
    pub fn new(leaves: &[Leaves]) -> Self {
        Self::with_sessions(leaves, SESSIONS)
    }

    /// The same with memory for this many sessions; with 0 it has no memory for counters at all.
    pub fn with_sessions(leaves: &[Leaves], sessions: usize) -> Self {
        Self::made(leaves, sessions, MODELLED)
    }

    /// The same, with a service that describes itself like this: as a driver would, to compare the
    /// two.
    pub fn with_about(leaves: &[Leaves], about: About) -> Self {
        Self::made(leaves, SESSIONS, about)
    }

    fn made(leaves: &[Leaves], sessions: usize, about: About) -> Self {
        let mut processors = processors(leaves);
        processors.iter_mut().for_each(Processor::boot_windows);
        let sessions = Session::new_vec_zeroed(sessions).unwrap_or_default();
        Self {
            service: Service::new(ServiceHost::new(processors), sessions, zeroed(), about),
            handles: BTreeMap::new(),
            next_handle: 1,
            buffer: Vec::new(),
            run: None,
        }
    }

    /// Opens the device for a client process with these rights.
    pub fn open(&mut self, process: u32, granted: &[Access]) -> Handle {
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.handles
            .insert(handle, Opened { process, granted: granted.to_vec(), kernel_addresses: true });
        handle
    }

    /// Takes from a handle's process the privilege to see kernel addresses.
    pub fn hide_kernel_addresses(&mut self, handle: Handle) {
        if let Some(opened) = self.handles.get_mut(&handle) {
            opened.kernel_addresses = false;
        }
    }

    /// Closes a handle, as the I/O manager does for a process that ends.
    pub fn close(&mut self, handle: Handle) {
        if self.handles.remove(&handle).is_some() {
            self.service.handle_closed(handle.0);
        }
    }

    /// One DeviceIoControl: the status it completes with, and the bytes written to `output`.
    pub fn device_control(
        &mut self,
        handle: Handle,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> (NtStatus, usize) {
        let Some(opened) = self.handles.get(&handle) else {
            return (NtStatus::ACCESS_DENIED, 0);
        };
        // The I/O manager checks the code's access bits before the driver sees the request.
        if !io_manager_grants(code, &opened.granted) {
            return (NtStatus::ACCESS_DENIED, 0);
        }
        let Some(request) = Request::decode(code) else {
            return (NtStatus::INVALID_DEVICE_REQUEST, 0);
        };
        let client = Client {
            handle: handle.0,
            process: opened.process,
            kernel_addresses: opened.kernel_addresses,
        };
        // METHOD_BUFFERED: one buffer serves input and output, as long as the longer of them.
        self.buffer.clear();
        self.buffer.extend_from_slice(input);
        self.buffer.resize(input.len().max(output.len()), 0);
        let completion = self.service.handle(
            client,
            &opened.granted,
            request,
            &mut self.buffer,
            input.len(),
            output.len(),
        );
        let length = completion.length.min(output.len());
        output[..length].copy_from_slice(&self.buffer[..length]);
        (completion.status, length)
    }

    /// Begins a workload on its processors, in place of one that has not finished.
    pub fn begin(&mut self, workload: &Workload) {
        self.run = Some(Run::begin(workload, &mut self.service));
    }

    /// Runs the workload for at most this many nanoseconds of its time on every processor. Returns
    /// whether any of it is left.
    pub fn advance(&mut self, nanoseconds: u64) -> bool {
        let run = self.run.as_mut();
        run.is_some_and(|run| run.advance(&mut self.service, nanoseconds))
    }

    /// Modelled time since the workload began, interrupts included.
    pub fn elapsed_ns(&mut self) -> u64 {
        let run = self.run.as_ref();
        run.map_or(0, |run| run.elapsed_ns(&mut self.service))
    }

    /// The processors and what Windows does for them, to look at or to disturb.
    pub fn host(&mut self) -> &mut ServiceHost {
        self.service.processors()
    }

    /// The accesses that silicon refused to the core: on a real machine each would have been a bug
    /// check.
    pub fn faults(&mut self) -> Vec<Fault> {
        let faults = |cpu: &Cpu| {
            let nmi = (cpu.processor.unclaimed_nmis() > 0).then_some(Fault::Nmi);
            cpu.faults.iter().copied().chain(nmi).collect::<Vec<_>>()
        };
        self.service.processors().cpus.iter().flat_map(faults).collect()
    }

    /// A processor, to look at its registers or to disturb them.
    pub fn processor(&mut self, index: usize) -> Option<&mut Processor> {
        self.service.processors().cpus.get_mut(index).map(|cpu| &mut cpu.processor)
    }

    /// An interrupt that no overflow has raised arrives on a processor, which does nothing else.
    pub fn spurious_interrupt(&mut self, index: usize) {
        let nothing = Interrupted { ip: 0, mode: Mode::Kernel, process: 0, thread: 0 };
        self.host().interrupt(index, &nothing);
    }

    /// Goes to sleep; the machine still answers requests, as a driver does on its way down.
    pub fn sleep(&mut self) {
        self.service.suspend();
    }

    /// All registers lose their contents but CR4, which Windows restores.
    pub fn lose_registers(&mut self) {
        for cpu in &mut self.service.processors().cpus {
            let (now, cr4) = (cpu.processor.timestamp(), cpu.processor.cr4());
            cpu.processor.reset();
            cpu.processor.set_timestamp(now);
            cpu.processor.set_cr4(cr4);
            cpu.processor.boot_windows();
        }
    }

    /// Wakes from [`Self::sleep`].
    pub fn wake(&mut self) {
        self.service.resume();
    }

    /// The timer that is set.
    #[must_use]
    pub fn timer(&self) -> Option<Timer> {
        self.service.timer()
    }

    /// Adds a processor to the running machine.
    pub fn add_processor(&mut self, leaves: &Leaves) {
        for mut processor in processors(std::slice::from_ref(leaves)) {
            processor.boot_windows();
            let host = self.service.processors();
            host.add(processor);
            let index = host.cpus.len() - 1;
            self.service.processor_added(index);
        }
    }

    /// Adds a processor for which the driver has no memory.
    pub fn add_processor_without_memory(&mut self) {
        let index = self.service.processors().cpus.len();
        self.service.processor_missing(index);
    }

    /// The timer that polls the counters is due on every processor.
    pub fn tick(&mut self) {
        let processors = self.service.processors();
        (0..processors.cpus.len()).for_each(|index| processors.tick(index));
    }

    /// The device is removed: every session ends.
    pub fn end_sessions(&mut self) {
        self.service.end_all();
    }

    /// Whether a session is running.
    pub fn is_counting(&self) -> bool {
        self.service.is_running()
    }
}

/// Whether the I/O manager passes a request on to the driver: the code's access bits name rights
/// that the handle must have been opened with ("Defining I/O Control Codes", Windows driver docs).
pub fn io_manager_grants(code: RequestCode, granted: &[Access]) -> bool {
    let needs = |bit: u32, right| code.0 >> 14 & bit == 0 || granted.contains(&right);
    needs(1, Access::Read) && needs(2, Access::Write)
}

impl Answering for Service<Modelled> {
    fn cpus(&mut self) -> &mut [Cpu] {
        &mut self.processors().cpus
    }

    fn timer_period(&self) -> Option<u32> {
        self.timer().map(|timer| timer.period)
    }

    fn interrupt(&mut self, index: usize, interrupted: &Interrupted) {
        self.processors().interrupt(index, interrupted);
    }

    fn tick(&mut self, index: usize) {
        self.processors().tick(index);
    }

    fn short(&mut self, change: ShortChange) {
        self.processors().short_changes.push(change);
    }
}
