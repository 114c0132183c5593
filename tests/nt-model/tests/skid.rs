//! Does the shipped driver account for every period, however late and in whatever bad way
//! interrupts come?
//!
//! Before each commit a few skids of each machine are tried; `cargo xtask prove` tries every one, and
//! some with each quirk. Quirks with a workload are in the scenarios.

use nt_model::soak::{LATEST, MACHINES, PERIOD, sweep, try_skids};
use sim::quirks::QUIRKS;

const SYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/driver/halprof-historic.sys");
/// With these nothing is sampled: START refuses, the session is ended, or no counter can take the
/// source.
const NOT_SAMPLED: [&str; 6] =
    ["dead-counters", "dead-interrupts", "nmi-lvtpc", "silent-fixed", "storm", "no-general"];
/// With this more is counted than happens.
const OVERCOUNTS: &str = "zen3-overcount";
/// The number of skids tried on each machine with quirks, spread over the whole range.
const UNKIND: u64 = 20;
/// How far around a multiple of the period every skid is tried.
const NEAR: u64 = 32;
/// The distance between skids elsewhere.
const STEP: u64 = 64;

/// A machine, as `--machine` names it, and the skids to try on it.
type Part = (String, Vec<u64>);

fn fails_nowhere(parts: &[Part]) {
    let file = std::fs::read(SYS).expect("cargo xtask sys");
    let failures = sweep(parts, |(machine, skids)| try_skids(&file, machine, skids)).concat();
    let tried: usize = parts.iter().map(|(_, skids)| skids.len()).sum();
    let (count, told) = (failures.len(), failures.join("\n"));
    assert!(failures.is_empty(), "{count} of {tried} runs fail:\n{told}");
}

/// Every skid to try: all of them near a multiple of the period, every 64th elsewhere.
fn full() -> Vec<u64> {
    let near = |skid: &u64| (skid + NEAR) % PERIOD <= 2 * NEAR;
    (0..=LATEST + NEAR).filter(|skid| skid % STEP == 0 || near(skid)).collect()
}

/// This many of them, spread over the whole range.
fn spread(many: u64) -> Vec<u64> {
    // A prime step, so that the remainders modulo the period differ.
    (0..many).map(|index| index * 617 % (LATEST + 1)).collect()
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

/// These skids on each machine, in parts that can be tried at once.
fn kind(skids: &[u64]) -> Vec<Part> {
    let part = |machine: &str, chunk: &[u64]| (machine.to_owned(), chunk.to_vec());
    let parts = |machine| skids.chunks(64).map(move |chunk| part(machine, chunk));
    MACHINES.iter().copied().flat_map(parts).collect()
}

/// These skids on each machine with each quirk.
fn quirks(skids: &[u64]) -> Vec<Part> {
    let options = QUIRKS.iter().map(|row| row.name);
    let options: Vec<&str> =
        options.filter(|name| !NOT_SAMPLED.contains(name) && *name != OVERCOUNTS).collect();
    let part = |machine, option| (format!("{machine},quirks={option}"), skids.to_vec());
    let parts = |machine| options.iter().map(move |option| part(machine, option));
    MACHINES.iter().flat_map(parts).collect()
}

#[test]
fn every_period_is_accounted_for_however_late_interrupts_come() {
    fails_nowhere(&kind(&few()));
}

#[test]
fn every_period_is_accounted_for_at_every_skid() {
    fails_nowhere(&[kind(&full()), quirks(&spread(UNKIND))].concat());
}
