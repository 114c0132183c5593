//! `stat --against`: another program, or another workload of a model, that runs in turns with the one
//! that is measured, in the order before, after, after, before.

use super::evaluate::Evaluation;
use super::result::{AgainstResult, RunRow, Side, StatResult, Turn};
use crate::cli::args;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::counted;
use crate::results::counts::Counts;
use crate::run::runner::Runner;
use crate::run::scope::Scope;
use crate::select::event_set::EventSet;
use crate::target::context::Context;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::slice;

/// Fewer pairs have no bound.
const PAIRS_MIN: u32 = 3;

impl Side {
    fn new(runner: &Runner, workload: Option<String>) -> Self {
        Self {
            program: runner.program_name(),
            sha256: runner.program_file().and_then(|file| sha256(file).ok()),
            workload: workload.filter(|_| runner.is_modelled()),
            exit_status: runner.exit_status(),
        }
    }
}

impl Turn {
    /// The turns of a pair, which has a number from 0 on.
    pub(super) const fn of_pair(pair: usize) -> [Self; 2] {
        if pair.is_multiple_of(2) {
            [Self::Before, Self::After]
        } else {
            [Self::After, Self::Before]
        }
    }
}

/// The complete runs of both, as many of each.
#[derive(Default)]
pub(super) struct Pairs {
    pub(super) before: Vec<Counts>,
    pub(super) after: Vec<Counts>,
}

impl Pairs {
    /// Leaves out the run whose other one is not complete.
    pub(super) fn keep_complete(&mut self) {
        let complete = self.before.len().min(self.after.len());
        self.before.truncate(complete);
        self.after.truncate(complete);
    }
}

/// The runner of what is measured before, if there are turns.
pub(super) fn runner(
    options: &args::Stat,
    ctx: &mut Context,
    event_set: &EventSet,
    output_to_error: bool,
) -> Result<Option<Runner>> {
    let Some(before) = &options.against else {
        return Ok(None);
    };
    if options.repeat < PAIRS_MIN {
        return Err(Error::usage(
            format!("`--against` compares at least {PAIRS_MIN} pairs of runs"),
            "Say how many with `-r`: `stat -r 10 --against OLD -- NEW`.",
        ));
    }
    let mut work = options.work.clone();
    if ctx.model.is_some() {
        let spec = before.to_str().map(str::to_owned);
        work.workload = Some(spec.ok_or_else(|| {
            Error::usage("`--against`: the workload is not UTF-8", "`halprof help workload`.")
        })?);
    } else {
        let (_, arguments) = work.program.split_first().ok_or_else(|| {
            Error::usage(
                "`--against` needs a program to compare OLD with",
                "Name it after `--`: `stat -r 10 --against old.exe -- new.exe ARGS`.",
            )
        })?;
        let arguments: Vec<OsString> = arguments.to_vec();
        work.program = [vec![before.clone()], arguments].concat();
    }
    Runner::new(&work, ctx, event_set, output_to_error).map(Some)
}

impl AgainstResult {
    /// `runs`: the complete ones; `runners`: what ran them, before and after.
    pub(super) fn new(
        options: &args::Stat,
        evaluation: &Evaluation<'_>,
        runs: &Pairs,
        runners: [&Runner; 2],
    ) -> Self {
        let spec = options.against.as_ref().map(|spec| spec.to_string_lossy().into_owned());
        let workloads = [spec, options.work.workload.clone()];
        let [before, after] = [0, 1].map(|side| Side::new(runners[side], workloads[side].clone()));
        let row = |run| RunRow::new(run, evaluation.view.rows(slice::from_ref(run)));
        let pairs = runs.after.len();
        Self {
            before,
            after,
            pairs,
            order: (0..pairs).flat_map(Turn::of_pair).collect(),
            runs_before: runs.before.iter().map(row).collect(),
        }
    }

    /// The heading of the comparison.
    pub(super) fn heading(&self) -> String {
        let Side { program, workload, .. } = &self.before;
        let before = program.as_ref().or(workload.as_ref()).map_or("", String::as_str);
        format!("{before}; {} in turns", counted(self.pairs as u64, "pair", "pairs"))
    }

    /// The warning that fewer pairs than so many are complete.
    pub(super) fn incomplete(&self, repeat: u32) -> String {
        let complete = counted(self.pairs as u64, "pair is", "pairs are");
        format!("{complete} complete of {repeat}: the figures are of these")
    }

    /// Which of the programs has failed, if one has, and why there is no verdict.
    pub(super) fn failure(&self) -> Option<(u32, String)> {
        let failed = |side: &Side| {
            let status = side.exit_status.filter(|&status| status != 0)?;
            let name = side.program.as_deref().unwrap_or_default();
            Some((status, format!("`{name}` ended with status {status}: there is no verdict")))
        };
        failed(&self.before).or_else(|| failed(&self.after))
    }
}

/// The results of each run alone, as JSON.
pub(super) fn each(
    evaluation: &Evaluation<'_>,
    runs: &Pairs,
    (machine, scope): (&str, &Scope),
    output: &Output,
) -> Result<Vec<[String; 2]>> {
    let alone = |run: &Counts| -> Result<String> {
        let result: StatResult =
            evaluation.result(slice::from_ref(run), machine.to_owned(), scope.clone());
        output.document("stat", result)
    };
    let pairs = runs.before.iter().zip(&runs.after);
    pairs.map(|(before, after)| Ok([alone(before)?, alone(after)?])).collect()
}

fn sha256(file: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(file)?, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}
