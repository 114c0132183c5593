//! Does the driver count and sample what real code retires?

use halprof_tests::dumps;
use halprof_tests::requests::{self, ALL_RIGHTS};
use nt_model::Device;
use nt_model::device::File;
use nt_model::programs::{CODE, Program};

const SYS: &str = "../../target/driver/halprof.sys";

#[test]
fn smoke() {
    let file = std::fs::read(SYS).expect("cargo xtask sys");
    let leaves = sim::models::find("skylake").expect("a model").processors();
    let leaves = sim::models::repeat(&leaves[..1], 2);
    let mut device = Device::new(&file, &leaves, 1).expect("a machine");
    device.machine.feed_guest(0);
    assert_eq!(device.start().unwrap_or_else(|v| panic!("{v}")), 0);
    let program = Program::find("copy").unwrap();
    device.begin_programs(program, 1000).unwrap();
    let t = std::time::Instant::now();
    while device.advance(1 << 40).unwrap_or_else(|v| panic!("{v}")) {}
    println!("{:?} {} ns", t.elapsed(), device.elapsed_ns());
    for cpu in &device.machine.engine.bus().cpus {
        println!("{:?}", cpu.processor.counts());
    }
    println!("{:?}", (program.amounts)(1000));
}
