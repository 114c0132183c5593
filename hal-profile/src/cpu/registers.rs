//! Registers as the manuals describe them; [`crate::cpu::machine::Machine`] performs the accesses.
//!
//! This repository cites the manuals by the names below, with the titles of sections and tables:
//! chapter numbers change from one edition to the next.
//!
//! | name | manual | order number |
//! |---|---|---|
//! | SDM vol. 2 | Intel 64 and IA-32 Architectures Software Developer's Manual, instructions | 325383 |
//! | SDM vol. 3 | the same, system programming | 325384 |
//! | SDM vol. 4 | the same, model-specific registers | 335592 |
//! | APM vol. 2 | AMD64 Architecture Programmer's Manual, system programming | 24593 |
//! | APM vol. 3 | the same, instructions | 24594 |
//! | PPR | AMD's Processor Programming Reference for a family and its models | one for each |
//!
//! Pentium, P6 and NetBurst follow the SDM of September 2016 (`historic`).

pub mod amd;
pub mod apic;
pub mod cpuid;
pub mod intel;
