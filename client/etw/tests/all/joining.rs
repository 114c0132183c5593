//! Stacks and counts as other readers join them.

use crate::shared::{list, manifest, number, trace, vectors};
use halprof_etw::clock::ClockType;
use halprof_etw::join::slices::Slices;
use halprof_etw::join::stacks::{Joined, Joiner, StackTable, Unmatched};
use halprof_etw::join::threads::{InstanceNumber, Threads};
use halprof_etw::payload::stack::{Frames, Half, Stack, StackKey};
use halprof_etw::{Clock, EventKind, PointerSize, Trace};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Cursor;

fn id32(value: &Value) -> u32 {
    number(value) as u32
}

/// The frames of an event of a scenario, as in a trace.
fn with_frames(frames: &Value, then: impl FnOnce(&Frames<'_>)) {
    let frames = list(frames).iter().flat_map(|frame| number(frame).to_le_bytes());
    let bytes: Vec<u8> = frames.collect();
    then(&Frames::from_bytes(&bytes, PointerSize::Eight));
}

const PROCESS: u32 = 4;

fn a_stack(event_time: u64, thread: u32, frames: Frames<'_>) -> Stack<'_> {
    Stack { event_time, process: PROCESS, thread, frames }
}

/// What the slices of a thread instance add up to.
#[derive(Default)]
struct Sums {
    switches: u64,
    slices: u64,
    ticks: u64,
    counts: Vec<u64>,
}

struct Counted {
    threads: Threads,
    slices: Slices,
    /// By the number of the instance.
    sums: Vec<Sums>,
}

impl Counted {
    fn new(clock: Clock) -> Self {
        Self { threads: Threads::default(), slices: Slices::new(clock), sums: Vec::new() }
    }

    fn switch(
        &mut self,
        processor: u16,
        time: i64,
        (old, new): (u32, u32),
        values: impl ExactSizeIterator<Item = u64>,
    ) {
        if !self.slices.switch(&mut self.threads, processor, time, (old, new), values) {
            // Nobody saw the old thread's slice begin.
            let old = self.threads.current(old);
            self.sums(old).switches += 1;
        }
        self.add_slices();
    }

    fn finish(&mut self) {
        self.slices.finish();
        self.add_slices();
    }

    fn add_slices(&mut self) {
        while let Some(slice) = self.slices.next_slice() {
            let sums = self.sums(slice.instance);
            sums.switches += 1;
            sums.ticks += slice.begin.abs_diff(slice.end);
            sums.slices += u64::from(slice.counts.is_some());
            for (index, count) in slice.counts.into_iter().flatten().enumerate() {
                sums.counts.resize(sums.counts.len().max(index + 1), 0);
                sums.counts[index] += count;
            }
        }
    }

    fn sums(&mut self, InstanceNumber(number): InstanceNumber) -> &mut Sums {
        self.sums.resize_with(self.threads.instances().len(), Sums::default);
        &mut self.sums[number]
    }

    /// Counts by thread as the vectors have them.
    fn threads_of(&self, counters: usize) -> Vec<Value> {
        let sums = self.threads.instances().iter().zip(&self.sums).enumerate();
        let rows = sums.map(|(number, (thread, sums))| {
            let mut counts = sums.counts.clone();
            counts.resize(counters, 0);
            json!({
                "tid": thread.thread, "instance": thread.instance, "switches": sums.switches,
                "slices": sums.slices, "counts": counts, "ticks": sums.ticks,
                "unknown": self.slices.uncounted_of(InstanceNumber(number)).unknown,
            })
        });
        rows.collect()
    }
}

/// The slices of each scenario that belong to nobody, which the vectors do not say.
const LOST: [(&str, u64); 9] = [
    ("SnailContextSwitchPmc", 0),
    ("Migration", 0),
    ("FirstAndLastSlice", 0),
    ("LostSwitch", 1),
    ("Wrap48", 0),
    ("FallThatIsNoWrap", 0),
    ("IdleOnTwoProcessors", 0),
    ("ThreadIdAgain", 0),
    ("Corruption", 0),
];

/// The scenarios whose result is under `expected`. One with events of a kind that is not known here
/// cannot be played.
fn scenarios<'a>(
    vectors: &'a Value,
    expected: &'a str,
    kinds: &'a [&'a str],
) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let all = list(&vectors["scenarios"]).iter();
    let all = all.filter_map(move |scenario| Some((scenario, scenario.get(expected)?)));
    all.filter(move |(scenario, _)| {
        let is_known = |event: &Value| kinds.iter().any(|kind| event["kind"] == *kind);
        let is_playable = list(&scenario["events"]).iter().all(is_known);
        if !is_playable {
            eprintln!("skipped: {} has events of other kinds than {kinds:?}", scenario["name"]);
        }
        is_playable
    })
}

fn check_threads(name: &str, expected: &Value, found: &[Value]) {
    for row in list(expected) {
        let same =
            |other: &&Value| other["tid"] == row["tid"] && other["instance"] == row["instance"];
        let other = found.iter().find(same).unwrap_or_else(|| panic!("{name}: no {row}"));
        for (field, value) in row.as_object().expect("fields") {
            assert_eq!(other[field], *value, "{name}: {field} of {row}");
        }
    }
}

#[test]
fn counts_of_threads_are_as_in_each_scenario() {
    let Some(vectors) = vectors() else { return };
    let mut checked = 0;
    let kinds = ["cswitch", "thread_start", "thread_end", "corrupt"];
    for (scenario, expected) in scenarios(&vectors, "expect_threads", &kinds) {
        // Times of scenarios have no unit.
        let clock = Clock::new(ClockType::PerformanceCounter, 10_000_000, 0).expect("a clock");
        let mut counted = Counted::new(clock);
        for event in list(&scenario["events"]) {
            let time = event["t"].as_i64().expect("a time");
            let ids = || (id32(&event["pid"]), id32(&event["tid"]));
            match event["kind"].as_str() {
                Some("cswitch") => {
                    let values = event["pmc"].as_array().map(Vec::as_slice).unwrap_or_default();
                    let pair = (id32(&event["old"]), id32(&event["new"]));
                    let processor = id32(&event["cpu"]) as u16;
                    counted.switch(processor, time, pair, values.iter().map(number));
                    counted.threads.switch(pair);
                }
                Some("thread_start") => _ = counted.threads.start(time, ids().0, ids().1),
                Some("thread_end") => _ = counted.threads.end(time, ids().0, ids().1),
                _ => counted.slices.corrupt(id32(&event["cpu"])),
            }
        }
        counted.finish();
        let found = counted.threads_of(number(&scenario["counters"]) as usize);
        let name = crate::shared::text(&scenario["name"]);
        check_threads(name, expected, &found);
        if scenario["partial"] == false {
            assert_eq!(found.len(), list(expected).len(), "{name}");
        }
        if let Some((_, lost)) = LOST.iter().find(|(known, _)| *known == name) {
            assert_eq!(counted.slices.lost(), *lost, "{name}");
        }
        checked += 1;
    }
    assert!(checked > 0, "no scenario has threads");
}

/// A damaged trace has a wrong value at a switch: neither the slice before it nor the one after has
/// counts, whichever of both looks impossible, and all others have theirs. A counter that somebody else
/// has set goes on from there: only the slice in which that happened has none.
#[test]
fn a_wrong_value_leaves_both_slices_beside_it_without_counts() {
    let around = [Some(500), None, None, Some(200), Some(300)];
    for (what, values, expected) in [
        ("possible for its time", [500, 1000, 1900, 1500, 1700, 2000], around),
        ("too high", [500, 1000, 1 << 40, 1500, 1700, 2000], around),
        ("too low", [500, 1000, 100, 1500, 1700, 2000], around),
        // The third or the fourth is wrong: nobody can tell.
        (
            "one of two",
            [500, 1000, 1900, 1500, 2000, 2300],
            [Some(500), None, None, None, Some(300)],
        ),
        (
            "set anew",
            [500, 1000, 5, 300, 800, 900],
            [Some(500), None, Some(295), Some(500), Some(100)],
        ),
        (
            "right",
            [500, 1000, 1200, 1500, 1700, 2000],
            [Some(500), Some(200), Some(300), Some(200), Some(300)],
        ),
    ] {
        let clock = Clock::new(ClockType::PerformanceCounter, 10_000_000, 0).expect("a clock");
        let (mut threads, mut slices) = (Threads::default(), Slices::new(clock));
        for (thread, value) in (1..).zip(values) {
            let (time, pair) = (10 * i64::from(thread), (thread, thread + 1));
            slices.switch(&mut threads, 0, time, pair, std::iter::once(value));
            threads.switch(pair);
        }
        slices.finish();
        let found: Vec<_> = std::iter::from_fn(|| slices.next_slice()).collect();
        let counts = found.iter().map(|slice| slice.counts.as_ref().map(|counts| counts[0]));
        assert_eq!(counts.collect::<Vec<_>>(), expected, "{what}");
        let without = expected.iter().filter(|counts| counts.is_none()).count();
        assert_eq!(slices.impossible(), without as u64, "{what}");
    }
}

type Sampled = (i64, u32, u16, u64, u64);

fn describe(table: &StackTable, joined: Joined<Sampled>) -> Value {
    let (time, thread, processor, ip, source) = joined.event;
    let frames = |number| table.frames(number);
    json!({
        "t": time, "tid": thread, "cpu": processor, "ip": ip, "source": source,
        "kernel": joined.kernel.and_then(frames), "user": joined.user.and_then(frames),
        "shared": joined.is_shared,
    })
}

fn unmatched(unmatched: Unmatched) -> Value {
    json!({
        "stacks": unmatched.stacks, "keys": unmatched.keys, "unresolved": unmatched.undefined,
        "unused_defs": unmatched.unused_definitions,
    })
}

#[test]
fn stacks_are_joined_as_in_each_scenario() {
    let Some(vectors) = vectors() else { return };
    let mut checked = 0;
    for (scenario, expected) in
        scenarios(&vectors, "expect_samples", &["sample", "stack", "key", "def"])
    {
        let mut joiner = Joiner::new(1000);
        for event in list(&scenario["events"]) {
            let processor = event["cpu"].as_u64().unwrap_or_default() as u16;
            let thread = || id32(&event["tid"]);
            let event_time = || number(&event["event_time"]);
            match event["kind"].as_str() {
                Some("sample") => {
                    let time = event["t"].as_i64().expect("a time");
                    let (ip, source) = (number(&event["ip"]), number(&event["source"]));
                    let sample = (time, thread(), processor, ip, source);
                    let mode = Half::of(ip, PointerSize::Eight);
                    joiner.event(time, thread(), processor, mode, sample);
                }
                Some("stack") => with_frames(&event["frames"], |frames| {
                    joiner.stack(processor, &a_stack(event_time(), thread(), *frames));
                }),
                Some("key") => {
                    let half = if event["half"] == "user" { Half::User } else { Half::Kernel };
                    let (event_time, thread) = (event_time(), thread());
                    let key = number(&event["key"]);
                    let key = StackKey { event_time, process: PROCESS, thread, half, key };
                    joiner.key(processor, &key);
                }
                _ => with_frames(&event["frames"], |frames| {
                    joiner.definition(number(&event["key"]), frames);
                }),
            }
        }
        let samples: Vec<_> = std::iter::from_fn(|| joiner.pop()).collect();
        let found: Vec<Value> =
            samples.into_iter().map(|joined| describe(joiner.table(), joined)).collect();
        assert_eq!(json!(found), *expected, "{}", scenario["name"]);
        if let Some(expected) = scenario.get("expect_unmatched") {
            assert_eq!(unmatched(joiner.unmatched()), *expected, "{}", scenario["name"]);
        }
        checked += 1;
    }
    assert!(checked > 0, "no scenario has samples");
}

/// The kernel's half is written after the sample, perhaps after the thread went on in user mode.
#[test]
fn a_kernel_half_that_comes_late_is_of_the_stay_that_ended() {
    let (kernel, user) = (json!([0xFFFF_8000_0000_1000_u64]), json!([0x1000]));
    let mut joiner = Joiner::new(1000);
    joiner.event(10, 5, 0, Half::Kernel, ());
    joiner.event(20, 5, 0, Half::User, ());
    with_frames(&kernel, |frames| joiner.stack(0, &a_stack(10, 5, *frames)));
    with_frames(&user, |frames| joiner.stack(0, &a_stack(20, 5, *frames)));
    let first = joiner.pop().expect("the kernel's sample");
    assert_eq!((first.kernel.is_some(), first.user), (true, None));
}

struct Analysis {
    counted: Counted,
    halves: BTreeMap<&'static str, u64>,
    by_thread: BTreeMap<u32, u64>,
    unmatched: Unmatched,
    names: Vec<String>,
}

/// One pass over a trace, as an engine makes it.
fn analyze(bytes: Vec<u8>) -> Analysis {
    let mut trace = Trace::open(Cursor::new(bytes)).expect("a trace");
    let pointer = trace.pointer_size();
    let mut counted = Counted::new(trace.clock());
    let mut joiner = Joiner::new(trace.clock().ticks(2_000_000_000));
    let (mut halves, mut by_thread, mut names) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut count = |joined: Joined<()>| {
        let name = match (joined.kernel.is_some(), joined.user.is_some(), joined.is_shared) {
            (true, true, false) => "ku",
            (true, true, true) => "ku-shared",
            (true, false, _) => "k",
            (false, true, _) => "u",
            (false, false, _) => "none",
        };
        *halves.entry(name).or_default() += 1;
    };
    while let Some(event) = trace.next_event().expect("bytes") {
        let (time, processor) = (event.time, event.processor);
        let sampled = match &event.kind {
            EventKind::Sample(sample) => Some((sample.thread, sample.ip)),
            EventKind::CounterSample(sample) => Some((sample.thread, sample.ip)),
            _ => None,
        };
        if let Some((thread, ip)) = sampled {
            joiner.event(time, thread, processor, Half::of(ip, pointer), ());
            *by_thread.entry(thread).or_default() += 1;
        }
        joiner.stacks_of(&event);
        match event.kind {
            EventKind::Switch(ref switch) => {
                let pair = (switch.old_thread, switch.new_thread);
                counted.switch(processor, time, pair, event.counters.iter());
            }
            EventKind::Corruption(ref corruption) => counted.slices.corrupt(corruption.processor),
            EventKind::CounterNames(ref counters) => names.clone_from(&counters.names),
            _ => {}
        }
        counted.threads.event(&event);
        while let Some(joined) = joiner.next_joined() {
            count(joined);
        }
    }
    while let Some(joined) = joiner.pop() {
        count(joined);
    }
    counted.finish();
    let unmatched = joiner.unmatched();
    Analysis { counted, halves, by_thread, unmatched, names }
}

#[test]
fn stacks_of_whole_files_are_joined_as_independent_readers_do() {
    let Some(manifest) = manifest() else { return };
    for name in ["artificial_pmc.etl", "net.4.5.2.x64.etl", "net.4.5.x86.etl"] {
        let expected = &manifest[name]["samples"];
        let Some(trace) = trace(name) else { continue };
        let found = analyze(trace);
        assert_eq!(json!(found.halves), expected["halves"], "{name}");
        assert_eq!(unmatched(found.unmatched), expected["unmatched"], "{name}");
        for (thread, samples) in expected["top_threads"].as_object().expect("threads") {
            let thread: u32 = thread.parse().expect("a thread");
            assert_eq!(json!(found.by_thread[&thread]), *samples, "{name}: {thread}");
        }
    }
}

#[test]
fn counts_of_the_artificial_file_are_its_makers() {
    let Some(vectors) = vectors() else { return };
    let Some(expected) = vectors.get("artificial_file") else { return };
    let Some(trace) = trace("artificial_pmc.etl") else { return };
    let found = analyze(trace);
    assert_eq!(json!(found.names), expected["counters"]);
    let rows = found.counted.threads_of(found.names.len());
    check_threads("artificial", &expected["threads"], &rows);
    assert_eq!(found.counted.slices.lost(), 0);
}
