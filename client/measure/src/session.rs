//! A session on the driver or on a model: it is configured, started, read and stopped. Dropping it
//! closes it, whatever happened before.

use crate::connection::Connection;
use crate::connection::{REPLY_BYTES, Setup, elements, flag_if, malformed};
use crate::error::{Error, Result};
use crate::transport::Transport;
use shared_types::ErrorCode;
use shared_types::hal::HalProfileSourceInterval;
use shared_types::request::RequestCode;
use shared_types::request::counts::{
    Changes, Count, SNAPSHOT, SNAPSHOT_BYTES_MAX, Snapshot, SnapshotPage,
};
use shared_types::request::events::{DRAIN_EVENTS, DrainedEvents, EVENTS_BYTES_MAX};
use shared_types::request::rdpmc::{self, Rdpmc};
use shared_types::request::samples::{DRAIN, DRAIN_BYTES_MAX, Drained, STATISTICS, Statistics};
use shared_types::request::session::{self, Configured, IntervalSet, SetInterval, UsedInterval};
#[cfg(windows)]
use shared_types::request::session::{Configure, Spec};
use shared_types::request::source;
use shared_types::request::threads::{self, ThreadCounter, Threads};
use shared_types::{Branch, ReplyHeader, RequestHeader, Sample, SystemEvent};
use std::mem::size_of;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// A session of this connection. Dropping it closes it.
#[derive(Debug)]
pub struct Session<'a, T: Transport> {
    connection: SessionConnection<'a, T>,
    number: u32,
    /// The length of a reply with every count, or with a page of them.
    counts_bytes: usize,
    /// Why the other side has ended the session.
    ended: Option<ErrorCode>,
    changes: Changes,
}

/// The connection of a session: borrowed, or its own.
#[derive(Debug)]
pub(crate) enum SessionConnection<'a, T> {
    Borrowed(&'a mut Connection<T>),
    Owned(Box<Connection<T>>),
}

impl<T> Deref for SessionConnection<'_, T> {
    type Target = Connection<T>;

    fn deref(&self) -> &Connection<T> {
        match self {
            Self::Borrowed(connection) => connection,
            Self::Owned(connection) => connection,
        }
    }
}

impl<T> DerefMut for SessionConnection<'_, T> {
    fn deref_mut(&mut self) -> &mut Connection<T> {
        match self {
            Self::Borrowed(connection) => connection,
            Self::Owned(connection) => connection,
        }
    }
}

/// How long a start is retried while the machine goes to sleep or wakes up.
const AWAKE: Duration = Duration::from_secs(1);

/// How many times a configuration that needs SeDebugPrivilege is requested. The driver looks for the
/// privilege in the thread that presents the request. If the request had to wait behind another
/// program's, that thread is not this program's, and the driver cannot see the privilege.
const TRIES: u32 = 3;

const fn lacks_privilege(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::KernelAddressesNotGranted | ErrorCode::BranchesKernelNotGranted)
}

/// Whether the other side ends sampling by itself for this reason. From then on it also answers
/// STOP with it.
const fn ends_sampling(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InterruptStorm
            | ErrorCode::FixedCounterTaken
            | ErrorCode::BranchesTaken
            | ErrorCode::BranchesChanged
            | ErrorCode::NotByThread
    )
}

/// What will be counted or sampled, as the other side has decided.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The multiplexing slices, the length of each in units of 100 ns, and the rings' length.
    pub head: Configured,
    /// One for each source.
    pub intervals: Vec<UsedInterval>,
}

impl<T: Transport> Session<'static, T> {
    /// Opens a session that keeps its connection; `kernel` asks for access to kernel mode.
    pub fn owning(connection: Connection<T>, kernel: bool, approximate: bool) -> Result<Self> {
        Self::open_with(SessionConnection::Owned(Box::new(connection)), kernel, approximate)
    }
}

impl<'a, T: Transport> Session<'a, T> {
    /// Opens a session; `kernel` asks for access to kernel mode.
    pub fn open(
        connection: &'a mut Connection<T>,
        kernel: bool,
        approximate: bool,
    ) -> Result<Self> {
        Self::open_with(SessionConnection::Borrowed(connection), kernel, approximate)
    }

    pub(crate) fn open_with(
        mut connection: SessionConnection<'a, T>,
        kernel: bool,
        approximate: bool,
    ) -> Result<Self> {
        let number = connection
            .open(flag_if(kernel, session::KERNEL) | flag_if(approximate, source::APPROXIMATE))?;
        Ok(Self {
            connection,
            number,
            counts_bytes: size_of::<Snapshot>(),
            ended: None,
            changes: Changes::default(),
        })
    }

    /// Sets what to count, or with `sample` what to sample.
    pub fn configure(&mut self, setup: &Setup, sample: bool) -> Result<Effective> {
        let flags = flag_if(sample, session::SAMPLE)
            | flag_if(setup.threads, session::THREADS)
            | flag_if(setup.events, session::EVENTS);
        let request = setup.request(self.number, flags);
        #[cfg(windows)]
        // Held for this request alone, so that a program that is started later does not inherit it.
        let _privilege =
            (sample && sees_kernel(setup)).then(crate::windows::DebugPrivilege::enable);
        let mut retries = 1..TRIES;
        let effective = loop {
            match self.request_configure(&request) {
                Err(Error::Refused(refusal))
                    if lacks_privilege(refusal.code) && retries.next().is_some() => {}
                effective => break effective?,
            }
        };
        let counts = setup.specs.len() * self.connection.processor_count()? as usize;
        let bytes = size_of::<Snapshot>() + counts * size_of::<Count>();
        self.counts_bytes = bytes.min(SNAPSHOT_BYTES_MAX);
        Ok(effective)
    }

    fn request_configure(&mut self, request: &[u8]) -> Result<Effective> {
        let (head, body) = self.connection.call::<Configured>(session::CONFIGURE, request)?;
        let intervals = elements(session::CONFIGURE, body, head.sources as usize)?;
        Ok(Effective { head, intervals })
    }

    /// Starts counting everywhere. While the machine is waking up, this retries for a second.
    pub fn start(&mut self) -> Result<()> {
        let until = Instant::now() + AWAKE;
        loop {
            match self.command(session::START) {
                Err(Error::Refused(refusal))
                    if refusal.code == ErrorCode::Suspended && Instant::now() < until =>
                {
                    std::thread::sleep(AWAKE / 20);
                }
                started => return started,
            }
        }
    }

    /// Reads every counter a last time and stops.
    pub fn stop(&mut self) -> Result<()> {
        self.command(session::STOP)
    }

    /// Stops sampling; returns why the other side had ended it by itself, if it had.
    pub fn stop_sampling(&mut self) -> Result<Option<ErrorCode>> {
        match self.stop() {
            Err(Error::Refused(refusal)) if ends_sampling(refusal.code) => {
                self.ended = Some(refusal.code);
            }
            Err(Error::Refused(refusal))
                if refusal.code == ErrorCode::NotRunning && self.ended.is_some() => {}
            stopped => stopped?,
        }
        Ok(self.ended)
    }

    /// Reads every counter a last time, stops, and returns the final counts as [`Self::snapshot`]
    /// does. It takes one request, unless the counts are too many to be returned with it.
    pub fn stop_and_read(&mut self) -> Result<Vec<Vec<Count>>> {
        // A STOP with a long buffer may fail for want of memory before the driver sees it, and
        // would stop nothing: see REPLY_BYTES. SNAPSHOT may be repeated.
        if self.counts_bytes > REPLY_BYTES {
            self.stop()?;
            return self.snapshot();
        }
        let (request, room) = (self.request(), self.counts_bytes);
        let (header, body) =
            self.connection.call_with_room::<ReplyHeader>(session::STOP, &request, room)?;
        // The session has stopped, but its counts did not fit into the room, as when a processor
        // was added.
        if header.size as usize == size_of::<ReplyHeader>() {
            return self.snapshot();
        }
        let reply = [header.as_bytes(), body].concat();
        let (head, body) = Snapshot::read_from_prefix(&reply)
            .map_err(|_| malformed(session::STOP, "it ends within its head"))?;
        self.changes = head.changes;
        counts(session::STOP, &head, body)
    }

    /// Every count: for each processor, one for each source, all read at once. Takes one request
    /// for each [`SNAPSHOT_BYTES_MAX`] of counts.
    pub fn snapshot(&mut self) -> Result<Vec<Vec<Count>>> {
        let (mut all, mut time) = (Vec::new(), None);
        loop {
            let request = SnapshotPage {
                header: RequestHeader::new(size_of::<SnapshotPage>(), 0),
                session: self.number,
                first: all.len() as u32,
            };
            let (head, body) = self.connection.call_with_room::<Snapshot>(
                SNAPSHOT,
                &request,
                self.counts_bytes,
            )?;
            self.changes = head.changes;
            let page = counts(SNAPSHOT, &head, body)?;
            // A request for a first page makes a new reading, and the counts of two readings do not
            // belong together.
            if *time.get_or_insert(head.time) != head.time {
                return Err(malformed(SNAPSHOT, "its pages are of two readings"));
            }
            let total = head.total as usize;
            if page.is_empty() && all.len() < total {
                let why = format!("it stops at {} of {total} processors", all.len());
                return Err(malformed(SNAPSHOT, why));
            }
            all.extend(page);
            if all.len() >= total {
                return Ok(all);
            }
        }
    }

    /// Takes samples out of the rings, without their branches; returns them and how many are left.
    pub fn drain(&mut self) -> Result<(Vec<Sample>, u64)> {
        let (samples, _, left) = self.drain_branches()?;
        Ok((samples, left))
    }

    /// The same with the branches of all samples, concatenated in the samples' order: as many as
    /// each sample says it has, newest first.
    pub fn drain_branches(&mut self) -> Result<(Vec<Sample>, Vec<Branch>, u64)> {
        let request = self.request();
        let (head, body) =
            self.connection.call_with_room::<Drained>(DRAIN, &request, DRAIN_BYTES_MAX)?;
        let (samples, branches) = match head.branches as usize {
            0 => (elements(DRAIN, body, head.count as usize)?, Vec::new()),
            depth => {
                let (count, bytes) = (head.count, body.len());
                split_branches(body, count as usize, depth).ok_or_else(|| {
                    let why =
                        format!("{bytes} bytes are not {count} samples with {depth} branches");
                    malformed(DRAIN, why)
                })?
            }
        };
        self.ended = ErrorCode::from_wire(head.ended);
        Ok((samples, branches, head.left))
    }

    /// Takes all system events out of their ring; returns them and how many did not fit into the
    /// ring since the last call.
    pub fn drain_events(&mut self) -> Result<(Vec<SystemEvent>, u64)> {
        let request = self.request();
        let (mut all, mut lost) = (Vec::new(), 0_u64);
        loop {
            let (head, body) = self.connection.call_with_room::<DrainedEvents>(
                DRAIN_EVENTS,
                &request,
                EVENTS_BYTES_MAX,
            )?;
            let events: Vec<SystemEvent> = elements(DRAIN_EVENTS, body, head.count as usize)?;
            lost = lost.saturating_add(head.lost);
            // A full ring takes more than one reply.
            let is_last = events.is_empty() || head.left == 0;
            all.extend(events);
            if is_last {
                return Ok((all, lost));
            }
        }
    }

    /// Why the other side has ended sampling by itself, as the last [`Self::drain`] reported.
    pub const fn ended(&self) -> Option<ErrorCode> {
        self.ended
    }

    /// How many samples were stored, and how many lost, by cause.
    pub fn statistics(&mut self) -> Result<Statistics> {
        let request = self.request();
        let statistics: Statistics = self.connection.head(STATISTICS, &request)?;
        self.changes = statistics.changes;
        Ok(statistics)
    }

    /// What others have changed in the session's registers, as the last reply with counts or
    /// statistics said.
    pub const fn changes(&self) -> Changes {
        self.changes
    }

    /// Sets the interval of one source, in events (ProfileTime: 100 ns); returns the one in use.
    pub fn set_interval(&mut self, source: u32, interval: u64) -> Result<UsedInterval> {
        let request = SetInterval {
            header: RequestHeader::new(size_of::<SetInterval>(), 0),
            session: self.number,
            reserved: 0,
            interval: HalProfileSourceInterval {
                source: source.cast_signed(),
                padding: 0,
                interval,
            },
        };
        let reply: IntervalSet = self.connection.head(session::SET_INTERVAL, &request)?;
        Ok(reply.interval)
    }

    /// For a running session that counts by thread: the mask for EnableThreadProfiling, and the
    /// counter of each source.
    pub(crate) fn thread_counters(&mut self) -> Result<(u64, Vec<ThreadCounter>)> {
        let request = self.request();
        let (head, body) = self.connection.call::<Threads>(threads::THREADS, &request)?;
        Ok((head.mask, elements(threads::THREADS, body, head.count as usize)?))
    }

    /// Lets every program on the machine read the counters by RDPMC, until this session is dropped.
    pub fn allow_rdpmc(&mut self) -> Result<Rdpmc> {
        let request = self.request();
        self.connection.head(rdpmc::ALLOW, &request)
    }

    /// The connection, for requests about the machine.
    pub fn connection(&mut self) -> &mut Connection<T> {
        &mut self.connection
    }

    /// The transport that carries the requests.
    pub fn transport(&mut self) -> &mut T {
        self.connection.transport()
    }

    fn command(&mut self, code: RequestCode) -> Result<()> {
        let request = self.request();
        self.connection.head::<ReplyHeader>(code, &request).map(drop)
    }

    const fn request(&self) -> session::Session {
        session::Session {
            header: RequestHeader::new(size_of::<session::Session>(), 0),
            session: self.number,
            reserved: 0,
        }
    }
}

/// The counts of a page, by processor.
fn counts(code: RequestCode, head: &Snapshot, body: &[u8]) -> Result<Vec<Vec<Count>>> {
    let [processors, sources] = [head.processors, head.sources].map(|size| size as usize);
    let counts: Vec<Count> = elements(code, body, processors.saturating_mul(sources))?;
    Ok(counts.chunks(sources.max(1)).map(<[Count]>::to_vec).collect())
}

/// Splits samples, each with room for `depth` branches after it; `None` if the bytes are not laid
/// out as they claim.
fn split_branches(body: &[u8], count: usize, depth: usize) -> Option<(Vec<Sample>, Vec<Branch>)> {
    let size = size_of::<Sample>() + depth.checked_mul(size_of::<Branch>())?;
    if count.checked_mul(size)? != body.len() {
        return None;
    }
    let (mut samples, mut branches) = (Vec::new(), Vec::new());
    for bytes in body.chunks_exact(size) {
        let (sample, room) = Sample::read_from_prefix(bytes).ok()?;
        let used = room.get(..usize::from(sample.branches) * size_of::<Branch>())?;
        for bytes in used.chunks_exact(size_of::<Branch>()) {
            branches.push(Branch::read_from_bytes(bytes).ok()?);
        }
        samples.push(sample);
    }
    Some((samples, branches))
}

/// Whether a setup asks for addresses in the kernel, of samples or of branches.
#[cfg(windows)]
fn sees_kernel(setup: &Setup) -> bool {
    setup.branch_filter & Configure::TO_KERNEL != 0
        || setup.specs.iter().any(|spec| spec.filter & Spec::KERNEL != 0)
}

impl<T: Transport> Drop for Session<'_, T> {
    fn drop(&mut self) {
        // If this request fails, closing the handle still closes the session.
        let _ = self.command(session::CLOSE);
    }
}

#[cfg(test)]
mod tests;
