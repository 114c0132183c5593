//! All external tests of the processors, in one program.

mod apic;
mod kvm_unit_tests;
