//! Describes the owners of counters. Windows reports tags and sessions, and no names.

use halprof_measure::tracing::session::{
    CounterOwner, CounterOwners, CounterSession, OwnerKind, ProfileSource,
};

/// Which programs a tag may stand for: Windows gives tags and documents none.
pub(super) const WHO: &str = "Microsoft documents no tag. A counter that no session accounts for may be held by another driver, or by Intel Threat Detection Technology, which Defender uses. `logman query -ets` lists sessions.";

/// Describes each owner of a counter, and each session that counts; `None` where Windows does not
/// say.
pub(super) fn describe(owners: &CounterOwners, sources: &[ProfileSource]) -> Option<Vec<String>> {
    let counters = owners
        .counters
        .as_ref()?
        .iter()
        .filter(|owner| owner.kind != Some(OwnerKind::Free))
        .map(|counter| owner(counter, sources));
    let sessions =
        owners.sessions.iter().flatten().filter(|session| session.sources != 0).map(session);
    Some(counters.chain(sessions).collect())
}

fn owner(owner: &CounterOwner, sources: &[ProfileSource]) -> String {
    let CounterOwner { processor, counter, kind, source, tag } = *owner;
    let by = match kind {
        Some(OwnerKind::Untagged) => "an owner without a tag".to_owned(),
        Some(OwnerKind::TaggedWithSource) => {
            let known = sources.iter().find(|one| one.id == source);
            let name = known.map_or_else(|| format!("source {source}"), |one| one.name.clone());
            format!("tag {tag:#x} for {name}")
        }
        _ => format!("tag {tag:#x}"),
    };
    format!("counter {counter} of processor {processor}: {by}")
}

fn session(session: &CounterSession) -> String {
    format!("tracing session {} with {} sources", session.logger, session.sources)
}
