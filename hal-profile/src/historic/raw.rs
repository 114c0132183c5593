//! Raw selects of Pentium, P6 and NetBurst.

use crate::cpu::registers::intel::{EVENT, OS, P6_STYLE, USR};
use crate::historic::netburst::{
    self, COMPARE, COMPLEMENT, EDGE, ESCR_SELECT, EVENT_MASK, EVENT_SELECT, THRESHOLD,
};
use crate::historic::p6;
use crate::historic::select::{NetBurstSelect, Select as Historic};
use crate::source::{ANY, RawEvent, Select};

/// The family that defines the layout of a raw select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// One half of CESR: ES in bits 5:0 and clocks in bit 8, where CC bit 2 of counter 0 is. Codes
    /// from 0x2A on have a different meaning on each counter; a raw select means counter 0's.
    Pentium,
    /// PerfEvtSelx of P6.
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

const ES: u64 = 0x3F;
const CESR_CLOCKS: u64 = 1 << 8;
/// The first code whose meaning differs between the Pentium's two counters.
const FIRST_SPLIT_CODE: u8 = 0x2A;

/// T0_USR and T0_OS of ESCR: bits 16 and 17 belong to its event mask.
const ESCR_USR: u64 = 1 << 2;
const ESCR_OS: u64 = 1 << 3;
const GROUP: u64 = 3 << 32;
const NETBURST_EVENT: u64 = EVENT_SELECT as u64 | (ESCR_SELECT as u64) << 32 | GROUP;
const CCCR_FILTER: u32 = COMPARE | COMPLEMENT | THRESHOLD | EDGE;

/// The bits of a raw select that a user may set, including those of the filter.
pub const fn allowed(family: Family) -> u64 {
    match family {
        Family::Pentium => ES | CESR_CLOCKS | USR | OS,
        Family::P6 => P6_STYLE,
        Family::NetBurst { .. } => {
            NETBURST_EVENT | EVENT_MASK as u64 | (CCCR_FILTER as u64) << 32 | ESCR_USR | ESCR_OS
        }
    }
}

/// Decodes a raw select that has none but allowed bits.
///
/// # Errors
/// NetBurst: all bits of the event's fields if the event is not documented; or the event mask bits
/// that it does not document.
pub fn parse(family: Family, raw: u64) -> Result<RawEvent, u64> {
    let (select, counters) = match family {
        Family::Pentium => {
            let event = (raw & ES) as u8;
            let select = Historic::Cesr { event, clocks: raw & CESR_CLOCKS != 0 };
            (Select::Historic(select), if event < FIRST_SPLIT_CODE { ANY } else { 0b01 })
        }
        Family::P6 => (Select::EventSelect(raw | USR | OS), p6::counters((raw & EVENT) as u8)),
        Family::NetBurst { model } => return net_burst(model, raw),
    };
    Ok(RawEvent { select, counters, user: raw & USR != 0, kernel: raw & OS != 0 })
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
        select: Select::Historic(Historic::NetBurst(select)),
        counters: select.counters[0] | select.counters[1],
        user: raw & ESCR_USR != 0,
        kernel: raw & ESCR_OS != 0,
    })
}
