//! `halprof list`: profile sources.

mod events;
pub(crate) mod metrics;

use crate::cli::args;
use crate::output::Output;
use crate::output::error::Error;
use crate::output::error::Result;
use crate::output::number::thousands;
use crate::output::table::{Column, Width, table};
use crate::select::source::{OWN_BITS, can_count};
use crate::target::context::Context;
use halprof_measure::selection::format_processors;
use halprof_profile::aggregate::filter::Pattern;
use halprof_setup::describe;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::Processor;
use shared_types::request::source::Source;

#[derive(JsonSchema, Serialize)]
pub(crate) struct Body {
    interface: &'static str,
    sources: Vec<Row>,
}

#[derive(JsonSchema, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Row {
    /// Null: an event that is no source of the tables.
    id: Option<u32>,
    name: String,
    symbol: String,
    supported: bool,
    hal: bool,
    sampling: bool,
    approximates: bool,
    select: Option<String>,
    /// The same without the mode, interrupt and enable bits.
    event_select: Option<String>,
    /// The general counters that can count it, as a mask; null if any can.
    counters: Option<u32>,
    /// The fixed counter that alone can count it.
    fixed: Option<u8>,
    /// Whether it comes from a vendor's list, and not from a table of the HAL's or halprof's
    /// sources.
    event: bool,
    interval: Interval,
    counts: String,
    note: String,
    processors: Vec<Differs>,
}

/// In events, or for ProfileTime in units of 100 ns.
#[derive(JsonSchema, Serialize)]
struct Interval {
    default: u32,
    min: u32,
    max: u32,
}

/// Processors that differ from the boot processor in what they can count.
#[derive(JsonSchema, Serialize)]
struct Differs {
    processors: String,
    supported: bool,
}

pub(crate) fn run(options: &args::List, ctx: &mut Context, output: &Output) -> Result<u8> {
    if options.metrics || options.metric_file.is_some() {
        metrics::run(options, ctx, output)?;
        return Ok(0);
    }
    let body = body(options, ctx)?;
    let rows = body.sources.as_slice();
    output.rows("list", ctx.told.modelled, (&body, rows), |body| {
        text(body, options.verbose, output.width())
    })?;
    Ok(0)
}

fn body(options: &args::List, ctx: &mut Context) -> Result<Body> {
    let mut catalog = ctx.catalog(options.approximate)?;
    let processors = &ctx.machine.processors;
    let glob = options.glob.as_deref().map(Pattern::new);
    let named = |name: &str| glob.as_ref().is_none_or(|glob| glob.matches(name));
    let mut rows: Vec<Row> = catalog.sources.iter().map(|source| row(source, processors)).collect();
    if options.events || options.event_file.is_some() || glob.is_some() {
        if let Some(path) = &options.event_file {
            catalog = catalog.with_event_file(path)?;
        }
        let events = events::rows(&catalog, processors);
        rows.extend(events.into_iter().filter(|row| named(&row.name)));
    }
    rows.retain(|row| (options.all || row.supported) && (named(&row.name) || named(&row.symbol)));
    if rows.is_empty()
        && let Some(glob) = &options.glob
    {
        return Err(Error::unavailable(
            format!("no source or event of this machine matches `{glob}`"),
            "`*` stands for any text, as in `list *miss*`; `--all` shows what cannot be counted too.",
        ));
    }
    Ok(Body { interface: describe::interface_name(ctx.machine.interface()), sources: rows })
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
        id: Some(source.id),
        name: source.name.as_str().to_owned(),
        symbol: source.symbol.as_str().to_owned(),
        supported,
        hal: has(Source::HAL),
        sampling: has(Source::SAMPLING),
        approximates: has(Source::APPROXIMATES),
        select: has(Source::HAS_SELECT).then(|| hex(source.select)),
        event_select: has(Source::HAS_SELECT).then(|| hex(source.select & !OWN_BITS)),
        counters: None,
        fixed: None,
        event: false,
        interval: Interval {
            default: source.default_interval,
            min: source.min_interval,
            max: source.max_interval,
        },
        counts: source.counts.as_str().to_owned(),
        note: source.note.as_str().to_owned(),
        processors: (!differing.is_empty())
            .then_some(Differs { processors: differing, supported: !supported })
            .into_iter()
            .collect(),
    }
}

fn hex(select: u64) -> String {
    format!("{select:#010X}").replacen("0X", "0x", 1)
}

fn text(body: &Body, verbose: bool, width: Width) -> String {
    let supported = |row: &Row| match (row.supported, row.processors.first()) {
        (true, None) => "yes".to_owned(),
        (false, None) => "no".to_owned(),
        (true, Some(differs)) => format!("not on {}", differs.processors),
        (false, Some(differs)) => format!("only on {}", differs.processors),
    };
    let hex = |id: u32| format!("{id:#04X}").replacen("0X", "0x", 1);
    let id = |row: &Row| row.id.filter(|_| !row.event).map_or_else(String::new, hex);
    if !verbose {
        let cells = |row: &Row| [id(row), row.name.clone(), supported(row), row.counts.clone()];
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
        Column::narrow("counts"),
        Column::narrow("note"),
    ];
    table(width, &columns, body.sources.iter().map(cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::backend::Backend;

    /// The number of requests does not grow with the machine: three for the interface, the machine
    /// and its processors, and at most one for every fifty sources.
    #[test]
    fn a_list_takes_few_requests_on_any_number_of_processors() {
        let requests = |machine: &str| {
            let mut ctx =
                Context::open(Backend::open(machine).expect("a place")).expect("a machine");
            let options = args::List {
                verbose: false,
                all: true,
                approximate: false,
                events: false,
                event_file: None,
                glob: None,
                metrics: false,
                metric_file: None,
            };
            let sources = body(&options, &mut ctx).expect("a list").sources.len();
            assert_ne!(sources, 0);
            let requests = ctx.connection.requests() as usize;
            assert!(requests <= 3 + sources.div_ceil(50), "{machine}: {requests}");
            requests
        };
        let few = requests("sapphire-rapids");
        assert_eq!(requests("sapphire-rapids,processors=2048"), few);
        requests("zen4");
    }
}
