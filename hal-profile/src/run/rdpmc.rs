//! RDPMC in user mode on one processor: CR4.PCE, set while sessions hold it and then put back as it
//! was found. While none holds it, whoever else has set CR4.PCE does not see the counters of halprof
//! where the processor can hide them (RDPMC user disable).
//!
//! Each function runs on its processor, with interrupts masked.

use crate::cpu::machine::{CR4_PCE, Machine};
use crate::cpu::registers::cpuid::leaf1_ecx;
use crate::run::host::Local;
use crate::run::pmu;
use crate::run::state::Pce;

impl<M: Machine> Local<'_, M> {
    /// Sets CR4.PCE. Returns CR4 as the error if the bit does not stay set.
    pub(crate) fn hold_rdpmc(&mut self) -> Result<(), u64> {
        let identity = &self.state.capabilities.identity;
        // A hypervisor may refuse a write of CR4 with #GP, which nothing catches.
        if identity.leaf1_ecx & leaf1_ecx::HYPERVISOR != 0 {
            return Ok(());
        }
        let set = self.machine.read_cr4() & CR4_PCE != 0;
        if !self.state.pce.held {
            self.state.pce = Pce { held: true, set_before: set };
        }
        self.show_counters();
        if set {
            return Ok(());
        }
        self.machine.set_pce(true);
        // Read back: one that intercepts CR4 without showing itself may drop the bit.
        let cr4 = self.machine.read_cr4();
        if cr4 & CR4_PCE == 0 { Err(cr4) } else { Ok(()) }
    }

    /// Restores CR4.PCE as it was found, once no session holds it any more.
    pub(crate) fn release_rdpmc(&mut self) {
        let Pce { held, set_before } = self.state.pce;
        self.state.pce.held = false;
        self.show_counters();
        if held && !set_before && self.machine.read_cr4() & CR4_PCE != 0 {
            self.machine.set_pce(false);
        }
    }

    fn show_counters(&mut self) {
        let state = &mut *self.state;
        pmu::show(self.machine, &state.capabilities, &mut state.active, state.pce.held);
    }

    /// Whether CR4.PCE is set now, and whether it was set before sessions held it.
    pub(crate) fn look_at_rdpmc(&mut self) -> (bool, bool) {
        let set = self.machine.read_cr4() & CR4_PCE != 0;
        let Pce { held, set_before } = self.state.pce;
        (set, if held { set_before } else { set })
    }
}
