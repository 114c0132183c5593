//! The Amd64 interface: the 176 sources of Windows 10's HAL, whose event codes are K8's.

use shared_types::ProfileSource;

use super::amd64_events::{first_name, is_northbridge};
use super::{ANY, Fit, NO_COUNTER, Row, Select};

/// `northbridge`: the note for rows that the northbridge counts.
const fn row(id: u32, symbol: u16, select: u64, northbridge: u16) -> Row {
    let event = (select & 0xFF) as u16;
    let (counters, fit, note) = if is_northbridge(event) {
        (NO_COUNTER, Fit::Northbridge, northbridge)
    } else {
        (ANY, Fit::Exact, 0)
    };
    Row {
        id: ProfileSource(id),
        symbol,
        select: Select::EventSelect(select),
        counters,
        fixed: NO_COUNTER,
        fit,
        counts: first_name(event),
        note,
    }
}

/// The sources of Amd64, by number.
///
/// [`Row::counts`] is the event's name on the processors for which the table was made;
/// [`meaning`](super::amd64_events::meaning) says what the same select counts on a later family.
/// [`Fit::Exact`] means that the row is the HAL's own, not that its name still applies.
///
/// Source: G. Chappell, "Hardware Performance Counters: AMD64"; the names are as Windows 10's tools
/// print them.
pub static ROWS: &[Row] = generated!("amd64");

/// The name that Windows prints for a row, if its spelling differs from the enumeration's.
pub(super) fn spelling(row: &Row) -> Option<&'static str> {
    let at = SPELLINGS.binary_search_by_key(&row.id.0, |(id, ..)| *id).ok()?;
    let (_, symbol, name) = SPELLINGS.get(at)?;
    (*symbol == row.symbol()).then_some(*name)
}

static SPELLINGS: &[(u32, &str, &str)] = generated!("amd64_spellings");
