//! Does every added processor count, in whatever order Windows reports them?

use halprof_tests::driver;
use halprof_tests::requests::{ALL_RIGHTS, bytes, configure, header, spec};
use nt_model::Device;
use nt_model::device::File;
use shared_types::request::counts::{self, Count, Snapshot};
use shared_types::request::session::{self, Opened, Session};
use shared_types::request::{Plain, RequestCode, machine};
use shared_types::{NtStatus, ReplyHeader};
use sim::load::workload;
use sim::machines::models::find;
use zerocopy::FromBytes;

const TOTAL_ISSUES: u32 = 2;
const ADDED: usize = 3;
const INSTRUCTIONS: usize = 300_000;

fn ask(device: &mut Device, file: &File, code: RequestCode, input: &[u8]) -> Vec<u8> {
    let mut output = vec![0; 1 << 16];
    let answer = device.device_control(file, code, input, &mut output);
    let (status, length) = answer.unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(status, NtStatus::SUCCESS);
    output.truncate(length);
    let (header, _) = ReplyHeader::read_from_prefix(&output).expect("a header");
    assert_eq!(header.error, 0, "{code:?}");
    output
}

/// The processors on which a session that runs while these are added has counted everything.
fn counted(order: [usize; ADDED]) -> Option<(u32, usize)> {
    let file = driver::file()?;
    let leaves = find("skylake").expect("a model").processors();
    let mut device = Device::new(&file, &leaves[..1], 1).expect("a machine");
    assert_eq!(device.start().expect("no rule"), 0);
    let file = device.open(4096, ALL_RIGHTS).expect("a handle");
    let kernel = bytes(&Plain { header: header(session::KERNEL) }, &[]);
    let opened = ask(&mut device, &file, session::OPEN, &kernel);
    let number = Opened::read_from_prefix(&opened).expect("opened").0.session;
    let specs = [spec(TOTAL_ISSUES)];
    let input = configure(number, 0, &specs);
    ask(&mut device, &file, session::CONFIGURE, &input);
    let about = Session { header: header(0), session: number, reserved: 0 };
    let about = bytes(&about, &[]);
    ask(&mut device, &file, session::START, &about);
    let added = device.add_processors(&leaves[..ADDED], &order);
    added.unwrap_or_else(|violation| panic!("{order:?}: {violation}"));
    let work = "instructions=300000,cycles=400000,processors=all";
    device.begin(&workload::parse(work).expect("a workload"));
    while device.advance(1 << 40).expect("no rule") {}
    let reply = ask(&mut device, &file, counts::SNAPSHOT, &about);
    let (snapshot, _) = Snapshot::read_from_prefix(&reply).expect("a snapshot");
    let plain = bytes(&Plain { header: header(0) }, &[]);
    let described = ask(&mut device, &file, machine::DESCRIBE, &plain);
    let (described, _) = machine::Machine::read_from_prefix(&described).expect("a machine");
    let full = (INSTRUCTIONS as u64).to_le_bytes();
    let counts = reply[size_of_val(&snapshot)..].chunks_exact(size_of::<Count>());
    let counting = counts.filter(|count| count.starts_with(&full)).count();
    device.close(&file).expect("no rule");
    device.remove().expect("nothing is left");
    Some((described.processors, counting))
}

#[test]
fn in_order() {
    let Some(told) = counted([0, 1, 2]) else {
        return;
    };
    assert_eq!(told, (ADDED as u32 + 1, ADDED + 1));
}

#[test]
fn out_of_order() {
    for order in [[2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let Some(told) = counted(order) else { return };
        assert_eq!(told, (ADDED as u32 + 1, ADDED + 1), "{order:?}");
    }
}
