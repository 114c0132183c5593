//! What does each operation cost in register accesses, and does docs/performance.md say so?

use crate::backend::Backend;
use crate::machines::{on, specs};
use crate::performance_page as page;
use crate::stepped::Stepped;
use crate::wire::leaves;
use shared_types::request::session::{SAMPLE, Spec};
use sim::Accesses;
use sim::cpu::event::Event;

scenarios![
    overflows_and_snapshots_cost_exactly_this,
    lvtpc_costs_a_read_and_a_write_of_its_msr_in_x2apic_mode,
    a_snapshot_reads_each_counter_once,
    starts_and_stops_cost_what_the_page_says,
];

/// RDMSR, WRMSR, RDPMC, reads and writes of the local APIC's page.
type Cost = [u64; 4];

const NOTHING: Cost = [0; 4];

/// What a model's registers cost.
struct Row {
    model: &'static str,
    /// As many as it has counters, of any kind; the first is also used alone.
    sources: &'static str,
    /// An overflow with one counter in use, and with all.
    overflow_of_one: Cost,
    overflow_of_all: Cost,
    /// An interrupt that none of our counters has requested.
    spurious: Cost,
    /// A snapshot of all.
    snapshot: Cost,
}

const P6: &str = "BranchInstructions,TotalCycles";
const ROWS: [Row; 10] = [
    Row {
        model: "pentium",
        sources: "BranchInstructions,TotalIssues",
        overflow_of_one: NOTHING,
        overflow_of_all: NOTHING,
        spurious: NOTHING,
        snapshot: [2, 0, 0, 0],
    },
    Row {
        model: "pentium3",
        sources: P6,
        overflow_of_one: [0, 3, 1, 0],
        overflow_of_all: [0, 3, 2, 0],
        spurious: [0, 2, 1, 0],
        snapshot: [0, 0, 2, 0],
    },
    Row {
        model: "pentium-m",
        sources: P6,
        overflow_of_one: [0, 3, 1, 2],
        overflow_of_all: [0, 3, 2, 2],
        spurious: [0, 2, 1, 2],
        snapshot: [0, 0, 2, 0],
    },
    Row {
        model: "pentium4",
        sources: "BranchInstructions,TotalIssues,BranchMispredictions,TotalCycles",
        overflow_of_one: [1, 4, 1, 2],
        overflow_of_all: [4, 4, 4, 2],
        spurious: [1, 0, 1, 2],
        snapshot: [0, 0, 4, 0],
    },
    Row {
        model: "yonah",
        sources: P6,
        overflow_of_one: [0, 3, 1, 2],
        overflow_of_all: [0, 3, 3, 4],
        spurious: [0, 2, 1, 2],
        snapshot: [2, 0, 2, 0],
    },
    Row {
        model: "core2",
        sources: P6,
        overflow_of_one: [1, 4, 1, 2],
        overflow_of_all: [1, 4, 2, 2],
        spurious: [2, 2, 1, 2],
        snapshot: [3, 0, 2, 0],
    },
    Row {
        model: "skylake",
        sources: "BranchInstructions,BranchMispredictions,LLCMisses,LLCReference,\
            FixedInstructions,FixedCycles,FixedReferenceCycles",
        overflow_of_one: [1, 4, 1, 2],
        overflow_of_all: [1, 4, 7, 2],
        spurious: [2, 2, 1, 2],
        snapshot: [7, 0, 7, 0],
    },
    Row {
        model: "k8",
        sources: "BranchInstructions,TotalIssues,DcacheMisses,IcacheMisses",
        overflow_of_one: [0, 3, 1, 0],
        overflow_of_all: [0, 3, 5, 0],
        spurious: [0, 2, 1, 0],
        snapshot: [4, 0, 4, 0],
    },
    Row {
        model: "bulldozer",
        sources: "BranchInstructions,TotalIssues,IcacheIssues,IcacheMisses,\
            DcacheAccesses,BranchMispredictions",
        overflow_of_one: [0, 3, 1, 0],
        overflow_of_all: [0, 3, 7, 0],
        spurious: [0, 2, 1, 0],
        snapshot: [6, 0, 6, 0],
    },
    Row {
        model: "zen4",
        sources: "BranchInstructions,TotalIssues,BranchMispredictions,L1dMisses,L1dAccesses,Cycles",
        overflow_of_one: [0, 4, 1, 0],
        overflow_of_all: [0, 4, 7, 0],
        spurious: [1, 2, 1, 0],
        snapshot: [8, 0, 6, 0],
    },
];

/// The longest that is drawn around the default, 65,536.
const PERIOD: u64 = 69_632;

fn count_by_kind(accesses: Accesses) -> Cost {
    let Accesses { rdmsr, wrmsr, rdpmc, apic } = accesses;
    [rdmsr, wrmsr, rdpmc, apic]
}

/// MSR accesses and RDPMC, as the page has them: LVTPC is not in its tables.
const fn both_kinds([rdmsr, wrmsr, rdpmc, _]: Cost) -> [u64; 2] {
    [rdmsr + wrmsr, rdpmc]
}

/// The tables of the page.
const REGISTER_ACCESSES: &str = "## Register accesses";
const ONE_OVERFLOW: &str = "## One overflow";

/// The models of those tables, with the names of their rows.
const ON_THE_PAGE: [(&str, &str); 5] = [
    ("core2", "Intel version 2 (Core 2)"),
    ("skylake", "Intel version 4 (Skylake)"),
    ("k8", "AMD, 4 counters (K8)"),
    ("bulldozer", "AMD, 6 counters (family 15h)"),
    ("zen4", "AMD PerfMonV2 (Zen 4)"),
];

/// The first `count` of a list's sources, each sampled at its default period.
fn first<B: Backend>(model: &str, list: &str, count: usize) -> Vec<Spec> {
    let mut specs = specs(&mut on::<B>(&format!("{model},processors=1")), list);
    specs.truncate(count);
    specs
}

fn running<B: Backend>(model: &str, processors: usize, flags: u32, specs: &[Spec]) -> Stepped<B> {
    let mut machine = Stepped::new(model, processors);
    machine.run(flags, specs);
    machine
}

/// The first source's event, branches, makes its counter overflow.
fn overflow<B: Backend>(machine: &mut Stepped<B>) {
    machine.retire(0, &[(Event::Branches, PERIOD)]);
    assert!(machine.take_interrupt(0));
}

fn overflows_and_snapshots_cost_exactly_this<B: Backend>() {
    for row in &ROWS {
        let all = first::<B>(row.model, row.sources, usize::MAX);
        let run = |specs: &[Spec], flags, work: &dyn Fn(&mut Stepped<B>)| {
            count_by_kind(running(row.model, 1, flags, specs).accesses(0, |machine| work(machine)))
        };
        let sampled = |specs: &[Spec], work: &dyn Fn(&mut Stepped<B>)| {
            if row.overflow_of_one == NOTHING { NOTHING } else { run(specs, SAMPLE, work) }
        };
        let found = [
            sampled(&all[..1], &overflow),
            sampled(&all, &overflow),
            sampled(&all[..1], &|machine| machine.spurious_interrupt(0)),
            run(&all, 0, &|machine| drop(machine.snapshot())),
        ];
        let expected = [row.overflow_of_one, row.overflow_of_all, row.spurious, row.snapshot];
        assert_eq!(found, expected, "{}", row.model);
    }
    the_page_has_their_sums();
}

/// [`ROWS`] has each kind of access of an overflow and a snapshot, the page their sums.
fn the_page_has_their_sums() {
    for (model, name) in ON_THE_PAGE {
        let row = ROWS.iter().find(|row| row.model == model).expect("a row");
        let of_one_overflow = [row.overflow_of_one, row.overflow_of_all, row.spurious];
        let cells = page::row(ONE_OVERFLOW, name);
        let stated: Vec<[u64; 2]> = cells[1..4].iter().map(|cell| page::accesses(cell)).collect();
        assert_eq!(of_one_overflow.map(both_kinds)[..], stated, "{model}");
        let stated = page::row(REGISTER_ACCESSES, name)[5];
        assert_eq!(both_kinds(row.snapshot), page::accesses(stated), "{model}");
    }
}

/// With APIC ids above 255; [`ROWS`] has the other mode.
fn lvtpc_costs_a_read_and_a_write_of_its_msr_in_x2apic_mode<B: Backend>() {
    let specs = first::<B>("skylake", "BranchInstructions", 1);
    let mut machine = Stepped::<B>::of(&leaves("skylake", 302)[301..]);
    machine.run(SAMPLE, &specs);
    assert_eq!(count_by_kind(machine.accesses(0, overflow)), [2, 5, 1, 0]);
}

/// One request reads all counters of all processors, and each processor reads only its own: after
/// what makes them count, two selects, the fixed counters' control, the global one and the status.
fn a_snapshot_reads_each_counter_once<B: Backend>() {
    for processors in [1, 16, 65] {
        let specs = first::<B>("skylake", "TotalIssues,LLCMisses,BranchInstructions", 3);
        let mut machine = running::<B>("skylake", processors, 0, &specs);
        for index in 0..processors {
            machine.processor(index).reset_accesses();
        }
        machine.snapshot();
        for index in 0..processors {
            let accesses = machine.processor(index).accesses();
            assert_eq!(count_by_kind(accesses), [5, 0, 3, 0], "{index} of {processors}");
        }
    }
}

/// START and STOP of a session that counts: with the first of a model's sources in [`ROWS`], and with
/// all. What they cost stands on the page alone.
fn starts_and_stops_cost_what_the_page_says<B: Backend>() {
    for (model, name) in ON_THE_PAGE {
        let list = ROWS.iter().find(|row| row.model == model).expect("a row").sources;
        let cost = |count, stops: bool| {
            let mut machine = Stepped::<B>::new(model, 1);
            machine.configure(0, &first::<B>(model, list, count), 0);
            if stops {
                machine.start();
            }
            let work = if stops { Stepped::stop } else { Stepped::start };
            let accesses = machine.accesses(0, work);
            if !stops {
                machine.stop();
            }
            both_kinds(count_by_kind(accesses))
        };
        let all = usize::MAX;
        let found = [cost(1, false), cost(all, false), cost(1, true), cost(all, true)];
        let cells = page::row(REGISTER_ACCESSES, name);
        let stated: Vec<[u64; 2]> = cells[1..5].iter().map(|cell| page::accesses(cell)).collect();
        assert_eq!(found[..], stated, "{model}");
    }
}
