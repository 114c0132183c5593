//! `halprof list`: profile sources.

mod event_file;
mod events;
pub(crate) mod metrics;
mod search;

use self::search::Search;

use crate::cli::args;
use crate::output::Output;
use crate::output::error::{Error, Result};
use crate::output::number::thousands;
use crate::output::table::{Column, Field, records_in};
use crate::select::source::{OWN_BITS, can_count};
use crate::select::trace_plan::TraceSources;
use crate::target::context::Context;
use crate::target::limits;
use halprof_measure::Source;
use halprof_measure::catalog::Catalog;
use halprof_measure::describe;
use halprof_measure::selection::format_processors;
use halprof_measure::tracing::session::ProfileSource;
use schemars::JsonSchema;
use serde::Serialize;
use shared_types::request::machine::Processor;

#[derive(JsonSchema, Serialize)]
pub(crate) struct ListResult {
    interface: &'static str,
    sources: Vec<SourceRow>,
}

#[derive(Default, JsonSchema, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct SourceRow {
    /// Null: an event that is no source of the tables.
    id: Option<u32>,
    name: String,
    symbol: String,
    /// Whether any processor can count it.
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
    /// `Supported` of HAL_PROFILE_SOURCE_INFORMATION, as the driver gives it; null without `-v`.
    hal_supported: Option<bool>,
    /// Its `Interval`: the one used when none is set, 0 if the source is not supported.
    hal_interval: Option<u32>,
    counts: String,
    /// What it counts, in a sentence or two; empty if that is not known.
    description: String,
    note: String,
    processors: Vec<Differs>,
}

/// In events, or for ProfileTime in units of 100 ns.
#[derive(Default, JsonSchema, Serialize)]
struct Interval {
    default: u32,
    min: u32,
    max: u32,
}

/// Processors that cannot count what others can.
#[derive(JsonSchema, Serialize)]
struct Differs {
    processors: String,
    supported: bool,
}

impl Differs {
    /// The processors that differ from the list, as a list of one row or none.
    fn from(
        supported: bool,
        processors: &[Processor],
        counts: impl Fn(&Processor) -> bool,
    ) -> Vec<Self> {
        let differing = processors.iter().filter(|one| counts(one) != supported);
        let processors = format_processors(differing.map(|processor| processor.index));
        let any = !processors.is_empty();
        any.then_some(Self { processors, supported: !supported }).into_iter().collect()
    }
}

pub(crate) fn run(options: &args::List, ctx: &mut Context, output: &Output) -> Result<u32> {
    if options.metrics || options.metric_file.is_some() {
        return metrics::run(options, ctx, output);
    }
    if let Some(format) = options.event_format {
        return event_file::run(options, format, ctx, output);
    }
    let listed = match &mut ctx.tracing {
        Some(tracing) => traced(options, &TraceSources::of(tracing.as_mut())?, ctx)?,
        None => listed(options, ctx)?,
    };
    let rows = listed.sources.as_slice();
    output.rows("list", (&listed, rows), |listed| {
        let columns = if options.verbose { SourceRow::VERBOSE } else { SourceRow::BRIEF };
        records_in(output.width(), columns, &listed.sources)
    })?;
    Ok(0)
}

fn listed(options: &args::List, ctx: &mut Context) -> Result<ListResult> {
    let mut catalog = ctx.catalog(options.approximate)?;
    let processors = &ctx.machine.processors;
    let search = Search::new(options.pattern.as_deref());
    let mut rows: Vec<SourceRow> =
        catalog.sources.iter().map(|source| row(source, processors)).collect();
    if options.verbose {
        for (row, source) in rows.iter_mut().zip(&catalog.sources) {
            let known = ctx.connection.source_information(source.id, options.approximate)?;
            (row.hal_supported, row.hal_interval) =
                (Some(known.supported != 0), Some(known.interval));
        }
    }
    if options.events || options.event_file.is_some() || options.pattern.is_some() {
        if let Some(path) = &options.event_file {
            catalog = catalog.with_event_file(path)?;
        }
        rows.extend(events::rows(&catalog, processors));
    }
    rows.retain(|row| (options.all || row.supported) && row.is_found_by(&search));
    if rows.is_empty()
        && let Some(pattern) = &options.pattern
    {
        return Err(Error::unavailable(
            format!("no source or event of this machine matches `{pattern}`"),
            "Names and descriptions are searched for it. With `*` for any text, as in `list \
             *miss`, the whole name must match. `--all` also shows what cannot be counted.",
        ));
    }
    Ok(ListResult { interface: describe::interface_name(ctx.machine.interface()), sources: rows })
}

/// The sources that Windows lists, all of which can be counted and sampled.
fn traced(options: &args::List, offer: &TraceSources, ctx: &mut Context) -> Result<ListResult> {
    let given = [
        ("--events", options.events),
        ("--event-file", options.event_file.is_some()),
        ("--approximate", options.approximate),
    ];
    limits::refuse(ctx.method, "list", &given)?;
    let search = Search::new(options.pattern.as_deref());
    let catalog = ctx.catalog(false)?;
    let rows = offer.sources.iter().map(|source| traced_row(source, &catalog));
    let found = rows.filter(|row| row.is_found_by(&search));
    Ok(ListResult { interface: "ETW", sources: found.collect() })
}

fn traced_row(source: &ProfileSource, catalog: &Catalog) -> SourceRow {
    let known = catalog.source(&source.name);
    SourceRow {
        id: Some(source.id),
        name: source.name.clone(),
        symbol: format!("Profile{}", source.name),
        supported: true,
        hal: true,
        sampling: true,
        interval: Interval {
            default: source.interval,
            min: source.min_interval,
            max: source.max_interval,
        },
        counts: known.map_or_else(String::new, |known| known.counts.to_owned()),
        description: catalog.meaning(&source.name),
        note: if source.is_timer() { "sampled, not counted".to_owned() } else { String::new() },
        ..SourceRow::default()
    }
}

fn row(source: &Source, processors: &[Processor]) -> SourceRow {
    let has = |flag| source.flags & flag != 0;
    let supported = source.is_counted();
    SourceRow {
        id: Some(source.id),
        name: source.name.to_owned(),
        symbol: source.symbol.to_owned(),
        supported,
        hal: has(Source::HAL),
        sampling: has(Source::SAMPLING),
        approximates: has(Source::APPROXIMATES),
        select: has(Source::HAS_SELECT).then(|| hex(source.select)),
        event_select: has(Source::HAS_SELECT).then(|| hex(source.select & !OWN_BITS)),
        interval: Interval {
            default: source.default_interval,
            min: source.min_interval,
            max: source.max_interval,
        },
        counts: source.counts.to_owned(),
        description: source.meaning.to_owned(),
        note: source.note.to_owned(),
        processors: Differs::from(supported, processors, |one| can_count(source, one)),
        ..SourceRow::default()
    }
}

fn hex(select: u64) -> String {
    format!("{select:#010X}").replacen("0X", "0x", 1)
}

impl SourceRow {
    const BRIEF: &'static [Field<Self>] = &[
        Field::new(Column::number("id").extra(), Self::id),
        Field::new(Column::name("name"), |row| row.name.clone()),
        Field::new(Column::name("supported"), Self::supported),
        Field::new(Column::prose("counts"), Self::counts_in_words),
    ];
    const VERBOSE: &'static [Field<Self>] = &[
        Field::new(Column::number("id").extra(), Self::id),
        Field::new(Column::name("name"), |row| row.name.clone()),
        Field::new(Column::name("supported"), Self::supported),
        Field::new(Column::word("sampling").extra(), |row| {
            if row.sampling { "yes" } else { "no" }.to_owned()
        }),
        Field::new(Column::word("select").extra(), |row| row.select.clone().unwrap_or_default()),
        Field::new(Column::number("interval").extra(), |row| thousands(row.interval())),
        Field::new(Column::number("limits").extra(), |row| {
            format!("{}..{}", thousands(row.interval.min), thousands(row.interval.max))
        }),
        Field::new(Column::narrow("counts"), |row| row.counts.clone()),
        Field::new(Column::narrow("note"), |row| row.note.clone()),
        Field::new(Column::prose("description"), |row| row.description.clone()),
    ];

    fn is_found_by(&self, search: &Search) -> bool {
        search.finds(&[&self.name, &self.symbol], &[&self.counts, &self.description])
    }

    /// The documents' name for what a source counts, or the sentence about an event.
    fn counts_in_words(&self) -> String {
        let has_sentence = self.event && !self.description.is_empty();
        if has_sentence { self.description.clone() } else { self.counts.clone() }
    }

    /// The number of a source; an event is only known by its name.
    fn id(&self) -> String {
        let id = self.id.filter(|_| !self.event);
        id.map_or_else(String::new, |id| format!("{id:#04X}").replacen("0X", "0x", 1))
    }

    /// The interval used when none is set: the HAL's, which is that of the boot processor, or the
    /// default where only others count it.
    fn interval(&self) -> u32 {
        let elsewhere = self.supported && self.hal_supported == Some(false);
        self.hal_interval.filter(|_| !elsewhere).unwrap_or(self.interval.default)
    }

    fn supported(&self) -> String {
        match (self.supported, self.processors.first()) {
            (true, None) => "yes".to_owned(),
            (true, Some(without)) => format!("not on {}", without.processors),
            (false, _) => "no".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Arguments, Commands};
    use crate::target::backend::Backend;

    /// The number of requests does not grow with the machine: three for the interface, the machine
    /// and its processors, and at most one for every fifty sources.
    #[test]
    fn a_list_takes_few_requests_on_any_number_of_processors() {
        let requests = |machine: &str| {
            let mut ctx =
                Context::open(Backend::open(machine).expect("a place")).expect("a machine");
            let arguments = Arguments::parse_from(["halprof", "list", "--all"]);
            let Commands::List(options) = arguments.expect("arguments").command else { panic!() };
            let sources = listed(&options, &mut ctx).expect("a list").sources.len();
            assert_ne!(sources, 0);
            let requests = ctx.connection.requests() as usize;
            assert!(requests <= 3 + sources.div_ceil(50), "{machine}: {requests}");
            requests
        };
        assert_eq!(requests("sapphire-rapids,processors=2048"), requests("sapphire-rapids"));
        requests("zen4");
    }
}
