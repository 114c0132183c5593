//! halprof's own AMD sources, for events that have no row in Windows 10's HAL or whose row there
//! selects something else on the family; and the counters that can count each event on family 15h.

use super::amd64_events::is_northbridge;
use super::{ANY, CounterSet, NO_COUNTER, Row};
use crate::cpu::generation::AmdGeneration;

/// halprof's own sources on this generation, by number; none if its events are not known. The rows
/// name every counter: on family 15h, use [`family15h_counters`].
pub fn own_rows(generation: AmdGeneration) -> &'static [Row] {
    let known = OWN.iter().find(|(of, _)| *of == generation);
    known.map_or(&[], |(_, rows)| rows)
}

/// A source that the HAL's table selects correctly on a generation is not repeated here.
///
/// Source: AMD's BKDG and PPR for each family, by way of libpfm4 and Linux's perf.
static OWN: &[(AmdGeneration, &[Row])] = generated!("amd_own");

/// The event that extends the counter before it (PPR for AMD Family 17h, "Large Increment per Cycle
/// Events").
pub const MERGE: u16 = 0xFFF;

/// The event that can add more to a counter in a cycle than the 15 that one counter takes, and so
/// takes a counter of even number and, with [`MERGE`], the next: retired SSE/AVX FLOPs.
///
/// The client's constraints.csv has it too, to say what a name needs before anything is asked. The
/// driver has its own, because it takes any select from any client.
const LARGE_INCREMENT: u16 = 0x003;

/// The first family without northbridge events among the core's, and with [`MERGE`].
const ZEN: u16 = 0x17;

/// Whether an event takes two counters on this family. Without its partner the count is too small
/// and looks right.
///
/// Source: PPR for AMD Family 17h, "Large Increment per Cycle Events"; Linux 5738891229a2.
pub const fn takes_pair(family: u16, event: u16) -> bool {
    family >= ZEN && event == LARGE_INCREMENT
}

/// Whether selects of this family reach the northbridge's events too: 0Fh to 16h. From 17h on these
/// have registers of their own (BKDG and PPR of the families).
pub const fn takes_northbridge_codes(family: u16) -> bool {
    family < ZEN
}

/// The counters that can count an event on this family.
pub const fn event_counters(family: u16, event: u16) -> CounterSet {
    match family {
        0x15 => family15h_counters(event),
        _ => ANY,
    }
}

const PMC0: CounterSet = 0b00_0001;
const PMC2_TO_0: CounterSet = 0b00_0111;
const PMC3: CounterSet = 0b00_1000;
const PMC5_TO_3: CounterSet = 0b11_1000;
const PMC5_TO_0: CounterSet = 0b11_1111;

/// The counters of family 15h, out of six, that can count an event; if only the four legacy
/// counters are used, PMC4 and PMC5 are dropped.
///
/// If the sources differ or are silent, the smaller set is used: a counter outside an event's set
/// silently counts nothing. So the floating-point events that PMC3 to PMC5 can count with one
/// unit-mask bit set, but only PMC3 with more (0x000, 0x004), get PMC3; 0x0DB to 0x0DF stay with
/// their group; and codes of no documented group (0x0A0 to 0x0BF) get none.
///
/// Source: BKDG for AMD Family 15h Processors, "Performance Counter Events", and Linux
/// arch/x86/events/amd/core.c.
pub const fn family15h_counters(event: u16) -> CounterSet {
    if is_northbridge(event) {
        return NO_COUNTER;
    }
    match event {
        0x000 | 0x003 | 0x004 | 0x00B | 0x00D | 0x02D => PMC3,
        0x02E => PMC3 | PMC0,
        0x08F | 0x187 | 0x188 => PMC0,
        0x023 | 0x031 | 0x043 | 0x045 | 0x046 | 0x054 | 0x055 => PMC2_TO_0,
        0x1C0 => PMC5_TO_3,
        _ => match event & 0xF0 {
            0x00 | 0x10 => PMC5_TO_3,
            0x20..=0x50 | 0xC0 => PMC5_TO_0,
            0x60..=0x90 | 0xD0 => PMC2_TO_0,
            _ => NO_COUNTER,
        },
    }
}
