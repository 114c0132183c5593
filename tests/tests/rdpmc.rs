//! Is CR4.PCE set on every processor while a session holds it, and otherwise as it was found?
//!
//! The same of the core alone as nt-model's tests ask of the driver's binary.

use hal_profile::cpu::machine::CR4_PCE;
use halprof_tests::requests::{bytes, header};
use halprof_tests::wire::{Reply, Wire, leaves};
use shared_types::ErrorCode::{Hypervisor, RdpmcRefused, Suspended};
use shared_types::request::Plain;
use shared_types::request::rdpmc::{self, Rdpmc};
use sim::Processor;

fn processor(wire: &mut Wire, index: usize) -> &mut Processor {
    wire.model.processor(index).expect("a processor")
}

/// Whether it is set, processor by processor.
fn set(wire: &mut Wire) -> Vec<bool> {
    let count = wire.machine().processors as usize;
    let is_set = |index| processor(wire, index).cr4() & CR4_PCE != 0;
    (0..count).map(is_set).collect()
}

fn set_by_another(wire: &mut Wire, index: usize) {
    let processor = processor(wire, index);
    processor.set_cr4(processor.cr4() | CR4_PCE);
}

/// Holders, processors, those with PCE set, and those on which it was found set.
fn told(reply: &Reply) -> [u32; 4] {
    let told: Rdpmc = reply.done();
    [told.holders, told.processors, told.on, told.found]
}

fn status(wire: &mut Wire) -> [u32; 4] {
    let request = bytes(&Plain { header: header(0) }, &[]);
    told(&wire.send(rdpmc::STATUS, &request))
}

#[test]
fn it_is_set_while_any_session_holds_it() {
    let mut wire = Wire::new("skylake", 3);
    let (one, other) = (wire.open(), wire.open());
    for (session, code, expected, all) in [
        (one, rdpmc::ALLOW, [1, 3, 3, 0], true),
        (other, rdpmc::ALLOW, [2, 3, 3, 0], true),
        (one, rdpmc::RELEASE, [1, 3, 3, 0], true),
        (one, rdpmc::RELEASE, [1, 3, 3, 0], true),
        (other, rdpmc::RELEASE, [0, 3, 0, 0], false),
    ] {
        assert_eq!(told(&wire.about(code, session)), expected);
        assert_eq!(set(&mut wire), [all; 3]);
    }
    wire.about(rdpmc::ALLOW, one);
    wire.model.close(wire.handle);
    wire.handle = wire.other(5);
    assert_eq!(set(&mut wire), [false; 3], "its client is gone");
}

#[test]
fn one_that_was_set_before_stays_set() {
    let mut wire = Wire::new("zen4", 3);
    set_by_another(&mut wire, 1);
    let session = wire.open();
    for _ in 0..2 {
        let reply = wire.about(rdpmc::ALLOW, session);
        assert_eq!(told(&reply), [1, 3, 3, 1]);
        let reply = wire.about(rdpmc::RELEASE, session);
        assert_eq!(told(&reply), [0, 3, 1, 1]);
        assert_eq!(set(&mut wire), [false, true, false]);
    }
}

#[test]
fn it_stays_while_the_machine_sleeps_and_wakes() {
    for held in [false, true] {
        let mut wire = Wire::new("skylake", 2);
        let session = wire.open();
        if held {
            wire.about(rdpmc::ALLOW, session);
        }
        wire.model.sleep();
        assert_eq!(set(&mut wire), [held; 2], "user mode runs before D0Entry");
        let refused = wire.about(rdpmc::ALLOW, session).error();
        assert_eq!(refused, Some(Suspended));
        wire.model.wake();
        assert_eq!(set(&mut wire), [held; 2]);
        assert_eq!(status(&mut wire)[0], u32::from(held));
    }
}

/// Asleep it joins like the others at waking.
#[test]
fn a_processor_that_is_added_has_it_too() {
    let one = &leaves("skylake", 1)[0];
    for held in [false, true] {
        let mut wire = Wire::new("skylake", 1);
        let session = wire.open();
        if held {
            wire.about(rdpmc::ALLOW, session);
        }
        wire.model.add_processor(one);
        assert_eq!(set(&mut wire), [held; 2]);
        wire.model.sleep();
        wire.model.add_processor(one);
        assert_eq!(set(&mut wire), [held, held, false]);
        wire.model.wake();
        assert_eq!(set(&mut wire), [held; 3]);
        wire.about(rdpmc::RELEASE, session);
        assert_eq!(set(&mut wire), [false; 3]);
    }
}

#[test]
fn where_it_does_not_stay_every_processor_is_as_it_was() {
    let mut wire = Wire::new("skylake", 4);
    set_by_another(&mut wire, 3);
    processor(&mut wire, 2).guard_pce();
    let session = wire.open();
    let refusal = wire.about(rdpmc::ALLOW, session).refusal();
    let cr4 = processor(&mut wire, 2).cr4();
    assert_eq!(refusal, Some((RdpmcRefused, 2, cr4)));
    assert_eq!(set(&mut wire), [false, false, false, true]);
    assert_eq!(status(&mut wire), [0, 4, 1, 1]);
}

/// Nothing catches the #GP of a write that a hypervisor refuses.
#[test]
fn under_a_hypervisor_it_is_not_written() {
    for model in ["hyperv-root-intel", "hyperv-guest-masked", "kvm-amd"] {
        let mut wire = Wire::new(model, 2);
        let session = wire.open();
        let refusal = wire.about(rdpmc::ALLOW, session).refusal();
        assert_eq!(refusal, Some((Hypervisor, 0, 0)), "{model}");
        assert_eq!(set(&mut wire), [false; 2]);
        wire.model.sleep_and_wake();
        assert_eq!(set(&mut wire), [false; 2]);
    }
}
