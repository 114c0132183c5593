//! Typed requests: each method is one request of `shared_types::request`, validated in both
//! directions.

use crate::error::Refusal;
use crate::error::{Error, Result};
use crate::live_tracing::{Live, locked};
use crate::source::Source;
use crate::transport::Transport;
use shared_types::hal::HalProfileSourceInformation;
use shared_types::request::machine::{self, Hello, Machine, Page, Processor, Register, Registers};
use shared_types::request::rdpmc::{self, Rdpmc};
use shared_types::request::session::{
    Configure, MAX_PROCESSORS, OPEN, Opened, ProcessorBits, SAMPLE, Spec, THREADS,
};
use shared_types::request::source::{self, Information, Placement, Plan, Query};
use shared_types::request::{Plain, RequestCode};
use shared_types::{ErrorCode, NtStatus, ProfileSource, ReplyHeader, RequestHeader, WIRE_VERSION};
use std::mem::size_of;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// The first buffer offered for a reply; a reply that needs more says how much. Windows takes
/// memory for a buffer of this length before the driver sees the request, so it is kept short: a
/// STOP that found no memory would stop nothing.
pub(crate) const REPLY_BYTES: usize = 64 << 10;

/// Room for one page: every processor of the largest machine in one reply.
const PAGE_BYTES: usize = size_of::<Page>() + MAX_PROCESSORS * size_of::<Processor>();

/// The longest reply that is accepted: the protocol has none longer, so a reply that asks for more
/// is malformed, and no reason to take memory.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// A machine to measure on, and the side that answers for it.
#[derive(Debug)]
pub struct Connection<T> {
    transport: T,
    hello: Hello,
    /// Whether the other side has answered, in this version. After that, its errors mean something
    /// else: see [`later`].
    greeted: bool,
    /// The number of processors, once it has been asked for.
    processors: Option<u32>,
    requests: u64,
    output: Vec<u8>,
}

/// Whether sources fit together, by CPU type.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Whether all run at once on every processor.
    pub fits: bool,
    /// For each CPU type, one placement for each source.
    pub placements: Vec<Vec<Placement>>,
}

/// What a session or a plan is about.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// What to count.
    pub specs: Vec<Spec>,
    /// Where to count; empty means everywhere.
    pub processors: Vec<u32>,
    /// The length of a multiplexing slice, in units of 100 ns; 0 for the default.
    pub slice_100ns: u32,
    /// Accept sources that only approximate their names.
    pub approximate: bool,
    /// Windows accumulates the counters for each thread: see [`shared_types::request::threads`].
    pub threads: bool,
    /// How many branches are recorded for each sample: 0, 8, 16 or 32.
    pub branches: u16,
    /// Which branches, as [`shared_types::request::session::Configure`] encodes them; 0 for all.
    pub branch_filter: u16,
    /// System events are recorded: see [`shared_types::request::events`].
    pub events: bool,
}

impl Fit {
    /// Whether no source has to wait for its turn anywhere. Unlike `fits`, this also holds where a
    /// processor cannot count a source at all.
    pub fn at_once(&self) -> bool {
        let mut placements = self.placements.iter().flatten();
        placements.all(|placement| placement.error != 0 || placement.slice == 0)
    }
}

impl Setup {
    /// The CONFIGURE or PLAN request for this setup, with its specs after it.
    pub(crate) fn request(&self, session: u32, flags: u32) -> Vec<u8> {
        let size = size_of::<Configure>() + self.specs.as_bytes().len();
        let head = Configure {
            header: RequestHeader::new(size, flags),
            session,
            sources: self.specs.len() as u32,
            slice_100ns: self.slice_100ns,
            ring_samples: 0,
            slice_seed: 0,
            branches: self.branches,
            branch_filter: self.branch_filter,
            processors: processor_bits(&self.processors),
        };
        [head.as_bytes(), self.specs.as_bytes()].concat()
    }
}

fn processor_bits(processors: &[u32]) -> ProcessorBits {
    let mut bits = [0u64; MAX_PROCESSORS / 64];
    for &index in processors {
        if let Some(word) = bits.get_mut(index as usize / 64) {
            *word |= 1 << (index % 64);
        }
    }
    bits
}

impl<T: Transport> Connection<T> {
    /// Greets the other side; fails if it speaks another version. Without the driver nobody is there to
    /// be greeted, and only regions can be counted.
    pub fn new(transport: T) -> Result<Self> {
        let is_traced = transport.live().is_some();
        let mut connection = Self {
            transport,
            hello: Hello::new_zeroed(),
            greeted: false,
            processors: None,
            requests: 0,
            output: vec![0; REPLY_BYTES],
        };
        if !is_traced {
            connection.hello = connection.head(machine::HELLO, &plain(0))?;
            connection.greeted = true;
        }
        Ok(connection)
    }

    /// Who answers: the driver with its version, or the name of the modelled machine.
    pub fn driver_name(&self) -> &str {
        self.hello.driver_name.as_str()
    }

    /// Whether the machine is a model.
    pub fn modelled(&self) -> bool {
        let is_traced_model = |live: Live| locked(&*live.tracing).is_modelled();
        self.hello.modelled != 0 || self.live().is_some_and(is_traced_model)
    }

    /// What counts threads if nobody answers requests.
    pub(crate) fn live(&self) -> Option<Live> {
        self.transport.live()
    }

    /// How many requests have been sent so far.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// What carries the requests.
    pub const fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The machine as a whole.
    pub fn machine(&mut self) -> Result<Machine> {
        let machine: Machine = self.head(machine::DESCRIBE, &plain(0))?;
        self.processors = Some(machine.processors);
        Ok(machine)
    }

    /// How many processors the machine has; asked only once.
    pub(crate) fn processor_count(&mut self) -> Result<u32> {
        match self.processors {
            Some(processors) => Ok(processors),
            None => Ok(self.machine()?.processors),
        }
    }

    /// The machine's processors, in order of their index.
    pub fn processors(&mut self) -> Result<Vec<Processor>> {
        self.pages(machine::PROCESSORS, 0)
    }

    /// The machine's sources, unsupported ones included.
    pub fn sources(&mut self, approximate: bool) -> Result<Vec<Source>> {
        let flags = flag_if(approximate, source::APPROXIMATE);
        let all: Vec<source::Source> = self.pages(source::ENUMERATE, flags)?;
        let source = |one: &source::Source| {
            Source::from_wire(one).ok_or_else(|| {
                let source::Source { id, table, note, .. } = one;
                let why = format!(
                    "source {id:#x} is in no table known here (table {table}, note {note})"
                );
                malformed(source::ENUMERATE, why)
            })
        };
        all.iter().map(source).collect()
    }

    /// One source as the HAL describes it: whether the boot processor supports it, and the interval
    /// used when none is set.
    pub fn source_information(
        &mut self,
        source: u32,
        approximate: bool,
    ) -> Result<HalProfileSourceInformation> {
        let flags = flag_if(approximate, source::APPROXIMATE);
        let header = RequestHeader::new(size_of::<Query>(), flags);
        let request = Query { header, source, session: 0 };
        let reply: Information = self.head(source::QUERY, &request)?;
        Ok(reply.information)
    }

    /// The performance-monitoring registers of one processor, and the sources whose counters there
    /// have overflowed and not been handled yet.
    pub fn registers(&mut self, processor: u32) -> Result<(Vec<Register>, Vec<ProfileSource>)> {
        const CODE: RequestCode = machine::REGISTERS;
        let (head, body) = self.call::<Registers>(CODE, &from(processor, 0))?;
        let at = usize::try_from(head.overflow.sources).unwrap_or(usize::MAX);
        let (registers, sources) =
            body.split_at_checked(at.saturating_sub(size_of::<Registers>())).unwrap_or((body, &[]));
        let sources: Vec<u32> = elements(CODE, sources, head.overflow.number as usize)?;
        Ok((
            elements(CODE, registers, head.count as usize)?,
            sources.into_iter().map(ProfileSource).collect(),
        ))
    }

    /// Whether user mode may read the counters by RDPMC, on which processors, and who has enabled
    /// it.
    pub fn rdpmc(&mut self) -> Result<Rdpmc> {
        self.head(rdpmc::STATUS, &plain(0))
    }

    /// Whether sources that are counted fit together, and where.
    pub fn plan(&mut self, setup: &Setup) -> Result<Fit> {
        self.plan_for(setup, false)
    }

    /// The same for sources that are counted or sampled, as `sampling` says.
    pub(crate) fn plan_for(&mut self, setup: &Setup, sampling: bool) -> Result<Fit> {
        let flags = flag_if(setup.approximate, source::APPROXIMATE)
            | flag_if(sampling, SAMPLE)
            | flag_if(setup.threads, THREADS);
        let (plan, body) = self.call::<Plan>(source::PLAN, setup.request(0, flags).as_slice())?;
        let sources = plan.sources as usize;
        let placements: Vec<Placement> =
            elements(source::PLAN, body, sources.saturating_mul(plan.cpu_types as usize))?;
        Ok(Fit {
            fits: plan.fits != 0,
            placements: placements.chunks(sources.max(1)).map(<[Placement]>::to_vec).collect(),
        })
    }

    /// Opens a session and returns its number.
    pub(crate) fn open(&mut self, flags: u32) -> Result<u32> {
        let opened: Opened = self.head(OPEN, &plain(flags))?;
        Ok(opened.session)
    }

    /// Sends a request whose reply has nothing after its head.
    pub(crate) fn head<R: Reply>(
        &mut self,
        code: RequestCode,
        request: &(impl IntoBytes + Immutable + ?Sized),
    ) -> Result<R> {
        Ok(self.call::<R>(code, request)?.0)
    }

    /// Sends a request; returns the head of the reply and the bytes after it.
    pub(crate) fn call<R: Reply>(
        &mut self,
        code: RequestCode,
        request: &(impl IntoBytes + Immutable + ?Sized),
    ) -> Result<(R, &[u8])> {
        self.call_with_room(code, request, REPLY_BYTES)
    }

    /// Sends a request and offers `room` bytes for its reply, and more only if the reply needs it.
    pub(crate) fn call_with_room<R: Reply>(
        &mut self,
        code: RequestCode,
        request: &(impl IntoBytes + Immutable + ?Sized),
        room: usize,
    ) -> Result<(R, &[u8])> {
        let mut length = self.send(code, request.as_bytes(), room.min(REPLY_BYTES_MAX))?;
        // Once only: a side that needs more again contradicts itself, and its second refusal is the
        // error.
        if let Some(needed) = needs_more(self.output.get(..length).unwrap_or_default()) {
            length = self.send(code, request.as_bytes(), needed)?;
        }
        let reply = parse(code, self.output.get(..length).unwrap_or_default());
        reply.map_err(|error| if self.greeted { later(error) } else { error })
    }

    /// Sends one request; returns the length of the reply, which is in `output`.
    fn send(&mut self, code: RequestCode, input: &[u8], room: usize) -> Result<usize> {
        if self.output.len() < room {
            self.output.resize(room, 0);
        }
        self.requests += 1;
        let output = self.output.get_mut(..room).unwrap_or_default();
        let sent = self.transport.request(code, input, output);
        sent.map_err(|error| if self.greeted { later(error) } else { error })
    }

    fn pages<E: Reply>(&mut self, code: RequestCode, flags: u32) -> Result<Vec<E>> {
        let mut all: Vec<E> = Vec::new();
        loop {
            let request = from(all.len() as u32, flags);
            let (page, body) = self.call_with_room::<Page>(code, &request, PAGE_BYTES)?;
            let more: Vec<E> = elements(code, body, page.count as usize)?;
            let total = page.total as usize;
            // Else an empty page would be asked for again and again.
            if more.is_empty() && all.len() < total {
                return Err(malformed(code, format!("it stops at {} of {total}", all.len())));
            }
            all.extend(more);
            if all.len() >= total {
                return Ok(all);
            }
        }
    }
}

/// The flag, or 0.
pub(crate) const fn flag_if(set: bool, flag: u32) -> u32 {
    if set { flag } else { 0 }
}

/// A type that can be read from a reply.
pub(crate) trait Reply: FromBytes + Immutable + Copy {}
impl<R: FromBytes + Immutable + Copy> Reply for R {}

const fn plain(flags: u32) -> Plain {
    Plain { header: RequestHeader::new(size_of::<Plain>(), flags) }
}

const fn from(first: u32, flags: u32) -> machine::From {
    machine::From {
        header: RequestHeader::new(size_of::<machine::From>(), flags),
        first,
        reserved: 0,
    }
}

/// How many bytes a refused reply would have needed, if its size was the only problem.
fn needs_more(reply: &[u8]) -> Option<usize> {
    let (header, _) = ReplyHeader::read_from_prefix(reply).ok()?;
    let needed = usize::try_from(header.detail).ok()?;
    (ErrorCode::from_wire(header.error) == Some(ErrorCode::ReplyTooSmall)
        && needed <= REPLY_BYTES_MAX)
        .then_some(needed)
}

/// The error of a side that has answered before. That side knew the request, the handle had the
/// rights, and the client names only its own sessions, so one explanation is left: the device was
/// stopped or removed in the meantime.
fn later(error: Error) -> Error {
    let why = match error {
        Error::Status(
            NtStatus::ACCESS_DENIED | NtStatus::INVALID_DEVICE_REQUEST | NtStatus::DEVICE_NOT_READY,
        )
        | Error::Refused(Refusal { code: ErrorCode::UnknownSession, .. }) => error.to_string(),
        other => return other,
    };
    Error::DriverGone { why }
}

/// The head of a reply and the bytes after it, or the refusal that the reply carries.
fn parse<R: Reply>(code: RequestCode, reply: &[u8]) -> Result<(R, &[u8])> {
    let short = || malformed(code, format!("it has only {} bytes", reply.len()));
    let (header, _) = ReplyHeader::read_from_prefix(reply).map_err(|_| short())?;
    // This comes before everything else that the reply says, which another version may lay out
    // differently.
    if header.version != WIRE_VERSION {
        return Err(Error::Refused(Refusal {
            code: ErrorCode::VersionMismatch,
            subject: WIRE_VERSION,
            detail: header.version.into(),
            source: None,
        }));
    }
    if header.error != 0 {
        return Err(refusal(code, &header));
    }
    if header.size as usize != reply.len() {
        let why = format!("it has {} bytes and says {}", reply.len(), header.size);
        return Err(malformed(code, why));
    }
    R::read_from_prefix(reply).map_err(|_| short())
}

fn refusal(request: RequestCode, header: &ReplyHeader) -> Error {
    let ReplyHeader { error, subject, detail, .. } = *header;
    let Some(code) = ErrorCode::from_wire(error) else {
        let why = format!("it refuses with the unknown number {error}");
        return malformed(request, why);
    };
    Error::Refused(Refusal { code, subject, detail, source: None })
}

/// The error for a reply that does not follow the protocol.
pub(crate) fn malformed(code: RequestCode, why: impl Into<String>) -> Error {
    let known = RequestCode::ALL.iter().find(|(one, _)| *one == code);
    Error::Protocol { request: known.map_or("unknown", |(_, name)| name), why: why.into() }
}

/// Exactly `count` elements after the head of a reply.
pub(crate) fn elements<E: Reply>(code: RequestCode, body: &[u8], count: usize) -> Result<Vec<E>> {
    if count.checked_mul(size_of::<E>()) != Some(body.len()) {
        return Err(malformed(code, format!("{} bytes are not {count} elements", body.len())));
    }
    Ok(body
        .chunks_exact(size_of::<E>())
        .filter_map(|bytes| E::read_from_bytes(bytes).ok())
        .collect())
}

#[cfg(test)]
mod tests;
