//! What stat, record and check share: what is chosen, and what runs while it is measured.

use super::On;
use super::args::{Selection, Work};
use super::list::can_count;
use super::place::Place;
use halprof::selection::{self, Chosen, Item};
use halprof::{Connection, Error, Refusal, Result, Setup, metrics};
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use shared_types::request::source::Source;
use shared_types::{ErrorCode, Interface, ProfileSource};
use sim::workload::{self, Workload};
use std::process::Child;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The sources and processors of a measurement.
pub(crate) struct Choice {
    /// In the order of the counts.
    pub(crate) chosen: Vec<Chosen>,
    /// What the other side is asked for.
    pub(crate) setup: Setup,
    /// Every source of the machine.
    sources: Vec<Source>,
    /// Every processor of the machine.
    processors: Vec<Processor>,
}

impl Choice {
    /// What the options name; without any, what `default_is_counting` asks for.
    pub(crate) fn of(options: &Selection, on: &mut On, default_is_counting: bool) -> Result<Self> {
        let mut items = Vec::new();
        for list in &options.events {
            selection::parse_list(list, &mut items)?;
        }
        for list in &options.groups {
            selection::parse_group(list, &mut items)?;
        }
        let wanted = options
            .processors
            .as_deref()
            .map(selection::parse_processors)
            .transpose()?;
        let processors = on.connection.processors()?;
        let wanted = wanted
            .map(|wanted| processors_of(&wanted, &processors))
            .transpose()?;
        let sources = on.connection.sources(options.approximate)?;
        let interface = on.connection.machine()?.interface;
        let interface = Interface::from_wire(interface).unwrap_or(Interface::Default);
        let mut choice = Self {
            chosen: selection::resolve(&items, &sources, interface)?,
            setup: Setup {
                processors: wanted.unwrap_or_default(),
                approximate: options.approximate,
                ..Setup::default()
            },
            sources,
            processors,
        };
        if items.is_empty() && default_is_counting {
            choice.count_by_default(&mut on.connection)?;
        } else if items.is_empty() {
            choice.sample_by_default()?;
        }
        choice.setup.specs = choice.chosen.iter().map(|chosen| chosen.spec).collect();
        Ok(choice)
    }

    /// As many of the usual quantities as run at once.
    fn count_by_default(&mut self, connection: &mut Connection<Place>) -> Result<()> {
        for names in metrics::DEFAULT_QUANTITIES {
            let Some(name) = self.first_supported(names, 0) else {
                continue;
            };
            let more = choose(name, &self.sources)?;
            let mut setup = self.setup.clone();
            setup.specs.extend(more.iter().map(|chosen| chosen.spec));
            if connection.plan(&setup)?.fits {
                self.setup = setup;
                self.chosen.extend(more);
            }
        }
        if self.chosen.is_empty() {
            self.chosen = choose("ProfileTime", &self.sources)?;
        }
        Ok(())
    }

    /// Cycles where they can be sampled, else instructions, else time.
    fn sample_by_default(&mut self) -> Result<()> {
        let mut names = metrics::DEFAULT_QUANTITIES.iter().take(2);
        let name = names.find_map(|names| self.first_supported(names, Source::SAMPLING));
        self.chosen = choose(name.unwrap_or("ProfileTime"), &self.sources)?;
        Ok(())
    }

    fn first_supported(&self, names: &[&'static str], flags: u32) -> Option<&'static str> {
        let wanted = Source::SUPPORTED | flags;
        let supported = |name: &&&str| {
            let mut sources = self.sources.iter();
            sources.any(|source| source.name.as_str() == **name && source.flags & wanted == wanted)
        };
        names.iter().find(supported).copied()
    }

    /// The processors that take part.
    pub(crate) fn selected(&self) -> impl Iterator<Item = &Processor> {
        let wanted = &self.setup.processors;
        self.processors
            .iter()
            .filter(move |processor| wanted.is_empty() || wanted.contains(&processor.index))
    }

    /// Whether a processor can count one of the chosen sources.
    pub(crate) fn counts_on(&self, chosen: &Chosen, processor: &Processor) -> bool {
        let source = self
            .sources
            .iter()
            .find(|source| source.id == chosen.spec.source);
        source.is_none_or(|source| can_count(source, processor))
    }

    /// Whether any source counts in kernel mode.
    pub(crate) fn sees_kernel(&self) -> bool {
        self.setup
            .specs
            .iter()
            .any(|spec| spec.filter & Spec::KERNEL != 0)
    }

    /// How many processors the machine has.
    pub(crate) const fn processor_count(&self) -> u32 {
        self.processors.len() as u32
    }

    /// The same error, with the name of the source it concerns.
    pub(crate) fn name_source(&self, error: Error) -> Error {
        error.about(|id| {
            let raw = id == ProfileSource::RAW.0;
            let chosen = self
                .chosen
                .iter()
                .find(|chosen| raw && chosen.spec.source == id);
            let source = self.sources.iter().find(|source| source.id == id);
            chosen
                .map(|chosen| chosen.label.clone())
                .or_else(|| source.map(|source| source.name.as_str().to_owned()))
        })
    }
}

fn choose(name: &str, sources: &[Source]) -> Result<Vec<Chosen>> {
    let mut items: Vec<Item> = Vec::new();
    selection::parse_list(name, &mut items)?;
    selection::resolve(&items, sources, Interface::Default)
}

/// The processors named, if all of them are there.
pub(crate) fn processors_of(wanted: &[u32], all: &[Processor]) -> Result<Vec<u32>> {
    match wanted.iter().find(|&&index| index as usize >= all.len()) {
        Some(&index) => Err(no_processor(index, all.len() as u64)),
        None => Ok(wanted.to_vec()),
    }
}

const fn no_processor(index: u32, count: u64) -> Error {
    Error::Refused(Refusal {
        code: ErrorCode::ProcessorUnknown,
        subject: index,
        detail: count,
        source: None,
    })
}

/// Ticks of a clock of `frequency` in nanoseconds.
pub(crate) fn nanoseconds(ticks: u64, frequency: u64) -> u64 {
    let product = u128::from(ticks) * 1_000_000_000;
    let nanoseconds = product.checked_div(u128::from(frequency)).unwrap_or(0);
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

/// A positive amount of milliseconds or seconds in units of `1 / per` of it, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
pub(crate) fn positive(option: &str, value: f64, per: f64, most: f64) -> Result<u64> {
    let units = (value * per).round();
    if units >= 1.0 && units <= most {
        return Ok(units as u64);
    }
    Err(Error::usage(
        format!("`{option} {value}` is out of range"),
        format!("It is a number from {} to {}.", 1.0 / per, most / per),
    ))
}

/// The longest time in nanoseconds that an option may name: 30 years.
pub(crate) const NANOSECONDS_MAX: f64 = 1e18;

/// How long each turn of a rotation shall be, in units of 100 ns; 0 for the default.
pub(crate) fn rotation(work: &Work) -> Result<u32> {
    let units = |value| positive("--rotate", value, 1e4, f64::from(u32::MAX));
    Ok(work.rotate.map(units).transpose()?.unwrap_or(0) as u32)
}

/// What runs while it is measured, and for how long.
pub(crate) struct Runner {
    what: What,
    limit: Option<u64>,
}

enum What {
    /// A workload on a modelled machine.
    Workload(Box<Workload>),
    /// A program, or nothing but time.
    Real {
        program: Vec<std::ffi::OsString>,
        running: Option<Running>,
    },
}

struct Running {
    since: Instant,
    child: Option<Child>,
    status: Option<u8>,
}

impl Runner {
    /// What the options name, if this machine can run it.
    pub(crate) fn new(work: &Work, on: &mut On, processors: u32) -> Result<Self> {
        let limit = |value| positive("--duration", value, 1e9, NANOSECONDS_MAX);
        let limit = work.duration.map(limit).transpose()?;
        let modelled = on.connection.transport().model().is_some();
        let what = match modelled {
            true => What::Workload(Box::new(modelled_work(work, processors)?)),
            false if work.workload.is_some() => {
                return Err(Error::Unavailable {
                    message: "only a modelled machine runs a `--workload`".to_owned(),
                    hint: "Name a model with `--machine`, or a program behind `--`.".to_owned(),
                });
            }
            false => What::Real {
                program: work.program.clone(),
                running: None,
            },
        };
        watch_for_interrupt();
        Ok(Self { what, limit })
    }

    /// The addresses that a modelled machine runs its user code from.
    pub(crate) fn user_code(&self) -> Option<(u64, u64)> {
        match &self.what {
            What::Workload(workload) => Some(workload.code()),
            What::Real { .. } => None,
        }
    }

    /// Starts it.
    pub(crate) fn begin(&mut self, place: &mut Place) -> Result<()> {
        match (&mut self.what, place.model()) {
            (What::Workload(workload), Some(model)) => model.begin(workload),
            (What::Real { program, running }, _) => *running = Some(Running::start(program)?),
            (What::Workload(_), None) => {}
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
            (What::Workload(_), Some(model)) => model.advance(nanoseconds)?,
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
            (What::Workload(_), Some(model)) => model.elapsed_ns(),
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
        matches!(self.what, What::Workload(_))
    }

    /// The exit status of the program that was run, or 0.
    pub(crate) fn program_status(&self) -> u8 {
        match &self.what {
            What::Real {
                running: Some(running),
                ..
            } => running.status.unwrap_or(0),
            _ => 0,
        }
    }
}

fn modelled_work(work: &Work, processors: u32) -> Result<Workload> {
    if !work.program.is_empty() {
        return Err(Error::Unavailable {
            message: "a modelled machine runs no programs".to_owned(),
            hint: "Say what it shall run with `--workload`, or measure with `--machine driver` on Windows."
                .to_owned(),
        });
    }
    let Some(text) = &work.workload else {
        return Ok(Workload::default());
    };
    let workload = workload::parse(text).map_err(|error| {
        Error::usage(
            format!("`--workload`: {error}"),
            format!("{}.", error.hint()),
        )
    })?;
    match workload.highest_processor() {
        Some(highest) if highest >= processors => Err(no_processor(highest, processors.into())),
        _ => Ok(workload),
    }
}

impl Running {
    fn start(program: &[std::ffi::OsString]) -> Result<Self> {
        let spawn = |(name, arguments): (&std::ffi::OsString, &[std::ffi::OsString])| {
            let mut command = std::process::Command::new(name);
            command
                .args(arguments)
                .spawn()
                .map_err(|error| Error::File {
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
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait().map_err(Error::Device)?
            {
                self.status = Some(status.code().map_or(1, |code| code.cast_unsigned() as u8));
                return Ok(false);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
        Ok(false)
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C ends the measurement, not the process: what was counted so far is told.
fn watch_for_interrupt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Where there can be no handler, Ctrl-C ends the process, and its handle ends the session.
        let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    });
}

/// Whether the user has asked to stop.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
