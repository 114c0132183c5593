//! Addresses, and which bytes the driver may touch.
//!
//! The driver's virtual addresses are high, as in a kernel; what the engine calls physical is their
//! low half. The memory of programs in ring 3 is above it. All memory that the driver gets is in
//! one arena, with a shadow that says for every byte whether it may be accessed: so an access one
//! byte beyond an allocation, or to one that was freed, is found when it happens.

use crate::rules::{Rule, Violation};
use std::collections::{BTreeMap, VecDeque};

/// Where the image is mapped.
pub const IMAGE: u64 = 0xFFFF_F800_1000_0000;
/// The functions of the kernel and the framework: each is a stub of [`STUB`] bytes.
pub const STUBS: u64 = 0xFFFF_F800_0800_0000;
/// Bytes in a stub.
pub const STUB: u64 = 16;
/// Bytes for all stubs.
pub const STUBS_SIZE: u64 = 0x1_0000;
/// Data that the kernel exports.
pub const EXPORTS: u64 = 0xFFFF_F800_0900_0000;
/// Bytes for it.
pub const EXPORTS_SIZE: u64 = 0x1_0000;
pub const ARENA: u64 = 0xFFFF_F800_2000_0000;
pub const ARENA_SIZE: u64 = 0x4000_0000;
/// Where the local APIC's page is mapped.
pub const APIC: u64 = 0xFFFF_F800_0A00_0000;
/// The stacks of programs: one for each processor.
pub const USER_STACKS: u64 = 0x10_0000;
/// Bytes for all of them: enough for more processors than Windows supports.
pub const USER_STACKS_SIZE: u64 = 4096 * USER_STACK;
const USER_STACK: u64 = PAGE;
pub const PAGE: u64 = 0x1000;

/// The engine's address for a virtual one.
pub const fn physical(address: u64) -> u64 {
    address & 0xFFFF_FFFF | (is_user(address) as u64) << 32
}

/// The end of a program's stack, which is the stack pointer when it is empty.
pub const fn user_stack(processor: usize) -> u64 {
    USER_STACKS + USER_STACK * (processor as u64 + 1)
}

/// Whether an address is in the lower half, where programs are.
pub const fn is_user(address: u64) -> bool {
    address >> 47 == 0
}

/// Bytes that one byte of the shadow describes.
const GRAIN: u64 = 8;
/// The number of freed allocations that are not reused yet.
const QUARANTINE: usize = 256;

#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// The requested size in bytes.
    pub size: u64,
    /// The bytes that it occupies.
    room: u64,
    /// The tag; 0 for the kernel's own allocations.
    pub tag: u32,
}

/// The arena's allocations and its shadow.
pub struct Arena {
    shadow: Vec<u8>,
    live: BTreeMap<u64, Allocation>,
    freed: VecDeque<(u64, u64)>,
    free: BTreeMap<u64, Vec<u64>>,
    next: u64,
    /// Bytes of pool in use by the driver, now and at most.
    pub pool: (u64, u64),
}

impl Default for Arena {
    fn default() -> Self {
        Self {
            shadow: vec![0; (ARENA_SIZE / GRAIN) as usize],
            live: BTreeMap::new(),
            freed: VecDeque::new(),
            free: BTreeMap::new(),
            // The first page is never given away, so that an access below the first allocation is
            // found.
            next: ARENA + PAGE,
            pool: (0, 0),
        }
    }
}

impl Arena {
    /// Allocates `size` bytes, page-aligned if it is at least a page, with inaccessible bytes
    /// before and after. `None` if the arena is full.
    pub fn allocate(&mut self, size: u64, tag: u32) -> Option<u64> {
        // Pool is page-aligned from a page on (ExAllocatePoolWithTag's page). The unit at the end
        // is the gap.
        let unit = if size >= PAGE { PAGE } else { 64 };
        let room = size.max(1).next_multiple_of(unit) + unit;
        let reused = self.free.get_mut(&room).and_then(Vec::pop);
        let at = reused.or_else(|| {
            let at = self.next.next_multiple_of(unit);
            let end = at.checked_add(room)?;
            (end <= ARENA + ARENA_SIZE).then(|| {
                self.next = end;
                at
            })
        })?;
        self.live.insert(at, Allocation { size, room, tag });
        self.set_shadow(at, size);
        if tag != 0 {
            self.pool.0 += size;
            self.pool.1 = self.pool.1.max(self.pool.0);
        }
        Some(at)
    }

    /// Frees an allocation; its bytes may not be accessed from now on.
    pub fn free(&mut self, at: u64, tag: u32) -> Result<(), Violation> {
        let broken = |what: String| Err(Violation::new(Rule::PoolFree, what));
        let Some(allocation) = self.live.remove(&at) else {
            return broken(format!("{at:#x} is freed, and is no allocation"));
        };
        if allocation.tag != tag {
            return broken(format!(
                "{at:#x} of tag {:#x} is freed with tag {tag:#x}",
                allocation.tag
            ));
        }
        self.clear_shadow(at, allocation.size);
        if tag != 0 {
            self.pool.0 -= allocation.size;
        }
        // The memory is not reused at once, so that a late access meets no newer allocation.
        self.freed.push_back((at, allocation.room));
        if self.freed.len() > QUARANTINE
            && let Some((at, room)) = self.freed.pop_front()
        {
            self.free.entry(room).or_default().push(at);
        }
        Ok(())
    }

    /// The size of an allocation; 0 if there is none.
    pub fn size_of(&self, at: u64) -> u64 {
        self.live.get(&at).map_or(0, |allocation| allocation.size)
    }

    /// All allocations: address, and size in bytes.
    pub fn allocated(&self) -> impl Iterator<Item = (u64, u64)> {
        self.live.iter().map(|(at, allocation)| (*at, allocation.size))
    }

    /// The driver's allocations that have not been freed.
    pub fn leaks(&self) -> impl Iterator<Item = (u64, &Allocation)> {
        let live = self.live.iter().map(|(at, allocation)| (*at, allocation));
        live.filter(|(_, allocation)| allocation.tag != 0)
    }

    /// Whether all of `size` bytes may be accessed.
    pub fn allows(&self, at: u64, size: u64) -> bool {
        let Some(offset) = at.checked_sub(ARENA) else {
            return false;
        };
        let (mut at, end) = (offset, offset + size);
        while at < end {
            let within = at % GRAIN;
            let take = (GRAIN - within).min(end - at);
            let known = self.shadow.get((at / GRAIN) as usize).copied();
            // A byte of the shadow says how many bytes of its grain are accessible, from the first
            // on.
            if known.unwrap_or(0) < (within + take) as u8 {
                return false;
            }
            at += take;
        }
        true
    }

    fn set_shadow(&mut self, at: u64, size: u64) {
        let first = ((at - ARENA) / GRAIN) as usize;
        let whole = (size / GRAIN) as usize;
        self.shadow[first..first + whole].fill(GRAIN as u8);
        if !size.is_multiple_of(GRAIN) {
            self.shadow[first + whole] = (size % GRAIN) as u8;
        }
    }

    fn clear_shadow(&mut self, at: u64, size: u64) {
        let first = ((at - ARENA) / GRAIN) as usize;
        self.shadow[first..first + size.div_ceil(GRAIN) as usize].fill(0);
    }
}
