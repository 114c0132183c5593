//! What does each operation cost in register accesses, compared with the budget? And does anything
//! allocate?

use hal_profile::run::ring::{Word, words_for};
use hal_profile::run::state::ProcessorState;
use hal_profile::service::session::Session;
use halprof_tests::bare::Bare;
use halprof_tests::machines::{machine, specs};
use halprof_tests::requests::{bytes, configure, header};
use shared_types::RequestHeader;
use shared_types::request::Plain;
use shared_types::request::counts::SNAPSHOT;
use shared_types::request::machine::{DESCRIBE, From, HELLO, PROCESSORS, REGISTERS};
use shared_types::request::samples::{DRAIN, STATISTICS};
use shared_types::request::session::{SAMPLE, Spec};
use shared_types::request::source::{ENUMERATE, PLAN};
use sim::cpu::event::Event;
use sim::{Accesses, Processor};

/// RDMSR, WRMSR, RDPMC, reads and writes of the local APIC's page.
type Cost = [u64; 4];

const NOTHING: Cost = [0; 4];

/// As many sources as a model has counters, of any kind, the first of which is also used alone; then
/// the cost of an overflow with one counter in use, with all of them, of an interrupt that none of
/// our counters has requested, and of a snapshot of all.
type Row = (&'static str, &'static str, [Cost; 4]);

const P6: &str = "BranchInstructions,TotalCycles";
const ROWS: [Row; 10] = [
    ("pentium", "BranchInstructions,TotalIssues", [NOTHING, NOTHING, NOTHING, [2, 0, 0, 0]]),
    ("pentium3", P6, [[0, 3, 1, 0], [0, 3, 2, 0], [0, 2, 1, 0], [0, 0, 2, 0]]),
    ("pentium-m", P6, [[0, 3, 1, 2], [0, 3, 2, 2], [0, 2, 1, 2], [0, 0, 2, 0]]),
    (
        "pentium4",
        "BranchInstructions,TotalIssues,BranchMispredictions,TotalCycles",
        [[1, 4, 1, 2], [4, 4, 4, 2], [1, 0, 1, 2], [0, 0, 4, 0]],
    ),
    ("yonah", P6, [[0, 3, 1, 2], [0, 3, 3, 4], [0, 2, 1, 2], [0, 0, 2, 0]]),
    ("core2", P6, [[1, 4, 1, 2], [1, 4, 2, 2], [2, 2, 1, 2], [0, 0, 2, 0]]),
    (
        "skylake",
        "BranchInstructions,BranchMispredictions,LLCMisses,LLCReference,\
            FixedInstructions,FixedCycles,FixedReferenceCycles",
        [[1, 4, 1, 2], [1, 4, 7, 2], [2, 2, 1, 2], [0, 0, 7, 0]],
    ),
    (
        "k8",
        "BranchInstructions,TotalIssues,DcacheMisses,IcacheMisses",
        [[0, 3, 1, 0], [0, 3, 5, 0], [0, 2, 1, 0], [0, 0, 4, 0]],
    ),
    (
        "bulldozer",
        "BranchInstructions,TotalIssues,IcacheIssues,IcacheMisses,\
            DcacheAccesses,BranchMispredictions",
        [[0, 3, 1, 0], [0, 3, 7, 0], [0, 2, 1, 0], [0, 0, 6, 0]],
    ),
    (
        "zen4",
        "BranchInstructions,TotalIssues,BranchMispredictions,L1dMisses,L1dAccesses,Cycles",
        [[0, 4, 1, 0], [0, 4, 7, 0], [1, 2, 1, 0], [0, 0, 6, 0]],
    ),
];

const PERIOD: u64 = 65_536;

fn cost(accesses: Accesses) -> Cost {
    let Accesses { rdmsr, wrmsr, rdpmc, apic } = accesses;
    [rdmsr, wrmsr, rdpmc, apic]
}

/// The first `count` of a list's sources, each sampled at its default period.
fn first(model: &str, list: &str, count: usize) -> Vec<Spec> {
    let mut specs = specs(&mut machine(model, 1), list);
    specs.truncate(count);
    specs
}

/// A session of these sources on one processor.
fn bare(model: &str, specs: &[Spec], flags: u32) -> Bare {
    let mut bare = Bare::new(model, 1);
    bare.configure(flags, specs, 0);
    bare
}

/// The first source's event, branches, makes its counter overflow.
fn overflow(bare: &mut Bare) {
    bare.retire(0, &[(Event::Branches, PERIOD)]);
    assert!(bare.take_interrupt(0));
    assert_eq!(bare.service.processors().cpus[0].faults, []);
}

#[test]
fn overflows_and_snapshots_cost_exactly_this() {
    for (model, list, expected) in ROWS {
        let all = first(model, list, usize::MAX);
        let run = |specs: &[Spec], flags, work: &dyn Fn(&mut Bare)| {
            let mut bare = bare(model, specs, flags);
            bare.start();
            cost(bare.accesses(0, |bare| work(bare)))
        };
        let sampled = |specs: &[Spec], work: &dyn Fn(&mut Bare)| {
            if expected[0] == NOTHING { NOTHING } else { run(specs, SAMPLE, work) }
        };
        let spurious = |bare: &mut Bare| bare.spurious_interrupt(0);
        let snapshot = |bare: &mut Bare| {
            bare.about_session(SNAPSHOT);
        };
        let found = [
            sampled(&all[..1], &overflow),
            sampled(&all, &overflow),
            sampled(&all[..1], &spurious),
            run(&all, 0, &snapshot),
        ];
        assert_eq!(found, expected, "{model}");
    }
}

/// Unmasking LVTPC takes a read and a write: of the APIC's page, or in x2APIC mode of its MSR.
#[test]
fn lvtpc_costs_a_read_and_a_write_where_the_processor_masks_it() {
    let x2apic = |processor: &mut Processor| {
        assert!(processor.boot_x2apic(), "the processor has the mode");
    };
    for (boot, expected) in
        [(Processor::boot_windows as fn(&mut Processor), [1, 4, 1, 2]), (x2apic, [2, 5, 1, 0])]
    {
        let mut bare = Bare::booted("skylake", 1, boot);
        bare.configure(SAMPLE, &first("skylake", "BranchInstructions", 1), 0);
        bare.start();
        assert_eq!(cost(bare.accesses(0, overflow)), expected);
    }
}

/// The budget of docs/performance.md: Intel from version 2, 5 and 1 RDPMC; AMD's PerfMonV2, 4 and
/// 1.
#[test]
fn one_overflow_is_within_the_budget() {
    for (model, msrs) in
        [("core2", 5), ("skylake", 5), ("sapphire-rapids", 5), ("zen4", 4), ("zen5", 4)]
    {
        let specs = first(model, "BranchInstructions", 1);
        let mut bare = bare(model, &specs, SAMPLE);
        bare.start();
        let [rdmsr, wrmsr, rdpmc, _] = cost(bare.accesses(0, overflow));
        assert!(rdmsr + wrmsr <= msrs, "{model}: {rdmsr} + {wrmsr}");
        assert!(rdpmc <= 1, "{model}: {rdpmc}");
    }
}

/// One request reads all counters of all processors, and each processor reads only its own.
#[test]
fn a_snapshot_reads_each_counter_once() {
    for processors in [1, 16, 2048] {
        let specs = first("skylake", "TotalIssues,LLCMisses,BranchInstructions", 3);
        let mut bare = Bare::new("skylake", processors);
        bare.configure(0, &specs, 0);
        bare.start();
        for index in 0..processors {
            bare.cpu(index).processor.reset_accesses();
        }
        bare.about_session(SNAPSHOT);
        for index in 0..processors {
            let accesses = bare.cpu(index).processor.accesses();
            assert_eq!(cost(accesses), [0, 0, 3, 0], "{index} of {processors}");
        }
    }
}

const FIRST: From =
    From { header: RequestHeader::new(size_of::<From>(), 0), first: 0, reserved: 0 };

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
        let specs = first(model, list, usize::MAX);
        let questions = [
            (HELLO, bytes(&Plain { header: header(0) }, &[])),
            (DESCRIBE, bytes(&Plain { header: header(0) }, &[])),
            (PROCESSORS, bytes(&FIRST, &[])),
            (REGISTERS, bytes(&FIRST, &[])),
            (ENUMERATE, bytes(&FIRST, &[])),
            (PLAN, configure(0, 0, &specs)),
        ];
        for flags in [0, SAMPLE] {
            let mut bare = bare(model, &specs, flags);
            if flags == 0 {
                assert_eq!(allocations(&mut || bare.start()), (0, 0), "{model}: start");
            } else {
                bare.start();
            }
            let requests = allocations(&mut || {
                for (code, request) in &questions {
                    bare.request(*code, request);
                }
                bare.about_session(SNAPSHOT);
                if flags == SAMPLE {
                    bare.about_session(STATISTICS);
                    bare.about_session(DRAIN);
                }
                for round in 1..20 {
                    bare.service.processors().cpus[0].processor.set_timestamp(round * 10_000_000);
                    bare.service.processors().tick(0);
                    bare.retire(0, &[(Event::Branches, PERIOD * round)]);
                    bare.take_interrupt(0);
                    bare.spurious_interrupt(0);
                }
                bare.stop();
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

/// What the driver allocates from non-paged memory; `docs/performance.md` has the numbers.
#[test]
fn memory_is_bounded() {
    const KIB: usize = 1024;
    assert!(size_of::<ProcessorState>() <= 32 * KIB, "for each processor");
    // With what NetBurst writes upstream of each counter; 117 KiB in halprof.sys.
    assert!(size_of::<Session>() <= 171 * KIB, "for each session");
    // A ring is two counts, each in its own cache line, and 40 bytes per sample.
    for samples in [1, 2, 1024, 32_768] {
        let bytes = words_for(samples, 0) * size_of::<Word>();
        assert_eq!(bytes, 128 + samples as usize * 40);
    }
}
