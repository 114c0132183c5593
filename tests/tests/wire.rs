//! Can the bytes of a request do harm?

use halprof_tests::cases::{case, machine_for, with_word};
use halprof_tests::requests::ALL_RIGHTS;
use halprof_tests::wire::{AMPLE, Wire, about};
use shared_types::request::session::Configure;
use shared_types::request::{
    RequestCode, counts, events, machine, rdpmc, samples, session, source, threads,
};
use shared_types::{ErrorCode, NtStatus, ReplyHeader, WIRE_VERSION};

#[test]
fn the_codes_are_what_winioctl_makes_of_their_parts() {
    const METHOD_BUFFERED: u32 = 0;
    for (place, &(code, name)) in RequestCode::ALL.iter().enumerate() {
        let access = match name {
            "hello" | "describe" | "processors" | "registers" | "enumerate" | "query" | "plan"
            | "snapshot" | "statistics" | "rdpmc-status" | "threads" => 1,
            _ => 2,
        };
        let function = 0x800 + place as u32;
        let ctl_code = (0x22 << 16) | (access << 14) | (function << 2) | METHOD_BUFFERED;
        assert_eq!(code.0, ctl_code, "{name}");
        assert_eq!(code.access().map(|access| access as u32), Some(access), "{name}");
    }
}

#[test]
fn every_wrong_length_is_refused() {
    for &(code, name) in RequestCode::ALL {
        let (mut wire, case) = machine_for(code);
        let right = case.request.len();
        for length in (0..right + 9).chain([4096, 1 << 16]).filter(|&length| length != right) {
            let mut request = case.request.clone();
            request.resize(length, 0);
            if length >= 4 {
                request[..4].copy_from_slice(&(length as u32).to_le_bytes());
            }
            let reply = wire.send(code, &request);
            if length < 16 {
                assert_eq!(reply.status, NtStatus::INFO_LENGTH_MISMATCH, "{name} {length}");
                assert!(reply.bytes.is_empty());
            } else {
                // For a request with a list after its head, the head's length is checked first.
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
        assert_eq!(wire.send(code, &case.request).refusal(), None, "{name}: nothing was done");
    }
}

#[test]
fn a_header_that_lies_about_its_length_is_refused() {
    for &(code, name) in RequestCode::ALL {
        let (mut wire, case) = machine_for(code);
        let right = case.request.len() as u32;
        for size in [0, 1, 15, 16, 23, right - 1, right + 1, right * 2, 0x8000_0000, u32::MAX]
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
        for version in [0, 1, WIRE_VERSION - 1, WIRE_VERSION + 1, u32::MAX] {
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
        for flag in (0..32).map(|bit| 1 << bit).filter(|flag| flag & case.flags == 0) {
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
            let reply = wire.send_with_room(code, &case.request, room);
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
            let again = wire.send_with_room(code, &case.request, needed);
            assert_eq!(again.refusal(), None, "{name}: {room}, then {needed}");
        }
    }
}

/// The smallest reply buffer that a code's valid request needs, from the structures on the wire.
fn needed(code: RequestCode) -> usize {
    let header = size_of::<ReplyHeader>();
    match code {
        machine::DESCRIBE => 104,
        machine::HELLO => 128,
        machine::PROCESSORS => 32 + 104,
        source::PLAN => 40 + 8,
        session::OPEN => 32,
        // The head of a page and a source of 40; a head of 40 and an interval of 32.
        source::ENUMERATE | session::CONFIGURE => 72,
        // The latter: a head of 40, and 16 per counter.
        session::SET_INTERVAL | threads::THREADS => 56,
        session::STOP | counts::SNAPSHOT => 80 + 2 * 80,
        samples::DRAIN => 48 + 40,
        events::DRAIN_EVENTS => 48 + 32,
        samples::STATISTICS => 24 + 8 * 16 + 32,
        source::QUERY | rdpmc::ALLOW | rdpmc::RELEASE | rdpmc::STATUS => 40,
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
    let neighbours =
        RequestCode::ALL.iter().flat_map(|(code, _)| (0..32).map(move |bit| code.0 ^ 1 << bit));
    for code in neighbours.chain([0, 1, 0x22_0000, u32::MAX]).filter(|&code| !known(code)) {
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
            let handle = wire.model.open(1, &[right]);
            let case = case(&mut wire, code);
            let status = wire.send_by(&handle, code, &case.request, AMPLE).status;
            let granted = code.0 >> 14 & 3 == right as u32;
            let expected = if granted { NtStatus::SUCCESS } else { NtStatus::ACCESS_DENIED };
            assert_eq!(status, expected, "{name} with {right:?}");
        }
        let mut wire = Wire::new("skylake", 1);
        let handle = wire.model.open(1, &[]);
        let status = wire.send_by(&handle, code, &about(0), AMPLE).status;
        assert_eq!(status, NtStatus::ACCESS_DENIED, "{name} without any right");
    }
}
