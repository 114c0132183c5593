//! Which sources does each processor have, which of them can it count, and how does it describe
//! them?

use std::collections::BTreeMap;

use hal_profile::cpu::capabilities::Capabilities;
use hal_profile::cpu::generation::AmdGeneration;
use hal_profile::source::amd64_events::mask_selects_nothing;
use hal_profile::source::catalog::{
    constraint, counters, find, note, rows, select_word, source_table, support,
};
use hal_profile::source::{ANY, Fit, Row, Select, amd, amd64, emon, intel};
use halprof_measure::source::texts;
use halprof_measure::{Connection, InProcess, Source};
use halprof_tests::facts::{id, number};
use halprof_tests::silicon::{Silicon, signature};
use halprof_tests::{machines_from_table, source_data};
use shared_types::{ErrorCode, ProfileInterface, ProfileSource, Reason, SourceNote};
use std::fmt::Write;

/// The families of amd64-hal-on-zen.csv.
const AMD: [(&str, AmdGeneration, u32, u32); 9] = [
    ("K8", AmdGeneration::K8, 0x0F, 0x05),
    ("10h", AmdGeneration::Family10h, 0x10, 0x02),
    ("15h", AmdGeneration::Family15h, 0x15, 0x60),
    ("Zen1", AmdGeneration::Zen1, 0x17, 0x01),
    ("Zen2", AmdGeneration::Zen2, 0x17, 0x31),
    ("Zen3", AmdGeneration::Zen3, 0x19, 0x21),
    ("Zen4", AmdGeneration::Zen4, 0x19, 0x61),
    ("Zen5", AmdGeneration::Zen5, 0x1A, 0x44),
    ("Zen6", AmdGeneration::Zen6, 0x1A, 0x50),
];

fn pentium(mmx: bool) -> Capabilities {
    Silicon::old_intel(5, 4).flip(1, [0, 0, 0, u32::from(mmx) << 23]).discover()
}

fn pentium_iii() -> Capabilities {
    Silicon::old_intel(6, 8).discover()
}

fn amd(family: u32, model: u32) -> Capabilities {
    Silicon::amd(family, model).discover()
}

/// Whether it is supported, or the error.
fn judged(capabilities: &Capabilities, row: &Row, approximate: bool) -> Result<(), ErrorCode> {
    support(capabilities, row, approximate).map_err(|refusal| refusal.error)
}

fn texts_of(capabilities: &Capabilities, row: &Row) -> &'static texts::SourceTexts {
    halprof_tests::facts::texts(source_table(capabilities, row.id), row)
}

/// What a client says of a row: what it counts, and a note on that.
fn described(capabilities: &Capabilities, row: &Row) -> (&'static str, &'static str) {
    let texts = texts_of(capabilities, row);
    match note(capabilities, row) {
        SourceNote::OfTable => (texts.counts, texts.note),
        note => (texts.counts, texts::note(note)),
    }
}

const NOT_SUPPORTED: Result<(), ErrorCode> = Err(ErrorCode::SourceNotSupported);

/// A source of a list: its number, `h` if it is the HAL's own, `c` if it can be counted and not
/// sampled, `-` if neither, `~` if its event is only like the one that its name says; and its CPU
/// types, if not all have it.
fn listed(source: &Source, cpu_types: u32) -> String {
    let has = |flag| source.flags & flag != 0;
    let mut text = format!("{:x}", source.id);
    text += if has(Source::HAL) { "h" } else { "" };
    text += match (has(Source::SUPPORTED), has(Source::SAMPLING)) {
        (true, true) => "",
        (true, false) => "c",
        (false, _) => "-",
    };
    text += if has(Source::APPROXIMATES) { "~" } else { "" };
    let all = (1 << cpu_types) - 1;
    if has(Source::SUPPORTED) && source.cpu_types & all != all {
        write!(text, ":{:b}", source.cpu_types).expect("a string takes it");
    }
    text
}

/// The interface, its reason and the list of sources of each dump. The HAL's lists are 13 sources
/// with Emon, 176 with Amd64, and ProfileTime alone with Default (../shared/reference/selection.md).
#[test]
fn every_dump_has_its_sources() {
    let (mut dumps, mut lists) = (String::new(), Vec::new());
    for (file, leaves) in machines_from_table() {
        let mut connection = Connection::new(InProcess::new(&leaves)).expect("a model");
        let machine = connection.machine().expect("a description");
        let processors = connection.processors().expect("processors");
        let cpu_types = processors.iter().map(|one| u32::from(one.cpu_type) + 1).max();
        let sources = connection.sources(true).expect("a list");
        let hals = sources.iter().filter(|source| source.flags & Source::HAL != 0).count();
        let [hal, used] = [machine.hal_interface, machine.interface]
            .map(|one| ProfileInterface::from_wire(one).expect("one").name());
        assert_eq!(
            hals,
            match hal {
                "Emon" => 13,
                "Amd64" => 176,
                _ => 1,
            },
            "{file}"
        );
        let list: Vec<_> = sources.iter().map(|one| listed(one, cpu_types.unwrap_or(0))).collect();
        let list = list.chunks(16).map(|row| row.join(" ")).collect::<Vec<_>>().join("\n  ");
        let number = lists.iter().position(|known| *known == list).unwrap_or(lists.len());
        if number == lists.len() {
            lists.push(list);
        }
        let reason = Reason::from_wire(machine.reason).expect("one").name();
        writeln!(dumps, "{file}: {used} ({reason}), list {number}").expect("a string takes it");
    }
    for (number, list) in lists.iter().enumerate() {
        writeln!(dumps, "list {number}:\n  {list}").expect("a string takes it");
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("dumps", dumps));
}

/// Windows would use Amd64, but halprof does not.
#[test]
fn default_counts_nothing() {
    let capabilities = Silicon::amd(0x17, 1).under(0, 0).discover();
    for row in rows(&capabilities) {
        let expected = if row.id == ProfileSource::TIME { Ok(()) } else { NOT_SUPPORTED };
        for approximate in [false, true] {
            assert_eq!(judged(&capabilities, row, approximate), expected, "{:x?}", row.id);
        }
    }
    let refused = support(&capabilities, &amd64::ROWS[1], false);
    assert!(refused.is_err_and(|refusal| refusal.note == SourceNote::DefaultInterface));
}

/// Every combination of the seven bits, with every length.
#[test]
fn emon_sources_need_a_clear_bit_within_the_length() {
    let facts = source_data!("emon-sources");
    for ebx in 0..0x80 {
        for length in 0..=8 {
            let leaf_0a = [length << 24 | 0x30_0403, ebx, 0, 0x603];
            let capabilities = Silicon::intel(6, 0x5E, leaf_0a).discover();
            let emon_chosen = length > 0 && ebx & 1 == 0;
            for fact in &facts {
                let row =
                    emon::ROWS.iter().find(|row| row.id == id(&fact["value"])).expect("a row");
                let bit = fact["cpuid_0a_ebx_bit"].parse::<u32>().ok();
                let there =
                    bit.is_none_or(|bit| emon_chosen && bit < length && ebx >> bit & 1 == 0);
                let expected = if there { Ok(()) } else { NOT_SUPPORTED };
                assert_eq!(
                    judged(&capabilities, row, false),
                    expected,
                    "{ebx:#x} {length} {:x?}",
                    row.id
                );
            }
        }
    }
}

/// The HAL knows only leaf 0x0A; halprof's own rows use leaf 0x23 if it exists.
#[test]
fn leaf_0x23_tells_of_halprofs_own_rows_alone() {
    let of = |leaf_0a_ebx, events| {
        Silicon::new(b"GenuineIntel", 0x23, signature(6, 0xC5))
            .leaf(0x0A, [0x0D30_0805, leaf_0a_ebx, 0, 0x603])
            .subleaf(7, 1, [1 << 8, 0, 0, 0])
            .subleaf(0x23, 0, [0b1000, 0, 0, 0])
            .subleaf(0x23, 3, [events, 0, 0, 0])
            .discover()
    };
    for bit in 0..13 {
        let extended = of(0x1FFE, 1 << bit);
        let plain = of(0x1FFE & !(1 << bit), 0);
        for (row, own_bit) in intel::ARCHITECTURAL.iter().zip(7..) {
            let expected = |there| if there { Ok(()) } else { NOT_SUPPORTED };
            assert_eq!(judged(&extended, row, false), expected(own_bit == bit), "{:x?}", row.id);
            assert_eq!(judged(&plain, row, false), NOT_SUPPORTED);
        }
        for row in &emon::ROWS[1..] {
            let own_bit = emon::ebx_bit(row.id).expect("a bit");
            let by_0a = own_bit == 0 || u32::from(own_bit) == bit;
            let expected = if by_0a { Ok(()) } else { NOT_SUPPORTED };
            assert_eq!(judged(&plain, row, false), expected, "{:x?}", row.id);
        }
    }
}

#[test]
fn amd_sources_on_each_family() {
    let facts = source_data!("amd64-hal-on-zen");
    for (column, generation, family, model) in AMD {
        let capabilities = amd(family, model);
        for fact in &facts {
            let row = find(&capabilities, id(&fact["value"])).expect("the row");
            let (event, mask) = (number(&fact["event"]), number(&fact["umask"]));
            assert_eq!(select_word(&row.select), Some(0x3_0000 | mask << 8 | event));
            let timer = row.id == ProfileSource::TIME;
            let northbridge = event >= 0xE0;
            let nothing =
                fact[column] == "-" || mask_selects_nothing(generation, event as u16, mask as u8);
            let no_counter = !timer && counters(&capabilities, row) == 0;
            let other = column.starts_with("Zen") && fact["something_else_on_zen"] == "yes";
            let expected = [!timer && nothing, false].map(|nothing| {
                if northbridge || nothing || no_counter { NOT_SUPPORTED } else { Ok(()) }
            });
            let expected = match expected {
                [Ok(()), with] if other => [Err(ErrorCode::SourceApproximate), with],
                both => both,
            };
            let got = [false, true].map(|approximate| judged(&capabilities, row, approximate));
            assert_eq!(got, expected, "{column} {:x?}", row.id);
            let everywhere = if timer || northbridge { 0 } else { ANY };
            let tied = if generation == AmdGeneration::Family15h {
                amd::family15h_counters(event as u16)
            } else {
                ANY
            };
            assert_eq!(counters(&capabilities, row), everywhere & tied, "{column} {:x?}", row.id);
            if timer {
                continue;
            }
            let name = fact[column].as_str();
            let (counts, note) = described(&capabilities, row);
            assert_eq!(counts, if name == "-" { "" } else { name }, "{column} {:x?}", row.id);
            let nothing = mask_selects_nothing(generation, event as u16, mask as u8);
            if name == "-" {
                assert!(note.contains("not documented"), "{column} {note}");
            } else if nothing {
                assert!(note.contains("unit mask"), "{column} {note}");
            } else if column.starts_with("Zen") {
                assert_eq!(note, fact["verdict_on_zen"], "{column} {:x?}", row.id);
            } else {
                assert_eq!(note, "", "{column} {:x?}", row.id);
            }
        }
    }
}

/// A range of family 1Ah that is proposed for Zen 6: the meaning of its events is not known.
#[test]
fn an_unknown_amd_model_has_approximate_sources_alone() {
    let capabilities = amd(0x1A, 0xD0);
    for row in amd64::ROWS {
        let expected = match row.fit {
            Fit::Timer => [Ok(()); 2],
            Fit::Northbridge => [NOT_SUPPORTED; 2],
            _ => [Err(ErrorCode::SourceApproximate), Ok(())],
        };
        let got = [false, true].map(|approximate| judged(&capabilities, row, approximate));
        assert_eq!(got, expected, "{:x?}", row.id);
    }
    assert!(rows(&capabilities).all(|row| !row.id.is_own()));
    let row = find(&capabilities, ProfileSource::TOTAL_ISSUES).expect("a row of the HAL");
    assert_eq!(described(&capabilities, row).0, "", "nobody knows what it counts");
}

/// Off if the mapping calls the match approximate, on if the session asks for it.
#[test]
fn approximate_sources_only_on_request() {
    for (family, capabilities) in [
        ("P5", pentium(false)),
        ("P5MMX", pentium(true)),
        ("P6", pentium_iii()),
        ("P4", Silicon::pentium_4(None).discover()),
    ] {
        let mut offers = BTreeMap::new();
        for fact in source_data!("mapping").iter().filter(|fact| fact["family"] == family) {
            let row = find(&capabilities, id(&fact["source"])).expect("the row");
            let expected = match fact["offer"].as_str() {
                "optional" => [Err(ErrorCode::SourceApproximate), Ok(())],
                "no" => [NOT_SUPPORTED; 2],
                _ => [Ok(()); 2],
            };
            let got = [false, true].map(|approximate| judged(&capabilities, row, approximate));
            assert_eq!(got, expected, "{family} {:x?}", row.id);
            *offers.entry(fact["offer"].clone()).or_insert(0) += 1;
            for approximate in [false, true] {
                if let Err(refusal) = support(&capabilities, row, approximate) {
                    assert_eq!(refusal.note, SourceNote::OfTable);
                    let reason = &fact["reason"];
                    assert_eq!(texts_of(&capabilities, row).note, reason, "{family} {:x?}", row.id);
                }
            }
        }
        assert_eq!(offers.values().sum::<i32>(), 24, "{family}");
        assert_eq!(offers.len(), 4, "{family}");
        for row in rows(&capabilities).filter(|row| row.id.is_own()) {
            assert_eq!(judged(&capabilities, row, false), Ok(()), "{family} {:x?}", row.id);
        }
    }
}

/// BKDG for family 15h: cycles on PERF_CTL\[2:0\], event 1C0h on PERF_CTL\[5:3\]; its high digit is in
/// bits 35:32.
#[test]
fn a_select_of_family_15h_is_constrained_by_its_event() {
    let bulldozer = Silicon::amd(0x15, 2).discover();
    let k8 = Silicon::amd(0x0F, 5).discover();
    for (select, on_bulldozer) in [(0x3_0076, 0b00_0111), (0x1_0003_00C0, 0b11_1000)] {
        let select = Select::EventSelect(select);
        assert_eq!(constraint(&bulldozer, &select), on_bulldozer, "{select:?}");
        assert_eq!(constraint(&k8, &select), ANY, "{select:?}");
    }
}
