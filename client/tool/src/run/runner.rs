//! What runs during a measurement: a workload, a program, or just time.

use crate::cli::args::Work;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::number::thousands;
use crate::run::default_workload::default_workload;
use crate::run::image;
use crate::run::program::{Launch, Outlived, Pin, Program, STATUS_CONTROL_C_EXIT};
use crate::select::event_set::EventSet;
use crate::select::refusal::no_processor;
use crate::select::time::{NANOSECONDS_MAX, positive};
use crate::target::backend::Backend;
use crate::target::context::Context;
use halprof_measure::did_you_mean;
use halprof_measure::selection::format_processors;
use halprof_profile::file::Module;
use schemars::JsonSchema;
use serde::Serialize;
use sim::event::Event;
use sim::workload::{self, Workload, WorkloadError};
#[cfg(unix)]
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};
use std::time::{Duration, Instant};

/// What runs during a measurement, and for how long.
pub(crate) struct Runner {
    what: What,
    limit: Option<u64>,
    kill_children: bool,
    /// The exit status of the program, or the first one that is not 0 if it ran several times;
    /// `None` until it has ended by itself.
    status: Option<u32>,
    /// Processes that it started and that outlived it.
    outlived: Vec<Outlived>,
}

/// The scope of a measurement.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct Scope {
    /// The processors whose events are counted or sampled, for all programs.
    processors: Vec<u32>,
    /// The program that ran in the meantime, as it was called; null if the time did not depend on
    /// one.
    program: Option<String>,
    /// The program was restricted to these processors.
    pinned: bool,
    /// The program's exit status; null if it did not end by itself.
    exit_status: Option<u32>,
    /// Processes that it started, that outlived it, and that were left alone.
    outlived: Vec<Outlived>,
    #[serde(skip)]
    all: u32,
    #[serde(skip)]
    modelled: bool,
}

/// What a modelled machine runs.
pub(crate) struct Planned {
    pub(crate) workload: Box<Workload>,
    /// The real module whose code it runs.
    pub(crate) image: Option<Module>,
}

enum What {
    /// A workload on a modelled machine.
    Workload(Planned),
    /// A program, or just time.
    Real { launch: Launch, running: Option<Running> },
}

struct Running {
    since: Instant,
    program: Option<Program>,
}

/// How long a program may take to end by itself after Ctrl-C, which reaches it as well as halprof.
const GRACE: Duration = Duration::from_secs(2);
/// How often Ctrl-C is checked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long after a program halprof may learn of the same Ctrl-C.
const AFTER: Duration = Duration::from_millis(250);
/// The most events of one kind on a processor that a model samples, and the most nanoseconds: it
/// takes each interrupt for itself.
const SAMPLED_MAX: u64 = 1_000_000_000_000;
/// How many times as long as asked a run may become.
pub(crate) const LONGER: u64 = 10;
/// The exit status after a second Ctrl-C.
const ENDED_BY_INTERRUPT: i32 = 130;

impl Runner {
    /// Prepares what the options name, if this machine can run it. `own_output`: standard output is
    /// for the result, and what a program prints goes to standard error.
    pub(crate) fn new(
        work: &Work,
        ctx: &mut Context,
        event_set: &EventSet,
        own_output: bool,
    ) -> Result<Self> {
        let limit = |value| positive("--duration", value, 1e9, NANOSECONDS_MAX);
        let limit = work.duration.map(limit).transpose()?;
        let modelled = ctx.connection.transport().model().is_some();
        let what = match modelled {
            true => modelled_work(work, event_set, ctx)?,
            false if work.workload.is_some() => return Err(no_workload()),
            false => What::Real {
                launch: Launch {
                    command: work.program.clone(),
                    output_to_error: own_output,
                    pin: pin(work, event_set)?,
                    environment: Vec::new(),
                },
                running: None,
            },
        };
        watch_for_interrupt();
        Ok(Self {
            what,
            limit,
            kill_children: work.kill_children,
            status: None,
            outlived: Vec::new(),
        })
    }

    /// What a modelled machine runs; `None` on a real one.
    pub(crate) fn planned(&self) -> Option<&Planned> {
        match &self.what {
            What::Workload(planned) => Some(planned),
            What::Real { .. } => None,
        }
    }

    /// Refuses a workload whose sampling would not end.
    pub(crate) fn check_can_be_sampled(&self) -> Result<()> {
        let Some(Planned { workload, .. }) = self.planned() else {
            return Ok(());
        };
        let end = workload.length();
        let until = self.limit.and_then(|limit| workload.position_at(limit));
        let until = until.unwrap_or(end);
        if until <= SAMPLED_MAX && workload.time_at(until) <= SAMPLED_MAX {
            return Ok(());
        }
        let most = thousands(SAMPLED_MAX);
        Err(Error::usage(
            format!(
                "the workload has {} events of one kind on a processor, and a model samples at most {most}",
                thousands(until)
            ),
            "Give smaller amounts or a shorter `--duration`; `stat` counts any amount.",
        ))
    }

    /// Whether it is a program.
    pub(crate) const fn runs_program(&self) -> bool {
        matches!(&self.what, What::Real { launch, .. } if !launch.command.is_empty())
    }

    /// Adds a variable to the program's environment.
    pub(crate) fn lend(&mut self, variable: (&'static str, String)) {
        if let What::Real { launch, .. } = &mut self.what {
            launch.environment.push(variable);
        }
    }

    /// Prepares a program so far that only its first instruction is still to come when measuring
    /// begins.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        if let What::Real { launch, running } = &mut self.what {
            let program = (!launch.command.is_empty()).then(|| Program::suspended(launch));
            *running = Some(Running { since: Instant::now(), program: program.transpose()? });
        }
        Ok(())
    }

    /// Starts it.
    pub(crate) fn begin(&mut self, place: &mut Backend) -> Result<()> {
        match (&mut self.what, place.model()) {
            (What::Workload(planned), Some(model)) => model.begin(&planned.workload),
            (What::Real { running: Some(running), .. }, _) => running.begin()?,
            _ => {}
        }
        Ok(())
    }

    /// Lets it run for at most `nanoseconds`; returns whether there is more to run.
    pub(crate) fn step(&mut self, place: &mut Backend, nanoseconds: u64) -> Result<bool> {
        let left = match self.limit {
            Some(limit) => limit.saturating_sub(self.elapsed_ns(place)),
            None => u64::MAX,
        };
        let nanoseconds = nanoseconds.min(left);
        let more = match (&mut self.what, place.model()) {
            (What::Workload(_), Some(model)) => model.advance(nanoseconds)?,
            (What::Real { running: Some(running), .. }, _) => running.wait(nanoseconds)?,
            _ => false,
        };
        Ok(more && nanoseconds < left && !interrupted())
    }

    /// How long it has been running: in modelled time on a modelled machine.
    pub(crate) fn elapsed_ns(&self, place: &mut Backend) -> u64 {
        match (&self.what, place.model()) {
            (What::Workload(_), Some(model)) => model.elapsed_ns(),
            (What::Real { running: Some(running), .. }, _) => {
                u64::try_from(running.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
            }
            _ => 0,
        }
    }

    /// Whether its time is modelled, so that a step may take any amount of it.
    pub(crate) const fn is_modelled(&self) -> bool {
        matches!(self.what, What::Workload(_))
    }

    /// Whether it ends without `--duration` or Ctrl-C.
    pub(crate) const fn ends(&self) -> bool {
        match &self.what {
            What::Workload(_) => true,
            What::Real { launch, .. } => !launch.command.is_empty(),
        }
    }

    /// How long the next run will take, judging from one that took `elapsed_ns`; `None` if the user
    /// will end it.
    pub(crate) const fn planned_ns(&self, elapsed_ns: u64) -> Option<u64> {
        if self.ends() { Some(elapsed_ns) } else { self.limit }
    }

    /// The `--duration`.
    pub(crate) const fn limit_ns(&self) -> Option<u64> {
        self.limit
    }

    /// Lengthens the `--duration` to `longer_ns`, but at most to [`LONGER`] times what was asked, and
    /// to the end of a workload; returns the new one. `None` if it stays, or if a program runs.
    pub(crate) fn lengthen(&mut self, longer_ns: u64) -> Option<u64> {
        let asked = self.limit?;
        let most = match &self.what {
            What::Workload(Planned { workload, .. }) => {
                workload.time_at(workload.length()).min(SAMPLED_MAX)
            }
            What::Real { launch, .. } if launch.command.is_empty() => u64::MAX,
            What::Real { .. } => asked,
        };
        let most = asked.saturating_mul(LONGER).min(most);
        let longer = longer_ns.min(most);
        if longer <= asked {
            return None;
        }
        self.limit = Some(longer);
        self.limit
    }

    /// How long it will take, if known.
    pub(crate) fn length_ns(&self) -> Option<u64> {
        let length = match &self.what {
            // Modelled processors run one instruction, or one cycle, per nanosecond.
            What::Workload(planned) => {
                let amount = |event| planned.workload.amount(event);
                Some(amount(Event::Instructions).max(amount(Event::Cycles)))
            }
            What::Real { .. } => None,
        };
        self.limit.into_iter().chain(length).min()
    }

    /// Ends the run. A program that still runs is ended with all that it has started; after Ctrl-C
    /// only if it does not end by itself. Processes that outlive a program are left alone, except
    /// after Ctrl-C and with `--kill-children`.
    pub(crate) fn end(&mut self) -> Result<()> {
        let What::Real { running: Some(running), .. } = &mut self.what else {
            return Ok(());
        };
        let Some(program) = &mut running.program else {
            return Ok(());
        };
        let grace = if interrupted() { GRACE } else { Duration::ZERO };
        if !program.wait(grace)? || interrupted() || self.kill_children {
            program.end();
        } else {
            self.outlived.extend(program.outlived());
            program.leave_others();
        }
        if self.status.unwrap_or(0) == 0 {
            self.status = program.status();
        }
        Ok(())
    }

    /// The exit status of the program that was run, or 0.
    pub(crate) fn program_status(&self) -> u32 {
        self.status.unwrap_or(0)
    }

    /// The scope of the measurement.
    pub(crate) fn scope(&self, event_set: &EventSet) -> Scope {
        let launch = match &self.what {
            What::Workload(_) => None,
            What::Real { launch, .. } => Some(launch),
        };
        let program = launch.and_then(|launch| launch.command.first());
        Scope {
            processors: event_set.selected().map(|one| one.index).collect(),
            program: program.map(|program| program.to_string_lossy().into_owned()),
            pinned: launch.is_some_and(|launch| launch.pin.is_some()),
            exit_status: self.status,
            outlived: self.outlived.clone(),
            all: event_set.processor_count(),
            modelled: self.is_modelled(),
        }
    }
}

impl Scope {
    /// The scope in one line; `None` for a modelled machine, which runs a workload and no programs.
    pub(crate) fn text(&self) -> Option<String> {
        if self.modelled {
            return None;
        }
        let some = format_processors(self.processors.iter().copied());
        let mut text = if self.processors.len() == self.all as usize {
            format!("{}, all programs", counted(self.all, "processor"))
        } else {
            format!("processors {some} of {}, all programs", self.all)
        };
        if let Some(program) = &self.program {
            text += &format!(", while `{program}` ran");
            if self.pinned {
                text += &format!(" on {some}");
            }
            text += &match self.exit_status {
                Some(status) => format!(" (exit {status})"),
                None => " (ended by halprof)".to_owned(),
            };
        }
        Some(text)
    }

    /// One line about the processes that the program left running; `None` if there are none.
    pub(crate) fn left(&self) -> Option<String> {
        let one = |process: &Outlived| match &process.name {
            Some(name) => format!("{name} ({})", process.id),
            None => process.id.to_string(),
        };
        let left: Vec<String> = self.outlived.iter().map(one).collect();
        (!left.is_empty()).then(|| {
            format!(
                "still running, started by the program: {}; `--kill-children` ends what outlives it",
                left.join(", ")
            )
        })
    }
}

fn counted(number: u32, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// The processors that `--pin` restricts a program to.
fn pin(work: &Work, event_set: &EventSet) -> Result<Option<Pin>> {
    if !work.pin {
        return Ok(None);
    }
    if event_set.setup.processors.is_empty() {
        return Err(Error::usage(
            "`--pin` needs the processors to pin to",
            "Choose them with `-C`, e.g. `-C 2-3 --pin`.",
        ));
    }
    Ok(Some(Pin::to(event_set.selected())?))
}

/// The error for `--workload` on a machine that is no model.
pub(crate) fn no_workload() -> Error {
    Error::unavailable(
        "only a modelled machine runs a `--workload`",
        "Name a model with `--machine`.",
    )
}

fn modelled_work(work: &Work, event_set: &EventSet, ctx: &mut Context) -> Result<What> {
    if !work.program.is_empty() {
        return Err(Error::unavailable(
            "a modelled machine runs no programs",
            "Describe its load with `--workload`, or measure with `--machine driver` on Windows.",
        ));
    }
    let planned = planned(work.workload.as_deref(), event_set, ctx)?;
    Ok(What::Workload(planned))
}

/// The workload that `--workload` describes, or the default.
pub(crate) fn planned(
    text: Option<&str>,
    event_set: &EventSet,
    ctx: &mut Context,
) -> Result<Planned> {
    let Some(text) = text else {
        let (workload, image) = (Box::new(default_workload(event_set)?), None);
        return Ok(Planned { workload, image });
    };
    let (image, rest) = image::Keys::take(text)?;
    let parsed = match workload::parse(&rest) {
        Err(WorkloadError::UnknownKey { .. }) => {
            let catalog = ctx.catalog(false)?;
            workload::parse_with(&rest, &|name| catalog.modelled(name, None))
        }
        parsed => parsed,
    };
    let mut workload = parsed.map_err(|error| {
        let hint = match &error {
            WorkloadError::UnknownKey { key } => {
                let meant = did_you_mean(key, workload::keys().chain(image::KEYS));
                let meant = meant.map_or_else(String::new, |meant| meant + " ");
                format!("{meant}{} {}.", error.hint(), image::KEYS.join(" "))
            }
            _ => format!("{}.", error.hint()),
        };
        Error::usage(format!("`--workload`: {error}"), hint)
    })?;
    let processors = event_set.processor_count();
    match workload.highest_processor() {
        Some(highest) if highest >= processors => Err(no_processor(highest, processors.into())),
        _ => {
            let image = image.apply(&mut workload)?;
            let workload = Box::new(workload);
            Ok(Planned { workload, image })
        }
    }
}

impl Running {
    fn begin(&mut self) -> Result<()> {
        self.since = Instant::now();
        if let Some(program) = &mut self.program {
            program.resume()?;
        }
        Ok(())
    }

    /// Waits for the given time, or until the program ends; returns whether it still runs.
    fn wait(&mut self, nanoseconds: u64) -> Result<bool> {
        let end = Instant::now() + Duration::from_nanos(nanoseconds.min(1 << 60));
        while !interrupted() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            let slice = left.min(LOOK);
            let Some(program) = &mut self.program else {
                std::thread::sleep(slice);
                continue;
            };
            if program.wait(slice)? {
                if program.status() == Some(STATUS_CONTROL_C_EXIT) {
                    await_interrupt();
                }
                return Ok(false);
            }
        }
        Ok(false)
    }
}

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Makes Ctrl-C end the measurement and not the process: what was counted so far is printed. A
/// second Ctrl-C ends the process at once.
pub(crate) fn watch_for_interrupt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // If no handler can be installed, Ctrl-C ends the process, and closing its handle ends the
        // session.
        let _ = handle_interrupts(&INTERRUPTED);
    });
}

#[cfg(windows)]
fn handle_interrupts(interrupted: &'static AtomicBool) -> std::result::Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        if interrupted.swap(true, Ordering::Relaxed) {
            std::process::exit(ENDED_BY_INTERRUPT);
        }
    })
}

/// The handler itself sets the flag: a thread that is told by the handler could run after the end of
/// a program that the same Ctrl-C has ended, and the measurement would not say that it was
/// interrupted.
#[cfg(unix)]
fn handle_interrupts(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::{consts, flag};
    for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
        let flag = || Arc::clone(interrupted);
        flag::register_conditional_shutdown(signal, ENDED_BY_INTERRUPT, flag())?;
        flag::register(signal, flag())?;
    }
    Ok(())
}

/// Waits for the Ctrl-C that has ended a program: Windows calls the handler of each process in a
/// thread of its own, and halprof's may run later than the end of the program.
fn await_interrupt() {
    let since = Instant::now();
    while !interrupted() && since.elapsed() < AFTER {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the user has asked to stop.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
