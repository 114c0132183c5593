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
    /// RDMSR and WRMSR.
    pub msr: u64,
    pub rdpmc: u64,
    /// Reads and writes of the local APIC's page.
    pub apic: u64,
}

impl Cost {
    pub fn so_far(machine: &Machine) -> Self {
        let bus = machine.engine.bus_ref();
        // A stub's instruction stands for a function of the kernel: its work is not the driver's.
        let mut cost = Self { instructions: bus.executed - bus.calls, ..Self::default() };
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
            msr: self.msr - earlier.msr,
            rdpmc: self.rdpmc - earlier.rdpmc,
            apic: self.apic - earlier.apic,
        }
    }
}

/// The most instructions of a request on the thread that makes it, for any list that the wire can
/// carry: 0.6 ms at PASSIVE_LEVEL.
const THREAD_MOST: u64 = 2_000_000;
/// The most instructions of a request on each processor, in all its DPCs there: START's, self-test
/// included.
pub const PROCESSOR_MOST: u64 = 20_000;
/// Additional instructions there if START's self-test is repeated because an interrupt was late.
const TRIED_AGAIN: u64 = 18_000;

/// The instructions that one request has taken.
#[derive(Clone, Debug, Default)]
struct Account {
    code: u32,
    thread: u64,
    each: BTreeMap<usize, u64>,
}

/// The instructions of the driver that requests took, checked against their limits.
#[derive(Debug, Default)]
pub struct Budget {
    next: u64,
    open: BTreeMap<u64, Account>,
}

impl Budget {
    pub fn begin(&mut self, code: u32) -> u64 {
        self.next += 1;
        self.open.insert(self.next, Account { code, ..Account::default() });
        self.next
    }

    /// A request takes this many instructions: in a DPC on a processor, or on its thread.
    pub fn charge(
        &mut self,
        request: u64,
        processor: Option<usize>,
        instructions: u64,
    ) -> Result<(), Violation> {
        // The request's callback has returned: what one of its DPCs still does is charged to
        // nobody.
        let Some(account) = self.open.get_mut(&request) else {
            return Ok(());
        };
        let code = account.code;
        let (took, limit) = match processor {
            Some(index) => {
                let again = if code == START.0 { TRIED_AGAIN } else { 0 };
                (account.each.entry(index).or_default(), PROCESSOR_MOST + again)
            }
            None => (&mut account.thread, THREAD_MOST),
        };
        *took += instructions;
        if *took <= limit {
            return Ok(());
        }
        let whose = processor.map_or("its thread".to_owned(), |index| format!("processor {index}"));
        let what =
            format!("request {code:#x} runs {took} instructions on {whose}, at most {limit}");
        Err(Violation::new(Rule::Spin, what))
    }

    /// A request's callback has returned.
    pub fn end(&mut self, request: u64) {
        self.open.remove(&request);
    }
}
