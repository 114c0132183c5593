//! Does the driver survive every order in which the PnP and power managers call it?

use crate::client::{Client, client, device};
use halprof_tests::backend::{Backend, unbroken};
use halprof_tests::requests::{configure, spec};
use halprof_tests::wire::{AMPLE, Reply, about, plain};
use nt_model::Device;
use nt_model::device::pnp::DEVICE_POWER_FAILURE;
use nt_model::device::{File, Submitted};
use nt_model::kmdf::power::{D0_ENTRY, D0_EXIT, PREPARE, RELEASE};
use nt_model::traffic::every_session_is_free;
use shared_types::request::machine::{self, Machine};
use shared_types::request::{RequestCode, counts, session};
use shared_types::{ErrorCode, NtStatus};

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
    let mut device = device("skylake", 2, seed)?;
    assert_eq!(device.load().expect("no rule"), 0);
    Some(device)
}

fn working(seed: u64) -> Option<Client> {
    let mut client = client("skylake", 2, seed)?;
    client.model.machine.framework.called.clear();
    Some(client)
}

/// Runs a test on a few orders of what Windows leaves open.
fn each_seed(test: impl Fn(Client)) {
    (0..SEEDS).map_while(working).for_each(test);
}

fn greets(client: &mut Client) -> NtStatus {
    client.send(machine::HELLO, &plain(0)).status
}

/// A session that is configured to sample.
fn configured(client: &mut Client) -> u32 {
    client.configured(session::SAMPLE, &SOURCES.map(spec))
}

/// A session that runs, and has counted something.
fn running(client: &mut Client) -> u32 {
    let session = configured(client);
    client.granted(session::START, session);
    client.begin("instructions=400000,cycles=500000,processors=all");
    client.advance(100_000);
    client.granted(counts::SNAPSHOT, session);
    session
}

#[test]
fn stopped_and_started_with_a_handle_and_a_session() {
    each_seed(|mut client| {
        let session = running(&mut client);
        unbroken(client.model.stop());
        assert!(client.model.machine.framework.interface_enabled);
        assert!(client.model.machine.framework.linked);
        assert!(client.model.machine.kernel.counters.is_none());
        let not_ready = NtStatus::DEVICE_NOT_READY;
        assert_eq!(greets(&mut client), not_ready);
        assert_eq!(unbroken(client.model.start_device()), 0);
        let orders = [stopped(), released(), prepared(), started()];
        assert_eq!(client.model.machine.framework.called, orders);
        assert_eq!(greets(&mut client), NtStatus::SUCCESS);
        let error = client.about(counts::SNAPSHOT, session).error();
        assert_eq!(error, Some(ErrorCode::UnknownSession));
        running(&mut client);
        client.end();
    });
}

#[test]
fn removed_without_a_start() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(unbroken(device.add()), 0);
    let mut client = Client::on(device);
    assert_eq!(greets(&mut client), NtStatus::DEVICE_NOT_READY);
    unbroken(client.model.close(&client.handle));
    unbroken(client.model.remove());
    assert_eq!(client.model.machine.framework.called, []);
}

#[test]
fn asked_before_it_is_started() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(unbroken(device.add()), 0);
    assert!(!device.machine.framework.interface_enabled);
    let mut client = Client::on(device);
    let not_ready = NtStatus::DEVICE_NOT_READY;
    for &(code, name) in RequestCode::ALL {
        assert_eq!(client.send(code, &plain(0)).status, not_ready, "{name}");
    }
    assert_eq!(unbroken(client.model.start_device()), 0);
    assert_eq!(greets(&mut client), NtStatus::SUCCESS);
    running(&mut client);
    client.end();
}

#[test]
fn shut_down_with_a_session() {
    each_seed(|mut client| {
        let session = running(&mut client);
        unbroken(client.model.shut_down());
        assert_eq!(client.model.machine.framework.called, [stopped()]);
        assert_eq!(greets(&mut client), NtStatus::SUCCESS);
        client.granted(counts::SNAPSHOT, session);
        let other = configured(&mut client);
        let error = client.about(session::START, other).error();
        assert_ne!(error, None, "nothing starts while the machine shuts down");
        unbroken(client.model.close(&client.handle));
    });
}

#[test]
fn surprise_removal() {
    each_seed(|mut client| {
        running(&mut client);
        unbroken(client.model.surprise_remove());
        let orders = [stopped(), released()];
        assert_eq!(client.model.machine.framework.called, orders);
        assert!(!client.model.machine.framework.linked);
        let not_ready = NtStatus::DEVICE_NOT_READY;
        assert_eq!(greets(&mut client), not_ready);
        assert_eq!(unbroken(client.model.add_another()), NAME_COLLISION);
        client.end();
    });
}

/// Windows does not remove the overflow handler of a device that is removed by surprise. It may be
/// called for as long as Windows runs, so the image stays in memory, and the handler accesses
/// nothing that was freed: neither while it is being freed, nor afterwards.
#[test]
fn surprise_removal_with_a_handler_that_stays() {
    for seed in 0..64 {
        let Some(mut client) = working(seed) else {
            return;
        };
        running(&mut client);
        client.model.machine.kernel.keeps_handler = true;
        client.model.machine.disturbed = true;
        let gone = client.model.surprise_remove();
        gone.unwrap_or_else(|v| panic!("seed {seed}: {v}"));
        client.model.machine.disturbed = false;
        assert!(client.model.machine.kernel.interrupt_handler.is_some());
        interrupt_everywhere(&mut client);
        unbroken(client.model.close(&client.handle));
        unbroken(client.model.remove());
        assert_ne!(client.model.machine.kernel.driver_references, 0);
        interrupt_everywhere(&mut client);
    }
}

/// Windows refuses to remove the overflow handler at the end of a session. The driver keeps it, with
/// the counters and itself, says so, and samples no more; counting goes on, also after the device
/// was stopped and started, and each START asks again.
#[test]
fn stopped_with_a_handler_that_stays() {
    for (restarts, goes_in_the_end) in [(false, false), (false, true), (true, false), (true, true)]
    {
        let Some(mut client) = working(1) else { return };
        let mut session = running(&mut client);
        client.model.machine.kernel.keeps_handler = true;
        if restarts {
            assert!(client.model.agrees_to_stop());
            unbroken(client.model.stop());
            assert_eq!(client.model.machine.framework.stays, 0);
            interrupt_everywhere(&mut client);
            assert_eq!(unbroken(client.model.start_device()), 0);
            session = configured(&mut client);
        } else {
            client.granted(session::STOP, session);
        }
        assert!(client.model.machine.kernel.counters.is_some());
        assert_eq!(client.model.machine.framework.stays, 1);
        assert_eq!(client.model.machine.kernel.driver_references, 1);
        assert_eq!(client.machine().flags, Machine::HANDLER_STUCK);
        for _ in 0..2 {
            let error = client.about(session::START, session).error();
            assert_eq!(error, Some(ErrorCode::HandlerStuck));
            interrupt_everywhere(&mut client);
            let input = configure(session, 0, &SOURCES.map(spec));
            assert_eq!(client.send(session::CONFIGURE, &input).error(), None);
            client.granted(session::START, session);
            client.granted(counts::SNAPSHOT, session);
            client.granted(session::STOP, session);
            let input = configure(session, session::SAMPLE, &SOURCES.map(spec));
            assert_eq!(client.send(session::CONFIGURE, &input).error(), None);
        }
        assert_eq!(client.model.machine.framework.stays, 1);
        if goes_in_the_end {
            client.model.machine.kernel.keeps_handler = false;
            client.granted(session::START, session);
            assert_eq!(client.machine().flags, 0);
            assert_eq!(client.model.machine.framework.stays, 0);
            assert_eq!(client.model.machine.kernel.driver_references, 0);
        }
        client.end();
    }
}

/// Nor can the page of the local APIC be mapped when the device is started again. As long as the
/// handler stays, that is what users are told.
#[test]
fn stopped_with_a_handler_that_stays_and_started_without_a_page() {
    let Some(mut client) = working(1) else { return };
    running(&mut client);
    client.model.machine.kernel.keeps_handler = true;
    unbroken(client.model.stop());
    // The call before it registers for added processors.
    client.model.machine.kernel.fail_after = Some(1);
    assert_eq!(unbroken(client.model.start_device()), 0);
    assert_eq!(client.model.machine.kernel.failed, ["MmMapIoSpaceEx"]);
    let session = configured(&mut client);
    for (keeps, error) in [(true, ErrorCode::HandlerStuck), (false, ErrorCode::InterruptTaken)] {
        client.model.machine.kernel.keeps_handler = keeps;
        assert_eq!(client.about(session::START, session).error(), Some(error));
    }
    client.end();
}

/// Windows refuses to remove the handler, and the start that would ask again fails: the device's
/// removal asks for the last time. The image stays in memory, because another processor may still
/// be in the handler.
#[test]
fn removed_when_windows_lets_go_of_the_handler() {
    let Some(mut client) = working(1) else { return };
    running(&mut client);
    client.model.machine.kernel.keeps_handler = true;
    unbroken(client.model.stop());
    client.model.machine.kernel.fail_after = Some(0);
    assert_ne!(unbroken(client.model.start_device()), 0);
    assert!(client.model.machine.kernel.counters.is_some());
    client.model.machine.kernel.keeps_handler = false;
    unbroken(client.model.close(&client.handle));
    unbroken(client.model.remove());
    assert!(client.model.machine.kernel.interrupt_handler.is_none());
    assert!(client.model.machine.kernel.counters.is_none());
    assert_eq!(client.model.machine.kernel.driver_references, 1);
}

/// The device comes back while Windows still has the handler, or the counters of threads: that is
/// known, and asked for again.
#[test]
fn removed_and_added_with_what_windows_keeps() {
    type Keep = fn(&mut Client, bool);
    let keeps: [(u32, Keep, ErrorCode, u32); 2] = [
        (
            session::SAMPLE,
            |client, keep| client.model.machine.kernel.keeps_handler = keep,
            ErrorCode::HandlerStuck,
            Machine::HANDLER_STUCK,
        ),
        (
            session::THREADS,
            |client, keep| client.model.machine.kernel.profiling = usize::from(keep),
            ErrorCode::ThreadsKept,
            Machine::THREADS_KEPT,
        ),
    ];
    for (flags, keep, error, flag) in keeps {
        let Some(mut client) = working(1) else { return };
        let session = client.configured(flags, &SOURCES.map(spec));
        client.granted(session::START, session);
        keep(&mut client, true);
        unbroken(client.model.surprise_remove());
        unbroken(client.model.close(&client.handle));
        unbroken(client.model.remove_device());
        interrupt_everywhere(&mut client);
        assert_eq!(unbroken(client.model.add()), 0);
        assert_eq!(unbroken(client.model.start_device()), 0);
        let mut client = Client::on(client.model);
        let session = client.configured(flags, &SOURCES.map(spec));
        assert_eq!(client.machine().flags, flag);
        assert_eq!(client.about(session::START, session).error(), Some(error));
        assert!(!client.model.agrees_to_stop());
        keep(&mut client, false);
        client.granted(session::START, session);
        assert_eq!(client.machine().flags, 0);
        client.granted(session::STOP, session);
        assert_eq!(client.model.machine.kernel.driver_references, 0);
        client.end();
    }
}

fn interrupt_everywhere(client: &mut Client) {
    for processor in 0..client.model.machine.processors() {
        client.spurious_interrupt(processor);
    }
}

/// The removal waits until the system is awake, and nothing of the session is active then.
#[test]
fn surprise_removal_while_asleep() {
    each_seed(|mut client| {
        running(&mut client);
        unbroken(client.model.sleep());
        unbroken(client.model.surprise_remove());
        let orders = [(D0_EXIT, vec![D3]), (D0_ENTRY, vec![D3]), stopped(), released()];
        assert_eq!(client.model.machine.framework.called, orders);
        assert!(client.model.machine.kernel.counters.is_none());
        client.end();
    });
}

/// D0Exit is not called then; ReleaseHardware is, within the start.
#[test]
fn d0_entry_fails() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(unbroken(device.add()), 0);
    device.d0_entry_answers = Some(UNSUCCESSFUL);
    assert_eq!(unbroken(device.start_device()), DEVICE_POWER_FAILURE);
    let orders = [prepared(), started(), released()];
    assert_eq!(device.machine.framework.called, orders);
    let mut client = Client::on(device);
    assert_eq!(greets(&mut client), NtStatus::DEVICE_NOT_READY);
    client.end();
}

/// The bus fails the start: no callback is called, and the device answers all the same.
#[test]
fn the_bus_fails_its_start() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(unbroken(device.add()), 0);
    device.bus_fails_start = Some(UNSUCCESSFUL);
    assert_eq!(unbroken(device.start_device()), UNSUCCESSFUL);
    assert_eq!(device.machine.framework.called, []);
    let mut client = Client::on(device);
    assert_eq!(greets(&mut client), NtStatus::DEVICE_NOT_READY);
    client.end();
}

/// The device works, and is found by its link only: no later start sets the interface.
#[test]
fn the_interface_cannot_be_enabled() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(unbroken(device.add()), 0);
    device.interface_fails = true;
    assert_eq!(unbroken(device.start_device()), 0);
    device.interface_fails = false;
    let mut client = Client::on(device);
    running(&mut client);
    assert_eq!(unbroken(client.model.start_again()), 0);
    running(&mut client);
    assert!(client.model.machine.framework.linked);
    assert!(!client.model.machine.framework.interface_enabled);
    client.end();
}

/// The device was in D0 when its start failed.
#[test]
fn wmi_cannot_be_registered_with() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(unbroken(device.add()), 0);
    device.wmi_fails = Some(UNSUCCESSFUL);
    assert_eq!(unbroken(device.start_device()), UNSUCCESSFUL);
    let orders = [prepared(), started(), stopped(), released()];
    assert_eq!(device.machine.framework.called, orders);
    assert!(!device.machine.framework.interface_enabled);
    let mut client = Client::on(device);
    assert_eq!(greets(&mut client), NtStatus::DEVICE_NOT_READY);
    client.end();
}

/// The session that slept still holds its counters, and nothing of it is left.
#[test]
fn d0_entry_fails_after_sleep() {
    let Some(mut client) = working(1) else { return };
    running(&mut client);
    unbroken(client.model.sleep());
    client.model.d0_entry_answers = Some(UNSUCCESSFUL);
    unbroken(client.model.wake());
    let orders = [(D0_EXIT, vec![D3]), (D0_ENTRY, vec![D3]), released()];
    assert_eq!(client.model.machine.framework.called, orders);
    assert!(client.model.machine.kernel.counters.is_none());
    client.end();
}

#[test]
fn prepare_hardware_fails() {
    let Some(mut device) = loaded(1) else { return };
    assert_eq!(unbroken(device.add()), 0);
    device.machine.kernel.fail_after = Some(0);
    let status = unbroken(device.start_device());
    assert!(status.cast_signed() < 0, "{status:#x}");
    assert_eq!(
        device.machine.framework.called,
        [prepared(), released()],
        "{:?}",
        device.machine.kernel.failed
    );
    assert_eq!(unbroken(device.start_device()), 0);
    let mut client = Client::on(device);
    running(&mut client);
    client.end();
}

#[test]
fn a_second_device() {
    let Some(mut client) = working(1) else { return };
    let session = running(&mut client);
    assert_eq!(unbroken(client.model.add_another()), NAME_COLLISION);
    client.granted(counts::SNAPSHOT, session);
    assert_eq!(client.model.machine.framework.called, []);
    client.end();
}

/// Codes like ours, but with another method: METHOD_IN_DIRECT, METHOD_OUT_DIRECT, METHOD_NEITHER. The
/// second buffer of a direct method belongs to the client, which writes to it at the same time: the
/// driver checks the code first, and retrieves no such buffer.
#[test]
fn other_transfer_methods() {
    let Some(mut client) = working(1) else { return };
    for method in 1..4 {
        for &(code, name) in RequestCode::ALL {
            for room in [0, 24, 4096] {
                let code = RequestCode(code.0 | method);
                let mut output = vec![0; room];
                let answer =
                    client.model.device_control(&client.handle, code, &plain(0), &mut output);
                let (status, length) = answer.unwrap_or_else(|v| panic!("{name}: {v}"));
                assert_ne!(status, NtStatus::SUCCESS, "{name}, method {method}");
                assert_eq!(length, 0, "{name}, method {method}");
            }
        }
    }
    assert_eq!(client.model.machine.framework.shared_buffers, 0);
    assert_eq!(greets(&mut client), NtStatus::SUCCESS);
    client.end();
}

/// It is presented in another process's thread, but belongs to its own process.
#[test]
fn a_request_that_waited() {
    each_seed(|mut client| {
        let (one, other) = (client.handle.clone(), client.other(8192));
        let theirs = client.open_by(&other);
        let input = configure(theirs, session::SAMPLE, &SOURCES.map(spec));
        let reply = client.send_by(&other, session::CONFIGURE, &input, AMPLE);
        assert_eq!(reply.refusal(), None);
        let mut queue = |file: &File, code, input: &[u8]| {
            let submitted = unbroken(client.model.submit(file, code, input, 4096));
            let Submitted::Queued(request) = submitted else {
                panic!("{submitted:?}");
            };
            request
        };
        let first = queue(&one, machine::HELLO, &plain(0));
        let second = queue(&other, session::START, &about(theirs));
        unbroken(client.model.machine.settle());
        for request in [first, second] {
            let (status, _) = unbroken(client.model.finish_request(request));
            assert_eq!(status, NtStatus::SUCCESS);
        }
        assert_eq!(client.model.machine.framework.presented_elsewhere, 1);
        assert_eq!(client.machine().active_process, 8192);
        unbroken(client.model.close(&other));
        client.end();
    });
}

/// Queues a request of the second file behind one of the first, and has the third file's process
/// present it; returns the requests of all three, which are completed.
fn presented_by_third(
    client: &mut Client,
    [one, other, third]: [&File; 3],
    code: RequestCode,
    input: &[u8],
) -> [u64; 3] {
    let queue = |client: &mut Client, file: &File, code, input: &[u8]| {
        let submitted = unbroken(client.model.submit(file, code, input, 4096));
        let Submitted::Queued(request) = submitted else {
            panic!("{submitted:?}");
        };
        request
    };
    let first = queue(client, one, machine::HELLO, &plain(0));
    let second = queue(client, other, code, input);
    while !client.model.machine.framework.is_completed(first) {
        assert!(unbroken(client.model.machine.go_on()));
    }
    let last = queue(client, third, machine::HELLO, &plain(0));
    unbroken(client.model.machine.settle());
    assert_eq!(client.model.machine.framework.presented_by_a_third, 1);
    [first, second, last]
}

/// A request arrives when the one before is completed, and its callback has not returned: its thread
/// presents the one that waits, in a process that has nothing to do with either.
#[test]
fn a_request_that_a_third_process_presents() {
    each_seed(|mut client| {
        let (one, other) = (client.handle.clone(), client.other(8192));
        let third = client.other(12_288);
        let theirs = client.open_by(&other);
        let input = configure(theirs, session::SAMPLE, &SOURCES.map(spec));
        let reply = client.send_by(&other, session::CONFIGURE, &input, AMPLE);
        assert_eq!(reply.refusal(), None);
        let [first, second, last] =
            presented_by_third(&mut client, [&one, &other, &third], session::START, &about(theirs));
        for request in [first, second, last] {
            let (status, _) = unbroken(client.model.finish_request(request));
            assert_eq!(status, NtStatus::SUCCESS);
        }
        assert_eq!(client.machine().active_process, 8192);
        unbroken(client.model.close(&other));
        unbroken(client.model.close(&third));
        client.end();
    });
}

/// The privilege is that of the thread that presents a request, and here it belongs to a third
/// process: the one that asks for kernel addresses does not have it.
#[test]
fn a_third_process_lends_nobody_its_privilege() {
    each_seed(|mut client| {
        let (one, other) = (client.handle.clone(), client.other(8192));
        let third = client.other(12_288);
        let theirs = client.open_by(&other);
        client.model.hide_kernel_addresses(&other);
        let input = configure(theirs, session::SAMPLE, &SOURCES.map(spec));
        let [first, second, last] =
            presented_by_third(&mut client, [&one, &other, &third], session::CONFIGURE, &input);
        let (status, bytes) = unbroken(client.model.finish_request(second));
        let refused = Reply { status, bytes }.refusal().map(|(error, ..)| error);
        assert_eq!(refused, Some(ErrorCode::KernelAddressesNotGranted));
        for request in [first, last] {
            unbroken(client.model.finish_request(request));
        }
        unbroken(client.model.close(&other));
        unbroken(client.model.close(&third));
        client.end();
    });
}

/// The framework cancels waiting requests when EvtFileCleanup has returned, not before.
#[test]
fn what_waits_at_cleanup() {
    let Some(mut client) = working(1) else { return };
    let (one, other) = (client.handle.clone(), client.other(8192));
    let request = match client.model.submit(&one, machine::HELLO, &plain(0), 4096) {
        Ok(Submitted::Queued(request)) => request,
        refused => panic!("{refused:?}"),
    };
    client.model.machine.framework.cancel(other.object);
    assert!(!client.model.machine.framework.is_completed(request));
    client.model.machine.framework.cancel(one.object);
    let (status, _) = unbroken(client.model.finish_request(request));
    assert_eq!(status, CANCELLED);
    every_session_is_free(&mut client.model).expect("none is left");
    unbroken(client.model.close(&other));
    client.end();
}

/// A kernel caller can send one (WDF_FILEOBJECT_CLASS's page, WdfFileObjectCanBeOptional).
#[test]
fn requests_without_a_file_object() {
    let Some(mut client) = working(1) else { return };
    for &(code, name) in RequestCode::ALL {
        let answer = client.model.device_control_without_file(code, &plain(session::KERNEL), 4096);
        let (status, reply) = answer.unwrap_or_else(|v| panic!("{name}: {v}"));
        assert_ne!(status, NtStatus::SUCCESS, "{name}");
        assert!(reply.is_empty(), "{name}");
    }
    assert_eq!(greets(&mut client), NtStatus::SUCCESS);
    every_session_is_free(&mut client.model).expect("none was opened");
    client.end();
}

/// Another thread's request opens a session after the handle was closed: it ends with the file
/// object.
#[test]
fn a_session_opened_after_its_handle_was_closed() {
    let Some(mut client) = working(1) else { return };
    unbroken(client.model.clean_up(&client.handle));
    client.open();
    unbroken(client.model.end_file(&client.handle));
    every_session_is_free(&mut client.model).expect("the session has ended");
    unbroken(client.model.remove());
}
