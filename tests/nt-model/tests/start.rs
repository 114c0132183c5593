//! Does the shipped file load, start, answer and unload without a trace?

use crate::client::device;
use halprof_tests::requests::{ALL_RIGHTS, bytes, header};
use halprof_tests::wire::leaves;
use shared_types::device::{INTERFACE, LINK_NAME, NT_NAME, SECURITY};
use shared_types::request::machine::{DESCRIBE, Machine};
use shared_types::request::{Access, Plain};
use zerocopy::FromBytes;

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn interface() -> Vec<u8> {
    let first = INTERFACE.0.to_le_bytes();
    let (second, third) = (INTERFACE.1.to_le_bytes(), INTERFACE.2.to_le_bytes());
    [&first[..], &second, &third, &INTERFACE.3].concat()
}

#[test]
fn it_starts_and_goes() {
    for seed in 0..20 {
        let Some(mut device) = device("skylake", 2, seed) else { return };
        let started = device.start();
        let told = &device.machine.framework.told;
        assert_eq!(*told, [wide(NT_NAME), wide(SECURITY), interface(), wide(LINK_NAME)]);
        match started {
            Ok(status) => assert_eq!(status, 0, "{status:#x}"),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
        let handle = device.open(4096, &[Access::Read, Access::Write]).unwrap();
        device.close(&handle).unwrap_or_else(|violation| panic!("{violation}"));
        device.remove().unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// The callback for the processor runs while the device is being removed. In as many orders the rules
/// notice a registration that ends under the lock (variants.toml).
#[test]
fn it_goes_while_a_processor_is_added() {
    for seed in 0..50 {
        let Some(mut device) = device("skylake", 1, seed) else { return };
        assert_eq!(device.start().expect("it starts"), 0);
        device
            .remove_while_adding(&leaves("skylake", 1)[0], seed % 2 == 0)
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}

/// One reading of the performance counter takes 1 ms, as by a hypervisor's exit or an SMI, in a
/// comparison of 50 ms. Whichever it is, the time-stamp counter's frequency is right: here 1 GHz.
#[test]
fn it_knows_the_frequency_even_if_a_clock_is_read_slowly() {
    for nth in 0.. {
        let Some(mut device) = device("skylake", 1, 1) else { return };
        device.machine.kernel.slow_after = Some(nth);
        assert_eq!(device.start().expect("no rule"), 0);
        let handle = device.open(4096, ALL_RIGHTS).expect("a handle");
        let (header, mut output) = (header(0), vec![0; 4096]);
        let describe = bytes(&Plain { header }, &[]);
        let answer = device.device_control(&handle, DESCRIBE, &describe, &mut output);
        answer.expect("no rule");
        let (machine, _) = Machine::read_from_prefix(&output).expect("a machine");
        let frequency = machine.timestamp_frequency;
        assert!(frequency.abs_diff(1_000_000_000) <= 10_000, "reading {nth}: {frequency}");
        device.close(&handle).expect("no rule");
        device.remove().expect("no rule");
        if device.machine.kernel.slow_after.is_some() {
            assert!(nth >= 10, "{nth} readings");
            break;
        }
    }
}
