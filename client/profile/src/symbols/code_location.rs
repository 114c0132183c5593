//! Addresses of code that are looked up.

use shared_types::Mode;

/// Where samples were taken: an address of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CodeLocation {
    /// 0 in kernel mode, which all processes share.
    pub(crate) process: u32,
    pub(crate) mode: u8,
    pub(crate) ip: u64,
}

impl CodeLocation {
    pub(crate) const fn new(process: u32, ip: u64, mode: Mode) -> Self {
        let process = if matches!(mode, Mode::Kernel) { 0 } else { process };
        Self { process, ip, mode: mode as u8 }
    }

    pub(crate) fn mode(self) -> Mode {
        Mode::from_wire(self.mode.into()).unwrap_or(Mode::Unknown)
    }
}
