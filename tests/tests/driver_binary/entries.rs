//! The functions in the driver that Windows calls.

use super::code::Function;
use super::driver::Driver;

/// A function that Windows calls.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) irql: Irql,
}

/// The highest IRQL at which it runs, by its own documentation; see the legend in the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Irql {
    Passive,
    Dispatch,
    Profile,
}

const fn at(irql: Irql, name: &'static str) -> Entry {
    Entry { name, irql }
}

/// All of them; `FxDriverEntry` is the image's entry.
pub(crate) const ENTRIES: [Entry; 17] = [
    at(Irql::Passive, "FxDriverEntry"),
    at(Irql::Passive, "Unload"),
    at(Irql::Passive, "halprof_driver::entry::driver_entry"),
    at(Irql::Passive, "halprof_driver::entry::device_add"),
    at(Irql::Passive, "halprof_driver::entry::device_cleanup"),
    at(Irql::Passive, "halprof_driver::entry::prepare_hardware"),
    at(Irql::Passive, "halprof_driver::entry::release_hardware"),
    at(Irql::Passive, "halprof_driver::entry::d0_entry"),
    at(Irql::Passive, "halprof_driver::entry::d0_exit"),
    at(Irql::Passive, "halprof_driver::entry::file_closed"),
    at(Irql::Passive, "halprof_driver::entry::device_control"),
    at(Irql::Passive, "halprof_driver::entry::processor_change"),
    at(Irql::Dispatch, "halprof_driver::dpc::work"),
    at(Irql::Dispatch, "halprof_driver::per_cpu::tick"),
    at(Irql::Dispatch, "halprof_driver::per_cpu::slice_ended"),
    at(Irql::Dispatch, "halprof_driver::per_cpu::poll_due"),
    at(Irql::Profile, "halprof_driver::reservation::overflow_interrupt"),
];

/// Functions whose guarded calls stay in the image, by a part of their name, and the part that the
/// names of their targets share. All other guarded calls go to the framework and to Windows,
/// because the image's other guarded functions are entries (see `linked`).
const STAYS: [(&str, &str); 2] = [
    // The work of a round, which every processor is given.
    ("halprof_driver::dpc::work", "halprof_driver::dpc::CurrentCpu"),
    // `Service::on_running`: the function that was passed to it.
    ("on_running::closure", "hal_profile::service::impl$1::"),
];

/// Whether this is work for one processor, as the core passes it to `Processors::run_on` and
/// `run_on_each`.
pub(crate) fn is_closure(function: &Function) -> bool {
    let is = |name: &String| {
        let shim = name.starts_with("core::ops::function::FnOnce::call_once<")
            && (name.contains("Local<halprof_driver::cpu::Cpu>")
                || name.contains("halprof_driver::dpc::CurrentCpu"));
        shim || name.contains("::closure$")
    };
    function.names.iter().any(is)
}

/// The targets within the image of a guarded call of `function`.
pub(crate) fn guarded_targets(driver: &Driver, function: &Function) -> Vec<u32> {
    let has = |function: &Function, part: &str| function.names.iter().any(|one| one.contains(part));
    let Some((_, common)) = STAYS.iter().find(|(who, _)| has(function, who)) else {
        return Vec::new();
    };
    let target = |at: &&u32| {
        let target = driver.functions.get(at);
        target.is_some_and(|target| {
            is_closure(target) && has(target, common) && target.range != function.range
        })
    };
    driver.guard.functions.iter().filter(target).copied().collect()
}
