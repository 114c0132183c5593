//! The processes and modules of a recording, of which a later row may replace an earlier one.

use super::{Module, Process, Recording};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// Where each process and module stands in its list.
#[derive(Debug, Default)]
pub(super) struct KnownRows {
    processes: HashMap<(u32, Option<u64>), usize>,
    modules: HashMap<(Option<u32>, u64, Option<u64>), usize>,
}

impl KnownRows {
    /// Adds a process, or replaces the one with its identifier and start.
    pub(super) fn add_process(&mut self, recording: &mut Recording, process: Process) {
        let key = (process.id, process.found.or(process.started));
        put(&mut recording.processes, &mut self.processes, key, process);
    }

    /// Adds a module, or replaces the one with its process, address and time of loading.
    pub(super) fn add_module(&mut self, recording: &mut Recording, module: Module) {
        let key = (module.process, module.start, module.found.or(module.loaded));
        put(&mut recording.modules, &mut self.modules, key, module);
    }
}

fn put<K: Eq + Hash, V>(list: &mut Vec<V>, index: &mut HashMap<K, usize>, key: K, row: V) {
    match index.entry(key) {
        Entry::Occupied(at) => {
            if let Some(known) = list.get_mut(*at.get()) {
                *known = row;
            }
        }
        Entry::Vacant(at) => {
            at.insert(list.len());
            list.push(row);
        }
    }
}
