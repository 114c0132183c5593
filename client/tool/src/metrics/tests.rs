//! Are figures the ratios that the file defines, and is an error in a file reported with its line?

use super::*;

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
fn figures_need_both_parts_with_one_filter() {
    let metrics = built_in();
    let figures = metrics.derive(&[
        counted("TotalIssues", 3000),
        counted("TotalCycles:uk", 1500),
        counted("BranchMispredictions", 6),
        counted("BranchInstructions:u", 100),
        counted("LLCReference", 0),
        counted("CacheMisses", 3),
    ]);
    let named: Vec<_> =
        figures.iter().map(|figure| (figure.metric.as_str(), figure.value, figure.error)).collect();
    assert_eq!(
        named,
        [("ipc", Some(2.0), None), ("branch-mpki", Some(2.0), None), ("llc-mpki", Some(1.0), None)]
    );
}

#[test]
fn the_first_name_of_a_quantity_wins() {
    let metrics = built_in();
    let figures = metrics.derive(&[
        counted("UnhaltedCoreCycles:u", 7),
        counted("InstructionRetired:u", 30),
        counted("TotalCycles:u", 10),
    ]);
    assert_eq!((figures[0].value, figures[0].filter), (Some(3.0), "u"));
}

#[test]
fn modes_that_a_metric_names_are_those_it_takes() {
    let metrics = built_in();
    let figures = metrics.derive(&[
        counted("TotalIssues:u", 300),
        counted("TotalIssues:k", 100),
        counted("TotalIssues", 999),
    ]);
    let shares: Vec<_> = figures
        .iter()
        .filter(|figure| figure.metric == "kernel-share")
        .map(|figure| (figure.value, figure.filter))
        .collect();
    assert_eq!(shares, [(Some(25.0), "")]);
}

#[test]
fn what_is_asked_for_is_by_time() {
    let metrics = built_in();
    let counts = [counted("TotalCycles", 5_000_000_000)];
    assert!(metrics.derive(&counts).is_empty());
    let metric = metrics.named("GHz").expect("there is one");
    let figure = metrics.figure(metric, &counts, "").expect("a figure");
    assert_near(&figure, 2.5);
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
above = ["instructions"]
below = ["cycles"]
[[metric]]
id = "stall-share"
name = "cycles stalled"
unit = "%"
scale = 100
above = ["stalls"]
below = ["cycles"]
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

/// The bound comes from the events, as it does for a ratio.
#[test]
fn a_formula_is_over_any_names() {
    let mut metrics = built_in();
    let text = r#"
[[metric]]
id = "lost"
name = "slots lost"
formula = "100 * ( 1 - ( UOPS_RETIRED.SLOTS + cpu@A.B,cmask=0x2@ ) / ( 4 * ( CORE.ANY / 2 if smt_on else cycles ) ) )"
[[metric]]
id = "miss-share"
name = "branches missed"
formula = "branch-misses:u/branches:u"
"#;
    assert!(metrics.add(text).is_ok());
    let counts = [
        counted("TotalCycles", 1000),
        counted("core.any", 1000),
        estimated("uops_retired.slots", 1000, 100.0, 0),
        counted("cpu/A.B,cmask=0x2/", 500),
        counted("BranchMispredictions:u", 1),
        counted("BranchInstructions:u", 4),
    ];
    for (smt, percent, error) in [(false, 62.5, 2.5), (true, 25.0, 5.0)] {
        metrics.smt = smt;
        let metric = metrics.named("lost").expect("there is one");
        let figure = metrics.figure(metric, &counts, "").expect("a figure");
        assert_near(&figure, percent);
        assert!((figure.error.expect("a bound") - error).abs() < 1e-9, "{figure:?}");
        let names: Vec<String> =
            metrics.terms(metric).iter().map(|term| term.name.clone()).collect();
        let cycles = if smt { "CORE.ANY" } else { "cycles" };
        assert!(names.contains(&cycles.to_owned()) && names.len() == 3, "{names:?}");
    }
    let metric = metrics.named("miss-share").expect("there is one");
    let figure = metrics.figure(metric, &counts, "").expect("a figure");
    assert_near(&figure, 0.25);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    const HEAD: &str = "# a comment\n[[metric]]\nid = \"x\"\nname = \"x\"\n";
    for (text, line, word) in [
        ("[[metric]\n", 1, ""),
        ("\n\nmetric = 7\n", 3, ""),
        ("[[metric]]\nid = \"x\"\n", 1, "name"),
        (&format!("{HEAD}above = []\nbelow = [\"cycles\"]\n"), 5, "without a part"),
        (
            &format!(
                "{HEAD}above = [\"cycles\"]\nbelow = [\n\"instructions\",\n\"branch-mises\"]\n"
            ),
            8,
            "branch-misses",
        ),
        (&format!("{HEAD}above = [\"cycles:x\"]\nbelow = [\"cycles\"]\n"), 5, "filter"),
        (&format!("{HEAD}above = [\"a b\"]\nbelow = [\"cycles\"]\n"), 5, "neither"),
        (&format!("{HEAD}above = [\"cycles\"]\nbelow = [\"cycles\"]\nscale = 0\n"), 7, "positive"),
        (
            &format!("{HEAD}above = [\"cycles\"]\nbelow = [\"cycles\"]\nscale = nan\n"),
            7,
            "positive",
        ),
        (&format!("{HEAD}above = [\"seconds\"]\nbelow = [\"seconds\"]\n"), 3, "counts nothing"),
        (&format!("{HEAD}above = [\"cycles\"]\nbelow = [\"cycles\"]\ncolour = 1\n"), 7, "colour"),
        (
            "[[metric]]\nid = \"No Id\"\nname = \"x\"\nabove = [\"A\"]\nbelow = [\"B\"]\n",
            2,
            "lowercase",
        ),
        (
            "[[metric]]\nid = \"x\"\nname = \"\\u001b[31m\"\nabove = [\"A\"]\nbelow = [\"B\"]\n",
            3,
            "printed",
        ),
        (&format!("{HEAD}formula = \"1 +\"\n"), 5, "ends too early"),
        (&format!("{HEAD}formula = \"A:z / B\"\n"), 5, "neither `:u` nor `:k`"),
        (&format!("{HEAD}formula = \"seconds\"\n"), 3, "counts nothing"),
        (
            &format!("{HEAD}formula = \"A\"\nabove = [\"A\"]\nbelow = [\"B\"]\n"),
            3,
            "either a `formula`",
        ),
        (&format!("{HEAD}formula = \"A\"\nscale = 2\n"), 3, "either"),
        (HEAD, 3, "either a `formula`"),
        ("[quantity]\nstalls = []\n", 2, "without sources"),
        (
            "[[topdown]]\ntables = \"t\"\nname = \"A\"\nlevel = 1\nformula = \"A + A\"\n",
            3,
            "cannot be added",
        ),
        ("[quantity]\nseconds = [\"A\"]\n", 2, "seconds"),
    ] {
        let mut metrics = built_in();
        let told = match metrics.add(text) {
            Ok(()) => panic!("taken: {text}"),
            Err(wrong) => wrong.in_words(text),
        };
        let start = format!("is not a valid metric file: line {line}: ");
        assert!(told.starts_with(&start) && told.contains(word), "{text}{told}");
    }
    let twice =
        "[[metric]]\nid = \"x\"\nname = \"x\"\nabove = [\"A\"]\nbelow = [\"B\"]\n".repeat(2);
    let Err(wrong) = built_in().add(&twice) else {
        panic!("taken twice");
    };
    assert!(wrong.in_words(&twice).contains("line 7"));
}
