//! Does the table of the HAL's sources say what Windows lists, and what the manuals have for each?

#[expect(dead_code, reason = "the test calls what the example's main calls")]
#[path = "../../examples/hal_sources.rs"]
mod example;

use std::collections::BTreeMap;

type Line = BTreeMap<String, String>;
/// An interface, a source, and values of its columns.
type Fact = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

fn lines() -> (Vec<String>, Vec<Line>) {
    let text = example::table().expect("a table");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().expect("a head").iter().map(str::to_owned).collect();
    (head, reader.deserialize().map(|line| line.expect("a line")).collect())
}

/// The columns that BenchmarkDotNet's plan of profile sources asks for.
#[test]
fn a_benchmark_library_finds_its_columns_first() {
    let (head, lines) = lines();
    let columns = [
        "interface",
        "generic_counter",
        "profile_source",
        "default_interval",
        "short_name",
        "higher_is_better",
    ];
    assert_eq!(head[..6], columns);
    let of = |interface: &str| lines.iter().filter(|line| line["interface"] == interface).count();
    // As many as `wpr -pmcsources` lists on a machine of each interface.
    assert_eq!([of("Default"), of("Emon"), of("Amd64")], [1, 13, 176]);
    for line in &lines {
        // `wpr -pmcsources` and `tracelog -profilesources` list these on Intel and on AMD.
        let interval = if line["profile_source"] == "Timer" { "10000" } else { "65536" };
        assert_eq!((&*line["default_interval"], &*line["higher_is_better"]), (interval, "no"));
    }
}

#[test]
fn each_source_has_what_its_select_counts_on_each_family() {
    let (_, lines) = lines();
    // Intel's SDM, "Pre-Defined Architectural Performance Events"; AMD's PPRs.
    let facts: &[Fact] = &[
        (
            "Emon",
            "InstructionRetired",
            &[
                ("generic_counter", "TotalIssues"),
                ("short_name", "instructions"),
                ("id", "0x1a"),
                ("select", "0x000300c0"),
                ("intel", "Instruction Retired"),
                ("zen4", ""),
            ],
        ),
        (
            "Emon",
            "LLCMisses",
            &[("generic_counter", "CacheMisses"), ("short_name", "cache-misses")],
        ),
        ("Emon", "LLCReference", &[("generic_counter", ""), ("short_name", "cache-references")]),
        (
            "Amd64",
            "FRRetiredx86Instructions",
            &[("generic_counter", "TotalIssues"), ("zen5", "RETIRED_INSTRUCTIONS"), ("intel", "")],
        ),
        (
            "Amd64",
            "DcacheMisses",
            &[
                ("short_name", "DcacheMisses"),
                ("k8", "DATA_CACHE_MISSES"),
                ("zen4", "MAB_ALLOCATION_BY_TYPE"),
                ("misleading_on", "Family15h Zen1 Zen2 Zen3 Zen4 Zen5 Zen6"),
            ],
        ),
        ("Amd64", "Timer", &[("generic_counter", "Timer"), ("misleading_on", "")]),
    ];
    for (interface, source, columns) in facts {
        let mut named = lines.iter().filter(|line| line["profile_source"] == *source);
        let line = named.find(|line| line["interface"] == *interface).expect(source);
        for (column, value) in *columns {
            assert_eq!(line[*column], *value, "{interface} {source} {column}");
        }
    }
}
