//! `soak`: the lives of many machines, each with many sequences of what clients and the system do.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::Parser;
use nt_model::soak::soak;
use std::path::PathBuf;
use std::time::Instant;

/// Runs the shipped halprof.sys on modelled machines, several things at once. A failing seed is
/// printed with the command that replays it.
#[derive(Parser)]
struct Options {
    /// The first machine's seed; chosen from the clock where it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// The number of machines, each with 50 sequences.
    #[arg(long, default_value_t = 100)]
    lives: u64,
    /// The driver.
    #[arg(long, default_value = "target/driver/halprof-historic.sys")]
    driver: PathBuf,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let file = std::fs::read(&options.driver).with_context(|| {
        let driver = options.driver.display();
        format!("no driver in {driver}: run `cargo xtask sys`")
    })?;
    let clock = || std::time::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_secs());
    let first = options.seed.unwrap_or_else(clock);
    println!("seeds from {first}");
    let began = Instant::now();
    let totals = soak(&file, first..first + options.lives)?;
    println!("{:.0} s: {totals:#?}", began.elapsed().as_secs_f64());
    Ok(())
}
