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
    /// References to the last cache level.
    LlcReferences,
    /// Misses of the last cache level.
    LlcMisses,
    /// Accesses to the first-level data cache.
    L1dAccesses,
    /// Misses of the first-level data cache.
    L1dMisses,
    /// Fetches from the first-level instruction cache.
    L1iFetches,
    /// Misses of the first-level instruction cache.
    L1iMisses,
    /// Floating-point operations.
    FpOperations,
}

impl Event {
    /// Every kind, in the order of [`Counts`].
    pub const ALL: [Self; 12] = [
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
    #[must_use]
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
        }
    }
}

/// How often each kind of event has happened, in all and in user mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    total: [u64; 12],
    user: [u64; 12],
}

impl Counts {
    /// How often `event` has happened.
    #[must_use]
    pub fn total(&self, event: Event) -> u64 {
        self.total[event as usize]
    }

    /// How often `event` has happened in user mode; never more than [`Self::total`].
    #[must_use]
    pub fn user(&self, event: Event) -> u64 {
        self.user[event as usize]
    }

    /// Sets both counts of `event`.
    pub fn set(&mut self, event: Event, total: u64, user: u64) {
        self.total[event as usize] = total;
        self.user[event as usize] = user;
    }
}

/// Events that one processor retires in one cycle when it retires any: what CMASK compares with.
///
/// A property of the model, not of a real core: events come in cycles of [`BURST`] each, the rest
/// in one more cycle.
pub const BURST: u64 = 4;

/// What the input of one counter makes of the events: which kind, in which modes, through which
/// comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The kind counted.
    pub event: Event,
    /// Counted in user mode (CPL 3).
    pub user: bool,
    /// Counted in kernel mode (CPL 0).
    pub kernel: bool,
    /// The comparison of CMASK, or of NetBurst's COMPARE.
    pub compare: Compare,
}

/// How many counts a cycle adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The number of events in that cycle: CMASK is 0.
    Off,
    /// One where at least this many events happened.
    AtLeast(u64),
    /// One where fewer than this many events happened.
    Below(u64),
}

impl Feed {
    /// All that this input has added up, out of all that has happened.
    ///
    /// Never falls as `counts` grow, so a difference of two calls is what one stretch adds.
    #[must_use]
    pub fn amount(&self, counts: &Counts) -> u64 {
        let happened = self.in_modes(counts, self.event);
        match self.compare {
            Compare::Off => happened,
            Compare::AtLeast(n) => busy_cycles(happened, n),
            Compare::Below(n) => {
                let cycles = self.in_modes(counts, Event::Cycles);
                cycles.saturating_sub(busy_cycles(happened, n))
            }
        }
    }

    fn in_modes(&self, counts: &Counts, event: Event) -> u64 {
        match (self.user, self.kernel) {
            (true, true) => counts.total(event),
            (true, false) => counts.user(event),
            (false, true) => counts.total(event) - counts.user(event),
            (false, false) => 0,
        }
    }
}

/// Cycles in which at least `n` of `happened` events came together.
fn busy_cycles(happened: u64, n: u64) -> u64 {
    match n {
        0 => happened,
        1 => happened.div_ceil(BURST),
        2..=BURST => happened / BURST + u64::from(happened % BURST >= n),
        _ => 0,
    }
}
