//! All tests of the processors from outside, in one program.

mod apic;
mod kvm_unit_tests;
