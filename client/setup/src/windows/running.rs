//! What runs and what is loaded: toolhelp snapshots of processes, threads and modules, and the list
//! of the kernel's drivers.

use super::{volumes, wide};
use halprof_measure::DebugPrivilege;
use halprof_measure::native_path::Volume;
use std::arch::x86_64::_rdtsc;
use std::fs::File;
use std::io::Read;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::{iter, ptr};
use windows_sys::Win32::Foundation::{
    ERROR_BAD_LENGTH, FALSE, GetLastError, HANDLE, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CREATE_TOOLHELP_SNAPSHOT_FLAGS, CreateToolhelp32Snapshot, MODULEENTRY32W, Module32FirstW,
    Module32NextW, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPMODULE,
    TH32CS_SNAPMODULE32, TH32CS_SNAPPROCESS, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First,
    Thread32Next,
};
use windows_sys::Win32::System::ProcessStatus::{
    K32EnumDeviceDrivers, K32GetDeviceDriverFileNameW,
};

/// How often a snapshot is tried: one of a process that is just starting may fail.
const TRIES: u32 = 5;
/// The longest path that Windows returns.
const PATH_UNITS: usize = 32 << 10;
/// The assumed length of the last driver in memory if its file gives no size.
const DRIVER_BYTES: u64 = 1 << 20;

/// Enough for the headers of any driver.
const HEAD_BYTES: u64 = 8 << 10;
/// Where a PE file gives the offset of its signature.
const E_LFANEW: u32 = 0x3C;
/// "PE" and two zeros.
const PE_SIGNATURE: u32 = 0x4550;
/// From the signature to SizeOfImage: the COFF header, then the same offset in PE32 and PE32+.
const SIZE_OF_IMAGE: u32 = 4 + 20 + 56;

/// An image of code in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub name: String,
    /// The file it was loaded from, if known.
    pub path: Option<String>,
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
}

/// What runs on this Windows system.
#[derive(Debug)]
pub struct Running {
    volumes: Vec<Volume>,
}

impl Running {
    /// With the names of this machine's volumes.
    pub fn begin() -> Self {
        Self { volumes: volumes::all() }
    }

    /// The time, on the clock of samples.
    pub fn now(&self) -> u64 {
        // SAFETY: every x86-64 processor has RDTSC, and Windows allows it in user mode.
        unsafe { _rdtsc() }
    }

    /// All processes: identifiers and names.
    pub fn processes(&self) -> Vec<(u32, String)> {
        processes().unwrap_or_default()
    }

    /// What is loaded in a process; `None` if it may not be inspected.
    pub fn modules(&self, process: u32) -> Option<Vec<Loaded>> {
        let _privilege = DebugPrivilege::enable();
        // A snapshot of process 0 is one of the calling process.
        let snapshot = (process != 0)
            .then(|| snapshot(TH32CS_SNAPMODULE | TH32CS_SNAPMODULE32, process))
            .flatten()?;
        let empty = MODULEENTRY32W {
            dwSize: size_of::<MODULEENTRY32W>() as u32,
            ..MODULEENTRY32W::default()
        };
        let modules = entries(&snapshot, empty, Module32FirstW, Module32NextW);
        Some(modules.map(|entry| image(&entry)).collect())
    }

    /// The kernel's own modules.
    pub fn kernel(&self) -> Vec<Loaded> {
        let _privilege = DebugPrivilege::enable();
        let mut bases = drivers();
        bases.sort_unstable();
        bases.dedup();
        let nexts = bases.iter().skip(1).copied().map(Some);
        let pairs = bases.iter().copied().zip(nexts.chain(iter::once(None)));
        // A driver ends where its file says, but not after the start of the next one.
        pairs
            .filter(|&(base, _)| base != 0)
            .map(|(base, next)| driver(base, next, &self.volumes))
            .collect()
    }

    /// Converts a path in the kernel's form to one that programs can open.
    pub fn on_disk(&self, native: &str) -> String {
        volumes::on_disk(native, &self.volumes)
    }
}

/// How many modules are visible in this process, and in the kernel.
pub(super) fn seen() -> (usize, usize) {
    let running = Running::begin();
    let own = running.modules(std::process::id());
    (own.map_or(0, |own| own.len()), running.kernel().len())
}

/// All processes: identifiers and the names of their programs' files.
pub(super) fn processes() -> Option<Vec<(u32, String)>> {
    let snapshot = snapshot(TH32CS_SNAPPROCESS, 0)?;
    let empty = PROCESSENTRY32W {
        dwSize: size_of::<PROCESSENTRY32W>() as u32,
        ..PROCESSENTRY32W::default()
    };
    let entries = entries(&snapshot, empty, Process32FirstW, Process32NextW);
    Some(entries.map(|entry| (entry.th32ProcessID, wide::text(&entry.szExeFile))).collect())
}

/// The identifier of a process's first thread; `None` if Windows lists none, and GetLastError says why.
pub fn thread_of(process: u32) -> Option<u32> {
    let snapshot = snapshot(TH32CS_SNAPTHREAD, 0)?;
    let empty =
        THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..THREADENTRY32::default() };
    let mut threads = entries(&snapshot, empty, Thread32First, Thread32Next);
    threads.find(|thread| thread.th32OwnerProcessID == process).map(|thread| thread.th32ThreadID)
}

fn image(entry: &MODULEENTRY32W) -> Loaded {
    let start = entry.modBaseAddr as u64;
    Loaded {
        name: wide::text(&entry.szModule),
        path: Some(wide::text(&entry.szExePath)),
        start,
        end: start.saturating_add(entry.modBaseSize.into()),
    }
}

fn snapshot(what: CREATE_TOOLHELP_SNAPSHOT_FLAGS, process: u32) -> Option<OwnedHandle> {
    for _ in 0..TRIES {
        // SAFETY: the function takes no pointers.
        let handle = unsafe { CreateToolhelp32Snapshot(what, process) };
        if handle != INVALID_HANDLE_VALUE {
            // SAFETY: the handle is open and owned by nobody else.
            return Some(unsafe { OwnedHandle::from_raw_handle(handle) });
        }
        // Only this error means that it may work the next time (CreateToolhelp32Snapshot).
        // SAFETY: the function takes no pointers.
        if unsafe { GetLastError() } != ERROR_BAD_LENGTH {
            return None;
        }
    }
    None
}

type Step<T> = unsafe extern "system" fn(HANDLE, *mut T) -> i32;

/// The entries of a snapshot; `empty` holds its own size.
fn entries<T: Copy>(
    snapshot: &OwnedHandle,
    empty: T,
    first: Step<T>,
    next: Step<T>,
) -> impl Iterator<Item = T> {
    let mut step = first;
    iter::from_fn(move || {
        let mut entry = empty;
        // SAFETY: the snapshot is open, and `entry` is valid for a write and holds its size.
        let done = unsafe { step(snapshot.as_raw_handle(), &raw mut entry) };
        step = next;
        (done != FALSE).then_some(entry)
    })
}

/// The addresses where the kernel's modules begin. All are 0 if the user may not know them.
fn drivers() -> Vec<u64> {
    let mut bases: Vec<*mut core::ffi::c_void> = Vec::new();
    loop {
        let bytes = size_of_val(bases.as_slice()) as u32;
        let mut needed = 0;
        // SAFETY: `bases` is valid for writes of `bytes`, `needed` for a write.
        let done = unsafe { K32EnumDeviceDrivers(bases.as_mut_ptr(), bytes, &raw mut needed) };
        if done == FALSE {
            return Vec::new();
        }
        // More drivers may have been loaded since their number was asked for.
        let count = needed as usize / size_of::<u64>();
        if count <= bases.len() {
            bases.truncate(count);
            return bases.into_iter().map(|base| base as u64).collect();
        }
        bases.resize(count, ptr::null_mut());
    }
}

fn driver(base: u64, next: Option<u64>, volumes: &[Volume]) -> Loaded {
    let mut units = vec![0; PATH_UNITS];
    // SAFETY: `units` is valid for writes of its length.
    let length = unsafe {
        K32GetDeviceDriverFileNameW(
            base as *const core::ffi::c_void,
            units.as_mut_ptr(),
            PATH_UNITS as u32,
        )
    };
    units.truncate(length as usize);
    let path = volumes::on_disk(&wide::text(&units), volumes);
    let name = path.rsplit('\\').next().unwrap_or_default().to_owned();
    let room = next.map_or(DRIVER_BYTES, |next| next - base);
    let length = image_bytes(Path::new(&path)).map_or(room, |length| length.min(room));
    Loaded {
        name,
        path: (!path.is_empty()).then_some(path),
        start: base,
        end: base.saturating_add(length),
    }
}

/// SizeOfImage from the header of a file; `None` if it is no PE file or cannot be read.
fn image_bytes(path: &Path) -> Option<u64> {
    let mut head = Vec::new();
    let file = File::open(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let signature = number(&head, E_LFANEW)?;
    let is_pe = head.starts_with(b"MZ") && number(&head, signature)? == PE_SIGNATURE;
    let size = number(&head, signature.checked_add(SIZE_OF_IMAGE)?)?;
    (is_pe && size != 0).then_some(size.into())
}

fn number(bytes: &[u8], offset: u32) -> Option<u32> {
    let bytes = bytes.get(offset as usize..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
