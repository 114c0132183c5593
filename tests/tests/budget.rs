//! Does anything allocate, and how much memory does the driver hold?

use hal_profile::run::state::ProcessorState;
use hal_profile::service::session::Session;
use halprof_measure::{Connection, InProcess, Setup, Transport};
use halprof_tests::machines::{machine, specs};
use halprof_tests::requests::{bytes, configure, header};
use halprof_tests::wire::{RawClient, about, leaves};
use shared_types::request::counts::SNAPSHOT;
use shared_types::request::machine::{DESCRIBE, From, HELLO, PROCESSORS, REGISTERS};
use shared_types::request::samples::{DRAIN, STATISTICS};
use shared_types::request::session::{SAMPLE, START, STOP, Spec};
use shared_types::request::source::{ENUMERATE, PLAN};
use shared_types::request::{Plain, RequestCode};
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

/// A machine, and the longest buffer that a reply was given: Windows takes that much non-paged pool
/// for the request (METHOD_BUFFERED).
struct Buffers {
    machine: InProcess,
    longest: usize,
}

impl Transport for Buffers {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> halprof_measure::Result<usize> {
        self.longest = self.longest.max(output.len());
        self.machine.request(code, input, output)
    }
}

/// The largest machine with the most sources has 41,943,040 bytes of counts.
#[test]
fn a_poll_takes_one_mebibyte_of_pool_at_most() {
    let machine = InProcess::new(&leaves("skylake", 2048));
    let mut connection = Connection::new(Buffers { machine, longest: 0 }).expect("a greeting");
    let raw = |number: u64| Spec::of_raw(0xC0 | number << 8);
    let setup = Setup { specs: (0..256).map(raw).collect(), ..Setup::default() };
    let mut session =
        halprof_measure::Session::open(&mut connection, true, false).expect("a session");
    session.configure(&setup, false).expect("a configuration");
    session.start().expect("a start");
    let mut counts = Vec::new();
    let host = allocation_counter::measure(|| counts = session.snapshot().expect("counts"));
    assert_eq!((counts.len(), counts[0].len()), (2048, 256));
    assert_eq!(session.transport().longest, 1 << 20);
    // All of it is the client's: its own buffer, and the counts that it returns.
    assert!(host.bytes_max < 2 * 41_943_040 + (2 << 20), "{host:?}");
    let stopped = session.stop_and_read().expect("counts");
    assert_eq!((stopped.len(), stopped[0].len()), (2048, 256));
    assert_eq!(session.transport().longest, 1 << 20);
    drop(session);
    // HELLO, OPEN, CONFIGURE, DESCRIBE, START; 51 processors in each page; STOP; CLOSE.
    assert_eq!(connection.requests(), 5 + 41 + 1 + 41 + 1);
}

/// What the driver allocates from non-paged memory; `docs/performance.md` has the numbers, and `ring.rs`
/// the sizes of rings.
#[test]
fn memory_is_bounded() {
    const KIB: usize = 1024;
    let each = size_of::<ProcessorState>();
    assert!(each <= 33 * KIB, "{each} for each processor");
    // With what NetBurst writes upstream of each counter; 117 KiB in halprof.sys.
    assert!(size_of::<Session>() <= 171 * KIB, "for each session");
}
