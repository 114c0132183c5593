//! The device: the service on a modelled machine that runs in real time.

use crate::settings::{Settings, name};
use hal_profile::service::About;
use shared_types::NtStatus;
use shared_types::request::{Access, RequestCode, session};
use sim::load::workload::{self, Workload};
use sim::machine::{Handle, Model};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

const LOG: &str = r"C:\halprof-driver.log";

/// As the shipped driver describes itself.
const ABOUT: About = About {
    driver_name: concat!("halprof.sys ", env!("CARGO_PKG_VERSION")),
    modelled: false,
    ring_bytes_max: 256 << 20,
};

const MACHINE: &str = "skylake,processors=2";
const ENDLESS: &str = "instructions=2000000000000000000,cycles=4000000000000000000,processors=all";

/// Adds a line to the log.
pub(crate) fn log(line: fmt::Arguments<'_>) {
    let file = OpenOptions::new().append(true).create(true).open(LOG);
    // A log that cannot be written makes the test that reads it fail.
    let _ = file.and_then(|mut file| writeln!(file, "{line}"));
}

/// What becomes of a request.
pub(crate) enum Answer {
    /// It is completed with this status, and so many bytes of output.
    Completed(NtStatus, usize),
    /// It waits until it is cancelled.
    Held,
}

pub(crate) struct Device {
    model: Model,
    workload: Workload,
    /// The workload begins with each START.
    begins_at_start: bool,
    since: Instant,
    done: Duration,
    /// By the address of the file object.
    open: BTreeMap<usize, Handle>,
}

impl Device {
    /// A device as the settings want it; the reason why that cannot be.
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let machine = settings.of("machine").unwrap_or(MACHINE);
        let machine = sim::machines::machine(machine, |path| std::fs::read(path));
        let machine = machine.map_err(|error| error.to_string())?;
        let workload = workload::parse(settings.of("workload").unwrap_or(ENDLESS));
        let workload = workload.map_err(|error| error.to_string())?;
        let begins_at_start = settings.of("begin") == Some("start");
        let mut model = Model::with_about(&machine.leaves, ABOUT);
        if !begins_at_start {
            model.begin(&workload);
        }
        Ok(Self {
            model,
            workload,
            begins_at_start,
            since: Instant::now(),
            done: Duration::ZERO,
            open: BTreeMap::new(),
        })
    }

    /// A handle is opened; Windows has checked its rights.
    pub(crate) fn open(&mut self, file: usize, process: u32) {
        let handle = self.model.open(process, &[Access::Read, Access::Write]);
        self.open.insert(file, handle);
    }

    /// The last handle of a file object is closed, or its process has ended.
    pub(crate) fn close(&mut self, file: usize) {
        if let Some(handle) = self.open.remove(&file) {
            self.model.close(handle);
        }
    }

    /// The device goes away, as for the shipped driver's ReleaseHardware.
    pub(crate) fn end_sessions(&mut self) {
        self.model.end_sessions();
    }

    /// One DeviceIoControl with METHOD_BUFFERED: `buffer` has the input, and gets the output.
    pub(crate) fn control(
        &mut self,
        file: usize,
        code: RequestCode,
        (input, output): (usize, usize),
        buffer: &mut [u8],
    ) -> Answer {
        let settings = Settings::read();
        let answer = self.answer(&settings, file, code, (input, output), buffer);
        let name = name(code);
        match answer {
            Answer::Held => log(format_args!("held {name}")),
            Answer::Completed(NtStatus(status), length) => {
                log(format_args!("{name} in {input} out {output}: {status:#x}, {length} bytes"));
            }
        }
        answer
    }

    fn answer(
        &mut self,
        settings: &Settings,
        file: usize,
        code: RequestCode,
        (input, output): (usize, usize),
        buffer: &mut [u8],
    ) -> Answer {
        if settings.holds(code) {
            return Answer::Held;
        }
        if let Some(milliseconds) = settings.delay_ms(code) {
            log(format_args!("delays {}", name(code)));
            std::thread::sleep(Duration::from_millis(milliseconds));
        }
        if let Some(status) = settings.failure(code) {
            return Answer::Completed(NtStatus(status), 0);
        }
        let Some(&handle) = self.open.get(&file) else {
            return Answer::Completed(NtStatus::INVALID_DEVICE_REQUEST, 0);
        };
        self.run_until_now();
        let request = buffer.get(..input).unwrap_or_default().to_vec();
        let output = buffer.get_mut(..output).unwrap_or_default();
        let (status, length) = self.model.device_control(handle, code, &request, output);
        if code == session::START && self.begins_at_start && status == NtStatus::SUCCESS {
            let workload = self.workload.clone();
            self.model.begin(&workload);
        }
        for fault in self.model.faults() {
            log(format_args!("fault: {fault}"));
        }
        if let Some((byte, bits)) = settings.flip(code)
            && let Some(byte) = output.get_mut(byte)
        {
            *byte ^= bits;
        }
        Answer::Completed(status, settings.cut(code).map_or(length, |most| length.min(most)))
    }

    /// Modelled time follows real time.
    fn run_until_now(&mut self) {
        let now = self.since.elapsed();
        let step = now.saturating_sub(self.done).as_nanos();
        self.model.advance(u64::try_from(step).unwrap_or(u64::MAX));
        self.done = now;
    }
}
