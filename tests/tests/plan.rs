//! Which counter and slice does PLAN give each source, on each CPU type?

use halprof_tests::requests::{bytes, configuration, configure, header, spec};
use halprof_tests::wire::{Refusal, Wire};
use shared_types::request::session::{self, Configure, Configured, SAMPLE, Spec, UsedInterval};
use shared_types::request::source::{self, Information, Placement, Plan, Query};
use shared_types::{ErrorCode, ProfileSource};

const TIME: u32 = 0;
const TOTAL_ISSUES: u32 = 2;
const RAW: u32 = ProfileSource::RAW.0;
/// halprof's own sources of fixed counters 0 to 3.
const FIXED: u32 = 0x8000_0100;

/// Raw selects that differ.
fn raw_specs(count: u64) -> Vec<Spec> {
    // Of one event, with a counter mask each.
    let raw = |mask: u64| Spec { raw: 0xC4 | mask << 24, ..spec(RAW) };
    (0..count).map(raw).collect()
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
    let (plan, places) = planned(&mut wire, &configuration(0), &specs).expect("a plan");
    assert_eq!((plan.fits, plan.cpu_types, plan.sources), (1, 1, 7));
    assert!(places.iter().all(|place| (place.slice, place.error) == (0, 0)));
    let mut general: Vec<u16> = places[..4].iter().map(|place| place.counter).collect();
    general.sort_unstable();
    assert_eq!(general, [0, 1, 2, 3]);
    let others: Vec<u16> = places[4..].iter().map(|place| place.counter).collect();
    assert_eq!(others, [Placement::TIMER, Placement::FIXED, Placement::FIXED + 1]);
    let (plan, places) = planned(&mut wire, &configuration(0), &raw_specs(5)).expect("a plan");
    assert_eq!(plan.fits, 0, "five do not run at once on four");
    let (_, same) = planned(&mut wire, &configuration(0), &[spec(TOTAL_ISSUES)]).expect("a plan");
    assert_eq!(same[0].counter, Placement::FIXED, "the same instructions");
    let turns: Vec<u16> = places.iter().map(|place| place.slice).collect();
    assert_eq!(turns, [0, 0, 0, 0, 1]);
}

/// The first source is counted by one kind of processor only, on the counter that the third needs:
/// there the third waits for the second turn, elsewhere it runs in the first.
#[test]
fn a_source_waits_only_on_the_kind_that_lacks_a_counter_for_it() {
    let on = |counter: u32, raw, kinds| Spec {
        counters: 1 << counter,
        cpu_types: kinds,
        ..Spec::of_raw(raw)
    };
    let specs = [on(0, 0xC4, 0b01), on(1, 0xC5, 0), on(0, 0x2E, 0)];
    let mut wire = Wire::new("hybrid", 12);
    let (plan, places) = planned(&mut wire, &configuration(0), &specs).expect("a plan");
    assert_eq!((plan.cpu_types, plan.sources), (2, 3));
    let turns = |places: &[Placement]| places.iter().map(|place| place.slice).collect::<Vec<_>>();
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
        planned(&mut wire, &configuration(0), &[spec]).map(|(_, places)| places[0].counter)
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
        let (plan, _) = planned(&mut wire, &configuration(0), &specs).expect("a plan");
        assert_eq!(plan.fits, fits, "{filters:?}");
    }
}

#[test]
fn a_plan_is_of_the_processors_that_are_asked_for() {
    // Processors 0 to 3 have fixed counter 3 (leaf 0x23.1 EBX 0Fh), 4 to 11 do not (77h).
    let only_performance = FIXED + 3;
    let specs = [spec(TOTAL_ISSUES), spec(only_performance)];
    let on = |processors: u64| {
        let mut head = configuration(0);
        head.processors[0] = processors;
        head
    };
    let mut wire = Wire::new("hybrid", 12);
    for (processors, fits) in [(0, 0), (1, 1), (0b1111, 1), (0b1_0001, 0)] {
        let (plan, places) = planned(&mut wire, &on(processors), &specs).expect("a plan");
        assert_eq!((plan.fits, plan.cpu_types, plan.sources), (fits, 2, 2));
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
    let refusal = planned(&mut wire, &configuration(0), &grouped(5)).err();
    assert_eq!(refusal, Some((ErrorCode::DoesNotFit, RAW, 0)));
    // Ten general counters on processors 0 to 3, eight on 4 to 11.
    let nine = grouped(9);
    let mut wire = Wire::new("hybrid", 12);
    let refusal = planned(&mut wire, &configuration(0), &nine).err();
    assert_eq!(refusal, Some((ErrorCode::DoesNotFit, RAW, 4)));
    let mut on_performance = configuration(0);
    on_performance.processors[0] = 0b1111;
    let (plan, places) = planned(&mut wire, &on_performance, &nine).expect("a plan");
    assert_eq!(plan.fits, 1);
    let errors = |places: &[Placement]| places.iter().map(|place| place.error).collect::<Vec<_>>();
    assert_eq!(errors(&places[..9]), [0; 9]);
    let unused = ErrorCode::DoesNotFit as u32;
    assert_eq!(errors(&places[9..]), [unused; 9], "never placed there");
}

/// Fixed counter 3 is on processors 0 to 3 alone.
#[test]
fn a_group_with_a_source_that_one_kind_does_not_count_is_refused_there() {
    let group = [TOTAL_ISSUES, FIXED + 3].map(|source| Spec { group: 1, ..spec(source) });
    let mut wire = Wire::new("hybrid", 12);
    let refusal = planned(&mut wire, &configuration(0), &group).err();
    assert_eq!(refusal, Some((ErrorCode::DoesNotFit, FIXED + 3, 4)));
    let mut on_performance = configuration(0);
    on_performance.processors[0] = 0b1111;
    assert!(planned(&mut wire, &on_performance, &group).is_ok());
    // It hinders no group that it is not in; nor does one that only the other kind is to count.
    let [first, fixed] = [TOTAL_ISSUES, FIXED + 3].map(spec);
    let others = [0, 0b01].map(|cpu_types| Spec { cpu_types, ..Spec::of_raw(0xC5) });
    for second in others {
        let group = [first, second].map(|spec| Spec { group: 1, ..spec });
        let planned = planned(&mut wire, &configuration(0), &[group[0], group[1], fixed]);
        assert!(planned.is_ok(), "{second:?}");
    }
}

#[test]
fn each_kind_may_have_its_own_source_of_the_same_select() {
    let of = |cpu_types| Spec { cpu_types, ..Spec::of_raw(0xC4) };
    let mut wire = Wire::new("hybrid", 12);
    assert!(planned(&mut wire, &configuration(0), &[of(0b01), of(0b10)]).is_ok());
    let twice = planned(&mut wire, &configuration(0), &[of(0b11), of(0b10)]).err();
    assert_eq!(twice, Some((ErrorCode::SourceDuplicate, RAW, 0)));
}

#[test]
fn as_many_sources_as_there_may_be_are_planned() {
    let mut wire = Wire::new("skylake", 1);
    let (plan, _) = planned(&mut wire, &configuration(0), &raw_specs(256)).expect("a plan");
    assert_eq!(plan.sources, 256);
}

/// P6's ProfileAlignmentFixup counts references, not fixups (data/mapping.csv).
#[test]
fn plan_and_query_take_approximate_sources_where_asked_to() {
    const ALIGNMENT_FIXUP: u32 = 1;
    let mut wire = Wire::new("pentium3", 1);
    let specs = [spec(ALIGNMENT_FIXUP)];
    for (flags, supported) in [(0, 0), (source::APPROXIMATE, 1)] {
        let refusal = planned(&mut wire, &configuration(flags), &specs).err();
        let refused = (ErrorCode::SourceApproximate, ALIGNMENT_FIXUP, 0);
        assert_eq!(refusal, (supported == 0).then_some(refused));
        let query = Query { header: header(flags), source: ALIGNMENT_FIXUP, session: 0 };
        let reply: Information = wire.send(source::QUERY, &bytes(&query, &[])).done();
        assert_eq!(reply.information.supported, supported);
    }
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
        let flags = by | UsedInterval::DRAWN;
        let expected =
            UsedInterval { source: TIME, flags, requested: 0, used: 10_000, events: 1_000_000 };
        assert_eq!(reply.elements::<Configured, UsedInterval>(), [expected]);
        let (plan, places) =
            planned(&mut wire, &configuration(SAMPLE), &[spec(TIME)]).expect("a plan");
        assert_eq!(plan.fits, 1);
        let reference = by == UsedInterval::BY_REFERENCE_CYCLES;
        let counter = places[0].counter;
        assert_eq!(counter == Placement::FIXED + 2, reference, "{model}");
        assert_eq!(counter < Placement::FIXED, !reference, "{model}");
    }
}
