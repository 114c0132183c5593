//! Do pages and pictures look as they should in a real browser?

use crate::cli::foreign::{Foreign, HOSTILE, gathered, invented};
use crate::cli::support::{self, json, shared_text, text};
use halprof_profile::export::{self, Export, Format, TrackBy};
use halprof_profile::number::thousands;
use serde_json::{Value, json as value};
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

/// What Chromium shows of a page after each step of a reader: see `Reader` in browser.py.
fn opened(foreign: &Foreign, page: &Path, steps: &Value) -> Value {
    // For inspection: HALPROF_PICTURES=FOLDER keeps the page and its screenshots there.
    let kept = std::env::var_os("HALPROF_PICTURES").map(PathBuf::from);
    let steps = steps.to_string();
    let mut arguments = vec![page, Path::new(&steps)];
    if let Some(kept) = &kept {
        std::fs::copy(page, kept.join("page.html")).expect("copied");
        arguments.push(kept);
    }
    let told = foreign.browser("page", &arguments);
    assert_eq!(told["complaints"], value!([]));
    assert_eq!(told["loaded"], value!([]), "it asks the network");
    for (_, size) in told["widths"].as_object().expect("sizes") {
        let [needed, there] = [&size[0], &size[1]].map(|n| n.as_f64().expect("a number"));
        assert!(needed <= there, "the page is wider than its window: {size}");
    }
    told
}

/// The cells of a column of the table.
fn column<'a>(seen: &'a Value, name: &str) -> Vec<&'a str> {
    let heads = seen["heads"].as_array().expect("heads");
    let n = heads.iter().position(|head| head == name).unwrap_or_else(|| panic!("no {name}"));
    let rows = seen["rows"].as_array().expect("rows");
    rows.iter().map(|row| row[n].as_str().expect("a cell")).collect()
}

/// The frame of the flame graph with this name and level.
fn frame<'a>(seen: &'a Value, name: &str, level: u64) -> &'a Value {
    let is_meant = |frame: &&Value| {
        let full = frame["name"].as_str().expect("a name");
        frame["level"] == level
            && full.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "))
    };
    let mut frames = seen["frames"].as_array().expect("frames").iter();
    frames.find(is_meant).unwrap_or_else(|| panic!("no {name}: {}", seen["frames"]))
}

#[test]
fn a_page_is_searched_sorted_and_zoomed() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = write(folder.path(), Format::Html, TrackBy::Processor);
    let Some(foreign) = Foreign::find() else { return };
    let steps = value!([
        ["look"],
        ["sort", "Samples"],
        ["sort", "Samples"],
        ["sort", "Function"],
        ["search", "SECOND"],
        ["search", ""],
        ["zoom", "alpha.exe!second"],
        ["press", "ESCAPE"],
        ["select", "first"],
        ["source", "Misses"],
        ["lane", "alpha.exe (8)"],
    ]);
    let told = opened(&foreign, &page, &steps);
    assert_eq!((&told["injected"], &told["scripts"]), (&Value::Null, &value!(2)));
    assert_eq!(told["title"], format!("{HOSTILE} - halprof"));
    let seen: Vec<&Value> = told["seen"].as_array().expect("steps").iter().collect();
    let [first, most, least, named, found, all, zoomed, whole, lines, misses, process] = seen[..]
    else {
        panic!("{}", seen.len())
    };
    // The table's rows are functions: those of two lines are one.
    assert_eq!(column(first, "Self"), ["50,000", "25,000", "25,000", "18,000", "2,000"]);
    assert_eq!(column(first, "Self %")[0], "41.7 %");
    assert!(frame(first, &format!("{HOSTILE}!{HOSTILE}"), 4)["width"].as_f64() > Some(0.1));
    assert_eq!(column(most, "Samples"), ["50", "25", "15", "9", "1"]);
    assert_eq!(column(least, "Samples"), ["1", "9", "15", "25", "50"]);
    assert_eq!((&least["sorted"], &named["sorted"]), (&value!("ascending"), &value!("ascending")));
    // A long name is shortened.
    let by_name = column(named, "Function");
    assert_eq!(
        [by_name[0], by_name[1], by_name[3], by_name[4]],
        ["(no symbols)", "(no symbols)", "first", "second"]
    );

    assert_eq!(column(found, "Function"), ["second"]);
    assert_eq!(found["matched"], "Matched: 20.8 % of what is shown, in 1 frame");
    assert_eq!(frame(found, "alpha.exe!second", 4)["isHit"], true);
    assert_eq!(frame(found, "alpha.exe!first", 4)["isDim"], true);
    assert_eq!((&all["matched"], column(all, "Function").len()), (&value!(""), 5));

    let width = |seen: &Value, name: &str, level| {
        frame(seen, name, level)["width"].as_f64().expect("a width")
    };
    let near = |got: f64, wanted: f64| assert!((got / wanted - 1.0).abs() < 0.02, "{got} {wanted}");
    near(width(first, "alpha.exe!second", 4), 25.0 / 120.0);
    near(width(zoomed, "alpha.exe!second", 4), 1.0);
    near(width(zoomed, "alpha.exe (8)", 1), 1.0);
    near(width(whole, "alpha.exe!second", 4), 25.0 / 120.0);
    assert_eq!(frame(first, "alpha.exe (8)", 1)["label"], "alpha.exe (8)");
    let name = "alpha.exe!first: 50,000 events, 41.7 %, 50 samples";
    assert_eq!(frame(first, "alpha.exe!first", 4)["name"], name);

    let of_first =
        value!([["Lines", [["60.0 %", "30,000", "alpha.c:7"], ["40.0 %", "20,000", "alpha.c:9"]]]]);
    assert_eq!(lines["details"], of_first);
    // Still in the order of names.
    assert_eq!(column(misses, "Self"), ["1,500", "2,000", "500"]);
    assert_eq!(column(misses, "Samples"), ["3", "4", "1"]);
    assert_eq!(process["lanes"][2], value!(["alpha.exe (8)", "100.0 %"]));
    assert_eq!(process["command"], value!(command("--source Misses --pid 8")));
    // What makes figures worth less stays, whatever is chosen.
    for seen in [first, zoomed, process] {
        assert_eq!(seen["flaws"], value!(["Modelled machine, not silicon", "2 lost"]));
    }
    let without = &told["without script"];
    assert_eq!(without["controls"], false);
    assert_eq!(without["rows"].as_array().map(Vec::len), Some(9));
    assert!(without["rows"].to_string().contains("alpha.c:20"), "{without}");
}

/// The line of the page that prints the same in a terminal.
fn command(options: &str) -> String {
    format!("halprof report \"{HOSTILE}\" {options} --by symbol")
}

/// A choice of samples: what the reader does, and the same as options of `report`.
struct Choice {
    steps: Value,
    options: &'static str,
}

/// The rows of a report as the page's table has them, in the order of their names.
fn reported(file: &str, options: &str) -> Vec<String> {
    let report = json(&format!("report {file} --by symbol {options}"));
    let part = &report["tables"][0]["parts"][0];
    let has_time = part["seconds"].is_number();
    let whole = part["events"].as_f64().unwrap_or(0.0);
    let amount = |events: &Value, units: f64| match (events.as_u64(), events.as_f64()) {
        (_, Some(events)) if has_time => format!("{:.6} s", events * units),
        (Some(events), _) => thousands(events),
        _ => String::new(),
    };
    let percent =
        |events: &Value| format!("{:.1} %", events.as_f64().unwrap_or(0.0) / whole * 100.0);
    let rows = part["rows"].as_array().expect("rows").iter().map(|row| {
        let text = |field: &str| row[field].as_str().unwrap_or("(no symbols)").to_owned();
        let own = if row["self"].is_null() { &row["events"] } else { &row["self"] };
        let total = &row["total"];
        let mut cells = vec![text("module"), percent(own), amount(own, 1e-7)];
        if !total.is_null() {
            cells.extend([percent(total), amount(total, 1e-7)]);
        }
        cells.push(thousands(row["samples"].as_u64().expect("samples")));
        cells.join(" | ")
    });
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    rows
}

/// The same of what the page shows. Its names are shortened, so they are not compared.
fn shown(seen: &Value) -> Vec<String> {
    let names = ["Module", "Self %", "Self", "Total %", "Total", "Samples"];
    let heads = seen["heads"].as_array().expect("heads");
    let columns: Vec<_> = names
        .iter()
        .filter(|name| heads.contains(&value!(name)))
        .map(|name| column(seen, name))
        .collect();
    let rows = seen["rows"].as_array().expect("rows").len();
    let cells =
        |row: usize| columns.iter().map(|column| column[row]).collect::<Vec<_>>().join(" | ");
    let mut rows: Vec<String> = (0..rows).map(cells).collect();
    rows.sort();
    rows
}

/// Whatever is chosen, the page shows what `report` says of the same samples.
fn check_against_report(name: &str, file: &str, choices: &[Choice]) {
    let Some(foreign) = Foreign::find() else { return };
    let (_folder, recording) = support::folder();
    let page = recording.with_extension("html");
    json(&format!("export {file} -f html -o {}", text(&page)));
    let steps: Vec<&Value> =
        choices.iter().flat_map(|choice| choice.steps.as_array().expect("steps")).collect();
    let told = opened(&foreign, &page, &value!(steps));
    let mut seen = told["seen"].as_array().expect("steps").iter();
    for Choice { steps, options } in choices {
        let last = seen.by_ref().take(steps.as_array().expect("steps").len()).last();
        let (shown, reported) = (shown(last.expect("a step")), reported(file, options));
        assert!(!reported.is_empty(), "{name} {options}");
        assert_eq!(shown, reported, "{name} {options}");
    }
}

#[test]
fn a_page_of_call_stacks_says_what_report_says() {
    let Some(file) = shared_text("etw/files/net.4.5.2.x64.etl") else { return };
    let choice = |steps, options| Choice { steps, options };
    check_against_report(
        "net.4.5.2.x64",
        &file,
        &[
            choice(value!([["look"]]), "--source Timer"),
            choice(value!([["range", "4", "6"]]), "--time 4-6"),
            choice(value!([["sort", "Total"], ["invert"]]), "--time 4-6"),
            choice(value!([["lane", "Test.x64.exe"]]), "--time 4-6 --pid 3676"),
            choice(value!([["range", "2.5", "2.75"], ["lane", "Test.x64.exe"]]), "--time 2.5-2.75"),
            choice(
                value!([["range", "0", "9"], ["lane", "MsMpEng.exe"], ["lane", "processor 1"]]),
                "--time 0-9 --pid 1632 --cpu 1",
            ),
        ],
    );
}

#[test]
fn a_page_of_several_sources_says_what_report_says() {
    let Some(file) = shared_text("etw/files/artificial_pmc.etl") else { return };
    let choice = |steps, options| Choice { steps, options };
    check_against_report(
        "artificial_pmc",
        &file,
        &[
            choice(value!([["look"]]), "--source Timer"),
            choice(value!([["source", "CacheMisses"]]), "--source CacheMisses"),
            choice(
                value!([["range", "0.005", "0.0125"]]),
                "--source CacheMisses --time 0.005-0.0125",
            ),
            choice(
                value!([["source", "BranchMispredictions"]]),
                "--source BranchMispredictions --time 0.005-0.0125",
            ),
        ],
    );
}

#[test]
fn a_page_of_a_modelled_recording_says_what_report_says() {
    let (_folder, path) = support::folder();
    let file = text(&path);
    json(&format!("--machine skylake record -e TotalCycles,TotalIssues -o {file}"));
    let choice = |steps, options| Choice { steps, options };
    check_against_report(
        "modelled",
        file,
        &[
            choice(value!([["look"]]), "--source TotalCycles"),
            choice(
                value!([["range", "0.02", "0.0705"]]),
                "--source TotalCycles --time 0.02-0.0705",
            ),
            choice(value!([["source", "TotalIssues"]]), "--source TotalIssues --time 0.02-0.0705"),
        ],
    );
}

#[test]
fn a_page_is_used_by_mouse_and_by_keys() {
    let Some(file) = shared_text("etw/files/net.4.5.2.x64.etl") else { return };
    let Some(foreign) = Foreign::find() else { return };
    let (_folder, recording) = support::folder();
    let page = recording.with_extension("html");
    json(&format!("export {file} -f html -o {}", text(&page)));
    let steps = value!([
        ["drag", 0.25, 0.75],
        ["press", "ESCAPE"],
        ["search", "date"],
        ["point", "mscorlib.dll!System.DateTime.get_Now()"],
        ["focus"],
        ["press", "ARROW_DOWN"],
        ["press", "ENTER"],
        ["press", "ESCAPE"],
        ["invert"],
        ["select", "System.DateTime.GetDatePart"],
        ["callers"],
        ["threads", "Test.x64.exe (3676)"],
        ["lane", "thread 3680"],
    ]);
    let told = opened(&foreign, &page, &steps);
    let seen: Vec<&Value> = told["seen"].as_array().expect("steps").iter().collect();
    let [
        dragged,
        left,
        found,
        pointed,
        _,
        down,
        entered,
        back,
        inverted,
        details,
        callers,
        _,
        thread,
    ] = seen[..]
    else {
        panic!("{}", seen.len())
    };
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    let end = number(&left["range"][1]).expect("seconds");
    let range = [0, 1].map(|n| number(&dragged["range"][n]).expect("seconds") / end);
    assert!((range[0] - 0.25).abs() < 0.01 && (range[1] - 0.75).abs() < 0.01, "{range:?}");
    let outside = [0, 1].map(|n| dragged["outside"][n].as_f64().expect("a width") / 1000.0);
    assert!((outside[0] - 0.25).abs() < 0.01 && (outside[1] - 0.25).abs() < 0.01, "{outside:?}");
    assert_eq!((&left["range"][0], &left["outside"]), (&value!("0"), &value!([0, 0])));

    // Each sample counts once, however many of its functions match.
    let matched = found["matched"].as_str().expect("text");
    let now = frame(found, "mscorlib.dll!System.DateTime.get_Now()", 9);
    assert!(now["isHit"] == true && matched.starts_with("Matched: 7"), "{matched}");
    assert_eq!(frame(found, "thread 3680", 2)["isDim"], true);
    assert_eq!(pointed["hover"], now["name"]);
    assert_eq!(down["focused"], frame(down, "thread 3680", 2)["name"]);
    assert_eq!(frame(entered, "thread 3680", 2)["width"], 1.0);
    assert!(frame(back, "thread 3680", 2)["width"].as_f64() < Some(0.9));

    // A module whose functions have no names is one frame, however often it calls itself.
    let repeated = left["frames"].as_array().expect("frames").windows(2);
    let clr = frame(left, r"Framework64\v4.0.30319\clr.dll", 7);
    assert!(repeated.len() > 100 && clr["width"].as_f64() > Some(0.5));
    let names: Vec<&str> = (3..10)
        .filter_map(|level| {
            let frames = left["frames"].as_array()?;
            let wide = frames
                .iter()
                .find(|one| one["level"] == level && one["width"].as_f64() > Some(0.5))?;
            wide["label"].as_str()
        })
        .collect();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");

    let part = "mscorlib.dll!System.DateTime.GetDatePart(int32)";
    assert!(frame(inverted, part, 1)["width"].as_f64() > Some(0.2));
    assert_eq!(details["details"][0][0], "Callers");
    let from_caller = &details["details"][0][1][0];
    let check = "mscorlib.dll!System.TimeZoneInfo.CheckIsDst";
    assert_eq!(from_caller[2], check);
    assert_eq!(frame(callers, part, 1)["width"], 1.0);
    let frames = callers["frames"].as_array().expect("frames");
    let caller =
        frames.iter().find(|one| one["name"].as_str().is_some_and(|name| name.starts_with(check)));
    let share = caller.and_then(|one| one["width"].as_f64()).expect("a caller");
    assert_eq!(from_caller[0], format!("{:.1} %", share * 100.0));
    assert!(
        thread["command"].as_str().expect("text").contains("--pid 3676 --tid 3680"),
        "{thread}"
    );
}

#[test]
fn a_picture_stands_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = write(folder.path(), Format::Flamegraph, TrackBy::Processor);
    let Some(foreign) = Foreign::find() else { return };
    let told = &foreign.browser("picture", &[&picture])[0];
    assert_eq!(told["root"], "svg");
    assert_eq!(told["complaints"], value!([]));
    assert_eq!(told["outside"], value!([]));
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
