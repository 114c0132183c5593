//! Is LVTPC open after a session on processors that it did not use?

use crate::client::{Client, client};
use halprof_tests::requests::{configure, spec};
use shared_types::request::session::{self, Configure};
use std::mem::offset_of;

const TOTAL_ISSUES: u32 = 2;

/// LVTPC in its page, and its mask bit.
const LVTPC: u32 = 0x340;
const MASKED: u32 = 1 << 16;

/// The delivery of an interrupt masks LVTPC on a processor where nothing runs, when there is no
/// handler any more that would unmask it. The driver does it as soon as the handler is gone.
#[test]
fn an_interrupt_where_nothing_runs_and_nothing_handles_it() {
    for model in ["skylake", "zen2"] {
        let Some(mut client) = client(model, 2, 1) else { return };
        let number = client.open();
        let mut request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
        request[offset_of!(Configure, processors)] = 0b01;
        assert_eq!(client.send(session::CONFIGURE, &request).refusal(), None);
        client.granted(session::START, number);
        let lvtpc = |client: &mut Client, index| client.processor(index).read_apic(LVTPC);
        let before = lvtpc(&mut client, 1).expect("xAPIC");
        assert_eq!(before & MASKED, 0, "{model}");
        let masked = client.processor(1).write_apic(LVTPC, before | MASKED);
        masked.expect("xAPIC");
        client.granted(session::STOP, number);
        for processor in [0, 1] {
            assert_eq!(lvtpc(&mut client, processor), Ok(before), "{model}: {processor}");
        }
        client.end();
    }
}
