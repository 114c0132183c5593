//! Turns the tables of `facts` into those of `source/texts.rs`: for each `SourceTable`,
//! the texts of its sources by number. And the messages of `facts/errors.csv` into those of `error.rs`.

use halprof_facts::{Output, Row, amd_generations, refusals, table};
use std::collections::BTreeMap;

/// The texts of one source, in the order of `SourceTexts`.
struct Texts {
    id: u64,
    symbol: String,
    name: String,
    counts: String,
    note: String,
}

/// The note on ProfileTime.
const TIMER: &str = "counted by a timer: the HAL never programs the event select in its table";

/// `yes` where these families have the event with K8's name.
const KEPT: &str = "kept_on_11h_12h_14h_16h";

fn main() {
    let modern = table("events-modern");
    let meanings = table("source-meanings");
    let tables = vec![
        ("Default", default()),
        ("Emon", emon(&modern)),
        ("Amd64", amd64(first_name)),
        ("Pentium", joined(mapped("P5"), documented("p5-events", &["P5"]))),
        ("PentiumMmx", joined(mapped("P5MMX"), documented("p5-events", &["P5MMX"]))),
        ("P6", joined(mapped("P6"), documented("p6-events", &["PPro", "PII", "Celeron", "PIII"]))),
        ("PentiumM", joined(mapped("P6"), documented("p6-events", &["PM"]))),
        ("NetBurst", joined(mapped("P4"), netburst())),
        ("AmdUnknown", amd64(|_| Default::default())),
    ];
    let models = amd_generations();
    let generations: BTreeMap<&str, &str> =
        models.iter().map(|models| (models.generation.as_str(), models.core.as_str())).collect();
    let mut tables: Vec<String> =
        tables.into_iter().map(|(table, rows)| code(table, rows, &meanings)).collect();
    for (generation, core) in generations {
        let hal = amd64(|event| on_generation(event, generation));
        let own = own(modern.iter().filter(|event| event["core"] == core));
        tables.push(code(&format!("Amd{generation}"), joined(hal, own), &meanings));
    }
    let messages: Vec<String> =
        refusals().iter().map(|row| format!("{:?}", row["message"])).collect();
    let output = Output::of_build_script();
    output.write_array("texts", &tables);
    output.write_array("messages", &messages);
}

/// A table and its rows as code.
fn code(table: &str, mut rows: Vec<Texts>, meanings: &[Row]) -> String {
    rows.sort_by_key(|row| row.id);
    let row = |Texts { id, symbol, name, counts, note }: &Texts| {
        let meaning = meaning(meanings, name);
        format!(
            "SourceTexts {{ id: {id:#x}, symbol: {symbol:?}, name: {name:?}, counts: {counts:?}, note: {note:?}, meaning: {meaning:?} }},\n"
        )
    };
    let rows: String = rows.iter().map(row).collect();
    format!("(SourceTable::{table}, &[\n{rows}])")
}

/// What the count of a source says, by its name: two tables that call it the same mean the same. `*`
/// ends the names of a family of sources, which differ in a condition that their names have.
fn meaning<'a>(meanings: &'a [Row], source: &str) -> &'a str {
    let is_of = |row: &&Row| match row["name"].strip_suffix('*') {
        Some(family) => source.starts_with(family),
        None => row["name"] == source,
    };
    meanings.iter().find(is_of).map_or("", |row| row["meaning"].as_str())
}

fn joined(mut first: Vec<Texts>, second: Vec<Texts>) -> Vec<Texts> {
    first.extend(second);
    first
}

/// The row of a record by its columns: number, symbol, name, what is counted, note; no column is no
/// text, and no number no row.
fn row(record: &Row, [id, symbol, name, counts, note]: [&str; 5]) -> Option<Texts> {
    let text = |column: &str| match column {
        "" => String::new(),
        column => record[column].clone(),
    };
    Some(Texts {
        id: (!record[id].is_empty()).then(|| record.number(id))?,
        symbol: text(symbol),
        name: text(name),
        counts: text(counts),
        note: text(note),
    })
}

/// The rows of records that are of halprof's own sources.
fn own<'a>(records: impl IntoIterator<Item = &'a Row>) -> Vec<Texts> {
    let columns = ["halprof_id", "halprof_name", "halprof_name", "manual_name", "halprof_note"];
    records.into_iter().filter_map(|record| row(record, columns)).collect()
}

fn default() -> Vec<Texts> {
    let columns = ["value", "symbol", "name_listed_by_windows", "", "note"];
    table("default-sources").iter().filter_map(|record| row(record, columns)).collect()
}

/// The HAL's sources, the fixed counters, and the architectural events that the HAL lacks.
fn emon(modern: &[Row]) -> Vec<Texts> {
    let bit = |event: &Row| event["core"].strip_prefix("cpuid 0xA ebx bit ").map(str::to_owned);
    let hal = table("emon-sources");
    let hal = hal.iter().filter_map(|record| {
        let of_bit = Some(record["cpuid_0a_ebx_bit"].clone());
        let event = modern.iter().find(|event| bit(event) == of_bit);
        let twin = record["same_as_specific_source"].strip_prefix("Profile");
        let row = row(record, ["value", "symbol", "name_listed_by_windows", "", "note"])?;
        Some(Texts {
            counts: event.map_or_else(String::new, |event| event["manual_name"].clone()),
            note: twin.map_or(row.note, |twin| format!("same as {twin}")),
            ..row
        })
    });
    let fixed = table("intel-fixed");
    let fixed =
        fixed.iter().filter_map(|record| row(record, ["id", "name", "name", "manual_name", ""]));
    hal.chain(fixed).chain(own(modern.iter().filter(|event| bit(event).is_some()))).collect()
}

/// The HAL's sources; `texts` gives what the event of one counts, and a note on that.
fn amd64(texts: impl Fn(&Row) -> (String, String)) -> Vec<Texts> {
    let meanings = table("amd64-hal-on-zen");
    let row = |record: &Row| {
        let row = row(record, ["value", "symbol", "name_listed_by_windows10", "", ""])?;
        if row.symbol == "ProfileTime" {
            return Some(Texts { note: TIMER.to_owned(), ..row });
        }
        let meaning = meanings.iter().find(|meaning| meaning["value"] == record["value"]);
        let (counts, note) = texts(meaning.expect("amd64-hal-on-zen.csv: every source of the HAL"));
        Some(Texts { counts, note, ..row })
    };
    table("amd64-sources").iter().filter_map(row).collect()
}

/// A source's name without the `-` of an event that is not documented.
fn named(event: &str) -> Option<String> {
    (event != "-").then(|| event.to_owned())
}

/// The event's name where it first appeared: on K8, or on family 10h.
fn first_name(event: &Row) -> (String, String) {
    let name = named(&event["K8"]).or_else(|| named(&event["10h"]));
    (name.unwrap_or_default(), String::new())
}

/// What the event is on a generation, by its column, or by K8's where it has none; on Zen with what
/// became of it since K8.
fn on_generation(event: &Row, generation: &str) -> (String, String) {
    let name = match event.get(generation.trim_start_matches("Family")) {
        Some(name) => named(name),
        None => named(&event["K8"]).filter(|_| event[KEPT] == "yes"),
    };
    let note = match &name {
        Some(_) if generation.starts_with("Zen") => event["verdict_on_zen"].clone(),
        _ => String::new(),
    };
    (name.unwrap_or_default(), note)
}

/// The wdm.h sources of a family without a HAL's table.
fn mapped(family: &str) -> Vec<Texts> {
    let row = |record: &Row| {
        let row = row(record, ["source", "name", "name", "event", "reason"])?;
        let name = match row.symbol.as_str() {
            "ProfileTime" => "Timer",
            symbol => symbol.strip_prefix("Profile").expect("mapping.csv: a symbol of wdm.h"),
        };
        Some(Texts { name: name.to_owned(), ..row })
    };
    let records = table("mapping");
    records.iter().filter(|record| record["family"] == family).filter_map(row).collect()
}

/// The documented events of any of these processors.
fn documented(file: &str, processors: &[&str]) -> Vec<Texts> {
    let has = |record: &&Row| record["processors"].split(';').any(|one| processors.contains(&one));
    let columns = ["halprof_id", "name", "name", "name", "note"];
    table(file).iter().filter(has).filter_map(|record| row(record, columns)).collect()
}

fn netburst() -> Vec<Texts> {
    let columns = ["halprof_id", "event", "event", "event", "note"];
    table("p4-events").iter().filter_map(|record| row(record, columns)).collect()
}
