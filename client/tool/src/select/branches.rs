//! Tables of branches, as `--by` names them.

use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use halprof_profile::aggregate::branches::RecordCounts;
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

/// The message that records were dropped.
pub(crate) fn dropped(kept: &RecordCounts) -> Option<String> {
    let dropped = kept.unresolved + kept.foreign;
    (dropped != 0).then(|| {
        format!(
            "{} of {} branch records are left out: {} are in no module of the sampled process, {} may \
             be of a thread that ran before on the processor",
            thousands(dropped),
            thousands(kept.records),
            thousands(kept.unresolved),
            thousands(kept.foreign)
        )
    })
}
