//! `halprof list --event-format`: the vendor's events as a file for Windows' own tracing.

use super::search::Search;
use crate::cli::args::{self, EventFormat};
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::target::context::Context;
use halprof_measure::tracing::session::custom::{CustomSources, Form};

pub(super) fn run(
    options: &args::List,
    format: EventFormat,
    ctx: &mut Context,
    output: &Output,
) -> Result<u32> {
    if !output.is_text() {
        return Err(Error::usage(
            "`--event-format` writes a file to standard output, which another form cannot share",
            "Leave out `--json`, `--jsonl` or `--csv`.",
        ));
    }
    let mut catalog = ctx.catalog(options.approximate)?;
    if let Some(path) = &options.event_file {
        catalog = catalog.with_event_file(path)?;
    }
    let search = Search::new(options.pattern.as_deref());
    let is_found = |name: &str| search.finds(&[name], &[&catalog.meaning(name)]);
    let (form, to_use) = match format {
        EventFormat::Wprp => (
            Form::RecordingProfile,
            "as an administrator: `wpr -start FILE.wprp`, then `wpr -stop RESULT.etl`",
        ),
        EventFormat::Reg => (
            Form::Registry,
            "open the file with regedit as an administrator and restart Windows: then `--machine etw` has the events by their names",
        ),
    };
    let sources = CustomSources::new(&catalog, form, is_found)?;
    output.print_data(&sources.to_string())?;
    output.note(&format!("{}; the file names them", sources.summary()));
    output.note(to_use);
    Ok(0)
}
