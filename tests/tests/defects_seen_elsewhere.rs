//! Are the nine defect classes of a published driver for performance counters absent here?
//!
//! Five stand elsewhere: fields read before the length allows it and replies written where there is no
//! room in `wire.rs`; registers that are not the unit's in `lists.rs`; what a closed handle leaves, and
//! counters that are held by nobody's session, in the scenarios `leftovers` and `sessions`.

use halprof_tests::cases::{TOTAL_ISSUES, on_processor, set_interval, with_word};
use halprof_tests::requests::{self, configure, header, spec};
use halprof_tests::wire::{AMPLE, Wire};
use shared_types::ErrorCode;
use shared_types::request::session::{Configured, UsedInterval};
use shared_types::request::{RequestCode, counts, machine, samples, session};

#[test]
fn no_request_indexes_a_table_by_an_unchecked_number() {
    let mut wire = Wire::new("skylake", 2);
    let mine = wire.run(spec(TOTAL_ISSUES), session::SAMPLE);
    // IA32_LSTAR, IA32_SYSENTER_EIP and the local APIC's page among them.
    let addresses = [0xC000_0082, 0x176, 0xFEE0_0000];
    let numbers = (0..32).flat_map(|bit| [1 << bit, !(1u32 << bit)]);
    for number in numbers.chain([0, u32::MAX]).chain(addresses) {
        let first = machine::From { header: header(0), first: number, reserved: 0 };
        let first = requests::bytes(&first, &[]);
        for code in [machine::REGISTERS, machine::PROCESSORS] {
            let reply = wire.send(code, &first);
            if let Some(refusal) = reply.refusal() {
                assert!(number > 1, "{number}");
                assert_eq!(refusal, (ErrorCode::ProcessorUnknown, number, 2));
            }
        }
        for &(code, name) in RequestCode::ALL {
            if let session::STOP
            | session::CLOSE
            | session::START
            | counts::SNAPSHOT
            | samples::DRAIN
            | samples::STATISTICS = code
                && number != mine
            {
                let refusal = Some((ErrorCode::UnknownSession, number, 0));
                assert_eq!(wire.about(code, number).refusal(), refusal, "{name} {number}");
            }
        }
    }
}

#[test]
fn a_processor_beyond_those_that_are_there_is_refused() {
    let mut wire = Wire::new("skylake", 2);
    for processor in [2, 3, 63, 64, 127, 128, 2047] {
        let request = on_processor(wire.open(), processor);
        let reply = wire.send(session::CONFIGURE, &request);
        let refusal = Some((ErrorCode::ProcessorUnknown, processor, 2));
        assert_eq!(reply.refusal(), refusal);
        wire = Wire::new("skylake", 2);
    }
}

#[test]
fn counts_of_elements_do_not_wrap_a_length() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.open();
    let request = configure(number, 0, &[spec(TOTAL_ISSUES)]);
    // Multiplied by 32, each of them wraps 32 bits, some to a length that would be correct.
    for sources in [0x0800_0001, 0x1000_0001, 0x2000_0001, 0x8000_0001, u32::MAX] {
        let reply = wire.send(session::CONFIGURE, &with_word(&request, 20, sources));
        assert_eq!(reply.error(), Some(ErrorCode::TooManySources), "{sources:#x}");
    }
    let reply = wire.send(session::CONFIGURE, &with_word(&request, 20, 2));
    assert_eq!(reply.refusal(), Some((ErrorCode::WrongSize, 328, 360)));
}

#[test]
fn what_one_client_sets_is_no_other_clients() {
    let mut wire = Wire::new("skylake", 1);
    let other = wire.other(5);
    let mine = wire.configured(session::SAMPLE, &[spec(TOTAL_ISSUES)]);
    let set = wire.send(session::SET_INTERVAL, &set_interval(mine, TOTAL_ISSUES, 9999));
    assert_eq!(set.refusal(), None);
    let theirs = wire.open_by(&other);
    let request = configure(theirs, 0, &[spec(TOTAL_ISSUES)]);
    let reply = wire.send_by(&other, session::CONFIGURE, &request, AMPLE);
    let intervals: Vec<UsedInterval> = reply.elements::<Configured, _>();
    assert_eq!(intervals[0].used, 65536);
}
