//! Names of functions and files, as long as they are worth.

use crate::budget::{NAME, NAME_SHOWN};
use crc32fast::Hasher;
use std::fmt;
use std::sync::Arc;

/// Text that is written piece by piece. It keeps what can be shown, tells what is longer apart by a
/// checksum, and refuses more than a name may have: whoever formats a name ends there, however much
/// the name would become.
#[derive(Debug)]
pub(super) struct NameWriter {
    text: String,
    checksum: Hasher,
    length: usize,
    limit: usize,
    is_whole: bool,
}

impl NameWriter {
    /// For a name that is distinguished by its own text.
    pub(super) fn new() -> Self {
        Self::up_to(NAME)
    }

    /// For a name of at most `limit` bytes.
    pub(super) fn up_to(limit: usize) -> Self {
        let (text, checksum) = (String::new(), Hasher::new());
        Self { text, checksum, length: 0, limit, is_whole: true }
    }

    /// The bytes that were written.
    pub(super) const fn length(&self) -> usize {
        self.length
    }

    /// Whether nothing was refused.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Ends the name here: what comes next would take too long.
    pub(super) fn cut(&mut self) -> fmt::Error {
        self.is_whole = false;
        fmt::Error
    }

    /// The name as it is shown. Of a name that was refused at its end, `origin` tells it from others
    /// with the same beginning.
    pub(super) fn shown(mut self, origin: &[u8]) -> Arc<str> {
        if self.is_whole && self.length <= NAME_SHOWN {
            return self.text.into();
        }
        if !self.is_whole {
            self.checksum.update(origin);
        }
        marked(&self.text, &self.checksum)
    }
}

impl fmt::Write for NameWriter {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = self.limit.saturating_sub(self.length);
        let taken = start(piece, room);
        self.length += taken.len();
        self.checksum.update(taken.as_bytes());
        self.text.push_str(start(taken, NAME_SHOWN.saturating_sub(self.text.len())));
        if taken.len() < piece.len() { Err(self.cut()) } else { Ok(()) }
    }
}

/// A name as it is shown: as it is, unless it is too long.
pub(super) fn shown(name: &str) -> Arc<str> {
    if name.len() <= NAME_SHOWN {
        return name.into();
    }
    let mut checksum = Hasher::new();
    checksum.update(name.as_bytes());
    marked(name, &checksum)
}

/// The start of a name that is cut, and a mark that no other name with this start has: names are what
/// rows are told apart by, in all views and exports, and from one build to the next.
fn marked(name: &str, checksum: &Hasher) -> Arc<str> {
    let mark = format!("...#{:08x}", checksum.clone().finalize());
    format!("{}{mark}", start(name, NAME_SHOWN - mark.len())).into()
}

/// At most `length` bytes of a text, up to the end of a letter.
fn start(text: &str, length: usize) -> &str {
    let end = (0..=length.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn written(pieces: &[&str], origin: &[u8]) -> Arc<str> {
        let mut writer = NameWriter::new();
        for piece in pieces {
            if writer.write_str(piece).is_err() {
                break;
            }
        }
        writer.shown(origin)
    }

    #[test]
    fn a_name_is_shown_up_to_a_length_and_stays_itself() {
        for length in [0, 1, NAME_SHOWN - 1, NAME_SHOWN] {
            let name = "n".repeat(length);
            assert_eq!(*shown(&name), *name);
            assert_eq!(*written(&[&name], b""), *name);
        }
        let long = "n".repeat(NAME_SHOWN + 1);
        let (one, other) = (shown(&format!("{long}1")), shown(&format!("{long}2")));
        assert!(one.len() <= NAME_SHOWN && one.starts_with("nnn"), "{one}");
        assert_ne!(one, other);
        // However a name was made, it is shown the same.
        assert_eq!(written(&[&long, "1"], b"anything"), one);
        for cut in [shown(&"ä".repeat(NAME_SHOWN)), shown(&"€".repeat(NAME_SHOWN))] {
            assert!((NAME_SHOWN - 2..=NAME_SHOWN).contains(&cut.len()), "{}", cut.len());
        }
    }

    #[test]
    fn a_name_without_end_is_refused_and_told_apart_by_where_it_is_from() {
        let mut writer = NameWriter::new();
        let part = "x".repeat(1000);
        let taken = (0..NAME).take_while(|_| writer.write_str(&part).is_ok()).count();
        assert_eq!(taken, NAME / 1000);
        assert_eq!((writer.length(), writer.is_whole()), (NAME, false));
        assert!(writer.write_str("x").is_err());
        let one = writer.shown(&[1]);
        assert!(one.len() <= NAME_SHOWN);
        assert_ne!(one, written(&[&"x".repeat(2 * NAME)], &[2]));
        assert_eq!(one, written(&[&"x".repeat(2 * NAME)], &[1]));
    }
}
