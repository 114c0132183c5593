//! No mark is lost, none is invented, and nothing that a program writes harms its recorder.

use super::rate::{Moment, step};
use super::shared::{CHANNELS_MAX, CHUNKS, MARKS, NAME_MAX};
use super::*;
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

const ALL: u64 = (CHUNKS * MARKS) as u64;

/// A buffer, and as a program sees it.
fn shared_buffer() -> (Buffer, &'static Shared) {
    let buffer = Buffer::create().expect("a buffer");
    let shared = buffer.attach();
    (buffer, shared)
}

fn drained(buffer: &mut Buffer) -> Vec<Mark> {
    let mut marks = Vec::new();
    buffer.drain(&mut marks);
    marks.sort_by_key(|mark| mark.time);
    marks
}

#[test]
fn without_a_recorder_nothing_is_marked() {
    let channel = Channel::named("nobody listens");
    channel.mark(1);
    assert_eq!(channel.number(), NONE);
    // A number that was never given out.
    Channel::from_number(5).mark(1);
}

/// More marks than fit at once, so that chunks are reused.
#[test]
fn four_threads_lose_nothing_while_they_are_drained() {
    const THREADS: u64 = 4;
    const EACH: u64 = 500_000;
    const { assert!(THREADS * EACH > ALL) };
    let (mut buffer, shared) = shared_buffer();
    let got = AtomicU64::new(0);
    let mut marks = Vec::new();
    thread::scope(|scope| {
        let got = &got;
        for number in 0..THREADS {
            scope.spawn(move || {
                let thread_buffer = ThreadBuffer::new();
                let channel = shared.channel(&format!("thread {number}"));
                for value in 0..EACH {
                    // The recorder is never farther behind than the buffer has room for.
                    while value > got.load(Relaxed) / THREADS + ALL / 8 {
                        thread::yield_now();
                    }
                    thread_buffer.mark(shared, channel, value);
                }
            });
        }
        while (marks.len() as u64) < THREADS * EACH {
            buffer.drain(&mut marks);
            let values = marks.len() as u64;
            assert_eq!(buffer.dropped(Cause::Full), 0, "of {values}");
            got.store(values, Relaxed);
            thread::yield_now();
        }
    });
    assert_eq!(drained(&mut buffer), []);
    assert_eq!(buffer.damaged(), 0);
    marks.sort_by_key(|mark| mark.time);
    let mut next = HashMap::new();
    for mark in &marks {
        let next = next.entry(mark.channel).or_insert((0, mark.thread));
        assert_eq!((mark.value, mark.thread), *next, "in the order of time");
        assert_eq!(mark.process, std::process::id());
        next.0 += 1;
    }
    assert_eq!(next.len() as u64, THREADS);
}

#[test]
fn a_full_buffer_drops_and_counts() {
    let (mut buffer, shared) = shared_buffer();
    let channel = shared.channel("much");
    let thread_buffer = ThreadBuffer::new();
    (0..ALL + 1000).for_each(|value| thread_buffer.mark(shared, channel, value));
    assert_eq!(buffer.dropped(Cause::Full), 1000);
    let marks = drained(&mut buffer);
    assert_eq!(marks.len() as u64, ALL);
    assert!((0..).zip(&marks).all(|(value, mark)| mark.value == value));
    // There is room again.
    thread_buffer.mark(shared, channel, 7);
    assert_eq!(drained(&mut buffer).len(), 1);
    assert_eq!((buffer.dropped(Cause::Full), buffer.damaged()), (1000, 0));
}

#[test]
fn the_chunk_of_a_thread_that_ends_is_used_again() {
    let (mut buffer, shared) = shared_buffer();
    let channel = shared.channel("threads");
    let mut marks = Vec::new();
    for value in 0..CHUNKS as u64 + 10 {
        ThreadBuffer::new().mark(shared, channel, value);
        if value % 1000 == 0 {
            buffer.drain(&mut marks);
        }
    }
    buffer.drain(&mut marks);
    assert_eq!(marks.len(), CHUNKS + 10);
    assert_eq!(buffer.dropped(Cause::Full), 0);
}

#[test]
fn channels_have_names_and_a_bound() {
    let (mut buffer, shared) = shared_buffer();
    let thread_buffer = ThreadBuffer::new();
    let long = "é".repeat(NAME_MAX);
    for name in ["a", "", "a", &long] {
        thread_buffer.mark(shared, shared.channel(name), 0);
    }
    let channels: Vec<u32> = drained(&mut buffer).iter().map(|mark| mark.channel).collect();
    assert_eq!(channels, [0, 1, 0, 2]);
    assert_eq!(buffer.names(), ["a", "", &"é".repeat(28)], "56 bytes");
    for number in 3..CHANNELS_MAX {
        assert_eq!(shared.channel(&number.to_string()) as usize, number);
    }
    assert!(shared.channel("one too many") > CALIBRATION);
    assert_eq!(shared.channel("a"), 0, "those that are there stay");
}

/// Two processes that ask at the same time may both write the name.
#[test]
fn channels_of_one_name_are_one() {
    let (mut buffer, shared) = shared_buffer();
    let thread_buffer = ThreadBuffer::new();
    thread_buffer.mark(shared, shared.channel("b"), 0);
    thread_buffer.mark(shared, shared.channel("a"), 1);
    shared.rename(1, "b");
    let channels: Vec<u32> = drained(&mut buffer).iter().map(|mark| mark.channel).collect();
    assert_eq!((channels, buffer.names()), (vec![0, 0], &["b".to_owned()][..]));
}

/// Threads that name channels at the same time never write into one place.
#[test]
fn channels_that_are_named_at_once_are_different() {
    const THREADS: usize = 4;
    let (mut buffer, shared) = shared_buffer();
    let together = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let together = &together;
            scope.spawn(move || {
                let thread_buffer = ThreadBuffer::new();
                together.wait();
                for number in (thread..CHANNELS_MAX).step_by(THREADS) {
                    let channel = shared.channel(&number.to_string());
                    thread_buffer.mark(shared, channel, number as u64);
                }
            });
        }
    });
    let marks = drained(&mut buffer);
    assert_eq!(marks.len(), CHANNELS_MAX);
    for mark in marks {
        let name = &buffer.names()[mark.channel as usize];
        assert_eq!(*name, mark.value.to_string());
    }
}

/// The time-stamp counters of two processors may differ by less than a millisecond.
#[test]
fn a_mark_of_the_near_future_is_kept() {
    for (ahead, kept, damaged) in [(1_000_000, 1, 0), (1 << 40, 0, 1)] {
        let (mut buffer, shared) = shared_buffer();
        ThreadBuffer::new().mark(shared, shared.channel("ahead"), 0);
        let [time, ..] = &shared.chunks[0].marks[0];
        time.store(crate::rdpmc::timestamp() + ahead, Relaxed);
        assert_eq!(drained(&mut buffer).len(), kept, "{ahead}");
        assert_eq!(buffer.damaged(), damaged, "{ahead}");
    }
}

#[test]
fn a_mark_costs_what_calibrating_ones_are_apart() {
    let (mut buffer, shared) = shared_buffer();
    assert_eq!(buffer.cost(), None);
    let thread_buffer = ThreadBuffer::new();
    (0..CALIBRATIONS).for_each(|_| thread_buffer.mark(shared, CALIBRATION, 0));
    thread_buffer.mark(shared, shared.channel("own"), 0);
    assert_eq!(drained(&mut buffer).len(), 1, "the others are no marks of the program");
    let cost = buffer.cost().expect("a cost");
    assert_eq!(cost.distances, CALIBRATIONS as u64 - 1);
    assert!(cost.min_ticks <= cost.median_ticks);
}

fn check(marks: &[Mark], buffer: &Buffer, since: u64) {
    assert!(marks.len() as u64 <= ALL);
    let latest = crate::rdpmc::timestamp() + rate::SKEW_TICKS;
    for mark in marks {
        assert!((since - rate::SKEW_TICKS..latest).contains(&mark.time));
        assert!((mark.channel as usize) < buffer.names().len());
    }
    assert!(buffer.names().iter().all(|name| name.len() <= 3 * NAME_MAX));
}

#[test]
fn overwritten_marks_are_left_out_and_counted() {
    let since = crate::rdpmc::timestamp();
    let (mut buffer, shared) = shared_buffer();
    let thread_buffer = ThreadBuffer::new();
    let worst = [0, 1, 2, 3, MARKS as u64, MARKS as u64 + 1, u64::MAX, (1 << 33) + 57, since + 1];
    let mut random = fastrand::Rng::with_seed(14);
    for round in 0..worst.len() + 8 {
        match worst.get(round) {
            Some(&value) => shared.scribble(|| value),
            None if round % 2 == 0 => shared.scribble(|| random.u64(..)),
            None => shared.scribble(|| worst[random.usize(..worst.len())]),
        }
        let marks = drained(&mut buffer);
        check(&marks, &buffer, since);
        thread_buffer.mark(shared, 0, 0);
        check(&drained(&mut buffer), &buffer, since);
    }
    assert!(buffer.damaged() > CHUNKS as u64, "{}", buffer.damaged());
    // Once it is whole again, so is what follows.
    shared.scribble(|| 0);
    let _ = drained(&mut buffer);
    let before = buffer.damaged();
    let thread_buffer = ThreadBuffer::new();
    let channel = shared.channel("whole");
    (0..1000).for_each(|value| thread_buffer.mark(shared, channel, value));
    assert_eq!(drained(&mut buffer).len(), 1000);
    assert_eq!(buffer.damaged(), before);
}

#[test]
fn what_is_written_while_it_is_read_does_no_harm() {
    let since = crate::rdpmc::timestamp();
    let (mut buffer, shared) = shared_buffer();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(15);
            while !over.load(Relaxed) {
                shared.scribble(|| random.u64(..) >> random.u32(..64));
            }
        });
        while buffer.damaged() < 4 * CHUNKS as u64 {
            check(&drained(&mut buffer), &buffer, since);
        }
        over.store(true, Relaxed);
    });
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn what_is_no_buffer_is_not_attached_to() {
    use std::io::Seek;
    use std::os::fd::AsRawFd;
    let mut file = tempfile::tempfile().expect("a file");
    file.set_len(size_of::<Shared>() as u64).expect("as long");
    for handle in [-1, 0, isize::MAX, file.as_raw_fd() as isize] {
        assert!(memory::attach(handle).is_none(), "{handle}");
    }
    assert_eq!(file.stream_position().expect("its offset"), 0, "it is left as it is");
    let (one, other) = (Buffer::create().expect("one"), Buffer::create().expect("other"));
    let parts = |buffer: &Buffer| {
        let (_, value) = buffer.environment();
        let (handle, token) = value.split_once(':').expect("two");
        let token = u64::from_str_radix(token, 16).expect("a number");
        (handle.parse::<isize>().expect("a number"), token)
    };
    let ((handle, token), (_, other_token)) = (parts(&one), parts(&other));
    let shared = memory::attach(handle).expect("a buffer");
    assert!(shared.is_of(token) && !shared.is_of(other_token));
    // Nobody can change its length while the recorder uses it.
    let opened = std::fs::File::options()
        .write(true)
        .open(format!("/proc/self/fd/{handle}"))
        .expect("opened");
    for length in [0, 2 * size_of::<Shared>()] {
        assert!(opened.set_len(length as u64).is_err(), "{length}");
    }
}

#[test]
fn a_rate_knows_how_well_it_is_known() {
    let first = Moment::now();
    let rate = |least: std::time::Duration| {
        while first.elapsed() < least {
            thread::yield_now();
        }
        Moment::now().rate_since(&first)
    };
    let short = rate(std::time::Duration::from_millis(5));
    let long = rate(std::time::Duration::from_millis(50));
    assert!(long.over > short.over);
    assert!((1_000_000..100_000_000_000).contains(&long.ticks_a_second), "{long:?}");
    assert!(long.error_ppb < 1_000_000, "{long:?}");
    let apart = long.ticks_a_second.abs_diff(short.ticks_a_second);
    // The system's clock may be adjusted by up to 500 parts in a million.
    let errors = u128::from(long.error_ppb + short.error_ppb + 1_000_000);
    assert!(u128::from(apart) * 1_000_000_000 <= errors * u128::from(long.ticks_a_second));
    assert!(Moment::step_ticks() > 0);
}

#[test]
fn readings_beside_a_step_are_not_the_step() {
    let rare: Vec<_> = (20..30).map(|distance| (distance, 2)).chain([(30, 3)]).collect();
    for (groups, wanted) in [
        // A virtual machine at 2.6 GHz whose counter advances by 10 ns.
        (&[(1, 111), (25, 110), (26, 1770)][..], 26),
        // A counter that is read in 18 to 22 ticks.
        (&[(0, 5), (18, 300), (20, 500), (22, 200), (900, 1)], 18),
        // No difference is common: the commonest, and of several the smallest.
        (&rare, 30),
        (&[(0, 1000)], 0),
        (&[], 0),
    ] {
        let distances = groups.iter().flat_map(|&(one, times)| std::iter::repeat_n(one, times));
        assert_eq!(step(distances), wanted, "{groups:?}");
    }
}
