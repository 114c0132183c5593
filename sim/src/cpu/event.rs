//! What happens on a processor, and what a counter's input makes of it.

/// The kinds of event that a workload is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Instructions retired.
    Instructions,
    /// Core cycles while not halted.
    Cycles,
    /// Branch instructions retired.
    Branches,
    /// Branch instructions retired that were mispredicted.
    BranchMisses,
    /// Reference cycles while not halted, at the rate of the time-stamp counter.
    RefCycles,
    LlcReferences,
    LlcMisses,
    /// Accesses to the first-level data cache.
    L1dAccesses,
    L1dMisses,
    /// Fetches from the first-level instruction cache.
    L1iFetches,
    L1iMisses,
    FpOperations,
    /// An event that a workload names, by its index among the named ones.
    Named(u8),
}

/// The most events that a workload can name.
pub const NAMED_MAX: usize = 20;
/// The number of kinds that have their own name.
const KINDS: usize = 12;
/// The number of events that can be counted.
pub(crate) const AMOUNTS: usize = KINDS + NAMED_MAX;

impl Event {
    /// Every kind that has its own name, in the order of [`Counts`].
    pub const ALL: [Self; KINDS] = [
        Self::Instructions,
        Self::Cycles,
        Self::Branches,
        Self::BranchMisses,
        Self::RefCycles,
        Self::LlcReferences,
        Self::LlcMisses,
        Self::L1dAccesses,
        Self::L1dMisses,
        Self::L1iFetches,
        Self::L1iMisses,
        Self::FpOperations,
    ];

    /// The name in a workload, e.g. `branch-misses`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Cycles => "cycles",
            Self::Branches => "branches",
            Self::BranchMisses => "branch-misses",
            Self::RefCycles => "ref-cycles",
            Self::LlcReferences => "llc-references",
            Self::LlcMisses => "llc-misses",
            Self::L1dAccesses => "l1d-accesses",
            Self::L1dMisses => "l1d-misses",
            Self::L1iFetches => "l1i-fetches",
            Self::L1iMisses => "l1i-misses",
            Self::FpOperations => "fp-operations",
            Self::Named(_) => "named",
        }
    }

    /// Its index in [`Counts`].
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Instructions => 0,
            Self::Cycles => 1,
            Self::Branches => 2,
            Self::BranchMisses => 3,
            Self::RefCycles => 4,
            Self::LlcReferences => 5,
            Self::LlcMisses => 6,
            Self::L1dAccesses => 7,
            Self::L1dMisses => 8,
            Self::L1iFetches => 9,
            Self::L1iMisses => 10,
            Self::FpOperations => 11,
            // The parser refuses more names; the remainder keeps every other caller inside the
            // array.
            Self::Named(place) => KINDS + usize::from(place) % NAMED_MAX,
        }
    }

    /// Whether it happens once in each of its cycles.
    pub(crate) const fn is_clock(self) -> bool {
        matches!(self, Self::Cycles | Self::RefCycles)
    }
}

/// How counters are programmed to count an event that a workload names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Which of the workload's events.
    pub event: Event,
    /// The select without the mode, interrupt and enable bits; `None` for a fixed counter.
    pub select: Option<u64>,
    pub fixed: Option<u8>,
    /// An architectural event, by its bit in CPUID: processors that have it count it.
    pub architectural: Option<u32>,
    /// EAX of leaf 0x1A, type of core and native model, of the processors for which this holds;
    /// `None` for all.
    pub core: Option<u32>,
}

impl Code {
    /// Bits of a select that do not choose the event: USR, OS, PC, INT and EN.
    const NOT_THE_EVENT: u64 = 0b11 << 16 | 0b11 << 19 | 1 << 22;

    /// What a general counter with this select counts.
    pub(crate) fn of_select(codes: &[Self], select: u64) -> Option<Event> {
        let event = Some(select & !Self::NOT_THE_EVENT);
        let mut codes = codes.iter();
        codes.find(|code| code.select == event).map(|code| code.event)
    }

    /// What a counter of this architectural event counts.
    pub(crate) fn of_architectural(codes: &[Self], bit: u32) -> Option<Event> {
        let mut codes = codes.iter();
        codes.find(|code| code.architectural == Some(bit)).map(|code| code.event)
    }

    /// What the fixed counter of this index counts.
    pub(crate) fn of_fixed(codes: &[Self], index: usize) -> Option<Event> {
        let mut codes = codes.iter();
        let is = |code: &&Self| code.fixed.map(usize::from) == Some(index);
        codes.find(is).map(|code| code.event)
    }
}

/// How often each kind of event has happened, in total and in user mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    total: [u64; AMOUNTS],
    user: [u64; AMOUNTS],
    /// None of it happened on the processor itself.
    idle: bool,
    /// The other threads of its core on which it happened too.
    others: u8,
}

impl Counts {
    /// How often `event` has happened.
    pub fn total(&self, event: Event) -> u64 {
        self.total[event.index()] * self.running(Threads::Own)
    }

    /// How often `event` has happened in user mode; never more than [`Self::total`].
    pub fn user(&self, event: Event) -> u64 {
        self.user[event.index()] * self.running(Threads::Own)
    }

    /// The same on a core where `others` of its other threads do it too, at the same time; `idle`:
    /// the processor itself does nothing.
    pub(crate) fn on_core(&self, idle: bool, others: u8) -> Self {
        Self { idle, others, ..*self }
    }

    /// How often a counter of these threads sees each event.
    pub(crate) fn running(&self, threads: Threads) -> u64 {
        let own = u64::from(!self.idle);
        match threads {
            Threads::Own => own,
            Threads::All => own + u64::from(self.others),
            Threads::Any => (own + u64::from(self.others)).min(1),
        }
    }

    /// Sets both counts of `event`.
    pub fn set(&mut self, event: Event, total: u64, user: u64) {
        self.total[event.index()] = total;
        self.user[event.index()] = user;
    }
}

/// Events that one processor retires in one cycle if it retires any: what CMASK is compared with.
///
/// A property of the model, not of a real core: events come in cycles of [`BURST`] each, the rest
/// in one more cycle, and before each of these is a cycle without any. Only a clock ticks once in
/// every cycle.
pub const BURST: u64 = 4;

/// The same of an event that can be added many times in one cycle: AMD's retired FLOPs, up to 64
/// (PPR for AMD Family 17h, "Large Increment per Cycle Events").
pub const LARGE_BURST: u64 = 64;

/// What the input of one counter counts: which kind of event, in which modes, with which
/// comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feed {
    pub event: Event,
    /// Counted in user mode (CPL 3).
    pub user: bool,
    /// Counted in kernel mode (CPL 0).
    pub kernel: bool,
    /// The comparison of CMASK, or of NetBurst's COMPARE.
    pub compare: Compare,
    /// The threads of the core that it counts.
    pub threads: Threads,
}

/// Which threads of its core a counter counts: Intel's AnyThread (SDM vol. 3, "Architectural
/// Performance Monitoring Version 3").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// Its own.
    #[default]
    Own,
    /// All of them: events are added up.
    All,
    /// All of them: cycles in which any of them has the event. All threads of a modelled core that do
    /// anything do the same at the same time.
    Any,
}

/// How many counts a cycle adds. Thresholds of 0 count as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The number of events in that cycle: CMASK is 0.
    Off,
    /// One if at least this many events happened.
    AtLeast(u64),
    /// One if fewer than this many events happened.
    Below(u64),
    /// One if the comparison with this threshold becomes true, inverted or not.
    Edge(u64),
    /// No comparison: one per this many events, like a slower clock.
    Every(u64),
    /// No comparison, of an event that comes [`LARGE_BURST`] times in a cycle: no more of them than
    /// this in each.
    AtMost(u64),
    /// Each event, and one more for so many of them.
    OneMoreEvery(u64),
}

impl Compare {
    /// The comparison that CMASK, INV and E of a select describe; INV without CMASK has no effect.
    pub(crate) fn new(at_least: u64, invert: bool, edge: bool) -> Self {
        match (at_least, invert, edge) {
            (0, _, false) => Self::Off,
            (n, _, true) => Self::Edge(n),
            (n, false, false) => Self::AtLeast(n),
            (n, true, false) => Self::Below(n),
        }
    }
}

impl Feed {
    /// The total that this input has accumulated, given all that has happened.
    ///
    /// It falls only with [`Compare::Below`], when events happen while the cycles stand still; a
    /// counter keeps its value, and continues from the highest amount so far.
    pub fn amount(&self, counts: &Counts) -> u64 {
        let happened = self.in_modes(counts, self.event);
        match self.compare {
            Compare::Off => happened,
            // A clock ticks in every cycle, so its condition never rises.
            Compare::Edge(_) if self.event.is_clock() => 0,
            Compare::Every(n) => happened / n.max(1),
            Compare::OneMoreEvery(n) => happened + happened / n.max(1),
            Compare::AtMost(n) => happened / LARGE_BURST * n + (happened % LARGE_BURST).min(n),
            // A cycle without events comes before each busy one (`BURST`), so each busy cycle is an
            // edge.
            Compare::AtLeast(n) | Compare::Edge(n) => self.busy_cycles(happened, n),
            Compare::Below(n) => {
                let cycles = self.in_modes(counts, self.clock());
                cycles.saturating_sub(self.busy_cycles(happened, n))
            }
        }
    }

    /// The fewest events that add up to `amount`, which is not 0; `None` if no number of events
    /// does, and for [`Compare::Below`], where events alone do not decide it.
    pub(crate) fn events_for(&self, amount: u64) -> Option<u64> {
        let n = match self.compare {
            Compare::Off => return Some(amount),
            Compare::Every(n) => return amount.checked_mul(n.max(1)),
            Compare::AtMost(n) => {
                // Each full cycle adds `n`; what is missing comes from the first events of the
                // next.
                let (cycles, rest) = ((amount - 1) / n.max(1), (amount - 1) % n.max(1) + 1);
                return cycles.checked_mul(LARGE_BURST)?.checked_add(rest);
            }
            // h events add h + floor(h / n); the fewest that reach a are a - floor(a / (n + 1)).
            Compare::OneMoreEvery(n) => return Some(amount - amount / n.max(1).saturating_add(1)),
            Compare::Below(_) => return None,
            Compare::Edge(_) if self.event.is_clock() => return None,
            Compare::AtLeast(n) | Compare::Edge(n) => n.max(1),
        };
        let burst = self.burst();
        let full_cycles = (amount - 1).checked_mul(burst)?;
        (n <= burst).then(|| full_cycles.checked_add(n))?
    }

    /// The event that counts the cycles in which this one happens: a clock's cycles are its own.
    pub(crate) fn clock(&self) -> Event {
        if self.event.is_clock() { self.event } else { Event::Cycles }
    }

    fn burst(&self) -> u64 {
        if self.event.is_clock() { 1 } else { BURST }
    }

    /// Cycles in which at least `n` events happen, out of `happened` events in total.
    fn busy_cycles(&self, happened: u64, n: u64) -> u64 {
        let (n, burst) = (n.max(1), self.burst());
        if n > burst {
            return 0;
        }
        happened / burst + u64::from(happened % burst >= n)
    }

    fn in_modes(&self, counts: &Counts, event: Event) -> u64 {
        // The arrays are read and not `total`, which counts this thread alone: `running` decides
        // below.
        let (total, user) = (counts.total[event.index()], counts.user[event.index()]);
        let happened = match (self.user, self.kernel) {
            (true, true) => total,
            (true, false) => user,
            (false, true) => total - user,
            (false, false) => 0,
        };
        happened * counts.running(self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::distinct_counts::only;

    #[test]
    fn comparison_is_what_mask_inversion_and_edge_say() {
        let rows = [
            ((0, false, false), Compare::Off),
            ((0, true, false), Compare::Off),
            ((2, false, false), Compare::AtLeast(2)),
            ((2, true, false), Compare::Below(2)),
            ((0, false, true), Compare::Edge(0)),
            ((3, false, true), Compare::Edge(3)),
            ((3, true, true), Compare::Edge(3)),
        ];
        for ((at_least, invert, edge), compare) in rows {
            assert_eq!(Compare::new(at_least, invert, edge), compare);
        }
    }

    fn user(event: Event, compare: Compare) -> Feed {
        Feed { event, user: true, kernel: false, compare, threads: Threads::Own }
    }

    #[test]
    fn a_clock_comes_once_in_each_of_its_cycles() {
        let rows = [
            (Compare::Off, 100),
            (Compare::AtLeast(1), 100),
            (Compare::AtLeast(2), 0),
            (Compare::Below(1), 0),
            (Compare::Below(2), 100),
            (Compare::Edge(0), 0),
            (Compare::Edge(1), 0),
        ];
        for event in [Event::Cycles, Event::RefCycles] {
            for (compare, amount) in rows {
                let counted = user(event, compare).amount(&only(event, 100));
                assert_eq!(counted, amount, "{event:?} {compare:?}");
            }
        }
    }

    #[test]
    fn other_events_come_four_in_a_cycle() {
        let mut counts = only(Event::Branches, 42);
        counts.set(Event::Cycles, 100, 100);
        let rows = [
            (Compare::Off, 42),
            (Compare::AtLeast(1), 11),
            (Compare::AtLeast(2), 11),
            (Compare::AtLeast(3), 10),
            (Compare::AtLeast(5), 0),
            (Compare::Below(1), 89),
            (Compare::Below(3), 90),
            (Compare::Edge(0), 11),
            (Compare::Edge(3), 10),
        ];
        for (compare, amount) in rows {
            let counted = user(Event::Branches, compare).amount(&counts);
            assert_eq!(counted, amount, "{compare:?}");
        }
    }
}
