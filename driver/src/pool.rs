//! Pool memory: non-paged, not executable, zeroed, with fallible allocation.
#![expect(unsafe_code, reason = "the kernel's pool")]

use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use wdk_sys::POOL_FLAG_NON_PAGED;
use wdk_sys::ntddk::{ExAllocatePool2, ExFreePoolWithTag};
use zerocopy::FromZeros;

/// The tag of all the driver's pool allocations: `Hprf` in `!poolused`.
pub(crate) const TAG: u32 = u32::from_le_bytes(*b"Hprf");

/// A slice in non-paged pool. An allocation of a page or more is page-aligned (ExAllocatePool2).
#[derive(Debug)]
pub(crate) struct Pool<T> {
    at: NonNull<T>,
    length: usize,
}

// SAFETY: it owns its memory, as a Box does.
unsafe impl<T: Send> Send for Pool<T> {}
// SAFETY: sharing it is sharing a slice of `T`.
unsafe impl<T: Sync> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// Room for `length` values, all bytes zero; `None` if there is no memory. At most
    /// DISPATCH_LEVEL.
    fn room(length: usize) -> Option<NonNull<T>> {
        // ExAllocatePool2 aligns allocations below a page to 16 bytes, and larger ones to a page.
        const { assert!(align_of::<T>() <= 16 && size_of::<T>() > 0) };
        // At least 1: Driver Verifier stops at an allocation of no bytes.
        let bytes = length.checked_mul(size_of::<T>())?.max(1);
        // Non-paged pool is not executable, and ExAllocatePool2 zeroes (WDK, "ExAllocatePool2").
        // SAFETY: the only requirement is an IRQL of at most DISPATCH_LEVEL, as documented above.
        let at = unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, bytes as u64, TAG) };
        NonNull::new(at.cast())
    }

    /// One value, made by `make`. At most DISPATCH_LEVEL.
    pub(crate) fn one(make: impl FnOnce() -> T) -> Option<Self> {
        let at = Self::room(1)?;
        // SAFETY: room for one value.
        unsafe { at.write(make()) };
        Some(Self { at, length: 1 })
    }
}

impl<T> Pool<T> {
    /// Address of the allocation; the caller upholds aliasing.
    pub(crate) const fn place(&self) -> NonNull<T> {
        self.at
    }

    /// Gives up ownership of one value; [`Self::reclaim`] takes it back.
    #[must_use]
    pub(crate) fn leak(self) -> NonNull<T> {
        ManuallyDrop::new(self).at
    }

    /// Takes back what [`Self::leak`] gave up.
    ///
    /// # Safety
    /// `at` was leaked from a pool of one value and is no longer used elsewhere.
    #[must_use]
    pub(crate) unsafe fn reclaim(at: NonNull<T>) -> Self {
        Self { at, length: 1 }
    }
}

impl<T: FromZeros> Pool<T> {
    /// `length` zeroed values. At most DISPATCH_LEVEL.
    pub(crate) fn zeroed(length: usize) -> Option<Self> {
        let at = Self::room(length)?;
        Some(Self { at, length })
    }
}

impl<T> Deref for Pool<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: there are `length` values at this address, and `self` is borrowed.
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.length) }
    }
}

impl<T> DerefMut for Pool<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: there are `length` values at this address, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), self.length) }
    }
}

impl<T> Drop for Pool<T> {
    /// At most DISPATCH_LEVEL.
    fn drop(&mut self) {
        let all = NonNull::slice_from_raw_parts(self.at, self.length);
        // SAFETY: the values are dropped once, here.
        unsafe { all.drop_in_place() };
        // SAFETY: allocated from the pool with this tag, and freed once.
        unsafe { ExFreePoolWithTag(self.at.as_ptr().cast(), TAG) };
    }
}

/// One value in non-paged pool, initially all zeros.
#[derive(Debug)]
pub(crate) struct Zeroed<T>(Pool<T>);

impl<T: FromZeros> Zeroed<T> {
    /// At most DISPATCH_LEVEL.
    pub(crate) fn new() -> Option<Self> {
        Pool::zeroed(1).map(Self)
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: there is one value at this address, and `self` is borrowed.
        unsafe { self.0.at.as_ref() }
    }
}

impl<T> DerefMut for Zeroed<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one value at this address, and `self` is borrowed exclusively.
        unsafe { self.0.at.as_mut() }
    }
}
