//! Is the driver's binary fit to enter the kernel? Judged only from `halprof.sys` and its PDB.
//!
//! Each policy refuses nothing in the driver, and is seen to refuse copies of it in which the relevant
//! bytes are changed.
//!
//! | module | its policies ask |
//! |---|---|
//! | `linked` | which headers, protections, imports, exports and texts does the linker give the image? |
//! | `instructions` | which instructions are privileged, and is every indirect branch guarded? |
//! | `registers` | which register numbers can reach RDMSR and WRMSR? |
//! | `unwind` | which functions have an exception handler, and which is it? |
//! | `raised` | what can code reach that Windows calls at a raised IRQL, and how deep gets its stack? |

mod code;
mod driver;
mod entries;
mod instructions;
mod linked;
mod raised;
mod registers;
mod unwind;

use driver::Driver;
use halprof_tests::driver as built;
use std::path::Path;

/// What a policy refuses, in words.
type Refusals = Vec<String>;

/// Bytes to be written at an offset of the file.
type Change = (usize, Vec<u8>);

/// What must hold of the binary.
struct Policy {
    holds: &'static str,
    /// What of a driver it refuses.
    refuses: fn(&Driver) -> Refusals,
    /// Changes that it must refuse, each with words of what it then says.
    notices: fn(&Driver) -> Vec<(String, Change)>,
}

#[test]
fn every_policy_holds_and_notices_what_breaks_it() {
    let Some(folder) = built::folder() else { return };
    let driver = Driver::read(&folder.join("halprof.sys"), &folder.join("halprof.pdb"));
    println!("{} bytes, {} imports", driver.bytes.len(), driver.imports.len());
    let mut wrong = Vec::new();
    let modules = [
        linked::POLICIES,
        instructions::POLICIES,
        registers::POLICIES,
        unwind::POLICIES,
        raised::POLICIES,
    ];
    for Policy { holds, refuses, notices } in modules.into_iter().flatten() {
        wrong.extend(refuses(&driver).iter().map(|refusal| format!("{holds}: {refusal}")));
        for (words, change) in notices(&driver) {
            let refusals = refuses(&driver.changed(&change));
            if !refusals.iter().any(|refusal| refusal.contains(&words)) {
                wrong.push(format!("{holds}: {change:x?}: nothing says `{words}`: {refusals:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_path_of_the_build_machine_is_in_the_symbols() {
    let Some(folder) = built::folder() else { return };
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let here = here.and_then(Path::to_str).expect("the repository");
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME"));
    let home = home.expect("a home");
    let symbols = std::fs::read(folder.join("halprof.pdb")).expect("the PDB");
    let has = |text: &str| symbols.windows(text.len()).any(|window| window == text.as_bytes());
    for path in [here, &home, "/registry/src/", "/rustc-"] {
        assert!(!has(path), "{path}");
    }
    assert!(has("halprof"), "a name that is there is found");
}
