//! `halprof completions`: a script by which a shell asks halprof itself what may stand at the cursor. One
//! mechanism serves all shells, and the names are those of the machine that the command line names, with
//! the vendor's events: a script that lists them would be of one machine, and of half a megabyte.

use crate::cli::args::{self, Arguments, DEFAULT_MACHINE, MACHINE};
use crate::metrics::Metrics;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::error_codes::Code;
use crate::target::backend::{Backend, DRIVER, ETW};
use crate::target::context::Context;
use clap::Command;
use clap_complete::env::Shells;
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, PathCompleter};
use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_profile::aggregate::key::Key;
use halprof_profile::views::branches::Grouping;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// The variable by which the script says that a shell asks, and which shell it is.
const VARIABLE: &str = "HALPROF_COMPLETE";

#[derive(JsonSchema, Serialize)]
pub(crate) struct CompletionsResult {
    shell: String,
    script: String,
}

pub(crate) fn run(options: &args::Completions, output: &Output) -> Result<u32> {
    let shell = options.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell);
    let completer = completer.ok_or_else(|| Error::internal(format!("no script for {shell}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "halprof", "halprof", "halprof", &mut script)
        .map_err(Error::internal)?;
    let script = String::from_utf8(script).map_err(Error::internal)?;
    let result = CompletionsResult { shell, script };
    output.result("completions", &result, |result| result.script.clone())?;
    Ok(0)
}

/// Answers a shell that asks, and returns the exit status; `None` if none asks. A shell shows nothing of
/// an error, because it would stand in the command line.
pub(crate) fn answer(arguments: &[OsString]) -> Option<u32> {
    let command = || completed(Arguments::definition(), &machine_of(arguments));
    let folder = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(VARIABLE);
    match asked.try_complete(arguments.iter().cloned(), folder.as_deref()) {
        Ok(true) => Some(0),
        Ok(false) => None,
        Err(_) => Some(2),
    }
}

/// What the command line that is completed names as `--machine`. The script puts it after `--`, and a
/// program's own options are after another.
fn machine_of(arguments: &[OsString]) -> String {
    let line = arguments.split(|one| one == "--").nth(1).unwrap_or_default();
    let mut words = line.iter().filter_map(|word| word.to_str());
    let option = format!("--{MACHINE}");
    let named = words.find_map(|word| {
        let value = word.strip_prefix(&option)?;
        if value.is_empty() { Some(None) } else { value.strip_prefix('=').map(Some) }
    });
    named.and_then(|value| value.or_else(|| words.next())).unwrap_or(DEFAULT_MACHINE).to_owned()
}

/// Names what may stand in an argument, on a machine.
type Names = fn(&str) -> Result<Vec<CompletionCandidate>>;

/// The arguments with names that are no possible values of clap's.
const NAMED: [(&str, Names); 6] = [
    ("events", sources),
    ("groups", sources),
    ("metrics", |_| {
        Ok(Metrics::built_in()?.all().iter().map(|one| candidate(&one.id, &one.name)).collect())
    }),
    (MACHINE, |_| {
        let models = sim::machines::models::MODELS.iter().map(|model| model.name);
        Ok(models.chain([DRIVER, ETW]).map(CompletionCandidate::new).collect())
    }),
    ("topic", |machine| {
        let codes = Code::explained().map(|code| CompletionCandidate::new(&code.name));
        Ok(codes.chain(sources(machine).unwrap_or_default()).collect())
    }),
    ("by", |_| {
        let keys = Key::ALL.iter().map(|key| key.name()).chain(Grouping::NAMES);
        Ok(keys.map(CompletionCandidate::new).collect())
    }),
];

/// The command with names to complete its arguments, where an argument has none of its own.
fn completed(command: Command, machine: &str) -> Command {
    let subcommands: Vec<String> =
        command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let command = subcommands.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| completed(command, machine))
    });
    let open: Vec<String> = command
        .get_arguments()
        .filter(|one| one.get_action().takes_values() && one.get_possible_values().is_empty())
        .map(|one| one.get_id().to_string())
        .collect();
    open.into_iter().fold(command, |command, id| {
        if id == "program" {
            let files = ArgValueCompleter::new(PathCompleter::any());
            return command.mut_arg(id, |one| one.add(files));
        }
        let Some((_, names)) = NAMED.into_iter().find(|(name, _)| *name == id) else {
            return command;
        };
        let machine = machine.to_owned();
        let offer = move |begun: &OsStr| continued(begun, names(&machine).unwrap_or_default());
        command.mut_arg(id, |one| one.add(ArgValueCompleter::new(offer)))
    })
}

/// The names that continue the last of a list, each with what is before it.
fn continued(begun: &OsStr, names: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    let last = begun.rfind([',', '{']).map_or(0, |at| at + 1);
    let (before, last) = begun.split_at(last);
    let continues = |name: &CompletionCandidate| {
        let first = name.get_value().to_str().and_then(|name| name.get(..last.len()));
        first.is_some_and(|first| first.eq_ignore_ascii_case(last))
    };
    names.into_iter().filter(continues).map(|name| name.add_prefix(before)).collect()
}

/// Whatever a machine counts, by all names.
fn sources(machine: &str) -> Result<Vec<CompletionCandidate>> {
    let catalog = Catalog::read(&mut Context::open(Backend::open(machine)?)?.connection, false)?;
    let own = catalog.sources.iter().filter(|source| source.is_counted());
    let counted = |target: &str| catalog.source(target).is_none_or(Source::is_counted);
    let aliases = catalog.aliases().filter(|alias| counted(alias.target));
    let aliases = aliases.map(|alias| alias.name);
    let aliases = aliases.filter(|name| name.starts_with(|first: char| first.is_alphabetic()));
    let names = own.map(|source| source.name).chain(aliases).chain(catalog.events());
    let names: BTreeSet<&str> = names.collect();
    Ok(names.into_iter().map(|name| candidate(name, &catalog.meaning(name))).collect())
}

/// A name, and what it stands for: shells that can show it beside the name do.
fn candidate(name: &str, help: &str) -> CompletionCandidate {
    let help = Some(help).filter(|help| !help.is_empty());
    CompletionCandidate::new(name).help(help.map(|help| help.to_owned().into()))
}
