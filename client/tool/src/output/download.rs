//! Downloads of symbols, with their progress on a terminal.

use crate::output::Output;
use halprof_profile::symbols::Fetch;
#[cfg(not(windows))]
use halprof_setup::curl::fetch;
#[cfg(windows)]
use halprof_setup::windows::download::fetch;
use std::fs::File;

/// How servers are asked: with progress where the output shows it.
pub(crate) fn by(output: &Output) -> Fetch {
    if output.progress(None).is_hidden() { silently } else { with_progress }
}

/// A failed download, without which names are missing. JSON has it in its notes.
pub(crate) fn tell_failure(line: &str) {
    Output::text().warn(line);
}

fn silently(url: &str, file: &mut File) -> Result<bool, String> {
    fetch(url, file, &|_| ())
}

fn with_progress(url: &str, file: &mut File) -> Result<bool, String> {
    let name = url.rsplit('/').next().unwrap_or(url);
    let bar = Output::text().progress(None);
    bar.set_message(format!("asking for {name}"));
    let fetched = fetch(url, file, &|bytes| {
        bar.set_message(format!("downloading {name}, {} KiB", bytes >> 10));
    });
    bar.finish_and_clear();
    fetched
}
