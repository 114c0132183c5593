//! `--range SYMBOL[+LENGTH]`.

use crate::output::error::Error;
use crate::output::error::Result;
use halprof_profile::aggregate::filter::Pattern;
use halprof_profile::symbols::{Executable, Function};
use halprof_simulate::simulation::cut;
use std::io;

/// The longest range that is accepted: 1 MiB.
const LONGEST: u64 = 1 << 20;
/// The longest instruction has 15 bytes.
const INSTRUCTION: u64 = 15;

/// A range of a program's code, relative to the start of its image.
#[derive(Debug)]
pub(super) struct Target {
    /// The function it starts in.
    pub(super) symbol: Option<String>,
    pub(super) start: u64,
    pub(super) length: u64,
    /// Where the function starts that it is in.
    function: Option<u64>,
    /// Whether the length was given.
    measured: bool,
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
            target.measured = true;
        }
        if target.length == 0 || target.length > LONGEST {
            return Err(Error::usage(
                format!("`--range {range}` has {} bytes", target.length),
                "Add a length in bytes, at most 1 MiB: `--range SYMBOL+LENGTH`.",
            ));
        }
        Ok(target)
    }

    /// Refuses a range that cuts an instruction: at its start the breakpoint would change what the
    /// program does, and at its end an instruction would be counted that is not the program's. `base`
    /// is that of the file, and `read` reads at an address relative to the image.
    pub(super) fn whole(
        &self,
        is_32_bit: bool,
        base: u64,
        read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
    ) -> Result<()> {
        let cuts = |from: u64, at: u64| {
            // What follows may not be there.
            let bytes = [INSTRUCTION, 0].into_iter().find_map(|more| {
                let mut bytes = vec![0; (at - from + more) as usize];
                read(from, &mut bytes).ok().map(|()| bytes)
            });
            cut(&bytes.unwrap_or_default(), from, at, is_32_bit)
        };
        let function = self.function.filter(|from| self.start - from <= LONGEST);
        if let Some(cut) = function.and_then(|from| cuts(from, self.start)) {
            let [start, end, at] =
                [cut.start, cut.end, self.start].map(|one| base.wrapping_add(one));
            return Err(Error::usage(
                format!("`--range`: {at:#x} is inside the instruction at {start:#x}"),
                format!("Instructions begin at {start:#x} and {end:#x}."),
            ));
        }
        let end = self.start + self.length;
        if let Some(cut) = cuts(self.start, end).filter(|_| self.measured) {
            let at = base.wrapping_add(cut.start);
            let [short, long] = [cut.start, cut.end].map(|one| one - self.start);
            return Err(Error::usage(
                format!("`--range`: {} bytes end inside the instruction at {at:#x}", self.length),
                format!("Give a length of {long} bytes, or of {short} without it."),
            ));
        }
        Ok(())
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
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok()
}

fn at(address: u64, executable: &Executable, functions: &[Function]) -> Result<Target> {
    let module = executable.module();
    let size = module.end - module.start;
    let start = address.checked_sub(executable.base());
    let Some(start) = start.filter(|&start| start < size) else {
        let begin = executable.base();
        let end = begin.wrapping_add(size);
        return Err(Error::usage(
            format!("`--range`: {address:#x} is not an address of {}", module.name),
            format!("Its file has those from {begin:#x} to {end:#x}."),
        ));
    };
    let function = functions.iter().find(|f| (f.start..f.end).contains(&start));
    Ok(Target {
        symbol: function.map(|function| function.name.clone()),
        start,
        length: function.map_or(0, |function| function.end - start),
        function: function.map(|function| function.start),
        measured: false,
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
            function: None,
            measured: false,
        }),
        [] => Err(Error::usage(
            format!("`--range`: no function of {} is called `{name}`", executable.module().name),
            executable.notes().first().map_or_else(
                || {
                    "`*` stands for any text; functions are known where the program has symbols."
                        .to_owned()
                },
                |note| format!("{note}."),
            ),
        )),
        several => Err(Error::usage(
            format!("`--range`: `{name}` is the name of {} functions", several.len()),
            format!("Choose one: {}.", names().take(5).collect::<Vec<_>>().join(", ")),
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
