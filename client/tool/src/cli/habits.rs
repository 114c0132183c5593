//! What users of other profilers type, answered with halprof's way: the rows of `habits.csv`, which
//! errors and `docs/coming-from.md` share.

use serde::Deserialize;
use std::ffi::OsString;
use std::sync::LazyLock;

/// What is typed by habit.
#[derive(Debug, Deserialize)]
struct Habit {
    /// The commands with which it is typed; empty where it stands in the place of a command.
    commands: String,
    /// The words that are typed, any one of them.
    typed: String,
    /// The option of halprof that it is taken for; empty where it is no option of halprof.
    taken_for: String,
    /// How halprof does it.
    advice: String,
}

static HABITS: LazyLock<Vec<Habit>> = LazyLock::new(|| {
    let text = include_str!("habits.csv");
    let reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader.into_deserialize().flatten().collect()
});

impl Habit {
    fn types(&self, is_typed: impl Fn(&str) -> bool) -> bool {
        self.typed.split(' ').any(is_typed)
    }

    /// Whether it is the reason that this argument was refused: `-x`, or an option with the name of
    /// its value, such as `--sort <SORT>`.
    fn is_refused(&self, argument: &str) -> bool {
        let option = argument.split(' ').next().unwrap_or_default();
        option == self.taken_for || self.types(|typed| is_option(option, typed))
    }

    fn is_of(&self, command: &str) -> bool {
        self.commands.split(' ').any(|name| name == command)
    }
}

/// Whether an argument is this option: alone, or with its value attached.
fn is_option(argument: &str, option: &str) -> bool {
    let value = argument.strip_prefix(option);
    let is_long = option.starts_with("--");
    value.is_some_and(|value| value.is_empty() || !is_long || value.starts_with('='))
}

/// How halprof does what a refused command line asks for, if users of another profiler type that.
/// `refused` is the argument that was refused, if it was one; the program's name is the first of
/// `arguments`.
pub(crate) fn advice(arguments: &[OsString], refused: Option<&str>) -> Option<&'static str> {
    let own = arguments.iter().skip(1).map_while(|argument| argument.to_str());
    let own: Vec<&str> = own.take_while(|&argument| argument != "--").collect();
    let in_place_of_command = |habit: &&Habit| {
        let first = own.first();
        habit.commands.is_empty()
            && first.is_some_and(|first| habit.types(|typed| typed.eq_ignore_ascii_case(first)))
    };
    let after_command = |habit: &&Habit| {
        own.iter().any(|command| habit.is_of(command))
            && own.iter().any(|argument| habit.types(|typed| is_option(argument, typed)))
            && refused.is_some_and(|refused| habit.is_refused(refused))
    };
    let of_command = || HABITS.iter().find(after_command);
    let habit = HABITS.iter().find(in_place_of_command).or_else(of_command)?;
    Some(&habit.advice)
}
