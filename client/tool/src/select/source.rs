//! Profile sources: which processors count them, and what in a select is not the event.

use halprof_measure::Source;
use shared_types::request::machine::Processor;

/// USR, OS, INT and EN in a select.
pub(crate) const OWN_BITS: u64 = 0b11 << 16 | 1 << 20 | 1 << 22;

pub(crate) fn can_count(source: &Source, processor: &Processor) -> bool {
    let timer = source.flags & Source::TIMER != 0;
    timer || source.cpu_types.checked_shr(processor.cpu_type.into()).unwrap_or(0) & 1 != 0
}
