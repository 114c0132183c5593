//! Windows itself: the only folder of this crate with unsafe code.

mod driver;
mod etw;
mod privilege;
pub(crate) mod threads;

pub use driver::Driver;
pub use etw::{EtwCalls, tracer, windows_folder};
pub use privilege::{DebugPrivilege, elevated};
