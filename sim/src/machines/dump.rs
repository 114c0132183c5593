//! CPUID dumps of real machines: the text that AIDA64, EVEREST and InstLatx64 write, and the raw
//! output of Todd Allen's `cpuid -r`.
//!
//! A block is a run of answers. It starts at a header that names a processor, or where leaf 0
//! appears again. Each block is a separate processor, with one exception: a block under a header
//! whose number was seen before, and with the same APIC id, is that processor listed again (some
//! tools write a second section), and only adds what was missing. Two equal numbers with different
//! APIC ids are two processors in two groups; equal blocks under different numbers, or under none,
//! are two processors: a dual Pentium Pro shows the same leaves twice, because its initial APIC id
//! is not in them.

mod line;

use crate::cpu::cpuid::Leaves;
use hal_profile::cpu::machine::CpuidResult;
use line::Line;
use std::collections::BTreeMap;
use thiserror::Error;

/// The most processors in a machine: 32 groups of 64.
pub const MAX_PROCESSORS: usize = 2048;

/// Why a file is not a dump of a machine. Lines count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DumpError {
    /// Nothing but white space.
    #[error("the dump is empty")]
    Empty,
    /// No CPUID line, and bytes that do not occur in text.
    #[error("the dump is a binary file")]
    Binary,
    /// Text without a single CPUID line.
    #[error("the dump has no CPUID line")]
    NoCpuidLine,
    /// Headers that name processors, but no CPUID line below any of them.
    #[error("line {0}: the dump names a processor, but none has a CPUID line")]
    NoProcessor(usize),
    /// A CPUID line that cannot be read.
    #[error("line {0}: not a whole CPUID answer")]
    Malformed(usize),
    /// The last line ends in the middle of a CPUID answer.
    #[error("line {0}: the dump ends in the middle of a CPUID answer")]
    Truncated(usize),
    /// A processor without a leaf that every processor with CPUID has.
    #[error("line {line}: processor {processor} has no leaf {leaf}")]
    MissingLeaf {
        /// The processor's first line.
        line: usize,
        /// Its index, from 0.
        processor: usize,
        /// 0, or 1 if leaf 0 says that leaf 1 exists.
        leaf: u32,
    },
    /// Two different answers for the same leaf of one processor.
    #[error("line {line}: leaf {leaf:#x}, sub-leaf {subleaf:#x} contradicts line {first}")]
    Contradiction {
        /// The later line.
        line: usize,
        /// The earlier line.
        first: usize,
        leaf: u32,
        /// The sub-leaf; 0 where the leaf has none.
        subleaf: u32,
    },
    /// More processors than Windows supports.
    #[error("line {0}: more than {MAX_PROCESSORS} processors")]
    TooManyProcessors(usize),
    /// Processors of different vendors.
    #[error("line {line}: processor {processor} is of another vendor than processor 0")]
    Vendors {
        /// The processor's first line.
        line: usize,
        /// Its index, from 0.
        processor: usize,
    },
}

impl DumpError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::Binary | Self::NoCpuidLine | Self::NoProcessor(_) => {
                "Give the CPUID text of AIDA64 or InstLatx64, or the output of `cpuid -r`."
            }
            Self::Malformed(_) => {
                "A CPUID line reads `CPUID 0000000A: 07300804-00000000-00000000-00000603`."
            }
            Self::Truncated(_) => "The file was cut short: make or fetch the dump again.",
            Self::MissingLeaf { .. } => {
                "Each processor's block must have leaves 0 and 1: make or fetch the dump again."
            }
            Self::Contradiction { .. } => {
                "Separate the processors by lines `CPU#000`, `CPU#001`, or remove the wrong answer."
            }
            Self::TooManyProcessors(_) => "Windows has at most 2048 processors: shorten the dump.",
            Self::Vendors { .. } => "Give one machine for each file.",
        }
    }
}

/// The text of a dump of these processors, which [`parse`] reads.
pub fn text(processors: &[Leaves]) -> String {
    let mut text = String::new();
    for (index, leaves) in processors.iter().enumerate() {
        let answers = leaves.answers().map(|(leaf, subleaf, value)| {
            let CpuidResult { eax, ebx, ecx, edx } = value;
            let subleaf = subleaf.map_or(String::new(), |number| format!(" [SL {number:02X}]"));
            format!("CPUID {leaf:08X}: {eax:08X}-{ebx:08X}-{ecx:08X}-{edx:08X}{subleaf}\n")
        });
        text.extend([format!("CPU#{index:03}\n")]);
        text.extend(answers);
    }
    text
}

/// Reads a dump: one [`Leaves`] for each logical processor, in the order of the file.
///
/// Text may be ASCII, Latin-1, UTF-8 or UTF-16, with lines ended by LF or CRLF. Lines that do not
/// look like CPUID answers are skipped.
pub fn parse(bytes: &[u8]) -> Result<Vec<Leaves>, DumpError> {
    let text = decode(bytes);
    if text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty() {
        return Err(DumpError::Empty);
    }
    let blocks = blocks(&text)?;
    let Some(first) = blocks.first() else {
        return Err(if text.contains('\0') { DumpError::Binary } else { DumpError::NoCpuidLine });
    };
    if blocks.iter().all(|block| block.answers.is_empty()) {
        return Err(DumpError::NoProcessor(first.line));
    }
    let processors = processors(blocks)?;
    check(&processors)?;
    Ok(processors.into_iter().map(Block::into_leaves).collect())
}

/// Recognises UTF-16 by its byte-order mark or by the zero next to the first letter; reads anything
/// else byte by byte, since only ASCII matters.
fn decode(bytes: &[u8]) -> String {
    let start = [0, 1, 2, 3].map(|at| bytes.get(at).copied().unwrap_or_default());
    let unit: fn([u8; 2]) -> u16 = match start.map(|byte| byte != 0) {
        _ if start.starts_with(b"\xFF\xFE") => u16::from_le_bytes,
        _ if start.starts_with(b"\xFE\xFF") => u16::from_be_bytes,
        [true, false, true, false] => u16::from_le_bytes,
        [false, true, false, true] => u16::from_be_bytes,
        _ => {
            let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
            return text.iter().copied().map(char::from).collect();
        }
    };
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .filter(|c| *c != '\u{feff}')
        .collect()
}

#[derive(Clone, Copy)]
struct Answer {
    value: CpuidResult,
    line: usize,
}

/// A run of answers, by leaf and sub-leaf; a leaf without sub-leaves is stored as sub-leaf 0.
struct Block {
    number: Option<u32>,
    line: usize,
    answers: BTreeMap<(u32, u32), Answer>,
}

fn blocks(text: &str) -> Result<Vec<Block>, DumpError> {
    let last = text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0').lines().count();
    let mut blocks: Vec<Block> = Vec::new();
    let mut raw = false;
    for (line, content) in (1..).zip(text.lines()) {
        match line::read(content, raw) {
            Line::Processor(number) => blocks.push(Block::new(number, line)),
            Line::Answer { leaf, subleaf, value } => {
                raw |= content.trim_start().starts_with("0x");
                let number = blocks.last().and_then(|block| block.number);
                if blocks.last().is_none_or(|block| leaf == 0 && block.has(0)) {
                    blocks.push(Block::new(number, line));
                }
                if let Some(block) = blocks.last_mut() {
                    block.add(leaf, subleaf, Answer { value, line })?;
                }
            }
            Line::Malformed if line == last => return Err(DumpError::Truncated(line)),
            Line::Malformed => return Err(DumpError::Malformed(line)),
            Line::Other => {}
        }
    }
    Ok(blocks)
}

/// Merges blocks that list a processor again into its first block, and drops blocks without
/// answers.
fn processors(blocks: Vec<Block>) -> Result<Vec<Block>, DumpError> {
    let mut processors: Vec<Block> = Vec::new();
    let mut by_number: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for block in blocks.into_iter().filter(|block| !block.answers.is_empty()) {
        let known = block.number.map(|number| by_number.entry(number).or_default());
        let same = known.as_deref().and_then(|known| {
            known.iter().copied().find(|&index| processors[index].may_be(&block))
        });
        if let Some(index) = same {
            processors[index].join(&block)?;
            continue;
        }
        if processors.len() == MAX_PROCESSORS {
            return Err(DumpError::TooManyProcessors(block.line));
        }
        if let Some(known) = known {
            known.push(processors.len());
        }
        processors.push(block);
    }
    Ok(processors)
}

fn check(processors: &[Block]) -> Result<(), DumpError> {
    for (processor, block) in processors.iter().enumerate() {
        let line = block.line;
        let missing = |leaf| DumpError::MissingLeaf { line, processor, leaf };
        let highest = block.get(0, 0).ok_or(missing(0))?.eax;
        if highest >= 1 && !block.has(1) {
            return Err(missing(1));
        }
        if block.vendor() != processors[0].vendor() {
            return Err(DumpError::Vendors { line, processor });
        }
    }
    Ok(())
}

impl Block {
    fn new(number: Option<u32>, line: usize) -> Self {
        Self { number, line, answers: BTreeMap::new() }
    }

    fn get(&self, leaf: u32, subleaf: u32) -> Option<CpuidResult> {
        self.answers.get(&(leaf, subleaf)).map(|answer| answer.value)
    }

    fn has(&self, leaf: u32) -> bool {
        self.subleaves(leaf) > 0
    }

    fn subleaves(&self, leaf: u32) -> u32 {
        self.answers.range((leaf, 0)..=(leaf, u32::MAX)).count() as u32
    }

    fn vendor(&self) -> Option<[u32; 3]> {
        self.get(0, 0).map(|leaf| [leaf.ebx, leaf.edx, leaf.ecx])
    }

    /// The x2APIC id of leaf 0x0B, or the initial APIC id of leaf 1 (EBX[31:24]).
    fn apic_id(&self) -> Option<u32> {
        let extended = self.get(0xB, 0).filter(|topology| topology.ebx != 0);
        extended.map(|topology| topology.edx).or_else(|| self.get(1, 0).map(|leaf| leaf.ebx >> 24))
    }

    /// Whether `later`, under the same number, can be the same processor.
    fn may_be(&self, later: &Self) -> bool {
        match (self.apic_id(), later.apic_id()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        }
    }

    /// Adds an answer. EVEREST lists the sub-leaves of a leaf one after the other without numbering
    /// them, so they are counted. (It omits sub-leaf 1 of leaf 0x0D, which nothing here reads.)
    fn add(&mut self, leaf: u32, subleaf: Option<u32>, answer: Answer) -> Result<(), DumpError> {
        let subleaf = match subleaf {
            Some(subleaf) => subleaf,
            None if has_subleaves(leaf) => self.subleaves(leaf),
            None => 0,
        };
        self.put((leaf, subleaf), answer)
    }

    fn join(&mut self, again: &Self) -> Result<(), DumpError> {
        again.answers.iter().try_for_each(|(&key, &answer)| self.put(key, answer))
    }

    /// Keeps the first answer; a later one must not contradict it.
    fn put(&mut self, key: (u32, u32), answer: Answer) -> Result<(), DumpError> {
        let first = *self.answers.entry(key).or_insert(answer);
        let (leaf, subleaf) = key;
        if lasting(leaf, first.value) == lasting(leaf, answer.value) {
            return Ok(());
        }
        Err(DumpError::Contradiction { line: answer.line, first: first.line, leaf, subleaf })
    }

    fn into_leaves(self) -> Leaves {
        let mut leaves = Leaves::default();
        for (&(leaf, subleaf), answer) in &self.answers {
            // A leaf that is newer than the table has sub-leaves if the dump numbers several.
            if has_subleaves(leaf) || self.subleaves(leaf) > 1 {
                leaves.insert_subleaf(leaf, subleaf, answer.value);
            } else {
                leaves.insert(leaf, answer.value);
            }
        }
        leaves
    }
}

/// The part of an answer that is the same whenever it is read and on every thread of a processor.
///
/// Left out: the initial APIC id, OSXSAVE and the APIC flag of leaf 1; OSPKE of leaf 7; leaf 2,
/// which early processors answer in rotation; leaves 6 (power settings), 0x0B, 0x1F, 0x8000001E,
/// 0x80000026 (topology of the executing thread) and 0x0D (sizes depend on XCR0).
fn lasting(leaf: u32, value: CpuidResult) -> CpuidResult {
    match leaf {
        1 => CpuidResult {
            ebx: value.ebx & 0x00FF_FFFF,
            ecx: value.ecx & !(1 << 27),
            edx: value.edx & !(1 << 9),
            ..value
        },
        7 => CpuidResult { ecx: value.ecx & !(1 << 4), ..value },
        2 | 6 | 0xB | 0xD | 0x1F | 0x8000001E | 0x80000026 => CpuidResult::default(),
        _ => value,
    }
}

/// Whether the leaf depends on ECX (Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E).
fn has_subleaves(leaf: u32) -> bool {
    matches!(
        leaf,
        4 | 7 | 0xB | 0xD | 0xF | 0x10 | 0x12 | 0x14 | 0x17 | 0x18 | 0x1B | 0x1D
            ..=0x20 | 0x23 | 0x24 | 0x27 | 0x28 | 0x8000001D | 0x80000020 | 0x80000026
    )
}

#[cfg(test)]
mod tests;
