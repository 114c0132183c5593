//! Who holds counters, in words: Windows knows tags and sessions, and no names.

use halprof_measure::tracing::session::{
    CounterOwner, CounterSession, Holders, OwnerKind, ProfileSource,
};

/// Who may be behind what Windows says: it gives tags and documents none.
pub(super) const WHO: &str = "Microsoft documents no tag. A counter that no session accounts for may be held by another driver, or by Intel Threat Detection Technology, which Defender uses. `logman query -ets` lists sessions.";

/// What holds counters, as Windows says; `None` if it does not say.
pub(super) fn held(holders: &Holders, sources: &[ProfileSource]) -> Option<Vec<String>> {
    let counters = holders.counters.as_ref()?;
    let held = counters.iter().filter(|owner| owner.kind != Some(OwnerKind::Free));
    let held = held.map(|held| owner(held, sources));
    let sessions = holders.sessions.iter().flatten();
    let sessions = sessions.filter(|session| session.sources != 0).map(session);
    Some(held.chain(sessions).collect())
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
