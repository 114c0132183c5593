//! Does the shipped driver reply with the same bytes as the service in process?

use hal_profile::service::About;
use halprof_tests::backend::Backend;
use nt_model::Device;
use nt_model::load::{Action, Load};
use shared_types::NtStatus;
use shared_types::request::RequestCode;
use sim::load::workload::{self, Workload};
use sim::machine::Model;
use sim::machines::models::{MODELS, repeat};
use std::collections::BTreeMap;

/// The driver's description of itself.
const ABOUT: About = About {
    driver_name: concat!("halprof.sys ", env!("CARGO_PKG_VERSION")),
    modelled: false,
    ring_bytes_max: 256 << 20,
};
const WORK: &str = "instructions=3000000,cycles=5000000,branches=70000,processors=all";
const ACTIONS: usize = 60;

/// Plays the load of a seed, with some requests of unknown codes; returns the replies.
fn play<B: Backend>(
    seed: u64,
    work: &Workload,
    machine: &mut B,
    mut before: impl FnMut(&Action),
) -> Result<Vec<(NtStatus, Vec<u8>)>, B::Violation> {
    let (mut load, mut rng) = (Load::new(seed, false), fastrand::Rng::with_seed(seed));
    let (mut open, mut replies) = (BTreeMap::new(), Vec::new());
    for _ in 0..ACTIONS {
        let mut action = load.next_action(false);
        if let Action::Request(_, code, ..) = &mut action
            && rng.u8(..50) == 0
        {
            *code = RequestCode(rng.u32(..));
        }
        before(&action);
        let reply = action.perform(machine, work, &mut open)?;
        if let (Action::Request(client, code, ..), Some((_, bytes))) = (&action, &reply) {
            load.learn(*client, *code, bytes);
        }
        replies.extend(reply);
    }
    for (_, handle) in open {
        machine.close(handle)?;
    }
    Ok(replies)
}

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
    let by_driver = play(seed, &work, &mut device, |action| actions.push(format!("{action:?}")));
    let by_driver = by_driver.unwrap_or_else(|violation| {
        panic!("seed {seed} on {}: {violation}\nafter {:#?}", model.name, actions.last())
    });
    let by_service = play(seed, &work, &mut in_process, |_| {}).expect("the model breaks no rule");
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
