//! Does every added processor count, in whatever order Windows reports them?

use crate::client::client;
use halprof_tests::backend::unbroken;
use halprof_tests::requests::spec;
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
