//! What stands in the place of `historic` in halprof.sys: no processor gets one of its interfaces
//! (`historic-not-built`), so there is no select and no raw family of theirs, and nothing to write.

#![expect(
    clippy::unused_self,
    clippy::trivially_copy_pass_by_ref,
    reason = "the signatures of the folder that this stands for"
)]

pub mod select {
    use zerocopy::FromZeros;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Select {}

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
    pub struct NetBurst;
}

pub mod encode {
    use super::select::{NetBurst, Select};
    use crate::cpu::counter::Counter;
    use crate::source::filter::Filter;
    use zerocopy::FromZeros;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
    pub struct Registers;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
    pub struct Upstream;

    impl Upstream {
        pub(crate) fn registers(&self, _: Counter) -> &Registers {
            &Registers
        }
    }

    pub(crate) fn encode(_: NetBurst, select: Select, _: Filter, _: bool) -> (u64, Upstream) {
        match select {}
    }
}

pub(crate) mod assign {
    use crate::plan::index::{PerSource, SourceIndex};
    use crate::plan::slice::{Requirements, Slice};

    pub(crate) fn shares_registers(_: SourceIndex, _: &Slice, _: &PerSource<Requirements>) -> bool {
        false
    }

    pub(crate) fn add(
        _: SourceIndex,
        _: &mut Slice,
        _: &PerSource<Requirements>,
        _: &mut u32,
    ) -> bool {
        false
    }
}

pub(crate) mod discover {
    use crate::cpu::capabilities::Capabilities;
    use crate::cpu::machine::Machine;

    pub(crate) fn discover(_: &mut Capabilities, _: &impl Machine) {}

    pub(crate) fn monitoring_disabled(_: &mut impl Machine, _: &Capabilities) -> bool {
        false
    }
}

pub(crate) mod catalog {
    use super::raw::Family;
    use super::select::Select;
    use crate::cpu::capabilities::Capabilities;
    use crate::source::{self, Row};
    use shared_types::{ProfileInterface, SourceNote, SourceTable};

    pub(crate) fn table(_: &Capabilities, _: ProfileInterface) -> &'static [Row] {
        source::default::ROWS
    }

    pub(crate) fn source_table(_: &Capabilities) -> SourceTable {
        SourceTable::Default
    }

    pub(crate) fn own_rows(_: &Capabilities) -> impl Iterator<Item = &'static Row> + use<> {
        core::iter::empty()
    }

    pub(crate) fn raw_family(_: &Capabilities) -> Option<Family> {
        None
    }

    pub(crate) fn candidates(select: &Select, _: u32) -> u32 {
        match *select {}
    }

    pub(crate) fn unavailable(_: &Capabilities, select: &Select) -> Option<SourceNote> {
        match *select {}
    }

    pub(crate) fn select_word(select: &Select) -> u64 {
        match *select {}
    }
}

pub mod raw {
    use crate::source::RawEvent;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Family {}

    pub(crate) const fn allowed(family: Family) -> u64 {
        match family {}
    }

    pub(crate) fn parse(family: Family, _: u64) -> Result<RawEvent, u64> {
        match family {}
    }
}

pub(crate) mod pmu {
    use crate::cpu::capabilities::Capabilities;
    use crate::cpu::machine::Machine;
    use crate::plan::counter_config::{Active, CounterConfig};

    pub(crate) fn stop_each(_: &mut impl Machine, _: &Capabilities, _: &[Active]) {}

    pub(crate) fn start(_: &mut impl Machine, _: &Capabilities, _: &[Active]) {}

    pub(crate) fn stop(_: &mut impl Machine, _: &Capabilities, _: &[Active]) {}

    pub(crate) fn clear(_: &mut impl Machine, _: &Capabilities, _: &[Active]) {}

    pub(crate) fn write_upstream(_: &mut impl Machine, _: &CounterConfig, _: bool) {}

    #[expect(clippy::unnecessary_wraps, reason = "the folder's own may be refused")]
    pub(crate) fn each_upstream<E>(
        _: &CounterConfig,
        _: &mut impl FnMut(u32, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        Ok(())
    }

    pub(crate) fn flags_overflow(_: &mut impl Machine, _: &Capabilities, _: &Active) -> bool {
        false
    }

    pub(crate) fn each_register(_: &Capabilities, _: &mut impl FnMut(u32)) {}
}
