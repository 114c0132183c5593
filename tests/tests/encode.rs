//! Do the values that program a counter match the manuals?

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::historic::encode::{Register, Registers, Upstream as Written};
use hal_profile::historic::netburst;
use hal_profile::historic::select::{NetBurst, NetBurstSelect, Select as Historic, Upstream};
use hal_profile::source::Select;
use hal_profile::source::encode::{self, encode};
use hal_profile::source::filter::Filter;
use halprof_tests::facts::named;
use halprof_tests::silicon::Silicon;
use shared_types::SourceTable;

const MODES: [(Filter, u64); 3] =
    [(filter(true, false), 0b01), (filter(false, true), 0b10), (filter(true, true), 0b11)];

const NO_REGISTER: Register = register(0, 0);

const fn register(msr: u32, value: u32) -> Register {
    Register { msr, value }
}

const fn filter(user: bool, kernel: bool) -> Filter {
    Filter { user, kernel }
}

fn any_processor() -> Capabilities {
    Silicon::amd(0x10, 2).discover()
}

/// What is written to a select register that holds 0 before.
fn select(select: Select, filter: Filter, interrupt: bool) -> u64 {
    let encoding = encode(&any_processor(), &select, filter, interrupt);
    assert_eq!(encoding.upstream, Written::default());
    encoding.select
}

/// USR is bit 16, OS 17, INT 20; EN (22) is not set here.
#[test]
fn event_selects() {
    for (given, bare) in [
        (0x0003_00C0, 0xC0),
        (0xC0, 0xC0),
        (0xF_FF87_FFFF, 0xF_FF84_FFFF),
        (0xFF8F_FFFF, 0xFF8C_FFFF),
    ] {
        for (filter, modes) in MODES {
            let got = select(Select::EventSelect(given), filter, false);
            assert_eq!(got, bare | modes << 16, "{given:#x}");
            let got = select(Select::EventSelect(given), filter, true);
            assert_eq!(got, bare | modes << 16 | 1 << 20, "{given:#x}");
        }
    }
}

/// IA32_FIXED_CTR_CTRL: OS is bit 0 of the nibble, USR bit 1, PMI bit 3.
#[test]
fn fixed_counters() {
    let table = [
        (filter(false, true), false, 0b0001),
        (filter(true, false), false, 0b0010),
        (filter(true, true), false, 0b0011),
        (filter(false, true), true, 0b1001),
        (filter(true, false), true, 0b1010),
        (filter(true, true), true, 0b1011),
    ];
    for (filter, interrupt, nibble) in table {
        for index in 0..7 {
            assert_eq!(select(Select::Fixed(index), filter, interrupt), nibble);
            assert_eq!(encode::fixed(filter, interrupt).select, nibble);
        }
    }
}

/// 0x83 is the HAL design note's own example: data read misses at CPL 3.
#[test]
fn halves_of_cesr() {
    let table = [
        (0x03, false, filter(true, false), 0x83),
        (0x03, false, filter(false, true), 0x43),
        (0x16, false, filter(true, true), 0xD6),
        (0x3F, true, filter(true, true), 0x1FF),
        (0x00, true, filter(false, true), 0x140),
    ];
    for (event, clocks, filter, half) in table {
        for interrupt in [false, true] {
            let got = select(Select::Historic(Historic::Cesr { event, clocks }), filter, interrupt);
            assert_eq!(got, half, "{event:#x}");
        }
    }
}

/// instr_retired, NBOGUSNTAG and NBOGUSTAG: ESCR 0x04000603 for thread 1 and 0x0400060C for thread
/// 0, CCCR 0x00039000 with ENABLE (SDM vol. 3B, the example of cascading).
fn instr_retired() -> NetBurstSelect {
    match named(SourceTable::NetBurst, netburst::ROWS, "TotalIssues").select {
        Select::Historic(Historic::NetBurst(event)) => event,
        other => panic!("{other:?}"),
    }
}

fn on_thread(thread: u8) -> Capabilities {
    let mut capabilities = any_processor();
    capabilities.netburst = NetBurst { hyper_threading: true, thread };
    capabilities
}

/// What is written for a counter that one side's ESCR feeds.
struct CccrAndUpstream {
    select: u64,
    upstream: Registers,
}

fn net_burst(
    event: NetBurstSelect,
    thread: u8,
    side: u8,
    filter: Filter,
    interrupt: bool,
) -> CccrAndUpstream {
    let select = Select::Historic(Historic::NetBurst(event));
    let encoding = encode(&on_thread(thread), &select, filter, interrupt);
    let upstream = if side == 0 { encoding.upstream.even } else { encoding.upstream.odd };
    CccrAndUpstream { select: encoding.select, upstream }
}

#[test]
fn the_manuals_example_of_netburst() {
    const ENABLE: u64 = 1 << 12;
    let both = filter(true, true);
    for (thread, side, escr_msr, escr) in [
        (0, 0, 0x3B8, 0x0400_060C),
        (0, 1, 0x3B9, 0x0400_060C),
        (1, 0, 0x3B8, 0x0400_0603),
        (1, 1, 0x3B9, 0x0400_0603),
    ] {
        let encoding = net_burst(instr_retired(), thread, side, both, false);
        assert_eq!(encoding.select | ENABLE, 0x0003_9000);
        assert_eq!(encoding.select & ENABLE, 0);
        assert_eq!(encoding.upstream, [NO_REGISTER, NO_REGISTER, register(escr_msr, escr)]);
    }
}

#[test]
fn netburst_filters_by_the_threads_own_bits() {
    for (thread, filter, low) in [
        (0, filter(true, false), 0b0100),
        (0, filter(false, true), 0b1000),
        (1, filter(true, false), 0b0001),
        (1, filter(false, true), 0b0010),
    ] {
        let encoding = net_burst(instr_retired(), thread, 0, filter, false);
        assert_eq!(encoding.upstream[2], register(0x3B8, 0x0400_0600 | low));
    }
}

/// OVF_PMI_T0 is bit 26, OVF_PMI_T1 bit 27.
#[test]
fn netburst_interrupts_its_own_thread() {
    for (thread, pmi) in [(0, 1 << 26), (1, 1 << 27)] {
        let encoding = net_burst(instr_retired(), thread, 0, filter(true, true), true);
        assert_eq!(encoding.select, 0x0003_8000 | pmi);
    }
}

/// MSR_RAT_ESCR0 is 0x3BC, MSR_RAT_ESCR1 0x3BD.
#[test]
fn upstream_tags_come_first() {
    let tagged = |upstream| NetBurstSelect { upstream, ..instr_retired() };
    let both = filter(true, true);
    let by_type = tagged(Upstream::UopType { escr: 0x0400_0400 });
    for (thread, side, rat, rat_escr, escr) in [
        (0, 0, 0x3BC, 0x0400_040C, register(0x3B8, 0x0400_060C)),
        (1, 1, 0x3BD, 0x0400_0403, register(0x3B9, 0x0400_0603)),
    ] {
        let encoding = net_burst(by_type, thread, side, both, false);
        assert_eq!(encoding.upstream, [NO_REGISTER, register(rat, rat_escr), escr]);
    }
    let replay = tagged(Upstream::Replay { pebs_enable: 0x0100_0001, matrix_vert: 1 });
    let encoding = net_burst(replay, 0, 0, both, false);
    assert_eq!(
        encoding.upstream,
        [register(0x3F1, 0x0100_0001), register(0x3F2, 1), register(0x3B8, 0x0400_060C)]
    );
}
