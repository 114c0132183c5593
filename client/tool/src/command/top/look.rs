//! Colours and symbols, as the terminal supports them.

use ratatui::style::{Color, Modifier, Style};

/// The styles and symbols in use.
pub(super) struct Look {
    pub(super) strong: Style,
    pub(super) quiet: Style,
    pub(super) warning: Style,
    /// The bars of a trace, the lowest first.
    pub(super) bars: &'static [char],
}

impl Look {
    /// `colours`: whether colours are allowed; `fine`: whether the font has all block characters.
    pub(super) fn new(colours: bool, fine: bool) -> Self {
        let warning = if colours { Style::new().fg(Color::Yellow) } else { Style::new() };
        Self {
            strong: Style::new().add_modifier(Modifier::BOLD),
            quiet: Style::new().add_modifier(Modifier::DIM),
            warning: warning.add_modifier(Modifier::BOLD),
            bars: if fine {
                &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
            } else {
                &[' ', '▄', '█']
            },
        }
    }

    /// A look that suits the current terminal.
    pub(super) fn of_terminal() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        // The old console's fonts have half blocks; Windows Terminal identifies itself.
        let fine = !cfg!(windows) || set("WT_SESSION");
        Self::new(!set("NO_COLOR"), fine)
    }
}
