//! Do the rules about registers detect what they exist for?

use halprof_tests::driver;
use halprof_tests::requests::{ALL_RIGHTS, bytes, configure, header, spec};
use nt_model::Device;
use nt_model::device::File;
use nt_model::registers::{Registers, WHOLE_UNIT};
use nt_model::rules::Rule;
use shared_types::ReplyHeader;
use shared_types::request::session::{self, Opened, SAMPLE, Session};
use shared_types::request::{Plain, RequestCode};
use sim::cpu::Cpu;
use sim::load::workload;
use sim::machines::models::{find, repeat};
use zerocopy::FromBytes;

const PMC0: u32 = 0xC1;
const SELECT0: u32 = 0x186;
const FIXED0: u32 = 0x309;
const FIXED_CONTROL: u32 = 0x38D;
const GLOBAL: u32 = 0x38F;
const GLOBAL_RESET: u32 = 0x390;
/// All general counters of the models used here, enabled as reset enables them.
const GENERAL: u64 = 0xF;

fn skylake() -> Vec<Cpu> {
    let leaves = find("skylake").expect("a model").processors();
    let processors = sim::cpu::topology::processors(&leaves[..1]).into_iter();
    let mut cpus: Vec<Cpu> = processors.map(Cpu::new).collect();
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

/// The rule that is broken when the driver acknowledges these bits while the whole unit is reserved,
/// with its handler or without. Somebody else has fixed counter 1 on; the status shows its bit,
/// CTR_FRZ and OvfBuf.
fn acknowledged(value: u64, handled: bool) -> Option<Rule> {
    let (mut registers, mut cpus) = (Registers::default(), skylake());
    put(&mut cpus[0], FIXED_CONTROL, 0xB0);
    cpus[0].processor.show_status(1 << 33 | 1 << 59 | 1 << 62);
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
        (1 << 62, true, None),
        (1 << 62, false, foreign),
        (1 << 58, true, foreign),
        (1 << 61, true, foreign),
    ] {
        assert_eq!(acknowledged(bits, handled), rule, "{bits:#x}, {handled}");
    }
}

struct Counting {
    device: Device,
    file: File,
    session: u32,
}

impl Counting {
    /// A session on a model whose general counters are enabled as reset enables them.
    fn new(model: &str, flags: u32) -> Option<Self> {
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
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        let mut counting = Self { device, file, session: 0 };
        let header = header(session::KERNEL);
        let reply = counting.ask(session::OPEN, &bytes(&Plain { header }, &[]));
        counting.session = Opened::read_from_prefix(&reply).expect("opened").0.session;
        let specs = [2, 6].map(spec);
        counting.ask(session::CONFIGURE, &configure(counting.session, flags, &specs));
        Some(counting)
    }

    fn ask(&mut self, code: RequestCode, input: &[u8]) -> Vec<u8> {
        let mut output = vec![0; 1 << 14];
        let device = &mut self.device;
        let answer = device.device_control(&self.file, code, input, &mut output);
        let (status, length) = answer.unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(status.0, 0);
        output.truncate(length);
        let (header, _) = ReplyHeader::read_from_prefix(&output).expect("a header");
        assert_eq!(header.error, 0, "{code:?}");
        output
    }

    fn about(&mut self, code: RequestCode) {
        let request = Session { header: header(0), session: self.session, reserved: 0 };
        self.ask(code, &bytes(&request, &[]));
    }

    fn run(&mut self) {
        let work = "instructions=400000,cycles=500000,branches=70000,processors=all";
        self.device.begin(&workload::parse(work).expect("a workload"));
        let ran = self.device.advance(1 << 40);
        ran.unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// The driver's bits of the global control are enabled again, as a user that relies on the reset
/// state found them.
#[test]
fn general_counters_stay_enabled() {
    for model in ["skylake", "zen4", "hybrid"] {
        for sleeps in [false, true] {
            for flags in [0, SAMPLE] {
                let Some(mut counting) = Counting::new(model, flags) else {
                    return;
                };
                counting.about(session::START);
                counting.run();
                if sleeps {
                    let slept = counting.device.sleep();
                    slept.unwrap_or_else(|v| panic!("{model}, asleep: {v}"));
                    let woke = counting.device.wake();
                    woke.unwrap_or_else(|v| panic!("{model}, awake: {v}"));
                    counting.run();
                }
                counting.about(session::STOP);
                let closed = counting.device.close(&counting.file);
                closed.unwrap_or_else(|v| panic!("{model}: {v}"));
                let removed = counting.device.remove();
                removed.unwrap_or_else(|v| panic!("{model}: {v}"));
            }
        }
    }
}

/// Sources that take turns need a timer of high resolution; counters are only read by one that lets
/// processors sleep.
#[test]
fn only_turns_have_a_precise_timer() {
    const TURNS: [u32; 6] = [0x06, 0x0B, 0x1B, 0x1C, 0x1D, 0x1E];
    for (flags, sources, period, precise) in [
        (0, &[2, 6][..], 50_000_000, false),
        (SAMPLE, &[2, 6], 2_500_000, false),
        (0, &TURNS, 40_000, true),
        (SAMPLE, &TURNS, 40_000, true),
    ] {
        let Some(mut counting) = Counting::new("skylake", flags) else {
            return;
        };
        let specs: Vec<_> = sources.iter().copied().map(spec).collect();
        let input = configure(counting.session, flags, &specs);
        counting.ask(session::CONFIGURE, &input);
        counting.about(session::START);
        let kernel = &counting.device.machine.kernel;
        assert_eq!(kernel.timer_period(), Some(period), "{sources:?}");
        assert_eq!(kernel.timer_is_precise(), Some(precise), "{sources:?}");
        counting.about(session::STOP);
        assert_eq!(counting.device.machine.kernel.timer_is_precise(), None);
    }
}
