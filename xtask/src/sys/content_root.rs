//! A WDK content root: Debian's DDK with what it lacks, and import libraries of our own lists.

use super::{Folders, files};
use anyhow::Result;
use std::path::Path;
use xshell::{Shell, cmd};

/// The WDK's number in the folders' names; wdk-build takes any.
const VERSION: &str = "10.0.26100.0";
/// General headers and the DDK, of the package mingw-w64-common.
const HEADERS: &str = "/usr/share/mingw-w64/include";
/// Import libraries, each by a list of the same name.
const IMPORTS: [&str; 4] = ["ntoskrnl", "hal", "wmilib", "WdfLdr"];

/// Lays it out as wdk-build looks for it; answers whether it was another.
pub(super) fn assemble(shell: &Shell, folders: &Folders) -> Result<bool> {
    let headers = headers(shell, folders)?;
    let libraries = libraries(shell, folders, headers)?;
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
    // Searched before km: ours stand in front of those of the same name.
    let ours = copy_all(shell, &sources.join("km"), &km.join("crt"))?;
    let kmdf = include.join("wdf/kmdf/1.33");
    Ok(copy_all(shell, &sources.join("wdf"), &kmdf)? || ours)
}

fn copy_all(shell: &Shell, from: &Path, to: &Path) -> Result<bool> {
    let mut changed = false;
    for file in shell.read_dir(from)? {
        changed |= files::copy(&file, &to.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(changed)
}

fn libraries(shell: &Shell, folders: &Folders, headers_changed: bool) -> Result<bool> {
    let lib = folders.content_root().join("Lib");
    let km = lib.join(VERSION).join("km/x64");
    let kmdf = lib.join("wdf/kmdf/x64/1.33");
    let sources = copy_all(
        shell,
        &folders.sources().join("lib"),
        &folders.lib_sources(),
    )?;
    if !sources && !headers_changed {
        return Ok(false);
    }
    shell.create_dir(&km)?;
    shell.create_dir(&kmdf)?;
    let _folder = shell.push_dir(folders.lib_sources());
    for name in IMPORTS {
        let library = km.join(format!("{name}.lib"));
        cmd!(
            shell,
            "llvm-dlltool-19 -m i386:x86-64 -d {name}.def -l {library}"
        )
        .quiet()
        .run()?;
    }
    entry(shell, folders, &kmdf.join("WdfDriverEntry.lib"))?;
    load_configuration(shell, &km.join("BufferOverflowFastFailK.lib"))?;
    Ok(true)
}

fn entry(shell: &Shell, folders: &Folders, library: &Path) -> Result<()> {
    let include = folders.content_root().join("Include");
    let folders = [
        include.join(VERSION).join("km/crt"),
        include.join(VERSION).join("km"),
        include.join(VERSION).join("shared"),
        include.join("wdf/kmdf/1.33"),
    ];
    let include = folders
        .iter()
        .map(|folder| format!("/I{}", folder.display()));
    let defines = [
        "/D_WIN64",
        "/D_AMD64_",
        "/DAMD64",
        "/D_KERNEL_MODE",
        "/DKMDF_VERSION_MAJOR=1",
        "/DKMDF_VERSION_MINOR=33",
        "/DKMDF_MINIMUM_VERSION_REQUIRED=31",
    ];
    cmd!(
        shell,
        "clang-cl-19 --target=x86_64-pc-windows-msvc /nologo /c /O2 /GS- /guard:cf /Brepro /Z7 -w {defines...} {include...} WdfDriverEntry.c"
    )
    .quiet()
    .run()?;
    Ok(cmd!(shell, "llvm-lib-19 /out:{library} WdfDriverEntry.obj")
        .quiet()
        .run()?)
}

fn load_configuration(shell: &Shell, library: &Path) -> Result<()> {
    cmd!(shell, "clang-19 --target=x86_64-pc-windows-msvc -c BufferOverflowFastFailK.s -o BufferOverflowFastFailK.obj").quiet().run()?;
    Ok(cmd!(
        shell,
        "llvm-lib-19 /out:{library} BufferOverflowFastFailK.obj"
    )
    .quiet()
    .run()?)
}
