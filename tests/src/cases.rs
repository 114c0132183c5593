//! One valid request for each code, for tests that then invalidate it.

use crate::requests::{self, configure, header, spec};
use crate::wire::{Wire, about};
use shared_types::hal::HalProfileSourceInterval;
use shared_types::request::session::SetInterval;
use shared_types::request::source::Query;
use shared_types::request::{
    Plain, RequestCode, counts, events, machine, rdpmc, samples, session, source, threads,
};

/// ProfileTotalIssues: instructions; every interface has it.
pub const TOTAL_ISSUES: u32 = 2;

/// A valid request of one code, its known flags, and the offsets of its reserved fields.
pub struct Case {
    /// The request's bytes.
    pub request: Vec<u8>,
    /// The flags that it may have.
    pub flags: u32,
    /// Offsets of the fields that must be 0.
    pub reserved: &'static [usize],
}

/// The case for one code, about a session in the state that the code needs.
#[must_use]
pub fn case(wire: &mut Wire, code: RequestCode) -> Case {
    let issues = spec(TOTAL_ISSUES);
    let number = match code {
        rdpmc::ALLOW | rdpmc::RELEASE => wire.open(),
        threads::THREADS => wire.configured(session::THREADS, &[issues]),
        events::DRAIN_EVENTS => wire.run(issues, session::EVENTS),
        session::STOP | counts::SNAPSHOT | samples::DRAIN | samples::STATISTICS => {
            wire.run(issues, session::SAMPLE)
        }
        session::START | session::CONFIGURE | session::SET_INTERVAL | session::CLOSE => {
            wire.configured(session::SAMPLE, &[issues])
        }
        _ => 0,
    };
    let header = header(0);
    let (request, flags, reserved): (_, _, &[usize]) = match code {
        machine::HELLO | machine::DESCRIBE | rdpmc::STATUS => {
            (requests::bytes(&Plain { header }, &[]), 0, &[12])
        }
        session::OPEN => {
            (requests::bytes(&Plain { header }, &[]), session::KERNEL | source::APPROXIMATE, &[12])
        }
        machine::PROCESSORS | machine::REGISTERS | source::ENUMERATE => {
            let request = machine::From { header, first: 0, reserved: 0 };
            let flags = if code == source::ENUMERATE { source::APPROXIMATE } else { 0 };
            (requests::bytes(&request, &[]), flags, &[12, 20])
        }
        source::QUERY => {
            let request = Query { header, source: TOTAL_ISSUES, session: 0 };
            (requests::bytes(&request, &[]), source::APPROXIMATE, &[12])
        }
        source::PLAN => (
            configure(0, 0, &[issues]),
            source::APPROXIMATE | session::SAMPLE | session::THREADS | session::EVENTS,
            &[12, 16],
        ),
        session::CONFIGURE => (
            configure(number, 0, &[issues]),
            session::SAMPLE | session::THREADS | session::EVENTS,
            &[12],
        ),
        session::SET_INTERVAL => (set_interval(number, TOTAL_ISSUES, 5000), 0, &[12, 20, 28]),
        // Where another code's reserved field is, it has the index of the page's first processor.
        counts::SNAPSHOT => (about(number), 0, &[12]),
        _ => (about(number), 0, &[12, 20]),
    };
    Case { request, flags, reserved }
}

/// A request to set an interval.
#[must_use]
pub fn set_interval(session: u32, source: u32, interval: u64) -> Vec<u8> {
    let interval = HalProfileSourceInterval { source: source.cast_signed(), padding: 0, interval };
    let request = SetInterval { header: header(0), session, reserved: 0, interval };
    requests::bytes(&request, &[])
}

/// A machine for one code, with that code's valid request.
#[must_use]
pub fn machine_for(code: RequestCode) -> (Wire, Case) {
    let mut wire = Wire::new("skylake", 2);
    let case = case(&mut wire, code);
    (wire, case)
}

/// A configuration that counts instructions on one processor.
#[must_use]
pub fn on_processor(session: u32, processor: u32) -> Vec<u8> {
    let mut request = configure(session, 0, &[spec(TOTAL_ISSUES)]);
    request[40 + processor as usize / 8] = 1 << (processor % 8);
    request
}

/// A request with the word at an offset replaced.
#[must_use]
pub fn with_word(request: &[u8], at: usize, word: u32) -> Vec<u8> {
    let mut request = request.to_vec();
    request[at..at + 4].copy_from_slice(&word.to_le_bytes());
    request
}
