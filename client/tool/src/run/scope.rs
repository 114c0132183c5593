//! What a result says of what was measured: which processors, and while which program ran.

use crate::run::program::LeftRunning;
use halprof_measure::selection::format_processors;
use schemars::JsonSchema;
use serde::Serialize;

/// The scope of a measurement.
#[derive(Clone, Default, JsonSchema, Serialize)]
pub(crate) struct Scope {
    /// The processors whose events are counted or sampled, for all programs.
    pub(crate) processors: Vec<u32>,
    /// The only process whose samples are kept, by its identifier; null for all programs.
    pub(crate) process: Option<u32>,
    /// The program that ran in the meantime, as it was called; null if the time did not depend on
    /// one.
    pub(crate) program: Option<String>,
    /// The program was restricted to these processors.
    pub(crate) pinned: bool,
    /// The program's exit status; null if it did not end by itself.
    pub(crate) exit_status: Option<u32>,
    /// Processes that it started, that outlived it, and that were left alone.
    pub(crate) left_running: Vec<LeftRunning>,
    /// How many processors the machine has.
    #[serde(skip)]
    pub(crate) processor_count: u32,
    #[serde(skip)]
    pub(crate) modelled: bool,
}

impl Scope {
    /// The scope in one line; `None` for a modelled machine, which runs a workload and no programs.
    pub(crate) fn text(&self) -> Option<String> {
        if self.modelled {
            return None;
        }
        let selected = format_processors(self.processors.iter().copied());
        let mut text = match self.processor_count {
            1 => "1 processor".to_owned(),
            all if self.processors.len() == all as usize => format!("{all} processors"),
            all => format!("processors {selected} of {all}"),
        };
        text += &match self.process {
            Some(process) => format!(", process {process} alone"),
            None => ", all programs".to_owned(),
        };
        if let Some(program) = &self.program {
            text += &format!(", while `{program}` ran");
            if self.pinned {
                text += &format!(" on {selected}");
            }
            text += &match self.exit_status {
                Some(status) => format!(" (exit {status})"),
                None => " (ended by halprof)".to_owned(),
            };
        }
        Some(text)
    }

    /// One line about the processes that the program left running; `None` if there are none.
    pub(crate) fn left_running(&self) -> Option<String> {
        if self.left_running.is_empty() {
            return None;
        }
        let processes: Vec<String> = self.left_running.iter().map(ToString::to_string).collect();
        Some(format!(
            "still running, started by the program: {}; `--kill-children` ends what outlives it",
            processes.join(", ")
        ))
    }
}
