//! What a modelled machine runs: the workload of `--workload`, or the default.

use crate::model::default_workload::{default_workload, with_slots};
use crate::model::{built_in, image};
use crate::output::error::{Error, Result};
use crate::select::event_set::EventSet;
use crate::select::event_set::refusal::no_processor;
use crate::target::built_in::traced_path;
use crate::target::context::Context;
use halprof_measure::did_you_mean;
use halprof_profile::file::Module;
use sim::load::workload::{self, DEFAULT, Workload, WorkloadError};
use sim_etw::generator::{Program, VOLUME};

/// What a modelled machine runs.
pub(crate) struct ModelledWork {
    pub(crate) workload: Box<Workload>,
    /// The real module whose code it runs.
    pub(crate) image: Option<Module>,
    /// Whether it is what runs without `--workload`, which has no length of its own.
    pub(crate) is_default: bool,
}

impl ModelledWork {
    /// What `--workload` describes, or the default.
    pub(crate) fn parse(
        text: Option<&str>,
        event_set: &EventSet,
        ctx: &mut Context,
    ) -> Result<Self> {
        let Some(text) = text else {
            let mut workload = Box::new(default_workload(event_set)?);
            let image = built_in::apply(&mut workload);
            return Ok(Self { workload, image, is_default: true });
        };
        let (image, rest) = image::Keys::take(text)?;
        let (rest, is_default) = with_amounts(rest, &image);
        let parsed = match workload::parse(&rest) {
            Err(WorkloadError::UnknownKey(_)) => {
                let catalog = ctx.catalog(false)?;
                workload::parse_with(&rest, &|name| catalog.modelled(name, None))
            }
            parsed => parsed,
        };
        let with_slots = |workload| with_slots(&rest, workload, event_set);
        let mut workload = parsed.and_then(with_slots).map_err(|error| refused(&error))?;
        let processors = event_set.processor_count();
        match workload.highest_processor() {
            Some(highest) if highest >= processors => Err(no_processor(highest, processors.into())),
            _ => {
                let image = if is_default && !image.is_given() && !has_key(&rest, "code") {
                    built_in::apply(&mut workload)
                } else {
                    image.apply(&mut workload)?
                };
                Ok(Self { workload: Box::new(workload), image, is_default: false })
            }
        }
    }
}

/// The workload with the default amounts if it has none, and whether it has these.
fn with_amounts(given: String, image: &image::Keys<'_>) -> (String, bool) {
    let given_items = || given.split(',').map(str::trim).filter(|item| !item.is_empty());
    let lacks = match workload::parse(&given) {
        Err(WorkloadError::NoAmount) => true,
        Err(WorkloadError::Empty) => image.is_given(),
        _ => false,
    };
    if !lacks {
        return (given, false);
    }
    let own = DEFAULT.split(',').map(str::trim);
    let own = own.filter(|item| item.split('=').next().is_none_or(|key| !has_key(&given, key)));
    (own.chain(given_items()).collect::<Vec<_>>().join(","), true)
}

/// Whether a workload has this key.
fn has_key(text: &str, key: &str) -> bool {
    text.split(',').any(|item| item.trim().split('=').next() == Some(key))
}

impl ModelledWork {
    /// The real program, as a trace tells it. The one in the tool is in no folder, so that only the trace
    /// can say its build.
    pub(crate) fn program(&self) -> Option<Program> {
        let module = self.image.as_ref()?;
        let (path, pdb) = match &module.path {
            Some(path) => (native(path), None),
            None => (traced_path(), built_in::pdb(module.identity.as_ref()?)),
        };
        Some(Program {
            path,
            pdb,
            start: module.start,
            end: module.end,
            instructions: self.workload.instructions()?,
            way: self.workload.way()?,
            on_way: self.workload.on_way_instructions().unwrap_or_default(),
        })
    }
}

/// What a model's kernel calls a file.
pub(crate) fn native(path: &str) -> String {
    let (_, rest) = drive(path);
    format!("{VOLUME}{}", rest.replace('/', "\\"))
}

/// The drive of a path, empty where there are none, and the rest.
pub(crate) fn drive(path: &str) -> (&str, &str) {
    let has_drive = path.as_bytes().get(1) == Some(&b':');
    path.split_at_checked(if has_drive { 2 } else { 0 }).unwrap_or(("", path))
}

fn refused(error: &WorkloadError) -> Error {
    let hint = match error {
        WorkloadError::UnknownKey(key) => {
            let suggestion = did_you_mean(key, workload::keys().chain(image::KEYS));
            let suggestion = suggestion.map_or_else(String::new, |text| text + " ");
            format!("{suggestion}{} {}.", error.hint(), image::KEYS.join(" "))
        }
        _ => format!("{}.", error.hint()),
    };
    Error::usage(format!("`--workload`: {error}"), hint)
}

/// The error for `--workload` on a machine that is no model.
pub(crate) fn no_workload() -> Error {
    Error::unavailable(
        "only a modelled machine runs a `--workload`",
        "Name a model with `--machine`.",
    )
}
