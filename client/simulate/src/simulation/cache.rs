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
    pub ways: u64,
    /// The number of sets.
    pub sets: u64,
}

/// Descriptors of leaf 2: level, contents, KiB, ways, bytes per line (SDM vol. 2, "CPUID", "Encoding
/// of CPUID Leaf 2 Descriptors"). Only those of processors without leaf 4; a trace cache has no
/// lines.
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
const WAYS: [u64; 15] = [0, 1, 2, 3, 4, 6, 8, 0, 16, 0, 32, 48, 64, 96, 128];

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
        let ways: [&dyn Fn() -> Vec<Self>; 4] =
            [&|| leaf(4), &|| leaf(0x8000_001D), &|| Self::of_old_amd(&cpuid), &|| {
                Self::of_descriptors(&cpuid)
            }];
        let mut found = ways.iter().map(|way| way());
        let mut caches = found.find(|found| !found.is_empty()).unwrap_or_default();
        caches.sort_by_key(|cache| cache.level);
        caches
    }

    fn of_old_amd(cpuid: &impl Fn(u32, u32) -> [u32; 4]) -> Vec<Self> {
        if cpuid(0x8000_0000, 0)[0] < 0x8000_0006 {
            return Vec::new();
        }
        let [[.., data, code], [.., second, third]] =
            [0x8000_0005, 0x8000_0006].map(|leaf| cpuid(leaf, 0));
        let code_of = |value: u32| WAYS.get((value >> 12 & 0xF) as usize).copied();
        let first = |kind, value: u32| {
            let (kib, ways) = (value >> 24, value >> 16 & 0xFF);
            Self::sized(1, kind, kib.into(), ways.into(), (value & 0xFF).into())
        };
        let outer = |level, kib: u32, value: u32| {
            let (ways, line) = (code_of(value)?, value & 0xFF);
            Self::sized(level, Kind::Unified, kib.into(), ways, line.into())
        };
        let caches = [
            first(Kind::Data, data),
            first(Kind::Instruction, code),
            outer(2, second >> 16, second),
            outer(3, (third >> 18) * 512, third),
        ];
        caches.into_iter().flatten().collect()
    }

    /// Bit 31 of a register says that it has none; the low byte of EAX is not a descriptor.
    fn of_descriptors(cpuid: &impl Fn(u32, u32) -> [u32; 4]) -> Vec<Self> {
        if cpuid(0, 0)[0] < 2 {
            return Vec::new();
        }
        let registers = cpuid(2, 0).into_iter().filter(|value| value >> 31 == 0);
        let bytes = registers.flat_map(u32::to_le_bytes).skip(1);
        let known = |byte: u8| DESCRIPTORS.iter().find(|row| row.0 == byte);
        let of_row = |&(_, level, kind, kib, ways, line): &(u8, u8, Kind, u64, u64, u64)| {
            Self::sized(level, kind, kib, ways, line)
        };
        bytes.filter_map(|byte| of_row(known(byte)?)).collect()
    }

    fn sized(level: u8, kind: Kind, kib: u64, ways: u64, line: u64) -> Option<Self> {
        let sets = (kib * 1024).checked_div(ways * line)?;
        let cache = Self { level, kind, line, ways, sets };
        (sets != 0 && line.is_power_of_two()).then_some(cache)
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
        self.line.saturating_mul(self.ways).saturating_mul(self.sets)
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
        Self { all: caches.collect() }
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
        let read: Vec<_> =
            caches.iter().map(|cache| (cache.name(), cache.bytes() >> 10, cache.ways)).collect();
        let expected = [("L1D", 32, 8), ("L1I", 32, 8), ("L2", 256, 4), ("L3", 8192, 16)];
        assert_eq!(read, expected.map(|(name, kib, ways)| (name.to_owned(), kib, ways)));
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

    /// K8, Phenom and Pentium 4 as dumps of them have the leaves; sizes and ways as their data sheets.
    #[test]
    fn geometry_of_older_processors_is_in_older_leaves() {
        const NONE: [u32; 4] = [0; 4];
        let amd = |second: [u32; 4]| {
            move |leaf: u32, _: u32| match leaf {
                0 => [1, 0, 0, 0],
                0x8000_0000 => [0x8000_0018, 0, 0, 0],
                0x8000_0005 => [0xFF08_FF08, 0xFF20_FF20, 0x4002_0140, 0x4002_0140],
                0x8000_0006 => second,
                _ => NONE,
            }
        };
        let intel = |descriptors: [u32; 4]| {
            move |leaf: u32, _: u32| match leaf {
                0 => [2, 0, 0, 0],
                2 => descriptors,
                _ => NONE,
            }
        };
        let told = |caches: Vec<Geometry>| -> Vec<(String, u64, u64, u64)> {
            let one =
                |cache: &Geometry| (cache.name(), cache.bytes() >> 10, cache.ways, cache.line);
            caches.iter().map(one).collect()
        };
        let name = str::to_owned;
        let first = [(name("L1D"), 64, 2, 64), (name("L1I"), 64, 2, 64)];
        let rest = [(name("L2"), 512, 16, 64), (name("L3"), 2048, 32, 64)];
        let k8 = Geometry::of(amd([0, 0x4200_4200, 0x0200_8140, 0]));
        assert_eq!(told(k8), [&first[..], &rest[..1]].concat());
        let phenom = Geometry::of(amd([0, 0, 0x0200_8140, 0x0010_A140]));
        assert_eq!(told(phenom), [&first[..], &rest[..]].concat());
        let pentium_3 = Geometry::of(intel([0x0302_0101, 0, 0, 0x0C04_0882]));
        let expected = [("L1I", 16, 4, 32), ("L1D", 16, 4, 32), ("L2", 256, 8, 32)];
        let mut found = told(pentium_3);
        found.sort();
        let mut expected = expected.map(|(cache, kib, ways, line)| (name(cache), kib, ways, line));
        expected.sort();
        assert_eq!(found, expected);
        let pentium_4 = Geometry::of(intel([0x665B_5001, 0, 0, 0x007A_7040]));
        let expected = [(name("L1D"), 8, 4, 64), (name("L2"), 256, 8, 64)];
        assert_eq!(told(pentium_4), expected);
        // Of a register with bit 31, nothing is read.
        assert!(Geometry::of(intel([1, 1 << 31 | 0x7A, 0, 0])).is_empty());
    }

    #[test]
    fn a_set_keeps_what_was_used_last() {
        let small = Geometry { level: 1, kind: Kind::Data, line: 64, ways: 2, sets: 2 };
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
