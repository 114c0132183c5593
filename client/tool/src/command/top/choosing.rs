//! The list from which sources are chosen.

use ratatui::crossterm::event::KeyCode;

/// What can be counted, and which of it is selected.
#[derive(Clone, Debug)]
pub(super) struct Choosing {
    pub(super) rows: Vec<Choice>,
    /// The marked row.
    pub(super) at: usize,
}

/// The effect of a key.
pub(super) enum Then {
    Stay,
    /// Close the list and change nothing.
    Close,
    /// Close the list and count these.
    Count(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) label: String,
    pub(super) chosen: bool,
}

impl Choosing {
    pub(super) fn new(labels: &[String], counted: &[String]) -> Self {
        let row = |label: &String| Choice {
            label: label.clone(),
            chosen: counted.contains(label),
        };
        Self {
            rows: labels.iter().map(row).collect(),
            at: 0,
        }
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyCode) -> Then {
        match key {
            KeyCode::Esc | KeyCode::Char('q' | 'c') => return Then::Close,
            KeyCode::Enter => return self.chosen(),
            KeyCode::Char(' ') => {
                if let Some(row) = self.rows.get_mut(self.at) {
                    row.chosen = !row.chosen;
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-10),
            KeyCode::PageDown => self.step(10),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            _ => {}
        }
        Then::Stay
    }

    /// The selected sources; an empty selection is not accepted.
    fn chosen(&self) -> Then {
        let chosen = self.rows.iter().filter(|row| row.chosen);
        let labels: Vec<String> = chosen.map(|row| row.label.clone()).collect();
        if labels.is_empty() {
            Then::Close
        } else {
            Then::Count(labels)
        }
    }

    fn step(&mut self, rows: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.at = self.at.saturating_add_signed(rows).min(last);
    }
}
