//! Demangles names by Microsoft's rules, with their parameters: overloads differ in nothing else.
//!
//! `msvc_demangler` reads most names. Where it does not know a construct yet, the name is rewritten here
//! with one that it knows.

use crate::budget;
use msvc_demangler::DemangleFlags;
use std::borrow::Cow;

/// Writes functions as the reader of PDBs writes procedures: `Conv::put(char const*) const`.
const WITH_PARAMETERS: DemangleFlags = DemangleFlags::NO_ACCESS_SPECIFIERS
    .union(DemangleFlags::NO_FUNCTION_RETURNS)
    .union(DemangleFlags::NO_MEMBER_TYPE)
    .union(DemangleFlags::NO_MS_KEYWORDS)
    .union(DemangleFlags::NO_CLASS_TYPE)
    .union(DemangleFlags::SPACE_AFTER_COMMA)
    .union(DemangleFlags::HUG_TYPE);

/// LLVM's and Microsoft's tools write this before the name of code that only adjusts `this` and jumps
/// to the function.
const THUNK: &str = "[thunk]: ";

/// Demangles a name; `None` if the demangler does not know its form. `parts` is what [`parts`] counts
/// in the name.
pub(super) fn demangle(name: &str, parts: u64) -> Option<String> {
    let (own, suffix) = split_suffix(name);
    let longest = own.split('@').map(str::len).max().unwrap_or(0) as u64;
    // The demangler writes every part in full, however long the name becomes.
    let is_short = parts.saturating_mul(longest) <= budget::steps(0);
    let flags = if is_short { WITH_PARAMETERS } else { DemangleFlags::NAME_ONLY };
    let read = |name: &str| {
        let parsed = msvc_demangler::parse(name).ok()?;
        let is_thunk = matches!(&parsed.symbol_type,
            msvc_demangler::Type::MemberFunction(class, ..)
                if class.contains(msvc_demangler::FuncClass::THUNK));
        Some((msvc_demangler::serialize(&parsed, flags), is_thunk))
    };
    let (known, is_spaceship) = with_known_operator(own);
    let (text, is_thunk) = read(&known)
        .or_else(|| read(&with_known_types(&known)))
        .or_else(|| Some((read(&without_displacement(&known)?)?.0, true)))?;
    let operator = if is_spaceship { "operator<=>" } else { "operator co_await" };
    let text = text.replace(" co_await", operator).replace("(void)", "()");
    let mark = if is_thunk { THUNK } else { "" };
    Some(format!("{mark}{text}{suffix}"))
}

/// Splits off the suffix that compilers append to a function's name for a part of the function:
/// `$filt$0`, `$_ResumeCoro$1`, `.cold`.
fn split_suffix(name: &str) -> (&str, &str) {
    let last = name.rfind('@').map_or(0, |at| at + 1);
    let tail = name.get(last..).unwrap_or_default();
    let end =
        tail.match_indices(['$', '.']).map(|(at, _)| at).find(|&at| tail[..at].ends_with('Z'));
    end.map_or((name, ""), |end| name.split_at(last + end))
}

/// Replaces `operator<=>`, which the demangler does not know, with `operator co_await`, which it knows,
/// and tells whether it did.
fn with_known_operator(name: &str) -> (Cow<'_, str>, bool) {
    const SPACESHIP: [&str; 2] = ["??__M", "?$?__M"];
    if name.contains("?__L") || !SPACESHIP.iter().any(|operator| name.contains(operator)) {
        return (name.into(), false);
    }
    (name.replace("??__M", "??__L").replace("?$?__M", "?$?__L").into(), true)
}

/// Removes marks of types that the demangler does not know: those of C functions, and `__unaligned`
/// together with `__restrict`.
fn with_known_types(name: &str) -> String {
    name.replace("$$J0", "").replace("PEIF", "PE")
}

/// Turns the name of a thunk that adjusts by a virtual base's displacement (`$0` to `$5`, and two
/// numbers) into the name of the function that it leads to.
fn without_displacement(name: &str) -> Option<String> {
    let (scope, rest) = name.split_once("@@$")?;
    let rest = rest.strip_prefix(['0', '1', '2', '3', '4', '5'])?;
    let rest = without_number(without_number(rest)?)?;
    Some(format!("{scope}@@U{rest}"))
}

/// Removes a number from the front: a digit, or letters up to `@`.
fn without_number(text: &str) -> Option<&str> {
    let text = text.strip_prefix('?').unwrap_or(text);
    if let Some(rest) = text.strip_prefix(|digit: char| digit.is_ascii_digit()) {
        return Some(rest);
    }
    let (number, rest) = text.split_once('@')?;
    number.bytes().all(|letter| matches!(letter, b'A'..=b'P')).then_some(rest)
}

/// The most parts that one name may have.
pub(super) const PARTS_MAX: u64 = 1 << 20;

/// An upper bound of the number of parts that a name has once its references are replaced by what they
/// refer to, as the demangler does before it writes anything. In a list of parameters (`6` or `8` begins
/// that of a function, `?$` that of a template) each digit may stand for the longest list before it.
pub(super) fn parts(name: &str) -> u64 {
    let mut parts: u64 = 1;
    let mut digits: u64 = 0;
    let mut before = *b"  ";
    for byte in name.bytes() {
        let opens = match byte {
            b'$' => before[1] == b'?',
            b'6' | b'8' => matches!(before[1], b'P'..=b'S' | b'A'),
            _ => false,
        };
        if opens {
            parts = parts.saturating_mul(1 + digits);
            digits = 0;
        } else if byte.is_ascii_digit() {
            digits += 1;
        }
        before = [before[1], byte];
    }
    parts.saturating_mul(1 + digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are those of `llvm-undname` without access, calling conventions and return types.
    #[test]
    fn names_as_llvm_has_them() {
        for (mangled, name) in [
            ("?put@Conv@@QEAAHH@Z", "Conv::put(int)"),
            ("?put@Conv@@QEAAHN@Z", "Conv::put(double)"),
            ("?put@Conv@@QEBAHPEBD@Z", "Conv::put(char const*) const"),
            ("?f@@YAXXZ", "f()"),
            ("?v@@YAXHZZ", "v(int, ...)"),
            ("?g@@YAXP6AXXZ@Z", "g(void (*)())"),
            ("??$max@H@@YAHHH@Z", "max<int>(int, int)"),
            ("?f@?1??g@@YAXXZ@YAHH@Z", "`g()'::`2'::f(int)"),
            ("?x@@3HA", "x"),
            ("??__L@YA?AUT@@AEAU0@@Z", "operator co_await(T&)"),
            ("??__LA@@QEAA@XZ", "A::operator co_await()"),
            ("??__MA@@QEBA?AW4X@@AEBU0@@Z", "A::operator<=>(A const&) const"),
            ("??$f@$$J0H@@YAXXZ", "f<int>()"),
            ("?f@@YAXPEIFAH@Z", "f(int*)"),
            ("??_EBase@@W7EAAPEAXI@Z", "[thunk]: Base::`vector deleting destructor'(unsigned int)"),
            ("?f@A@@$4PPPPPPPM@A@EAAXXZ", "[thunk]: A::f()"),
            ("?f@@YAXXZ$filt$0", "f()$filt$0"),
            ("?f@@YAXPEAU?$S@H@@@Z$_ResumeCoro$1", "f(S<int>*)$_ResumeCoro$1"),
            ("?f@@YAXH@Z.cold", "f(int).cold"),
            ("?f@@YAX$$QEAH@Z", "f(int&&)"),
        ] {
            assert_eq!(demangle(mangled, parts(mangled)).as_deref(), Some(name), "{mangled}");
        }
        for unknown in ["?", "??__Mx", "?f@@$4", "?f@A@@$4PPP", "??__M"] {
            assert_eq!(demangle(unknown, parts(unknown)), None, "{unknown}");
        }
    }
}
