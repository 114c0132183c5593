//! Are samples right: as many as there were periods, from where the workload ran, with each loss
//! counted?

use crate::backend::Backend;
use crate::machines::{Client, Sampled, on, sample, sample_in, specs, workload};
use crate::requests::spec;
use crate::stepped::Stepped;
use halprof_measure::{Connection, Session};
use shared_types::request::session::{SAMPLE, Spec};
use shared_types::{LossCause, Mode};
use sim::cpu::event::Event;
use sim::load::workload::{KERNEL_CODE, USER_CODE};

scenarios![
    every_period_gives_one_sample,
    periods_that_are_not_exact_are_drawn,
    a_drawn_period_goes_on_in_the_next_slice,
    all_processors_sample_at_once,
    netburst_samples_where_overflows_are_not_flagged,
    late_interrupts_do_not_drift,
    periods_that_pass_before_an_interrupt_are_told,
    addresses_and_modes_are_the_workload_s,
    code_moves_the_user_addresses,
    kernel_mode_is_hidden_from_a_session_without_the_right,
    what_does_not_fit_the_ring_is_told,
    too_short_a_period_is_lengthened_and_said_so,
    the_interrupt_comes_at_the_last_event_of_the_period,
    lvtpc_is_let_through_again_and_keeps_its_vector,
];

const TOTAL_ISSUES: u32 = 2;
const AMOUNTS: &str = "instructions=10000019,cycles=30000001,branches=2000003,\
    branch-misses=500009,ref-cycles=24000001,llc-misses=400009,l1d-misses=700001";

/// A machine, and what is sampled on one of its processors.
#[derive(Clone, Copy)]
struct Way {
    model: &'static str,
    processors: usize,
    /// The processor that works.
    works: u32,
    /// Each source with its period, and the samples that it must produce: floor(amount / period).
    sources: &'static [(&'static str, usize)],
}

impl Way {
    fn list(&self) -> String {
        self.sources.iter().map(|source| source.0).collect::<Vec<_>>().join(",")
    }

    fn expected(&self) -> Vec<usize> {
        self.sources.iter().map(|source| source.1).collect()
    }
}

const WAYS: [Way; 15] = [
    Way { model: "yonah", processors: 2, works: 1, sources: &[("TotalIssues:50021", 199)] },
    Way {
        model: "core2",
        processors: 2,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("TotalCycles:1000003", 29)],
    },
    Way {
        model: "skylake",
        processors: 2,
        works: 1,
        sources: &[
            ("TotalIssues:50021", 199),
            ("BranchInstructions:10007", 199),
            ("LLCMisses:8009", 49),
            ("BranchMispredictions:9001", 55),
        ],
    },
    Way {
        model: "sapphire-rapids",
        processors: 2,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("BranchInstructions:10007", 199)],
    },
    // APIC ids above 255: x2APIC mode.
    Way {
        model: "skylake",
        processors: 302,
        works: 301,
        sources: &[("TotalIssues:50021", 199), ("LLCMisses:8009", 49)],
    },
    Way {
        model: "sapphire-rapids",
        processors: 302,
        works: 301,
        sources: &[("TotalIssues:50021", 199)],
    },
    Way {
        model: "skylake",
        processors: 1,
        works: 0,
        sources: &[
            ("FixedInstructions:50021", 199),
            ("FixedCycles:100003", 299),
            ("FixedReferenceCycles:100003", 239),
        ],
    },
    Way {
        model: "k8",
        processors: 2,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("DcacheMisses:7001", 99)],
    },
    Way {
        model: "bulldozer",
        processors: 2,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("BranchMispredictions:5003", 99)],
    },
    Way {
        model: "zen2",
        processors: 2,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("BranchInstructions:10007", 199)],
    },
    Way {
        model: "zen4",
        processors: 2,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("L1dMisses:7001", 99)],
    },
    Way {
        model: "pentium3",
        processors: 2,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("TotalCycles:100003", 299)],
    },
    Way {
        model: "pentium-m",
        processors: 2,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("TotalCycles:100003", 299)],
    },
    Way {
        model: "pentium4",
        processors: 2,
        works: 1,
        sources: &[
            ("TotalIssues:50021", 199),
            ("TotalCycles:100003", 299),
            ("BranchInstructions:10007", 199),
        ],
    },
    Way {
        model: "pentium4-ht",
        processors: 4,
        works: 1,
        sources: &[("TotalIssues:50021", 199), ("TotalCycles:100003", 299)],
    },
];

fn machine<B: Backend>(model: &str, processors: usize) -> Connection<Client<B>> {
    on(&format!("{model},processors={processors}"))
}

/// Generated samples are stored or lost, by cause; what was stored was drained.
fn accounts_for_all(sampled: &Sampled) {
    let statistics = &sampled.statistics;
    let lost: u64 = statistics.lost.iter().sum();
    assert_eq!(statistics.generated, statistics.stored + lost);
    assert!(sampled.samples.len() as u64 <= statistics.stored);
    for (processor, counts) in (0u32..).zip(&sampled.counts) {
        for (source, count) in (0u16..).zip(counts) {
            let periods = sampled
                .samples
                .iter()
                .filter(|sample| sample.processor == processor && sample.source == source);
            let sum: u64 = periods.map(|sample| sample.period).sum();
            assert!(sum <= count.counted, "{sum} of {}", count.counted);
        }
    }
}

fn samples_are(name: &str, sampled: &Sampled, processor: u32, expected: &[usize]) {
    for (source, &expected) in (0u16..).zip(expected) {
        assert_eq!(sampled.of(processor, source), expected, "{name}: source {source}");
    }
    let all: usize = expected.iter().sum();
    assert_eq!(sampled.samples.len(), all, "{name}: elsewhere");
    let statistics = &sampled.statistics;
    let counts = (statistics.generated, statistics.stored);
    assert_eq!(counts, (all as u64, all as u64), "{name}");
    assert_eq!(statistics.lost, [0; 4], "{name}");
    assert_eq!(statistics.throttled, 0, "{name}");
    accounts_for_all(sampled);
}

fn every_period_gives_one_sample<B: Backend>() {
    for way in WAYS {
        let mut connection = machine::<B>(way.model, way.processors);
        let specs = specs(&mut connection, &way.list());
        let workload = workload(&format!("{AMOUNTS},processors={}", way.works));
        let sampled = sample(&mut connection, specs, &workload);
        samples_are(way.model, &sampled, way.works, &way.expected());
    }
}

/// Events of a source that its samples stand for, stored or lost, are all but those of a last
/// period; each period is of the band, and their mean is the one that is used.
fn periods_that_are_not_exact_are_drawn<B: Backend>() {
    const COUNTED: u64 = 65_536 * 3000;
    for model in ["yonah", "skylake", "k8", "zen4", "pentium3", "pentium4"] {
        for skid in [0, 5000] {
            let mut connection = machine::<B>(model, 2);
            let specs = specs(&mut connection, "TotalIssues");
            let text = format!("instructions={COUNTED},processors=0-1,skid={skid}");
            let sampled = sample(&mut connection, specs, &workload(&text));
            let mut processors: Vec<Vec<u64>> = Vec::new();
            for processor in 0..2 {
                let own = sampled.samples.iter().filter(|sample| sample.processor == processor);
                let periods: Vec<u64> = own.map(|sample| sample.period).collect();
                let sum: u64 = periods.iter().sum();
                assert!((1..=69_632).contains(&(COUNTED - sum)), "{model} {skid}: {sum}");
                assert!(periods.iter().all(|period| (61_440..=69_632).contains(period)), "{model}");
                assert!(periods.iter().any(|&period| period < 61_900), "{model}");
                assert!(periods.iter().any(|&period| period > 69_200), "{model}");
                // Five standard deviations of the mean of 3,000.
                let mean = sum / periods.len() as u64;
                assert!(mean.abs_diff(65_536) < 220, "{model} {skid}: {mean}");
                processors.push(periods);
            }
            assert_ne!(processors[0], processors[1], "{model}");
            assert_eq!(sampled.statistics.lost, [0; 4], "{model}");
            accounts_for_all(&sampled);
        }
    }
}

/// Were it drawn anew, it might be over when the slice begins: samples would come where slices
/// begin, and more of them than there are periods.
fn a_drawn_period_goes_on_in_the_next_slice<B: Backend>() {
    let mut connection = machine::<B>("core2", 1);
    let list = "TotalIssues,TotalCycles,BranchInstructions,BranchMispredictions,LLCReference";
    let mut specs = specs(&mut connection, list);
    for spec in &mut specs {
        // Many slices are shorter than a period.
        (spec.interval, spec.flags) = (40_000_000, Spec::MEAN);
    }
    let text = "instructions=8000000000,cycles=8000000000,branches=8000000000,\
        branch-misses=8000000000,llc-references=8000000000";
    let sampled = sample(&mut connection, specs, &workload(text));
    assert!(sampled.samples.len() > 200);
    for (source, count) in (0..).zip(&sampled.counts[0]) {
        let own: Vec<_> = sampled.samples.iter().filter(|sample| sample.source == source).collect();
        let sum: u64 = own.iter().map(|sample| sample.period).sum();
        assert!(count.counted - sum < 42_500_000 + 1, "{source}: {sum} of {count:?}");
        let mean = sum / own.len() as u64;
        assert!(mean.abs_diff(40_000_000) < 1_000_000, "{source}: {mean}");
    }
    accounts_for_all(&sampled);
}

fn all_processors_sample_at_once<B: Backend>() {
    for (model, list) in [
        ("skylake", "TotalIssues:50021"),
        ("zen4", "TotalIssues:50021"),
        ("pentium3", "TotalIssues:50021"),
        ("pentium4", "TotalIssues:50021"),
        ("pentium4-ht", "TotalIssues:50021"),
    ] {
        let mut connection = machine::<B>(model, 4);
        let specs = specs(&mut connection, list);
        let workload = workload(&format!("{AMOUNTS},processors=0-3"));
        let sampled = sample(&mut connection, specs, &workload);
        for processor in 0..4 {
            assert_eq!(sampled.of(processor, 0), 199, "{model} {processor}");
        }
        assert_eq!(sampled.statistics.lost, [0; 4], "{model}");
        accounts_for_all(&sampled);
    }
}

fn netburst_samples_where_overflows_are_not_flagged<B: Backend>() {
    for model in ["pentium4", "pentium4-ht"] {
        let mut connection = machine::<B>(model, 2);
        for index in 0..2 {
            let processor = connection.transport().0.processor(index);
            processor.unflag_overflows();
        }
        let specs = specs(&mut connection, "TotalIssues:50021,TotalCycles:100003");
        let workload = workload(&format!("{AMOUNTS},processors=1"));
        let sampled = sample(&mut connection, specs, &workload);
        samples_are(model, &sampled, 1, &[199, 299]);
    }
}

/// However late an interrupt is, the events beyond the period count towards the next one. The local
/// APIC's mode has no part in it, and hundreds of processors take long.
fn late_interrupts_do_not_drift<B: Backend>() {
    for skid in [1, 100, 5000] {
        for way in WAYS.into_iter().filter(|way| way.processors < 256) {
            let mut connection = machine::<B>(way.model, way.processors);
            let specs = specs(&mut connection, &way.list());
            let text = format!("{AMOUNTS},processors={},skid={skid}", way.works);
            let sampled = sample(&mut connection, specs, &workload(&text));
            let all: usize = way.expected().iter().sum();
            assert_eq!(sampled.statistics.generated, all as u64, "{} {skid}", way.model);
            assert_eq!(sampled.statistics.lost[LossCause::RingFull as usize], 0);
            accounts_for_all(&sampled);
        }
    }
}

/// An interrupt that comes two periods late stands for both; one of them is counted as lost.
fn periods_that_pass_before_an_interrupt_are_told<B: Backend>() {
    let mut connection = machine::<B>("skylake", 1);
    let specs = specs(&mut connection, "TotalIssues:50000");
    let workload = workload("instructions=1000000,skid=60000");
    let sampled = sample(&mut connection, specs, &workload);
    assert_eq!(sampled.statistics.generated, 20);
    assert!(sampled.statistics.lost[LossCause::Coalesced as usize] > 0);
    accounts_for_all(&sampled);
}

fn addresses_and_modes_are_the_workload_s<B: Backend>() {
    for (user, model) in [(0, "skylake"), (100, "zen4"), (80, "skylake"), (80, "pentium4")] {
        let mut connection = machine::<B>(model, 1);
        let specs = specs(&mut connection, "TotalIssues:10007");
        let workload = workload(&format!("{AMOUNTS},user={user}"));
        let sampled = sample(&mut connection, specs, &workload);
        let mut in_user = 0;
        for sample in &sampled.samples {
            let (start, end) = match sample.mode {
                mode if mode == Mode::User as u8 => USER_CODE,
                mode if mode == Mode::Kernel as u8 => KERNEL_CODE,
                mode => panic!("mode {mode}"),
            };
            assert!((start..end).contains(&sample.ip), "{:#x}", sample.ip);
            in_user += u32::from(sample.mode == Mode::User as u8);
        }
        // floor(10000019 / 10007) samples; user events are spread evenly.
        assert_eq!(sampled.samples.len(), 999, "{model}");
        let expected = 999 * user / 100;
        assert!(in_user.abs_diff(expected) <= 10, "{model}: {in_user} of {expected}");
    }
}

fn code_moves_the_user_addresses<B: Backend>() {
    let mut connection = machine::<B>("zen5", 1);
    let specs = specs(&mut connection, "TotalIssues:10007");
    let workload = workload(&format!("{AMOUNTS},code=0x7ff612340000-0x7ff612348000"));
    let sampled = sample(&mut connection, specs, &workload);
    let range = 0x7FF6_1234_0000..0x7FF6_1234_8000u64;
    assert!(sampled.samples.iter().all(|sample| range.contains(&sample.ip)));
}

fn kernel_mode_is_hidden_from_a_session_without_the_right<B: Backend>() {
    let mut connection = machine::<B>("skylake", 1);
    let specs = specs(&mut connection, "TotalIssues:10007:u");
    let session = Session::open(&mut connection, false, false).expect("a session");
    let text = format!("{AMOUNTS},user=70,skid=4");
    let sampled = sample_in(session, specs, &workload(&text), u64::MAX);
    assert_eq!(sampled.statistics.generated, 10_000_019 * 70 / 100 / 10_007);
    assert!(sampled.statistics.lost[LossCause::KernelHidden as usize] > 0);
    let user = Mode::User as u8;
    assert!(!sampled.samples.is_empty());
    assert!(sampled.samples.iter().all(|sample| sample.mode == user));
    accounts_for_all(&sampled);
}

/// A ring of 64 samples.
fn what_does_not_fit_the_ring_is_told<B: Backend>() {
    for model in ["skylake", "zen4", "pentium4"] {
        let mut machine = stepped::<B>(model);
        for round in 1..=70 {
            machine.pass(5000);
            machine.retire(0, &[(Event::Instructions, round * 5000)]);
            assert!(machine.take_interrupt(0), "{model} {round}");
        }
        machine.stop();
        let statistics = machine.statistics();
        assert_eq!((statistics.generated, statistics.stored), (70, 64), "{model}");
        assert_eq!(statistics.lost[LossCause::RingFull as usize], 6, "{model}");
        assert_eq!(machine.drain().len(), 64, "{model}");
        assert_eq!(machine.counted(), [70 * 5000], "{model}");
    }
}

fn too_short_a_period_is_lengthened_and_said_so<B: Backend>() {
    for model in ["skylake", "yonah", "zen4", "k8", "pentium3", "pentium4"] {
        let mut connection = machine::<B>(model, 1);
        let specs = specs(&mut connection, "TotalIssues:4096");
        let text = "instructions=20000000,cycles=20000000";
        let sampled = sample(&mut connection, specs, &workload(text));
        let statistics = &sampled.statistics;
        assert!(statistics.throttled > 0, "{model}");
        // 10 % of the time at 1.5 us each leaves 14,000 events between two: 4096, 8192, 16384.
        assert_eq!(statistics.longest_period, 16_384, "{model}");
        // One window of 10 ms may spend its budget before the guard can react.
        let budget = sampled.elapsed / 10 + 1_000_000;
        assert!(
            statistics.handler_ticks <= budget,
            "{model}: {} of {}",
            statistics.handler_ticks,
            sampled.elapsed
        );
        assert_eq!(sampled.counts[0][0].counted, 20_000_000, "{model}");
        accounts_for_all(&sampled);
    }
}

/// A session that samples instructions, every 5000.
fn stepped<B: Backend>(model: &str) -> Stepped<B> {
    let mut machine = Stepped::new(model, 1);
    machine.run(SAMPLE, &[Spec { interval: 5000, ..spec(TOTAL_ISSUES) }]);
    machine
}

/// The interrupt comes at the period's last event, neither before nor after it, on NetBurst too
/// (SDM vol. 3B, "Generating an Interrupt on Overflow": preset for one event less).
fn the_interrupt_comes_at_the_last_event_of_the_period<B: Backend>() {
    for model in ["yonah", "skylake", "k8", "zen4", "pentium3", "pentium4"] {
        let mut machine = stepped::<B>(model);
        for round in 1..=3 {
            machine.retire(0, &[(Event::Instructions, round * 5000 - 1)]);
            assert!(!machine.take_interrupt(0), "{model} {round}: too early");
            machine.retire(0, &[(Event::Instructions, round * 5000)]);
            assert!(machine.take_interrupt(0), "{model} {round}: too late");
        }
    }
}

/// SDM vol. 3A, "Local Vector Table": LVTPC in the APIC's page, mask in bit 16.
fn lvtpc_is_let_through_again_and_keeps_its_vector<B: Backend>() {
    const LVTPC: u32 = 0x340;
    const AS_WINDOWS_LEAVES_IT: u32 = 0xFE;
    for model in ["yonah", "core2", "skylake", "k8", "zen4", "pentium3", "pentium-m", "pentium4"] {
        let mut machine = stepped::<B>(model);
        for round in 1..=20 {
            machine.retire(0, &[(Event::Instructions, round * 5000)]);
            assert!(machine.take_interrupt(0), "{model} {round}");
            let entry = machine.processor(0).read_apic(LVTPC);
            assert_eq!(entry, Ok(AS_WINDOWS_LEAVES_IT), "{model} {round}");
        }
        machine.stop();
        let entry = machine.processor(0).read_apic(LVTPC);
        assert_eq!(entry, Ok(AS_WINDOWS_LEAVES_IT), "{model}");
        assert_eq!(machine.drain().len(), 20, "{model}");
    }
}
