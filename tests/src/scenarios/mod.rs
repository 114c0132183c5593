//! Scenarios: what must hold of halprof whatever runs it. Each is run on every [`Backend`]: by
//! `tests/scenarios` on the service in process, by `nt-model/tests/scenarios` on the shipped driver.

use crate::backend::Backend;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

/// A scenario's name, and the scenario.
type Scenario = (&'static str, fn());

/// Lists the scenarios of a file; one that is not listed is dead code.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// The scenarios of this file.
        pub(super) fn all<B: crate::backend::Backend>() -> Vec<super::Scenario> {
            vec![$((stringify!($name), $name::<B>)),*]
        }
    };
}

mod added;
mod events;
mod leftovers;
mod lifecycle;
mod rdpmc;
mod sessions;
mod threads;

/// Runs the scenarios that the command line names, as a test program does; where the backend is not
/// built, they are reported as ignored.
#[must_use]
pub fn main<B: Backend + 'static>(built: bool) -> ExitCode {
    let files = [
        ("added", added::all::<B>()),
        ("events", events::all::<B>()),
        ("leftovers", leftovers::all::<B>()),
        ("lifecycle", lifecycle::all::<B>()),
        ("rdpmc", rdpmc::all::<B>()),
        ("sessions", sessions::all::<B>()),
        ("threads", threads::all::<B>()),
    ];
    let scenarios = files.into_iter().flat_map(|(file, scenarios)| {
        scenarios.into_iter().map(move |(name, run)| (format!("{file}::{name}"), run))
    });
    let trials = scenarios.map(|(name, run)| {
        let trial = Trial::test(name, move || {
            run();
            Ok(())
        });
        trial.with_ignored_flag(!built)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
