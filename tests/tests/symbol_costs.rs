//! Do the readers of symbols take what a file is worth, however much it says that it has? Each file is
//! well formed, below a megabyte, and was made to cost gigabytes or minutes.
//!
//! The memory and the number of allocations are counted; the stack is that of a test's thread, 2 MiB,
//! as programs have it on Windows.

use allocation_counter::measure;
use halprof_profile::symbols::{Executable, Frame, Kind, Opened, SymbolPath};
use halprof_tests::symbol_files::dwarf::{self, Dwarf};
use halprof_tests::symbol_files::elf::{self, Compression};
use halprof_tests::symbol_files::pdb::{self, INT, Pdb};
use halprof_tests::symbol_files::{Bytes, SymbolFile, pe, random};
use std::fmt::Write;

/// The longest name that is shown.
const SHOWN: usize = 4096;

/// What was found, and what it took.
struct Cost {
    frames: Vec<Frame>,
    opened: Opened,
    bytes: u64,
    allocations: u64,
}

fn cost(file: &SymbolFile) -> Cost {
    assert!(file.contents.len() <= 1 << 20, "{} bytes", file.contents.len());
    let folder = tempfile::tempdir().expect("a folder");
    let mut found = None;
    let allocated = measure(|| found = Some(file.look_up(folder.path())));
    let (frames, opened) = found.expect("looked up");
    let (bytes, allocations) = (allocated.bytes_max, allocated.count_total);
    Cost { frames, opened, bytes, allocations }
}

/// Looks the file up, which must take at most so many MB and allocations.
fn worth(case: &str, file: &SymbolFile, megabytes: u64, allocations: u64) -> Cost {
    let cost = cost(file);
    assert!(cost.bytes <= megabytes << 20, "{case}: {} bytes", cost.bytes);
    assert!(cost.allocations <= allocations, "{case}: {} allocations", cost.allocations);
    for frame in &cost.frames {
        let names = frame.symbol.iter().chain(frame.inlined.iter().map(|one| &one.function));
        for name in names.chain(&frame.file) {
            assert!(name.len() <= SHOWN, "{case}: a name of {} bytes", name.len());
        }
        assert!(frame.inlined.len() <= 256, "{case}: {} inlined", frame.inlined.len());
    }
    cost
}

fn symbol(frame: &Frame) -> &str {
    frame.symbol.as_deref().unwrap_or_default()
}

fn function(name: &str, offset: u32, index: u32) -> pdb::Function {
    pdb::Function { name: name.into(), offset, length: 16, index, ..pdb::Function::default() }
}

/// A function with these types, of which the last is its own.
fn typed(types: Vec<Vec<u8>>) -> SymbolFile {
    let index = pdb::FIRST + types.len() as u32 - 1;
    Pdb { types, modules: vec![vec![function("f", 0, index)]], ..Pdb::default() }.file()
}

/// A function with one parameter, whose type is the last.
fn with_parameter(mut types: Vec<Vec<u8>>) -> SymbolFile {
    let last = pdb::FIRST + types.len() as u32 - 1;
    types.push(pdb::list(&[last]));
    types.push(pdb::procedure(last + 1));
    typed(types)
}

/// Each of `count` types is made from the one before.
fn chain(count: u32, make: impl Fn(u32) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..count).map(|n| make(if n == 0 { INT } else { pdb::FIRST + n - 1 })).collect()
}

/// Pointers to functions with several parameters of the type before.
fn branching(levels: u32, each: usize, end: impl Fn(u32) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut types = Vec::new();
    let mut last = INT;
    for _ in 0..levels {
        let next = pdb::FIRST + types.len() as u32;
        types.push(pdb::list(&vec![last; each]));
        types.push(pdb::procedure(next));
        types.push(pdb::pointer(next + 1));
        types.push(end(next + 2));
        last = next + 3;
    }
    types
}

#[test]
fn a_pdb_s_types_are_written_as_far_as_they_are_shown() {
    let simple = with_parameter(chain(2, pdb::pointer));
    let found = worth("pointers", &simple, 20, 10_000);
    assert_eq!(symbol(&found.frames[0]), "f(int**)");
    assert_eq!((found.opened.kind, found.opened.limits.len()), (Kind::Pdb, 0));
    let plain = |of| pdb::modifier(of, false);
    for (case, file) in [
        ("doubling", with_parameter(branching(28, 2, plain))),
        ("doubling through arrays", with_parameter(branching(28, 2, |of| pdb::array(of, 8)))),
        ("tenfold through pointers", with_parameter(branching(12, 10, pdb::pointer))),
        ("modifiers", with_parameter(chain(60_000, |of| pdb::modifier(of, false)))),
        ("constants", with_parameter(chain(60_000, |of| pdb::modifier(of, true)))),
        ("pointers", with_parameter(chain(60_000, pdb::pointer))),
        ("arrays", with_parameter(chain(50_000, |of| pdb::array(of, 8)))),
        ("an array of itself", with_parameter(vec![pdb::array(pdb::FIRST, 8)])),
        ("a modifier of itself", with_parameter(vec![pdb::modifier(pdb::FIRST, true)])),
        ("a pointer to itself", with_parameter(vec![pdb::pointer(pdb::FIRST)])),
        ("one name for all", {
            let types = vec![pdb::class(&vec![b'A'; 60_000]), pdb::list(&[pdb::FIRST; 16_000])];
            typed([types, vec![pdb::procedure(pdb::FIRST + 1)]].concat())
        }),
    ] {
        let found = worth(case, &file, 20, 300_000);
        assert!(symbol(&found.frames[0]).starts_with("f("), "{case}: {:?}", found.frames[0]);
        assert!(!found.opened.limits.is_empty(), "{case}: silent");
    }
    // The length of an array's elements may be that of a class that is defined later.
    let types = vec![pdb::declared(b"S"), pdb::array(pdb::FIRST, 12), pdb::class(b"S")];
    let types = [types, vec![pdb::pointer(pdb::FIRST + 1)]].concat();
    let found = worth("a class that is defined", &with_parameter(types), 20, 10_000);
    assert_eq!(symbol(&found.frames[0]), "f(S[3]*)");
    // An enumeration of itself has a name, and no length.
    let types = vec![pdb::enumeration(pdb::FIRST, b"E"), pdb::array(pdb::FIRST, 8)];
    let found = worth("an enumeration of itself", &with_parameter(types), 20, 10_000);
    assert_eq!(symbol(&found.frames[0]), "f(E[])");
}

#[test]
fn a_pdb_has_no_more_streams_than_bytes() {
    let functions = || (0..100).map(|n| function("f", 16 * n, 0)).collect::<Vec<_>>();
    let two = Pdb { modules: vec![functions(), Vec::new()], ..Pdb::default() };
    assert_eq!(worth("two modules", &two.file(), 20, 50_000).opened.kind, Kind::Pdb);
    for (case, pdb) in [
        ("pages", Pdb { repeated: 60_000, ..two.clone() }),
        ("modules", Pdb { modules: vec![functions(); 5_000], shares_stream: true, ..two }),
    ] {
        let mut file = pdb.file();
        // What is found takes memory too, for each address.
        file.addresses.truncate(100);
        let found = worth(case, &file, 20, 50_000);
        assert_eq!(found.opened.kind, Kind::None, "{case}");
        assert!(found.opened.notes.iter().any(|note| note.contains("a.pdb")), "{case}: silent");
    }
}

/// Linkers give each object file code of its own.
#[test]
fn code_that_two_object_files_claim_is_left_out_and_said() {
    let module = |name: &str, offset| vec![function(name, offset, 0)];
    for (offset, is_said) in [(16, false), (8, true)] {
        let pdb = Pdb { modules: vec![module("f", 0), module("g", offset)], ..Pdb::default() };
        let found = worth("two object files", &pdb.file(), 20, 50_000);
        assert_eq!(symbol(&found.frames[1]), if is_said { "f" } else { "g" });
        assert_eq!(!found.opened.limits.is_empty(), is_said, "{:?}", found.opened);
    }
}

#[test]
fn functions_inlined_in_a_pdb_are_followed_to_a_depth() {
    let inlined = |functions: u32, inlined: usize, overlap: u32| {
        let one = |n: u32| pdb::Function { inlined, overlap, ..function("f", 16 * n, 0) };
        let modules = vec![(0..functions).map(one).collect()];
        let identifiers = vec![pdb::function(0, 0, b"inner")];
        Pdb { modules, identifiers, ..Pdb::default() }.file()
    };
    let found = worth("few", &inlined(1, 3, 0), 20, 10_000);
    let names: Vec<&str> = found.frames[0].inlined.iter().map(|one| &*one.function).collect();
    assert_eq!(names, ["inner"; 3]);
    assert_eq!(found.frames[0].line, Some(7));
    assert_eq!(found.opened.limits, [""; 0]);
    for (case, file, is_cut) in
        [("deep", inlined(1, 20_000, 0), true), ("overlapping", inlined(100, 100, 1 << 19), false)]
    {
        let found = worth(case, &file, 40, 300_000);
        assert_eq!(symbol(&found.frames[0]), "f", "{case}");
        assert_eq!(!found.opened.limits.is_empty(), is_cut, "{case}: {:?}", found.opened);
    }
    // A scope within itself.
    let identifiers = vec![pdb::function(pdb::FIRST, 0, b"inner")];
    let modules = vec![vec![pdb::Function { inlined: 1, ..function("f", 0, 0) }]];
    let file = Pdb { modules, identifiers, ..Pdb::default() }.file();
    let found = worth("a scope of itself", &file, 20, 10_000);
    assert!(!found.opened.limits.is_empty(), "silent");
}

/// The same by Itanium's rules: two levels of `void (*)(T, T)`, each of the one before.
fn doubling(levels: usize) -> Vec<u8> {
    const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut name = "_Z1fP1aPFvS0_S0_E".to_owned();
    for level in 1..levels {
        let last = char::from(DIGITS[2 * level]);
        write!(name, "PFvS{last}_S{last}_E").expect("a text");
    }
    name.into_bytes()
}

fn elf(sections: &[elf::Section], addresses: Vec<u64>) -> SymbolFile {
    SymbolFile { name: "a", contents: elf::file(sections), identity: None, addresses }
}

#[test]
fn a_name_that_all_symbols_have_is_read_once() {
    let functions: Vec<(u32, u64, u64)> = (0..4_000).map(|n| (1, 0x1000 + 16 * n, 16)).collect();
    let addresses: Vec<u64> = functions.iter().map(|one| one.1).collect();
    let code = elf::Section::code(0x1000, 16 * 4_000);
    let table = |name: &[u8]| {
        let strings = [&[0], name, &[0]].concat();
        let [table, strings] = elf::Section::symbols(2, strings, &functions);
        elf(&[code.clone(), table, strings], addresses.clone())
    };
    assert_eq!(symbol(&worth("plain", &table(b"f"), 30, 100_000).frames[9]), "f");
    for (case, name, start) in [
        ("doubling", doubling(16), "f(a*, void (*)(a*, a*)"),
        ("long", vec![b'n'; 300_000], "nnnnnnnn"),
        ("long and mangled", [b"_Z".to_vec(), vec![b'n'; 60_000]].concat(), "_Znnnnn"),
    ] {
        let found = worth(case, &table(&name), 100, 4_000_000);
        for frame in &found.frames {
            assert!(symbol(frame).starts_with(start), "{case}: {}", symbol(frame));
        }
    }
    // Each begins one letter later.
    let functions: Vec<_> = (0..4_000).map(|n| (1 + n, 0x1000 + 16 * u64::from(n), 16)).collect();
    let strings = [vec![0], vec![b'n'; 70_000], vec![0]].concat();
    let [symbols, strings] = elf::Section::symbols(2, strings, &functions);
    let found = worth("suffixes", &elf(&[code, symbols, strings], addresses), 100, 100_000);
    // Those that differ stay apart, though the same letters are shown.
    assert_ne!(symbol(&found.frames[3_998]), symbol(&found.frames[3_999]));
}

#[test]
fn exports_cost_what_they_are() {
    let exports = |count: u32, names: &[u8], step: u32, sections: usize| {
        let name = |n: u32| if step == 0 { 0 } else { n * step };
        let functions: Vec<_> = (0..count).map(|n| (name(n), 0x1000 + n)).collect();
        let code = pe::Section {
            name: ".text",
            address: 0x1000,
            contents: vec![0x90; count as usize],
            is_code: true,
            ..pe::Section::default()
        };
        let table = pe::exports(0x100_0000, names, &functions);
        let directory = (pe::EXPORTS, 0x100_0000, table.len() as u32);
        let other = pe::Section {
            name: ".x",
            address: 0x1000,
            size: 0x7F00_0000,
            contents: vec![0x90; 16],
            is_code: true,
        };
        let edata = pe::Section {
            name: ".edata",
            address: 0x100_0000,
            contents: table,
            ..pe::Section::default()
        };
        let mut all = vec![code, edata];
        all.extend(vec![other; sections]);
        let addresses = (0..count).step_by(10).map(|n| 0x1000 + u64::from(n)).collect();
        let contents = pe::file(&all, &[directory], None);
        SymbolFile { name: "a.dll", contents, identity: None, addresses }
    };
    let plain = worth("plain", &exports(10, b"f\0g\0", 2, 0), 20, 50_000);
    assert_eq!((symbol(&plain.frames[0]), plain.opened.kind), ("f", Kind::Exports));
    let long = [vec![b'n'; 300_000], vec![0]].concat();
    for (case, file) in [
        ("one name", exports(30_000, &long, 0, 0)),
        ("suffixes", exports(30_000, &long, 1, 0)),
        ("sections", exports(30_000, b"f\0", 0, 10_000)),
    ] {
        let found = worth(case, &file, 60, 500_000);
        assert_eq!(found.opened.kind, Kind::Exports, "{case}");
    }
}

#[test]
fn code_sections_that_share_their_bytes_are_read_where_they_are_needed() {
    let section = |n: u32| pe::Section {
        name: ".text",
        address: 0x1000 + n * 0x10_0000,
        contents: vec![0x90; 400_000],
        is_code: true,
        ..pe::Section::default()
    };
    let sections: Vec<_> = (0..1_500).map(section).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.exe");
    std::fs::write(&path, pe::file(&sections, &[], None)).expect("written");
    let allocated = measure(|| {
        let executable = Executable::open(&path, &SymbolPath::default()).expect("a program");
        // All of the code, which is refused or read as far as it is worth it.
        assert!(executable.instructions(&[]).is_err());
    });
    assert!(allocated.bytes_max <= 20 << 20, "{} bytes", allocated.bytes_max);
}

#[test]
fn unwinding_information_costs_what_it_is() {
    // Entries of 12 bytes, whose data lead to 32 others.
    let mut chain = Bytes::default();
    for n in 0..33 {
        chain.u8(&[0x21, 0, 0, 0]).u32(&[0x1000, 0x1001, 0x20_0000 + 16 * (n + 1)]);
    }
    let mut entries = Bytes::default();
    (0..40_000).for_each(|n| {
        entries.u32(&[0x1000 + n, 0x1001 + n, 0x20_0000]);
    });
    let entries = entries.take();
    let directory = (pe::EXCEPTIONS, 0x10_0000, entries.len() as u32);
    let section = |name, address, contents, is_code| pe::Section {
        name,
        address,
        contents,
        is_code,
        ..pe::Section::default()
    };
    let mut sections = vec![
        section(".text", 0x1000, vec![0x90; 40_000], true),
        section(".pdata", 0x10_0000, entries, false),
        section(".xdata", 0x20_0000, chain.take(), false),
    ];
    let other = pe::Section { size: 0x7F00_0000, ..section(".x", 0x1000, vec![0; 16], false) };
    sections.extend(vec![other; 9_000]);
    let addresses = (0..1000).map(|n| 0x1000 + 40 * n).collect();
    let contents = pe::file(&sections, &[directory], None);
    let file = SymbolFile { name: "a.exe", contents, identity: None, addresses };
    let found = worth("chains", &file, 40, 200_000);
    assert!(found.frames.iter().all(|frame| frame.symbol.is_some()));

    let functions: Vec<_> = (0..16_000).map(|n| (0x1000 + 16 * n, 16)).collect();
    let code = elf::Section::code(0x1000, 256_000);
    let addresses: Vec<u64> = functions.iter().map(|&(address, _)| address).collect();
    for (case, letters, is_read) in [
        ("common", b"zR".to_vec(), true),
        ("long", [b"zR", vec![b'S'; 200_000].as_slice()].concat(), false),
    ] {
        let frames = dwarf::frames(0x80_0000, &letters, &functions);
        let found = worth(case, &elf(&[code.clone(), frames], addresses.clone()), 40, 200_000);
        let named = found.frames.iter().filter(|frame| frame.symbol.is_some()).count();
        assert_eq!(named, if is_read { 16_000 } else { 0 }, "{case}");
        assert_eq!(found.opened.limits.is_empty(), is_read, "{case}: {:?}", found.opened);
    }
}

fn units(count: u64, inlined: usize) -> Dwarf {
    let function = |n: u64| dwarf::Function {
        name: format!("f{n}").into_bytes(),
        address: 0x1000 + 64 * n,
        length: 64,
        inlined,
    };
    Dwarf { units: (0..count).map(|n| vec![function(n)]).collect(), ..Dwarf::default() }
}

fn with_dwarf(dwarf: &Dwarf) -> SymbolFile {
    let count = dwarf.units.len();
    let code = elf::Section::code(0x1000, 64 * count);
    let addresses = (0..count as u64).map(|n| 0x1000 + 64 * n).collect();
    elf(&[vec![code], dwarf.sections()].concat(), addresses)
}

#[test]
fn dwarf_costs_what_it_is() {
    let found = worth("plain", &with_dwarf(&units(3, 2)), 20, 50_000);
    let last = &found.frames[2];
    assert_eq!((symbol(last), last.line), ("f2", Some(42)));
    assert_eq!(last.file.as_deref(), Some("/src/a.c"));
    let names: Vec<&str> = last.inlined.iter().map(|one| &*one.function).collect();
    assert_eq!(names, ["f2"; 2]);
    assert_eq!(found.opened.limits, [""; 0]);

    let many = units(2_000, 0);
    for (case, dwarf, limits) in [
        ("deep", units(1, 40_000), true),
        ("attributes", Dwarf { attributes: 60_000, ..units(20, 2_000) }, true),
        ("a long folder", Dwarf { folder: vec![b'x'; 300_000], files: 10, ..many.clone() }, true),
        ("one program", Dwarf { shares_lines: true, files: 80_000, ..many.clone() }, true),
        ("ranges", Dwarf { shared_ranges: 30_000, ..many.clone() }, true),
        ("tables", Dwarf { overlapping_tables: true, ..many }, false),
    ] {
        let found = worth(case, &with_dwarf(&dwarf), 800, 1_000_000);
        assert_eq!(!found.opened.limits.is_empty(), limits, "{case}: {:?}", found.opened);
    }
}

#[test]
fn compressed_sections_expand_to_what_the_file_is_worth() {
    let names = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".debug_str",
        ".debug_ranges",
        ".debug_addr",
    ];
    for (case, count, length) in [("four GiB", 10, Some(1 << 32)), ("32 MiB each", 256, None)] {
        let (packed, own) = random::packed(count);
        let length = length.unwrap_or(own);
        let section =
            |&name| elf::Section::compressed(name, Compression::Zstandard, &packed, length);
        let sections: Vec<_> = names.iter().map(section).collect();
        let code = elf::Section::code(0x1000, 64);
        let file = elf(&[vec![code], sections].concat(), vec![0x1000]);
        let found = worth(case, &file, 200, 50_000);
        assert!(found.opened.notes.iter().any(|note| note.contains("expanded")), "{case}: silent");
    }
}

#[test]
fn names_of_64_kib_are_read_in_every_table() {
    let longest = |letter: u8| vec![letter; (1 << 16) - 1];
    for length in [4_095, 4_096, 5_000, (1 << 16) - 1] {
        let (f, g) = (&longest(b'f')[..length], &longest(b'g')[..length]);
        let symbols = pe::symbols(&[(b"first", 0), (f, 16), (g, 32), (b"last", 48)]);
        let code = pe::Section {
            name: ".text",
            address: 0x1000,
            contents: vec![0x90; 64],
            is_code: true,
            ..pe::Section::default()
        };
        let coff = SymbolFile {
            name: "a.exe",
            contents: pe::file(&[code], &[], Some(symbols)),
            identity: None,
            addresses: vec![0x1000, 0x1010, 0x1020, 0x1030],
        };
        let strings = [b"\0first\0last\0", f, &[0], g, &[0]].concat();
        let length = length as u32;
        let functions =
            [(1, 0x1000, 16), (12, 0x1010, 16), (13 + length, 0x1020, 16), (7, 0x1030, 16)];
        let [table, strings] = elf::Section::symbols(2, strings, &functions);
        let code = elf::Section::code(0x1000, 64);
        let elf = elf(&[code, table, strings], vec![0x1000, 0x1010, 0x1020, 0x1030]);
        for file in [coff, elf] {
            let found = worth(file.name, &file, 20, 50_000);
            let starts: Vec<&str> = found.frames.iter().map(|one| &symbol(one)[..4]).collect();
            assert_eq!(starts, ["firs", "ffff", "gggg", "last"], "{} {length}", file.name);
        }
    }
}
