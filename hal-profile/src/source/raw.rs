//! Raw selects: events that a user may count without a source that names them.
//!
//! A raw select is a word in the layout of the family's own register. Each family has a mask of the
//! bits that may be set; INT, EN, pin control and any bit reserved on the processor are refused,
//! never silently cleared.

use super::amd::family15h_counters;
use super::amd64_events::{AmdGeneration, is_northbridge};
use super::netburst::{
    self, COMPARE, COMPLEMENT, EDGE, ESCR_SELECT, EVENT_MASK, EVENT_SELECT, THRESHOLD,
};
#[cfg(feature = "legacy")]
use super::p6;
use super::{ANY, CounterSet, NetBurstSelect, Select};

/// The family that defines the layout of a raw select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IA32_PERFEVTSELx, with the bits beyond version 1 that the processor has: [`ANY_THREAD`],
    /// [`EQUAL`], [`UNIT_MASK_2`].
    Emon {
        /// [`crate::cpu::capabilities::Capabilities::select_bits`].
        more: u64,
    },
    /// PERF_CTLx; family 10h and later have event bits 11:8 at 35:32.
    Amd64(AmdGeneration),
    /// One half of CESR: ES in bits 5:0 and clocks in bit 8, where CC bit 2 of counter 0 is. Codes
    /// from 0x2A on have a different meaning on each counter; a raw select means counter 0's.
    #[cfg(feature = "legacy")]
    Pentium,
    /// PerfEvtSelx of P6.
    #[cfg(feature = "legacy")]
    P6,
    /// ESCR in the low half (event select and event mask), CCCR in the high half (ESCR select,
    /// COMPARE, COMPLEMENT, THRESHOLD, EDGE), and in the high half's bits 1:0, which CCCR reserves,
    /// the group of counters: 0 BPU, 1 MS, 2 FLAME, 3 IQ. Only documented events and mask bits are
    /// accepted.
    NetBurst {
        /// The model of family 0Fh.
        model: u32,
    },
}

/// A decoded raw select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// What the processor is programmed to count.
    pub select: Select,
    /// The counters that can count it.
    pub counters: CounterSet,
    /// The filter asks for user mode. With neither this nor `kernel` there is no filter.
    pub user: bool,
    /// The filter asks for kernel mode.
    pub kernel: bool,
}

const EVENT: u64 = 0xFF;
const UNIT_MASK: u64 = 0xFF << 8;
const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
const EDGE_DETECT: u64 = 1 << 18;
const INV: u64 = 1 << 23;
const CMASK: u64 = 0xFF << 24;
/// Event bits 11:8 of AMD family 10h and later.
const EVENT_HIGH: u64 = 0xF << 32;
/// AnyThread: counts for both threads of a core.
pub const ANY_THREAD: u64 = 1 << 21;
/// EQ: counts cycles with exactly CMASK events.
pub const EQUAL: u64 = 1 << 36;
/// UMASK2: the second unit mask.
pub const UNIT_MASK_2: u64 = 0xFF << 40;
const P6_STYLE: u64 = EVENT | UNIT_MASK | USR | OS | EDGE_DETECT | INV | CMASK;

#[cfg(feature = "legacy")]
const ES: u64 = 0x3F;
#[cfg(feature = "legacy")]
const CESR_CLOCKS: u64 = 1 << 8;
/// The first code whose meaning differs between the Pentium's two counters.
#[cfg(feature = "legacy")]
const FIRST_SPLIT_CODE: u8 = 0x2A;

/// T0_USR and T0_OS of ESCR: bits 16 and 17 belong to its event mask.
const ESCR_USR: u64 = 1 << 2;
const ESCR_OS: u64 = 1 << 3;
const GROUP: u64 = 3 << 32;
const NETBURST_EVENT: u64 = EVENT_SELECT as u64 | (ESCR_SELECT as u64) << 32 | GROUP;
const CCCR_FILTER: u32 = COMPARE | COMPLEMENT | THRESHOLD | EDGE;

/// The bits of a raw select that a user may set, including those of the filter.
#[must_use]
pub const fn allowed(family: Family) -> u64 {
    match family {
        #[cfg(feature = "legacy")]
        Family::P6 => P6_STYLE,
        Family::Emon { more } => P6_STYLE | more,
        Family::Amd64(AmdGeneration::K8) => P6_STYLE,
        Family::Amd64(_) => P6_STYLE | EVENT_HIGH,
        #[cfg(feature = "legacy")]
        Family::Pentium => ES | CESR_CLOCKS | USR | OS,
        Family::NetBurst { .. } => {
            NETBURST_EVENT | EVENT_MASK as u64 | (CCCR_FILTER as u64) << 32 | ESCR_USR | ESCR_OS
        }
    }
}

/// Decodes a raw select.
///
/// # Errors
/// The offending bits: those set outside [`allowed`]; or all bits of the event's fields if the
/// event is a northbridge event ([`is_northbridge`]) or, on NetBurst, undocumented; or the event
/// mask bits that the event does not document.
pub fn parse(family: Family, raw: u64) -> Result<RawEvent, u64> {
    if let Some(counters) = event_counters(family, raw)? {
        let (user, kernel) = event_filter(raw);
        return Ok(RawEvent {
            // A select in the HAL's own style always has USR and OS set; the filter narrows it later.
            select: Select::EventSelect(raw | USR | OS),
            counters,
            user,
            kernel,
        });
    }
    match family {
        Family::NetBurst { model } => net_burst(model, raw),
        #[cfg(feature = "legacy")]
        Family::Pentium => Ok(pentium(raw)),
        _ => Err(raw),
    }
}

/// The counters that can count a raw select, if it is an event select in this family; `None` if it
/// is something else.
///
/// # Errors
/// As [`parse`].
#[inline]
pub fn event_counters(family: Family, raw: u64) -> Result<Option<CounterSet>, u64> {
    let refused = raw & !allowed(family);
    if refused != 0 {
        return Err(refused);
    }
    match family {
        Family::Emon { .. } => Ok(Some(ANY)),
        #[cfg(feature = "legacy")]
        Family::P6 => Ok(Some(p6::counters((raw & EVENT) as u8))),
        Family::Amd64(generation) => amd64(generation, raw).map(Some),
        #[cfg(feature = "legacy")]
        Family::Pentium => Ok(None),
        Family::NetBurst { .. } => Ok(None),
    }
}

/// The filter of a raw select that is an event select: user mode, kernel mode. With neither there is
/// no filter.
#[inline]
#[must_use]
pub const fn event_filter(raw: u64) -> (bool, bool) {
    (raw & USR != 0, raw & OS != 0)
}

const fn amd64(generation: AmdGeneration, raw: u64) -> Result<CounterSet, u64> {
    let event = (raw & EVENT | (raw & EVENT_HIGH) >> 24) as u16;
    if is_northbridge(event) {
        return Err(EVENT | EVENT_HIGH & allowed(Family::Amd64(generation)));
    }
    Ok(match generation {
        AmdGeneration::Family15h => family15h_counters(event),
        _ => ANY,
    })
}

#[cfg(feature = "legacy")]
const fn pentium(raw: u64) -> RawEvent {
    let event = (raw & ES) as u8;
    RawEvent {
        select: Select::Cesr { event, clocks: raw & CESR_CLOCKS != 0 },
        counters: if event < FIRST_SPLIT_CODE { ANY } else { 0b01 },
        user: raw & USR != 0,
        kernel: raw & OS != 0,
    }
}

fn net_burst(model: u32, raw: u64) -> Result<RawEvent, u64> {
    let (escr, cccr) = (raw as u32 & !(ESCR_USR | ESCR_OS) as u32, (raw >> 32) as u32);
    let group = (cccr & 3) as usize;
    let event = netburst::documented(model, escr & EVENT_SELECT, cccr & ESCR_SELECT, group)
        .ok_or(NETBURST_EVENT)?;
    if escr & !event.escr != 0 {
        return Err(u64::from(escr & !event.escr));
    }
    let select = NetBurstSelect { escr, cccr: event.cccr | cccr & CCCR_FILTER, ..event };
    Ok(RawEvent {
        select: Select::NetBurst(select),
        counters: select.counters[0] | select.counters[1],
        user: raw & ESCR_USR != 0,
        kernel: raw & ESCR_OS != 0,
    })
}
