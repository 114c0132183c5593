//! What a result says of what was measured: which processors, and while which program ran.

use crate::output::number::{seconds, times};
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
    /// How often a modelled machine's workload ran; null on other machines.
    pub(crate) workload: Option<WorkloadRuns>,
    /// Processes that it started, that outlived it, and that were left alone.
    pub(crate) left_running: Vec<LeftRunning>,
    /// How many processors the machine has.
    #[serde(skip)]
    pub(crate) processor_count: u32,
    #[serde(skip)]
    pub(crate) modelled: bool,
}

/// How often a modelled machine's workload ran, in the last run of a measurement.
#[derive(Clone, Copy, Default, JsonSchema, Serialize)]
pub(crate) struct WorkloadRuns {
    /// How often it came to its end.
    pub(crate) ended: u64,
    /// Whether it began again when it ended, until `--duration` was over.
    pub(crate) repeats: bool,
    /// Whether it was asked for, and so never begins again.
    #[serde(skip)]
    pub(crate) is_exact: bool,
    /// The duration that was asked for, if the workload ended before.
    #[serde(skip)]
    pub(crate) early_ns: Option<u64>,
    #[serde(skip)]
    pub(crate) elapsed_ns: u64,
}

impl WorkloadRuns {
    /// One line about what a duration made of the workload; `None` if it ran as a whole.
    fn text(&self) -> Option<String> {
        if let Some(limit_ns) = self.early_ns {
            let (elapsed, limit) = (seconds(self.elapsed_ns), seconds(limit_ns));
            return Some(format!("the workload ended after {elapsed}, not after {limit}"));
        }
        (self.repeats && self.ended != 0).then(|| {
            format!("the default workload ran {}, and again until the end", times(self.ended))
        })
    }
}

impl Scope {
    /// Whether it can last longer.
    pub(crate) fn can_last(&self) -> bool {
        self.workload.is_none_or(|workload| !workload.is_exact || workload.ended == 0)
    }

    /// The scope in one line; of a modelled machine, which runs a workload and no programs, how often
    /// that ran if that is not once.
    pub(crate) fn text(&self) -> Option<String> {
        if self.modelled {
            return self.workload.and_then(|workload| workload.text());
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
