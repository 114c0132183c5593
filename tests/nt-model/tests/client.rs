//! A client of the driver on a machine.

use halprof_tests::driver;
use halprof_tests::wire::RawClient;
use nt_model::Device;
use sim::machines::models::{find, repeat};

/// A client of the driver.
pub(crate) type Client = RawClient<Device>;

/// A client of the shipped driver, started on this many processors of a model; `None` if it is not
/// built.
pub(crate) fn client(model: &str, processors: usize, seed: u64) -> Option<Client> {
    let leaves = repeat(&find(model).expect("a model").processors(), processors);
    let mut device = Device::new(&driver::file()?, &leaves, seed).expect("a machine");
    assert_eq!(device.start().unwrap_or_else(|violation| panic!("{violation}")), 0);
    Some(Client::on(device))
}
