//! Live rates, one line every tenth of a second: `cargo run -p halprof-measure --example rates [MACHINE]`.
//!
//! On Windows it counts with the installed driver, unless a modelled machine is named. Elsewhere it
//! counts on a modelled machine, whose time passes only when it is made to run.

use halprof_measure::rates::Rates;
use halprof_measure::{Connection, Error, Machine, Result, Sources};
use std::io::{self, Write};
use std::time::Duration;

fn main() -> Result<()> {
    watch(std::env::args().nth(1).as_deref(), &mut io::stdout())
}

pub(crate) fn watch(machine: Option<&str>, out: &mut impl Write) -> Result<()> {
    let failed = |error| Error::writing("-", error);
    let mut connection = Connection::new(Machine::open(machine)?)?;
    let modelled = connection.modelled();
    if modelled {
        writeln!(out, "modelled machine, not silicon").map_err(failed)?;
    }
    let sources = Sources::named(&mut connection, "TotalIssues,TotalCycles")?;
    let mut rates = Rates::new(connection.machine()?.timestamp_frequency);
    let mut session = sources.start(&mut connection)?;
    for _ in 0..10 {
        if modelled {
            session.transport().run("instructions=100000000,cycles=150000000,processors=all")?;
        } else {
            std::thread::sleep(Duration::from_millis(100));
        }
        let interval = rates.take(session.snapshot()?);
        for (source, name) in sources.names().enumerate() {
            let rate = interval.sum(source).map_or(0.0, |rate| rate.per_second);
            write!(out, "{rate:>18.0} {name}/s").map_err(failed)?;
        }
        writeln!(out).map_err(failed)?;
    }
    session.stop()
}
