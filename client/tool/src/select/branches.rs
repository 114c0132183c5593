//! Tables of branches, as `--by` names them.

use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use halprof_profile::aggregate::branches::RecordCounts;
use halprof_profile::file::{DroppedBranches, Recording};
use halprof_profile::views::branches::Grouping;
use shared_types::MAX_BRANCHES;

/// The requested tables of branches; `None` if the keys are for samples.
pub(crate) fn requested(lists: &[String]) -> Result<Option<Vec<Grouping>>> {
    let lists: Vec<Vec<&str>> =
        lists.iter().map(|list| list.split(',').map(str::trim).collect()).collect();
    let of_branches = lists.iter().filter(|keys| keys.iter().any(|key| Grouping::is_key(key)));
    match of_branches.count() {
        0 => Ok(None),
        n if n < lists.len() => Err(Error::usage(
            "`--by` asks for branches and for samples",
            "Ask for them one after the other: `edge` and `path` are tables of branches.",
        )),
        _ => lists.iter().map(|keys| table_by(keys)).collect::<Result<_>>().map(Some),
    }
}

fn table_by(keys: &[&str]) -> Result<Grouping> {
    Grouping::parse(keys).ok_or_else(|| {
        Error::usage(
            format!("`--by {}` is not a table of branches", keys.join(",")),
            format!("Use `edge`, `path` or `path:N` for 2 to {MAX_BRANCHES} branches, optionally with `address`, `line`, `symbol` or `module`: `edge,line`."),
        )
    })
}

/// The messages on records that are in no table: dropped of the counted samples, and of no sample.
pub(crate) fn left_out(kept: &RecordCounts, recording: &Recording) -> impl Iterator<Item = String> {
    let of_trace = recording.statistics.as_ref().and_then(|known| known.dropped_branches);
    dropped(kept).into_iter().chain(of_trace.and_then(|of_trace| dropped_of_trace(&of_trace)))
}

/// The message that records were dropped.
fn dropped(kept: &RecordCounts) -> Option<String> {
    let dropped = kept.unresolved + kept.foreign + kept.switching;
    let switching = match kept.switching {
        0 => String::new(),
        records => format!(
            ", {} belong to samples within the kernel's switch of threads, and so to the thread before",
            thousands(records)
        ),
    };
    (dropped != 0).then(|| {
        format!(
            "{} of {} branch records are left out: {} are in no module of the sampled process, {} may \
             be of a thread that ran before on the processor{switching}",
            thousands(dropped),
            thousands(kept.records),
            thousands(kept.unresolved),
            thousands(kept.foreign)
        )
    })
}

/// The message that a trace has branch records which no sample has. Entries of zeros are no loss: fewer
/// branches were taken since the thread was switched in.
pub(crate) fn dropped_of_trace(dropped: &DroppedBranches) -> Option<String> {
    let DroppedBranches { without_sample, no_branches, .. } = *dropped;
    let parts = [
        (without_sample, "events with branch records that belong to no sample"),
        (no_branches, "branch records whose target cannot be code"),
    ];
    let parts = parts.into_iter().filter(|&(number, _)| number != 0);
    let parts: Vec<String> =
        parts.map(|(number, what)| format!("{} {what}", thousands(number))).collect();
    (!parts.is_empty())
        .then(|| format!("the trace has more that is left out: {}", parts.join(", ")))
}
