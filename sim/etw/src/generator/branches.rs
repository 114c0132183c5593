//! The branches before a modelled sample, and what Windows' records of them are like: fewer than the
//! processor holds after a switch, entries of zeros, entries that no branch made (Zen 4's erratum 1452),
//! records of the thread before, records that are lost, and records of what is no sample.

use fastrand::Rng;
use halprof_etw::PointerSize;
use halprof_etw::payload::branches::{Entry, filter};
use shared_types::BranchKind;
use sim::load::workload::Passed;
use std::sync::Arc;

/// How the branches before samples are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchRecording {
    /// The most records that the processor holds.
    pub depth: usize,
    /// What is left out, as Windows is asked to.
    pub filter: u32,
}

/// Records that a reader must leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Events with records that are of no sample.
    pub without_sample: u64,
    /// Entries of zeros.
    pub empty: u64,
    /// Entries that no branch made.
    pub no_branches: u64,
}

/// The records of one sample.
pub(super) struct Recorded {
    /// The records as Windows writes them, newest first.
    pub(super) entries: Vec<Entry>,
    /// The branches that were taken.
    pub(super) taken: Vec<(u64, u64)>,
}

/// Marks an entry that no branch made, in its target.
const NO_BRANCH: u64 = 1 << 61;

/// The address of another program's code, which the sampled process does not have.
const ELSEWHERE: u64 = 0x5000_0000;

/// The branches that modelled samples have before them.
pub(super) struct Branches {
    way: Arc<[Passed]>,
    recording: BranchRecording,
    pointer_size: PointerSize,
    /// Decides which way threads went and what is lost: nothing else depends on it.
    rng: Rng,
    pub(super) left_out: LeftOut,
}

/// What becomes of a sample's records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Written,
    Lost,
    /// There are also records of the switch that put the thread on its processor.
    WithSwitch,
    /// The sample is within the kernel's switch of threads, and the records are of the thread before.
    Switching,
}

impl Branches {
    /// The branches of user code that goes this way again and again.
    pub(super) fn new(
        recording: BranchRecording,
        way: Arc<[Passed]>,
        pointer_size: PointerSize,
        seed: u64,
    ) -> Self {
        let rng = Rng::with_seed(seed);
        Self { way, recording, pointer_size, rng, left_out: LeftOut::default() }
    }

    pub(super) fn filter(&self) -> u32 {
        self.recording.filter
    }

    pub(super) fn fate(&mut self, in_kernel: bool) -> Fate {
        match self.rng.u32(..32) {
            0 => Fate::Lost,
            1 => Fate::WithSwitch,
            2 if in_kernel => Fate::Switching,
            _ => Fate::Written,
        }
    }

    /// The branches before a sample of user code, or of the kernel that has just been entered at
    /// `kernel`. `place`: the branch that comes next on the way, if that is known.
    pub(super) fn of_sample(&mut self, kernel: Option<u64>, place: Option<usize>) -> Recorded {
        let next = place.unwrap_or_else(|| self.rng.usize(..self.way.len().max(1)));
        let entered = kernel.zip(self.way.get(next));
        let interrupt = entered.map(|(to, at)| (at.from, to, BranchKind::Other));
        // This goes around twice, because not all branches on the way are taken.
        let before = (1..=2 * self.way.len()).filter_map(|back| {
            let length = self.way.len();
            let branch = self.way.get((next + 2 * length - back) % length)?;
            branch.taken.then_some((branch.from, branch.to, branch.kind))
        });
        let passed = |&(_, to, kind): &(u64, u64, BranchKind)| {
            let mode = if kernel == Some(to) { filter::KERNEL } else { filter::USER };
            self.recording.filter & (mode | kind_bit(kind)) == 0
        };
        let taken = interrupt.into_iter().chain(before).filter(passed);
        let taken = taken.map(|(from, to, _)| (from, to)).take(self.recording.depth).collect();
        self.written(taken)
    }

    /// The branches of a thread that ran before, in another program.
    pub(super) fn of_other(&mut self) -> Recorded {
        let taken = (0..4).map(|n| (ELSEWHERE + 0x100 * n + 0x40, ELSEWHERE + 0x100 * n));
        self.written(taken.collect())
    }

    fn written(&mut self, mut taken: Vec<(u64, u64)>) -> Recorded {
        let fate = self.rng.u32(..8);
        if fate < 2 {
            // The thread was switched in a moment ago.
            taken.truncate(self.rng.usize(..=taken.len()));
        }
        // Nobody knows what the third field is; it is kept as it is.
        let entry = |(n, &(from, to)): (usize, &(u64, u64))| Entry {
            from,
            to,
            reserved: 1 << 63 | n as u64,
        };
        let mut entries: Vec<Entry> = taken.iter().enumerate().map(entry).collect();
        let room = self.recording.depth - entries.len().min(self.recording.depth);
        if fate == 1 {
            self.left_out.empty += room as u64;
            entries.resize(entries.len() + room, Entry::default());
        } else if fate == 2 && self.pointer_size == PointerSize::Eight && !entries.is_empty() {
            // The false entry is added to the branches, and takes the place of the oldest.
            self.left_out.no_branches += 1;
            let at = self.rng.usize(..entries.len());
            let false_entry = Entry { to: entries[at].to ^ NO_BRANCH, ..entries[at] };
            taken.truncate(self.recording.depth - 1);
            entries.truncate(self.recording.depth - 1);
            entries.insert(at, false_entry);
        }
        Recorded { entries, taken }
    }
}

/// The bit of a filter that leaves a kind out.
const fn kind_bit(kind: BranchKind) -> u32 {
    match kind {
        BranchKind::Conditional => filter::CONDITIONAL,
        BranchKind::Call => filter::NEAR_RELATIVE_CALLS,
        BranchKind::IndirectCall => filter::NEAR_INDIRECT_CALLS,
        BranchKind::Return => filter::NEAR_RETURNS,
        BranchKind::IndirectJump => filter::NEAR_INDIRECT_JUMPS,
        BranchKind::Jump => filter::NEAR_RELATIVE_JUMPS,
        BranchKind::Other => filter::FAR,
        BranchKind::Unknown => 0,
    }
}

/// The way of code that is of no file: block after block, some of them behind others.
pub(super) fn invented(code: u64, size: u64) -> Arc<[Passed]> {
    const BLOCKS: u64 = 64;
    let start = |block: u64| code + size / BLOCKS * (block * 5 % BLOCKS);
    let branch = |block| Passed {
        from: start(block) + 0x20,
        to: start(block + 1),
        kind: if block % 4 == 0 { BranchKind::Jump } else { BranchKind::Conditional },
        taken: true,
    };
    (0..BLOCKS).map(branch).collect()
}
