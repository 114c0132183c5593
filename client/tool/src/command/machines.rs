//! `halprof machines`: the built-in models.

use crate::Result;
use crate::output::{Output, table};
use serde::Serialize;
use sim::models::MODELS;

#[derive(Serialize)]
struct Body {
    machines: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    description: &'static str,
    processors: usize,
}

pub(crate) fn run(output: &Output) -> Result<u8> {
    let machines = MODELS
        .iter()
        .map(|model| Row {
            name: model.name,
            description: model.description,
            processors: model.processors().len(),
        })
        .collect();
    output.result("machines", true, &Body { machines }, text)?;
    Ok(0)
}

fn text(body: &Body) -> String {
    let row =
        |row: &Row| [row.name, &row.processors.to_string(), row.description].map(str::to_owned);
    table(
        ["name", "processors", "what it is"],
        body.machines.iter().map(row),
        &[1],
    ) + "\nEach is a model, not silicon. Use one with `--machine NAME`, or `--machine NAME,processors=N`.\n"
}
