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
        "other software has changed register {register:#x} on processor {processor}: this measurement \
         had {written:#x} there and found {found:#x}{others}; the events in between are left \
         out, so a count is scaled over the rest, or unknown"
    ))
}
