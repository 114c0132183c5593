//! `image=FILE` in a workload: a modelled machine that runs the code of a real file.
//!
//! The model does not execute it. It retires instructions at the addresses of the file's
//! instructions, so that samples have functions and lines that really exist. Its branches follow a path
//! that the code allows, and its samples are on that path.

use crate::output::error::{Error, Result};
use halprof_profile::file::Module;
use halprof_profile::symbols::{self, CodePath, Executable, Function, FunctionPattern, SymbolPath};
use sim::load::workload::{Passed, Workload, WorkloadError};
use std::path::Path;

/// The keys of a workload that concern a file.
pub(crate) const KEYS: [&str; 2] = ["image", "function"];

/// The keys that are removed from a workload before the model reads it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys<'a> {
    image: Option<&'a str>,
    function: Option<&'a str>,
}

impl<'a> Keys<'a> {
    /// Separates these keys from the rest of the workload.
    pub(crate) fn take(text: &'a str) -> Result<(Self, String)> {
        let mut keys = Self::default();
        let mut rest = Vec::new();
        for item in text.split(',') {
            let before = match item.trim().split_once('=') {
                Some(("image", value)) => keys.image.replace(value),
                Some(("function", value)) => keys.function.replace(value),
                _ => {
                    rest.push(item);
                    None
                }
            };
            if before.is_some() {
                return Err(twice(item));
            }
        }
        let code = rest.iter().any(|item| item.trim().starts_with("code="));
        if keys.image.is_some() && code {
            return Err(Error::usage(
                "`--workload`: `image` and `code` exclude each other",
                "Give one of them.",
            ));
        }
        if keys.image.is_none() && keys.function.is_some() {
            return Err(Error::usage(
                "`--workload`: `function` needs an `image` to look in",
                "For example `image=program.exe,function=main`.",
            ));
        }
        Ok((keys, rest.join(",")))
    }

    /// Makes the workload run that code; returns the module that contains it.
    pub(crate) fn apply(&self, workload: &mut Workload) -> Result<Option<Module>> {
        let Some(image) = self.image else {
            return Ok(None);
        };
        let bad = |why: String| {
            halprof_measure::Error::BadFile {
            path: image.into(),
            why: format!("cannot be run by a model: {why}"),
            hint: "`image=` takes a PE or ELF file of x86 or x64 code; its path must not have a comma."
                .into(),
        }
        };
        let executable = Executable::open(Path::new(image), &SymbolPath::default()).map_err(bad)?;
        let functions = self.functions(&executable)?;
        run(workload, &executable, &functions).map_err(bad)?;
        Ok(Some(executable.module().clone()))
    }

    /// Whether a file is named.
    pub(crate) fn is_given(&self) -> bool {
        self.image.is_some()
    }

    /// The named functions; without a name all functions, or none, for all code, where the file names
    /// only some.
    fn functions(&self, executable: &Executable) -> Result<Vec<Function>> {
        let functions = executable.functions();
        let Some(name) = self.function else {
            return Ok(if executable.names_all() { functions } else { Vec::new() });
        };
        let functions = executable.meant(&mut FunctionPattern::new(name), functions);
        if functions.is_empty() {
            return Err(Error::usage(
                format!("`--workload`: no function of the image is called `{name}`"),
                "`*` stands for any text; functions are known where the file has symbols.",
            ));
        }
        Ok(functions)
    }
}

/// Makes the workload run these functions, or all code if there are none.
pub(crate) fn run(
    workload: &mut Workload,
    executable: &Executable,
    functions: &[Function],
) -> std::result::Result<(), String> {
    workload.run_from(executable.instructions(functions)?);
    let CodePath { branches, instructions } = executable.code_path(functions)?;
    workload.follow(branches.into_iter().map(passed).collect(), instructions);
    Ok(())
}

const fn passed(branch: symbols::PathBranch) -> Passed {
    let symbols::PathBranch { from, to, kind, taken } = branch;
    Passed { from, to, kind, taken }
}

fn twice(item: &str) -> Error {
    let key = item.trim().split('=').next().unwrap_or_default().to_owned();
    let error = WorkloadError::DuplicateKey(key);
    Error::usage(format!("`--workload`: {error}"), format!("{}.", error.hint()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_out_of_the_rest() {
        let text = "instructions=1, image=/a/b.exe,user=80,function=ma*n";
        let (keys, rest) = Keys::take(text).expect("a workload");
        assert_eq!(rest, "instructions=1,user=80");
        assert_eq!((keys.image, keys.function), (Some("/a/b.exe"), Some("ma*n")));
        let (keys, rest) = Keys::take("cycles=1").expect("a workload");
        assert_eq!((keys, rest.as_str()), (Keys::default(), "cycles=1"));
    }
}
