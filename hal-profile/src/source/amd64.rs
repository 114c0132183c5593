//! The Amd64 interface: the 176 sources of Windows 10's HAL, whose event codes are K8's.

use shared_types::ProfileSource;

use super::amd64_events::is_northbridge;
use super::{ANY, Fit, NO_COUNTER, Row, Select};

const fn row(id: u32, select: u64) -> Row {
    let event = (select & 0xFF) as u16;
    let (counters, fit) =
        if is_northbridge(event) { (NO_COUNTER, Fit::Northbridge) } else { (ANY, Fit::Exact) };
    Row {
        id: ProfileSource(id),
        select: Select::EventSelect(select),
        counters,
        fixed: NO_COUNTER,
        fit,
    }
}

/// The sources of Amd64, by number.
///
/// [`Fit::Exact`] means that the row is the HAL's own, not that its name still applies: see
/// [`amd64_events`](super::amd64_events).
///
/// Source: G. Chappell, "Hardware Performance Counters: AMD64".
pub static ROWS: &[Row] = generated!("amd64");
