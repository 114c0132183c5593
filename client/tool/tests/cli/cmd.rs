//! Do the commands in `tests/cmd/*.trycmd` print what stands below them, and end with their status?
//!
//! A case is a line `$ halprof ARGUMENTS` in a block ```` ```trycmd ````, then `? STATUS` unless that
//! is 0, then what standard output and standard error say; `[..]` stands for any text in a line, `...`
//! for any lines. A folder `NAME.in` beside `NAME.trycmd` is the current folder of its commands, and
//! with a folder `NAME.out` they work on a copy. To add a case write its first line, and to accept
//! changes look at `git diff` after running this test with `TRYCMD=overwrite` in the environment.

use crate::cli::support::SETTINGS;

#[test]
fn commands_print_what_their_cases_say() {
    let cases = trycmd::TestCases::new();
    cases.register_bin("halprof", std::path::Path::new(env!("CARGO_BIN_EXE_halprof")));
    // It cannot take them out of the environment; empty they say nothing.
    for name in SETTINGS {
        cases.env(name, "");
    }
    cases.case("tests/cmd/*.trycmd");
}
