//! Real programs with symbols, most of them built from `binaries/work.c`.

use crate::cli::support::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The source of `work`.
pub(crate) const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/binaries/work.c");
/// The source of a program that is stepped. Its functions are a few instructions each, counted by hand.
pub(crate) const STEPPED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/simulate/program.c");

/// A program built for a test, in a folder of its own.
pub(crate) struct Built {
    pub(crate) folder: TempDir,
    pub(crate) file: PathBuf,
}

impl Built {
    pub(crate) fn path(&self) -> &str {
        self.file.to_str().expect("UTF-8")
    }
}

/// `work.exe` and `work.pdb`; `None`, with a message, if a tool is missing.
pub(crate) fn pe() -> Option<Built> {
    pe_with(&[])
}

pub(crate) fn other_pe() -> Option<Built> {
    pe_with(&["-DOTHER"])
}

pub(crate) fn pe_of_32_bits() -> Option<Built> {
    pe_with(&["-m32"])
}

/// The same with a frame, and so with unwinding information, for each function.
pub(crate) fn pe_with_frames() -> Option<Built> {
    pe_with(&["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"])
}

fn pe_with(more: &[&str]) -> Option<Built> {
    let folder = tempfile::tempdir().expect("a folder");
    let object = folder.path().join("work.obj");
    let file = folder.path().join("work.exe");
    let target = "--target=x86_64-pc-windows-msvc";
    let options = [&[target, "-g", "-gcodeview", "-O1", "-c"], more].concat();
    let files = [SOURCE.as_ref(), "-o".as_ref(), object.as_path()];
    assert!(run("clang-19", &options, &files)?, "clang-19");
    let out = format!("/out:{}", file.display());
    let options = ["/debug", "/nodefaultlib", "/entry:start", "/subsystem:console", &out];
    assert!(run("lld-link-19", &options, &[&object])?, "lld-link-19");
    Some(Built { folder, file })
}

/// `work` with DWARF and a build-id.
pub(crate) fn elf() -> Option<Built> {
    elf_with(&[])
}

pub(crate) fn other_elf() -> Option<Built> {
    elf_with(&["-DOTHER"])
}

/// A program with two functions `twin`, each in a file of its own.
pub(crate) fn elf_of_twins() -> Option<Built> {
    let source = Path::new(SOURCE).with_file_name("twin.c");
    let folder = tempfile::tempdir().expect("a folder");
    let objects = ["first.o", "second.o"].map(|name| folder.path().join(name));
    for (object, name) in objects.iter().zip(["-DNAME=first", "-DNAME=second -DMAIN"]) {
        let options: Vec<&str> = ["-g", "-O1", "-c"].into_iter().chain(name.split(' ')).collect();
        assert!(run("cc", &options, &[&source, "-o".as_ref(), object])?, "cc");
    }
    let file = folder.path().join("twins");
    let [first, second] = &objects;
    assert!(run("cc", &["-Wl,--build-id"], &[first, second, "-o".as_ref(), &file])?, "cc");
    Some(Built { folder, file })
}

/// `stepped`; `None` where `simulate` steps nothing.
pub(crate) fn stepped() -> Option<Built> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("stepped");
    let options = ["-Wall", "-Werror", "-O1", "-no-pie", "-pthread", "-o"];
    assert!(run("cc", &options, &[&file, STEPPED.as_ref()])?, "cc");
    Some(Built { folder, file })
}

fn elf_with(more: &[&str]) -> Option<Built> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("work");
    let options = [&["-g", "-O1", "-Wl,--build-id"], more].concat();
    assert!(run("cc", &options, &[SOURCE.as_ref(), "-o".as_ref(), &file])?, "cc");
    Some(Built { folder, file })
}

/// A program of this C++, with DWARF.
pub(crate) fn cpp(source: &str) -> Option<Built> {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, file) = (folder.path().join("own.cpp"), folder.path().join("own"));
    std::fs::write(&code, source).expect("written");
    assert!(run("c++", &["-g", "-O1"], &[&code, "-o".as_ref(), &file])?, "c++");
    Some(Built { folder, file })
}

/// Runs a Debian tool; `None`, with a message, if it is missing and not required.
pub(crate) fn run(program: &str, options: &[&str], files: &[&Path]) -> Option<bool> {
    match Command::new(program).args(options).args(files).status() {
        Ok(status) => Some(status.success()),
        Err(error) => {
            skipped(&format!("{program}: {error}"));
            None
        }
    }
}

/// A file that a compiler made which is not installed everywhere; its source is beside it.
pub(crate) fn compilers(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/binaries/compilers");
    Path::new(folder).join(name)
}
