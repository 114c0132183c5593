//! Prints the table of `tests/data/dump-leaves.csv` from CPUID dumps:
//! `cargo run -p sim --example dump_leaves -- ../shared/cpuid/*.txt > tests/data/dump-leaves.csv`

mod rows;

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", rows::HEADER);
    for path in std::env::args().skip(1) {
        let machine = sim::machines::dump::parse(&std::fs::read(&path)?)
            .map_err(|error| format!("{path}: {error}; {}", error.hint()))?;
        let file = Path::new(&path).file_name().unwrap_or_default();
        for row in rows::table(&machine) {
            println!("{},{row}", file.to_string_lossy());
        }
    }
    Ok(())
}
