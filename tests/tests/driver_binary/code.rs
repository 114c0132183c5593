//! The driver's code: where control flows from each of its functions.

use super::driver::Driver;
use super::entries::guarded_targets;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A function.
pub(crate) struct Function {
    pub(crate) names: Vec<String>,
    pub(crate) range: Range<u32>,
    pub(crate) instructions: Vec<Instruction>,
}

/// Where control can go from a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A function of the image.
    Function(u32),
    /// An imported function.
    Import(String),
    /// A run-time target that control-flow guard permits.
    Guarded,
    /// Anything at all.
    Anywhere,
}

/// One way out of a function.
pub(crate) struct Way {
    pub(crate) at: u32,
    pub(crate) to: Place,
}

impl Function {
    /// The first of its names.
    pub(crate) fn name(&self) -> &str {
        &self.names[0]
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name)
    }

    /// Whether one of its names begins with `prefix`.
    pub(crate) fn begins(&self, prefix: &str) -> bool {
        self.names.iter().any(|one| one.starts_with(prefix))
    }
}

impl Driver {
    /// The name of a place.
    pub(crate) fn name(&self, place: &Place) -> String {
        match place {
            Place::Function(at) => self
                .functions
                .get(at)
                .map_or_else(|| format!("code without a name at {at:#x}"), |f| f.name().to_owned()),
            Place::Import(name) => name.clone(),
            Place::Guarded => "a guarded target".to_owned(),
            Place::Anywhere => "an unguarded target".to_owned(),
        }
    }

    /// All ways out of a function, except returns and traps.
    pub(crate) fn ways(&self, function: &Function) -> Vec<Way> {
        let way = |(index, instruction): (usize, &Instruction)| {
            let to = match instruction.flow_control() {
                FlowControl::Call
                | FlowControl::UnconditionalBranch
                | FlowControl::ConditionalBranch => {
                    let target = instruction.near_branch_target() as u32;
                    let inside = function.range.contains(&target)
                        && instruction.flow_control() != FlowControl::Call;
                    (!inside).then_some(Place::Function(target))
                }
                FlowControl::IndirectBranch if is_table_jump(function, index) => None,
                FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    Some(self.through(function, index))
                }
                _ => None,
            };
            to.map(|to| Way { at: instruction.ip() as u32, to })
        };
        let instructions = function.instructions.iter().enumerate();
        instructions.filter_map(way).collect()
    }

    /// Where a jump or call through memory or a register goes.
    fn through(&self, function: &Function, index: usize) -> Place {
        let instruction = &function.instructions[index];
        if instruction.op0_kind() == OpKind::Register {
            // A guarded call at a function's end loads the guard's pointer before it restores
            // registers.
            let load = definition(function, index, instruction.op0_register());
            let guarded = load.is_some_and(|load| {
                load.mnemonic() == Mnemonic::Mov
                    && load.op1_kind() == OpKind::Memory
                    && self.slot(load) == Place::Guarded
            });
            return if guarded { Place::Guarded } else { Place::Anywhere };
        }
        self.slot(instruction)
    }

    /// The memory that an instruction names: what it points to.
    fn slot(&self, instruction: &Instruction) -> Place {
        if !instruction.is_ip_rel_memory_operand() {
            return Place::Anywhere;
        }
        let slot = instruction.ip_rel_memory_address() as u32;
        if slot == self.guard.dispatch {
            return Place::Guarded;
        }
        let import = self.imports.iter().find(|import| import.slot == slot);
        import.map_or(Place::Anywhere, |import| Place::Import(import.name.clone()))
    }

    /// Everything that can be reached from a function, each with the chain of names that leads to it.
    pub(crate) fn reach(&self, entry: u32) -> BTreeMap<Place, String> {
        let mut reached = BTreeMap::new();
        let mut left = vec![(Place::Function(entry), String::new())];
        while let Some((place, before)) = left.pop() {
            let chain = format!("{before}{}", self.name(&place));
            if reached.insert(place.clone(), chain.clone()).is_some() {
                continue;
            }
            if let Place::Function(at) = place
                && let Some(function) = self.functions.get(&at)
            {
                let callees = self.callees(function).into_iter();
                left.extend(callees.map(|to| (to, format!("{chain} -> "))));
            }
        }
        reached
    }

    /// The places that a function goes to, with the targets of guarded calls that are known.
    pub(crate) fn callees(&self, function: &Function) -> BTreeSet<Place> {
        let mut callees = BTreeSet::new();
        for way in self.ways(function) {
            let guarded = way.to == Place::Guarded;
            let targets = if guarded { guarded_targets(self, function) } else { Vec::new() };
            if targets.is_empty() {
                callees.insert(way.to);
            }
            callees.extend(targets.into_iter().map(Place::Function));
        }
        callees
    }
}

/// How many instructions before a jump its register may be loaded.
const LOADED_BEFORE: usize = 40;

/// The instruction that gives a register the value that it has at instruction `index`, within
/// straight-line code.
fn definition(function: &Function, index: usize, register: Register) -> Option<&Instruction> {
    let before = &function.instructions[index.saturating_sub(LOADED_BEFORE)..index];
    let straight = before.iter().rev().take_while(|one| {
        !matches!(
            one.flow_control(),
            FlowControl::UnconditionalBranch
                | FlowControl::Return
                | FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::IndirectBranch
        )
    });
    let mut defines = straight.filter(|one| {
        one.op0_kind() == OpKind::Register
            && one.op0_register().full_register() == register.full_register()
            && !matches!(one.mnemonic(), Mnemonic::Cmp | Mnemonic::Test)
    });
    defines.next()
}

/// Whether a jump takes its target from a table of 32-bit offsets, as a `match` compiles to:
/// `movsxd a, [table + index*4]`, `add a, table`, `jmp a`. The compiler checks the bounds of the
/// index.
fn is_table_jump(function: &Function, index: usize) -> bool {
    let jump = &function.instructions[index];
    if jump.op0_kind() != OpKind::Register {
        return false;
    }
    let Some(add) = definition(function, index, jump.op0_register()) else {
        return false;
    };
    let add_at = function.instructions[..index].iter().rposition(|one| one.ip() == add.ip());
    let reads_table = |register| {
        let from = add_at.and_then(|at| definition(function, at, register));
        from.is_some_and(|one| one.mnemonic() == Mnemonic::Movsxd && one.memory_index_scale() == 4)
    };
    add.mnemonic() == Mnemonic::Add
        && add.op1_kind() == OpKind::Register
        && (reads_table(add.op0_register()) || reads_table(add.op1_register()))
}
