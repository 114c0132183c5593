//! Which configurations are refused, and what state is left then?

use halprof_tests::cases::{TOTAL_ISSUES, on_processor, set_interval};
use halprof_tests::requests::{self, configure, header, spec};
use halprof_tests::wire::{Wire, leaves, rows};
use shared_types::request::session::{Spec, UsedInterval};
use shared_types::request::{Plain, session, source};
use shared_types::{ErrorCode, ProfileSource};

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
        let no_room = wire.send_by(wire.handle, session::CONFIGURE, &no_room, 71);
        assert_eq!(no_room.error(), Some(ErrorCode::ReplyTooSmall));
        assert_eq!(wire.about(session::START, number).refusal(), None);
        wire.work("instructions=54321,cycles=70000");
        let counts = rows(&wire.about(session::STOP, number));
        assert_eq!((counts[0].len(), counts[0][0].counted), (1, 54321), "{model} {specs:?}");
    }
}

/// The bits that a raw select may have, by family (hal-profile's rules 1 and 2: INT, EN, pin
/// control and reserved bits are refused); any-thread exists on versions 3 and 4.
const RAW_LAYOUTS: &[(&str, u64)] = &[
    ("skylake", 0xFFA7_FFFF),
    ("pentium3", 0xFF87_FFFF),
    ("k8", 0xFF87_FFFF),
    ("fam10h", 0xF_FF87_FFFF),
    ("bulldozer", 0xF_FF87_FFFF),
    ("zen2", 0xF_FF87_FFFF),
    ("zen4", 0xF_FF87_FFFF),
    ("pentium", 0x3_013F),
];

#[test]
fn each_bit_of_a_raw_select_that_a_user_may_not_set_is_refused() {
    for &(model, allowed) in RAW_LAYOUTS {
        let mut wire = Wire::new(model, 1);
        let number = wire.open();
        for bit in (0..64).map(|bit| 1u64 << bit).filter(|bit| bit & allowed == 0) {
            let spec = Spec { raw: bit | 0x01, ..spec(RAW) };
            let reply = wire.send(session::CONFIGURE, &configure(number, 0, &[spec]));
            assert_eq!(reply.refusal(), Some((ErrorCode::RawRefused, RAW, bit)), "{model}");
        }
    }
}

#[test]
fn each_bit_of_a_netburst_raw_select_that_a_user_may_not_set_is_refused() {
    // instr_retired, NBOGUSNTAG and NBOGUSTAG, through the IQ group's ESCR select 4.
    const INSTR_RETIRED: u64 = (3 | 4 << 13) << 32 | 0x0400_0600;
    // ESCR: tag enable and value, T1's filter, reserved bits. CCCR: enable, ACTIVE_THREAD,
    // FORCE_OVF, OVF_PMI_T0 and T1, CASCADE, OVF, reserved bits.
    const REFUSED: u64 = 0xFE03_1FFC << 32 | 0x8000_01F3;
    let mut wire = Wire::new("pentium4", 1);
    let number = wire.open();
    let mut send = |raw| {
        let spec = Spec { raw, ..spec(RAW) };
        wire.send(session::CONFIGURE, &configure(number, 0, &[spec]))
    };
    assert_eq!(send(INSTR_RETIRED).refusal(), None);
    for bit in (0..64).map(|bit| 1u64 << bit).filter(|bit| bit & REFUSED != 0) {
        let refusal = send(INSTR_RETIRED | bit).refusal();
        assert_eq!(refusal, Some((ErrorCode::RawRefused, RAW, bit)), "{bit:#x}");
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
fn an_interval_outside_its_limits_is_clamped_and_told() {
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
    let mut wire = Wire::on(sim::machine::Model::new(&[hybrid[0].clone(), plain]));
    let number = wire.open();
    for (kinds, refusal) in [(0b01, None), (0b10, Some((ErrorCode::RawRefused, RAW, UNIT_MASK_2)))]
    {
        let raw = Spec { kinds, ..Spec::of_raw(0xC4 | UNIT_MASK_2) };
        let request = configure(number, 0, &[raw]);
        let reply = wire.send(session::CONFIGURE, &request);
        assert_eq!(reply.refusal(), refusal, "{kinds:#b}");
    }
}
