//! Does anything allocate, and how much memory does the driver hold?

use hal_profile::run::state::ProcessorState;
use hal_profile::service::session::Session;
use halprof_tests::machines::{machine, specs};
use halprof_tests::requests::{bytes, configure, header};
use halprof_tests::wire::{RawClient, about, leaves};
use shared_types::request::Plain;
use shared_types::request::counts::SNAPSHOT;
use shared_types::request::machine::{DESCRIBE, From, HELLO, PROCESSORS, REGISTERS};
use shared_types::request::samples::{DRAIN, STATISTICS};
use shared_types::request::session::{SAMPLE, START, STOP};
use shared_types::request::source::{ENUMERATE, PLAN};
use sim::cpu::event::Event;
use sim::machine::Model;

const PERIOD: u64 = 65_536;

/// No allocation in a request, an interrupt or a tick. Only START and what frees the rings may
/// allocate: rings are the host's memory, and sim's host uses a Vec.
#[test]
fn nothing_is_allocated() {
    let allocations = |work: &mut dyn FnMut()| {
        let counted = allocation_counter::measure(work);
        (counted.count_total, counted.bytes_total)
    };
    for (model, list) in [
        (
            "skylake",
            "BranchInstructions,TotalIssues,LLCMisses,BranchMispredictions,LLCReference,r00C0",
        ),
        (
            "zen4",
            "TotalIssues,BranchInstructions,BranchMispredictions,L1dMisses,L1dAccesses,Cycles,FpOperations",
        ),
        ("pentium3", "TotalIssues,TotalCycles,BranchInstructions"),
        ("pentium4", "TotalIssues,BranchInstructions,BranchMispredictions"),
    ] {
        let specs = specs(&mut machine(model, 1), list);
        let first = From { header: header(0), first: 0, reserved: 0 };
        let questions = [
            (HELLO, bytes(&Plain { header: header(0) }, &[])),
            (DESCRIBE, bytes(&Plain { header: header(0) }, &[])),
            (PROCESSORS, bytes(&first, &[])),
            (REGISTERS, bytes(&first, &[])),
            (ENUMERATE, bytes(&first, &[])),
            (PLAN, configure(0, 0, &specs)),
        ];
        for flags in [0, SAMPLE] {
            let mut client = RawClient::on(Model::new(&leaves(model, 1)));
            let session = client.configured(flags, &specs);
            let about = about(session);
            let RawClient { model: machine, handle } = &mut client;
            let mut output = vec![0; 1 << 20];
            // The first request makes the model's own buffer as long.
            let mut ask = |machine: &mut Model, code, request: &[u8]| {
                let (status, _) = machine.device_control(*handle, code, request, &mut output);
                assert!(status == shared_types::NtStatus::SUCCESS && output[8..12] == [0; 4]);
            };
            ask(machine, HELLO, &questions[0].1);
            let start = allocations(&mut || {
                ask(machine, START, &about);
            });
            assert!(flags == SAMPLE || start == (0, 0), "{model}: start");
            let requests = allocations(&mut || {
                for (code, request) in &questions {
                    ask(machine, *code, request);
                }
                ask(machine, SNAPSHOT, &about);
                if flags == SAMPLE {
                    ask(machine, STATISTICS, &about);
                    ask(machine, DRAIN, &about);
                }
                for round in 1..20 {
                    let processor = &mut machine.host().cpus[0].processor;
                    processor.set_timestamp(round * 10_000_000);
                    machine.tick();
                    let processor = &mut machine.host().cpus[0].processor;
                    let mut counts = *processor.counts();
                    counts.set(Event::Branches, PERIOD * round, PERIOD * round);
                    processor.retire(counts);
                    if processor.acknowledge_interrupt().is_some() {
                        machine.spurious_interrupt(0);
                    }
                    machine.spurious_interrupt(0);
                }
                ask(machine, STOP, &about);
            });
            assert_eq!(requests, (0, 0), "{model} {flags}");
        }
    }
}

/// The allocation counter notices an allocation.
#[test]
fn an_allocation_is_seen() {
    let seen = allocation_counter::measure(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!((seen.count_total, seen.bytes_total), (1, 100));
}

/// What the driver allocates from non-paged memory; `docs/performance.md` has the numbers, and `ring.rs`
/// the sizes of rings.
#[test]
fn memory_is_bounded() {
    const KIB: usize = 1024;
    assert!(size_of::<ProcessorState>() <= 32 * KIB, "for each processor");
    // With what NetBurst writes upstream of each counter; 117 KiB in halprof.sys.
    assert!(size_of::<Session>() <= 171 * KIB, "for each session");
}
