//! Two processors on one unit.

use super::Processor;
use crate::cpu::counter::{Input, Value};
use crate::cpu::cpuid::Leaves;
use crate::cpu::event::{Counts, Event};
use crate::cpu::fault::Fault;
use crate::cpu::unit::{Unit, Watch};
use hal_profile::cpu::machine::CpuidResult;

const ACKNOWLEDGE: u32 = 0x400;

/// Requests the sibling's interrupt whenever anything happens, and holds its line until it is
/// acknowledged.
struct Crossed {
    asserted: u8,
}

impl Unit for Crossed {
    fn threads(&self) -> usize {
        2
    }

    fn read_msr(&mut self, _thread: usize, _msr: u32) -> Option<u64> {
        None
    }

    fn write_msr(&mut self, thread: usize, msr: u32, _: u64, _: &Counts) -> Option<bool> {
        (msr == ACKNOWLEDGE).then(|| {
            self.asserted &= !(1 << thread);
            true
        })
    }

    fn read_pmc(&mut self, thread: usize, _counter: u32) -> Result<u64, Fault> {
        Ok(thread as u64)
    }

    fn count(&mut self, thread: usize, _now: &Counts) -> u8 {
        self.asserted |= 1 << (1 - thread);
        self.asserted
    }

    fn watches(&self, _thread: usize, _visit: &mut dyn FnMut(Watch)) {}

    fn asserted(&self) -> u8 {
        self.asserted
    }

    fn counter_width(&self) -> u32 {
        40
    }

    fn masks_on_delivery(&self) -> bool {
        true
    }

    fn each_counter(&mut self, _visit: &mut dyn FnMut(&mut Value, &mut [Input])) {}

    fn reset(&mut self) {
        self.asserted = 0;
    }
}

fn processor(apic_id: u32) -> Processor {
    let mut leaves = Leaves::default();
    leaves.insert(
        1,
        CpuidResult { eax: 0xF43, ebx: apic_id << 24, edx: 0xBFEB_FBFF, ..CpuidResult::default() },
    );
    let mut processor = Processor::with_unit(leaves, Some(Box::new(Crossed { asserted: 0 })));
    processor.boot_windows();
    processor
}

fn pair() -> [Processor; 2] {
    let first = processor(0);
    let package = first.shared_package().expect("a unit of two threads");
    [first, processor(1).on(package)]
}

fn run(processor: &mut Processor) {
    let mut counts = *processor.counts();
    counts.set(Event::Cycles, counts.total(Event::Cycles) + 1, 0);
    processor.retire(counts);
}

#[test]
fn each_processor_is_its_own_thread() {
    let [mut first, mut second] = pair();
    assert_eq!((first.rdpmc(0), second.rdpmc(0)), (Ok(0), Ok(1)));
}

#[test]
fn an_interrupt_reaches_the_thread_that_the_unit_names() {
    let [mut first, mut second] = pair();
    run(&mut first);
    assert_eq!(first.interrupt_pending(), None);
    assert_eq!(second.acknowledge_interrupt(), Some(0xFE));
    assert_eq!(second.interrupt_pending(), None);
}

#[test]
fn a_line_held_active_is_seen_again_when_lvtpc_is_unmasked() {
    let [mut first, mut second] = pair();
    run(&mut first);
    assert_eq!(second.acknowledge_interrupt(), Some(0xFE));
    assert_eq!(second.read_apic(0x340), Ok(0x1_00FE));
    assert_eq!(second.write_apic(0x340, 0xFE), Ok(()));
    assert_eq!(second.acknowledge_interrupt(), Some(0xFE));
    assert_eq!(second.wrmsr(ACKNOWLEDGE, 0), Ok(()));
    assert_eq!(second.write_apic(0x340, 0xFE), Ok(()));
    assert_eq!(second.interrupt_pending(), None);
}

#[test]
fn a_request_to_a_masked_sibling_waits_only_while_the_line_is_held() {
    let [mut first, mut second] = pair();
    assert_eq!(second.write_apic(0x340, 0x1_00FE), Ok(()));
    run(&mut first);
    assert_eq!(second.interrupt_pending(), None);
    assert_eq!(second.write_apic(0x340, 0xFE), Ok(()));
    assert_eq!(second.interrupt_pending(), Some(0xFE));
}

#[test]
fn reset_drops_the_lines_of_both_threads() {
    let [mut first, mut second] = pair();
    run(&mut first);
    first.reset();
    assert_eq!(second.interrupt_pending(), None);
}
