//! `memory-image`: records the memory of a machine that samples, for the debugger script's test.
//!
//! Next to it, it writes what the run knows from sources other than the driver's memory: the
//! replies that the client got, and the counters' registers in the modelled processors.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use clap::Parser;
use halprof_measure::{Connection, ModelledMachine, Session, Setup};
use nt_model::Device;
use nt_model::memory::IMAGE;
use nt_model::transport::{Broken, DriverTransport};
use serde_json::{Value, json};
use shared_types::request::counts::Count;
use shared_types::request::machine::Processor;
use shared_types::request::session::Spec;
use shared_types::{EventKind, Mode, ProfileInterface, Reason, Sample, SystemEvent};
use sim::cpu::Cpu;
use sim::{load::workload, machines::models};
use std::fs;
use std::path::{Path, PathBuf};

/// Records the memory of a modelled machine on which the shipped halprof.sys samples.
#[derive(Parser)]
struct Options {
    /// The driver.
    #[arg(long, default_value = "target/driver/halprof.sys")]
    driver: PathBuf,
    /// Where to leave it.
    #[arg(long, default_value = "target/memory-image")]
    folder: PathBuf,
}

const PROCESSORS: usize = 3;
const SEED: u64 = 1;
/// Instructions, and branches in user mode only: each with its modes and its period. The driver
/// lengthens a period that is too short.
const SOURCES: [(u32, u16, u64); 2] =
    [(2, Spec::USER | Spec::KERNEL, 20_000), (6, Spec::USER, 3_000)];
const WORK: &str = "instructions=3000000,cycles=5000000,branches=700000,skid=300,processors=all";
/// General and fixed counters of the model, and the first of their registers.
const COUNTERS: u32 = 4;
const IA32_PERFEVTSEL0: u32 = 0x186;
const IA32_PMC0: u32 = 0xC1;
const FIXED_COUNTERS: u32 = 3;
const IA32_FIXED_CTR_CTRL: u32 = 0x38D;
const IA32_FIXED_CTR0: u32 = 0x309;

fn main() -> Result<()> {
    let options = Options::parse();
    let file = fs::read(&options.driver).with_context(|| {
        let driver = options.driver.display();
        format!("no driver in {driver}: run `cargo xtask sys`")
    })?;
    let model = models::find("skylake").context("no model")?.processors();
    let leaves = models::repeat(&model[..1], PROCESSORS);
    let broken = Broken::default();
    let transport = DriverTransport::open(&file, &leaves, SEED, None, &broken)?;
    let mut connection = Connection::new(transport)?;
    let known = sample(&mut connection, &options)?;
    drop(connection);
    if let Some(violation) = broken.take() {
        anyhow::bail!("{violation}");
    }
    fs::write(options.folder.join("known.json"), format!("{known:#}"))?;
    println!("{}", options.folder.display());
    Ok(())
}

/// Samples on every processor, drains some samples, records the memory, and then drains the rest.
fn sample(connection: &mut Connection<DriverTransport>, options: &Options) -> Result<Value> {
    let driver_name = connection.driver_name().to_owned();
    let processors = connection.processors()?;
    let specs = SOURCES.map(|(source, filter, interval)| Spec {
        source,
        filter,
        interval,
        ..Spec::default()
    });
    let setup = Setup { specs: specs.to_vec(), events: true, ..Setup::default() };
    let mut session = Session::open(connection, true, false)?;
    let settled = session.configure(&setup, true)?;
    session.start()?;
    let transport = session.transport();
    transport.begin(&workload::parse(WORK)?);
    transport.advance(1_000_000)?;
    let (drained, _) = session.drain()?;
    let transport = session.transport();
    ensure!(transport.advance(1_234_567)?, "the workload is over");
    let device = &mut transport.device;
    let registers: Vec<Value> =
        device.machine.engine.bus().cpus.iter_mut().map(registers).collect();
    // The memory is written before the requests below, which change what the driver has in it.
    write_memory(device, &options.folder)?;
    let handle = transport.file.object;
    let statistics = session.statistics()?;
    let counts = session.snapshot()?;
    let (waiting, left) = session.drain()?;
    ensure!(left == 0, "{left} samples are left");
    let (events, lost) = session.drain_events()?;
    ensure!(lost == 0, "{lost} events are lost");
    drop(session);
    let machine = connection.machine()?;
    let sources = SOURCES.iter().zip(&settled.intervals);
    let sources = sources.map(|((id, filter, _), interval)| {
        let user_only = *filter == Spec::USER;
        json!({ "id": id, "user_only": user_only, "every": interval.events })
    });
    Ok(json!({
        "driver": driver_name,
        "interface": name(ProfileInterface::from_wire(machine.interface)),
        "reason": name(Reason::from_wire(machine.reason)),
        "frequency": machine.timestamp_frequency,
        "handle": format!("{handle:#x}"),
        "process": std::process::id(),
        "sources": sources.collect::<Vec<_>>(),
        "processors": processors.iter().map(processor).collect::<Vec<_>>(),
        "registers": registers,
        "counted": counts.iter().map(|counts| counted(counts)).collect::<Vec<_>>(),
        "statistics": {
            "generated": statistics.generated,
            "stored": statistics.stored,
            "lost": statistics.lost,
            "spurious": statistics.spurious,
            "throttled": statistics.throttled,
            "handler_ticks": statistics.handler_ticks,
        },
        "drained": drained.iter().map(told).collect::<Vec<_>>(),
        "waiting": waiting.iter().map(told).collect::<Vec<_>>(),
        "events": events.iter().map(happened).collect::<Vec<_>>(),
    }))
}

/// Writes the memory of a machine between two instructions: `memory.bin` has the bytes, the driver's
/// image and then all allocations; `memory.json` gives their addresses, one range after the other.
fn write_memory(device: &Device, folder: &Path) -> Result<()> {
    let engine = &device.machine.engine;
    let mut ranges = vec![(IMAGE, device.image_size)];
    ranges.extend(engine.bus_ref().arena.allocated());
    let bytes: Vec<u8> =
        ranges.iter().flat_map(|&(at, size)| engine.bytes(at, size as usize)).collect();
    let range = |(at, size): &(u64, u64)| json!({ "address": format!("{at:#x}"), "size": size });
    let ranges: Vec<Value> = ranges.iter().map(range).collect();
    let told = json!({ "image": format!("{IMAGE:#x}"), "ranges": ranges });
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    fs::write(folder.join("memory.bin"), bytes).context("write the memory")?;
    fs::write(folder.join("memory.json"), told.to_string()).context("write the addresses")
}

fn name(known: Option<impl std::fmt::Debug>) -> String {
    known.map_or_else(String::new, |one| format!("{one:?}"))
}

fn processor(one: &Processor) -> Value {
    json!({
        "group": one.group,
        "number": one.number,
        "vendor": String::from_utf8_lossy(&one.vendor),
        "family": one.family,
        "model": one.model,
        "stepping": one.stepping,
    })
}

/// The select and the value of each counter; a fixed counter's select is its four bits, in their
/// place.
fn registers(cpu: &mut Cpu) -> Value {
    let mut read = |msr| cpu.processor.rdmsr(msr).unwrap_or_default();
    let counter = |select: u64, value: u64| json!({ "select": format!("{select:#x}"), "value": format!("{value:#x}") });
    let general: Vec<Value> = (0..COUNTERS)
        .map(|index| counter(read(IA32_PERFEVTSEL0 + index), read(IA32_PMC0 + index)))
        .collect();
    let control = read(IA32_FIXED_CTR_CTRL);
    let fixed: Vec<Value> = (0..FIXED_COUNTERS)
        .map(|index| counter(control & 0xF << (4 * index), read(IA32_FIXED_CTR0 + index)))
        .collect();
    json!({ "general": general, "fixed": fixed })
}

fn counted(counts: &[Count]) -> Vec<u64> {
    counts.iter().map(|count| count.counted).collect()
}

fn happened(event: &SystemEvent) -> Value {
    json!({
        "timestamp": event.timestamp,
        "kind": name(EventKind::from_wire(event.kind)),
        "process": event.process,
        "subject": event.subject,
        "amount": event.amount,
    })
}

fn told(sample: &Sample) -> Value {
    json!({
        "timestamp": sample.timestamp,
        "ip": format!("{:#x}", sample.ip),
        "mode": name(Mode::from_wire(sample.mode.into())),
        "process": sample.process,
        "thread": sample.thread,
        "processor": sample.processor,
        "source": sample.source,
        "period": sample.period,
    })
}
