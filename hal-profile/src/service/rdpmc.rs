//! RDPMC in user mode, which sessions hold: CR4.PCE is set for the first of them, and restored as
//! it was found after the last.

use super::by_thread::none_missing;
use super::io_buffer::{Answer, IoBuffer, Refused, refused};
use super::session::find;
use super::{Host, Service};
use crate::cpu::registers::cpuid::leaf1_ecx;
use crate::plan::cpu_set::ProcessorSet;
use crate::run::host::Processors;
use crate::run::rdpmc::RdpmcRefusal;
use crate::service::session::{Client, Session};
use core::sync::atomic::{AtomicU32, Ordering};
use shared_types::ErrorCode;
use shared_types::request::Plain;
use shared_types::request::rdpmc::Rdpmc;

/// The index that means no processor.
const NONE: u32 = u32::MAX;

impl<H: Host> Service<H> {
    pub(super) fn allow_rdpmc(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let (number, _) = self.named(client, io)?;
        io.need(size_of::<Rdpmc>())?;
        if self.suspended {
            return Err(refused(ErrorCode::Suspended, number, 0));
        }
        none_missing(self.missing)?;
        if self.rdpmc_holders() == 0 {
            self.set_rdpmc()?;
        }
        find(&mut self.sessions, client, number)?.rdpmc = true;
        self.rdpmc(io)
    }

    pub(super) fn release_rdpmc(&mut self, client: Client, io: &mut IoBuffer<'_>) -> Answer {
        let (_, slot) = self.named(client, io)?;
        io.need(size_of::<Rdpmc>())?;
        self.let_go_of_rdpmc(slot);
        self.rdpmc(io)
    }

    pub(super) fn rdpmc_status(&mut self, io: &mut IoBuffer<'_>) -> Answer {
        io.request::<Plain>(0)?;
        io.need(size_of::<Rdpmc>())?;
        self.rdpmc(io)
    }

    /// Releases a session's hold on RDPMC.
    pub(super) fn let_go_of_rdpmc(&mut self, slot: usize) {
        let Some(session) = self.sessions.get_mut(slot) else {
            return;
        };
        let held = core::mem::replace(&mut session.rdpmc, false);
        if held && self.rdpmc_holders() == 0 {
            self.clear_rdpmc();
        }
    }

    /// Restores CR4.PCE on every processor, when no session holds it any more.
    fn clear_rdpmc(&mut self) {
        self.processors.run_on_each::<()>(&ProcessorSet::ALL, &mut [], |local, _| {
            local.release_rdpmc();
        });
    }

    /// Sets CR4.PCE on every processor or, if one refuses, on none.
    pub(super) fn set_rdpmc(&mut self) -> Result<(), Refused> {
        let hypervisor = self
            .cpu_types
            .iter()
            .find(|(_, cpu_type)| cpu_type.identity.leaf1_ecx & leaf1_ecx::HYPERVISOR != 0);
        if let Some((cpu_type, _)) = hypervisor {
            let index = self.cpu_types.first_of(cpu_type) as u32;
            return Err(refused(ErrorCode::Hypervisor, index, 0));
        }
        let failed = AtomicU32::new(NONE);
        self.processors.run_on_each::<()>(&ProcessorSet::ALL, &mut [], |local, _| {
            if local.hold_rdpmc().is_err() {
                failed.fetch_min(local.index as u32, Ordering::Relaxed);
            }
        });
        let index = failed.into_inner();
        if index == NONE {
            return Ok(());
        }
        // The processor is asked again for the cause, which no atomic holds.
        let refusal = self.processors.run_on(index as usize, |local| local.hold_rdpmc().err());
        self.clear_rdpmc();
        Err(match refusal.flatten() {
            Some(RdpmcRefusal::Instruction) => refused(ErrorCode::RdpmcUnavailable, index, 0),
            Some(RdpmcRefusal::Pce(cr4)) => refused(ErrorCode::RdpmcRefused, index, cr4),
            None => refused(ErrorCode::RdpmcRefused, index, 0),
        })
    }

    pub(super) fn rdpmc_holders(&self) -> u32 {
        let holders = self.sessions.iter().filter(|session| session.holds_rdpmc());
        holders.count() as u32
    }

    fn rdpmc(&mut self, io: &mut IoBuffer<'_>) -> Answer {
        let counts = [const { AtomicU32::new(0) }; 3];
        self.processors.run_on_each::<()>(&ProcessorSet::ALL, &mut [], |local, _| {
            let (on, set_before) = local.look_at_rdpmc();
            for (count, of) in counts.iter().zip([true, on, set_before]) {
                count.fetch_add(of.into(), Ordering::Relaxed);
            }
        });
        let [processors, on, set_before] = counts.map(AtomicU32::into_inner);
        io.reply(|header| Rdpmc {
            header,
            holders: self.rdpmc_holders(),
            // A processor for which there was no memory counts too: RDPMC ends a program there.
            processors: processors + u32::from(self.missing.is_some()),
            enabled: on,
            enabled_before: set_before,
        })
    }
}

impl Session {
    fn holds_rdpmc(&self) -> bool {
        self.owned && self.rdpmc
    }
}
