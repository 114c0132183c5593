//! Opens a page in the user's browser. No server: the browser reads the file.

use crate::output::Output;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Opens a page, or says where it is and why it is not opened: it is written in either case.
pub(crate) fn open(page: &Path, output: &Output) {
    let shown = page.display();
    match refusal() {
        Some(why) => output.note(&format!("page: {shown} (not opened: {why})")),
        None => match start(page) {
            Ok(_) => output.note(&format!("page: {shown}, opened in the browser")),
            Err(error) => output.warn(&format!("{shown} is written, but not opened: {error}")),
        },
    }
}

/// Why nothing is opened. A browser that an elevated process starts is elevated too, and so is each page
/// that is opened in it later. SYSTEM, which is elevated, has no desktop.
fn refusal() -> Option<&'static str> {
    if !io::stdout().is_terminal() {
        return Some("standard output is no terminal");
    }
    #[cfg(windows)]
    if halprof_measure::elevated() != Some(false) {
        return Some("this prompt is elevated, and the browser would be, too");
    }
    None
}

/// Explorer opens a file with the program that its user chose.
#[cfg(windows)]
fn start(page: &Path) -> io::Result<Child> {
    use std::os::windows::process::CommandExt;
    let page = std::path::absolute(page)?;
    let windows = std::env::var_os("SystemRoot").unwrap_or_else(|| "C:\\Windows".into());
    // Without quotes, Explorer ends a path at a comma. No path has quotes of its own.
    let quoted = format!("\"{}\"", page.display());
    detached(Command::new(Path::new(&windows).join("explorer.exe")).raw_arg(quoted))
}

#[cfg(not(windows))]
fn start(page: &Path) -> io::Result<Child> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = detached(Command::new(program).arg(std::path::absolute(page)?));
    started.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))
}

/// Starts a program that says nothing here and outlives this one.
fn detached(command: &mut Command) -> io::Result<Child> {
    // Neither Ctrl-C nor the end of the terminal is meant for it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
