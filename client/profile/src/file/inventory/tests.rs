//! Does a recording name the processes and modules that actually ran?

use super::*;
use crate::file::Stamp;
use shared_types::{EventKind, SystemEvent};
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::FromZeros;

/// A system whose processes come and go as the test decides.
#[derive(Clone, Default)]
struct Stage(Rc<RefCell<Played>>);

#[derive(Default)]
struct Played {
    now: u64,
    processes: BTreeMap<u32, (String, Vec<Image>)>,
    /// How often modules were scanned.
    looks: u32,
}

impl Stage {
    fn run(&self, id: u32, name: &str, modules: &[&str]) {
        let modules = modules.iter().zip(1..);
        let images = modules.map(|(name, at)| image(name, at << 16)).collect();
        let mut played = self.0.borrow_mut();
        played.processes.insert(id, (name.to_owned(), images));
    }

    fn end(&self, id: u32) {
        self.0.borrow_mut().processes.remove(&id);
    }
}

impl System for Stage {
    fn now(&mut self) -> u64 {
        let mut played = self.0.borrow_mut();
        played.now += 1;
        played.now
    }

    fn processes(&mut self) -> Vec<(u32, String)> {
        let played = self.0.borrow();
        let processes = played.processes.iter();
        processes.map(|(&id, (name, _))| (id, name.clone())).collect()
    }

    fn modules(&mut self, process: u32) -> Option<Vec<Image>> {
        let mut played = self.0.borrow_mut();
        played.looks += 1;
        let process = played.processes.get(&process);
        process.map(|(_, modules)| modules.clone())
    }

    fn kernel(&mut self) -> Vec<Image> {
        vec![image("ntoskrnl.exe", KERNEL)]
    }
}

const KERNEL: u64 = 0xFFFF_F800_0000_0000;

fn image(name: &str, start: u64) -> Image {
    Image {
        name: name.to_owned(),
        path: Some(format!("C:\\{name}")),
        start,
        end: start + 0x8000,
        identity: None,
    }
}

fn sample(process: u32, ip: u64) -> Sample {
    Sample { process, ip, mode: Mode::User as u8, ..Sample::default() }
}

fn inventory() -> (Stage, Inventory) {
    let stage = Stage::default();
    stage.run(4, "System", &[]);
    stage.run(7, "a.exe", &["a.exe", "b.dll"]);
    (stage.clone(), Inventory::new(Box::new(stage)))
}

/// The same after its first scan.
fn begun() -> (Stage, Inventory) {
    let (stage, mut inventory) = inventory();
    inventory.scan(0);
    (stage, inventory)
}

fn names(modules: &[Module]) -> Vec<&str> {
    modules.iter().map(|module| module.name.as_str()).collect()
}

fn identity(path: &str) -> Identity {
    Identity::BuildId(path.to_owned())
}

#[test]
fn the_first_look_sees_what_ran_before() {
    let (_, mut inventory) = inventory();
    let changes = inventory.scan(0);
    assert_eq!(changes.processes.len(), 2);
    assert_eq!(names(&changes.modules), ["ntoskrnl.exe", "a.exe", "b.dll"]);
    assert_eq!(changes.modules[0].process, None);
    assert_eq!(changes.modules[1].process, Some(7));
    assert!(changes.processes.iter().all(|one| one.started.is_none()));
    assert!(changes.modules.iter().all(|one| one.loaded.is_none()));
    assert_eq!(inventory.scan(1), Changes::default());
}

#[test]
fn what_comes_and_goes_is_told_with_its_time() {
    let (stage, mut inventory) = inventory();
    inventory.scan(0);
    stage.run(9, "new.exe", &["new.exe"]);
    let changes = inventory.scan(1);
    assert_eq!(changes.processes[0].started, Some(1));
    assert_eq!(changes.modules[0].loaded, Some(1));
    stage.end(9);
    let changes = inventory.scan(2);
    assert_eq!((changes.processes[0].id, changes.processes[0].ended), (9, Some(2)));
    stage.run(9, "other.exe", &["other.exe"]);
    inventory.scan(3);
    stage.run(9, "third.exe", &["third.exe"]);
    let changes = inventory.scan(4);
    let notifications: Vec<_> = changes.processes.iter().map(|one| &one.name[..]).collect();
    assert_eq!(notifications, ["other.exe", "third.exe"], "one number, two programs");
}

#[test]
fn a_sample_from_nowhere_asks_for_a_look() {
    let (stage, mut inventory) = inventory();
    inventory.scan(0);
    inventory.note_samples(&[sample(7, 0x1_1000)]);
    assert_eq!(inventory.scan_if_due(SCAN_SOON_NS), Changes::default());
    stage.run(7, "a.exe", &["a.exe", "b.dll", "late.dll"]);
    assert_eq!(inventory.scan_if_due(SCAN_SOON_NS), Changes::default(), "nothing asks");
    inventory.note_samples(&[sample(7, 0x3_1000)]);
    assert_eq!(inventory.scan_if_due(SCAN_SOON_NS - 1), Changes::default());
    let changes = inventory.scan_if_due(SCAN_SOON_NS);
    assert_eq!(names(&changes.modules), ["late.dll"]);
    stage.run(11, "short.exe", &["short.exe"]);
    inventory.note_samples(&[sample(11, 0x1_0000)]);
    let changes = inventory.scan_if_due(3 * SCAN_SOON_NS);
    assert_eq!(names(&changes.modules), ["short.exe"]);
}

#[test]
fn code_without_a_module_is_not_asked_for_at_every_look() {
    let (stage, mut inventory) = inventory();
    inventory.scan(0);
    let before = stage.0.borrow().looks;
    for page in 0..1000 {
        inventory.note_samples(&[sample(7, 0x100_0000 + (page << PAGE_BITS))]);
        inventory.scan(page);
    }
    let looks = stage.0.borrow().looks - before;
    // Each pause is twice as long as the one before, up to 64 looks: 1, 3, 7, ..., 127, and then
    // every 65th.
    assert!((18..=22).contains(&looks), "{looks} looks");
}

#[test]
fn modules_with_samples_are_identified_and_no_others() {
    let (stage, mut inventory) = inventory();
    inventory.scan(0);
    inventory.note_samples(&[sample(7, 0x1_0000), sample(7, KERNEL + 1)]);
    stage.run(9, "brief.exe", &["brief.exe"]);
    // Its samples come before any scan, and it is gone when the next one comes.
    inventory.note_samples(&[sample(9, 0x1_7FFF)]);
    inventory.scan(1);
    stage.end(9);
    inventory.scan(2);
    let mut scan_requested = Vec::new();
    let mut modules = inventory.identified(|path| {
        scan_requested.push(path.to_owned());
        Build { identity: Some(identity(path)), stamp: None }
    });
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(names(&modules), ["a.exe", "brief.exe", "ntoskrnl.exe"]);
    assert_eq!(scan_requested.len(), 3);
    assert_eq!(modules[1].identity, Some(identity("C:\\brief.exe")));
}

#[test]
fn samples_of_processes_that_nobody_saw_are_counted() {
    let (_, mut inventory) = inventory();
    inventory.scan(0);
    inventory.note_samples(&[sample(7, 0x1_0000), sample(21, 0x1000), sample(21, 0x1000)]);
    inventory.note_samples(&[sample(22, 0x1000)]);
    inventory.scan(1);
    let expected = Missed { processes: 2, samples: 3 };
    assert_eq!(inventory.missed(), expected);
}

fn event(kind: EventKind, process: u32, timestamp: u64) -> SystemEvent {
    SystemEvent { kind: kind as u32, process, timestamp, ..SystemEvent::new_zeroed() }
}

fn loaded(process: u32, path: &str, start: u64, timestamp: u64) -> SystemEvent {
    let mut event = SystemEvent {
        start,
        amount: 0x1000,
        name_units: u16::try_from(path.len()).expect("short"),
        ..event(EventKind::ImageLoaded, process, timestamp)
    };
    for (place, unit) in event.name.iter_mut().zip(path.encode_utf16()) {
        *place = unit;
    }
    event
}

/// A process that lives between two scans, with samples that came before its start was reported.
#[test]
fn a_process_that_nobody_could_look_at_is_told_of() {
    const PATH: &str = r"\Device\HarddiskVolume3\short.exe";
    let (stage, mut inventory) = begun();
    inventory.set_notifications(true);
    inventory.note_samples(&[sample(900, (1 << 16) + 5)]);
    let changes = inventory.apply_events(
        &[
            event(EventKind::ProcessStarted, 900, 70),
            loaded(900, PATH, 1 << 16, 71),
            event(EventKind::ProcessEnded, 900, 90),
        ],
        0,
    );
    let lives = changes.processes.iter().map(|one| (&*one.name, one.started, one.ended));
    let expected =
        [("", Some(70), None), ("short.exe", Some(70), None), ("short.exe", Some(70), Some(90))];
    assert_eq!(lives.collect::<Vec<_>>(), expected);
    let [module] = &changes.modules[..] else {
        panic!("{changes:?}");
    };
    assert_eq!((&*module.name, module.loaded), ("short.exe", Some(71)));
    assert_eq!(module.path.as_deref(), Some(PATH));
    assert_eq!(inventory.missed(), Missed::default());
    // No sample requests a scan any more, and without a request there is none.
    let looks = stage.0.borrow().looks;
    assert_eq!(inventory.scan_if_due(60 * SCAN_NS), Changes::default());
    assert_eq!(stage.0.borrow().looks, looks);
    let modules = inventory.identified(|_| Build { identity: None, stamp: Some(Stamp::default()) });
    let names: Vec<_> = modules.iter().map(|module| &*module.name).collect();
    assert_eq!(names, ["short.exe"], "it had samples");
}

/// A process that starts is reported without a name; the next scan knows it.
#[test]
fn a_scan_names_what_was_reported_without_a_name() {
    let (stage, mut inventory) = begun();
    inventory.set_notifications(true);
    inventory.apply_events(&[event(EventKind::ProcessStarted, 900, 70)], 0);
    stage.run(900, "slow.exe", &[]);
    let changes = inventory.scan(1);
    let named: Vec<_> = changes.processes.iter().map(|one| &*one.name).collect();
    assert_eq!(named, ["slow.exe"]);
}

/// Identifiers are reused, and the end of a process may not have been reported.
#[test]
fn an_identifier_that_is_used_again_is_another_process() {
    let (_stage, mut inventory) = begun();
    inventory.set_notifications(true);
    inventory.apply_events(&[event(EventKind::ProcessStarted, 900, 70)], 0);
    inventory.apply_events(&[loaded(900, "first.exe", 1 << 16, 71)], 0);
    let changes = inventory.apply_events(&[event(EventKind::ProcessStarted, 900, 80)], 0);
    let times = changes.processes.iter().map(|one| (one.started, one.ended));
    assert_eq!(times.collect::<Vec<_>>(), [(Some(70), Some(80)), (Some(80), None)]);
}

/// A mapped image replaces what was there before; the same image again is nothing new.
#[test]
fn an_image_takes_the_place_of_what_was_there() {
    let (_stage, mut inventory) = begun();
    inventory.set_notifications(true);
    let first = loaded(900, "a.dll", 1 << 16, 71);
    inventory.apply_events(&[event(EventKind::ProcessStarted, 900, 70), first], 0);
    assert_eq!(inventory.apply_events(&[first], 0), Changes::default());
    let over = loaded(900, "b.dll", (1 << 16) + 0x800, 75);
    let changes = inventory.apply_events(&[over], 0);
    let modules = changes.modules.iter();
    let modules = modules.map(|one| (&*one.name, one.loaded, one.unloaded));
    assert_eq!(
        modules.collect::<Vec<_>>(),
        [("a.dll", Some(71), Some(75)), ("b.dll", Some(75), None)]
    );
    // Another of the same size, exactly there.
    let same_place = loaded(900, "c.dll", (1 << 16) + 0x800, 76);
    let changes = inventory.apply_events(&[same_place], 0);
    assert_eq!(names(&changes.modules), ["b.dll", "c.dll"]);
    // Others stay where they are.
    let beside = loaded(900, "d.dll", 1 << 20, 77);
    let changes = inventory.apply_events(&[beside], 0);
    assert_eq!(names(&changes.modules), ["d.dll"]);
}

#[test]
fn what_was_lost_is_looked_for() {
    let (stage, mut inventory) = begun();
    inventory.set_notifications(true);
    stage.run(904, "late.exe", &["late.exe"]);
    stage.end(4);
    assert_eq!(inventory.scan_if_due(60 * SCAN_NS), Changes::default());
    inventory.apply_events(&[], 3);
    let changes = inventory.scan_if_due(61 * SCAN_NS);
    let ids: Vec<_> = changes.processes.iter().map(|one| one.id).collect();
    assert!(ids.contains(&904) && ids.contains(&4), "{changes:?}");
}

#[test]
fn what_is_no_process_and_no_image_is_kept_as_it_was() {
    let (_stage, mut inventory) = begun();
    let lost = SystemEvent { subject: 3, amount: 17, ..event(EventKind::SamplesLost, 0, 99) };
    let asleep = event(EventKind::Asleep, 0, 100);
    let unknown = SystemEvent { kind: 999, ..asleep };
    let changes = inventory.apply_events(&[lost, asleep, unknown], 0);
    let row = |timestamp, kind: &str, processor, amount| RecordedEvent {
        timestamp,
        kind: kind.to_owned(),
        processor,
        amount,
    };
    let expected = [row(99, "samples-lost", Some(3), 17), row(100, "asleep", None, 0)];
    assert_eq!(changes.events, expected);
}

fn sampled(inventory: &mut Inventory) -> Vec<String> {
    let modules = inventory.identified(|_| Build { identity: None, stamp: Some(Stamp::default()) });
    let mut names: Vec<String> = modules.into_iter().map(|module| module.name).collect();
    names.sort_unstable();
    names
}

/// The code that was branched from has symbols of its own, even if no sample is in it.
#[test]
fn modules_with_branches_are_identified_too() {
    let branch = |from, flags| Branch { from, flags, ..Branch::default() };
    let with = |branches, process| Sample { branches, ..sample(process, 0x1_0000) };
    let (own, library, kernel) = (0x1_0000, 0x2_1000, KERNEL + 0x1000);
    for (samples, branches, expected) in [
        (vec![with(1, 7)], vec![branch(library, 0)], &["b.dll"][..]),
        (vec![with(1, 7)], vec![branch(kernel, 0)], &["ntoskrnl.exe"]),
        // What a recorder may not see has no address.
        (vec![with(1, 7)], vec![branch(library, Branch::HIDDEN)], &[]),
        // The first sample has no branch: all are of the second.
        (
            vec![with(0, 4), with(2, 7)],
            vec![branch(own, 0), branch(library, 0)],
            &["a.exe", "b.dll"],
        ),
    ] {
        let (_stage, mut inventory) = begun();
        inventory.note_branches(&samples, &branches);
        assert_eq!(sampled(&mut inventory), expected, "{branches:x?}");
    }
}

/// Samples right before and right behind a module.
#[test]
fn a_page_beside_a_module_is_not_the_modules() {
    let (_stage, mut inventory) = begun();
    inventory.set_notifications(true);
    inventory.apply_events(&[loaded(7, "late.dll", 0x90_1000, 70)], 0);
    inventory.note_samples(&[sample(7, 0x90_0FFF), sample(7, 0x2_8000)]);
    assert_eq!(sampled(&mut inventory), [""; 0]);
}

/// Where the system reports what comes and goes, only what a sample asks for is scanned.
#[test]
fn reports_alone_ask_for_no_scan() {
    let unknown = 0x90_0000;
    let late = loaded(7, "late.dll", unknown, 70);
    for (samples, events, scans) in [
        (&[][..], &[][..], false),
        (&[sample(7, unknown)], &[], true),
        // A report tells what is there; but not what is elsewhere.
        (&[sample(7, unknown)], &[late], false),
        (&[sample(7, unknown), sample(7, 0xA0_0000)], &[late], true),
    ] {
        let (stage, mut inventory) = begun();
        inventory.set_notifications(true);
        stage.run(904, "new.exe", &[]);
        inventory.note_samples(samples);
        inventory.apply_events(events, 0);
        let changes = inventory.scan_if_due(60 * SCAN_NS);
        assert_eq!(changes != Changes::default(), scans, "{samples:?}");
    }
}

/// A library that took the place of another of the same size since the last scan.
#[test]
fn a_scan_tells_what_took_the_place_of_another() {
    let (stage, mut inventory) = begun();
    stage.run(7, "a.exe", &["a.exe", "c.dll"]);
    inventory.note_samples(&[sample(7, 0x90_0000)]);
    let changes = inventory.scan(1);
    let modules = changes.modules.iter();
    let modules = modules.map(|one| (&*one.name, one.loaded, one.unloaded));
    assert_eq!(modules.collect::<Vec<_>>(), [("b.dll", None, Some(1)), ("c.dll", Some(1), None)]);
}

#[test]
fn a_reported_image_is_the_kernels_or_its_processs() {
    let (_stage, mut inventory) = begun();
    let cut = SystemEvent { flags: SystemEvent::CUT, ..loaded(7, r"cut\long.dll", 1 << 24, 72) };
    let high = KERNEL + (1 << 24);
    for (event, name, process, path) in [
        (loaded(0, r"\a.sys", high, 70), "a.sys", None, Some(r"\a.sys")),
        // A driver that is loaded while a process runs.
        (loaded(7, r"\b.sys", high, 71), "b.sys", None, Some(r"\b.sys")),
        (loaded(7, r"\c.dll", 1 << 23, 71), "c.dll", Some(7), Some(r"\c.dll")),
        // Of a path that was too long, only the name is left.
        (cut, "long.dll", Some(7), None),
        (loaded(7, "", 1 << 25, 73), "", Some(7), None),
    ] {
        let changes = inventory.apply_events(&[event], 0);
        let module = changes.modules.last().expect("a module");
        assert_eq!((&*module.name, module.process, module.path.as_deref()), (name, process, path));
    }
}
