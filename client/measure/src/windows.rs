//! Windows itself: the only folder of this crate with unsafe code.

mod driver;
pub mod privilege;

pub use driver::Driver;
