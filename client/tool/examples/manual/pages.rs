//! The manual pages, generated from the definitions of the command line.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

/// Every page with its name, starting with that of the tool itself.
pub(crate) fn pages() -> io::Result<Vec<(String, String)>> {
    let mut command = halprof::documents::command().disable_help_subcommand(true);
    command.build();
    let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
    std::iter::once(page(&command, true)).chain(commands.map(|one| page(one, false))).collect()
}

fn page(command: &Command, tool: bool) -> io::Result<(String, String)> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut text = Vec::new();
    Man::new(command.clone()).manual("halprof").render(&mut text)?;
    let last = if tool { exit_statuses() } else { see_also() };
    last.to_writer(&mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    Ok((name.to_owned(), without_date(&text)))
}

/// Removes the date, so that the same sources give the same bytes. The renderer writes nothing in
/// its place, and readers would take the version for it.
fn without_date(page: &str) -> String {
    page.replacen(" 1  \"", " 1 \"\" \"", 1)
}

/// What each exit status means, and the error codes that lead to it.
fn exit_statuses() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    // A code is to be typed as it is, so it must not be hyphenated at the end of a line.
    roff.control("nh", []);
    for (status, meaning) in halprof::documents::statuses() {
        let codes = halprof::documents::codes(status);
        let codes = match codes.as_slice() {
            [] => String::new(),
            codes => format!(" ({})", codes.join(", ")),
        };
        roff.control("TP", []);
        roff.text([bold(status.to_string())]);
        roff.text([roman(format!("{meaning}{codes}"))]);
    }
    roff
}

fn see_also() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("halprof"), roman("(1), for the exit statuses")]);
    roff
}
