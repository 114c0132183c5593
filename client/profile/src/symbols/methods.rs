//! Names for code that runtimes made: what the recording says is at an address of a process, at the
//! time of its samples.

use super::functions::Function;
use crate::file::{Method, ProcessIds, Recording};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The methods of all processes.
#[derive(Debug, Default)]
pub(super) struct Methods {
    of_process: FxHashMap<u32, Vec<Piece>>,
}

/// A method, and the highest end of all methods up to it: where one was, another may come to be.
#[derive(Debug)]
struct Piece {
    method: Method,
    name: Arc<str>,
    module: Arc<str>,
    reach: u64,
}

/// What is known of an address in a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MethodMatch {
    pub(crate) name: Arc<str>,
    pub(crate) module: Arc<str>,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl MethodMatch {
    /// As a function of the image that it was compiled into, which is loaded there.
    pub(super) fn function(&self, loaded: u64) -> Function {
        Function {
            name: self.name.to_string(),
            also: Arc::default(),
            start: self.start.saturating_sub(loaded),
            end: self.end.saturating_sub(loaded),
        }
    }
}

impl Methods {
    pub(super) fn new(recording: &Recording) -> Self {
        let mut of_process: FxHashMap<u32, Vec<Piece>> = FxHashMap::default();
        let mut texts = std::collections::HashSet::new();
        for method in &recording.methods {
            of_process.entry(method.process).or_default().push(Piece {
                method: method.clone(),
                name: super::intern(&mut texts, &method.name),
                module: super::intern(&mut texts, &method.module),
                reach: 0,
            });
        }
        for pieces in of_process.values_mut() {
            pieces.sort_by_key(|piece| piece.method.start);
            let mut reach = 0;
            for piece in pieces {
                reach = piece.method.end.max(reach);
                piece.reach = reach;
            }
        }
        Self { of_process }
    }

    /// The method at an address of a process, which has a number of `process_ids`.
    pub(super) fn at(
        &self,
        process_ids: &ProcessIds,
        process: u32,
        address: u64,
    ) -> Option<MethodMatch> {
        let pieces = self.of_process.get(&process_ids.id(process))?;
        let time = process_ids.since(process);
        let next = pieces.partition_point(|piece| piece.method.start <= address);
        let before = pieces.get(..next)?.iter().rev().take_while(|piece| address < piece.reach);
        let mut there = before.filter(|piece| piece.method.contains(address));
        let piece = there.find(|piece| piece.method.lives(time))?;
        Some(MethodMatch {
            name: Arc::clone(&piece.name),
            module: Arc::clone(&piece.module),
            start: piece.method.start,
            end: piece.method.end,
        })
    }
}
