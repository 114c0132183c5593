//! A session: what one client's handle has asked for.

use super::io_buffer::{Refused, refused};
use crate::plan::program::Program;
use shared_types::ErrorCode;
use zerocopy::FromZeros;

/// A session's number: its slot plus 1 in this many low bits, and how often the slot has been used
/// above them.
pub(super) const SLOT_BITS: u32 = 8;

/// Who made a request: one open handle of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Client {
    /// Identifies the handle among those open now.
    pub handle: u64,
    /// The process that opened it.
    pub process: u32,
    /// It may see kernel addresses: it holds SeDebugPrivilege. Only CONFIGURE looks at this.
    pub kernel_addresses: bool,
}

/// Storage for one session, allocated by the host. All zeros: unused.
#[derive(Debug, FromZeros)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all are false in zeroed memory"
)]
pub struct Session {
    pub(crate) owned: bool,
    owner: Client,
    /// How many sessions have used this storage: part of the session's number.
    pub(crate) uses: u32,
    pub(crate) kernel: bool,
    pub(crate) approximate: bool,
    /// The session holds RDPMC in user mode.
    pub(crate) rdpmc: bool,
    /// Why the driver ended the session's last run.
    pub(crate) ended: Ended,
    pub(crate) program: Program,
}

/// Why a run was ended, or zeros if it was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub(crate) struct Ended {
    /// An [`ErrorCode`], whose documentation gives the meaning of `subject` and
    /// `detail`.
    pub(crate) error: u32,
    pub(crate) subject: u32,
    pub(crate) detail: u64,
}

impl Ended {
    /// The processor on which the session ended.
    pub(crate) fn processor(&self) -> u32 {
        let source_first = [ErrorCode::FixedCounterTaken, ErrorCode::NotByThread];
        if source_first.iter().any(|&code| code as u32 == self.error) {
            self.detail as u32
        } else {
            self.subject
        }
    }
}

impl Session {
    /// The client that owns the session.
    pub fn owner(&self) -> Option<Client> {
        self.owned.then_some(self.owner)
    }

    /// The process of its owner; 0 if it has none.
    pub(crate) fn process(&self) -> u32 {
        self.owner().map_or(0, |owner| owner.process)
    }

    /// Gives the session to a client.
    pub(crate) fn open(&mut self, owner: Client, kernel: bool, approximate: bool) {
        self.owned = true;
        self.owner = owner;
        self.uses = self.uses.wrapping_add(1);
        self.kernel = kernel;
        self.approximate = approximate;
        self.ended.zero();
        self.program.settings.count = 0;
    }

    /// Refuses the request if the driver ended the session's last run, and says why it did.
    pub(super) fn refuse_ended(&self) -> Result<(), Refused> {
        let Ended { error, subject, detail } = self.ended;
        match ErrorCode::from_wire(error) {
            Some(error) => Err(refused(error, subject, detail)),
            None => Ok(()),
        }
    }

    /// Refuses the request if the session does not sample.
    pub(super) fn must_sample(&self, number: u32) -> Result<(), Refused> {
        if self.program.settings.samples {
            Ok(())
        } else {
            Err(refused(ErrorCode::NotSampling, number, 0))
        }
    }

    /// Marks the session as unowned.
    pub(crate) fn close(&mut self) {
        self.owned = false;
        self.program.settings.count = 0;
    }
}

/// The slot of the session with this number, if it belongs to this handle.
pub(super) fn slot(sessions: &[Session], client: Client, number: u32) -> Result<usize, Refused> {
    let unknown = refused(ErrorCode::UnknownSession, number, 0);
    let low = number & ((1 << SLOT_BITS) - 1);
    let slot = low.checked_sub(1).ok_or(unknown)? as usize;
    let session = sessions.get(slot).ok_or(unknown)?;
    let owned = session.owner().is_some_and(|owner| owner.handle == client.handle);
    if owned && self::number(session, slot) == number { Ok(slot) } else { Err(unknown) }
}

/// The session with this number, if it belongs to this handle.
pub(super) fn find(
    sessions: &mut [Session],
    client: Client,
    number: u32,
) -> Result<&mut Session, Refused> {
    let slot = slot(sessions, client, number)?;
    sessions.get_mut(slot).ok_or(refused(ErrorCode::UnknownSession, number, 0))
}

/// A session's number: another each time that its slot is used, so that a client's old number is
/// refused and never names a stranger's session.
pub(super) fn number(session: &Session, slot: usize) -> u32 {
    session.uses << SLOT_BITS | (slot as u32 + 1)
}

/// What the client that configures a session may do.
#[derive(Clone, Copy)]
pub(crate) struct Rights {
    /// May count sources that only approximate their names.
    pub(crate) approximate: bool,
    /// May count kernel mode.
    pub(crate) kernel: bool,
    /// May see kernel addresses.
    pub(crate) kernel_addresses: bool,
}

impl Rights {
    /// Whether the client may count kernel mode and see its addresses.
    pub(crate) const fn sees_kernel(self) -> bool {
        self.kernel && self.kernel_addresses
    }
}
