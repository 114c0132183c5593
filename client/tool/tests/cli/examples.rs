//! Do the library's examples run, and print what the workload did?

#[expect(dead_code, reason = "the test calls what the examples' main calls")]
#[path = "../../../measure/examples/count.rs"]
mod count;
#[expect(dead_code, reason = "the test calls what the examples' main calls")]
#[path = "../../../profile/examples/flame.rs"]
mod flame;
#[expect(dead_code, reason = "the test calls what the examples' main calls")]
#[path = "../../../measure/examples/marks.rs"]
mod marks;
#[expect(dead_code, reason = "the test calls what the examples' main calls")]
#[path = "../../../measure/examples/rates.rs"]
mod rates;
#[expect(dead_code, reason = "the test calls what the examples' main calls")]
#[path = "../../../measure/examples/regions.rs"]
mod regions;
#[expect(dead_code, reason = "the test calls what the examples' main calls")]
#[path = "../../../measure/examples/repetitions.rs"]
mod repetitions;

#[test]
fn a_closure_is_counted() {
    let text = count::count(Some("zen4")).expect("counted");
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    assert_eq!(
        lines,
        [
            "modelled machine, not silicon",
            "the code answered 42",
            "3000000 TotalIssues:u (measuring alone: 0)",
            "400000 BranchInstructions:u (measuring alone: 0)",
        ]
    );
}

#[test]
fn rates_are_watched() {
    let mut text = Vec::new();
    rates::watch(Some("skylake,processors=3"), &mut text).expect("watched");
    let text = String::from_utf8(text).expect("UTF-8");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("modelled machine, not silicon"));
    let rates: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rates.len(), 10);
    for line in rates {
        // 100 million instructions in 150 million cycles, each in 150 ms, on each of three
        // processors.
        let issues: f64 = line[0].parse().expect("a number");
        assert!((issues / 2e9 - 1.0).abs() < 1e-6, "{issues}");
        assert_eq!(line[1..], ["TotalIssues/s", "3000000000", "TotalCycles/s"]);
    }
}

#[test]
fn the_example_draws_what_its_workload_does() {
    let picture = flame::on_model("skylake").expect("a picture");
    assert!(picture.starts_with("<svg") && picture.contains("not silicon"));
    // 30 million instructions, sampled every 100,000 of them.
    let whole = "modelled.exe (4096): 30,000,000 events, 100.0 %, 300 samples";
    assert!(picture.contains(whole), "{picture}");
}

#[test]
fn regions_are_counted_by_thread_and_swept() {
    let text = regions::count(Some("zen4")).expect("counted");
    for (region, source, median) in
        [("outer", "TotalIssues:u", "12000"), ("inner", "BranchInstructions:u", "500")]
    {
        let of = |line: &&str| line.starts_with(region) && line.contains(source);
        let rows: Vec<&str> = text.lines().filter(of).collect();
        assert_eq!(rows.len(), 2, "one for each thread: {text}");
        for row in rows {
            assert!(row.split_whitespace().any(|word| word == median), "{row}");
        }
    }
    assert!(text.contains(" passes, each with TotalIssues:u"), "{text}");
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn a_mark_costs_next_to_nothing_without_a_recorder() {
    let text = marks::measured().expect("measured");
    assert!(text.starts_with("without a recorder 1000 marks take "), "{text}");
}

#[test]
fn repetitions_are_measured_apart_from_their_surroundings() {
    let text = repetitions::measured().expect("measured");
    assert!(text.lines().last().expect("a result").starts_with("one multiplication: "), "{text}");
    assert!(text.contains("a pair of time stamps alone: "), "{text}");
}
