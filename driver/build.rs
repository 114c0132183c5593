//! Lets wdk-build find the WDK and set the linker's arguments of a KMDF driver.

/// What the linker does beyond that, Microsoft's and LLVM's alike.
const LINKER_ARGUMENTS: [&str; 4] = [
    // Return addresses are checked where the processor can.
    "/CETCOMPAT",
    // Windows verifies the checksum.
    "/RELEASE",
    // The same sources give the same bytes.
    "/BREPRO",
    "/PDBALTPATH:halprof.pdb",
];

fn main() -> Result<(), wdk_build::ConfigError> {
    for argument in LINKER_ARGUMENTS {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    wdk_build::configure_wdk_binary_build()
}
