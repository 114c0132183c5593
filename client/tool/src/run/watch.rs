//! Counts continuously in real time, as `top` does.
//!
//! A modelled machine runs its workload repeatedly, in step with the real clock. Rates are over
//! modelled time, so they stay correct if the model cannot keep up.

use crate::cli::args;
use crate::cli::args::Watching;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::run::runner::{Planned, no_workload, planned, watch_for_interrupt};
use crate::select::event_set::{EventSet, Purpose};
use crate::select::time::slice_length;
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::{Connection, ModelledMachine, Session};
use std::time::{Duration, Instant};

/// The bounds of `--interval`: how often the counters may be read.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(3600);
/// How much modelled time a model is asked to run at once.
const MODELLED_STEP: Duration = Duration::from_millis(100);
/// A model that takes longer than this for one reading has fallen behind, and stays behind.
const PATIENCE: Duration = Duration::from_millis(250);

/// What is watched.
pub(crate) struct Watch {
    pub(crate) event_set: EventSet,
    pub(crate) interval: Duration,
    pub(crate) clock: Clock,
    /// Ticks of the time-stamp counter per second.
    pub(crate) frequency: u64,
}

/// The time that passes in the meantime.
pub(crate) struct Clock {
    began: Instant,
    model: Option<Pace>,
}

/// The time of a modelled machine, which follows real time.
struct Pace {
    planned: Planned,
    /// How much of the real time it has followed.
    passed: Duration,
    /// How long it has run.
    ran: Duration,
}

impl Watch {
    /// Watches what the options name, by default what is `counted` or what is sampled, and starts the
    /// machine's time.
    pub(crate) fn new(
        selection: &args::Selection,
        options: &Watching,
        ctx: &mut Context,
        counted: bool,
    ) -> Result<Self> {
        let interval = interval(options.interval)?;
        let purpose = if counted { Purpose::Count } else { Purpose::Sample };
        let mut event_set = EventSet::new(selection, ctx, purpose)?;
        event_set.setup.slice_100ns = slice_length(options.rotate)?;
        let frequency = ctx.machine.frequency();
        let workload = options.workload.as_deref();
        let is_model = ctx.connection.transport().model().is_some();
        let planned = is_model.then(|| planned(workload, &event_set, ctx));
        let planned = planned.transpose()?;
        let model = match ctx.connection.transport().model().zip(planned) {
            Some((model, planned)) => Some(Pace::begin(planned, model)),
            None if workload.is_some() => return Err(no_workload()),
            None => None,
        };
        watch_for_interrupt();
        Ok(Self { event_set, interval, clock: Clock { began: Instant::now(), model }, frequency })
    }
}

fn interval(milliseconds: f64) -> Result<Duration> {
    let interval = Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default();
    if (SHORTEST..=LONGEST).contains(&interval) {
        return Ok(interval);
    }
    let (least, most) = (SHORTEST.as_millis(), LONGEST.as_millis());
    Err(Error::usage(
        format!("`--interval {milliseconds}` is out of range"),
        format!("It is a number of milliseconds from {least} to {most}."),
    ))
}

/// Starts counting the chosen sources. The session ends when it is dropped.
pub(crate) fn start<'a>(
    connection: &'a mut Connection<Backend>,
    event_set: &EventSet,
) -> Result<Session<'a, Backend>> {
    let named = |error| event_set.explain(error);
    let approximate = event_set.setup.approximate;
    let mut session = Session::open(connection, event_set.sees_kernel(), approximate)?;
    session.configure(&event_set.setup(), false).map_err(named)?;
    session.start().map_err(named)?;
    Ok(session)
}

impl Clock {
    /// How long the machine has been watched.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How long the machine has run: in modelled time on a modelled machine.
    pub(crate) fn ran(&self) -> Duration {
        let model = self.model.as_ref();
        model.map_or_else(|| self.elapsed(), |pace| pace.ran)
    }

    /// What a modelled machine runs; `None` on a real one.
    pub(crate) fn planned(&self) -> Option<&Planned> {
        self.model.as_ref().map(|pace| &pace.planned)
    }

    /// Lets the machine run for some time, which a model does at once.
    pub(crate) fn pass(&mut self, machine: &mut Backend, time: Duration) -> Result<()> {
        let Some((pace, model)) = self.model.as_mut().zip(machine.model()) else {
            std::thread::sleep(time);
            return Ok(());
        };
        pace.run(model, time)
    }

    /// Lets a modelled machine catch up with real time.
    pub(crate) fn follow(&mut self, machine: &mut Backend) -> Result<()> {
        match (&mut self.model, machine.model()) {
            (Some(pace), Some(model)) => pace.follow(model, self.began.elapsed()),
            _ => Ok(()),
        }
    }
}

impl Pace {
    fn begin(planned: Planned, model: &mut dyn ModelledMachine) -> Self {
        model.begin(&planned.workload);
        Self { planned, passed: Duration::ZERO, ran: Duration::ZERO }
    }

    fn follow(&mut self, model: &mut dyn ModelledMachine, real: Duration) -> Result<()> {
        let patient_until = Instant::now() + PATIENCE;
        while self.passed < real {
            if Instant::now() > patient_until {
                self.passed = real;
                break;
            }
            self.step(model, real.saturating_sub(self.passed))?;
        }
        Ok(())
    }

    fn run(&mut self, model: &mut dyn ModelledMachine, time: Duration) -> Result<()> {
        let end = self.ran + time;
        while self.ran < end {
            self.step(model, end.saturating_sub(self.ran))?;
        }
        Ok(())
    }

    fn step(&mut self, model: &mut dyn ModelledMachine, most: Duration) -> Result<()> {
        let step = MODELLED_STEP.min(most);
        let before = model.elapsed_ns();
        let more = model.advance(u64::try_from(step.as_nanos()).unwrap_or(u64::MAX))?;
        let ran = Duration::from_nanos(model.elapsed_ns().saturating_sub(before));
        if !more {
            model.begin(&self.planned.workload);
        }
        // An empty workload takes no time.
        let ran = if ran.is_zero() { step } else { ran };
        self.passed += ran;
        self.ran += ran;
        Ok(())
    }
}
