//! Caches with the geometry that CPUID reports, empty at the start.

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Data,
    Instruction,
    Unified,
}

/// One cache of a processor, as CPUID leaf 4 describes it (SDM: "Deterministic Cache Parameters
/// Leaf"), or on AMD leaf 8000001D (APM: "Cache Topology Information"); on older processors AMD's
/// leaves 80000005 and 80000006 (APM: "L1 Cache and TLB Information", "L2 Cache and TLB and L3 Cache
/// Information"), or Intel's descriptors of leaf 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The level; 1 is the nearest.
    pub level: u8,
    /// Its contents.
    pub kind: Kind,
    /// Bytes per line.
    pub line: u64,
    /// Lines per set.
    pub associativity: u64,
    pub sets: u64,
}

/// Descriptors of leaf 2: level, contents, KiB, associativity, bytes per line (SDM vol. 2, "CPUID",
/// "Encoding of CPUID Leaf 2 Descriptors"). Only those of processors without leaf 4; a trace cache
/// has no lines.
const DESCRIPTORS: [(u8, u8, Kind, u64, u64, u64); 20] = [
    (0x06, 1, Kind::Instruction, 8, 4, 32),
    (0x08, 1, Kind::Instruction, 16, 4, 32),
    (0x0A, 1, Kind::Data, 8, 2, 32),
    (0x0C, 1, Kind::Data, 16, 4, 32),
    (0x2C, 1, Kind::Data, 32, 8, 64),
    (0x30, 1, Kind::Instruction, 32, 8, 64),
    (0x41, 2, Kind::Unified, 128, 4, 32),
    (0x42, 2, Kind::Unified, 256, 4, 32),
    (0x43, 2, Kind::Unified, 512, 4, 32),
    (0x44, 2, Kind::Unified, 1024, 4, 32),
    (0x66, 1, Kind::Data, 8, 4, 64),
    (0x67, 1, Kind::Data, 16, 4, 64),
    (0x79, 2, Kind::Unified, 128, 8, 64),
    (0x7A, 2, Kind::Unified, 256, 8, 64),
    (0x7B, 2, Kind::Unified, 512, 8, 64),
    (0x7C, 2, Kind::Unified, 1024, 8, 64),
    (0x82, 2, Kind::Unified, 256, 8, 32),
    (0x83, 2, Kind::Unified, 512, 8, 32),
    (0x86, 2, Kind::Unified, 512, 4, 64),
    (0x87, 2, Kind::Unified, 1024, 8, 64),
];

/// AMD's codes of associativity in leaf 80000006, from 0 on; 0 where there is no such cache.
const AMD_ASSOCIATIVITY: [u64; 15] = [0, 1, 2, 3, 4, 6, 8, 0, 16, 0, 32, 48, 64, 96, 128];

/// The largest number of caches that is read: no processor has more.
const CACHES: u32 = 16;

/// The largest product of lines and sets that is accepted: no cache has 1 GiB.
const LARGEST: u64 = 1 << 30;

impl Geometry {
    /// The caches of a processor, nearest first: `cpuid` returns EAX, EBX, ECX and EDX of a leaf
    /// and its sub-leaf.
    pub fn from_cpuid(cpuid: impl Fn(u32, u32) -> [u32; 4]) -> Vec<Self> {
        let mut caches = Self::from_leaf(&cpuid, 4);
        if caches.is_empty() {
            caches = Self::from_leaf(&cpuid, 0x8000_001D);
        }
        if caches.is_empty() {
            caches = Self::from_old_amd(&cpuid);
        }
        if caches.is_empty() {
            caches = Self::from_descriptors(&cpuid);
        }
        caches.sort_by_key(|cache| cache.level);
        caches
    }

    /// Leaf 4 and AMD's 8000001D have the same form: one cache in each sub-leaf, until one without.
    fn from_leaf(cpuid: &impl Fn(u32, u32) -> [u32; 4], leaf: u32) -> Vec<Self> {
        // Intel's processors answer for a leaf beyond the last as for that one, which would look
        // like a cache.
        if cpuid(leaf & 0x8000_0000, 0)[0] < leaf {
            return Vec::new();
        }
        let subleaves = (0..CACHES).map(|index| cpuid(leaf, index));
        subleaves.take_while(|[eax, ..]| eax & 0x1F != 0).filter_map(Self::decoded).collect()
    }

    fn from_old_amd(cpuid: &impl Fn(u32, u32) -> [u32; 4]) -> Vec<Self> {
        if cpuid(0x8000_0000, 0)[0] < 0x8000_0006 {
            return Vec::new();
        }
        let [_, _, data, instruction] = cpuid(0x8000_0005, 0);
        let [_, _, second, third] = cpuid(0x8000_0006, 0);
        let caches = [
            Self::amd_first(Kind::Data, data),
            Self::amd_first(Kind::Instruction, instruction),
            Self::amd_outer(2, second >> 16, second),
            // Its size is in units of 512 KiB.
            Self::amd_outer(3, (third >> 18) * 512, third),
        ];
        caches.into_iter().flatten().collect()
    }

    fn amd_first(kind: Kind, value: u32) -> Option<Self> {
        let (kib, associativity, line) = (value >> 24, value >> 16 & 0xFF, value & 0xFF);
        Self::sized(1, kind, kib.into(), associativity.into(), line.into())
    }

    fn amd_outer(level: u8, kib: u32, value: u32) -> Option<Self> {
        let &associativity = AMD_ASSOCIATIVITY.get((value >> 12 & 0xF) as usize)?;
        Self::sized(level, Kind::Unified, kib.into(), associativity, (value & 0xFF).into())
    }

    /// Bit 31 of a register says that it has none; the low byte of EAX is not a descriptor.
    fn from_descriptors(cpuid: &impl Fn(u32, u32) -> [u32; 4]) -> Vec<Self> {
        if cpuid(0, 0)[0] < 2 {
            return Vec::new();
        }
        let registers = cpuid(2, 0).into_iter().filter(|value| value >> 31 == 0);
        let bytes = registers.flat_map(u32::to_le_bytes).skip(1);
        bytes.filter_map(Self::described).collect()
    }

    fn described(descriptor: u8) -> Option<Self> {
        let row = DESCRIPTORS.iter().find(|row| row.0 == descriptor)?;
        let &(_, level, kind, kib, associativity, line) = row;
        Self::sized(level, kind, kib, associativity, line)
    }

    fn sized(level: u8, kind: Kind, kib: u64, associativity: u64, line: u64) -> Option<Self> {
        let sets = (kib * 1024).checked_div(associativity * line)?;
        let cache = Self { level, kind, line, associativity, sets };
        (sets != 0 && line.is_power_of_two()).then_some(cache)
    }

    fn decoded([eax, ebx, ecx, _]: [u32; 4]) -> Option<Self> {
        let kind = match eax & 0x1F {
            1 => Kind::Data,
            2 => Kind::Instruction,
            3 => Kind::Unified,
            _ => return None,
        };
        // Each field has its number less one.
        let field = |low: u32, bits: u32| u64::from(ebx >> low & ((1 << bits) - 1)) + 1;
        let cache = Self {
            level: (eax >> 5 & 7) as u8,
            kind,
            line: field(0, 12) * field(12, 10),
            associativity: field(22, 10),
            sets: u64::from(ecx) + 1,
        };
        Some(cache).filter(|cache| cache.line.is_power_of_two() && cache.bytes() <= LARGEST)
    }

    pub const fn bytes(&self) -> u64 {
        self.line.saturating_mul(self.associativity).saturating_mul(self.sets)
    }

    /// `L1D`, `L1I`, `L2` and so on.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Data => "D",
            Kind::Instruction => "I",
            Kind::Unified => "",
        };
        format!("L{}{kind}", self.level)
    }
}

/// What a cache did.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CacheTotal {
    /// Its level and contents, such as `L1D` or `L2`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Lines per set.
    pub associativity: u64,
    /// Bytes per line.
    pub line: u64,
    /// Look-ups, one for each line that an access touches.
    pub accesses: u64,
    /// Look-ups that did not find their line.
    pub misses: u64,
}

/// A cache that replaces the least recently used line and allocates on writes.
#[derive(Clone, Debug)]
struct Cache {
    geometry: Geometry,
    /// The lines of each set in use, the most recently used last.
    sets: FxHashMap<u64, Vec<u64>>,
    total: CacheTotal,
}

impl Cache {
    fn new(geometry: Geometry) -> Self {
        let total = CacheTotal {
            name: geometry.name(),
            bytes: geometry.bytes(),
            associativity: geometry.associativity,
            line: geometry.line,
            accesses: 0,
            misses: 0,
        };
        Self { geometry, sets: FxHashMap::default(), total }
    }

    fn serves(&self, kind: Kind) -> bool {
        [kind, Kind::Unified].contains(&self.geometry.kind)
    }

    /// Looks a line up, which is then the most recently used; returns whether it was there.
    fn hits(&mut self, address: u64) -> bool {
        self.total.accesses += 1;
        let line = address / self.geometry.line;
        let set = self.sets.entry(line % self.geometry.sets).or_default();
        // What was used last is the likeliest to be used again.
        let position = set.iter().rposition(|&held| held == line);
        if let Some(position) = position {
            set.remove(position);
        } else {
            self.total.misses += 1;
            if set.len() as u64 >= self.geometry.associativity {
                set.remove(0);
            }
        }
        set.push(line);
        position.is_some()
    }
}

/// Misses by the caches' names.
pub type Misses = BTreeMap<String, u64>;

/// All caches of a processor.
#[derive(Clone, Debug)]
pub struct Caches(Vec<Cache>);

/// The longest operand whose lines are looked up: only instructions that save the processor's state
/// touch more.
const OPERAND: u64 = 4096;

impl Caches {
    /// Empty caches of these geometries.
    pub fn new(geometries: &[Geometry]) -> Self {
        Self(geometries.iter().copied().map(Cache::new).collect())
    }

    /// What each has done.
    pub fn totals(&self) -> Vec<CacheTotal> {
        self.0.iter().map(|cache| cache.total.clone()).collect()
    }

    /// Each cache's name, with no misses.
    pub fn no_misses(&self) -> Misses {
        self.0.iter().map(|cache| (cache.total.name.clone(), 0)).collect()
    }

    /// Looks up an operand or an instruction line by line, in the nearest cache and after a miss in
    /// the next one; adds to the misses.
    pub fn access(&mut self, kind: Kind, address: u64, bytes: u64, misses: &mut Misses) {
        let bytes = bytes.clamp(1, OPERAND);
        let Some(line) = self.0.first().map(|cache| cache.geometry.line) else {
            return;
        };
        let mut start = address & !(line - 1);
        loop {
            self.look_up(kind, start, misses);
            let next = start.wrapping_add(line);
            // The test compares distances, because an operand may wrap around at the last address.
            if next.wrapping_sub(address) >= bytes {
                break;
            }
            start = next;
        }
    }

    fn look_up(&mut self, kind: Kind, address: u64, misses: &mut Misses) {
        for cache in self.0.iter_mut().filter(|cache| cache.serves(kind)) {
            if cache.hits(address) {
                break;
            }
            if let Some(count) = misses.get_mut(&cache.total.name) {
                *count += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    /// What a processor's CPUID answers, by leaf and sub-leaf.
    type Cpuid = fn(u32, u32) -> [u32; 4];

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

    /// AMD's own leaf has the form of leaf 4.
    fn zen(leaf: u32, subleaf: u32) -> [u32; 4] {
        match leaf {
            0 => [0xD, 0, 0, 0],
            0x8000_0000 => [0x8000_001E, 0, 0, 0],
            0x8000_001D => skylake(4, subleaf),
            _ => [0; 4],
        }
    }

    fn k8(leaf: u32, _: u32) -> [u32; 4] {
        match leaf {
            0 => [1, 0, 0, 0],
            0x8000_0000 => [0x8000_0018, 0, 0, 0],
            0x8000_0005 => [0xFF08_FF08, 0xFF20_FF20, 0x4002_0140, 0x4002_0140],
            0x8000_0006 => [0, 0x4200_4200, 0x0200_8140, 0],
            _ => [0; 4],
        }
    }

    fn phenom(leaf: u32, subleaf: u32) -> [u32; 4] {
        match leaf {
            0x8000_0006 => [0, 0, 0x0200_8140, 0x0010_A140],
            other => k8(other, subleaf),
        }
    }

    /// Intel's processors answer for any leaf beyond the last as for that (SDM vol. 2, "CPUID").
    fn leaf_2(leaf: u32, descriptors: [u32; 4]) -> [u32; 4] {
        match leaf {
            0 => [2, 0, 0, 0],
            1 => [0; 4],
            _ => descriptors,
        }
    }

    /// A cache's name, its KiB, its associativity and the bytes of a line.
    type Expected = (&'static str, u64, u64, u64);

    /// Each processor's leaves as dumps of it have them; caches as its data sheet.
    #[test]
    fn geometry_is_read_from_the_leaves_that_a_processor_has() {
        let core: &[Expected] =
            &[("L1D", 32, 8, 64), ("L1I", 32, 8, 64), ("L2", 256, 4, 64), ("L3", 8192, 16, 64)];
        let amd: &[Expected] =
            &[("L1D", 64, 2, 64), ("L1I", 64, 2, 64), ("L2", 512, 16, 64), ("L3", 2048, 32, 64)];
        let cases: [(Cpuid, &[Expected]); 8] = [
            (skylake, core),
            (zen, core),
            (k8, &amd[..3]),
            (phenom, amd),
            // Pentium III
            (
                |leaf, _| leaf_2(leaf, [0x0302_0101, 0, 0, 0x0C04_0882]),
                &[("L2", 256, 8, 32), ("L1I", 16, 4, 32), ("L1D", 16, 4, 32)],
            ),
            // Pentium 4
            (
                |leaf, _| leaf_2(leaf, [0x665B_5001, 0, 0, 0x007A_7040]),
                &[("L1D", 8, 4, 64), ("L2", 256, 8, 64)],
            ),
            // Of a register with bit 31, nothing is read.
            (|leaf, _| leaf_2(leaf, [1, 1 << 31 | 0x7A, 0, 0]), &[]),
            (|_, _| [0; 4], &[]),
        ];
        for (number, (cpuid, expected)) in cases.into_iter().enumerate() {
            let mut caches = Caches::new(&Geometry::from_cpuid(cpuid)).totals();
            caches.sort_by_key(|cache| cache.name.clone());
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            let expected =
                expected.into_iter().map(|(name, kib, associativity, line)| CacheTotal {
                    name: name.to_owned(),
                    bytes: kib * KIB,
                    associativity,
                    line,
                    accesses: 0,
                    misses: 0,
                });
            assert_eq!(caches, expected.collect::<Vec<_>>(), "case {number}");
        }
    }

    #[test]
    fn a_set_keeps_what_was_used_last() {
        let small = Geometry { level: 1, kind: Kind::Data, line: 64, associativity: 2, sets: 2 };
        let mut caches = Caches::new(&[small]);
        // Lines 0, 2 and 4 share a set of two lines; the last access spans two lines, one of which is
        // there.
        for (address, missed) in [(0, 1), (128, 1), (0, 0), (256, 1), (0, 0), (128, 1), (188, 1)] {
            let mut misses = caches.no_misses();
            caches.access(Kind::Data, address, 8, &mut misses);
            assert_eq!(misses["L1D"], missed, "{address}");
        }
        assert_eq!(caches.totals()[0].accesses, 8);
    }

    #[test]
    fn a_miss_asks_the_next_level_and_no_other_kind() {
        let mut caches = Caches::new(&Geometry::from_cpuid(skylake));
        let mut misses = caches.no_misses();
        for _ in 0..2 {
            caches.access(Kind::Data, 0x1000, 8, &mut misses);
        }
        let counts: Vec<u64> = misses.values().copied().collect();
        assert_eq!(counts, [1, 0, 1, 1]);
        // The second level has the line.
        caches.access(Kind::Instruction, 0x1000, 4, &mut misses);
        assert!(misses.values().all(|&count| count == 1), "{misses:?}");
    }
}
