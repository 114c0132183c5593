//! Lets wdk-build find the WDK and set the linker's arguments of a KMDF driver.

fn main() -> Result<(), wdk_build::ConfigError> {
    wdk_build::configure_wdk_binary_build()
}
