//! The range of code that is stepped: `SYMBOL[+LENGTH]`, or an address.

use crate::simulation::cut;
use halprof_measure::selection::parse_hexadecimal;
use halprof_measure::{Error, Result};
use halprof_profile::symbols::{Executable, Function, FunctionPattern};
use std::io;
use std::ops::Range;

/// The longest range that is accepted: 1 MiB.
const LONGEST: u64 = 1 << 20;
/// The longest instruction has 15 bytes.
const INSTRUCTION: u64 = 15;

/// A range of a program's code, relative to the start of its image.
#[derive(Debug)]
pub(crate) struct Target {
    /// The function it starts in.
    pub(crate) symbol: Option<String>,
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// Where the function starts that it is in.
    function: Option<u64>,
    has_length: bool,
}

impl Target {
    /// Finds the requested range in a file; `None` if it has no function of that name.
    pub(crate) fn find(range: &str, executable: &Executable) -> Result<Option<Self>> {
        let (start, length) = split(range);
        let found = match parse_hexadecimal(start) {
            Some(address) => Some(at(address, executable)?),
            None => named(start, executable, executable.functions())?,
        };
        let Some(mut target) = found else {
            return Ok(None);
        };
        if let Some(length) = length {
            target.length = length;
            target.has_length = true;
        }
        if target.length == 0 || target.length > LONGEST {
            return Err(Error::usage(
                format!("the range `{range}` has {} bytes", target.length),
                "Add a length in bytes, at most 1 MiB: `SYMBOL+LENGTH`.",
            ));
        }
        Ok(Some(target))
    }

    /// The error if neither the program nor what it loads has the function.
    pub(crate) fn not_found(range: &str, executable: &Executable) -> Error {
        let (name, _) = split(range);
        Error::usage(
            format!(
                "no function of {}, nor of what it loads at its start, is called `{name}`",
                executable.module().name
            ),
            executable.notes().first().map_or_else(
                || {
                    "`*` stands for any text; functions are known where a file has symbols."
                        .to_owned()
                },
                |note| format!("{note}."),
            ),
        )
    }

    /// Whether it is a function from its start to its end.
    pub(crate) fn is_function(&self) -> bool {
        !self.has_length && self.function.is_none_or(|start| start == self.start)
    }

    /// Refuses a range that cuts an instruction: at its start the breakpoint would change what the
    /// program does, and at its end an instruction would be counted that is not the program's. `base`
    /// is that of the file, and `read` reads at an address relative to the image.
    pub(crate) fn check_ends(
        &self,
        is_32_bit: bool,
        base: u64,
        read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
    ) -> Result<()> {
        let function = self.function.filter(|from| self.start - from <= LONGEST);
        if let Some(cut) = function.and_then(|from| cut_at(from, self.start, is_32_bit, &read)) {
            let [start, end, at] =
                [cut.start, cut.end, self.start].map(|offset| base.wrapping_add(offset));
            return Err(Error::usage(
                format!("the range starts at {at:#x}, inside the instruction at {start:#x}"),
                format!("Instructions begin at {start:#x} and {end:#x}."),
            ));
        }
        if !self.has_length {
            return Ok(());
        }
        if let Some(cut) = cut_at(self.start, self.start + self.length, is_32_bit, &read) {
            let at = base.wrapping_add(cut.start);
            let (without, with) = (cut.start - self.start, cut.end - self.start);
            return Err(Error::usage(
                format!(
                    "the range of {} bytes ends inside the instruction at {at:#x}",
                    self.length
                ),
                format!("Give a length of {with} bytes, or of {without} without it."),
            ));
        }
        Ok(())
    }

    pub(crate) fn name(&self) -> String {
        let symbol = self.symbol.clone();
        symbol.unwrap_or_else(|| format!("{:#x}", self.start))
    }

    /// The error for a range that is not in the program's memory.
    pub(crate) fn not_in_memory(&self) -> Error {
        Error::usage(
            format!(
                "the range's {} bytes from {} on are not all in the program",
                self.length,
                self.name()
            ),
            "Give a shorter length.",
        )
    }
}

/// The instruction that an address cuts in two, where the code from `from` on is decoded.
fn cut_at(
    from: u64,
    address: u64,
    is_32_bit: bool,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Option<Range<u64>> {
    let mut bytes = vec![0; (address - from + INSTRUCTION) as usize];
    if read(from, &mut bytes).is_err() {
        // What follows the address may not be there.
        bytes.truncate((address - from) as usize);
        read(from, &mut bytes).ok()?;
    }
    cut(&bytes, from, address, is_32_bit)
}

/// The start and the length. A `+` without a number after it is part of a name, as in `operator+`.
fn split(range: &str) -> (&str, Option<u64>) {
    if let Some((start, length)) = range.rsplit_once('+')
        && !start.is_empty()
        && let Some(length) = parse_hexadecimal(length).or_else(|| length.parse().ok())
    {
        return (start, Some(length));
    }
    (range, None)
}

fn at(address: u64, executable: &Executable) -> Result<Target> {
    let module = executable.module();
    let size = module.end - module.start;
    let start = address.checked_sub(executable.base());
    let Some(start) = start.filter(|&start| start < size) else {
        let begin = executable.base();
        let end = begin.wrapping_add(size);
        return Err(Error::usage(
            format!("{address:#x} is not an address of {}", module.name),
            format!("Its file has those from {begin:#x} to {end:#x}."),
        ));
    };
    let function = executable.function_at(start);
    Ok(Target {
        start,
        length: function.as_ref().map_or(0, |function| function.end - start),
        function: function.as_ref().map(|function| function.start),
        symbol: function.map(|function| function.name),
        has_length: false,
    })
}

fn named(name: &str, executable: &Executable, functions: Vec<Function>) -> Result<Option<Target>> {
    let functions = executable.meant(&mut FunctionPattern::new(name), functions);
    match functions.as_slice() {
        [function] => Ok(Some(Target {
            symbol: Some(function.name.clone()),
            start: function.start,
            length: function.end - function.start,
            function: None,
            has_length: false,
        })),
        [] => Ok(None),
        several => Err(Error::usage(
            format!("`{name}` is the name of {} functions", several.len()),
            format!("Choose one: {}.", choices(several, executable)),
        )),
    }
}

/// The most functions that an error lists.
const LISTED: usize = 8;

/// Lists functions as a range can name them. Functions that share a name are listed by address.
fn choices(functions: &[Function], executable: &Executable) -> String {
    let typed = |function: &Function| {
        let name = &function.name;
        let is_alone = functions.iter().filter(|other| other.name == *name).count() == 1;
        if is_alone {
            return format!("`{name}`");
        }
        format!("`{:#x}` ({name})", executable.base().wrapping_add(function.start))
    };
    let mut listed: Vec<String> = functions.iter().take(LISTED).map(typed).collect();
    if functions.len() > LISTED {
        listed.push(format!("and {} more", functions.len() - LISTED));
    }
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_a_number_after_the_last_plus() {
        for (range, start, length) in [
            ("main", "main", None),
            ("main+64", "main", Some(64)),
            ("main+0x40", "main", Some(64)),
            ("V::operator+", "V::operator+", None),
            ("V::operator++16", "V::operator+", Some(16)),
            ("+16", "+16", None),
            ("0x401000+8", "0x401000", Some(8)),
        ] {
            assert_eq!(split(range), (start, length), "{range}");
        }
    }
}
