//! Does the shipped driver count and sample what code really retired?

use halprof_measure::{Connection, ModelledMachine, Session, Setup};
use halprof_tests::{dumps, requests};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use nt_model::engine::Step;
use nt_model::memory::{IMAGE, STUBS, STUBS_SIZE};
use nt_model::programs::{Amounts, CODE, EXIT, PROGRAMS, Program, ROUNDS};
use nt_model::transport::{Broken, DriverTransport, Guest};
use rustc_hash::FxHashSet;
use serde_json::Value;
use shared_types::request::counts::Count;
use shared_types::request::session::Spec;
use shared_types::{Mode, Sample};
use sim::load::workload::Workload;
use std::collections::{BTreeSet, HashMap};
use std::process::{Command, Output};

const SYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/driver/halprof-historic.sys");
const TOTAL_ISSUES: u32 = 0x02;
const BRANCH_INSTRUCTIONS: u32 = 0x06;
const DCACHE_ACCESSES: u32 = 0x15;
/// A prime, so that samples hit every instruction of a loop.
const PERIOD: u64 = 10_007;
/// Longer than any run: the whole run is one step of modelled time.
const LONG: u64 = 1 << 40;

/// How a machine starts and stops its counters.
#[derive(Clone, Copy)]
enum Switch {
    /// IA32_PERF_GLOBAL_CTRL in addition to EN of IA32_PERFEVTSELx and the fixed counter's nibble
    /// of IA32_FIXED_CTR_CTRL (SDM vol. 4, "IA-32 Architectural MSRs").
    Global,
    /// EN of IA32_PERFEVTSEL0, for both counters of P6 (SDM vol. 3, "PerfEvtSel0 and PerfEvtSel1
    /// MSRs").
    P6,
    /// Enable of the CCCRs (SDM vol. 3, "CCCR MSRs").
    NetBurst,
    /// EN of PERF_LEGACY_CTLx (APM vol. 2, "Performance Monitoring Counters").
    Legacy,
    /// PerfCntrGlobalCtl in addition to EN of PERF_CTLx (APM vol. 2, "Performance Monitoring
    /// Counters").
    PerfMonV2,
}

/// Models, and dumps with the same interfaces that differ from the models; the sources that each
/// has, besides the first.
const MACHINES: [(&str, Switch, &[u32]); 5] = [
    ("hybrid", Switch::Global, &[BRANCH_INSTRUCTIONS]),
    ("zen4,processors=2", Switch::PerfMonV2, &[BRANCH_INSTRUCTIONS]),
    ("k8,processors=2", Switch::Legacy, &[BRANCH_INSTRUCTIONS, DCACHE_ACCESSES]),
    ("pentium3,processors=2", Switch::P6, &[BRANCH_INSTRUCTIONS]),
    ("pentium4,processors=2", Switch::NetBurst, &[BRANCH_INSTRUCTIONS]),
];
const DUMPS: [(&str, usize); 4] = [
    ("GenuineIntel00B06A2_RaptorLakeP_02", 0),
    ("AuthenticAMD0000F4A_K8_Clawhammer", 2),
    ("GenuineIntel0000633_P2_Klamath", 3),
    ("GenuineIntel0000F43_P4_Prescott", 4),
];

/// A machine's name, its switch and its sources.
fn machines() -> Vec<(String, Switch, &'static [u32])> {
    let models = MACHINES.map(|(name, switch, sources)| (name.to_owned(), switch, sources));
    let mut machines = models.to_vec();
    if let Some(folder) = dumps::folder() {
        for (dump, like) in DUMPS {
            let file = folder.join(format!("{dump}_CPUID.txt"));
            let (_, switch, sources) = MACHINES[like];
            machines.push((file.to_string_lossy().into_owned(), switch, sources));
        }
    }
    machines
}

fn program(name: &str, rounds: u32, skid: u64) -> Guest {
    Guest { program: Program::find(name).expect("a program"), rounds, skid }
}

fn open(machine: &str, seed: u64, guest: Guest) -> Connection<DriverTransport> {
    let file = std::fs::read(SYS).expect("cargo xtask sys");
    let leaves = halprof_measure::spec(machine).expect("a machine").leaves;
    let transport = DriverTransport::open(&file, &leaves, seed, Some(guest), &Broken::default());
    Connection::new(transport.expect("a device")).expect("it greets")
}

fn setup(sources: &[u32], filter: u16, interval: u64) -> Setup {
    let spec = |&source| Spec { filter, interval, ..requests::spec(source) };
    Setup { specs: sources.iter().map(spec).collect(), ..Setup::default() }
}

/// Runs the program to its end in steps of this many nanoseconds, calling `meanwhile` after each.
fn run(
    session: &mut Session<'_, DriverTransport>,
    step: u64,
    mut meanwhile: impl FnMut(&mut Session<'_, DriverTransport>),
) {
    session.transport().begin(&Workload::default());
    while session.transport().advance(step).expect("no rule is broken") {
        meanwhile(session);
    }
}

/// Counts these sources while the guest runs once.
fn count(
    connection: &mut Connection<DriverTransport>,
    setup: &Setup,
    step: u64,
) -> Vec<Vec<Count>> {
    let mut session = Session::open(connection, true, false).expect("a session");
    session.configure(setup, false).expect("it fits");
    session.start().expect("it starts");
    run(&mut session, step, |session| {
        session.snapshot().expect("counts");
    });
    session.stop_and_read().expect("counts")
}

/// Samples these sources while the guest runs once, draining samples as they come.
fn sample(connection: &mut Connection<DriverTransport>, setup: &Setup, step: u64) -> Vec<Sample> {
    sample_and_drain(connection, setup, step, 0)
}

/// The same, followed by this many further drains.
fn sample_and_drain(
    connection: &mut Connection<DriverTransport>,
    setup: &Setup,
    step: u64,
    more: u32,
) -> Vec<Sample> {
    let mut session = Session::open(connection, true, false).expect("a session");
    session.configure(setup, true).expect("it fits");
    session.start().expect("it starts");
    let mut samples = Vec::new();
    let mut drain = |session: &mut Session<'_, DriverTransport>| {
        samples.extend(session.drain().expect("samples").0);
    };
    run(&mut session, step, &mut drain);
    (0..more).for_each(|_| drain(&mut session));
    session.stop().expect("it stops");
    drain(&mut session);
    assert_eq!(session.statistics().expect("statistics").throttled, 0);
    samples
}

fn amount(source: u32, amounts: Amounts) -> u64 {
    match source {
        TOTAL_ISSUES => amounts.instructions,
        BRANCH_INSTRUCTIONS => amounts.branches,
        _ => amounts.accesses,
    }
}

/// Even though it is interrupted by DPCs that read the counters.
#[test]
fn user_counts_are_what_the_code_says() {
    for (machine, _, more) in machines() {
        let sources = [&[TOTAL_ISSUES], more].concat();
        for program in PROGRAMS {
            let rounds = 501;
            let guest = Guest { program, rounds, skid: 0 };
            let mut connection = open(&machine, 3, guest);
            let setup = setup(&sources, Spec::USER, 0);
            for counts in count(&mut connection, &setup, 1000) {
                for (count, &source) in counts.iter().zip(&sources) {
                    let exact = amount(source, (program.amounts)(rounds.into()));
                    let what = format!("{machine}: {} of {source:#x}", program.name);
                    assert_eq!(count.counted, exact, "{what}");
                }
            }
        }
    }
}

/// What retired in ring 0, observed from outside: the engine stops after each instruction, and the
/// register writes show when it was being counted.
#[derive(Default)]
struct SecondCount {
    registers: HashMap<u32, u64>,
    counted: [u64; 2],
    counting: bool,
}

impl SecondCount {
    fn is_on(&self, switch: Switch) -> bool {
        const EN: u64 = 1 << 22;
        let read = |msr: u32| self.registers.get(&msr).copied().unwrap_or(0);
        match switch {
            Switch::Global => {
                let global = read(0x38F);
                let fixed = global >> 32 & 1 != 0 && read(0x38D) & 0b11 != 0;
                fixed || (0..8).any(|one| global >> one & 1 != 0 && read(0x186 + one) & EN != 0)
            }
            Switch::P6 => read(0x186) & EN != 0,
            Switch::NetBurst => (0x360..0x372).any(|msr| read(msr) >> 12 & 1 != 0),
            Switch::Legacy => (0xC001_0000..0xC001_0004).any(|msr| read(msr) & EN != 0),
            Switch::PerfMonV2 => {
                let global = read(0xC000_0301);
                (0..6).any(|one| global >> one & 1 != 0 && read(0xC001_0200 + 2 * one) & EN != 0)
            }
        }
    }

    fn add(&mut self, switch: Switch, step: &Step) {
        let repeats = step.next == step.address;
        let in_stub = (STUBS..STUBS + STUBS_SIZE).contains(&step.address);
        if step.ring != 0 || repeats || in_stub {
            return;
        }
        if step.is_wrmsr() {
            self.registers.insert(step.rcx as u32, step.edx_eax);
            let on = self.is_on(switch);
            if on && !self.counting {
                self.counted = [0; 2];
            }
            self.counting = on;
        }
        if self.counting {
            self.counted[0] += 1;
            self.counted[1] += u64::from(is_branch(&step.bytes));
        }
    }
}

/// Judged by its opcode (SDM vol. 2, "Opcode Map").
fn is_branch(bytes: &[u8]) -> bool {
    let prefix = |&byte: &u8| matches!(byte, 0x40..=0x4F | 0x2E | 0x3E | 0x66 | 0xF2 | 0xF3);
    let at = bytes.iter().position(|byte| !prefix(byte)).unwrap_or(0);
    let opcode = &bytes[at..];
    match opcode[0] {
        0x70..=0x7F | 0xE0..=0xE3 | 0xE8 | 0xE9 | 0xEB | 0xC2 | 0xC3 => true,
        0x0F => matches!(opcode[1], 0x80..=0x8F),
        0xFF => matches!(opcode[1] >> 3 & 7, 2 | 4),
        _ => false,
    }
}

/// Between its start and its stop the driver reads the counters for clients, so that a good part of
/// its code is counted.
#[test]
fn kernel_counts_are_what_a_second_count_says() {
    for (machine, switch, _) in machines() {
        for (place, source) in [TOTAL_ISSUES, BRANCH_INSTRUCTIONS].into_iter().enumerate() {
            let mut connection = open(&machine, 5, program("loop", 200, 0));
            let setup = setup(&[source], Spec::KERNEL, 0);
            let mut session = Session::open(&mut connection, true, false).expect("a session");
            session.configure(&setup, false).expect("it fits");
            session.transport().device.machine.engine.bus().steps = Some(Vec::new());
            session.start().expect("it starts");
            run(&mut session, 300, |session| {
                session.snapshot().expect("counts");
            });
            let counts = session.stop_and_read().expect("counts");
            let bus = session.transport().device.machine.engine.bus();
            let steps = bus.steps.take().expect("steps");
            for (processor, count) in counts.iter().enumerate() {
                let mut second = SecondCount::default();
                let own = steps.iter().filter(|step| step.processor == processor);
                own.for_each(|step| second.add(switch, step));
                let second = second.counted[place];
                assert!(second > 30, "{machine}: {second} of {source:#x}");
                assert_eq!(count[0].counted, second, "{machine}: {source:#x} on {processor}");
            }
        }
    }
}

/// The registers that each stretch of ring 0 wrote, with their values.
fn written(steps: &[Step]) -> Vec<Vec<(u32, u64)>> {
    let stretches = steps.chunk_by(|one, next| one.ring == next.ring);
    let writes = stretches.map(|stretch| {
        let writes = stretch.iter().filter(|step| step.is_wrmsr());
        let writes = writes.map(|step| (step.rcx as u32, step.edx_eax));
        writes.collect::<Vec<_>>()
    });
    writes.filter(|writes| !writes.is_empty()).collect()
}

/// The handler stops the counter, reloads it, acknowledges its overflow, and only then starts it:
/// an acknowledgement after that would clear the next overflow, and its interrupt would be lost.
#[test]
fn an_overflow_is_acknowledged_before_the_counter_starts() {
    for (machine, enable, order) in [
        ("zen4", 1 << 22, &[0xC001_0200, 0xC001_0201, 0xC000_0302, 0xC001_0200][..]),
        ("skylake", 1 << 32, &[0x38F, 0x309, 0x390, 0x38F]),
    ] {
        let guest = program("loop", 10_001, 0);
        let mut connection = open(&format!("{machine},processors=1"), 29, guest);
        let setup = setup(&[TOTAL_ISSUES], Spec::USER, PERIOD);
        let mut session = Session::open(&mut connection, true, false).expect("a session");
        session.configure(&setup, true).expect("it fits");
        session.start().expect("it starts");
        session.transport().device.machine.engine.bus().steps = Some(Vec::new());
        run(&mut session, LONG, |_| {});
        let bus = session.transport().device.machine.engine.bus();
        let handlers = written(&bus.steps.take().expect("steps"));
        session.stop().expect("it stops");
        assert!(handlers.len() >= 4, "{machine}: {}", handlers.len());
        for handler in handlers {
            let registers: Vec<u32> = handler.iter().map(|&(register, _)| register).collect();
            assert_eq!(registers, order, "{machine}: {registers:x?}");
            let is_on = |at: usize| handler[at].1 & enable != 0;
            assert!(!is_on(0) && is_on(order.len() - 1), "{machine}: {handler:x?}");
        }
    }
}

/// Observing each instruction from outside does not change what it does.
#[test]
fn one_instruction_at_a_time_is_the_same_path() {
    let trace = |steps: Option<Vec<Step>>| {
        let mut connection = open("zen4,processors=2", 7, program("copy", 4000, 3));
        connection.transport().device.machine.engine.bus().steps = steps;
        let setup = setup(&[TOTAL_ISSUES], Spec::USER | Spec::KERNEL, PERIOD);
        let samples = sample(&mut connection, &setup, 100);
        assert!(samples.len() >= 4, "{}", samples.len());
        let bus = connection.transport().device.machine.engine.bus();
        (samples, bus.path, bus.executed)
    };
    assert_eq!(trace(None), trace(Some(Vec::new())));
}

/// The addresses of `loop`'s instructions: those before its rounds, and those of one round.
fn loop_addresses(rounds: u32) -> (Vec<u64>, Vec<u64>) {
    const BEFORE: usize = 2;
    let code = Program::find("loop").expect("it").code(rounds);
    let decoder = Decoder::with_ip(64, &code, CODE.0, DecoderOptions::NONE);
    let mut addresses: Vec<u64> = decoder.into_iter().map(|one| one.ip()).collect();
    addresses.pop();
    let round = addresses.split_off(BEFORE);
    (addresses, round)
}

/// The address of the instruction after this many retired ones, computed from the code alone.
fn after(retired: u64, rounds: u32) -> u64 {
    let (before, round) = loop_addresses(rounds);
    match before.get(retired as usize) {
        Some(&address) => address,
        None => round[(retired as usize - before.len()) % round.len()],
    }
}

/// An overflow interrupts after the instruction in which it happens, and with a skid exactly that
/// many instructions later.
#[test]
fn samples_stand_where_the_counter_overflowed() {
    const ROUNDS: u32 = 10_001;
    for (machine, ..) in machines() {
        for skid in [0, 1, 13] {
            let mut connection = open(&machine, 11 + skid, program("loop", ROUNDS, skid));
            let setup = setup(&[TOTAL_ISSUES], Spec::USER, PERIOD);
            let samples = sample(&mut connection, &setup, 9_000);
            let retired = (Program::find("loop").expect("it").amounts)(ROUNDS.into()).instructions;
            let processors: BTreeSet<u32> = samples.iter().map(|one| one.processor).collect();
            assert!(!processors.is_empty());
            for processor in processors {
                let own = samples.iter().filter(|one| one.processor == processor);
                let found: Vec<u64> = own.clone().map(|one| one.ip).collect();
                let overflows = 1..=retired / PERIOD;
                let expected: Vec<u64> =
                    overflows.map(|number| after(number * PERIOD + skid, ROUNDS)).collect();
                assert_eq!(found, expected, "{machine}: skid {skid}");
                assert!(own.clone().all(|one| one.mode == Mode::User as u8));
            }
        }
    }
}

/// With branches as the event, the counter overflows after a branch, so the next instruction is
/// where a branch can go.
#[test]
fn branches_are_sampled_behind_branches() {
    let code = Program::find("branches").expect("it").code(3000);
    let decoder = Decoder::with_ip(64, &code, CODE.0, DecoderOptions::NONE);
    let instructions: Vec<Instruction> = decoder.into_iter().collect();
    let mut targets = BTreeSet::from([EXIT]);
    for one in &instructions {
        if one.is_call_near() || one.is_jmp_short_or_near() || one.is_jcc_short_or_near() {
            targets.insert(one.near_branch_target());
        }
        if one.is_call_near() || one.is_jcc_short_or_near() {
            targets.insert(one.next_ip());
        }
    }
    let elsewhere = instructions.iter().filter(|one| !targets.contains(&one.ip()));
    assert!(elsewhere.count() > 0);
    for (machine, ..) in machines() {
        let mut connection = open(&machine, 17, program("branches", 30_000, 0));
        let setup = setup(&[BRANCH_INSTRUCTIONS], Spec::USER, PERIOD);
        let samples = sample(&mut connection, &setup, LONG);
        assert!(samples.len() >= 14, "{machine}: {}", samples.len());
        for one in samples {
            assert!(targets.contains(&one.ip), "{machine}: {:#x}", one.ip);
        }
    }
}

/// In ring 0 too: samples of the driver's own code are at its instructions, or where it calls the
/// kernel.
#[test]
fn the_driver_is_sampled_where_it_ran() {
    let mut connection = open("zen4,processors=2", 23, program("loop", 2000, 0));
    let setup = setup(&[TOTAL_ISSUES], Spec::KERNEL, 4_099);
    connection.transport().device.machine.engine.bus().trace = Some(FxHashSet::default());
    let samples = sample_and_drain(&mut connection, &setup, LONG, 200);
    let trace = connection.transport().device.machine.engine.bus().trace.take();
    let trace = trace.expect("a trace");
    assert!(samples.len() >= 10, "{}", samples.len());
    let in_image = samples.iter().filter(|one| one.ip >= IMAGE).count();
    assert!(in_image >= 10, "{in_image}");
    for one in samples {
        assert!(trace.contains(&one.ip), "{:#x}", one.ip);
        assert_eq!(one.mode == Mode::Kernel as u8, one.ip >= STUBS, "{:#x}", one.ip);
    }
}

fn command(arguments: &[&str]) -> Output {
    let program =
        Command::new(env!("CARGO_BIN_EXE_nt-model")).args(["--sys", SYS]).args(arguments).output();
    program.expect("it runs")
}

/// What the documentation says about each program, checked with the tool's own commands.
#[test]
fn the_tool_counts_what_the_documentation_says() {
    let document = include_str!("../../../docs/models.md");
    for program in PROGRAMS {
        let row = format!("| `{}`: {} |", program.name, program.what);
        let row = document.lines().find(|line| line.starts_with(&row));
        let row = row.unwrap_or_else(|| panic!("no row of {}", program.name));
        let amounts = (program.amounts)(ROUNDS.into());
        let amounts = [amounts.instructions, amounts.branches, amounts.accesses];
        let told = row.split('|').skip(2).map(|cell| cell.trim().replace(',', ""));
        let told: Vec<u64> = told.filter_map(|cell| cell.parse().ok()).collect();
        assert_eq!(told, amounts, "{}", program.name);
    }
    let sources = "TotalIssues:u,TotalIssues:k,BranchInstructions:u";
    let stat = ["--guest", "branches", "--machine", "k8", "--json", "stat", "-e", sources];
    let ran = command(&stat);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    let result: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let counts = result["counts"].as_array().expect("counts");
    let counted: Vec<u64> = counts.iter().filter_map(|one| one["value"].as_u64()).collect();
    let amounts = (Program::find("branches").expect("it").amounts)(ROUNDS.into());
    assert_eq!((counted[0], counted[2]), (amounts.instructions, amounts.branches));
    assert!(counted[1] > 100, "{counted:?}");
}

#[test]
fn the_tool_names_what_it_sampled() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("guest.halprof");
    let file = file.to_str().expect("UTF-8");
    let sources = "TotalIssues:10007";
    let record =
        ["--guest", "loads", "--skid", "3", "--machine", "hybrid", "record", "-e", sources];
    let ran = command(&[&record[..], &["--output", file]].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let ran = command(&["report", file]);
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(told.contains("loads.exe"), "{told}");
    assert!(!told.contains("modelled.exe"), "{told}");
}

#[test]
fn a_program_and_a_workload_are_too_much() {
    let ran = command(&["--guest", "loop", "stat", "--workload", "instructions=1"]);
    assert_eq!(ran.status.code(), Some(1));
    let ran = command(&["--guest", "leap", "stat"]);
    assert_eq!(ran.status.code(), Some(2));
    let ran = command(&["--skid", "1", "stat"]);
    assert_eq!(ran.status.code(), Some(2));
}

/// A seed reproduces a run bit for bit.
#[test]
fn a_seed_is_a_trace() {
    for (machine, ..) in machines() {
        let trace = |seed| {
            let mut connection = open(&machine, seed, program("loads", 2000, 2));
            let setup = setup(&[TOTAL_ISSUES], Spec::USER | Spec::KERNEL, PERIOD);
            let samples = sample(&mut connection, &setup, 2000);
            let machine = &mut connection.transport().device.machine;
            (samples, machine.calls, machine.engine.bus().path)
        };
        let once = trace(1);
        assert_eq!(once, trace(1), "{machine}");
        assert_ne!(once.2, trace(2).2, "{machine}");
    }
}
