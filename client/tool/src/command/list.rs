//! `halprof list`: profile sources.

use crate::On;
use crate::Result;
use crate::args;
use crate::metrics;
use crate::output::{Output, thousands};
use crate::table::{Column, Width, table};
use halprof_measure::describe;
use halprof_measure::selection::format_processors;
use serde::Serialize;
use shared_types::request::machine::Processor;
use shared_types::request::source::Source;

#[derive(Serialize)]
struct Body {
    interface: &'static str,
    sources: Vec<Row>,
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Row {
    id: u32,
    name: String,
    symbol: String,
    supported: bool,
    hal: bool,
    sampling: bool,
    approximates: bool,
    select: Option<String>,
    interval: Interval,
    counts: String,
    note: String,
    processors: Vec<Differs>,
}

/// Events, or for ProfileTime units of 100 ns.
#[derive(Serialize)]
struct Interval {
    default: u32,
    min: u32,
    max: u32,
}

/// Processors that judge otherwise than the boot processor.
#[derive(Serialize)]
struct Differs {
    processors: String,
    supported: bool,
}

pub(crate) fn run(options: &args::List, on: &mut On, output: &Output) -> Result<u8> {
    if let Some(file) = &options.metrics {
        metrics::run(file.as_deref(), options.approximate, on, output)?;
        return Ok(0);
    }
    let body = body(options, on)?;
    output.result("list", on.told.modelled, &body, |body| {
        text(body, options.verbose, output.width())
    })?;
    Ok(0)
}

fn body(options: &args::List, on: &mut On) -> Result<Body> {
    let machine = on.connection.machine()?;
    let processors = on.connection.processors()?;
    let sources = on.connection.sources(options.approximate)?;
    Ok(Body {
        interface: describe::interface_name(machine.interface),
        sources: sources
            .iter()
            .map(|source| row(source, &processors))
            .filter(|row| options.all || row.supported)
            .collect(),
    })
}

fn row(source: &Source, processors: &[Processor]) -> Row {
    let has = |flag| source.flags & flag != 0;
    let supported = has(Source::SUPPORTED);
    let differing = processors
        .iter()
        .filter(|processor| can_count(source, processor) != supported)
        .map(|processor| processor.index);
    let differing = format_processors(differing);
    Row {
        id: source.id,
        name: source.name.as_str().to_owned(),
        symbol: source.symbol.as_str().to_owned(),
        supported,
        hal: has(Source::HAL),
        sampling: has(Source::SAMPLING),
        approximates: has(Source::APPROXIMATES),
        select: has(Source::HAS_SELECT)
            .then(|| format!("{:#010X}", source.select).replacen("0X", "0x", 1)),
        interval: Interval {
            default: source.default_interval,
            min: source.min_interval,
            max: source.max_interval,
        },
        counts: source.counts.as_str().to_owned(),
        note: source.note.as_str().to_owned(),
        processors: (!differing.is_empty())
            .then_some(Differs {
                processors: differing,
                supported: !supported,
            })
            .into_iter()
            .collect(),
    }
}

/// Whether a processor can count the source.
pub(crate) fn can_count(source: &Source, processor: &Processor) -> bool {
    let timer = source.flags & Source::TIMER != 0;
    timer || source.kinds.checked_shr(processor.kind.into()).unwrap_or(0) & 1 != 0
}

fn text(body: &Body, verbose: bool, width: Width) -> String {
    let supported = |row: &Row| match (row.supported, row.processors.first()) {
        (true, None) => "yes".to_owned(),
        (false, None) => "no".to_owned(),
        (true, Some(differs)) => format!("not on {}", differs.processors),
        (false, Some(differs)) => format!("only on {}", differs.processors),
    };
    let id = |row: &Row| format!("{:#04X}", row.id).replacen("0X", "0x", 1);
    if !verbose {
        let cells = |row: &Row| {
            [
                id(row),
                row.name.clone(),
                supported(row),
                row.counts.clone(),
            ]
        };
        let columns = [
            Column::number("id").extra(),
            Column::name("name"),
            Column::name("supported"),
            Column::prose("counts"),
        ];
        return table(width, &columns, body.sources.iter().map(cells));
    }
    let cells = |row: &Row| {
        let interval = &row.interval;
        [
            id(row),
            row.name.clone(),
            supported(row),
            if row.sampling { "yes" } else { "no" }.to_owned(),
            row.select.clone().unwrap_or_default(),
            thousands(interval.default),
            format!("{}..{}", thousands(interval.min), thousands(interval.max)),
            row.counts.clone(),
            row.note.clone(),
        ]
    };
    let columns = [
        Column::number("id").extra(),
        Column::name("name"),
        Column::name("supported"),
        Column::word("sampling").extra(),
        Column::word("select").extra(),
        Column::number("interval").extra(),
        Column::number("limits").extra(),
        Column::prose("counts"),
        Column::prose("note"),
    ];
    table(width, &columns, body.sources.iter().map(cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    /// What it asks for does not grow with the machine: three requests for the interface, the
    /// machine and its processors, and one for each fifty sources at most.
    #[test]
    fn a_list_takes_few_requests_on_any_number_of_processors() {
        let requests = |machine: &str| {
            let mut on = On::open(Place::open(machine).expect("a place")).expect("a machine");
            let options = args::List {
                on: args::OnMachine::default(),
                verbose: false,
                all: true,
                approximate: false,
                metrics: None,
            };
            let sources = body(&options, &mut on).expect("a list").sources.len();
            assert_ne!(sources, 0);
            let requests = on.connection.requests() as usize;
            assert!(
                requests <= 3 + sources.div_ceil(50),
                "{machine}: {requests}"
            );
            requests
        };
        let few = requests("sapphire-rapids");
        assert_eq!(requests("sapphire-rapids,processors=2048"), few);
        requests("zen4");
    }
}
