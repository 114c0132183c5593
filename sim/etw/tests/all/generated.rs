//! Does the reader find in a trace what the generator knows to be true?

use halprof_etw::clock::ClockType;
use halprof_etw::join::stacks::Joiner;
use halprof_etw::join::threads::{InstanceNumber, Threads};
use halprof_etw::payload::stack::Half;
use halprof_etw::{EventKind, PointerSize, Trace};
use halprof_measure::tracing::analysis::counts::{Query, TraceCounts};
use halprof_measure::tracing::analysis::waits::{Waits, Waker};
use halprof_measure::tracing::session::{SampledSource, TIMER};
use sim_etw::generator::{BUFFER, Run, SampleTruth, SwitchTruth, TracedSource, Truth, WakingTruth};
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use tempfile::TempDir;

const CLOCKS: [ClockType; 3] =
    [ClockType::PerformanceCounter, ClockType::SystemTime, ClockType::ProcessorCycles];

fn source(id: u32, name: &str, interval: u32, events: &[u64]) -> TracedSource {
    let source = SampledSource { id, interval };
    TracedSource { name: name.to_owned(), source, events: events.to_vec() }
}

fn run(seed: u64) -> Run {
    let mut rng = fastrand::Rng::with_seed(seed);
    let processors = 1 + (seed % 4) as u16;
    let mut events = || (0..processors).map(|_| rng.u64(..50_000_000)).collect::<Vec<_>>();
    Run {
        seed,
        processors,
        clock: CLOCKS[seed as usize % CLOCKS.len()],
        pointer_size: if seed.is_multiple_of(5) { PointerSize::Four } else { PointerSize::Eight },
        length_us: 4000,
        counted: vec![
            source(2, "TotalIssues", 0, &events()),
            source(19, "TotalCycles", 0, &events()),
        ],
        sampled: vec![
            source(TIMER, "Timer", 1221, &[]),
            source(10, "CacheMisses", 1_000_000, &events()),
        ],
        stacks: !seed.is_multiple_of(3),
        branches: None,
        wakings: false,
        lost_buffers_one_in: 0,
        program: None,
    }
}

fn written(run: &Run) -> (Vec<u8>, Truth) {
    let (trace, truth) = run.write(Cursor::new(Vec::new())).expect("written");
    (trace.into_inner(), truth)
}

/// The buffers after the header in another order, as a busy disk gets them.
fn reordered(mut trace: Vec<u8>, seed: u64) -> Vec<u8> {
    let size = BUFFER as usize;
    let buffers: Vec<Vec<u8>> = trace.split_off(size).chunks(size).map(<[u8]>::to_vec).collect();
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    trace.extend(order.into_iter().flat_map(|index| &buffers[index]));
    trace
}

fn counted(folder: &TempDir, trace: &[u8]) -> TraceCounts {
    let path = folder.path().join("model.etl");
    fs::write(&path, trace).expect("written");
    TraceCounts::read(&path, &Query::default()).expect("counts")
}

/// The counts of each thread: switches, counts, whether they are complete.
fn threads(counts: &TraceCounts) -> Vec<(u32, u64, Vec<u64>, bool)> {
    let mut threads: Vec<_> = counts
        .threads
        .iter()
        .map(|one| (one.thread.id, 0, vec![0; counts.sources.len()], one.complete))
        .collect();
    for cell in &counts.cells {
        let (_, switches, sums, _) = &mut threads[cell.thread];
        *switches += cell.sums.switches;
        sums.iter_mut().zip(&cell.sums.counts).for_each(|(sum, &count)| *sum += count as u64);
    }
    threads.sort();
    threads
}

fn assert_counts_are_true(name: &str, counts: &TraceCounts, truth: &Truth) {
    for (id, switches, sums, complete) in threads(counts) {
        let truth = &truth.threads.get(&id).cloned().unwrap_or_default();
        assert_eq!(switches, truth.switches, "{name}: {id}");
        if truth.switches != 0 {
            assert_eq!(sums, truth.counts, "{name}: {id}");
        }
        assert!(id == 0 || complete == truth.complete, "{name}: {id}");
    }
    let warned = (counts.unknown.lost_switches, counts.lost_buffers, counts.damage.as_slice());
    assert_eq!(warned, (0, 0, &[][..]), "{name}");
}

/// The samples with their stacks, as they are read.
fn samples(trace: &[u8]) -> Vec<SampleTruth> {
    let mut trace = Trace::open(Cursor::new(trace)).expect("a trace");
    let mut joiner = Joiner::new(u64::MAX);
    while let Some(event) = trace.next_event().expect("read") {
        let sample = |thread, source, ip| SampleTruth {
            time: event.time,
            processor: event.processor,
            thread,
            source,
            ip,
            kernel: Vec::new(),
            user: Vec::new(),
            branches: Vec::new(),
        };
        let sample = match &event.kind {
            EventKind::Sample(one) => sample(one.thread, TIMER, one.ip),
            EventKind::CounterSample(one) => sample(one.thread, one.source.into(), one.ip),
            EventKind::Stack(stack) => {
                joiner.stack(event.processor, stack);
                continue;
            }
            _ => continue,
        };
        let mode = Half::of(sample.ip, PointerSize::Eight);
        joiner.event(event.time, sample.thread, event.processor, mode, sample);
    }
    let complete: Vec<_> = std::iter::from_fn(|| joiner.pop()).collect();
    let table = joiner.table();
    let frames = |number| table.frames(number).map(<[u64]>::to_vec).unwrap_or_default();
    let mut samples: Vec<SampleTruth> = complete
        .into_iter()
        .map(|one| SampleTruth {
            kernel: one.kernel.map(frames).unwrap_or_default(),
            user: one.user.map(frames).unwrap_or_default(),
            ..one.event
        })
        .collect();
    samples.sort_by_key(|sample| (sample.time, sample.processor));
    samples
}

#[test]
fn counts_are_exact_and_stacks_are_joined_whatever_the_seed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut joined = 0;
    for seed in 0..1000 {
        let (trace, truth) = written(&run(seed));
        let trace = reordered(trace, seed);
        assert_counts_are_true(&format!("seed {seed}"), &counted(&folder, &trace), &truth);
        let samples = samples(&trace);
        assert_eq!(samples, truth.samples, "seed {seed}");
        joined +=
            samples.iter().filter(|one| !one.kernel.is_empty() && !one.user.is_empty()).count();
    }
    assert!(joined > 1000, "{joined}");
}

/// Each switch to a thread has the stack of where that thread went on.
#[test]
fn stacks_of_switches_are_joined() {
    for seed in 0..20 {
        let (bytes, truth) = written(&Run { stacks: true, ..run(seed) });
        let mut trace = Trace::open(Cursor::new(&bytes[..])).expect("a trace");
        let mut joiner = Joiner::new(u64::MAX);
        while let Some(event) = trace.next_event().expect("read") {
            joiner.stacks_of(&event);
            if let EventKind::Switch(switch) = &event.kind
                && switch.new_thread != 0
            {
                let switch = (event.time, event.processor, switch.new_thread);
                joiner.event(switch.0, switch.2, switch.1, Half::Kernel, switch);
            }
        }
        let all: Vec<_> = std::iter::from_fn(|| joiner.pop()).collect();
        let frames = |number| joiner.table().frames(number).map(<[u64]>::to_vec);
        let mut found: Vec<SwitchTruth> = all
            .into_iter()
            .map(|one| SwitchTruth {
                time: one.event.0,
                processor: one.event.1,
                thread: one.event.2,
                kernel: one.kernel.and_then(frames).unwrap_or_default(),
                user: one.user.and_then(frames).unwrap_or_default(),
            })
            .collect();
        found.sort_by_key(|switch| (switch.time, switch.processor));
        assert!(found.len() > 10, "seed {seed}: {}", found.len());
        assert_eq!(found, truth.switches, "seed {seed}");
    }
}

/// Nothing is ever counted that did not happen, and what may be missing is said.
#[test]
fn what_is_lost_or_cut_makes_counts_lower_bounds_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lost = 0;
    for seed in 0..200 {
        let is_cut = seed % 2 == 0;
        let run =
            Run { length_us: 20_000, lost_buffers_one_in: if is_cut { 0 } else { 6 }, ..run(seed) };
        let (mut trace, truth) = written(&run);
        if is_cut {
            trace.truncate(trace.len() * 2 / 3);
        }
        let counts = counted(&folder, &trace);
        for (id, switches, sums, _) in threads(&counts) {
            let truth = truth.threads.get(&id).cloned().unwrap_or_default();
            assert!(switches <= truth.switches, "seed {seed}: {id}");
            let pairs = sums.iter().zip(&truth.counts);
            assert!(pairs.clone().all(|(sum, truth)| sum <= truth), "seed {seed}: {id}");
        }
        let is_less = threads(&counts).iter().map(|one| one.1).sum::<u64>()
            < truth.threads.values().map(|one| one.switches).sum();
        let is_said = counts.lost_buffers != 0 || !counts.damage.is_empty();
        assert!(is_said || !is_less, "seed {seed}");
        lost += u64::from(is_less);
    }
    assert!(lost > 150, "{lost}");
}

/// A thread's share of the samples is its share of the events, within the bound of a random sample of
/// as many: samples at equal distances are no worse.
#[test]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn shares_of_samples_are_within_their_bounds() {
    let (mut within, mut all) = (0, 0);
    for seed in 0..20 {
        let mut run = Run { length_us: 40_000, stacks: false, ..run(seed) };
        run.sampled[1].source.interval = 50_000;
        let (trace, truth) = written(&run);
        let source = run.sampled[1].source.id;
        let samples: Vec<_> =
            samples(&trace).into_iter().filter(|sample| sample.source == source).collect();
        let total: u64 = truth.threads.values().filter_map(|one| one.sampled.get(1)).sum();
        for (&id, thread) in truth.threads.iter().filter(|(_, one)| !one.sampled.is_empty()) {
            let own = samples.iter().filter(|sample| sample.thread == id).count() as f64;
            let (n, share) = (samples.len() as f64, thread.sampled[1] as f64 / total as f64);
            let bound = 1.96 * (share * (1.0 - share) / n).sqrt();
            within += u32::from((own / n - share).abs() <= bound);
            all += 1;
        }
    }
    assert!(all > 100 && within * 100 >= all * 95, "{within} of {all}");
}

/// Whoever ended a wait is what ran where the thread was made ready, with the stack of that moment, however
/// the events lie on the processors.
#[test]
fn who_ended_waits_is_found_with_the_stack() {
    let (mut threads, mut dpcs) = (0, 0);
    for seed in 0..40 {
        let (bytes, truth) = written(&Run { stacks: true, wakings: true, ..run(seed) });
        let mut trace = Trace::open(Cursor::new(&bytes[..])).expect("a trace");
        let (mut lives, mut waits) = (Threads::default(), Waits::default());
        let mut joiner = Joiner::new(u64::MAX);
        let mut ended = BTreeMap::new();
        while let Some(event) = trace.next_event().expect("read") {
            if let Some(wait) = waits.event(&mut lives, &event)
                && let Some(waking) = wait.waking
            {
                let waker = match waking.waker {
                    Waker::Dpc => None,
                    Waker::Thread(InstanceNumber(number)) => Some(lives.instances()[number].thread),
                };
                let thread = lives.instances()[wait.thread.0].thread;
                ended.insert(waking.number, (thread, event.time - wait.since, waker));
            }
            if let EventKind::Ready(_) = event.kind {
                let running = waits.running(event.processor).expect("a thread");
                let number = (waits.wakings, event.time);
                joiner.event(event.time, running, event.processor, Half::Kernel, number);
            }
            lives.event(&event);
            joiner.stacks_of(&event);
        }
        let all: Vec<_> = std::iter::from_fn(|| joiner.pop()).collect();
        let frames = |number| joiner.table().frames(number).map(<[u64]>::to_vec);
        let mut found: Vec<WakingTruth> = all
            .into_iter()
            .map(|one| {
                let (number, time) = one.event;
                let (thread, waited, waker) = ended.remove(&number).expect("it ended a wait");
                let kernel = one.kernel.and_then(frames).unwrap_or_default();
                let user = one.user.and_then(frames).unwrap_or_default();
                WakingTruth { time, thread, waited, waker, kernel, user }
            })
            .collect();
        found.sort_by_key(|waking| (waking.time, waking.thread));
        let mut expected = truth.wakings.clone();
        expected.sort_by_key(|waking| (waking.time, waking.thread));
        assert_eq!(found, expected, "seed {seed}");
        threads += found.iter().filter(|waking| waking.waker.is_some()).count();
        dpcs += found.iter().filter(|waking| waking.waker.is_none()).count();
    }
    assert!(threads > 500 && dpcs > 100, "{threads} by threads, {dpcs} by DPCs");
}
