//! Checks of Windows' own tracing, which measures where there is no driver.

use super::machine::no_counters;
use super::{Check, Driver, Facts, Failure};
use halprof_measure::describe::Description;
use halprof_measure::tracing::session::{CounterOwners, ProfileSource, Tracing as Backend};

/// What Windows' own tracing says.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// Whether it is what measures.
    pub measures: bool,
    /// The sources that it lists.
    pub sources: Result<Vec<ProfileSource>, Failure>,
    /// How many of them it counts at once; `None` if it does not say.
    pub counters: Option<u32>,
    pub counter_owners: CounterOwners,
}

impl Tracing {
    pub fn ask(
        backend: &mut dyn Backend,
        counter_owners: CounterOwners,
        measures: bool,
        describe: super::Describe<'_>,
    ) -> Self {
        let sources = backend.sources().map_err(|error| describe(&error));
        Self { measures, sources, counters: backend.counters().ok().flatten(), counter_owners }
    }
}

/// What a reader must know before any result of it.
const UNRUN: &str = "halprof's use of it has not yet run on a real Windows";

pub(super) fn check(tracing: &Tracing, facts: &Facts) -> Check {
    let check = |result: String| Check::new("tracing", result);
    match &tracing.sources {
        Err(failure) if matches!(facts.driver, Driver::NotTried) => check(failure.message.clone())
            .problem("Nothing can be measured.", &failure.hint)
            .code(failure.code),
        Err(failure) => check(failure.message.clone())
            .warning("Nothing can be measured without the driver.", &failure.hint)
            .code(failure.code),
        Ok(sources) if sources.iter().all(ProfileSource::is_timer) => {
            check("Windows lists no counter, only its timer".to_owned()).warning(
                "Without the driver, `halprof record` samples time alone, and `halprof stat` is refused.",
                why_no_counters(facts.described.as_ref()),
            )
        }
        Ok(sources) => {
            let counters = match tracing.counters {
                Some(counters) => format!("counts {counters} at once"),
                None => "does not say how many it counts at once".to_owned(),
            };
            check(format!("Windows lists {} sources and {counters}; {UNRUN}", sources.len()))
        }
    }
}

/// Why Windows lists no counter: what hides them from the driver hides them from Windows.
fn why_no_counters(described: Option<&Description>) -> String {
    match described.and_then(|described| no_counters(described, Some(false))) {
        Some((why, hint)) => format!("{why} {hint}"),
        None => "CPUID shows counters: this Windows does not know the processor, or its hypervisor keeps them.".to_owned(),
    }
}
