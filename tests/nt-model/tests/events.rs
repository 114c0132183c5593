//! Are processes and images reported while a session asks for them, and is nothing left of that
//! afterwards?

use crate::client::{Client, PROCESS, refusal};
use halprof_tests::driver;
use halprof_tests::requests::spec;
use nt_model::notify::{Mapped, News};
use nt_model::traffic::level;
use nt_model::{Device, Violation};
use shared_types::request::events::{DRAIN_EVENTS, DrainedEvents};
use shared_types::request::session::{self, EVENTS, SAMPLE, Spec};
use shared_types::{ErrorCode, EventKind, SystemEvent};
use sim::models::{find, repeat};
use zerocopy::FromBytes;

const SHORT: u32 = 5000;
const PATH: &str = r"\Device\HarddiskVolume3\Programs\short.exe";
const SOURCES: [u32; 2] = [2, 6];
const INSUFFICIENT_RESOURCES: u64 = 0xC000_009A;
const INVALID_PARAMETER: u64 = 0xC000_000D;

fn device(seed: u64) -> Option<Device> {
    let file = driver::file()?;
    let leaves = repeat(&find("skylake").expect("a model").processors(), 2);
    let mut device = Device::new(&file, &leaves, seed).expect("a machine");
    assert_eq!(device.start().expect("no rule"), 0);
    Some(device)
}

/// A configured session that records system events; with `kernel`, one that may see the kernel.
fn configured(device: &mut Device, kernel: bool) -> Result<Client, Violation> {
    let user = |source| Spec { filter: Spec::USER, ..spec(source) };
    Client::configured(device, kernel, SAMPLE | EVENTS, &SOURCES.map(user))
}

/// The same, running.
fn started(device: &mut Device, kernel: bool) -> Result<Client, Violation> {
    let client = configured(device, kernel)?;
    client.granted(device, session::START)?;
    Ok(client)
}

/// All waiting events, and how many were lost.
fn drain(client: &Client, device: &mut Device) -> Result<(Vec<SystemEvent>, u64), Violation> {
    let (mut all, mut lost) = (Vec::new(), 0);
    loop {
        let reply = client.send(device, DRAIN_EVENTS)?;
        assert_eq!(refusal(&reply), None);
        let (head, rows) = DrainedEvents::read_from_prefix(&reply).expect("a head");
        let rows = rows.chunks_exact(size_of::<SystemEvent>());
        let rows: Vec<_> =
            rows.map(|row| SystemEvent::read_from_bytes(row).expect("an event")).collect();
        assert_eq!(rows.len(), head.count as usize);
        all.extend(rows);
        lost += head.lost;
        if head.left == 0 {
            return Ok((all, lost));
        }
    }
}

fn kinds(events: &[SystemEvent]) -> Vec<EventKind> {
    let kinds = events.iter().map(|event| EventKind::from_wire(event.kind));
    kinds.map(|kind| kind.expect("a known kind")).collect()
}

fn name(event: &SystemEvent) -> String {
    String::from_utf16_lossy(&event.name[..event.name_units.into()])
}

fn settle(device: &mut Device) {
    device.machine.settle().unwrap_or_else(|v| panic!("{v}"));
}

fn image(process: u32, start: u64, path: Option<&str>) -> News {
    News::Image(Mapped { process, start, bytes: 0x8000, path: path.map(str::to_owned) })
}

fn end(mut device: Device, client: &Client) {
    device.close(&client.file).expect("no rule");
    device.remove().unwrap_or_else(|v| panic!("remove: {v}"));
}

#[test]
fn a_short_process_is_told_of_with_its_image() {
    use EventKind::{ImageLoaded, ProcessEnded, ProcessStarted, SessionStarted, SessionStopped};
    let Some(mut device) = device(1) else { return };
    let client = started(&mut device, true).expect("no rule");
    device.machine.tell_of_a_process(SHORT, PATH);
    settle(&mut device);
    client.send(&mut device, session::STOP).expect("no rule");
    assert!(device.machine.kernel.notify.registered().is_empty());
    let (events, lost) = drain(&client, &mut device).expect("no rule");
    let expected = [SessionStarted, ProcessStarted, ImageLoaded, ProcessEnded, SessionStopped];
    assert_eq!((kinds(&events).as_slice(), lost), (&expected[..], 0));
    let processes: Vec<u32> = events.iter().map(|event| event.process).collect();
    assert_eq!(processes, [PROCESS, SHORT, SHORT, SHORT, PROCESS]);
    let loaded = &events[2];
    assert_eq!(name(loaded), PATH);
    assert_eq!((loaded.start, loaded.amount), (0x7FF7_0000_0000, 0x8000));
    assert_eq!((loaded.flags, events[1].subject), (0, 4));
    end(device, &client);
}

#[test]
fn power_and_processors_are_told_of() {
    use EventKind::{Asleep, Awake, ProcessorAdded, SessionStarted};
    let Some(mut device) = device(1) else { return };
    let client = started(&mut device, true).expect("no rule");
    device.sleep().unwrap_or_else(|v| panic!("{v}"));
    device.wake().unwrap_or_else(|v| panic!("{v}"));
    let leaves = find("skylake").expect("a model").processors();
    let added = device.add_processors(&leaves[..1], &[0]);
    added.unwrap_or_else(|v| panic!("{v}"));
    let (events, _) = drain(&client, &mut device).expect("no rule");
    let expected = [SessionStarted, Asleep, Awake, ProcessorAdded];
    assert_eq!(kinds(&events), expected);
    assert_eq!(events[3].subject, 2);
    end(device, &client);
}

#[test]
fn names_are_bounded_and_may_be_missing() {
    let Some(mut device) = device(1) else { return };
    let client = started(&mut device, true).expect("no rule");
    let long = format!(r"\Device\{}\long.dll", "x".repeat(300));
    let news = [
        image(SHORT, 0x1000_0000, Some(&long)),
        image(SHORT, 0x2000_0000, None),
        image(SHORT, 0x3000_0000, Some("")),
    ];
    device.machine.tell(news);
    settle(&mut device);
    let (events, _) = drain(&client, &mut device).expect("no rule");
    let images: Vec<_> = events[1..].iter().map(|one| (name(one), one.flags)).collect();
    let cut = long[long.len() - shared_types::EVENT_NAME_UNITS..].to_owned();
    let none = (String::new(), 0);
    assert_eq!(images, [(cut, SystemEvent::CUT), none.clone(), none]);
    end(device, &client);
}

/// The right is that of samples: the session asked for the kernel, and its client may see
/// addresses.
#[test]
fn images_of_the_kernel_are_for_who_may_see_them() {
    const DRIVER: u64 = 0xFFFF_F805_1000_0000;
    for may in [false, true] {
        let Some(mut device) = device(1) else { return };
        let client = started(&mut device, may).expect("no rule");
        device.machine.tell([
            image(0, DRIVER, Some(r"\SystemRoot\System32\drivers\x.sys")),
            image(SHORT, DRIVER, Some(r"\SystemRoot\System32\win32k.sys")),
            image(0, 0x1000, Some("low.sys")),
            image(SHORT, 0x1000_0000, Some(PATH)),
        ]);
        settle(&mut device);
        let (events, lost) = drain(&client, &mut device).expect("no rule");
        let starts: Vec<u64> = events[1..].iter().map(|event| event.start).collect();
        let user = [0x1000_0000];
        let all = [DRIVER, DRIVER, 0x1000, 0x1000_0000];
        assert_eq!(starts, if may { &all[..] } else { &user[..] });
        assert_eq!(lost, 0);
        end(device, &client);
    }
}

#[test]
fn what_a_full_ring_loses_is_counted() {
    const CAPACITY: usize = 2048;
    const TOO_MANY: usize = 30;
    let Some(mut device) = device(1) else { return };
    let client = started(&mut device, true).expect("no rule");
    let news = (0..CAPACITY + TOO_MANY).map(|number| News::Started(4 * number as u32, 4));
    device.machine.tell(news);
    settle(&mut device);
    let (events, lost) = drain(&client, &mut device).expect("no rule");
    // The session's start is the first.
    assert_eq!((events.len(), lost), (CAPACITY, TOO_MANY as u64 + 1));
    let newest = events.last().expect("an event").process;
    assert_eq!(newest as usize, 4 * (CAPACITY - 2));
    device.machine.tell([News::Ended(SHORT)]);
    settle(&mut device);
    let (events, lost) = drain(&client, &mut device).expect("no rule");
    assert_eq!((events.len(), lost), (1, 0));
    end(device, &client);
}

/// Others may have registered all 64 routines of a kind. Nothing is left of a start that is
/// refused.
#[test]
fn routines_that_windows_refuses_refuse_the_start() {
    let refused = [((64, 0), INVALID_PARAMETER), ((0, 64), INSUFFICIENT_RESOURCES)];
    for ((processes, images), status) in refused {
        let Some(mut device) = device(1) else { return };
        let client = configured(&mut device, true).expect("no rule");
        let before = level(&mut device);
        device.machine.kernel.notify.set_others(processes, images);
        let reply = client.send(&mut device, session::START).expect("no rule");
        let told = Some((ErrorCode::EventsUnavailable, status));
        let refused = refusal(&reply).map(|(code, _, detail)| (code, detail));
        assert_eq!(refused, told);
        assert!(device.machine.kernel.notify.registered().is_empty());
        assert!(device.machine.kernel.counters.is_none());
        let compared = before.compare(&level(&mut device), false, &[]);
        compared.unwrap_or_else(|v| panic!("{v}"));
        device.machine.kernel.notify.set_others(63, 63);
        let reply = client.send(&mut device, session::START).expect("no rule");
        assert_eq!(refusal(&reply), None);
        end(device, &client);
    }
}

type Ending = fn(&mut Device, &Client) -> Result<(), Violation>;

/// Every way in which a session can end, and whether the handle is still open afterwards.
const ENDINGS: [(&str, Ending, bool); 6] = [
    ("stop", |d, c| c.send(d, session::STOP).map(drop), true),
    ("close", |d, c| c.send(d, session::CLOSE).map(drop), true),
    ("handle closed", |d, c| d.close(&c.file), false),
    ("device stopped", |d, _| d.stop(), true),
    ("surprise removal", |d, _| d.surprise_remove(), true),
    ("removal", |d, c| d.close(&c.file).and_then(|()| d.remove()), false),
];

/// Processes start while the session ends; afterwards none is reported.
#[test]
fn routines_are_gone_after_every_end_of_a_session() {
    let (mut told, mut waited) = (0, 0);
    for (what, ending, open) in ENDINGS {
        for seed in 0..8 {
            let Some(mut device) = device(seed) else {
                return;
            };
            let client = started(&mut device, true).expect("no rule");
            device.machine.disturbed = true;
            device.machine.start_a_process_after(seed * 97);
            let ended = ending(&mut device, &client);
            ended.unwrap_or_else(|v| panic!("{what}, seed {seed}: {v}"));
            device.machine.disturbed = false;
            settle(&mut device);
            let notify = &device.machine.kernel.notify;
            assert!(notify.registered().is_empty(), "{what}, seed {seed}");
            told += notify.told;
            waited += notify.waited;
            let before = notify.told;
            device.machine.tell_of_a_process(SHORT, PATH);
            settle(&mut device);
            assert_eq!(device.machine.kernel.notify.told, before, "{what}");
            if open {
                device.close(&client.file).expect("no rule");
            }
            device.remove().unwrap_or_else(|v| panic!("{what}: {v}"));
        }
    }
    assert!(told > 30 && waited > 0, "{told} told, {waited} waits");
}

/// A process starts at each instruction from the beginning of the removal.
#[test]
fn a_process_at_each_instruction_of_the_removal() {
    const INSTRUCTIONS: u64 = 200;
    let Some(mut device) = device(7) else { return };
    let client = configured(&mut device, true).expect("no rule");
    for instruction in 0..INSTRUCTIONS {
        let reply = client.send(&mut device, session::START).expect("no rule");
        assert_eq!(refusal(&reply), None);
        device.machine.start_a_process_in_a_removal(instruction);
        let reply = client.send(&mut device, session::STOP);
        let reply = reply.unwrap_or_else(|v| panic!("instruction {instruction}: {v}"));
        assert_eq!(refusal(&reply), None);
        assert!(device.machine.kernel.notify.registered().is_empty());
    }
    assert!(device.machine.kernel.notify.told > 0);
    end(device, &client);
}
