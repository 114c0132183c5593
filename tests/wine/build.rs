//! Makes the library a driver that Wine loads: its entry, and the kernel's functions.

fn main() {
    if std::env::var("CARGO_CFG_WINDOWS").is_ok() {
        println!("cargo:rustc-link-arg-cdylib=-Wl,--entry=halprof_entry");
        // Of mingw-w64: what ntoskrnl.exe exports.
        println!("cargo:rustc-link-arg-cdylib=-lntoskrnl");
    }
}
