//! What to do about an error.

use std::fmt::{self, Display, Formatter};

/// What to do about an error: a sentence, or something for which a client has an option or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A sentence that is the same for every client.
    Text(String),
    /// What a client can say in terms of its own.
    Remedy(Remedy),
}

/// What helps, where clients offer it by different names: the tool by an option, a program by a call.
/// A library knows neither, so it says which remedy it means, and the client spells it. A remedy that a
/// client does not spell does not compile there; two equal sentences would only look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Build the library with modelled machines.
    BuildWithModels,
    /// Install the driver.
    InstallDriver,
    /// Replace an installed driver that does not answer.
    ReinstallDriver,
    /// Get the right to trace.
    TracingRights,
    /// Count what does not fit into one session in several.
    SeveralRuns,
    /// Count fewer sources in one region.
    FewerAtOnce,
    /// Look at the machine's processors and their indexes.
    ListProcessors,
    /// Write a list of processors as it is parsed.
    ProcessorList,
    /// Look up an event in the list that the user has added.
    EventInOwnList,
    /// Look up an event in the vendor's list.
    EventInVendorsList,
    /// Make a recording.
    Record,
    /// Provide the file that ran.
    SameBuild,
    /// Provide symbols.
    Symbols,
    /// Record branches.
    RecordBranches,
    /// Record branches of every kind.
    RecordAllBranches,
    /// Trace what threads wait for, and who ends their waits.
    TraceWaits,
}

/// The remedy for a client without words of its own.
impl Display for Remedy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuildWithModels => {
                "Build it with the cargo feature `models`, or measure on Windows with the driver installed."
            }
            Self::InstallDriver => "Install the driver.",
            Self::ReinstallDriver => {
                "Install the driver again; %SystemRoot%\\INF\\setupapi.dev.log has what Windows did."
            }
            Self::TracingRights => {
                "Run it from an elevated prompt: the kernel's events belong to administrators."
            }
            Self::SeveralRuns => "Name fewer sources, or count them in several runs.",
            Self::FewerAtOnce => {
                "Name fewer sources for a region, or run it through all of them with `sweep`."
            }
            Self::ListProcessors => "Processors are numbered from 0, over all groups.",
            Self::ProcessorList => "A list is like `0-3,8`; processors are numbered from 0.",
            Self::EventInOwnList => "Your list of events says what it needs.",
            Self::EventInVendorsList => "The vendor's list of events says what it needs.",
            Self::Record => "Make one by sampling.",
            Self::SameBuild => {
                "The file that ran is needed, of the same build: put it into a folder of the symbol path."
            }
            Self::Symbols => {
                "An address or a range of addresses needs no symbols. A name needs those of the same build: put its PDB, or a copy that is not stripped, into a folder of the symbol path."
            }
            Self::RecordBranches => {
                "Record again with the branches before each sample, on a processor that records them."
            }
            Self::RecordAllBranches => "Record again with branches of every kind.",
            Self::TraceWaits => {
                "A trace with context switches and ReadyThread, each with its call stack, has all of it: `xperf -on PROC_THREAD+LOADER+CSWITCH+DISPATCHER -stackwalk CSwitch+ReadyThread` begins one, and `xperf -d FILE` ends it."
            }
        })
    }
}

impl Display for Hint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Remedy(remedy) => remedy.fmt(f),
        }
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Remedy> for Hint {
    fn from(remedy: Remedy) -> Self {
        Self::Remedy(remedy)
    }
}
