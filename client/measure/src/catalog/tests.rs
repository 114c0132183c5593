//! Is each source found by every form of its name, and is a select what the processor's own layout
//! says: the modes, the bits that halprof sets itself, and those that not every processor has?

use super::*;
use crate::in_process::modelled;
use crate::selection::parse_list;
use ProfileInterface::{Amd64, Emon, NetBurst};

/// The only event of a list, on a machine with some sources.
fn resolved(list: &str, interface: ProfileInterface) -> Result<EventSpec> {
    let sources = [
        (0, "Timer", "ProfileTime"),
        (2, "TotalIssues", "ProfileTotalIssues"),
        (0x0F, "2Issue", "Profile2Issue"),
        (0x1B, "UnhaltedReferenceCycles", "ProfileUnhaltedReferenceCycles"),
    ];
    let sources =
        sources.map(|(id, name, symbol)| Source { id, name, symbol, ..Source::default() });
    let mut items = Vec::new();
    parse_list(list, &mut items).expect(list);
    let catalog = Catalog::new(sources.to_vec(), interface as u32, &[]);
    catalog.resolve(&items).map(|mut events| events.remove(0))
}

#[test]
fn every_form_of_naming_finds_its_source() {
    for (text, id) in [
        ("TotalIssues", 2),
        ("totalissues", 2),
        ("ProfileTotalIssues", 2),
        ("PROFILETOTALISSUES", 2),
        ("Timer", 0),
        ("ProfileTimer", 0),
        ("ProfileTime", 0),
        ("Time", 0),
        ("0x1B", 0x1B),
        ("0X1b", 0x1B),
        ("27", 0x1B),
        ("2Issue", 0x0F),
        ("2", 2),
        ("0", 0),
    ] {
        assert_eq!(resolved(text, Emon).expect(text).common().source, id, "{text}");
    }
}

#[test]
fn unknown_names_are_refused_by_name() {
    for text in ["Nonsense", "0x999", "3", "Profile", "rXYZ", "Total Issues", "Pröfile"] {
        assert_eq!(resolved(text, Emon).expect_err(text).code(), "source-unknown", "{text}");
    }
}

#[test]
fn filters_are_kept_and_shown_as_given() {
    for (text, filter, label) in [
        ("TotalIssues", 3, "TotalIssues"),
        ("0x2:u", 1, "TotalIssues:u"),
        ("totalissues:K", 2, "TotalIssues:k"),
        ("ProfileTotalIssues:uk", 3, "TotalIssues:uk"),
    ] {
        let event = resolved(text, Emon).expect(text);
        assert_eq!((event.common().filter, event.label.as_str()), (filter, label));
    }
}

/// SDM vol. 3: of a select, USR is bit 16 and OS is bit 17; of an ESCR, USR is bit 2 and OS is bit 3.
#[test]
fn user_and_kernel_bits_of_a_raw_select_are_its_filter() {
    for (text, interface, raw, filter) in [
        ("rC0", Emon, 0xC0, 3),
        ("R01c2", Emon, 0x1C2, 3),
        ("r100C0", Emon, 0x1_00C0, 1),
        ("r200C0:k", Emon, 0x2_00C0, 2),
        ("r30041:uk", Emon, 0x3_0041, 3),
        ("rC0:u", Emon, 0xC0, 1),
        ("r10F0000C0", Emon, 0x1_0F00_00C0, 3),
        ("r200", NetBurst, 0x200, 3),
        ("r8", NetBurst, 0x8, 2),
        ("rC", NetBurst, 0xC, 3),
        ("r5000010604", NetBurst, 0x50_0001_0604, 1),
    ] {
        let event = resolved(text, interface).expect(text);
        assert_eq!((event.common().raw, event.common().filter), (raw, filter), "{text}");
        assert_eq!(event.label, text);
    }
    for (contradiction, interface) in [("r100C0:k", Emon), ("r8:u", NetBurst)] {
        assert_eq!(resolved(contradiction, interface).expect_err(contradiction).code(), "usage");
    }
}

#[test]
fn the_select_is_given_without_the_bits_that_halprof_sets() {
    for (select, interface, without) in [
        ("r5300C0", Emon, "`r300C0`"),
        ("r1005300C0", Emon, "edge"),
        ("r1005300C0", Amd64, "`r1000300C0`"),
        ("r1004000C0", Amd64, "`r1000000C0`"),
        ("r1000C0", Emon, "`rC0`"),
    ] {
        let Err(Error::Usage { hint, .. }) = resolved(select, interface) else {
            panic!("{select} is refused");
        };
        assert!(hint.to_string().contains(without), "{select}: {hint}");
    }
}

/// The only kind of processor of a model.
fn kind(model: &str) -> CpuType {
    let mut catalog = Catalog::read(&mut modelled(model), false).expect("what it counts");
    catalog.cpu_types.remove(0)
}

#[test]
fn bits_that_a_processor_lacks_are_refused_by_name() {
    let (skylake, sapphire_rapids) = (kind("skylake"), kind("sapphire-rapids"));
    let event = |name: &str| {
        let event = Microarchitecture::all().iter().find_map(|one| one.event(name));
        event.expect("an event").clone()
    };
    // Fixed counter 1 counts one thread only, event 3Ch with the any-thread bit (21) both.
    let both = event("CPU_CLK_UNHALTED.THREAD_ANY");
    assert_eq!((both.fixed, both.any_thread), (Some(1), true));
    let counted = Encoding::Select { select: 0x20_003C, counters: Spec::ANY_COUNTER };
    assert_eq!(skylake.encode(&both), Ok(counted));
    let why = sapphire_rapids.encode(&both).expect_err("version 5 has no such bit");
    assert!(why.to_string().contains("any-thread bit"), "{why}");
    let second = Event { unit_mask: 0x0101, ..event("INST_RETIRED.ANY_P") };
    for kind in [skylake, sapphire_rapids] {
        let why = kind.encode(&second).expect_err("neither has one");
        assert!(why.to_string().contains("second unit mask"), "{why}");
    }
}

/// What a raw select needs is what the name with its code and unit mask needs, or, for events that
/// the vendor's lists leave out, what the manual says of the code.
#[test]
fn raw_selects_have_the_constraints_of_names() {
    const RAW: u32 = ProfileSource::RAW.0;
    let resolve = |model: &str, item: &str| {
        let catalog = Catalog::read(&mut modelled(model), false).expect("what it counts");
        let mut items = Vec::new();
        parse_list(item, &mut items).expect("a list");
        let events = catalog.resolve(&items)?;
        let unknown = !catalog.unknown_constraints(&events).is_empty();
        Ok((events[0].specs.iter().map(|spec| (spec.source, spec.counters)).collect(), unknown))
    };
    let any = Spec::ANY_COUNTER;
    for (model, item, counters, unknown) in [
        // L1D_PEND_MISS.PENDING.
        ("haswell", "r0148", 0b100, false),
        ("haswell", "cpu/event=0x48,umask=1,cmask=1/", 0b100, false),
        // Another unit mask of the same code.
        ("haswell", "r0448", 0b100, false),
        ("skylake", "r00c4", any, false),
        ("skylake", "r00fe", any, true),
        ("zen4", "rff03", any, false),
        ("zen4", "r00c0", any, false),
        ("zen4", "r00ff", any, true),
        // Before family 17h the driver has them.
        ("bulldozer", "r0041", any, false),
    ] {
        let found: Result<(Vec<(u32, u32)>, bool)> = resolve(model, item);
        assert_eq!(found.expect("an event"), (vec![(RAW, counters)], unknown), "{model} {item}");
    }
    // Code 0 stands for fixed counters, as its unit mask says.
    for (model, item, index) in [
        ("skylake", "r0100", 0),
        ("skylake", "cpu/event=0x0,umask=0x2/", 1),
        ("skylake", "r0300", 2),
        ("sapphire-rapids", "cpu/event=0x0,umask=0x4/", 3),
    ] {
        let found: Result<(Vec<(u32, u32)>, bool)> = resolve(model, item);
        let (specs, unknown) = found.expect("an event");
        assert_eq!((specs[0].0, unknown), (0x8000_0100 + index, false), "{model} {item}");
    }
    for (model, item) in [
        ("skylake", "r0400"),
        ("skylake", "r0000"),
        ("skylake", "r1000100"),
        ("sapphire-rapids", "cpu/event=0x0,umask=0x80/"),
    ] {
        let found: Result<(Vec<(u32, u32)>, bool)> = resolve(model, item);
        let error = found.expect_err("no fixed counter");
        assert!(error.to_string().contains("fixed counters"), "{model} {item}: {error}");
    }
    for (model, item, msr) in [
        ("skylake", "r01b7", "0x1A6"),
        ("skylake", "r01bb", "0x1A7"),
        ("skylake", "r01cd", "0x3F6"),
        ("skylake", "r01c6", "0x3F7"),
        ("skylake", "r11c6", "0x3F7"),
        ("skylake", "cpu/event=0xb7,umask=1,cmask=2/", "0x1A6"),
        ("sapphire-rapids", "r012a", "0x1A6"),
        ("sapphire-rapids", "r012b", "0x1A7"),
    ] {
        let found: Result<(Vec<(u32, u32)>, bool)> = resolve(model, item);
        let error = found.expect_err("it needs an MSR");
        assert_eq!(error.code(), "needs-msr", "{model} {item}");
        assert!(error.to_string().contains(msr), "{model} {item}: {error}");
    }
}

#[test]
fn every_source_of_64_bit_processors_has_a_meaning() {
    let models = "yonah core2 haswell skylake sapphire-rapids hybrid k8 fam10h bulldozer zen2 zen4 zen5 zen6";
    for model in models.split(' ') {
        let catalog = Catalog::read(&mut modelled(model), false).expect("what it counts");
        for source in &catalog.sources {
            assert_ne!(catalog.meaning(source.name), "", "{model}: {}", source.name);
        }
    }
}
