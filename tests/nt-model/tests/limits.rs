//! Does the shipped driver respect the limits of events, or refuse with the same reason as the
//! service in process?

use halprof_measure::Connection;
use halprof_tests::limits::{hold, limits};
use nt_model::transport::{Broken, DriverTransport};
use sim::machines::models;

#[test]
fn what_an_event_is_limited_to_is_obeyed_or_refused() {
    let Some(file) = halprof_tests::driver::with_every_interface() else {
        return;
    };
    let limits = limits();
    for (index, limit) in limits.iter().enumerate() {
        // One machine is used for all rows of its model.
        if limits[..index].iter().any(|other| other.model == limit.model) {
            continue;
        }
        let model = models::find(limit.model).expect("a built-in model");
        let leaves = models::repeat(&model.processors(), 1);
        let broken = Broken::default();
        let transport = DriverTransport::open(&file, &leaves, 1, None, &broken);
        let mut connection = Connection::new(transport.expect("a device")).expect("it greets");
        for same in limits.iter().filter(|other| other.model == limit.model) {
            hold(same, &mut connection);
        }
        assert!(broken.borrow().is_none(), "{:?}", broken.borrow());
    }
}
