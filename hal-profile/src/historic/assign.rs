//! NetBurst: sources that write registers before their CCCR, which others may write too, run together
//! only where all want the same values there.

use crate::cpu::counter::{Counter, MAX_COUNTERS};
use crate::historic::encode::Upstream;
use crate::plan::index::{PerSource, SourceIndex};
use crate::plan::slice::{Requirements, Slice};
use zerocopy::FromZeros;

/// Whether a source, or one of the slice's, writes such registers.
pub(crate) fn shares_registers(
    source: SourceIndex,
    slice: &Slice,
    all: &PerSource<Requirements>,
) -> bool {
    let shares = |source: SourceIndex| all[source].encoding.upstream.shares();
    shares(source) || Counter::each(slice.used).any(|counter| shares(slice.owner[counter]))
}

/// Puts a source into the slice: on a free counter where all agree, or by a search for counters for
/// all.
pub(crate) fn add(
    source: SourceIndex,
    slice: &mut Slice,
    all: &PerSource<Requirements>,
    steps: &mut u32,
) -> bool {
    let agrees = |counter: &Counter| {
        Counter::each(slice.used).all(|other| {
            let theirs = &all[slice.owner[other]].encoding.upstream;
            all[source].encoding.upstream.agrees(*counter, theirs, other)
        })
    };
    let mut free = Counter::each(all[source].counters & !slice.used);
    if let Some(counter) = free.find(agrees) {
        put(slice, source, counter);
        return true;
    }
    let solution = search(source, slice, all, steps);
    *slice = solution.unwrap_or(*slice);
    solution.is_some()
}

/// Tries every counter of every source by backtracking: each source in turn takes its next counter;
/// when one has none left, the one before it takes another. `None` if nothing is found, or not
/// within the steps that are left: without a bound, a long list could take years. It is a loop
/// because the driver's stack is small.
fn search(
    source: SourceIndex,
    slice: &Slice,
    all: &PerSource<Requirements>,
    steps: &mut u32,
) -> Option<Slice> {
    let upstream = |source: SourceIndex| -> &Upstream { &all[source].encoding.upstream };
    let mut sources = [source; MAX_COUNTERS];
    let mut count = 1;
    for (entry, counter) in sources.iter_mut().skip(1).zip(Counter::each(slice.used)) {
        *entry = slice.owner[counter];
        count += 1;
    }
    let mut left = [0; MAX_COUNTERS];
    let mut counters: [Counter; MAX_COUNTERS] = FromZeros::new_zeroed();
    let mut depth = 0;
    *left.first_mut()? = all[source].counters;
    while depth < count {
        *steps = steps.checked_sub(1)?;
        let (tried, current) = (left.get_mut(depth)?, *sources.get(depth)?);
        let Some(counter) = Counter::lowest(*tried) else {
            depth = depth.checked_sub(1)?;
            continue;
        };
        *tried &= !counter.global_bit();
        let agrees = sources.iter().zip(&counters).take(depth).all(|(&other, &theirs)| {
            theirs != counter && upstream(current).agrees(counter, upstream(other), theirs)
        });
        if agrees {
            *counters.get_mut(depth)? = counter;
            depth += 1;
            if let (Some(left), Some(&next)) = (left.get_mut(depth), sources.get(depth)) {
                *left = all[next].counters;
            }
        }
    }
    let mut solution = *slice;
    solution.used = 0;
    for (&source, &counter) in sources.iter().zip(&counters).take(count) {
        put(&mut solution, source, counter);
    }
    Some(solution)
}

fn put(slice: &mut Slice, source: SourceIndex, counter: Counter) {
    slice.owner[counter] = source;
    slice.used |= counter.global_bit();
}
