//! Text that is safe on a terminal.
//!
//! Names come from recordings, images and debug information, and so are untrusted: a control
//! character in one could clear the screen, write to the clipboard, break a table or make one name
//! look like another. Text with such names is printed by [`Output`], which passes only line ends,
//! tabs and the tool's own colours.
//!
//! [`Output`]: crate::output::Output

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// An untrusted text, on one line, with its control characters made visible.
#[derive(Clone, Copy)]
pub(crate) struct Escaped<T>(pub(crate) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return self.0.write_str(text);
        }
        text.chars().try_for_each(|character| {
            if is_hidden(character) {
                escape(self.0, character)
            } else {
                self.0.write_char(character)
            }
        })
    }
}

/// Whether a terminal would do anything but show it: C0, DEL and C1, line and paragraph separators,
/// and characters that change the direction of text.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61C}'
                | '\u{200E}'
                | '\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2066}'..='\u{2069}'
                | '\u{FEFF}'
        )
}

fn escape(out: &mut impl Write, character: char) -> fmt::Result {
    match character {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        _ if character.is_ascii() => write!(out, "\\x{:02x}", u32::from(character)),
        _ => write!(out, "\\u{{{:x}}}", u32::from(character)),
    }
}

/// Makes complete output safe: line ends, tabs and colours stay, and every other hidden character
/// is made visible.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text) { text.into() } else { escaped(text, colour).into() }
}

/// Whether it has only visible characters of ASCII, line ends and tabs: most text does, and a look at
/// each byte is quick.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
}

/// Makes data safe on a terminal. It has no colours of its own, so that none stay.
pub(crate) fn visible_data(text: &str) -> String {
    escaped(text, |_| None)
}

/// Text in which line ends, tabs and what begins with a colour stay.
fn escaped(text: &str, colour: impl Fn(&str) -> Option<usize>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let colour = colour(rest);
        let (part, after) = rest.split_at(colour.unwrap_or(character.len_utf8()));
        if colour.is_some() || matches!(character, '\n' | '\t') || !is_hidden(character) {
            out.push_str(part);
        } else {
            let _ = escape(&mut out, character);
        }
        rest = after;
    }
    out
}

/// The length of the colour sequence at the start of a text (ECMA-48, SGR).
fn colour(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

/// JSON can contain such characters only in strings, where they are escaped, so that its meaning is
/// unchanged. Those below U+0020 are always escaped in JSON.
pub(crate) fn visible_json(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && !text.as_bytes().contains(&0x7F) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) && character >= '\u{7F}' {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line_and_does_nothing() {
        for (name, shown) in [
            ("plain name.exe", "plain name.exe"),
            ("Müller 日本", "Müller 日本"),
            ("\u{1b}[2J", "\\x1b[2J"),
            ("\u{1b}[31m", "\\x1b[31m"),
            ("\u{1b}]52;c;YQ==\u{7}", "\\x1b]52;c;YQ==\\x07"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{7f}\u{9b}2J", "\\x7f\\u{9b}2J"),
            ("exe.\u{202e}txt\u{2069}", "exe.\\u{202e}txt\\u{2069}"),
        ] {
            assert_eq!(Escaped(name).to_string(), shown);
        }
    }

    #[test]
    fn output_keeps_lines_and_colours_only() {
        let own = "\u{1b}[1mhead\u{1b}[0m\nrow\n";
        assert_eq!(visible(own), own);
        assert_eq!(visible("\u{1b}[2Ja\u{1b}"), "\\x1b[2Ja\\x1b");
        assert_eq!(visible("\u{1b}[1;31"), "\\x1b[1;31");
        assert_eq!(visible("a\r\u{9b}b\u{202e}"), "a\\r\\u{9b}b\\u{202e}");
    }

    #[test]
    fn data_has_no_colours() {
        assert_eq!(visible_data("a,\u{1b}[8mb\n"), "a,\\x1b[8mb\n");
    }

    #[test]
    fn json_says_the_same() {
        let text = serde_json::to_string("a\u{9b}\u{202e}\u{7f}\n").expect("JSON");
        let shown = visible_json(&text);
        assert!(shown.is_ascii(), "{shown}");
        let back: String = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(back, "a\u{9b}\u{202e}\u{7f}\n");
    }
}
