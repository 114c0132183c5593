//! Counts regions of code on many threads, and runs one through every source:
//! `cargo run -p halprof-measure --example regions [MACHINE]`.
//!
//! On Windows it counts with the installed driver, unless a modelled machine is named. Elsewhere it
//! counts on a modelled machine, which does the work that the example gives it.

#[cfg(windows)]
use halprof_measure::Error;
use halprof_measure::regions::{Regions, sweep};
use halprof_measure::{Connection, InProcess, Result, Sources, Transport};

fn main() -> Result<()> {
    let machine = std::env::args().nth(1);
    #[cfg(windows)]
    if machine.is_none() {
        let driver = halprof_measure::Driver::open()?.ok_or_else(absent)?;
        print!("{}", count(&mut Connection::new(driver)?, add_up)?);
        return Ok(());
    }
    print!("{}", on_model(machine.as_deref().unwrap_or("skylake"))?);
    Ok(())
}

/// The table of two threads' regions, and the table of all sources.
pub(crate) fn on_model(machine: &str) -> Result<String> {
    let model = InProcess::new(&halprof_measure::spec(machine)?.leaves);
    count(&mut Connection::new(model)?, work)
}

fn count<T: Transport + Send>(
    connection: &mut Connection<T>,
    work: fn(&mut T, u32),
) -> Result<String> {
    let sources = Sources::named(connection, "TotalIssues:u,BranchInstructions:u")?;
    let regions = Regions::open(connection, &sources)?;
    std::thread::scope(|scope| {
        let workers = [0, 1].map(|processor| {
            let regions = &regions;
            scope.spawn(move || one_thread(regions, processor, work))
        });
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Ok(())))
    })?;
    let report = regions.report();
    drop(regions);
    let all = sweep(connection, "all:u", 10, |machine| work(machine, 0))?;
    Ok(format!("{report}\n{all}"))
}

/// A thread that runs on this processor.
fn one_thread<T: Transport + Send>(
    regions: &Regions<'_, T>,
    processor: u32,
    work: fn(&mut T, u32),
) -> Result<()> {
    let thread = regions.thread_on(&format!("worker {processor}"), &[processor])?;
    for _ in 0..100 {
        let _outer = thread.enter("outer")?;
        regions.with_transport(|machine| work(machine, processor));
        let _inner = thread.enter("inner")?;
        regions.with_transport(|machine| work(machine, processor));
    }
    Ok(())
}

/// The work of a modelled machine.
fn work(model: &mut InProcess, processor: u32) {
    let workload = format!("instructions=6000,cycles=4000,branches=500,processors={processor}");
    if let Ok(workload) = sim::load::workload::parse(&workload) {
        model.begin(&workload);
        while model.advance(1_000_000).unwrap_or(false) {}
    }
}

/// The work of a real machine, wherever the thread runs.
#[cfg(windows)]
fn add_up<T>(_machine: &mut T, _processor: u32) {
    std::hint::black_box((0..1000u64).map(std::hint::black_box).sum::<u64>());
}

#[cfg(windows)]
fn absent() -> Error {
    Error::unavailable("the driver is not installed", "Run `halprof install`.")
}
