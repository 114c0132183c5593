//! Colours and symbols, as the terminal supports them.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::{Marker, bar};

/// The styles and symbols in use.
pub(super) struct Look {
    pub(super) strong: Style,
    pub(super) quiet: Style,
    pub(super) warning: Style,
    /// The row that the keys act on.
    pub(super) marked: Style,
    /// Curves and bars.
    pub(super) trace: Style,
    pub(super) marker: Marker,
    pub(super) bars: bar::Set<'static>,
    /// Shown after the header of the column by which the rows are sorted.
    pub(super) rising: char,
    pub(super) falling: char,
}

impl Look {
    /// `colours`: whether colours are allowed; `fine`: whether the font has braille and all block
    /// characters.
    pub(super) fn new(colours: bool, fine: bool) -> Self {
        let colour = |colour: Color| {
            if colours {
                Style::new().fg(colour)
            } else {
                Style::new()
            }
        };
        Self {
            strong: Style::new().add_modifier(Modifier::BOLD),
            quiet: Style::new().add_modifier(Modifier::DIM),
            warning: colour(Color::Yellow).add_modifier(Modifier::BOLD),
            marked: Style::new().add_modifier(Modifier::REVERSED),
            trace: colour(Color::Cyan),
            marker: if fine {
                Marker::Braille
            } else {
                Marker::HalfBlock
            },
            bars: if fine {
                bar::NINE_LEVELS
            } else {
                bar::THREE_LEVELS
            },
            rising: '\u{25B2}',
            falling: '\u{25BC}',
        }
    }

    /// A look that suits the current terminal.
    pub(super) fn of_terminal() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        // The old console's fonts have half blocks and no braille; Windows Terminal identifies
        // itself.
        let fine = !cfg!(windows) || set("WT_SESSION");
        Self::new(!set("NO_COLOR"), fine)
    }
}
