//! The one road of samples: what a recording and a trace of Windows' own tracing have in common.

use super::{Metadata, RecordedBranches, Recording, Sample, StackId};
use halprof_measure::Result;

/// Receives samples in the order of their source, each with its stack.
pub type SampleVisitor<'a> = dyn FnMut(&[Sample], &[StackId]) + 'a;

/// Receives a sample that has branch records, together with them, newest first.
pub type BranchVisitor<'a> = dyn FnMut(&Sample, RecordedBranches<'_>) + 'a;

/// Samples and what is known about them. [`open`](super::open) finds out whose they are.
///
/// A source can be passed over several times. A pipe cannot: only its first pass has samples.
pub trait SampleSource {
    /// What was recorded, and where.
    fn metadata(&self) -> &Metadata;

    /// Keeps the marks of programs in the next pass, which takes 32 bytes for each.
    fn keep_marks(&mut self) {}

    /// Passes all samples to `visit`.
    fn samples(&mut self, visit: &mut SampleVisitor<'_>) -> Result<()>;

    /// Passes all samples that have branch records to `visit`.
    fn branches(&mut self, visit: &mut BranchVisitor<'_>) -> Result<()>;

    /// Takes everything but the samples out of the source. It is complete after the first pass.
    fn take_recording(&mut self) -> Recording;
}
