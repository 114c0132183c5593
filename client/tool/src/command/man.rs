//! `halprof man`: manual pages generated from the definitions of the command line.

use crate::args::{self, Arguments};
use crate::codes::CODES;
use crate::output::Output;
use crate::{Error, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use halprof_measure::did_you_mean;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Manual {
    pages: Vec<Page>,
}

#[derive(JsonSchema, Serialize)]
struct Page {
    name: String,
    /// Where the page was written; null if it was not.
    file: Option<String>,
    /// The page itself, if it was not written to a file.
    text: Option<String>,
}

pub(crate) fn run(options: &args::Man, output: &Output) -> Result<u8> {
    let pages = pages()?;
    let pages = match &options.folder {
        Some(folder) => pages
            .into_iter()
            .map(|page| write(folder, page))
            .collect::<Result<_>>()?,
        None => vec![choose(pages, options.page.as_deref())?],
    };
    output.result("man", false, &Manual { pages }, |manual| {
        let one = |page: &Page| match (&page.file, &page.text) {
            (Some(file), _) => format!("{file}\n"),
            (None, text) => text.clone().unwrap_or_default(),
        };
        manual.pages.iter().map(one).collect()
    })?;
    Ok(0)
}

/// Every page, starting with that of the tool itself.
fn pages() -> Result<Vec<Page>> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
    std::iter::once(page(&command, true))
        .chain(commands.map(|one| page(one, false)))
        .collect()
}

fn page(command: &Command, tool: bool) -> Result<Page> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    let man = Man::new(command.clone()).manual("halprof");
    let mut text = Vec::new();
    let last = if tool { exit_statuses() } else { see_also() };
    let made = man
        .render(&mut text)
        .and_then(|()| last.to_writer(&mut text));
    made.map_err(Error::internal)?;
    Ok(Page {
        name: name.to_owned(),
        file: None,
        text: Some(without_date(&utf8(text)?)),
    })
}

/// Removes the date, so that the same sources give the same bytes. The renderer writes nothing in
/// its place, and readers would take the version for it.
fn without_date(page: &str) -> String {
    page.replacen(" 1  \"", " 1 \"\" \"", 1)
}

/// What each exit status means; the error codes that lead to it are added.
const STATUSES: [(u8, &str); 7] = [
    (0, "Done; with a PROGRAM, the program's own status instead."),
    (1, "halprof itself went wrong."),
    (2, "Bad usage."),
    (3, "No driver or machine to measure on."),
    (4, "Refused: not supported, does not fit, busy."),
    (
        5,
        "A file could not be read or written, or is not what it should be.",
    ),
    (6, "The driver or protocol is of another version."),
];

fn exit_statuses() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    // A code is to be typed as it is, so it must not be hyphenated at the end of a line.
    roff.control("nh", []);
    for (status, meaning) in STATUSES {
        let codes: Vec<&str> = CODES
            .iter()
            .filter(|code| code.status == status)
            .map(|code| code.name)
            .collect();
        let codes = match codes.as_slice() {
            [] => String::new(),
            codes => format!(" Codes: {}.", codes.join(", ")),
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

fn choose(pages: Vec<Page>, wanted: Option<&str>) -> Result<Page> {
    let wanted = match wanted {
        None | Some("halprof") => "halprof".to_owned(),
        Some(command) => format!("halprof-{command}"),
    };
    let names = pages
        .iter()
        .map(|page| page.name.trim_start_matches("halprof-"));
    let meant = did_you_mean(wanted.trim_start_matches("halprof-"), names);
    let mut pages = pages.into_iter();
    pages.find(|page| page.name == wanted).ok_or_else(|| {
        let meant = meant.map_or_else(String::new, |meant| meant + " ");
        Error::usage(
            format!("no page is called {wanted}"),
            format!("{meant}`halprof help` lists the commands; each has a page."),
        )
    })
}

fn write(folder: &Path, page: Page) -> Result<Page> {
    let path = folder.join(format!("{}.1", page.name));
    let unwritable = |error| Error::writing(&path, error);
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    std::fs::write(&path, page.text.unwrap_or_default()).map_err(unwritable)?;
    Ok(Page {
        name: page.name,
        file: Some(path.display().to_string()),
        text: None,
    })
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(Error::internal)
}
