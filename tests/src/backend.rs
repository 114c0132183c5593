//! Where a scenario runs: a machine with halprof on it, and what clients and Windows do to it.
//!
//! Two machines implement it: the service in process, here, and in nt-model the shipped
//! `halprof.sys`. The requests' bytes are the same on both.

use hal_profile::run::overflow::Interrupted;
use hal_profile::service::Timer;
use shared_types::NtStatus;
use shared_types::request::{Access, RequestCode};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::load::workload::Workload;
use sim::machine::{Handle, Model};
use std::fmt;

/// A machine with halprof on it.
pub trait Backend: Sized {
    /// A handle to the device.
    type Handle: Clone;
    /// A rule that was broken, such as an access that silicon refuses.
    type Violation: fmt::Display;

    /// How many random runs of a scenario take some seconds here.
    const RANDOM_RUNS: u64;

    /// The machine of these processors, with the device started.
    ///
    /// # Panics
    /// If the device does not start.
    fn started(leaves: &[Leaves]) -> Self;

    /// Opens the device for a client process with these rights.
    fn open(&mut self, process: u32, rights: &[Access]) -> Result<Self::Handle, Self::Violation>;

    /// Closes a handle, as the I/O manager does for a process that ends.
    fn close(&mut self, handle: Self::Handle) -> Result<(), Self::Violation>;

    /// One DeviceIoControl: the status it completes with, and the bytes written to `output`.
    fn request(
        &mut self,
        handle: &Self::Handle,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(NtStatus, usize), Self::Violation>;

    /// Begins a workload in place of one that has not finished.
    fn begin(&mut self, workload: &Workload);

    /// Runs it for at most this many nanoseconds; returns whether any of it is left.
    fn advance(&mut self, nanoseconds: u64) -> Result<bool, Self::Violation>;

    /// Modelled time since it began, in nanoseconds.
    fn elapsed_ns(&mut self) -> u64;

    /// Goes to sleep; clients run until [`Self::lose_registers`], and again before [`Self::wake`].
    fn sleep(&mut self) -> Result<(), Self::Violation>;

    /// Every register loses its contents, and Windows sets up its own again.
    fn lose_registers(&mut self) -> Result<(), Self::Violation>;

    /// Wakes; with its registers as they were if another driver has refused the sleep.
    fn wake(&mut self) -> Result<(), Self::Violation>;

    /// Adds a processor to the running machine, asleep or awake.
    fn add_processor(&mut self, leaves: &Leaves) -> Result<(), Self::Violation>;

    /// An overflow interrupt arrives at a processor, whether a counter has raised it or not.
    fn interrupt(&mut self, index: usize, interrupted: &Interrupted)
    -> Result<(), Self::Violation>;

    /// The timer that polls all counters and ends slices is due.
    fn tick(&mut self) -> Result<(), Self::Violation>;

    /// That timer, if it is set.
    fn timer(&self) -> Option<Timer>;

    /// The processors, to look at their registers or to disturb them.
    fn cpus(&mut self) -> &mut [Cpu];

    /// Someone else has written registers: what they hold now must be found there in the end.
    fn others_wrote_registers(&mut self) {}

    /// The device disappears while handles to it are open.
    fn surprise_remove(&mut self) -> Result<(), Self::Violation>;

    /// Removes the device; nothing of it may be left, and no rule may have been broken.
    fn remove(&mut self) -> Result<(), Self::Violation>;

    /// Whether halprof holds the counters for a session.
    fn holds_counters(&self) -> bool;

    /// Someone else reserves the counters, or releases them.
    fn take_counters(&mut self, taken: bool);

    /// Someone else registers the overflow handler, or removes it.
    fn take_interrupt(&mut self, taken: bool);

    /// Windows does not remove our overflow handler from now on, or does again.
    fn keep_handler(&mut self, keeps: bool);

    /// A thread begins to profile itself, or stops: meanwhile the list of counters that are
    /// accumulated for each thread cannot change.
    fn profile_a_thread(&mut self, profiles: bool);

    /// The general counters that are accumulated for each thread, in order.
    fn counted_by_thread(&mut self) -> Vec<u32>;

    /// Takes from a handle's process the privilege to see kernel addresses.
    fn hide_kernel_addresses(&mut self, handle: &Self::Handle);

    /// There is no memory for the sample rings of the next START, or there is again.
    fn refuse_rings(&mut self, refused: bool);
}

impl Backend for Model {
    type Handle = Handle;
    type Violation = String;

    const RANDOM_RUNS: u64 = 50;

    fn started(leaves: &[Leaves]) -> Self {
        Self::new(leaves)
    }

    fn open(&mut self, process: u32, rights: &[Access]) -> Result<Handle, String> {
        Ok(Self::open(self, process, rights))
    }

    fn close(&mut self, handle: Handle) -> Result<(), String> {
        Self::close(self, handle);
        Ok(())
    }

    fn request(
        &mut self,
        handle: &Handle,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(NtStatus, usize), String> {
        Ok(self.device_control(*handle, code, input, output))
    }

    fn begin(&mut self, workload: &Workload) {
        Self::begin(self, workload);
    }

    fn advance(&mut self, nanoseconds: u64) -> Result<bool, String> {
        Ok(Self::advance(self, nanoseconds))
    }

    fn elapsed_ns(&mut self) -> u64 {
        Self::elapsed_ns(self)
    }

    fn sleep(&mut self) -> Result<(), String> {
        Self::sleep(self);
        Ok(())
    }

    fn lose_registers(&mut self) -> Result<(), String> {
        Self::lose_registers(self);
        Ok(())
    }

    fn wake(&mut self) -> Result<(), String> {
        Self::wake(self);
        Ok(())
    }

    fn add_processor(&mut self, leaves: &Leaves) -> Result<(), String> {
        Self::add_processor(self, leaves);
        Ok(())
    }

    fn interrupt(&mut self, index: usize, interrupted: &Interrupted) -> Result<(), String> {
        self.host().interrupt(index, interrupted);
        Ok(())
    }

    fn tick(&mut self) -> Result<(), String> {
        Self::tick(self);
        Ok(())
    }

    fn timer(&self) -> Option<Timer> {
        Self::timer(self)
    }

    fn cpus(&mut self) -> &mut [Cpu] {
        &mut self.host().cpus
    }

    fn surprise_remove(&mut self) -> Result<(), String> {
        self.end_sessions();
        Ok(())
    }

    fn remove(&mut self) -> Result<(), String> {
        self.end_sessions();
        match &self.faults()[..] {
            [] => Ok(()),
            faults => Err(format!("silicon has refused {faults:x?}")),
        }
    }

    fn holds_counters(&self) -> bool {
        self.is_counting()
    }

    fn take_counters(&mut self, taken: bool) {
        self.host().counters_taken = taken;
    }

    fn take_interrupt(&mut self, taken: bool) {
        self.host().interrupt_taken = taken;
    }

    fn keep_handler(&mut self, keeps: bool) {
        self.host().keeps_handler = keeps;
    }

    fn profile_a_thread(&mut self, profiles: bool) {
        self.host().thread_profiles = profiles;
    }

    fn counted_by_thread(&mut self) -> Vec<u32> {
        self.host().by_thread.clone()
    }

    fn hide_kernel_addresses(&mut self, handle: &Handle) {
        Self::hide_kernel_addresses(self, *handle);
    }

    fn refuse_rings(&mut self, refused: bool) {
        self.host().ring_words_max = if refused { 0 } else { usize::MAX };
    }
}

/// The value; a broken rule fails the test.
///
/// # Panics
/// With the rule that was broken.
pub fn unbroken<T, V: fmt::Display>(result: Result<T, V>) -> T {
    result.unwrap_or_else(|violation| panic!("{violation}"))
}
