//! Is every table complete, and does every processor get the right one?

use super::*;

fn cpu(vendor: &[u8; 12], family: u16, model: u16, core: (u8, u32)) -> Cpu {
    let (core_type, native_model) = core;
    Cpu { vendor: *vendor, family, model, stepping: 0, core_type, native_model }
}

#[test]
fn every_row_of_every_table_is_read() {
    let mut rows = 0;
    for one in Microarchitecture::all() {
        let path = format!("{}/data/events/{}.csv", env!("CARGO_MANIFEST_DIR"), one.table);
        let file = std::fs::read_to_string(&path).expect("a table");
        assert_eq!(one.events().len(), file.lines().count() - 1, "{path}");
        rows += one.events().len();
    }
    assert_eq!((Microarchitecture::all().len(), rows), (53, 14_194));
}

/// The events whose sentence breaks a rule, after the sentence.
fn sentences_that(break_a_rule: impl Fn(&Event, &str) -> bool) -> Vec<String> {
    let each = |one: &'static Microarchitecture| one.events().iter().map(move |event| (one, event));
    let sentence = |one: &Microarchitecture, event: &Event| {
        one.meaning(&event.name).map_or("", |meaning| meaning.sentence)
    };
    let events = Microarchitecture::all().iter().flat_map(each);
    let sentences = events.map(|(one, event)| (one.table, event, sentence(one, event)));
    let broken = sentences.filter(|(_, event, sentence)| break_a_rule(event, sentence));
    broken.map(|(table, event, text)| format!("{text}: {} of {table}", event.name)).collect()
}

#[test]
fn every_event_has_a_short_sentence_that_is_not_its_name() {
    let words = |text: &str| text.to_lowercase().replace(['.', '_', ' '], "");
    let broken = sentences_that(|event, sentence| {
        let is_whole = sentence.ends_with('.') && !sentence.contains('*');
        !is_whole
            || sentence.split(' ').count() < 2
            || sentence.len() > 125
            || words(sentence) == words(&event.name)
            || !sentence.starts_with(|first: char| first.is_uppercase() || first.is_ascii_digit())
    });
    assert!(broken.is_empty(), "{broken:#?}");
}

/// A counter mask makes cycles of events; an edge counts beginnings.
#[test]
fn a_sentence_says_cycles_where_the_counter_mask_counts_them() {
    let broken = sentences_that(|event, sentence| {
        let counts_cycles = event.counter_mask != 0 && !event.edge;
        let says_cycles = sentence.to_lowercase().contains("cycle");
        counts_cycles && !says_cycles || event.edge && sentence.starts_with("Cycles")
    });
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Where the counter mask is compared with a number that the sentence has, it is that number; a row
/// for a number, or for a part of a name, could take another's words. In a frontend or latency event
/// the number is in the extra register.
#[test]
fn a_sentence_that_says_at_least_a_number_says_the_counter_mask() {
    let said = |sentence: &str| {
        let (_, after) = sentence.split_once(" at least ")?;
        after.split(' ').next()?.parse::<u16>().ok()
    };
    let broken = sentences_that(|event, sentence| {
        let compares = event.msr.is_none() && !event.invert;
        compares && said(sentence).is_some_and(|number| number != u16::from(event.counter_mask))
            || event.name.contains("_GE_") && said(sentence).is_none() && !event.invert
    });
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Otherwise it would read as a count of this thread.
#[test]
fn a_sentence_names_the_threads_or_the_core_where_the_any_thread_bit_is_set() {
    let broken = sentences_that(|event, sentence| {
        event.any_thread && !sentence.contains("thread") && !sentence.contains("core")
    });
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_meaning_says_from_where_it_is_known_and_for_which_core() {
    let one = |table| Microarchitecture::all().iter().find(|one| one.table == table);
    let meaning = |table, name| one(table).expect("a table").meaning(name);
    let text = Basis::Text("Intel SDM volume 3B: architectural performance events");
    for (table, name, sentence, basis) in [
        (
            "skylake",
            "LONGEST_LAT_CACHE.MISS",
            "Accesses to the last-level cache that missed.",
            text,
        ),
        (
            "skylake",
            "LD_BLOCKS.NO_SR",
            "Loads that were blocked because no register for split loads was free.",
            Basis::Name,
        ),
        (
            "haswell",
            "UOPS_EXECUTED.CORE_CYCLES_GE_3",
            "Cycles in which the core executes at least 3 micro-operations.",
            Basis::Name,
        ),
        (
            "amdzen5",
            "fp_pack_ops_retired.fp256_mac",
            "Packed 256-bit floating-point operations retired: multiply-adds.",
            Basis::Name,
        ),
        (
            "snowridgex",
            "BUS_LOCK.LOCK_CYCLES",
            "Cycles in which this core is blocked by a bus lock of its own.",
            Basis::Name,
        ),
        (
            "lunarlake_skymont",
            "BUS_LOCK.LOCK_CYCLES",
            "Cycles in which a bus lock of this core holds.",
            Basis::Name,
        ),
        // Not `that missed the L1 data cache and the L2 serves`, which reads as a miss of both.
        (
            "sierraforest",
            "MEM_BOUND_STALLS_LOAD.L2_HIT",
            "Cycles in which the core stalls for a load that missed the L1 data cache, served by the L2.",
            Basis::Name,
        ),
        // A table's row comes before that for all.
        (
            "novalake_coyotecove",
            "FP_ARITH_INST_RETIRED.VECTOR_256B",
            "256-bit packed floating-point arithmetic instructions retired.",
            Basis::Name,
        ),
        // The base's alone.
        (
            "sandybridge",
            "AGU_BYPASS_CANCEL.COUNT",
            "Loads whose fast address path was cancelled: base and offset lead to another page than the base alone.",
            Basis::Name,
        ),
    ] {
        assert_eq!(meaning(table, name), Some(Meaning { sentence, basis }), "{name} of {table}");
    }
    assert_eq!(meaning("skylake", "LONGEST_LAT_CACHE"), None);
}

/// The list gives some names one select, or a name that no formula can hold: which is meant is not
/// known.
#[test]
fn names_of_zen_6_that_are_in_doubt_are_left_out() {
    let one = Microarchitecture::all().iter().find(|one| one.table == "amdzen6");
    let one = one.expect("a table");
    for name in [
        "fp_ret_sse_avx_ops.scalar_half_flops",
        "fp_ret_sse_avx_ops.packed_half_flops",
        "fp_ret_sse_avx_ops.packed_double_flops",
        "l2_request_g2.all",
        "fp_pack_512b_ops_ret.512b_all",
    ] {
        assert_eq!(one.event(name), None);
    }
    assert!(one.events().iter().all(|event| !event.name.starts_with("fp_nsq_read_stalls.")));
    let resync = one.event("bp_fe_redir.resync").expect("it is in the table");
    assert_eq!(resync.select(), 0x019F);
}

#[test]
fn a_processor_has_the_table_of_its_family_model_and_core() {
    const INTEL: &[u8; 12] = b"GenuineIntel";
    const AMD: &[u8; 12] = b"AuthenticAMD";
    let none = (0, 0);
    for (vendor, family, model, core, table) in [
        (INTEL, 6, 0x5E, none, Some("skylake")),
        (INTEL, 6, 0x0F, none, None),
        (INTEL, 6, 0x97, (0x20, 1), Some("alderlake_gracemont")),
        (INTEL, 6, 0x97, (0x40, 1), Some("alderlake_goldencove")),
        // Without efficiency cores.
        (INTEL, 6, 0x97, none, Some("alderlake_goldencove")),
        (INTEL, 6, 0x9A, none, Some("alderlake_goldencove")),
        (INTEL, 6, 0xB7, none, Some("alderlake_goldencove")),
        (INTEL, 6, 0xBA, none, Some("alderlake_goldencove")),
        (INTEL, 6, 0xBF, none, Some("alderlake_goldencove")),
        (INTEL, 6, 0xD7, none, Some("alderlake_goldencove")),
        // Both types of core have tables, so that none is right for neither.
        (INTEL, 6, 0xAA, none, None),
        (INTEL, 6, 0xBE, (0x20, 1), Some("alderlake_gracemont")),
        (INTEL, 6, 0xC5, (0x20, 2), Some("arrowlake_crestmont")),
        (INTEL, 6, 0xC5, (0x20, 3), Some("arrowlake_skymont")),
        // Intel's family 18 is not family 6.
        (INTEL, 18, 1, (0x40, 5), Some("novalake_coyotecove")),
        (INTEL, 18, 3, (0x20, 5), Some("novalake_arcticwolf")),
        (INTEL, 6, 1, none, None),
        (INTEL, 15, 1, none, None),
        (AMD, 0x17, 0x01, none, Some("amdzen1")),
        (AMD, 0x17, 0x2F, none, Some("amdzen1")),
        (AMD, 0x17, 0x71, none, Some("amdzen2")),
        (AMD, 0x19, 0x21, none, Some("amdzen3")),
        (AMD, 0x19, 0x61, none, Some("amdzen4")),
        (AMD, 0x1A, 0x44, none, Some("amdzen5")),
        (AMD, 0x1A, 0x50, none, Some("amdzen6")),
        (AMD, 0x1A, 0xCF, none, Some("amdzen6")),
        (AMD, 0x1A, 0xD0, none, None),
        (AMD, 0x19, 0xB0, none, None),
        (AMD, 0x17, 0x50, none, Some("amdzen1")),
        (AMD, 0x17, 0x80, none, None),
        (AMD, 0x15, 0x02, none, None),
        (AMD, 6, 0x5E, none, None),
    ] {
        let found = Microarchitecture::of(&cpu(vendor, family, model, core));
        assert_eq!(found.map(|one| one.table), table, "{family:#x} {model:#x}");
    }
    let stepping = |stepping| {
        let cpu = Cpu { stepping, ..cpu(INTEL, 6, 0x55, none) };
        Microarchitecture::of(&cpu).map(|one| one.table)
    };
    assert_eq!((stepping(4), stepping(5)), (Some("skylakex"), Some("cascadelakex")));
}

#[test]
fn a_select_has_the_rows_fields_at_their_places() {
    let select = |table: &str, name: &str| {
        let one = Microarchitecture::all().iter().find(|one| one.table == table);
        let event = one.and_then(|one| one.event(name));
        event.map(|event| (event.select(), event.to_string()))
    };
    for (table, name, bits, fields) in [
        ("skylake", "mem_load_retired.L3_MISS", 0x20D1, "event=0xd1,umask=0x20"),
        ("skylake", "UOPS_ISSUED.STALL_CYCLES", 0x0180_010E, "event=0xe,umask=0x1,cmask=1,inv"),
        ("skylake", "MACHINE_CLEARS.COUNT", 0x0104_01C3, "event=0xc3,umask=0x1,cmask=1,edge"),
        ("skylake", "INT_MISC.RECOVERY_CYCLES_ANY", 0x0020_010D, "event=0xd,umask=0x1,any"),
        (
            "amdzen4",
            "de_no_dispatch_per_slot.no_ops_from_frontend",
            0x1_0000_01A0,
            "event=0x1a0,umask=0x1",
        ),
    ] {
        assert_eq!(select(table, name), Some((bits, fields.to_owned())), "{name}");
    }
}

/// Intel's first lists number fixed counters from 1; the processor numbers them from 0.
#[test]
fn fixed_counters_are_numbered_as_the_processor_does() {
    for (name, counter) in [
        ("INST_RETIRED.ANY", 0),
        ("CPU_CLK_UNHALTED.THREAD", 1),
        // Intel's list of Sandy Bridge-EP says 2, that of all others 1; its unit mask there is 0x02,
        // that of fixed counter 1.
        ("CPU_CLK_UNHALTED.THREAD_ANY", 1),
    ] {
        for one in Microarchitecture::all() {
            let fixed = one.event(name).and_then(|event| event.fixed);
            assert!(fixed.is_none_or(|fixed| fixed == counter), "{} {name}", one.table);
        }
    }
}

#[test]
fn all_errata_of_an_event_are_listed() {
    let one = Microarchitecture::all().iter().find(|one| one.table == "haswellx");
    let event = one.and_then(|one| one.event("MEM_LOAD_UOPS_RETIRED.L3_MISS"));
    assert_eq!(event.expect("an event").errata, "HSD74, HSD29, HSD25, HSM26, HSM30");
}

/// SDM vol. 3, "Off-core Response Performance Monitoring", "PEBS Load Latency Analysis" and
/// "PEBS Frontend Events": what these events count is in another register.
#[test]
fn events_of_another_register_name_it() {
    let mut found = [0; 3];
    for one in Microarchitecture::all() {
        for event in one.events() {
            let name = event.name.as_str();
            let intel = !one.table.starts_with("amd");
            let response = matches!(event.select(), 0x01B7 | 0x01BB) || name.starts_with("OCR.");
            let latency = name.contains("LOAD_LATENCY_GT") || name.contains("LATENCY_ABOVE");
            let front_end = name.starts_with("FRONTEND_RETIRED.")
                && one.event("FRONTEND_RETIRED.DSB_MISS").is_some();
            let rows = [(response, 0x1A6), (latency, 0x3F6), (front_end, 0x3F7)];
            for (count, (is, msr)) in found.iter_mut().zip(rows) {
                if is && intel {
                    *count += 1;
                    assert_eq!(event.msr, Some(msr), "{} {name}", one.table);
                }
            }
        }
    }
    assert!(found.iter().all(|count| *count > 10), "{found:?}");
}
