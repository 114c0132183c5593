//! P6 family counters (SDM vol. 3, "Performance Monitoring (P6 Family Processor)").
//!
//! PerfEvtSel0 and 1 have the addresses of IA32_PERFEVTSEL0 and 1 and the layout of
//! [`crate::cpu::registers::intel::PerfEvtSel`], but EN exists in PerfEvtSel0 only and gates both counters.

/// Width of both counters; a write takes the low 32 bits, sign-extended.
pub const COUNTER_WIDTH: u8 = 40;
/// Number of counters.
pub const COUNTERS: u8 = 2;
