//! Which processes run and what is loaded in them, kept up to date while samples come in.
//!
//! The system is scanned repeatedly, so that a recording that is cut short has names too. The
//! samples decide when a scan is worth its cost: a sample from an unknown process, or from an
//! address where no module is known, requests one. At the end a source of events says what came and
//! went between two scans, and when exactly ([`Inventory::complete`]).

mod completion;

use crate::file::{Build, Module, NamedThread, Process};
use shared_types::{Branch, Mode, Sample};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The scan interval while nothing new appears.
const SCAN_NS: u64 = 1_000_000_000;
/// The shortest interval between scans that samples request.
const SCAN_SOON_NS: u64 = 40_000_000;
/// A process that keeps requesting scans but shows nothing new skips up to this many scans: it may
/// run code that no module ever explains, such as that of a runtime.
const BACKOFF_MAX: u32 = 64;
/// Samples of a process from one page belong to one module.
const PAGE_BITS: u32 = 12;

/// The system that is measured.
pub trait System {
    /// The time, on the clock of samples.
    fn now(&mut self) -> u64;
    /// All processes: identifiers and names.
    fn processes(&mut self) -> Vec<(u32, String)>;
    /// What is loaded in a process, without times; `None` if it may not be inspected.
    fn modules(&mut self, process: u32) -> Option<Vec<Module>>;
    /// The kernel's own modules.
    fn kernel(&mut self) -> Vec<Module>;
    /// The name that a program gave a thread; `None` if it has none, or may not be asked.
    fn thread_name(&mut self, _thread: u32) -> Option<String> {
        None
    }
    /// Converts a path in the kernel's form to one that programs can open.
    fn on_disk(&mut self, native: &str) -> String {
        native.to_owned()
    }
}

/// What has changed since the last scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Processes that are new or have ended.
    pub processes: Vec<Process>,
    /// Threads that are sampled and got a name.
    pub threads: Vec<NamedThread>,
    /// Modules that are new or were unloaded.
    pub modules: Vec<Module>,
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
    /// When the first scan was over, on the clock of samples.
    first_scanned: u64,
    running: BTreeMap<u32, Process>,
    /// Processes that have ended, by identifier.
    ended: BTreeMap<u32, Vec<Process>>,
    address_spaces: BTreeMap<Owner, AddressSpace>,
    /// Modules of processes that have ended.
    ended_spaces: BTreeMap<Owner, Vec<AddressSpace>>,
    /// Threads that were sampled since the last scan, each with its process.
    threads: HashSet<(u32, u32)>,
    /// The last known name of each thread that has one.
    thread_names: HashMap<(u32, u32), String>,
    /// How many samples each process has.
    samples: HashMap<u32, u64>,
    /// Every process ever seen.
    seen: HashSet<u32>,
    /// Where the last sample came from; the next one most often comes from there too.
    last: (Owner, u64),
    scan_requested: bool,
}

#[derive(Default)]
struct AddressSpace {
    /// The modules by their first address.
    modules: BTreeMap<u64, TrackedModule>,
    unloaded: Vec<TrackedModule>,
    /// Pages that samples came from.
    pages: HashSet<u64>,
    /// Pages that samples came from and where no scan has found a module. An event at the end may
    /// still say which image was there.
    stray_pages: HashSet<u64>,
    /// Whether a sample came from an address where no module is known.
    wants_scan: bool,
    /// How many scans this process skips after its next request.
    backoff: u32,
    skips: u32,
}

struct TrackedModule {
    module: Module,
    sampled: bool,
}

impl TrackedModule {
    fn of(process: Owner, module: Module, loaded: Option<u64>) -> Self {
        Self { module: Module { process, loaded, ..module }, sampled: false }
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
    pub fn new(system: Box<dyn System>) -> Self {
        Self {
            system,
            scanned_ns: None,
            first_scanned: 0,
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            address_spaces: BTreeMap::new(),
            ended_spaces: BTreeMap::new(),
            threads: HashSet::new(),
            thread_names: HashMap::new(),
            samples: HashMap::new(),
            seen: HashSet::new(),
            last: (None, u64::MAX),
            scan_requested: false,
        }
    }

    /// Notes where samples come from.
    pub fn note_samples(&mut self, samples: &[Sample]) {
        for sample in samples {
            *self.samples.entry(sample.process).or_default() += 1;
            self.threads.insert((sample.process, sample.thread));
            if sample.mode == Mode::Unknown as u8 {
                continue;
            }
            self.note(sample.process, sample.ip);
        }
    }

    /// Notes where the samples' branches are: the target of a branch may have no samples.
    pub fn note_branches(&mut self, samples: &[Sample], branches: &[Branch]) {
        let mut rest = branches.iter();
        for sample in samples {
            for branch in rest.by_ref().take(sample.branches.into()) {
                if branch.flags & Branch::HIDDEN == 0 {
                    self.note(sample.process, branch.from);
                }
            }
        }
    }

    fn note(&mut self, process: u32, ip: u64) {
        let (owner, page) = (owner(process, ip), ip >> PAGE_BITS);
        if self.last == (owner, page) {
            return;
        }
        self.last = (owner, page);
        let address_space = self.address_spaces.entry(owner).or_default();
        if address_space.pages.insert(page) && !address_space.mark(page) {
            address_space.wants_scan = true;
            self.scan_requested |= address_space.skips == 0;
        }
    }

    /// Scans if it is time to; `elapsed_ns` is the time since the beginning.
    pub fn scan_if_due(&mut self, elapsed_ns: u64) -> Changes {
        let since = self.scanned_ns.map(|looked| elapsed_ns.saturating_sub(looked));
        let wait = if self.scan_requested { SCAN_SOON_NS } else { SCAN_NS };
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
        // What is loaded at the last address may change with this scan.
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
        self.scan_threads(&mut changes);
        if since.is_none() {
            self.first_scanned = self.system.now();
        }
        changes
    }

    /// Asks the threads that were sampled since the last scan for their names. Each scan asks again: a
    /// thread may get its name long after it began, and cannot be asked once it has ended.
    fn scan_threads(&mut self, changes: &mut Changes) {
        let mut sampled: Vec<(u32, u32)> = self.threads.drain().collect();
        sampled.sort_unstable();
        for (process, thread) in sampled {
            let Some(name) = self.system.thread_name(thread).filter(|name| !name.is_empty()) else {
                continue;
            };
            let known = self.thread_names.entry((process, thread)).or_default();
            if *known != name {
                known.clone_from(&name);
                let seen = self.system.now();
                changes.threads.push(NamedThread { process, thread, name, seen });
            }
        }
    }

    /// Returns the new processes.
    fn scan_processes(&mut self, since: Option<u64>, changes: &mut Changes) -> Vec<u32> {
        let now: BTreeMap<u32, String> = self.system.processes().into_iter().collect();
        self.running.retain(|&id, process| {
            // Windows reuses identifiers: with another name it is another process.
            let stays = now.get(&id) == Some(&process.name);
            if !stays {
                process.ended = since;
                changes.processes.push(process.clone());
                self.ended.entry(id).or_default().push(process.clone());
                let address_space = self.address_spaces.remove(&Some(id));
                self.ended_spaces.entry(Some(id)).or_default().extend(address_space);
            }
            stays
        });
        let mut new = Vec::new();
        for (id, name) in now {
            if let Entry::Vacant(vacant) = self.running.entry(id) {
                let process = Process { id, name, started: since, ..Process::default() };
                changes.processes.push(process.clone());
                vacant.insert(process);
                self.seen.insert(id);
                new.push(id);
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
            address_space.update(owner, images, since, &mut changes.modules);
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
        let ended = std::mem::take(&mut self.ended_spaces).into_values().flatten();
        let address_spaces = std::mem::take(&mut self.address_spaces).into_values();
        let mut modules: Vec<Module> =
            ended.chain(address_spaces).flat_map(AddressSpace::sampled).collect();
        let mut files: HashMap<String, Build> = HashMap::new();
        for module in &mut modules {
            if let (Some(path), None) = (&module.path, &module.identity) {
                let build = files.entry(path.clone()).or_insert_with(|| identify(path)).clone();
                (module.identity, module.stamp) = (build.identity, build.stamp);
            }
        }
        modules.retain(|module| module.identity.is_some() || module.stamp.is_some());
        modules
    }

    /// Forgets what is gone. A recording without an end calls this, because it never calls
    /// [`Self::complete`], [`Self::identified`] and [`Self::missed`].
    pub fn forget(&mut self) {
        self.ended.clear();
        self.ended_spaces.clear();
        self.address_spaces.values_mut().for_each(|space| space.unloaded.clear());
        self.seen.clear();
        self.thread_names.clear();
        self.samples.clear();
    }

    /// The processes and samples that will have no names in the recording.
    pub fn missed(&self) -> Missed {
        let strangers = self.samples.iter().filter(|(id, _)| !self.seen.contains(id));
        strangers.fold(Missed::default(), |missed, (_, samples)| Missed {
            processes: missed.processes + 1,
            samples: missed.samples + samples,
        })
    }
}

impl AddressSpace {
    /// Whether the process takes part in this scan: it has requested one and skips none any more.
    const fn take_scan(&mut self) -> bool {
        let waited = self.skips == 0;
        self.skips = self.skips.saturating_sub(1);
        self.wants_scan && waited
    }

    /// Takes over the modules that a scan has found.
    fn update(
        &mut self,
        process: Owner,
        images: Vec<Module>,
        since: Option<u64>,
        changes: &mut Vec<Module>,
    ) {
        let now: BTreeMap<u64, Module> =
            images.into_iter().map(|image| (image.start, image)).collect();
        for (start, mut tracked) in std::mem::take(&mut self.modules) {
            let module = &mut tracked.module;
            let image = now.get(&start);
            // Another image may have come to this address between two scans.
            if image.is_some_and(|image| image.end == module.end && image.name == module.name) {
                self.modules.insert(start, tracked);
            } else {
                module.unloaded = since;
                changes.push(module.clone());
                self.unloaded.push(tracked);
            }
        }
        for (start, image) in now {
            self.modules.entry(start).or_insert_with(|| {
                let tracked = TrackedModule::of(process, image, since);
                changes.push(tracked.module.clone());
                tracked
            });
        }
    }

    /// Assigns earlier samples to a module that was loaded after them.
    fn mark_again(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        for page in pages {
            let pages = if self.mark(page) { &mut self.pages } else { &mut self.stray_pages };
            pages.insert(page);
        }
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

    /// Whether samples came from where an image was.
    fn is_sampled(&self, image: &Module) -> bool {
        let mut pages = self.pages.iter().chain(&self.stray_pages);
        pages.any(|page| image.start >> PAGE_BITS <= *page && *page << PAGE_BITS < image.end)
    }

    fn sampled(self) -> impl Iterator<Item = Module> {
        let modules = self.modules.into_values().chain(self.unloaded);
        modules.filter(|tracked| tracked.sampled).map(|tracked| tracked.module)
    }
}

/// The owner of an address: the upper half of the address space is the kernel's.
const fn owner(process: u32, address: u64) -> Owner {
    if address >> 63 == 1 { None } else { Some(process) }
}

#[cfg(test)]
mod tests;
