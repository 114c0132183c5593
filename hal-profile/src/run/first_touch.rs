//! How [`probe`](super::probe) touches a register for the first time.

/// A register that a session uses on one processor, and how it is touched first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstTouch {
    /// The register, or the first of a row of equal ones.
    pub(crate) msr: u32,
    /// How many there are in the row.
    pub(crate) count: u32,
    /// It is read.
    pub(crate) reads: bool,
    pub(crate) write: Option<FirstWrite>,
}

/// The first write of a register, and what it is left as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstWrite {
    /// The bits that change; the others are written as read.
    pub(crate) mask: u64,
    /// What is written there.
    pub(crate) value: u64,
    /// What they are left as; `None`: as found.
    pub(crate) left: Option<u64>,
    /// It is the select of the counter that is touched next.
    pub(crate) select: bool,
}

impl FirstTouch {
    /// Only reads.
    pub(crate) const fn read(msr: u32) -> Self {
        Self { msr, count: 1, reads: true, write: None }
    }

    /// Only reads a row of registers.
    pub(crate) const fn read_row(msr: u32, count: u32) -> Self {
        Self { count, ..Self::read(msr) }
    }

    /// Clears a row of registers.
    pub(crate) const fn clear_row(msr: u32, count: u32) -> Self {
        Self { count, ..Self::own(msr, 0, 0) }
    }

    /// Writes these bits, and reads nothing.
    pub(crate) const fn acknowledge(msr: u32, bits: u64) -> Self {
        let write = FirstWrite { mask: u64::MAX, value: bits, left: Some(bits), select: false };
        Self { msr, count: 1, reads: false, write: Some(write) }
    }

    /// Writes `value`, then `left`.
    pub(crate) const fn own(msr: u32, value: u64, left: u64) -> Self {
        Self::part(msr, u64::MAX, value, Some(left))
    }

    /// Writes `value` to the bits of `mask`, then all as found.
    pub(crate) const fn borrow(msr: u32, mask: u64, value: u64) -> Self {
        Self::part(msr, mask, value, None)
    }

    /// Writes `value` to the bits of `mask`, then `left`, or as found.
    pub(crate) const fn part(msr: u32, mask: u64, value: u64, left: Option<u64>) -> Self {
        let write = FirstWrite { mask, value, left, select: false };
        Self { msr, count: 1, reads: true, write: Some(write) }
    }

    /// A select: writes `value`, then `off`. Its counter comes next.
    pub(crate) const fn select(msr: u32, value: u64, off: u64) -> Self {
        let write = FirstWrite { mask: u64::MAX, value, left: Some(off), select: true };
        Self { msr, count: 1, reads: true, write: Some(write) }
    }
}
