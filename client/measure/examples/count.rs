//! Counts what one piece of code does: `cargo run -p halprof-measure --example count [MACHINE]`.
//!
//! On Windows it counts with the installed driver, unless a modelled machine is named. Elsewhere it
//! counts on a modelled machine, whose workload runs while the code lets it.

use halprof_measure::{Connection, Machine, Result, Sources, measure};
use std::fmt::Write as _;

fn main() -> Result<()> {
    print!("{}", count(std::env::args().nth(1).as_deref())?);
    Ok(())
}

/// The thread may run on any processor, so all of them are counted, with everything else that they
/// do.
pub(crate) fn count(machine: Option<&str>) -> Result<String> {
    let mut connection = Connection::new(Machine::open(machine)?)?;
    let modelled = connection.modelled();
    let sources = Sources::named(&mut connection, "TotalIssues:u,BranchInstructions:u")?;
    let measured = measure(&mut connection, &sources, |machine| work(machine, modelled))?;
    let mut text = String::new();
    if modelled {
        text += "modelled machine, not silicon\n";
    }
    let _ = writeln!(text, "the code answered {}", measured.result?);
    for count in &measured.counts {
        let (source, overhead) = (&count.source, count.overhead);
        let value = count.estimate.value;
        let value = value.map_or("not counted".to_owned(), |value| value.to_string());
        let _ = writeln!(text, "{value:>12} {source} (measuring alone: {overhead})");
    }
    Ok(text)
}

/// A real machine does what the code does, a modelled machine what its workload says.
fn work(machine: &mut Machine, modelled: bool) -> Result<u32> {
    if modelled {
        machine.run("instructions=3000000,cycles=2000000,branches=400000")?;
        return Ok(42);
    }
    Ok((1..=1_000_000u64).map(u64::count_ones).sum())
}
