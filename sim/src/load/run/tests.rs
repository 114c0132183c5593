use super::*;
use crate::load::workload::parse;
use crate::machines::models;

/// Processors with a timer of a quarter of a second and nothing that counts.
struct Ticking {
    cpus: Vec<Cpu>,
    ticks: u64,
}

impl Answering for Ticking {
    fn cpus(&mut self) -> &mut [Cpu] {
        &mut self.cpus
    }

    fn timer_period(&self) -> Option<u32> {
        Some(2_500_000)
    }

    fn interrupt(&mut self, _: usize, _: &Interrupted) {}

    fn tick(&mut self, _: usize) {
        self.ticks += 1;
    }

    fn short(&mut self, _: ShortChange) {}
}

/// How often the timers of a machine tick in a workload.
fn ticks(processors: usize, events: u64) -> u64 {
    let leaves = models::find("skylake").expect("a model").processors();
    let leaves = models::repeat(&leaves, processors);
    let cpus = leaves.into_iter().map(|leaves| Cpu::new(Processor::new(leaves))).collect();
    let mut machine = Ticking { cpus, ticks: 0 };
    let workload = format!("instructions={events},cycles={events},processors=all");
    let workload = parse(&workload).expect("a workload");
    Run::begin(&workload, &mut machine).advance(&mut machine, u64::MAX);
    machine.ticks
}

/// More of the same takes no more steps, however many processors there are.
#[test]
fn a_long_workload_has_no_more_ticks_than_a_shorter_one() {
    for processors in [256, 2048] {
        let (short, long) =
            (ticks(processors, 4_000_000_000_000), ticks(processors, 4 * 10_u64.pow(15)));
        assert!(short > 0, "{processors}");
        assert!(long <= 10 * short, "{processors}: {short} ticks, then {long}");
        assert!(long <= 5_000_000, "{processors}: {long}");
    }
}
