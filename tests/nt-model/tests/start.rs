//! Does the shipped file load, start, answer and unload without a trace?

use nt_model::Device;
use shared_types::device::{INTERFACE, LINK_NAME, NT_NAME, SECURITY};
use shared_types::request::Access;

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
    let Some(file) = halprof_tests::driver::file() else {
        return;
    };
    for seed in 0..20 {
        let leaves = sim::models::find("skylake").expect("a model").processors();
        let leaves = sim::models::repeat(&leaves, 2);
        let mut device = Device::new(&file, &leaves, seed).expect("a machine");
        let started = device.start();
        let told = &device.machine.framework.told;
        assert_eq!(
            *told,
            [wide(NT_NAME), wide(SECURITY), interface(), wide(LINK_NAME)]
        );
        match started {
            Ok(status) => assert_eq!(status, 0, "{status:#x}"),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
        let handle = device.open(4096, &[Access::Read, Access::Write]).unwrap();
        device
            .close(&handle)
            .unwrap_or_else(|violation| panic!("{violation}"));
        device
            .remove()
            .unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// The callback for the processor runs while the device is being removed.
#[test]
fn it_goes_while_a_processor_is_added() {
    let Some(file) = halprof_tests::driver::file() else {
        return;
    };
    for seed in 0..100 {
        let leaves = sim::models::find("skylake").expect("a model").processors();
        let leaves = sim::models::repeat(&leaves[..1], 1);
        let mut device = Device::new(&file, &leaves, seed).expect("a machine");
        assert_eq!(device.start().expect("it starts"), 0);
        device
            .remove_while_adding(&leaves[0], seed % 2 == 0)
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}
