//! Does the shipped driver reply with the same bytes as the service in process?

use hal_profile::service::About;
use nt_model::Device;
use nt_model::sequence::{Action, Sequence};
use sim::load::workload;
use sim::machine::Model;
use sim::machines::models::{MODELS, repeat};

/// The driver's description of itself.
const ABOUT: About = About {
    driver_name: concat!("halprof.sys ", env!("CARGO_PKG_VERSION")),
    modelled: false,
    ring_bytes_max: 256 << 20,
};
const WORK: &str = "instructions=3000000,cycles=5000000,branches=70000,processors=all";
const ACTIONS: usize = 60;

fn compare(file: &[u8], seed: u64) {
    let work = workload::parse(WORK).expect("a workload");
    let model = &MODELS[seed as usize % MODELS.len()];
    let leaves = repeat(&model.processors(), 1 + seed as usize % 3);
    let mut device = Device::new(file, &leaves, seed).expect("a machine");
    let status = device.start().unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(status, 0);
    let mut in_process = Model::with_about(&leaves, ABOUT);
    for index in 0..leaves.len() {
        let began = device.machine.now();
        in_process.processor(index).expect("it").set_timestamp(began);
    }
    let mut actions = Vec::new();
    let by_driver = Sequence::new(seed, &work).play(&mut device, ACTIONS, |action: &Action| {
        actions.push(format!("{action:?}"));
    });
    let by_driver = by_driver.unwrap_or_else(|violation| {
        panic!("seed {seed} on {}: {violation}\nafter {:#?}", model.name, actions.last())
    });
    let by_service = Sequence::new(seed, &work)
        .play(&mut in_process, ACTIONS, |_| {})
        .expect("the model breaks no rule");
    for (index, (driver, service)) in by_driver.iter().zip(&by_service).enumerate() {
        assert_eq!(driver, service, "seed {seed} on {}: reply {index}", model.name);
    }
    assert_eq!(by_driver.len(), by_service.len());
    device.remove().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
}

#[test]
fn replies_are_the_same_bytes() {
    let Some(file) = halprof_tests::driver::with_every_interface() else {
        return;
    };
    let first = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let count = std::env::var("COUNT").ok().and_then(|s| s.parse().ok()).unwrap_or(60);
    for seed in first..first + count {
        compare(&file, seed);
    }
}
