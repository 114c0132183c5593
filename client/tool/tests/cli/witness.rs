//! The names of functions and their lines beside those of `llvm-symbolizer`, with `llvm-readobj
//! --unwind` as the judge of where functions are.
//!
//! `HALPROF_SYMBOL_FILES` names a folder with more files, each with its PDB or debug file beside it.

mod inlined;

use crate::cli::binaries::{self, SOURCE, compilers, run};
use crate::cli::support::{skipped, text};
use halprof_profile::symbols::{Executable, Function, SymbolPath};
use object::{Object, ObjectSection, SectionKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

const ADDRESSES: u64 = 1000;
const SYMBOLIZER: &str = "llvm-symbolizer-19";
const READOBJ: &str = "llvm-readobj-19";

/// Why a name differs, and who is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Both are names of the same start.
    OtherNameOfTheSameStart,
    /// LLVM leaves out the scope, as the public symbol does: both are right.
    WithItsScope,
    /// The PDB's procedure is a destructor, and its public symbol says that it frees memory too: LLVM
    /// is more exact.
    DeletingDestructor,
    /// LLVM's function starts in another unwinding entry: halprof is right, and gives no name.
    LlvmNamesANeighbour,
    /// LLVM names a label within a sized function: halprof is right.
    LlvmNamesALabel,
    /// LLVM has no name, and halprof's function has the address in its bounds: halprof is right.
    LlvmHasNone,
    /// Code behind a function that has no symbol and no unwinding entry, such as the bytes between
    /// functions: LLVM gives it to what lies before. halprof is right.
    LlvmStretchesASymbol,
    /// Not explained: halprof is wrong until shown otherwise.
    Unexplained,
}

#[derive(Default)]
struct Comparison {
    addresses: usize,
    equal: usize,
    lines_equal: usize,
    lines_of_both: usize,
    different: BTreeMap<Reason, (usize, String)>,
}

/// What LLVM says of an address.
struct Llvm {
    name: String,
    start: Option<u64>,
    line: u32,
}

/// About so many addresses, spread over the code of a file.
fn addresses(file: &Path, count: u64) -> Vec<u64> {
    let bytes = std::fs::read(file).expect("the file");
    let object = object::File::parse(&*bytes).expect("an executable");
    let sections = object.sections().filter(|section| section.kind() == SectionKind::Text);
    let code: Vec<Range<u64>> =
        sections.map(|section| section.address()..section.address() + section.size()).collect();
    let length: u64 = code.iter().map(|range| range.end - range.start).sum();
    let step = (length / count).max(1);
    let all = code.into_iter().flat_map(|range| range.step_by(step as usize));
    all.collect()
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            skipped(&format!("{program}: {error}"));
            None
        }
    }
}

/// The frames of each address by `llvm-symbolizer`, the innermost first.
fn symbolized(file: &Path, addresses: &[u64]) -> Option<Vec<Vec<Value>>> {
    let object = format!("--obj={}", file.display());
    let words: Vec<String> = addresses.iter().map(|address| format!("{address:#x}")).collect();
    let mut all = Vec::new();
    for some in words.chunks(500) {
        let mut arguments =
            vec!["--output-style=JSON", "--functions=linkage", "--demangle", &object];
        arguments.extend(some.iter().map(String::as_str));
        let value: Value = serde_json::from_str(&output(SYMBOLIZER, &arguments)?).expect("JSON");
        let several = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        let frames = several.iter().map(|one| one["Symbol"].as_array().cloned());
        all.extend(frames.map(Option::unwrap_or_default));
    }
    Some(all)
}

fn llvm(file: &Path, addresses: &[u64]) -> Option<Vec<Llvm>> {
    let all = symbolized(file, addresses)?.into_iter().map(|frames| {
        let (inner, outer) = (frames.first(), frames.last());
        let start = outer.and_then(|frame| frame["StartAddress"].as_str());
        let start =
            start.and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        Llvm {
            name: outer.map_or("", |frame| frame["FunctionName"].as_str().unwrap_or("")).to_owned(),
            start,
            line: inner.and_then(|frame| frame["Line"].as_u64()).unwrap_or(0) as u32,
        }
    });
    Some(all.collect())
}

/// The unwinding entries by `llvm-readobj`.
fn entries(file: &Path) -> Option<Vec<Range<u64>>> {
    let text = output(READOBJ, &["--unwind", text(file)])?;
    let number = |line: &str, field: &str| {
        let rest = line.trim().strip_prefix(field)?;
        let hexadecimal = rest.split("0x").nth(1)?;
        let end = hexadecimal.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hexadecimal.len());
        u64::from_str_radix(&hexadecimal[..end], 16).ok()
    };
    let mut all = Vec::new();
    let mut start = None;
    for line in text.lines() {
        // PE; then ELF, whose addresses are relative in one head and absolute in the other.
        let begins = number(line, "StartAddress:").or_else(|| number(line, "initial_location:"));
        if let Some(begin) = begins {
            start = Some(begin);
        }
        if let Some((begin, end)) = start.zip(number(line, "EndAddress:")) {
            all.push(begin..end);
            start = None;
        } else if let Some((begin, length)) = start.zip(number(line, "address_range:")) {
            // `(end : 0x...)` follows the length.
            let end = line
                .split("end : 0x")
                .nth(1)
                .and_then(|text| u64::from_str_radix(text.trim_end_matches(')').trim(), 16).ok());
            all.push(begin..end.unwrap_or(begin + length));
            start = None;
        }
    }
    all.sort_by_key(|range| range.start);
    Some(all)
}

/// A name without its parameters, and with one form of what demanglers write differently.
fn plain(name: &str) -> String {
    let name = name
        .replace("`anonymous namespace'", "(anonymous namespace)")
        .replace("'anonymous namespace'", "(anonymous namespace)")
        .replace(" deleting destructor'", " deleting dtor'");
    let name = name.strip_suffix(" const").unwrap_or(&name);
    let mut depth = 0;
    if name.ends_with(')') {
        for (at, letter) in name.char_indices().rev() {
            depth += i32::from(letter == ')') - i32::from(letter == '(');
            if depth == 0 {
                return without_type(&name[..at]).to_owned();
            }
        }
    }
    without_type(name).to_owned()
}

/// Without what a return type or a storage class puts before a name that is not a template's.
fn without_type(name: &str) -> &str {
    let mut depth = 0;
    let mut start = 0;
    for (at, letter) in name.char_indices() {
        match letter {
            '<' | '(' | '`' => depth += 1,
            '>' | ')' | '\'' => depth -= 1,
            ' ' if depth == 0 && !name[..at].ends_with("operator") => start = at + 1,
            _ => {}
        }
    }
    &name[start..]
}

fn reason(
    own: Option<&Function>,
    base: u64,
    address: u64,
    llvm: &Llvm,
    entries: &[Range<u64>],
) -> Reason {
    let entry = |address: u64| entries.iter().position(|range| range.contains(&address));
    let named = own.filter(|function| !function.name.contains("+0x"));
    let bounds = own.map(|function| function.start + base..function.end + base);
    let is_inside = |address| bounds.as_ref().is_some_and(|bounds| bounds.contains(&address));
    if llvm.name.is_empty() {
        return if is_inside(address) { Reason::LlvmHasNone } else { Reason::Unexplained };
    }
    let scoped = format!("::{}", plain(&llvm.name));
    match (named, llvm.start) {
        (Some(function), _) if plain(&function.name).ends_with(&scoped) => Reason::WithItsScope,
        (Some(function), _)
            if function.name.contains("::~") && llvm.name.contains(" deleting dtor'") =>
        {
            Reason::DeletingDestructor
        }
        (Some(function), Some(start)) if function.start + base == start => {
            Reason::OtherNameOfTheSameStart
        }
        (Some(_), Some(start)) if is_inside(start) => Reason::LlvmNamesALabel,
        (_, Some(start)) if entry(address).is_some() && entry(address) != entry(start) => {
            Reason::LlvmNamesANeighbour
        }
        (None, _) if entry(address).is_none() => Reason::LlvmStretchesASymbol,
        _ => Reason::Unexplained,
    }
}

fn compare(file: &Path) -> Option<Comparison> {
    let addresses = addresses(file, ADDRESSES);
    let entries = entries(file)?;
    let path = SymbolPath::parse(text(file.parent().expect("a folder")));
    let executable = Executable::open(file, &path).expect("opened");
    let base = executable.base();
    let mut comparison = Comparison { addresses: addresses.len(), ..Comparison::default() };
    for (address, llvm) in addresses.iter().zip(llvm(file, &addresses)?) {
        let own = executable.function_at(address - base);
        let name = own.as_ref().map_or("", |function| function.name.as_str());
        let line = executable.line(address - base).map_or(0, |(_, line)| line);
        if line != 0 && llvm.line != 0 {
            comparison.lines_of_both += 1;
            comparison.lines_equal += usize::from(line == llvm.line);
        }
        if plain(name) == plain(&llvm.name) {
            comparison.equal += 1;
            continue;
        }
        let reason = reason(own.as_ref(), base, *address, &llvm, &entries);
        let example = || format!("{address:#x}: `{name}`, LLVM `{}`", llvm.name);
        comparison.different.entry(reason).or_insert_with(|| (0, example())).0 += 1;
    }
    Some(comparison)
}

/// Files that installed compilers make.
fn made(folder: &Path) -> Vec<PathBuf> {
    let source = |name: &str| Path::new(SOURCE).with_file_name(name);
    let (cpp, rust) = (source("witness.cpp"), source("witness.rs"));
    let at = |name: &str| folder.join(name);
    let out = |name: &str| format!("/out:{}", at(name).display());
    let mut made = Vec::new();
    let mut keep = |name: &str, ran: Option<bool>| {
        if ran == Some(true) {
            made.push(at(name));
        } else if ran.is_some() {
            skipped(&format!("{name} could not be made"));
        }
    };
    for (bits, debug, name) in [
        ("x86_64", "/Z7", "clang-cl.exe"),
        ("i686", "/Z7", "clang-cl-32.exe"),
        ("x86_64", "/Gy", "clang-cl-publics.exe"),
    ] {
        let object = at(&format!("{name}.obj"));
        let target = format!("--target={bits}-pc-windows-msvc");
        let to = format!("/Fo{}", object.display());
        let options = [&target, "/c", "/O2", "/GS-", "/GR-", debug, &to, "--"];
        let compiled = run("clang-cl-19", &options, &[&cpp]);
        let linked = compiled.and_then(|_| {
            let entry = if bits == "i686" { "/entry:_start" } else { "/entry:start" };
            let out = out(name);
            let options =
                ["/debug", "/nodefaultlib", "/force:unresolved", entry, "/subsystem:console", &out];
            run("lld-link-19", &options, &[&object])
        });
        keep(name, linked);
    }
    let options = ["-g", "-O2", "-nostdlib", "-e", "start", "-o"];
    let mingw = run("x86_64-w64-mingw32-gcc", &options, &[&at("mingw.exe"), &source("work.c")]);
    keep("mingw.exe", mingw);
    let options = ["-g", "-O2", "-o"];
    let crt = "int work(int n) { return n * 3; } int main(int n, char **v) { return work(n); }";
    std::fs::write(at("crt.c"), crt).expect("written");
    let linked = run("x86_64-w64-mingw32-gcc", &options, &[&at("mingw-crt.exe"), &at("crt.c")]);
    keep("mingw-crt.exe", linked);
    for (target, name, linker) in [
        ("x86_64-pc-windows-msvc", "rust-msvc.exe", "-Clinker=lld-link-19"),
        ("x86_64-pc-windows-gnu", "rust-gnu.exe", "-Clinker=x86_64-w64-mingw32-gcc"),
    ] {
        let mut options =
            vec!["--edition=2024", "--target", target, "-g", "-O", "-Cpanic=abort", linker];
        if target.ends_with("msvc") {
            options.extend(["-Clink-arg=/nodefaultlib", "-Clink-arg=/entry:start"]);
            options.push("-Clink-arg=/subsystem:console");
        } else {
            options.extend([
                "-Clink-arg=-nostdlib",
                "-Clink-arg=-Wl,-e,start",
                "-Clink-self-contained=no",
            ]);
        }
        for mangling in ["default", "v0"] {
            let name = name.replace(".exe", &format!("-{mangling}.exe"));
            let scheme = format!("-Csymbol-mangling-version={mangling}");
            let mut options = options.clone();
            if mangling == "v0" {
                options.push(&scheme);
            }
            options.push("-o");
            keep(&name, run("rustc", &options, &[&at(&name), &rust]));
        }
    }
    let options = ["-g", "-O2", "-o"];
    keep("elf", run("cc", &options, &[&at("elf"), &source("work.c")]));
    made
}

/// Files of a folder that the user names, for example those of Microsoft's compiler.
fn given() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("HALPROF_SYMBOL_FILES") else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(folder).expect("the folder that HALPROF_SYMBOL_FILES names");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let is_executable =
        |path: &PathBuf| path.is_file() && Executable::open(path, &SymbolPath::default()).is_ok();
    files.filter(is_executable).collect()
}

#[test]
fn every_difference_from_llvm_has_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = made(folder.path());
    for built in [binaries::pe(), binaries::elf()].into_iter().flatten() {
        let name = built.file.file_name().expect("a name").to_owned();
        let parent = folder.path().join(format!("{}.d", name.to_string_lossy()));
        std::fs::rename(built.folder.path(), &parent).expect("moved");
        files.push(parent.join(name));
    }
    files.extend(["nasm/elf", "gnu-as/mingw.exe", "debug-link/s.exe", "go/g.exe"].map(compilers));
    files.extend(given());
    let mut table = String::new();
    let mut unexplained = 0;
    for file in files {
        let Some(comparison) = compare(&file) else { return };
        let name = file.file_name().expect("a name").to_string_lossy();
        let Comparison { addresses, equal, lines_equal, lines_of_both, different } = comparison;
        let _ = writeln!(
            table,
            "{name}: {addresses} addresses, {equal} names equal; {lines_equal} of {lines_of_both} lines"
        );
        for (reason, (count, example)) in different {
            let _ = writeln!(table, "    {count} {reason:?}, such as {example}");
            unexplained += if reason == Reason::Unexplained { count } else { 0 };
        }
    }
    println!("{table}");
    assert_eq!(unexplained, 0, "{table}");
}
