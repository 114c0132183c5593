//! What a recording says of who made it, and of the machine on which this runs.

use halprof_profile::file::Metadata;
use halprof_profile::symbols;
#[cfg(not(windows))]
use std::fs;
use std::time::SystemTime;

/// Says which halprof made a recording, where, and with whose key.
pub(crate) fn sign(metadata: &mut Metadata, key: Option<&[u8]>) {
    env!("CARGO_PKG_VERSION").clone_into(&mut metadata.halprof);
    // A model is on no network.
    metadata.host = if metadata.modelled { String::new() } else { host() };
    metadata.origin = key.map(|key| symbols::origin(key, metadata)).unwrap_or_default();
}

/// The time since 1970.
pub(crate) fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// Its processor's name.
pub(crate) fn processor() -> String {
    let name = raw_cpuid::CpuId::new().get_processor_brand_string();
    let name = name.map(|name| name.as_str().trim().to_owned());
    name.unwrap_or_else(|| "this machine".to_owned())
}

/// The machine's name in its network; empty if not known.
fn host() -> String {
    #[cfg(windows)]
    let name = std::env::var("COMPUTERNAME").ok();
    #[cfg(not(windows))]
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    name.unwrap_or_default().trim().to_owned()
}
