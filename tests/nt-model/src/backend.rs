//! The shipped driver as the backend of the scenarios that it shares with the service in process.

use crate::device::{Device, File};
use crate::kernel;
use crate::rules::Violation;
use hal_profile::run::overflow::Interrupted;
use hal_profile::service::Timer;
use halprof_tests::backend::Backend;
use halprof_tests::driver;
use shared_types::NtStatus;
use shared_types::request::{Access, RequestCode};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::load::workload::Workload;

/// The order of everything that Windows does not document.
const SEED: u64 = 1;
/// The calls of a START that samples before it asks for the rings: the counters and the handler.
const BEFORE_RINGS: u64 = 2;
/// The handler of someone else, which is never called.
const ANOTHERS_HANDLER: u64 = 1;

impl Backend for Device {
    type Handle = File;
    type Violation = Violation;

    const RANDOM_RUNS: u64 = 10;

    /// The driver has the interfaces of all processors, so that one file runs every scenario.
    fn started(leaves: &[Leaves]) -> Self {
        let file = driver::with_every_interface().expect("cargo xtask sys");
        let mut device = Self::new(&file, leaves, SEED).expect("a machine");
        let status = device.start().unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(status, 0, "the driver does not start");
        device
    }

    fn open(&mut self, process: u32, rights: &[Access]) -> Result<File, Violation> {
        Self::open(self, process, rights)
    }

    fn close(&mut self, handle: File) -> Result<(), Violation> {
        Self::close(self, &handle)
    }

    fn request(
        &mut self,
        handle: &File,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(NtStatus, usize), Violation> {
        self.device_control(handle, code, input, output)
    }

    fn begin(&mut self, workload: &Workload) {
        Self::begin(self, workload);
    }

    fn advance(&mut self, nanoseconds: u64) -> Result<bool, Violation> {
        Self::advance(self, nanoseconds)
    }

    fn elapsed_ns(&mut self) -> u64 {
        Self::elapsed_ns(self)
    }

    fn sleep(&mut self) -> Result<(), Violation> {
        self.suspend()
    }

    fn lose_registers(&mut self) -> Result<(), Violation> {
        Self::lose_registers(self)
    }

    fn wake(&mut self) -> Result<(), Violation> {
        Self::wake(self)
    }

    fn add_processor(&mut self, leaves: &Leaves) -> Result<(), Violation> {
        Self::add_processor(self, leaves)
    }

    fn interrupt(&mut self, index: usize, interrupted: &Interrupted) -> Result<(), Violation> {
        self.machine.interrupt(index, *interrupted)
    }

    fn tick(&mut self) -> Result<(), Violation> {
        // Timers expire whether they are due or not: a scenario says when the timer ticks.
        kernel::expire_timers(&mut self.machine);
        self.machine.settle()
    }

    fn timer(&self) -> Option<Timer> {
        let kernel = &self.machine.kernel;
        let period = u32::try_from(kernel.timer_period()?).unwrap_or(u32::MAX);
        Some(Timer { period, precise: kernel.timer_is_precise()? })
    }

    fn cpus(&mut self) -> &mut [Cpu] {
        &mut self.machine.engine.bus().cpus
    }

    fn others_wrote_registers(&mut self) {
        Self::others_wrote_registers(self);
    }

    fn surprise_remove(&mut self) -> Result<(), Violation> {
        Self::surprise_remove(self)
    }

    fn remove(&mut self) -> Result<(), Violation> {
        Self::remove(self)
    }

    fn holds_counters(&self) -> bool {
        self.machine.kernel.counters.is_some()
    }

    fn take_counters(&mut self, taken: bool) {
        self.machine.kernel.counters_taken = taken;
    }

    fn take_interrupt(&mut self, taken: bool) {
        self.machine.kernel.interrupt_handler = taken.then_some(ANOTHERS_HANDLER);
    }

    fn keep_handler(&mut self, keeps: bool) {
        self.machine.kernel.keeps_handler = keeps;
    }

    fn profile_a_thread(&mut self, profiles: bool) {
        self.machine.kernel.profiling = profiles.into();
    }

    fn counted_by_thread(&mut self) -> Vec<u32> {
        self.machine.kernel.by_thread.iter().map(|&counter| counter as u32).collect()
    }

    fn hide_kernel_addresses(&mut self, file: &File) {
        self.machine.kernel.unprivileged.insert(file.process());
    }

    fn refuse_rings(&mut self, refused: bool) {
        self.machine.kernel.fail_after = refused.then_some(BEFORE_RINGS);
    }
}
