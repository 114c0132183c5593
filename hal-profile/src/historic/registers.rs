//! The registers of Pentium, P6 and NetBurst, as the SDM of September 2016 has them.

pub mod netburst;
pub mod p6;
pub mod pentium;
