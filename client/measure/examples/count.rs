//! Counts what one piece of code does: `cargo run -p halprof-measure --example count [MACHINE]`.
//!
//! On Windows it counts with the installed driver, unless a modelled machine is named. Elsewhere it
//! counts on a modelled machine, whose workload runs while the code lets it.

use halprof_measure::{Connection, InProcess, Result, Transport};
use halprof_measure::{Sources, measure};
use std::fmt::Write as _;

fn main() -> Result<()> {
    let machine = std::env::args().nth(1);
    #[cfg(windows)]
    if machine.is_none() {
        print!("{}", on_driver()?);
        return Ok(());
    }
    print!("{}", on_model(machine.as_deref().unwrap_or("skylake"))?);
    Ok(())
}

/// A real machine does what the code does. The thread may run on any processor, so all of them are
/// counted, with everything else that they do.
#[cfg(windows)]
fn on_driver() -> Result<String> {
    let mut connection = Connection::new(halprof_measure::Driver::open()?.ok_or_else(absent)?)?;
    count(&mut connection, |_| (1..=1_000_000u64).map(u64::count_ones).sum())
}

/// A modelled machine does what its workload says.
pub(crate) fn on_model(machine: &str) -> Result<String> {
    let model = InProcess::new(&halprof_measure::spec(machine)?.leaves);
    let mut connection = Connection::new(model)?;
    let workload =
        sim::load::workload::parse("instructions=3000000,cycles=2000000,branches=400000");
    let workload =
        workload.map_err(|error| halprof_measure::Error::usage(error.to_string(), error.hint()))?;
    let text = count(&mut connection, |model| {
        model.begin(&workload);
        while model.advance(1_000_000).unwrap_or(false) {}
        42
    })?;
    Ok(format!("modelled machine {machine}, not silicon\n{text}"))
}

fn count<T: Transport>(
    connection: &mut Connection<T>,
    code: impl FnOnce(&mut T) -> u32,
) -> Result<String> {
    let sources = Sources::named(connection, "TotalIssues:u,BranchInstructions:u")?;
    let measured = measure(connection, &sources, code)?;
    let mut text = format!("the code answered {}\n", measured.result);
    for count in &measured.counts {
        let (source, overhead) = (&count.source, count.overhead);
        let value = count.estimate.value;
        let value = value.map_or("not counted".to_owned(), |value| value.to_string());
        let _ = writeln!(text, "{value:>12} {source} (measuring alone: {overhead})");
    }
    Ok(text)
}

#[cfg(windows)]
fn absent() -> halprof_measure::Error {
    halprof_measure::Error::unavailable("the driver is not installed", "Run `halprof install`.")
}
