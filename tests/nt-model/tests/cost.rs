//! What does the shipped driver cost? `docs/performance.md` has these numbers.
//!
//! Register accesses are asserted exactly. Instructions differ from one compiler to the next, so
//! they are kept below budgets, and printed.

use crate::client::{Client, client};
use halprof_tests::branches::recorders;
use halprof_tests::requests::{bytes, configuration, spec};
use nt_model::cost::{Cost, PROCESSOR_MOST};
use shared_types::request::session::{self, Configure, SAMPLE, Spec};
use shared_types::request::{RequestCode, counts, samples};

const TOTAL_ISSUES: u32 = 2;

/// A client with a session that samples instructions on this many processors.
fn sampling(model: &str, processors: usize, interval: u64) -> (Client, u32) {
    let mut client = client(model, processors, 1).expect("cargo xtask sys");
    let number = client.configured(SAMPLE, &[Spec { interval, ..spec(TOTAL_ISSUES) }]);
    (client, number)
}

/// What a request about the session costs.
fn cost(client: &mut Client, code: RequestCode, session: u32) -> Cost {
    let before = Cost::so_far(&client.model.machine);
    client.granted(code, session);
    Cost::so_far(&client.model.machine) - before
}

const WORK: &str = "instructions=1000000,cycles=2000000,processors=all";
const PERIOD: u64 = 20_000;

/// MSR accesses, RDPMC, accesses to the local APIC's page.
type Accesses = [u64; 3];

const fn accesses(cost: &Cost) -> Accesses {
    [cost.msr, cost.rdpmc, cost.apic]
}

/// Instructions that one sample may take, also one in which the guard decides.
const SAMPLE_MOST: u64 = 500;

/// Bytes of pool while a session samples: for the device, and for each processor, mostly its ring.
const POOL_DEVICE: u64 = 1_210_008;
const POOL_EACH: u64 = 1_342_608;

/// One counter in use, which has overflowed; the scenarios count its register accesses. A period of 0
/// is drawn. With the shortest the guard decides in some.
#[test]
fn one_sample() {
    const LONG: &str = "instructions=100000000,cycles=100000000";
    for (model, period, work) in [
        ("skylake", PERIOD, WORK),
        ("k8", PERIOD, WORK),
        ("zen2", PERIOD, WORK),
        ("zen4", PERIOD, WORK),
        ("skylake", 0, LONG),
        ("zen4", 0, LONG),
        ("skylake", 1, LONG),
    ] {
        let (mut client, number) = sampling(model, 1, period);
        client.granted(session::START, number);
        // START's self-test takes interrupts of its own.
        client.model.machine.overflow_costs.clear();
        client.work(work);
        let costs = &client.model.machine.overflow_costs;
        assert!(costs.len() >= 50, "{model}");
        let most = costs.iter().map(|cost| cost.instructions).max();
        println!("{model}, {period}: {:?}, at most {most:?}", costs[0]);
        assert!(most < Some(SAMPLE_MOST), "{model}: {most:?}");
        assert_eq!(client.statistics(number).throttled > 0, period == 1, "{model}");
    }
}

/// On Skylake and Zen 4: accesses per processor, and instructions that each processor may take.
#[test]
fn requests_on_many_processors() {
    for model in ["skylake", "zen4"] {
        for processors in [1, 2, 8, 64] {
            let (mut client, number) = sampling(model, processors as usize, PERIOD);
            let start = cost(&mut client, session::START, number);
            client.model.machine.overflow_costs.clear();
            client.work(WORK);
            let samples = client.model.machine.overflow_costs.len() as u64;
            assert_eq!(samples, 50 * processors);
            let snapshot = cost(&mut client, counts::SNAPSHOT, number);
            let drain = cost(&mut client, samples::DRAIN, number);
            let stop = cost(&mut client, session::STOP, number);
            // Exact on Intel, less on AMD.
            for (name, cost, accessed, most) in [
                ("start", start, [41, 2, 3], PROCESSOR_MOST),
                ("snapshot", snapshot, [3, 2, 0], PROCESSOR_MOST),
                ("drain", drain, [0, 0, 0], PROCESSOR_MOST),
                ("stop", stop, [12, 3, 1], PROCESSOR_MOST),
            ] {
                let each = accessed.map(|each: u64| each * processors);
                let within = accesses(&cost).iter().zip(each).all(|(took, most)| *took <= most);
                assert!(within, "{model}, {processors}: {name} {cost:?}");
                let each = cost.instructions / processors;
                assert!(each < most, "{model}, {processors}: {name} {each}");
                println!("{model}, {processors}: {name} {cost:?}");
            }
            let bus = client.model.machine.engine.bus();
            assert!(bus.masked_most < 3000, "{}", bus.masked_most);
            let (now, most) = bus.arena.pool;
            assert_eq!((now, most), (POOL_DEVICE + POOL_EACH * processors, now));
            println!("masked {}", bus.masked_most);
        }
    }
}

/// START of a session that records branches sees each of their registers before it relies on them.
#[test]
fn start_with_branches() {
    for recorder in recorders() {
        let mut client = Client::of(&[recorder.leaves]);
        let number = client.open();
        let spec = Spec { filter: Spec::USER, interval: PERIOD, ..spec(TOTAL_ISSUES) };
        let branches = recorder.most.into();
        let head = Configure { session: number, sources: 1, branches, ..configuration(SAMPLE) };
        let configured = client.send(session::CONFIGURE, &bytes(&head, &[spec]));
        assert_eq!(configured.refusal(), None, "{}", recorder.name);
        let start = cost(&mut client, session::START, number);
        let masked = client.model.machine.engine.bus().masked_most;
        println!("{}: start {start:?}, masked {masked}", recorder.name);
        assert!(start.instructions < PROCESSOR_MOST, "{}: {start:?}", recorder.name);
        assert!(masked < 3000, "{}: {masked}", recorder.name);
    }
}
