//! A result beside an earlier one of the same command, figure by figure. Both are read from their JSON,
//! by the same road.

use crate::cli::args::Against;
use crate::metrics::WorseWhen;
use crate::output::error::{Error, Result};
use crate::output::escape::Escaped;
use crate::output::names::abbreviated;
use crate::output::number::{optional, rounded, thousands};
use crate::output::schema;
use crate::output::table::{Column, Field, Record, Width, records};
use halprof_measure::Error as Cause;
use halprof_measure::float::float;
use halprof_measure::statistics::comparison::{Bounded, Comparison, Verdict};
use halprof_measure::statistics::paired::{self, Paired};
use halprof_measure::text_file;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest result that is read.
const BYTES_MAX: u64 = 1 << 28;

/// A figure beside the earlier one.
#[derive(Clone, JsonSchema, Serialize)]
pub(crate) struct DiffRow {
    /// A source, a metric with its filter, or `elapsed`; of `simulate` the field that is summed up.
    metric: String,
    unit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core_type: Option<String>,
    before: f64,
    after: f64,
    #[serde(flatten)]
    compared: Comparison,
    /// Which of both is worse; null if neither is.
    worse: Option<WorseWhen>,
    /// Whether it got worse by more than `--fail-above`, beyond its bound.
    failed: bool,
}

/// One figure of a result.
#[derive(Clone)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) processor: Option<u32>,
    pub(crate) core_type: Option<String>,
    /// `None` if it is not known.
    pub(crate) value: Option<f64>,
    /// Half of its 95 % interval, 0 of an exact figure; `None` if it is not known.
    pub(crate) bound: Option<f64>,
    pub(crate) worse: Option<WorseWhen>,
}

impl Figure {
    /// A number of events, of which more are worse.
    pub(crate) fn of_events(
        name: impl Into<String>,
        value: Option<f64>,
        bound: Option<f64>,
    ) -> Self {
        Self {
            name: name.into(),
            unit: EVENTS.to_owned(),
            processor: None,
            core_type: None,
            value,
            bound,
            worse: Some(WorseWhen::More),
        }
    }

    /// The processors that it is of.
    fn place(&self) -> (Option<u32>, Option<&str>) {
        (self.processor, self.core_type.as_deref())
    }

    fn bounded(&self) -> Option<Bounded> {
        Some(Bounded { value: self.value?, bound: self.bound })
    }
}

/// The unit of counts.
pub(crate) const EVENTS: &str = "events";
/// The unit of times.
pub(crate) const SECONDS: &str = "s";

/// What is compared of a command's results.
pub(crate) trait Compared: DeserializeOwned {
    /// The command.
    const COMMAND: &'static str;

    fn figures(&self) -> Vec<Figure>;

    /// What is to be the same in both, by name.
    fn conditions(&self) -> Vec<(&'static str, String)>;

    /// Whether the measurement did not come to its own end.
    fn is_cut(&self) -> bool;

    /// Whether it says how much runs vary; an exact figure that does not vary does.
    fn is_repeated(&self) -> bool;
}

/// The fields that every object has.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    modelled: Option<bool>,
}

/// An earlier result.
pub(crate) struct Earlier<T> {
    file: String,
    result: T,
}

/// What a comparison finds.
#[derive(Default)]
pub(crate) struct Diff {
    /// The earlier result's file.
    pub(crate) file: String,
    pub(crate) rows: Vec<DiffRow>,
    pub(crate) warnings: Vec<String>,
    /// What got worse by more than the limit, a sentence each.
    pub(crate) failures: Vec<String>,
}

impl<T: Compared> Earlier<T> {
    /// The result that options name; `modelled`: whether that of this run is of a modelled machine.
    pub(crate) fn named(options: &Against, modelled: bool) -> Result<Option<Self>> {
        options.diff.as_deref().map(|file| Self::read(file, modelled)).transpose()
    }

    fn read(path: &Path, modelled: bool) -> Result<Self> {
        let text = read(path).map_err(|error| Cause::reading(path, error))?;
        let bad = |why: String| {
            let hint = format!("Write it by `halprof {} --json -o FILE`.", T::COMMAND);
            Error::from(Cause::bad_file(path, why, hint))
        };
        let head: Head = serde_json::from_str(&text)
            .map_err(|error| bad(format!("is no JSON object: {error}")))?;
        let schema = head.schema.unwrap_or_default();
        let named = schema.strip_prefix("halprof/").and_then(|rest| rest.split_once('/'));
        let (command, version) = named.ok_or_else(|| bad("is not a halprof result".to_owned()))?;
        if command != T::COMMAND {
            let of = if command == "error" { "an error" } else { "a result" };
            return Err(bad(format!("is {of} (`{schema}`), not a result of `{}`", T::COMMAND)));
        }
        let own = schema::version(T::COMMAND);
        if version.parse() != Ok(own) {
            let why = format!(
                "was written by another halprof as `{schema}`; this one reads version {own}"
            );
            return Err(bad(why));
        }
        if head.modelled.is_some_and(|earlier| earlier != modelled) {
            let (earlier, this) =
                if modelled { ("silicon", "a model") } else { ("a model", "silicon") };
            return Err(bad(format!("is of {earlier}, and this run is of {this}")));
        }
        let result = serde_json::from_str(&text)
            .map_err(|error| bad(format!("does not follow its schema `{schema}`: {error}")))?;
        Ok(Self { file: path.display().to_string(), result })
    }

    /// Compares a result, as JSON, with it. `asked` leaves out figures that were not asked for; `same`
    /// says whether two names are of the same thing; `limit`: how many percent worse a figure may be.
    pub(crate) fn compare(
        &self,
        now: &str,
        limit: Option<f64>,
        asked: impl Fn(Figure) -> Option<Figure>,
        same: impl Fn(&str, &str) -> bool,
    ) -> Result<Diff> {
        let now: T = serde_json::from_str(now).map_err(Error::internal)?;
        let warnings = self.differences(&now);
        let [before, after]: [Vec<Figure>; 2] = [&self.result, &now]
            .map(|result| result.figures().into_iter().filter_map(&asked).collect());
        let earlier = |figure: &Figure| {
            let there = || before.iter().filter(|one| one.place() == figure.place());
            let named = there().find(|one| one.name == figure.name);
            named.or_else(|| there().find(|one| same(&one.name, &figure.name)))
        };
        let (mut rows, mut left, mut paired) = (Vec::new(), Vec::new(), Vec::new());
        for figure in &after {
            let earlier = earlier(figure);
            paired.extend(earlier);
            match earlier.and_then(|before| DiffRow::new(before, figure, limit)) {
                Some(row) => rows.push(row),
                None => left.push(figure.name.as_str()),
            }
        }
        let is_unpaired = |one: &&Figure| !paired.iter().any(|other| std::ptr::eq(*other, *one));
        left.extend(before.iter().filter(is_unpaired).map(|figure| figure.name.as_str()));
        left.dedup();
        if rows.is_empty() {
            return Err(Error::usage(
                format!(
                    "{} has no figure in common with this run: {}",
                    self.file,
                    abbreviated(&left)
                ),
                "Measure the same sources, and show them in the same way.",
            ));
        }
        Ok(Diff::judged(self.file.clone(), (rows, &left), warnings, limit))
    }

    /// Warnings about what else than the figures differs.
    fn differences(&self, now: &T) -> Vec<String> {
        let mut warnings = Vec::new();
        for ((what, before), (_, after)) in
            self.result.conditions().into_iter().zip(now.conditions())
        {
            if before != after {
                warnings.push(format!("not the same {what}: {before} before, {after} now"));
            }
        }
        if self.result.is_cut() {
            warnings.push(format!("{} was ended early", self.file));
        }
        if !(self.result.is_repeated() && now.is_repeated()) {
            warnings.push(
                "the bounds do not include how much runs vary, which is not known: `-r 5` on \
                 both sides measures it"
                    .to_owned(),
            );
        }
        warnings
    }
}

impl Diff {
    /// `left`: what is not compared; `limit`: how many percent worse a figure may be.
    fn judged(
        file: String,
        (rows, left): (Vec<DiffRow>, &[&str]),
        mut warnings: Vec<String>,
        limit: Option<f64>,
    ) -> Self {
        if !left.is_empty() {
            warnings
                .push(format!("not compared (value missing on one side): {}", abbreviated(left)));
        }
        let unknown = rows.iter().filter(|row| row.worse.is_some() && row.compared.error.is_none());
        let unknown: Vec<&str> = unknown
            .filter(|row| row.compared.ratio.is_some())
            .map(|row| row.metric.as_str())
            .collect();
        if limit.is_some() && !unknown.is_empty() {
            let names = abbreviated(&unknown);
            warnings.push(format!(
                "not judged by `--fail-above`, because their bounds are not known: {names}"
            ));
        }
        let failures = rows.iter().filter(|row| row.failed);
        let failures = failures.map(|row| row.failure(limit.unwrap_or_default())).collect();
        Self { file, rows, warnings, failures }
    }

    /// Compares two programs by the results, as JSON, of runs in pairs, in the order of time: before,
    /// after, after, before. `before` names the program before; the rest is as for
    /// [`Earlier::compare`].
    pub(crate) fn of_pairs<T: Compared>(
        before: String,
        pairs: &[[String; 2]],
        limit: Option<f64>,
        asked: impl Fn(Figure) -> Option<Figure>,
    ) -> Result<Self> {
        let figures = |text: &String| -> Result<Vec<Figure>> {
            let result: T = serde_json::from_str(text).map_err(Error::internal)?;
            Ok(result.figures().into_iter().filter_map(&asked).collect())
        };
        let pairs = pairs.iter().map(|[before, after]| Ok([figures(before)?, figures(after)?]));
        let pairs: Vec<[Vec<Figure>; 2]> = pairs.collect::<Result<_>>()?;
        let Some([_, first]) = pairs.first() else {
            return Ok(Self::default());
        };
        let (mut rows, mut left) = (Vec::new(), Vec::new());
        for figure in first {
            let in_each = pairs.iter().map(|pair| {
                let is_like =
                    |one: &&Figure| one.name == figure.name && one.place() == figure.place();
                let [before, after] =
                    pair.each_ref().map(|run| run.iter().find(is_like).and_then(Figure::bounded));
                before.zip(after)
            });
            match in_each.collect::<Option<Vec<_>>>().and_then(|values| paired(&values)) {
                Some((before, after, compared)) => {
                    rows.push(DiffRow::of(figure, [before, after], compared, limit));
                }
                None => left.push(figure.name.as_str()),
            }
        }
        Ok(Self::judged(before, (rows, &left), Vec::new(), limit))
    }
}

/// The means of pairs of values, and how they compare. Runs that are alike by chance are no more
/// accurate than each of them.
fn paired(pairs: &[(Bounded, Bounded)]) -> Option<(f64, f64, Comparison)> {
    let values: Vec<[f64; 2]> =
        pairs.iter().map(|(before, after)| [before.value, after.value]).collect();
    let Paired { before, after, bound } = paired::compare(&values)?;
    let mut bounds = pairs.iter().flat_map(|(before, after)| [before.bound, after.bound]);
    let own = bounds.try_fold(0.0, |sum: f64, bound| Some(sum.hypot(bound?)));
    let own = own.map(|sum| sum / float(pairs.len() as u64));
    let bound = bound.zip(own).map(|(spread, own)| spread.max(own));
    Some((before, after, Comparison::of_change(before, after, bound)))
}

impl DiffRow {
    fn new(before: &Figure, after: &Figure, limit: Option<f64>) -> Option<Self> {
        let (earlier, later) = before.bounded().zip(after.bounded())?;
        let compared = Comparison::new(earlier, later);
        Some(Self::of(after, [earlier.value, later.value], compared, limit))
    }

    /// `after` says what is compared.
    fn of(
        after: &Figure,
        [before, value]: [f64; 2],
        compared: Comparison,
        limit: Option<f64>,
    ) -> Self {
        Self {
            metric: after.name.clone(),
            unit: after.unit.clone(),
            processor: after.processor,
            core_type: after.core_type.clone(),
            before,
            after: value,
            compared,
            worse: after.worse,
            failed: limit
                .zip(after.worse)
                .is_some_and(|(limit, worse)| is_worse(&compared, worse, limit)),
        }
    }

    fn figure(&self, value: f64) -> String {
        match self.unit.as_str() {
            EVENTS => thousands(rounded(value)),
            "" => format!("{value:.3}"),
            SECONDS => format!("{value:.6} s"),
            unit => format!("{value:.3} {unit}"),
        }
    }

    fn bound(&self) -> String {
        // Rounded up, never down.
        self.compared
            .error
            .filter(|&error| error != 0.0)
            .map_or_else(String::new, |error| format!("±{:.4}", (error * 1e4).ceil() / 1e4))
    }

    /// What got worse, and by how much.
    fn failure(&self, limit: f64) -> String {
        let place = self.processor.map(|one| format!(" on processor {one}"));
        let what = format!("{}{}", self.metric, place.unwrap_or_default());
        got_worse(
            &what,
            [self.before, self.after].map(|one| self.figure(one)),
            &self.compared,
            limit,
        )
    }
}

/// Whether a figure got worse by more than so many percent, beyond its bound.
pub(crate) fn is_worse(compared: &Comparison, worse: WorseWhen, limit: f64) -> bool {
    let Comparison { ratio, error, verdict } = *compared;
    match (worse, ratio.zip(error)) {
        (WorseWhen::More, Some((ratio, error))) => ratio - error > 1.0 + limit / 100.0,
        (WorseWhen::Fewer, Some((ratio, error))) => ratio + error < 1.0 - limit / 100.0,
        // From nothing to something is more than any part of it.
        (WorseWhen::More, None) => ratio.is_none() && verdict == Verdict::More,
        (WorseWhen::Fewer, None) => ratio.is_none() && verdict == Verdict::Fewer,
    }
}

/// What got worse by more than the limit, and by how much.
pub(crate) fn got_worse(
    what: &str,
    [before, after]: [String; 2],
    compared: &Comparison,
    limit: f64,
) -> String {
    let change = compared.ratio.map_or_else(String::new, |ratio| {
        // Rounded up, never down.
        let bound = compared.error.filter(|&error| error != 0.0);
        let bound = bound.map(|error| format!(" ±{:.2}", (error * 1e4).ceil() / 100.0));
        format!(", {:+.2} %{}", (ratio - 1.0) * 100.0, bound.unwrap_or_default())
    });
    format!("{what} got worse by more than {limit} %: {before} before, {after} now{change}")
}

impl Record for DiffRow {
    const COLUMNS: &'static [Field<Self>] = &[
        Field::new(Column::number("processor"), |row| optional(row.processor)),
        Field::new(Column::word("cores"), |row| optional(row.core_type.as_ref())),
        Field::new(Column::number("before"), |row| row.figure(row.before)),
        Field::new(Column::number("after"), |row| row.figure(row.after)),
        Field::new(Column::number("ratio"), |row| match row.compared.ratio {
            Some(ratio) => format!("{ratio:.4}"),
            None => "-".to_owned(),
        }),
        Field::new(Column::number("95 %"), Self::bound),
        Field::new(Column::word("verdict"), |row| row.compared.verdict.to_string()),
        Field::new(Column::name("metric"), |row| row.metric.clone()),
    ];
}

/// The rows below a heading; nothing if there are none.
pub(crate) fn text(earlier: &str, rows: &[DiffRow], width: Width) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = width.fitted(&format!("\nbefore: {}\n", Escaped(earlier)));
    head + &records(width, rows)
}

/// The text of a file in UTF-8, or in UTF-16 as `>` of Windows PowerShell writes it.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    text_file::decode_or_invalid(bytes)
}
