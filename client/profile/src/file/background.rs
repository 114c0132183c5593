//! Writes a recording on a separate thread, so that a slow disk does not delay draining: the
//! driver's rings hold two seconds, and a delay longer than that loses samples.

use super::{
    Channels, Mark, Module, NamedThread, Process, RecordedEvent, Sample, Statistics, Writer,
};
use halprof_measure::{Error, Result};
use shared_types::Branch;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// How many parts may wait for the disk; that is 64 MiB of drained samples.
const WAITING_MAX: usize = 64;

/// A part of the recording to write.
#[derive(Clone, Debug)]
pub enum Block {
    Samples(Vec<Sample>),
    /// Samples with their branch records.
    Branched(Vec<Sample>, Vec<Branch>),
    /// Processes, or updates of known ones.
    Processes(Vec<Process>),
    /// Threads that have names.
    Threads(Vec<NamedThread>),
    /// Modules, or updates of known ones.
    Modules(Vec<Module>),
    Events(Vec<RecordedEvent>),
    /// The statistics of the samples so far.
    Statistics(Box<Statistics>),
    Marks(Vec<Mark>),
    /// The channels of the marks so far.
    Channels(Box<Channels>),
}

/// What takes the parts of a recording while it is made.
pub trait Sink {
    /// Takes a part. May return before it is written.
    fn put(&mut self, block: Block) -> Result<()>;
}

/// A [`Writer`] on a separate thread. If this is dropped, the thread writes what is waiting and
/// leaves the recording unfinished.
#[derive(Debug)]
pub struct Background {
    blocks: Option<SyncSender<Block>>,
    thread: Option<JoinHandle<Result<Writer>>>,
}

impl Background {
    /// Takes over a recording that has been started.
    pub fn new(writer: Writer) -> Self {
        let (sender, blocks) = sync_channel(WAITING_MAX);
        Self { blocks: Some(sender), thread: Some(std::thread::spawn(|| write(writer, blocks))) }
    }

    /// Waits until everything is written, writes the end and gives the file its final name.
    pub fn finish(mut self, statistics: &Statistics, interrupted: bool) -> Result<()> {
        self.written()?.finish(statistics, interrupted)
    }

    fn written(&mut self) -> Result<Writer> {
        // The thread ends when it has no sender any more.
        drop(self.blocks.take());
        let ended = || Error::Internal("the recording's own thread has ended".to_owned());
        let thread = self.thread.take().ok_or_else(ended)?;
        thread.join().map_err(|_| ended())?
    }
}

impl Sink for Background {
    /// Hands over a part for writing; waits only if the disk is far behind. An error belongs to an
    /// earlier part.
    fn put(&mut self, block: Block) -> Result<()> {
        let sent = self.blocks.as_ref().map(|blocks| blocks.send(block));
        match sent {
            Some(Ok(())) => Ok(()),
            // A thread that takes nothing more has ended with an error, which this returns.
            _ => self.written().map(drop),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.written();
    }
}

#[expect(clippy::needless_pass_by_value, reason = "who sends learns that this thread has ended")]
fn write(mut writer: Writer, blocks: Receiver<Block>) -> Result<Writer> {
    for block in &blocks {
        match block {
            Block::Samples(samples) => writer.samples(&samples)?,
            Block::Branched(samples, branches) => writer.branched(&samples, &branches)?,
            Block::Processes(processes) => writer.processes(&processes)?,
            Block::Threads(threads) => writer.threads(&threads)?,
            Block::Modules(modules) => writer.modules(&modules)?,
            Block::Events(events) => writer.events(&events)?,
            Block::Statistics(statistics) => writer.statistics(&statistics)?,
            Block::Marks(marks) => writer.marks(&marks)?,
            Block::Channels(channels) => writer.channels(&channels)?,
        }
    }
    Ok(writer)
}
