//! `halprof completions`: a shell script generated from the definitions of the command line.
//!
//! The names in it are those of one machine: its sources, their names in Linux perf and Windows,
//! and with `--events` the vendor's events.

use crate::cli::args::{self, Arguments};
use crate::metrics::Metrics;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::error_codes::Code;
use crate::target::backend::{Backend, DRIVER, ETW};
use crate::target::context::Context;
use clap::Command;
use clap::builder::{PossibleValue, PossibleValuesParser};
use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_profile::aggregate::key::Key;
use halprof_profile::views::branches::Grouping;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(JsonSchema, Serialize)]
pub(crate) struct CompletionsResult {
    shell: String,
    script: String,
}

/// The values of an option: the identifier of the argument, and the names.
type Names = (&'static str, Vec<Name>);

/// A name, and what it stands for: shells that can show it beside the name do.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    name: String,
    help: String,
}

impl Name {
    const fn new(name: String) -> Self {
        Self { name, help: String::new() }
    }

    /// clap takes only texts that live as long as the process.
    fn value(&self) -> PossibleValue {
        let value = PossibleValue::new(&*self.name.clone().leak());
        if self.help.is_empty() { value } else { value.help(&*self.help.clone().leak()) }
    }
}

pub(crate) fn run(
    options: &args::Completions,
    open: impl FnOnce() -> Result<Backend>,
    output: &Output,
) -> Result<u32> {
    let sources = sources(open, options.events).unwrap_or_else(|error| {
        output.note(&format!("no sources will be completed: {error}"));
        Vec::new()
    });
    let names = names(sources)?;
    let mut command = Arguments::definition();
    let commands: Vec<String> =
        command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for name in &commands {
        command = command.mut_subcommand(name, |command| completed(command, &names));
    }
    let command = &mut completed(command, &names);
    let mut script = Vec::new();
    let shell = options.shell;
    clap_complete::generate(shell, command, "halprof", &mut script);
    let result = CompletionsResult {
        shell: shell.to_string(),
        script: String::from_utf8(script).map_err(Error::internal)?,
    };
    output.result("completions", &result, |result| result.script.clone())?;
    Ok(0)
}

/// The values of `-e` on a machine.
fn sources(open: impl FnOnce() -> Result<Backend>, events: bool) -> Result<Vec<Name>> {
    let catalog = Catalog::read(&mut Context::open(open()?)?.connection, false)?;
    let own = catalog.sources.iter().filter(|source| source.is_counted());
    let mut names: Vec<String> = own.map(|source| source.name.to_owned()).collect();
    let counted = |target: &str| catalog.source(target).is_none_or(Source::is_counted);
    let aliases = catalog.aliases().filter(|alias| counted(alias.target));
    let aliases = aliases.map(|alias| alias.name.to_owned());
    names.extend(aliases.filter(|name| name.starts_with(|first: char| first.is_alphabetic())));
    if events {
        names.extend(catalog.events().into_iter().map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    let explained = |name: String| Name { help: catalog.meaning(&name), name };
    Ok(names.into_iter().map(explained).collect())
}

fn names(sources: Vec<Name>) -> Result<Vec<Names>> {
    let metrics = Metrics::built_in()?;
    let metrics = metrics.all().iter().map(|metric| Name::new(metric.id.clone()));
    let models = sim::machines::models::MODELS.iter().map(|model| model.name);
    let machines = models.chain([DRIVER, ETW]).map(|name| Name::new(name.to_owned()));
    let codes = Code::explained().map(|code| Name::new(code.name.clone()));
    let topics = codes.chain(sources.iter().cloned());
    let keys = Key::ALL.iter().map(|key| key.name()).chain(Grouping::NAMES);
    let keys = keys.map(|key| Name::new(key.to_owned()));
    Ok(vec![
        ("metrics", metrics.collect()),
        ("machine", machines.collect()),
        ("topic", topics.collect()),
        ("by", keys.collect()),
        ("groups", sources.clone()),
        ("events", sources),
    ])
}

/// The command with names to complete its arguments, where an argument has none of its own.
fn completed(mut command: Command, names: &[Names]) -> Command {
    for (id, names) in names {
        let is_open = command.get_arguments().any(|one| {
            one.get_id() == id
                && one.get_action().takes_values()
                && one.get_possible_values().is_empty()
        });
        if is_open && !names.is_empty() {
            command = command.mut_arg(id, |one| {
                one.value_parser(PossibleValuesParser::new(names.iter().map(Name::value)))
            });
        }
    }
    command
}
