//! The Amd64 interface: the 176 sources of Windows 10's HAL, whose event codes are K8's.

use shared_types::ProfileSource;

use super::amd64_events::{AmdGeneration, is_northbridge, meaning};
use super::{ANY, Fit, NO_COUNTER, Row, RowSelect};

const fn row(id: u32, symbol: &'static str, select: u64) -> Row {
    let event = (select & 0xFF) as u16;
    let (counters, fit, note) = if is_northbridge(event) {
        (
            NO_COUNTER,
            Fit::Northbridge,
            "one set of counters serves all cores of a node",
        )
    } else {
        (ANY, Fit::Exact, "")
    };
    Row {
        id: ProfileSource(id),
        symbol,
        select: RowSelect::EventSelect(select),
        counters,
        fixed: NO_COUNTER,
        fit,
        counts: first_name(event),
        note,
    }
}

/// The event's name on K8, or on family 10h where K8 has none; empty where neither has.
const fn first_name(event: u16) -> &'static str {
    match (
        meaning(AmdGeneration::K8, event),
        meaning(AmdGeneration::Family10h, event),
    ) {
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => "",
    }
}

/// The sources of Amd64, by number.
///
/// `counts` is the event's name on the processors that the table was made for; what the same select
/// counts on a later family is [`meaning`]'s answer. [`Fit::Exact`] says that the row is the HAL's
/// own, not that its name still holds.
///
/// Source: G. Chappell, "Hardware Performance Counters: AMD64"; the names are those that Windows
/// 10's tools print.
pub static ROWS: &[Row] = generated!("amd64");

const TIMER_NOTE: &str = "the HAL's table holds a select for it that is never programmed";

/// The name that Windows prints for a row in another spelling than the enumeration's.
pub(super) fn spelling(row: &Row) -> Option<&'static str> {
    let at = SPELLINGS
        .binary_search_by_key(&row.id.0, |(id, ..)| *id)
        .ok()?;
    let (_, symbol, name) = SPELLINGS.get(at)?;
    (*symbol == row.symbol).then_some(*name)
}

static SPELLINGS: &[(u32, &str, &str)] = generated!("amd64_spellings");
