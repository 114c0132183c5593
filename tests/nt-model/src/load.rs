//! The requests that clients make, from a seed: those of a client that wants to count, and any.

use fastrand::Rng;
use halprof_tests::requests;
use halprof_tests::wire::{about, plain};
use shared_types::request::session::{self, Configure, Spec};
use shared_types::request::{RequestCode, counts, events, rdpmc, samples, threads};

/// A request, and the room for its reply in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) code: RequestCode,
    pub(crate) input: Vec<u8>,
    pub(crate) room: usize,
}

/// What a client requests of a session, in this order and then over again.
pub(crate) const LIFE: &[RequestCode] = &[
    session::CONFIGURE,
    session::START,
    counts::SNAPSHOT,
    samples::DRAIN,
    counts::SNAPSHOT,
    samples::DRAIN,
    events::DRAIN_EVENTS,
    session::STOP,
    samples::STATISTICS,
    events::DRAIN_EVENTS,
];

/// What its session may also do at any time.
const BESIDES: [RequestCode; 4] =
    [rdpmc::ALLOW, rdpmc::RELEASE, threads::THREADS, threads::THREADS];

/// The next request of a client that wants to count in its latest session, after the one at `next`
/// of [`LIFE`]. With `features` every other session samples with branches or counts by thread.
pub(crate) fn sensible(
    rng: &mut Rng,
    next: &mut usize,
    sessions: &[u32],
    features: bool,
) -> Request {
    let Some(&number) = sessions.last() else {
        return Request { code: session::OPEN, input: plain(session::KERNEL), room: 4096 };
    };
    *next = match rng.u8(..8) {
        0 => rng.usize(..LIFE.len()),
        _ => (*next + 1) % LIFE.len(),
    };
    let code = LIFE[*next];
    let input = match code {
        session::CONFIGURE => configuration(rng, number, features),
        _ => about(number),
    };
    Request { code, input, room: 1 << 14 }
}

/// A session that counts or samples.
fn configuration(rng: &mut Rng, number: u32, features: bool) -> Vec<u8> {
    let all = [0, 2, 6, 0x0B, 0x13];
    let many = [1, 1, 2, 2, all.len()][rng.usize(..5)];
    let mut specs: Vec<_> = (0..many).map(|_| spec(rng, &all)).collect();
    let sample = session::SAMPLE * u32::from(rng.u8(..3) != 0);
    let events = session::EVENTS * u32::from(rng.bool());
    let mut head = Configure { session: number, ..requests::configuration(sample | events) };
    if features && rng.bool() {
        if sample == 0 {
            head.header.flags |= session::THREADS;
            let sources = &[2, 6][..rng.usize(1..=2)];
            specs = sources.iter().map(|&source| requests::spec(source)).collect();
        } else {
            head.branches = [8, 16, 32][rng.usize(..3)];
        }
    }
    head.sources = specs.len() as u32;
    requests::bytes(&head, &specs)
}

fn spec(rng: &mut Rng, all: &[u32]) -> Spec {
    let source = all[rng.usize(..all.len())];
    let interval = 1 << rng.u32(10..20);
    Spec { interval, ..requests::spec(source) }
}

/// One of [`BESIDES`].
pub(crate) fn besides(rng: &mut Rng, session: u32) -> Request {
    let code = BESIDES[rng.usize(..BESIDES.len())];
    Request { code, input: about(session), room: 4096 }
}

/// Any request, mostly of the right shape.
pub(crate) fn any(rng: &mut Rng, sessions: &[u32]) -> Request {
    let (code, input) = if rng.u8(..4) == 0 {
        let (code, _) = RequestCode::ALL[rng.usize(..RequestCode::ALL.len())];
        (code, (0..rng.usize(..400)).map(|_| rng.u8(..)).collect())
    } else {
        requests::random_well_formed(rng, sessions)
    };
    Request { code, input, room: [0, 23, 24, 100, 4096, 1 << 14][rng.usize(..6)] }
}
