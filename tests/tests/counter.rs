//! Are our counters stopped, and no others?
//!
//! The arithmetic of presets and wraps is in what is counted and sampled: `counting.rs`, and the
//! scenario `sampling`.

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::cpu::counter::Counter;
use hal_profile::plan::counter_config::{Active, CounterConfig};
use hal_profile::run::pmu;
use hal_profile::source::encode::Encoding;
use halprof_tests::wire::leaves;
use sim::cpu::Cpu;
use sim::cpu::topology::processors;

/// SDM vol. 3B, "IA32_PERF_GLOBAL_CTRL": one bit for each general counter from bit 0, and for each
/// fixed counter from bit 32.
#[test]
fn the_handler_stops_our_counters_together_and_no_others() {
    const GLOBAL_CTRL: u32 = 0x38F;
    for model in ["skylake", "sapphire-rapids"] {
        let mut processor = processors(&leaves(model, 1)).remove(0);
        processor.boot_windows();
        let mut cpu = Cpu::new(processor);
        let capabilities = Capabilities::discover(&mut cpu);
        let active = [Counter::general(1), Counter::fixed(0)].map(|counter| {
            let counter = counter.expect("below 32");
            Active::new(&CounterConfig::new(&capabilities, counter, &Encoding::default()), 0)
        });
        let found = 0x3_0000_0007;
        cpu.processor.wrmsr(GLOBAL_CTRL, found).expect("version 4");
        let control = pmu::hold(&mut cpu, &capabilities, &active, 1 << 32 | 2);
        assert_eq!(control, found);
        assert_eq!(cpu.processor.rdmsr(GLOBAL_CTRL), Ok(0x2_0000_0005), "{model}");
        pmu::resume(&mut cpu, &capabilities, &active, control, 0);
        assert_eq!(cpu.processor.rdmsr(GLOBAL_CTRL), Ok(found), "{model}");
        assert_eq!(cpu.faults, []);
    }
}
