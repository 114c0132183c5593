//! Raw selects: events that a user may count without a source that names them.
//!
//! A raw select is a word in the layout of the family's own register. Each family has a mask of the
//! bits that may be set; INT, EN, pin control and any bit reserved on the processor are refused,
//! never silently cleared.

use super::amd::{MERGE, event_counters, takes_northbridge_codes};
use super::amd64_events::is_northbridge;
use super::{ANY, CounterSet, RawEvent, Select};
use crate::cpu::registers::intel::{EVENT, OS, P6_STYLE, USR};
use crate::historic::raw as historic;

/// The family that defines the layout of a raw select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IA32_PERFEVTSELx, with the bits beyond version 1 that the processor has: [`ANY_THREAD`](crate::cpu::registers::intel::ANY_THREAD),
    /// [`EQUAL`](crate::cpu::registers::intel::EQUAL), [`UNIT_MASK_2`](crate::cpu::registers::intel::UNIT_MASK_2).
    Emon {
        /// [`crate::cpu::capabilities::Capabilities::select_bits`].
        more: u64,
    },
    /// PERF_CTLx of a full family; 10h and later have event bits 11:8 at 35:32.
    Amd64(u16),
    /// A family of the [`historic`](crate::historic) interfaces.
    Historic(historic::Family),
}

/// Event bits 11:8 of AMD family 10h and later.
const EVENT_HIGH: u64 = 0xF << 32;

/// The bits of a raw select that a user may set, including those of the filter.
pub const fn allowed(family: Family) -> u64 {
    match family {
        Family::Emon { more } => P6_STYLE | more,
        Family::Amd64(0x0F) => P6_STYLE,
        Family::Amd64(_) => P6_STYLE | EVENT_HIGH,
        Family::Historic(family) => historic::allowed(family),
    }
}

/// Decodes a raw select.
///
/// # Errors
/// The offending bits: those set outside [`allowed`]; or all bits of the event's fields if the
/// event is Intel's code 0, a northbridge event ([`is_northbridge`]), Merge (which goes only with the event that needs
/// it) or, on NetBurst, undocumented; or the event mask bits that the event does not document.
pub fn parse(family: Family, raw: u64) -> Result<RawEvent, u64> {
    let refused = raw & !allowed(family);
    if refused != 0 {
        return Err(refused);
    }
    let counters = match family {
        // Code 0 stands for fixed counters in the vendor's lists, with the counter as unit mask; on a
        // general counter it counts nothing that a document names.
        Family::Emon { .. } if raw & EVENT == 0 => return Err(EVENT),
        Family::Emon { .. } => ANY,
        Family::Amd64(family) => amd64(family, raw)?,
        Family::Historic(family) => return historic::parse(family, raw),
    };
    Ok(RawEvent {
        // A select in the HAL's own style always has USR and OS set; the filter narrows it later.
        select: Select::EventSelect(raw | USR | OS),
        counters,
        user: raw & USR != 0,
        kernel: raw & OS != 0,
    })
}

const fn amd64(family: u16, raw: u64) -> Result<CounterSet, u64> {
    let event = (raw & EVENT | (raw & EVENT_HIGH) >> 24) as u16;
    if event == MERGE || takes_northbridge_codes(family) && is_northbridge(event) {
        return Err(EVENT | EVENT_HIGH & allowed(Family::Amd64(family)));
    }
    Ok(event_counters(family, event))
}
