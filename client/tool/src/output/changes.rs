//! The warning that others have changed registers while a session counted with them.

use crate::output::number::thousands;
use shared_types::request::counts::Changes;

/// The warning's code.
pub(crate) const CODE: &str = "counters-changed";

/// The warning, without its code, if anything was changed.
pub(crate) fn message(changes: &Changes) -> Option<String> {
    let Changes { number, processor, register, written, found, .. } = *changes;
    let others = match number {
        0 => return None,
        1 => String::new(),
        more => format!("; {} changes in all", thousands(u64::from(more))),
    };
    Some(format!(
        "someone else wrote register {register:#x} on processor {processor}: {written:#x} was written \
         for this measurement, {found:#x} was found{others}; what was counted meanwhile is left out, \
         and a count is scaled over the rest or not known"
    ))
}
