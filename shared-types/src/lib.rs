//! The wire format between halprof.sys and its users, and the HAL's own profiling structures.
//!
//! Every request is one DeviceIoControl, METHOD_BUFFERED. A request begins with a
//! [`RequestHeader`], a reply with a [`ReplyHeader`]. A refusal is reported in the reply's header,
//! with its cause and what it concerns, so that no cause is lost in an NTSTATUS. The
//! DeviceIoControl itself fails only if a buffer is too short for the headers, the code is unknown,
//! an access right is missing or the device is not ready.
//!
//! Where to look: [`device`] has the device's names, [`hal`] the HAL's structures, [`request`] the
//! codes and their structures, [`ErrorCode`] every reason for refusal, [`Sample`] what an overflow
//! records.
//!
//! `no_std`, no `unsafe`, and every size asserted at compile time. All numbers are little-endian,
//! as on x86.
#![no_std]
#![forbid(unsafe_code)]
// People outside this project read the crate, so each public item is documented.
#![warn(missing_docs)]

mod branch;
pub mod device;
mod error;
mod event;
pub mod hal;
mod header;
mod interface;
pub mod request;
mod sample;
mod source;
mod text;

pub use branch::{Branch, BranchKind, BranchReason, BranchRecords, MAX_BRANCHES};
pub use error::{Concern, ErrorCode, NtStatus};
pub use event::{EventKind, SystemEvent};
pub use header::{ReplyHeader, RequestHeader, WIRE_VERSION};
pub use interface::{Delivery, ProfileInterface, Reason};
pub use sample::{LossCause, Mode, Sample};
pub use source::{ProfileSource, SourceNote, SourceTable};
pub use text::Text;
