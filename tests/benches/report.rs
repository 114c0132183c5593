//! Ten million samples, read by one report: compared with merely reading the same file, and with
//! the most memory that the process used.

use halprof_profile::aggregate::key::Key;
use halprof_profile::file::{Metadata, Module, Source, Statistics, Writer};
use halprof_profile::symbols::SymbolPath;
use halprof_profile::views::report::{Query, Report};
use shared_types::{Mode, Sample};
use std::path::Path;
use std::time::{Duration, Instant};

const SAMPLES: u64 = 10_000_000;
/// Distinct addresses, of which a few are hot.
const PLACES: u64 = 200_000;
const RUNS: usize = 5;

fn record(path: &Path) {
    let source = |name: &str| Source { name: name.to_owned(), ..Source::default() };
    let metadata = Metadata {
        interface: "Emon".to_owned(),
        timestamp_frequency: 1_000_000_000,
        sources: vec![source("TotalCycles"), source("CacheMisses")],
        ..Metadata::default()
    };
    let mut writer = Writer::create(path, &metadata).expect("created");
    let module = |index: u64| Module {
        name: format!("module{index}"),
        start: index * 0x10000,
        end: (index + 1) * 0x10000,
        ..Module::default()
    };
    let modules: Vec<Module> = (0..=PLACES * 4 / 0x10000).map(module).collect();
    writer.modules(&modules).expect("written");
    let mut random = fastrand::Rng::with_seed(1);
    let mut part = Vec::with_capacity(10_000);
    for n in 0..SAMPLES {
        // The smaller of two draws: low addresses come more often, as hot code does.
        let place = random.u64(0..PLACES).min(random.u64(0..PLACES));
        part.push(Sample {
            timestamp: n * 1000,
            ip: place * 4,
            period: 100_000,
            process: 1000 + (place % 16) as u32,
            thread: 5000 + (n % 64) as u32,
            processor: (n % 16) as u32,
            source: u16::from(n % 4 == 0),
            mode: Mode::User as u8,
            ..Sample::default()
        });
        if part.len() == part.capacity() {
            writer.samples(&part).expect("written");
            part.clear();
        }
    }
    writer.samples(&part).expect("written");
    writer.finish(&Statistics::default(), false).expect("finished");
}

fn best(mut run: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..RUNS).map(once).min().unwrap_or_default()
}

/// The most memory that this process has used, in MB; `None` if the system does not say.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes / 1024)
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    record(&path);
    let mut read = 0;
    let bare = best(|| {
        let recording =
            halprof_profile::file::read(&path, |samples| read += samples.len()).expect("read");
        assert_eq!(recording.samples, SAMPLES);
    });
    assert_eq!(read as u64, SAMPLES * RUNS as u64);
    let keys = [Key::Module, Key::Symbol, Key::Process, Key::Processor, Key::Address];
    let query =
        Query { tables: keys.map(|key| vec![key]).into(), rows: Some(20), ..Query::default() };
    let report = best(|| {
        let report = Report::read(&path, &query, &SymbolPath::default()).expect("read");
        assert_eq!(report.total.samples, SAMPLES);
    });
    println!(
        "bare reading {:.2} s, the default report {:.2} s: {:.1} times; at most {} MB",
        bare.as_secs_f64(),
        report.as_secs_f64(),
        report.as_secs_f64() / bare.as_secs_f64(),
        most_memory().map_or_else(|| "unknown".to_owned(), |megabytes| megabytes.to_string()),
    );
}
