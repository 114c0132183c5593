//! Does an independent dispatcher of exceptions, Wine's, find the driver's handler, and resume as the
//! driver needs it?
//!
//! nt-model has its own. Here the functions of the shipped file that may be refused a register run in
//! a process, where the processor refuses all of them. The status that Wine makes of that is its own:
//! the handler takes each that Windows may have.

use crate::wine::{Wine, printed};
use halprof_tests::driver;
use std::collections::BTreeSet;

/// The first register of each call.
const FIRST: u32 = 0x186;

fn run(arguments: &[&str]) -> Option<(String, Option<i32>)> {
    let file = driver::file()?;
    let wine = Wine::new("exceptions.c", &["-O1"])?;
    std::fs::write(wine.folder().join("halprof.sys"), file).expect("a copy");
    let output = wine.run(&[&["halprof.sys"], arguments].concat());
    Some((printed(&output), output.status.code()))
}

#[test]
fn what_is_refused_goes_on_behind_the_instruction() {
    let Some((text, status)) = run(&[]) else { return };
    assert_eq!(status, Some(0), "{text}");
    let mut instructions = BTreeSet::new();
    for line in text.lines() {
        let (instruction, result) = line.split_once(' ').expect("an instruction and its result");
        instructions.insert(instruction);
        if result == "is allowed" {
            // CR4.PCE is the system's.
            assert_eq!(instruction, "rdpmc");
            println!("skipped: a process may execute RDPMC here");
            continue;
        }
        let (number, end) = result.split_once(": ").expect("a number of registers");
        // Also of several in a row the first is refused, and ends the row.
        let right = format!("refused, ecx {:#x}, 1 exception, kept", FIRST + 1);
        assert_eq!(end, right, "{instruction} of {number}");
    }
    assert!(instructions.is_superset(&BTreeSet::from(["rdmsr", "wrmsr"])), "{text}");
}

/// Without the file's unwind information nobody finds the handler.
#[test]
fn without_unwind_information_nobody_handles_it() {
    const UNHANDLED: i32 = 9;
    let Some((text, status)) = run(&["alone"]) else { return };
    assert_eq!((text.as_str(), status), ("", Some(UNHANDLED)));
}
