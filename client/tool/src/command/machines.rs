//! `halprof machines`: the built-in models, and the unkind behaviours that any machine can be given.

use crate::Result;
use crate::args::Machines;
use crate::output::{Output, table};
use serde::Serialize;
use sim::models::MODELS;
use sim::unkind::ROWS;

#[derive(Serialize)]
struct Body {
    machines: Vec<Machine>,
    unkind: Vec<Unkind>,
}

#[derive(Serialize)]
struct Machine {
    name: &'static str,
    description: &'static str,
    processors: usize,
}

#[derive(Serialize)]
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
    let body = Body {
        machines: machines.collect(),
        unkind: unkind.collect(),
    };
    let text = if options.unkind { behaviours } else { models };
    output.result("machines", true, &body, text)?;
    Ok(0)
}

fn models(body: &Body) -> String {
    let row =
        |row: &Machine| [row.name, &row.processors.to_string(), row.description].map(str::to_owned);
    table(
        ["name", "processors", "what it is"],
        body.machines.iter().map(row),
        &[1],
    ) + "\nEach is a model, not silicon. Use one with `--machine NAME`, or `--machine NAME,processors=N`; \
         `halprof machines --unkind` lists what they can be made to do.\n"
}

fn behaviours(body: &Body) -> String {
    let row = |row: &Unkind| [row.name, row.description, row.source].map(str::to_owned);
    table(
        [
            "name",
            "what the processor does",
            "where that is known from",
        ],
        body.unkind.iter().map(row),
        &[],
    ) + "\nEach is a property of a model, not silicon. Use them with `--machine NAME,unkind=A+B`, on a \
         built-in model or a CPUID dump, before or after `processors=N`.\n"
}
