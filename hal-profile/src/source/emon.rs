//! The Emon interface: the 13 sources that Windows 10's HAL has for Intel's architectural events.

use super::{Row, Select};
use shared_types::ProfileSource;

/// The sources of Emon, by number.
///
/// Source: G. Chappell, "Hardware Performance Counters: EMON"; the events' names are those of the
/// Intel SDM, "Pre-defined Architectural Performance Events".
pub static ROWS: &[Row] = generated!("emon");

/// Sources and their bits in CPUID.0AH:EBX.
static EBX_BITS: &[(u32, u8)] = generated!("emon_bits");

/// The bit of CPUID.0AH:EBX that must be clear, and below the length in EAX 31:24, for the source
/// to be supported; `None` for ProfileTime, which needs no event, and for numbers that are not
/// Emon's.
pub fn ebx_bit(id: ProfileSource) -> Option<u8> {
    let known = EBX_BITS.iter().find(|(source, _)| *source == id.0);
    known.map(|(_, bit)| *bit)
}
