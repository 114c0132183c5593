//! Is each mistake in a driver caught by the rule that exists for it, and the shipped driver by
//! none?
//!
//! variants.toml lists the mistakes.

use crate::client::Client;
use crate::{added, faults, left, ticks};
use hal_profile::service::About;
use halprof_tests::backend::{Backend, unbroken};
use halprof_tests::branches::recorders;
use halprof_tests::requests;
use nt_model::load::Action;
use nt_model::traffic::nothing_is_held;
use nt_model::{Device, Violation};
use serde::Deserialize;
use shared_types::NtStatus;
use shared_types::request::counts::{SNAPSHOT_BYTES_MAX, SnapshotPage};
use shared_types::request::session::{self, Configure, SAMPLE, Session, Spec};
use shared_types::request::{Plain, RequestCode, counts, machine, rdpmc, samples};
use sim::cpu::Cpu;
use sim::cpu::cpuid::Leaves;
use sim::cpu::event::{Code, Event};
use sim::load::workload::{self, Workload};
use sim::machine::Model;
use sim::machines;
use sim::machines::models::{find, repeat};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The driver without a mistake.
const SHIPPED: &str = "../../target/driver/halprof.sys";
/// Where `cargo xtask variants` puts the drivers with one mistake.
const VARIANTS: &str = "../../target/variants";
/// The driver's description of itself.
const ABOUT: About = About {
    driver_name: concat!("halprof.sys ", env!("CARGO_PKG_VERSION")),
    modelled: false,
    ring_bytes_max: 256 << 20,
};
/// Interrupts come some positions late, so that a residue is carried over.
const WORK: &str = "instructions=3000000,cycles=5000000,branches=70000,skid=300,processors=all";
/// The same with branches between an overflow and its interrupt, also in the kernel.
const BRANCHES: &str = "instructions=3000000,cycles=5000000,branches=700000,branch-misses=70000,\
    user=70,skid=300,processors=all";
const PROCESSORS: usize = 2;
/// Bytes of stack that the deepest callback of the control uses beyond those of the shipped driver, and
/// some room.
const WITHOUT_LTO: u64 = 1 << 10;
/// Instructions, and branches: no scenario uses more counters than every model has.
const SOURCES: [u32; 2] = [2, 6];
/// What a workload calls INST_RETIRED.ALL, and its select.
const RETIRED: (&str, u64) = ("retired", 0x01C0);
const RETIRED_WORK: &str =
    "instructions=3000000,cycles=5000000,branches=70000,retired=3000000,skid=300,processors=all";
/// The shortest period that a source may have.
const SHORTEST_PERIOD: u64 = 4096;
/// What a workload calls AMD's retired FLOPs, and their select.
const FLOPS: (&str, u64) = ("flops", 0xFF03);
const FLOPS_WORK: &str =
    "instructions=3000000,cycles=5000000,branches=70000,flops=3000000,skid=300,processors=all";
/// BranchInstructions, which no fixed counter counts.
const BRANCHES_ON_ANY: u32 = 6;
/// The first fixed counter (Intel).
const FIXED_INSTRUCTIONS: u32 = 0x8000_0100;
/// LVTPC's offset in the local APIC's page, and its mask bit.
const LVTPC: u32 = 0x340;
/// IA32_PERF_GLOBAL_CTRL, IA32_PERFEVTSEL0, and a select that someone else writes there.
const GLOBAL_CONTROL: u32 = 0x38F;
const SELECT_0: u32 = 0x186;
const CYCLES: u64 = 0x43_003C;
const LVTPC_MASK: u32 = 1 << 16;
/// The comparison with the service in process, instead of a rule.
const DIFFERENTIAL: &str = "differential";

#[derive(Deserialize)]
struct Table {
    variant: Vec<Variant>,
}

/// A row of variants.toml.
#[derive(Deserialize)]
struct Variant {
    name: String,
    wrong: String,
    scenario: String,
    model: String,
    #[serde(default)]
    seeds: Vec<u64>,
    /// If it shows in some orders only: one of this many seeds, from 1 on, must catch it.
    #[serde(default)]
    orders: u64,
    caught: String,
    edit: Vec<Edit>,
}

/// A change of the builder: of a text, or of the line after `// mistake: MARK`. What stands instead
/// is not read here.
#[derive(Deserialize)]
struct Edit {
    file: String,
    text: Option<String>,
    mark: Option<String>,
}

impl Variant {
    fn all_seeds(&self) -> impl Iterator<Item = u64> {
        self.seeds.iter().copied().chain(1..=self.orders)
    }

    /// What is wrong with how the built variant is caught; nothing if it is as the row says.
    fn judge(&self, file: &[u8]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut caught = false;
        for seed in self.all_seeds() {
            let outcome = run(file, &self.scenario, &self.model, seed);
            let as_said = outcome.caught_by() == Some(self.caught.as_str());
            caught |= as_said;
            let told = match outcome {
                _ if as_said => continue,
                Outcome::Clean if self.orders > 0 => continue,
                Outcome::Clean => "nobody sees it".to_owned(),
                Outcome::Broken(violation) => violation.to_string(),
                Outcome::Differs(where_) => format!("differential: {where_}"),
            };
            wrong.push(format!(
                "{} ({}), seed {seed}, by {}? {told}",
                self.name, self.wrong, self.caught
            ));
        }
        if !caught {
            wrong.push(format!("{}: no seed shows it", self.name));
        }
        wrong
    }
}

fn table() -> Vec<Variant> {
    let table: Table = toml::from_str(include_str!("../variants.toml")).expect("a table");
    table.variant
}

/// The result of a run.
#[derive(Debug)]
enum Outcome {
    Clean,
    Broken(Violation),
    Differs(String),
}

impl Outcome {
    fn caught_by(&self) -> Option<&'static str> {
        match self {
            Self::Clean => None,
            Self::Broken(violation) => Some(violation.rule.name()),
            Self::Differs(_) => Some(DIFFERENTIAL),
        }
    }
}

/// One step of a scenario.
enum Step {
    Do(Action),
    /// From here on the handle's client lacks SeDebugPrivilege.
    Unprivileged(u32),
    /// From here on there is memory for sample rings, or none.
    Rings(bool),
    /// The timer, which otherwise comes only once in 5 s.
    Tick,
    /// Another owner writes an MSR of the first processor.
    Write(u32, u64),
    /// The other owner turns its counter off.
    TurnOff,
}

fn ask(handle: u32, code: RequestCode, input: Vec<u8>) -> Step {
    Step::Do(Action::Request(handle, code, input, 4096))
}

/// A request whose only argument is a session's number.
fn about(handle: u32, code: RequestCode, session: u32) -> Step {
    let header = requests::header(0);
    let request = Session { header, session, reserved: 0 };
    ask(handle, code, requests::bytes(&request, &[]))
}

/// A handle's first session, which counts these sources in both modes.
fn configured(handle: u32, session: u32, flags: u32, sources: [u32; 2]) -> Vec<Step> {
    let header = requests::header(session::KERNEL);
    let open = requests::bytes(&Plain { header }, &[]);
    let specs = sources.map(requests::spec);
    let configure = requests::configure(session, flags, &specs);
    vec![
        Step::Do(Action::Open(handle)),
        ask(handle, session::OPEN, open),
        ask(handle, session::CONFIGURE, configure),
    ]
}

/// A running session in user mode that records this many branches with this filter.
fn recording(branches: u16, branch_filter: u16, privileged: bool) -> Vec<Step> {
    let session = session_number(1);
    let mut steps = configured(1, session, SAMPLE, SOURCES);
    let specs = SOURCES.map(|source| Spec { filter: Spec::USER, ..requests::spec(source) });
    let settings = requests::configuration(SAMPLE);
    let sources = specs.len() as u32;
    let head = Configure { session, sources, branches, branch_filter, ..settings };
    steps.pop();
    if !privileged {
        steps.push(Step::Unprivileged(1));
    }
    steps.push(ask(1, session::CONFIGURE, requests::bytes(&head, &specs)));
    steps.push(about(1, session::START, session));
    steps.push(Step::Do(Action::Begin));
    steps.push(advance());
    steps
}

/// A running session that samples the event of a raw select, and instructions. `period`: the events
/// between samples of it, or 0 for the default.
fn sampling_raw(select: u64, period: u64) -> Vec<Step> {
    let session = session_number(1);
    let mut steps = configured(1, session, SAMPLE, SOURCES);
    steps.pop();
    let raw = Spec { interval: period, ..Spec::of_raw(select) };
    let specs = [raw, requests::spec(SOURCES[0])];
    let configure = requests::configure(session, SAMPLE, &specs);
    steps.push(ask(1, session::CONFIGURE, configure));
    steps.push(about(1, session::START, session));
    steps.push(Step::Do(Action::Begin));
    steps.push(advance());
    steps
}

/// The number of the session in slot 0, used for the first, second... time.
fn session_number(uses: u32) -> u32 {
    uses << 8 | 1
}

fn running(handle: u32, session: u32, flags: u32, sources: [u32; 2]) -> Vec<Step> {
    let mut steps = configured(handle, session, flags, sources);
    steps.push(about(handle, session::START, session));
    steps.push(Step::Do(Action::Begin));
    steps.push(advance());
    steps
}

/// Not a multiple of the period of the timer, which reads all counters.
fn advance() -> Step {
    Step::Do(Action::Advance(900_000))
}

/// The steps of a scenario's client.
fn steps(scenario: &str) -> Vec<Step> {
    let first = session_number(1);
    let mut steps = match scenario {
        "sampling" | "alone" | "masked-before" => running(1, first, SAMPLE, SOURCES),
        "flops" => sampling_raw(FLOPS.1, 0),
        "retired" => sampling_raw(RETIRED.1, SHORTEST_PERIOD),
        "sampling-fixed" => running(1, first, SAMPLE, [BRANCHES_ON_ANY, FIXED_INSTRUCTIONS]),
        "branches" | "branches-sleep" => recording(8, Configure::TO_USER, true),
        "branches-kernel" => recording(8, Configure::TO_KERNEL, true),
        "branches-hidden" => recording(8, 0, false),
        "fixed" => running(1, first, 0, [SOURCES[0], FIXED_INSTRUCTIONS]),
        "changed-control" => {
            let mut steps = running(1, first, 0, SOURCES);
            steps.push(about(1, counts::SNAPSHOT, first));
            steps.push(Step::Write(GLOBAL_CONTROL, 0));
            steps
        }
        "changed-select" => {
            let mut steps = running(1, first, 0, SOURCES);
            for _ in 0..2 {
                steps.push(about(1, counts::SNAPSHOT, first));
                steps.push(Step::Write(SELECT_0, CYCLES));
                steps.push(advance());
            }
            steps
        }
        "failing-start" => {
            let mut steps = configured(1, first, SAMPLE, SOURCES);
            steps.push(Step::Rings(false));
            steps.push(about(1, session::START, first));
            steps
        }
        "client-killed" => {
            let mut steps = running(1, first, 0, SOURCES);
            steps.push(Step::Do(Action::Close(1)));
            let handle = running(2, session_number(2), 0, SOURCES);
            steps.extend(handle);
            steps.push(about(2, session::STOP, session_number(2)));
            steps
        }
        "refusals" => {
            let hello = Plain { header: requests::header(0) };
            let hello = requests::bytes(&hello, &[]);
            vec![
                Step::Do(Action::Open(1)),
                ask(1, machine::HELLO, hello),
                about(1, session::START, first),
                ask(1, machine::HELLO, vec![0; 3]),
                ask(1, RequestCode(machine::HELLO.0 + 0x1000), vec![0; 16]),
            ]
        }
        "rdpmc" | "rdpmc-sleep" => {
            let mut steps = configured(1, first, 0, SOURCES);
            steps.push(about(1, rdpmc::ALLOW, first));
            if scenario == "rdpmc-sleep" {
                steps.push(Step::Do(Action::Sleep));
            }
            steps
        }
        _ => running(1, first, 0, SOURCES),
    };
    if scenario == "turned-off" {
        steps.push(Step::TurnOff);
    }
    if ["sleep", "branches-sleep"].contains(&scenario) {
        steps.push(Step::Do(Action::Sleep));
    }
    if !["refusals", "client-killed", "rdpmc", "rdpmc-sleep"].contains(&scenario) {
        if scenario == "ticking" {
            steps.push(Step::Tick);
        }
        steps.push(advance());
        steps.push(about(1, counts::SNAPSHOT, first));
        steps.push(about(1, samples::DRAIN, first));
        steps.push(about(1, samples::STATISTICS, first));
        // The tail: what no timer has read yet.
        steps.push(Step::Do(Action::Advance(50_000)));
        steps.push(about(1, session::STOP, first));
        steps.push(about(1, samples::DRAIN, first));
        steps.push(about(1, samples::STATISTICS, first));
    }
    steps
}

fn play<B: Backend>(
    machine: &mut B,
    scenario: &str,
    work: &Workload,
) -> Result<Vec<(NtStatus, Vec<u8>)>, B::Violation> {
    let mut open = BTreeMap::new();
    let mut replies = Vec::new();
    for step in steps(scenario) {
        let action = match step {
            Step::Rings(can) => {
                machine.refuse_rings(!can);
                continue;
            }
            Step::Unprivileged(handle) => {
                open.get(&handle)
                    .into_iter()
                    .for_each(|handle| machine.hide_kernel_addresses(handle));
                continue;
            }
            Step::Tick => {
                machine.tick()?;
                continue;
            }
            Step::Write(msr, value) => {
                machine.cpus()[0].processor.wrmsr(msr, value).expect("a register");
                machine.others_wrote_registers();
                continue;
            }
            Step::TurnOff => {
                machine.cpus().iter_mut().for_each(turn_off);
                machine.others_wrote_registers();
                continue;
            }
            Step::Do(action) => action,
        };
        replies.extend(action.perform(machine, work, &mut open)?);
    }
    for (_, handle) in open {
        machine.close(handle)?;
    }
    Ok(replies)
}

/// Another owner's bits in the registers that all counters share: a fixed counter that no scenario
/// uses is enabled (IA32_FIXED_CTR_CTRL, IA32_PERF_GLOBAL_CTRL), and has overflowed.
fn another_owner(cpu: &mut Cpu) {
    let processor = &mut cpu.processor;
    let control = processor.rdmsr(0x38F).unwrap_or(0);
    if processor.wrmsr(0x38D, 0x3 << 8).is_ok() {
        processor.show_status(1 << 34);
    }
    let _ = processor.wrmsr(0x38F, control | 1 << 34);
}

/// It turns that counter off.
fn turn_off(cpu: &mut Cpu) {
    let control = cpu.processor.rdmsr(0x38F).unwrap_or(0);
    let _ = cpu.processor.wrmsr(0x38F, control & !(1 << 34));
}

/// LVTPC as Windows may leave it: masked.
fn mask_overflow_interrupt(cpu: &mut Cpu) {
    let processor = &mut cpu.processor;
    let entry = processor.read_apic(LVTPC).expect("LVTPC");
    let _ = processor.write_apic(LVTPC, entry | LVTPC_MASK);
}

fn leaves(model: &str) -> Vec<Leaves> {
    let all = if let Some(model) = find(model) {
        model.processors()
    } else if let Some(one) = recorders().into_iter().find(|one| one.name == model) {
        vec![one.leaves]
    } else {
        let machine = machines::machine(model, |path| std::fs::read(path));
        machine.expect("a machine").leaves
    };
    repeat(&all, PROCESSORS)
}

/// A device. Without LTO a driver uses some more stack; the shipped one is held to the limit by every
/// other test.
fn made(file: &[u8], leaves: &[Leaves], seed: u64) -> Device {
    let mut device = Device::new(file, leaves, seed).expect("a machine");
    device.machine.more_stack = WITHOUT_LTO;
    device
}

fn device(file: &[u8], leaves: &[Leaves], seed: u64) -> Device {
    let mut device = made(file, leaves, seed);
    let bus = device.machine.engine.bus();
    bus.cpus.iter_mut().for_each(another_owner);
    device
}

/// Plays a scenario, and compares the replies with those of the service in process.
fn run(file: &[u8], scenario: &str, model: &str, seed: u64) -> Outcome {
    let leaves = leaves(model);
    let played = match scenario {
        "failing-prepare" => fail_prepare(file, &leaves, seed).map(|()| None),
        "threads" => threads(file, &leaves, seed),
        "pages" => pages(file, &leaves, seed),
        "slices-of-many" => slices_of_many(file, &leaves, seed),
        "stuck-until-removal" => stuck_until_removal(file, &leaves, seed).map(|()| None),
        "added-while-removed" => add_while_removed(file, &leaves, seed).map(|()| None),
        "late-ticks" => late_ticks(file, &leaves, seed, true),
        "late-ticks-without-memory" => late_ticks(file, &leaves, seed, false),
        "nothing-runs" => nothing_runs(file, &leaves, seed),
        "ticks-at-any-instruction" => ticks_at_any_instruction(file, &leaves, seed),
        "handler-and-threads-kept" => handler_and_threads_kept(file, &leaves, seed),
        "no-page" => no_page(file, &leaves, seed),
        "last-without-memory" => last_without_memory(file, &leaves, seed),
        "nmi-where-unknown" => nmi_where_unknown(file, &leaves, seed),
        _ => compare(file, &leaves, scenario, seed),
    };
    match played {
        Ok(None) => Outcome::Clean,
        Ok(Some(difference)) => Outcome::Differs(difference),
        Err(violation) => Outcome::Broken(violation),
    }
}

fn compare(
    file: &[u8],
    leaves: &[Leaves],
    scenario: &str,
    seed: u64,
) -> Result<Option<String>, Violation> {
    let work = match scenario {
        "flops" => FLOPS_WORK,
        "retired" => RETIRED_WORK,
        _ if scenario.starts_with("branches") => BRANCHES,
        _ => WORK,
    };
    let known = |key: &str| {
        let (_, select) = [FLOPS, RETIRED].into_iter().find(|(name, _)| *name == key)?;
        let code = Code {
            event: Event::Named(0),
            select: Some(select),
            fixed: None,
            architectural: None,
            core: None,
        };
        Some(workload::Known::Codes(vec![code]))
    };
    let work = workload::parse_with(work, &known).expect("a workload");
    let mut device =
        if scenario == "alone" { made(file, leaves, seed) } else { device(file, leaves, seed) };
    assert_eq!(device.start()?, 0);
    if scenario == "masked-before" {
        let bus = device.machine.engine.bus();
        bus.cpus.iter_mut().for_each(mask_overflow_interrupt);
    }
    let mut in_process = Model::with_about(leaves, ABOUT);
    for index in 0..leaves.len() {
        let began = device.machine.now();
        let processor = in_process.processor(index).expect("it");
        processor.set_timestamp(began);
    }
    let by_driver = play(&mut device, scenario, &work)?;
    if scenario == "failing-start" {
        nothing_is_held(&device)?;
    }
    device.remove()?;
    let by_service = unbroken(play(&mut in_process, scenario, &work));
    let difference = (0..by_service.len()).find(|&i| by_driver.get(i) != by_service.get(i));
    Ok(difference.map(|i| format!("reply {i} of {scenario}")))
}

/// Each call that may fail fails once, while the device starts.
fn fail_prepare(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<(), Violation> {
    for nth in 0.. {
        let mut device = device(file, leaves, seed);
        device.machine.kernel.fail_after = Some(nth);
        let status = device.start()?;
        device.remove()?;
        if device.machine.kernel.fail_after.is_some() {
            assert_eq!(status, 0);
            break;
        }
    }
    Ok(())
}

/// Threads that profile themselves migrate between processors.
fn threads(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<Option<String>, Violation> {
    let leaves = repeat(leaves, 4);
    let mut device = device(file, &leaves, seed);
    assert_eq!(device.start()?, 0);
    let mut client = Client::on(device);
    let wrong = crate::threads::migrate(&mut client, seed)?;
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok(wrong)
}

/// The counts of 52 processors with 256 sources need two replies, between which slices end.
fn pages(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<Option<String>, Violation> {
    const FIRST_PAGE: u32 = 51;
    let mut device = device(file, &repeat(leaves, 52), seed);
    assert_eq!(device.start()?, 0);
    let mut client = Client::on(device);
    let specs: Vec<_> = (0..256).map(|mask| Spec::of_raw(0xC0 | mask << 8)).collect();
    let session = client.configured(0, &specs);
    client.granted(session::START, session);
    let page = |client: &mut Client, first| {
        let header = requests::header(0);
        let request = SnapshotPage { header, session, first };
        let request = requests::bytes(&request, &[]);
        client.send_with_room(counts::SNAPSHOT, &request, SNAPSHOT_BYTES_MAX)
    };
    page(&mut client, 0);
    let at_once = page(&mut client, FIRST_PAGE);
    client.begin("instructions=20000000,cycles=20000000,processors=all");
    while client.model.advance(1 << 40)? {}
    let later = page(&mut client, FIRST_PAGE);
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok((at_once.bytes != later.bytes).then(|| "the second page is of another reading".into()))
}

/// 1 ms is too short a slice for 300 processors.
fn slices_of_many(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<Option<String>, Violation> {
    const REQUESTED: u32 = 10_000;
    let mut device = device(file, &repeat(leaves, 300), seed);
    assert_eq!(device.start()?, 0);
    let mut client = Client::on(device);
    let session = client.open();
    let specs = SOURCES.map(requests::spec);
    let settings = requests::configuration(0);
    let sources = specs.len() as u32;
    let head = Configure { session, sources, slice_100ns: REQUESTED, ..settings };
    let reply = client.send(session::CONFIGURE, &requests::bytes(&head, &specs));
    let slice = reply.done::<session::Configured>().slice_100ns;
    client.model.close(&client.handle)?;
    client.model.remove()?;
    Ok((slice <= REQUESTED).then(|| format!("slices of {slice}00 ns")))
}

/// Windows removes the handler only when the device, whose start has failed, is removed.
fn stuck_until_removal(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<(), Violation> {
    let mut device = device(file, leaves, seed);
    assert_eq!(device.start()?, 0);
    let mut client = Client::on(device);
    client.run(requests::spec(SOURCES[0]), SAMPLE);
    client.model.machine.kernel.keeps_handler = true;
    client.model.stop()?;
    client.model.machine.kernel.fail_after = Some(0);
    assert_ne!(client.model.start_device()?, 0);
    client.model.machine.kernel.keeps_handler = false;
    client.model.close(&client.handle)?;
    client.model.remove()
}

/// What a scenario yields, if that is wrong.
type Difference = Result<Option<String>, Violation>;

fn unless(right: bool, found: &impl std::fmt::Debug) -> Option<String> {
    (!right).then(|| format!("{found:?}"))
}

/// A device as it was made, and started.
fn working(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<Device, Violation> {
    let mut device = made(file, leaves, seed);
    assert_eq!(device.start()?, 0);
    Ok(device)
}

fn late_ticks(file: &[u8], leaves: &[Leaves], seed: u64, memory: bool) -> Difference {
    let device = working(file, &repeat(leaves, ticks::PROCESSORS), seed)?;
    let events = ticks::overtaken_ticks(device, memory)?;
    Ok(unless(!memory || ticks::is_uneventful(&events), &events))
}

fn nothing_runs(file: &[u8], leaves: &[Leaves], seed: u64) -> Difference {
    let read = ticks::read_where_nothing_runs(working(file, leaves, seed)?)?;
    Ok(unless(read == 0, &read))
}

fn ticks_at_any_instruction(file: &[u8], leaves: &[Leaves], seed: u64) -> Difference {
    let device = made(file, &leaves[..1], seed);
    let (_, missed) = ticks::ticks_at_any_instruction(device, seed)?;
    Ok(unless(missed == 0, &missed))
}

fn handler_and_threads_kept(file: &[u8], leaves: &[Leaves], seed: u64) -> Difference {
    let masked = left::handler_and_threads_are_kept(working(file, leaves, seed)?)?;
    Ok(unless(masked.is_empty(), &masked))
}

fn no_page(file: &[u8], leaves: &[Leaves], seed: u64) -> Difference {
    let mut device = made(file, leaves, seed);
    assert_eq!(device.load()?, 0);
    let refusal = faults::no_page_of_the_local_apic(device)?;
    Ok(unless(refusal == Some(faults::NO_PAGE), &refusal))
}

fn last_without_memory(file: &[u8], leaves: &[Leaves], seed: u64) -> Difference {
    let counted = added::the_last_one_without_memory(working(file, leaves, seed)?)?;
    Ok(unless(counted.len() == PROCESSORS + 1, &counted))
}

fn nmi_where_unknown(file: &[u8], leaves: &[Leaves], seed: u64) -> Difference {
    let device = made(file, leaves, seed);
    let (before, after) =
        faults::interrupted_on_an_unknown_processor(device, &leaves[0], false, true)?;
    Ok(unless(after == before, &after))
}

/// A processor is added while the device is being removed: before its hardware is released, or
/// after.
fn add_while_removed(file: &[u8], leaves: &[Leaves], seed: u64) -> Result<(), Violation> {
    let mut device = device(file, leaves, seed);
    assert_eq!(device.start()?, 0);
    device.remove_while_adding(&leaves[0], seed.is_multiple_of(2))
}

#[test]
fn each_mistake_is_caught_by_its_rule() {
    let mut wrong = Vec::new();
    for variant in table() {
        let path = Path::new(VARIANTS).join(&variant.name).join("halprof.sys");
        let Ok(file) = std::fs::read(&path) else {
            wrong.push(format!("{} is not built: cargo xtask variants", variant.name));
            continue;
        };
        wrong.extend(variant.judge(&file));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_shipped_driver_makes_none() {
    makes_none(&std::fs::read(SHIPPED).expect("cargo xtask sys"));
}

/// The wrong drivers are built differently from the shipped one: the difference must not be what is
/// caught.
#[test]
fn the_control_makes_none() {
    let control = Path::new(VARIANTS).join("control/halprof.sys");
    makes_none(&std::fs::read(control).expect("cargo xtask variants"));
}

/// Several mistakes show in the same run.
fn makes_none(file: &[u8]) {
    let table = table();
    let runs = table.iter().flat_map(|variant| {
        let Variant { scenario, model, .. } = variant;
        variant.all_seeds().map(move |seed| (scenario, model, seed))
    });
    for (scenario, model, seed) in runs.collect::<BTreeSet<_>>() {
        let outcome = run(file, scenario, model, seed);
        let clean = matches!(outcome, Outcome::Clean);
        assert!(clean, "{scenario} on {model}, seed {seed}: {outcome:?}");
    }
}

#[test]
fn rows_are_of_rules_and_of_texts_that_there_are() {
    let mut names = BTreeSet::new();
    for variant in table() {
        let known = nt_model::rules::Rule::ALL.iter().any(|rule| rule.name() == variant.caught);
        assert!(known || variant.caught == DIFFERENTIAL, "{}", variant.name);
        assert!(variant.all_seeds().next().is_some(), "{}", variant.name);
        assert!(names.insert(variant.name.clone()), "{}", variant.name);
        for Edit { file, text, mark } in &variant.edit {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
            let source = std::fs::read_to_string(path).expect("a source");
            let mark = mark.as_ref().map(|mark| format!("// mistake: {mark}\n"));
            let anchors: Vec<&String> = text.iter().chain(&mark).collect();
            let [anchor] = anchors[..] else { panic!("{}: one of text and mark", variant.name) };
            let stands = source.matches(anchor.as_str()).count();
            assert_eq!(stands, 1, "{}: {anchor:?} in {file}", variant.name);
        }
    }
    assert!(names.len() >= 15);
}
