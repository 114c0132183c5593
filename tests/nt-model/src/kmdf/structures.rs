//! What the driver passes to the framework in structures, checked as the framework checks it.
//!
//! The framework compares each Size member with the version that the driver is bound to. Where a
//! function has a status, it is STATUS_INFO_LENGTH_MISMATCH; one without drops the whole structure and
//! breaks into a debugger, which is a violation here (microsoft/Windows-Driver-Frameworks, fxvalidate and
//! fxdeviceinitapi.cpp).

use super::Kind;
use crate::machine::Machine;
use crate::rules::{Rule, Violation};

/// Sizes of the structures of KMDF 1.33, as the published headers have them.
const ABI: &str = include_str!("../../../data/kmdf-1.33-abi.json");

const INFO_LENGTH_MISMATCH: u64 = 0xC000_0004;
const INVALID_PARAMETER: u64 = 0xC000_000D;

/// WdfExecutionLevelInheritFromParent to WdfExecutionLevelDispatch (wdfobject.h).
const EXECUTION_LEVELS: std::ops::RangeInclusive<u32> = 1..=3;
/// WdfSynchronizationScopeInheritFromParent to WdfSynchronizationScopeNone (wdfobject.h).
const SYNCHRONIZATION_SCOPES: std::ops::RangeInclusive<u32> = 1..=4;
const INHERIT: u32 = 1;
/// WdfIoQueueDispatchSequential (wdfio.h).
const SEQUENTIAL: u32 = 1;
/// WdfFalse (wdftypes.h).
const FALSE: u32 = 0;

/// The bytes of a structure.
fn size_of(structure: &str) -> Option<u32> {
    let (_, sizes) = ABI.split_once("\"sizeof\"")?;
    let (_, rest) = sizes.split_once(&format!("\"{structure}\": "))?;
    rest.split([',', '\n', '}']).next()?.trim().parse().ok()
}

fn is_sized(m: &Machine, at: u64, structure: &str) -> bool {
    Some(m.engine.read_u32(at)) == size_of(structure)
}

/// For a function with a status: that of a structure with a wrong size.
pub(super) fn sized(m: &Machine, at: u64, structure: &str) -> Result<(), u64> {
    if is_sized(m, at, structure) { Ok(()) } else { Err(INFO_LENGTH_MISMATCH) }
}

/// For a function without a status.
pub(super) fn must_be_sized(m: &Machine, at: u64, structure: &str) -> Result<(), Violation> {
    if is_sized(m, at, structure) {
        return Ok(());
    }
    let what = format!("a {structure} of {} bytes, which is dropped", m.engine.read_u32(at));
    Err(Violation::new(Rule::Object, what))
}

/// WDF_OBJECT_ATTRIBUTES of an object of this kind; 0 stands for none.
pub(super) fn attributes(m: &Machine, at: u64, kind: &Kind) -> Result<(), u64> {
    if at == 0 {
        return Ok(());
    }
    sized(m, at, "_WDF_OBJECT_ATTRIBUTES")?;
    let (level, scope) = (m.engine.read_u32(at + 24), m.engine.read_u32(at + 28));
    let (parent, context) = (m.engine.read_u64(at + 32), m.engine.read_u64(at + 48));
    let valid = EXECUTION_LEVELS.contains(&level) && SYNCHRONIZATION_SCOPES.contains(&scope);
    // Only objects with callbacks of their own have levels; a device has its driver for a parent.
    let fits = match kind {
        Kind::Device => parent == 0,
        _ => level == INHERIT && scope == INHERIT,
    };
    // The driver has no object contexts.
    if valid && fits && context == 0 { Ok(()) } else { Err(INVALID_PARAMETER) }
}

/// WDF_IO_QUEUE_CONFIG; `anonymous`: the driver takes no handle, which only a default queue may do.
pub(super) fn queue(m: &Machine, at: u64, anonymous: bool) -> Result<Result<(), u64>, Violation> {
    if let Err(status) = sized(m, at, "_WDF_IO_QUEUE_CONFIG") {
        return Ok(Err(status));
    }
    let (dispatch, managed) = (m.engine.read_u32(at + 4), m.engine.read_u32(at + 8));
    let default = m.engine.read_u32(at + 12) >> 8 & 0xFF != 0;
    if (dispatch, managed) != (SEQUENTIAL, FALSE) {
        let what = format!("a queue of dispatch type {dispatch}, power-managed {managed}");
        return Err(Violation::new(Rule::Unmodelled, what));
    }
    Ok(if default || !anonymous { Ok(()) } else { Err(INVALID_PARAMETER) })
}

#[cfg(test)]
mod tests {
    use super::size_of;

    #[test]
    fn sizes_are_those_of_the_headers() {
        for (structure, size) in [
            ("_WDF_DRIVER_CONFIG", Some(32)),
            ("_WDF_PNPPOWER_EVENT_CALLBACKS", Some(144)),
            ("_WDF_FILEOBJECT_CONFIG", Some(40)),
            ("_WDF_OBJECT_ATTRIBUTES", Some(56)),
            ("_WDF_IO_QUEUE_CONFIG", Some(96)),
            ("_WDF_NOTHING", None),
        ] {
            assert_eq!(size_of(structure), size, "{structure}");
        }
    }
}
