//! Does `explain` know every code that a user can meet, and say for a source what it counts, with which bits, and what
//! Windows would count?

use crate::cli::support::{halprof, json, refused};
use serde_json::Value;

fn on(machine: &str, topic: &str) -> Value {
    json(&["--machine", machine, "explain", topic])
}

/// The text of a section.
fn section<'a>(value: &'a Value, title: &str) -> &'a str {
    let sections = value["sections"].as_array().expect("a list");
    let found = sections.iter().find(|section| section["title"] == title);
    found.and_then(|section| section["text"].as_str()).expect(title)
}

/// The value of a field of the first register.
fn field(value: &Value, name: &str) -> u64 {
    let fields = value["registers"][0]["fields"].as_array().expect("a list");
    let found = fields.iter().find(|field| field["name"] == name);
    found.and_then(|field| field["value"].as_u64()).expect(name)
}

#[test]
fn all_that_is_listed_can_be_explained() {
    let contents = json(&["explain"]);
    let topics = contents["topics"].as_array().expect("a list");
    for topic in topics {
        let name = topic["topic"].as_str().expect("a name");
        // The machine does not matter; it need not even exist.
        let value = on("no-such-machine", name);
        assert_eq!((&value["topic"], &value["kind"]), (&topic["topic"], &topic["kind"]));
        assert_eq!(value["modelled"], false);
        let text = halprof(&["explain", name]).stdout;
        assert!(text.starts_with(name), "{text}");
    }
    assert!(topics.len() > 30, "{}", topics.len());
}

#[test]
fn an_intel_select_is_taken_apart() {
    // The HAL's select of ProfileCacheMisses: event 0x2E with unit mask 0x41.
    for name in ["CacheMisses", "profilecachemisses", "0xA", "CacheMisses:u"] {
        let value = on("skylake", name);
        assert_eq!(value["topic"], "CacheMisses");
        assert_eq!(value["registers"][0]["name"], "IA32_PERFEVTSELx");
        assert_eq!((field(&value, "EVENT_SELECT"), field(&value, "UMASK")), (0x2E, 0x41));
        assert!(section(&value, "Windows").contains("counts the same"));
        assert!(section(&value, "Evidence").contains("Intel SDM"));
        assert_eq!(value["topics"][0]["topic"], "LLCMisses");
        assert_eq!(value["modelled"], true);
    }
}

#[test]
fn every_family_has_its_own_registers() {
    for (machine, name, register, bits, expected) in [
        ("zen4", "TotalIssues", "PERF_CTLx", "EventSelect[7:0]", 0xC0),
        ("pentium", "TotalIssues", "CESR", "ES0", 0x16),
        ("pentium3", "TotalIssues", "PerfEvtSelx", "EVENT_SELECT", 0xC0),
        ("pentium4", "TotalIssues", "ESCR", "EVENT_SELECT", 0x02),
    ] {
        let value = on(machine, name);
        assert_eq!(value["registers"][0]["name"], register, "{machine}");
        assert_eq!(field(&value, bits), expected, "{machine}");
    }
    assert_eq!(on("pentium4", "TotalIssues")["registers"][1]["name"], "CCCR");
    assert_eq!(field(&on("skylake", "r1830000"), "CMASK"), 1);
    // Event number 0 is valid.
    let text = halprof(&["--machine", "skylake", "explain", "r10000"]).stdout;
    assert!(text.contains("EVENT_SELECT") && !text.contains("CMASK"), "{text}");
}

/// Each register with the mode bits that the filter sets there (SDM: CC of CESR, T0_USR and T0_OS of
/// an ESCR, USR and OS of a select).
#[test]
fn a_filter_is_in_the_register() {
    for (machine, name, [both, user, kernel]) in [
        ("pentium", "DATA_READ_MISS", [0xC3, 0x83, 0x43]),
        ("skylake", "TotalIssues", [0x3_00C0, 0x1_00C0, 0x2_00C0]),
        ("skylake", "UOPS_ISSUED.ANY", [0x3_010E, 0x1_010E, 0x2_010E]),
        ("skylake", "rC0", [0x3_00C0, 0x1_00C0, 0x2_00C0]),
        ("zen4", "ex_ret_ops", [0x3_00C1, 0x1_00C1, 0x2_00C1]),
        ("pentium4", "TotalIssues", [0x0400_060C, 0x0400_0604, 0x0400_0608]),
    ] {
        for (filter, wanted) in [("", both), (":uk", both), (":u", user), (":k", kernel)] {
            let told = on(machine, &format!("{name}{filter}"));
            let value = told["registers"][0]["value"].as_str().expect("a value");
            assert_eq!(value, format!("{wanted:#x}"), "{machine} {name}{filter}");
        }
    }
}

#[test]
fn where_windows_counts_something_else_it_says_so() {
    for (machine, name, words) in [
        ("skylake", "FixedCycles", "Recent Windows lists it too"),
        ("sapphire-rapids", "FixedTopdownSlots", "halprof's own"),
        ("pentium", "TotalIssues", "interface Default"),
        ("skylake", "ProfileTime", "timer"),
        ("zen4", "0xAC", "node"),
        ("zen4", "TotalIssues", "counts the same"),
        ("zen2", "LSLockedOperation", "on every AMD processor"),
    ] {
        let value = on(machine, name);
        assert!(section(&value, "Windows").contains(words), "{machine} {name}: {value}");
    }
}

#[test]
fn every_source_of_every_model_is_explained() {
    for machine in
        ["skylake", "hybrid", "zen4", "k8", "pentium", "pentium3", "pentium4", "hyperv-masked"]
    {
        let list = json(&["--machine", machine, "list", "--all"]);
        let sources = list["sources"].as_array().expect("a list");
        // Every ninth source is enough: the code is the same for all.
        for source in sources.iter().step_by(9) {
            let id = format!("{:#x}", source["id"].as_u64().expect("a number"));
            let value = on(machine, &id);
            assert_eq!(value["topic"], source["name"], "{machine}");
            let select = source["select"].is_string() && source["name"] != "Timer";
            assert_eq!(!value["registers"].as_array().expect("a list").is_empty(), select);
        }
    }
}

#[test]
fn a_hybrid_tells_what_each_type_of_processor_counts() {
    let value = on("hybrid", "TotalIssues");
    let cpu_types = value["cpu_types"].as_array().expect("a list");
    let types: Vec<&Value> = cpu_types.iter().map(|one| &one["core_type"]).collect();
    assert_eq!(types, ["performance", "efficiency"]);
    let text = halprof(&["--machine", "hybrid", "explain", "TotalIssues"]).stdout;
    assert!(text.contains("efficiency"), "{text}");
}

#[test]
fn what_cannot_be_explained_is_refused() {
    refused(&["explain", "Nonsense"], 4, "source-unknown");
    for code in ["bad-filter", "no-sources", "source-not-in-session", "wrong-size"] {
        refused(&["explain", code], 2, "usage");
    }
    refused(&["explain", "TotalIssues,TotalCycles"], 2, "usage");
    refused(&["explain", "{TotalIssues"], 2, "usage");
    #[cfg(not(windows))]
    refused(&["--machine", "driver", "explain", "TotalIssues"], 3, "no-driver");
}

#[test]
fn no_line_is_wider_than_a_terminal() {
    for topic in ["counters-reserved", "TotalIssues"] {
        let text = halprof(&["--machine", "hybrid", "explain", topic]).stdout;
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{text}");
    }
}

#[test]
fn a_name_is_given_once() {
    let value = on("hybrid", "FixedTopdownSlots");
    let names = section(&value, "Names");
    assert_eq!(names.matches("FixedTopdownSlots").count(), 1, "{names}");
}
