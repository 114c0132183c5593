//! Do ticks do harm, whenever they come: behind the DPCs of a STOP and of the next START, or while a
//! counter overflows?

use crate::client::{Client, device};
use fastrand::Rng;
use halprof_tests::backend::{Backend, unbroken};
use halprof_tests::requests::{bytes, configuration, spec};
use halprof_tests::wire::{AMPLE, Reply, about};
use nt_model::device::Submitted;
use nt_model::engine::Accesses;
use nt_model::programs::Program;
use nt_model::{Device, Violation, kernel};
use shared_types::request::RequestCode;
use shared_types::request::events::{DRAIN_EVENTS, DrainedEvents};
use shared_types::request::session::{self, Configure, EVENTS, SAMPLE, Spec};
use shared_types::{ErrorCode, EventKind, LossCause, SystemEvent};
use sim::cpu::event::Event;
use std::ops::RangeInclusive;

const TOTAL_ISSUES: u32 = 2;
/// Processors with a late tick: the more, the likelier it is that one of them puts an event at the
/// worst moment.
pub(crate) const PROCESSORS: usize = 16;
/// The calls of a START that may fail before it asks for its sample rings: the counters, the handler,
/// the ring of events.
const BEFORE_THE_RINGS: u64 = 3;
/// How late a tick then begins, in steps of its processor: START takes some hundred to give the ring of
/// events back, if there is no memory for the others.
const SOON: RangeInclusive<u16> = 64..=1024;
/// More calls than any request makes.
const MANY: u64 = 1 << 20;
const PERIOD: u64 = 5_000;

/// One request, which returns as soon as it is completed: what else is under way stays so. After the
/// first `calls` of those that may fail, late ticks begin soon, and everything goes on in small steps.
fn send(
    client: &mut Client,
    code: RequestCode,
    input: &[u8],
    calls: u64,
) -> Result<Reply, Violation> {
    let submitted = client.model.submit(&client.handle, code, input, AMPLE)?;
    let Submitted::Queued(request) = submitted else { panic!("{submitted:?}") };
    let machine = &mut client.model.machine;
    let late = machine.kernel.fail_after.and_then(|left| left.checked_sub(calls));
    while !machine.framework.is_completed(request) {
        assert!(machine.go_on()?, "a request that nobody serves");
        if !machine.finely && machine.kernel.fail_after <= late {
            machine.finely = true;
            let soon = machine.rng.u16(SOON);
            machine.hasten_dpcs(soon);
        }
    }
    machine.finely = false;
    let (status, bytes) = client.model.finish_request(request)?;
    Ok(Reply { status, bytes })
}

/// A session of one source, with rings of the fewest samples.
fn configure(session: u32, flags: u32) -> Vec<u8> {
    let head = Configure { session, sources: 1, ring_samples: 64, ..configuration(flags) };
    bytes(&head, &[Spec { interval: PERIOD, ..spec(TOTAL_ISSUES) }])
}

/// A sample whose interrupt takes a millisecond, so that periods are lengthened, of which it leaves a
/// note.
fn leave_a_note(client: &mut Client, processor: usize) {
    let mut counts = *client.processor(processor).counts();
    counts.set(Event::Instructions, PERIOD, PERIOD);
    client.processor(processor).retire(counts);
    assert!(client.processor(processor).acknowledge_interrupt().is_some());
    client.model.cpus()[processor].interrupt_cost = 1_000_000;
    client.spurious_interrupt(processor);
}

/// A session that leaves notes, and stops while its last ticks are queued. They are of medium
/// importance, so STOP's DPCs overtake them. Returns its number.
fn stop_before_the_last_ticks(client: &mut Client) -> Result<u32, Violation> {
    let number = client.open();
    let configured = client.send(session::CONFIGURE, &configure(number, SAMPLE));
    assert_eq!(configured.refusal(), None);
    client.granted(session::START, number);
    for processor in 0..client.model.machine.processors() {
        leave_a_note(client, processor);
    }
    let machine = &mut client.model.machine;
    kernel::expire_timers(machine);
    let enough = machine.processors() / 2;
    while machine.queued_dpcs() < enough && machine.go_on()? {}
    client.model.machine.kernel.fail_after = Some(MANY);
    let stopped = send(client, session::STOP, &about(number), MANY)?;
    assert_eq!(stopped.refusal(), None);
    Ok(number)
}

/// After such a session comes a START that records events, and has memory for its rings or not.
/// Returns the events.
pub(crate) fn overtaken_ticks(device: Device, memory: bool) -> Result<Vec<SystemEvent>, Violation> {
    let mut client = Client::on(device);
    let number = stop_before_the_last_ticks(&mut client)?;
    let input = configure(number, SAMPLE | EVENTS);
    let configured = send(&mut client, session::CONFIGURE, &input, MANY)?;
    assert_eq!(configured.refusal(), None);
    let enough = if memory { MANY } else { BEFORE_THE_RINGS };
    client.model.machine.kernel.fail_after = Some(enough);
    let input = about(number);
    let started = send(&mut client, session::START, &input, BEFORE_THE_RINGS)?;
    assert_eq!(started.error(), (!memory).then_some(ErrorCode::NoMemory));
    client.model.machine.kernel.fail_after = None;
    client.model.machine.settle()?;
    let mut events = Vec::new();
    if memory {
        client.granted(session::STOP, number);
        events = client.about(DRAIN_EVENTS, number).elements::<DrainedEvents, _>();
    }
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok(events)
}

/// Whether nothing is told of a session but that it started and stopped.
pub(crate) fn is_uneventful(events: &[SystemEvent]) -> bool {
    let kinds: Vec<u32> = events.iter().map(|event| event.kind).collect();
    kinds == [EventKind::SessionStarted as u32, EventKind::SessionStopped as u32]
}

/// Where nothing runs, late ticks and interrupts read nothing that a request writes: it may just be
/// writing it. Interrupts come all the same, because Windows keeps the handler. Returns how many words
/// they read that START or STOP wrote.
pub(crate) fn read_where_nothing_runs(device: Device) -> Result<usize, Violation> {
    let mut client = Client::on(device);
    client.model.machine.kernel.keeps_handler = true;
    client.model.machine.engine.bus().accesses = Some(Accesses::default());
    stop_before_the_last_ticks(&mut client)?;
    let bus = client.model.machine.engine.bus();
    let requests = bus.accesses.replace(Accesses::default()).unwrap_or_default();
    let machine = &mut client.model.machine;
    machine.kernel.fail_after = None;
    machine.hasten_dpcs(1);
    machine.settle()?;
    for processor in 0..machine.processors() {
        client.spurious_interrupt(processor);
    }
    let late = client.model.machine.engine.bus().accesses.take().unwrap_or_default();
    assert!(!requests.written.is_empty() && !late.read.is_empty());
    client.model.machine.kernel.keeps_handler = false;
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok(requests.written.intersection(&late.read).count())
}

/// Ticks come at any instruction of a program, and the instructions of the ticks count too: some
/// overflow while a tick has their interrupt masked. Returns how many samples were stored, and how
/// many are said to be missed. `device`: not started.
pub(crate) fn ticks_at_any_instruction(
    mut device: Device,
    seed: u64,
) -> Result<(u64, u64), Violation> {
    const TICKS: usize = 300;
    device.machine.feed_guest(0);
    assert_eq!(device.start()?, 0);
    let mut client = Client::on(device);
    let program = Program::find("loop").expect("a program");
    let number = client.run(Spec { interval: PERIOD, ..spec(TOTAL_ISSUES) }, SAMPLE);
    client.model.begin_programs(program, 1 << 20)?;
    let mut rng = Rng::with_seed(seed);
    for _ in 0..TICKS {
        client.model.advance(rng.u64(1..500))?;
        kernel::expire_timers(&mut client.model.machine);
        client.model.machine.settle()?;
    }
    client.granted(session::STOP, number);
    let statistics = client.statistics(number);
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok((statistics.stored, statistics.lost[LossCause::Missed as usize]))
}

fn started(seed: u64) -> Option<Device> {
    let mut device = device("skylake", PROCESSORS, seed)?;
    assert_eq!(unbroken(device.start()), 0);
    Some(device)
}

/// The ring of events comes and goes again while ticks put events.
#[test]
fn a_ring_of_events_is_replaced_under_late_ticks() {
    for seed in 0..40 {
        let Some(device) = started(seed) else { return };
        overtaken_ticks(device, false).unwrap_or_else(|v| panic!("seed {seed}: {v}"));
    }
}

/// What was noted in one session is no event of the next.
#[test]
fn notes_stay_in_their_session() {
    for seed in 0..5 {
        let Some(device) = started(seed) else { return };
        let events = overtaken_ticks(device, true).unwrap_or_else(|v| panic!("seed {seed}: {v}"));
        assert!(is_uneventful(&events), "seed {seed}: {events:?}");
    }
}

#[test]
fn ticks_read_nothing_of_a_run_that_is_over() {
    for seed in 0..4 {
        let Some(device) = started(seed) else { return };
        assert_eq!(unbroken(read_where_nothing_runs(device)), 0, "seed {seed}");
    }
}

/// The interrupt of an overflow behind a tick's mask is on the way, and makes a sample.
#[test]
fn what_overflows_during_a_tick_is_a_sample() {
    let Some(device) = device("skylake", 1, 1) else { return };
    let (stored, missed) = unbroken(ticks_at_any_instruction(device, 1));
    assert!(stored > 50, "{stored}");
    assert_eq!(missed, 0);
}
