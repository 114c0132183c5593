//! Which configurations are refused, with what state left then, and what is used where one leaves
//! something open or asks for too much?

use hal_profile::run::ring::words_for;
use hal_profile::service::About;
use halprof_tests::cases::{TOTAL_ISSUES, on_processor, set_interval};
use halprof_tests::requests::{self, configuration, configure, header, spec};
use halprof_tests::stepped::Stepped;
use halprof_tests::wire::{AMPLE, Wire, leaves, rows};
use shared_types::request::session::{Configure, Configured, SAMPLE, Spec, UsedInterval};
use shared_types::request::source::{Information, Query};
use shared_types::request::{Plain, session, source};
use shared_types::{ErrorCode, ProfileSource};
use sim::machine::Model;

const TIME: u32 = 0;
const RAW: u32 = ProfileSource::RAW.0;

/// What CONFIGURE refuses: the machine, OPEN's flags, the specs, the refusal.
type Refused = (&'static str, u32, Vec<Spec>, (ErrorCode, u32));

fn refused_configurations() -> Vec<Refused> {
    use ErrorCode as E;
    let all = session::KERNEL | source::APPROXIMATE;
    let filtered = |source, filter| Spec { filter, ..spec(source) };
    let many = |count: u64| {
        let raw = |raw| Spec { raw, ..spec(RAW) };
        (0..count).map(raw).collect::<Vec<_>>()
    };
    vec![
        ("skylake", all, vec![], (E::NoSources, 0)),
        ("skylake", all, many(257), (E::TooManySources, 257)),
        ("skylake", all, vec![spec(0xFFF)], (E::SourceUnknown, 0xFFF)),
        ("skylake", all, vec![spec(u32::MAX)], (E::SourceUnknown, u32::MAX)),
        ("pentium", all, vec![spec(0x13)], (E::SourceNotSupported, 0x13)),
        (
            "pentium3",
            session::KERNEL,
            vec![spec(approximate())],
            (E::SourceApproximate, approximate()),
        ),
        ("skylake", all, vec![spec(2), spec(2)], (E::SourceDuplicate, 2)),
        ("k8", all, vec![spec(northbridge())], (E::SourceNotSupported, northbridge())),
        ("skylake", all, vec![filtered(2, 0)], (E::BadFilter, 2)),
        ("skylake", all, vec![filtered(2, 4)], (E::BadFilter, 2)),
        ("skylake", all, vec![filtered(2, 7)], (E::BadFilter, 2)),
        ("skylake", 0, vec![spec(2)], (E::KernelNotGranted, 2)),
        ("skylake", 0, vec![filtered(2, Spec::KERNEL)], (E::KernelNotGranted, 2)),
        ("skylake", all, vec![Spec { raw: 1, ..spec(2) }], (E::BadValue, 16)),
        ("hyperv-masked", all, vec![spec(2)], (E::SourceUnknown, 2)),
        ("hyperv-masked", all, vec![spec(RAW)], (E::SourceNotSupported, RAW)),
    ]
}

/// P6's ProfileAlignmentFixup counts references, not fixups (data/mapping.csv).
fn approximate() -> u32 {
    row("P6", |row| row["fit"] == "approx")
}

/// A source of the HAL's own table with a northbridge event (data/amd64-sources.csv).
fn northbridge() -> u32 {
    let event =
        |row: &halprof_tests::facts::Record| halprof_tests::facts::number(&row["event"]) >= 0xE0;
    let rows = halprof_tests::source_data!("amd64-sources");
    let row = rows.iter().find(|row| event(row));
    halprof_tests::facts::id(&row.expect("a row")["value"]).0
}

fn row(family: &str, which: impl Fn(&halprof_tests::facts::Record) -> bool) -> u32 {
    let rows = halprof_tests::source_data!("mapping");
    let row = rows.iter().find(|row| row["family"] == family && which(row));
    halprof_tests::facts::id(&row.expect("a row")["source"]).0
}

fn open_with(wire: &mut Wire, flags: u32) -> u32 {
    let request = requests::bytes(&Plain { header: header(flags) }, &[]);
    wire.send(session::OPEN, &request).done::<session::Opened>().session
}

#[test]
fn a_configuration_is_refused_for_each_cause_by_its_own_code() {
    for (model, flags, specs, (error, subject)) in refused_configurations() {
        let mut wire = Wire::new(model, 2);
        let number = open_with(&mut wire, flags);
        let reply = wire.send(session::CONFIGURE, &configure(number, 0, &specs));
        let refusal = reply.refusal().map(|(error, subject, _)| (error, subject));
        assert_eq!(refusal, Some((error, subject)), "{model} {specs:?}");
        let start = wire.about(session::START, number);
        assert_eq!(start.error(), Some(ErrorCode::NotConfigured), "{model} {specs:?}");
        assert_eq!(wire.model.faults(), []);
    }
}

#[test]
fn a_refused_configuration_leaves_the_earlier_one() {
    for (model, flags, specs, _) in refused_configurations() {
        if flags != session::KERNEL | source::APPROXIMATE || model == "hyperv-masked" {
            continue;
        }
        let mut wire = Wire::new(model, 1);
        let number = wire.open();
        wire.configure(number, &[spec(TOTAL_ISSUES)]);
        let reply = wire.send(session::CONFIGURE, &configure(number, 0, &specs));
        assert!(reply.refusal().is_some());
        let beyond = wire.send(session::CONFIGURE, &on_processor(number, 9));
        assert_eq!(beyond.error(), Some(ErrorCode::ProcessorUnknown));
        let no_room = configure(number, 0, &[spec(TIME)]);
        let no_room = wire.send_with_room(session::CONFIGURE, &no_room, 71);
        assert_eq!(no_room.error(), Some(ErrorCode::ReplyTooSmall));
        assert_eq!(wire.about(session::START, number).refusal(), None);
        wire.work("instructions=54321,cycles=70000");
        let counts = rows(&wire.about(session::STOP, number));
        assert_eq!((counts[0].len(), counts[0][0].counted), (1, 54321), "{model} {specs:?}");
    }
}

/// A raw select that is taken, and the bits that a user may not set, by family (hal-profile's rules 1
/// and 2: INT, EN, pin control and reserved bits are refused); any-thread exists on versions 3 and 4.
///
/// NetBurst's select is instr_retired, NBOGUSNTAG and NBOGUSTAG, through the IQ group's ESCR select 4.
/// ESCR: tag enable and value, T1's filter, reserved bits. CCCR: enable, ACTIVE_THREAD, FORCE_OVF,
/// OVF_PMI_T0 and T1, CASCADE, OVF, reserved bits.
const RAW_REFUSED: &[(&str, u64, u64)] = &[
    ("skylake", 0x01, !0xFFA7_FFFF),
    ("pentium3", 0x01, !0xFF87_FFFF),
    ("k8", 0x01, !0xFF87_FFFF),
    ("fam10h", 0x01, !0xF_FF87_FFFF),
    ("bulldozer", 0x01, !0xF_FF87_FFFF),
    ("zen2", 0x01, !0xF_FF87_FFFF),
    ("zen4", 0x01, !0xF_FF87_FFFF),
    ("pentium", 0x01, !0x3_013F),
    ("pentium4", (3 | 4 << 13) << 32 | 0x0400_0600, 0xFE03_1FFC << 32 | 0x8000_01F3),
];

#[test]
fn each_bit_of_a_raw_select_that_a_user_may_not_set_is_refused() {
    for &(model, taken, refused) in RAW_REFUSED {
        let mut wire = Wire::new(model, 1);
        let number = wire.open();
        for bit in (0..64).map(|bit| 1u64 << bit).filter(|bit| bit & refused != 0) {
            let spec = Spec { raw: taken | bit, ..spec(RAW) };
            let reply = wire.send(session::CONFIGURE, &configure(number, 0, &[spec]));
            let refusal = Some((ErrorCode::RawRefused, RAW, bit));
            assert_eq!(reply.refusal(), refusal, "{model} {bit:#x}");
        }
        let spec = Spec { raw: taken, ..spec(RAW) };
        let reply = wire.send(session::CONFIGURE, &configure(number, 0, &[spec]));
        assert_eq!(reply.refusal(), None, "{model}");
    }
}

#[test]
fn a_raw_selects_own_modes_are_its_filter_or_it_is_refused() {
    const USER: (u64, u16) = (1 << 16, Spec::USER);
    const KERNEL: (u64, u16) = (1 << 17, Spec::KERNEL);
    let mut wire = Wire::new("skylake", 1);
    let number = wire.open();
    for bits in 0..4 {
        let own = [USER, KERNEL].iter().enumerate().filter(|(place, _)| bits >> place & 1 != 0);
        let (raw, own) =
            own.fold((0xC0, 0), |(raw, own), (_, (bit, mode))| (raw | bit, own | mode));
        for filter in 1..4 {
            let spec = Spec { raw, filter, ..spec(RAW) };
            let reply = wire.send(session::CONFIGURE, &configure(number, 0, &[spec]));
            let agrees = own == 0 || own == filter;
            let refusal = (!agrees).then_some((ErrorCode::BadFilter, RAW));
            let got = reply.refusal().map(|(error, subject, _)| (error, subject));
            assert_eq!(got, refusal, "{raw:#x} with filter {filter}");
        }
    }
}

#[test]
fn an_interval_outside_its_limits_is_clamped_and_the_reply_says_so() {
    const MAX: u64 = (1 << 31) - 1;
    for (source, requested, used) in [
        (TOTAL_ISSUES, 0, 65536),
        (TOTAL_ISSUES, 1, 4096),
        (TOTAL_ISSUES, 4095, 4096),
        (TOTAL_ISSUES, 4096, 4096),
        (TOTAL_ISSUES, MAX, MAX),
        (TOTAL_ISSUES, MAX + 1, MAX),
        (TOTAL_ISSUES, u64::MAX, MAX),
        (TIME, 0, 10_000),
        (TIME, 1, 1221),
        (TIME, 1220, 1221),
        (TIME, 1221, 1221),
        (TIME, 1_000_000, 1_000_000),
        (TIME, 1_000_001, 1_000_000),
        (TIME, u64::MAX, 1_000_000),
    ] {
        let mut wire = Wire::new("skylake", 1);
        let number = wire.open();
        let spec = Spec { interval: requested, ..spec(source) };
        let by_configure = wire.configure(number, &[spec])[0];
        let reply = wire.send(session::SET_INTERVAL, &set_interval(number, source, requested));
        let by_request = reply.done::<session::IntervalSet>().interval;
        let clamped = requested != 0 && requested != used;
        let expected = UsedInterval {
            source,
            flags: if clamped { UsedInterval::CLAMPED } else { 0 },
            requested,
            used,
            events: used,
        };
        assert_eq!(by_configure, expected);
        assert_eq!(by_request, expected);
    }
}

/// Leaf 0x23.0 EBX 0 announces UMASK2, bits 47:40: on one kind of processor only. The select is
/// judged by the kind for which it was asked.
#[test]
fn a_raw_select_is_judged_by_the_kind_that_is_to_count_it() {
    const UNIT_MASK_2: u64 = 1 << 40;
    let hybrid = leaves("hybrid", 12);
    let mut plain = hybrid[4].clone();
    let mut leaf = plain.get(0x23, 0);
    leaf.ebx = 0;
    plain.insert_subleaf(0x23, 0, leaf);
    let mut wire = Wire::on(Model::new(&[hybrid[0].clone(), plain]));
    let number = wire.open();
    for (kinds, refusal) in [(0b01, None), (0b10, Some((ErrorCode::RawRefused, RAW, UNIT_MASK_2)))]
    {
        let raw = Spec { cpu_types: kinds, ..Spec::of_raw(0xC4 | UNIT_MASK_2) };
        let request = configure(number, 0, &[raw]);
        let reply = wire.send(session::CONFIGURE, &request);
        assert_eq!(reply.refusal(), refusal, "{kinds:#b}");
    }
}

/// A configuration of instructions, as far as it is not of its specs.
fn head(session: u32, flags: u32) -> Configure {
    Configure { session, sources: 1, ..configuration(flags) }
}

fn settle(wire: &mut Wire, head: &Configure) -> Configured {
    let request = requests::bytes(head, &[spec(TOTAL_ISSUES)]);
    wire.send(session::CONFIGURE, &request).done()
}

/// Bytes of this many rings for this many samples each.
fn ring_bytes(samples: u32, rings: u64) -> u64 {
    words_for(samples, 0) as u64 * 8 * rings
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
        let head = Configure { slice_100ns: rotation, ..head(number, 0) };
        assert_eq!(settle(&mut wire, &head).slice_100ns, used, "{rotation}");
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

/// A machine on which all rings together may have this many bytes.
fn with_ring_bytes(ring_bytes_max: u64) -> Stepped<Model> {
    let about = About { driver_name: "test", modelled: true, ring_bytes_max };
    Stepped::on(Model::with_about(&leaves("skylake", 2), about))
}

#[test]
fn the_cap_of_all_rings_may_be_reached_and_not_passed() {
    let right = ring_bytes(64, 2);
    for (cap, samples) in [(right + 1, 64), (right, 64), (right - 1, 32)] {
        let mut machine = with_ring_bytes(cap);
        let settled = machine.configure(SAMPLE, &[spec(TOTAL_ISSUES)], 0);
        assert_eq!(settled.ring_samples, samples, "{cap}");
        machine.start();
    }
    let mut machine = with_ring_bytes(100);
    let settled = machine.configure(SAMPLE, &[spec(TOTAL_ISSUES)], 0);
    assert_eq!(settled.ring_samples, 1, "a ring is never empty");
    let refused = machine.try_start().map(|(error, _, detail)| (error, detail));
    assert_eq!(refused, Some((ErrorCode::NoMemory, ring_bytes(1, 2))));
}

/// Rings grow with the size of their entries, and stay below the limit.
#[test]
fn rings_with_branches_stay_below_the_cap() {
    const CAP: u64 = 1 << 20;
    let user = Spec { filter: Spec::USER, ..spec(TOTAL_ISSUES) };
    for (branches, samples) in [(0_u8, 32_768), (8, 4096), (16, 4096), (32, 4096)] {
        let ring = |machine: &mut Stepped<Model>| {
            (machine.settings.branches, machine.settings.ring_samples) = (branches.into(), 0);
            machine.configure(SAMPLE, &[user], 0).ring_samples
        };
        assert_eq!(ring(&mut Stepped::new("skylake", 2)), samples);
        let mut machine = with_ring_bytes(CAP);
        let bytes = words_for(ring(&mut machine), branches) as u64 * 8 * 2;
        assert!(bytes <= CAP && 2 * bytes > CAP, "{branches}: {bytes}");
        machine.run(SAMPLE, &[user]);
    }
}

#[test]
fn one_session_is_enough_memory() {
    let leaves = leaves("skylake", 1);
    let mut wire = Wire::on(Model::with_sessions(&leaves, 1));
    let query = Query { header: header(0), source: TOTAL_ISSUES, session: 0 };
    let reply: Information = wire.send(source::QUERY, &requests::bytes(&query, &[])).done();
    assert_eq!(reply.information.supported, 1);
    let number = wire.run(spec(TOTAL_ISSUES), 0);
    let request = requests::bytes(&header(0), &[]);
    let second = wire.send_with_room(session::OPEN, &request, AMPLE);
    assert_eq!(second.refusal(), Some((ErrorCode::TooManySessions, 0, 1)));
    assert_eq!(wire.about(session::STOP, number).refusal(), None);
}
