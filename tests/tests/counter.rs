//! Is the arithmetic of presets right at every width, and are our counters stopped, and no others?

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::cpu::counter::{Counter, CounterWidth};
use hal_profile::plan::counter_config::{Active, CounterConfig};
use hal_profile::run::pmu;
use hal_profile::source::encode::Encoding;
use halprof_tests::wire::leaves;
use sim::cpu::Cpu;
use sim::cpu::topology::processors;

#[test]
fn of_each_kind_there_may_be_32_counters() {
    for index in 0..=255 {
        for counter in [Counter::general(index), Counter::fixed(index)] {
            assert_eq!(counter.map(Counter::index), (index < 32).then_some(index));
        }
    }
}

#[test]
fn widths_are_32_to_63() {
    for bits in 0..=255 {
        let width = CounterWidth::new(bits);
        assert_eq!(width.map(CounterWidth::bits), (32..=63).contains(&bits).then_some(bits));
    }
    assert_eq!(CounterWidth::NONE.bits(), 0);
}

/// Computed with u128, where nothing wraps.
#[test]
fn presets_bring_the_counter_to_0() {
    for bits in 32..=63 {
        let width = CounterWidth::new(bits).expect("a width");
        let modulus = 1_u128 << bits;
        assert_eq!(u128::from(width.mask()), modulus - 1);
        for events in [1, 2, 100, 65_536, 0x7FFF_FFFF, (modulus / 2) as u64, (modulus - 1) as u64] {
            let preset = width.preset(events);
            assert_eq!(u128::from(preset) + u128::from(events), modulus, "{bits} {events}");
            assert_eq!(width.distance(preset, 0), events);
            assert_eq!(width.distance(0, events), events);
        }
        assert_eq!(width.preset(0), 0);
    }
}

#[test]
fn distance_crosses_one_wrap() {
    for bits in 32..=63 {
        let width = CounterWidth::new(bits).expect("a width");
        for (from, came) in
            [(0, 0), (5, 3), (width.mask(), 1), (width.mask() - 2, 10), (3, width.mask())]
        {
            let to = ((u128::from(from) + u128::from(came)) % (1 << bits)) as u64;
            assert_eq!(width.distance(from, to), came, "{bits}");
        }
        // Bits above the width, which RDMSR may leave undefined, have no effect.
        assert_eq!(width.distance(!width.mask() | 7, 9), 2);
    }
}

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
