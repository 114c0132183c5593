//! What does a raw select mean on each family, and which of its bits are refused?

use hal_profile::cpu::registers::intel::{ANY_THREAD, EQUAL, UNIT_MASK_2};
use hal_profile::historic::raw::Family as Old;
use hal_profile::historic::select::{NetBurstSelect, Select as Historic, Upstream};
use hal_profile::source::RawEvent;
use hal_profile::source::raw::{Family, parse};
use hal_profile::source::{ANY, Select};

const EMON: Family = Family::Emon { more: 0 };
const NETBURST: Family = Family::Historic(Old::NetBurst { model: 2 });

/// ESCR in the low half; CCCR and the counter group in the high half.
const fn netburst(escr: u64, cccr: u64, group: u64) -> u64 {
    escr | (cccr | group) << 32
}

/// instr_retired: event select 2, ESCR select 4, group IQ, all four mask bits.
const INSTR_RETIRED: u64 = netburst(0x04001E00, 0x8000, 3);

fn bits(ranges: &[(u32, u32)]) -> u64 {
    ranges.iter().flat_map(|&(low, high)| low..=high).fold(0, |set, bit| set | 1 << bit)
}

/// Which bits a client is refused is in tests/configurations.rs.
#[test]
fn allowed_bits_are_what_is_programmed() {
    let every_family = bits(&[(0, 15), (18, 18), (23, 31)]);
    let features = Family::Emon { more: ANY_THREAD | EQUAL | UNIT_MASK_2 };
    for (family, more) in [
        (EMON, 0),
        (features, bits(&[(21, 21), (36, 36), (40, 47)])),
        (Family::Historic(Old::P6), 0),
        (Family::Amd64(0x0F), 0),
        (Family::Amd64(0x19), bits(&[(32, 35)])),
    ] {
        let allowed = every_family | more;
        for bit in (0..64).map(|bit| 1_u64 << bit).filter(|bit| allowed & bit != 0) {
            // Intel's code 0 is none.
            let event = if bit > 0xFF { bit | 0xC0 } else { bit };
            let raw = parse(family, event).expect("an allowed bit");
            assert_eq!(raw.select, Select::EventSelect(event | 0x30000), "{family:?}");
        }
        let modes = bits(&[(16, 17)]);
        assert_eq!(parse(family, u64::MAX), Err(!(allowed | modes)), "{family:?}");
    }
}

/// It stands for fixed counters, whatever its unit mask.
#[test]
fn intel_s_code_0_is_refused() {
    for raw in [0, 0x0100, 0x0400, 0x8000, 0x0103_0000] {
        assert_eq!(parse(EMON, raw), Err(0xFF), "{raw:#x}");
    }
}

#[test]
fn user_and_kernel_bits_are_the_filter() {
    let table = [
        (EMON, 0xC0, 16, 17),
        (Family::Historic(Old::P6), 0xC0, 16, 17),
        (Family::Amd64(0x19), 0xC0, 16, 17),
        (Family::Historic(Old::Pentium), 0x16, 16, 17),
        (NETBURST, INSTR_RETIRED, 2, 3),
    ];
    for (family, event, user_bit, kernel_bit) in table {
        let plain = parse(family, event).expect("an event");
        for (user, kernel) in [(false, false), (true, false), (false, true), (true, true)] {
            let raw = event | u64::from(user) << user_bit | u64::from(kernel) << kernel_bit;
            assert_eq!(parse(family, raw), Ok(RawEvent { user, kernel, ..plain }), "{family:?}");
        }
    }
}

#[test]
fn northbridge_events_are_refused_by_their_event_field() {
    for event in 0..0x1000_u64 {
        let raw = event & 0xFF | (event & 0xF00) << 24 | 0x0100;
        let northbridge = event & 0xFF >= 0xE0;
        for family in [0x10, 0x16] {
            let refused = parse(Family::Amd64(family), raw).err();
            assert_eq!(refused, northbridge.then_some(0xF_0000_00FF), "{family:#x} {event:#x}");
        }
        if event < 0x100 {
            let k8 = parse(Family::Amd64(0x0F), raw);
            assert_eq!(k8.err(), northbridge.then_some(0xFF), "{event:#x}");
        }
        // The northbridge of later families has registers of its own, and Merge is no event to count.
        for family in [0x17, 0x19, 0x1A] {
            let refused = parse(Family::Amd64(family), raw).err();
            assert_eq!(
                refused,
                (event == 0xFFF).then_some(0xF_0000_00FF),
                "{family:#x} {event:#x}"
            );
        }
    }
}

#[test]
fn counters_follow_the_event() {
    let table = [
        (EMON, 0xC1, ANY),
        (Family::Historic(Old::P6), 0xC1, 0b01),
        (Family::Historic(Old::P6), 0x13, 0b10),
        (Family::Historic(Old::P6), 0xC0, ANY),
        (Family::Amd64(0x10), 0x03, ANY),
        (Family::Amd64(0x15), 0x03, 0b00_1000),
        (Family::Amd64(0x15), 0x1_0000_00C0, 0b11_1000),
        (Family::Historic(Old::Pentium), 0x29, ANY),
        (Family::Historic(Old::Pentium), 0x2A, 0b01),
        (Family::Historic(Old::Pentium), 0x3B, 0b01),
        (NETBURST, INSTR_RETIRED, 0x3F000),
    ];
    for (family, raw, counters) in table {
        assert_eq!(parse(family, raw).map(|raw| raw.counters), Ok(counters), "{family:?} {raw:#x}");
    }
}

/// TC_deliver_mode and resource_stall share event select 1 and ESCR select 1: the group distinguishes
/// them. IOQ_allocation's own row counts edges, and a raw select counts as it says. IOQ_active_entries
/// is FSB_ESCR1's alone, with counters 2 and 3 (SDM vol. 3B, "Performance Monitoring Events Based on
/// Intel NetBurst Microarchitecture").
#[test]
fn netburst_finds_the_escrs_of_the_documented_event() {
    for (escr, cccr, group, escr_msr, counters) in [
        (0x0200_0200, 0x017C_2000, 1, [0x3C4, 0x3C5], [0x30, 0xC0]),
        (0x0200_4000, 0x017C_2000, 3, [0x3CA, 0x3CB], [0x13000, 0x2C000]),
        // The enable bit of counter 1 does not work reliably (Linux, p4.c).
        (0x0600_0200, 0xC000, 0, [0x3A2, 0x3A3], [0b1, 0b1100]),
        (0x3400_0200, 0xC000, 0, [0, 0x3A3], [0, 0b1100]),
    ] {
        let select = NetBurstSelect { escr, cccr, escr_msr, counters, upstream: Upstream::None };
        let raw = parse(NETBURST, netburst(escr.into(), cccr.into(), group)).expect("an event");
        assert_eq!(raw.select, Select::Historic(Historic::NetBurst(select)));
        assert_eq!(raw.counters, counters[0] | counters[1], "{escr:#x}");
    }
}

#[test]
fn netburst_refuses_what_is_not_documented() {
    let event_fields = netburst(0x7E00_0000, 0xE000, 3);
    let table = [
        ("no such event", NETBURST, netburst(0x7E00_0200, 0xE000, 0), Err(event_fields)),
        ("uop_type", NETBURST, netburst(0x0400_0400, 0x4000, 3), Err(event_fields)),
        ("b2b_cycles", NETBURST, netburst(0x2C00_0400, 0x6000, 0), Err(event_fields)),
        ("the wrong group", NETBURST, netburst(0x0400_0200, 0x8000, 0), Err(event_fields)),
        ("undocumented mask bits", NETBURST, netburst(0x0400_6200, 0x8000, 3), Err(0x6000)),
        (
            "instr_completed before model 3",
            NETBURST,
            netburst(0x0E00_0200, 0x8000, 3),
            Err(event_fields),
        ),
        (
            "instr_completed",
            Family::Historic(Old::NetBurst { model: 3 }),
            netburst(0x0E00_0200, 0x8000, 3),
            Ok(()),
        ),
        ("FSB_data_activity, DRDY_OTHER", NETBURST, netburst(0x2E00_0800, 0xC000, 0), Ok(())),
    ];
    for (what, family, raw, expected) in table {
        assert_eq!(parse(family, raw).map(|_| ()), expected, "{what}");
    }
}
