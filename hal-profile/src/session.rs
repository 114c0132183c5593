//! A session: what one client's handle has asked for.

use crate::capabilities::Capabilities;
use crate::control::{Control, Filter, control};
use crate::guard::Limits;
use crate::machine::ProcessorSet;
use crate::plan::{MAX_SOURCES, Plan, Wanted};
use crate::source::{CounterSet, Select};
use shared_types::ErrorCode;
use shared_types::request::session::UsedInterval;

/// Most kinds of processor that are kept apart in one machine.
pub const MAX_KINDS: usize = 8;

/// Who made a request: one open handle of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Identifies the handle among those open now.
    pub handle: u64,
    /// The process that opened it.
    pub process: u32,
    /// It holds SeDebugPrivilege, as Windows asks of who wants the kernel's addresses. The host
    /// looks only for CONFIGURE.
    pub kernel_addresses: bool,
}

/// A place for a session, lent by the host.
#[derive(Debug)]
pub struct Session {
    pub(crate) owner: Option<Client>,
    /// How often this place has been used: part of the session's number.
    pub(crate) uses: u32,
    pub(crate) kernel: bool,
    pub(crate) approximate: bool,
    pub(crate) program: Program,
}

impl Session {
    /// A place that nobody uses.
    pub const EMPTY: Self = Self {
        owner: None,
        uses: 0,
        kernel: false,
        approximate: false,
        program: Program::EMPTY,
    };
}

/// What processors run of a session: it does not change while they do.
#[derive(Debug)]
pub struct Program {
    pub(crate) configuration: Configuration,
    pub(crate) plans: [Plan; MAX_KINDS],
}

impl Program {
    /// Nothing to run.
    #[expect(
        clippy::large_stack_arrays,
        reason = "a constant that hosts copy into memory they lend"
    )]
    pub const EMPTY: Self = Self {
        configuration: Configuration::EMPTY,
        plans: [Plan::EMPTY; MAX_KINDS],
    };

    /// Becomes the same as `other`, in place: it is too large to pass over a kernel's stack.
    pub fn copy_from(&mut self, other: &Self) {
        self.configuration.copy_from(&other.configuration);
        for (plan, others) in self.plans.iter_mut().zip(&other.plans) {
            plan.copy_from(others);
        }
    }

    /// The plan for a kind of processor.
    pub(crate) fn plan(&self, kind: u8) -> Option<&Plan> {
        self.plans.get(usize::from(kind))
    }
}

/// What is counted, where and how.
#[derive(Debug)]
pub struct Configuration {
    pub(crate) sources: [SessionSource; MAX_SOURCES],
    pub(crate) count: usize,
    pub(crate) samples: bool,
    pub(crate) no_address: bool,
    pub(crate) kernel: bool,
    pub(crate) processors: ProcessorSet,
    /// How long a turn runs, in units of 100 ns.
    pub(crate) rotation: u32,
    pub(crate) rotation_ticks: u64,
    pub(crate) frequency: u64,
    /// What interrupts may take of a processor's time.
    pub(crate) interrupt_time: Limits,
    pub(crate) ring_samples: u32,
}

/// One source of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionSource {
    pub(crate) id: u32,
    pub(crate) raw: u64,
    pub(crate) filter: Filter,
    pub(crate) group: u16,
    pub(crate) select: Select,
    pub(crate) counters: CounterSet,
    /// Counted by a timer whose interval is `interval.used`, in units of 100 ns.
    pub(crate) timer: bool,
    pub(crate) interval: UsedInterval,
}

impl SessionSource {
    const NONE: Self = Self {
        id: 0,
        raw: 0,
        filter: Filter {
            user: false,
            kernel: false,
        },
        group: 0,
        select: Select::None,
        counters: 0,
        timer: false,
        interval: UsedInterval {
            source: 0,
            flags: 0,
            requested: 0,
            used: 0,
            events: 0,
        },
    };

    /// What the plan must know of it.
    pub(crate) fn wanted(&self, refused: Option<ErrorCode>) -> Wanted {
        Wanted {
            select: self.select,
            counters: self.counters,
            timer: self.timer,
            group: self.group,
            refused,
        }
    }
}

impl Configuration {
    #[expect(
        clippy::large_stack_arrays,
        reason = "a constant that hosts copy into memory they lend"
    )]
    const EMPTY: Self = Self {
        sources: [SessionSource::NONE; MAX_SOURCES],
        count: 0,
        samples: false,
        no_address: false,
        kernel: false,
        processors: ProcessorSet::EMPTY,
        rotation: 0,
        rotation_ticks: 0,
        frequency: 0,
        interrupt_time: Limits::NONE,
        ring_samples: 0,
    };

    fn copy_from(&mut self, other: &Self) {
        let Self {
            sources,
            count,
            samples,
            no_address,
            kernel,
            processors,
            rotation,
            rotation_ticks,
            frequency,
            interrupt_time,
            ring_samples,
        } = self;
        sources.copy_from_slice(&other.sources);
        *count = other.count;
        *samples = other.samples;
        *no_address = other.no_address;
        *kernel = other.kernel;
        *processors = other.processors;
        *rotation = other.rotation;
        *rotation_ticks = other.rotation_ticks;
        *frequency = other.frequency;
        *interrupt_time = other.interrupt_time;
        *ring_samples = other.ring_samples;
    }

    /// How many sources there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the client may see kernel mode.
    #[must_use]
    pub fn may_see_kernel(&self) -> bool {
        self.kernel
    }

    /// How long a turn runs, in ticks of the time-stamp counter.
    #[must_use]
    pub fn rotation_ticks(&self) -> u64 {
        self.rotation_ticks
    }

    pub(crate) fn sources(&self) -> &[SessionSource] {
        self.sources.get(..self.count).unwrap_or_default()
    }

    /// Events between two samples of a source; 0 where it is not sampled.
    #[must_use]
    pub fn events(&self, index: usize) -> u64 {
        match self.sources().get(index) {
            Some(source) if self.samples && !source.timer => source.interval.events,
            _ => 0,
        }
    }

    /// A timer source's interval, in ticks of the time-stamp counter.
    #[must_use]
    pub fn timer_ticks(&self, index: usize) -> Option<u64> {
        let source = self.sources().get(index).filter(|source| source.timer)?;
        Some(ticks(source.interval.used, self.frequency))
    }

    /// The control value of a source on one side.
    #[must_use]
    pub fn control(
        &self,
        capabilities: &Capabilities,
        index: usize,
        side: u8,
        interrupts: bool,
    ) -> Control {
        self.sources()
            .get(index)
            .map_or_else(Control::default, |source| {
                control(
                    capabilities,
                    &source.select,
                    side,
                    source.filter,
                    interrupts,
                )
            })
    }
}

/// Ticks of a clock of `frequency` in so many units of 100 ns.
#[must_use]
pub fn ticks(hundred_ns: u64, frequency: u64) -> u64 {
    (u128::from(hundred_ns) * u128::from(frequency) / 10_000_000) as u64
}
