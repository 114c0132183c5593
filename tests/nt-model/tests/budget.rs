//! What does a request take, at most? The budget holds on every model, whatever is requested.

use crate::client::Client;
use crate::tool::MACHINES;
use halprof_tests::backend::unbroken;
use halprof_tests::driver;
use halprof_tests::requests::{bytes, configure, header, spec};
use halprof_tests::wire::{Reply, about, plain};
use nt_model::Violation;
use shared_types::ProfileSource;
use shared_types::request::session::{self, Spec};
use shared_types::request::source::{self, Source};
use shared_types::request::{RequestCode, counts, machine, samples};
use sim::machines::models::{self, MODELS, repeat};
use std::process::Command;

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

/// A client of a machine with one processor of each type.
fn asking(model: &str) -> Client {
    let all = models::find(model).expect("a model").processors();
    let ends = [all.first(), all.last()].map(|end| end.expect("a processor").clone());
    Client::of(&repeat(&ends, 2))
}

/// One request, which may be refused.
fn ask(client: &mut Client, code: RequestCode, input: &[u8]) -> Result<Reply, Violation> {
    client.try_send(&client.handle.clone(), code, input, 1 << 20)
}

/// Runs a session through its whole life, counting or sampling these; returns whether they were
/// configured.
fn live(client: &mut Client, flags: u32, specs: &[Spec]) -> Result<bool, Violation> {
    let number = client.open();
    let configured = ask(client, session::CONFIGURE, &configure(number, flags, specs))?;
    ask(client, session::START, &about(number))?;
    client.begin("instructions=3000000,cycles=4000000,branches=70000,processors=all");
    client.model.advance(1 << 40)?;
    for code in
        [counts::SNAPSHOT, samples::DRAIN, samples::STATISTICS, session::STOP, session::CLOSE]
    {
        ask(client, code, &about(number))?;
    }
    Ok(configured.error().is_none())
}

fn from(first: u32) -> Vec<u8> {
    bytes(&machine::From { header: header(0), first, reserved: 0 }, &[])
}

/// Every source that the machine can count.
fn all_sources(client: &mut Client) -> Result<Vec<Spec>, Violation> {
    let mut all: Vec<Source> = Vec::new();
    loop {
        let reply = ask(client, source::ENUMERATE, &from(all.len() as u32))?;
        all.extend(reply.elements::<machine::Page, Source>());
        if all.len() == reply.done::<machine::Page>().total as usize {
            let counted = all.iter().filter(|source| source.flags & Source::SUPPORTED != 0);
            return Ok(counted.map(|source| spec(source.id)).collect());
        }
    }
}

/// The requests about the machine.
fn look(client: &mut Client) -> Result<(), Violation> {
    for code in [machine::HELLO, machine::DESCRIBE] {
        ask(client, code, &plain(0))?;
    }
    for code in [machine::PROCESSORS, machine::REGISTERS, source::ENUMERATE] {
        ask(client, code, &from(0))?;
    }
    Ok(())
}

/// The model itself refuses a request above its limit ([`nt_model::cost`]), on the thread that makes
/// it and on each processor: so it is enough that each request is made, with all sources that a model
/// has and with lists as long as the wire can carry.
#[test]
fn no_list_takes_more_than_the_budget() {
    if driver::with_every_interface().is_none() {
        return;
    }
    let (mut over, mut configured) = (Vec::new(), 0);
    for model in MODELS {
        let mut client = asking(model.name);
        let all = look(&mut client).and_then(|()| all_sources(&mut client));
        let all = unbroken(all);
        let mut lists = vec![all.clone()];
        for list in [plain_sources, groups_of_one, groups_of_two, alternating] {
            lists.push(list(FULL));
        }
        // PLAN prepares any list as CONFIGURE does; its own part is a placement for each source.
        for specs in &lists[..2] {
            let planned = ask(&mut client, source::PLAN, &configure(0, 0, specs));
            over.extend(planned.err().map(|violation| format!("{}: {violation}", model.name)));
        }
        let counting = lists.iter().map(|specs| (0, specs));
        for (flags, specs) in counting.chain([(session::SAMPLE, &all)]) {
            match live(&mut client, flags, specs) {
                Ok(done) => configured += usize::from(done),
                Err(violation) => over.push(format!("{}: {violation}", model.name)),
            }
        }
    }
    assert!(over.is_empty(), "{}", over.join("\n"));
    assert!(configured > 3 * MODELS.len(), "{configured}");
}

/// The tool's own list of all sources, in as many passes as they need. On every model, each of these
/// sources is in the lists above.
#[test]
fn all_sources_in_passes() {
    if driver::with_every_interface().is_none() {
        return;
    }
    let mut failed = Vec::new();
    for machine in MACHINES {
        let ran = Command::new(env!("CARGO_BIN_EXE_nt-model"))
            .args(["--sys", SYS, "--machine", machine, "stat", "-e", "all"])
            .args(["--workload", "instructions=3000000,cycles=4000000"])
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        if !ran.status.success() {
            failed.push(format!("{machine}: {told}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
