//! Names of functions as their authors wrote them.

use addr2line::demangle_auto;
use msvc_demangler::DemangleFlags;
use std::borrow::Cow;

/// Demanglers recurse once for each part of a name; longer names are left as they are.
const LONGEST: usize = 1024;

/// How names begin that Itanium's rules and Rust's have mangled; 32-bit Windows puts a `_` before.
/// The demanglers would also take a plain name for a mangled type: `f` for `float`.
const MANGLED: [&str; 4] = ["_Z", "__Z", "_R", "__R"];

/// Demangles a name by the rules of Microsoft, Rust or Itanium; a name that was not mangled stays.
pub(super) fn demangle(name: &str) -> String {
    if name.len() > LONGEST {
        return name.to_owned();
    }
    if name.starts_with('?') {
        let flags = DemangleFlags::NAME_ONLY;
        return msvc_demangler::demangle(name, flags).unwrap_or_else(|_| name.to_owned());
    }
    if !MANGLED.iter().any(|start| name.starts_with(start)) {
        return name.to_owned();
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
            ("__ZN7Machine4workEi", "Machine::work(int)"),
            ("_Z1fv", "f()"),
            ("__ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("?", "?"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    /// What C programs call their functions, and Itanium's rules call types and substitutions.
    #[test]
    fn a_name_that_was_not_mangled_stays() {
        let letters = ('a'..='z').map(String::from);
        let types = "Pi Pc PPv PKc Ri Rc Oi Ki Vi Cf Gd Fvv FivE St Sa Sb Ss Si So Sd Da Di Ds Dn Df De \
            A3_i A_c M1ai 1a 3foo u3foo ZN1aE R R1a RC1a RNvC1a1b N1a1bE T_ S_ main _main _start __start \
            _Zebra _Read __Z _ _Z_ @f@4 f@plt";
        for name in letters.chain(types.split_whitespace().map(str::to_owned)) {
            assert_eq!(demangle(&name), name);
        }
    }

    #[test]
    fn a_name_too_long_to_demangle_stays() {
        let long = format!("?{}", "A".repeat(100_000));
        assert_eq!(demangle(&long), long);
    }
}
