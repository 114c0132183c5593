//! A client of the driver on a machine.

use halprof_tests::driver;
use halprof_tests::wire::{RawClient, leaves};
use nt_model::Device;

/// A client of the driver.
pub(crate) type Client = RawClient<Device>;

/// The shipped driver on this many processors of a model, not loaded; `None` if it is not built.
pub(crate) fn device(model: &str, processors: usize, seed: u64) -> Option<Device> {
    let file = driver::file()?;
    Some(Device::new(&file, &leaves(model, processors), seed).expect("a machine"))
}

/// A client of the same, started.
pub(crate) fn client(model: &str, processors: usize, seed: u64) -> Option<Client> {
    let mut device = device(model, processors, seed)?;
    assert_eq!(device.start().unwrap_or_else(|violation| panic!("{violation}")), 0);
    Some(Client::on(device))
}
