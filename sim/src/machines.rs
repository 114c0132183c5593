//! `--machine SPEC`: a dump or a built-in model, possibly repeated.

pub mod dump;
pub mod models;

use crate::cpu::cpuid::Leaves;
use crate::quirks::{Quirks, QuirksError};
use dump::{DumpError, MAX_PROCESSORS};
use std::io;
use std::path::Path;
use thiserror::Error;

/// A machine to be modelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// The leaves of each logical processor.
    pub leaves: Vec<Leaves>,
    /// A description for people, e.g. `zen4 (16 processors)`.
    pub description: String,
}

/// Why there is no such machine.
#[derive(Debug, Error)]
pub enum SpecError {
    /// Nothing was given.
    #[error("no machine is named")]
    Empty,
    /// Neither a model nor a file.
    #[error("`{0}` is neither a built-in model nor a file")]
    Unknown(String),
    /// A file that cannot be read.
    #[error("cannot read `{path}`: {error}")]
    Read {
        path: String,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// A file that is not a dump.
    #[error("`{path}` is not a CPUID dump: {error}")]
    Dump {
        path: String,
        /// Why not.
        #[source]
        error: DumpError,
    },
    /// An option that no machine has.
    #[error("a machine has no option `{0}`")]
    UnknownOption(String),
    /// An option that is given twice.
    #[error("`{0}` is given twice")]
    DuplicateOption(String),
    /// Unknown quirk names.
    #[error("{0}")]
    Quirks(#[from] QuirksError),
    /// Not a number from 1 to 2048.
    #[error("`processors={0}`: not a number from 1 to {MAX_PROCESSORS}")]
    Processors(String),
}

impl SpecError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::Unknown(_) => {
                "`halprof machines` lists the models; a file must be a CPUID dump."
            }
            Self::Read { .. } => "Check the path and its permissions.",
            Self::Dump { error, .. } => error.hint(),
            Self::UnknownOption(_) | Self::DuplicateOption(_) => {
                "Write NAME or FILE, then `,processors=N` and `,quirks=BEHAVIOUR+BEHAVIOUR`."
            }
            Self::Quirks(_) => "`halprof machines --quirks` lists the quirks.",
            Self::Processors(_) => "Windows has at most 2048 processors, in 32 groups of 64.",
        }
    }
}

/// Reads `NAME` or `FILE`, followed by `,processors=N`, `,quirks=BEHAVIOUR+BEHAVIOUR`, or both.
///
/// A model's name takes precedence over a file of the same name (write `./NAME` for the file). If
/// the whole text is the name of an existing file, it is that file, commas included. `read` reads a
/// whole file.
pub fn machine(
    spec: &str,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<MachineSpec, SpecError> {
    let mut name = spec;
    let mut options = Options::default();
    loop {
        if let Some(machine) = base(name, &read)? {
            return Ok(options.applied(machine));
        }
        let option = name
            .rsplit_once(',')
            .and_then(|(rest, option)| Some((rest, option, option.split_once('=')?)));
        let Some((rest, option, (key, value))) = option else {
            return Err(SpecError::Unknown(name.to_owned()));
        };
        options.take(option, key, value)?;
        name = rest;
    }
}

/// The options after the commas.
#[derive(Default)]
struct Options {
    processors: Option<usize>,
    quirks: Option<Quirks>,
}

impl Options {
    fn take(&mut self, option: &str, key: &str, value: &str) -> Result<(), SpecError> {
        let again = match key {
            "processors" => self.processors.replace(processors(value)?).is_some(),
            "quirks" => self.quirks.replace(Quirks::parse(value)?).is_some(),
            _ => {
                return Err(SpecError::UnknownOption(option.to_owned()));
            }
        };
        if again {
            return Err(SpecError::DuplicateOption(key.to_owned()));
        }
        Ok(())
    }

    fn applied(&self, mut machine: MachineSpec) -> MachineSpec {
        let mut qualities = String::new();
        if let Some(quirks) = self.quirks {
            let leaves = machine.leaves.iter();
            machine.leaves = leaves.map(|one| one.with_quirks(quirks)).collect();
            qualities = format!(", quirks: {quirks}");
        }
        if let Some(count) = self.processors {
            machine.leaves = models::repeat(&machine.leaves, count);
        }
        let count = machine.leaves.len();
        let plural = if count == 1 { "" } else { "s" };
        machine.description =
            format!("{} ({count} processor{plural}{qualities})", machine.description);
        machine
    }
}

fn processors(value: &str) -> Result<usize, SpecError> {
    let digits = value.bytes().all(|digit| digit.is_ascii_digit());
    let count = value.parse().ok().filter(|_| digits);
    count
        .filter(|count| (1..=MAX_PROCESSORS).contains(count))
        .ok_or_else(|| SpecError::Processors(value.to_owned()))
}

/// A model or a dump; `None` if there is neither.
fn base(
    name: &str,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Option<MachineSpec>, SpecError> {
    if name.is_empty() {
        return Err(SpecError::Empty);
    }
    if let Some(model) = models::find(name) {
        return Ok(Some(MachineSpec {
            leaves: model.processors(),
            description: model.name.to_owned(),
        }));
    }
    let bytes = match read(Path::new(name)) {
        Ok(bytes) => bytes,
        // Without such a file, what follows the last comma may be an option.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(SpecError::Read { path: name.to_owned(), error });
        }
    };
    let leaves =
        dump::parse(&bytes).map_err(|error| SpecError::Dump { path: name.to_owned(), error })?;
    Ok(Some(MachineSpec { leaves, description: format!("dump {name}") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &[u8] = b"CPUID 00000000: 00000000-756E6547-6C65746E-49656E69\n";

    /// A file system with two files and one that cannot be read.
    fn read(path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("dump.txt" | "a,b.txt" | "c,processors=2") => Ok(DUMP.to_vec()),
            Some("empty.txt") => Ok(Vec::new()),
            Some("secret.txt") => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    #[test]
    fn names_and_files() {
        for (spec, count) in [
            ("skylake", 8),
            ("ZEN4", 16),
            ("skylake,processors=3", 3),
            ("skylake,processors=2048", 2048),
            ("dump.txt", 1),
            ("dump.txt,processors=5", 5),
            ("a,b.txt", 1),
            ("a,b.txt,processors=7", 7),
            ("c,processors=2", 1),
            ("c,processors=2,processors=4", 4),
            ("skylake,quirks=late,processors=3", 3),
            ("skylake,processors=3,quirks=late+FROZEN", 3),
            ("dump.txt,quirks=masked", 1),
        ] {
            let machine = machine(spec, read).expect(spec);
            assert_eq!(machine.leaves.len(), count, "{spec}");
            assert!(machine.description.contains(&format!("({count} processor")), "{spec}");
        }
    }

    #[test]
    fn every_processor_has_quirks_and_the_description_says_so() {
        let machine = machine("skylake,quirks=late+no-fixed,processors=9", read).expect("one");
        let quirks = Quirks::parse("no-fixed+late").expect("quirks");
        assert!(machine.leaves.iter().all(|one| one.quirks() == quirks));
        assert!(machine.leaves.iter().all(|one| one.get(0xA, 0).edx.trailing_zeros() >= 5));
        assert_eq!(machine.description, "skylake (9 processors, quirks: late+no-fixed)");
    }

    #[test]
    fn what_is_no_machine() {
        for (spec, expected) in [
            ("", "no machine is named"),
            (",processors=2", "no machine is named"),
            ("skylark", "`skylark` is neither a built-in model nor a file"),
            ("skylark,processors=2", "`skylark` is neither a built-in model nor a file"),
            ("x,y.txt", "`x,y.txt` is neither a built-in model nor a file"),
            ("skylake,cores=2", "a machine has no option `cores=2`"),
            ("skylake,processors=2,processors=2", "`processors` is given twice"),
            ("skylake,quirks=late,processors=2,quirks=lost", "`quirks` is given twice"),
            ("skylake,quirks=rude", "`rude` is not a hardware fault that a model can have"),
            ("skylake,quirks=", "`` is not a hardware fault that a model can have"),
            ("skylake,quirks=late+late", "`late` is given twice"),
            ("skylake,processors=0", "`processors=0`: not a number from 1 to 2048"),
            ("skylake,processors=2049", "`processors=2049`: not a number from 1 to 2048"),
            ("skylake,processors=+2", "`processors=+2`: not a number from 1 to 2048"),
            ("skylake,processors=", "`processors=`: not a number from 1 to 2048"),
            ("empty.txt", "`empty.txt` is not a CPUID dump: the dump is empty"),
            ("secret.txt", "cannot read `secret.txt`: permission denied"),
        ] {
            let error = machine(spec, read).expect_err(spec);
            assert_eq!(error.to_string(), expected);
            assert!(!error.hint().is_empty(), "{spec}");
        }
    }
}
