//! Reads the fact tables that stand beside it, and AMD's generations, which stand in
//! `client/events/data` because halprof-events is published alone.
//!
//! For build scripts and for programs that print the tables. A malformed table ends them, with the
//! file, the line and the column.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ops::Index;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where the tables are: beside this crate.
const TABLES: &str = env!("CARGO_MANIFEST_DIR");
const ERRORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/errors.csv");
const AMD_GENERATIONS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../client/events/data/amd-generations.csv");

/// A row of a table: its texts by the names of their columns.
#[derive(Clone, Debug)]
pub struct Row {
    file: PathBuf,
    line: usize,
    texts: HashMap<String, String>,
}

impl Row {
    /// The text in a column; `None` where the table has no such column.
    pub fn get(&self, column: &str) -> Option<&String> {
        self.texts.get(column)
    }

    /// The number in a column.
    ///
    /// # Panics
    /// If there is none.
    pub fn number(&self, column: &str) -> u64 {
        parse_number(&self[column]).unwrap_or_else(|| self.reject(column))
    }

    /// The counters in a column, such as `0|1` or `12-17`, as a mask.
    ///
    /// # Panics
    /// If there are none.
    pub fn counters(&self, column: &str) -> u32 {
        parse_counters(&self[column]).unwrap_or_else(|| self.reject(column))
    }

    /// Ends the program: the text in a column means nothing.
    ///
    /// # Panics
    /// Always.
    pub fn reject(&self, column: &str) -> ! {
        let Self { file, line, .. } = self;
        panic!("{}, line {line}: {column} is {:?}", file.display(), self[column])
    }
}

impl Index<&str> for Row {
    type Output = String;

    fn index(&self, column: &str) -> &String {
        let Self { file, line, .. } = self;
        self.get(column)
            .unwrap_or_else(|| panic!("{}, line {line}: no column {column}", file.display()))
    }
}

/// The rows of a table.
///
/// # Panics
/// If it cannot be read.
pub fn table(name: &str) -> Vec<Row> {
    read(&Path::new(TABLES).join(name).with_extension("csv"))
}

/// Some models of a family of AMD's, all of one generation.
#[derive(Clone, Debug)]
pub struct AmdModels {
    /// The family, as CPUID shows it.
    pub family: u64,
    /// The first of the models.
    pub first_model: u64,
    /// The last of them.
    pub last_model: u64,
    /// The name of the generation, such as `Zen4`.
    pub generation: String,
    /// The generation's name in events-modern.csv.
    pub core: String,
}

/// Which of AMD's models are which generation.
///
/// # Panics
/// If the table cannot be read.
pub fn amd_generations() -> Vec<AmdModels> {
    let models = |row: Row| AmdModels {
        family: row.number("family"),
        first_model: row.number("first_model"),
        last_model: row.number("last_model"),
        generation: row["generation"].clone(),
        core: row["core"].clone(),
    };
    read(Path::new(AMD_GENERATIONS)).into_iter().map(models).collect()
}

/// The errors that are on the wire, by number. The numbers are 1, 2 and so on: a gap or a number that
/// stands twice is a slip of the hand, and would give an older client the wrong name.
///
/// # Panics
/// If the table cannot be read, or has other numbers.
pub fn refusals() -> Vec<Row> {
    let rows = read(Path::new(ERRORS)).into_iter();
    let mut rows: Vec<Row> = rows.filter(|row| !row["number"].is_empty()).collect();
    rows.sort_by_key(|row| row.number("number"));
    for (number, row) in (1..).zip(&rows) {
        if row.number("number") != number {
            row.reject("number");
        }
    }
    rows
}

/// A decimal number, or a hexadecimal one after `0x`.
pub fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse_counters(text: &str) -> Option<u32> {
    text.split('|').try_fold(0, |set, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let mut counters = parse_number(first)?..=parse_number(last)?;
        counters.try_fold(set, |set, counter| Some(set | 1_u32.checked_shl(counter as u32)?))
    })
}

fn read(path: &Path) -> Vec<Row> {
    let file = path.display();
    let mut reader = csv::Reader::from_path(path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let columns = reader.headers().unwrap_or_else(|error| panic!("{file}: {error}")).clone();
    let row = |record: Result<csv::StringRecord, csv::Error>| {
        let record = record.unwrap_or_else(|error| panic!("{file}: {error}"));
        let line = record.position().map_or(0, |position| position.line() as usize);
        let texts = columns.iter().zip(&record);
        for (column, text) in texts.clone() {
            assert_eq!(text, text.trim(), "{file}, line {line}: spaces around {column}");
        }
        let texts = texts.map(|(column, text)| (column.to_owned(), text.to_owned())).collect();
        Row { file: path.to_owned(), line, texts }
    };
    reader.records().map(row).collect()
}

/// In a build script: has cargo run it again when a table changes, and writes code into OUT_DIR.
#[derive(Debug)]
pub struct Output(PathBuf);

impl Output {
    /// The output of this build script.
    ///
    /// # Panics
    /// Outside of a build script.
    pub fn of_build_script() -> Self {
        Self::watching(&[TABLES, AMD_GENERATIONS])
    }

    /// The same of one that reads the errors alone: everything depends on shared-types, and would be
    /// built again after a change of any table.
    ///
    /// # Panics
    /// Outside of a build script.
    pub fn of_errors() -> Self {
        Self::watching(&[ERRORS])
    }

    fn watching(tables: &[&str]) -> Self {
        for watched in ["build.rs"].iter().chain(tables) {
            println!("cargo::rerun-if-changed={watched}");
        }
        Self(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR").into())
    }

    /// Writes code to a file of this name.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, code: &str) {
        let path = self.0.join(name).with_extension("rs");
        fs::write(&path, code).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Writes an array of these expressions to a file of this name.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_array(&self, name: &str, elements: &[String]) {
        let code = match elements {
            [] => "[]".to_owned(),
            elements => format!("[\n{},\n]\n", elements.join(",\n")),
        };
        self.write(name, &code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_counters_are_read_as_the_tables_write_them() {
        for (text, number) in [("0x1F", Some(31)), ("31", Some(31)), ("", None), ("0x", None)] {
            assert_eq!(parse_number(text), number, "{text}");
        }
        for (text, set) in
            [("0|1", Some(0b11)), ("2-4", Some(0b1_1100)), ("0|32", None), ("a", None)]
        {
            assert_eq!(parse_counters(text), set, "{text}");
        }
    }

    #[test]
    #[should_panic(expected = "line 2: second is \"b\"")]
    fn a_malformed_cell_is_named() {
        let path = env::temp_dir().join(format!("halprof-facts-{}.csv", std::process::id()));
        fs::write(&path, "first,second\n1,b\n").expect("written");
        let rows = read(&path);
        fs::remove_file(&path).expect("removed");
        assert_eq!(rows[0].number("first"), 1);
        rows[0].number("second");
    }
}
