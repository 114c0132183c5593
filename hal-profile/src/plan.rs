//! Which source on which counter, and in which turn, on one kind of processor.
//!
//! Sources that fit together run together. Those that do not are parted into turns, first fit in
//! the order asked for; sources of one group stay in one turn or do not run. Within a turn the
//! search is exact: it backtracks over every counter, and on NetBurst over both sides' ESCRs.

use crate::capabilities::Capabilities;
use crate::counter::Counter;
use crate::source::{CounterSet, Select, Upstream};
use shared_types::ErrorCode;

/// Most sources of one session.
pub const MAX_SOURCES: usize = 256;
/// Most counters of one processor: general and fixed.
pub const MAX_COUNTERS: usize = 32;

/// A source to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What it counts.
    pub select: Select,
    /// The counters that can count it.
    pub counters: CounterSet,
    /// It is ProfileTime, counted by a timer.
    pub timer: bool,
    /// Runs together with the others of this number; 0 alone.
    pub group: u16,
    /// This kind of processor cannot count it, and why.
    pub refused: Option<ErrorCode>,
}

/// Where a source sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// On a counter, in a turn.
    Counter {
        /// The counter.
        counter: Counter,
        /// NetBurst: 0 for ESCRs with an even number, 1 for odd.
        side: u8,
        /// The turn.
        turn: u16,
    },
    /// On no counter: a timer.
    Timer,
    /// Nowhere, and why.
    Refused(ErrorCode),
}

/// The seats of a session's sources on one kind of processor.
#[derive(Clone, Debug)]
pub struct Plan {
    seats: [Seat; MAX_SOURCES],
    turns: u16,
}

impl Plan {
    /// No source placed.
    pub const EMPTY: Self = Self {
        seats: [Seat::Refused(ErrorCode::SourceNotInSession); MAX_SOURCES],
        turns: 0,
    };

    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.seats.copy_from_slice(&other.seats);
        self.turns = other.turns;
    }

    /// Where source `index` sits.
    #[must_use]
    pub fn seat(&self, index: usize) -> Seat {
        self.seats
            .get(index)
            .copied()
            .unwrap_or(Seat::Refused(ErrorCode::SourceNotInSession))
    }

    /// How many turns there are; 0 where no source takes a counter.
    #[must_use]
    pub fn turns(&self) -> u16 {
        self.turns
    }

    /// Places every source, in place. Answers the index of a source whose group cannot run
    /// together, if there is one.
    pub fn make(
        &mut self,
        capabilities: &Capabilities,
        count: usize,
        wanted: impl Fn(usize) -> Wanted,
    ) -> Result<(), usize> {
        self.turns = 0;
        for index in 0..count {
            let seat = match wanted(index) {
                Wanted { timer: true, .. } => Seat::Timer,
                Wanted {
                    refused: Some(error),
                    ..
                } => Seat::Refused(error),
                _ => UNPLACED,
            };
            self.set(index, seat);
        }
        for index in 0..count {
            if self.seat(index) == UNPLACED {
                self.place_unit(capabilities, count, &wanted, index)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, index: usize, seat: Seat) {
        if let Some(place) = self.seats.get_mut(index) {
            *place = seat;
        }
    }

    /// Places source `first` with the others of its group, in the first turn that has room.
    fn place_unit(
        &mut self,
        capabilities: &Capabilities,
        count: usize,
        wanted: &impl Fn(usize) -> Wanted,
        first: usize,
    ) -> Result<(), usize> {
        let group = wanted(first).group;
        let in_unit = |index: usize| index == first || (group != 0 && wanted(index).group == group);
        let refused =
            |index| matches!(self.seat(index), Seat::Refused(_)) && self.seat(index) != UNPLACED;
        if (0..count).any(|index| in_unit(index) && refused(index)) {
            return Err(first);
        }
        for turn in 0..=self.turns {
            let mut table = Table::new(capabilities);
            let members = (0..count).filter(|&index| match self.seat(index) {
                Seat::Counter { turn: theirs, .. } => theirs == turn,
                seat => seat == UNPLACED && in_unit(index),
            });
            if members
                .into_iter()
                .all(|index| table.add(index, wanted(index)))
                && table.solve()
            {
                for party in table.parties() {
                    let (counter, side) = (party.counter, party.side);
                    self.set(
                        party.index,
                        Seat::Counter {
                            counter,
                            side,
                            turn,
                        },
                    );
                }
                self.turns = self.turns.max(turn + 1);
                return Ok(());
            }
        }
        Err(first)
    }
}

/// Not placed yet: no source is refused for this reason before it is placed.
const UNPLACED: Seat = Seat::Refused(ErrorCode::DoesNotFit);

/// One source of a turn that is being solved.
#[derive(Clone, Copy)]
struct Party {
    index: usize,
    wanted: Wanted,
    counter: Counter,
    side: u8,
    /// Counters that are still to be tried on each side, as bits of the global registers' layout.
    left: [u64; 2],
}

/// One turn that is being solved.
struct Table<'a> {
    capabilities: &'a Capabilities,
    parties: [Option<Party>; MAX_COUNTERS],
    count: usize,
    taken: u64,
}

impl<'a> Table<'a> {
    fn new(capabilities: &'a Capabilities) -> Self {
        Self {
            capabilities,
            parties: [None; MAX_COUNTERS],
            count: 0,
            taken: 0,
        }
    }

    fn parties(&self) -> impl Iterator<Item = &Party> {
        self.parties.iter().take(self.count).flatten()
    }

    /// Adds a source; `false` where there are plainly more than counters.
    fn add(&mut self, index: usize, wanted: Wanted) -> bool {
        let Some(place) = self.parties.get_mut(self.count) else {
            return false;
        };
        *place = Some(Party {
            index,
            wanted,
            counter: Counter::general(0),
            side: 0,
            left: [0; 2],
        });
        self.count += 1;
        let general = self
            .parties()
            .filter(|party| !matches!(party.wanted.select, Select::Fixed(_)))
            .count();
        general <= self.capabilities.counters.count_ones() as usize
    }

    /// Finds a counter for each source: one after the other takes its next, and where it has none
    /// left, the one before takes another. A loop, as the driver's stack is small.
    fn solve(&mut self) -> bool {
        let mut at = 0;
        self.open(at);
        while at < self.count {
            if self.seat(at) {
                at += 1;
                self.open(at);
            } else if at == 0 {
                return false;
            } else {
                at -= 1;
                self.unseat(at);
            }
        }
        true
    }

    /// All counters that a source can have are to be tried.
    fn open(&mut self, at: usize) {
        let Some(Some(party)) = self.parties.get(at) else {
            return;
        };
        let left = [0, 1].map(|side| self.candidates(&party.wanted, side));
        if let Some(Some(party)) = self.parties.get_mut(at) {
            party.left = left;
        }
    }

    /// Gives a source the next counter that is free and agrees with those before; `false` where
    /// there is none.
    fn seat(&mut self, at: usize) -> bool {
        let Some(Some(party)) = self.parties.get(at) else {
            return false;
        };
        let mut party = *party;
        let mut next = None;
        for (side, left) in (0..).zip(&mut party.left) {
            while *left != 0 && next.is_none() {
                let bit = *left & left.wrapping_neg();
                *left &= !bit;
                if self.taken & bit == 0 && self.registers_agree(at, &party.wanted, side) {
                    next = Some((bit, side));
                }
            }
        }
        if let Some((bit, side)) = next {
            self.taken |= bit;
            (party.counter, party.side) = (counter_of(bit), side);
        }
        if let Some(place) = self.parties.get_mut(at) {
            *place = Some(party);
        }
        next.is_some()
    }

    /// Takes a source's counter from it.
    fn unseat(&mut self, at: usize) {
        if let Some(Some(party)) = self.parties.get(at) {
            self.taken &= !party.counter.global_bit();
        }
    }

    /// The counters that can count it on one side, as bits of the global registers' layout.
    fn candidates(&self, wanted: &Wanted, side: u8) -> u64 {
        let usable = self.capabilities.counters & wanted.counters;
        match wanted.select {
            Select::NetBurst(event) if of_side(event.escr_msr, side) != 0 => {
                (usable & of_side(event.counters, side)).into()
            }
            Select::Fixed(index) if side == 0 && self.capabilities.fixed >> index & 1 != 0 => {
                Counter::fixed(index).global_bit()
            }
            Select::EventSelect(_) | Select::Cesr { .. } if side == 0 => usable.into(),
            _ => 0,
        }
    }

    /// Two NetBurst sources may look at one ESCR only if they want the same of it.
    fn registers_agree(&self, at: usize, wanted: &Wanted, side: u8) -> bool {
        let Select::NetBurst(event) = wanted.select else {
            return true;
        };
        self.parties.iter().take(at).flatten().all(|other| {
            let Select::NetBurst(theirs) = other.wanted.select else {
                return true;
            };
            let same_escr = other.side == side
                && of_side(theirs.escr_msr, side) == of_side(event.escr_msr, side);
            (!same_escr || (theirs.escr == event.escr && theirs.upstream == event.upstream))
                && upstream_agrees(theirs.upstream, event.upstream, other.side == side)
        })
    }
}

/// What belongs to one side: 0 is even, all else odd.
fn of_side<T>([even, odd]: [T; 2], side: u8) -> T {
    if side == 0 { even } else { odd }
}

/// One RAT_ESCR for each side, one replay metric for the package.
fn upstream_agrees(one: Upstream, other: Upstream, same_side: bool) -> bool {
    match (one, other) {
        (Upstream::UopType { .. }, Upstream::UopType { .. }) => !same_side || one == other,
        (Upstream::Replay { .. }, Upstream::Replay { .. }) => one == other,
        _ => true,
    }
}

fn counter_of(bit: u64) -> Counter {
    match bit.trailing_zeros() {
        index @ 0..32 => Counter::general(index as u8),
        index => Counter::fixed((index - 32) as u8),
    }
}
