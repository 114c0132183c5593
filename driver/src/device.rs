//! What one device has between PrepareHardware and ReleaseHardware: the service, on all processors.
//!
//! Everything here runs at PASSIVE_LEVEL under the device's lock.

use crate::host::Host;
use crate::lock::WaitLock;
use crate::pool::{Pool, Zeroed};
use crate::status::Failed;
use crate::timer::Setting;
use crate::trace::{self, What};
use crate::wdf::{Owner, Timer};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use hal_profile::host::Processors;
use hal_profile::program::Scratch;
use hal_profile::service::{self, About, Completion, Service};
use hal_profile::session::{Client, Session};
use shared_types::request::{Access, RequestCode};
use shared_types::{NtStatus, ReplyHeader};
use wdk_sys::{PFN_WDF_TIMER, STATUS_INSUFFICIENT_RESOURCES};
use zerocopy::FromBytes;

/// Sessions that can be open at once.
const SESSIONS: usize = 7;
/// What all rings together may take.
const RING_BYTES_MAX: u64 = 256 << 20;
const ABOUT: About = About {
    answerer: concat!("halprof.sys ", env!("CARGO_PKG_VERSION")),
    modelled: false,
    ring_bytes_max: RING_BYTES_MAX,
};
/// The I/O manager has checked the handle's rights against those that the code names, before the
/// driver sees the request (IoControlCode's access bits; METHOD_BUFFERED, no FILE_ANY_ACCESS).
const GRANTED: [Access; 2] = [Access::Read, Access::Write];

/// In units of 100 ns.
const SECOND: i64 = 10_000_000;

/// The hardware that is ready, null for none: for debuggers.
pub(crate) static HARDWARE: AtomicPtr<Hardware> = AtomicPtr::new(null_mut());

/// A device.
pub(crate) struct Device {
    owner: Owner,
    /// Comes back to what Windows has refused: see [`Device::again`].
    again: Timer,
    /// That timer is set.
    waiting: AtomicBool,
    hardware: WaitLock<Option<Pool<Hardware>>>,
}

/// The service and all that it needs.
pub(crate) struct Hardware {
    service: Service<Self>,
}

impl service::Host for Hardware {
    type Processors = Host;
    type Sessions = Pool<Session>;
    type Scratch = Zeroed<Scratch>;
}

impl Device {
    /// A device without hardware yet.
    pub(crate) fn new(owner: Owner, again: PFN_WDF_TIMER) -> Result<Self, Failed> {
        Ok(Self {
            owner,
            again: Timer::new(owner, again)?,
            waiting: AtomicBool::new(false),
            hardware: WaitLock::new(owner, None)?,
        })
    }

    /// Looks at all processors, and is ready for requests; where something fails, nothing is left.
    pub(crate) fn prepare(&self) -> Result<(), Failed> {
        let mut held = self.hardware.hold();
        match Hardware::new(self.owner) {
            Ok(hardware) => {
                HARDWARE.store(hardware.place().as_ptr(), Ordering::Release);
                *held = Some(hardware);
                Ok(())
            }
            Err(failed) => {
                trace::add(What::NotReady, 0, failed.code().into(), 0);
                Err(failed)
            }
        }
    }

    /// Ends all sessions, and gives everything back. Does nothing where nothing is ready.
    pub(crate) fn release(&self) {
        let hardware = self.hardware.hold().take();
        drop(hardware);
    }

    /// In D0 again: the running session is armed.
    pub(crate) fn wake(&self) {
        trace::add(What::Awake, 0, 0, 0);
        self.with(|hardware| hardware.service.resume());
    }

    /// On the way out of D0, for the power state `target`: totals are read, counters stopped.
    pub(crate) fn sleep(&self, target: u32) {
        trace::add(What::Asleep, 0, target.into(), 0);
        self.with(|hardware| hardware.service.suspend());
    }

    /// Gone without warning: every session ends.
    pub(crate) fn surprise_removed(&self) {
        trace::add(What::SurpriseRemoved, 0, 0, 0);
        self.with(|hardware| hardware.service.end_all());
    }

    /// A processor was added.
    pub(crate) fn processor_added(&self, index: usize) {
        self.with(|hardware| {
            let added = hardware.service.processors().add(index);
            let status = added.err().map_or(0, Failed::code);
            trace::add(What::ProcessorAdded, 0, index as u64, status.into());
            if added.is_ok() {
                hardware.service.processor_added(index);
            }
        });
    }

    /// A second has passed since Windows has kept the counters of a session by thread.
    pub(crate) fn again(&self) {
        self.waiting.store(false, Ordering::Relaxed);
        self.with(|hardware| hardware.service.ask_again());
    }

    /// A handle was closed, for whatever cause.
    pub(crate) fn handle_closed(&self, handle: u64) {
        trace::add(What::Closed, 0, handle, 0);
        self.with(|hardware| hardware.service.handle_closed(handle));
    }

    /// Answers a request: see [`Service::handle`].
    pub(crate) fn request(
        &self,
        client: Client,
        code: u32,
        buffer: &mut [u8],
        input: usize,
        output: usize,
    ) -> Completion {
        let mut frequency = u64::MAX;
        let completion = self.with(|hardware| {
            frequency = hardware.service.processors().frequency();
            hardware
                .service
                .handle(client, &GRANTED, RequestCode(code), buffer, input, output)
        });
        let completion = completion.unwrap_or(NOT_READY);
        let error = refusal(&completion, buffer);
        if completion.status != NtStatus::SUCCESS || error != 0 {
            let status = completion.status.0;
            trace::refuse(client.process, code, status, error, frequency);
        }
        completion
    }

    /// Does `work` where the hardware is ready, and sets the timer as the service then wants it.
    fn with<R>(&self, work: impl FnOnce(&mut Hardware) -> R) -> Option<R> {
        let mut held = self.hardware.hold();
        let hardware = held.as_mut()?.first_mut()?;
        let result = work(hardware);
        let setting = hardware.timer();
        hardware.service.processors().set_timer(setting);
        // It goes on as it is set: requests must not put it off.
        if hardware.service.keeps_threads() && !self.waiting.swap(true, Ordering::Relaxed) {
            self.again.start(SECOND);
        }
        Some(result)
    }
}

const NOT_READY: Completion = Completion {
    status: NtStatus::DEVICE_NOT_READY,
    length: 0,
};

/// The error code in a reply's header, 0 where there is none.
fn refusal(completion: &Completion, buffer: &[u8]) -> u32 {
    let reply = buffer.get(..completion.length).unwrap_or_default();
    ReplyHeader::read_from_prefix(reply).map_or(0, |(header, _)| header.error)
}

impl Drop for Hardware {
    fn drop(&mut self) {
        self.service.end_all();
        HARDWARE.store(null_mut(), Ordering::Release);
        trace::add(What::Released, 0, 0, 0);
    }
}

impl Hardware {
    fn new(owner: Owner) -> Result<Pool<Self>, Failed> {
        let none = Failed(STATUS_INSUFFICIENT_RESOURCES);
        let host = Host::new(owner)?;
        let sessions = Pool::zeroed(SESSIONS).ok_or(none)?;
        let scratch = Zeroed::new().ok_or(none)?;
        let (frequency, count) = (host.frequency(), host.count() as u64);
        let hardware = Pool::one(|| Self {
            service: Service::new(host, sessions, scratch, ABOUT),
        });
        trace::add(What::Ready, 0, count, frequency);
        hardware.ok_or(none)
    }

    /// How the timer has to be set.
    fn timer(&self) -> Option<Setting> {
        let timer = self.service.timer()?;
        Some(Setting {
            period: timer.period,
            precise: timer.precise,
        })
    }
}
