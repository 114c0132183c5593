//! Does the driver survive every order in which the PnP and power managers call it?

use hal_profile::run::overflow::Interrupted;
use halprof_tests::driver;
use halprof_tests::requests::{ALL_RIGHTS, bytes, configure, header, spec};
use nt_model::Device;
use nt_model::device::{File, Submitted};
use nt_model::kmdf::power::{D0_ENTRY, D0_EXIT, PREPARE, RELEASE, SURPRISE};
use nt_model::traffic::every_session_is_free;
use shared_types::request::machine::{self, Machine};
use shared_types::request::session::{self, Opened, Session};
use shared_types::request::{Plain, RequestCode, counts};
use shared_types::{ErrorCode, Mode, NtStatus, ReplyHeader};
use sim::load::workload;
use sim::machines::models::{find, repeat};
use zerocopy::FromBytes;

/// WdfPowerDeviceD3 and WdfPowerDeviceD3Final.
const D3: u64 = 4;
const D3_FINAL: u64 = 5;
const NAME_COLLISION: u32 = 0xC000_0035;
const UNSUCCESSFUL: u32 = 0xC000_0001;
const CANCELLED: NtStatus = NtStatus(0xC000_0120);
const SOURCES: [u32; 2] = [2, 6];
const SEEDS: u64 = 4;

/// A callback with its arguments after the device.
type Called = (u64, Vec<u64>);

fn started() -> Called {
    (D0_ENTRY, vec![D3_FINAL])
}

fn stopped() -> Called {
    (D0_EXIT, vec![D3_FINAL])
}

fn prepared() -> Called {
    (PREPARE, vec![0, 0])
}

fn released() -> Called {
    (RELEASE, vec![0])
}

/// The driver in memory, with no device added.
fn loaded(seed: u64) -> Option<Device> {
    let file = driver::file()?;
    let leaves = repeat(&find("skylake").expect("a model").processors(), 2);
    let mut device = Device::new(&file, &leaves, seed).expect("a machine");
    assert_eq!(device.load().expect("no rule"), 0);
    Some(device)
}

fn working(seed: u64) -> Option<Device> {
    let mut device = loaded(seed)?;
    assert_eq!(device.add().expect("no rule"), 0);
    assert_eq!(device.start_device().expect("no rule"), 0);
    device.machine.framework.called.clear();
    Some(device)
}

fn ask(device: &mut Device, file: &File, code: RequestCode, input: &[u8]) -> (NtStatus, Vec<u8>) {
    let mut output = vec![0; 1 << 14];
    let answer = device.device_control(file, code, input, &mut output);
    let (status, length) = answer.unwrap_or_else(|violation| panic!("{violation}"));
    output.truncate(length);
    (status, output)
}

fn plain(flags: u32) -> Vec<u8> {
    let header = header(flags);
    bytes(&Plain { header }, &[])
}

fn about(session: u32) -> Vec<u8> {
    let (header, reserved) = (header(0), 0);
    let request = Session { header, session, reserved };
    bytes(&request, &[])
}

/// The answer to a request about a session: 0 or the error.
fn error(device: &mut Device, file: &File, code: RequestCode, session: u32) -> u32 {
    let (status, reply) = ask(device, file, code, &about(session));
    assert_eq!(status, NtStatus::SUCCESS);
    ReplyHeader::read_from_prefix(&reply).expect("a header").0.error
}

fn greets(device: &mut Device, file: &File) -> NtStatus {
    ask(device, file, machine::HELLO, &plain(0)).0
}

/// A session that is configured to sample.
fn configured(device: &mut Device, file: &File) -> u32 {
    let (_, reply) = ask(device, file, session::OPEN, &plain(session::KERNEL));
    let (opened, _) = Opened::read_from_prefix(&reply).expect("opened");
    assert_eq!(opened.header.error, 0);
    let specs = SOURCES.map(spec);
    let input = configure(opened.session, session::SAMPLE, &specs);
    let (_, reply) = ask(device, file, session::CONFIGURE, &input);
    let (header, _) = ReplyHeader::read_from_prefix(&reply).expect("a header");
    assert_eq!(header.error, 0);
    opened.session
}

/// A session that runs, and has counted something.
fn running(device: &mut Device, file: &File) -> u32 {
    let session = configured(device, file);
    assert_eq!(error(device, file, session::START, session), 0);
    let work = workload::parse("instructions=400000,cycles=500000,processors=all");
    device.begin(&work.expect("a workload"));
    device.advance(100_000).expect("no rule");
    assert_eq!(error(device, file, counts::SNAPSHOT, session), 0);
    session
}

fn end(mut device: Device, file: &File) {
    device.close(file).unwrap_or_else(|v| panic!("close: {v}"));
    device.remove().unwrap_or_else(|v| panic!("remove: {v}"));
}

#[test]
fn stopped_and_started_with_a_handle_and_a_session() {
    for seed in 0..SEEDS {
        let Some(mut device) = working(seed) else {
            return;
        };
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        let session = running(&mut device, &file);
        device.stop().unwrap_or_else(|v| panic!("stop: {v}"));
        assert!(device.machine.framework.interface_enabled);
        assert!(device.machine.framework.linked);
        assert!(device.machine.kernel.counters.is_none());
        let not_ready = NtStatus::DEVICE_NOT_READY;
        assert_eq!(greets(&mut device, &file), not_ready);
        assert_eq!(device.start_device().expect("no rule"), 0);
        let orders = [stopped(), released(), prepared(), started()];
        assert_eq!(device.machine.framework.called, orders);
        assert_eq!(greets(&mut device, &file), NtStatus::SUCCESS);
        let unknown = ErrorCode::UnknownSession as u32;
        let told = error(&mut device, &file, counts::SNAPSHOT, session);
        assert_eq!(told, unknown);
        running(&mut device, &file);
        end(device, &file);
    }
}

#[test]
fn removed_without_a_start() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(device.add().expect("no rule"), 0);
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    assert_eq!(greets(&mut device, &file), NtStatus::DEVICE_NOT_READY);
    device.close(&file).expect("no rule");
    device.remove().unwrap_or_else(|v| panic!("remove: {v}"));
    assert_eq!(device.machine.framework.called, []);
}

#[test]
fn asked_before_it_is_started() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(device.add().expect("no rule"), 0);
    assert!(!device.machine.framework.interface_enabled);
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    let not_ready = NtStatus::DEVICE_NOT_READY;
    for &(code, name) in RequestCode::ALL {
        let (status, _) = ask(&mut device, &file, code, &plain(0));
        assert_eq!(status, not_ready, "{name}");
    }
    assert_eq!(device.start_device().expect("no rule"), 0);
    assert_eq!(greets(&mut device, &file), NtStatus::SUCCESS);
    running(&mut device, &file);
    end(device, &file);
}

#[test]
fn shut_down_with_a_session() {
    for seed in 0..SEEDS {
        let Some(mut device) = working(seed) else {
            return;
        };
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        let session = running(&mut device, &file);
        device.shut_down().unwrap_or_else(|v| panic!("{v}"));
        assert_eq!(device.machine.framework.called, [stopped()]);
        assert_eq!(greets(&mut device, &file), NtStatus::SUCCESS);
        let told = error(&mut device, &file, counts::SNAPSHOT, session);
        assert_eq!(told, 0);
        let other = configured(&mut device, &file);
        let told = error(&mut device, &file, session::START, other);
        assert_ne!(told, 0, "nothing starts while the machine shuts down");
        device.close(&file).expect("no rule");
    }
}

#[test]
fn surprise_removal() {
    for seed in 0..SEEDS {
        let Some(mut device) = working(seed) else {
            return;
        };
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        running(&mut device, &file);
        device.surprise_remove().unwrap_or_else(|v| panic!("{v}"));
        let orders = [(SURPRISE, vec![]), stopped(), released()];
        assert_eq!(device.machine.framework.called, orders);
        assert!(!device.machine.framework.linked);
        let not_ready = NtStatus::DEVICE_NOT_READY;
        assert_eq!(greets(&mut device, &file), not_ready);
        assert_eq!(device.add_another().expect("no rule"), NAME_COLLISION);
        end(device, &file);
    }
}

/// Windows does not remove the overflow handler of a device that is removed by surprise. It may be
/// called for as long as Windows runs, so the image stays in memory, and the handler accesses
/// nothing that was freed: neither while it is being freed, nor afterwards.
#[test]
fn surprise_removal_with_a_handler_that_stays() {
    for seed in 0..64 {
        let Some(mut device) = working(seed) else {
            return;
        };
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        running(&mut device, &file);
        device.machine.kernel.keeps_handler = true;
        device.machine.disturbed = true;
        let gone = device.surprise_remove();
        gone.unwrap_or_else(|v| panic!("seed {seed}: {v}"));
        device.machine.disturbed = false;
        assert!(device.machine.kernel.interrupt_handler.is_some());
        interrupt_everywhere(&mut device);
        device.close(&file).expect("no rule");
        device.remove().unwrap_or_else(|v| panic!("remove: {v}"));
        assert_ne!(device.machine.kernel.driver_references, 0);
        interrupt_everywhere(&mut device);
    }
}

fn flags(device: &mut Device, file: &File) -> u32 {
    let (_, reply) = ask(device, file, machine::DESCRIBE, &plain(0));
    let (described, _) = Machine::read_from_prefix(&reply).expect("a machine");
    described.flags
}

/// Windows refuses to remove the overflow handler at the end of a session. The driver keeps it, with
/// the counters and itself, says so, and samples no more; counting goes on, also after the device
/// was stopped and started, and each START asks again.
#[test]
fn stopped_with_a_handler_that_stays() {
    for (restarts, goes_in_the_end) in [(false, false), (false, true), (true, false), (true, true)]
    {
        let Some(mut device) = working(1) else { return };
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        let mut session = running(&mut device, &file);
        device.machine.kernel.keeps_handler = true;
        if restarts {
            assert!(device.agrees_to_stop());
            device.stop().unwrap_or_else(|v| panic!("stop: {v}"));
            assert_eq!(device.machine.framework.stays, 0);
            interrupt_everywhere(&mut device);
            assert_eq!(device.start_device().expect("no rule"), 0);
            session = configured(&mut device, &file);
        } else {
            assert_eq!(error(&mut device, &file, session::STOP, session), 0);
        }
        assert!(device.machine.kernel.counters.is_some());
        assert_eq!(device.machine.framework.stays, 1);
        assert_eq!(device.machine.kernel.driver_references, 1);
        assert_eq!(flags(&mut device, &file), Machine::HANDLER_STUCK);
        let stuck = ErrorCode::HandlerStuck as u32;
        for _ in 0..2 {
            let told = error(&mut device, &file, session::START, session);
            assert_eq!(told, stuck);
            interrupt_everywhere(&mut device);
            let input = configure(session, 0, &SOURCES.map(spec));
            ask(&mut device, &file, session::CONFIGURE, &input);
            assert_eq!(error(&mut device, &file, session::START, session), 0);
            assert_eq!(error(&mut device, &file, counts::SNAPSHOT, session), 0);
            assert_eq!(error(&mut device, &file, session::STOP, session), 0);
            let input = configure(session, session::SAMPLE, &SOURCES.map(spec));
            ask(&mut device, &file, session::CONFIGURE, &input);
        }
        assert_eq!(device.machine.framework.stays, 1);
        if goes_in_the_end {
            device.machine.kernel.keeps_handler = false;
            assert_eq!(error(&mut device, &file, session::START, session), 0);
            assert_eq!(flags(&mut device, &file), 0);
            assert_eq!(device.machine.framework.stays, 0);
            assert_eq!(device.machine.kernel.driver_references, 0);
        }
        end(device, &file);
    }
}

fn interrupt_everywhere(device: &mut Device) {
    for processor in 0..device.machine.processors() {
        let interrupted = Interrupted { ip: 0, mode: Mode::Kernel, process: 0, thread: 0 };
        let handled = device.machine.interrupt(processor, interrupted);
        handled.unwrap_or_else(|v| panic!("an interrupt: {v}"));
    }
}

/// The removal waits until the system is awake, and nothing of the session is active then.
#[test]
fn surprise_removal_while_asleep() {
    for seed in 0..SEEDS {
        let Some(mut device) = working(seed) else {
            return;
        };
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        running(&mut device, &file);
        device.sleep().unwrap_or_else(|v| panic!("sleep: {v}"));
        device.surprise_remove().unwrap_or_else(|v| panic!("{v}"));
        let orders =
            [(D0_EXIT, vec![D3]), (SURPRISE, vec![]), (D0_ENTRY, vec![D3]), stopped(), released()];
        assert_eq!(device.machine.framework.called, orders);
        assert!(device.machine.kernel.counters.is_none());
        end(device, &file);
    }
}

/// A client that runs before the device is back in D0 is refused with that reason, and may try
/// again.
#[test]
fn asked_while_it_wakes() {
    let Some(mut device) = working(1) else { return };
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    let first = running(&mut device, &file);
    let other = configured(&mut device, &file);
    device.sleep().unwrap_or_else(|v| panic!("sleep: {v}"));
    assert_eq!(greets(&mut device, &file), NtStatus::SUCCESS);
    assert_eq!(error(&mut device, &file, counts::SNAPSHOT, first), 0);
    assert_eq!(error(&mut device, &file, session::STOP, first), 0);
    assert_eq!(error(&mut device, &file, session::CLOSE, first), 0);
    let suspended = ErrorCode::Suspended as u32;
    let told = error(&mut device, &file, session::START, other);
    assert_eq!(told, suspended);
    device.wake().unwrap_or_else(|v| panic!("wake: {v}"));
    assert_eq!(error(&mut device, &file, session::START, other), 0);
    end(device, &file);
}

/// D0Exit is not called then; ReleaseHardware is, within the start.
#[test]
fn d0_entry_fails() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(device.add().expect("no rule"), 0);
    device.d0_entry_answers = Some(UNSUCCESSFUL);
    assert_eq!(device.start_device().expect("no rule"), UNSUCCESSFUL);
    let orders = [prepared(), started(), released()];
    assert_eq!(device.machine.framework.called, orders);
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    assert_eq!(greets(&mut device, &file), NtStatus::DEVICE_NOT_READY);
    end(device, &file);
}

/// The session that slept still holds its counters, and nothing of it is left.
#[test]
fn d0_entry_fails_after_sleep() {
    let Some(mut device) = working(1) else { return };
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    running(&mut device, &file);
    device.sleep().unwrap_or_else(|v| panic!("sleep: {v}"));
    device.d0_entry_answers = Some(UNSUCCESSFUL);
    device.wake().unwrap_or_else(|v| panic!("wake: {v}"));
    let orders = [(D0_EXIT, vec![D3]), (D0_ENTRY, vec![D3]), released(), (SURPRISE, vec![])];
    assert_eq!(device.machine.framework.called, orders);
    assert!(device.machine.kernel.counters.is_none());
    end(device, &file);
}

#[test]
fn prepare_hardware_fails() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(device.add().expect("no rule"), 0);
    device.machine.kernel.fail_after = Some(0);
    let status = device.start_device().expect("no rule");
    assert!(status.cast_signed() < 0, "{status:#x}");
    assert_eq!(
        device.machine.framework.called,
        [prepared(), released()],
        "{:?}",
        device.machine.kernel.failed
    );
    assert_eq!(device.start_device().expect("no rule"), 0);
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    running(&mut device, &file);
    end(device, &file);
}

#[test]
fn a_second_device() {
    let Some(mut device) = working(1) else { return };
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    let session = running(&mut device, &file);
    assert_eq!(device.add_another().expect("no rule"), NAME_COLLISION);
    assert_eq!(error(&mut device, &file, counts::SNAPSHOT, session), 0);
    assert_eq!(device.machine.framework.called, []);
    end(device, &file);
}

/// Codes like ours, but with another method: METHOD_IN_DIRECT, METHOD_OUT_DIRECT, METHOD_NEITHER.
#[test]
fn other_transfer_methods() {
    let Some(mut device) = working(1) else { return };
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    for method in 1..4 {
        for &(code, name) in RequestCode::ALL {
            for room in [0, 24, 4096] {
                let code = RequestCode(code.0 | method);
                let mut output = vec![0; room];
                let answer = device.device_control(&file, code, &plain(0), &mut output);
                let (status, length) = answer.unwrap_or_else(|v| panic!("{name}: {v}"));
                assert_ne!(status, NtStatus::SUCCESS, "{name}, method {method}");
                assert_eq!(length, 0, "{name}, method {method}");
            }
        }
    }
    assert_eq!(greets(&mut device, &file), NtStatus::SUCCESS);
    end(device, &file);
}

/// It is presented in another process's thread, but belongs to its own process.
#[test]
fn a_request_that_waited() {
    for seed in 0..SEEDS {
        let Some(mut device) = working(seed) else {
            return;
        };
        let (one, other) = (
            device.open(4096, ALL_RIGHTS).expect("a handle"),
            device.open(8192, ALL_RIGHTS).expect("a handle"),
        );
        let session = configured(&mut device, &other);
        let queue = |device: &mut Device, file: &File, code, input: &[u8]| {
            let submitted = device.submit(file, code, input, 4096).expect("no rule");
            let Submitted::Queued(request) = submitted else {
                panic!("{submitted:?}");
            };
            request
        };
        let first = queue(&mut device, &one, machine::HELLO, &plain(0));
        let second = queue(&mut device, &other, session::START, &about(session));
        device.machine.settle().unwrap_or_else(|v| panic!("{v}"));
        for request in [first, second] {
            let (status, _) = device.finish_request(request).expect("no rule");
            assert_eq!(status, NtStatus::SUCCESS);
        }
        assert_eq!(device.machine.framework.presented_elsewhere, 1);
        let (_, reply) = ask(&mut device, &one, machine::DESCRIBE, &plain(0));
        let (described, _) = Machine::read_from_prefix(&reply).expect("a machine");
        assert_eq!(described.holder_process, 8192);
        device.close(&one).expect("no rule");
        end(device, &other);
    }
}

/// The framework cancels waiting requests when EvtFileCleanup has returned, not before.
#[test]
fn what_waits_at_cleanup() {
    let Some(mut device) = working(1) else { return };
    let (one, other) = (
        device.open(4096, ALL_RIGHTS).expect("a handle"),
        device.open(8192, ALL_RIGHTS).expect("a handle"),
    );
    let request = match device.submit(&one, machine::HELLO, &plain(0), 4096) {
        Ok(Submitted::Queued(request)) => request,
        refused => panic!("{refused:?}"),
    };
    device.machine.framework.cancel(other.object());
    assert!(!device.machine.framework.is_completed(request));
    device.machine.framework.cancel(one.object());
    let (status, _) = device.finish_request(request).expect("no rule");
    assert_eq!(status, CANCELLED);
    device.close(&one).expect("no rule");
    every_session_is_free(&mut device).expect("none is left");
    end(device, &other);
}

/// A kernel caller can send one (WDF_FILEOBJECT_CLASS's page, WdfFileObjectCanBeOptional).
#[test]
fn requests_without_a_file_object() {
    let Some(mut device) = working(1) else { return };
    for &(code, name) in RequestCode::ALL {
        let answer = device.device_control_without_file(code, &plain(session::KERNEL), 4096);
        let (status, reply) = answer.unwrap_or_else(|v| panic!("{name}: {v}"));
        assert_ne!(status, NtStatus::SUCCESS, "{name}");
        assert!(reply.is_empty(), "{name}");
    }
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    assert_eq!(greets(&mut device, &file), NtStatus::SUCCESS);
    every_session_is_free(&mut device).expect("none was opened");
    end(device, &file);
}

/// The second buffer of a direct method belongs to the client, which writes to it at the same time:
/// the driver checks the code first, and retrieves no such buffer.
#[test]
fn no_buffer_that_the_client_can_write() {
    let Some(mut device) = working(1) else { return };
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    for method in [1, 2] {
        for &(code, _) in RequestCode::ALL {
            let code = RequestCode(code.0 | method);
            let mut output = vec![0; 4096];
            let answer = device.device_control(&file, code, &plain(0), &mut output);
            answer.unwrap_or_else(|violation| panic!("{violation}"));
        }
    }
    assert_eq!(device.machine.framework.shared_buffers, 0);
    end(device, &file);
}
