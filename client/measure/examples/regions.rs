//! Counts regions of code on many threads, and runs one through every source:
//! `cargo run -p halprof-measure --example regions [MACHINE]`.
//!
//! On Windows it counts with the installed driver, and without one by Windows' own tracing, unless a
//! modelled machine is named. Elsewhere it counts on a modelled machine, which does the work that the
//! example gives it; with `,backend=etw` after its name, as that tracing would.

use halprof_measure::regions::{Method, Regions, sweep};
use halprof_measure::{Connection, Machine, Result, Sources};
use std::hint::black_box;

fn main() -> Result<()> {
    print!("{}", count(std::env::args().nth(1).as_deref())?);
    Ok(())
}

/// The table of two threads' regions, and the table of all sources.
pub(crate) fn count(machine: Option<&str>) -> Result<String> {
    let mut connection = Connection::new(Machine::open(machine)?)?;
    let work: fn(&mut Machine, u32) = if connection.modelled() { run_workload } else { add_up };
    // Without the driver, user and kernel mode are counted together.
    let sources = Sources::named(&mut connection, "TotalIssues:u,BranchInstructions:u")
        .or_else(|_| Sources::named(&mut connection, "TotalIssues,BranchInstructions"))?;
    let regions = Regions::open(&mut connection, &sources)?;
    std::thread::scope(|scope| {
        let workers = [0, 1].map(|processor| {
            let regions = &regions;
            scope.spawn(move || one_thread(regions, processor, work))
        });
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Ok(())))
    })?;
    let report = regions.report();
    let is_traced = regions.method() == Method::Tracing;
    drop(regions);
    if is_traced {
        return Ok(report.to_string()); // Only the driver counts sources in passes.
    }
    let all = sweep(&mut connection, "all:u", 10, |machine| work(machine, 0))?;
    Ok(format!("{report}\n{all}"))
}

/// A thread that runs on this processor.
fn one_thread(
    regions: &Regions<'_, Machine>,
    processor: u32,
    work: fn(&mut Machine, u32),
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
fn run_workload(machine: &mut Machine, processor: u32) {
    let workload = format!("instructions=6000,cycles=4000,branches=500,processors={processor}");
    // A fault of the model voids what is read next.
    let _ = machine.run(&workload);
}

/// The work of a real machine, wherever the thread runs.
fn add_up(_machine: &mut Machine, _processor: u32) {
    black_box((0..1000u64).map(black_box).sum::<u64>());
}
