//! Requests as bytes, for tests that use the wire format directly.

use fastrand::Rng;
use shared_types::hal::HalProfileSourceInterval;
use shared_types::request::session::{Configure, SetInterval, Spec};
use shared_types::request::source::Query;
use shared_types::request::{Access, Plain, RequestCode, machine, rdpmc, session, source};
use shared_types::{ProfileSource, RequestHeader, WIRE_VERSION};
use std::fmt::Write;
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// Every access right that a handle can have.
pub const ALL_RIGHTS: &[Access] = &[Access::Read, Access::Write];

/// A request's bytes, with the size in its header corrected.
#[must_use]
pub fn bytes<T: IntoBytes + Immutable>(head: &T, specs: &[Spec]) -> Vec<u8> {
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend_from_slice(specs.as_bytes());
    let size = bytes.len() as u32;
    bytes[..4].copy_from_slice(&size.to_le_bytes());
    bytes
}

/// A header with flags.
#[must_use]
pub fn header(flags: u32) -> RequestHeader {
    RequestHeader { size: 0, version: WIRE_VERSION, flags, reserved: 0 }
}

/// A configuration of `session` for all processors.
#[must_use]
pub fn configure(session: u32, flags: u32, specs: &[Spec]) -> Vec<u8> {
    let head = Configure { session, sources: specs.len() as u32, ..configuration(flags) };
    bytes(&head, specs)
}

/// The configuration of no session and no sources, for all processors.
#[must_use]
pub fn configuration(flags: u32) -> Configure {
    Configure { header: header(flags), ..Configure::new_zeroed() }
}

/// The counter mask of a source without a constraint.
const fn any_counter(source: u32) -> u32 {
    if source == ProfileSource::RAW.0 { Spec::ANY_COUNTER } else { 0 }
}

/// A source counted in both modes at its default interval.
#[must_use]
pub fn spec(source: u32) -> Spec {
    let filter = Spec::USER | Spec::KERNEL;
    Spec { source, filter, counters: any_counter(source), ..Spec::default() }
}

/// A request of the right shape whose fields are random, but often plausible; `sessions` are
/// numbers that may be open.
#[must_use]
pub fn random_well_formed(rng: &mut Rng, sessions: &[u32]) -> (RequestCode, Vec<u8>) {
    let (code, _) = RequestCode::ALL[rng.usize(..RequestCode::ALL.len())];
    let flags = match rng.u8(..20) {
        0 => rng.u32(..),
        1 => rng.u32(..128),
        _ if code == session::OPEN => session::KERNEL | rng.u32(..2),
        _ if code == session::CONFIGURE => {
            let kind = [0, session::SAMPLE, session::THREADS][rng.usize(..3)];
            kind | (session::EVENTS * rng.u32(..2))
        }
        _ => 0,
    };
    let header = header(flags);
    let number = match sessions.get(rng.usize(..=sessions.len())) {
        Some(&number) => number,
        None => rng.u32(..) >> rng.u32(..32),
    };
    let request = match code {
        machine::HELLO | machine::DESCRIBE | session::OPEN | rdpmc::STATUS => {
            bytes(&Plain { header }, &[])
        }
        machine::PROCESSORS | machine::REGISTERS | source::ENUMERATE => {
            bytes(&machine::From { header, first: rng.u32(..8), reserved: 0 }, &[])
        }
        source::QUERY => bytes(
            &Query { header, source: random_source(rng), session: number * rng.u32(..2) },
            &[],
        ),
        source::PLAN | session::CONFIGURE => {
            let specs: Vec<Spec> = (0..rng.usize(1..=8) / 2).map(|_| random_spec(rng)).collect();
            let head = Configure {
                header,
                session: if code == source::PLAN { 0 } else { number },
                sources: specs.len() as u32 + u32::from(rng.u8(..10) == 0),
                slice_100ns: rng.u32(..) >> rng.u32(..32),
                ring_samples: rng.u32(..) >> rng.u32(..32),
                slice_seed: 0,
                branches: [0, 8, 16, 32, rng.u16(..64)][rng.usize(..8) % 5],
                branch_filter: u16::from(rng.u8(..4) == 0) * rng.u16(..0x400),
                processors: match rng.u8(..8) {
                    0 => [0; 32].map(|_: u64| rng.u64(..) >> rng.u32(..64)),
                    1 => std::array::from_fn(|word| if word == 0 { rng.u64(..8) } else { 0 }),
                    _ => [0; 32],
                },
            };
            bytes(&head, &specs)
        }
        session::SET_INTERVAL => {
            let interval = HalProfileSourceInterval {
                source: random_source(rng).cast_signed(),
                padding: 0,
                interval: rng.u64(..) >> rng.u32(..64),
            };
            bytes(&SetInterval { header, session: number, reserved: 0, interval }, &[])
        }
        _ => bytes(&session::Session { header, session: number, reserved: 0 }, &[]),
    };
    (code, request)
}

fn random_source(rng: &mut Rng) -> u32 {
    match rng.u8(..16) {
        0 => rng.u32(..0x20),
        1 => rng.u32(..0xC0),
        2 => 0x8000_0000 + (rng.u32(..10) << 8) + rng.u32(..16),
        _ => [0, 2, 6, 0x0B][rng.usize(..4)],
    }
}

fn random_spec(rng: &mut Rng) -> Spec {
    let source = random_source(rng);
    Spec {
        source,
        group: u16::from(rng.u8(..4) == 0),
        filter: if rng.u8(..20) == 0 { rng.u16(..) } else { rng.u16(1..4) },
        interval: rng.u64(..) >> rng.u32(..64),
        raw: if source == 0x8000_0000 { rng.u64(..) >> rng.u32(..64) } else { 0 },
        counters: match rng.u8(..8) {
            0 => rng.u32(..),
            _ => any_counter(source),
        },
        cpu_types: u16::from(rng.u8(..8) == 0) * rng.u16(..),
        flags: u16::from(rng.u8(..8) == 0) * rng.u16(..3),
    }
}

/// A dump of a few processors with random leaf values, in one of the two formats.
#[must_use]
pub fn dump_text(rng: &mut Rng) -> Vec<u8> {
    const VENDORS: [[u32; 3]; 3] = [
        [0x756E_6547, 0x6C65_746E, 0x4965_6E69],
        [0x6874_7541, 0x444D_4163, 0x6974_6E65],
        [0x2020_2020; 3],
    ];
    const LEAVES: [u32; 12] = [
        1,
        4,
        7,
        0x0A,
        0x1A,
        0x23,
        0x4000_0000,
        0x4000_0001,
        0x4000_0003,
        0x8000_0000,
        0x8000_0001,
        0x8000_0022,
    ];
    let [ebx, ecx, edx] = VENDORS[rng.usize(..3)];
    let raw = rng.bool();
    let mut text = String::new();
    for _ in 0..rng.u32(1..4) {
        let mut line = |leaf: u32, words: [u32; 4]| {
            let [a, b, c, d] = words;
            let _ = if raw {
                writeln!(
                    text,
                    "   {leaf:#010x} 0x00: eax={a:#010x} ebx={b:#010x} ecx={c:#010x} edx={d:#010x}"
                )
            } else {
                writeln!(text, "CPUID {leaf:08X}: {a:08X}-{b:08X}-{c:08X}-{d:08X}")
            };
        };
        line(0, [rng.u32(..0x30), ebx, ecx, edx]);
        for leaf in LEAVES {
            line(leaf, [(); 4].map(|()| rng.u32(..) >> rng.u32(..32)));
        }
    }
    if raw { format!("CPU 0:\n{text}").into_bytes() } else { text.into_bytes() }
}
