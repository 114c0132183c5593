//! What does a request take, at most? The budget holds on every model, whatever is requested.

use halprof_tests::driver;
use halprof_tests::requests::{ALL_RIGHTS, bytes, configure, header, spec};
use nt_model::device::File;
use nt_model::{Device, Violation};
use shared_types::request::session::{self, Opened, Session, Spec};
use shared_types::request::{Plain, RequestCode, counts, machine, samples, source};
use shared_types::{ProfileSource, ReplyHeader};
use sim::load::workload;
use sim::machines::models::{MODELS, repeat};
use std::process::Command;
use zerocopy::FromBytes;

const SYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/driver/halprof-historic.sys");
/// As many as a request can carry.
const FULL: u64 = 256;

/// Instructions retired, with one unit mask after the other.
fn raw(number: u64) -> Spec {
    Spec { raw: 0xC0 | number << 8, ..spec(ProfileSource::RAW.0) }
}

fn plain_sources(count: u64) -> Vec<Spec> {
    (0..count).map(raw).collect()
}

fn groups_of_one(count: u64) -> Vec<Spec> {
    let grouped = |number| Spec { group: number as u16 + 1, ..raw(number) };
    (0..count).map(grouped).collect()
}

fn groups_of_two(count: u64) -> Vec<Spec> {
    let grouped = |number| Spec { group: number as u16 / 2 + 1, ..raw(number) };
    (0..count).map(grouped).collect()
}

/// Neighbours need different counters.
fn alternating(count: u64) -> Vec<Spec> {
    let on_one = |number| Spec { counters: 1u32 << (number % 2), ..raw(number) };
    (0..count).map(on_one).collect()
}

struct Asking {
    device: Device,
    file: File,
}

impl Asking {
    fn new(file: &[u8], model: &str) -> Self {
        let model = sim::machines::models::find(model).expect("a model");
        // One of each kind, if there are two.
        let all = model.processors();
        let ends = [all.first(), all.last()].map(|end| end.expect("a processor").clone());
        let leaves = repeat(&ends, 2);
        let mut device = Device::new(file, &leaves, 1).expect("a machine");
        assert_eq!(device.start().expect("no rule"), 0);
        let file = device.open(4096, ALL_RIGHTS).expect("a handle");
        Self { device, file }
    }

    /// The reply, and the error in it.
    fn ask(&mut self, code: RequestCode, input: &[u8]) -> Result<(Vec<u8>, u32), Violation> {
        let mut output = vec![0; 1 << 20];
        let device = &mut self.device;
        let (_, length) = device.device_control(&self.file, code, input, &mut output)?;
        output.truncate(length);
        let error = ReplyHeader::read_from_prefix(&output).map_or(0, |(header, _)| header.error);
        Ok((output, error))
    }

    fn plain(&mut self, code: RequestCode, flags: u32) -> Result<Vec<u8>, Violation> {
        let header = header(flags);
        Ok(self.ask(code, &bytes(&Plain { header }, &[]))?.0)
    }

    /// Runs a session through its whole life, counting or sampling these; returns whether they were
    /// configured.
    fn live(&mut self, flags: u32, specs: &[Spec]) -> Result<bool, Violation> {
        let opened = self.plain(session::OPEN, session::KERNEL)?;
        let number = Opened::read_from_prefix(&opened).map_or(0, |(opened, _)| opened.session);
        let (_, error) = self.ask(session::CONFIGURE, &configure(number, flags, specs))?;
        self.ask(source::PLAN, &configure(0, flags, specs))?;
        let about = Session { header: header(0), session: number, reserved: 0 };
        let about = bytes(&about, &[]);
        self.ask(session::START, &about)?;
        let work = "instructions=3000000,cycles=4000000,branches=70000,processors=all";
        self.device.begin(&workload::parse(work).expect("a workload"));
        self.device.advance(1 << 40)?;
        for code in
            [counts::SNAPSHOT, samples::DRAIN, samples::STATISTICS, session::STOP, session::CLOSE]
        {
            self.ask(code, &about)?;
        }
        Ok(error == 0)
    }

    /// Every source that the machine can count.
    fn all_sources(&mut self) -> Result<Vec<Spec>, Violation> {
        let mut specs = Vec::new();
        let mut from = machine::From { header: header(0), first: 0, reserved: 0 };
        loop {
            let (reply, _) = self.ask(source::ENUMERATE, &bytes(&from, &[]))?;
            let (page, rows) = machine::Page::read_from_prefix(&reply).expect("a page");
            let rows = rows.chunks_exact(size_of::<source::Source>());
            let rows = rows.map(|row| source::Source::read_from_bytes(row).expect("a row"));
            let counted = rows.filter(|row| row.flags & source::Source::SUPPORTED != 0);
            specs.extend(counted.map(|row| spec(row.id)));
            from.first += page.count;
            if from.first >= page.total {
                return Ok(specs);
            }
        }
    }

    fn look(&mut self) -> Result<(), Violation> {
        self.plain(machine::HELLO, 0)?;
        self.plain(machine::DESCRIBE, 0)?;
        let from = machine::From { header: header(0), first: 0, reserved: 0 };
        for code in [machine::PROCESSORS, machine::REGISTERS, source::ENUMERATE] {
            self.ask(code, &bytes(&from, &[]))?;
        }
        Ok(())
    }
}

/// The model itself refuses a request above its limit ([`nt_model::cost`]), on the thread that makes
/// it and on each processor: so it is enough that each request is made, with all sources that a model
/// has and with lists as long as the wire can carry.
#[test]
fn no_list_takes_more_than_the_budget() {
    let Some(file) = driver::with_every_interface() else {
        return;
    };
    let (mut over, mut configured) = (Vec::new(), 0);
    for model in MODELS {
        let mut asking = Asking::new(&file, model.name);
        let all = asking.look().and_then(|()| asking.all_sources()).expect("within the budget");
        let mut lists = vec![all.clone()];
        for list in [plain_sources, groups_of_one, groups_of_two, alternating] {
            lists.push(list(FULL));
        }
        let counting = lists.iter().map(|specs| (0, specs));
        for (flags, specs) in counting.chain([(session::SAMPLE, &all)]) {
            match asking.live(flags, specs) {
                Ok(done) => configured += usize::from(done),
                Err(violation) => over.push(format!("{}: {violation}", model.name)),
            }
        }
        for (code, most) in &asking.device.machine.budget.most {
            let known = RequestCode::ALL.iter().find(|(known, _)| known.0 == *code);
            println!("{:12} {:10} {most:?}", model.name, known.map_or("unknown", |(_, name)| name));
        }
    }
    assert!(over.is_empty(), "{}", over.join("\n"));
    assert!(configured > 3 * MODELS.len(), "{configured}");
}

/// The tool's own list of all sources, in as many passes as they need.
#[test]
fn all_sources_on_every_model() {
    if driver::with_every_interface().is_none() {
        return;
    }
    let mut failed = Vec::new();
    for model in MODELS {
        let ran = Command::new(env!("CARGO_BIN_EXE_nt-model"))
            .args(["--sys", SYS, "--machine", model.name, "stat", "-e", "all"])
            .args(["--workload", "instructions=3000000,cycles=4000000"])
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        if !ran.status.success() {
            failed.push(format!("{}: {told}", model.name));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
