//! Does a session end if another thread's request opened it after its handle was closed?

use halprof_tests::driver;
use halprof_tests::requests::{ALL_RIGHTS, bytes, header};
use nt_model::Device;
use nt_model::traffic::every_session_is_free;
use shared_types::NtStatus;
use shared_types::request::Plain;
use shared_types::request::session::{self, Opened};
use sim::machines::models::find;
use zerocopy::FromBytes;

#[test]
fn it_ends_with_the_file_object() {
    let Some(driver) = driver::file() else { return };
    let leaves = find("skylake").expect("a model").processors();
    let mut device = Device::new(&driver, &leaves, 1).expect("a machine");
    assert_eq!(device.start().expect("no rule"), 0);
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    device.clean_up(&file).expect("no rule");
    let head = Plain { header: header(session::KERNEL) };
    let mut output = [0; size_of::<Opened>()];
    let input = bytes(&head, &[]);
    let answer = device.device_control(&file, session::OPEN, &input, &mut output);
    assert_eq!(answer.expect("no rule").0, NtStatus::SUCCESS);
    let opened = Opened::read_from_bytes(&output).expect("a reply");
    assert_eq!(opened.header.error, 0);
    device.end_file(&file).expect("no rule");
    every_session_is_free(&mut device).expect("the session has ended");
    device.remove().expect("nothing is left");
}
