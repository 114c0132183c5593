//! Whichever call fails, is everything before it undone, and does the driver go on?

use crate::client::{Client, client};
use hal_profile::run::overflow::Interrupted;
use halprof_tests::backend::unbroken;
use halprof_tests::driver;
use halprof_tests::requests::{bytes, configure, header, spec};
use halprof_tests::wire::{PROCESS, Refusal, about, plain};
use nt_model::{Device, Violation};
use shared_types::request::counts::{Count, SNAPSHOT_BYTES_MAX, Snapshot};
use shared_types::request::session::{Opened, Spec};
use shared_types::request::{RequestCode, counts, machine, samples, session, source};
use shared_types::{ErrorCode, Mode, NtStatus, ReplyHeader};
use sim::Processor;
use sim::cpu::cpuid::Leaves;
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

fn started(file: &[u8], name: &str, seed: u64) -> Client {
    let mut device = made(file, name, seed);
    assert_eq!(device.start().expect("no rule"), 0);
    Client::on(device)
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
            if let Some(failed) = device.machine.framework.failed_with.take() {
                assert_eq!(u64::from(status), failed, "{name} {nth}: {which} is handed on");
            }
            failed.push(which);
        }
        let calls = [
            "WdfVersionBind",
            "WdfDriverCreate",
            "WdfDeviceCreate",
            "ExAllocatePool2",
            "ExAllocateTimer",
            "KeRegisterProcessorChangeCallback",
            "WdfIoQueueCreate",
        ];
        assert_failed(&failed, &calls);
    }
}

/// Each request of a life, and 0 or the error that refused it.
type Results = Vec<(RequestCode, u32)>;

/// All requests of a client in one life, with a processor that joins in the middle.
fn live(client: &mut Client, sources: &[u32], flags: u32, add: Option<&Leaves>) -> Results {
    let mut results = Results::new();
    let mut request = |client: &mut Client, code, input: &[u8]| {
        let reply = client.send(code, input);
        let error = match ReplyHeader::read_from_prefix(&reply.bytes) {
            Ok((header, _)) if reply.status == NtStatus::SUCCESS => header.error,
            _ => reply.status.0,
        };
        results.push((code, error));
        reply.bytes
    };
    let first = machine::From { header: header(0), first: 0, reserved: 0 };
    let specs: Vec<_> = sources.iter().copied().map(spec).collect();
    request(client, machine::HELLO, &plain(0));
    request(client, machine::DESCRIBE, &plain(0));
    request(client, machine::REGISTERS, &bytes(&first, &[]));
    request(client, source::PLAN, &configure(0, 0, &specs));
    let opened = request(client, session::OPEN, &plain(session::KERNEL));
    let number = Opened::read_from_prefix(&opened).map_or(0, |(opened, _)| opened.session);
    request(client, session::CONFIGURE, &configure(number, flags, &specs));
    request(client, session::START, &about(number));
    client.begin("instructions=400000,cycles=500000,processors=all");
    client.advance(200_000);
    if let Some(leaves) = add {
        client.add_processor(leaves);
    }
    for code in
        [counts::SNAPSHOT, samples::DRAIN, samples::STATISTICS, session::STOP, session::CLOSE]
    {
        request(client, code, &about(number));
    }
    client.replace_client(PROCESS);
    results
}

fn pool(client: &mut Client) -> u64 {
    client.model.machine.engine.bus().arena.pool.0
}

/// The n-th call of a life fails, for every n; then the same life is run without faults.
fn every_fault_in_a_life(name: &str, sources: &[u32], flags: u32, add: bool) -> Vec<&'static str> {
    let Some(file) = driver::with_every_interface() else {
        return Vec::new();
    };
    let leaves = machine_of(name);
    let added = add.then(|| &leaves[0]);
    let mut client = started(&file, name, 2);
    let sound = live(&mut client, sources, flags, None);
    let mut failed = Vec::new();
    for nth in 0.. {
        // Shown where a request breaks a rule of the model, which does not know which life it is in.
        println!("{name}, fault {nth}");
        if add {
            client.end();
            client = started(&file, name, nth);
        }
        let level = pool(&mut client);
        client.model.machine.kernel.fail_after = Some(nth);
        let results = live(&mut client, sources, flags, added);
        let kernel = &mut client.model.machine.kernel;
        let reached = kernel.fail_after.take().is_none();
        let which = kernel.failed.pop();
        assert!(kernel.counters.is_none(), "{name} {nth} {which:?}: counters are held");
        assert!(kernel.interrupt_handler.is_none(), "{name} {nth}: the handler stands");
        if !add {
            assert_eq!(pool(&mut client), level, "{name} {nth} {which:?}: pool is left");
        }
        let again = live(&mut client, sources, flags, None);
        assert_eq!(again, sound, "{name} {nth} {which:?}: the life after");
        if !reached {
            assert_eq!(results, sound, "{name}: a life without a fault");
            break;
        }
        let which = which.expect("a call failed");
        if !add {
            assert_ne!(results, sound, "{name} {nth}: {which} failed, and no reply says so");
        }
        failed.push(which);
    }
    client.end();
    failed
}

/// Each of these calls must have failed in a life.
fn assert_failed(failed: &[&str], calls: &[&str]) {
    for call in calls {
        assert!(failed.contains(call), "{call} never failed: {failed:?}");
    }
}

#[test]
fn a_life_survives_every_fault() {
    if driver::with_every_interface().is_none() {
        return;
    }
    let with_samples = every_fault_in_a_life("skylake", &[2, 6], session::SAMPLE, false);
    let calls = ["ExAllocatePool2", "HalAllocateHardwareCounters", "HalSetSystemInformation"];
    assert_failed(&with_samples, &calls);
    every_fault_in_a_life("zen4", &[0x0B, 2], session::SAMPLE, false);
    let counting = every_fault_in_a_life("skylake", &[2, 6, 0x0B], 0, false);
    assert_failed(&counting, &["HalAllocateHardwareCounters"]);
}

#[test]
fn a_processor_that_joins_survives_every_fault() {
    if driver::with_every_interface().is_none() {
        return;
    }
    let failed = every_fault_in_a_life("skylake", &[2, 6], session::SAMPLE, true);
    let calls = ["KeGetProcessorNumberFromIndex", "KeSetTargetProcessorDpcEx", "ExAllocatePool2"];
    assert_failed(&failed, &calls);
}

/// Counts that need several replies are kept in memory that START takes, and no poll.
#[test]
fn memory_for_pages_comes_from_start() {
    let Some(mut client) = client("skylake", 52, 1) else { return };
    let specs: Vec<_> = (0..256).map(|mask| Spec::of_raw(0xC0 | mask << 8)).collect();
    let number = client.configured(0, &specs);
    let mut failed = Vec::new();
    for nth in 0.. {
        client.model.machine.kernel.fail_after = Some(nth);
        let refusal = client.about(session::START, number).refusal();
        if client.model.machine.kernel.fail_after.take().is_some() {
            assert_eq!(refusal, None);
            break;
        }
        failed.push((client.model.machine.kernel.failed.pop(), refusal.expect("a refusal").0));
    }
    let bytes = 52 * 256 * size_of::<Count>() as u64;
    assert_eq!(
        failed,
        [
            (Some("HalAllocateHardwareCounters"), ErrorCode::CountersReserved),
            (Some("ExAllocatePool2"), ErrorCode::NoMemory),
        ]
    );
    let pool = |client: &mut Client| client.model.machine.engine.bus().arena.pool;
    let (now, most) = pool(&mut client);
    let reply = client.send_with_room(counts::SNAPSHOT, &about(number), SNAPSHOT_BYTES_MAX);
    assert_eq!(reply.done::<Snapshot>().total, 52);
    assert_eq!(pool(&mut client), (now, most));
    client.granted(session::STOP, number);
    client.granted(session::CLOSE, number);
    assert_eq!(pool(&mut client).0, now - bytes);
    client.end();
}

/// Without the page of the local APIC nobody could unmask LVTPC: sampling is refused with the status
/// of a lack of memory, before it takes the counters, and counting goes on. `device`: loaded. Returns
/// how START is refused.
pub(crate) fn no_page_of_the_local_apic(mut device: Device) -> Result<Option<Refusal>, Violation> {
    assert_eq!(device.add()?, 0);
    // The call before it registers for added processors.
    device.machine.kernel.fail_after = Some(1);
    assert_eq!(device.start_device()?, 0);
    assert_eq!(device.machine.kernel.failed, [TOLERATED]);
    let mut client = Client::on(device);
    let number = client.configured(session::SAMPLE, &[spec(2)]);
    let refusal = client.about(session::START, number).refusal();
    client.run(spec(2), 0);
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok(refusal)
}

/// How START is refused then.
pub(crate) const NO_PAGE: Refusal = (ErrorCode::InterruptTaken, 0, 0xC000_009A);

#[test]
fn sampling_without_the_page_of_the_local_apic() {
    let Some(file) = driver::file() else { return };
    let mut device = made(&file, "skylake", 1);
    assert_eq!(device.load().expect("no rule"), 0);
    assert_eq!(unbroken(no_page_of_the_local_apic(device)), Some(NO_PAGE));
}

/// LVTPC in the page, and in x2APIC mode; its mask bit, its delivery mode, and NMI.
const LVTPC: u32 = 0x340;
const LVTPC_MSR: u32 = 0x834;
const LVTPC_MASK: u64 = 1 << 16;
const LVTPC_MODE: u64 = 0b111 << 8;
const LVTPC_NMI: u64 = 0b100 << 8;

fn lvtpc(processor: &mut Processor) -> u64 {
    let in_page = processor.read_apic(LVTPC).ok().map(u64::from);
    in_page.unwrap_or_else(|| processor.rdmsr(LVTPC_MSR).expect("one of both"))
}

fn set_lvtpc(processor: &mut Processor, entry: u64) {
    if processor.write_apic(LVTPC, entry as u32).is_err() {
        processor.wrmsr(LVTPC_MSR, entry).expect("one of both");
    }
}

/// A processor joins for which there is no memory. Others' sessions do not use it, but the handler
/// is called there too, and LVTPC, which the interrupt's delivery masks, must not stay masked. But an
/// entry that sends an NMI stays as it is: nobody would claim that. Returns LVTPC before the
/// interrupt and after it.
pub(crate) fn interrupted_on_an_unknown_processor(
    mut device: Device,
    leaves: &Leaves,
    x2apic: bool,
    nmi: bool,
) -> Result<(u64, u64), Violation> {
    let boot = |processor: &mut Processor| assert!(!x2apic || processor.boot_x2apic());
    device.machine.engine.bus().cpus.iter_mut().for_each(|cpu| boot(&mut cpu.processor));
    assert_eq!(device.start()?, 0);
    let mut client = Client::on(device);
    let number = client.run(spec(2), session::SAMPLE);
    client.model.machine.kernel.fail_after = Some(0);
    client.model.add_processor(leaves)?;
    assert_eq!(client.model.machine.kernel.failed.len(), 1);
    let last = client.model.machine.processors() - 1;
    let processor = client.processor(last);
    boot(processor);
    let entry = lvtpc(processor);
    let other = if nmi { entry & !LVTPC_MODE | LVTPC_NMI } else { entry };
    let before = other | LVTPC_MASK;
    set_lvtpc(processor, before);
    let idle = Interrupted { ip: 0, mode: Mode::Kernel, process: 0, thread: 0 };
    client.model.machine.interrupt(last, idle)?;
    let after = lvtpc(client.processor(last));
    set_lvtpc(client.processor(last), entry);
    client.granted(session::STOP, number);
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok((before, after))
}

#[test]
fn an_interrupt_on_a_processor_that_is_unknown_to_the_driver() {
    let Some(file) = driver::file() else { return };
    for (name, x2apic) in [("skylake", false), ("skylake", true), ("zen4", false)] {
        for nmi in [false, true] {
            let (device, leaves) = (made(&file, name, 1), &machine_of(name)[0]);
            let lvtpc = interrupted_on_an_unknown_processor(device, leaves, x2apic, nmi);
            let (before, after) = unbroken(lvtpc);
            let right = if nmi { before } else { before & !LVTPC_MASK };
            assert_eq!(after, right, "{name}, x2APIC: {x2apic}, NMI: {nmi}");
        }
    }
}
