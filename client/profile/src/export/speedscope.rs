//! speedscope: <https://www.speedscope.app/file-format-schema.json>, one profile for each source.

use super::{Source, View};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Serialize)]
struct File {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: String,
    exporter: &'static str,
    shared: Shared,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Writes one weighted sample for each place of each source.
pub(super) fn write(view: &View<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut frames = Frames::default();
    let profiles = view.sources.iter();
    let profiles = profiles
        .map(|source| profile(view, source, &mut frames))
        .collect();
    let name = format!("{}: {}", view.title, view.captions().join("; "));
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name,
        exporter: concat!("halprof ", env!("CARGO_PKG_VERSION")),
        shared: Shared { frames: frames.all },
        profiles,
    };
    Ok(serde_json::to_writer(out, &file)?)
}

fn profile(view: &View<'_>, source: &Source, frames: &mut Frames) -> Profile {
    let gathered = view.gathered;
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for (place, weight) in gathered.spots_of(source) {
        let levels = gathered.levels(place);
        let last = levels.len() - 1;
        let stack = levels.into_iter().enumerate().map(|(level, name)| {
            // The line's own frame is where an editor can be led to.
            let line = place.frame.line.filter(|_| level == last);
            let file = line.and(place.frame.file.as_deref()).map(str::to_owned);
            frames.index(Frame { name, file, line })
        });
        samples.push(stack.collect());
        weights.push(weight.events);
    }
    Profile {
        r#type: "sampled",
        name: format!("{} (events)", source.name),
        unit: "none",
        start_value: 0,
        end_value: source.weight.events,
        samples,
        weights,
    }
}

/// Each frame once.
#[derive(Default)]
struct Frames {
    all: Vec<Frame>,
    index: HashMap<Frame, usize>,
}

impl Frames {
    fn index(&mut self, frame: Frame) -> usize {
        if let Some(&index) = self.index.get(&frame) {
            return index;
        }
        let index = self.all.len();
        self.all.push(frame.clone());
        self.index.insert(frame, index);
        index
    }
}
