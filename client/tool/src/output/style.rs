//! Colours and emphasis in text.

use anstyle::{AnsiColor, Style};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default();
/// For what a reader of the figures must not miss.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();

/// Text in a style; it is printed plain if colours are not wanted.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Text without styles, for files.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
