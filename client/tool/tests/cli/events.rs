//! Are the vendor's events found, listed, explained and counted, and distinguished from unknown
//! names?

use crate::cli::support::{halprof, json, refused};
use serde_json::Value;

fn names(list: &Value) -> Vec<&str> {
    let sources = list["sources"].as_array().expect("a list").iter();
    sources.filter_map(|row| row["name"].as_str()).collect()
}

fn error(arguments: &[&str]) -> (String, String) {
    let ran = halprof(&[&["--json"], arguments].concat());
    assert_ne!(ran.status, 0, "{arguments:?}");
    let error = &ran.json()["error"];
    let text = |name: &str| error[name].as_str().expect("a text").to_owned();
    (text("message"), text("hint"))
}

#[test]
fn events_are_listed_where_they_are_asked_for() {
    let plain = json(&["--machine", "skylake", "list"]);
    let all = json(&["--machine", "skylake", "list", "--events"]);
    assert!(names(&all).starts_with(&names(&plain)));
    let events = &all["sources"].as_array().expect("a list")[names(&plain).len()..];
    assert!(events.len() > 250, "{}", events.len());
    assert!(events.iter().all(|row| row["event"] == true));
    let row = |name: &str| {
        let found = events.iter().find(|row| row["name"] == name);
        found.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let miss = row("MEM_LOAD_RETIRED.L3_MISS");
    assert_eq!(miss["event_select"], "0x000020D1");
    assert_eq!((&miss["counters"], &miss["fixed"]), (&15.into(), &Value::Null));
    let any = row("INST_RETIRED.ANY");
    assert_eq!((&any["counters"], &any["fixed"]), (&Value::Null, &0.into()));
    // Events that need another register are listed with `--all`.
    let latency = "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4";
    assert!(!names(&all).contains(&latency));
    let with_all = json(&["--machine", "skylake", "list", "--events", "--all"]);
    assert!(names(&with_all).contains(&latency));
}

#[test]
fn a_pattern_chooses_sources_and_events() {
    let list = json(&["--machine", "skylake", "list", "*retired.l3_miss"]);
    assert_eq!(names(&list), ["MEM_LOAD_RETIRED.L3_MISS"]);
    let list = json(&["--machine", "skylake", "list", "totali*"]);
    assert_eq!(names(&list), ["TotalIssues"]);
    refused(&["--machine", "skylake", "list", "nothing*"], 4, "unavailable");
}

#[test]
fn an_event_is_explained_without_words_that_nobody_has_said() {
    let body = json(&["--machine", "skylake", "explain", "mem_load_retired.l3_miss"]);
    assert_eq!(
        (&body["kind"], &body["topic"]),
        (&"event".into(), &"MEM_LOAD_RETIRED.L3_MISS".into())
    );
    let text = halprof(&["--machine", "skylake", "explain", "mem_load_retired.l3_miss"]).stdout;
    for part in ["event=0xd1,umask=0x20", "skylake`, V59", "IA32_PERFEVTSELx", "Skylake"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = halprof(&["--machine", "skylake", "explain", "FixedInstructions"]).stdout;
    assert!(text.contains("InstructionsRetiredFixed"), "{text}");
    for name in ["33", "0x21", "instructionsretiredfixed"] {
        let body = json(&["--machine", "skylake", "explain", name]);
        assert_eq!(body["topic"], "FixedInstructions", "{name}");
    }
}

#[test]
fn what_is_not_here_is_told_with_what_may_be_meant() {
    for (machine, name, hint) in [
        ("skylake", "TotalIsues", "`TotalIssues`"),
        ("skylake", "MEM_LOAD_RETIRED.L3_MIS", "`MEM_LOAD_RETIRED.L3_MISS`"),
        (
            "skylake",
            "MEM_LOAD_UOPS_RETIRED.L3_MISS",
            "On this processor it is called `MEM_LOAD_RETIRED.L3_MISS`.",
        ),
        ("zen4", "MEM_LOAD_RETIRED.L3_MISS", "is an event of"),
    ] {
        let (_, told) = error(&["--machine", machine, "stat", "-e", name]);
        assert!(told.contains(hint), "{machine} {name}: {told}");
    }
    let (message, hint) = error(&["--machine", "skylake", "stat", "-e", "r5300C0"]);
    assert!(message.contains("EN (bit 22) and INT (bit 20)"), "{message}");
    assert_eq!(hint, "Write `r300C0`.");
    // Any-thread and the second unit mask are right where the processor has them.
    for (machine, select, right) in [
        ("skylake", "r60003C", "Write `r20003C`."),
        ("hybrid", "r100004000C4", "Write `r100000000C4`."),
        ("hybrid", "r60003C", "A raw select has event, unit mask,"),
        ("zen4", "r1004000C4", "Write `r1000000C4`."),
    ] {
        let (_, hint) = error(&["--machine", machine, "stat", "-e", select]);
        assert!(hint.starts_with(right), "{machine} {select}: {hint}");
    }
    let (message, _) = error(&["--machine", "skylake", "stat", "-e", "FRONTEND_RETIRED.DSB_MISS"]);
    assert!(message.contains("MSR 0x3F7 (front-end retired)"), "{message}");
}

/// The sum of a source's counts.
fn counted(machine: &str, source: &str, workload: &str) -> u64 {
    let stat = json(&["--machine", machine, "stat", "-e", source, "--workload", workload]);
    let counts = stat["counts"].as_array().expect("counts");
    assert_eq!(counts.len(), 1, "{source}: {stat}");
    assert_eq!(counts[0]["scaled"], false, "{source}");
    counts[0]["value"].as_u64().expect("a number")
}

#[test]
fn a_workload_has_amounts_of_events_by_their_names() {
    const SKYLAKE: &str =
        "cycles=100000,MEM_LOAD_RETIRED.L3_MISS=1000,UOPS_ISSUED.STALL_CYCLES=77,user=70";
    for (machine, source, workload, amount) in [
        ("skylake", "mem_load_retired.l3_miss", SKYLAKE, 1000),
        ("skylake", "MEM_LOAD_RETIRED.L3_MISS:u", SKYLAKE, 700),
        ("skylake", "MEM_LOAD_RETIRED.L3_MISS:k", SKYLAKE, 300),
        ("skylake", "r20d1", SKYLAKE, 1000),
        ("skylake", "cpu/event=0xd1,umask=0x20/u", SKYLAKE, 700),
        ("skylake", "cpu/UOPS_ISSUED.ANY,cmask=1,inv/", SKYLAKE, 77),
        ("skylake", "MEM_LOAD_RETIRED.L3_HIT", SKYLAKE, 0),
        ("sapphire-rapids", "slots", "cycles=1000,slots=6000", 6000),
        ("sapphire-rapids", "TOPDOWN.SLOTS_P", "cycles=1000,slots=6000", 6000),
        ("zen4", "ls_dispatch.ld_dispatch", "cycles=100,ls_dispatch.ld_dispatch=12", 12),
        ("zen4", "cycles", "cycles=100,ls_dispatch.ld_dispatch=12", 100),
    ] {
        assert_eq!(counted(machine, source, workload), amount, "{machine} {source}");
    }
    refused(&["stat", "--workload", "cycles=1,NONSENSE.EVENT=1"], 2, "usage");
}

/// Each kind of core counts its own event.
#[test]
fn on_a_hybrid_machine_a_name_is_counted_where_it_exists() {
    let text = halprof(&[
        "--machine",
        "hybrid",
        "stat",
        "-e",
        "MEM_LOAD_RETIRED.L3_HIT",
        "--workload",
        "cycles=1000,MEM_LOAD_RETIRED.L3_HIT=50,processors=3-4",
    ]);
    assert!(
        text.stdout.contains("processors 4-11 cannot count it and are left out"),
        "{}",
        text.stdout
    );
}

/// One processor of a dump, only with the leaves that matter: vendor, family and model, counters,
/// threads per core, type of core.
const ICE_LAKE_SP: &str = "CPUID 00000000: 0000001B-756E6547-6C65746E-49656E69\n\
    CPUID 00000001: 000606C1-00200800-FFFAF387-BFEBFBFF\n\
    CPUID 0000000A: 08300805-00000000-0000000F-00008604\n\
    CPUID 0000000B: 00000001-00000002-00000100-00000000 [SL 00]\n\
    CPUID 80000000: 80000001-00000000-00000000-00000000\n\
    CPUID 80000001: 00000000-00000000-00000121-2C100800\n";
const ALDER_LAKE_N: &str = "CPUID 00000000: 00000020-756E6547-6C65746E-49656E69\n\
    CPUID 00000001: 000B06E0-00800800-7FFAFBBF-BFEBFBFF\n\
    CPUID 00000007: 00000002-239CA7EB-98C007AC-FC184410 [SL 00]\n\
    CPUID 0000000A: 07300605-00000000-00000007-00008603\n\
    CPUID 0000000B: 00000001-00000001-00000100-00000000 [SL 00]\n\
    CPUID 0000001A: 20000001-00000000-00000000-00000000\n\
    CPUID 80000000: 80000001-00000000-00000000-00000000\n\
    CPUID 80000001: 00000000-00000000-00000121-2C100000\n";
const INTEL: [&str; 4] = ["Frontend_Bound", "Bad_Speculation", "Backend_Bound", "Retiring"];
const AMD: [&str; 4] = ["frontend_bound", "bad_speculation", "backend_bound", "retiring"];

/// 10 % front end, 20 % bad speculation, 30 % back end, 40 % retiring: one model for each kind of
/// formula.
#[test]
fn the_slots_of_level_1_are_where_the_workload_put_them() {
    for (machine, kind, workload, names) in [
        (
            // Both threads of a core are enabled: their cycles and recoveries are counted twice.
            "skylake",
            "skylake",
            "cycles=1000000,CPU_CLK_UNHALTED.THREAD_ANY=2000000,IDQ_UOPS_NOT_DELIVERED.CORE=400000,UOPS_ISSUED.ANY=2000000,UOPS_RETIRED.RETIRE_SLOTS=1600000,INT_MISC.RECOVERY_CYCLES_ANY=200000",
            INTEL,
        ),
        (
            "haswell",
            "haswellx",
            "cycles=1000000,CPU_CLK_UNHALTED.THREAD_ANY=2000000,IDQ_UOPS_NOT_DELIVERED.CORE=400000,UOPS_ISSUED.ANY=2000000,UOPS_RETIRED.RETIRE_SLOTS=1600000,INT_MISC.RECOVERY_CYCLES_ANY=200000",
            INTEL,
        ),
        (
            "sapphire-rapids",
            "sapphirerapids",
            "cycles=1000000,slots=6000000,UOPS_RETIRED.SLOTS=2400000,TOPDOWN.BACKEND_BOUND_SLOTS=1800000,IDQ_BUBBLES.CORE=700000,INT_MISC.UOP_DROPPING=100000",
            INTEL,
        ),
        (
            ICE_LAKE_SP,
            "icelakex",
            "cycles=1000000,slots=5000000,IDQ_UOPS_NOT_DELIVERED.CORE=600000,INT_MISC.UOP_DROPPING=100000,UOPS_RETIRED.SLOTS=2000000,TOPDOWN.BACKEND_BOUND_SLOTS=1000000,INT_MISC.CLEARS_COUNT=100000",
            INTEL,
        ),
        (
            ALDER_LAKE_N,
            "alderlake_gracemont",
            "cycles=1000000,TOPDOWN_FE_BOUND.ALL=500000,TOPDOWN_BAD_SPECULATION.ALL=1000000,TOPDOWN_BE_BOUND.ALL=1500000,TOPDOWN_RETIRING.ALL=2000000",
            INTEL,
        ),
        (
            "zen5",
            "amdzen5",
            "cycles=1000000,ls_not_halted_cyc=1000000,de_no_dispatch_per_slot.no_ops_from_frontend=800000,de_src_op_disp.all=4800000,ex_ret_ops=3200000,de_no_dispatch_per_slot.backend_stalls=2400000",
            AMD,
        ),
        (
            "hybrid",
            "arrowlake_skymont",
            "cycles=1000000,TOPDOWN_FE_BOUND.ALL_P=800000,TOPDOWN_BAD_SPECULATION.ALL_P=1600000,TOPDOWN_BE_BOUND.ALL_P=2400000,TOPDOWN_RETIRING.ALL_P=3200000,processors=4",
            INTEL,
        ),
        (
            "zen4",
            "amdzen4",
            "cycles=1000000,ls_not_halted_cyc=1000000,de_no_dispatch_per_slot.no_ops_from_frontend=600000,de_src_op_disp.all=3600000,ex_ret_ops=2400000,de_no_dispatch_per_slot.backend_stalls=1800000",
            AMD,
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let dump = folder.path().join("dump.txt");
        let machine = if machine.contains('\n') {
            std::fs::write(&dump, machine).expect("written");
            dump.to_str().expect("UTF-8")
        } else {
            machine
        };
        // Skylake has five events for four counters: one more run, and everything is exact.
        let stat =
            json(&["--machine", machine, "stat", "--topdown", "--passes", "--workload", workload]);
        let together = stat["passes"].is_null();
        let rows = stat["topdown"].as_array().expect("rows");
        for (name, percent) in names.iter().zip([10.0, 20.0, 30.0, 40.0]) {
            let row = rows.iter().find(|row| row["cpu_type"] == kind && row["metric"] == *name);
            let row = row.unwrap_or_else(|| panic!("{machine} {name}: {stat}"));
            let value = row["value"].as_f64().unwrap_or_else(|| panic!("{machine}: {row}"));
            assert!((value - percent).abs() < 1e-9, "{machine}: {row}");
            assert_eq!(
                (&row["error"], &row["together"]),
                (&Value::Null, &together.into()),
                "{machine}: {row}"
            );
        }
    }
}

/// Which counters an event is limited to, whether it must be counted alone, and its errata.
#[test]
fn check_and_explain_tell_what_limits_an_event() {
    const MISS: &str = "MEM_LOAD_UOPS_RETIRED.L3_MISS";
    const ERRATA: &str = "HSD74, HSD29, HSD25, HSM26, HSM30";
    let haswell = ["--machine", "haswell"];
    let told = |arguments: &[&str]| -> Vec<(String, String)> {
        let check = json(&[&haswell[..], &["check"], arguments].concat());
        let notes = check["notes"].as_array().expect("notes").iter();
        let text = |note: &Value, name: &str| note[name].as_str().expect("a text").to_owned();
        notes.map(|note| (text(note, "source"), text(note, "text"))).collect()
    };
    let errata = (MISS.to_owned(), format!("the vendor names errata: {ERRATA}"));
    assert!(told(&["-e", MISS]).contains(&errata));
    // Lines are no wider than the terminal.
    let words = |arguments: &[&str]| {
        let text = halprof(arguments).stdout;
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = words(&[&haswell[..], &["check", "-e", MISS]].concat());
    assert!(text.contains(ERRATA), "{text}");
    let text = words(&[&haswell[..], &["explain", MISS]].concat());
    assert!(text.contains(ERRATA), "{text}");
    let low = ["--machine", "sapphire-rapids", "check", "-e", "MEM_LOAD_RETIRED.L3_MISS"];
    let text = words(&low);
    let limited = "MEM_LOAD_RETIRED.L3_MISS: only general counters 0-3 count it.";
    assert!(text.contains(limited), "{text}");

    // An event that must be counted alone has a turn of its own, and is refused in a group.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("list.json");
    let list = r#"{"Events": [{"EventCode": "0xcd", "UMask": "0x02", "EventName": "LONELY.EVENT", "Counter": "3", "TakenAlone": "1"}]}"#;
    std::fs::write(&path, list).expect("written");
    let file = path.to_str().expect("UTF-8");
    let with = |list: &str| {
        let arguments =
            ["--json", "check", list, "LONELY.EVENT,UOPS_ISSUED.ANY", "--event-file", file];
        halprof(&[&haswell[..], &arguments].concat()).json()
    };
    for (list, start) in
        [("-e", "LONELY.EVENT is counted alone: they would take turns, 2 of them"), ("-g", "")]
    {
        let check = with(list);
        let explanation = check["explanation"].as_str().expect("an explanation");
        assert!(explanation.starts_with(start), "{check}");
        assert_eq!(check["fits"], false);
        for text in
            ["only general counter 3 counts it", "nothing else can be counted at the same time"]
        {
            let notes = check["notes"].as_array().expect("notes");
            let told = |note: &Value| note["source"] == "LONELY.EVENT" && note["text"] == text;
            assert!(notes.iter().any(told), "{check}");
        }
    }
}

#[test]
fn top_down_tells_what_it_cannot_say() {
    // Half of the slots are unaccounted for.
    let text = halprof(&[
        "--machine",
        "zen4",
        "stat",
        "--topdown",
        "--workload",
        "cycles=1000,ls_not_halted_cyc=1000,ex_ret_ops=3000,de_src_op_disp.all=3000",
    ]);
    assert!(text.stdout.contains("adds up to 50.0 %, not to 100 %"), "{}", text.stdout);
    // Skylake's level 2 takes turns on four counters, Sapphire Rapids' has eight and slots on a fixed
    // one.
    for (machine, together) in [("skylake", false), ("sapphire-rapids", true)] {
        let stat = json(&["--machine", machine, "stat", "--topdown=2"]);
        let rows = stat["topdown"].as_array().expect("rows");
        assert!(rows.iter().all(|row| row["together"] == together), "{stat}");
        assert_eq!(rows.iter().filter(|row| row["level"] == 2).count(), 8, "{stat}");
    }
    // Both types of core count their cycles on one fixed counter, under two names.
    let stat = json(&["--machine", "hybrid", "stat", "--topdown=2"]);
    let rows = stat["topdown"].as_array().expect("rows").iter();
    let parts: Vec<_> = rows.filter(|row| !row["parent"].is_null()).collect();
    assert_eq!(parts.len(), 8, "{stat}");
    for machine in ["pentium4", "core2", "zen2"] {
        refused(&["--machine", machine, "stat", "--topdown"], 4, "unavailable");
    }
}

/// The forms of the result: text with what to look at next, a line of CSV for each part, and each
/// interval with its own.
#[test]
fn top_down_in_every_form() {
    let machine = ["--machine", "hybrid", "stat", "--topdown"];
    let text = halprof(&machine).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "Backend_Bound is the largest part: `--topdown=2` divides it, `halprof record -e LLCMisses` shows where.",
        "Backend_Bound is the largest part: `halprof record -e LLCMisses` shows where.",
    ] {
        assert!(words.contains(told), "{text}");
    }
    assert!(!text.contains("cannot count it"), "{text}");
    let all = [&machine[..], &["--csv", "-I", "50"]].concat();
    let ran = halprof(&all);
    assert!(!ran.stderr.contains("cannot count it"), "{}", ran.stderr);
    let mut lines = csv::Reader::from_reader(ran.stdout.as_bytes());
    let lines = lines.deserialize().map(|line| line.expect("columns"));
    let lines: Vec<std::collections::BTreeMap<String, String>> = lines.collect();
    let of = |time: &str| -> Vec<[&str; 4]> {
        let lines = lines.iter().filter(|line| line["time_ns"] == time);
        let parts = lines.filter(|line| !line["metric"].is_empty());
        parts.map(|line| ["cpu_type", "metric", "level", "unit"].map(|name| &*line[name])).collect()
    };
    let total = of("");
    assert_eq!(total.len(), 8, "{}", ran.stdout);
    assert_eq!(total[0], ["arrowlake_lioncove", "Frontend_Bound", "1", "%"]);
    assert_eq!(of("50000000"), total);
    let intervals = json(&[&machine[..], &["-I", "50"]].concat())["intervals"].clone();
    for interval in intervals.as_array().expect("a list") {
        let rows = interval["topdown"].as_array().expect("rows").iter();
        let sum: f64 = rows.filter_map(|row| row["value"].as_f64()).sum();
        assert!((sum - 200.0).abs() < 0.01, "{interval}");
    }
}

/// Too short for all slices: a share that cannot be is not shown, and no share below 0 ever is.
#[test]
fn no_share_is_shown_that_cannot_be() {
    let work = "instructions=10000000,cycles=10000000,processors=all";
    let stat = ["--machine", "skylake", "stat", "--topdown=2", "--workload", work];
    let stat = json(&stat);
    let rows = stat["topdown"].as_array().expect("rows");
    for row in rows {
        match row["value"].as_f64() {
            None => assert!(row["reason"].is_string(), "{row}"),
            Some(value) => assert!(value >= 0.0 || row["error"].is_f64(), "{row}"),
        }
    }
    let too_short = |row: &Value| row["reason"].to_string().contains("never on a counter");
    assert!(rows.iter().any(|row| row["value"].is_null() && too_short(row)), "{stat}");
}

#[test]
fn a_list_as_intel_publishes_it_adds_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new_core.json");
    let list = r#"{"Header": {}, "Events": [{"EventCode": "0x9e", "UMask": "0x02", "EventName": "NEW.EVENT",
        "BriefDescription": "Something new.", "Counter": "0,1", "SampleAfterValue": "100003"}]}"#;
    std::fs::write(&path, list).expect("written");
    let file = path.to_str().expect("UTF-8");
    let core2 = ["--machine", "core2"];
    let check = json(&[&core2[..], &["check", "-e", "new.event", "--event-file", file]].concat());
    assert_eq!(
        (&check["fits"], &check["assignment"][0]["source"]),
        (&true.into(), &"NEW.EVENT".into())
    );
    let rows = json(&[&core2[..], &["list", "--event-file", file, "new*"]].concat());
    assert_eq!(rows["sources"][0]["event_select"], "0x0000029E");
    assert!(rows["sources"][0]["note"].as_str().expect("a note").starts_with("Something new."));
    refused(&[&core2[..], &["check", "-e", "NEW.EVENT"]].concat(), 4, "source-unknown");
    assert_eq!(rows["sources"][0]["id"], Value::Null);
    let verbose = ["list", "-v", "--event-file", file, "new*"];
    let verbose = halprof(&[&core2[..], &verbose].concat()).stdout;
    assert!(!verbose.contains("0x80000000"), "{verbose}");
    // On a machine with two types of core, one list is hardly right for both.
    for machine in ["hybrid", "skylake"] {
        for command in ["check", "stat"] {
            let arguments =
                ["--machine", machine, command, "-e", "NEW.EVENT", "--event-file", file];
            let told = halprof(&arguments).stderr;
            let warned = told.contains("Intel publishes a list for each type");
            assert_eq!(warned, machine == "hybrid", "{told}");
        }
    }
    // The hint for an event that only the list knows names a command that reads the list.
    std::fs::write(&path, list.replace("0,1", "7")).expect("written");
    let error = halprof(&[&core2[..], &["stat", "-e", "NEW.EVENT", "--event-file", file]].concat());
    let hint = "halprof list --all --event-file FILE NAME";
    assert!(error.stderr.contains(hint), "{}", error.stderr);
    std::fs::write(&path, "{}").expect("written");
    refused(
        &[&core2[..], &["check", "-e", "NEW.EVENT", "--event-file", file]].concat(),
        5,
        "bad-file",
    );
}

/// Of what a model runs by default, each part of the slots is a plausible share, and no other count
/// depends on them.
#[test]
fn the_default_workload_has_slots() {
    for machine in ["sapphire-rapids", "haswell", "skylake", "zen4", "zen5", "hybrid"] {
        let stat = json(&["--machine", machine, "stat", "--topdown"]);
        let rows = stat["topdown"].as_array().expect("rows");
        let mut sums = std::collections::BTreeMap::new();
        for row in rows {
            let value = row["value"].as_f64();
            let value = value.unwrap_or_else(|| panic!("{machine}: {row}"));
            let metric = row["metric"].as_str().expect("a name");
            let other = metric.eq_ignore_ascii_case("smt_contention");
            assert!(other || (1.0..90.0).contains(&value), "{machine}: {row}");
            let kind = row["cpu_type"].as_str().expect("a type").to_owned();
            *sums.entry(kind).or_insert(0.0) += value;
        }
        for (kind, sum) in sums {
            assert!((sum - 100.0_f64).abs() < 0.5, "{machine} {kind}: {sum}");
        }
    }
    let count = |machine: &str, list: &str| {
        let stat = json(&["--machine", machine, "stat", "-e", list]);
        let counts = stat["counts"].as_array().expect("counts").clone();
        counts.iter().map(|row| row["value"].clone()).collect::<Vec<_>>()
    };
    let alone = count("sapphire-rapids", "TotalIssues,TotalCycles");
    let beside = count("sapphire-rapids", "TotalIssues,TotalCycles,TOPDOWN.SLOTS");
    assert_eq!(alone, beside[..2]);
    assert_eq!(beside[2], 16 * 900_000_000_u64);
    // However the counter's event is called.
    for (machine, one, other) in [
        ("sapphire-rapids", "TOPDOWN.SLOTS", "FixedTopdownSlots"),
        ("sapphire-rapids", "TOPDOWN.SLOTS_P", "TopdownSlots"),
        ("sapphire-rapids", "TOPDOWN.SLOTS_P", "r01A4"),
        ("hybrid", "TOPDOWN_BE_BOUND.ALL", "TOPDOWN_BE_BOUND.ALL_P"),
    ] {
        let amount = count(machine, one);
        assert_ne!(amount[0], 0, "{one}");
        assert_eq!(amount, count(machine, other), "{one} and {other}");
    }
    let metrics = ["stat", "-C", "0-3", "-M", "retiring,frontend-bound"];
    let stat = json(&[&["--machine", "hybrid"], &metrics[..]].concat());
    for (index, slots) in [120.0, 300.0].into_iter().enumerate() {
        let row = &stat["derived"][index];
        let value = row["value"].as_f64();
        let value = value.unwrap_or_else(|| panic!("{row}"));
        assert!((value - slots / 12.0).abs() < 0.01, "{row}");
    }
}

/// On Zen, Linux counts misses of the second level under the name that elsewhere means the last.
#[test]
fn a_name_of_linux_perf_tells_what_it_counts_here() {
    let zen4 = ["--machine", "zen4", "stat", "-e"];
    let text = halprof(&[&zen4[..], &["cache-misses:u"]].concat()).stdout;
    assert!(text.contains("cache-misses:u counts misses of L2 on this"), "{text}");
    for (list, note) in [
        ("cache-references", Value::from("requests to L2 on this processor, as in Linux perf")),
        ("instructions", Value::Null),
        ("ref-cycles", Value::Null),
        ("r0964", Value::Null),
    ] {
        let stat = json(&[&zen4[..], &[list]].concat());
        assert_eq!(stat["counts"][0]["note"], note, "{list}");
    }
}
