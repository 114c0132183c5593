//! Which processes run and what is loaded in them, kept up to date while samples come in.
//!
//! The driver reports processes and images as they come and go ([`Inventory::apply_events`]); what ran
//! before is scanned. Without such reports everything is scanned repeatedly, and a process that
//! ends between two scans is missed. The samples decide when a scan is worth its cost: one is
//! requested by a sample from an unknown process, or from an address where nothing is known to be.

mod notifications;

use crate::file::{Identity, Module, Process, RecordedEvent};
use crate::symbols::Build;
use shared_types::{Branch, Mode, Sample};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The scan interval while nothing new appears.
const SCAN_NS: u64 = 1_000_000_000;
/// The shortest interval between scans that samples request.
const SCAN_SOON_NS: u64 = 40_000_000;
/// A process that keeps requesting scans but shows nothing new skips up to this many scans.
const BACKOFF_MAX: u32 = 64;
/// Samples of a process from one page belong to one module.
const PAGE_BITS: u32 = 12;

/// The system that is measured.
pub trait System {
    /// The time, on the clock of samples.
    fn now(&mut self) -> u64;
    /// All processes: identifiers and names.
    fn processes(&mut self) -> Vec<(u32, String)>;
    /// What is loaded in a process; `None` if it may not be inspected.
    fn modules(&mut self, process: u32) -> Option<Vec<Image>>;
    /// The kernel's own modules.
    fn kernel(&mut self) -> Vec<Image>;
    /// Converts a path in the kernel's form to one that programs can open.
    fn on_disk(&mut self, native: &str) -> String {
        native.to_owned()
    }
}

/// An image of code in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Its name.
    pub name: String,
    /// The file it was loaded from, if known.
    pub path: Option<String>,
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// What identifies its symbols, if known without reading the file.
    pub identity: Option<Identity>,
}

/// What has changed since the last scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Processes that are new or have ended.
    pub processes: Vec<Process>,
    /// Modules that are new or were unloaded.
    pub modules: Vec<Module>,
    /// What else happened.
    pub events: Vec<RecordedEvent>,
}

/// What could not be determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Processes that ended before they were scanned.
    pub processes: u64,
    /// Their samples.
    pub samples: u64,
}

/// The owner of an address space: a process, or `None` for the kernel.
type Owner = Option<u32>;

/// What is known about the processes and their modules.
pub struct Inventory {
    system: Box<dyn System>,
    /// When the last scan was, in nanoseconds since the beginning.
    scanned_ns: Option<u64>,
    /// The running processes.
    running: BTreeMap<u32, Process>,
    address_spaces: BTreeMap<Owner, AddressSpace>,
    /// How many samples each process has.
    samples: HashMap<u32, u64>,
    /// Every process ever seen.
    seen: HashSet<u32>,
    /// Modules that had samples and have been unloaded.
    gone: Vec<Module>,
    /// Where the last sample came from; the next one most often comes from there too.
    last: (Owner, u64),
    /// A sample has requested a scan.
    scan_requested: bool,
    /// The system reports processes and images.
    notifications: bool,
    /// Some of its reports were lost.
    catch_up: bool,
}

/// An address space.
#[derive(Default)]
struct AddressSpace {
    /// By first address.
    modules: BTreeMap<u64, TrackedModule>,
    /// Pages that samples came from.
    pages: HashSet<u64>,
    /// A sample came from an address where nothing is known to be.
    wants_scan: bool,
    /// How many scans it skips after its next request.
    backoff: u32,
    skips: u32,
}

struct TrackedModule {
    module: Module,
    sampled: bool,
}

impl TrackedModule {
    fn of(process: Owner, image: Image, loaded: Option<u64>) -> Self {
        let module = Module {
            process,
            name: image.name,
            path: image.path,
            start: image.start,
            end: image.end,
            loaded,
            unloaded: None,
            identity: image.identity,
            stamp: None,
            seal: None,
        };
        Self { module, sampled: false }
    }
}

impl std::fmt::Debug for Inventory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let processes = &self.running;
        f.debug_struct("Inventory").field("running", processes).finish_non_exhaustive()
    }
}

impl Inventory {
    /// Starts with nothing known.
    #[must_use]
    pub fn new(system: Box<dyn System>) -> Self {
        Self {
            system,
            scanned_ns: None,
            running: BTreeMap::new(),
            address_spaces: BTreeMap::new(),
            samples: HashMap::new(),
            seen: HashSet::new(),
            gone: Vec::new(),
            last: (None, u64::MAX),
            scan_requested: false,
            notifications: false,
            catch_up: false,
        }
    }

    /// Notes where samples come from.
    pub fn note_samples(&mut self, samples: &[Sample]) {
        for sample in samples {
            *self.samples.entry(sample.process).or_default() += 1;
            if sample.mode == Mode::Unknown as u8 {
                continue;
            }
            let place = (owner(sample), sample.ip >> PAGE_BITS);
            if self.last != place {
                self.last = place;
                self.page(place);
            }
        }
    }

    /// Notes where their branches are: branch targets may have no samples.
    pub fn note_branches(&mut self, samples: &[Sample], branches: &[Branch]) {
        let mut rest = branches.iter();
        for sample in samples {
            for branch in rest.by_ref().take(sample.branches.into()) {
                let ip = branch.from;
                let place = (owner(&Sample { ip, ..*sample }), ip >> PAGE_BITS);
                if branch.flags & Branch::HIDDEN == 0 && self.last != place {
                    self.last = place;
                    self.page(place);
                }
            }
        }
    }

    fn page(&mut self, (owner, page): (Owner, u64)) {
        let address_space = self.address_spaces.entry(owner).or_default();
        if address_space.pages.insert(page) && !address_space.mark(page) {
            address_space.wants_scan = true;
            self.scan_requested |= address_space.skips == 0;
        }
    }

    /// Scans if it is time to; `elapsed_ns` is the time since the beginning.
    pub fn scan_if_due(&mut self, elapsed_ns: u64) -> Changes {
        let since = self.scanned_ns.map(|looked| elapsed_ns.saturating_sub(looked));
        let wait = match (self.scan_requested || self.catch_up, self.notifications) {
            (true, _) => SCAN_SOON_NS,
            (false, false) => SCAN_NS,
            (false, true) => return Changes::default(),
        };
        if since.is_some_and(|since| since < wait) {
            return Changes::default();
        }
        self.scan(elapsed_ns)
    }

    /// Scans what runs and what is loaded now.
    pub fn scan(&mut self, elapsed_ns: u64) -> Changes {
        let since = self.scanned_ns.map(|_| self.system.now());
        self.scanned_ns = Some(elapsed_ns);
        self.scan_requested = false;
        self.last = (None, u64::MAX);
        let mut changes = Changes::default();
        let new = self.scan_processes(since, &mut changes);
        let address_spaces =
            self.address_spaces.iter_mut().map(|(&owner, address_space)| (owner, address_space));
        let asking = address_spaces
            .filter_map(|(owner, address_space)| address_space.take_scan().then_some(owner));
        let mut owners: BTreeSet<Owner> = asking.chain(new.into_iter().map(Some)).collect();
        if since.is_none() {
            owners.insert(None);
        }
        for owner in owners {
            self.scan_modules(owner, since, &mut changes);
        }
        self.catch_up = false;
        changes
    }

    /// Returns the new processes.
    fn scan_processes(&mut self, since: Option<u64>, changes: &mut Changes) -> Vec<u32> {
        let now: BTreeMap<u32, String> = self.system.processes().into_iter().collect();
        // Ends are reported, unless some reports were lost.
        let trusts = self.notifications && !self.catch_up;
        let gone = |(id, process): &(&u32, &mut Process)| {
            !trusts && now.get(id).is_none_or(|name| !is_called(process, name))
        };
        for (_, process) in self.running.iter_mut().filter(gone) {
            process.ended = since;
            changes.processes.push(process.clone());
            let address_space = self.address_spaces.remove(&Some(process.id));
            self.gone.extend(address_space.into_iter().flat_map(AddressSpace::sampled));
        }
        self.running.retain(|_, process| process.ended.is_none());
        let mut new = Vec::new();
        for (id, name) in now {
            match self.running.entry(id) {
                Entry::Vacant(place) => {
                    let process = Process { id, name, started: since, ended: None };
                    changes.processes.push(process.clone());
                    place.insert(process);
                    self.seen.insert(id);
                    new.push(id);
                }
                Entry::Occupied(mut tracked) if tracked.get().name.is_empty() => {
                    tracked.get_mut().name = name;
                    changes.processes.push(tracked.get().clone());
                }
                Entry::Occupied(_) => {}
            }
        }
        new
    }

    fn scan_modules(&mut self, owner: Owner, since: Option<u64>, changes: &mut Changes) {
        let images = match owner {
            Some(process) => self.system.modules(process),
            None => Some(self.system.kernel()),
        };
        let address_space = self.address_spaces.entry(owner).or_default();
        let before = changes.modules.len();
        if let Some(images) = images {
            let gone = address_space.update(owner, images, since, &mut changes.modules);
            self.gone.extend(gone);
        }
        address_space.wants_scan = false;
        if changes.modules.len() > before {
            address_space.backoff = 0;
            address_space.mark_again();
        } else {
            address_space.backoff = (address_space.backoff * 2 + 1).min(BACKOFF_MAX);
        }
        address_space.skips = address_space.backoff;
    }

    /// The modules that samples came from, each with what `identify` finds in its file; modules
    /// about which it finds nothing are left out.
    pub fn identified(&mut self, mut identify: impl FnMut(&str) -> Build) -> Vec<Module> {
        let address_spaces = std::mem::take(&mut self.address_spaces).into_values();
        let mut modules = std::mem::take(&mut self.gone);
        modules.extend(address_spaces.flat_map(AddressSpace::sampled));
        let mut files: HashMap<String, Build> = HashMap::new();
        for module in &mut modules {
            if let (Some(path), None) = (&module.path, &module.identity) {
                let tracked = files.entry(path.clone());
                let build = tracked.or_insert_with(|| identify(path)).clone();
                (module.identity, module.stamp) = (build.identity, build.stamp);
            }
        }
        modules.retain(|module| module.identity.is_some() || module.stamp.is_some());
        modules
    }

    /// Forgets what is gone: for a recording without an end, which asks neither for
    /// [`Self::identified`] nor for [`Self::missed`].
    pub fn forget(&mut self) {
        self.gone.clear();
        self.seen.clear();
        self.samples.clear();
    }

    /// What will have no names in the recording.
    #[must_use]
    pub fn missed(&self) -> Missed {
        let strangers = self.samples.iter().filter(|(id, _)| !self.seen.contains(id));
        strangers.fold(Missed::default(), |missed, (_, samples)| Missed {
            processes: missed.processes + 1,
            samples: missed.samples + samples,
        })
    }
}

impl AddressSpace {
    /// Whether it requests a scan and does not skip it.
    const fn is_due(&self) -> bool {
        self.wants_scan && self.skips == 0
    }

    /// Whether it takes part in this scan: it has requested one and has no more to skip.
    const fn take_scan(&mut self) -> bool {
        let waited = self.skips == 0;
        self.skips = self.skips.saturating_sub(1);
        self.wants_scan && waited
    }

    /// Returns the modules with samples that have been unloaded.
    fn update(
        &mut self,
        process: Owner,
        images: Vec<Image>,
        since: Option<u64>,
        changes: &mut Vec<Module>,
    ) -> Vec<Module> {
        let mut sampled = Vec::new();
        let now: BTreeMap<u64, Image> =
            images.into_iter().map(|image| (image.start, image)).collect();
        let gone = |tracked: &Module| {
            now.get(&tracked.start)
                .is_none_or(|image| image.end != tracked.end || image.name != tracked.name)
        };
        self.modules.retain(|_, tracked| {
            let gone = gone(&tracked.module);
            if gone {
                tracked.module.unloaded = since;
                changes.push(tracked.module.clone());
                sampled.extend(tracked.sampled.then(|| tracked.module.clone()));
            }
            !gone
        });
        for (start, image) in now {
            self.modules.entry(start).or_insert_with(|| {
                let tracked = TrackedModule::of(process, image, since);
                changes.push(tracked.module.clone());
                tracked
            });
        }
        sampled
    }

    /// An image was mapped, and replaces what was in its place. Returns those replaced that had
    /// samples.
    fn load(
        &mut self,
        process: Owner,
        image: Image,
        now: u64,
        changes: &mut Vec<Module>,
    ) -> Vec<Module> {
        let matches = |tracked: &Module| tracked.end == image.end && tracked.name == image.name;
        let there = self.modules.get(&image.start);
        if image.end <= image.start || there.is_some_and(|tracked| matches(&tracked.module)) {
            return Vec::new();
        }
        let mut sampled = Vec::new();
        self.modules.retain(|_, tracked| {
            let module = &mut tracked.module;
            let stays = module.end <= image.start || image.end <= module.start;
            if !stays {
                module.unloaded = Some(now);
                changes.push(module.clone());
                sampled.extend(tracked.sampled.then(|| module.clone()));
            }
            stays
        });
        let tracked = TrackedModule::of(process, image, Some(now));
        changes.push(tracked.module.clone());
        self.modules.insert(tracked.module.start, tracked);
        self.mark_again();
        sampled
    }

    /// Assigns earlier samples to a module that was loaded after them.
    fn mark_again(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        let before = pages.len();
        self.pages = pages.into_iter().filter(|&page| self.mark(page)).collect();
        self.wants_scan &= self.pages.len() < before;
    }

    /// Notes that a sample came from a page; returns whether a module is there.
    fn mark(&mut self, page: u64) -> bool {
        let (first, last) = (page << PAGE_BITS, page << PAGE_BITS | ((1 << PAGE_BITS) - 1));
        match self.modules.range_mut(..=last).next_back() {
            Some((_, tracked)) if tracked.module.end > first => {
                tracked.sampled = true;
                true
            }
            _ => false,
        }
    }

    fn sampled(self) -> impl Iterator<Item = Module> {
        let sampled = self.modules.into_values().filter(|tracked| tracked.sampled);
        sampled.map(|tracked| tracked.module)
    }
}

/// Whether a process may have this name: a process without an image is reported without a name, and
/// the path of an image may differ in case.
fn is_called(process: &Process, name: &str) -> bool {
    process.name.is_empty() || process.name.eq_ignore_ascii_case(name)
}

/// The owner of a sample's address: the upper half of the address space is the kernel's.
const fn owner(sample: &Sample) -> Owner {
    if sample.ip >> 63 == 1 { None } else { Some(sample.process) }
}

#[cfg(test)]
mod tests;
