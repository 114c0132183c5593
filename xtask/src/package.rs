//! `cargo xtask package`: makes the package that Windows installs from halprof.sys and driver.inx.
//!
//! It has the same files, under the same names, as `cargo make` produces on Windows with the WDK,
//! but is made with Debian's osslsigncode and openssl.

mod archive;
mod catalog;
mod certificate;
mod inf;
mod manifests;
mod spdx;

use crate::{exe, metadata, setup, side_by_side, suite, sys};
use anyhow::{Context, Result};
use archive::File;
use catalog::Kind;
use certificate::Certificate;
use der::DateTime;
use shared_types::device::HARDWARE_ID;
use std::path::Path;
use std::time::Duration;
use xshell::{Shell, cmd};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where `cargo xtask sys` puts the driver.
const SYS: &str = "target/driver/halprof.sys";
const PDB: &str = "target/driver/halprof.pdb";
/// Where the package is put.
const PACKAGE: &str = "target/package";
/// Where the test certificate and its key are kept.
const CERTIFICATE: &str = "target/test-certificate";
/// The files that are not signed yet.
const WORK: &str = "target/package-work";
/// The guide to installing and measuring.
const GUIDE: &str = "docs/windows.md";
/// Other files in the zip besides the documents: the licences, the scripts that install and measure
/// in one command, and the debugger extension.
const PAPERS: [&str; 6] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "driver/windbg/halprof.js",
    "driver/windbg/halprof.natvis",
    "tests/windows/run.ps1",
    "tests/windows/windows.cs",
];

/// The documents: their folder, the extension of the files taken from it, and where they go in the
/// zip.
const DOCUMENTS: [(&str, &str, &str); 4] = [
    ("docs", "md", "docs"),
    (TABLES, "csv", "docs"),
    (MANUAL, "1", "docs/man"),
    ("client/tool/schemas", "json", "docs/schemas"),
];
/// Where the manual pages are generated.
const MANUAL: &str = "target/package-work/man";
/// Where the tool alone and the manifests for it are put.
const TOOL: &str = "target/package/tool";
/// The packages of the tool, the C library and the driver.
const PROGRAMS: [&str; 3] = ["halprof", "halprof-c", "halprof-driver"];
/// Where the table of the HAL's sources is.
const TABLES: &str = "target/package-work/tables";

/// The library for C and Python: where each file is, and where it goes in the zip.
const C_LIBRARY: [(&str, &str); 3] = [
    (exe::HEADER, "c/halprof.h"),
    (exe::DLL, "c/halprof_c.dll"),
    (exe::IMPORT_LIBRARY, "c/halprof_c.lib"),
];

/// The files for Windows and its debuggers, and the tool, in the order in which they are listed.
const FILES: [&str; 6] =
    ["halprof.exe", "halprof.inf", "halprof.sys", "halprof.cat", "halprof.pdb", "halprof-test.cer"];

/// Builds the package in `target/package`, and its zip, from the sources.
pub(crate) fn make(shell: &Shell) -> Result<()> {
    setup::install(shell, &setup::all(shell))?;
    side_by_side(shell, &[&sys::build_shipped, &exe::build])?;
    pack(shell)
}

/// Makes the package of the driver, the tool and the library as they were built last.
pub(crate) fn pack(shell: &Shell) -> Result<()> {
    for folder in [PACKAGE, WORK] {
        shell.remove_path(folder)?;
        shell.create_dir(folder)?;
    }
    let package = |name: &str| Path::new(PACKAGE).join(name);
    let certificate = Certificate::in_folder(shell, Path::new(CERTIFICATE))?;
    let date = date(shell)?;

    certificate.export(shell, &package("halprof-test.cer"))?;
    shell.copy_file(exe::EXE, package("halprof.exe"))?;
    shell.copy_file(PDB, package("halprof.pdb"))?;
    let inf = inf::stamped(&shell.read_file("driver.inx")?, date, VERSION, &minimum_kmdf(shell)?)?;
    shell.write_file(package("halprof.inf"), inf)?;
    certificate.sign(shell, Path::new(SYS), &package("halprof.sys"))?;
    // The catalog must contain the hash of the signed image, because signing pads the image.
    let unsigned = Path::new(WORK).join("halprof.cat");
    shell.write_file(&unsigned, unsigned_catalog(shell, date)?)?;
    certificate.sign(shell, &unsigned, &package("halprof.cat"))?;

    suite::example(shell, "manual")?.arg(MANUAL).run().context("write the manual's pages")?;
    let sources = suite::example(shell, "hal_sources")?
        .read()
        .context("write the table of the HAL's sources")?;
    shell.write_file(Path::new(TABLES).join("hal-sources.csv"), sources + "\n")?;
    let mut files = files(shell)?;
    let name = format!("halprof-driver-{VERSION}-x64");
    files.push(spdx::document(shell, &name, date, &PROGRAMS, &files)?);
    let list = archive::list(&files).into_bytes();
    files.push(File { name: "SHA256SUMS".to_owned(), contents: list });
    let zip = format!("{name}.zip");
    let contents = archive::zip(&files).with_context(|| zip.clone())?;
    for list in &files[files.len() - 2..] {
        shell.write_file(package(&list.name), &list.contents)?;
    }
    shell.write_file(package(&zip), &contents)?;
    report(&files, &File { name: zip, contents });
    tool_alone(shell, date)?;
    Ok(())
}

/// The commit's time, so that the same commit gives the same package; `SOURCE_DATE_EPOCH` takes
/// precedence.
fn date(shell: &Shell) -> Result<DateTime> {
    let seconds = match shell.var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds,
        Err(_) => cmd!(shell, "git log -1 --format=%ct")
            .quiet()
            .read()
            .context("no commit to date the package by: set SOURCE_DATE_EPOCH")?,
    };
    let seconds: u64 = seconds
        .trim()
        .parse()
        .with_context(|| format!("`{seconds}` is no time in seconds since 1970"))?;
    DateTime::from_unix_duration(Duration::from_secs(seconds))
        .with_context(|| format!("{seconds} is no date of a package"))
}

/// The minimum KMDF version that the driver requires. This is not its target version: Windows 10
/// 2004 does not come with 1.33.
fn minimum_kmdf(shell: &Shell) -> Result<String> {
    let package = metadata(shell, "halprof-driver")?;
    let model = &package["metadata"]["wdk"]["driver-model"];
    let number = |key: &str| {
        let value = model[key].as_u64();
        value.with_context(|| format!("driver/Cargo.toml has no {key} in package.metadata.wdk"))
    };
    let (major, minor) = (number("kmdf-version-major")?, number("minimum-kmdf-version-minor")?);
    Ok(format!("{major}.{minor}"))
}

fn unsigned_catalog(shell: &Shell, date: DateTime) -> Result<Vec<u8>> {
    let inf = read(shell, "halprof.inf")?;
    let sys = read(shell, "halprof.sys")?;
    let members = [(&inf, Kind::Flat), (&sys, Kind::Image)];
    catalog::unsigned(&members, HARDWARE_ID, date).context("the catalog cannot be made")
}

/// Reads a file of the package.
fn read(shell: &Shell, name: &str) -> Result<File> {
    File::read(shell, Path::new(PACKAGE).join(name), name)
}

/// The tool alone, as package managers install it, and the manifests for them.
fn tool_alone(shell: &Shell, date: DateTime) -> Result<()> {
    let mut files = vec![read(shell, "halprof.exe")?];
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        files.push(File::read(shell, name, name)?);
    }
    let name = format!("halprof-{VERSION}-x64");
    files.push(spdx::document(shell, &name, date, &PROGRAMS[..1], &files)?);
    let zip = File { contents: archive::zip(&files)?, name: format!("{name}.zip") };
    let mut written = manifests::filled(shell, VERSION, &zip.sha256())?;
    written.push(zip);
    for file in written {
        shell.write_file(Path::new(TOOL).join(file.name), file.contents)?;
    }
    Ok(())
}

/// Everything that goes into the zip except the lists of its contents.
fn files(shell: &Shell) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for name in FILES {
        files.push(read(shell, name)?);
    }
    let papers = PAPERS.map(|name| (name, name));
    for (path, name) in papers.into_iter().chain(C_LIBRARY) {
        files.push(File::read(shell, path, name)?);
    }
    for (folder, extension, place) in DOCUMENTS {
        let mut paths = shell.read_dir(folder)?;
        paths.retain(|path| path.extension().is_some_and(|own| own == extension));
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.push(File::read(shell, &path, &format!("{place}/{name}"))?);
        }
    }
    Ok(files)
}

fn report(files: &[File], zip: &File) {
    for file in files.iter().chain([zip]) {
        println!("{:>9}  {}  {}", file.contents.len(), file.sha256(), file.name);
    }
    println!(
        "
{PACKAGE}/{} installs on a machine of your own with test signing on:
  1. bcdedit /set testsigning on, then start it again; Secure Boot has to be off
  2. unpack the zip there
  3. as an administrator: powershell -ExecutionPolicy Bypass -File tests\\windows\\run.ps1
{GUIDE} tells what the script does, and the same by hand.",
        zip.name
    );
}
