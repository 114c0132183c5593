//! Criterion with instructions beside time:
//! `cargo run --release -p halprof-c --example criterion -- --bench`.
//!
//! It counts with the installed driver or, without one, by Windows' own tracing; on other systems it
//! counts on a modelled machine. `HALPROF_MACHINE` names another machine. Criterion measures batches of
//! iterations, and each batch is counted as a whole.

use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{Criterion, Throughput};
use halprof_measure::Result;
use halprof_measure::regions::{CounterValues, Method, ThreadCounts};
use std::hint::black_box;

fn main() -> Result<()> {
    let machine = std::env::var("HALPROF_MACHINE").ok();
    bench(machine.as_deref(), &|| Criterion::default().configure_from_args())
}

/// One benchmark in two groups, because a `Criterion` measures one number.
pub(crate) fn bench(machine: Option<&str>, criterion: &dyn Fn() -> Criterion) -> Result<()> {
    // Without the driver, user and kernel mode are counted together.
    let instructions = Event::open(machine, "instructions:u");
    let instructions = instructions.or_else(|_| Event::open(machine, "instructions"))?;
    let counts = instructions.counts.clone();
    if counts.modelled() {
        eprintln!("modelled machine, not silicon");
    }
    if counts.method() == Method::Tracing {
        let (empty, spread) = (counts.subtracted(), counts.spread());
        eprintln!(
            "counted by context switches, with the kernel's work and interrupts; \
             an empty batch has {:?} and is subtracted; batches below 20 times {:?} say little",
            empty.values(),
            spread.values()
        );
    }
    let work = || sum(&counts);
    criterion().benchmark_group("time").bench_function("sum", |bencher| bencher.iter(work));
    let mut criterion = criterion().with_measurement(instructions);
    let mut group = criterion.benchmark_group("instructions");
    group.bench_function("sum", |bencher| bencher.iter(work));
    Ok(())
}

/// A modelled machine runs the workload that it is given; a real one does what the code does.
fn sum(counts: &ThreadCounts) -> u64 {
    if counts.modelled() {
        let done = counts.with_machine(|model| model.run("instructions=5000,cycles=2000"));
        return done.is_ok().into();
    }
    (0..1000u64).map(black_box).sum()
}

/// One event, as what criterion measures.
pub(crate) struct Event {
    counts: ThreadCounts,
    /// The event's name; and the name for each byte, bit and element.
    units: [&'static str; 4],
}

impl Event {
    /// Opens it for the thread that benchmarks.
    pub(crate) fn open(machine: Option<&str>, name: &str) -> Result<Self> {
        let counts = ThreadCounts::open(machine, name)?;
        // Criterion wants them for ever.
        let unit = |per| &*format!("{name}{per}").leak();
        Ok(Self { counts, units: ["", "/byte", "/bit", "/element"].map(unit) })
    }
}

impl Measurement for Event {
    type Intermediate = Option<CounterValues>;
    type Value = u64;

    fn start(&self) -> Option<CounterValues> {
        self.counts.read().ok()
    }

    /// Criterion takes no failure: what was missed, which is rare, is 0 and is said.
    fn end(&self, start: Option<CounterValues>) -> u64 {
        let passed = self.counts.read().ok().and_then(|now| now.since(&start?));
        let value = passed.and_then(|passed| passed.values().first().copied());
        value.unwrap_or_else(|| {
            eprintln!("{}: the counts of a batch were missed", self.units[0]);
            0
        })
    }

    fn add(&self, first: &u64, second: &u64) -> u64 {
        first.saturating_add(*second)
    }

    fn zero(&self) -> u64 {
        0
    }

    #[expect(clippy::cast_precision_loss, reason = "criterion calculates with such numbers")]
    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self
    }
}

/// The unit is the event's name.
impl ValueFormatter for Event {
    fn scale_values(&self, _typical: f64, _values: &mut [f64]) -> &'static str {
        self.units[0]
    }

    fn scale_throughputs(
        &self,
        _typical: f64,
        throughput: &Throughput,
        values: &mut [f64],
    ) -> &'static str {
        let [_, byte, bit, element] = self.units;
        let (amount, unit) = match *throughput {
            Throughput::Bytes(bytes) | Throughput::BytesDecimal(bytes) => (bytes, byte),
            Throughput::Bits(bits) => (bits, bit),
            Throughput::Elements(elements) | Throughput::ElementsAndBytes { elements, .. } => {
                (elements, element)
            }
        };
        for value in values {
            *value /= self.to_f64(&amount.max(1));
        }
        unit
    }

    fn scale_for_machines(&self, _values: &mut [f64]) -> &'static str {
        self.units[0]
    }
}
