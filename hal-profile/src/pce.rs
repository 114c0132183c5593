//! RDPMC in user mode on one processor: CR4.PCE, set while sessions hold it and then as it was
//! found.
//!
//! Each function runs on its processor, with interrupts masked.

use crate::host::Local;
use crate::machine::{CR4_PCE, Machine};
use crate::registers::cpuid::leaf1_ecx;
use zerocopy::FromZeros;

/// CR4.PCE of a processor, as the core keeps it.
#[derive(Clone, Copy, Debug, FromZeros)]
pub(crate) struct Pce {
    /// Sessions hold it.
    held: bool,
    /// It was set before they did.
    found: bool,
}

impl<M: Machine> Local<'_, M> {
    /// Sets it. Answers CR4 where the bit does not stay.
    ///
    /// Under a hypervisor it is not touched: a refused write of CR4 is a #GP, which nobody catches.
    pub(crate) fn hold_rdpmc(&mut self) -> Result<(), u64> {
        let identity = &self.state.capabilities.identity;
        if identity.leaf1_ecx & leaf1_ecx::HYPERVISOR != 0 {
            return Ok(());
        }
        let set = self.machine.read_cr4() & CR4_PCE != 0;
        if !self.state.pce.held {
            self.state.pce = Pce {
                held: true,
                found: set,
            };
        }
        if set {
            return Ok(());
        }
        self.machine.set_pce(true);
        let cr4 = self.machine.read_cr4();
        if cr4 & CR4_PCE == 0 { Err(cr4) } else { Ok(()) }
    }

    /// Nobody holds it any more: it is as it was found.
    pub(crate) fn release_rdpmc(&mut self) {
        let Pce { held, found } = self.state.pce;
        self.state.pce.held = false;
        if held && !found && self.machine.read_cr4() & CR4_PCE != 0 {
            self.machine.set_pce(false);
        }
    }

    /// Whether it is set now, and whether it was before sessions held it.
    pub(crate) fn look_at_rdpmc(&mut self) -> (bool, bool) {
        let set = self.machine.read_cr4() & CR4_PCE != 0;
        let Pce { held, found } = self.state.pce;
        (set, if held { found } else { set })
    }
}
