//! Figures derived from two counts, shown wherever both were counted.

/// A quantity, by the names of the sources that count it, best first.
type Quantity = &'static [&'static str];

const CYCLES: Quantity = &["TotalCycles", "UnhaltedCoreCycles", "FixedCycles", "Cycles"];
const REFERENCE_CYCLES: Quantity = &["UnhaltedReferenceCycles", "FixedReferenceCycles"];
const INSTRUCTIONS: Quantity = &[
    "TotalIssues",
    "InstructionRetired",
    "FixedInstructions",
    "FRRetiredx86Instructions",
];
const BRANCHES: Quantity = &[
    "BranchInstructions",
    "BranchInstructionRetired",
    "FRRetiredBranches",
];
const BRANCH_MISSES: Quantity = &[
    "BranchMispredictions",
    "BranchMispredictsRetired",
    "FRRetiredBranchesMispredicted",
];
const LLC_REFERENCES: Quantity = &["LLCReference"];
const LLC_MISSES: Quantity = &["CacheMisses", "LLCMisses"];
const L1D_ACCESSES: Quantity = &["L1dAccesses", "DcacheAccesses", "DCAccess"];
const L1D_MISSES: Quantity = &["L1dMisses", "DcacheMisses", "DCMiss"];
const L1I_FETCHES: Quantity = &["L1iFetches", "IcacheIssues", "ICFetch"];
const L1I_MISSES: Quantity = &["L1iMisses", "IcacheMisses", "ICMiss"];
const FP_OPERATIONS: Quantity = &["FpOperations", "FpInstructions", "FRRetiredFPUInstructions"];

/// A figure: so many of one quantity for each, hundred or thousand of another.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, for people.
    pub name: &'static str,
    /// Its unit, for people.
    pub unit: &'static str,
    /// 1, 100 or 1000.
    scale: f64,
    above: Quantity,
    below: Quantity,
}

const fn row(
    name: &'static str,
    unit: &'static str,
    scale: f64,
    above: Quantity,
    below: Quantity,
) -> Metric {
    Metric {
        name,
        unit,
        scale,
        above,
        below,
    }
}

const EACH: f64 = 1.0;
const PERCENT: f64 = 100.0;
const THOUSAND: f64 = 1000.0;

/// Every figure.
pub const METRICS: &[Metric] = &[
    row("instructions per cycle", "", EACH, INSTRUCTIONS, CYCLES),
    row(
        "core cycles per reference cycle",
        "",
        EACH,
        CYCLES,
        REFERENCE_CYCLES,
    ),
    row(
        "branches mispredicted",
        "%",
        PERCENT,
        BRANCH_MISSES,
        BRANCHES,
    ),
    row(
        "branch misses per 1000 instructions",
        "",
        THOUSAND,
        BRANCH_MISSES,
        INSTRUCTIONS,
    ),
    row(
        "last-level cache misses",
        "%",
        PERCENT,
        LLC_MISSES,
        LLC_REFERENCES,
    ),
    row(
        "last-level cache misses per 1000 instructions",
        "",
        THOUSAND,
        LLC_MISSES,
        INSTRUCTIONS,
    ),
    row(
        "L1 data cache misses",
        "%",
        PERCENT,
        L1D_MISSES,
        L1D_ACCESSES,
    ),
    row(
        "L1 data cache misses per 1000 instructions",
        "",
        THOUSAND,
        L1D_MISSES,
        INSTRUCTIONS,
    ),
    row(
        "L1 instruction cache misses",
        "%",
        PERCENT,
        L1I_MISSES,
        L1I_FETCHES,
    ),
    row(
        "floating-point operations per cycle",
        "",
        EACH,
        FP_OPERATIONS,
        CYCLES,
    ),
];

/// What a default measurement counts, as far as the machine has it and it runs at once.
///
/// Fixed counters come first: they leave the general ones to what only those can count.
pub const DEFAULT_QUANTITIES: &[&[&str]] = &[
    &["FixedCycles", "TotalCycles", "Cycles"],
    &["FixedInstructions", "TotalIssues"],
    BRANCHES,
    BRANCH_MISSES,
    LLC_REFERENCES,
    LLC_MISSES,
    L1D_ACCESSES,
    L1D_MISSES,
];

/// A figure of one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Derived {
    /// [`Metric::name`].
    pub name: &'static str,
    /// The figure.
    pub value: f64,
    /// [`Metric::unit`].
    pub unit: &'static str,
    /// Whether it is of user mode (`u`), of kernel mode (`k`), or of both (empty).
    pub filter: &'static str,
}

/// All figures that `counts`, pairs of a source's name with its filter and a value, are enough for.
#[must_use]
pub fn derive(counts: &[(&str, u128)]) -> Vec<Derived> {
    ["", "u", "k"]
        .into_iter()
        .flat_map(|filter| {
            METRICS
                .iter()
                .filter_map(move |metric| metric.derive(counts, filter))
        })
        .collect()
}

impl Metric {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio is shown with three decimals"
    )]
    fn derive(&self, counts: &[(&str, u128)], filter: &'static str) -> Option<Derived> {
        let above = value_of(self.above, counts, filter)?;
        let below = value_of(self.below, counts, filter).filter(|&value| value != 0)?;
        Some(Derived {
            name: self.name,
            value: self.scale * (above as f64) / (below as f64),
            unit: self.unit,
            filter,
        })
    }
}

fn value_of(quantity: Quantity, counts: &[(&str, u128)], filter: &str) -> Option<u128> {
    let matches = |name: &str, label: &str| {
        let (base, suffix) = label.split_once(':').unwrap_or((label, ""));
        let suffix = if suffix == "uk" { "" } else { suffix };
        base == name && suffix == filter
    };
    quantity.iter().find_map(|name| {
        let found = counts.iter().find(|(label, _)| matches(name, label));
        found.map(|&(_, value)| value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_need_both_parts_with_one_filter() {
        let figures = derive(&[
            ("TotalIssues", 3000),
            ("TotalCycles:uk", 1500),
            ("BranchMispredictions", 6),
            ("BranchInstructions:u", 100),
            ("LLCReference", 0),
            ("CacheMisses", 3),
        ]);
        let named: Vec<_> = figures
            .iter()
            .map(|figure| (figure.name, figure.value))
            .collect();
        assert_eq!(
            named,
            [
                ("instructions per cycle", 2.0),
                ("branch misses per 1000 instructions", 2.0),
                ("last-level cache misses per 1000 instructions", 1.0),
            ]
        );
    }

    #[test]
    fn the_first_name_of_a_quantity_wins() {
        let figures = derive(&[
            ("UnhaltedCoreCycles:u", 7),
            ("InstructionRetired:u", 30),
            ("TotalCycles:u", 10),
        ]);
        assert_eq!((figures[0].value, figures[0].filter), (3.0, "u"));
    }
}
