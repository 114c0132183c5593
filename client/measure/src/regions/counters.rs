//! What a thread reads when it enters and leaves a region, and which passages are discarded.

use super::lock;
use crate::error::{Error, Remedy, Result};
use crate::platform::{Platform, Profile, refused};
use crate::session::Session;
use crate::tracing::live::Wait;
use crate::transport::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared_types::request::counts::Count;
use shared_types::request::threads::ThreadCounter;
use std::sync::{Arc, Mutex};

/// The most sources of a region: more than any processor counts at once.
pub(super) const EVENTS_MAX: usize = 32;

/// The number of times that an empty region is measured when a thread begins.
const CALIBRATIONS: usize = 64;

/// A smaller difference of the machine's two clocks is not taken for sleep, because they are not
/// read at the same moment.
const SLEPT_MS: u64 = 100;

/// The number of tries to read the counters without a switch between them.
const TRIES: u32 = 8;

/// Everything that is read at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// The time-stamp counter.
    pub(super) ticks: u64,
    /// One value for each source, in their order.
    pub(super) values: [u64; EVENTS_MAX],
    /// The number of context switches of the thread, if a switch voids a passage.
    pub(super) switches: u64,
    /// The time that the machine has slept since it started.
    pub(super) slept_ms: u64,
    /// The waits of a reading by context switches: the first ends the stretch before the reading, and
    /// the second begins the stretch after it.
    pub(super) waits: [Wait; 2],
    /// What the session of those switches was known to have lost.
    pub(super) lost: u64,
}

/// Why a passage was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discard {
    /// The thread was switched while its processor's counters were read directly.
    Switched,
    /// The machine slept in the meantime, and its counters were lost.
    Suspended,
    /// The counters could not be read.
    Failed,
    /// The thread already keeps the largest number of passages through this region.
    Full,
    /// Windows lost events of its tracing in the meantime.
    Lost,
    /// The context switches at the ends of the passage did not arrive.
    Unseen,
    /// A context switch of the thread had no counts, or impossible ones.
    Uncounted,
}

impl Discard {
    pub(super) const ALL: [Self; 7] = [
        Self::Switched,
        Self::Suspended,
        Self::Failed,
        Self::Full,
        Self::Lost,
        Self::Unseen,
        Self::Uncounted,
    ];

    /// The rest of a sentence that begins with "passages".
    pub(super) const fn why(self) -> &'static str {
        match self {
            Self::Switched => "during which the thread was switched",
            Self::Suspended => "during which the machine slept",
            Self::Failed => "whose counters could not be read",
            Self::Full => "beyond the 1,048,576 that are kept",
            Self::Lost => "during which Windows' tracing lost events",
            Self::Unseen => "at whose ends no context switch was seen",
            Self::Uncounted => "with a context switch that had no valid counts",
        }
    }
}

/// The counters of the thread that created this.
pub(super) trait Counters {
    /// Reads everything, the time stamp last: the passage has none of the reading's own time.
    fn begin(&mut self) -> Result<Reading>;
    /// Reads everything, the time stamp first, for the same reason.
    fn end(&mut self) -> Result<Reading>;
    /// Reads everything at a moment that ends one stretch and begins the next.
    fn now(&mut self) -> Result<Reading> {
        self.begin()
    }

    /// Waits until the counts up to the last reading have arrived.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether counts are known only after [`settle`](Self::settle).
    fn is_delivered_later(&self) -> bool {
        false
    }

    /// The number of empty regions that show the cost of measuring.
    fn calibrations(&self) -> usize {
        CALIBRATIONS
    }

    /// The mask of a counter's width, beyond which it wraps.
    fn mask(&self, _source: usize) -> u64 {
        u64::MAX
    }

    fn between(&self, begin: &Reading, end: &Reading) -> std::result::Result<Reading, Discard> {
        begin.awake_until(end)?;
        if end.switches != begin.switches {
            return Err(Discard::Switched);
        }
        let mut between = Reading { ticks: end.ticks.wrapping_sub(begin.ticks), ..*end };
        for (source, (value, before)) in between.values.iter_mut().zip(begin.values).enumerate() {
            *value = value.wrapping_sub(before) & self.mask(source);
        }
        Ok(between)
    }
}

/// The counts that Windows has accumulated for the thread.
pub(super) struct Profiled<'a> {
    pub(super) platform: &'a dyn Platform,
    pub(super) profile: Box<dyn Profile>,
}

impl Profiled<'_> {
    fn read(&mut self) -> Result<Reading> {
        let data = self.profile.read(true).map_err(refused)?;
        let mut reading = Reading { slept_ms: self.platform.slept_ms(), ..Reading::default() };
        reading.values.iter_mut().zip(data.counters).for_each(|(value, counter)| *value = counter);
        Ok(reading)
    }
}

impl Counters for Profiled<'_> {
    fn begin(&mut self) -> Result<Reading> {
        let reading = self.read()?;
        let ticks = self.platform.ticks_before();
        Ok(Reading { ticks, ..reading })
    }

    fn end(&mut self) -> Result<Reading> {
        let ticks = self.platform.ticks_after();
        Ok(Reading { ticks, ..self.read()? })
    }
}

/// The counters of the processor that runs the thread, valid while it stays on that processor.
pub(super) struct Direct<'a> {
    pub(super) platform: &'a dyn Platform,
    /// Counts the thread's context switches.
    pub(super) profile: Box<dyn Profile>,
    pub(super) counters: Arc<[ThreadCounter]>,
}

impl Direct<'_> {
    fn switches(&mut self) -> Result<u64> {
        let data = self.profile.read(false).map_err(refused)?;
        Ok(data.switches.into())
    }

    fn values(&self) -> [u64; EVENTS_MAX] {
        let mut values = [0; EVENTS_MAX];
        for (value, counter) in values.iter_mut().zip(self.counters.iter()) {
            *value = self.platform.rdpmc(counter.rdpmc);
        }
        values
    }
}

impl Counters for Direct<'_> {
    fn begin(&mut self) -> Result<Reading> {
        Ok(Reading {
            slept_ms: self.platform.slept_ms(),
            // Read before the counters here, and after them at the end, so that a switch in between
            // is seen.
            switches: self.switches()?,
            values: self.values(),
            ticks: self.platform.ticks_before(),
            ..Reading::default()
        })
    }

    fn end(&mut self) -> Result<Reading> {
        Ok(Reading {
            ticks: self.platform.ticks_after(),
            values: self.values(),
            switches: self.switches()?,
            slept_ms: self.platform.slept_ms(),
            ..Reading::default()
        })
    }

    fn now(&mut self) -> Result<Reading> {
        for _ in 0..TRIES {
            let reading = self.begin()?;
            if self.switches()? == reading.switches {
                return Ok(reading);
            }
        }
        Err(Error::unavailable(
            format!("the thread was switched during each of {TRIES} readings"),
            "Read again.",
        ))
    }

    fn mask(&self, source: usize) -> u64 {
        let counter = self.counters.get(source);
        let width = counter.map_or(64, |counter| counter.width);
        u64::MAX.checked_shr(64u32.saturating_sub(width)).unwrap_or(u64::MAX)
    }
}

/// Whole processors, with one request for each reading.
pub(super) struct Processors<'a, T: Transport> {
    pub(super) session: Arc<Mutex<Session<'a, T>>>,
    /// The processors; empty for all that the session counts.
    pub(super) indexes: Vec<u32>,
    /// The thread's clock on a real machine; `None` on a model, whose time is in its counts.
    pub(super) platform: Option<&'a dyn Platform>,
}

impl<T: Transport> Processors<'_, T> {
    pub(super) fn read(&self) -> Result<Reading> {
        let mut reading = Reading::default();
        let counts = lock(&self.session).snapshot()?;
        if self.indexes.is_empty() {
            for counts in &counts {
                reading.add(counts);
            }
        }
        for &processor in &self.indexes {
            let counts = counts.get(processor as usize);
            reading.add(counts.ok_or_else(|| no_processor(processor))?);
        }
        if let Some(platform) = self.platform {
            reading.slept_ms = platform.slept_ms();
        }
        Ok(reading)
    }
}

fn no_processor(processor: u32) -> Error {
    Error::usage(
        format!("no processor {processor}: this machine does not have it"),
        Remedy::ListProcessors,
    )
}

impl Reading {
    /// Fails if the machine slept before this other reading.
    pub(super) const fn awake_until(&self, end: &Self) -> std::result::Result<(), Discard> {
        if end.slept_ms.saturating_sub(self.slept_ms) >= SLEPT_MS {
            return Err(Discard::Suspended);
        }
        Ok(())
    }

    /// Adds up one processor's counts; a model's time is that of its slowest processor.
    fn add(&mut self, counts: &[Count]) {
        for (value, count) in self.values.iter_mut().zip(counts) {
            *value = value.wrapping_add(count.counted);
            self.ticks = self.ticks.max(count.enabled);
        }
    }
}

impl<T: Transport> Counters for Processors<'_, T> {
    fn begin(&mut self) -> Result<Reading> {
        let mut reading = self.read()?;
        if let Some(platform) = self.platform {
            reading.ticks = platform.ticks_before();
        }
        Ok(reading)
    }

    fn end(&mut self) -> Result<Reading> {
        let ticks = self.platform.map(Platform::ticks_after);
        let reading = self.read()?;
        Ok(Reading { ticks: ticks.unwrap_or(reading.ticks), ..reading })
    }
}
