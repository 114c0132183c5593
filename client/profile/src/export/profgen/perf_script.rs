//! Branch records as `perf script` prints them.
//!
//! llvm-profgen reads two kinds of lines: for modules, which say where an image is in memory, and
//! for samples: an address, and the records, newest first. Of a PE file it uses the address of the
//! image and, as the offset, that of the code section relative to it (LLVM's pull request 83972,
//! 2024). It treats the code between neighbouring records of a line as executed, so records with a
//! gap between them are written on separate lines.

use super::{Outcome, Records};
use crate::aggregate::branches::Step;
use crate::file::Module;
use halprof_measure::Result;
use shared_types::Branch;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

/// Left out are modules whose files were not found or are not PE: they have records, but no line.
pub(super) fn write(records: &mut Records<'_>, out: &mut impl Write) -> Result<Outcome> {
    let mut used = BTreeSet::new();
    records.walk(|_, steps| used.extend(steps.iter().filter_map(|step| step.modules).flatten()))?;
    let recording = records.recording;
    let modules: BTreeMap<usize, (&Module, Option<u64>)> = used
        .into_iter()
        .filter_map(|index| {
            Some((index, (recording.modules.get(index)?, records.symbols.code_section(index))))
        })
        .collect();
    let omitted = modules.values().filter(|(_, section)| section.is_none());
    let omitted: BTreeSet<String> = omitted.map(|(of, _)| of.name.clone()).collect();
    let mut lines = Lines { modules, named: HashMap::new(), out };
    let mut written = Ok(());
    let kept = records.walk(|sample, steps| {
        if written.is_ok() {
            written = lines.sample(sample.process, sample.ip, steps);
        }
    })?;
    Ok((kept, omitted.into_iter().collect(), written))
}

struct Lines<'a, W> {
    /// The modules with records, each with the offset of its code.
    modules: BTreeMap<usize, (&'a Module, Option<u64>)>,
    /// Where each file is, as its last line said.
    named: HashMap<&'a str, u64>,
    out: &'a mut W,
}

impl<W: Write> Lines<'_, W> {
    fn sample(&mut self, process: u32, ip: u64, steps: &[Step]) -> io::Result<()> {
        for &module in steps.iter().filter_map(|step| step.modules.as_ref()).flatten() {
            self.module(process, module)?;
        }
        let mut open = false;
        for step in steps {
            if open && !step.joined {
                writeln!(self.out)?;
            }
            if step.modules.is_none() {
                open = false;
                continue;
            }
            if !(open && step.joined) {
                write!(self.out, "{ip:x}")?;
            }
            open = true;
            record(self.out, &step.branch)?;
        }
        if open {
            writeln!(self.out)?;
        }
        Ok(())
    }

    /// Writes where a module is, unless its last line still holds.
    fn module(&mut self, process: u32, index: usize) -> io::Result<()> {
        let Some(&(module, Some(section))) = self.modules.get(&index) else {
            return Ok(());
        };
        if self.named.insert(&module.name, module.start) == Some(module.start) {
            return Ok(());
        }
        let file = module.path.as_deref().unwrap_or(&module.name);
        let plain = |c: char| if c.is_control() { '_' } else { c };
        let file: String = file.chars().map(plain).collect();
        let (start, size) = (module.start, module.end.saturating_sub(module.start));
        writeln!(
            self.out,
            "PERF_RECORD_MMAP2 {process}/{process}: [{start:#x}({size:#x}) @ {section:#x} 00:00 0 0]: r-xp {file}"
        )
    }
}

fn record(out: &mut impl Write, branch: &Branch) -> io::Result<()> {
    let Branch { from, to, cycles, flags, .. } = *branch;
    let flag = |flag, name| if flags & flag == 0 { '-' } else { name };
    let predicted = match flag(Branch::MISPREDICTED, 'M') {
        '-' => flag(Branch::PREDICTED, 'P'),
        named => named,
    };
    let (transaction, abort) = (flag(Branch::TRANSACTION, 'X'), flag(Branch::ABORT, 'A'));
    write!(out, " {from:#x}/{to:#x}/{predicted}/{transaction}/{abort}/{cycles}")
}
