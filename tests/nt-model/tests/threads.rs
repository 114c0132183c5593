//! Does each thread get exactly its own events, wherever it runs, and is the list of counters
//! released?

use crate::client::{Client, client};
use fastrand::Rng;
use halprof_tests::backend::{Backend, unbroken};
use halprof_tests::requests::spec;
use halprof_tests::wire::{AMPLE, Reply, about, rows};
use nt_model::Violation;
use nt_model::threads::Thread;
use shared_types::ErrorCode;
use shared_types::request::machine::Machine;
use shared_types::request::{RequestCode, counts, session};
use sim::cpu::event::{Counts, Event};

const IA32_PERFEVTSEL0: u32 = 0x186;
const PROCESSORS: usize = 4;
/// Three that profile themselves, and one that does not.
const THREADS: usize = 4;
const PROFILED: usize = 3;
/// Instructions, and branches.
const SOURCES: [u32; 2] = [2, 6];
const STEPS: usize = 120;

/// A running session that counts by thread.
fn started(client: &mut Client) -> u32 {
    let number = client.configured(session::THREADS, &SOURCES.map(spec));
    client.granted(session::START, number);
    number
}

fn counting(client: &mut Client) -> u32 {
    client.configured(0, &SOURCES.map(spec))
}

/// Some instructions and branches, the latter among the former.
fn some_events(rng: &mut Rng) -> ([u64; 2], Counts) {
    let instructions = rng.u64(1..5000);
    let branches = rng.u64(0..=instructions);
    let mut events = Counts::default();
    events.set(Event::Instructions, instructions, instructions / 3);
    events.set(Event::Branches, branches, branches / 3);
    ([instructions, branches], events)
}

/// A request about a session whose rules may be broken.
fn about_session(client: &mut Client, code: RequestCode, session: u32) -> Result<Reply, Violation> {
    client.try_send(&client.handle.clone(), code, &about(session), AMPLE)
}

/// Lets threads migrate between processors while the driver answers requests and its timers expire.
/// Returns what is wrong, or `None` if each thread has its own events and the processors have them
/// all.
pub(crate) fn migrate(client: &mut Client, seed: u64) -> Result<Option<String>, Violation> {
    let mut rng = Rng::with_seed(seed);
    let number = client.configured(session::THREADS, &SOURCES.map(spec));
    about_session(client, session::START, number)?;
    let mut threads: [Thread; THREADS] = std::array::from_fn(|_| Thread::default());
    let mut truth = [[0; 2]; THREADS];
    for thread in threads.iter_mut().take(PROFILED) {
        client.model.enable_profiling(thread);
    }
    for _ in 0..STEPS {
        let device = &mut client.model;
        let chosen = rng.usize(..THREADS);
        match (threads[chosen].processor, rng.u8(..4)) {
            (None, _) => {
                let to = rng.usize(..PROCESSORS);
                if threads.iter().all(|thread| thread.processor != Some(to)) {
                    device.switch_in(&mut threads[chosen], to);
                }
            }
            (Some(_), 0) => device.switch_out(&mut threads[chosen]),
            (Some(_), _) => {
                let (amounts, events) = some_events(&mut rng);
                device.retire(&threads[chosen], events);
                for (truth, amount) in truth[chosen].iter_mut().zip(amounts) {
                    *truth += amount;
                }
            }
        }
        match rng.u8(..8) {
            0 => drop(about_session(client, counts::SNAPSHOT, number)?),
            1 => client.model.tick()?,
            _ => {}
        }
    }
    let mut wrong = None;
    for (index, thread) in threads.iter_mut().enumerate().take(PROFILED) {
        let counted = client.model.disable_profiling(thread);
        if counted != truth[index] {
            wrong = Some(format!("thread {index}: {counted:?}, not {:?}", truth[index]));
        }
    }
    let counts = rows(&about_session(client, session::STOP, number)?);
    let sums = [0, 1].map(|source| counts.iter().map(|row| row[source].counted).sum::<u64>());
    let all = [0, 1].map(|source| truth.iter().map(|one| one[source]).sum::<u64>());
    if sums != all {
        wrong = Some(format!("all processors: {sums:?}, not {all:?}"));
    }
    Ok(wrong)
}

#[test]
fn threads_that_migrate_have_their_own_events() {
    for model in ["skylake", "zen4"] {
        for seed in 1..=10 {
            let Some(mut client) = client(model, PROCESSORS, seed) else { return };
            let wrong = unbroken(migrate(&mut client, seed));
            assert_eq!(wrong, None, "{model}, seed {seed}");
            assert!(client.model.machine.kernel.by_thread.is_empty());
            assert_eq!(client.model.machine.framework.stays, 0);
            client.end();
        }
    }
}

/// Why START is refused while a thread keeps the counters.
const KEPT: (ErrorCode, u32, u64) = (ErrorCode::ThreadsKept, 0, 0xC000_0303);

/// Windows keeps the list while a thread profiles itself: the counters stay reserved, the device is
/// not removed, no one else can start, and each START asks again. What it keeps outlives the device's
/// hardware. The session ends with its client, with a STOP, with its hardware after a query that was
/// agreed to, or in a start without a query, which ends with a stop that no one was asked about.
#[test]
fn what_windows_keeps_is_asked_for_at_the_next_start() {
    type End = fn(&mut Client, u32);
    let stop: End = |client, number| client.granted(session::STOP, number);
    let queried: End = |client, _| {
        unbroken(client.model.stop());
        assert_eq!(client.model.machine.framework.stays, 0, "a stopped device may go");
        assert_eq!(unbroken(client.model.start_device()), 0);
    };
    let unqueried: End = |client, _| assert_eq!(unbroken(client.model.start_again()), 0);
    let killed: End = |client, _| client.replace_client(9);
    for ends in
        [&[killed][..], &[stop], &[queried], &[stop, queried], &[stop, unqueried], &[unqueried]]
    {
        let Some(mut client) = client("skylake", PROCESSORS, 1) else { return };
        let number = started(&mut client);
        assert!(client.model.agrees_to_stop());
        let mut thread = Thread::default();
        client.model.enable_profiling(&mut thread);
        for end in ends {
            end(&mut client, number);
        }
        assert_eq!(client.read(0, IA32_PERFEVTSEL0), 0, "nothing counts");
        let machine = client.machine();
        assert_eq!((machine.flags, machine.active_process), (Machine::THREADS_KEPT, 0));
        assert!(client.model.machine.kernel.counters.is_some());
        let other = counting(&mut client);
        for _ in 0..2 {
            assert_eq!(client.about(session::START, other).refusal(), Some(KEPT));
            assert!(!client.model.agrees_to_stop());
        }
        client.model.disable_profiling(&mut thread);
        client.granted(session::START, other);
        assert!(client.model.agrees_to_stop());
        assert_eq!(client.machine().flags, 0);
        client.end();
    }
}

#[test]
fn a_device_that_goes_by_surprise_leaves_the_counters_reserved() {
    let Some(mut client) = client("skylake", PROCESSORS, 1) else { return };
    started(&mut client);
    client.model.enable_profiling(&mut Thread::default());
    unbroken(client.model.surprise_remove());
    assert!(client.model.machine.kernel.counters.is_some());
    client.end();
}

#[test]
fn another_owner_is_named_and_nothing_is_kept() {
    let Some(mut client) = client("skylake", PROCESSORS, 1) else { return };
    client.model.machine.kernel.by_thread_of_another = true;
    let number = client.configured(session::THREADS, &SOURCES.map(spec));
    assert_eq!(client.about(session::START, number).error(), Some(ErrorCode::ThreadsOwned));
    let machine = client.machine();
    assert_eq!((machine.flags, machine.active_process), (0, 0));
    assert!(client.model.machine.kernel.counters.is_none());
}
