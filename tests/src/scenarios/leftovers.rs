//! Is a machine as it was found when a session stops, its client ends, the machine sleeps, or a
//! START is refused?

use crate::backend::{Backend, unbroken};
use crate::machines::{self, specs};
use crate::requests::{bytes, configure, header, spec};
use crate::wire::{RawClient, first, leaves, with_quirks};
use shared_types::request::machine::{From, PROCESSORS, Page, Processor};
use shared_types::request::session::{self, Configure, Spec};
use shared_types::request::{counts, rdpmc};
use shared_types::{ErrorCode, ProfileSource};
use std::mem::offset_of;

scenarios![
    a_client_that_vanishes_leaves_nothing_on,
    a_client_may_vanish_asleep,
    what_others_have_set_stays_as_it_is,
    what_others_turn_off_meanwhile_stays_off,
    the_local_apics_entry_stays_the_hals,
    the_local_apics_entry_stays_the_hals_in_x2apic_mode_too,
    raw_counters_are_off_after_their_client_too,
    both_counters_of_a_pentium_are_off_afterwards,
    a_pentium_4_is_left_with_every_cccr_off,
    every_fixed_counter_is_off_afterwards,
    a_device_that_is_removed_leaves_nothing_on,
    a_refused_start_leaves_the_registers_as_they_were,
    a_storm_where_nothing_runs_leaves_the_overflow_interrupt_masked,
];

const TOTAL_ISSUES: u32 = 2;
const BRANCH_INSTRUCTIONS: u32 = 6;
const TOTAL_CYCLES: u32 = 0x13;
const WORK: &str = "instructions=500000,cycles=600000,processors=all";

/// A machine of each interface and register layout: its model, the first select register and the
/// distance to the next, their number, the value of one that is off, and the other registers that
/// hold bits of a session.
pub(super) struct Layout {
    pub(super) model: &'static str,
    select: u32,
    stride: u32,
    selects: u32,
    off: u64,
    others: &'static [u32],
}

const GLOBAL_CTRL: u32 = 0x38F;
const FIXED_CTR_CTRL: u32 = 0x38D;
const AMD_GLOBAL_CTL: u32 = 0xC000_0301;
const CESR: u32 = 0x11;
const INTEL_GLOBAL: &[u32] = &[FIXED_CTR_CTRL, GLOBAL_CTRL];
/// CCCR with only ACTIVE_THREAD 11b, which the Pentium 4's manual requires.
const CCCR_OFF: u64 = 3 << 16;
/// CRU_ESCR0 and 1, where instr_retired is selected.
const ESCRS: &[u32] = &[0x3B8, 0x3B9];

const fn layout(model: &'static str, select: u32, stride: u32, selects: u32) -> Layout {
    Layout { model, select, stride, selects, off: 0, others: &[] }
}

pub(super) const LAYOUTS: &[Layout] = &[
    layout("pentium", CESR, 1, 1),
    layout("pentium-mmx", CESR, 1, 1),
    layout("pentium3", 0x186, 1, 2),
    layout("pentium-m", 0x186, 1, 2),
    Layout { off: CCCR_OFF, others: ESCRS, ..layout("pentium4", 0x360, 1, 18) },
    Layout { off: CCCR_OFF, others: ESCRS, ..layout("pentium4-ht", 0x360, 1, 18) },
    layout("yonah", 0x186, 1, 2),
    Layout { others: INTEL_GLOBAL, ..layout("core2", 0x186, 1, 2) },
    Layout { others: INTEL_GLOBAL, ..layout("skylake", 0x186, 1, 4) },
    Layout { others: INTEL_GLOBAL, ..layout("sapphire-rapids", 0x186, 1, 8) },
    layout("k8", 0xC001_0000, 1, 4),
    layout("fam10h", 0xC001_0000, 1, 4),
    layout("bulldozer", 0xC001_0200, 2, 6),
    layout("zen2", 0xC001_0200, 2, 6),
    Layout { others: &[AMD_GLOBAL_CTL], ..layout("zen4", 0xC001_0200, 2, 6) },
];

impl Layout {
    /// The Pentium has no interrupt, so it can only count.
    pub(super) fn samples(&self) -> bool {
        self.select != CESR
    }

    pub(super) fn flags(&self) -> &'static [u32] {
        if self.samples() { &[0, session::SAMPLE] } else { &[0] }
    }

    /// The registers that hold bits of a session.
    fn controls(&self) -> impl Iterator<Item = u32> {
        let selects = (0..self.selects).map(|index| self.select + index * self.stride);
        selects.chain(self.others.iter().copied())
    }

    fn counters(&self) -> impl Iterator<Item = u32> {
        let (first, count) = match self.select {
            CESR => (0x12, 2),
            0x186 => (0xC1, self.selects),
            0x360 => (0x300, self.selects),
            0xC001_0000 => (0xC001_0004, self.selects),
            _ => (0xC001_0201, self.selects),
        };
        (0..count).map(move |counter| first + counter * self.stride)
    }
}

/// Two processors of a layout, with a client.
pub(super) fn machine<B: Backend>(layout: &Layout) -> RawClient<B> {
    RawClient::new(layout.model, 2)
}

pub(super) fn assert_all_off<B: Backend>(client: &mut RawClient<B>, layout: &Layout, when: &str) {
    let mut untouched = sim::machine::Model::new(&leaves(layout.model, 1));
    for index in 0..client.model.cpus().len() {
        for msr in layout.controls() {
            // The global control is as it was found. NetBurst's selects are 0 after reset.
            let off = match msr {
                GLOBAL_CTRL | AMD_GLOBAL_CTL => {
                    untouched.processor(0).expect("one").rdmsr(msr).expect("it is there")
                }
                _ if layout.others.contains(&msr) => 0,
                _ => layout.off,
            };
            let value = client.read(index, msr);
            assert!(
                value == off || (value == 0 && layout.off == CCCR_OFF),
                "{} {when}: {msr:#x} of processor {index} is {value:#x}",
                layout.model
            );
        }
    }
}

pub(super) fn assert_some_on<B: Backend>(client: &mut RawClient<B>, layout: &Layout) {
    for index in 0..2 {
        let is_on = |value: u64| value != layout.off && value != 0;
        // The global control may be on before.
        let mut controls =
            layout.controls().filter(|msr| ![GLOBAL_CTRL, AMD_GLOBAL_CTL].contains(msr));
        let on = controls.any(|msr| is_on(client.read(index, msr)));
        assert!(on, "{}: nothing is on on processor {index}", layout.model);
    }
}

fn counters<B: Backend>(client: &mut RawClient<B>, layout: &Layout) -> Vec<u64> {
    let all = (0..2).flat_map(|index| layout.counters().map(move |msr| (index, msr)));
    all.map(|(index, msr)| client.read(index, msr)).collect()
}

/// Nothing counts, nothing is held, no memory is taken.
fn assert_nobody_counts<B: Backend>(client: &mut RawClient<B>) {
    let machine = client.machine();
    assert_eq!((machine.ring_bytes, machine.active_session), (0, 0));
}

fn a_client_that_vanishes_leaves_nothing_on<B: Backend>() {
    for layout in LAYOUTS {
        for &flags in layout.flags() {
            let mut client = machine::<B>(layout);
            client.run(spec(TOTAL_ISSUES), flags);
            client.begin(WORK);
            client.advance(300_000);
            assert_some_on(&mut client, layout);
            client.replace_client(9);
            assert_all_off(&mut client, layout, "after its client");
            assert_nobody_counts(&mut client);
            let counted = counters(&mut client, layout);
            while client.advance(u64::MAX / 4) {}
            assert_eq!(counters(&mut client, layout), counted, "{} goes on", layout.model);
            let number = client.run(spec(TOTAL_ISSUES), flags);
            client.granted(session::STOP, number);
            assert_all_off(&mut client, layout, "stopped");
            client.end();
        }
    }
}

fn a_client_may_vanish_asleep<B: Backend>() {
    for layout in LAYOUTS {
        for &flags in layout.flags() {
            let mut client = machine::<B>(layout);
            client.run(spec(TOTAL_ISSUES), flags);
            client.sleep();
            client.replace_client(9);
            client.wake();
            assert_nobody_counts(&mut client);
            (0..2).for_each(|index| client.processor(index).reset_accesses());
            client.work("instructions=400000,cycles=500000,processors=all");
            for index in 0..2 {
                let accesses = client.processor(index).accesses();
                assert_eq!((accesses.wrmsr, accesses.rdpmc), (0, 0), "{}", layout.model);
            }
            client.run(spec(TOTAL_ISSUES), flags);
            client.end();
        }
    }
}

/// A register, bits of it that belong to someone else, and the bits that are compared.
type Foreign = (&'static str, u32, u64, u64);

/// Bits that a session with one source on the first counter has nothing to do with.
const FOREIGN: &[Foreign] = &[
    // General counters 2 and 3 and fixed counter 2.
    ("skylake", GLOBAL_CTRL, 0x4_0000_000C, 0x4_0000_000C),
    // Fixed counter 2 counts in user mode.
    ("skylake", FIXED_CTR_CTRL, 0x200, 0xF00),
    ("skylake", 0x189, 0x0041_003C, u64::MAX),
    ("core2", 0x187, 0x0041_003C, u64::MAX),
    ("yonah", 0x187, 0x0041_003C, u64::MAX),
    // The other half, which counts instructions in user mode, and both pins.
    ("pentium", CESR, 0x0096_0000, 0x03FF_0000),
    ("k8", 0xC001_0003, 0x0041_0076, u64::MAX),
    ("zen2", 0xC001_020A, 0x0041_0076, u64::MAX),
    ("zen4", AMD_GLOBAL_CTL, 0x20, 0x20),
    ("zen4", 0xC001_020A, 0x0041_0076, u64::MAX),
    ("pentium3", 0x187, 0x0001_0079, u64::MAX),
    // CCCR of counter 2, which is on the other thread's side: ESCR select 1, thread any.
    ("pentium4-ht", 0x362, 0x0003_2000, u64::MAX),
];

fn what_others_have_set_stays_as_it_is<B: Backend>() {
    for &(model, msr, value, mask) in FOREIGN {
        let sampled = if model == "pentium" { 0 } else { session::SAMPLE };
        for flags in [0, sampled] {
            let mut client = RawClient::<B>::new(model, 1);
            client.write(0, msr, value);
            let value = client.read(0, msr) & mask;
            assert_ne!(value, 0);
            let look = |client: &mut RawClient<B>, when: &str| {
                let now = client.read(0, msr) & mask;
                assert_eq!(now, value, "{model} {msr:#x} {when}, flags {flags}");
            };
            let number = client.run(spec(TOTAL_ISSUES), flags);
            look(&mut client, "while it counts");
            client.work("instructions=500000,cycles=600000");
            look(&mut client, "after interrupts");
            client.granted(counts::SNAPSHOT, number);
            look(&mut client, "after a snapshot");
            client.granted(session::STOP, number);
            look(&mut client, "afterwards");
            client.end();
        }
    }
}

/// Counters that somebody else has on in a global control when START comes, and those that are left
/// on when that owner turns some off during the session.
const TURNED_OFF: &[(&str, u32, u64, u64)] = &[
    ("skylake", GLOBAL_CTRL, 0xC, 0),
    ("zen4", AMD_GLOBAL_CTL, 0x20, 0),
    // Here a freeze clears the whole register: with one bit left, there was none.
    ("haswell", GLOBAL_CTRL, 0xC, 0x8),
];

fn what_others_turn_off_meanwhile_stays_off<B: Backend>() {
    for &(model, msr, found, left) in TURNED_OFF {
        for flags in [0, session::SAMPLE] {
            let mut client = RawClient::<B>::new(model, 1);
            client.write(0, msr, found);
            let number = client.run(spec(TOTAL_ISSUES), flags);
            let running = client.read(0, msr);
            client.write(0, msr, running & !found | left);
            client.model.others_wrote_registers();
            client.work("instructions=500000,cycles=600000");
            client.granted(session::STOP, number);
            assert_eq!(client.read(0, msr) & found, left, "{model}, flags {flags}");
            client.end();
        }
    }
}

/// SDM vol. 3A, "Local Vector Table": LVTPC in the APIC's page, and its mask in bit 16.
const LVTPC: u32 = 0x340;
const MASK: u32 = 1 << 16;

fn lvtpc<B: Backend>(client: &mut RawClient<B>, index: usize) -> u32 {
    client.processor(index).read_apic(LVTPC).expect("xAPIC mode")
}

fn the_local_apics_entry_stays_the_hals<B: Backend>() {
    for layout in LAYOUTS.iter().filter(|layout| layout.samples()) {
        let mut client = machine::<B>(layout);
        let before = lvtpc(&mut client, 0);
        assert_eq!(before, 0xFE, "as Windows leaves it");
        let number = client.run(spec(TOTAL_ISSUES), session::SAMPLE);
        client.work(WORK);
        let generated = client.statistics(number).generated;
        assert!(generated >= 10, "{}: it was interrupted", layout.model);
        assert_eq!(lvtpc(&mut client, 0) & !MASK, before, "{}", layout.model);
        client.granted(session::STOP, number);
        assert_eq!(lvtpc(&mut client, 0), before, "{}", layout.model);
        client.end();
    }
}

fn the_local_apics_entry_stays_the_hals_in_x2apic_mode_too<B: Backend>() {
    const LVTPC: u32 = 0x834;
    // An id above 255 requires x2APIC mode.
    let all = leaves("skylake", 300);
    let mut client = RawClient::<B>::of(&all[299..]);
    assert_eq!(client.read(0, LVTPC), 0xFE, "as Windows leaves it");
    let number = client.run(spec(TOTAL_ISSUES), session::SAMPLE);
    client.work("instructions=500000,cycles=600000");
    let generated = client.statistics(number).generated;
    assert_eq!(generated, 7, "every interrupt came: 500,000 / 65,536");
    client.granted(session::STOP, number);
    assert_eq!(client.read(0, LVTPC), 0xFE);
    client.end();
}

fn raw_counters_are_off_after_their_client_too<B: Backend>() {
    let layout = LAYOUTS.iter().find(|layout| layout.model == "skylake").expect("a row");
    let mut client = machine::<B>(layout);
    let raw = Spec { raw: 0xC0, ..spec(ProfileSource::RAW.0) };
    client.run(raw, session::SAMPLE);
    assert_some_on(&mut client, layout);
    client.replace_client(9);
    assert_all_off(&mut client, layout, "after its client");
    client.end();
}

/// Both halves of CESR.
fn both_counters_of_a_pentium_are_off_afterwards<B: Backend>() {
    for model in ["pentium", "pentium-mmx"] {
        let mut client = RawClient::<B>::new(model, 1);
        let before = client.read(0, CESR);
        let both = [spec(TOTAL_ISSUES), spec(BRANCH_INSTRUCTIONS)];
        let number = client.configured(0, &both);
        client.granted(session::START, number);
        let half = |value: u64, index: u32| value >> (16 * index) & 0x1FF;
        let on = client.read(0, CESR);
        assert!(half(on, 0) != 0 && half(on, 1) != 0, "{model}: {on:#x}");
        client.granted(session::STOP, number);
        assert_eq!(client.read(0, CESR), before, "{model}");
        client.end();
    }
}

/// Reset leaves CCCRs 0; a session turns off all that it may use, in the way that the manual
/// requires. Counter 1 is not used.
fn a_pentium_4_is_left_with_every_cccr_off<B: Backend>() {
    let mut client = RawClient::<B>::new("pentium4", 1);
    let number = client.configured(0, &[spec(TOTAL_ISSUES), spec(TOTAL_CYCLES)]);
    client.granted(session::START, number);
    client.granted(session::STOP, number);
    for cccr in (0x360..0x372).filter(|&cccr| cccr != 0x361) {
        assert_eq!(client.read(0, cccr), CCCR_OFF, "{cccr:#x}");
    }
    client.end();
}

fn every_fixed_counter_is_off_afterwards<B: Backend>() {
    let list = "FixedInstructions,FixedCycles,FixedReferenceCycles";
    let specs = specs(&mut machines::machine("skylake", 1), list);
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.configured(0, &specs);
    let before = client.read(0, FIXED_CTR_CTRL);
    client.granted(session::START, number);
    assert_eq!(client.read(0, FIXED_CTR_CTRL), 0x333, "in user and kernel mode");
    client.granted(session::STOP, number);
    assert_eq!(client.read(0, FIXED_CTR_CTRL), before);
    client.end();
}

/// The device goes while a session runs, whose client also holds RDPMC.
fn a_device_that_is_removed_leaves_nothing_on<B: Backend>() {
    for layout in LAYOUTS {
        for &flags in layout.flags() {
            let mut client = machine::<B>(layout);
            let number = client.run(spec(TOTAL_ISSUES), flags);
            client.granted(rdpmc::ALLOW, number);
            unbroken(client.model.surprise_remove());
            assert_all_off(&mut client, layout, "after the device");
            client.end();
        }
    }
}

/// Counters that do not count prevent every session, and interrupts that do not come those that
/// sample.
fn a_refused_start_leaves_the_registers_as_they_were<B: Backend>() {
    for layout in LAYOUTS {
        for option in ["dead-counters", "dead-interrupts"] {
            for &flags in layout.flags() {
                let leaves = with_quirks(&first(layout.model), option);
                let mut client = RawClient::<B>::of(&[leaves]);
                let before = all_registers(&mut client, layout);
                let number = client.configured(flags, &[spec(TOTAL_ISSUES)]);
                let case = format!("{} {option} {flags}", layout.model);
                let refused = client.about(session::START, number).error();
                let expected = match (option, flags) {
                    ("dead-counters", _) => Some(ErrorCode::CountersDead),
                    (_, session::SAMPLE) => Some(ErrorCode::InterruptsDead),
                    _ => None,
                };
                assert_eq!(refused, expected, "{case}");
                if refused.is_some() {
                    let after = all_registers(&mut client, layout);
                    let left = before.iter().zip(&after);
                    let mut differ = left.filter(|&(was, is)| is != was && *is != layout.off);
                    assert_eq!(differ.next(), None, "{case}");
                }
                client.end();
            }
        }
    }
}

fn all_registers<B: Backend>(client: &mut RawClient<B>, layout: &Layout) -> Vec<u64> {
    let all = layout.controls().chain(layout.counters());
    all.map(|msr| client.read(0, msr)).collect()
}

/// A session samples on processor 0; interrupts storm on processor 1, where nothing runs and only
/// halprof can mask LVTPC. It ends the storm, leaves LVTPC masked and reports it; the next session
/// there unmasks it.
fn a_storm_where_nothing_runs_leaves_the_overflow_interrupt_masked<B: Backend>() {
    let mut client = RawClient::<B>::new("zen2", 2);
    let number = client.open();
    for (processors, interrupts, storms) in [(0b01, 100, true), (0b11, 99, false)] {
        let mut request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
        request[offset_of!(Configure, processors)] = processors;
        assert_eq!(client.send(session::CONFIGURE, &request).refusal(), None);
        client.granted(session::START, number);
        for _ in 0..interrupts {
            client.spurious_interrupt(1);
        }
        client.granted(session::STOP, number);
        let from = From { header: header(0), first: 1, reserved: 0 };
        let reply = client.send(PROCESSORS, &bytes(&from, &[]));
        let processor = reply.elements::<Page, Processor>()[0];
        assert_eq!(processor.flags & Processor::STORM != 0, storms);
        assert_eq!(lvtpc(&mut client, 1) & MASK != 0, storms);
    }
    client.end();
}
