//! RDPMC in user mode on one processor: CR4.PCE, set while sessions hold it and then put back as it
//! was found. While none holds it, whoever else has set CR4.PCE does not see the counters of halprof
//! where the processor can hide them (RDPMC user disable).
//!
//! A session that counts by thread does not hide its counters: Windows reads them for the threads, no
//! document says at which privilege level, and a hidden counter reads as 0 there without a fault. Linux
//! shows those of its tasks too (59af95e0). While CR4.PCE is clear, user mode reads none.
//!
//! Each function runs on its processor, with interrupts masked.

use crate::cpu::counter::Counter;
use crate::cpu::machine::{CR4_PCE, Machine};
use crate::cpu::registers::cpuid::leaf1_ecx;
use crate::cpu::registers::intel;
use crate::plan::counter_config::reads_by_msr;
use crate::run::host::Local;
use crate::run::pmu;
use crate::run::state::Pce;

/// Why user mode cannot have RDPMC on a processor.
pub(crate) enum RdpmcRefusal {
    /// Ring 0's RDPMC raises an exception; a program's would end it.
    Instruction,
    /// CR4.PCE does not stay set; CR4.
    Pce(u64),
}

impl<M: Machine> Local<'_, M> {
    /// Sets CR4.PCE, unless RDPMC is refused.
    pub(crate) fn hold_rdpmc(&mut self) -> Result<(), RdpmcRefusal> {
        let identity = &self.state.capabilities.identity;
        // A hypervisor may refuse a write of CR4 with #GP, which nothing catches.
        if identity.leaf1_ecx & leaf1_ecx::HYPERVISOR != 0 {
            return Ok(());
        }
        let first = self.first_counter();
        if first.is_some_and(|pmc| self.machine.try_read_pmc(pmc).is_err()) {
            return Err(RdpmcRefusal::Instruction);
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
        // CR4 is read back: a hypervisor that intercepts the write without showing itself may drop
        // the bit.
        let cr4 = self.machine.read_cr4();
        if cr4 & CR4_PCE == 0 { Err(RdpmcRefusal::Pce(cr4)) } else { Ok(()) }
    }

    /// ECX of RDPMC for the lowest counter that it reaches.
    fn first_counter(&self) -> Option<u32> {
        let capabilities = &self.state.capabilities;
        let first = Counter::each(capabilities.all_counters())
            .find(|counter| !reads_by_msr(capabilities, *counter))?;
        let index = u32::from(first.index());
        Some(if first.is_fixed() { intel::RDPMC_FIXED | index } else { index })
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

    /// Whether user mode sees the counters, once CR4.PCE lets it read any.
    pub(crate) fn shows_counters(&self) -> bool {
        let by_thread = self.program.settings.by_thread;
        self.state.pce.held || by_thread || self.state.refusals.user_disable
    }

    fn show_counters(&mut self) {
        let shown = self.shows_counters();
        let state = &mut *self.state;
        pmu::show(self.machine, &state.capabilities, &mut state.active, shown);
    }

    /// Whether CR4.PCE is set now, and whether it was set before sessions held it.
    pub(crate) fn look_at_rdpmc(&mut self) -> (bool, bool) {
        let set = self.machine.read_cr4() & CR4_PCE != 0;
        let Pce { held, set_before } = self.state.pce;
        (set, if held { set_before } else { set })
    }
}
