//! `halprof completions`: a shell script generated from the definitions of the command line.
//!
//! The names in it are those of one machine: its sources, their names in Linux perf and Windows,
//! and with `--events` the vendor's events.

use crate::args::{self, Arguments};
use crate::codes::CODES;
use crate::command::explain::METHODS;
use crate::metrics::Metrics;
use crate::output::Output;
use crate::place::{DRIVER, Place};
use crate::{Error, On, Result};
use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use halprof_measure::catalog::Catalog;
use halprof_profile::branches::table::By;
use halprof_profile::report::key::Key;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::source::Source;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    shell: String,
    script: String,
}

/// The values of an option: the identifier of the argument, and the names.
type Names = (&'static str, Vec<String>);

pub(crate) fn run(
    options: &args::Completions,
    place: impl FnOnce() -> Result<Place>,
    output: &Output,
) -> Result<u8> {
    let sources = sources(place, options.events).unwrap_or_else(|error| {
        output.note(&format!("no sources will be completed: {error}"));
        Vec::new()
    });
    let names = names(sources)?;
    let mut command = Arguments::command();
    let commands: Vec<String> = command
        .get_subcommands()
        .map(|one| one.get_name().to_owned())
        .collect();
    for name in &commands {
        command = command.mut_subcommand(name, |command| completed(command, &names, &commands));
    }
    let command = &mut completed(command, &names, &commands);
    let mut script = Vec::new();
    clap_complete::generate(options.shell, command, "halprof", &mut script);
    let mut script = String::from_utf8(script).map_err(Error::internal)?;
    if options.shell == Shell::PowerShell {
        script = script.replacen(PARAMETERS, &format!("{PARAMETERS}{}", values(&names)), 1);
    }
    if options.shell == Shell::Elvish {
        script = script.replacen(COMPLETED, &candidates(&names), 1);
    }
    if options.shell == Shell::Fish {
        script += &topics(&names);
    }
    let body = Body {
        shell: options.shell.to_string(),
        script,
    };
    output.result("completions", false, &body, |body| body.script.clone())?;
    Ok(0)
}

/// The topics of `explain` for fish, whose script has no values of arguments without an option.
fn topics(names: &[Names]) -> String {
    let topics = names.iter().find(|(id, _)| *id == "topic");
    let topics = topics.map_or(String::new(), |(_, topics)| topics.join(" "));
    format!(
        "complete -c halprof -n \"__fish_halprof_using_subcommand explain\" -f -a \"{topics}\"\n"
    )
}

/// The beginning of the script for PowerShell.
const PARAMETERS: &str = "    param($wordToComplete, $commandAst, $cursorPosition)\n";

/// The options or the command that precede the values of an argument.
const BEFORE: [(&str, &[&str]); 6] = [
    ("wanted", &["-M", "--metric"]),
    ("machine", &["--machine"]),
    ("topic", &["explain"]),
    ("by", &["--by"]),
    ("groups", &["-g", "--group"]),
    ("events", &["-e", "--event"]),
];

/// The end of the script for elvish.
const COMPLETED: &str = "    $completions[$command]\n";

/// The end of the script for elvish with the values of options, which the generated one does not
/// have.
fn candidates(names: &[Names]) -> String {
    let mut lists = String::new();
    for (word, values) in after_words(names) {
        lists += &format!("        &'{word}'= [{}]\n", values.join(" "));
    }
    format!(
        "    var values = [
{lists}    ]
    use str
    var before = $words[-2]
    if (and (has-key $values $before) (not (str:has-prefix $words[-1] '-'))) {{
        all $values[$before]
    }} else {{
        $completions[$command]
    }}
"
    )
}

/// The values that follow each word, in quotation marks that PowerShell and elvish share.
fn after_words(names: &[Names]) -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let some = names.iter().filter(|(_, values)| !values.is_empty());
    some.flat_map(|(id, values)| {
        let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
        let before = BEFORE.iter().filter(move |(other, _)| other == id);
        let words = before.flat_map(|(_, words)| *words);
        words.map(move |&word| (word, quoted.clone()))
    })
}

/// Option values for PowerShell, whose generated script has none of its own.
fn values(names: &[Names]) -> String {
    let mut cases = String::new();
    for (word, values) in after_words(names) {
        cases += &format!("        '{word}' {{ {} }}\n", values.join(", "));
    }
    format!(
        "    $words = @($commandAst.CommandElements | ForEach-Object {{ $_.ToString() }})
    $before = if ($wordToComplete) {{ $words[-2] }} else {{ $words[-1] }}
    $values = @(switch -CaseSensitive ($before) {{
{cases}    }})
    if ($values -and -not $wordToComplete.StartsWith('-')) {{
        $values | Where-Object {{ $_ -like \"$wordToComplete*\" }} | ForEach-Object {{
            [CompletionResult]::new($_, $_, [CompletionResultType]::ParameterValue, $_)
        }}
        return
    }}
"
    )
}

/// The values of `-e` on a machine.
fn sources(place: impl FnOnce() -> Result<Place>, events: bool) -> Result<Vec<String>> {
    let catalog = Catalog::of(&mut On::open(place()?)?.connection, false)?;
    let supported = |source: &&Source| source.flags & Source::SUPPORTED != 0;
    let own = catalog.sources.iter().filter(supported);
    let mut names: Vec<String> = own.map(|source| source.name.as_str().to_owned()).collect();
    let aliases = catalog.aliases().map(|alias| alias.name.to_owned());
    names.extend(aliases.filter(|name| name.starts_with(|first: char| first.is_alphabetic())));
    if events {
        names.extend(catalog.events().into_iter().map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn names(sources: Vec<String>) -> Result<Vec<Names>> {
    let metrics = Metrics::built_in()?;
    let metrics = metrics.all().iter().map(|metric| metric.id.clone());
    let models = sim::models::MODELS.iter().map(|model| model.name);
    let machines = models.chain([DRIVER]).map(str::to_owned);
    let codes = CODES.iter().map(|code| code.name.to_owned());
    let methods = METHODS.iter().map(|method| method.name.to_owned());
    let topics = methods.chain(codes).chain(sources.iter().cloned());
    let keys = Key::ALL.iter().map(|key| key.name()).chain(By::NAMES);
    let keys = keys.map(str::to_owned);
    Ok(vec![
        ("wanted", metrics.collect()),
        ("machine", machines.collect()),
        ("topic", topics.collect()),
        ("by", keys.collect()),
        ("groups", sources.clone()),
        ("events", sources),
    ])
}

/// The command with names to complete its arguments, where an argument has none of its own. clap
/// takes only names that live as long as the process.
fn completed(mut command: Command, names: &[Names], commands: &[String]) -> Command {
    let page = ("page", commands.to_vec());
    for (id, names) in names.iter().chain([&page]) {
        let is_open = command.get_arguments().any(|one| {
            one.get_id() == id
                && one.get_action().takes_values()
                && one.get_possible_values().is_empty()
        });
        let is_file = *id == "events" && command.get_name() == "list";
        if is_open && !is_file && !names.is_empty() {
            command = command.mut_arg(id, |one| {
                one.value_parser(PossibleValuesParser::new(
                    names.iter().map(|name| &*name.clone().leak()),
                ))
            });
        }
    }
    command
}
