//! Do the rules about registers detect what they exist for?

use crate::client::Client;
use hal_profile::run::overflow::Interrupted;
use halprof_tests::backend::unbroken;
use halprof_tests::driver;
use halprof_tests::requests::spec;
use halprof_tests::wire::{about, leaves};
use nt_model::device::Submitted;
use nt_model::registers::{Registers, WHOLE_UNIT};
use nt_model::rules::Rule;
use nt_model::{Device, Violation};
use shared_types::request::session::{self, SAMPLE};
use shared_types::{ErrorCode, Mode, ReplyHeader};
use sim::cpu::Cpu;
use sim::machines::models::{find, repeat};
use sim::quirks::{Quirk, Quirks};
use zerocopy::FromBytes;

const WORK: &str = "instructions=400000,cycles=500000,branches=70000,processors=all";
const PMC0: u32 = 0xC1;
const SELECT0: u32 = 0x186;
const FIXED0: u32 = 0x309;
const FIXED_CONTROL: u32 = 0x38D;
const GLOBAL: u32 = 0x38F;
const GLOBAL_RESET: u32 = 0x390;
/// MSR_CRU_ESCR0.
const ESCR: u32 = 0x3B8;
/// All general counters of the models used here, enabled as reset enables them.
const GENERAL: u64 = 0xF;

fn cpus_of(model: &str) -> Vec<Cpu> {
    let leaves = find(model).expect("a model").processors();
    sim::cpu::topology::processors(&leaves[..1]).into_iter().map(Cpu::new).collect()
}

fn skylake() -> Vec<Cpu> {
    let mut cpus = cpus_of("skylake");
    put(&mut cpus[0], GLOBAL, GENERAL);
    cpus
}

fn put(cpu: &mut Cpu, msr: u32, value: u64) {
    cpu.processor.wrmsr(msr, value).expect("it is there");
}

/// The rule that a write breaks on a machine with two reserved counters.
fn written(msr: u32, value: u64) -> Option<Rule> {
    let (mut registers, mut cpus) = (Registers::default(), skylake());
    registers.reserve(&mut cpus, 0b11);
    let written = registers.write(&mut cpus[0], 0, msr, value);
    written.err().map(|violation| violation.rule)
}

#[test]
fn only_reserved_counters_are_written() {
    for (msr, value) in
        [(PMC0 + 1, 5), (SELECT0, 0x43_00C0), (GLOBAL, GENERAL & !1), (GLOBAL_RESET, 0b11)]
    {
        assert_eq!(written(msr, value), None, "{msr:#x}");
    }
    for (msr, value) in [
        (PMC0 + 2, 5),
        (SELECT0 + 3, 0x43_00C0),
        (FIXED0, 5),
        (FIXED_CONTROL, 0xB),
        (GLOBAL, GENERAL | 1 << 32),
        (GLOBAL, GENERAL & !4),
        (GLOBAL_RESET, 0b100),
    ] {
        assert_eq!(written(msr, value), Some(Rule::Unreserved), "{msr:#x}");
    }
}

/// The rule that is broken when the counters are released, after the driver has written counter 0
/// and fixed counter 0, and someone else this register.
fn left(msr: u32, value: u64) -> Option<Rule> {
    let (mut registers, mut cpus) = (Registers::default(), skylake());
    registers.reserve(&mut cpus, WHOLE_UNIT);
    for counter in [PMC0, FIXED0] {
        let written = registers.write(&mut cpus[0], 0, counter, 0);
        written.expect("they are reserved");
        registers.wrote(&mut cpus[0], 0, counter);
    }
    put(&mut cpus[0], msr, value);
    let released = registers.release(&mut cpus);
    released.err().map(|violation| violation.rule)
}

#[test]
fn in_the_end_registers_are_as_they_were() {
    assert_eq!(left(GLOBAL, GENERAL), None);
    for (msr, value, rule) in [
        (GLOBAL, GENERAL & !1, Rule::BitsLeft),
        (GLOBAL, GENERAL | 1 << 32, Rule::BitsLeft),
        (GLOBAL, GENERAL & !2, Rule::ForeignBits),
        (SELECT0, 0x41_00C0, Rule::BitsLeft),
        (SELECT0 + 1, 0x41_00C0, Rule::ForeignBits),
        (FIXED_CONTROL, 0xB, Rule::BitsLeft),
        (FIXED_CONTROL, 0xB0, Rule::ForeignBits),
        (PMC0, 7, Rule::BitsLeft),
        (FIXED0, 7, Rule::BitsLeft),
    ] {
        assert_eq!(left(msr, value), Some(rule), "{msr:#x} {value:#x}");
    }
}

/// A freeze that the driver has not acknowledged, and an ESCR of NetBurst.
#[test]
fn what_stops_or_selects_is_not_left() {
    let (mut registers, mut cpus) = (Registers::default(), skylake());
    registers.reserve(&mut cpus, WHOLE_UNIT);
    cpus[0].processor.show_status(1 << 59);
    let left = registers.release(&mut cpus).expect_err("CTR_FRZ");
    assert_eq!(left.rule, Rule::BitsLeft);

    let mut cpus = cpus_of("pentium4");
    registers.reserve(&mut cpus, WHOLE_UNIT);
    put(&mut cpus[0], ESCR, 0x0400_060C);
    let left = registers.release(&mut cpus).expect_err("an event");
    assert_eq!(left.rule, Rule::BitsLeft);
}

/// The rule that is broken when the driver acknowledges these bits while the whole unit is reserved,
/// with its handler or without. Somebody else has fixed counter 1 on; the status shows its bit,
/// OVF_PERF_METRICS, Trace_ToPA_PMI, LBR_FRZ, CTR_FRZ, ASCI and OvfBuf.
fn acknowledged(value: u64, handled: bool) -> Option<Rule> {
    let (mut registers, mut cpus) = (Registers::default(), skylake());
    put(&mut cpus[0], FIXED_CONTROL, 0xB0);
    cpus[0].processor.show_status(1 << 33 | 1 << 48 | 1 << 55 | 0b111 << 58 | 1 << 62);
    registers.reserve(&mut cpus, WHOLE_UNIT);
    registers.handled = handled;
    let written = registers.write(&mut cpus[0], 0, GLOBAL_RESET, value);
    written.err().map(|violation| violation.rule)
}

#[test]
fn each_status_bit_has_its_owner() {
    let foreign = Some(Rule::ForeignBits);
    for (bits, handled, rule) in [
        (1 << 32 | 0xF, false, None),
        (1 << 33, true, foreign),
        (1 << 33, false, foreign),
        (1 << 59 | 1, false, None),
        (1 << 48, true, foreign),
        (1 << 55, true, foreign),
        (1 << 60, true, foreign),
        (1 << 62, true, None),
        (1 << 62, false, foreign),
        (1 << 58, true, foreign),
        (1 << 61, true, foreign),
    ] {
        assert_eq!(acknowledged(bits, handled), rule, "{bits:#x}, {handled}");
    }
}

/// Without its handler nothing would unmask it again, and whoever samples next gets no interrupt.
#[test]
fn lvtpc_is_masked_only_with_the_handler() {
    const LVTPC: u32 = 0x340;
    for (handled, rule) in [(true, None), (false, Some(Rule::ForeignBits))] {
        let (mut registers, mut cpus) = (Registers::default(), skylake());
        registers.reserve(&mut cpus, WHOLE_UNIT);
        registers.handled = handled;
        cpus[0].processor.boot_windows();
        let own = cpus[0].processor.read_apic(LVTPC).expect("the page");
        let written = registers.write_apic(&mut cpus[0], 0, LVTPC, own ^ 1 << 16);
        assert_eq!(written.err().map(|violation| violation.rule), rule, "{handled}");
    }
}

/// A client on a model whose general counters are enabled as reset enables them.
fn counting(model: &str) -> Option<Client> {
    let file = driver::file()?;
    let leaves = repeat(&find(model).expect("a model").processors()[..1], 2);
    let mut device = Device::new(&file, &leaves, 1).expect("a machine");
    for cpu in &mut device.machine.engine.bus().cpus {
        let now = cpu.processor.timestamp();
        cpu.processor.reset();
        cpu.processor.set_timestamp(now);
        cpu.processor.boot_windows();
    }
    assert_eq!(device.start().expect("no rule"), 0);
    Some(Client::on(device))
}

/// The driver's bits of the global control are enabled again, as a user that relies on the reset
/// state found them.
#[test]
fn general_counters_stay_enabled() {
    for model in ["skylake", "zen4", "hybrid"] {
        for sleeps in [false, true] {
            for flags in [0, SAMPLE] {
                let Some(mut client) = counting(model) else { return };
                let number = client.configured(flags, &[2, 6].map(spec));
                client.granted(session::START, number);
                client.work(WORK);
                if sleeps {
                    client.sleep();
                    client.wake();
                    client.work(WORK);
                }
                client.granted(session::STOP, number);
                client.end();
            }
        }
    }
}

/// FREEZE_PERFMON_ON_PMI is set, and no overflow interrupt comes: each try of START's self-test
/// freezes the counters. An interrupt that comes between two tries lets the second one pass on its
/// processor; START is refused because of the other one, and must not leave the freeze.
#[test]
fn a_refused_start_leaves_no_freeze_where_the_test_has_passed() {
    let Some(file) = driver::file() else { return };
    let quirks = Quirks::default().with(Quirk::Frozen).with(Quirk::DeadInterrupts);
    let leaves: Vec<_> =
        leaves("zen5", 2).iter().map(|leaves| leaves.with_quirks(quirks)).collect();
    let passed = (0..20).filter(|&seed| {
        let mut device = Device::new(&file, &leaves, seed).expect("a machine");
        assert_eq!(unbroken(device.start()), 0);
        let mut client = Client::on(device);
        let (error, processor) = unbroken(interrupt_between_tries(&mut client));
        assert_eq!(error, Some(ErrorCode::InterruptsDead));
        client.end();
        processor == 1
    });
    assert_ne!(passed.count(), 0);
}

/// START, with an interrupt at processor 0 when a freeze was seen there and acknowledged; returns
/// how it is refused, and where.
fn interrupt_between_tries(client: &mut Client) -> Result<(Option<ErrorCode>, u32), Violation> {
    const CTR_FRZ: u64 = 1 << 59;
    const STATUS: u32 = 0xC000_0300;
    let is_frozen = |client: &mut Client| client.read(0, STATUS) & CTR_FRZ != 0;
    let session = client.configured(SAMPLE, &[spec(2)]);
    let file = client.handle.clone();
    let submitted = client.model.submit(&file, session::START, &about(session), 4096)?;
    let Submitted::Queued(request) = submitted else { panic!("{submitted:?}") };
    while !is_frozen(client) && client.model.machine.go_on()? {}
    while is_frozen(client) && client.model.machine.go_on()? {}
    let idle = Interrupted { ip: 0, mode: Mode::Kernel, process: 0, thread: 0 };
    client.model.machine.interrupt(0, idle)?;
    client.model.machine.settle()?;
    let (_, reply) = client.model.finish_request(request)?;
    let (header, _) = ReplyHeader::read_from_prefix(&reply).expect("a header");
    Ok((ErrorCode::from_wire(header.error), header.subject))
}
