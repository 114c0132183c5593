//! Are a sample's branches those that the processor took before it: of the requested kinds, without
//! any address that its client may not see, and on registers that are left as they were found?

use crate::backend::Backend;
use crate::branches::{Recorder, recorders, with};
use crate::requests::spec;
use crate::stepped::Stepped;
use crate::wire::{first, with_quirks};
use shared_types::request::machine::Processor as Described;
use shared_types::request::session::{Configure, SAMPLE, Spec};
use shared_types::{Branch, BranchKind, BranchReason, BranchRecords, ErrorCode, Sample};
use sim::Taken;
use sim::cpu::cpuid::Leaves;
use sim::cpu::event::Event;

scenarios![
    records_are_the_branches_before_the_overflow,
    fewer_branches_are_fewer_records,
    samples_of_one_interrupt_share_the_records,
    the_cost_is_exact,
    filters_let_through_what_was_asked_for,
    a_client_without_the_right_sees_no_kernel_address,
    the_kernel_is_not_granted,
    every_processor_says_what_it_records,
    gates,
    a_configuration_asks_for_what_there_is,
    all_is_left_as_it_was_found,
    records_go_on_after_sleep,
    somebody_elses_recording_is_left_alone,
    a_recording_that_somebody_changes_ends_the_session,
    a_recording_whose_freeze_is_cleared_is_ended_whole,
    what_somebody_sets_after_the_last_interrupt_stays,
    records_go_on_after_an_interrupt_that_was_lost,
    a_record_between_two_kernel_addresses_is_hidden_too,
    cycles_that_are_not_valid_are_not_told,
    addresses_have_as_many_bits_as_the_processor_says,
    records_go_on_after_a_spurious_interrupt,
    records_that_were_found_frozen_thaw,
    a_debug_exception_does_not_end_the_recording,
    records_of_no_branch_are_left_out,
    records_that_were_cleared_are_told_as_lost,
    a_lost_interrupt_reads_no_records,
    the_budget_counts_the_accesses,
    every_sample_of_a_full_ring_has_its_own_branches,
];

const TOTAL_ISSUES: u32 = 2;
const PERIOD: u64 = 10_000;
const KERNEL: u64 = 0xFFFF_F800_0000_0000;
const IA32_DEBUGCTL: u32 = 0x1D9;
const KINDS: [BranchKind; 7] = [
    BranchKind::Conditional,
    BranchKind::Jump,
    BranchKind::IndirectJump,
    BranchKind::Call,
    BranchKind::IndirectCall,
    BranchKind::Return,
    BranchKind::Other,
];

/// The branch with this number: each kind in turn, one in five mispredicted.
fn taken(number: u64) -> Taken {
    Taken {
        from: 0x1_4000_1000 + 16 * number,
        to: 0x1_4000_2000 + 16 * number,
        kind: KINDS[number as usize % KINDS.len()],
        mispredicted: number.is_multiple_of(5),
        cycles: 100 + number as u16,
    }
}

/// A session that samples instructions in user mode with branches, running on one processor.
struct Bench<B: Backend> {
    machine: Stepped<B>,
    retired: u64,
}

impl<B: Backend> Bench<B> {
    fn new(recorder: &Recorder, branches: u16) -> Self {
        Self::filtered(on(&recorder.leaves), branches, 0)
    }

    fn filtered(mut machine: Stepped<B>, branches: u16, filter: u16) -> Self {
        (machine.settings.branches, machine.settings.branch_filter) = (branches, filter);
        machine.run(SAMPLE, &[sampled()]);
        let retired = machine.processor(0).counts().total(Event::Instructions);
        Self { machine, retired }
    }

    fn take(&mut self, branches: impl IntoIterator<Item = Taken>) {
        let processor = self.machine.processor(0);
        branches.into_iter().for_each(|taken| processor.branch(&taken));
    }

    /// A counter overflows, and its interrupt is handled; the branches in between belong to the way
    /// to the handler.
    fn overflow(&mut self) {
        self.retire();
        self.take((900..950).map(taken));
        assert!(self.machine.take_interrupt(0));
    }

    /// A counter overflows.
    fn retire(&mut self) {
        self.retired += PERIOD;
        self.machine.retire(0, &[(Event::Instructions, self.retired)]);
    }

    fn samples(&mut self) -> Vec<(Sample, Vec<Branch>)> {
        self.machine.drain_with_branches()
    }

    /// The branches of the single sample that the next overflow produces.
    fn branches(&mut self) -> Vec<Branch> {
        self.overflow();
        let mut samples = self.samples();
        assert_eq!(samples.len(), 1);
        samples.remove(0).1
    }

    fn read(&mut self, msr: u32) -> u64 {
        let processor = self.machine.processor(0);
        processor.unobserved(|processor| processor.rdmsr(msr).expect("a register"))
    }
}

fn on<B: Backend>(leaves: &Leaves) -> Stepped<B> {
    Stepped::of(std::slice::from_ref(leaves))
}

fn sampled() -> Spec {
    Spec { filter: Spec::USER, interval: PERIOD, ..spec(TOTAL_ISSUES) }
}

fn depths(recorder: &Recorder) -> impl Iterator<Item = u16> {
    let most = u16::from(recorder.most);
    [8, 16, 32].into_iter().filter(move |&depth| depth <= most)
}

/// The expected record of a taken branch.
fn expected(recorder: &Recorder, taken: &Taken) -> Branch {
    let (cycles, kinds) = recorder.info;
    let predicted = if taken.mispredicted { Branch::MISPREDICTED } else { Branch::PREDICTED };
    Branch {
        from: taken.from,
        to: taken.to,
        cycles: if cycles { taken.cycles } else { 0 },
        kind: if kinds { taken.kind as u8 } else { 0 },
        flags: predicted | if cycles { Branch::CYCLES } else { 0 },
        reserved: 0,
    }
}

/// AMD keeps wrong-path records among the others, here one after each mispredicted branch, so there
/// is room for that many fewer.
fn are_the_last(recorder: &Recorder, got: &[Branch], depth: u16, last: u64) {
    let name = recorder.name;
    let wanted = (1..=last).rev().map(taken);
    let wanted: Vec<Branch> = wanted.map(|taken| expected(recorder, &taken)).collect();
    assert_eq!(got, &wanted[..got.len()], "{name}, {depth}");
    if recorder.records == BranchRecords::AmdV2 {
        let fewest = usize::from(depth) * 5 / 6;
        assert!(got.len() >= fewest, "{name}, {depth}: {}", got.len());
    } else {
        assert_eq!(got.len(), usize::from(depth), "{name}");
    }
}

/// The bench, which keeps 8 records, has the last ones of further branches.
fn records_the_last<B: Backend>(recorder: &Recorder, mut bench: Bench<B>) {
    bench.take((1..=20).map(taken));
    are_the_last(recorder, &bench.branches(), 8, 20);
}

/// The records are frozen at the overflow, every time.
fn records_are_the_branches_before_the_overflow<B: Backend>() {
    for recorder in recorders() {
        for depth in depths(&recorder) {
            let mut bench = Bench::<B>::new(&recorder, depth);
            for last in [40, 77, 134] {
                bench.take((1..=last).map(taken));
                let got = bench.branches();
                are_the_last(&recorder, &got, depth, last);
            }
            bench.machine.stop();
        }
    }
}

/// Branches that were recorded for someone else, or before the session, are not reported.
fn fewer_branches_are_fewer_records<B: Backend>() {
    for recorder in recorders() {
        let mut bench = Bench::<B>::new(&recorder, 8);
        bench.take([taken(1), taken(2)]);
        let got = bench.branches();
        are_the_last(&recorder, &got[..2], 2, 2);
        assert_eq!(got.len(), 2, "{}", recorder.name);
        bench.machine.stop();
        bench.machine.start();
        assert_eq!(bench.branches(), [], "{}", recorder.name);
    }
}

/// Several counters that overflow at once share the records, which are read only once.
fn samples_of_one_interrupt_share_the_records<B: Backend>() {
    let cycles = Spec { source: 0, ..sampled() };
    for recorder in recorders() {
        let mut machine = on::<B>(&recorder.leaves);
        machine.settings.branches = 8;
        machine.run(SAMPLE, &[sampled(), Spec { source: 6, ..cycles }]);
        let mut bench = Bench { machine, retired: 0 };
        bench.take((1..=20).map(taken));
        let events = [(Event::Instructions, PERIOD), (Event::Branches, PERIOD)];
        bench.machine.retire(0, &events);
        let accesses = bench.machine.accesses(0, |machine| assert!(machine.take_interrupt(0)));
        let samples = bench.samples();
        assert_eq!(samples.len(), 2, "{}", recorder.name);
        for (_, got) in samples {
            are_the_last(&recorder, &got, 8, 20);
        }
        let (each, besides) = recorder.accesses;
        assert!(accesses.rdmsr + accesses.wrmsr < 2 * (8 * each + besides));
    }
}

/// A deep C-state clears them on architectural processors, here before each fourth interrupt.
fn records_that_were_cleared_are_told_as_lost<B: Backend>() {
    let is_architectural = |one: &Recorder| one.records == BranchRecords::Architectural;
    for recorder in recorders().into_iter().filter(is_architectural) {
        for (quirks, cleared) in [("late-stop", 0), ("late-stop+cleared-records", 2)] {
            let mut bench = Bench::filtered(on::<B>(&with_quirks(&recorder.leaves, quirks)), 8, 0);
            let mut shortest = usize::MAX;
            for _ in 0..8 {
                bench.take((1..=20).map(taken));
                shortest = shortest.min(bench.branches().len());
            }
            let name = recorder.name;
            assert_eq!(bench.machine.statistics().branches_cleared, cleared, "{name}, {quirks}");
            assert_eq!(shortest, if cleared == 0 { 8 } else { 3 }, "{name}, {quirks}");
        }
    }
}

/// Erratum 1452 of Zen 4: they would be edges of a profile, and break the chain from one branch to the
/// next.
fn records_of_no_branch_are_left_out<B: Backend>() {
    for recorder in recorders().into_iter().filter(|one| one.records == BranchRecords::AmdV2) {
        let leaves = with_quirks(&recorder.leaves, "false-branches");
        let mut bench = Bench::<B>::filtered(on(&leaves), recorder.most.into(), 0);
        bench.take((1..=40).map(taken));
        let got = bench.branches();
        let wanted = (1..=40).rev().map(|number| expected(&recorder, &taken(number)));
        let wanted: Vec<Branch> = wanted.take(got.len()).collect();
        assert_eq!(got, wanted);
        assert!(got.len() >= 10, "{} of {}", got.len(), recorder.most);
    }
}

/// Register accesses of a sample: those of a sample without branches, plus those in
/// docs/performance.md for the branches.
fn the_cost_is_exact<B: Backend>() {
    for recorder in recorders() {
        let mut plain = None;
        for depth in [0].into_iter().chain(depths(&recorder)) {
            let mut bench = Bench::<B>::new(&recorder, depth);
            bench.take((1..=200).map(taken));
            bench.retire();
            let cost = bench.machine.accesses(0, |machine| assert!(machine.take_interrupt(0)));
            let msrs = cost.rdmsr + cost.wrmsr;
            let (each, besides) = recorder.accesses;
            let branches = match depth {
                0 => 0,
                depth => each * u64::from(depth) + besides,
            };
            let without = *plain.get_or_insert(msrs);
            assert_eq!(msrs - without, branches, "{}, {depth}", recorder.name);
            assert_eq!(cost.rdpmc, 1);
        }
    }
}

/// Kinds and modes; the mode is that of the target.
fn filters_let_through_what_was_asked_for<B: Backend>() {
    let kernel = |taken: Taken| Taken { from: taken.from | KERNEL, to: taken.to | KERNEL, ..taken };
    let bits = [
        (BranchKind::Conditional, Configure::CONDITIONAL),
        (BranchKind::Jump, Configure::JUMPS),
        (BranchKind::IndirectJump, Configure::INDIRECT_JUMPS),
        (BranchKind::Call, Configure::CALLS),
        (BranchKind::IndirectCall, Configure::INDIRECT_CALLS),
        (BranchKind::Return, Configure::RETURNS),
        (BranchKind::Other, Configure::FAR),
    ];
    let all = || (1..=14).flat_map(|number| [taken(number), kernel(taken(number))]);
    let modes = [
        (0, [true, true]),
        (Configure::TO_USER, [true, false]),
        (Configure::TO_KERNEL, [false, true]),
        (Configure::MODES, [true, true]),
    ];
    for recorder in recorders() {
        for (mode, [user, in_kernel]) in modes {
            for kinds in [&bits[..1], &bits[2..4], &bits[6..]] {
                let filter = kinds.iter().fold(mode, |filter, (_, bit)| filter | bit);
                let machine = on::<B>(&recorder.leaves);
                let mut bench = Bench::filtered(machine, 8, filter);
                bench.take(all());
                let got = bench.branches();
                let passes = |taken: &Taken| {
                    let right_mode = if taken.to >= KERNEL { in_kernel } else { user };
                    right_mode && kinds.iter().any(|(kind, _)| *kind == taken.kind)
                };
                let wanted: Vec<Taken> = all().filter(passes).collect();
                let wanted = wanted.iter().rev().take(got.len());
                let wanted: Vec<Branch> = wanted.map(|one| expected(&recorder, one)).collect();
                assert_eq!(got, wanted, "{}, {filter:#x}", recorder.name);
                assert!(got.len() >= 2, "{}, {filter:#x}", recorder.name);
            }
        }
    }
}

/// Whatever the filter, the addresses of a branch to or from the kernel are hidden.
fn a_client_without_the_right_sees_no_kernel_address<B: Backend>() {
    let from_kernel = Taken { from: KERNEL | 0x4321_0000, kind: BranchKind::Other, ..taken(3) };
    let to_kernel = Taken {
        from: taken(1).from,
        to: KERNEL | 0x1234_0000,
        kind: BranchKind::Other,
        ..taken(3)
    };
    for recorder in recorders() {
        let machine = on::<B>(&recorder.leaves);
        let mut bench = Bench::filtered(hidden(machine), 8, 0);
        bench.take([taken(1), to_kernel, from_kernel, taken(2)]);
        let got = bench.branches();
        let nothing = Branch { flags: Branch::HIDDEN, ..Branch::default() };
        // For this client nothing is recorded that leads to the kernel.
        let wanted = [expected(&recorder, &taken(2)), nothing, expected(&recorder, &taken(1))];
        assert_eq!(got, wanted, "{}", recorder.name);
        // And for one that may see the kernel.
        let machine = on::<B>(&recorder.leaves);
        let mut bench = Bench::filtered(machine, 8, 0);
        bench.take([to_kernel, from_kernel]);
        let got = bench.branches();
        let wanted = [from_kernel, to_kernel].map(|one| expected(&recorder, &one));
        assert_eq!(got, wanted, "{}", recorder.name);
    }
}

fn hidden<B: Backend>(mut machine: Stepped<B>) -> Stepped<B> {
    let handle = machine.client.handle.clone();
    machine.client.model.hide_kernel_addresses(&handle);
    machine
}

/// Recording the kernel's branches is refused to a client that may not see them.
fn the_kernel_is_not_granted<B: Backend>() {
    let mut machine = hidden(Stepped::<B>::new("skylake", 1));
    (machine.settings.branches, machine.settings.branch_filter) = (8, Configure::TO_KERNEL);
    let refused = machine.try_configure(SAMPLE, &[sampled()], 0);
    let refused = refused.map(|(error, subject, _)| (error, subject));
    let kernel = (ErrorCode::BranchesKernelNotGranted, Configure::TO_KERNEL.into());
    assert_eq!(refused, Some(kernel));
}

/// LBR_FMT of IA32_PERF_CAPABILITIES: 5 has TSX's bits, 7 does not (SDM, "Last Branch Records").
fn every_processor_says_what_it_records<B: Backend>() {
    for recorder in recorders() {
        let told = on::<B>(&recorder.leaves).described(0);
        let name = recorder.name;
        assert_eq!(told.branch_records, recorder.records as u16, "{name}");
        assert_eq!(told.branch_reason, BranchReason::Available as u16, "{name}");
        assert_eq!(told.branch_depth, u16::from(recorder.most), "{name}");
        let (cycles, kinds) = recorder.info;
        for (bit, tells) in [
            (Described::INFO_MISPREDICTED, true),
            (Described::INFO_CYCLES, cycles),
            (Described::INFO_KIND, kinds),
            (Described::INFO_TRANSACTIONS, !matches!(name, "goldmont-plus" | "zen4")),
        ] {
            assert_eq!(told.branch_info & bit != 0, tells, "{name}, {bit}");
        }
    }
}

/// Each condition for branch recording; if one is not met, no register behind it is accessed.
fn gates<B: Backend>() {
    use BranchReason as R;
    let skylake = first("skylake");
    let rapids = first("sapphire-rapids");
    let zen4 = first("zen4");
    let hyperv = |edx: u32| {
        with(&first("hyperv-root-intel"), 0x4000_0003, |leaf| {
            leaf.edx |= edx;
        })
    };
    let rows = [
        ("haswell", first("haswell"), R::NoRecords),
        ("yonah", first("yonah"), R::NoRecords),
        ("pentium 4", first("pentium4"), R::NoRecords),
        ("k8", first("k8"), R::NoRecords),
        ("zen2", first("zen2"), R::NoRecords),
        ("Hyper-V's root", hyperv(0), R::Hypervisor),
        ("Hyper-V that offers them", hyperv(1 << 26), R::Available),
        (
            "KVM in Hyper-V's face",
            with(&first("kvm-hyperv-face"), 0x4000_0003, |leaf| {
                leaf.edx |= 1 << 26 | 1 << 2;
            }),
            R::Hypervisor,
        ),
        ("KVM", with_quirks(&rapids, "hypervisor-masks"), R::Hypervisor),
        ("KVM on AMD", with_quirks(&zen4, "hypervisor-masks"), R::Hypervisor),
        // SDM vol. 4, "IA-32 Architectural MSRs": IA32_DEBUGCTL's freezes exist with PDCM.
        ("no PDCM", with(&skylake, 1, |leaf| leaf.ecx &= !(1 << 15)), R::NoFreeze),
        ("no PDCM, architectural", with(&rapids, 1, |leaf| leaf.ecx &= !(1 << 15)), R::NoFreeze),
        ("no version 2", with(&skylake, 0xA, |leaf| leaf.eax &= !0x6), R::NoRecords),
        ("no LAPIC", with(&rapids, 1, |leaf| leaf.edx &= !(1 << 9)), R::NoInterrupt),
        ("no architectural records", with(&rapids, 7, |leaf| leaf.edx &= !(1 << 19)), R::NoRecords),
        ("no filter of kinds", with(&rapids, 0x1C, |leaf| leaf.ebx = 1), R::Format),
        ("no filter of modes", with(&rapids, 0x1C, |leaf| leaf.ebx = 2), R::Format),
        ("no leaf 0x1C", with(&rapids, 0, |leaf| leaf.eax = 0x1B), R::NoRecords),
        ("no depth", with(&rapids, 0x1C, |leaf| leaf.eax = 0), R::Format),
        ("no filters", with(&rapids, 0x1C, |leaf| leaf.ebx = 4), R::Format),
        (
            "version 3, and no freeze",
            with(&skylake, 0xA, |leaf| leaf.eax = leaf.eax & !0xFF | 3),
            R::NoFreeze,
        ),
        (
            "architectural, and no freeze",
            with(&rapids, 0xA, |leaf| leaf.eax = leaf.eax & !0xFF | 3),
            R::NoFreeze,
        ),
        ("no LbrExtV2", with(&zen4, 0x8000_0022, |leaf| leaf.eax = 5), R::NoRecords),
        ("AMD, and no freeze", with(&zen4, 0x8000_0022, |leaf| leaf.eax = 3), R::NoFreeze),
        ("AMD's depth 0", with(&zen4, 0x8000_0022, |leaf| leaf.ebx &= 0xF), R::Format),
    ];
    for (name, leaves, reason) in rows {
        let mut machine = on::<B>(&leaves);
        let told = machine.described(0);
        if name == "no version 2" {
            // Without counters there is no interface at all, or none with a global control.
            assert_ne!(told.branch_reason, R::Available as u16, "{name}");
            continue;
        }
        assert_eq!(told.branch_reason, reason as u16, "{name}");
        machine.settings.branches = 8;
        let refused = machine.try_configure(SAMPLE, &[sampled()], 0);
        if reason == R::Available {
            assert_eq!(refused, None, "{name}");
        } else if told.delivery != 0 {
            let wanted = (ErrorCode::BranchesUnavailable, 0, reason as u64);
            assert_eq!(refused, Some(wanted), "{name}");
        }
    }
}

fn a_configuration_asks_for_what_there_is<B: Backend>() {
    let filters = Configure::MODES | Configure::KINDS;
    for recorder in recorders() {
        let mut machine = on::<B>(&recorder.leaves);
        let mut asked = |branches, filter, flags| {
            (machine.settings.branches, machine.settings.branch_filter) = (branches, filter);
            machine.try_configure(flags, &[sampled()], 0)
        };
        for wrong in [1, 4, 7, 9, 24, 31, 33, 40, 64, 0x2000, u16::MAX] {
            let refused = Some((ErrorCode::BadValue, 36, wrong.into()));
            assert_eq!(asked(wrong, 0, SAMPLE), refused);
        }
        for wrong in [0x200, 0x8000, u16::MAX] {
            let refused = Some((ErrorCode::BadValue, 38, wrong.into()));
            assert_eq!(asked(8, wrong, SAMPLE), refused);
        }
        assert_eq!(asked(0, 4, SAMPLE), Some((ErrorCode::BadValue, 38, 4)));
        let refused = Some((ErrorCode::BranchesNeedSamples, 8, 0));
        assert_eq!(asked(8, 0, 0), refused);
        for depth in [8, 16, 32] {
            let refused = (depth > u16::from(recorder.most)).then_some((
                ErrorCode::BranchDepth,
                0,
                recorder.most.into(),
            ));
            assert_eq!(asked(depth, filters, SAMPLE), refused, "{}", recorder.name);
        }
        assert_eq!(asked(0, 0, SAMPLE), None);
    }
}

/// The values of all registers of branch recording.
fn registers<B: Backend>(machine: &mut Stepped<B>) -> Vec<(u32, u64)> {
    let msrs = [IA32_DEBUGCTL, 0x1C8, 0x14CE, 0x14CF, 0xC000_010E, 0xC000_010F]
        .into_iter()
        .chain(0x680..0x6A0)
        .chain(0x6C0..0x6E0)
        .chain(0xDC0..0xDE0)
        .chain(0x1500..0x1520)
        .chain(0x1600..0x1620)
        .chain(0x1200..0x1220)
        .chain(0xC001_0300..0xC001_0320);
    let processor = machine.processor(0);
    let read = |msr| Some((msr, processor.unobserved(|one| one.rdmsr(msr)).ok()?));
    msrs.filter_map(read).collect()
}

/// The filter, the freeze and the depth that someone else has left, and other bits of DebugCtl.
fn all_is_left_as_it_was_found<B: Backend>() {
    for recorder in recorders() {
        for found in [0, 1 << 11, 1 << 12 | 1 << 11] {
            let mut machine = on::<B>(&recorder.leaves);
            let left: &[(u32, u64)] = match recorder.records {
                BranchRecords::Architectural => &[(0x14CE, 0x0001_0006), (0x14CF, 16)],
                BranchRecords::AmdV2 => &[(0xC000_010E, 0x55), (0xC000_010F, 0x9)],
                _ => &[(0x1C8, 0x1AA)],
            };
            for &(msr, value) in left.iter().chain(&[(IA32_DEBUGCTL, found)]) {
                machine.client.write(0, msr, value);
            }
            let before = registers(&mut machine);
            let mut bench = Bench::filtered(machine, 8, Configure::CALLS);
            for _ in 0..3 {
                bench.take((1..=50).map(taken));
                bench.overflow();
            }
            assert_ne!(registers(&mut bench.machine), before, "{}", recorder.name);
            bench.machine.stop();
            assert_eq!(registers(&mut bench.machine), before, "{}", recorder.name);
            assert_eq!(bench.read(IA32_DEBUGCTL), found);
        }
    }
}

/// Sleep clears every register; recording continues after it, and what is found then is restored.
fn records_go_on_after_sleep<B: Backend>() {
    for recorder in recorders() {
        let mut bench = Bench::<B>::new(&recorder, 8);
        bench.take((1..=20).map(taken));
        bench.overflow();
        bench.machine.sleep();
        let asleep = registers(&mut bench.machine);
        assert!(asleep.iter().all(|(msr, value)| *value == 0 || *msr == 0x14CF));
        bench.machine.lose_registers();
        bench.machine.client.write(0, IA32_DEBUGCTL, 1 << 11);
        bench.machine.client.model.others_wrote_registers();
        bench.machine.wake();
        bench.samples();
        bench.take((1..=33).map(taken));
        let got = bench.branches();
        are_the_last(&recorder, &got, 8, 33);
        bench.machine.stop();
        assert_eq!(bench.read(IA32_DEBUGCTL), 1 << 11, "{}", recorder.name);
    }
}

/// The register that enables recording, and the bit.
fn switch(recorder: &Recorder) -> (u32, u64) {
    match recorder.records {
        BranchRecords::Architectural => (0x14CE, 1),
        BranchRecords::AmdV2 => (0xC000_010F, 1 << 6),
        _ => (IA32_DEBUGCTL, 1),
    }
}

/// Nor is one that the firmware has left on.
fn somebody_elses_recording_is_left_alone<B: Backend>() {
    let quirks = ["branches-on", "branches-left"];
    let all = recorders().into_iter().flat_map(|one| quirks.map(|quirk| (one.clone(), quirk)));
    for (recorder, quirk) in all {
        let mut machine = on::<B>(&with_quirks(&recorder.leaves, quirk));
        let before = registers(&mut machine);
        machine.settings.branches = 8;
        machine.configure(SAMPLE, &[sampled()], 0);
        let (error, processor, control) = machine.try_start().expect("a refusal");
        assert_eq!((error, processor), (ErrorCode::BranchesTaken, 0), "{}", recorder.name);
        assert_ne!(control & switch(&recorder).1, 0, "{}", recorder.name);
        assert_eq!(registers(&mut machine), before, "{}", recorder.name);
        // Without branches nothing is checked.
        machine.settings.branches = 0;
        machine.run(SAMPLE, &[sampled()]);
        machine.stop();
        assert_eq!(registers(&mut machine), before, "{}", recorder.name);
    }
}

fn a_recording_that_somebody_changes_ends_the_session<B: Backend>() {
    for recorder in recorders() {
        let machine = on::<B>(&with_quirks(&recorder.leaves, "branches-changed"));
        // A filter that differs from theirs: theirs of all branches would be taken for ours.
        let mut bench = Bench::filtered(machine, 8, Configure::TO_USER);
        let mut theirs = None;
        for _ in 0..4 {
            bench.take((1..=20).map(taken));
            bench.retire();
            let before = registers(&mut bench.machine);
            if bench.machine.take_interrupt(0) && bench.read(IA32_DEBUGCTL) & 1 << 11 == 0 {
                theirs.get_or_insert(before);
            }
        }
        let ended = bench.machine.ended_by();
        assert_eq!(ended, Some(ErrorCode::BranchesChanged), "{}", recorder.name);
        // START's self-test has taken the first interrupt: two samples came with branches.
        let counts = bench.samples();
        let counts: Vec<usize> = counts.iter().map(|(_, got)| got.len()).collect();
        let with = counts.iter().filter(|&&count| count > 0).count();
        assert_eq!((with, counts.last()), (2, Some(&0)), "{}", recorder.name);
        let theirs = theirs.expect("the change");
        let now = registers(&mut bench.machine);
        for ((msr, was), (_, is)) in theirs.iter().zip(&now) {
            // The other user's recording continues.
            let control = matches!(*msr, 0x1C8 | 0x14CE | 0x14CF | 0xC000_010E | 0xC000_010F);
            assert!(!control || was == is, "{}: {msr:#x}", recorder.name);
        }
        assert_ne!(bench.read(switch(&recorder).0) & switch(&recorder).1, 0);
        assert_eq!(bench.read(IA32_DEBUGCTL) & 1 << 11, 0, "{}", recorder.name);
        samples_without_branches(&mut bench.machine, recorder.name);
    }
}

/// Somebody writes IA32_DEBUGCTL, and only the freeze is gone: what is still on is the session's,
/// and the next one is not refused.
fn a_recording_whose_freeze_is_cleared_is_ended_whole<B: Backend>() {
    for recorder in recorders() {
        let mut before = on::<B>(&with_quirks(&recorder.leaves, "freeze-cleared"));
        let found = registers(&mut before);
        let mut bench = Bench::filtered(before, 8, 0);
        for _ in 0..4 {
            bench.take((1..=20).map(taken));
            bench.retire();
            bench.machine.take_interrupt(0);
        }
        let ended = bench.machine.ended_by();
        assert_eq!(ended, Some(ErrorCode::BranchesChanged), "{}", recorder.name);
        assert_eq!(registers(&mut bench.machine), found, "{}", recorder.name);
        bench.machine.start();
    }
}

/// Somebody takes over when the session has no more interrupts to see it by: with a filter of theirs,
/// or with recording off.
fn what_somebody_sets_after_the_last_interrupt_stays<B: Backend>() {
    for recorder in recorders() {
        let (switch, enable) = switch(&recorder);
        let (filter, theirs) = match recorder.records {
            BranchRecords::Architectural => (0x14CE, 0x0001_0007),
            BranchRecords::AmdV2 => (0xC000_010E, 0x55),
            _ => (0x1C8, 0x1AA),
        };
        for (msr, cleared, set) in [(filter, u64::MAX, theirs), (switch, enable, 0)] {
            let mut bench = Bench::<B>::filtered(on(&recorder.leaves), 8, Configure::TO_USER);
            bench.take((1..=20).map(taken));
            bench.overflow();
            for (msr, cleared, set) in [(IA32_DEBUGCTL, 1 << 11, 0), (msr, cleared, set)] {
                let value = bench.read(msr) & !cleared | set;
                bench.machine.client.write(0, msr, value);
            }
            bench.machine.client.model.others_wrote_registers();
            let left = registers(&mut bench.machine);
            bench.machine.stop();
            assert_eq!(registers(&mut bench.machine), left, "{}: {msr:#x}", recorder.name);
        }
    }
}

/// A session without branches has nothing to do with who records them. Its last interrupt comes
/// when STOP has stopped the counters.
fn samples_without_branches<B: Backend>(machine: &mut Stepped<B>, name: &str) {
    (machine.settings.branches, machine.settings.branch_filter) = (0, 0);
    machine.run(SAMPLE, &[sampled()]);
    let processor = machine.processor(0);
    let total = processor.counts().total(Event::Instructions) + PERIOD;
    machine.retire(0, &[(Event::Instructions, total)]);
    assert_eq!(machine.try_stop(), None, "{name}");
}

/// An overflow whose interrupt was lost has frozen the records too.
fn records_go_on_after_an_interrupt_that_was_lost<B: Backend>() {
    for recorder in recorders() {
        let mut bench = Bench::<B>::new(&recorder, 8);
        bench.retire();
        assert!(bench.machine.processor(0).acknowledge_interrupt().is_some());
        bench.machine.tick();
        records_the_last(&recorder, bench);
    }
}

/// The registers of the newest record: FROM, TO and, but for AMD, INFO.
fn newest<B: Backend>(recorder: &Recorder, bench: &mut Bench<B>) -> [u32; 3] {
    match recorder.records {
        BranchRecords::Architectural => [0x1500, 0x1600, 0x1200],
        BranchRecords::AmdV2 => [0xC001_0300, 0xC001_0301, 0],
        _ => {
            let top = bench.read(0x1C9) as u32;
            [0x680 + top, 0x6C0 + top, 0xDC0 + top]
        }
    }
}

/// The filter records none, but a record may come from elsewhere.
fn a_record_between_two_kernel_addresses_is_hidden_too<B: Backend>() {
    for recorder in recorders() {
        let mut bench = Bench::filtered(hidden(on::<B>(&recorder.leaves)), 8, 0);
        bench.take([taken(1)]);
        let [from, to, _] = newest(&recorder, &mut bench);
        let (mut address, mut valid) = (KERNEL | 0x4321_0000, 0);
        if recorder.records == BranchRecords::AmdV2 {
            (address, valid) = (address & ((1 << 58) - 1), 1 << 63);
        }
        bench.machine.client.write(0, from, address);
        bench.machine.client.write(0, to, address | valid);
        let nothing = Branch { flags: Branch::HIDDEN, ..Branch::default() };
        assert_eq!(bench.branches(), [nothing], "{}", recorder.name);
    }
}

/// CYC_CNT_VALID is bit 60 of IA32_LBR_0_INFO.
fn cycles_that_are_not_valid_are_not_told<B: Backend>() {
    let is_architectural = |one: &Recorder| one.records == BranchRecords::Architectural;
    for recorder in recorders().into_iter().filter(is_architectural) {
        let mut bench = Bench::<B>::new(&recorder, 8);
        bench.take([taken(1)]);
        let [.., info] = newest(&recorder, &mut bench);
        let value = bench.read(info) & !(1 << 60);
        bench.machine.client.write(0, info, value);
        let branch = bench.branches()[0];
        assert_eq!((branch.cycles, branch.flags), (0, Branch::PREDICTED));
    }
}

/// CPUID 8000_0008h EAX\[15:8\]: with 57 bits, bit 47 is no sign.
fn addresses_have_as_many_bits_as_the_processor_says<B: Backend>() {
    let zen4 = recorders().pop().expect("AMD's");
    for (bits, from) in [(57, 0x00AA_8000_1234_5678), (48, KERNEL | 0x1234)] {
        let leaves = with(&zen4.leaves, 0x8000_0008, |leaf| {
            leaf.eax = leaf.eax & !0xFF00 | bits << 8;
        });
        let mut bench = Bench::filtered(on::<B>(&leaves), 8, 0);
        let far = Taken { from, ..taken(1) };
        bench.take([far]);
        assert_eq!(bench.branches()[0].from, from, "{bits}");
    }
}

/// An interrupt that none of our counters has requested has frozen nothing.
fn records_go_on_after_a_spurious_interrupt<B: Backend>() {
    for recorder in recorders() {
        let mut bench = Bench::<B>::new(&recorder, 8);
        bench.machine.spurious_interrupt(0);
        records_the_last(&recorder, bench);
    }
}

/// LBR_FRZ, bit 58 of the status register, is found set after sleep.
fn records_that_were_found_frozen_thaw<B: Backend>() {
    for recorder in recorders() {
        let mut bench = Bench::<B>::new(&recorder, 8);
        bench.machine.sleep();
        bench.machine.lose_registers();
        bench.machine.processor(0).show_status(1 << 58);
        bench.machine.wake();
        bench.samples();
        records_the_last(&recorder, bench);
    }
}

/// A debug exception, of whatever program, clears IA32_DEBUGCTL.LBR (SDM vol. 3, "Monitoring
/// Branches, Exceptions, and Interrupts"): one sample has no branches, and the recording goes on.
fn a_debug_exception_does_not_end_the_recording<B: Backend>() {
    let mut tried = 0;
    for recorder in recorders() {
        if recorder.records != BranchRecords::Info {
            continue;
        }
        tried += 1;
        let mut bench = Bench::<B>::new(&recorder, 8);
        let debugctl = bench.read(IA32_DEBUGCTL);
        for _ in 0..3 {
            bench.take((1..=20).map(taken));
            bench.machine.client.write(0, IA32_DEBUGCTL, debugctl & !1);
            assert_eq!(bench.branches(), [], "{}", recorder.name);
            assert_eq!(bench.read(IA32_DEBUGCTL), debugctl, "{}", recorder.name);
            bench.take((1..=20).map(taken));
            assert_eq!(bench.branches().len(), 8, "{}", recorder.name);
        }
        bench.machine.client.write(0, IA32_DEBUGCTL, debugctl & !1);
        bench.machine.stop();
        assert_eq!(bench.read(IA32_DEBUGCTL), 0, "{}", recorder.name);
    }
    assert_ne!(tried, 0);
}

/// There is no sample for which records would be read.
fn a_lost_interrupt_reads_no_records<B: Backend>() {
    for recorder in recorders() {
        let cost = |depth| {
            let mut bench = Bench::<B>::new(&recorder, depth);
            bench.take((1..=200).map(taken));
            bench.machine.retire(0, &[(Event::Instructions, PERIOD)]);
            let processor = bench.machine.processor(0);
            assert!(processor.acknowledge_interrupt().is_some());
            let tick = |machine: &mut Stepped<B>| machine.tick();
            bench.machine.accesses(0, tick).rdmsr
        };
        let most = u16::from(recorder.most);
        assert!(cost(most) - cost(0) < most.into(), "{}", recorder.name);
    }
}

/// No time passes here, so a window never ends: an interrupt costs 500 ns, and each register access
/// for its branches 5 ns; ten times as much under a hypervisor. The budget is 1 ms.
fn the_budget_counts_the_accesses<B: Backend>() {
    for recorder in recorders() {
        for depth in [8, u16::from(recorder.most)] {
            let mut bench = Bench::<B>::new(&recorder, depth);
            let (each, besides) = recorder.accesses;
            let bare_metal = 500 + 5 * (each * u64::from(depth) + besides);
            let cost = match recorder.name {
                "hyper-v" => 10 * bare_metal,
                _ => bare_metal,
            };
            for _ in 0..1_000_000 / cost {
                bench.overflow();
            }
            let name = recorder.name;
            assert_eq!(bench.machine.statistics().throttled, 0, "{name}, {depth}");
            bench.overflow();
            assert_eq!(bench.machine.statistics().throttled, 1, "{name}, {depth}");
        }
    }
}

/// A ring of 64 samples, twice over: the branches of each stay apart from all others.
fn every_sample_of_a_full_ring_has_its_own_branches<B: Backend>() {
    for recorder in recorders() {
        let mut bench = Bench::<B>::new(&recorder, 8);
        for round in 0..2 {
            let numbers = 1 + 64 * round..=64 * (round + 1);
            for number in numbers.clone() {
                bench.take([taken(number)]);
                bench.overflow();
            }
            let samples = bench.samples();
            assert_eq!(samples.len(), 64, "{}", recorder.name);
            for (number, (sample, got)) in numbers.zip(samples) {
                assert_eq!(sample.period, PERIOD);
                assert_eq!(got[0], expected(&recorder, &taken(number)), "{number}");
            }
        }
    }
}
