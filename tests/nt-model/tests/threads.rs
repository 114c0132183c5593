//! Does each thread get exactly its own events, wherever it runs, and is the list of counters
//! released?

use crate::client::{Client, refusal};
use fastrand::Rng;
use halprof_tests::driver;
use halprof_tests::requests::{bytes, header, spec};
use nt_model::threads::Thread;
use nt_model::{Device, Violation, kernel};
use shared_types::ErrorCode;
use shared_types::request::Plain;
use shared_types::request::counts::{self, Count, Snapshot};
use shared_types::request::machine::{self, Machine};
use shared_types::request::session;
use sim::cpu::event::{Counts, Event};
use sim::machines::models::{find, repeat};
use zerocopy::FromBytes;

const PROCESSORS: usize = 4;
/// Three that profile themselves, and one that does not.
const THREADS: usize = 4;
const PROFILED: usize = 3;
/// Instructions, and branches.
const SOURCES: [u32; 2] = [2, 6];
const STEPS: usize = 120;

fn device(file: &[u8], model: &str, seed: u64) -> Device {
    let leaves = find(model).expect("a model").processors();
    let mut device = Device::new(file, &repeat(&leaves, PROCESSORS), seed).expect("a machine");
    assert_eq!(device.start().expect("no rule"), 0);
    device
}

/// A configured session.
fn configured(device: &mut Device, flags: u32) -> Result<Client, Violation> {
    Client::configured(device, true, flags, &SOURCES.map(spec))
}

/// A running session that counts by thread.
fn started(device: &mut Device) -> Result<Client, Violation> {
    let client = configured(device, session::THREADS)?;
    client.granted(device, session::START)?;
    Ok(client)
}

/// The machine's flags, and the holder of its counters.
fn described(client: &Client, device: &mut Device) -> Result<(u32, u32), Violation> {
    let plain = bytes(&Plain { header: header(0) }, &[]);
    let reply = client.ask(device, machine::DESCRIBE, &plain)?;
    let machine = Machine::read_from_bytes(&reply).expect("a machine");
    Ok((machine.flags, machine.holder_process))
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

/// Lets threads migrate between processors while the driver answers requests and its timers expire.
/// Returns what is wrong, or `None` if each thread has its own events and the processors have them
/// all.
pub(crate) fn migrate(device: &mut Device, seed: u64) -> Result<Option<String>, Violation> {
    let mut rng = Rng::with_seed(seed);
    let client = started(device)?;
    let mut threads: [Thread; THREADS] = std::array::from_fn(|_| Thread::default());
    let mut truth = [[0; 2]; THREADS];
    for thread in threads.iter_mut().take(PROFILED) {
        device.enable_profiling(thread);
    }
    for _ in 0..STEPS {
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
            0 => drop(client.send(device, counts::SNAPSHOT)?),
            1 => {
                kernel::expire_timers(&mut device.machine);
                device.machine.settle()?;
            }
            _ => {}
        }
    }
    let mut wrong = None;
    for (index, thread) in threads.iter_mut().enumerate().take(PROFILED) {
        let counted = device.disable_profiling(thread);
        if counted != truth[index] {
            wrong = Some(format!("thread {index}: {counted:?}, not {:?}", truth[index]));
        }
    }
    let reply = client.send(device, session::STOP)?;
    let counts = reply[size_of::<Snapshot>()..].chunks_exact(size_of::<Count>());
    let counts = counts.map(|bytes| Count::read_from_bytes(bytes).expect("a count").counted);
    let mut sums = [0; 2];
    for (index, count) in counts.enumerate() {
        sums[index % 2] += count;
    }
    let all = truth.iter().fold([0; 2], |all, one| [all[0] + one[0], all[1] + one[1]]);
    if sums != all {
        wrong = Some(format!("all processors: {sums:?}, not {all:?}"));
    }
    device.close(&client.file)?;
    Ok(wrong)
}

#[test]
fn threads_that_migrate_have_their_own_events() {
    let Some(driver) = driver::file() else { return };
    for model in ["skylake", "zen4"] {
        for seed in 1..=10 {
            let mut device = device(&driver, model, seed);
            let wrong =
                migrate(&mut device, seed).unwrap_or_else(|violation| panic!("{violation}"));
            assert_eq!(wrong, None, "{model}, seed {seed}");
            assert!(device.machine.kernel.by_thread.is_empty());
            assert_eq!(device.machine.framework.stays, 0);
            device.remove().expect("nothing is left");
        }
    }
}

/// Windows keeps the list while a thread profiles itself: the counters are stopped and stay
/// reserved, the device is not removed, no one else can start, and each START asks again.
#[test]
fn what_windows_keeps_is_asked_for_at_the_next_start() {
    let Some(driver) = driver::file() else { return };
    for killed in [false, true] {
        let mut device = device(&driver, "skylake", 1);
        let client = started(&mut device).expect("no rule");
        let other = configured(&mut device, 0).expect("no rule");
        let mut thread = Thread::default();
        device.enable_profiling(&mut thread);
        if killed {
            device.close(&client.file).expect("no rule");
        } else {
            let reply = client.send(&mut device, session::STOP).expect("no rule");
            assert_eq!(refusal(&reply), None);
        }
        let select = device.machine.engine.bus().cpus[0].processor.rdmsr(0x186);
        assert_eq!(select, Ok(0), "nothing counts");
        let kept = (Machine::THREADS_KEPT, 0);
        assert_eq!(described(&other, &mut device).expect("no rule"), kept);
        assert!(device.machine.kernel.counters.is_some());
        assert_eq!(device.machine.framework.stays, 1);
        for _ in 0..2 {
            let reply = other.send(&mut device, session::START).expect("no rule");
            assert_eq!(refusal(&reply), Some(KEPT));
            assert_eq!(device.machine.framework.stays, 1);
        }
        device.disable_profiling(&mut thread);
        let reply = other.send(&mut device, session::START).expect("no rule");
        assert_eq!(refusal(&reply), None);
        assert_eq!(device.machine.framework.stays, 0);
        assert_eq!(described(&other, &mut device).expect("no rule").0, 0);
        device.remove().expect("nothing is left");
    }
}

/// Why START is refused while a thread keeps the counters.
const KEPT: (ErrorCode, u32, u64) = (ErrorCode::ThreadsKept, 0, 0xC000_0303);

/// What a thread keeps outlives the device's hardware: it is told, asked for again, and given back.
/// The session ends with its hardware after a query that was agreed to, before it, or in a start
/// without a query, which ends with a stop that no one was asked about.
#[test]
fn what_windows_keeps_outlives_stop_and_start() {
    let Some(driver) = driver::file() else { return };
    for (stopped_first, queried) in [(false, true), (true, true), (true, false), (false, false)] {
        let mut device = device(&driver, "skylake", 1);
        let client = started(&mut device).expect("no rule");
        assert!(device.agrees_to_stop());
        let mut thread = Thread::default();
        device.enable_profiling(&mut thread);
        if stopped_first {
            let reply = client.send(&mut device, session::STOP).expect("no rule");
            assert_eq!(refusal(&reply), None);
            assert!(!device.agrees_to_stop());
        }
        if queried {
            device.stop().expect("no rule");
            assert_eq!(device.machine.framework.stays, 0, "a stopped device may go");
            assert_eq!(device.start_device().expect("no rule"), 0);
        } else {
            assert_eq!(device.start_again().expect("no rule"), 0);
        }
        assert!(device.machine.kernel.counters.is_some());
        assert!(!device.agrees_to_stop());
        let other = configured(&mut device, 0).expect("no rule");
        let told = described(&other, &mut device).expect("no rule");
        assert_eq!(told, (Machine::THREADS_KEPT, 0));
        let reply = other.send(&mut device, session::START).expect("no rule");
        assert_eq!(refusal(&reply), Some(KEPT));
        device.disable_profiling(&mut thread);
        let reply = other.send(&mut device, session::START).expect("no rule");
        assert_eq!(refusal(&reply), None);
        assert!(device.agrees_to_stop());
        assert_eq!(described(&other, &mut device).expect("no rule").0, 0);
        device.remove().expect("nothing is left");
    }
}

#[test]
fn a_device_that_goes_by_surprise_leaves_the_counters_reserved() {
    let Some(driver) = driver::file() else { return };
    let mut device = device(&driver, "skylake", 1);
    let client = started(&mut device).expect("no rule");
    let mut thread = Thread::default();
    device.enable_profiling(&mut thread);
    device.surprise_remove().expect("no rule");
    assert!(device.machine.kernel.counters.is_some());
    device.close(&client.file).expect("no rule");
    device.remove().expect("nothing else is left");
}

#[test]
fn another_owner_is_told_and_nothing_is_kept() {
    let Some(driver) = driver::file() else { return };
    let mut device = device(&driver, "skylake", 1);
    device.machine.kernel.by_thread_of_another = true;
    let client = configured(&mut device, session::THREADS).expect("no rule");
    let reply = client.send(&mut device, session::START).expect("no rule");
    let told = refusal(&reply).map(|(code, ..)| code);
    assert_eq!(told, Some(ErrorCode::ThreadsOwned));
    assert_eq!(described(&client, &mut device).expect("no rule"), (0, 0));
    assert!(device.machine.kernel.counters.is_none());
}
