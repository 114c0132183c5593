//! What runs while it is measured: a workload, a program, or nothing but time.

use crate::On;
use crate::args::Work;
use crate::choice::{NANOSECONDS_MAX, no_processor, positive};
use crate::image;
use crate::place::Place;
use crate::{Error, Result};
use halprof_measure::Connection;
use halprof_measure::catalog::Catalog;
use halprof_profile::recording::Module;
use sim::event::Event;
use sim::workload::{self, Workload, WorkloadError};
use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What runs while it is measured, and for how long.
pub(crate) struct Runner {
    what: What,
    limit: Option<u64>,
    /// The exit status of the program, the first that is not 0 where it was run several times.
    status: u32,
}

enum What {
    /// A workload on a modelled machine.
    Workload {
        workload: Box<Workload>,
        /// The file whose code it runs.
        image: Option<Module>,
    },
    /// A program, or nothing but time.
    Real {
        program: Vec<OsString>,
        running: Option<Running>,
    },
}

struct Running {
    since: Instant,
    child: Option<Child>,
    status: Option<u32>,
}

/// How long a program that was interrupted, as halprof was, may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(5);

impl Runner {
    /// What the options name, if this machine can run it.
    pub(crate) fn new(work: &Work, on: &mut On, processors: u32) -> Result<Self> {
        let limit = |value| positive("--duration", value, 1e9, NANOSECONDS_MAX);
        let limit = work.duration.map(limit).transpose()?;
        let modelled = on.connection.transport().model().is_some();
        let what = match modelled {
            true => modelled_work(work, processors, &mut on.connection)?,
            false if work.workload.is_some() => return Err(no_workload()),
            false => What::Real {
                program: work.program.clone(),
                running: None,
            },
        };
        watch_for_interrupt();
        Ok(Self {
            what,
            limit,
            status: 0,
        })
    }

    /// The addresses that a modelled machine runs its user code from.
    pub(crate) fn user_code(&self) -> Option<(u64, u64)> {
        match &self.what {
            What::Workload { workload, .. } => Some(workload.code()),
            What::Real { .. } => None,
        }
    }

    /// The real file whose code a modelled machine runs.
    pub(crate) fn image(&self) -> Option<&Module> {
        match &self.what {
            What::Workload { image, .. } => image.as_ref(),
            What::Real { .. } => None,
        }
    }

    /// Starts it.
    pub(crate) fn begin(&mut self, place: &mut Place) -> Result<()> {
        match (&mut self.what, place.model()) {
            (What::Workload { workload, .. }, Some(model)) => model.begin(workload),
            (What::Real { program, running }, _) => *running = Some(Running::start(program)?),
            (What::Workload { .. }, None) => {}
        }
        Ok(())
    }

    /// Lets it run on for at most so many nanoseconds; answers whether there is more to run.
    pub(crate) fn step(&mut self, place: &mut Place, nanoseconds: u64) -> Result<bool> {
        let left = match self.limit {
            Some(limit) => limit.saturating_sub(self.elapsed_ns(place)),
            None => u64::MAX,
        };
        let nanoseconds = nanoseconds.min(left);
        let more = match (&mut self.what, place.model()) {
            (What::Workload { .. }, Some(model)) => model.advance(nanoseconds)?,
            (
                What::Real {
                    running: Some(running),
                    ..
                },
                _,
            ) => running.wait(nanoseconds)?,
            _ => false,
        };
        Ok(more && nanoseconds < left && !interrupted())
    }

    /// For how long it has been running: modelled time on a modelled machine.
    pub(crate) fn elapsed_ns(&self, place: &mut Place) -> u64 {
        match (&self.what, place.model()) {
            (What::Workload { .. }, Some(model)) => model.elapsed_ns(),
            (
                What::Real {
                    running: Some(running),
                    ..
                },
                _,
            ) => u64::try_from(running.since.elapsed().as_nanos()).unwrap_or(u64::MAX),
            _ => 0,
        }
    }

    /// Whether this is modelled time, of which one step may take any amount.
    pub(crate) const fn is_modelled(&self) -> bool {
        matches!(self.what, What::Workload { .. })
    }

    /// Whether it ends without `--duration` or Ctrl-C.
    pub(crate) const fn ends(&self) -> bool {
        match &self.what {
            What::Workload { .. } => true,
            What::Real { program, .. } => !program.is_empty(),
        }
    }

    /// How long the next run will take, as far as one of `elapsed_ns` tells; `None` where the user
    /// will end it.
    pub(crate) const fn planned_ns(&self, elapsed_ns: u64) -> Option<u64> {
        if self.ends() {
            Some(elapsed_ns)
        } else {
            self.limit
        }
    }

    /// How long it will take, where that is known.
    pub(crate) fn length_ns(&self) -> Option<u64> {
        let length = match &self.what {
            What::Workload { workload, .. } => Some(
                // Modelled processors run one instruction, or one cycle, in a nanosecond.
                workload
                    .amount(Event::Instructions)
                    .max(workload.amount(Event::Cycles)),
            ),
            What::Real { .. } => None,
        };
        self.limit.into_iter().chain(length).min()
    }

    /// Lets nothing run on: a program that still does is ended, after Ctrl-C only if it does not end
    /// by itself.
    pub(crate) fn end(&mut self) -> Result<()> {
        if let What::Real {
            running: Some(running),
            ..
        } = &mut self.what
        {
            let grace = if interrupted() { GRACE } else { Duration::ZERO };
            let status = running.end(grace)?;
            if self.status == 0 {
                self.status = status;
            }
        }
        Ok(())
    }

    /// The exit status of the program that was run, or 0.
    pub(crate) const fn program_status(&self) -> u32 {
        self.status
    }
}

/// A `--workload` for what is no model.
pub(crate) fn no_workload() -> Error {
    Error::unavailable(
        "only a modelled machine runs a `--workload`",
        "Name a model with `--machine`.",
    )
}

fn modelled_work(work: &Work, processors: u32, connection: &mut Connection<Place>) -> Result<What> {
    if !work.program.is_empty() {
        return Err(Error::unavailable(
            "a modelled machine runs no programs",
            "Say what it shall run with `--workload`, or measure with `--machine driver` on Windows.",
        ));
    }
    let (workload, image) = planned(work.workload.as_deref(), processors, connection)?;
    Ok(What::Workload {
        workload: Box::new(workload),
        image,
    })
}

/// What `--workload` says a modelled machine shall run; without it the default.
pub(crate) fn workload_of(
    text: Option<&str>,
    processors: u32,
    connection: &mut Connection<Place>,
) -> Result<Workload> {
    planned(text, processors, connection).map(|(workload, _)| workload)
}

/// The same with the file whose code it runs.
fn planned(
    text: Option<&str>,
    processors: u32,
    connection: &mut Connection<Place>,
) -> Result<(Workload, Option<Module>)> {
    let Some(text) = text else {
        return Ok((Workload::default(), None));
    };
    let (image, rest) = image::Keys::take(text)?;
    let parsed = match workload::parse(&rest) {
        Err(WorkloadError::UnknownKey { .. }) => {
            let catalog = Catalog::of(connection, false)?;
            workload::parse_with(&rest, &|name| catalog.modelled(name))
        }
        parsed => parsed,
    };
    let mut workload = parsed.map_err(|error| {
        Error::usage(
            format!("`--workload`: {error}"),
            format!("{}.", error.hint()),
        )
    })?;
    match workload.highest_processor() {
        Some(highest) if highest >= processors => Err(no_processor(highest, processors.into())),
        _ => {
            let module = image.apply(&mut workload)?;
            Ok((workload, module))
        }
    }
}

impl Running {
    fn start(program: &[OsString]) -> Result<Self> {
        let spawn = |(name, arguments): (&OsString, &[OsString])| {
            let mut command = Command::new(name);
            command
                .args(arguments)
                .spawn()
                .map_err(|error| halprof_measure::Error::File {
                    path: name.into(),
                    doing: "started",
                    error,
                })
        };
        Ok(Self {
            child: program.split_first().map(spawn).transpose()?,
            since: Instant::now(),
            status: None,
        })
    }

    /// Waits for so long, or until the program ends; looks for both every few milliseconds.
    fn wait(&mut self, nanoseconds: u64) -> Result<bool> {
        let end = Instant::now() + Duration::from_nanos(nanoseconds.min(1 << 60));
        while !interrupted() {
            if self.has_ended()? {
                return Ok(false);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(LOOK));
        }
        Ok(false)
    }

    /// Whether there was a program, and it has ended.
    fn has_ended(&mut self) -> Result<bool> {
        let Some(child) = &mut self.child else {
            return Ok(false);
        };
        if let Some(status) = child.try_wait().map_err(halprof_measure::Error::Device)? {
            self.status = Some(status_of(status));
        }
        Ok(self.status.is_some())
    }

    /// The program's status; one that does not end in time is ended, and that is no failure of it.
    fn end(&mut self, grace: Duration) -> Result<u32> {
        let until = Instant::now() + grace;
        while self.child.is_some() && !self.has_ended()? && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        Ok(self.status.unwrap_or(0))
    }
}

impl Drop for Running {
    /// Nothing is left running behind.
    fn drop(&mut self) {
        if let (Some(child), None) = (&mut self.child, self.status) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What the program ended with: on Windows 32 bits, such as an exception's code.
#[cfg(windows)]
fn status_of(status: ExitStatus) -> u32 {
    status.code().map_or(1, i32::cast_unsigned)
}

/// What the program ended with; where a signal ended it, 128 and the signal's number, as shells say.
#[cfg(unix)]
fn status_of(status: ExitStatus) -> u32 {
    use std::os::unix::process::ExitStatusExt;
    let signalled = status.signal().map(|signal| signal + 128);
    let code = status.code().or(signalled).unwrap_or(1);
    code.cast_unsigned()
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C ends the measurement, not the process: what was counted so far is told.
pub(crate) fn watch_for_interrupt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Where there can be no handler, Ctrl-C ends the process, and its handle ends the session.
        let _ = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                // Whoever asks twice will not wait.
                std::process::exit(130);
            }
        });
    });
}

/// Whether the user has asked to stop.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
