//! The grammar of one line of a dump.

use hal_profile::cpu::machine::CpuidResult;

/// The contents of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A header: what follows belongs to the processor with this number, if it names one.
    Processor(Option<u32>),
    /// One answer of CPUID.
    Answer {
        /// EAX of the query.
        leaf: u32,
        /// ECX of the query, if the line has it.
        subleaf: Option<u32>,
        value: CpuidResult,
    },
    /// Looks like an answer but is not a valid one.
    Malformed,
    /// Nothing about CPUID.
    Other,
}

/// Reads one line; `raw` says that lines of `cpuid -r` have already been seen in this dump, so that
/// a truncated one is recognised.
pub(super) fn read(line: &str, raw: bool) -> Line {
    let line = line.trim();
    if let Some(rest) = strip_word(line, "CPUID")
        && claims_leaf(rest)
    {
        return labelled(rest).unwrap_or(Line::Malformed);
    }
    if line.starts_with("0x") && (raw || line.contains("eax=")) {
        return plain(line).unwrap_or(Line::Malformed);
    }
    header(line).map_or(Line::Other, Line::Processor)
}

/// Whether the text after `CPUID` starts with a leaf number, even a damaged one: `0000000G` does,
/// the `Revision` and `CPU Name` of AIDA64's summary do not.
fn claims_leaf(rest: &str) -> bool {
    let word = rest.split(|c: char| c.is_whitespace() || c == ':').next().unwrap_or_default();
    word.starts_with(|c: char| c.is_ascii_hexdigit()) && word.contains(|c: char| c.is_ascii_digit())
}

/// `0000000A: EAX-EBX-ECX-EDX [SL nn] [comment]`, after the word `CPUID`.
fn labelled(rest: &str) -> Option<Line> {
    let (leaf, rest) = hex8(rest)?;
    let mut rest = rest.trim_start();
    rest = rest.strip_prefix(':').unwrap_or(rest).trim_start();
    let mut words = [0; 4];
    for (index, word) in words.iter_mut().enumerate() {
        if index > 0 {
            let parted = rest.trim_start_matches(|c: char| c == '-' || c.is_whitespace());
            if parted.len() == rest.len() {
                return None;
            }
            rest = parted;
        }
        (*word, rest) = hex8(rest)?;
    }
    if rest.starts_with('-') {
        return None;
    }
    Some(Line::Answer { leaf, subleaf: marked_subleaf(rest)?, value: result(words) })
}

/// The hexadecimal number of `[SL nn]`; the outer `None` means that the mark is damaged.
#[expect(clippy::option_option, reason = "damaged, absent and present are three things")]
fn marked_subleaf(comments: &str) -> Option<Option<u32>> {
    let Some((_, mark)) = comments.split_once("[SL").or(comments.split_once("[sl")) else {
        return Some(None);
    };
    let (number, _) = mark.split_once(']')?;
    Some(Some(hex(number.trim())?))
}

/// `0x00000004 0x00: eax=0x… ebx=0x… ecx=0x… edx=0x…`; versions from before sub-leaves omit the
/// second number.
fn plain(line: &str) -> Option<Line> {
    let (numbers, registers) = line.split_once(':')?;
    let mut numbers = numbers.split_whitespace().map(hex0x);
    let leaf = numbers.next()??;
    let subleaf = match numbers.next() {
        Some(subleaf) => Some(subleaf?),
        None => None,
    };
    let mut words = registers.split_whitespace();
    let mut register = |name: &str| {
        let value = words.next()?.strip_prefix(name)?.strip_prefix('=')?;
        // A shorter number is the rest of one that was cut short, and would still be a number.
        (value.len() == 10).then(|| hex0x(value))?
    };
    let value = CpuidResult {
        eax: register("eax")?,
        ebx: register("ebx")?,
        ecx: register("ecx")?,
        edx: register("edx")?,
    };
    Some(Line::Answer { leaf, subleaf, value })
}

/// The number in a header line: `CPU#000 AffMask: …`,
/// `------[ Logical CPU #0 ]------`,
/// `------[ CPUID Registers / Logical CPU #0 ]------`,
/// `CPUID Registers (CPU #1)`, `CPU 0:`, `CPU:`.
#[expect(clippy::option_option, reason = "no header, unnumbered and numbered are three things")]
fn header(line: &str) -> Option<Option<u32>> {
    if let Some(rest) = strip_word(line, "CPU#") {
        return leading_number(rest).map(|(number, _)| Some(number));
    }
    if let Some(rest) = strip_word(line, "CPU") {
        return match leading_number(rest.trim_start_matches([' ', '\t', '#'])) {
            // Nothing may follow the colon: `CPU 0: APICID 0 / Package 0` is a line of a summary.
            Some((number, ":")) => Some(Some(number)),
            None if rest == ":" => Some(None),
            _ => None,
        };
    }
    let upper = line.to_ascii_uppercase();
    ["LOGICAL CPU #", "LOGICAL CPU#", "(CPU #"]
        .iter()
        .find_map(|mark| leading_number(upper.split_once(mark)?.1))
        .map(|(number, _)| Some(number))
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The text after `word` at the start of the line, in either case. A word that consists of letters
/// must end there.
fn strip_word<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let (start, rest) = line.split_at_checked(word.len())?;
    let ended = word.ends_with('#') || !rest.starts_with(|c: char| c.is_alphanumeric());
    (start.eq_ignore_ascii_case(word) && ended).then(|| rest.trim_start())
}

/// Exactly eight hexadecimal digits and what follows them.
fn hex8(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(8)?;
    if rest.starts_with(|c: char| c.is_alphanumeric()) {
        return None;
    }
    Some((hex(digits)?, rest))
}

fn hex0x(text: &str) -> Option<u32> {
    hex(text.strip_prefix("0x")?)
}

/// Hexadecimal digits only: no sign.
fn hex(digits: &str) -> Option<u32> {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
    u32::from_str_radix(digits, 16).ok()
}

fn result([eax, ebx, ecx, edx]: [u32; 4]) -> CpuidResult {
    CpuidResult { eax, ebx, ecx, edx }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: CpuidResult = CpuidResult { eax: 0x07300804, ebx: 0, ecx: 0xA, edx: 0x603 };

    fn answer(subleaf: Option<u32>) -> Line {
        Line::Answer { leaf: 0xA, subleaf, value: VALUE }
    }

    #[test]
    fn answers_in_every_dress() {
        for (line, subleaf) in [
            ("CPUID 0000000A: 07300804-00000000-0000000A-00000603", None),
            ("  cpuid 0000000a   07300804 00000000\t0000000a 00000603  ", None),
            ("CPUID 0000000A\t07300804-00000000-0000000A-00000603 [PMU v4]", None),
            ("CPUID 0000000A: 07300804-00000000-0000000A-00000603 [SL 1F] [x]", Some(0x1F)),
            ("CPUID 0000000A:07300804 - 00000000 - 0000000A - 00000603", None),
            (
                "   0x0000000a 0x03: eax=0x07300804 ebx=0x00000000 ecx=0x0000000a edx=0x00000603",
                Some(3),
            ),
            ("0x0000000a: eax=0x07300804 ebx=0x00000000 ecx=0x0000000a edx=0x00000603", None),
        ] {
            assert_eq!(read(line, false), answer(subleaf), "{line}");
        }
    }

    #[test]
    fn damaged_answers_are_malformed() {
        for line in [
            "CPUID 0000000A: 07300804-00000000-0000000A",
            "CPUID 0000000A: 07300804-00000000-0000000A-0000060",
            "CPUID 0000000A: 07300804-00000000-0000000A-000006033",
            "CPUID 0000000A: 07300804-00000000-0000000A-0000060G",
            "CPUID 0000000A: 07300804-00000000-0000000A-+0000603",
            "CPUID 0000000A: 07300804-00000000-0000000A-00000603-00000000",
            "CPUID 0000000A: 07300804-00000000-0000000A-00000603 [SL 0",
            "CPUID 0000000A: 07300804-00000000-0000000A-00000603 [SL xx]",
            "CPUID 0000000G: 07300804-00000000-0000000A-00000603",
            "CPUID C00000G0: 07300804-00000000-0000000A-00000603",
            "CPUID 000",
            "0x0000000a 0x00: eax=0x07300804 ebx=0x00000000 ecx=0x0000000a",
            "0x0000000a 0x00: eax=0x07300804 ebx=0x00000000 ecx=0x0000000a edx=0x0000060",
            "0x0000000a zz: eax=0x07300804 ebx=0x00000000 ecx=0x0000000a edx=0x00000603",
        ] {
            assert_eq!(read(line, false), Line::Malformed, "{line}");
        }
        assert_eq!(read("   0x0000", true), Line::Malformed);
    }

    #[test]
    fn headers() {
        for (line, number) in [
            ("CPU#000 AffMask: 0x0000000000000001 ", Some(0)),
            ("CPU#019 AffMask: 0x0000000000080000", Some(19)),
            ("------[ Logical CPU #3 ]------", Some(3)),
            ("------[ CPUID Registers / Logical CPU #12 ]------", Some(12)),
            ("CPUID Registers (CPU #1):", Some(1)),
            ("CPU 7:", Some(7)),
            ("CPU:", None),
        ] {
            assert_eq!(read(line, false), Line::Processor(number), "{line}");
        }
    }

    #[test]
    fn other_lines_are_left_alone() {
        for line in [
            "",
            "CPUID Manufacturer : GenuineIntel",
            "CPUID Revision     : 00000521h",
            "CPUID CPU Name     : AMD Athlon(tm) 64 Processor 2800+",
            "CPU   0: APICID    0 / Package 0 / Core   0 / Thread 0: Valid",
            "CPU Type           : 2x Intel Pentium MMX, 200 MHz",
            "MSR 00000017: 0000-0000-0000-0000 [PlatID = 0]",
            "allcpu: Package 0 / Core 0 / Thread 0: Valid",
            "0x0000",
        ] {
            assert_eq!(read(line, false), Line::Other, "{line}");
        }
    }
}
