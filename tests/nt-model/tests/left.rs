//! Is LVTPC open after a session on processors that it did not use?

use crate::client::{Client, client};
use halprof_tests::backend::unbroken;
use halprof_tests::requests::{configure, spec};
use nt_model::{Device, Violation};
use shared_types::ErrorCode;
use shared_types::request::session::{self, Configure};
use std::mem::offset_of;

const TOTAL_ISSUES: u32 = 2;

/// LVTPC in its page, and its mask bit.
const LVTPC: u32 = 0x340;
const MASKED: u32 = 1 << 16;

fn lvtpc(client: &mut Client, processor: usize) -> u32 {
    client.processor(processor).read_apic(LVTPC).expect("xAPIC")
}

/// What the delivery of an overflow interrupt does.
fn mask(client: &mut Client, processor: usize) {
    let entry = lvtpc(client, processor);
    client.processor(processor).write_apic(LVTPC, entry | MASKED).expect("xAPIC");
}

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
        let before = lvtpc(&mut client, 1);
        assert_eq!(before & MASKED, 0, "{model}");
        mask(&mut client, 1);
        client.granted(session::STOP, number);
        for processor in [0, 1] {
            assert_eq!(lvtpc(&mut client, processor), before, "{model}: {processor}");
        }
        client.end();
    }
}

/// Windows keeps the handler, and then the counters of threads too. As long as it keeps these, the
/// handler stays, because an interrupt without one would leave LVTPC masked: whoever gives the
/// counters back looks at it only once, when the handler goes. Returns the processors where it is
/// masked in the end.
pub(crate) fn handler_and_threads_are_kept(device: Device) -> Result<Vec<usize>, Violation> {
    let mut client = Client::on(device);
    let sampling = client.run(spec(TOTAL_ISSUES), session::SAMPLE);
    client.model.machine.kernel.keeps_handler = true;
    client.granted(session::STOP, sampling);
    client.granted(session::CLOSE, sampling);
    let threads = client.run(spec(TOTAL_ISSUES), session::THREADS);
    client.model.machine.kernel.profiling = 1;
    client.granted(session::STOP, threads);
    client.model.machine.kernel.keeps_handler = false;
    let refused = client.about(session::START, threads).error();
    assert_eq!(refused, Some(ErrorCode::ThreadsKept));
    mask(&mut client, 1);
    client.spurious_interrupt(1);
    client.model.machine.kernel.profiling = 0;
    client.granted(session::START, threads);
    let processors = 0..client.model.machine.processors();
    let masked = processors.filter(|&index| lvtpc(&mut client, index) & MASKED != 0).collect();
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok(masked)
}

#[test]
fn an_interrupt_while_handler_and_threads_are_kept() {
    for model in ["skylake", "zen2"] {
        let Some(client) = client(model, 2, 1) else { return };
        let masked = unbroken(handler_and_threads_are_kept(client.model));
        assert!(masked.is_empty(), "{model}: {masked:?}");
    }
}
