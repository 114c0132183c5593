//! What the PnP and power managers do with the driver: load, start, stop, sleep, wake, shut down,
//! remove, unload, and add processors.
//!
//! The order of a device's callbacks is that of "PnP and Power Management Scenarios"; each runs at
//! PASSIVE_LEVEL in a critical region.

use super::Device;
use crate::kernel::{self, number_of};
use crate::kmdf::{self, power};
use crate::machine::ThreadId;
use crate::rules::{Rule, Violation};
use sim::cpu::cpuid::Leaves;

/// WdfPowerDeviceD3: the system sleeps.
pub const D3: u64 = 4;
/// WdfPowerDeviceD3Final: for good, or because the device is stopped.
pub const D3_FINAL: u64 = 5;
/// KeProcessorAddStartNotify and KeProcessorAddCompleteNotify.
const ADD_START: u32 = 0;
const ADD_COMPLETE: u32 = 1;
/// The size of a DRIVER_OBJECT (wdm.h, x64).
const DRIVER_OBJECT: usize = 0x150;
/// A value that stands for a WDFDRIVER.
const DRIVER: u64 = 0x1000;
/// The START IRP's status, whatever D0Entry's own is (PnpEventHardwareAvailablePowerPolicyFailed of
/// KMDF's published source).
pub const DEVICE_POWER_FAILURE: u32 = 0xC000_009E;

/// The state that the driver has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Not in memory.
    Unloaded,
    /// DriverEntry has succeeded.
    Loaded,
    /// There is a device without hardware: not started, stopped, or removed by surprise.
    Added,
    /// PrepareHardware has succeeded; the device is not in D0 and will not be without a start.
    Prepared,
    /// In D3, while the system sleeps.
    Asleep,
    /// In D0.
    Working,
}

/// NT_SUCCESS is false.
pub(crate) const fn failed(status: u64) -> bool {
    (status as u32).cast_signed() < 0
}

impl Device {
    /// Loads the driver, adds its device and starts it, as far as that succeeds; returns the last
    /// status.
    pub fn start(&mut self) -> Result<u32, Violation> {
        for step in [Self::load, Self::add, Self::start_device] {
            let status = step(self)?;
            if failed(status.into()) {
                return Ok(status);
            }
        }
        Ok(0)
    }

    pub fn load(&mut self) -> Result<u32, Violation> {
        // A second load finds the image's data as the file has it, and not as the first run left
        // it.
        for (at, bytes) in &self.writable {
            self.machine.engine.write(*at, bytes);
        }
        let entry = self.machine.kernel.entry;
        let driver = self.machine.framework.driver_object;
        self.machine.engine.write(driver, &[0; DRIVER_OBJECT]);
        let path = self.registry_path()?;
        let status = self.machine.call("DriverEntry", entry, &[driver, path])?;
        self.machine.engine.bus().arena.free(path, 0)?;
        if !failed(status) {
            self.stage = Stage::Loaded;
        }
        Ok(status as u32)
    }

    /// Adds its device. If that fails, what was created of it is deleted after the callback has
    /// returned (EvtDriverDeviceAdd's page).
    pub fn add(&mut self) -> Result<u32, Violation> {
        let status = self.call_device_add()?;
        if failed(status.into()) {
            self.delete_device()?;
        } else {
            self.stage = Stage::Added;
        }
        Ok(status)
    }

    /// Adds another device while the first exists; returns the status that refuses it.
    pub fn add_another(&mut self) -> Result<u32, Violation> {
        self.call_device_add()
    }

    fn call_device_add(&mut self) -> Result<u32, Violation> {
        let add = self.machine.framework.device_add;
        self.machine.framework.begin_init();
        let arguments = [DRIVER, kmdf::INIT];
        let status = self.machine.call("EvtDriverDeviceAdd", add, &arguments)?;
        Ok(status as u32)
    }

    /// Starts the device, for the first time or after [`Self::stop`]. If the bus fails that, nothing
    /// is called. If PrepareHardware or D0Entry fails, ReleaseHardware is called at once, and D0Exit is
    /// not (their pages).
    ///
    /// The first start enables the interface, whose failure nobody looks at
    /// (FxDeviceInterface::SetState), and then registers with WMI: if that fails, the device leaves D0
    /// again (PnpEventEnableInterfaces).
    pub fn start_device(&mut self) -> Result<u32, Violation> {
        if let Some(status) = self.bus_fails_start.take() {
            return Ok(status);
        }
        self.machine.framework.started = true;
        let status = self.power(power::PREPARE, &[0, 0])?;
        if failed(status) {
            self.release_hardware()?;
            return Ok(status as u32);
        }
        if failed(self.enter_d0(D3_FINAL)?) {
            self.release_hardware()?;
            return Ok(DEVICE_POWER_FAILURE);
        }
        let framework = &mut self.machine.framework;
        if std::mem::replace(&mut framework.published, true) {
            return Ok(0);
        }
        framework.interface_enabled = !self.interface_fails;
        if let Some(status) = self.wmi_fails.take() {
            framework.interface_enabled = false;
            self.stop()?;
            return Ok(status);
        }
        Ok(0)
    }

    fn enter_d0(&mut self, from: u64) -> Result<u64, Violation> {
        let status = self.power(power::D0_ENTRY, &[from])?;
        let status = self.d0_entry_answers.take().map_or(status, u64::from);
        if !failed(status) {
            self.stage = Stage::Working;
        }
        Ok(status)
    }

    fn leave_d0(&mut self, target: u64) -> Result<(), Violation> {
        self.power(power::D0_EXIT, &[target])?;
        self.stage = match target {
            D3 => Stage::Asleep,
            _ => Stage::Prepared,
        };
        Ok(())
    }

    fn release_hardware(&mut self) -> Result<(), Violation> {
        self.power(power::RELEASE, &[0])?;
        self.stage = Stage::Added;
        Ok(())
    }

    /// Whether the framework agrees to stop or remove the device (QUERY_STOP, QUERY_REMOVE).
    pub fn agrees_to_stop(&self) -> bool {
        self.machine.framework.stays == 0
    }

    /// The device is started although it is: it is stopped first, and nobody is asked.
    pub fn start_again(&mut self) -> Result<u32, Violation> {
        self.stop()?;
        self.start_device()
    }

    /// Stops the device, as the PnP manager does to rebalance resources: handles, interface and
    /// link remain.
    pub fn stop(&mut self) -> Result<(), Violation> {
        self.leave_d0(D3_FINAL)?;
        self.release_hardware()
    }

    /// The system shuts down: the device leaves D0 for good, its hardware is not released, and open
    /// handles stay open.
    ///
    /// Windows sends no REMOVE after that: the framework would wait for ever.
    pub fn shut_down(&mut self) -> Result<(), Violation> {
        self.leave_d0(D3_FINAL)?;
        self.is_off = true;
        self.check_registers()
    }

    /// Calls one of the device's PnP or power callbacks, if it has one.
    fn power(&mut self, callback: u64, more: &[u64]) -> Result<u64, Violation> {
        match self.begin_power(callback, more)? {
            Some(thread) => self.machine.run_until_done(thread),
            None => Ok(0),
        }
    }

    /// Begins such a call, in a critical region; the arguments are those after the device.
    pub(crate) fn begin_power(
        &mut self,
        callback: u64,
        more: &[u64],
    ) -> Result<Option<ThreadId>, Violation> {
        if callback == power::PREPARE {
            let bus = self.machine.engine.bus();
            bus.registers.device_starts(&mut bus.cpus);
        }
        let framework = &mut self.machine.framework;
        let Some(&function) = framework.callbacks.power.get(&callback) else {
            return Ok(None);
        };
        framework.called.push((callback, more.to_vec()));
        let arguments = [&[framework.device.unwrap_or(0)], more].concat();
        let name = "a PnP or power callback";
        self.machine.spawn_in_critical_region(name, function, &arguments).map(Some)
    }

    /// The system goes to sleep (S3): the device leaves D0, then every register is lost.
    pub fn sleep(&mut self) -> Result<(), Violation> {
        self.suspend()?;
        self.lose_registers()
    }

    /// The device leaves D0 for sleep. A program that may execute RDPMC does so again before D0Entry,
    /// so nothing may have changed in CR4.
    pub fn suspend(&mut self) -> Result<(), Violation> {
        let before = self.cr4s();
        self.leave_d0(D3)?;
        let after = self.cr4s();
        if before != after {
            let what = format!("CR4 is {after:x?} while the machine sleeps, not {before:x?}");
            return Err(Violation::new(Rule::BitsLeft, what));
        }
        Ok(())
    }

    fn cr4s(&mut self) -> Vec<u64> {
        let cpus = &self.machine.engine.bus().cpus;
        cpus.iter().map(|cpu| cpu.processor.cr4()).collect()
    }

    /// The system wakes, and the device with it. Clients run as soon as the system is awake, which
    /// is before this: a request between [`Self::sleep`] and this call comes from such a client. Whether
    /// the bus has powered the device up, nobody looks (FxPkgFdo::RaiseDevicePowerCompletion). If
    /// D0Entry fails, the hardware is released, and then the device is removed by surprise.
    pub fn wake(&mut self) -> Result<(), Violation> {
        if failed(self.enter_d0(D3)?) {
            self.release_hardware()?;
            self.power(power::SURPRISE, &[])?;
        }
        Ok(())
    }

    /// The device disappears without warning, while handles to it are open. One that is asleep
    /// wakes first. Until the last handle is closed and [`Self::remove`] is called, its name is
    /// taken.
    pub fn surprise_remove(&mut self) -> Result<(), Violation> {
        self.power(power::SURPRISE, &[])?;
        self.release()
    }

    /// The device leaves D0 and its hardware is released, unless that has already happened; after
    /// this it cannot be found. A device that has never started has no hardware to release.
    fn release(&mut self) -> Result<(), Violation> {
        // The framework waits for S0 before it takes hardware from a device that is asleep.
        if self.stage == Stage::Asleep {
            self.wake()?;
        }
        if self.stage == Stage::Working {
            self.leave_d0(D3_FINAL)?;
        }
        if self.stage > Stage::Added {
            self.release_hardware()?;
        }
        let framework = &mut self.machine.framework;
        (framework.interface_enabled, framework.linked) = (false, false);
        Ok(())
    }

    /// A processor is added while the device is being removed: its callback runs concurrently with
    /// what follows leaving D0, or with `released`, what follows the hardware's release.
    pub fn remove_while_adding(
        &mut self,
        leaves: &Leaves,
        released: bool,
    ) -> Result<(), Violation> {
        if released {
            self.release()?;
        } else {
            self.leave_d0(D3_FINAL)?;
        }
        let mut change = None;
        if let Some((callback, context)) = self.machine.kernel.processor_change {
            let index = self.machine.processors();
            for cpu in self.machine.new_processors(std::slice::from_ref(leaves)) {
                self.machine.add_processor(cpu);
            }
            let (at, arguments) = self.processor_change(context, index, false)?;
            self.machine.spawn(kernel::PROCESSOR_CALLBACK, callback, &arguments)?;
            change = Some(at);
        }
        self.remove()?;
        if let Some(at) = change {
            self.machine.engine.bus().arena.free(at, 0)?;
        }
        Ok(())
    }

    /// Removes the device. The driver stays in memory, and may be given a new one.
    pub fn remove_device(&mut self) -> Result<(), Violation> {
        if self.is_off {
            let what = "a device is removed after the system has shut down";
            return Err(Violation::new(Rule::Unmodelled, what));
        }
        self.release()?;
        if self.stage >= Stage::Added {
            self.delete_device()?;
            self.stage = Stage::Loaded;
        }
        Ok(())
    }

    /// Removes the device and unloads the driver, whatever its state; checks that nothing is left.
    pub fn remove(&mut self) -> Result<(), Violation> {
        self.remove_device()?;
        if self.stage >= Stage::Loaded {
            let driver = self.machine.framework.driver_object;
            // DRIVER_OBJECT.DriverUnload (wdm.h, x64).
            let unload = self.machine.engine.read_u64(driver + 0x68);
            if unload != 0 {
                self.machine.call("DriverUnload", unload, &[driver])?;
            }
        }
        self.stage = Stage::Unloaded;
        kmdf::forget_driver(&mut self.machine)?;
        self.check_nothing_left()
    }

    /// Callbacks that were called elsewhere have released the hardware, and the device can no
    /// longer be found.
    pub(crate) fn hardware_released(&mut self) {
        self.stage = Stage::Added;
        let framework = &mut self.machine.framework;
        (framework.interface_enabled, framework.linked) = (false, false);
    }

    fn check_registers(&mut self) -> Result<(), Violation> {
        let bus = self.machine.engine.bus();
        bus.registers.check(&mut bus.cpus)
    }

    fn registry_path(&mut self) -> Result<u64, Violation> {
        let text = r"\Registry\Machine\System\CurrentControlSet\Services\halprof";
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let engine = &mut self.machine.engine;
        let size = 16 + wide.len() as u64;
        let path = engine.allocate(size, 0)?;
        let length = wide.len() as u32;
        // UNICODE_STRING: Length, MaximumLength, and the buffer's address at 8.
        engine.write_u32(path, length << 16 | length);
        engine.write_u64(path + 8, path + 16);
        engine.write(path + 16, &wide);
        Ok(path)
    }

    /// Resets every processor, and Windows starts it again with CR4 as it saved it; before that, the
    /// driver's bits of the counters' registers must be clear.
    pub fn lose_registers(&mut self) -> Result<(), Violation> {
        self.check_registers()?;
        let bus = self.machine.engine.bus();
        for cpu in &mut bus.cpus {
            let (now, cr4) = (cpu.processor.timestamp(), cpu.processor.cr4());
            cpu.processor.reset();
            cpu.processor.set_timestamp(now);
            cpu.processor.set_cr4(cr4);
            cpu.processor.boot_windows();
        }
        bus.registers.renew(&mut bus.cpus);
        Ok(())
    }

    /// Someone else has written registers; while the device is asleep, none is the driver's.
    pub fn others_wrote_registers(&mut self) {
        let bus = self.machine.engine.bus();
        if self.stage == Stage::Asleep {
            bus.registers.renew(&mut bus.cpus);
        } else {
            bus.registers.others_wrote(&mut bus.cpus);
        }
    }

    /// A processor is added to the running machine.
    pub fn add_processor(&mut self, leaves: &Leaves) -> Result<(), Violation> {
        for cpu in self.machine.new_processors(std::slice::from_ref(leaves)) {
            let index = self.machine.processors();
            self.tell_of_processor(index, true)?;
            self.machine.add_processor(cpu);
            self.tell_of_processor(index, false)?;
        }
        Ok(())
    }

    /// Calls the callback for added processors, if there is one, before the processor exists or
    /// after.
    fn tell_of_processor(&mut self, index: usize, starting: bool) -> Result<(), Violation> {
        let Some((callback, context)) = self.machine.kernel.processor_change else {
            return Ok(());
        };
        let (change, arguments) = self.processor_change(context, index, starting)?;
        self.machine.call(kernel::PROCESSOR_CALLBACK, callback, &arguments)?;
        self.machine.engine.bus().arena.free(change, 0)
    }

    /// The arguments of the callback for added processors: the
    /// KE_PROCESSOR_CHANGE_NOTIFY_CONTEXT (state, number, status, PROCESSOR_NUMBER), and the
    /// arguments that go with it.
    pub(crate) fn processor_change(
        &mut self,
        context: u64,
        index: usize,
        starting: bool,
    ) -> Result<(u64, Vec<u64>), Violation> {
        let engine = &mut self.machine.engine;
        let change = engine.allocate(16, 0)?;
        let state = if starting { ADD_START } else { ADD_COMPLETE };
        engine.write_u32(change, state);
        engine.write_u32(change + 4, index as u32);
        engine.write_u32(change + 12, number_of(index as u64));
        Ok((change, vec![context, change, change + 8]))
    }

    /// Cleanup callbacks run, those of the device's children first; then all its objects are
    /// deleted ("Framework Object Life Cycle").
    fn delete_device(&mut self) -> Result<(), Violation> {
        let Some(device) = self.machine.framework.device else {
            return Ok(());
        };
        if self.machine.framework.stays != 0 {
            let what = "a device is deleted that may not be stopped";
            return Err(Violation::new(Rule::Left, what));
        }
        let children = self.machine.framework.children(device);
        for object in children.iter().copied().chain([device]) {
            if let Some(cleanup) = self.machine.framework.cleanup_of(object) {
                let machine = &mut self.machine;
                machine.call("EvtCleanupCallback", cleanup, &[object])?;
            }
        }
        self.machine.framework.device = None;
        for object in children.into_iter().chain([device]) {
            kmdf::delete(&mut self.machine, object)?;
        }
        Ok(())
    }

    fn check_nothing_left(&mut self) -> Result<(), Violation> {
        let bus = self.machine.engine.bus();
        bus.registers.check_cr4(&bus.cpus)?;
        let alive = self.machine.kernel.alive();
        if !alive.is_empty() || self.machine.framework.bound {
            let what = format!("after unload: {alive:?}, bound {}", self.machine.framework.bound);
            return Err(Violation::new(Rule::Alive, what));
        }
        let arena = &self.machine.engine.bus().arena;
        let leaks: Vec<String> = arena
            .leaks()
            .map(|(at, allocation)| format!("{} bytes at {at:#x}", allocation.size))
            .collect();
        if leaks.is_empty() {
            Ok(())
        } else {
            Err(Violation::new(Rule::PoolLeak, leaks.join(", ")))
        }
    }

    /// Several processors are added, all of which exist before the driver is called for the first.
    /// It is called for them in the order `told`, because no page promises an order.
    pub fn add_processors(&mut self, leaves: &[Leaves], told: &[usize]) -> Result<(), Violation> {
        let first = self.machine.processors();
        for cpu in self.machine.new_processors(leaves) {
            self.machine.add_processor(cpu);
        }
        for &which in told {
            self.tell_of_processor(first + which, true)?;
            self.tell_of_processor(first + which, false)?;
        }
        Ok(())
    }
}
