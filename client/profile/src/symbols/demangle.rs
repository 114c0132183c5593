//! Names of functions as their authors wrote them.
//!
//! A mangled name refers to its own parts, so a short one may stand for megabytes. Names are demangled
//! where they are looked up, into a writer that refuses what is not shown.

mod itanium;
mod microsoft;

use super::name::{NameWriter, shown};
use crate::budget::{self, MANGLED, NAME_SHOWN};
use cpp_demangle::DemangleOptions;
use std::cell::Cell;
use std::fmt::Write;
use std::sync::Arc;

/// How names begin that Itanium's rules and Rust's have mangled; 32-bit Windows puts a `_` before.
/// The demanglers would also take a plain name for a mangled type: `f` for `float`.
const MANGLED_STARTS: [&str; 4] = ["_Z", "__Z", "_R", "__R"];

/// What LLVM puts behind the name of a static function that link-time optimization has made global.
const PROMOTED: &str = ".llvm.";

/// Demangles the names of one file, as long as they are worth it.
#[derive(Debug)]
pub(super) struct Demangler {
    /// The steps that are left: bytes that are written, or parts of a name.
    left: Cell<u64>,
    /// Names that stayed as they are because no steps were left.
    refused: Cell<u64>,
}

impl Default for Demangler {
    fn default() -> Self {
        Self::of(0)
    }
}

impl Demangler {
    /// For the names of a file of this length.
    pub(super) const fn of(length: u64) -> Self {
        Self { left: Cell::new(budget::steps(length)), refused: Cell::new(0) }
    }

    /// What was left out, if anything was.
    pub(super) fn note(&self) -> Option<String> {
        let refused = self.refused.get();
        (refused > 0).then(|| format!("{refused} of its names stay mangled: they are too complex"))
    }

    /// A name by the rules of Microsoft, Rust or Itanium, as it is shown; a name that was not mangled
    /// stays.
    pub(super) fn shown(&self, name: &str) -> Arc<str> {
        let own = match name.rsplit_once(PROMOTED) {
            Some((own, number)) if is_number(number) => own,
            _ => name,
        };
        let is_microsoft = own.starts_with('?');
        if name.len() > MANGLED
            || !is_microsoft && !MANGLED_STARTS.iter().any(|start| own.starts_with(start))
        {
            return shown(if name.len() > MANGLED { name } else { own });
        }
        let parts = if is_microsoft { microsoft::parts(own) } else { 0 };
        if parts > microsoft::PARTS_MAX || parts > self.left.get() || self.left.get() == 0 {
            self.refused.set(self.refused.get() + 1);
            return shown(own);
        }
        let mut writer = NameWriter::up_to(NAME_SHOWN);
        let mut steps = parts;
        let result = if is_microsoft {
            microsoft::demangle(own, parts).and_then(|name| {
                steps += name.len() as u64;
                writer.write_str(&name).ok()
            })
        } else {
            others(own, &mut writer)
        };
        steps += writer.length() as u64;
        self.left.set(self.left.get().saturating_sub(steps));
        match result {
            None if writer.is_whole() => shown(own),
            Some(()) | None => writer.shown(own.as_bytes()),
        }
    }
}

fn others(name: &str, writer: &mut NameWriter) -> Option<()> {
    if let Ok(demangled) = rustc_demangle::try_demangle(name) {
        write!(writer, "{demangled:#}").ok()
    } else {
        let name = itanium::readable(name)?;
        let symbol = cpp_demangle::Symbol::new(name.as_bytes()).ok()?;
        symbol.structured_demangle(writer, &DemangleOptions::default()).ok()
    }
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
pub(super) fn with_variable_arguments(name: Arc<str>) -> Arc<str> {
    if !name.contains("<NoType>") {
        return name;
    }
    name.replace("(<NoType>)", "(...)").replace(", <NoType>)", ", ...)").into()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demangle(name: &str) -> Arc<str> {
        Demangler::of(0).shown(name)
    }

    #[test]
    fn each_compiler_s_names() {
        for (mangled, name) in [
            ("main", "main"),
            ("?work@Machine@@QEAAHH@Z", "Machine::work(int)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN7Machine4workEi", "Machine::work(int)"),
            ("__ZN7Machine4workEi", "Machine::work(int)"),
            ("_Z1fv", "f()"),
            ("__ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvC6_123foo3bar.llvm.1234567890", "123foo::bar"),
            ("_ZN4core3fmt5write17h0123456789abcdefE.llvm.7", "core::fmt::write"),
            ("?work@Machine@@QEAAHH@Z.llvm.123", "Machine::work(int)"),
            ("helper.llvm.123", "helper"),
            ("helper.llvm.x", "helper.llvm.x"),
            ("helper.llvm.x.llvm.7", "helper.llvm.x"),
            ("helper.llvm.1.llvm.7", "helper.llvm.1"),
            ("main.(*T).Method", "main.(*T).Method"),
            ("?", "?"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(*demangle(mangled), *name);
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
            assert_eq!(*with_variable_arguments(name.into()), *expected);
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
            assert_eq!(*demangle(&name), *name);
        }
    }

    #[test]
    fn a_name_too_long_to_demangle_stays() {
        let long = format!("?{}", "A".repeat(MANGLED));
        assert_eq!(*demangle(&long), *long);
    }

    /// By Itanium's rules, two levels are `void (*)(a, a)` and the same of that; each level has twice
    /// the text.
    fn doubling(levels: usize) -> String {
        const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut name = "_Z1fP1aPFvS0_S0_E".to_owned();
        for level in 1..levels {
            let last = char::from(DIGITS[2 * level]);
            write!(name, "PFvS{last}_S{last}_E").expect("a string takes all");
        }
        name
    }

    /// By Microsoft's: a pointer to a function with pointers to the function before.
    fn doubling_of_microsoft(levels: usize, each: usize) -> String {
        let references = |level: usize| level.to_string().repeat(each);
        let lists = (0..levels).map(|level| format!("P6AX{}@Z", references(level)));
        format!("?f@@YAXP6AXPAH@Z{}@Z", lists.collect::<String>())
    }

    #[test]
    fn a_short_name_that_stands_for_megabytes_is_cut() {
        for levels in [10, 14, 16, 17] {
            let name = demangle(&doubling(levels));
            assert!(name.len() <= NAME_SHOWN, "{levels}: {} bytes", name.len());
            assert!(name.starts_with("f(a*, void (*)(a*, a*)"), "{levels}: {name}");
        }
        assert_ne!(demangle(&doubling(14)), demangle(&doubling(15)));
        let simple = doubling_of_microsoft(2, 2);
        assert!(demangle(&simple).starts_with("f(void (*)("), "{}", demangle(&simple));
        let complex = doubling_of_microsoft(9, 90);
        assert_eq!(*demangle(&complex), *complex);
    }

    #[test]
    fn the_names_of_a_file_are_demangled_up_to_a_sum() {
        let demangler = Demangler::of(0);
        let name = doubling(14);
        let cut = (0..10_000).filter(|_| *demangler.shown(&name) != *name).count() as u64;
        assert_eq!(cut, budget::steps(0).div_ceil(NAME_SHOWN as u64));
        assert!(demangler.note().is_some() && Demangler::of(0).note().is_none());
    }
}
