//! Does a recording name the processes and modules that actually ran?

use super::*;
use crate::file::{Identity, Stamp};
use halprof_measure::processes::{ProcessChange, ProcessEvent};
use std::cell::RefCell;
use std::rc::Rc;

/// A system whose processes come and go as the test decides.
#[derive(Clone, Default)]
struct Stage(Rc<RefCell<Played>>);

#[derive(Default)]
struct Played {
    now: u64,
    processes: BTreeMap<u32, (String, Vec<Module>)>,
    /// The names of threads that may be asked for theirs.
    threads: BTreeMap<u32, String>,
    /// How often modules were scanned.
    looks: u32,
}

impl Stage {
    fn run(&self, id: u32, name: &str, modules: &[&str]) {
        let images = modules.iter().zip(1..).map(|(name, at)| image(name, at << 16)).collect();
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
        self.0.borrow().processes.iter().map(|(&id, (name, _))| (id, name.clone())).collect()
    }

    fn modules(&mut self, process: u32) -> Option<Vec<Module>> {
        let mut played = self.0.borrow_mut();
        played.looks += 1;
        played.processes.get(&process).map(|(_, modules)| modules.clone())
    }

    fn kernel(&mut self) -> Vec<Module> {
        vec![image("ntoskrnl.exe", KERNEL)]
    }

    fn thread_name(&mut self, thread: u32) -> Option<String> {
        self.0.borrow().threads.get(&thread).cloned()
    }
}

const KERNEL: u64 = 0xFFFF_F800_0000_0000;

fn image(name: &str, start: u64) -> Module {
    Module {
        name: name.to_owned(),
        path: Some(format!("C:\\{name}")),
        start,
        end: start + 0x8000,
        ..Module::default()
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
    let (stage, mut inventory) = begun();
    stage.run(9, "new.exe", &["new.exe"]);
    let changes = inventory.scan(1);
    assert_eq!(changes.processes[0].started, Some(2));
    assert_eq!(changes.modules[0].loaded, Some(2));
    stage.end(9);
    let changes = inventory.scan(2);
    assert_eq!((changes.processes[0].id, changes.processes[0].ended), (9, Some(3)));
    stage.run(9, "other.exe", &["other.exe"]);
    inventory.scan(3);
    stage.run(9, "third.exe", &["third.exe"]);
    let changes = inventory.scan(4);
    let notifications: Vec<_> = changes.processes.iter().map(|one| &one.name[..]).collect();
    assert_eq!(notifications, ["other.exe", "third.exe"], "one number, two programs");
}

#[test]
fn a_thread_that_is_sampled_is_asked_for_its_name() {
    let (stage, mut inventory) = begun();
    let on = |thread| Sample { thread, ..sample(7, 0x1_1000) };
    let name = |thread, name: &str| {
        stage.0.borrow_mut().threads.insert(thread, name.to_owned());
    };
    let told = |inventory: &mut Inventory, threads: &[u32]| -> Vec<(u32, u32, String)> {
        let samples: Vec<Sample> = threads.iter().map(|&thread| on(thread)).collect();
        inventory.note_samples(&samples);
        let threads = inventory.scan(1).threads.into_iter();
        threads.map(|own| (own.process, own.thread, own.name)).collect()
    };
    name(1, "first");
    name(3, "never sampled");
    // The second may not be asked, or has no name.
    assert_eq!(told(&mut inventory, &[1, 2, 1]), [(7, 1, "first".to_owned())]);
    assert_eq!(told(&mut inventory, &[1, 2]), [], "it is known");
    name(1, "again");
    name(2, "late");
    assert_eq!(told(&mut inventory, &[]), [], "neither is sampled");
    let names = [(7, 1, "again".to_owned()), (7, 2, "late".to_owned())];
    assert_eq!(told(&mut inventory, &[2, 1]), names);
}

#[test]
fn a_sample_from_nowhere_asks_for_a_look() {
    let (stage, mut inventory) = begun();
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
    let (stage, mut inventory) = begun();
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
    let (stage, mut inventory) = begun();
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
    let (_stage, mut inventory) = begun();
    inventory.note_samples(&[sample(7, 0x1_0000), sample(21, 0x1000), sample(21, 0x1000)]);
    inventory.note_samples(&[sample(22, 0x1000)]);
    inventory.scan(1);
    assert_eq!(inventory.missed(), Missed { processes: 2, samples: 3 });
}

fn event(process: u32, timestamp: u64, change: ProcessChange) -> ProcessEvent {
    ProcessEvent { timestamp, process, change }
}

fn started(process: u32, name: &str, timestamp: u64) -> ProcessEvent {
    event(process, timestamp, ProcessChange::Started(name.to_owned()))
}

const fn ended(process: u32, timestamp: u64) -> ProcessEvent {
    ProcessEvent { timestamp, process, change: ProcessChange::Ended }
}

/// As long as [`image`].
fn loaded(process: u32, path: &str, start: u64, timestamp: u64) -> ProcessEvent {
    let path = path.to_owned();
    event(process, timestamp, ProcessChange::Loaded { path, start, end: start + 0x8000 })
}

const fn unloaded(process: u32, start: u64, timestamp: u64) -> ProcessEvent {
    ProcessEvent { timestamp, process, change: ProcessChange::Unloaded(start) }
}

/// A process that lives between two scans, with samples.
#[test]
fn what_no_scan_has_seen_is_known_at_the_end() {
    const PATH: &str = r"\Device\HarddiskVolume3\short.exe";
    let (_stage, mut inventory) = begun();
    inventory.note_samples(&[sample(900, (1 << 16) + 5)]);
    inventory.scan(SCAN_NS);
    assert_eq!(inventory.missed(), Missed { processes: 1, samples: 1 });
    let changes = inventory.complete(vec![
        started(900, "short.exe", 70),
        loaded(900, PATH, 1 << 16, 71),
        loaded(900, "unused.dll", 1 << 20, 72),
        unloaded(900, 1 << 16, 89),
        ended(900, 90),
    ]);
    let [process] = &changes.processes[..] else { panic!("{changes:?}") };
    assert_eq!((&*process.name, process.started, process.ended), ("short.exe", Some(70), Some(90)));
    assert_eq!(names(&changes.modules), ["short.exe", "unused.dll"]);
    let module = &changes.modules[0];
    assert_eq!((module.loaded, module.unloaded), (Some(71), Some(89)));
    assert_eq!(module.path.as_deref(), Some(PATH));
    assert_eq!(inventory.missed(), Missed::default());
    assert_eq!(sampled(&mut inventory), ["short.exe"]);
}

/// The times of scans give way to those of events: rows that replace others.
#[test]
fn what_scans_have_seen_gets_its_exact_times() {
    let (stage, mut inventory) = begun();
    stage.0.borrow_mut().now = 100;
    stage.run(900, "late.exe", &["late.exe"]);
    inventory.scan(SCAN_NS);
    stage.end(900);
    stage.run(7, "a.exe", &["a.exe"]);
    inventory.note_samples(&[sample(7, 0x90_0000)]);
    inventory.scan(2 * SCAN_NS);
    let changes = inventory.complete(vec![
        started(900, "LATE.EXE", 70),
        loaded(900, r"\Device\late.exe", 1 << 16, 71),
        ended(900, 95),
        unloaded(7, 2 << 16, 99),
    ]);
    let found = Some(101);
    let processes = [Process {
        id: 900,
        name: "late.exe".to_owned(),
        started: Some(70),
        ended: Some(95),
        found,
    }];
    assert_eq!(changes.processes, processes);
    let modules = changes.modules.iter();
    let modules = modules.map(|one| (&*one.name, one.loaded, one.found, one.unloaded));
    let expected = [("b.dll", None, None, Some(99)), ("late.exe", Some(71), found, None)];
    assert_eq!(modules.collect::<Vec<_>>(), expected);
}

/// Identifiers and addresses are used again, and the first scan takes a while.
#[test]
fn events_are_of_the_life_that_they_fall_into() {
    for (events, processes, modules) in [
        // One that no scan saw, before one that a scan found.
        (
            vec![started(900, "first.exe", 70), ended(900, 80), started(900, "second.exe", 90)],
            &[("first.exe", Some(70), Some(80), None), ("second.exe", Some(90), None, Some(101))][..],
            &[][..],
        ),
        // The end of the first was lost.
        (
            vec![started(900, "first.exe", 70), started(900, "second.exe", 90)],
            &[("first.exe", Some(70), None, None), ("second.exe", Some(90), None, Some(101))],
            &[],
        ),
        // One after it.
        (
            vec![started(900, "second.exe", 90), ended(900, 110), started(900, "second.exe", 120)],
            &[
                ("second.exe", Some(90), Some(110), Some(101)),
                ("second.exe", Some(120), None, None),
            ],
            &[],
        ),
        // What the first scan found while it went on.
        (
            vec![started(7, "a.exe", 1), loaded(7, "b.dll", 2 << 16, 1), ended(7, 130)],
            &[("a.exe", None, Some(130), None)],
            &[],
        ),
        // Another image in the place of one that is unmapped, and that one again.
        (
            vec![
                unloaded(7, 2 << 16, 60),
                loaded(7, "c.dll", 2 << 16, 61),
                unloaded(7, 2 << 16, 62),
                loaded(7, "b.dll", 2 << 16, 63),
            ],
            &[],
            &[("b.dll", None, Some(60)), ("c.dll", Some(61), Some(62)), ("b.dll", Some(63), None)],
        ),
        // What nobody knows does not end.
        (vec![ended(950, 70), unloaded(950, 1 << 16, 70), unloaded(7, 9 << 16, 70)], &[], &[]),
    ] {
        let (stage, mut inventory) = begun();
        stage.0.borrow_mut().now = 100;
        stage.run(900, "second.exe", &[]);
        inventory.scan(SCAN_NS);
        let changes = inventory.complete(events.clone());
        let all = changes.processes.iter();
        let all = all.map(|one| (&*one.name, one.started, one.ended, one.found));
        assert_eq!(all.collect::<Vec<_>>(), processes, "{events:?}");
        let all = changes.modules.iter().map(|one| (&*one.name, one.loaded, one.unloaded));
        assert_eq!(all.collect::<Vec<_>>(), modules, "{events:?}");
    }
}

#[test]
fn a_reported_image_is_the_kernels_or_its_processs() {
    let high = KERNEL + (1 << 24);
    for (event, name, process, path) in [
        (loaded(0, r"\a.sys", high, 70), "a.sys", None, Some(r"\a.sys")),
        // A driver that is loaded while a process runs.
        (loaded(7, r"\b.sys", high, 71), "b.sys", None, Some(r"\b.sys")),
        (loaded(7, r"\c.dll", 1 << 23, 71), "c.dll", Some(7), Some(r"\c.dll")),
        (loaded(7, "", 1 << 25, 73), "", Some(7), None),
    ] {
        let (_stage, mut inventory) = begun();
        let changes = inventory.complete(vec![event]);
        let module = changes.modules.last().expect("a module");
        assert_eq!((&*module.name, module.process, module.path.as_deref()), (name, process, path));
    }
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
    inventory.note_samples(&[sample(7, 0x90_0FFF), sample(7, 0x2_8000), sample(7, 0x90_9000)]);
    inventory.complete(vec![loaded(7, "late.dll", 0x90_1000, 70)]);
    assert_eq!(sampled(&mut inventory), [""; 0]);
}

/// A library that took the place of another of the same size since the last scan.
#[test]
fn a_scan_tells_what_took_the_place_of_another() {
    let (stage, mut inventory) = begun();
    stage.run(7, "a.exe", &["a.exe", "c.dll"]);
    inventory.note_samples(&[sample(7, 0x90_0000)]);
    let changes = inventory.scan(1);
    let modules = changes.modules.iter().map(|one| (&*one.name, one.loaded, one.unloaded));
    assert_eq!(modules.collect::<Vec<_>>(), [("b.dll", None, Some(2)), ("c.dll", Some(2), None)]);
}
