//! Live rates, one line every tenth of a second: `cargo run -p halprof-measure --example rates [MACHINE]`.
//!
//! On Windows it counts with the installed driver, unless a modelled machine is named. Elsewhere it
//! counts on a modelled machine, whose time passes only when it is made to run.

use halprof_measure::Sources;
use halprof_measure::rates::Rates;
use halprof_measure::{Connection, Error, InProcess, Result, Transport};
use std::io::{self, Write};
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(100);

fn main() -> Result<()> {
    let machine = std::env::args().nth(1);
    #[cfg(windows)]
    if machine.is_none() {
        return on_driver(&mut io::stdout());
    }
    on_model(machine.as_deref().unwrap_or("skylake"), &mut io::stdout())
}

#[cfg(windows)]
fn on_driver(out: &mut impl Write) -> Result<()> {
    let mut connection = Connection::new(halprof_measure::Driver::open()?.ok_or_else(absent)?)?;
    watch(&mut connection, out, |_| {
        std::thread::sleep(EVERY);
        Ok(())
    })
}

/// Modelled time passes while the machine runs its workload repeatedly.
pub(crate) fn on_model(machine: &str, out: &mut impl Write) -> Result<()> {
    let mut connection = Connection::new(InProcess::new(&halprof_measure::spec(machine)?.leaves))?;
    let workload = sim::load::workload::Workload::default();
    connection.transport().begin(&workload);
    writeln!(out, "modelled machine {machine}, not silicon")
        .map_err(|error| Error::writing("-", error))?;
    watch(&mut connection, out, |model| {
        if !model.advance(EVERY.as_nanos() as u64)? {
            model.begin(&workload);
        }
        Ok(())
    })
}

fn watch<T: Transport>(
    connection: &mut Connection<T>,
    out: &mut impl Write,
    wait: impl Fn(&mut T) -> Result<()>,
) -> Result<()> {
    let sources = Sources::named(connection, "TotalIssues,TotalCycles")?;
    let mut rates = Rates::new(connection.machine()?.timestamp_frequency);
    let mut session = sources.start(connection)?;
    for _ in 0..10 {
        wait(session.transport())?;
        let interval = rates.take(session.snapshot()?);
        for (source, name) in sources.names().enumerate() {
            let rate = interval.sum(source).map_or(0.0, |rate| rate.per_second);
            write!(out, "{rate:>18.0} {name}/s").map_err(|error| Error::writing("-", error))?;
        }
        writeln!(out).map_err(|error| Error::writing("-", error))?;
    }
    session.stop()
}

#[cfg(windows)]
fn absent() -> halprof_measure::Error {
    halprof_measure::Error::unavailable("the driver is not installed", "Run `halprof install`.")
}
