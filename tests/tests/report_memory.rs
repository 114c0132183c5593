//! Does a report's memory grow with the number of sampled places, and not with the number of
//! samples?

use allocation_counter::measure;
use halprof_profile::aggregate::key::Key;
use halprof_profile::file::{Metadata, Source, Statistics, Writer};
use halprof_profile::symbols::SymbolPath;
use halprof_profile::views::report::{Query, Report};
use shared_types::{Mode, Sample};
use std::path::Path;

/// A recording of `samples` at this many places.
fn record(path: &Path, samples: u64, places: u64) {
    let metadata = Metadata { sources: vec![Source::default()], ..Metadata::default() };
    let mut writer = Writer::create(path, &metadata).expect("created");
    let sample = |n: u64| Sample {
        timestamp: n,
        ip: 0x1000 + n % places * 4,
        period: 1000,
        mode: Mode::User as u8,
        ..Sample::default()
    };
    let all: Vec<Sample> = (0..samples).map(sample).collect();
    for part in all.chunks(10_000) {
        writer.samples(part).expect("written");
    }
    writer.finish(&Statistics::default(), false).expect("finished");
}

/// The most bytes that a report of that file holds at once.
fn most_bytes(samples: u64, places: u64) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    record(&path, samples, places);
    let query = Query {
        tables: vec![vec![Key::Symbol], vec![Key::Address], vec![Key::Processor]],
        rows: Some(20),
        ..Query::default()
    };
    let allocated = measure(|| {
        let report = Report::read(&path, &query, &SymbolPath::default()).expect("read");
        assert_eq!(report.total.samples, samples);
    });
    allocated.bytes_max
}

#[test]
fn memory_is_for_places_not_for_samples() {
    // With fewer samples, the buffers of those not yet added up would not be full.
    let few = most_bytes(200_000, 10_000);
    let many = most_bytes(400_000, 10_000);
    assert!(many <= few + 100_000, "{few} bytes for 200,000 samples, {many} for 400,000");
    let wide = most_bytes(400_000, 80_000);
    let each = wide.saturating_sub(many) / 70_000;
    // Half a million places, in three tables each, fit into 460 MB, with 100 MB for the symbols.
    assert!(each < 720, "{each} bytes for one more place");
}
