//! Windows itself: the only folder of this crate with unsafe code.

mod driver;
pub(crate) mod threads;

pub use driver::Driver;
