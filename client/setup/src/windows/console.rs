//! The console: escape sequences are drawn and not printed.
//!
//! Windows Terminal does so by itself, conhost only when asked. The output code page is left alone:
//! the standard library gives a console UTF-16 whatever the page, and a program behind `--` shares
//! the page with the tool.

use windows_sys::Win32::Foundation::{FALSE, HANDLE};
use windows_sys::Win32::System::Console::{
    CONSOLE_MODE, ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, GetStdHandle,
    STD_ERROR_HANDLE, STD_OUTPUT_HANDLE, SetConsoleMode,
};

/// The modes that the console had before; it gets them back when this is dropped.
pub struct Console {
    before: Vec<(HANDLE, CONSOLE_MODE)>,
}

impl Console {
    /// Prepares what standard output and standard error go to, where that is a console.
    #[must_use]
    pub fn prepare() -> Self {
        // SAFETY: takes a number and answers a handle, or an invalid one, which is refused below.
        let handles = [STD_OUTPUT_HANDLE, STD_ERROR_HANDLE].map(|id| unsafe { GetStdHandle(id) });
        let prepared = |&handle: &HANDLE| {
            let mode = mode(handle)?;
            let wanted = mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING;
            (mode != wanted && set(handle, wanted)).then_some((handle, mode))
        };
        Self {
            before: handles.iter().filter_map(prepared).collect(),
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // Both handles may be of one console: the first was changed first.
        for &(handle, mode) in self.before.iter().rev() {
            set(handle, mode);
        }
    }
}

/// The mode, where the handle is a console's.
fn mode(handle: HANDLE) -> Option<CONSOLE_MODE> {
    let mut mode = 0;
    // SAFETY: a handle that is not a console's is refused; `mode` is valid for a write.
    let done = unsafe { GetConsoleMode(handle, &raw mut mode) };
    (done != FALSE).then_some(mode)
}

fn set(handle: HANDLE, mode: CONSOLE_MODE) -> bool {
    // SAFETY: a handle that is not a console's is refused.
    let done = unsafe { SetConsoleMode(handle, mode) };
    done != FALSE
}
