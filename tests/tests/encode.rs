//! Do the values that program a counter match the manuals' own examples?
//!
//! That each source counts in the modes of its filter is in `counting.rs`, and that it interrupts in
//! the scenario `sampling`.

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::historic::encode::{Register, Registers};
use hal_profile::historic::netburst;
use hal_profile::historic::select::{NetBurst, NetBurstSelect, Select as Historic, Upstream};
use hal_profile::source::Select;
use hal_profile::source::encode::encode;
use hal_profile::source::filter::Filter;
use halprof_tests::facts::named;
use halprof_tests::silicon::Silicon;
use shared_types::SourceTable;

const USER: Filter = Filter { user: true, kernel: false };
const KERNEL: Filter = Filter { user: false, kernel: true };
const BOTH: Filter = Filter::BOTH;

const NO_REGISTER: Register = register(0, 0);

const fn register(msr: u32, value: u32) -> Register {
    Register { msr, value }
}

fn on_thread(thread: u8) -> Capabilities {
    let mut capabilities = Silicon::pentium_4(None).discover();
    capabilities.netburst = NetBurst { hyper_threading: true, thread };
    capabilities
}

/// 0x83 is the HAL design note's own example: data read misses at CPL 3.
#[test]
fn halves_of_cesr() {
    for (event, clocks, filter, half) in [
        (0x03, false, USER, 0x83),
        (0x03, false, KERNEL, 0x43),
        (0x16, false, BOTH, 0xD6),
        (0x3F, true, BOTH, 0x1FF),
        (0x00, true, KERNEL, 0x140),
    ] {
        for interrupt in [false, true] {
            let select = Select::Historic(Historic::Cesr { event, clocks });
            let encoding = encode(&on_thread(0), &select, filter, interrupt);
            assert_eq!(encoding.select, half, "{event:#x}");
        }
    }
}

fn instr_retired() -> NetBurstSelect {
    match named(SourceTable::NetBurst, netburst::ROWS, "TotalIssues").select {
        Select::Historic(Historic::NetBurst(event)) => event,
        other => panic!("{other:?}"),
    }
}

/// The CCCR of a counter that one side's ESCR feeds, and what is written before it.
fn net_burst(
    event: NetBurstSelect,
    (thread, side): (u8, u8),
    filter: Filter,
    interrupt: bool,
) -> (u64, Registers) {
    let select = Select::Historic(Historic::NetBurst(event));
    let encoding = encode(&on_thread(thread), &select, filter, interrupt);
    let upstream = if side == 0 { encoding.upstream.even } else { encoding.upstream.odd };
    (encoding.select, upstream)
}

/// instr_retired, NBOGUSNTAG and NBOGUSTAG: ESCR 0x04000603 for thread 1 and 0x0400060C for thread
/// 0, CCCR 0x00039000 with ENABLE, bit 12 (SDM vol. 3B, the example of cascading). OVF_PMI_T0 is bit
/// 26, OVF_PMI_T1 bit 27.
#[test]
fn the_manuals_example_of_netburst() {
    for (thread_and_side, filter, interrupt, cccr, escr) in [
        ((0, 0), BOTH, false, 0x3_8000, register(0x3B8, 0x0400_060C)),
        ((0, 1), BOTH, true, 0x3_8000 | 1 << 26, register(0x3B9, 0x0400_060C)),
        ((0, 0), USER, false, 0x3_8000, register(0x3B8, 0x0400_0604)),
        ((0, 0), KERNEL, false, 0x3_8000, register(0x3B8, 0x0400_0608)),
        ((1, 0), BOTH, false, 0x3_8000, register(0x3B8, 0x0400_0603)),
        ((1, 1), BOTH, true, 0x3_8000 | 1 << 27, register(0x3B9, 0x0400_0603)),
        ((1, 0), USER, false, 0x3_8000, register(0x3B8, 0x0400_0601)),
        ((1, 0), KERNEL, false, 0x3_8000, register(0x3B8, 0x0400_0602)),
    ] {
        let written = net_burst(instr_retired(), thread_and_side, filter, interrupt);
        assert_eq!(written, (cccr, [NO_REGISTER, NO_REGISTER, escr]));
    }
}

/// MSR_RAT_ESCR0 is 0x3BC, MSR_RAT_ESCR1 0x3BD.
#[test]
fn upstream_tags_come_first() {
    let by_type = Upstream::UopType { escr: 0x0400_0400 };
    let replay = Upstream::Replay { pebs_enable: 0x0100_0001, matrix_vert: 1 };
    let escr = [register(0x3B8, 0x0400_060C), register(0x3B9, 0x0400_0603)];
    for (thread_and_side, upstream, expected) in [
        ((0, 0), by_type, [NO_REGISTER, register(0x3BC, 0x0400_040C), escr[0]]),
        ((1, 1), by_type, [NO_REGISTER, register(0x3BD, 0x0400_0403), escr[1]]),
        ((0, 0), replay, [register(0x3F1, 0x0100_0001), register(0x3F2, 1), escr[0]]),
    ] {
        let event = NetBurstSelect { upstream, ..instr_retired() };
        assert_eq!(net_burst(event, thread_and_side, BOTH, false).1, expected);
    }
}
