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

/// What the operations cost on one processor.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    model: &'static str,
    /// As many sources as it has counters, of any kind; the first is also used alone.
    sources: &'static str,
    /// The self-test of its counter, which stops it again and leaves it at 0, and then the start.
    start_one: Cost,
    start_all: Cost,
    stop_one: Cost,
    stop_all: Cost,
    /// One overflow with one active counter, LVTPC included.
    overflow_one: Cost,
    /// One overflow with all counters active.
    overflow_all: Cost,
    /// An interrupt that none of our counters has requested, with one active.
    spurious: Cost,
    snapshot_all: Cost,
}

const NOTHING: Cost = [0; 4];

const ROWS: [Row; 10] = [
    Row {
        model: "pentium",
        sources: "BranchInstructions,TotalIssues",
        start_one: [4 + 2, 4 + 3, 0, 0],
        start_all: [8 + 4, 8 + 6, 0, 0],
        stop_one: [2, 2, 0, 0],
        stop_all: [4, 4, 0, 0],
        overflow_one: NOTHING,
        overflow_all: NOTHING,
        spurious: NOTHING,
        snapshot_all: [2, 0, 0, 0],
    },
    Row {
        model: "pentium3",
        sources: "BranchInstructions,TotalCycles",
        start_one: [0, 6 + 3, 1, 0],
        start_all: [0, 9 + 5, 2, 0],
        stop_one: [0, 4, 1, 0],
        stop_all: [0, 6, 2, 0],
        overflow_one: [0, 3, 1, 0],
        overflow_all: [0, 3, 2, 0],
        spurious: [0, 2, 1, 0],
        snapshot_all: [0, 0, 2, 0],
    },
    Row {
        model: "pentium-m",
        sources: "BranchInstructions,TotalCycles",
        start_one: [0, 6 + 3, 1, 0],
        start_all: [0, 9 + 5, 2, 0],
        stop_one: [0, 4, 1, 0],
        stop_all: [0, 6, 2, 0],
        overflow_one: [0, 3, 1, 2],
        overflow_all: [0, 3, 2, 2],
        spurious: [0, 2, 1, 2],
        snapshot_all: [0, 0, 2, 0],
    },
    Row {
        model: "pentium4",
        sources: "BranchInstructions,TotalIssues,BranchMispredictions,TotalCycles",
        // All CCCRs except that of counter 1, which has an erratum, are turned off first, because
        // one counter's self-test would share another's ESCR.
        start_one: [0, 17 + 6 + 4, 1, 0],
        start_all: [0, 17 + 18 + 16, 3, 0],
        stop_one: [0, 3, 1, 0],
        stop_all: [0, 12, 4, 0],
        overflow_one: [1, 4, 1, 2],
        overflow_all: [4, 4, 4, 2],
        spurious: [1, 0, 1, 2],
        snapshot_all: [0, 0, 4, 0],
    },
    Row {
        model: "yonah",
        sources: "BranchInstructions,TotalCycles",
        start_one: [1, 4 + 2, 1, 0],
        start_all: [2, 8 + 4, 2, 0],
        stop_one: [0, 2, 1, 0],
        stop_all: [0, 4, 2, 0],
        overflow_one: [0, 3, 1, 2],
        overflow_all: [0, 3, 3, 4],
        spurious: [0, 2, 1, 2],
        snapshot_all: [0, 0, 2, 0],
    },
    Row {
        model: "core2",
        sources: "BranchInstructions,TotalCycles",
        start_one: [6 + 2, 8 + 5, 1, 0],
        start_all: [7 + 2, 11 + 7, 2, 0],
        // Whether a freeze has cleared the others' bits.
        stop_one: [3, 5, 1, 0],
        stop_all: [3, 7, 2, 0],
        overflow_one: [1, 4, 1, 2],
        overflow_all: [1, 4, 2, 2],
        spurious: [2, 2, 1, 2],
        snapshot_all: [0, 0, 2, 0],
    },
    Row {
        model: "skylake",
        sources: "BranchInstructions,BranchMispredictions,LLCMisses,LLCReference,\
            FixedInstructions,FixedCycles,FixedReferenceCycles",
        start_one: [7 + 2, 8 + 5, 1, 0],
        start_all: [12 + 3, 22 + 15, 7, 0],
        stop_one: [2, 5, 1, 0],
        stop_all: [3, 15, 7, 0],
        overflow_one: [1, 4, 1, 2],
        overflow_all: [1, 4, 7, 2],
        spurious: [2, 2, 1, 2],
        snapshot_all: [0, 0, 7, 0],
    },
    Row {
        model: "k8",
        sources: "BranchInstructions,TotalIssues,DcacheMisses,IcacheMisses",
        start_one: [1, 4 + 2, 1, 0],
        start_all: [4, 16 + 8, 4, 0],
        stop_one: [0, 2, 1, 0],
        stop_all: [0, 8, 4, 0],
        overflow_one: [0, 3, 1, 0],
        overflow_all: [0, 3, 5, 0],
        spurious: [0, 2, 1, 0],
        snapshot_all: [0, 0, 4, 0],
    },
    Row {
        model: "bulldozer",
        sources: "BranchInstructions,TotalIssues,IcacheIssues,IcacheMisses,\
            DcacheAccesses,BranchMispredictions",
        start_one: [1, 4 + 2, 1, 0],
        start_all: [6, 24 + 12, 6, 0],
        stop_one: [0, 2, 1, 0],
        stop_all: [0, 12, 6, 0],
        overflow_one: [0, 3, 1, 0],
        overflow_all: [0, 3, 7, 0],
        spurious: [0, 2, 1, 0],
        snapshot_all: [0, 0, 6, 0],
    },
    Row {
        model: "zen4",
        sources: "BranchInstructions,TotalIssues,BranchMispredictions,L1dMisses,\
            L1dAccesses,Cycles",
        start_one: [6 + 2, 8 + 5, 1, 0],
        start_all: [11 + 2, 23 + 15, 6, 0],
        stop_one: [2, 5, 1, 0],
        stop_all: [2, 15, 6, 0],
        overflow_one: [0, 4, 1, 0],
        overflow_all: [0, 4, 7, 0],
        spurious: [1, 2, 1, 0],
        snapshot_all: [0, 0, 6, 0],
    },
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

fn measured(row: &Row) -> Row {
    let all = first(row.model, row.sources, usize::MAX);
    let one = &all[..1];
    let run = |specs: &[Spec], flags, work: &dyn Fn(&mut Bare)| {
        let mut bare = bare(row.model, specs, flags);
        bare.start();
        cost(bare.accesses(0, |bare| work(bare)))
    };
    let start = |specs: &[Spec]| {
        let mut bare = bare(row.model, specs, 0);
        cost(bare.accesses(0, Bare::start))
    };
    let interrupts = row.overflow_one != NOTHING;
    let overflows = |specs: &[Spec]| {
        if interrupts { run(specs, SAMPLE, &overflow) } else { NOTHING }
    };
    Row {
        model: row.model,
        sources: row.sources,
        start_one: start(one),
        start_all: start(&all),
        stop_one: run(one, 0, &|bare| bare.stop()),
        stop_all: run(&all, 0, &|bare| bare.stop()),
        overflow_one: overflows(one),
        overflow_all: overflows(&all),
        spurious: if interrupts {
            run(one, SAMPLE, &|bare| bare.spurious_interrupt(0))
        } else {
            NOTHING
        },
        snapshot_all: run(&all, 0, &|bare| {
            bare.about_session(SNAPSHOT);
        }),
    }
}

#[test]
fn operations_cost_exactly_this() {
    let found: Vec<Row> = ROWS.iter().map(measured).collect();
    assert_eq!(found, ROWS);
}

/// A turn with all general counters in use ends; the next turn uses one.
fn rotation(model: &str, sources: &str) -> Cost {
    const LONG: u64 = 1_000_000_000;
    let mut bare = bare(model, &first(model, sources, usize::MAX), 0);
    bare.start();
    bare.cpu(0).processor.set_timestamp(LONG);
    cost(bare.accesses(0, |bare| bare.service.processors().tick(0)))
}

#[test]
fn a_rotation_costs_a_stop_and_a_start() {
    for (model, sources, expected) in [
        ("pentium3", "TotalIssues,TotalCycles,BranchInstructions", [0, 4 + 3, 2, 0]),
        (
            "skylake",
            "BranchInstructions,BranchMispredictions,LLCMisses,LLCReference,r00C0",
            [1 + 2, 6 + 5, 4, 0],
        ),
        (
            "k8",
            "TotalIssues,BranchInstructions,DcacheMisses,IcacheMisses,IcacheIssues",
            [0, 4 + 2, 4, 0],
        ),
        (
            "zen4",
            "TotalIssues,BranchInstructions,BranchMispredictions,L1dMisses,L1dAccesses,Cycles,\
             FpOperations",
            [1 + 2, 8 + 5, 6, 0],
        ),
    ] {
        assert_eq!(rotation(model, sources), expected, "{model}");
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
