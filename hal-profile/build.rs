//! Turns the tables of `data/` into the rows of `source`: for each table an array expression in
//! OUT_DIR, made of calls to the constructors in the module that includes it. AMD's generations are a
//! table of halprof-events, which has to stand alone on crates.io.
//!
//! A malformed table ends the build, with the file and the column.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::{env, fs};

type Record = HashMap<String, String>;

const GENERATIONS: &str = "../client/events/data/amd-generations.csv";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed={GENERATIONS}");
    let amd = Generations(records_of(GENERATIONS));
    let modern = records("events-modern");
    let meanings = records("amd64-hal-on-zen");
    write("emon", &emon());
    write("emon_bits", &emon_bits());
    write("intel_fixed", &intel_fixed());
    write("intel_architectural", &intel_architectural(&modern));
    write("amd64", &amd64());
    write("amd_generations", &amd.rows());
    write("amd64_documented", &amd64_documented(&amd, &meanings));
    write("amd64_nothing", &amd64_nothing(&meanings));
    write("amd64_else", &amd64_else(&meanings));
    write("amd_own", &amd_own(&amd, &modern));
    write("errata", &errata());
    if env::var_os("CARGO_FEATURE_HISTORIC").is_some() {
        historic(&records("mapping"), &Escrs::read());
    }
}

fn historic(mapping: &[Record], escrs: &Escrs) {
    write("netburst", &mapped(mapping, "P4", |row| escrs.mapped(row)));
    write("netburst_own", &netburst_own(escrs));
    write("p6", &mapped(mapping, "P6", p6_mapped));
    write("p6_own", &p6_own());
    for (file, family) in [("p5", "P5"), ("p5mmx", "P5MMX")] {
        write(file, &mapped(mapping, family, p5_mapped));
    }
    write("p5_own", &p5_own());
}

fn records(name: &str) -> Vec<Record> {
    records_of(&format!("data/{name}.csv"))
}

fn records_of(file: &str) -> Vec<Record> {
    csv::Reader::from_path(file)
        .unwrap_or_else(|error| panic!("{file}: {error}"))
        .deserialize()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn write(name: &str, rows: &[String]) {
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let text = format!("[\n{},\n]\n", rows.join(",\n"));
    let text = if rows.is_empty() { "[]".to_owned() } else { text };
    fs::write(Path::new(&folder).join(name).with_extension("rs"), text)
        .expect("OUT_DIR is writable");
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// `0|1` and `12-17` as a mask.
fn counter_set(text: &str) -> u32 {
    text.split('|').fold(0, |set, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        (number(first)..=number(last)).fold(set, |set, counter| set | 1 << counter)
    })
}

/// As [`counter_set`], of a family with two counters: both are no constraint.
fn counters_of_two(text: &str) -> &'static str {
    match counter_set(text) {
        0b01 => "0b01",
        0b10 => "0b10",
        0b11 => "ANY",
        _ => panic!("{text:?} is no set of two counters"),
    }
}

fn is_timer(row: &Record) -> bool {
    row.get("symbol").or(row.get("name")).is_some_and(|symbol| symbol == "ProfileTime")
}

/// ProfileTime's row with the select that the HAL's table has for it and never programs.
fn timer(select: &str) -> String {
    format!("Row::timer(Select::EventSelect({select}))")
}

fn ebx_bit(row: &Record) -> Option<&str> {
    row["core"].strip_prefix("cpuid 0xA ebx bit ")
}

fn emon() -> Vec<String> {
    let row = |row: &Record| {
        let select = &row["select"];
        if is_timer(row) {
            return timer(select);
        }
        let event = format!("Row::event({}, {select})", row["value"]);
        match row["fixed_counter"].as_str() {
            "" => event,
            counter => format!("Row {{ fixed: 1 << {counter}, ..{event} }}"),
        }
    };
    records("emon-sources").iter().map(row).collect()
}

/// The errata that decide how counters are used.
fn errata() -> Vec<String> {
    let row = |row: &Record| {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            format!("({first}, {last})")
        };
        let models: Vec<String> = row["models"].split('|').map(range).collect();
        let effect = match row["effect"].as_str() {
            "counter-last" => format!("CounterLast({})", row["counters"]),
            "reload-rounded" => {
                let (event, mask) = row["events"].split_once('/').expect("errata.csv: one event");
                format!("ReloadRounded({:#x})", number(event) | number(mask) << 8)
            }
            "reset-at-start" => "ResetAtStart".to_owned(),
            other => panic!("errata.csv: effect {other:?}"),
        };
        let tsx_force_abort = match row["condition"].as_str() {
            "" => false,
            "tsx-force-abort" => true,
            other => panic!("errata.csv: condition {other:?}"),
        };
        format!(
            "Row {{ vendor: *b{:?}, family: {}, models: &[{}], tsx_force_abort: {tsx_force_abort}, effect: Effect::{effect} }}",
            row["vendor"],
            row["family"],
            models.join(", "),
        )
    };
    records("errata").iter().filter(|row| row["effect"] != "note").map(row).collect()
}

fn emon_bits() -> Vec<String> {
    records("emon-sources")
        .iter()
        .filter(|row| !row["cpuid_0a_ebx_bit"].is_empty())
        .map(|row| format!("({}, {})", row["value"], row["cpuid_0a_ebx_bit"]))
        .collect()
}

fn intel_fixed() -> Vec<String> {
    let row = |row: &Record| format!("fixed({}, {})", row["id"], row["index"]);
    records("intel-fixed").iter().map(row).collect()
}

fn intel_architectural(modern: &[Record]) -> Vec<String> {
    modern
        .iter()
        .filter(|row| ebx_bit(row).is_some() && !row["halprof_id"].is_empty())
        .map(event_row)
        .collect()
}

fn amd64() -> Vec<String> {
    let row = |row: &Record| match &row["select"] {
        select if is_timer(row) => timer(select),
        select => format!("row({}, {select})", row["value"]),
    };
    records("amd64-sources").iter().map(row).collect()
}

/// The rows of amd-generations.csv: some models of a family, and their generation.
struct Generations(Vec<Record>);

impl Generations {
    fn rows(&self) -> Vec<String> {
        let row = |row: &Record| {
            let [family, first, last] =
                ["family", "first_model", "last_model"].map(|column| &row[column]);
            format!("({family}, {first}, {last}, {})", generation(&row["generation"]))
        };
        self.0.iter().map(row).collect()
    }

    /// Every generation by its name, once each.
    fn names(&self) -> BTreeSet<&str> {
        self.0.iter().map(|row| row["generation"].as_str()).collect()
    }

    /// The generation whose name in events-modern.csv is this.
    fn of_core(&self, core: &str) -> &str {
        let row = self.0.iter().find(|row| row["core"] == core);
        &row.unwrap_or_else(|| panic!("amd-generations.csv: no core {core:?}"))["generation"]
    }
}

/// For each event code up to the highest of the table, the generations that document it. Those
/// without a column of their own keep what `kept_on_11h_12h_14h_16h` says.
fn amd64_documented(amd: &Generations, meanings: &[Record]) -> Vec<String> {
    let by_code: BTreeMap<u64, &Record> =
        meanings.iter().map(|row| (number(&row["event"]), row)).collect();
    let documented = |row: &Record| {
        let has = |name: &&str| match row.get(name.trim_start_matches("Family")) {
            Some(event) => event != "-",
            None => row["kept_on_11h_12h_14h_16h"] == "yes",
        };
        generations(amd.names().into_iter().filter(has))
    };
    let last = by_code.keys().last().copied().unwrap_or_default();
    (0..=last)
        .map(|code| by_code.get(&code).map_or_else(|| "0".to_owned(), |row| documented(row)))
        .collect()
}

/// The expression of a set of generations.
fn generations<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(generation).collect();
    format!("generations(&[{}])", names.join(", "))
}

/// The expression of a generation, by its name.
fn generation(name: &str) -> String {
    format!("AmdGeneration::{name}")
}

/// The events that count something else on Zen than the HAL's name says, once each.
fn amd64_else(meanings: &[Record]) -> Vec<String> {
    let renamed = meanings.iter().filter(|row| row["something_else_on_zen"] == "yes");
    let events: BTreeSet<u64> = renamed.map(|row| number(&row["event"])).collect();
    events.iter().map(ToString::to_string).collect()
}

/// Event, unit mask and the generations where they count nothing, once each.
fn amd64_nothing(meanings: &[Record]) -> Vec<String> {
    let nothing: BTreeMap<_, _> = meanings
        .iter()
        .filter(|row| !row["counts_nothing_on"].is_empty())
        .map(|row| ((number(&row["event"]), number(&row["umask"])), &row["counts_nothing_on"]))
        .collect();
    nothing
        .iter()
        .map(|((event, mask), on)| {
            let on = generations(on.split(';'));
            format!("Nothing {{ event: {event:#04x}, mask: {mask:#x}, on: {on} }}")
        })
        .collect()
}

/// halprof's own rows by generation; a row without a number is served by the HAL's table.
fn amd_own(amd: &Generations, modern: &[Record]) -> Vec<String> {
    let mut own: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in modern.iter().filter(|row| row["vendor"] == "AMD") {
        let rows = own.entry(amd.of_core(&row["core"])).or_default();
        if !row["halprof_id"].is_empty() {
            rows.push(event_row(row));
        }
    }
    let sorted = |(name, mut rows): (&str, Vec<String>)| {
        rows.sort();
        format!("({}, &[{}])", generation(name), rows.join(", "))
    };
    own.into_iter().map(sorted).collect()
}

/// A row of halprof's own, of events-modern.csv.
fn event_row(row: &Record) -> String {
    format!("Row::event({}, {})", row["halprof_id"], row["select_with_os_usr"])
}

/// The wdm.h sources of a family without a HAL's table; `select` gives the constructor's arguments
/// from the select on.
fn mapped(mapping: &[Record], family: &str, select: impl Fn(&Record) -> String) -> Vec<String> {
    let row = |row: &Record| {
        let id = &row["source"];
        let fit = match row["offer"].as_str() {
            "timer" => return "Row::timer(Select::None)".to_owned(),
            "no" => {
                return format!("Row::new({id}, Fit::Unsupported, Select::None, NO_COUNTER)");
            }
            "yes" => "Exact",
            "optional" => "Approximate",
            other => panic!("mapping.csv: offer {other:?}"),
        };
        format!("row({id}, Fit::{fit}, {})", select(row))
    };
    mapping.iter().filter(|row| row["family"] == family).map(row).collect()
}

fn p6_mapped(row: &Record) -> String {
    format!("{}, {}", row["select_with_usr_os"], counters_of_two(&row["counters"]))
}

/// Names as the constants of the p6 module.
fn p6_own() -> Vec<String> {
    let row = |row: &Record| {
        format!(
            "event({}, {}, {}, {}, {})",
            row["halprof_id"],
            row["code_hex"],
            row["default_umask"],
            counters_of_two(&row["counter"]),
            row["processors"].to_uppercase().replace(';', " | "),
        )
    };
    records("p6-events").iter().map(row).collect()
}

fn p5_mapped(row: &Record) -> String {
    let encoding = row["encoding"].strip_prefix("ES=").expect("mapping.csv: ES of a P5");
    let (code, clocks) = match encoding.strip_suffix(" CC[2]=1") {
        Some(code) => (code, true),
        None => (encoding, false),
    };
    format!("{code}, {clocks}, {}", counters_of_two(&row["counters"]))
}

/// The Pentium's events first: those that came with MMX are left off by length.
fn p5_own() -> Vec<String> {
    let row = |row: &Record| {
        let (kind, fit) = match row["type"].strip_suffix('?') {
            Some(kind) => (kind, "Approximate"),
            None => (row["type"].as_str(), "Exact"),
        };
        let clocks = match kind {
            "occurrence" => false,
            "duration" => true,
            other => panic!("p5-events.csv: type {other:?}"),
        };
        format!(
            "Event {{ row: row({}, Fit::{fit}, {}, {clocks}, {}), mmx_only: {} }}",
            row["halprof_id"],
            row["code_hex"],
            counters_of_two(&row["counter"]),
            !row["processors"].split(';').any(|name| name == "P5"),
        )
    };
    records("p5-events").iter().map(row).collect()
}

/// NetBurst's ESCRs by name.
struct Escrs(HashMap<String, Record>);

/// Counter 1 is never used: the enable bit of its CCCR does not work reliably (Linux, p4.c).
const UNRELIABLE: u32 = 1 << 1;

impl Escrs {
    fn read() -> Self {
        let named = |row: Record| (row["name"].clone(), row);
        Self(records("p4-escr").into_iter().map(named).collect())
    }

    /// The two MSRs, then the counters of the two; 0 for the side that a pair does not have.
    fn pair(&self, names: [&str; 2]) -> String {
        let side = |name: &str| {
            if name.is_empty() {
                return (0, 0);
            }
            let escr = &self.0[&format!("MSR_{name}")];
            (number(&escr["msr"]), counter_set(&escr["counters"]) & !UNRELIABLE)
        };
        let [(even, counters), (odd, counters_of_odd)] = names.map(side);
        format!("[{even:#x}, {odd:#x}], [{counters:#x}, {counters_of_odd:#x}]")
    }

    /// `ESCR=…+CPL; CCCR=…+ENABLE+OVF_PMI; NAME_ESCR0/1; counters …` and what tags upstream.
    fn mapped(&self, row: &Record) -> String {
        let parts: Vec<&str> = row["encoding"].split("; ").collect();
        let [escr, cccr, pair, _counters, upstream @ ..] = parts.as_slice() else {
            panic!("mapping.csv: {:?}", row["encoding"]);
        };
        let register = |text: &str, name: &str| {
            let value = text.strip_prefix(name).and_then(|text| text.split('+').next());
            number(value.unwrap_or_else(|| panic!("mapping.csv: {text:?}")))
        };
        let (even, odd) = pair.split_once('/').expect("mapping.csv: a pair of ESCRs");
        let odd = format!("{}{odd}", &even[..even.len() - 1]);
        let upstream = match upstream {
            [] => "Upstream::None".to_owned(),
            [enable, vert] => format!(
                "Upstream::Replay {{ pebs_enable: {:#x}, matrix_vert: {:#x} }}",
                register(enable, "PEBS_ENABLE(3F1)="),
                register(vert, "MATRIX_VERT(3F2)="),
            ),
            [escr] => {
                let escr = register(escr, "upstream RAT_ESCR ");
                format!("Upstream::UopType {{ escr: {escr:#x} }}")
            }
            other => panic!("mapping.csv: upstream {other:?}"),
        };
        format!(
            "const {{ &count({:#x}, {:#x}, {}, {upstream}) }}",
            register(escr, "ESCR="),
            register(cccr, "CCCR=") & !ACTIVE_THREAD,
            self.pair([even, &odd]),
        )
    }
}

/// CCCR bits 17:16, which the interface sets.
const ACTIVE_THREAD: u64 = 3 << 16;

fn netburst_own(escrs: &Escrs) -> Vec<String> {
    let row = |row: &Record| {
        let bit = |bit: &str| 1 << number(bit.split(':').next().unwrap_or_default());
        let documented: u64 = row["mask_bits"].split(';').map(bit).sum();
        let mask = match row["default_mask"].as_str() {
            "" => documented,
            mask => number(mask),
        };
        // CCCR bits 18 (COMPARE) and 24 (EDGE).
        let filter = match row["cccr_filter"].as_str() {
            "" => 0,
            "compare+edge" => 1 << 18 | 1 << 24,
            other => panic!("p4-events.csv: filter {other:?}"),
        };
        format!(
            "own({}, {documented:#x}, {}, const {{ &count({:#x}, {:#x}, {}, Upstream::None) }})",
            row["halprof_id"],
            row["models"].split(',').next().unwrap_or_default(),
            number(&row["escr_event_select"]) << 25 | mask << 9,
            number(&row["cccr_escr_select"]) << 13 | filter,
            escrs.pair([&row["escr_a"], &row["escr_b"]]),
        )
    };
    records("p4-events").iter().filter(|row| !row["halprof_id"].is_empty()).map(row).collect()
}
