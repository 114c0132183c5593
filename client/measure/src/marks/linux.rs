//! Unnamed memory behind an inherited file descriptor, sealed so that nobody can shrink it while
//! the recorder uses it.
#![expect(unsafe_code, reason = "shared memory, and what belongs to a thread, are the system's")]

use super::shared::Shared;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

const SIZE: usize = size_of::<Shared>();
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// The recorder's own mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    file: OwnedFd,
    at: NonNull<Shared>,
}

// SAFETY: the memory holds only atomics, and the mapping belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(super) fn create() -> io::Result<Self> {
        // Without MFD_CLOEXEC, because the program inherits the descriptor. SAFETY: the name ends
        // with a 0.
        let file =
            unsafe { libc::memfd_create(c"halprof-marks".as_ptr(), libc::MFD_ALLOW_SEALING) };
        done(file)?;
        // SAFETY: memfd_create succeeded, so the descriptor is open and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: no pointer is passed.
        done(unsafe { libc::ftruncate(file.as_raw_fd(), SIZE.cast_signed() as libc::off_t) })?;
        // SAFETY: no pointer is passed.
        done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
        let at = map(file.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { file, at })
    }

    /// The handle by which the program attaches.
    pub(super) fn handle(&self) -> isize {
        self.file.as_raw_fd() as isize
    }

    pub(super) const fn shared(&self) -> &Shared {
        // SAFETY: it is mapped until this is dropped, cannot become shorter, and any bits in it are
        // valid atomics.
        unsafe { self.at.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody borrows it any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), SIZE) };
    }
}

fn map(file: RawFd) -> Option<NonNull<Shared>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the system chooses the address.
    let at = unsafe { libc::mmap(ptr::null_mut(), SIZE, access, libc::MAP_SHARED, file, 0) };
    (at != libc::MAP_FAILED).then(|| NonNull::new(at.cast())).flatten()
}

/// The buffer behind an inherited descriptor, mapped for as long as the process lives; `None` if
/// there is no such descriptor, or if it is something else.
pub(super) fn attach(handle: isize) -> Option<&'static Shared> {
    let file = RawFd::try_from(handle).ok()?;
    // Another file may have this number by now. Only fcntl and fstat touch it until it proves to be
    // the buffer. SAFETY: no pointer is passed.
    let seals = unsafe { libc::fcntl(file, libc::F_GET_SEALS) };
    if seals != SEALS || length(file)? != SIZE {
        return None;
    }
    // SAFETY: it is never unmapped, the seals keep its length, and any bits in it are valid atomics.
    Some(unsafe { map(file)?.as_ref() })
}

fn length(file: RawFd) -> Option<usize> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: `status` is valid for a write.
    done(unsafe { libc::fstat(file, status.as_mut_ptr()) }).ok()?;
    // SAFETY: fstat succeeded, and has written it.
    let status: libc::stat = unsafe { status.assume_init() };
    usize::try_from(status.st_size).ok()
}

/// The process in the upper half, the thread in the lower half.
pub(super) fn owner() -> u64 {
    // SAFETY: no pointer is passed.
    let thread = unsafe { libc::gettid() };
    u64::from(std::process::id()) << 32 | u64::from(thread.cast_unsigned())
}

/// Makes the child of a later fork take its own chunks.
pub(super) fn watch_forks() {
    extern "C" fn forked() {
        super::forked();
    }
    // SAFETY: the function exists for as long as the program runs.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
