//! Does every added processor count, in whatever order Windows reports them?

use crate::client::{Client, client};
use halprof_tests::backend::unbroken;
use halprof_tests::requests::spec;
use nt_model::{Device, Violation};
use sim::machines::models::find;

const TOTAL_ISSUES: u32 = 2;
const ADDED: usize = 3;

#[test]
fn in_any_order() {
    let leaves = find("skylake").expect("a model").processors();
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let Some(mut client) = client("skylake", 1, 1) else { return };
        let number = client.run(spec(TOTAL_ISSUES), 0);
        unbroken(client.model.add_processors(&leaves[..ADDED], &order));
        client.work("instructions=300000,cycles=400000,processors=all");
        assert_eq!(client.counted(number), [300_000; 1 + ADDED], "{order:?}");
        assert_eq!(client.machine().processors, 1 + ADDED as u32);
        client.end();
    }
}

/// The last processor that is added gets no memory for its data: it is there all the same, and counts
/// nothing. Returns what each processor has counted.
pub(crate) fn the_last_one_without_memory(device: Device) -> Result<Vec<u64>, Violation> {
    let leaves = find("skylake").expect("a model").processors();
    let mut client = Client::on(device);
    // The next call that may fail gives it a number.
    client.model.machine.kernel.fail_after = Some(1);
    client.model.add_processor(&leaves[0])?;
    assert_eq!(client.model.machine.kernel.failed, ["ExAllocatePool2"]);
    let number = client.run(spec(TOTAL_ISSUES), 0);
    client.work("instructions=300000,cycles=400000,processors=all");
    let counted = client.counted(number);
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok(counted)
}

#[test]
fn without_memory() {
    let Some(client) = client("skylake", 2, 1) else { return };
    let counted = unbroken(the_last_one_without_memory(client.model));
    assert_eq!(counted, [300_000, 300_000, 0]);
}
