//! The modes in which a source counts.

use shared_types::request::session::Spec;
use zerocopy::FromZeros;

/// The modes in which a source counts: at least one. All zeros: no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Filter {
    /// CPL 3.
    pub user: bool,
    /// CPL 0.
    pub kernel: bool,
}

impl Filter {
    /// Every mode.
    pub const BOTH: Self = Self { user: true, kernel: true };

    /// The filter for the bits of a request; `None` if no mode is set or an unknown bit is.
    pub const fn from_wire(bits: u16) -> Option<Self> {
        if bits == 0 || bits & !(Spec::USER | Spec::KERNEL) != 0 {
            return None;
        }
        Some(Self { user: bits & Spec::USER != 0, kernel: bits & Spec::KERNEL != 0 })
    }
}
