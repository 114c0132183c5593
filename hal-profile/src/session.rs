//! A session: what one client's handle has asked for.

use crate::program::Program;
use zerocopy::FromZeros;

/// Who made a request: one open handle of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Client {
    /// Identifies the handle among those open now.
    pub handle: u64,
    /// The process that opened it.
    pub process: u32,
    /// It may see kernel addresses: it holds SeDebugPrivilege. Looked at by CONFIGURE alone.
    pub kernel_addresses: bool,
}

/// Storage for one session, allocated by the host. All zeros: nobody uses it.
#[derive(Debug, FromZeros)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all are false in zeroed memory"
)]
pub struct Session {
    pub(crate) owned: bool,
    owner: Client,
    /// How often this storage has been used: part of the session's number.
    pub(crate) uses: u32,
    pub(crate) kernel: bool,
    pub(crate) approximate: bool,
    /// It holds RDPMC in user mode.
    pub(crate) rdpmc: bool,
    /// Why the driver has ended its last run.
    pub(crate) ended: Ended,
    pub(crate) program: Program,
}

/// Why a run was ended, or zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
pub(crate) struct Ended {
    /// [`shared_types::ErrorCode`], whose documentation says what the other two are.
    pub(crate) error: u32,
    pub(crate) subject: u32,
    pub(crate) detail: u64,
}

impl Session {
    /// Who owns it.
    #[must_use]
    pub fn owner(&self) -> Option<Client> {
        self.owned.then_some(self.owner)
    }

    /// The process of who owns it, 0 for none.
    pub(crate) fn process(&self) -> u32 {
        self.owner().map_or(0, |owner| owner.process)
    }

    /// A client takes it.
    pub(crate) fn open(&mut self, owner: Client, kernel: bool, approximate: bool) {
        self.owned = true;
        self.owner = owner;
        self.uses = self.uses.wrapping_add(1);
        self.kernel = kernel;
        self.approximate = approximate;
        self.ended.zero();
        self.program.settings.count = 0;
    }

    /// Nobody owns it any more.
    pub(crate) fn close(&mut self) {
        self.owned = false;
        self.program.settings.count = 0;
    }
}
