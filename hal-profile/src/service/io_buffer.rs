//! The bytes of one request and its reply, with every length checked before a byte is read or
//! written.
//!
//! METHOD_BUFFERED uses one buffer for both, so the request is copied out before the first byte of
//! the reply is written.

use core::mem::offset_of;
use shared_types::request::machine::{From, Page};
use shared_types::request::session::Session;
use shared_types::{ErrorCode, NtStatus, ReplyHeader, RequestHeader, WIRE_VERSION};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Why a request is refused; becomes the reply's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub error: ErrorCode,
    /// See [`ErrorCode`].
    pub subject: u32,
    /// See [`ErrorCode`].
    pub detail: u64,
}

pub(super) const fn refused(error: ErrorCode, subject: u32, detail: u64) -> Refused {
    Refused { error, subject, detail }
}

/// Refuses a request whose reserved field at this offset is not 0.
pub(super) fn must_be_zero(offset: u32, value: u32) -> Result<(), Refused> {
    match value {
        0 => Ok(()),
        _ => Err(refused(ErrorCode::ReservedNotZero, offset, value.into())),
    }
}

/// The length of a reply, or the refusal.
pub(super) type Answer = Result<usize, Refused>;

/// One request's buffer.
pub(super) struct IoBuffer<'a> {
    buffer: &'a mut [u8],
    input: usize,
    output: usize,
}

impl<'a> IoBuffer<'a> {
    /// Wraps a buffer whose first `input` bytes are the request and which can hold a reply of
    /// `output` bytes.
    pub(super) fn new(buffer: &'a mut [u8], input: usize, output: usize) -> Result<Self, NtStatus> {
        let (input, output) = (input.min(buffer.len()), output.min(buffer.len()));
        // The answer is a status: there is no header to answer, or no room for one that says why.
        if input < size_of::<RequestHeader>() {
            return Err(NtStatus::INFO_LENGTH_MISMATCH);
        }
        if output < size_of::<ReplyHeader>() {
            return Err(NtStatus::BUFFER_TOO_SMALL);
        }
        Ok(Self { buffer, input, output })
    }

    /// The header, after every check that does not depend on the kind of request.
    pub(super) fn header(&self) -> Result<RequestHeader, Refused> {
        let too_short = refused(ErrorCode::WrongSize, self.input as u32, 16);
        let (header, _) = RequestHeader::read_from_prefix(self.buffer).map_err(|_| too_short)?;
        if header.version != WIRE_VERSION {
            return Err(refused(ErrorCode::VersionMismatch, header.version, WIRE_VERSION.into()));
        }
        if header.size as usize != self.input {
            return Err(refused(ErrorCode::WrongSize, header.size, self.input as u64));
        }
        must_be_zero(offset_of!(RequestHeader, reserved) as u32, header.reserved)?;
        Ok(header)
    }

    /// The whole request, which must be exactly a `T` with no flags beyond `flags`.
    ///
    /// The version is checked before the length: a request of another version may have another
    /// length.
    pub(super) fn request<T: FromBytes>(&self, flags: u32) -> Result<T, Refused> {
        self.header()?;
        if self.input != size_of::<T>() {
            return Err(refused(ErrorCode::WrongSize, self.input as u32, size_of::<T>() as u64));
        }
        self.head(flags)
    }

    /// The session named by a request that has no other fields.
    pub(super) fn session(&self) -> Result<u32, Refused> {
        let request = self.request::<Session>(0)?;
        must_be_zero(offset_of!(Session, reserved) as u32, request.reserved)?;
        Ok(request.session)
    }

    /// A request for a list.
    pub(super) fn from(&self, flags: u32) -> Result<From, Refused> {
        let request = self.request::<From>(flags)?;
        must_be_zero(offset_of!(From, reserved) as u32, request.reserved)?;
        Ok(request)
    }

    /// The head of a request that continues after a `T`.
    pub(super) fn head<T: FromBytes>(&self, flags: u32) -> Result<T, Refused> {
        let header = self.header()?;
        if header.flags & !flags != 0 {
            return Err(refused(ErrorCode::UnknownFlags, header.flags & !flags, flags.into()));
        }
        let request = self.buffer.get(..self.input).unwrap_or_default();
        T::read_from_prefix(request)
            .map(|(value, _)| value)
            .map_err(|_| refused(ErrorCode::WrongSize, self.input as u32, size_of::<T>() as u64))
    }

    /// The list of `T` that follows the first `head` bytes of the request.
    pub(super) fn elements<T: FromBytes>(&self, head: usize) -> impl Iterator<Item = T> {
        let list = self.buffer.get(head..self.input).unwrap_or_default();
        list.chunks_exact(size_of::<T>()).filter_map(|bytes| T::read_from_bytes(bytes).ok())
    }

    /// Length of the request, in bytes.
    pub(super) fn input(&self) -> usize {
        self.input
    }

    /// The most bytes that the reply may take.
    pub(super) fn output(&self) -> usize {
        self.output
    }

    /// Refuses the request if the reply needs more bytes than are available.
    pub(super) fn need(&self, bytes: usize) -> Result<(), Refused> {
        if bytes > self.output {
            Err(refused(ErrorCode::ReplyTooSmall, self.output as u32, bytes as u64))
        } else {
            Ok(())
        }
    }

    /// Writes a reply that is exactly a `T`, made with its header.
    pub(super) fn reply<T: IntoBytes + Immutable>(
        &mut self,
        reply: impl FnOnce(ReplyHeader) -> T,
    ) -> Answer {
        self.finish(size_of::<T>(), reply)
    }

    /// Writes the head of a reply of `length` bytes, if there is room for all of it.
    pub(super) fn finish<T: IntoBytes + Immutable>(
        &mut self,
        length: usize,
        head: impl FnOnce(ReplyHeader) -> T,
    ) -> Answer {
        self.need(length)?;
        self.put(0, &head(ReplyHeader::done(length)));
        Ok(length)
    }

    /// Writes a [`Page`] and as many of `elements`, which begin with number `first` of `total`, as
    /// the reply can hold.
    pub(super) fn page<T: IntoBytes + Immutable>(
        &mut self,
        first: usize,
        total: usize,
        elements: impl Iterator<Item = T>,
    ) -> Answer {
        let head = size_of::<Page>();
        self.need(head + if first < total { size_of::<T>() } else { 0 })?;
        let room = (self.output - head) / size_of::<T>();
        let mut count = 0;
        for element in elements.take(room) {
            self.put(head + count * size_of::<T>(), &element);
            count += 1;
        }
        let length = head + count * size_of::<T>();
        self.finish(length, |header| Page { header, count: count as u32, total: total as u32 })
    }

    /// Writes a `T` at an offset of the reply, if it fits.
    pub(super) fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, at: usize, value: &T) {
        let bytes = value.as_bytes();
        if let Some(place) = self.tail(at).get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// The reply's bytes from an offset on.
    pub(super) fn tail(&mut self, at: usize) -> &mut [u8] {
        self.buffer.get_mut(..self.output).and_then(|reply| reply.get_mut(at..)).unwrap_or_default()
    }
}
