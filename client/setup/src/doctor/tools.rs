//! Other programs that use the counters, by the names of their services and programs.
//!
//! A matching name makes a candidate, not a proof: Windows does not say who owns the counters.

use std::collections::BTreeSet;

/// A program that uses the counters, or may.
pub(super) struct Tool {
    name: &'static str,
    /// Prefixes of the names of its services, drivers among them, in lower case.
    services: &'static [&'static str],
    /// Full names of its programs without `.exe`, in lower case.
    programs: &'static [&'static str],
    /// How to end it.
    hint: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "Intel VTune Profiler (SEP)",
        services: &["sepdrv", "sepdal", "socperf", "vtss"],
        programs: &["vtune", "vtune-gui", "vtune-backend", "sep", "emon"],
        hint: "end its collection; `amplxe-sepreg.exe -u` in VTune's bin64 folder unloads its drivers",
    },
    Tool {
        name: "AMD uProf",
        services: &["amdpowerprofiler", "amdcpuprofiler"],
        programs: &["amduprof", "amduprofcli", "amduprofpcm", "amduprofsys"],
        hint: "end its profile",
    },
    Tool {
        name: "Intel PCM",
        services: &["pcm test msr", "pcmservice"],
        programs: &["pcm", "pcm-core", "pcm-raw", "pcm-memory", "pcm-sensor-server", "pcm-service"],
        hint: "end it, and `sc stop \"PCM Test MSR\"`",
    },
    Tool { name: "WindowsPerf", services: &["wperf"], programs: &["wperf"], hint: "end it" },
    Tool {
        name: "Windows Performance Toolkit",
        services: &[],
        programs: &["wpr", "wprui", "xperf", "tracelog"],
        hint: "`wpr -cancel`, or `xperf -stop`; sessions that only trace can go on",
    },
    Tool {
        name: "a program with access to every MSR (WinRing0, RWEverything, PawnIO)",
        services: &["winring0", "rwdrv", "rweverything", "pawnio"],
        programs: &["rw"],
        hint: "end the program that uses it; most only read temperatures and change nothing",
    },
];

/// A running tool, and how it was recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningTool {
    /// The tool.
    pub tool: &'static str,
    /// Its running services and programs.
    pub seen: BTreeSet<String>,
    /// How to end it.
    pub hint: &'static str,
}

/// The tools among these running services and programs.
pub(super) fn running(services: &[String], programs: &[String]) -> Vec<RunningTool> {
    let mut running = Vec::new();
    for tool in TOOLS {
        let services = services.iter().filter(|name| tool.has_service(name));
        let programs = programs.iter().filter(|name| tool.has_program(name));
        let seen: BTreeSet<String> = services.chain(programs).cloned().collect();
        if !seen.is_empty() {
            running.push(RunningTool { tool: tool.name, seen, hint: tool.hint });
        }
    }
    running
}

impl Tool {
    fn has_service(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.services.iter().any(|start| name.starts_with(start))
    }

    fn has_program(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let name = name.strip_suffix(".exe").unwrap_or(&name);
        self.programs.contains(&name)
    }
}

impl RunningTool {
    /// The tool, and how it was recognised.
    pub(super) fn text(&self) -> String {
        let seen: Vec<&str> = self.seen.iter().map(String::as_str).collect();
        format!("{} ({})", self.tool, seen.join(", "))
    }
}

/// Who may own the counters, in a sentence.
pub(super) fn candidates(names: Option<(&[String], &[String])>) -> String {
    let found: Vec<String> = names
        .map(|(services, programs)| running(services, programs))
        .unwrap_or_default()
        .iter()
        .map(|running| format!("{}: {}", running.text(), running.hint))
        .collect();
    if !found.is_empty() {
        return format!("Candidates running here: {}.", found.join("; "));
    }
    let all: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    format!(
        "Candidates are {}, and virtual machines; none of them was found running here.",
        all.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_tool_is_known_by_its_service_and_by_its_program() {
        let services = names(&["Tcpip", "sepdrv5", "SEPDAL", "halprof"]);
        let programs = names(&["explorer.exe", "WPR.exe", "pcmanager.exe", "AMDuProfCLI.exe"]);
        let found = running(&services, &programs);
        let found: Vec<(&str, usize)> =
            found.iter().map(|one| (one.tool, one.seen.len())).collect();
        assert_eq!(
            found,
            [
                ("Intel VTune Profiler (SEP)", 2),
                ("AMD uProf", 1),
                ("Windows Performance Toolkit", 1)
            ]
        );
        assert!(running(&names(&["Tcpip"]), &names(&["halprof.exe"])).is_empty());
    }

    #[test]
    fn names_in_the_table_are_as_they_are_compared() {
        for tool in TOOLS {
            let names = tool.services.iter().chain(tool.programs);
            for name in names {
                assert_eq!(*name, name.to_lowercase());
                assert!(!name.contains("halprof") && name.len() > 1, "{name}");
            }
        }
    }

    #[test]
    fn candidates_are_those_that_run_or_else_all() {
        let here = candidates(Some((&names(&["vtss"]), &[])));
        assert!(here.contains("running here: Intel VTune Profiler (SEP) (vtss)"), "{here}");
        for names in [None, Some((&[][..], &[][..]))] {
            let all = candidates(names);
            assert!(all.contains("Intel PCM") && all.contains("none of them was found"), "{all}");
        }
    }
}
