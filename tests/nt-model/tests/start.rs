//! Does the shipped file load, start, answer and go without a trace?

use nt_model::Device;
use shared_types::request::Access;

#[test]
fn it_starts_and_goes() {
    let Some(file) = halprof_tests::driver::file() else {
        return;
    };
    for seed in 0..20 {
        let leaves = sim::models::find("skylake").expect("a model").processors();
        let leaves = sim::models::repeat(&leaves, 2);
        let mut device = Device::new(&file, &leaves, seed).expect("a machine");
        match device.start() {
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
