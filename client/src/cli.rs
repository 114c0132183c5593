//! One command of the tool: where to measure, what it says, and how it ends.

mod args;
mod check;
mod doctor;
mod info;
mod install;
mod list;
mod machines;
mod measure;
mod output;
mod periods;
mod place;
mod record;
mod registers;
mod report;
mod runner;
mod stat;
mod stat_text;
mod uninstall;

use args::{Arguments, Commands};
use clap::Parser;
use clap::error::ErrorKind;
use halprof::{Connection, Error, Result};
use output::{Output, Told};
use place::Place;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the tool with these arguments, the program's name first.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parsed = match Arguments::try_parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return misused(&error, &arguments),
    };
    let output = Output::new(&parsed);
    match execute(&parsed, &output) {
        Ok(status) => ExitCode::from(status),
        Err(error) => output.fail(&error),
    }
}

/// What clap has to say: help and version as they are, all else as a usage error.
fn misused(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let own = arguments.iter().take_while(|&argument| argument != "--");
    if !own.clone().any(|argument| argument == "--json") {
        let _ = error.print();
        return ExitCode::from(2);
    }
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default();
    let usage = Error::usage(
        message.strip_prefix("error: ").unwrap_or(message),
        "`halprof help` and `halprof help COMMAND` show what there is.",
    );
    let driver = own
        .clone()
        .any(|argument| argument == "driver" || argument == "--machine=driver");
    Output::json(!driver && (cfg!(not(windows)) || own.clone().any(|a| a == "--machine")))
        .fail(&usage)
}

/// Does what the command says; answers the exit status of one that did not fail.
fn execute(arguments: &Arguments, output: &Output) -> Result<u8> {
    match &arguments.command {
        Commands::Machines => machines::run(output),
        Commands::Report(options) => report::run(options, output),
        Commands::Install(options) => install::run(options, output),
        Commands::Uninstall => uninstall::run(output),
        Commands::Doctor => doctor::run(arguments.machine(), output),
        Commands::Info => measuring(arguments, output, info::run),
        Commands::List(options) => measuring(arguments, output, |on, output| {
            list::run(options, on, output)
        }),
        Commands::Check(options) => measuring(arguments, output, |on, output| {
            check::run(options, on, output)
        }),
        Commands::Registers(options) => measuring(arguments, output, |on, output| {
            registers::run(options, on, output)
        }),
        Commands::Stat(options) => measuring(arguments, output, |on, output| {
            stat::run(options, on, output)
        }),
        Commands::Record(options) => measuring(arguments, output, |on, output| {
            record::run(options, on, output)
        }),
    }
}

/// What a command measures on.
struct On {
    connection: Connection<Place>,
    told: Told,
}

impl On {
    fn open(machine: &str) -> Result<Self> {
        let place = Place::open(machine)?;
        let description = place.description().map(str::to_owned);
        let connection = Connection::new(place)?;
        let told = Told {
            modelled: connection.modelled(),
            machine: description.unwrap_or_else(|| connection.answerer().to_owned()),
        };
        Ok(Self { connection, told })
    }
}

fn measuring(
    arguments: &Arguments,
    output: &Output,
    command: impl FnOnce(&mut On, &Output) -> Result<u8>,
) -> Result<u8> {
    let mut on = On::open(arguments.machine())?;
    output.note_model(&on.told);
    command(&mut on, output)
}

#[cfg(test)]
mod tests;
