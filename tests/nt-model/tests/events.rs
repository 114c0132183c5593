//! Are sleep and added processors recorded while a session asks for events?

use crate::client::{Client, PROCESS, refusal};
use halprof_tests::driver;
use halprof_tests::requests::spec;
use nt_model::Device;
use shared_types::request::events::{DRAIN_EVENTS, DrainedEvents};
use shared_types::request::session::{self, EVENTS, SAMPLE, Spec};
use shared_types::{EventKind, SystemEvent};
use sim::machines::models::{find, repeat};
use zerocopy::FromBytes;

const SOURCES: [u32; 2] = [2, 6];

#[test]
fn power_and_processors_are_told_of() {
    use EventKind::{Asleep, Awake, ProcessorAdded, SessionStarted, SessionStopped};
    let Some(file) = driver::file() else { return };
    let leaves = find("skylake").expect("a model").processors();
    let mut device = Device::new(&file, &repeat(&leaves, 2), 1).expect("a machine");
    assert_eq!(device.start().expect("no rule"), 0);
    let user = |source| Spec { filter: Spec::USER, ..spec(source) };
    let client = Client::configured(&mut device, true, SAMPLE | EVENTS, &SOURCES.map(user));
    let client = client.expect("no rule");
    client.granted(&mut device, session::START).expect("no rule");
    device.sleep().unwrap_or_else(|v| panic!("{v}"));
    device.wake().unwrap_or_else(|v| panic!("{v}"));
    let added = device.add_processors(&leaves[..1], &[0]);
    added.unwrap_or_else(|v| panic!("{v}"));
    client.send(&mut device, session::STOP).expect("no rule");
    let reply = client.send(&mut device, DRAIN_EVENTS).expect("no rule");
    assert_eq!(refusal(&reply), None);
    let (head, rows) = DrainedEvents::read_from_prefix(&reply).expect("a head");
    assert_eq!((head.left, head.lost), (0, 0));
    let rows = rows.chunks_exact(size_of::<SystemEvent>());
    let events = rows.map(|row| {
        let event = SystemEvent::read_from_bytes(row).expect("an event");
        (EventKind::from_wire(event.kind).expect("a known kind"), event.process, event.subject)
    });
    let expected = [
        (SessionStarted, PROCESS, 0),
        (Asleep, 0, 0),
        (Awake, 0, 0),
        (ProcessorAdded, 0, 2),
        (SessionStopped, PROCESS, 0),
    ];
    assert_eq!(events.collect::<Vec<_>>(), expected);
    device.close(&client.file).expect("no rule");
    device.remove().unwrap_or_else(|v| panic!("remove: {v}"));
}
