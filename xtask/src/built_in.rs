//! `cargo xtask built-in`: compiles the program that modelled machines run. The tool has it in itself,
//! so the file is in the repository: `cargo install` has no compiler for it.

use crate::setup;
use anyhow::Result;
use std::path::Path;
use xshell::{Shell, cmd};

/// Where the source and the program are.
const FOLDER: &str = "client/tool/src/target/built_in";
const SOURCE: &str = "modelled.c";
const PROGRAM: &str = "modelled.exe";

/// Writes the program into the repository.
pub(crate) fn write(shell: &Shell) -> Result<()> {
    compile(shell, Path::new(PROGRAM))
}

/// Compiles it: no C library, no path and no time of this machine, and a build identity.
fn compile(shell: &Shell, to: &Path) -> Result<()> {
    setup::require(setup::MINGW)?;
    let _folder = shell.push_dir(FOLDER);
    // As the compiler finds it.
    let here = shell.current_dir().canonicalize()?;
    let map = format!("-ffile-prefix-map={}=.", here.display());
    let options = [
        "-g",
        "-gdwarf-4",
        "-O1",
        "-ffreestanding",
        "-nostdlib",
        "-fno-ident",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
    ];
    let linker =
        "-Wl,-e,run,--subsystem,console,--build-id,--no-insert-timestamp,--file-alignment,512";
    cmd!(shell, "x86_64-w64-mingw32-gcc {options...} {map} {linker} -o {to} {SOURCE}").run()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian 12's compiler makes the same bytes each time.
    #[test]
    fn the_program_is_what_its_source_makes() {
        let shell = Shell::new().expect("a shell");
        shell.change_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        if let Err(error) = setup::require(setup::MINGW) {
            assert!(std::env::var_os("HALPROF_REQUIRE_DRIVER").is_none(), "{error}");
            println!("skipped: {error}");
            return;
        }
        let folder = shell.create_temp_dir().expect("a folder");
        let made = folder.path().join(PROGRAM);
        compile(&shell, &made).expect("it compiles");
        let kept = shell.read_binary_file(Path::new(FOLDER).join(PROGRAM)).expect("a file");
        let same = shell.read_binary_file(made).expect("a file") == kept;
        assert!(same, "run `cargo xtask built-in`");
    }
}
