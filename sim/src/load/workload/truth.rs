//! What has happened at a position, and where it happens.

use super::{KERNEL_CODE, STRETCH, Segment, Workload, scale};
use crate::cpu::event::{Compare, Counts, Event, Feed};

/// Intervals that the search for [`Compare::Below`] examines before it accepts any crossing.
const SEARCH_LIMIT: usize = 1 << 16;

impl Workload {
    /// The number of its positions: 0 is the start, this one the end.
    pub fn length(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.start + last.length)
    }

    /// All that has happened at `position`; from the end on, the total.
    pub fn counts_at(&self, position: u64) -> Counts {
        let mut counts = Counts::default();
        let named = self.parts.codes.iter().map(|code| code.event);
        for event in Event::ALL.into_iter().chain(named) {
            self.count(&mut counts, event, position);
        }
        counts
    }

    /// The first position at which `feed` has accumulated `amount`; `None` if it never does.
    ///
    /// With [`Compare::Below`] the difference of two counts can fall again when the cycles stand
    /// still. The answer is then still the first position, unless cycles and busy cycles advance at
    /// almost the same rate: in that case it is a position where the amount is reached from below.
    pub fn position_of(&self, feed: Feed, amount: u64) -> Option<u64> {
        if amount == 0 {
            return Some(0);
        }
        let happened = match feed.compare {
            Compare::Below(_) => return self.first_below(feed, amount),
            _ => feed.events_for(amount)?,
        };
        let total = self.total_for(feed, happened)?;
        self.position_of_total(feed.event, total)
    }

    /// Modelled time at `position` in nanoseconds: positions are evenly spaced, and the whole
    /// workload takes max(cycles, instructions) at 1 GHz.
    pub fn time_at(&self, position: u64) -> u64 {
        let length = self.length();
        scale(self.duration(), position.min(length), length)
    }

    /// The first position whose time is at least `time` ns; `None` after the end.
    pub fn position_at(&self, time: u64) -> Option<u64> {
        if time == 0 {
            return Some(0);
        }
        (time <= self.duration()).then(|| scale_up(self.length(), time, self.duration()))
    }

    /// Where the latest instruction at `position` retired from, and whether in user mode.
    pub fn ip_at(&self, position: u64) -> (u64, bool) {
        self.ip_of(Event::Instructions, position)
    }

    /// The address at `position`, in the mode in which the latest `event` there happened.
    ///
    /// Instructions are four bytes each unless [`run_from`](Self::run_from) has set their
    /// addresses, and those of each mode are scattered over its range, so that no sampling period
    /// meets the same ones again and again. Where user branches [`follow`](Self::follow) a way, an
    /// instruction is one of those between two of them.
    pub fn ip_of(&self, event: Event, position: u64) -> (u64, bool) {
        let latest = self.total(event, position).max(1);
        let user = self.user(event, latest) > self.user(event, latest - 1)
            || (self.amount(event) == 0 && self.parts.user > 0);
        let instructions = self.total(Event::Instructions, position);
        let in_user = self.user(Event::Instructions, instructions);
        let one_of = |addresses: &[u64]| {
            let place = scattered(addresses.len() as u64, in_user);
            addresses.get(place as usize).copied()
        };
        let ip = if user {
            one_of(self.on_way(position))
                .or_else(|| one_of(self.parts.instructions.as_ref()?))
                .unwrap_or_else(|| scatter(self.parts.code, in_user))
        } else {
            scatter(KERNEL_CODE, instructions - in_user)
        };
        (ip, user)
    }

    /// The instructions between the latest user branch at `position` and the next one; none if no way
    /// is known, or the workload has no branches.
    fn on_way(&self, position: u64) -> &[u64] {
        if self.amount(Event::Branches) == 0 {
            return &[];
        }
        self.straight(self.user(Event::Branches, self.total(Event::Branches, position)))
    }

    fn duration(&self) -> u64 {
        self.amount(Event::Cycles).max(self.amount(Event::Instructions))
    }

    fn count(&self, counts: &mut Counts, event: Event, position: u64) {
        let total = self.total(event, position);
        counts.set(event, total, self.user(event, total));
    }

    /// How often `event` has happened at `position`.
    fn total(&self, event: Event, position: u64) -> u64 {
        let next = self.segments.partition_point(|segment| segment.start <= position);
        // There is such a segment: the first one starts at 0.
        let segment = &self.segments[next - 1];
        let steps = (position - segment.start).min(segment.length);
        let within = scale(segment.amounts[event.index()], steps, segment.length);
        segment.before[event.index()] + within
    }

    /// How many of the first `total` events are in user mode.
    pub(super) fn user(&self, event: Event, total: u64) -> u64 {
        let stretch = total / STRETCH;
        let before = self.user_before(event, stretch);
        let within = self.user_before(event, stretch + 1) - before;
        before + (total % STRETCH).min(within)
    }

    /// How many events are in user mode before this stretch.
    fn user_before(&self, event: Event, stretch: u64) -> u64 {
        let amount = self.amount(event);
        let total = stretch.saturating_mul(STRETCH).min(amount);
        scale(total, self.user[event.index()], amount)
    }

    /// The smallest total of the feed's event with `happened` of its events in the feed's modes.
    fn total_for(&self, feed: Feed, happened: u64) -> Option<u64> {
        let amount = self.amount(feed.event);
        let user = self.user[feed.event.index()];
        let possible = match (feed.user, feed.kernel) {
            (true, true) => amount,
            (true, false) => user,
            (false, true) => amount - user,
            (false, false) => 0,
        };
        if happened > possible {
            return None;
        }
        if feed.user && feed.kernel {
            return Some(happened);
        }
        // In a stretch, user events come first.
        let evenly = if feed.user {
            scale_up(amount, happened, user)
        } else {
            scale(amount, happened - 1, amount - user) + 1
        };
        let stretch = evenly.div_ceil(STRETCH) - 1;
        let (start, before) = (stretch * STRETCH, self.user_before(feed.event, stretch));
        Some(if feed.user {
            start + (happened - before)
        } else {
            let users = self.user_before(feed.event, stretch + 1) - before;
            start + users + (happened - (start - before))
        })
    }

    /// The first position at which `event` has happened `total` times.
    fn position_of_total(&self, event: Event, total: u64) -> Option<u64> {
        let index = event.index();
        let ends_before =
            |segment: &Segment| segment.before[index] + segment.amounts[index] < total;
        let segment = self.segments.get(self.segments.partition_point(ends_before))?;
        let within = total - segment.before[index];
        Some(segment.start + scale_up(segment.length, within, segment.amounts[index]))
    }

    /// Searches intervals from the left, and skips those where the cycles at the end minus the busy
    /// cycles at the start do not reach `amount`.
    fn first_below(&self, feed: Feed, amount: u64) -> Option<u64> {
        let mut intervals = vec![(0, self.length())];
        let mut looks = 0;
        while let Some((first, last)) = intervals.pop() {
            if feed.amount(&self.most_between(feed, first, last)) < amount {
                continue;
            }
            if first == last {
                return Some(first);
            }
            looks += 1;
            if looks > SEARCH_LIMIT {
                return self.crossing(feed, amount);
            }
            let middle = first + (last - first) / 2;
            // The left half is taken out first, because the search is for the first position.
            intervals.extend([(middle + 1, last), (first, middle)]);
        }
        None
    }

    /// Counts with which `feed` is at least what it is anywhere from `first` to `last`.
    fn most_between(&self, feed: Feed, first: u64, last: u64) -> Counts {
        let mut counts = Counts::default();
        self.count(&mut counts, feed.event, first);
        self.count(&mut counts, feed.clock(), last);
        counts
    }

    /// A position where `feed` reaches `amount` from below, if it has reached it at the end.
    fn crossing(&self, feed: Feed, amount: u64) -> Option<u64> {
        let reached = |position| feed.amount(&self.counts_at(position)) >= amount;
        let (mut below, mut above) = (0, self.length());
        if !reached(above) {
            return None;
        }
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if reached(middle) {
                above = middle;
            } else {
                below = middle;
            }
        }
        Some(above)
    }
}

/// `ceil(value * numerator / denominator)` for a quotient of at most 1 and a nonzero denominator.
fn scale_up(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    product.div_ceil(u128::from(denominator).max(1)) as u64
}

/// The address of the next instruction after `instructions` of them.
fn scatter((start, end): (u64, u64), instructions: u64) -> u64 {
    start + scattered((end - start).div_ceil(4), instructions) * 4
}

/// One of `places` indices (Fibonacci hashing).
fn scattered(places: u64, instructions: u64) -> u64 {
    let hash = instructions.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((u128::from(hash) * u128::from(places)) >> 64) as u64
}

#[cfg(test)]
mod tests;
