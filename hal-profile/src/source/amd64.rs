//! The Amd64 interface: the 176 sources of Windows 10's HAL, whose event codes are K8's.

use super::amd64_events::is_northbridge;
use super::{Fit, NO_COUNTER, Row, Select};

const fn row(id: u32, select: u64) -> Row {
    if is_northbridge((select & 0xFF) as u16) {
        return Row::new(id, Fit::Northbridge, Select::EventSelect(select), NO_COUNTER);
    }
    Row::event(id, select)
}

/// The sources of Amd64, by number.
///
/// [`Fit::Exact`] means that the row is the HAL's own, not that its name still applies: see
/// [`amd64_events`](super::amd64_events).
///
/// Source: G. Chappell, "Hardware Performance Counters: AMD64".
pub static ROWS: &[Row] = generated!("amd64");
