//! Caches with the geometry that CPUID reports, empty at the start.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data.
    Data,
    /// Instructions.
    Instruction,
    /// Both.
    Unified,
}

/// One cache of a processor, as CPUID leaf 4 describes it (SDM: "Deterministic Cache Parameters
/// Leaf"), or on AMD leaf 8000001D (APM: "Cache Topology Information").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The level; 1 is the nearest.
    pub level: u8,
    /// Its contents.
    pub kind: Kind,
    /// Bytes per line.
    pub line: u64,
    /// Lines per set.
    pub ways: u64,
    /// The number of sets.
    pub sets: u64,
}

/// The largest number of caches that is read: no processor has more.
const CACHES: u32 = 16;

/// The largest product of lines and sets that is accepted: no cache has 1 GiB.
const LARGEST: u64 = 1 << 30;

impl Geometry {
    /// The caches of a processor, nearest first: `cpuid` returns EAX, EBX, ECX and EDX of a leaf
    /// and its sub-leaf.
    #[must_use]
    pub fn of(cpuid: impl Fn(u32, u32) -> [u32; 4]) -> Vec<Self> {
        let leaf = |leaf: u32| -> Vec<Self> {
            let highest = cpuid(leaf & 0x8000_0000, 0)[0];
            let subleaves = (0..CACHES).map(|index| cpuid(leaf, index));
            let caches = subleaves.take_while(|[eax, ..]| highest >= leaf && eax & 0x1F != 0);
            caches.filter_map(Self::decoded).collect()
        };
        let intel = leaf(4);
        let mut caches = if intel.is_empty() {
            leaf(0x8000_001D)
        } else {
            intel
        };
        caches.sort_by_key(|cache| cache.level);
        caches
    }

    fn decoded([eax, ebx, ecx, _]: [u32; 4]) -> Option<Self> {
        let kind = match eax & 0x1F {
            1 => Kind::Data,
            2 => Kind::Instruction,
            3 => Kind::Unified,
            _ => return None,
        };
        let field = |low: u32, bits: u32| u64::from(ebx >> low & ((1 << bits) - 1)) + 1;
        let cache = Self {
            level: (eax >> 5 & 7) as u8,
            kind,
            line: field(0, 12) * field(12, 10),
            ways: field(22, 10),
            sets: u64::from(ecx) + 1,
        };
        Some(cache).filter(|cache| cache.line.is_power_of_two() && cache.bytes() <= LARGEST)
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.line
            .saturating_mul(self.ways)
            .saturating_mul(self.sets)
    }

    /// `L1D`, `L1I`, `L2` and so on.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Data => "D",
            Kind::Instruction => "I",
            Kind::Unified => "",
        };
        format!("L{}{kind}", self.level)
    }
}

/// A cache that replaces the least recently used line and allocates on writes.
#[derive(Clone, Debug)]
struct Cache {
    geometry: Geometry,
    /// The lines of each set in use, the most recently used last.
    sets: FxHashMap<u64, Vec<u64>>,
    total: Total,
}

/// The counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Look-ups, one for each line that an access touches.
    pub accesses: u64,
    /// Look-ups that did not find their line.
    pub misses: u64,
}

impl Cache {
    fn misses(&mut self, line: u64) -> bool {
        self.total.accesses += 1;
        let set = self.sets.entry(line % self.geometry.sets).or_default();
        let found = set.iter().rposition(|&held| held == line);
        if let Some(at) = found {
            set.remove(at);
        } else {
            self.total.misses += 1;
            if set.len() as u64 >= self.geometry.ways {
                set.remove(0);
            }
        }
        set.push(line);
        found.is_none()
    }
}

/// All caches of a processor.
#[derive(Clone, Debug)]
pub struct Caches {
    all: Vec<Cache>,
}

/// The longest operand whose lines are looked up: only instructions that save the processor's state
/// touch more.
const OPERAND: u64 = 4096;

impl Caches {
    /// Empty caches of these geometries.
    #[must_use]
    pub fn new(geometries: &[Geometry]) -> Self {
        let caches = geometries.iter().map(|&geometry| Cache {
            geometry,
            sets: FxHashMap::default(),
            total: Total::default(),
        });
        Self {
            all: caches.collect(),
        }
    }

    /// Their names and sizes.
    pub fn geometries(&self) -> impl Iterator<Item = &Geometry> {
        self.all.iter().map(|cache| &cache.geometry)
    }

    /// The counts of each cache.
    #[must_use]
    pub fn totals(&self) -> Vec<Total> {
        self.all.iter().map(|cache| cache.total).collect()
    }

    /// Looks up an operand or an instruction line by line, in the nearest cache and after a miss in
    /// the next one; adds the misses to those of each cache.
    pub fn access(&mut self, kind: Kind, address: u64, bytes: u64, misses: &mut [u64]) {
        let bytes = bytes.clamp(1, OPERAND);
        let Some(line) = self.all.first().map(|cache| cache.geometry.line) else {
            return;
        };
        let mut at = address & !(line - 1);
        loop {
            self.look_up(kind, at, misses);
            let next = at.wrapping_add(line);
            if next.wrapping_sub(address) >= bytes {
                break;
            }
            at = next;
        }
    }

    fn look_up(&mut self, kind: Kind, address: u64, misses: &mut [u64]) {
        let caches = self.all.iter_mut().zip(misses);
        let serves = |cache: &Cache| [kind, Kind::Unified].contains(&cache.geometry.kind);
        for (cache, missed) in caches.filter(|(cache, _)| serves(cache)) {
            if !cache.misses(address / cache.geometry.line) {
                break;
            }
            *missed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaf 4 of an Intel Core i7-6700K, from its dump.
    fn skylake(leaf: u32, subleaf: u32) -> [u32; 4] {
        match (leaf, subleaf) {
            (0, _) => [0x16, 0, 0, 0],
            (4, 0) => [0x1C00_4121, 0x01C0_003F, 0x3F, 0],
            (4, 1) => [0x1C00_4122, 0x01C0_003F, 0x3F, 0],
            (4, 2) => [0x1C00_4143, 0x00C0_003F, 0x3FF, 0],
            (4, 3) => [0x1C03_C163, 0x03C0_003F, 0x1FFF, 6],
            _ => [0; 4],
        }
    }

    #[test]
    fn geometry_is_read_from_leaf_4() {
        let caches = Geometry::of(skylake);
        let read: Vec<_> = caches
            .iter()
            .map(|cache| (cache.name(), cache.bytes() >> 10, cache.ways))
            .collect();
        let expected = [
            ("L1D", 32, 8),
            ("L1I", 32, 8),
            ("L2", 256, 4),
            ("L3", 8192, 16),
        ];
        assert_eq!(
            read,
            expected.map(|(name, kib, ways)| (name.to_owned(), kib, ways))
        );
    }

    #[test]
    fn geometry_of_amd_is_in_its_own_leaf() {
        let zen = |leaf: u32, subleaf: u32| match (leaf, subleaf) {
            (0, _) => [0xD, 0, 0, 0],
            (0x8000_0000, _) => [0x8000_001E, 0, 0, 0],
            (0x8000_001D, _) => skylake(4, subleaf),
            _ => [0; 4],
        };
        assert_eq!(Geometry::of(zen), Geometry::of(skylake));
        assert!(Geometry::of(|_, _| [0; 4]).is_empty());
    }

    #[test]
    fn a_set_keeps_what_was_used_last() {
        let small = Geometry {
            level: 1,
            kind: Kind::Data,
            line: 64,
            ways: 2,
            sets: 2,
        };
        let mut caches = Caches::new(&[small]);
        let mut missed = |address: u64, bytes: u64| {
            let mut misses = [0];
            caches.access(Kind::Data, address, bytes, &mut misses);
            misses[0]
        };
        // Lines 0, 2 and 4 share a set of two ways.
        assert_eq!([0, 128, 0].map(|address| missed(address, 8)), [1, 1, 0]);
        assert_eq!([256, 0, 128].map(|address| missed(address, 8)), [1, 0, 1]);
        // Spans two lines, one of which is present.
        assert_eq!(missed(188, 8), 1);
        assert_eq!(caches.totals()[0].accesses, 8);
    }

    #[test]
    fn a_miss_asks_the_next_level_and_no_other_kind() {
        let mut caches = Caches::new(&Geometry::of(skylake));
        let mut misses = [0; 4];
        for _ in 0..2 {
            caches.access(Kind::Data, 0x1000, 8, &mut misses);
        }
        assert_eq!(misses, [1, 0, 1, 1]);
        // The second level has the line.
        caches.access(Kind::Instruction, 0x1000, 4, &mut misses);
        assert_eq!(misses, [1, 1, 1, 1]);
    }
}
