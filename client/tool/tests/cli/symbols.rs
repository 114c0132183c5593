//! Do functions, lines and inlined functions match the source from which a program was built?

use crate::cli::binaries::{self, Built};
use crate::cli::support::text;
use halprof_profile::aggregate::key::{Key, Value};
use halprof_profile::file::{
    Block, Identity, Live, Metadata, Method, Module, Recording, Sink, Stamp,
};
use halprof_profile::symbols::{
    Executable, Frame, Kind, Opened, SymbolPath, Symbols, build_of, identity_of,
};
use halprof_profile::views::report::{Query, Report};
use object::read::{ExportTarget, NameOrOrdinal};
use object::{Object, ObjectSection};
use shared_types::{Mode, Sample};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

/// Where the modules of these tests are loaded, which is not where their linkers put them.
const LOADED: u64 = 0x7FFE_1234_0000;

fn module(path: &Path) -> Module {
    Module {
        name: path.file_name().expect("a name").to_string_lossy().into_owned(),
        path: Some(text(path).to_owned()),
        start: LOADED,
        end: LOADED + 0x10_0000,
        identity: identity_of(path).expect("an executable"),
        ..Module::default()
    }
}

/// The symbols of modules that were loaded here.
fn symbols_in(modules: Vec<Module>) -> Symbols {
    symbols_by(modules, &SymbolPath::default())
}

/// The same with a path to look for them.
fn symbols_by(modules: Vec<Module>, path: &SymbolPath) -> Symbols {
    let recording = Recording { modules, ..Recording::default() };
    Symbols::open(&recording, &path.clone().loaded_here())
}

/// Where its code is, relative to where it is loaded.
fn code_of(file: &Path) -> Range<u64> {
    let bytes = std::fs::read(file).expect("the file");
    let object = object::File::parse(&*bytes).expect("an executable");
    let code = object.section_by_name(".text").expect("code");
    let start = code.address() - object.relative_address_base();
    start..start + code.size()
}

/// Every address of its code, in steps of four bytes, with its symbols.
fn all_frames(symbols: &mut Symbols, file: &Path) -> Vec<(u64, Frame)> {
    let addresses = code_of(file).step_by(4).map(|at| LOADED + at);
    addresses.map(|ip| (ip, symbols.frame(7, ip, Mode::User))).collect()
}

/// Compares what is found in a program with its source.
fn assert_true(built: &Built, kind: Kind) {
    let mut symbols = symbols_in(vec![module(&built.file)]);
    assert_eq!(symbols.opened(), [], "nothing is opened before it is needed");
    let frames = all_frames(&mut symbols, &built.file);
    let opened = symbols.opened();
    assert_eq!(opened.iter().map(|one| one.kind).collect::<Vec<_>>(), [kind], "{opened:?}");
    for (symbol, lines, wanted) in [("spin", 9..=16, 13), ("wait", 21..=27, 22)] {
        let is_it = |frame: &Frame| {
            frame.symbol.as_deref().is_some_and(|name| name.split('(').next() == Some(symbol))
        };
        let own: Vec<_> = frames.iter().filter(|(_, frame)| is_it(frame)).collect();
        let mut found = own.iter().map(|(_, frame)| frame.line.expect("a line"));
        assert!(found.any(|line| line == wanted), "{symbol} in {}", built.path());
        for (ip, frame) in &own {
            assert!(frame.file.as_deref().is_some_and(|file| file.ends_with("work.c")));
            // `twice` is inlined into `spin` where line 12 calls it.
            let calls = frame.inlined.iter();
            let calls = calls.map(|call| (call.function.split('(').next(), call.caller_line));
            assert!(calls.clone().all(|call| call == (Some("twice"), Some(12))), "{frame:?}");
            let lines = if frame.inlined.is_empty() { lines.clone() } else { 4..=7 };
            assert!(lines.contains(&frame.line.expect("a line")), "{symbol}: {frame:?}");
            let start = |(ip, frame): &(u64, Frame)| ip - frame.offset.expect("an offset");
            assert_eq!(start(&(*ip, frame.clone())), start(own[0]), "offsets are of the start");
        }
        assert_eq!(own.iter().any(|(_, frame)| !frame.inlined.is_empty()), symbol == "spin");
    }
}

#[test]
fn pdb_and_dwarf_name_functions_and_lines() {
    if let Some(built) = binaries::pe() {
        assert!(matches!(module(&built.file).identity, Some(Identity::Pdb { .. })));
        assert_true(&built, Kind::Pdb);
    }
    if let Some(built) = binaries::elf() {
        assert_true(&built, Kind::Dwarf);
    }
}

fn opened(module: Module, ip: u64) -> (Frame, Opened) {
    let mut symbols = symbols_in(vec![module]);
    let frame = symbols.frame(7, ip, Mode::User);
    (frame, symbols.opened().remove(0))
}

/// The address of `wait`, which is exported.
fn wait_in(built: &Built) -> u64 {
    let bytes = std::fs::read(&built.file).expect("the file");
    let object = object::File::parse(&*bytes).expect("an executable");
    for export in object.exports().expect("exports").map(|export| export.expect("an export")) {
        if let (NameOrOrdinal::Name(b"wait"), ExportTarget::Address { address }) =
            (export.name(), export.target())
        {
            return LOADED + (address - object.relative_address_base());
        }
    }
    panic!("wait is exported");
}

#[test]
fn without_its_pdb_a_program_has_its_exports() {
    let Some(built) = binaries::pe() else { return };
    let module = module(&built.file);
    let Some(Identity::Pdb { guid, .. }) = module.identity.clone() else { panic!("a PDB") };
    std::fs::remove_file(built.folder.path().join("work.pdb")).expect("removed");
    let (frame, opened) = opened(module, wait_in(&built));
    assert_eq!((opened.kind, frame.symbol.as_deref()), (Kind::Exports, Some("wait")));
    assert_eq!((frame.line, frame.offset), (None, Some(0)));
    let told = opened.notes.join(" ");
    assert!(told.contains(guid.as_str()) && told.contains("symchk"), "{told}");
}

/// The folder with a server's files, for a function that cannot be passed it.
static SERVED: OnceLock<PathBuf> = OnceLock::new();

fn served(url: &str, file: &mut File) -> Result<bool, String> {
    let folder = SERVED.get().ok_or("no server")?;
    let name = url.strip_prefix("http://here/").ok_or("another server")?;
    let Ok(mut found) = File::open(folder.join(name)) else {
        return Ok(false);
    };
    std::io::copy(&mut found, file).map(|_| true).map_err(|error| error.to_string())
}

/// The module's file is gone: both it and its PDB come from a server.
#[test]
fn a_module_and_its_pdb_are_fetched_where_that_is_asked_for() {
    let Some(built) = binaries::pe() else { return };
    let recorded = build_of(&built.file).expect("an executable");
    let module = Module {
        stamp: recorded.stamp,
        path: Some(r"C:\gone\work.exe".to_owned()),
        ..module(&built.file)
    };
    let (Some(Identity::Pdb { guid, age, .. }), Some(stamp)) = (&recorded.identity, recorded.stamp)
    else {
        panic!("a PDB and a PE head");
    };
    let (server, store) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let places = [
        format!("work.pdb/{guid}{age:X}/work.pdb"),
        format!("work.exe/{:08X}{:x}/work.exe", stamp.time, stamp.size),
    ];
    for (place, name) in places.iter().zip(["work.pdb", "work.exe"]) {
        let place = server.path().join(place);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::copy(built.folder.path().join(name), place).expect("copied");
    }
    SERVED.set(server.path().to_owned()).expect("one server");
    let ip = wait_in(&built);
    let path = SymbolPath::parse(&format!("srv*{}*http://here", store.path().display()));
    let found = |path: &SymbolPath| {
        let recording = Recording { modules: vec![module.clone()], ..Recording::default() };
        let mut symbols = Symbols::open(&recording, path);
        let frame = symbols.frame(7, ip, Mode::User);
        (frame.line, symbols.opened().remove(0))
    };
    let (line, without) = found(&path);
    assert_eq!((line, without.kind), (None, Kind::None));
    let told = without.notes.join(" ");
    assert!(told.contains("http://here was not asked"), "{told}");
    assert!(without.download_might_help);
    let (line, with) = found(&path.clone().downloading(served));
    assert_eq!((line, with.kind), (Some(21), Kind::Pdb), "{with:?}");
    let [pdb, image] = places.map(|place| store.path().join(place));
    assert_eq!((with.file, with.image), (Some(pdb), Some(image)));
    // The store now has both.
    let (line, again) = found(&path);
    assert_eq!((line, again.kind), (Some(21), Kind::Pdb), "{again:?}");
    // A server that was asked in vain is not told as one that may be asked.
    let path = SymbolPath::parse("srv*http://here").downloading(|_, _| Ok(false));
    let (_, missing) = found(&path);
    let told = missing.notes.join(" ");
    assert!(told.contains("was not found"), "{told}");
    assert!(!told.contains("was not asked") && !missing.download_might_help, "{told}");
}

#[test]
fn a_pdb_of_another_build_is_not_used() {
    let (Some(built), Some(other)) = (binaries::pe(), binaries::other_pe()) else { return };
    let module = module(&built.file);
    std::fs::copy(other.folder.path().join("work.pdb"), built.folder.path().join("work.pdb"))
        .expect("copied");
    let (frame, opened) = opened(module, wait_in(&built));
    assert_eq!((opened.kind, frame.line), (Kind::Exports, None));
    assert!(opened.notes.join(" ").contains("build mismatch"), "{opened:?}");
}

/// A PDB has two ages: the image names the second one, and tools that add to the PDB raise only the
/// first.
#[test]
fn a_pdb_may_be_older_than_it_says() {
    let Some(built) = binaries::pe() else { return };
    let module = module(&built.file);
    let Some(Identity::Pdb { file, guid, age: 1 }) = &module.identity else { panic!("a new PDB") };
    let bytes = std::fs::read(&built.file).expect("the file");
    let own = object::File::parse(&*bytes).expect("an executable");
    let own = own.pdb_info().expect("readable").expect("its PDB").guid();
    let pdb = built.folder.path().join("work.pdb");
    let mut bytes = std::fs::read(&pdb).expect("the PDB");
    let mut places = bytes.windows(16).enumerate();
    let (at, _) = places.find(|(_, bytes)| *bytes == own).expect("its GUID");
    // The first age stands before the GUID.
    bytes[at - 4] = 3;
    std::fs::write(&pdb, bytes).expect("written");
    let path = SymbolPath::parse(text(built.folder.path()));
    for (age, is_used) in [(1, true), (2, false), (3, true)] {
        let identity = Identity::Pdb { file: file.clone(), guid: guid.clone(), age };
        let module = Module { identity: Some(identity), ..module.clone() };
        let mut symbols = symbols_by(vec![module], &path);
        symbols.frame(7, wait_in(&built), Mode::User);
        let opened = symbols.opened();
        assert_eq!(opened[0].kind == Kind::Pdb, is_used, "{age}: {opened:?}");
    }
}

#[test]
fn a_file_is_known_by_its_stamp_where_nothing_else_is_known() {
    let Some(built) = binaries::pe() else { return };
    let recorded = build_of(&built.file).expect("an executable");
    let stamp = recorded.stamp.expect("a PE head");
    let other = Stamp { size: stamp.size + 1, ..stamp };
    for (identity, stamp, is_used) in
        [(None, stamp, true), (None, other, false), (recorded.identity, other, true)]
    {
        let module = Module { identity, stamp: Some(stamp), ..module(&built.file) };
        let (_, opened) = opened(module, wait_in(&built));
        assert_eq!(opened.image.is_some(), is_used, "{opened:?}");
        let told = opened.notes.join(" ").contains("linked at another time");
        assert_eq!(told, !is_used, "{opened:?}");
    }
}

/// Windows runs programs of both widths, and symbol stores have both.
#[test]
fn a_pe_file_has_a_stamp_whatever_its_width() {
    for built in [binaries::pe(), binaries::pe_of_32_bits()] {
        let Some(built) = built else { return };
        let bytes = std::fs::read(&built.file).expect("the file");
        // By the format: where the head lies, and its fields.
        let number =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let head = number(0x3C) as usize;
        let stamp = Stamp { time: number(head + 8), size: number(head + 24 + 56) };
        assert_eq!(build_of(&built.file).expect("an executable").stamp, Some(stamp));
        let file = Executable::open(&built.file, &SymbolPath::default()).expect("opened");
        let functions = file.functions();
        let spin = functions.iter().find(|one| one.name.contains("spin"));
        let spin = spin.expect("a function").clone();
        assert!(file.instructions(&[spin]).expect("its code").len() > 5);
    }
}

fn objcopy(options: &[&str], files: &[&Path]) {
    assert_eq!(binaries::run("objcopy", options, files), Some(true), "{options:?}");
}

#[test]
fn a_file_without_an_identity_is_not_the_one_that_is_wanted() {
    let Some(built) = binaries::elf() else { return };
    let whole = module(&built.file);
    objcopy(&["--remove-section=.note.gnu.build-id"], &[&built.file]);
    let (_, told) = opened(whole.clone(), LOADED);
    assert_eq!((told.kind, told.image), (Kind::None, None));
    let any = Module { identity: None, ..whole };
    assert_eq!(opened(any, LOADED).1.kind, Kind::Dwarf);
}

/// DWARF names a function that the symbol table does not.
#[test]
fn a_function_that_only_dwarf_names() {
    let Some(built) = binaries::elf() else { return };
    let ip = wait_in(&built);
    objcopy(&["--strip-symbol=wait"], &[&built.file]);
    let (frame, told) = opened(module(&built.file), ip);
    assert_eq!(told.kind, Kind::Dwarf);
    assert_eq!(frame.symbol.as_deref(), Some("wait"), "{frame:?}");
    // DWARF has its bounds too.
    let mut symbols = symbols_in(vec![module(&built.file)]);
    let frame = symbols.frame(7, ip + 4, Mode::User);
    assert_eq!((frame.symbol.as_deref(), frame.offset), (Some("wait"), Some(4)));
    let code = symbols.code(7, ip + 4, Mode::User).expect("its code");
    assert_eq!((code.start, &*code.symbol), (ip, "wait"));
    assert!(code.bytes.len() > 4 && code.bytes.last() == Some(&0xC3), "{:x?}", code.bytes);
}

/// The linker says in the PDB that most of it is elsewhere.
#[test]
fn a_pdb_of_fastlink_is_called_one() {
    let Some(built) = binaries::pe() else { return };
    let pdb = built.folder.path().join("work.pdb");
    let mut bytes = std::fs::read(&pdb).expect("the PDB");
    // The feature VC140, which lld writes; MINI is the one of /DEBUG:FASTLINK.
    let feature = 20_140_508_u32.to_le_bytes();
    let places = bytes.windows(4).enumerate().filter(|(_, bytes)| **bytes == feature);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    let [at] = places.as_slice() else { panic!("{places:?}") };
    bytes[*at..at + 4].copy_from_slice(b"MINI");
    let (_, whole) = opened(module(&built.file), wait_in(&built));
    assert_eq!(whole.notes, [""; 0]);
    std::fs::write(&pdb, bytes).expect("written");
    let (_, partial) = opened(module(&built.file), wait_in(&built));
    assert_eq!(partial.kind, Kind::Pdb);
    assert!(partial.notes.join(" ").contains("/DEBUG:FASTLINK"), "{:?}", partial.notes);
}

/// A DLL of assembly, and where its code is; `None`, with a message, without an assembler.
fn dll() -> Option<(tempfile::TempDir, PathBuf, u64)> {
    let source = "
        .text
        .globl thunk
        thunk: jmp hidden
        .p2align 4, 0xCC
        hidden: addl $1, %eax
        .seh_proc framed
        .globl framed
        framed: pushq %rbx
        .seh_pushreg %rbx
        .seh_endprologue
        popq %rbx
        ret
        .seh_endproc
        .globl leaf
        leaf: ret
        .seh_proc over
        .globl over
        over: jmp 1f
        .seh_endprologue
        .long 0
        1: ret
        .seh_endproc
        .section .drectve, \"yn\"
        .ascii \" /export:thunk /export:leaf /export:over /export:gone=KERNEL32.Sleep\"
        ";
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("a.s"), source).expect("written");
    let options = ["--target=x86_64-pc-windows-msvc", "-c", "-o"];
    let (object, file) = (at("a.obj"), at("a.dll"));
    assert!(binaries::run("clang-19", &options, &[&object, &at("a.s")])?, "clang-19");
    let out = format!("/out:{}", file.display());
    let options = ["/dll", "/noentry", "/nodefaultlib", &out];
    assert_eq!(binaries::run("lld-link-19", &options, &[&object]), Some(true));
    let code = code_of(&file).start;
    Some((folder, file, code))
}

/// An exported jump is only the jump unless unwinding information says that a function begins with it;
/// a forwarded export is no code, and what follows has no entry that would bound it.
#[test]
fn an_export_does_not_name_what_follows_it() {
    let Some((_folder, file, code)) = dll() else { return };
    let mut symbols = symbols_in(vec![module(&file)]);
    let mut name = |offset: u64| {
        symbols.frame(7, LOADED + code + offset, Mode::User).symbol.map(|name| name.to_string())
    };
    let framed = format!("a.dll+{:#x}", code + 0x13);
    for (offset, expected) in [
        (0, Some("thunk")),
        (5, None),
        (0x10, None),
        (0x13, Some(framed.as_str())),
        (0x15, Some(&framed)),
        (0x16, Some("leaf")),
        // Its jump, over four bytes of data.
        (0x17, Some("over")),
        (0x1D, Some("over")),
    ] {
        assert_eq!(name(offset).as_deref(), expected, "{offset:#x}");
    }
}

/// Methods that were compiled ahead of time are in an image that does not name them; most of them have
/// unwinding information.
#[test]
fn a_method_in_an_image_has_the_name_and_the_bounds_that_its_runtime_tells() {
    let Some((_folder, file, code)) = dll() else { return };
    let methods = [("A.B.F", 0x10..0x13), ("A.B.G", 0x13..0x16)];
    let method = |(name, range): &(&str, Range<u64>)| Method {
        process: 7,
        name: (*name).to_owned(),
        start: LOADED + code + range.start,
        end: LOADED + code + range.end,
        ..Method::default()
    };
    let recording = Recording {
        modules: vec![module(&file)],
        methods: methods.iter().map(method).collect(),
        ..Recording::default()
    };
    let mut symbols = Symbols::open(&recording, &SymbolPath::default().loaded_here());
    for (name, range) in methods {
        for offset in range.clone() {
            let ip = LOADED + code + offset;
            let frame = symbols.frame(7, ip, Mode::User);
            let own = frame.offset.expect("an offset");
            let found = (&*frame.module, frame.symbol.as_deref(), own);
            assert_eq!(found, ("a.dll", Some(name), offset - range.start), "{offset:#x}");
            let found = symbols.code(7, ip, Mode::User).expect("its code");
            assert_eq!((&*found.symbol, found.start), (name, ip - own), "{offset:#x}");
            assert_eq!(found.bytes.len() as u64, range.end - range.start, "{offset:#x}");
        }
    }
    // Its process alone has them.
    let frame = symbols.frame(8, LOADED + code + 0x10, Mode::User);
    assert_eq!((&*frame.module, frame.symbol), ("a.dll", None));
}

#[test]
fn a_file_has_symbols_before_it_runs() {
    for built in [binaries::pe(), binaries::elf()].into_iter().flatten() {
        let at = wait_in(&built) - LOADED;
        let bytes = std::fs::read(&built.file).expect("the file");
        let object = object::File::parse(&*bytes).expect("an executable");
        let file = Executable::open(&built.file, &SymbolPath::default()).expect("opened");
        // An ELF file of today has no address of its own, and gets one that is not 0.
        let base = object.relative_address_base();
        let start = file.module().start;
        assert!(start != 0 && (base == 0 || start == base), "{start:#x}");
        let (source, line) = file.line(at).expect("a line");
        assert!(source.ends_with("work.c"), "{source}");
        assert!(matches!(line, 21 | 22), "{line}");
        assert_eq!(file.notes(), [""; 0]);
        // Only code is in functions.
        let inside = code_of(&built.file);
        let functions = file.functions();
        let is_there = |name| functions.iter().any(|function| function.name == name);
        assert!(!is_there("_edata") && !is_there("__bss_start"));
        let wait = functions.iter().find(|function| function.start == at).expect("a function");
        assert_eq!(wait.name.split('(').next(), Some("wait"));
        assert!(inside.contains(&wait.start), "{wait:?}");
    }
    let Some(built) = binaries::elf() else { return };
    objcopy(&["--strip-debug"], &[&built.file]);
    let file = Executable::open(&built.file, &SymbolPath::default()).expect("opened");
    let told = file.notes().join(" ");
    assert!(told.contains("it has no lines"), "{told}");
}

fn assembled(options: &[&str], source: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let [assembly, file] = ["a.s", "a"].map(|name| folder.path().join(name));
    std::fs::write(&assembly, source).expect("written");
    let output = ["-nostdlib", "-static", "-o", text(&file)];
    assert_eq!(binaries::run("cc", &[&output, options].concat(), &[&assembly]), Some(true));
    (folder, file)
}

fn function(name: &str, code: &str) -> String {
    format!(".globl {name}\n.type {name}, @function\n{name}: {code}\n.size {name}, . - {name}\n")
}

/// A table that claims more code than any function has is not believed, and not read.
#[cfg(target_os = "linux")]
#[test]
fn more_code_than_any_is_not_read() {
    let source = function("_start", ".skip 0x1000001, 0x90");
    let (_folder, file) = assembled(&[], &source);
    let all = Executable::open(&file, &SymbolPath::default().loaded_here()).expect("opened");
    let error = all.instructions(&[]).expect_err("too much");
    assert!(error.contains("16777216 bytes of code"), "{error}");
    let start = LOADED + all.functions()[0].start;
    let long = Module { end: u64::MAX, ..module(&file) };
    let mut symbols = symbols_in(vec![long]);
    let error = symbols.code(7, start, Mode::User).expect_err("too long");
    assert_eq!(error, "it is longer than 16 MiB".into());
}

/// Code of 32 bits, and names so long that no demangler may recurse over them.
#[cfg(target_os = "linux")]
#[test]
fn names_up_to_a_length_are_made_readable() {
    let mangled = |parts: usize| format!("_ZN{}E", "1a".repeat(parts));
    // 1,024 and 1,026 bytes.
    let (short, long) = (mangled(510), mangled(511));
    let source = function(&short, "nop") + &function(&long, "ret") + &function("_start", "hlt");
    // Far behind the start of the file's memory.
    let far = ["-m32", "-Wl,--section-start=.text=0xc000000"];
    let (_folder, file) = assembled(&far, &source);
    let all = Executable::open(&file, &SymbolPath::default()).expect("opened");
    let names: Vec<String> = all.functions().into_iter().map(|one| one.name).collect();
    assert_eq!(names, [vec!["a"; 510].join("::"), long, "_start".to_owned()]);
    let start = all.module().start;
    let code = all.functions()[0].start;
    let instructions = all.instructions(&all.functions()).expect("code");
    assert_eq!(instructions, [0, 1, 2].map(|at| start + code + at));
}

#[test]
fn separated_and_missing_dwarf() {
    let Some(built) = binaries::elf() else { return };
    let ip = wait_in(&built);
    let whole = module(&built.file);
    let debug = built.folder.path().join("work.debug");
    objcopy(&["--only-keep-debug"], &[&built.file, &debug]);
    objcopy(&["--strip-debug"], &[&built.file]);
    let (frame, told) = opened(whole.clone(), ip);
    assert_eq!((told.kind, frame.symbol.as_deref(), frame.line), (Kind::Table, Some("wait"), None));
    let link = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&[&link], &[&built.file]);
    let (frame, told) = opened(whole.clone(), ip);
    assert_eq!(told.kind, Kind::Dwarf);
    assert!(matches!(frame.line, Some(21 | 22)), "{frame:?}");
    // The separate file has the table of symbols too, and the module none.
    let bare = built.folder.path().join("bare");
    objcopy(&["--strip-all", "--remove-section=.gnu_debuglink"], &[&built.file, &bare]);
    objcopy(&[&link], &[&bare]);
    let all = Executable::open(&bare, &SymbolPath::default()).expect("a program").functions();
    assert!(all.iter().any(|function| function.name == "wait"), "{all:?}");
    // A file of another build is not used.
    let Some(other) = binaries::other_elf() else { return };
    objcopy(&["--only-keep-debug"], &[&other.file, &debug]);
    let (_, told) = opened(whole, ip);
    assert_eq!(told.kind, Kind::Table);
    assert!(told.notes.join(" ").contains("build mismatch"), "{told:?}");
}

#[test]
fn addresses_are_those_of_their_process_and_of_the_kernel() {
    let at = |process, name: &str, start, end| Module {
        process,
        name: name.to_owned(),
        start,
        end,
        ..Module::default()
    };
    let modules = vec![
        at(Some(1), "a", 0x1000, 0x2000),
        at(Some(2), "b", 0x1000, 0x2000),
        at(Some(2), "long", 0x500, 0x8000),
        at(None, "kernel", 0xFFFF_0000, 0xFFFF_1000),
        at(None, "reversed", 0x9000, 0x8000),
    ];
    let mut symbols = symbols_in(modules);
    for (process, ip, mode, name) in [
        (1, 0x1000, Mode::User, "a"),
        (1, 0x2000, Mode::User, "unknown"),
        (2, 0x1FFF, Mode::User, "b"),
        (2, 0x7FFF, Mode::User, "long"),
        (3, 0x1000, Mode::User, "unknown"),
        (3, 0xFFFF_0000, Mode::Kernel, "kernel"),
        (1, 0x8800, Mode::User, "unknown"),
        (1, 0, Mode::Unknown, "no address"),
    ] {
        assert_eq!(&*symbols.frame(process, ip, mode).module, name, "{process} {ip:x}");
    }
}

/// A live view sums up again and again, and a large PDB takes its time.
#[test]
fn files_stay_open_from_one_live_report_to_the_next() {
    let Some(built) = binaries::elf() else { return };
    let mut live = Live::new(Metadata::default());
    let module = module(&built.file);
    let mut symbols = Symbols::open(&Recording::default(), &SymbolPath::default().loaded_here());
    let frames = all_frames(&mut symbols_in(vec![module.clone()]), &built.file);
    let spin = frames.into_iter().find(|(_, frame)| frame.symbol.as_deref() == Some("spin"));
    let (ip, spin) = spin.expect("a function");
    let query = Query { tables: vec![vec![Key::Symbol]], ..Query::default() };
    live.put(Block::Modules(vec![module])).expect("kept");
    for others in 0..3 {
        let sample = Sample { ip, mode: Mode::User as u8, ..Sample::default() };
        live.put(Block::Samples(vec![sample])).expect("kept");
        let report = Report::live(live.take(), &query, &mut symbols).expect("summed up");
        let named = Value::Symbol { module: spin.module.clone(), symbol: spin.symbol.clone() };
        assert_eq!(report.tables[0].sections[0].rows[0].values, [named]);
        // Modules come and go, and the file itself is gone.
        let other = Module { process: Some(others), ..Module::default() };
        live.put(Block::Modules(vec![other])).expect("kept");
        let _ = std::fs::remove_file(&built.file);
    }
}

/// Opens a file that may contain anything, and looks up its code and what is far from it.
fn provoke(file: &Path, identity: Option<Identity>, code: &Range<u64>) {
    let module = Module {
        name: "work".to_owned(),
        path: Some(text(file).to_owned()),
        start: LOADED,
        end: u64::MAX,
        identity,
        ..Module::default()
    };
    let mut symbols = symbols_in(vec![module]);
    let far = [0, code.end + 0x1000, u64::from(u32::MAX), 1 << 40];
    for offset in code.clone().step_by(16).chain(far) {
        let _ = symbols.frame(7, LOADED + offset, Mode::User);
        let _ = symbols.code(7, LOADED + offset, Mode::User);
    }
}

/// Truncates a file at any byte and changes any byte; none of that may cause a panic.
fn damage(file: &Path, provoke: impl Fn()) {
    let whole = std::fs::read(file).expect("the file");
    let step = (whole.len() / 97).max(1);
    for length in (0..whole.len()).step_by(step) {
        std::fs::write(file, &whole[..length]).expect("written");
        provoke();
    }
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let mut changed = whole.clone();
        for _ in 0..8 {
            changed[random.usize(..whole.len())] = random.u8(..);
        }
        std::fs::write(file, changed).expect("written");
        provoke();
    }
}

/// A program names the file with its split DWARF. Whoever opens a pipe waits for ever.
#[test]
fn split_dwarf_is_not_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let [object, program, split] =
        ["work.o", "work", "work.dwo"].map(|name| folder.path().join(name));
    let options = ["-g", "-gsplit-dwarf", "-O1", "-c", "-o"];
    if binaries::run("cc", &options, &[&object, Path::new(binaries::SOURCE)]).is_none() {
        return;
    }
    assert_eq!(binaries::run("cc", &["-Wl,--build-id", "-o"], &[&program, &object]), Some(true));
    std::fs::remove_file(&split).expect("removed");
    assert_eq!(binaries::run("mkfifo", &[], &[&split]), Some(true));
    let functions = Executable::open(&program, &SymbolPath::default()).expect("opened").functions();
    let spin = functions.iter().find(|one| one.name == "spin").expect("a function");
    let (module, ip) = (module(&program), LOADED + spin.start);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(opened(module, ip)).ok());
    let (frame, opened) =
        receiver.recv_timeout(Duration::from_secs(120)).expect("no pipe is opened");
    assert_eq!((opened.kind, frame.symbol.as_deref()), (Kind::Dwarf, Some("spin")));
    assert!(frame.file.is_some_and(|file| file.ends_with("work.c")));
}

#[test]
fn damaged_files_give_notes_and_no_panic() {
    if let Some(built) = binaries::pe() {
        let (identity, code) = (module(&built.file).identity, code_of(&built.file));
        let pdb = built.folder.path().join("work.pdb");
        damage(&pdb, || provoke(&built.file, identity.clone(), &code));
        damage(&built.file, || provoke(&built.file, None, &code));
    }
    if let Some(built) = binaries::elf() {
        let code = code_of(&built.file);
        damage(&built.file, || provoke(&built.file, None, &code));
    }
}
