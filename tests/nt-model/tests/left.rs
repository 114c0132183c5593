//! Is what a session leaves behind seen?

use hal_profile::machine::CR4_PCE;
use halprof_tests::driver;
use nt_model::Device;
use nt_model::rules::Rule;
use nt_model::traffic::level;
use sim::models::find;

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
        assert_eq!(
            left.expect_err("a bit is left").rule,
            Rule::Left,
            "{msr:#x}"
        );
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
    // An added processor's block is no leak.
    assert!(before.compare(&level(&mut device), true, &[]).is_ok());
}
