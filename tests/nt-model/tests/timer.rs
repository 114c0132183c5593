//! Does the timer expire however often a client asks?

use crate::client::client;
use halprof_tests::backend::unbroken;
use halprof_tests::requests::spec;
use shared_types::LossCause;
use shared_types::request::counts::SNAPSHOT;
use shared_types::request::session::{SAMPLE, Spec};
use sim::cpu::event::Event;

const TOTAL_ISSUES: u32 = 2;
const PERIOD: u64 = 10_000;
const STEP_NS: u64 = 20_000_000;

/// A timer that each request set anew would never be due. Its poll finds an overflow whose interrupt
/// was lost.
#[test]
fn it_expires_though_a_client_asks_every_20_ms() {
    let Some(mut client) = client("skylake", 1, 1) else { return };
    let number = client.run(Spec { interval: PERIOD, ..spec(TOTAL_ISSUES) }, SAMPLE);
    let processor = client.processor(0);
    let mut counts = *processor.counts();
    counts.set(Event::Instructions, PERIOD, PERIOD);
    processor.retire(counts);
    assert!(processor.acknowledge_interrupt().is_some());
    for _ in 0..50 {
        unbroken(client.model.pass(STEP_NS));
        client.granted(SNAPSHOT, number);
    }
    assert_eq!(client.statistics(number).lost[LossCause::Missed as usize], 1);
    client.end();
}
