//! Counts and samples briefly: only the machine itself can show what no table tells.

use super::{Describe, Failure};
use halprof_measure::Result;
use halprof_measure::Source;
use halprof_measure::describe::Description;
use halprof_measure::{Connection, Session, Setup, Transport};
use shared_types::request::session::Spec;

/// The results; `None` for what was not tried.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    /// One source, counted on every processor.
    pub counting: Option<std::result::Result<(), Failure>>,
    /// One source, sampled on the boot processor.
    pub sampling: Option<std::result::Result<(), Failure>>,
}

impl Trials {
    /// Tries both, if there is anything to count and no halprof session holds the counters.
    pub(super) fn make<T: Transport>(
        connection: &mut Connection<T>,
        described: &Description,
        describe: Describe<'_>,
    ) -> Result<Self> {
        if described.machine.active_session != 0 {
            return Ok(Self::default());
        }
        let sources = connection.sources(false)?;
        let mut trials = Self::default();
        if let Some(source) = first_with(&sources, Source::SUPPORTED) {
            let result = attempt(connection, source, false);
            trials.counting = Some(result.map_err(|error| describe(&error)));
        }
        // What keeps a machine from counting would fail here as well, and be told twice.
        if trials.counting == Some(Ok(()))
            && let Some(source) = first_with(&sources, Source::SUPPORTED | Source::SAMPLING)
        {
            let result = attempt(connection, source, true);
            trials.sampling = Some(result.map_err(|error| describe(&error)));
        }
        Ok(trials)
    }
}

/// The first source with these flags that is not a timer.
fn first_with(sources: &[Source], flags: u32) -> Option<&Source> {
    sources.iter().find(|source| source.flags & flags == flags && source.flags & Source::TIMER == 0)
}

/// Starts and stops at once; the driver's self-test is part of the start. Sampling asks for the
/// longest period on one processor, so that hardly any samples or ring memory are needed.
fn attempt<T: Transport>(
    connection: &mut Connection<T>,
    source: &Source,
    sample: bool,
) -> Result<()> {
    let spec = Spec {
        source: source.id,
        filter: Spec::USER,
        interval: if sample { source.max_interval.into() } else { 0 },
        ..Spec::default()
    };
    let setup = Setup {
        specs: vec![spec],
        processors: if sample { vec![0] } else { Vec::new() },
        ..Setup::default()
    };
    let mut session = Session::open(connection, false, false)?;
    session.configure(&setup, sample)?;
    session.start()?;
    session.stop()
}
