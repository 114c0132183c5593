//! What only this machine knows: it distinguishes the recordings made here from all others.

#[cfg(not(windows))]
use std::fs;

/// The machine's identifier, which Windows created when it was installed.
#[cfg(windows)]
pub(crate) fn secret() -> Option<Vec<u8>> {
    halprof_setup::windows::system::machine_guid().map(String::into_bytes)
}

/// The machine's identifier, or if it has none, that of the current boot.
#[cfg(not(windows))]
pub(crate) fn secret() -> Option<Vec<u8>> {
    let files = [
        "/etc/machine-id",
        "/var/lib/dbus/machine-id",
        "/proc/sys/kernel/random/boot_id",
    ];
    let read = |file: &&str| fs::read(file).ok().filter(|bytes| bytes.len() >= 32);
    files.iter().find_map(read)
}

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
