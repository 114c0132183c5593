//! Names of functions as their authors wrote them.

use addr2line::demangle_auto;
use msvc_demangler::DemangleFlags;
use std::borrow::Cow;

/// Demanglers recurse once for each part of a name; longer names are left as they are.
const LONGEST: usize = 1024;

/// How names begin that Itanium's rules and Rust's have mangled; 32-bit Windows puts a `_` before.
/// The demanglers would also take a plain name for a mangled type: `f` for `float`.
const MANGLED: [&str; 4] = ["_Z", "__Z", "_R", "__R"];

/// What LLVM puts behind the name of a static function that link-time optimization has made global.
const PROMOTED: &str = ".llvm.";

/// Demangles a name by the rules of Microsoft, Rust or Itanium; a name that was not mangled stays.
pub(super) fn demangle(name: &str) -> String {
    if name.len() > LONGEST {
        return name.to_owned();
    }
    let name = match name.rsplit_once(PROMOTED) {
        Some((own, number)) if is_number(number) => own,
        _ => name,
    };
    if name.starts_with('?') {
        let flags = DemangleFlags::NAME_ONLY;
        return msvc_demangler::demangle(name, flags).unwrap_or_else(|_| name.to_owned());
    }
    if !MANGLED.iter().any(|start| name.starts_with(start)) {
        return name.to_owned();
    }
    demangle_auto(Cow::Borrowed(name), None).into_owned()
}

/// The name of a C function without what its calling convention adds (Microsoft C++, "Decorated
/// names", "Format of a C decorated name"): for 32 bits `_cdecl`, `_stdcall@8`, `@fastcall@8`, for
/// any width `vectorcall@@16`.
pub(super) fn without_decoration(name: &str, is_32_bit: bool) -> &str {
    let (own, bytes) = name.rsplit_once('@').unwrap_or((name, ""));
    let is_decorated = is_number(bytes) && !name.starts_with('?');
    if is_decorated && let Some(own) = own.strip_suffix('@') {
        return own;
    }
    if !is_32_bit || name.starts_with('?') {
        return name;
    }
    match (is_decorated, own.strip_prefix(['_', '@'])) {
        (true, Some(own)) => own,
        (false, _) => name.strip_prefix('_').unwrap_or(name),
        (true, None) => name,
    }
}

/// The name that a PDB's procedure has, with `...` where the type of its parameters ends with none:
/// so CodeView writes variable arguments.
pub(super) fn with_variable_arguments(name: &str) -> String {
    name.replace("(<NoType>)", "(...)").replace(", <NoType>)", ", ...)")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
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
            ("_RNvC6_123foo3bar.llvm.1234567890", "123foo::bar"),
            ("_ZN4core3fmt5write17h0123456789abcdefE.llvm.7", "core::fmt::write"),
            ("?work@Machine@@QEAAHH@Z.llvm.123", "Machine::work"),
            ("helper.llvm.123", "helper"),
            ("helper.llvm.x", "helper.llvm.x"),
            ("helper.llvm.x.llvm.7", "helper.llvm.x"),
            ("helper.llvm.1.llvm.7", "helper.llvm.1"),
            ("main.(*T).Method", "main.(*T).Method"),
            ("?", "?"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn decorations_of_c_functions() {
        for (name, of_32_bits, of_64_bits) in [
            ("_main", "main", "_main"),
            ("__DllMainCRTStartup@12", "_DllMainCRTStartup", "__DllMainCRTStartup@12"),
            ("@__security_check_cookie@4", "__security_check_cookie", "@__security_check_cookie@4"),
            ("fast@@16", "fast", "fast"),
            ("main", "main", "main"),
            ("a@b", "a@b", "a@b"),
            ("?f@@YAXXZ", "?f@@YAXXZ", "?f@@YAXXZ"),
            ("_", "", "_"),
            ("", "", ""),
        ] {
            assert_eq!(without_decoration(name, true), of_32_bits, "{name}");
            assert_eq!(without_decoration(name, false), of_64_bits, "{name}");
        }
        for (name, expected) in [
            ("printf(char const* const, <NoType>)", "printf(char const* const, ...)"),
            ("any(<NoType>)", "any(...)"),
            ("none()", "none()"),
        ] {
            assert_eq!(with_variable_arguments(name), expected);
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
