//! The call stacks of a page: a tree of functions by name, of all threads together.

use crate::aggregate::samples::{Samples, ThreadLocation};
use crate::symbols::Frame;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap};
use shared_types::Mode;
use std::cmp::Reverse;
use std::sync::Arc;

/// The largest number of nodes. If there are more, the rarest stacks are cut where they leave the
/// others: see [`Tree::cut`].
const NODES_MAX: usize = 1 << 18;

/// What stands for the rest of a stack that was cut.
const RARE: &str = "(rare stacks)";

/// A function, or a module whose functions have no names. Equal ones are a row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) module: Arc<str>,
    pub(super) symbol: Option<Arc<str>>,
}

/// A function as it was called. The root is 0 and is no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    /// Its caller, as one more than the index of that node.
    parent: u32,
    pub(super) function: u32,
    pub(super) is_inlined: bool,
}

/// Where a location is in the tree: one more than the index of its node, and its function, which is
/// not the node's if its stack was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) node: u32,
    pub(super) function: u32,
}

/// Functions and nodes, each once.
pub(super) struct Tree {
    /// Each with the mode in which it was found first.
    pub(super) functions: IndexMap<Function, Mode, FxBuildHasher>,
    nodes: IndexSet<Node, FxBuildHasher>,
    /// The functions of a frame, outermost first, each with whether it was inlined.
    by_frame: FxHashMap<*const Frame, Vec<(u32, bool)>>,
}

impl Tree {
    /// The tree of all samples, and the place of each location.
    pub(super) fn new(samples: &Samples) -> (Self, Vec<Place>) {
        let mut tree = Self {
            functions: IndexMap::default(),
            nodes: IndexSet::default(),
            by_frame: FxHashMap::default(),
        };
        // A caller comes before what it calls.
        let mut callers: Vec<u32> = Vec::with_capacity(samples.callers.len());
        let node_of = |callers: &[u32], caller: Option<usize>| {
            caller.and_then(|caller| callers.get(caller).copied()).unwrap_or(0)
        };
        for caller in &samples.callers {
            let node = tree.push(node_of(&callers, caller.caller), caller).node;
            callers.push(node);
        }
        let places = samples.locations.iter();
        let places = places.map(|one| tree.push(node_of(&callers, one.caller), one)).collect();
        (tree, places)
    }

    /// The place of code that was called from a node. Functions of one module that call one another
    /// are one where none of them has a name.
    fn push(&mut self, mut node: u32, location: &ThreadLocation) -> Place {
        let Self { functions, nodes, by_frame } = self;
        let own = by_frame.entry(Arc::as_ptr(&location.frame)).or_insert_with(|| {
            let module = &location.frame.module;
            let each = location.frame.functions().rev().map(|function| {
                let (module, symbol) = (Arc::clone(module), function.name.cloned());
                let entry = functions.entry(Function { module, symbol });
                let index = entry.index() as u32;
                entry.or_insert(location.mode);
                (index, function.is_inlined)
            });
            each.collect()
        });
        let mut last = 0;
        for &(function, is_inlined) in &*own {
            last = function;
            let is_unnamed =
                functions.get_index(function as usize).is_some_and(|(one, _)| one.symbol.is_none());
            let caller = (node as usize).checked_sub(1).and_then(|index| nodes.get_index(index));
            if is_unnamed && caller.is_some_and(|caller| caller.function == function) {
                continue;
            }
            node = nodes.insert_full(Node { parent: node, function, is_inlined }).0 as u32 + 1;
        }
        Place { node, function: last }
    }

    /// Cuts stacks so that the nodes are few, given the number of samples of each place: the nodes with
    /// the most samples stay. Returns the number of samples whose stacks were cut.
    pub(super) fn cut(&mut self, places: &mut [Place], samples: &[u64]) -> u64 {
        self.cut_to(NODES_MAX, places, samples)
    }

    fn cut_to(&mut self, most: usize, places: &mut [Place], samples: &[u64]) -> u64 {
        if self.nodes.len() <= most {
            return 0;
        }
        let mut totals = vec![0u64; self.nodes.len() + 1];
        for (place, samples) in places.iter().zip(samples) {
            totals[place.node as usize] += samples;
        }
        for (index, node) in self.nodes.iter().enumerate().rev() {
            totals[node.parent as usize] += totals[index + 1];
        }
        let mut sorted = totals[1..].to_vec();
        sorted.sort_unstable_by_key(|&samples| Reverse(samples));
        // A caller has no fewer samples than what it calls, so it stays if that does.
        let least = sorted[most] + 1;
        let rare = Function { module: RARE.into(), symbol: None };
        let rare = self.functions.insert_full(rare, Mode::Unknown).0 as u32;
        let old = std::mem::take(&mut self.nodes);
        let mut renumbered = vec![0u32; old.len() + 1];
        for (index, node) in old.iter().enumerate() {
            let parent = renumbered[node.parent as usize];
            let is_cut = totals[index + 1] < least;
            let is_below_cut = is_cut && totals[node.parent as usize] < least && node.parent != 0;
            renumbered[index + 1] = if is_below_cut {
                parent
            } else {
                let function = if is_cut { rare } else { node.function };
                let is_inlined = node.is_inlined && !is_cut;
                self.nodes.insert_full(Node { parent, function, is_inlined }).0 as u32 + 1
            };
        }
        let mut cut = 0;
        for (place, samples) in places.iter_mut().zip(samples) {
            if totals[place.node as usize] < least {
                cut += samples;
            }
            place.node = renumbered[place.node as usize];
        }
        cut
    }

    /// The nodes, each directly before what it calls, with the number of levels between it and the one
    /// before: 0 if that is its caller. Also the number that each node has then, by place.
    pub(super) fn in_order(&self) -> (Vec<(u64, Node)>, Vec<u32>) {
        let count = self.nodes.len() + 1;
        let mut callees = vec![Vec::new(); count];
        for (index, node) in self.nodes.iter().enumerate() {
            callees[node.parent as usize].push(index as u32 + 1);
        }
        let (mut ordered, mut numbers) = (Vec::with_capacity(count), vec![0u32; count]);
        // The depth of the root is 0.
        let mut open: Vec<(u32, u64)> = callees[0].iter().rev().map(|&node| (node, 1)).collect();
        let mut last = 0;
        while let Some((number, depth)) = open.pop() {
            let Some(&node) = self.nodes.get_index(number as usize - 1) else { continue };
            ordered.push((last + 1 - depth, node));
            last = depth;
            numbers[number as usize] = ordered.len() as u32;
            let within = &callees[number as usize];
            open.extend(within.iter().rev().map(|&callee| (callee, depth + 1)));
        }
        (ordered, numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::with_inlined;

    fn path(tree: &Tree, place: Place) -> Vec<String> {
        let mut path = Vec::new();
        let mut at = place.node;
        while let Some(node) = (at as usize).checked_sub(1).and_then(|at| tree.nodes.get_index(at))
        {
            let (function, _) =
                tree.functions.get_index(node.function as usize).expect("a function");
            let name = function.symbol.as_ref().unwrap_or(&function.module);
            path.push(format!("{name}{}", if node.is_inlined { "*" } else { "" }));
            at = node.parent;
        }
        path.reverse();
        path
    }

    fn paths(tree: &Tree, places: &[Place]) -> Vec<String> {
        let mut paths: Vec<_> = places.iter().map(|&place| path(tree, place).join(" ")).collect();
        paths.sort();
        paths
    }

    #[test]
    fn stacks_have_the_functions_that_were_called() {
        let samples = with_inlined(true);
        let (tree, places) = Tree::new(&samples);
        let expected = [
            "g",
            "main f outer* inner*",
            "main f outer* inner* f outer* inner*",
            "main f outer* inner* g",
            "main f outer* inner* g kernel",
        ];
        assert_eq!(paths(&tree, &places), expected);
        let (ordered, numbers) = tree.in_order();
        assert_eq!(ordered.len(), tree.nodes.len());
        // Each node comes after its caller, at the depth that its predecessor says.
        let mut depth = 0;
        for (up, _) in &ordered {
            depth = depth + 1 - up;
            assert!(depth > 0);
        }
        assert!(places.iter().all(|place| numbers[place.node as usize] != 0));
    }

    #[test]
    fn the_rarest_stacks_are_cut_and_nothing_is_lost() {
        let samples = with_inlined(true);
        let (mut tree, mut places) = Tree::new(&samples);
        let before = places.clone();
        let weights: Vec<u64> = places
            .iter()
            .map(|&place| if path(&tree, place).ends_with(&["kernel".to_owned()]) { 1 } else { 5 })
            .collect();
        let most = tree.nodes.len() - 1;
        assert_eq!(tree.cut_to(most, &mut places, &weights), 1);
        let expected = [
            "g",
            "main f outer* inner*",
            "main f outer* inner* f outer* inner*",
            "main f outer* inner* g",
            "main f outer* inner* g (rare stacks)",
        ];
        assert_eq!(paths(&tree, &places), expected);
        let functions =
            |places: &[Place]| places.iter().map(|one| one.function).collect::<Vec<_>>();
        assert_eq!(functions(&places), functions(&before));
    }
}
