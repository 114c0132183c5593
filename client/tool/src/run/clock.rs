//! The time of a measurement: real, or that of a modelled machine.

use crate::model::work::ModelledWork;
use crate::output::error::Result;
use crate::target::backend::Model;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The first step of modelled time.
const FIRST_STEP_NS: u64 = 1_000_000_000;
/// Later steps grow and shrink so that each takes about this long in real time: then Ctrl-C is
/// noticed quickly, and long workloads still finish.
const STEP_TIME: Duration = Duration::from_millis(50);

/// The time that passes while something is measured.
pub(crate) enum Clock {
    Real { began: Instant },
    Modelled(Box<ModelledClock>),
}

/// How the time of a modelled machine passes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Once, as fast as it can be computed.
    Once,
    /// As fast as it can be computed; the workload begins again when it ends.
    Repeated,
    /// The same in step with real time, by which it is scheduled too. A model that cannot keep up
    /// stays behind.
    Live,
}

/// The time of a modelled machine.
pub(crate) struct ModelledClock {
    pub(crate) model: Model,
    pub(crate) work: ModelledWork,
    pace: Pace,
    began: Instant,
    /// The time of the runs of the workload that have ended.
    done_ns: u64,
    /// How many have ended.
    runs: u64,
    step_ns: u64,
}

impl Clock {
    pub(crate) fn real() -> Self {
        Self::Real { began: Instant::now() }
    }

    pub(crate) fn modelled(model: Model, work: ModelledWork, pace: Pace) -> Self {
        let (began, done_ns, runs, step_ns) = (Instant::now(), 0, 0, FIRST_STEP_NS);
        Self::Modelled(Box::new(ModelledClock { model, work, pace, began, done_ns, runs, step_ns }))
    }

    /// Begins at 0; a modelled machine begins its workload.
    pub(crate) fn begin(&mut self) {
        match self {
            Self::Real { began } => *began = Instant::now(),
            Self::Modelled(clock) => {
                clock.began = Instant::now();
                (clock.done_ns, clock.runs) = (0, 0);
                clock.model.begin_program(&clock.work.workload, clock.work.program());
            }
        }
    }

    pub(crate) fn elapsed_ns(&self) -> u64 {
        match self {
            Self::Real { began } => since(*began),
            Self::Modelled(clock) if clock.pace == Pace::Live => since(clock.began),
            Self::Modelled(clock) => clock.ran_ns(),
        }
    }
}

fn since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl ModelledClock {
    /// Whether it ends with its workload.
    pub(crate) fn ends(&self) -> bool {
        self.pace == Pace::Once
    }

    /// How many runs of the workload have ended.
    pub(crate) const fn runs(&self) -> u64 {
        self.runs
    }

    /// How long the machine has run.
    fn ran_ns(&self) -> u64 {
        self.done_ns.saturating_add(self.model.elapsed_ns())
    }

    /// Lets the machine run for at most `nanoseconds`, and for about [`STEP_TIME`] of real time;
    /// returns whether there is more to run.
    pub(crate) fn advance(&mut self, nanoseconds: u64) -> Result<bool> {
        let began = Instant::now();
        let end_ns = self.ran_ns().saturating_add(nanoseconds);
        let mut left_ns = nanoseconds;
        while left_ns != 0 && began.elapsed() < STEP_TIME {
            let step_ns = self.step_ns.min(left_ns);
            let step_began = Instant::now();
            let more = self.model.advance(step_ns)?;
            self.step_ns = if step_began.elapsed() < STEP_TIME {
                self.step_ns.saturating_mul(2)
            } else {
                (self.step_ns / 2).max(1)
            };
            self.runs += u64::from(!more);
            if !more && self.pace == Pace::Once {
                return Ok(false);
            }
            if !more {
                self.begin_again(step_ns);
            }
            left_ns = end_ns.saturating_sub(self.ran_ns());
        }
        if self.pace == Pace::Live {
            sleep(Duration::from_nanos(nanoseconds).saturating_sub(began.elapsed()));
        }
        Ok(true)
    }

    fn begin_again(&mut self, step_ns: u64) {
        let ran_ns = self.model.elapsed_ns();
        // An empty workload takes no time.
        let ran_ns = if ran_ns == 0 { step_ns } else { ran_ns };
        self.done_ns = self.done_ns.saturating_add(ran_ns);
        self.model.begin_program(&self.work.workload, self.work.program());
    }
}
