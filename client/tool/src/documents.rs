//! The sources of generated documents: JSON schemas, derived from the types that are printed, and
//! what the manual pages are made of.
//!
//! `cargo xtask documents` writes the schemas; a test compares the committed files with these.
//! `cargo xtask package` writes the manual pages.

use crate::cli::args::Arguments;
use crate::command;
use crate::output;
use crate::output::error_codes::{CODES, STATUSES};
use crate::output::schema::{self, schema_of};
use halprof_measure::regions::Report as Regions;
use halprof_setup::installation::{Installed, Removed, Switched};
use halprof_setup::tracing_rights::Changed;
use schemars::JsonSchema;
use serde_json::{Value, json};

/// The command line.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::definition()
}

/// The error codes that end with this status.
#[must_use]
pub fn codes(status: u8) -> Vec<&'static str> {
    let of_status = CODES.iter().filter(|code| code.status == status);
    of_status.map(|code| code.name.as_str()).collect()
}

/// The exit statuses, and what each of them means.
#[must_use]
pub const fn statuses() -> [(u8, &'static str); 8] {
    STATUSES
}

/// Every schema: its NAME in `halprof/NAME/VERSION`, the value of the field `schema`, and its content.
#[must_use]
pub fn schemas() -> Vec<(&'static str, Value)> {
    use command::{
        annotate, check, completions, convert, doctor, explain, export, info, list, machines,
        rdpmc, record, registers, report, script, simulate, stat, timeline, top,
    };
    vec![
        of::<annotate::AnnotateResult>("annotate"),
        of::<report::branches::BranchesResult>("branches"),
        of::<check::CheckResult>("check"),
        of::<completions::CompletionsResult>("completions"),
        of::<convert::ConvertResult>("convert"),
        of::<report::diff::DiffResult<'_>>("diff"),
        of::<doctor::DoctorResult>("doctor"),
        of::<output::ErrorResult>(ERROR),
        of::<explain::ExplainResult>("explain"),
        of::<export::ExportResult>("export"),
        of::<info::InfoResult>("info"),
        of::<Installed>("install"),
        of::<list::ListResult>("list"),
        of::<machines::MachinesResult>("machines"),
        of::<list::metrics::MetricsResult>("metrics"),
        of::<report::off_cpu::OffCpuResult>("off-cpu"),
        of::<rdpmc::RdpmcResult>("rdpmc"),
        of::<record::RecordResult>("record"),
        of::<Regions>("regions"),
        of::<registers::RegistersResult>("registers"),
        of::<report::ReportResult<'_>>("report"),
        of::<script::SampleLine<'_>>("script"),
        of::<Switched>("start"),
        of::<simulate::SimulateDiff>("simulate"),
        of::<stat::StatResult>("stat"),
        of::<stat::Interval>("stat-interval"),
        of::<Switched>("stop"),
        of::<timeline::TimelineResult>("timeline"),
        of::<top::TopResult<'_>>("top"),
        of::<report::trace_events::TraceEventsResult>("trace-events"),
        of::<Changed>("tracing"),
        of::<Removed>("uninstall"),
    ]
}

/// Before a machine has answered, it is unknown whether it is modelled.
const ERROR: &str = "error";

/// The fields that every object has.
const COMMON: [&str; 2] = ["schema", "modelled"];

/// The schema of a body as it is printed: its own fields after those that every object has.
fn of<T: JsonSchema>(name: &'static str) -> (&'static str, Value) {
    let mut own_schema = schema_of::<T>();
    let title = schema::name(name);
    let modelled = if name == ERROR { json!(["boolean", "null"]) } else { json!("boolean") };
    let mut properties = json!({
        "schema": {"const": title},
        "modelled": {"type": modelled},
        // What is read from a file has none.
        "backend": {"enum": ["driver", "etw", "model"]},
    });
    let own = own_schema["properties"].as_object().cloned().unwrap_or_default();
    if let Value::Object(all) = &mut properties {
        all.extend(own);
    }
    let own = own_schema["required"].as_array().cloned().unwrap_or_default();
    let own = own.into_iter().filter(|name| COMMON.iter().all(|common| name != common));
    let required = COMMON.map(Value::from).into_iter().chain(own);
    own_schema["title"] = json!(title);
    own_schema["properties"] = properties;
    own_schema["required"] = required.collect();
    (name, own_schema)
}
