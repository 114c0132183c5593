//! The console tool: turns arguments into library calls, and results into text or JSON.
//!
//! [`run`] is the tool. [`run_with`] is the same with another way to open what `--machine` names,
//! so that every command runs on any transport.
#![expect(
    clippy::format_push_string,
    reason = "a report is a few lines; writing into a String has no error to handle"
)]

mod cli;
mod command;
pub mod documents;
mod metrics;
mod model;
pub mod output;
mod results;
mod run;
#[cfg(test)]
#[path = "../tests/screens/screen.rs"]
mod screen;
mod select;
pub mod target;

use crate::cli::habits;
use crate::output::error::{Error, Result};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use cli::args::{self, Arguments, Commands};
use cli::{help, standard_input};
use command::{
    annotate, check, completions, convert, doctor, explain, export, info, installation, list,
    machines, rdpmc, record, registers, report, script, simulate, stat, timeline, top,
};
use halprof_measure::text_file;
use output::table::Width;
use output::{Form, Output};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use target::backend::{Backend, DRIVER, DRIVER_OR_ETW, ETW};
use target::context::Context;

/// Runs the tool with these arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let status = {
        #[cfg(windows)]
        halprof_setup::windows::library::load_from_system32_only();
        #[cfg(windows)]
        let _restored_at_the_end = halprof_setup::windows::console::Console::prepare();
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        completions::answer(&arguments).unwrap_or_else(|| status(arguments, &Backend::open))
    };
    exit_code(status)
}

/// Opens what `--machine` names.
pub type Opener<'a> = &'a dyn Fn(&str) -> Result<Backend>;

/// Runs the tool with these arguments, the program's name first, on what `open` opens.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>, open: Opener<'_>) -> ExitCode {
    exit_code(status(arguments, open))
}

/// Everything has been printed and released by now. An exit status on Windows has 32 bits, and only
/// `exit` passes on all of them.
fn exit_code(status: u32) -> ExitCode {
    match u8::try_from(status) {
        Ok(status) => ExitCode::from(status),
        Err(_) => std::process::exit(status.cast_signed()),
    }
}

fn status(arguments: impl IntoIterator<Item = OsString>, open: Opener<'_>) -> u32 {
    let given: Vec<OsString> = arguments.into_iter().collect();
    let arguments = match expanded(&given) {
        Ok(arguments) => arguments,
        Err(error) => return before_parsing(&given).fail(&error),
    };
    if arguments.ends_with(&["help".into(), "workload".into()]) {
        let text = Width::of(args::width(&arguments)).fitted(help::WORKLOAD);
        let printed = Output::text().print(&format!("{text}\n"));
        return printed.map_or_else(|error| Output::text().fail(&error), |()| 0);
    }
    let mut parsed = match Arguments::parse_from(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return misused(&with_advice(error, &arguments), &arguments),
    };
    let output = output(&parsed);
    if parsed.csv && (parsed.json || parsed.json_lines) {
        let both = Error::usage("`--csv` and JSON together", "Ask for one of them.");
        return output.fail(&both);
    }
    let kept = standard_input::kept(&mut parsed.command);
    let done = kept.and_then(|_file| execute(&parsed, open, &output));
    done.unwrap_or_else(|error| output.fail(&error))
}

/// The arguments, with each `@FILE` replaced by the arguments in that file, one per line; `@@NAME` is
/// the argument `@NAME`. `/?` and `-?` after a command ask for its help. An argument that is the name of a file as it stands is left alone: `*.rec`
/// makes one of each file there, and whoever made those could have the rest read as options.
fn expanded(given: &[OsString]) -> Result<Vec<OsString>> {
    let own = given.iter().take_while(|&argument| argument != "--").count();
    let mut all = Vec::new();
    for (index, argument) in given.iter().enumerate() {
        let file = argument.to_str().and_then(|text| text.strip_prefix('@'));
        // The name itself, which a shell gives for a link that leads nowhere too.
        let is_name = || std::fs::symlink_metadata(argument).is_ok();
        let asks_for_help = index > 1 && index < own && (argument == "/?" || argument == "-?");
        match file.filter(|file| index < own && !file.is_empty() && !is_name()) {
            _ if asks_for_help => all.push("--help".into()),
            Some(name) if name.starts_with('@') => all.push(name.into()),
            Some(file) => {
                let text = std::fs::read(file).and_then(text_file::decode_or_invalid);
                let text = text.map_err(|error| unreadable(file, &error))?;
                all.extend(text.lines().filter(|line| !line.is_empty()).map(OsString::from));
            }
            None => all.push(argument.clone()),
        }
    }
    Ok(all)
}

/// `@FILE` whose FILE cannot be read: it may have been meant as a name, such as a symbol's.
fn unreadable(file: &str, error: &io::Error) -> Error {
    let why = format!("{error}; for the argument `@{file}` write `@@{file}`");
    halprof_measure::Error::reading(file, io::Error::new(error.kind(), why)).into()
}

fn output(arguments: &Arguments) -> Output {
    let form = match (arguments.json_lines, arguments.json, arguments.csv) {
        (true, ..) => Form::JsonLines,
        (false, true, _) => Form::Json,
        (false, false, true) => Form::Csv,
        (false, false, false) => Form::Text,
    };
    Output::new(form, arguments.quiet, Width::of(arguments.width))
}

/// How to report errors before the arguments are parsed.
fn before_parsing(arguments: &[OsString]) -> Output {
    let own = || arguments.iter().take_while(|&argument| argument != "--");
    let lines = own().any(|argument| argument == "--jsonl");
    if !lines && !own().any(|argument| argument == "--json") {
        return Output::text();
    }
    Output::json(lines)
}

/// Prints clap's messages: help and version unchanged, anything else as a usage error.
fn misused(error: &clap::Error, arguments: &[OsString]) -> u32 {
    let output = before_parsing(arguments);
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        if output.is_json() {
            let text =
                Error::usage("help and version are text", "Leave out `--json` and `--jsonl`.");
            return output.fail(&text);
        }
        return match error.print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Output::text().fail(&Error::Output(error))
            }
            _ => 0,
        };
    }
    if !output.is_json() {
        output.misused(error);
        return 2;
    }
    let usage = Error::usage(
        on_one_line(error),
        "`halprof help` and `halprof help COMMAND` show what there is.",
    );
    output.fail(&usage)
}

/// What to use instead of what an option excludes.
const INSTEAD: [(&str, &str); 2] = [
    (
        "--from ",
        "the trace says what was measured and where; `--cpu`, `--pid`, `--by`, `--interval` and \
         `--metric` choose what to show",
    ),
    ("--off-cpu", "waits have no samples; `--pid` chooses whose waits are shown"),
];

/// The same error with advice on what to do.
fn with_advice(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if let Some(advice) = habits::advice(arguments, invalid_argument(&error)) {
        // A name that is spelled alike is another thing.
        for kind in [
            ContextKind::SuggestedArg,
            ContextKind::SuggestedSubcommand,
            ContextKind::SuggestedValue,
            ContextKind::Usage,
        ] {
            error.remove(kind);
        }
        let advice = ContextValue::StyledStrs(vec![advice.into()]);
        error.insert(ContextKind::Suggested, advice);
        return error;
    }
    let advice = match error.kind() {
        ErrorKind::ArgumentConflict => instead(&error),
        ErrorKind::UnknownArgument => {
            // clap would have an unknown option run as the program.
            error.remove(ContextKind::Suggested);
            program_without_dashes(&error, arguments)
        }
        _ => None,
    };
    if let Some(advice) = advice {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

/// Advice on options that exclude each other.
fn instead(error: &clap::Error) -> Option<String> {
    let named = [ContextKind::InvalidArg, ContextKind::PriorArg];
    let named: Vec<String> =
        named.iter().filter_map(|kind| error.get(*kind)).map(ToString::to_string).collect();
    let (_, advice) =
        INSTEAD.iter().find(|(option, _)| named.iter().any(|name| name.starts_with(option)))?;
    Some((*advice).to_owned())
}

/// The argument that clap refuses.
fn invalid_argument(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => Some(argument),
        _ => None,
    }
}

/// Advice on a program without `--` before it.
fn program_without_dashes(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    const TAKE_A_PROGRAM: [&str; 4] = ["stat", "record", "timeline", "rdpmc"];
    let unknown = invalid_argument(error).filter(|unknown| !unknown.starts_with('-'))?;
    let mut commands = arguments.iter().filter_map(|argument| argument.to_str());
    let command = commands.find(|argument| TAKE_A_PROGRAM.contains(argument))?;
    Some(format!("put `--` before the program: halprof {command} -- {unknown}"))
}

/// What clap says is wrong, without the usage that it adds.
fn on_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let message = text.split("\nUsage:").next().unwrap_or_default();
    let message = message.split("\nFor more information").next();
    let words = message.unwrap_or_default().split_whitespace();
    let line = words.collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// Executes the command; returns the exit status if it did not fail, which is that of the program
/// if it ran one.
fn execute(arguments: &Arguments, open: Opener<'_>, output: &Output) -> Result<u32> {
    let backend = || open(arguments.machine());
    let given_machine = arguments.given_machine.as_deref();
    let measuring = |command: &dyn Fn(&mut Context) -> Result<u32>| {
        let mut ctx = Context::open(backend()?)?;
        output.note_model(&ctx.machine_info);
        command(&mut ctx).map_err(|error| ctx.explained(error))
    };
    match &arguments.command {
        Commands::Info => measuring(&|ctx| info::run(ctx, output)),
        Commands::List(options) => measuring(&|ctx| list::run(options, ctx, output)),
        Commands::Check(options) => measuring(&|ctx| check::run(options, ctx, output)),
        Commands::Stat(options) => match &options.from {
            Some(file) => stat::from_trace::run(options, file, output),
            None => measuring(&|ctx| stat::run(options, ctx, output)),
        },
        Commands::Record(options) => measuring(&|ctx| record::run(options, ctx, output)),
        Commands::Registers(options) => measuring(&|ctx| registers::run(options, ctx, output)),
        Commands::Rdpmc(options) => measuring(&|ctx| rdpmc::run(options, ctx, output)),
        Commands::Top(options) => measuring(&|ctx| top::run(options, ctx, output)),
        Commands::Simulate(options) => simulate::run(options, given_machine, output),
        Commands::Timeline(options) => timeline::run(options, given_machine, output),
        Commands::Machines(options) => machines::run(options, output),
        Commands::Report(options) => report::run(options, output),
        Commands::Script(options) => script::run(options, output),
        Commands::Export(options) => export::run(options, output),
        Commands::Convert(options) => convert::run(options, output),
        Commands::Annotate(options) => annotate::run(options, output),
        Commands::Install(options) => installation::install(options, output),
        Commands::Explain(options) => explain::run(options.topic.as_deref(), backend, output),
        Commands::Completions(options) => completions::run(options, output),
        Commands::Start => installation::start(output),
        Commands::Stop => installation::stop(output),
        Commands::Uninstall(options) => installation::uninstall(options, output),
        Commands::Doctor(options) => {
            let here = [DRIVER, ETW, DRIVER_OR_ETW].contains(&arguments.machine());
            doctor::run(options, backend(), here, output)
        }
    }
}

#[cfg(test)]
mod tests;
