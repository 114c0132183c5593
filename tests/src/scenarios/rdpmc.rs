//! Is CR4.PCE set on every processor while a session holds it, and otherwise as it was found?
//!
//! nt-model also refuses a write that changes another bit, a write under a hypervisor, and a PCE that
//! is not as it was found after unload. CR4 survives sleep, and user mode runs before D0Entry.

use crate::backend::{Backend, unbroken};
use crate::branches::with;
use crate::requests::spec;
use crate::wire::{RawClient, Reply, leaves, plain};
use hal_profile::cpu::machine::CR4_PCE;
use shared_types::ErrorCode::{Hypervisor, RdpmcRefused, Suspended};
use shared_types::request::rdpmc::{self, Rdpmc};
use shared_types::request::session::{START, STOP};

const TOTAL_ISSUES: u32 = 2;
const BRANCHES: u32 = 6;
const FIXED_CYCLES: u32 = 0x8000_0101;

scenarios![
    it_is_set_while_any_session_holds_it,
    it_goes_with_its_client_and_its_device,
    one_that_was_set_before_stays_set,
    it_stays_while_the_machine_sleeps_and_wakes,
    asleep_it_can_be_released,
    a_processor_that_is_added_has_it_too,
    where_it_does_not_stay_every_processor_is_as_it_was,
    under_a_hypervisor_it_is_not_written,
    counters_are_hidden_while_nobody_holds_it,
];

/// Whether it is set, processor by processor.
fn set<B: Backend>(client: &mut RawClient<B>) -> Vec<bool> {
    let cpus = client.model.cpus();
    cpus.iter().map(|cpu| cpu.processor.cr4() & CR4_PCE != 0).collect()
}

fn set_by_another<B: Backend>(client: &mut RawClient<B>, index: usize) {
    let processor = client.processor(index);
    processor.set_cr4(processor.cr4() | CR4_PCE);
}

/// Holders, processors, those with PCE set, and those on which it was found set.
fn numbers(reply: &Reply) -> [u32; 4] {
    let reply: Rdpmc = reply.done();
    [reply.holders, reply.processors, reply.enabled, reply.enabled_before]
}

fn status<B: Backend>(client: &mut RawClient<B>) -> [u32; 4] {
    numbers(&client.send(rdpmc::STATUS, &plain(0)))
}

fn it_is_set_while_any_session_holds_it<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 3);
    let (one, other) = (client.open(), client.open());
    for (session, code, expected, all) in [
        (one, rdpmc::ALLOW, [1, 3, 3, 0], true),
        (other, rdpmc::ALLOW, [2, 3, 3, 0], true),
        (one, rdpmc::RELEASE, [1, 3, 3, 0], true),
        (one, rdpmc::RELEASE, [1, 3, 3, 0], true),
        (other, rdpmc::RELEASE, [0, 3, 0, 0], false),
    ] {
        assert_eq!(numbers(&client.about(code, session)), expected);
        assert_eq!(set(&mut client), [all; 3]);
    }
    client.end();
}

fn it_goes_with_its_client_and_its_device<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 4);
    set_by_another(&mut client, 1);
    let one = client.open();
    let (other, found) = (client.other(5), [false, true, false, false]);
    let second = client.open_by(&other);
    client.granted(rdpmc::ALLOW, one);
    assert_eq!(numbers(&client.about_by(&other, rdpmc::ALLOW, second)), [2, 4, 4, 1]);
    unbroken(client.model.close(other));
    assert_eq!(set(&mut client), [true; 4]);
    client.replace_client(6);
    assert_eq!(set(&mut client), found);
    let last = client.open();
    client.granted(rdpmc::ALLOW, last);
    unbroken(client.model.surprise_remove());
    assert_eq!(set(&mut client), found);
    client.end();
}

fn one_that_was_set_before_stays_set<B: Backend>() {
    let mut client = RawClient::<B>::new("zen4", 3);
    set_by_another(&mut client, 1);
    let session = client.open();
    for _ in 0..2 {
        assert_eq!(numbers(&client.about(rdpmc::ALLOW, session)), [1, 3, 3, 1]);
        // The second time there is nothing to release.
        for _ in 0..2 {
            assert_eq!(numbers(&client.about(rdpmc::RELEASE, session)), [0, 3, 1, 1]);
        }
        assert_eq!(set(&mut client), [false, true, false]);
    }
    client.end();
}

fn it_stays_while_the_machine_sleeps_and_wakes<B: Backend>() {
    for held in [false, true] {
        let mut client = RawClient::<B>::new("skylake", 2);
        let session = client.open();
        if held {
            client.granted(rdpmc::ALLOW, session);
        }
        client.sleep();
        assert_eq!(set(&mut client), [held; 2], "user mode runs before D0Entry");
        assert_eq!(client.about(rdpmc::ALLOW, session).error(), Some(Suspended));
        client.wake();
        assert_eq!(set(&mut client), [held; 2]);
        assert_eq!(status(&mut client)[0], u32::from(held));
        client.end();
    }
}

fn asleep_it_can_be_released<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    let session = client.open();
    client.granted(rdpmc::ALLOW, session);
    client.sleep();
    assert_eq!(numbers(&client.about(rdpmc::RELEASE, session)), [0, 2, 0, 0]);
    client.wake();
    assert_eq!(set(&mut client), [false; 2]);
    client.end();
}

/// Asleep it joins like the others at waking.
fn a_processor_that_is_added_has_it_too<B: Backend>() {
    let one = &leaves("skylake", 1)[0];
    for held in [false, true] {
        let mut client = RawClient::<B>::new("skylake", 1);
        let session = client.open();
        if held {
            client.granted(rdpmc::ALLOW, session);
        }
        client.add_processor(one);
        assert_eq!(set(&mut client), [held; 2]);
        client.sleep();
        client.add_processor(one);
        assert_eq!(set(&mut client), [held, held, false]);
        client.wake();
        assert_eq!(set(&mut client), [held; 3]);
        client.granted(rdpmc::RELEASE, session);
        assert_eq!(set(&mut client), [false; 3]);
        client.end();
    }
}

fn where_it_does_not_stay_every_processor_is_as_it_was<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 4);
    set_by_another(&mut client, 3);
    client.processor(2).guard_pce();
    let session = client.open();
    let refusal = client.about(rdpmc::ALLOW, session).refusal();
    let cr4 = client.processor(2).cr4();
    assert_eq!(refusal, Some((RdpmcRefused, 2, cr4)));
    assert_eq!(set(&mut client), [false, false, false, true]);
    assert_eq!(status(&mut client), [0, 4, 1, 1]);
    client.end();
}

/// Nothing catches the #GP of a write that a hypervisor refuses.
fn under_a_hypervisor_it_is_not_written<B: Backend>() {
    for model in ["hyperv-root-intel", "hyperv-guest-masked", "kvm-amd"] {
        let mut client = RawClient::<B>::new(model, 2);
        let session = client.open();
        let refusal = client.about(rdpmc::ALLOW, session).refusal();
        assert_eq!(refusal, Some((Hypervisor, 0, 0)), "{model}");
        assert_eq!(set(&mut client), [false; 2]);
        client.sleep();
        client.wake();
        assert_eq!(set(&mut client), [false; 2]);
        assert_eq!(status(&mut client), [0, 2, 0, 0]);
        client.end();
    }
}

/// With RDPMC user disable (leaf 0x23 EBX bit 2; bit 37 of a select, bit 33 + 4n of the fixed
/// counters' control), user mode reads 0 from the counters of a session while no session holds RDPMC,
/// whoever has set CR4.PCE. What somebody has left in the bits hides no counter that is given.
fn counters_are_hidden_while_nobody_holds_it<B: Backend>() {
    const FIXED_CONTROL: u32 = 0x38D;
    const FIXED: [u32; 3] = [1 << 30, 1 << 30 | 1, 1 << 30 | 2];
    let can_hide = with(&leaves("hybrid", 1)[0], 0x23, |leaf| leaf.ebx |= 1 << 2);
    for left in [0, 1 << 33 | 1 << 37 | 1 << 41] {
        let mut client = RawClient::<B>::of(std::slice::from_ref(&can_hide));
        set_by_another(&mut client, 0);
        client.processor(0).wrmsr(FIXED_CONTROL, left).expect("the bits");
        client.model.others_wrote_registers();
        let holder = client.open();
        let sources = [TOTAL_ISSUES, BRANCHES, FIXED_CYCLES].map(spec);
        let number = client.configured(0, &sources);
        client.granted(START, number);
        let read = |client: &mut RawClient<B>, given: bool| {
            client.work("instructions=1000,cycles=2000,branches=300,ref-cycles=500");
            let processor = client.processor(0);
            let all: Vec<u32> = (0..8).chain(FIXED).collect();
            let in_kernel: Vec<u64> =
                all.iter().map(|&counter| processor.rdpmc(counter).unwrap_or(0)).collect();
            let in_user: Vec<u64> = all
                .iter()
                .map(|&counter| processor.rdpmc_in_user_mode(counter).unwrap_or(0))
                .collect();
            assert!(in_kernel.iter().filter(|&&value| value != 0).count() >= 3, "{in_kernel:?}");
            let seen = if given { in_kernel } else { vec![0; all.len()] };
            assert_eq!(in_user, seen, "{left:#x}");
        };
        read(&mut client, false);
        client.granted(rdpmc::ALLOW, holder);
        read(&mut client, true);
        client.granted(rdpmc::RELEASE, holder);
        read(&mut client, false);
        client.granted(STOP, number);
        client.granted(rdpmc::ALLOW, holder);
        client.granted(START, number);
        read(&mut client, true);
        client.granted(STOP, number);
        let control = client.processor(0).rdmsr(FIXED_CONTROL).expect("the register");
        assert_eq!(control & 0xFFFF, 0, "{left:#x}");
        client.end();
    }
}
