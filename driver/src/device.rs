//! The state of the device: between PrepareHardware and ReleaseHardware the service, on all
//! processors.
//!
//! Everything here runs at PASSIVE_LEVEL under the device's lock, but for the last clean-up: the
//! framework has then deleted the lock, and nothing else runs.

use crate::host::Host;
use crate::lock::WaitLock;
use crate::pool::{Pool, Zeroed};
use crate::reservation::Reservation;
use crate::status::Failed;
use crate::trace::{self, What};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use hal_profile::plan::program::Scratch;
use hal_profile::run::host::Processors;
use hal_profile::service::session::{Client, Session};
use hal_profile::service::{self, About, Completion, Service};
use shared_types::NtStatus;
use shared_types::request::counts::Count;
use shared_types::request::{Access, Request};
use wdk_sys::STATUS_INSUFFICIENT_RESOURCES;

/// Sessions that can be open at once.
const SESSIONS: usize = 7;
/// The most bytes that all rings together may take.
const RING_BYTES_MAX: u64 = 256 << 20;
const ABOUT: About = About {
    driver_name: concat!("halprof.sys ", env!("CARGO_PKG_VERSION")),
    modelled: false,
    ring_bytes_max: RING_BYTES_MAX,
};
/// Before the driver sees a request, the I/O manager has checked the handle's rights against those
/// that the code requires (IoControlCode's access bits; METHOD_BUFFERED, no FILE_ANY_ACCESS).
const GRANTED: [Access; 2] = [Access::Read, Access::Write];

/// The hardware that is ready, or null if there is none; for debuggers.
pub(crate) static HARDWARE: AtomicPtr<Hardware> = AtomicPtr::new(null_mut());

/// The device, whether or not it exists.
pub(crate) static DEVICE: Device =
    Device { state: WaitLock::new(State { hardware: None, unreleased: None }) };

/// A device.
pub(crate) struct Device {
    pub(crate) state: WaitLock<State>,
}

/// What changes with the device's hardware.
pub(crate) struct State {
    hardware: Option<Pool<Hardware>>,
    /// While there is no hardware: what Windows did not let go of when there was, with this device or
    /// an earlier one.
    unreleased: Option<Reservation>,
}

/// The service and everything that it needs.
pub(crate) struct Hardware {
    service: Service<Self>,
}

impl service::Host for Hardware {
    type Processors = Host;
    type Sessions = Pool<Session>;
    type Scratch = Zeroed<Scratch>;
    type Counts = Pool<Count>;

    fn counts(count: usize) -> Option<Pool<Count>> {
        Pool::zeroed(count)
    }
}

impl State {
    /// Last attempt to release what Windows still held. What it still holds is remembered for the
    /// device that is added next, if there is one before the driver is unloaded.
    pub(crate) fn clean_up(&mut self) {
        // ReleaseHardware comes first and has taken the hardware. Were it not so, timers would go
        // off in a driver that is unloaded.
        self.hardware = None;
        // mistake: not-asked-at-the-end
        self.unreleased = self.unreleased.take().and_then(Reservation::end);
    }
}

impl Device {
    /// Discovers all processors and becomes ready for requests; on failure, everything is undone.
    pub(crate) fn prepare(&self) -> Result<(), Failed> {
        let mut state = self.state.hold();
        match Hardware::new() {
            Ok(mut hardware) => {
                // For a debugger: no code follows the pointer.
                HARDWARE.store(hardware.place().as_ptr(), Ordering::Release);
                if let Some(hardware) = hardware.first_mut() {
                    hardware.service.processors().take_over_reservation(state.unreleased.take());
                }
                state.hardware = Some(hardware);
                Ok(())
            }
            Err(failed) => {
                trace::add(What::NotReady, 0, failed.code().into(), 0);
                Err(failed)
            }
        }
    }

    /// Ends all sessions and gives everything back. Does nothing if the hardware is not ready.
    pub(crate) fn release(&self) {
        let mut state = self.state.hold();
        let mut released = state.hardware.take();
        if let Some(hardware) = released.as_mut().and_then(|all| all.first_mut()) {
            // Sessions first: their counters stop before the handler and the reservation go.
            hardware.service.end_all();
            state.unreleased = hardware.service.processors().release();
        }
    }

    /// Called on return to D0: re-arms the running session.
    pub(crate) fn wake(&self) {
        trace::add(What::Awake, 0, 0, 0);
        self.with_hardware(|hardware| hardware.service.resume());
    }

    /// Called on leaving D0 for the power state `target`: reads totals and stops counters.
    pub(crate) fn sleep(&self, target: u32) {
        trace::add(What::Asleep, 0, target.into(), 0);
        self.with_hardware(|hardware| hardware.service.suspend());
    }

    /// A processor was added.
    pub(crate) fn processor_added(&self, index: usize) {
        self.with_hardware(|hardware| {
            // Without memory for its block nothing can be counted there, which ends what needs every
            // processor.
            let added = hardware.service.processors().add(index);
            let status = added.err().map_or(0, Failed::code);
            trace::add(What::ProcessorAdded, 0, index as u64, status.into());
            match added {
                Ok(()) => hardware.service.processor_added(index),
                Err(_) => hardware.service.processor_missing(index),
            }
        });
    }

    /// Called when a handle has been closed, for whatever reason.
    pub(crate) fn handle_closed(&self, handle: u64) {
        trace::add(What::Closed, 0, handle, 0);
        self.with_hardware(|hardware| hardware.service.handle_closed(handle));
    }

    /// Handles a request: see [`Service::handle`].
    pub(crate) fn request(
        &self,
        client: Client,
        request: Request,
        buffer: &mut [u8],
        input: usize,
        output: usize,
    ) -> Completion {
        let serve = |hardware: &mut Hardware| {
            hardware.service.handle(client, &GRANTED, request, buffer, input, output)
        };
        self.with_hardware(serve).unwrap_or(NOT_READY)
    }

    /// Runs `work` if the hardware is ready, then sets the timer as the service now requires.
    fn with_hardware<R>(&self, work: impl FnOnce(&mut Hardware) -> R) -> Option<R> {
        let mut state = self.state.hold();
        let hardware = state.hardware.as_mut()?.first_mut()?;
        let result = work(hardware);
        // After every call: each of them may begin or end a session.
        let setting = hardware.service.timer();
        hardware.service.processors().set_timer(setting);
        Some(result)
    }
}

const NOT_READY: Completion = Completion::failed(NtStatus::DEVICE_NOT_READY);

impl Drop for Hardware {
    fn drop(&mut self) {
        HARDWARE.store(null_mut(), Ordering::Release);
        trace::add(What::Released, 0, 0, 0);
    }
}

impl Hardware {
    fn new() -> Result<Pool<Self>, Failed> {
        let none = Failed(STATUS_INSUFFICIENT_RESOURCES);
        let host = Host::new()?;
        let sessions = Pool::zeroed(SESSIONS).ok_or(none)?;
        let scratch = Zeroed::new().ok_or(none)?;
        let (frequency, count) = (host.timestamp_frequency(), host.count() as u64);
        let hardware = Pool::one(|| Self { service: Service::new(host, sessions, scratch, ABOUT) });
        trace::add(What::Ready, 0, count, frequency);
        hardware.ok_or(none)
    }
}
