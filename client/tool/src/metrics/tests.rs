//! Are figures the ratios that the file defines, and is an error in a file reported with its line?

use super::*;
use halprof_measure::tracing::session::plan::is_paced_by_clock;

fn counted(label: &str, value: u128) -> Counted<'_> {
    Counted { label, value, enabled_ns: 2_000_000_000, ..Counted::default() }
}

fn estimated(label: &str, value: u128, error: f64, group: u16) -> Counted<'_> {
    Counted { scaled: true, error: Some(error), group, ..counted(label, value) }
}

fn built_in() -> Metrics {
    Metrics::built_in().expect("metrics.toml is right")
}

fn assert_near(figure: &MetricRow, expected: f64) {
    let value = figure.value.expect("a value");
    assert!((value - expected).abs() < 1e-9, "{figure:?}");
}

#[test]
fn the_clock_paces_the_sources_of_cycles_and_instructions() {
    const PACED: [&str; 3] = ["cycles", "reference-cycles", "instructions"];
    for (quantity, names) in &built_in().quantities {
        for name in names {
            assert_eq!(is_paced_by_clock(name), PACED.contains(&&**quantity), "{name}");
        }
    }
    assert!(!is_paced_by_clock("UnhaltedReferenceCycles"));
}

#[test]
fn figures_need_both_parts_with_one_filter() {
    for (counts, expected) in [
        (
            &[
                ("TotalIssues", 3000),
                ("TotalCycles:uk", 1500),
                ("BranchMispredictions", 6),
                ("BranchInstructions:u", 100),
                ("LLCReference", 0),
                ("CacheMisses", 3),
            ][..],
            &[("ipc", 2.0, ""), ("branch-mpki", 2.0, ""), ("llc-mpki", 1.0, "")][..],
        ),
        // The first name of a quantity wins.
        (
            &[("UnhaltedCoreCycles:u", 7), ("InstructionRetired:u", 30), ("TotalCycles:u", 10)],
            &[("ipc", 3.0, "u")],
        ),
        // Modes that a metric names are those it takes.
        (
            &[("TotalIssues:u", 300), ("TotalIssues:k", 100), ("TotalIssues", 999)],
            &[("kernel-share", 25.0, "")],
        ),
        // What is by time is computed where it is asked for.
        (&[("TotalCycles", 5_000_000_000)], &[]),
    ] {
        let counts = counts.iter().map(|&(label, value)| counted(label, value));
        let figures = built_in().derive(&counts.collect::<Vec<_>>());
        let figures = figures.iter().map(|one| (&*one.metric, one.value, one.filter, one.error));
        let expected = expected.iter().map(|&(id, value, filter)| (id, Some(value), filter, None));
        assert_eq!(figures.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

/// Two sources of one quantity: the one that ran in the group is used, though the other is listed
/// first.
#[test]
fn a_ratio_is_taken_within_a_group() {
    let metrics = built_in();
    let figures = metrics.derive(&[
        estimated("FixedCycles", 1000, 10.0, 0),
        estimated("TotalCycles", 1500, 15.0, 1),
        estimated("TotalIssues", 3000, 30.0, 1),
    ]);
    assert_near(&figures[0], 2.0);
    // 3030 / 1485 - 2
    let error = figures[0].error.expect("a bound");
    assert!((error - 0.040_404).abs() < 1e-6, "{error}");
    assert!(figures[0].scaled);
}

#[test]
fn a_bound_that_a_part_does_not_know_is_not_known() {
    let metrics = built_in();
    let mut cycles = estimated("TotalCycles", 1500, 0.0, 0);
    cycles.error = None;
    let counts = [cycles, counted("TotalIssues", 3000)];
    let figures = metrics.derive(&counts);
    assert_eq!((figures[0].scaled, figures[0].error), (true, None));
}

#[test]
fn a_file_adds_and_replaces() {
    let mut metrics = built_in();
    let before = metrics.all().len();
    let added = metrics.add(
        r#"
[quantity]
cycles = ["Ticks"]
stalls = ["StallCycles"]
[[metric]]
id = "ipc"
name = "mine"
formula = "instructions / cycles"
[[metric]]
id = "stall-share"
name = "cycles stalled"
unit = "%"
formula = "100 * stalls / cycles"
"#,
    );
    assert!(added.is_ok());
    assert_eq!(metrics.all().len(), before + 1);
    let counts = [
        counted("Ticks", 200),
        counted("TotalCycles", 7),
        counted("StallCycles", 50),
        counted("TotalIssues", 100),
    ];
    let figures = metrics.derive(&counts);
    let named: Vec<_> = figures.iter().map(|figure| (figure.name.as_str(), figure.value)).collect();
    assert_eq!(named, [("mine", Some(0.5)), ("cycles stalled", Some(25.0))]);
}

#[test]
fn an_error_in_a_metric_file_names_its_line() {
    const METRIC: &str = "[[metric]]\nid = \"x\"\nname = \"x\"\nformula = \"A / B\"\n";
    const TOPDOWN: &str = "[[topdown]]\ntables = \"t\"\nname = \"A\"\nlevel = 1\n";
    // Of a metric that begins in line 2.
    let metric =
        |rest: &str| format!("# a comment\n[[metric]]\nid = \"x\"\nname = \"x\"\n{rest}\n");
    let formula = |formula: &str, rest: &str| metric(&format!("formula = \"{formula}\"\n{rest}"));
    let many =
        |text: &str| (0..1001).map(|n| text.replace('#', &n.to_string())).collect::<String>();
    // Formulas of 450 names, none of which another has.
    let with_own_names = |metric: u32| {
        let names: Vec<String> = (0..450).map(|name| format!("A{metric}_{name}")).collect();
        let formula = names.join("+");
        format!("[[metric]]\nid = \"m{metric}\"\nname = \"x\"\nformula = \"{formula}\"\n")
    };
    let five_with_own_names: String = (0..5).map(with_own_names).collect();
    for (text, line, word) in [
        ("[[metric]\n".to_owned(), 1, ""),
        ("\n\nmetric = 7\n".to_owned(), 3, ""),
        ("[[metric]]\nid = \"x\"\n".to_owned(), 1, "name"),
        (METRIC.replace("id = \"x\"", "id = \"No Id\""), 2, "lowercase"),
        (METRIC.replace("name = \"x\"", "name = \"\\u001b[31m\""), 3, "printed"),
        (METRIC.repeat(2), 6, ""),
        (formula("cycles", "colour = 1"), 6, "colour"),
        (formula("seconds / seconds", ""), 3, "counts nothing"),
        (formula("1 +", ""), 5, "ends too early"),
        (formula("A:z / B", ""), 5, "neither `:u` nor `:k`"),
        (formula("seconds", ""), 3, "counts nothing"),
        (formula("A", "scale = 2"), 6, "scale"),
        (metric(""), 2, "formula"),
        (format!("{TOPDOWN}formula = \"A + A\"\n"), 3, "cannot be added"),
        ("[quantity]\nstalls = []\n".to_owned(), 2, "without sources"),
        ("[quantity]\nseconds = [\"A\"]\n".to_owned(), 2, "seconds"),
        (format!("[quantity]\n{} = [\"A\"]\n", "a".repeat(101)), 2, "100 lowercase"),
        // Quantities are in order of their names.
        (format!("[quantity]\n{}", many("q#=[\"A\"]\n")), 1001, "1000 quantities"),
        (format!("[quantity]\nq=[{}]\n", "\"A\",".repeat(101)), 2, "100 sources"),
        (many("[[metric]]\nid = \"m#\"\nname = \"x\"\nformula = \"A\"\n"), 4002, "1000 metrics"),
        (five_with_own_names, 20, "2000 names"),
        (formula(&"A+".repeat(300_000), ""), 5, "1000 names"),
        (formula(&"-".repeat(900_000), ""), 5, "1000 names"),
    ] {
        let told = match built_in().add(&text) {
            Ok(()) => panic!("taken: {text}"),
            Err(wrong) => wrong.in_words(&text),
        };
        let start = format!("is not a valid metric file: line {line}: ");
        assert!(told.starts_with(&start) && told.contains(word), "{told}");
        assert!(told.len() < 1000, "{} bytes", told.len());
    }
}
