//! Is a select what the processor's own layout says: the modes, the bits that halprof sets itself,
//! and those that not every processor has?

use super::*;
use crate::InProcess;
use crate::selection::parse_list;

fn resolved(list: &str, interface: ProfileInterface) -> Result<Spec> {
    let mut items = Vec::new();
    parse_list(list, &mut items).expect(list);
    let catalog = Catalog::new(Vec::new(), interface as u32, &[]);
    catalog.resolve(&items).map(|events| events[0].common())
}

/// SDM vol. 3, "ESCR MSRs": USR is bit 2 and OS is bit 3.
#[test]
fn the_modes_of_an_escr_are_the_filter() {
    let both = Spec::USER | Spec::KERNEL;
    for (select, filter) in [("r4", Spec::USER), ("r8", Spec::KERNEL), ("rC", both), ("r200", both)]
    {
        let spec = resolved(select, ProfileInterface::NetBurst).expect(select);
        assert_eq!(spec.filter, filter, "{select}");
    }
    resolved("r8:u", ProfileInterface::NetBurst).expect_err("they contradict each other");
}

#[test]
fn the_select_without_what_halprof_sets_is_told() {
    use ProfileInterface::{Amd64, Emon};
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
        assert!(hint.contains(without), "{select}: {hint}");
    }
}

/// The only kind of processor of a model.
fn kind(model: &str) -> CpuType {
    let spec = sim::machines::machine(model, |path| std::fs::read(path)).expect("a machine");
    let mut connection = Connection::new(InProcess::new(&spec.leaves)).expect("it answers");
    let mut catalog = Catalog::read(&mut connection, false).expect("what it counts");
    catalog.cpu_types.remove(0)
}

#[test]
fn bits_that_a_processor_lacks_are_told() {
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
    assert!(why.contains("any-thread bit"), "{why}");
    let second = Event { unit_mask: 0x0101, ..event("INST_RETIRED.ANY_P") };
    for kind in [skylake, sapphire_rapids] {
        let why = kind.encode(&second).expect_err("neither has one");
        assert!(why.contains("second unit mask"), "{why}");
    }
}
