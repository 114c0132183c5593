//! What a workload of a modelled machine means by the names of a catalog.

use super::{Catalog, CpuType, Encoding, FIRST_FIXED};
use shared_types::request::machine::Processor;
use sim::cpu::event::{Code, Event as Kinds};
use sim::load::workload::Known;

/// Event A4h, unit mask 01h: slots, which fixed counter 3 counts too.
const SLOTS: u64 = 0x01A4;
/// The fixed counter of slots.
const FIXED_SLOTS: u8 = 3;
/// halprof's number of the architectural events; the bit in CPUID is added.
const FIRST_ARCHITECTURAL: u32 = 0x8000_0200;
/// The bits of the architectural top-down events.
const TOP_DOWN: std::ops::RangeInclusive<u32> = 7..=11;

impl Catalog {
    /// What a workload of a modelled machine means by a name; with `table`, on the processors of
    /// that microarchitecture only.
    pub fn modelled(&self, name: &str, table: Option<&str>) -> Option<Known> {
        let named = Kinds::Named(0);
        let code =
            |select, fixed, core| Code { event: named, select, fixed, architectural: None, core };
        if name.eq_ignore_ascii_case("slots") {
            return Some(Known::Codes(vec![
                code(None, Some(3), None),
                code(Some(SLOTS), None, None),
            ]));
        }
        if table.is_none()
            && let Some(code) = self.architectural(name)
        {
            return Some(Known::Codes(vec![code]));
        }
        let mut codes = Vec::new();
        for (cpu_type, _, encoding) in self.event(name)?.encodings {
            if table.is_some() && table != cpu_type.microarchitecture.map(|one| one.table) {
                continue;
            }
            match encoding {
                Ok(Encoding::Fixed(0)) => return Some(Known::Kind(Kinds::Instructions)),
                Ok(Encoding::Fixed(1)) => return Some(Known::Kind(Kinds::Cycles)),
                Ok(Encoding::Fixed(2)) => return Some(Known::Kind(Kinds::RefCycles)),
                Ok(Encoding::Fixed(index)) => codes.push(code(None, Some(index), cpu_type.core())),
                Ok(Encoding::Select { select, .. }) => {
                    codes.push(code(Some(select), None, cpu_type.core()));
                }
                Err(_) => {}
            }
        }
        (!codes.is_empty()).then_some(Known::Codes(codes))
    }

    /// An architectural event of which a workload has no amount otherwise, or the fixed counter that
    /// counts slots.
    fn architectural(&self, name: &str) -> Option<Code> {
        let id = self.source(name)?.id;
        let fixed = (id == FIRST_FIXED + u32::from(FIXED_SLOTS)).then_some(FIXED_SLOTS);
        let architectural = id.checked_sub(FIRST_ARCHITECTURAL).filter(|_| fixed.is_none());
        let is_known = fixed.is_some() || architectural.is_some_and(|bit| TOP_DOWN.contains(&bit));
        let event = Kinds::Named(0);
        is_known.then_some(Code { event, select: None, fixed, architectural, core: None })
    }
}

impl CpuType {
    /// EAX of leaf 0x1A; `None` where a machine has one type of core.
    fn core(&self) -> Option<u32> {
        let Processor { core_type, native_model, .. } = self.processor;
        (core_type != 0).then(|| u32::from(core_type) << 24 | native_model & 0xFF_FFFF)
    }
}
