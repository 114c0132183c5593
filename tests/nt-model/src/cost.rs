//! What the driver costs: its own instructions, and its accesses to the processor's registers.

use crate::machine::Machine;
use crate::rules::{Rule, Violation};
use shared_types::request::session::START;
use std::collections::BTreeMap;
use std::ops::Sub;

/// Amounts of work, over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions of the driver's image, without what the kernel does for it.
    pub instructions: u64,
    /// Functions of the kernel and of the framework that it called, and returns from its own.
    pub calls: u64,
    /// RDMSR and WRMSR.
    pub msr: u64,
    /// RDPMC.
    pub rdpmc: u64,
    /// Reads and writes of the local APIC's page.
    pub apic: u64,
}

impl Cost {
    /// The totals so far.
    #[must_use]
    pub fn so_far(machine: &Machine) -> Self {
        let bus = machine.engine.bus_ref();
        let mut cost =
            Self { instructions: bus.executed - bus.calls, calls: bus.calls, ..Self::default() };
        for cpu in &bus.cpus {
            let accesses = cpu.processor.accesses();
            cost.msr += accesses.rdmsr + accesses.wrmsr;
            cost.rdpmc += accesses.rdpmc;
            cost.apic += accesses.apic;
        }
        cost
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            instructions: self.instructions - earlier.instructions,
            calls: self.calls - earlier.calls,
            msr: self.msr - earlier.msr,
            rdpmc: self.rdpmc - earlier.rdpmc,
            apic: self.apic - earlier.apic,
        }
    }
}

/// The most instructions of a request on the thread that makes it, before the additions below.
const THREAD_MOST: u64 = 2_000_000;
/// Additional instructions for each processor, and for each sample that is moved; four of its
/// branches count as one more sample.
const EACH_PROCESSOR: u64 = 400;
const EACH_SAMPLE: u64 = 60;
/// Sources of the session that need no additional instructions, on any model and however they are
/// grouped.
const SOURCES: u64 = 100;
/// Additional instructions for each further source, which two things need: long lists, up to 300 for
/// each, and a second kind of processor, for which each source is assigned anew.
const EACH_FURTHER_SOURCE: u64 = 950;
/// The most instructions of a request on each processor, in all its DPCs there, for any number of
/// sources.
pub const PROCESSOR_MOST: u64 = 20_000;
/// Additional instructions there for interrupts that a request lets in, and what they have lost.
const LET_IN: u64 = 1_000;
/// Additional instructions there if START's self-test is repeated because an interrupt was late.
const TRIED_AGAIN: u64 = 18_000;

/// The instructions that one request has taken.
#[derive(Clone, Debug, Default)]
struct Account {
    code: u32,
    samples: u64,
    thread: u64,
    each: BTreeMap<usize, u64>,
}

/// The most that requests of one code have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Instructions on the thread that made it.
    pub thread: u64,
    /// The limit for that request on its thread.
    pub thread_limit: u64,
    /// Instructions on one processor.
    pub processor: u64,
}

/// The limits of requests, and the instructions of the driver that they took.
#[derive(Debug, Default)]
pub struct Budget {
    next: u64,
    open: BTreeMap<u64, Account>,
    /// By request code.
    pub most: BTreeMap<u32, Most>,
    /// The number of sources in the largest session that was configured.
    pub sources: u64,
    /// Requests are only measured, and not checked against the limits.
    pub only_measures: bool,
}

impl Budget {
    /// A request begins; it moves at most this many samples.
    pub fn begin(&mut self, code: u32, samples: u64) -> u64 {
        self.next += 1;
        let account = Account { code, samples, ..Account::default() };
        self.open.insert(self.next, account);
        self.next
    }

    /// A request has moved this many samples.
    pub fn moved(&mut self, request: u64, samples: u64) {
        if let Some(account) = self.open.get_mut(&request) {
            account.samples = samples;
        }
    }

    /// A request takes this many instructions: in a DPC on a processor, or on its thread.
    pub fn charge(
        &mut self,
        request: u64,
        on: Option<usize>,
        instructions: u64,
        processors: usize,
    ) -> Result<(), Violation> {
        let Some(account) = self.open.get_mut(&request) else {
            return Ok(());
        };
        let most = self.most.entry(account.code).or_default();
        let (took, limit) = if let Some(index) = on {
            let took = account.each.entry(index).or_default();
            *took += instructions;
            most.processor = most.processor.max(*took);
            (*took, account.processor_limit())
        } else {
            account.thread += instructions;
            (account.thread, account.thread_limit(processors, self.sources))
        };
        if took <= limit || self.only_measures {
            return Ok(());
        }
        let whose = on.map_or("its thread".to_owned(), |index| format!("processor {index}"));
        let what = format!(
            "request {:#x} runs {took} instructions on {whose}, at most {limit}",
            account.code
        );
        Err(Violation::new(Rule::Spin, what))
    }

    /// A request's callback has returned.
    pub fn end(&mut self, request: u64, processors: usize) -> Result<(), Violation> {
        self.charge(request, None, 0, processors)?;
        let Some(account) = self.open.remove(&request) else {
            return Ok(());
        };
        let most = self.most.entry(account.code).or_default();
        if account.thread > most.thread {
            most.thread = account.thread;
            most.thread_limit = account.thread_limit(processors, self.sources);
        }
        Ok(())
    }
}

impl Account {
    fn processor_limit(&self) -> u64 {
        if self.code == START.0 { PROCESSOR_MOST + TRIED_AGAIN } else { PROCESSOR_MOST + LET_IN }
    }

    fn thread_limit(&self, processors: usize, sources: u64) -> u64 {
        THREAD_MOST
            + EACH_PROCESSOR * processors as u64
            + EACH_SAMPLE * self.samples
            + EACH_FURTHER_SOURCE * sources.saturating_sub(SOURCES)
    }
}
