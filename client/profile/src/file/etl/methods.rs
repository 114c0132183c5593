//! Code that runtimes make, as the events of a trace report it: which method was where, during
//! which time.

use crate::file::Method;
use crate::file::methods::SampledAddresses;
use halprof_etw::payload::Change;
use halprof_etw::payload::managed::{DotNetMethod, DotNetModule, Managed, ScriptFunction};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The module of a method that was compiled from no file.
const DOTNET: &str = "JIT (.NET)";
const JAVASCRIPT: &str = "JIT (JavaScript)";

/// The methods of all processes.
#[derive(Default)]
pub(super) struct Methods {
    pieces: Vec<Piece>,
    processes: FxHashMap<u32, Process>,
}

struct Piece {
    method: Method,
    /// The runtime's number of the method. With the address it tells one piece from another.
    id: u64,
    /// The file that it was compiled from, until its name is known.
    source: Option<u64>,
}

/// A process that an identifier stands for.
#[derive(Default)]
struct Process {
    /// When it began, if the trace says.
    started: Option<u64>,
    /// The code that is there now, as indexes of `pieces`.
    live: Ranges<usize>,
    /// When code was there last.
    gone: Ranges<u64>,
    /// All code that the process had, as indexes of `pieces`.
    pieces: Vec<usize>,
    /// The names of files by the runtime's numbers of them.
    sources: FxHashMap<u64, String>,
}

impl Methods {
    /// A process starts or ends, so an earlier process with its identifier has no code any more.
    pub(super) fn process(&mut self, id: u32, change: Change, time: u64) {
        let started = match change {
            Change::Start => Some(time),
            Change::End => None,
            _ => return,
        };
        let Some(before) = self.processes.remove(&id) else {
            self.processes.insert(id, Process { started, ..Process::default() });
            return;
        };
        before.name(&mut self.pieces);
        for &(_, index) in before.live.0.values() {
            self.pieces[index].method.unloaded = Some(time);
        }
        self.processes.insert(id, Process { started: Some(time), ..Process::default() });
    }

    pub(super) fn event(&mut self, process: u32, time: u64, event: Managed) {
        match event {
            Managed::Method(change, method) => {
                self.piece(change, time, dotnet(process, method));
            }
            Managed::Function(change, function) => {
                self.piece(change, time, javascript(process, function));
            }
            Managed::Module(Change::End, _) => {}
            Managed::Module(_, module) => self.source(process, module.module, file_name(&module)),
            Managed::Source(source) => self.source(process, source.source, last(&source.url)),
        }
    }

    /// Names what methods were compiled from.
    fn source(&mut self, process: u32, source: u64, name: &str) {
        if !name.is_empty() {
            let sources = &mut self.processes.entry(process).or_default().sources;
            sources.insert(source, name.to_owned());
        }
    }

    fn piece(&mut self, change: Change, time: u64, mut piece: Piece) {
        let Method { process, start, end, .. } = piece.method;
        if start >= end {
            return;
        }
        let process = self.processes.entry(process).or_default();
        let known = process.live.0.get(&start).map(|&(_, index)| index);
        let known = known.filter(|&index| {
            let known = &self.pieces[index];
            (known.id, known.method.end) == (piece.id, end)
        });
        // The name is taken now, because another file may get this number later.
        if let Some(name) = piece.source.and_then(|source| process.sources.get(&source)) {
            name.clone_into(&mut piece.method.module);
            piece.source = None;
        }
        match (change, known) {
            (Change::End, Some(index)) => {
                process.live.0.remove(&start);
                process.gone.put(start, end, time);
                self.pieces[index].method.unloaded = Some(time);
            }
            (Change::End, None) => {
                piece.method.loaded = process.since(start, end);
                piece.method.unloaded = Some(time);
                process.gone.put(start, end, time);
                process.pieces.push(self.pieces.len());
                self.pieces.push(piece);
            }
            // A rundown, or a load that is reported twice: the piece is known.
            (_, Some(_)) => {}
            (_, None) => {
                let ended = process.live.put(start, end, self.pieces.len());
                piece.method.loaded = match change {
                    Change::RundownStart | Change::RundownEnd if ended.is_empty() => {
                        process.since(start, end)
                    }
                    _ => Some(time),
                };
                for index in ended {
                    self.pieces[index].method.unloaded = Some(time);
                }
                process.pieces.push(self.pieces.len());
                self.pieces.push(piece);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The methods that samples are in.
    pub(super) fn finish(mut self, addresses: &SampledAddresses) -> Vec<Method> {
        for process in self.processes.values() {
            process.name(&mut self.pieces);
        }
        self.pieces.into_iter().filter_map(|piece| addresses.needed(piece.method)).collect()
    }
}

impl Process {
    /// Since when code was there whose load is not in the trace: `None` means since the beginning,
    /// unless the process started later or other code was there before.
    fn since(&self, start: u64, end: u64) -> Option<u64> {
        let gone = self.gone.overlapping(start, end).map(|(_, time)| time);
        gone.chain(self.started).max()
    }

    /// Names the files of pieces that the trace named only after the pieces.
    fn name(&self, pieces: &mut [Piece]) {
        for &index in &self.pieces {
            let piece = &mut pieces[index];
            if let Some(name) = piece.source.and_then(|source| self.sources.get(&source)) {
                name.clone_into(&mut piece.method.module);
            }
        }
    }
}

/// Ranges of addresses that do not overlap: by the first address, the first one after it and a value.
struct Ranges<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> Ranges<T> {
    /// The starts and values of ranges that overlap one.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, T)> {
        let before = self.0.range(..end).rev();
        before
            .take_while(move |&(_, &(other_end, _))| other_end > start)
            .map(|(&start, &(_, value))| (start, value))
    }

    /// Puts a range where others may be, and returns the values of those.
    fn put(&mut self, start: u64, end: u64, value: T) -> Vec<T> {
        let others: Vec<_> = self.overlapping(start, end).collect();
        for (start, _) in &others {
            self.0.remove(start);
        }
        self.0.insert(start, (end, value));
        others.into_iter().map(|(_, value)| value).collect()
    }
}

fn dotnet(process: u32, method: DotNetMethod) -> Piece {
    let DotNetMethod { namespace, name, signature, start, size, .. } = method;
    // Before its parameters a signature has the type that is returned, which names do not have.
    let parameters = signature.find('(').map_or("", |at| &signature[at..]);
    let dot = if namespace.is_empty() { "" } else { "." };
    Piece {
        id: method.method,
        source: Some(method.module),
        method: Method {
            process,
            start,
            end: start.saturating_add(size.into()),
            name: format!("{namespace}{dot}{name}{parameters}"),
            module: DOTNET.to_owned(),
            ..Method::default()
        },
    }
}

fn javascript(process: u32, function: ScriptFunction) -> Piece {
    let ScriptFunction { start, size, name, .. } = function;
    Piece {
        id: function.function.into(),
        source: Some(function.source),
        method: Method {
            process,
            start,
            end: start.saturating_add(size),
            name: if name.is_empty() { "(anonymous)".to_owned() } else { name },
            module: JAVASCRIPT.to_owned(),
            ..Method::default()
        },
    }
}

/// The file that methods of a module were compiled from.
fn file_name(module: &DotNetModule) -> &str {
    match last(&module.il_path) {
        "" => last(&module.native_path),
        name => name,
    }
}

/// The last part of a path or of a URL without its query.
fn last(path: &str) -> &str {
    let path =
        if path.contains("://") { path.split(['?', '#']).next().unwrap_or(path) } else { path };
    path.rsplit(['\\', '/']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
