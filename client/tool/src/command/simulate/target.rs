//! `--range SYMBOL[+LENGTH]`.

use crate::{Error, Result};
use halprof_profile::report::filter::Pattern;
use halprof_profile::symbols::{Executable, Function};

/// The longest range that is accepted: 1 MiB.
const LONGEST: u64 = 1 << 20;

/// A range of a program's code, relative to the start of its image.
#[derive(Debug)]
pub(super) struct Target {
    /// The function it starts in.
    pub(super) symbol: Option<String>,
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Target {
    /// Finds the requested range in the program's file.
    pub(super) fn find(range: &str, executable: &Executable) -> Result<Self> {
        let (place, length) = parted(range);
        let functions = executable.functions();
        let mut target = match number(place) {
            Some(address) => at(address, executable, &functions)?,
            None => named(place, executable, functions)?,
        };
        if let Some(length) = length {
            target.length = length;
        }
        if target.length == 0 || target.length > LONGEST {
            return Err(Error::usage(
                format!("`--range {range}` has {} bytes", target.length),
                "Add a length in bytes, at most 1 MiB: `--range SYMBOL+LENGTH`.",
            ));
        }
        Ok(target)
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        let symbol = self.symbol.clone();
        symbol.unwrap_or_else(|| format!("{:#x}", self.start))
    }

    /// The error for a range that is not in the program's memory.
    pub(super) fn absent(&self) -> Error {
        Error::usage(
            format!(
                "`--range`: the {} bytes from {} on are not all in the program",
                self.length,
                self.name()
            ),
            "Give a shorter length.",
        )
    }
}

/// The place and the length. A `+` without a number after it is part of a name, as in `operator+`.
fn parted(range: &str) -> (&str, Option<u64>) {
    let length = |text: &str| number(text).or_else(|| text.parse().ok());
    match range.rsplit_once('+') {
        Some((place, behind)) if !place.is_empty() && length(behind).is_some() => {
            (place, length(behind))
        }
        _ => (range, None),
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok()
}

fn at(address: u64, executable: &Executable, functions: &[Function]) -> Result<Target> {
    let module = executable.module();
    if !module.contains(address) {
        return Err(Error::usage(
            format!(
                "`--range`: {address:#x} is not an address of {}",
                module.name
            ),
            format!(
                "Its file has those from {:#x} to {:#x}.",
                module.start, module.end
            ),
        ));
    }
    let start = address - module.start;
    let function = functions.iter().find(|f| (f.start..f.end).contains(&start));
    Ok(Target {
        symbol: function.map(|function| function.name.clone()),
        start,
        length: function.map_or(0, |function| function.end - start),
    })
}

fn named(name: &str, executable: &Executable, mut functions: Vec<Function>) -> Result<Target> {
    let pattern = Pattern::new(name);
    functions.retain(|function| pattern.matches_symbol(&function.name));
    let names = || functions.iter().map(|function| function.name.as_str());
    match functions.as_slice() {
        [function] => Ok(Target {
            symbol: Some(function.name.clone()),
            start: function.start,
            length: function.end - function.start,
        }),
        [] => Err(Error::usage(
            format!(
                "`--range`: no function of {} is called `{name}`",
                executable.module().name
            ),
            executable.notes().first().map_or_else(
                || {
                    "`*` stands for any text; functions are known where the program has symbols."
                        .to_owned()
                },
                |note| format!("{note}."),
            ),
        )),
        several => Err(Error::usage(
            format!(
                "`--range`: `{name}` is the name of {} functions",
                several.len()
            ),
            format!(
                "Choose one: {}.",
                names().take(5).collect::<Vec<_>>().join(", ")
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_a_number_behind_the_last_plus() {
        for (range, place, length) in [
            ("main", "main", None),
            ("main+64", "main", Some(64)),
            ("main+0x40", "main", Some(64)),
            ("V::operator+", "V::operator+", None),
            ("V::operator++16", "V::operator+", Some(16)),
            ("+16", "+16", None),
            ("0x401000+8", "0x401000", Some(8)),
        ] {
            assert_eq!(parted(range), (place, length), "{range}");
        }
    }
}
