//! ESCR and CCCR, bit by bit.

use crate::cpu::event::Compare;
use bitfield_struct::bitfield;

/// ESCR 63:31.
pub(super) const ESCR_RESERVED: u64 = 0xFFFF_FFFF_8000_0000;
/// ESCR 1:0: reserved without Hyper-Threading.
pub(super) const ESCR_T1: u64 = 0x3;
/// CCCR 10:0, 29:28 and 63:32.
pub(super) const CCCR_RESERVED: u64 = 0xFFFF_FFFF_3000_07FF;
/// CCCR 11: the extended-cascade enable, if there is one.
pub(super) const CCCR_EXTENDED_CASCADE: u64 = 1 << 11;
/// CCCR 27: reserved without Hyper-Threading.
pub(super) const CCCR_OVF_PMI_T1: u64 = 1 << 27;

/// ACTIVE_THREAD 11b: count whichever thread is active.
const ANY_ACTIVE: u8 = 0b11;
/// ACTIVE_THREAD 10b: count while both threads are active.
const BOTH_ACTIVE: u8 = 0b10;

/// Event selection control register: what happens on which thread, in which mode.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(super) struct Escr {
    pub(super) t1_usr: bool,
    pub(super) t1_os: bool,
    /// USR without Hyper-Threading.
    pub(super) t0_usr: bool,
    /// OS without Hyper-Threading.
    pub(super) t0_os: bool,
    pub(super) tag_enable: bool,
    #[bits(4)]
    pub(super) tag_value: u8,
    pub(super) event_mask: u16,
    #[bits(6)]
    pub(super) event_select: u8,
    __: bool,
}

impl Escr {
    /// Whether user and kernel mode of `thread` count, if the event belongs to a thread.
    pub(super) fn modes(self, thread: usize) -> (bool, bool) {
        match thread {
            0 => (self.t0_usr(), self.t0_os()),
            _ => (self.t1_usr(), self.t1_os()),
        }
    }

    /// Whether user and kernel mode count, if the event is the package's: the bits merge.
    pub(super) fn merged_modes(self) -> (bool, bool) {
        (self.t0_usr() || self.t1_usr(), self.t0_os() || self.t1_os())
    }

    /// The thread whose clock is counted if clocks are counted regardless of mode: thread 1 if only
    /// that one is selected.
    pub(super) fn clock_thread(self) -> usize {
        let named = |(user, kernel): (bool, bool)| user || kernel;
        usize::from(named(self.modes(1)) && !named(self.modes(0)))
    }
}

/// Counter configuration control register.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub(super) struct Cccr {
    #[bits(11)]
    __: u16,
    /// Accepted, but has no effect: the model does not cascade.
    pub(super) extended_cascade: bool,
    pub(super) enable: bool,
    #[bits(3)]
    pub(super) escr_select: u8,
    #[bits(2)]
    pub(super) active_thread: u8,
    pub(super) compare: bool,
    pub(super) complement: bool,
    #[bits(4)]
    pub(super) threshold: u8,
    /// Has no meaning unless `compare` is set.
    pub(super) edge: bool,
    pub(super) force_ovf: bool,
    /// OVF_PMI_T0 and OVF_PMI_T1: one bit for each thread that gets the interrupt.
    #[bits(2)]
    pub(super) ovf_pmi: u8,
    #[bits(2)]
    __: u8,
    /// Accepted, but has no effect: the model does not cascade.
    pub(super) cascade: bool,
    pub(super) ovf: bool,
}

impl Cccr {
    /// Whether it counts when all `threads` of the package are active, which in the model they
    /// always are.
    pub(super) fn counts(self, threads: usize) -> bool {
        let active = self.active_thread();
        self.enable() && (active == ANY_ACTIVE || (active == BOTH_ACTIVE && threads == 2))
    }

    /// Whether it counts every clock, whatever its input: an input is never above 15.
    pub(super) fn counts_every_clock(self) -> bool {
        self.compare() && self.complement() && self.threshold() == 15
    }

    /// The comparison: above THRESHOLD, or with COMPLEMENT at most THRESHOLD.
    pub(super) fn comparison(self) -> Compare {
        if !self.compare() {
            return Compare::Off;
        }
        let above = u64::from(self.threshold());
        Compare::new(above + 1, self.complement(), self.edge())
    }
}
