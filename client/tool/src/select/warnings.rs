//! Warnings about the selected events, before they are measured.

use crate::cli::args::Selection;
use crate::target::context::{Context, ONLY_TIME};
use halprof_setup::doctor::no_counters;
use std::collections::BTreeSet;

pub(crate) fn warnings(selection: &Selection, ctx: &Context) -> Vec<String> {
    [only_time(selection, ctx), one_event_file(selection, ctx)].into_iter().flatten().collect()
}

/// Warning when only ProfileTime can be counted by default.
fn only_time(selection: &Selection, ctx: &Context) -> Option<String> {
    if !selection.is_default() {
        return None;
    }
    let (why, hint) = no_counters(&ctx.machine.describe(), None)?;
    Some(format!("{ONLY_TIME}. {why} {hint}"))
}

/// Warning when one file of events is used on several types of core.
pub(crate) fn one_event_file(selection: &Selection, ctx: &Context) -> Option<String> {
    let file = selection.event_file.as_ref()?;
    let types: BTreeSet<u8> = ctx.machine.processors.iter().map(|one| one.core_type).collect();
    (types.len() > 1).then(|| {
        format!(
            "the events of {} are used on every type of core, but Intel publishes a list for each type: `-C` chooses processors of one",
            file.display()
        )
    })
}
