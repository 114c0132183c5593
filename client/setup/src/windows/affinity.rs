//! On which processors a thread runs.

use std::marker::PhantomData;
use windows_sys::Win32::Foundation::FALSE;
use windows_sys::Win32::System::SystemInformation::GROUP_AFFINITY;
use windows_sys::Win32::System::Threading::{GetCurrentThread, SetThreadGroupAffinity};

/// Keeps this thread on one processor until it is dropped.
pub struct Pinned {
    before: GROUP_AFFINITY,
    /// Only the thread itself can move back.
    thread: PhantomData<*const ()>,
}

impl Pinned {
    /// Moves this thread to a processor of a group; `None` if Windows refused.
    pub fn to(group: u16, number: u16) -> Option<Self> {
        let mask = 1_usize.checked_shl(number.into())?;
        move_to(group, mask).map(|before| Self { before, thread: PhantomData })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        move_to(self.before.Group, self.before.Mask);
    }
}

/// Restricts this thread to these processors of a group; returns those that it had before, or `None`
/// if Windows refused.
pub(super) fn move_to(group: u16, mask: usize) -> Option<GROUP_AFFINITY> {
    let mut before = GROUP_AFFINITY::default();
    let affinity = GROUP_AFFINITY { Mask: mask, Group: group, ..GROUP_AFFINITY::default() };
    // SAFETY: takes no argument; the pseudo handle needs no closing.
    let thread = unsafe { GetCurrentThread() };
    // SAFETY: the handle is this thread's; `affinity` is valid for reads, `before` for a write.
    let done = unsafe { SetThreadGroupAffinity(thread, &raw const affinity, &raw mut before) };
    (done != FALSE).then_some(before)
}
