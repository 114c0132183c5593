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

mod absent;
mod added;
mod amd_counters;
mod branches;
mod costs;
mod errata;
mod events;
mod given_counters;
mod guard;
mod leftovers;
mod lifecycle;
mod limits;
mod look;
mod multiplexing;
mod overflow;
mod pages;
mod quirks;
mod rdpmc;
mod refused;
mod rotation_order;
mod sampling;
mod sessions;
mod slices;
mod system_events;
mod threads;

/// Runs the scenarios that the command line names, as a test program does; where the backend is not
/// built, they are reported as ignored.
#[must_use]
pub fn main<B: Backend + 'static>(built: bool) -> ExitCode {
    let files = [
        ("absent", absent::all::<B>()),
        ("added", added::all::<B>()),
        ("amd_counters", amd_counters::all::<B>()),
        ("branches", branches::all::<B>()),
        ("costs", costs::all::<B>()),
        ("errata", errata::all::<B>()),
        ("events", events::all::<B>()),
        ("given_counters", given_counters::all::<B>()),
        ("guard", guard::all::<B>()),
        ("leftovers", leftovers::all::<B>()),
        ("lifecycle", lifecycle::all::<B>()),
        ("limits", limits::all::<B>()),
        ("look", look::all::<B>()),
        ("multiplexing", multiplexing::all::<B>()),
        ("overflow", overflow::all::<B>()),
        ("pages", pages::all::<B>()),
        ("quirks", quirks::all::<B>()),
        ("rdpmc", rdpmc::all::<B>()),
        ("refused", refused::all::<B>()),
        ("rotation_order", rotation_order::all::<B>()),
        ("sampling", sampling::all::<B>()),
        ("sessions", sessions::all::<B>()),
        ("slices", slices::all::<B>()),
        ("system_events", system_events::all::<B>()),
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
