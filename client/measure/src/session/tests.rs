//! Does a session give all that the other side has for it?

use super::*;
use crate::in_process::modelled;
use shared_types::EventKind;
use shared_types::request::session::Spec;

/// Events of the driver's ring, of 32 bytes each: with its head a reply has no room for as many.
const RING: usize = 2048;

/// A client that did not drain for long: a full ring is two replies.
#[test]
fn all_system_events_are_drained_at_once() {
    let mut connection = modelled("skylake,processors=1");
    let mut session = Session::open(&mut connection, true, false).expect("a session");
    let specs = vec![Spec { source: 2, filter: Spec::USER, ..Spec::default() }];
    let setup = Setup { specs, events: true, ..Setup::default() };
    session.configure(&setup, false).expect("a configuration");
    session.start().expect("a start");
    for _ in 0..RING / 2 {
        let model = session.transport().model();
        model.sleep();
        model.lose_registers();
        model.wake();
    }
    let (events, lost) = session.drain_events().expect("events");
    let kinds = events.iter().map(|event| EventKind::from_wire(event.kind).expect("a kind"));
    let nights = [EventKind::Asleep, EventKind::Awake].into_iter().cycle();
    let expected = std::iter::once(EventKind::SessionStarted).chain(nights).take(RING);
    assert!(kinds.eq(expected), "{events:?}");
    // The last time that it woke.
    assert_eq!((events.len(), lost), (RING, 1));
    assert_eq!(session.drain_events().expect("none"), (Vec::new(), 0));
}
