//! How often each instruction of a function was executed.
//!
//! Between the target of a record and the branch of the next newer one, every instruction was
//! executed once. The addresses of samples, which skid, are not needed for that.

use crate::aggregate::branches::{RecordCounts, walk};
use crate::aggregate::filter::Filter;
use crate::file::{Module, Recording, open};
use crate::symbols::Symbols;
use crate::views::instruction::{Flow, Instruction, Jump};
use halprof_measure::Result;
use rustc_hash::FxHashMap;
use shared_types::Branch;
use std::ops::Range;
use std::path::Path;

/// A run of code: its source, and its offsets from the start of the module.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CodeRun {
    source: usize,
    start: u64,
    /// The branch that ends it.
    end: u64,
}

/// What the branch records of a recording show about a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeRunSummary {
    /// How many records were kept and dropped.
    pub records: RecordCounts,
    /// For each source, the number of runs between records in the function, and of samples
    /// with such runs.
    pub per_source: Vec<(u64, u64)>,
    /// Stretches that are impossible in this code: other code ran there.
    pub impossible: u64,
}

/// The runs that touch one function.
pub(crate) struct CodeRuns {
    /// The function, relative to the start of its module.
    function: Range<u64>,
    all: FxHashMap<CodeRun, Flow>,
    /// For each source, the number of runs, and of samples that have them.
    per_source: Vec<(u64, u64)>,
    records: RecordCounts,
}

impl CodeRuns {
    pub(crate) fn new(function: Range<u64>, sources: usize) -> Self {
        Self {
            function,
            all: FxHashMap::default(),
            per_source: vec![(0, 0); sources],
            records: RecordCounts::default(),
        }
    }

    /// Adds the runs of a recording; `source` maps the recording's index of a source to ours,
    /// and `is_own` says which modules contain the function.
    pub(crate) fn add(
        &mut self,
        path: &Path,
        filter: &Filter,
        (recording, symbols): (&Recording, &mut Symbols),
        source: impl Fn(u16) -> Option<usize>,
        is_own: impl Fn(&Module) -> bool,
    ) -> Result<()> {
        let modules = recording.modules.iter();
        let starts: Vec<Option<u64>> =
            modules.map(|module| is_own(module).then_some(module.start)).collect();
        let mut samples = open(path)?;
        let records = walk(samples.as_mut(), filter, recording, symbols, |sample, steps| {
            let Some(source) = source(sample.source) else {
                return;
            };
            let mut count = 0;
            for pair in steps.windows(2) {
                let [newer, older] = pair else { continue };
                let Some([from, _]) = newer.modules.filter(|_| older.joined) else {
                    continue;
                };
                let Some(start) = starts.get(from).copied().flatten() else {
                    continue;
                };
                let run = CodeRun {
                    source,
                    start: older.branch.to.wrapping_sub(start),
                    end: newer.branch.from.wrapping_sub(start),
                };
                if run.end < self.function.start || run.start >= self.function.end {
                    continue;
                }
                count += 1;
                let flow = self.all.entry(run).or_default();
                flow.executed += 1;
                flow.predicted += u64::from(newer.is(Branch::PREDICTED));
                flow.mispredicted += u64::from(newer.is(Branch::MISPREDICTED));
            }
            if let Some((runs, samples)) = self.per_source.get_mut(source) {
                *runs += count;
                *samples += u64::from(count != 0);
            }
        })?;
        self.records.add(records);
        Ok(())
    }

    /// Adds the counts to the function's instructions, whose first address is `start`. Runs are
    /// impossible that begin or end inside an instruction, or run across an unconditional jump.
    pub(crate) fn apply_to(self, start: u64, instructions: &mut [Instruction]) -> CodeRunSummary {
        // How many instructions before each one always branch: two of these sums tell whether any
        // does within a run, however long it is.
        let mut leaving = vec![0u64];
        for instruction in instructions.iter() {
            let before = leaving.last().copied().unwrap_or(0);
            leaving.push(before + u64::from(instruction.jump == Jump::Always));
        }
        // A run is added at its first instruction and subtracted behind its last, and these are
        // summed up at the end: its length costs nothing.
        let mut begun = vec![vec![0u64; self.per_source.len()]; instructions.len() + 1];
        let mut impossible = 0;
        for (run, flow) in &self.all {
            let Some((range, branch)) = self.indices(run, start, instructions) else {
                impossible += flow.executed;
                continue;
            };
            // Only the last instruction may always branch.
            let last = branch.unwrap_or(range.end);
            let count = |at: usize| leaving.get(at).copied().unwrap_or(0);
            if count(last.max(range.start)) != count(range.start) {
                impossible += flow.executed;
                continue;
            }
            for (at, times) in
                [(range.start, flow.executed), (range.end, flow.executed.wrapping_neg())]
            {
                if let Some(sum) = begun.get_mut(at).and_then(|all| all.get_mut(run.source)) {
                    *sum = sum.wrapping_add(times);
                }
            }
            let own = branch.and_then(|at| instructions.get_mut(at)?.flows.get_mut(run.source));
            if let Some(own) = own {
                own.taken += flow.executed;
                own.predicted += flow.predicted;
                own.mispredicted += flow.mispredicted;
            }
        }
        let mut running = vec![0u64; self.per_source.len()];
        for (instruction, begun) in instructions.iter_mut().zip(begun) {
            let sources = instruction.flows.iter_mut().zip(&mut running).zip(begun);
            for ((flow, running), begun) in sources {
                *running = running.wrapping_add(begun);
                flow.executed = *running;
            }
        }
        CodeRunSummary { records: self.records, per_source: self.per_source, impossible }
    }

    /// The instructions of a run, and the one that branched at its end, if that lies in the
    /// function and no interrupt ended the run.
    fn indices(
        &self,
        run: &CodeRun,
        start: u64,
        instructions: &[Instruction],
    ) -> Option<(Range<usize>, Option<usize>)> {
        let index = |offset: u64| {
            let address = start.wrapping_add(offset.wrapping_sub(self.function.start));
            let at = instructions.binary_search_by_key(&address, |one| one.address);
            at.ok()
        };
        let first = if run.start < self.function.start { 0 } else { index(run.start)? };
        if run.end >= self.function.end {
            return Some((first..instructions.len(), None));
        }
        let last = index(run.end)?;
        let jumps = |at: usize| instructions.get(at).map(|one| one.jump);
        match (jumps(last), jumps(last + 1)) {
            (Some(Jump::Never), Some(Jump::Sometimes)) => {
                // AMD may report the comparison that is fused with the jump.
                Some((first..last + 2, Some(last + 1)))
            }
            // An interrupt came before this instruction.
            (Some(Jump::Never), _) => Some((first..last, None)),
            _ => Some((first..last + 1, Some(last))),
        }
    }
}
