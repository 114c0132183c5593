//! Stacks joined to the events that they are of.
//!
//! A stack names its event by time and thread. The kernel's half is written soon after the event, the
//! user half when the thread returns to user mode, which may be much later or never; one user
//! stack serves every sample of that system call. A user half can be lost: an event in user mode shows
//! that the call ended without it. Instead of frames there may be a key, which is defined
//! later, up to the end of the session.

use crate::payload::stack::{Frames, Half, Stack, StackKey};
use crate::payload::{Change, EventKind};
use crate::trace::Event;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// The number of a stack in [`StackTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackNumber(pub u32);

#[derive(Clone, Copy)]
enum Entry {
    /// Frames in the table's list.
    Frames { begin: usize, length: u32 },
    /// The frames of another entry.
    Same(StackNumber),
    /// A key that is not defined yet.
    Open,
}

/// Each stack once.
pub struct StackTable {
    frames: Vec<u64>,
    entries: Vec<Entry>,
    /// Entries with frames, by their hash; the next one of the same hash beside each.
    by_hash: HashMap<u64, StackNumber>,
    same_hash: HashMap<StackNumber, StackNumber>,
    seed: u64,
}

impl Default for StackTable {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            entries: Vec::new(),
            by_hash: HashMap::new(),
            same_hash: HashMap::new(),
            seed: RandomState::new().hash_one(0),
        }
    }
}

impl StackTable {
    /// Hashes all frames, in a few instructions each: most of what a trace has is stacks. The seed keeps
    /// a file from being made for it.
    fn hash(&self, frames: &[u64]) -> u64 {
        let step = |hash: u64, frame: &u64| (hash ^ frame).wrapping_mul(MULTIPLIER).rotate_left(29);
        frames.iter().fold(self.seed, step)
    }

    /// The frames, innermost first. `None` for a key that was never defined.
    pub fn frames(&self, number: StackNumber) -> Option<&[u64]> {
        match *self.entries.get(number.0 as usize)? {
            Entry::Frames { begin, length } => self.frames.get(begin..begin + length as usize),
            Entry::Same(other) => self.frames(other),
            Entry::Open => None,
        }
    }

    fn push(&mut self, entry: Entry) -> StackNumber {
        let number = StackNumber(self.entries.len() as u32);
        self.entries.push(entry);
        number
    }

    /// The stack with these frames.
    fn intern(&mut self, frames: impl Iterator<Item = u64>) -> StackNumber {
        let begin = self.frames.len();
        self.frames.extend(frames);
        let hash = self.hash(&self.frames[begin..]);
        let mut last = None;
        let mut same = self.by_hash.get(&hash).copied();
        while let Some(number) = same {
            if self.frames(number) == Some(&self.frames[begin..]) {
                self.frames.truncate(begin);
                return number;
            }
            last = Some(number);
            same = self.same_hash.get(&number).copied();
        }
        let length = (self.frames.len() - begin) as u32;
        let number = self.push(Entry::Frames { begin, length });
        match last {
            Some(last) => self.same_hash.insert(last, number),
            None => self.by_hash.insert(hash, number),
        };
        number
    }
}

/// Odd, with its bits in no order: the fraction of the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// An event with the stack that was found for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined<T> {
    /// The event, as it was given.
    pub event: T,
    /// The kernel's half.
    pub kernel: Option<StackNumber>,
    /// The user half.
    pub user: Option<StackNumber>,
    /// Whether the user half named another event of the same stay in the kernel.
    pub is_shared: bool,
    /// The process that a stack of the event names.
    pub process: Option<u32>,
}

/// The stacks and events that were not joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Stacks of events that are not waiting for one: of other events, mostly.
    pub stacks: u64,
    /// Keys of such stacks.
    pub keys: u64,
    /// Keys that were never defined.
    pub undefined: u64,
    /// Definitions of keys that no stack named.
    pub unused_definitions: u64,
}

/// What a stack names: an event, by its time and thread, preferably of the stack's processor.
#[derive(Clone, Copy)]
struct Named {
    processor: u16,
    time: i64,
    process: u32,
    thread: u32,
}

impl Named {
    const fn new(processor: u16, event_time: u64, process: u32, thread: u32) -> Self {
        Self { processor, time: event_time.cast_signed(), process, thread }
    }
}

struct Waiting<T> {
    joined: Joined<T>,
    time: i64,
    thread: u32,
    processor: u16,
    is_done: bool,
}

/// The events of a thread that wait: all in their order, and those that lack only a user half.
#[derive(Default)]
struct Queue {
    all: VecDeque<(i64, u64)>,
    in_kernel: VecDeque<u64>,
    /// When the thread was last seen in user mode.
    in_user_mode: Option<i64>,
}

/// Joins stacks to events. Events come out in the order in which they were given.
pub struct Joiner<T> {
    table: StackTable,
    waiting: VecDeque<Waiting<T>>,
    /// The number of the first that waits; all are numbered one after the other.
    first: u64,
    threads: HashMap<u32, Queue>,
    open_keys: HashMap<u64, StackNumber>,
    patience: i64,
    now: i64,
    unmatched: Unmatched,
}

/// The most events that wait; beyond it the first goes without.
const MOST_WAITING: usize = 1 << 20;

/// The most threads that are kept although none of their events waits.
const MOST_IDLE: usize = 1 << 16;

impl<T> Joiner<T> {
    /// A joiner that waits `patience` ticks for a user half. The longest seen took 0.3 seconds; a
    /// thread that sleeps in the kernel takes longer.
    pub fn new(patience: u64) -> Self {
        Self {
            table: StackTable::default(),
            waiting: VecDeque::new(),
            first: 0,
            threads: HashMap::new(),
            open_keys: HashMap::new(),
            patience: i64::try_from(patience).unwrap_or(i64::MAX),
            now: i64::MIN,
            unmatched: Unmatched::default(),
        }
    }

    /// An event that a stack may follow. `mode` is where it interrupted its thread: in user mode, the
    /// stay in the kernel before it is over.
    pub fn event(&mut self, time: i64, thread: u32, processor: u16, mode: Half, event: T) {
        self.now = self.now.max(time);
        let number = self.first + self.waiting.len() as u64;
        let queue = self.threads.entry(thread).or_default();
        queue.all.push_back((time, number));
        if mode == Half::User {
            queue.in_kernel.clear();
            queue.in_user_mode = Some(time);
        }
        self.waiting.push_back(Waiting {
            joined: Joined { event, kernel: None, user: None, is_shared: false, process: None },
            time,
            thread,
            processor,
            is_done: false,
        });
    }

    /// Takes what an event says of stacks: one with its frames, half of one by its key, a key's frames,
    /// or that a thread has ended.
    pub fn stacks_of(&mut self, event: &Event<'_>) {
        match &event.kind {
            EventKind::Stack(stack) => self.stack(event.processor, stack),
            EventKind::StackKey(key) => self.key(event.processor, key),
            EventKind::StackDefinition(definition) => {
                self.definition(definition.key, &definition.frames);
            }
            // The event of its end comes before: it has samples and stacks until its last switch.
            EventKind::Switch(switch) if switch.ends_thread() => self.thread_end(switch.old_thread),
            EventKind::Thread(thread) if thread.change == Change::Start => {
                self.thread_end(thread.thread);
            }
            _ => {}
        }
    }

    /// A stack with its frames, on `processor`.
    pub fn stack(&mut self, processor: u16, stack: &Stack<'_>) {
        let (kernel, user) = stack.frames.halves();
        let named = Named::new(processor, stack.event_time, stack.process, stack.thread);
        let mut is_matched = false;
        for (half, frames) in [(Half::Kernel, kernel), (Half::User, user)] {
            if !frames.is_empty() {
                let number = self.table.intern(frames.iter());
                is_matched |= self.join(named, half, number);
            }
        }
        self.unmatched.stacks += u64::from(!is_matched);
    }

    /// Half of a stack by its key, on `processor`.
    pub fn key(&mut self, processor: u16, key: &StackKey) {
        let table = &mut self.table;
        let open = self.open_keys.entry(key.key);
        let number = *open.or_insert_with(|| table.push(Entry::Open));
        let named = Named::new(processor, key.event_time, key.process, key.thread);
        let is_matched = self.join(named, key.half, number);
        self.unmatched.keys += u64::from(!is_matched);
    }

    /// The frames of a key, which may name others afterwards.
    pub fn definition(&mut self, key: u64, frames: &Frames<'_>) {
        let Some(open) = self.open_keys.remove(&key) else {
            self.unmatched.unused_definitions += 1;
            return;
        };
        let number = self.table.intern(frames.iter());
        self.table.entries[open.0 as usize] = Entry::Same(number);
    }

    /// A thread has ended, or another got its id: no half of its stacks follows.
    fn thread_end(&mut self, thread: u32) {
        for (_, number) in self.threads.remove(&thread).unwrap_or_default().all {
            if let Some(event) = self.waiting.get_mut(index(self.first, number)) {
                event.is_done = true;
            }
        }
    }

    /// The next event whose stack is complete, or that has waited long enough.
    pub fn next_joined(&mut self) -> Option<Joined<T>> {
        let front = self.waiting.front()?;
        let oldest = self.now.saturating_sub(self.patience);
        let is_out = front.is_done || front.time < oldest || self.waiting.len() > MOST_WAITING;
        if is_out { self.pop() } else { None }
    }

    /// The next event, after the last stack.
    pub fn pop(&mut self) -> Option<Joined<T>> {
        let front = self.waiting.pop_front()?;
        self.first += 1;
        let is_full = self.threads.len() > MOST_IDLE;
        if let Some(queue) = self.threads.get_mut(&front.thread) {
            queue.forget_before(self.first);
            if is_full && queue.all.is_empty() {
                self.threads.remove(&front.thread);
            }
        }
        Some(front.joined)
    }

    /// The stacks.
    pub const fn table(&self) -> &StackTable {
        &self.table
    }

    /// The stacks and events that were not joined.
    pub fn unmatched(&self) -> Unmatched {
        Unmatched { undefined: self.open_keys.len() as u64, ..self.unmatched }
    }

    /// Gives half of a stack to its events: those of its processor, else of one other. The timer and
    /// a counter of the same interrupt are two events with one stack. Returns whether there are any.
    fn join(&mut self, named: Named, half: Half, stack: StackNumber) -> bool {
        let Named { processor, time, process, thread } = named;
        let (first, waiting) = (self.first, &mut self.waiting);
        let Some(Queue { all, in_kernel, in_user_mode }) = self.threads.get_mut(&thread) else {
            return false;
        };
        let begin = all.partition_point(|&(at, _)| at < time);
        let same_time = all.range(begin..).take_while(|&&(at, _)| at == time);
        let numbers = same_time.map(|&(_, number)| number);
        let processors =
            numbers.clone().filter_map(|number| Some(waiting.get(index(first, number))?.processor));
        let Some(other) = processors.clone().next() else {
            self.share(half, thread, stack);
            return false;
        };
        let processor =
            if processors.clone().any(|one| one == processor) { processor } else { other };
        for number in numbers {
            let event = waiting.get_mut(index(first, number));
            if let Some(event) = event.filter(|event| event.processor == processor)
                && event.give(half, stack, process)
                // The kernel's half can come after the thread went on in user mode.
                && in_user_mode.is_none_or(|seen| seen <= time)
            {
                in_kernel.push_back(number);
            }
        }
        self.share(half, thread, stack);
        true
    }

    /// A user half is that of all events since the thread entered the kernel.
    fn share(&mut self, half: Half, thread: u32, stack: StackNumber) {
        let queue = self.threads.get_mut(&thread);
        let Some(queue) = queue.filter(|_| half == Half::User) else {
            return;
        };
        for number in queue.in_kernel.drain(..) {
            if let Some(event) = self.waiting.get_mut(index(self.first, number))
                && event.joined.user.is_none()
            {
                event.joined.user = Some(stack);
                event.joined.is_shared = true;
            }
        }
    }
}

impl<T> Waiting<T> {
    /// Half of its stack. Returns whether it now waits for the user half.
    fn give(&mut self, half: Half, stack: StackNumber, process: u32) -> bool {
        self.joined.process = Some(process);
        if half == Half::User {
            // The kernel's half, where there is one, came before.
            self.joined.user = Some(stack);
            self.joined.is_shared = false;
            self.is_done = true;
            return false;
        }
        let is_first = self.joined.kernel.is_none();
        self.joined.kernel.get_or_insert(stack);
        // The idle thread never returns to user mode.
        self.is_done |= self.thread == 0;
        is_first && self.thread != 0 && self.joined.user.is_none()
    }
}

/// Where the event with a number is in the queue of those that wait; beyond it if it is not there.
fn index(first: u64, number: u64) -> usize {
    number.checked_sub(first).map_or(usize::MAX, |index| index as usize)
}

impl Queue {
    fn forget_before(&mut self, first: u64) {
        while self.all.front().is_some_and(|&(_, number)| number < first) {
            self.all.pop_front();
        }
        while self.in_kernel.front().is_some_and(|&number| number < first) {
            self.in_kernel.pop_front();
        }
    }
}
