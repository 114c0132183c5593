//! Do sessions follow their order of states, and leave each other alone?

use crate::backend::{Backend, unbroken};
use crate::cases::set_interval;
use crate::requests::{bytes, configure, header, spec};
use crate::wire::{AMPLE, PROCESS, RawClient, Reply, about, leaves, plain, rows};
use shared_types::hal::HalProfileSourceInformation;
use shared_types::request::RequestCode;
use shared_types::request::counts::{self, Count};
use shared_types::request::samples::{self, Drained};
use shared_types::request::session::{self, Configured, IntervalSet, Spec, UsedInterval};
use shared_types::request::source::{self, Information, Query};
use shared_types::{ErrorCode, ReplyHeader, Sample};
use sim::machines::models::MODELS;

scenarios![
    each_step_out_of_order_has_its_own_error,
    a_session_answers_to_its_own_handle_only,
    a_number_of_a_closed_session_is_never_right_again,
    sessions_are_limited_and_come_free_again,
    who_holds_the_counters_is_told_and_for_how_long,
    samples_outlive_the_stop_and_nobody_can_take_their_place,
    a_stop_without_room_for_counts_stops_and_keeps_them,
    counts_stay_as_the_last_read_left_them,
    one_session_does_not_see_the_others_counts,
    one_request_reads_all_processors,
    a_query_answers_the_hals_structure,
    a_query_of_what_is_not_supported_answers_interval_0,
    an_interval_that_was_set_is_the_one_that_samples,
    profile_time_writes_no_register,
    an_interval_that_was_set_says_by_which_cycles,
    time_is_sampled_by_the_same_cycles_on_every_cpu_type,
];

const TOTAL_ISSUES: u32 = 2;
const BRANCHES: u32 = 6;
const TIME: u32 = 0;
const WORK: &str = "instructions=400000,cycles=500000,branches=30000,processors=all";

fn stop<B: Backend>(client: &mut RawClient<B>, session: u32) -> Vec<Vec<Count>> {
    rows(&client.about(session::STOP, session))
}

fn counted(rows: &[Vec<Count>]) -> Vec<u64> {
    rows.iter().flatten().map(|count| count.counted).collect()
}

fn query<B: Backend>(client: &mut RawClient<B>, source: u32, session: u32) -> Reply {
    let request = Query { header: header(0), source, session };
    client.send(source::QUERY, &bytes(&request, &[]))
}

const ABOUT_ONE: &[RequestCode] = &[
    session::START,
    session::STOP,
    session::CLOSE,
    counts::SNAPSHOT,
    samples::DRAIN,
    samples::STATISTICS,
];

fn each_step_out_of_order_has_its_own_error<B: Backend>() {
    use ErrorCode::{NotConfigured, NotRunning, NotSampling, Running, UnknownSession};
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.open();
    let right = configure(number, 0, &[spec(TOTAL_ISSUES)]);
    let interval = set_interval(number, TOTAL_ISSUES, 5000);
    let mut expect = |what: &str, code: RequestCode, request: &[u8], error: Option<ErrorCode>| {
        assert_eq!(client.send(code, request).error(), error, "{what}");
    };
    let one = about(number);
    expect("start before configure", session::START, &one, Some(NotConfigured));
    expect("stop before start", session::STOP, &one, Some(NotRunning));
    expect("snapshot before start", counts::SNAPSHOT, &one, Some(NotRunning));
    let no_source = Some(ErrorCode::SourceNotInSession);
    expect("interval before configure", session::SET_INTERVAL, &interval, no_source);
    expect("configure", session::CONFIGURE, &right, None);
    expect("stop before start", session::STOP, &one, Some(NotRunning));
    expect("interval", session::SET_INTERVAL, &interval, None);
    expect("start", session::START, &one, None);
    expect("start twice", session::START, &one, Some(Running));
    expect("configure while running", session::CONFIGURE, &right, Some(Running));
    expect("interval while running", session::SET_INTERVAL, &interval, Some(Running));
    expect("drain while counting", samples::DRAIN, &one, Some(NotSampling));
    expect("statistics while counting", samples::STATISTICS, &one, Some(NotSampling));
    expect("stop", session::STOP, &one, None);
    expect("stop twice", session::STOP, &one, Some(NotRunning));
    expect("configure again", session::CONFIGURE, &right, None);
    expect("no counts of what is to come", counts::SNAPSHOT, &one, Some(NotRunning));
    expect("start again", session::START, &one, None);
    expect("close while running", session::CLOSE, &one, None);
    expect("close twice", session::CLOSE, &one, Some(UnknownSession));
    assert!(!client.model.holds_counters());
    client.end();
}

fn a_session_answers_to_its_own_handle_only<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.run(spec(TOTAL_ISSUES), session::SAMPLE);
    let stranger = client.other(5);
    for &code in ABOUT_ONE {
        let refusal = client.about_by(&stranger, code, number).refusal();
        assert_eq!(refusal, Some((ErrorCode::UnknownSession, number, 0)));
    }
    let query = Query { header: header(0), source: TOTAL_ISSUES, session: number };
    for (code, request) in [
        (session::CONFIGURE, configure(number, 0, &[spec(TOTAL_ISSUES)])),
        (session::SET_INTERVAL, set_interval(number, TOTAL_ISSUES, 5000)),
        (source::QUERY, bytes(&query, &[])),
    ] {
        let reply = client.send_by(&stranger, code, &request, AMPLE);
        assert_eq!(reply.refusal(), Some((ErrorCode::UnknownSession, number, 0)));
    }
    assert!(client.model.holds_counters(), "the stranger stopped nothing");
    client.end();
}

fn a_number_of_a_closed_session_is_never_right_again<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let mut stale = Vec::new();
    for _ in 0..50 {
        let number = client.open();
        assert!(number != 0 && !stale.contains(&number), "{number:#x}");
        for &old in &stale {
            let refusal = client.about(session::CLOSE, old).refusal();
            assert_eq!(refusal, Some((ErrorCode::UnknownSession, old, 0)));
        }
        client.granted(session::CLOSE, number);
        stale.push(number);
    }
    client.end();
}

fn sessions_are_limited_and_come_free_again<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let open = plain(0);
    let sessions: Vec<u32> = (0..7).map(|_| client.open()).collect();
    let refusal = Some((ErrorCode::TooManySessions, 0, 7));
    assert_eq!(client.send(session::OPEN, &open).refusal(), refusal);
    client.granted(session::CLOSE, sessions[3]);
    assert_eq!(client.send(session::OPEN, &open).refusal(), None);
    let other = client.other(5);
    let by_other = client.send_by(&other, session::OPEN, &open, AMPLE);
    assert_eq!(by_other.refusal(), refusal);
    let ended = std::mem::replace(&mut client.handle, other);
    unbroken(client.model.close(ended));
    let again: Vec<u32> = (0..7).map(|_| client.open()).collect();
    assert_eq!(again.len(), 7);
    client.end();
}

fn who_holds_the_counters_is_told_and_for_how_long<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.run(spec(TOTAL_ISSUES), 0);
    client.work("instructions=400000,cycles=500000");
    let other = client.other(5);
    let second = client.open_by(&other);
    let request = configure(second, 0, &[spec(TOTAL_ISSUES)]);
    let configured = client.send_by(&other, session::CONFIGURE, &request, AMPLE);
    assert_eq!(configured.refusal(), None, "configuring takes nothing from anybody");
    let start = client.about_by(&other, session::START, second);
    // The workload takes at least 500,000 ns, and the time-stamp counter runs at 1 GHz.
    let (error, process, held) = start.refusal().expect("a refusal");
    assert_eq!((error, process), (ErrorCode::Busy, PROCESS));
    assert!((500_000..1_000_000).contains(&held), "{held}");
    let machine = client.machine();
    assert_eq!((machine.active_process, machine.active_session), (PROCESS, number));
    assert!(machine.active_ticks >= held);
    client.granted(session::STOP, number);
    assert_eq!(client.about_by(&other, session::START, second).refusal(), None);
    client.end();
}

fn samples_outlive_the_stop_and_nobody_can_take_their_place<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let interval = Spec { interval: 10_000, ..spec(TOTAL_ISSUES) };
    let number = client.run(interval, session::SAMPLE);
    client.work("instructions=400000,cycles=500000");
    client.granted(session::STOP, number);
    let other = client.other(5);
    let second = client.open_by(&other);
    let request = configure(second, 0, &[spec(TOTAL_ISSUES)]);
    assert_eq!(client.send_by(&other, session::CONFIGURE, &request, AMPLE).refusal(), None);
    let start = client.about_by(&other, session::START, second).refusal();
    assert_eq!(start.map(|(error, process, _)| (error, process)), Some((ErrorCode::Busy, PROCESS)));
    // Replies with room for three samples at a time.
    let room = size_of::<Drained>() + 3 * size_of::<Sample>();
    let mut drained = 0;
    loop {
        let reply = client.send_with_room(samples::DRAIN, &about(number), room);
        let head: Drained = reply.done();
        drained += u64::from(head.count);
        assert_eq!(head.left, 40 - drained);
        if head.left == 0 {
            break;
        }
        assert_eq!(head.count, 3);
    }
    let statistics = client.statistics(number);
    assert_eq!((statistics.generated, statistics.stored), (40, 40));
    assert_ne!(client.machine().ring_bytes, 0);
    client.granted(session::CLOSE, number);
    assert_eq!(client.machine().ring_bytes, 0);
    assert_eq!(client.about_by(&other, session::START, second).refusal(), None);
    client.end();
}

fn a_stop_without_room_for_counts_stops_and_keeps_them<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    let number = client.run(spec(TOTAL_ISSUES), 0);
    client.work(WORK);
    let bare = size_of::<ReplyHeader>();
    let reply = client.send_with_room(session::STOP, &about(number), bare);
    assert_eq!(reply.refusal(), None);
    assert_eq!(reply.bytes.len(), bare);
    assert!(!client.model.holds_counters());
    assert_eq!(counted(&client.snapshot(number)), [400_000, 400_000]);
    client.end();
}

fn counts_stay_as_the_last_read_left_them<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 2);
    let number = client.run(spec(TOTAL_ISSUES), 0);
    client.work(WORK);
    let last = stop(&mut client, number);
    assert_eq!(counted(&last), [400_000, 400_000]);
    client.work(WORK);
    client.model.take_counters(true);
    let start = client.about(session::START, number);
    assert_eq!(start.error(), Some(ErrorCode::CountersReserved));
    assert_eq!(client.snapshot(number), last, "a start that was refused takes nothing");
    client.model.take_counters(false);
    client.granted(session::START, number);
    assert_eq!(counted(&client.snapshot(number)), [0, 0], "a new run begins at 0");
    client.end();
}

fn one_session_does_not_see_the_others_counts<B: Backend>() {
    for model in ["skylake", "yonah", "zen4", "k8", "pentium", "pentium3", "pentium4"] {
        let mut client = RawClient::<B>::new(model, 1);
        let first = client.run(spec(TOTAL_ISSUES), 0);
        client.work(WORK);
        assert_eq!(counted(&stop(&mut client, first)), [400_000], "{model}");
        let second = client.run(spec(BRANCHES), 0);
        let none = client.about(counts::SNAPSHOT, first);
        assert_eq!(none.error(), Some(ErrorCode::NotRunning), "{model}");
        assert_eq!(counted(&client.snapshot(second)), [0], "{model}");
        client.work(WORK);
        assert_eq!(counted(&stop(&mut client, second)), [30_000], "{model}");
        client.granted(session::START, first);
        assert_eq!(counted(&stop(&mut client, first)), [0], "{model}");
        client.end();
    }
}

fn one_request_reads_all_processors<B: Backend>() {
    for processors in [1, 2, 63, 64, 65, 300] {
        let mut client = RawClient::<B>::new("skylake", processors);
        let number = client.open();
        client.configure(number, &[spec(TOTAL_ISSUES), spec(BRANCHES)]);
        client.granted(session::START, number);
        client.work("instructions=4000,cycles=5000,branches=300,processors=all");
        let counts = client.snapshot(number);
        assert_eq!(counts.len(), processors);
        for row in counts {
            assert_eq!([row[0].counted, row[1].counted], [4000, 300]);
        }
        client.end();
    }
}

fn a_query_answers_the_hals_structure<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.open();
    client.configure(number, &[spec(TOTAL_ISSUES), spec(TIME)]);
    for (source, default, set) in [(TOTAL_ISSUES, 65_536, 123_456), (TIME, 10_000, 54_321)] {
        let mut reply = |of| query(&mut client, source, of).done::<Information>().information;
        let mut information = HalProfileSourceInformation {
            source: source.cast_signed(),
            supported: 1,
            padding: [0; 3],
            interval: default,
        };
        assert_eq!([reply(0), reply(number)], [information; 2]);
        let reply = client.send(session::SET_INTERVAL, &set_interval(number, source, set.into()));
        assert_eq!(reply.done::<IntervalSet>().interval.used, u64::from(set));
        let mut reply = |of| query(&mut client, source, of).done::<Information>().information;
        assert_eq!(reply(0), information);
        information.interval = set;
        assert_eq!(reply(number), information);
    }
    let other = query(&mut client, BRANCHES, number).refusal();
    assert_eq!(other, Some((ErrorCode::SourceNotInSession, BRANCHES, 0)));
    let unknown = query(&mut client, 0xFFF, 0).refusal();
    assert_eq!(unknown, Some((ErrorCode::SourceUnknown, 0xFFF, 0)));
    client.end();
}

fn a_query_of_what_is_not_supported_answers_interval_0<B: Backend>() {
    // No event of the plain Pentium is unhalted cycles (data/mapping.csv).
    let mut client = RawClient::<B>::new("pentium", 1);
    let answer: Information = query(&mut client, 0x13, 0).done();
    assert_eq!((answer.information.supported, answer.information.interval), (0, 0));
    client.end();
}

fn an_interval_that_was_set_is_the_one_that_samples<B: Backend>() {
    let mut client = RawClient::<B>::new("skylake", 1);
    let number = client.open();
    let request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
    assert_eq!(client.send(session::CONFIGURE, &request).refusal(), None);
    let set = client.send(session::SET_INTERVAL, &set_interval(number, TOTAL_ISSUES, 8000));
    assert_eq!(set.refusal(), None);
    client.granted(session::START, number);
    client.work("instructions=400000,cycles=500000");
    let statistics = client.statistics(number);
    assert_eq!(statistics.generated, 50);
    client.end();
}

fn profile_time_writes_no_register<B: Backend>() {
    for model in MODELS {
        let mut client = RawClient::<B>::new(model.name, 2);
        let number = client.open();
        client.configure(number, &[Spec { interval: 10_000, ..spec(TIME) }]);
        client.model.take_counters(true);
        for index in 0..2 {
            client.processor(index).reset_accesses();
        }
        assert_eq!(client.about(session::START, number).refusal(), None, "{}", model.name);
        client.begin("instructions=30000000,cycles=30000000,processors=all");
        while client.advance(7_000_000) {
            client.granted(counts::SNAPSHOT, number);
        }
        // 30 ms and an interval of 1 ms.
        assert_eq!(counted(&stop(&mut client, number)), [30, 30], "{}", model.name);
        for index in 0..2 {
            let accesses = client.processor(index).accesses();
            assert_eq!((accesses.wrmsr, accesses.rdpmc), (0, 0), "{}", model.name);
        }
        client.end();
    }
}

/// What time is sampled by does not depend on the interval.
fn an_interval_that_was_set_says_by_which_cycles<B: Backend>() {
    for (model, by) in
        [("skylake", UsedInterval::BY_REFERENCE_CYCLES), ("zen2", UsedInterval::BY_CORE_CYCLES)]
    {
        let mut client = RawClient::<B>::new(model, 1);
        let number = client.open();
        let request = configure(number, session::SAMPLE, &[spec(TIME)]);
        assert_eq!(client.send(session::CONFIGURE, &request).refusal(), None);
        for (interval, flags) in [(54_321, by), (1, by | UsedInterval::CLAMPED)] {
            let request = set_interval(number, TIME, interval);
            let set: IntervalSet = client.send(session::SET_INTERVAL, &request).done();
            assert_eq!(set.interval.flags, flags, "{model} {interval}");
        }
        client.end();
    }
}

/// A session has one answer for all its processors: where one type of core has no counter of reference
/// cycles, all sample core cycles.
fn time_is_sampled_by_the_same_cycles_on_every_cpu_type<B: Backend>() {
    let mut processors = leaves("hybrid", 12);
    let mut efficient = processors.remove(11);
    let mut counters = efficient.get(0x23, 1);
    counters.ebx &= !(1 << 2);
    efficient.insert_subleaf(0x23, 1, counters);
    let mut client = RawClient::<B>::of(&[processors.remove(0), efficient]);
    let number = client.open();
    let request = configure(number, session::SAMPLE, &[spec(TIME)]);
    let reply = client.send(session::CONFIGURE, &request);
    let used: Vec<UsedInterval> = reply.elements::<Configured, _>();
    assert_eq!(used[0].flags, UsedInterval::BY_CORE_CYCLES | UsedInterval::DRAWN);
    client.granted(session::START, number);
    client.work("cycles=30000000,ref-cycles=20000000,instructions=10000000,processors=all");
    assert_eq!(client.counted(number), [30_000_000, 30_000_000]);
    client.granted(session::STOP, number);
    client.end();
}
