//! The console: has escape sequences interpreted, not printed.
//!
//! Windows Terminal does so by itself, conhost only on request. The output code page is left alone:
//! the standard library writes UTF-16 to a console whatever the page, and a program after `--`
//! shares the page with the tool.

use windows_sys::Win32::Foundation::{FALSE, HANDLE};
use windows_sys::Win32::System::Console::{
    CONSOLE_MODE, ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, GetStdHandle,
    STD_ERROR_HANDLE, STD_OUTPUT_HANDLE, SetConsoleMode,
};

/// The console's previous modes, which are restored when this is dropped.
pub struct Console {
    before: Vec<(HANDLE, CONSOLE_MODE)>,
}

impl Console {
    /// Prepares the targets of standard output and standard error, if they are consoles.
    #[must_use]
    pub fn prepare() -> Self {
        // SAFETY: takes a number and returns a handle, or an invalid one, which is refused below.
        let handles = [STD_OUTPUT_HANDLE, STD_ERROR_HANDLE].map(|id| unsafe { GetStdHandle(id) });
        let prepared = |&handle: &HANDLE| {
            let mode = mode(handle)?;
            let with_sequences = mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING;
            (mode != with_sequences && set(handle, with_sequences)).then_some((handle, mode))
        };
        Self { before: handles.iter().filter_map(prepared).collect() }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // Both handles may refer to one console: in reverse, the mode saved first is restored last.
        for &(handle, mode) in self.before.iter().rev() {
            set(handle, mode);
        }
    }
}

/// The mode of a handle, if it is a console's.
fn mode(handle: HANDLE) -> Option<CONSOLE_MODE> {
    let mut mode = 0;
    // SAFETY: a handle that is no console's is refused; `mode` is valid for a write.
    let done = unsafe { GetConsoleMode(handle, &raw mut mode) };
    (done != FALSE).then_some(mode)
}

fn set(handle: HANDLE, mode: CONSOLE_MODE) -> bool {
    // SAFETY: a handle that is no console's is refused.
    let done = unsafe { SetConsoleMode(handle, mode) };
    done != FALSE
}
