//! Is CR4.PCE set on every processor while a session holds it, and then restored as it was found?
//!
//! The model refuses a write that changes another bit, a write under a hypervisor, and a PCE that
//! is not as it was found after unload. CR4 survives sleep, and user mode runs before D0Entry.

use hal_profile::cpu::machine::CR4_PCE;
use halprof_tests::driver;
use halprof_tests::requests::{ALL_RIGHTS, bytes, header};
use nt_model::Device;
use nt_model::device::File;
use shared_types::request::rdpmc::{self, Rdpmc};
use shared_types::request::session::{self, Opened, Session};
use shared_types::request::{Plain, RequestCode};
use shared_types::{ErrorCode, NtStatus, ReplyHeader};
use sim::cpu::cpuid::Leaves;
use sim::machines::models::find;
use zerocopy::FromBytes;

const PROCESSORS: usize = 4;

fn leaves(model: &str) -> Vec<Leaves> {
    let leaves = find(model).expect("a model").processors();
    leaves.iter().cycle().take(PROCESSORS).cloned().collect()
}

fn started(file: &[u8], model: &str, seed: u64) -> Device {
    let mut device = Device::new(file, &leaves(model), seed).expect("a machine");
    assert_eq!(device.start().expect("no rule"), 0);
    device
}

fn ask(device: &mut Device, file: &File, code: RequestCode, input: &[u8]) -> Vec<u8> {
    let mut output = vec![0; 64];
    let answer = device.device_control(file, code, input, &mut output);
    let (status, length) = answer.unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(status, NtStatus::SUCCESS);
    output.truncate(length);
    output
}

/// Opens the device and a session.
fn client(device: &mut Device, process: u32) -> (File, Vec<u8>) {
    let file = device.open(process, ALL_RIGHTS).expect("a handle");
    let open = bytes(&Plain { header: header(0) }, &[]);
    let opened = ask(device, &file, session::OPEN, &open);
    let about = Session {
        header: header(0),
        session: Opened::read_from_bytes(&opened).expect("opened").session,
        reserved: 0,
    };
    (file, bytes(&about, &[]))
}

/// Holders, processors, those with PCE set, and those on which it was found set.
fn told(reply: &[u8]) -> [u32; 4] {
    let told = Rdpmc::read_from_bytes(reply).expect("no refusal");
    [told.holders, told.processors, told.on, told.found]
}

fn refusal(reply: &[u8]) -> Option<(ErrorCode, u32)> {
    let (header, _) = ReplyHeader::read_from_prefix(reply).expect("a header");
    Some((ErrorCode::from_wire(header.error)?, header.subject))
}

fn set(device: &mut Device) -> Vec<bool> {
    let cpus = &device.machine.engine.bus().cpus;
    let set = cpus.iter().map(|cpu| cpu.processor.cr4() & CR4_PCE != 0);
    set.collect()
}

/// Someone else has set it on processor 1.
fn set_by_another(device: &mut Device) {
    let processor = &mut device.machine.engine.bus().cpus[1].processor;
    let cr4 = processor.cr4();
    processor.set_cr4(cr4 | CR4_PCE);
}

#[test]
fn two_holders_one_killed_sleep_and_a_processor_added() {
    let Some(driver) = driver::file() else { return };
    for seed in 1..=8 {
        let mut device = started(&driver, "skylake", seed);
        set_by_another(&mut device);
        let (one, about_one) = client(&mut device, 1001);
        let (other, about_other) = client(&mut device, 1002);
        let reply = ask(&mut device, &one, rdpmc::ALLOW, &about_one);
        assert_eq!(told(&reply), [1, 4, 4, 1]);
        let reply = ask(&mut device, &other, rdpmc::ALLOW, &about_other);
        assert_eq!(told(&reply), [2, 4, 4, 1]);
        device.close(&one).expect("no rule");
        assert_eq!(set(&mut device), [true; 4]);

        device.sleep().expect("no rule");
        assert_eq!(set(&mut device), [true; 4], "a program may execute RDPMC");
        device.wake().expect("no rule");
        assert_eq!(set(&mut device), [true; 4]);

        let added = device.add_processors(&leaves("skylake")[..1], &[0]);
        added.expect("no rule");
        assert_eq!(set(&mut device), [true; 5]);
        let status = bytes(&Plain { header: header(0) }, &[]);
        let reply = ask(&mut device, &other, rdpmc::STATUS, &status);
        assert_eq!(told(&reply), [1, 5, 5, 1]);

        device.close(&other).expect("no rule");
        let left = [false, true, false, false, false];
        assert_eq!(set(&mut device), left);
        device.remove().expect("nothing is left");
    }
}

#[test]
fn one_that_was_set_before_stays_set() {
    let Some(driver) = driver::file() else { return };
    let mut device = started(&driver, "zen4", 1);
    set_by_another(&mut device);
    let (file, about) = client(&mut device, 1001);
    ask(&mut device, &file, rdpmc::ALLOW, &about);
    let reply = ask(&mut device, &file, rdpmc::RELEASE, &about);
    assert_eq!(told(&reply), [0, 4, 1, 1]);
    assert_eq!(set(&mut device), [false, true, false, false]);
    let reply = ask(&mut device, &file, rdpmc::RELEASE, &about);
    assert_eq!(told(&reply), [0, 4, 1, 1], "nothing to let go");
    device.remove().expect("nothing is left");
}

#[test]
fn the_device_goes_while_it_is_held() {
    let Some(driver) = driver::file() else { return };
    let mut device = started(&driver, "skylake", 1);
    let (file, about) = client(&mut device, 1001);
    ask(&mut device, &file, rdpmc::ALLOW, &about);
    device.surprise_remove().expect("no rule");
    assert_eq!(set(&mut device), [false; 4]);
    device.close(&file).expect("no rule");
    device.remove().expect("nothing is left");
}

#[test]
fn under_a_hypervisor_cr4_is_not_written() {
    let Some(driver) = driver::file() else { return };
    for model in ["hyperv-root-intel", "hyperv-guest-masked", "kvm-amd"] {
        let mut device = started(&driver, model, 1);
        let (file, about) = client(&mut device, 1001);
        let reply = ask(&mut device, &file, rdpmc::ALLOW, &about);
        assert_eq!(refusal(&reply), Some((ErrorCode::Hypervisor, 0)), "{model}");
        let status = bytes(&Plain { header: header(0) }, &[]);
        let reply = ask(&mut device, &file, rdpmc::STATUS, &status);
        assert_eq!(told(&reply), [0, 4, 0, 0]);
        device.remove().expect("nothing is left");
    }
}

#[test]
fn where_it_does_not_stay_every_processor_is_as_it_was() {
    let Some(driver) = driver::file() else { return };
    let mut device = started(&driver, "skylake", 1);
    device.machine.engine.bus().cpus[2].processor.guard_pce();
    let (file, about) = client(&mut device, 1001);
    let reply = ask(&mut device, &file, rdpmc::ALLOW, &about);
    assert_eq!(refusal(&reply), Some((ErrorCode::RdpmcRefused, 2)));
    assert_eq!(set(&mut device), [false; 4]);
    device.remove().expect("nothing is left");
}

#[test]
fn while_the_machine_sleeps_it_can_be_released_and_is_not_given() {
    let Some(driver) = driver::file() else { return };
    let mut device = started(&driver, "skylake", 1);
    let (one, about_one) = client(&mut device, 1001);
    let (other, about_other) = client(&mut device, 1002);
    ask(&mut device, &one, rdpmc::ALLOW, &about_one);
    device.sleep().expect("no rule");
    let reply = ask(&mut device, &other, rdpmc::ALLOW, &about_other);
    assert_eq!(refusal(&reply).map(|(code, _)| code), Some(ErrorCode::Suspended));
    let reply = ask(&mut device, &one, rdpmc::RELEASE, &about_one);
    assert_eq!(told(&reply), [0, 4, 0, 0]);
    device.wake().expect("no rule");
    assert_eq!(set(&mut device), [false; 4]);
    device.remove().expect("nothing is left");
}
