//! Windows itself: the only folder of this crate with unsafe code.

mod consumer;
mod driver;
mod etw;
mod live;
mod performance_counter;
mod privilege;
mod thread_name;
pub(crate) mod threads;

pub use driver::Driver;
pub use etw::{EtwCalls, tracer, windows_folder};
pub use live::live;
pub use privilege::{DebugPrivilege, elevated};
pub use thread_name::thread_name;
