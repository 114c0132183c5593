//! `halprof report`: what was sampled.

use super::args;
use super::output::{Output, Told, seconds, table, thousands};
use crate::Result;
use crate::report::Report;
use serde::Serialize;
use std::collections::BTreeMap;

/// The status that tells scripts that the file is not the whole recording.
const INCOMPLETE: u8 = 5;

#[derive(Serialize)]
struct Body {
    file: String,
    machine: String,
    interface: String,
    elapsed_ns: u64,
    samples: u64,
    /// Why this is not the whole recording.
    flaw: Option<String>,
    lost: BTreeMap<String, u64>,
    by_source: Vec<BySource>,
    by_processor: Vec<ByProcessor>,
    by_process: Vec<ByProcess>,
    by_module: Vec<ByModule>,
    by_address: Vec<ByAddress>,
}

#[derive(Serialize)]
struct BySource {
    source: String,
    period: Option<u64>,
    samples: u64,
}

#[derive(Serialize)]
struct ByProcessor {
    processor: u32,
    samples: u64,
}

#[derive(Serialize)]
struct ByProcess {
    process: u32,
    samples: u64,
}

#[derive(Serialize)]
struct ByModule {
    module: String,
    samples: u64,
}

#[derive(Serialize)]
struct ByAddress {
    address: String,
    module: String,
    samples: u64,
}

pub(super) fn run(options: &args::Report, output: &Output) -> Result<u8> {
    let report = Report::read(&options.file)?;
    let metadata = &report.recording.metadata;
    let modelled = metadata.modelled;
    output.note_model(&Told {
        modelled,
        machine: metadata.machine.clone(),
    });
    let body = body(report, options);
    if let Some(flaw) = &body.flaw {
        output.note(&format!("warning: {flaw}"));
    }
    output.result("report", modelled, &body, |body| text(body, options.top))?;
    Ok(if body.flaw.is_some() { INCOMPLETE } else { 0 })
}

fn body(report: Report, options: &args::Report) -> Body {
    let period = |source: &str| {
        let mut sources = report.recording.metadata.sources.iter();
        let source = sources.find(|row| row.name == source);
        source.map(|source| source.period.used)
    };
    let by_source = report.by_source.iter().map(|(source, samples)| BySource {
        source: source.clone(),
        period: period(source),
        samples: *samples,
    });
    let by_address = report
        .by_address
        .iter()
        .map(|&(address, samples)| ByAddress {
            address: format!("{address:#x}"),
            module: report.module(address).to_owned(),
            samples,
        });
    let by_processor = report
        .by_processor
        .iter()
        .map(|&(processor, samples)| ByProcessor { processor, samples });
    let by_process = report
        .by_process
        .iter()
        .map(|&(process, samples)| ByProcess { process, samples });
    let by_module = report.by_module.iter().map(|(module, samples)| ByModule {
        module: module.clone(),
        samples: *samples,
    });
    Body {
        file: options.file.display().to_string(),
        by_source: by_source.collect(),
        by_processor: by_processor.collect(),
        by_process: by_process.collect(),
        by_module: by_module.collect(),
        by_address: by_address.collect(),
        elapsed_ns: report.recording.elapsed_ns(),
        samples: report.recording.samples,
        flaw: report.recording.flaw(),
        lost: report.recording.lost(),
        machine: report.recording.metadata.machine,
        interface: report.recording.metadata.interface,
    }
}

fn text(body: &Body, top: usize) -> String {
    let part = |samples: u64| share(samples, body.samples);
    let lost: u64 = body.lost.values().sum();
    let mut text = format!(
        "{} samples in {}, {} lost",
        thousands(body.samples),
        seconds(body.elapsed_ns),
        thousands(lost)
    );
    for (cause, n) in body.lost.iter().filter(|&(_, &n)| n != 0) {
        text += &format!(", {cause} {}", thousands(*n));
    }
    text += "\n";
    let mut section = |title: &str, rows: Vec<(String, u64)>| {
        let rows = rows
            .into_iter()
            .map(|(key, n)| [part(n), thousands(n), key]);
        text += &format!("\n{}", table(["share", "samples", title], rows, &[0, 1]));
    };
    section(
        "source",
        body.by_source
            .iter()
            .map(|row| (row.source.clone(), row.samples))
            .collect(),
    );
    section(
        "module",
        body.by_module
            .iter()
            .map(|row| (row.module.clone(), row.samples))
            .collect(),
    );
    section(
        "process",
        body.by_process
            .iter()
            .map(|row| (row.process.to_string(), row.samples))
            .collect(),
    );
    section(
        "processor",
        body.by_processor
            .iter()
            .map(|row| (row.processor.to_string(), row.samples))
            .collect(),
    );
    let address = |row: &ByAddress| (format!("{} {}", row.address, row.module), row.samples);
    section(
        "address",
        body.by_address.iter().take(top).map(address).collect(),
    );
    text
}

/// Percent with one decimal, rounded down.
fn share(part: u64, whole: u64) -> String {
    let thousandths = (u128::from(part) * 1000)
        .checked_div(u128::from(whole))
        .unwrap_or(0);
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}
