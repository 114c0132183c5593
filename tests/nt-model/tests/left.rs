//! Is what a session leaves behind detected?

use hal_profile::cpu::machine::CR4_PCE;
use hal_profile::run::overflow::Interrupted;
use halprof_tests::driver;
use halprof_tests::requests::{ALL_RIGHTS, bytes, configure, header, spec};
use nt_model::Device;
use nt_model::device::File;
use nt_model::rules::Rule;
use nt_model::traffic::level;
use shared_types::request::machine::{From, PROCESSORS, Page, Processor};
use shared_types::request::session::{self, Configure, Opened, Session};
use shared_types::request::{Plain, RequestCode};
use shared_types::{Mode, ReplyHeader};
use sim::machines::models::{find, repeat};
use std::mem::offset_of;
use zerocopy::FromBytes;

/// IA32_PERFEVTSEL0, IA32_FIXED_CTR_CTRL, IA32_PERF_GLOBAL_CTRL.
const SELECT: (u32, u64) = (0x186, 0x0043_00C0);
const FIXED: (u32, u64) = (0x38D, 0x3);
const GLOBAL: (u32, u64) = (0x38F, 1 << 32);
/// LVTPC in its page, and its mask bit.
const LVTPC: u32 = 0x340;
const MASKED: u32 = 1 << 16;

fn started(file: &[u8]) -> Device {
    let leaves = find("skylake").expect("a model").processors();
    let mut device = Device::new(file, &leaves, 1).expect("a machine");
    assert_eq!(device.start().expect("no rule"), 0);
    for cpu in &mut device.machine.engine.bus().cpus {
        cpu.processor.wrmsr(GLOBAL.0, 0).expect("it is there");
    }
    device
}

#[test]
fn a_bit_in_a_register() {
    let Some(file) = driver::file() else { return };
    let mut device = started(&file);
    let before = level(&mut device);
    assert!(before.compare(&before, false, &[]).is_ok());
    for (msr, value) in [SELECT, FIXED, GLOBAL] {
        let processor = &mut device.machine.engine.bus().cpus[0].processor;
        processor.wrmsr(msr, value).expect("it is there");
        let left = before.compare(&level(&mut device), false, &[]);
        assert_eq!(left.expect_err("a bit is left").rule, Rule::Left, "{msr:#x}");
        let processor = &mut device.machine.engine.bus().cpus[0].processor;
        processor.wrmsr(msr, 0).expect("it is there");
    }
    let processor = &mut device.machine.engine.bus().cpus[0].processor;
    let cr4 = processor.cr4();
    processor.set_cr4(cr4 | CR4_PCE);
    let left = before.compare(&level(&mut device), false, &[]);
    assert_eq!(left.expect_err("PCE is left").rule, Rule::Left);
    let processor = &mut device.machine.engine.bus().cpus[0].processor;
    processor.set_cr4(cr4);
    let lvtpc = processor.read_apic(LVTPC).expect("it is there");
    let written = processor.write_apic(LVTPC, lvtpc | MASKED);
    written.expect("it is there");
    let left = before.compare(&level(&mut device), false, &[]);
    assert_eq!(left.expect_err("the mask is left").rule, Rule::Left);
}

#[test]
fn pool() {
    let Some(file) = driver::file() else { return };
    let mut device = started(&file);
    let before = level(&mut device);
    let engine = &mut device.machine.engine;
    engine.allocate(64, 1).expect("memory");
    let left = before.compare(&level(&mut device), false, &[]);
    assert_eq!(left.expect_err("pool is left").rule, Rule::PoolLeak);
    // An added processor's block is not a leak.
    assert!(before.compare(&level(&mut device), true, &[]).is_ok());
}

/// A session on the first of two processors of a device.
struct Sampling {
    device: Device,
    file: File,
    session: u32,
}

impl Sampling {
    fn new(model: &str) -> Option<Self> {
        let file = driver::file()?;
        let leaves = repeat(&find(model).expect("a model").processors()[..1], 2);
        let mut device = Device::new(&file, &leaves, 1).expect("a machine");
        assert_eq!(device.start().expect("no rule"), 0);
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        let mut sampling = Self { device, file, session: 0 };
        let open = Plain { header: header(session::KERNEL) };
        let opened = sampling.ask(session::OPEN, &bytes(&open, &[]));
        let (opened, _) = Opened::read_from_prefix(&opened).expect("a session");
        sampling.session = opened.session;
        Some(sampling)
    }

    fn ask(&mut self, code: RequestCode, input: &[u8]) -> Vec<u8> {
        let mut output = vec![0; 4096];
        let (_, length) = self
            .device
            .device_control(&self.file, code, input, &mut output)
            .unwrap_or_else(|violation| panic!("{violation}"));
        output.truncate(length);
        let (reply, _) = ReplyHeader::read_from_prefix(&output).expect("a reply");
        assert_eq!(reply.error, 0, "{code:?}");
        output
    }

    fn about(&mut self, code: RequestCode) {
        let about = Session { header: header(0), session: self.session, reserved: 0 };
        self.ask(code, &bytes(&about, &[]));
    }

    /// Starts it on these processors, one bit each.
    fn start(&mut self, flags: u32, processors: u8) {
        let mut input = configure(self.session, flags, &[spec(2)]);
        input[offset_of!(Configure, processors)] = processors;
        self.ask(session::CONFIGURE, &input);
        self.about(session::START);
    }

    fn lvtpc(&mut self, processor: usize) -> u32 {
        let processor = &mut self.device.machine.engine.bus().cpus[processor].processor;
        processor.read_apic(LVTPC).expect("xAPIC")
    }

    fn end(mut self) {
        self.device.close(&self.file).expect("no rule");
        self.device.remove().expect("no rule");
    }
}

/// A session samples on processor 0; interrupts storm on processor 1, where nothing runs and only
/// the driver can mask LVTPC. It ends the storm, leaves LVTPC masked and reports it; the next
/// session there unmasks it.
#[test]
fn a_storm_where_nothing_runs() {
    let Some(mut sampling) = Sampling::new("zen2") else {
        return;
    };
    for (flags, processors, interrupts, storms) in
        [(session::SAMPLE, 0b01, 100, true), (session::SAMPLE, 0b11, 99, false)]
    {
        sampling.start(flags, processors);
        for _ in 0..interrupts {
            let interrupted = Interrupted { ip: 0, mode: Mode::Kernel, process: 0, thread: 0 };
            let handled = sampling.device.machine.interrupt(1, interrupted);
            handled.unwrap_or_else(|violation| panic!("{violation}"));
        }
        sampling.about(session::STOP);
        let from = From { header: header(0), first: 1, reserved: 0 };
        let told = sampling.ask(PROCESSORS, &bytes(&from, &[]));
        let told = &told[size_of::<Page>()..][..size_of::<Processor>()];
        let told = Processor::read_from_bytes(told).expect("a processor");
        assert_eq!(told.flags & Processor::STORM != 0, storms);
        assert_eq!(sampling.lvtpc(1) & MASKED != 0, storms);
    }
    sampling.end();
}

/// The delivery of an interrupt masks LVTPC on a processor where nothing runs, when there is no
/// handler any more that would unmask it. The driver does it as soon as the handler is gone.
#[test]
fn an_interrupt_where_nothing_runs_and_nothing_handles_it() {
    for model in ["skylake", "zen2"] {
        let Some(mut sampling) = Sampling::new(model) else {
            return;
        };
        sampling.start(session::SAMPLE, 0b01);
        let lvtpc = sampling.lvtpc(1);
        assert_eq!(lvtpc & MASKED, 0, "{model}");
        let processor = &mut sampling.device.machine.engine.bus().cpus[1].processor;
        let written = processor.write_apic(LVTPC, lvtpc | MASKED);
        written.expect("xAPIC");
        sampling.about(session::STOP);
        for processor in [0, 1] {
            assert_eq!(sampling.lvtpc(processor), lvtpc, "{model}: {processor}");
        }
        sampling.end();
    }
}
