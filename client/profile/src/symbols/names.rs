//! Names of functions as their authors wrote them.

use addr2line::demangle_auto;
use msvc_demangler::DemangleFlags;
use std::borrow::Cow;

/// Demanglers recurse once for each part of a name; longer names are left as they are.
const LONGEST: usize = 1024;

/// Demangles a name by the rules of Microsoft, Rust or Itanium.
pub(super) fn readable(name: &str) -> String {
    if name.len() > LONGEST {
        return name.to_owned();
    }
    if name.starts_with('?') {
        let flags = DemangleFlags::NAME_ONLY;
        return msvc_demangler::demangle(name, flags).unwrap_or_else(|_| name.to_owned());
    }
    demangle_auto(Cow::Borrowed(name), None).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compiler_s_names() {
        for (mangled, name) in [
            ("main", "main"),
            ("?work@Machine@@QEAAHH@Z", "Machine::work"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN7Machine4workEi", "Machine::work(int)"),
            ("?", "?"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(readable(mangled), name);
        }
        let long = format!("?{}", "A".repeat(100_000));
        assert_eq!(readable(&long), long);
    }
}
