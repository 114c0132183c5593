//! Windows itself: the only folder of this crate with unsafe code.

mod driver;
mod privilege;
pub(crate) mod threads;

pub use driver::Driver;
pub use privilege::DebugPrivilege;
