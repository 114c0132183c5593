//! What does the service do where it has no memory: for sessions, for rings, for an added processor?

use halprof_tests::requests::{bytes, configure, header, spec};
use halprof_tests::wire::{Wire, leaves, plain};
use shared_types::ErrorCode;
use shared_types::request::machine::{From, Page};
use shared_types::request::rdpmc::{ALLOW, Rdpmc, STATUS};
use shared_types::request::session::{self, EVENTS, SAMPLE, START, STOP, THREADS};
use shared_types::request::source::{self, Source};
use sim::machine::Model;
use sim::machines::models::MODELS;

const TOTAL_ISSUES: u32 = 2;
/// The size of the events' ring: 2048 events, and two cache lines.
const RING_BYTES: u64 = 2048 * 32 + 128;

/// A session's number has its slot in its low byte.
#[test]
fn no_more_sessions_than_numbers_have_room_for() {
    let mut wire = Wire::on(Model::with_sessions(&leaves("skylake", 1), 260));
    let numbers: Vec<u32> = (0..255).map(|_| wire.open()).collect();
    let refusal = wire.send(session::OPEN, &plain(0)).refusal();
    assert_eq!(refusal, Some((ErrorCode::TooManySessions, 0, 255)));
    for number in numbers {
        wire.granted(session::CLOSE, number);
    }
}

#[test]
fn without_memory_for_sessions_no_source_is_supported() {
    for model in MODELS {
        let mut wire = Wire::on(Model::with_sessions(&leaves(model.name, 2), 0));
        let first = From { header: header(source::APPROXIMATE), first: 0, reserved: 0 };
        let reply = wire.send(source::ENUMERATE, &bytes(&first, &[]));
        for source in reply.elements::<Page, Source>() {
            assert_eq!(source.flags & Source::SUPPORTED, 0, "{}", source.id);
        }
        let refusal = wire.send(session::OPEN, &plain(0)).refusal();
        assert_eq!(refusal, Some((ErrorCode::TooManySessions, 0, 0)));
        let plan = configure(0, 0, &[spec(TOTAL_ISSUES)]);
        assert_eq!(wire.send(source::PLAN, &plan).error(), Some(ErrorCode::NoMemory));
        assert_eq!(wire.model.faults(), []);
    }
}

/// A thread that moves to it would be counted by nobody, and RDPMC would end a program there.
#[test]
fn an_added_processor_without_memory_ends_counting_by_thread() {
    let mut wire = Wire::new("skylake", 2);
    let number = wire.configured(THREADS, &[spec(TOTAL_ISSUES)]);
    wire.granted(START, number);
    wire.model.add_processor_without_memory();
    assert!(!wire.model.is_counting());
    assert!(wire.model.host().by_thread.is_empty());
    for request in [STOP, START, ALLOW] {
        let refusal = wire.about(request, number).refusal();
        let (error, processor, bytes) = refusal.expect("a refusal");
        assert_eq!((error, processor), (ErrorCode::NoMemory, 2), "{request:?}");
        assert_ne!(bytes, 0);
    }
    let status: Rdpmc = wire.send(STATUS, &plain(0)).done();
    assert_eq!(status.processors, 3, "the one without memory too");
    assert_eq!(wire.model.faults(), []);
}

/// Nothing is left of a start that is refused.
#[test]
fn rings_that_cannot_be_had_are_refused_whole() {
    let mut wire = Wire::new("skylake", 1);
    let number = wire.configured(SAMPLE | EVENTS, &[spec(TOTAL_ISSUES)]);
    wire.model.host().ring_words_max = RING_BYTES as usize / 8 - 1;
    let told = wire.about(START, number).refusal();
    assert_eq!(told, Some((ErrorCode::NoMemory, 0, RING_BYTES)));
    // There is room for events, but none for samples.
    wire.model.host().ring_words_max = RING_BYTES as usize / 8;
    let error = wire.about(START, number).error();
    assert_eq!(error, Some(ErrorCode::NoMemory));
    assert_eq!(wire.machine().ring_bytes, 0);
    wire.model.host().ring_words_max = usize::MAX;
    wire.granted(START, number);
}
