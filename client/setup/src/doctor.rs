//! What prevents or distorts a measurement: takes facts and returns checks.
//!
//! [`Facts`] are collected elsewhere: what the driver or a model reports by [`Facts::collect`], and
//! what Windows reports in the module that calls Windows. Their meaning is decided here, in safe
//! code that runs anywhere. If a fact is missing its check is [`State::Unknown`], never ok.

mod counter_owners;
mod machine;
mod system;
mod tools;
mod tracing;
mod trial;

pub use machine::no_counters;
pub use system::System;
pub use tracing::Tracing;
pub use trial::Trials;

use halprof_measure::describe::Description;
use halprof_measure::{Connection, Failure, Result, Transport};
use schemars::JsonSchema;
use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing is in the way.
    Ok,
    /// Measuring works, but results need care.
    Warning,
    /// Nothing can be measured until this is fixed.
    Problem,
    /// It could not be determined.
    Unknown,
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Check {
    /// The stable name.
    pub name: &'static str,
    /// The severity.
    pub state: State,
    /// What was found.
    pub result: String,
    /// Its effect on a measurement, if it has one.
    pub consequence: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The error code that a measurement would end with; `halprof explain` describes it.
    pub code: Option<&'static str>,
}

impl Check {
    fn new(name: &'static str, result: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            result: result.into(),
            consequence: None,
            hint: None,
            code: None,
        }
    }

    fn with(self, state: State, consequence: &str, hint: impl Into<String>) -> Self {
        Self { state, consequence: Some(consequence.to_owned()), hint: Some(hint.into()), ..self }
    }

    fn warning(self, consequence: &str, hint: impl Into<String>) -> Self {
        self.with(State::Warning, consequence, hint)
    }

    fn problem(self, consequence: &str, hint: impl Into<String>) -> Self {
        self.with(State::Problem, consequence, hint)
    }

    fn unknown(self, consequence: &str, hint: impl Into<String>) -> Self {
        self.with(State::Unknown, consequence, hint)
    }

    fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }
}

/// Turns an error into a failure: whoever shows the checks decides on the advice.
pub type Describe<'a> = &'a dyn Fn(&halprof_measure::Error) -> Failure;

/// Whether the driver answers.
#[derive(Clone, Debug)]
pub enum Driver {
    /// It does, by this name.
    Answers(String),
    /// It does not.
    Silent(Failure),
    /// Another backend was named.
    NotTried,
}

/// All facts that the checks use.
#[derive(Clone, Debug)]
pub struct Facts {
    pub driver: Driver,
    /// What the driver reports; without a driver, what can be predicted from CPUID.
    pub described: Option<Description>,
    /// The results of counting and sampling briefly.
    pub trials: Trials,
    /// What Windows reports; `None` when a model is measured.
    pub system: Option<System>,
    /// What Windows' own tracing says; `None` when a model is measured.
    pub tracing: Option<Tracing>,
}

impl Facts {
    /// Collects the results of a brief measurement of a machine that is described already.
    pub fn collect<T: Transport>(
        connection: &mut Connection<T>,
        described: Description,
        system: Option<System>,
        describe: Describe<'_>,
    ) -> Result<Self> {
        let trials = Trials::make(connection, &described, describe)?;
        Ok(Self {
            driver: Driver::Answers(connection.driver_name().to_owned()),
            described: Some(described),
            trials,
            system,
            tracing: None,
        })
    }

    /// The facts when no driver answers; `predicted` is what CPUID says about the machine, if it was
    /// read.
    pub const fn unanswered(
        driver: Driver,
        predicted: Option<Description>,
        system: Option<System>,
    ) -> Self {
        Self {
            driver,
            described: predicted,
            trials: Trials { counting: None, sampling: None },
            system,
            tracing: None,
        }
    }

    /// The same with what Windows' own tracing says.
    pub fn with_tracing(self, tracing: Option<Tracing>) -> Self {
        Self { tracing, ..self }
    }

    /// Whether Windows' own tracing can measure, and is what measures.
    fn can_trace(&self) -> bool {
        // A model asks nobody for rights.
        let has_right = self.system.as_ref().is_none_or(System::may_trace);
        let tracing = self.tracing.as_ref();
        has_right && tracing.is_some_and(|tracing| tracing.measures && tracing.sources.is_ok())
    }

    /// Whether Windows' own tracing lists counters, beside its timer; `None` if it was not asked, or
    /// refused to say.
    fn lists_counters(&self) -> Option<bool> {
        let sources = self.tracing.as_ref()?.sources.as_ref().ok()?;
        Some(sources.iter().any(|source| !source.is_timer()))
    }

    pub const fn answered(&self) -> bool {
        matches!(self.driver, Driver::Answers(_))
    }
}

/// Runs all checks, in the order in which a measurement depends on them.
pub fn examine(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![driver(facts)];
    let tracing = facts.tracing.as_ref();
    checks.extend(tracing.map(|tracing| tracing::check(tracing, facts)));
    if let Some(system) = &facts.system {
        checks.extend(system::checks(system, facts.answered(), facts.can_trace()));
    }
    if let Some(described) = &facts.described {
        checks.extend(machine::checks(facts, described));
    }
    checks
}

fn driver(facts: &Facts) -> Check {
    match &facts.driver {
        Driver::Answers(name) => Check::new("driver", format!("{name} answers")),
        Driver::NotTried => Check::new("driver", "not tried: another backend was named"),
        Driver::Silent(failure) if facts.can_trace() => Check::new("driver", &failure.message).warning(
            "Windows' own tracing measures instead. It has the events that Windows lists, but no \
             vendors' events, no mispredictions, and no user or kernel mode alone.",
            &failure.hint,
        ),
        Driver::Silent(failure) => Check::new("driver", &failure.message)
            .problem("Nothing can be measured.", &failure.hint)
            .code(failure.code),
    }
}

#[cfg(test)]
mod tests;
