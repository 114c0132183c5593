//! Turns the tables of `facts` into the rows of `source`: for each table an array expression in
//! OUT_DIR, made of calls to the constructors in the module that includes it.

use halprof_facts::{AmdModels, Output, Row, amd_generations, parse_number, table};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::env;

fn main() {
    let output = Output::of_build_script();
    let amd = Generations(amd_generations());
    let modern = table("events-modern");
    let meanings = table("amd64-hal-on-zen");
    for (name, rows) in [
        ("emon", emon()),
        ("emon_bits", emon_bits()),
        ("intel_fixed", intel_fixed()),
        ("intel_architectural", intel_architectural(&modern)),
        ("amd64", amd64()),
        ("amd_generations", amd.rows()),
        ("amd64_documented", amd64_documented(&amd, &meanings)),
        ("amd64_nothing", amd64_nothing(&meanings)),
        ("amd64_else", amd64_else(&meanings)),
        ("amd_own", amd_own(&amd, &modern)),
        ("errata", errata()),
    ] {
        output.write_array(name, &rows);
    }
    if env::var_os("CARGO_FEATURE_HISTORIC").is_some() {
        historic(&output, &table("mapping"), &Escrs::read());
    }
}

fn historic(output: &Output, mapping: &[Row], escrs: &Escrs) {
    for (name, rows) in [
        ("netburst", mapped(mapping, "P4", |row| escrs.mapped(row))),
        ("netburst_own", netburst_own(escrs)),
        ("p6", mapped(mapping, "P6", p6_mapped)),
        ("p6_own", p6_own()),
        ("p5", mapped(mapping, "P5", p5_mapped)),
        ("p5mmx", mapped(mapping, "P5MMX", p5_mapped)),
        ("p5_own", p5_own()),
    ] {
        output.write_array(name, &rows);
    }
}

/// A number that is a part of a cell.
fn number(text: &str) -> u64 {
    parse_number(text).unwrap_or_else(|| panic!("{text:?} is no number"))
}

/// The counters in a column, of a family with two: both are no constraint.
fn counters_of_two(row: &Row, column: &str) -> &'static str {
    match row.counters(column) {
        0b01 => "0b01",
        0b10 => "0b10",
        0b11 => "ANY",
        _ => row.reject(column),
    }
}

fn is_timer(row: &Row) -> bool {
    row.get("symbol").or(row.get("name")).is_some_and(|symbol| symbol == "ProfileTime")
}

/// ProfileTime's row with the select that the HAL's table has for it and never programs.
fn timer(select: &str) -> String {
    format!("Row::timer(Select::EventSelect({select}))")
}

fn ebx_bit(row: &Row) -> Option<&str> {
    row["core"].strip_prefix("cpuid 0xA ebx bit ")
}

fn emon() -> Vec<String> {
    let row = |row: &Row| {
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
    table("emon-sources").iter().map(row).collect()
}

/// The errata that decide how counters are used.
fn errata() -> Vec<String> {
    let row = |row: &Row| {
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
            _ => row.reject("effect"),
        };
        let tsx_force_abort = match row["condition"].as_str() {
            "" => false,
            "tsx-force-abort" => true,
            _ => row.reject("condition"),
        };
        format!(
            "Row {{ vendor: *b{:?}, family: {}, models: &[{}], tsx_force_abort: {tsx_force_abort}, effect: Effect::{effect} }}",
            row["vendor"],
            row["family"],
            models.join(", "),
        )
    };
    table("errata").iter().filter(|row| row["effect"] != "note").map(row).collect()
}

fn emon_bits() -> Vec<String> {
    table("emon-sources")
        .iter()
        .filter(|row| !row["cpuid_0a_ebx_bit"].is_empty())
        .map(|row| format!("({}, {})", row["value"], row["cpuid_0a_ebx_bit"]))
        .collect()
}

fn intel_fixed() -> Vec<String> {
    let row = |row: &Row| format!("fixed({}, {})", row["id"], row["index"]);
    table("intel-fixed").iter().map(row).collect()
}

fn intel_architectural(modern: &[Row]) -> Vec<String> {
    modern
        .iter()
        .filter(|row| ebx_bit(row).is_some() && !row["halprof_id"].is_empty())
        .map(event_row)
        .collect()
}

fn amd64() -> Vec<String> {
    let row = |row: &Row| match &row["select"] {
        select if is_timer(row) => timer(select),
        select => format!("row({}, {select})", row["value"]),
    };
    table("amd64-sources").iter().map(row).collect()
}

/// Which of AMD's models are which generation.
struct Generations(Vec<AmdModels>);

impl Generations {
    fn rows(&self) -> Vec<String> {
        let row =
            |AmdModels { family, first_model, last_model, generation: name, .. }: &AmdModels| {
                format!(
                    "({family:#04x}, {first_model:#04x}, {last_model:#04x}, {})",
                    generation(name)
                )
            };
        self.0.iter().map(row).collect()
    }

    /// Every generation by its name, once each.
    fn names(&self) -> BTreeSet<&str> {
        self.0.iter().map(|models| models.generation.as_str()).collect()
    }

    /// The generation whose name in events-modern.csv is this.
    fn of_core(&self, core: &str) -> &str {
        let models = self.0.iter().find(|models| models.core == core);
        &models.unwrap_or_else(|| panic!("amd-generations.csv: no core {core:?}")).generation
    }
}

/// For each event code up to the highest of the table, the generations that document it. Those
/// without a column of their own keep what `kept_on_11h_12h_14h_16h` says.
fn amd64_documented(amd: &Generations, meanings: &[Row]) -> Vec<String> {
    let by_code: BTreeMap<u64, &Row> =
        meanings.iter().map(|row| (row.number("event"), row)).collect();
    let documented = |row: &Row| {
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
fn amd64_else(meanings: &[Row]) -> Vec<String> {
    let renamed = meanings.iter().filter(|row| row["something_else_on_zen"] == "yes");
    let events: BTreeSet<u64> = renamed.map(|row| row.number("event")).collect();
    events.iter().map(ToString::to_string).collect()
}

/// Event, unit mask and the generations where they count nothing, once each.
fn amd64_nothing(meanings: &[Row]) -> Vec<String> {
    let nothing: BTreeMap<_, _> = meanings
        .iter()
        .filter(|row| !row["counts_nothing_on"].is_empty())
        .map(|row| ((row.number("event"), row.number("umask")), &row["counts_nothing_on"]))
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
fn amd_own(amd: &Generations, modern: &[Row]) -> Vec<String> {
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
fn event_row(row: &Row) -> String {
    format!("Row::event({}, {})", row["halprof_id"], row["select_with_os_usr"])
}

/// The wdm.h sources of a family without a HAL's table; `select` gives the constructor's arguments
/// from the select on.
fn mapped(mapping: &[Row], family: &str, select: impl Fn(&Row) -> String) -> Vec<String> {
    let row = |row: &Row| {
        let id = &row["source"];
        let fit = match row["offer"].as_str() {
            "timer" => return "Row::timer(Select::None)".to_owned(),
            "no" => {
                return format!("Row::new({id}, Fit::Unsupported, Select::None, NO_COUNTER)");
            }
            "yes" => "Exact",
            "optional" => "Approximate",
            _ => row.reject("offer"),
        };
        format!("row({id}, Fit::{fit}, {})", select(row))
    };
    mapping.iter().filter(|row| row["family"] == family).map(row).collect()
}

fn p6_mapped(row: &Row) -> String {
    format!("{}, {}", row["select_with_usr_os"], counters_of_two(row, "counters"))
}

/// Names as the constants of the p6 module.
fn p6_own() -> Vec<String> {
    let row = |row: &Row| {
        format!(
            "event({}, {}, {}, {}, {})",
            row["halprof_id"],
            row["code_hex"],
            row["default_umask"],
            counters_of_two(row, "counter"),
            row["processors"].to_uppercase().replace(';', " | "),
        )
    };
    table("p6-events").iter().map(row).collect()
}

fn p5_mapped(row: &Row) -> String {
    let encoding = row["encoding"].strip_prefix("ES=").expect("mapping.csv: ES of a P5");
    let (code, clocks) = match encoding.strip_suffix(" CC[2]=1") {
        Some(code) => (code, true),
        None => (encoding, false),
    };
    format!("{code}, {clocks}, {}", counters_of_two(row, "counters"))
}

/// The Pentium's events first: those that came with MMX are left off by length.
fn p5_own() -> Vec<String> {
    let row = |row: &Row| {
        let (kind, fit) = match row["type"].strip_suffix('?') {
            Some(kind) => (kind, "Approximate"),
            None => (row["type"].as_str(), "Exact"),
        };
        let clocks = match kind {
            "occurrence" => false,
            "duration" => true,
            _ => row.reject("type"),
        };
        format!(
            "Event {{ row: row({}, Fit::{fit}, {}, {clocks}, {}), mmx_only: {} }}",
            row["halprof_id"],
            row["code_hex"],
            counters_of_two(row, "counter"),
            !row["processors"].split(';').any(|name| name == "P5"),
        )
    };
    table("p5-events").iter().map(row).collect()
}

/// NetBurst's ESCRs by name.
struct Escrs(HashMap<String, Row>);

/// Counter 1 is never used: the enable bit of its CCCR does not work reliably (Linux, p4.c).
const UNRELIABLE: u32 = 1 << 1;

impl Escrs {
    fn read() -> Self {
        let named = |row: Row| (row["name"].clone(), row);
        Self(table("p4-escr").into_iter().map(named).collect())
    }

    /// The two MSRs, then the counters of the two; 0 for the side that a pair does not have.
    fn pair(&self, names: [&str; 2]) -> String {
        let side = |name: &str| {
            if name.is_empty() {
                return (0, 0);
            }
            let escr = &self.0[&format!("MSR_{name}")];
            (escr.number("msr"), escr.counters("counters") & !UNRELIABLE)
        };
        let [(even, counters), (odd, counters_of_odd)] = names.map(side);
        format!("[{even:#x}, {odd:#x}], [{counters:#x}, {counters_of_odd:#x}]")
    }

    /// `ESCR=…+CPL; CCCR=…+ENABLE+OVF_PMI; NAME_ESCR0/1; counters …` and what tags upstream.
    fn mapped(&self, row: &Row) -> String {
        let parts: Vec<&str> = row["encoding"].split("; ").collect();
        let [escr, cccr, pair, _counters, upstream @ ..] = parts.as_slice() else {
            row.reject("encoding");
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
            _ => row.reject("encoding"),
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
    let row = |row: &Row| {
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
            _ => row.reject("cccr_filter"),
        };
        format!(
            "own({}, {documented:#x}, {}, const {{ &count({:#x}, {:#x}, {}, Upstream::None) }})",
            row["halprof_id"],
            row["models"].split(',').next().unwrap_or_default(),
            row.number("escr_event_select") << 25 | mask << 9,
            row.number("cccr_escr_select") << 13 | filter,
            escrs.pair([&row["escr_a"], &row["escr_b"]]),
        )
    };
    table("p4-events").iter().filter(|row| !row["halprof_id"].is_empty()).map(row).collect()
}
