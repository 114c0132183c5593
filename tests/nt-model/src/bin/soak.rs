//! `soak`: machine after machine, each with many sequences, until a rule is broken or the time is
//! up.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::Parser;
use nt_model::soak::{Limit, cores, soak};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs the shipped halprof.sys on modelled machines, several things at once, for as long as you
/// like. A failing seed is printed with the command that replays it.
#[derive(Parser)]
struct Options {
    /// Stop after so many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first machine's seed; chosen from the clock where it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after so many machines, each with 50 sequences.
    #[arg(long)]
    lives: Option<u64>,
    /// Threads; one for each processor where it is not given.
    #[arg(long)]
    threads: Option<usize>,
    /// The driver.
    #[arg(long, default_value = "target/driver/halprof-historic.sys")]
    driver: PathBuf,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let options = Options::parse();
    let file = std::fs::read(&options.driver).with_context(|| {
        let driver = options.driver.display();
        format!("no driver in {driver}: run `cargo xtask sys`")
    })?;
    let clock = || std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs());
    let first = options.seed.unwrap_or_else(clock);
    println!("seeds from {first}");
    let limit = Limit {
        lives: options.lives.unwrap_or(u64::MAX),
        time: options.lives.map_or(Duration::from_secs(options.seconds), |_| Duration::MAX),
    };
    let began = Instant::now();
    match soak(&file, first, limit, options.threads.unwrap_or_else(cores)) {
        Ok(life) => {
            let told = life.told;
            println!(
                "{} sequences in {:.0} s: {} requests, {} granted, {} cancelled, {} samples, {} branches, {} replies by thread, RDPMC allowed {} times, {} interrupts, {} waits for the lock, {} faults, {} instructions",
                life.sequences,
                began.elapsed().as_secs_f64(),
                told.requests,
                told.granted,
                told.cancelled,
                told.samples,
                told.branches,
                told.by_thread,
                told.allowed,
                life.interrupts,
                life.contended,
                life.faults,
                life.instructions
            );
            Ok(())
        }
        Err(failure) => bail!("{failure}"),
    }
}
