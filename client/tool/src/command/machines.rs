//! `halprof machines`: the built-in models, and the hardware faults that any machine can be given.

use crate::cli::args::Machines;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::table::{Column, Width, table};
use schemars::JsonSchema;
use serde::Serialize;
use sim::models::MODELS;
use sim::unkind::ROWS;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    machines: Vec<Machine>,
    unkind: Vec<Unkind>,
}

#[derive(JsonSchema, Serialize)]
struct Machine {
    name: &'static str,
    description: &'static str,
    processors: usize,
}

#[derive(JsonSchema, Serialize)]
struct Unkind {
    name: &'static str,
    description: &'static str,
    source: &'static str,
}

pub(crate) fn run(options: &Machines, output: &Output) -> Result<u8> {
    let machines = MODELS.iter().map(|model| Machine {
        name: model.name,
        description: model.description,
        processors: model.processors().len(),
    });
    let unkind = ROWS.iter().map(|row| Unkind {
        name: row.name,
        description: row.description,
        source: row.source,
    });
    let body = Body { machines: machines.collect(), unkind: unkind.collect() };
    if options.unkind {
        let rows = body.unkind.as_slice();
        output.rows("machines", true, (&body, rows), |body| behaviours(body, output.width()))?;
    } else {
        let rows = body.machines.as_slice();
        output.rows("machines", true, (&body, rows), |body| models(body, output.width()))?;
    }
    Ok(0)
}

fn models(body: &Body, width: Width) -> String {
    let row =
        |row: &Machine| [row.name, &row.processors.to_string(), row.description].map(str::to_owned);
    let columns = [Column::word("name"), Column::number("processors"), Column::prose("what it is")];
    let more = "Each is a model, not silicon. Choose one with `--machine NAME`, or with \
                `--machine NAME,processors=N`. `halprof machines --unkind` lists hardware faults that \
                a model can show.";
    let models = table(width, &columns, body.machines.iter().map(row));
    format!("{models}\n{}\n", width.prose(0, more))
}

fn behaviours(body: &Body, width: Width) -> String {
    let row = |row: &Unkind| [row.name, row.description, row.source].map(str::to_owned);
    let columns =
        [Column::word("name"), Column::prose("what the processor does"), Column::prose("source")];
    let more = "Each is a property of a model, not silicon. Add them with `--machine NAME,unkind=A+B`, \
                where NAME is a built-in model or a CPUID dump.";
    let behaviours = table(width, &columns, body.unkind.iter().map(row));
    format!("{behaviours}\n{}\n", width.prose(0, more))
}
