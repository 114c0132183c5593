//! What runs during a measurement: a workload, a program, or just time.
//!
//! Every command that measures runs the same way:
//!
//! ```text
//! runner.prepare()?;                       // a program is there, suspended
//! session.start()?;
//! runner.begin()?;
//! runner.run(every, |tick| { ... })?;      // drains, readings, progress; returns the time taken
//! let counts = session.stop_and_read()?;
//! runner.end()?;                           // the program and what it started end, or are left
//! ```

use crate::cli::args::Work;
use crate::model::work::{ModelledWork, no_workload};
use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use crate::run::clock::{Clock, Pace};
use crate::run::interrupt::{await_interrupt, interrupted, watch_for_interrupt};
use crate::run::program::{Followed, Launch, LeftRunning, Pin, Program, STATUS_CONTROL_C_EXIT};
use crate::run::scope::{Scope, WorkloadRuns};
use crate::run::system::{self, System};
use crate::select::event_set::EventSet;
use crate::select::time::{NANOSECONDS_MAX, positive};
use crate::target::context::Context;
use halprof_measure::processes::ProcessSource;
use sim::cpu::event::Event;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What runs during a measurement, and for how long.
pub(crate) struct Runner {
    clock: Clock,
    /// The program to run; none if its command is empty.
    launch: Launch,
    /// The program, from when it is prepared.
    program: Option<Program>,
    /// The file of the program, from when it has run.
    file: Option<PathBuf>,
    /// A process that ran before, and with whose end the measurement ends.
    followed: Option<Followed>,
    limit_ns: Option<u64>,
    kill_children: bool,
    /// The exit status of the program, or the first one that is not 0 if it ran several times;
    /// `None` until it has ended by itself.
    exit_status: Option<u32>,
    left_running: Vec<LeftRunning>,
}

/// How often a run is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Every {
    /// The longest time between two looks.
    step_ns: u64,
    /// The interval between readings. They stay on its grid, and those that are already late are
    /// skipped.
    interval_ns: Option<u64>,
}

/// A look at a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tick {
    pub(crate) elapsed_ns: u64,
    /// Whether a reading is due.
    pub(crate) is_due: bool,
    /// The readings since the one before that were due, and came too late.
    pub(crate) missed: u64,
}

/// How long a program may take to end by itself after Ctrl-C, which reaches it as well as halprof.
const GRACE: Duration = Duration::from_secs(2);
/// How often a real machine is looked at, and Ctrl-C is checked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long a session that has started may take until it traces on every processor. No document says
/// how long; others wait as long.
const SETTLES: Duration = Duration::from_millis(50);
/// The most events of one type on a processor that a model samples, and the most nanoseconds: it
/// takes each interrupt for itself.
const SAMPLED_MAX: u64 = 1_000_000_000_000;
impl Every {
    /// Looks only as often as Ctrl-C is checked for.
    pub(crate) const LOOK: Self = Self { step_ns: u64::MAX, interval_ns: None };

    /// Looks at least this often.
    pub(crate) const fn step(step_ns: u64) -> Self {
        Self { step_ns, interval_ns: None }
    }

    /// The same with a reading at each interval.
    pub(crate) const fn reading(self, interval_ns: Option<u64>) -> Self {
        Self { interval_ns, ..self }
    }

    /// When the next reading is due after this time.
    fn due_after(self, elapsed_ns: u64) -> Option<u64> {
        let interval_ns = self.interval_ns?;
        Some((elapsed_ns / interval_ns).saturating_add(1).saturating_mul(interval_ns))
    }

    fn tick(self, elapsed_ns: u64, due_ns: Option<u64>) -> Tick {
        let late_ns = due_ns.and_then(|due_ns| elapsed_ns.checked_sub(due_ns));
        let missed =
            late_ns.zip(self.interval_ns).map(|(late_ns, interval_ns)| late_ns / interval_ns);
        Tick { elapsed_ns, is_due: missed.is_some(), missed: missed.unwrap_or(0) }
    }
}

impl Runner {
    /// What the options name, if this machine can run it. `output_to_error`: standard output is for
    /// the result, and what a program prints goes to standard error.
    pub(crate) fn new(
        work: &Work,
        ctx: &mut Context,
        event_set: &EventSet,
        output_to_error: bool,
    ) -> Result<Self> {
        let clock = match ctx.model.clone() {
            Some(_) if !work.program.is_empty() => return Err(no_programs()),
            Some(model) => {
                let modelled = ModelledWork::parse(work.workload.as_deref(), event_set, ctx)?;
                // A workload that was asked for is exact.
                let lasts = modelled.is_default && work.duration.is_some();
                Clock::modelled(model, modelled, if lasts { Pace::Repeated } else { Pace::Once })
            }
            None if work.workload.is_some() => return Err(no_workload()),
            None => Clock::real(),
        };
        let limit_ns = duration(work.duration)?;
        let mut runner = Self::of_program(&work.program, output_to_error);
        runner.launch.pin = work.pin.then(|| Pin::to(event_set.selected())).transpose()?;
        Ok(Self { clock, limit_ns, kill_children: work.kill_children, ..runner })
    }

    /// The time that a machine is watched, until the limit or until the user ends it. A model runs its workload over
    /// and over, if `live` in step with real time.
    pub(crate) fn watching(
        workload: Option<&str>,
        limit_ns: Option<u64>,
        live: bool,
        ctx: &mut Context,
        event_set: &EventSet,
    ) -> Result<Self> {
        let clock = match ctx.model.clone() {
            Some(model) => {
                let work = ModelledWork::parse(workload, event_set, ctx)?;
                Clock::modelled(model, work, if live { Pace::Live } else { Pace::Repeated })
            }
            None if workload.is_some() => return Err(no_workload()),
            None => Clock::real(),
        };
        Ok(Self { clock, limit_ns, ..Self::of_program(&[], false) })
    }

    /// A program that runs here, whatever the machine; without a command just time.
    pub(crate) fn of_program(command: &[OsString], output_to_error: bool) -> Self {
        watch_for_interrupt();
        Self {
            clock: Clock::real(),
            launch: Launch { command: command.to_vec(), output_to_error, ..Launch::default() },
            program: None,
            file: None,
            followed: None,
            limit_ns: None,
            kill_children: false,
            exit_status: None,
            left_running: Vec::new(),
        }
    }

    /// Lets the run end when this process ends. A model's processes are those of its workload, with
    /// which it ends.
    pub(crate) fn follow(&mut self, process: u32) -> Result<()> {
        if !self.is_modelled() {
            self.followed = Some(Followed::open(process)?);
        }
        Ok(())
    }

    /// What a modelled machine runs; `None` on a real one.
    const fn modelled_work(&self) -> Option<&ModelledWork> {
        match &self.clock {
            Clock::Modelled(clock) => Some(&clock.work),
            Clock::Real { .. } => None,
        }
    }

    /// The processes and modules of the machine.
    pub(crate) fn system(&self) -> Box<dyn System> {
        match &self.clock {
            Clock::Modelled(clock) => system::modelled(&clock.work, &clock.model.modules()),
            Clock::Real { .. } => system::windows(),
        }
    }

    /// What reports its processes and images as they come and go.
    pub(crate) fn process_source(&self) -> Option<Box<dyn ProcessSource>> {
        match &self.clock {
            Clock::Modelled(clock) => Some(Box::new(clock.model.clone())),
            Clock::Real { .. } => system::windows_processes(),
        }
    }

    /// Refuses a workload whose sampling would not end.
    pub(crate) fn check_can_be_sampled(&self) -> Result<()> {
        let Some(ModelledWork { workload, .. }) = self.modelled_work() else {
            return Ok(());
        };
        let until = self.limit_ns.and_then(|limit_ns| workload.position_at(limit_ns));
        let until = until.unwrap_or_else(|| workload.length());
        let time_ns = match self.limit_ns {
            Some(limit_ns) if !self.ends() => limit_ns,
            _ => workload.time_at(until),
        };
        if until <= SAMPLED_MAX && time_ns <= SAMPLED_MAX {
            return Ok(());
        }
        Err(Error::usage(
            format!(
                "a model samples at most {} events of one kind on a processor; the workload has {}",
                thousands(SAMPLED_MAX),
                thousands(until)
            ),
            "Give smaller amounts or a shorter `--duration`; `stat` counts any amount.",
        ))
    }

    pub(crate) const fn runs_program(&self) -> bool {
        !self.launch.command.is_empty()
    }

    /// Adds a variable to the program's environment.
    pub(crate) fn add_variable(&mut self, variable: (&'static str, String)) {
        self.launch.environment.push(variable);
    }

    /// Prepares a program so far that only its first instruction is still to come when measuring
    /// begins.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        self.program = Program::suspended(&self.launch)?;
        self.note_file();
        Ok(())
    }

    /// Waits until a session of Windows' own tracing that has started traces on every processor.
    pub(crate) fn settle(&mut self) {
        if !self.is_modelled() {
            sleep(SETTLES);
        }
    }

    /// Elsewhere than on Windows there is no process before the program runs.
    fn note_file(&mut self) {
        if self.file.is_none() {
            self.file = self.program.as_ref().and_then(Program::file);
        }
    }

    pub(crate) fn begin(&mut self) -> Result<()> {
        self.clock.begin();
        self.program.as_mut().map_or(Ok(()), Program::resume)?;
        self.note_file();
        Ok(())
    }

    /// Lets it run to its end, or until `look` breaks; returns how long it ran. `look` is called at
    /// the start, and then as often as `every` says, but not at the end.
    pub(crate) fn run(
        &mut self,
        every: Every,
        mut look: impl FnMut(Tick) -> Result<ControlFlow<()>>,
    ) -> Result<u64> {
        let mut tick = Tick::default();
        let mut due_ns = every.due_after(0);
        while look(tick)?.is_continue() {
            let left_ns = due_ns.map_or(u64::MAX, |due_ns| due_ns.saturating_sub(tick.elapsed_ns));
            if !self.step(left_ns.min(every.step_ns))? {
                break;
            }
            tick = every.tick(self.elapsed_ns(), due_ns);
            if tick.is_due {
                due_ns = every.due_after(tick.elapsed_ns);
            }
        }
        Ok(self.elapsed_ns())
    }

    /// Lets it run for at most `nanoseconds`, and for about [`LOOK`] of real time; returns whether
    /// there is more to run.
    pub(crate) fn step(&mut self, nanoseconds: u64) -> Result<bool> {
        let elapsed_ns = self.elapsed_ns();
        let left_ns = self.limit_ns.map_or(u64::MAX, |limit| limit.saturating_sub(elapsed_ns));
        let step_ns = nanoseconds.min(left_ns);
        let more = match &mut self.clock {
            Clock::Modelled(clock) => clock.advance(step_ns)?,
            Clock::Real { .. } => self.wait(Duration::from_nanos(step_ns).min(LOOK))?,
        };
        let is_over = self.limit_ns.is_some_and(|limit_ns| self.elapsed_ns() >= limit_ns);
        Ok(more && !is_over && !interrupted())
    }

    /// Waits for the given time, or until the program ends; returns whether there is more to run.
    fn wait(&mut self, time: Duration) -> Result<bool> {
        if let Some(followed) = &self.followed {
            return Ok(!followed.wait(time)?);
        }
        let Some(program) = &mut self.program else {
            sleep(time);
            return Ok(true);
        };
        let ended = program.wait(time)?;
        if ended && program.status() == Some(STATUS_CONTROL_C_EXIT) {
            await_interrupt();
        }
        Ok(!ended)
    }

    /// How long it has been running: in modelled time on a modelled machine.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.clock.elapsed_ns()
    }

    /// Whether its time is modelled, so that a step may take any amount of it.
    pub(crate) const fn is_modelled(&self) -> bool {
        matches!(self.clock, Clock::Modelled(_))
    }

    /// Whether it ends without `--duration` or Ctrl-C.
    pub(crate) fn ends(&self) -> bool {
        match &self.clock {
            Clock::Modelled(clock) => clock.ends(),
            Clock::Real { .. } => self.runs_program() || self.followed.is_some(),
        }
    }

    /// How long it will take, if known.
    pub(crate) fn length_ns(&self) -> Option<u64> {
        let length_ns = self.modelled_work().filter(|_| self.ends()).map(|work| {
            // Modelled processors run one instruction, or one cycle, per nanosecond.
            work.workload.amount(Event::Instructions).max(work.workload.amount(Event::Cycles))
        });
        self.limit_ns.into_iter().chain(length_ns).min()
    }

    /// Ends the run. A program that still runs is ended with all that it has started; after Ctrl-C
    /// only if it does not end by itself. Processes that outlive a program are left alone, except
    /// after Ctrl-C and with `--kill-children`.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.end_while(|| Ok(()))
    }

    /// The same, with something to do while the program ends by itself.
    pub(crate) fn end_while(&mut self, mut meanwhile: impl FnMut() -> Result<()>) -> Result<()> {
        let Some(mut program) = self.program.take() else {
            return Ok(());
        };
        let until = Instant::now() + if interrupted() { GRACE } else { Duration::ZERO };
        let mut ended = program.wait(Duration::ZERO)?;
        while !ended && Instant::now() < until {
            ended = program.wait(LOOK)?;
            meanwhile()?;
        }
        if !ended || interrupted() || self.kill_children {
            program.end();
        } else {
            self.left_running.extend(program.left_running());
            program.leave_others();
        }
        if self.exit_status.unwrap_or(0) == 0 {
            self.exit_status = program.status();
        }
        Ok(())
    }

    /// The process identifier of the program, once it runs.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.program.as_ref().and_then(Program::id)
    }

    /// The exit status of the program; `None` if it did not end by itself.
    pub(crate) const fn exit_status(&self) -> Option<u32> {
        self.exit_status
    }

    /// The exit status of the program that was run, or 0.
    pub(crate) fn program_status(&self) -> u32 {
        self.exit_status.unwrap_or(0)
    }

    /// The file of the program that was run; `None` if the system does not say it.
    pub(crate) fn program_file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The program, as it was called.
    pub(crate) fn program_name(&self) -> Option<String> {
        self.launch.command.first().map(|name| name.to_string_lossy().into_owned())
    }

    pub(crate) fn scope(&self, event_set: &EventSet) -> Scope {
        Scope {
            processors: event_set.selected().map(|one| one.index).collect(),
            process: None,
            program: self.program_name(),
            pinned: self.launch.pin.is_some(),
            exit_status: self.exit_status,
            left_running: self.left_running.clone(),
            workload: self.workload_runs(),
            processor_count: event_set.processor_count(),
            modelled: self.is_modelled(),
        }
    }

    /// How often a model's workload ran.
    fn workload_runs(&self) -> Option<WorkloadRuns> {
        let Clock::Modelled(clock) = &self.clock else { return None };
        let elapsed_ns = self.elapsed_ns();
        Some(WorkloadRuns {
            ended: clock.runs(),
            repeats: !clock.ends(),
            is_exact: !clock.work.is_default,
            early_ns: self.limit_ns.filter(|&limit_ns| elapsed_ns < limit_ns && clock.runs() != 0),
            elapsed_ns,
        })
    }
}

/// `--duration` in nanoseconds.
pub(crate) fn duration(seconds: Option<f64>) -> Result<Option<u64>> {
    seconds.map(|value| positive("--duration", value, 1e9, NANOSECONDS_MAX)).transpose()
}

fn no_programs() -> Error {
    Error::unavailable(
        "a modelled machine runs no programs",
        "Describe its load with `--workload`, or measure with `--machine driver` on Windows.",
    )
}
