//! Where the instruction that made a counter overflow is, relative to the address of the sample.

/// What the address of a sample means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skid {
    /// `at-or-after` the event's instruction, in the order in which the code ran; `no-address`, or
    /// `unknown` for an interface that this version of halprof does not know.
    pub direction: &'static str,
    /// The skid as a sentence.
    pub explanation: &'static str,
}

/// What is known for each interface. The address is the one to which the interrupt returns (Intel
/// SDM volume 3, the APIC and performance monitoring; AMD APM volume 2, performance-monitor
/// counters).
const INTERFACES: &[(&str, &str, &str)] = &[
    ("Emon", AT_OR_AFTER, SOME),
    ("Amd64", AT_OR_AFTER, SOME),
    ("P6", AT_OR_AFTER, SOME),
    (
        "NetBurst",
        AT_OR_AFTER,
        "Skid: the event happened before the address shown; NetBurst raises the interrupt one event \
         after the overflow.",
    ),
    ("ETW", UNKNOWN, "Skid: unknown (sampled by Windows)."),
];

const AT_OR_AFTER: &str = "at-or-after";
const UNKNOWN: &str = "unknown";

const SOME: &str =
    "Skid: the event happened at or before the address shown, usually by a few instructions.";

impl Skid {
    /// For the samples of an interface, `addressed` of which have an address.
    pub fn of(interface: &str, samples: u64, addressed: u64) -> Self {
        if samples != 0 && addressed == 0 {
            let explanation = "The samples have no address: modules and functions are unknown.";
            return Self { direction: "no-address", explanation };
        }
        let known = INTERFACES.iter().find(|&&(name, ..)| name == interface);
        let &(_, direction, explanation) =
            known.unwrap_or(&("", UNKNOWN, "Skid: unknown for this interface."));
        Self { direction, explanation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_that_samples_is_known() {
        for interface in ["Emon", "Amd64", "P6", "NetBurst"] {
            assert_eq!(Skid::of(interface, 10, 10).direction, "at-or-after");
        }
        assert_eq!(Skid::of("Emon", 10, 0).direction, "no-address");
        assert_eq!(Skid::of("Emon", 0, 0).direction, "at-or-after");
        assert_eq!(Skid::of("Pentium", 1, 1).direction, "unknown");
    }
}
