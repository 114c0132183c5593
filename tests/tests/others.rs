//! What somebody else does to registers while halprof has them, or before it: only here, because
//! nt-model would take it for the driver's.

use halprof_tests::branches::recorders;
use halprof_tests::requests::spec;
use halprof_tests::stepped::Stepped;
use halprof_tests::wire::{leaves, with_quirks};
use shared_types::request::session::{SAMPLE, Spec};
use shared_types::{BranchRecords, ErrorCode};
use sim::cpu::event::Event;
use sim::machine::Model;

const TOTAL_ISSUES: u32 = 2;
const PERIOD: u64 = 10_000;
const LVTPC: u32 = 0x340;
const MASK: u32 = 1 << 16;

/// Whoever finds LVTPC masked and a status bit set leaves it to the next start there, also when a
/// session on other processors gives its handler back.
#[test]
fn what_was_found_masked_and_overflowed_stays_masked_until_it_is_started() {
    for (quirks, stays) in [("masked+stale-status", true), ("masked", false)] {
        let found: Vec<_> =
            leaves("skylake", 2).iter().map(|one| with_quirks(one, quirks)).collect();
        let mut machine = Stepped::<Model>::of(&found);
        machine.settings.processors[0] = 1;
        machine.run(SAMPLE, &[spec(TOTAL_ISSUES)]);
        machine.stop();
        for (index, masked) in [(0, false), (1, stays)] {
            let entry = machine.processor(index).read_apic(LVTPC).expect("xAPIC");
            assert_eq!(entry & MASK != 0, masked, "{quirks}: processor {index}");
        }
    }
}

/// Someone else records other branches from now on, or none.
#[test]
fn another_filter_or_switch_ends_the_session() {
    for recorder in recorders() {
        let (msr, bit) = match recorder.records {
            // OTHER_BRANCH of IA32_LBR_CTL.
            BranchRecords::Architectural => (0x14CE, 1 << 22),
            // The switch of DBG_EXTN_CFG.
            BranchRecords::AmdV2 => (0xC000_010F, 1 << 6),
            // The freeze of IA32_DEBUGCTL too: a debug exception clears only the switch.
            _ => (0x1D9, 1 << 11 | 1),
        };
        let mut machine = Stepped::<Model>::of(std::slice::from_ref(&recorder.leaves));
        machine.settings.branches = 8;
        machine.run(SAMPLE, &[Spec { filter: Spec::USER, interval: PERIOD, ..spec(TOTAL_ISSUES) }]);
        let theirs = machine.client.read(0, msr) & !bit;
        machine.client.write(0, msr, theirs);
        let retired = machine.processor(0).counts().total(Event::Instructions);
        machine.retire(0, &[(Event::Instructions, retired + PERIOD)]);
        assert!(machine.take_interrupt(0), "{}", recorder.name);
        let samples = machine.drain_with_branches();
        assert!(samples.iter().all(|(_, got)| got.is_empty()), "{}", recorder.name);
        assert_eq!(machine.ended_by(), Some(ErrorCode::BranchesChanged), "{}", recorder.name);
        assert_eq!(machine.client.read(0, msr), theirs, "{}", recorder.name);
    }
}
