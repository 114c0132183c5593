//! Can the bytes of a request do harm?

use halprof_tests::requests::{self, ALL_RIGHTS, configure, header, spec};
use halprof_tests::wire::{AMPLE, Wire, about, rows};
use shared_types::hal::HalProfileSourceInterval64;
use shared_types::request::session::{Configure, Configured, SetInterval, Spec, UsedInterval};
use shared_types::request::source::Query;
use shared_types::request::{Plain, RequestCode, counts, machine, samples, session, source};
use shared_types::{ErrorCode, NtStatus, ProfileSource, ReplyHeader, WIRE_VERSION};

const TOTAL_ISSUES: u32 = 2;
const TIME: u32 = 0;
const RAW: u32 = ProfileSource::RAW.0;

/// A right request for each code, its reply's right length, its known flags, and the offsets of its
/// reserved fields.
struct Case {
    request: Vec<u8>,
    flags: u32,
    reserved: &'static [usize],
}

/// The case of one code, about a session in the state that the code needs.
fn case(wire: &mut Wire, code: RequestCode) -> Case {
    let number = match code {
        session::STOP | counts::SNAPSHOT | samples::DRAIN | samples::STATISTICS => running(wire),
        session::START | session::CONFIGURE | session::SET_INTERVAL | session::CLOSE => {
            configured(wire)
        }
        _ => 0,
    };
    let header = header(0);
    let (request, flags, reserved): (_, _, &[usize]) = match code {
        machine::HELLO | machine::DESCRIBE => (requests::bytes(&Plain { header }, &[]), 0, &[12]),
        session::OPEN => (
            requests::bytes(&Plain { header }, &[]),
            session::KERNEL | source::APPROXIMATE,
            &[12],
        ),
        machine::PROCESSORS | machine::REGISTERS | source::ENUMERATE => {
            let request = machine::From {
                header,
                first: 0,
                reserved: 0,
            };
            let flags = if code == source::ENUMERATE {
                source::APPROXIMATE
            } else {
                0
            };
            (requests::bytes(&request, &[]), flags, &[12, 20])
        }
        source::QUERY => {
            let request = Query {
                header,
                source: TOTAL_ISSUES,
                session: 0,
            };
            (requests::bytes(&request, &[]), source::APPROXIMATE, &[12])
        }
        source::PLAN => (
            configure(0, 0, &[spec(TOTAL_ISSUES)]),
            source::APPROXIMATE | session::SAMPLE,
            &[12, 16],
        ),
        session::CONFIGURE => (
            configure(number, 0, &[spec(TOTAL_ISSUES)]),
            session::SAMPLE | session::NO_ADDRESS,
            &[12],
        ),
        session::SET_INTERVAL => (set_interval(number, TOTAL_ISSUES, 5000), 0, &[12, 20, 28]),
        _ => (about(number), 0, &[12, 20]),
    };
    Case {
        request,
        flags,
        reserved,
    }
}

fn configured(wire: &mut Wire) -> u32 {
    let number = wire.open();
    let request = configure(number, session::SAMPLE, &[spec(TOTAL_ISSUES)]);
    assert_eq!(wire.send(session::CONFIGURE, &request).refusal(), None);
    number
}

fn running(wire: &mut Wire) -> u32 {
    let number = configured(wire);
    assert_eq!(wire.about(session::START, number).refusal(), None);
    number
}

fn set_interval(session: u32, source: u32, interval: u64) -> Vec<u8> {
    let interval = HalProfileSourceInterval64 {
        source: source.cast_signed(),
        padding: 0,
        interval,
    };
    let request = SetInterval {
        header: header(0),
        session,
        reserved: 0,
        interval,
    };
    requests::bytes(&request, &[])
}

/// A machine for one code alone, with the code's right request.
fn machine_for(code: RequestCode) -> (Wire, Case) {
    let mut wire = Wire::new("skylake", 2);
    let case = case(&mut wire, code);
    (wire, case)
}

fn with_word(request: &[u8], at: usize, word: u32) -> Vec<u8> {
    let mut request = request.to_vec();
    request[at..at + 4].copy_from_slice(&word.to_le_bytes());
    request
}

#[test]
fn the_codes_are_what_winioctl_makes_of_their_parts() {
    const METHOD_BUFFERED: u32 = 0;
    for (place, &(code, name)) in RequestCode::ALL.iter().enumerate() {
        let access = match name {
            "hello" | "describe" | "processors" | "registers" | "enumerate" | "query" | "plan"
            | "snapshot" | "statistics" => 1,
            _ => 2,
        };
        let function = 0x800 + place as u32;
        let ctl_code = (0x22 << 16) | (access << 14) | (function << 2) | METHOD_BUFFERED;
        assert_eq!(code.0, ctl_code, "{name}");
        assert_eq!(
            code.access().map(|access| access as u32),
            Some(access),
            "{name}"
        );
    }
}

#[test]
fn every_right_request_is_answered() {
    for &(code, name) in RequestCode::ALL {
        let (mut wire, case) = machine_for(code);
        assert_eq!(wire.send(code, &case.request).refusal(), None, "{name}");
    }
}

#[test]
fn every_wrong_length_is_refused() {
    for &(code, name) in RequestCode::ALL {
        let (mut wire, case) = machine_for(code);
        let right = case.request.len();
        for length in (0..right + 9)
            .chain([4096, 1 << 16])
            .filter(|&length| length != right)
        {
            let mut request = case.request.clone();
            request.resize(length, 0);
            if length >= 4 {
                request[..4].copy_from_slice(&(length as u32).to_le_bytes());
            }
            let reply = wire.send(code, &request);
            if length < 16 {
                assert_eq!(
                    reply.status,
                    NtStatus::INFO_LENGTH_MISMATCH,
                    "{name} {length}"
                );
                assert!(reply.bytes.is_empty());
            } else {
                // Of a request with a list behind its head the head's length is asked for first.
                let asked = match code {
                    source::PLAN | session::CONFIGURE if length < size_of::<Configure>() => {
                        size_of::<Configure>()
                    }
                    _ => right,
                };
                assert_eq!(
                    reply.refusal(),
                    Some((ErrorCode::WrongSize, length as u32, asked as u64)),
                    "{name} {length}"
                );
            }
        }
        assert_eq!(
            wire.send(code, &case.request).refusal(),
            None,
            "{name}: nothing was done"
        );
    }
}

#[test]
fn a_header_that_lies_about_its_length_is_refused() {
    for &(code, name) in RequestCode::ALL {
        let (mut wire, case) = machine_for(code);
        let right = case.request.len() as u32;
        for size in [
            0,
            1,
            15,
            16,
            23,
            right - 1,
            right + 1,
            right * 2,
            0x8000_0000,
            u32::MAX,
        ]
        .into_iter()
        .filter(|&size| size != right)
        {
            let reply = wire.send(code, &with_word(&case.request, 0, size));
            let refusal = Some((ErrorCode::WrongSize, size, right.into()));
            assert_eq!(reply.refusal(), refusal, "{name} {size}");
        }
    }
}

#[test]
fn another_version_is_refused_with_both_named_whatever_its_length() {
    for &(code, name) in RequestCode::ALL {
        let (mut wire, case) = machine_for(code);
        for version in [0, 2, u32::MAX] {
            let mut request = with_word(&case.request, 4, version);
            for longer in [0, 8] {
                request.resize(case.request.len() + longer, 0xFF);
                let reply = wire.send(code, &request);
                assert_eq!(
                    reply.refusal(),
                    Some((ErrorCode::VersionMismatch, version, WIRE_VERSION.into())),
                    "{name} {version}"
                );
            }
        }
    }
}

#[test]
fn every_unknown_flag_is_refused() {
    for &(code, name) in RequestCode::ALL {
        let (mut wire, case) = machine_for(code);
        for flag in (0..32)
            .map(|bit| 1 << bit)
            .filter(|flag| flag & case.flags == 0)
        {
            let reply = wire.send(code, &with_word(&case.request, 8, flag | case.flags));
            let refusal = Some((ErrorCode::UnknownFlags, flag, case.flags.into()));
            assert_eq!(reply.refusal(), refusal, "{name} {flag:#x}");
        }
    }
}

#[test]
fn every_reserved_field_must_be_zero() {
    for &(code, name) in RequestCode::ALL {
        let (mut wire, case) = machine_for(code);
        for &at in case.reserved {
            for value in [1, 0x8000_0000, u32::MAX] {
                let reply = wire.send(code, &with_word(&case.request, at, value));
                let refusal = Some((ErrorCode::ReservedNotZero, at as u32, value.into()));
                assert_eq!(reply.refusal(), refusal, "{name} at {at}");
            }
        }
    }
}

#[test]
fn a_reply_that_does_not_fit_says_what_it_needs_and_then_works() {
    for &(code, name) in RequestCode::ALL {
        let needed = needed(code);
        for room in (0..needed).rev() {
            let (mut wire, case) = machine_for(code);
            let reply = wire.send_by(wire.handle, code, &case.request, room);
            if room < size_of::<ReplyHeader>() {
                assert_eq!(reply.status, NtStatus::BUFFER_TOO_SMALL, "{name} {room}");
                assert!(reply.bytes.is_empty());
            } else if code == session::STOP {
                assert_eq!(reply.refusal(), None, "STOP stops");
                assert!(!wire.model.is_counting());
                continue;
            } else {
                let refusal = Some((ErrorCode::ReplyTooSmall, room as u32, needed as u64));
                assert_eq!(reply.refusal(), refusal, "{name} {room}");
            }
            let again = wire.send_by(wire.handle, code, &case.request, needed);
            assert_eq!(again.refusal(), None, "{name}: {room}, then {needed}");
        }
    }
}

/// The least room that a code's right request needs, from the shapes on the wire.
#[expect(clippy::match_same_arms, reason = "each line is one reply's shape")]
fn needed(code: RequestCode) -> usize {
    let header = size_of::<ReplyHeader>();
    match code {
        machine::HELLO => 128,
        machine::DESCRIBE => 96,
        machine::PROCESSORS => 32 + 64,
        source::ENUMERATE => 32 + 512,
        source::QUERY => 64,
        source::PLAN => 40 + 8,
        session::OPEN => 32,
        session::CONFIGURE => 40 + 32,
        session::SET_INTERVAL => 56,
        session::STOP | counts::SNAPSHOT => 32 + 2 * 80,
        samples::DRAIN => 40 + 40,
        samples::STATISTICS => 24 + 8 * 9,
        // As many registers as the processor has: all of them, or none.
        machine::REGISTERS => {
            let (mut wire, case) = machine_for(code);
            wire.send(code, &case.request).bytes.len()
        }
        _ => header,
    }
}

#[test]
fn unknown_codes_are_no_requests() {
    let mut wire = Wire::new("skylake", 1);
    let known = |code: u32| RequestCode::ALL.iter().any(|(known, _)| known.0 == code);
    let neighbours = RequestCode::ALL
        .iter()
        .flat_map(|(code, _)| (0..32).map(move |bit| code.0 ^ 1 << bit));
    for code in neighbours
        .chain([0, 1, 0x22_0000, u32::MAX])
        .filter(|&code| !known(code))
    {
        let reply = wire.send(RequestCode(code), &about(0));
        assert_eq!(reply.status, NtStatus::INVALID_DEVICE_REQUEST, "{code:#x}");
        assert!(reply.bytes.is_empty());
    }
}

#[test]
fn a_handle_does_only_what_it_was_opened_for() {
    for &(code, name) in RequestCode::ALL {
        for &right in ALL_RIGHTS {
            let mut wire = Wire::new("skylake", 1);
            let handle = wire.with_right(right);
            let case = case(&mut wire, code);
            let status = wire.send_by(handle, code, &case.request, AMPLE).status;
            let granted = code.0 >> 14 & 3 == right as u32;
            let expected = if granted {
                NtStatus::SUCCESS
            } else {
                NtStatus::ACCESS_DENIED
            };
            assert_eq!(status, expected, "{name} with {right:?}");
        }
        let mut wire = Wire::new("skylake", 1);
        let handle = wire.model.open(1, &[]);
        let status = wire.send_by(handle, code, &about(0), AMPLE).status;
        assert_eq!(status, NtStatus::ACCESS_DENIED, "{name} without any right");
    }
}

mod defects_seen_elsewhere {
    //! The nine defect classes of a published driver for performance counters.

    use super::*;

    #[test]
    fn a_no_request_indexes_a_table_by_an_unchecked_number() {
        let mut wire = Wire::new("skylake", 2);
        let mine = running(&mut wire);
        for number in (0..32)
            .flat_map(|bit| [1 << bit, !(1u32 << bit)])
            .chain([0, u32::MAX])
        {
            let first = machine::From {
                header: header(0),
                first: number,
                reserved: 0,
            };
            let first = requests::bytes(&first, &[]);
            for code in [machine::REGISTERS, machine::PROCESSORS] {
                let reply = wire.send(code, &first);
                if let Some(refusal) = reply.refusal() {
                    assert!(number > 1, "{number}");
                    assert_eq!(refusal, (ErrorCode::ProcessorUnknown, number, 2));
                }
            }
            for &(code, name) in RequestCode::ALL {
                if let session::STOP
                | session::CLOSE
                | session::START
                | counts::SNAPSHOT
                | samples::DRAIN
                | samples::STATISTICS = code
                    && number != mine
                {
                    let refusal = Some((ErrorCode::UnknownSession, number, 0));
                    assert_eq!(
                        wire.about(code, number).refusal(),
                        refusal,
                        "{name} {number}"
                    );
                }
            }
        }
    }

    #[test]
    fn b_a_processor_beyond_those_that_are_there_is_refused() {
        let mut wire = Wire::new("skylake", 2);
        for processor in [2, 3, 63, 64, 127, 128, 2047] {
            let request = on_processor(wire.open(), processor);
            let reply = wire.send(session::CONFIGURE, &request);
            let refusal = Some((ErrorCode::ProcessorUnknown, processor, 2));
            assert_eq!(reply.refusal(), refusal);
            wire = Wire::new("skylake", 2);
        }
    }

    #[test]
    fn c_no_field_is_read_before_the_length_allows_it() {
        let mut wire = Wire::new("skylake", 1);
        for &(code, name) in RequestCode::ALL {
            for length in 0..16 {
                let reply = wire.send(code, &vec![0xFF; length]);
                assert_eq!(
                    reply.status,
                    NtStatus::INFO_LENGTH_MISMATCH,
                    "{name} {length}"
                );
            }
        }
    }

    #[test]
    fn d_nothing_is_written_where_there_is_no_room() {
        for &(code, name) in RequestCode::ALL {
            let (mut wire, case) = machine_for(code);
            let (was, rings) = (wire.model.is_counting(), wire.machine().ring_bytes);
            for room in 0..size_of::<ReplyHeader>() {
                let reply = wire.send_by(wire.handle, code, &case.request, room);
                assert_eq!(reply.status, NtStatus::BUFFER_TOO_SMALL, "{name}");
            }
            assert_eq!(wire.model.is_counting(), was, "{name} did something");
            assert_eq!(wire.machine().ring_bytes, rings, "{name} did something");
        }
    }

    #[test]
    fn e_counts_of_elements_do_not_wrap_a_length() {
        let mut wire = Wire::new("skylake", 1);
        let number = wire.open();
        let request = configure(number, 0, &[spec(TOTAL_ISSUES)]);
        // Times 24 each of them wraps 32 bits, some to a length that would be right.
        for sources in [0x0AAA_AAAB, 0x1555_5556, 0x2000_0001, 0x8000_0001, u32::MAX] {
            let reply = wire.send(session::CONFIGURE, &with_word(&request, 20, sources));
            assert_eq!(
                reply.error(),
                Some(ErrorCode::TooManySources),
                "{sources:#x}"
            );
        }
        let reply = wire.send(session::CONFIGURE, &with_word(&request, 20, 2));
        assert_eq!(reply.refusal(), Some((ErrorCode::WrongSize, 312, 336)));
    }

    #[test]
    fn f_no_request_makes_a_register_number_or_an_address_of_its_bytes() {
        let mut wire = Wire::new("skylake", 1);
        let index = machine::From {
            header: header(0),
            first: 0,
            reserved: 0,
        };
        let shown = wire.send(machine::REGISTERS, &requests::bytes(&index, &[]));
        let shown: Vec<machine::Register> = shown.elements::<machine::Page, _>();
        assert!(shown.len() > 10);
        for register in shown {
            let pmu = [
                0xC1..=0xC8,
                0x186..=0x18D,
                0x309..=0x30C,
                0x38D..=0x390,
                0x1B..=0x1B,
            ];
            let apic = 0xFFFF_0000 | 0x340;
            let number = register.number;
            let is_pmu = pmu.iter().any(|range| range.contains(&number)) || number == 0x834;
            assert!(is_pmu || number == apic, "{number:#x}");
        }
        // IA32_LSTAR, IA32_SYSENTER_EIP and a physical address, wherever a number is asked for.
        for number in [0xC000_0082, 0x176, 0xFEE0_0000] {
            let request = machine::From {
                header: header(0),
                first: number,
                reserved: 0,
            };
            let reply = wire.send(machine::REGISTERS, &requests::bytes(&request, &[]));
            assert_eq!(
                reply.refusal(),
                Some((ErrorCode::ProcessorUnknown, number, 1))
            );
        }
    }

    #[test]
    fn g_a_closed_handle_leaves_neither_lock_nor_counters() {
        let mut wire = Wire::new("skylake", 2);
        running(&mut wire);
        let other = wire.other(5);
        wire.model.close(wire.handle);
        assert!(!wire.model.is_counting());
        wire.handle = other;
        assert_eq!(wire.machine().holder_session, 0);
        running(&mut wire);
    }

    #[test]
    fn h_what_one_client_sets_is_no_other_clients() {
        let mut wire = Wire::new("skylake", 1);
        let (mine, other) = (configured(&mut wire), wire.other(5));
        let set = wire.send(
            session::SET_INTERVAL,
            &set_interval(mine, TOTAL_ISSUES, 9999),
        );
        assert_eq!(set.refusal(), None);
        let theirs = wire.open_by(other);
        let request = configure(theirs, 0, &[spec(TOTAL_ISSUES)]);
        let reply = wire.send_by(other, session::CONFIGURE, &request, AMPLE);
        let intervals: Vec<UsedInterval> = reply.elements::<Configured, _>();
        assert_eq!(intervals[0].used, 65536);
    }

    #[test]
    fn i_the_counters_are_held_only_while_a_session_runs() {
        let mut wire = Wire::new("skylake", 1);
        let number = configured(&mut wire);
        assert_eq!(wire.machine().holder_session, 0, "configured");
        assert_eq!(wire.about(session::START, number).refusal(), None);
        assert_eq!(wire.machine().holder_session, number, "running");
        assert_eq!(wire.about(session::STOP, number).refusal(), None);
        assert_eq!(wire.machine().holder_session, 0, "stopped");
    }
}

fn on_processor(session: u32, processor: u32) -> Vec<u8> {
    let mut processors = [0; 32];
    processors[processor as usize / 64] = 1u64 << (processor % 64);
    let head = Configure {
        header: header(0),
        session,
        sources: 1,
        rotation: 0,
        ring_samples: 0,
        processors,
    };
    requests::bytes(&head, &[spec(TOTAL_ISSUES)])
}

/// What CONFIGURE refuses: the machine, OPEN's flags, the specs, the refusal.
type Refused = (&'static str, u32, Vec<Spec>, (ErrorCode, u32));

fn refused_configurations() -> Vec<Refused> {
    use ErrorCode as E;
    let all = session::KERNEL | source::APPROXIMATE;
    let filtered = |source, filter| Spec {
        filter,
        ..spec(source)
    };
    let many = |count: u64| {
        let raw = |raw| Spec { raw, ..spec(RAW) };
        (0..count).map(raw).collect::<Vec<_>>()
    };
    vec![
        ("skylake", all, vec![], (E::NoSources, 0)),
        ("skylake", all, many(257), (E::TooManySources, 257)),
        ("skylake", all, vec![spec(0xFFF)], (E::SourceUnknown, 0xFFF)),
        (
            "skylake",
            all,
            vec![spec(u32::MAX)],
            (E::SourceUnknown, u32::MAX),
        ),
        (
            "pentium",
            all,
            vec![spec(0x13)],
            (E::SourceNotSupported, 0x13),
        ),
        (
            "pentium3",
            session::KERNEL,
            vec![spec(approximate())],
            (E::SourceApproximate, approximate()),
        ),
        (
            "skylake",
            all,
            vec![spec(2), spec(2)],
            (E::SourceDuplicate, 2),
        ),
        (
            "k8",
            all,
            vec![spec(northbridge())],
            (E::SourceNotSupported, northbridge()),
        ),
        ("skylake", all, vec![filtered(2, 0)], (E::BadFilter, 2)),
        ("skylake", all, vec![filtered(2, 4)], (E::BadFilter, 2)),
        ("skylake", all, vec![filtered(2, 7)], (E::BadFilter, 2)),
        ("skylake", 0, vec![spec(2)], (E::KernelNotGranted, 2)),
        (
            "skylake",
            0,
            vec![filtered(2, Spec::KERNEL)],
            (E::KernelNotGranted, 2),
        ),
        (
            "skylake",
            all,
            vec![Spec { raw: 1, ..spec(2) }],
            (E::BadValue, 16),
        ),
        ("hyperv-masked", all, vec![spec(2)], (E::SourceUnknown, 2)),
        (
            "hyperv-masked",
            all,
            vec![spec(RAW)],
            (E::SourceNotSupported, RAW),
        ),
    ]
}

/// P6's ProfileAlignmentFixup counts references, not fixups (data/mapping.csv).
fn approximate() -> u32 {
    row("P6", |row| row["fit"] == "approx")
}

/// A source of the HAL's own table whose event is the northbridge's (data/amd64-sources.csv).
fn northbridge() -> u32 {
    let event =
        |row: &halprof_tests::facts::Record| halprof_tests::facts::number(&row["event"]) >= 0xE0;
    let rows = halprof_tests::data!("amd64-sources");
    let row = rows.iter().find(|row| event(row));
    halprof_tests::facts::id(&row.expect("a row")["value"]).0
}

fn row(family: &str, which: impl Fn(&halprof_tests::facts::Record) -> bool) -> u32 {
    let rows = halprof_tests::data!("mapping");
    let row = rows
        .iter()
        .find(|row| row["family"] == family && which(row));
    halprof_tests::facts::id(&row.expect("a row")["source"]).0
}

fn open_with(wire: &mut Wire, flags: u32) -> u32 {
    let request = requests::bytes(
        &Plain {
            header: header(flags),
        },
        &[],
    );
    wire.send(session::OPEN, &request)
        .done::<session::Opened>()
        .session
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
        assert_eq!(
            start.error(),
            Some(ErrorCode::NotConfigured),
            "{model} {specs:?}"
        );
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
        assert_eq!(
            (counts[0].len(), counts[0][0].counted),
            (1, 54321),
            "{model} {specs:?}"
        );
    }
}

/// The bits that a raw select may have, by family (hal-profile's rule 1 and 2: INT, EN, ANY, pin
/// control and reserved bits are refused).
const RAW_LAYOUTS: &[(&str, u64)] = &[
    ("skylake", 0xFF87_FFFF),
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
        for bit in (0..64)
            .map(|bit| 1u64 << bit)
            .filter(|bit| bit & allowed == 0)
        {
            let spec = Spec {
                raw: bit | 0x01,
                ..spec(RAW)
            };
            let reply = wire.send(session::CONFIGURE, &configure(number, 0, &[spec]));
            assert_eq!(
                reply.refusal(),
                Some((ErrorCode::RawRefused, RAW, bit)),
                "{model}"
            );
        }
    }
}

#[test]
fn each_bit_of_a_netburst_raw_select_that_a_user_may_not_set_is_refused() {
    // instr_retired, NBOGUSNTAG and NBOGUSTAG, through the IQ group's ESCR select 4.
    const INSTR_RETIRED: u64 = (3 | 4 << 13) << 32 | 0x0400_0600;
    // ESCR: tag enable and value, T1's filter, reserved. CCCR: enable, ACTIVE_THREAD, FORCE_OVF,
    // OVF_PMI_T0 and T1, CASCADE, OVF, reserved.
    const REFUSED: u64 = 0xFE03_1FFC << 32 | 0x8000_01F3;
    let mut wire = Wire::new("pentium4", 1);
    let number = wire.open();
    let mut send = |raw| {
        let spec = Spec { raw, ..spec(RAW) };
        wire.send(session::CONFIGURE, &configure(number, 0, &[spec]))
    };
    assert_eq!(send(INSTR_RETIRED).refusal(), None);
    for bit in (0..64)
        .map(|bit| 1u64 << bit)
        .filter(|bit| bit & REFUSED != 0)
    {
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
        let own = [USER, KERNEL]
            .iter()
            .enumerate()
            .filter(|(place, _)| bits >> place & 1 != 0);
        let (raw, own) = own.fold((0xC0, 0), |(raw, own), (_, (bit, mode))| {
            (raw | bit, own | mode)
        });
        for filter in 1..4 {
            let spec = Spec {
                raw,
                filter,
                ..spec(RAW)
            };
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
        let spec = Spec {
            interval: requested,
            ..spec(source)
        };
        let by_configure = wire.configure(number, &[spec])[0];
        let reply = wire.send(
            session::SET_INTERVAL,
            &set_interval(number, source, requested),
        );
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
