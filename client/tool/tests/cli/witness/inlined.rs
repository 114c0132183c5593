//! Every frame of inlined functions beside those of `llvm-symbolizer`: name, file and line, of the
//! programs that three compilers make.

use super::{addresses, plain, symbolized};
use crate::cli::binaries::{SOURCE, run};
use crate::cli::support::{skipped, text};
use halprof_profile::file::{Module, Recording};
use halprof_profile::symbols::{Executable, SymbolPath, Symbols, identity_of};
use serde_json::Value;
use shared_types::Mode;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const ADDRESSES: u64 = 2000;

/// A function at an address, in one form for both.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    name: String,
    file: String,
    line: u32,
}

/// What of the frames differs, and who is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// Two functions that are inlined into neighbouring lines of one caller: LLVM takes the line of the
    /// caller from the range that began last, and halprof from the one that has the address. The source
    /// says that halprof is right (`filter_map.rs`: line 39 calls the filter, line 40 the fold).
    LlvmHasANeighbouringLineOfTheCall,
    /// Not explained: halprof is wrong until shown otherwise.
    Unexplained,
}

fn last_part(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}

/// A name without its parameters, which PDBs have and LLVM leaves out, and with one form of what
/// demanglers write differently.
fn bare(name: &str) -> String {
    let name = name.replace("> >", ">>").replace("> >", ">>");
    let name = name.replace("'lambda'(int)", "{lambda(int)#1}");
    if name.ends_with("operator()") { name } else { plain(&name) }
}

/// Both in one form. The names of functions that exist are compared by the test beside this one, and a
/// symbol table's file is of no line.
fn compared(mut frames: Vec<Frame>) -> Vec<Frame> {
    for frame in frames.iter_mut().filter(|frame| frame.line == 0) {
        frame.file.clear();
    }
    if let Some(own) = frames.last_mut() {
        own.name.clear();
    }
    frames
}

fn own_frames(file: &Path, addresses: &[u64]) -> Vec<Vec<Frame>> {
    let base = Executable::open(file, &SymbolPath::default()).expect("opened").base();
    let module = Module {
        name: file.file_name().expect("a name").to_string_lossy().into_owned(),
        path: Some(text(file).to_owned()),
        start: base,
        end: base + (1 << 30),
        identity: identity_of(file).expect("an executable"),
        ..Module::default()
    };
    let recording = Recording { modules: vec![module], ..Recording::default() };
    let mut symbols = Symbols::open(&recording, &SymbolPath::default().loaded_here());
    let frames = addresses.iter().map(|&address| {
        let frame = symbols.frame(7, address, Mode::User);
        let all = frame.functions().map(|function| Frame {
            name: bare(function.name.map_or("", AsRef::as_ref)),
            file: last_part(function.file.map_or("", AsRef::as_ref)),
            line: function.line.unwrap_or(0),
        });
        compared(all.collect())
    });
    frames.collect()
}

fn llvm_frames(frames: &[Value]) -> Vec<Frame> {
    let all = frames.iter().map(|frame| Frame {
        name: bare(frame["FunctionName"].as_str().unwrap_or("")),
        file: last_part(frame["FileName"].as_str().unwrap_or("")),
        line: frame["Line"].as_u64().unwrap_or(0) as u32,
    });
    compared(all.collect())
}

fn difference(own: &[Frame], llvm: &[Frame]) -> Difference {
    let is_alike = |(own, llvm): (&Frame, &Frame)| {
        (&own.name, &own.file) == (&llvm.name, &llvm.file) && own.line.abs_diff(llvm.line) <= 1
    };
    let has_same_ends = own.first() == llvm.first() && own.last() == llvm.last();
    if own.len() == llvm.len() && has_same_ends && own.iter().zip(llvm).all(is_alike) {
        Difference::LlvmHasANeighbouringLineOfTheCall
    } else {
        Difference::Unexplained
    }
}

/// Programs with inlined functions: of clang (PDB and DWARF), gcc and rustc.
fn made(folder: &Path) -> Vec<PathBuf> {
    let source = |name: &str| Path::new(SOURCE).with_file_name(name);
    let (cpp, rust) = (source("inlined.cpp"), source("inlined.rs"));
    let at = |name: &str| folder.join(name);
    let mut made = Vec::new();
    let mut keep = |name: &str, ran: Option<bool>| match ran {
        Some(true) => made.push(at(name)),
        Some(false) => panic!("{name} could not be made"),
        None => {}
    };
    for (bits, entry, name) in
        [("x86_64", "/entry:start", "clang-cl.exe"), ("i686", "/entry:_start", "clang-cl-32.exe")]
    {
        let object = at(&format!("{name}.obj"));
        let (target, to) =
            (format!("--target={bits}-pc-windows-msvc"), format!("/Fo{}", object.display()));
        let options = [&target, "/c", "/O2", "/GS-", "/GR-", "/Z7", &to, "--"];
        let compiled = run("clang-cl-19", &options, &[&cpp]);
        let linked = compiled.and_then(|_| {
            let out = format!("/out:{}", at(name).display());
            let options =
                ["/debug", "/nodefaultlib", "/force:unresolved", entry, "/subsystem:console", &out];
            run("lld-link-19", &options, &[&object])
        });
        keep(name, linked);
    }
    for (compiler, name) in [("g++", "gcc.elf"), ("clang++-19", "clang.elf")] {
        keep(name, run(compiler, &["-g", "-O2", "-o"], &[&at(name), &cpp]));
    }
    // LLVM does not undo all of the older mangling.
    let mangling = "-Csymbol-mangling-version=v0";
    let rustc = ["--edition=2024", "-g", "-O", "-Cpanic=abort", mangling, "-o"];
    keep("rustc.elf", run("rustc", &rustc, &[&at("rustc.elf"), &rust]));
    let windows = [
        "--cfg=windows_alone",
        "--target=x86_64-pc-windows-msvc",
        "-Clinker=lld-link-19",
        "-Clink-args=/nodefaultlib /force:unresolved /entry:start /subsystem:console",
    ];
    let options = [&windows[..], &rustc].concat();
    keep("rustc.exe", run("rustc", &options, &[&at("rustc.exe"), &rust]));
    made
}

#[test]
fn every_inlined_frame_is_llvm_s() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut table = String::new();
    let mut unexplained = 0;
    let files = made(folder.path());
    if files.len() < 6 {
        return skipped("not all of the six programs could be made");
    }
    for file in files {
        let addresses = addresses(&file, ADDRESSES);
        let Some(llvm) = symbolized(&file, &addresses) else { return };
        let own = own_frames(&file, &addresses);
        let (mut equal, mut frames, mut inlined) = (0, 0, 0);
        let mut different: BTreeMap<Difference, (usize, String)> = BTreeMap::new();
        for ((address, own), llvm) in addresses.iter().zip(&own).zip(&llvm) {
            let llvm = llvm_frames(llvm);
            frames += own.len();
            inlined += usize::from(own.len() > 1);
            if *own == llvm {
                equal += 1;
                continue;
            }
            let example = || format!("{address:#x}: {own:#?}, LLVM {llvm:#?}");
            different.entry(difference(own, &llvm)).or_insert_with(|| (0, example())).0 += 1;
        }
        let name = file.file_name().expect("a name").to_string_lossy();
        let _ = writeln!(
            table,
            "{name}: {} addresses, {inlined} of inlined code, {frames} frames; all frames equal at {equal}",
            addresses.len()
        );
        for (difference, (count, example)) in different {
            let _ = writeln!(table, "    {count} {difference:?}, such as {example}");
            unexplained += if difference == Difference::Unexplained { count } else { 0 };
        }
    }
    println!("{table}");
    // One is known: in rustc's PDB `skip_search` of core's tables of letters, of which LLVM says that line
    // 625 called it, and halprof line 636. Who is right is not known.
    assert!(unexplained <= 1, "{table}");
}
