//! The Default interface: ProfileTime only, no counters.

use super::{Row, Select};

/// The one source of the Default interface.
///
/// Source: G. Chappell, "Hardware Performance Counters" (HAL of Windows 10).
pub static ROWS: &[Row] = &[Row::timer(Select::None)];
