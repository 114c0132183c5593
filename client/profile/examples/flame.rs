//! From samples to a flame graph: `cargo run -p halprof-profile --example flame [MACHINE] >
//! flame.svg`.
//!
//! On Windows it samples with the installed driver for a second, unless a modelled machine is
//! named. Elsewhere it samples a modelled machine, whose time passes only when it is made to run.

use halprof_measure::catalog::Catalog;
use halprof_measure::selection::{self, EventSpec};
use halprof_measure::{
    Connection, Error, InProcess, ModelledMachine, Result, Session, Setup, Transport,
};
use halprof_profile::export::{Export, Format, SamplesBuilder, TrackBy, pictures};
use halprof_profile::file::{Metadata, Module, Period, Process, Recording, Source, Statistics};
use halprof_profile::symbols::{SymbolPath, Symbols};
use shared_types::LossCause;
use shared_types::request::session::UsedInterval;

/// The source to sample, with its period.
const SOURCE: &str = "TotalIssues:100000";

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

/// A real machine is sampled while it does whatever it is doing.
#[cfg(windows)]
fn on_driver() -> Result<String> {
    use std::time::{Duration, Instant};
    let absent = || Error::unavailable("the driver is not installed", "Run `halprof install`.");
    let mut connection = Connection::new(halprof_measure::Driver::open()?.ok_or_else(absent)?)?;
    let recording = described(&mut connection, false, "this machine")?;
    let end = Instant::now() + Duration::from_secs(1);
    sample(&mut connection, recording, |_| {
        std::thread::sleep(Duration::from_millis(20));
        Ok(Instant::now() < end)
    })
}

/// A modelled machine does what its workload says.
pub(crate) fn on_model(machine: &str) -> Result<String> {
    let spec = halprof_measure::spec(machine)?;
    let mut connection = Connection::new(InProcess::new(&spec.leaves))?;
    let mut recording = described(&mut connection, true, &spec.description)?;
    recording.processes = vec![Process {
        id: sim::load::run::PROCESS,
        name: "modelled.exe".to_owned(),
        ..Process::default()
    }];
    let module = |process, name: &str, (start, end)| Module {
        process,
        name: name.to_owned(),
        start,
        end,
        ..Module::default()
    };
    recording.modules = vec![
        module(None, "modelled kernel", sim::load::workload::KERNEL_CODE),
        module(Some(sim::load::run::PROCESS), "modelled.exe", sim::load::workload::USER_CODE),
    ];
    let workload = sim::load::workload::parse("instructions=30000000,cycles=40000000,user=80");
    let workload = workload.map_err(|error| Error::usage(error.to_string(), error.hint()))?;
    connection.transport().begin(&workload);
    sample(&mut connection, recording, |model| model.advance(1_000_000))
}

/// What is known about the machine before sampling.
fn described<T: Transport>(
    connection: &mut Connection<T>,
    modelled: bool,
    description: &str,
) -> Result<Recording> {
    let machine = connection.machine()?;
    let metadata = Metadata {
        machine: description.to_owned(),
        modelled,
        timestamp_frequency: machine.timestamp_frequency,
        processors: machine.processors,
        ..Metadata::default()
    };
    Ok(Recording { metadata, ..Recording::default() })
}

/// Samples while `work` reports that there is more to do, and draws.
fn sample<T: Transport>(
    connection: &mut Connection<T>,
    mut recording: Recording,
    mut work: impl FnMut(&mut T) -> Result<bool>,
) -> Result<String> {
    let mut items = Vec::new();
    selection::parse_list(SOURCE, &mut items)?;
    let events = Catalog::read(connection, false)?.resolve(&items)?;
    let setup = Setup {
        specs: events.iter().flat_map(|event| event.specs.clone()).collect(),
        ..Setup::default()
    };
    let mut session = Session::open(connection, true, false)?;
    let settled = session.configure(&setup, true)?;
    let source = |(events, used): (&EventSpec, &UsedInterval)| Source {
        name: events.label.clone(),
        period: Period { used: used.used, ..Period::default() },
        ..Source::default()
    };
    recording.metadata.sources = events.iter().zip(&settled.intervals).map(source).collect();
    let mut builder = SamplesBuilder::new(TrackBy::Processor, false, &recording.metadata);
    session.start()?;
    while work(session.transport())? {
        drain(&mut session, &mut builder)?;
    }
    session.stop()?;
    drain(&mut session, &mut builder)?;
    let statistics = session.statistics()?;
    let causes = LossCause::ALL.iter().map(|cause| cause.name().to_owned());
    recording.statistics =
        Some(Statistics { lost: causes.zip(statistics.lost).collect(), ..Statistics::default() });
    recording.ending = Some(halprof_profile::file::Ending::default());
    Ok(draw(builder, recording))
}

/// Takes the samples that are in the rings.
fn drain<T: Transport>(session: &mut Session<'_, T>, builder: &mut SamplesBuilder) -> Result<()> {
    loop {
        let (samples, left) = session.drain()?;
        for sample in &samples {
            builder.add(sample);
        }
        if left == 0 || samples.is_empty() {
            return Ok(());
        }
    }
}

fn draw(builder: SamplesBuilder, recording: Recording) -> String {
    let mut symbols = Symbols::open(&recording, &SymbolPath::default());
    let samples = builder.finish(recording, |process, address, mode| {
        let module = symbols.module(process, address, mode);
        (symbols.frame(process, address, mode), module)
    });
    pictures::flamegraph(&Export::new(&samples, "flame", Format::Flamegraph))
}
