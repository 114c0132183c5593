//! The call stacks of samples: blocks `FRAM` and `STAK`.
//!
//! Stacks form a tree: each frame has the number of its caller, so that a stack is the number of its
//! innermost frame, and what stacks have in common is kept once.

use super::{Recording, mode_of};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared_types::Mode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(super) const FRAMES: [u8; 4] = *b"FRAM";
pub(super) const STACKS: [u8; 4] = *b"STAK";

/// The deepest stack. Windows' own tracing walks at most 192 frames of each half; without a limit,
/// a malicious file could have stacks that take forever to walk.
pub const DEPTH_MAX: u16 = 1024;

/// The callers of a sampled address, innermost first, as a number in a [`StackTable`].
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
)]
#[repr(transparent)]
pub struct StackId(u32);

impl StackId {
    /// No caller is known.
    pub const NONE: Self = Self(0);

    /// Set in a file if the user half was recorded with another sample of the same stay in the
    /// kernel.
    const SHARED: u32 = 1 << 31;

    /// Whether no caller is known.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The index of its innermost frame in a table; `None` if no caller is known.
    pub(super) const fn index(self) -> Option<usize> {
        (self.unmarked().0 as usize).checked_sub(1)
    }

    /// The number as a file has it, with a flag for a user half that is
    /// [shared](StackCounts::shared).
    pub(super) const fn marked(self, shared: bool) -> Self {
        Self(if shared { self.0 | Self::SHARED } else { self.0 })
    }

    pub(super) const fn unmarked(self) -> Self {
        Self(self.0 & !Self::SHARED)
    }
}

/// A frame of a stack, as in a file.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes, KnownLayout,
)]
#[repr(C)]
pub struct StackFrame {
    /// The address that its callee returns to.
    pub address: u64,
    /// Its caller; [`StackId::NONE`] if it is the outermost frame that is known.
    pub caller: StackId,
    /// A [`Mode`].
    mode: u8,
    reserved: [u8; 3],
}

impl StackFrame {
    /// A frame of user or kernel code.
    pub const fn new(address: u64, mode: Mode, caller: StackId) -> Self {
        Self { address, caller, mode: mode as u8, reserved: [0; 3] }
    }

    /// The mode of its code.
    pub fn mode(&self) -> Mode {
        mode_of(self.mode)
    }

    /// An address within the call. The address that it returns to may belong to the next line, or
    /// to another function if the call never returns.
    pub const fn call_site(&self) -> u64 {
        self.address.saturating_sub(1)
    }
}

/// The frames of all stacks of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackTable {
    /// The frame of number 1 first.
    frames: Vec<StackFrame>,
    /// How many frames there are from each to its outermost.
    depths: Vec<u16>,
}

impl StackTable {
    /// Whether it has no stack.
    pub const fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// All frames, a caller always before its callees.
    pub(super) fn frames(&self) -> &[StackFrame] {
        &self.frames
    }

    /// A frame; `None` for [`StackId::NONE`] and for a number that the table does not have.
    pub fn frame(&self, stack: StackId) -> Option<&StackFrame> {
        self.frames.get((stack.0 as usize).checked_sub(1)?)
    }

    /// A stack's frames, innermost first, each with the stack that begins with it.
    pub fn callers(&self, stack: StackId) -> impl Iterator<Item = (StackId, &StackFrame)> {
        // This ends even in a stranger's file, because `push` takes no frame before its caller.
        let mut next = stack;
        std::iter::from_fn(move || {
            let (stack, frame) = (next, self.frame(next)?);
            next = frame.caller;
            Some((stack, frame))
        })
    }

    /// Adds a frame. `None` if its caller is not one of those before it, if its stack is too deep, or
    /// if there are too many.
    pub(super) fn push(&mut self, frame: StackFrame) -> Option<StackId> {
        let depth = match (frame.caller.0 as usize).checked_sub(1) {
            None => 1,
            Some(caller) => *self.depths.get(caller)? + 1,
        };
        let number = u32::try_from(self.frames.len() + 1).ok()?;
        if depth > DEPTH_MAX || number & StackId::SHARED != 0 {
            return None;
        }
        self.frames.push(frame);
        self.depths.push(depth);
        Some(StackId(number))
    }
}

/// Makes a [`StackTable`] in which each stack is once.
#[derive(Default)]
pub(crate) struct StackTableBuilder {
    table: StackTable,
    known: FxHashMap<StackFrame, StackId>,
}

impl StackTableBuilder {
    /// The stack of these frames, outermost first. Frames deeper than [`DEPTH_MAX`] are left out.
    pub(crate) fn stack(&mut self, frames: impl Iterator<Item = (u64, Mode)>) -> StackId {
        let mut stack = StackId::NONE;
        for (address, mode) in frames {
            let frame = StackFrame::new(address, mode, stack);
            let known = self.known.get(&frame).copied();
            let Some(next) = known.or_else(|| self.table.push(frame)) else {
                break;
            };
            self.known.insert(frame, next);
            stack = next;
        }
        stack
    }

    pub(crate) fn finish(self) -> StackTable {
        self.table
    }
}

/// How many samples have a call stack, and which halves of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct StackCounts {
    /// All samples, those of the idle threads included.
    pub samples: u64,
    /// With the kernel's half alone.
    pub kernel: u64,
    /// With the user half alone.
    pub user: u64,
    /// With both.
    pub both: u64,
    /// With none.
    pub none: u64,
    /// Of `both`: with a user half that was recorded for another sample of the same stay in the
    /// kernel.
    pub shared: u64,
}

impl StackCounts {
    pub(super) const fn add(&mut self, kernel: bool, user: bool, shared: bool) {
        self.samples += 1;
        match (kernel, user) {
            (true, true) => self.both += 1,
            (true, false) => self.kernel += 1,
            (false, true) => self.user += 1,
            (false, false) => self.none += 1,
        }
        self.shared += shared as u64;
    }

    /// The sum over several recordings; `None` where none has stacks.
    pub(crate) fn of_all(recordings: &[Recording]) -> Option<Self> {
        recordings.iter().find_map(Recording::stack_counts)?;
        let mut sum = Self::default();
        for recording in recordings {
            let samples = recording.samples;
            let without = Self { samples, none: samples, ..Self::default() };
            let counts = recording.stack_counts().unwrap_or(without);
            for (sum, count) in [
                (&mut sum.samples, counts.samples),
                (&mut sum.kernel, counts.kernel),
                (&mut sum.user, counts.user),
                (&mut sum.both, counts.both),
                (&mut sum.none, counts.none),
                (&mut sum.shared, counts.shared),
            ] {
                *sum = sum.saturating_add(count);
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::file::test_recording::TestRecording;
    use crate::file::{Module, Statistics};
    use shared_types::Sample;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const PROCESS: u32 = 4;
    pub(crate) const EVENTS: u64 = 10;
    /// Each module stands for a function; those after it are called by it.
    const MODULES: [(&str, u64, Mode); 4] = [
        ("main", 0x1000, Mode::User),
        ("f", 0x2000, Mode::User),
        ("g", 0x3000, Mode::User),
        ("kernel", 0xFFFF_8000_0000_0000, Mode::Kernel),
    ];

    fn code(name: &str) -> (u64, Mode) {
        let (_, start, mode) = MODULES.into_iter().find(|module| module.0 == name).expect(name);
        (start + 0x10, mode)
    }

    /// A recording of samples with their functions, outermost first.
    pub(crate) fn recorded(samples: &[&[&str]]) -> (TempDir, PathBuf) {
        let alone = samples.iter().filter(|frames| frames.len() == 1).count() as u64;
        let mut builder = StackTableBuilder::default();
        let sample = |frames: &&[&str]| {
            let (leaf, callers) = frames.split_last().expect("a function");
            let (ip, mode) = code(leaf);
            let stack = builder.stack(callers.iter().map(|caller| code(caller)));
            let sample = Sample {
                ip,
                mode: mode as u8,
                process: PROCESS,
                period: EVENTS,
                ..Sample::default()
            };
            (sample, stack)
        };
        let (samples, stacks): (Vec<Sample>, Vec<StackId>) = samples.iter().map(sample).unzip();
        let modules = MODULES.map(|(name, start, mode)| {
            Module::named((mode == Mode::User).then_some(PROCESS), name, start, 0x100)
        });
        let count = samples.len() as u64;
        let counts = StackCounts { samples: count, none: alone, ..StackCounts::default() };
        let recording = TestRecording {
            modules: modules.to_vec(),
            samples,
            stacks: builder.finish(),
            sample_stacks: stacks,
            statistics: Statistics { stacks: Some(counts), ..Statistics::default() },
            ..TestRecording::of_sources(&["cycles"])
        };
        recording.write()
    }

    pub(crate) const SAMPLES: [&[&str]; 5] = [
        &["main", "f", "g"],
        &["main", "f", "g", "kernel"],
        &["main", "f"],
        &["main", "f", "f"],
        // Without a stack.
        &["g"],
    ];

    #[test]
    fn stacks_share_their_outer_frames() {
        let mut builder = StackTableBuilder::default();
        let user = |address| (address, Mode::User);
        let one = builder.stack([user(1), user(2), user(3)].into_iter());
        let other = builder.stack([user(1), user(2), (3, Mode::Kernel)].into_iter());
        let again = builder.stack([user(1), user(2), user(3)].into_iter());
        let table = builder.finish();
        assert_eq!((table.frames().len(), one == other, one), (4, false, again));
        let addresses =
            |stack| -> Vec<u64> { table.callers(stack).map(|(_, frame)| frame.address).collect() };
        assert_eq!(addresses(other), [3, 2, 1]);
        assert_eq!(addresses(StackId::NONE), [0; 0]);
    }

    #[test]
    fn a_stack_ends() {
        let mut table = StackTable::default();
        let frame = |caller| StackFrame::new(7, Mode::User, StackId(caller));
        assert_eq!(table.push(frame(1)), None, "its own caller");
        for depth in 0..u32::from(DEPTH_MAX) {
            assert_eq!(table.push(frame(depth)), Some(StackId(depth + 1)));
        }
        assert_eq!(table.push(frame(DEPTH_MAX.into())), None, "too deep");
        let deep = (0..5000).map(|address| (address, Mode::User));
        let mut builder = StackTableBuilder::default();
        let stack = builder.stack(deep);
        assert_eq!(builder.finish().callers(stack).count(), usize::from(DEPTH_MAX));
    }
}
