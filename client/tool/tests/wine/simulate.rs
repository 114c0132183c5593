//! Does `simulate` count the same on Windows as elsewhere?

use crate::cli::binaries::STEPPED;
use crate::wine::prefix::{Wine, compile};

/// The columns that are exact and do not depend on the calling convention.
const COLUMNS: [&str; 6] = ["executions", "iterations", "taken", "reads", "writes", "bytes"];

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn a_range_is_counted_as_elsewhere() {
    use crate::cli::simulate::{Stepped, column};
    let Some(wine) = Wine::new() else {
        return;
    };
    compile(&wine.folder().join("stepped.exe"), &["-O1", STEPPED]);
    let here = Stepped::new();
    for (range, length, status) in
        [("turns", 7, 7), ("touch", 14, 0), ("calls", 14, 0), ("fill", 21, 0)]
    {
        let ranged = format!("{range}+{length}");
        let arguments = ["simulate", "--range", &ranged, "--", "stepped.exe", range];
        let (ended, there) = wine.halprof(&arguments, &[]);
        let here = here.json(range, range);
        assert_eq!(ended, status, "{there}");
        for name in COLUMNS {
            assert_eq!(column(&there, name), column(&here, name), "{range}: {name}");
        }
    }
}
