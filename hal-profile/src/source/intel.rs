//! halprof's own Intel sources: the fixed-function counters, and the architectural events that
//! Windows 10's HAL has no source for.

use shared_types::ProfileSource;

use super::{Fit, NO_COUNTER, Row, Select};

/// The first number of the sources for architectural events; the event's EBX bit is added.
pub const FIRST_ARCHITECTURAL: u32 = 0x8000_0200;

const fn fixed(id: u32, index: u8) -> Row {
    Row { fixed: 1 << index, ..Row::new(id, Fit::Exact, Select::Fixed(index), NO_COUNTER) }
}

/// The fixed-function counters, by index.
///
/// Source: Intel SDM, "Association of Fixed-Function Performance Counters with Architectural
/// Performance Events".
pub static FIXED: &[Row] = generated!("intel_fixed");

/// The architectural events beyond the seven that Emon knows, by EBX bit.
///
/// Source: Intel SDM, "Pre-defined Architectural Performance Events".
pub static ARCHITECTURAL: &[Row] = generated!("intel_architectural");

/// The bit of CPUID.0AH:EBX that must be clear, and below the length in EAX 31:24, for an
/// architectural event to exist; `None` for every other number.
pub const fn ebx_bit(id: ProfileSource) -> Option<u8> {
    match id.0.wrapping_sub(FIRST_ARCHITECTURAL) {
        bit @ 7..=12 => Some(bit as u8),
        _ => None,
    }
}
