//! Does the shipped driver account for every period, however late and in whatever bad way
//! interrupts come?
//!
//! Only a few skids of each machine are tried here; `HALPROF_SKIDS=all` tries every one, which
//! takes minutes.

use nt_model::sweep::{MACHINES, PERIOD, Part, full, spread, sweep};
use sim::unkind::ROWS;

const SYS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/driver/halprof-legacy.sys"
);
/// With these nothing is sampled: START refuses, the session is ended, or no counter can take the
/// source.
const NOT_SAMPLED: [&str; 4] = ["dead-counters", "dead-interrupts", "storm", "no-general"];
/// The number of skids tried on each unkind machine.
const UNKIND: u64 = 20;

fn all() -> bool {
    std::env::var_os("HALPROF_SKIDS").is_some_and(|value| value == "all")
}

fn fails_nowhere(parts: &[Part]) {
    let file = std::fs::read(SYS).expect("cargo xtask sys");
    let failures = sweep(&file, parts);
    let tried: usize = parts.iter().map(|(_, skids)| skids.len()).sum();
    let (count, told) = (failures.len(), failures.join("\n"));
    assert!(failures.is_empty(), "{count} of {tried} runs fail:\n{told}");
}

/// Skids where an interrupt is a whole number of periods late, and where the next overflow then
/// meets the handler of the previous one.
fn few() -> Vec<u64> {
    let near = |periods: u64| (0..17).map(move |back| (periods * PERIOD).saturating_sub(8 * back));
    let mut skids: Vec<u64> = (0..4).flat_map(near).chain(spread(16)).collect();
    skids.sort_unstable();
    skids.dedup();
    skids
}

#[test]
fn every_period_is_accounted_for_however_late_interrupts_come() {
    let skids = if all() { full() } else { few() };
    let parts = |machine: &str| -> Vec<Part> {
        let chunks = skids.chunks(64);
        chunks
            .map(|chunk| (machine.to_owned(), chunk.to_vec()))
            .collect()
    };
    let parts: Vec<Part> = MACHINES.iter().flat_map(|machine| parts(machine)).collect();
    fails_nowhere(&parts);
}

#[test]
fn every_period_is_accounted_for_on_unkind_machines() {
    let many = if all() { UNKIND } else { 3 };
    let options = ROWS.iter().map(|row| row.name);
    let options: Vec<&str> = options.filter(|name| !NOT_SAMPLED.contains(name)).collect();
    let part =
        |(machine, option): (&&str, &&str)| (format!("{machine},unkind={option}"), spread(many));
    let each = MACHINES
        .iter()
        .flat_map(|machine| options.iter().map(move |one| (machine, one)));
    let parts: Vec<Part> = each.map(part).collect();
    fails_nowhere(&parts);
}

/// The full sweep has every multiple of 64, and every skid within 32 of a multiple of the period.
#[test]
fn the_whole_sweep_is_the_one_that_was_asked_for() {
    let skids = full();
    for step in (0..=12_288).step_by(64) {
        assert!(skids.contains(&step), "{step}");
    }
    for periods in 0..=3 {
        for near in 0..=32 {
            assert!(skids.contains(&(periods * PERIOD + near)));
            let before = (periods * PERIOD).checked_sub(near);
            assert!(before.is_none_or(|before| skids.contains(&before)));
        }
    }
}
