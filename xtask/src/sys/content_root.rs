//! A WDK content root: Debian's DDK with the missing parts added, and import libraries made from
//! this repository's own lists.

use super::{Folders, files};
use anyhow::Result;
use std::path::Path;
use xshell::{Shell, cmd};

/// The WDK version in the folder names; wdk-build accepts any.
const VERSION: &str = "10.0.26100.0";
/// General headers and the DDK, from the package mingw-w64-common.
const HEADERS: &str = "/usr/share/mingw-w64/include";
/// Import libraries, each made from a list of the same name.
const IMPORTS: [&str; 4] = ["ntoskrnl", "hal", "wmilib", "WdfLdr"];

/// Creates the layout that wdk-build expects; returns whether anything changed.
pub(super) fn assemble(shell: &Shell, folders: &Folders) -> Result<bool> {
    let headers = headers(shell, folders)?;
    let libraries = libraries(shell, folders)?;
    Ok(headers || libraries)
}

fn headers(shell: &Shell, folders: &Folders) -> Result<bool> {
    let include = folders.content_root().join("Include");
    let km = include.join(VERSION).join("km");
    files::link(Path::new(HEADERS), &include.join(VERSION).join("shared"))?;
    for header in shell.read_dir(Path::new(HEADERS).join("ddk"))? {
        files::link(&header, &km.join(header.file_name().unwrap_or_default()))?;
    }
    shell.create_dir(km.join("ufx/1.1"))?;
    let sources = folders.sources().join("include");
    // Searched before km, so these headers override those of the same name.
    let ours = files::copy_folder(&sources.join("km"), &km.join("crt"), Path::new(""), &[])?;
    let kmdf = include.join("wdf/kmdf/1.33");
    Ok(files::copy_folder(&sources.join("wdf"), &kmdf, Path::new(""), &[])? || ours)
}

fn libraries(shell: &Shell, folders: &Folders) -> Result<bool> {
    let built = folders.driver.join("lib");
    files::copy_folder(&folders.sources().join("lib"), &built, Path::new(""), &[])?;
    let _folder = shell.push_dir(&built);
    for name in IMPORTS {
        cmd!(shell, "llvm-dlltool-19 -m i386:x86-64 -d {name}.def -l {name}.lib").quiet().run()?;
    }
    compile(shell, "WdfDriverEntry", "c")?;
    compile(shell, "BufferOverflowFastFailK", "s")?;

    let lib = folders.content_root().join("Lib");
    let mut changed = false;
    for name in IMPORTS.iter().chain(&["BufferOverflowFastFailK"]) {
        let name = format!("{name}.lib");
        changed |= files::copy(&built.join(&name), &lib.join(VERSION).join("km/x64").join(&name))?;
    }
    let entry = "WdfDriverEntry.lib";
    changed |= files::copy(&built.join(entry), &lib.join("wdf/kmdf/x64/1.33").join(entry))?;
    Ok(changed)
}

/// Makes a library from one source, compiled as wdk-build compiles C. The folders are named by
/// relative paths, because this machine's paths would end up in the PDB.
fn compile(shell: &Shell, name: &str, language: &str) -> Result<()> {
    let kits = format!("../wdk/Include/{VERSION}");
    let include = [
        format!("-I{kits}/km/crt"),
        format!("-I{kits}/km"),
        format!("-I{kits}/shared"),
        "-I../wdk/Include/wdf/kmdf/1.33".to_owned(),
    ];
    let defines = [
        "-D_AMD64_",
        "-DAMD64",
        "-D_KERNEL_MODE",
        "-DKMDF_VERSION_MAJOR=1",
        "-DKMDF_VERSION_MINOR=33",
        "-DKMDF_MINIMUM_VERSION_REQUIRED=31",
    ];
    let options = [
        "/nologo",
        "/c",
        "/O2",
        "/GS-",
        "/guard:cf",
        "/Brepro",
        "/Z7",
        "-gno-codeview-command-line",
        "-fdebug-compilation-dir=halprof",
    ];
    cmd!(shell, "clang-cl-19 -w {options...} {defines...} {include...} {name}.{language}")
        .quiet()
        .run()?;
    Ok(cmd!(shell, "llvm-lib-19 /out:{name}.lib {name}.obj").quiet().run()?)
}
