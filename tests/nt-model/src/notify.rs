//! Processes and images, and the routines that drivers register for them.
//!
//! The events of one process are reported in order, those of several processes concurrently: each
//! has a lane. The routines run at PASSIVE_LEVEL in a critical region; one that is removed is not
//! called again, and removing it waits until it has returned (pages of
//! PsSetCreateProcessNotifyRoutine, PsSetLoadImageNotifyRoutine and
//! PsRemoveLoadImageNotifyRoutine).

use crate::machine::{Machine, Outcome, SYSTEM, ThreadId, Wait};
use crate::rules::{Rule, Violation};
use std::collections::VecDeque;

const SUCCESS: u64 = 0;
const INVALID_PARAMETER: u64 = 0xC000_000D;
const INSUFFICIENT_RESOURCES: u64 = 0xC000_009A;
const PROCEDURE_NOT_FOUND: u64 = 0xC000_007A;
/// The most routines of each kind that all drivers together may register.
const ROUTINES_MAX: usize = 64;
/// The most lanes that a disturbed machine has at once.
const LANES: usize = 3;
/// The name of the image of a process that a disturbance starts.
const DISTURBER: &str = r"\Device\HarddiskVolume3\Windows\System32\short.exe";

/// An event that may be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A process was created: itself, its parent.
    Started(u32, u32),
    /// A process has ended.
    Ended(u32),
    /// An image was mapped.
    Image(Mapped),
}

/// A mapped image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The process; 0 for a driver.
    pub process: u32,
    /// Its first address.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Its path, if Windows gives one.
    pub path: Option<String>,
}

/// One kind of routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Process,
    Image,
}

impl Kind {
    /// The name of a thread that calls the routine.
    const fn name(self) -> &'static str {
        match self {
            Self::Process => "the process routine",
            Self::Image => "the image routine",
        }
    }
}

/// The routines of one kind.
#[derive(Debug, Default)]
struct Routines {
    ours: Option<u64>,
    /// Ours is being removed: it is not called any more, but may still be running.
    removing: bool,
    /// The number of other drivers' routines.
    others: usize,
}

/// A process whose events are reported one after the other.
#[derive(Debug, Default)]
struct Lane {
    news: VecDeque<News>,
    thread: Option<ThreadId>,
}

/// The kernel's state for them.
#[derive(Debug, Default)]
pub struct Notify {
    processes: Routines,
    images: Routines,
    lanes: Vec<Lane>,
    next_process: u32,
    /// How often a routine was called.
    pub told: u64,
    /// How often removing one had to wait for it.
    pub waited: u64,
    /// A process starts when this many instructions have been executed in all.
    at: Option<u64>,
    /// A process starts this many instructions after a removal has begun.
    after_removal: Option<u64>,
}

impl Notify {
    fn routines(&mut self, kind: Kind) -> &mut Routines {
        match kind {
            Kind::Process => &mut self.processes,
            Kind::Image => &mut self.images,
        }
    }

    /// Sets how many routines of each kind other drivers have.
    pub const fn set_others(&mut self, processes: usize, images: usize) {
        self.processes.others = processes;
        self.images.others = images;
    }

    /// Which of the driver's routines are registered.
    #[must_use]
    pub fn registered(&self) -> Vec<&'static str> {
        let rows = [
            (self.processes.ours, "the routine for processes"),
            (self.images.ours, "the routine for images"),
        ];
        let there = rows.into_iter().filter(|(routine, _)| routine.is_some());
        there.map(|(_, what)| what).collect()
    }

    /// Whether the driver has, or is just removing, a routine.
    #[must_use]
    pub const fn is_watching(&self) -> bool {
        self.processes.ours.is_some() || self.processes.removing || self.images.removing
    }
}

impl Machine {
    /// All these events happen to one process, one after the other, from now on.
    pub fn tell(&mut self, news: impl IntoIterator<Item = News>) {
        let news = news.into_iter().collect();
        self.kernel.notify.lanes.push(Lane { news, thread: None });
    }

    /// A short-lived process: it starts, has an image mapped, and ends.
    pub fn tell_of_a_process(&mut self, process: u32, path: &str) {
        let image =
            Mapped { process, start: 0x7FF7_0000_0000, bytes: 0x8000, path: Some(path.to_owned()) };
        self.tell([News::Started(process, SYSTEM.0), News::Image(image), News::Ended(process)]);
    }

    /// A short-lived process starts after this many further instructions.
    pub fn start_a_process_after(&mut self, instructions: u64) {
        let now = self.engine.bus().executed;
        self.kernel.notify.at = Some(now + instructions);
    }

    /// A short-lived process starts this many instructions after the next removal of a routine has
    /// begun.
    pub fn start_a_process_in_a_removal(&mut self, instructions: u64) {
        self.kernel.notify.after_removal = Some(instructions);
    }

    /// Instructions until a process starts.
    pub(crate) fn until_a_process(&mut self) -> Option<u64> {
        let now = self.engine.bus().executed;
        let left = self.kernel.notify.at?.saturating_sub(now);
        if left == 0 {
            self.kernel.notify.at = None;
            self.disturb_with_a_process();
            return None;
        }
        Some(left)
    }

    /// A process starts at this moment of a disturbed machine.
    pub(crate) fn disturb_with_a_process(&mut self) {
        if self.kernel.notify.lanes.len() < LANES {
            self.kernel.notify.next_process += 4;
            let process = 0x1_0000 + self.kernel.notify.next_process;
            self.tell_of_a_process(process, DISTURBER);
        }
    }

    /// Calls the routine for the next event of each lane that has no call under way.
    pub(crate) fn go_on_telling(&mut self) -> Result<(), Violation> {
        for index in 0..self.kernel.notify.lanes.len() {
            let thread = self.kernel.notify.lanes[index].thread;
            if let Some(thread) = thread {
                if self.result_of(thread).is_none() {
                    continue;
                }
                self.kernel.notify.lanes[index].thread = None;
            }
            let lane = &mut self.kernel.notify.lanes[index];
            if let Some(news) = lane.news.pop_front() {
                let thread = self.call_routine(&news)?;
                self.kernel.notify.lanes[index].thread = thread;
            }
        }
        let lanes = &mut self.kernel.notify.lanes;
        lanes.retain(|lane| lane.thread.is_some() || !lane.news.is_empty());
        Ok(())
    }

    /// Begins the call of the routine registered for this event, if there is one.
    fn call_routine(&mut self, news: &News) -> Result<Option<ThreadId>, Violation> {
        let kind = match news {
            News::Image(_) => Kind::Image,
            News::Started(..) | News::Ended(_) => Kind::Process,
        };
        let Some(routine) = self.kernel.notify.routines(kind).ours else {
            return Ok(None);
        };
        self.kernel.notify.told += 1;
        let (arguments, frame) = match news {
            News::Started(process, parent) => (vec![(*parent).into(), (*process).into(), 1], 0),
            News::Ended(process) => (vec![SYSTEM.0.into(), (*process).into(), 0], 0),
            News::Image(image) => self.image_arguments(image)?,
        };
        let thread = self.spawn_in_critical_region(kind.name(), routine, &arguments)?;
        self.give_frame(thread, frame);
        Ok(Some(thread))
    }

    /// FullImageName, ProcessId, ImageInfo; and the memory that holds them: IMAGE_INFO,
    /// UNICODE_STRING and the path, which is not terminated by a zero (ntddk.h).
    fn image_arguments(&mut self, image: &Mapped) -> Result<(Vec<u64>, u64), Violation> {
        const STRING: u64 = 0x28;
        const PATH: u64 = STRING + 0x10;
        /// SystemModeImage.
        const OF_SYSTEM: u32 = 1 << 8;
        let path = image.path.as_deref().unwrap_or_default();
        let path: Vec<u8> = path.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let engine = &mut self.engine;
        let none = || Violation::new(Rule::Unmodelled, "the arena is full");
        let size = PATH + path.len() as u64;
        let at = engine.allocate(size, 0).ok_or_else(none)?;
        let properties = if image.process == 0 { OF_SYSTEM } else { 0 };
        engine.write_u32(at, properties | 3);
        engine.write_u64(at + 0x08, image.start);
        engine.write_u64(at + 0x18, image.bytes);
        let length = path.len() as u32;
        engine.write_u32(at + STRING, length << 16 | length);
        engine.write_u64(at + STRING + 8, at + PATH);
        engine.write(at + PATH, &path);
        let name = if image.path.is_some() { at + STRING } else { 0 };
        Ok((vec![name, image.process.into(), at], at))
    }
}

/// (NotifyRoutine, Remove).
pub fn set_process_routine(m: &mut Machine) -> Result<Outcome, Violation> {
    if m.engine.argument(1) as u8 == 0 {
        add(m, Kind::Process, INVALID_PARAMETER)
    } else {
        Ok(remove(m, Kind::Process, INVALID_PARAMETER))
    }
}

/// (NotifyRoutine).
pub fn set_image_routine(m: &mut Machine) -> Result<Outcome, Violation> {
    add(m, Kind::Image, INSUFFICIENT_RESOURCES)
}

/// (NotifyRoutine).
pub fn remove_image_routine(m: &mut Machine) -> Result<Outcome, Violation> {
    Ok(remove(m, Kind::Image, PROCEDURE_NOT_FOUND))
}

fn add(m: &mut Machine, kind: Kind, full: u64) -> Result<Outcome, Violation> {
    let routine = m.engine.argument(0);
    let fails = m.kernel.fails();
    let routines = m.kernel.notify.routines(kind);
    if routines.ours.is_some() {
        let what = format!("{} is registered twice", kind.name());
        return Err(Violation::new(Rule::Object, what));
    }
    if routines.others >= ROUTINES_MAX || fails {
        return Ok(Outcome::Return(full));
    }
    routines.ours = Some(routine);
    Ok(Outcome::Return(SUCCESS))
}

fn remove(m: &mut Machine, kind: Kind, unknown: u64) -> Outcome {
    let routine = m.engine.argument(0);
    let routines = m.kernel.notify.routines(kind);
    if routines.ours == Some(routine) {
        (routines.ours, routines.removing) = (None, true);
        if let Some(instructions) = m.kernel.notify.after_removal.take() {
            m.start_a_process_after(instructions);
        }
    } else if !routines.removing {
        return Outcome::Return(unknown);
    }
    if m.is_calling(kind.name()) {
        m.kernel.notify.waited += 1;
        return Outcome::Again(Wait::Routine);
    }
    m.kernel.notify.routines(kind).removing = false;
    Outcome::Return(SUCCESS)
}
