//! Whichever call fails, is everything before it undone, and does the driver go on?

use hal_profile::run::overflow::Interrupted;
use halprof_tests::driver;
use halprof_tests::requests::{ALL_RIGHTS, bytes, configure, header, spec};
use nt_model::device::{Device, File};
use shared_types::request::session::Opened;
use shared_types::request::{Plain, RequestCode, counts, machine, samples, session, source};
use shared_types::{Mode, NtStatus, ReplyHeader};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::load::workload;
use sim::machines::models::{find, repeat};
use zerocopy::FromBytes;

/// Models on which the driver takes different paths: with a page to map, in x2APIC mode, without
/// counters.
const MODELS: &[&str] = &["skylake", "zen4", "pentium4", "hyperv-masked"];
/// A fault that the driver tolerates: sampling is then refused, everything else goes on.
const TOLERATED: &str = "MmMapIoSpaceEx";

fn machine_of(name: &str) -> Vec<Leaves> {
    repeat(&find(name).expect("a model").processors(), 2)
}

fn made(file: &[u8], name: &str, seed: u64) -> Device {
    Device::new(file, &machine_of(name), seed).expect("a machine")
}

#[test]
fn start_fails_at_every_call_and_leaves_nothing() {
    let Some(file) = driver::with_every_interface() else {
        return;
    };
    for name in MODELS {
        let mut device = made(&file, name, 1);
        let mut failed = Vec::new();
        for nth in 0.. {
            device.machine.kernel.fail_after = Some(nth);
            let status = device.start().unwrap_or_else(|v| panic!("{name} {nth}: {v}"));
            let reached = device.machine.kernel.fail_after.take().is_none();
            let which = device.machine.kernel.failed.pop();
            device.remove().unwrap_or_else(|v| panic!("{name} {nth} {which:?}: {v}"));
            if !reached {
                assert_eq!(status, 0, "{name}: the last start without a fault");
                break;
            }
            let which = which.expect("a call failed");
            let error = status.cast_signed() < 0;
            assert_eq!(error, which != TOLERATED, "{name} {nth}: {which} failed, and {status:#x}");
            failed.push(which);
        }
        for must in [
            "WdfVersionBind",
            "WdfDriverCreate",
            "WdfDeviceCreate",
            "ExAllocatePool2",
            "ExAllocateTimer",
            "KeRegisterProcessorChangeCallback",
            "WdfIoQueueCreate",
        ] {
            assert!(failed.contains(&must), "{name}: {must} never failed: {failed:?}");
        }
    }
}

/// The results of a scripted life: each step's name, and 0 or the error that refused it.
type Told = Vec<(&'static str, u32)>;

struct Script<'a> {
    device: &'a mut Device,
    file: File,
    told: Told,
}

impl Script<'_> {
    fn ask(&mut self, name: &'static str, code: RequestCode, input: &[u8]) -> Vec<u8> {
        let mut output = vec![0; 1 << 16];
        let answer = self.device.device_control(&self.file, code, input, &mut output);
        let (status, length) = answer.unwrap_or_else(|v| panic!("{name}: {v}"));
        output.truncate(length);
        let error = match ReplyHeader::read_from_prefix(&output) {
            Ok((header, _)) if status == NtStatus::SUCCESS => header.error,
            _ => status.0,
        };
        self.told.push((name, error));
        output
    }

    fn about(&mut self, name: &'static str, code: RequestCode, session: u32) {
        let request = session::Session { header: header(0), session, reserved: 0 };
        self.ask(name, code, &bytes(&request, &[]));
    }
}

/// All requests of a client in one life, with a processor that joins in the middle.
fn live(device: &mut Device, sources: &[u32], sample: bool, add: Option<&Leaves>) -> Told {
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    let mut script = Script { device, file, told: Vec::new() };
    let plain = |flags| bytes(&Plain { header: header(flags) }, &[]);
    let first = machine::From { header: header(0), first: 0, reserved: 0 };
    script.ask("hello", machine::HELLO, &plain(0));
    script.ask("describe", machine::DESCRIBE, &plain(0));
    script.ask("registers", machine::REGISTERS, &bytes(&first, &[]));
    let specs: Vec<_> = sources.iter().copied().map(spec).collect();
    script.ask("plan", source::PLAN, &configure(0, 0, &specs));
    let opened = script.ask("open", session::OPEN, &plain(session::KERNEL));
    let number = Opened::read_from_prefix(&opened).map_or(0, |(opened, _)| opened.session);
    let flags = if sample { session::SAMPLE } else { 0 };
    script.ask("configure", session::CONFIGURE, &configure(number, flags, &specs));
    script.about("start", session::START, number);
    let work = workload::parse("instructions=400000,cycles=500000,processors=all");
    script.device.begin(&work.expect("a workload"));
    let run = script.device.advance(200_000);
    run.unwrap_or_else(|v| panic!("workload: {v}"));
    if let Some(leaves) = add {
        let added = script.device.add_processor(leaves);
        added.unwrap_or_else(|v| panic!("a processor: {v}"));
    }
    script.about("snapshot", counts::SNAPSHOT, number);
    script.about("drain", samples::DRAIN, number);
    script.about("statistics", samples::STATISTICS, number);
    script.about("stop", session::STOP, number);
    script.about("close", session::CLOSE, number);
    let Script { file, told, .. } = script;
    device.close(&file).unwrap_or_else(|v| panic!("close: {v}"));
    told
}

fn pool(device: &mut Device) -> u64 {
    device.machine.engine.bus().arena.pool.0
}

/// The n-th call of a life fails, for every n; then the same life is run without faults.
fn every_fault_in_a_life(
    name: &str,
    sources: &[u32],
    sample: bool,
    add: bool,
) -> Vec<&'static str> {
    let Some(file) = driver::with_every_interface() else {
        return Vec::new();
    };
    let leaves = machine_of(name);
    let added = add.then(|| &leaves[0]);
    let mut device = made(&file, name, 2);
    assert_eq!(device.start().expect("no rule"), 0);
    let sound = live(&mut device, sources, sample, None);
    let mut failed = Vec::new();
    for nth in 0.. {
        if add {
            device.remove().unwrap_or_else(|v| panic!("{name} {nth}: {v}"));
            device = made(&file, name, nth);
            assert_eq!(device.start().expect("no rule"), 0);
        }
        let level = pool(&mut device);
        device.machine.kernel.fail_after = Some(nth);
        let told = live(&mut device, sources, sample, added);
        let reached = device.machine.kernel.fail_after.take().is_none();
        let which = device.machine.kernel.failed.pop();
        let kernel = &device.machine.kernel;
        assert!(kernel.counters.is_none(), "{name} {nth} {which:?}: counters are held");
        assert!(kernel.interrupt_handler.is_none(), "{name} {nth}: the handler stands");
        if !add {
            assert_eq!(pool(&mut device), level, "{name} {nth} {which:?}: pool is left");
        }
        let again = live(&mut device, sources, sample, None);
        assert_eq!(again, sound, "{name} {nth} {which:?}: the life after");
        if !reached {
            assert_eq!(told, sound, "{name}: a life without a fault");
            break;
        }
        let which = which.expect("a call failed");
        if !add {
            assert_ne!(told, sound, "{name} {nth}: {which} failed, and nobody was told");
        }
        failed.push(which);
    }
    device.remove().unwrap_or_else(|v| panic!("{name}: {v}"));
    failed
}

#[test]
fn a_life_with_samples_survives_every_fault() {
    if driver::with_every_interface().is_none() {
        return;
    }
    let failed = every_fault_in_a_life("skylake", &[2, 6], true, false);
    for must in ["ExAllocatePool2", "HalAllocateHardwareCounters", "HalSetSystemInformation"] {
        assert!(failed.contains(&must), "{must} never failed: {failed:?}");
    }
    every_fault_in_a_life("zen4", &[0x0B, 2], true, false);
}

#[test]
fn a_life_that_counts_survives_every_fault() {
    if driver::with_every_interface().is_none() {
        return;
    }
    let failed = every_fault_in_a_life("skylake", &[2, 6, 0x0B], false, false);
    assert!(failed.contains(&"HalAllocateHardwareCounters"), "{failed:?}");
}

#[test]
fn a_processor_that_joins_survives_every_fault() {
    if driver::with_every_interface().is_none() {
        return;
    }
    let failed = every_fault_in_a_life("skylake", &[2, 6], true, true);
    for must in ["KeGetProcessorNumberFromIndex", "KeSetTargetProcessorDpcEx", "ExAllocatePool2"] {
        assert!(failed.contains(&must), "{must} never failed: {failed:?}");
    }
}

/// LVTPC in the page, and in x2APIC mode; its mask bit.
const LVTPC: u32 = 0x340;
const LVTPC_MSR: u32 = 0x834;
const LVTPC_MASK: u64 = 1 << 16;

fn lvtpc(cpu: &mut Cpu) -> u64 {
    let processor = &mut cpu.processor;
    let in_page = processor.read_apic(LVTPC).ok().map(u64::from);
    in_page.unwrap_or_else(|| processor.rdmsr(LVTPC_MSR).expect("one of both"))
}

fn set_lvtpc(cpu: &mut Cpu, entry: u64) {
    let processor = &mut cpu.processor;
    if processor.write_apic(LVTPC, entry as u32).is_err() {
        processor.wrmsr(LVTPC_MSR, entry).expect("one of both");
    }
}

/// A processor joins for which there is no memory. Others' sessions do not use it, but the handler
/// is called there too, and LVTPC, which the interrupt's delivery masks, must not stay masked.
#[test]
fn an_interrupt_on_a_processor_that_is_unknown_to_the_driver() {
    let Some(file) = driver::file() else { return };
    for (name, x2apic) in [("skylake", false), ("skylake", true), ("zen4", false)] {
        let leaves = machine_of(name);
        let mut device = made(&file, name, 1);
        let boot = |cpu: &mut Cpu| assert!(!x2apic || cpu.processor.boot_x2apic());
        device.machine.engine.bus().cpus.iter_mut().for_each(boot);
        assert_eq!(device.start().expect("no rule"), 0);
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        let mut script = Script { device: &mut device, file, told: Vec::new() };
        let header = header(session::KERNEL);
        let opened = script.ask("open", session::OPEN, &bytes(&Plain { header }, &[]));
        let (opened, _) = Opened::read_from_prefix(&opened).expect("a session");
        let number = opened.session;
        let input = configure(number, session::SAMPLE, &[spec(2)]);
        script.ask("configure", session::CONFIGURE, &input);
        script.about("start", session::START, number);
        script.device.machine.kernel.fail_after = Some(0);
        let added = script.device.add_processor(&leaves[0]);
        added.unwrap_or_else(|v| panic!("{name}: {v}"));
        assert_eq!(script.device.machine.kernel.failed.len(), 1, "{name}");
        let machine = &mut script.device.machine;
        let last = machine.processors() - 1;
        boot(&mut machine.engine.bus().cpus[last]);
        let entry = lvtpc(&mut machine.engine.bus().cpus[last]);
        set_lvtpc(&mut machine.engine.bus().cpus[last], entry | LVTPC_MASK);
        let interrupted = Interrupted { ip: 0, mode: Mode::Kernel, process: 0, thread: 0 };
        let handled = machine.interrupt(last, interrupted);
        handled.unwrap_or_else(|v| panic!("{name}: {v}"));
        let left = lvtpc(&mut machine.engine.bus().cpus[last]);
        assert_eq!(left, entry & !LVTPC_MASK, "{name}");
        script.about("stop", session::STOP, number);
        let Script { file, told, .. } = script;
        assert!(told.iter().all(|&(_, error)| error == 0), "{name}: {told:?}");
        device.close(&file).unwrap_or_else(|v| panic!("{name}: {v}"));
        device.remove().unwrap_or_else(|v| panic!("{name}: {v}"));
    }
}
