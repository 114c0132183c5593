//! Do pages and pictures look as they should in a real browser?

use crate::cli::foreign::{Foreign, HOSTILE, gathered, invented};
use halprof_profile::export::{self, Export, Format, TrackBy};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};

fn write(folder: &Path, format: Format, lanes: TrackBy) -> PathBuf {
    let recording = folder.join("a.rec");
    invented(&recording);
    let gathered = gathered(&recording, lanes);
    let view = Export::new(&gathered, HOSTILE, format);
    let path = folder.join(format!("{lanes:?}{}", format.ending()));
    let mut file = File::create(&path).expect("created");
    export::write(&view, format, &mut file).expect("written");
    path
}

fn column(rows: &Value, n: usize) -> Vec<&str> {
    rows.as_array().expect("rows").iter().map(|row| row[n].as_str().expect("a cell")).collect()
}

const EVENTS: usize = 2;
const SAMPLES: usize = 3;
const SYMBOL: usize = 6;

#[test]
fn a_page_is_read_sorted_filtered_and_zoomed() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = write(folder.path(), Format::Html, TrackBy::Processor);
    let Some(foreign) = Foreign::find() else { return };
    // For inspection: HALPROF_PICTURES=FOLDER keeps the page and its screenshots there.
    let told = match std::env::var_os("HALPROF_PICTURES").map(PathBuf::from) {
        Some(kept) => {
            std::fs::copy(&page, kept.join("page.html")).expect("copied");
            foreign.browser("page", &[&page, &kept])
        }
        None => foreign.browser("page", &[&page]),
    };
    assert_eq!(told["complaints"], json!([]));
    assert_eq!(told["loaded"], json!([]), "it asks the network");
    assert_eq!((&told["injected"], &told["scripts"]), (&Value::Null, &json!(1)));
    assert_eq!(told["title"], format!("{HOSTILE} - halprof"));

    let most_first =
        ["30,000", "25,000", "25,000", "20,000", "18,000", "2,000", "2,000", "1,500", "500"];
    assert_eq!(column(&told["rows"], EVENTS), most_first);
    assert!(column(&told["rows"], SYMBOL).contains(&HOSTILE));
    let most_first = ["30", "25", "20", "15", "9", "4", "3", "1", "1"];
    assert_eq!(column(&told["sorted"]["Samples"], SAMPLES), most_first);
    let mut least_first = most_first;
    least_first.reverse();
    assert_eq!(column(&told["sorted"]["Samples again"], SAMPLES), least_first);
    let by_name = ["", "", "", HOSTILE, "first", "first", "first", "second", "second"];
    assert_eq!(column(&told["sorted"]["Symbol"], SYMBOL), by_name);
    let mut backwards = by_name;
    backwards.reverse();
    assert_eq!(column(&told["sorted"]["Symbol again"], SYMBOL), backwards);

    let filtered = &told["filtered"];
    assert_eq!(column(&filtered["rows"], SYMBOL), ["second", "second"]);
    assert_eq!(filtered["count"], "2 frames, 2 of 9 rows");
    assert_eq!(filtered["frames"]["second"]["hit"], true);
    assert_eq!(filtered["frames"]["first"]["hit"], false);
    assert_eq!(told["unfiltered"].as_array().map(Vec::len), Some(9));

    let width = |when: &str, frame: &str| told[when][frame]["width"].as_f64().expect("a width");
    let whole = width("frames", "first") * 120.0 / 50.0;
    let near = |got: f64, wanted: f64| assert!((got / wanted - 1.0).abs() < 0.02, "{got} {wanted}");
    near(width("frames", "second"), whole * 25.0 / 120.0);
    near(width("zoomed", "second"), whole);
    near(width("zoomed", "alpha.exe (8)"), whole);
    near(width("zoomed out", "second"), whole * 25.0 / 100.0);
    for (_, size) in told["widths"].as_object().expect("sizes") {
        let [needed, there] = [&size[0], &size[1]].map(|n| n.as_f64().expect("a number"));
        assert!(needed <= there, "the page is wider than its window: {size}");
    }

    let without = &told["without script"];
    assert_eq!(without["rows"], told["rows"]);
    assert_eq!(without["filter shown"], false);
}

#[test]
fn a_picture_stands_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = write(folder.path(), Format::Flamegraph, TrackBy::Processor);
    let Some(foreign) = Foreign::find() else { return };
    let told = &foreign.browser("picture", &[&picture])[0];
    assert_eq!(told["root"], "svg");
    assert_eq!(told["complaints"], json!([]));
    assert_eq!(told["outside"], json!([]));
    assert_eq!(told["injected"], Value::Null);
    assert_eq!(told["title"], format!("Cycles: flame graph of {HOSTILE}"));
    let texts = told["texts"].to_string();
    for text in [
        "modelled machine, not silicon: model <invented>",
        "100 of 108 samples shown, 2 lost; samples have no call stacks",
    ] {
        assert!(texts.contains(text), "{texts}");
    }
    let titles = told["titles"].to_string();
    for title in [
        "alpha.exe (8): 100,000 events, 83.3 %, 90 samples",
        "thread 16: 25,000 events, 20.8 %, 25 samples",
        "first: 50,000 events, 41.7 %, 50 samples",
        "alpha.c:9: 20,000 events, 16.7 %, 20 samples",
    ] {
        assert!(titles.contains(title), "{titles}");
    }
}

#[test]
fn a_page_has_the_rates_of_each_lane() {
    let folder = tempfile::tempdir().expect("a folder");
    for (lanes, lane, sum) in [
        (TrackBy::Processor, ">processor 1</text>", "all processors"),
        (TrackBy::Process, ">alpha.exe (8)</text>", "all processes"),
    ] {
        let page = write(folder.path(), Format::Html, lanes);
        let page = std::fs::read_to_string(page).expect("read");
        let sum = format!("{sum}: 120,000 events");
        for text in [lane, &sum, "periods were lengthened"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
