//! `halprof machines`: the built-in models, their CPUID dumps, and the hardware faults that any
//! machine can be given.

use crate::cli::args::Machines;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::table::{Column, Field, Record, Width, records};
use schemars::JsonSchema;
use serde::Serialize;
use sim::machines::models::{MODELS, find};
use sim::quirks::{ABSENT, QUIRKS};

#[derive(JsonSchema, Serialize)]
pub(crate) struct MachinesResult {
    machines: Vec<Model>,
    quirks: Vec<Quirk>,
    /// The CPUID dump of the model that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    dump: Option<String>,
}

#[derive(JsonSchema, Serialize)]
struct Model {
    name: &'static str,
    description: &'static str,
    processors: usize,
}

impl Record for Model {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::word("name"), |model| model.name.to_owned()),
        Field::new(Column::number("processors"), |model| model.processors.to_string()),
        Field::new(Column::prose("what it is"), |model| model.description.to_owned()),
    ];
}

/// Behaviour of real silicon that a model can be given.
#[derive(JsonSchema, Serialize)]
struct Quirk {
    name: String,
    description: &'static str,
    source: &'static str,
}

impl Record for Quirk {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::word("name"), |quirk| quirk.name.clone()),
        Field::new(Column::prose("what the processor does"), |quirk| quirk.description.to_owned()),
        Field::new(Column::prose("source"), |quirk| quirk.source.to_owned()),
    ];
}

pub(crate) fn run(options: &Machines, output: &Output) -> Result<u32> {
    let result = MachinesResult {
        machines: MODELS
            .iter()
            .map(|model| Model {
                name: model.name,
                description: model.description,
                processors: model.processors().len(),
            })
            .collect(),
        quirks: QUIRKS
            .iter()
            .map(|row| Quirk {
                name: row.name.to_owned(),
                description: row.description,
                source: row.source,
            })
            .chain(ABSENT.iter().map(|row| Quirk {
                name: format!("{}0x186", row.prefix),
                description: row.description,
                source: row.source,
            }))
            .collect(),
        dump: options.dump.as_deref().and_then(find).map(sim::machines::models::Model::dump),
    };
    output.set_modelled(true);
    if let Some(dump) = &result.dump {
        output.result("machines", &result, |_| dump.clone())?;
    } else if options.quirks {
        output.rows("machines", (&result, &result.quirks), |result| {
            listed(
                &result.quirks,
                "Each is a property of a model, not silicon. Add them with `--machine NAME,quirks=A+B`, \
                 where NAME is a built-in model or a CPUID dump.",
                output.width(),
            )
        })?;
    } else {
        output.rows("machines", (&result, &result.machines), |result| {
            listed(
                &result.machines,
                "Each is a model, not silicon. Choose one with `--machine NAME`, or with \
                 `--machine NAME,processors=N`. `halprof machines --quirks` lists the quirks of real \
                 silicon that a model can be given.",
                output.width(),
            )
        })?;
    }
    Ok(0)
}

fn listed<R: Record>(rows: &[R], hint: &str, width: Width) -> String {
    format!("{}\n{}\n", records(width, rows), width.prose(0, hint))
}
