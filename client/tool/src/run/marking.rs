//! Moves marks from the shared buffer to the file.

use crate::output::error::Result;
use halprof_measure::Clock;
use halprof_measure::marks::{Buffer, Cause, Rate};
use halprof_profile::file::{Block, Channels, Sink};
use std::time::{Duration, Instant};

/// How often the buffer is drained: at this interval it has room for more than a hundred million
/// marks a second.
pub(crate) const DRAIN_NS: u64 = 10_000_000;
/// How often the channels' data is written to the file.
const CHANNELS_EVERY: Duration = Duration::from_secs(1);

/// A recorder of marks.
pub(crate) struct Marking {
    buffer: Buffer,
    marks: u64,
    /// When the channels' data was last written.
    channels_written: Option<Instant>,
}

impl Marking {
    pub(crate) fn begin() -> Result<Self> {
        Ok(Self { buffer: Buffer::create()?, marks: 0, channels_written: None })
    }

    /// The environment variable by which a program finds it.
    pub(crate) fn environment(&self) -> (&'static str, String) {
        self.buffer.environment()
    }

    /// The rate of the clock since the beginning, which is at least 50 ms ago.
    pub(crate) fn rate(&self) -> Rate {
        self.buffer.rate()
    }

    /// Moves new marks to the file.
    pub(crate) fn drain(&mut self, sink: &mut impl Sink) -> Result<()> {
        let mut marks = Vec::new();
        self.buffer.drain(&mut marks);
        self.marks += marks.len() as u64;
        // The clock comes before the first marks, so that they have times even if the recorder is
        // killed.
        if self.channels_written.is_none_or(|at| at.elapsed() > CHANNELS_EVERY) {
            self.channels_written = Some(Instant::now());
            self.write_channels(sink)?;
        }
        if !marks.is_empty() {
            sink.put(Block::Marks(marks))?;
        }
        Ok(())
    }

    /// Moves the rest, and writes the channels' data.
    pub(crate) fn finish(&mut self, sink: &mut impl Sink) -> Result<()> {
        self.drain(sink)?;
        self.write_channels(sink)
    }

    fn write_channels(&self, sink: &mut impl Sink) -> Result<()> {
        Ok(sink.put(Block::Channels(Box::new(self.channels())))?)
    }

    fn channels(&self) -> Channels {
        let rate = self.rate();
        let dropped = Cause::ALL.map(|cause| (cause.name().to_owned(), self.buffer.dropped(cause)));
        Channels {
            names: self.buffer.names().to_vec(),
            clock: Clock::here().unfenced(),
            ticks_a_second: rate.ticks_a_second,
            rate_error_ppb: rate.error_ppb,
            rate_over_ns: u64::try_from(rate.over.as_nanos()).unwrap_or(u64::MAX),
            step_ticks: self.buffer.step_ticks(),
            cost: self.buffer.cost(),
            dropped: dropped.into(),
            damaged: self.buffer.damaged(),
            processes: self.buffer.attached(),
        }
    }

    /// The number of marks in the file.
    pub(crate) const fn marks(&self) -> u64 {
        self.marks
    }

    /// Marks that were dropped, for any cause.
    pub(crate) fn dropped(&self) -> u64 {
        let dropped = Cause::ALL.map(|cause| self.buffer.dropped(cause));
        dropped.into_iter().fold(0, u64::saturating_add)
    }
}
