//! Other programs that use the counters, by the names of their services and programs.
//!
//! A matching name makes a candidate, not a proof: Windows does not say who owns the counters.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A program that uses the counters, or may.
#[derive(Deserialize)]
struct Tool {
    name: String,
    /// Prefixes of the names of its services, drivers among them, in lower case, with `|` between.
    services: String,
    /// Full names of its programs without `.exe`, in lower case, with `|` between.
    programs: String,
    /// How to end it.
    hint: String,
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let text = include_str!("tools.csv");
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().flatten().collect()
});

/// A running tool, and how it was recognised.
pub(super) struct RunningTool {
    pub(super) tool: &'static str,
    /// Its running services and programs.
    seen: BTreeSet<String>,
    /// How to end it.
    pub(super) hint: &'static str,
}

/// The tools among these running services and programs.
pub(super) fn running(services: &[String], programs: &[String]) -> Vec<RunningTool> {
    let mut running = Vec::new();
    for tool in &*TOOLS {
        let services = services.iter().filter(|name| tool.has_service(name));
        let programs = programs.iter().filter(|name| tool.has_program(name));
        let seen: BTreeSet<String> = services.chain(programs).cloned().collect();
        if !seen.is_empty() {
            running.push(RunningTool { tool: &tool.name, seen, hint: &tool.hint });
        }
    }
    running
}

/// The names in a cell, which may be empty.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('|').filter(|name| !name.is_empty())
}

impl Tool {
    fn has_service(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        // Some have a version at the end of their name, such as sepdrv5.
        names(&self.services).any(|start| name.starts_with(start))
    }

    fn has_program(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let name = name.strip_suffix(".exe").unwrap_or(&name);
        names(&self.programs).any(|program| program == name)
    }
}

impl RunningTool {
    /// The tool, and how it was recognised.
    pub(super) fn text(&self) -> String {
        let seen: Vec<&str> = self.seen.iter().map(String::as_str).collect();
        format!("{} ({})", self.tool, seen.join(", "))
    }
}

/// Who may own the counters, in a sentence: the tools that run or, if none is known to, all.
pub(super) fn candidates(tools: &[RunningTool]) -> String {
    let found: Vec<String> =
        tools.iter().map(|one| format!("{}: {}", one.text(), one.hint)).collect();
    if !found.is_empty() {
        return format!("Candidates running here: {}.", found.join("; "));
    }
    let all: Vec<&str> = TOOLS.iter().map(|tool| tool.name.as_str()).collect();
    format!(
        "Candidates are {}, and virtual machines; none of them was found running here.",
        all.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_tool_is_known_by_its_service_and_by_its_program() {
        let services = list(&["Tcpip", "sepdrv5", "SEPDAL", "halprof"]);
        let programs = list(&["explorer.exe", "WPR.exe", "pcmanager.exe", "AMDuProfCLI.exe"]);
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
        assert!(running(&list(&["Tcpip"]), &list(&["halprof.exe"])).is_empty());
    }

    #[test]
    fn names_in_the_table_are_as_they_are_compared() {
        assert!(TOOLS.len() > 5);
        for tool in &*TOOLS {
            for name in names(&tool.services).chain(names(&tool.programs)) {
                assert_eq!(name, name.to_lowercase());
                assert!(!name.contains("halprof") && name.len() > 1, "{name}");
            }
        }
    }

    #[test]
    fn candidates_are_those_that_run_or_else_all() {
        let here = candidates(&running(&list(&["vtss"]), &[]));
        assert!(here.contains("running here: Intel VTune Profiler (SEP) (vtss)"), "{here}");
        let all = candidates(&[]);
        assert!(all.contains("Intel PCM") && all.contains("none of them was found"), "{all}");
    }
}
