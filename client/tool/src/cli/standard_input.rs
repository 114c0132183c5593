//! `-` as the name of a file to read: standard input. Files are read more than once and not in order,
//! so what comes is kept in a file while the command runs.

use crate::cli::args::Commands;
use crate::output::error::{Error, Result};
use halprof_measure::Error as Measure;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::iter;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// As long as the longest file of halprof's own tracing.
const BYTES_MAX: u64 = 4 << 30;

/// The name of standard input on a command line.
const NAME: &str = "-";

/// What messages call it.
const SHOWN: &str = "standard-input";

/// Copies standard input to a file if a command reads it, and has the command read that file. The file
/// is there as long as its folder, which is returned.
pub(crate) fn kept(command: &mut Commands) -> Result<Option<TempDir>> {
    let beside = written_beside(command);
    let mut named: Vec<&mut PathBuf> =
        files(command).into_iter().filter(|file| **file == *NAME).collect();
    let file = match named.as_mut_slice() {
        [] => return Ok(None),
        [file] => file,
        _ => {
            return Err(Error::usage(
                "standard input can be read only once",
                "Name one of the files `-`, and the others by their names.",
            ));
        }
    };
    if let Some(option) = beside {
        return Err(Error::usage(
            format!("{option} writes beside the file that it reads, and `-` is beside nothing"),
            "Name the file to write: `halprof export - -o OUT`.",
        ));
    }
    if io::stdin().is_terminal() {
        return Err(Error::usage(
            "`-` is standard input, which is a terminal here",
            "Have another program write to it, as in `ssh HOST cat FILE | halprof report -`.",
        ));
    }
    let folder = tempfile::Builder::new().prefix("halprof-").tempdir();
    let folder = folder.map_err(|error| Measure::writing(std::env::temp_dir(), error))?;
    **file = folder.path().join(SHOWN);
    copy(io::stdin().lock(), file, BYTES_MAX)?;
    Ok(Some(folder))
}

fn copy(from: impl Read, to: &Path, most: u64) -> Result<()> {
    let mut file = File::create_new(to).map_err(|error| Measure::writing(to, error))?;
    let copied = io::copy(&mut from.take(most + 1), &mut file);
    if copied.map_err(|error| Measure::writing(to, error))? > most {
        return Err(Measure::bad_file(
            SHOWN,
            format!("is longer than {} GiB", most >> 30),
            "Write it to a file, and name that.",
        )
        .into());
    }
    Ok(())
}

/// The recordings, traces and results that a command reads.
fn files(command: &mut Commands) -> Vec<&mut PathBuf> {
    match command {
        Commands::Report(options) => options.files.iter_mut().chain(&mut options.diff).collect(),
        Commands::Annotate(options) => {
            iter::once(&mut options.file).chain(&mut options.with).collect()
        }
        Commands::Script(options) => vec![&mut options.file],
        Commands::Timeline(options) => vec![&mut options.file],
        Commands::Convert(options) => options.files.iter_mut().collect(),
        Commands::Export(options) => options.files.iter_mut().collect(),
        Commands::Stat(options) => options.from.iter_mut().chain(&mut options.diff.diff).collect(),
        Commands::Simulate(options) => options.diff.diff.iter_mut().collect(),
        _ => Vec::new(),
    }
}

/// What has a command write beside the file that it reads.
fn written_beside(command: &Commands) -> Option<&'static str> {
    match command {
        Commands::Export(options) if options.output.is_none() => Some("`export` without `-o`"),
        Commands::Report(options) if options.open => Some("`report --open`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        copy(&b"1234"[..], &file, 4).expect("copied");
        assert_eq!(std::fs::read(&file).expect("a file"), b"1234");
        let error = copy(&b"12345"[..], &folder.path().join("other"), 4).expect_err("too long");
        assert_eq!(error.code(), "bad-file");
    }
}
