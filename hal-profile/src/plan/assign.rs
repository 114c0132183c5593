//! Assigns sources to counters and rotations on one kind of processor.
//!
//! Sources that fit together run together. The others are spread over rotations, first fit in the
//! order requested; on a second kind of processor, NetBurst's sources first try the rotation that
//! they had on the one before. The sources of a group run in one rotation or not at all. A source
//! with a fixed counter to itself takes no room from others and runs in every rotation. Within a
//! rotation the assignment is exact: a source that finds no free counter may move others to
//! different counters that can count them. If sources share registers besides their counters
//! (NetBurst's ESCRs), this is a search of at most `STEPS_OF_ONE` steps, and at most `SEARCH_STEPS`
//! in one configuration; a source that the search has not placed by then is treated as not fitting.

use crate::cpu::counter::Counter;
use crate::cpu::counter::MAX_COUNTERS;
use crate::source::MAX_SOURCES;
use crate::source::encode::{Encoding, Filter};
use shared_types::request::source::Placement;
use zerocopy::FromZeros;

/// Total steps of all searches in one configuration: about a tenth of the time that a request may
/// take.
const SEARCH_STEPS: u32 = 100;
/// Steps of one search: few enough that a list of sources, each of which may start a search, can
/// run several.
const STEPS_OF_ONE: u32 = 40;

/// How many units [`Assignment::last`] remembers; a power of two.
const LAST: usize = 8;

/// The rotation number of a source that runs in every rotation.
pub(crate) const EVERY_ROTATION: u16 = Placement::EVERY_TURN;

/// The requirements of a source.
#[derive(Clone, Copy, Debug, FromZeros)]
pub struct Wanted {
    /// The counters that can count it, in the layout of the global registers: with ESCRs of the
    /// even side, and of the odd side. On a processor without ESCRs all are in the first.
    pub candidates: [u64; 2],
    /// The values written for it on each side.
    pub encodings: [Encoding; 2],
    /// The modes in which it counts.
    pub filter: Filter,
    /// It needs a rotation to itself.
    pub alone: bool,
}

/// Where a source was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Assigned {
    /// The counter.
    pub counter: Counter,
    /// NetBurst: 0 for ESCRs with an even number, 1 for odd.
    pub side: u8,
    /// The rotation, or [`Placement::EVERY_TURN`].
    pub rotation: u16,
    /// The next source of the same rotation, as its index plus 1; 0 for the last.
    pub next: u16,
}

/// Working memory of an assignment. All zeros: nothing assigned.
#[derive(Debug, FromZeros)]
pub struct Assignment {
    wanted: [Wanted; MAX_SOURCES],
    /// The registers that each source shares with others on each side, as [`registers`] computes
    /// them; 0 for most sources.
    registers: [[u64; 2]; MAX_SOURCES],
    /// What is special about each source: [`TAKES`] and the constants after it.
    marks: [u8; MAX_SOURCES],
    assigned: [Assigned; MAX_SOURCES],
    /// The first source of each rotation, as its index plus 1.
    first: [u16; MAX_SOURCES],
    turns: [Turn; MAX_SOURCES],
    /// The next source of the same group, as its index plus 1; 0 for the last.
    group_next: [u16; MAX_SOURCES],
    rotations: u16,
    /// The first source of those that run in every rotation, as its index plus 1.
    every: u16,
    steps: u32,
    /// Plain units that were placed, and the rotation of the last of them, at [`place`]: no earlier
    /// rotation has room for another unit like it.
    last: [(Unit, u16); LAST],
}

/// A mark of a source: it takes a counter.
const TAKES: u8 = 1;
/// A later source is in the same group.
const LEADS: u8 = 1 << 1;
/// An earlier source is in the same group.
const FOLLOWS: u8 = 1 << 2;
/// It needs a rotation to itself.
const ALONE: u8 = 1 << 3;
/// It writes registers that it may share with others.
const SHARES: u8 = 1 << 4;

/// A source, or the sources of a group, which run in one rotation or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
struct Unit {
    /// How many they are.
    sources: u32,
    /// The counters that can count any of them.
    reach: u64,
}

/// What the sources of one rotation take.
#[derive(Clone, Copy, Debug, FromZeros)]
struct Turn {
    /// Their counters.
    used: u64,
    /// The counters that could count them.
    reach: u64,
    /// The shared registers that they write, one bit for the MSR number modulo 64.
    shared: u64,
}

impl Turn {
    /// Whether a unit may find counters, possibly after others have moved. If not, it need not be
    /// tried.
    fn may_take(&self, unit: &Unit) -> bool {
        are_there(unit.sources, (self.reach | unit.reach) & !self.used)
    }
}

/// Whether a set has at least `count` counters.
fn are_there(count: u32, counters: u64) -> bool {
    (1..count).fold(counters, |left, _| left & left.wrapping_sub(1)) != 0
}

impl Assignment {
    /// Clears the assignment.
    pub fn clear(&mut self) {
        self.next_kind();
        self.assigned.zero();
    }

    /// Clears all but the rotations that sources had, for another kind of processor.
    pub(crate) fn next_kind(&mut self) {
        self.marks = [0; MAX_SOURCES];
        self.registers.zero();
        self.first = [0; MAX_SOURCES];
        self.turns.zero();
        self.group_next = [0; MAX_SOURCES];
        self.rotations = 0;
        self.every = 0;
        self.steps = SEARCH_STEPS;
        self.last.zero();
    }

    /// The requirements of a source, to be filled in before [`Self::take`].
    pub fn wanted(&mut self, index: usize) -> Option<&mut Wanted> {
        self.wanted.get_mut(index)
    }

    /// Marks a source as needing a counter. Sources may be left out, and may come in any order.
    pub fn take(&mut self, index: usize) {
        let (Some(wanted), Some(marks)) = (self.wanted.get(index), self.marks.get_mut(index))
        else {
            return;
        };
        *marks |= if wanted.alone { TAKES | ALONE } else { TAKES };
        let [even, odd] = &wanted.encodings;
        if (even.shares() || odd.shares())
            && let Some(shared) = self.registers.get_mut(index)
        {
            *marks |= SHARES;
            *shared = [registers(even), registers(odd)];
        }
    }

    /// Puts `index` into the group of `earlier`.
    pub fn same_group(&mut self, earlier: usize, index: usize) {
        if let Some(next) = self.group_next.get_mut(earlier) {
            *next = index as u16 + 1;
        }
        for (index, mark) in [(earlier, LEADS), (index, FOLLOWS)] {
            if let Some(marks) = self.marks.get_mut(index) {
                *marks |= mark;
            }
        }
    }

    /// Assigns every source that takes a counter. The error is the index of a source that fits
    /// nowhere, or whose group cannot run together.
    #[inline(never)]
    pub fn solve(&mut self, count: usize) -> Result<(), usize> {
        for index in 0..count.min(MAX_SOURCES) {
            let marks = self.marks(index);
            if marks & (TAKES | FOLLOWS) != TAKES {
                continue;
            }
            let (unit, plain) = if marks == TAKES { self.single(index) } else { self.unit(index) };
            let placed =
                if plain { self.put_plain(index, unit) } else { self.put_special(index, &unit) };
            if !placed {
                return Err(index);
            }
        }
        self.run_in_every_rotation();
        Ok(())
    }

    /// Moves sources that have a fixed counter to themselves out of their rotations. Members of a
    /// group stay with the others, and a source that needs a rotation to itself keeps it.
    fn run_in_every_rotation(&mut self) {
        if self.rotations < 2 {
            return;
        }
        let (mut once, mut twice) = (0, 0);
        for turn in self.turns.iter().take(self.rotations.into()) {
            twice |= once & turn.used;
            once |= turn.used;
        }
        let own = (once & !twice) >> 32 << 32;
        if own == 0 {
            return;
        }
        for rotation in 0..self.rotations {
            if self.used(rotation) & own != 0 {
                self.part(rotation, own);
            }
        }
        for rotation in 0..self.rotations {
            self.add_those_of_every_rotation(rotation);
        }
    }

    /// Splits off from a rotation's list the sources that run in every rotation.
    fn part(&mut self, rotation: u16, own: u64) {
        let Some(first) = self.first.get_mut(usize::from(rotation)) else {
            return;
        };
        let mut next = core::mem::take(first);
        while let Some(index) = usize::from(next).checked_sub(1)
            && let Some(assigned) = self.assigned.get_mut(index)
        {
            let stays =
                self.marks.get(index).is_none_or(|marks| marks & (LEADS | FOLLOWS | ALONE) != 0);
            let every = !stays && own & assigned.counter.global_bit() != 0;
            let head = if every {
                assigned.rotation = EVERY_ROTATION;
                &mut self.every
            } else {
                &mut *first
            };
            let after = assigned.next;
            assigned.next = *head;
            *head = next;
            next = after;
        }
    }

    /// Makes a rotation's list end with the sources that run in every rotation.
    fn add_those_of_every_rotation(&mut self, rotation: u16) {
        let end = match self.members(rotation).last() {
            Some(last) => self.assigned.get_mut(last).map(|last| &mut last.next),
            None => self.first.get_mut(usize::from(rotation)),
        };
        if let Some(end) = end {
            *end = self.every;
        }
    }

    /// The number of rotations.
    #[must_use]
    pub fn rotations(&self) -> u16 {
        self.rotations
    }

    /// Where a source was put, if it takes a counter.
    #[must_use]
    pub fn assigned(&self, index: usize) -> Option<(&Wanted, Assigned)> {
        let takes = self.marks(index) & TAKES != 0;
        takes.then_some((self.wanted.get(index)?, *self.assigned.get(index)?))
    }

    /// The first source of those that run in every rotation, as its index plus 1.
    pub(crate) fn every(&self) -> u16 {
        self.every
    }

    /// The first source of each rotation, as its index plus 1.
    pub(crate) fn first(&self) -> &[u16; MAX_SOURCES] {
        &self.first
    }

    /// Puts a plain unit into the first rotation that has room.
    fn put_plain(&mut self, index: usize, unit: Unit) -> bool {
        let mut rotation = self.first_to_try(&unit);
        while let Some(turn) = self.turns.get_mut(usize::from(rotation))
            && rotation <= self.rotations
        {
            let free = unit.reach & !turn.used;
            match preferred(free) {
                Some(counter) if unit.sources == 1 => {
                    turn.used |= counter.global_bit();
                    turn.reach |= unit.reach;
                    self.seat(rotation, index, counter, 0);
                }
                _ if are_there(unit.sources, free) => self.put_on(free, index, rotation),
                _ if turn.may_take(&unit) && self.put_group(index, rotation) => {}
                _ => {
                    rotation += 1;
                    continue;
                }
            }
            self.rotations = self.rotations.max(rotation + 1);
            if let Some(last) = self.last.get_mut(place(&unit)) {
                *last = (unit, rotation);
            }
            return true;
        }
        false
    }

    /// Puts a plain unit on free counters.
    fn put_on(&mut self, mut free: u64, first: usize, rotation: u16) {
        let [reach, _] = self.candidates(first);
        let mut member = Some(first);
        let mut taken = 0;
        while let (Some(index), Some(counter)) = (member, preferred(free)) {
            free &= !counter.global_bit();
            taken |= counter.global_bit();
            self.seat(rotation, index, counter, 0);
            member = self.next_of_group(index);
        }
        if let Some(turn) = self.turns.get_mut(usize::from(rotation)) {
            turn.used |= taken;
            turn.reach |= reach;
        }
    }

    /// The first rotation worth trying: no earlier one has room for a unit like this.
    fn first_to_try(&self, unit: &Unit) -> u16 {
        match self.last.get(place(unit)) {
            Some((same, rotation)) if same == unit => *rotation,
            _ => 0,
        }
    }

    /// Puts any other unit into the first rotation that has room.
    fn put_special(&mut self, index: usize, unit: &Unit) -> bool {
        if self.marks(index) & SHARES != 0 && self.put_where_it_was(index) {
            return true;
        }
        let mut rotation =
            if self.marks(index) & ALONE != 0 { self.rotations } else { self.first_to_try(unit) };
        while let Some(turn) = self.turns.get(usize::from(rotation))
            && rotation <= self.rotations
        {
            // Sources that share registers move others only while there are steps left.
            let moves = self.steps != 0 || self.marks(index) & SHARES == 0;
            let placed = (moves || unit.reach & !turn.used != 0)
                && turn.may_take(unit)
                && match unit.sources {
                    1 => self.put(index, rotation),
                    _ => self.put_group(index, rotation),
                };
            if placed {
                self.rotations = self.rotations.max(rotation + 1);
                return true;
            }
            rotation += 1;
        }
        false
    }

    /// Puts a source and the rest of its group into the rotation that it has on the kind of
    /// processor assigned before this one, if there is room. Two logical processors of NetBurst
    /// mirror each other: what did not fit on the first is not searched for again.
    fn put_where_it_was(&mut self, index: usize) -> bool {
        let was = self.assigned.get(index).map_or(0, |was| was.rotation);
        let placed = was != 0 && was <= self.rotations && self.put_group(index, was);
        if placed {
            self.rotations = self.rotations.max(was + 1);
        }
        placed
    }

    /// The unit that begins with this source. Whether it is plain: each member can take any of its
    /// counters, shares no registers, and needs no rotation to itself.
    fn unit(&self, index: usize) -> (Unit, bool) {
        let (mut unit, mut plain) = self.single(index);
        let mut last = index;
        while let Some(next) = self.next_of_group(last) {
            let (member, as_plain) = self.single(next);
            plain &= as_plain && member.reach == unit.reach;
            unit.reach |= member.reach;
            unit.sources += 1;
            last = next;
        }
        (unit, plain)
    }

    fn next_of_group(&self, index: usize) -> Option<usize> {
        let next = self.group_next.get(index).copied().unwrap_or(0);
        usize::from(next).checked_sub(1)
    }

    /// A source without the rest of its group.
    fn single(&self, index: usize) -> (Unit, bool) {
        let [even, odd] = self.candidates(index);
        let unit = Unit { sources: 1, reach: even | odd };
        (unit, self.marks(index) & (ALONE | SHARES) == 0)
    }

    fn put_group(&mut self, first: usize, rotation: u16) -> bool {
        let mut member = Some(first);
        while let Some(index) = member {
            if !self.put(index, rotation) {
                self.take_out(first, index, rotation);
                return false;
            }
            member = self.next_of_group(index);
        }
        true
    }

    /// Takes the members of a group before `end` out of a rotation again; they were the last to be
    /// added.
    fn take_out(&mut self, first: usize, end: usize, rotation: u16) {
        let mut member = first;
        while member != end {
            let (Some(assigned), Some(head)) = (
                self.assigned.get(self.head(rotation)).copied(),
                self.first.get_mut(usize::from(rotation)),
            ) else {
                return;
            };
            *head = assigned.next;
            let alone = self.is_alone(member);
            if let Some(turn) = self.turns.get_mut(usize::from(rotation)) {
                turn.used &= if alone { 0 } else { !assigned.counter.global_bit() };
            }
            member = self.next_of_group(member).unwrap_or(end);
        }
    }

    /// Puts one source into a rotation, on a free counter or by moving others.
    fn put(&mut self, index: usize, rotation: u16) -> bool {
        let (Some(wanted), Some(turn), Some(&shared)) = (
            self.wanted.get(index),
            self.turns.get(usize::from(rotation)),
            self.registers.get(index),
        ) else {
            return false;
        };
        if wanted.alone && turn.used != 0 {
            return false;
        }
        for (side, (candidates, shared)) in (0..).zip(wanted.candidates.iter().zip(shared)) {
            if let Some(counter) = preferred(candidates & !turn.used)
                && (turn.shared & shared == 0 || self.agrees(rotation, index, side))
            {
                self.add(rotation, index, counter, side);
                return true;
            }
        }
        let [even, odd] = wanted.candidates;
        let unit = Unit { sources: 1, reach: even | odd };
        if !turn.may_take(&unit) {
            return false;
        }
        if shared == [0; 2] { self.augment(rotation, index) } else { self.search(rotation, index) }
    }

    fn add(&mut self, rotation: u16, index: usize, counter: Counter, side: u8) {
        let registers = self.shares(index, side);
        if let (Some(wanted), Some(turn)) =
            (self.wanted.get(index), self.turns.get_mut(usize::from(rotation)))
        {
            // Leaves no counter for others.
            turn.used |= if wanted.alone { u64::MAX } else { counter.global_bit() };
            let [even, odd] = wanted.candidates;
            turn.reach |= even | odd;
            turn.shared |= registers;
        }
        self.seat(rotation, index, counter, side);
    }

    /// Makes a source the head of a rotation's list.
    fn seat(&mut self, rotation: u16, index: usize, counter: Counter, side: u8) {
        if let (Some(assigned), Some(first)) =
            (self.assigned.get_mut(index), self.first.get_mut(usize::from(rotation)))
        {
            *assigned = Assigned { counter, side, rotation, next: *first };
            *first = index as u16 + 1;
        }
    }

    /// Finds a chain of moves that ends at a free counter: the source takes the counter of one
    /// member, which takes that of another, and so on (an augmenting path of a bipartite matching).
    fn augment(&mut self, rotation: u16, index: usize) -> bool {
        const NOBODY: u16 = u16::MAX;
        let mut owner = [NOBODY; 64];
        for member in self.members(rotation) {
            let counter = self.assigned.get(member).map(|assigned| assigned.counter);
            if let Some(owner) = counter.and_then(|counter| owner.get_mut(bit_index(counter))) {
                *owner = member as u16;
            }
        }
        let used = self.used(rotation);
        let [mut frontier, _] = self.candidates(index);
        let mut seen = frontier;
        // Who wants each counter that has been reached.
        let mut wants = [index as u16; 64];
        while let Some(counter) = Counter::lowest(frontier) {
            frontier &= !counter.global_bit();
            if used & counter.global_bit() == 0 {
                self.shift(rotation, index, counter, &wants);
                return true;
            }
            let holder = owner.get(bit_index(counter)).copied().unwrap_or(NOBODY);
            let [theirs, _] = self.candidates(holder.into());
            let mut reached = theirs & !seen;
            seen |= reached;
            frontier |= reached;
            while let Some(next) = Counter::lowest(reached) {
                reached &= !next.global_bit();
                if let Some(wants) = wants.get_mut(bit_index(next)) {
                    *wants = holder;
                }
            }
        }
        false
    }

    /// Gives the free counter to the source that wants it, that source's old counter to the one
    /// that wants that, and so on up to the new source.
    fn shift(&mut self, rotation: u16, index: usize, free: Counter, wants: &[u16; 64]) {
        let mut counter = free;
        for _ in 0..MAX_COUNTERS {
            let taker = usize::from(wants.get(bit_index(counter)).copied().unwrap_or(0));
            if taker == index {
                break;
            }
            let Some(assigned) = self.assigned.get_mut(taker) else {
                return;
            };
            core::mem::swap(&mut counter, &mut assigned.counter);
        }
        if let Some(turn) = self.turns.get_mut(usize::from(rotation)) {
            turn.used |= free.global_bit();
        }
        self.add(rotation, index, counter, 0);
    }

    /// Tries every counter and side of every member by backtracking: each member in turn takes its
    /// next candidate; when a member has none left, the one before it takes another. It is a loop
    /// because the driver's stack is small.
    fn search(&mut self, rotation: u16, index: usize) -> bool {
        let last = self.steps.saturating_sub(STEPS_OF_ONE);
        if self.steps == last {
            return false;
        }
        // The source itself comes after the members.
        let mut members = [index; MAX_COUNTERS];
        let mut count = 1;
        for (place, member) in members.iter_mut().zip(self.members(rotation)) {
            *place = member;
            count += 1;
        }
        let mut tried: [Try; MAX_COUNTERS] = FromZeros::new_zeroed();
        let mut depth = 0;
        self.begin(&members, &mut tried, depth);
        while depth < count {
            if self.steps == last {
                return false;
            }
            self.steps -= 1;
            if self.take_next(&members, &mut tried, depth) {
                depth += 1;
                self.begin(&members, &mut tried, depth);
            } else if depth == 0 {
                return false;
            } else {
                depth -= 1;
            }
        }
        self.apply(rotation, &members, &tried, count);
        true
    }

    /// A member starts with all its candidates, after those before it have chosen.
    fn begin(&self, members: &[usize; MAX_COUNTERS], tried: &mut [Try; MAX_COUNTERS], at: usize) {
        let (before, rest) = tried.split_at_mut(at.min(MAX_COUNTERS));
        let (Some(own), Some(&member)) = (rest.first_mut(), members.get(at)) else {
            return;
        };
        (own.used, own.shared) = match (before.last(), members.get(before.len().wrapping_sub(1))) {
            (Some(last), Some(&theirs)) => (
                last.used | last.counter.global_bit(),
                last.shared | self.shares(theirs, last.side),
            ),
            _ => (0, 0),
        };
        own.left = self.candidates(member).map(|left| left & !own.used);
    }

    /// Gives a member the next counter that is free and whose registers agree with those of earlier
    /// members.
    fn take_next(
        &self,
        members: &[usize; MAX_COUNTERS],
        tried: &mut [Try; MAX_COUNTERS],
        at: usize,
    ) -> bool {
        let (before, rest) = tried.split_at_mut(at);
        let (Some(own), Some(&member)) = (rest.first_mut(), members.get(at)) else {
            return false;
        };
        for (side, left) in (0..).zip(&mut own.left) {
            let agrees = |(other, &theirs): (&Try, &usize)| {
                let own = self.encoding(member, side);
                own.zip(self.encoding(theirs, other.side))
                    .is_none_or(|(own, theirs)| own.agrees_with(theirs))
            };
            if *left != 0
                && own.shared & self.shares(member, side) != 0
                && !before.iter().zip(members).all(agrees)
            {
                *left = 0;
            }
            if let Some(counter) = Counter::lowest(*left) {
                *left &= !counter.global_bit();
                (own.counter, own.side) = (counter, side);
                return true;
            }
        }
        false
    }

    fn apply(
        &mut self,
        rotation: u16,
        members: &[usize; MAX_COUNTERS],
        tried: &[Try; MAX_COUNTERS],
        count: usize,
    ) {
        let at = usize::from(rotation);
        if let (Some(first), Some(turn)) = (self.first.get_mut(at), self.turns.get_mut(at)) {
            (*first, turn.used, turn.shared) = (0, 0, 0);
        }
        // The last in the list becomes the rotation's head again, so that a group can be taken out.
        for (&member, tried) in members.iter().zip(tried).take(count.saturating_sub(1)).rev() {
            self.add(rotation, member, tried.counter, tried.side);
        }
        if let (Some(&member), Some(tried)) =
            (members.get(count.saturating_sub(1)), tried.get(count.saturating_sub(1)))
        {
            self.add(rotation, member, tried.counter, tried.side);
        }
    }

    /// Whether a source wants the same as a rotation's in the registers that it shares with them.
    fn agrees(&self, rotation: u16, index: usize, side: u8) -> bool {
        let Some(encoding) = self.encoding(index, side) else {
            return false;
        };
        self.members(rotation).all(|member| {
            let side = self.assigned.get(member).map_or(0, |other| other.side);
            self.encoding(member, side).is_none_or(|theirs| encoding.agrees_with(theirs))
        })
    }

    /// The sources of a rotation, last added first.
    fn members(&self, rotation: u16) -> impl Iterator<Item = usize> {
        let index = |next: u16| usize::from(next).checked_sub(1);
        let first = self.first.get(usize::from(rotation)).copied().unwrap_or(0);
        core::iter::successors(index(first), move |&member| index(self.assigned.get(member)?.next))
            .take(MAX_COUNTERS)
    }

    fn head(&self, rotation: u16) -> usize {
        self.members(rotation).next().unwrap_or(MAX_SOURCES)
    }

    fn candidates(&self, index: usize) -> [u64; 2] {
        self.wanted.get(index).map_or([0; 2], |wanted| wanted.candidates)
    }

    fn encoding(&self, index: usize, side: u8) -> Option<&Encoding> {
        let wanted = self.wanted.get(index)?;
        wanted.encodings.get(usize::from(side))
    }

    fn is_alone(&self, index: usize) -> bool {
        self.wanted.get(index).is_some_and(|wanted| wanted.alone)
    }

    fn marks(&self, index: usize) -> u8 {
        self.marks.get(index).copied().unwrap_or(0)
    }

    /// The shared registers that a source writes on a side.
    fn shares(&self, index: usize, side: u8) -> u64 {
        let sides = self.registers.get(index);
        let shared = sides.and_then(|sides| sides.get(usize::from(side)));
        shared.copied().unwrap_or(0)
    }

    fn used(&self, rotation: u16) -> u64 {
        let turn = self.turns.get(usize::from(rotation));
        turn.map_or(0, |turn| turn.used)
    }
}

/// What a search still has to try for one member.
#[derive(Clone, Copy, FromZeros)]
struct Try {
    counter: Counter,
    side: u8,
    /// The counters still to be tried on each side.
    left: [u64; 2],
    /// The counters of the members before it.
    used: u64,
    /// The shared registers that they write.
    shared: u64,
}

/// Where [`Assignment::last`] keeps such a unit: a multiplicative hash.
const fn place(unit: &Unit) -> usize {
    let mixed = (unit.reach ^ unit.sources as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (u64::BITS - LAST.ilog2())) as usize
}

/// Prefers a fixed counter that counts the same event, which leaves the general ones to others.
fn preferred(free: u64) -> Option<Counter> {
    Counter::lowest(free >> 32 << 32).or(Counter::lowest(free))
}

/// The registers that an encoding shares with others, one bit for the MSR number modulo 64.
fn registers(encoding: &Encoding) -> u64 {
    let [first, then, last] = &encoding.upstream;
    let bit = |msr: u32| u64::from(msr != 0) << (msr % 64);
    bit(first.msr) | bit(then.msr) | bit(last.msr)
}

fn bit_index(counter: Counter) -> usize {
    counter.global_bit().trailing_zeros() as usize
}
