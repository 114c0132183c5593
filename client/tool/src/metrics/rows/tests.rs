use super::*;

/// Metrics whose formulas rise, fall, add and subtract.
const METRICS: &str = r#"
    [[metric]]
    id = "ipc"
    name = "instructions per cycle"
    formula = "FixedInstructions / FixedCycles"
    [[metric]]
    id = "part"
    name = "cycles among both"
    formula = "100 * FixedCycles / (FixedCycles + FixedInstructions)"
    [[metric]]
    id = "gap"
    name = "cycles without an instruction"
    formula = "FixedCycles - FixedInstructions"
    [[metric]]
    id = "threads"
    name = "by thread"
    formula = "FixedCycles / 2 if smt_on else FixedCycles"
"#;

fn metrics() -> Metrics {
    let mut metrics = Metrics::built_in().expect("metrics.toml is right");
    assert!(metrics.add(METRICS).is_ok());
    metrics
}

/// Cycles and instructions of which a row is a small part.
fn sources() -> [Sampled; 2] {
    [Sampled::exact(Totals::alike(100_000_000, 1_000)); 2]
}

/// The metric of a row with so many samples of 1,000 cycles and of 1,000 instructions.
fn of_row(id: &str, sources: [Sampled; 2], [cycles, instructions]: [u64; 2]) -> RowMetric {
    let metrics = metrics();
    let requested = metrics.requested(&[id.to_owned()]).expect("known");
    let names = ["FixedCycles", "FixedInstructions"].map(Arc::from);
    let sources: Vec<_> = names.into_iter().zip(sources).collect();
    let rows = RowMetrics::new(&metrics, &requested, &sources).expect("both are there");
    let totals = [cycles, instructions].map(|samples| Totals::alike(samples, 1_000));
    rows.row(&totals).remove(0)
}

fn close(found: Option<f64>, expected: Option<f64>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-3 * expected.abs(),
        (found, expected) => found == expected,
    }
}

/// The interval of a ratio of 100 and 400 samples is exp(1.96 sqrt(1/100 + 1/400)) each way, 1.245.
#[test]
fn the_squares_of_errors_are_added() {
    for (id, samples, value, low, high) in [
        ("ipc", [100, 400], Some(4.0), Some(4.0 / 1.245), Some(4.0 * 1.245)),
        ("ipc", [400, 100], Some(0.25), Some(0.25 / 1.245), Some(0.25 * 1.245)),
        // Each error changes the part by what the other source has of both: a fifth.
        ("part", [400, 100], Some(80.0), Some(76.32), Some(83.34)),
        // 400,000 less 100,000, with errors of 9.8 and 19.6 % of them.
        ("gap", [400, 100], Some(300_000.0), Some(256_836.0), Some(344_867.0)),
        ("gap", [100, 400], Some(-300_000.0), Some(-344_867.0), Some(-256_836.0)),
        // 9 samples of 4.1 to 17.1, 5 of 1.6 to 11.7.
        ("ipc", [10_000, 9], None, None, Some(0.001_709)),
        ("ipc", [5, 10_000], None, Some(856.7), None),
        ("ipc", [5, 9], None, None, None),
        ("gap", [5, 10_000], None, None, None),
        ("ipc", [0, 10_000], None, None, None),
        ("ipc", [0, 0], None, None, None),
    ] {
        let found = of_row(id, sources(), samples);
        let RowMetric { reason, .. } = &found;
        let as_expected =
            close(found.value, value) && close(found.low, low) && close(found.high, high);
        assert!(as_expected, "{id} of {samples:?}: {found:?}");
        assert_eq!(reason.is_some(), value.is_none(), "{id} of {samples:?}: {found:?}");
    }
}

#[test]
fn what_is_not_known_has_its_reason() {
    let [plain, _] = sources();
    let beaten = Sampled { in_step: 3, ..plain };
    let turned = Sampled { multiplexing: Some(0.3), ..plain };
    let unknown = Sampled { multiplexing: None, ..plain };
    let many = [1_000_000; 2];
    for (sources, low, reason) in [
        ([plain, beaten], None, Some("FixedInstructions are in step")),
        ([unknown, plain], None, Some("FixedCycles took turns")),
        // 0.3 and 0.4 are 0.5 together.
        ([turned, Sampled { multiplexing: Some(0.4), ..plain }], Some((-0.5_f64).exp()), None),
    ] {
        let found = of_row("ipc", sources, many);
        assert!(close(found.value, Some(1.0)) && close(found.low, low), "{found:?}");
        let said = found.reason.unwrap_or_default();
        assert!(said.contains(reason.unwrap_or_default()), "{said}");
        assert_eq!(said.is_empty(), reason.is_none(), "{said}");
    }
}

#[test]
fn what_no_samples_say_is_refused() {
    let metrics = metrics();
    let sources = || vec![(Arc::from("TotalCycles"), sources()[0])];
    for (id, said) in [
        ("ipc", "FixedInstructions"),
        ("branch-mpki:u", "branch-misses:u"),
        ("mips", "per second"),
        ("threads", "share cores"),
    ] {
        let requested = metrics.requested(&[id.to_owned()]).expect("known");
        let error = RowMetrics::new(&metrics, &requested, &sources()).err().expect(id).to_string();
        assert!(error.contains(id) && error.contains(said), "{error}");
    }
    assert!(refusal(&[Key::Process, Key::Address]).is_some() && refusal(&[Key::Source]).is_some());
    let fit = Key::ALL.into_iter().filter(|key| ![Key::Address, Key::Source].contains(key));
    assert_eq!(refusal(&fit.collect::<Vec<_>>()), None);
}

/// A stranger's recording of 12,000 sources at as many places took 8 s to compare, and would have had a
/// place in memory for each source in each row.
#[test]
fn rows_have_totals_of_the_sources_that_serve_alone() {
    let metrics = metrics();
    let requested = metrics.requested(&["ipc".to_owned()]).expect("known");
    let mut names: Vec<Arc<str>> = (0..1_000).map(|n| format!("s{n}").into()).collect();
    names[17] = "FixedInstructions".into();
    names[400] = "FixedCycles".into();
    let [sampled, _] = sources();
    let sources: Vec<_> = names.into_iter().map(|name| (name, sampled)).collect();
    let rows = RowMetrics::new(&metrics, &requested, &sources).expect("both are there");
    assert_eq!(rows.places().collect::<Vec<_>>(), [17, 400]);
    let totals = [3_000, 1_000].map(|samples| Totals::alike(samples, 1_000));
    assert_eq!(rows.row(&totals)[0].value, Some(3.0));
}
