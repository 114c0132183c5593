//! Are the shipped driver's branch records those of the branches that code really took?
//!
//! Programs with known control flow run on the guest feed: each record is an edge of the program's
//! code as it is in memory, and records follow each other in the order in which the branches were
//! taken.

use halprof_tests::backend::unbroken;
use halprof_tests::branches::{Recorder, recorders};
use halprof_tests::driver;
use halprof_tests::requests;
use halprof_tests::stepped::Stepped;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use nt_model::Device;
use nt_model::programs::{CODE, EXIT, Program};
use shared_types::request::session::{Configure, SAMPLE, Spec};
use shared_types::{Branch, BranchRecords, Sample};
use sim::cpu::cpuid::Leaves;
use std::collections::BTreeSet;

const TOTAL_ISSUES: u32 = 2;
/// A prime, so that samples hit every place in a loop; long enough that the guard does not
/// interfere.
const PERIOD: u64 = 40_009;
const ROUNDS: u32 = 50_000;
const LONG: u64 = 1 << 40;

type Machine = Stepped<Device>;

/// A session that samples instructions in user mode with branches, not started.
fn configured(
    leaves: &Leaves,
    seed: u64,
    branches: u16,
    branch_filter: u16,
    interval: u64,
) -> Machine {
    let file = driver::file().expect("cargo xtask sys");
    let mut device = Device::new(&file, std::slice::from_ref(leaves), seed).expect("a machine");
    assert_eq!(device.start().expect("it starts"), 0);
    let mut machine = Machine::on(device);
    machine.settings.ring_samples = 4096;
    (machine.settings.branches, machine.settings.branch_filter) = (branches, branch_filter);
    let spec = Spec { filter: Spec::USER, interval, ..requests::spec(TOTAL_ISSUES) };
    machine.configure(SAMPLE, &[spec], 0);
    machine
}

/// Starts the session, and runs a program on the guest feed to its end.
fn run_program(machine: &mut Machine, name: &str) {
    machine.client.model.machine.feed_guest(0);
    machine.start();
    let program = Program::find(name).expect("a program");
    unbroken(machine.client.model.begin_programs(program, ROUNDS));
    while machine.client.advance(LONG) {}
}

/// Where each branch of a program can go, including the return to after every call, and out of the
/// program.
fn edges(program: &str) -> BTreeSet<(u64, u64)> {
    let program = Program::find(program).expect("a program");
    let code = program.code(ROUNDS);
    let mut decoder = Decoder::with_ip(64, &code, CODE.0, DecoderOptions::NONE);
    let all: Vec<Instruction> = decoder.iter().collect();
    let calls = all.iter().filter(|one| one.flow_control() == FlowControl::Call);
    let returns: Vec<u64> = calls.map(Instruction::next_ip).chain([EXIT]).collect();
    let mut edges = BTreeSet::new();
    for one in &all {
        match one.flow_control() {
            FlowControl::Return => edges.extend(returns.iter().map(|&to| (one.ip(), to))),
            FlowControl::Call
            | FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch => {
                edges.insert((one.ip(), one.near_branch_target()));
            }
            _ => {}
        }
    }
    edges
}

/// Whether the records of a sample are branches taken one after the other up to the interrupt, as
/// the feed has logged them. AMD leaves out wrong paths, and so has fewer.
fn follow(recorder: &Recorder, machine: &Machine, sample: &Sample, got: &[Branch]) {
    let bus = machine.client.model.machine.engine.bus_ref();
    let taken = bus.guest.as_ref().expect("the feed").taken(0);
    let in_user: Vec<(u64, u64)> =
        taken.iter().filter(|one| one.to < CODE.1).map(|one| (one.from, one.to)).collect();
    let wanted: Vec<(u64, u64)> = got.iter().rev().map(|one| (one.from, one.to)).collect();
    let found = in_user.windows(wanted.len()).any(|window| window == wanted);
    assert!(found, "{}: {sample:x?} {got:x?}", recorder.name);
    // The interrupt came before the next branch: straight on from the newest record's target.
    let newest = got[0].to;
    assert!(newest <= sample.ip, "{}: {sample:x?}", recorder.name);
}

#[test]
fn records_are_the_branches_that_code_took() {
    for recorder in recorders() {
        for depth in [8, 16, 32] {
            if depth > u16::from(recorder.most) {
                continue;
            }
            for program in ["loop", "branches"] {
                let filter = Configure::TO_USER;
                let mut machine = configured(&recorder.leaves, 7, depth, filter, PERIOD);
                run_program(&mut machine, program);
                let all = machine.drain_with_branches();
                let (name, edges) = (recorder.name, edges(program));
                assert!(all.len() >= 5, "{name}, {program}: {}", all.len());
                for (sample, got) in &all {
                    let in_program = |one: &Branch| edges.contains(&(one.from, one.to));
                    assert!(got.iter().all(in_program), "{name}, {program}: {got:x?}");
                    follow(&recorder, &machine, sample, got);
                    let least = match recorder.records {
                        BranchRecords::AmdV2 => depth / 2,
                        _ => depth,
                    };
                    assert!(got.len() >= usize::from(least), "{name}, {program}");
                }
                machine.stop();
            }
        }
    }
}

/// Kernel mode too: the driver's own branches are recorded, and with this filter nothing else.
#[test]
fn the_kernel_is_recorded_for_who_may_see_it() {
    for recorder in recorders() {
        let filter = Configure::TO_KERNEL;
        let mut machine = configured(&recorder.leaves, 7, 8, filter, PERIOD);
        run_program(&mut machine, "loop");
        let all = machine.drain_with_branches();
        let kernel = all.iter().flat_map(|(_, got)| got).filter(|one| one.to >> 63 == 1);
        assert!(kernel.count() > 0, "{}", recorder.name);
        let user = all.iter().flat_map(|(_, got)| got).any(|one| one.to >> 63 == 0);
        assert!(!user, "{}", recorder.name);
        machine.stop();
    }
}

/// Instructions of a sample with branches; the scenarios count its register accesses.
#[test]
fn the_instructions_of_a_sample_with_branches() {
    for recorder in recorders() {
        for depth in [8, 16, 32].into_iter().filter(|&depth| depth <= u16::from(recorder.most)) {
            let mut machine = configured(&recorder.leaves, 1, depth, 0, 20_000);
            machine.start();
            machine.client.model.machine.overflow_costs.clear();
            let work = "instructions=1000000,cycles=2000000,branches=200000,processors=all";
            machine.client.work(work);
            let costs = &machine.client.model.machine.overflow_costs;
            assert_eq!(costs.len(), 50);
            let most = costs.iter().map(|cost| cost.instructions).max().unwrap_or(0);
            assert!(most < 600 + 280 * u64::from(depth), "{}, {depth}: {most}", recorder.name);
            println!("{}, {depth}: {:?}", recorder.name, costs[0]);
            machine.stop();
        }
    }
}
