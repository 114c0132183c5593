use super::*;
use crate::file::Marked;

/// Marks of one process: time in ticks of half a nanosecond, thread, channel, value.
fn recording(marks: &[(u64, u32, u32, u64)]) -> Recording {
    let marks = marks.iter().map(|&(time, thread, channel, value)| Mark {
        time,
        value,
        process: 9,
        thread,
        channel,
        reserved: 0,
    });
    let channels = Channels {
        names: vec!["a".to_owned(), "b".to_owned()],
        ticks_a_second: 2_000_000_000,
        ..Channels::default()
    };
    Recording {
        marked: Marked {
            channels: Some(channels),
            count: marks.len() as u64,
            marks: marks.collect(),
        },
        ..Recording::default()
    }
}

fn marks(marks: &[(u64, u32, u32, u64)]) -> Marks {
    Marks::of(&mut recording(marks), &MarkFilter::default())
}

#[test]
fn rows_are_in_the_order_of_time_with_both_distances() {
    let marks = marks(&[(1600, 1, 1, 7), (1000, 1, 0, 5), (1400, 2, 0, 6), (1601, 1, 8, 0)]);
    let rows: Vec<_> = marks.rows().collect();
    let told = |row: &MarkRow| {
        (row.number, row.time_ns, row.channel.clone(), row.value, row.on_channel_ns, row.on_any_ns)
    };
    let named = |name: &str| name.to_owned();
    assert_eq!(
        rows.iter().map(told).collect::<Vec<_>>(),
        [
            (1, 0, named("a"), 5, None, None),
            (2, 200, named("a"), 6, Some(200), Some(200)),
            (3, 300, named("b"), 7, None, Some(100)),
            (4, 300, named(NAMELESS), 0, None, Some(0)),
        ]
    );
    assert_eq!((marks.len(), marks.elapsed_ns()), (4, 300));
}

#[test]
fn distances_have_statistics() {
    // 1, 2, 3, 4 and 100 ns apart.
    let all: Vec<_> = [0, 2, 6, 12, 20, 220].iter().map(|&time| (time, 1, 0, 0)).collect();
    let marks = marks(&all);
    let [summary] = &marks.summaries()[..] else { panic!("one channel") };
    let gaps = summary.gaps.as_ref().expect("distances");
    assert_eq!((summary.channel.as_str(), summary.marks), ("a", 6));
    // The longest is not culled: it is what is looked for.
    assert_eq!((gaps.n, gaps.min_ns, gaps.median_ns, gaps.max_ns), (5, 1, 3, 100));
}

#[test]
fn ticks_are_columns_of_channels() {
    let marks =
        marks(&[(0, 1, 0, 0), (10, 1, 0, 0), (25, 1, 1, 0), (39, 1, 0, 0), (2000, 1, 1, 0)]);
    let strip = marks.strip(10, 3);
    let track =
        |channel: &str, marks: &[u64]| Track { channel: channel.to_owned(), marks: marks.to_vec() };
    assert_eq!(strip.tracks, [track("a", &[2, 1, 0]), track("b", &[0, 1, 0])]);
    assert_eq!((strip.from_ns, strip.omitted_columns), (0, 98));
    assert_eq!(marks.strip(u64::MAX, 9).tracks, [track("a", &[3]), track("b", &[2])]);
}

#[test]
fn from_mark_to_mark() {
    let marks = marks(&[
        (0, 1, 0, 5),
        (20, 2, 0, 6),
        (30, 1, 1, 6),
        (60, 2, 1, 5),
        (70, 2, 1, 9),
        (80, 1, 0, 1),
        (90, 1, 0, 2),
    ]);
    let between = marks.between("a", "b");
    let lengths = between.intervals.iter();
    assert_eq!(
        lengths.map(|one| (one.begin_ns, one.length_ns)).collect::<Vec<_>>(),
        [(0, 15), (10, 20)]
    );
    assert_eq!((between.without_end, between.without_begin), (2, 1));
    let own = marks.between("a", "a");
    assert_eq!((own.intervals.len(), own.without_end, own.without_begin), (2, 2, 2));
}

#[test]
fn what_is_chosen_counts_alone() {
    let mut recording = recording(&[(0, 1, 0, 0), (100, 1, 1, 1), (200, 1, 0, 2), (300, 1, 1, 3)]);
    let choice = MarkFilter { channels: vec![Pattern::new("B*")], time: Some((50, 151)) };
    let marks = Marks::of(&mut recording, &choice);
    let rows = marks.rows().map(|row| (row.time_ns, row.value, row.on_any_ns));
    assert_eq!(rows.collect::<Vec<_>>(), [(50, 1, None), (150, 3, Some(100))]);
    assert!(marks.has("b") && !marks.has("a"));
}

#[test]
fn whatever_a_file_says_is_shown() {
    let worst = [0, 1, u64::MAX];
    let mut all = Vec::new();
    for time in worst {
        for channel in [0, 2, u32::MAX] {
            all.push((time, u32::MAX, channel, u64::MAX));
        }
    }
    for rate in worst {
        let mut recording = recording(&all);
        recording.marked.channels.as_mut().expect("channels").ticks_a_second = rate;
        let marks = Marks::of(&mut recording, &MarkFilter::default());
        assert_eq!(marks.rows().count(), 9);
        assert_eq!(marks.summaries().len(), 2);
        for tick in worst {
            assert!(marks.strip(tick, 100).tracks.iter().all(|track| track.marks.len() <= 100));
        }
        assert_eq!(marks.between("a", NAMELESS).intervals.len(), 3);
    }
    let mut nothing = Recording::default();
    let marks = Marks::of(&mut nothing, &MarkFilter::default());
    assert!(marks.is_empty() && marks.strip(1, 9).tracks.is_empty());
}

#[test]
fn events_of_the_driver_are_among_the_marks() {
    let mut recording = recording(&[(5000, 1, 0, 5)]);
    let event = |timestamp, kind: &str, processor, amount| RecordedEvent {
        timestamp,
        kind: kind.to_owned(),
        processor,
        amount,
    };
    recording.events = vec![
        event(7000, "throttled", Some(3), 2),
        event(1000, "asleep", None, 0),
        event(4000, "awake", None, 0),
    ];
    let marks = Marks::of(&mut recording, &MarkFilter::default());
    let rows: Vec<_> = marks.rows().collect();
    let seen =
        |row: &MarkRow| (row.time_ns, row.channel.clone(), row.value, row.process, row.processor);
    assert_eq!(
        rows.iter().map(seen).collect::<Vec<_>>(),
        [
            (0, "driver:asleep".to_owned(), 0, None, None),
            (1500, "driver:awake".to_owned(), 0, None, None),
            (2000, "a".to_owned(), 5, Some(9), None),
            (3000, "driver:throttled".to_owned(), 2, None, Some(3)),
        ]
    );
    let slept = marks.between("driver:asleep", "driver:awake");
    assert_eq!(slept.intervals.iter().map(|one| one.length_ns).collect::<Vec<_>>(), [1500]);
}
