//! What the machine on which this runs is called.

#[cfg(not(windows))]
use std::fs;

/// Its processor's name.
pub(crate) fn processor() -> String {
    let name = raw_cpuid::CpuId::new().get_processor_brand_string();
    let name = name.map(|name| name.as_str().trim().to_owned());
    name.unwrap_or_else(|| "this machine".to_owned())
}

/// The machine's name in its network; empty if not known.
pub(crate) fn host() -> String {
    #[cfg(windows)]
    let name = std::env::var("COMPUTERNAME").ok();
    #[cfg(not(windows))]
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    name.unwrap_or_default().trim().to_owned()
}
