//! What is settled when a request leaves something open or asks for too much: turns, rings,
//! intervals, and the counter that PLAN gives each source?

use hal_profile::run::ring::words_for;
use halprof_measure::{Connection, Error, InProcess, Session, Setup, Transport};
use halprof_tests::bare::Bare;
use halprof_tests::requests::{bytes, configure, header, spec};
use halprof_tests::wire::{AMPLE, Refusal, Wire};
use shared_types::request::RequestCode;
use shared_types::request::session::{self, Configure, Configured, SAMPLE, Spec, UsedInterval};
use shared_types::request::source::{self, Information, Placement, Plan, Query};
use shared_types::{ErrorCode, ProfileSource, ReplyHeader};
use zerocopy::IntoBytes;

const TIME: u32 = 0;
const TOTAL_ISSUES: u32 = 2;
const RAW: u32 = ProfileSource::RAW.0;
/// halprof's own sources of fixed counters 0 to 3.
const FIXED: u32 = 0x8000_0100;

/// A configuration that lacks only the number of specs and the size in the header.
fn head(session: u32, flags: u32) -> Configure {
    Configure {
        header: header(flags),
        session,
        sources: 1,
        rotation: 0,
        ring_samples: 0,
        rotation_seed: 0,
        branches: 0,
        branch_filter: 0,
        processors: [0; 32],
    }
}

fn settle(wire: &mut Wire, head: &Configure) -> Configured {
    let request = bytes(head, &[spec(TOTAL_ISSUES)]);
    wire.send(session::CONFIGURE, &request).done()
}

/// Raw selects that differ.
fn raw_specs(count: u64) -> Vec<Spec> {
    let raw = |raw| Spec { raw, ..spec(RAW) };
    (0..count).map(raw).collect()
}

#[test]
fn as_many_sources_as_the_machine_says_are_taken() {
    let mut wire = Wire::new("skylake", 1);
    let most = wire.machine().sources_max;
    let number = wire.open();
    let used = wire.configure(number, &raw_specs(most.into()));
    assert_eq!(used.len(), most as usize);
    let more = configure(number, 0, &raw_specs(u64::from(most) + 1));
    assert_eq!(
        wire.send(session::CONFIGURE, &more).refusal(),
        Some((ErrorCode::TooManySources, most + 1, most.into()))
    );
}

/// Turns of 4 ms by default, at least 1 ms, at most 1 s.
#[test]
fn a_turn_is_as_long_as_asked_within_its_limits() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.open();
    for (rotation, used) in [
        (0, 40_000),
        (1, 10_000),
        (9_999, 10_000),
        (10_001, 10_001),
        (9_999_999, 9_999_999),
        (10_000_001, 10_000_000),
        (u32::MAX, 10_000_000),
    ] {
        let head = Configure { rotation, ..head(number, 0) };
        assert_eq!(settle(&mut wire, &head).rotation, used, "{rotation}");
    }
}

/// 2 seconds of 10,000 samples a second by default.
#[test]
fn a_ring_holds_what_was_asked_for() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.open();
    for (ring_samples, least) in [(0, 20_000), (1, 1), (2, 2), (3, 3), (64, 64), (65, 65)] {
        let head = Configure { ring_samples, ..head(number, SAMPLE) };
        let settled = settle(&mut wire, &head).ring_samples;
        assert!((least..2 * least).contains(&settled), "{ring_samples}");
    }
}

/// Bytes of this many rings for this many samples each.
fn ring_bytes(samples: u32, rings: u64) -> u64 {
    words_for(samples, 0) as u64 * 8 * rings
}

#[test]
fn rings_are_as_large_as_all_of_them_may_be() {
    let mut wire = Wire::new("skylake", 300);
    let most = wire.machine().ring_bytes_max;
    let number = wire.open();
    let everywhere = settle(&mut wire, &head(number, SAMPLE)).ring_samples;
    assert!(everywhere < 20_000);
    assert!(ring_bytes(everywhere, 300) <= most);
    assert!(ring_bytes(2 * everywhere, 300) > most);
    assert_eq!(wire.about(session::START, number).refusal(), None);
    assert_eq!(wire.machine().ring_bytes, ring_bytes(everywhere, 300));
    assert_eq!(wire.about(session::STOP, number).refusal(), None);
    let mut on_two = head(number, SAMPLE);
    on_two.processors[0] = 0b101;
    let on_two = settle(&mut wire, &on_two).ring_samples;
    assert!(on_two >= 20_000);
    assert_eq!(wire.about(session::START, number).refusal(), None);
    assert_eq!(wire.machine().ring_bytes, ring_bytes(on_two, 2));
}

#[test]
fn the_cap_of_all_rings_may_be_reached_and_not_passed() {
    let right = ring_bytes(64, 2);
    for (cap, samples) in [(right + 1, 64), (right, 64), (right - 1, 32)] {
        let mut bare = Bare::with_ring_bytes("skylake", 2, cap);
        let settled = bare.configure(SAMPLE, &[spec(TOTAL_ISSUES)], 0);
        assert_eq!(settled.ring_samples, samples, "{cap}");
        bare.start();
    }
    let mut bare = Bare::with_ring_bytes("skylake", 2, 100);
    let settled = bare.configure(SAMPLE, &[spec(TOTAL_ISSUES)], 0);
    assert_eq!(settled.ring_samples, 1, "a ring is never empty");
    let refused = bare.try_start();
    assert_eq!(refused.error, ErrorCode::NoMemory as u32);
    assert_eq!(refused.detail, ring_bytes(1, 2));
}

/// Sampling by time uses fixed counter 2, which counts reference cycles, or if there is none, core
/// cycles on a general counter, and reports which: 1 ms at 1 GHz.
#[test]
fn time_is_sampled_by_cycles_or_refused() {
    for (model, by) in [
        ("skylake", Ok(UsedInterval::BY_REFERENCE_CYCLES)),
        ("hybrid", Ok(UsedInterval::BY_REFERENCE_CYCLES)),
        // Leaf 0x0A declares no fixed counter there: EDX is 0.
        ("core2", Ok(UsedInterval::BY_CORE_CYCLES)),
        ("yonah", Ok(UsedInterval::BY_CORE_CYCLES)),
        ("pentium3", Ok(UsedInterval::BY_CORE_CYCLES)),
        ("pentium4", Ok(UsedInterval::BY_CORE_CYCLES)),
        ("k8", Ok(UsedInterval::BY_CORE_CYCLES)),
        ("zen2", Ok(UsedInterval::BY_CORE_CYCLES)),
        ("zen4", Ok(UsedInterval::BY_CORE_CYCLES)),
        ("pentium", Err(ErrorCode::SamplingUnavailable)),
    ] {
        let mut wire = Wire::new(model, 1);
        let number = wire.open();
        for (code, number) in [(session::CONFIGURE, number), (source::PLAN, 0)] {
            let reply = wire.send(code, &configure(number, SAMPLE, &[spec(TIME)]));
            let refusal = by.err().map(|error| (error, TIME, 0));
            assert_eq!(reply.refusal(), refusal, "{model}");
        }
        let Ok(by) = by else {
            continue;
        };
        let request = configure(number, SAMPLE, &[spec(TIME)]);
        let reply = wire.send(session::CONFIGURE, &request);
        let expected =
            UsedInterval { source: TIME, flags: by, requested: 0, used: 10_000, events: 1_000_000 };
        assert_eq!(reply.elements::<Configured, UsedInterval>(), [expected]);
        let (plan, places) = planned(&mut wire, &head(0, SAMPLE), &[spec(TIME)]).expect("a plan");
        assert_eq!(plan.fits, 1);
        let reference = by == UsedInterval::BY_REFERENCE_CYCLES;
        let counter = places[0].counter;
        assert_eq!(counter == Placement::FIXED + 2, reference, "{model}");
        assert_eq!(counter < Placement::FIXED, !reference, "{model}");
    }
}

/// The reply to PLAN: its head, and the placements for each kind.
fn planned(
    wire: &mut Wire,
    head: &Configure,
    specs: &[Spec],
) -> Result<(Plan, Vec<Placement>), Refusal> {
    let head = Configure { sources: specs.len() as u32, ..*head };
    let reply = wire.send(source::PLAN, &bytes(&head, specs));
    match reply.refusal() {
        Some(refusal) => Err(refusal),
        None => Ok((reply.done(), reply.elements::<Plan, _>())),
    }
}

#[test]
fn a_plan_tells_each_sources_counter_and_turn() {
    let mut wire = Wire::new("skylake", 1);
    let mut specs = raw_specs(4);
    specs.extend([spec(TIME), spec(FIXED), spec(FIXED + 1)]);
    let (plan, places) = planned(&mut wire, &head(0, 0), &specs).expect("a plan");
    assert_eq!((plan.fits, plan.kinds, plan.sources), (1, 1, 7));
    assert!(places.iter().all(|place| (place.turn, place.error) == (0, 0)));
    let mut general: Vec<u16> = places[..4].iter().map(|place| place.counter).collect();
    general.sort_unstable();
    assert_eq!(general, [0, 1, 2, 3]);
    let others: Vec<u16> = places[4..].iter().map(|place| place.counter).collect();
    assert_eq!(others, [Placement::TIMER, Placement::FIXED, Placement::FIXED + 1]);
    let (plan, places) = planned(&mut wire, &head(0, 0), &raw_specs(5)).expect("a plan");
    assert_eq!(plan.fits, 0, "five do not run at once on four");
    let (_, same) = planned(&mut wire, &head(0, 0), &[spec(TOTAL_ISSUES)]).expect("a plan");
    assert_eq!(same[0].counter, Placement::FIXED, "the same instructions");
    let turns: Vec<u16> = places.iter().map(|place| place.turn).collect();
    assert_eq!(turns, [0, 0, 0, 0, 1]);
}

/// The first source is counted by one kind of processor only, on the counter that the third needs:
/// there the third waits for the second turn, elsewhere it runs in the first.
#[test]
fn a_source_waits_only_on_the_kind_that_lacks_a_counter_for_it() {
    let on = |counter: u32, raw, kinds| Spec { counters: 1 << counter, kinds, ..Spec::of_raw(raw) };
    let specs = [on(0, 0xC4, 0b01), on(1, 0xC5, 0), on(0, 0x2E, 0)];
    let mut wire = Wire::new("hybrid", 12);
    let (plan, places) = planned(&mut wire, &head(0, 0), &specs).expect("a plan");
    assert_eq!((plan.kinds, plan.sources), (2, 3));
    let turns = |places: &[Placement]| places.iter().map(|place| place.turn).collect::<Vec<_>>();
    assert_eq!(turns(&places[..3]), [0, 0, 1]);
    assert_eq!(places[3].error, ErrorCode::SourceNotSupported as u32);
    assert_eq!(turns(&places[4..]), [0, 0]);
}

/// instr_retired (event select 2, ESCR select 4, the counters of IQ) can be on each of 12 to 17.
#[test]
fn a_raw_select_of_netburst_is_on_the_counters_that_it_names() {
    const INSTR_RETIRED: u64 = 0x0400_1E00 | (0x8000 | 3) << 32;
    let mut wire = Wire::new("pentium4", 1);
    let mut on = |counter: u16| {
        let spec = Spec { counters: 1 << counter, ..Spec::of_raw(INSTR_RETIRED) };
        planned(&mut wire, &head(0, 0), &[spec]).map(|(_, places)| places[0].counter)
    };
    for counter in 12..18 {
        assert_eq!(on(counter), Ok(counter));
    }
    assert_eq!(on(0), Err((ErrorCode::SourceNotSupported, RAW, 0)));
    // Each of its two ESCRs has one filter.
    let filtered = |filter| Spec { filter, ..Spec::of_raw(INSTR_RETIRED) };
    for (filters, fits) in [
        (&[Spec::USER, Spec::KERNEL][..], 1),
        (&[Spec::USER, Spec::KERNEL, Spec::USER | Spec::KERNEL], 0),
    ] {
        let specs: Vec<Spec> = filters.iter().map(|&filter| filtered(filter)).collect();
        let (plan, _) = planned(&mut wire, &head(0, 0), &specs).expect("a plan");
        assert_eq!(plan.fits, fits, "{filters:?}");
    }
}

#[test]
fn a_plan_is_of_the_processors_that_are_asked_for() {
    // Processors 0 to 3 have fixed counter 3 (leaf 0x23.1 EBX 0Fh), 4 to 11 do not (77h).
    let only_performance = FIXED + 3;
    let specs = [spec(TOTAL_ISSUES), spec(only_performance)];
    let on = |processors: u64| {
        let mut head = head(0, 0);
        head.processors[0] = processors;
        head
    };
    let mut wire = Wire::new("hybrid", 12);
    for (processors, fits) in [(0, 0), (1, 1), (0b1111, 1), (0b1_0001, 0)] {
        let (plan, places) = planned(&mut wire, &on(processors), &specs).expect("a plan");
        assert_eq!((plan.fits, plan.kinds, plan.sources), (fits, 2, 2));
        let errors: Vec<u32> = places.iter().map(|place| place.error).collect();
        assert_eq!(errors, [0, 0, 0, ErrorCode::SourceNotSupported as u32]);
        assert_eq!(places[1].counter, Placement::FIXED + 3);
    }
    let number = wire.run(spec(only_performance), 0);
    assert_eq!(wire.about(session::STOP, number).refusal(), None);
    let refusal = planned(&mut wire, &on(1 << 4), &specs).err();
    let expected = (ErrorCode::SourceNotSupported, only_performance, 1);
    assert_eq!(refusal, Some(expected), "no processor asked for counts it");
}

#[test]
fn a_group_that_does_not_fit_names_its_source_and_a_processor() {
    let grouped = |count| {
        let one = |spec| Spec { group: 1, ..spec };
        raw_specs(count).into_iter().map(one).collect::<Vec<_>>()
    };
    let mut wire = Wire::new("skylake", 2);
    let refusal = planned(&mut wire, &head(0, 0), &grouped(5)).err();
    assert_eq!(refusal, Some((ErrorCode::DoesNotFit, RAW, 0)));
    // Ten general counters on processors 0 to 3, eight on 4 to 11.
    let nine = grouped(9);
    let mut wire = Wire::new("hybrid", 12);
    let refusal = planned(&mut wire, &head(0, 0), &nine).err();
    assert_eq!(refusal, Some((ErrorCode::DoesNotFit, RAW, 4)));
    let mut on_performance = head(0, 0);
    on_performance.processors[0] = 0b1111;
    let (plan, places) = planned(&mut wire, &on_performance, &nine).expect("a plan");
    assert_eq!(plan.fits, 1);
    let errors = |places: &[Placement]| places.iter().map(|place| place.error).collect::<Vec<_>>();
    assert_eq!(errors(&places[..9]), [0; 9]);
    let unused = ErrorCode::DoesNotFit as u32;
    assert_eq!(errors(&places[9..]), [unused; 9], "never placed there");
}

#[test]
fn one_session_is_enough_memory() {
    let leaves = halprof_tests::wire::leaves("skylake", 1);
    let mut wire = Wire::on(sim::machine::Model::with_sessions(&leaves, 1));
    let query = Query { header: header(0), source: TOTAL_ISSUES, session: 0 };
    let reply: Information = wire.send(source::QUERY, &bytes(&query, &[])).done();
    assert_eq!(reply.information.supported, 1);
    let number = wire.run(spec(TOTAL_ISSUES), 0);
    let request = bytes(&header(0), &[]);
    let second = wire.send_by(wire.handle, session::OPEN, &request, AMPLE);
    assert_eq!(second.refusal(), Some((ErrorCode::TooManySessions, 0, 1)));
    assert_eq!(wire.about(session::STOP, number).refusal(), None);
}

#[test]
fn each_sources_interval_is_answered_in_turn() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.open();
    let mut specs = raw_specs(3);
    for (spec, interval) in specs.iter_mut().zip([5_000, 6_000, 7_000]) {
        spec.interval = interval;
    }
    let used = wire.configure(number, &specs);
    let used: Vec<u64> = used.iter().map(|used| used.used).collect();
    assert_eq!(used, [5_000, 6_000, 7_000]);
}

/// P6's ProfileAlignmentFixup counts references, not fixups (data/mapping.csv).
#[test]
fn plan_and_query_take_approximate_sources_where_asked_to() {
    const ALIGNMENT_FIXUP: u32 = 1;
    let mut wire = Wire::new("pentium3", 1);
    let specs = [spec(ALIGNMENT_FIXUP)];
    for (flags, supported) in [(0, 0), (source::APPROXIMATE, 1)] {
        let refusal = planned(&mut wire, &head(0, flags), &specs).err();
        let refused = (ErrorCode::SourceApproximate, ALIGNMENT_FIXUP, 0);
        assert_eq!(refusal, (supported == 0).then_some(refused));
        let query = Query { header: header(flags), source: ALIGNMENT_FIXUP, session: 0 };
        let reply: Information = wire.send(source::QUERY, &bytes(&query, &[])).done();
        assert_eq!(reply.information.supported, supported);
    }
}

/// The Pentium's counters cannot interrupt.
#[test]
fn a_source_is_not_sampled_where_no_interrupt_comes() {
    let mut wire = Wire::new("pentium", 1);
    let number = wire.open();
    for (code, number) in [(session::CONFIGURE, number), (source::PLAN, 0)] {
        let reply = wire.send(code, &configure(number, SAMPLE, &[spec(TOTAL_ISSUES)]));
        let refusal = (ErrorCode::SamplingUnavailable, TOTAL_ISSUES, 0);
        assert_eq!(reply.refusal(), Some(refusal));
    }
}

/// However many others there are.
#[test]
fn a_duplicate_is_found_in_a_full_list() {
    let mut wire = Wire::new("skylake", 1);
    let most = wire.machine().sources_max as usize;
    let number = wire.open();
    let raw = |mask: u64| Spec::of_raw(0xC4 | mask << 8);
    let mut specs: Vec<Spec> = (0..most as u64).map(raw).collect();
    for earlier in 0..most - 1 {
        specs[most - 1] = specs[earlier];
        let reply = wire.send(session::CONFIGURE, &configure(number, 0, &specs));
        let refusal = Some((ErrorCode::SourceDuplicate, RAW, 0));
        assert_eq!(reply.refusal(), refusal, "{earlier}");
    }
}

/// The first requests for a configuration had to wait behind another program's.
struct Waiting {
    machine: InProcess,
    requests: u32,
}

impl Transport for Waiting {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, Error> {
        if code != session::CONFIGURE || self.requests == 0 {
            return self.machine.request(code, input, output);
        }
        self.requests -= 1;
        let refused = ReplyHeader::refused(ErrorCode::KernelAddressesNotGranted, 2, 0);
        let bytes = refused.as_bytes();
        output[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

/// The driver cannot see the privilege of a program whose request is presented by another's thread:
/// that is asked again, and a true refusal is still one.
#[test]
fn a_configuration_that_waited_is_asked_for_again() {
    for (requests, settled) in [(1, true), (2, true), (3, false)] {
        let machine = sim::machines::models::find("skylake").expect("a model");
        let machine = InProcess::new(&machine.processors());
        let waiting = Waiting { machine, requests };
        let mut connection = Connection::new(waiting).expect("a greeting");
        let setup = Setup { specs: vec![spec(2)], ..Setup::default() };
        let mut session = Session::open(&mut connection, true, false).expect("a session");
        let answer = session.configure(&setup, true);
        assert_eq!(answer.is_ok(), settled, "{requests}: {answer:?}");
    }
}

/// Windows has no memory for long replies: METHOD_BUFFERED takes it before the driver sees a request.
struct LittleMemory(InProcess);

impl Transport for LittleMemory {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, Error> {
        if code == session::STOP && output.len() > 64 << 10 {
            let why = "STATUS_INSUFFICIENT_RESOURCES".to_owned();
            return Err(Error::Protocol { request: "stop", why });
        }
        self.0.request(code, input, output)
    }
}

/// 300 processors with 4 counts of 80 bytes are 94 KiB.
#[test]
fn a_session_is_stopped_however_many_counts_it_has() {
    let machine = LittleMemory(InProcess::new(&halprof_tests::wire::leaves("skylake", 300)));
    let mut connection = Connection::new(machine).expect("a greeting");
    let setup = Setup { specs: raw_specs(4), ..Setup::default() };
    let mut session = Session::open(&mut connection, true, false).expect("a session");
    session.configure(&setup, false).expect("a configuration");
    session.start().expect("a start");
    let counts = session.stop_and_read().expect("all counts");
    assert_eq!((counts.len(), counts[0].len()), (300, 4));
}
