//! One instruction of a function, with what samples and branch records show of it.

use crate::aggregate::totals::Totals;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub address: u64,
    pub bytes: Vec<u8>,
    /// Its disassembly in Intel's syntax.
    pub text: String,
    /// The source file and line, if they are known.
    pub line: Option<(Arc<str>, u32)>,
    /// The functions inlined at this instruction, innermost first.
    pub inlined: Vec<Arc<str>>,
    /// Its samples, by source.
    pub sums: Vec<Totals>,
    pub jump: Jump,
    /// How often it was executed and branched, by source; zeros if no branch records show it.
    pub flows: Vec<Flow>,
}

/// Whether an instruction branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jump {
    #[default]
    Never,
    /// If its condition holds.
    Sometimes,
    /// A jump, call or return.
    Always,
}

/// The counts of one instruction, from the records of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// How often it was executed in recorded runs.
    pub executed: u64,
    /// How often it branched at the end of a run.
    pub taken: u64,
    /// How many of these branches had been predicted.
    pub predicted: u64,
    /// How many had been mispredicted.
    pub mispredicted: u64,
}
