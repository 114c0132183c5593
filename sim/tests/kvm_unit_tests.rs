//! The checklist of kvm-unit-tests' `x86/pmu.c` and of Linux's `pmu_counters_test.c`, item by item:
//! one named test each, run on every layout where it applies.
//!
//! Left for later, because the model lacks what they test:
//! - LBR: PDCM and a format; FROM and TO registers and their depth; DEBUGCTL[0].
//! - PEBS: all items.
//! - TSX: in-transaction cycle qualifiers. (Their reserved bits are tested here.)
//! - A hypervisor's emulation: RDPMC and forced-emulation instructions and branches; 0xC1 and 0xC2
//!   of absent counters, which KVM lets through and silicon does not.
//! - Top-down slots: no workload has an amount for them.

mod availability;
mod counting;
mod discovery;
mod layout;
mod overflow;
mod own;
mod rdpmc;
mod widths;
